//! What pushes the cart: it gets a force from each replica, and must make one of them.

use super::REPLICAS;
use super::controller::FORCE_MAX;
use clap::ValueEnum;
use contract::{Span, Time};

/// How the forces of replicas that do not use the store become one.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Without {
    /// Their mean.
    Mean,
    /// That of the active replica, the one that will lie; the others stand by until it is silent.
    Active,
    /// The one in the middle.
    Median,
}

impl Without {
    /// Its name as it is typed.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// How several forces become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// What so many replicas say, bit by bit. They can, where they compute the same from the same; more than `f` are enough.
    Same(usize),
    /// What can be done where they do not.
    Apart(Without),
}

/// A force, and the release at which it was computed.
type Command = (Time, f64);

/// Holds the last force until there is another one.
pub struct Actuator {
    rule: Rule,
    period: Span,
    /// The newest of each replica.
    commands: [Option<Command>; REPLICAS],
    /// In N.
    pub force: f64,
    applied: Option<Time>,
    /// How many releases had a force.
    pub releases: u64,
}

impl Actuator {
    pub fn new(rule: Rule, period: Span) -> Actuator {
        Actuator { rule, period, commands: [None; REPLICAS], force: 0.0, applied: None, releases: 0 }
    }

    /// A replica's force for a release. What is beyond the motor's limits is taken as the limit, whoever says it.
    pub fn take(&mut self, replica: usize, release: Time, force: f64) {
        if !force.is_finite() {
            return;
        }
        self.commands[replica] = Some((release, force.clamp(-FORCE_MAX, FORCE_MAX)));
        let Some(force) = self.decide(release) else { return };
        self.force = force;
        if self.applied.replace(release) != Some(release) {
            self.releases += 1;
        }
    }

    fn decide(&self, release: Time) -> Option<f64> {
        match self.rule {
            Rule::Same(needed) => {
                let said = || self.commands.iter().flatten().filter(|command| command.0 == release);
                let same = |force: f64| said().filter(|other| other.1.to_bits() == force.to_bits()).count();
                said().map(|command| command.1).find(|force| same(*force) >= needed)
            }
            Rule::Apart(without) => {
                // Whoever has missed more than one release is not waited for.
                let oldest = release - self.period;
                let fresh = self.commands.iter().flatten().filter(|command| command.0 >= oldest);
                let mut forces: Vec<f64> = fresh.map(|command| command.1).collect();
                match without {
                    Without::Mean => Some(forces.iter().sum::<f64>() / forces.len() as f64),
                    Without::Active => forces.last().copied(),
                    Without::Median => median(&mut forces),
                }
            }
        }
    }
}

/// The middle one, or the mean of the two in the middle.
pub fn median(numbers: &mut [f64]) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let (low, high) = (numbers.len().checked_sub(1)? / 2, numbers.len() / 2);
    Some((numbers[low] + numbers[high]) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(rule: Rule, forces: [f64; REPLICAS]) -> Actuator {
        let mut actuator = Actuator::new(rule, Span::millis(50));
        let all = forces.into_iter().enumerate();
        all.for_each(|(replica, force)| actuator.take(replica, Time(1), force));
        actuator
    }

    #[test]
    fn forces_become_one_by_each_rule() {
        let forces = [1.0, 2.0, 4.0, -10.0];
        for (rule, force) in [
            (Rule::Apart(Without::Mean), -0.75),
            (Rule::Apart(Without::Active), -10.0),
            (Rule::Apart(Without::Median), 1.5),
            (Rule::Same(2), 0.0),
        ] {
            assert_eq!(told(rule, forces).force, force, "{rule:?}");
        }
    }

    #[test]
    fn one_liar_cannot_move_what_two_must_say() {
        assert_eq!(told(Rule::Same(2), [-10.0, 3.0, 3.0, 3.0]).force, 3.0);
        assert_eq!(told(Rule::Same(2), [3.0, f64::NAN, 1e9, 3.0]).force, 3.0);
        assert_eq!(told(Rule::Same(2), [3.0, 5.0, 3.0, 5.5]).releases, 1);
    }

    #[test]
    fn whoever_is_silent_is_left_out_after_a_release() {
        let mut actuator = told(Rule::Apart(Without::Active), [1.0, 1.0, 1.0, 9.0]);
        actuator.take(0, Time(1) + Span::millis(50), 2.0);
        assert_eq!(actuator.force, 9.0);
        actuator.take(2, Time(1) + Span::millis(100), 3.0);
        assert_eq!(actuator.force, 3.0);
    }
}
