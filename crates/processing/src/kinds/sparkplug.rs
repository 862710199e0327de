//! Sparkplug B: one metric of an edge node or a device, out of its births and its data.
//!
//! A payload is a message of Protocol Buffers. Births name every metric with its type and, if they like, a number for it (its alias); data
//! may have the number alone and no type. So the number and the type of the metric are remembered from the last payload that had them. What
//! this reads of a payload is a dozen fields, all of which may be there or not, so it is read in place.

use super::setup::{missing, unsuitable};
use crate::memory::{FOREIGN, Put, Recalled};
use crate::numbers;
use crate::operator::{
    Answer, Answers, Built, Fault, Input, Kind, Memory, Operator, ParameterDoc, Setup, SetupError,
};
use crate::payload::{Element, PayloadType};

/// `sparkplug`.
pub const SPARKPLUG: Kind = Kind {
    name: "sparkplug",
    doc: "Takes one metric out of payloads of Sparkplug B. Its inputs are the topics of births and of data, of type `bytes`, with `join = \"any\"`: \
          from births it knows aliases and types. It has a result when the metric is there and not null; `true` is 1. What is historical is \
          left out.",
    inputs: (1, 2),
    parameters: &[METRIC, super::setup::AS],
    build,
};

const METRIC: ParameterDoc =
    ParameterDoc { name: "metric", values: "a text, required", doc: "the name of the metric" };

fn build(setup: &Setup<'_>) -> Result<Built, SetupError> {
    let name = setup.text(&METRIC)?.ok_or_else(|| missing(&METRIC))?;
    if name.is_empty() {
        return Err(unsuitable(&METRIC, "is empty"));
    }
    if setup.inputs.iter().any(|input| *input != PayloadType::Bytes) {
        return Err(unsuitable(
            &METRIC,
            "is looked for in payloads of Sparkplug B: give its sources type = \"bytes\"",
        ));
    }
    let element = setup.element()?;
    let operator = Box::new(Sparkplug { name: name.into(), known: Known::default(), element });
    Ok(Built {
        operator,
        output: PayloadType::Array(element),
        answers: Answers::Sometimes,
        memory: Memory::Saved,
    })
}

struct Sparkplug {
    name: Box<str>,
    known: Known,
    element: Element,
}

/// What births have told of the metric.
#[derive(Clone, Copy, Default)]
struct Known {
    alias: Option<u64>,
    datatype: Option<u64>,
}

/// A metric as it stands in a payload.
#[derive(Default)]
struct Metric<'a> {
    name: Option<&'a [u8]>,
    alias: Option<u64>,
    datatype: Option<u64>,
    is_historical: bool,
    is_null: bool,
    value: Option<Value<'a>>,
}

#[derive(Clone, Copy)]
enum Value<'a> {
    /// Of 32 bits, and of 64.
    Whole(u64, u32),
    Number(f64),
    Text(&'a [u8]),
    Other,
}

/// Types of metrics: whole numbers with a sign, by how many bits they have.
const SIGNED: [(u64, u32); 4] = [(1, 8), (2, 16), (3, 32), (4, 64)];
/// The last of the types that are whole numbers.
const WHOLE_LAST: u64 = 8;
const BOOLEAN: u64 = 11;
const DATE_TIME: u64 = 13;

const TORN: &str = "it is no payload of Sparkplug B";

impl Operator for Sparkplug {
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        let mut found = None;
        for input in inputs {
            let malformed = |reason| Fault::Malformed { slot: input.slot, reason };
            found = self.look(input.payload).map_err(malformed)?.or(found);
        }
        let Some(number) = found else { return Ok(Answer::Nothing) };
        numbers::write(&[number], self.element, output)?;
        Ok(Answer::Result)
    }

    fn save(&mut self, memory: &mut Vec<u8>) -> Result<(), Fault> {
        for known in [self.known.alias, self.known.datatype] {
            memory.put_u64(known.is_some().into());
            memory.put_u64(known.unwrap_or_default());
        }
        Ok(())
    }

    fn restore(&mut self, memory: &[u8]) -> Result<(), Fault> {
        let mut recalled = Recalled(memory);
        let mut next = || Some((recalled.u64()?, recalled.u64()?));
        let (Some(alias), Some(datatype)) = (next(), next()) else { return Err(FOREIGN) };
        let known = |(there, value): (u64, u64)| (there == 1).then_some(value);
        self.known = Known { alias: known(alias), datatype: known(datatype) };
        Ok(())
    }
}

impl Sparkplug {
    /// The newest value of the metric in a payload. What is remembered changes only if all of it can be read.
    fn look(&mut self, payload: &[u8]) -> Result<Option<f64>, &'static str> {
        let (mut known, mut found) = (self.known, None);
        for field in Fields(payload) {
            // The metrics; other fields are the payload's time, its number and its body.
            let (2, Field::Bytes(bytes)) = field? else { continue };
            let metric = Metric::read(bytes)?;
            let is_ours = match metric.name {
                Some(name) => name == self.name.as_bytes(),
                None => metric.alias.is_some() && metric.alias == known.alias,
            };
            if !is_ours {
                // Another metric has the number now.
                let taken = metric.name.is_some() && metric.alias.is_some() && metric.alias == known.alias;
                known = if taken { Known::default() } else { known };
                continue;
            }
            known =
                Known { alias: metric.alias.or(known.alias), datatype: metric.datatype.or(known.datatype) };
            if metric.is_historical {
                continue;
            }
            found = match metric.value.filter(|_| !metric.is_null) {
                Some(value) => Some(number(value, known.datatype)?),
                None => None,
            };
        }
        self.known = known;
        Ok(found)
    }
}

