//! Other protocols: what their clients publish, and what their subscribers are given.
//!
//! Whoever serves them (the gateway) keeps their sessions, and is told of every message when it is dispatched. What their
//! clients publish is a stream like any other, numbered here, since the clients do not number it themselves. A client that
//! waits for word of a message gets it when the message is covered: when it has been dispatched to all, or copied to the backup
//! where it has to wait for somebody.

use crate::arrive::Unstored;
use crate::broker::{Broker, Outputs};
use crate::register::{Denial, Publisher};
use crate::ring::SlotFlags;
use contract::{Contract, Loss, Span, Time, TopicFilter};
use wire::{Message, MessageFlags};

/// How messages of a topic are given to other protocols.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// Under which number.
    pub number: u32,
    /// To how many subscribers.
    pub receivers: u32,
}

/// Where a message comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin<'a> {
    /// Who published it.
    pub publisher: &'a str,
    /// In which life.
    pub incarnation: u64,
    /// Its number.
    pub seq: u64,
}

/// A message on its way to subscribers of other protocols.
#[derive(Clone, Copy, Debug)]
pub struct Routed<'a> {
    /// Where it comes from.
    pub origin: Origin<'a>,
    /// When it was created.
    pub created: Time,
    /// Whether its subscribers may have it already: the primary before may have dispatched it.
    pub again: bool,
    /// What its topic promises.
    pub contract: &'a Contract,
    /// How it came, if through another protocol: [`MessageFlags::TRUTHS`].
    pub truths: MessageFlags,
    /// What belongs to it besides the payload.
    pub trailer: &'a [u8],
    /// What it carries.
    pub payload: &'a [u8],
}

/// A message that a client of another protocol publishes.
#[derive(Clone, Copy, Debug)]
pub struct Posting<'a> {
    /// The client.
    pub publisher: &'a str,
    /// The topic.
    pub topic: &'a str,
    /// The contract that it asks for.
    pub asked: Option<&'a Contract>,
    /// The contract where none is asked for or configured.
    pub fallback: &'a Contract,
    /// The stream that the last message of this client and topic had.
    pub hint: Option<u32>,
    /// What it carries, with its trailer.
    pub payload: &'a [u8],
    /// How it came: [`MessageFlags::TRUTHS`].
    pub truths: MessageFlags,
    /// Whether the client waits for word that it is covered.
    pub asks: bool,
}

/// What became of a posting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Posted {
    /// Its stream.
    pub stream: u32,
    /// Its number there.
    pub seq: u64,
}

/// Why a posting was not taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unposted {
    /// This broker does not reign.
    #[error("this broker does not reign")]
    NotReigning,
    /// The messages before it have not been dispatched yet, and it would overwrite them: let [`Broker::run`] work.
    #[error("the messages before it have not been dispatched yet")]
    Crowded,
    /// A table of the broker is full.
    #[error("the broker's queue of jobs is full: publish less at a time, or raise limits.jobs")]
    Full,
    /// There is no memory for it.
    #[error("{0}")]
    Short(String),
    /// The contract is not admitted.
    #[error("{0}")]
    Refused(String),
}

/// Numbers of one reign; those of the next begin above them, since nobody knows there which were the last of this one.
const NUMBERS_PER_REIGN: u32 = 40;

impl Broker {
    /// Takes a message from a client of another protocol.
    pub fn post(
        &mut self,
        now: Time,
        posting: &Posting<'_>,
        out: &mut impl Outputs,
    ) -> Result<Posted, Unposted> {
        if !self.pair.is_primary() {
            return Err(Unposted::NotReigning);
        }
        let index = match posting.hint.filter(|index| self.is_stream_of(*index, posting)) {
            Some(index) => index,
            None => self.open_posted(now, posting, out).map_err(|denial| Unposted::Refused(denial.text))?,
        };
        let first = self.pair.reign.epoch.0 << NUMBERS_PER_REIGN;
        if self.is_crowded(index) {
            return Err(Unposted::Crowded);
        }
        let Some(stream) = self.table.stream_mut(index) else { return Err(Unposted::Full) };
        stream.record.silent_since = now;
        let seq = stream.next_seq.max(first);
        // A jump to the numbers of this reign is no loss.
        stream.next_seq = seq;
        let message =
            Message { stream: index, flags: posting.truths, seq, created: now, payload: posting.payload };
        let stored = self.store(now, None, index, &message, false, out);
        let ticket = stored.map_err(|unstored| match unstored {
            Unstored::Short(shortage) => Unposted::Short(shortage.to_string()),
            Unstored::Crowded | Unstored::NotTaken => Unposted::Full,
        })?;
        let slot = self.table.stream_mut(index).and_then(|stream| stream.ring.slot_mut(ticket));
        if let Some(slot) = slot.filter(|_| posting.asks) {
            slot.set(SlotFlags::ASKED);
        }
        Ok(Posted { stream: index, seq })
    }

