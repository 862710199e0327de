//! The messages of one stream: a ring of slots. A short payload lies beside its slot, so that a message of a sensor is two
//! neighbouring cache lines; longer ones lie side by side in another piece of memory.
//!
//! A slot is named by its ticket, which counts all messages of the stream. A ticket whose slot has been used again is
//! recognised, so nobody needs to be told when a message is overwritten.

use crate::prefetch::fetch;
use contract::{Mutant, Time};
use wire::MessageFlags;

/// What has happened to a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SlotFlags(u16);

impl SlotFlags {
    pub(crate) const NONE: SlotFlags = SlotFlags(0);
    /// Handed to all subscribers; where they confirm, confirmed by all.
    pub(crate) const DISPATCHED: SlotFlags = SlotFlags(1);
    /// Copied to the backup.
    pub(crate) const REPLICATED: SlotFlags = SlotFlags(2);
    /// The backup has been told that the copy is no longer needed.
    pub(crate) const PRUNED: SlotFlags = SlotFlags(4);
    /// A copy that came from the primary.
    pub(crate) const COPY: SlotFlags = SlotFlags(8);
    /// Handed to all subscribers at least once, not yet confirmed by all.
    pub(crate) const OFFERED: SlotFlags = SlotFlags(16);

    /// Came again after a failover: its subscribers may have had it in time already.
    pub(crate) const RESENT: SlotFlags = SlotFlags(32);

    /// Sent on to the broker that reigns; settled when that broker is known to have it.
    pub(crate) const FORWARDED: SlotFlags = SlotFlags(64);

    /// Operators have it, or results made of it are not dispatched yet.
    pub(crate) const PROCESSING: SlotFlags = SlotFlags(128);

    /// Its publisher waits for word that it is covered.
    pub(crate) const ASKED: SlotFlags = SlotFlags(256);

    /// Both sets together.
    pub(crate) fn or(self, other: SlotFlags) -> SlotFlags {
        SlotFlags(self.0 | other.0)
    }

    /// Whether all have had it, nothing is made of it any more, and the backup has no copy: nobody needs to hear of its end.
    #[inline]
    fn is_over(self) -> bool {
        self.has(SlotFlags::DISPATCHED)
            && !self.has(SlotFlags::PROCESSING)
            && (!self.has(SlotFlags::REPLICATED) || self.has(SlotFlags::PRUNED))
    }

    /// Whether any of the flags is set.
    pub(crate) fn has(self, flag: SlotFlags) -> bool {
        self.0 & flag.0 != 0
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) seq: u64,
    pub(crate) created: Time,
    ticket: u32,
    length: u32,
    /// One bit per subscriber of the topic that has not confirmed.
    pub(crate) unconfirmed: u64,
    pub(crate) flags: SlotFlags,
    used: bool,
    /// For results: what is wrong with it in time. For what came through another protocol: how.
    pub(crate) marks: MessageFlags,
    /// For results: what is released when it has been dispatched.
    pub(crate) lineage: u32,
    /// Whether it is copied at the last safe moment; see [`crate::lazy`].
    pub(crate) marked: bool,
    /// Microseconds from creation to when deadlines are counted from.
    pub(crate) released_after: i32,
}

/// No lineage.
const NO_LINEAGE: u32 = u32::MAX;

impl Slot {
    const EMPTY: Slot = Slot {
        seq: 0,
        created: Time::ZERO,
        ticket: 0,
        length: 0,
        unconfirmed: 0,
        flags: SlotFlags::NONE,
        used: false,
        marks: MessageFlags::NONE,
        lineage: NO_LINEAGE,
        marked: false,
        released_after: 0,
    };

    /// Whether it has been handed to all and nobody is waited for any more, so that it can be settled.
    pub(crate) fn is_complete(&self) -> bool {
        let waits = self.unconfirmed != 0 || self.flags.has(SlotFlags::PROCESSING);
        self.flags.has(SlotFlags::OFFERED) && !self.flags.has(SlotFlags::DISPATCHED) && !waits
    }

