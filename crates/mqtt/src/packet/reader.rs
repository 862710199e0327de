//! Reading a body from front to back: every length is checked before it is used.

use super::Malformed;

/// The largest number that a variable byte integer holds.
pub(super) const VARIABLE_MAX: u32 = 268_435_455;

const SHORT: &str = "the packet ends before all of its fields have come";

/// What is left of a body.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or_else(|| Malformed::packet(SHORT))?;
        self.0 = rest;
        Ok(*head)
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    #[inline]
    pub(super) fn two(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    #[inline]
    pub(super) fn four(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline]
    pub(super) fn bytes(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(|| Malformed::packet(SHORT))?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Bytes with their length in front.
    #[inline]
    pub(super) fn binary(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::from(self.two()?);
        self.bytes(length)
    }

    /// A text with its length in front; `wrong` says which one, should it be none.
    #[inline]
    pub(super) fn text(&mut self, wrong: &'static str) -> Result<&'a str, Malformed> {
        let text = std::str::from_utf8(self.binary()?).map_err(|_| Malformed::packet(wrong))?;
        // All bytes are looked at, because a loop without an exit takes 16 of them at once.
        if text.bytes().fold(false, |found, byte| found | (byte == 0)) {
            return Err(Malformed::packet(wrong));
        }
        Ok(text)
    }

    /// A packet identifier.
    #[inline]
    pub(super) fn id(&mut self) -> Result<u16, Malformed> {
        match self.two()? {
            0 => Err(Malformed::protocol("the packet identifier is zero")),
            id => Ok(id),
        }
    }

    /// A variable byte integer in as few bytes as it needs.
    #[inline]
    pub(super) fn variable(&mut self) -> Result<u32, Malformed> {
        match variable(self.0)? {
            Some((value, rest)) => {
                self.0 = rest;
                Ok(value)
            }
            None => Err(Malformed::packet(SHORT)),
        }
    }

    /// Properties with their length in front.
    #[inline]
    pub(super) fn section(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.variable()? as usize;
        self.0.split_at_checked(length).map_or_else(
            || Err(Malformed::packet("the properties are longer than the packet")),
            |(section, rest)| {
                self.0 = rest;
                Ok(section)
            },
        )
    }

    /// The body must end here.
    #[inline]
    pub(super) fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Malformed::packet("the packet goes on after its last field"))
        }
    }
}

/// A variable byte integer and what follows; nothing, where it is not all there.
#[inline]
pub(super) fn variable(bytes: &[u8]) -> Result<Option<(u32, &[u8])>, Malformed> {
    let mut value = 0;
    let mut rest = bytes;
    for shift in [0, 7, 14, 21] {
        let Some((byte, after)) = rest.split_first() else { return Ok(None) };
        rest = after;
        value |= u32::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            if *byte == 0 && shift > 0 {
                return Err(Malformed::packet("a length is written with more bytes than it needs"));
            }
            return Ok(Some((value, rest)));
        }
    }
    Err(Malformed::packet("a length is written with more than four bytes"))
}

/// Whether a text can be the topic of a message, apart from being empty.
#[inline]
pub(super) fn is_without_wildcards(topic: &str) -> bool {
    !topic.bytes().fold(false, |found, byte| found | (byte == b'+') | (byte == b'#'))
}
