//! Which router carries what: the oldest router leads, and gives topics to routers (PubSubCoord §2.4, A7).
//!
//! The idea: what has been given to whom stands in the routers' shards and nowhere else. The leader compares that with the topics that there
//! are and with the routers that live, and writes what is missing: the shard and the topic's node, in one write.
//!
//! The invariant: of two routers that have the same topic, the one with the higher epoch carries it; the other has it only while a move is
//! under way. A leader that has been deposed and does not know it writes nothing: each of its writes checks that its own place in the queue
//! still stands, and the version of each shard.

use crate::coordination::{Lasting, Operation, Refusal, Reply};
use crate::mirror::{Aspect, Mirror};
use crate::policy::{Candidate, Policy, best_for, carrier, choose};
use crate::records::{Holder, RouterRecord, ShardRecord, TopicRecord, from_bytes, to_bytes};
use crate::router::{Purpose, RouterSettings, shard_number};
use crate::tree::{
    ASSIGN, BROKERS, LEADERS, TOPICS, above, assign_path, broker_path, last, topic_of, topic_path, unescape,
};
use contract::{Mutant, Span, Time, invariant};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Topics in one shard, so that no node outgrows what the service takes.
pub const SHARD_TOPICS_MAX: usize = 256;
/// Topics that are given in one write.
const BATCH_TOPICS_MAX: usize = 64;
/// Bytes of one write: half of what the service takes.
const BATCH_BYTES_MAX: usize = 500_000;
/// Moves are looked at so often.
const MOVES_EVERY: Span = Span::secs(1);

/// What a leader has to say.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LeaderNews {
    /// It leads from now on.
    Leads,
    /// It leads no longer.
    Follows,
    /// Topics have been given to routers.
    Gave {
        /// How many.
        topics: usize,
    },
    /// The service refuses what has to be written. It is tried again every second.
    Hindered,
    /// There is no router to give so many topics to.
    NoRouter {
        /// How many.
        topics: usize,
    },
}

/// What a write of the leader was for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum LeaderPurpose {
    Stand,
    Folder,
    Batch,
}

/// Where a router stands in the queue.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Place {
    None,
    Asked,
    /// By its node's name.
    Has(String),
}

#[derive(Clone, Debug, Default)]
struct Topic {
    /// Its node is there.
    exists: bool,
    /// Shards in which it stands, and with which epoch.
    holders: BTreeMap<String, u64>,
}

impl Topic {
    /// The shard of the router that carries it.
    fn current(&self) -> Option<(&String, u64)> {
        self.holders.iter().max_by_key(|(_, epoch)| **epoch).map(|(shard, epoch)| (shard, *epoch))
    }
}

/// The part of a router that may lead; it speaks through the router's session.
#[derive(Clone, Debug)]
pub(crate) struct Leader {
    holder: Holder,
    policy: Policy,
    moves_per_second: u32,
    move_limit: Span,
    place: Place,
    /// The one that stands first in the queue, if that is not us.
    first: Option<String>,
    leads: bool,
    /// Everything has been read once.
    ready: bool,
    /// What each folder of topics has in it.
    folders: BTreeMap<String, BTreeSet<String>>,
    /// Routers that live.
    routers: BTreeSet<String>,
    /// Routers that have been given something, and their shards.
    given: BTreeMap<String, BTreeSet<String>>,
    shards: BTreeMap<String, BTreeMap<String, u64>>,
    topics: BTreeMap<String, Topic>,
    /// Topics that are to be looked at.
    todo: BTreeSet<String>,
    /// Topics for which there is no router.
    unplaced: BTreeSet<String>,
    unplaced_told: usize,
    /// Topics that are to be carried by another router.
    to_move: BTreeSet<String>,
    /// Topics that two routers carry, since when.
    moving: BTreeMap<String, Move>,
    /// Topics whose move is over: the former router has them no longer. Whether their nodes still name it.
    ended: BTreeMap<String, bool>,
    writing: Option<Batch>,
    /// The service has refused what no reading mends.
    blocked_until: Time,
    /// Shards that have been written, and have to be read before anything else is.
    unread: BTreeSet<String>,
    epoch_max: u64,
    moves_at: Time,
    news: VecDeque<LeaderNews>,
}

