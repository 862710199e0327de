//! Connections between hosts. Each keeps its order; what two of them carry may overtake each other. Bytes that a
//! process has written are its kernel's, and live or die with the host.

mod breaking;
mod dialing;
mod ending;
mod hosts;
mod partitions;
mod reading;
mod sockets;
mod writing;

pub use breaking::{abandon_all, break_between, end_all, heal, release_held, vanish};
pub use dialing::{dial, open_end};
pub use ending::{give_up, release};
pub use hosts::{Hosts, News, Passing};
pub use partitions::Partitions;
pub use reading::read;
pub use sockets::{Socket, Sockets, hand_over};
pub use writing::{watch_closing, write, write_up_to};

use contract::{Span, Time};
use dialing::Dial;
use std::collections::VecDeque;
use wire::LinkId;

/// What hosts do about their connections, and what their kernels have room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Bytes on their way in one direction of a connection, at most.
    pub window_bytes: usize,
    /// A connection on which more waits to be written is given up.
    pub outbox_bytes_max: usize,
    /// A node is told when what waits has gone down to this.
    pub drained_bytes: usize,
    /// How long a connection that is closed may take to send the rest.
    pub closing_time: Span,
}

/// All connections between hosts, and attempts to make some. `N` are notes of what is on its way, for whoever wants to know.
#[derive(Clone, Debug)]
pub struct Network<N> {
    /// Where nothing passes.
    pub partitions: Partitions,
    settings: Settings,
    conns: Vec<Conn<N>>,
    free_conns: Vec<u32>,
    dials: Vec<Dial>,
    free_dials: Vec<u32>,
    pool: Vec<(Vec<u8>, Notes<N>)>,
}

/// One end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndId {
    /// The place of the connection.
    pub conn: u32,
    /// Tells apart the connections that had this place one after the other.
    pub age: u32,
    /// The end of who made it is 0, the other one is 1.
    pub side: usize,
}

impl EndId {
    /// The end on the other side.
    pub fn other(self) -> EndId {
        EndId { side: 1 - self.side, ..self }
    }
}

/// What is on its way in a chunk, each with the place where its frame ends.
type Notes<N> = VecDeque<(usize, N)>;

/// A piece of what was written at once.
#[derive(Clone, Debug)]
struct Chunk<N> {
    bytes: Vec<u8>,
    /// Bytes that have been read.
    read: usize,
    notes: Notes<N>,
    arrives: Time,
    /// The sender closes; nothing follows.
    end: bool,
}

/// One direction of a connection.
#[derive(Clone, Debug)]
struct Lane<N> {
    chunks: VecDeque<Chunk<N>>,
    /// Bytes sent and not read.
    bytes: usize,
    /// When the last chunk arrives.
    last: Time,
    /// Since when something waits until a partition ends or a host is back.
    held: Option<Time>,
    /// The sender has more than there was room for.
    starved: bool,
    /// The receiver has been told that there is something to read.
    announced: bool,
}

