//! What comes from other sites.

use super::ends::{Arrived, End};
use super::outward::wish_for;
use super::room::Share;
use super::ways::Next;
use super::{Uplink, UplinkReporter, Which, may_cross, within};
use contract::{Crossing, Mutant, Span, TopicFilter};
use endpoint::Carried;
use std::collections::BTreeMap;
use wire::Effects;

/// What comes: as what each stream is published at home.
#[derive(Default)]
pub(super) struct Inward {
    /// By router, and the number of the stream there.
    streams: BTreeMap<(usize, u32), Coming>,
    /// What is published at home, by topic and publisher: more than one router may bring it.
    published: BTreeMap<(Box<str>, Box<str>), Published>,
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
    /// What was known of its messages when they left the router.
    before: Crossing,
    /// What it takes of a thin link.
    share: Share,
}

impl Inward {
    /// Whether a stream of a router is published at home.
    pub(super) fn is_published(&self, router: usize, stream: u32) -> bool {
        let coming = self.streams.get(&(router, stream)).and_then(|coming| coming.key.as_ref());
        coming.is_some_and(|key| self.published.contains_key(key))
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
    }
}

impl<R: UplinkReporter> Uplink<R> {
    /// What is wanted at home has changed: routers are asked for it.
    pub(super) fn wish_at_routers<N: Effects>(&mut self, net: &mut N) {
        let mut wished = BTreeMap::new();
        for (filter, way) in self.wanted() {
            wish_for(&mut wished, &format!("+/{}", filter.as_str()), self.settings.near + way);
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
        let Some(publication) = self.published_as(router, message, net) else {
            return self.confirm_now(from, message.confirmation, net);
        };
        self.hand_over(message, payload, (from, Which::Home, publication), net);
    }

    /// As what the stream of a message is published at home; `None`: not at all.
    fn published_as<N: Effects>(&mut self, router: usize, message: &Arrived, net: &mut N) -> Option<u32> {
        let account = self.routers.get(router)?.end.endpoint.stream(message.stream)?;
        let (life, now) = (account.incarnation, account.crossing);
        let place = (router, message.stream);
        let known = self.inward.streams.get(&place).filter(|coming| coming.incarnation == life);
        if known.is_none() {
            self.meet_foreign(router, message);
        }
        let key = self.inward.streams.get(&place)?.key.as_ref()?;
        let published = self.inward.published.get(key).filter(|known| known.incarnation == life);
        match published.map(|known| (known.publication, known.before)) {
            Some((publication, before)) => {
                if before != now {
                    let key = key.clone();
                    self.follow_way_in(router, message.stream, &key, net);
                }
                Some(publication)
            }
            None => self.publish_foreign(router, message, key.clone(), net),
        }
    }

    /// The first message of a stream of another site, or of a life of it: what it is at home.
    fn meet_foreign(&mut self, router: usize, message: &Arrived) {
        let Some(there) = self.routers.get(router) else { return };
        let Some(account) = there.end.endpoint.stream(message.stream) else { return };
        let incarnation = account.incarnation;
        let parts = account.topic.split_once('/').filter(|(site, _)| *site != self.settings.site);
        let key = match parts {
            // Nothing but a site can be below its name, or the router lets others speak for it.
            Some((site, topic)) if site == account.origin && self.wants(topic) => {
                Some((Box::from(topic), Box::from(account.publisher)))
            }
            Some((site, topic)) if site != account.origin && self.wants(topic) => {
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

    /// What is known of a stream's messages when they come home.
    fn crossing_in(&mut self, router: usize, stream: u32, topic: &str) -> Option<Crossing> {
        let account = self.routers.get(router)?.end.endpoint.stream(stream)?;
        let (terms, before) = (*account.contract, account.crossing);
        let onward = self.wishes.way_of(topic);
        let (which, deadline) = (Which::Home, terms.deadline);
        let retain = terms.retain.max(self.settings.retain);
        let narrow = self.room.narrow(&terms);
        Some(self.crossing_to(before, &Next { which, router, topic, deadline, retain, onward, narrow }))
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
        published.before = now;
        let publication = published.publication;
        if now.age > published.share.age && published.share.has_room() {
            self.room.receive_no_more(&published.share);
            published.share = self.room.receive(&terms, now.age);
            // The room is looked at with the next stream, or the next one that is told of.
        }
        if let Some(crossing) = self.crossing_in(router, stream, &key.0) {
            self.with_end(Which::Home, net, |home, out| home.endpoint.carry_by(publication, crossing, out));
        }
    }

    /// Publishes a stream of another site at home.
    fn publish_foreign<N: Effects>(
        &mut self,
        router: usize,
        message: &Arrived,
        key: (Box<str>, Box<str>),
        net: &mut N,
    ) -> Option<u32> {
        if let Some(before) = self.inward.published.remove(&key) {
            self.give_room_back(&before.share, net);
            self.with_end(Which::Home, net, |home, out| home.endpoint.withdraw(before.publication, out));
        }
        let account = self.routers.get(router)?.end.endpoint.stream(message.stream)?;
        let (terms, age) = (*account.contract, account.crossing.age);
        let crossing = self.crossing_in(router, message.stream, &key.0)?;
        let account = self.routers.get(router)?.end.endpoint.stream(message.stream)?;
        let (incarnation, before) = (account.incarnation, account.crossing);
        let contract = contract::Contract { link: contract::LinkClass::EDGE, ..*account.contract };
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
                self.inward.published.insert(key, Published { incarnation, publication, before, share });
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

    /// A stream has ended at a router.
    pub(super) fn end_inward<N: Effects>(&mut self, router: usize, stream: u32, net: &mut N) {
        let Some(Coming { key: Some(key), .. }) = self.inward.streams.remove(&(router, stream)) else {
            return;
        };
        // Another router may carry it now.
        if self.inward.streams.values().any(|coming| coming.key.as_ref() == Some(&key)) {
            return;
        }
        if let Some(published) = self.inward.published.remove(&key) {
            self.give_room_back(&published.share, net);
            self.with_end(Which::Home, net, |home, out| home.endpoint.withdraw(published.publication, out));
        }
        if self.is_troubled(Which::Home, &key.0) && !self.inward.is_any_of(&key.0) {
            self.forget_troubles(Which::Home, &key.0);
        }
    }
}

const NOT_ITS_OWN: &str =
    "it is not the publishing site's own name that it stands below: let each site publish only below its own";