/// A topic on its way from one router to another.
#[derive(Clone, Copy, Debug)]
struct Move {
    since: Time,
    /// Of the new one.
    epoch: u64,
}

/// What is written at a time.
#[derive(Clone, Debug, Default)]
struct Batch {
    /// Topics that were looked at for it.
    names: Vec<String>,
    shards: BTreeMap<String, Edit>,
    /// Nodes that are made along with it.
    folders: BTreeSet<String>,
    topics: BTreeMap<String, TopicRecord>,
    bytes: usize,
    gave: usize,
}

#[derive(Clone, Debug)]
struct Edit {
    topics: BTreeMap<String, u64>,
    /// `None`: it is new.
    version: Option<i32>,
}

impl Leader {
    pub(crate) fn new(settings: &RouterSettings) -> Leader {
        Leader {
            holder: settings.holder.clone(),
            policy: settings.policy,
            moves_per_second: settings.moves_per_second,
            move_limit: settings.move_limit,
            place: Place::None,
            first: None,
            leads: false,
            ready: false,
            folders: BTreeMap::new(),
            routers: BTreeSet::new(),
            given: BTreeMap::new(),
            shards: BTreeMap::new(),
            topics: BTreeMap::new(),
            todo: BTreeSet::new(),
            unplaced: BTreeSet::new(),
            unplaced_told: 0,
            to_move: BTreeSet::new(),
            moving: BTreeMap::new(),
            ended: BTreeMap::new(),
            writing: None,
            blocked_until: Time::ZERO,
            unread: BTreeSet::new(),
            epoch_max: 0,
            moves_at: Time::NEVER,
            news: VecDeque::new(),
        }
    }

    pub(crate) fn leads(&self) -> bool {
        self.leads
    }

    pub(crate) fn poll_news(&mut self) -> Option<LeaderNews> {
        self.news.pop_front()
    }

    pub(crate) fn next_deadline(&self) -> Time {
        self.moves_at
    }

    /// Stands at the end of the queue.
    pub(crate) fn stand(&mut self, mirror: &mut Mirror<Purpose>) {
        // Without a session it would be answered at once that nobody knows; who is back stands again.
        if self.place == Place::None && mirror.session().is_some() {
            self.place = Place::Asked;
            let (path, data) = (format!("{LEADERS}/n-"), to_bytes(&self.holder));
            let create = Operation::Create { path, data, lasting: Lasting::EphemeralSequential };
            mirror.write(Purpose::Leader(LeaderPurpose::Stand), vec![create]);
        }
    }

    /// A new session stands nowhere.
    pub(crate) fn forget(&mut self, mirror: &mut Mirror<Purpose>) {
        if std::mem::replace(&mut self.place, Place::None) != Place::None {
            mirror.unfollow(Aspect::Children, LEADERS);
        }
        if let Some(first) = self.first.take() {
            mirror.unfollow(Aspect::Data, &first);
        }
        self.abdicate(mirror);
    }

    fn abdicate(&mut self, mirror: &mut Mirror<Purpose>) {
        if !std::mem::replace(&mut self.leads, false) {
            return;
        }
        self.news.push_back(LeaderNews::Follows);
        for path in [TOPICS, BROKERS, ASSIGN] {
            mirror.unfollow(Aspect::Children, path);
        }
        self.folders.keys().for_each(|folder| mirror.unfollow(Aspect::Children, folder));
        self.routers.iter().for_each(|router| mirror.unfollow(Aspect::Data, &broker_path(router)));
        self.given.keys().for_each(|router| mirror.unfollow(Aspect::Children, &assign_path(router)));
        self.shards.keys().for_each(|shard| mirror.unfollow(Aspect::Data, shard));
        self.moving.keys().for_each(|topic| mirror.unfollow(Aspect::Data, &topic_path(topic)));
        (self.ready, self.writing, self.moves_at) = (false, None, Time::NEVER);
        self.folders.clear();
        self.routers.clear();
        self.given.clear();
        self.shards.clear();
        self.topics.clear();
        self.moving.clear();
        for set in [&mut self.todo, &mut self.unplaced, &mut self.to_move, &mut self.unread] {
            set.clear();
        }
        self.ended.clear();
        self.unplaced_told = 0;
    }

