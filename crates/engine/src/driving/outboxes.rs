//! Connections of an invented network, one output buffer each, for whoever drives a node without sockets.

use contract::Span;
use wire::{
    Effects, Farewell, Frame, LinkId, Mark, MarkKind, Message, MessageKind, Order, Outbox, PeerIndex,
};

/// Output buffers by the number of their link. A link that is not there must not be used.
#[derive(Clone, Default)]
pub struct Outboxes {
    /// What was written.
    pub boxes: Vec<Outbox>,
    /// Links that the node has closed or hung up.
    pub ended: Vec<LinkId>,
}

impl Outboxes {
    /// The links `0..count`.
    pub fn new(count: u32) -> Outboxes {
        Outboxes { boxes: (0..count).map(|_| Outbox::default()).collect(), ended: Vec::new() }
    }

    /// Takes away all that waits, as sockets do that have room. Returns how many bytes it was.
    pub fn take(&mut self) -> usize {
        let mut taken = 0;
        for outbox in &mut self.boxes {
            let bytes = outbox.len();
            outbox.consume(bytes);
            taken += bytes;
        }
        taken
    }
}

impl Effects for Outboxes {
    fn send(&mut self, link: LinkId, frame: &Frame<'_>) {
        self.boxes[link.0 as usize].push(frame);
    }
    fn send_message(&mut self, link: LinkId, kind: MessageKind, message: &Message<'_>) {
        self.boxes[link.0 as usize].push_message(kind, message);
    }
    #[inline]
    fn offer_message(&mut self, link: LinkId, kind: MessageKind, message: &Message<'_>, full: usize) -> bool {
        let outbox = &mut self.boxes[link.0 as usize];
        let sends = outbox.len() < full;
        if sends {
            outbox.push_message(kind, message);
        }
        sends
    }
    fn send_mark(&mut self, link: LinkId, kind: MarkKind, mark: Mark) {
        self.boxes[link.0 as usize].push_mark(kind, mark);
    }
    fn backlog(&self, link: LinkId) -> usize {
        self.boxes[link.0 as usize].len()
    }
    fn shed(&mut self, _link: LinkId, _keep: usize) -> u64 {
        0
    }
    fn taken(&self, _link: LinkId) -> u64 {
        0
    }
    fn hold_back(&mut self, _link: LinkId, _bytes: usize) {}
    fn dial(&mut self, _peer: PeerIndex, _within: Span) {}
    fn close(&mut self, link: LinkId, _farewell: &Farewell<'_>) {
        self.ended.push(link);
    }
    fn append(&mut self, link: LinkId, _order: Order, write: impl FnOnce(&mut Vec<u8>)) {
        self.boxes[link.0 as usize].append(write);
    }
    fn present_again(&mut self, _link: LinkId) {}
    fn hang_up(&mut self, link: LinkId) {
        self.ended.push(link);
    }
}
