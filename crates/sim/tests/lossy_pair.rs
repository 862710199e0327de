//! A primary that lives keeps the reign whatever its link to the backup loses, and a dead one loses it in time.

use broker::{Detection, Policy};
use contract::admission::Costs;
use contract::{Contract, Delays, Mutant, Span, Supply};
use sim::{
    Act, ClockError, Fault, Findings, Latency, Pace, PublisherSpec, Scenario, SubscriberSpec, Target,
    TopicSpec, When, World,
};

/// A pair whose link loses and delays, with ten topics, for 40 s, and these faults.
fn lossy(loss_ppm: u32, pair: Latency, faults: Vec<Fault>) -> Scenario {
    let (near, clock) = (Latency::fixed(Span::micros(100)), ClockError::default());
    let costs = Costs::of_messages(Span(500), Span(500), Span(500));
    let topic = |number: usize| TopicSpec {
        name: format!("t{number}"),
        contract: Contract { retain: 20, deadline: Span::millis(500), ..Contract::every(Span::millis(50)) },
        stated: true,
        payload_bytes: sim::PAYLOAD_BYTES_MIN,
        pace: Pace::Periodic,
    };
    let publisher = PublisherSpec {
        name: "p".to_owned(),
        topics: (0..10).map(topic).collect(),
        latency: near,
        clock,
        starts: Span::millis(500),
    };
    let subscriber = SubscriberSpec {
        name: "s".to_owned(),
        filters: vec!["#".to_owned()],
        best_effort: false,
        latency: near,
        clock,
        starts: Span::millis(200),
    };
    Scenario {
        span: Span::secs(40),
        delays: Delays { failover: Span::millis(300), ..Delays::default() },
        links: Default::default(),
        costs: Costs { turn: Span::micros(5), ..costs },
        true_costs: Costs { turn: Span::micros(5), ..costs },
        request_cost: Span::ZERO,
        supply: Supply { share_ppm: 900_000, blocking: Span::millis(1) },
        schedulability: true,
        best_effort_subscriptions: false,
        policy: Policy::Frame,
        replication: Default::default(),
        detection: Detection { connect: Span::millis(100), ..Detection::default() },
        limits: Default::default(),
        topics: Vec::new(),
        clocks: [clock; 2],
        pair,
        pair_loss_ppm: loss_ppm,
        window_bytes: 4 << 20,
        publishers: vec![publisher],
        subscribers: vec![subscriber],
        processing: Vec::new(),
        later: Vec::new(),
        devices: Vec::new(),
        mqtt: mqtt::Limits::default(),
        workers: 1,
        snapshots: Span::millis(100),
        operator_cost: Latency::fixed(Span::ZERO),
        faults,
        assumed: false,
    }
}

/// Loss in millionths, delay in milliseconds, and by how much it may be off.
const LINKS: [(u32, i64, i64); 9] = [
    (0, 0, 0),
    (1_000, 0, 0),
    (10_000, 0, 0),
    (0, 3, 2),
    (1_000, 3, 2),
    (10_000, 3, 2),
    (0, 10, 5),
    (1_000, 10, 5),
    (10_000, 10, 5),
];

fn latency(delay: i64, off: i64) -> Latency {
    let millis = |millis: i64| Span(millis * 1_000_000 + 50_000);
    Latency { least: millis(delay - off), typical: millis(delay), most: millis(delay + off) }
}

fn play(scenario: &Scenario, seed: u64) -> Findings {
    let outcome = World::play_sampled(scenario, seed);
    assert!(outcome.violation.is_none(), "{:?}", outcome.violation);
    outcome.findings
}

#[test]
fn nobody_takes_the_reign_of_a_primary_that_lives() {
    for (loss, delay, off) in LINKS {
        for seed in 0..3 {
            let findings = play(&lossy(loss, latency(delay, off), Vec::new()), seed);
            assert_eq!(
                findings.promotions.len(),
                1,
                "{loss} ppm, {delay} ms, seed {seed}: {:?}",
                findings.promotions
            );
        }
    }
}

#[test]
fn without_heartbeats_a_lost_segment_is_taken_for_a_death() {
    Mutant::switch(Some(Mutant::IgnoreHeartbeats));
    let findings = play(&lossy(10_000, latency(3, 2), Vec::new()), 0);
    Mutant::switch(None);
    assert!(findings.promotions.len() > 3, "{:?}", findings.promotions);
}

#[test]
fn a_dead_primary_is_succeeded_in_time_however_lossy_the_link_is() {
    for (loss, delay, off) in LINKS {
        let act = Act::HostCrash { target: Target::Primary, restart: Some(Span::secs(5)) };
        let faults = vec![Fault { when: When::At(Span::secs(20)), act }];
        let findings = play(&lossy(loss, latency(delay, off), faults), 1);
        let [first, second] = findings.promotions[..] else {
            panic!("{loss} ppm, {delay} ms: {:?}", findings.promotions)
        };
        let took = second - first.max(Span::secs(20));
        assert!(took <= Span::millis(90 + delay), "{loss} ppm, {delay} ms: {took}");
        let worst = findings.streams.iter().map(|stream| stream.worst_run).max();
        assert_eq!(worst, Some(0), "{loss} ppm, {delay} ms");
    }
}
