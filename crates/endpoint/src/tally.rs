//! The account that a subscriber keeps of one stream: which numbers have come, which came twice, which are missing.
//!
//! The problem: the same message may come from two brokers, late, or never, and a gap that a failover will still fill
//! is no loss. The idea: a window of the latest numbers, one bit each. A gap is noticed when a later number comes, and
//! judged when its time is over or the window moves past it; what is then still missing is lost.

use crate::window::{WINDOW, Window};
use contract::{Mutant, Span, Time, first_missing};

/// Gaps that may wait to be judged, each in its own time; above it, two that were noticed at nearly the same time wait together.
const GAPS_MAX: usize = 16;

/// What a number was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// New. `reordered` if a later one has come before it.
    Fresh { reordered: bool },
    /// Seen before, or too old to be told from that.
    Duplicate,
}

/// Numbers among which some are missing.
#[derive(Clone, Copy, Debug)]
struct Gap {
    from: u64,
    to: u64,
    noticed: Time,
}

/// The account of one stream.
#[derive(Clone, Debug)]
pub struct Tally {
    window: Window,
    gaps: Vec<Gap>,
    received: u64,
    duplicates: u64,
    lost: u64,
    longest_run: u64,
    /// Messages lost since [`Tally::take_untold`], and the longest run of them.
    untold: [u64; 2],
    /// Whether every number is used, so that a missing one is a loss.
    gapless: bool,
    /// Nobody has asked for what came last, so that numbers between it and the next are nobody's loss.
    resumes: bool,
    /// What had come of the publisher's other life, if it had one.
    before: Option<Box<Life>>,
}

/// What has come of one life of a publisher.
#[derive(Clone, Debug)]
struct Life {
    incarnation: u64,
    window: Window,
}

impl Tally {
    /// An account that expects `next` first. `gapless`: whether a number that never comes is a loss.
    pub(crate) fn new(next: u64, gapless: bool) -> Tally {
        // Numbers before the first expected one are not ours to miss. Should one come all the same, it is new: the stream's
        // first messages may be on their way from one broker when the other is the first to name it.
        Tally {
            window: Window::new(next),
            gaps: Vec::new(),
            received: 0,
            duplicates: 0,
            lost: 0,
            longest_run: 0,
            untold: [0; 2],
            gapless,
            resumes: false,
            before: None,
        }
    }

    /// Somebody asks for the stream again, after nobody did: what was published meanwhile is not missing.
    pub(crate) fn resume(&mut self) {
        self.resumes = true;
    }

    /// Messages that have come, each counted once.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Messages that came again and were dropped.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Messages that are lost for good.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The longest run of consecutive losses.
    pub fn longest_run(&self) -> u64 {
        self.longest_run
    }

    /// Whether messages were lost since [`Tally::take_untold`].
    pub(crate) fn has_untold(&self) -> bool {
        self.untold[0] > 0
    }

    /// How many messages were lost since this was last asked, and the longest run of them.
    pub(crate) fn take_untold(&mut self) -> [u64; 2] {
        std::mem::take(&mut self.untold)
    }

    /// The number after the highest that has come.
    pub fn next_seq(&self) -> u64 {
        self.window.next
    }

    /// Takes note of a number. Every gap not filled within `settle` is a loss.
    pub(crate) fn arrive(&mut self, now: Time, seq: u64, settle: Span) -> Arrival {
        if !self.gaps.is_empty() {
            self.judge(now, settle);
        }
        if seq == u64::MAX {
            // No stream gets so far, and the number after it would not exist.
            return Arrival::Duplicate;
        }
        if seq >= self.window.next {
            self.advance(now, seq);
            self.resumes = false;
            self.received += 1;
            return Arrival::Fresh { reordered: false };
        }
        if self.window.has(seq) {
            self.duplicates += 1;
            if Mutant::HandOverTwice.is_on() {
                return Arrival::Fresh { reordered: true };
            }
            return Arrival::Duplicate;
        }
        self.window.mark(seq);
        self.received += 1;
        Arrival::Fresh { reordered: true }
    }

    /// Judges the gaps whose time is over.
    pub(crate) fn judge(&mut self, now: Time, settle: Span) {
        while let Some(gap) = self.gaps.first().copied().filter(|gap| now >= gap.noticed + settle) {
            self.gaps.remove(0);
            self.lose(gap);
        }
    }

