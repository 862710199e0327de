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
    /// What filters of subscriptions take of memory, about.
    pub filters_bytes: u64,
    /// The most that there may be of sessions, of subscriptions, of bytes of their filters, of retained messages and of bytes of those.
    pub most: [u64; 5],
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
    /// Of those, because a session's queue was full.
    pub queue_full: u64,
    /// Messages that were refused again and again, and were acknowledged and dropped at last.
    pub given_up: u64,
    /// Messages for a member of a shared group that has gone, which another member was given.
    pub passed_on: u64,
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

impl Stats {
    /// Every number, by the name of its metric.
    pub fn each(&self, hear: &mut impl FnMut(&'static str, u64)) {
        hear("verge_mqtt_connections", self.connections);
        hear("verge_mqtt_sessions", self.sessions);
        hear("verge_mqtt_subscriptions", self.subscriptions);
        hear("verge_mqtt_retained_messages", self.retained);
        hear("verge_mqtt_retained_bytes", self.retained_bytes);
        hear("verge_mqtt_filters_bytes", self.filters_bytes);
        let names = [
            "verge_mqtt_sessions_max",
            "verge_mqtt_subscriptions_max",
            "verge_mqtt_filters_bytes_max",
            "verge_mqtt_retained_messages_max",
            "verge_mqtt_retained_bytes_max",
        ];
        names.into_iter().zip(self.most).for_each(|(name, most)| hear(name, most));
        hear("verge_mqtt_waiting_messages", self.waiting);
        hear("verge_mqtt_waiting_bytes", self.waiting_bytes);
        hear("verge_mqtt_accepted_total", self.accepted);
        hear("verge_mqtt_connects_total", self.connects);
        hear("verge_mqtt_connects_refused_total", self.connects_refused);
        hear("verge_mqtt_logins_refused_total", self.logins_refused);
        hear("verge_mqtt_refused_full_total", self.refused_full);
        hear("verge_mqtt_redirected_total", self.redirected);
        hear("verge_mqtt_disconnects_total", self.disconnects);
        hear("verge_mqtt_expelled_total", self.expelled);
        hear("verge_mqtt_taken_over_total", self.taken_over);
        hear("verge_mqtt_keep_alive_missed_total", self.keep_alive_missed);
        hear("verge_mqtt_sessions_expired_total", self.sessions_expired);
        hear("verge_mqtt_malformed_total", self.malformed);
        hear("verge_mqtt_packets_received_total", self.packets_received);
        hear("verge_mqtt_messages_received_total", self.messages_received);
        hear("verge_mqtt_received_bytes_total", self.bytes_received);
        hear("verge_mqtt_messages_sent_total", self.messages_sent);
        hear("verge_mqtt_sent_bytes_total", self.bytes_sent);
        hear("verge_mqtt_dropped_total", self.dropped);
        hear("verge_mqtt_queue_full_total", self.queue_full);
        hear("verge_mqtt_given_up_total", self.given_up);
        hear("verge_mqtt_passed_on_total", self.passed_on);
        hear("verge_mqtt_expired_total", self.expired);
        hear("verge_mqtt_messages_refused_total", self.refused_messages);
        hear("verge_mqtt_not_authorized_total", self.not_authorized);
        hear("verge_mqtt_retained_refused_total", self.retained_refused);
        hear("verge_mqtt_wills_total", self.wills);
    }
}
