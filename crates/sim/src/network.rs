//! Connections between hosts. Each keeps its order; what two of them carry may overtake each other. Bytes that a
//! process has written are its kernel's, and live or die with the host.

use crate::happening::Happening;
use crate::node::{Host, News, Program};
use crate::port::{Note, Pass};
use crate::world::World;
use contract::rounds::{LAST_BYTES_BEGUN, LAST_WRITES};
use contract::{Span, Time};
use engine::Node;
use engine::driving::{CLOSING_TIME, OUTBOX_BYTES_MAX};
use std::collections::VecDeque;
use wire::{LinkId, PeerIndex, Protocol};

/// What is on its way in a chunk, each with the place where its frame ends.
pub(crate) type Notes = VecDeque<(usize, Note)>;

/// A piece of what was written at once.
#[derive(Clone)]
pub(crate) struct Chunk {
    bytes: Vec<u8>,
    /// Bytes that have been read.
    read: usize,
    notes: Notes,
    arrives: Time,
    /// The sender closes; nothing follows.
    end: bool,
}

/// One direction of a connection.
#[derive(Clone, Default)]
pub(crate) struct Lane {
    chunks: VecDeque<Chunk>,
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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EndState {
    /// The connection is being made.
    Opening,
    Open(LinkId),
    Gone,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) host: usize,
    pub(crate) state: EndState,
}

#[derive(Clone)]
pub(crate) struct Conn {
    /// Tells apart the connections that had this place one after the other.
    pub(crate) age: u32,
    pub(crate) ends: [End; 2],
    /// Nobody uses it; its place may be used again.
    retired: bool,
    /// A fault cut it, or took one of its hosts. Nobody answers for what is lost with it.
    cut: bool,
    /// One end stood still for about as long as clients are patient: it may be given up while messages are under way.
    doubted: bool,
    /// By the end that sends.
    lanes: [Lane; 2],
}

/// An attempt to connect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dial {
    from: usize,
    life: u32,
    peer: PeerIndex,
    to: usize,
    outcome: Outcome,
    /// Things that are still to happen to it.
    pending: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Open,
    Refused,
    Accepted { conn: u32, age: u32 },
    Over,
}

impl World {
    /// Which host a number among a node's peers means.
    pub(crate) fn peer_host(&self, host: usize, peer: PeerIndex) -> usize {
        if host < 2 { 1 - host } else { usize::from(peer.0) % 2 }
    }

    /// The time that something takes from one host to another.
    pub(crate) fn latency(&mut self, one: usize, other: usize) -> Span {
        let Host { latency, machine, .. } = &mut self.hosts[one.max(other)];
        let latency = if one < 2 && other < 2 { self.scenario.pair } else { *latency };
        latency.sample(&mut machine.random)
    }

    pub(crate) fn dial(&mut self, from: usize, peer: PeerIndex, within: Span) {
        let (to, life, until) =
            (self.peer_host(from, peer), self.hosts[from].machine.life(), self.now + within);
        let attempt = Dial { from, life, peer, to, outcome: Outcome::Open, pending: 2 };
        let dial = match self.free_dials.pop() {
            Some(dial) => {
                self.dials[dial as usize] = attempt;
                dial
            }
            None => {
                self.dials.push(attempt);
                self.dials.len() as u32 - 1
            }
        };
        let delay = self.latency(from, to);
        self.agenda.push(self.now + delay, Happening::Knock { dial });
        self.agenda.push(until, Happening::DialTimeout { dial });
    }

    /// Something has happened to an attempt; after the last, its place may be used again.
    fn take_dial(&mut self, number: u32) -> Dial {
        let dial = &mut self.dials[number as usize];
        dial.pending -= 1;
        if dial.pending == 0 {
            self.free_dials.push(number);
        }
        *dial
    }

    /// Whether somebody listens at one host for what another one speaks.
    fn is_open(&self, from: usize, to: usize) -> bool {
        let speaks = if matches!(self.hosts[from].program, Program::Device(_)) {
            Protocol::Mqtt
        } else {
            Protocol::Verge
        };
        self.hosts[to].program.is_open(speaks)
    }

