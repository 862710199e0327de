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
use super::{Uplink, UplinkNews, UplinkReporter, Which, may_cross};
use contract::{Contract, Crossing, Mutant, Span, Time, TopicFilter, TrafficClass};
use endpoint::Carried;
use std::borrow::Cow;
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

/// What a topic or filter of a site is called at routers. What is wanted less often keeps its sign at the beginning, so that wildcards do not mean it.
pub(super) fn at_router(site: &str, name: &str) -> String {
    match split(name) {
        Some((every, of)) => format!("{EVERY}{every}/{site}/{of}"),
        None => format!("{site}/{name}"),
    }
}

/// The site, and what it is called there.
pub(super) fn at_site(name: &str) -> Option<(&str, Cow<'_, str>)> {
    match split(name) {
        Some((every, of)) => {
            let (site, of) = of.split_once('/')?;
            Some((site, Cow::Owned(format!("{EVERY}{every}/{of}"))))
        }
        None => name.split_once('/').map(|(site, topic)| (site, Cow::Borrowed(topic))),
    }
}

/// Which topics a filter means, however often.
pub(super) fn topics_of(filter: &TopicFilter) -> Option<TopicFilter> {
    match split(filter.as_str()) {
        Some((_, of)) => of.parse().ok(),
        None => Some(filter.clone()),
    }
}

/// Whether a message is to be sent after the last one. One that is much older was stamped by a clock that has been set back: it goes on from there.
fn is_apart(created: Time, last: Time, span: Span) -> bool {
    created >= last + span || created + span <= last || Mutant::SampleEverything.is_on()
}

fn span_of(text: &str) -> Option<Span> {
    text.parse().ok()
}

/// What others want less often than it is published, and what is sent of it.
#[derive(Default)]
pub(super) struct Sampling {
    wanted: Vec<Wanted>,
    /// How often each stream at home is wanted, by its number, as far as that has been looked at.
    known: BTreeMap<u32, Vec<Every>>,
    /// By the number of the stream at home, and how often it is wanted.
    streams: BTreeMap<(u32, Every), Sampled>,
    /// A filter, or a stream, for which there is no room, and whether that has been told.
    missed: Option<(String, bool)>,
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
    /// And its own: when it began.
    life: u64,
    next_seq: u64,
    /// When the last one was created that was sent.
    last: Option<Time>,
    path: Option<Path>,
}

impl Sampling {
    /// Nothing is wanted any more, until somebody wants it again.
    pub(super) fn want_nothing(&mut self) {
        self.wanted.clear();
        self.known.clear();
    }

    /// Somebody wants this so often. Returns whether there is room for it.
    pub(super) fn want(&mut self, every: &str, of: &str) -> bool {
        let (Some(span), Ok(of)) = (span_of(every), of.parse::<TopicFilter>()) else { return false };
        let every = Every { text: every.into(), span };
        if self.wanted.iter().any(|known| known.every == every && known.of.as_str() == of.as_str()) {
            return true;
        }
        let has_room = self.wanted.len() < FILTERS_MAX;
        if has_room {
            self.wanted.push(Wanted { every, of });
        } else {
            self.miss(&format!("{EVERY}{}/{}", every.text, of.as_str()));
        }
        has_room
    }

    /// There is no room for something.
    fn miss(&mut self, name: &str) {
        self.missed.get_or_insert_with(|| (name.to_owned(), false));
    }

    /// How often a topic is wanted.
    fn of(&self, topic: &str) -> Vec<Every> {
        let meant = self.wanted.iter().filter(|wanted| wanted.of.matches(topic));
        let mut all: Vec<Every> = meant.map(|wanted| wanted.every.clone()).collect();
        // Two filters may mean the topic.
        all.sort();
        all.dedup();
        all
    }

    /// As what a message of a topic is to be sent now.
    fn due(&mut self, topic: &str, message: &Arrived) -> Vec<Every> {
        if !self.known.contains_key(&message.stream) {
            self.known.insert(message.stream, self.of(topic));
        }
        let streams = &self.streams;
        let is_due = |every: &&Every| {
            let known = streams.get(&(message.stream, (*every).clone()));
            let last = known.filter(|known| known.of_life == message.life).and_then(|known| known.last);
            last.is_none_or(|last| is_apart(message.created, last, every.span))
        };
        let known = self.known.get(&message.stream).into_iter().flatten();
        known.filter(is_due).cloned().collect()
    }

    /// The clock has been set.
    pub(super) fn step(&mut self, by: Span) {
        let last = self.streams.values_mut().filter_map(|sampled| sampled.last.as_mut());
        last.for_each(|last| *last = last.moved(by));
    }

