//! Payloads that are too long to lie beside their slots.
//!
//! Those of a contract lie in one piece, in which every slot has the same room, so that a message allocates nothing. How long they may
//! be was said when the stream was admitted, and the piece never takes more than was reserved for it then. Those of best effort each
//! take what they are long, in a piece of their own, since nothing is reserved for them.

use contract::{Mutant, Ticket, invariant};

/// The payloads of one ring.
#[derive(Clone, Debug)]
pub(crate) enum Far {
    Reserved(Reserved),
    Loose(Box<Loose>),
}

/// Those of a contract.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reserved {
    bytes: Box<[u8]>,
    /// The bytes of room for each: none until there is one, then that of the longest seen.
    room: u32,
    /// The most that this may become.
    most: u32,
}

/// Those of best effort.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loose {
    /// One for each slot; none until there is one.
    pieces: Box<[Piece]>,
    /// What they take together.
    bytes: usize,
    /// As many slots as the ring has at least, and at most.
    pub(crate) least: usize,
    pub(crate) most: usize,
}

#[derive(Clone, Debug, Default)]
struct Piece {
    ticket: Ticket,
    /// Its room is what counts; a payload that is hardly shorter than the one before takes its place.
    bytes: Vec<u8>,
}

/// What is reserved for each payload begins and ends at so many bytes.
const STEP: usize = 16;

/// The bytes that each slot needs besides itself for payloads of up to this length, of which so many lie beside it.
pub(crate) fn room_for(length: usize, near: usize) -> usize {
    if length <= near { 0 } else { length.next_multiple_of(STEP) }
}

impl Far {
    /// For payloads of a contract, each with this room.
    pub(crate) fn reserved(room: usize) -> Far {
        Far::Reserved(Reserved { most: room as u32, ..Reserved::default() })
    }

    /// For payloads of best effort.
    pub(crate) fn loose(least: usize, most: usize) -> Far {
        Far::Loose(Box::new(Loose { least, most, ..Loose::default() }))
    }

    /// The same, empty.
    pub(crate) fn emptied(&self) -> Far {
        match self {
            Far::Reserved(reserved) => Far::reserved(reserved.most as usize),
            Far::Loose(loose) => Far::loose(loose.least, loose.most),
        }
    }

    /// What counts for this ring, beside its slots: what is reserved, or what is there.
    pub(crate) fn bytes(&self, slots: usize) -> usize {
        match self {
            Far::Reserved(reserved) => reserved.most as usize * slots,
            Far::Loose(loose) => loose.bytes,
        }
    }

