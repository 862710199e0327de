//! CPEP's operator CAT (§2.6).

use crate::operator::{Answer, Answers, Built, Fault, Input, Kind, Memory, Operator, Setup, SetupError};
use crate::payload::PayloadType;

/// `concat`.
pub const CONCAT: Kind = Kind {
    name: "concat",
    doc: "Puts the bytes of all inputs one after another, in the order of the inputs. Arrays of one type make an array of that type; anything else \
          makes just bytes.",
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
    let element_len = if let PayloadType::Array(element) = output { element.bytes() } else { 1 };
    Ok(Built {
        operator: Box::new(Concat { element_len }),
        output,
        answers: Answers::Always,
        memory: Memory::Nothing,
    })
}

struct Concat {
    /// Every input has a whole number of these: half an element would shift all that follow it.
    element_len: usize,
}

impl Operator for Concat {
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        for input in inputs {
            let bytes = input.payload.len();
            let needed = bytes.next_multiple_of(self.element_len);
            if bytes < needed {
                return Err(Fault::TooShort { slot: input.slot, bytes, needed });
            }
            output.extend_from_slice(input.payload);
        }
        Ok(Answer::Result)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::OneOperator;
    use crate::operator::Fault;

    #[test]
    fn bytes_follow_bytes() {
        let mut one = OneOperator::new("concat", &["bytes", "bytes", "f64"], &[]);
        assert_eq!(one.run_all(&[b"ab", b"", b"c"]), Ok(Some(b"abc".to_vec())));
        assert_eq!(one.run_all(&[b"", b"", b""]), Ok(Some(Vec::new())));
    }

    #[test]
    fn arrays_of_one_type_stay_one() {
        assert_eq!(OneOperator::new("concat", &["i16", "i16"], &[]).output.to_string(), "i16");
        let result = OneOperator::new("concat", &["i16", "i16"], &[]).run_all(&[b"ab", b"c"]);
        assert_eq!(result, Err(Fault::TooShort { slot: 1, bytes: 1, needed: 2 }));
        assert_eq!(OneOperator::new("concat", &["i16", "i32"], &[]).output.to_string(), "bytes");
        assert_eq!(OneOperator::new("concat", &["json", "json"], &[]).output.to_string(), "bytes");
    }
}
