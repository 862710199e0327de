//! The source's CAT.

use crate::operator::{Answer, Answers, Built, Fault, Input, Kind, Operator, Setup, SetupError};
use crate::payload::PayloadType;

/// `concat`.
pub const CONCAT: Kind = Kind {
    name: "concat",
    doc: "Puts the bytes of all inputs one after another, in the order of the inputs, whatever they are.",
    inputs: (1, usize::MAX),
    parameters: &[],
    build,
};

/// Arrays of one type one after another are an array of that type. Anything else is just bytes.
fn build(setup: &Setup<'_>) -> Result<Built, SetupError> {
    let output = match setup.inputs {
        [first @ PayloadType::Array(_), others @ ..] if others.iter().all(|other| other == first) => {
            first.clone()
        }
        _ => PayloadType::Bytes,
    };
    Ok(Built { operator: Box::new(Concat), output, answers: Answers::Always })
}

struct Concat;

impl Operator for Concat {
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        inputs.iter().for_each(|input| output.extend_from_slice(input.payload));
        Ok(Answer::Result)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;

    #[test]
    fn bytes_follow_bytes() {
        let mut bench = Bench::new("concat", &["bytes", "bytes", "f64"], &[]);
        assert_eq!(bench.run_all(&[b"ab", b"", b"c"]), Ok(Some(b"abc".to_vec())));
        assert_eq!(bench.run_all(&[b"", b"", b""]), Ok(Some(Vec::new())));
    }

    #[test]
    fn arrays_of_one_type_stay_one() {
        assert_eq!(Bench::new("concat", &["i16", "i16"], &[]).output.to_string(), "i16");
        assert_eq!(Bench::new("concat", &["i16", "i32"], &[]).output.to_string(), "bytes");
        assert_eq!(Bench::new("concat", &["json", "json"], &[]).output.to_string(), "bytes");
    }
}
