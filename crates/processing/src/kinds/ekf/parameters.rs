//! From parameters to a model.

use super::super::setup::{AS, missing, unsuitable};
use super::filter::Belief;
use super::models::{ConstantVelocity, Linear, Pendulum, RangeBearing};
use super::{Common, MODEL, VARIANCES};
use crate::operator::{Built, ParameterDoc, Setup, SetupError};
use nalgebra::{Cholesky, SMatrix, SVector, Vector2};

/// The most numbers of a state: its covariance has their square.
pub const STATES_MAX: usize = 16;
/// The most numbers of a reading.
pub const READINGS_MAX: usize = 8;

/// A shorter pendulum swings faster than its motion is followed.
const LENGTH_MIN: f64 = 0.01;

pub(super) const ALL: &[ParameterDoc] =
    &[MODEL, AXES, PROCESS, NOISE, RATE, SENSOR, LENGTH, DAMPING, F, H, Q, R, X0, P0, VARIANCES, AS];

const AXES: ParameterDoc = ParameterDoc {
    name: "axes",
    values: "1 (default), 2 or 3",
    doc: "constant-velocity: how many numbers a reading has",
};
const PROCESS: ParameterDoc = ParameterDoc {
    name: "process",
    values: "number from 0; required",
    doc: "all but linear: how unsteady the rate is, as the variance that it gains in a second",
};
const NOISE: ParameterDoc = ParameterDoc {
    name: "noise",
    values: "number above 0, or one for each number of a reading; required",
    doc: "all but linear: the standard deviation of readings",
};
const RATE: ParameterDoc = ParameterDoc {
    name: "rate",
    values: "number from 0, default 1",
    doc: "all but linear: the standard deviation of the rate at the beginning, which is taken to be 0",
};
const SENSOR: ParameterDoc = ParameterDoc {
    name: "sensor",
    values: "two numbers, default [0, 0]",
    doc: "range-bearing: where it is seen from",
};
const LENGTH: ParameterDoc = ParameterDoc {
    name: "length",
    values: "number from 0.01, default 1",
    doc: "pendulum: its length in metres",
};
const DAMPING: ParameterDoc = ParameterDoc {
    name: "damping",
    values: "number from 0 to 100, default 0",
    doc: "pendulum: what share of its rate it loses in a second",
};
const F: ParameterDoc = ParameterDoc {
    name: "F",
    values: "matrix n by n, n to 16; required",
    doc: "linear: the state after a step is F times the state",
};
const H: ParameterDoc = ParameterDoc {
    name: "H",
    values: "matrix m by n, m to 8; required",
    doc: "linear: a reading should be H times the state",
};
const Q: ParameterDoc = ParameterDoc {
    name: "Q",
    values: "matrix n by n; required",
    doc: "linear: the covariance that a step adds",
};
const R: ParameterDoc =
    ParameterDoc { name: "R", values: "matrix m by m; required", doc: "linear: the covariance of readings" };
const X0: ParameterDoc = ParameterDoc {
    name: "x0",
    values: "n numbers, default 0",
    doc: "linear: the state before the first step",
};
const P0: ParameterDoc = ParameterDoc {
    name: "P0",
    values: "matrix n by n; required",
    doc: "linear: the covariance before the first step",
};

#[derive(Clone, Copy, PartialEq)]
enum Which {
    ConstantVelocity,
    Linear,
    RangeBearing,
    Pendulum,
}

const MODELS: [(&str, Which); 4] = [
    ("constant-velocity", Which::ConstantVelocity),
    ("linear", Which::Linear),
    ("range-bearing", Which::RangeBearing),
    ("pendulum", Which::Pendulum),
];

