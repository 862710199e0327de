use super::*;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const PACE: u64 = 20;
const BUDGET: Span = Span::millis(1);

/// A run that never ends, on an invented processor.
struct Endless {
    meter: Meter,
    /// What it has worked.
    now: Arc<AtomicU64>,
    /// What others had the processor meanwhile.
    away: Arc<AtomicU64>,
    /// How often each clock was asked: the wall's, and the processor's.
    asked: [Arc<AtomicU64>; 2],
}

impl Endless {
    fn new() -> Endless {
        let (now, away, asked) =
            (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default(), <[Arc<AtomicU64>; 2]>::default());
        let clock = |parts: Vec<Arc<AtomicU64>>, asked: &Arc<AtomicU64>| {
            let asked = Arc::clone(asked);
            Arc::new(move || {
                asked.fetch_add(1, Relaxed);
                Time(1_000 + parts.iter().map(|part| part.load(Relaxed)).sum::<u64>())
            })
        };
        let wall = clock(vec![Arc::clone(&now), Arc::clone(&away)], &asked[0]);
        let worked = clock(vec![Arc::clone(&now)], &asked[1]);
        Endless { meter: Meter::new(Clock { wall, worked }, PACE), now, away, asked }
    }

    fn asked(&self) -> [u64; 2] {
        [0, 1].map(|clock| self.asked[clock].load(Relaxed))
    }

    /// Burns slices, of which a microsecond takes so much fuel as is said, until there is none. Returns what it took.
    fn run(&mut self, mut per_micro: impl FnMut(Span) -> u64) -> Span {
        let mut slice = self.meter.begin(BUDGET);
        loop {
            let took = Span::nanos(self.now.load(Relaxed) as i64);
            self.now.fetch_add(slice * 1_000 / per_micro(took), Relaxed);
            match self.meter.next(0, 1) {
                Some(next) => slice = next,
                None => return Span::nanos(self.now.load(Relaxed) as i64),
            }
        }
    }
}

#[test]
fn whatever_it_burns_a_run_ends_with_its_budget() {
    for per_micro in [PACE, PACE + 1, 2 * PACE, 80, 145, 400, 2_000, 20_000] {
        let mut endless = Endless::new();
        let took = endless.run(|_| per_micro);
        assert!(took > Span::micros(880) && took <= Span::micros(1_020), "{per_micro}: {took}");
        let [wall, worked] = endless.asked();
        assert!(wall <= 50 * per_micro / PACE, "{per_micro}: the clock was asked {wall} times");
        assert!(worked <= 2, "{per_micro}: the dear clock was asked {worked} times");
    }
}

#[test]
fn code_that_becomes_as_slow_as_can_be_ends_as_well() {
    for at in 0..100 {
        let slow_from = Span::micros(10 * at);
        let took = Endless::new().run(|now| if now < slow_from { 2_000 } else { PACE });
        assert!(took <= Span::micros(1_020), "slow from {slow_from}: {took}");
    }
}

#[test]
fn code_that_is_slower_than_the_pace_takes_longer_by_less_than_that() {
    let took = Endless::new().run(|_| PACE / 2);
    assert!(took <= Span::micros(1_600), "{took}");
    // What it does after it has been looked at costs less.
    let took = Endless::new().run(|now| if now < Span::micros(300) { 2_000 } else { PACE / 2 });
    assert!(took <= Span::micros(1_200), "{took}");
}

#[test]
fn a_short_run_asks_no_clock_and_a_long_one_seldom() {
    let mut endless = Endless::new();
    let first = endless.meter.begin(BUDGET);
    assert_eq!(first, 100 * PACE, "a tenth of the budget");
    assert_eq!((endless.meter.burned(300), endless.asked()), (first - 300, [0, 0]));
    let second = endless.meter.next(100, 200).unwrap();
    assert_eq!(second, 450 * PACE, "half of what is left");
    assert_eq!((endless.meter.burned(50), endless.asked()), (first - 100 + second - 50, [1, 0]));
}

#[test]
fn whoever_is_interrupted_loses_nothing_of_the_budget() {
    // At every microsecond, once and for long: in the slice before the processor's clock is asked it costs what that slice may
    // take at most, and after it nothing.
    for at in 0..900 {
        let mut endless = Endless::new();
        let away = Arc::clone(&endless.away);
        let took = endless.run(|now| {
            if now >= Span::micros(at) {
                away.store(20_000_000, Relaxed);
            }
            400
        });
        let least = if at < 30 { 430 } else { 880 };
        assert!(took > Span::micros(least) && took <= Span::micros(1_020), "away at {at} us: {took}");
    }
}

#[test]
fn what_cannot_be_interrupted_is_not_begun_where_it_might_not_end() {
    let mut endless = Endless::new();
    endless.meter.begin(BUDGET);
    assert_eq!(endless.meter.next(0, 900 * PACE), Some(900 * PACE), "as long as what is left");
    endless.meter.begin(BUDGET);
    assert_eq!(endless.meter.next(0, 900 * PACE + 1), None);
}

#[test]
fn what_is_left_after_a_slice_is_what_nothing_else_may_take() {
    let mut endless = Endless::new();
    endless.meter.begin(BUDGET);
    assert_eq!(endless.meter.left_after(), Span::micros(900));
    endless.now.store(50_000, Relaxed);
    endless.meter.next(0, 1);
    assert_eq!(endless.meter.left_after(), Span::micros(450));
    endless.now.store(150_000, Relaxed);
    endless.meter.next(0, 1);
    assert_eq!(endless.meter.left_after(), Span::micros(400));
}

#[test]
fn a_clock_that_stands_still_or_goes_back_ends_nobodys_hope() {
    let mut endless = Endless::new();
    endless.now.store(10_000_000, Relaxed);
    let mut slice = endless.meter.begin(BUDGET);
    let mut burned = 0;
    while let Some(next) = endless.meter.next(0, 1) {
        burned += slice;
        slice = next;
        endless.now.fetch_sub(1, Relaxed);
    }
    assert!(burned <= 1_001 * FUEL_PER_MICRO_MOST, "{burned}");
}

#[test]
fn any_budget_and_pace_are_taken() {
    for budget in [Span::ZERO, Span::nanos(1), Span::micros(1), Span(i64::MAX - 1), Span::FOREVER] {
        for pace in [0, 1, u64::MAX] {
            let still = || Time::ZERO;
            let clock = Clock { wall: Arc::new(still), worked: Arc::new(still) };
            let mut meter = Meter::new(clock, pace);
            assert!(meter.begin(budget) > 0);
            for needed in [0, 1, u64::MAX] {
                assert!(meter.next(0, needed).is_none_or(|fuel| fuel >= needed.max(1)));
                meter.left_after();
            }
        }
    }
}
