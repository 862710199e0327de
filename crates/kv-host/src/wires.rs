//! What one lane sends to its peers and hears from them during a job. Nothing here blocks longer than a round, and nothing is allocated.
//!
//! One connection to each peer carries frames away, another one brings them. A frame that a peer does not take until its round ends
//! breaks the connection: the rest of it would be of no use, and without it the next frame has no beginning. What comes from a peer
//! that is a job ahead stays where it is.

use crate::mischief::Mischief;
use contract::{Span, Time};
use kv::{Dropped, Frame, HEAD_BYTES, Head, Lane, Node, NodeSet};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A connection that has said its first words.
pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
    pub(crate) life: Arc<Life>,
}

/// What those who make connections see of one that they gave away.
#[derive(Debug)]
pub(crate) struct Life {
    is_up: AtomicBool,
    /// When something came last, in nanoseconds since the Unix epoch.
    heard: AtomicU64,
}

impl Life {
    pub(crate) fn begun(now: Time) -> Arc<Life> {
        Arc::new(Life { is_up: AtomicBool::new(true), heard: AtomicU64::new(now.0) })
    }

    /// Whether the lane still has it.
    pub(crate) fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Acquire)
    }

    /// When something came last.
    pub(crate) fn heard(&self) -> Time {
        Time(self.heard.load(Ordering::Relaxed))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.life.is_up.store(false, Ordering::Release);
    }
}

/// A connection for the lane's thread.
pub(crate) struct Handover {
    pub(crate) peer: Node,
    pub(crate) direction: Direction,
    pub(crate) wire: Wire,
}

/// Which way frames go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Outgoing,
    Incoming,
}

/// All connections of a lane.
pub(crate) struct Wires {
    me: Node,
    peers: Box<[Peer]>,
    mischief: Option<Mischief>,
    /// Wakes whoever waits: the node is to end.
    bell: Arc<OwnedFd>,
}

struct Peer {
    node: Node,
    outgoing: Option<Wire>,
    incoming: Option<Wire>,
    /// What of this round's frame has left; `None` if all has.
    sent: Option<usize>,
    /// What has come and has not been taken.
    buffer: Box<[u8]>,
    filled: usize,
    /// What has come belongs to a later job.
    is_ahead: bool,
    /// When the job began.
    now: Time,
}

/// What cannot be read any further.
struct Broken;

impl Wires {
    pub(crate) fn new(
        me: Node,
        nodes: usize,
        frame_bytes_max: usize,
        mischief: Option<Mischief>,
        bell: Arc<OwnedFd>,
    ) -> Wires {
        let peer = |node| Peer {
            node: Node::at(node),
            outgoing: None,
            incoming: None,
            sent: None,
            buffer: vec![0; frame_bytes_max].into(),
            filled: 0,
            is_ahead: false,
            now: Time::ZERO,
        };
        Wires { me, peers: (0..nodes).map(peer).collect(), mischief, bell }
    }

    /// Takes a new connection over, in place of the one that there was.
    pub(crate) fn adopt(&mut self, handover: Handover) {
        let peer = &mut self.peers[handover.peer.index()];
        match handover.direction {
            Direction::Outgoing => {
                peer.outgoing = Some(handover.wire);
                peer.sent = None;
            }
            Direction::Incoming => {
                peer.incoming = Some(handover.wire);
                peer.filled = 0;
                peer.is_ahead = false;
            }
        }
    }

    /// Begins a job: peers without a connection are silent in it.
    pub(crate) fn open(&mut self, lane: &mut Lane, now: Time) {
        for peer in &mut self.peers {
            peer.is_ahead = false;
            peer.now = now;
            if peer.incoming.is_none() {
                lane.silence(peer.node);
            }
        }
    }

    /// Sends the frame of the round that has begun to everybody.
    ///
    /// Each node begins with the one after it. If all began with the same one, the link to that one would have the frames of all others
    /// to carry while its own stood idle, and the round would last nearly twice as long.
    pub(crate) fn send(&mut self, lane: &Lane) {
        for peer in beginning_after(self.me, &mut self.peers).filter(|peer| peer.outgoing.is_some()) {
            debug_assert!(peer.sent.is_none(), "`give_up` ends what has not left");
            peer.sent = Some(0);
            peer.push(lane, self.mischief.as_mut());
        }
    }

