//! Any bytes on several connections of a whole broker: nothing may panic.
#![no_main]

use broker::{Event, Settings};
use contract::{NodeId, Span, Supply, Time};
use engine::{BrokerNode, Node, Reporter};
use libfuzzer_sys::fuzz_target;
use wire::{
    Effects, Farewell, Frame, LinkChange, LinkId, Mark, MarkKind, Message, MessageKind, Order, PeerIndex, Protocol,
};

struct Silent;

impl Reporter for Silent {
    fn report(&mut self, event: &Event<'_>) {
        let _ = event.to_string();
    }
}

/// Connections that take everything; a closed one is told so in the next step.
#[derive(Default)]
struct Sink {
    closed: Vec<LinkId>,
}

impl Effects for Sink {
    fn send(&mut self, _link: LinkId, frame: &Frame<'_>) {
        frame.encode(&mut Vec::new());
    }
    fn send_message(&mut self, _link: LinkId, _kind: MessageKind, _message: &Message<'_>) {}
    fn send_mark(&mut self, _link: LinkId, _kind: MarkKind, _mark: Mark) {}
    fn backlog(&self, _link: LinkId) -> usize {
        0
    }
    fn shed(&mut self, _link: LinkId, _keep: usize) -> u64 {
        0
    }
    fn taken(&self, _link: LinkId) -> u64 {
        0
    }
    fn hold_back(&mut self, _link: LinkId, _bytes: usize) {}
    fn dial(&mut self, _peer: PeerIndex, _within: Span) {}
    fn close(&mut self, link: LinkId, _farewell: &Farewell<'_>) {
        self.closed.push(link);
    }
    fn append(&mut self, _link: LinkId, _order: Order, _write: impl FnOnce(&mut Vec<u8>)) {}
    fn present_again(&mut self, _link: LinkId) {}
    fn hang_up(&mut self, link: LinkId) {
        self.closed.push(link);
    }
}

const LINKS: u32 = 4;

fuzz_target!(|steps: Vec<(u8, u8, Vec<u8>)>| {
    let mut now = Time(1_000_000_000_000);
    let cost = Span::micros(1);
    let settings = Settings {
        name: "fuzzed".to_owned(),
        node: NodeId(1),
        nonce: [7; 16], started: now,
        prefers_to_reign: true,
        has_peer: true,
        policy: Default::default(),
        replication: Default::default(),
        delays: Default::default(),
        links: Default::default(),
        costs: contract::admission::Costs::of_messages(cost, cost, cost),
        supply: Supply { share_ppm: 900_000, blocking: Span::ZERO },
        schedulability: true,
        best_effort_subscriptions: false,
        topics: Vec::new(),
        detection: Default::default(),
        limits: Default::default(),
    };
    let (mut node, mut sink) = (BrokerNode::new(settings, Silent), Sink::default());
    for link in 0..LINKS {
        node.handle_link(now, LinkId(link), LinkChange::Accepted(Protocol::Verge), &mut sink);
    }
    for (link, millis, bytes) in steps {
        let link = LinkId(u32::from(link) % LINKS);
        node.handle_bytes(now, link, &bytes, &mut sink);
        while node.run(now, &mut sink) {}
        now = now + Span::millis(i64::from(millis));
        if node.next_deadline() <= now {
            node.handle_timeout(now, &mut sink);
        }
        for link in std::mem::take(&mut sink.closed) {
            node.handle_link(now, link, LinkChange::Closed, &mut sink);
            node.handle_link(now, link, LinkChange::Accepted(Protocol::Verge), &mut sink);
        }
    }
});