    pub(crate) fn knock(&mut self, number: u32) {
        let Dial { from, to, outcome, .. } = self.take_dial(number);
        let passes =
            !self.is_blocked(from, to) && !self.is_blocked(to, from) && self.hosts[to].machine.is_up();
        if outcome != Outcome::Open || !passes {
            return;
        }
        let back = self.now + self.latency(from, to);
        let is_open = self.hosts[to].is_alive() && self.is_open(from, to);
        self.dials[number as usize].outcome = if is_open {
            let (conn, age) = self.make_conn(from, to);
            // What the target says first must not arrive before its answer does.
            self.conns[conn as usize].lanes[1].last = back;
            self.hosts[to].news.push(News::Accepted { conn, age });
            self.rouse(to);
            Outcome::Accepted { conn, age }
        } else {
            Outcome::Refused
        };
        self.dials[number as usize].pending += 1;
        self.agenda.push(back, Happening::Answer { dial: number });
    }

    pub(crate) fn answer(&mut self, number: u32) {
        let Dial { from, life, peer, outcome, .. } = self.take_dial(number);
        self.dials[number as usize].outcome = Outcome::Over;
        let waits = self.hosts[from].machine.life() == life && self.hosts[from].is_alive();
        match outcome {
            Outcome::Accepted { conn, age } if waits => {
                self.hosts[from].news.push(News::Dialed { conn, age, peer });
            }
            Outcome::Accepted { conn, age } => self.abandon(conn, age, 0),
            Outcome::Refused if waits => {
                self.hosts[from].news.push(News::DialFailed { peer, refused: true });
            }
            _ => return,
        }
        self.rouse(from);
    }

    pub(crate) fn dial_timeout(&mut self, number: u32) {
        let Dial { from, life, peer, outcome, .. } = self.take_dial(number);
        self.dials[number as usize].outcome = Outcome::Over;
        if let Outcome::Accepted { conn, age } = outcome {
            self.abandon(conn, age, 0);
        }
        if outcome != Outcome::Over && self.hosts[from].machine.life() == life && self.hosts[from].is_alive()
        {
            self.hosts[from].news.push(News::DialFailed { peer, refused: false });
            self.rouse(from);
        }
    }

    fn make_conn(&mut self, from: usize, to: usize) -> (u32, u32) {
        let end = |host| End { host, state: EndState::Opening };
        let ends = [end(from), end(to)];
        if let Some(conn) = self.free_conns.pop() {
            let slot = &mut self.conns[conn as usize];
            let age = slot.age + 1;
            *slot = Conn { age, ends, retired: false, cut: false, doubted: false, lanes: Default::default() };
            return (conn, age);
        }
        let lanes = Default::default();
        self.conns.push(Conn { age: 0, ends, retired: false, cut: false, doubted: false, lanes });
        (self.conns.len() as u32 - 1, 0)
    }

    pub(crate) fn conn(&mut self, conn: u32, age: u32) -> Option<&mut Conn> {
        self.conns.get_mut(conn as usize).filter(|slot| slot.age == age)
    }

    /// A process takes its end of a connection.
    pub(crate) fn open_end(&mut self, conn: u32, age: u32, side: usize) -> Option<LinkId> {
        let slot = self.conns.get_mut(conn as usize).filter(|slot| slot.age == age)?;
        if slot.ends[side].state != EndState::Opening {
            return None;
        }
        let (host, peer) = (slot.ends[side].host, slot.ends[1 - side].host);
        let link = self.hosts[host].port.open(conn, side, peer);
        slot.ends[side].state = EndState::Open(link);
        if !slot.lanes[1 - side].chunks.is_empty() {
            let arrives = slot.lanes[1 - side].chunks[0].arrives.max(self.now);
            self.agenda.push(arrives, Happening::Arrive { conn, age, side });
        }
        Some(link)
    }

    /// The end of what one side sends goes after everything before it, and arrives at this time at the earliest.
    fn send_end(&mut self, conn: u32, side: usize, soonest: Time) {
        let Conn { age, lanes, .. } = &mut self.conns[conn as usize];
        let (age, lane) = (*age, &mut lanes[side]);
        lane.last = lane.last.max(soonest);
        let arrives = lane.last;
        lane.chunks.push_back(Chunk { bytes: Vec::new(), read: 0, notes: Notes::new(), arrives, end: true });
        self.agenda.push(arrives, Happening::Arrive { conn, age, side: 1 - side });
    }

