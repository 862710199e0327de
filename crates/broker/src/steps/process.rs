//! A message's way through operators and back: given to them when it is dispatched, published again as results, and settled
//! when nothing of it is left.
//!
//! The problem: a message that is being processed is neither delivered nor lost, and the primary may die meanwhile. The
//! idea: the operators count as one more subscriber that confirms. A message is settled when all subscribers have it and
//! the operators have given its receipt back, which they do when every result made of it has been dispatched. Until then its
//! copy or its publisher covers it, and a new primary processes it again. So results need no copies of their own.
//!
//! A result has the number of the message that it stands for, so a subscriber recognises one that is made again.

use crate::broker::Broker;
use crate::commands::register::{Denial, Publisher};
use crate::commands::tasks::{SLOTS_PER_UNIT, Task};
use crate::outputs::Outputs;
use crate::steps::arrive::CLOCK_AHEAD_MAX;
use crate::steps::work::Work;
use crate::store::Store;
use crate::store::ids::TopicId;
use crate::store::queue::JobKind;
use crate::store::results::{Processing, ResultStream};
use crate::store::ring::SlotFlags;
use crate::store::table::{Stream, Topic};
use crate::watch::events::Event;
use contract::{Contract, Loss, Mutant, Plan, Receipt, Span, StreamId, Time, invariant};
use wire::limits::NAME_BYTES_MAX;
use wire::{Concern, LinkId, Message, MessageFlags};

/// A message on its way to operators.
#[derive(Clone, Copy, Debug)]
pub struct Processed<'a> {
    /// What comes back, through [`Broker::processed`].
    pub receipt: Receipt,
    /// The incarnation of its publisher.
    pub incarnation: u64,
    /// It.
    pub message: &'a Message<'a>,
}

/// A result on its way to subscribers.
#[derive(Clone, Copy, Debug)]
pub struct Outcome<'a> {
    /// The number of the output.
    pub output: u32,
    /// Its topic.
    pub topic: &'a str,
    /// The shortest time between two results.
    pub period: Span,
    /// When it is due, counted from `created`.
    pub deadline: Span,
    /// Why some messages have no result, in words; `None` if every message has one, so that a missing number is a loss.
    pub gaps: Option<&'a str>,
    /// The stream of the message that it stands for, its incarnation, and the message's number.
    pub stream: StreamId,
    /// See `processing`.
    pub incarnation: u64,
    /// See `processing`.
    pub seq: u64,
    /// When the newest message that it is made of was created.
    pub created: Time,
    /// What is wrong with it in time.
    pub flags: MessageFlags,
    /// What it carries.
    pub payload: &'a [u8],
    /// What is to be released when it has been dispatched.
    pub lineage: u32,
}

/// A result without a deadline of its own is dispatched as if it were due so long after the newest reading.
const WITHOUT_DEADLINE: Span = Span::secs(1);
/// Between two attempts to have a refused stream of results carried.
const ASK_AGAIN: Span = Span::secs(1);

/// Why a loss number for these results cannot be kept, if it cannot: what is lost cannot be told from what was never made.
fn uncountable(result: &Outcome<'_>, contract: &Contract) -> Option<Denial> {
    let gaps = result.gaps.filter(|_| contract.loss != Loss::Unbounded)?;
    Some(Denial::from(format!(
        "its results have gaps of their own, since {gaps}, so that losses in a row cannot be counted: say loss = \"unbounded\" for this topic, or \
         let each message have a result"
    )))
}

