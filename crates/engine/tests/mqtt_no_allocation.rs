//! In steady state a broker allocates nothing for MQTT either: counted by the allocator, from a client's PUBLISH to the
//! subscribers' acknowledgements.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use broker::Settings;
use contract::{NodeId, Span, Time};
use engine::testing::Silent;
use engine::{BrokerNode, Node};
use mqtt::packet::Version;
use mqtt::testing::{QoS, encode_5, publish, subscribe, v5};
use simulation::Wires;
use std::num::NonZeroU16;
use wire::{LinkChange, LinkId, Protocol};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

const SUBSCRIBERS: u32 = 3;

/// Messages at a time; more than the window, so that some wait in the queue.
const BURST: u16 = 20;

fn while_messages_flow(qos: QoS, session_expiry: u32, keeps: bool) -> u64 {
    let now = Time(1_000_000_000_000);
    let cost = Span(100);
    let costs = contract::admission::Costs::of_messages(cost, cost, cost);
    let settings = Settings { has_peer: false, costs, ..Settings::new("a", NodeId(1), now) };
    let limits = mqtt::Limits { sys_interval: Span::ZERO, inflight: 16, ..Default::default() };
    let fallback = contract::Contract::unstated();
    let told = mqtt::Settings { limits, fallback, server_references: Default::default(), node: 1 };
    let node = BrokerNode::new(settings, Silent { keeps });
    let mut node = node.with_gateway(mqtt::Gateway::new(told, mqtt::Open));
    // The publisher's connection is the last.
    let mut net = Wires::default();
    let mut now = now + Span::secs(5);
    node.handle_timeout(now, &mut net);
    for link in 0..=SUBSCRIBERS {
        let hello = v5::Connect {
            client_id: format!("client {link}").into(),
            session_expiry_interval_secs: session_expiry,
            // The second subscriber is sent the topic by its number.
            topic_alias_max: if link == 1 { 4 } else { 0 },
            ..Default::default()
        };
        node.handle_link(now, LinkId(link), LinkChange::Accepted(Protocol::Mqtt), &mut net);
        node.handle_bytes(now, LinkId(link), &encode_5(hello.into()).unwrap(), &mut net);
        let wants = subscribe(Version::V5, NonZeroU16::MIN, "hall/+/heat", qos).unwrap();
        if link < SUBSCRIBERS {
            node.handle_bytes(now, LinkId(link), &wants, &mut net);
        }
    }
    let burst: Vec<u8> = (1..=BURST)
        .flat_map(|id| {
            let id = if qos == QoS::AtMostOnce { 0 } else { id };
            publish(Version::V5, "hall/3/heat", qos, id, &[7; 100]).unwrap()
        })
        .collect();
    let (mut begun, mut acknowledged) = (0, 0_u16);
    for round in 0..700 {
        if round == 200 {
            begun = counting::allocations();
        }
        now = now + Span::millis(1);
        node.handle_bytes(now, LinkId(SUBSCRIBERS), &burst, &mut net);
        while node.run(now, &mut net) {}
        for _ in 0..if qos == QoS::AtMostOnce { 0 } else { BURST } {
            acknowledged += 1;
            let [high, low] = acknowledged.to_be_bytes();
            for link in 0..SUBSCRIBERS {
                node.handle_bytes(now, LinkId(link), &[0x40, 2, high, low], &mut net);
            }
        }
        node.handle_timeout(now, &mut net);
        net.drain();
    }
    let allocations = counting::allocations() - begun;
    let stats = node.gateway().unwrap().stats();
    assert_eq!(stats.messages_sent, u64::from(SUBSCRIBERS) * 700 * u64::from(BURST));
    assert_eq!((stats.dropped, stats.waiting, net.ended.len()), (0, 0, 0));
    allocations
}

#[test]
fn messages_to_clients_of_mqtt_allocate_nothing() {
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce] {
        for (session_expiry, keeps) in [(0, false), (3_600, false), (3_600, true)] {
            let allocations = while_messages_flow(qos, session_expiry, keeps);
            assert_eq!(
                allocations, 0,
                "allocations for 10 000 messages to three: {qos:?}, sessions of {session_expiry} s, store: {keeps}"
            );
        }
    }
}
