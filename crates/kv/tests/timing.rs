//! How long a round must be: `τ ≥ δ + ε + C_send + C_recv`, tried on virtual time with delays, costs and clocks at their bounds.
//! It is enough, and one nanosecond less is not.
#![allow(clippy::unwrap_used, reason = "a test")]

use contract::{Span, Time};
use kv::{Config, ConfigError, Key, KeyId, Lane, LinkKey, LinkTimes, Node, NodeSet, Setup, Start, Step};
use std::collections::BTreeMap;
use std::sync::Arc;

const LINK: LinkTimes = LinkTimes {
    delay_max: Span::micros(900),
    clock_error: Span::micros(300),
    send: Span::micros(150),
    receive: Span::micros(250),
};

/// With a round of this length, and links that are said to be so.
fn config(round: Span, link: LinkTimes) -> Config {
    Config {
        nodes: (0..4).map(|n| format!("n{n}")).collect(),
        keys: vec![Key::named("k")],
        round: Some(round),
        link,
        ..Config::default()
    }
}

fn lanes(setup: &Arc<Setup>, first: Time) -> Vec<Lane> {
    let links = vec![LinkKey([9; 32]); 4];
    (0..4).map(|me| Lane::new(setup.clone(), Node(me), &links, Start::Founding, first)).collect()
}

enum Event {
    /// A frame has come from a node, and its receiver has read it.
    Taken(usize, Vec<u8>),
    /// The job of the node begins.
    Begin,
    /// Its round ends.
    End,
}

/// What a node does and when. Frames that come at the moment in which a round ends are still of it.
type Agenda = BTreeMap<(Time, u8, u32), (usize, Event)>;

/// All nodes: how far each clock is ahead, and who does what when.
struct World {
    lanes: Vec<Lane>,
    ahead: [Span; 4],
    agenda: Agenda,
    random: fastrand::Rng,
    count: u32,
}

impl World {
    fn plan(&mut self, at: Time, node: usize, event: Event) {
        self.count += 1;
        self.agenda.insert((at, u8::from(!matches!(event, Event::Taken(..))), self.count), (node, event));
    }

    /// Zero or the bound, mostly; something in between at times.
    fn up_to(&mut self, bound: Span) -> Span {
        Span([0, bound.0, bound.0, self.random.i64(0..=bound.0)][self.random.usize(..4)])
    }

    fn send(&mut self, now: Time, from: usize) {
        for to in (0..4).filter(|&to| to != from) {
            let frame = self.lanes[from].frame(Node::at(to));
            let bytes = [&frame.head[..], frame.body].concat();
            let way = self.up_to(LINK.send) + self.up_to(LINK.delay_max) + self.up_to(LINK.receive);
            self.plan(now + way, to, Event::Taken(from, bytes));
        }
        let Step::Wait { until, .. } = self.lanes[from].step(Time::ZERO) else { panic!("node 3 is silent") };
        self.plan(until - self.ahead[from], from, Event::End);
    }
}

/// One job in which node 3 is silent, so that every round lasts as long as it may. Whom each correct node has missed, and how
/// many values it has published.
fn run(setup: &Arc<Setup>, seed: u64) -> Vec<(NodeSet, u32)> {
    let release = setup.first_release(Time::ZERO);
    let mut random = fastrand::Rng::with_seed(seed);
    let ahead = std::array::from_fn(|_| Span(random.i64(0..2) * LINK.clock_error.0));
    let lanes = lanes(setup, release);
    let mut world = World { lanes, ahead, agenda: Agenda::new(), random, count: 0 };
    for (node, ahead) in ahead.into_iter().enumerate().take(3) {
        world.lanes[node].write(KeyId(0), b"v", release + Span::millis(40), Time::ZERO).unwrap();
        world.plan(release - ahead, node, Event::Begin);
    }
    let mut over = 0;
    while let Some(((now, _, _), (node, event))) = world.agenda.pop_first() {
        let local = now + world.ahead[node];
        match event {
            // One that is late is dropped, and is missed below.
            Event::Taken(from, bytes) => drop(world.lanes[node].take(Node::at(from), &bytes)),
            Event::Begin => {
                world.lanes[node].begin(release, local).unwrap();
                world.send(now, node);
            }
            Event::End => match world.lanes[node].step(local) {
                Step::Send => world.send(now, node),
                step => {
                    assert_eq!(step, Step::Over);
                    over += 1;
                }
            },
        }
    }
    assert_eq!(over, 3);
    let correct = world.lanes[..3].iter_mut().map(|lane| {
        lane.fuse();
        let outcome = lane.publish(release + Span::millis(39), &mut ());
        (outcome.silent, outcome.published)
    });
    correct.collect()
}

#[test]
fn with_the_shortest_round_all_correct_nodes_are_heard_in_every_round() {
    let setup = Setup::new(config(LINK.round_min(), LINK)).unwrap();
    let three: NodeSet = [Node(3)].into_iter().collect();
    for seed in 0..2_000 {
        assert_eq!(run(&setup, seed), [(three, 1); 3], "seed {seed}");
    }
}

#[test]
fn one_nanosecond_less_is_refused_and_would_not_do() {
    let round = LINK.round_min() - Span(1);
    let problems = Setup::new(config(round, LINK)).unwrap_err();
    assert_eq!(problems, [ConfigError::RoundTooShort { round, needed: LINK.round_min() }]);
    let understated = LinkTimes { delay_max: LINK.delay_max - Span(1), ..LINK };
    let setup = Setup::new(config(round, understated)).unwrap();
    let missed = |seed: &u64| run(&setup, *seed).iter().any(|(silent, _)| silent.len() > 1);
    assert!((0..2_000).filter(missed).count() > 100);
}
