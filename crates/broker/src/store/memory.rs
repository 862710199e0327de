//! Memory for messages: what contracts have, and what is left for best effort.
//!
//! The problem: a message that is promised must find room, whatever others publish. The idea: a contract has the memory for its ring
//! reserved when it is admitted, for as many messages as it needs and as long as they may be, or is refused. What has no loss bound
//! shares what contracts leave, by its real bytes; where that is not enough, the oldest such message goes, is counted, and its
//! publisher is told.
//!
//! **The invariant**: what is reserved, what best effort has at least, what it has beyond and what names take are together no more than
//! [`Limits::messages`](crate::Limits::messages) allows. A contract never waits for best effort: what it takes over, that gives up at
//! once.
//!
//! Left to others: the memory of subscribers (`share.rs` of sessions), and what the driver itself needs.

use crate::settings::{Bound, Settings};
use crate::store::ring::Ring;
use contract::{Contract, Loss, StreamId, Ticket};
use std::collections::VecDeque;
use std::fmt;

/// What a stream takes besides its ring: itself, its record, its topic and their names. Somewhat more than measured.
pub(crate) const STREAM_BYTES: usize = 1_024;
/// Topics up to this length are among those.
const NAME_BYTES: usize = 128;
/// So often the name of a topic is kept: by the table, by itself, and by whoever serves other protocols.
const NAME_COPIES: usize = 5;
/// Of the bytes for messages, contracts leave one in so many to best effort.
const LEFT_ALWAYS: usize = 16;
/// Of the bytes for messages, streams of best effort may have one in so many for what they have at least.
const FIXED_AT_MOST: usize = 4;

/// So few places are not worth looking at.
pub(crate) const ORDER_LEAST: usize = 256;

/// What the name of a topic takes besides [`STREAM_BYTES`].
pub(crate) fn name_bytes(topic: &str) -> usize {
    NAME_COPIES * topic.len().saturating_sub(NAME_BYTES)
}

/// Who has how many bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    /// What contracts have reserved.
    pub(crate) reserved: usize,
    /// What streams of best effort have at least.
    pub(crate) fixed: usize,
    /// What they have beyond.
    pub(crate) loose: usize,
    /// What long names of topics take.
    pub(crate) names: usize,
    /// Messages of best effort that take memory of their own, by stream and ticket, the oldest first. Some are not there any more.
    pub(crate) order: VecDeque<(StreamId, Ticket)>,
    /// How many places there are when those of messages that have gone are forgotten.
    pub(crate) tidy_at: usize,
    /// Streams whose publishers have to be told.
    pub(crate) untold: Vec<StreamId>,
    /// Messages under a loss bound for which there was no room.
    pub(crate) unstored: u64,
    /// Messages of best effort for which there was none, and those that had to go for newer ones.
    pub(crate) squeezed: u64,
}

impl Memory {
    /// All together.
    pub(crate) fn used(&self) -> usize {
        self.reserved + self.fixed + self.loose + self.names
    }

    /// What is left for further contracts.
    pub(crate) fn left_for_contracts(&self, bound: &Bound) -> usize {
        (bound.bytes - bound.bytes / LEFT_ALWAYS).saturating_sub(self.reserved + self.fixed + self.names)
    }

    /// What is left for further streams of best effort.
    pub(crate) fn left_for_streams(&self, bound: &Bound) -> usize {
        let most = (bound.bytes / FIXED_AT_MOST).saturating_sub(self.fixed + self.names);
        most.min(self.left_for_messages(bound))
    }

    /// What messages of best effort may take, beyond what their streams have at least.
    pub(crate) fn left_for_messages(&self, bound: &Bound) -> usize {
        bound.bytes.saturating_sub(self.reserved + self.fixed + self.names)
    }

    /// A ring goes, with its stream.
    pub(crate) fn give_back(&mut self, ring: &Ring) {
        if ring.is_reserved() {
            self.reserved -= ring.bytes() + STREAM_BYTES;
        } else {
            self.fixed -= ring.bytes() - ring.loose_bytes() + STREAM_BYTES;
            self.loose -= ring.loose_bytes();
        }
    }
}

