//! Much of what a broker has to do with the workload of FRAME, table 3.2, at 13 525 topics, which `bench/peers` sends: nearly as
//! many topics, as many messages with a read, and frames in which all share a contract.

use crate::Scenario;
use crate::native::{PUBLISHER, with_topics};
use crate::node::{BEGIN, Bench};
use contract::{Contract, Span};
use wire::{Message, MessageFlags, MessageKind, Outbox};

/// Messages of one frame: all of one category, created at the same time.
const FRAME: u64 = 40;
/// Messages that arrive with one read.
pub(crate) const BATCH: u64 = 4 * FRAME;
const TOPICS: u64 = 84 * BATCH;
/// Slots of a ring that the contract needs no more of.
const SLOTS: u64 = 8;
/// Each slot of each ring has been used before anything is counted, as it is after a second.
pub(crate) const WARM_UP: u64 = SLOTS * TOPICS / BATCH;
/// The time between two reads.
const PAUSE: Span = Span::micros(1_100);
/// From creation to arrival.
const UNDER_WAY: Span = Span::micros(30);
const DEADLINES_MS: [i64; 4] = [50, 500, 100, 50];
const PAYLOAD: [u8; 64] = [7; 64];

/// Frame after frame of neighbouring topics, from one publisher to one subscriber.
pub(crate) struct Workload {
    bench: Bench,
    batches: Vec<Vec<u8>>,
    carried: usize,
}

impl Workload {
    pub(crate) fn new(batches: u64) -> Workload {
        let bench = with_topics(TOPICS, |stream| {
            let deadline = DEADLINES_MS[(stream / FRAME) as usize % DEADLINES_MS.len()];
            Contract::every(PAUSE * (TOPICS / BATCH)).deadline(Span::millis(deadline)).tolerate(3)
        });
        let batch = |index: u64| {
            let mut outbox = Outbox::default();
            let created = BEGIN + PAUSE * index - UNDER_WAY;
            for number in (index * BATCH..).take(BATCH as usize) {
                let message = Message {
                    stream: (number % TOPICS) as u32,
                    flags: MessageFlags::NONE,
                    seq: number / TOPICS,
                    created,
                    payload: &PAYLOAD,
                };
                outbox.push_message(MessageKind::Publish, &message);
                if (number + 1) % FRAME == 0 {
                    // Closes the frame.
                    outbox.unsent();
                }
            }
            outbox.unsent().to_vec()
        };
        Workload { bench, batches: (0..batches).map(batch).collect(), carried: 0 }
    }
}

impl Scenario for Workload {
    fn carry(&mut self) {
        self.bench.turn(PUBLISHER, &self.batches[self.carried]);
        self.carried += 1;
        self.bench.pass_by(PAUSE);
    }

    fn check(&mut self, messages: u64) {
        let counters = self.bench.counters();
        assert_eq!([counters.arrived, counters.dispatched], [messages; 2], "arrived, dispatched");
    }
}
