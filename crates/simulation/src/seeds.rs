//! Which seeds a test plays, and what is wrong in them.

use std::ops::Range;

/// So many from zero on, unless `VERGE_SEED` says which is the first, and `VERGE_SEEDS` how many.
pub fn seeds(usual: u64) -> Range<u64> {
    let said = |name: &str| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    let from = said("VERGE_SEED").unwrap_or(0);
    from..from.saturating_add(said("VERGE_SEEDS").unwrap_or(usual))
}

/// What is wrong in the first few seeds in which something is.
pub fn wrong_in<W>(seeds: Range<u64>, play: impl Fn(u64) -> Vec<W>) -> Vec<(u64, Vec<W>)> {
    seeds.map(|seed| (seed, play(seed))).filter(|(_, wrong)| !wrong.is_empty()).take(SHOWN_MAX).collect()
}

/// So many seeds are shown.
const SHOWN_MAX: usize = 5;