    /// An end is given up by its host: its process is gone, or never took it. The other learns of it after everything
    /// that was sent.
    pub(crate) fn abandon(&mut self, conn: u32, age: u32, side: usize) {
        let now = self.now;
        let Some(slot) = self.conn(conn, age).filter(|slot| slot.ends[side].state != EndState::Gone) else {
            return;
        };
        slot.ends[side].state = EndState::Gone;
        let lane = &mut slot.lanes[side];
        let told = lane.chunks.back().is_some_and(|chunk| chunk.end);
        if !told {
            let hosts = [slot.ends[0].host, slot.ends[1].host];
            let delay = self.latency(hosts[0], hosts[1]);
            self.send_end(conn, side, now + delay);
        }
        self.lose_lane(conn, 1 - side);
        self.retire_conn(conn);
    }

    /// What one end has sent and the other has not read is lost.
    pub(crate) fn lose_lane(&mut self, conn: u32, side: usize) {
        let slot = &mut self.conns[conn as usize];
        let lane = std::mem::take(&mut slot.lanes[side]);
        let (receiver, excused) = (slot.ends[1 - side].host, slot.cut || slot.doubted);
        self.lose(receiver, excused, &lane.chunks);
    }

    fn lose(&mut self, receiver: usize, excused: bool, chunks: &VecDeque<Chunk>) {
        for (_, note) in chunks.iter().flat_map(|chunk| &chunk.notes).filter(|_| excused) {
            self.watch.lost_on_the_way(receiver, note);
        }
    }

    /// The kernel of a dead process resets its connections where the other end says anything that will not be read, and
    /// discards what is not on the wire yet. What has reached the other host can still be read there.
    fn discard_unsent(&mut self, conn: u32, side: usize) {
        let now = self.now;
        let (unread, lane) = {
            let lanes = &self.conns[conn as usize].lanes;
            (lanes[1 - side].chunks.iter().any(|chunk| !chunk.end && chunk.arrives <= now), &lanes[side])
        };
        let arrived = lane.chunks.partition_point(|chunk| chunk.arrives <= now);
        let under_way = lane.chunks.len() - arrived;
        if under_way == 0 || !(unread || self.random.u32(0..4) == 0) {
            return;
        }
        let keep = arrived + self.random.usize(0..=under_way);
        let slot = &mut self.conns[conn as usize];
        let discarded = slot.lanes[side].chunks.split_off(keep);
        let (sender, receiver) = (slot.ends[side].host, slot.ends[1 - side].host);
        if sender < 2 && receiver < 2 && !discarded.is_empty() {
            self.watch.devices.partner_not_told(now);
        }
        self.lose(receiver, true, &discarded);
    }

    fn retire_conn(&mut self, conn: u32) {
        let slot = &mut self.conns[conn as usize];
        let unused = slot.ends.iter().all(|end| end.state == EndState::Gone)
            && slot.lanes.iter().all(|lane| lane.chunks.is_empty());
        if unused && !std::mem::replace(&mut slot.retired, true) {
            slot.age += 1;
            self.free_conns.push(conn);
        }
    }

    /// The next bytes of a connection reach a host.
    pub(crate) fn arrive(&mut self, conn: u32, age: u32, side: usize) {
        let Some(slot) = self.conn(conn, age) else { return };
        let (from, to, state) = (slot.ends[1 - side].host, slot.ends[side].host, slot.ends[side].state);
        let held = self.is_blocked(from, to) || !self.hosts[to].machine.is_up();
        let now = self.now;
        let lane = &mut self.conns[conn as usize].lanes[1 - side];
        if held {
            lane.held.get_or_insert(now);
            return;
        }
        match state {
            EndState::Opening => {}
            EndState::Open(_) => {
                if !std::mem::replace(&mut lane.announced, true) {
                    self.hosts[to].ready.push((conn, age, side));
                    self.rouse(to);
                }
            }
            EndState::Gone => {
                // The kernel answers that there is no such connection, unless this was but its end.
                let only_end = lane.chunks.iter().all(|chunk| chunk.end);
                self.lose_lane(conn, 1 - side);
                if !only_end {
                    // What this end had sent before is on the same way, and arrives first.
                    let delay = self.latency(from, to);
                    let at = (now + delay).max(self.conns[conn as usize].lanes[side].last);
                    self.agenda.push(at, Happening::Reset { conn, age, side: 1 - side });
                }
                self.retire_conn(conn);
            }
        }
    }