    /// Another life of the publisher counts, `incarnation`, whose first number is `next`; what was lost before stays lost. Of the last two
    /// lives it is known what has come, since the one before may come again: where the broker that reigned has died, another may know
    /// only that.
    pub(crate) fn begin_anew(&mut self, from: u64, incarnation: u64, next: u64) {
        let begins = Life { incarnation, window: Window::new(next) };
        let before = self.before.take().map(|before| *before);
        let life = before.filter(|before| before.incarnation == incarnation).unwrap_or(begins);
        let window = std::mem::replace(&mut self.window, life.window);
        self.before = Some(Box::new(Life { incarnation: from, window }));
    }

    /// Judges all gaps: the stream has ended.
    pub(crate) fn close(&mut self) {
        for gap in std::mem::take(&mut self.gaps) {
            self.lose(gap);
        }
    }

    /// The publisher says that it has sent all numbers below `sent`: what did not come at the end is lost as well.
    pub fn finish(&mut self, sent: u64) {
        self.close();
        if sent > self.window.next && self.gapless {
            self.count(sent - first_missing(self.window.next, sent - 1));
            self.window.next = sent;
        }
    }

    fn advance(&mut self, now: Time, seq: u64) {
        let oldest_kept = (seq + 1).saturating_sub(WINDOW);
        while let Some(gap) = self.gaps.first().copied().filter(|gap| gap.from < oldest_kept) {
            // A run that the window moves past is judged as a whole, and what has come ends it.
            let end =
                (oldest_kept.min(gap.to)..gap.to).find(|seq| self.window.is_marked(*seq)).unwrap_or(gap.to);
            self.lose(Gap { to: end, ..gap });
            match self.gaps.first_mut().filter(|_| end < gap.to) {
                Some(rest) => rest.from = end,
                None => drop(self.gaps.remove(0)),
            }
        }
        // Numbers that were never given stand in the window as others that nobody misses.
        let next = first_missing(self.window.next, seq);
        (self.window.next.max(oldest_kept)..next).for_each(|unused| self.window.unmark(unused));
        if seq > next && (!self.gapless || self.resumes) {
            (next.max(oldest_kept)..seq).for_each(|unused| self.window.unmark(unused));
        } else if seq > next {
            let gap = Gap { from: next, to: seq, noticed: now };
            if seq - next >= WINDOW {
                // Longer than the window: nothing of it could be told from a duplicate any more.
                self.count(seq - next);
                self.window.mark_all();
            } else {
                if self.gaps.len() == GAPS_MAX {
                    self.join_gaps();
                }
                (gap.from..gap.to).for_each(|missing| self.window.unmark(missing));
                self.gaps.push(gap);
            }
        }
        self.window.mark(seq);
        self.window.next = seq + 1;
    }

    /// Makes one of the two neighbours that were noticed with the least time between them. Judging one early would count as
    /// lost what is still on its way: a burst that comes out of order has many gaps, all noticed at once.
    fn join_gaps(&mut self) {
        let apart = |first: &usize| self.gaps[first + 1].noticed.since(self.gaps[*first].noticed);
        let Some(first) = (0..self.gaps.len().saturating_sub(1)).min_by_key(apart) else { return };
        let second = self.gaps.remove(first + 1);
        let joined = &mut self.gaps[first];
        (joined.to, joined.noticed) = (second.to, joined.noticed.max(second.noticed));
    }

    /// Counts the runs of missing numbers inside a gap.
    fn lose(&mut self, gap: Gap) {
        let mut run = 0;
        for seq in gap.from..gap.to {
            if self.window.is_marked(seq) {
                self.count(run);
                run = 0;
            } else {
                run += 1;
            }
        }
        self.count(run);
    }