    pub(crate) fn take_outcome(
        &mut self,
        now: Time,
        purpose: LeaderPurpose,
        reply: &Reply,
        mirror: &mut Mirror<Purpose>,
    ) {
        match (purpose, reply) {
            (LeaderPurpose::Stand, Reply::Written(created)) if self.place == Place::Asked => {
                let name = created.iter().flatten().next().map(|path| last(path).to_owned());
                self.place = name.map_or(Place::None, Place::Has);
                mirror.follow(Aspect::Children, LEADERS);
                self.look_at_queue(mirror);
            }
            (LeaderPurpose::Stand, Reply::Refused { why: Refusal::Missing, .. }) => {
                self.place = Place::None;
                mirror.write(Purpose::Leader(LeaderPurpose::Stand), vec![Operation::folder(LEADERS)]);
            }
            // The folder is there now; or nobody knows whether we stand already, which the queue will show.
            (LeaderPurpose::Stand, _) if matches!(self.place, Place::None | Place::Asked) => {
                self.place = Place::None;
                self.stand(mirror);
            }
            (LeaderPurpose::Stand | LeaderPurpose::Folder, _) => {}
            (LeaderPurpose::Batch, reply) => self.take_batch(now, reply, mirror),
        }
    }

    fn take_batch(&mut self, now: Time, reply: &Reply, mirror: &mut Mirror<Purpose>) {
        // Of a reign that is over.
        let Some(batch) = self.writing.take() else { return };
        let written = matches!(reply, Reply::Written(_));
        if written && batch.gave > 0 {
            self.news.push_back(LeaderNews::Gave { topics: batch.gave });
        }
        for shard in batch.shards.keys() {
            let router = above(shard);
            if let Some(router) = unescape(last(router)) {
                self.follow_router(&router, mirror);
                self.follow_shard(&router, shard, mirror);
            }
            mirror.doubt(Aspect::Data, shard);
            self.unread.insert(shard.clone());
        }
        for (topic, record) in &batch.topics {
            if written && record.former.is_some() {
                self.begin_move(now, topic, record.epoch, mirror);
            }
            if !written {
                // Perhaps it is not there any more.
                mirror.doubt(Aspect::Children, above(&topic_path(topic)));
            }
        }
        if !written {
            self.todo.extend(batch.names);
            mirror.doubt(Aspect::Children, ASSIGN);
            mirror.doubt(Aspect::Children, LEADERS);
        }
        if let Reply::Refused { why: Refusal::Forbidden | Refusal::Other, .. } = reply {
            self.blocked_until = now + MOVES_EVERY;
            self.news.push_back(LeaderNews::Hindered);
        }
    }

    pub(crate) fn take_change(&mut self, aspect: Aspect, path: &str, mirror: &mut Mirror<Purpose>) {
        if path == LEADERS || self.first.as_deref() == Some(path) {
            return self.look_at_queue(mirror);
        }
        if !self.leads {
            return;
        }
        match aspect {
            Aspect::Children if path == TOPICS => self.take_folders(mirror),
            Aspect::Children if path == BROKERS => self.take_routers(mirror),
            Aspect::Children if path == ASSIGN => self.take_given(mirror),
            Aspect::Data if above(path) == BROKERS => self.todo.append(&mut self.unplaced),
            Aspect::Children if above(path) == TOPICS => self.take_folder(path, mirror),
            Aspect::Children if above(path) == ASSIGN => self.take_shards(path, mirror),
            Aspect::Data if above(above(path)) == ASSIGN => self.take_shard(path, mirror),
            Aspect::Data if above(above(path)) == TOPICS => self.take_moving(path, mirror),
            _ => {}
        }
    }

