//! What leaves a broker after its deadline is counted there, also where it was dispatched before it and had to wait for the end of the turn.
//!
//! Source: lateness is what a subscriber can see of it, so it is judged when the bytes have left. Messages that were sent again after a
//! failover, and those that waited for a subscriber, are not: their deadlines were over when they came, or nobody took them.

use crate::ledger::{Ledger, Stream};
use crate::scenario::Scenario;
use broker::{Broker, Policy};
use contract::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const NAME: &str = "departures";
pub(super) const STATEMENT: &str = "what leaves a broker late is counted as late";

#[derive(Clone)]
pub(super) struct Departures {
    holds: bool,
    /// What publishers are called.
    publishers: Vec<String>,
    brokers: [Turns; 2],
}

/// What a broker has written.
#[derive(Clone, Default)]
struct Turns {
    /// Messages dispatched in this turn.
    written: BTreeSet<(u32, u64)>,
    /// Streams of which some of those left late.
    late: BTreeSet<u32>,
    /// By stream: in how many turns that was so since its broker's count was this.
    owed: BTreeMap<u32, (u64, u64)>,
}

/// Clocks are read at the beginning and at the end of a portion.
const SLACK: Span = Span::micros(1);

impl Departures {
    pub(super) fn new(scenario: &Scenario) -> Departures {
        let holds = scenario.policy == Policy::Frame && scenario.replication.keeps_contracts();
        let publishers = scenario.publishers.iter().map(|publisher| publisher.name.clone()).collect();
        Departures { holds, publishers, brokers: Default::default() }
    }

    pub(super) fn begins_anew(&mut self, host: usize) {
        self.brokers[host] = Turns::default();
    }

    /// A broker has dispatched a message.
    pub(super) fn dispatched(&mut self, host: usize, stream: u32, seq: u64) {
        if self.holds {
            self.brokers[host].written.insert((stream, seq));
        }
    }

    /// A message has left a broker.
    pub(super) fn left(
        &mut self,
        host: usize,
        number: u32,
        stream: &Stream,
        stamped: Time,
        local: Time,
        seq: u64,
    ) {
        let Some(deadlines) = stream.deadlines.filter(|_| self.holds && stream.origin.is_none()) else {
            return;
        };
        let turns = &mut self.brokers[host];
        if local > stamped + deadlines.dispatch + SLACK && turns.written.contains(&(number, seq)) {
            turns.late.insert(number);
        }
    }

    /// A broker has been told that everything it wrote has left.
    pub(super) fn turn_ends(&mut self, host: usize) {
        let turns = &mut self.brokers[host];
        turns.written.clear();
        for stream in std::mem::take(&mut turns.late) {
            turns.owed.entry(stream).or_default().0 += 1;
        }
    }

    /// What a broker has counted.
    pub(super) fn looks_at(&mut self, ledger: &Ledger, host: usize, broker: &Broker) -> Result<(), String> {
        for (number, (owed, before)) in &mut self.brokers[host].owed {
            let Some(stream) = ledger.stream(*number) else { continue };
            let name = stream.host.checked_sub(2).and_then(|index| self.publishers.get(index));
            let known = name.and_then(|name| broker.stream_of(&stream.topic, name));
            let Some(late) = known.and_then(|index| broker.late_of(index)) else {
                (*owed, *before) = (0, 0);
                continue;
            };
            let counted = late.checked_sub(*before);
            (*before, *owed) = match counted {
                Some(counted) if counted < *owed => {
                    return Err(format!(
                        "messages of {} left late in {owed} turns, and the broker has counted {counted}",
                        stream.topic
                    ));
                }
                // Counted, or it has forgotten the stream and begun anew.
                _ => (late, 0),
            };
        }
        Ok(())
    }
}
