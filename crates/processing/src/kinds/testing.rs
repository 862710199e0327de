//! A one for the tests of kinds: sets one up and feeds it.

use super::build;
use crate::numbers;
use crate::operator::{Answer, Answers, Fault, Input, Operator, Parameters, Setup, Value};
use crate::payload::PayloadType;
use contract::Time;

pub(crate) struct OneOperator {
    operator: Box<dyn Operator>,
    pub(crate) output: PayloadType,
    pub(crate) answers: Answers,
    /// When the next input is created.
    pub(crate) now: Time,
}

impl OneOperator {
    pub(crate) fn new(kind: &str, inputs: &[&str], parameters: &[(&str, Value)]) -> OneOperator {
        let built = set_up(kind, inputs, parameters).unwrap_or_else(|error| panic!("{error}"));
        OneOperator { operator: built.operator, output: built.output, answers: built.answers, now: Time(0) }
    }

    pub(crate) fn refused(kind: &str, inputs: &[&str], parameters: &[(&str, Value)]) -> String {
        match set_up(kind, inputs, parameters) {
            Ok(_) => panic!("it was set up"),
            Err(error) => error.to_string(),
        }
    }

    /// One run with one input.
    pub(crate) fn run(&mut self, payload: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        self.run_all(&[payload])
    }

    /// One run with one input for each slot.
    pub(crate) fn run_all(&mut self, payloads: &[&[u8]]) -> Result<Option<Vec<u8>>, Fault> {
        let times: Vec<(&[u8], Time)> = payloads.iter().map(|payload| (*payload, self.now)).collect();
        self.run_at(&times)
    }

    pub(crate) fn run_at(&mut self, payloads: &[(&[u8], Time)]) -> Result<Option<Vec<u8>>, Fault> {
        let input =
            |(slot, (payload, created)): (usize, &(&'_ [u8], Time))| (slot, payload.to_vec(), *created);
        let owned: Vec<_> = payloads.iter().enumerate().map(input).collect();
        let inputs: Vec<Input<'_>> = owned
            .iter()
            .map(|(slot, payload, created)| Input { slot: *slot, payload, created: *created })
            .collect();
        let mut output = Vec::new();
        match self.operator.run(&inputs, &mut output)? {
            Answer::Result => Ok(Some(output)),
            Answer::Nothing => {
                assert_eq!(self.answers, Answers::Sometimes, "it said that it always has a result");
                Ok(None)
            }
        }
    }

    /// Goes on as another one would.
    pub(crate) fn take_over(&mut self, other: &mut OneOperator) {
        let mut memory = Vec::new();
        other.operator.save(&mut memory).unwrap();
        self.operator.restore(&memory).unwrap();
        assert!(self.operator.restore(&[1]).is_err());
    }

    /// One run with one input; the numbers of its result.
    pub(crate) fn numbers(&mut self, payload: &[u8]) -> Result<Option<Vec<f64>>, Fault> {
        let Some(payload) = self.run(payload)? else { return Ok(None) };
        let mut numbers = Vec::new();
        numbers::read(&self.output, &Input { slot: 0, payload: &payload, created: self.now }, &mut numbers)?;
        Ok(Some(numbers))
    }
}

fn set_up(
    kind: &str,
    inputs: &[&str],
    parameters: &[(&str, Value)],
) -> Result<crate::operator::Built, crate::operator::SetupError> {
    let inputs: Vec<PayloadType> = inputs.iter().map(|input| input.parse().unwrap()).collect();
    let parameters: Parameters =
        parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    build(kind, &Setup { inputs: &inputs, parameters: &parameters })
}

pub(crate) fn f64s(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

pub(crate) fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}
