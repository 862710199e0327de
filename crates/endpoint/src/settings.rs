//! What an endpoint is told at start.

use contract::{Contract, Span};
use std::fmt;
use wire::limits::STREAMS_MAX;

/// Most brokers that a client may have: each has two bits of sixteen, one of them for the way through it.
pub const BROKERS_MAX: usize = 8;

/// Messages may wait for a paced link for so many seconds.
const PACED_WAITS: u64 = 3;
/// So many bytes of them may wait in any case.
const PACED_BYTES_MIN: usize = 64 << 10;

/// The limits of one client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Topics that it publishes.
    pub publications: usize,
    /// Filters that it subscribes.
    pub subscriptions: usize,
    /// Streams that it receives, and numbers that a broker may give them.
    pub streams: usize,
    /// Bytes that may wait for the primary; above it, publishing is refused.
    pub backlog_bytes: usize,
    /// Bytes that may wait on a link while streams are registered or messages sent again.
    pub catch_up_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            publications: STREAMS_MAX,
            subscriptions: 256,
            streams: STREAMS_MAX,
            backlog_bytes: 8 << 20,
            catch_up_bytes: 256 << 10,
        }
    }
}

/// What a client says of who it is.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Credentials {
    /// The name of the user; empty for nobody.
    pub user: String,
    /// The user's password.
    pub password: String,
}

/// The password is not shown.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Everything that an endpoint is told at start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name. A client that comes back under its name comes back to its streams and subscriptions.
    pub name: String,
    /// Who it is.
    pub credentials: Credentials,
    /// When its process started, in nanoseconds since the Unix epoch.
    pub incarnation: u64,
    /// How many brokers there are; the driver knows their addresses.
    pub brokers: u8,
    /// The time between two polls of each broker.
    pub poll: Span,
    /// How many polls in a row may stay unanswered, while nothing else comes, before the connection is given up.
    pub misses: u32,
    /// How long an attempt to connect may take.
    pub connect: Span,
    /// The time between two attempts.
    pub retry: Span,
    /// The failover time of the deployment. A missing message counts as lost when it has not come within its
    /// deadline, this and one second.
    pub failover: Span,
    /// It is a site's link, which is told what is subscribed.
    pub crosses: bool,
    /// It is told as well what is published in the site.
    pub hears_topics: bool,
    /// Bytes in a second that its brokers and it send each other at most, on a link that is too thin for more.
    pub pace: Option<u64>,
    /// What it gets is handed on, and confirmed when the next one has it, not when it has come.
    pub hands_on: bool,
    /// It is told how messages came through another protocol, with what belongs to them: its brokers take it for the link of a site.
    pub hears_properties: bool,
    /// Times are turned from our clock into that of the brokers, and back.
    pub translates: bool,
    /// Limits.
    pub limits: Limits,
}

impl Settings {
    /// The usual settings for a client of this name.
    pub fn new(name: &str, incarnation: u64, brokers: u8) -> Settings {
        Settings {
            name: name.to_owned(),
            credentials: Credentials::default(),
            incarnation,
            brokers,
            poll: wire::limits::CLIENT_POLL,
            misses: 10,
            connect: Span::millis(1_000),
            retry: Span::millis(50),
            failover: Span::millis(50),
            crosses: false,
            hears_topics: false,
            pace: None,
            hands_on: false,
            hears_properties: false,
            translates: false,
            limits: Limits::default(),
        }
    }

    /// Bytes that may wait for the primary. What waits longer for a paced link is worth less than what comes then.
    pub(crate) fn backlog_bytes(&self) -> usize {
        let paced = |rate: u64| usize::try_from(PACED_WAITS.saturating_mul(rate)).unwrap_or(usize::MAX);
        let waits = self.pace.map_or(usize::MAX, |rate| paced(rate).max(PACED_BYTES_MIN));
        self.limits.backlog_bytes.min(waits)
    }

    /// How long a missing message is waited for.
    pub(crate) fn settle(&self, contract: &Contract) -> Span {
        contract.deadline + self.failover + Span::secs(1)
    }
}
