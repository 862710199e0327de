//! What the guarantees do not cover: why a run is beyond them, and why a contract was broken all the same.

use contract::Span;
use sim::{Act, Fault, Scenario, Target, When};

/// After a fault is over, the pair needs so long at most to be whole again.
const MENDING: Span = Span::millis(200);
/// Earlier than this, brokers and clients may not have found each other yet.
const WHOLE: Span = Span::secs(1);

/// Why a run is beyond what the guarantees assume, if it is. Deadlines, loss bounds and x are then not demanded by the
/// simulator's checkers, though the table still shows what became of them.
pub fn beyond(scenario: &Scenario) -> Vec<String> {
    let mut reasons: Vec<String> = second_fault(&scenario.faults).into_iter().collect();
    for fault in &scenario.faults {
        let reason = match &fault.act {
            Act::ClockStep { .. } => "a clock is set",
            Act::Slow { .. } => "a processor is slower than admission counts",
            Act::Crash { target, .. } | Act::HostCrash { target, .. } if !is_broker(target) => {
                "a client crashes"
            }
            Act::Pause { target, .. } if !is_broker(target) => "a client stands still",
            Act::Partition { from, to, .. } if !from.iter().chain(to).all(is_broker) => "a client is cut off",
            _ => continue,
        };
        reasons.push(reason.to_owned());
    }
    let (truth, costs) = (scenario.true_costs, scenario.costs);
    let dearer = truth.arrival > costs.arrival || truth.dispatch > costs.dispatch;
    if dearer || truth.replication > costs.replication {
        reasons.push("messages cost more than admission counts".to_owned());
    }
    let upstream = scenario.delays.publisher_to_broker;
    if scenario.publishers.iter().any(|spec| spec.latency.most > upstream) {
        reasons.push(format!("messages may take longer than network.publisher_to_broker = {upstream}"));
    }
    let pair = scenario.delays.broker_to_broker;
    if scenario.pair.most > pair {
        reasons.push(format!("copies may take longer than network.broker_to_broker = {pair}"));
    }
    let clients = scenario.publishers.iter().map(|spec| spec.clock);
    let clients = clients.chain(scenario.subscribers.iter().map(|spec| spec.clock));
    let error =
        scenario.clocks.into_iter().chain(clients).map(|clock| error_at_end(clock, scenario.span)).max();
    if let Some(error) = error.filter(|error| *error > Span(upstream.0 / CLOCK_SHARE)) {
        reasons.push(format!("clocks are wrong by up to {error}, and deadlines are counted across hosts"));
    }
    reasons.sort();
    reasons.dedup();
    reasons
}

/// Of the bound on the way from publishers, this part is kept free by the network for the clocks' error.
const CLOCK_SHARE: i64 = 20;

fn error_at_end(clock: sim::ClockError, span: Span) -> Span {
    let drift = (i128::from(clock.drift_ppb.abs()) * i128::from(span.0) / 1_000_000_000) as i64;
    Span(clock.offset.0.abs()) + Span(drift)
}

/// What else may have broken a contract although every guarantee held. `confirmed`: whether subscribers confirm.
pub fn excuses(scenario: &Scenario, confirmed: bool) -> Vec<String> {
    let mut excuses = beyond(scenario);
    for fault in &scenario.faults {
        let excuse = match (&fault.act, fault.when) {
            (act, When::At(at)) if at < WHOLE && strike(act).is_some() => {
                format!("the fault at {at} came before the pair and its clients had found each other")
            }
            (Act::HostCrash { target, .. }, _) if !confirmed && is_broker(target) => {
                "messages died in the kernel of a broker's host (confirm = true makes a topic survive that)"
                    .to_owned()
            }
            (Act::Break { from, to, .. }, _) if !(is_broker(from) && is_broker(to)) => {
                "a client's connection broke, and what was on it was lost".to_owned()
            }
            _ => continue,
        };
        excuses.push(excuse);
    }
    excuses.sort();
    excuses.dedup();
    excuses
}

