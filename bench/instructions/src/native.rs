//! A publisher and subscribers of the broker's own protocol, and a backup where copies are made.

use crate::node::{BEGIN, Bench, PERIOD};
use crate::{BATCH, Scenario};
use contract::{Contract, NodeId, Span};
use wire::{
    Frame, Hello, LinkId, Message, MessageFlags, MessageKind, Outbox, Protocol, Register, Secret, Standing,
};

pub(crate) const PUBLISHER: LinkId = LinkId(0);
const BACKUP: LinkId = LinkId(1);
const FIRST_SUBSCRIBER: u32 = 2;
const PAYLOAD: [u8; 64] = [7; 64];
/// Batches between two polls of the backup: 8 ms.
const BATCHES_PER_POLL: usize = 5;

/// So many batches of messages of stream 0, as its publisher writes them, each created when its batch is read.
pub(crate) fn publications(batches: u64) -> Vec<Vec<u8>> {
    let batch = |index: u64| {
        let mut outbox = Outbox::default();
        for position in 0..BATCH {
            let created = BEGIN + PERIOD * (index * BATCH) - PERIOD * (BATCH - 1 - position);
            let seq = index * BATCH + position;
            let message = Message { stream: 0, flags: MessageFlags::NONE, seq, created, payload: &PAYLOAD };
            outbox.push_message(MessageKind::Publish, &message);
        }
        outbox.unsent().to_vec()
    };
    (0..batches).map(batch).collect()
}

/// Topics of [`ManyStreams`]: each has had a message before anything is counted.
const TOPICS: u64 = 4_000;

/// One message of each of many topics after the other, from one publisher to one subscriber.
pub(crate) struct ManyStreams {
    bench: Bench,
    batches: Vec<Vec<u8>>,
    carried: usize,
}

impl ManyStreams {
    pub(crate) fn new(batches: u64) -> ManyStreams {
        let bench = with_topics(TOPICS, |stream| {
            let deadline = Span::millis(100 + stream as i64 % 400);
            Contract::every(PERIOD * TOPICS).deadline(deadline).tolerate(3)
        });
        let batch = |index: u64| {
            let mut outbox = Outbox::default();
            for position in 0..BATCH {
                let number = index * BATCH + position;
                let created = BEGIN + PERIOD * (index * BATCH) - PERIOD * (BATCH - 1 - position);
                // Neighbours on the wire are no neighbours in memory.
                let stream = (number % TOPICS * 7_919 % TOPICS) as u32;
                let message = Message {
                    stream,
                    flags: MessageFlags::NONE,
                    seq: number / TOPICS,
                    created,
                    payload: &PAYLOAD[..16],
                };
                outbox.push_message(MessageKind::Publish, &message);
            }
            outbox.unsent().to_vec()
        };
        ManyStreams { bench, batches: (0..batches).map(batch).collect(), carried: 0 }
    }
}

impl Scenario for ManyStreams {
    fn carry(&mut self) {
        self.bench.turn(PUBLISHER, &self.batches[self.carried]);
        self.carried += 1;
        self.bench.pass();
    }

    fn check(&mut self, messages: u64) {
        let counters = self.bench.counters();
        assert_eq!([counters.arrived, counters.dispatched], [messages; 2], "arrived, dispatched");
    }
}

/// A broker with so many topics of one publisher, all of which one subscriber receives.
pub(crate) fn with_topics(topics: u64, contract: impl Fn(u64) -> Contract) -> Bench {
    let mut bench = Bench::new(|node| node);
    bench.enter(PUBLISHER, Protocol::Verge, &hello(PUBLISHER, Standing::Orphaned, "publisher"));
    for stream in 0..topics {
        let topic = format!("plant/sensor/{stream}");
        let contract = Some(contract(stream));
        let register = Register { stream: stream as u32, incarnation: 1, contract, topic: &topic };
        bench.command(PUBLISHER, &bytes(&Frame::Register(register)));
    }
    let subscriber = LinkId(FIRST_SUBSCRIBER);
    bench.enter(subscriber, Protocol::Verge, &hello(subscriber, Standing::Orphaned, "subscriber"));
    bench.command(
        subscriber,
        &bytes(&Frame::Subscribe { number: 0, needs: contract::Needs::NONE, filter: "#" }),
    );
    bench
}

/// Messages from one publisher to all subscribers.
pub(crate) struct Flow {
    bench: Bench,
    batches: Vec<Vec<u8>>,
    carried: usize,
    /// What the backup says now and then, if there is one.
    poll: Option<Vec<u8>>,
}

impl Flow {
    pub(crate) fn new(batches: u64, subscribers: u32, copies: bool) -> Flow {
        let mut bench = Bench::new(|node| node);
        bench.enter(PUBLISHER, Protocol::Verge, &hello(PUBLISHER, Standing::Orphaned, "publisher"));
        // Enough is retained that a copy saves the rest, and a copy is due before the dispatch.
        let contract = Contract::every(PERIOD).deadline(Span::millis(100)).tolerate(0).retain(1_000);
        let register = Register { stream: 0, incarnation: 1, contract: Some(contract), topic: "t" };
        bench.command(PUBLISHER, &bytes(&Frame::Register(register)));
        for link in (FIRST_SUBSCRIBER..).take(subscribers as usize).map(LinkId) {
            let name = format!("subscriber {}", link.0);
            bench.enter(link, Protocol::Verge, &hello(link, Standing::Orphaned, &name));
            bench.command(
                link,
                &bytes(&Frame::Subscribe { number: 0, needs: contract::Needs::NONE, filter: "t" }),
            );
        }
        if copies {
            bench.enter(BACKUP, Protocol::Verge, &hello(BACKUP, Standing::Backup, "backup"));
            bench.command(BACKUP, &bytes(&Frame::Join));
            bench.turn(BACKUP, &bytes(&Frame::Standby));
            assert!(bench.node.broker().is_protected());
        }
        let poll = copies.then(|| bytes(&Frame::Poll { number: 1 }));
        Flow { bench, batches: publications(batches), carried: 0, poll }
    }
}

impl Scenario for Flow {
    fn carry(&mut self) {
        self.bench.turn(PUBLISHER, &self.batches[self.carried]);
        if let Some(poll) = &self.poll
            && self.carried.is_multiple_of(BATCHES_PER_POLL)
        {
            self.bench.feed(BACKUP, poll);
        }
        self.carried += 1;
        self.bench.pass();
    }

    fn check(&mut self, messages: u64) {
        let counters = self.bench.counters();
        assert_eq!([counters.arrived, counters.dispatched], [messages; 2], "arrived, dispatched");
        let copies = self.poll.is_some();
        let copied = if copies { messages } else { 0 };
        assert_eq!([counters.replicated, counters.pruned], [copied; 2], "copied, pruned");
        assert_eq!(self.bench.node.broker().is_protected(), copies);
    }
}

fn hello(link: LinkId, standing: Standing, name: &str) -> Vec<u8> {
    bytes(&Frame::Hello(Hello {
        standing,
        prefers_to_reign: false,
        reign: Default::default(),
        node: NodeId(u64::from(link.0) + 100),
        incarnation: 1,
        name,
        user: "",
        password: Secret(""),
        knows: wire::Knows::NOTHING,
    }))
}

fn bytes(frame: &Frame<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    bytes
}
