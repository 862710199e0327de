//! What others want less often than it is published.
//!
//! The problem: a screen elsewhere wants to see a value each ten seconds, and a thin link has no room for all hundred that are published meanwhile. The idea:
//! whoever wants it so subscribes below `$every/10s/`, and the site that publishes sends of each stream the first message, and then the first that is created
//! that much later. They are streams of their own (`$every/10s/plant/pressure`), numbered anew without gaps: what was left out is not lost. Nothing is retained
//! of them, as a newer one comes soon.
//!
//! Invariant: of a stream two messages that are sent are created so far apart, at least.
//!
//! Source: DDS, TIME_BASED_FILTER (`minimum_separation`), applied where it saves the link.

use super::ends::Arrived;
use super::outward::Path;
use super::{Uplink, UplinkReporter, Which, may_cross};
use contract::{Contract, Crossing, Mutant, Span, Time, TopicFilter, TrafficClass};
use endpoint::Carried;
use std::collections::BTreeMap;
use wire::Effects;

/// What is wanted less often stands below this, and how often: `$every/10s/plant/#`.
pub(super) const EVERY: &str = "$every/";
/// Filters that may be wanted so; what is above is not sent, which is told.
const FILTERS_MAX: usize = 256;
/// Streams that may be sent so at once.
const STREAMS_MAX: usize = 4_096;

/// How often, as it is written, and of what: of `$every/10s/plant/#` it is `10s` and `plant/#`. `None` for other names, and where nobody could say how often
/// that is.
pub(super) fn split(name: &str) -> Option<(&str, &str)> {
    let (span, of) = name.strip_prefix(EVERY)?.split_once('/')?;
    let is_known = span_of(span).is_some_and(|span| span > Span::ZERO && !span.is_forever());
    (is_known && !of.starts_with('$')).then_some((span, of))
}

/// Which topics a filter means, however often.
pub(super) fn topics_of(filter: &TopicFilter) -> Option<TopicFilter> {
    match split(filter.as_str()) {
        Some((_, of)) => of.parse().ok(),
        None => Some(filter.clone()),
    }
}

fn span_of(text: &str) -> Option<Span> {
    text.parse().ok()
}

/// What others want less often than it is published, and what is sent of it.
#[derive(Default)]
pub(super) struct Sampling {
    wanted: Vec<Wanted>,
    /// By the number of the stream at home, and how often it is wanted.
    streams: BTreeMap<(u32, Every), Sampled>,
}

struct Wanted {
    every: Every,
    of: TopicFilter,
}

/// How often, and as it was written: `1s` and `1000ms` are two.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Every {
    text: Box<str>,
    span: Span,
}

/// A stream of which some messages are sent.
struct Sampled {
    /// Which life of the stream at home it is made of.
    of_life: u64,
    /// And its own: that of the first message.
    life: u64,
    next_seq: u64,
    /// What is created before is left out.
    next: Time,
    path: Option<Path>,
}

impl Sampling {
    /// Nothing is wanted any more, until somebody wants it again.
    pub(super) fn want_nothing(&mut self) {
        self.wanted.clear();
    }

    /// Somebody wants this so often. Returns whether there is room for it.
    pub(super) fn want(&mut self, every: &str, of: TopicFilter) -> bool {
        let Some(span) = span_of(every) else { return true };
        let every = Every { text: every.into(), span };
        if self.wanted.iter().any(|known| known.every == every && known.of.as_str() == of.as_str()) {
            return true;
        }
        let has_room = self.wanted.len() < FILTERS_MAX;
        if has_room {
            self.wanted.push(Wanted { every, of });
        }
        has_room
    }

    /// How often a topic is wanted.
    fn of<'a>(&'a self, topic: &'a str) -> impl Iterator<Item = &'a Every> {
        self.wanted.iter().filter(|wanted| wanted.of.matches(topic)).map(|wanted| &wanted.every)
    }

    /// As what a message is to be sent now.
    fn due(&self, topic: &str, message: &Arrived) -> Vec<Every> {
        let is_due = |every: &&Every| {
            // Of a stream that is not known yet it is the first one.
            let known = self.streams.get(&(message.stream, (*every).clone()));
            let known = known.filter(|known| known.of_life == message.life);
            known.is_none_or(|known| message.created >= known.next) || Mutant::SampleEverything.is_on()
        };
        let mut due: Vec<Every> = self.of(topic).filter(is_due).cloned().collect();
        // Two filters may mean the topic.
        due.sort();
        due.dedup();
        due
    }

    /// The clock has been set.
    pub(super) fn step(&mut self, by: Span) {
        self.streams.values_mut().for_each(|sampled| sampled.next = sampled.next.moved(by));
    }

    /// A router has nothing more of this site.
    pub(super) fn leave(&mut self, router: usize) {
        let stays = |path: &Path| path.0 != router;
        self.streams.values_mut().for_each(|sampled| sampled.path = sampled.path.filter(stays));
    }
}

impl<R: UplinkReporter> Uplink<R> {
    /// A message of this site has come: it is sent to whoever wants some of its stream, where it is time for that.
    pub(super) fn sample<N: Effects>(&mut self, message: &Arrived, payload: &[u8], net: &mut N) {
        if self.outward.sampling.wanted.is_empty() {
            return;
        }
        let Some(account) = self.tap.endpoint.stream(message.stream) else { return };
        let is_own = account.origin.is_empty() && may_cross(account.topic, &self.settings.share);
        if !is_own || account.topic.starts_with('$') {
            return;
        }
        let due = self.outward.sampling.due(account.topic, message);
        if !due.is_empty() {
            let topic = account.topic.to_owned();
            due.into_iter().for_each(|every| self.send_sample(every, &topic, (message, payload), net));
        }
    }

