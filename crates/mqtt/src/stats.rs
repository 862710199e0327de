//! Counters and gauges of a gateway.

/// Counts since the process started, and what there is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Connections now.
    pub connections: u64,
    /// Sessions now, connected or not.
    pub sessions: u64,
    /// Subscriptions now.
    pub subscriptions: u64,
    /// Retained messages now.
    pub retained: u64,
    /// Bytes of those.
    pub retained_bytes: u64,
    /// Messages now that wait for sessions.
    pub waiting: u64,
    /// Bytes of those.
    pub waiting_bytes: u64,
    /// Connections taken.
    pub accepted: u64,
    /// Clients let in.
    pub connects: u64,
    /// Clients that were not.
    pub connects_refused: u64,
    /// Of those, because of a user name, password or certificate.
    pub logins_refused: u64,
    /// Connections and sessions refused because a limit was reached.
    pub refused_full: u64,
    /// Clients sent to the other broker.
    pub redirected: u64,
    /// Clients that said farewell.
    pub disconnects: u64,
    /// Clients whose connection the broker ended.
    pub expelled: u64,
    /// Clients that came again while they were connected.
    pub taken_over: u64,
    /// Clients that were silent for too long.
    pub keep_alive_missed: u64,
    /// Sessions that ended because their client stayed away.
    pub sessions_expired: u64,
    /// Packets that broke the protocol.
    pub malformed: u64,
    /// Packets taken.
    pub packets_received: u64,
    /// Messages from clients.
    pub messages_received: u64,
    /// Bytes of those.
    pub bytes_received: u64,
    /// Messages to clients.
    pub messages_sent: u64,
    /// Bytes of those.
    pub bytes_sent: u64,
    /// Messages for clients that were dropped: they did not read, did not come, or a limit was reached.
    pub dropped: u64,
    /// Messages that expired before they could be sent.
    pub expired: u64,
    /// Messages that the broker did not take.
    pub refused_messages: u64,
    /// Publications and subscriptions that were not allowed.
    pub not_authorized: u64,
    /// Retained messages that were not kept because a limit was reached.
    pub retained_refused: u64,
    /// Wills published.
    pub wills: u64,
}
