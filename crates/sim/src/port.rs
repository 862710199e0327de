//! A node's side of the network: its connections' output buffers, into which cores write, and an ear that hears what
//! they write.

use crate::scene::PAYLOAD_HEAD;
use contract::{Span, Time};
use engine::driving::{DRAINED_BYTES, Portion};
use std::collections::VecDeque;
use wire::{
    Companion, Effects, Evidence, Farewell, Frame, LinkId, Mark, MarkKind, Message, MessageKind, Order,
    Outbox, PeerIndex,
};

/// No stream that the simulator knows of.
pub(crate) const NO_STREAM: u32 = u32::MAX;

/// What a core wrote, as far as checkers want to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Written {
    Message { kind: MessageKind, stamped: Time, resent: bool, bytes: u32 },
    Mark { kind: MarkKind },
}

/// A message or mark on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Note {
    pub(crate) what: Written,
    /// The simulator's number of the stream.
    pub(crate) stream: u32,
    pub(crate) seq: u64,
}

impl Note {
    /// Whether it is sent again after a failover.
    pub(crate) fn is_resent(&self) -> bool {
        matches!(self.what, Written::Message { resent: true, .. })
    }
}

/// What was written, and to whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) link: LinkId,
    pub(crate) note: Note,
}

/// In which order connections are written to at the end of a turn, as the host does it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Pass {
    First,
    Prunes,
    Answers,
}

/// One of a node's connections.
#[derive(Clone)]
pub(crate) struct Socket {
    pub(crate) conn: u32,
    /// Which of the connection's two ends it is.
    pub(crate) side: usize,
    /// The node at the other end.
    pub(crate) peer: usize,
    /// A client's way through the backup: who answers is the primary.
    pub(crate) way: bool,
    pub(crate) outbox: Outbox,
    /// Notes of what is in the output buffer.
    notes: VecDeque<Note>,
    /// The frames that they are in: where each ends in the stream of bytes, and how many notes it has. A message is only
    /// there when all of its frame is.
    frames: VecDeque<(u64, usize)>,
    /// Bytes that have left.
    left: u64,
    pub(crate) partial: Vec<u8>,
    /// The node has its reasons to leave that there; nothing more is read before it has been presented again.
    pub(crate) held: bool,
    /// How much its next read may bring.
    pub(crate) portion: Portion,
    pub(crate) dirty: bool,
    /// What is for it leaves after everything else.
    pub(crate) last: bool,
    pub(crate) pass: Pass,
    pub(crate) congested: bool,
    /// Since when it is being closed, and until when at the latest.
    pub(crate) closing: Option<Time>,
    /// The end of what is sent has been told.
    pub(crate) shut: bool,
    /// A fault has broken its connection, and its node does not know yet: what it writes is lost with it.
    pub(crate) broken: bool,
}

/// All connections of a node.
#[derive(Clone, Default)]
pub(crate) struct Port {
    pub(crate) sockets: Vec<Option<Socket>>,
    free: Vec<u32>,
    pub(crate) dirty: Vec<LinkId>,
    /// Something is left for connections that are served last, and can leave.
    pub(crate) has_more: bool,
    pub(crate) dials: Vec<(PeerIndex, Span)>,
    pub(crate) sent: Vec<Sent>,
    /// Packets that were written where something else than frames is spoken.
    pub(crate) appended: u64,
    /// Requests to carry a stream that were answered since somebody looked.
    pub(crate) judged: u64,
    /// Connections of which what came and was not consumed is to be presented again.
    pub(crate) again: Vec<LinkId>,
    /// Everything else that was written, in words, when somebody wants to read it.
    pub(crate) spoken: Option<Vec<(LinkId, String)>>,
    /// The connection on which the other broker asks whether this one lives.
    pub(crate) foremost: Option<LinkId>,
    /// Whom to listen for from now on.
    pub(crate) words: Vec<Option<Companion>>,
    /// What heartbeats say.
    pub(crate) evidence: Option<Evidence>,
    /// Connections that the node asked to close.
    pub(crate) closed: Vec<LinkId>,
    /// Which streams a broker's numbers stand for, as it last used them.
    streams: Vec<u32>,
}