pub(super) fn build(setup: &Setup<'_>) -> Result<Built, SetupError> {
    let common = Common::new(setup)?;
    let which = setup.choice(&MODEL, &MODELS)?.ok_or_else(|| missing(&MODEL))?;
    let own: &[ParameterDoc] = match which {
        Which::ConstantVelocity => &[AXES, PROCESS, NOISE, RATE],
        Which::Linear => &[F, H, Q, R, X0, P0],
        Which::RangeBearing => &[PROCESS, NOISE, RATE, SENSOR],
        Which::Pendulum => &[PROCESS, NOISE, RATE, LENGTH, DAMPING],
    };
    let is_fit = |doc: &ParameterDoc| [MODEL, VARIANCES, AS].contains(doc) || own.contains(doc);
    if let Some(doc) = ALL.iter().find(|doc| setup.parameters.contains_key(doc.name) && !is_fit(doc)) {
        return Err(unsuitable(doc, "does not belong to this model: leave it out"));
    }
    match which {
        Which::ConstantVelocity => match setup.count(&AXES, 3)?.unwrap_or(1) {
            1 => Ok(common.build::<2, 1>(constant_velocity::<1>(setup)?, 2, 1)),
            2 => Ok(common.build::<4, 2>(constant_velocity::<2>(setup)?, 4, 2)),
            _ => Ok(common.build::<6, 3>(constant_velocity::<3>(setup)?, 6, 3)),
        },
        Which::Linear => linear(setup, common),
        Which::RangeBearing => {
            let motion = constant_velocity(setup)?;
            let sensor = match setup.numbers(&SENSOR)?.as_deref() {
                None => Vector2::zeros(),
                Some(&[x, y]) => Vector2::new(x, y),
                Some(_) => return Err(unsuitable(&SENSOR, "must have two numbers, x and y")),
            };
            Ok(common.build(RangeBearing { motion, sensor }, 4, 2))
        }
        Which::Pendulum => Ok(common.build(pendulum(setup)?, 2, 1)),
    }
}

fn constant_velocity<const Z: usize>(setup: &Setup<'_>) -> Result<ConstantVelocity<Z>, SetupError> {
    let process = setup.magnitude(&PROCESS)?.ok_or_else(|| missing(&PROCESS))?;
    let deviations = setup.numbers(&NOISE)?.ok_or_else(|| missing(&NOISE))?;
    if deviations.iter().any(|deviation| deviation * deviation < f64::MIN_POSITIVE) {
        return Err(unsuitable(&NOISE, "must be above zero"));
    }
    let deviation: SVector<f64, Z> = match deviations.as_slice() {
        [one] => SVector::repeat(*one),
        several if several.len() == Z => SVector::from_column_slice(several),
        several => {
            let problem =
                format!("has {} numbers, and readings have {Z}: give one, or one for each", several.len());
            return Err(unsuitable(&NOISE, problem));
        }
    };
    let noise = SMatrix::from_diagonal(&deviation.map(|deviation| deviation * deviation));
    let rate_variance = setup.magnitude(&RATE)?.unwrap_or(1.0).powi(2);
    Ok(ConstantVelocity { noise, process, rate_variance })
}

fn pendulum(setup: &Setup<'_>) -> Result<Pendulum, SetupError> {
    let ConstantVelocity { noise, process, rate_variance } = constant_velocity::<1>(setup)?;
    let length = setup.magnitude(&LENGTH)?.unwrap_or(1.0);
    if length < LENGTH_MIN {
        return Err(unsuitable(&LENGTH, format!("is {length}, and must be at least {LENGTH_MIN}")));
    }
    let damping = setup.magnitude(&DAMPING)?.unwrap_or(0.0);
    if damping > 100.0 {
        return Err(unsuitable(&DAMPING, format!("is {damping}, and must be at most 100")));
    }
    Ok(Pendulum { length, damping, process, rate_variance, noise })
}

