//! Counters, and the snapshots made of them.

use crate::broker::Broker;
use crate::outputs::Outputs;
use crate::settings::Settings;
use crate::store::table::{Stream, Topic};
use crate::watch::accounts::Telling;
use crate::watch::classes::Classes;
use crate::watch::latencies::Latencies;
use contract::{Span, StreamId, Time};
use wire::limits::ROWS_BYTES_TARGET;
use wire::{
    Concern, Counters, FarewellReason, Frame, Knowledge, LevelStatuses, LinkId, NodeStatus, OperatorStatuses,
    StoreState, StreamStatus, StreamStatuses, TopicState,
};

/// Counts since the process started.
#[derive(Clone)]
pub(crate) struct Stats {
    pub(crate) arrived: u64,
    /// Payload bytes of those.
    pub(crate) arrived_bytes: u64,
    pub(crate) dispatched: u64,
    pub(crate) replicated: u64,
    /// Payload bytes of those.
    pub(crate) replicated_bytes: u64,
    /// Batches in which lazy copies left.
    pub(crate) batches: u64,
    pub(crate) forwarded: u64,
    pub(crate) copies_kept: u64,
    pub(crate) pruned: u64,
    pub(crate) duplicates: u64,
    pub(crate) late: u64,
    pub(crate) late_replications: u64,
    pub(crate) overrun: u64,
    pub(crate) dropped: u64,
    pub(crate) rate_violations: u64,
    pub(crate) clock_ahead: u64,
    pub(crate) unregistered: u64,
    pub(crate) refused: u64,
    pub(crate) promotions: u64,
    pub(crate) results: u64,
    pub(crate) results_refused: u64,
    pub(crate) unprocessed: u64,
    /// Copies of what operators remember, and their bytes.
    pub(crate) memories: u64,
    pub(crate) memory_bytes: u64,
    /// What subscribers have said that they missed, and that came to them late.
    pub(crate) subscribers_lost: u64,
    pub(crate) subscribers_late: u64,
    /// The same by class of contract.
    pub(crate) classes: Classes,
    pub(crate) telling: Telling,
    latencies: Latencies,
}

impl Stats {
    pub(crate) fn new(settings: &Settings) -> Stats {
        Stats {
            arrived: 0,
            dispatched: 0,
            replicated: 0,
            arrived_bytes: 0,
            replicated_bytes: 0,
            batches: 0,
            forwarded: 0,
            copies_kept: 0,
            pruned: 0,
            duplicates: 0,
            late: 0,
            late_replications: 0,
            overrun: 0,
            dropped: 0,
            rate_violations: 0,
            clock_ahead: 0,
            unregistered: 0,
            refused: 0,
            promotions: 0,
            results: 0,
            results_refused: 0,
            unprocessed: 0,
            memories: 0,
            memory_bytes: 0,
            subscribers_lost: 0,
            subscribers_late: 0,
            classes: Classes::new(&settings.topics, settings.limits.classes),
            telling: Telling::default(),
            latencies: Latencies::default(),
        }
    }

    /// A message of this class took so long. Nothing is told of it before [`Stats::count_alike`].
    #[inline]
    pub(crate) fn record_latency(&mut self, class: u16, latency: Span) -> u32 {
        self.latencies.record(class, latency, &mut self.classes)
    }

    /// Counts what was recorded. To be called before anybody asks.
    pub(crate) fn count_alike(&mut self) {
        self.latencies.count_alike(&mut self.classes);
    }
}

/// What the rest of a node does at one instant. A broker passes it on as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Survey {
    /// Operators at work.
    pub operators: u32,
    /// Messages under way in them.
    pub under_way: u64,
    /// Events that were made although as many were in use as can be true at once.
    pub events_beyond: u64,
    /// Rows that were asked for, made with [`OperatorStatuses::append`].
    pub rows: Vec<u8>,
    /// Rows of levels that have something to show, made with [`LevelStatuses::append`].
    pub levels: Vec<u8>,
    /// Operators whose runs have failed: [`FAILING_MAX`] by name, and what others there are as [`OTHERS`].
    pub failing: Vec<Failing>,
    /// Connected clients of other protocols.
    pub other_clients: u32,
    /// Clients that cannot reach the primary, and pass through its backup to it.
    pub relayed: u32,
    /// Their names, or the first of them.
    pub relayed_names: String,
    /// Their bytes since the process started, both ways.
    pub relayed_bytes: u64,
}

/// The failed runs of an operator, in all its instances.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failing {
    /// Its name in the configuration.
    pub operator: String,
    /// How many, in the order of [`FailureCause::ALL`].
    ///
    /// [`FailureCause::ALL`]: crate::FailureCause::ALL
    pub faults: [u64; 3],
}