    /// Answers those who have asked in this job for what they have missed, by `until`.
    pub(crate) fn answer(&mut self, lane: &mut Lane, until: Time) {
        for peer in beginning_after(self.me, &mut self.peers).filter(|peer| peer.outgoing.is_some()) {
            let Some(frame) = lane.answer(peer.node) else { continue };
            let frame = match &mut self.mischief {
                Some(mischief) => mischief.twist(frame, peer.node),
                None => frame,
            };
            peer.give(&frame, until);
        }
    }

    /// Whether a frame of this round has not left yet.
    pub(crate) fn is_sending(&self) -> bool {
        self.peers.iter().any(|peer| peer.sent.is_some())
    }

    /// Breaks connections to peers that have not taken this round's frame.
    pub(crate) fn give_up(&mut self) {
        for peer in self.peers.iter_mut().filter(|peer| peer.sent.is_some()) {
            peer.lose(Direction::Outgoing);
        }
    }

    /// Reads what has come, and if that is nothing, waits until `until` for more.
    pub(crate) fn wait(&mut self, lane: &mut Lane, now: Time, until: Time) {
        let mut polled: [PollFd<'_>; SLOTS] =
            std::array::from_fn(|_| PollFd::from_borrowed_fd(self.bell.as_fd(), PollFlags::empty()));
        polled[0] = PollFd::from_borrowed_fd(self.bell.as_fd(), PollFlags::IN);
        let mut count = 1;
        for peer in &self.peers {
            let hears = peer.incoming.as_ref().filter(|_| !peer.is_ahead && lane.wants(peer.node));
            let speaks = peer.outgoing.as_ref().filter(|_| peer.sent.is_some());
            let wanted = [(hears, PollFlags::IN), (speaks, PollFlags::OUT)];
            for (wire, flags) in wanted {
                if let Some(wire) = wire {
                    polled[count] = PollFd::from_borrowed_fd(wire.stream.as_fd(), flags);
                    count += 1;
                }
            }
        }
        let left = until.since(now).max(Span::ZERO).as_nanos_u64();
        // Whole seconds are few: a round is a part of a period.
        let timeout = Timespec {
            tv_sec: i64::try_from(left / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (left % 1_000_000_000) as i64,
        };
        // An interruption is as good as an event: what has come is read below.
        let _ = poll(&mut polled[..count], Some(&timeout));
        for peer in &mut self.peers {
            if peer.sent.is_some() {
                peer.push(lane, self.mischief.as_mut());
            }
            peer.hear(lane);
        }
    }

    /// Reads and takes what has come already.
    pub(crate) fn hear(&mut self, lane: &mut Lane) {
        for peer in &mut self.peers {
            peer.hear(lane);
        }
    }

    /// To whom and from whom there are connections.
    pub(crate) fn connected(&self) -> (NodeSet, NodeSet) {
        let of = |has: fn(&Peer) -> bool| {
            self.peers.iter().filter(|peer| has(peer)).map(|peer| peer.node).collect()
        };
        (of(|peer| peer.outgoing.is_some()), of(|peer| peer.incoming.is_some()))
    }
}

/// All places, from the one after a node round to its own.
fn beginning_after<T>(node: Node, places: &mut [T]) -> impl Iterator<Item = &mut T> {
    let (before, after) = places.split_at_mut(node.index() + 1);
    after.iter_mut().chain(before)
}

/// Reads from one peer before the others are heard: one that talks without end shall not keep them waiting.
const READS_MAX: usize = 16;
/// One to be woken, and two for each peer.
const SLOTS: usize = 1 + 2 * kv::NODES_MAX;

impl Peer {
    fn lose(&mut self, direction: Direction) {
        match direction {
            Direction::Outgoing => {
                self.outgoing = None;
                self.sent = None;
            }
            Direction::Incoming => {
                self.incoming = None;
                self.filled = 0;
            }
        }
    }

    /// Sends a whole frame, or breaks the connection: half of one would be none.
    fn give(&mut self, frame: &Frame<'_>, until: Time) {
        let mut sent = 0;
        while let Some(wire) = self.outgoing.as_ref().filter(|_| sent < frame.bytes()) {
            let head = frame.head.get(sent..).unwrap_or_default();
            let body = &frame.body[sent.saturating_sub(HEAD_BYTES)..];
            match (&wire.stream).write_vectored(&[IoSlice::new(head), IoSlice::new(body)]) {
                Ok(written) if written > 0 => sent += written,
                Err(error) if is_for_now(&error) && host::now() < until => {
                    let mut polled = [PollFd::from_borrowed_fd(wire.stream.as_fd(), PollFlags::OUT)];
                    let left = until.since(host::now()).max(Span::ZERO).as_nanos_u64().min(999_999_999);
                    let _ = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: left as i64 }));
                }
                _ => return self.lose(Direction::Outgoing),
            }
        }
    }

    /// Sends as much of the frame as the connection takes.
    fn push(&mut self, lane: &Lane, mischief: Option<&mut Mischief>) {
        let (Some(wire), Some(mut sent)) = (&self.outgoing, self.sent) else { return };
        let frame = lane.frame(self.node);
        let frame = match mischief {
            Some(mischief) => mischief.twist(frame, self.node),
            None => frame,
        };
        while sent < frame.bytes() {
            let head = frame.head.get(sent..).unwrap_or_default();
            let body = &frame.body[sent.saturating_sub(HEAD_BYTES)..];
            match (&wire.stream).write_vectored(&[IoSlice::new(head), IoSlice::new(body)]) {
                Ok(0) => return self.lose(Direction::Outgoing),
                Ok(written) => sent += written,
                Err(error) if is_for_now(&error) => {
                    self.sent = Some(sent);
                    return;
                }
                Err(_) => return self.lose(Direction::Outgoing),
            }
        }
        self.sent = None;
    }

    /// Reads and takes frames for as long as the lane wants some of this peer.
    fn hear(&mut self, lane: &mut Lane) {
        if self.take(lane).is_ok() {
            for _ in 0..READS_MAX {
                if self.incoming.is_none() || self.is_ahead || !lane.wants(self.node) {
                    return;
                }
                match self.read() {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(Broken) => return self.fall_silent(lane),
                }
                if self.take(lane).is_err() {
                    return self.fall_silent(lane);
                }
            }
            return;
        }
        self.fall_silent(lane);
    }

    fn fall_silent(&mut self, lane: &mut Lane) {
        self.lose(Direction::Incoming);
        lane.silence(self.node);
    }

    /// Reads some of what has come; whether there was anything.
    fn read(&mut self) -> Result<bool, Broken> {
        let Some(wire) = &self.incoming else { return Ok(false) };
        match (&wire.stream).read(&mut self.buffer[self.filled..]) {
            Ok(0) => Err(Broken),
            Ok(read) => {
                self.filled += read;
                wire.life.heard.store(self.now.0, Ordering::Relaxed);
                Ok(true)
            }
            Err(error) if is_for_now(&error) => Ok(false),
            Err(_) => Err(Broken),
        }
    }

    /// Takes the whole frames that have come, until one that is of a later job.
    fn take(&mut self, lane: &mut Lane) -> Result<(), Broken> {
        let mut at = 0;
        while !self.is_ahead && lane.wants(self.node) {
            let rest = &self.buffer[at..self.filled];
            let Some(head) = rest.first_chunk::<HEAD_BYTES>() else { break };
            let length = HEAD_BYTES + Head::parse(head).map_err(|_| Broken)?.body_len as usize;
            if length > self.buffer.len() {
                return Err(Broken);
            }
            let Some(frame) = rest.get(..length) else { break };
            if let Err(Dropped::TooEarly { .. }) = lane.take(self.node, frame) {
                // The peer has skipped this job. In the next one, this frame is wanted.
                self.is_ahead = true;
                lane.silence(self.node);
                break;
            }
            at += length;
        }
        self.buffer.copy_within(at..self.filled, 0);
        self.filled -= at;
        Ok(())
    }
}

fn is_for_now(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_nodes_send_to_the_same_one_at_the_same_turn() {
        let order = |me| beginning_after(Node(me), &mut [0, 1, 2, 3]).map(|place| *place).collect::<Vec<_>>();
        assert_eq!([0, 1, 2, 3].map(order), [[1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2], [0, 1, 2, 3]]);
    }
}