    /// An end learns that its connection is no more.
    pub(crate) fn reset(&mut self, conn: u32, age: u32, side: usize) {
        let Some(slot) = self.conn(conn, age) else { return };
        let (host, state) = (slot.ends[side].host, slot.ends[side].state);
        let (cut, ended) = (slot.cut, slot.lanes[1 - side].chunks.back().map(|last| last.end));
        if state == EndState::Gone || !self.hosts[host].machine.is_up() {
            return;
        }
        if let (EndState::Open(_), false, Some(ended)) = (state, cut, ended) {
            // What has come can still be read; then the process finds the end.
            self.lose_lane(conn, side);
            if !ended {
                self.send_end(conn, 1 - side, self.now);
            }
            return;
        }
        self.conns[conn as usize].ends[side].state = EndState::Gone;
        self.lose_lane(conn, 0);
        self.lose_lane(conn, 1);
        if let EndState::Open(link) = state {
            self.forget_socket(host, link);
        }
        self.retire_conn(conn);
        if let EndState::Open(_) = state {
            self.rouse(host);
        }
    }

    /// A connection of a process is gone; what it had not sent is lost, and the process must be told.
    fn forget_socket(&mut self, host: usize, link: LinkId) {
        let Some(socket) = self.hosts[host].port.socket_mut(link) else { return };
        let (peer, conn) = (socket.peer, socket.conn);
        let Conn { cut, doubted, .. } = self.conns[conn as usize];
        socket.broken = cut || doubted;
        for note in socket.drop_unsent().iter().filter(|_| cut || doubted) {
            self.watch.lost_on_the_way(peer, note);
        }
        self.hosts[host].news.push(News::Closed(link));
    }

    /// A node has been told that a connection is gone. What it had written there since that broke is lost as well.
    pub(crate) fn release(&mut self, host: usize, link: LinkId) {
        if let Some(socket) = self.hosts[host].port.socket_mut(link).filter(|socket| socket.broken) {
            let peer = socket.peer;
            for note in socket.drop_unsent() {
                self.watch.lost_on_the_way(peer, &note);
            }
        }
        self.hosts[host].port.release(link);
    }

    pub(crate) fn close_timeout(&mut self, conn: u32, age: u32, side: usize) {
        let Some(slot) = self.conn(conn, age) else { return };
        if let EndState::Open(link) = slot.ends[side].state {
            let host = slot.ends[side].host;
            self.abandon(conn, age, side);
            self.forget_socket(host, link);
            self.rouse(host);
        }
    }

    /// Whether others of its process are read first.
    pub(crate) fn floods(&self, host: usize, conn: u32, side: usize) -> bool {
        let EndState::Open(link) = self.conns[conn as usize].ends[side].state else { return false };
        self.hosts[host].port.socket(link).is_some_and(|socket| socket.portion.floods())
    }

    /// Reads once from a connection and hands over what is there. Returns whether there is more.
    pub(crate) fn read(&mut self, host: usize, conn: u32, age: u32, side: usize, spent: &mut Span) -> bool {
        let state = self.conn(conn, age).map(|slot| slot.ends[side].state);
        let Some(EndState::Open(link)) = state else { return false };
        let Some(socket) = self.hosts[host].port.socket(link) else { return false };
        if host < 2 && socket.peer >= 2 {
            *spent += self.scenario.true_costs.io.tcp.read;
        }
        let (most, before) = (socket.portion.bytes(), *spent);
        let mut room = most;
        let more = self.read_into(&mut room, host, conn, age, side, spent);
        let took = self.hosts[host].machine.takes(*spent - before);
        if let Some(socket) = self.hosts[host].port.socket_mut(link) {
            socket.portion.handled(most - room, took);
        }
        more
    }

