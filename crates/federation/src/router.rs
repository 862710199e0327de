//! What a router asks of coordination: which topics it carries, and between which sites (PubSubCoord §2.6,
//! A4 to A6 and A8).
//!
//! The idea: its topics stand in shards of its own; of each topic it follows who publishes and who subscribes. A topic goes from a site to
//! another where it is published in the one, wanted in the other, and what is offered is what is asked. What does not match is written
//! into the topic's node, which both sites follow.
//!
//! The invariant: what is carried follows from what is known of the tree by one function ([`Carried::of`]), whatever the order in which it
//! became known.

use crate::coordination::{Lasting, Operation, Reply, Request, Session, Ticket};
use crate::leader::{Leader, LeaderNews};
use crate::matching::mismatch;
use crate::member::{Member, MemberNews, Participant, Purposes};
use crate::mirror::{Aspect, Change, Outcome};
use crate::owned::Owned;
use crate::policy::Policy;
use crate::records::{
    EndpointRecord, Holder, KeptRecord, Load, Refused, RouterRecord, ShardRecord, Terms, TopicRecord,
    from_bytes, to_bytes,
};
use crate::tree::{
    Side, VERSION_PATH, above, assign_path, broker_path, drain_path, endpoint_path, last, side_path,
    topic_of, topic_path, unescape,
};
use contract::{Mutant, Span, Time, TopicFilter, invariant};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Who a router is, and how it decides where it leads.
#[derive(Clone, PartialEq, Debug)]
pub struct RouterSettings {
    /// Its name, which no other router has.
    pub name: String,
    /// Which router, or pair of routers, it is, and in which reign.
    pub holder: Holder,
    /// Where it is reached.
    pub locator: String,
    /// Topics that go by it before all other routers, while no others do; none: it is there for any.
    pub only: Vec<TopicFilter>,
    /// Topics that it is given at most; `None`: any number.
    pub topics_max: Option<usize>,
    /// To which router topics are given.
    pub policy: Policy,
    /// How long a topic in which nobody has any interest is remembered (`t_idle`).
    pub idle: Span,
    /// How many topics in a second are moved to other routers at most, where that is no hurry.
    pub moves_per_second: u32,
    /// How long a router to which a topic moves may take to begin, before the former one stops all the same.
    pub move_limit: Span,
}

impl RouterSettings {
    /// The usual settings.
    pub fn new(name: &str, holder: Holder, locator: &str) -> RouterSettings {
        RouterSettings {
            name: name.to_owned(),
            holder,
            locator: locator.to_owned(),
            only: Vec::new(),
            topics_max: None,
            policy: Policy::default(),
            idle: Span::secs(60),
            moves_per_second: 20,
            move_limit: Span::secs(30),
        }
    }
}

/// What a router carries of a topic.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Carried {
    /// To which sites, from each site.
    pub ways: BTreeMap<String, BTreeSet<String>>,
    /// Where it does not go although it is offered and wanted.
    pub refused: BTreeSet<Refused>,
    /// Sites for which it is kept while they are away.
    pub kept: BTreeSet<String>,
}

impl Carried {
    /// What follows from who publishes a topic and who wants it (W1, W6). A site is served its own messages at home.
    fn of(topic: &Assigned) -> Carried {
        let mut carried = Carried::default();
        let wants = topic.sides[1].iter().chain(&topic.sides[2]);
        let mut asked: BTreeMap<&String, &Terms> = BTreeMap::new();
        wants.for_each(|(site, terms)| _ = asked.entry(site).or_insert(terms));
        for (from, offered) in &topic.sides[0] {
            for (to, asked) in asked.iter().filter(|(to, _)| **to != from || Mutant::CarryBack.is_on()) {
                match mismatch(offered, asked) {
                    None => _ = carried.ways.entry(from.clone()).or_default().insert((*to).clone()),
                    Some(why) => {
                        let (from, to) = (from.clone(), (*to).clone());
                        carried.refused.insert(Refused { from, to, why: why.to_string() });
                    }
                }
            }
        }
        carried.kept.extend(topic.sides[2].keys().cloned());
        carried
    }
}

