//! Readings of several inputs side by side.

use super::setup::AS;
use crate::numbers::{self, Reader};
use crate::operator::{
    Answer, Answers, Built, Fault, Input, Kind, Memory, Operator, ParameterDoc, Setup, SetupError,
};
use crate::payload::{Element, PayloadType};
use crate::validity::Validity;
use contract::Span;

/// `join`.
pub const JOIN: Kind = Kind {
    name: "join",
    doc: "Puts the numbers of all inputs into one array, in the order of the inputs. It needs all of them at once: a join of \
          all.",
    inputs: (1, usize::MAX),
    parameters: &[WITHIN, AS],
    build,
};

const WITHIN: ParameterDoc = ParameterDoc {
    name: "within",
    values: "time, such as \"5ms\", default any",
    doc: "how far apart the readings may have been created; those further apart are dropped",
};

fn build(setup: &Setup<'_>) -> Result<Built, SetupError> {
    let reader = setup.reader(JOIN.name)?;
    let within = setup.span(&WITHIN)?;
    let element = setup.element()?;
    let answers = if within.is_some() { Answers::Sometimes } else { Answers::Always };
    let operator = Box::new(Join { reader, within, element });
    Ok(Built { operator, output: PayloadType::Array(element), answers, memory: Memory::Nothing })
}

struct Join {
    reader: Reader,
    within: Option<Span>,
    element: Element,
}

impl Operator for Join {
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        if inputs.len() != self.reader.slots() {
            return Err(Fault::Failed("it needs all inputs at once: let it join all"));
        }
        let readings = self.reader.read(inputs)?;
        let spread = Validity::spread(inputs.iter().map(|input| input.created));
        if self.within.is_some_and(|within| spread > within) {
            return Ok(Answer::Nothing);
        }
        numbers::write(readings, self.element, output)?;
        Ok(Answer::Result)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{OneOperator, f64s};
    use super::*;
    use crate::operator::Value;
    use contract::Time;

    #[test]
    fn numbers_come_in_the_order_of_the_inputs() {
        let mut one = OneOperator::new("join", &["i16", "json:a", "f64"], &[]);
        let result = one.run_all(&[&7_i16.to_le_bytes(), br#"{"a":[1,2]}"#, &f64s(&[0.5])]);
        assert_eq!(result, Ok(Some(f64s(&[7.0, 1.0, 2.0, 0.5]))));
    }

    #[test]
    fn readings_too_far_apart_say_nothing() {
        let mut one = OneOperator::new("join", &["f64", "f64"], &[("within", Value::Span(Span(5)))]);
        let reading = f64s(&[1.0]);
        let mut at = |first, second| {
            one.run_at(&[(&reading, Time(first)), (&reading, Time(second))]).unwrap().is_some()
        };
        assert!(at(10, 15) && at(15, 10) && !at(10, 16) && !at(16, 10));
    }

    #[test]
    fn one_bad_input_or_one_alone_is_a_fault() {
        let mut one = OneOperator::new("join", &["f64", "f64"], &[]);
        assert!(matches!(one.run(&f64s(&[1.0])), Err(Fault::Failed(_))));
        let result = one.run_all(&[&f64s(&[1.0]), &[1, 2]]);
        assert_eq!(result, Err(Fault::TooShort { slot: 1, bytes: 2, needed: 8 }));
        assert!(one.run_all(&[&[], &[]]).is_err());
    }
}