    /// Who stands first leads.
    fn look_at_queue(&mut self, mirror: &mut Mirror<Purpose>) {
        let Place::Has(own) = &self.place else { return };
        let Some(queue) = mirror.children(LEADERS) else { return };
        // What others have put there is no place in the queue.
        let number = |name: &str| name.strip_prefix("n-").and_then(|number| number.parse::<u64>().ok());
        let first =
            queue.iter().filter_map(|name| Some((number(name)?, name))).min().map(|(_, name)| name.clone());
        if !queue.contains(own) && mirror.is_fresh_at(Aspect::Children, LEADERS) {
            // Somebody has removed us.
            self.forget(mirror);
            return self.stand(mirror);
        }
        let first = first.filter(|first| first != own).map(|first| format!("{LEADERS}/{first}"));
        if self.first != first {
            if let Some(before) = std::mem::replace(&mut self.first, first) {
                mirror.unfollow(Aspect::Data, &before);
            }
            if let Some(first) = &self.first {
                mirror.follow(Aspect::Data, first);
            }
        }
        let Some(first) = self.first.clone() else { return self.reign(mirror) };
        // A place that we were given while the connection broke: it is ours all the same, and the later one need not be.
        if mirror.data(&first).is_some_and(|node| Some(node.stat.owner) == mirror.session()) {
            let later = format!("{LEADERS}/{own}");
            self.place = Place::Has(last(&first).to_owned());
            let delete = Operation::Delete { path: later, version: None };
            mirror.write(Purpose::Leader(LeaderPurpose::Folder), vec![delete]);
            self.look_at_queue(mirror);
        }
    }

    fn reign(&mut self, mirror: &mut Mirror<Purpose>) {
        if std::mem::replace(&mut self.leads, true) {
            return;
        }
        self.news.push_back(LeaderNews::Leads);
        [TOPICS, BROKERS, ASSIGN].iter().for_each(|path| mirror.follow(Aspect::Children, path));
        // What the router follows anyway is not told again.
        self.take_folders(mirror);
        self.take_routers(mirror);
        self.take_given(mirror);
    }

    fn take_folders(&mut self, mirror: &mut Mirror<Purpose>) {
        let there: Vec<String> = mirror.children(TOPICS).into_iter().flatten().cloned().collect();
        for folder in there.iter().map(|name| format!("{TOPICS}/{name}")) {
            if !self.folders.contains_key(&folder) {
                self.folders.insert(folder.clone(), BTreeSet::new());
                mirror.follow(Aspect::Children, &folder);
                self.take_folder(&folder, mirror);
            }
        }
    }

    fn take_folder(&mut self, folder: &str, mirror: &Mirror<Purpose>) {
        let there = mirror.children(folder).cloned().unwrap_or_default();
        let Some(before) = self.folders.get_mut(folder) else { return };
        let before = std::mem::replace(before, there.clone());
        for name in there.symmetric_difference(&before) {
            // What stands in the wrong folder, or is no name of a topic, is none of ours.
            let Some(topic) = unescape(name).filter(|topic| topic_path(topic) == format!("{folder}/{name}"))
            else {
                continue;
            };
            self.topics.entry(topic.clone()).or_default().exists = there.contains(name);
            self.todo.insert(topic);
        }
    }

    fn take_routers(&mut self, mirror: &mut Mirror<Purpose>) {
        let names = mirror.children(BROKERS).into_iter().flatten();
        let there: BTreeSet<String> = names.filter_map(|name| unescape(name)).collect();
        let before = std::mem::replace(&mut self.routers, there.clone());
        for router in before.difference(&there) {
            mirror.unfollow(Aspect::Data, &broker_path(router));
            self.look_at_topics_of(router);
        }
        for router in there.difference(&before) {
            mirror.follow(Aspect::Data, &broker_path(router));
            // One that comes back has what it had.
            self.look_at_topics_of(router);
            self.todo.append(&mut self.unplaced);
        }
    }

    fn look_at_topics_of(&mut self, router: &str) {
        for shard in self.given.get(router).into_iter().flatten() {
            let topics = self.shards.get(shard).into_iter().flatten();
            topics.for_each(|(topic, _)| _ = self.todo.insert(topic.clone()));
        }
    }

    fn take_given(&mut self, mirror: &mut Mirror<Purpose>) {
        let there: Vec<String> = mirror.children(ASSIGN).into_iter().flatten().cloned().collect();
        for router in there.iter().filter_map(|name| unescape(name)) {
            self.follow_router(&router, mirror);
        }
    }

    fn follow_router(&mut self, router: &str, mirror: &mut Mirror<Purpose>) {
        if !self.given.contains_key(router) {
            self.given.insert(router.to_owned(), BTreeSet::new());
            let path = assign_path(router);
            mirror.follow(Aspect::Children, &path);
            self.take_shards(&path, mirror);
        }
    }

