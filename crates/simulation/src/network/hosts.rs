//! What a network needs of the world that it is in.

use super::{EndId, Network, Sockets};
use crate::Machine;
use contract::{Span, Time};
use wire::{LinkId, PeerIndex};

/// A world of hosts, each with a process, that are numbered from 0 on.
pub trait Hosts {
    /// What those who look on want to know of what is on its way.
    type Note;
    /// What the world keeps of a node's connection.
    type Own: Default;

    /// The connections between the hosts.
    fn network(&mut self) -> &mut Network<Self::Note>;
    /// The connections of a host's process, as that has them.
    fn sockets(&mut self, host: usize) -> &mut Sockets<Self::Note, Self::Own>;
    /// A host, without what runs there.
    fn machine(&mut self, host: usize) -> &mut Machine;
    /// Chance in what goes wrong.
    fn random(&mut self) -> &mut fastrand::Rng;
    /// The time.
    fn now(&self) -> Time;
    /// Puts down what is going to happen: [`super::happens`] is to be called with it then.
    fn put_down(&mut self, at: Time, what: Passing);

    /// The time that something takes from one host to another.
    fn latency(&mut self, from: usize, to: usize) -> Span;
    /// How much longer than that what one end sends is on its way.
    fn lag(&self, end: EndId) -> Span;
    /// Whether a piece of what one host sends another is lost, and comes later.
    fn loses(&mut self, from: usize, to: usize) -> bool;
    /// Whether a host has a process.
    fn is_alive(&self, host: usize) -> bool;
    /// Whether a host's process takes connections from another host.
    fn listens(&self, host: usize, from: usize) -> bool;

    /// There is something for a process to hear in its next turn, or still in this one.
    fn has_news(&mut self, host: usize, news: News);
    /// There is something for a process to read at one of its ends.
    fn can_read(&mut self, host: usize, end: EndId);
    /// Something has come for a process; it takes a turn if it can.
    fn rouse(&mut self, host: usize);

    /// What a note is about has left its process.
    fn left(&mut self, host: usize, link: LinkId, note: &Self::Note);
    /// What a note is about has reached a process, which reads it now. It came to its host before.
    fn arrived(&mut self, host: usize, link: LinkId, note: Self::Note, came: Time, spent: &mut Span);
    /// A process reads bytes. `spent` is what its turn has cost so far.
    fn reads(&mut self, host: usize, link: LinkId, bytes: &[u8], spent: &mut Span);
    /// What a note is about never reaches a host, and what goes wrong is to blame.
    fn lost(&mut self, to: usize, note: &Self::Note);
    /// A dead process's kernel discards some of what it had written to another host.
    fn discards(&mut self, from: usize, to: usize);
    /// What was held back comes then.
    fn moves_on(&mut self, at: Time);
}

/// What the network puts down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passing {
    /// The next piece of a connection's bytes reaches an end.
    Arrive(EndId),
    /// An end may send again.
    Room(EndId),
    /// An end learns that its connection is broken.
    Reset(EndId),
    /// A connection that is being closed by an end has had its time.
    CloseTimeout(EndId),
    /// An attempt to connect reaches its target.
    Knock {
        /// Which one.
        dial: u32,
    },
    /// The answer to an attempt reaches who made it.
    Answer {
        /// Which one.
        dial: u32,
    },
    /// An attempt has had its time.
    DialTimeout {
        /// Which one.
        dial: u32,
    },
}

/// What a process must still be told by its driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    /// Somebody has made a connection to it.
    Accepted(EndId),
    /// It has made one.
    Dialed(EndId, PeerIndex),
    /// It has made none.
    DialFailed {
        /// To whom.
        peer: PeerIndex,
        /// Whether a host has said so.
        refused: bool,
    },
    /// What came and was not consumed is to be presented again.
    Again(LinkId),
    /// A connection is gone.
    Closed(LinkId),
    /// Nearly all that waited on a connection has left.
    Drained(LinkId),
}
