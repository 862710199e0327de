//! A rendezvous point: what was put there, who meets whom, and who is told (A7).
//!
//! The problem: a producer wants to know whether anybody wants what it has, a consumer where it comes from; they know nothing of each other,
//! and either may come first, change, or go without a word.
//!
//! The idea: a profile is at one point, and an interest at every point that may have a profile which it matches, so that each pair meets at
//! exactly one. There the pair has a topic, named after what both said. An end is told of a topic when the first of its meetings has it, and
//! again when the last is over, however many there are at the other end. What is not put again in time is over.
//!
//! The invariant: an end has been told of exactly the topics of its meetings.
//!
//! What it leaves to others: which point is responsible, words that get lost ([`Point::known_of`] is compared), and the topics themselves.

use crate::clusters::Cluster;
use crate::index::{Interests, Key};
use crate::profile::{Interest, Profile};
use crate::reading::split;
use crate::space::Space;
use crate::terms::{Agreed, MADE, Terms, Unfit};
use contract::{Mutant, RingId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Who has put something at a point: one of those for whom a peer speaks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Party {
    /// The peer.
    pub peer: RingId,
    /// Which of those for whom it speaks.
    pub number: u64,
}

/// The topic of a pair: the same for all who say the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(pub u128);

impl Topic {
    /// Of a profile and an interest that matches it, as both are written.
    pub fn of(profile: &str, interest: &str) -> Topic {
        let mut hash = blake3::Hasher::new();
        for text in [profile, interest] {
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
        let mut first = [0; 16];
        hash.finalize_xof().fill(&mut first);
        Topic(u128::from_le_bytes(first))
    }
}

impl fmt::Display for Topic {
    /// Its name among topics.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MADE}{:032x}", self.0)
    }
}

/// It is no topic that peers make.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("this is no topic that peers make: those are `rv/` and 32 hexadecimal digits")]
pub struct NotMade;

impl FromStr for Topic {
    type Err = NotMade;

    fn from_str(text: &str) -> Result<Topic, NotMade> {
        let digits = text
            .strip_prefix(MADE)
            .filter(|digits| digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        u128::from_str_radix(digits.ok_or(NotMade)?, 16).map(Topic).map_err(|_| NotMade)
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What is put at a point.
#[derive(Clone, PartialEq, Debug)]
pub enum Post {
    /// Something that there is: tell me when somebody wants it (`notify_interest`).
    Offer(Profile),
    /// Something that is wanted: tell me when it is there (`notify_data`).
    Want(Interest),
}

impl Post {
    /// What is said of messages.
    pub fn terms(&self) -> &Terms {
        match self {
            Post::Offer(profile) => profile.terms(),
            Post::Want(interest) => interest.terms(),
        }
    }

    /// What is agreed with the other end of a meeting.
    ///
    /// # Errors
    ///
    /// What one end needs the other one does not offer.
    pub fn agree(&self, other: &Other) -> Result<Agreed, Unfit> {
        match self {
            Post::Offer(profile) => Terms::agree(profile.terms(), &other.terms),
            Post::Want(interest) => Terms::agree(&other.terms, interest.terms()),
        }
    }
}

/// What the other end of a meeting says. All that have a topic with somebody say the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Other {
    /// Its profile or interest, as it is written; a long one is cut off at [`SHOWN_BYTES_MAX`].
    pub says: Arc<str>,
    /// What it says of messages.
    pub terms: Arc<Terms>,
}

/// So much of a profile or interest is told to the other end.
pub const SHOWN_BYTES_MAX: usize = 512;

/// What the ends of meetings are told.
pub trait Tell {
    /// From now on a party has something to do with a topic, since there is somebody who says this.
    fn met(&mut self, party: Party, topic: Topic, other: &Other);
    /// No longer.
    fn parted(&mut self, party: Party, topic: Topic);
}

/// What a point says about something that was put there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    /// It has to do with this topic as well.
    Met(Topic, Other),
    /// It no longer has to do with it.
    Parted(Topic),
    /// It has to do with these, and no others.
    All(BTreeMap<Topic, Other>),
}

/// What the topics that a point has told of amount to.
pub fn digest(topics: impl Iterator<Item = Topic>) -> u128 {
    topics.fold(0, |digest, Topic(topic)| digest ^ topic)
}

impl Tell for Vec<(Party, Said)> {
    fn met(&mut self, party: Party, topic: Topic, other: &Other) {
        self.push((party, Said::Met(topic, other.clone())));
    }

    fn parted(&mut self, party: Party, topic: Topic) {
        self.push((party, Said::Parted(topic)));
    }
}

/// Why something is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoRoom {
    /// The point has no more room.
    #[error("this point has {PARTIES_MAX} profiles and interests, and takes no more")]
    Parties,
    /// Too many meet what it says.
    #[error("this would meet more than {MEETINGS_MAX} others at one point: say more closely what is meant")]
    Meetings,
}

/// How many profiles and interests a point has at most.
pub const PARTIES_MAX: usize = 200_000;
/// How many others one of them meets at most at one point. Who comes later and would exceed that is refused, not those who met before.
pub const MEETINGS_MAX: usize = 10_000;

/// One who has put something.
#[derive(Clone, Debug)]
struct Entry {
    text: Box<str>,
    /// As others are told of it.
    shown: Other,
    until: Time,
    side: Side,
    /// Whom it meets.
    with: BTreeSet<Party>,
    /// The topics of that.
    topics: BTreeMap<Topic, Shared>,
}

/// A topic of somebody.
#[derive(Clone, Debug)]
struct Shared {
    /// How many of those that it meets have it.
    count: usize,
    /// What they say.
    other: Other,
}

#[derive(Clone, Debug)]
enum Side {
    Offers { place: RingId, profile: Profile },
    Wants { key: Key },
}

/// A rendezvous point.
#[derive(Clone, Debug)]
pub struct Point {
    space: Space,
    entries: BTreeMap<Party, Entry>,
    interests: Interests<Party>,
    /// Those who offer something, by where it is on the ring.
    offers: BTreeSet<(RingId, Party)>,
    ends: BTreeSet<(Time, Party)>,
}

impl Point {
    /// With nothing put there.
    pub fn new(space: &Space) -> Point {
        Point {
            space: space.clone(),
            entries: BTreeMap::new(),
            interests: Interests::new(space),
            offers: BTreeSet::new(),
            ends: BTreeSet::new(),
        }
    }

    /// How many profiles and interests there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Puts something there until then, as it is written; or the same again; or something else in place of it (`update`). Whom both meet is
    /// told nothing.
    pub fn put(
        &mut self,
        party: Party,
        text: &str,
        post: Post,
        until: Time,
        tell: &mut impl Tell,
    ) -> Result<(), NoRoom> {
        if let Some(known) = self.entries.get_mut(&party) {
            if *known.text == *text && known.side.says(&post) {
                self.ends.remove(&(known.until, party));
                known.until = until;
                self.ends.insert((until, party));
                return Ok(());
            }
        } else if self.entries.len() >= PARTIES_MAX {
            return Err(NoRoom::Parties);
        }
        let mut with = self.whom(&post);
        with.retain(|other| *other != party);
        if with.len() > MEETINGS_MAX {
            return Err(NoRoom::Meetings);
        }
        // What it said before goes at the end, so that who meets both hears of neither.
        let before = self.entries.remove(&party);
        let terms = post.terms().clone();
        let side = self.enter(party, post);
        let (text, shown) = (text.into(), Other { says: shown(text), terms: Arc::new(terms) });
        let entry = Entry { text, shown, until, side, with: BTreeSet::new(), topics: BTreeMap::new() };
        self.entries.insert(party, entry);
        self.ends.insert((until, party));
        let mut met = Vec::new();
        for other in with {
            met.extend(self.meet(party, other, tell));
        }
        match before {
            Some(before) => self.leave(party, &before, &met, tell),
            None => met.iter().for_each(|(topic, other)| tell.met(party, *topic, other)),
        }
        Ok(())
    }

    /// The same, said by a party that has been told of topics with this digest: if it has others here, words were lost, and it is told all.
    pub fn hear(
        &mut self,
        party: Party,
        text: &str,
        post: Post,
        until: Time,
        heard: u128,
        told: &mut Vec<(Party, Said)>,
    ) -> Result<(), NoRoom> {
        let lacks = digest(self.known_of(party)) != heard;
        let begin = told.len();
        self.put(party, text, post, until, told)?;
        if lacks {
            let others = told.split_off(begin).into_iter().filter(|(other, _)| *other != party);
            told.extend(others);
            told.push((party, Said::All(self.meetings_of(party).collect())));
        }
        Ok(())
    }

    /// Takes something away (`delete`). Those whom it met are told; it is not.
    pub fn take(&mut self, party: Party, tell: &mut impl Tell) {
        if let Some(entry) = self.entries.remove(&party) {
            self.forget(party, &entry);
            for other in entry.with.iter().copied() {
                self.part(party, &entry, other, tell);
            }
        }
    }

    /// What was not put again in time is over.
    pub fn handle_timeout(&mut self, now: Time, tell: &mut impl Tell) {
        while let Some((until, party)) = self.ends.first().copied().filter(|(until, _)| *until <= now) {
            self.ends.remove(&(until, party));
            if !Mutant::KeepExpired.is_on() {
                self.take(party, tell);
            }
        }
    }

    /// When something is over next.
    pub fn next_deadline(&self) -> Time {
        self.ends.first().map_or(Time::NEVER, |(until, _)| *until)
    }

    /// The topics that a party was told of, and nothing if it has put nothing here.
    pub fn known_of(&self, party: Party) -> impl Iterator<Item = Topic> {
        self.meetings_of(party).map(|(topic, _)| topic)
    }

    /// The same, with what the other end of each says.
    pub fn meetings_of(&self, party: Party) -> impl Iterator<Item = (Topic, Other)> {
        let topics = self.entries.get(&party).into_iter().flat_map(|entry| &entry.topics);
        topics.map(|(topic, shared)| (*topic, shared.other.clone()))
    }

    /// Whether it has put something here.
    pub fn has(&self, party: Party) -> bool {
        self.entries.contains_key(&party)
    }

    /// Whether a peer has put anything here.
    pub fn has_of(&self, peer: RingId) -> bool {
        self.parties_of(peer).next().is_some()
    }

    /// What a peer has put here.
    pub fn parties_of(&self, peer: RingId) -> impl Iterator<Item = Party> {
        let of = Party { peer, number: 0 }..=Party { peer, number: u64::MAX };
        self.entries.range(of).map(|(party, _)| *party)
    }

    /// Keeps those of whom this is so, without a word to anybody: another point has the others now.
    pub fn retain(&mut self, mut stays: impl FnMut(Party, &Post) -> bool) {
        let gone = self.entries.iter().filter(|(party, entry)| {
            let post = match &entry.side {
                Side::Offers { profile, .. } => Post::Offer(profile.clone()),
                Side::Wants { key } => match self.interests.get(*key) {
                    Some((interest, _)) => Post::Want(interest.clone()),
                    None => return true,
                },
            };
            !stays(**party, &post)
        });
        let gone: Vec<Party> = gone.map(|(party, _)| *party).collect();
        for party in gone {
            self.take(party, &mut Vec::new());
        }
    }

    /// Whom a party meets with this topic.
    pub fn others_of(&self, party: Party, topic: Topic) -> impl Iterator<Item = Party> {
        let with = self.entries.get(&party).into_iter().flat_map(|entry| &entry.with);
        let has = move |other: &&Party| {
            self.entries.get(other).is_some_and(|theirs| theirs.topics.contains_key(&topic))
        };
        with.filter(has).copied()
    }

    /// Who wants something that is so.
    pub fn who_wants(&self, profile: &Profile) -> impl Iterator<Item = Party> {
        self.interests.matching(profile).map(|(_, _, party)| *party)
    }

    /// Whom it would meet.
    fn whom(&self, post: &Post) -> Vec<Party> {
        match post {
            Post::Offer(profile) => self.interests.matching(profile).map(|(_, _, party)| *party).collect(),
            Post::Want(interest) => {
                let offers = interest.pieces(&self.space).iter().flat_map(|Cluster { first, last }| {
                    let from = (*first, Party { peer: RingId::MIN, number: 0 });
                    let to = (*last, Party { peer: RingId::MAX, number: u64::MAX });
                    self.offers.range(from..=to).map(|(_, party)| *party)
                });
                offers.filter(|party| self.matches(interest, *party)).collect()
            }
        }
    }

    fn matches(&self, interest: &Interest, party: Party) -> bool {
        let entry = self.entries.get(&party);
        entry.is_some_and(|entry| match &entry.side {
            Side::Offers { profile, .. } => interest.matches(profile) || Mutant::MeetAnybody.is_on(),
            Side::Wants { .. } => false,
        })
    }

    fn enter(&mut self, party: Party, post: Post) -> Side {
        match post {
            Post::Offer(profile) => {
                let place = self.space.place_of(&profile);
                self.offers.insert((place, party));
                Side::Offers { place, profile }
            }
            Post::Want(interest) => Side::Wants { key: self.interests.insert(interest, party) },
        }
    }

    /// Enters a meeting and tells the other of its topic, if that is new to it. Returns the topic, if it is new to the one who came, and what the other says.
    fn meet(&mut self, party: Party, other: Party, tell: &mut impl Tell) -> Option<(Topic, Other)> {
        let own = self.entries.get(&party)?;
        let topic = self.topic_of(own, self.entries.get(&other)?);
        let own_shown = own.shown.clone();
        let theirs = self.entries.get_mut(&other)?;
        if theirs.with.len() >= MEETINGS_MAX && !theirs.with.contains(&party) {
            return None;
        }
        theirs.with.insert(party);
        if theirs.share(topic, &own_shown) {
            tell.met(other, topic, &own_shown);
        }
        let shown = theirs.shown.clone();
        let own = self.entries.get_mut(&party)?;
        own.with.insert(other);
        own.share(topic, &shown).then_some((topic, shown))
    }

    fn topic_of(&self, one: &Entry, other: &Entry) -> Topic {
        match &one.side {
            Side::Offers { .. } => Topic::of(&one.text, &other.text),
            Side::Wants { .. } => Topic::of(&other.text, &one.text),
        }
    }

    /// What a party said before is over; what it says now has these topics.
    fn leave(&mut self, party: Party, before: &Entry, met: &[(Topic, Other)], tell: &mut impl Tell) {
        self.forget(party, before);
        for other in before.with.iter().copied() {
            self.part(party, before, other, tell);
        }
        let now: BTreeMap<Topic, &Other> = met.iter().map(|(topic, other)| (*topic, other)).collect();
        for (topic, other) in now.iter().filter(|(topic, _)| !before.topics.contains_key(topic)) {
            tell.met(party, *topic, other);
        }
        for topic in before.topics.keys().filter(|topic| !now.contains_key(topic)) {
            tell.parted(party, *topic);
        }
    }

    /// Takes what was said before out of the indexes. What is said now may stand at the same place.
    fn forget(&mut self, party: Party, before: &Entry) {
        let now = self.entries.get(&party);
        if now.is_none_or(|now| now.until != before.until) {
            self.ends.remove(&(before.until, party));
        }
        match &before.side {
            Side::Offers { place, .. } => {
                let is_there = now
                    .is_some_and(|now| matches!(now.side, Side::Offers { place: now, .. } if now == *place));
                if !is_there {
                    self.offers.remove(&(*place, party));
                }
            }
            Side::Wants { key } => {
                self.interests.remove(*key);
            }
        }
    }

    /// Ends the meeting that a party had by what it said, and tells the other if that was the last with its topic.
    fn part(&mut self, party: Party, said: &Entry, other: Party, tell: &mut impl Tell) {
        let Some(topic) = self.entries.get(&other).map(|theirs| self.topic_of(said, theirs)) else { return };
        if Mutant::PartInSilence.is_on() {
            return;
        }
        // It may meet the same one again by what it says now.
        let meets_again = self.entries.get(&party).is_some_and(|now| now.with.contains(&other));
        let Some(theirs) = self.entries.get_mut(&other) else { return };
        if !meets_again {
            theirs.with.remove(&party);
        }
        if let Some(shared) = theirs.topics.get_mut(&topic) {
            shared.count -= 1;
            if shared.count == 0 {
                theirs.topics.remove(&topic);
                tell.parted(other, topic);
            }
        }
    }
}

impl Entry {
    /// Has to do with a topic once more. Returns whether it is new.
    fn share(&mut self, topic: Topic, other: &Other) -> bool {
        let shared = self.topics.entry(topic).or_insert_with(|| Shared { count: 0, other: other.clone() });
        shared.count += 1;
        shared.count == 1
    }
}

/// What is written, as others are told of it.
fn shown(text: &str) -> Arc<str> {
    let text = split(text).0.trim_end();
    text.get(..text.floor_char_boundary(SHOWN_BYTES_MAX)).unwrap_or(text).into()
}

impl Side {
    /// Whether it says what something says that is written the same: that may be an offer or a wish, and may have moved.
    fn says(&self, post: &Post) -> bool {
        match (self, post) {
            (Side::Offers { profile, .. }, Post::Offer(now)) => profile == now,
            (Side::Wants { .. }, Post::Want(_)) => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
