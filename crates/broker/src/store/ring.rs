//! The messages of one stream: a ring of slots. A short payload lies beside its slot, so that a message of a sensor is two
//! neighbouring cache lines; longer ones lie elsewhere (see [`crate::store::far`]).
//!
//! A slot is named by its ticket, which counts all messages of the stream. A ticket whose slot has been used again is
//! recognised, so nobody needs to be told when a message is overwritten.

use crate::store::far::{Far, room_for};
use crate::store::prefetch::fetch;
use contract::{Mutant, Ticket, Time, invariant};
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

    /// The primary was done with it before this backup had been told what operators remember of it; see [`crate::steps::finished`].
    pub(crate) const UNTOLD: SlotFlags = SlotFlags(512);

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
    ticket: Ticket,
    length: u32,
    /// One bit per subscriber of the topic that has not confirmed.
    pub(crate) unconfirmed: u64,
    pub(crate) flags: SlotFlags,
    used: bool,
    /// For results: what is wrong with it in time. For what came through another protocol: how.
    pub(crate) marks: MessageFlags,
    /// For results: what is released when it has been dispatched.
    pub(crate) lineage: u32,
    /// Whether it is copied at the last safe moment; see [`crate::steps::lazy`].
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
        ticket: Ticket(0),
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

    /// Whether this broker has it for the primary: a copy, or one that it sent on.
    pub(crate) fn is_kept(&self) -> bool {
        self.flags.has(SlotFlags::COPY.or(SlotFlags::FORWARDED))
    }

    /// The primary may be done with it, but nobody who reigns now knows: it counts as not dispatched again, or is forgotten where there is
    /// no more of it than its number. `false`: it has been.
    pub(crate) fn doubt(&mut self) -> bool {
        if !self.take(SlotFlags::UNTOLD) {
            return true;
        }
        self.clear(SlotFlags::DISPATCHED);
        if !self.is_kept() {
            self.forget();
        }
        self.used
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
    #[inline]
    fn of(slot: &Slot) -> Overwritten {
        Overwritten { seq: slot.seq, flags: slot.flags, lineage: slot.lineage }
    }

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
    far: Far,
}

impl Ring {
    /// What a plain message needs of it.
    #[cfg(test)]
    pub(crate) const PLAIN_BYTES: usize = std::mem::offset_of!(Ring, far);

    /// The ring of a contract: for so many messages at least, with payloads of up to this length. The number of slots is rounded up to
    /// a power of two, so that tickets may wrap around.
    pub(crate) fn reserved(slots: usize, payload: usize) -> Ring {
        Ring::of(slots, Far::reserved(room_for(payload, NEAR_BYTES)))
    }

    /// The ring of a stream of best effort: for so many messages at least, and at most.
    pub(crate) fn loose(least: usize, most: usize) -> Ring {
        let (least, most) = (places(least), places(most));
        Ring::of(least, Far::loose(least, most.max(least)))
    }

    /// A ring of a contract with payloads of any length.
    #[cfg(test)]
    pub(crate) fn new(slots: usize) -> Ring {
        Ring::reserved(slots, 0)
    }

    fn of(slots: usize, far: Far) -> Ring {
        Ring { cells: vec![Cell::EMPTY; places(slots)].into_boxed_slice(), far, pushed: 0 }
    }

    /// It goes on counting where another stopped, so that whoever still holds one of the old tickets does not take a new message for
    /// the old one.
    pub(crate) fn continuing(self, pushed: u64) -> Ring {
        Ring { pushed, ..self }
    }

    /// The same without messages, for the next life of its stream. One of best effort has as many slots as at least.
    pub(crate) fn emptied(&self) -> Ring {
        let slots = match &self.far {
            Far::Reserved(_) => self.slots(),
            Far::Loose(loose) => loose.least,
        };
        Ring::of(slots, self.far.emptied()).continuing(self.pushed)
    }

    pub(crate) fn slots(&self) -> usize {
        self.cells.len()
    }

    /// Whether memory has been reserved for its messages.
    pub(crate) fn is_reserved(&self) -> bool {
        matches!(self.far, Far::Reserved(_))
    }

    /// The bytes that the ring of a contract takes, for so many messages with payloads of up to this length.
    pub(crate) fn reserved_bytes(slots: usize, payload: usize) -> usize {
        (room_for(payload, NEAR_BYTES) + size_of::<Cell>()).saturating_mul(places(slots))
    }

    /// How long a payload may be for which it has room: what was reserved, or any length.
    pub(crate) fn payload_max(&self) -> usize {
        match &self.far {
            Far::Reserved(reserved) => reserved.most().max(NEAR_BYTES),
            Far::Loose(_) => usize::MAX,
        }
    }