fn number(value: Value<'_>, datatype: Option<u64>) -> Result<f64, &'static str> {
    match value {
        Value::Number(number) => Ok(number),
        Value::Text(text) => {
            let text = str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok());
            text.ok_or("the metric is a text that is no number")
        }
        Value::Other => Err("the metric is no number"),
        Value::Whole(whole, bits) => match datatype {
            Some(datatype)
                if let Some((_, width)) = SIGNED.iter().find(|(signed, _)| *signed == datatype) =>
            {
                // What is narrower stands in the lowest bits, whatever is above.
                let unused = 64 - width;
                Ok(((whole << unused) as i64 >> unused) as f64)
            }
            Some(1..=WHOLE_LAST | BOOLEAN | DATE_TIME) => Ok(whole as f64),
            Some(_) => Err("the metric is of another type than its birth says"),
            None if whole >> (bits - 1) == 0 => Ok(whole as f64),
            None => Err("no birth has said whether the metric has a sign"),
        },
    }
}

impl<'a> Metric<'a> {
    fn read(bytes: &'a [u8]) -> Result<Metric<'a>, &'static str> {
        let mut metric = Metric::default();
        for field in Fields(bytes) {
            match field? {
                (1, Field::Bytes(name)) => metric.name = Some(name),
                (2, Field::Whole(alias)) => metric.alias = Some(alias),
                (4, Field::Whole(datatype)) => metric.datatype = Some(datatype),
                (5, Field::Whole(on)) => metric.is_historical = on != 0,
                (7, Field::Whole(on)) => metric.is_null = on != 0,
                (10, Field::Whole(whole)) => {
                    metric.value = Some(Value::Whole(whole & u64::from(u32::MAX), 32));
                }
                (11, Field::Whole(whole)) => metric.value = Some(Value::Whole(whole, 64)),
                (12, Field::Four(bytes)) => {
                    metric.value = Some(Value::Number(f32::from_le_bytes(bytes).into()));
                }
                (13, Field::Eight(bytes)) => metric.value = Some(Value::Number(f64::from_le_bytes(bytes))),
                (14, Field::Whole(on)) => metric.value = Some(Value::Number(f64::from(u8::from(on != 0)))),
                (15, Field::Bytes(text)) => metric.value = Some(Value::Text(text)),
                (16..=19, Field::Bytes(_)) => metric.value = Some(Value::Other),
                (1 | 2 | 4 | 5 | 7 | 10..=19, _) => return Err(TORN),
                _ => {}
            }
        }
        Ok(metric)
    }
}

/// A field of a message of Protocol Buffers.
enum Field<'a> {
    Whole(u64),
    Four([u8; 4]),
    Eight([u8; 8]),
    Bytes(&'a [u8]),
}

