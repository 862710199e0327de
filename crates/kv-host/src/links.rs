//! Connections between nodes: made, answered, and given to the threads of lanes. Here is where waiting is done, so that lanes need not.
//!
//! One thread for each peer connects to it, for every lane, and again where a connection was lost. One thread answers, with a thread for
//! each that comes while it says its first words. Nothing is done inside of a round by any thread of a lane.

use crate::greet::{Dial, GreetError, Listener, PATIENCE, answer, dial};
use crate::settings::{Journal, NodeSettings};
use crate::watch::Clocks;
use crate::wires::{Direction, Handover, Life, Wire};
use contract::Span;
use host::Helpers;
use kv::hello::{Greeting, HelloError, Purpose};
use kv::{LinkKey, Node, Setup};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Between two attempts to reach a peer (A5).
const RETRY: Duration = Duration::from_millis(500);
/// Between two looks at what has become of connections.
const LOOK: Duration = Duration::from_millis(50);
/// First words that may be under way at once; for one more, the oldest are broken off. Whoever has a key is done with them in a moment, so that
/// strangers break off each other.
const GREETINGS_MAX: usize = 64;
/// What those may have sent who have not shown yet that they have a key, all together.
const UNPROVEN_BYTES_MAX: usize = kv::hello::TEXT_BYTES_MAX;
/// Whoever has not been heard for so long, and for four periods, makes way for another life of the same node.
const SILENCE_MAX: Span = Span::secs(2);
/// How long a refusal of the same peer for the same reason is not said again.
const QUIET: Duration = Duration::from_secs(10);

/// What the threads of a node share.
pub(crate) struct Links {
    settings: NodeSettings,
    incarnation: u64,
    journal: Arc<dyn Journal>,
    stop: Arc<AtomicBool>,
    handovers: Vec<SyncSender<Handover>>,
    /// By lane and peer.
    incoming: Vec<Mutex<Option<Incumbent>>>,
    outgoing: Vec<Mutex<Option<Arc<Life>>>>,
    pub(crate) clocks: Clocks,
    /// Whether a peer's jobs counted already when this node came.
    pub(crate) found_running: AtomicBool,
    /// Whether the jobs of this node count.
    pub(crate) is_running: AtomicBool,
    /// First words under way, the oldest first.
    greetings: Mutex<VecDeque<(u64, TcpStream)>>,
    unproven_bytes: AtomicUsize,
    said: Mutex<Vec<(String, std::time::Instant)>>,
    threads: Helpers,
}

/// Who is connected.
struct Incumbent {
    incarnation: u64,
    address: SocketAddr,
    life: Arc<Life>,
}

impl Links {
    pub(crate) fn new(
        settings: NodeSettings,
        journal: Arc<dyn Journal>,
        stop: Arc<AtomicBool>,
        handovers: Vec<SyncSender<Handover>>,
        threads: Helpers,
    ) -> Links {
        let pairs = settings.lanes.len() * settings.nodes.len();
        Links {
            incarnation: host::random_number(),
            journal,
            stop,
            handovers,
            incoming: (0..pairs).map(|_| Mutex::new(None)).collect(),
            outgoing: (0..pairs).map(|_| Mutex::new(None)).collect(),
            clocks: Clocks::new(settings.nodes.len()),
            found_running: AtomicBool::new(false),
            is_running: AtomicBool::new(false),
            greetings: Mutex::new(VecDeque::new()),
            unproven_bytes: AtomicUsize::new(0),
            said: Mutex::new(Vec::new()),
            threads,
            settings,
        }
    }

    /// Peers to or from which a lane has no connection.
    pub(crate) fn missing(&self) -> Vec<Node> {
        let nodes = self.settings.nodes.len();
        let is_missing = |peer: &Node| {
            (0..self.settings.lanes.len()).any(|lane| {
                let pair = lane * nodes + peer.index();
                let comes = lock(&self.incoming[pair]).as_ref().is_some_and(|one| one.life.is_up());
                !comes || !is_up(&lock(&self.outgoing[pair]))
            })
        };
        (0..nodes).map(Node::at).filter(|peer| *peer != self.settings.me && is_missing(peer)).collect()
    }

    fn pair(&self, lane: usize, peer: Node) -> usize {
        lane * self.settings.nodes.len() + peer.index()
    }

    fn name(&self, peer: Node) -> &str {
        &self.settings.nodes[peer.index()].name
    }

    /// Says something about a peer, but not the same again and again.
    fn complain(&self, text: String) {
        let mut said = lock(&self.said);
        let now = std::time::Instant::now();
        said.retain(|(_, when)| now.duration_since(*when) < QUIET);
        if said.len() < GREETINGS_MAX && !said.iter().any(|(other, _)| *other == text) {
            self.journal.warn(&text);
            said.push((text, now));
        }
    }