/// Sizes are rounded up to one of a few, which the code is made for.
fn linear(setup: &Setup<'_>, common: Common) -> Result<Built, SetupError> {
    let transition = setup.matrix(&F)?.ok_or_else(|| missing(&F))?;
    let observation = setup.matrix(&H)?.ok_or_else(|| missing(&H))?;
    let (states, readings) = (transition.len(), observation.len());
    if states > STATES_MAX {
        return Err(unsuitable(&F, format!("has {states} rows, and may have {STATES_MAX}")));
    }
    if readings > READINGS_MAX {
        return Err(unsuitable(&H, format!("has {readings} rows, and may have {READINGS_MAX}")));
    }
    expect_size(&F, &transition, states, states)?;
    expect_size(&H, &observation, readings, states)?;
    let sizes = Sizes { states, readings };
    match (states, readings) {
        (..=2, ..=1) => {
            Ok(common.build::<2, 1>(sizes.model(setup, &transition, &observation)?, states, readings))
        }
        (..=4, ..=2) => {
            Ok(common.build::<4, 2>(sizes.model(setup, &transition, &observation)?, states, readings))
        }
        (..=8, ..=4) => {
            Ok(common.build::<8, 4>(sizes.model(setup, &transition, &observation)?, states, readings))
        }
        _ => Ok(common.build::<STATES_MAX, READINGS_MAX>(
            sizes.model(setup, &transition, &observation)?,
            states,
            readings,
        )),
    }
}

type Rows = [Vec<f64>];

struct Sizes {
    states: usize,
    readings: usize,
}

impl Sizes {
    fn model<const N: usize, const Z: usize>(
        &self,
        setup: &Setup<'_>,
        transition: &Rows,
        observation: &Rows,
    ) -> Result<Linear<N, Z>, SetupError> {
        let start = match setup.numbers(&X0)? {
            None => SVector::zeros(),
            Some(start) if start.len() == self.states => {
                SVector::from_fn(|index, _| start.get(index).copied().unwrap_or(0.0))
            }
            Some(start) => {
                let problem = format!("has {} numbers, and states have {}", start.len(), self.states);
                return Err(unsuitable(&X0, problem));
            }
        };
        let mut noise = covariance(setup, &R, self.readings)?;
        for index in self.readings..Z {
            noise[(index, index)] = 1.0;
        }
        if Cholesky::new(noise).is_none() {
            return Err(unsuitable(&R, "must be positive definite: every reading has some noise"));
        }
        Ok(Linear {
            transition: filled(transition),
            observation: filled(observation),
            process: covariance(setup, &Q, self.states)?,
            noise,
            start: Belief { state: start, covariance: covariance(setup, &P0, self.states)? },
        })
    }
}

/// A matrix that is filled up with zeros.
fn filled<const ROWS: usize, const COLUMNS: usize>(rows: &Rows) -> SMatrix<f64, ROWS, COLUMNS> {
    SMatrix::from_fn(|row, column| rows.get(row).and_then(|row| row.get(column)).copied().unwrap_or(0.0))
}

fn expect_size(doc: &ParameterDoc, rows: &Rows, wanted: usize, width: usize) -> Result<(), SetupError> {
    let given = (rows.len(), rows.first().map_or(0, Vec::len));
    if given == (wanted, width) {
        return Ok(());
    }
    Err(unsuitable(doc, format!("is {} by {}, and must be {wanted} by {width}", given.0, given.1)))
}

/// A symmetric matrix without negative variances, in any direction.
fn covariance<const N: usize>(
    setup: &Setup<'_>,
    doc: &ParameterDoc,
    size: usize,
) -> Result<SMatrix<f64, N, N>, SetupError> {
    let rows = setup.matrix(doc)?.ok_or_else(|| missing(doc))?;
    expect_size(doc, &rows, size, size)?;
    let matrix: SMatrix<f64, N, N> = filled(&rows);
    if matrix != matrix.transpose() {
        return Err(unsuitable(doc, "must be symmetric"));
    }
    // A little more than nothing in every direction, since variances may be zero.
    let little = matrix.amax() * 1e-12 + f64::MIN_POSITIVE.sqrt();
    if Cholesky::new(matrix + SMatrix::identity() * little).is_none() {
        return Err(unsuitable(doc, "must have no negative variance: it is not positive semidefinite"));
    }
    Ok(matrix)
}
