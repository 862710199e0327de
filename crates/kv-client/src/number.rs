//! Numbers as values. A key that votes on numbers has a format, and every type is written in it; any other key has the type's own
//! bytes, little-endian.

use contract::Time;
use kv::{Format, write_decimal};

/// The longest text that a number is read from.
pub const NUMBER_BYTES_MAX: usize = 512;

/// A number, and the instant from which on it is valid.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Stamped<N> {
    /// The instant.
    pub stamp: Time,
    /// The number.
    pub number: N,
}

/// A type of numbers: `f64`, `f32` or `i64`.
pub trait Number: Copy + sealed::Sealed {
    /// Its name in messages.
    const NAME: &'static str;

    /// Writes the value to the beginning of `out` and says how long it is; `None` if this number cannot be one of the format, or
    /// does not fit.
    fn write(self, format: Option<Format>, out: &mut [u8]) -> Option<usize>;

    /// The number that a value is; `None` if it is none, or none of this type.
    fn read(format: Option<Format>, value: &[u8]) -> Option<Self>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f64 {}
    impl Sealed for f32 {}
    impl Sealed for i64 {}
}

impl Number for f64 {
    const NAME: &'static str = "f64";

    fn write(self, format: Option<Format>, out: &mut [u8]) -> Option<usize> {
        match format {
            None | Some(Format::F64) => put(out, &self.to_le_bytes()),
            Some(Format::I64) => put(out, &whole(self)?.to_le_bytes()),
            Some(Format::Decimal) => write_decimal(self, out),
        }
    }

    fn read(format: Option<Format>, value: &[u8]) -> Option<f64> {
        match format {
            None | Some(Format::F64) => Some(f64::from_le_bytes(value.try_into().ok()?)),
            Some(Format::I64) => Some(i64::from_le_bytes(value.try_into().ok()?) as f64),
            Some(Format::Decimal) => str::from_utf8(value).ok()?.parse().ok(),
        }
    }
}

impl Number for f32 {
    const NAME: &'static str = "f32";

    fn write(self, format: Option<Format>, out: &mut [u8]) -> Option<usize> {
        match format {
            None => put(out, &self.to_le_bytes()),
            format => f64::from(self).write(format, out),
        }
    }

    fn read(format: Option<Format>, value: &[u8]) -> Option<f32> {
        match format {
            None => Some(f32::from_le_bytes(value.try_into().ok()?)),
            format => f64::read(format, value).map(|number| number as f32),
        }
    }
}

impl Number for i64 {
    const NAME: &'static str = "i64";

    fn write(self, format: Option<Format>, out: &mut [u8]) -> Option<usize> {
        match format {
            None | Some(Format::I64) => put(out, &self.to_le_bytes()),
            Some(Format::F64 | Format::Decimal) => {
                let number = self as f64;
                // What a double cannot hold would become another number.
                (whole(number) == Some(self)).then(|| number.write(format, out))?
            }
        }
    }

    fn read(format: Option<Format>, value: &[u8]) -> Option<i64> {
        match format {
            None | Some(Format::I64) => Some(i64::from_le_bytes(value.try_into().ok()?)),
            format => whole(f64::read(format, value)?),
        }
    }
}

/// The whole number that this is.
fn whole(number: f64) -> Option<i64> {
    // 2^63 itself is no i64.
    let fits = number >= i64::MIN as f64 && number < i64::MAX as f64;
    (fits && number.fract() == 0.0).then_some(number as i64)
}

fn put(out: &mut [u8], bytes: &[u8]) -> Option<usize> {
    out.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through<N: Number>(number: N, format: Option<Format>) -> Option<N> {
        let mut value = [0; 16];
        let len = number.write(format, &mut value)?;
        N::read(format, &value[..len])
    }

    #[test]
    fn numbers_come_back_in_every_format() {
        for format in [None, Some(Format::F64), Some(Format::I64), Some(Format::Decimal)] {
            for number in [0.0, 1.0, -250.0, 65_536.0] {
                assert_eq!(through(number, format), Some(number), "{format:?}");
                assert_eq!(through(number as f32, format), Some(number as f32), "{format:?}");
                assert_eq!(through(number as i64, format), Some(number as i64), "{format:?}");
            }
        }
        assert_eq!(
            (through(0.25, Some(Format::Decimal)), through(0.25, Some(Format::I64))),
            (Some(0.25), None)
        );
        assert_eq!(through(0.1_f32, None), Some(0.1));
    }

    #[test]
    fn what_would_become_another_number_is_none() {
        for number in [i64::MAX, i64::MIN + 1, (1 << 53) + 1] {
            assert_eq!(through(number, Some(Format::F64)), None);
            assert_eq!(through(number, Some(Format::I64)), Some(number));
        }
        assert_eq!(through(i64::MIN, Some(Format::F64)), Some(i64::MIN));
        assert_eq!(f64::read(None, &[0; 7]), None);
        assert_eq!(i64::read(Some(Format::Decimal), b"2.5"), None);
        assert_eq!(1.0.write(None, &mut [0; 7]), None);
    }
}