    /// The same until there is no more room.
    fn read_into(
        &mut self,
        room: &mut usize,
        host: usize,
        conn: u32,
        age: u32,
        side: usize,
        spent: &mut Span,
    ) -> bool {
        let now = self.now;
        loop {
            let Some(slot) = self.conn(conn, age) else { return false };
            let EndState::Open(link) = slot.ends[side].state else { return false };
            let held = self.hosts[host].port.socket(link).is_some_and(|socket| socket.held);
            let Some(slot) = self.conn(conn, age) else { return false };
            let lane = &mut slot.lanes[1 - side];
            lane.announced = false;
            let Some(chunk) =
                lane.chunks.front_mut().filter(|chunk| chunk.arrives <= now && lane.held.is_none())
            else {
                return false;
            };
            if *room == 0 || held {
                lane.announced = true;
                return true;
            }
            if chunk.end {
                lane.chunks.pop_front();
                self.abandon(conn, age, side);
                self.forget_socket(host, link);
                return false;
            }
            let piece = (chunk.bytes.len() - chunk.read).min(*room);
            let (begin, end) = (chunk.read, chunk.read + piece);
            chunk.read = end;
            *room -= piece;
            lane.bytes -= piece;
            let whole = end == chunk.bytes.len();
            let starved = std::mem::take(&mut lane.starved);
            // The chunk is taken out while the process reads it, and put back if something is left.
            let Some(mut chunk) = lane.chunks.pop_front() else { return false };
            if starved {
                let other = self.conns[conn as usize].ends[1 - side].host;
                let delay = self.latency(host, other);
                self.agenda.push(now + delay, Happening::Room { conn, age, side: 1 - side });
            }
            let Conn { cut, doubted, .. } = self.conns[conn as usize];
            let socket = self.hosts[host].port.socket(link);
            let thrown_away = socket.is_some_and(|socket| socket.closing.is_some()) && (cut || doubted);
            while let Some((_, note)) = chunk.notes.pop_front_if(|(place, _)| *place <= end) {
                if thrown_away {
                    self.watch.lost_on_the_way(host, &note);
                }
                self.note_arrives(host, link, note, chunk.arrives, spent);
            }
            if self.spoken_on(conn) == Protocol::Mqtt {
                *spent += self.scenario.true_costs.arrival * (piece / PACKET_BYTES + 1) as u64;
            }
            self.hand_over(host, link, &chunk.bytes[begin..end], *spent);
            let judged = std::mem::take(&mut self.hosts[host].port.judged);
            if host < 2 {
                *spent += self.scenario.request_cost * judged;
            }
            if whole {
                self.recycle(chunk);
            } else if let Some(slot) = self.conn(conn, age) {
                slot.lanes[1 - side].chunks.push_front(chunk);
            }
        }
    }

    /// What came and was not consumed is handed over once more.
    pub(crate) fn present_again(&mut self, host: usize, link: LinkId, spent: Span) {
        let Some(socket) = self.hosts[host].port.socket_mut(link) else { return };
        socket.held = false;
        if !socket.partial.is_empty() {
            self.hand_over(host, link, &[], spent);
        }
    }

    fn hand_over(&mut self, host: usize, link: LinkId, bytes: &[u8], spent: Span) {
        let hash = simulation::hash::bytes(self.hash, bytes);
        self.hash = hash;
        let local = self.hosts[host].machine.local(self.now + spent);
        let Host { program, port, .. } = &mut self.hosts[host];
        let Some(socket) = port.socket_mut(link) else { return };
        if socket.closing.is_some() {
            return;
        }
        if socket.partial.is_empty() {
            let used = program.handle_bytes(local, link, bytes, port);
            if let Some(socket) = port.socket_mut(link).filter(|_| used < bytes.len()) {
                socket.partial.extend_from_slice(&bytes[used..]);
            }
        } else {
            let mut buffer = std::mem::take(&mut socket.partial);
            buffer.extend_from_slice(bytes);
            let used = program.handle_bytes(local, link, &buffer, port);
            buffer.drain(..used);
            if let Some(socket) = port.socket_mut(link) {
                socket.partial = buffer;
            }
        }
        self.digest(host, spent);
    }

    fn recycle(&mut self, mut chunk: Chunk) {
        if self.pool.len() < POOL_MAX {
            chunk.bytes.clear();
            self.pool.push((chunk.bytes, chunk.notes));
        }
    }

