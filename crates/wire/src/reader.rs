//! Reading a body from front to back, and writing one: every length is checked before it is used.

use crate::WireError;
use zerocopy::byteorder::little_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What is left of a body.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    /// A fixed head, in place.
    #[inline]
    pub(crate) fn head<T>(&mut self) -> Result<&'a T, WireError>
    where
        T: FromBytes + KnownLayout + Immutable + Unaligned,
    {
        let (head, rest) = T::ref_from_prefix(self.0).map_err(|_| WireError::Truncated)?;
        self.0 = rest;
        Ok(head)
    }

    #[inline]
    pub(crate) fn bytes(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(WireError::Truncated)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// A text with its length in front.
    pub(crate) fn text(&mut self, bytes_max: usize) -> Result<&'a str, WireError> {
        let length = usize::from(self.head::<U16>()?.get());
        if length > bytes_max {
            return Err(WireError::TextTooLong { length, limit: bytes_max });
        }
        std::str::from_utf8(self.bytes(length)?).map_err(|_| WireError::NotText)
    }

    /// The body must end here.
    pub(crate) fn end(self) -> Result<(), WireError> {
        if self.0.is_empty() { Ok(()) } else { Err(WireError::TrailingBytes(self.0.len())) }
    }
}

/// Appends a fixed head.
#[inline]
pub(crate) fn put<T: IntoBytes + Immutable>(out: &mut Vec<u8>, head: &T) {
    out.extend_from_slice(head.as_bytes());
}

/// Appends a text with its length in front, cut at a character where it is too long.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str, bytes_max: usize) {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = text.get(..end).unwrap_or("");
    put(out, &U16::new(text.len() as u16));
    out.extend_from_slice(text.as_bytes());
}
