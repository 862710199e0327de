//! What leaves the site.
//!
//! A stream goes by one router, or by two where its topic says so. Both are then given every message, and whoever receives takes the first copy:
//! where one of them dies, nothing has to be noticed, moved or sent again. At home a message is confirmed when the router has it by which it would go
//! alone; while that is away or begins anew, the other one.

use super::ends::Arrived;
use super::room::Share;
use super::routers::class_at;
use super::sampling::{self, Sampling};
use super::ways::Next;
use super::{Router, Uplink, UplinkReporter, Which, may_cross, within};
use contract::{Contract, Crossing, LinkClass, Mutant, Narrow, Span, TopicFilter, TrafficClass};
use endpoint::{Carried, Retained};
use std::collections::{BTreeMap, BTreeSet};
use wire::Effects;

/// What leaves: where each stream goes.
#[derive(Default)]
pub(super) struct Outward {
    /// By the number of the stream at home.
    streams: BTreeMap<u32, Sending>,
    /// What others want less often.
    pub(super) sampling: Sampling,
}

/// A stream of this site.
struct Sending {
    /// What it is called at home.
    topic: Box<str>,
    incarnation: u64,
    /// The router that carries it, and the publication there.
    there: Option<Path>,
    /// Another one that does so too.
    second: Option<Path>,
    /// Whether there is to be one.
    twice: bool,
    /// What was known of its messages when they left home.
    before: Crossing,
    /// Whether it is one that may leave at all.
    leaves: bool,
    /// What it takes of a thin link.
    share: Share,
    /// By which connection it goes.
    class: TrafficClass,
}

/// A router, and a publication there.
pub(super) type Path = (usize, u32);

impl Sending {
    fn paths(&self) -> Paths {
        Paths { first: self.there, second: self.second }
    }

    /// The paths of a router do not exist any more.
    fn leave(&mut self, router: usize) {
        let stays = |path: &Path| path.0 != router;
        (self.there, self.second) = (self.there.filter(stays), self.second.filter(stays));
        if self.there.is_none() {
            self.there = self.second.take();
        }
    }
}

/// By which routers a stream goes.
#[derive(Clone, Copy, Default)]
pub(super) struct Paths {
    first: Option<Path>,
    second: Option<Path>,
}

impl Paths {
    pub(super) fn iter(self) -> impl Iterator<Item = Path> {
        self.first.into_iter().chain(self.second)
    }
}

impl Outward {
    /// By which routers a stream goes.
    pub(super) fn paths_of(&self, stream: u32) -> Paths {
        self.streams.get(&stream).map(Sending::paths).unwrap_or_default()
    }

    fn paths_at(&self, router: usize) -> impl Iterator<Item = (&Sending, u32)> {
        self.streams.values().flat_map(move |sending| {
            let here = sending.paths().iter().filter(move |(at, _)| *at == router);
            here.map(move |(_, publication)| (sending, publication))
        })
    }

    /// The publications of what goes to a router.
    pub(super) fn publications_at(&self, router: usize) -> Vec<u32> {
        self.paths_at(router).map(|(_, publication)| publication).collect()
    }

    fn is_any_of(&self, topic: &str, router: usize) -> bool {
        self.paths_at(router).any(|(sending, _)| *sending.topic == *topic)
    }

    /// Topics that are to go by two routers of these that are reached, and do not.
    pub(super) fn by_one_router(&self, reached: impl Fn(usize) -> bool) -> BTreeSet<&str> {
        let one = |sending: &&Sending| {
            let paths = sending.paths().iter().filter(|(router, _)| reached(*router)).count();
            sending.twice && sending.leaves && paths < 2
        };
        self.streams.values().filter(one).map(|sending| &*sending.topic).collect()
    }

    /// Streams that go to a router.
    pub(super) fn streams(&self, router: usize) -> usize {
        self.paths_at(router).count()
    }
}

/// One more wish; of two for one filter the longer way counts.
pub(super) fn wish_for(wished: &mut BTreeMap<Box<str>, Span>, filter: &str, onward: Span) {
    let known = wished.entry(filter.into()).or_default();
    *known = onward.max(*known);
}

