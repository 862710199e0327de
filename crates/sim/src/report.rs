//! What a run found out about each topic.

use crate::checkers::{Counts, Failover, longest_run_at_all};
use crate::ledger::{Journeys, Ledger, Receipt};
use crate::world::START;
use contract::{Contract, Span, Time};

/// The way of one message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// When it was published, since the beginning.
    pub at: Span,
    /// How long it took.
    pub latency: Span,
    /// Which stream; the place among [`Findings::streams`].
    pub stream: u32,
    /// Which subscriber.
    pub subscriber: usize,
}

/// What became of one stream.
#[derive(Clone, PartialEq, Debug)]
pub struct StreamFinding {
    /// Its topic.
    pub topic: String,
    /// Its contract.
    pub contract: Contract,
    /// Whether it was admitted; `None` if nobody answered.
    pub admitted: Option<bool>,
    /// Messages that were accepted.
    pub accepted: u64,
    /// Copies that went to a backup.
    pub copies: u64,
    /// The longest run of losses at any subscriber, whether or not the guarantees cover what happened.
    pub worst_run: u64,
    /// How long messages took while everything was whole.
    pub calm: Journeys,
    /// How long those took that were under way while something was not.
    pub disturbed: Journeys,
}

/// What a run found out.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Findings {
    /// By stream.
    pub streams: Vec<StreamFinding>,
    /// The longest time that a publisher was without a primary after the primary's failure.
    pub worst_failover: Span,
    /// When brokers began to reign, since the beginning: the first time, and whenever the reign moved.
    pub promotions: Vec<Span>,
    /// When brokers died.
    pub deaths: Vec<Span>,
    /// Every message that came, if asked for.
    pub samples: Vec<Sample>,
    /// How long the run lasted.
    pub lasted: Span,
    /// What happened, and what was looked at.
    pub counts: Counts,
}

impl Findings {
    pub(crate) fn of(
        ledger: &Ledger,
        failover: &Failover,
        [promotions, deaths]: [&[Time]; 2],
        samples: Option<Vec<Sample>>,
        lasted: Span,
        mut counts: Counts,
    ) -> Findings {
        let streams = ledger.streams.iter().map(|stream| {
            // To who asked for nothing nothing is late.
            let promised = ledger.subscribers.iter().map(|subscriber| !subscriber.best_effort);
            let receipts = stream.receipts.iter().zip(promised).filter(|(_, promised)| *promised);
            let receipts = receipts.filter_map(|(receipt, _)| receipt.as_ref());
            let run = |index| longest_run_at_all(stream, index);
            let all = |of: fn(&Receipt) -> Journeys| {
                receipts.clone().map(of).fold(Journeys::default(), Journeys::and)
            };
            StreamFinding {
                topic: stream.topic.clone(),
                contract: stream.contract,
                admitted: stream.judged,
                accepted: stream.messages.len() as u64,
                copies: stream.copies,
                worst_run: (0..ledger.subscribers.len()).map(run).max().unwrap_or(0),
                calm: all(|receipt| receipt.calm),
                disturbed: all(|receipt| receipt.disturbed),
            }
        });
        let streams: Vec<StreamFinding> = streams.collect();
        counts.delivered = streams.iter().map(|stream| stream.calm.and(stream.disturbed).count).sum();
        Findings {
            streams,
            worst_failover: failover.worst,
            promotions: since_start(promotions),
            deaths: since_start(deaths),
            samples: samples.unwrap_or_default(),
            lasted,
            counts,
        }
    }
}

fn since_start(times: &[Time]) -> Vec<Span> {
    times.iter().map(|at| at.since(START)).collect()
}
