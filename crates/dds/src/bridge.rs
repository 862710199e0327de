//! One bridge between a domain of DDS and Verge: what it reads there, what it writes there, and what it tells other bridges.
//!
//! A writer's samples are read (*tapped*) only while a reader elsewhere hears it, or somebody asked for the topic (`publish`). In the domain
//! of that reader a *stand-in* writes them: one for each writer, with its type, its QoS and its strength, so that DDS itself decides there who is
//! heard. What a durable writer has written is recalled before a stand-in writes anything live.

use crate::endpoint::{Endpoint, Guid, Mismatch, Qos, Reliability};
use crate::history::Kept;
use crate::names::{ROOT, place, topic, words_filter, words_topic};
use crate::roster::{Heard, Said};
use crate::sample::{Carried, Kind, Sample};
use crate::words::{BridgeId, Counts, Who, Word};
use contract::{Loss, Span, Time, TopicFilter};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How often a bridge says that it is there.
pub const BEAT: Span = Span::secs(1);
/// How long a bridge listens for another one of its domain before it begins.
pub const LISTEN: Span = Span::millis(1500);
/// How long changes are gathered before they are told.
const GATHER: Span = Span::millis(20);
/// How often what a writer has written is asked for again.
const RECALL_AGAIN: Span = Span::millis(300);
/// What several ask for at once is sent once.
const RECALL_AT_LEAST: Span = Span::millis(150);
/// How long to wait for it before going on without.
const RECALL_AT_MOST: Span = Span::secs(15);
/// How long, after another bridge has begun to send a writer's samples, those that are not newer than what was written are left out.
const SWITCH: Span = Span::secs(10);
/// A bridge that has not been heard for so long may have begun anew.
const NAMESAKE: Span = Span::secs(3);
/// Instances of one writer of which the newest stamp is known.
const INSTANCES_MAX: usize = 65_536;
/// Mismatches that are remembered, so that each is told once.
const TOLD_MAX: usize = 10_000;
/// Readers and writers of the own domain. Further ones are not served.
pub const LOCAL_MAX: usize = 65_536;

/// What a bridge is told to do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who it is.
    pub who: Who,
    /// The number of its domain among bridges.
    pub domain: u32,
    /// Partitions and topics that may be carried (`-/rt/#`); empty: all.
    pub only: Vec<TopicFilter>,
    /// Those that may not.
    pub except: Vec<TopicFilter>,
    /// Those that are carried although no reader of DDS elsewhere wants them.
    pub publish: Vec<TopicFilter>,
    /// After so long without a word of another bridge its writers are taken to be gone.
    pub lease: Span,
}

/// What a topic of Verge is to promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wish {
    /// Zero where a writer is reliable.
    pub loss: Loss,
    /// The least latency budget of its writers.
    pub deadline: Option<Span>,
}

/// What the world is to do.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    /// Read a topic of DDS. Samples come back with this number.
    Tap {
        /// The number.
        tap: u64,
        /// What: topic, type and whether it has keys, of one of its writers.
        like: Endpoint,
        /// How.
        qos: Qos,
    },
    /// Read it no more.
    Untap {
        /// The number.
        tap: u64,
    },
    /// Write in place of a writer of another domain.
    StandIn {
        /// For whom.
        writer: Endpoint,
        /// How.
        qos: Qos,
    },
    /// Do so no more.
    StandDown {
        /// For whom.
        writer: Guid,
    },
    /// Write a sample.
    Write {
        /// For whom.
        writer: Guid,
        /// What.
        sample: Sample,
    },
    /// Publish a topic of Verge from now on, or with another promise.
    Advertise {
        /// Which.
        topic: String,
        /// What it promises.
        wish: Wish,
    },
    /// Publish it no more.
    Withdraw {
        /// Which.
        topic: String,
    },
    /// Publish a message.
    Publish {
        /// Of which topic.
        topic: String,
        /// What.
        message: Vec<u8>,
    },
    /// Receive a topic of Verge.
    Subscribe {
        /// Which.
        topic: String,
    },
    /// Receive it no more.
    Unsubscribe {
        /// Which.
        topic: String,
    },
    /// Tell bridges of the own domain whether this one serves.
    Mark {
        /// Whether it does.
        serves: bool,
    },
    /// Tell people.
    Tell(String),
}

