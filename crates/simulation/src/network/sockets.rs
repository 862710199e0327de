//! A node's side of the network: what waits to be written on its connections, and what was read there and not consumed.

use super::EndId;
use contract::Time;
use std::collections::VecDeque;
use wire::{LinkId, MARK_BYTES, Mark, MarkKind, Message, MessageKind, Outbox};

/// One of a node's connections. `N` are notes of what is written, `O` is what its world keeps of it besides.
#[derive(Clone)]
pub struct Socket<N, O> {
    /// Which end of which connection it is.
    pub end: EndId,
    /// The host at the other end.
    pub peer: usize,
    /// What waits to be written.
    pub outbox: Outbox,
    /// The node has its reasons to leave what came there; nothing more is read before it has been presented again.
    pub held: bool,
    /// It is among those that are to be written to.
    pub dirty: bool,
    /// What its world keeps of it.
    pub own: O,
    /// Until when at the latest it is being closed.
    pub(super) closing: Option<Time>,
    /// What was read and not consumed.
    partial: Vec<u8>,
    /// Notes of what is in the output buffer.
    notes: VecDeque<N>,
    /// The frames that they are in: where each ends in the stream of bytes, and how many notes it has. A message is only
    /// there when all of its frame is.
    frames: VecDeque<(u64, usize)>,
    /// Bytes that have left.
    left: u64,
    congested: bool,
    /// The end of what is sent has been told.
    pub(super) shut: bool,
    /// A fault has broken its connection, and its node does not know yet: what it writes is lost with it.
    pub(super) broken: bool,
}

/// All connections of a node, by its numbers for them.
#[derive(Clone)]
pub struct Sockets<N, O> {
    all: Vec<Option<Socket<N, O>>>,
    free: Vec<u32>,
    /// Those that are to be written to, in the order in which that came about.
    pub dirty: Vec<LinkId>,
    /// Those that the node has asked to close since somebody looked.
    pub(super) closed: Vec<LinkId>,
}

impl<N, O> Default for Sockets<N, O> {
    fn default() -> Sockets<N, O> {
        Sockets { all: Vec::new(), free: Vec::new(), dirty: Vec::new(), closed: Vec::new() }
    }
}

impl<N, O> AsMut<Sockets<N, O>> for Sockets<N, O> {
    fn as_mut(&mut self) -> &mut Sockets<N, O> {
        self
    }
}

impl<N, O: Default> Sockets<N, O> {
    /// The node has another connection, to this host.
    pub fn open(&mut self, end: EndId, peer: usize) -> LinkId {
        let link = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            (self.all.len() - 1) as u32
        });
        self.all[link as usize] = Some(Socket::new(end, peer));
        LinkId(link)
    }
}

impl<N, O> Sockets<N, O> {
    /// One of them, unless it has been released.
    pub fn get(&self, link: LinkId) -> Option<&Socket<N, O>> {
        self.all.get(link.0 as usize)?.as_ref()
    }

    /// One of them, to be changed.
    pub fn get_mut(&mut self, link: LinkId) -> Option<&mut Socket<N, O>> {
        self.all.get_mut(link.0 as usize)?.as_mut()
    }

    /// All that there are.
    pub fn iter(&self) -> impl Iterator<Item = (LinkId, &Socket<N, O>)> {
        let numbered = self.all.iter().enumerate();
        numbered.filter_map(|(index, socket)| Some((LinkId(index as u32), socket.as_ref()?)))
    }

    /// The node knows that the link is gone, so its number may be used again. `false`: it may be already.
    pub fn release(&mut self, link: LinkId) -> bool {
        let was_there = self.all.get_mut(link.0 as usize).and_then(Option::take).is_some();
        if was_there {
            self.free.push(link.0);
        }
        was_there
    }

    /// Bytes that wait in all output buffers.
    pub fn unsent_bytes(&self) -> usize {
        self.iter().map(|(_, socket)| socket.outbox.len()).sum()
    }

    /// Whether a connection is being closed.
    pub fn is_closing(&self) -> bool {
        self.iter().any(|(_, socket)| socket.closing.is_some())
    }

    /// Something is to be written there.
    pub fn touch(&mut self, link: LinkId) -> Option<&mut Socket<N, O>> {
        let socket = self.all.get_mut(link.0 as usize)?.as_mut()?;
        if !std::mem::replace(&mut socket.dirty, true) {
            self.dirty.push(link);
        }
        Some(socket)
    }

