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
use endpoint::{Carried, Passed};
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
    /// As what each stream at home is wanted, by its number; nothing where that has been looked at, and it is not.
    streams: BTreeMap<u32, Vec<Sampled>>,
    /// A filter, or a stream, for which there is no room, and whether that has been told.
    missed: Option<(String, bool)>,
}

struct Wanted {
    every: Every,
    of: TopicFilter,
}

/// How often, and as it was written: `1s` and `1000ms` are two.
#[derive(Clone, PartialEq, Eq)]
struct Every {
    text: Box<str>,
    span: Span,
}

/// A stream of which some messages are sent.
struct Sampled {
    every: Every,
    /// What has been sent since it began.
    life: Option<Life>,
    path: Option<Path>,
}

/// A life of such a stream.
#[derive(Clone, Copy)]
struct Life {
    /// Of which life of the stream at home it is made.
    of: u64,
    /// And its own: when it began.
    own: u64,
    next_seq: u64,
    /// When the last one was created that was sent.
    last: Option<Time>,
}

impl Sampled {
    fn is_due(&self, message: &Arrived) -> bool {
        let life = self.life.filter(|life| life.of == message.life);
        let last = life.and_then(|life| life.last);
        last.is_none_or(|last| is_apart(message.created, last, self.every.span))
    }
}

impl Sampling {
    /// Nothing is wanted any more, until somebody wants it again.
    pub(super) fn want_nothing(&mut self) {
        self.wanted.clear();
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

    /// As what a topic is wanted: what is known of it so far stays, and what is not wanted any more is returned.
    fn look_at(&self, topic: &str, mut known: Vec<Sampled>) -> (Vec<Sampled>, Vec<Sampled>) {
        let mut wanted: Vec<Sampled> = Vec::new();
        for Wanted { every, .. } in self.wanted.iter().filter(|wanted| wanted.of.matches(topic)) {
            // Two filters may mean the topic.
            if wanted.iter().all(|other| other.every != *every) {
                let place = known.iter().position(|known| known.every == *every);
                let fresh = || Sampled { every: every.clone(), life: None, path: None };
                wanted.push(place.map_or_else(fresh, |place| known.swap_remove(place)));
            }
        }
        (wanted, known)
    }

    /// Streams that are sent.
    fn open(&self) -> usize {
        self.streams.values().flatten().filter(|sampled| sampled.path.is_some()).count()
    }

    /// The clock has been set.
    pub(super) fn step(&mut self, by: Span) {
        let lives = self.streams.values_mut().flatten().filter_map(|sampled| sampled.life.as_mut());
        lives.for_each(|life| life.last = life.last.map(|last| last.moved(by)));
    }

    /// A router is to have nothing more of this site. Returns what it had.
    pub(super) fn leave(&mut self, router: usize) -> Vec<Path> {
        let there = |sampled: &mut Sampled| sampled.path.take_if(|path| path.0 == router);
        self.streams.values_mut().flatten().filter_map(there).collect()
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
        let sampling = &mut self.outward.sampling;
        if !sampling.streams.contains_key(&message.stream) {
            let (wanted, _) = sampling.look_at(account.topic, Vec::new());
            sampling.streams.insert(message.stream, wanted);
        }
        let known = sampling.streams.get_mut(&message.stream);
        let Some(known) = known.filter(|known| known.iter().any(|sampled| sampled.is_due(message))) else {
            return;
        };
        let (mut samples, topic) = (std::mem::take(known), account.topic.to_owned());
        for sampled in samples.iter_mut().filter(|sampled| sampled.is_due(message)) {
            self.send_sample(sampled, &topic, (message, payload), net);
        }
        self.outward.sampling.streams.insert(message.stream, samples);
    }

    fn send_sample<N: Effects>(
        &mut self,
        sampled: &mut Sampled,
        topic: &str,
        (message, payload): (&Arrived, &[u8]),
        net: &mut N,
    ) {
        let name = at_router(&self.settings.site, &format!("{EVERY}{}/{topic}", sampled.every.text));
        // A later one than that of the uplink that may have sent some before.
        let own = self.seen.max(message.created).0;
        let fresh = Life { of: message.life, own, next_seq: 0, last: None };
        let life = sampled.life.filter(|life| life.of == message.life).unwrap_or(fresh);
        let goes_on = sampled.life.is_some_and(|before| before.own == life.own);
        let now = sampled.path.map(|(router, _)| router);
        let router = self.router_for_name(&name, topic, TrafficClass::Bulk, now);
        if now != router || !goes_on {
            sampled.path.take().into_iter().for_each(|path| self.withdraw(path, net));
            if self.outward.sampling.open() >= STREAMS_MAX {
                self.outward.sampling.miss(&name);
                // It is tried again when the next one would be due.
                sampled.life = Some(Life { last: Some(message.created), ..life });
                return self.tell_missed_samples();
            }
            sampled.path = router.and_then(|router| {
                Some((router, self.open_samples(message.stream, router, &name, &life, net)?))
            });
        }
        sampled.life = Some(life);
        let Some((router, publication)) = sampled.path else { return };
        let (seq, created) = (life.next_seq, message.created);
        let sent = self.with_end(Which::Router(router), net, |end, out| {
            end.endpoint.publish_as(publication, &Passed { seq, ..message.passed(payload) }, out)
        });
        // Where there is no room on the link now, the next message is tried.
        if matches!(sent, Some(Ok(()))) {
            if let Some(router) = self.routers.get_mut(router) {
                router.sent.count(sent.as_ref(), payload.len());
            }
            sampled.life = Some(Life { next_seq: seq + 1, last: Some(created), ..life });
        }
    }

    /// Asks a router to carry some messages of a stream.
    fn open_samples<N: Effects>(
        &mut self,
        stream: u32,
        router: usize,
        name: &str,
        life: &Life,
        net: &mut N,
    ) -> Option<u32> {
        let site = self.settings.site.clone();
        let publisher = format!("{}@{site}", self.tap.endpoint.stream(stream)?.publisher);
        let carried = Carried {
            topic: name,
            publisher: &publisher,
            origin: &site,
            incarnation: life.own,
            first_seq: life.next_seq,
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
        let has_room = sampling.wanted.len() < FILTERS_MAX && sampling.open() < STREAMS_MAX;
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
        for (stream, known) in std::mem::take(&mut self.outward.sampling.streams) {
            let account = self.tap.endpoint.stream(stream);
            let topic = account.map(|account| account.topic.to_owned()).unwrap_or_default();
            let (wanted, ended) = self.outward.sampling.look_at(&topic, known);
            self.outward.sampling.streams.insert(stream, wanted);
            self.withdraw_samples(ended, net);
        }
    }

    /// A stream has ended at home.
    pub(super) fn end_samples<N: Effects>(&mut self, stream: u32, net: &mut N) {
        let ended = self.outward.sampling.streams.remove(&stream).unwrap_or_default();
        self.withdraw_samples(ended, net);
    }

    fn withdraw_samples<N: Effects>(&mut self, ended: Vec<Sampled>, net: &mut N) {
        let paths = ended.into_iter().filter_map(|sampled| sampled.path);
        paths.for_each(|path| self.withdraw(path, net));
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
