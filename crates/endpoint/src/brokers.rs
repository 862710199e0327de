//! The connections of an endpoint to its brokers, all of them warm.

use crate::clock::Comparison;
use contract::{NodeId, Reign, Span, Time};
use wire::{Hello, Knows, LinkId, PeerIndex, Secret, Standing};

/// Who has been of another reign for so many polls is of another pair: 3 s with the usual settings.
const APART_POLLS: u64 = 30;
/// Silence is no death before it has lasted so many times as long as answers took.
const LAG_TIMES: u32 = 4;
/// The most that this lengthens patience: 10 s with the usual settings.
const LAG_POLLS_MAX: u32 = 100;
/// One answer that came late is forgotten by this part with each that is not.
const LAG_FORGOTTEN: u32 = 16;
/// No stream behind this number.
const NO_STREAM: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Connection {
    /// Not connected; try at this time.
    Down {
        retry_at: Time,
    },
    Dialing,
    /// Connected, the greeting is on its way.
    Greeting(LinkId),
    Up(LinkId),
}

#[derive(Clone)]
pub(crate) struct BrokerLink {
    pub(crate) connection: Connection,
    pub(crate) standing: Standing,
    /// Since when it has been standing by, on this connection.
    pub(crate) stands_by_since: Time,
    /// It reigns, and stood by before, on this connection.
    pub(crate) stood_by: bool,
    pub(crate) reign: Reign,
    /// The broker's numbers for streams, to ours.
    numbers: Vec<u32>,
    poll_at: Time,
    poll_number: u64,
    /// The highest number of a poll that was answered.
    pub(crate) answered: u64,
    /// The number of the latest poll out of turn.
    asked: u64,
    /// Polls since something last came.
    unanswered: u32,
    /// How far our clock is ahead of the broker's.
    pub(crate) clock: Comparison,
    /// How long to leave it alone after the connection has ended.
    pub(crate) rest: Span,
    /// The process that last greeted from there.
    pub(crate) node: Option<NodeId>,
    /// The same broker is reached at another address, and need not be reached here as well.
    pub(crate) same_as: Option<PeerIndex>,
    /// How many polls were sent before one was answered, of late.
    lag: u32,
    /// The last poll before it was of another reign than the one that is followed, if it is.
    apart_from: Option<u64>,
    /// It has been so for long, and the application knows.
    pub(crate) is_apart: bool,
    /// The application knows why the present connection ends.
    pub(crate) told: bool,
    /// What it greeted with, where that counts only once its clock is known.
    pub(crate) awaits_clock: Option<Greeting>,
}

/// What is kept of a broker's greeting.
#[derive(Clone, Copy)]
pub(crate) struct Greeting {
    standing: Standing,
    reign: Reign,
    node: NodeId,
}

impl Greeting {
    pub(crate) fn of(hello: &Hello<'_>) -> Greeting {
        Greeting { standing: hello.standing, reign: hello.reign, node: hello.node }
    }

    /// The greeting, as far as it is looked at.
    pub(crate) fn hello(&self) -> Hello<'static> {
        let Greeting { standing, reign, node } = *self;
        let (name, user, password, knows) = ("", "", Secret(""), Knows::NOTHING);
        Hello { standing, prefers_to_reign: false, reign, node, incarnation: 0, name, user, password, knows }
    }
}

impl BrokerLink {
    pub(crate) fn new(now: Time) -> BrokerLink {
        BrokerLink {
            connection: Connection::Down { retry_at: now },
            standing: Standing::Seeking,
            stands_by_since: Time::NEVER,
            stood_by: false,
            reign: Reign::default(),
            numbers: Vec::new(),
            poll_at: Time::NEVER,
            poll_number: 0,
            answered: 0,
            asked: 0,
            unanswered: 0,
            clock: Comparison::default(),
            rest: Span::ZERO,
            node: None,
            same_as: None,
            lag: 0,
            apart_from: None,
            is_apart: false,
            told: false,
            awaits_clock: None,
        }
    }

    /// The link, once both sides have greeted.
    pub(crate) fn up(&self) -> Option<LinkId> {
        match self.connection {
            Connection::Up(link) => Some(link),
            _ => None,
        }
    }

