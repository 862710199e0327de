//! How much is read from one connection at a time.
//!
//! The problem: what comes with one read is handled in one piece, in which nobody else has a turn, and a partner that asks whether this
//! node lives waits for its answer. 64 KiB of messages take tens of microseconds. 64 KiB of requests to carry a stream, each judged by
//! admission, take tens of milliseconds, which a partner takes for a death. The idea: the driver does not know what it reads, but how
//! long it took, so each connection begins with little, gets more while that is handled quickly, and less where it is not. Where more is
//! likely to wait, or it took long, others go first.

use super::{FLOOD_BYTES, READ_BYTES};
use contract::Span;

/// Bytes that a connection may bring with its next read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Portion {
    bytes: usize,
    floods: bool,
}

/// The first portion of a connection: some tens of requests.
const FIRST_BYTES: usize = contract::rounds::FIRST_BYTES;
/// The least, which is quickly there where single frames take long.
const LEAST_BYTES: usize = 1 << 10;
/// A read that took longer to handle is followed by a smaller one.
const LONG: Span = Span::millis(1);
/// One that took no longer than this, by a larger one: twice as much does not take long either.
const QUICK: Span = Span(2 * contract::rounds::READ_LEAST.0);

impl Default for Portion {
    fn default() -> Portion {
        Portion { bytes: FIRST_BYTES, floods: false }
    }
}

impl Portion {
    /// The longest that one read takes to handle, where each message has so few bytes and takes so long: the first portion, whatever that
    /// takes, or twice as much as was handled quickly.
    pub fn longest(message: Span, bytes: usize) -> Span {
        let takes = |portion: usize| message * (portion / bytes.max(1)) as u64;
        let mut portion = FIRST_BYTES;
        while portion < READ_BYTES && takes(portion) <= QUICK {
            portion *= 2;
        }
        takes(portion)
    }

    /// Most that the next read takes.
    #[inline]
    pub fn bytes(self) -> usize {
        self.bytes
    }

    /// Whether others go first.
    #[inline]
    pub fn floods(self) -> bool {
        self.floods
    }

    /// A read brought so many bytes, and it took so long to handle them.
    #[inline]
    pub fn handled(&mut self, read: usize, took: Span) {
        let much = read >= FLOOD_BYTES.min(self.bytes);
        if took > LONG {
            self.bytes = (self.bytes / 2).max(LEAST_BYTES);
        } else if took <= QUICK
            && self.bytes < READ_BYTES
            && (read > self.bytes / 2 || self.bytes < FIRST_BYTES)
        {
            self.bytes *= 2;
        }
        self.floods = much || self.bytes < FIRST_BYTES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(reads: &[(usize, Span)]) -> Portion {
        let mut portion = Portion::default();
        reads.iter().for_each(|(read, took)| portion.handled(*read, *took));
        portion
    }

    #[test]
    fn a_flood_that_is_handled_quickly_gets_all_there_is() {
        let mut portion = Portion::default();
        let mut reads = 0;
        while portion.bytes() < READ_BYTES {
            portion.handled(portion.bytes(), QUICK);
            reads += 1;
        }
        assert_eq!(reads, 4);
        portion.handled(READ_BYTES, Span::ZERO);
        assert_eq!((portion.bytes(), portion.floods()), (READ_BYTES, true));
        portion.handled(FLOOD_BYTES - 1, Span::ZERO);
        assert_eq!((portion.bytes(), portion.floods()), (READ_BYTES, false));
    }

    #[test]
    fn no_read_takes_longer_than_the_longest() {
        for nanoseconds in [50, 200, 1_000, 3_000, 10_000] {
            let message = Span::nanos(nanoseconds);
            let (mut portion, mut longest) = (Portion::default(), Span::ZERO);
            for _ in 0..20 {
                let took = message * (portion.bytes() / 40) as u64;
                longest = longest.max(took);
                portion.handled(portion.bytes(), took);
            }
            assert_eq!(Portion::longest(message, 40), longest, "{message}");
        }
    }

    #[test]
    fn who_brings_little_needs_no_more() {
        let portion = after(&[(100, Span::ZERO); 9]);
        assert_eq!((portion.bytes(), portion.floods()), (FIRST_BYTES, false));
    }

    #[test]
    fn what_takes_long_becomes_less_and_recovers() {
        let long = Span(LONG.0 + 1);
        assert_eq!(after(&[(9, LONG)]).bytes(), FIRST_BYTES, "it took no longer than it may");
        assert_eq!(after(&[(9, long)]).bytes(), FIRST_BYTES / 2);
        let least = after(&[(9, long); 9]);
        assert_eq!((least.bytes(), least.floods()), (LEAST_BYTES, true));
        // Small reads are enough for that.
        let recovered = after(&[(9, long), (9, long), (9, QUICK), (9, QUICK), (9, QUICK)]);
        assert_eq!((recovered.bytes(), recovered.floods()), (FIRST_BYTES, false));
    }

    /// With requests of 30 us and 50 bytes, which is what a registration takes, it settles where a read takes no longer than `LONG`.
    #[test]
    fn requests_that_take_long_come_in_portions_that_do_not() {
        let mut portion = Portion::default();
        for _ in 0..9 {
            let requests = portion.bytes() / 50;
            portion.handled(portion.bytes(), Span::micros(30) * requests as u64);
        }
        assert_eq!(portion.bytes(), LEAST_BYTES);
        assert!(Span::micros(30) * (portion.bytes() / 50) as u64 <= LONG);
    }
}