    fn send_sample<N: Effects>(
        &mut self,
        every: Every,
        topic: &str,
        (message, payload): (&Arrived, &[u8]),
        net: &mut N,
    ) {
        let name = format!("{}/{EVERY}{}/{topic}", self.settings.site, every.text);
        let (span, key) = (every.span, (message.stream, every));
        let known = self.outward.sampling.streams.remove(&key);
        let of_life = message.life;
        let mut sampled = match known {
            Some(known) if known.of_life == of_life => known,
            former => {
                let path = former.and_then(|former| former.path);
                path.into_iter().for_each(|path| self.withdraw(path, net));
                if self.outward.sampling.streams.len() >= STREAMS_MAX {
                    return self.tell_unwished(Which::Tap, &name, "too many streams are wanted less often");
                }
                // A later one than that of the uplink that may have sent some before.
                let life = message.created.0;
                Sampled { of_life, life, next_seq: 0, next: message.created, path: None }
            }
        };
        let router = self.router_of_samples(&name, topic, sampled.path.map(|(router, _)| router));
        if sampled.path.map(|(router, _)| router) != router {
            sampled.path.take().into_iter().for_each(|path| self.withdraw(path, net));
            sampled.path = router.and_then(|router| {
                Some((router, self.open_samples(message.stream, router, &name, &sampled, net)?))
            });
        }
        if let Some((router, publication)) = sampled.path {
            let (seq, created) = (sampled.next_seq, message.created);
            let sent = self.with_end(Which::Router(router), net, |end, out| {
                end.endpoint.publish_as(publication, seq, created, payload, out)
            });
            if let Some(router) = self.routers.get_mut(router) {
                router.sent.count(sent.as_ref(), payload.len());
            }
            if matches!(sent, Some(Ok(()))) {
                (sampled.next_seq, sampled.next) = (seq + 1, created + span);
            }
        }
        self.outward.sampling.streams.insert(key, sampled);
    }

    /// By which router it goes: the one by which it has, while somebody wants it there.
    fn router_of_samples(&self, name: &str, topic: &str, now: Option<usize>) -> Option<usize> {
        let way = self.way_of(TrafficClass::Bulk);
        let serves = |place: usize| self.routers.get(place).is_some_and(|router| router.serves(name));
        if let Some(now) = now.filter(|now| serves(*now)) {
            return Some(now);
        }
        match &self.coordinator {
            None => self.best_listed(name, way, |_, router| router.serves(name)),
            Some(coordinator) => {
                let mut routers =
                    coordinator.routers_of(topic).filter_map(|router| self.place_called(router, way));
                routers.find(|router| serves(*router))
            }
        }
    }

    /// Asks a router to carry some messages of a stream.
    fn open_samples<N: Effects>(
        &mut self,
        stream: u32,
        router: usize,
        name: &str,
        sampled: &Sampled,
        net: &mut N,
    ) -> Option<u32> {
        let site = self.settings.site.clone();
        let publisher = format!("{}@{site}", self.tap.endpoint.stream(stream)?.publisher);
        let carried = Carried {
            topic: name,
            publisher: &publisher,
            origin: &site,
            incarnation: sampled.life,
            first_seq: sampled.next_seq,
            contract: Contract::unstated(),
            retain: 0,
            crossing: Crossing::default(),
        };
        match self.with_end(Which::Router(router), net, |end, out| end.endpoint.carry(&carried, out))? {
            Ok(publication) => Some(publication),
            Err(why) => {
                self.refuse(Which::Router(router), name, &why.to_string());
                None
            }
        }
    }

    /// What is not wanted any more is not sent any more.
    pub(super) fn forget_unwanted_samples<N: Effects>(&mut self, net: &mut N) {
        let streams = std::mem::take(&mut self.outward.sampling.streams);
        for ((stream, every), sampled) in streams {
            let account = self.tap.endpoint.stream(stream);
            if account.is_some_and(|account| self.outward.sampling.of(account.topic).any(|of| *of == every)) {
                self.outward.sampling.streams.insert((stream, every), sampled);
            } else if let Some(path) = sampled.path {
                self.withdraw(path, net);
            }
        }
    }

    /// A stream has ended at home.
    pub(super) fn end_samples<N: Effects>(&mut self, stream: u32, net: &mut N) {
        let sampling = &mut self.outward.sampling;
        let ended = sampling.streams.extract_if(.., |(of, _), _| *of == stream);
        let ended: Vec<Path> = ended.filter_map(|(_, sampled)| sampled.path).collect();
        ended.into_iter().for_each(|path| self.withdraw(path, net));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_how_often_and_of_what() {
        assert_eq!(split("$every/10s/plant/#"), Some(("10s", "plant/#")));
        assert_eq!(split("$every/500ms/+"), Some(("500ms", "+")));
        for other in [
            "$every/10s",
            "$every/#",
            "$every/+/plant",
            "$every/0s/a",
            "$every/inf/a",
            "$every/1s/$keep/a",
            "plant/#",
        ] {
            assert_eq!(split(other), None, "{other}");
        }
    }
}
