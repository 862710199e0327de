//! Points in time and distances between them, in nanoseconds. They are ours, so that the simulator can make them up.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Neg, Sub};
use std::str::FromStr;

/// A point in time: nanoseconds since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(pub u64);

impl Time {
    /// The Unix epoch.
    pub const ZERO: Time = Time(0);
    /// A point that is never reached.
    pub const NEVER: Time = Time(u64::MAX);

    /// The distance from `earlier` to `self`; negative if `earlier` is in fact later. Saturates.
    #[inline]
    pub fn since(self, earlier: Time) -> Span {
        match self.0.checked_signed_diff(earlier.0) {
            Some(distance) => Span(distance),
            None => self.far_from(earlier),
        }
    }

    /// The same point after the clock has been set so much further, or back where that is negative. Never stays never.
    pub fn moved(self, by: Span) -> Time {
        if self == Time::NEVER { self } else { self + by }
    }

    /// The distance from a point that is further away than a span can hold.
    #[cold]
    fn far_from(self, earlier: Time) -> Span {
        Span(if self >= earlier { i64::MAX } else { i64::MIN })
    }

    /// What lies a span away that leads out of all time, or is no span but forever.
    #[cold]
    fn limit(span: Span) -> Time {
        if span > Span::ZERO { Time::NEVER } else { Time::ZERO }
    }
}

impl Add<Span> for Time {
    type Output = Time;

    /// Saturates at both ends. A span of [`Span::FOREVER`] leads to [`Time::NEVER`].
    #[inline]
    fn add(self, span: Span) -> Time {
        match self.0.checked_add_signed(span.0) {
            Some(there) if span != Span::FOREVER => Time(there),
            _ => Time::limit(span),
        }
    }
}

impl Sub<Span> for Time {
    type Output = Time;

    #[inline]
    fn sub(self, span: Span) -> Time {
        self + -span
    }
}

/// A distance in time, in nanoseconds; may be negative. All arithmetic saturates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Span(pub i64);

impl Span {
    /// No distance.
    pub const ZERO: Span = Span(0);
    /// Longer than anything: the period of a rare message, the replication deadline of a best-effort topic.
    pub const FOREVER: Span = Span(i64::MAX);

    /// `n` nanoseconds.
    pub const fn nanos(n: i64) -> Span {
        Span(n)
    }

    /// `n` microseconds.
    pub const fn micros(n: i64) -> Span {
        Span(n.saturating_mul(1_000))
    }

    /// `n` milliseconds.
    pub const fn millis(n: i64) -> Span {
        Span(n.saturating_mul(1_000_000))
    }

    /// `n` seconds.
    pub const fn secs(n: i64) -> Span {
        Span(n.saturating_mul(1_000_000_000))
    }

    /// The length in milliseconds, for people.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The length in nanoseconds, zero where it is negative.
    #[inline]
    pub fn as_nanos_u64(self) -> u64 {
        self.0.max(0).unsigned_abs()
    }

    /// Whether this is [`Span::FOREVER`].
    #[inline]
    pub fn is_forever(self) -> bool {
        self == Span::FOREVER
    }
}

impl Add for Span {
    type Output = Span;

    #[inline]
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    #[inline]
    fn add_assign(&mut self, other: Span) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Span;

    /// Forever minus anything finite is still forever.
    #[inline]
    fn sub(self, other: Span) -> Span {
        if self.is_forever() { self } else { Span(self.0.saturating_sub(other.0)) }
    }
}

impl Neg for Span {
    type Output = Span;

    #[inline]
    fn neg(self) -> Span {
        Span(self.0.saturating_neg())
    }
}

impl Mul<u64> for Span {
    type Output = Span;

    /// Zero times forever is zero: no periods last no time.
    #[inline]
    fn mul(self, times: u64) -> Span {
        if times == 0 {
            Span::ZERO
        } else {
            Span(self.0.saturating_mul(i64::try_from(times).unwrap_or(i64::MAX)))
        }
    }
}

/// Why a text is not a span.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpanError {
    /// There is a number but no unit.
    #[error("`{0}` has no unit: write for example `{0}ms` (units are ns, us, ms, s, min, h)")]
    NoUnit(String),
    /// The unit is not one of ours.
    #[error("`{0}` is not a unit of time: the units are ns, us, ms, s, min, h")]
    UnknownUnit(String),
    /// The part before the unit is not a number.
    #[error("`{0}` is not a duration: write a number and a unit, for example `50ms`")]
    NotANumber(String),
    /// More than 292 years.
    #[error("`{0}` is longer than a span can hold (292 years)")]
    TooLong(String),
}

const UNITS: [(&str, u32); 7] = [
    ("ns", 0),
    ("us", 3),
    ("µs", 3),
    ("ms", 6),
    ("s", 9),
    // Minutes and hours are not powers of ten; `scale` multiplies them out.
    ("min", 9),
    ("h", 9),
];

impl FromStr for Span {
    type Err = SpanError;

    /// Reads `50ms`, `0.05 ms`, `2h`, `inf`. The digits are exact: no floating point is involved.
    fn from_str(text: &str) -> Result<Span, SpanError> {
        let text = text.trim();
        if matches!(text, "inf" | "forever" | "∞") {
            return Ok(Span::FOREVER);
        }
        let digits = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_')));
        let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
        if number.is_empty() {
            return Err(SpanError::NotANumber(text.to_owned()));
        }
        let unit = unit.trim();
        if unit.is_empty() {
            // Zero needs no unit.
            let zero = number.chars().all(|c| matches!(c, '0' | '.'));
            return if zero { Ok(Span::ZERO) } else { Err(SpanError::NoUnit(number.to_owned())) };
        }
        let Some(&(_, exponent)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(SpanError::UnknownUnit(unit.to_owned()));
        };
        let factor = match unit {
            "min" => 60,
            "h" => 3600,
            _ => 1,
        };
        scale(text, number, exponent, factor)
    }
}

