//! Snapshots of a broker, as it publishes them to whoever asks. Command line and pages read these and nothing else.

use crate::limits::{NAME_BYTES_MAX, ROWS_BYTES_TARGET, TEXT_BYTES_MAX};
use crate::reader::{Reader, put, put_text};
use crate::terms::TermsHead;
use crate::{Standing, WireError};
use contract::{Contract, Epoch, NodeId, Reign, Span, TOPIC_BYTES_MAX, Time};
use zerocopy::byteorder::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A whole broker at one instant. Counters count since the process started.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NodeStatus<'a> {
    /// The broker's name.
    pub name: &'a str,
    /// What it is in its pair.
    pub standing: Standing,
    /// The reign it knows of.
    pub reign: Reign,
    /// Its own process.
    pub node: NodeId,
    /// Whether a crash of the primary would now be survived within every contract.
    pub protected: bool,
    /// When the process started.
    pub started: Time,
    /// When this snapshot was taken.
    pub taken: Time,
    /// Streams in its table; rows of [`StreamStatus`] that can be asked for, gaps included.
    pub streams: u32,
    /// Operators at work; rows of [`crate::OperatorStatus`] that can be asked for.
    pub operators: u32,
    /// Connected clients.
    pub clients: u32,
    /// Clients that cannot reach the primary, and pass through its backup to it; both brokers know of them.
    pub relayed: u32,
    /// Their names, or the first of them.
    pub relayed_names: &'a str,
    /// Streams of which nothing has come for longer than their contract lets expect.
    pub silent: u32,
    /// The long-run share of one processor that admission counts with, in millionths.
    pub utilisation_ppm: u32,
    /// Entries of the job queue.
    pub queued: u32,
    /// What was counted.
    pub counters: Counters,
    /// Median, 99th percentile and largest time from creation to dispatch.
    pub latency: [Span; 3],
    /// How many changes of sessions and retained messages it knows of; see [`crate::Knowledge::total`].
    pub known: u64,
    /// What its store does.
    pub store: StoreState,
    /// Why the store was given up; otherwise empty.
    pub store_reason: &'a str,
}

contract::counters! {
    /// What a broker has counted since its process started, and a few figures beside it.
    pub struct Counters {
        /// Messages that arrived.
        arrived,
        /// Messages dispatched.
        dispatched,
        /// Copies sent to the backup.
        replicated,
        /// Copies pruned.
        pruned,
        /// Messages that arrived again and were dropped.
        duplicates,
        /// Messages dispatched after their deadline.
        late,
        /// Messages overwritten before they were dispatched.
        overrun,
        /// Messages dropped for subscribers that did not read.
        dropped,
        /// Messages faster than their period allows.
        rate_violations,
        /// Messages whose creation time was ahead of this broker's clock.
        clock_ahead,
        /// Contracts and subscriptions refused.
        refused,
        /// Promotions of this broker.
        promotions,
        /// Promotions of this broker from a primary that was alive and reached again at once.
        false_takeovers,
        /// To the partner and back, in microseconds, as heartbeats show it; 0 where none have come.
        pair_round_trip_us,
        /// What share of the partner's heartbeats is lost, in millionths.
        pair_loss_ppm,
        /// How long the partner may be silent before it is taken for dead, in microseconds; 0 where no heartbeats have come.
        pair_patience_us,
        /// From when a lazy copy is due to begin until it has left, at the 99th percentile, in microseconds; 0 where too few were made.
        copying_us,
        /// Messages that came while this broker did not reign, and were sent on to the one that does.
        forwarded,
        /// Copies sent after their deadline.
        late_replications,
        /// Copies kept for a primary.
        copies_kept,
        /// Messages under a number that was never registered.
        unregistered,
        /// Payload bytes of the copies sent to the backup.
        replicated_bytes,
        /// Batches in which lazy copies left.
        batches,
        /// Results of operators that were published.
        results,
        /// Results that could not be published, since their topic was refused.
        results_refused,
        /// Topics of results that are refused at present.
        results_broken,
        /// Messages that operators could not take, since too many were under way.
        unprocessed,
        /// Messages that are under way in operators.
        under_way,
        /// Copies of what operators remember that were sent to the backup, and their bytes.
        memories,
        /// See `memories`.
        memory_bytes,
        /// Events of operators that were made although as many were in use as can be true at once.
        events_beyond,
        /// Bytes of clients that passed through the backup, both ways.
        relayed_bytes,
        /// What subscribers say that they missed, all streams together.
        subscribers_lost,
        /// What subscribers say that came to them after its deadline.
        subscribers_late,
        /// Payload bytes of the messages that arrived.
        arrived_bytes,
    }
}

