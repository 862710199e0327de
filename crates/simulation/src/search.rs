//! Making a failing scenario smaller.

use std::fmt;

/// The smallest scenario so far, and what came of it. A change is kept if the scenario still breaks what it broke.
pub struct Search<S, O, B> {
    best: S,
    outcome: O,
    /// So many more runs may be spent.
    runs: usize,
    breaks: B,
}

impl<S: Clone + PartialEq, O, B: Fn(&S) -> Option<O>> Search<S, O, B> {
    /// From a scenario with its outcome. `breaks` gives the outcome of another one if that breaks the same; it is asked so often.
    pub fn new(scenario: S, outcome: O, runs: usize, breaks: B) -> Search<S, O, B> {
        Search { best: scenario, outcome, runs, breaks }
    }

    /// The smallest scenario so far.
    pub fn best(&self) -> &S {
        &self.best
    }

    /// Makes attempts again and again until none of them is kept. The smallest scenario with its outcome.
    pub fn until_nothing_helps(mut self, attempts: impl Fn(&mut Self)) -> (S, O) {
        loop {
            let before = self.best.clone();
            attempts(&mut self);
            if self.best == before || self.runs == 0 {
                return (self.best, self.outcome);
            }
        }
    }

    /// Keeps a change if the same is still broken.
    pub fn attempt(&mut self, change: impl Fn(&mut S)) {
        let mut candidate = self.best.clone();
        change(&mut candidate);
        if candidate == self.best || self.runs == 0 {
            return;
        }
        self.runs -= 1;
        if let Some(outcome) = (self.breaks)(&candidate) {
            (self.best, self.outcome) = (candidate, outcome);
        }
    }

    /// Leaves out parts of a list: halves first, then smaller pieces. So many parts stay at least.
    pub fn drop_parts<T>(&mut self, least: usize, list: impl Fn(&mut S) -> &mut Vec<T>) {
        let mut piece = list(&mut self.best).len();
        while piece > 0 {
            let mut from = 0;
            while from < list(&mut self.best).len() {
                let before = list(&mut self.best).len();
                self.attempt(|scenario| {
                    let parts = list(scenario);
                    let to = (from + piece).min(parts.len());
                    if parts.len() - (to - from) >= least {
                        parts.drain(from..to);
                    }
                });
                if list(&mut self.best).len() == before {
                    from += piece;
                }
            }
            piece /= 2;
        }
    }
}

impl<S: fmt::Debug, O: fmt::Debug, B> fmt::Debug for Search<S, O, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Search { best, outcome, runs, breaks: _ } = self;
        f.debug_struct("Search").field("best", best).field("outcome", outcome).field("runs", runs).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Breaks while 3 and 40 are in it; the outcome is how many are.
    fn both(parts: &[u32]) -> Option<usize> {
        (parts.contains(&3) && parts.contains(&40)).then_some(parts.len())
    }

    #[test]
    fn what_matters_stays_and_nothing_else() {
        let all: Vec<u32> = (0..64).collect();
        let search = Search::new(all, 64, 1_000, |parts: &Vec<u32>| both(parts));
        let smallest = search.until_nothing_helps(|search| search.drop_parts(0, |parts| parts));
        assert_eq!(smallest, (vec![3, 40], 2));
    }

    #[test]
    fn so_many_parts_stay_at_least() {
        let search = Search::new(vec![1, 2, 3], (), 1_000, |_: &Vec<u32>| Some(()));
        let (smallest, ()) = search.until_nothing_helps(|search| search.drop_parts(2, |parts| parts));
        assert_eq!(smallest.len(), 2);
    }

    #[test]
    fn no_more_runs_are_spent_than_may_be() {
        let runs = Cell::new(0);
        let breaks = |parts: &Vec<u32>| {
            runs.set(runs.get() + 1);
            both(parts)
        };
        let search = Search::new((0..64).collect(), 64, 7, breaks);
        let (smallest, count) = search.until_nothing_helps(|search| search.drop_parts(0, |parts| parts));
        assert_eq!(runs.get(), 7);
        assert_eq!(both(&smallest), Some(count));
    }
}