/// `number · 10^exponent · factor` nanoseconds, digits below a nanosecond cut off.
fn scale(text: &str, number: &str, exponent: u32, factor: i128) -> Result<Span, SpanError> {
    let number = number.replace('_', "");
    let (negative, magnitude) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(&number)),
    };
    let (whole, fraction) = magnitude.split_once('.').unwrap_or((magnitude, ""));
    let all_digits = |part: &str| part.chars().all(|c| c.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !all_digits(whole) || !all_digits(fraction) {
        return Err(SpanError::NotANumber(text.to_owned()));
    }
    let too_long = || SpanError::TooLong(text.to_owned());
    let parse = |digits: &str| if digits.is_empty() { Ok(0) } else { digits.parse::<i128>() };
    let whole = parse(whole).map_err(|_| too_long())?;
    let kept = &fraction[..fraction.len().min(18)];
    let fraction_value = parse(kept).map_err(|_| too_long())?;
    let unit = 10_i128.pow(exponent) * factor;
    let nanos = whole
        .checked_mul(unit)
        .and_then(|n| n.checked_add(fraction_value * unit / 10_i128.pow(kept.len() as u32)))
        .ok_or_else(too_long)?;
    let signed = if negative { -nanos } else { nanos };
    i64::try_from(signed).map(Span).map_err(|_| too_long())
}

impl fmt::Display for Span {
    /// The largest unit in which the span is a short number: `50ms`, `49.95ms`, `1.5s`, `∞`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_forever() {
            return f.pad("∞");
        }
        let magnitude = self.0.unsigned_abs();
        let (unit, name) = match magnitude {
            0 => return f.pad("0ms"),
            1..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "us"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        let sign = if self.0 < 0 { "-" } else { "" };
        let whole = magnitude / unit;
        let rest = magnitude % unit;
        if rest == 0 {
            return f.pad(&format!("{sign}{whole}{name}"));
        }
        let width = unit.ilog10() as usize;
        let fraction = format!("{rest:0width$}");
        f.pad(&format!("{sign}{whole}.{}{name}", fraction.trim_end_matches('0')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spans_are_read_with_their_unit() {
        assert_eq!("50ms".parse(), Ok(Span::millis(50)));
        assert_eq!("0.05 ms".parse(), Ok(Span::micros(50)));
        assert_eq!("2h".parse(), Ok(Span::secs(7200)));
        assert_eq!("1.5min".parse(), Ok(Span::secs(90)));
        assert_eq!("0".parse(), Ok(Span::ZERO));
        assert_eq!("inf".parse(), Ok(Span::FOREVER));
    }

    #[test]
    fn a_span_without_unit_says_what_to_write() {
        assert_eq!("50".parse::<Span>(), Err(SpanError::NoUnit("50".into())));
        assert!("50".parse::<Span>().unwrap_err().to_string().contains("`50ms`"));
        assert_eq!("50 parsec".parse::<Span>(), Err(SpanError::UnknownUnit("parsec".into())));
        assert!(matches!("fast".parse::<Span>(), Err(SpanError::NotANumber(_))));
        assert!(matches!("1.2.3s".parse::<Span>(), Err(SpanError::NotANumber(_))));
        assert!(matches!("99999999999h".parse::<Span>(), Err(SpanError::TooLong(_))));
    }

    #[test]
    fn forever_stays_forever() {
        assert_eq!(Span::FOREVER - Span::secs(5), Span::FOREVER);
        let none = 0;
        assert_eq!(Span::FOREVER * none, Span::ZERO);
        assert_eq!(Time(7) + Span::FOREVER, Time::NEVER);
    }

    proptest! {
        #[test]
        fn what_is_shown_can_be_read_back(nanos in any::<i64>()) {
            prop_assert_eq!(Span(nanos).to_string().parse::<Span>(), Ok(Span(nanos)));
        }

        #[test]
        fn reading_never_panics(text in "\\PC*") {
            let _ = text.parse::<Span>();
        }

        #[test]
        fn whatever_lies_beyond_what_can_be_said_is_as_far_as_can_be_said(at in any::<u64>(), other in any::<u64>(), by in any::<i64>()) {
            let apart = i128::from(at) - i128::from(other);
            prop_assert_eq!(i128::from(Time(at).since(Time(other)).0), apart.clamp(i64::MIN.into(), i64::MAX.into()));
            let there = (i128::from(at) + i128::from(by)).clamp(0, u64::MAX.into());
            prop_assert_eq!(i128::from((Time(at) + Span(by)).0), there);
            prop_assert_eq!(Time(at) + Span::FOREVER, Time::NEVER);
            prop_assert_eq!(Time(at) - Span::FOREVER, Time(at.saturating_sub(i64::MAX as u64)));
        }

        #[test]
        fn a_point_plus_a_distance_is_that_far_away(at in 0..u64::MAX / 4, by in -1_000_000_000_000_i64..1_000_000_000_000) {
            prop_assume!(at as i128 + by as i128 >= 0);
            prop_assert_eq!((Time(at) + Span(by)).since(Time(at)), Span(by));
        }
    }
}
