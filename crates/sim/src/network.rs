//! What the network needs of a deployment, and the order in which its processes read and write.

use crate::happening::Happening;
use crate::node::{Host, Program};
use crate::port::{Note, Pass, Service};
use crate::world::World;
use contract::rounds::{LAST_BYTES_BEGUN, LAST_WRITES};
use contract::{Span, Time};
use engine::Node;
use simulation::network::{self, EndId, Hosts, Network, News, Passing, Sockets};
use simulation::{Machine, hash};
use wire::{LinkId, PeerIndex, Protocol};

impl Hosts for World {
    type Note = Note;
    type Own = Service;

    fn network(&mut self) -> &mut Network<Note> {
        &mut self.network
    }

    fn sockets(&mut self, host: usize) -> &mut Sockets<Note, Service> {
        &mut self.hosts[host].port.sockets
    }

    fn machine(&mut self, host: usize) -> &mut Machine {
        &mut self.hosts[host].machine
    }

    fn random(&mut self) -> &mut fastrand::Rng {
        &mut self.random
    }

    fn now(&self) -> Time {
        self.now
    }

    fn put_down(&mut self, at: Time, what: Passing) {
        self.agenda.push(at, Happening::Passing(what));
    }

    fn latency(&mut self, from: usize, to: usize) -> Span {
        let Host { latency, machine, .. } = &mut self.hosts[from.max(to)];
        let latency = if from < 2 && to < 2 { self.scenario.pair } else { *latency };
        latency.sample(&mut machine.random)
    }

    fn lag(&self, _end: EndId) -> Span {
        Span::ZERO
    }

    fn loses(&mut self, from: usize, to: usize) -> bool {
        from < 2 && to < 2 && self.is_lost(from)
    }

    fn is_alive(&self, host: usize) -> bool {
        self.hosts[host].is_alive()
    }

    /// Devices speak something else than everybody else does.
    fn listens(&self, host: usize, from: usize) -> bool {
        let speaks = if matches!(self.hosts[from].program, Program::Device(_)) {
            Protocol::Mqtt
        } else {
            Protocol::Verge
        };
        self.hosts[host].program.is_open(speaks)
    }

    fn has_news(&mut self, host: usize, news: News) {
        self.hosts[host].news.push(news);
    }

    fn can_read(&mut self, host: usize, end: EndId) {
        self.hosts[host].ready.push(end);
    }

    fn rouse(&mut self, host: usize) {
        let state = &self.hosts[host];
        if state.is_alive() && state.machine.can_turn() {
            self.turn(host);
        }
    }

    /// To who is served last nothing is promised.
    fn left(&mut self, host: usize, link: LinkId, note: &Note) {
        let Host { machine, port, .. } = &self.hosts[host];
        if host < 2 && port.sockets.get(link).is_some_and(|socket| !socket.own.last) {
            self.watch.left(self.now, machine.local(self.now), host, note);
        }
    }

    fn arrived(&mut self, host: usize, link: LinkId, note: Note, came: Time, spent: &mut Span) {
        self.note_arrives(host, link, note, came, spent);
    }

    fn reads(&mut self, host: usize, link: LinkId, bytes: &[u8], spent: &mut Span) {
        let end = self.hosts[host].port.sockets.get(link).map(|socket| socket.end);
        if end.is_some_and(|end| self.spoken_on(end) == Protocol::Mqtt) {
            *spent += self.scenario.true_costs.arrival * (bytes.len() / PACKET_BYTES + 1) as u64;
        }
        self.hand_over(host, link, bytes, *spent);
        let judged = std::mem::take(&mut self.hosts[host].port.judged);
        if host < 2 {
            *spent += self.scenario.request_cost * judged;
        }
    }

    fn lost(&mut self, to: usize, note: &Note) {
        self.watch.lost_on_the_way(to, note);
    }

    fn discards(&mut self, from: usize, to: usize) {
        if from < 2 && to < 2 {
            self.watch.devices.partner_not_told(self.now);
        }
    }

    fn moves_on(&mut self, at: Time) {
        self.progress.quiet_at = self.progress.quiet_at.max(at);
    }
}

impl World {
    /// Which host a number among a node's peers means.
    pub(crate) fn peer_host(&self, host: usize, peer: PeerIndex) -> usize {
        if host < 2 { 1 - host } else { usize::from(peer.0) % 2 }
    }