/// What a broker's store of sessions and retained messages does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum StoreState {
    /// There is none.
    #[default]
    None = 0,
    /// It writes.
    Writes = 1,
    /// A write has failed. Nothing is written, and it is tried again in a while.
    GivenUp = 2,
    /// Writing is possible again, and everything is being written anew.
    ComingBack = 3,
}

impl StoreState {
    fn from_byte(value: u8) -> Result<StoreState, WireError> {
        Ok(match value {
            0 => StoreState::None,
            1 => StoreState::Writes,
            2 => StoreState::GivenUp,
            3 => StoreState::ComingBack,
            _ => return Err(WireError::BadValue { field: "store", value }),
        })
    }

    /// A name that stays the same.
    pub fn as_str(self) -> &'static str {
        match self {
            StoreState::None => "none",
            StoreState::Writes => "writes",
            StoreState::GivenUp => "given up",
            StoreState::ComingBack => "coming back",
        }
    }
}

/// Whether a stream's contract is being kept, seen from the broker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum TopicState {
    /// Kept.
    Met = 0,
    /// Kept so far, but a crash now, or the next delay, could break it.
    AtRisk = 1,
    /// Nothing has come for longer than its period lets expect, and nobody has said that it ends: whether it is kept is not known.
    Silent = 2,
    /// Broken within the last minute.
    Broken = 3,
}

/// Why the state of a stream is not [`TopicState::Met`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(u8)]
pub enum Concern {
    /// It is.
    #[default]
    Nothing = 0,
    /// More messages in a row were lost than the contract tolerates.
    Lost = 1,
    /// Messages left after their deadline.
    Late = 2,
    /// Nothing comes.
    Silent = 3,
    /// No backup stands by.
    Unprotected = 4,
    /// Copies left for the backup after their deadline.
    CopiesLate = 5,
    /// Messages come more often than the contract says.
    TooFast = 6,
    /// Operators still have messages that nothing covers any more.
    OperatorsBehind = 7,
    /// The backup, or the link to it, does not bear what the contract counts with.
    PairLink = 8,
    /// A client of it reaches the primary through the backup only.
    Relayed = 9,
    /// There are more connections than its deadline leaves time for.
    Crowded = 10,
    /// A subscriber missed more messages in a row than the contract tolerates.
    LostOnTheWay = 11,
    /// Messages came to a subscriber after their deadline.
    LateOnTheWay = 12,
    /// What an operator remembers could not be copied to the backup.
    Forgets = 13,
    /// A subscriber is further away than the link class says.
    Far = 14,
    /// Copies that may have to begin at once no longer fit the budget.
    BudgetShort = 15,
}

impl Concern {
    /// All of them, by number.
    pub const ALL: [Concern; 16] = [
        Concern::Nothing,
        Concern::Lost,
        Concern::Late,
        Concern::Silent,
        Concern::Unprotected,
        Concern::CopiesLate,
        Concern::TooFast,
        Concern::OperatorsBehind,
        Concern::PairLink,
        Concern::Relayed,
        Concern::Crowded,
        Concern::LostOnTheWay,
        Concern::LateOnTheWay,
        Concern::Forgets,
        Concern::Far,
        Concern::BudgetShort,
    ];
}

impl std::fmt::Display for Concern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Concern::Nothing => "nothing",
            Concern::Lost => "more messages in a row were lost than L",
            Concern::Late => "messages left after their deadline",
            Concern::Silent => "nothing comes",
            Concern::Unprotected => "no backup stands by",
            Concern::CopiesLate => "copies left late for the backup",
            Concern::TooFast => "messages come more often than the period says",
            Concern::OperatorsBehind => "operators, or subscribers of their results, are behind by more than is kept",
            Concern::PairLink => "the link to the backup does not bear the contract, see the log (detection_slow, pair_link_thin, pair_link_lossy, pair_link_far)",
            Concern::Relayed => "a client passes through the backup",
            Concern::Crowded => "there are more connections than the deadline leaves time for, see the log (crowded)",
            Concern::LostOnTheWay => "a subscriber missed more messages in a row than L, see the log (subscriber_missed)",
            Concern::LateOnTheWay => "messages came to a subscriber after their deadline, see the log (subscriber_late)",
            Concern::Forgets => "what an operator remembers could not be copied to the backup, see the log (operator_forgets)",
            Concern::Far => "a subscriber is further away than the link class says, see the log (subscriber_far)",
            Concern::BudgetShort => "since clients or operators have come, copies do not fit replication.budget, see the log (budget_short)",
        })
    }
}