/// What a router is told.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RouterNews {
    /// Of its name and of the tree.
    Member(MemberNews),
    /// What it carries of a topic has changed; `None`: it is another router's topic now, or nobody's.
    Carries {
        /// The topic.
        topic: String,
        /// What of it.
        carried: Option<Carried>,
    },
    /// What leads has something to say.
    Leader(LeaderNews),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Purpose {
    Version,
    Claim,
    /// What does not match is written into the topic's node, or that it has begun; by the topic's number.
    Topic(u64),
    /// A topic that nobody wants is removed.
    Remove(u64),
    /// Something of a topic that is kept for somebody has run out.
    Expire(u64),
    Leader(crate::leader::LeaderPurpose),
}

#[derive(Clone, Debug)]
pub(crate) struct Assigned {
    number: u64,
    /// In which epoch it was given to this router.
    epoch: u64,
    shard: String,
    /// Publishing sites, subscribing ones, and those that are away; what each said.
    sides: [BTreeMap<String, Terms>; 3],
    /// When what is kept for the sites that are away runs out.
    until_s: BTreeMap<String, u64>,
    carried: Carried,
    idle_since: Option<Time>,
    /// The engine carries it.
    begun: bool,
    writing: bool,
}

/// The part of a router that speaks with coordination, and leads the others where it has been there for longest.
#[derive(Clone, Debug)]
pub struct Router {
    settings: RouterSettings,
    member: Member<Purpose>,
    record: RouterRecord,
    topics: BTreeMap<String, Assigned>,
    by_number: BTreeMap<u64, String>,
    numbers: u64,
    /// What each shard said last.
    shards: BTreeMap<String, BTreeMap<String, u64>>,
    /// Topics in which nobody has any interest, and when they are removed.
    idle: BTreeSet<(Time, String)>,
    /// Those that are removed now, one of each shard at a time, since each changes it.
    due: BTreeSet<String>,
    /// Shards from which a topic is being removed, and the number of that.
    tidied: BTreeMap<String, u64>,
    /// What is kept, and when it runs out.
    expiries: BTreeSet<(u64, String, String)>,
    leader: Leader,
    news: VecDeque<RouterNews>,
}

impl Router {
    /// A router that has no session yet.
    pub fn new(settings: RouterSettings) -> Router {
        let RouterSettings { name, holder, locator, topics_max, .. } = settings.clone();
        let only = settings.only.iter().map(ToString::to_string).collect();
        let claim = Owned::new(broker_path(&name), Lasting::Ephemeral);
        let mut member = Member::new(holder.clone(), claim);
        member.mirror.follow(Aspect::Children, &assign_path(&name));
        member.mirror.follow(Aspect::Data, &drain_path(&name));
        Router {
            member,
            record: RouterRecord {
                holder,
                locator,
                draining: false,
                only,
                topics_max,
                load: Load::default(),
            },
            leader: Leader::new(&settings),
            settings,
            topics: BTreeMap::new(),
            by_number: BTreeMap::new(),
            numbers: 0,
            shards: BTreeMap::new(),
            idle: BTreeSet::new(),
            due: BTreeSet::new(),
            tidied: BTreeMap::new(),
            expiries: BTreeSet::new(),
            news: VecDeque::new(),
        }
    }

    /// What it carries of a topic; `None`: it is not its own.
    pub fn carried(&self, topic: &str) -> Option<&Carried> {
        self.topics.get(topic).map(|topic| &topic.carried)
    }

    /// Topics that it has been given.
    pub fn topics(&self) -> impl Iterator<Item = (&str, &Carried)> {
        self.topics.iter().map(|(topic, assigned)| (topic.as_str(), &assigned.carried))
    }

    /// Whether it leads the others.
    pub fn leads(&self) -> bool {
        self.leader.leads()
    }

    /// What it carries now, for policies that go by that.
    pub fn tell_load(&mut self, now: Time, load: Load) {
        self.record.load = load;
        self.claim(now);
        self.settle(now);
    }

    /// These sites are linked: topics whose sites all are begin here.
    pub fn linked(&mut self, now: Time, sites: &BTreeSet<String>) {
        let all = |assigned: &Assigned| {
            let ways = assigned.carried.ways.iter();
            ways.flat_map(|(from, to)| to.iter().chain([from])).all(|site| sites.contains(site))
        };
        let new = self.topics.iter().filter(|(_, assigned)| !assigned.begun && all(assigned));
        let new: Vec<String> = new.map(|(topic, _)| topic.clone()).collect();
        new.iter().for_each(|topic| self.begun(now, topic));
    }