/// Several writers that are read by one reader.
#[derive(Debug)]
struct Tap {
    like: Endpoint,
    qos: Qos,
    writers: BTreeSet<Guid>,
}

/// A writer of the own domain that is read.
#[derive(Debug)]
struct Tapped {
    tap: u64,
    /// Which time it is that it is read.
    life: u64,
    topic: String,
    next: u64,
    kept: Option<Kept>,
    recalled: Option<Time>,
}

/// A writer that stands in for one of another domain.
#[derive(Debug)]
struct StandIn {
    writer: Endpoint,
    topic: String,
    source: BridgeId,
    /// Which time it is that the source reads the writer, as far as it is known.
    life: Option<u64>,
    next: u64,
    /// Since when what was written before is waited for, and when it was last asked for.
    waits: Option<(Time, Option<Time>)>,
    switched: Option<Time>,
    stamps: BTreeMap<Option<[u8; 16]>, i64>,
}

/// Another bridge of the own domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Neighbour {
    /// Its number.
    pub id: BridgeId,
    /// Whether it serves.
    pub serves: bool,
}

/// One bridge.
#[derive(Debug)]
pub struct Bridge {
    settings: Settings,
    began: Time,
    serves: bool,
    local: BTreeMap<Guid, Endpoint>,
    local_topics: BTreeMap<String, BTreeSet<Guid>>,
    neighbours: BTreeMap<Guid, Neighbour>,
    said: Said,
    heard: Heard,
    taps: BTreeMap<u64, Tap>,
    next_tap: u64,
    lives: u64,
    tapped: BTreeMap<Guid, Tapped>,
    stand_ins: BTreeMap<Guid, StandIn>,
    wishes: BTreeMap<String, Wish>,
    subscribed: BTreeMap<String, usize>,
    dirty: BTreeSet<String>,
    told: BTreeSet<(Guid, Guid)>,
    counts: Counts,
    beat: Option<Time>,
    changed: Option<Time>,
    answered: Option<Time>,
    full: bool,
    namesake: bool,
    effects: VecDeque<Effect>,
}

impl Bridge {
    /// A bridge that begins now.
    pub fn new(now: Time, settings: Settings) -> Bridge {
        let mut bridge = Bridge {
            settings,
            began: now,
            serves: false,
            local: BTreeMap::new(),
            local_topics: BTreeMap::new(),
            neighbours: BTreeMap::new(),
            said: Said::default(),
            heard: Heard::default(),
            taps: BTreeMap::new(),
            next_tap: 0,
            lives: 0,
            tapped: BTreeMap::new(),
            stand_ins: BTreeMap::new(),
            wishes: BTreeMap::new(),
            subscribed: BTreeMap::new(),
            dirty: BTreeSet::new(),
            told: BTreeSet::new(),
            counts: Counts::default(),
            beat: None,
            changed: None,
            answered: None,
            full: false,
            namesake: false,
            effects: VecDeque::new(),
        };
        let wish = Wish { loss: Loss::AtMost(0), deadline: None };
        let all = words_filter(bridge.settings.domain);
        bridge.effects.push_back(Effect::Advertise { topic: bridge.words_topic(), wish });
        bridge.effects.push_back(Effect::Subscribe { topic: all });
        bridge
    }

    /// What is to be done next.
    pub fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Whether it serves its domain. If not, another one does, or it listens whether one is there.
    pub fn serves(&self) -> bool {
        self.serves
    }

    /// A reader or writer of the own domain is there, or has changed. Those of bridges are not told.
    pub fn found(&mut self, now: Time, endpoint: Endpoint) {
        if self.local.get(&endpoint.guid) == Some(&endpoint) {
            return;
        }
        self.lost(now, endpoint.guid);
        if self.local.len() >= LOCAL_MAX {
            if !std::mem::replace(&mut self.full, true) {
                self.tell(format!(
                    "there are more than {LOCAL_MAX} readers and writers: further ones are not served"
                ));
            }
            return;
        }
        let name = topic(self.settings.domain, &self.settings.who.name, &endpoint);
        if let Err(error) = contract::check_name(&name) {
            self.tell(format!("the topic `{}` of DDS cannot be carried: {error}", shown(&endpoint.topic)));
            return;
        }
        if self.is_allowed(&endpoint) {
            self.said.add(&endpoint);
            self.changed.get_or_insert(now);
        }
        self.dirty.insert(endpoint.topic.clone());
        self.local_topics.entry(endpoint.topic.clone()).or_default().insert(endpoint.guid);
        self.local.insert(endpoint.guid, endpoint);
    }