/// One stream of a broker.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StreamStatus<'a> {
    /// Its number in the broker's table.
    pub stream: u32,
    /// Its topic.
    pub topic: &'a str,
    /// Its publisher.
    pub publisher: &'a str,
    /// Its contract.
    pub contract: Contract,
    /// The contract by which it is planned: the strictest of its own and of what its subscribers need.
    pub strictest: Contract,
    /// Who needs more than its contract says, and what; empty where nobody does.
    pub needs: &'a str,
    /// Whether its messages are copied to the backup.
    pub replicate: bool,
    /// Whether the contract is kept, and why not.
    pub state: TopicState,
    /// See `state`.
    pub concern: Concern,
    /// Subscribers of its topic.
    pub subscribers: u32,
    /// Messages that arrived.
    pub arrived: u64,
    /// Messages that never arrived or were overwritten, as far as the broker can tell.
    pub lost: u64,
    /// The longest run of those.
    pub longest_run: u32,
    /// Messages dispatched after their deadline.
    pub late: u64,
    /// What subscribers say that they missed, all of them together. Those that speak MQTT say nothing.
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

#[repr(C)]
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
struct NodeHead {
    standing: u8,
    protected: u8,
    store: u8,
    reserved: u8,
    streams: U32,
    operators: U32,
    clients: U32,
    relayed: U32,
    silent: U32,
    utilisation_ppm: U32,
    queued: U32,
    epoch: U64,
    reign_node: U64,
    node: U64,
    started: U64,
    taken: U64,
    counters: [U64; Counters::NAMES.len()],
    latency: [I64; 3],
    known: U64,
}

impl<'a> NodeStatus<'a> {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let head = NodeHead {
            standing: self.standing as u8,
            protected: u8::from(self.protected),
            store: self.store as u8,
            reserved: 0,
            streams: self.streams.into(),
            operators: self.operators.into(),
            clients: self.clients.into(),
            relayed: self.relayed.into(),
            silent: self.silent.into(),
            utilisation_ppm: self.utilisation_ppm.into(),
            queued: self.queued.into(),
            epoch: self.reign.epoch.0.into(),
            reign_node: self.reign.node.0.into(),
            node: self.node.0.into(),
            started: self.started.0.into(),
            taken: self.taken.0.into(),
            counters: self.counters.to_array().map(U64::new),
            latency: self.latency.map(|span| I64::new(span.0)),
            known: self.known.into(),
        };
        put(out, &head);
        put_text(out, self.name, NAME_BYTES_MAX);
        put_text(out, self.relayed_names, TEXT_BYTES_MAX);
        put_text(out, self.store_reason, TEXT_BYTES_MAX);
    }

    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<NodeStatus<'a>, WireError> {
        let head = reader.head::<NodeHead>()?;
        Ok(NodeStatus {
            name: reader.text(NAME_BYTES_MAX)?,
            relayed_names: reader.text(TEXT_BYTES_MAX)?,
            standing: Standing::from_byte(head.standing)?,
            reign: Reign { epoch: Epoch(head.epoch.get()), node: NodeId(head.reign_node.get()) },
            node: NodeId(head.node.get()),
            protected: head.protected != 0,
            started: Time(head.started.get()),
            taken: Time(head.taken.get()),
            streams: head.streams.get(),
            operators: head.operators.get(),
            clients: head.clients.get(),
            relayed: head.relayed.get(),
            silent: head.silent.get(),
            utilisation_ppm: head.utilisation_ppm.get(),
            queued: head.queued.get(),
            counters: Counters::from_array(head.counters.map(U64::get)),
            latency: head.latency.map(|nanos| Span(nanos.get())),
            known: head.known.get(),
            store: StoreState::from_byte(head.store)?,
            store_reason: reader.text(TEXT_BYTES_MAX)?,
        })
    }
}

#[repr(C)]
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
struct StreamHead {
    stream: U32,
    subscribers: U32,
    longest_run: U32,
    replicate: u8,
    state: u8,
    concern: u8,
    reserved: u8,
    arrived: U64,
    lost: U64,
    late: U64,
    subscribers_lost: U64,
    subscribers_late: U64,
    subscribers_longest_run: U32,
    latency: [I64; 2],
    silence: I64,
    terms: TermsHead,
    strictest: TermsHead,
}

