//! How far this client's clock is ahead of a broker's.
//!
//! The client asks what the broker's clock says, and hears it between the asking and the answer. So it was said at the middle of the
//! two, or at most half of the way there and back away from that, however busy everybody was. The best of the last answers counts,
//! until a new one contradicts it: then a clock was set, or they run apart.

use contract::{Mutant, Span, Time};
use wire::ClockDifference;

/// After so many answers the best one is too old.
const ANSWERS: u32 = 8;
/// Polls from one question to the next.
const POLLS: u64 = 10;

/// What is known of one broker's clock.
#[derive(Clone, Copy, Default)]
pub(crate) struct Comparison {
    best: Option<ClockDifference>,
    /// Answers since that one.
    since: u32,
    /// It is to be asked with the next poll.
    asks: bool,
}

impl Comparison {
    pub(crate) fn known(&self) -> Option<ClockDifference> {
        self.best
    }

    /// Whether to ask with the poll of this number.
    pub(crate) fn is_due(&mut self, number: u64) -> bool {
        std::mem::take(&mut self.asks) || number % POLLS == 1
    }

    /// Our clock has been set, and the broker's has not: mostly it runs on another host. It is asked at once; where it runs on this one, that
    /// contradicts.
    pub(crate) fn step(&mut self, by: Span) {
        self.asks = true;
        if let Some(best) = &mut self.best {
            best.ahead += by;
        }
    }

    /// An answer: what our clock said when we asked, what the broker's said, and what ours says now.
    pub(crate) fn take(&mut self, sent: Time, clock: Time, now: Time) {
        let way = now.since(sent);
        if way < Span::ZERO {
            // Our clock went back meanwhile, so that this says nothing of it.
            self.best = None;
            return;
        }
        let half = Span(way.0 / 2 + way.0 % 2);
        let found = ClockDifference { ahead: (sent + half).since(clock), within: half };
        self.since += 1;
        let is_better = |best: &ClockDifference| {
            let apart = (found.ahead - best.ahead).0.saturating_abs();
            found.within <= best.within || self.since >= ANSWERS || apart > (found.within + best.within).0
        };
        if self.best.as_ref().is_none_or(|best| is_better(best) && !Mutant::KeepOldClock.is_on()) {
            (self.best, self.since) = (Some(found), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time(1_000_000_000_000);

    /// Asks when the broker's clock is behind by this much, and the ways there and back take so many milliseconds.
    fn ask(comparison: &mut Comparison, behind: Span, there: i64, back: i64) {
        let clock = START + Span::millis(there) - behind;
        comparison.take(START, clock, START + Span::millis(there + back));
    }

    fn is_true(comparison: &Comparison, ahead: Span) -> bool {
        let known = comparison.known().unwrap();
        known.within.0 >= (known.ahead - ahead).0.abs()
    }

    #[test]
    fn the_truth_is_within_what_is_said_however_unequal_the_ways_are() {
        for ahead in [Span::ZERO, Span::secs(2), -Span::secs(2), Span::millis(3)] {
            for (there, back) in [(0, 0), (1, 1), (40, 0), (0, 40), (3, 900)] {
                let mut comparison = Comparison::default();
                ask(&mut comparison, ahead, there, back);
                assert!(is_true(&comparison, ahead), "{ahead} {there} {back}");
            }
        }
    }

    #[test]
    fn the_best_answer_counts_until_a_later_one_contradicts_it_or_it_is_old() {
        let mut comparison = Comparison::default();
        ask(&mut comparison, Span::ZERO, 1, 1);
        ask(&mut comparison, Span::ZERO, 100, 100);
        assert_eq!(comparison.known().unwrap().within, Span::millis(1));
        ask(&mut comparison, Span::secs(2), 100, 100);
        assert!(is_true(&comparison, Span::secs(2)), "a clock was set");
        for _ in 0..ANSWERS {
            ask(&mut comparison, Span::secs(2), 200, 200);
        }
        assert_eq!(comparison.known().unwrap().within, Span::millis(200), "the better one is too old");
    }

    #[test]
    fn what_is_known_moves_with_our_clock_and_is_asked_anew() {
        let mut comparison = Comparison::default();
        ask(&mut comparison, Span::ZERO, 1, 1);
        assert!(!comparison.is_due(2));
        comparison.step(-Span::secs(5));
        assert!(is_true(&comparison, -Span::secs(5)) && comparison.is_due(2) && !comparison.is_due(3));
        ask(&mut comparison, Span::ZERO, 1, 1);
        assert!(is_true(&comparison, Span::ZERO), "its clock is ours");
    }

    #[test]
    fn an_answer_that_comes_before_it_was_asked_for_says_nothing() {
        let mut comparison = Comparison::default();
        comparison.take(START, START, START - Span::secs(2));
        assert_eq!(comparison.known(), None);
    }
}