    /// A router is to have nothing more of this site. Returns what it had.
    pub(super) fn leave(&mut self, router: usize) -> Vec<Path> {
        let there = |sampled: &mut Sampled| sampled.path.take_if(|path| path.0 == router);
        self.streams.values_mut().filter_map(there).collect()
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
        let name = at_router(&self.settings.site, &format!("{EVERY}{}/{topic}", every.text));
        let key = (message.stream, every);
        let known = self.outward.sampling.streams.remove(&key);
        let of_life = message.life;
        let mut sampled = match known {
            Some(known) if known.of_life == of_life => known,
            former => {
                let path = former.and_then(|former| former.path);
                path.into_iter().for_each(|path| self.withdraw(path, net));
                if self.outward.sampling.streams.len() >= STREAMS_MAX {
                    self.outward.sampling.miss(&name);
                    return self.tell_missed_samples();
                }
                // A later one than that of the uplink that may have sent some before.
                let life = self.seen.max(message.created).0;
                Sampled { of_life, life, next_seq: 0, last: None, path: None }
            }
        };
        let now = sampled.path.map(|(router, _)| router);
        let router = self.router_for_name(&name, topic, TrafficClass::Bulk, now);
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
            // Where there is no room on the link now, the next message is tried.
            if matches!(sent, Some(Ok(()))) {
                if let Some(router) = self.routers.get_mut(router) {
                    router.sent.count(sent.as_ref(), payload.len());
                }
                (sampled.next_seq, sampled.last) = (seq + 1, Some(created));
            }
        }
        self.outward.sampling.streams.insert(key, sampled);
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
            crossing: Crossing { promised: false, ..Crossing::default() },
        };
        match self.with_end(Which::Router(router), net, |end, out| end.endpoint.carry(&carried, out))? {
            Ok(publication) => Some(publication),
            Err(why) => {
                self.refuse(Which::Router(router), name, &why.to_string());
                None
            }
        }
    }

    /// What there is no room for is told, once until there is.
    pub(super) fn tell_missed_samples(&mut self) {
        let sampling = &mut self.outward.sampling;
        let has_room = sampling.wanted.len() < FILTERS_MAX && sampling.streams.len() < STREAMS_MAX;
        if has_room {
            sampling.missed = None;
        }
        if let Some((name, told)) = sampling.missed.as_mut().filter(|(_, told)| !*told) {
            *told = true;
            let (router, why) = (None, "as much as may be is wanted less often already");
            self.reporter.report(&UplinkNews::Unwished { router, filter: name, why });
        }
    }

    /// What is not wanted any more is not sent any more.
    pub(super) fn forget_unwanted_samples<N: Effects>(&mut self, net: &mut N) {
        let streams = std::mem::take(&mut self.outward.sampling.streams);
        for ((stream, every), sampled) in streams {
            let account = self.tap.endpoint.stream(stream);
            let spans = account.map(|account| self.outward.sampling.of(account.topic)).unwrap_or_default();
            if spans.contains(&every) {
                self.outward.sampling.streams.insert((stream, every), sampled);
            } else if let Some(path) = sampled.path {
                self.withdraw(path, net);
            }
        }
    }

    /// A stream has ended at home.
    pub(super) fn end_samples<N: Effects>(&mut self, stream: u32, net: &mut N) {
        let sampling = &mut self.outward.sampling;
        sampling.known.remove(&stream);
        let ended = sampling.streams.extract_if(.., |(of, _), _| *of == stream);
        let ended: Vec<Path> = ended.filter_map(|(_, sampled)| sampled.path).collect();
        ended.into_iter().for_each(|path| self.withdraw(path, net));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_back_silences_nothing() {
        let (span, at) = (Span::secs(10), |seconds: u64| Time(seconds * 1_000_000_000));
        assert!(is_apart(at(110), at(100), span) && !is_apart(at(109), at(100), span));
        assert!(is_apart(at(90), at(100), span) && !is_apart(at(91), at(100), span));
    }

    #[test]
    fn names_at_routers_are_those_of_the_site() {
        for (site, at_home, there) in [
            ("north", "plant/1", "north/plant/1"),
            ("north", "$keep/beat", "north/$keep/beat"),
            ("north", "$every/1s/plant/1", "$every/1s/north/plant/1"),
            ("+", "$every/1s/#", "$every/1s/+/#"),
        ] {
            assert_eq!(at_router(site, at_home), there);
            assert_eq!(
                at_site(there).map(|(site, name)| (site, name.into_owned())),
                Some((site, at_home.to_owned()))
            );
        }
    }

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
