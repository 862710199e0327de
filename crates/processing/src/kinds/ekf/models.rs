//! Models that come with the filter.

use super::filter::{Belief, Expected, Model, Motion, Start};
use nalgebra::{Matrix2, Matrix2x4, Matrix4, SMatrix, SVector, Vector1, Vector2, Vector4};
use std::f64::consts::{PI, TAU};

/// What a rate that changes by chance does to a value and its rate, per axis: `process` is the variance that the rate gains
/// in a second.
fn wander(process: f64, seconds: f64) -> [f64; 3] {
    [process * seconds.powi(3) / 3.0, process * seconds.powi(2) / 2.0, process * seconds]
}

/// Values that go on as they did: `Z` values, then their rates.
pub(super) struct ConstantVelocity<const Z: usize> {
    pub(super) noise: SMatrix<f64, Z, Z>,
    pub(super) process: f64,
    /// The variance of the rates at the beginning.
    pub(super) rate_variance: f64,
}

impl<const Z: usize> ConstantVelocity<Z> {
    fn motion<const N: usize>(&self, state: &SVector<f64, N>, seconds: f64) -> Motion<N> {
        let mut jacobian = SMatrix::identity();
        let mut noise = SMatrix::zeros();
        let [value, both, rate] = wander(self.process, seconds);
        for axis in 0..Z {
            jacobian[(axis, Z + axis)] = seconds;
            noise[(axis, axis)] = value;
            noise[(axis, Z + axis)] = both;
            noise[(Z + axis, axis)] = both;
            noise[(Z + axis, Z + axis)] = rate;
        }
        Motion { state: jacobian * state, jacobian, noise }
    }
}

/// For one to three axes; the language cannot yet say `2 * Z`.
macro_rules! constant_velocity {
    ($($states:literal: $axes:literal),*) => {$(
        impl Model<$states, $axes> for ConstantVelocity<$axes> {
            fn start(&self, first: &SVector<f64, $axes>) -> Start<$states> {
                let mut state = SVector::<f64, $states>::zeros();
                let mut covariance = SMatrix::<f64, $states, $states>::identity() * self.rate_variance;
                state.fixed_rows_mut::<$axes>(0).copy_from(first);
                covariance.fixed_view_mut::<$axes, $axes>(0, 0).copy_from(&self.noise);
                Start::Read(Belief { state, covariance })
            }

            fn advance(&self, state: &SVector<f64, $states>, seconds: f64) -> Motion<$states> {
                self.motion(state, seconds)
            }

            fn expect(&self, state: &SVector<f64, $states>) -> Expected<$states, $axes> {
                Expected { reading: state.fixed_rows::<$axes>(0).into_owned(), jacobian: SMatrix::identity() }
            }

            fn noise(&self) -> &SMatrix<f64, $axes, $axes> {
                &self.noise
            }
        }
    )*};
}

constant_velocity!(2: 1, 4: 2, 6: 3);

/// Any linear model: `x' = F x`, `z = H x`. A smaller one is filled up with states that are zero for certain and readings that
/// say nothing; neither changes the result.
pub(super) struct Linear<const N: usize, const Z: usize> {
    pub(super) transition: SMatrix<f64, N, N>,
    pub(super) observation: SMatrix<f64, Z, N>,
    pub(super) process: SMatrix<f64, N, N>,
    pub(super) noise: SMatrix<f64, Z, Z>,
    pub(super) start: Belief<N>,
}

impl<const N: usize, const Z: usize> Model<N, Z> for Linear<N, Z> {
    fn start(&self, _first: &SVector<f64, Z>) -> Start<N> {
        Start::Known(self.start)
    }

    fn advance(&self, state: &SVector<f64, N>, _seconds: f64) -> Motion<N> {
        Motion { state: self.transition * state, jacobian: self.transition, noise: self.process }
    }

    fn expect(&self, state: &SVector<f64, N>) -> Expected<N, Z> {
        Expected { reading: self.observation * state, jacobian: self.observation }
    }

    fn noise(&self) -> &SMatrix<f64, Z, Z> {
        &self.noise
    }
}

/// Something that goes straight on in the plane, seen from one place as a distance and a direction.
pub(super) struct RangeBearing {
    pub(super) motion: ConstantVelocity<2>,
    pub(super) sensor: Vector2<f64>,
}

/// Nearer than this there is no direction.
const RANGE_MIN: f64 = 1e-6;

