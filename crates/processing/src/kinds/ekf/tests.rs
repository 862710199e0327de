use super::super::testing::{OneOperator, f64s, text};
use super::filter::{Expected, Model, Motion, Start, step};
use super::models::{ConstantVelocity, Pendulum, RangeBearing};
use crate::operator::{Fault, Value};
use adskalman::{
    KalmanFilterNoControl, ObservationModel, StateAndCovariance, TransitionModelLinearNoControl,
};
use contract::Time;
use nalgebra::{Matrix1, Matrix2, Matrix4, SMatrix, SVector, U2, U4, Vector2, Vector4};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn matrix<const R: usize, const C: usize>(matrix: &SMatrix<f64, R, C>) -> Value {
    Value::Matrix(matrix.row_iter().map(|row| row.iter().copied().collect()).collect())
}

/// The filter of another hand, for linear models.
struct Oracle {
    f: Matrix4<f64>,
    ft: Matrix4<f64>,
    q: Matrix4<f64>,
    h: SMatrix<f64, 2, 4>,
    ht: SMatrix<f64, 4, 2>,
    r: Matrix2<f64>,
}

impl Oracle {
    fn new(f: Matrix4<f64>, q: Matrix4<f64>, h: SMatrix<f64, 2, 4>, r: Matrix2<f64>) -> Oracle {
        Oracle { f, ft: f.transpose(), q, h, ht: h.transpose(), r }
    }
}

impl TransitionModelLinearNoControl<f64, U4> for Oracle {
    fn F(&self) -> &Matrix4<f64> {
        &self.f
    }
    fn FT(&self) -> &Matrix4<f64> {
        &self.ft
    }
    fn Q(&self) -> &Matrix4<f64> {
        &self.q
    }
}

impl ObservationModel<f64, U4, U2> for Oracle {
    fn H(&self) -> &SMatrix<f64, 2, 4> {
        &self.h
    }
    fn HT(&self) -> &SMatrix<f64, 4, 2> {
        &self.ht
    }
    fn R(&self) -> &Matrix2<f64> {
        &self.r
    }
}

fn near(got: f64, expected: f64) -> bool {
    (got - expected).abs() <= 1e-9 * expected.abs().max(1.0)
}

/// A covariance of some numbers.
fn square<const N: usize>(numbers: &[f64]) -> SMatrix<f64, N, N> {
    let root = SMatrix::<f64, N, N>::from_column_slice(&numbers[..N * N]);
    let square = root * root.transpose();
    (square + square.transpose()) * 0.5
}

