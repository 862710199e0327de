//! How much of something may happen in a time.

use contract::{Span, Time};

/// A bucket that fills at a steady rate, and from which each message, byte or attempt takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// How many flow in ...
    amount: u64,
    /// ... in so many nanoseconds.
    per: u64,
    /// How many it holds.
    burst: u64,
    /// What is in it, in parts of `1 / per`, so that nothing is lost by rounding. Below zero after something that was larger
    /// than the bucket.
    stock: i128,
    /// When that was.
    at: Time,
}

impl Rate {
    /// A full bucket of `burst`, into which `amount` flow per `per`. All are taken as one at least.
    pub fn new(amount: u64, per: Span, burst: u64, now: Time) -> Rate {
        let (per, burst) = (per.as_nanos_u64().max(1), burst.max(1));
        Rate { amount: amount.max(1), per, burst, stock: i128::from(burst) * i128::from(per), at: now }
    }

    /// So many a second, with as many at once.
    pub fn per_second(amount: u64, now: Time) -> Rate {
        Rate::new(amount, Span::secs(1), amount, now)
    }

    /// So many a minute, with as many at once.
    pub fn per_minute(amount: u64, now: Time) -> Rate {
        Rate::new(amount, Span::secs(60), amount, now)
    }

    /// Takes `amount` out, or says how long to wait until that can be done. What is larger than the bucket is let through
    /// when it is full, and owed afterwards, so that a large message is slow but not impossible.
    pub fn take(&mut self, now: Time, amount: u64) -> Result<(), Span> {
        let wait = self.wait(now, amount);
        if wait > Span::ZERO {
            return Err(wait);
        }
        self.stock = self.stock.saturating_sub(i128::from(amount).saturating_mul(i128::from(self.per)));
        Ok(())
    }

    /// Takes `amount` out whether it is there or not. No more is owed than the bucket holds.
    pub(crate) fn owe(&mut self, amount: u64) {
        let taken = i128::from(amount).saturating_mul(i128::from(self.per));
        self.stock = self.stock.saturating_sub(taken).max(-self.full());
    }

    /// How long to wait until `amount` can be taken; zero if it can be taken now.
    pub fn wait(&mut self, now: Time, amount: u64) -> Span {
        self.fill(now);
        let needed = i128::from(amount.min(self.burst)) * i128::from(self.per);
        let missing = needed.saturating_sub(self.stock);
        if missing <= 0 {
            return Span::ZERO;
        }
        let flow = i128::from(self.amount);
        let nanos = missing / flow + i128::from(missing % flow != 0);
        Span(i64::try_from(nanos).unwrap_or(i64::MAX))
    }

    /// Whether it is as if nothing had ever been taken.
    pub fn is_full(&mut self, now: Time) -> bool {
        self.fill(now);
        self.stock == self.full()
    }

    /// The share of the bucket that is missing, for comparing buckets of one kind.
    pub(crate) fn missing(&mut self, now: Time) -> i128 {
        self.fill(now);
        self.full() - self.stock
    }

    fn full(&self) -> i128 {
        i128::from(self.burst) * i128::from(self.per)
    }

    /// A clock that went back adds nothing, and counts on from there.
    fn fill(&mut self, now: Time) {
        let passed = i128::from(now.0.saturating_sub(self.at.0));
        let inflow = passed.saturating_mul(i128::from(self.amount));
        self.stock = self.stock.saturating_add(inflow).min(self.full());
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn so_many_at_once_and_then_at_the_rate() {
        let mut now = Time(5);
        let mut rate = Rate::per_second(10, now);
        assert!((0..10).all(|_| rate.take(now, 1).is_ok()));
        assert_eq!(rate.take(now, 1), Err(Span::millis(100)));
        now = now + Span::millis(100);
        assert_eq!(rate.take(now, 1), Ok(()));
        assert_eq!(rate.take(now, 2), Err(Span::millis(200)));
        assert!(!rate.is_full(now) && rate.is_full(now + Span::secs(1)));
    }

    #[test]
    fn what_is_larger_than_the_bucket_is_owed() {
        let now = Time(0);
        let mut rate = Rate::per_second(100, now);
        assert_eq!(rate.take(now, 1000), Ok(()));
        assert_eq!(rate.take(now, 1), Err(Span::nanos(9_010_000_000)));
    }

    #[test]
    fn a_clock_that_goes_back_gives_nothing_and_stops_nothing() {
        let mut rate = Rate::per_second(1, Time(10_000_000_000));
        assert_eq!(rate.take(Time(10_000_000_000), 1), Ok(()));
        assert!(rate.take(Time(1_000_000_000), 1).is_err());
        assert_eq!(rate.take(Time(2_000_000_000), 1), Ok(()));
    }

    proptest! {
        #[test]
        fn never_more_than_the_bucket_and_what_flows_in(
            amount in 1u64..1000, burst in 1u64..100, steps in prop::collection::vec((0u64..50_000_000, 1u64..20), 1..200)
        ) {
            let mut now = Time(0);
            let mut rate = Rate::new(amount, Span::secs(1), burst, now);
            let mut taken = 0u64;
            for (passed, wanted) in steps {
                now = Time(now.0 + passed);
                match rate.take(now, wanted) {
                    Ok(()) => taken += wanted,
                    Err(wait) => {
                        let mut early = rate;
                        prop_assert!(early.take(now + (wait - Span(1)), wanted).is_err());
                        let mut then = rate;
                        prop_assert!(then.take(now + wait, wanted).is_ok());
                    }
                }
                // One thing larger than the bucket may be owed.
                let inflow = u128::from(now.0) * u128::from(amount) / 1_000_000_000;
                prop_assert!(u128::from(taken) <= inflow + u128::from(burst) + 20);
            }
        }
    }
}
