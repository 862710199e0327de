//! Rules: conditions over what a payload says, and which of them fires.
//!
//! A condition is written as in CEL, or with the words IF, AND, OR and NOT. It becomes a tree whose leaves know by number which value they need
//! ([`RuleSet::read`]); a payload is read once for all rules, and only what they need of it. Of the rules whose condition holds one fires: the one
//! with the least priority number, and of those the first.
//!
//! What is not there makes a condition neither true nor false, as in CEL: it fires only where the rest of it decides. All numbers are floating-point
//! numbers, as in JSON.
//!
//! Source: Rendezvous §5 (A8).

mod condition;
mod explain;
mod language;
mod set;
mod tokens;
mod tuple;

pub use explain::{Explanation, Finding};
pub use language::{CONDITION_BYTES_MAX, ConditionError};
pub use set::{Counts, RULES_MAX, RuleError, RuleSet, RuleSpec, Verdict};
pub use tuple::{PATHS_MAX, TEXT_BYTES_MAX, Tuple, TupleFault};

#[cfg(test)]
mod tests;
