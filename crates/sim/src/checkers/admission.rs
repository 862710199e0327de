//! A refused contract is never carried; an admitted one satisfies its bounds, and all together fit the processor. What fits
//! by far is admitted.
//!
//! Source: F4 (FRAME §3.3.4: both deadlines at least zero), computed here from the terms; the necessary condition of every schedule, that
//! the work is no more than the supply; and two that together suffice. If the costs, each divided by the shorter of its deadline and
//! period, add up to no more than what is left of the supply after the longest blocking, every deadline is kept as far as the order of
//! jobs goes. A lazy copy counts twice: against its budget, and as time that is missing to others, where the window brings some forward.
//! And if all that may come within the shortest deadline, each message read and written by itself, takes no longer than that, two turns
//! are over before it.

use crate::ledger::{Ledger, Stream};
use crate::scenario::Scenario;
use contract::admission::Costs;
use contract::rounds::{
    BYTES_UNSTATED, JOBS_PER_TURN, LAST_BYTES, LAST_MESSAGES, LAST_WRITES, READ_BYTES, READ_LEAST,
};
use contract::{Lazy, Span, Supply};
use wire::limits::CLIENT_POLL;

pub(super) const NAME: &str = "admission";
pub(super) const STATEMENT: &str =
    "a refused contract is never carried, an admitted one can be kept, and what fits by far is admitted";

#[derive(Clone)]
pub(super) struct Admission {
    costs: Costs,
    supply: Supply,
    lazy: Option<Lazy>,
    is_tested: bool,
    /// Clients, each of which polls.
    clients: u64,
    /// Whether each turn writes for those who are served last as well.
    serves_last: bool,
    /// No limit stands in the way of what fits.
    ample: bool,
}

/// So much of the supply is enough for what must be admitted.
const BY_FAR: f64 = 0.95;

impl Admission {
    pub(super) fn new(scenario: &Scenario) -> Admission {
        Admission {
            costs: scenario.costs,
            supply: scenario.supply,
            lazy: scenario.lazy(),
            is_tested: scenario.refuses_what_does_not_fit(),
            clients: (scenario.publishers.len() + scenario.subscribers.len()) as u64,
            serves_last: scenario.best_effort_subscriptions
                || scenario.subscribers.iter().any(|spec| spec.best_effort),
            // What clients of MQTT publish has no contract that is looked at here.
            ample: scenario.assumed && scenario.devices.is_empty(),
        }
    }

    /// A stream has been admitted or refused.
    pub(super) fn judged(&self, ledger: &Ledger, stream: u32, admitted: bool) -> Result<(), String> {
        let Some(judged) = ledger.stream(stream) else { return Ok(()) };
        let bounds = bounds(judged, ledger);
        if !admitted {
            let fits = bounds.is_ok() && self.fits_by_far(ledger, Some(stream));
            return if self.ample && fits {
                Err(format!(
                    "{} was refused although it can be kept by far: {}",
                    judged.topic, judged.contract
                ))
            } else {
                Ok(())
            };
        }
        if !self.is_tested {
            return Ok(());
        }
        bounds?;
        // Results are judged when the first of them comes.
        let live = ledger.streams.iter().filter(|stream| stream.origin.is_none());
        let live = live.filter(|stream| !stream.ended && stream.judged == Some(true));
        let load: f64 = live
            .filter(|stream| !stream.contract.period.is_forever())
            .map(|stream| {
                let served = ledger.subscribers.iter().filter(|s| s.is_served(&stream.topic)).count();
                self.cost(served).0 as f64 / stream.contract.period.0 as f64
            })
            .sum();
        let share = f64::from(self.supply.share_ppm) / 1e6;
        if load > share * 1.000_001 {
            return Err(format!("the admitted topics take {load:.3} of a processor, of {share:.3}"));
        }
        Ok(())
    }

    /// A subscription has been admitted or refused.
    pub(super) fn subscribed(&self, ledger: &Ledger, host: usize, admitted: bool) -> Result<(), String> {
        let Some(index) = ledger.subscriber_of(host) else { return Ok(()) };
        if !admitted && self.ample && self.fits_by_far(ledger, None) {
            let name = &ledger.subscribers[index].name;
            return Err(format!("a subscription of {name} was refused although it can be served by far"));
        }
        Ok(())
    }

