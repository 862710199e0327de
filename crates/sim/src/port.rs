//! What cores of a deployment write to: the output buffers of their connections, and an ear that hears what they write.

use crate::scene::PAYLOAD_HEAD;
use contract::{Span, Time};
use engine::driving::Portion;
use simulation::network::Sockets;
use wire::{
    Companion, Effects, Evidence, Farewell, Frame, LinkId, Mark, MarkKind, Message, MessageKind, Order,
    PeerIndex,
};

/// No stream that the simulator knows of.
pub(crate) const NO_STREAM: u32 = u32::MAX;

/// What a core wrote, as far as checkers want to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    Message { kind: MessageKind, stamped: Time, resent: bool, bytes: u32 },
    Mark { kind: MarkKind },
}

/// A message or mark on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Note {
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
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Pass {
    #[default]
    First,
    Prunes,
    Answers,
}

/// How a node serves one of its connections.
#[derive(Clone, Default, Debug)]
pub struct Service {
    /// A client's way through the backup: who answers is the primary.
    pub(crate) way: bool,
    /// How much its next read may bring.
    pub(crate) portion: Portion,
    /// What is for it leaves after everything else.
    pub(crate) last: bool,
    pub(crate) pass: Pass,
}

/// All connections of a node.
#[derive(Clone, Default)]
pub(crate) struct Port {
    pub(crate) sockets: Sockets<Note, Service>,
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
    /// Which streams a broker's numbers stand for, as it last used them.
    streams: Vec<u32>,
}

impl AsMut<Sockets<Note, Service>> for Port {
    fn as_mut(&mut self) -> &mut Sockets<Note, Service> {
        &mut self.sockets
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
        if let Some(socket) = self.sockets.touch(link) {
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
        let Some(socket) = self.sockets.touch(link) else { return };
        let resent = message.flags.contains(wire::MessageFlags::RESEND);
        let bytes = message.payload.len() as u32;
        let what = Written::Message { kind, stamped: message.created, resent, bytes };
        let note = Note { what, stream, seq: message.seq };
        socket.push_message(kind, message, note);
        self.sent.push(Sent { link, note });
    }

    fn send_mark(&mut self, link: LinkId, kind: MarkKind, mark: Mark) {
        let known = self.streams.get(mark.stream as usize).copied();
        let Some(socket) = self.sockets.touch(link) else { return };
        if kind == MarkKind::Prune {
            socket.own.pass = socket.own.pass.max(Pass::Prunes);
        }
        let stream = known.unwrap_or(NO_STREAM);
        let note = Note { what: Written::Mark { kind }, stream, seq: mark.seq };
        socket.push_mark(kind, mark, note);
        self.sent.push(Sent { link, note });
    }

    fn backlog(&self, link: LinkId) -> usize {
        self.sockets.get(link).map_or(0, |socket| socket.outbox.len())
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
        let Some(socket) = self.sockets.touch(link) else { return };
        let before = socket.outbox.len();
        socket.outbox.append(write);
        if order == Order::Last {
            socket.own.pass = socket.own.pass.max(Pass::Answers);
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
        if let Some(socket) = self.sockets.get_mut(link) {
            socket.held = true;
        }
    }

    fn put_first(&mut self, link: LinkId) {
        self.foremost = Some(link);
    }

    fn put_last(&mut self, link: LinkId, last: bool) {
        if let Some(socket) = self.sockets.get_mut(link) {
            socket.own.last = last;
        }
    }

    fn listen_for(&mut self, companion: Option<Companion>) {
        self.words.push(companion);
    }

    fn evidence(&self) -> Option<Evidence> {
        self.evidence
    }

    fn hang_up(&mut self, link: LinkId) {
        self.sockets.hang_up(link);
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
