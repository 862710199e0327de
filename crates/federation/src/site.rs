//! What a site asks of coordination: which router carries a topic that is of interest here and elsewhere (PubSubCoord §2.6,
//! A1 to A3).
//!
//! The idea: the site says what it offers and wants as nodes of its own, and follows the node of each such topic, which names the router.
//! It never waits: the application's topics come and go, nodes follow.
//!
//! The invariant: what has been said last of a topic's router, by the highest epoch, is what links are kept for; a router is linked
//! while it carries one topic of the site's, and no longer.

use crate::coordination::{Lasting, Reply, Request, Session, Ticket};
use crate::member::{Member, MemberNews, Participant, Purposes};
use crate::mirror::{Aspect, Change, Outcome};
use crate::owned::{Fence, Owned, Standing, version_of};
use crate::records::{
    EndpointRecord, Holder, KeptRecord, Refused, RouterRecord, SiteRecord, Terms, TopicRecord, from_bytes,
    to_bytes,
};
use crate::tree::{
    EDGES, Side, VERSION_PATH, broker_path, endpoint_path, escape, hash, is_folder, side_path, topic_of,
    topic_path, unescape,
};
use crate::wishes::Wishes;
use contract::{Mutant, Span, Time, invariant};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Who a participant is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SiteSettings {
    /// Its name, which no other site has.
    pub name: String,
    /// Which pair it is, and in which reign.
    pub holder: Holder,
    /// Topics that it may have of interest; more are refused.
    pub topics_max: usize,
}

/// Where a topic is carried.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// The router.
    pub router: String,
    /// The one that carried it before and still does.
    pub former: Option<String>,
    /// How often it has been given to a router.
    pub epoch: u64,
}

/// What a site is told.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SiteNews {
    /// Of its name and of the tree.
    Member(MemberNews),
    /// A topic is carried by another router, or by none any more.
    Route {
        /// The topic.
        topic: String,
        /// Where it is carried.
        route: Option<Route>,
    },
    /// A topic is not carried between this site and others.
    Refused {
        /// The topic.
        topic: String,
        /// Between whom, and why; empty where everything matches again.
        refused: Vec<Refused>,
    },
    /// A link to a router is wanted, or it is reached elsewhere now.
    Link {
        /// The router.
        router: String,
        /// Where it is reached.
        locator: String,
    },
    /// A link to a router is wanted no longer.
    Unlink {
        /// The router.
        router: String,
    },
    /// More topics are wanted than the site may have; those that are above are not asked for.
    TooMany(TooManyTopics),
    /// Somebody has removed what said that a topic is to be kept for this site; it is not created again.
    KeptNoMore {
        /// The topic.
        topic: String,
    },
}

/// What is to be kept for a site while it is away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keep {
    /// Until when, in seconds since the Unix epoch.
    pub until_s: u64,
    /// At most so much.
    pub quota_bytes: u64,
}

/// A site has as many topics as it may.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0} topics are shared with other sites already: raise the limit, or share fewer")]
pub struct TooManyTopics(pub usize);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    Claim,
    /// The endpoint of a topic, by the topic's number.
    Endpoint(u64, Side),
    Version,
}

#[derive(Clone, Debug)]
struct Interest {
    count: u32,
    /// It has been told that it may not be written.
    told: bool,
    /// What it holds; `None`: nothing is wanted.
    data: Option<Vec<u8>>,
    owned: Owned,
}

#[derive(Clone, Debug)]
struct Topic {
    number: u64,
    sides: BTreeMap<Side, Interest>,
    route: Option<Route>,
    /// When the node was created that said so: epochs of another one are no older and no newer.
    told_by: i64,
    /// When the node was created that was there last.
    created: i64,
    refused: Vec<Refused>,
}

impl Topic {
    fn is_wanted(&self) -> bool {
        self.sides.values().any(|interest| interest.data.is_some())
    }

    /// Whether nothing of it stands in the tree any more.
    fn is_gone(&self) -> bool {
        self.sides.is_empty()
    }
}

/// A router to which a link is wanted.
#[derive(Clone, Debug, Default)]
struct Linked {
    /// What it carries for this site.
    topics: BTreeSet<String>,
    /// Where it is reached, as was told last.
    locator: Option<String>,
}

/// The part of a site that speaks with coordination.
#[derive(Clone, Debug)]
pub struct Site {
    settings: SiteSettings,
    pub(crate) member: Member<Purpose>,
    /// It claims nothing yet.
    observes: bool,
    pub(crate) wishes: Wishes,
    topics: BTreeMap<String, Topic>,
    /// Topics by the numbers that outcomes name them by.
    by_number: BTreeMap<u64, String>,
    numbers: u64,
    routers: BTreeMap<String, Linked>,
    /// What is written again, and when.
    retries: BTreeSet<(Time, String)>,
    news: VecDeque<SiteNews>,
}

