//! Whole runs in virtual time: the plant, the controller and the actuator as in the demo, and the store as what it promises.

use super::super::actuator::{Without, median};
use super::super::controller::{FORCE_MAX, Memory};
use super::super::lie;
use super::*;

const PERIOD: Span = Span::millis(50);
const LIAR: usize = 3;

/// What the replicas know of each other.
#[derive(Clone, Copy, PartialEq)]
enum Shared {
    /// All know the same measurement: of all four, the median; and have the same memory.
    Median,
    /// The same, but the mean.
    Mean,
    /// Nothing.
    Nothing,
}

/// Fifteen seconds, in which the liar lies from the fifth to the tenth; the greatest angle in each five, in degrees.
fn rehearse(rule: Rule, shared: Shared, seed: u64, lies: bool) -> [f64; 3] {
    let push = |seconds: i64, force: f64| Push { at: Span::millis(seconds * 1_000 + 500), force };
    let mut stand = Stand::new(rule, PERIOD, vec![push(1, 3.0), push(6, 3.0), push(11, -3.0)], seed);
    let begun = Time(1_000_000_000_000);
    stand.let_go(begun);
    let mut memories = [Memory::default(); REPLICAS];
    let mut measured: [Motion; REPLICAS] = std::array::from_fn(|replica| stand.measure(replica, begun));
    let mut greatest = [0.0_f64; 3];
    for number in 0..300_u64 {
        let release = begun + PERIOD * number;
        let lying = lies && (100..200).contains(&number);
        let now: [Motion; REPLICAS] = std::array::from_fn(|replica| stand.measure(replica, release));
        if lying && shared != Shared::Nothing {
            measured[LIAR] = Motion::of([1_000.0, -1_000.0, -1_000.0, 1_000.0]);
        }
        for replica in 0..REPLICAS {
            let known = match shared {
                Shared::Nothing => measured[replica],
                _ => Motion::of(std::array::from_fn(|part| {
                    let mut all = measured.map(|motion| motion.parts()[part]);
                    if shared == Shared::Mean {
                        all.iter().sum::<f64>() / 4.0
                    } else {
                        median(&mut all).unwrap()
                    }
                })),
            };
            memories[replica] = memories[replica].next(Some(known), PERIOD.0 as f64 / 1e9);
            let force = memories[replica].force;
            let said = if lying && replica == LIAR { lie(force) } else { force };
            stand.command(replica, release, said, release);
        }
        measured = now;
        let part = &mut greatest[number as usize / 100];
        *part = part.max(stand.angle().abs().to_degrees());
    }
    greatest
}

#[test]
fn with_the_median_a_liar_does_not_move_the_pole() {
    for seed in 0..20 {
        let honest = rehearse(Rule::Same(2), Shared::Median, seed, false);
        let lied_to = rehearse(Rule::Same(2), Shared::Median, seed, true);
        assert!(honest[1] < 10.0, "seed {seed}: {honest:?}");
        assert!(lied_to[1] < 12.0 && lied_to[2] < 12.0, "seed {seed}: {lied_to:?}");
    }
}

#[test]
fn with_the_mean_of_measurements_it_falls() {
    for seed in 0..20 {
        let [before, during, _] = rehearse(Rule::Same(2), Shared::Mean, seed, true);
        assert!(before < 10.0 && during >= 90.0, "seed {seed}: {before} {during}");
    }
}

#[test]
fn replicas_apart_balance_until_one_lies() {
    for seed in 0..20 {
        for without in [Without::Mean, Without::Active] {
            let rule = Rule::Apart(without);
            let honest = rehearse(rule, Shared::Nothing, seed, false);
            assert!(honest.into_iter().all(|angle| angle < 12.0), "seed {seed}, {without:?}: {honest:?}");
            let [before, during, _] = rehearse(rule, Shared::Nothing, seed, true);
            assert!(before < 12.0 && during >= 90.0, "seed {seed}, {without:?}: {before} {during}");
        }
    }
}

#[test]
fn replicas_apart_survive_a_liar_where_the_actuator_takes_the_median() {
    for seed in 0..20 {
        let angles = rehearse(Rule::Apart(Without::Median), Shared::Nothing, seed, true);
        assert!(angles.into_iter().all(|angle| angle < 15.0), "seed {seed}: {angles:?}");
    }
}

#[test]
fn replicas_apart_never_say_the_same() {
    let mut stand = Stand::new(Rule::Same(2), PERIOD, Vec::new(), 1);
    for replica in 0..REPLICAS {
        let memory = Memory::beginning(stand.measure(replica, Time(0))).next(None, 0.05);
        assert!(memory.force.abs() < FORCE_MAX);
        stand.command(replica, Time(0), memory.force, Time(0));
    }
    assert_eq!(stand.actuator.releases, 0);
}

#[test]
fn sensors_tremble_around_where_they_are_off_to_and_a_seed_makes_them_again() {
    let mut stands = [7, 7, 8].map(|seed| Stand::new(Rule::Same(2), PERIOD, Vec::new(), seed));
    let first = stands.each_mut().map(|stand| stand.measure(0, Time(0)));
    assert!(first[0] == first[1] && first[0] != first[2]);
    let angles: Vec<f64> = (0..2_000).map(|_| stands[0].measure(0, Time(0)).angle).collect();
    let mean = angles.iter().sum::<f64>() / angles.len() as f64;
    let spread = angles.iter().map(|angle| (angle - mean).powi(2)).sum::<f64>() / angles.len() as f64;
    assert!(mean.abs() < OFF[2] + 0.0005 && (spread.sqrt() / NOISE[2] - 1.0).abs() < 0.1, "{mean} {spread}");
}