impl Model<4, 2> for RangeBearing {
    fn start(&self, first: &Vector2<f64>) -> Start<4> {
        let (sin, cos) = first.y.sin_cos();
        let turned = Matrix2::new(cos, -first.x * sin, sin, first.x * cos);
        let mut covariance = Matrix4::identity() * self.motion.rate_variance;
        covariance.fixed_view_mut::<2, 2>(0, 0).copy_from(&(turned * self.motion.noise * turned.transpose()));
        let place = self.sensor + Vector2::new(cos, sin) * first.x;
        Start::Read(Belief { state: Vector4::new(place.x, place.y, 0.0, 0.0), covariance })
    }

    fn advance(&self, state: &Vector4<f64>, seconds: f64) -> Motion<4> {
        self.motion.motion(state, seconds)
    }

    fn expect(&self, state: &Vector4<f64>) -> Expected<4, 2> {
        let (x, y) = (state.x - self.sensor.x, state.y - self.sensor.y);
        let range = x.hypot(y).max(RANGE_MIN);
        let mut jacobian = Matrix2x4::zeros();
        jacobian.fixed_view_mut::<2, 2>(0, 0).copy_from(&Matrix2::new(
            x / range,
            y / range,
            -y / (range * range),
            x / (range * range),
        ));
        Expected { reading: Vector2::new(range, y.atan2(x)), jacobian }
    }

    fn noise(&self) -> &Matrix2<f64> {
        &self.motion.noise
    }

    fn difference(&self, reading: &Vector2<f64>, expected: &Vector2<f64>) -> Vector2<f64> {
        let turn = reading.y - expected.y;
        Vector2::new(reading.x - expected.x, turn - TAU * ((turn + PI) / TAU).floor())
    }
}

/// A pendulum, seen from the side: its state is its angle from straight down and the rate of that, and what is read is how
/// far out it is.
pub(super) struct Pendulum {
    pub(super) length: f64,
    /// What share of its rate it loses in a second.
    pub(super) damping: f64,
    pub(super) process: f64,
    pub(super) rate_variance: f64,
    pub(super) noise: SMatrix<f64, 1, 1>,
}

/// In metres per second squared.
const GRAVITY: f64 = 9.806_65;
/// Motion is followed in steps no longer than this, in seconds: a hundred for a swing of the shortest pendulum.
const STEP: f64 = 2e-3;
/// How many seconds it is followed without a reading: 5000 steps, which take a tenth of a millisecond.
const PATIENCE: f64 = 10.0;

impl Model<2, 1> for Pendulum {
    fn start(&self, first: &Vector1<f64>) -> Start<2> {
        let angle = (first.x / self.length).clamp(-1.0, 1.0).asin();
        // The reading flattens out towards the side, and says less of the angle.
        let variance = self.noise.x / (self.length * angle.cos().max(0.1)).powi(2);
        let covariance = Matrix2::new(variance, 0.0, 0.0, self.rate_variance);
        Start::Read(Belief { state: Vector2::new(angle, 0.0), covariance })
    }

    fn patience(&self) -> f64 {
        PATIENCE
    }

    fn advance(&self, state: &Vector2<f64>, seconds: f64) -> Motion<2> {
        let steps = (seconds / STEP).ceil();
        let step = if steps > 0.0 { seconds / steps } else { 0.0 };
        let pull = GRAVITY / self.length;
        let (mut angle, mut rate) = (state.x, state.y);
        let mut jacobian = Matrix2::identity();
        for _ in 0..steps as usize {
            let (sin, cos) = angle.sin_cos();
            let slowed = 1.0 - step * self.damping;
            let (by_angle, by_rate) = (-step * pull * cos, slowed);
            rate = slowed * rate - step * pull * sin;
            angle += step * rate;
            jacobian = Matrix2::new(1.0 + step * by_angle, step * by_rate, by_angle, by_rate) * jacobian;
        }
        let [value, both, own] = wander(self.process, seconds);
        Motion { state: Vector2::new(angle, rate), jacobian, noise: Matrix2::new(value, both, both, own) }
    }

    fn expect(&self, state: &Vector2<f64>) -> Expected<2, 1> {
        let (sin, cos) = state.x.sin_cos();
        let jacobian = SMatrix::from_row_slice(&[self.length * cos, 0.0]);
        Expected { reading: Vector1::new(self.length * sin), jacobian }
    }

    fn noise(&self) -> &SMatrix<f64, 1, 1> {
        &self.noise
    }
}
