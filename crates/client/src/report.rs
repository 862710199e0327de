//! What a broker tells of itself, for programs that watch it.

use contract::{Contract, Epoch, Span, Time};
use wire::{NodeStatus, Standing, StreamStatus, TopicState};

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
    /// The share of one processor that admission counts with.
    pub utilisation: f64,
    /// Entries of its table, free ones included.
    pub stream_slots: u32,
    /// All counters, by name.
    pub counters: Vec<(&'static str, u64)>,
    /// Median, 99th percentile and largest time from creation to dispatch.
    pub latency: [Span; 3],
    /// Its streams, where they were asked for.
    pub streams: Vec<StreamReport>,
}

impl NodeReport {
    pub(crate) fn new(status: &NodeStatus<'_>) -> NodeReport {
        NodeReport {
            name: status.name.to_owned(),
            standing: status.standing,
            epoch: status.reign.epoch,
            protected: status.protected,
            started: status.started,
            taken: status.taken,
            clients: status.clients,
            utilisation: f64::from(status.utilisation_ppm) / 1e6,
            stream_slots: status.streams,
            counters: vec![
                ("arrived", status.arrived),
                ("dispatched", status.dispatched),
                ("replicated", status.replicated),
                ("pruned", status.pruned),
                ("duplicates", status.duplicates),
                ("late", status.late),
                ("overrun", status.overrun),
                ("dropped", status.dropped),
                ("rate_violations", status.rate_violations),
                ("clock_ahead", status.clock_ahead),
                ("refused", status.refused),
                ("promotions", status.promotions),
                ("forwarded", status.forwarded),
                ("late_replications", status.late_replications),
                ("copies_kept", status.copies_kept),
                ("replicated_bytes", status.replicated_bytes),
                ("batches", status.batches),
                ("unregistered", status.unregistered),
                ("queued", u64::from(status.queued)),
            ],
            latency: status.latency,
            streams: Vec::new(),
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
    /// Whether its messages are copied to the backup.
    pub replicate: bool,
    /// Whether the contract is kept, as far as the broker can tell.
    pub state: TopicState,
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
    /// The latest and the largest time from creation to dispatch.
    pub latency: [Span; 2],
}

impl StreamReport {
    pub(crate) fn new(row: &StreamStatus<'_>) -> StreamReport {
        StreamReport {
            topic: row.topic.to_owned(),
            publisher: row.publisher.to_owned(),
            contract: row.contract,
            replicate: row.replicate,
            state: row.state,
            subscribers: row.subscribers,
            arrived: row.arrived,
            lost: row.lost,
            longest_run: row.longest_run,
            late: row.late,
            latency: row.latency,
        }
    }
}
