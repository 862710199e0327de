//! What is simulated: a cluster, what its tasks write, and what goes wrong. A scenario and a seed decide a run.

use contract::{Span, Time};
use kv::{Config, Format, Key, LinkTimes, Mode, Node, NodeSet, ResolveRule, Vote};

/// When the first job's period begins: long after the epoch, at a multiple of every period.
pub(crate) const START: Time = Time(1_700_000_000_000_000_000);
/// A lost connection is made again after this: how often a host looks, and the way to the peer.
pub(crate) const REDIAL: Span = Span::millis(55);

/// A key, and who writes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeySpec {
    /// How several values become one.
    pub kind: KeyKind,
    /// Who writes it; all nodes if `None`.
    pub writers: Option<NodeSet>,
    /// The task that writes it.
    pub task: usize,
    /// Whether each instant is written twice, by two jobs, with two values.
    pub twice: bool,
}

/// How the values of a key become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyKind {
    /// Any bytes, by majority.
    Majority,
    /// Numbers, of which each node has its own; by median.
    Median,
    /// The same, by trimmed mean.
    TrimmedMean,
    /// The same, the lowest counts.
    Min,
}

/// A task that is replicated on all nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskSpec {
    /// Its period, in periods of the store.
    pub periods: u64,
    /// How long after its release it has read and written, at most.
    pub cost: Span,
}

/// Something that a node does wrong in the jobs from `from` until before `until`, counted from 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Which node.
    pub node: usize,
    /// The first job.
    pub from: u64,
    /// The first job in which it is right again.
    pub until: u64,
    /// What it does.
    pub act: Act,
}

/// What a faulty node does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// Its process ends so long after the release of `from`, and comes back before that of `until`.
    Crash(Span),
    /// It sends nothing to these.
    Silent(NodeSet),
    /// It hears nothing from these.
    Deaf(NodeSet),
    /// Its thread begins each job so late.
    Stall(Span),
    /// Its frames take so much longer.
    Slow(Span),
    /// Its clock is so far off, from the beginning to the end.
    Clock(Span),
    /// It sends something else than it should: in so many frames of a hundred.
    Lie(Lie, u8),
}

/// What a faulty node sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lie {
    /// Batches of its own that it has not, and relays that it was not told; to each something else, or the same to some.
    Batches,
    /// Only relays that it was not told.
    Relays,
    /// Bytes changed after the code was made.
    Bits,
    /// A body whose batches are not what the round demands.
    Shape,
    /// A stated length that is not the frame's, or a frame that ends early: the connection cannot be read any further.
    Cut,
    /// The job before or the next one, with a proper code.
    Job,
    /// A job that is far ahead.
    FarJob,
    /// Another round, maybe one that there is not.
    Round,
    /// Another sender, receiver, lane or configuration.
    Address,
    /// A second frame with another content.
    Repeat,
    /// What it has sent before, in place of the frame or besides.
    Replay,
    /// Another digest of the job before.
    Digest,
}

impl Lie {
    /// All of them.
    pub const ALL: [Lie; 12] = [
        Lie::Batches,
        Lie::Relays,
        Lie::Bits,
        Lie::Shape,
        Lie::Cut,
        Lie::Job,
        Lie::FarJob,
        Lie::Round,
        Lie::Address,
        Lie::Repeat,
        Lie::Replay,
        Lie::Digest,
    ];
}

/// A cluster and its story.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// `n`.
    pub nodes: usize,
    /// `f`.
    pub tolerated: usize,
    /// What faulty nodes may do.
    pub mode: Mode,
    /// When the words of relayers count.
    pub resolve: ResolveRule,
    /// How many lanes there are, each with a share of the period.
    pub lanes: usize,
    /// `T`.
    pub period: Span,
    /// `O` of the first lane.
    pub offset: Span,
    /// `τ`; `None` for the longest.
    pub round: Option<Span>,
    /// What links, clocks and processors need at most, as it is configured.
    pub link: LinkTimes,
    /// How much longer frames of correct nodes take at most; zero if the configuration is true.
    pub excess: Span,
    /// From the end of the last round until values are published, at most.
    pub cpu: Span,
    /// How many stamps are kept.
    pub history: usize,
    /// `NT`.
    pub batch_tuples_max: usize,
    /// The keys, the same in all lanes.
    pub keys: Vec<KeySpec>,
    /// The tasks, the same in all lanes.
    pub tasks: Vec<TaskSpec>,
    /// Whether writes wait in rings until a job begins, as with `kv-host`; else tasks call the lane.
    pub rings: bool,
    /// How far each node's clock is ahead.
    pub clocks: Vec<Span>,
    /// How many jobs there are.
    pub jobs: u64,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// Whether what goes wrong is within what the guarantees assume.
    pub assumed: bool,
    /// The only checker that is listened to; `None` for all.
    pub only: Option<&'static str>,
}

