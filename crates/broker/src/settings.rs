//! What a broker is told at start. The values have been checked by whoever read them; nothing here is optional.

use crate::membership::liveness::Hearing;
use contract::admission::Costs;
use contract::{Contract, Delays, Lazy, Links, NodeId, Span, Supply, Time, TopicFilter};
use std::fmt;
use wire::Nonce;

/// In which order jobs are served, and which messages are copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// Earliest deadline first; copies only where the contract needs them; copies pruned when no longer needed.
    #[default]
    Frame,
    /// The baseline: first come first served, everything copied before it is dispatched, copies pruned.
    Fcfs,
    /// The baseline without coordination: copies are neither pruned nor given up when the dispatch came first.
    FcfsMinus,
}

impl Policy {
    /// Whether jobs are ordered by deadline.
    pub fn is_by_deadline(self) -> bool {
        self == Policy::Frame
    }

    /// Whether primary and backup coordinate what has been dispatched.
    pub fn coordinates(self) -> bool {
        self != Policy::FcfsMinus
    }
}

/// When copies are made. The baselines of [`Policy`] copy everything at once, whatever is said here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Replication {
    /// A copy is a job that is planned when its message arrives, and made as soon as nothing more urgent waits.
    #[default]
    Eager,
    /// At the last safe moment, and only of what has not been dispatched by then.
    Lazy(Lazy),
    /// A baseline: everything that has arrived since the last round is copied in the next. Loss bounds are not promised.
    Periodic {
        /// The time between two rounds.
        period: Span,
        /// Whether a round leaves out what has been dispatched.
        skip_dispatched: bool,
    },
    /// A baseline: nothing is copied, publishers send again what they retain. Loss bounds are not promised.
    RetransmissionOnly,
}

impl Replication {
    /// How copies are made lazily, if they are.
    pub fn lazy(self) -> Option<Lazy> {
        match self {
            Replication::Lazy(lazy) => Some(lazy),
            _ => None,
        }
    }

    /// Whether what has been dispatched is not copied any more.
    pub(crate) fn skips_dispatched(self) -> bool {
        !matches!(self, Replication::Periodic { skip_dispatched: false, .. })
    }

    /// Whether it keeps the loss bounds of the contracts.
    pub fn keeps_contracts(self) -> bool {
        matches!(self, Replication::Eager | Replication::Lazy(_))
    }
}

/// A contract for a family of topics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicRule {
    /// Which topics.
    pub filter: TopicFilter,
    /// Their contract.
    pub contract: Contract,
    /// The longest time between two messages of a publisher after which it is not yet silent, whatever it has done before. Forever: that
    /// follows from the contract, and from what is usual.
    pub gap: Span,
}

impl TopicRule {
    /// A contract, and nothing else.
    pub fn new(filter: TopicFilter, contract: Contract) -> TopicRule {
        TopicRule { filter, contract, gap: Span::FOREVER }
    }
}

/// How a broker notices that its partner is gone, and how long it waits for one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Detection {
    /// The time between two polls of the primary.
    pub poll: Span,
    /// How many polls in a row may stay unanswered before the backup takes over.
    pub misses: u32,
    /// How long silence is borne at most, however unevenly polls and heartbeats are answered.
    pub patience_max: Span,
    /// How long the primary's data thread may stand still in one turn while its process sends heartbeats.
    pub stall: Span,
    /// How long an attempt to connect may take.
    pub connect: Span,
    /// The time between two attempts to reach the partner.
    pub retry: Span,
    /// How long a broker that prefers to reign looks for its partner before it reigns alone.
    pub seek_preferred: Span,
    /// The same for a broker that prefers to stand by.
    pub seek_other: Span,
}

impl Detection {
    /// How heartbeats are sent, and how long silence is borne where they come evenly.
    pub fn hearing(&self) -> Hearing {
        let patience = self.poll * u64::from(self.misses);
        let every = Span((self.poll.0 / HEARTBEATS_PER_POLL).max(1));
        Hearing { every, patience, patience_max: self.patience_max }
    }
}