impl<R: UplinkReporter> Uplink<R> {
    /// What others want of this site has changed, or who wants it: home is asked for it.
    pub(super) fn wish_at_home<N: Effects>(&mut self, net: &mut N) {
        let mut wanted = BTreeMap::new();
        self.outward.sampling.want_nothing();
        let site = &self.settings.site;
        let own = [format!("{site}/#"), format!("{}+/{site}/#", sampling::EVERY)];
        let own: Vec<TopicFilter> = own.iter().filter_map(|own| own.parse().ok()).collect();
        if self.carries {
            for router in &self.routers {
                for (filter, way) in router.wishes.within(&own) {
                    let at_home =
                        sampling::at_site(filter.as_str()).and_then(|(_, filter)| filter.parse().ok());
                    let Some(filter): Option<TopicFilter> = at_home else { continue };
                    for shared in within(&filter, &self.settings.share) {
                        match sampling::split(shared.as_str()) {
                            None => wish_for(&mut wanted, shared.as_str(), self.settings.far + way),
                            // It is best effort: nothing is planned for it.
                            Some((every, of)) if self.outward.sampling.want(every, of) => {
                                wish_for(&mut wanted, of, Span::ZERO);
                            }
                            Some(_) => {}
                        }
                    }
                }
            }
        }
        self.wish_at(Which::Tap, wanted, net);
        self.tell_missed_samples();
        self.forget_unwanted_samples(net);
        self.move_streams(net);
    }

    /// The router that is to carry a topic: of those that are reached and want it, the one for it; none, where `now` wants it and is just away,
    /// or has wanted it and has begun anew.
    fn router_for(&self, topic: &str, class: TrafficClass, now: Option<usize>) -> Option<usize> {
        let name = format!("{}/{topic}", self.settings.site);
        self.router_for_name(&name, topic, class, now)
    }

    /// The same for what is called so at routers, and goes where this topic does.
    pub(super) fn router_for_name(
        &self,
        name: &str,
        topic: &str,
        class: TrafficClass,
        now: Option<usize>,
    ) -> Option<usize> {
        let way = self.way_of(class);
        let serves = |router: &Router| router.serves(name);
        let carries = |router: &Router| router.carries(name);
        let place = |place: usize, fits: &dyn Fn(&Router) -> bool| self.routers.get(place).is_some_and(fits);
        let best = |fits: &dyn Fn(&Router) -> bool| match &self.coordinator {
            None => {
                // Not all who want it may be at one that has just been reached; where it goes by another, that is waited for.
                let goes = now.is_some_and(|now| place(now, fits));
                let has_settled = |place: usize, router: &Router| {
                    !goes || Some(place) == now || router.settles_until.is_none()
                };
                let fits = |place, router: &Router| has_settled(place, router) && fits(router);
                self.best_listed(name, topic, way, fits)
            }
            Some(coordinator) => {
                let mut routers =
                    coordinator.routers_of(topic).filter_map(|name| self.place_called(name, way));
                routers.find(|router| place(*router, fits))
            }
        };
        // Where somebody is not there whichever router is asked, it goes as if all were.
        let best = best(&serves).or_else(|| best(&carries));
        let waits = |index: &usize| self.routers.get(*index).is_some_and(|router| router.wishes.mean(name));
        best.or(now.filter(waits))
    }

    /// Of the listed routers that fit, the one for a topic: of those that are there for it the one by its name there.
    fn best_listed(
        &self,
        name: &str,
        topic: &str,
        way: TrafficClass,
        fits: impl Fn(usize, &Router) -> bool,
    ) -> Option<usize> {
        let ways = self.routers.iter().enumerate().filter(|(place, _)| class_at(*place) == way);
        let fitting =
            ways.filter(|(place, router)| fits(*place, router)).map(|(_, router)| router.name.as_str());
        let meant = |router: &str| self.settings.meant.get(router).map_or(&[][..], Vec::as_slice);
        let fit = |router: &&str| federation::fit(meant(router), topic);
        let fitting: Vec<&str> = fitting.collect();
        let best = fitting.iter().map(fit).min();
        let best =
            federation::carrier(name, fitting.iter().copied().filter(|router| Some(fit(router)) == best));
        best.and_then(|best| self.place_called(best, way))
    }

    /// Streams go where they are wanted now.
    pub(super) fn move_streams<N: Effects>(&mut self, net: &mut N) {
        let mut streams = std::mem::take(&mut self.outward.streams);
        for (stream, sending) in &mut streams {
            if !sending.leaves {
                continue;
            }
            self.look_for_room(*stream, sending);
            let now = sending.there.map(|(router, _)| router);
            let next = self.router_for(&sending.topic, sending.class, now);
            if next.is_some() && next == sending.second.map(|(router, _)| router) {
                // It has everything already.
                std::mem::swap(&mut sending.there, &mut sending.second);
            }
            sending.there = self.move_path(*stream, sending, sending.there, next, net);
            let next = self.second_for(sending, sending.there.map(|(router, _)| router));
            sending.second = self.move_path(*stream, sending, sending.second, next, net);
        }
        // What nobody wants any more begins anew when somebody does.
        self.outward.streams = streams;
        self.forget_uncarried();
        for router in 0..self.routers.len() {
            if self.routers.get(router).is_some_and(|router| router.anew_until.is_some()) {
                self.release(router, net);
            }
        }
        self.pass_what_waited(net);
    }

