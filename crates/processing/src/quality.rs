//! Which of two operators serves a message, so that results come within a time.
//!
//! The problem: the better of two operators takes longer, and how long it takes depends on its messages and on its host; a result that comes too late is
//! worth nothing. The idea: it is measured what both take, and the better one serves a message only where it and all that wait behind it are done in
//! time, those behind it by the other one.
//!
//! The invariant: let a message have waited for w, let n others wait behind it, and let no run take longer than was measured, d and c. The better one is
//! chosen only if w + d + n·c is within the budget. As nobody behind it has waited for longer than w, the k-th of them is done within w + d + k·c, served
//! by the other one. So no choice of the better one has any message miss the budget that was there by then and could have kept it.

use contract::{Span, Time};
use std::collections::VecDeque;

/// So many runs are remembered of each.
const RUNS: usize = 100;
/// And of the better one for how long: after that it is tried again, if it was too slow.
const REMEMBERED_FOR: Span = Span::secs(60);
/// The better one serves again where so much of the budget is enough, in hundredths.
const ROOM: i64 = 80;

/// One of two operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Serves {
    /// The better one.
    Dearer,
    /// The one that takes less time.
    Cheaper,
}

/// How long an operator takes.
#[derive(Clone, Default, Debug)]
struct Costs(VecDeque<(Time, Span)>);

impl Costs {
    fn note(&mut self, now: Time, took: Span) {
        if self.0.len() >= RUNS {
            self.0.pop_front();
        }
        self.0.push_back((now, took));
    }

    fn forget(&mut self, now: Time) {
        while self.0.front().is_some_and(|(at, _)| now.since(*at) >= REMEMBERED_FOR) {
            self.0.pop_front();
        }
    }

    /// What 99 of 100 runs take at most; nothing, where none is known.
    fn p99(&self) -> Span {
        let (mut most, mut second) = (Span::ZERO, Span::ZERO);
        for (_, took) in &self.0 {
            if *took > most {
                (most, second) = (*took, most);
            } else {
                second = second.max(*took);
            }
        }
        if self.0.len() >= RUNS { second } else { most }
    }
}

/// Chooses between two operators.
#[derive(Clone, Debug)]
pub struct Quality {
    budget: Span,
    dearer: Costs,
    cheaper: Costs,
    /// Whether the cheaper one has served last.
    is_short: bool,
}

impl Quality {
    /// From the arrival of a message to its result it may take so long.
    pub fn new(budget: Span) -> Quality {
        Quality { budget, dearer: Costs::default(), cheaper: Costs::default(), is_short: false }
    }

    /// Who serves a message that has waited for so long, while so many others wait behind it that have not waited for longer.
    pub fn choose(&mut self, now: Time, waited: Span, behind: usize) -> Serves {
        self.dearer.forget(now);
        if behind > 0 && self.cheaper.0.is_empty() {
            // How long the others would take is not known yet.
            return Serves::Cheaper;
        }
        let behind = i64::try_from(behind).unwrap_or(i64::MAX);
        let rest = self.cheaper.p99().0.saturating_mul(behind);
        let predicted = waited.0.saturating_add(self.dearer.p99().0).saturating_add(rest);
        let within = if self.is_short { self.budget.0.saturating_mul(ROOM) / 100 } else { self.budget.0 };
        self.is_short = predicted > within;
        if self.is_short { Serves::Cheaper } else { Serves::Dearer }
    }

    /// What a run has taken, with what was done with its result.
    pub fn note(&mut self, now: Time, who: Serves, took: Span) {
        match who {
            Serves::Dearer => {
                self.dearer.forget(now);
                self.dearer.note(now, took);
            }
            Serves::Cheaper => self.cheaper.note(now, took),
        }
    }

