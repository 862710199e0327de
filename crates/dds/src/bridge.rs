//! One bridge between a domain of DDS and Verge: what it reads there, what it writes there, and what it tells other bridges.
//!
//! A writer's samples are read (*tapped*) only while a reader elsewhere hears it, or somebody asked for the topic (`publish`). In the domain
//! of that reader a *stand-in* writes them: one for each writer, with its type, its QoS and its strength, so that DDS itself decides there who is
//! heard. What a durable writer has written is recalled before a stand-in writes anything live.

use crate::endpoint::{Endpoint, Guid, Mismatch, Qos, Reliability};
use crate::history::{BYTES_MAX as HISTORY_BYTES_MAX, Kept};
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
/// Samples of one writer that wait until somebody is ready to write them.
const EARLY_MAX: usize = 4096;
/// How often it is asked whether somebody is ready to write for a writer.
const PROBE_AGAIN: Span = Span::millis(50);
/// How long that is waited for.
const PROBE_AT_MOST: Span = Span::secs(5);
/// What several ask for at once is sent once.
const RECALL_AT_LEAST: Span = Span::millis(150);
/// How long to wait for it before going on without.
const RECALL_AT_MOST: Span = Span::secs(15);
/// How long, after another bridge has begun to send a writer's samples, those that are not newer than what was written are left out.
const SWITCH: Span = Span::secs(10);
/// A bridge that has not been heard for so long may have begun anew.
const NAMESAKE: Span = Span::secs(3);
/// How long what a reliable writer wrote later waits for what is missing before it: after a failover the newest may come first.
const GAP_AT_MOST: Span = Span::secs(2);
/// Samples of one writer that wait so.
const HELD_MAX: usize = 8192;
/// And their bytes.
const HELD_BYTES_MAX: usize = 2 * HISTORY_BYTES_MAX;
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
    /// The longest sample that is carried.
    pub sample_bytes: usize,
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
    /// Publish a topic of Verge from now on.
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
    /// Look whether readers have found a stand-in: [`Bridge::is_found`].
    Look {
        /// Of whom.
        writer: Guid,
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
    writer: Endpoint,
    /// `None`: it is not read yet, since whoever is to hear it may not be there yet.
    tap: Option<u64>,
    /// Since when that is so, and when was last asked whether somebody is there.
    waits: (Time, Option<Time>),
    /// Which time it is that it is read.
    life: u64,
    topic: String,
    next: u64,
    kept: Option<Kept>,
    recalled: Option<Time>,
    /// What it has written before it is read.
    early: Vec<Sample>,
    /// It has written samples that are too long.
    has_long: bool,
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
    /// What came before its turn.
    held: Held,
    stamps: BTreeMap<Option<[u8; 16]>, i64>,
}

/// Samples that came before their turn, by number, each with its age and whether it was sent again.
#[derive(Debug, Default)]
struct Held {
    samples: BTreeMap<u64, (Sample, Span, bool)>,
    bytes: usize,
    since: Option<Time>,
}

impl Held {
    fn put(&mut self, now: Time, seq: u64, sample: Sample, age: Span, again: bool) {
        self.since.get_or_insert(now);
        self.bytes += sample.bytes.len();
        if let Some((before, ..)) = self.samples.insert(seq, (sample, age, again)) {
            self.bytes -= before.bytes.len();
        }
    }

    /// The next in order, if it is below this number.
    fn take_below(&mut self, end: u64) -> Option<(u64, (Sample, Span, bool))> {
        let first = self.samples.first_entry().filter(|first| *first.key() < end)?.remove_entry();
        self.bytes -= first.1.0.bytes.len();
        if self.samples.is_empty() {
            self.since = None;
        }
        Some(first)
    }

