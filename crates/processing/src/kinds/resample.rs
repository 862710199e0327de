//! Readings on a time grid, whenever they came.

use super::setup::{AS, missing};
use crate::memory::{FOREIGN, Put, numbers_after_a_time};
use crate::numbers::{self, Reader, newest};
use crate::operator::{
    Answer, Answers, Built, Fault, Input, Kind, Memory, Operator, ParameterDoc, Setup, SetupError,
};
use crate::payload::{Element, PayloadType};
use contract::{Span, Time};

/// `resample`.
pub const RESAMPLE: Kind = Kind {
    name: "resample",
    doc: "Puts readings on a fixed time grid. A reading says what belongs on the points after the one before it and up to \
          its own creation; the result has all of them, oldest first, and there is none if there are none. After a gap that \
          would make more than 8192 numbers, the oldest points are left out. Readings older \
          than the newest are passed over; one with another count of numbers begins anew.",
    inputs: (1, 1),
    parameters: &[EVERY, METHOD, ALIGN, AS],
    build,
};

/// The most numbers of a result. After a gap that is longer, its oldest points are left out.
pub const GRID_NUMBERS_MAX: usize = 8192;

const EVERY: ParameterDoc = ParameterDoc {
    name: "every",
    values: "time, such as \"100ms\"; required",
    doc: "from one point of the grid to the next",
};
const METHOD: ParameterDoc = ParameterDoc {
    name: "method",
    values: "hold (default) or linear",
    doc: "what is on a point: the last reading up to it, or what lies on the straight line between its neighbours",
};
const ALIGN: ParameterDoc = ParameterDoc {
    name: "align",
    values: "time, default 0",
    doc: "where the grid lies: this much after whole multiples of `every` since 1970",
};

#[derive(Clone, Copy)]
enum Method {
    Hold,
    Linear,
}

fn build(setup: &Setup<'_>) -> Result<Built, SetupError> {
    let reader = setup.reader(RESAMPLE.name)?;
    let every = setup.period(&EVERY)?.ok_or_else(|| missing(&EVERY))?.as_nanos_u64();
    let method =
        setup.choice(&METHOD, &[("hold", Method::Hold), ("linear", Method::Linear)])?.unwrap_or(Method::Hold);
    let phase = setup.span(&ALIGN)?.unwrap_or(Span::ZERO).as_nanos_u64() % every;
    let element = setup.element()?;
    let operator = Box::new(Resample {
        reader,
        grid: Grid { every, phase },
        method,
        held: Vec::new(),
        held_at: Time::ZERO,
        element,
        results: Vec::new(),
    });
    Ok(Built {
        operator,
        output: PayloadType::Array(element),
        answers: Answers::Sometimes,
        memory: Memory::Saved,
    })
}

struct Resample {
    reader: Reader,
    grid: Grid,
    method: Method,
    /// The newest reading; empty before the first.
    held: Vec<f64>,
    held_at: Time,
    element: Element,
    results: Vec<f64>,
}

impl Operator for Resample {
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        let readings = self.reader.read(inputs)?;
        let now = newest(inputs);
        let begins = readings.len() != self.held.len();
        if !begins && now < self.held_at {
            return Ok(Answer::Nothing);
        }
        self.results.clear();
        if begins {
            if self.grid.has(now) {
                self.results.extend_from_slice(readings);
            }
        } else {
            let points_max = (GRID_NUMBERS_MAX / readings.len()).max(1);
            for point in self.grid.points(self.held_at, now, points_max) {
                let share = match self.method {
                    Method::Hold => f64::from(u8::from(point == now)),
                    Method::Linear => point.since(self.held_at).0 as f64 / now.since(self.held_at).0 as f64,
                };
                let between = |(old, new): (&f64, &f64)| old * (1.0 - share) + new * share;
                self.results.extend(self.held.iter().zip(readings).map(between));
            }
        }
        self.held.clear();
        self.held.extend_from_slice(readings);
        self.held_at = now;
        if self.results.is_empty() {
            return Ok(Answer::Nothing);
        }
        numbers::write(&self.results, self.element, output)?;
        Ok(Answer::Result)
    }

    fn save(&mut self, memory: &mut Vec<u8>) -> Result<(), Fault> {
        memory.put_u64(self.held_at.0);
        self.held.iter().for_each(|number| memory.put_f64(*number));
        Ok(())
    }

    fn restore(&mut self, memory: &[u8]) -> Result<(), Fault> {
        let (at, numbers) = numbers_after_a_time(memory).ok_or(FOREIGN)?;
        (self.held_at, self.held) = (at, numbers);
        Ok(())
    }
}

