//! What a peer runs for its region, as it sees it: functions with a name and a text. What they do is not its business.

use engine::Where;
use report::{RunningReport, TracedReport};
use std::sync::Arc;

/// A function that is to run here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Duty {
    /// Its name.
    pub name: Arc<str>,
    /// Which of several of that name.
    pub version: u64,
    /// What it is.
    pub text: Arc<[u8]>,
    /// Whether somebody has started it; of interest where it runs only then.
    pub is_started: bool,
}

/// Who runs functions. Nothing here waits but `check` and `trace`, which may take a tenth of a second.
pub trait Work: Send + Sync {
    /// Whether a text is a function, and where that has to run.
    ///
    /// # Errors
    ///
    /// Why not, with the remedy.
    fn check(&self, text: &str) -> Result<Where, String>;

    /// How much this peer has to do, if it would run one more function that has to be there besides so many; `None`: it would not.
    fn load(&self, at: Where, runs: usize) -> Option<u32>;

    /// What is to run from now on: what is not among these ends.
    fn assign(&self, duties: Vec<Duty>);

    /// Tries again what could not begin. It is called often.
    fn try_again(&self);

    /// Functions that this peer should find somebody for, who runs them, and cannot.
    fn have_unplaced(&self, unplaced: Vec<(Arc<str>, Where)>);

    /// What runs here.
    fn running(&self) -> Vec<RunningReport>;

    /// The last messages that a function here has looked at, the newest last; `None`: it does not run here.
    fn trace(&self, name: &str) -> Option<Vec<TracedReport>>;
}
