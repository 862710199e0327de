//! The usual cast: a protected pair, one publisher, one subscriber of everything.

use super::World;
use contract::{Contract, Span, Time};

/// Category 0 of FRAME, table 3.2: nothing may be lost, two messages retained, no copies needed.
pub fn urgent() -> Contract {
    Contract::every(Span::millis(50)).retain(2)
}

/// Category 2: nothing may be lost, one message retained, copies needed.
pub fn replicated() -> Contract {
    Contract::every(Span::millis(100)).retain(1)
}

pub struct Run {
    pub world: World,
    pub publisher: usize,
    pub subscriber: usize,
    pub topics: Vec<(u32, Span)>,
    pub sent: Vec<u64>,
    /// When each topic is published next.
    due: Vec<Time>,
}

/// A protected pair with one publisher of these contracts and one subscriber of everything.
pub fn run(contracts: &[Contract]) -> Run {
    run_with(|_| {}, contracts)
}

pub fn run_with(tune: fn(&mut broker::Settings), contracts: &[Contract]) -> Run {
    let mut world = World::protected(tune);
    let (publisher, subscriber) = (world.add_client("publisher"), world.add_client("subscriber"));
    world.run_for(Span::millis(50));
    world.subscribe(subscriber, "#");
    let topics: Vec<_> = contracts
        .iter()
        .enumerate()
        .map(|(index, contract)| {
            (world.advertise(publisher, &format!("t/{index}"), *contract), contract.period)
        })
        .collect();
    world.run_for(Span::millis(50));
    let (sent, due) = (vec![0; topics.len()], vec![world.now; topics.len()]);
    Run { world, publisher, subscriber, topics, sent, due }
}

impl Run {
    /// Publishes every topic at its period for so long.
    pub fn publish_for(&mut self, span: Span) {
        let end = self.world.now + span;
        for due in &mut self.due {
            *due = (*due).max(self.world.now);
        }
        while let Some((index, at)) =
            self.due.iter().copied().enumerate().min_by_key(|(_, at)| *at).filter(|(_, at)| *at < end)
        {
            self.world.run_for(at.since(self.world.now));
            let payload = self.sent[index].to_le_bytes();
            self.world.publish(self.publisher, self.topics[index].0, &payload).unwrap();
            self.sent[index] += 1;
            self.due[index] = at + self.topics[index].1;
        }
        self.world.run_for(end.since(self.world.now));
    }

    /// For each topic, the numbers that never came.
    pub fn missing(&mut self) -> Vec<Vec<u64>> {
        let sent = self.sent.clone();
        let messages = &self.world.seen(self.subscriber).messages;
        let came = |topic: usize, seq: u64| {
            messages.iter().any(|(name, s, ..)| *name == format!("t/{topic}") && *s == seq)
        };
        sent.iter()
            .enumerate()
            .map(|(topic, sent)| (0..*sent).filter(|seq| !came(topic, *seq)).collect())
            .collect()
    }

    pub fn assert_nothing_missing(&mut self) {
        self.world.run_for(Span::millis(500));
        let missing = self.missing();
        assert!(missing.iter().all(Vec::is_empty), "missing: {missing:?}\na: {:?}", self.logs());
        self.assert_no_duplicates();
    }

    pub fn assert_no_duplicates(&mut self) {
        let messages = &self.world.seen(self.subscriber).messages;
        let mut keys: Vec<_> = messages.iter().map(|(topic, seq, ..)| (topic.clone(), *seq)).collect();
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), count, "a message was handed over twice");
    }

    pub fn logs(&mut self) -> Vec<Vec<String>> {
        self.world.brokers.iter_mut().flatten().map(|node| node.reporter().words.clone()).collect()
    }
}
