//! An extended Kalman filter: the most likely state behind noisy readings.

mod filter;
mod models;
mod parameters;

use crate::memory::{FOREIGN, Put, numbers_after_a_time};
use crate::numbers::{self, Reader, newest};
use crate::operator::{
    Answer, Answers, Built, Fault, Input, Kind, Memory, Operator, ParameterDoc, Setup, SetupError,
};
use crate::payload::{Element, PayloadType};
use contract::{Span, Time};
use filter::{Belief, Model, step};
use nalgebra::{SMatrix, SVector};

pub use parameters::{READINGS_MAX, STATES_MAX};

/// `ekf`.
pub const EKF: Kind = Kind {
    name: "ekf",
    doc: "An extended Kalman filter. The numbers of all inputs are one reading; the result is the most likely state. Between \
          readings the state moves as long as their creation times are apart, except with `linear`, where `F` is what happens \
          from one reading to the next. A reading older than the newest counts as if it came with it. If the numbers run \
          away, the run fails and the filter begins anew.",
    inputs: (1, usize::MAX),
    parameters: parameters::ALL,
    build: parameters::build,
};

const MODEL: ParameterDoc = ParameterDoc {
    name: "model",
    values: "constant-velocity, linear, range-bearing or pendulum; required",
    doc: "how the state moves and what readings say about it. constant-velocity: values, then their rates. linear: by matrices. \
          range-bearing: x, y and their rates, read as a distance and an angle in rad from the x axis. pendulum: its angle and \
          the rate of it, read as how far out it is; after 10s without a reading it begins anew",
};
const VARIANCES: ParameterDoc = ParameterDoc {
    name: "variances",
    values: "switch, default false",
    doc: "whether the state is followed by how uncertain each of its numbers is",
};

/// What is the same for all models.
struct Common {
    reader: Reader,
    variances: bool,
    element: Element,
}

impl Common {
    fn new(setup: &Setup<'_>) -> Result<Common, SetupError> {
        let reader = setup.reader(EKF.name)?;
        Ok(Common { reader, variances: setup.switch(&VARIANCES)?, element: setup.element()? })
    }

    /// An operator with a model, of whose numbers the first few count.
    fn build<const N: usize, const Z: usize>(
        self,
        model: impl Model<N, Z> + 'static,
        states: usize,
        readings: usize,
    ) -> Built {
        let output = PayloadType::Array(self.element);
        let operator = Box::new(Ekf {
            common: self,
            model,
            states,
            readings,
            belief: None,
            seen: Time::ZERO,
            results: Vec::with_capacity(2 * N),
        });
        Built { operator, output, answers: Answers::Always, memory: Memory::Saved }
    }
}

struct Ekf<const N: usize, const Z: usize, M> {
    common: Common,
    model: M,
    states: usize,
    readings: usize,
    /// Nothing before the first reading.
    belief: Option<Belief<N>>,
    /// When the newest reading was created.
    seen: Time,
    results: Vec<f64>,
}

impl<const N: usize, const Z: usize, M: Model<N, Z>> Operator for Ekf<N, Z, M> {
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        let readings = self.common.reader.read(inputs)?;
        if readings.len() != self.readings {
            let reason = "the count of all numbers of a run is not what the model reads";
            return Err(Fault::Malformed { slot: inputs[0].slot, reason });
        }
        let reading = SVector::from_fn(|index, _| readings.get(index).copied().unwrap_or(0.0));
        let now = newest(inputs).max(self.seen);
        let seconds = now.since(self.seen).max(Span::ZERO).0 as f64 / 1e9;
        self.belief = step(&self.model, self.belief.as_ref(), seconds, &reading);
        self.seen = now;
        let Some(belief) = &self.belief else {
            self.seen = Time::ZERO;
            return Err(Fault::Failed("the filter has run away and begins anew: check its noise"));
        };
        self.results.clear();
        self.results.extend(belief.state.iter().take(self.states));
        if self.common.variances {
            self.results.extend(belief.covariance.diagonal().iter().take(self.states));
        }
        numbers::write(&self.results, self.common.element, output)?;
        Ok(Answer::Result)
    }

    fn save(&mut self, memory: &mut Vec<u8>) -> Result<(), Fault> {
        memory.put_u64(self.seen.0);
        let belief =
            self.belief.iter().flat_map(|belief| belief.state.iter().chain(belief.covariance.iter()));
        belief.for_each(|number| memory.put_f64(*number));
        Ok(())
    }

    fn restore(&mut self, memory: &[u8]) -> Result<(), Fault> {
        let (seen, numbers) = numbers_after_a_time(memory).ok_or(FOREIGN)?;
        let belief = match numbers.split_at_checked(N) {
            None if numbers.is_empty() => None,
            Some((state, covariance)) if covariance.len() == N * N => Some(Belief {
                state: SVector::from_column_slice(state),
                covariance: SMatrix::from_column_slice(covariance),
            }),
            _ => return Err(FOREIGN),
        };
        (self.seen, self.belief) = (seen, belief);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
