//! What becomes ready late in a turn is done in that turn.

use broker::{Detection, Policy};
use contract::admission::Costs;
use contract::{Contract, Delays, Span, Supply};
use sim::{
    Act, ClockError, Fault, Latency, Pace, PublisherSpec, Scenario, SubscriberSpec, Target, TopicSpec, When,
    World,
};

/// One confirmed topic, whose publisher and subscriber are far away, and these faults.
fn far_away(faults: Vec<Fault>) -> Scenario {
    let contract = Contract::every(Span::millis(200)).confirmed();
    let (far, clock) = (Latency::fixed(Span::millis(30)), ClockError::default());
    let cost = Span::micros(1);
    let costs = Costs::of_messages(cost, cost, cost);
    let topic = TopicSpec {
        name: "t".to_owned(),
        contract,
        stated: true,
        payload_bytes: sim::PAYLOAD_BYTES_MIN,
        pace: Pace::Periodic,
    };
    let (publisher, subscriber) = ("p".to_owned(), "s".to_owned());
    Scenario {
        span: Span::secs(6),
        delays: Delays { publisher_to_broker: Span::millis(40), ..Delays::default() },
        links: Default::default(),
        costs: Costs { turn: Span::micros(5), ..costs },
        true_costs: Costs { turn: Span::micros(5), ..costs },
        request_cost: Span::ZERO,
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
        publishers: vec![PublisherSpec {
            name: publisher,
            topics: vec![topic],
            latency: far,
            clock,
            starts: Span::secs(1),
        }],
        subscribers: vec![SubscriberSpec {
            name: subscriber,
            filters: vec!["t".to_owned()],
            best_effort: false,
            latency: far,
            clock,
            starts: Span::millis(500),
        }],
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

#[test]
fn copies_leave_as_soon_as_the_clock_has_promoted_their_broker() {
    let (begins, dies) = (Span::secs(3), Span::millis(3_500));
    let (from, to) = (vec![Target::Broker(0)], vec![Target::Subscriber(0)]);
    let partition = Act::Partition { from, to, one_way: false, span: Span::secs(1) };
    let crash = Act::HostCrash { target: Target::Broker(0), restart: Some(Span::secs(1)) };
    let faults = vec![
        Fault { when: When::At(begins), act: partition },
        // Nobody is told: the backup's own clock finds out, by polls that stay unanswered.
        Fault { when: When::At(dies), act: crash },
    ];
    let outcome = World::play_sampled(&far_away(faults), 1);
    assert!(outcome.violation.is_none(), "{:?}", outcome.violation);
    // The publisher has kept the last of them only.
    let waited = outcome.findings.samples.iter().filter(|sample| sample.at > begins && sample.at < dies);
    let arrivals: Vec<Span> = waited.map(|sample| sample.at + sample.latency - dies).collect();
    assert!(arrivals.len() >= 2 && arrivals[0] > Span::ZERO, "{arrivals:?}");
    // Two polls unanswered, each looked at twice, and the way. The first word of a client, which would wake the broker
    // as well, comes 60 ms after the promotion.
    let most = Span::millis(40) + Span::millis(30) + Span::millis(1);
    assert!(arrivals[0] <= most, "{arrivals:?} after the primary's death");
}
