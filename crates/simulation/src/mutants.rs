//! The proof that checkers can fail: a fault that is built in on purpose must be noticed.

use contract::Mutant;
use std::ops::Range;

/// Of faults, each with the checker that must notice it, the weather and the seeds for it: what was not noticed, in words.
/// `switch` builds a fault in or mends it; `broken` plays a seed and names the checker that noticed something.
pub fn unnoticed<W: Copy>(
    mutants: &[(Mutant, &'static str, W, Range<u64>)],
    switch: impl Fn(Option<Mutant>),
    broken: impl Fn(u64, W) -> Option<&'static str>,
) -> Vec<String> {
    let missed = mutants.iter().filter_map(|(mutant, checker, weather, seeds)| {
        switch(Some(*mutant));
        let first = seeds.clone().find(|seed| broken(*seed, *weather) == Some(checker));
        switch(None);
        println!("{mutant:?}: {checker} at seed {first:?}");
        first.is_none().then(|| format!("{checker} did not notice {mutant:?} within the seeds {seeds:?}"))
    });
    missed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_fault_that_shows_too_late_or_elsewhere_is_missed() {
        let built_in = Cell::new(None);
        // Each fault shows at the third seed, whoever notices it.
        let broken =
            |seed, ()| (seed == 2 && built_in.get() == Some(Mutant::CopyNothing)).then_some("losses");
        let mutants = [
            (Mutant::CopyNothing, "losses", (), 0..3),
            (Mutant::CopyNothing, "losses", (), 0..2),
            (Mutant::CopyNothing, "edf", (), 0..3),
            (Mutant::CopyLate, "losses", (), 0..3),
        ];
        let missed = unnoticed(&mutants, |mutant| built_in.set(mutant), broken);
        assert_eq!(missed.len(), 3, "{missed:?}");
        assert_eq!(built_in.get(), None);
    }
}
