//! `$SYS/broker/…`: what monitoring of MQTT brokers looks at, under the names that it knows.

use super::deliver::Own;
use super::{Gateway, Rules};
use crate::ids::SessionId;
use crate::stats::Stats;
use crate::tree::{Entry, Matches};
use contract::{Span, Time, invariant};
use std::fmt::Write;
use wire::Effects;

/// What the broker around says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BrokerFigures {
    /// When it started.
    pub started: Time,
    /// Messages that came, by any protocol.
    pub arrived: u64,
    /// Messages dispatched, to subscribers of any protocol.
    pub dispatched: u64,
    /// Bytes of messages kept.
    pub stored_bytes: u64,
}

/// What is published now and then.
#[derive(Clone, Debug, Default)]
pub(super) struct Sys {
    broker: BrokerFigures,
    text: String,
    matches: Matches,
}

/// How a value is said.
type Value = fn(Time, &Stats, &BrokerFigures, &mut String);

/// The topics, each with how its value is said.
const TOPICS: &[(&str, Value)] = &[
    ("$SYS/broker/version", |_, _, _, out| out.push_str(concat!("verge ", env!("CARGO_PKG_VERSION")))),
    ("$SYS/broker/uptime", |now, _, broker, out| {
        let _ = write!(
            out,
            "{} seconds",
            now.since(broker.started).max(Span::ZERO).as_nanos_u64() / 1_000_000_000
        );
    }),
    ("$SYS/broker/clients/connected", |_, stats, _, out| number(out, stats.connections)),
    ("$SYS/broker/clients/active", |_, stats, _, out| number(out, stats.connections)),
    ("$SYS/broker/clients/disconnected", |_, stats, _, out| {
        number(out, stats.sessions.saturating_sub(stats.connections));
    }),
    ("$SYS/broker/clients/inactive", |_, stats, _, out| {
        number(out, stats.sessions.saturating_sub(stats.connections));
    }),
    ("$SYS/broker/clients/total", |_, stats, _, out| number(out, stats.sessions)),
    ("$SYS/broker/clients/expired", |_, stats, _, out| number(out, stats.sessions_expired)),
    ("$SYS/broker/subscriptions/count", |_, stats, _, out| number(out, stats.subscriptions)),
    ("$SYS/broker/retained messages/count", |_, stats, _, out| number(out, stats.retained)),
    ("$SYS/broker/store/messages/count", |_, stats, _, out| number(out, stats.waiting)),
    ("$SYS/broker/store/messages/bytes", |_, stats, _, out| number(out, stats.waiting_bytes)),
    ("$SYS/broker/messages/received", |_, _, broker, out| number(out, broker.arrived)),
    ("$SYS/broker/messages/sent", |_, stats, _, out| number(out, stats.messages_sent)),
    ("$SYS/broker/publish/messages/received", |_, stats, _, out| number(out, stats.messages_received)),
    ("$SYS/broker/publish/messages/sent", |_, stats, _, out| number(out, stats.messages_sent)),
    ("$SYS/broker/publish/messages/dropped", |_, stats, _, out| number(out, stats.dropped)),
    ("$SYS/broker/publish/bytes/received", |_, stats, _, out| number(out, stats.bytes_received)),
    ("$SYS/broker/publish/bytes/sent", |_, stats, _, out| number(out, stats.bytes_sent)),
];

fn number(out: &mut String, value: u64) {
    let _ = write!(out, "{value}");
}

impl<R: Rules> Gateway<R> {
    /// What the broker around says of itself now.
    pub fn set_broker(&mut self, broker: BrokerFigures) {
        self.sys.broker = broker;
    }

    /// Publishes them all, and comes back after the interval.
    pub(super) fn publish_sys(&mut self, now: Time, net: &mut impl Effects) {
        for (topic, value) in TOPICS {
            self.publish_own(now, topic, |stats, broker, out| value(now, stats, broker, out), net);
        }
        self.sys_again(now);
    }

    /// Publishes one topic of the broker's own to those who subscribe it now.
    fn publish_own(
        &mut self,
        now: Time,
        topic: &str,
        value: impl FnOnce(&Stats, &BrokerFigures, &mut String),
        net: &mut impl Effects,
    ) {
        let mut sys = std::mem::take(&mut self.sys);
        self.find(topic, &mut sys.matches);
        if !sys.matches.is_empty() {
            sys.text.clear();
            value(&self.stats(), &sys.broker, &mut sys.text);
            for row in sys.matches.rows() {
                let own = Own { topic, payload: sys.text.as_bytes(), retain: false };
                self.give_own(now, row.session, &own, &Entry::default(), net);
            }
        }
        self.sys = sys;
    }

    /// Publishes something that has happened, on a topic of the broker's own.
    pub fn announce(&mut self, now: Time, topic: &str, text: &str, net: &mut impl Effects) {
        self.publish_own(now, topic, |_, _, out| out.push_str(text), net);
    }

    /// Gives a new subscriber the values as they are now.
    pub(super) fn give_sys(
        &mut self,
        now: Time,
        index: SessionId,
        filter: &str,
        entry: &Entry,
        net: &mut impl Effects,
    ) {
        if !filter.starts_with("$SYS/") {
            return;
        }
        let Ok(filter) = filter.parse::<contract::TopicFilter>() else {
            return invariant!("a filter that was subscribed is one");
        };
        let (stats, broker) = (self.stats(), self.sys.broker);
        let mut text = String::new();
        for (topic, value) in TOPICS.iter().filter(|(topic, _)| filter.matches(topic)) {
            text.clear();
            value(now, &stats, &broker, &mut text);
            let own = Own { topic, payload: text.as_bytes(), retain: true };
            self.give_own(now, index, &own, entry, net);
        }
    }
}
