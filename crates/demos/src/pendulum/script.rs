//! What happens when.

use super::stand::Push;
use contract::Span;

/// A part of the demo, with one fault or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Calm,
    Lying,
    Honest,
    Dead,
    Back,
}

/// Parts, and when each begins and ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Phase {
    pub part: Part,
    pub from: Span,
    pub until: Span,
}

/// Everything takes as long as here where the demo has this many seconds, and is stretched otherwise.
const SECONDS: f64 = 18.0;
const PARTS: [(Part, f64); 5] =
    [(Part::Calm, 5.0), (Part::Lying, 10.0), (Part::Honest, 12.0), (Part::Dead, 15.0), (Part::Back, SECONDS)];
/// Seconds, and newtons: what shows that somebody balances.
const PUSHES: [(f64, f64); 4] = [(1.5, 3.0), (6.5, 3.0), (12.5, -3.0), (16.0, 3.0)];

impl Part {
    pub fn name(self) -> &'static str {
        match self {
            Part::Calm => "all is well",
            Part::Lying => "d lies",
            Part::Honest => "d is honest again",
            Part::Dead => "node d is dead",
            Part::Back => "node d is back",
        }
    }
}

/// The parts of a demo of so many seconds.
pub fn phases(seconds: u32) -> Vec<Phase> {
    let mut from = Span::ZERO;
    let phase = |(part, until): &(Part, f64)| {
        let until = stretched(*until, seconds);
        Phase { part: *part, from: std::mem::replace(&mut from, until), until }
    };
    PARTS.iter().map(phase).collect()
}

pub fn pushes(seconds: u32) -> Vec<Push> {
    PUSHES.iter().map(|(at, force)| Push { at: stretched(*at, seconds), force: *force }).collect()
}

/// To the millisecond.
fn stretched(at: f64, seconds: u32) -> Span {
    Span::millis((at / SECONDS * f64::from(seconds) * 1e3).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_follow_each_other_and_fill_the_time() {
        for seconds in [6, 18, 600] {
            let phases = phases(seconds);
            assert_eq!(phases[0].from, Span::ZERO);
            assert!(
                phases.windows(2).all(|pair| pair[0].until == pair[1].from && pair[0].from < pair[0].until)
            );
            assert_eq!(phases[4].until, Span::secs(i64::from(seconds)));
        }
        assert_eq!(phases(18)[1], Phase { part: Part::Lying, from: Span::secs(5), until: Span::secs(10) });
    }
}
