//! A refused contract is never carried; an admitted one satisfies its bounds, and all together fit the processor.
//!
//! Source: F4 (both deadlines at least zero), computed here from the terms; and the necessary condition of every
//! schedule, that the work is no more than the supply.

use crate::ledger::Ledger;
use crate::scenario::Scenario;
use contract::admission::Costs;
use contract::{Loss, Span};

pub(super) const NAME: &str = "admission";
pub(super) const STATEMENT: &str = "a refused contract is never carried, and an admitted one can be kept";

#[derive(Clone)]
pub(super) struct Admission {
    costs: Costs,
    share: f64,
    is_tested: bool,
}

impl Admission {
    pub(super) fn new(scenario: &Scenario) -> Admission {
        Admission {
            costs: scenario.costs,
            share: f64::from(scenario.supply.share_ppm) / 1e6,
            is_tested: scenario.schedulability && scenario.policy == broker::Policy::Frame,
        }
    }

    pub(super) fn judged(&self, ledger: &Ledger, stream: u32, admitted: bool) -> Result<(), String> {
        let Some(judged) = ledger.stream(stream).filter(|_| admitted && self.is_tested) else {
            return Ok(());
        };
        let (contract, delays) = (&judged.contract, &ledger.delays);
        if let Loss::AtMost(losses) = contract.loss
            && !contract.period.is_forever()
        {
            let cover = contract.period * (u64::from(contract.retain) + u64::from(losses));
            let least = delays.publisher_to_broker + delays.broker_to_broker + delays.failover;
            if cover < least {
                return Err(format!(
                    "{} was admitted although (N+L)T = {cover} is below {least}",
                    judged.topic
                ));
            }
        }
        if judged.deadlines.is_none_or(|d| d.dispatch < delays.publisher_to_broker) {
            return Err(format!("{} was admitted although it cannot arrive in time", judged.topic));
        }
        let live = ledger.streams.iter().filter(|stream| !stream.ended && stream.judged == Some(true));
        let load: f64 = live
            .filter(|stream| !stream.contract.period.is_forever())
            .map(|stream| {
                let wanting =
                    ledger.subscribers.iter().filter(|s| s.is_served() && s.wants(&stream.topic)).count();
                let cost: Span = self.costs.arrival + self.costs.dispatch * wanting.max(1) as u64;
                cost.0 as f64 / stream.contract.period.0 as f64
            })
            .sum();
        if load > self.share * 1.000_001 {
            return Err(format!("the admitted topics take {load:.3} of a processor, of {:.3}", self.share));
        }
        Ok(())
    }
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