impl<N> Default for Lane<N> {
    fn default() -> Lane<N> {
        let (chunks, last) = (VecDeque::new(), Time::default());
        Lane { chunks, bytes: 0, last, held: None, starved: false, announced: false }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum EndState {
    /// The connection is being made.
    Opening,
    Open(LinkId),
    Gone,
}

#[derive(Clone, Copy, Debug)]
struct End {
    host: usize,
    state: EndState,
}

#[derive(Clone, Debug)]
struct Conn<N> {
    /// Tells apart the connections that had this place one after the other.
    age: u32,
    ends: [End; 2],
    /// Nobody uses it; its place may be used again.
    retired: bool,
    /// A fault cut it, or took one of its hosts. Nobody answers for what is lost with it.
    cut: bool,
    /// Nothing passed for about as long as its ends are patient: it may be given up while something is under way.
    doubted: bool,
    /// By the end that sends.
    lanes: [Lane<N>; 2],
}

impl<N> Network<N> {
    /// Hosts without connections.
    pub fn new(settings: Settings) -> Network<N> {
        Network {
            partitions: Partitions::default(),
            settings,
            conns: Vec::new(),
            free_conns: Vec::new(),
            dials: Vec::new(),
            free_dials: Vec::new(),
            pool: Vec::new(),
        }
    }

    /// The host that made a connection.
    pub fn made_by(&self, end: EndId) -> usize {
        self.conns[end.conn as usize].ends[0].host
    }

    /// The host at an end of a connection.
    pub fn host(&self, end: EndId) -> usize {
        self.conns[end.conn as usize].ends[end.side].host
    }

    /// What the node at an end calls it, while it has it.
    pub fn link(&self, end: EndId) -> Option<LinkId> {
        match self.conn(end)?.ends[end.side].state {
            EndState::Open(link) => Some(link),
            _ => None,
        }
    }

    /// A host stands still for so long that others may give up their connections to it, whenever they notice.
    pub fn doubt_all(&mut self, host: usize) {
        let of_host = |conn: &&mut Conn<N>| conn.ends.iter().any(|end| end.host == host);
        self.conns.iter_mut().filter(of_host).for_each(|conn| conn.doubted = true);
    }

    /// Nothing passes between two hosts for so long that they may give up their connections.
    pub fn doubt_between(&mut self, one: usize, other: usize) {
        let between = |conn: &&mut Conn<N>| {
            let hosts = conn.ends.map(|end| end.host);
            hosts.contains(&one) && hosts.contains(&other)
        };
        self.conns.iter_mut().filter(between).for_each(|conn| conn.doubted = true);
    }

    /// Whether a connection stands between two hosts, as both of them see it.
    pub fn is_joined(&self, one: usize, other: usize) -> bool {
        self.conns.iter().any(|conn| {
            let hosts = conn.ends.map(|end| end.host);
            let open = conn.ends.iter().all(|end| matches!(end.state, EndState::Open(_)));
            open && !conn.cut && hosts.contains(&one) && hosts.contains(&other)
        })
    }

    /// One end of the connection that has this place now.
    fn end(&self, conn: u32, side: usize) -> EndId {
        EndId { conn, age: self.conns[conn as usize].age, side }
    }

    fn conn(&self, end: EndId) -> Option<&Conn<N>> {
        self.conns.get(end.conn as usize).filter(|slot| slot.age == end.age)
    }

    fn conn_mut(&mut self, end: EndId) -> Option<&mut Conn<N>> {
        self.conns.get_mut(end.conn as usize).filter(|slot| slot.age == end.age)
    }

    /// What an end sends.
    fn lane(&mut self, end: EndId) -> &mut Lane<N> {
        &mut self.conns[end.conn as usize].lanes[end.side]
    }

    fn recycle(&mut self, mut chunk: Chunk<N>) {
        if self.pool.len() < POOL_MAX {
            chunk.bytes.clear();
            self.pool.push((chunk.bytes, chunk.notes));
        }
    }

    fn retire(&mut self, conn: u32) {
        let slot = &mut self.conns[conn as usize];
        let unused = slot.ends.iter().all(|end| end.state == EndState::Gone)
            && slot.lanes.iter().all(|lane| lane.chunks.is_empty());
        if unused && !std::mem::replace(&mut slot.retired, true) {
            slot.age += 1;
            self.free_conns.push(conn);
        }
    }
}

/// Lets happen what the network has put down.
pub fn happens<W: Hosts>(world: &mut W, what: Passing) {
    match what {
        Passing::Arrive(end) => reading::arrive(world, end),
        Passing::Room(end) => writing::room(world, end),
        Passing::Reset(end) => ending::reset(world, end),
        Passing::CloseTimeout(end) => ending::close_timeout(world, end),
        Passing::Knock { dial } => dialing::knock(world, dial),
        Passing::Answer { dial } => dialing::answer(world, dial),
        Passing::DialTimeout { dial } => dialing::dial_timeout(world, dial),
    }
}

/// Buffers kept for reuse.
const POOL_MAX: usize = 256;
/// After the end of a short partition, what it held back is sent again within this; after a long one, within as long as it
/// lasted.
const RETRANSMISSION: Span = Span::millis(200);

#[cfg(test)]
mod tests;
