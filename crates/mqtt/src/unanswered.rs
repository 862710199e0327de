//! Messages of one client that are not covered yet, and a set of packet identifiers.
//!
//! Each message that comes with QoS 1 is looked for here by its identifier, so that must not take longer the more there are.
//! A bitmap of all identifiers would do as well, with 8 KB for each client that publishes; the table here has four bytes for
//! each message that the client has ever had under way at the same time.

use crate::packet::Qos;
use contract::{StreamId, invariant};
use std::collections::VecDeque;

/// A message from the client that is not covered yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pending {
    pub(crate) stream: StreamId,
    pub(crate) seq: u64,
    pub(crate) id: u16,
    pub(crate) qos: Qos,
}

/// Messages that are not covered yet, in the order in which they came. The gateway bounds how many there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unanswered {
    pending: VecDeque<Pending>,
    /// Identifiers of those with QoS 1.
    once: Ids,
}

impl Unanswered {
    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Whether a message with QoS 1 has this identifier.
    pub(crate) fn has(&self, id: u16) -> bool {
        self.once.contains(id)
    }

    pub(crate) fn push(&mut self, pending: Pending) {
        if pending.qos == Qos::AtLeastOnce {
            self.once.insert(pending.id);
        }
        self.pending.push_back(pending);
    }

    /// A message is covered. Messages are covered in their order, but for those of different urgency, so it is one of the first.
    pub(crate) fn take(&mut self, stream: StreamId, seq: u64) -> Option<Pending> {
        let this = |pending: &Pending| pending.stream == stream && pending.seq == seq;
        let at = self.pending.iter().position(this)?;
        let Some(pending) = self.pending.remove(at) else {
            return invariant!("a message that was found is there", None);
        };
        if pending.qos == Qos::AtLeastOnce {
            self.once.remove(pending.id);
        }
        Some(pending)
    }

    /// Whether this message is among them.
    pub(crate) fn contains(&self, stream: StreamId, seq: u64) -> bool {
        self.pending.iter().any(|pending| pending.stream == stream && pending.seq == seq)
    }

    /// Forgets all but those with QoS 2.
    pub(crate) fn forget_once(&mut self) {
        self.pending.retain(|pending| pending.qos == Qos::ExactlyOnce);
        self.once = Ids::default();
    }
}

/// Identifiers, which are never zero: an open-addressed table, at most half full.
#[derive(Clone, Debug, Default)]
struct Ids {
    /// A power of two of them, or none. Zero: free.
    slots: Vec<u16>,
    len: usize,
}

/// Slots of the smallest table.
const SLOTS_MIN: usize = 16;

impl Ids {
    fn contains(&self, id: u16) -> bool {
        self.find(id).is_some_and(|(found, _)| found == id)
    }

    fn insert(&mut self, id: u16) {
        if (self.len + 1) * 2 > self.slots.len() {
            self.grow();
        }
        if let Some((0, at)) = self.find(id) {
            self.set(at, id);
            self.len += 1;
        }
    }

    fn remove(&mut self, id: u16) {
        let Some((_, mut hole)) = self.find(id).filter(|(found, _)| *found == id) else { return };
        self.len -= 1;
        // Those behind it move up, as far as they may: a search must not end at the hole before it comes to them.
        let mut at = self.after(hole);
        loop {
            let moving = self.at(at);
            if moving == 0 {
                return self.set(hole, 0);
            }
            let mask = self.slots.len() - 1;
            let from_home = at.wrapping_sub(self.home(moving)) & mask;
            if from_home >= at.wrapping_sub(hole) & mask {
                self.set(hole, moving);
                hole = at;
            }
            at = self.after(at);
        }
    }

    /// The slot of this identifier, or the free one where it would be, with what is there. `None`: there is no table.
    fn find(&self, id: u16) -> Option<(u16, usize)> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = self.home(id);
        loop {
            let there = self.at(at);
            if there == id || there == 0 {
                return Some((there, at));
            }
            at = self.after(at);
        }
    }

    /// Where the search for an identifier begins: those that are given one after the other are far from each other.
    fn home(&self, id: u16) -> usize {
        let spread = u64::from(id).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (spread >> (u64::BITS - self.slots.len().trailing_zeros())) as usize
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    fn at(&self, at: usize) -> u16 {
        self.slots.get(at).copied().unwrap_or_else(|| invariant!("a place is one of the table", 0))
    }

    fn set(&mut self, at: usize, id: u16) {
        match self.slots.get_mut(at) {
            Some(slot) => *slot = id,
            None => invariant!("a place is one of the table"),
        }
    }

    #[cold]
    fn grow(&mut self) {
        let slots = (self.slots.len() * 2).max(SLOTS_MIN);
        let before = std::mem::replace(&mut self.slots, vec![0; slots]);
        self.len = 0;
        before.into_iter().filter(|id| *id != 0).for_each(|id| self.insert(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn the_table_is_a_set(acts in prop::collection::vec((any::<bool>(), 1u16..200, any::<bool>()), 0..600)) {
            let (mut ids, mut expected) = (Ids::default(), BTreeSet::new());
            for (comes, id, wide) in acts {
                // Some are far apart, so that searches for different ones meet.
                let id = if wide { id * 300 } else { id };
                if comes {
                    ids.insert(id);
                    expected.insert(id);
                } else {
                    ids.remove(id);
                    expected.remove(&id);
                }
                prop_assert_eq!(ids.len, expected.len());
                prop_assert!(ids.slots.len() <= SLOTS_MIN.max(4 * 400));
            }
            for id in 1..=u16::MAX {
                prop_assert_eq!(ids.contains(id), expected.contains(&id), "{}", id);
            }
        }
    }

    /// How many slots a search looks at.
    fn steps(ids: &Ids, id: u16) -> usize {
        let (_, at) = ids.find(id).unwrap();
        (at.wrapping_sub(ids.home(id)) & (ids.slots.len() - 1)) + 1
    }

    #[test]
    fn a_search_looks_at_a_few_slots_however_many_messages_are_under_way() {
        for window in [10, 100, 1_024, 16_384] {
            let mut ids = Ids::default();
            let (mut slots, mut most) = (0, 0);
            for number in 0..200_000_u32 {
                let id = |number: u32| (number % 65_535 + 1) as u16;
                if !ids.slots.is_empty() {
                    most = most.max(steps(&ids, id(number)));
                }
                ids.insert(id(number));
                if number >= window {
                    ids.remove(id(number - window));
                    assert!(number == window || slots == ids.slots.len(), "the table has its size");
                    slots = ids.slots.len();
                }
            }
            assert_eq!(ids.len, window as usize);
            assert!(most <= 4, "{window}: {most} slots");
        }
    }
}
