//! A replica of the controller: an application of its node, which balances one pendulum with the store, and another one without it.
//!
//! Both are the same computation at the same releases. With the store, measurement and memory are what all replicas agreed on;
//! without it, they are the replica's own. Both are a period old.

use super::controller::Memory;
use super::plant::Motion;
use super::stand::Stand;
use super::{FLOATS, MEASURED, NAMES, keys, lie};
use contract::{Span, Time};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;
use verge_kv::{Client, Context, Error, Key, Options};

/// Above that of the nodes' lanes.
const PRIORITY: u8 = 20;
/// The time between two tries to reach a node.
const TRY_AGAIN: Duration = Duration::from_millis(50);

/// Both pendulums.
pub struct World {
    pub with: Stand,
    pub without: Stand,
}

impl World {
    pub fn stands(&mut self) -> impl Iterator<Item = &mut Stand> {
        [&mut self.with, &mut self.without].into_iter()
    }
}

/// What replicas and the demo share.
#[derive(Clone)]
pub struct Shared {
    pub world: Arc<Mutex<World>>,
    /// Whether the liar lies.
    pub lies: Arc<AtomicBool>,
    pub stop: Arc<AtomicBool>,
}

impl Shared {
    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One release of a replica.
pub struct Record {
    pub release: Time,
    /// The stamp and the bits of each value that was read.
    pub read: [Option<(Time, u64)>; FLOATS],
    /// Which of them were written.
    pub written: usize,
}

/// A replica in a thread of its own, which ends when it is told to stop. Returns what it read and wrote.
pub fn start(
    place: usize,
    may_lie: bool,
    socket: PathBuf,
    period: Span,
    shared: Shared,
) -> JoinHandle<Vec<Record>> {
    std::thread::spawn(move || {
        // Refusals only mean that other programs may get in the way.
        verge_kv::realtime(Some(PRIORITY), None);
        let mut replica = Replica { place, may_lie, period, shared, records: Vec::new(), own: None };
        while !replica.shared.stop.load(Ordering::Relaxed) {
            replica.own = None;
            // The node is not there yet, or not there any more: its host is, and tries again.
            if replica.serve(&socket).is_err() {
                sleep(TRY_AGAIN);
            }
        }
        replica.records
    })
}

struct Replica {
    place: usize,
    may_lie: bool,
    period: Span,
    shared: Shared,
    records: Vec<Record>,
    /// Without the store: its own memory, and what it measured a period ago.
    own: Option<(Memory, Motion)>,
}

impl Replica {
    /// Runs in every period while the node lives.
    fn serve(&mut self, socket: &PathBuf) -> Result<(), Error> {
        let options =
            Options { tuples: FLOATS, name: format!("pendulum-{}", NAMES[self.place]), wait: Duration::ZERO };
        let mut lane = Client::attach(socket, 0, &options)?;
        let keys: Vec<Key> = keys().map(|name| lane.key(&name)).collect::<Result<_, _>>()?;
        lane.every(self.period, |job| {
            if self.shared.stop.load(Ordering::Relaxed) || job.node_alive().is_err() {
                return ControlFlow::Break(());
            }
            self.release(job, &keys);
            ControlFlow::Continue(())
        })?;
        Ok(())
    }

    fn release(&mut self, job: &mut Context<'_>, keys: &[Key]) {
        let release = job.release();
        let now = verge_kv::now();
        let [measured, own] = {
            let world = &mut *self.shared.world();
            [&mut world.with, &mut world.without].map(|stand| stand.measure(self.place, now))
        };
        let read = read(job, keys);
        let memory = self.remembered(release, &read);
        let measured = measured.parts();
        let mut written = 0;
        let floats = memory.map(|memory| memory.floats());
        let values = measured.iter().chain(floats.iter().flatten());
        for (key, value) in keys.iter().zip(values) {
            written += usize::from(job.write_number(key, *value).is_ok());
        }
        self.records.push(Record { release, read, written });

        let seconds = self.seconds();
        let (own_memory, before) = self.own.unwrap_or_else(|| (Memory::beginning(own), own));
        let own_memory = own_memory.next(Some(before), seconds);
        self.own = Some((own_memory, own));

        let lying = self.may_lie && self.shared.lies.load(Ordering::Relaxed);
        let said = |memory: Memory| if lying { lie(memory.force) } else { memory.force };
        let (now, world) = (verge_kv::now(), &mut *self.shared.world());
        if let Some(memory) = memory {
            world.with.command(self.place, release, said(memory), now);
        }
        world.without.command(self.place, release, said(own_memory), now);
    }

    /// What all replicas remember at this release, computed from what they agreed on. Where coordinations failed, they do what was
    /// not done then; where there is no memory, they begin anew from the same measurement.
    fn remembered(&self, release: Time, read: &[Option<(Time, u64)>; FLOATS]) -> Option<Memory> {
        let measured = together(&read[..MEASURED.len()]);
        let measured = measured.map(|(stamp, parts)| (stamp, Motion::of(parts)));
        let memory = together(&read[MEASURED.len()..]).map(|(stamp, floats)| (stamp, Memory::of(&floats)));
        let (mut stamp, mut memory) = match (memory, measured) {
            (Some(memory), _) => memory,
            (None, Some((stamp, motion))) => (stamp, Memory::beginning(motion)),
            (None, None) => return None,
        };
        while stamp <= release {
            let then = measured.filter(|measured| measured.0 == stamp).map(|measured| measured.1);
            memory = memory.next(then, self.seconds());
            stamp = stamp + self.period;
        }
        Some(memory)
    }

    fn seconds(&self) -> f64 {
        self.period.0 as f64 / 1e9
    }
}

/// I3: the newest values that are not older than a period.
fn read(job: &Context<'_>, keys: &[Key]) -> [Option<(Time, u64)>; FLOATS] {
    std::array::from_fn(|place| {
        let value = job.read_number::<f64>(&keys[place]).ok()?;
        Some((value.stamp, value.number.to_bits()))
    })
}

/// Values that belong together: all are there, and of one instant.
fn together<const COUNT: usize>(read: &[Option<(Time, u64)>]) -> Option<(Time, [f64; COUNT])> {
    let (stamp, _) = (*read.first()?)?;
    let mut values = [0.0; COUNT];
    for (value, read) in values.iter_mut().zip(read) {
        let (of, bits) = (*read)?;
        if of != stamp {
            return None;
        }
        *value = f64::from_bits(bits);
    }
    Some((stamp, values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_belong_together_if_all_are_there_and_of_one_instant() {
        let value = |stamp: u64, number: f64| Some((Time(stamp), number.to_bits()));
        assert_eq!(together(&[value(5, 1.0), value(5, 2.0)]), Some((Time(5), [1.0, 2.0])));
        assert_eq!(together::<2>(&[value(5, 1.0), value(6, 2.0)]), None);
        assert_eq!(together::<2>(&[value(5, 1.0), None]), None);
    }
}
