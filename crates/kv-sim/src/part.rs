//! One node's part in one lane, as its host has it: the lane, connections with what has come on them, and rings.

use contract::Time;
use kv::{HEAD_BYTES, Head, KeyId, Lane, Node};
use wire::LinkId;

/// What a task wants to write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Write {
    pub(crate) key: KeyId,
    pub(crate) value: Vec<u8>,
    pub(crate) publishing: Time,
}

/// The receiving end of a connection.
pub(crate) struct Wire {
    /// `None` if there comes nothing more.
    pub(crate) link: Option<LinkId>,
    /// The kernel has something.
    pub(crate) is_readable: bool,
    /// What has been read and not taken.
    pub(crate) buffer: Vec<u8>,
    is_ahead: bool,
}

/// What cannot be read any further.
pub(crate) struct Broken;

/// What the lane is to hear next from a connection.
pub(crate) enum Next {
    Frame(Vec<u8>),
    Nothing,
}

impl Wire {
    pub(crate) fn new(link: LinkId) -> Wire {
        Wire { link: Some(link), is_readable: false, buffer: Vec::new(), is_ahead: false }
    }

    /// The first whole frame, if there is one.
    pub(crate) fn next(&self, room: usize) -> Result<Next, Broken> {
        let Some(head) = self.buffer.first_chunk::<HEAD_BYTES>() else { return Ok(Next::Nothing) };
        let length = HEAD_BYTES + Head::parse(head).map_err(|_| Broken)?.body_len as usize;
        if length > room {
            return Err(Broken);
        }
        Ok(self.buffer.get(..length).map_or(Next::Nothing, |frame| Next::Frame(frame.to_vec())))
    }

    pub(crate) fn took(&mut self, length: usize) {
        self.buffer.drain(..length);
    }

    /// What comes next belongs to a later job.
    pub(crate) fn hold(&mut self) {
        self.is_ahead = true;
    }

    pub(crate) fn is_ahead(&self) -> bool {
        self.is_ahead
    }
}

/// One node's part in one lane.
pub(crate) struct Part {
    /// `None` while the process is dead.
    pub(crate) lane: Option<Lane>,
    pub(crate) incoming: Vec<Option<Wire>>,
    pub(crate) offered_in: Vec<Option<Wire>>,
    pub(crate) outgoing: Vec<Option<LinkId>>,
    pub(crate) offered_out: Vec<Option<LinkId>>,
    pub(crate) ring: Vec<Write>,
    pub(crate) release: Time,
    pub(crate) ticket: u32,
    pub(crate) waits_until: Option<Time>,
    /// Frames sent, by receiver, for whoever repeats them.
    pub(crate) sent: Vec<Vec<Vec<u8>>>,
}

impl Part {
    pub(crate) fn new(nodes: usize) -> Part {
        Part {
            lane: None,
            incoming: (0..nodes).map(|_| None).collect(),
            offered_in: (0..nodes).map(|_| None).collect(),
            outgoing: vec![None; nodes],
            offered_out: vec![None; nodes],
            ring: Vec::new(),
            release: Time::ZERO,
            ticket: 0,
            waits_until: None,
            sent: vec![Vec::new(); nodes],
        }
    }

    /// Its process ends, and all that it had.
    pub(crate) fn die(&mut self) {
        *self = Part::new(self.incoming.len());
    }

    /// All connections: those on which frames leave, and those on which they come.
    pub(crate) fn links(&self) -> [Vec<LinkId>; 2] {
        let leaving = self.outgoing.iter().chain(&self.offered_out).flatten().copied();
        let coming = self.incoming.iter().chain(&self.offered_in).flatten().filter_map(|wire| wire.link);
        [leaving.collect(), coming.collect()]
    }

    /// Takes new connections over. Returns those in whose place they are.
    pub(crate) fn adopt(&mut self) -> Vec<LinkId> {
        let mut replaced = Vec::new();
        for peer in 0..self.incoming.len() {
            if let Some(wire) = self.offered_in[peer].take() {
                replaced.extend(self.incoming[peer].replace(wire).and_then(|wire| wire.link));
            }
            if let Some(link) = self.offered_out[peer].take() {
                replaced.extend(self.outgoing[peer].replace(link));
            }
        }
        replaced
    }

    /// Begins a job: peers without a connection are silent in it.
    pub(crate) fn open(&mut self, me: usize) {
        let Some(lane) = &mut self.lane else { return };
        for (peer, wire) in self.incoming.iter_mut().enumerate().filter(|(peer, _)| *peer != me) {
            match wire {
                Some(wire) => wire.is_ahead = false,
                None => lane.silence(Node::at(peer)),
            }
        }
    }

    /// The receiving end of this connection, be it in use already or not.
    pub(crate) fn wire(&mut self, from: usize, link: LinkId) -> Option<&mut Wire> {
        let ends = [&mut self.incoming[from], &mut self.offered_in[from]];
        ends.into_iter().flatten().find(|wire| wire.link == Some(link))
    }

    /// A connection is gone. Returns the peer to whom frames have left on it.
    pub(crate) fn forget(&mut self, link: LinkId) -> Option<usize> {
        for wire in self.incoming.iter_mut().chain(&mut self.offered_in).flatten() {
            wire.link = wire.link.filter(|it| *it != link);
        }
        let mut to = None;
        for (peer, ends) in self.outgoing.iter_mut().zip(&mut self.offered_out).enumerate() {
            for end in [ends.0, ends.1] {
                if end.take_if(|it| *it == link).is_some() {
                    to = Some(peer);
                }
            }
        }
        to
    }

    /// Whether something that the lane wants can be read from this peer.
    pub(crate) fn is_readable(&self, from: usize) -> bool {
        let wants = self.lane.as_ref().is_some_and(|lane| lane.wants(Node::at(from)));
        let has = |wire: &Wire| !wire.is_ahead && (wire.is_readable || wire.link.is_none());
        wants && self.incoming[from].as_ref().is_some_and(has)
    }
}
