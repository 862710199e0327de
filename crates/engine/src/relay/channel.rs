//! One channel: what waits in it, and how far it is from its end.

use super::WINDOW_BYTES;
use crate::driving::DRAINED_BYTES;
use contract::{Span, Time};
use wire::{Effects, Frame, LinkId, Outbox};

/// A client that cannot reach the primary, at either broker.
#[derive(Clone)]
pub(super) struct Channel {
    /// What it calls itself.
    pub(super) client: Box<str>,
    pub(super) since: Time,
    /// Its bytes so far, both ways.
    pub(super) bytes: u64,
    /// Its connection, at the backup, until that is gone.
    pub(super) link: Option<LinkId>,
    /// At the primary: the broker knows the link, and has to be told when it is gone.
    pub(super) known: bool,
    /// For the other broker.
    pub(super) out: Outbox,
    /// Bytes that the other broker has room for.
    pub(super) room: usize,
    /// What came from it and has no place yet.
    pub(super) came: Vec<u8>,
    /// There is more of that than at the last look.
    pub(super) fresh: bool,
    /// Bytes that came and for which the other broker has not got room again, and those of them for which it is due.
    pub(super) owed: usize,
    pub(super) room_due: usize,
    /// It has its turn to send.
    pub(super) called: bool,
    congested: bool,
    /// Nothing more is written here; the other broker is told when what waits has left.
    pub(super) ending: bool,
    /// How long that may take.
    pub(super) end_by: Time,
    pub(super) end_told: bool,
    pub(super) end_heard: bool,
}

impl Channel {
    pub(super) fn new(now: Time, client: &str, link: Option<LinkId>) -> Channel {
        Channel {
            client: client.into(),
            since: now,
            bytes: 0,
            link,
            known: false,
            out: Outbox::default(),
            room: WINDOW_BYTES,
            came: Vec::new(),
            fresh: false,
            owed: 0,
            room_due: 0,
            called: false,
            congested: false,
            ending: false,
            end_by: Time::NEVER,
            end_told: false,
            end_heard: false,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        !self.ending && !self.end_heard
    }

    /// Sends what is due, and so many bytes of what waits. Returns how many those were.
    pub(super) fn send(&mut self, channel: u32, pair: LinkId, most: usize, net: &mut impl Effects) -> usize {
        self.congested |= self.out.len() > DRAINED_BYTES;
        if self.room_due > 0 {
            let bytes = std::mem::take(&mut self.room_due) as u32;
            net.send(pair, &Frame::RelayRoom { channel, bytes });
        }
        let mut sent = 0;
        let most = most.min(self.room);
        if most > 0 && !self.out.is_empty() {
            let bytes = self.out.unsent();
            let bytes = bytes.get(..most).unwrap_or(bytes);
            net.send(pair, &Frame::Relay { channel, bytes });
            sent = bytes.len();
            self.out.consume(sent);
            self.room -= sent;
        }
        if self.ending && self.out.is_empty() && !std::mem::replace(&mut self.end_told, true) {
            net.send(pair, &Frame::RelayEnd { channel });
        }
        sent
    }

    /// Whether it would send if the link took more.
    pub(super) fn wants_to_send(&self) -> bool {
        self.room > 0 && !self.out.is_empty()
    }

    /// Whether a congestion is over.
    pub(super) fn has_drained(&mut self) -> bool {
        let drained = self.congested && self.out.len() <= DRAINED_BYTES;
        self.congested &= !drained;
        drained
    }

    /// What waits is given up if it has waited for long enough since the channel began to end. Returns whether it is.
    pub(super) fn gives_up(&mut self, now: Time, within: Span) -> bool {
        if !self.ending || self.end_told {
            return false;
        }
        // A clock that went back must not lengthen it.
        self.end_by = self.end_by.min(now + within);
        let late = now >= self.end_by;
        if late {
            self.out = Outbox::default();
        }
        late
    }
}
