//! The loop around a node: wait, read, run, send.

use crate::breath::Breath;
use crate::busy_poll::BusyPoll;
use crate::clock::{ClockWatch, now, steady};
use crate::doors::{Door, DoorLimits, Guests, Pace, Place};
use crate::error::HostError;
use crate::gather::Gather;
use crate::handshake::{Errand, Handshakes, Outcome};
use crate::heart::Heart;
use crate::network::{Arrival, Network, News};
use crate::poller::{Poller, Ready, WAKERS};
use crate::troubles::{Cause, Troubles};
use crate::workers::Occupancy;
use contract::{Span, Time};
use engine::Node;
use engine::driving::{Reading, Turn, TurnState, hear_news, serve, take_turn};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, Shutdown, SocketFlags, SocketType, sockopt};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use wire::{LinkChange, LinkId, Protocol, Transport};

/// A node with its connections and listeners.
pub struct Driver<N> {
    node: N,
    network: Network,
    listeners: Vec<Listener>,
    state: TurnState,
    clock: ClockWatch,
    /// Whose turn did not come: of those that do not flood, and of those that do.
    next: [Option<u64>; 2],
    /// `None`: it may go on for ever.
    breath: Option<Breath>,
    /// Whether it looks for sockets again and again before it sleeps.
    busy_poll: BusyPoll,
    /// What operators take of the processors that it shares with them.
    operators: Option<Occupancy>,
    /// Whether it rests for that.
    gather: Gather,
}

struct Listener {
    socket: OwnedFd,
    door: Door,
    pace: Pace,
    /// Whether it takes connections, or refuses them as if nobody listened.
    open: bool,
    /// No descriptor was left, or connections came too fast; try again then.
    paused_until: Time,
}

/// Numbers of listeners begin here; connections are below, wakers above.
const LISTENERS: u64 = 1 << 40;
/// The bell of who makes handshakes.
const LOBBY: u64 = WAKERS - 1;
/// Connections taken over after their handshakes before others have their turn.
const SETTLED_PER_TURN: usize = 8;
/// Connections that may wait to be accepted.
const LISTEN_BACKLOG: i32 = 1024;
/// Connections accepted before others have their turn.
const ACCEPTS_PER_TURN: usize = 64;
/// How long accepting rests when no descriptor is left.
const ACCEPT_REST: Span = Span::millis(100);

impl<N: Node> Driver<N> {
    /// A driver for a node that may dial these peers.
    pub fn new(node: N, peers: Vec<SocketAddr>) -> Result<Driver<N>, HostError> {
        let poller =
            Poller::new().map_err(|reason| HostError::System { what: "cannot wait for sockets", reason })?;
        let network = Network::new(Arc::new(poller), peers);
        Ok(Driver {
            node,
            network,
            listeners: Vec::new(),
            state: TurnState::default(),
            clock: ClockWatch::default(),
            next: [None; 2],
            breath: None,
            busy_poll: BusyPoll::new(Span::ZERO),
            operators: None,
            gather: Gather::new(Span::ZERO),
        })
    }

    /// How many may come in by the doors that are opened from now on, and who is told of those that may not.
    pub fn limit(&mut self, limits: DoorLimits, troubles: Arc<Troubles>) {
        self.network.limit(limits, troubles);
    }

    /// So many clients may be connected, through all doors, from now on.
    pub fn limit_clients(&mut self, clients: u32) {
        self.network.limits.clients = clients;
    }

    /// Who makes handshakes.
    pub fn employ(&mut self, handshakes: Handshakes) -> Result<(), HostError> {
        let failed = |reason| HostError::System { what: "cannot wait for handshakes", reason };
        self.network.poller.add_bell(handshakes.bell(), LOBBY).map_err(failed)?;
        self.network.handshakes = Some(handshakes);
        Ok(())
    }

    /// Heartbeats of the partner are heard.
    pub fn beat(&mut self, heart: Heart) {
        self.network.heart = Some(heart);
    }