    /// The router for the second path of a stream, where it is to have one: the one that has been it, while that is wanted there.
    fn second_for(&self, sending: &Sending, first: Option<usize>) -> Option<usize> {
        if !sending.twice || first.is_none() || self.coordinator.is_some() || Mutant::OnePath.is_on() {
            return None;
        }
        let way = self.way_of(sending.class);
        let name = format!("{}/{}", self.settings.site, sending.topic);
        let now = sending.second.map(|(router, _)| router).filter(|now| Some(*now) != first);
        let refuses = |place: usize| self.refused.contains_key(&(Which::Router(place), name.as_str().into()));
        let carries = |place: usize, router: &Router| router.serves(&name) && !refuses(place);
        let is_at = |place: &usize, fits: &dyn Fn(usize, &Router) -> bool| {
            self.routers.get(*place).is_some_and(|router| fits(*place, router))
        };
        now.filter(|now| is_at(now, &carries))
            .or_else(|| {
                let other = |place, router: &Router| Some(place) != first && carries(place, router);
                self.best_listed(&name, &sending.topic, way, other)
            })
            .or_else(|| now.filter(|now| is_at(now, &|_, router| router.wishes.mean(&name))))
    }

    /// A path of a stream goes by another router from now on, or by none. Returns the path then.
    fn move_path<N: Effects>(
        &mut self,
        stream: u32,
        sending: &mut Sending,
        before: Option<Path>,
        next: Option<usize>,
        net: &mut N,
    ) -> Option<Path> {
        if before.map(|(router, _)| router) == next {
            before.into_iter().for_each(|path| self.tell_way_out(stream, sending, path, net));
            return before;
        }
        let mut opened = None;
        if let Some(next) = next {
            let kept = before.filter(|_| !Mutant::ForgetWhereMoved.is_on());
            let kept = kept.map(|(router, publication)| self.kept(router, publication)).unwrap_or_default();
            let first = kept.first().map(|kept| kept.passed().seq);
            let first = first.or_else(|| self.tap.endpoint.stream(stream).map(|s| s.tally.next_seq()));
            let whose = (stream, sending.incarnation);
            let publication =
                first.and_then(|first| self.open(whose, next, first, sending.share.narrow, net));
            opened = publication.map(|publication| (next, publication));
            if let Some((router, publication)) = opened {
                self.with_end(Which::Router(router), net, |end, out| {
                    for kept in &kept {
                        _ = end.endpoint.publish_as(publication, &kept.passed(), out);
                    }
                });
            }
        }
        if let Some(before) = before {
            self.withdraw(before, net);
        }
        opened
    }

    /// What is retained of a publication at a router.
    fn kept(&self, router: usize, publication: u32) -> Vec<Retained> {
        let end = self.routers.get(router).map(|router| &router.end);
        let retained = end.map(|end| end.endpoint.retained(publication));
        retained.into_iter().flatten().cloned().collect()
    }

    /// Tells a router what is known of a stream's messages when they come there, where that is something else than before.
    fn tell_way_out<N: Effects>(
        &mut self,
        stream: u32,
        sending: &mut Sending,
        (router, publication): Path,
        net: &mut N,
    ) {
        let Some(account) = self.tap.endpoint.stream(stream) else { return };
        let topic = format!("{}/{}", self.settings.site, account.topic);
        let (terms, before) = (*account.contract, account.crossing);
        sending.before = before;
        let crossing = self.crossing_out(router, &topic, terms, before, sending.share.narrow);
        self.with_end(Which::Router(router), net, |end, out| {
            end.endpoint.carry_by(publication, crossing, out);
        });
    }

    /// The same for one stream: home has said something else of it.
    fn follow_way_out<N: Effects>(&mut self, stream: u32, net: &mut N) {
        if let Some(mut sending) = self.outward.streams.remove(&stream) {
            self.look_for_room(stream, &mut sending);
            for path in sending.paths().iter() {
                self.tell_way_out(stream, &mut sending, path, net);
            }
            // It may have to go by the other connection.
            self.wants_anew.at_home |= sending.share.narrow.is_some();
            self.outward.streams.insert(stream, sending);
        }
    }