impl Broker {
    /// An operator has a result. `false`: it is not published, and its lineage need not be kept.
    pub fn publish_result(&mut self, now: Time, result: &Outcome<'_>, out: &mut impl Outputs) -> bool {
        // A broker that has stepped down has given the messages away, and the other one makes their results.
        if !self.membership.pair.is_primary() {
            return false;
        }
        let Some(index) = self.result_stream(now, result, out) else {
            self.watch.stats.results_refused += 1;
            return false;
        };
        let Some((stream, topic)) = self.store.table.pair_mut(index) else {
            return invariant!("a stream of results was found or made", false);
        };
        if result.seq < stream.next_seq && stream.ring.find(result.seq).is_some() {
            self.watch.stats.duplicates += 1;
            return false;
        }
        if !self.work.queue.has_room() {
            self.watch.stats.overrun += 1;
            stream.lose(now, 1, topic, &mut self.watch.stats, out);
            return false;
        }
        if !stream.ring.has_room(result.payload.len())
            && let Err(shortage) = self.find_room(now, index, result.payload.len(), out)
        {
            self.lose_for_memory(now, index, shortage, out);
            return false;
        }
        // What is made of a message that was sent again after a failover may be late as that is.
        let again = self.is_again(result.stream, result.seq);
        let Some((stream, topic)) = self.store.table.pair_mut(index) else {
            return invariant!("making room ends no stream", false);
        };
        self.watch.stats.results += 1;
        stream.next_seq = stream.next_seq.max(result.seq.saturating_add(1));
        let (ticket, old) = stream.ring.push(result.seq, result.created, result.payload, again, result.flags);
        if let Some(slot) = stream.ring.slot_mut(ticket) {
            slot.lineage = result.lineage;
        }
        if !old.flags.has(SlotFlags::DISPATCHED.or(SlotFlags::OFFERED)) {
            self.watch.stats.overrun += 1;
            stream.lose(now, 1, topic, &mut self.watch.stats, out);
        }
        if let Some(lineage) = old.lineage() {
            out.release(lineage);
        }
        let deadline = result.created + topic.plan.pseudo.dispatch;
        self.work.queue.push(JobKind::Dispatch, deadline, topic.contract.priority, index, ticket);
        true
    }

    /// The flag of a result of this message.
    fn is_again(&self, stream: StreamId, seq: u64) -> SlotFlags {
        let slot =
            self.store.table.stream(stream).and_then(|stream| stream.ring.slot(stream.ring.find(seq)?));
        let again = slot.is_some_and(|slot| slot.flags.has(SlotFlags::RESENT.or(SlotFlags::COPY)));
        if again { SlotFlags::RESENT } else { SlotFlags::NONE }
    }

    /// No picture could be taken of what operators remember whose results are on these topics: a crash would take it away.
    pub fn endanger_results(&mut self, now: Time, topics: &[String]) {
        for topic in topics {
            let Some(index) = self.store.table.find_topic(topic) else { continue };
            let streams =
                self.store.table.topic(index).map(|topic| topic.streams.clone()).unwrap_or_default();
            for stream in streams {
                if let Some(stream) = self.store.table.stream_mut(stream) {
                    stream.record.troubles.endanger(now, Concern::Forgets);
                }
            }
        }
    }

    /// A copy of what operators remember, made of messages of these streams in these lives, has been sent to the backup on this link.
    pub fn count_memory(&mut self, backup: LinkId, bytes: usize, streams: &[(StreamId, u64)]) {
        debug_assert!(
            streams.iter().all(|(stream, incarnation)| {
                let there = self.store.table.stream(*stream);
                let ended = there.is_none_or(|there| there.record.incarnation != *incarnation);
                ended || self.store.links.get(backup).is_some_and(|link| link.announced.contains(*stream))
            }),
            "the backup cannot understand what is remembered of a stream that it has not been told of"
        );
        self.watch.stats.memories += 1;
        self.watch.stats.memory_bytes += bytes as u64;
    }

    /// A backup that has just come has been told what operators remember, for which it had to wait: the telling of the rest goes on.
    pub fn told_memories(&mut self) {
        self.membership.telling.goes_on |= self.membership.pair.backup().is_some_and(|partner| !partner.told);
    }