impl<'a> StreamStatus<'a> {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let head = StreamHead {
            stream: self.stream.into(),
            subscribers: self.subscribers.into(),
            longest_run: self.longest_run.into(),
            replicate: u8::from(self.replicate),
            state: self.state as u8,
            concern: self.concern as u8,
            reserved: 0,
            arrived: self.arrived.into(),
            lost: self.lost.into(),
            late: self.late.into(),
            subscribers_lost: self.subscribers_lost.into(),
            subscribers_late: self.subscribers_late.into(),
            subscribers_longest_run: self.subscribers_longest_run.into(),
            latency: self.latency.map(|span| I64::new(span.0)),
            silence: self.silence.0.into(),
            terms: TermsHead::new(&self.contract),
            strictest: TermsHead::new(&self.strictest),
        };
        put(out, &head);
        put_text(out, self.topic, TOPIC_BYTES_MAX);
        put_text(out, self.publisher, NAME_BYTES_MAX);
        put_text(out, self.needs, TEXT_BYTES_MAX);
    }

    fn read(reader: &mut Reader<'a>) -> Result<StreamStatus<'a>, WireError> {
        let head = reader.head::<StreamHead>()?;
        let state = match head.state {
            0 => TopicState::Met,
            1 => TopicState::AtRisk,
            2 => TopicState::Silent,
            3 => TopicState::Broken,
            other => return Err(WireError::BadValue { field: "state", value: other }),
        };
        // One that a later release knows is none of ours.
        let concern = Concern::ALL.get(usize::from(head.concern)).copied().unwrap_or_default();
        Ok(StreamStatus {
            stream: head.stream.get(),
            topic: reader.text(TOPIC_BYTES_MAX)?,
            publisher: reader.text(NAME_BYTES_MAX)?,
            needs: reader.text(TEXT_BYTES_MAX)?,
            contract: head.terms.contract()?,
            strictest: head.strictest.contract()?,
            replicate: head.replicate != 0,
            state,
            concern,
            subscribers: head.subscribers.get(),
            arrived: head.arrived.get(),
            lost: head.lost.get(),
            longest_run: head.longest_run.get(),
            late: head.late.get(),
            subscribers_lost: head.subscribers_lost.get(),
            subscribers_longest_run: head.subscribers_longest_run.get(),
            subscribers_late: head.subscribers_late.get(),
            latency: head.latency.map(|nanos| Span(nanos.get())),
            silence: Span(head.silence.get()),
        })
    }
}

/// A run of stream rows that have been checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamStatuses<'a>(pub(crate) &'a [u8]);

impl<'a> StreamStatuses<'a> {
    pub(crate) fn check(body: &'a [u8]) -> Result<StreamStatuses<'a>, WireError> {
        let mut reader = Reader(body);
        while !reader.0.is_empty() {
            StreamStatus::read(&mut reader)?;
        }
        Ok(StreamStatuses(body))
    }

    /// Appends a row to a run of rows that is being made.
    pub fn append(rows: &mut Vec<u8>, row: &StreamStatus<'_>) {
        row.write(rows);
    }

    /// A run of rows made with [`StreamStatuses::append`].
    pub fn of(rows: &'a [u8]) -> StreamStatuses<'a> {
        StreamStatuses(rows)
    }

    /// Where to go on asking after a run that was closed before all had come that were asked for, for its size.
    pub fn goes_on_at(self) -> Option<u32> {
        if self.0.len() < ROWS_BYTES_TARGET { None } else { self.last().map(|row| row.stream + 1) }
    }
}

impl<'a> Iterator for StreamStatuses<'a> {
    type Item = StreamStatus<'a>;

    fn next(&mut self) -> Option<StreamStatus<'a>> {
        let mut reader = Reader(self.0);
        let row = StreamStatus::read(&mut reader).ok()?;
        self.0 = reader.0;
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_lists_all_counters_in_their_order() {
        let manual = include_str!("../../../docs/protocol.md");
        let listed = manual.split_once("\nCounters: ").and_then(|(_, rest)| rest.split_once(". ")).unwrap().0;
        let listed: Vec<&str> = listed.split(',').map(str::trim).collect();
        assert_eq!(listed, Counters::NAMES);
        let said = format!("{} counters u64", Counters::NAMES.len());
        assert!(
            manual.contains(&said) && manual.contains(&format!("NodeStatus [{}]", size_of::<NodeHead>()))
        );
    }
}