    /// What is to be released, once.
    #[inline]
    pub(crate) fn take_lineage(&mut self) -> Option<u32> {
        let lineage = std::mem::replace(&mut self.lineage, NO_LINEAGE);
        (lineage != NO_LINEAGE).then_some(lineage)
    }

    pub(crate) fn set(&mut self, flag: SlotFlags) {
        self.flags.0 |= flag.0;
    }

    /// Clears a flag. Returns whether it was set.
    pub(crate) fn take(&mut self, flag: SlotFlags) -> bool {
        let was = self.flags.has(flag);
        self.clear(flag);
        was
    }

    pub(crate) fn forget(&mut self) {
        self.used = false;
    }

    pub(crate) fn clear(&mut self, flag: SlotFlags) {
        self.flags.0 &= !flag.0;
    }
}

/// What is left to know of a message whose slot is used again; where there was none, of one that all have had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overwritten {
    pub(crate) seq: u64,
    pub(crate) flags: SlotFlags,
    lineage: u32,
}

impl Overwritten {
    /// Whether it is no loss. What was offered to all waits for one subscriber only, and is that one's loss.
    pub(crate) fn was_sent(&self) -> bool {
        let offered = SlotFlags::DISPATCHED.or(SlotFlags::OFFERED);
        self.flags.has(offered.or(SlotFlags::COPY).or(SlotFlags::FORWARDED))
    }

    /// Whether the backup still has a copy.
    pub(crate) fn is_copied(&self) -> bool {
        self.flags.has(SlotFlags::REPLICATED) && !self.flags.has(SlotFlags::PRUNED)
    }

    /// What is to be released.
    pub(crate) fn lineage(&self) -> Option<u32> {
        (self.lineage != NO_LINEAGE).then_some(self.lineage)
    }
}

/// Payloads of up to so many bytes lie beside their slots.
const NEAR_BYTES: usize = 80;

/// A slot with its payload, if that is short. Two cache lines, which processors fetch as a pair.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
struct Cell {
    slot: Slot,
    near: [u8; NEAR_BYTES],
}

impl Cell {
    const EMPTY: Cell = Cell { slot: Slot::EMPTY, near: [0; NEAR_BYTES] };
}

/// A plain message needs the first two fields of it only.
#[derive(Clone)]
#[repr(C)]
pub(crate) struct Ring {
    /// Messages that were pushed, of which the lower half is the next ticket.
    pushed: u64,
    cells: Box<[Cell]>,
    /// Payloads that are too long to lie beside their slots.
    far: Box<[u8]>,
    /// The bytes of room for each of those: none until there is one, then that of the longest seen.
    room: u32,
}

impl Ring {
    /// What a plain message needs of it.
    #[cfg(test)]
    pub(crate) const PLAIN_BYTES: usize = std::mem::offset_of!(Ring, far);

    /// A ring of at least so many slots. The number is rounded up to a power of two, so that tickets may wrap around.
    pub(crate) fn new(slots: usize) -> Ring {
        let slots = slots.max(2).next_power_of_two();
        Ring { cells: vec![Cell::EMPTY; slots].into_boxed_slice(), far: Box::default(), room: 0, pushed: 0 }
    }

    pub(crate) fn slots(&self) -> usize {
        self.cells.len()
    }

    /// A ring that goes on counting where another stopped, so that whoever still holds one of the old tickets does not take a new
    /// message for the old one.
    pub(crate) fn continuing(slots: usize, pushed: u64) -> Ring {
        Ring { pushed, ..Ring::new(slots) }
    }

    /// The bytes that it would take with at least so many slots.
    pub(crate) fn grown_bytes(&self, slots: usize) -> usize {
        (self.far_room() + size_of::<Cell>()) * slots.max(2).next_power_of_two()
    }

