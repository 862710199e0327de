//! A client, as whoever asks is told of it.

use contract::Time;

/// One client, of whatever protocol. It is sent as a JSON object: nothing but people and their tools reads it, and another column must not
/// be another protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientRow<'a> {
    /// Its name.
    pub client: &'a str,
    /// What it speaks, or spoke last.
    pub protocol: &'a str,
    /// Who it is; empty where that is not known here.
    pub user: &'a str,
    /// Where it comes from; empty where that is not known, or it is away.
    pub address: &'a str,
    /// Whether it is connected.
    pub connected: bool,
    /// Since when it is, or since when it is not; [`Time::ZERO`] where nobody here knows.
    pub since: Time,
    /// How many filters it has subscribed to.
    pub subscriptions: usize,
    /// Messages that wait for it.
    pub queued: usize,
    /// Messages that it has been sent and has not answered.
    pub in_flight: usize,
    /// Messages that it has not been given, since it did not come or read.
    pub dropped: u64,
}
