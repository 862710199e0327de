//! What a peer has put at points for those for whom it speaks, and which topics follow from that.
//!
//! The problem: points die, others become responsible, and words get lost; whoever has put something must neither miss a meeting nor be told
//! that one is over because its point has changed.
//!
//! The idea: nothing at a point is the only copy. The peer puts everything again three times in the time after which it is over, and at once
//! where a point becomes responsible. What a point has told holds until that says otherwise; what one has told that is no longer responsible
//! holds for a while, so that the next can say the same before. With each putting goes a digest of what the point has told: if it is
//! another than the point has, the point tells all.
//!
//! What it leaves to others: which points are responsible ([`Map`]).

use crate::point::{Other, Post, Said, Topic, digest};
use crate::terms::{Agreed, Unfit};
use contract::{Mutant, RingId, Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// After how long without being put again something is over.
pub const EXPIRY: Span = Span::secs(60);
/// How often it is put again.
const AGAIN: Span = Span::secs(20);
/// How long what a point has told holds after it is no longer responsible.
pub const GRACE: Span = Span::secs(10);

/// Which points are responsible.
pub trait Map {
    /// For something that is put: one point for an offer, all that may have offers that match for a wish.
    fn points_of(&self, post: &Post) -> BTreeSet<RingId>;
}

/// What a peer says to points, and to those for whom it speaks.
pub trait Carry {
    /// To a point: this is there, or is wanted, for [`EXPIRY`] from now on. The digest is of the topics that the point has told of.
    fn put(&mut self, point: RingId, number: u64, text: &str, post: &Post, digest: u128);
    /// To a point: it is over.
    fn take(&mut self, point: RingId, number: u64);
    /// Something has met another: an offer is to be sent to the topic, a wish is fulfilled there.
    fn start(&mut self, number: u64, meeting: &Meeting);
    /// That is over.
    fn stop(&mut self, number: u64, meeting: &Meeting);
}

/// A topic of something that is put, and what both ends have to do with it.
#[derive(Clone, PartialEq, Debug)]
pub struct Meeting {
    /// Which topic it is.
    pub topic: Topic,
    /// What the other end says.
    pub other: Other,
    /// What both have agreed on; or why they cannot have what they say.
    pub agreed: Result<Agreed, Unfit>,
}

impl Meeting {
    /// The name of the topic that messages are on.
    pub fn name(&self) -> Arc<str> {
        let known = self.agreed.as_ref().ok().and_then(|agreed| agreed.topic.clone());
        known.unwrap_or_else(|| self.topic.to_string().into())
    }
}

#[derive(Clone, Debug)]
struct Posted {
    text: Box<str>,
    post: Post,
    again_at: Time,
    points: BTreeMap<RingId, Heard>,
    /// As they were told.
    topics: BTreeMap<Topic, Meeting>,
    /// As it stands among what is due.
    due_at: Time,
}

/// What a point has told.
#[derive(Clone, Debug, Default)]
struct Heard {
    topics: BTreeMap<Topic, Other>,
    /// Until when it is heeded, if it is no longer responsible.
    until: Option<Time>,
}

/// All that a peer has put for others.
#[derive(Clone, Debug, Default)]
pub struct Posts {
    posted: BTreeMap<u64, Posted>,
    /// When something is due for which of them.
    due: BTreeSet<(Time, u64)>,
}

impl Posts {
    /// Nothing.
    pub fn new() -> Posts {
        Posts::default()
    }

    /// Puts something, or something else in place of it.
    pub fn post(
        &mut self,
        now: Time,
        number: u64,
        text: &str,
        post: Post,
        map: &impl Map,
        carry: &mut impl Carry,
    ) {
        let (points, topics, due_at) = match self.posted.remove(&number) {
            Some(before) => (before.points, before.topics, before.due_at),
            None => (BTreeMap::new(), BTreeMap::new(), now),
        };
        let posted = Posted { text: text.into(), post, again_at: now, points, topics, due_at };
        self.posted.insert(number, posted);
        self.put_again(now, number, map, carry);
    }

    /// It is over.
    pub fn withdraw(&mut self, number: u64, carry: &mut impl Carry) {
        let Some(posted) = self.posted.remove(&number) else { return };
        self.due.remove(&(posted.due_at, number));
        for point in posted.points.keys() {
            carry.take(*point, number);
        }
        for meeting in posted.topics.values() {
            carry.stop(number, meeting);
        }
    }

    /// Hears what a point says.
    pub fn hear(&mut self, point: RingId, number: u64, said: Said, carry: &mut impl Carry) {
        let Some(posted) = self.posted.get_mut(&number) else { return carry.take(point, number) };
        // One that was asked before, and is given up: the point will notice by itself.
        let Some(heard) = posted.points.get_mut(&point) else { return };
        match said {
            Said::Met(topic, other) => {
                heard.topics.insert(topic, other);
            }
            Said::Parted(topic) => {
                heard.topics.remove(&topic);
            }
            Said::All(topics) => heard.topics = topics,
        }
        posted.tell(number, carry);
    }

    /// Other points are responsible than before.
    pub fn handle_change(&mut self, now: Time, map: &impl Map, carry: &mut impl Carry) {
        if Mutant::PutLate.is_on() {
            return;
        }
        for (number, posted) in &mut self.posted {
            posted.move_to(now, *number, &map.points_of(&posted.post), carry);
            posted.plan(*number, &mut self.due);
        }
    }

    /// There is a new link to a point: what was said before may be lost.
    pub fn handle_link(&mut self, point: RingId, carry: &mut impl Carry) {
        for (number, posted) in &self.posted {
            if let Some(heard) = posted.points.get(&point).filter(|heard| heard.until.is_none()) {
                carry.put(point, *number, &posted.text, &posted.post, heard.digest());
            }
        }
    }

    /// Puts again what is due, and gives up what has been heeded long enough.
    pub fn handle_timeout(&mut self, now: Time, map: &impl Map, carry: &mut impl Carry) {
        while let Some((_, number)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            let Some(posted) = self.posted.get_mut(&number) else {
                self.due.pop_first();
                contract::invariant!("what is due is there");
                continue;
            };
            let is_over = |heard: &Heard| heard.until.is_some_and(|until| until <= now);
            let over: Vec<RingId> =
                posted.points.iter().filter(|(_, heard)| is_over(heard)).map(|(point, _)| *point).collect();
            for point in &over {
                posted.points.remove(point);
                carry.take(*point, number);
            }
            if !over.is_empty() {
                posted.tell(number, carry);
            }
            if posted.again_at <= now {
                self.put_again(now, number, map, carry);
            } else {
                posted.plan(number, &mut self.due);
            }
        }
    }

    /// When something is due next.
    pub fn next_deadline(&self) -> Time {
        self.due.first().map_or(Time::NEVER, |(at, _)| *at)
    }

    /// The topics of something.
    pub fn topics_of(&self, number: u64) -> impl Iterator<Item = Topic> {
        self.meetings_of(number).map(|(topic, _)| topic)
    }

    /// The same, with what the other end of each says.
    pub fn meetings_of(&self, number: u64) -> impl Iterator<Item = (Topic, Other)> {
        let topics = self.posted.get(&number).into_iter().flat_map(|posted| &posted.topics);
        topics.map(|(topic, meeting)| (*topic, meeting.other.clone()))
    }

    /// Who has told of a topic: of what is put under which number, and the point.
    pub fn tellers_of(&self, topic: Topic) -> impl Iterator<Item = (u64, RingId)> {
        self.posted.iter().flat_map(move |(number, posted)| {
            let told = posted.points.iter().filter(move |(_, heard)| heard.topics.contains_key(&topic));
            told.map(move |(point, _)| (*number, *point))
        })
    }

    /// Whether something is put under this number.
    pub fn has(&self, number: u64) -> bool {
        self.posted.contains_key(&number)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.posted.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.posted.is_empty()
    }

    fn put_again(&mut self, now: Time, number: u64, map: &impl Map, carry: &mut impl Carry) {
        let Some(posted) = self.posted.get_mut(&number) else { return };
        posted.again_at = now + AGAIN;
        let points = map.points_of(&posted.post);
        for (point, heard) in &posted.points {
            if points.contains(point) {
                carry.put(*point, number, &posted.text, &posted.post, heard.digest());
            }
        }
        posted.move_to(now, number, &points, carry);
        posted.plan(number, &mut self.due);
    }
}

impl Posted {
    /// These points are responsible now.
    fn move_to(&mut self, now: Time, number: u64, points: &BTreeSet<RingId>, carry: &mut impl Carry) {
        for point in points {
            let heard =
                self.points.entry(*point).or_insert_with(|| Heard { until: Some(now), ..Heard::default() });
            // It is new, or it may have forgotten.
            if heard.until.take().is_some() {
                carry.put(*point, number, &self.text, &self.post, heard.digest());
            }
        }
        let grace = if Mutant::LeaveAtOnce.is_on() { Span::ZERO } else { GRACE };
        for (_, heard) in self.points.iter_mut().filter(|(point, _)| !points.contains(point)) {
            heard.until.get_or_insert(now + grace);
        }
    }

    /// Enters when something is due next.
    fn plan(&mut self, number: u64, due: &mut BTreeSet<(Time, u64)>) {
        due.remove(&(self.due_at, number));
        let ends = self.points.values().filter_map(|heard| heard.until);
        self.due_at = ends.chain([self.again_at]).min().unwrap_or(self.again_at);
        due.insert((self.due_at, number));
    }

    /// Tells which topics there are now that were not before, and the other way round.
    fn tell(&mut self, number: u64, carry: &mut impl Carry) {
        let all = self.points.values().flat_map(|heard| &heard.topics);
        let now: BTreeMap<Topic, &Other> = all.map(|(topic, other)| (*topic, other)).collect();
        for (topic, other) in &now {
            if !self.topics.contains_key(topic) {
                let meeting =
                    Meeting { topic: *topic, other: (*other).clone(), agreed: self.post.agree(other) };
                carry.start(number, &meeting);
                self.topics.insert(*topic, meeting);
            }
        }
        self.topics.retain(|topic, meeting| {
            let stays = now.contains_key(topic);
            if !stays {
                carry.stop(number, meeting);
            }
            stays
        });
    }
}

impl Heard {
    fn digest(&self) -> u128 {
        digest(self.topics.keys().copied())
    }
}