    /// A reader or writer of the own domain has gone.
    pub fn lost(&mut self, now: Time, guid: Guid) {
        let Some(endpoint) = self.local.remove(&guid) else { return };
        if let Some(known) = self.local_topics.get_mut(&endpoint.topic) {
            known.remove(&guid);
            if known.is_empty() {
                self.local_topics.remove(&endpoint.topic);
            }
        }
        self.said.remove(guid);
        self.changed.get_or_insert(now);
        self.told.retain(|(writer, reader)| *writer != guid && *reader != guid);
        self.dirty.insert(endpoint.topic);
    }

    /// Another bridge of the own domain is there or has changed, or (`None`) has gone.
    pub fn neighbour(&mut self, participant: Guid, neighbour: Option<Neighbour>) {
        match neighbour {
            Some(neighbour) => self.neighbours.insert(participant, neighbour),
            None => self.neighbours.remove(&participant),
        };
    }

    /// A reader or writer that was to be made could not be.
    pub fn failed(&mut self, what: &str, topic: &str, why: &str) {
        self.tell(format!("cannot {what} `{}`: {why}", shown(topic)));
    }

    /// A writer of the own domain has written.
    pub fn sample(&mut self, tap: u64, writer: Guid, sample: Sample) {
        let Some(tapped) = self.tapped.get_mut(&writer).filter(|tapped| tapped.tap == tap) else { return };
        let seq = tapped.next;
        tapped.next += 1;
        if let Some(kept) = &mut tapped.kept {
            kept.keep(seq, &sample);
        }
        let carried =
            Carried { bridge: self.settings.who.id, writer, life: tapped.life, seq, again: false, sample };
        self.counts.sent += 1;
        let (topic, message) = (tapped.topic.clone(), carried.encode());
        self.effects.push_back(Effect::Publish { topic, message });
    }

    /// What was to be sent or written could not be.
    pub fn dropped(&mut self, samples: u64) {
        self.counts.dropped += samples;
    }

    /// A message of another client of Verge, with its age.
    pub fn message(&mut self, now: Time, topic: &str, message: &[u8], age: Span) {
        if !self.is_words_topic(topic) {
            match Carried::decode(message) {
                Some(carried) => self.carried(now, carried, age),
                None => self.counts.dropped += 1,
            }
            return;
        }
        let Ok(word) = Word::decode(message) else { return };
        match &word {
            Word::Ask { of } if of.is_none_or(|of| of == self.settings.who.id) => self.answer(now),
            Word::Recall { writer } => self.recall(now, *writer),
            Word::Beat { bridge, .. }
            | Word::Change { bridge, .. }
            | Word::All { bridge, .. }
            | Word::Gone { bridge }
                if bridge.id != self.settings.who.id =>
            {
                let heed = self.heard.hear(now, word);
                self.dirty.extend(heed.topics);
                if let Some(of) = heed.ask {
                    self.say(&Word::Ask { of: Some(of) });
                }
            }
            _ => {}
        }
    }

    /// Time has passed. To be called often: every 10 ms or so, and after everything else.
    pub fn tick(&mut self, now: Time) {
        self.decide_who_serves(now);
        self.look_for_namesakes(now);
        let gone = self.heard.age(now, self.settings.lease);
        self.dirty.extend(gone);
        for topic in std::mem::take(&mut self.dirty) {
            self.settle(now, &topic);
        }
        if self.serves && self.changed.is_some_and(|changed| now.since(changed) >= GATHER) {
            self.changed = None;
            let words = self.said.changes(&self.settings.who);
            words.iter().for_each(|word| self.say(word));
        }
        if self.beat.is_none_or(|beat| now.since(beat) >= BEAT) {
            self.beat = Some(now);
            self.say_beat();
        }
        self.ask_for_what_was(now);
    }