    /// Every site of a topic is linked, and it is carried: the router that had it before may stop.
    pub fn begun(&mut self, now: Time, topic: &str) {
        if let Some(assigned) = self.topics.get_mut(topic) {
            assigned.begun = true;
        }
        self.write_topic(topic);
        self.settle(now);
    }

    /// Removes what has been kept for long enough.
    fn expire(&mut self, now: Time) {
        while let Some((until_s, topic, site)) = self.expiries.first().cloned()
            && until_s <= now.0 / 1_000_000_000
            && self.member.mirror.session().is_some()
        {
            self.expiries.remove(&(until_s, topic.clone(), site.clone()));
            let Some(number) = self.topics.get(&topic).map(|topic| topic.number) else { continue };
            let path = endpoint_path(&topic, Side::Keeps, &site);
            let version = self.member.mirror.data(&path).map(|node| node.stat.version);
            self.member.mirror.write(Purpose::Expire(number), vec![Operation::Delete { path, version }]);
        }
    }

    /// The next piece of news.
    pub fn poll_news(&mut self) -> Option<RouterNews> {
        let member = self.member.poll_news().map(RouterNews::Member);
        member.or_else(|| self.news.pop_front()).or_else(|| self.leader.poll_news().map(RouterNews::Leader))
    }

    fn settle(&mut self, now: Time) {
        loop {
            if let Some(Outcome { purpose, reply }) = self.member.mirror.poll_outcome() {
                self.take_outcome(now, purpose, &reply);
            } else if let Some((aspect, path)) = self.member.mirror.poll_change() {
                self.take_change(now, aspect, &path);
                self.leader.take_change(aspect, &path, &mut self.member.mirror);
            } else {
                self.leader.lead(now, &mut self.member.mirror);
                if !self.tidy(now) {
                    return self.member.rest(now);
                }
            }
        }
    }

    fn take_outcome(&mut self, now: Time, purpose: Purpose, reply: &Reply) {
        match purpose {
            Purpose::Version => {
                self.member.tree_made(now, reply);
                self.claim(now);
            }
            Purpose::Expire(number) => {
                // What could not be removed is tried again.
                if let (false, Some(name)) = (is_written(reply), self.by_number.get(&number).cloned()) {
                    self.look_at(now, &name);
                }
            }
            Purpose::Claim => {
                self.member.name_written(now, reply);
                self.claim(now);
            }
            Purpose::Topic(number) => {
                let Some(name) = self.by_number.get(&number).cloned() else { return };
                let Some(topic) = self.topics.get_mut(&name) else { return };
                topic.writing = false;
                if !is_written(reply) {
                    // What is found is told even if it has not changed, and then it is written again.
                    self.member.mirror.look_again(Aspect::Data, &topic_path(&name));
                }
            }
            Purpose::Remove(number) => {
                self.tidied.retain(|_, removed| *removed != number);
                let Some(name) = self.by_number.get(&number).cloned() else { return };
                let Some(topic) = self.topics.get_mut(&name) else { return };
                topic.writing = false;
                if is_written(reply) {
                    // The next one of the shard waits until that has been read.
                    self.member.mirror.doubt(Aspect::Data, &topic.shard);
                } else {
                    // Somebody wants it after all, or the shard has changed: it is looked at again later.
                    topic.idle_since = None;
                    self.look_at(now, &name);
                }
            }
            Purpose::Leader(purpose) => {
                self.leader.take_outcome(now, purpose, reply, &mut self.member.mirror);
            }
        }
    }

    /// Claims the router's name, and stands for election.
    fn claim(&mut self, now: Time) {
        if self.member.claim(now, &to_bytes(&self.record)) {
            self.leader.stand(&mut self.member.mirror);
        }
    }

    fn take_change(&mut self, now: Time, aspect: Aspect, path: &str) {
        let own = assign_path(&self.settings.name);
        if path == VERSION_PATH {
            self.claim(now);
        } else if path == drain_path(&self.settings.name) {
            self.record.draining = self.member.mirror.data(path).is_some();
            self.claim(now);
        } else if path == own && aspect == Aspect::Children {
            self.take_shards(now, &own);
        } else if above(path) == own && aspect == Aspect::Data {
            self.take_shard(now, path);
        } else if let Some((topic, side)) = topic_of(path)
            && self.topics.contains_key(&topic)
        {
            match (side, aspect) {
                (None, _) => self.write_topic(&topic),
                (Some(side), Aspect::Children) => self.take_side(&topic, side),
                (Some(_), Aspect::Data) => {}
            }
            self.look_at(now, &topic);
        }
    }