    /// The bytes between two payloads that lie in one piece.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        match self {
            Far::Reserved(reserved) => reserved.room as usize,
            Far::Loose(_) => 0,
        }
    }

    /// The payload of a slot, which is of this length.
    #[inline]
    pub(crate) fn payload(&self, index: usize, length: usize) -> &[u8] {
        match self {
            Far::Reserved(reserved) => &reserved.bytes[index * reserved.room as usize..][..length],
            Far::Loose(loose) => match loose.pieces.get(index).and_then(|it| it.bytes.get(..length)) {
                Some(payload) => payload,
                None if Mutant::MixPayloads.is_on() => &[],
                None => invariant!("a message that is there has its payload", &[]),
            },
        }
    }

    /// Where the payload of a slot begins, to be fetched.
    pub(crate) fn place(&self, index: usize) -> Option<&u8> {
        match self {
            Far::Reserved(reserved) => reserved.bytes.get(index * reserved.room as usize),
            Far::Loose(_) => None,
        }
    }

    /// Makes room for a payload of this length at a slot of a ring that has so many.
    pub(crate) fn make_room(&mut self, index: usize, ticket: Ticket, length: usize, slots: usize) {
        match self {
            Far::Reserved(reserved) => reserved.widen(length, slots),
            Far::Loose(loose) => loose.prepare(index, ticket, length, slots),
        }
    }

    /// Writes a payload, for which there must be room, at a slot.
    pub(crate) fn write(&mut self, index: usize, payload: &[u8]) {
        match self {
            Far::Reserved(reserved) => {
                let room = reserved.room as usize;
                reserved.bytes[index * room..][..payload.len()].copy_from_slice(payload);
            }
            Far::Loose(loose) => loose.pieces[index].bytes.copy_from_slice(payload),
        }
    }

    /// Whether a payload of this length can be written at a slot as it is.
    #[inline]
    pub(crate) fn fits(&self, index: usize, ticket: Ticket, length: usize) -> bool {
        match self {
            Far::Reserved(reserved) => length <= reserved.room as usize,
            Far::Loose(loose) => loose
                .pieces
                .get(index)
                .is_some_and(|piece| piece.ticket == ticket && piece.bytes.len() == length),
        }
    }

    /// Takes over what another one has for these slots, each given as it was and as it is. This one is for so many slots.
    pub(crate) fn take_over(&mut self, old: Far, moves: &[(usize, usize)], slots: usize) {
        match (self, old) {
            (Far::Reserved(new), Far::Reserved(old)) => {
                let room = old.room as usize;
                (new.room, new.most) = (old.room, old.most);
                new.bytes = vec![0; room * slots].into_boxed_slice();
                for &(from, to) in moves {
                    new.bytes[to * room..][..room].copy_from_slice(&old.bytes[from * room..][..room]);
                }
            }
            (Far::Loose(new), Far::Loose(mut old)) => {
                if old.pieces.is_empty() {
                    return;
                }
                new.pieces = vec![Piece::default(); slots].into_boxed_slice();
                for &(from, to) in moves {
                    new.pieces[to] = std::mem::take(&mut old.pieces[from]);
                    new.bytes += new.pieces[to].bytes.capacity();
                }
            }
            _ => invariant!("a ring that changes its size stays what it is"),
        }
    }

    /// Forgets the payload of this ticket. Returns what it took; nothing if it is not there any more.
    pub(crate) fn evict(&mut self, index: usize, ticket: Ticket) -> usize {
        let Far::Loose(loose) = self else { return 0 };
        let Some(piece) = loose.pieces.get_mut(index).filter(|piece| piece.ticket == ticket) else {
            return 0;
        };
        let freed = std::mem::take(&mut piece.bytes).capacity();
        loose.bytes -= freed;
        freed
    }

    /// Whether the payload of this ticket is there.
    pub(crate) fn holds(&self, index: usize, ticket: Ticket) -> bool {
        let Far::Loose(loose) = self else { return false };
        loose.pieces.get(index).is_some_and(|piece| piece.ticket == ticket && !piece.bytes.is_empty())
    }
}

impl Reserved {
    /// The most room of each payload.
    pub(crate) fn most(&self) -> usize {
        self.most as usize
    }

    /// More is reserved from now on.
    pub(crate) fn raise(&mut self, most: usize) {
        self.most = self.most.max(most as u32);
    }

    /// Somewhat more than is needed now, so that payloads which grow slowly are not moved each time.
    fn widen(&mut self, length: usize, slots: usize) {
        let old = self.room as usize;
        let wanted = (length + length / 8).next_multiple_of(4 * STEP);
        let room = wanted.min(self.most as usize).max(length.next_multiple_of(STEP));
        if room <= old {
            return;
        }
        let mut bytes = vec![0; room * slots].into_boxed_slice();
        for (to, from) in bytes.chunks_exact_mut(room).zip(self.bytes.chunks_exact(old.max(1))) {
            to[..old].copy_from_slice(from);
        }
        (self.bytes, self.room) = (bytes, room as u32);
    }
}

impl Loose {
    fn prepare(&mut self, index: usize, ticket: Ticket, length: usize, slots: usize) {
        if self.pieces.len() != slots {
            self.pieces = vec![Piece::default(); slots].into_boxed_slice();
        }
        let piece = &mut self.pieces[index];
        let room = piece.bytes.capacity();
        piece.ticket = ticket;
        // A payload like the one before allocates nothing.
        if (length..=2 * length).contains(&room) {
            return piece.bytes.resize(length, 0);
        }
        piece.bytes = Vec::new();
        piece.bytes.reserve_exact(length);
        piece.bytes.resize(length, 0);
        self.bytes = self.bytes - room + piece.bytes.capacity();
    }
}
