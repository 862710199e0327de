//! What comes from other sites.
//!
//! A stream may come by more than one router: while it moves, or since its topic goes by two. The first copy of each message is published at home,
//! and what is promised of it is what all its ways keep.

use super::ends::{Arrived, End};
use super::outward::wish_for;
use super::room::Share;
use super::ways::Next;
use super::{Uplink, UplinkReporter, Which, may_cross, sampling, within};
use contract::{Contract, Crossing, Mutant, Span, Time, TopicFilter};
use endpoint::{Carried, Window};
use std::collections::BTreeMap;
use wire::Effects;

/// What comes: as what each stream is published at home.
#[derive(Default)]
pub(super) struct Inward {
    /// By router, and the number of the stream there.
    streams: BTreeMap<(usize, u32), Coming>,
    /// What is published at home, by topic and publisher: more than one router may bring it.
    published: BTreeMap<(Box<str>, Box<str>), Published>,
    ended: Ended,
}

/// What had come of streams and lives that have ended a moment ago, by topic, publisher and life: a slower router may still bring it.
#[derive(Default)]
struct Ended {
    recent: BTreeMap<(Box<str>, Box<str>, u64), Window>,
    before: BTreeMap<(Box<str>, Box<str>, u64), Window>,
    turns_at: Time,
}

/// How long they are remembered, at least; twice that at most.
const ENDED_FOR: Span = Span::secs(30);
/// So many of either time; above it the older ones are forgotten.
const ENDED_MAX: usize = 4_096;

impl Ended {
    fn note(&mut self, (topic, publisher): (Box<str>, Box<str>), former: Published) {
        if self.recent.len() >= ENDED_MAX {
            self.before = std::mem::take(&mut self.recent);
        }
        self.recent.insert((topic, publisher, former.incarnation), former.came);
    }

    fn get(&self, key: &(Box<str>, Box<str>), life: u64) -> Option<&Window> {
        if self.recent.is_empty() && self.before.is_empty() {
            return None;
        }
        let key = (key.0.clone(), key.1.clone(), life);
        self.recent.get(&key).or_else(|| self.before.get(&key))
    }
}

/// What a router has brought.
enum Brought {
    /// The first copy of a message, which is published at home so.
    First(u32),
    /// What home has been given before.
    Again,
    /// What is of no use here.
    Nothing,
}

/// A stream of another site.
struct Coming {
    incarnation: u64,
    /// What it is at home; `None`: nothing.
    key: Option<(Box<str>, Box<str>)>,
}

/// A stream of another site, as it is published at home.
struct Published {
    incarnation: u64,
    publication: u32,
    /// Its contract.
    terms: Contract,
    /// By router, what was known of its messages when they left that.
    ways: Vec<(usize, Crossing)>,
    /// Which of its messages have come.
    came: Window,
    /// What it takes of a thin link.
    share: Share,
}

impl Published {
    fn way_from(&self, router: usize) -> Option<Crossing> {
        self.ways.iter().find(|(from, _)| *from == router).map(|(_, before)| *before)
    }

    /// A router has said this of it.
    fn hear(&mut self, router: usize, before: Crossing) {
        self.forget_way_from(router);
        self.ways.push((router, before));
    }

    fn forget_way_from(&mut self, router: usize) {
        self.ways.retain(|(from, _)| *from != router);
    }
}

impl Inward {
    /// Whether a stream of a router is published at home.
    pub(super) fn is_published(&self, router: usize, stream: u32) -> bool {
        let coming = self.streams.get(&(router, stream)).and_then(|coming| coming.key.as_ref());
        coming.is_some_and(|key| self.published.contains_key(key))
    }

    /// As what a stream of a router is published at home.
    fn published_by(&mut self, router: usize, stream: u32) -> Option<&mut Published> {
        let key = self.streams.get(&(router, stream))?.key.as_ref()?;
        self.published.get_mut(key)
    }

    /// The numbers of streams that come from a router.
    pub(super) fn streams_of(&self, router: usize) -> Vec<u32> {
        self.streams.keys().filter(|(from, _)| *from == router).map(|(_, stream)| *stream).collect()
    }

    /// How many streams come from a router.
    pub(super) fn streams(&self, router: usize) -> usize {
        self.streams.iter().filter(|((from, _), coming)| *from == router && coming.key.is_some()).count()
    }

