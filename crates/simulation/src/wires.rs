//! A node's links where nobody is at the other end: what it writes and asks for stays there until somebody looks.

use contract::Span;
use std::collections::BTreeSet;
use wire::{
    Effects, Evidence, Farewell, FarewellReason, Frame, LinkId, Mark, MarkKind, Message, MessageKind, Order,
    Outbox, PeerIndex,
};

/// Links that keep what was written, and what else a node asked for. They know of a link when something is written there.
#[derive(Clone, Default)]
pub struct Wires {
    /// What was written, by the number of the link.
    boxes: Vec<Outbox>,
    /// Links that the node has closed or hung up, as often as it did.
    pub ended: Vec<Ended>,
    /// Links of which it wants to see again what it has not consumed.
    pub again: Vec<LinkId>,
    /// Links of which it wants to see nothing further until then.
    pub held: BTreeSet<LinkId>,
    /// Peers to which it wants a connection.
    pub dials: Vec<PeerIndex>,
    /// What heartbeats say.
    pub evidence: Option<Evidence>,
}

/// A link that a node does not want any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Which one.
    pub link: LinkId,
    /// What it says in farewell; nothing where it hangs up.
    pub farewell: Option<(FarewellReason, String)>,
}

impl Wires {
    /// What was written on a link and nobody has taken yet.
    #[inline]
    pub fn outbox(&mut self, link: LinkId) -> &mut Outbox {
        let index = link.0 as usize;
        if index >= self.boxes.len() {
            self.grow(index);
        }
        &mut self.boxes[index]
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, index: usize) {
        self.boxes.resize_with(index + 1, Outbox::default);
    }

    /// Takes what was written on a link.
    pub fn take(&mut self, link: LinkId) -> Vec<u8> {
        let outbox = self.outbox(link);
        let mut bytes = Vec::new();
        outbox.copy_to(&mut bytes, usize::MAX);
        outbox.consume(bytes.len());
        bytes
    }

    /// Takes away all that waits on all links, as sockets do that have room. Returns how many bytes it was.
    pub fn drain(&mut self) -> usize {
        let mut taken = 0;
        for outbox in &mut self.boxes {
            let bytes = outbox.len();
            outbox.consume(bytes);
            taken += bytes;
        }
        taken
    }

    /// A link is gone with all that waits there.
    pub fn forget(&mut self, link: LinkId) {
        *self.outbox(link) = Outbox::default();
    }

    /// The links that the node has closed or hung up since somebody looked.
    pub fn take_ended(&mut self) -> Vec<LinkId> {
        std::mem::take(&mut self.ended).into_iter().map(|ended| ended.link).collect()
    }
}

impl Effects for Wires {
    fn send(&mut self, link: LinkId, frame: &Frame<'_>) {
        self.outbox(link).push(frame);
    }

    #[inline]
    fn send_message(&mut self, link: LinkId, kind: MessageKind, message: &Message<'_>) {
        self.outbox(link).push_message(kind, message);
    }

    #[inline]
    fn offer_message(&mut self, link: LinkId, kind: MessageKind, message: &Message<'_>, full: usize) -> bool {
        let outbox = self.outbox(link);
        let sends = outbox.len() < full;
        if sends {
            outbox.push_message(kind, message);
        }
        sends
    }

    fn send_mark(&mut self, link: LinkId, kind: MarkKind, mark: Mark) {
        self.outbox(link).push_mark(kind, mark);
    }

    #[inline]
    fn backlog(&self, link: LinkId) -> usize {
        self.boxes.get(link.0 as usize).map_or(0, Outbox::len)
    }

    fn shed(&mut self, _link: LinkId, _keep: usize) -> u64 {
        0
    }

    fn taken(&self, _link: LinkId) -> u64 {
        0
    }

    fn hold_back(&mut self, _link: LinkId, _bytes: usize) {}

    fn dial(&mut self, peer: PeerIndex, _within: Span) {
        self.dials.push(peer);
    }

    fn close(&mut self, link: LinkId, farewell: &Farewell<'_>) {
        let farewell = Some((farewell.reason, farewell.text.to_owned()));
        self.ended.push(Ended { link, farewell });
    }

    fn append(&mut self, link: LinkId, _order: Order, write: impl FnOnce(&mut Vec<u8>)) {
        self.outbox(link).append(write);
    }

    fn present_again(&mut self, link: LinkId) {
        self.again.push(link);
    }

    fn hold(&mut self, link: LinkId) {
        self.held.insert(link);
    }

    fn evidence(&self) -> Option<Evidence> {
        self.evidence
    }

    fn hang_up(&mut self, link: LinkId) {
        self.ended.push(Ended { link, farewell: None });
    }
}
