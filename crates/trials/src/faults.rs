//! Which faults a run has: those of the scenario, those of `--crash`, or a crash of the primary in the middle.

use super::hosts::Hosts;
use contract::Span;
use node::Trouble;
use sim::{Act, Fault, LastWrites, Scenario, Target, When};

/// The faults of the runs to come.
#[derive(Clone, PartialEq, Debug)]
pub enum Faults {
    /// The primary crashes in the middle, at another moment for each seed.
    Spread,
    /// The same faults for each seed.
    Same(Vec<Fault>),
}

/// How long messages flow unless something else is said.
const USUAL_LENGTH: Span = Span::secs(10);
/// A run ends no sooner after its last fault.
const AFTER_LAST: Span = Span::secs(3);
/// A crashed broker is back after this.
const DEAD: Span = Span::secs(2);
/// Over how long the crashes of different seeds are spread.
const SPREAD: Span = Span::secs(1);
/// Nothing crashes before a pair and its clients have found each other.
const EARLIEST: Span = Span::secs(2);
/// The golden ratio of 2^64: multiples of it, taken modulo 2^64, are spread evenly however many there are.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

impl Faults {
    /// What `--crash` asks for.
    pub fn crashes(asked: &[(String, Span)], hosts: &Hosts) -> Result<Faults, Trouble> {
        if asked.is_empty() {
            return Ok(Faults::Spread);
        }
        let mut faults = Vec::new();
        for (who, at) in asked {
            let find = || match hosts.find(who)? {
                Target::Publisher(_) | Target::Subscriber(_) | Target::Device(_) => {
                    Err("only brokers crash here; say the rest in a scenario (--scenario FILE)".to_owned())
                }
                broker => Ok(broker),
            };
            let target = find()
                .map_err(|remedy| Trouble(format!("--crash {who}: no broker is called so: {remedy}")))?;
            faults.push(crash(target, *at));
        }
        faults.sort_by_key(|fault| time_of(fault).unwrap_or(Span::ZERO));
        Ok(Faults::Same(faults))
    }

    /// The scenario of one run.
    pub fn of_run(&self, seed: u64, length: Option<Span>, deployment: &Scenario) -> Scenario {
        let length = length.unwrap_or(USUAL_LENGTH);
        let faults = match self {
            Faults::Same(faults) => faults.clone(),
            Faults::Spread => {
                let first = (Span(length.0 / 2) - Span(SPREAD.0 / 2)).max(EARLIEST);
                vec![crash(Target::Primary, first + part_of(SPREAD, seed))]
            }
        };
        let last = faults.iter().filter_map(time_of).max();
        let span = last.map_or(length, |last| length.max(last + AFTER_LAST));
        Scenario { span, faults, ..deployment.clone() }
    }
}

fn crash(target: Target, at: Span) -> Fault {
    Fault { when: When::At(at), act: Act::Crash { target, writes: LastWrites::All, restart: Some(DEAD) } }
}

/// When a fault happens, if that is said.
fn time_of(fault: &Fault) -> Option<Span> {
    match fault.when {
        When::At(at) => Some(at),
        When::Settled(_) | When::After(_) => None,
    }
}

/// A part of a span that differs from seed to seed.
fn part_of(span: Span, seed: u64) -> Span {
    let fraction = seed.wrapping_mul(GOLDEN);
    Span(((u128::from(fraction) * u128::from(span.as_nanos_u64())) >> 64) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts() -> Hosts {
        Hosts::new(["a", "b"], &["publisher-1"], &["subscriber-edge"])
    }

    #[test]
    fn crashes_happen_in_the_order_of_their_times() {
        let asked = [("b".to_owned(), Span::secs(9)), ("primary".to_owned(), Span::secs(4))];
        let Faults::Same(faults) = Faults::crashes(&asked, &hosts()).unwrap() else { panic!() };
        let times: Vec<_> = faults.iter().filter_map(time_of).collect();
        assert_eq!(times, [Span::secs(4), Span::secs(9)]);
    }

    #[test]
    fn who_does_not_exist_is_named_with_those_who_do() {
        let trouble = Faults::crashes(&[("c".to_owned(), Span::secs(1))], &hosts()).unwrap_err().to_string();
        assert!(trouble.contains("--crash c") && trouble.contains("primary, backup, a, b"), "{trouble}");
        let trouble = Faults::crashes(&[("publisher-1".to_owned(), Span::secs(1))], &hosts()).unwrap_err();
        assert!(trouble.to_string().contains("--scenario"), "{trouble}");
    }

    #[test]
    fn the_moments_of_different_seeds_are_spread_over_a_second() {
        let mut parts: Vec<i64> = (0..100).map(|seed| part_of(Span::secs(1), seed).0).collect();
        parts.sort_unstable();
        let widest = parts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(parts[0] >= 0 && parts[99] < 1_000_000_000 && widest < 30_000_000, "{widest}");
    }

    #[test]
    fn a_run_is_long_enough_for_its_faults() {
        let config = contract::Delays::default();
        let base = sim::scenario_of(1, sim::Weather::Assumed);
        let base = Scenario { delays: config, ..base };
        let asked = [("a".to_owned(), Span::secs(30))];
        let faults = Faults::crashes(&asked, &hosts()).unwrap();
        assert_eq!(faults.of_run(0, None, &base).span, Span::secs(33));
        assert_eq!(faults.of_run(0, Some(Span::secs(60)), &base).span, Span::secs(60));
        let When::At(at) = Faults::Spread.of_run(9, Some(Span::secs(1)), &base).faults[0].when else {
            panic!()
        };
        assert!((Span::secs(2)..Span::secs(3)).contains(&at), "{at}");
    }
}