/// Operators that are listed by name as failing.
pub const FAILING_MAX: usize = 64;
/// The name of all others.
pub const OTHERS: &str = "(others)";

/// Rows of streams, and of operators, in one answer, so that an answer never holds up the data.
const ROWS_MAX: u32 = 256;
/// Answers that may wait for somebody who asks.
const ANSWERS_BYTES_MAX: usize = 1 << 20;
/// For how long a broken or endangered contract is shown.
const MEMORY: Span = Span::secs(60);

impl Broker {
    /// The share of a processor that what is admitted takes.
    pub fn utilisation(&self) -> f64 {
        self.promises.admission.utilisation()
    }

    /// The number of a stream, by its topic and its publisher.
    pub fn stream_of(&self, topic: &str, publisher: &str) -> Option<StreamId> {
        self.flow.store.table.find_stream(self.flow.store.table.find_topic(topic)?, publisher)
    }

    /// How many messages of a stream left this broker after their deadline.
    pub fn late_of(&self, stream: StreamId) -> Option<u64> {
        self.flow.store.table.stream(stream).map(|stream| stream.record.troubles.late)
    }

    /// Sends a snapshot, and rows of streams and operators if asked for.
    pub(crate) fn send_status(
        &mut self,
        now: Time,
        to: LinkId,
        first: u32,
        rows: u32,
        out: &mut impl Outputs,
    ) {
        if out.backlog(to) > ANSWERS_BYTES_MAX {
            let text = "it asks for more than it reads";
            return self.expel(to, FarewellReason::Limit, text, out);
        }
        let wanted = first..first.saturating_add(rows.min(ROWS_MAX));
        let survey = out.survey(wanted.clone());
        let (store, reason) = out.store();
        let reason = reason.to_owned();
        let known = out.knowledge().map_or(0, Knowledge::total);
        let snapshot = self.node_status(&self.settings.name, now, &survey);
        let snapshot = NodeStatus {
            relayed_names: &survey.relayed_names,
            known,
            store,
            store_reason: &reason,
            ..snapshot
        };
        out.send(to, &Frame::NodeStatus(snapshot));
        if !survey.levels.is_empty() {
            out.send(to, &Frame::LevelStatuses(LevelStatuses::of(&survey.levels)));
        }
        if !survey.rows.is_empty() {
            out.send(to, &Frame::OperatorStatuses(OperatorStatuses::of(&survey.rows)));
        }
        let mut bytes = Vec::new();
        for index in wanted.map(StreamId) {
            if bytes.len() >= ROWS_BYTES_TARGET {
                break;
            }
            // There need not be a stream at each place.
            if let Some((stream, topic)) = self.flow.store.table.pair(index) {
                let needs = self.needs_in_words(topic);
                StreamStatuses::append(&mut bytes, &self.row(now, index, (stream, topic), &needs));
            }
        }
        if rows > 0 {
            out.send(to, &Frame::StreamStatuses(StreamStatuses::of(&bytes)));
        }
    }