proptest! {
    /// With the parameters of a user, states and variances, over several readings.
    #[test]
    fn a_linear_filter_agrees_with_another_one(
        numbers in prop::collection::vec(-1.0..1.0, 16 * 3 + 8 + 4 + 4),
        readings in prop::collection::vec((-5.0..5.0, -5.0..5.0), 1..12),
    ) {
        let f = Matrix4::from_column_slice(&numbers[..16]);
        let (q, p0) = (square::<4>(&numbers[16..32]), square::<4>(&numbers[32..48]));
        let h = SMatrix::<f64, 2, 4>::from_column_slice(&numbers[48..56]);
        let r = square::<2>(&numbers[56..60]) + Matrix2::identity();
        let x0 = Vector4::from_column_slice(&numbers[60..64]);
        let parameters = [
            ("model", text("linear")), ("F", matrix(&f)), ("H", matrix(&h)), ("Q", matrix(&q)), ("R", matrix(&r)),
            ("x0", Value::Numbers(numbers[60..64].to_vec())), ("P0", matrix(&p0)), ("variances", Value::Switch(true)),
        ];
        let mut one = OneOperator::new("ekf", &["f64"], &parameters);
        let oracle = Oracle::new(f, q, h, r);
        let filter = KalmanFilterNoControl::new(&oracle, &oracle);
        let mut believed = StateAndCovariance::new(x0, p0);
        for (first, second) in readings {
            let got = one.numbers(&f64s(&[first, second])).unwrap().unwrap();
            believed = filter.step(&believed, &Vector2::new(first, second)).unwrap();
            let (state, variances) = (believed.state(), believed.covariance().diagonal());
            let expected: Vec<f64> = state.iter().chain(variances.iter()).copied().collect();
            prop_assert!(got.iter().zip(&expected).all(|(got, expected)| near(*got, *expected)), "{got:?} {expected:?}");
        }
    }

    /// A model of one state is filled up to two.
    #[test]
    fn filling_up_changes_nothing(readings in prop::collection::vec(-5.0..5.0, 1..12)) {
        let one = Value::Number;
        let parameters = [
            ("model", text("linear")), ("F", one(0.9)), ("H", one(2.0)), ("Q", one(0.1)), ("R", one(0.5)), ("P0", one(1.0)),
        ];
        let mut one = OneOperator::new("ekf", &["f64"], &parameters);
        let (mut state, mut variance) = (0.0, 1.0);
        for reading in readings {
            // The filter of one number, written out.
            state *= 0.9;
            variance = 0.81 * variance + 0.1;
            let gain = variance * 2.0 / (4.0 * variance + 0.5);
            state += gain * (reading - 2.0 * state);
            variance *= 1.0 - gain * 2.0;
            let got = one.numbers(&f64s(&[reading])).unwrap().unwrap();
            prop_assert!(got.len() == 1 && near(got[0], state), "{got:?} {state}");
        }
    }

    /// The derivatives are those of the functions beside them.
    #[test]
    fn jacobians_are_derivatives(state in [0.5_f64..4.0, -3.0..3.0, -1.0..1.0, -1.0..1.0], seconds in 0.0..0.5) {
        let noise = Matrix2::identity();
        let motion = ConstantVelocity { noise, process: 0.1, rate_variance: 1.0 };
        check_jacobians(&RangeBearing { motion, sensor: Vector2::new(-1.0, 0.2) }, &Vector4::from(state), seconds)?;
        let noise = Matrix1::new(0.1);
        let pendulum = Pendulum { length: 0.7, damping: 0.3, process: 0.1, rate_variance: 1.0, noise };
        check_jacobians(&pendulum, &Vector2::new(state[1], state[2]), seconds)?;
    }
}

fn check_jacobians<const N: usize, const Z: usize>(
    model: &impl Model<N, Z>,
    state: &SVector<f64, N>,
    seconds: f64,
) -> Result<(), TestCaseError> {
    let little = 1e-6;
    let Motion { jacobian: of_motion, .. } = model.advance(state, seconds);
    let Expected { jacobian: of_reading, .. } = model.expect(state);
    for index in 0..N {
        let mut aside = [*state, *state];
        aside[0][index] -= little;
        aside[1][index] += little;
        let [before, after] = aside.map(|state| model.advance(&state, seconds).state);
        let slope = (after - before) / (2.0 * little);
        prop_assert!((slope - of_motion.column(index)).amax() < 1e-5, "{slope} {of_motion}");
        let [before, after] = aside.map(|state| model.expect(&state).reading);
        let slope = model.difference(&after, &before) / (2.0 * little);
        prop_assert!((slope - of_reading.column(index)).amax() < 1e-5, "{slope} {of_reading}");
    }
    Ok(())
}

