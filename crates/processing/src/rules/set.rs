//! Rules that look at the same messages: which of them fires.

use super::condition::Node;
use super::explain::Explanation;
use super::language::{self, ConditionError};
use super::tuple::{Shape, Tuple};
use contract::{Span, Time};

/// The most rules of one set.
pub const RULES_MAX: usize = 256;

/// A rule, as somebody wrote it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleSpec {
    /// Its name, for people; may be empty.
    pub name: String,
    /// When it fires.
    pub condition: String,
    /// Where several could fire, the one with the least number does.
    pub priority: i64,
    /// It fires no more often than this. What it would fire for meanwhile is held back: no other rule fires for it.
    pub every: Span,
}

/// Why there is no such set.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// It has none, or too many.
    #[error("there are {0} rules, and there may be 1 to {RULES_MAX} in a set")]
    Number(usize),
    /// A condition is not understood.
    #[error("the condition `{}`: {reason}", shown(condition))]
    Condition {
        /// Which rule, in the order of the specification.
        index: usize,
        /// The condition.
        condition: String,
        /// Why.
        reason: ConditionError,
    },
}

/// A condition as a line.
fn shown(condition: &str) -> String {
    condition.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// What has become of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// This rule fires: its number in the order of the specification.
    Fires(usize),
    /// It would, and has fired too short a time ago.
    HeldBack(usize),
    /// None does.
    None,
}

/// What has become of the messages that a rule has looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// How often it has fired.
    pub fired: u64,
    /// How often it was held back.
    pub held_back: u64,
    /// How often its condition could be neither true nor false.
    pub unclear: u64,
}

#[derive(Clone, Debug)]
struct Rule {
    index: usize,
    node: Node,
    every: Span,
    /// Before this it does not fire again.
    quiet_until: Time,
    counts: Counts,
}

/// Rules that look at the same messages.
#[derive(Clone, Debug)]
pub struct RuleSet {
    /// In the order in which they are asked.
    rules: Vec<Rule>,
    shape: Shape,
}

impl RuleSet {
    /// Reads rules.
    pub fn read(specs: &[RuleSpec]) -> Result<RuleSet, RuleError> {
        if specs.is_empty() || specs.len() > RULES_MAX {
            return Err(RuleError::Number(specs.len()));
        }
        let mut shape = Shape::new();
        let mut order: Vec<usize> = (0..specs.len()).collect();
        order.sort_by_key(|index| specs[*index].priority);
        let mut rule = |index: usize| {
            let RuleSpec { condition, every, .. } = &specs[index];
            let node = language::read(condition, &mut shape).map_err(|reason| RuleError::Condition {
                index,
                condition: condition.clone(),
                reason,
            })?;
            Ok(Rule { index, node, every: *every, quiet_until: Time::ZERO, counts: Counts::default() })
        };
        let rules = order.into_iter().map(&mut rule).collect::<Result<_, _>>()?;
        Ok(RuleSet { rules, shape })
    }

    /// What its conditions ask for, to be read from messages.
    pub fn tuple(&self) -> Tuple {
        Tuple::new(self.shape.clone())
    }

    /// Says which rule fires for a message: one at most.
    pub fn judge(&mut self, now: Time, tuple: &Tuple) -> Verdict {
        for rule in &mut self.rules {
            match rule.node.holds(tuple) {
                Ok(false) => {}
                Err(_) => rule.counts.unclear += 1,
                Ok(true) if now < rule.quiet_until => {
                    rule.counts.held_back += 1;
                    return Verdict::HeldBack(rule.index);
                }
                Ok(true) => {
                    rule.quiet_until = now + rule.every;
                    rule.counts.fired += 1;
                    return Verdict::Fires(rule.index);
                }
            }
        }
        Verdict::None
    }

    /// What each rule makes of a message, in the order in which they are asked, with its number. Nothing fires.
    pub fn explain(&self, tuple: &Tuple) -> Vec<(usize, Explanation)> {
        self.rules.iter().map(|rule| (rule.index, Explanation::of(&rule.node, tuple))).collect()
    }

    /// A place that its conditions ask for and that messages of numbers never have.
    pub fn place_beside_numbers(&self) -> Option<String> {
        self.shape.first_outside(&["value", "values"])
    }

    /// What it has counted, by rule.
    pub fn counts(&self) -> Vec<Counts> {
        let mut counts = vec![Counts::default(); self.rules.len()];
        self.rules.iter().for_each(|rule| counts[rule.index] = rule.counts);
        counts
    }

    /// Until when each rule is quiet, by rule.
    pub fn quiet(&self) -> Vec<Time> {
        let mut quiet = vec![Time::ZERO; self.rules.len()];
        self.rules.iter().for_each(|rule| quiet[rule.index] = rule.quiet_until);
        quiet
    }

    /// Goes on where one has been quiet until then.
    pub fn set_quiet(&mut self, quiet: &[Time]) {
        for rule in &mut self.rules {
            rule.quiet_until = quiet.get(rule.index).copied().unwrap_or(rule.quiet_until);
        }
    }
}
