//! Spectra of real readings.

use super::setup::AS;
use crate::memory::{FOREIGN, Put};
use crate::numbers::{self, Reader};
use crate::operator::{
    Answer, Answers, Built, Fault, Input, Kind, Memory, Operator, ParameterDoc, Setup, SetupError,
};
use crate::payload::{Element, PayloadType};
use realfft::num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};
use std::f64::consts::TAU;
use std::sync::Arc;

/// `fft`.
pub const FFT: Kind = Kind {
    name: "fft",
    doc: "The spectrum of n readings: n/2+1 lines, from zero to half the rate of the readings. Several frames that end in one \
          payload come one after another.",
    inputs: (1, 1),
    parameters: &[SIZE, WINDOW, RESULT, AS],
    build,
};

/// The most readings of a frame: they take 3 MiB with all that belongs to them.
pub const FRAME_MAX: usize = 65_536;

const SIZE: ParameterDoc = ParameterDoc {
    name: "size",
    values: "whole number, 1 to 65536",
    doc: "gathers readings until there are so many; else the numbers of a payload are a frame, and another count than \
          before is planned anew, which takes memory and up to milliseconds",
};
const WINDOW: ParameterDoc = ParameterDoc {
    name: "window",
    values: "none (default) or hann",
    doc: "what a frame is weighted with; hann where its ends do not meet",
};
const RESULT: ParameterDoc = ParameterDoc {
    name: "result",
    values: "magnitude (default), amplitude or complex",
    doc: "what is said of a line: its absolute value; the height of the sine that makes it; or its real and imaginary part",
};

#[derive(Clone, Copy)]
enum Window {
    None,
    Hann,
}

#[derive(Clone, Copy)]
enum Line {
    Magnitude,
    Amplitude,
    Complex,
}

fn build(setup: &Setup<'_>) -> Result<Built, SetupError> {
    let reader = setup.reader(FFT.name)?;
    let size = setup.count(&SIZE, FRAME_MAX)?;
    let window =
        setup.choice(&WINDOW, &[("none", Window::None), ("hann", Window::Hann)])?.unwrap_or(Window::None);
    let lines = [("magnitude", Line::Magnitude), ("amplitude", Line::Amplitude), ("complex", Line::Complex)];
    let line = setup.choice(&RESULT, &lines)?.unwrap_or(Line::Magnitude);
    let element = setup.element()?;
    let plan = Plan::new(size.unwrap_or(1), window);
    let operator = Box::new(Fft { reader, size, window, line, plan, element, results: Vec::new() });
    let answers = if size.is_some() { Answers::Sometimes } else { Answers::Always };
    Ok(Built { operator, output: PayloadType::Array(element), answers, memory: Memory::Saved })
}

struct Fft {
    reader: Reader,
    size: Option<usize>,
    window: Window,
    line: Line,
    plan: Plan,
    element: Element,
    results: Vec<f64>,
}

impl Operator for Fft {
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        let mut readings = self.reader.read(inputs)?;
        let size = self.size.unwrap_or(readings.len());
        if size > FRAME_MAX {
            return Err(Fault::Failed("a payload has more than 65536 numbers: set `size`"));
        }
        if size != self.plan.frame.len() {
            self.plan = Plan::new(size, self.window);
        }
        self.results.clear();
        // Two numbers for a line: with `size`, the first result may come long after the first run.
        self.results.reserve(size + 2);
        while !readings.is_empty() {
            readings = self.plan.fill(readings);
            if self.plan.filled == size {
                self.plan.transform()?;
                self.plan.say(self.line, &mut self.results);
            }
        }
        if self.results.is_empty() {
            return Ok(Answer::Nothing);
        }
        numbers::write(&self.results, self.element, output)?;
        Ok(Answer::Result)
    }

    fn save(&mut self, memory: &mut Vec<u8>) -> Result<(), Fault> {
        // Without `size`, a frame is a payload, and nothing is left of it.
        self.plan.frame[..self.plan.filled].iter().for_each(|reading| memory.put_f64(*reading));
        Ok(())
    }

    fn restore(&mut self, memory: &[u8]) -> Result<(), Fault> {
        let (readings, rest) = memory.as_chunks::<8>();
        if !rest.is_empty() || (readings.len() >= self.plan.frame.len() && !readings.is_empty()) {
            return Err(FOREIGN);
        }
        self.plan.filled = readings.len();
        self.plan
            .frame
            .iter_mut()
            .zip(readings)
            .for_each(|(place, reading)| *place = f64::from_le_bytes(*reading));
        Ok(())
    }
}

/// All that belongs to one length of frames. Only one is kept: lengths come from outside, and there are many.
struct Plan {
    transform: Arc<dyn RealToComplex<f64>>,
    weights: Vec<f64>,
    /// The sum of the weights.
    weight: f64,
    frame: Vec<f64>,
    filled: usize,
    spectrum: Vec<Complex<f64>>,
    scratch: Vec<Complex<f64>>,
}

impl Plan {
    fn new(size: usize, window: Window) -> Plan {
        let transform = RealFftPlanner::new().plan_fft_forward(size);
        let weights: Vec<f64> = match window {
            // The only weight of a single reading would be zero.
            Window::Hann if size > 1 => {
                (0..size).map(|index| 0.5 - 0.5 * (TAU * index as f64 / size as f64).cos()).collect()
            }
            Window::Hann | Window::None => vec![1.0; size],
        };
        Plan {
            weight: weights.iter().sum(),
            weights,
            frame: vec![0.0; size],
            filled: 0,
            spectrum: transform.make_output_vec(),
            scratch: transform.make_scratch_vec(),
            transform,
        }
    }

