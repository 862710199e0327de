//! How a command that runs until it is stopped ends in order.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether SIGINT or SIGTERM has come. Once the command has noticed that, a further one ends it at once; before, several are one: whoever
/// stops a group of processes often sends two.
pub struct Stop {
    asked: Arc<AtomicBool>,
    ending: Arc<AtomicBool>,
}

impl Stop {
    /// Hears both from now on.
    pub fn on_signals() -> std::io::Result<Stop> {
        let stop = Stop { asked: Arc::default(), ending: Arc::default() };
        for signal in [SIGINT, SIGTERM] {
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop.ending))?;
            flag::register(signal, Arc::clone(&stop.asked))?;
        }
        Ok(stop)
    }

    /// Whether the command is to end.
    pub fn is_asked(&self) -> bool {
        let asked = self.asked.load(Ordering::Relaxed);
        self.ending.fetch_or(asked, Ordering::Relaxed);
        asked
    }

    /// Somebody else asks for the same.
    pub fn handle(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }
}