    /// Listens on an address for clients. Returns the address in fact, whose port the system has chosen if it was zero.
    pub fn listen(
        &mut self,
        address: SocketAddr,
        protocol: Protocol,
        transport: Transport,
    ) -> Result<SocketAddr, HostError> {
        self.open(Door { address, protocol, transport, guests: Guests::Clients })
    }

    /// Opens a door. Returns its address in fact.
    pub fn open(&mut self, door: Door) -> Result<SocketAddr, HostError> {
        let Door { address, transport, .. } = door;
        let failed = |reason| match reason {
            Errno::ADDRINUSE => HostError::AddressInUse(address),
            reason => HostError::Listen { address, reason },
        };
        let handshakes = self.network.handshakes.as_ref();
        if transport != Transport::Plain && !handshakes.is_some_and(|handshakes| handshakes.serves(transport))
        {
            return Err(HostError::NoLobby { address, transport });
        }
        let (socket, address) = bind_listener(address).map_err(failed)?;
        let door = Door { address, ..door };
        let pace = Pace::new(now(), self.network.limits.per_second);
        let mut listener = Listener { socket, door, pace, open: false, paused_until: Time::ZERO };
        let number = LISTENERS + self.listeners.len() as u64;
        // Also one that is closed then: while nobody has listened, others may bind the port.
        listener.open(&self.network, number).map_err(failed)?;
        if !self.node.is_open(door.protocol) {
            listener.close(&self.network).map_err(failed)?;
        }
        self.listeners.push(listener);
        self.network.serves = true;
        Ok(door.address)
    }

    /// Wakes the driver when this becomes readable; what is there to read is the caller's.
    pub fn wake_on(&mut self, waker: impl AsFd) -> Result<(), HostError> {
        let failed = |reason| HostError::System { what: "cannot wait for signals", reason };
        self.network.poller.add(waker, WAKERS, false).map_err(failed)
    }

    /// Wakes the driver with each write to this; it need not be read.
    pub fn wake_with(&mut self, bell: impl AsFd) -> Result<(), HostError> {
        let failed = |reason| HostError::System { what: "cannot wait for workers", reason };
        self.network.poller.add_bell(bell, WAKERS).map_err(failed)
    }

    /// The node.
    pub fn node(&self) -> &N {
        &self.node
    }

    /// What waits for the sockets; may be used by another thread while the driver is not.
    pub fn poller(&self) -> Arc<Poller> {
        Arc::clone(&self.network.poller)
    }

    /// Asks the node for something, and sends what it writes.
    pub fn with<T>(&mut self, act: impl FnOnce(&mut N, &mut Network) -> T) -> T {
        let result = act(&mut self.node, &mut self.network);
        self.flush();
        result
    }

    /// The same without sending yet, for several requests in a row.
    pub fn with_unsent<T>(&mut self, act: impl FnOnce(&mut N, &mut Network) -> T) -> T {
        act(&mut self.node, &mut self.network)
    }

    /// The same where the node may have got work by it, with which the next turn begins at once.
    pub fn with_work<T>(&mut self, act: impl FnOnce(&mut N, &mut Network) -> T) -> T {
        self.state.busy = true;
        self.with(act)
    }

    /// Whether something has happened to a connection of which the node has not been told; the next turn tells it.
    pub fn has_news(&self) -> bool {
        !self.network.news.is_empty()
    }

    /// Until when to wait for sockets, by the host's clock. The next turn begins at once where that is [`Time::ZERO`].
    pub fn due(&self) -> Time {
        let guests = self.network.handshakes.as_ref().is_some_and(Handshakes::has_some);
        if self.state.busy
            || guests
            || self.network.has_more()
            || !self.network.news.is_empty()
            || !self.network.dials.is_empty()
        {
            return Time::ZERO;
        }
        let paused =
            self.listeners.iter().map(|listener| listener.paused_until).filter(|at| *at != Time::ZERO).min();
        self.node.next_deadline().min(self.network.next_expiry()).min(paused.unwrap_or(Time::NEVER))
    }

    /// How long that is.
    pub fn patience(&self) -> Span {
        match self.due() {
            Time::ZERO => Span::ZERO,
            Time::NEVER => Span::FOREVER,
            due => due.since(now()).max(Span::ZERO),
        }
    }

