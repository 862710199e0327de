//! One node's part in one lane, as its host has it: the lane, connections with what has come on them, and rings.

use contract::Time;
use kv::{HEAD_BYTES, Head, KeyId, Lane, Node};

/// What a task wants to write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Write {
    pub(crate) key: KeyId,
    pub(crate) value: Vec<u8>,
    pub(crate) publishing: Time,
}

/// The receiving end of a connection.
pub(crate) struct Wire {
    pub(crate) line: u32,
    /// What the kernel has.
    pub(crate) kernel: Vec<u8>,
    pub(crate) is_over: bool,
    /// What has been read and not taken.
    buffer: Vec<u8>,
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
    pub(crate) fn new(line: u32) -> Wire {
        Wire { line, kernel: Vec::new(), is_over: false, buffer: Vec::new(), is_ahead: false }
    }

    /// Reads as much as there is room for; whether there was anything.
    pub(crate) fn read(&mut self, room: usize) -> Result<bool, Broken> {
        let count = self.kernel.len().min(room - self.buffer.len());
        if count == 0 {
            return if self.is_over && self.kernel.is_empty() { Err(Broken) } else { Ok(false) };
        }
        self.buffer.extend(self.kernel.drain(..count));
        Ok(true)
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
    pub(crate) outgoing: Vec<Option<u32>>,
    pub(crate) offered_out: Vec<Option<u32>>,
    /// When the last frame to each peer arrives: connections keep order.
    pub(crate) arrives: Vec<Time>,
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
            arrives: vec![Time::ZERO; nodes],
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

    /// Takes new connections over in place of those that there were.
    pub(crate) fn adopt(&mut self) {
        for peer in 0..self.incoming.len() {
            if let Some(wire) = self.offered_in[peer].take() {
                self.incoming[peer] = Some(wire);
            }
            if let Some(line) = self.offered_out[peer].take() {
                self.outgoing[peer] = Some(line);
            }
        }
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
    pub(crate) fn wire(&mut self, from: usize, line: u32) -> Option<&mut Wire> {
        let ends = [&mut self.incoming[from], &mut self.offered_in[from]];
        ends.into_iter().flatten().find(|wire| wire.line == line)
    }

    /// Whether something that the lane wants can be read from this peer.
    pub(crate) fn is_readable(&self, from: usize) -> bool {
        let wants = self.lane.as_ref().is_some_and(|lane| lane.wants(Node::at(from)));
        let has = |wire: &Wire| !wire.is_ahead && (wire.is_over || !wire.kernel.is_empty());
        wants && self.incoming[from].as_ref().is_some_and(has)
    }
}