    /// Shards have come or gone.
    fn take_shards(&mut self, now: Time, own: &str) {
        let there: BTreeSet<String> = self.member.mirror.children(own).cloned().unwrap_or_default();
        let there: BTreeSet<String> = there.iter().map(|shard| format!("{own}/{shard}")).collect();
        let gone: Vec<String> = self.shards.keys().filter(|shard| !there.contains(*shard)).cloned().collect();
        for shard in gone {
            self.member.mirror.unfollow(Aspect::Data, &shard);
            self.change_shard(now, &shard, BTreeMap::new());
            self.shards.remove(&shard);
        }
        for shard in there {
            if !self.shards.contains_key(&shard) {
                self.shards.insert(shard.clone(), BTreeMap::new());
                self.member.mirror.follow(Aspect::Data, &shard);
                // What the leader follows anyway is not told again.
                self.take_shard(now, &shard);
            }
        }
    }

    fn take_shard(&mut self, now: Time, path: &str) {
        if !self.shards.contains_key(path) {
            return;
        }
        let record = self.member.mirror.data(path).and_then(|node| from_bytes::<ShardRecord>(&node.data));
        self.change_shard(now, path, record.unwrap_or_default().topics);
    }

    /// The topics of a shard have changed (A5).
    fn change_shard(&mut self, now: Time, shard: &str, topics: BTreeMap<String, u64>) {
        let before = self.shards.insert(shard.to_owned(), topics.clone()).unwrap_or_default();
        for (topic, epoch) in before.iter().filter(|(topic, _)| !topics.contains_key(*topic)) {
            // It may have come back in another shard before this one was read.
            let stands = self.topics.get(topic);
            if stands.is_some_and(|stands| stands.shard == shard && stands.epoch == *epoch) {
                self.give_up(topic);
            }
        }
        for (topic, epoch) in topics {
            match self.topics.get_mut(&topic) {
                Some(stands) if stands.epoch < epoch => {
                    (stands.epoch, stands.begun) = (epoch, false);
                    stands.shard = shard.to_owned();
                    // It was to go to another router, and has come back: it begins anew.
                    let carried = Some(stands.carried.clone());
                    self.news.push_back(RouterNews::Carries { topic, carried });
                }
                Some(_) => {}
                None => self.take_up(now, &topic, epoch, shard),
            }
        }
    }

    fn take_up(&mut self, now: Time, topic: &str, epoch: u64, shard: &str) {
        self.numbers += 1;
        self.by_number.insert(self.numbers, topic.to_owned());
        let assigned = Assigned {
            number: self.numbers,
            epoch,
            shard: shard.to_owned(),
            sides: Default::default(),
            until_s: BTreeMap::new(),
            carried: Carried::default(),
            idle_since: None,
            begun: false,
            writing: false,
        };
        self.topics.insert(topic.to_owned(), assigned);
        self.member.mirror.follow(Aspect::Data, &topic_path(topic));
        for side in Side::ALL {
            self.member.mirror.follow(Aspect::Children, &side_path(topic, side));
            // What is known of it, since another role or an epoch before followed it, is not told again.
            self.take_side(topic, side);
        }
        let carried = Some(Carried::default());
        self.news.push_back(RouterNews::Carries { topic: topic.to_owned(), carried });
        self.look_at(now, topic);
    }

    fn give_up(&mut self, name: &str) {
        let Some(topic) = self.topics.remove(name) else {
            return invariant!("a topic that is given up is there");
        };
        self.due.remove(name);
        self.by_number.remove(&topic.number);
        self.member.mirror.unfollow(Aspect::Data, &topic_path(name));
        for (place, side) in Side::ALL.into_iter().enumerate() {
            self.member.mirror.unfollow(Aspect::Children, &side_path(name, side));
            for site in topic.sides[place].keys() {
                self.member.mirror.unfollow(Aspect::Data, &endpoint_path(name, side, site));
            }
        }
        for (site, until_s) in &topic.until_s {
            self.expiries.remove(&(*until_s, name.to_owned(), site.clone()));
        }
        if let Some(since) = topic.idle_since {
            self.idle.remove(&(since + self.settings.idle, name.to_owned()));
        }
        self.news.push_back(RouterNews::Carries { topic: name.to_owned(), carried: None });
    }