    /// Whether all streams that nobody has refused, and this one, fit with all their subscribers.
    fn fits_by_far(&self, ledger: &Ledger, also: Option<u32>) -> bool {
        let (mut density, mut shortest) = (0.0, f64::MAX);
        let mut lazily = Vec::new();
        for (number, stream) in ledger.streams.iter().enumerate() {
            if stream.judged == Some(false) && Some(number as u32) != also {
                continue;
            }
            let Some(deadlines) = stream.deadlines else { continue };
            let wanting = ledger.subscribers.iter().filter(|s| s.wants(&stream.topic)).count();
            let mut jobs = vec![(self.cost(wanting), deadlines.dispatch)];
            match deadlines.every {
                Some(every) => lazily.push((stream.contract.period * every).0 as f64),
                None => jobs.push((self.costs.replication, deadlines.replication)),
            }
            for (cost, due) in jobs.into_iter().filter(|(_, due)| !due.is_forever()) {
                let due = (due - ledger.delays.publisher_to_broker).0 as f64;
                density += cost.0 as f64 / due.min(stream.contract.period.0 as f64).max(1.0);
                shortest = shortest.min(due.max(0.0));
            }
        }
        for (topic, period, deadline) in &ledger.joined {
            let wanting = ledger.subscribers.iter().filter(|s| s.wants(topic)).count();
            let due = (*deadline - ledger.delays.publisher_to_broker).min(*period).0 as f64;
            density += self.cost(wanting).0 as f64 / due.max(1.0);
        }
        if let Some(lazy) = self.lazy.filter(|_| !lazily.is_empty()) {
            let (budget, window) = (lazy.budget.0 as f64, lazy.window.0 as f64);
            let missing = |period: &f64| {
                1.0 / budget.min(*period).max(1.0)
                    + 1.0 / period
                    + (window / period + 1.0) / shortest.max(1.0)
            };
            density += self.costs.replication.0 as f64 * lazily.iter().map(missing).sum::<f64>();
            shortest = shortest.min(budget);
        }
        let free = 1.0 - self.supply.blocking.0 as f64 / shortest;
        let in_order = density <= BY_FAR * free * f64::from(self.supply.share_ppm) / 1e6;
        in_order && self.rounds_fit(ledger, also, shortest)
    }

    /// Whether all that may come within this time takes no longer, with a read and a write for each message.
    fn rounds_fit(&self, ledger: &Ledger, also: Option<u32>, within: f64) -> bool {
        let (jitter, io) = (ledger.delays.publisher_to_broker.0 as f64, &self.costs.io.tcp);
        let comes = |period: Span, early: f64| match period {
            Span::FOREVER => 1.0,
            period => ((within + early) / period.0.max(1) as f64).ceil().max(1.0),
        };
        let (mut work, mut messages, mut jobs, mut bytes_in) = (0.0, 0.0, 0.0, 0.0);
        let mut count = |topic: &str, period: Span, size: u32, copies: Option<(f64, Span)>| {
            let wanting = ledger.subscribers.iter().filter(|s| s.wants(topic)).count().max(1);
            let size = f64::from(if size == 0 { BYTES_UNSTATED } else { size });
            let (came, writes) = (comes(period, jitter), wanting as f64);
            let carrying = size / 1_024.0 * io.kib.0 as f64;
            work += came * (self.cost(wanting).0 as f64 + io.read.0 as f64 + io.write.0 as f64 * writes);
            work += came * carrying * (1.0 + writes);
            if let Some((early, period)) = copies {
                let copies = comes(period, jitter + early);
                work += copies * (self.costs.replication.0 as f64 + carrying);
                jobs += copies;
            }
            messages += came;
            jobs += came;
            bytes_in += came * size;
        };
        for (number, stream) in ledger.streams.iter().enumerate() {
            if stream.judged == Some(false) && Some(number as u32) != also {
                continue;
            }
            let Some(deadlines) = stream.deadlines else { continue };
            let (period, size) = (stream.contract.period, stream.contract.size);
            let copies = match (deadlines.every, self.lazy) {
                (Some(every), Some(lazy)) => Some((lazy.window.0 as f64, period * every)),
                _ => Some((0.0, period)),
            };
            count(&stream.topic, period, size, copies);
        }
        for (topic, period, _) in &ledger.joined {
            count(topic, *period, 0, None);
        }
        let polls = self.clients as f64 * (within / CLIENT_POLL.0 as f64).ceil();
        work += polls * (io.read + io.write).0 as f64;
        let reading = messages * self.costs.arrival.0 as f64 / READ_LEAST.0 as f64;
        let share = f64::from(self.supply.share_ppm) / 1e6;
        let turns = 6.0 + reading / share + bytes_in / READ_BYTES as f64 + jobs / JOBS_PER_TURN as f64;
        work += turns * self.costs.turn.0 as f64;
        if self.serves_last {
            let kib = (LAST_BYTES >> 10) as f64;
            let made = LAST_MESSAGES as f64 * self.costs.dispatch.0 as f64;
            work += turns * (made + LAST_WRITES as f64 * io.write.0 as f64 + kib * io.kib.0 as f64);
        }
        work / share + 2.0 * self.supply.blocking.0 as f64 <= BY_FAR * within
    }

    /// What one message costs with so many subscribers.
    fn cost(&self, subscribers: usize) -> Span {
        self.costs.arrival + self.costs.dispatch * subscribers.max(1) as u64
    }
}

/// F4: neither deadline is below zero.
fn bounds(stream: &Stream, ledger: &Ledger) -> Result<(), String> {
    let upstream = ledger.delays.publisher_to_broker;
    let Some(deadlines) = stream.deadlines else {
        return Err(format!("{} was admitted although its link class is unknown", stream.topic));
    };
    if deadlines.replication < upstream {
        return Err(format!(
            "{} was admitted although no copy could be early enough: {}",
            stream.topic, stream.contract
        ));
    }
    if deadlines.dispatch < upstream {
        return Err(format!("{} was admitted although it cannot arrive in time", stream.topic));
    }
    Ok(())
}

/// A message of this stream is accepted.
pub(super) fn accepted(ledger: &Ledger, stream: u32) -> Result<(), String> {
    match ledger.stream(stream) {
        Some(stream) if stream.judged != Some(true) => {
            Err(format!("a message of {} was accepted, which has not been admitted", stream.topic))
        }
        _ => Ok(()),
    }
}
