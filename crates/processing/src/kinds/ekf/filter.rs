//! The filter itself, for any model: what is believed, and how a reading changes it.
//!
//! Sizes are known when it is compiled: no memory is taken, and loops are unrolled. The update keeps Joseph's form, which
//! costs two products more than the short one and stays symmetric and positive however the numbers round.
//!
//! Further reading: Simon, Optimal State Estimation, chapters 5 and 13.

use nalgebra::{Cholesky, SMatrix, SVector};

/// What is believed: the most likely state, and how far from it the true one may be.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Belief<const N: usize> {
    pub(super) state: SVector<f64, N>,
    pub(super) covariance: SMatrix<f64, N, N>,
}

/// Where a filter begins.
pub(super) enum Start<const N: usize> {
    /// From what was known before the first reading.
    Known(Belief<N>),
    /// From what the first reading says.
    Read(Belief<N>),
}

/// What becomes of a state as time goes by.
pub(super) struct Motion<const N: usize> {
    pub(super) state: SVector<f64, N>,
    /// How the new state follows the old one, near it.
    pub(super) jacobian: SMatrix<f64, N, N>,
    /// What is uncertain about it.
    pub(super) noise: SMatrix<f64, N, N>,
}

/// What a reading should be in a state.
pub(super) struct Expected<const N: usize, const Z: usize> {
    pub(super) reading: SVector<f64, Z>,
    /// How the reading follows the state, near it.
    pub(super) jacobian: SMatrix<f64, Z, N>,
}

/// How a state of `N` numbers moves, and what readings of `Z` numbers say about it.
pub(super) trait Model<const N: usize, const Z: usize>: Send {
    /// Where to begin.
    fn start(&self, first: &SVector<f64, Z>) -> Start<N>;

    /// After how many seconds without a reading nothing is known any more, and the filter begins anew.
    fn patience(&self) -> f64 {
        f64::INFINITY
    }

    /// What the state is some seconds later.
    fn advance(&self, state: &SVector<f64, N>, seconds: f64) -> Motion<N>;

    /// What should be read.
    fn expect(&self, state: &SVector<f64, N>) -> Expected<N, Z>;

    /// How uncertain readings are.
    fn noise(&self) -> &SMatrix<f64, Z, Z>;

    /// How a reading differs from what was expected. Angles differ by less than half a turn.
    fn difference(&self, reading: &SVector<f64, Z>, expected: &SVector<f64, Z>) -> SVector<f64, Z> {
        reading - expected
    }
}

/// One reading, some seconds after the last. `None` if the numbers have run away.
pub(super) fn step<const N: usize, const Z: usize>(
    model: &impl Model<N, Z>,
    belief: Option<&Belief<N>>,
    seconds: f64,
    reading: &SVector<f64, Z>,
) -> Option<Belief<N>> {
    let next = match belief {
        Some(belief) if seconds <= model.patience() => {
            update(model, &predict(model, belief, seconds), reading)?
        }
        _ => match model.start(reading) {
            Start::Known(belief) => update(model, &predict(model, &belief, 0.0), reading)?,
            Start::Read(belief) => belief,
        },
    };
    let is_finite = next.state.iter().chain(next.covariance.iter()).all(|number| number.is_finite());
    is_finite.then_some(next)
}

fn predict<const N: usize, const Z: usize>(
    model: &impl Model<N, Z>,
    belief: &Belief<N>,
    seconds: f64,
) -> Belief<N> {
    let Motion { state, jacobian, noise } = model.advance(&belief.state, seconds);
    Belief { state, covariance: jacobian * belief.covariance * jacobian.transpose() + noise }
}

fn update<const N: usize, const Z: usize>(
    model: &impl Model<N, Z>,
    belief: &Belief<N>,
    reading: &SVector<f64, Z>,
) -> Option<Belief<N>> {
    let Expected { reading: expected, jacobian } = model.expect(&belief.state);
    let seen = jacobian * belief.covariance;
    let spread = Cholesky::new(seen * jacobian.transpose() + model.noise())?;
    let gain = spread.solve(&seen).transpose();
    let kept = SMatrix::<f64, N, N>::identity() - gain * jacobian;
    Some(Belief {
        state: belief.state + gain * model.difference(reading, &expected),
        covariance: kept * belief.covariance * kept.transpose() + gain * model.noise() * gain.transpose(),
    })
}