/// Sites begin this much apart at most, so that all do not come at once when a service is back.
const JITTER: Span = Span::millis(100);

impl Site {
    /// A site that has no session yet.
    pub fn new(settings: SiteSettings) -> Site {
        Site {
            member: Member::new(settings.holder.clone(), claim_of(&settings)),
            observes: false,
            settings,
            wishes: Wishes::default(),
            topics: BTreeMap::new(),
            by_number: BTreeMap::new(),
            numbers: 0,
            routers: BTreeMap::new(),
            retries: BTreeSet::new(),
            news: VecDeque::new(),
        }
    }

    /// One that claims nothing and says nothing until it reigns, and knows by then where its topics go: that of the broker that stands by.
    pub fn observing(settings: SiteSettings) -> Site {
        Site { observes: true, ..Site::new(settings) }
    }

    /// One that has observed reigns from now on, in this reign: it claims the site's name, and says what it offers and wants.
    pub fn reign(&mut self, now: Time, reign: u64) {
        if !std::mem::replace(&mut self.observes, false) {
            return invariant!("who begins to reign has observed");
        }
        self.settings.holder.reign = reign;
        let holder = self.settings.holder.clone();
        self.member.rename(holder.clone(), claim_of(&self.settings));
        let fence = Fence { path: self.member.path().to_owned(), version: version_of(&holder) };
        for (name, topic) in &mut self.topics {
            for (side, interest) in &mut topic.sides {
                interest.owned = owned(name, *side, &self.settings.name).fenced(fence.clone());
                let data = interest.data.take();
                interest.data = data.and_then(|data| match side {
                    Side::Keeps => from_bytes(&data)
                        .map(|record: KeptRecord| to_bytes(&KeptRecord { holder: holder.clone(), ..record })),
                    _ => from_bytes(&data).map(|record: EndpointRecord| {
                        to_bytes(&EndpointRecord { holder: holder.clone(), ..record })
                    }),
                });
            }
        }
        self.claim(now);
        self.settle(now);
    }

    /// A publisher or a subscriber of a topic has come (A1). The latest says the terms for all of its side.
    pub fn open(&mut self, now: Time, topic: &str, side: Side, terms: &Terms) -> Result<(), TooManyTopics> {
        debug_assert!(side != Side::Keeps, "kept topics have terms of their own: keep");
        let holder = self.settings.holder.clone();
        let data = to_bytes(&EndpointRecord { holder, terms: terms.clone() });
        self.want(now, topic, side, data)
    }

    /// What comes of a topic while this site is away is to be kept for it.
    pub fn keep(&mut self, now: Time, topic: &str, keep: Keep, terms: &Terms) -> Result<(), TooManyTopics> {
        let holder = self.settings.holder.clone();
        let Keep { until_s, quota_bytes } = keep;
        let data = to_bytes(&KeptRecord { holder, until_s, quota_bytes, terms: terms.clone() });
        if let Some(interest) = self.topics.get_mut(topic).and_then(|topic| topic.sides.get_mut(&Side::Keeps))
        {
            interest.count = 0;
        }
        self.want(now, topic, Side::Keeps, data)
    }

    fn want(&mut self, now: Time, name: &str, side: Side, data: Vec<u8>) -> Result<(), TooManyTopics> {
        if !self.topics.contains_key(name) {
            if self.topics.len() >= self.settings.topics_max {
                return Err(TooManyTopics(self.topics.len()));
            }
            self.numbers += 1;
            self.by_number.insert(self.numbers, name.to_owned());
            let topic = Topic {
                number: self.numbers,
                sides: BTreeMap::new(),
                route: None,
                told_by: 0,
                created: 0,
                refused: Vec::new(),
            };
            self.topics.insert(name.to_owned(), topic);
            self.member.mirror.follow(Aspect::Data, &topic_path(name));
        }
        let fence = Fence { path: self.member.path().to_owned(), version: version_of(&self.settings.holder) };
        let Some(topic) = self.topics.get_mut(name) else {
            return invariant!("a topic that was found or made is there", Ok(()));
        };
        let site = &self.settings.name;
        let interest = topic.sides.entry(side).or_insert_with(|| Interest {
            count: 0,
            told: false,
            data: None,
            owned: owned(name, side, site).fenced(fence),
        });
        let first = interest.count == 0 && interest.data.is_none();
        interest.count += 1;
        interest.data = Some(data);
        if side == Side::Keeps && first {
            self.member.mirror.follow(Aspect::Data, &endpoint_path(name, side, site));
        }
        self.pursue(now, name);
        if self.topics.get(name).is_some_and(|topic| topic.route.is_none()) {
            // What is followed already is not told again.
            self.take_topic(now, name);
        }
        Ok(())
    }