    /// Whether everything that the node wrote has left.
    pub fn is_flushed(&self) -> bool {
        self.network.is_flushed()
    }

    /// One turn of the loop, for what has become ready.
    pub fn turn(&mut self, ready: &[Ready]) {
        take_turn(&mut Turning { driver: self, ready });
    }

    /// The time; a node hears first that the clock has been set.
    fn read_clock(&mut self) -> Time {
        let time = now();
        if let Some(by) = self.clock.look(time, steady()) {
            self.node.handle_clock_step(time, by);
        }
        time
    }

    /// Sends what was written, and says so to a node that waits for that.
    fn flush(&mut self) {
        self.network.flush();
        if self.node.awaits_leaving() {
            self.node.handle_left(now(), &mut self.network);
        }
    }

    /// Waits and turns, once.
    pub fn wait_and_turn(&mut self, ready: &mut Vec<Ready>) -> Result<(), HostError> {
        if let Some(heart) = &self.network.heart {
            heart.end_turn();
        }
        self.wait(ready).map_err(|reason| HostError::System { what: "cannot wait for sockets", reason })?;
        if let Some(heart) = &self.network.heart {
            heart.begin_turn();
        }
        self.turn(ready);
        if let Some(breath) = &mut self.breath {
            breath.take(now, std::thread::sleep);
        }
        Ok(())
    }

    /// Waits until something is ready or due.
    fn wait(&mut self, ready: &mut Vec<Ready>) -> Result<(), Errno> {
        self.rest();
        if self.network.bulk {
            self.busy_poll.carried_bulk();
        }
        let due = self.due();
        let may_busy_poll = due > Time::ZERO && self.may_busy_poll();
        let span = if may_busy_poll { self.busy_poll.span() } else { Span::ZERO };
        if span > Span::ZERO {
            let found = self.look(span, due, ready)?;
            self.busy_poll.looked(found);
            if found {
                return Ok(());
            }
        }
        let learns = may_busy_poll && span == Span::ZERO;
        let from = if learns || self.breath.is_some() { now() } else { Time::ZERO };
        self.network.poller.wait_until(due, ready)?;
        if let Some(load) = &self.operators {
            self.gather.woke(load.is_full(), now);
        }
        if learns || self.breath.is_some() {
            let waited = now().since(from);
            if let Some(breath) = &mut self.breath {
                breath.waited(waited);
            }
            if learns {
                self.busy_poll.slept(waited);
            }
        }
        Ok(())
    }

    /// Whether it may look for sockets instead of sleeping. Operators that are at work need the processors. A rest that is owed anyway
    /// holds up nothing while it waits for sockets, so it sleeps until it has rested.
    fn may_busy_poll(&self) -> bool {
        self.busy_poll.is_wanted()
            && !self.network.bulk
            && self.operators.as_ref().is_none_or(Occupancy::leaves_one)
            && self.breath.as_ref().is_none_or(Breath::is_rested)
    }

    /// Looks for so long whether something is ready, unless something is due sooner. `false`: nothing.
    fn look(&mut self, span: Span, due: Time, ready: &mut Vec<Ready>) -> Result<bool, Errno> {
        let mut time = now();
        let until = due.min(time + span);
        while time < until {
            self.network.poller.wait(Span::ZERO, ready)?;
            let before = std::mem::replace(&mut time, now());
            // A clock that goes back must not make this last longer.
            if !ready.is_empty() || time < before {
                return Ok(!ready.is_empty());
            }
        }
        Ok(false)
    }

    /// Leaves the processors to operators for a while, if they need them, and nothing is due earlier.
    fn rest(&mut self) {
        let rest = self.gather.rest(now);
        let Some(rest) = rest.map(|rest| rest.min(Duration::from_nanos(self.patience().as_nanos_u64())))
        else {
            return;
        };
        let from = now();
        std::thread::sleep(rest);
        if let Some(breath) = &mut self.breath {
            breath.waited(now().since(from));
        }
    }