    /// The bridge ends: it takes back what it has said.
    pub fn end(&mut self) {
        self.say(&Word::Gone { bridge: self.settings.who.clone() });
    }

    fn tell(&mut self, words: String) {
        self.effects.push_back(Effect::Tell(words));
    }

    fn say(&mut self, word: &Word) {
        let topic = self.words_topic();
        self.effects.push_back(Effect::Publish { topic, message: word.encode() });
    }

    fn say_beat(&mut self) {
        let (bridge, version) = (self.settings.who.clone(), self.said.version());
        // A bridge that stands by has no list.
        let version = if self.serves { version } else { 0 };
        self.say(&Word::Beat { bridge, version, stands_by: !self.serves, counts: self.counts });
    }

    fn words_topic(&self) -> String {
        words_topic(self.settings.domain, &self.settings.who.name)
    }

    fn is_words_topic(&self, topic: &str) -> bool {
        let mut levels = topic.split('/');
        levels.next() == Some(ROOT) && levels.nth(1) == Some("bridges")
    }

    fn is_allowed(&self, endpoint: &Endpoint) -> bool {
        let (Settings { only, except, .. }, name) = (&self.settings, place(endpoint));
        (only.is_empty() || only.iter().any(|filter| filter.matches(&name)))
            && !except.iter().any(|filter| filter.matches(&name))
    }

    /// Two bridges of one name would publish under one topic, perhaps with different promises.
    fn look_for_namesakes(&mut self, now: Time) {
        let Who { id, name, .. } = &self.settings.who;
        // One that has ended without a word is heard no more after a moment.
        let settled = now.since(self.began) > NAMESAKE;
        if self.namesake || !settled || !self.heard.is_heard_since(now - NAMESAKE, name, *id) {
            return;
        }
        self.namesake = true;
        let words =
            format!("another bridge is called `{name}` as well: give one of them another name (--id)");
        self.tell(words);
    }

    /// One bridge serves a domain. Who has begun goes on; of several at once the one with the lowest number.
    fn decide_who_serves(&mut self, now: Time) {
        let own = self.settings.who.id;
        let others = self.neighbours.values();
        let served = others.clone().any(|other| other.serves && (!self.serves || other.id < own));
        let before = others.clone().any(|other| !other.serves && other.id < own);
        if self.serves && served {
            self.serves = false;
            self.tell("another bridge serves this domain: this one stands by".to_owned());
            self.say(&Word::Gone { bridge: self.settings.who.clone() });
        } else if !self.serves && !served && !before && now.since(self.began) >= LISTEN {
            self.serves = true;
            self.changed.get_or_insert(now);
            self.tell("serves its domain".to_owned());
        } else {
            return;
        }
        self.effects.push_back(Effect::Mark { serves: self.serves });
        self.dirty.extend(self.local_topics.keys().cloned());
        self.beat = None;
    }

    /// Reads and writes of a topic of DDS what is wanted now.
    fn settle(&mut self, now: Time, name: &str) {
        let guids = self.local_topics.get(name).cloned().unwrap_or_default();
        let local: Vec<Endpoint> = guids.iter().filter_map(|guid| self.local.get(guid).cloned()).collect();
        let remote: Vec<(BridgeId, Endpoint)> =
            self.heard.of_topic(name).map(|(id, endpoint)| (id, endpoint.clone())).collect();
        let (mut tapped, mut stood_in) = (BTreeSet::new(), BTreeSet::new());
        if self.serves {
            for writer in local.iter().filter(|endpoint| endpoint.writes) {
                let asked = self.settings.publish.iter().any(|filter| filter.matches(&place(writer)));
                let readers = remote.iter().map(|(_, reader)| reader).filter(|reader| !reader.writes);
                let wanted = self.is_wanted(writer, readers);
                if self.is_allowed(writer) && (asked || wanted) {
                    tapped.insert(writer.guid);
                    self.tap(writer);
                }
            }
            for (_, writer) in remote.iter().filter(|(_, endpoint)| endpoint.writes) {
                // What is in this domain as well needs nobody to stand in.
                let here = self.local.contains_key(&writer.guid);
                let allowed = self.is_allowed(writer);
                let readers = local.iter().filter(|reader| !reader.writes);
                if !here && allowed && self.is_wanted(writer, readers) {
                    stood_in.insert(writer.guid);
                    self.stand_in(now, writer);
                }
            }
        }
        let ends = |known: &BTreeSet<Guid>, guid: &Guid| !known.contains(guid);
        let untap: Vec<Guid> = self
            .tapped
            .keys()
            .filter(|guid| ends(&tapped, guid) && self.topic_of_tapped(guid) == Some(name))
            .copied()
            .collect();
        untap.into_iter().for_each(|guid| self.untap(guid));
        let stand_ins =
            self.stand_ins.iter().filter(|(guid, it)| ends(&stood_in, guid) && it.writer.topic == name);
        let down: Vec<Guid> = stand_ins.map(|(guid, _)| *guid).collect();
        down.into_iter().for_each(|guid| self.stand_down(guid));
        self.wish_for(&local);
    }