/// A repeatable noise between -1 and 1.
fn noise(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

#[test]
fn constant_velocity_finds_the_rate() {
    let parameters = [
        ("model", text("constant-velocity")),
        ("axes", Value::Number(2.0)),
        ("process", Value::Number(1e-4)),
        ("noise", Value::Number(0.1)),
    ];
    let mut one = OneOperator::new("ekf", &["f64", "f64"], &parameters);
    let mut seed = 1;
    let mut state = Vec::new();
    for second in 0..200_u32 {
        one.now = Time(u64::from(second) * SECOND);
        let at = f64::from(second);
        let x = f64s(&[2.0 * at + 0.1 * noise(&mut seed)]);
        let y = f64s(&[5.0 - 0.5 * at + 0.1 * noise(&mut seed)]);
        let payload = one.run_all(&[&x, &y]).unwrap().unwrap();
        state = payload.chunks(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect();
    }
    let expected = [398.0, -94.5, 2.0, -0.5];
    assert!(state.iter().zip(expected).all(|(got, expected)| (got - expected).abs() < 0.1), "{state:?}");
}

#[test]
fn range_and_bearing_find_what_passes_behind() {
    let parameters = [
        ("model", text("range-bearing")),
        ("process", Value::Number(1e-4)),
        ("noise", Value::Numbers(vec![0.05, 0.002])),
        ("sensor", Value::Numbers(vec![10.0, 0.0])),
        ("rate", Value::Number(3.0)),
    ];
    let mut one = OneOperator::new("ekf", &["f64"], &parameters);
    let mut seed = 2;
    let mut state = Vec::new();
    for tick in 0..100_u32 {
        one.now = Time(u64::from(tick) * SECOND / 10);
        // It goes from north to south on the western side, where the bearing jumps from half a turn to minus that.
        let (x, y) = (-20.0_f64, 10.0 - 0.2 * f64::from(tick));
        let reading = [x.hypot(y) + 0.05 * noise(&mut seed), y.atan2(x) + 0.002 * noise(&mut seed)];
        state = one.numbers(&f64s(&reading)).unwrap().unwrap();
    }
    let expected = [-10.0, 10.0 - 0.2 * 99.0, 0.0, -2.0];
    assert!(state.iter().zip(expected).all(|(got, expected)| (got - expected).abs() < 0.15), "{state:?}");
}

#[test]
fn a_pendulum_is_followed_through_swings_that_no_straight_line_follows() {
    let model =
        Pendulum { length: 1.0, damping: 0.0, process: 1e-3, rate_variance: 1.0, noise: Matrix1::new(1e-4) };
    let truth = Pendulum { process: 0.0, ..model };
    let (mut state, mut belief, mut seed) = (Vector2::new(1.2, 0.0), None, 3);
    for _ in 0..400 {
        let reading = truth.expect(&state).reading.add_scalar(0.01 * noise(&mut seed));
        belief = Some(step(&model, belief.as_ref(), 0.05, &reading).unwrap());
        let believed = belief.as_ref().unwrap();
        assert!(believed.covariance.symmetric_eigenvalues().min() > 0.0);
        state = truth.advance(&state, 0.05).state;
    }
    // The truth is one step ahead.
    let ahead = model.advance(&belief.unwrap().state, 0.05).state;
    assert!((ahead - state).amax() < 0.05, "{ahead} {state}");
}

#[test]
fn late_readings_and_long_gaps_are_survived() {
    for model in ["constant-velocity", "pendulum"] {
        let parameters =
            [("model", text(model)), ("process", Value::Number(1.0)), ("noise", Value::Number(0.1))];
        let mut one = OneOperator::new("ekf", &["f64"], &parameters);
        for now in [5 * SECOND, 4 * SECOND, 5 * SECOND, 1_000_000 * SECOND, 0] {
            one.now = Time(now);
            assert!(one.numbers(&f64s(&[0.5])).unwrap().is_some(), "{model} {now}");
        }
    }
}

#[test]
fn bad_payloads_are_faults_and_leave_the_state_alone() {
    let parameters = [
        ("model", text("constant-velocity")),
        ("process", Value::Number(0.0)),
        ("noise", Value::Number(1.0)),
    ];
    let mut one = OneOperator::new("ekf", &["f64"], &parameters);
    assert_eq!(one.numbers(&f64s(&[2.0])), Ok(Some(vec![2.0, 0.0])));
    assert!(matches!(one.run(&f64s(&[2.0, 3.0])), Err(Fault::Malformed { .. })));
    assert!(one.run(&[]).is_err() && one.run(&[1; 5]).is_err() && one.run(&f64s(&[f64::NAN])).is_err());
    assert_eq!(one.numbers(&f64s(&[4.0])), Ok(Some(vec![3.0, 0.0])));
}

#[test]
fn a_filter_that_runs_away_begins_anew() {
    let one = Value::Number;
    let parameters = [
        ("model", text("linear")),
        ("F", one(1e200)),
        ("H", one(1.0)),
        ("Q", one(0.0)),
        ("R", one(1.0)),
        ("P0", one(1.0)),
    ];
    let mut one = OneOperator::new("ekf", &["f64"], &parameters);
    for _ in 0..3 {
        assert!(matches!(one.run(&f64s(&[1.0])), Err(Fault::Failed(_))));
    }
    let start = |model: &ConstantVelocity<1>| matches!(model.start(&Matrix1::new(1.0)), Start::Read(_));
    assert!(start(&ConstantVelocity { noise: Matrix1::new(1.0), process: 0.0, rate_variance: 0.0 }));
}

#[test]
fn models_must_make_sense() {
    let one = Value::Number;
    let refused = |parameters: &[(&str, Value)]| OneOperator::refused("ekf", &["f64"], parameters);
    assert!(refused(&[]).starts_with("`model` is missing"));
    assert!(refused(&[("model", text("linear"))]).starts_with("`F` is missing"));
    assert!(refused(&[("model", text("pendulum"))]).starts_with("`process` is missing"));
    let cv = |name, value| {
        let model = ("model", text("constant-velocity"));
        refused(&[model, ("process", one(1.0)), ("noise", one(1.0)), (name, value)])
    };
    assert!(cv("F", one(1.0)).starts_with("`F` does not belong to this model"));
    assert!(cv("axes", one(4.0)).contains("from 1 to 3"));
    assert!(cv("rate", one(-1.0)).contains("must not be negative"));
    assert!(cv("noise", one(0.0)).contains("must be above zero"));
    assert!(cv("noise", Value::Numbers(vec![1.0, 1.0])).contains("has 2 numbers, and readings have 1"));
    let linear = |name: &'static str, value: Value| {
        let mut all = vec![("model", text("linear")), ("F", matrix(&Matrix2::<f64>::identity()))];
        all.extend([("H", Value::Matrix(vec![vec![1.0, 0.0]])), ("Q", matrix(&Matrix2::<f64>::identity()))]);
        all.extend([("R", one(1.0)), ("P0", matrix(&Matrix2::<f64>::identity()))]);
        all.iter_mut().for_each(|(known, old)| {
            if *known == name {
                *old = value.clone();
            }
        });
        if name == "x0" {
            all.push((name, value));
        }
        refused(&all)
    };
    assert!(linear("F", Value::Matrix(vec![vec![1.0], vec![1.0, 2.0]])).contains("rows of one length"));
    assert!(linear("F", Value::Matrix(vec![vec![0.0; 17]; 17])).contains("may have 16"));
    assert!(linear("H", Value::Matrix(vec![vec![0.0; 2]; 9])).contains("may have 8"));
    assert!(linear("H", one(1.0)).contains("is 1 by 1, and must be 1 by 2"));
    assert!(linear("Q", Value::Matrix(vec![vec![1.0, 0.1], vec![0.0, 1.0]])).contains("must be symmetric"));
    assert!(
        linear("P0", Value::Matrix(vec![vec![1.0, 2.0], vec![2.0, 1.0]])).contains("no negative variance")
    );
    assert!(linear("R", one(0.0)).contains("positive definite"));
    assert!(linear("R", one(f64::NAN)).contains("not finite"));
    assert!(linear("x0", Value::Numbers(vec![1.0])).contains("has 1 numbers, and states have 2"));
    assert!(linear("Q", text("no")).contains("must be a matrix"));
}
