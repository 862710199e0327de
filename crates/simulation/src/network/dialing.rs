//! How connections are made.

use super::{Conn, End, EndId, EndState, Hosts, Network, News, Passing, ending};
use contract::Span;
use wire::{LinkId, PeerIndex};

/// An attempt to connect.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dial {
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
    /// The end of who made it.
    Accepted(EndId),
    Over,
}

impl<N> Network<N> {
    fn add_dial(&mut self, attempt: Dial) -> u32 {
        match self.free_dials.pop() {
            Some(dial) => {
                self.dials[dial as usize] = attempt;
                dial
            }
            None => {
                self.dials.push(attempt);
                self.dials.len() as u32 - 1
            }
        }
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

    /// Returns the end of who made it.
    fn make_conn(&mut self, from: usize, to: usize) -> EndId {
        let end = |host| End { host, state: EndState::Opening };
        let ends = [end(from), end(to)];
        let lanes = Default::default();
        let made = Conn { age: 0, ends, retired: false, cut: false, doubted: false, lanes };
        if let Some(conn) = self.free_conns.pop() {
            let slot = &mut self.conns[conn as usize];
            let age = slot.age + 1;
            *slot = Conn { age, ..made };
            return EndId { conn, age, side: 0 };
        }
        self.conns.push(made);
        EndId { conn: self.conns.len() as u32 - 1, age: 0, side: 0 }
    }
}

/// A host's process wants a connection to another host, which it calls `peer`, and waits no longer than this.
pub fn dial<W: Hosts>(world: &mut W, from: usize, to: usize, peer: PeerIndex, within: Span) {
    let (life, until) = (world.machine(from).life(), world.now() + within);
    let attempt = Dial { from, life, peer, to, outcome: Outcome::Open, pending: 2 };
    let dial = world.network().add_dial(attempt);
    let delay = world.latency(from, to);
    world.put_down(world.now() + delay, Passing::Knock { dial });
    world.put_down(until, Passing::DialTimeout { dial });
}

pub(super) fn knock<W: Hosts>(world: &mut W, number: u32) {
    let Dial { from, to, outcome, .. } = world.network().take_dial(number);
    let partitions = &world.network().partitions;
    let passes = !partitions.is_blocked(from, to) && !partitions.is_blocked(to, from);
    let passes = passes && world.machine(to).is_up();
    if outcome != Outcome::Open || !passes {
        return;
    }
    let back = world.now() + world.latency(from, to);
    let is_open = world.is_alive(to) && world.listens(to, from);
    let outcome = if is_open {
        let end = world.network().make_conn(from, to);
        // What the target says first must not arrive before its answer does.
        world.network().lane(end.other()).last = back;
        world.has_news(to, News::Accepted(end.other()));
        world.rouse(to);
        Outcome::Accepted(end)
    } else {
        Outcome::Refused
    };
    let dial = &mut world.network().dials[number as usize];
    dial.outcome = outcome;
    dial.pending += 1;
    world.put_down(back, Passing::Answer { dial: number });
}

pub(super) fn answer<W: Hosts>(world: &mut W, number: u32) {
    let Dial { from, life, peer, outcome, .. } = world.network().take_dial(number);
    world.network().dials[number as usize].outcome = Outcome::Over;
    let waits = world.machine(from).life() == life && world.is_alive(from);
    match outcome {
        Outcome::Accepted(end) if waits => world.has_news(from, News::Dialed(end, peer)),
        Outcome::Accepted(end) => ending::abandon(world, end),
        Outcome::Refused if waits => world.has_news(from, News::DialFailed { peer, refused: true }),
        _ => return,
    }
    world.rouse(from);
}

pub(super) fn dial_timeout<W: Hosts>(world: &mut W, number: u32) {
    let Dial { from, life, peer, outcome, .. } = world.network().take_dial(number);
    world.network().dials[number as usize].outcome = Outcome::Over;
    if let Outcome::Accepted(end) = outcome {
        ending::abandon(world, end);
    }
    if outcome != Outcome::Over && world.machine(from).life() == life && world.is_alive(from) {
        world.has_news(from, News::DialFailed { peer, refused: false });
        world.rouse(from);
    }
}

/// A process takes its end of a connection. `None`: it was broken before.
pub fn open_end<W: Hosts>(world: &mut W, end: EndId) -> Option<LinkId> {
    let slot = world.network().conn(end)?;
    if slot.ends[end.side].state != EndState::Opening {
        return None;
    }
    let (host, peer) = (slot.ends[end.side].host, slot.ends[1 - end.side].host);
    let link = world.sockets(host).open(end, peer);
    let network = world.network();
    network.conns[end.conn as usize].ends[end.side].state = EndState::Open(link);
    let first = network.lane(end.other()).chunks.front();
    if let Some(arrives) = first.map(|chunk| chunk.arrives) {
        world.put_down(arrives.max(world.now()), Passing::Arrive(end));
    }
    Some(link)
}