/// Why there is no memory for a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shortage {
    /// It is longer than what was reserved.
    Longer { payload: usize, reserved: usize, needed: usize, left: usize, bound: Bound },
    /// It is of best effort, and longer than all that is left for that.
    TooLong { payload: usize, left: usize, bound: Bound },
    /// It is of best effort, and had to go for newer ones.
    Squeezed { left: usize, bound: Bound },
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shortage::Longer { payload, reserved, needed, left, bound } => write!(
                f,
                "a message of {payload} bytes is longer than the {reserved} that are reserved for each, and of the {needed} bytes \
                 more that its ring would need, {left} are left ({bound}): state the size in its contract (size = {payload}), which is \
                 then admitted with its memory or refused, or raise {}",
                bound.key
            ),
            Shortage::TooLong { payload, left, bound } => write!(
                f,
                "a message of {payload} bytes without a loss bound does not fit into the {left} bytes that contracts leave of \
                 {bound}: send it in parts, give its topic a contract with its size, or raise {}",
                bound.key
            ),
            Shortage::Squeezed { left, bound } => write!(
                f,
                "what has no loss bound shares the {left} bytes that contracts leave of {bound}, and newer messages took its place: \
                 publish less at a time, give its topic a contract, or raise {}",
                bound.key
            ),
        }
    }
}

/// What a stream needs of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// A contract: so many messages, of so many bytes each.
    Reserved { slots: usize, payload: usize },
    /// Best effort: so many at least, and at most.
    Loose { least: usize, most: usize },
}

impl Need {
    /// What a stream of this contract needs, where so many of its messages may be under way.
    pub(crate) fn of(contract: &Contract, slots: usize, all_kept: bool, settings: &Settings) -> Need {
        let limits = &settings.limits;
        if contract.loss == Loss::Unbounded {
            let least = limits.ring_slots_min.max(contract.retain as usize + 2).min(slots);
            let all_kept = all_kept || contract.confirm || settings.copies_everything();
            return Need::Loose { least: if all_kept { slots } else { least }, most: slots };
        }
        let stated = contract.size as usize;
        Need::Reserved { slots, payload: if stated == 0 { limits.size_assumed } else { stated } }
    }

    /// The ring.
    pub(crate) fn ring(self) -> Ring {
        match self {
            Need::Reserved { slots, payload } => Ring::reserved(slots, payload),
            Need::Loose { least, most } => Ring::loose(least, most),
        }
    }

    /// What has to be there when the stream begins.
    pub(crate) fn bytes(self) -> usize {
        let ring = match self {
            Need::Reserved { slots, payload } => Ring::reserved_bytes(slots, payload),
            Need::Loose { least, .. } => Ring::reserved_bytes(least, 0),
        };
        ring.saturating_add(STREAM_BYTES)
    }
}

impl Need {
    /// The same for a stream whose messages lie in this ring already.
    pub(crate) fn with(self, ring: &Ring) -> Need {
        match self {
            Need::Reserved { slots, payload } => {
                let longest = if ring.is_reserved() { ring.payload_max() } else { ring.longest() };
                Need::Reserved { slots: slots.max(ring.slots()), payload: payload.max(longest) }
            }
            loose @ Need::Loose { .. } => loose,
        }
    }

    /// How many bytes more have to be reserved for a stream whose ring is this one, where it needed something else until now. What it
    /// lacked already it goes on lacking, unless it needs more than that.
    pub(crate) fn growth(self, before: Need, ring: &Ring) -> usize {
        let more = self.more_than(ring);
        if more > before.more_than(ring) { more } else { 0 }
    }

    pub(crate) fn more_than(self, ring: &Ring) -> usize {
        match self.with(ring) {
            Need::Loose { .. } => 0,
            need if ring.is_reserved() => need.bytes().saturating_sub(ring.bytes() + STREAM_BYTES),
            need => need.bytes(),
        }
    }
}
