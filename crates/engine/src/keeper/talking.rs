//! What keepers say to each other, by topics.
//!
//! A word on a topic that the site's broker has not admitted yet waits for that, the newest of each topic alone: what was to be said before is asked for
//! again. An answer has many parts; so a question waits until its answer can leave.

use super::{Keeper, KeeperReporter};
use crate::uplink::ends::{Arrived, Heard, Through};
use backlog::{Answering, Ask, Beat, Part, Progress};
use contract::{Contract, Span, Time};
use endpoint::{Endpoint, PublicationState};
use journal::Files;
use std::collections::BTreeMap;
use wire::Effects;

/// A keeper is there, and what it has.
const BEAT: &str = "$keep/beat";
/// A question to the site whose name follows.
const ASK: &str = "$keep/ask/";
/// A part of an answer for the site whose name follows.
const PART: &str = "$keep/part/";
/// What the keepers of one site tell each other.
pub(super) const PROGRESS: &str = "$keeper/progress";
/// Topics that a keeper publishes: of other sites two each.
const TOPICS_MAX: usize = 160;
/// Between two beats.
const BEAT_EVERY: Span = Span::millis(500);

/// What a keeper subscribes to hear others.
pub(super) fn heard_by(site: &str) -> [String; 4] {
    [BEAT.to_owned(), format!("{ASK}{site}"), format!("{PART}{site}"), PROGRESS.to_owned()]
}

/// The topic of questions to a site.
pub(super) fn ask_for(site: &str) -> String {
    format!("{ASK}{site}")
}

/// The topic of answers to a site.
pub(super) fn part_for(site: &str) -> String {
    format!("{PART}{site}")
}

/// The client that speaks: what is said, and waits to be.
pub(super) struct Talking {
    pub(super) endpoint: Endpoint,
    /// The publication of each topic.
    topics: BTreeMap<String, u32>,
    /// What could not be said yet.
    unsaid: BTreeMap<String, Vec<u8>>,
    /// Questions whose answers cannot leave yet.
    asked: BTreeMap<Box<str>, Ask>,
    next_beat: Option<Time>,
}

impl Talking {
    pub(super) fn new(endpoint: Endpoint) -> Talking {
        let (topics, unsaid, asked) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Talking { endpoint, topics, unsaid, asked, next_beat: None }
    }

    /// The topic of a publication.
    pub(super) fn topic_of(&self, publication: u32) -> Option<String> {
        self.topics.iter().find(|(_, known)| **known == publication).map(|(topic, _)| topic.clone())
    }

    /// The publication of a topic, which begins now if it has not. Whether it is admitted is seen later.
    pub(super) fn publication<N: Effects>(&mut self, topic: &str, net: &mut N) -> Option<u32> {
        if let Some(known) = self.topics.get(topic) {
            return Some(*known);
        }
        if self.topics.len() >= TOPICS_MAX {
            return None;
        }
        let mut heard = Heard::default();
        let mut out = Through { net, dials: super::Side::Talk.dials(), heard: &mut heard };
        let number = self.endpoint.advertise(topic, Some(Contract::unstated()), &mut out).ok()?;
        self.topics.insert(topic.to_owned(), number);
        Some(number)
    }

    /// Says something. Returns whether it has left, or will as soon as the topic is admitted.
    pub(super) fn say<N: Effects>(&mut self, now: Time, topic: &str, bytes: &[u8], net: &mut N) -> bool {
        // What was to be said before is not said any more.
        self.unsaid.remove(topic);
        if self.say_now(now, topic, bytes, net) {
            return true;
        }
        let waits = matches!(self.state_of(topic), Some(PublicationState::Waiting));
        if waits {
            self.unsaid.insert(topic.to_owned(), bytes.to_vec());
        }
        waits
    }

    /// How far the registration of a topic has come.
    fn state_of(&self, topic: &str) -> Option<&PublicationState> {
        self.endpoint.publication_state(*self.topics.get(topic)?)
    }

    /// Says something now or not at all. Returns whether it has left.
    pub(super) fn say_now<N: Effects>(&mut self, now: Time, topic: &str, bytes: &[u8], net: &mut N) -> bool {
        let Some(number) = self.publication(topic, net) else { return false };
        let mut heard = Heard::default();
        let mut out = Through { net, dials: super::Side::Talk.dials(), heard: &mut heard };
        self.endpoint.has_primary() && self.endpoint.publish(now, number, bytes, &mut out).is_ok()
    }

    /// Questions whose answers can leave by now.
    pub(super) fn take_asks(&mut self, answering: &mut Answering) {
        for (site, ask) in std::mem::take(&mut self.asked) {
            match self.state_of(&part_for(&site)) {
                Some(PublicationState::Admitted(_)) => answering.hear(&site, ask),
                _ => _ = self.asked.insert(site, ask),
            }
        }
    }
}

impl<F: Files, R: KeeperReporter> Keeper<F, R> {
    /// Says that it is there.
    pub(super) fn say_beat<N: Effects>(&mut self, now: Time, net: &mut N) {
        let next = self.talking.next_beat.filter(|next| *next <= now + BEAT_EVERY);
        if next.is_some_and(|next| now < next) {
            return;
        }
        self.talking.next_beat = Some(now + BEAT_EVERY);
        let logs = self.keeping.settled(now);
        if !logs.is_empty() {
            let (journal, began) = (self.keeping.identity, self.began);
            let beat = Beat { journal, reigns: self.acts, began, logs };
            self.talking.say(now, BEAT, &beat.encode(), net);
        }
    }

    /// What could not be said before is said now, if it can be.
    pub(super) fn say_what_waits<N: Effects>(&mut self, now: Time, net: &mut N) {
        for (topic, bytes) in std::mem::take(&mut self.talking.unsaid) {
            self.talking.say(now, &topic, &bytes, net);
        }
    }

    /// Another keeper has said something.
    pub(super) fn take_word<N: Effects>(
        &mut self,
        now: Time,
        message: &Arrived,
        payload: &[u8],
        net: &mut N,
    ) {
        let Some(account) = self.talking.endpoint.stream(message.stream) else { return };
        let (topic, origin) = (account.topic, account.origin.to_owned());
        if topic == PROGRESS {
            let is_own = account.publisher == self.settings.talk.name;
            if origin.is_empty()
                && !is_own
                && let Ok(progress) = Progress::decode(payload)
            {
                self.asking_does(now, net, |asking, hands| asking.hear_progress(now, progress, hands));
            }
        } else if origin.is_empty() {
            // What the keepers here say to others.
        } else if topic == BEAT {
            if let Ok(beat) = Beat::decode(payload) {
                // The first question has a topic then.
                self.talking.publication(&ask_for(&origin), net);
                self.asking.hear_beat(now, &origin, beat);
            }
        } else if topic.starts_with(ASK) {
            if let Ok(ask) = Ask::decode(payload)
                && ask.journal == self.keeping.identity
                && self.talking.publication(&part_for(&origin), net).is_some()
            {
                self.talking.asked.insert(origin.into(), ask);
                self.answer(now, net);
            }
        } else if topic.starts_with(PART)
            && let Ok(part) = Part::decode(payload)
        {
            let created = message.created;
            self.asking_does(now, net, |asking, hands| {
                asking.hear_part(now, &origin, &part, created, hands);
            });
        }
    }
}