    /// The whole broker, under this name.
    pub(crate) fn node_status<'n>(&self, name: &'n str, now: Time, survey: &Survey) -> NodeStatus<'n> {
        let stats = &self.flow.stats;
        NodeStatus {
            name,
            standing: self.membership.pair.standing(),
            reign: self.membership.pair.reign,
            node: self.settings.node,
            protected: self.membership.pair.is_protected(),
            started: self.settings.started,
            taken: now,
            streams: self.flow.store.table.streams.len() as u32,
            operators: survey.operators,
            clients: self.flow.store.links.iter().filter(|(_, link)| link.is_client()).count() as u32
                + survey.other_clients,
            relayed: survey.relayed,
            relayed_names: "",
            silent: self.silences.count(),
            utilisation_ppm: (self.promises.admission.utilisation() * 1e6) as u32,
            queued: self.flow.work.queue.len() as u32,
            counters: self.counters(survey),
            latency: stats.latencies.summary(),
            known: 0,
            store: StoreState::None,
            store_reason: "",
        }
    }

    /// All that is counted.
    fn counters(&self, survey: &Survey) -> Counters {
        let stats = &self.flow.stats;
        Counters {
            arrived: stats.arrived,
            dispatched: stats.dispatched,
            replicated: stats.replicated,
            replicated_bytes: stats.replicated_bytes,
            batches: stats.batches,
            pruned: stats.pruned,
            duplicates: stats.duplicates,
            late: stats.late,
            overrun: stats.overrun,
            dropped: stats.dropped,
            rate_violations: stats.rate_violations,
            clock_ahead: stats.clock_ahead,
            refused: stats.refused,
            promotions: stats.promotions,
            false_takeovers: self.membership.pair.caution().false_takeovers,
            pair_round_trip_us: self.membership.partner.round_trip().as_nanos_u64() / 1_000,
            pair_loss_ppm: self.membership.partner.loss_ppm().into(),
            pair_patience_us: self.membership.partner.patience().as_nanos_u64() / 1_000,
            copying_us: self.flow.work.lazy.action_p99().as_nanos_u64() / 1_000,
            forwarded: stats.forwarded,
            late_replications: stats.late_replications,
            copies_kept: stats.copies_kept,
            unregistered: stats.unregistered,
            results: stats.results,
            results_refused: stats.results_refused,
            results_broken: if survey.operators > 0 { self.flow.store.table.refused_results() } else { 0 },
            unprocessed: stats.unprocessed,
            under_way: survey.under_way,
            memories: stats.memories,
            memory_bytes: stats.memory_bytes,
            events_beyond: survey.events_beyond,
            relayed_bytes: survey.relayed_bytes,
            subscribers_lost: stats.subscribers_lost,
            subscribers_late: stats.subscribers_late,
            arrived_bytes: stats.arrived_bytes,
        }
    }

    /// Whether a stream's contract is being kept.
    pub(crate) fn state(&self, now: Time, stream: &Stream, topic: &Topic) -> TopicState {
        self.state_and_why(now, stream, topic).0
    }

    fn state_and_why(&self, now: Time, stream: &Stream, topic: &Topic) -> (TopicState, Concern) {
        let troubles = &stream.record.troubles;
        let recent = |at: Time| at != Time::ZERO && now < at + MEMORY;
        let exposed =
            !self.membership.pair.is_protected() && topic.strict().loss != contract::Loss::Unbounded;
        if recent(troubles.broken_at) {
            (TopicState::Broken, troubles.broken_by)
        } else if self.silences.of(now, stream, self.membership.pair.is_primary()).is_some() {
            (TopicState::Silent, Concern::Silent)
        } else if exposed {
            (TopicState::AtRisk, Concern::Unprotected)
        } else if self.membership.partner.puts_at_risk(topic, &self.settings) {
            (TopicState::AtRisk, Concern::PairLink)
        } else if self.promises.crowd.is_crowded_for(topic) {
            (TopicState::AtRisk, Concern::Crowded)
        } else if self.promises.crowd.is_beyond_budget(topic) {
            (TopicState::AtRisk, Concern::BudgetShort)
        } else if self.flow.store.has_far_subscribers(topic, &self.settings) {
            (TopicState::AtRisk, Concern::Far)
        } else if recent(troubles.endangered_at) {
            (TopicState::AtRisk, troubles.endangered_by)
        } else if self.hangs_by_the_backup(stream, topic) {
            (TopicState::AtRisk, Concern::Relayed)
        } else {
            (TopicState::Met, Concern::Nothing)
        }
    }

    /// Whether its publisher or a subscriber passes through the backup: should that fail, it is cut off.
    fn hangs_by_the_backup(&self, stream: &Stream, topic: &Topic) -> bool {
        let relayed = |link: Option<LinkId>| link.is_some_and(|link| link.channel().is_some());
        let session = |index: &crate::store::ids::SessionId| {
            self.flow.store.sessions.get(*index).and_then(|session| session.link)
        };
        relayed(stream.record.source) || topic.subscribers.iter().any(|index| relayed(session(index)))
    }

    fn row<'a>(
        &self,
        now: Time,
        index: StreamId,
        (stream, topic): (&'a Stream, &'a Topic),
        needs: &'a str,
    ) -> StreamStatus<'a> {
        let (took, troubles) = (stream.took, &stream.record.troubles);
        let (state, concern) = self.state_and_why(now, stream, topic);
        StreamStatus {
            stream: index.0,
            topic: topic.name.as_str(),
            publisher: &stream.record.publisher,
            contract: topic.contract,
            strictest: *topic.strict(),
            needs,
            replicate: topic.plan.replicate,
            state,
            concern,
            subscribers: topic.subscribers.len() as u32,
            arrived: stream.arrived(),
            lost: troubles.lost,
            longest_run: troubles.longest_run,
            late: troubles.late,
            subscribers_lost: troubles.reported.lost,
            subscribers_longest_run: troubles.reported.longest_run,
            subscribers_late: troubles.reported.late,
            latency: [took.last, took.longest].map(|micros| Span::micros(micros.into())),
            silence: self.silences.of(now, stream, self.membership.pair.is_primary()).unwrap_or(Span::ZERO),
        }
    }
}
