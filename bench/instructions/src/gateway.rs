//! A publisher and subscribers of MQTT 5.

use crate::node::Bench;
use crate::{BATCH, Scenario};
use contract::Span;
use mqtt::packet::Version;
use mqtt::testing::{QoS, answer, connect, publish, subscribe};
use std::num::NonZeroU16;
use wire::{LinkId, Protocol};

const PUBLISHER: LinkId = LinkId(0);
const PAYLOAD: [u8; 64] = [7; 64];
/// The number of PUBACK.
const PUBACK: u8 = 4;

/// Messages from one publisher to all subscribers.
pub(crate) struct Flow {
    bench: Bench,
    publications: Vec<u8>,
    /// What each subscriber answers, batch by batch.
    answers: Vec<Vec<u8>>,
    carried: usize,
    subscribers: u32,
}

impl Flow {
    pub(crate) fn new(batches: u64, qos: QoS, subscribers: u32) -> Flow {
        let limits = mqtt::Limits { sys_interval: Span::ZERO, ..Default::default() };
        let fallback = contract::Contract::unstated();
        let told = mqtt::Settings { limits, fallback, server_references: Default::default(), node: 1 };
        let mut bench = Bench::new(|node| node.with_gateway(mqtt::Gateway::new(told, mqtt::Open)));
        for link in (0..=subscribers).map(LinkId) {
            let hello = connect(Version::V5, &format!("client {}", link.0), true);
            bench.enter(link, Protocol::Mqtt, &hello.expect("a proper CONNECT"));
            if link != PUBLISHER {
                let wants = subscribe(Version::V5, NonZeroU16::MIN, "hall/+/heat", qos);
                bench.command(link, &wants.expect("a proper SUBSCRIBE"));
            }
        }
        let answered = qos == QoS::AtLeastOnce;
        let ids = |batch: u64| (batch * BATCH + 1..).take(BATCH as usize);
        let publications = ids(0).flat_map(|id| {
            let id = if answered { id as u16 } else { 0 };
            publish(Version::V5, "hall/3/heat", qos, id, &PAYLOAD).expect("a proper PUBLISH")
        });
        // The broker numbers what it sends from one on, in order.
        let answers = |batch| ids(batch).take(if answered { BATCH as usize } else { 0 });
        let answers = |batch| answers(batch).flat_map(|id| answer(PUBACK, id as u16)).collect();
        let answers = (0..batches).map(answers).collect();
        Flow { bench, publications: publications.collect(), answers, carried: 0, subscribers }
    }
}

impl Scenario for Flow {
    fn carry(&mut self) {
        let answers = &self.answers[self.carried];
        self.carried += 1;
        self.bench.turn(PUBLISHER, &self.publications);
        if !answers.is_empty() {
            for link in (1..=self.subscribers).map(LinkId) {
                self.bench.turn(link, answers);
            }
        }
        self.bench.pass();
    }

    fn check(&mut self, messages: u64) {
        let counters = self.bench.counters();
        assert_eq!([counters.arrived, counters.dispatched], [messages; 2], "arrived, dispatched");
        let stats = self.bench.node.gateway().expect("it was put in").stats();
        assert_eq!(stats.messages_sent, messages * u64::from(self.subscribers), "sent");
        assert_eq!((stats.dropped, stats.waiting), (0, 0), "dropped, waiting");
    }
}