/// Heartbeats in the time between two polls.
const HEARTBEATS_PER_POLL: i64 = 2;

impl Default for Detection {
    fn default() -> Detection {
        Detection {
            poll: Span::millis(10),
            misses: 2,
            patience_max: Span::millis(500),
            stall: Span::millis(200),
            connect: Span::millis(10),
            retry: Span::millis(100),
            seek_preferred: Span::millis(500),
            seek_other: Span::secs(3),
        }
    }
}

/// The limits of one broker. Every table, queue and buffer is bounded by one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections, clients and partner together. Those that this broker makes to its partner are taken above it.
    pub links: usize,
    /// Clients at once that cannot reach the primary and are let through to it by its backup.
    pub relayed: usize,
    /// Streams: one per topic and publisher.
    pub streams: usize,
    /// Subscribing clients.
    pub sessions: usize,
    /// Filters of one client.
    pub filters_per_session: usize,
    /// Jobs that wait. Above it, arriving messages are refused and counted as overrun. Taking over, or getting a backup,
    /// adds at most one for each message that is kept.
    pub jobs: usize,
    /// Slots of one stream's ring at least.
    pub ring_slots_min: usize,
    /// Slots of one stream's ring at most; a contract that needs more is refused.
    pub ring_slots_max: usize,
    /// Slots that a backup holds per replicated stream at least.
    pub backup_slots: usize,
    /// Bytes for all messages in all rings, at most half of those of the whole.
    pub store_bytes: usize,
    /// Bytes of memory of the whole broker: messages, subscribers, sessions and what is retained.
    pub memory_bytes: usize,
    /// The payload for which memory is reserved where a contract does not say how long its messages may be.
    pub size_assumed: usize,
    /// Bytes that may wait for one subscriber before its messages are deferred.
    pub subscriber_backlog_bytes: usize,
    /// How long messages wait for a subscriber that reads slower than its topics publish, or until their deadline if that is later. Then
    /// they are dropped for it.
    pub subscriber_delay: Span,
    /// Messages deferred for one subscriber; above it, the oldest is dropped and counted as its loss.
    pub deferred_per_subscriber: usize,
    /// Bytes that may wait for the partner while it is brought up to date, so that it never delays other work.
    pub sync_backlog_bytes: usize,
    /// Classes of contracts that are measured apart, one for each rule of [`Settings::topics`]; further rules share one.
    pub classes: usize,
    /// How long a new connection may take to say who it is.
    pub greeting: Span,
    /// How long a client may be silent before its connection is taken for dead.
    pub silence: Span,
    /// How long a subscriber that lost its connection is remembered.
    pub session_linger: Span,
    /// How long a stream is remembered whose publisher is gone.
    pub stream_linger: Span,
    /// How long a broker that ends waits for its publishers to have moved to the partner.
    pub drain: Span,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            links: 16_384,
            relayed: 1_024,
            streams: 65_536,
            sessions: 4_096,
            filters_per_session: 256,
            jobs: 1 << 20,
            ring_slots_min: 8,
            ring_slots_max: 4_096,
            backup_slots: 10,
            store_bytes: 2 << 30,
            memory_bytes: usize::MAX,
            size_assumed: 4 << 10,
            subscriber_backlog_bytes: 4 << 20,
            subscriber_delay: Span::secs(1),
            deferred_per_subscriber: 16_384,
            sync_backlog_bytes: 128 << 10,
            classes: 32,
            greeting: Span::secs(2),
            silence: Span::secs(5),
            session_linger: Span::secs(5),
            stream_linger: Span::secs(60),
            drain: Span::secs(2),
        }
    }
}

/// A bound of memory, and the key of the configuration that sets it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    /// How many bytes.
    pub bytes: usize,
    /// The key.
    pub key: &'static str,
    /// What it is set to.
    pub value: usize,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes == self.value {
            true => write!(f, "{} = {}", self.key, self.value),
            false => write!(f, "{} bytes, by {} = {}", self.bytes, self.key, self.value),
        }
    }
}