    fn take_shards(&mut self, path: &str, mirror: &mut Mirror<Purpose>) {
        let Some(router) = unescape(last(path)) else { return };
        let there: Vec<String> = mirror.children(path).into_iter().flatten().cloned().collect();
        let there: BTreeSet<String> = there.iter().map(|name| format!("{path}/{name}")).collect();
        there.iter().for_each(|shard| self.follow_shard(&router, shard, mirror));
        let known = self.given.get(&router).cloned().unwrap_or_default();
        // One that has just been written need not have been listed yet.
        let gone: Vec<String> =
            known.difference(&there).filter(|shard| !self.unread.contains(*shard)).cloned().collect();
        for gone in gone {
            self.given.entry(router.clone()).or_default().remove(&gone);
            mirror.unfollow(Aspect::Data, &gone);
            self.change_shard(&gone, BTreeMap::new());
            self.shards.remove(&gone);
        }
    }

    fn follow_shard(&mut self, router: &str, shard: &str, mirror: &mut Mirror<Purpose>) {
        if self.given.entry(router.to_owned()).or_default().insert(shard.to_owned()) {
            self.shards.insert(shard.to_owned(), BTreeMap::new());
            mirror.follow(Aspect::Data, shard);
            self.take_shard(shard, mirror);
        }
    }

    fn take_shard(&mut self, shard: &str, mirror: &Mirror<Purpose>) {
        if self.shards.contains_key(shard) {
            let record = mirror.data(shard).and_then(|node| from_bytes::<ShardRecord>(&node.data));
            self.change_shard(shard, record.unwrap_or_default().topics);
        }
    }

    fn change_shard(&mut self, shard: &str, topics: BTreeMap<String, u64>) {
        let before = self.shards.insert(shard.to_owned(), topics.clone()).unwrap_or_default();
        for topic in before.keys().filter(|topic| !topics.contains_key(*topic)) {
            self.topics.entry(topic.clone()).or_default().holders.remove(shard);
            self.todo.insert(topic.clone());
        }
        for (topic, epoch) in topics.into_iter().filter(|(topic, epoch)| before.get(topic) != Some(epoch)) {
            self.epoch_max = if Mutant::TakeOlderEpochs.is_on() { 0 } else { self.epoch_max.max(epoch) };
            self.topics.entry(topic.clone()).or_default().holders.insert(shard.to_owned(), epoch);
            self.todo.insert(topic);
        }
    }

    fn begin_move(&mut self, now: Time, topic: &str, epoch: u64, mirror: &mut Mirror<Purpose>) {
        if self.moving.insert(topic.to_owned(), Move { since: now, epoch }).is_none() {
            mirror.follow(Aspect::Data, &topic_path(topic));
        }
        // What is known of it already is not told again.
        self.take_moving(&topic_path(topic), mirror);
    }

    /// The router to which a topic moves has begun.
    fn take_moving(&mut self, path: &str, mirror: &mut Mirror<Purpose>) {
        let Some((topic, None)) = topic_of(path) else { return };
        let Some(Move { epoch, .. }) = self.moving.get(&topic) else { return };
        let record = mirror.data(path).and_then(|node| TopicRecord::of(&node.data));
        // Only what was written in its epoch tells of this move.
        if record.is_some_and(|record| record.former.is_none() && record.epoch == *epoch) {
            self.end_move(&topic, false, mirror);
        }
    }

    fn end_move(&mut self, topic: &str, names_former: bool, mirror: &mut Mirror<Purpose>) {
        if self.moving.remove(topic).is_some() {
            mirror.unfollow(Aspect::Data, &topic_path(topic));
            self.todo.insert(topic.to_owned());
            self.ended.insert(topic.to_owned(), names_former);
        }
    }

    /// Whether everything has been read once.
    fn is_ready(&self, mirror: &Mirror<Purpose>) -> bool {
        let children = |path: &str| mirror.is_known(Aspect::Children, path);
        let data = |path: &str| mirror.is_known(Aspect::Data, path);
        [TOPICS, BROKERS, ASSIGN].iter().all(|path| children(path))
            && self.folders.keys().all(|folder| children(folder))
            && self.routers.iter().all(|router| data(&broker_path(router)))
            && self.given.keys().all(|router| children(&assign_path(router)))
            && self.shards.keys().all(|shard| data(shard))
    }