    /// Sites have come to a side of a topic, or gone (A6).
    fn take_side(&mut self, name: &str, side: Side) {
        let Some(topic) = self.topics.get_mut(name) else {
            return invariant!("a topic whose sites are looked at is there");
        };
        let path = side_path(name, side);
        let there = self.member.mirror.children(&path);
        let there: BTreeSet<String> = there.into_iter().flatten().filter_map(|name| unescape(name)).collect();
        let sites = &mut topic.sides[side as usize];
        let gone: Vec<String> = sites.keys().filter(|site| !there.contains(*site)).cloned().collect();
        for site in gone {
            sites.remove(&site);
            self.member.mirror.unfollow(Aspect::Data, &endpoint_path(name, side, &site));
            if let Some(until_s) = topic.until_s.remove(&site).filter(|_| side == Side::Keeps) {
                self.expiries.remove(&(until_s, name.to_owned(), site));
            }
        }
        for site in there {
            if !sites.contains_key(&site) {
                sites.insert(site.clone(), Terms::default());
                self.member.mirror.follow(Aspect::Data, &endpoint_path(name, side, &site));
            }
        }
    }

    /// What is known of the sites of a topic has changed: what follows from that?
    fn look_at(&mut self, now: Time, name: &str) {
        let Some(topic) = self.topics.get_mut(name) else {
            return invariant!("a topic that is looked at is there");
        };
        let mut known = topic.clone();
        for (place, side) in Side::ALL.into_iter().enumerate() {
            for (site, terms) in &mut topic.sides[place] {
                let Some(node) = self.member.mirror.data(&endpoint_path(name, side, site)) else {
                    // Not read yet: as if it were not there.
                    known.sides[place].remove(site);
                    continue;
                };
                if side == Side::Keeps {
                    let Some(record) = from_bytes::<KeptRecord>(&node.data) else {
                        known.sides[place].remove(site);
                        continue;
                    };
                    *terms = record.terms;
                    if let Some(before) = topic.until_s.insert(site.clone(), record.until_s) {
                        self.expiries.remove(&(before, name.to_owned(), site.clone()));
                    }
                    self.expiries.insert((record.until_s, name.to_owned(), site.clone()));
                } else {
                    let Some(record) = from_bytes::<EndpointRecord>(&node.data) else {
                        known.sides[place].remove(site);
                        continue;
                    };
                    *terms = record.terms;
                }
                known.sides[place].insert(site.clone(), terms.clone());
            }
        }
        let carried = Carried::of(&known);
        if topic.carried != carried {
            topic.carried.clone_from(&carried);
            self.news.push_back(RouterNews::Carries { topic: name.to_owned(), carried: Some(carried) });
            self.write_topic(name);
        }
        self.look_whether_idle(now, name);
    }

    fn look_whether_idle(&mut self, now: Time, name: &str) {
        let Some(topic) = self.topics.get_mut(name) else {
            return invariant!("a topic that is looked at is there");
        };
        let read = Side::ALL
            .iter()
            .all(|side| self.member.mirror.is_known(Aspect::Children, &side_path(name, *side)));
        let is_idle = !Mutant::KeepIdleTopics.is_on() && read && topic.sides.iter().all(BTreeMap::is_empty);
        match (topic.idle_since, is_idle) {
            (None, true) => {
                topic.idle_since = Some(now);
                self.idle.insert((now + self.settings.idle, name.to_owned()));
            }
            (Some(since), false) => {
                topic.idle_since = None;
                self.idle.remove(&(since + self.settings.idle, name.to_owned()));
                self.due.remove(name);
            }
            _ => {}
        }
    }

    /// Writes into a topic's node what does not match, and that it has begun, where that does not stand there. Only in its own epoch.
    fn write_topic(&mut self, name: &str) {
        let path = topic_path(name);
        let Some(topic) = self.topics.get_mut(name).filter(|topic| !topic.writing) else { return };
        let Some(node) = self.member.mirror.data(&path) else { return };
        let Some(before) = TopicRecord::of(&node.data) else { return };
        if before.epoch > topic.epoch {
            return;
        }
        let refused = topic.carried.refused.iter().take(REFUSED_MAX).cloned().collect();
        // Shard and node are written as one. A node that says less has been removed and created again, or was read before that, which its
        // version will tell.
        let same = before.epoch == topic.epoch;
        let former = before.former.clone().filter(|_| same && !topic.begun);
        let router = Some(self.settings.name.clone());
        let record = TopicRecord { router, epoch: topic.epoch, refused, former };
        if record != before {
            topic.writing = true;
            let version = Some(node.stat.version);
            let write = Operation::Set { path, data: to_bytes(&record), version };
            self.member.mirror.write(Purpose::Topic(topic.number), vec![write]);
        }
    }

