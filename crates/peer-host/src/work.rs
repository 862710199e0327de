//! What a peer runs for its region, as it sees it: functions with a name and a text. What they do is not its business.

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

/// Hears of a function that runs now.
pub type Begun = Arc<dyn Fn(Arc<str>) + Send + Sync>;

/// Who runs functions. Nothing here waits but `check` and `trace`, which may take a tenth of a second.
pub trait Work: Send + Sync {
    /// Whether a text is a function.
    ///
    /// # Errors
    ///
    /// Why not, with the remedy.
    fn check(&self, text: &str) -> Result<(), String>;

    /// What is to run from now on: what is not among these ends.
    fn assign(&self, duties: Vec<Duty>);

    /// Whom it tells of a function that runs now, or waits to be started; who ran it before may end then.
    fn tell(&self, begun: Begun);

    /// What runs here.
    fn running(&self) -> Vec<RunningReport>;

    /// The last messages that a function here has looked at, the newest last; `None`: it does not run here.
    fn trace(&self, name: &str) -> Option<Vec<TracedReport>>;
}