    /// It shares processors with operators, which take so much of them. Where they nearly always keep all, it rests for so long at most
    /// before it looks for sockets; see [`Gather`].
    pub fn share(&mut self, operators: Occupancy, rest: Span) {
        self.operators = Some(operators);
        self.gather = Gather::new(rest);
    }

    /// Before it sleeps, it looks for so long whether something comes after all, where the last waits were short, this turn moved little,
    /// and operators leave a processor. It saves the time that waking takes, and takes the processor from whoever has less priority.
    pub fn busy_poll(&mut self, before_sleeping: Span) {
        self.busy_poll = BusyPoll::new(before_sleeping);
    }

    /// The calling thread drives from now on. Where the system limits how much of the processor it may use, it rests now and
    /// then, so as not to be held up for long.
    pub fn breathe(&mut self) {
        self.breath = Breath::of_this_thread(now());
    }

    /// Tells the node what has happened to its connections. `false`: nothing.
    fn tell_news(&mut self) -> bool {
        let some = self.has_news();
        // Telling may make more news.
        while !self.network.news.is_empty() {
            for news in std::mem::take(&mut self.network.news) {
                let (node, network) = (&mut self.node, &mut self.network);
                match news {
                    News::Dialed(link, peer) => {
                        node.handle_link(now(), link, LinkChange::Dialed(peer), network);
                    }
                    News::DialFailed(peer, refused) => node.handle_dial_failed(now(), peer, refused, network),
                    News::Closed(link) => {
                        node.handle_link(now(), link, LinkChange::Closed, network);
                        network.release(link);
                    }
                    News::Again(link) => {
                        network
                            .present(link.0, |bytes, network| node.handle_bytes(now(), link, bytes, network));
                    }
                    News::Drained(link) => node.handle_link(now(), link, LinkChange::Drained, network),
                }
            }
        }
        some
    }