    /// Connects to a peer for all lanes, and stays at it.
    pub(crate) fn dialing(&self, peer: Node) {
        let mut clock_due = std::time::Instant::now();
        while !self.stop.load(Ordering::Relaxed) {
            let mut pause = LOOK;
            for lane in 0..self.settings.lanes.len() {
                if !is_up(&lock(&self.outgoing[self.pair(lane, peer)]))
                    && let Err(error) = self.connect(lane, peer)
                {
                    self.complain_of_dial(peer, &error);
                    pause = RETRY;
                    break;
                }
            }
            if clock_due <= std::time::Instant::now() {
                self.look_at_clock(peer);
                clock_due = std::time::Instant::now() + crate::watch::EVERY;
            }
            std::thread::sleep(pause);
        }
    }

    fn complain_of_dial(&self, peer: Node, error: &GreetError) {
        let address = self.settings.nodes[peer.index()].address;
        match error {
            // Not there yet, or not there any more: status shows it, and nothing is to be done here.
            GreetError::Io(_) => {}
            GreetError::Hello(error) => {
                self.complain(format!("no connection to node `{}` at {address}: {error}", self.name(peer)));
            }
        }
    }

    fn connect(&self, lane: usize, peer: Node) -> Result<(), GreetError> {
        let setup = &self.settings.lanes[lane].setup;
        let mut stream = TcpStream::connect_timeout(&self.settings.nodes[peer.index()].address, PATIENCE)?;
        let asked = self.dial_of(Purpose::Frames, setup, peer);
        let dialed = dial(&mut stream, &asked)?;
        self.clocks.seen(peer, dialed.clock);
        if dialed.is_running {
            self.found_running.store(true, Ordering::Relaxed);
        }
        let life = self.hand_over(lane, peer, Direction::Outgoing, stream)?;
        *lock(&self.outgoing[self.pair(lane, peer)]) = Some(life);
        Ok(())
    }

    fn look_at_clock(&self, peer: Node) {
        let address = &self.settings.nodes[peer.index()].address;
        let Some(lane) = self.settings.lanes.first() else { return };
        for _ in 0..crate::watch::LOOKS {
            let Ok(mut stream) = TcpStream::connect_timeout(address, PATIENCE) else { return };
            let asked = self.dial_of(Purpose::Clock, &lane.setup, peer);
            match dial(&mut stream, &asked) {
                Ok(dialed) => self.clocks.seen(peer, dialed.clock),
                Err(_) => return,
            }
        }
    }

    fn dial_of<'a>(&'a self, purpose: Purpose, setup: &'a Setup, peer: Node) -> Dial<'a> {
        let key = &self.settings.links[peer.index()];
        Dial { purpose, setup, me: self.settings.me, peer, incarnation: self.incarnation, key }
    }

    /// Gives a connection to the thread of its lane.
    fn hand_over(
        &self,
        lane: usize,
        peer: Node,
        direction: Direction,
        stream: TcpStream,
    ) -> io::Result<Arc<Life>> {
        stream.set_nonblocking(true)?;
        let setup = &self.settings.lanes[lane].setup;
        // Room for the frames of two jobs, so that a peer which is late by one does not break the connection.
        let bytes = 2 * setup.rounds() * setup.frame_bytes_max();
        // What the kernel refuses it decides itself.
        let _ = match direction {
            Direction::Outgoing => rustix::net::sockopt::set_socket_send_buffer_size(&stream, bytes)
                .and_then(|()| {
                    // A host that has lost its power answers no more.
                    let patience = SILENCE_MAX.max(setup.period() * 4).as_nanos_u64() / 1_000_000;
                    rustix::net::sockopt::set_tcp_user_timeout(
                        &stream,
                        u32::try_from(patience).unwrap_or(u32::MAX),
                    )
                }),
            Direction::Incoming => rustix::net::sockopt::set_socket_recv_buffer_size(&stream, bytes),
        };
        let life = Life::begun(host::now());
        let handover = Handover { peer, direction, wire: Wire { stream, life: life.clone() } };
        let full = || io::Error::other("the lane does not take connections as fast as they come");
        self.handovers[lane].try_send(handover).map_err(|_| full())?;
        Ok(life)
    }

