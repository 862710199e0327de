//! What peers say of functions: JSON.

use serde::{Deserialize, Serialize};

/// A function that is kept in a region.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FunctionReport {
    /// Its name.
    pub name: String,
    /// When it was added, in nanoseconds since the Unix epoch; another one of its name has another.
    pub version: u64,
    /// What it is, as it was written.
    pub text: String,
}

/// A function that a peer runs.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct RunningReport {
    /// Its name.
    pub name: String,
    /// Which of several of that name; 0 where nobody runs it, which the peer says that has its place.
    pub version: u64,
    /// `rules`, or the kind of its operator.
    pub kind: String,
    /// Whether it waits until somebody starts it.
    pub waits: bool,
    /// Why it does not run, if it does not; it is tried again.
    pub trouble: Option<String>,
    /// When it began here, in nanoseconds since the Unix epoch.
    pub since: u64,
    /// Messages that it has looked at here.
    pub messages: u64,
    /// Those of them that were not what they should be.
    pub unread: u64,
    /// Messages that came faster than it took them, and are lost to it.
    pub dropped: u64,
    /// How often it has said something.
    pub results: u64,
    /// How often what it should have done could not be done, and why the last time.
    pub failed: u64,
    /// The same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What has become of its budget, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<QualityReport>,
    /// Its rules, in the order of its text.
    pub rules: Vec<RuleReport>,
}

/// Which of two operators has served messages.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct QualityReport {
    /// From the arrival of a message to its result it may take so long, in nanoseconds.
    pub budget_ns: u64,
    /// Messages that the cheaper one has served.
    pub cheaper: u64,
    /// Results that were published after that time.
    pub late: u64,
    /// What 99 of 100 runs of the dearer one took at most, in nanoseconds, of those of the last minute.
    pub dearer_p99_ns: u64,
    /// The same of the cheaper one.
    pub cheaper_p99_ns: u64,
}

/// A rule of such a function.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RuleReport {
    /// Its name.
    pub name: String,
    /// Its condition, as it was written.
    pub condition: String,
    /// Where several could fire, the one with the least number does.
    pub priority: i64,
    /// How often it has fired.
    pub fired: u64,
    /// How often it was held back, since it had fired too short a time ago.
    pub held_back: u64,
    /// How often its condition could be neither true nor false.
    pub unclear: u64,
    /// How often what it should have done could not be done, and why the last time.
    pub failed: u64,
    /// The same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A message that a function has looked at, and what has become of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TracedReport {
    /// When, in nanoseconds since the Unix epoch.
    pub at: u64,
    /// The topic of the message.
    pub topic: String,
    /// The message, cut off where it is long.
    pub message: String,
    /// Of rules `fired`, `held back` or `none`; of an operator `result` or `nothing`, with `, cheaper` behind it where that one ran; `unread`: it is not what it should be, or the run failed.
    pub verdict: String,
    /// The rule that fired or was held back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What each rule made of it, in the order in which they were asked, or why it could not be read.
    pub rules: Vec<TracedRule>,
}

/// What a rule made of a message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TracedRule {
    /// Its name.
    pub name: String,
    /// Whether its condition holds; `None`: that cannot be said.
    pub holds: Option<bool>,
    /// Each part of it, with the values of the message.
    pub parts: Vec<String>,
}