    fn accept(&mut self, listener: usize) {
        for _ in 0..ACCEPTS_PER_TURN {
            let Some(listener) = self.listeners.get_mut(listener).filter(|listener| listener.open) else {
                return;
            };
            let time = now();
            if let Err(rest) = listener.pace.take(time) {
                let door = listener.door.address;
                self.network.troubles.note(Cause::DoorPace, || {
                    format!("connections at {door} come faster than limits.accepts_per_second; they wait")
                });
                return listener.pause(&self.network, time + rest);
            }
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match net::acceptfrom_with(&listener.socket, flags) {
                Ok((socket, from)) => {
                    let from = from.and_then(|from| SocketAddr::try_from(from).ok());
                    let Some(arrival) = self.network.receive(from, &listener.door) else { continue };
                    if arrival.transport != Transport::Plain {
                        self.network.accept_later(socket, arrival);
                    } else if let Some(link) = self.network.accept(socket, &arrival) {
                        self.introduce(link, &arrival);
                        if arrival.place == Place::Admin {
                            // The next one may take its place before its socket is looked at.
                            self.read(link.0);
                        }
                    }
                }
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    // Waiting connections stay in the kernel's queue; without a rest we would spin on them.
                    self.network.troubles.note(Cause::Descriptors, || {
                        "no descriptor is left for a new connection: raise LimitNOFILE".to_owned()
                    });
                    return listener.pause(&self.network, time + ACCEPT_REST);
                }
                Err(Errno::AGAIN) => return,
                // The connection was gone before it was taken.
                Err(_) => {}
            }
        }
    }

    /// Takes over connections whose handshakes are done.
    fn settle_guests(&mut self) {
        for _ in 0..SETTLED_PER_TURN {
            let Some(outcome) = self.network.handshakes.as_mut().and_then(Handshakes::take) else { return };
            match outcome {
                Outcome::Ready { socket, errand: Errand::Accepted(arrival), layers, name } => {
                    let Some(link) = self.network.settle(socket, &arrival, Some(layers)) else { continue };
                    self.introduce(link, &arrival);
                    if let Some(name) = name {
                        self.node.handle_identity(now(), link, &name);
                    }
                    // What came with the handshake is not in the socket any more, so nothing else would wake us for it.
                    self.read(link.0);
                }
                Outcome::Ready { socket, errand: Errand::Dialed { peer, .. }, layers, .. } => {
                    let link = self.network.settle_dialed(socket, peer, layers);
                    self.state.busy |= self.tell_news();
                    if let Some(link) = link {
                        self.read(link.0);
                    }
                }
                Outcome::Failed { errand: Errand::Accepted(arrival) } => self.network.unseat(&arrival),
                Outcome::Failed { errand: Errand::Dialed { peer, .. } } => {
                    self.network.report_failed_dial(peer, false);
                }
            }
        }
    }

    /// Tells the node of somebody who has connected.
    fn introduce(&mut self, link: LinkId, arrival: &Arrival) {
        let Arrival { from, protocol, transport, place } = *arrival;
        self.state.busy = true;
        self.node.handle_link(now(), link, LinkChange::Accepted(protocol), &mut self.network);
        self.node.handle_transport(link, transport);
        if protocol == Protocol::Mqtt {
            self.network.be_prompt(link);
            if let Some(own) = self.network.own_address(link) {
                self.node.handle_own_address(link, own.ip());
            }
        }
        if place == Place::Admin {
            self.node.handle_crowded(link);
        }
        if let Some(from) = from {
            self.node.handle_address(link, from.ip());
        }
    }

    /// Returns when it was done.
    fn read(&mut self, index: u32) -> Time {
        self.state.busy = true;
        let Driver { node, network, .. } = self;
        let mut came = Time::NEVER;
        network.read(index, |bytes, network| {
            came = now();
            node.handle_bytes(came, LinkId(index), bytes, network)
        });
        let time = now();
        if came != Time::NEVER {
            network.handled(index, time.since(came));
        }
        time
    }

    /// Opens and closes doors, as the node wants them.
    fn swing_doors(&mut self) {
        for (index, listener) in self.listeners.iter_mut().enumerate() {
            let door = listener.door;
            let result = match (listener.open, self.node.is_open(door.protocol)) {
                (false, true) => listener.open(&self.network, LISTENERS + index as u64),
                (true, false) => listener.close(&self.network),
                _ => continue,
            };
            if let Err(reason) = result {
                // It is tried again in the next turn.
                self.network.troubles.note(Cause::Doors, || {
                    format!("the door at {} can be neither opened nor closed: {reason}", door.address)
                });
            }
        }
    }

    fn resume_listeners(&mut self, time: Time) {
        for (index, listener) in self.listeners.iter_mut().enumerate() {
            if listener.paused_until != Time::ZERO && time >= listener.paused_until {
                listener.paused_until = Time::ZERO;
                if self.network.poller.add(&listener.socket, LISTENERS + index as u64, false).is_err() {
                    listener.paused_until = time + ACCEPT_REST;
                }
            }
        }
    }
}

/// A turn of a driver, for what has become ready.
struct Turning<'a, N> {
    driver: &'a mut Driver<N>,
    ready: &'a [Ready],
}

