//! Lazy replication: which messages of a stream are copied, and at which last safe moment.
//!
//! The problem: a copy that leaves as soon as it can is often made in vain, because its message is dispatched long before
//! a crash could lose it. The idea: wait until the copy has just the time left that sending takes, give it up if the
//! message has been dispatched by then, and where losses are tolerated, copy only every `M`-th message.
//!
//! Source: ARREC §4.4 (lemmas 3 to 6). Its lemma 5 allows `M = 2` for `L = 0`, which loses a message
//! (`timing/tests.rs: lemma_5_would_lose_a_message_where_none_is_tolerated`); here `M` never exceeds `max(1, L + 1)` and
//! formula R4 alone decides.

use crate::timing::{self, Delays};
use crate::{Contract, Loss, Mutant, Span};

/// Which messages of a stream are copied, if they are not dispatched first. More copies give each more time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Every {
    /// All: `M = 1`. The latest deadlines, so that most copies turn out to be needless.
    #[default]
    All,
    /// Every `L`-th: `M = max(1, L)`.
    Loss,
    /// As few as can be: `M = L + 1` where `L ≥ 1` and `N > 0`, otherwise as [`Every::Loss`].
    Max,
}

impl Every {
    /// ARREC, A1: the `M` that the policy wants for a contract, before time is looked at.
    pub fn wanted(self, contract: &Contract) -> u32 {
        let Loss::AtMost(losses) = contract.loss else { return 1 };
        match self {
            Every::All => 1,
            Every::Max if losses >= 1 && contract.retain > 0 => losses.saturating_add(1),
            Every::Loss | Every::Max => losses.max(1),
        }
    }
}

/// How a deployment replicates lazily.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lazy {
    /// Which messages.
    pub every: Every,
    /// `W`: when a copy leaves, those that would have to leave within this time go along.
    pub window: Span,
    /// `C_r`: a copy begins so long before its deadline. It covers the longest blocking and all copies that may become
    /// due at once; admission sees to that.
    pub budget: Span,
}

impl Default for Lazy {
    fn default() -> Lazy {
        Lazy { every: Every::All, window: Span::millis(40), budget: Span::millis(40) }
    }
}

/// When a topic's messages are copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LazyPlan {
    /// `M`: one in so many messages is marked.
    pub every: u32,
    /// `D^r'(M) - C_r`: from creation until a marked message that is not dispatched yet is copied.
    pub start: Span,
}

impl Lazy {
    /// ARREC, A1: the `M` of the policy, lowered until `D^r(M) > C_r`. `None` where not even `M = 1` leaves the time;
    /// such topics are copied eagerly.
    pub fn plan(&self, contract: &Contract, publisher_to_broker: Span, delays: &Delays) -> Option<LazyPlan> {
        let spare = timing::replication_deadline(contract, publisher_to_broker, delays) - self.budget;
        if spare <= Span::ZERO || spare.is_forever() {
            return None;
        }
        // D^r(M) > C_r if and only if (M - 1)·T is below what is to spare.
        let most = spare.as_nanos_u64().div_ceil(contract.period.as_nanos_u64().max(1));
        let every = self.every.wanted(contract).min(u32::try_from(most).unwrap_or(u32::MAX));
        let pseudo = timing::replication_deadline_of_every(contract, every, Span::ZERO, delays);
        let start =
            if Mutant::BeginCopiesLate.is_on() { pseudo + delays.failover } else { pseudo - self.budget };
        Some(LazyPlan { every, start })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn delays() -> Delays {
        Delays {
            failover: Span::millis(30),
            broker_to_broker: Span::micros(50),
            publisher_to_broker: Span::micros(250),
            ..Delays::default()
        }
    }

    fn lazy(every: Every) -> Lazy {
        Lazy { every, window: Span::millis(40), budget: Span::millis(1) }
    }

    fn plan(every: Every, losses: u32, retain: u32, delays: &Delays) -> Option<u32> {
        let contract = Contract::every(Span::millis(50)).tolerate(losses).retain(retain);
        lazy(every).plan(&contract, delays.publisher_to_broker, delays).map(|plan| plan.every)
    }

    #[test]
    fn the_policies_choose_as_in_section_5() {
        assert_eq!(plan(Every::All, 3, 0, &delays()), Some(1));
        assert_eq!(plan(Every::Loss, 3, 0, &delays()), Some(3));
        assert_eq!(plan(Every::Max, 3, 0, &delays()), Some(3), "nothing is retained");
        assert_eq!(plan(Every::Max, 3, 1, &delays()), Some(4), "lemma 5, where it is right");
        assert_eq!(plan(Every::Max, 1, 1, &delays()), Some(2));
        assert_eq!(
            plan(Every::Max, 0, 2, &delays()),
            Some(1),
            "lemma 5 must not be followed where nothing may be lost"
        );
    }

    #[test]
    fn m_is_lowered_until_there_is_time() {
        let slow = Delays { failover: Span::millis(50), ..delays() };
        assert_eq!(plan(Every::Loss, 3, 0, &slow), Some(2), "M = 3 would leave -0.3 ms");
        assert_eq!(plan(Every::Loss, 0, 1, &slow), None, "category 1 needs N = 2");
        assert_eq!(plan(Every::Loss, 0, 2, &slow), Some(1));
    }

    #[test]
    fn a_copy_starts_as_in_the_worked_timer() {
        let start = |period, losses| {
            let contract = Contract::every(Span::millis(period)).tolerate(losses).retain(0);
            let plan = lazy(Every::All).plan(&contract, delays().publisher_to_broker, &delays());
            plan.map(|plan| plan.start - delays().publisher_to_broker)
        };
        assert_eq!(start(50, 3), Some(Span::micros(118_700)));
        assert_eq!(start(100, 3), Some(Span::micros(268_700)));
    }

    #[test]
    fn best_effort_and_rare_topics_are_not_copied_lazily() {
        let upstream = delays().publisher_to_broker;
        let rare = Contract::every(Span::FOREVER).deadline(Span::millis(10)).retain(1);
        assert_eq!(lazy(Every::Max).plan(&rare, upstream, &delays()), None);
        assert_eq!(lazy(Every::Max).plan(&rare.best_effort(), upstream, &delays()), None);
    }

    proptest! {
        /// The closed form agrees with lowering step by step.
        #[test]
        fn m_is_the_largest_that_leaves_time(
            period in 1_i64..100, losses in 0_u32..6, retain in 0_u32..6, failover in 0_i64..300, budget in 0_i64..50,
        ) {
            let delays = Delays { failover: Span(failover), broker_to_broker: Span(2), publisher_to_broker: Span(3), ..Delays::default() };
            let contract = Contract::every(Span(period)).tolerate(losses).retain(retain);
            for every in [Every::All, Every::Loss, Every::Max] {
                let lazy = Lazy { every, window: Span::ZERO, budget: Span(budget) };
                let leaves_time = |m: &u32| {
                    timing::replication_deadline_of_every(&contract, *m, Span(3), &delays) > lazy.budget
                };
                let stepwise = (1..=every.wanted(&contract)).rev().find(leaves_time);
                prop_assert_eq!(lazy.plan(&contract, Span(3), &delays).map(|plan| plan.every), stepwise);
            }
        }
    }
}