    /// The publications at home.
    pub(super) fn at_home(&self) -> impl Iterator<Item = u32> {
        self.published.values().map(|published| published.publication)
    }

    fn is_any_of(&self, topic: &str) -> bool {
        self.published.keys().any(|(known, _)| **known == *topic)
    }

    /// Publishes nothing at home any more. Streams stay there for the uplink that goes on.
    pub(super) fn forget_all(&mut self, home: &mut End) {
        for published in std::mem::take(&mut self.published).into_values() {
            home.endpoint.let_go(published.publication);
        }
        self.streams.clear();
        self.ended = Ended::default();
    }

    /// What ended long ago is not remembered any more.
    pub(super) fn forget_ended(&mut self, now: Time) {
        if self.ended.turns_at <= now {
            self.ended.turns_at = now + ENDED_FOR;
            self.ended.before = std::mem::take(&mut self.ended.recent);
        }
    }
}

impl<R: UplinkReporter> Uplink<R> {
    /// What is wanted at home has changed: routers are asked for it.
    pub(super) fn wish_at_routers<N: Effects>(&mut self, net: &mut N) {
        let mut wished = BTreeMap::new();
        for (filter, way) in self.wanted() {
            wish_for(&mut wished, &sampling::at_router("+", filter.as_str()), self.settings.near + way);
        }
        if Mutant::WantEverything.is_on() {
            wish_for(&mut wished, "#", Span::ZERO);
        }
        for router in 0..self.routers.len() {
            self.wish_at(Which::Router(router), wished.clone(), net);
        }
        self.forget_unwanted(net);
        // What was not wanted may be now.
        self.inward.streams.retain(|_, coming| coming.key.is_some());
    }

    /// What is wanted at home and may come, and the way to whoever wants it.
    pub(super) fn wanted(&self) -> Vec<(TopicFilter, Span)> {
        let all = self.wishes.all();
        all.flat_map(|(filter, way)| {
            within(&filter, &self.settings.want).into_iter().map(move |one| (one, way))
        })
        .collect()
    }

