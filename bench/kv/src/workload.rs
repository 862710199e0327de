//! The keys and tasks of each load. The same on all nodes and stores: only names, periods and sizes.

use crate::arguments::{Load, Tasks};
use crate::pendulum;
use contract::{Span, Time};
use verge_kv::Releases;

/// The longest value.
pub const VALUE_BYTES_MAX: usize = 16;

/// A value as it travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Value {
    bytes: [u8; VALUE_BYTES_MAX],
    len: u8,
}

impl Value {
    /// `None` if it is too long for this bench.
    pub fn of(bytes: &[u8]) -> Option<Value> {
        let mut value = Value { bytes: [0; VALUE_BYTES_MAX], len: bytes.len() as u8 };
        value.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(value)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// What a liar writes in its place.
    pub fn twisted(mut self) -> Value {
        self.bytes[..usize::from(self.len)].iter_mut().for_each(|byte| *byte ^= 0x5a);
        self
    }
}

/// A key of a lane.
#[derive(Clone, Debug)]
pub struct Key {
    pub name: String,
    /// How long its values are.
    pub bytes: usize,
    /// The period of the task that writes it.
    pub writer_period: Span,
}

/// One task, by numbers of keys in its lane.
#[derive(Clone, Debug)]
pub struct Task {
    pub lane: u16,
    pub period: Span,
    pub reads: Vec<usize>,
    pub writes: Vec<usize>,
    pub is_controller: bool,
}

/// All that a node runs. Lanes have the same keys and tasks.
pub struct Workload {
    pub keys: Vec<Key>,
    pub tasks: Vec<Task>,
}

/// Of the automotive load, in units of its fastest task.
const PERIODS: [u64; 4] = [1, 2, 4, 20];
/// Of a hundred labels of an engine controller, how many have up to so many bytes (Kramer, Ziegenbein, Hamann, *Real world automotive
/// benchmarks for free*, 2015; longer ones are left out).
const SIZES: [(usize, usize); 5] = [(35, 1), (84, 2), (97, 4), (98, 8), (100, 16)];

impl Workload {
    pub fn new(plan: &Tasks) -> Workload {
        let one = match plan.load {
            Load::Control => Workload::control(plan.tasks, plan.period),
            Load::Automotive => Workload::automotive(plan.keys, plan.period),
            Load::Uniform => Workload::uniform(plan.keys, plan.period),
        };
        let in_lane = |lane| one.tasks.iter().map(move |task| Task { lane, ..task.clone() });
        Workload { tasks: (0..plan.lanes).flat_map(in_lane).collect(), keys: one.keys }
    }

    /// Each controller reads and writes its own numbers.
    fn control(tasks: usize, period: Span) -> Workload {
        let numbers = pendulum::NUMBERS;
        let key = |at: usize| Key {
            name: format!("p{}/{}", at / numbers, at % numbers),
            bytes: 8,
            writer_period: period,
        };
        let task = |task: usize| {
            let own: Vec<usize> = (task * numbers..(task + 1) * numbers).collect();
            Task { lane: 0, period, reads: own.clone(), writes: own, is_controller: true }
        };
        Workload { keys: (0..tasks * numbers).map(key).collect(), tasks: (0..tasks).map(task).collect() }
    }

    /// Every fourth key is written by the same task. A task reads its own keys, and those of the next one.
    fn automotive(count: usize, unit: Span) -> Workload {
        let key = |at: usize| labelled(at, unit * PERIODS[at % PERIODS.len()]);
        let of = |task: usize| (0..count).filter(move |at| at % PERIODS.len() == task % PERIODS.len());
        let task = |task: usize| Task {
            lane: 0,
            period: unit * PERIODS[task],
            reads: of(task).chain(of(task + 1)).collect(),
            writes: of(task).collect(),
            is_controller: false,
        };
        Workload { keys: (0..count).map(key).collect(), tasks: (0..PERIODS.len()).map(task).collect() }
    }

    /// One task reads and writes all keys.
    pub fn uniform(count: usize, period: Span) -> Workload {
        let all: Vec<usize> = (0..count).collect();
        let task = Task { lane: 0, period, reads: all.clone(), writes: all, is_controller: false };
        Workload { keys: (0..count).map(|at| labelled(at, period)).collect(), tasks: vec![task] }
    }

    /// I3, I4: the oldest stamp that will do for a task.
    pub fn freshness(&self, key: usize, task: &Task, release: Time) -> Time {
        let writer_period = self.keys[key].writer_period;
        if writer_period > task.period {
            Releases::latest(release, writer_period)
        } else {
            release - task.period
        }
    }

    /// The stamp that the newest value of a key has at a release if nothing has failed.
    pub fn newest(&self, key: usize, release: Time) -> Time {
        Releases::latest(release, self.keys[key].writer_period)
    }
}

fn labelled(at: usize, writer_period: Span) -> Key {
    // 37 and 100 have no common divisor: sizes are spread over the tasks.
    let place = at * 37 % 100;
    let bytes = SIZES.iter().find(|(below, _)| place < *below).map_or(VALUE_BYTES_MAX, |(_, bytes)| *bytes);
    Key { name: format!("k/{at}"), bytes, writer_period }
}

/// What a correct node writes under a key that is no controller's, for an instant.
pub fn expected(at: usize, key: &Key, stamp: Time) -> Value {
    let mut hash = Hash::default();
    hash.add(&at.to_le_bytes());
    hash.add(&stamp.0.to_le_bytes());
    let mut value = Value { bytes: [0; VALUE_BYTES_MAX], len: key.bytes as u8 };
    let digits = [hash.0.to_le_bytes(), hash.0.rotate_left(29).to_le_bytes()];
    let places = value.bytes.iter_mut().take(key.bytes);
    places.zip(digits.as_flattened()).for_each(|(place, digit)| *place = *digit);
    value
}

/// FNV-1a, to compare what nodes have read.
#[derive(Clone, Copy)]
pub struct Hash(pub u64);

impl Default for Hash {
    fn default() -> Hash {
        Hash(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_is_what_comes_back_and_nothing_else() {
        let workload = Workload::automotive(905, Span::millis(50));
        for (at, key) in workload.keys.iter().enumerate() {
            let value = expected(at, key, Time(1_000));
            assert_eq!((value.as_bytes().len(), Value::of(value.as_bytes())), (key.bytes, Some(value)));
            assert_ne!(value, value.twisted());
        }
        assert_eq!(Value::of(&[0; VALUE_BYTES_MAX + 1]), None);
    }

    #[test]
    fn every_key_of_a_load_has_one_writer_and_is_read() {
        for workload in [
            Workload::control(4, Span::millis(50)),
            Workload::automotive(905, Span::millis(50)),
            Workload::uniform(300, Span::millis(50)),
        ] {
            for (at, key) in workload.keys.iter().enumerate() {
                let writers: Vec<&Task> =
                    workload.tasks.iter().filter(|task| task.writes.contains(&at)).collect();
                assert!(writers.len() == 1 && writers[0].period == key.writer_period, "{key:?}");
                assert!(workload.tasks.iter().any(|task| task.reads.contains(&at)), "{key:?}");
            }
        }
    }
}