    /// What 99 of 100 runs of each take at most: of the dearer one, and of the cheaper one.
    pub fn p99(&self) -> (Span, Span) {
        (self.dearer.p99(), self.cheaper.p99())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A message that was served: when it came, when that began and ended, and by whom.
    #[derive(Clone, Copy, Debug)]
    struct Served {
        came: i64,
        began: i64,
        ended: i64,
        by: Serves,
        /// Of how long the better one takes nothing was known.
        is_trial: bool,
    }

    const START: i64 = 1_000_000;

    /// Serves messages one after the other, all runs of one operator being as long. From that number on, if there is any, the dearer one serves one
    /// message, whatever is chosen, and the cheaper one the rest.
    fn serve(
        arrivals: &[i64],
        (budget, dearer, cheaper): (i64, i64, i64),
        (have_run, forced): (bool, Option<usize>),
    ) -> Vec<Served> {
        let mut quality = Quality::new(Span(budget));
        if have_run {
            quality.note(Time(1), Serves::Dearer, Span(dearer));
            quality.note(Time(1), Serves::Cheaper, Span(cheaper));
        }
        let (mut free, mut served) = (0, Vec::new());
        for (number, came) in arrivals.iter().copied().enumerate() {
            let began = free.max(came);
            let behind = arrivals[number + 1..].iter().filter(|other| **other <= began).count();
            let now = Time(u64::try_from(START + began).unwrap());
            let chosen = quality.choose(now, Span(began - came), behind);
            let by = match forced {
                Some(forced) if number == forced => Serves::Dearer,
                Some(forced) if number > forced => Serves::Cheaper,
                _ => chosen,
            };
            let is_trial = quality.dearer.0.is_empty() && by == Serves::Dearer;
            let took = if by == Serves::Dearer { dearer } else { cheaper };
            let ended = began + took;
            quality.note(Time(u64::try_from(START + ended).unwrap()), by, Span(took));
            served.push(Served { came, began, ended, by, is_trial });
            free = ended;
        }
        served
    }

    const MINUTE: i64 = 60_000_000_000;

    fn worlds() -> impl Strategy<Value = (Vec<i64>, (i64, i64, i64))> {
        let gaps = prop::collection::vec(
            prop_oneof![3 => Just(0), 2 => 0..40_i64, 1 => 40..400_i64, 1 => Just(MINUTE)],
            1..40,
        );
        let arrivals = gaps.prop_map(|gaps| {
            let mut at = 0;
            let arrive = |gap: i64| {
                at += gap;
                at
            };
            gaps.into_iter().map(arrive).collect::<Vec<i64>>()
        });
        (arrivals, (20..300_i64, 5..200_i64)).prop_flat_map(|(arrivals, (budget, dearer))| {
            (Just(arrivals), (Just(budget), Just(dearer), 1..=dearer))
        })
    }

    proptest! {
        /// Enough: who misses the budget was not made to by a run of the dearer one that began while it waited, nor was itself served by it.
        #[test]
        fn nobody_misses_the_budget_who_was_there_when_the_dearer_one_was_chosen((arrivals, costs) in worlds(), have_run: bool) {
            let served = serve(&arrivals, costs, (have_run, None));
            for missed in served.iter().filter(|served| served.ended - served.came > costs.0) {
                prop_assert!(missed.by == Serves::Cheaper || missed.is_trial);
                let made_to = |other: &&Served| {
                    other.by == Serves::Dearer && !other.is_trial && other.began >= missed.came && other.began < missed.began
                };
                prop_assert!(!served.iter().any(|other| made_to(&other)), "{:?} of {:?}", missed, served);
            }
        }

        /// Tight: where the cheaper one was chosen, and not since there has to be some room, the dearer one would have had somebody miss the budget if all had come at once.
        #[test]
        fn the_dearer_one_is_refused_only_where_somebody_would_miss_the_budget(
            count in 1..12_usize,
            (budget, dearer, cheaper) in (20..300_i64, 5..200_i64, 1..20_i64),
        ) {
            let cheaper = cheaper.min(dearer);
            let arrivals = vec![0; count];
            let costs = (budget, dearer, cheaper);
            let served = serve(&arrivals, costs, (true, None));
            if let Some(first) = served.iter().position(|served| served.by == Serves::Cheaper) {
                let forced = serve(&arrivals, costs, (true, Some(first)));
                prop_assert!(forced.iter().any(|served| served.ended - served.came > budget), "{:?}", forced);
            }
        }
    }

    #[test]
    fn the_dearer_one_comes_back_where_there_is_room_and_after_a_minute() {
        let mut quality = Quality::new(Span::millis(100));
        let at = |millis: u64| Time(millis * 1_000_000);
        assert_eq!(quality.choose(at(0), Span::ZERO, 0), Serves::Dearer, "it is tried first");
        quality.note(at(70), Serves::Dearer, Span::millis(70));
        assert_eq!(quality.choose(at(70), Span::millis(31), 0), Serves::Cheaper);
        quality.note(at(71), Serves::Cheaper, Span::millis(1));
        assert_eq!(quality.choose(at(71), Span::millis(20), 0), Serves::Cheaper, "there is no fifth left");
        assert_eq!(quality.choose(at(72), Span::millis(10), 0), Serves::Dearer);
        quality.note(at(400), Serves::Dearer, Span::millis(300));
        for millis in [400, 10_000, 60_000] {
            assert_eq!(quality.choose(at(millis), Span::ZERO, 0), Serves::Cheaper);
        }
        assert_eq!(quality.choose(at(60_400), Span::ZERO, 0), Serves::Dearer, "it may be faster by now");
    }

    #[test]
    fn one_run_of_a_hundred_does_not_count() {
        let mut costs = Costs::default();
        costs.note(Time(1), Span::millis(50));
        assert_eq!(costs.p99(), Span::millis(50));
        (0..99).for_each(|_| costs.note(Time(2), Span::millis(2)));
        assert_eq!(costs.p99(), Span::millis(2));
        costs.note(Time(3), Span::millis(50));
        assert_eq!(costs.p99(), Span::millis(2), "the first one is forgotten");
    }
}