    /// What is known of a stream's messages when they come to a router.
    fn crossing_out(
        &mut self,
        router: usize,
        topic: &str,
        terms: Contract,
        before: Crossing,
        narrow: Option<Narrow>,
    ) -> Crossing {
        let onward = self.routers.get(router).map_or(Span::ZERO, |router| router.wishes.way_of(topic));
        let which = Which::Router(router);
        let retain = terms.retain.max(self.settings.retain);
        let by_bulk = self.settings.thin.is_some() && class_at(router) == TrafficClass::Bulk;
        let waits = by_bulk && TrafficClass::promises(&terms);
        let narrow = narrow.or(waits.then_some(Narrow::Waits));
        let clock = self.clock_of(router);
        self.crossing_to(
            before,
            &Next { which, clock, topic, deadline: terms.deadline, retain, onward, narrow },
        )
    }

    /// Asks a router to carry a stream of this site, from this number on.
    fn open<N: Effects>(
        &mut self,
        (stream, incarnation): (u32, u64),
        router: usize,
        first_seq: u64,
        narrow: Option<Narrow>,
        net: &mut N,
    ) -> Option<u32> {
        let account = self.tap.endpoint.stream(stream)?;
        let (terms, before) = (*account.contract, account.crossing);
        let topic = format!("{}/{}", self.settings.site, account.topic);
        let crossing = self.crossing_out(router, &topic, terms, before, narrow);
        let account = self.tap.endpoint.stream(stream)?;
        let site = &self.settings.site;
        let publisher = format!("{}@{site}", account.publisher);
        // Whoever subscribes at a router says itself how far away it is.
        let contract = Contract { link: LinkClass::EDGE, confirm: false, ..*account.contract };
        let carried = Carried {
            topic: &topic,
            publisher: &publisher,
            origin: &site.clone(),
            incarnation,
            first_seq,
            contract,
            retain: contract.retain.max(self.settings.retain),
            crossing,
        };
        match self.with_end(Which::Router(router), net, |end, out| end.endpoint.carry(&carried, out))? {
            Ok(publication) => Some(publication),
            Err(why) => {
                self.refuse(Which::Router(router), &topic, &why.to_string());
                None
            }
        }
    }

    /// A message of this site has come.
    pub(super) fn pass_out<N: Effects>(&mut self, message: &Arrived, payload: &[u8], net: &mut N) {
        // What has come to an uplink that does not carry any more comes again to the one that does.
        if !self.carries {
            return;
        }
        self.sample(message, payload, net);
        let waits = self.opening.holds(message.stream);
        match if waits { None } else { self.paths_of(message, net) } {
            Some(paths) => self.hand_out(message, payload, paths, net),
            None => self.keep_unrouted(message, payload, net),
        }
    }

    /// By which routers a message goes, none where it may not leave; `None`: it may, and goes nowhere as yet.
    pub(super) fn paths_of<N: Effects>(&mut self, message: &Arrived, net: &mut N) -> Option<Paths> {
        let known = self.outward.streams.get(&message.stream);
        let known = known.map(|sending| (sending.incarnation, sending.before, sending.paths()));
        let now = self.tap.endpoint.stream(message.stream).map(|account| account.crossing);
        let paths = match known.zip(now) {
            Some(((life, before, paths), now)) if life == message.life => {
                if before != now {
                    self.follow_way_out(message.stream, net);
                }
                paths
            }
            _ => self.meet(message, net),
        };
        let is_known = paths.first.is_some() || self.outward.streams.contains_key(&message.stream);
        is_known.then_some(paths)
    }

    /// Gives a message to routers.
    pub(super) fn hand_out<N: Effects>(
        &mut self,
        message: &Arrived,
        payload: &[u8],
        paths: Paths,
        net: &mut N,
    ) {
        let paths = self.in_order(paths);
        let paths = paths.iter().map(|(router, publication)| (Which::Router(router), publication));
        self.hand_over(message, payload, Which::Tap, paths, net);
    }

    /// These paths, before the other one that whose router has to have a message before it is confirmed at home: the ordinary one, if that is reached
    /// and knows who wants what.
    pub(super) fn in_order(&self, Paths { first, second }: Paths) -> Paths {
        let knows = |path: Option<Path>| {
            let router = path.and_then(|(place, _)| self.routers.get(place));
            router.is_some_and(|router| router.reached && router.anew_until.is_none())
        };
        let swaps = second.is_some() && !knows(first) && knows(second);
        if swaps { Paths { first: second, second: first } } else { Paths { first, second } }
    }