    /// Operators are done with a message, and all its results have been dispatched.
    pub fn processed(&mut self, receipt: Receipt, out: &mut impl Outputs) {
        if !self.membership.pair.is_primary() || receipt.round != self.work.round {
            return;
        }
        let Some(stream) = self.store.table.stream_mut(receipt.stream) else { return };
        let Some(slot) = stream.ring.slot_mut(receipt.ticket) else { return };
        slot.clear(SlotFlags::PROCESSING);
        if slot.is_complete() {
            self.settle(receipt.stream, receipt.ticket, out);
            self.membership.finished.add(receipt.stream, receipt.ticket);
        }
    }

    /// The operators have changed: asks for every topic anew whether its messages are processed, in slices. Until its turn has come,
    /// a topic feeds what it has fed before.
    pub fn rebind(&mut self, now: Time, out: &mut impl Outputs) {
        if Mutant::KeepBindings.is_on() {
            return;
        }
        self.tasks.waiting.retain(|task| !matches!(task, Task::Rebind { .. }));
        self.begin(now, Task::Rebind { topic: 0, stream: 0 }, out);
    }

    /// Binds further topics anew, and then ends results that have lost their outputs. Returns how many units of work that was, and
    /// whether it was all.
    pub(crate) fn go_on_binding(
        &mut self,
        now: Time,
        topic: &mut usize,
        stream: &mut usize,
        units: usize,
        out: &mut impl Outputs,
    ) -> (usize, bool) {
        let mut used = 0;
        while used < units && *topic < self.store.table.topics.len() {
            used += 1 + self.bind_again(now, TopicId(*topic as u32), out) / SLOTS_PER_UNIT;
            *topic += 1;
        }
        while used < units && *stream < self.store.table.streams.len() {
            used += 1;
            self.retire_lost_results(now, StreamId(*stream as u32), out);
            *stream += 1;
        }
        let all = *topic >= self.store.table.topics.len() && *stream >= self.store.table.streams.len();
        if all {
            self.look_at_crowd(now, out);
        }
        (used, all)
    }

    /// Binds a topic anew. Returns how many slots its streams have.
    fn bind_again(&mut self, now: Time, index: TopicId, out: &mut impl Outputs) -> usize {
        let Some(mut topic) = self.store.table.topic_mut(index).filter(|topic| !topic.made) else { return 0 };
        let bound = out.bind(topic.name.as_str());
        let before = std::mem::replace(&mut topic.processing, bound);
        drop(topic);
        if let Some(before) = before {
            out.unbind(before.handle);
        }
        if Processing::of(before) != Processing::of(bound) {
            self.plan_again(index);
        }
        self.fit_rings(now, index, out);
        let Some(topic) = self.store.table.topic(index) else {
            return invariant!("fitting rings ends no topic", 0);
        };
        let streams = topic.streams.iter().filter_map(|stream| self.store.table.stream(*stream));
        streams.map(|stream| stream.ring.slots()).sum()
    }

    /// Results made of this stream whose outputs are gone end, so that others may publish on their topics.
    fn retire_lost_results(&mut self, now: Time, origin: StreamId, out: &mut impl Outputs) {
        let Some(stream) =
            self.store.table.stream_mut(origin).filter(|stream| !stream.record.results.is_empty())
        else {
            return;
        };
        let (kept, lost): (Vec<_>, Vec<_>) = std::mem::take(&mut stream.record.results)
            .into_iter()
            .partition(|known| out.has_output(known.output));
        stream.record.results = kept;
        for made in lost.into_iter().filter_map(|known| known.stream) {
            let made_of = self.store.table.stream(made).and_then(|stream| stream.record.made_of);
            if made_of == Some(origin) {
                if let Some(made) = self.store.table.stream_mut(made) {
                    made.record.made_of = None;
                }
                self.retire(now, made, out);
            }
        }
    }

    /// A topic's plan where its messages are processed, or are not any more.
    fn plan_again(&mut self, index: TopicId) {
        let Some(topic) = self.store.table.topic(index) else {
            return invariant!("a topic that was bound anew is there");
        };
        let Ok(new) =
            self.promises.admission.plan_processed(topic.strict(), Processing::of(topic.processing))
        else {
            return;
        };
        self.set_plan(index, new);
        self.copy_as_planned(index);
    }

