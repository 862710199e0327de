//! What a node does that has missed a job: it reads nothing that others may have agreed on without it, and asks them for it.
//!
//! The problem: a value stands once it is published under a key and stamp. A node that was not there when all others agreed on one would take
//! a second proposal for the first, and read another value than they do. The idea, in three steps.
//!
//! 1. **A job is missed** where it was not begun or not brought to an end, where fewer than `n - f` nodes were heard in a round (more than
//!    `f` others cannot be silent, so this node is deaf), and, where nodes only stop, where this node spoke later than the others
//!    listen. It publishes nothing then. What it agrees on later with stamps up to `H` after the release of that job is *held*: it is in the store and
//!    nobody reads it, since the missed job may have been first.
//! 2. **All is well again** as soon as the own store is seen to be that of others: every frame says the digest of its sender's store, and
//!    whether that lacks nothing. It is well where `f + 1` that lack nothing have the same store (one of them is correct; where nodes only stop, one
//!    is enough), or where `n - f` nodes together, this one included, have the same store (where nodes only stop, more than half, and none that lacks nothing has
//!    another): then no more than `f` nodes have seen anything that these have not. So a pause of all nodes together costs nothing, and so does the first job, before
//!    which all stores are empty.
//! 3. **Otherwise it asks**, in round 1 of its next job, for what has stamps after the release of the first job that it missed, and the others
//!    answer with how that is after this job. What `f + 1` of those that lack nothing say, byte by byte, takes the place of what is held. A large
//!    store takes several answers. The jobs in between go on, and what they agree on is the same here and there.
//!
//! What a node has given to its readers stays, whatever others say; that it differs is seen by its digest. Where more than `f` others have
//! another digest, the node raises an alarm and lacks everything: it gives nothing more to its readers until its store is that of others again.

use crate::frame::Ask;
use crate::published::Published;
use crate::{Inserted, KeyId, Mode, Node, Setup, Tuple, Tuples};
use contract::{Mutant, Time};

/// What a node may lack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gap {
    /// Stamps after this may have been agreed on without it.
    pub(crate) since: Time,
    /// And up to this.
    pub(crate) until: Time,
}

/// Answers about state that have come.
#[derive(Debug)]
pub(crate) struct Recovery {
    /// What is asked for, and in which job.
    asked: Option<(u64, Ask)>,
    /// The first key that is not recovered.
    next_key: u32,
    offers: Box<[Option<Offer>]>,
    bytes: Box<[u8]>,
    /// Room for one offer.
    room: usize,
}

#[derive(Clone, Copy, Debug)]
struct Offer {
    len: usize,
    until: u32,
}

impl Recovery {
    pub(crate) fn new(setup: &Setup) -> Recovery {
        let (n, room) = (setup.nodes(), setup.state_bytes_max());
        Recovery {
            asked: None,
            next_key: 0,
            offers: vec![None; n].into(),
            bytes: vec![0; n * room].into(),
            room,
        }
    }

    /// Something more is missing: begin anew.
    pub(crate) fn restart(&mut self) {
        (self.asked, self.next_key) = (None, 0);
        self.offers.fill(None);
    }

    /// What is to be asked for in this job, if anything: answers to what was asked in the one before come now.
    pub(crate) fn ask(&mut self, job: u64, gap: Gap) -> Option<Ask> {
        if self.asked.is_some_and(|(asked, _)| asked + 1 == job) || Mutant::AskNobody.is_on() {
            return None;
        }
        let ask = Ask { since: gap.since, key: self.next_key };
        self.asked = Some((job, ask));
        self.offers.fill(None);
        Some(ask)
    }

    /// Whether an answer of this kind is waited for.
    pub(crate) fn expects(&self, job: u64, ask: Option<Ask>) -> bool {
        self.asked.is_some_and(|(asked, what)| asked == job && Some(what) == ask)
    }

    /// An answer of a node that lacks nothing.
    pub(crate) fn offer(&mut self, from: Node, body: &[u8], until: u32) {
        let at = from.index() * self.room;
        self.bytes[at..at + body.len()].copy_from_slice(body);
        self.offers[from.index()] = Some(Offer { len: body.len(), until });
    }

    /// What enough of them say, if they do: the first key that it says nothing of, and who says it.
    fn agreed(&self, setup: &Setup) -> Option<(Node, u32)> {
        // Where nodes only stop, one is enough, unless another contradicts it.
        let came = self.offers.iter().flatten().count().max(1);
        let needed = match setup.mode() {
            _ if Mutant::BelieveOne.is_on() => 1,
            Mode::Byzantine => setup.faults() + 1,
            Mode::Crash => came,
        };
        let said = |(index, offer): (usize, &Option<Offer>)| offer.map(|offer| (index, offer));
        let all = || self.offers.iter().enumerate().filter_map(said);
        let same = |(one, a): (usize, Offer), (other, b): (usize, Offer)| {
            a.until == b.until && self.bytes_of(one, a) == self.bytes_of(other, b)
        };
        let found = all().find(|one| all().filter(|other| same(*one, *other)).count() >= needed);
        found.map(|(index, offer)| (Node::at(index), offer.until))
    }

    fn bytes_of(&self, index: usize, offer: Offer) -> &[u8] {
        &self.bytes[index * self.room..][..offer.len]
    }

    /// Before the values of this job are published: takes what enough others have said was so after the job before. `true`: that was all, and
    /// nothing is lacking.
    pub(crate) fn adopt(&mut self, job: u64, setup: &Setup, store: &mut Published) -> bool {
        let Some((_, ask)) = self.asked.filter(|(asked, _)| asked + 1 == job) else { return false };
        self.asked = None;
        let Some((node, until)) = self.agreed(setup) else { return false };
        let Some(offer) = self.offers[node.index()] else { return false };
        (ask.key..until).for_each(|key| store.drop_held(KeyId(key as u16), ask.since));
        let tuples = Tuples::of(self.bytes_of(node.index(), offer));
        for Tuple { key, stamp, value } in tuples {
            let _: Inserted = store.insert_as(key, stamp, value, true);
        }
        self.next_key = until;
        until as usize >= setup.keys()
    }
}

/// Writes what a store has after `ask`, as far as it fits, and says how long that is and which key comes next.
pub(crate) fn write_state(store: &Published, keys: usize, ask: Ask, out: &mut [u8]) -> (usize, u32) {
    let (mut len, mut key) = (0, ask.key);
    while (key as usize) < keys {
        let id = KeyId(key as u16);
        let mut end = len;
        for (stamp, value) in store.since(id, ask.since) {
            match (Tuple { key: id, stamp, value }).write(&mut out[end..]) {
                Some(bytes) => end += bytes,
                None => return (len, key),
            }
        }
        (len, key) = (end, key + 1);
    }
    (len, key)
}

/// Whether a body is an answer to this: whole tuples with values that are not too long, by key and stamp, of the keys that it says.
pub(crate) fn is_state(body: &[u8], ask: Ask, until: u32, setup: &Setup) -> bool {
    let (mut tuples, mut before) = (Tuples::of(body), None);
    let fits = tuples.by_ref().all(|tuple| {
        let place = (u32::from(tuple.key.0), tuple.stamp);
        let ascends = before.is_none_or(|before| before < place);
        before = Some(place);
        let asked = (ask.key..until).contains(&place.0) && tuple.stamp > ask.since;
        ascends && asked && tuple.value.len() <= setup.value_bytes_max()
    });
    fits && tuples.is_whole() && until > ask.key && until as usize <= setup.keys()
}