    fn is_full(&self) -> bool {
        self.samples.len() > HELD_MAX || self.bytes > HELD_BYTES_MAX
    }
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
    /// Topics of Verge with a writer whose latency budget came too late.
    told_budgets: BTreeSet<String>,
    counts: Counts,
    beat: Option<Time>,
    changed: Option<Time>,
    answered: Option<Time>,
    full: bool,
    namesake: bool,
    /// Words said.
    words: u64,
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
            told_budgets: BTreeSet::new(),
            counts: Counts::default(),
            beat: None,
            changed: None,
            answered: None,
            full: false,
            namesake: false,
            words: 0,
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
    pub fn sample(&mut self, now: Time, tap: u64, writer: Guid, sample: Sample) {
        // It may be of a writer that has just come.
        self.settle_all(now);
        let Some(tapped) = self.tapped.get_mut(&writer) else { return };
        let alike = |tap: &Tap| tap.qos == of_tap(&tapped.writer.qos) && is_alike(&tap.like, &tapped.writer);
        match tapped.tap {
            Some(own) if own == tap => {}
            // It was found by the reader of another writer, before anybody over there was ready for it.
            None if self.taps.get(&tap).is_some_and(alike) && !tapped.writer.qos.is_durable() => {
                if tapped.early.len() < EARLY_MAX {
                    tapped.early.push(sample);
                } else {
                    self.counts.dropped += 1;
                }
                return;
            }
            _ => return,
        }
        if sample.bytes.len() > self.settings.sample_bytes {
            // It has no number, so that nobody waits for it.
            self.counts.dropped += 1;
            if !std::mem::replace(&mut tapped.has_long, true) {
                let (topic, bytes) = (shown(&tapped.topic), sample.bytes.len());
                let most = self.settings.sample_bytes;
                self.tell(format!("`{topic}`: a sample of {bytes} bytes is not carried, since it is above the limit of {most}"));
            }
            return;
        }
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

    /// Readers have found the stand-in of a writer: what it writes reaches them.
    pub fn is_found(&mut self, writer: Guid) {
        if self.stand_ins.contains_key(&writer) {
            self.say(&Word::Ready { writer });
        }
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
        let Ok((number, word)) = Word::decode(message) else { return };
        match &word {
            Word::Ask { of } if of.is_none_or(|of| of == self.settings.who.id) => self.answer(now),
            Word::Recall { writer } => self.recall(now, *writer),
            Word::Ready { writer } => self.open(now, *writer),
            Word::Beat { bridge, .. }
            | Word::Change { bridge, .. }
            | Word::All { bridge, .. }
            | Word::Gone { bridge }
                if bridge.id != self.settings.who.id =>
            {
                let heed = self.heard.hear(now, number, word);
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
        self.settle_all(now);
        if self.serves && self.changed.is_some_and(|changed| now.since(changed) >= GATHER) {
            self.changed = None;
            let words = self.said.changes(&self.settings.who);
            words.iter().for_each(|word| self.say(word));
        }
        if self.beat.is_none_or(|beat| now.since(beat) >= BEAT) {
            self.beat = Some(now);
            self.say_beat();
        }
        self.probe(now);
        self.ask_for_what_was(now);
        self.give_up_gaps(now);
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
        self.words += 1;
        let message = word.encode(self.words);
        self.effects.push_back(Effect::Publish { topic, message });
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

    fn settle_all(&mut self, now: Time) {
        for topic in std::mem::take(&mut self.dirty) {
            self.settle(now, &topic);
        }
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
                    self.tap(now, writer, asked);
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
            .iter()
            .filter(|(guid, it)| ends(&tapped, guid) && it.writer.topic == name)
            .map(|(guid, _)| *guid)
            .collect();
        untap.into_iter().for_each(|guid| self.untap(guid));
        let stand_ins =
            self.stand_ins.iter().filter(|(guid, it)| ends(&stood_in, guid) && it.writer.topic == name);
        let down: Vec<Guid> = stand_ins.map(|(guid, _)| *guid).collect();
        down.into_iter().for_each(|guid| self.stand_down(guid));
        self.wish_for(&local);
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

    /// A writer is to be read. One that is reliable is read only when somebody over there is ready to write: it sees its first reader then,
    /// and whatever it writes from then on comes there.
    fn tap(&mut self, now: Time, writer: &Endpoint, at_once: bool) {
        if let Some(known) = self.tapped.get(&writer.guid) {
            let same = of_tap(&known.writer.qos) == of_tap(&writer.qos)
                && is_alike(&known.writer, writer)
                && known.writer.qos.kept() == writer.qos.kept()
                && known.writer.qos.partitions == writer.qos.partitions;
            if !same {
                self.untap(writer.guid);
            } else if known.tap.is_some() || !at_once {
                return;
            }
        }
        let waits = !at_once && writer.qos.reliability == Reliability::Reliable;
        self.lives += 1;
        let tapped = Tapped {
            writer: writer.clone(),
            tap: None,
            waits: (now, None),
            life: self.lives,
            topic: topic(self.settings.domain, &self.settings.who.name, writer),
            next: 0,
            kept: writer.qos.is_durable().then(|| Kept::new(writer.qos.kept())),
            recalled: None,
            early: Vec::new(),
            has_long: false,
        };
        self.tapped.insert(writer.guid, tapped);
        if !waits {
            self.open(now, writer.guid);
        }
    }

    /// Reads a writer, by a reader that is there already, or a new one.
    fn open(&mut self, now: Time, writer: Guid) {
        let Some(tapped) = self.tapped.get_mut(&writer).filter(|tapped| tapped.tap.is_none()) else { return };
        let like = &tapped.writer;
        let qos = of_tap(&like.qos);
        let known = self.taps.iter_mut().find(|(_, tap)| tap.qos == qos && is_alike(&tap.like, like));
        let number = match known {
            // What a durable writer wrote before comes to a reader that is new, and to no other.
            Some((number, tap)) if !like.qos.is_durable() => {
                tap.writers.insert(writer);
                *number
            }
            _ => {
                let number = self.next_tap;
                self.next_tap += 1;
                let tap = Tap { like: like.clone(), qos: qos.clone(), writers: BTreeSet::from([writer]) };
                self.taps.insert(number, tap);
                self.effects.push_back(Effect::Tap { tap: number, like: like.clone(), qos });
                number
            }
        };
        tapped.tap = Some(number);
        for sample in std::mem::take(&mut tapped.early) {
            self.sample(now, number, writer, sample);
        }
    }

    /// Asks whether somebody is ready to write what writers will write, where that is waited for; reads them at last all the same.
    fn probe(&mut self, now: Time) {
        let (mut probes, mut late) = (Vec::new(), Vec::new());
        let bridge = self.settings.who.id;
        for (writer, tapped) in self.tapped.iter_mut().filter(|(_, tapped)| tapped.tap.is_none()) {
            let (since, asked) = &mut tapped.waits;
            if now.since(*since) >= PROBE_AT_MOST {
                late.push(*writer);
            } else if asked.is_none_or(|asked| now.since(asked) >= PROBE_AGAIN) {
                *asked = Some(now);
                let sample = Sample::probe();
                let message =
                    Carried { bridge, writer: *writer, life: tapped.life, seq: 0, again: false, sample };
                probes.push((tapped.topic.clone(), message.encode()));
            }
        }
        self.effects.extend(probes.into_iter().map(|(topic, message)| Effect::Publish { topic, message }));
        late.into_iter().for_each(|writer| self.open(now, writer));
    }

    fn untap(&mut self, guid: Guid) {
        let Some(tapped) = self.tapped.remove(&guid) else { return };
        if let Some(number) = tapped.tap
            && let Some(tap) = self.taps.get_mut(&number)
        {
            tap.writers.remove(&guid);
            if tap.writers.is_empty() {
                self.taps.remove(&number);
                self.effects.push_back(Effect::Untap { tap: number });
            }
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
            match self.wishes.get(&topic) {
                None => {
                    self.wishes.insert(topic.clone(), wish);
                    self.effects.push_back(Effect::Advertise { topic, wish });
                }
                // What is promised of a topic does not change while it is carried.
                Some(said)
                    if wish.deadline.is_some_and(|asked| said.deadline.is_none_or(|said| asked < said)) =>
                {
                    let words = format!(
                        "`{}`: a writer has come whose LATENCY_BUDGET is less than that of those before it, and is not kept: give the topic \
                         a contract in the brokers' configuration ([[topic]])",
                        shown(&topic)
                    );
                    if self.told_budgets.len() < TOLD_MAX && self.told_budgets.insert(topic) {
                        self.tell(words);
                    }
                }
                Some(_) => {}
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
            held: Held::default(),
            stamps: BTreeMap::new(),
        };
        self.stand_ins.insert(writer.guid, stand_in);
    }

    /// A bridge begins to read a writer for which one stands in here, and numbers anew.
    fn turn_to(&mut self, now: Time, writer: Guid, bridge: BridgeId, life: Option<u64>) {
        let name = self.heard.name_of(bridge).to_owned();
        let Some(known) = self.stand_ins.get_mut(&writer) else { return };
        (known.source, known.life, known.next, known.switched) = (bridge, life, 0, Some(now));
        known.held = Held::default();
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
        if sample.kind == Kind::Probe {
            self.effects.push_back(Effect::Look { writer });
            return;
        }
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
        if sample.kind == Kind::End {
            // Where some of it has not come yet, it is asked for once more.
            let come = known.held.samples.range(..seq).filter(|(_, (.., again))| *again).count();
            if known.waits.is_some() && come as i64 >= sample.stamp {
                known.waits = None;
                self.begin_live(now, writer, seq);
            }
            return;
        }
        if first && !again && known.waits.is_none() {
            // What was before is nobody's loss.
            known.next = seq;
        }
        if seq < known.next {
            return;
        }
        let in_order = known.writer.qos.reliability == Reliability::Reliable;
        let waits = known.waits.is_some();
        // What is sent again is for those who wait for it.
        if again && !waits {
            return;
        }
        if !waits && (seq == known.next || !in_order) {
            known.next = seq + 1;
            known.held.since = Some(now).filter(|_| !known.held.samples.is_empty());
            self.write(now, writer, sample, age);
        } else {
            known.held.put(now, seq, sample, age, again);
            if known.held.is_full() {
                known.waits = None;
                self.skip(now, writer);
            }
        }
        self.write_what_follows(now, writer);
    }

    /// All that a durable writer wrote before this number has come: it is written, and then what is live.
    fn begin_live(&mut self, now: Time, writer: Guid, end: u64) {
        while let Some(known) = self.stand_ins.get_mut(&writer)
            && let Some((_, (sample, age, again))) = known.held.take_below(end)
        {
            // What was sent again is as old as it is.
            self.write(now, writer, sample, if again { Span::ZERO } else { age });
        }
        if let Some(known) = self.stand_ins.get_mut(&writer) {
            known.next = known.next.max(end);
        }
        self.write_what_follows(now, writer);
    }

    /// What is missing is waited for no more.
    fn skip(&mut self, now: Time, writer: Guid) {
        let Some(known) = self.stand_ins.get_mut(&writer) else { return };
        let Some(first) = known.held.samples.keys().next().copied() else { return };
        known.next = first;
        self.write_what_follows(now, writer);
    }

    /// Writes what waits for nothing any more.
    fn write_what_follows(&mut self, now: Time, writer: Guid) {
        while let Some(known) = self.stand_ins.get_mut(&writer).filter(|known| known.waits.is_none())
            && let Some((seq, (sample, age, _))) = known.held.take_below(known.next + 1)
        {
            if seq == known.next {
                known.next += 1;
                // The next gap is waited for as long.
                known.held.since = Some(now).filter(|_| !known.held.samples.is_empty());
                self.write(now, writer, sample, age);
            }
        }
    }

    fn write(&mut self, now: Time, writer: Guid, sample: Sample, age: Span) {
        let Some(known) = self.stand_ins.get_mut(&writer) else { return };
        let newest = known.stamps.get(&sample.hash).copied();
        let switched = known.switched.is_some_and(|switched| now.since(switched) < SWITCH);
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
    fn give_up_gaps(&mut self, now: Time) {
        let waits = |known: &StandIn| known.held.since.is_some_and(|since| now.since(since) >= GAP_AT_MOST);
        let late = self.stand_ins.iter().filter(|(_, known)| known.waits.is_none() && waits(known));
        let late: Vec<Guid> = late.map(|(guid, _)| *guid).collect();
        for writer in late {
            if let Some(known) = self.stand_ins.get_mut(&writer) {
                known.held.since = Some(now);
            }
            self.skip(now, writer);
        }
    }

    /// Asks again for what durable writers have written before, and goes on without it at last.
    fn ask_for_what_was(&mut self, now: Time) {
        let (mut asks, mut without) = (Vec::new(), Vec::new());
        for (writer, stand_in) in &mut self.stand_ins {
            let Some((since, asked)) = &mut stand_in.waits else { continue };
            if now.since(*since) >= RECALL_AT_MOST {
                stand_in.waits = None;
                without.push((*writer, stand_in.writer.topic.clone()));
            } else if asked.is_none_or(|asked| now.since(asked) >= RECALL_AGAIN) {
                *asked = Some(now);
                asks.push(*writer);
            }
        }
        asks.into_iter().for_each(|writer| self.say(&Word::Recall { writer }));
        for (writer, topic) in without {
            self.skip(now, writer);
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
        let mut samples: Vec<(u64, Sample)> =
            kept.samples().map(|(seq, sample)| (seq, sample.clone())).collect();
        samples.push((tapped.next, Sample::end(samples.len())));
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
