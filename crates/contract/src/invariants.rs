//! Promises that a program makes to itself, where it would otherwise say nothing when one is broken.
//!
//! **The problem**: `let Some(…) = … else { return }` is the same text whether a peer can cause it or nobody can. **The idea**: where
//! nobody can, [`invariant!`](crate::invariant) says so. In debug builds, and on threads that have called [`stop_where_broken`] (simulations),
//! a broken promise ends the run. In release the program goes on as it would have without a word; the place counts, and whoever runs
//! it is told. **The invariant**: nothing that a peer sends reaches one of these. **What it is not**: state. Nothing is decided by these counts.

use std::cell::Cell;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A place in the code that makes a promise. [`invariant!`](crate::invariant) makes one of each.
#[derive(Debug)]
pub struct Place {
    words: &'static str,
    file: &'static str,
    line: u32,
    broken: AtomicU64,
    told: AtomicU64,
}

impl Place {
    /// For [`invariant!`](crate::invariant) alone.
    pub const fn new(words: &'static str, file: &'static str, line: u32) -> Place {
        Place { words, file, line, broken: AtomicU64::new(0), told: AtomicU64::new(0) }
    }

    /// How often it was broken since somebody asked last.
    pub fn take_untold(&self) -> u64 {
        let broken = self.broken.load(Ordering::Relaxed);
        broken.saturating_sub(self.told.swap(broken, Ordering::Relaxed))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}:{})", self.words, self.file, self.line)
    }
}

/// Places that are remembered by name; of more, only their number is known.
const PLACES_MAX: usize = 64;

static BROKEN: AtomicU64 = AtomicU64::new(0);
static PLACES: [OnceLock<&'static Place>; PLACES_MAX] = [const { OnceLock::new() }; PLACES_MAX];

thread_local! {
    static STOPS: Cell<bool> = const { Cell::new(cfg!(debug_assertions)) };
}

/// From now on a broken promise ends this thread, whatever the build.
pub fn stop_where_broken() {
    STOPS.set(true);
}

/// How often promises were broken since the process began.
pub fn broken() -> u64 {
    BROKEN.load(Ordering::Relaxed)
}

/// Where, as far as that is remembered.
pub fn places() -> impl Iterator<Item = &'static Place> {
    PLACES.iter().map_while(|place| place.get().copied())
}

/// A promise is broken here. Called by [`invariant!`](crate::invariant) alone.
#[cold]
#[inline(never)]
pub fn report(place: &'static Place) {
    assert!(!STOPS.get(), "a promise is broken: {place}");
    BROKEN.fetch_add(1, Ordering::Relaxed);
    if place.broken.fetch_add(1, Ordering::Relaxed) == 0 {
        // `set` fails where another place was first.
        let _ = PLACES.iter().find(|free| free.set(place).is_ok());
    }
}

/// Says that the program never comes here, by its own promise: the words state what should have been. With a second argument, that is
/// the value of the expression.
///
/// ```
/// fn first(numbers: &[u8]) -> u8 {
///     let Some(first) = numbers.first() else {
///         return contract::invariant!("who calls this has numbers", 0);
///     };
///     *first
/// }
/// assert_eq!(first(&[7]), 7);
/// ```
#[macro_export]
macro_rules! invariant {
    ($words:literal) => {{
        static PLACE: $crate::invariants::Place = $crate::invariants::Place::new($words, file!(), line!());
        $crate::invariants::report(&PLACE)
    }};
    ($words:literal, $value:expr) => {{
        $crate::invariant!($words);
        $value
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a promise is broken: there is a number (")]
    fn a_broken_promise_ends_a_test() {
        stop_where_broken();
        invariant!("there is a number");
    }

    #[test]
    fn what_goes_on_is_counted_and_told_once() {
        let before = broken();
        STOPS.set(false);
        let value = (0..3).map(|_| invariant!("nobody comes here", 7)).sum::<i32>();
        assert_eq!((value, broken() - before), (21, 3));
        let place = places().find(|place| place.words == "nobody comes here").unwrap();
        assert_eq!([place.take_untold(), place.take_untold()], [3, 0]);
    }
}