    /// The node wants a connection closed as soon as what it has written there has left. Who has a clock fills in until
    /// when.
    pub fn hang_up(&mut self, link: LinkId) {
        if let Some(socket) = self.touch(link).filter(|socket| socket.closing.is_none()) {
            socket.closing = Some(Time::NEVER);
            socket.partial = Vec::new();
            self.closed.push(link);
        }
    }

    /// The node wants to see again what it has not consumed. Returns whether there is something.
    pub fn let_go(&mut self, link: LinkId) -> bool {
        let socket = self.get_mut(link);
        socket.is_some_and(|socket| {
            socket.held = false;
            !socket.partial.is_empty()
        })
    }
}

impl<N, O: Default> Socket<N, O> {
    fn new(end: EndId, peer: usize) -> Socket<N, O> {
        Socket {
            end,
            peer,
            outbox: Outbox::default(),
            held: false,
            dirty: false,
            own: O::default(),
            closing: None,
            partial: Vec::new(),
            notes: VecDeque::new(),
            frames: VecDeque::new(),
            left: 0,
            congested: false,
            shut: false,
            broken: false,
        }
    }
}

impl<N, O> Socket<N, O> {
    /// Writes a message, and takes note of it.
    pub fn push_message(&mut self, kind: MessageKind, message: &Message<'_>, note: N) {
        let before = self.outbox.len();
        self.outbox.push_message(kind, message);
        self.note(note, self.outbox.len() - before == message.encoded_bytes());
    }

    /// Writes a mark, and takes note of it.
    pub fn push_mark(&mut self, kind: MarkKind, mark: Mark, note: N) {
        let before = self.outbox.len();
        self.outbox.push_mark(kind, mark);
        self.note(note, self.outbox.len() - before == MARK_BYTES);
    }

    /// Takes note of what was just written: in a frame of its own, or in the one before.
    pub(super) fn note(&mut self, note: N, joined: bool) {
        let end = self.left + self.outbox.len() as u64;
        match self.frames.back_mut().filter(|_| joined) {
            Some((last, count)) => (*last, *count) = (end, *count + 1),
            None => self.frames.push_back((end, 1)),
        }
        self.notes.push_back(note);
    }

    /// How many bytes have left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// So many bytes leave: hands over the notes of the frames that have left with them, each with the place among these
    /// bytes where its frame ends.
    pub fn leave(&mut self, bytes: usize, mut each: impl FnMut(usize, N)) {
        let begin = self.left;
        self.outbox.consume(bytes);
        self.left += bytes as u64;
        while let Some((end, count)) = self.frames.front().copied().filter(|(end, _)| *end <= self.left) {
            let place = (end - begin) as usize;
            self.notes.drain(..count).for_each(|note| each(place, note));
            self.frames.pop_front();
        }
    }

    /// Takes everything that has not left.
    pub(super) fn drop_unsent(&mut self) -> VecDeque<N> {
        self.outbox = Outbox::default();
        self.frames.clear();
        std::mem::take(&mut self.notes)
    }

    /// Notes how much is waiting, before some of it leaves.
    pub(super) fn weigh(&mut self, drained_bytes: usize) {
        self.congested |= self.outbox.len() > drained_bytes;
    }

    /// Whether a congestion is over.
    pub(super) fn has_drained(&mut self, drained_bytes: usize) -> bool {
        let drained = self.congested && self.outbox.len() <= drained_bytes;
        self.congested = self.outbox.len() > drained_bytes;
        drained
    }
}

/// Hands over to a node what came on a connection, after what it has not consumed of what came before. `port` is what the
/// node writes to; `take` lets it handle bytes, and returns how many it has consumed. `false`: nothing is handed over on
/// a connection that is being closed.
pub fn hand_over<P, N, O>(
    port: &mut P,
    link: LinkId,
    bytes: &[u8],
    take: impl FnOnce(&[u8], &mut P) -> usize,
) -> bool
where
    P: AsMut<Sockets<N, O>>,
{
    let Some(socket) = port.as_mut().get_mut(link).filter(|socket| socket.closing.is_none()) else {
        return false;
    };
    if socket.partial.is_empty() {
        let used = take(bytes, port);
        if let Some(socket) = port.as_mut().get_mut(link).filter(|_| used < bytes.len()) {
            socket.partial.extend_from_slice(&bytes[used..]);
        }
    } else {
        let mut buffer = std::mem::take(&mut socket.partial);
        buffer.extend_from_slice(bytes);
        let used = take(&buffer, port);
        buffer.drain(..used);
        if let Some(socket) = port.as_mut().get_mut(link) {
            socket.partial = buffer;
        }
    }
    true
}