    /// How many more bytes a contract would take with payloads of this length.
    pub(crate) fn raised_bytes(&self, payload: usize) -> usize {
        room_for(payload, NEAR_BYTES).saturating_sub(room_for(self.payload_max(), NEAR_BYTES)) * self.slots()
    }

    /// Payloads may be so long from now on; the bytes for that have been reserved.
    pub(crate) fn raise(&mut self, payload: usize) {
        match &mut self.far {
            Far::Reserved(reserved) => reserved.raise(room_for(payload, NEAR_BYTES)),
            Far::Loose(_) => invariant!("only what is reserved is raised"),
        }
    }

    /// How many slots a ring of best effort has at least, and at most; the others have what they have.
    pub(crate) fn bounds(&self) -> (usize, usize) {
        match &self.far {
            Far::Reserved(_) => (self.slots(), self.slots()),
            Far::Loose(loose) => (loose.least, loose.most),
        }
    }

    /// A ring of best effort may have more slots than before.
    pub(crate) fn allow(&mut self, most: usize) {
        if let Far::Loose(loose) = &mut self.far {
            loose.most = loose.most.max(places(most));
        }
    }

    /// The bytes that it would take with at least so many slots.
    pub(crate) fn grown_bytes(&self, slots: usize) -> usize {
        let slots = places(slots).max(self.slots());
        self.far.bytes(slots) + size_of::<Cell>() * slots
    }

    /// The longest payload that is there.
    pub(crate) fn longest(&self) -> usize {
        let used = self.cells.iter().filter(|cell| cell.slot.used);
        used.map(|cell| cell.slot.length as usize).max().unwrap_or(0)
    }

    /// Another one of at least as many slots, for payloads as long, with all that is there under its tickets.
    pub(crate) fn moved_into(&self, mut other: Ring) -> Ring {
        for ticket in self.tickets() {
            let Some((slot, payload)) = self.message(ticket) else { continue };
            other.pushed = self.pushed - u64::from(self.next_ticket().since(ticket));
            if !other.has_room(payload.len()) {
                other.make_room(payload.len());
            }
            other.push(slot.seq, slot.created, payload, slot.flags, slot.marks);
            match other.slot_mut(ticket) {
                Some(moved) => *moved = *slot,
                None => invariant!("a message that was just moved is there"),
            }
        }
        other.continuing(self.pushed)
    }

    /// Makes it one of at least so many slots. What is there stays, under its tickets.
    pub(crate) fn grow(&mut self, slots: usize) {
        if places(slots) > self.cells.len() {
            self.resize(slots);
        }
    }

    /// Makes it one of so many slots. The newest messages stay, under their tickets.
    pub(crate) fn resize(&mut self, slots: usize) {
        let new = Ring::of(slots, self.far.emptied()).continuing(self.pushed);
        let old = std::mem::replace(self, new);
        let mut moves = Vec::new();
        for ticket in self.tickets() {
            let from = old.index(ticket);
            if let Some(cell) = old.cell(ticket) {
                let to = self.index(ticket);
                self.cells[to] = *cell;
                moves.push((from, to));
            }
        }
        let slots = self.cells.len();
        self.far.take_over(old.far, &moves, slots);
    }

    /// Tickets of messages that would not stay if it had so many slots, the oldest first.
    pub(crate) fn tickets_beyond(&self, slots: usize) -> impl Iterator<Item = Ticket> + use<> {
        self.tickets().take(self.cells.len().saturating_sub(places(slots)))
    }

    /// The next ticket.
    #[inline]
    pub(crate) fn next_ticket(&self) -> Ticket {
        Ticket(self.pushed as u32)
    }

    /// How many messages have been pushed, here and where it continues.
    pub(crate) fn pushed(&self) -> u64 {
        self.pushed
    }

    /// The bytes that count for it: what is reserved, or what is there.
    pub(crate) fn bytes(&self) -> usize {
        self.far.bytes(self.cells.len()) + size_of::<Cell>() * self.cells.len()
    }

    /// The same for a ring of best effort, beyond the slots that it has at least.
    pub(crate) fn loose_bytes(&self) -> usize {
        match &self.far {
            Far::Reserved(_) => 0,
            Far::Loose(loose) => self.bytes() - size_of::<Cell>() * loose.least,
        }
    }

    /// Whether the next message can be stored without more room, if its payload has this length.
    #[inline]
    pub(crate) fn has_room(&self, length: usize) -> bool {
        length <= NEAR_BYTES.max(self.far.room())
    }

