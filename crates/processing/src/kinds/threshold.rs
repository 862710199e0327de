//! Alarms: above or below a level, and over only when well back.

use super::setup::{AS, missing, unsuitable};
use crate::memory::FOREIGN;
use crate::numbers::{self, Reader};
use crate::operator::{
    Answer, Answers, Built, Fault, Input, Kind, Memory, Operator, ParameterDoc, Setup, SetupError,
};
use crate::payload::{Element, PayloadType};

/// `threshold`.
pub const THRESHOLD: Kind = Kind {
    name: "threshold",
    doc: "Says 1 when a number passes a level, and 0 when all are back at the level `clear`; nothing in between. \
          It begins at 0.",
    inputs: (1, 1),
    parameters: &[ABOVE, BELOW, CLEAR, EVERY, AS],
    build,
};

const ABOVE: ParameterDoc =
    ParameterDoc { name: "above", values: "number", doc: "the level above which it says 1; this or `below`" };
const BELOW: ParameterDoc =
    ParameterDoc { name: "below", values: "number", doc: "the level below which it says 1; this or `above`" };
const CLEAR: ParameterDoc = ParameterDoc {
    name: "clear",
    values: "number, default the level itself",
    doc: "the level at which it is over; at some distance from the other, so that noise makes no series of alarms",
};
const EVERY: ParameterDoc = ParameterDoc {
    name: "every",
    values: "switch, default false",
    doc: "whether to say it for every reading",
};

fn build(setup: &Setup<'_>) -> Result<Built, SetupError> {
    let reader = setup.reader(THRESHOLD.name)?;
    // Below is above with the signs turned round.
    let (sign, level) = match (setup.number(&ABOVE)?, setup.number(&BELOW)?) {
        (Some(level), None) => (1.0, level),
        (None, Some(level)) => (-1.0, -level),
        (None, None) => return Err(missing(&ABOVE)),
        (Some(_), Some(_)) => {
            return Err(unsuitable(&BELOW, "is given and `above` too: use two operators, one for each"));
        }
    };
    let clear = setup.number(&CLEAR)?.map_or(level, |clear| sign * clear);
    if clear > level {
        let side = if sign > 0.0 { "above" } else { "below" };
        return Err(unsuitable(&CLEAR, format!("lies {side} the level, and must lie on its other side")));
    }
    let every = setup.switch(&EVERY)?;
    let element = setup.element()?;
    let operator = Box::new(Threshold { reader, sign, level, clear, every, raised: false, element });
    let answers = if every { Answers::Always } else { Answers::Sometimes };
    Ok(Built { operator, output: PayloadType::Array(element), answers, memory: Memory::Saved })
}

struct Threshold {
    reader: Reader,
    sign: f64,
    level: f64,
    clear: f64,
    every: bool,
    raised: bool,
    element: Element,
}

impl Operator for Threshold {
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        let sign = self.sign;
        let readings = self.reader.read(inputs)?.iter().map(|reading| sign * reading);
        let worst = readings.fold(f64::NEG_INFINITY, f64::max);
        let before = self.raised;
        self.raised = worst > if before { self.clear } else { self.level };
        if self.raised == before && !self.every {
            return Ok(Answer::Nothing);
        }
        numbers::write(&[f64::from(u8::from(self.raised))], self.element, output)?;
        Ok(Answer::Result)
    }

    fn save(&mut self, memory: &mut Vec<u8>) -> Result<(), Fault> {
        memory.push(u8::from(self.raised));
        Ok(())
    }

    fn restore(&mut self, memory: &[u8]) -> Result<(), Fault> {
        let [raised @ (0 | 1)] = memory else { return Err(FOREIGN) };
        self.raised = *raised == 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{OneOperator, f64s};
    use crate::operator::Value;

    fn said(parameters: &[(&str, Value)], readings: &[f64]) -> Vec<Option<f64>> {
        let mut one = OneOperator::new("threshold", &["f64"], parameters);
        let mut run = |reading: &f64| one.numbers(&f64s(&[*reading])).unwrap().map(|said| said[0]);
        readings.iter().map(&mut run).collect()
    }

    #[test]
    fn it_speaks_on_change_and_noise_between_the_levels_changes_nothing() {
        let parameters = [("above", Value::Number(80.0)), ("clear", Value::Number(75.0))];
        let readings = [70.0, 80.0, 80.1, 79.0, 81.0, 75.1, 75.0, 79.0, 90.0];
        let expected = [None, None, Some(1.0), None, None, None, Some(0.0), None, Some(1.0)];
        assert_eq!(said(&parameters, &readings), expected);
    }

    #[test]
    fn below_is_the_mirror_image() {
        let parameters = [("below", Value::Number(-2.0)), ("clear", Value::Number(0.0))];
        assert_eq!(said(&parameters, &[-2.0, -2.1, -1.0, 0.0]), [None, Some(1.0), None, Some(0.0)]);
    }

    #[test]
    fn every_reading_gets_its_word_if_wanted() {
        let parameters = [("above", Value::Number(1.0)), ("every", Value::Switch(true))];
        assert_eq!(said(&parameters, &[0.0, 2.0, 2.0, 1.0]), [Some(0.0), Some(1.0), Some(1.0), Some(0.0)]);
    }

    #[test]
    fn one_number_of_several_is_enough_and_all_must_be_back() {
        let mut one = OneOperator::new("threshold", &["f64"], &[("above", Value::Number(1.0))]);
        assert_eq!(one.numbers(&f64s(&[0.0, 2.0])), Ok(Some(vec![1.0])));
        assert_eq!(one.numbers(&f64s(&[2.0, 0.0])), Ok(None));
        assert!(one.run(&[]).is_err() && one.run(&[0; 7]).is_err());
        assert_eq!(one.numbers(&f64s(&[0.0, 0.0])), Ok(Some(vec![0.0])));
    }

    #[test]
    fn levels_must_make_sense() {
        let refused = |parameters: &[(&str, f64)]| {
            let parameters: Vec<_> =
                parameters.iter().map(|(name, level)| (*name, Value::Number(*level))).collect();
            OneOperator::refused("threshold", &["f64"], &parameters)
        };
        assert!(refused(&[]).starts_with("`above` is missing"));
        assert!(refused(&[("above", 1.0), ("below", 0.0)]).contains("use two operators"));
        assert!(refused(&[("above", 1.0), ("clear", 2.0)]).starts_with("`clear` lies above the level"));
        assert!(refused(&[("below", 1.0), ("clear", 0.0)]).starts_with("`clear` lies below the level"));
        assert!(refused(&[("above", f64::INFINITY)]).contains("must be finite"));
    }
}
