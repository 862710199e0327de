//! What one peer keeps: of its own part of the ring, and copies for those before it.
//!
//! The problem: whoever keeps something may die at any moment, several at once, and others have its part of the ring then. What was confirmed must
//! be there all the same, and of two that were said of one key all must have the same in the end.
//!
//! The idea: who has a place makes a version of what is put there, greater than all that it or its copies know of, and confirms it when it is on its
//! own disk and on those of all that have to have a copy. Who has no part of something any more keeps it until its owner has said that it has it
//! (`syncing.rs`).
//!
//! The invariant: what was confirmed is on the disk of every peer that had to have it when it was, and leaves none before another of those who have to
//! have it then has it.
//!
//! What it leaves to others: who has which place ([`Ring`]), disks, and what keys mean.

use crate::asking::{Answer, Ask};
use crate::item::{Item, ItemId, Kept, VALUE_BYTES_MAX, Version, bytes};
use crate::syncing::Syncing;
use crate::words::{Copied, StoreWord};
use contract::{Location, Mutant, RingId, Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How long copies may take to be confirmed.
pub(crate) const COPIES_WITHIN: Span = Span::secs(2);
/// How long a deletion is remembered: a peer that was away for longer brings back what was deleted meanwhile.
pub(crate) const DELETED_FOR: Span = Span::secs(7 * 86_400);
/// What is being put at once, and its bytes.
const PUTS_MAX: usize = 1_024;
const PUT_BYTES_MAX: u64 = 16 << 20;
/// Bytes that a disk may be behind; more is not taken.
const UNSYNCED_BYTES_MAX: u64 = 64 << 20;

/// Who has which place.
pub trait Ring {
    /// Those who have to have what is at a place, the owner first. Nobody, as long as the peer is in no region.
    fn owners(&self, place: RingId) -> Vec<RingId>;
    /// The member before this peer on the ring: what lies after it, up to this peer, is its own part.
    fn before(&self) -> RingId;
    /// Whether a peer is in the region.
    fn has(&self, peer: RingId) -> bool;
    /// Who masters the region that has a location, if that is not this one.
    fn elsewhere(&self, location: Location) -> Option<RingId>;
}

/// What the store does to the outside.
pub trait Effects {
    /// Says something to a peer, or to itself.
    fn say(&mut self, to: RingId, word: StoreWord);
    /// Something is to be written to disk, in order, and lasts until then.
    fn write(&mut self, id: ItemId, item: &Item, until: Time);
    /// Something is to be removed from there.
    fn erase(&mut self, id: ItemId);
    /// The value of something that was written, also if it is not on disk yet.
    fn value(&self, id: ItemId) -> Option<Arc<[u8]>>;
    /// A request has this answer.
    fn answer(&mut self, request: u64, answer: Answer);
    /// Something new was put here and confirmed: those who want such things may be told.
    fn stored(&mut self, item: &Item);
}

/// How much a peer keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// How many things.
    pub items: usize,
    /// Bytes of their keys and values.
    pub bytes: u64,
}

/// Why something is not done.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Another peer has its place.
    #[error("the region is changing")]
    NotMine,
    /// It has found no others yet.
    #[error("this peer is in no region yet: ask another one, or this one again in some seconds")]
    NoRegion,
    /// Too much is under way.
    #[error("too much is being put at once: put it again a little later")]
    Busy,
    /// There is no more room.
    #[error("{0}")]
    Full(String),
    /// A disk fails.
    #[error("a disk fails: {0}")]
    Disk(String),
    /// Not all have confirmed it in time.
    #[error("{confirmed} of {of} peers have confirmed it in time: it may be kept or not, put it again")]
    Unconfirmed {
        /// How many have.
        confirmed: usize,
        /// How many had to.
        of: usize,
    },
    /// Who was asked does not answer.
    #[error("{answered} of {of} peers that have to have it answered in time: ask again")]
    NoAnswer {
        /// How many have.
        answered: usize,
        /// How many had to.
        of: usize,
    },
}

/// Something kept, without its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Arc<str>,
    pub(crate) version: Version,
    pub(crate) location: Location,
    pub(crate) until: Time,
    pub(crate) is_gone: bool,
    /// Bytes of its value.
    pub(crate) size: u64,
    bytes: u64,
}