    fn topic_of_tapped(&self, guid: &Guid) -> Option<&str> {
        let tap = self.taps.get(&self.tapped.get(guid)?.tap)?;
        Some(&tap.like.topic)
    }

    /// Whether one of these readers hears a writer. Tells, once, of those that would but for what is offered.
    fn is_wanted<'a>(&mut self, writer: &Endpoint, readers: impl Iterator<Item = &'a Endpoint>) -> bool {
        let mut wanted = false;
        for reader in readers {
            match writer.is_heard_by(reader) {
                Ok(()) => wanted = true,
                Err(Mismatch::Partition) => {}
                Err(mismatch) => {
                    let pair = (writer.guid, reader.guid);
                    if self.told.len() < TOLD_MAX && self.told.insert(pair) {
                        self.tell(format!(
                            "`{}`: the reader {} does not hear the writer {}: {mismatch}",
                            shown(&writer.topic),
                            reader.guid,
                            writer.guid
                        ));
                    }
                }
            }
        }
        wanted
    }

    fn tap(&mut self, writer: &Endpoint) {
        let carried_as = topic(self.settings.domain, &self.settings.who.name, writer);
        let qos = of_tap(&writer.qos);
        if let Some(known) = self.tapped.get(&writer.guid) {
            let same =
                self.taps.get(&known.tap).is_some_and(|tap| tap.qos == qos && is_alike(&tap.like, writer));
            if same && known.topic == carried_as {
                return;
            }
            self.untap(writer.guid);
        }
        let known = self.taps.iter_mut().find(|(_, tap)| tap.qos == qos && is_alike(&tap.like, writer));
        let number = match known {
            // What a durable writer wrote before comes to a reader that is new, and to no other.
            Some((number, tap)) if !writer.qos.is_durable() => {
                tap.writers.insert(writer.guid);
                *number
            }
            _ => {
                let number = self.next_tap;
                self.next_tap += 1;
                let tap =
                    Tap { like: writer.clone(), qos: qos.clone(), writers: BTreeSet::from([writer.guid]) };
                self.taps.insert(number, tap);
                self.effects.push_back(Effect::Tap { tap: number, like: writer.clone(), qos });
                number
            }
        };
        let kept = writer.qos.is_durable().then(|| Kept::new(writer.qos.history));
        self.lives += 1;
        let tapped =
            Tapped { tap: number, life: self.lives, topic: carried_as, next: 0, kept, recalled: None };
        self.tapped.insert(writer.guid, tapped);
    }

    fn untap(&mut self, guid: Guid) {
        let Some(tapped) = self.tapped.remove(&guid) else { return };
        let Some(tap) = self.taps.get_mut(&tapped.tap) else { return };
        tap.writers.remove(&guid);
        if tap.writers.is_empty() {
            self.taps.remove(&tapped.tap);
            self.effects.push_back(Effect::Untap { tap: tapped.tap });
        }
        if !self.tapped.values().any(|other| other.topic == tapped.topic) {
            self.wishes.remove(&tapped.topic);
            self.effects.push_back(Effect::Withdraw { topic: tapped.topic });
        }
    }

    /// What the topics of Verge of these writers promise.
    fn wish_for(&mut self, local: &[Endpoint]) {
        let mut wishes: BTreeMap<String, Wish> = BTreeMap::new();
        for writer in local {
            let Some(tapped) = self.tapped.get(&writer.guid) else { continue };
            let none = Wish { loss: Loss::Unbounded, deadline: None };
            let wish = wishes.entry(tapped.topic.clone()).or_insert(none);
            if writer.qos.reliability == Reliability::Reliable {
                wish.loss = Loss::AtMost(0);
            }
            let budget = i64::try_from(writer.qos.latency_budget_ns).unwrap_or(i64::MAX);
            let budget =
                Some(Span::nanos(budget)).filter(|budget| *budget > Span::ZERO && *budget < BUDGET_MAX);
            wish.deadline = wish.deadline.into_iter().chain(budget).min();
        }
        for (topic, wish) in wishes {
            if self.wishes.insert(topic.clone(), wish) != Some(wish) {
                self.effects.push_back(Effect::Advertise { topic, wish });
            }
        }
    }

    fn stand_in(&mut self, now: Time, writer: &Endpoint) {
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
        self.effects.push_back(Effect::StandIn { writer: writer.clone(), qos: writer.qos.of_stand_in() });
        let carried_as = topic(self.settings.domain, self.heard.name_of(source), writer);
        self.subscribe(&carried_as);
        let stand_in = StandIn {
            writer: writer.clone(),
            topic: carried_as,
            source,
            life: None,
            next: 0,
            waits: writer.qos.is_durable().then_some((now, None)),
            switched: None,
            stamps: BTreeMap::new(),
        };
        self.stand_ins.insert(writer.guid, stand_in);
    }

    /// A bridge begins to read a writer for which one stands in here, and numbers anew.
    fn turn_to(&mut self, now: Time, writer: Guid, bridge: BridgeId, life: Option<u64>) {
        let name = self.heard.name_of(bridge).to_owned();
        let Some(known) = self.stand_ins.get_mut(&writer) else { return };
        (known.source, known.life, known.next, known.switched) = (bridge, life, 0, Some(now));
        known.waits = known.writer.qos.is_durable().then_some((now, None));
        let carried_as = topic(self.settings.domain, &name, &known.writer);
        let before = std::mem::replace(&mut known.topic, carried_as.clone());
        if before != carried_as {
            self.subscribe(&carried_as);
            self.unsubscribe(before);
        }
    }

    fn subscribe(&mut self, topic: &str) {
        let count = self.subscribed.entry(topic.to_owned()).or_default();
        *count += 1;
        if *count == 1 {
            self.effects.push_back(Effect::Subscribe { topic: topic.to_owned() });
        }
    }

    fn unsubscribe(&mut self, topic: String) {
        let Some(count) = self.subscribed.get_mut(&topic) else { return };
        *count -= 1;
        if *count == 0 {
            self.subscribed.remove(&topic);
            self.effects.push_back(Effect::Unsubscribe { topic });
        }
    }

    fn stand_down(&mut self, guid: Guid) {
        let Some(stand_in) = self.stand_ins.remove(&guid) else { return };
        self.effects.push_back(Effect::StandDown { writer: guid });
        self.unsubscribe(stand_in.topic);
    }

    /// A sample of a writer of another domain.
    fn carried(&mut self, now: Time, carried: Carried, age: Span) {
        let Carried { bridge, writer, life, seq, again, sample } = carried;
        let Some(known) = self.stand_ins.get_mut(&writer) else { return };
        let (said, by) = (self.heard.is_said_by(writer, bridge), self.heard.is_said_by(writer, known.source));
        let known_life = known.life.filter(|_| bridge == known.source);
        if bridge != known.source && (by || !said) || known_life.is_some_and(|known| life < known) {
            return;
        }
        if bridge == known.source && known_life.is_none() {
            known.life = Some(life);
        } else if known_life != Some(life) {
            self.turn_to(now, writer, bridge, Some(life));
        }
        let Some(known) = self.stand_ins.get_mut(&writer) else { return };
        if sample.kind == Kind::End {
            if known.waits.take().is_some() {
                known.next = known.next.max(seq);
            }
            return;
        }
        // While what was written before is waited for, what is live comes again with it.
        if seq < known.next || again != known.waits.is_some() {
            return;
        }
        known.next = seq + 1;
        let newest = known.stamps.get(&sample.hash).copied();
        let switched = known.switched.is_some_and(|switched| now.since(switched) < SWITCH);
        if switched && newest.is_some_and(|newest| sample.stamp <= newest) {
            return;
        }
        if newest.is_some() || known.stamps.len() < INSTANCES_MAX {
            known.stamps.insert(sample.hash, newest.map_or(sample.stamp, |newest| newest.max(sample.stamp)));
        }
        let lifespan = known.writer.qos.lifespan_ns;
        if !again && lifespan.is_some_and(|lifespan| age.as_nanos_u64() > lifespan) {
            self.counts.expired += 1;
            return;
        }
        self.counts.written += 1;
        self.effects.push_back(Effect::Write { writer, sample });
    }

    /// Asks again for what durable writers have written before, and goes on without it at last.
    fn ask_for_what_was(&mut self, now: Time) {
        let (mut asks, mut without) = (Vec::new(), Vec::new());
        for (writer, stand_in) in &mut self.stand_ins {
            let Some((since, asked)) = &mut stand_in.waits else { continue };
            if now.since(*since) >= RECALL_AT_MOST {
                stand_in.waits = None;
                without.push(stand_in.writer.topic.clone());
            } else if asked.is_none_or(|asked| now.since(asked) >= RECALL_AGAIN) {
                *asked = Some(now);
                asks.push(*writer);
            }
        }
        asks.into_iter().for_each(|writer| self.say(&Word::Recall { writer }));
        for topic in without {
            self.tell(format!(
                "`{}`: what was written before has not come, and is not waited for any more",
                shown(&topic)
            ));
        }
    }

    /// Sends again what a durable writer has written.
    fn recall(&mut self, now: Time, writer: Guid) {
        let Some(tapped) = self.tapped.get_mut(&writer) else { return };
        let Some(kept) = &tapped.kept else { return };
        if tapped.recalled.is_some_and(|recalled| now.since(recalled) < RECALL_AT_LEAST) {
            return;
        }
        tapped.recalled = Some(now);
        let (bridge, life) = (self.settings.who.id, tapped.life);
        let end = Sample { kind: Kind::End, status: 0, stamp: 0, hash: None, bytes: Vec::new() };
        let samples = kept.samples().map(|(seq, sample)| (seq, sample.clone()));
        let samples: Vec<(u64, Sample)> = samples.chain([(tapped.next, end)]).collect();
        for (seq, sample) in samples {
            let message = Carried { bridge, writer, life, seq, again: true, sample }.encode();
            self.effects.push_back(Effect::Publish { topic: tapped.topic.clone(), message });
        }
    }

    /// Gives the whole list.
    fn answer(&mut self, now: Time) {
        let just_now = self.answered.is_some_and(|answered| now.since(answered) < Span::millis(200));
        if !self.serves {
            self.say_beat();
        } else if !just_now {
            self.answered = Some(now);
            // What has not been told is in the list too, and is told first.
            let mut words = self.said.changes(&self.settings.who);
            words.extend(self.said.all(&self.settings.who));
            words.iter().for_each(|word| self.say(word));
            self.say_beat();
        }
    }
}

/// A latency budget above this is none.
const BUDGET_MAX: Span = Span::secs(3600);

/// How writers are read that offer this. What does not decide whom a reader hears is left out, so that few readers are needed.
fn of_tap(offered: &Qos) -> Qos {
    let plain = Qos::default();
    Qos {
        strength: 0,
        priority: 0,
        lifespan_ns: None,
        max_blocking_ns: plain.max_blocking_ns,
        ..offered.of_reader()
    }
}

fn is_alike(tap: &Endpoint, writer: &Endpoint) -> bool {
    tap.topic == writer.topic
        && tap.type_name == writer.type_name
        && tap.guid.is_keyed() == writer.guid.is_keyed()
}

/// A name as people are shown it.
fn shown(name: &str) -> String {
    contract::shortened(name, contract::TOPIC_BYTES_SHOWN).to_string()
}
