//! Any bytes on several connections of a whole broker: nothing may panic.
#![no_main]

use broker::Settings;
use contract::{NodeId, Span, Time};
use engine::testing::Log;
use engine::{BrokerNode, Node};
use libfuzzer_sys::fuzz_target;
use simulation::Wires;
use wire::{LinkChange, LinkId, Protocol};

const LINKS: u32 = 4;

fuzz_target!(|steps: Vec<(u8, u8, Vec<u8>)>| {
    let mut now = Time(1_000_000_000_000);
    let settings = Settings::new("fuzzed", NodeId(1), now);
    let (mut node, mut sink) = (BrokerNode::new(settings, Log::default()), Wires::default());
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
        // Everybody reads what there is.
        sink.drain();
        for link in sink.take_ended() {
            node.handle_link(now, link, LinkChange::Closed, &mut sink);
            node.handle_link(now, link, LinkChange::Accepted(Protocol::Verge), &mut sink);
        }
    }
});