    /// The first message of a stream, or of a life of it.
    fn meet<N: Effects>(&mut self, message: &Arrived, net: &mut N) -> Paths {
        self.end_outward(message.stream, net);
        let Some(account) = self.tap.endpoint.stream(message.stream) else { return Paths::default() };
        let (topic, incarnation) = (Box::<str>::from(account.topic), message.life);
        let before = account.crossing;
        let own = account.origin.is_empty() || Mutant::CarryOn.is_on();
        let leaves = own && may_cross(&topic, &self.settings.share);
        let (stream, seq) = (message.stream, message.seq);
        let (share, class) = (Share::default(), TrafficClass::Promised);
        let (there, second) = (None, None);
        let twice = self.settings.goes_twice(&topic);
        let mut sending = Sending { topic, incarnation, there, second, twice, before, leaves, share, class };
        if leaves {
            self.look_for_room(stream, &mut sending);
            let router = self.router_for(&sending.topic, sending.class, None);
            let narrow = sending.share.narrow;
            sending.there = router.and_then(|router| {
                Some((router, self.open((stream, incarnation), router, seq, narrow, net)?))
            });
            let second = self.second_for(&sending, sending.there.map(|(router, _)| router));
            sending.second = second.and_then(|router| {
                Some((router, self.open((stream, incarnation), router, seq, narrow, net)?))
            });
        }
        let paths = sending.paths();
        if paths.first.is_some() || !leaves {
            self.outward.streams.insert(stream, sending);
        } else {
            self.room.send_no_more(&sending.share);
        }
        paths
    }

    /// Takes room on a thin link for a stream that has none, and finds out by which connection it goes.
    fn look_for_room(&mut self, stream: u32, sending: &mut Sending) {
        let Some(account) = self.tap.endpoint.stream(stream) else { return };
        let age = account.crossing.age + self.settings.near;
        if sending.share.has_room() && age <= sending.share.age {
            return;
        }
        self.room.send_no_more(&sending.share);
        let share = self.room.send(account.contract, age);
        // The first reason stays, or it would be told anew with each stream that comes.
        let first = sending.share.narrow;
        sending.share = Share { narrow: share.narrow.map(|narrow| first.unwrap_or(narrow)), ..share };
        sending.class = match sending.share.narrow {
            None => TrafficClass::of_topic(account.topic, account.contract),
            Some(_) => TrafficClass::Bulk,
        };
    }

    /// A stream has ended at home.
    pub(super) fn end_outward<N: Effects>(&mut self, stream: u32, net: &mut N) {
        let Some(ended) = self.outward.streams.remove(&stream) else { return };
        self.room.send_no_more(&ended.share);
        // What had no room may have some now.
        self.wants_anew.at_home |= ended.share.has_room();
        ended.paths().iter().for_each(|path| self.withdraw(path, net));
    }

    /// Nothing goes to a router any more, and nothing comes from it.
    pub(super) fn end_all_of<N: Effects>(&mut self, router: usize, net: &mut N) {
        for publication in self.outward.publications_at(router) {
            self.withdraw((router, publication), net);
        }
        self.outward.streams.values_mut().for_each(|sending| sending.leave(router));
        self.outward.sampling.leave(router).into_iter().for_each(|path| self.withdraw(path, net));
        // What nobody carries begins anew when somebody does.
        self.forget_uncarried();
        for stream in self.inward.streams_of(router) {
            self.end_inward(router, stream, net);
        }
    }

    /// Forgets streams that may leave and that nobody carries.
    fn forget_uncarried(&mut self) {
        let (room, mut freed) = (&mut self.room, false);
        self.outward.streams.retain(|_, sending| {
            let stays = sending.there.is_some() || !sending.leaves;
            if !stays {
                room.send_no_more(&sending.share);
                freed |= sending.share.has_room();
            }
            stays
        });
        // What had no room may have some now.
        let waits = |sending: &Sending| sending.share.narrow.is_some_and(|narrow| narrow != Narrow::Size);
        self.wants_anew.at_home |= freed && self.outward.streams.values().any(waits);
    }

    /// A stream does not go to a router any more.
    pub(super) fn withdraw<N: Effects>(&mut self, (router, publication): Path, net: &mut N) {
        let which = Which::Router(router);
        let topic = self.topic_of(which, publication);
        self.with_end(which, net, |end, out| end.endpoint.withdraw(publication, out));
        if let Some(topic) = topic
            && self.is_troubled(which, &topic)
            && sampling::split(&topic).is_none()
            && let Some((_, at_home)) = topic.split_once('/')
            && !self.outward.is_any_of(at_home, router)
        {
            self.forget_troubles(which, &topic);
        }
    }
}