    /// Makes room for the payload of the next message.
    pub(crate) fn make_room(&mut self, length: usize) {
        let ticket = self.next_ticket();
        self.far.make_room(self.index(ticket), ticket, length, self.cells.len());
    }

    /// Forgets a message of best effort whose payload does not lie beside its slot. Returns the bytes that this frees, and what is left
    /// to know of it, if it was still there.
    pub(crate) fn evict(&mut self, ticket: Ticket) -> (usize, Option<Overwritten>) {
        let index = self.index(ticket);
        let freed = self.far.evict(index, ticket);
        (freed, if freed > 0 { self.forget(ticket) } else { None })
    }

    /// Forgets a message. Returns what is left to know of it, if it was still there.
    pub(crate) fn forget(&mut self, ticket: Ticket) -> Option<Overwritten> {
        let slot = self.slot_mut(ticket)?;
        slot.used = false;
        Some(Overwritten::of(slot))
    }

    /// Whether [`Ring::evict`] would free something.
    pub(crate) fn holds(&self, ticket: Ticket) -> bool {
        self.far.holds(self.index(ticket), ticket)
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
    ) -> (Ticket, Overwritten) {
        let ticket = self.next_ticket();
        self.pushed += 1;
        let index = self.index(ticket);
        let at = if Mutant::MixPayloads.is_on() { 0 } else { index };
        match self.cells[at].near.get_mut(..payload.len()) {
            Some(near) => near.copy_from_slice(payload),
            None => self.write_far(at, ticket, payload),
        }
        let length = payload.len() as u32;
        let slot = &mut self.cells[index].slot;
        let nothing = Overwritten { seq: 0, flags: SlotFlags::DISPATCHED, lineage: NO_LINEAGE };
        let old = if slot.used { Overwritten::of(slot) } else { nothing };
        *slot = Slot { seq, created, ticket, length, flags, used: true, marks, ..Slot::EMPTY };
        (ticket, old)
    }

