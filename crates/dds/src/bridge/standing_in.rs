//! Writers of other domains: who stands in for them here, and in which order what they wrote is written.

use super::{Bridge, Effect, shown};
use crate::endpoint::{Endpoint, Guid, Reliability};
use crate::history::BYTES_MAX as HISTORY_BYTES_MAX;
use crate::names::topic;
use crate::sample::{Carried, Kind, Sample};
use crate::words::{BridgeId, Word};
use contract::{Mutant, Span, Time};
use std::collections::BTreeMap;

/// How long what a reliable writer wrote later waits for what is missing before it: after a failover the newest may come first.
const GAP_AT_MOST: Span = Span::secs(2);
/// Samples of one writer that wait so.
const HELD_MAX: usize = 262_144;
/// And their bytes.
const HELD_BYTES_MAX: usize = 2 * HISTORY_BYTES_MAX;
/// Instances of one writer of which the newest stamp is known.
const INSTANCES_MAX: usize = 65_536;
/// How often what a writer has written is asked for again.
const RECALL_AGAIN: Span = Span::millis(300);
/// How long to wait for more of it before going on without.
const RECALL_AT_MOST: Span = Span::secs(60);
/// How long, after another bridge has begun to send a writer's samples, those that are not newer than what was written are left out.
const SWITCH: Span = Span::secs(10);

/// A writer that stands in for one of another domain.
#[derive(Debug)]
pub(super) struct StandIn {
    pub(super) writer: Endpoint,
    topic: String,
    source: BridgeId,
    /// Which time it is that the source reads the writer, as far as it is known.
    life: Option<u64>,
    next: u64,
    /// What was written before is waited for.
    recall: Option<Recall>,
    switched: Option<Time>,
    /// What came before its turn.
    held: Held,
    stamps: BTreeMap<Option<[u8; 16]>, i64>,
}

/// What a writer has written before is waited for.
#[derive(Debug)]
struct Recall {
    /// Since when nothing has come that had not come before.
    since: Time,
    /// When it was last asked for, or some of it came.
    asked: Option<Time>,
}

impl Recall {
    fn new(now: Time) -> Recall {
        Recall { since: now, asked: None }
    }
}

/// A sample that came before its turn.
#[derive(Debug)]
struct Waiting {
    sample: Sample,
    age: Span,
    /// Which time it was that it was sent again.
    again: u64,
    came: Time,
}

/// Samples that came before their turn, by number.
#[derive(Debug, Default)]
pub(super) struct Held {
    samples: BTreeMap<u64, Waiting>,
    bytes: usize,
}

impl Held {
    fn put(&mut self, seq: u64, mut waiting: Waiting) {
        if let Some(before) = self.samples.get(&seq) {
            waiting.again = waiting.again.max(before.again);
            waiting.came = before.came;
            self.bytes -= before.sample.bytes.len();
        }
        self.bytes += waiting.sample.bytes.len();
        self.samples.insert(seq, waiting);
    }

    /// The next in order, if it is below this number.
    fn take_below(&mut self, end: u64) -> Option<(u64, Waiting)> {
        let first = self.samples.first_entry().filter(|first| *first.key() < end)?.remove_entry();
        self.bytes -= first.1.sample.bytes.len();
        Some(first)
    }

    /// How many of an answer have come, below its end.
    fn of_answer(&self, answer: u64, end: u64) -> usize {
        self.samples.range(..end).filter(|(_, waiting)| waiting.again == answer).count()
    }

    /// Whether the next one has waited for so long.
    fn has_waited(&self, now: Time, span: Span) -> bool {
        self.samples.first_key_value().is_some_and(|(_, first)| now.since(first.came) >= span)
    }

    fn is_full(&self) -> bool {
        self.samples.len() > HELD_MAX || self.bytes > HELD_BYTES_MAX
    }
}

impl Bridge {
    pub(super) fn stand_in(&mut self, now: Time, writer: &Endpoint) {
        if let Some(known) = self.stand_ins.get(&writer.guid) {
            if known.writer == *writer {
                if !self.heard.is_said_by(writer.guid, known.source) {
                    let sayer = self.heard.sayer_of(writer.guid);
                    sayer.into_iter().for_each(|bridge| self.turn_to(now, writer.guid, bridge, None));
                }
                return;
            }
            self.stand_down(writer.guid);
        }
        let Some(source) = self.heard.sayer_of(writer.guid) else { return };
        self.effects.push_back(Effect::StandIn { writer: writer.clone() });
        let carried_as = topic(self.settings.domain, self.heard.name_of(source), writer);
        self.subscribe(&carried_as);
        let stand_in = StandIn {
            writer: writer.clone(),
            topic: carried_as,
            source,
            life: None,
            next: 0,
            recall: writer.qos.is_durable().then(|| Recall::new(now)),
            switched: None,
            held: Held::default(),
            stamps: BTreeMap::new(),
        };
        self.stand_ins.insert(writer.guid, stand_in);
    }

