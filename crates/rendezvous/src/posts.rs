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

use crate::point::{Post, Topic};
use contract::{Mutant, RingId, Span, Time};
use std::collections::{BTreeMap, BTreeSet};

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
    /// There is a topic for something: an offer is to be sent there, a wish is fulfilled there.
    fn start(&mut self, number: u64, topic: Topic);
    /// There is no longer.
    fn stop(&mut self, number: u64, topic: Topic);
}

/// What a point says about something that was put there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    /// It has to do with this topic as well.
    Met(Topic),
    /// It no longer has to do with it.
    Parted(Topic),
    /// It has to do with these, and no others.
    All(BTreeSet<Topic>),
}

/// What the topics that a point has told of amount to.
pub fn digest(topics: impl Iterator<Item = Topic>) -> u128 {
    topics.fold(0, |digest, Topic(topic)| digest ^ topic)
}

#[derive(Clone, Debug)]
struct Posted {
    text: Box<str>,
    post: Post,
    again_at: Time,
    points: BTreeMap<RingId, Heard>,
    topics: BTreeSet<Topic>,
}

/// What a point has told.
#[derive(Clone, Debug, Default)]
struct Heard {
    topics: BTreeSet<Topic>,
    /// Until when it is heeded, if it is no longer responsible.
    until: Option<Time>,
}

/// All that a peer has put for others.
#[derive(Clone, Debug, Default)]
pub struct Posts {
    posted: BTreeMap<u64, Posted>,
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
        let (points, topics) = match self.posted.remove(&number) {
            Some(before) => (before.points, before.topics),
            None => (BTreeMap::new(), BTreeSet::new()),
        };
        let posted = Posted { text: text.into(), post, again_at: now, points, topics };
        self.posted.insert(number, posted);
        self.put_again(now, number, map, carry);
    }

    /// It is over.
    pub fn withdraw(&mut self, number: u64, carry: &mut impl Carry) {
        let Some(posted) = self.posted.remove(&number) else { return };
        for point in posted.points.keys() {
            carry.take(*point, number);
        }
        for topic in posted.topics {
            carry.stop(number, topic);
        }
    }

    /// Hears what a point says.
    pub fn hear(&mut self, point: RingId, number: u64, said: Said, carry: &mut impl Carry) {
        let Some(posted) = self.posted.get_mut(&number) else { return carry.take(point, number) };
        // One that was asked before, and is given up: the point will notice by itself.
        let Some(heard) = posted.points.get_mut(&point) else { return };
        match said {
            Said::Met(topic) => {
                heard.topics.insert(topic);
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
        }
    }

    /// There is a new link to a point: what was said before may be lost.
    pub fn handle_link(&mut self, point: RingId, carry: &mut impl Carry) {
        for (number, posted) in &self.posted {
            if let Some(heard) = posted.points.get(&point).filter(|heard| heard.until.is_none()) {
                carry.put(point, *number, &posted.text, &posted.post, digest(heard.topics.iter().copied()));
            }
        }
    }

    /// Puts again what is due, and gives up what has been heeded long enough.
    pub fn handle_timeout(&mut self, now: Time, map: &impl Map, carry: &mut impl Carry) {
        let due = |posted: &Posted| posted.again_at <= now;
        let again: Vec<u64> =
            self.posted.iter().filter(|(_, posted)| due(posted)).map(|(number, _)| *number).collect();
        for number in again {
            self.put_again(now, number, map, carry);
        }
        for (number, posted) in &mut self.posted {
            let is_over = |heard: &Heard| heard.until.is_some_and(|until| until <= now);
            let over: Vec<RingId> =
                posted.points.iter().filter(|(_, heard)| is_over(heard)).map(|(point, _)| *point).collect();
            if !over.is_empty() {
                for point in over {
                    posted.points.remove(&point);
                    carry.take(point, *number);
                }
                posted.tell(*number, carry);
            }
        }
    }

    /// When something is due next.
    pub fn next_deadline(&self) -> Time {
        let ends = |posted: &Posted| posted.points.values().filter_map(|heard| heard.until).min();
        let due = self
            .posted
            .values()
            .map(|posted| ends(posted).map_or(posted.again_at, |at| at.min(posted.again_at)));
        due.min().unwrap_or(Time::NEVER)
    }

    /// The topics of something.
    pub fn topics_of(&self, number: u64) -> impl Iterator<Item = Topic> {
        self.posted.get(&number).into_iter().flat_map(|posted| posted.topics.iter().copied())
    }

    fn put_again(&mut self, now: Time, number: u64, map: &impl Map, carry: &mut impl Carry) {
        let Some(posted) = self.posted.get_mut(&number) else { return };
        posted.again_at = now + AGAIN;
        let points = map.points_of(&posted.post);
        for (point, heard) in &posted.points {
            if points.contains(point) {
                carry.put(*point, number, &posted.text, &posted.post, digest(heard.topics.iter().copied()));
            }
        }
        posted.move_to(now, number, &points, carry);
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
                carry.put(*point, number, &self.text, &self.post, digest(heard.topics.iter().copied()));
            }
        }
        let grace = if Mutant::LeaveAtOnce.is_on() { Span::ZERO } else { GRACE };
        for (_, heard) in self.points.iter_mut().filter(|(point, _)| !points.contains(point)) {
            heard.until.get_or_insert(now + grace);
        }
    }

    /// Tells which topics there are now that were not before, and the other way round.
    fn tell(&mut self, number: u64, carry: &mut impl Carry) {
        let now: BTreeSet<Topic> =
            self.points.values().flat_map(|heard| heard.topics.iter().copied()).collect();
        for topic in now.difference(&self.topics) {
            carry.start(number, *topic);
        }
        for topic in self.topics.difference(&now) {
            carry.stop(number, *topic);
        }
        self.topics = now;
    }
}