    /// Stores a message that is short and overwrites none that anybody still needs, and returns its ticket. `None`: it is not so, and
    /// nothing was done.
    #[inline]
    pub(crate) fn push_plain(&mut self, seq: u64, created: Time, payload: &[u8]) -> Option<Ticket> {
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
    pub(crate) fn plain(&mut self, ticket: Ticket) -> Option<(&mut Slot, &[u8])> {
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
    pub(crate) fn slot(&self, ticket: Ticket) -> Option<&Slot> {
        Some(&self.cell(ticket)?.slot)
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn slot_mut(&mut self, ticket: Ticket) -> Option<&mut Slot> {
        let index = self.index(ticket);
        let slot = &mut self.cells.get_mut(index)?.slot;
        (slot.used && slot.ticket == ticket).then_some(slot)
    }

    /// The slot of a ticket with its payload.
    #[inline]
    pub(crate) fn message(&self, ticket: Ticket) -> Option<(&Slot, &[u8])> {
        let Cell { slot, near } = self.cell(ticket)?;
        let length = slot.length as usize;
        let payload = near.get(..length);
        Some((slot, payload.unwrap_or_else(|| self.far.payload(self.index(ticket), length))))
    }

    /// The ticket of a message by its number, the newest first.
    pub(crate) fn find(&self, seq: u64) -> Option<Ticket> {
        self.tickets().rev().find(|&ticket| self.slot(ticket).is_some_and(|slot| slot.seq == seq))
    }

    /// All tickets that may still be there, the oldest first.
    pub(crate) fn tickets(&self) -> impl DoubleEndedIterator<Item = Ticket> + use<> {
        let (count, next) = (self.cells.len() as u32, self.next_ticket());
        (1..=count).rev().map(move |back| next.before(back))
    }

    /// The tickets from this one on that may still be there, the oldest first.
    pub(crate) fn tickets_from(&self, first: Ticket) -> impl Iterator<Item = Ticket> + use<> {
        let next = self.next_ticket();
        let count = next.since(first).min(self.cells.len() as u32);
        (1..=count).rev().map(move |back| next.before(back))
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
            && let Some(far) = self.far.place(index)
        {
            fetch::<1, _>(far);
        }
    }

    /// Every message that is there.
    pub(crate) fn slots_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.cells.iter_mut().map(|cell| &mut cell.slot).filter(|slot| slot.used)
    }

    #[inline]
    fn cell(&self, ticket: Ticket) -> Option<&Cell> {
        let found = self.cells.get(self.index(ticket));
        found.filter(|Cell { slot, .. }| slot.used && slot.ticket == ticket)
    }

    #[inline]
    fn index(&self, ticket: Ticket) -> usize {
        ticket.0 as usize & (self.cells.len() - 1)
    }

    /// Writes a payload that does not fit beside its slot. Whoever stores it has made room; where that has been left out, it is made.
    fn write_far(&mut self, index: usize, ticket: Ticket, payload: &[u8]) {
        if !self.far.fits(index, ticket, payload.len()) {
            self.far.make_room(index, ticket, payload.len(), self.cells.len());
        }
        self.far.write(index, payload);
    }
}

/// How many slots a ring has for so many messages.
fn places(messages: usize) -> usize {
    messages.max(2).next_power_of_two()
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
        assert_eq!(tickets, [u32::MAX - 1, u32::MAX, 0, 1].map(Ticket));
        let seen: Vec<_> = ring.tickets().filter_map(|t| ring.slot(t)).map(|slot| slot.seq).collect();
        assert_eq!(seen, [0, 1, 2, 3], "oldest first, across the wrap");
    }

    #[test]
    fn a_ring_that_grows_keeps_what_it_has_under_its_tickets() {
        for (length, mut ring) in [
            (20, Ring::new(4)),
            (NEAR_BYTES + 20, Ring::reserved(4, NEAR_BYTES + 20)),
            (NEAR_BYTES + 20, Ring::loose(4, 16)),
        ] {
            ring.pushed = u64::from(u32::MAX) - 5;
            for seq in 0..9 {
                ring.push(seq, Time(seq), &vec![seq as u8; length], SlotFlags::NONE, MessageFlags::NONE);
            }
            let before: Vec<Ticket> = ring.tickets().collect();
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
        let mut ring = Ring::reserved(2, 1000);
        let (small, _) = ring.push(0, Time(0), b"small", SlotFlags::NONE, MessageFlags::NONE);
        let bytes = ring.bytes();
        assert_eq!([ring.has_room(NEAR_BYTES), ring.has_room(100)], [true, false]);
        ring.make_room(100);
        let (large, _) = ring.push(1, Time(1), &[7; 100], SlotFlags::NONE, MessageFlags::NONE);
        assert_eq!(ring.message(small).unwrap().1, b"small");
        assert_eq!(ring.message(large).unwrap().1, [7; 100]);
        let (larger, _) = ring.push(2, Time(2), &[8; 1000], SlotFlags::NONE, MessageFlags::NONE);
        assert_eq!(ring.message(large).unwrap().1, [7; 100]);
        assert_eq!(ring.message(larger).unwrap().1, [8; 1000]);
        assert_eq!(
            (ring.bytes(), bytes),
            (2 * (128 + 1008), 2 * (128 + 1008)),
            "what is reserved is all it takes"
        );
        assert_eq!([ring.raised_bytes(1000), ring.raised_bytes(2000)], [0, 2 * (2000 - 1008)]);
        assert_eq!(size_of::<Cell>(), 128, "two cache lines");
    }

    #[test]
    fn best_effort_takes_what_it_is_long_and_gives_it_back() {
        let mut ring = Ring::loose(4, 16);
        let push = |ring: &mut Ring, seq: u64, length: usize| {
            ring.push(seq, Time(seq), &vec![seq as u8; length], SlotFlags::NONE, MessageFlags::NONE).0
        };
        let tickets: Vec<Ticket> =
            [500, 20, 1_000].iter().zip(0..).map(|(length, seq)| push(&mut ring, seq, *length)).collect();
        assert_eq!(ring.loose_bytes(), 1_500);
        assert_eq!([ring.evict(tickets[1]).0, ring.evict(tickets[0]).0], [0, 500]);
        assert!(ring.slot(tickets[0]).is_none() && ring.slot(tickets[1]).is_some());
        assert_eq!(ring.message(tickets[2]).unwrap().1, [2; 1_000]);
        ring.grow(16);
        assert_eq!(ring.loose_bytes(), 1_000 + 12 * 128);
        let newer: Vec<Ticket> = (3..7).map(|seq| push(&mut ring, seq, 100)).collect();
        assert_eq!(ring.tickets_beyond(4).filter(|ticket| ring.slot(*ticket).is_some()).count(), 2);
        ring.resize(4);
        assert_eq!(ring.loose_bytes(), 400);
        assert_eq!(ring.message(newer[0]).unwrap().1, [3; 100]);
        // What lies beside its slot frees nothing; what it has taken the place of, does so when it is asked for.
        push(&mut ring, 7, 10);
        assert_eq!((ring.evict(newer[0]).0, ring.evict(newer[0]).0, ring.loose_bytes()), (100, 0, 300));
    }
}
