//! When an event is true: formulas C1 to C3.
//!
//! The problem: a reading says something about a moment, and is worth less with every millisecond; a result made of several
//! readings is true only while all of them are, and means little if they were taken at different times. The idea: every
//! event carries the half-open interval in which it is true; a result has the intersection of what it is made of; and the
//! beginnings tell how far apart its parts are.
//!
//! Source: CPEP §2.3 and §2.4.3. There the interval is half-open but a violation is reported only after its end; here an
//! event is invalid from its end on.

use contract::{Span, Time};

/// The interval in which an event is true. It may be empty, and the event is then never valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Validity {
    /// `tb`: from when on.
    pub begins: Time,
    /// `te`: until when, excluded.
    pub ends: Time,
}

impl Validity {
    /// Of a reading that was created at a time and is true for a span. A span that is forever never ends.
    pub fn of(created: Time, span: Span) -> Validity {
        Validity { begins: created, ends: created + span }
    }

    /// **C1**: whether the event is true at this time.
    pub fn holds(&self, now: Time) -> bool {
        self.begins <= now && now < self.ends
    }

    /// Whether its time is over, or never comes. An event whose time has not come yet is not over.
    pub fn is_over(&self, now: Time) -> bool {
        now >= self.ends || self.begins >= self.ends
    }

    /// **C2**: of what is made of both.
    #[must_use]
    pub fn and(self, other: Validity) -> Validity {
        Validity { begins: self.begins.max(other.begins), ends: self.ends.min(other.ends) }
    }

    /// **C3**: how far apart the beginnings of several events are. Zero of fewer than two.
    pub fn spread(beginnings: impl IntoIterator<Item = Time>) -> Span {
        let mut beginnings = beginnings.into_iter();
        let Some(first) = beginnings.next() else { return Span::ZERO };
        let (oldest, newest) =
            beginnings.fold((first, first), |(oldest, newest), time| (oldest.min(time), newest.max(time)));
        newest.since(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn between(begins: u64, ends: u64) -> Validity {
        Validity { begins: Time(begins), ends: Time(ends) }
    }

    #[test]
    fn a_result_is_true_while_all_that_it_is_made_of_is() {
        let (s1, s2, s3) = (between(2, 7), between(1, 5), between(3, 6));
        let (o1, o2) = (s1, s2.and(s3));
        assert_eq!(o2, between(3, 5));
        let o6 = o1.and(o2);
        assert_eq!(o6, between(3, 5));
        assert!(o6.holds(Time(4)) && !o6.holds(Time(5)), "the end is excluded");
    }

    #[test]
    fn parts_that_were_never_true_together_make_something_that_never_is() {
        let never = between(0, 10).and(between(12, 20));
        assert_eq!(never, between(12, 10));
        assert!((0..30).all(|now| !never.holds(Time(now)) && never.is_over(Time(now))));
    }

    #[test]
    fn what_comes_from_the_near_future_is_not_over() {
        let early = between(10, 20);
        assert!(!early.holds(Time(9)) && !early.is_over(Time(9)) && early.is_over(Time(20)));
        assert!(!Validity::of(Time(1), Span::FOREVER).is_over(Time(u64::MAX - 1)));
    }

    #[test]
    fn the_spread_is_from_the_oldest_to_the_newest() {
        assert_eq!(Validity::spread([Time(2), Time(3)]), Span(1));
        assert_eq!(Validity::spread([Time(2), Time(1), Time(3)]), Span(2));
        assert_eq!(Validity::spread([Time(7)]), Span::ZERO);
        assert_eq!(Validity::spread([]), Span::ZERO);
    }

    proptest! {
        /// In whatever order a graph puts readings together, the result is true exactly when every reading is.
        #[test]
        fn the_order_of_putting_together_does_not_matter(
            parts in prop::collection::vec((0_u64..50, 0_u64..50), 1..6), turn in 0_usize..6, now in 0_u64..60,
        ) {
            let parts: Vec<Validity> = parts.into_iter().map(|(begins, ends)| between(begins, ends)).collect();
            let together = |parts: &[Validity]| parts.iter().copied().reduce(Validity::and);
            let mut turned = parts.clone();
            turned.rotate_left(turn % parts.len());
            prop_assert_eq!(together(&parts), together(&turned));
            let holds = together(&parts).is_some_and(|all| all.holds(Time(now)));
            prop_assert_eq!(holds, parts.iter().all(|part| part.holds(Time(now))));
        }
    }
}