    /// A bridge begins to read a writer for which one stands in here, and numbers anew.
    pub(super) fn turn_to(&mut self, now: Time, writer: Guid, bridge: BridgeId, life: Option<u64>) {
        let name = self.heard.name_of(bridge).to_owned();
        let Some(known) = self.stand_ins.get_mut(&writer) else { return };
        (known.source, known.life, known.next, known.switched) = (bridge, life, 0, Some(now));
        known.held = Held::default();
        known.recall = known.writer.qos.is_durable().then(|| Recall::new(now));
        let carried_as = topic(self.settings.domain, &name, &known.writer);
        let before = std::mem::replace(&mut known.topic, carried_as.clone());
        if before != carried_as {
            self.subscribe(&carried_as);
            self.unsubscribe(before);
        }
    }

    pub(super) fn subscribe(&mut self, topic: &str) {
        let count = self.subscribed.entry(topic.to_owned()).or_default();
        *count += 1;
        if *count == 1 {
            self.effects.push_back(Effect::Subscribe { topic: topic.to_owned() });
        }
    }

    pub(super) fn unsubscribe(&mut self, topic: String) {
        let Some(count) = self.subscribed.get_mut(&topic) else { return };
        *count -= 1;
        if *count == 0 {
            self.subscribed.remove(&topic);
            self.effects.push_back(Effect::Unsubscribe { topic });
        }
    }

    pub(super) fn stand_down(&mut self, guid: Guid) {
        let Some(stand_in) = self.stand_ins.remove(&guid) else { return };
        self.effects.push_back(Effect::StandDown { writer: guid });
        self.unsubscribe(stand_in.topic);
    }

    /// A sample of a writer of another domain.
    pub(super) fn carried(&mut self, now: Time, carried: Carried, age: Span) {
        let Carried { bridge, writer, life, seq, again, sample } = carried;
        let Some(known) = self.stand_ins.get_mut(&writer) else { return };
        let (said, by) = (self.heard.is_said_by(writer, bridge), self.heard.is_said_by(writer, known.source));
        let known_life = known.life.filter(|_| bridge == known.source);
        if bridge != known.source && (by || !said) || known_life.is_some_and(|known| life < known) {
            return;
        }
        let first = known_life != Some(life);
        if bridge == known.source && known_life.is_none() {
            known.life = Some(life);
        } else if known_life != Some(life) {
            self.turn_to(now, writer, bridge, Some(life));
        }
        let Some(known) = self.stand_ins.get_mut(&writer) else { return };
        if sample.kind == Kind::Probe {
            if first && known.recall.is_none() {
                known.next = 0;
            }
            self.effects.push_back(Effect::Look { writer });
            return;
        }
        if let Some(recall) = known.recall.as_mut().filter(|_| again > 0) {
            // It comes: nobody asks again meanwhile.
            recall.asked = Some(now);
        }
        let reliable = known.writer.qos.reliability == Reliability::Reliable;
        if sample.kind == Kind::End {
            // Where some of it has not come yet, it is asked for once more. Of best effort some may never come.
            let come = known.held.of_answer(again, seq);
            if known.recall.is_some() && (come as i64 >= sample.stamp || !reliable) {
                known.recall = None;
                self.begin_live(now, writer, seq);
            }
            return;
        }
        if first && again == 0 && known.recall.is_none() {
            // What was before is nobody's loss.
            known.next = seq;
        }
        if seq < known.next {
            return;
        }
        let in_order = reliable && !Mutant::WriteAsItComes.is_on();
        let waits = known.recall.is_some();
        // What is sent again is for those who wait for it.
        if again > 0 && !waits {
            return;
        }
        if !waits && (seq == known.next || !in_order) {
            known.next = seq.saturating_add(1);
            self.write(now, writer, sample, age);
        } else {
            let held = known.held.samples.len();
            known.held.put(seq, Waiting { sample, age, again, came: now });
            if let Some(recall) = known.recall.as_mut().filter(|_| again > 0)
                && known.held.samples.len() > held
            {
                recall.since = now;
            }
            if known.held.is_full() {
                known.recall = None;
                self.skip(now, writer);
            }
        }
        self.write_what_follows(now, writer);
    }