    /// Takes what fits into the frame, and hands back the rest.
    fn fill<'a>(&mut self, readings: &'a [f64]) -> &'a [f64] {
        let (taken, rest) = readings.split_at(readings.len().min(self.frame.len() - self.filled));
        self.frame[self.filled..][..taken.len()].copy_from_slice(taken);
        self.filled += taken.len();
        rest
    }

    fn transform(&mut self) -> Result<(), Fault> {
        self.filled = 0;
        self.frame.iter_mut().zip(&self.weights).for_each(|(reading, weight)| *reading *= weight);
        let done =
            self.transform.process_with_scratch(&mut self.frame, &mut self.spectrum, &mut self.scratch);
        done.map_err(|_| Fault::Failed("the transform refused its buffers"))
    }

    fn say(&self, line: Line, results: &mut Vec<f64>) {
        let spectrum = &self.spectrum;
        match line {
            Line::Magnitude => results.extend(spectrum.iter().map(|line| line.norm())),
            Line::Complex => spectrum.iter().for_each(|line| results.extend([line.re, line.im])),
            Line::Amplitude => results.extend(spectrum.iter().enumerate().map(|(index, line)| {
                // A sine has half of its height at its frequency and half at the mirror image, which is left out; the first
                // line, and the last of an even length, are their own image.
                let is_own_image = index == 0 || 2 * index == self.frame.len();
                line.norm() / self.weight * if is_own_image { 1.0 } else { 2.0 }
            })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{OneOperator, f64s, text};
    use super::*;
    use crate::operator::Value;
    use proptest::prelude::*;

    /// By the definition.
    fn naive(readings: &[f64]) -> Vec<Complex<f64>> {
        let line = |index: usize| {
            let turn = |(at, reading): (usize, &f64)| {
                Complex::from_polar(
                    *reading,
                    -TAU * ((index * at) % readings.len()) as f64 / readings.len() as f64,
                )
            };
            readings.iter().enumerate().map(turn).sum()
        };
        (0..=readings.len() / 2).map(line).collect()
    }

    #[test]
    fn a_sine_is_one_line() {
        let sine: Vec<f64> = (0..64).map(|at| 1.0 + 3.0 * (TAU * 5.0 * f64::from(at) / 64.0).sin()).collect();
        let mut one = OneOperator::new("fft", &["f64"], &[("result", text("amplitude"))]);
        let lines = one.numbers(&f64s(&sine)).unwrap().unwrap();
        assert_eq!(lines.len(), 33);
        for (index, line) in lines.iter().enumerate() {
            let expected = [1.0, 0.0, 0.0, 0.0, 0.0, 3.0].get(index).copied().unwrap_or(0.0);
            assert!((line - expected).abs() < 1e-12, "line {index} is {line}");
        }
        let mut one =
            OneOperator::new("fft", &["f64"], &[("result", text("amplitude")), ("window", text("hann"))]);
        let lines = one.numbers(&f64s(&sine)).unwrap().unwrap();
        assert!((lines[5] - 3.0).abs() < 1e-12 && (lines[4] - 1.5).abs() < 1e-12 && lines[8] < 1e-12);
    }

    #[test]
    fn short_frames_and_changing_lengths_work() {
        let mut one = OneOperator::new("fft", &["f64"], &[]);
        assert_eq!(one.numbers(&f64s(&[-2.0])), Ok(Some(vec![2.0])));
        assert_eq!(one.numbers(&f64s(&[1.0, 3.0])), Ok(Some(vec![4.0, 2.0])));
        assert_eq!(one.numbers(&f64s(&[1.0, 1.0, 1.0])).unwrap().unwrap()[0], 3.0);
        assert!(one.run(&[]).is_err() && one.run(&[0; 9]).is_err());
        assert!(matches!(one.run(&vec![0; 8 * FRAME_MAX + 8]), Err(Fault::Failed(_))));
    }

    #[test]
    fn readings_are_gathered() {
        let mut one = OneOperator::new("fft", &["f64"], &[("size", Value::Number(2.0))]);
        assert_eq!(one.numbers(&f64s(&[1.0])), Ok(None));
        assert_eq!(one.numbers(&f64s(&[3.0])), Ok(Some(vec![4.0, 2.0])));
        assert_eq!(one.numbers(&f64s(&[1.0, 1.0, 0.0, 5.0, 7.0])), Ok(Some(vec![2.0, 0.0, 5.0, 5.0])));
        assert_eq!(one.numbers(&f64s(&[0.0])), Ok(Some(vec![7.0, 7.0])));
    }

    #[test]
    fn sizes_have_limits() {
        let refused = |name, value| OneOperator::refused("fft", &["f64"], &[(name, value)]);
        assert!(refused("size", Value::Number(0.0)).contains("from 1 to 65536"));
        assert!(refused("window", text("kaiser")).contains("may be none, hann"));
    }

    proptest! {
        #[test]
        fn it_is_the_transform_of_the_definition(readings in prop::collection::vec(-10.0..10.0, 1..80)) {
            let mut one = OneOperator::new("fft", &["f64"], &[("result", text("complex"))]);
            let got = one.numbers(&f64s(&readings)).unwrap().unwrap();
            let expected: Vec<f64> = naive(&readings).iter().flat_map(|line| [line.re, line.im]).collect();
            prop_assert_eq!(got.len(), expected.len());
            prop_assert!(got.iter().zip(&expected).all(|(got, expected)| (got - expected).abs() < 1e-9));
        }
    }
}