    /// A publisher or a subscriber of a topic has gone, or what was kept need not be any more (A3).
    pub fn close(&mut self, now: Time, topic: &str, side: Side) {
        let Some(interest) = self.topics.get_mut(topic).and_then(|topic| topic.sides.get_mut(&side)) else {
            return;
        };
        interest.count = interest.count.saturating_sub(1);
        if interest.count == 0 && interest.data.take().is_some() {
            if side == Side::Keeps {
                self.member.mirror.unfollow(Aspect::Data, &endpoint_path(topic, side, &self.settings.name));
            }
            self.pursue(now, topic);
        }
    }

    /// Who it is.
    pub fn settings(&self) -> &SiteSettings {
        &self.settings
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// How many topics have a router.
    pub fn routed(&self) -> usize {
        self.topics.values().filter(|topic| topic.route.is_some()).count()
    }

    pub(crate) fn tell(&mut self, news: SiteNews) {
        self.news.push_back(news);
    }

    /// Where a topic is carried, as far as is known.
    pub fn route(&self, topic: &str) -> Option<&Route> {
        self.topics.get(topic)?.route.as_ref()
    }

    /// Routers to which links are wanted, and how many topics each carries for this site.
    pub fn links(&self) -> impl Iterator<Item = (&str, usize)> {
        self.routers.iter().map(|(router, linked)| (router.as_str(), linked.topics.len()))
    }

    /// A new session owns nothing.
    fn forget(&mut self) {
        let interests = self.topics.values_mut().flat_map(|topic| topic.sides.values_mut());
        interests.for_each(|interest| interest.owned.forget());
        self.retries.clear();
    }

    /// The next piece of news.
    pub fn poll_news(&mut self) -> Option<SiteNews> {
        self.member.poll_news().map(SiteNews::Member).or_else(|| self.news.pop_front())
    }

    /// Takes up what has come.
    pub(crate) fn settle(&mut self, now: Time) {
        loop {
            if let Some(outcome) = self.member.mirror.poll_outcome() {
                self.take_outcome(now, &outcome);
            } else if let Some((aspect, path)) = self.member.mirror.poll_change() {
                match aspect {
                    Aspect::Data => self.take_change(now, &path),
                    Aspect::Children => self.take_list(now, &path),
                }
            } else {
                return self.member.rest(now);
            }
        }
    }

    fn take_outcome(&mut self, now: Time, outcome: &Outcome<Purpose>) {
        let (purpose, reply) = (outcome.purpose, &outcome.reply);
        match purpose {
            Purpose::Version => {
                self.member.tree_made(now, reply);
                self.claim(now);
            }
            Purpose::Claim => {
                self.member.name_written(now, reply);
                self.claim(now);
            }
            Purpose::Endpoint(number, side) => {
                let Some(name) = self.by_number.get(&number).cloned() else { return };
                let interest = self.topics.get_mut(&name).and_then(|topic| topic.sides.get_mut(&side));
                let Some(interest) = interest else { return };
                let Member { holder, mirror, .. } = &mut self.member;
                if interest.owned.settle(now, reply, holder, mirror, purpose) {
                    if side == Side::Keeps && interest.owned.is_present() {
                        // It may have been removed already: between two looks that found nothing, it came and went.
                        self.member.mirror.look_again(Aspect::Data, interest.owned.path());
                    }
                    self.pursue(now, &name);
                } else {
                    if self.member.lose_name() {
                        self.claim(now);
                    }
                }
            }
        }
    }

    /// Topics have come or gone, or sites that publish one.
    fn take_list(&mut self, now: Time, path: &str) {
        if is_folder(path) {
            self.look_for_meant(now, path);
        } else if let Some((topic, _)) = topic_of(path) {
            self.ask_for(now, &topic);
        }
    }

    fn take_change(&mut self, now: Time, path: &str) {
        if path == VERSION_PATH {
            self.claim(now);
        } else if let Some(router) = path.strip_prefix(&broker_path("")) {
            if let Some(router) = unescape(router).filter(|router| self.routers.contains_key(router)) {
                self.tell_link(router);
            }
        } else if let Some((topic, side)) = topic_of(path) {
            match side {
                None => self.take_topic(now, &topic),
                Some(side) => self.take_kept(now, &topic, side),
            }
        }
    }

    /// The node that says that a topic is to be kept for us has changed.
    fn take_kept(&mut self, now: Time, topic: &str, side: Side) {
        let path = endpoint_path(topic, side, &self.settings.name);
        if self.member.mirror.data(&path).is_some() {
            return;
        }
        let interest = self.topics.get(topic).and_then(|topic| topic.sides.get(&side));
        if interest.is_some_and(|interest| interest.owned.is_present()) {
            self.news.push_back(SiteNews::KeptNoMore { topic: topic.to_owned() });
            if let Some(interest) = self.topics.get_mut(topic).and_then(|topic| topic.sides.get_mut(&side)) {
                interest.owned.forget();
                interest.count = 1;
            }
            self.close(now, topic, side);
        }
    }

    /// Claims the site's name, and then says what it offers and wants.
    fn claim(&mut self, now: Time) {
        if self.observes {
            return;
        }
        let data = to_bytes(&SiteRecord { holder: self.settings.holder.clone() });
        if self.member.claim(now, &data) {
            self.pursue_all(now);
        }
    }

    fn pursue_all(&mut self, now: Time) {
        let topics: Vec<String> = self.topics.keys().cloned().collect();
        topics.iter().for_each(|topic| self.pursue(now, topic));
    }

    /// Has the nodes of a topic follow what is wanted of it.
    fn pursue(&mut self, now: Time, name: &str) {
        if self.member.holds_name() {
            let Some(topic) = self.topics.get_mut(name) else { return };
            let number = topic.number;
            let mut again = None;
            topic.sides.retain(|side, interest| {
                let purpose = Purpose::Endpoint(number, *side);
                let standing =
                    interest.owned.pursue(now, interest.data.as_deref(), &mut self.member.mirror, purpose);
                match standing {
                    Standing::Done => {
                        interest.told = false;
                        return interest.data.is_some();
                    }
                    Standing::Busy => {}
                    Standing::Waits(at) => again = Some(at),
                    Standing::Refused(why) => {
                        if !std::mem::replace(&mut interest.told, true) {
                            let path = interest.owned.path().to_owned();
                            self.member.tell(MemberNews::Forbidden { path, why });
                        }
                        again = Some(now + crate::owned::RETRY);
                    }
                    // The name has been claimed by somebody else, or has to be claimed again.
                    Standing::Foreign | Standing::Deposed => again = Some(now + crate::owned::RETRY),
                }
                true
            });
            if let Some(at) = again {
                self.retries.insert((at, name.to_owned()));
            }
        }
        self.drop_unwanted(name);
    }

    /// A topic of which nothing is wanted has no route; when nothing of it stands in the tree, it is forgotten.
    fn drop_unwanted(&mut self, name: &str) {
        let Some(topic) = self.topics.get(name) else { return };
        if topic.is_wanted() {
            return;
        }
        self.change_route(name, None);
        if self.topics.get(name).is_some_and(Topic::is_gone) {
            self.member.mirror.unfollow(Aspect::Data, &topic_path(name));
            if let Some(topic) = self.topics.remove(name) {
                self.by_number.remove(&topic.number);
            }
        }
    }

    /// The node of a topic has changed (A2).
    fn take_topic(&mut self, now: Time, name: &str) {
        let Some(topic) = self.topics.get_mut(name) else { return };
        let Some(node) = self.member.mirror.data(&topic_path(name)) else {
            return self.lose_topic(now, name);
        };
        // What is none of ours says nothing: the last word stands.
        let Some(record) = TopicRecord::of(&node.data) else { return };
        let refused: Vec<Refused> =
            record.refused.into_iter().filter(|refused| names(refused, &self.settings.name)).collect();
        if topic.refused != refused {
            topic.refused.clone_from(&refused);
            self.news.push_back(SiteNews::Refused { topic: name.to_owned(), refused });
        }
        let created = std::mem::replace(&mut topic.created, node.stat.created);
        let same = created == node.stat.created;
        let older = topic.told_by == node.stat.created
            && !Mutant::TakeOlderEpochs.is_on()
            && topic.route.as_ref().is_some_and(|route| route.epoch > record.epoch);
        if older || !topic.is_wanted() {
            return;
        }
        let (former, epoch) = (record.former, record.epoch);
        let route = record.router.map(|router| Route { router, former, epoch });
        if let Some(route) = route {
            topic.told_by = node.stat.created;
            self.change_route(name, Some(route));
        }
        if !same && created != 0 {
            // Removed by hand and created again by somebody else, between two looks.
            self.lose_topic(now, name);
        }
    }

    /// The node of a topic is gone, and with it all below: somebody has removed it by hand. What we want of it is said again.
    fn lose_topic(&mut self, now: Time, name: &str) {
        let Some(topic) = self.topics.get_mut(name) else { return };
        let mut lost = topic.sides.values_mut().filter(|interest| interest.owned.is_present()).peekable();
        if lost.peek().is_some() {
            lost.for_each(|interest| interest.owned.forget());
            self.pursue(now, name);
        }
    }

    /// Binds a topic to another router, and links to routers to what they carry (W3).
    fn change_route(&mut self, name: &str, route: Option<Route>) {
        let Some(topic) = self.topics.get_mut(name) else { return };
        let stays = Mutant::KeepFirstRoute.is_on() && topic.route.is_some() && route.is_some();
        if topic.route == route || stays {
            return;
        }
        let routers = |route: &Option<Route>| -> BTreeSet<String> {
            let route = route.iter();
            route.flat_map(|route| [Some(route.router.clone()), route.former.clone()]).flatten().collect()
        };
        let (before, after) = (routers(&topic.route), routers(&route));
        topic.route.clone_from(&route);
        for router in after.difference(&before) {
            let carried = &mut self.routers.entry(router.clone()).or_default().topics;
            let first = carried.is_empty();
            carried.insert(name.to_owned());
            if first {
                self.member.mirror.follow(Aspect::Data, &broker_path(router));
                self.tell_link(router.clone());
            }
        }
        self.news.push_back(SiteNews::Route { topic: name.to_owned(), route });
        for router in before.difference(&after) {
            let Some(carried) = self.routers.get_mut(router) else { continue };
            carried.topics.remove(name);
            if carried.topics.is_empty() && !Mutant::KeepLinks.is_on() {
                self.routers.remove(router);
                self.member.mirror.unfollow(Aspect::Data, &broker_path(router));
                self.news.push_back(SiteNews::Unlink { router: router.clone() });
            }
        }
    }

    /// Tells where a router is reached. When that is not known any more, what is connected stays as it is.
    fn tell_link(&mut self, router: String) {
        let node = self.member.mirror.data(&broker_path(&router));
        let record = node.and_then(|node| from_bytes::<RouterRecord>(&node.data));
        let (Some(record), Some(linked)) = (record, self.routers.get_mut(&router)) else { return };
        if linked.locator.as_ref() != Some(&record.locator) {
            linked.locator = Some(record.locator.clone());
            self.news.push_back(SiteNews::Link { router, locator: record.locator });
        }
    }
}

impl Purposes for Purpose {
    const VERSION: Purpose = Purpose::Version;
    const CLAIM: Purpose = Purpose::Claim;
}

impl Participant for Site {
    fn handle_session(&mut self, now: Time, session: Session) {
        let jitter = hash(&[&self.settings.name]) % JITTER.as_nanos_u64();
        if self.member.handle_session(now, session, Span(jitter as i64)) == Change::New {
            self.forget();
        }
        self.settle(now);
    }

