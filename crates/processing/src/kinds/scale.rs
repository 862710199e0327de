//! Straight lines: units of measurement, gains, offsets.

use super::setup::{AS, missing, unsuitable};
use crate::numbers::{self, Reader};
use crate::operator::{
    Answer, Answers, Built, Fault, Input, Kind, Memory, Operator, ParameterDoc, Setup, SetupError,
};
use crate::payload::{Element, PayloadType};

/// `scale`.
pub const SCALE: Kind = Kind {
    name: "scale",
    doc: "Multiplies every number and adds to it: unit conversion first, then `gain`, then `offset`.",
    inputs: (1, 1),
    parameters: &[FROM, TO, GAIN, OFFSET, AS],
    build,
};

const FROM: ParameterDoc = ParameterDoc {
    name: "from",
    values: UNIT_NAMES,
    doc: "the unit of the readings; `to` must be of the same quantity",
};
const TO: ParameterDoc = ParameterDoc { name: "to", values: "as `from`", doc: "the unit of the results" };
const GAIN: ParameterDoc =
    ParameterDoc { name: "gain", values: "number, default 1", doc: "what to multiply by" };
const OFFSET: ParameterDoc =
    ParameterDoc { name: "offset", values: "number, default 0", doc: "what to add after multiplying" };

fn build(setup: &Setup<'_>) -> Result<Built, SetupError> {
    let reader = setup.reader(SCALE.name)?;
    let (mut gain, mut offset) = match (setup.text(&FROM)?, setup.text(&TO)?) {
        (None, None) => (1.0, 0.0),
        (Some(_), None) => return Err(missing(&TO)),
        (None, Some(_)) => return Err(missing(&FROM)),
        (Some(from), Some(to)) => conversion(from, to)?,
    };
    let factor = setup.number(&GAIN)?.unwrap_or(1.0);
    gain *= factor;
    offset = offset * factor + setup.number(&OFFSET)?.unwrap_or(0.0);
    let element = setup.element()?;
    let operator = Box::new(Scale { reader, gain, offset, element, results: Vec::new() });
    Ok(Built {
        operator,
        output: PayloadType::Array(element),
        answers: Answers::Always,
        memory: Memory::Nothing,
    })
}

struct Scale {
    reader: Reader,
    gain: f64,
    offset: f64,
    element: Element,
    results: Vec<f64>,
}

impl Operator for Scale {
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        self.results.clear();
        let readings = self.reader.read(inputs)?;
        self.results.extend(readings.iter().map(|reading| reading * self.gain + self.offset));
        numbers::write(&self.results, self.element, output)?;
        Ok(Answer::Result)
    }
}

/// The gain and offset from one unit to another.
fn conversion(from: &str, to: &str) -> Result<(f64, f64), SetupError> {
    let find = |doc, name: &str| {
        let found = UNITS.iter().find(|unit| unit.name == name);
        found.ok_or_else(|| unsuitable(doc, format!("is `{name}`, and may be {UNIT_NAMES}")))
    };
    let (from, to) = (find(&FROM, from)?, find(&TO, to)?);
    if from.quantity != to.quantity {
        return Err(unsuitable(&TO, format!("is {}, and {} is {}", to.quantity, from.name, from.quantity)));
    }
    Ok((from.gain / to.gain, (from.offset - to.offset) / to.gain))
}

/// A unit: a reading in it times `gain` plus `offset` is in the base unit of its quantity.
struct Unit {
    name: &'static str,
    quantity: &'static str,
    gain: f64,
    offset: f64,
}

const fn unit(name: &'static str, quantity: &'static str, gain: f64, offset: f64) -> Unit {
    Unit { name, quantity, gain, offset }
}

const UNIT_NAMES: &str = "degC, degF, K; Pa, hPa, kPa, MPa, bar, psi, atm; m/s, km/h, mph, kn; rad/s, rpm, Hz, deg/s; m, mm, km, in, ft; rad, deg";