    fn count(&mut self, run: u64) {
        if Mutant::CountNoLosses.is_on() {
            return;
        }
        self.lost = self.lost.saturating_add(run);
        self.longest_run = self.longest_run.max(run);
        self.untold = [self.untold[0].saturating_add(run), self.untold[1].max(run)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const SETTLE: Span = Span(100);

    #[test]
    fn what_was_published_while_nobody_asked_is_not_lost() {
        let settle = Span::millis(100);
        let mut tally = Tally::new(0, true);
        (0..3).for_each(|seq| _ = tally.arrive(Time(seq), seq, settle));
        tally.resume();
        for seq in [5_000, 5_001, 5_003] {
            assert_eq!(tally.arrive(Time(10), seq, settle), Arrival::Fresh { reordered: false });
        }
        // What comes late of the time before is new, and what is missing since is lost.
        assert_eq!(tally.arrive(Time(11), 4_999, settle), Arrival::Fresh { reordered: true });
        tally.judge(Time(11) + settle, settle);
        assert_eq!((tally.received(), tally.lost(), tally.longest_run()), (7, 1, 1));
    }

    #[test]
    fn a_gap_that_is_filled_in_time_is_no_loss() {
        let mut tally = Tally::new(0, true);
        tally.arrive(Time(0), 0, SETTLE);
        tally.arrive(Time(1), 3, SETTLE);
        assert_eq!(tally.arrive(Time(2), 1, SETTLE), Arrival::Fresh { reordered: true });
        assert_eq!(tally.arrive(Time(3), 1, SETTLE), Arrival::Duplicate);
        assert_eq!(tally.arrive(Time(4), 2, SETTLE), Arrival::Fresh { reordered: true });
        tally.judge(Time(1_000), SETTLE);
        assert_eq!((tally.lost(), tally.received(), tally.duplicates()), (0, 4, 1));
    }

    #[test]
    fn a_gap_is_judged_when_its_time_is_over_and_not_before() {
        let mut tally = Tally::new(0, true);
        tally.arrive(Time(0), 5, SETTLE);
        tally.arrive(Time(50), 2, SETTLE);
        tally.judge(Time(99), SETTLE);
        assert_eq!(tally.lost(), 0);
        tally.judge(Time(100), SETTLE);
        assert_eq!((tally.lost(), tally.longest_run()), (4, 2), "0 1 and 3 4 are two runs");
    }

    #[test]
    fn a_subscriber_that_comes_later_misses_nothing_from_before_and_takes_it_once() {
        let mut tally = Tally::new(7, true);
        assert_eq!(tally.arrive(Time(0), 3, SETTLE), Arrival::Fresh { reordered: true });
        assert_eq!(tally.arrive(Time(0), 3, SETTLE), Arrival::Duplicate);
        tally.arrive(Time(0), 7, SETTLE);
        tally.close();
        assert_eq!(tally.lost(), 0);
    }

    /// A broker numbers what comes by other protocols, each reign from its own first number on.
    #[test]
    fn numbers_that_no_reign_has_given_are_not_lost() {
        let first = |epoch| contract::first_of_reign(contract::Epoch(epoch));
        let mut tally = Tally::new(first(1), true);
        tally.arrive(Time(0), first(1), SETTLE);
        for seq in [first(2), first(2) + 1, first(2) + 4, first(2) + 5] {
            assert_eq!(tally.arrive(Time(1), seq, SETTLE), Arrival::Fresh { reordered: false });
        }
        // What the old primary had on its way still comes, and the last of its reign is not known.
        assert_eq!(tally.arrive(Time(2), first(1) + 1, SETTLE), Arrival::Duplicate, "it is far behind");
        tally.judge(Time(1) + SETTLE, SETTLE);
        assert_eq!((tally.lost(), tally.longest_run()), (2, 2));
        // Of a reign of which the first are missing, those are.
        tally.arrive(Time(200), first(5) + 3, SETTLE);
        tally.close();
        assert_eq!((tally.lost(), tally.longest_run()), (5, 3));
        tally.finish(first(6) + 2);
        assert_eq!((tally.lost(), tally.longest_run()), (7, 3));
    }

    #[test]
    fn what_is_missing_at_the_end_is_lost() {
        let mut tally = Tally::new(0, true);
        tally.arrive(Time(0), 0, SETTLE);
        tally.finish(4);
        assert_eq!((tally.lost(), tally.longest_run()), (3, 3));
    }

    #[test]
    fn a_life_that_comes_again_brings_nothing_twice() {
        let mut tally = Tally::new(0, true);
        (0..3).for_each(|seq| _ = tally.arrive(Time(0), seq, SETTLE));
        tally.begin_anew(7, 8, 0);
        assert_eq!(tally.arrive(Time(1), 0, SETTLE), Arrival::Fresh { reordered: false });
        tally.begin_anew(8, 7, 0);
        assert_eq!(tally.arrive(Time(2), 1, SETTLE), Arrival::Duplicate);
        assert_eq!(tally.arrive(Time(2), 3, SETTLE), Arrival::Fresh { reordered: false });
        tally.begin_anew(7, 8, 0);
        assert_eq!(tally.arrive(Time(3), 0, SETTLE), Arrival::Duplicate);
        tally.begin_anew(8, 9, 0);
        assert_eq!(tally.arrive(Time(4), 0, SETTLE), Arrival::Fresh { reordered: false });
        assert_eq!((tally.received(), tally.duplicates(), tally.lost()), (6, 2, 0));
    }

    #[test]
    fn an_endless_gap_is_counted_at_once() {
        let mut tally = Tally::new(0, true);
        tally.arrive(Time(0), 0, SETTLE);
        tally.arrive(Time(1), 100_001, SETTLE);
        assert_eq!((tally.lost(), tally.longest_run()), (100_000, 100_000));
        assert_eq!(tally.arrive(Time(2), 100_000, SETTLE), Arrival::Duplicate);
    }

    #[test]
    fn more_gaps_than_are_kept_apart_may_still_be_filled() {
        let mut tally = Tally::new(0, true);
        let gaps = 3 * GAPS_MAX as u64;
        for seq in (0..gaps).map(|gap| gap * 4) {
            tally.arrive(Time(0), seq, SETTLE);
        }
        // Of three missing numbers in each gap, the second comes, and in the first gap the first as well.
        for seq in (0..gaps - 1).map(|gap| gap * 4 + 2).chain([1]) {
            assert_eq!(tally.arrive(Time(50), seq, SETTLE), Arrival::Fresh { reordered: true });
        }
        tally.judge(Time(99), SETTLE);
        assert_eq!(tally.lost(), 0, "their time is not over");
        tally.judge(Time(100), SETTLE);
        assert_eq!((tally.lost(), tally.longest_run()), (2 * (gaps - 1) - 1, 1));
    }

    #[test]
    fn gaps_that_share_an_entry_are_judged_one_by_one_when_the_window_moves_past_them() {
        let mut tally = Tally::new(0, true);
        let last = 2 * 3 * GAPS_MAX as u64;
        for seq in (0..=last).step_by(2) {
            tally.arrive(Time(0), seq, SETTLE);
        }
        // Only the first missing number, 1, is too old now; a gap of more than the rest of the window is new.
        tally.arrive(Time(1), 1 + WINDOW, SETTLE);
        assert_eq!((tally.lost(), tally.longest_run()), (1, 1));
        for seq in (3..last).step_by(2).chain(last + 1..=WINDOW) {
            assert_eq!(tally.arrive(Time(2), seq, SETTLE), Arrival::Fresh { reordered: true });
        }
        tally.close();
        assert_eq!((tally.lost(), tally.longest_run()), (1, 1));
    }

    #[test]
    fn numbers_that_are_not_used_are_no_losses_and_duplicates_are_still_told() {
        let mut tally = Tally::new(0, false);
        for seq in [5, 9, 5_000, 4_990] {
            assert_ne!(tally.arrive(Time(0), seq, SETTLE), Arrival::Duplicate, "number {seq}");
        }
        for seq in [5, 9, 5_000, 4_990] {
            assert_eq!(tally.arrive(Time(500), seq, SETTLE), Arrival::Duplicate, "number {seq}");
        }
        tally.finish(9_000);
        assert_eq!((tally.lost(), tally.longest_run(), tally.received()), (0, 0, 4));
    }

    proptest! {
        /// Against a set of all numbers ever seen, for disorder within the window.
        #[test]
        fn the_account_agrees_with_a_set(steps in prop::collection::vec((0_u64..12, 0_u64..300), 1..300)) {
            let mut tally = Tally::new(0, true);
            let mut seen = BTreeSet::new();
            let mut base = 0;
            let mut highest = 0;
            for (forward, back) in steps {
                base += forward;
                let seq = base.saturating_sub(back);
                let fresh = seen.insert(seq);
                let arrival = tally.arrive(Time(0), seq, SETTLE);
                prop_assert_eq!(arrival != Arrival::Duplicate, fresh, "number {}", seq);
                highest = highest.max(seq);
            }
            tally.finish(highest + 3);
            prop_assert_eq!(tally.received(), seen.len() as u64);
            prop_assert_eq!(tally.lost(), highest + 3 - seen.len() as u64);
            prop_assert!(tally.longest_run() >= 2);
        }
    }
}