    /// Makes it one of at least so many slots. What is there stays, under its tickets.
    pub(crate) fn grow(&mut self, slots: usize) {
        let larger = Ring::continuing(slots, self.pushed);
        if larger.cells.len() <= self.cells.len() {
            return;
        }
        let old = std::mem::replace(self, larger);
        self.room = old.room;
        let room = self.far_room();
        self.far = vec![0; room * self.cells.len()].into_boxed_slice();
        for (from, cell) in old.cells.iter().enumerate().filter(|(_, cell)| cell.slot.used) {
            let to = self.index(cell.slot.ticket);
            self.cells[to] = *cell;
            self.far[to * room..][..room].copy_from_slice(&old.far[from * room..][..room]);
        }
    }

    /// The bytes that the slots of a new ring would take.
    pub(crate) fn new_bytes(slots: usize) -> usize {
        slots.max(2).next_power_of_two() * size_of::<Cell>()
    }

    /// The next ticket.
    #[inline]
    pub(crate) fn next_ticket(&self) -> u32 {
        self.pushed as u32
    }

    /// How many messages have been pushed, here and where it continues.
    pub(crate) fn pushed(&self) -> u64 {
        self.pushed
    }

    /// How many more bytes a payload of this length would take.
    #[inline]
    pub(crate) fn growth(&self, length: usize) -> usize {
        if self.fits(length) { 0 } else { (length.next_power_of_two() - self.far_room()) * self.cells.len() }
    }

    /// The bytes that slots and payloads take.
    pub(crate) fn bytes(&self) -> usize {
        (self.far_room() + size_of::<Cell>()) * self.cells.len()
    }

    /// Stores a message and returns its ticket, and what it overwrote.
    #[inline]
    pub(crate) fn push(
        &mut self,
        seq: u64,
        created: Time,
        payload: &[u8],
        flags: SlotFlags,
        marks: MessageFlags,
    ) -> (u32, Overwritten) {
        let ticket = self.next_ticket();
        self.pushed += 1;
        let index = self.index(ticket);
        let at = if Mutant::MixPayloads.is_on() { 0 } else { index };
        match self.cells[at].near.get_mut(..payload.len()) {
            Some(near) => near.copy_from_slice(payload),
            None => self.write_far(at, payload),
        }
        let length = payload.len() as u32;
        let slot = &mut self.cells[index].slot;
        let nothing = Overwritten { seq: 0, flags: SlotFlags::DISPATCHED, lineage: NO_LINEAGE };
        let old = Overwritten { seq: slot.seq, flags: slot.flags, lineage: slot.lineage };
        let old = if slot.used { old } else { nothing };
        *slot = Slot { seq, created, ticket, length, flags, used: true, marks, ..Slot::EMPTY };
        (ticket, old)
    }

    /// Stores a message that is short and overwrites none that anybody still needs, and returns its ticket. `None`: it is not so, and
    /// nothing was done.
    #[inline]
    pub(crate) fn push_plain(&mut self, seq: u64, created: Time, payload: &[u8]) -> Option<u32> {
        let ticket = self.next_ticket();
        let index = self.index(ticket);
        let at = if Mutant::MixPayloads.is_on() { 0 } else { index };
        let slot = &self.cells.get(index)?.slot;
        if slot.used && !slot.flags.is_over() {
            return None;
        }
        self.cells.get_mut(at)?.near.get_mut(..payload.len())?.copy_from_slice(payload);
        let slot = &mut self.cells.get_mut(index)?.slot;
        self.pushed += 1;
        *slot = Slot { seq, created, ticket, length: payload.len() as u32, used: true, ..Slot::EMPTY };
        Some(ticket)
    }

    /// A short message to which nothing has happened and of which nothing is special, with its payload.
    #[inline(always)]
    pub(crate) fn plain(&mut self, ticket: u32) -> Option<(&mut Slot, &[u8])> {
        let index = self.index(ticket);
        let Cell { slot, near } = self.cells.get_mut(index)?;
        let plain = slot.used && slot.ticket == ticket && slot.flags == SlotFlags::NONE;
        if !plain || slot.marks != MessageFlags::NONE || slot.lineage != NO_LINEAGE {
            return None;
        }
        let payload = near.get(..slot.length as usize)?;
        Some((slot, payload))
    }

