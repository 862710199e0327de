//! A broker that is asked for many streams at once lives, and is not taken for dead.

use broker::{Detection, Policy};
use contract::admission::Costs;
use contract::{Contract, Delays, Loss, Span, Supply};
use sim::{ClockError, Latency, Pace, PublisherSpec, Scenario, TopicSpec, World};

/// These publishers come at the same time, each with so many topics.
fn asked_at_once(publishers: usize, topics: usize) -> Scenario {
    let (near, clock) = (Latency::fixed(Span::micros(100)), ClockError::default());
    let costs = Costs::of_messages(Span(100), Span(100), Span(100));
    let contract = Contract { loss: Loss::Unbounded, ..Contract::every(Span::secs(10)) };
    let topic = |publisher: usize, topic: usize| TopicSpec {
        name: format!("p{publisher}/{topic}"),
        contract,
        stated: true,
        payload_bytes: sim::PAYLOAD_BYTES_MIN,
        pace: Pace::Periodic,
    };
    let publisher = |index: usize| PublisherSpec {
        name: format!("p{index}"),
        topics: (0..topics).map(|number| topic(index, number)).collect(),
        latency: near,
        clock,
        starts: Span::millis(500),
    };
    Scenario {
        span: Span::secs(2),
        delays: Delays::default(),
        links: Default::default(),
        costs: Costs { turn: Span::micros(5), ..costs },
        true_costs: Costs { turn: Span::micros(5), ..costs },
        request_cost: Span::micros(30),
        supply: Supply { share_ppm: 900_000, blocking: Span::millis(1) },
        schedulability: true,
        best_effort_subscriptions: false,
        policy: Policy::Frame,
        replication: Default::default(),
        detection: Detection::default(),
        limits: Default::default(),
        topics: Vec::new(),
        clocks: [clock; 2],
        pair: Latency::fixed(Span::micros(50)),
        pair_loss_ppm: 0,
        window_bytes: 4 << 20,
        publishers: (0..publishers).map(publisher).collect(),
        subscribers: Vec::new(),
        processing: Vec::new(),
        later: Vec::new(),
        devices: Vec::new(),
        mqtt: mqtt::Limits::default(),
        workers: 1,
        snapshots: Span::millis(100),
        operator_cost: Latency::fixed(Span::ZERO),
        faults: Vec::new(),
        assumed: false,
    }
}

#[test]
fn requests_for_many_streams_do_not_move_the_reign() {
    for (publishers, topics) in [(1, 4_000), (6, 1_500), (40, 150)] {
        let outcome = World::play_sampled(&asked_at_once(publishers, topics), 1);
        assert!(outcome.violation.is_none(), "{:?}", outcome.violation);
        let findings = outcome.findings;
        assert_eq!(
            findings.streams.iter().filter(|stream| stream.admitted == Some(true)).count(),
            publishers * topics
        );
        assert_eq!(findings.promotions.len(), 1, "{publishers} publishers: {:?}", findings.promotions);
    }
}