    /// All that a durable writer wrote before this number has come: it is written, and then what is live.
    pub(super) fn begin_live(&mut self, now: Time, writer: Guid, end: u64) {
        if let Some(known) = self.stand_ins.get_mut(&writer) {
            known.switched = known.switched.map(|_| now);
        }
        while let Some(known) = self.stand_ins.get_mut(&writer)
            && let Some((_, Waiting { sample, age, again, .. })) = known.held.take_below(end)
        {
            // Whoever sent it again has seen to it that it is still valid.
            self.write(now, writer, sample, if again > 0 { Span::ZERO } else { age });
        }
        if let Some(known) = self.stand_ins.get_mut(&writer) {
            known.next = known.next.max(end);
        }
        self.write_what_follows(now, writer);
    }

    /// What is missing is waited for no more.
    pub(super) fn skip(&mut self, now: Time, writer: Guid) {
        let Some(known) = self.stand_ins.get_mut(&writer) else { return };
        let Some(first) = known.held.samples.keys().next().copied() else { return };
        known.next = first;
        self.write_what_follows(now, writer);
    }

    /// Writes what waits for nothing any more.
    pub(super) fn write_what_follows(&mut self, now: Time, writer: Guid) {
        while let Some(known) = self.stand_ins.get_mut(&writer).filter(|known| known.recall.is_none())
            && let Some((seq, Waiting { sample, age, .. })) =
                known.held.take_below(known.next.saturating_add(1))
        {
            if seq == known.next {
                known.next = known.next.saturating_add(1);
                self.write(now, writer, sample, age);
            }
        }
    }

    pub(super) fn write(&mut self, now: Time, writer: Guid, sample: Sample, age: Span) {
        let Some(known) = self.stand_ins.get_mut(&writer) else { return };
        let newest = known.stamps.get(&sample.hash).copied();
        let switched = known.switched.is_some_and(|switched| now.since(switched) < SWITCH)
            && !Mutant::WriteAgain.is_on();
        if switched && newest.is_some_and(|newest| sample.stamp <= newest) {
            return;
        }
        if newest.is_some() || known.stamps.len() < INSTANCES_MAX {
            known.stamps.insert(sample.hash, newest.map_or(sample.stamp, |newest| newest.max(sample.stamp)));
        }
        let lifespan = known.writer.qos.lifespan_ns;
        if lifespan.is_some_and(|lifespan| age.as_nanos_u64() > lifespan) {
            self.counts.expired += 1;
            return;
        }
        self.counts.written += 1;
        self.effects.push_back(Effect::Write { writer, sample });
    }

    /// Goes on without what has been missing for too long.
    pub(super) fn give_up_gaps(&mut self, now: Time) {
        let late = |known: &StandIn| known.recall.is_none() && known.held.has_waited(now, GAP_AT_MOST);
        let late: Vec<Guid> =
            self.stand_ins.iter().filter(|(_, known)| late(known)).map(|(guid, _)| *guid).collect();
        for writer in late {
            // What a durable writer keeps of it can still be had.
            if let Some(known) = self.stand_ins.get_mut(&writer).filter(|known| known.writer.qos.is_durable())
            {
                (known.recall, known.next, known.switched) = (Some(Recall::new(now)), 0, Some(now));
                continue;
            }
            while self.stand_ins.get(&writer).is_some_and(|it| it.held.has_waited(now, GAP_AT_MOST)) {
                self.skip(now, writer);
            }
        }
    }

    /// Asks again for what durable writers have written before, and goes on without it at last.
    pub(super) fn ask_for_what_was(&mut self, now: Time) {
        let (mut asks, mut without) = (Vec::new(), Vec::new());
        for (writer, stand_in) in &mut self.stand_ins {
            let Some(recall) = &mut stand_in.recall else { continue };
            if now.since(recall.since) >= RECALL_AT_MOST {
                stand_in.recall = None;
                stand_in.switched = stand_in.switched.map(|_| now);
                without.push((*writer, stand_in.writer.topic.clone()));
            } else if recall.asked.is_none_or(|asked| now.since(asked) >= RECALL_AGAIN) {
                recall.asked = Some(now);
                asks.push(*writer);
            }
        }
        asks.into_iter().for_each(|writer| self.say(&Word::Recall { writer }));
        for (writer, topic) in without {
            while self.stand_ins.get(&writer).is_some_and(|it| !it.held.samples.is_empty()) {
                self.skip(now, writer);
            }
            self.tell(format!(
                "`{}`: what was written before has not come, and is not waited for any more",
                shown(&topic)
            ));
        }
    }

    /// Readers have found the stand-in of a writer: what it writes reaches them.
    pub fn is_found(&mut self, writer: Guid) {
        if self.stand_ins.contains_key(&writer) {
            self.say(&Word::Ready { writer });
        }
    }
}
