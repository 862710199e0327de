//! What came of a run.

use crate::checkers::Violation;
use contract::Span;

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was broken first, if anything.
    pub violation: Option<Violation>,
    /// The fingerprint of everything that happened.
    pub hash: u64,
    /// Things that happened.
    pub steps: u64,
    /// How long it lasted, in the world's time.
    pub lasted: Span,
    /// What happened in it.
    pub findings: Findings,
    /// The story, if it was told.
    pub story: Vec<String>,
}

impl Outcome {
    /// Whether this checker noticed something.
    pub fn breaks(&self, checker: &str) -> bool {
        self.violation.as_ref().is_some_and(|violation| violation.checker == checker)
    }
}

/// How often things happened, at all nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Findings {
    /// Jobs that ended.
    pub jobs: u64,
    /// Jobs that were skipped, since they would have begun too late.
    pub skipped: u64,
    /// Writes that were accepted.
    pub writes: u64,
    /// Reads.
    pub reads: u64,
    /// Those that gave a value.
    pub reads_answered: u64,
    /// Values that were published.
    pub values: u64,
    /// Those whose instant had passed.
    pub late: u64,
    /// Keys and instants that were proposed and came to nothing.
    pub undecided: u64,
    /// Frames that were sent.
    pub frames: u64,
    /// Those that were not what a correct node would have sent.
    pub lies: u64,
    /// Frames that were dropped.
    pub dropped: u64,
    /// Processes that ended.
    pub crashes: u64,
    /// Processes that came back.
    pub rejoins: u64,
    /// Answers to nodes that had missed something.
    pub answers: u64,
    /// Times that a node came to know what it had missed.
    pub recovered: u64,
    /// Jobs of which a node published nothing, since it may have agreed on something else than others.
    pub fenced: u64,
    /// Connections that could not be read any further.
    pub broken: u64,
    /// Jobs in which a node called another one a liar.
    pub accusations: u64,
    /// Jobs after which a node raised the alarm.
    pub alarms: u64,
    /// Jobs that came to something else at a node than at one before it.
    pub disagreements: u64,
}

impl Findings {
    /// The names of all figures with their values, for tables.
    pub fn rows(&self) -> [(&'static str, u64); 17] {
        [
            ("jobs", self.jobs),
            ("jobs skipped", self.skipped),
            ("writes", self.writes),
            ("reads", self.reads),
            ("reads with a value", self.reads_answered),
            ("values published", self.values),
            ("values late", self.late),
            ("undecided", self.undecided),
            ("frames", self.frames),
            ("lies", self.lies),
            ("frames dropped", self.dropped),
            ("crashes", self.crashes),
            ("rejoins", self.rejoins),
            ("connections broken", self.broken),
            ("accusations", self.accusations),
            ("alarms", self.alarms),
            ("disagreements", self.disagreements),
        ]
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &Findings) {
        let pairs = [
            (&mut self.jobs, other.jobs),
            (&mut self.skipped, other.skipped),
            (&mut self.writes, other.writes),
            (&mut self.reads, other.reads),
            (&mut self.reads_answered, other.reads_answered),
            (&mut self.values, other.values),
            (&mut self.late, other.late),
            (&mut self.undecided, other.undecided),
            (&mut self.frames, other.frames),
            (&mut self.lies, other.lies),
            (&mut self.dropped, other.dropped),
            (&mut self.crashes, other.crashes),
            (&mut self.rejoins, other.rejoins),
            (&mut self.broken, other.broken),
            (&mut self.accusations, other.accusations),
            (&mut self.alarms, other.alarms),
            (&mut self.disagreements, other.disagreements),
        ];
        for (sum, count) in pairs {
            *sum += count;
        }
    }
}