    /// Writes what is missing, if it leads.
    pub(crate) fn lead(&mut self, now: Time, mirror: &mut Mirror<Purpose>) {
        let waits = self.writing.is_some() || self.blocked_until > now;
        if !self.leads || waits || mirror.session().is_none() {
            return;
        }
        if !self.ready {
            self.ready = self.is_ready(mirror);
            if !self.ready {
                return;
            }
            self.moves_at = now + MOVES_EVERY;
        }
        self.unread.retain(|shard| !mirror.is_fresh_at(Aspect::Data, shard));
        if self.todo.is_empty() || !self.unread.is_empty() {
            return;
        }
        if mirror.children(ASSIGN).is_none() {
            // Whoever else has created it is welcome. It rings when it is there.
            self.writing = Some(Batch::default());
            mirror.write(Purpose::Leader(LeaderPurpose::Batch), vec![Operation::folder(ASSIGN)]);
            return;
        }
        let mut batch = Batch::default();
        while batch.topics.len() < BATCH_TOPICS_MAX && batch.bytes < BATCH_BYTES_MAX {
            let Some(topic) = self.todo.pop_first() else { break };
            self.look_at(now, &topic, &mut batch, mirror);
        }
        if self.todo.is_empty() && self.unplaced.len() != self.unplaced_told {
            self.unplaced_told = self.unplaced.len();
            self.news.push_back(LeaderNews::NoRouter { topics: self.unplaced_told });
        }
        if !batch.shards.is_empty() || !batch.topics.is_empty() {
            self.write(batch, mirror);
        }
    }

    fn write(&mut self, batch: Batch, mirror: &mut Mirror<Purpose>) {
        let Place::Has(own) = &self.place else {
            return invariant!("who leads has a place in the queue");
        };
        let mut operations = vec![Operation::Check { path: format!("{LEADERS}/{own}"), version: None }];
        operations.extend(batch.folders.iter().map(Operation::folder));
        for (path, edit) in &batch.shards {
            let (path, data) = (path.clone(), to_bytes(&ShardRecord { topics: edit.topics.clone() }));
            operations.push(match edit.version {
                Some(version) => Operation::Set { path, data, version: Some(version) },
                None => Operation::Create { path, data, lasting: Lasting::Persistent },
            });
        }
        for (topic, record) in &batch.topics {
            let (path, data) = (topic_path(topic), to_bytes(record));
            operations.push(Operation::Set { path, data, version: None });
        }
        self.writing = Some(batch);
        mirror.write(Purpose::Leader(LeaderPurpose::Batch), operations);
    }

    /// What has to be written for one topic.
    fn look_at(&mut self, now: Time, name: &str, batch: &mut Batch, mirror: &mut Mirror<Purpose>) {
        let Some(topic) = self.topics.get(name).cloned() else { return };
        self.unplaced.remove(name);
        batch.names.push(name.to_owned());
        if !topic.exists {
            self.to_move.remove(name);
            self.end_move(name, false, mirror);
            self.todo.remove(name);
            self.ended.remove(name);
            topic.holders.keys().for_each(|shard| self.take_off(shard, name, batch, mirror));
            if topic.holders.is_empty() {
                self.topics.remove(name);
            }
            return;
        }
        let lives =
            |shard: &String| Mutant::KeepDeadRouters.is_on() || self.routers.contains(&router_of(shard));
        let current = topic.current().filter(|(shard, _)| lives(shard));
        let current = current.map(|(shard, epoch)| (shard.clone(), epoch));
        let moves = self.to_move.remove(name);
        let Some((current, epoch)) = current.clone().filter(|_| !moves) else {
            return self.place(name, &topic, current.as_ref().map(|(shard, _)| shard), batch, mirror);
        };
        // Whoever else has it, has it no longer, unless a move is under way.
        let others = topic.holders.keys().filter(|shard| **shard != current).cloned();
        let (alive, dead): (Vec<String>, Vec<String>) = others.partition(lives);
        dead.iter().for_each(|shard| self.take_off(shard, name, batch, mirror));
        let ended = self.ended.remove(name);
        if ended == Some(true) || (alive.is_empty() && self.moving.contains_key(name)) {
            self.end_move(name, false, mirror);
            self.todo.remove(name);
            self.ended.remove(name);
            let router = Some(router_of(&current));
            let record = TopicRecord { router, epoch, former: None, refused: Vec::new() };
            batch.bytes += name.len() + 100;
            batch.topics.insert(name.to_owned(), record);
        }
        if Mutant::KeepMoved.is_on() {
            return;
        }
        if alive.is_empty() || ended.is_some() {
            alive.iter().for_each(|shard| self.take_off(shard, name, batch, mirror));
        } else {
            // Perhaps another leader began it.
            self.begin_move(now, name, epoch, mirror);
        }
    }

