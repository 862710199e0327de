//! What a broker tells of itself, for programs that watch it.

use contract::{Contract, Epoch, OperatorCounters, Span, Time};
use std::ops::Deref;
use wire::{
    Concern, LevelStatus, NodeStatus, OperatorStatus, Standing, StoreState, StreamStatus, TopicState,
};

/// The snapshot of a broker.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeReport {
    /// Its name.
    pub name: String,
    /// What it is in its pair.
    pub standing: Standing,
    /// The epoch that it knows of.
    pub epoch: Epoch,
    /// Whether a crash of the primary would now be survived within every contract.
    pub protected: bool,
    /// When its process started, and when the snapshot was taken.
    pub started: Time,
    /// See `started`.
    pub taken: Time,
    /// Connected clients.
    pub clients: u32,
    /// Clients that cannot reach the primary, and pass through its backup to it.
    pub relayed: u32,
    /// Their names, or the first of them, divided by commas.
    pub relayed_names: String,
    /// Streams of which nothing has come for longer than their contracts let expect.
    pub silent: u32,
    /// The share of one processor that admission counts with.
    pub utilisation: f64,
    /// Entries of its table, free ones included.
    pub stream_slots: u32,
    /// Operators at work.
    pub operator_rows: u32,
    /// All counters, by name.
    pub counters: Vec<(&'static str, u64)>,
    /// Median, 99th percentile and largest time from creation to dispatch.
    pub latency: [Span; 3],
    /// How many changes of MQTT sessions and retained messages it knows of; the same on both brokers of a protected pair.
    pub known: u64,
    /// What its store of those does.
    pub store: StoreState,
    /// Why the store was given up; otherwise empty.
    pub store_reason: String,
    /// Its streams, where they were asked for.
    pub streams: Vec<StreamReport>,
    /// Its operators, where streams were asked for.
    pub operators: Vec<OperatorReport>,
    /// The levels of those, where streams were asked for; only levels that have something to show.
    pub levels: Vec<LevelReport>,
}

impl NodeReport {
    /// From the frame that it came in.
    pub fn new(status: &NodeStatus<'_>) -> NodeReport {
        NodeReport {
            name: status.name.to_owned(),
            standing: status.standing,
            epoch: status.reign.epoch,
            protected: status.protected,
            started: status.started,
            taken: status.taken,
            clients: status.clients,
            relayed: status.relayed,
            relayed_names: status.relayed_names.to_owned(),
            silent: status.silent,
            utilisation: f64::from(status.utilisation_ppm) / 1e6,
            stream_slots: status.streams,
            operator_rows: status.operators,
            counters: status.counters.named().chain([("queued", u64::from(status.queued))]).collect(),
            latency: status.latency,
            known: status.known,
            store: status.store,
            store_reason: status.store_reason.to_owned(),
            streams: Vec::new(),
            operators: Vec::new(),
            levels: Vec::new(),
        }
    }

    /// A counter by its name.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value)
    }
}

/// One stream of a broker.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StreamReport {
    /// Its topic.
    pub topic: String,
    /// Its publisher.
    pub publisher: String,
    /// Its contract.
    pub contract: Contract,
    /// The contract by which it is planned: the strictest of its own and of what its subscribers need.
    pub strictest: Contract,
    /// Who needs more than its contract says, and what; empty where nobody does.
    pub needs: String,
    /// Whether its messages are copied to the backup.
    pub replicate: bool,
    /// Whether the contract is kept, as far as the broker can tell.
    pub state: TopicState,
    /// Why not, if it is not.
    pub concern: Concern,
    /// Subscribers of its topic.
    pub subscribers: u32,
    /// Messages that arrived.
    pub arrived: u64,
    /// Messages that never arrived or were overwritten.
    pub lost: u64,
    /// The longest run of those.
    pub longest_run: u32,
    /// Messages dispatched after their deadline.
    pub late: u64,
    /// What subscribers of Verge's native protocol say that they missed, all of them together.
    pub subscribers_lost: u64,
    /// The longest run of those.
    pub subscribers_longest_run: u32,
    /// What subscribers say that came to them after its deadline, all of them together.
    pub subscribers_late: u64,
    /// The latest and the largest time from creation to dispatch.
    pub latency: [Span; 2],
    /// For how long nothing has come, where it is silent.
    pub silence: Span,
}

impl StreamReport {
    /// From the frame that it came in.
    pub fn new(row: &StreamStatus<'_>) -> StreamReport {
        StreamReport {
            topic: row.topic.to_owned(),
            publisher: row.publisher.to_owned(),
            contract: row.contract,
            strictest: row.strictest,
            needs: row.needs.to_owned(),
            replicate: row.replicate,
            state: row.state,
            concern: row.concern,
            subscribers: row.subscribers,
            arrived: row.arrived,
            lost: row.lost,
            longest_run: row.longest_run,
            late: row.late,
            subscribers_lost: row.subscribers_lost,
            subscribers_longest_run: row.subscribers_longest_run,
            subscribers_late: row.subscribers_late,
            latency: row.latency,
            silence: row.silence,
        }
    }
}

/// One operator of a broker. Counts begin when it does.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OperatorReport {
    /// Its name, with what stands in the places of `+`: `rms[7]`.
    pub name: String,
    /// Its level; 0 is the most urgent.
    pub level: u8,
    /// What was counted; read as if these were its own fields.
    pub counters: OperatorCounters,
    /// The time of all runs.
    pub busy: Span,
    /// The longest run.
    pub worst: Span,
}

impl Deref for OperatorReport {
    type Target = OperatorCounters;

    fn deref(&self) -> &OperatorCounters {
        &self.counters
    }
}

impl OperatorReport {
    /// From the frame that it came in.
    pub fn new(row: &OperatorStatus<'_>) -> OperatorReport {
        OperatorReport {
            name: row.name.to_owned(),
            level: row.level,
            counters: row.counters,
            busy: row.busy,
            worst: row.worst,
        }
    }
}

/// One level of a broker's operators.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LevelReport {
    /// Which; 0 is the most urgent.
    pub level: u8,
    /// Operators at work.
    pub operators: u32,
    /// The time of all their runs.
    pub busy: Span,
    /// The longest of those.
    pub worst: Span,
    /// Events dropped since the broker started because too many waited for the level.
    pub refused: u64,
    /// Runs that have been under way for so long that they count as not returning.
    pub overdue: u32,
}

impl LevelReport {
    /// From the frame that it came in.
    pub fn new(row: &LevelStatus) -> LevelReport {
        LevelReport {
            level: row.level,
            operators: row.operators,
            busy: row.busy,
            worst: row.worst,
            refused: row.refused,
            overdue: row.overdue,
        }
    }
}