/// Something that is being put here.
#[derive(Clone, Debug)]
struct Putting {
    from: RingId,
    request: u64,
    item: Item,
    /// Copies that are not confirmed yet.
    waits: BTreeSet<u64>,
    copies: usize,
    /// Whether it is on the own disk.
    is_written: bool,
    until: Time,
}

/// A copy that is on its way.
#[derive(Clone, Debug)]
pub(crate) struct Copying {
    pub(crate) to: RingId,
    pub(crate) why: Why,
    pub(crate) id: ItemId,
    pub(crate) version: Version,
    pub(crate) bytes: u64,
    pub(crate) until: Time,
}

/// Why a copy is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// It was put here, under this number.
    Put(u64),
    /// The other one lacks it.
    Lacks,
    /// It is no longer kept here.
    Leaves,
}

/// What is to be said when what was written is on disk.
#[derive(Clone, Copy, Debug)]
enum After {
    Copied { to: RingId, token: u64 },
    Put(u64),
}

/// What is with the disk.
#[derive(Clone, Debug)]
struct Ticket {
    written: Vec<ItemId>,
    after: Vec<After>,
    bytes: u64,
}

/// What a peer keeps.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) own: RingId,
    limits: Limits,
    pub(crate) index: BTreeMap<ItemId, Entry>,
    bytes: u64,
    /// How many of them are deletions.
    deleted: usize,
    ends: BTreeSet<(Time, ItemId)>,
    /// What is written since the last ticket, and what is to be said then.
    written: Vec<ItemId>,
    after: Vec<After>,
    /// The same of tickets that are with the disk.
    tickets: BTreeMap<u64, Ticket>,
    /// Bytes of what is written and not on disk yet.
    unsynced: u64,
    putting: BTreeMap<u64, Putting>,
    pub(crate) copies: BTreeMap<u64, Copying>,
    pub(crate) asks: BTreeMap<u64, Ask>,
    pub(crate) syncing: Syncing,
    /// Numbers of tickets, tokens and requests.
    numbers: u64,
}

impl Store {
    /// Of a peer that keeps nothing yet.
    pub fn new(own: RingId, limits: Limits) -> Store {
        Store {
            own,
            limits,
            index: BTreeMap::new(),
            bytes: 0,
            deleted: 0,
            ends: BTreeSet::new(),
            written: Vec::new(),
            after: Vec::new(),
            tickets: BTreeMap::new(),
            unsynced: 0,
            putting: BTreeMap::new(),
            copies: BTreeMap::new(),
            asks: BTreeMap::new(),
            syncing: Syncing::default(),
            numbers: 0,
        }
    }

    /// Something is on disk from an earlier life.
    pub fn restore(&mut self, now: Time, kept: Kept) {
        if kept.until > now {
            self.enter(kept.id(), kept);
        }
    }

