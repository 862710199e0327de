//! How copies become the same, and how things get to where they belong.
//!
//! The problem: peers come, go, and come back with what they had; each change gives others a part of the ring, and words get lost. The idea: who has a
//! part of the ring compares it with those that have to have copies, by a digest of all; where that differs, by digests of smaller parts, and in the
//! end thing by thing. Whoever keeps something that it does not have to have any more gives it to all that have to, and forgets it when each of them
//! has it on its disk.
//!
//! The invariant: no more is on its way to one peer than [`WINDOW`] and [`WINDOW_BYTES`] say, however much there is.

use crate::item::{ItemId, Version};
use crate::store::{Copying, Effects, Ring, Store, Why};
use crate::words::{Copied, StoreWord};
use contract::{Mutant, RingId, Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// How often copies are compared.
const EVERY: Span = Span::secs(20);
/// How long it is waited before things are given away that could not be.
const AGAIN: Span = Span::secs(1);
/// So many are compared thing by thing.
pub(crate) const LIST_MAX: usize = 256;
/// Into so many parts a larger part is divided.
const PARTS: usize = 16;
/// What may be on its way to one peer.
const WINDOW: usize = 512;
const WINDOW_BYTES: u64 = 8 << 20;
/// How long a copy may be on its way.
const ARRIVES_WITHIN: Span = Span::secs(5);

/// What is compared and given away when.
#[derive(Clone, Debug)]
pub(crate) struct Syncing {
    /// When the own part is compared next.
    compares_at: Time,
    /// When it is looked next for what does not belong here.
    gives_at: Time,
    /// Up to where it has been looked.
    looked: ItemId,
    /// Parts that were not compared, since too much was on its way to that peer.
    again: BTreeMap<RingId, (ItemId, ItemId)>,
    /// What is given away: who does not have it yet.
    leaving: BTreeMap<ItemId, BTreeSet<RingId>>,
}

impl Default for Syncing {
    fn default() -> Syncing {
        Syncing {
            compares_at: Time(0),
            gives_at: Time(0),
            looked: ItemId::MIN,
            again: BTreeMap::new(),
            leaving: BTreeMap::new(),
        }
    }
}

impl Syncing {
    /// Something has changed.
    pub(crate) fn plan(&mut self, now: Time) {
        self.compares_at = self.compares_at.min(now);
        self.gives_at = now;
        self.looked = ItemId::MIN;
        self.leaving.clear();
    }

    /// Something has come that does not belong here.
    pub(crate) fn hand_on(&mut self, now: Time) {
        self.gives_at = self.gives_at.min(now);
        self.looked = ItemId::MIN;
    }

    /// Something that was about to leave stays for now.
    pub(crate) fn stay(&mut self, id: ItemId) {
        self.leaving.remove(&id);
    }

    /// When something is due.
    pub(crate) fn due(&self) -> Time {
        self.compares_at.min(self.gives_at)
    }
}

/// Parts from a place to another one, going round, both included.
fn parts(first: RingId, last: RingId) -> Vec<(ItemId, ItemId)> {
    if first <= last {
        return vec![(ItemId::first_at(first), ItemId::last_at(last))];
    }
    vec![(ItemId::MIN, ItemId::last_at(last)), (ItemId::first_at(first), ItemId::MAX)]
}

/// What stands for a thing in a digest.
fn trace(id: ItemId, version: Version) -> u128 {
    let mut hash = blake3::Hasher::new();
    hash.update(&id.place.to_bytes()).update(&id.hash.to_le_bytes());
    hash.update(&version.at.to_le_bytes()).update(&version.by.to_bytes());
    let mut trace = [0; 16];
    hash.finalize_xof().fill(&mut trace);
    u128::from_le_bytes(trace)
}

impl Store {
    /// Compares its part with those that have copies, and gives away what does not belong here, when it is time.
    pub(crate) fn sync(&mut self, now: Time, ring: &impl Ring, out: &mut impl Effects) {
        if self.syncing.compares_at <= now {
            self.syncing.compares_at = now + EVERY;
            let others = ring.owners(self.own);
            for (from, to) in parts(ring.before().next(), self.own) {
                for other in others.iter().filter(|other| **other != self.own) {
                    self.say_range(*other, from, to, out);
                }
            }
        }
        if self.syncing.gives_at <= now {
            self.give_away(now, ring, out);
        }
    }

    fn say_range(&self, to_peer: RingId, from: ItemId, to: ItemId, out: &mut impl Effects) {
        let (count, digest) = self.digest(from, to);
        out.say(to_peer, StoreWord::Range { from, to, count, digest });
    }

    fn digest(&self, from: ItemId, to: ItemId) -> (u64, u128) {
        let all = self.index.range(from..=to);
        all.fold((0, 0), |(count, digest), (id, entry)| (count + 1, digest ^ trace(*id, entry.version)))
    }

    /// Another has so much in a part. If that is not the same as here, it is told more exactly.
    pub(crate) fn compare(
        &mut self,
        peer: RingId,
        (from, to): (ItemId, ItemId),
        (count, digest): (u64, u128),
        out: &mut impl Effects,
    ) {
        if from > to {
            return;
        }
        let own = self.digest(from, to);
        if own == (count, digest) || Mutant::NeverCompare.is_on() {
            return;
        }
        if own.0.max(count) as usize <= LIST_MAX {
            let entries = self.index.range(from..=to).map(|(id, entry)| (*id, entry.version)).collect();
            return out.say(peer, StoreWord::List { from, to, entries });
        }
        if (own.0 as usize) < PARTS {
            // The other one has more, and can divide it.
            return out.say(peer, StoreWord::Range { from, to, count: own.0, digest: own.1 });
        }
        let step = (own.0 as usize).div_ceil(PARTS);
        let ends: Vec<ItemId> =
            self.index.range(from..=to).map(|(id, _)| *id).skip(step - 1).step_by(step).collect();
        let mut first = from;
        for end in ends.into_iter().filter(|end| *end < to).chain([to]) {
            self.say_range(peer, first, end, out);
            first = end.next();
        }
    }

    /// Another has these in a part, and no others.
    pub(crate) fn compare_all(
        &mut self,
        now: Time,
        peer: RingId,
        (from, to): (ItemId, ItemId),
        entries: &[(ItemId, Version)],
        out: &mut impl Effects,
    ) {
        if from > to {
            return;
        }
        let theirs: BTreeMap<ItemId, Version> = entries.iter().copied().collect();
        let newer = |id: &ItemId, version: Version| theirs.get(id).is_none_or(|theirs| *theirs < version);
        let gives: Vec<ItemId> = self
            .index
            .range(from..=to)
            .filter(|(id, entry)| newer(id, entry.version))
            .map(|(id, _)| *id)
            .collect();
        let lacks = |id: &ItemId, version: Version| {
            self.index.get(id).is_none_or(|own| own.version < version) && (from..=to).contains(id)
        };
        let wants: Vec<ItemId> =
            theirs.iter().filter(|(id, version)| lacks(id, **version)).map(|(id, _)| *id).collect();
        if !wants.is_empty() {
            out.say(peer, StoreWord::Want { ids: wants });
        }
        if !self.send_copies(now, peer, &gives, Why::Lacks, out) {
            let again = self.syncing.again.entry(peer).or_insert((from, to));
            *again = (again.0.min(from), again.1.max(to));
        }
    }

    /// Another wants these.
    pub(crate) fn give(&mut self, now: Time, peer: RingId, ids: &[ItemId], out: &mut impl Effects) {
        if !self.send_copies(now, peer, ids, Why::Lacks, out)
            && let (Some(from), Some(to)) = (ids.iter().min(), ids.iter().max())
        {
            let again = self.syncing.again.entry(peer).or_insert((*from, *to));
            *again = (again.0.min(*from), again.1.max(*to));
        }
    }

    /// Sends copies, as long as not too much is on its way. Returns whether all were sent.
    fn send_copies(
        &mut self,
        now: Time,
        peer: RingId,
        ids: &[ItemId],
        why: Why,
        out: &mut impl Effects,
    ) -> bool {
        let (mut count, mut bytes) = self.under_way(peer);
        for id in ids {
            if count >= WINDOW || bytes >= WINDOW_BYTES {
                return false;
            }
            // What has no value is not on disk any more, or not yet.
            let Some(item) = self.item(now, *id, out) else { continue };
            count += 1;
            bytes += item.bytes();
            let token = self.number();
            let (id, version) = (*id, item.version);
            let copying =
                Copying { to: peer, why, id, version, bytes: item.bytes(), until: now + ARRIVES_WITHIN };
            self.copies.insert(token, copying);
            out.say(peer, StoreWord::Copy { token, item });
        }
        true
    }

    fn under_way(&self, peer: RingId) -> (usize, u64) {
        let to_it = self.copies.values().filter(|copy| copy.to == peer && !matches!(copy.why, Why::Put(_)));
        to_it.fold((0, 0), |(count, bytes), copy| (count + 1, bytes + copy.bytes))
    }

    /// A copy has arrived, or was not wanted.
    pub(crate) fn has_copied(
        &mut self,
        now: Time,
        copy: &Copying,
        result: &Copied,
        ring: &impl Ring,
        out: &mut impl Effects,
    ) {
        if copy.why == Why::Leaves {
            self.has_left(now, copy, result, ring, out);
        }
        if self.under_way(copy.to).0 == 0
            && let Some((from, to)) = self.syncing.again.remove(&copy.to)
        {
            self.say_range(copy.to, from, to, out);
        }
    }

    fn has_left(
        &mut self,
        now: Time,
        copy: &Copying,
        result: &Copied,
        ring: &impl Ring,
        out: &mut impl Effects,
    ) {
        if matches!(result, Copied::Refused(_)) {
            self.syncing.leaving.remove(&copy.id);
        } else if let Some(waits) = self.syncing.leaving.get_mut(&copy.id) {
            waits.remove(&copy.to);
            if waits.is_empty() {
                self.syncing.leaving.remove(&copy.id);
                // What has come meanwhile they do not have yet; and it may belong here again.
                let goes = self.index.get(&copy.id).is_some_and(|entry| {
                    entry.version <= copy.version && !self.belongs_here(copy.id.place, entry.location, ring)
                });
                if goes {
                    self.drop_entry(copy.id);
                    out.erase(copy.id);
                }
            }
        }
        if !self.copies.values().any(|copy| copy.why == Why::Leaves) {
            self.syncing.gives_at = now;
        }
    }

    /// Looks for what does not belong here, and gives some of it to those who have to have it.
    fn give_away(&mut self, now: Time, ring: &impl Ring, out: &mut impl Effects) {
        if self.copies.values().any(|copy| copy.why == Why::Leaves) {
            self.syncing.gives_at = now + AGAIN;
            return;
        }
        self.syncing.leaving.clear();
        let mut gives: BTreeMap<RingId, Vec<ItemId>> = BTreeMap::new();
        let (mut count, mut last) = (0, None);
        for (id, entry) in self.index.range(self.syncing.looked..) {
            let to = match ring.elsewhere(entry.location) {
                Some(master) => vec![master],
                None => ring.owners(id.place),
            };
            if to.is_empty() || to.contains(&self.own) {
                continue;
            }
            self.syncing.leaving.insert(*id, to.iter().copied().collect());
            to.into_iter().for_each(|to| gives.entry(to).or_default().push(*id));
            count += 1;
            if count >= LIST_MAX {
                last = Some(*id);
                break;
            }
        }
        // From the beginning, since what could not be given is still there.
        self.syncing.looked = last.map_or(ItemId::MIN, ItemId::next);
        self.syncing.gives_at = if count == 0 { now + EVERY } else { now + AGAIN };
        for (to, ids) in gives {
            self.send_copies(now, to, &ids, Why::Leaves, out);
            if Mutant::LeaveUnseen.is_on() {
                ids.iter().for_each(|id| self.drop_entry(*id));
            }
        }
    }
}
