//! What clients ask of a broker besides carrying their messages, so that none of it holds up messages.
//!
//! The problem: registrations, subscriptions, greetings and questions come in any number, and each takes as long as tens of messages
//! or more. The idea: they are counted in units of work, and one turn of the driver has [`UNITS_PER_SLICE`] of them. Whoever comes when
//! they are used up, or while a command goes on that concerns thousands of topics, waits with everything that follows on its
//! connection, so that what a client says is done in its order. The driver keeps the bytes. The next turn begins at once, with the
//! messages of all others, and those that waited longest go on.
//!
//! Not counted: what the other broker of the pair says, which is bounded where it is said, and messages.

use broker::UNITS_PER_SLICE;
use std::collections::{BTreeSet, VecDeque};
use wire::{Carry, Frame, LinkId, Register};

/// Connections that wait and are looked at in one turn. A look copies what waits on the connection.
const LOOKED_AT_PER_TURN: usize = 16;

/// What commands may still take of this turn, and who waits for the next.
#[derive(Clone, Debug)]
pub(crate) struct Commands {
    left: usize,
    /// In the order in which they came. There are no more than connections.
    waiting: VecDeque<LinkId>,
    waits: BTreeSet<LinkId>,
}

impl Commands {
    pub(crate) fn new() -> Commands {
        Commands { left: UNITS_PER_SLICE, waiting: VecDeque::new(), waits: BTreeSet::new() }
    }

    /// A turn begins.
    pub(crate) fn begin_turn(&mut self) {
        self.left = UNITS_PER_SLICE;
    }

    /// Whether another command may be taken in this turn.
    #[inline]
    pub(crate) fn have_room(&self) -> bool {
        self.left > 0
    }

    /// A command has taken so much.
    pub(crate) fn spend(&mut self, units: usize) {
        self.left = self.left.saturating_sub(units);
    }

    /// Whether anybody waits.
    pub(crate) fn wait(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// A connection's next command has to wait.
    pub(crate) fn delay(&mut self, link: LinkId) {
        if self.waits.insert(link) {
            self.waiting.push_back(link);
        }
    }

    /// Those whose turn it is now.
    pub(crate) fn next(&mut self) -> Vec<LinkId> {
        let next: Vec<LinkId> = self.waiting.drain(..self.waiting.len().min(LOOKED_AT_PER_TURN)).collect();
        next.iter().for_each(|link| _ = self.waits.remove(link));
        next
    }

    /// A connection is gone.
    pub(crate) fn forget(&mut self, link: LinkId) {
        if self.waits.remove(&link) {
            self.waiting.retain(|other| *other != link);
        }
    }
}

/// What a client asks, by what it must be allowed for it.
pub(crate) enum Command<'f> {
    /// Everybody may.
    Free,
    /// To publish on a topic, and to state a contract where there is one.
    Register(&'f Register<'f>),
    /// To publish on a topic for publishers of another site.
    Carry(&'f Carry<'f>),
    /// To hear what others subscribe.
    AskInterest,
    /// To subscribe what this filter matches.
    Subscribe(&'f str),
    /// To see how the broker is, and who is connected.
    Look,
    /// To disconnect a client.
    DropClient,
    /// To hand the reign over.
    Handover,
}

impl<'f> Command<'f> {
    /// Whether a frame is a command, where a client sends it, and which. Whoever adds a frame says it here.
    #[inline]
    pub(crate) fn of(frame: &'f Frame<'f>) -> Option<Command<'f>> {
        Some(match frame {
            Frame::Register(register) => Command::Register(register),
            Frame::Carry(carry) => Command::Carry(carry),
            Frame::AskInterest { .. } => Command::AskInterest,
            Frame::Subscribe { filter, .. } => Command::Subscribe(filter),
            Frame::StatusRequest { .. } | Frame::ClientsRequest { .. } => Command::Look,
            Frame::DropClient { .. } => Command::DropClient,
            Frame::Handover => Command::Handover,
            Frame::Hello { .. }
            | Frame::Unregister { .. }
            | Frame::Unsubscribe { .. }
            | Frame::Pace { .. }
            | Frame::Farewell { .. } => Command::Free,
            Frame::Reign { .. }
            | Frame::Verdict { .. }
            | Frame::Untaken { .. }
            | Frame::Announce { .. }
            | Frame::Retire { .. }
            | Frame::Interest { .. }
            | Frame::Published { .. }
            | Frame::Publish { .. }
            | Frame::Deliver { .. }
            | Frame::Replicate { .. }
            | Frame::Forward { .. }
            | Frame::Prune { .. }
            | Frame::Confirm { .. }
            | Frame::Subscribed { .. }
            | Frame::Shortfall { .. }
            | Frame::Received { .. }
            | Frame::Trouble { .. }
            | Frame::Session { .. }
            | Frame::Records { .. }
            | Frame::Memory { .. }
            | Frame::Join { .. }
            | Frame::JoinKnowing { .. }
            | Frame::Knows { .. }
            | Frame::Synced { .. }
            | Frame::Standby { .. }
            | Frame::Poll { .. }
            | Frame::PollReply { .. }
            | Frame::Heartbeats { .. }
            | Frame::ClockRequest { .. }
            | Frame::ClockReply { .. }
            | Frame::HandoverReply { .. }
            | Frame::TakeOver { .. }
            | Frame::RelayOpen { .. }
            | Frame::Relay { .. }
            | Frame::RelayRoom { .. }
            | Frame::RelayEnd { .. }
            | Frame::Clients { .. }
            | Frame::DropReply { .. }
            | Frame::NodeStatus { .. }
            | Frame::LevelStatuses { .. }
            | Frame::OperatorStatuses { .. }
            | Frame::StreamStatuses { .. } => return None,
        })
    }
}

/// Whether a frame is a command, where a client sends it.
#[inline]
pub(crate) fn is_command(frame: &Frame<'_>) -> bool {
    Command::of(frame).is_some()
}
