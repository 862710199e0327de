//! Admission and the simulator agree where the edge is: what is just admitted is kept, with every cost as it was counted and nothing to
//! spare, and what is well beyond it is not. Else the bound would be unsafe, or worth nothing.
#![allow(clippy::unwrap_used, reason = "a test")]

use broker::{Detection, Policy};
use contract::admission::{Carriers, Costs};
use contract::rounds::Io;
use contract::timing::LinkDelay;
use contract::{Admission, Contract, Delays, LinkClass, Links, Mutant, Receivers, Span, Supply};
use fastrand::Rng;
use sim::{ClockError, Latency, Pace, PublisherSpec, Scenario, SubscriberSpec, TopicSpec, World};
use wire::limits::CLIENT_POLL;

const SUPPLY: Supply = Supply { share_ppm: 1_000_000, blocking: Span::ZERO };
const WAY: Span = Span::micros(100);
/// The way and what clocks may be apart, which is nothing here.
const JITTER: Span = Span::micros(101);

fn links() -> Links {
    Links::new([(LinkClass::EDGE, LinkDelay { to_subscriber: WAY, confirmation: Span::millis(10) })])
}

/// Topics, and who wants all of them, each on a connection of its own.
#[derive(Debug)]
struct Workload {
    costs: Costs,
    publishers: usize,
    topics_each: usize,
    subscribers: usize,
    /// Who asks for best effort.
    watchers: usize,
    period: Span,
    /// Between the first messages of two publishers.
    stagger: Span,
    payload: usize,
}

impl Workload {
    /// A made-up one. `wide`: for many subscribers, which is where turns matter most.
    fn of(random: &mut Rng, wide: bool) -> Workload {
        let micros = |random: &mut Rng, most: i64| Span(random.i64(300..=most * 1_000));
        let tcp = Io { read: micros(random, 4), write: micros(random, 20), kib: micros(random, 1) };
        let turn = micros(random, 30);
        let subscribers = if wide { random.usize(40..=200) } else { random.usize(1..=6) };
        let (publishers, topics_each) =
            if wide { (random.usize(1..=2), 1) } else { (random.usize(1..=12), random.usize(1..=40)) };
        let arrival = micros(random, 3);
        Workload {
            costs: Costs {
                arrival,
                dispatch: if wide { Span(random.i64(100..=900)) } else { micros(random, 3) },
                replication: Span(500),
                turn,
                io: Carriers { tcp, ..Carriers::default() },
            },
            publishers,
            topics_each,
            subscribers,
            period: Span::millis(random.i64(8..=60)),
            payload: random.usize(sim::PAYLOAD_BYTES_MIN..=2_000),
            stagger: if random.bool() { micros(random, 300) } else { Span::ZERO },
            watchers: if random.bool() { random.usize(1..=60) } else { 0 },
        }
    }

    fn contract(&self, deadline: Span) -> Contract {
        let size = self.payload as u32;
        Contract { size, ..Contract::every(self.period).deadline(deadline).best_effort() }
    }

    fn delays() -> Delays {
        Delays { publisher_to_broker: JITTER, ..Delays::default() }
    }

    /// Whether a broker that counts with the true costs would admit all of it.
    fn is_admitted(&self, deadline: Span) -> bool {
        let links = links();
        let mut admission = Admission::new(Self::delays(), links, self.costs, SUPPLY).polled(CLIENT_POLL);
        let clients = (self.publishers + self.subscribers) as u64;
        admission.crowd_mut().add(self.costs.io.tcp.served(true), self.watchers as u64);
        let best_effort = self.watchers as u32;
        let receivers = Receivers { best_effort, ..(self.subscribers as u32).into() };
        admission.crowd_mut().add(self.costs.io.tcp, clients);
        let contract = self.contract(deadline);
        let Ok(plan) = admission.plan(contract) else { return false };
        (0..self.publishers * self.topics_each)
            .all(|_| admission.admit_plan(&plan, &contract, receivers).is_ok())
    }

    /// The shortest deadline with which it is.
    fn edge(&self) -> Option<Span> {
        let (mut refused, mut admitted) = (Span::ZERO, self.period * 4);
        if !self.is_admitted(admitted) {
            return None;
        }
        while admitted.0 - refused.0 > 1_000 {
            let middle = Span((admitted.0 + refused.0) / 2);
            *(if self.is_admitted(middle) { &mut admitted } else { &mut refused }) = middle;
        }
        Some(admitted)
    }