    fn is_stream_of(&self, index: u32, posting: &Posting<'_>) -> bool {
        self.table.pair(index).is_some_and(|(stream, topic)| {
            &*stream.record.publisher == posting.publisher
                && topic.name.as_str() == posting.topic
                && stream.record.admitted
        })
    }

    /// The stream of a client of another protocol, made if need be.
    fn open_posted(
        &mut self,
        now: Time,
        posting: &Posting<'_>,
        out: &mut impl Outputs,
    ) -> Result<u32, Denial> {
        let Posting { publisher: name, topic, .. } = *posting;
        let known = self.table.find_topic(topic);
        let carried = known.and_then(|index| self.table.topic(index));
        let contract = match (posting.asked, carried) {
            // Who asks for nothing takes what is there.
            (None, Some(topic)) => topic.contract,
            (asked, _) => self.find_contract(topic, asked).or_else(|denial| match asked {
                None if contract::check_name(topic).is_ok() => Ok(*posting.fallback),
                _ => Err(denial),
            })?,
        };
        if carried.is_some_and(|topic| topic.made) {
            return Err(Denial::made(topic));
        }
        let stream = known.and_then(|index| self.table.find_stream(index, name));
        let incarnation = stream
            .and_then(|index| self.table.stream(index))
            .map_or(now.0, |stream| stream.record.incarnation);
        let publisher = Publisher { name, incarnation, link: None, made: None, gapless: false };
        self.take_stream(now, topic, contract, &publisher, true, out)
    }

    /// A subscriber of another protocol comes (or goes) whose filter this is; the topics that it matches are dispatched to one
    /// more (or less). `Err`: they could not be served in time.
    pub fn count_others(&mut self, filter: &TopicFilter, comes: bool) -> Result<(), String> {
        let wanted =
            |topic: &crate::table::Topic| topic.route.is_some() && filter.matches(topic.name.as_str());
        let topics: Vec<u32> =
            self.table.topics().filter(|(_, topic)| wanted(topic)).map(|(index, _)| index).collect();
        let change = |broker: &mut Broker, comes: bool| {
            for topic in &topics {
                broker.change_subscribers(*topic, |topic| {
                    topic.others =
                        if comes { topic.others.saturating_add(1) } else { topic.others.saturating_sub(1) };
                });
            }
        };
        change(self, comes);
        let checked = comes && self.pair.is_primary() && self.settings.schedulability && !self.is_baseline();
        if let Some(overload) = self.admission.overload().filter(|_| checked) {
            change(self, false);
            return Err(format!(
                "not schedulable with one more subscriber of {} topics: {overload}; narrow the filter",
                topics.len()
            ));
        }
        Ok(())
    }

    /// After a promotion: how many subscribers of other protocols each topic has, as they are known here.
    pub fn recount_others(&mut self, mut receivers: impl FnMut(&str) -> u32) {
        let topics: Vec<u32> = self.table.topics().map(|(index, _)| index).collect();
        for index in topics {
            let Some(topic) = self.table.topic(index).filter(|topic| topic.route.is_some()) else { continue };
            let others = receivers(topic.name.as_str());
            if others != topic.others {
                self.change_subscribers(index, |topic| topic.others = others);
            }
        }
    }

    /// Messages that have arrived, and those that have been dispatched, since the process started.
    pub fn traffic(&self) -> (u64, u64) {
        (self.stats.arrived, self.stats.dispatched)
    }

    /// When the process started.
    pub fn started(&self) -> Time {
        self.settings.started
    }

    /// A topic that has just come is given to other protocols.
    pub(crate) fn set_route(&mut self, stream: u32, route: Option<Route>) {
        let Some(index) = self.table.stream(stream).map(|stream| stream.topic) else { return };
        if let (Some(mut topic), Some(route)) = (self.table.topic_mut(index), route) {
            (topic.route, topic.others) = (Some(route.number), route.receivers);
        }
    }
}

/// What is promised to a topic of which nobody has said anything: to be dispatched when nothing more urgent waits.
pub fn without_contract() -> Contract {
    Contract { loss: Loss::Unbounded, retain: 0, deadline: Span::FOREVER, ..Contract::every(Span::FOREVER) }
}
