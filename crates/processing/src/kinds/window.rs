//! What `average`, `min`, `max` and `rms` share: the last readings, and what they come to together.
//!
//! All numbers of a run, of all its inputs, are one reading. The idea: a ring whose places are the leaves of a binary tree,
//! and every node holds what the leaves below it come to. A reading that enters or leaves changes one way to the root: the
//! work of a run is a logarithm of the window, and always the same. A running sum would be less work, but takes out what it
//! put in, and keeps the error of both; its errors would pile up over weeks. Here a reading that has left is gone.

use super::setup::unsuitable;
use crate::memory::{FOREIGN, Put, Recalled};
use crate::numbers::{self, Reader, newest};
use crate::operator::{
    Answer, Answers, Built, Fault, Input, Memory, Operator, ParameterDoc, Setup, SetupError,
};
use crate::payload::{Element, PayloadType};
use contract::{Span, Time};

/// The most readings of a window: 65536 take 6 MiB, and 17 steps a run.
pub const READINGS_MAX: usize = 65_536;

/// How many readings a window has that is given by its time alone. 4096 take 400 kB.
const READINGS: usize = 4096;

pub(super) const WINDOW: ParameterDoc = ParameterDoc {
    name: "window",
    values: "whole number, 1 to 65536, default 1, with `span` 4096",
    doc: "over how many of the last readings; all numbers of a run are one reading",
};
pub(super) const SPAN: ParameterDoc = ParameterDoc {
    name: "span",
    values: "time, such as \"10s\"",
    doc: "how much older than the newest a reading may be; `window` bounds their number all the same",
};

/// Sets up a moving something.
pub(super) fn build(kind: &str, setup: &Setup<'_>, value: fn(&Partial) -> f64) -> Result<Built, SetupError> {
    let reader = setup.reader(kind)?;
    let span = setup.period(&SPAN)?;
    let limit = setup.count(&WINDOW, READINGS_MAX)?;
    if span.is_some() && limit == Some(1) {
        return Err(unsuitable(
            &WINDOW,
            "is 1, which leaves nothing for `span` to do: leave one of them out",
        ));
    }
    let limit = limit.unwrap_or(if span.is_some() { READINGS } else { 1 });
    let element = setup.element()?;
    let operator = Box::new(Moving { reader, window: Window::new(limit), span, value, element });
    Ok(Built {
        operator,
        output: PayloadType::Array(element),
        answers: Answers::Always,
        memory: Memory::Saved,
    })
}

struct Moving {
    reader: Reader,
    window: Window,
    span: Option<Span>,
    value: fn(&Partial) -> f64,
    element: Element,
}

impl Operator for Moving {
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        let reading = Partial::of(self.reader.read(inputs)?);
        let now = newest(inputs);
        if let Some(span) = self.span {
            self.window.forget_before(now - span);
        }
        self.window.push(now, reading);
        numbers::write(&[(self.value)(self.window.all())], self.element, output)?;
        Ok(Answer::Result)
    }

    fn save(&mut self, memory: &mut Vec<u8>) -> Result<(), Fault> {
        self.window.save(memory);
        Ok(())
    }

    fn restore(&mut self, memory: &[u8]) -> Result<(), Fault> {
        self.window = Window::restore(self.window.limit, memory).ok_or(FOREIGN)?;
        Ok(())
    }
}

