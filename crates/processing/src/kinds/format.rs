//! Numbers as texts and documents, for those who read those.

use super::setup::unsuitable;
use crate::numbers::Reader;
use crate::operator::{
    Answer, Answers, Built, Fault, Input, Kind, Memory, Operator, ParameterDoc, Setup, SetupError,
};
use crate::payload::PayloadType;
use std::io::Write;

/// `format`.
pub const FORMAT: Kind = Kind {
    name: "format",
    doc: "Writes the numbers of a payload as a person or a program of another kind reads them: `12.5`, several with commas between; or \
          `{\"value\":12.5}`, with a list where there are several.",
    inputs: (1, 1),
    parameters: &[AS, KEY, DECIMALS],
    build,
};

const AS: ParameterDoc =
    ParameterDoc { name: "as", values: "text (default) or json", doc: "what the results are" };
const KEY: ParameterDoc = ParameterDoc {
    name: "key",
    values: "a text, default \"value\"",
    doc: "what the numbers are called in JSON",
};
const DECIMALS: ParameterDoc = ParameterDoc {
    name: "decimals",
    values: "whole number, 1 to 17",
    doc: "how many digits follow the point; left out: as many as the number has",
};

/// More digits tell nothing new.
const DECIMALS_MAX: usize = 17;

fn build(setup: &Setup<'_>) -> Result<Built, SetupError> {
    let reader = setup.reader(FORMAT.name)?;
    let is_json = setup.choice(&AS, &[("text", false), ("json", true)])?.unwrap_or(false);
    let given = setup.text(&KEY)?;
    if given.is_some() && !is_json {
        return Err(unsuitable(&KEY, "is given, and a text has no keys: leave it out, or say as = \"json\""));
    }
    let key = given.unwrap_or("value");
    if key.contains(|c: char| c.is_control() || matches!(c, '"' | '\\')) {
        return Err(unsuitable(&KEY, "must be without quotes, backslashes and control characters"));
    }
    let decimals = setup.count(&DECIMALS, DECIMALS_MAX)?;
    let (before, after) = if is_json { (format!("{{\"{key}\":"), "}") } else { (String::new(), "") };
    let output = if is_json { PayloadType::Json(format!("\"{key}\"")) } else { PayloadType::Text };
    let operator = Box::new(Format { reader, is_json, before, after, decimals });
    Ok(Built { operator, output, answers: Answers::Always, memory: Memory::Nothing })
}

struct Format {
    reader: Reader,
    is_json: bool,
    before: String,
    after: &'static str,
    decimals: Option<usize>,
}

impl Operator for Format {
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        let readings = self.reader.read(inputs)?;
        let listed = self.is_json && readings.len() > 1;
        output.extend_from_slice(self.before.as_bytes());
        output.extend(listed.then_some(b'['));
        for (at, reading) in readings.iter().enumerate() {
            output.extend((at > 0).then_some(b','));
            // Writing to memory fails never.
            let _ = match self.decimals {
                Some(decimals) => write!(output, "{reading:.decimals$}"),
                None => write!(output, "{reading}"),
            };
        }
        output.extend(listed.then_some(b']'));
        output.extend_from_slice(self.after.as_bytes());
        Ok(Answer::Result)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{OneOperator, f64s, text};
    use crate::operator::Value;
    use proptest::prelude::*;

    fn written(parameters: &[(&str, Value)], readings: &[f64]) -> String {
        let mut one = OneOperator::new("format", &["f64"], parameters);
        String::from_utf8(one.run(&f64s(readings)).unwrap().unwrap()).unwrap()
    }

    #[test]
    fn numbers_are_written_as_asked() {
        assert_eq!(written(&[], &[12.5]), "12.5");
        assert_eq!(written(&[], &[1.0, -2.25]), "1,-2.25");
        assert_eq!(written(&[("decimals", Value::Number(2.0))], &[1.0 / 3.0]), "0.33");
        assert_eq!(written(&[("as", text("json"))], &[12.5]), "{\"value\":12.5}");
        assert_eq!(written(&[("as", text("json")), ("key", text("kW"))], &[1.0, 2.0]), "{\"kW\":[1,2]}");
        let refused = OneOperator::refused("format", &["f64"], &[("key", text("kW"))]);
        assert!(refused.contains("as = \"json\""), "{refused}");
        assert!(
            OneOperator::refused("format", &["f64"], &[("as", text("json")), ("key", text("a\"b"))])
                .contains("quotes")
        );
        assert!(OneOperator::refused("format", &["bytes"], &[]).contains("bytes"));
    }

    proptest! {
        /// What is written is read back, by the type that the result says it has.
        #[test]
        fn what_is_written_is_read_back(readings in prop::collection::vec(-1e300_f64..1e300, 1..5), json in any::<bool>()) {
            let parameters = [("as", text(if json { "json" } else { "text" })), ("key", text("a.b[0]"))];
            let mut one = OneOperator::new("format", &["f64"], if json { &parameters } else { &parameters[..1] });
            prop_assert_eq!(one.numbers(&f64s(&readings)).unwrap().unwrap(), readings);
        }
    }
}