    /// Sends what a process has written: prunes after everything else, as the host does. Returns whether the process
    /// survived it.
    pub(crate) fn flush(&mut self, host: usize) -> bool {
        self.hosts[host].port.has_more = false;
        let dirty = std::mem::take(&mut self.hosts[host].port.dirty);
        let mut writes = 0;
        for pass in [Pass::First, Pass::Prunes, Pass::Answers] {
            if pass == Pass::Answers && self.copies_wait(host) {
                break;
            }
            for link in &dirty {
                let port = &mut self.hosts[host].port;
                let Some(socket) = port
                    .socket_mut(*link)
                    .filter(|socket| socket.dirty && socket.pass == pass && !socket.last)
                else {
                    continue;
                };
                (socket.dirty, socket.pass) = (false, Pass::First);
                if !self.write_one(host, *link, &mut writes) {
                    return false;
                }
            }
        }
        if !self.flush_last(host, &dirty, &mut writes) {
            return false;
        }
        // Answers that had to wait have their turn again.
        let port = &mut self.hosts[host].port;
        let mut dirty = dirty;
        dirty.retain(|link| port.socket(*link).is_some_and(|socket| socket.dirty));
        port.dirty.append(&mut dirty);
        true
    }

    /// Writes what waits for a connection. `false`: the process has died of it.
    fn write_one(&mut self, host: usize, link: LinkId, writes: &mut u32) -> bool {
        match self.hosts[host].dying {
            Some((whole, share)) if *writes == whole => {
                self.flush_one(host, link, share);
                self.kill(host);
                return false;
            }
            _ => self.flush_one(host, link, 100),
        }
        *writes += 1;
        true
    }

    /// After everything else, some of what is for connections that are served last. `false`: the process has died of it.
    fn flush_last(&mut self, host: usize, dirty: &[LinkId], writes: &mut u32) -> bool {
        let (mut written, mut bytes) = (0, 0);
        let copies_wait = self.copies_wait(host);
        for link in dirty {
            let port = &mut self.hosts[host].port;
            let Some(socket) = port.socket_mut(*link).filter(|socket| socket.dirty && socket.last) else {
                continue;
            };
            if socket.pass == Pass::Answers && copies_wait {
                continue;
            }
            if written == LAST_WRITES || bytes >= LAST_BYTES_BEGUN {
                port.has_more = true;
                break;
            }
            (socket.dirty, socket.pass) = (false, Pass::First);
            written += 1;
            bytes += socket.outbox.len();
            if !self.write_one(host, *link, writes) {
                return false;
            }
        }
        true
    }

    /// Whether copies for the partner could not leave yet.
    fn copies_wait(&self, host: usize) -> bool {
        let sockets = self.hosts[host].port.sockets.iter().flatten();
        host < 2 && sockets.filter(|socket| socket.peer == 1 - host).any(|socket| !socket.outbox.is_empty())
    }