impl<N: Node> Turn for Turning<'_, N> {
    type Ready = Ready;

    #[inline]
    fn state(&mut self) -> &mut TurnState {
        &mut self.driver.state
    }

    #[inline]
    fn now(&self) -> Time {
        now()
    }

    #[inline]
    fn read_clock(&mut self) -> Time {
        self.driver.read_clock()
    }

    /// Whoever asks whether this node lives does not wait for all that comes before.
    fn begin(&mut self) {
        if self.driver.next != [None; 2]
            && let Some(foremost) = self.driver.network.foremost
        {
            serve(self, &Ready { token: u64::from(foremost), readable: true, writable: false });
        }
        self.driver.network.bulk = false;
    }

    /// Who has no turn this time comes first the next time, when its socket is still ready.
    fn serve_ready(&mut self, flooding: bool) -> bool {
        let ready = self.ready;
        let next = self.driver.next[usize::from(flooding)].take();
        let first = next.and_then(|next| ready.iter().position(|event| event.token == next));
        let (later, sooner) = ready.split_at(first.unwrap_or(0));
        let (mut left_out, mut reading, mut time) = (false, Reading::default(), Time::ZERO);
        for event in sooner.iter().chain(later) {
            match event.token {
                // Whoever is done is looked for in every turn.
                LOBBY.. => {}
                LISTENERS.. if flooding => {}
                LISTENERS.. => self.driver.accept((event.token - LISTENERS) as usize),
                token if self.driver.network.floods(token as u32) != flooding => left_out = true,
                token if reading.is_over(time) => {
                    self.driver.next[usize::from(flooding)] = Some(token);
                    return true;
                }
                _ => {
                    time = serve(self, event);
                    reading.went_on(time);
                }
            }
        }
        left_out
    }

    fn read(&mut self, ready: &Ready) -> (Time, bool) {
        let index = ready.token as u32;
        if ready.writable {
            self.driver.network.write_ready(index);
            // Who talks first on a connection that we make comes after the word that it is made.
            hear_news(self);
        }
        (if ready.readable { self.driver.read(index) } else { now() }, ready.readable)
    }

    #[inline]
    fn tell_news(&mut self) -> bool {
        self.driver.tell_news()
    }

    fn settle_guests(&mut self) {
        self.driver.settle_guests();
    }

    #[inline]
    fn portion(&mut self, time: Time) -> bool {
        self.driver.node.run(time, &mut self.driver.network)
    }

    #[inline]
    fn send(&mut self) {
        self.driver.flush();
    }

    fn expire(&mut self, time: Time) {
        self.driver.network.expire(time);
        self.driver.network.trim(time);
    }

    #[inline]
    fn next_deadline(&self) -> Time {
        self.driver.node.next_deadline()
    }

    #[inline]
    fn handle_timeout(&mut self, time: Time) {
        self.driver.node.handle_timeout(time, &mut self.driver.network);
    }

    fn dial(&mut self, time: Time) {
        for (peer, within) in std::mem::take(&mut self.driver.network.dials) {
            self.driver.network.connect(time, peer, within);
        }
    }

    fn end(&mut self, time: Time) {
        self.driver.swing_doors();
        self.driver.resume_listeners(time);
        self.driver.flush();
        self.driver.network.flush_last();
        self.driver.network.acknowledge();
    }
}

impl Listener {
    fn open(&mut self, network: &Network, number: u64) -> Result<(), Errno> {
        // Connections that were made before it was closed have the port as well.
        sockopt::set_socket_reuseaddr(&self.socket, true)?;
        net::listen(&self.socket, LISTEN_BACKLOG)?;
        network.poller.add(&self.socket, number, false)?;
        (self.open, self.paused_until) = (true, Time::ZERO);
        Ok(())
    }

    /// The port stays bound, and nobody else may take it. Who connects is refused at once, and so is who waits in the system's queue.
    fn close(&mut self, network: &Network) -> Result<(), Errno> {
        network.poller.remove(&self.socket);
        net::shutdown(&self.socket, Shutdown::Both)?;
        sockopt::set_socket_reuseaddr(&self.socket, false)?;
        (self.open, self.paused_until) = (false, Time::ZERO);
        Ok(())
    }

    fn pause(&mut self, network: &Network, until: Time) {
        network.poller.remove(&self.socket);
        self.paused_until = until;
    }
}

/// A socket that is bound and does not listen yet, and its address in fact.
fn bind_listener(address: SocketAddr) -> Result<(OwnedFd, SocketAddr), Errno> {
    let socket = bound_socket(&address)?;
    if address.port() != 0 {
        return Ok((socket, address));
    }
    // A port that the system has chosen is given back when the socket stops listening, one that was asked for is not.
    let chosen = net::getsockname(&socket).ok().and_then(|name| SocketAddr::try_from(name).ok());
    let chosen = chosen.ok_or(Errno::ADDRNOTAVAIL)?;
    drop(socket);
    Ok((bound_socket(&chosen)?, chosen))
}

fn bound_socket(address: &SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket =
        net::socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
    // A restarted broker must not wait for the connections of its earlier life to be forgotten.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    net::bind(&socket, address)?;
    Ok(socket)
}
