//! A broker without a partner in its settings, on an invented network and at invented times.

use crate::BATCH;
use broker::{Settings, Snapshot};
use contract::admission::Costs;
use contract::{NodeId, Span, Time};
use engine::testing::Silent;
use engine::{BrokerNode, Node};
use simulation::Wires;
use wire::{Counters, LinkChange, LinkId, Protocol};

/// The time between two messages.
pub(crate) const PERIOD: Span = Span::micros(100);
/// When the first batch arrives, long after the broker has begun to reign.
pub(crate) const BEGIN: Time = Time(1_000_000_000_000);

/// The broker, its connections and the time.
pub(crate) struct Bench {
    pub(crate) node: BrokerNode<Silent>,
    net: Wires,
    now: Time,
}

impl Bench {
    /// `fit` adds to the node what the scenario needs.
    pub(crate) fn new(fit: impl FnOnce(BrokerNode<Silent>) -> BrokerNode<Silent>) -> Bench {
        let started = BEGIN - Span::secs(10);
        let cost = Span(100);
        let settings = Settings {
            has_peer: false,
            costs: Costs::of_messages(cost, cost, cost),
            // Subscribers say nothing for as long as it takes.
            limits: broker::Limits { silence: Span::secs(3_600), ..Default::default() },
            ..Settings::new("broker", NodeId(1), started)
        };
        let mut bench = Bench {
            node: fit(BrokerNode::new(settings, Silent::default())),
            net: Wires::default(),
            now: started,
        };
        bench.node.handle_timeout(started, &mut bench.net);
        bench.now = BEGIN;
        bench.node.handle_timeout(BEGIN, &mut bench.net);
        assert!(bench.node.broker().is_primary());
        bench
    }

    /// Somebody connects and says this.
    pub(crate) fn enter(&mut self, link: LinkId, protocol: Protocol, first: &[u8]) {
        self.node.handle_link(self.now, link, LinkChange::Accepted(protocol), &mut self.net);
        self.command(link, first);
    }

    /// Commands arrive, each of which may take several turns. Returns when all is done.
    pub(crate) fn command(&mut self, link: LinkId, bytes: &[u8]) {
        let mut rest = bytes;
        loop {
            rest = &rest[self.node.handle_bytes(self.now, link, rest, &mut self.net)..];
            if rest.is_empty() && self.node.next_deadline() > Time::ZERO {
                return;
            }
            self.node.handle_timeout(self.now, &mut self.net);
        }
    }

    /// Bytes arrive, all of them whole.
    pub(crate) fn feed(&mut self, link: LinkId, bytes: &[u8]) {
        let consumed = self.node.handle_bytes(self.now, link, bytes, &mut self.net);
        assert_eq!(consumed, bytes.len());
    }

    /// One turn of a driver: bytes arrive, the node works, what it wrote leaves. Then it is time for the next batch.
    pub(crate) fn turn(&mut self, link: LinkId, bytes: &[u8]) {
        self.feed(link, bytes);
        while self.node.run(self.now, &mut self.net) {}
        if self.node.next_deadline() <= self.now {
            self.node.handle_timeout(self.now, &mut self.net);
        }
        self.net.drain();
    }

    /// It is time for the next batch.
    pub(crate) fn pass(&mut self) {
        self.pass_by(PERIOD * BATCH);
    }

    /// So much time passes.
    pub(crate) fn pass_by(&mut self, time: Span) {
        self.now = self.now + time;
    }

    /// The broker's counters, after nothing went wrong.
    pub(crate) fn counters(&self) -> Counters {
        let mut snapshot = Snapshot::default();
        self.node.fill(self.now, &mut snapshot);
        let node = snapshot.node.counters;
        assert_eq!(self.net.ended, [], "connections ended");
        let bad = [node.overrun, node.dropped, node.rate_violations, node.duplicates, node.clock_ahead];
        assert_eq!(bad, [0; 5], "overrun, dropped, too fast, duplicate, of the future");
        node
    }
}