/// The analysis lets one broker fail at a time, and redundancy be restored before the next does. Faults that wait until
/// everything is whole do so by themselves.
fn second_fault(faults: &[Fault]) -> Option<String> {
    let mut last: Option<(Span, Span, &Act)> = None;
    for fault in faults {
        let (When::At(at), Some(lasts)) = (fault.when, strike(&fault.act)) else { continue };
        let (began, over, act) = last.unwrap_or((at, Span::ZERO, &fault.act));
        if last.is_some() && at < over + MENDING && !is_same_death(act, &fault.act) {
            return Some(format!(
                "the fault at {at} came before redundancy was restored after the one at {began}"
            ));
        }
        if at + lasts >= over {
            last = Some((at, at + lasts, &fault.act));
        }
    }
    None
}

/// How long a fault takes a broker, or the brokers' sight of each other, away.
fn strike(act: &Act) -> Option<Span> {
    match act {
        Act::Crash { target, restart, .. } | Act::HostCrash { target, restart } if is_broker(target) => {
            Some(restart.unwrap_or(Span::FOREVER))
        }
        Act::Pause { target, span } if is_broker(target) => Some(*span),
        Act::Partition { from, to, span, .. } if from.iter().chain(to).any(is_broker) => Some(*span),
        Act::Break { from, to, .. } if is_broker(from) && is_broker(to) => Some(Span::ZERO),
        Act::Handover => Some(Span::ZERO),
        _ => None,
    }
}

/// Who is dead already does not die again.
fn is_same_death(one: &Act, other: &Act) -> bool {
    let dies = |act: &Act| match act {
        Act::Crash { target: Target::Broker(index), .. } => Some(*index),
        _ => None,
    };
    dies(one).is_some() && dies(one) == dies(other)
}

fn is_broker(target: &Target) -> bool {
    matches!(target, Target::Primary | Target::Backup | Target::Broker(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::LastWrites;

    fn crash(target: Target, at_ms: i64) -> Fault {
        let act = Act::Crash { target, writes: LastWrites::All, restart: Some(Span::secs(2)) };
        Fault { when: When::At(Span::millis(at_ms)), act }
    }

    #[test]
    fn a_second_fault_is_one_before_the_first_is_mended() {
        let second = |target, at_ms| second_fault(&[crash(Target::Broker(0), 5_000), crash(target, at_ms)]);
        for (target, at_ms) in [(Target::Broker(1), 5_000), (Target::Primary, 6_999), (Target::Backup, 7_100)]
        {
            let reason = second(target, at_ms).unwrap();
            assert!(reason.contains("redundancy") && reason.contains("at 5s"), "{reason}");
        }
        assert_eq!(second(Target::Primary, 7_200), None);
        assert_eq!(second(Target::Broker(0), 5_500), None);
    }

    #[test]
    fn a_fault_that_waits_is_no_second_one_and_one_without_end_lasts() {
        let waits = Fault { when: When::Settled(Span::ZERO), ..crash(Target::Primary, 0) };
        assert_eq!(second_fault(&[crash(Target::Primary, 5_000), waits]), None);
        let act = Act::HostCrash { target: Target::Primary, restart: None };
        let forever = Fault { when: When::At(Span::secs(2)), act };
        assert!(second_fault(&[forever, crash(Target::Primary, 3_600_000)]).is_some());
    }

    #[test]
    fn the_remedy_for_what_dies_in_a_kernel_is_named_unless_it_is_in_use() {
        let act = Act::HostCrash { target: Target::Primary, restart: None };
        let faults = vec![Fault { when: When::At(Span::secs(5)), act }];
        let base = sim::scenario_of(1, sim::Weather::Assumed);
        let scenario = Scenario { faults, true_costs: base.costs, ..base };
        let says =
            |confirmed| excuses(&scenario, confirmed).iter().any(|text| text.contains("confirm = true"));
        assert!(says(false) && !says(true));
    }
}
