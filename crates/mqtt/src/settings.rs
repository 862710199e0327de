//! What a gateway is told at start. The values have been checked by whoever read them.

use contract::{Contract, Span, TOPIC_BYTES_MAX, TOPIC_LEVELS_MAX};
use wire::Transport;

/// What clients meet at a broker that does not reign.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Standby {
    /// Its doors are closed, as if nobody listened there: every client tries its other address, and health checks of proxies see it.
    #[default]
    Closed,
    /// They are let in, wait for [`Limits::hold`], and are told which broker reigns, as far as their version has words for that.
    Redirect,
    /// The same, but they are told only that nobody serves them here.
    Unavailable,
}

/// The limits of a gateway. Every table, queue and buffer is bounded by one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections.
    pub connections: usize,
    /// Sessions, connected or not.
    pub sessions: usize,
    /// The largest packet that is taken.
    pub packet_bytes: usize,
    /// The longest topic or filter, in bytes.
    pub topic_bytes: usize,
    /// The deepest topic or filter, in levels.
    pub topic_levels: usize,
    /// Messages of QoS 1 and 2 that one client may send before they are answered.
    pub receive_maximum: u16,
    /// Topic aliases of one client.
    pub topic_aliases: u16,
    /// Topic aliases that one client is given.
    pub topic_aliases_out: u16,
    /// Messages of QoS 1 and 2 that are sent to one client before it answers.
    pub inflight: u16,
    /// Messages that wait for one session. Above it, the oldest is dropped and counted.
    pub queue_messages: usize,
    /// Bytes of messages that wait for sessions, all together. Above it, further ones are dropped and counted.
    pub queue_bytes: usize,
    /// Bytes that may wait on one connection. Above it, messages of QoS 0 are dropped and counted, others queued.
    pub backlog_bytes: usize,
    /// Subscriptions of one session.
    pub subscriptions_per_session: usize,
    /// Subscriptions of all sessions.
    pub subscriptions: usize,
    /// What their filters may take of memory.
    pub filters_bytes: usize,
    /// Retained messages.
    pub retained_messages: usize,
    /// Bytes of retained messages.
    pub retained_bytes: usize,
    /// Topics on which one client publishes that are remembered; above it, all are looked up anew.
    pub topics_per_session: usize,
    /// How long a connection may take to say who it is.
    pub greeting: Span,
    /// For how long a session may outlive its connection.
    pub session_expiry: Span,
    /// The longest keep-alive; longer ones of clients that can be told are shortened to it, and no keep-alive is none.
    pub keep_alive: Span,
    /// How often a message may come that is refused each time and whose client cannot be told. After that it is acknowledged and dropped;
    /// zero: never.
    pub repeats: u32,
    /// Whether a message for a session whose queue is full is refused to its publisher, instead of taking the place of the oldest.
    pub refuses_when_full: bool,
    /// What clients meet while this broker does not reign.
    pub standby: Standby,
    /// How long a client is kept waiting that comes to a broker which does not reign, before it is sent to the other.
    pub hold: Span,
    /// How long sessions that a new primary knows have for coming back before it publishes their wills.
    pub grace: Span,
    /// Between two publications of `$SYS/broker/…`; zero for none.
    pub sys_interval: Span,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 16_384,
            sessions: 65_536,
            packet_bytes: 256 << 10,
            topic_bytes: TOPIC_BYTES_MAX,
            topic_levels: TOPIC_LEVELS_MAX,
            receive_maximum: 1_024,
            topic_aliases: 64,
            topic_aliases_out: 16,
            inflight: 256,
            queue_messages: 1_000,
            queue_bytes: 256 << 20,
            backlog_bytes: 4 << 20,
            subscriptions_per_session: 1_024,
            subscriptions: 200_000,
            filters_bytes: usize::MAX,
            retained_messages: 65_536,
            retained_bytes: 64 << 20,
            topics_per_session: 1_024,
            greeting: Span::secs(5),
            session_expiry: Span::secs(7 * 24 * 3_600),
            keep_alive: Span::secs(3_600),
            repeats: 3,
            refuses_when_full: false,
            standby: Standby::default(),
            hold: Span::millis(300),
            grace: Span::secs(5),
            sys_interval: Span::secs(10),
        }
    }
}

impl Limits {
    /// Whether topics that are such elsewhere may be too long here.
    #[inline]
    pub(crate) fn are_lower(&self) -> bool {
        self.topic_bytes < TOPIC_BYTES_MAX || self.topic_levels < TOPIC_LEVELS_MAX
    }

    /// Why a topic or filter is not taken, if it is too long or too deep.
    pub(crate) fn too_long(&self, topic: &str) -> Option<&'static str> {
        if topic.len() > self.topic_bytes {
            return Some("a topic longer than is taken: shorten it, or have mqtt.topic_bytes raised");
        }
        let text = "a topic with more levels than are taken: shorten it, or have mqtt.topic_levels raised";
        (contract::levels(topic) > self.topic_levels).then_some(text)
    }
}

/// Everything that a gateway is told at start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Limits.
    pub limits: Limits,
    /// What is promised to topics of which nobody has said anything.
    pub fallback: Contract,
    /// Where clients of the other broker connect, for those that come to the wrong one.
    pub server_references: References,
    /// This process, for names that nobody else makes up.
    pub node: u64,
}

/// The listeners of the other broker, each as `host:port`, where it has one of that kind. One that is only `:port` is on the host of
/// this broker, and reached like it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct References {
    /// TCP.
    pub plain: Option<Box<str>>,
    /// TLS.
    pub tls: Option<Box<str>>,
    /// WebSocket.
    pub web_socket: Option<Box<str>>,
    /// WebSocket over TLS.
    pub secure_web_socket: Option<Box<str>>,
}

impl References {
    /// What a client is told that came in this way: the same kind of listener. Where there is none, the one that most clients
    /// can use, TCP or else TLS: the client may know it by the host alone.
    pub fn like(&self, transport: Transport) -> Option<&str> {
        let same = match transport {
            Transport::Plain => &self.plain,
            Transport::Tls | Transport::PairTls => &self.tls,
            Transport::WebSocket => &self.web_socket,
            Transport::SecureWebSocket => &self.secure_web_socket,
        };
        same.as_deref().or(self.plain.as_deref()).or(self.tls.as_deref())
    }
}