    /// Writes so many percent of what waits for a connection, as far as its kernel has room.
    pub(crate) fn flush_one(&mut self, host: usize, link: LinkId, share: u32) {
        let Some(socket) = self.hosts[host].port.socket_mut(link) else { return };
        socket.weigh();
        let (conn, side, peer) = (socket.conn, socket.side, socket.peer);
        if self.conns[conn as usize].ends[side].state != EndState::Open(link) {
            return;
        }
        let delay = self.latency(host, peer);
        let split = self.hosts[host].machine.random.u32(0..SPLIT_ONE_IN) == 0;
        let second = if split { self.latency(host, peer) } else { Span::ZERO };
        // What follows a lost segment waits until that has come again.
        let lost = host < 2 && peer < 2 && self.is_lost(host);
        let delay = if lost { delay + RETRANSMISSION } else { delay };
        let (age, now) = (self.conns[conn as usize].age, self.now);
        let local = self.hosts[host].machine.local(now);
        let Some(socket) = self.hosts[host].port.socket_mut(link) else { return };
        let lane = &mut self.conns[conn as usize].lanes[side];
        let waiting = socket.outbox.len();
        let size = waiting.min(self.scenario.window_bytes.saturating_sub(lane.bytes)) * share as usize / 100;
        if size > 0 {
            let (mut bytes, mut notes) = self.pool.pop().unwrap_or_default();
            socket.outbox.copy_to(&mut bytes, size);
            let watch = &mut self.watch;
            let last = socket.last;
            socket.leave(size, |place, note| {
                // To who is served last nothing is promised.
                if host < 2 && !last {
                    watch.left(now, local, host, &note);
                }
                notes.push_back((place, note));
            });
            let arrives = lane.last.max(now + delay);
            lane.last = arrives;
            lane.bytes += size;
            // Now and then a write comes in two pieces, in the middle of a frame or not.
            let rest = (split && size > 1).then(|| {
                let place = (size / 2 + size % 7).min(size - 1);
                let arrives = arrives.max(now + second);
                let first = notes.partition_point(|(end, _)| *end <= place);
                let mut notes = notes.split_off(first);
                notes.iter_mut().for_each(|(end, _)| *end -= place);
                Chunk { bytes: bytes.split_off(place), read: 0, notes, arrives, end: false }
            });
            lane.chunks.push_back(Chunk { bytes, read: 0, notes, arrives, end: false });
            self.agenda.push(arrives, Happening::Arrive { conn, age, side: 1 - side });
            if let Some(rest) = rest {
                lane.last = rest.arrives;
                self.agenda.push(rest.arrives, Happening::Arrive { conn, age, side: 1 - side });
                lane.chunks.push_back(rest);
            }
        }
        lane.starved |= !socket.outbox.is_empty();
        let drained = socket.has_drained();
        let closing = socket.closing.is_some();
        let shuts = closing && socket.outbox.is_empty() && !std::mem::replace(&mut socket.shut, true);
        let overflows = socket.outbox.len() > OUTBOX_BYTES_MAX;
        if shuts {
            self.send_end(conn, side, now + delay);
        } else if drained && !closing {
            self.hosts[host].news.push(News::Drained(link));
        }
        if overflows {
            self.abandon(conn, age, side);
            self.forget_socket(host, link);
        }
    }

    /// A connection has room for what did not fit before.
    pub(crate) fn room(&mut self, conn: u32, age: u32, side: usize) {
        let Some(slot) = self.conn(conn, age) else { return };
        let (host, state) = (slot.ends[side].host, slot.ends[side].state);
        if let EndState::Open(link) = state {
            self.hosts[host].port.wants_to_write(link);
            self.rouse(host);
        }
    }

    /// Connections that a process has asked to close get their time.
    pub(crate) fn watch_closing(&mut self, host: usize) {
        let until = self.now + CLOSING_TIME;
        for link in std::mem::take(&mut self.hosts[host].port.closed) {
            let Some(socket) = self.hosts[host].port.socket_mut(link) else { continue };
            socket.closing = Some(until);
            let (conn, side) = (socket.conn, socket.side);
            let age = self.conns[conn as usize].age;
            self.agenda.push(until, Happening::CloseTimeout { conn, age, side });
        }
    }

    /// All connections of a host are given up: its process is gone.
    pub(crate) fn abandon_all(&mut self, host: usize) {
        for index in 0..self.conns.len() {
            for side in 0..2 {
                let Conn { age, ends, .. } = self.conns[index];
                if ends[side].host == host && ends[side].state != EndState::Gone {
                    self.discard_unsent(index as u32, side);
                    self.abandon(index as u32, age, side);
                }
            }
        }
    }

    /// A host is gone with all that its kernel held. Of what it had sent, a part is on its way; nobody is told.
    pub(crate) fn vanish(&mut self, host: usize) {
        for index in 0..self.conns.len() {
            for side in 0..2 {
                let slot = &mut self.conns[index];
                if slot.ends[side].host != host || slot.ends[side].state == EndState::Gone {
                    continue;
                }
                slot.ends[side].state = EndState::Gone;
                slot.cut = true;
                let receiver = slot.ends[1 - side].host;
                let keep = self.random.usize(0..=slot.lanes[side].chunks.len());
                let lost = slot.lanes[side].chunks.split_off(keep);
                let (age, waits) = (slot.age, slot.lanes[1 - side].starved);
                self.lose(receiver, true, &lost);
                self.lose_lane(index as u32, 1 - side);
                if waits {
                    // The other kernel goes on sending; once the host is back, it hears that there is no such connection.
                    let (conn, at) = (index as u32, self.now + RETRANSMISSION);
                    self.agenda.push(at, Happening::Room { conn, age, side: 1 - side });
                }
            }
        }
    }