    pub(crate) fn link(&self) -> Option<LinkId> {
        match self.connection {
            Connection::Up(link) | Connection::Greeting(link) => Some(link),
            _ => None,
        }
    }

    pub(crate) fn connected(&mut self, now: Time, link: LinkId, poll: Span) {
        *self = BrokerLink {
            connection: Connection::Greeting(link),
            poll_at: now + poll,
            node: self.node,
            ..BrokerLink::new(now)
        };
    }

    /// The connection is gone, or was never made. It is tried again after what it was told to rest, or after `retry`.
    pub(crate) fn lost(&mut self, now: Time, retry: Span) {
        let rest = self.rest.max(retry);
        let connection = Connection::Down { retry_at: now + rest };
        let (node, same_as) = (self.node, self.same_as);
        *self = BrokerLink { connection, rest, node, same_as, ..BrokerLink::new(now) };
    }

    pub(crate) fn greeted(&mut self, now: Time, link: LinkId, hello: &Hello<'_>) {
        self.connection = Connection::Up(link);
        self.stands(now, hello.standing, hello.reign);
        (self.node, self.same_as) = (Some(hello.node), None);
    }

    /// It has said that it is something else now, or of another reign. Where its greeting still waits, that is what it has said last.
    pub(crate) fn tells_reign(&mut self, now: Time, standing: Standing, reign: Reign) {
        if let Some(greeting) = &mut self.awaits_clock {
            (greeting.standing, greeting.reign) = (standing, reign);
        }
        self.stands(now, standing, reign);
    }

    /// It has said what it is.
    pub(crate) fn stands(&mut self, now: Time, standing: Standing, reign: Reign) {
        if standing != Standing::Backup {
            self.stands_by_since = Time::NEVER;
        } else if self.stands_by_since == Time::NEVER {
            self.stands_by_since = now;
        }
        if self.standing != standing {
            self.stood_by = self.standing == Standing::Backup && standing == Standing::Primary;
        }
        (self.standing, self.reign) = (standing, reign);
    }

    /// Its address means something else now.
    pub(crate) fn moved(&mut self, now: Time) {
        (self.node, self.same_as) = (None, None);
        if let Connection::Down { retry_at } = &mut self.connection {
            *retry_at = now;
        }
    }

    pub(crate) fn stream(&self, number: u32) -> Option<u32> {
        self.numbers.get(number as usize).copied().filter(|stream| *stream != NO_STREAM)
    }

    /// The broker's number for a stream of ours.
    pub(crate) fn number_of(&self, stream: u32) -> Option<u32> {
        self.numbers.iter().position(|bound| *bound == stream).map(|number| number as u32)
    }

    /// Binds the broker's number, which the caller has checked against the limit of streams.
    pub(crate) fn bind(&mut self, number: u32, stream: Option<u32>) {
        let index = number as usize;
        if index >= self.numbers.len() {
            self.numbers.resize(index + 1, NO_STREAM);
        }
        self.numbers[index] = stream.unwrap_or(NO_STREAM);
    }

    /// None of the broker's numbers means this stream of ours any more.
    pub(crate) fn unbind(&mut self, stream: u32) {
        self.numbers.iter_mut().filter(|bound| **bound == stream).for_each(|bound| *bound = NO_STREAM);
    }

    /// The number of the last poll.
    pub(crate) fn polled(&self) -> u64 {
        self.poll_number
    }

    /// The number of a poll out of turn, whose answer somebody waits for.
    pub(crate) fn ask(&mut self) -> u64 {
        self.poll_number += 1;
        self.asked = self.poll_number;
        self.poll_number
    }

    /// It has answered a poll, and has said before whatever it had to say then. Returns whether somebody waits for that.
    pub(crate) fn answer(&mut self, number: u64) -> bool {
        // What it says of polls that were never sent counts for nothing.
        let number = number.min(self.poll_number);
        self.answered = self.answered.max(number);
        let lag = u32::try_from(self.poll_number - number).unwrap_or(u32::MAX);
        self.lag = lag.max(self.lag - self.lag.div_ceil(LAG_FORGOTTEN));
        self.asked == number && number != 0
    }