impl Limits {
    /// What messages may take of the memory: `limits.store`, and half of the whole at most.
    pub fn messages(&self) -> Bound {
        let share = self.memory_bytes / 2;
        if self.store_bytes <= share {
            return Bound { bytes: self.store_bytes, key: "limits.store", value: self.store_bytes };
        }
        Bound { bytes: share, key: "limits.memory", value: self.memory_bytes }
    }

    /// What backlogs of subscribers may take of it, of all protocols: a quarter.
    pub fn subscribers(&self) -> Bound {
        Bound { bytes: self.memory_bytes / 4, key: "limits.memory", value: self.memory_bytes }
    }

    /// What filters of all clients may take, and those of all sessions of MQTT: one part in 32 each.
    pub fn filters(&self) -> Bound {
        Bound { bytes: self.memory_bytes / 32, key: "limits.memory", value: self.memory_bytes }
    }

    /// What messages that wait for sessions of MQTT may take, and what those that are retained may: a sixteenth each.
    pub fn sessions(&self) -> Bound {
        Bound { bytes: self.memory_bytes / 16, key: "limits.memory", value: self.memory_bytes }
    }
}

/// Everything that a broker is told at start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name, for people.
    pub name: String,
    /// This process. Drawn at random by the driver.
    pub node: NodeId,
    /// What its heartbeats are signed with, besides the pair's secret. Drawn at random by the driver.
    pub nonce: Nonce,
    /// When the process started.
    pub started: Time,
    /// Whether it would rather be primary where neither of the pair reigns yet.
    pub prefers_to_reign: bool,
    /// Whether there is a partner at all.
    pub has_peer: bool,
    /// In which order jobs are served.
    pub policy: Policy,
    /// When copies are made.
    pub replication: Replication,
    /// The deployment's delays.
    pub delays: Delays,
    /// Where there is no partner: how long it takes until another broker carries what comes from other brokers.
    pub reassigned: Span,
    /// The link classes.
    pub links: Links,
    /// What jobs cost on this host.
    pub costs: Costs,
    /// What share of the processor they may take.
    pub supply: Supply,
    /// Whether a set of topics that cannot be served in time is refused.
    pub schedulability: bool,
    /// Whether a subscription that cannot be served in time is served as best effort instead of being refused.
    pub best_effort_subscriptions: bool,
    /// Contracts by topic filter; the first that matches governs.
    pub topics: Vec<TopicRule>,
    /// Failure detection.
    pub detection: Detection,
    /// Limits.
    pub limits: Limits,
}

impl Settings {
    /// A process on a host where each job takes a microsecond, with everything else as it is where nobody says otherwise. It has a partner,
    /// and prefers to reign. Drivers in earnest draw `node` and `nonce` at random, and measure the costs.
    pub fn new(name: &str, node: NodeId, started: Time) -> Settings {
        let cost = Span::micros(1);
        Settings {
            name: name.to_owned(),
            node,
            nonce: [7; 16],
            started,
            prefers_to_reign: true,
            has_peer: true,
            policy: Policy::default(),
            replication: Replication::default(),
            delays: Delays::default(),
            reassigned: contract::path::REASSIGNED_WITHIN,
            links: Links::default(),
            costs: Costs::of_messages(cost, cost, cost),
            supply: Supply { share_ppm: 900_000, blocking: Span::ZERO },
            schedulability: true,
            best_effort_subscriptions: false,
            topics: Vec::new(),
            detection: Detection::default(),
            limits: Limits::default(),
        }
    }

    /// Whether the baseline policies govern, which copy everything and refuse nothing.
    pub(crate) fn is_baseline(&self) -> bool {
        self.policy != Policy::Frame
    }

    /// Whether topics are copied that need no copies.
    pub(crate) fn copies_everything(&self) -> bool {
        self.is_baseline() || matches!(self.replication, Replication::Periodic { .. })
    }
}