impl Port {
    pub(crate) fn open(&mut self, conn: u32, side: usize, peer: usize) -> LinkId {
        let link = self.free.pop().unwrap_or_else(|| {
            self.sockets.push(None);
            (self.sockets.len() - 1) as u32
        });
        self.sockets[link as usize] = Some(Socket {
            conn,
            side,
            peer,
            way: false,
            outbox: Outbox::default(),
            notes: VecDeque::new(),
            frames: VecDeque::new(),
            left: 0,
            partial: Vec::new(),
            held: false,
            portion: Portion::default(),
            dirty: false,
            last: false,
            pass: Pass::First,
            congested: false,
            closing: None,
            shut: false,
            broken: false,
        });
        LinkId(link)
    }

    pub(crate) fn socket(&self, link: LinkId) -> Option<&Socket> {
        self.sockets.get(link.0 as usize)?.as_ref()
    }

    pub(crate) fn socket_mut(&mut self, link: LinkId) -> Option<&mut Socket> {
        self.sockets.get_mut(link.0 as usize)?.as_mut()
    }

    /// The node knows that the link is gone, so its number may be used again.
    pub(crate) fn release(&mut self, link: LinkId) {
        if self.sockets.get_mut(link.0 as usize).and_then(Option::take).is_some() {
            self.foremost = self.foremost.filter(|foremost| *foremost != link);
            self.free.push(link.0);
        }
    }

    /// Bytes that wait in all output buffers.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.sockets.iter().flatten().map(|socket| socket.outbox.len()).sum()
    }

    /// Whether a connection is being closed.
    pub(crate) fn is_closing(&self) -> bool {
        self.sockets.iter().flatten().any(|socket| socket.closing.is_some())
    }

    /// A connection has room for what did not fit before.
    pub(crate) fn wants_to_write(&mut self, link: LinkId) {
        self.touch(link);
    }

    fn touch(&mut self, link: LinkId) -> Option<&mut Socket> {
        let socket = self.sockets.get_mut(link.0 as usize)?.as_mut()?;
        if !std::mem::replace(&mut socket.dirty, true) {
            self.dirty.push(link);
        }
        Some(socket)
    }
}

impl Effects for Port {
    fn send(&mut self, link: LinkId, frame: &Frame<'_>) {
        if let Some(spoken) = &mut self.spoken
            && !matches!(frame, Frame::Poll { .. } | Frame::PollReply { .. })
        {
            spoken.push((link, format!("{frame:?}")));
        }
        self.judged += u64::from(matches!(frame, Frame::Verdict(_)));
        if let Some(socket) = self.touch(link) {
            socket.outbox.push(frame);
        }
    }

    fn send_message(&mut self, link: LinkId, kind: MessageKind, message: &Message<'_>) {
        let head = message.payload.first_chunk::<PAYLOAD_HEAD>();
        let stream = head.map_or(NO_STREAM, |head| u32::from_le_bytes([head[0], head[1], head[2], head[3]]));
        let number = message.stream as usize;
        if matches!(kind, MessageKind::Deliver | MessageKind::Replicate) {
            if number >= self.streams.len() {
                self.streams.resize(number + 1, NO_STREAM);
            }
            self.streams[number] = stream;
        }
        let Some(socket) = self.touch(link) else { return };
        let before = socket.outbox.len();
        socket.outbox.push_message(kind, message);
        let joined = socket.outbox.len() - before == message.encoded_bytes();
        let resent = message.flags.contains(wire::MessageFlags::RESEND);
        let bytes = message.payload.len() as u32;
        let what = Written::Message { kind, stamped: message.created, resent, bytes };
        let note = Note { what, stream, seq: message.seq };
        socket.note(note, joined);
        self.sent.push(Sent { link, note });
    }

    fn send_mark(&mut self, link: LinkId, kind: MarkKind, mark: Mark) {
        let known = self.streams.get(mark.stream as usize).copied();
        let Some(socket) = self.touch(link) else { return };
        let before = socket.outbox.len();
        socket.outbox.push_mark(kind, mark);
        let joined = socket.outbox.len() - before == wire::MARK_BYTES;
        if kind == MarkKind::Prune {
            socket.pass = socket.pass.max(Pass::Prunes);
        }
        let stream = known.unwrap_or(NO_STREAM);
        let note = Note { what: Written::Mark { kind }, stream, seq: mark.seq };
        socket.note(note, joined);
        self.sent.push(Sent { link, note });
    }

    fn backlog(&self, link: LinkId) -> usize {
        self.socket(link).map_or(0, |socket| socket.outbox.len())
    }

