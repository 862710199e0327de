//! SIGHUP: the configuration is read again, what differs is listed, and what can apply at once does.
//!
//! Whoever has something that can change while a broker runs is a [`Taker`]. All of them look at a new configuration before any of
//! it is taken over: it applies as a whole, as far as it can, or not at all.

use crate::Trouble;
use crate::log::Lines;
use config::{Config, Problems, Running};
use crossbeam_channel::Receiver;
use host::{Helpers, Notifier};

/// Takes over what it is there for. What it gives back is done when all have agreed; it runs on the reloading thread.
pub type Commit = Box<dyn FnOnce() + Send>;

/// One part of a broker that can change while it runs: graphs of operators, the log. Files that the configuration names, such as
/// certificates, are read again here too, even where no key has changed.
pub trait Taker: Send {
    /// Looks at a configuration. An error says what is wrong with it, and nothing is taken over by anybody.
    fn prepare(&mut self, config: &Config) -> Result<Commit, String>;
}

/// Reads the configuration again on every SIGHUP, on a thread of its own.
pub fn reload_in_background(
    started_with: &Config,
    reload: impl Fn() -> Result<Config, Problems> + Send + 'static,
    mut takers: Vec<Box<dyn Taker>>,
    hangups: Receiver<()>,
    lines: Lines,
    notifier: Notifier,
    helpers: &Helpers,
) -> Result<(), Trouble> {
    let mut running = Running::new(started_with);
    helpers.hire::<()>("reload", move || {
        for () in hangups {
            notifier.reloading();
            if let Err(text) = take_over(&reload, &mut takers, &mut running, &lines) {
                lines.warn(&format!(
                    "the configuration is not taken over; contracts and operators go on as before: {text}"
                ));
            }
            notifier.ready();
        }
        Err("SIGHUP is not heard any more".to_owned())
    })?;
    Ok(())
}

fn take_over(
    reload: &impl Fn() -> Result<Config, Problems>,
    takers: &mut [Box<dyn Taker>],
    running: &mut Running,
    lines: &Lines,
) -> Result<(), String> {
    let config = reload().map_err(|problems| problems.to_string())?;
    let commits: Vec<Commit> =
        takers.iter_mut().map(|taker| taker.prepare(&config)).collect::<Result<_, _>>()?;
    let changes = running.take(&config);
    if changes.is_empty() {
        lines.say("configuration: apart from operators and their sources, nothing has changed");
    }
    changes.iter().for_each(|change| lines.say(&format!("configuration: {change}")));
    commits.into_iter().for_each(|commit| commit());
    Ok(())
}

/// How lines are made.
pub struct LogTaker(pub Lines);

impl Taker for LogTaker {
    fn prepare(&mut self, config: &Config) -> Result<Commit, String> {
        let (lines, log) = (self.0.clone(), config.log);
        Ok(Box::new(move || lines.adjust(log)))
    }
}