    /// Makes the rings of a topic's streams as large as its plan and its operators need them, within the limits. They never
    /// become smaller: what is in them may still be wanted.
    fn fit_rings(&mut self, now: Time, index: TopicId, out: &mut impl Outputs) {
        let Some(topic) = self.store.table.topic(index) else {
            return invariant!("a topic that was bound anew is there");
        };
        let needed = self.ring_slots(&topic.contract, &topic.plan, topic.processing);
        let slots = needed.min(self.settings.limits.ring_slots_max);
        let mut least = slots;
        for index in topic.streams.clone() {
            let Some(stream) = self.store.table.stream_mut(index) else {
                invariant!("a topic's streams are there");
                continue;
            };
            let growth = stream.ring.grown_bytes(slots).saturating_sub(stream.ring.bytes());
            stream.ring.allow(slots);
            if !stream.ring.is_reserved() {
                // It grows when its messages have to be kept.
                continue;
            }
            if growth == 0 || self.reserve_more(now, growth, out) {
                self.store.table.stream_mut(index).into_iter().for_each(|stream| stream.ring.grow(slots));
            }
            least = least.min(self.store.table.stream(index).map_or(slots, |stream| stream.ring.slots()));
        }
        if let Some(topic) = self.store.table.topic(index).filter(|_| least < needed) {
            out.report(&Event::ShortOfRoom { topic: topic.name.as_str(), kept: least, needed });
        }
    }

    /// Gives a topic another plan, and counts its streams anew. Whoever does not ask whether that fits is told soon.
    pub(crate) fn set_plan(&mut self, index: TopicId, new: Plan) {
        self.promises.crowd.planned_anew();
        let Some(topic) = self.store.table.topic(index) else {
            return invariant!("a topic that gets a plan is there");
        };
        let old = topic.plan;
        let (contract, subscribers) = (topic.contract, topic.receivers());
        let admitted = topic
            .streams
            .iter()
            .filter(|index| self.store.table.stream(**index).is_some_and(|s| s.record.admitted));
        for _ in 0..admitted.count() {
            self.promises.admission.uncount(&old, &contract, subscribers);
            self.promises.admission.count(&new, &contract, subscribers);
        }
        if let Some(mut topic) = self.store.table.topic_mut(index) {
            topic.plan = new;
        }
    }

    /// The stream of these results, made if need be.
    fn result_stream(&mut self, now: Time, result: &Outcome<'_>, out: &mut impl Outputs) -> Option<StreamId> {
        let (origin, topic) = self.store.table.pair(result.stream)?;
        if origin.record.incarnation != result.incarnation {
            return None;
        }
        let known = origin.record.results.iter().find(|known| known.output == result.output);
        if let Some(known) = known {
            let there = known.stream.and_then(|index| self.store.table.stream(index));
            let is_its = |stream: &Stream| stream.record.made_of == Some(result.stream);
            match there.filter(|stream| is_its(stream)) {
                Some(stream) if stream.record.incarnation == result.incarnation => return known.stream,
                None if now < known.ask_again => return None,
                _ => {}
            }
        }
        let name = result_publisher(topic.name.as_str(), &origin.record.publisher);
        let contract = self.result_contract(result, &topic.contract);
        let publisher = Publisher {
            name: &name,
            incarnation: result.incarnation,
            link: None,
            made: Some(result.seq),
            gapless: result.gaps.is_none(),
        };
        let taken = match uncountable(result, &contract) {
            Some(denial) => Err(denial),
            None => self.take_stream(now, result.topic, contract, &publisher, true, out),
        };
        if let Err(denial) = &taken {
            out.report(&Event::ResultRefused { topic: result.topic, reason: &denial.text });
        }
        let stream = taken.ok();
        let entry = ResultStream { output: result.output, stream, ask_again: now + ASK_AGAIN };
        let origin = self.store.table.stream_mut(result.stream)?;
        origin.record.results.retain(|known| known.output != result.output);
        origin.record.results.push(entry);
        let made = self.store.table.stream_mut(stream?)?;
        made.record.made_of = Some(result.stream);
        stream
    }

