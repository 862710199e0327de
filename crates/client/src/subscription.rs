//! Receiving.

use crate::client::Client;
use contract::{Contract, Span, Time};
use crossbeam_channel::{Receiver, Sender, TrySendError};
use endpoint::Delivery;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// One message, the application's own.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Message {
    /// Its topic.
    pub topic: Arc<str>,
    /// Its publisher's name.
    pub publisher: Arc<str>,
    /// Its number in the stream of this topic and publisher.
    pub seq: u64,
    /// When the publisher created it.
    pub created: Time,
    /// From its creation to its arrival here.
    pub latency: Span,
    /// When it arrived here.
    pub arrived: Instant,
    /// Whether it came after its deadline, whatever the error of its age.
    pub late: bool,
    /// Whether that cannot be judged: it comes from another site, and its age is not known exactly enough.
    pub unjudged: bool,
    /// Whether a message with a higher number came before it.
    pub reordered: bool,
    /// Whether an operator made it of readings that were not true any more (`violation = "mark"`).
    pub out_of_date: bool,
    /// Whether an operator made it of readings that were further apart than they may be.
    pub apart: bool,
    /// What it carries.
    pub payload: Vec<u8>,
    /// Messages of its stream that are lost for good.
    pub lost: u64,
    /// The longest run of those.
    pub longest_run: u64,
}

/// The account of one stream that was received.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Account {
    /// Its topic.
    pub topic: String,
    /// Its publisher's name.
    pub publisher: String,
    /// Its contract.
    pub contract: Contract,
    /// Messages received, each counted once.
    pub received: u64,
    /// Messages that came again and were dropped.
    pub duplicates: u64,
    /// Messages that are lost for good.
    pub lost: u64,
    /// The longest run of those.
    pub longest_run: u64,
    /// Messages that came after their deadline.
    pub late: u64,
    /// Messages of which that cannot be judged, see [`Message::unjudged`].
    pub unjudged: u64,
    /// The number after the highest that has come.
    pub next_seq: u64,
}

impl Account {
    pub(crate) fn new(stream: &endpoint::StreamAccount<'_>) -> Account {
        Account {
            topic: stream.topic.to_owned(),
            publisher: stream.publisher.to_owned(),
            contract: *stream.contract,
            received: stream.tally.received(),
            duplicates: stream.tally.duplicates(),
            lost: stream.tally.lost(),
            longest_run: stream.tally.longest_run(),
            late: stream.late,
            unjudged: stream.unjudged,
            next_seq: stream.tally.next_seq(),
        }
    }
}

/// The topics of a filter. Iterate over it, or take messages one by one. Dropping it ends the subscription.
pub struct Subscription {
    pub(crate) client: Client,
    pub(crate) number: u32,
    pub(crate) receiver: Receiver<Message>,
    pub(crate) dropped: Arc<AtomicU64>,
}

impl Subscription {
    /// Waits for the next message. `None` when the client has ended; [`Client::check`] says why.
    pub fn next_message(&self) -> Option<Message> {
        self.receiver.recv().ok()
    }

    /// Waits for the next message, but not for longer than this. `None`, too, when the client has ended, and then at once.
    pub fn next_within(&self, at_most: Duration) -> Option<Message> {
        self.receiver.recv_timeout(at_most).ok()
    }

    /// Messages that this application did not take in time; the oldest were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Iterator for Subscription {
    type Item = Message;

    fn next(&mut self) -> Option<Message> {
        self.next_message()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.client.shared.unsubscribe(self.number);
    }
}

/// The handler that fills a subscription's queue. When it is full, its oldest message goes.
pub(crate) fn queue(
    sender: Sender<Message>,
    receiver: Receiver<Message>,
    dropped: Arc<AtomicU64>,
) -> impl FnMut(&Delivery<'_>) + Send {
    let mut names: BTreeMap<u32, (Arc<str>, Arc<str>)> = BTreeMap::new();
    move |delivery| {
        let name = || (Arc::from(delivery.topic), Arc::from(delivery.publisher));
        let (topic, publisher) = names.entry(delivery.stream).or_insert_with(name).clone();
        let mut message = Message {
            topic,
            publisher,
            seq: delivery.seq,
            created: delivery.created,
            latency: delivery.latency,
            arrived: Instant::now(),
            late: delivery.late,
            unjudged: delivery.unjudged,
            reordered: delivery.reordered,
            out_of_date: delivery.out_of_date,
            apart: delivery.apart,
            payload: delivery.payload.to_vec(),
            lost: delivery.tally.lost(),
            longest_run: delivery.tally.longest_run(),
        };
        while let Err(TrySendError::Full(rejected)) = sender.try_send(message) {
            dropped.fetch_add(u64::from(receiver.try_recv().is_ok()), Ordering::Relaxed);
            message = rejected;
        }
    }
}