/// Points in time at equal distances.
struct Grid {
    every: u64,
    phase: u64,
}

impl Grid {
    fn has(&self, time: Time) -> bool {
        time.0 >= self.phase && (time.0 - self.phase).is_multiple_of(self.every)
    }

    /// The first point after a time, if time goes on that long.
    fn after(&self, time: Time) -> Option<u64> {
        match time.0.checked_sub(self.phase) {
            None => Some(self.phase),
            Some(since) => (since / self.every + 1).checked_mul(self.every)?.checked_add(self.phase),
        }
    }

    /// The last of the points after `from` and up to `to`.
    fn points(&self, from: Time, to: Time, max: usize) -> impl Iterator<Item = Time> + use<> {
        let every = self.every;
        let first = self.after(from).filter(|first| *first <= to.0);
        let count = first.map_or(0, |first| (to.0 - first) / every + 1);
        let skipped = count.saturating_sub(max as u64);
        let first = first.unwrap_or(0) + skipped * every;
        (0..count - skipped).map(move |index| Time(first + index * every))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{OneOperator, f64s, text};
    use super::*;
    use crate::operator::Value;
    use proptest::prelude::*;

    fn one(method: &str, align: i64) -> OneOperator {
        let parameters =
            [("every", Value::Span(Span(10))), ("method", text(method)), ("align", Value::Span(Span(align)))];
        OneOperator::new("resample", &["f64"], &parameters)
    }

    fn at(one: &mut OneOperator, now: u64, readings: &[f64]) -> Option<Vec<f64>> {
        one.now = Time(now);
        one.numbers(&f64s(readings)).unwrap()
    }

    #[test]
    fn hold_says_what_was_last_known() {
        let mut one = one("hold", 0);
        assert_eq!(at(&mut one, 12, &[1.0]), None);
        assert_eq!(at(&mut one, 18, &[2.0]), None);
        assert_eq!(at(&mut one, 25, &[3.0]), Some(vec![2.0]));
        assert_eq!(at(&mut one, 50, &[4.0]), Some(vec![3.0, 3.0, 4.0]));
        assert_eq!(at(&mut one, 50, &[5.0]), None);
        assert_eq!(at(&mut one, 40, &[9.0]), None, "it is late");
        assert_eq!(at(&mut one, 60, &[6.0]), Some(vec![6.0]));
    }

    #[test]
    fn linear_draws_lines() {
        let mut one = one("linear", 5);
        assert_eq!(at(&mut one, 5, &[0.0, 0.0]), Some(vec![0.0, 0.0]));
        assert_eq!(at(&mut one, 25, &[20.0, -2.0]), Some(vec![10.0, -1.0, 20.0, -2.0]));
        assert_eq!(at(&mut one, 34, &[29.0, -2.9]), None);
        assert_eq!(at(&mut one, 41, &[3.0]), None, "another count of numbers begins anew");
        assert_eq!(at(&mut one, 49, &[11.0]), Some(vec![7.0]));
    }

    #[test]
    fn a_long_gap_is_bounded() {
        let mut one = one("hold", 0);
        at(&mut one, 0, &[1.0]);
        let result = at(&mut one, u64::MAX, &[2.0]).unwrap();
        assert_eq!(result.len(), GRID_NUMBERS_MAX);
        assert_eq!(at(&mut one, u64::MAX, &[2.0]), None);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(OneOperator::refused("resample", &["f64"], &[]).starts_with("`every` is missing"));
        assert!(OneOperator::refused("resample", &["f64"], &[("every", text("0"))]).contains("is zero"));
        let mut one = one("hold", 0);
        assert!(one.run(&[]).is_err() && one.run(&[1, 2]).is_err());
    }

    proptest! {
        /// Every point of the grid from the first reading on is said once, in order, and lies on the line.
        #[test]
        fn a_straight_line_stays_one(pauses in prop::collection::vec(0_u64..40, 1..30), align in 0_i64..20) {
            let mut one = one("linear", align);
            let (mut now, mut said) = (100, Vec::new());
            at(&mut one, now, &[now as f64]).into_iter().for_each(|result| said.extend(result));
            for pause in pauses {
                now += pause;
                at(&mut one, now, &[now as f64]).into_iter().for_each(|result| said.extend(result));
            }
            let expected: Vec<f64> =
                (100..=now).filter(|time| (*time as i64 - align).rem_euclid(10) == 0).map(|time| time as f64).collect();
            prop_assert_eq!(said.len(), expected.len());
            prop_assert!(said.iter().zip(&expected).all(|(said, expected)| (said - expected).abs() < 1e-9));
        }
    }
}
