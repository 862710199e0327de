//! The connections of an endpoint to its brokers, all of them warm.

use contract::{NodeId, Reign, Span, Time};
use wire::{Hello, LinkId, PeerIndex, Standing};

/// Who has been of another reign for so many polls is of another pair: 3 s with the usual settings.
const APART_POLLS: u64 = 30;
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
    /// Polls since something last came.
    unanswered: u32,
    /// How long to leave it alone after the connection has ended.
    pub(crate) rest: Span,
    /// The process that last greeted from there.
    pub(crate) node: Option<NodeId>,
    /// The same broker is reached at another address, and need not be reached here as well.
    pub(crate) same_as: Option<PeerIndex>,
    /// The last poll that was answered.
    replied: u64,
    /// The last poll before it was of another reign than the one that is followed, if it is.
    apart_from: Option<u64>,
    /// It has been so for long, and the application knows.
    pub(crate) is_apart: bool,
    /// The application knows why the present connection ends.
    pub(crate) told: bool,
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
            unanswered: 0,
            rest: Span::ZERO,
            node: None,
            same_as: None,
            replied: 0,
            apart_from: None,
            is_apart: false,
            told: false,
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

    pub(crate) fn greeted(&mut self, link: LinkId, hello: &Hello<'_>) {
        self.connection = Connection::Up(link);
        (self.standing, self.reign) = (hello.standing, hello.reign);
        (self.node, self.same_as) = (Some(hello.node), None);
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

    /// Something has come from it.
    pub(crate) fn heard(&mut self) {
        self.unanswered = 0;
    }

    /// It has answered a poll, and has said before whatever it had to say then.
    pub(crate) fn replied(&mut self, number: u64) {
        // What it says of polls that were never sent counts for nothing.
        self.replied = self.replied.max(number.min(self.poll_number));
    }

    /// Whether it has just become clear that it is of another pair than the broker that is followed in this reign. Brokers of one pair
    /// come to be of one reign within a fail-over. Behind a narrow connection that is heard late, but before the answer to a later poll:
    /// so what counts is how many polls it has answered since.
    pub(crate) fn stands_apart(&mut self, followed: Option<Reign>) -> bool {
        let serves = matches!(self.standing, Standing::Primary | Standing::Backup);
        let differs = self.up().is_some() && serves && followed.is_some_and(|reign| reign != self.reign);
        if !differs {
            (self.apart_from, self.is_apart) = (None, false);
            return false;
        }
        let from = *self.apart_from.get_or_insert(self.poll_number);
        let is_clear = self.replied >= from + APART_POLLS;
        is_clear && !std::mem::replace(&mut self.is_apart, is_clear)
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
