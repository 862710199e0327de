//! A node for tests: a real lane of one node, driven by hand, with a socket in front of it.
#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(clippy::unwrap_used, reason = "tests fail by panics")]

pub mod house;

use contract::{Span, Time};
use kv::{Config, Format, Key, Lane, LinkKey, Mode, Node, Setup, Start, Step, Vote};
use kv_shared::{Backend, Quotas, RingProblem, RingReader, Seat, State, Store, StoreWriter, clock};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Of so many stamps of each key it is known what their values were made of.
pub const VECTORS: usize = 2;

/// One node that may write all keys but `theirs`.
pub fn config() -> Config {
    Config {
        nodes: vec!["only".into(), "other".into()],
        faults: 0,
        mode: Mode::Crash,
        period: Span::millis(20),
        offset: Span::millis(10),
        keys: vec![
            Key::named("pendulum/angle").vote(Vote::Median(Format::F64)),
            Key::named("a"),
            Key::of_one("theirs", Node(1)),
            Key::of_one("mine", Node(0)).vote(Vote::Max(Format::I64)),
            Key::named("text").vote(Vote::Min(Format::Decimal)),
        ],
        batch_tuples_max: Some(30),
        ..Config::default()
    }
}

pub fn setup(config: Config) -> Arc<Setup> {
    Setup::new(config).unwrap()
}

/// A lane, what it shares, and who writes to it.
pub struct Node1 {
    pub lane: Lane,
    pub writer: StoreWriter,
    pub seats: Seats,
    pub problems: Vec<(u32, RingProblem)>,
    /// What the lane did not take.
    pub refused: u64,
}

#[derive(Debug)]
pub struct Rings {
    pub quotas: Quotas,
    pub rings: BTreeMap<u32, RingReader>,
}

pub type Seats = Arc<Mutex<Rings>>;

impl Node1 {
    pub fn new(setup: &Arc<Setup>, first: Time) -> Node1 {
        let links = vec![LinkKey([0; 32]); setup.nodes()];
        let lane = Lane::new(setup.clone(), Node(0), &links, Start::Founded, first);
        let writer = StoreWriter::create_with_vectors(setup, Node(0), VECTORS).unwrap();
        let release = setup.release_after(first - Span(1));
        writer.set_counts_from(release);
        writer.begun(setup.job_at(release).unwrap().saturating_sub(1));
        writer.set_state(State::Running);
        writer.beat(first);
        let rings = Rings { quotas: Quotas::new(setup.batch_tuples_max()), rings: BTreeMap::new() };
        Node1 { lane, writer, seats: Arc::new(Mutex::new(rings)), problems: Vec::new(), refused: 0 }
    }

    pub fn backend(&self) -> Arc<dyn Backend> {
        let store = Arc::new(self.writer.reader().unwrap());
        let vectors = Arc::new(self.writer.vectors().unwrap().unwrap());
        Arc::new(Desk { store, vectors, setup: self.lane.setup().clone(), seats: self.seats.clone() })
    }

    /// The job of this release, from beginning to end. The other node is silent.
    pub fn job(&mut self, release: Time) -> kv::Outcome {
        let setup = self.lane.setup().clone();
        let number = setup.job_at(release).unwrap();
        self.writer.beat(release);
        self.writer.begun(number);
        for (slot, ring) in &mut self.seats.lock().unwrap().rings {
            let lane = &mut self.lane;
            let refused = &mut self.refused;
            let drained = ring.drain(|key, stamp, value| {
                *refused += u64::from(lane.write(key, value, stamp, release).is_err());
            });
            self.problems.extend(drained.err().map(|problem| (*slot, problem)));
        }
        self.lane.begin(release, release).unwrap();
        self.lane.silence(Node(1));
        while self.lane.step(release + setup.round() * setup.rounds() as u64) != Step::Over {}
        self.lane.fuse();
        let outcome = self.lane.publish(release, &mut self.writer);
        self.writer.finished(number);
        outcome
    }

    /// Jobs on the clock until `stop` says so.
    pub fn run(mut self, stop: impl Fn() -> bool) -> Node1 {
        let setup = self.lane.setup().clone();
        let mut release = setup.release_after(clock::now());
        while !stop() {
            let now = clock::sleep_towards(release).unwrap_or(Time::ZERO);
            self.writer.beat(clock::now());
            if now >= release {
                self.job(release);
                release = setup.release_after(clock::now());
            }
        }
        self.writer.set_state(State::Ended);
        self
    }
}

struct Desk {
    store: Arc<Store>,
    vectors: Arc<Store>,
    setup: Arc<Setup>,
    seats: Seats,
}

impl Backend for Desk {
    fn store(&self, lane: u16) -> Option<Arc<Store>> {
        (lane == 0).then(|| self.store.clone())
    }

    fn vectors(&self, lane: u16) -> Option<Arc<Store>> {
        (lane == 0).then(|| self.vectors.clone())
    }

    fn nodes(&self) -> Vec<String> {
        self.setup.config().nodes.clone()
    }

    fn attach(&self, _lane: u16, tuples: usize, _name: &str) -> Result<Seat, String> {
        let mut seats = self.seats.lock().unwrap();
        let slot = seats.quotas.take(tuples).map_err(|error| error.to_string())?;
        let ring = RingReader::create(&self.setup, tuples).unwrap();
        let file = ring.file().try_clone_to_owned().unwrap();
        seats.rings.insert(slot, ring);
        Ok(Seat { slot, ring: file })
    }

    fn detach(&self, _lane: u16, slot: u32) {
        let mut seats = self.seats.lock().unwrap();
        seats.quotas.give_back(slot);
        seats.rings.remove(&slot);
    }

    fn status(&self) -> serde_json::Value {
        serde_json::json!({ "clients": self.seats.lock().unwrap().rings.len() })
    }
}

/// A place for a socket that no other test has.
pub fn socket_path(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("verge-kv-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder.join("kv.sock")
}

/// Waits for a condition; a test that hangs has failed.
pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..15_000 {
        if condition() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    panic!("{what} did not come within 30 s");
}