/// Definitions, not measurements: an inch is 25.4 mm, a pound-force 4.4482216152605 N, a nautical mile 1852 m.
const UNITS: &[Unit] = &[
    unit("K", "a temperature", 1.0, 0.0),
    unit("degC", "a temperature", 1.0, 273.15),
    unit("degF", "a temperature", 5.0 / 9.0, 459.67 * 5.0 / 9.0),
    unit("Pa", "a pressure", 1.0, 0.0),
    unit("hPa", "a pressure", 1e2, 0.0),
    unit("kPa", "a pressure", 1e3, 0.0),
    unit("MPa", "a pressure", 1e6, 0.0),
    unit("bar", "a pressure", 1e5, 0.0),
    unit("psi", "a pressure", 4.448_221_615_260_5 / (0.0254 * 0.0254), 0.0),
    unit("atm", "a pressure", 101_325.0, 0.0),
    unit("m/s", "a speed", 1.0, 0.0),
    unit("km/h", "a speed", 1.0 / 3.6, 0.0),
    unit("mph", "a speed", 1609.344 / 3600.0, 0.0),
    unit("kn", "a speed", 1852.0 / 3600.0, 0.0),
    unit("rad/s", "a rate of turning", 1.0, 0.0),
    unit("rpm", "a rate of turning", std::f64::consts::TAU / 60.0, 0.0),
    unit("Hz", "a rate of turning", std::f64::consts::TAU, 0.0),
    unit("deg/s", "a rate of turning", std::f64::consts::PI / 180.0, 0.0),
    unit("m", "a length", 1.0, 0.0),
    unit("mm", "a length", 1e-3, 0.0),
    unit("km", "a length", 1e3, 0.0),
    unit("in", "a length", 0.0254, 0.0),
    unit("ft", "a length", 0.3048, 0.0),
    unit("rad", "an angle", 1.0, 0.0),
    unit("deg", "an angle", std::f64::consts::PI / 180.0, 0.0),
];

#[cfg(test)]
mod tests {
    use super::super::testing::{OneOperator, f64s, text};
    use super::*;
    use crate::operator::Value;

    fn converted(from: &str, to: &str, reading: f64) -> f64 {
        let mut one = OneOperator::new("scale", &["f64"], &[("from", text(from)), ("to", text(to))]);
        one.numbers(&f64s(&[reading])).unwrap().unwrap()[0]
    }

    #[test]
    fn units_are_converted() {
        for (from, reading, to, result) in [
            ("degC", 100.0, "degF", 212.0),
            ("degF", 32.0, "degC", 0.0),
            ("degC", 0.0, "K", 273.15),
            ("bar", 1.0, "psi", 14.503_773_773),
            ("psi", 1.0, "Pa", 6_894.757_293_168),
            ("Pa", 1500.0, "kPa", 1.5),
            ("m/s", 10.0, "km/h", 36.0),
            ("rpm", 3000.0, "Hz", 50.0),
            ("rpm", 60.0, "rad/s", std::f64::consts::TAU),
            ("deg", 180.0, "rad", std::f64::consts::PI),
            ("in", 1.0, "mm", 25.4),
        ] {
            let got = converted(from, to, reading);
            assert!((got - result).abs() < 1e-9 * result.abs().max(1.0), "{reading} {from} is {got} {to}");
        }
    }

    #[test]
    fn there_and_back_is_where_it_was_and_all_units_are_listed() {
        for one in UNITS {
            assert!(UNIT_NAMES.split([',', ';']).any(|name| name.trim() == one.name), "{}", one.name);
            for other in UNITS.iter().filter(|other| other.quantity == one.quantity) {
                let back = converted(other.name, one.name, converted(one.name, other.name, 12.5));
                assert!((back - 12.5).abs() < 1e-9, "{} {}", one.name, other.name);
            }
        }
    }

    #[test]
    fn gain_and_offset_come_after_the_unit() {
        let parameters = [
            ("from", text("km")),
            ("to", text("m")),
            ("gain", Value::Number(2.0)),
            ("offset", Value::Number(-1.0)),
        ];
        let mut one = OneOperator::new("scale", &["json:a"], &parameters);
        assert_eq!(one.numbers(br#"{"a":[1,2]}"#), Ok(Some(vec![1999.0, 3999.0])));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |parameters: &[(&str, Value)]| OneOperator::refused("scale", &["f64"], parameters);
        assert!(refused(&[("from", text("degC"))]).starts_with("`to` is missing"));
        assert!(refused(&[("to", text("degC"))]).starts_with("`from` is missing"));
        assert!(
            refused(&[("from", text("bar")), ("to", text("m"))])
                .starts_with("`to` is a length, and bar is a pressure")
        );
        assert!(refused(&[("from", text("furlong")), ("to", text("m"))]).contains("may be degC"));
        assert!(
            refused(&[("gain", Value::Number(f64::NAN))]).starts_with("`gain` is NaN, and must be finite")
        );
        assert!(refused(&[("gain", text("2"))]).starts_with("`gain` is a text, and must be a number"));
        assert!(refused(&[("as", text("f16"))]).starts_with("`as` is `f16`, and may be i16, i32, f32, f64"));
        assert!(OneOperator::refused("scale", &["bytes"], &[]).contains("give the source its `type`"));
    }

    #[test]
    fn a_result_that_does_not_fit_is_a_fault() {
        let mut one =
            OneOperator::new("scale", &["f64"], &[("as", text("i16")), ("gain", Value::Number(1000.0))]);
        assert_eq!(one.output, PayloadType::Array(Element::I16));
        assert_eq!(one.run(&f64s(&[3.0])).unwrap().unwrap(), 3000_i16.to_le_bytes());
        assert!(matches!(one.run(&f64s(&[33.0])), Err(Fault::Failed(_))));
    }
}