    /// What comes although nobody wants it any more is not published.
    fn forget_unwanted<N: Effects>(&mut self, net: &mut N) {
        let (wishes, want) = (&self.wishes, &self.settings.want);
        let wanted = |topic: &str| wishes.mean(topic) && may_cross(topic, want);
        let (kept, ended): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.inward.published).into_iter().partition(|((topic, _), _)| wanted(topic));
        self.inward.published = kept;
        for (key, Published { publication, share, .. }) in ended {
            self.give_room_back(&share, net);
            self.inward.streams.retain(|_, coming| coming.key.as_ref() != Some(&key));
            self.forget_troubles(Which::Home, &key.0);
            self.with_end(Which::Home, net, |home, out| home.endpoint.withdraw(publication, out));
        }
    }

    /// A message of another site has come.
    pub(super) fn pass_in<N: Effects>(
        &mut self,
        router: usize,
        message: &Arrived,
        payload: &[u8],
        net: &mut N,
    ) {
        // What has come to an uplink that does not carry any more comes again to the one that does.
        if !self.carries {
            return;
        }
        let from = Which::Router(router);
        let publication = match self.published_as(router, message, net) {
            Brought::First(publication) => publication,
            Brought::Again => {
                // It is confirmed when home has the first copy.
                self.routers.get_mut(router).into_iter().for_each(|router| router.came.repeated += 1);
                return self.confirm_when_had(Which::Home, from, (message.confirmation, None), net);
            }
            Brought::Nothing => return self.confirm_now(from, message.confirmation, net),
        };
        let home = std::iter::once((Which::Home, publication));
        if self.hand_over(message, payload, from, home, net)
            && let Some(published) = self.inward.published_by(router, message.stream)
        {
            published.came.take(message.seq);
        }
    }

    /// As what a message is published at home, if it is the first copy of it.
    fn published_as<N: Effects>(&mut self, router: usize, message: &Arrived, net: &mut N) -> Brought {
        let account = self.routers.get(router).and_then(|there| there.end.endpoint.stream(message.stream));
        let Some(now) = account.map(|account| account.crossing) else { return Brought::Nothing };
        let life = message.life;
        let place = (router, message.stream);
        let known = self.inward.streams.get(&place).filter(|coming| coming.incarnation == life);
        if known.is_none() {
            self.meet_foreign(router, message);
        }
        let key = self.inward.streams.get(&place).and_then(|coming| coming.key.as_ref());
        let Some(key) = key else { return Brought::Nothing };
        match self.inward.published.get(key) {
            Some(known) if known.incarnation == life => {
                let publication = known.publication;
                let is_first = !known.came.has(message.seq) || Mutant::TakeEveryCopy.is_on();
                if known.way_from(router) != Some(now) {
                    let key = key.clone();
                    self.follow_way_in(router, message.stream, &key, net);
                }
                if is_first { Brought::First(publication) } else { Brought::Again }
            }
            other => {
                let came = self.inward.ended.get(key, life);
                // A quicker router has brought it, and the end of its life, or the next one.
                if came.is_some_and(|came| other.is_some() || came.has(message.seq)) {
                    return Brought::Again;
                }
                let (came, key) = (came.cloned().unwrap_or_default(), key.clone());
                let publication = self.publish_foreign(router, message, (key, came), net);
                publication.map_or(Brought::Nothing, Brought::First)
            }
        }
    }

    /// The first message of a stream of another site, or of a life of it: what it is at home.
    fn meet_foreign(&mut self, router: usize, message: &Arrived) {
        let Some(there) = self.routers.get(router) else { return };
        let Some(account) = there.end.endpoint.stream(message.stream) else { return };
        let incarnation = message.life;
        let parts = sampling::at_site(account.topic).filter(|(site, _)| *site != self.settings.site);
        let key = match parts {
            // Nothing but a site can be below its name, or the router lets others speak for it.
            Some((site, topic)) if site == account.origin && self.wants(&topic) => {
                Some((Box::from(topic), Box::from(account.publisher)))
            }
            Some((site, topic)) if site != account.origin && self.wants(&topic) => {
                let (whole, why) = (account.topic.to_owned(), NOT_ITS_OWN);
                self.refuse(Which::Router(router), &whole, why);
                None
            }
            _ => None,
        };
        self.inward.streams.insert((router, message.stream), Coming { incarnation, key });
    }

    fn wants(&self, topic: &str) -> bool {
        self.wishes.mean(topic) && may_cross(topic, &self.settings.want)
    }

    /// What is known of a stream's messages when they come home by all of these ways: what holds for each of them.
    fn crossing_in(&mut self, ways: &[(usize, Crossing)], terms: &Contract, topic: &str) -> Crossing {
        let exactly = |(router, before): &(usize, Crossing)| before.within + self.clock_of(*router);
        let within = ways.iter().map(exactly).fold(Span::ZERO, Span::max);
        let age = ways.iter().map(|(_, before)| before.age).fold(Span::ZERO, Span::max);
        let promised = ways.iter().all(|(_, before)| before.promised);
        let before = Crossing { age, within, promised, ..Crossing::NONE };
        let onward = self.wishes.way_of(topic);
        let (which, deadline, clock) = (Which::Home, terms.deadline, Span::ZERO);
        let retain = terms.retain.max(self.settings.retain);
        let narrow = self.room.narrow(terms);
        self.crossing_to(before, &Next { which, clock, topic, deadline, retain, onward, narrow })
    }

    /// Tells home what is known of a stream's messages when they come there: the router has said something else of them.
    fn follow_way_in<N: Effects>(
        &mut self,
        router: usize,
        stream: u32,
        key: &(Box<str>, Box<str>),
        net: &mut N,
    ) {
        let account = self.routers.get(router).and_then(|router| router.end.endpoint.stream(stream));
        let Some((now, terms)) = account.map(|account| (account.crossing, *account.contract)) else { return };
        let Some(published) = self.inward.published.get_mut(key) else { return };
        published.hear(router, now);
        if now.age > published.share.age && published.share.has_room() {
            self.room.receive_no_more(&published.share);
            published.share = self.room.receive(&terms, now.age);
            // The room is looked at with the next stream, or the next one that is told of.
        }
        self.tell_ways_in(key, &terms, net);
    }

    /// Tells home what all ways of a stream keep.
    fn tell_ways_in<N: Effects>(&mut self, key: &(Box<str>, Box<str>), terms: &Contract, net: &mut N) {
        let Some(published) = self.inward.published.get(key) else { return };
        let (publication, ways) = (published.publication, published.ways.clone());
        let crossing = self.crossing_in(&ways, terms, &key.0);
        self.with_end(Which::Home, net, |home, out| home.endpoint.carry_by(publication, crossing, out));
    }

    /// Publishes a stream of another site at home.
    fn publish_foreign<N: Effects>(
        &mut self,
        router: usize,
        message: &Arrived,
        (key, came): ((Box<str>, Box<str>), Window),
        net: &mut N,
    ) -> Option<u32> {
        if let Some(before) = self.inward.published.remove(&key) {
            self.give_room_back(&before.share, net);
            self.with_end(Which::Home, net, |home, out| home.endpoint.withdraw(before.publication, out));
            self.inward.ended.note(key.clone(), before);
        }
        let account = self.routers.get(router)?.end.endpoint.stream(message.stream)?;
        let (terms, age) = (*account.contract, account.crossing.age);
        let ways = vec![(router, account.crossing)];
        let crossing = self.crossing_in(&ways, &terms, &key.0);
        let account = self.routers.get(router)?.end.endpoint.stream(message.stream)?;
        let incarnation = message.life;
        let contract = Contract { link: contract::LinkClass::EDGE, ..*account.contract };
        let origin = account.origin.to_owned();
        let (topic, publisher) = (&*key.0, &*key.1);
        let carried = Carried {
            topic,
            publisher,
            origin: &origin,
            incarnation,
            first_seq: message.seq,
            contract,
            retain: contract.retain.max(self.settings.retain),
            crossing,
        };
        match self.with_end(Which::Home, net, |home, out| home.endpoint.carry(&carried, out))? {
            Ok(publication) => {
                let share = self.room.receive(&terms, age);
                let published = Published { incarnation, publication, terms, ways, came, share };
                self.inward.published.insert(key, published);
                self.look_at_room(net);
                Some(publication)
            }
            Err(why) => {
                self.refuse(Which::Home, topic, &why.to_string());
                None
            }
        }
    }

    /// Whether what comes is promised has changed, for all of it.
    pub(super) fn follow_all_ways_in<N: Effects>(&mut self, net: &mut N) {
        let coming = self.inward.streams.iter();
        let known = coming.filter_map(|(place, coming)| Some((*place, coming.key.clone()?)));
        for ((router, stream), key) in known.collect::<Vec<_>>() {
            self.follow_way_in(router, stream, &key, net);
        }
    }

    /// A router has begun anew: of what others bring too it may say nothing any more, also not that it has ended.
    pub(super) fn forget_ways_from(&mut self, router: usize) {
        let others = |known: &Published| known.ways.iter().any(|(other, _)| *other != router);
        let (streams, published) = (&mut self.inward.streams, &mut self.inward.published);
        streams.retain(|(from, _), coming| {
            let known = coming.key.as_ref().and_then(|key| published.get_mut(key));
            let stays = *from != router || known.as_ref().is_none_or(|known| !others(known));
            if !stays {
                known.into_iter().for_each(|known| known.forget_way_from(router));
            }
            stays
        });
    }

    /// A stream has ended at a router.
    pub(super) fn end_inward<N: Effects>(&mut self, router: usize, stream: u32, net: &mut N) {
        let Some(Coming { key: Some(key), .. }) = self.inward.streams.remove(&(router, stream)) else {
            return;
        };
        // Another router may carry it. One that is away says nothing of what has ended meanwhile.
        let reached = |router: usize| self.routers.get(router).is_some_and(|router| router.reached);
        if let Some(published) = self.inward.published.get_mut(&key) {
            published.forget_way_from(router);
            if published.ways.iter().any(|(other, _)| reached(*other)) {
                let terms = published.terms;
                return self.tell_ways_in(&key, &terms, net);
            }
        }
        if let Some(published) = self.inward.published.remove(&key) {
            self.give_room_back(&published.share, net);
            self.with_end(Which::Home, net, |home, out| home.endpoint.withdraw(published.publication, out));
            self.inward.ended.note(key.clone(), published);
        }
        if self.is_troubled(Which::Home, &key.0) && !self.inward.is_any_of(&key.0) {
            self.forget_troubles(Which::Home, &key.0);
        }
    }
}

const NOT_ITS_OWN: &str =
    "it is not the publishing site's own name that it stands below: let each site publish only below its own";