    /// Gives a topic to a router.
    fn place(
        &mut self,
        name: &str,
        topic: &Topic,
        current: Option<&String>,
        batch: &mut Batch,
        mirror: &Mirror<Purpose>,
    ) {
        let former = current.map(|shard| router_of(shard));
        let candidates = self.candidates(batch, mirror);
        let others = candidates.iter().filter(|candidate| Some(candidate.name) != former.as_deref());
        let others = best_for(name, others.filter(|other| other.has_room()));
        let Some(router) = choose(self.policy, name, &others).map(str::to_owned) else {
            if former.is_none() {
                self.unplaced.insert(name.to_owned());
            }
            return;
        };
        self.epoch_max += 1;
        let shard = self.shard_with_room(&router, batch);
        let edit = self.edit(&shard, batch, mirror);
        edit.topics.insert(name.to_owned(), self.epoch_max);
        for holder in topic.holders.keys().filter(|holder| Some(*holder) != current) {
            if *holder != shard {
                self.take_off(holder, name, batch, mirror);
            }
        }
        let record = TopicRecord { router: Some(router), epoch: self.epoch_max, former, refused: Vec::new() };
        batch.bytes += 2 * name.len() + 100;
        batch.gave += 1;
        batch.topics.insert(name.to_owned(), record);
    }