/// What some numbers come to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Partial {
    pub(super) count: f64,
    pub(super) sum: f64,
    pub(super) squares: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Partial {
    const NOTHING: Partial =
        Partial { count: 0.0, sum: 0.0, squares: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY };

    fn of(numbers: &[f64]) -> Partial {
        numbers.iter().fold(Partial::NOTHING, |all, &number| {
            all.and(Partial { count: 1.0, sum: number, squares: number * number, min: number, max: number })
        })
    }

    fn and(self, other: Partial) -> Partial {
        Partial {
            count: self.count + other.count,
            sum: self.sum + other.sum,
            squares: self.squares + other.squares,
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

/// The last readings.
struct Window {
    /// Node `i` is what `2i` and `2i+1` come to; the root is 1, the leaves are the second half.
    tree: Vec<Partial>,
    /// When the readings were created; place `i` is leaf `times.len() + i`.
    times: Vec<Time>,
    /// How many readings there may be.
    limit: usize,
    oldest: usize,
    len: usize,
}

impl Window {
    fn new(limit: usize) -> Window {
        let places = limit.next_power_of_two();
        Window {
            tree: vec![Partial::NOTHING; 2 * places],
            times: vec![Time::ZERO; places],
            limit,
            oldest: 0,
            len: 0,
        }
    }

    /// Which places are taken matters: sums are made along the tree, and rounded there.
    fn save(&self, memory: &mut Vec<u8>) {
        memory.put_u64(self.oldest as u64);
        memory.put_u64(self.len as u64);
        let places = self.times.len();
        for place in (0..self.len).map(|back| (self.oldest + back) % places) {
            memory.put_u64(self.times[place].0);
            let Partial { count, sum, squares, min, max } = self.tree[places + place];
            [count, sum, squares, min, max].iter().for_each(|number| memory.put_f64(*number));
        }
    }

    fn restore(limit: usize, memory: &[u8]) -> Option<Window> {
        let (mut window, mut recalled) = (Window::new(limit), Recalled(memory));
        let places = window.times.len();
        window.oldest = usize::try_from(recalled.u64()?).ok().filter(|oldest| *oldest < places)?;
        let len = usize::try_from(recalled.u64()?).ok().filter(|len| *len <= limit)?;
        for _ in 0..len {
            let created = Time(recalled.u64()?);
            let mut number = || recalled.f64();
            let (count, sum, squares) = (number()?, number()?, number()?);
            window.push(created, Partial { count, sum, squares, min: number()?, max: number()? });
        }
        recalled.end()?;
        Some(window)
    }

    fn all(&self) -> &Partial {
        &self.tree[1]
    }

    fn push(&mut self, created: Time, reading: Partial) {
        if self.len == self.limit {
            self.forget_oldest();
        }
        let place = (self.oldest + self.len) % self.times.len();
        self.times[place] = created;
        self.len += 1;
        self.set(place, reading);
    }

    /// Forgets what is older. Readings come nearly in order: one that was late leaves with the one before it.
    fn forget_before(&mut self, time: Time) {
        while self.len > 0 && self.times[self.oldest] < time {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        self.set(self.oldest, Partial::NOTHING);
        self.oldest = (self.oldest + 1) % self.times.len();
        self.len -= 1;
    }

    fn set(&mut self, place: usize, reading: Partial) {
        let mut node = self.times.len() + place;
        self.tree[node] = reading;
        while node > 1 {
            node /= 2;
            self.tree[node] = self.tree[2 * node].and(self.tree[2 * node + 1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{OneOperator, f64s, text};
    use super::*;
    use crate::operator::Value;
    use proptest::prelude::*;

    const KINDS: [&str; 4] = ["average", "min", "max", "rms"];

    /// The same, by the definition.
    fn naive(kind: &str, numbers: &[f64]) -> f64 {
        let count = numbers.len() as f64;
        match kind {
            "average" => numbers.iter().sum::<f64>() / count,
            "min" => numbers.iter().copied().fold(f64::INFINITY, f64::min),
            "max" => numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            _ => (numbers.iter().map(|number| number * number).sum::<f64>() / count).sqrt(),
        }
    }

    #[test]
    fn without_a_window_it_is_over_the_payload() {
        for (kind, result) in [("average", 3.5), ("min", 3.0), ("max", 4.0), ("rms", 12.5_f64.sqrt())] {
            let mut one = OneOperator::new(kind, &["f64"], &[]);
            assert_eq!(one.numbers(&f64s(&[100.0])), Ok(Some(vec![100.0])));
            assert_eq!(one.numbers(&f64s(&[3.0, 4.0])), Ok(Some(vec![result])), "{kind}");
        }
    }

    #[test]
    fn several_inputs_are_one_reading() {
        let mut one = OneOperator::new("average", &["i16", "f64"], &[]);
        let result = one.run_all(&[&1_i16.to_le_bytes(), &f64s(&[2.0, 6.0])]);
        assert_eq!(result, Ok(Some(f64s(&[3.0]))));
    }

    #[test]
    fn a_fault_leaves_the_window_as_it_was() {
        let mut one = OneOperator::new("average", &["f64"], &[("window", Value::Number(2.0))]);
        assert_eq!(one.numbers(&f64s(&[1.0])), Ok(Some(vec![1.0])));
        for bad in [&[][..], &[1, 2, 3], &f64s(&[f64::NAN])] {
            assert!(one.run(bad).is_err());
        }
        assert_eq!(one.numbers(&f64s(&[2.0])), Ok(Some(vec![1.5])));
    }

    #[test]
    fn what_overflows_is_a_fault_until_it_has_left() {
        let mut one = OneOperator::new("rms", &["f64"], &[("window", Value::Number(2.0))]);
        assert!(one.run(&f64s(&[1e300])).is_err());
        assert!(one.run(&f64s(&[1.0])).is_err());
        assert_eq!(one.numbers(&f64s(&[1.0])), Ok(Some(vec![1.0])));
    }

    #[test]
    fn windows_have_limits() {
        let refused = |parameters: &[(&str, Value)]| OneOperator::refused("max", &["f64"], parameters);
        for window in [0.0, 1.5, -3.0, 65_537.0] {
            assert!(
                refused(&[("window", Value::Number(window))])
                    .contains("must be a whole number from 1 to 65536")
            );
        }
        assert!(refused(&[("span", Value::Span(Span::ZERO))]).contains("is zero"));
        assert!(refused(&[("span", Value::Span(Span::FOREVER))]).contains("nor forever"));
        assert!(refused(&[("span", text("10"))]).contains("has no unit"));
        assert!(
            refused(&[("span", text("10s")), ("window", Value::Number(1.0))])
                .contains("leave one of them out")
        );
    }

    proptest! {
        #[test]
        fn a_moving_value_is_what_the_definition_says(
            readings in prop::collection::vec((prop::collection::vec(-100.0..100.0, 1..4), 0_u64..20), 1..60),
            window in 2_usize..12, span in prop::option::of(1_i64..60),
        ) {
            for kind in KINDS {
                let mut parameters = vec![("window", Value::Number(window as f64))];
                parameters.extend(span.map(|span| ("span", Value::Span(Span(span)))));
                let mut one = OneOperator::new(kind, &["f64"], &parameters);
                let mut past: Vec<(Time, &[f64])> = Vec::new();
                for (numbers, pause) in &readings {
                    one.now = one.now + Span(*pause as i64);
                    past.push((one.now, numbers));
                    past.drain(..past.len().saturating_sub(window));
                    past.retain(|(time, _)| span.is_none_or(|span| one.now.since(*time) <= Span(span)));
                    let all: Vec<f64> = past.iter().flat_map(|(_, numbers)| numbers.iter().copied()).collect();
                    let got = one.numbers(&f64s(numbers)).unwrap().unwrap()[0];
                    prop_assert!((got - naive(kind, &all)).abs() < 1e-9, "{kind}: {got} of {all:?}");
                }
            }
        }
    }
}
