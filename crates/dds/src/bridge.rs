//! One bridge between a domain of DDS and Verge: what it reads there, what it writes there, and what it tells other bridges.
//!
//! A writer's samples are read (*tapped*) only while a reader elsewhere hears it, or somebody asked for the topic (`publish`). In the domain
//! of that reader a *stand-in* writes them: one for each writer, with its type, its QoS and its strength, so that DDS itself decides there who is
//! heard. What a durable writer has written is recalled before a stand-in writes anything live.

mod reading;
mod standing_in;

use self::reading::{Tap, Tapped};
use self::standing_in::StandIn;
use crate::endpoint::{Endpoint, Guid, Mismatch, Qos};
use crate::names::{is_words_topic, place, topic, words_filter, words_topic};
use crate::roster::{Heard, Said};
use crate::sample::{Carried, Sample};
use crate::words::{BridgeId, Counts, Who, Word};
use contract::{Loss, Mutant, Span, Time, TopicFilter};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How often a bridge says that it is there.
pub const BEAT: Span = Span::secs(1);
/// How long a bridge listens for another one of its domain before it begins.
pub const LISTEN: Span = Span::millis(1500);
/// That somebody has gone is told so much later.
const GO_AFTER: Span = Span::millis(200);
/// How long changes are gathered before they are told.
const GATHER: Span = Span::millis(20);
/// A bridge that has not been heard for so long may have begun anew.
const NAMESAKE: Span = Span::secs(3);
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
        /// For whom, and so how.
        writer: Endpoint,
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
    /// How often something has been sent again.
    recalls: u64,
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
    too_many: bool,
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
            recalls: 0,
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
            too_many: false,
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
        if endpoint.writes && endpoint.has_pattern() {
            self.tell(format!(
                "`{}`: the writer {} is not bridged, since its partition is a pattern",
                shown(&endpoint.topic),
                endpoint.guid
            ));
            return;
        }
        let name = topic(self.settings.domain, &self.settings.who.name, &endpoint);
        if let Err(error) = contract::check_name(&name) {
            self.tell(format!("the topic `{}` of DDS cannot be carried: {error}", shown(&endpoint.topic)));
            return;
        }
        if self.is_allowed(&endpoint) {
            self.said.add(&endpoint);
            self.changed = Some(self.changed.map_or(now, |changed| changed.min(now)));
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
        // What it wrote last is to come before.
        self.changed.get_or_insert(now + GO_AFTER);
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

    /// What was to be sent or written could not be.
    pub fn dropped(&mut self, samples: u64) {
        self.counts.dropped += samples;
    }

    /// A message of another client of Verge, with its age.
    pub fn message(&mut self, now: Time, topic: &str, message: &[u8], age: Span) {
        if !is_words_topic(topic) {
            match Carried::decode(message) {
                Some(carried) => {
                    self.heard.is_alive(now, carried.bridge);
                    self.carried(now, carried, age);
                }
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

    /// Time has passed. To be called often: every 10 ms or so, and after everything else. Whether all messages that have come have been
    /// told: nobody is taken to be silent while some wait.
    pub fn tick(&mut self, now: Time, has_heard_all: bool) {
        self.decide_who_serves(now);
        self.look_for_namesakes(now);
        if self.heard.refused() > 0 && !std::mem::replace(&mut self.too_many, true) {
            self.tell("there are more bridges, readers and writers elsewhere than can be heard: some are not served".to_owned());
        }
        if has_heard_all {
            let gone = self.heard.age(now, self.settings.lease);
            self.dirty.extend(gone);
        }
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
                if self.is_allowed(writer) && (asked || wanted || Mutant::ReadUnwanted.is_on()) {
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

/// A name as people are shown it.
fn shown(name: &str) -> String {
    contract::shortened(name, contract::TOPIC_BYTES_SHOWN).to_string()
}
