//! What the nodes of these worlds write to: the output buffers of their connections.

use contract::{Span, Time};
use simulation::network::Sockets;
use wire::{Effects, Farewell, Frame, LinkId, Mark, MarkKind, Message, MessageKind, Order, PeerIndex};

/// How what waits for a connection leaves.
#[derive(Default)]
pub struct Way {
    /// The peer does not read.
    pub stalled: bool,
    /// When a narrow way has room for more.
    pub free_at: Time,
    /// Bytes in a second that leave at most, where that is asked for.
    pub rate: Option<u64>,
}

/// A node's side of the network.
#[derive(Default)]
pub struct Port {
    pub sockets: Sockets<(), Way>,
    pub dials: Vec<(PeerIndex, Span)>,
    /// Links whose bytes are to be presented once more.
    pub again: Vec<LinkId>,
}

impl AsMut<Sockets<(), Way>> for Port {
    fn as_mut(&mut self) -> &mut Sockets<(), Way> {
        &mut self.sockets
    }
}

impl Effects for Port {
    fn send(&mut self, link: LinkId, frame: &Frame<'_>) {
        if let Some(socket) = self.sockets.touch(link) {
            socket.outbox.push(frame);
        }
    }
    fn send_message(&mut self, link: LinkId, kind: MessageKind, message: &Message<'_>) {
        if let Some(socket) = self.sockets.touch(link) {
            socket.outbox.push_message(kind, message);
        }
    }
    fn send_mark(&mut self, link: LinkId, kind: MarkKind, mark: Mark) {
        if let Some(socket) = self.sockets.touch(link) {
            socket.outbox.push_mark(kind, mark);
        }
    }
    fn backlog(&self, link: LinkId) -> usize {
        self.sockets.get(link).map_or(0, |socket| socket.outbox.len())
    }
    fn shed(&mut self, link: LinkId, keep: usize) -> u64 {
        self.sockets.get_mut(link).map_or(0, |socket| socket.outbox.shed(keep))
    }
    fn taken(&self, link: LinkId) -> u64 {
        self.sockets.get(link).map_or(0, |socket| socket.left())
    }
    fn hold_back(&mut self, _link: LinkId, _bytes: usize) {}
    fn pace(&mut self, link: LinkId, rate: u64) {
        if let Some(socket) = self.sockets.get_mut(link) {
            socket.own.rate = Some(rate);
        }
    }
    fn dial(&mut self, peer: PeerIndex, within: Span) {
        self.dials.push((peer, within));
    }
    fn close(&mut self, link: LinkId, farewell: &Farewell<'_>) {
        self.send(link, &Frame::Farewell(*farewell));
        self.hang_up(link);
    }
    fn append(&mut self, link: LinkId, _order: Order, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(socket) = self.sockets.touch(link) {
            socket.outbox.append(write);
        }
    }
    fn present_again(&mut self, link: LinkId) {
        self.again.push(link);
    }
    fn hold(&mut self, link: LinkId) {
        if let Some(socket) = self.sockets.get_mut(link) {
            socket.held = true;
        }
    }
    fn hang_up(&mut self, link: LinkId) {
        self.sockets.hang_up(link);
    }
}