    /// How many things it keeps, deletions not counted, and their bytes.
    pub fn kept(&self) -> (usize, u64) {
        (self.index.len() - self.deleted, self.bytes)
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// What was written since this was last asked is to be on disk, and is told to be by [`Store::handle_synced`] with this ticket; `None`: nothing was.
    pub fn take_ticket(&mut self) -> Option<u64> {
        if self.written.is_empty() && self.after.is_empty() {
            return None;
        }
        let ticket = self.number();
        let known: u64 = self.tickets.values().map(|ticket| ticket.bytes).sum();
        let bytes = self.unsynced.saturating_sub(known);
        let (written, after) = (std::mem::take(&mut self.written), std::mem::take(&mut self.after));
        self.tickets.insert(ticket, Ticket { written, after, bytes });
        Some(ticket)
    }

    /// What was written before that ticket is on disk, or why it is not.
    pub fn handle_synced(&mut self, ticket: u64, result: &Result<(), String>, out: &mut impl Effects) {
        let Some(Ticket { written, after, bytes }) = self.tickets.remove(&ticket) else { return };
        self.unsynced = self.unsynced.saturating_sub(bytes);
        if let Err(why) = result {
            written.into_iter().for_each(|id| self.drop_entry(id));
            for after in after {
                match after {
                    After::Copied { to, token } => {
                        let result = Copied::Refused(Refusal::Disk(why.clone()));
                        out.say(to, StoreWord::Copied { token, result });
                    }
                    After::Put(number) => self.fail(number, Refusal::Disk(why.clone()), out),
                }
            }
            return;
        }
        for after in after {
            match after {
                After::Copied { to, token } => out.say(to, StoreWord::Copied { token, result: Copied::Has }),
                After::Put(number) => {
                    if let Some(putting) = self.putting.get_mut(&number) {
                        putting.is_written = true;
                    }
                    self.finish(number, out);
                }
            }
        }
    }

    /// Hears a word of a peer.
    pub fn handle_word(
        &mut self,
        now: Time,
        from: RingId,
        word: StoreWord,
        ring: &impl Ring,
        out: &mut impl Effects,
    ) {
        match word {
            StoreWord::Put { request, item } => self.put(now, (from, request), item, ring, out),
            StoreWord::Done { request, result } => self.hear_done(now, from, request, result, out),
            StoreWord::Copy { token, item } => self.copy(now, (from, token), &item, ring, out),
            StoreWord::Copied { token, result } => self.copied(now, (from, token), result, ring, out),
            StoreWord::Fetch { request, id } => {
                let item = self.item(now, id, out);
                out.say(from, StoreWord::Fetched { request, item });
            }
            StoreWord::Fetched { request, item } => self.hear_fetched(from, request, item, out),
            StoreWord::Seen { request, items, cut, silent } => {
                self.hear_seen(from, request, (items, cut, silent), out);
            }
            StoreWord::Range { from: first, to, count, digest } => {
                self.compare(from, (first, to), (count, digest), out);
            }
            StoreWord::List { from: first, to, entries } => {
                self.compare_all(now, from, (first, to), &entries, out);
            }
            StoreWord::Want { ids } => self.give(now, from, &ids, out),
            // What keys mean is known outside.
            StoreWord::Look { .. } | StoreWord::Forward { .. } => {}
        }
    }

    /// Other peers have other places than before.
    pub fn handle_change(&mut self, now: Time, ring: &impl Ring, out: &mut impl Effects) {
        // Copies on their way to who has gone are not waited for.
        let gone: Vec<u64> = self
            .copies
            .iter()
            .filter(|(_, copy)| matches!(copy.why, Why::Put(_)) && !ring.has(copy.to))
            .map(|(token, _)| *token)
            .collect();
        for token in gone {
            let Some(Copying { why: Why::Put(number), .. }) = self.copies.remove(&token) else { continue };
            if let Some(putting) = self.putting.get_mut(&number) {
                putting.waits.remove(&token);
            }
            self.finish(number, out);
        }
        self.ask_again(ring, out);
        self.syncing.plan(now);
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time, ring: &impl Ring, out: &mut impl Effects) {
        while let Some((until, id)) = self.ends.first().copied().filter(|(until, _)| *until <= now) {
            self.ends.remove(&(until, id));
            self.drop_entry(id);
            out.erase(id);
        }
        let late: Vec<u64> =
            self.putting.iter().filter(|(_, put)| put.until <= now).map(|(number, _)| *number).collect();
        for number in late {
            let Some(put) = self.putting.get(&number) else { continue };
            let confirmed = put.copies - put.waits.len() + usize::from(put.is_written);
            self.fail(number, Refusal::Unconfirmed { confirmed, of: put.copies + 1 }, out);
        }
        self.copies.retain(|_, copy| copy.until > now);
        self.end_asks(now, ring, out);
        self.sync(now, ring, out);
    }

    /// When something is due next.
    pub fn next_deadline(&self) -> Time {
        let ends = self.ends.first().map_or(Time::NEVER, |(until, _)| *until);
        let puts = self.putting.values().map(|put| put.until).min().unwrap_or(Time::NEVER);
        let copies = self.copies.values().map(|copy| copy.until).min().unwrap_or(Time::NEVER);
        ends.min(puts).min(copies).min(self.asks_due()).min(self.syncing.due())
    }

    /// Something as it is kept, or as it was deleted; `None`: nothing is known of it.
    pub fn item(&self, now: Time, id: ItemId, out: &impl Effects) -> Option<Item> {
        let entry = self.index.get(&id).filter(|entry| entry.until > now)?;
        let value = if entry.is_gone { None } else { Some(out.value(id)?) };
        Some(Item {
            place: id.place,
            key: Arc::clone(&entry.key),
            version: entry.version,
            location: entry.location,
            left: entry.left(now),
            size: (!entry.is_gone).then_some(entry.size),
            value,
        })
    }

    /// Which version of something is kept, and where that is; `None`: none, or it was deleted.
    pub fn version(&self, now: Time, id: ItemId) -> Option<(Version, Location)> {
        let entry = self.index.get(&id).filter(|entry| entry.until > now && !entry.is_gone)?;
        Some((entry.version, entry.location))
    }

    /// Somebody puts something at a place of this peer.
    fn put(
        &mut self,
        now: Time,
        (from, request): (RingId, u64),
        mut item: Item,
        ring: &impl Ring,
        out: &mut impl Effects,
    ) {
        let owners = ring.owners(item.place);
        let refused = if owners.first() != Some(&self.own) {
            Some(Refusal::NotMine)
        } else if self.putting.len() >= PUTS_MAX
            || self.putting.values().map(|put| put.item.bytes()).sum::<u64>() >= PUT_BYTES_MAX
        {
            Some(Refusal::Busy)
        } else {
            self.no_room(&item)
        };
        if let Some(refusal) = refused {
            return out.say(from, StoreWord::Done { request, result: Err(refusal) });
        }
        if item.size.is_none() {
            item.left = DELETED_FOR;
        }
        let number = self.number();
        let until = now + COPIES_WITHIN;
        let (copies, waits) = (owners.len() - 1, BTreeSet::new());
        self.putting.insert(number, Putting { from, request, item, waits, copies, is_written: false, until });
        self.spread(now, number, Version::default(), &owners, out);
    }

    /// Gives what is being put a version above that one, and sends it to those who have to have it.
    fn spread(&mut self, now: Time, number: u64, above: Version, owners: &[RingId], out: &mut impl Effects) {
        let Some(put) = self.putting.get_mut(&number) else { return };
        let id = put.item.id();
        let known = self.index.get(&id).map_or(above, |entry| entry.version.max(above));
        put.item.version = Version { at: now.0.max(known.at.saturating_add(1)), by: self.own };
        put.is_written = false;
        put.waits.clear();
        let (item, until) = (put.item.clone(), put.until);
        self.copies.retain(|_, copy| copy.why != Why::Put(number));
        self.keep(now, id, &item, out);
        self.after.push(After::Put(number));
        let own = self.own;
        let others = owners.iter().filter(|owner| **owner != own);
        for to in others.filter(|_| !Mutant::ConfirmAlone.is_on()) {
            let token = self.number();
            let (version, bytes) = (item.version, item.bytes());
            let copying = Copying { to: *to, why: Why::Put(number), id, version, bytes, until };
            self.copies.insert(token, copying);
            if let Some(put) = self.putting.get_mut(&number) {
                put.waits.insert(token);
            }
            out.say(*to, StoreWord::Copy { token, item: item.clone() });
        }
    }

    /// Somebody has something that this peer is to have as well.
    fn copy(
        &mut self,
        now: Time,
        (from, token): (RingId, u64),
        item: &Item,
        ring: &impl Ring,
        out: &mut impl Effects,
    ) {
        let id = item.id();
        let known = self.index.get(&id).map(|entry| entry.version);
        if let Some(version) = known.filter(|known| *known > item.version) {
            return out.say(from, StoreWord::Copied { token, result: Copied::Newer(version) });
        }
        if known != Some(item.version) {
            if let Some(refusal) = self.no_room(item) {
                return out.say(from, StoreWord::Copied { token, result: Copied::Refused(refusal) });
            }
            self.keep(now, id, item, out);
            if !self.belongs_here(item.place, item.location, ring) {
                // It is here on its way: another region's master hands on, and who has sent it may not know yet who has its place.
                self.syncing.hand_on(now);
            }
        }
        // Two that each take the other one for who has to have it would both drop it: who says that it has it keeps it.
        self.syncing.stay(id);
        // It is said when it is on disk, whoever has sent it before.
        self.after.push(After::Copied { to: from, token });
    }

    /// Whether this peer has to have what is at a place.
    pub(crate) fn belongs_here(&self, place: RingId, location: Location, ring: &impl Ring) -> bool {
        ring.elsewhere(location).is_none() && ring.owners(place).contains(&self.own)
    }

    fn copied(
        &mut self,
        now: Time,
        (from, token): (RingId, u64),
        result: Copied,
        ring: &impl Ring,
        out: &mut impl Effects,
    ) {
        let Some(copy) = self.copies.get(&token).filter(|copy| copy.to == from).cloned() else { return };
        self.copies.remove(&token);
        let Why::Put(number) = copy.why else { return self.has_copied(now, &copy, &result, ring, out) };
        let Some(put) = self.putting.get_mut(&number) else { return };
        match result {
            Copied::Has => {
                put.waits.remove(&token);
                self.finish(number, out);
            }
            Copied::Newer(version) => {
                let owners = ring.owners(put.item.place);
                self.spread(now, number, version, &owners, out);
            }
            Copied::Refused(refusal) => self.fail(number, refusal, out),
        }
    }

    /// Confirms what is being put, if all have it.
    fn finish(&mut self, number: u64, out: &mut impl Effects) {
        if self.putting.get(&number).is_none_or(|put| !put.is_written || !put.waits.is_empty()) {
            return;
        }
        if let Some(Putting { from, request, item, copies, .. }) = self.putting.remove(&number) {
            let result = Ok((item.version, copies as u64 + 1));
            out.say(from, StoreWord::Done { request, result });
            if item.size.is_some() {
                out.stored(&item);
            }
        }
    }

    fn fail(&mut self, number: u64, refusal: Refusal, out: &mut impl Effects) {
        self.copies.retain(|_, copy| copy.why != Why::Put(number));
        if let Some(Putting { from, request, .. }) = self.putting.remove(&number) {
            out.say(from, StoreWord::Done { request, result: Err(refusal) });
        }
    }

    /// Why there is no room for something. A deletion needs none.
    fn no_room(&self, item: &Item) -> Option<Refusal> {
        let Limits { items, bytes } = self.limits;
        let known = self.index.get(&item.id()).map_or(0, |entry| entry.bytes);
        if item.size.is_some_and(|size| size > VALUE_BYTES_MAX as u64) {
            return Some(Refusal::Full(format!("a value may have {VALUE_BYTES_MAX} bytes")));
        }
        if self.unsynced > UNSYNCED_BYTES_MAX {
            Some(Refusal::Busy)
        } else if item.size.is_none() {
            None
        } else if self.index.len() >= items {
            Some(Refusal::Full(format!("a peer that has to keep it has {items} things, and keeps no more")))
        } else if self.bytes - known + item.bytes() > bytes {
            Some(Refusal::Full(format!(
                "a peer that has to keep it has {bytes} bytes, and keeps no more (peers.NAME.store_bytes)"
            )))
        } else {
            None
        }
    }

    /// Keeps something in place of what is known of it.
    fn keep(&mut self, now: Time, id: ItemId, item: &Item, out: &mut impl Effects) {
        let until = if item.left.is_forever() { Time::NEVER } else { now + item.left };
        self.enter(id, item.kept(until));
        self.written.push(id);
        self.unsynced += item.bytes();
        out.write(id, item, until);
    }

    fn enter(&mut self, id: ItemId, kept: Kept) {
        self.drop_entry(id);
        let Kept { key, version, location, until, size, .. } = kept;
        let bytes = bytes(&key, size);
        let entry =
            Entry { key, version, location, until, is_gone: size.is_none(), size: size.unwrap_or(0), bytes };
        self.bytes += bytes;
        self.deleted += usize::from(entry.is_gone);
        self.ends.insert((until, id));
        self.index.insert(id, entry);
    }

    pub(crate) fn drop_entry(&mut self, id: ItemId) {
        if let Some(entry) = self.index.remove(&id) {
            self.bytes -= entry.bytes;
            self.deleted -= usize::from(entry.is_gone);
            self.ends.remove(&(entry.until, id));
        }
    }
}

impl Entry {
    pub(crate) fn left(&self, now: Time) -> Span {
        if self.until == Time::NEVER { Span::FOREVER } else { self.until.since(now) }
    }
}