    /// The configured contract of a topic of results, or what follows from the messages that they are made of.
    fn result_contract(&self, result: &Outcome<'_>, origin: &Contract) -> Contract {
        let configured = self.rule_of(result.topic).and_then(|place| self.settings.topics.get(place));
        if let Some(rule) = configured {
            return rule.contract;
        }
        let deadline = if result.deadline.is_forever() { WITHOUT_DEADLINE } else { result.deadline };
        let contract = Contract { period: result.period, deadline, confirm: false, ..*origin };
        if result.gaps.is_none() {
            contract
        } else {
            Contract { loss: Loss::Unbounded, retain: 0, ..contract }
        }
    }

    /// This broker does not reign any more: what operators have is dispatched again, here or where it is forwarded to. What
    /// they still make of it is not published.
    pub(crate) fn take_back_unprocessed(&mut self, out: &mut impl Outputs) {
        self.work.round = self.work.round.wrapping_add(1);
        let streams: Vec<StreamId> = self.store.table.streams().map(|(index, _)| index).collect();
        for index in streams {
            let Broker { store: Store { table, .. }, work: Work { queue, .. }, .. } = self;
            let Some((stream, topic)) = table.pair_mut(index) else {
                invariant!("a stream that was listed is there");
                continue;
            };
            for ticket in stream.ring.tickets() {
                let Some(slot) = stream.ring.slot_mut(ticket) else { continue };
                if let Some(lineage) = slot.take_lineage() {
                    out.release(lineage);
                    // It would be taken for a duplicate of the one that is made again.
                    slot.forget();
                } else if slot.flags.has(SlotFlags::PROCESSING) {
                    slot.clear(SlotFlags::PROCESSING);
                    slot.clear(SlotFlags::OFFERED);
                    let deadline = slot.created + topic.plan.pseudo.dispatch;
                    queue.push(JobKind::Dispatch, deadline, topic.contract.priority, index, ticket);
                }
            }
        }
    }
}

impl Topic {
    /// Whether operators that it feeds remember.
    pub(crate) fn remembers(&self) -> bool {
        self.processing.is_some_and(|processing| processing.remembers)
    }

    /// Gives a message to the operators that its topic feeds. Returns whether they have it.
    pub(crate) fn process(
        &self,
        now: Time,
        receipt: Receipt,
        stream: &Stream,
        again: bool,
        message: &Message<'_>,
        out: &mut impl Outputs,
    ) -> Option<bool> {
        let processing = self.processing?;
        if again && Mutant::ForgetUnprocessed.is_on() {
            return None;
        }
        // What comes from the future is as new as anything can be. (It has been counted when it arrived.)
        let message = &Message { created: message.created.min(now + CLOCK_AHEAD_MAX), ..*message };
        let processed = Processed { receipt, incarnation: stream.record.incarnation, message };
        let given = out.process(processing.handle, &processed);
        Some(given && !Mutant::SettleUnprocessed.is_on())
    }
}

/// Whose results they are: the topic and the publisher of the messages. A long one is told from others by a checksum.
fn result_publisher(topic: &str, publisher: &str) -> String {
    let name = format!("{topic}@{publisher}");
    if name.len() <= NAME_BYTES_MAX {
        return name;
    }
    // FNV-1a.
    let sum = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let keep = name.floor_char_boundary(NAME_BYTES_MAX - 17);
    format!("{}~{sum:016x}", &name[..keep])
}

impl Denial {
    pub(crate) fn made(topic: &str) -> Denial {
        Denial::from(format!("`{topic}` is published by an operator: publish on another topic"))
    }
}

#[cfg(test)]
pub(crate) mod tests;
