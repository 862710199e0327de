//! What the network needs of a cluster. To it, each node's part in each lane is a host of its own; connections carry frames one way,
//! from who has made them.

use crate::happening::{Happening, Place};
use crate::part::{Broken, Wire};
use crate::scenario::REDIAL;
use crate::world::World;
use contract::{Span, Time};
use simulation::network::{self, EndId, Hosts, Network, News, Passing, Settings, Sockets};
use simulation::{Machine, hash};
use wire::{LinkId, PeerIndex};

/// Kernels have room for everything here, and nobody closes a connection before what was written has left.
pub(crate) const UNLIMITED: Settings = Settings {
    window_bytes: usize::MAX,
    outbox_bytes_max: usize::MAX,
    drained_bytes: usize::MAX,
    closing_time: Span::FOREVER,
};

impl Hosts for World<'_> {
    type Note = ();
    type Own = ();

    fn network(&mut self) -> &mut Network<()> {
        &mut self.network
    }

    fn sockets(&mut self, host: usize) -> &mut Sockets<(), ()> {
        &mut self.sockets[host]
    }

    fn machine(&mut self, host: usize) -> &mut Machine {
        let at = self.place(host);
        &mut self.machines[at.node]
    }

    fn random(&mut self) -> &mut fastrand::Rng {
        &mut self.chance
    }

    fn now(&self) -> Time {
        self.now
    }

    /// Bytes come in before anybody looks.
    fn put_down(&mut self, at: Time, what: Passing) {
        self.agenda.push_first(at, Happening::Passing(what));
    }

    /// Who sends or gives up a connection knows how long that is on its way; connections are made at once.
    fn latency(&mut self, _from: usize, _to: usize) -> Span {
        self.way
    }

    fn lag(&self, _end: EndId) -> Span {
        Span::ZERO
    }

    fn loses(&mut self, _from: usize, _to: usize) -> bool {
        false
    }

    fn is_alive(&self, host: usize) -> bool {
        self.part(self.place(host)).lane.is_some()
    }

    fn listens(&self, _host: usize, _from: usize) -> bool {
        true
    }

    fn has_news(&mut self, host: usize, news: News) {
        self.news.push_back((host, news));
    }

    /// Whoever waits for it wakes up. On a connection to a peer, only its end can come, and is noticed at once.
    fn can_read(&mut self, host: usize, end: EndId) {
        let at = self.place(host);
        let from = self.place(self.network.host(end.other())).node;
        let Some(link) = self.network.link(end) else { return };
        match self.part_mut(at).wire(from, link) {
            Some(wire) => {
                wire.is_readable = true;
                self.awaken(at, from);
            }
            None => _ = network::read(self, host, end, &mut 1, &mut Span::default()),
        }
    }

    /// Threads have turns of their own.
    fn rouse(&mut self, _host: usize) {}

    fn left(&mut self, _host: usize, _link: LinkId, _note: &()) {}

    fn arrived(&mut self, _host: usize, _link: LinkId, _note: (), _came: Time, _spent: &mut Span) {}

    fn reads(&mut self, host: usize, link: LinkId, bytes: &[u8], _spent: &mut Span) {
        self.hash = hash::bytes(hash::number(self.hash, self.now.0), bytes);
        let at = self.place(host);
        let mut wires = self.part_mut(at).incoming.iter_mut().flatten();
        let wire = wires.find(|wire| wire.link == Some(link));
        wire.into_iter().for_each(|wire| wire.buffer.extend_from_slice(bytes));
    }

    fn lost(&mut self, _to: usize, _note: &()) {}

    fn discards(&mut self, _from: usize, _to: usize) {}

    fn moves_on(&mut self, _at: Time) {}
}

impl World<'_> {
    /// What the network calls a node's part in a lane.
    pub(crate) fn host(&self, at: Place) -> usize {
        at.lane * self.scenario.nodes + at.node
    }

    fn place(&self, host: usize) -> Place {
        Place { lane: host / self.scenario.nodes, node: host % self.scenario.nodes }
    }

    /// Makes a connection that carries frames to a peer, if both live.
    pub(crate) fn connect(&mut self, at: Place, to: usize) {
        let there = Place { lane: at.lane, node: to };
        if self.part(at).lane.is_some() && self.part(there).lane.is_some() {
            network::dial(self, self.host(at), self.host(there), PeerIndex(to as u8), DIAL_TIME);
        }
    }

    /// Bytes are on their way to a peer for so long.
    pub(crate) fn write_to(&mut self, at: Place, link: LinkId, bytes: &[u8], way: Span) {
        let host = self.host(at);
        let Some(socket) = self.sockets[host].get_mut(link) else { return };
        socket.outbox.append(|out| out.extend_from_slice(bytes));
        self.way = way;
        network::write(self, host, link, 100);
        self.way = Span::ZERO;
    }

    /// Gives up a connection; the peer learns of it so much later.
    pub(crate) fn give_up(&mut self, at: Place, link: LinkId, way: Span) {
        self.way = way;
        network::give_up(self, self.host(at), link);
        self.way = Span::ZERO;
        self.hear_news();
    }

    /// A thread reads what has come from a peer, as much as there is room for. Returns whether there was anything.
    pub(crate) fn read_from(&mut self, at: Place, from: usize) -> Result<bool, Broken> {
        let (host, frame_bytes_max) = (self.host(at), self.strands[at.lane].setup.frame_bytes_max());
        let Some(wire) = &self.part(at).incoming[from] else { return Ok(false) };
        let before = wire.buffer.len();
        let socket = wire.link.and_then(|link| self.sockets[host].get(link));
        let end = socket.map(|socket| socket.end).ok_or(Broken)?;
        let mut room = frame_bytes_max - before;
        let more = network::read(self, host, end, &mut room, &mut Span::default());
        self.hear_news();
        let Some(wire) = &mut self.part_mut(at).incoming[from] else { return Ok(false) };
        wire.is_readable = more;
        let came = wire.buffer.len() > before;
        if came || wire.link.is_some() { Ok(came) } else { Err(Broken) }
    }

    /// Nodes hear what has happened to their connections.
    pub(crate) fn hear_news(&mut self) {
        while let Some((host, news)) = self.news.pop_front() {
            let at = self.place(host);
            match news {
                News::Accepted(end) => {
                    let from = self.place(self.network.made_by(end)).node;
                    let Some(link) = network::open_end(self, end) else { continue };
                    let before = self.part_mut(at).offered_in[from].replace(Wire::new(link));
                    self.give_up_all(at, before.and_then(|wire| wire.link));
                }
                News::Dialed(end, peer) => {
                    let Some(link) = network::open_end(self, end) else { continue };
                    let before = self.part_mut(at).offered_out[usize::from(peer.0)].replace(link);
                    self.give_up_all(at, before);
                }
                News::Closed(link) => self.closed(at, link),
                News::DialFailed { .. } | News::Again(_) | News::Drained(_) => {}
            }
        }
    }

    /// Gives up connections in whose place there are others.
    pub(crate) fn give_up_all(&mut self, at: Place, links: impl IntoIterator<Item = LinkId>) {
        links.into_iter().for_each(|link| self.give_up(at, link, Span::ZERO));
    }

    /// A connection is gone; what was read of it can still be taken.
    fn closed(&mut self, at: Place, link: LinkId) {
        network::release(self, self.host(at), link);
        if let Some(to) = self.part_mut(at).forget(link) {
            self.agenda.push(self.now + REDIAL, Happening::Redial { at, to });
        }
    }
}

/// Nobody waits for an answer here: it comes at once.
const DIAL_TIME: Span = Span::millis(1);
