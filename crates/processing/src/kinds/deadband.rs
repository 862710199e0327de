//! Passing on only what is news.

use super::setup::{missing, unsuitable};
use crate::memory::{FOREIGN, Put, numbers_after_a_time};
use crate::numbers::{Reader, newest};
use crate::operator::{
    Answer, Answers, Built, Fault, Input, Kind, Memory, Operator, ParameterDoc, Setup, SetupError,
};
use contract::{Span, Time};

/// `deadband`.
pub const DEADBAND: Kind = Kind {
    name: "deadband",
    doc: "Passes a payload on, as it is, when a number in it differs enough from the last payload that was passed on. \
          The first one is.",
    inputs: (1, 1),
    parameters: &[ABSOLUTE, PERCENT, AT_LEAST_EVERY],
    build,
};

const ABSOLUTE: ParameterDoc = ParameterDoc {
    name: "absolute",
    values: "number from 0",
    doc: "a difference larger than this is enough; this or `percent`",
};
const PERCENT: ParameterDoc = ParameterDoc {
    name: "percent",
    values: "number from 0",
    doc: "a difference larger than this share of the number before is enough; this or `absolute`",
};
const AT_LEAST_EVERY: ParameterDoc = ParameterDoc {
    name: "at_least_every",
    values: "time, such as \"10s\"",
    doc: "a payload that was created this much later is passed on in any case, as a sign of life",
};

fn build(setup: &Setup<'_>) -> Result<Built, SetupError> {
    let reader = setup.reader(DEADBAND.name)?;
    let (absolute, share) = match (setup.magnitude(&ABSOLUTE)?, setup.magnitude(&PERCENT)?) {
        (Some(absolute), None) => (absolute, 0.0),
        (None, Some(percent)) => (0.0, percent / 100.0),
        (None, None) => return Err(missing(&ABSOLUTE)),
        (Some(_), Some(_)) => {
            return Err(unsuitable(&PERCENT, "is given and `absolute` too: leave one of them out"));
        }
    };
    let at_least_every = setup.period(&AT_LEAST_EVERY)?;
    let operator = Box::new(Deadband {
        reader,
        absolute,
        share,
        at_least_every,
        passed: Vec::new(),
        passed_at: Time::ZERO,
    });
    Ok(Built {
        operator,
        output: setup.inputs[0].clone(),
        answers: Answers::Sometimes,
        memory: Memory::Saved,
    })
}

struct Deadband {
    reader: Reader,
    absolute: f64,
    share: f64,
    at_least_every: Option<Span>,
    /// The numbers that were passed on last; empty before that.
    passed: Vec<f64>,
    passed_at: Time,
}

impl Operator for Deadband {
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        let readings = self.reader.read(inputs)?;
        let now = newest(inputs);
        let (absolute, share) = (self.absolute, self.share);
        let differs = |(new, old): (&f64, &f64)| (new - old).abs() > absolute + share * old.abs();
        let is_news = readings.len() != self.passed.len() || readings.iter().zip(&self.passed).any(differs);
        let is_due = self.at_least_every.is_some_and(|span| now.since(self.passed_at) >= span);
        if !is_news && !is_due {
            return Ok(Answer::Nothing);
        }
        self.passed.clear();
        self.passed.extend_from_slice(readings);
        self.passed_at = now;
        inputs.iter().for_each(|input| output.extend_from_slice(input.payload));
        Ok(Answer::Result)
    }

    fn save(&mut self, memory: &mut Vec<u8>) -> Result<(), Fault> {
        memory.put_u64(self.passed_at.0);
        self.passed.iter().for_each(|number| memory.put_f64(*number));
        Ok(())
    }

    fn restore(&mut self, memory: &[u8]) -> Result<(), Fault> {
        let (at, numbers) = numbers_after_a_time(memory).ok_or(FOREIGN)?;
        (self.passed_at, self.passed) = (at, numbers);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{OneOperator, f64s};
    use super::*;
    use crate::operator::Value;
    use crate::payload::PayloadType;

    fn passes(one: &mut OneOperator, readings: &[f64]) -> bool {
        one.numbers(&f64s(readings)).unwrap().is_some_and(|passed| passed == readings)
    }

    #[test]
    fn slow_drift_passes_once_it_adds_up() {
        let mut one = OneOperator::new("deadband", &["f64"], &[("absolute", Value::Number(1.0))]);
        let passed: Vec<bool> =
            [5.0, 5.5, 6.0, 6.1, 5.2, 5.0].iter().map(|reading| passes(&mut one, &[*reading])).collect();
        assert_eq!(passed, [true, false, false, true, false, true]);
    }

    #[test]
    fn a_share_is_of_what_was_passed_on() {
        let mut one = OneOperator::new("deadband", &["f64"], &[("percent", Value::Number(10.0))]);
        let passed: Vec<bool> = [-100.0, -109.0, -111.0, -101.0, -99.0, 0.0, 1e-9]
            .iter()
            .map(|reading| passes(&mut one, &[*reading]))
            .collect();
        assert_eq!(passed, [true, false, true, false, true, true, true]);
    }

    #[test]
    fn a_sign_of_life_is_passed_on() {
        let parameters = [("absolute", Value::Number(1.0)), ("at_least_every", Value::Span(Span(10)))];
        let mut one = OneOperator::new("deadband", &["f64"], &parameters);
        let at = |now: u64| Time(1_000 + now);
        for (now, expected) in [(0, true), (9, false), (10, true), (15, false), (25, true), (24, false)] {
            one.now = at(now);
            assert_eq!(passes(&mut one, &[1.0]), expected, "{now}");
        }
    }

    #[test]
    fn one_number_of_several_is_enough_and_another_length_is_news() {
        let mut one = OneOperator::new("deadband", &["f64"], &[("absolute", Value::Number(0.0))]);
        assert!(passes(&mut one, &[1.0, 2.0]) && !passes(&mut one, &[1.0, 2.0]));
        assert!(passes(&mut one, &[1.0, 2.1]) && passes(&mut one, &[1.0]));
        assert!(one.run(&[]).is_err() && one.run(&[1]).is_err());
        assert!(!passes(&mut one, &[1.0]));
    }

    #[test]
    fn the_payload_stays_what_it_is() {
        let mut one = OneOperator::new("deadband", &["json:a"], &[("absolute", Value::Number(0.0))]);
        assert_eq!(one.output, PayloadType::Json("a".to_owned()));
        let document = br#"{ "a": 1, "b": "kept" }"#;
        assert_eq!(one.run(document), Ok(Some(document.to_vec())));
        assert!(one.run(b"garbage").is_err());
    }

    #[test]
    fn one_measure_of_difference_is_wanted() {
        let number = Value::Number;
        assert!(OneOperator::refused("deadband", &["f64"], &[]).starts_with("`absolute` is missing"));
        let both = [("absolute", number(1.0)), ("percent", number(1.0))];
        assert!(OneOperator::refused("deadband", &["f64"], &both).contains("leave one of them out"));
        assert!(
            OneOperator::refused("deadband", &["f64"], &[("percent", number(-1.0))])
                .contains("must not be negative")
        );
    }
}
