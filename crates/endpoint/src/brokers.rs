//! The connections of an endpoint to its brokers, all of them warm.

use crate::clock::Comparison;
use contract::{Reign, Span, Time};
use wire::{LinkId, Standing};

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
}

impl BrokerLink {
    pub(crate) fn new(now: Time) -> BrokerLink {
        BrokerLink {
            connection: Connection::Down { retry_at: now },
            standing: Standing::Seeking,
            reign: Reign::default(),
            numbers: Vec::new(),
            poll_at: Time::NEVER,
            poll_number: 0,
            answered: 0,
            asked: 0,
            unanswered: 0,
            clock: Comparison::default(),
            rest: Span::ZERO,
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
            ..BrokerLink::new(now)
        };
    }

    /// The connection is gone, or was never made. It is tried again after what it was told to rest, or after `retry`.
    pub(crate) fn lost(&mut self, now: Time, retry: Span) {
        let rest = self.rest.max(retry);
        let connection = Connection::Down { retry_at: now + rest };
        *self = BrokerLink { connection, rest, ..BrokerLink::new(now) };
    }

    pub(crate) fn greeted(&mut self, link: LinkId, standing: Standing, reign: Reign) {
        self.connection = Connection::Up(link);
        (self.standing, self.reign) = (standing, reign);
    }

    pub(crate) fn stream(&self, number: u32) -> Option<u32> {
        self.numbers.get(number as usize).copied().filter(|stream| *stream != NO_STREAM)
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

    /// The number of a poll out of turn, whose answer somebody waits for.
    pub(crate) fn ask(&mut self) -> u64 {
        self.poll_number += 1;
        self.asked = self.poll_number;
        self.poll_number
    }

    /// A poll has been answered. Returns whether somebody waits for that.
    pub(crate) fn answer(&mut self, number: u64) -> bool {
        self.answered = self.answered.max(number);
        self.asked == number && number != 0
    }

    /// Something has come from it.
    pub(crate) fn heard(&mut self) {
        self.unanswered = 0;
    }

    /// The next poll's number if one is due, or `Err` if too many have stayed unanswered.
    pub(crate) fn poll(&mut self, now: Time, every: Span, misses: u32) -> Result<Option<u64>, ()> {
        // A clock that went back must not stop the polls.
        self.poll_at = if self.poll_at == Time::NEVER { self.poll_at } else { self.poll_at.min(now + every) };
        if now < self.poll_at {
            return Ok(None);
        }
        if self.unanswered >= misses {
            // Closing takes a while, and must not be asked for again and again meanwhile.
            self.poll_at = now + every;
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
