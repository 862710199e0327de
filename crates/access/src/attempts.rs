//! Counting what somebody does too often, for many at once: failed logins by address, or by address and name.

use crate::rate::Rate;
use contract::{Span, Time};
use std::collections::BTreeMap;

/// A bucket for each of many, with a limit on how many are remembered.
///
/// Only who failed is remembered, and only until the bucket is full again. Where more fail than can be remembered, those are
/// forgotten first who failed least: many strangers cannot make this forget one that keeps trying.
#[derive(Clone, Debug)]
pub struct Attempts<K> {
    rates: BTreeMap<K, Rate>,
    per_minute: u64,
    max: usize,
}

impl<K: Ord + Clone> Attempts<K> {
    /// Allows `per_minute` attempts of each, with as many at once, and remembers `max` of them.
    pub fn new(per_minute: u64, max: usize) -> Attempts<K> {
        Attempts { rates: BTreeMap::new(), per_minute, max: max.max(1) }
    }

    /// Whether another attempt may be made now, or how long to wait. To be asked before an attempt.
    pub fn check(&mut self, now: Time, who: &K) -> Result<(), Span> {
        let Some(rate) = self.rates.get_mut(who) else { return Ok(()) };
        let wait = rate.wait(now, 1);
        if wait > Span::ZERO { Err(wait) } else { Ok(()) }
    }

    /// An attempt failed.
    pub fn failed(&mut self, now: Time, who: K) {
        if !self.rates.contains_key(&who) && self.rates.len() >= self.max {
            self.forget(now);
        }
        let per_minute = self.per_minute;
        let rate = self.rates.entry(who).or_insert_with(|| Rate::per_minute(per_minute, now));
        // Attempts may have been under way at the same time: what was let through and is too much is owed.
        if rate.take(now, 1).is_err() {
            rate.owe(1);
        }
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.rates.len()
    }

    /// Whether nobody is remembered.
    pub fn is_empty(&self) -> bool {
        self.rates.is_empty()
    }

    fn forget(&mut self, now: Time) {
        self.rates.retain(|_, rate| !rate.is_full(now));
        if self.rates.len() >= self.max {
            let least = self.rates.iter_mut().map(|(who, rate)| (rate.missing(now), who)).min();
            if let Some(who) = least.map(|(_, who)| who.clone()) {
                self.rates.remove(&who);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_passwords_at_rate_are_stopped_and_others_are_not() {
        let mut attempts = Attempts::new(6, 100);
        let mut now = Time(1);
        let mut let_through = 0;
        // Ten tries a second, for a minute.
        for _ in 0..600 {
            if attempts.check(now, &"10.0.0.9").is_ok() {
                let_through += 1;
                attempts.failed(now, "10.0.0.9");
            }
            assert!(attempts.check(now, &"10.0.0.1").is_ok());
            now = now + Span::millis(100);
        }
        assert_eq!(let_through, 6 + 5, "six at once, and one each ten seconds");
        assert!(attempts.check(now + Span::secs(10), &"10.0.0.9").is_ok());
    }

    #[test]
    fn many_strangers_do_not_make_it_forget_who_keeps_trying() {
        let mut attempts = Attempts::new(5, 50);
        let now = Time(1);
        (0..5).for_each(|_| attempts.failed(now, 0));
        for stranger in 1..10_000 {
            attempts.failed(now, stranger);
            assert!(attempts.len() <= 50);
        }
        assert!(attempts.check(now, &0).is_err());
    }

    #[test]
    fn who_has_waited_is_forgotten() {
        let mut attempts = Attempts::new(5, 2);
        attempts.failed(Time(1), "a");
        attempts.failed(Time(1), "b");
        attempts.failed(Time(1) + Span::secs(120), "c");
        assert_eq!(attempts.len(), 1);
        assert!(!attempts.is_empty());
    }
}