    fn scenario(&self, deadline: Span, schedulability: bool) -> Scenario {
        let (near, clock) = (Latency::fixed(WAY), ClockError::default());
        let topic = |publisher: usize, topic: usize| TopicSpec {
            name: format!("p{publisher}/{topic}"),
            contract: self.contract(deadline),
            stated: true,
            payload_bytes: self.payload,
            pace: Pace::Periodic,
        };
        let publisher = |index: usize| PublisherSpec {
            name: format!("p{index}"),
            topics: (0..self.topics_each).map(|number| topic(index, number)).collect(),
            latency: near,
            clock,
            starts: Span::millis(800) + self.stagger * index as u64,
        };
        let subscriber = |index: usize| SubscriberSpec {
            name: format!("s{index}"),
            filters: vec!["#".to_owned()],
            best_effort: index >= self.subscribers,
            latency: near,
            clock,
            starts: Span::millis(200),
        };
        Scenario {
            span: Span::secs(2),
            delays: Self::delays(),
            links: links(),
            costs: self.costs,
            true_costs: self.costs,
            request_cost: Span::ZERO,
            supply: SUPPLY,
            schedulability,
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
            publishers: (0..self.publishers).map(publisher).collect(),
            subscribers: (0..self.subscribers + self.watchers).map(subscriber).collect(),
            processing: Vec::new(),
            later: Vec::new(),
            devices: Vec::new(),
            mqtt: mqtt::Limits::default(),
            workers: 1,
            snapshots: Span::millis(100),
            operator_cost: Latency::fixed(Span::ZERO),
            faults: Vec::new(),
            assumed: true,
        }
    }

    /// How many messages come, and how many of them late. Everything has to be admitted.
    fn play(&self, deadline: Span, schedulability: bool) -> (u64, u64) {
        let outcome = World::play_sampled(&self.scenario(deadline, schedulability), 1);
        assert!(outcome.violation.is_none(), "{:?} {self:?}", outcome.violation);
        let streams = outcome.findings.streams;
        assert!(streams.iter().all(|stream| stream.admitted == Some(true)), "refused at {deadline}");
        streams.iter().fold((0, 0), |(count, late), stream| {
            let all = stream.calm.and(stream.disturbed);
            (count + all.count, late + all.late)
        })
    }
}

/// A broker that counts messages alone admits a deadline that cannot be kept.
#[test]
fn what_turns_cost_is_noticed_where_admission_leaves_it_out() {
    let mut late_in = 0;
    for seed in 0..10 {
        let workload =
            Workload { watchers: 0, stagger: Span::ZERO, ..Workload::of(&mut Rng::with_seed(seed), true) };
        let ways = WAY + JITTER;
        let Some(edge) = workload.edge() else { continue };
        let deadline = ways + Span((edge - ways).0 * 2 / 5);
        assert!(!workload.is_admitted(deadline));
        Mutant::switch(Some(Mutant::TurnsForNothing));
        let outcome = World::play(&workload.scenario(deadline, true), 1);
        Mutant::switch(None);
        late_in += u64::from(outcome.violation.is_some_and(|violation| violation.checker == "deadlines"));
    }
    assert!(late_in >= 8, "{late_in} of 10");
}

/// The same where it leaves out what is written for those who are served last.
#[test]
fn who_is_served_last_is_noticed_where_admission_leaves_it_out() {
    let (mut tried, mut late_in) = (0, 0);
    for seed in 0..40 {
        let mut workload = Workload::of(&mut Rng::with_seed(seed), false);
        // Two topics for one subscriber, and many who look on. Turns are short but for those, and the second message comes when there is
        // something for them.
        (workload.publishers, workload.topics_each, workload.subscribers, workload.watchers) = (2, 1, 1, 60);
        let (turn, arrival, dispatch) = (Span::micros(1), Span::micros(1), Span::micros(3));
        let tcp = Io { read: Span(1), write: Span(1), kib: workload.costs.io.tcp.kib };
        workload.costs.io.tcp = tcp;
        workload.costs = Costs { turn, arrival, dispatch, ..workload.costs };
        workload.stagger = Span::micros(20 + 2 * seed as i64);
        Mutant::switch(Some(Mutant::LastForNothing));
        let edge = workload.edge();
        Mutant::switch(None);
        let Some(deadline) = edge.filter(|edge| !workload.is_admitted(*edge)) else { continue };
        tried += 1;
        Mutant::switch(Some(Mutant::LastForNothing));
        let outcome = World::play(&workload.scenario(deadline, true), 1);
        Mutant::switch(None);
        late_in += u64::from(outcome.violation.is_some_and(|violation| violation.checker == "deadlines"));
    }
    assert!(tried >= 20 && late_in * 2 >= tried, "{late_in} of {tried}");
}

/// So many workloads of each kind.
const CASES: u64 = 30;

#[test]
fn what_is_just_admitted_is_kept_and_what_is_well_beyond_it_is_not() {
    let first: u64 = fastrand::u64(..);
    for wide in [false, true] {
        let (mut tried, mut beyond) = (0, 0);
        for seed in (0..CASES).map(|number| first.wrapping_add(number)) {
            let workload = Workload::of(&mut Rng::with_seed(seed), wide);
            let Some(edge) = workload.edge() else { continue };
            let (count, late) = workload.play(edge, true);
            assert!(count > 0 && late == 0, "seed {seed}, wide {wide}: {late} of {count} late at {edge}");
            tried += 1;
            if wide {
                let ways = WAY + JITTER;
                let (_, late) = workload.play(ways + Span((edge - ways).0 * 2 / 5), false);
                beyond += u64::from(late > 0);
            }
        }
        assert!(tried >= CASES / 2, "seed {first}, wide {wide}: an edge in {tried} of {CASES}");
        // Of many topics whose messages come at times of their own, all hardly ever come together; one message for many does.
        assert!(
            !wide || 10 * beyond >= 7 * tried,
            "seed {first}: late beyond the edge in {beyond} of {tried}"
        );
    }
}
