//! What messages cost a processor: as admission counts, and in truth.

use super::super::broker::{costs, supply};
use crate::config::AdmissionConfig;
use contract::admission::Costs;
use contract::{Span, Supply};

/// The costs of a simulated broker.
#[derive(Clone, Debug)]
pub struct Costing {
    /// What admission counts with.
    pub admission: Costs,
    /// What a job really takes.
    pub truth: Costs,
    /// What share of the processor admission gives out.
    pub supply: Supply,
    /// What has to be typed for another run to count with the same costs.
    pub flags: Vec<String>,
}

impl Costing {
    /// As configured, or as measured on this host. Measuring doubles, so the truth is half of what was measured.
    pub fn new(config: &AdmissionConfig, truth: Option<Costs>) -> Costing {
        let (admission, blocking) = costs(config);
        let real = |configured: Option<Span>, counted: Span| configured.unwrap_or(Span(counted.0 / 2));
        let usual = Costs {
            arrival: real(config.arrival, admission.arrival),
            dispatch: real(config.dispatch, admission.dispatch),
            replication: real(config.replication, admission.replication),
        };
        let truth = truth.unwrap_or(usual);
        let mut flags = Vec::new();
        for (key, configured, counted) in [
            ("arrival_cost", config.arrival, admission.arrival),
            ("dispatch_cost", config.dispatch, admission.dispatch),
            ("replication_cost", config.replication, admission.replication),
            ("blocking", config.blocking, blocking),
        ] {
            if configured.is_none() {
                flags.extend(["--set".to_owned(), format!("admission.{key}={counted}")]);
            }
        }
        // With all costs configured, the truth would be what admission counts.
        if truth != admission {
            let Costs { arrival, dispatch, replication } = truth;
            flags.extend(["--true-costs".to_owned(), format!("{arrival},{dispatch},{replication}")]);
        }
        Costing { admission, truth, supply: supply(config, blocking), flags }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: AdmissionConfig = AdmissionConfig {
        schedulability: true,
        share: 0.8,
        arrival: Some(Span::micros(4)),
        dispatch: Some(Span::micros(6)),
        replication: Some(Span::micros(2)),
        blocking: Some(Span::millis(1)),
    };

    #[test]
    fn configured_costs_are_the_truth_and_need_no_flags() {
        let costing = Costing::new(&CONFIG, None);
        assert_eq!(costing.truth, costing.admission);
        assert!(costing.flags.is_empty(), "{:?}", costing.flags);
    }

    #[test]
    fn the_flags_repeat_a_measurement() {
        let costing = Costing::new(&AdmissionConfig { dispatch: None, ..CONFIG }, None);
        assert_eq!(costing.truth.arrival, Span::micros(4));
        assert_eq!(costing.truth.dispatch, Span(costing.admission.dispatch.0 / 2));
        assert_eq!(costing.flags.len(), 4, "{:?}", costing.flags);
        let again = AdmissionConfig { dispatch: Some(costing.admission.dispatch), ..CONFIG };
        let again = Costing::new(&again, Some(costing.truth));
        assert_eq!((again.admission, again.truth), (costing.admission, costing.truth));
    }
}