    /// The slot of a ticket, unless it has been overwritten.
    #[inline]
    pub(crate) fn slot(&self, ticket: u32) -> Option<&Slot> {
        Some(&self.cell(ticket)?.slot)
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn slot_mut(&mut self, ticket: u32) -> Option<&mut Slot> {
        let index = self.index(ticket);
        let slot = &mut self.cells.get_mut(index)?.slot;
        (slot.used && slot.ticket == ticket).then_some(slot)
    }

    /// The slot of a ticket with its payload.
    #[inline]
    pub(crate) fn message(&self, ticket: u32) -> Option<(&Slot, &[u8])> {
        let Cell { slot, near } = self.cell(ticket)?;
        let length = slot.length as usize;
        let payload = near.get(..length);
        Some((slot, payload.unwrap_or_else(|| &self.far[self.index(ticket) * self.far_room()..][..length])))
    }

    /// The ticket of a message by its number, the newest first.
    pub(crate) fn find(&self, seq: u64) -> Option<u32> {
        self.tickets().rev().find(|&ticket| self.slot(ticket).is_some_and(|slot| slot.seq == seq))
    }

    /// All tickets that may still be there, the oldest first.
    pub(crate) fn tickets(&self) -> impl DoubleEndedIterator<Item = u32> + use<> {
        let (count, next) = (self.cells.len() as u32, self.next_ticket());
        (1..=count).rev().map(move |back| next.wrapping_sub(back))
    }

    /// The tickets from this one on that may still be there, the oldest first.
    pub(crate) fn tickets_from(&self, first: u32) -> impl Iterator<Item = u32> + use<> {
        let next = self.next_ticket();
        let count = next.wrapping_sub(first).min(self.cells.len() as u32);
        (1..=count).rev().map(move |back| next.wrapping_sub(back))
    }

    /// The message that the next one overwrites.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<&Slot> {
        self.cells.get(self.index(self.next_ticket())).map(|cell| &cell.slot).filter(|slot| slot.used)
    }

    /// Whether the next message overwrites one that nobody has had.
    #[inline]
    pub(crate) fn overwrites_unsent(&self) -> bool {
        let sent = SlotFlags::DISPATCHED.or(SlotFlags::OFFERED).or(SlotFlags::FORWARDED);
        self.oldest().is_some_and(|oldest| !oldest.flags.has(sent))
    }

    /// Fetches what the next message, of this length, is written to.
    #[inline]
    pub(crate) fn prefetch(&self, length: usize) {
        let index = self.index(self.next_ticket());
        if let Some(cell) = self.cells.get(index) {
            fetch::<2, _>(cell);
        }
        if length > NEAR_BYTES
            && let Some(far) = self.far.get(index * self.far_room())
        {
            fetch::<1, _>(far);
        }
    }