impl Scenario {
    /// The longest value.
    pub const VALUE_BYTES_MAX: usize = 16;

    /// The configuration of a lane.
    pub(crate) fn config(&self, lane: usize) -> Config {
        let key = |(number, spec): (usize, &KeySpec)| {
            let vote = match spec.kind {
                KeyKind::Majority => Vote::Majority,
                KeyKind::Median => Vote::Median(Format::F64),
                KeyKind::TrimmedMean => Vote::TrimmedMean(Format::F64),
                KeyKind::Min => Vote::Min(Format::F64),
            };
            let key = Key::named(&format!("key/{number}")).vote(vote);
            Key { writers: spec.writers, single_source: spec.writers.is_some(), ..key }
        };
        Config {
            nodes: (0..self.nodes).map(|node| format!("n{node}")).collect(),
            faults: self.tolerated,
            mode: self.mode,
            resolve: self.resolve,
            lane: lane as u16,
            period: self.period,
            offset: self.offset_of(lane),
            period_max: Some(self.period * self.slowest()),
            round: self.round,
            batch_tuples_max: Some(self.batch_tuples_max),
            value_bytes_max: Scenario::VALUE_BYTES_MAX,
            history: self.history,
            keys: self.keys.iter().enumerate().map(key).collect(),
            link: self.link,
            ..Config::default()
        }
    }

    /// The period of the slowest task, in periods of the store.
    pub(crate) fn slowest(&self) -> u64 {
        self.tasks.iter().map(|task| task.periods).max().unwrap_or(1)
    }

    /// `O` of a lane.
    pub(crate) fn offset_of(&self, lane: usize) -> Span {
        self.offset + Span(self.period.0 / 4 / self.lanes as i64 * lane as i64)
    }

    /// When a job's period begins, on a right clock.
    pub(crate) fn beginning(&self, job: u64) -> Time {
        START + self.period * job
    }

    /// How long before the first period all begins.
    pub(crate) fn before(&self) -> Span {
        Span(self.period.0 / 2)
    }

    /// The nodes that count as faulty in a job, or whose faults before may still be felt in it.
    pub(crate) fn faulty(&self, job: u64) -> NodeSet {
        let felt = |fault: &&Fault| fault.touches(job, self.period);
        self.faults.iter().filter(felt).map(|fault| Node::at(fault.node)).collect()
    }

    /// The nodes that lie in a job, or whose lies before may still be felt in it.
    pub(crate) fn lying(&self, job: u64) -> NodeSet {
        let lies = |fault: &&Fault| matches!(fault.act, Act::Lie(..)) && fault.touches(job, self.period);
        self.faults.iter().filter(lies).map(|fault| Node::at(fault.node)).collect()
    }

    /// The nodes that are faulty in some job.
    pub(crate) fn ever_faulty(&self) -> NodeSet {
        self.faults.iter().map(|fault| Node::at(fault.node)).collect()
    }
}

impl Fault {
    /// For how many jobs after its last one it may be felt.
    pub(crate) fn shadow(&self, period: Span) -> u64 {
        let redial = (REDIAL.0 / period.0) as u64 + 3;
        match self.act {
            // A frame of a job ahead may come to be that of the next one, and is kept then.
            Act::Clock(_) | Act::Lie(Lie::FarJob, _) => u64::MAX,
            // Who reads it may have to give up the connection.
            Act::Lie(Lie::Cut | Lie::Shape, _) => redial,
            Act::Crash(_) | Act::Lie(Lie::Job, _) => 2,
            Act::Silent(_) | Act::Deaf(_) | Act::Stall(_) | Act::Slow(_) | Act::Lie(..) => 0,
        }
    }

    pub(crate) fn touches(&self, job: u64, period: Span) -> bool {
        let from = if matches!(self.act, Act::Clock(_)) { 0 } else { self.from };
        (from..self.until.saturating_add(self.shadow(period))).contains(&job)
    }

    pub(crate) fn is_on(&self, node: usize, job: u64) -> bool {
        self.node == node && (self.from..self.until).contains(&job)
    }
}

impl Scenario {
    /// How long after its time a thread runs, at most. What is left of `send` is for making and sending frames.
    pub(crate) fn wake_max(&self) -> Span {
        Span(self.link.send.0 / 2)
    }
}
