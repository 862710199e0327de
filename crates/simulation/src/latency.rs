//! How long something takes from one host to another.

use contract::Span;
use std::fmt;

/// The way from one host to another: at least `least`, usually about `typical`, never above `most`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Latency {
    /// The shortest.
    pub least: Span,
    /// The mean, roughly: delays above the shortest are exponentially distributed.
    pub typical: Span,
    /// The longest.
    pub most: Span,
}

impl Latency {
    /// Always the same.
    pub const fn fixed(span: Span) -> Latency {
        Latency { least: span, typical: span, most: span }
    }

    /// One delay.
    pub fn sample(&self, random: &mut fastrand::Rng) -> Span {
        let mean = (self.typical - self.least).0;
        if mean <= 0 {
            return self.least;
        }
        let extra = -(1.0 - random.f64()).ln() * mean as f64;
        (self.least + Span(extra as i64)).min(self.most)
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.least == self.most {
            write!(f, "{}", self.least)
        } else {
            write!(f, "{} to {}", self.least, self.most)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_keep_to_their_bounds_and_are_about_as_long_as_is_typical() {
        let way = Latency { least: Span::micros(10), typical: Span::micros(60), most: Span::micros(500) };
        let mut random = fastrand::Rng::with_seed(1);
        let delays: Vec<Span> = (0..10_000).map(|_| way.sample(&mut random)).collect();
        assert!(delays.iter().all(|delay| (way.least..=way.most).contains(delay)));
        let mean = delays.iter().map(|delay| delay.0).sum::<i64>() / 10_000;
        assert!((55_000..65_000).contains(&mean), "{mean} ns");
        assert_eq!(Latency::fixed(Span(7)).sample(&mut random), Span(7));
    }
}