/// The fields of a message, each with its number. After one that cannot be read there are no more.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Field<'a>), &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or(TORN))
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u64, Field<'a>)> {
        let key = self.whole()?;
        let field = match key & 7 {
            0 => Field::Whole(self.whole()?),
            1 => Field::Eight(*self.0.split_off(..8)?.first_chunk()?),
            2 => {
                let length = usize::try_from(self.whole()?).ok()?;
                Field::Bytes(self.0.split_off(..length)?)
            }
            5 => Field::Four(*self.0.split_off(..4)?.first_chunk()?),
            _ => return None,
        };
        Some((key >> 3, field))
    }

    /// A number of up to 64 bits, seven to a byte.
    fn whole(&mut self) -> Option<u64> {
        let mut value = 0;
        for place in 0..10 {
            let byte = *self.0.split_off_first()?;
            value |= u64::from(byte & 0x7f).checked_shl(7 * place)?;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{OneOperator, text};
    use super::*;
    use proptest::prelude::*;

    fn varint(mut value: u64, out: &mut Vec<u8>) {
        while value > 0x7f {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    }

    fn whole(number: u64, value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        varint(number << 3, &mut out);
        varint(value, &mut out);
        out
    }

    fn bytes(number: u64, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        varint(number << 3 | 2, &mut out);
        varint(bytes.len() as u64, &mut out);
        out.extend_from_slice(bytes);
        out
    }

    fn fixed(number: u64, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        varint(number << 3 | if bytes.len() == 4 { 5 } else { 1 }, &mut out);
        out.extend_from_slice(bytes);
        out
    }

    /// A payload with its time, these metrics, and its number.
    fn payload(metrics: &[&[Vec<u8>]]) -> Vec<u8> {
        let mut out = whole(1, 1_700_000_000_000);
        metrics.iter().for_each(|metric| out.extend(bytes(2, &metric.concat())));
        out.extend(whole(3, 7));
        out
    }

    fn one() -> OneOperator {
        OneOperator::new("sparkplug", &["bytes", "bytes"], &[("metric", text("T"))])
    }

    /// A birth gives the metric its number and type, and data have the number alone.
    fn read(datatype: u64, value: Vec<u8>) -> Result<Option<f64>, Fault> {
        let mut one = one();
        let birth = payload(&[
            &[bytes(1, b"other"), whole(2, 4), whole(4, 9)],
            &[bytes(1, b"T"), whole(2, 5), whole(4, datatype), whole(7, 1)],
        ]);
        assert_eq!(one.numbers(&birth), Ok(None), "it is null in its birth");
        let data = payload(&[&[whole(2, 4), fixed(12, &1_f32.to_le_bytes())], &[whole(2, 5), value]]);
        one.numbers(&data).map(|numbers| numbers.map(|numbers| numbers[0]))
    }

    #[test]
    fn all_types_are_read_and_signs_are_right() {
        for (datatype, value, number) in [
            (1, whole(10, u64::from(-5_i32 as u32)), -5.0),
            (1, whole(10, 0xfb), -5.0),
            (2, whole(10, u64::from(-300_i32 as u32)), -300.0),
            (3, whole(10, u64::from(-5_i32 as u32)), -5.0),
            // A writer that extends the sign to 64 bits.
            (3, whole(10, -5_i64 as u64), -5.0),
            (4, whole(11, -5_i64 as u64), -5.0),
            (5, whole(10, 250), 250.0),
            (7, whole(10, 4_000_000_000), 4e9),
            (8, whole(11, 1 << 63), 9_223_372_036_854_775_808.0),
            (9, fixed(12, &21.5_f32.to_le_bytes()), 21.5),
            (10, fixed(13, &(-0.1_f64).to_le_bytes()), -0.1),
            (11, whole(14, 1), 1.0),
            (12, bytes(15, b" 12.5"), 12.5),
            (13, whole(11, 1_700_000_000_000), 1.7e12),
        ] {
            assert_eq!(read(datatype, value), Ok(Some(number)), "type {datatype}");
        }
        for value in [bytes(15, b"run"), bytes(16, b"\x01"), bytes(10, b"\x01")] {
            assert!(matches!(read(12, value), Err(Fault::Malformed { .. })));
        }
    }

    #[test]
    fn without_a_birth_only_names_count_and_signs_are_not_guessed() {
        let mut one = one();
        assert_eq!(
            one.numbers(&payload(&[&[whole(2, 5), whole(10, 3)]])),
            Ok(None),
            "nobody has said what 5 is"
        );
        assert_eq!(one.numbers(&payload(&[&[bytes(1, b"T"), whole(10, 3)]])), Ok(Some(vec![3.0])));
        let negative = payload(&[&[bytes(1, b"T"), whole(10, u64::from(-5_i32 as u32))]]);
        assert!(
            matches!(one.numbers(&negative), Err(Fault::Malformed { reason, .. }) if reason.contains("sign"))
        );
        // A birth that gives the number to another metric.
        let births = [(b"T", 5), (b"U", 5)]
            .map(|(name, alias)| payload(&[&[bytes(1, name), whole(2, alias), whole(4, 3), whole(10, 1)]]));
        assert_eq!(one.numbers(&births[0]), Ok(Some(vec![1.0])));
        assert_eq!(one.numbers(&births[1]), Ok(None));
        assert_eq!(one.numbers(&payload(&[&[whole(2, 5), whole(10, 3)]])), Ok(None));
    }

    #[test]
    fn what_is_historical_or_in_another_type_is_left_out_or_refused() {
        let old = payload(&[&[bytes(1, b"T"), whole(4, 3), whole(5, 1), whole(10, 3)]]);
        assert_eq!(one().numbers(&old), Ok(None));
        assert!(
            matches!(read(9, whole(10, 3)), Err(Fault::Malformed { .. })),
            "a float that comes as a whole number"
        );
        let refused = OneOperator::refused("sparkplug", &["f64"], &[("metric", text("T"))]);
        assert!(refused.contains("type = \"bytes\""), "{refused}");
        assert!(OneOperator::refused("sparkplug", &["bytes"], &[]).contains("metric"));
    }

    proptest! {
        #[test]
        fn rubbish_is_refused_and_never_more(rubbish in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = one().numbers(&rubbish);
        }

        #[test]
        fn a_torn_payload_is_refused_and_nothing_of_it_is_remembered(keep in 1_usize..24) {
            let whole_payload = payload(&[&[bytes(1, b"T"), whole(2, 5), whole(4, 3), whole(10, 1)]]);
            let torn = &whole_payload[..whole_payload.len().min(7 + keep)];
            let mut one = one();
            if one.numbers(torn).is_err() {
                prop_assert_eq!(one.numbers(&payload(&[&[whole(2, 5), whole(10, 3)]])), Ok(None));
            }
        }
    }
}
