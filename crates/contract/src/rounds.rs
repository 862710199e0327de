//! How long until everything that came has left: the bound for a loop that reads, works and writes by turns.
//!
//! The problem: the demand test (see `demand.rs`) counts what each message costs. A loop pays besides for what it does once in a
//! turn, however much the turn brings: it wakes, reads each connection on which something came, and writes once into each for which there
//! is something. A message for a thousand connections costs a thousand writes; a thousand messages for one connection may cost one. And
//! what leaves, leaves at the end of a turn, so that being first in the queue helps little.
//!
//! The idea: a *round* is the turns in which everything is read, done and written that waited when the round began; mostly it is one. What
//! comes during a round is served in the next one, so a message has left when the round after the one in which it came is over. Two rounds
//! in a row carry what came in two rounds in a row, the ones before each of them.
//!
//! Lemma. Let `w(t)` be the most that two rounds take if everything in them came within a time `t`, and `X` so long that `w(X) ≤ X`. Then
//! no two rounds in a row last longer than `X`, and every message has left within `X` after it came.
//!
//! Proof, by induction over the rounds. Where the loop slept before the first of two rounds, what is in them came when it woke and during
//! that first round, which is no longer than both of them; so they last no longer than `X`, as `w` never falls and the least of its fixed
//! points is reached from below. Else what is in them came during two rounds in a row, which lasted no longer than `X` together by
//! assumption, and `w(X) ≤ X`. A message that comes during a round leaves in the next, and both together last no longer than `X`.
//!
//! What `w` counts, with messages that come as often as their period allows after the jitter `J` of the way to the broker, thus
//! `n(t) = ⌈(t + J) / T⌉` of each stream:
//!
//! - each message: reading, storing and dispatching it, its copy, and its bytes;
//! - each read: at most one for each message and poll, and at most one for each connection and turn;
//! - each write: at most one for each receiver of a message and for each answer to a poll, and at most one for each connection and turn;
//! - each turn, whatever it brings, the other broker's connection among it;
//! - in each turn, where anybody is served last, [`LAST_MESSAGES`], [`LAST_WRITES`] and [`LAST_BYTES`];
//! - in each round once the longest piece of work for somebody to whom nothing is promised (`blocking`).
//!
//! A turn reads each connection once and does [`JOBS_PER_TURN`] jobs. Where more is left the round goes on with another turn; so there are
//! two, and one more for every so many jobs, for every [`READ_BYTES`], and for every [`READ_LEAST`] of reading: a connection on which more
//! waits brings as much as takes at least so long, or as much as is ever read at once, but for the first few times, when little is read.
//!
//! What it does not count: connections of clients to whom nothing is promised and that bring more than each of them one poll and what
//! their contracts say; the host's other processes (`share` and real-time priority stand for them); the network.

use crate::Span;
use crate::demand::{Job, Supply};
use std::collections::BTreeMap;

/// Most bytes read from one connection in one turn.
pub const READ_BYTES: usize = 64 << 10;
/// The first read of a connection brings no more than this, and each further one twice as much until it is [`READ_BYTES`].
pub const FIRST_BYTES: usize = 4 << 10;
/// A read that took no longer than twice this is followed by a larger one.
pub const READ_LEAST: Span = Span::micros(125);
/// What a message counts as whose contract does not say how large it is. Memory is reserved for more, since each may be large; time is
/// needed for all together.
pub const BYTES_UNSTATED: u32 = 256;
/// Writes of one turn, after all others, into connections that are served last.
pub const LAST_WRITES: u64 = 4;
/// Bytes after which no further of these writes begins in a turn, with what the one before may be larger.
pub const LAST_BYTES: usize = 2 * LAST_BYTES_BEGUN;
/// Once so much has been written no further one begins.
pub const LAST_BYTES_BEGUN: usize = 64 << 10;
/// Bytes that may wait on a connection that is served last, so that no turn writes much there. A little more than what counts as hardly
/// anything, so that whoever stopped is told when there is room again.
pub const LAST_BACKLOG: usize = LAST_BYTES_BEGUN + 1;
/// Messages that are made in one turn for those who are served last.
pub const LAST_MESSAGES: usize = 32;
/// Jobs that run in one turn before what was done leaves.
pub const JOBS_PER_TURN: u64 = 1_024;
/// So many reads bring less than [`READ_BYTES`].
const FIRST_READS: i128 = (READ_BYTES / FIRST_BYTES).ilog2() as i128;
/// No fixed point above this is of use to anybody.
const LONGEST: i128 = 3_600_000_000_000;
/// Steps towards the fixed point. Each is as long as what came during the one before, so many mean that there is hardly any time left.
const STEPS_MAX: u32 = 10_000;
const PPM: i128 = 1_000_000;
const KIB: i128 = 1_024;

/// What a connection costs that something came on, or that something is written to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Io {
    /// Reading once, whatever there is.
    pub read: Span,
    /// Writing once, whatever there is.
    pub write: Span,
    /// 1024 bytes of payload, in one direction.
    pub kib: Span,
}

impl Io {
    /// The same of a connection that is served last or not: writes of those are counted with each turn.
    #[must_use]
    pub fn served(self, last: bool) -> Io {
        if last { Io { write: Span::ZERO, ..self } } else { self }
    }
}

/// What the loop costs besides messages, and what is known of when they come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// A turn, whatever it brings.
    pub turn: Span,
    /// Reading one message; the job that follows it counts it as well.
    pub arrival: Span,
    /// The time between two polls of a client.
    pub poll: Span,
    /// `J`: messages may be late by this, and then come closer together than their period.
    pub jitter: Span,
    /// Making one message for somebody who is served last.
    pub last: Span,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            turn: Span::ZERO,
            arrival: Span::ZERO,
            poll: Span::FOREVER,
            jitter: Span::ZERO,
            last: Span::ZERO,
        }
    }
}

