//! What is known of a host.

use crate::settings::staffing;
use broker::Limits;
use config::Config;
use contract::Span;
use contract::admission::Costs;
use processing::{Factory, Graph, Processors};

/// What a host has to give, and what work takes on it.
#[derive(Clone, Debug)]
pub struct Host {
    /// What messages cost a broker.
    pub costs: Costs,
    /// For how long its data thread may be held up, apart from its rests.
    pub blocking: Span,
    /// The limits of a broker, with the memory that it may have here.
    pub limits: Limits,
    /// Processors.
    pub processors: usize,
    /// Whether threads may have real-time priorities.
    pub is_realtime: bool,
    /// Measures operators.
    pub measure: Measure,
}

/// What a run of each operator of a graph takes. With how many bytes the payloads of each supplier have at most; zero where nobody says.
pub type Measure = fn(&Graph, &dyn Factory, &[usize]) -> Vec<Cost>;

/// What a run of an operator takes.
#[derive(Clone, Debug)]
pub struct Cost {
    /// At worst: as configured, or the longest of those measured.
    pub worst: Span,
    /// Half of the runs took no longer. Nothing where the cost is configured.
    pub median: Option<Span>,
    /// How long it takes to say what it remembers, at worst; messages for its instance are held for so long.
    pub save: Span,
    /// Why no run could be measured.
    pub fault: Option<String>,
}

impl Host {
    /// For how long a message may wait because the data thread leaves the processors to operators. It does so only where there are
    /// some, and where it shares processors with them.
    pub fn longest_rest(&self, config: &Config) -> Span {
        let shares = staffing(config, self.processors).processors.is_empty();
        if shares && !config.processing.graphs.is_empty() { config.realtime.gather } else { Span::ZERO }
    }

    /// For how long the data thread may be held up, its rests included.
    pub fn held_up(&self, config: &Config) -> Span {
        self.blocking + self.longest_rest(config)
    }

    /// What operators run on: what the data thread leaves, or beside it where that is nothing.
    pub fn for_operators(&self, config: &Config) -> Processors {
        let taken = config.realtime.processors.len().max(1);
        let left = self.processors.saturating_sub(taken);
        let count = config.processing.workers.unwrap_or(left).min(left).max(1);
        let (above_ppm, above_burst) = if left == 0 { self.data_thread(config) } else { (0, Span::ZERO) };
        Processors {
            count: u32::try_from(count).unwrap_or(1),
            above_ppm,
            above_burst,
            preemptive: config.realtime.priority != Some(0) && self.is_realtime,
            // The data thread may rest before it sees a message, and again before it sees the result.
            jitter: config.delays.publisher_to_broker + self.longest_rest(config) * 2,
        }
    }

    /// The share of a processor that the configured topics take, in millionths, and what all of them together take once.
    fn data_thread(&self, config: &Config) -> (u32, Span) {
        let costs = &self.costs;
        let once = costs.arrival + costs.dispatch + costs.replication;
        let (mut share, mut burst) = (0.0, Span::ZERO);
        for family in &config.topics {
            let all = once * u64::from(family.streams);
            burst += all;
            if !family.rule.contract.period.is_forever() {
                share += all.0 as f64 / family.rule.contract.period.0.max(1) as f64;
            }
        }
        ((share * 1e6).ceil() as u32, burst)
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// A host with one processor on which messages cost nothing.
    pub(crate) fn host(config: &Config) -> Host {
        Host {
            costs: Costs::default(),
            blocking: Span::ZERO,
            limits: config.limits,
            processors: 1,
            is_realtime: false,
            measure: as_said,
        }
    }

    /// Where nobody says what an operator costs, it takes 7 us at worst, and 5 us mostly.
    pub(crate) fn as_said(graph: &Graph, _: &dyn Factory, _: &[usize]) -> Vec<Cost> {
        let cost = |said: Option<Span>| Cost {
            worst: said.unwrap_or(Span::micros(7)),
            median: said.is_none().then_some(Span::micros(5)),
            save: Span::ZERO,
            fault: None,
        };
        graph.operators.iter().map(|step| cost(step.cost)).collect()
    }
}
