//! What messages cost a processor: as admission counts, and in truth.

use config::AdmissionConfig;
use contract::admission::Costs;
use contract::rounds::Io;
use contract::{Span, Supply};
use node::complain;
use node::profile::costs;
use planner::supply;

/// What jobs really cost, as typed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrueCosts {
    /// To take a message in, per subscriber, to copy.
    pub message: [Span; 3],
    /// A turn, a read, a write, 1024 bytes.
    pub turn: Option<[Span; 4]>,
}

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
    pub fn new(config: &AdmissionConfig, typed: Option<TrueCosts>) -> Costing {
        let (admission, blocking) = costs(config, complain);
        let real = |configured: Option<Span>, counted: Span| configured.unwrap_or(Span(counted.0 / 2));
        let io = admission.io.map(|io| Io {
            read: real(config.read, io.read),
            write: real(config.write, io.write),
            kib: real(config.kib, io.kib),
        });
        let usual = Costs {
            arrival: real(config.arrival, admission.arrival),
            dispatch: real(config.dispatch, admission.dispatch),
            replication: real(config.replication, admission.replication),
            turn: real(config.turn, admission.turn),
            io,
        };
        let mut truth = usual;
        if let Some(TrueCosts { message, turn }) = typed {
            [truth.arrival, truth.dispatch, truth.replication] = message;
            if let Some([turn, read, write, kib]) = turn {
                truth.turn = turn;
                truth.io.tcp = Io { read, write, kib };
            }
        }
        let mut flags = Vec::new();
        for (key, configured, counted) in [
            ("arrival_cost", config.arrival, admission.arrival),
            ("dispatch_cost", config.dispatch, admission.dispatch),
            ("replication_cost", config.replication, admission.replication),
            ("turn_cost", config.turn, admission.turn),
            ("read_cost", config.read, admission.io.tcp.read),
            ("write_cost", config.write, admission.io.tcp.write),
            ("kib_cost", config.kib, admission.io.tcp.kib),
            ("blocking", config.blocking, blocking),
        ] {
            if configured.is_none() {
                flags.extend(["--set".to_owned(), format!("admission.{key}={counted}")]);
            }
        }
        // With all costs configured, the truth would be what admission counts.
        if parts(&truth) != parts(&admission) {
            let costs = parts(&truth).map(|cost| cost.to_string());
            flags.extend(["--true-costs".to_owned(), costs.join(",")]);
        }
        Costing { admission, truth, supply: supply(config, blocking), flags }
    }
}

/// Of what a simulation has: all its connections are TCP.
fn parts(costs: &Costs) -> [Span; 7] {
    let Costs { arrival, dispatch, replication, turn, io } = costs;
    [*arrival, *dispatch, *replication, *turn, io.tcp.read, io.tcp.write, io.tcp.kib]
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: AdmissionConfig = AdmissionConfig {
        schedulability: true,
        best_effort_subscriptions: false,
        share: 0.8,
        arrival: Some(Span::micros(4)),
        dispatch: Some(Span::micros(6)),
        replication: Some(Span::micros(2)),
        turn: Some(Span::micros(8)),
        read: Some(Span::micros(2)),
        write: Some(Span::micros(5)),
        kib: Some(Span::micros(1)),
        blocking: Some(Span::millis(1)),
        profile_folder: None,
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
        let [arrival, dispatch, replication, turn @ ..] = parts(&costing.truth);
        let typed = TrueCosts { message: [arrival, dispatch, replication], turn: Some(turn) };
        let again = Costing::new(&again, Some(typed));
        assert_eq!((again.admission, again.truth), (costing.admission, costing.truth));
    }
}
