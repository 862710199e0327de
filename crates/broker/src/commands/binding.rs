//! Topics are bound to operators anew when these have changed: what is processed is planned otherwise, and its rings have to be larger.

use crate::broker::Broker;
use crate::commands::tasks::{SLOTS_PER_UNIT, Task};
use crate::outputs::Outputs;
use crate::store::ids::TopicId;
use crate::store::results::Processing;
use crate::watch::events::Event;
use contract::{Mutant, Plan, StreamId, Time, invariant};

impl Broker {
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
        while used < units && *topic < self.flow.store.table.topics.len() {
            used += 1 + self.bind_again(now, TopicId(*topic as u32), out) / SLOTS_PER_UNIT;
            *topic += 1;
        }
        while used < units && *stream < self.flow.store.table.streams.len() {
            used += 1;
            self.retire_lost_results(now, StreamId(*stream as u32), out);
            *stream += 1;
        }
        let all =
            *topic >= self.flow.store.table.topics.len() && *stream >= self.flow.store.table.streams.len();
        if all {
            let (reigns, known) =
                (self.membership.pair.is_primary(), (&self.flow.store.table, &self.settings));
            self.promises.look_at_crowd(now, reigns, known, out);
        }
        (used, all)
    }

    /// Binds a topic anew. Returns how many slots its streams have.
    fn bind_again(&mut self, now: Time, index: TopicId, out: &mut impl Outputs) -> usize {
        // There need not be a topic at each place.
        let Some(mut topic) = self.flow.store.table.topic_mut(index).filter(|topic| !topic.made) else {
            return 0;
        };
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
        let Some(topic) = self.flow.store.table.topic(index) else {
            return invariant!("fitting rings ends no topic", 0);
        };
        let streams = topic.streams.iter().filter_map(|stream| self.flow.store.table.stream(*stream));
        streams.map(|stream| stream.ring.slots()).sum()
    }

    /// Results made of this stream whose outputs are gone end, so that others may publish on their topics.
    fn retire_lost_results(&mut self, now: Time, origin: StreamId, out: &mut impl Outputs) {
        // There need not be a stream at each place.
        let Some(stream) =
            self.flow.store.table.stream_mut(origin).filter(|stream| !stream.record.results.is_empty())
        else {
            return;
        };
        let (kept, lost): (Vec<_>, Vec<_>) = std::mem::take(&mut stream.record.results)
            .into_iter()
            .partition(|known| out.has_output(known.output));
        stream.record.results = kept;
        for made in lost.into_iter().filter_map(|known| known.stream) {
            // It may have ended, and another stream may have taken its place.
            let stream = self.flow.store.table.stream_mut(made);
            if let Some(stream) = stream.filter(|stream| stream.record.made_of == Some(origin)) {
                stream.record.made_of = None;
                self.retire(now, made, out);
            }
        }
    }

    /// A topic's plan where its messages are processed, or are not any more.
    fn plan_again(&mut self, index: TopicId) {
        let Some(topic) = self.flow.store.table.topic(index) else {
            return invariant!("a topic that was bound anew is there");
        };
        let Ok(new) =
            self.promises.admission.plan_processed(topic.planned(), Processing::of(topic.processing))
        else {
            // What cannot be kept with these operators stays as it was planned.
            return;
        };
        self.set_plan(index, new);
        self.copy_as_planned(index);
    }

    /// Makes the rings of a topic's streams as large as its plan and its operators need them, within the limits. They never
    /// become smaller: what is in them may still be wanted.
    pub(crate) fn fit_rings(&mut self, now: Time, index: TopicId, out: &mut impl Outputs) {
        let Some(topic) = self.flow.store.table.topic(index) else {
            return invariant!("a topic that was bound anew is there");
        };
        let needed = self.ring_slots(topic.planned(), &topic.plan, topic.processing);
        let slots = needed.min(self.settings.limits.ring_slots_max);
        let mut least = slots;
        for index in topic.streams.clone() {
            let Some(stream) = self.flow.store.table.stream_mut(index) else {
                invariant!("a topic's streams are there");
                continue;
            };
            let growth = stream.ring.grown_bytes(slots).saturating_sub(stream.ring.bytes());
            stream.ring.allow(slots);
            if !stream.ring.is_reserved() {
                // It grows when its messages have to be kept.
                continue;
            }
            let grows = growth == 0 || self.steps().reserve_more(now, growth, out);
            let Some(stream) = self.flow.store.table.stream_mut(index) else {
                invariant!("making room ends no stream");
                continue;
            };
            if grows {
                stream.ring.grow(slots);
            }
            least = least.min(stream.ring.slots());
        }
        if least < needed {
            let Some(topic) = self.flow.store.table.topic(index) else {
                return invariant!("fitting rings ends no topic");
            };
            out.report(&Event::ShortOfRoom { topic: topic.name.as_str(), kept: least, needed });
        }
    }

    /// Gives a topic another plan, and counts its streams anew. Whoever does not ask whether that fits is told soon.
    pub(crate) fn set_plan(&mut self, index: TopicId, new: Plan) {
        self.promises.crowd.planned_anew();
        let Some(topic) = self.flow.store.table.topic(index) else {
            return invariant!("a topic that gets a plan is there");
        };
        let old = topic.plan;
        let (contract, subscribers) = (topic.contract, topic.receivers());
        let admitted = topic
            .streams
            .iter()
            .filter(|index| self.flow.store.table.stream(**index).is_some_and(|s| s.record.admitted));
        for _ in 0..admitted.count() {
            self.promises.admission.uncount(&old, &contract, subscribers);
            self.promises.admission.count(&new, &contract, subscribers);
        }
        match self.flow.store.table.topic_mut(index) {
            Some(mut topic) => topic.plan = new,
            None => invariant!("a topic that gets a plan is there"),
        }
    }
}