    /// Something has come from it.
    pub(crate) fn heard(&mut self) {
        self.unanswered = 0;
        // Answers that have not come yet, although other things do, are late by so much at least.
        let waits = u32::try_from(self.poll_number - self.answered).unwrap_or(u32::MAX);
        self.lag = self.lag.max(waits);
    }

    /// Whether it has just become clear that it is of another pair than the broker that is followed in this reign. Brokers of one pair
    /// come to be of one reign within a failover. Behind a narrow connection that is heard late, but before the answer to a later poll:
    /// so what counts is how many polls it has answered since.
    pub(crate) fn stands_apart(&mut self, followed: Option<Reign>) -> bool {
        let serves = matches!(self.standing, Standing::Primary | Standing::Backup);
        // While nobody is followed, nothing more is learnt of that.
        let Some(followed) = followed else { return false };
        let differs = self.up().is_some() && serves && followed != self.reign;
        if !differs {
            (self.apart_from, self.is_apart) = (None, false);
            return false;
        }
        let from = *self.apart_from.get_or_insert(self.poll_number);
        let is_clear = self.answered >= from + APART_POLLS;
        is_clear && !std::mem::replace(&mut self.is_apart, is_clear)
    }

    /// How many polls may stay unanswered while nothing else comes. Behind a narrow connection answers take seconds, and one packet that is
    /// lost there is silence for as long as it takes to notice; a broker whose process has died is known by its connection.
    fn patience(&self, misses: u32) -> u32 {
        misses.max(self.lag.saturating_mul(LAG_TIMES).min(LAG_POLLS_MAX))
    }

    /// The next poll's number if one is due, or `Err` if too many have stayed unanswered.
    pub(crate) fn poll(&mut self, now: Time, every: Span, misses: u32) -> Result<Option<u64>, ()> {
        // A clock that went back must not stop the polls.
        self.poll_at = if self.poll_at == Time::NEVER { self.poll_at } else { self.poll_at.min(now + every) };
        if now < self.poll_at {
            return Ok(None);
        }
        if self.unanswered >= self.patience(misses) {
            return Err(());
        }
        self.unanswered += 1;
        self.poll_number += 1;
        self.poll_at = now + every;
        Ok(Some(self.poll_number))
    }

    pub(crate) fn next_deadline(&self) -> Time {
        match self.connection {
            Connection::Down { retry_at } => retry_at,
            Connection::Dialing => Time::NEVER,
            Connection::Greeting(_) | Connection::Up(_) => self.poll_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLL: Span = Span::millis(100);

    /// Polls for so long; returns how many polls were sent until the broker was given up.
    fn polls_until_given_up(broker: &mut BrokerLink, mut now: Time) -> u32 {
        for polls in 0..1_000 {
            now = now + POLL;
            if broker.poll(now, POLL, 10).is_err() {
                return polls;
            }
        }
        panic!("never");
    }

    #[test]
    fn who_answers_at_once_is_given_up_soon_and_who_answers_late_is_given_time() {
        let start = Time(1_000_000_000_000);
        let mut broker = BrokerLink::new(start);
        broker.connected(start, LinkId(0), POLL);
        assert_eq!(polls_until_given_up(&mut broker, start), 10);
        // Behind a narrow connection each answer comes 20 polls late, while messages come all the time.
        let mut broker = BrokerLink::new(start);
        broker.connected(start, LinkId(0), POLL);
        let mut now = start;
        for number in 1..100_u64 {
            now = now + POLL;
            assert_eq!(broker.poll(now, POLL, 10), Ok(Some(number)));
            broker.heard();
            if number > 20 {
                broker.answer(number - 20);
            }
        }
        assert_eq!(polls_until_given_up(&mut broker, now), 80);
        // Answers to polls that were never sent make no difference.
        broker.answer(u64::MAX);
        for _ in 0..200 {
            broker.answer(u64::MAX);
        }
        broker.heard();
        assert_eq!(polls_until_given_up(&mut broker, now + Span::secs(100)), 10);
    }
}