    /// Whether others of its process are read first.
    pub(crate) fn floods(&self, host: usize, end: EndId) -> bool {
        let socket = self.network.link(end).and_then(|link| self.hosts[host].port.sockets.get(link));
        socket.is_some_and(|socket| socket.own.portion.floods())
    }

    /// Reads once from a connection and hands over what is there. Returns whether there is more.
    pub(crate) fn read(&mut self, host: usize, end: EndId, spent: &mut Span) -> bool {
        let Some(link) = self.network.link(end) else { return false };
        let Some(socket) = self.hosts[host].port.sockets.get(link) else { return false };
        if host < 2 && socket.peer >= 2 {
            *spent += self.scenario.true_costs.io.tcp.read;
        }
        let (most, before) = (socket.own.portion.bytes(), *spent);
        let mut room = most;
        let more = network::read(self, host, end, &mut room, spent);
        let took = self.hosts[host].machine.takes(*spent - before);
        if let Some(socket) = self.hosts[host].port.sockets.get_mut(link) {
            socket.own.portion.handled(most - room, took);
        }
        more
    }

    /// What came and was not consumed is handed over once more.
    pub(crate) fn present_again(&mut self, host: usize, link: LinkId, spent: Span) {
        if self.hosts[host].port.sockets.let_go(link) {
            self.hand_over(host, link, &[], spent);
        }
    }

    /// A node has been told that a connection is gone.
    pub(crate) fn release(&mut self, host: usize, link: LinkId) {
        if network::release(self, host, link) {
            let port = &mut self.hosts[host].port;
            port.foremost = port.foremost.filter(|foremost| *foremost != link);
        }
    }

    fn hand_over(&mut self, host: usize, link: LinkId, bytes: &[u8], spent: Span) {
        self.hash = hash::bytes(self.hash, bytes);
        let local = self.hosts[host].machine.local(self.now + spent);
        let Host { program, port, .. } = &mut self.hosts[host];
        let take = |bytes: &[u8], port: &mut _| program.handle_bytes(local, link, bytes, port);
        if network::hand_over(port, link, bytes, take) {
            self.digest(host, spent);
        }
    }

    /// Sends what a process has written: prunes after everything else, as the host does. Returns whether the process
    /// survived it.
    pub(crate) fn flush(&mut self, host: usize) -> bool {
        self.hosts[host].port.has_more = false;
        let dirty = std::mem::take(&mut self.hosts[host].port.sockets.dirty);
        let mut writes = 0;
        for pass in [Pass::First, Pass::Prunes, Pass::Answers] {
            if pass == Pass::Answers && self.copies_wait(host) {
                break;
            }
            for link in &dirty {
                let sockets = &mut self.hosts[host].port.sockets;
                let now = |own: &Service| own.pass == pass && !own.last;
                let Some(socket) = sockets.get_mut(*link).filter(|it| it.dirty && now(&it.own)) else {
                    continue;
                };
                (socket.dirty, socket.own.pass) = (false, Pass::First);
                if !self.write_one(host, *link, &mut writes) {
                    return false;
                }
            }
        }
        if !self.flush_last(host, &dirty, &mut writes) {
            return false;
        }
        // Answers that had to wait have their turn again.
        let sockets = &mut self.hosts[host].port.sockets;
        let mut dirty = dirty;
        dirty.retain(|link| sockets.get(*link).is_some_and(|socket| socket.dirty));
        sockets.dirty.append(&mut dirty);
        true
    }

    /// Writes what waits for a connection. `false`: the process has died of it.
    fn write_one(&mut self, host: usize, link: LinkId, writes: &mut u32) -> bool {
        match self.hosts[host].dying {
            Some((whole, share)) if *writes == whole => {
                network::write(self, host, link, share);
                self.kill(host);
                return false;
            }
            _ => network::write(self, host, link, 100),
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
            let Some(socket) = port.sockets.get_mut(*link).filter(|it| it.dirty && it.own.last) else {
                continue;
            };
            if socket.own.pass == Pass::Answers && copies_wait {
                continue;
            }
            if written == LAST_WRITES || bytes >= LAST_BYTES_BEGUN {
                port.has_more = true;
                break;
            }
            (socket.dirty, socket.own.pass) = (false, Pass::First);
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
        let mut sockets = self.hosts[host].port.sockets.iter();
        host < 2 && sockets.any(|(_, socket)| socket.peer == 1 - host && !socket.outbox.is_empty())
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
