//! The order of a turn, which is the same whether sockets and clocks are real or invented.
//!
//! What has come is read from one connection after the other, and the node works a portion after each, so that what is urgent waits for
//! nobody who brings much. Then it works some more, and what it has written leaves; and only then it is told what has happened to its
//! connections and what is due.

use super::PORTIONS_PER_TURN;
use contract::{Span, Time};

/// A driver with its node, in a turn. All times are those of the clock that the node knows.
pub trait Turn {
    /// A connection that something can be done with.
    type Ready;

    /// What is left from one turn to the next.
    fn state(&mut self) -> &mut TurnState;

    /// What the clock shows.
    fn now(&self) -> Time;

    /// The same at the beginning of a turn and where deadlines are looked at: a node hears first that the clock has been set.
    fn read_clock(&mut self) -> Time;

    /// What goes before everything else: who asks whether this node lives.
    fn begin(&mut self);

    /// Serves the connections with which something can be done, either those that flood or the others, each with [`serve`]. Returns
    /// whether there may be some that were left out.
    fn serve_ready(&mut self, flooding: bool) -> bool;

    /// Reads once from a connection, and hands over what has come. Returns when that was done, and whether something was there to read.
    fn read(&mut self, ready: &Self::Ready) -> (Time, bool);

    /// Tells the node what has happened to its connections. `false`: nothing.
    fn tell_news(&mut self) -> bool;

    /// Takes over connections that others have prepared.
    fn settle_guests(&mut self);

    /// The node works a portion, at this time. Returns whether there is more.
    fn portion(&mut self, time: Time) -> bool;

    /// What was written leaves, where others must not wait for it.
    fn send(&mut self);

    /// Gives up what has had its time.
    fn expire(&mut self, time: Time);

    /// When the node wants to be woken.
    fn next_deadline(&self) -> Time;

    /// The node does what is due.
    fn handle_timeout(&mut self, time: Time);

    /// Makes the connections that the node wants.
    fn dial(&mut self, time: Time);

    /// Everything else that was written leaves, and doors are opened and closed.
    fn end(&mut self, time: Time);
}

/// What is left from one turn to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TurnState {
    /// The node has work that did not fit into its last portion, or may have.
    pub busy: bool,
    /// The time at which deadlines were last looked at.
    pub last: Time,
}

/// One turn.
#[inline]
pub fn take_turn<T: Turn>(driver: &mut T) {
    driver.read_clock();
    // Something may have made work, until the node has been asked.
    driver.state().busy = true;
    driver.begin();
    if driver.serve_ready(false) {
        // What the others brought leaves before, so that it need not wait.
        driver.send();
        driver.serve_ready(true);
    }
    driver.settle_guests();
    let mut portions = 0;
    while driver.state().busy && portions < PORTIONS_PER_TURN {
        work(driver);
        portions += 1;
    }
    let left = driver.state().busy;
    // What was done leaves before all that nobody waits for.
    driver.send();
    let time = driver.read_clock();
    driver.expire(time);
    let told = hear_news(driver);
    // When the clock has gone back, what was due soon seems far away, and only the node can put that right.
    let went_back = time < std::mem::replace(&mut driver.state().last, time);
    let timed = went_back || driver.next_deadline() <= time;
    if timed {
        driver.handle_timeout(time);
    }
    // What was just told may have made work, and nothing else would wake us for it.
    let more = (told || timed) && work(driver);
    driver.state().busy = left | more;
    driver.dial(time);
    driver.end(time);
}

/// What can be done with one connection, and the first portion of the work at once. Returns when it had been read.
#[inline]
pub fn serve<T: Turn>(driver: &mut T, ready: &T::Ready) -> Time {
    let (time, came) = driver.read(ready);
    if came {
        driver.state().busy = driver.portion(time);
    }
    hear_news(driver);
    time
}

/// The node hears what has happened to its connections. `false`: nothing.
#[inline]
pub fn hear_news<T: Turn>(driver: &mut T) -> bool {
    let told = driver.tell_news();
    driver.state().busy |= told;
    told
}

fn work<T: Turn>(driver: &mut T) -> bool {
    let time = driver.now();
    let more = driver.portion(time);
    driver.state().busy = more;
    more
}

/// For how long connections are read in a turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    until: Option<Time>,
}

impl Reading {
    /// Whether others have to wait for the next turn.
    #[inline]
    pub fn is_over(&self, time: Time) -> bool {
        self.until.is_some_and(|until| time >= until)
    }

    /// One was read by this time.
    #[inline]
    pub fn went_on(&mut self, time: Time) {
        let until = time + READING_PER_TURN;
        self.until = Some(self.until.map_or(until, |known| known.min(until)));
    }
}

/// Once a connection has been read, others are for so long in the same turn, of those that flood and of the others each.
const READING_PER_TURN: Span = Span::millis(2);