    /// What waited for a partition to end, or for a host to be back, moves on.
    pub(crate) fn release_held(&mut self) {
        for index in 0..self.conns.len() {
            for side in 0..2 {
                let slot = &self.conns[index];
                let (age, from, to) = (slot.age, slot.ends[side].host, slot.ends[1 - side].host);
                let Some(since) = slot.lanes[side].held else { continue };
                if self.is_blocked(from, to) || !self.hosts[to].machine.is_up() {
                    continue;
                }
                // The sender's kernel tries again now and then, more rarely the longer it has waited.
                let within = self.now.since(since).max(RETRANSMISSION);
                let delay = self.latency(from, to) + Span(self.random.i64(0..within.0));
                let at = self.now + delay;
                self.progress.quiet_at = self.progress.quiet_at.max(at);
                let lane = &mut self.conns[index].lanes[side];
                lane.held = None;
                lane.last = lane.last.max(at);
                lane.chunks.iter_mut().for_each(|chunk| chunk.arrives = chunk.arrives.max(at));
                self.agenda.push(at, Happening::Arrive { conn: index as u32, age, side: 1 - side });
            }
        }
    }

    /// The connections between two hosts break.
    pub(crate) fn break_conns(&mut self, one: usize, other: usize, delivers: bool, half_open: bool) {
        for index in 0..self.conns.len() {
            let slot = &self.conns[index];
            let Some(side) =
                (0..2).find(|side| slot.ends[*side].host == one && slot.ends[1 - side].host == other)
            else {
                continue;
            };
            let (age, ends) = (slot.age, slot.ends);
            if ends.iter().any(|end| end.state == EndState::Gone) {
                continue;
            }
            let conn = index as u32;
            self.conns[index].cut = true;
            if delivers {
                // Each end is told after it has had everything.
                for side in [side, 1 - side] {
                    let delay = self.latency(one, other);
                    self.send_end(conn, side, self.now + delay);
                }
                continue;
            }
            self.agenda.push(self.now, Happening::Reset { conn, age, side });
            self.lose_lane(conn, 0);
            self.lose_lane(conn, 1);
            if !half_open {
                let delay = Span(self.random.i64(0..RESET_SPREAD.0));
                self.agenda.push(self.now + delay, Happening::Reset { conn, age, side: 1 - side });
            }
        }
    }

    /// A host stands still for so long that clients may give up their connections to it, whenever they notice.
    pub(crate) fn doubt_conns(&mut self, host: usize) {
        let of_host = |conn: &&mut Conn| conn.ends.iter().any(|end| end.host == host);
        self.conns.iter_mut().filter(of_host).for_each(|conn| conn.doubted = true);
    }

    /// Nothing passes between two hosts for so long that clients may give up their connections.
    pub(crate) fn doubt_between(&mut self, one: usize, other: usize) {
        let between = |conn: &&mut Conn| {
            let hosts = conn.ends.map(|end| end.host);
            hosts.contains(&one) && hosts.contains(&other)
        };
        self.conns.iter_mut().filter(between).for_each(|conn| conn.doubted = true);
    }

    /// Whether a connection stands between two hosts, as both of them see it.
    pub(crate) fn is_joined(&self, one: usize, other: usize) -> bool {
        self.conns.iter().any(|conn| {
            let hosts = conn.ends.map(|end| end.host);
            let open = conn.ends.iter().all(|end| matches!(end.state, EndState::Open(_)));
            open && !conn.cut && hosts.contains(&one) && hosts.contains(&other)
        })
    }

    /// The program of a dead or beginning process, in its place.
    pub(crate) fn replace_program(&mut self, host: usize, program: Program) {
        let Host { port, news, ready, heart, .. } = &mut self.hosts[host];
        *port = Default::default();
        *heart = None;
        news.clear();
        ready.clear();
        self.hosts[host].program = program;
    }
}

/// A packet of MQTT has about so many bytes; each costs as much as an arrival.
const PACKET_BYTES: usize = 40;
/// Buffers kept for reuse.
const POOL_MAX: usize = 256;
/// After the end of a short partition, what it held back is sent again within this; after a long one, within as long as it
/// lasted.
const RETRANSMISSION: Span = Span::millis(200);
/// One write in so many comes in two pieces.
const SPLIT_ONE_IN: u32 = 16;
/// The two ends of a broken connection learn of it within this.
const RESET_SPREAD: Span = Span::millis(5);