    /// Removes topics in which nobody has had any interest for long (A8), one of each shard at a time. Whoever comes at this moment is not
    /// lost: what has children is not deleted, and then nothing of it is. Returns whether anything could be begun.
    fn tidy(&mut self, now: Time) -> bool {
        if self.member.mirror.session().is_none() {
            return false;
        }
        let can_go = |name: &&String| {
            let Some(topic) = self.topics.get(*name) else { return true };
            !self.tidied.contains_key(&topic.shard)
                && self.member.mirror.is_fresh_at(Aspect::Data, &topic.shard)
        };
        let Some(name) = self.due.iter().find(can_go).cloned() else { return false };
        self.due.remove(&name);
        self.remove(now, &name);
        true
    }

    fn remove(&mut self, now: Time, name: &str) {
        let Some(topic) = self.topics.get_mut(name) else { return };
        // Somebody has come while it waited.
        if topic.idle_since.is_none() {
            return;
        }
        let path = topic_path(name);
        let (node, shard) = (self.member.mirror.data(&path), self.member.mirror.data(&topic.shard));
        let record = node.and_then(|node| TopicRecord::of(&node.data)).unwrap_or_default();
        // Removed by hand, which the leader will see; or about to move.
        let (Some(node), Some(shard), true) = (node, shard, record.epoch == topic.epoch && !topic.writing)
        else {
            topic.idle_since = Some(now);
            self.idle.insert((now + self.settings.idle, name.to_owned()));
            return;
        };
        let mut rest = from_bytes::<ShardRecord>(&shard.data).unwrap_or_default();
        rest.topics.remove(name);
        let folders = Side::ALL.map(|side| Operation::Delete { path: side_path(name, side), version: None });
        let shard_version = Some(shard.stat.version);
        let others = [
            Operation::Delete { path, version: Some(node.stat.version) },
            Operation::Set { path: topic.shard.clone(), data: to_bytes(&rest), version: shard_version },
        ];
        topic.writing = true;
        self.tidied.insert(topic.shard.clone(), topic.number);
        let purpose = Purpose::Remove(topic.number);
        self.member.mirror.write(purpose, folders.into_iter().chain(others).collect());
    }
}

impl Purposes for Purpose {
    const VERSION: Purpose = Purpose::Version;
    const CLAIM: Purpose = Purpose::Claim;
}

impl Participant for Router {
    fn handle_session(&mut self, now: Time, session: Session) {
        if self.member.handle_session(now, session, Span::ZERO) == Change::New {
            self.leader.forget(&mut self.member.mirror);
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
        while let Some((at, topic)) = self.idle.first().cloned()
            && at <= now
        {
            self.idle.remove(&(at, topic.clone()));
            self.due.insert(topic);
        }
        self.expire(now);
        self.leader.handle_timeout(now, &mut self.member.mirror);
        self.settle(now);
    }

    fn next_deadline(&self) -> Time {
        let idle = self.idle.first().map_or(Time::NEVER, |(at, _)| *at);
        let expiry = self.expiries.first().filter(|_| self.member.mirror.session().is_some());
        let expiry = expiry.map_or(Time::NEVER, |(until_s, ..)| Time(until_s.saturating_mul(1_000_000_000)));
        self.member.next_deadline().min(idle).min(expiry).min(self.leader.next_deadline())
    }

    fn poll_request(&mut self) -> Option<(Ticket, Request)> {
        self.member.mirror.poll_request()
    }
}

fn is_written(reply: &Reply) -> bool {
    matches!(reply, Reply::Written(_))
}

/// So many pairs of sites between which a topic does not match are named in its node.
const REFUSED_MAX: usize = 16;

/// The shard that a path names, by its number.
pub(crate) fn shard_number(path: &str) -> Option<u32> {
    last(path).parse().ok()
}