    /// Every message that is there.
    pub(crate) fn slots_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.cells.iter_mut().map(|cell| &mut cell.slot).filter(|slot| slot.used)
    }

    #[inline]
    fn cell(&self, ticket: u32) -> Option<&Cell> {
        let found = self.cells.get(self.index(ticket));
        found.filter(|Cell { slot, .. }| slot.used && slot.ticket == ticket)
    }

    /// Whether there is room for a payload of this length.
    #[inline]
    fn fits(&self, length: usize) -> bool {
        length <= NEAR_BYTES.max(self.far_room())
    }

    /// The bytes between two payloads that do not lie beside their slots.
    #[inline]
    fn far_room(&self) -> usize {
        self.room as usize
    }

    #[inline]
    fn index(&self, ticket: u32) -> usize {
        ticket as usize & (self.cells.len() - 1)
    }

    /// Writes a payload that does not fit beside its slot.
    fn write_far(&mut self, index: usize, payload: &[u8]) {
        if !self.fits(payload.len()) {
            self.make_room(payload.len());
        }
        let room = self.far_room();
        self.far[index * room..][..payload.len()].copy_from_slice(payload);
    }

    fn make_room(&mut self, length: usize) {
        let (old, room) = (self.far_room(), length.next_power_of_two());
        let mut far = vec![0; room * self.cells.len()].into_boxed_slice();
        for index in 0..self.cells.len() {
            far[index * room..][..old].copy_from_slice(&self.far[index * old..][..old]);
        }
        (self.far, self.room) = (far, room as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_stale_once_its_slot_is_used_again() {
        let mut ring = Ring::new(4);
        let tickets: Vec<_> = (0..5)
            .map(|seq| ring.push(seq, Time(seq), &[seq as u8], SlotFlags::NONE, MessageFlags::NONE))
            .collect();
        assert!(tickets[3].1.was_sent(), "nothing was there");
        assert!(!tickets[4].1.was_sent());
        assert_eq!(tickets[4].1.seq, 0, "the fifth message overwrites the first");
        assert!(ring.slot(tickets[0].0).is_none());
        assert_eq!(ring.message(tickets[4].0).unwrap().1, [4]);
        assert_eq!(ring.find(3), Some(tickets[3].0));
        assert_eq!(ring.find(0), None);
        assert_eq!(ring.tickets().filter(|t| ring.slot(*t).is_some()).count(), 4);
    }

    #[test]
    fn tickets_wrap_around() {
        let mut ring = Ring::new(4);
        ring.pushed = u64::from(u32::MAX) - 1;
        let tickets: Vec<_> =
            (0..4).map(|seq| ring.push(seq, Time(seq), &[], SlotFlags::NONE, MessageFlags::NONE).0).collect();
        assert_eq!(tickets, [u32::MAX - 1, u32::MAX, 0, 1]);
        let seen: Vec<_> = ring.tickets().filter_map(|t| ring.slot(t)).map(|slot| slot.seq).collect();
        assert_eq!(seen, [0, 1, 2, 3], "oldest first, across the wrap");
    }

    #[test]
    fn a_ring_that_grows_keeps_what_it_has_under_its_tickets() {
        for length in [20, NEAR_BYTES + 20] {
            let mut ring = Ring::new(4);
            ring.pushed = u64::from(u32::MAX) - 5;
            for seq in 0..9 {
                ring.push(seq, Time(seq), &vec![seq as u8; length], SlotFlags::NONE, MessageFlags::NONE);
            }
            let before: Vec<u32> = ring.tickets().collect();
            let expected = ring.grown_bytes(9);
            ring.grow(9);
            assert_eq!((ring.slots(), ring.bytes()), (16, expected));
            for (ticket, seq) in before.iter().zip(5..9_u8) {
                assert_eq!(ring.message(*ticket).unwrap().1, vec![seq; length], "across the wrap");
            }
            assert_eq!(ring.tickets().filter(|ticket| ring.slot(*ticket).is_some()).count(), 4);
            let overwritten = (9..22).filter(|seq| {
                !ring.push(*seq, Time(*seq), &[0; 20], SlotFlags::NONE, MessageFlags::NONE).1.was_sent()
            });
            assert_eq!(overwritten.count(), 1, "the first after sixteen");
            ring.grow(4);
            assert_eq!(ring.slots(), 16, "it never shrinks");
        }
    }

    #[test]
    fn larger_payloads_make_room_and_keep_the_smaller_ones() {
        let mut ring = Ring::new(2);
        let (small, _) = ring.push(0, Time(0), b"small", SlotFlags::NONE, MessageFlags::NONE);
        assert_eq!([ring.growth(5), ring.growth(NEAR_BYTES)], [0; 2]);
        let grown = ring.growth(100);
        let before = ring.bytes();
        let (large, _) = ring.push(1, Time(1), &[7; 100], SlotFlags::NONE, MessageFlags::NONE);
        assert_eq!(ring.bytes(), before + grown);
        assert_eq!(ring.message(small).unwrap().1, b"small");
        assert_eq!(ring.message(large).unwrap().1, [7; 100]);
        let (larger, _) = ring.push(2, Time(2), &[8; 1000], SlotFlags::NONE, MessageFlags::NONE);
        assert_eq!(ring.message(large).unwrap().1, [7; 100]);
        assert_eq!(ring.message(larger).unwrap().1, [8; 1000]);
        assert_eq!(size_of::<Cell>(), 128, "two cache lines");
    }
}
