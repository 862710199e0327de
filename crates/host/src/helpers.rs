//! The threads that help another one, none of which ends unnoticed.
//!
//! The problem: a thread that panics or gives up after an error ends alone. Its process lives on, and what the thread did is not done
//! any more: nobody is let in, no password is checked, no signal is heard. The idea: whoever helps is hired here, and ends with its
//! last word, which is `Ok` only where it was to end. Any other end is a loss. The first one is kept with its reason, and a bell
//! rings, which whoever is helped waits for like for a socket: a broker hands over, says so and ends, a client's handles answer with it.
//!
//! **The invariant**: no thread of a broker or client ends otherwise than asked while its process or client goes on as if
//! nothing had been. The store's threads are an exception: with them the store is given up, and said to be.
//!
//! To try that, the environment variable `VERGE_TEST_LOSE` names a thread that ends at once: `handshakes` panics, `handshakes:error` gives up, and
//! `verge-client:error:500` does so after half a second. Release builds do not look at it.

use crate::error::HostError;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::any::Any;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};

/// The threads that help one broker or one client.
#[derive(Clone)]
pub struct Helpers(Arc<Shared>);

struct Shared {
    bell: OwnedFd,
    loss: OnceLock<Loss>,
}

/// A thread that has ended and was not to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loss {
    /// Its name.
    pub thread: String,
    /// Why.
    pub reason: String,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the thread `{}` has ended: {}", self.thread, self.reason)
    }
}

impl Helpers {
    /// Nobody yet.
    pub fn new() -> Result<Helpers, HostError> {
        let failed = |reason| HostError::System { what: "cannot make a bell for threads", reason };
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(failed)?;
        Ok(Helpers(Arc::new(Shared { bell, loss: OnceLock::new() })))
    }

    /// Starts a thread. What it returns goes to whoever joins it, and an error or a panic counts as a loss.
    pub fn hire<T: Default + Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> Result<T, String> + Send + 'static,
    ) -> std::io::Result<JoinHandle<T>> {
        self.hire_from(Builder::new(), name, work)
    }

    /// The same for a thread that is built otherwise.
    pub fn hire_from<T: Default + Send + 'static>(
        &self,
        builder: Builder,
        name: &str,
        work: impl FnOnce() -> Result<T, String> + Send + 'static,
    ) -> std::io::Result<JoinHandle<T>> {
        let (helpers, thread) = (self.clone(), name.to_owned());
        builder.name(thread.clone()).spawn(move || {
            last_word(&thread, work).unwrap_or_else(|reason| {
                helpers.lose(Loss { thread, reason });
                T::default()
            })
        })
    }

    /// The first who has ended and was not to.
    pub fn loss(&self) -> Option<&Loss> {
        self.0.loss.get()
    }

    /// Rung when there is a loss; it need not be read.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.0.bell.as_fd()
    }

    fn lose(&self, loss: Loss) {
        // One is enough to end for.
        let _ = self.0.loss.set(loss);
        // It fails only if it has been rung 2^64 times.
        let _ = rustix::io::write(&self.0.bell, &1_u64.to_ne_bytes());
    }
}

/// What a thread of this name comes to, for threads whose owner notices their end in another way: a panic is an error as well.
pub fn last_word<T>(thread: &str, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    // What it leaves half done is its own; others see what is behind locks, which they take all the same.
    catch_unwind(AssertUnwindSafe(|| {
        end_on_purpose(thread)?;
        work()
    }))
    .unwrap_or_else(|panic| Err(format!("it panicked: {}", words(&*panic))))
}

/// Why a thread cannot be had, as the system says it.
pub(crate) fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::AGAIN)
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a word")
}

/// For tests: an error or a panic where this thread is to end on purpose by now. Threads that go round and round ask in each round.
#[cfg(debug_assertions)]
pub fn end_on_purpose(thread: &str) -> Result<(), String> {
    use std::time::{Duration, Instant};
    struct Wanted {
        thread: String,
        panics: bool,
        at: Instant,
    }
    static WANTED: OnceLock<Option<Wanted>> = OnceLock::new();
    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var("VERGE_TEST_LOSE").ok()?;
        let mut words = text.split(':');
        let thread = words.next()?.to_owned();
        let panics = words.next() != Some("error");
        let after =
            words.next().and_then(|text| text.parse().ok()).map_or(Duration::ZERO, Duration::from_millis);
        Some(Wanted { thread, panics, at: Instant::now() + after })
    });
    let Some(wanted) =
        wanted.as_ref().filter(|wanted| wanted.thread == thread && wanted.at <= Instant::now())
    else {
        return Ok(());
    };
    assert!(!wanted.panics, "it was told to");
    Err("it was told to give up".to_owned())
}

/// The same where nothing is tested: it never does.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn end_on_purpose(_thread: &str) -> Result<(), String> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_rung(helpers: &Helpers) -> bool {
        rustix::io::read(helpers.bell(), &mut [0_u8; 8]).is_ok()
    }

    #[test]
    fn an_end_that_was_asked_for_is_no_loss() {
        let helpers = Helpers::new().unwrap();
        let thread = helpers.hire("one", || Ok(7)).unwrap();
        assert_eq!(thread.join().unwrap(), 7);
        assert!(helpers.loss().is_none() && !has_rung(&helpers));
    }

    #[test]
    fn an_error_and_a_panic_are_losses_the_first_of_which_is_kept() {
        for panics in [true, false] {
            let helpers = Helpers::new().unwrap();
            let work =
                move || if panics { panic!("no more {}", "room") } else { Err("no more room".to_owned()) };
            helpers.hire::<()>("one", work).unwrap().join().unwrap();
            helpers.hire::<()>("two", || Err("another".to_owned())).unwrap().join().unwrap();
            let loss = helpers.loss().unwrap().to_string();
            assert!(
                loss.starts_with("the thread `one` has ended: ") && loss.ends_with("no more room"),
                "{loss}"
            );
            assert!(has_rung(&helpers));
        }
    }
}