    /// Answers whoever connects.
    pub(crate) fn listening(self: &Arc<Self>, listener: &TcpListener) {
        let mut number = 0;
        while !self.stop.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((stream, address)) => {
                    number += 1;
                    if self.make_room(number, &stream).is_err() {
                        continue;
                    }
                    let this = self.clone();
                    let greet = move || {
                        this.greeted(stream, address, number);
                        Ok(())
                    };
                    if self.threads.hire("kv greeting", greet).is_err() {
                        self.end_greeting(number);
                    }
                }
                Err(_) => {
                    // Somebody comes, or it is time to look whether to end.
                    let mut polled = [PollFd::new(listener, PollFlags::IN)];
                    let _ = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 100_000_000 }));
                }
            }
        }
    }

    /// One more begins its first words; the oldest of too many are broken off.
    fn make_room(&self, number: u64, stream: &TcpStream) -> io::Result<()> {
        let stream = stream.try_clone()?;
        let mut greetings = lock(&self.greetings);
        while greetings.len() >= GREETINGS_MAX {
            if let Some((_, oldest)) = greetings.pop_front() {
                // Its thread reads that it is over.
                let _ = oldest.shutdown(std::net::Shutdown::Both);
            }
        }
        greetings.push_back((number, stream));
        Ok(())
    }

    fn end_greeting(&self, number: u64) {
        lock(&self.greetings).retain(|(other, _)| *other != number);
    }

    fn greeted(&self, mut stream: TcpStream, address: SocketAddr, number: u64) {
        let host = Answering { links: self };
        let blocks = stream.set_nonblocking(false).map_err(GreetError::Io);
        let answered = blocks.and_then(|()| answer(&mut stream, &host));
        // Before it is handed over: nobody breaks off what carries frames.
        self.end_greeting(number);
        match answered {
            Ok(Some(greeting)) => self.admitted(&greeting, stream, address),
            Ok(None) | Err(GreetError::Io(_)) => {}
            Err(GreetError::Hello(error)) => {
                self.complain(format!("a connection from {} is refused: {error}", address.ip()));
            }
        }
    }

    fn admitted(&self, greeting: &Greeting, stream: TcpStream, address: SocketAddr) {
        let Some(lane) = self.lane_of(greeting.lane) else { return };
        let mut incumbent = lock(&self.incoming[self.pair(lane, greeting.sender)]);
        if let Ok(life) = self.hand_over(lane, greeting.sender, Direction::Incoming, stream) {
            *incumbent = Some(Incumbent { incarnation: greeting.incarnation, address, life });
        }
    }

    /// Whether one who is connected says something. A host that has lost its power does not, and its connections know nothing of it.
    fn speaks(&self, lane: usize, incumbent: &Incumbent) -> bool {
        let period = self.settings.lanes[lane].setup.period();
        let silence = host::now().since(incumbent.life.heard());
        incumbent.life.is_up() && silence < SILENCE_MAX.max(period * 4)
    }

    fn lane_of(&self, number: u16) -> Option<usize> {
        self.settings.lanes.iter().position(|lane| lane.setup.config().lane == number)
    }
}

struct Answering<'a> {
    links: &'a Links,
}

impl Listener for Answering<'_> {
    fn me(&self) -> Node {
        self.links.settings.me
    }

    fn nodes(&self) -> usize {
        self.links.settings.nodes.len()
    }

    fn key(&self, peer: Node) -> &LinkKey {
        &self.links.settings.links[peer.index()]
    }

    fn reserve(&self, bytes: usize) -> bool {
        let all = &self.links.unproven_bytes;
        let room = all.fetch_add(bytes, Ordering::Relaxed) + bytes <= UNPROVEN_BYTES_MAX;
        if !room {
            self.give_back(bytes);
        }
        room
    }

    fn give_back(&self, bytes: usize) {
        self.links.unproven_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn setup(&self, lane: u16) -> Option<&Setup> {
        self.links.lane_of(lane).map(|lane| &*self.links.settings.lanes[lane].setup)
    }

    fn admit(&self, greeting: &Greeting) -> Result<bool, HelloError> {
        let Some(lane) = self.links.lane_of(greeting.lane) else {
            return Err(HelloError::NoLane(greeting.lane));
        };
        let incumbent = lock(&self.links.incoming[self.links.pair(lane, greeting.sender)]);
        match &*incumbent {
            Some(other) if other.incarnation != greeting.incarnation && self.links.speaks(lane, other) => {
                let name = self.links.name(greeting.sender).to_owned();
                Err(HelloError::Identity { name, address: other.address.to_string() })
            }
            _ => Ok(self.links.is_running.load(Ordering::Relaxed)),
        }
    }
}

fn is_up(life: &Option<Arc<Life>>) -> bool {
    life.as_ref().is_some_and(|life| life.is_up())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