    fn shed(&mut self, _link: LinkId, _keep: usize) -> u64 {
        0
    }

    fn taken(&self, _link: LinkId) -> u64 {
        0
    }

    fn hold_back(&mut self, _link: LinkId, _bytes: usize) {}

    fn dial(&mut self, peer: PeerIndex, within: Span) {
        self.dials.push((peer, within));
    }

    fn close(&mut self, link: LinkId, farewell: &Farewell<'_>) {
        self.send(link, &Frame::Farewell(*farewell));
        self.hang_up(link);
    }

    fn append(&mut self, link: LinkId, order: Order, write: impl FnOnce(&mut Vec<u8>)) {
        let spoken = self.spoken.is_some();
        let Some(socket) = self.touch(link) else { return };
        let before = socket.outbox.len();
        socket.outbox.append(write);
        if order == Order::Last {
            socket.pass = socket.pass.max(Pass::Answers);
        }
        let words = spoken.then(|| {
            let mut waiting = Vec::new();
            socket.outbox.copy_to(&mut waiting, usize::MAX);
            packet_in_words(waiting.get(before..).unwrap_or(&[]))
        });
        self.spoken.iter_mut().zip(words).for_each(|(spoken, words)| spoken.push((link, words)));
        self.appended += 1;
    }

    fn present_again(&mut self, link: LinkId) {
        self.again.push(link);
    }

    fn hold(&mut self, link: LinkId) {
        if let Some(socket) = self.socket_mut(link) {
            socket.held = true;
        }
    }

    fn put_first(&mut self, link: LinkId) {
        self.foremost = Some(link);
    }

    fn put_last(&mut self, link: LinkId, last: bool) {
        if let Some(socket) = self.socket_mut(link) {
            socket.last = last;
        }
    }

    fn listen_for(&mut self, companion: Option<Companion>) {
        self.words.push(companion);
    }

    fn evidence(&self) -> Option<Evidence> {
        self.evidence
    }

    fn hang_up(&mut self, link: LinkId) {
        self.touch(link);
        if let Some(socket) = self.socket_mut(link).filter(|socket| socket.closing.is_none()) {
            // The driver, who has a clock, fills in until when.
            socket.closing = Some(Time::NEVER);
            socket.partial = Vec::new();
            self.closed.push(link);
        }
    }
}

impl Socket {
    /// Takes note of what was just written: in a frame of its own, or in the one before.
    fn note(&mut self, note: Note, joined: bool) {
        let end = self.left + self.outbox.len() as u64;
        match self.frames.back_mut().filter(|_| joined) {
            Some((last, count)) => (*last, *count) = (end, *count + 1),
            None => self.frames.push_back((end, 1)),
        }
        self.notes.push_back(note);
    }

    /// So many bytes leave: hands over the notes of the frames that have left with them, each with the place among these
    /// bytes where its frame ends.
    pub(crate) fn leave(&mut self, bytes: usize, mut each: impl FnMut(usize, Note)) {
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
    pub(crate) fn drop_unsent(&mut self) -> VecDeque<Note> {
        self.outbox = Outbox::default();
        self.frames.clear();
        std::mem::take(&mut self.notes)
    }

    /// Notes how much is waiting, before some of it leaves.
    pub(crate) fn weigh(&mut self) {
        self.congested |= self.outbox.len() > DRAINED_BYTES;
    }

    /// Whether a congestion is over.
    pub(crate) fn has_drained(&mut self) -> bool {
        let drained = self.congested && self.outbox.len() <= DRAINED_BYTES;
        self.congested = self.outbox.len() > DRAINED_BYTES;
        drained
    }
}

/// A packet of MQTT: its kind, and its bytes up to where it gets long.
fn packet_in_words(packet: &[u8]) -> String {
    const KINDS: [&str; 16] = [
        "?",
        "CONNECT",
        "CONNACK",
        "PUBLISH",
        "PUBACK",
        "PUBREC",
        "PUBREL",
        "PUBCOMP",
        "SUBSCRIBE",
        "SUBACK",
        "UNSUBSCRIBE",
        "UNSUBACK",
        "PINGREQ",
        "PINGRESP",
        "DISCONNECT",
        "AUTH",
    ];
    let kind = packet.first().map_or("", |first| KINDS[usize::from(first >> 4)]);
    let mut words = kind.to_owned();
    packet.iter().take(48).for_each(|byte| words += &format!(" {byte:02x}"));
    words
}