    fn handle_reply(&mut self, now: Time, ticket: Ticket, reply: Reply) {
        self.member.mirror.handle_reply(ticket, reply);
        self.settle(now);
    }

    fn handle_event(&mut self, now: Time, path: &str) {
        self.member.mirror.handle_event(path);
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.member.handle_timeout(now) {
            self.claim(now);
        }
        while let Some((at, topic)) = self.retries.first().cloned()
            && at <= now
        {
            self.retries.remove(&(at, topic.clone()));
            self.pursue(now, &topic);
        }
        self.settle(now);
    }

    fn next_deadline(&self) -> Time {
        let retry = self.retries.first().map_or(Time::NEVER, |(at, _)| *at);
        retry.min(self.member.next_deadline())
    }

    fn poll_request(&mut self) -> Option<(Ticket, Request)> {
        self.member.mirror.poll_request()
    }
}

/// The node that claims a site's name.
fn claim_of(settings: &SiteSettings) -> Owned {
    let claim = Owned::new(format!("{EDGES}/{}", escape(&settings.name)), Lasting::Ephemeral);
    claim.claiming(&settings.holder)
}

/// Whether a refusal is between this site and another.
fn names(refused: &Refused, site: &str) -> bool {
    refused.from == site || refused.to == site
}

fn owned(topic: &str, side: Side, site: &str) -> Owned {
    let lasting = if side == Side::Keeps { Lasting::Persistent } else { Lasting::Ephemeral };
    let folders = Side::ALL.map(|side| side_path(topic, side));
    let with = std::iter::once(topic_path(topic)).chain(folders).collect();
    Owned::new(endpoint_path(topic, side, site), lasting).along_with(with)
}
