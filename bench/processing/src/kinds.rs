//! The shipped kinds, `busy`, and `track`: the shipped `ekf` once for each point of its inputs' frames.
//!
//! CPEP §2.6 runs its filter on frames of hundreds of points. A reading of `ekf` has 8 numbers at most, so a frame is given
//! to it point by point, and the result is the filtered frame.

use crate::busy;
use contract::Span;
use processing::{
    Answer, Answers, Built, BuiltIn, Element, Factory, Fault, Input, Memory, Operator, PayloadType, Setup,
};

pub struct Kinds;

/// Between two points of a frame.
const POINT: Span = Span::micros(10);
const ELEMENT_BYTES: usize = size_of::<f32>();

impl Factory for Kinds {
    fn build(&self, kind: &str, setup: &Setup<'_>) -> Result<Built, String> {
        match kind {
            "track" => {}
            "busy" => return busy::build(setup),
            _ => return BuiltIn.build(kind, setup),
        }
        let Built { operator: filter, .. } = BuiltIn.build("ekf", setup)?;
        let operator = Box::new(Track { filter, state: Vec::new() });
        Ok(Built {
            operator,
            output: PayloadType::Array(Element::F32),
            answers: Answers::Always,
            memory: Memory::Nothing,
        })
    }
}

struct Track {
    filter: Box<dyn Operator>,
    state: Vec<u8>,
}

impl Operator for Track {
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        let points = inputs.iter().map(|input| input.payload.len() / ELEMENT_BYTES).min().unwrap_or(0);
        let mut reading = [Input { slot: 0, payload: &[], created: contract::Time::ZERO }; 2];
        for point in 0..points {
            let at = point * ELEMENT_BYTES..(point + 1) * ELEMENT_BYTES;
            for (part, input) in reading.iter_mut().zip(inputs) {
                let created = input.created + POINT * point as u64;
                *part = Input { slot: input.slot, payload: &input.payload[at.clone()], created };
            }
            self.state.clear();
            self.filter.run(&reading[..inputs.len().min(2)], &mut self.state)?;
            output.extend_from_slice(&self.state[..ELEMENT_BYTES]);
        }
        Ok(Answer::Result)
    }
}