/// Connections of clients, by what one of them costs.
#[derive(Clone, Default, Debug)]
pub struct Crowd(BTreeMap<Io, u64>);

impl Crowd {
    /// So many more of a kind.
    pub fn add(&mut self, io: Io, count: u64) {
        if count > 0 {
            *self.0.entry(io).or_insert(0) += count;
        }
    }

    /// So many fewer.
    pub fn remove(&mut self, io: Io, count: u64) {
        if let Some(present) = self.0.get_mut(&io) {
            *present = present.saturating_sub(count);
            if *present == 0 {
                self.0.remove(&io);
            }
        }
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.0.values().sum()
    }

    /// How many there are whose writes are not counted otherwise (see [`Io::served`]).
    fn written(&self) -> u64 {
        self.0.iter().filter(|(io, _)| io.write > Span::ZERO).map(|(_, count)| count).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reading or writing each once.
    fn all(&self, cost: impl Fn(&Io) -> Span) -> i128 {
        self.0.iter().map(|(io, count)| i128::from(*count) * i128::from(cost(io).0)).sum()
    }

    /// The most that one of them costs.
    pub(crate) fn dearest(&self) -> Io {
        self.0.keys().fold(Io::default(), |most, io| Io {
            read: most.read.max(io.read),
            write: most.write.max(io.write),
            kib: most.kib.max(io.kib),
        })
    }
}

/// Everything that `w` counts.
pub(crate) struct Rounds<'a> {
    pub(crate) jobs: &'a BTreeMap<Job, u64>,
    /// Copies that run before all others, and how much earlier than they must.
    pub(crate) urgent: (&'a BTreeMap<Job, u64>, Span),
    pub(crate) crowd: &'a Crowd,
    pub(crate) pace: Pace,
    pub(crate) supply: &'a Supply,
}

/// What came within a time.
#[derive(Default)]
struct Came {
    messages: i128,
    jobs: i128,
    work: i128,
    writes: i128,
    bytes_in: i128,
    bytes_out: i128,
}

impl Rounds<'_> {
    /// `X`, if it is no longer than `limit`; otherwise how far it got, which is longer.
    pub(crate) fn settled(&self, limit: Span) -> Result<Span, Span> {
        let limit = i128::from(limit.0).min(LONGEST);
        let mut window = 0;
        for _ in 0..STEPS_MAX {
            let next = self.two_rounds(window);
            if next > limit {
                return Err(Span(i64::try_from(next).unwrap_or(i64::MAX)));
            }
            if next <= window {
                return Ok(Span(i64::try_from(window).unwrap_or(i64::MAX)));
            }
            window = next;
        }
        Err(Span(i64::try_from(limit + 1).unwrap_or(i64::MAX)))
    }

    /// `w(t)`, in the time of the host.
    fn two_rounds(&self, window: i128) -> i128 {
        let came = self.came(window);
        let dearest = self.crowd.dearest();
        let clients = i128::from(self.crowd.len());
        let each = arrivals(window, self.pace.poll);
        let (polls, answers) = (clients * each, i128::from(self.crowd.written()) * each);
        let share = i128::from(self.supply.share_ppm.max(1));
        let time = |work: i128| (work * PPM + share - 1) / share;
        let bytes = (came.bytes_in + came.bytes_out) * i128::from(dearest.kib.0) / KIB;
        let reading = time(came.messages * i128::from(self.pace.arrival.0)) / i128::from(READ_LEAST.0);
        let first =
            (came.bytes_in / FIRST_BYTES as i128).min(FIRST_READS + came.bytes_in / READ_BYTES as i128);
        let turns = 2 + reading + first + came.jobs / i128::from(JOBS_PER_TURN);
        let reads = (came.messages + polls) * i128::from(dearest.read.0);
        let writes = (came.writes + answers) * i128::from(dearest.write.0);
        let reads = reads.min(turns * self.crowd.all(|io| io.read));
        let writes = writes.min(turns * self.crowd.all(|io| io.write));
        let work = came.work + bytes + reads + writes + turns * i128::from(self.pace.turn.0);
        time(work) + 2 * i128::from(self.supply.blocking.0)
    }

    /// What came within `window` at most.
    fn came(&self, window: i128) -> Came {
        let jitter = i128::from(self.pace.jitter.0);
        let mut came = Came::default();
        let (urgent, ahead) = self.urgent;
        let own = self.jobs.iter().map(|(job, count)| (job, count, jitter));
        let urgent = urgent.iter().map(|(job, count)| (job, count, jitter + i128::from(ahead.0)));
        for (job, count, early) in own.chain(urgent) {
            let count = i128::from(*count) * arrivals(window + early, job.period);
            came.jobs += count;
            came.work += count * i128::from(job.cost.0);
            came.writes += count * i128::from(job.writes);
            let bytes = count * i128::from(job.bytes);
            if job.writes > 0 {
                came.messages += count;
                came.bytes_in += bytes;
            }
            came.bytes_out += bytes * i128::from(job.writes.max(1));
        }
        came
    }
}

/// Most of what comes with this period within `window`.
fn arrivals(window: i128, period: Span) -> i128 {
    if period.is_forever() {
        return 1;
    }
    let period = i128::from(period.0.max(1));
    ((window + period - 1) / period).max(1)
}

#[cfg(test)]
mod tests;
