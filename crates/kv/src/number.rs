//! Values that are numbers: how they are read, compared, averaged and written. All of it gives the same bits on every node.

use std::cmp::Ordering;
use std::fmt::Write;

/// How a value is a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Eight bytes, IEEE 754, little-endian.
    F64,
    /// Eight bytes, two's complement, little-endian.
    I64,
    /// Text such as `-0.25` or `1e-3`. A result that is too long for a value has fewer digits.
    Decimal,
}

impl Format {
    /// The fewest bytes that hold every number of this format, be it with few digits.
    pub const fn bytes_min(self) -> usize {
        match self {
            Format::F64 | Format::I64 => 8,
            // `-1e-308`
            Format::Decimal => 7,
        }
    }

    /// Its name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Format::F64 => "f64",
            Format::I64 => "i64",
            Format::Decimal => "decimal",
        }
    }

    /// Whether a value is a number of this format. What is not finite is none: it would not average with others.
    pub fn accepts(self, value: &[u8]) -> bool {
        match self {
            Format::I64 => parse_i64(value).is_some(),
            Format::F64 => parse_f64(value).is_some(),
            Format::Decimal => parse_decimal(value).is_some(),
        }
    }
}

pub(crate) fn parse_i64(value: &[u8]) -> Option<i64> {
    Some(i64::from_le_bytes(value.try_into().ok()?))
}

pub(crate) fn parse_f64(value: &[u8]) -> Option<f64> {
    Some(f64::from_le_bytes(value.try_into().ok()?)).filter(|number| number.is_finite())
}

pub(crate) fn parse_decimal(value: &[u8]) -> Option<f64> {
    str::from_utf8(value).ok()?.parse().ok().filter(|number: &f64| number.is_finite())
}

/// What votes need of numbers.
pub(crate) trait Numeral: Copy {
    const ZERO: Self;
    fn order(&self, other: &Self) -> Ordering;
    fn midpoint(self, other: Self) -> Self;
    /// The mean of numbers in ascending order, of which there is at least one.
    fn mean(sorted: &[Self]) -> Self;
    fn to_f64(self) -> f64;
    /// The nearest number.
    fn from_f64(number: f64) -> Self;
}

impl Numeral for f64 {
    const ZERO: f64 = 0.0;

    fn order(&self, other: &f64) -> Ordering {
        self.total_cmp(other)
    }

    fn midpoint(self, other: f64) -> f64 {
        f64::midpoint(self, other)
    }

    fn mean(sorted: &[f64]) -> f64 {
        let count = sorted.len() as f64;
        let sum: f64 = sorted.iter().sum();
        let mean =
            if sum.is_finite() { sum / count } else { sorted.iter().map(|number| number / count).sum() };
        // Rounding must not lead out of the numbers: three times 0.1 has the mean 0.1.
        mean.clamp(sorted[0], sorted[sorted.len() - 1])
    }

    fn to_f64(self) -> f64 {
        self
    }

    fn from_f64(number: f64) -> f64 {
        number
    }
}

impl Numeral for i64 {
    const ZERO: i64 = 0;

    fn order(&self, other: &i64) -> Ordering {
        self.cmp(other)
    }

    fn midpoint(self, other: i64) -> i64 {
        i64::midpoint(self, other)
    }

    fn mean(sorted: &[i64]) -> i64 {
        let sum: i128 = sorted.iter().map(|&number| i128::from(number)).sum();
        // Between the least and the greatest, so it fits.
        (sum / sorted.len() as i128) as i64
    }

    fn to_f64(self) -> f64 {
        self as f64
    }

    fn from_f64(number: f64) -> i64 {
        number.round() as i64
    }
}

/// Writes the shortest text that reads back as the number, or, where that is too long, one with as many digits as fit.
pub fn write_decimal(number: f64, out: &mut [u8]) -> Option<usize> {
    let plain = print(out, |text| write!(text, "{number}"));
    let short = plain.or_else(|| print(out, |text| write!(text, "{number:e}")));
    let rounded = |digits| print(out, |text| write!(text, "{number:.digits$e}"));
    let len = short.or_else(|| (0..=16).rev().find_map(rounded))?;
    // The very largest numbers may round up to what is none.
    parse_decimal(&out[..len]).map(|_| len)
}

/// Prints into a buffer; `None` if it does not fit.
fn print(out: &mut [u8], write: impl FnOnce(&mut Text<'_>) -> std::fmt::Result) -> Option<usize> {
    let mut text = Text { out, len: 0 };
    write(&mut text).ok()?;
    Some(text.len)
}

struct Text<'a> {
    out: &'a mut [u8],
    len: usize,
}

impl Write for Text<'_> {
    fn write_str(&mut self, piece: &str) -> std::fmt::Result {
        let end = self.len + piece.len();
        self.out.get_mut(self.len..end).ok_or(std::fmt::Error)?.copy_from_slice(piece.as_bytes());
        self.len = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_finite_is_no_number() {
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(!Format::F64.accepts(&number.to_le_bytes()));
        }
        for text in ["NaN", "inf", "-infinity", "1e999", "", "1,5", "0x10", " 1"] {
            assert!(!Format::Decimal.accepts(text.as_bytes()), "{text}");
        }
        assert!(Format::Decimal.accepts(b"-2.5e-3") && Format::I64.accepts(&[0xFF; 8]));
        assert!(!Format::F64.accepts(&[0; 7]) && !Format::I64.accepts(&[0; 9]));
    }

    #[test]
    fn every_decimal_fits_into_the_fewest_bytes() {
        let mut out = [0; 16];
        let mut print = |number: f64, room: usize| {
            let len = write_decimal(number, &mut out[..room]).unwrap();
            String::from_utf8(out[..len].to_vec()).unwrap()
        };
        assert_eq!(print(0.25, 16), "0.25");
        assert_eq!(print(0.1 + 0.2, 16), "3.00000000000e-1");
        assert_eq!(print(-1.6e-300, 16), "-1.6e-300");
        for number in [f64::MAX, f64::MIN, f64::MIN_POSITIVE, -f64::MIN_POSITIVE, 5e-324, -123_456_789.123] {
            let text = write_decimal(number, &mut [0; Format::Decimal.bytes_min()]);
            assert!(text.is_some() || number.abs() > 1.5e308, "{number}");
        }
    }

    #[test]
    fn a_mean_stays_between_its_numbers() {
        assert_eq!(f64::mean(&[0.1, 0.1, 0.1]).to_bits(), 0.1_f64.to_bits());
        assert_eq!(f64::mean(&[f64::MAX, f64::MAX]), f64::MAX);
        assert_eq!(i64::mean(&[i64::MAX, i64::MAX]), i64::MAX);
        assert_eq!(i64::mean(&[-3, 1, 2]), 0);
    }
}
