//! Signals: which of them ask for something, and that no other one ends a broker, or a node of the store.
//!
//! They are watched from the first instruction of the program that can do it, so that one which comes while a broker starts is
//! heard as soon as there is somebody to hear it. A thread of its own takes them and tells whoever is concerned.

use crate::Trouble;
use crate::log::Lines;
use contract::Span;
use crossbeam_channel::{Receiver, Sender, bounded};
use host::{Helpers, Notifier};
use rustix::event::{EventfdFlags, eventfd};
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU,
};
use signal_hook::iterator::Signals;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// What would end a process that does not look; most of it means nothing to a broker. Real-time signals are of the kind too.
const ENDING_OTHERS: [i32; 13] = [
    SIGALRM,
    SIGHUP,
    SIGINT,
    SIGIO,
    SIGPROF,
    SIGQUIT,
    SIGTERM,
    SIGUSR1,
    SIGUSR2,
    SIGVTALRM,
    SIGXCPU,
    libc::SIGPWR,
    libc::SIGSTKFLT,
];
/// The last real-time signal; the first one is asked of the system, which keeps some for itself.
const REAL_TIME_LAST: i32 = 64;
/// How much longer than draining an end may take before it is cut short: what is left is the store, and threads of operators.
const ENDING: Duration = Duration::from_secs(10);
/// The same when it was asked a second time.
const ENDING_AT_ONCE: Duration = Duration::from_secs(3);

/// Signals as they have come since the program began.
pub struct Heard(Signals);

/// Begins to watch all of them: to be called before anything else.
pub fn begin() -> Result<Heard, Trouble> {
    let all = ENDING_OTHERS.into_iter().chain(libc::SIGRTMIN()..=REAL_TIME_LAST);
    let heard = Heard(Signals::new(all)?);
    write_to_any_terminal();
    Ok(heard)
}

/// A process in the background of a terminal that stops whoever writes to it (`stty tostop`) would stand still with the first line of
/// its log, and look dead to its partner. Where the signal is ignored, lines are written.
#[expect(unsafe_code, reason = "the standard library has no way to ignore a signal")]
fn write_to_any_terminal() {
    // SAFETY: it changes what this process does with one signal for which nobody else has a handler.
    unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
}

/// What the parts of a broker hear of signals.
pub struct Wants {
    /// How often it was asked to end (SIGTERM, SIGINT).
    pub ends: Arc<AtomicU32>,
    /// Whether somebody wants to know how it is (SIGUSR1), since this was last taken.
    pub status: Arc<AtomicBool>,
    /// Rung for both.
    pub bell: OwnedFd,
    /// SIGHUP: the configuration is to be read again. Several that come at once are one.
    pub hangups: Receiver<()>,
}

impl Heard {
    /// Starts the thread. An end that takes much longer than `drain` is cut short.
    pub fn tell(
        self,
        drain: Span,
        lines: Lines,
        notifier: Notifier,
        helpers: &Helpers,
    ) -> Result<Wants, Trouble> {
        let bell =
            eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(std::io::Error::from)?;
        let (asked, hangups) = bounded(1);
        let wants = Wants { ends: Arc::default(), status: Arc::default(), bell, hangups };
        let teller = Teller {
            ends: Arc::clone(&wants.ends),
            status: Arc::clone(&wants.status),
            bell: wants.bell.try_clone()?,
            asked,
            drain: Duration::from_nanos(drain.as_nanos_u64()),
            lines,
            notifier,
        };
        self.each(helpers, move |signal| teller.hear(signal))?;
        Ok(wants)
    }

    /// Calls this for each signal, on a thread of its own.
    pub fn each(
        mut self,
        helpers: &Helpers,
        mut hear: impl FnMut(i32) + Send + 'static,
    ) -> Result<(), Trouble> {
        helpers.hire::<()>("signals", move || {
            self.0.forever().for_each(&mut hear);
            Err("signals are not heard any more".to_owned())
        })?;
        Ok(())
    }
}

struct Teller {
    ends: Arc<AtomicU32>,
    status: Arc<AtomicBool>,
    bell: OwnedFd,
    asked: Sender<()>,
    drain: Duration,
    lines: Lines,
    notifier: Notifier,
}

impl Teller {
    fn hear(&self, signal: i32) {
        match signal {
            // One that waits is enough: the configuration is read after it.
            SIGHUP => drop(self.asked.try_send(())),
            SIGUSR1 => self.status.store(true, Ordering::Release),
            SIGTERM | SIGINT => self.end(),
            _ => say_ignored(
                signal,
                "SIGTERM ends a broker, SIGHUP makes it read its configuration, SIGUSR1 say how it is",
                &self.lines,
            ),
        }
        // It fails only if it has been rung 2^64 times.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    fn end(&self) {
        self.notifier.stopping();
        let before = self.ends.fetch_add(1, Ordering::AcqRel);
        let within = ends_within(self.drain, before > 0);
        cut_short_after(within, &self.lines);
    }
}

/// How long an end may take: the first time it is asked for, and again. What takes its time is not draining.
pub fn ends_within(drain: Duration, again: bool) -> Duration {
    if again { ENDING_AT_ONCE } else { drain + ENDING }
}

/// Ends the process if it is still there then: whatever it waits for may never come.
pub fn cut_short_after(within: Duration, lines: &Lines) {
    let lines = lines.clone();
    // Without this thread the end has no bound but the service manager's.
    let _ = std::thread::Builder::new().name("ending".to_owned()).spawn(move || {
        std::thread::sleep(within);
        lines.warn(&format!("the end takes longer than {} s, so it is cut short", within.as_secs()));
        lines.end();
        std::process::exit(crate::EXIT_TROUBLE.into());
    });
}

/// Says that a signal means nothing here, and which do.
pub fn say_ignored(signal: i32, others: &str, lines: &Lines) {
    lines.note_about(&name(signal), &format!("{} is ignored: {others}", name(signal)));
}

/// Its name, for people.
fn name(signal: i32) -> String {
    match signal_hook::low_level::signal_name(signal) {
        Some(name) => name.to_owned(),
        None if signal >= libc::SIGRTMIN() => format!("SIGRTMIN+{}", signal - libc::SIGRTMIN()),
        None if signal == libc::SIGPWR => "SIGPWR".to_owned(),
        None if signal == libc::SIGSTKFLT => "SIGSTKFLT".to_owned(),
        None => format!("signal {signal}"),
    }
}