    /// Routers that live.
    fn candidates(&self, batch: &Batch, mirror: &Mirror<Purpose>) -> Vec<Candidate<'_>> {
        let all = self.routers.iter().filter_map(|name| {
            let node = mirror.data(&broker_path(name))?;
            let record = from_bytes::<RouterRecord>(&node.data)?;
            let shards = self.given.get(name).into_iter().flatten();
            let edited = batch.shards.iter().filter(|(shard, _)| router_of(shard) == *name);
            let known = shards.filter(|shard| !batch.shards.contains_key(*shard));
            let topics = known.filter_map(|shard| self.shards.get(shard)).map(BTreeMap::len).sum::<usize>()
                + edited.map(|(_, edit)| edit.topics.len()).sum::<usize>();
            Some(Candidate {
                name: name.as_str(),
                topics,
                load: record.load,
                drains: record.draining,
                only: record.only.iter().filter_map(|filter| filter.parse().ok()).collect(),
                topics_max: record.topics_max.unwrap_or(usize::MAX),
            })
        });
        all.collect()
    }

    fn shard_with_room(&self, router: &str, batch: &Batch) -> String {
        let path = assign_path(router);
        let known = self.given.get(router).into_iter().flatten();
        let edited = batch.shards.keys().filter(|shard| above(shard) == path);
        let all: BTreeSet<&String> = known.chain(edited).collect();
        let topics = |shard: &str| match batch.shards.get(shard) {
            Some(edit) => edit.topics.len(),
            None => self.shards.get(shard).map_or(0, BTreeMap::len),
        };
        let with_room = all.iter().find(|shard| topics(shard) < SHARD_TOPICS_MAX);
        let highest = all.iter().filter_map(|shard| shard_number(shard)).max();
        let next = || format!("{path}/{}", highest.map_or(0, |highest| highest + 1));
        with_room.map_or_else(next, |shard| (**shard).clone())
    }

    fn edit<'a>(&self, shard: &str, batch: &'a mut Batch, mirror: &Mirror<Purpose>) -> &'a mut Edit {
        let router = above(shard);
        if mirror.children(ASSIGN).is_some_and(|there| !there.contains(last(router))) {
            batch.folders.insert(router.to_owned());
        }
        let bytes = &mut batch.bytes;
        batch.shards.entry(shard.to_owned()).or_insert_with(|| {
            let topics = self.shards.get(shard).cloned().unwrap_or_default();
            let version = mirror.data(shard).map(|node| node.stat.version);
            *bytes += topics.keys().map(|topic| topic.len() + 16).sum::<usize>();
            Edit { topics, version }
        })
    }

    fn take_off(&self, shard: &str, topic: &str, batch: &mut Batch, mirror: &Mirror<Purpose>) {
        self.edit(shard, batch, mirror).topics.remove(topic);
    }

    pub(crate) fn handle_timeout(&mut self, now: Time, mirror: &mut Mirror<Purpose>) {
        if self.moves_at > now {
            return;
        }
        self.moves_at = now + MOVES_EVERY;
        let limit = self.move_limit;
        let stuck = self.moving.iter().filter(|(_, under_way)| under_way.since + limit <= now);
        let stuck: Vec<String> = stuck.map(|(topic, _)| topic.clone()).collect();
        stuck.iter().for_each(|topic| self.end_move(topic, true, mirror));
        if self.ready && self.writing.is_none() && self.todo.is_empty() {
            let room = (self.moves_per_second as usize).saturating_sub(self.moving.len());
            let moves = self.moves(room, mirror);
            self.todo.extend(moves.iter().cloned());
            self.to_move.extend(moves);
        }
    }

    /// Topics that are to be carried by another router: those for which another one fits better, and those of the fullest, where others have fewer.
    fn moves(&self, room: usize, mirror: &Mirror<Purpose>) -> Vec<String> {
        let mut candidates = self.candidates(&Batch::default(), mirror);
        let is_open = |candidate: &&Candidate<'_>| !candidate.drains && candidate.only.is_empty();
        let open = candidates.iter().filter(is_open);
        let least =
            open.clone().filter(|candidate| candidate.has_room()).map(|candidate| candidate.topics).min();
        let excess =
            |candidate: &Candidate<'_>| candidate.topics.saturating_sub(least.unwrap_or(usize::MAX)) / 2;
        let mut excess: BTreeMap<&str, usize> =
            open.map(|candidate| (candidate.name, excess(candidate))).collect();
        let mut moves = Vec::new();
        for (router, shards) in self.given.iter().filter(|(router, _)| self.routers.contains(*router)) {
            let topics = shards.iter().filter_map(|shard| self.shards.get(shard)).flatten();
            for topic in topics.map(|(topic, _)| topic).filter(|topic| self.rests(topic, router)) {
                if moves.len() >= room {
                    return moves;
                }
                let may = |candidate: &&Candidate<'_>| candidate.name == router || candidate.has_room();
                let best = best_for(topic, candidates.iter().filter(may));
                let fits = best.iter().any(|candidate| candidate.name == router);
                let excess = excess.get_mut(router.as_str()).filter(|excess| **excess > 0);
                let leaves = match self.policy {
                    _ if !fits => true,
                    Policy::Hash => {
                        carrier(topic, best.iter().map(|candidate| candidate.name)) != Some(router)
                    }
                    Policy::LeastTopics => excess.map(|excess| *excess -= 1).is_some(),
                    _ => false,
                };
                if leaves {
                    let to = choose(self.policy, topic, &best).map(str::to_owned);
                    // Who has been promised a topic has less room.
                    let mut to =
                        candidates.iter_mut().filter(|candidate| to.as_deref() == Some(candidate.name));
                    to.by_ref().for_each(|to| to.topics += 1);
                    moves.push(topic.clone());
                }
            }
        }
        moves
    }

    /// Whether a router carries a topic, and no move of it is under way.
    fn rests(&self, topic: &str, router: &str) -> bool {
        let current = self.topics.get(topic).and_then(|topic| topic.current());
        !self.moving.contains_key(topic) && current.is_some_and(|(shard, _)| router_of(shard) == *router)
    }
}

/// The router whose shard this is.
fn router_of(shard: &str) -> String {
    unescape(last(above(shard))).unwrap_or_default()
}
