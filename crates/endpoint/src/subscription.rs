//! The receiving end: subscriptions, and the streams that come of them.

use crate::tally::Tally;
use crate::witness::Untold;
use contract::{Contract, Crossing, Needs, Span, Time, TopicFilter};
use wire::{LinkId, Mark, MessageFlags};

/// A broker asks to be told when a message has been handed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Confirmation {
    pub(crate) link: LinkId,
    pub(crate) mark: Mark,
}

impl Confirmation {
    /// The number of the message.
    pub fn seq(&self) -> u64 {
        self.mark.seq
    }
}

/// One message for the application.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// Its topic.
    pub topic: &'a str,
    /// Its publisher's name.
    pub publisher: &'a str,
    /// Its number in the stream.
    pub seq: u64,
    /// When the publisher created it.
    pub created: Time,
    /// From its creation to its arrival here.
    pub latency: Span,
    /// Whether it came after its deadline, whatever the error of its age.
    pub late: bool,
    /// Whether that cannot be told: it comes from another site, and its age is not known exactly enough.
    pub unjudged: bool,
    /// Whether a message with a higher number came before it.
    pub reordered: bool,
    /// For results of operators: whether something that it is made of was out of date.
    pub out_of_date: bool,
    /// The same: whether the things that it is made of are too far apart in time.
    pub apart: bool,
    /// What else is true of it, for whoever hands it on: [`MessageFlags::TRUTHS`]. Nothing for others.
    pub truths: MessageFlags,
    /// What it carries; where the truths say so, with its trailer.
    pub payload: &'a [u8],
    /// The contract of its topic.
    pub contract: &'a Contract,
    /// The account of its stream, this message included.
    pub tally: &'a Tally,
    /// The endpoint's number for the stream; the same for all its messages.
    pub stream: u32,
    /// Which life of the publication it is of.
    pub life: u64,
    /// The subscriptions that it matches, by number.
    pub subscriptions: &'a [u32],
    /// Whether it has to be confirmed, with [`crate::Endpoint::confirm`]; only where [`crate::Settings::hands_on`].
    pub confirmation: Option<Confirmation>,
}

/// One stream as it was received.
#[derive(Clone, Copy, Debug)]
pub struct StreamAccount<'a> {
    /// Its topic.
    pub topic: &'a str,
    /// Its publisher's name.
    pub publisher: &'a str,
    /// The site in which it is published; empty: the brokers' own.
    pub origin: &'a str,
    /// Which life of the publication it is.
    pub incarnation: u64,
    /// Its contract.
    pub contract: &'a Contract,
    /// What has come and what has not.
    pub tally: &'a Tally,
    /// Messages that came after their deadline.
    pub late: u64,
    /// Messages of which that cannot be told, see [`Delivery::unjudged`].
    pub unjudged: u64,
    /// What is known of its messages when they leave the broker.
    pub crossing: Crossing,
}

#[derive(Clone)]
pub(crate) struct Subscription {
    pub(crate) filter: TopicFilter,
    pub(crate) needs: Needs,
    /// Whether a primary has answered.
    pub(crate) answered: bool,
    /// The brokers that could not take note of it on their present connection, one bit each.
    pub(crate) declined: u16,
}

/// A stream that is received.
#[derive(Clone)]
pub(crate) struct Inbound {
    pub(crate) topic: Box<str>,
    pub(crate) publisher: Box<str>,
    /// The site in which it is published; empty: the broker's own.
    pub(crate) origin: Box<str>,
    pub(crate) incarnation: u64,
    pub(crate) contract: Contract,
    /// When messages are due here: the earliest of what its contract says and its subscriptions need.
    pub(crate) due: Span,
    /// The primary's number for the class of the contract.
    pub(crate) class: u16,
    pub(crate) tally: Tally,
    pub(crate) late: u64,
    pub(crate) unjudged: u64,
    /// What is known of its messages when they leave the broker.
    pub(crate) crossing: Crossing,
    pub(crate) untold: Untold,
    pub(crate) subscriptions: Vec<u32>,
}

impl Inbound {
    pub(crate) fn account(&self) -> StreamAccount<'_> {
        StreamAccount {
            topic: &self.topic,
            publisher: &self.publisher,
            origin: &self.origin,
            incarnation: self.incarnation,
            contract: &self.contract,
            tally: &self.tally,
            late: self.late,
            unjudged: self.unjudged,
            crossing: self.crossing,
        }
    }
}
