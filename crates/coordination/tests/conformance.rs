//! A real service and the model that simulators use answer alike.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod service;

use contract::{Span, Time};
use federation::{Lasting, Operation, Reply, Request};
use service::{Server, Talk};
use simulation::Coordination;
use std::collections::{BTreeMap, BTreeSet};

const SESSIONS: usize = 2;
const STEPS: usize = 400;

/// Names that mean the same to both: sessions, and when nodes were created.
#[derive(Default)]
struct Meanings {
    owners: BTreeMap<i64, i64>,
    created: BTreeMap<(String, i64), i64>,
}

fn path(random: &mut fastrand::Rng) -> String {
    (0..random.usize(1..4)).map(|_| format!("/{}", ["a", "b"][random.usize(..2)])).collect()
}

fn operation(random: &mut fastrand::Rng) -> Operation {
    let (path, data) = (path(random), vec![random.u8(..); random.usize(..3)]);
    let version = [None, None, Some(0), Some(1)][random.usize(..4)];
    match random.u32(..10) {
        0..5 => {
            let lasting =
                [Lasting::Persistent, Lasting::Persistent, Lasting::Ephemeral, Lasting::EphemeralSequential];
            Operation::Create { path, data, lasting: lasting[random.usize(..4)] }
        }
        5..7 => Operation::Set { path, data, version },
        7..9 => Operation::Delete { path, version },
        _ => Operation::Check { path, version },
    }
}

fn request(random: &mut fastrand::Rng) -> Request {
    match random.u32(..10) {
        0..2 => Request::Read { path: path(random) },
        2..4 => Request::List { path: path(random) },
        _ => Request::Write((0..random.usize(1..4)).map(|_| operation(random)).collect()),
    }
}

/// Whether both mean the same.
fn agree(meanings: &mut Meanings, asked: &Request, real: &Reply, modelled: &Reply) -> bool {
    match (asked, real, modelled) {
        (Request::Read { path }, Reply::Node(Some(real)), Reply::Node(Some(modelled))) => {
            let owner = meanings.owners.get(&modelled.stat.owner) == Some(&real.stat.owner);
            let created = meanings.created.entry((path.clone(), modelled.stat.created));
            let created = *created.or_insert(real.stat.created) == real.stat.created;
            owner && created && real.data == modelled.data && real.stat.version == modelled.stat.version
        }
        (Request::List { .. }, Reply::Children(Some(real)), Reply::Children(Some(modelled))) => {
            let mut real = real.clone();
            real.sort();
            real == *modelled
        }
        _ => real == modelled,
    }
}

/// Both, side by side.
struct Pair {
    model: Coordination,
    talks: Vec<(Talk, i64)>,
    /// What the model says must have rung, by session.
    rings: Vec<Vec<String>>,
    meanings: Meanings,
    /// Kinds of answers that have come.
    seen: BTreeSet<String>,
}

/// What kind of answer it is.
fn kind(reply: &Reply) -> String {
    match reply {
        Reply::Node(node) => format!("node {}", node.is_some()),
        Reply::Children(names) => format!("children {}", names.is_some()),
        Reply::Written(names) => format!("written {}", names.iter().any(Option::is_some)),
        Reply::Refused { operation, why } => format!("{why:?} at {}", usize::from(*operation > 0)),
        Reply::Lost => "lost".to_owned(),
    }
}

/// All that can come of requests here: a node that is forbidden cannot.
const KINDS: [&str; 16] = [
    "Exists at 0",
    "Exists at 1",
    "Missing at 0",
    "Missing at 1",
    "NotEmpty at 0",
    "NotEmpty at 1",
    "Other at 0",
    "Other at 1",
    "Version at 0",
    "Version at 1",
    "children false",
    "children true",
    "node false",
    "node true",
    "written false",
    "written true",
];

impl Pair {
    fn new(server: &Server, namespace: &str) -> Pair {
        let mut pair = Pair {
            model: Coordination::new(Span::secs(5)),
            talks: Vec::new(),
            rings: Vec::new(),
            meanings: Meanings::default(),
            seen: BTreeSet::new(),
        };
        pair.meanings.owners.insert(0, 0);
        (0..SESSIONS).for_each(|_| pair.connect(server, namespace));
        pair
    }

    fn connect(&mut self, server: &Server, namespace: &str) {
        let (talk, real) = Talk::connected(server.settings(namespace));
        let modelled = self.model.connect(Time::ZERO, None);
        self.meanings.owners.insert(modelled, real);
        self.talks.push((talk, modelled));
        self.rings.push(Vec::new());
    }

    fn rang(&mut self, rings: Vec<simulation::Ring>) {
        for ring in rings {
            let place = self.talks.iter().position(|(_, session)| *session == ring.session).unwrap();
            self.rings[place].push(ring.path);
        }
    }

    fn step(&mut self, place: usize, asked: &Request, seed: u64) {
        let (talk, session) = &mut self.talks[place];
        let real = talk.answer(asked.clone());
        let (modelled, rings) = self.model.answer(*session, asked);
        let alike = agree(&mut self.meanings, asked, &real, &modelled);
        assert!(alike, "seed {seed}: {asked:?} is answered {real:?} and by the model {modelled:?}");
        self.seen.insert(kind(&real));
        self.rang(rings);
    }

    /// What has rung until now is the same. Answers come after rings, so that one more brings all of them.
    fn compare_rings(&mut self, seed: u64) {
        for ((talk, _), expected) in self.talks.iter_mut().zip(&mut self.rings) {
            talk.until("all rings", |talk| talk.rings.len() >= expected.len());
            talk.answer(Request::Write(vec![Operation::Check { path: "/none".to_owned(), version: None }]));
            let (mut real, mut expected) = (std::mem::take(&mut talk.rings), std::mem::take(expected));
            real.sort();
            expected.sort();
            assert_eq!(real, expected, "seed {seed}: watches ring alike");
        }
    }

    /// A session is closed: what it owned goes, and who watched that hears of it.
    fn end(&mut self, place: usize) {
        let (talk, session) = self.talks.remove(place);
        self.rings.remove(place);
        talk.zookeeper.close();
        let rings = self.model.end(session);
        self.rang(rings);
    }
}

#[test]
fn what_is_asked_at_random_is_answered_as_the_model_does() {
    let Some(server) = Server::start() else { return };
    let mut seen = BTreeSet::new();
    for seed in 0..6 {
        let namespace = format!("/conformance/{seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut pair = Pair::new(&server, &namespace);
        for step in 0..STEPS {
            pair.step(random.usize(..SESSIONS), &request(&mut random), seed);
            if step % 10 == 9 {
                pair.compare_rings(seed);
            }
            if step % 50 == 49 {
                pair.end(random.usize(..SESSIONS));
                pair.compare_rings(seed);
                pair.connect(&server, &namespace);
            }
        }
        seen.append(&mut pair.seen);
    }
    assert!(seen.iter().eq(KINDS.iter()), "{seen:?}");
}
