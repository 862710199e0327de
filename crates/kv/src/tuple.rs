//! Tuples, and batches of them: what one node has written for one job.
//!
//! A tuple is the number of its key (2 bytes), the length of its value (2), its publishing time in nanoseconds (8) and the
//! value, all little-endian and counted. Nothing ends at a terminator, so any byte may be in a value. Names of keys do not
//! travel: nodes whose configurations differ do not talk to each other. A batch is tuples one after the other; the empty batch
//! is `⊥`, what a silent node is taken to have said.

use crate::KeyId;
use contract::Time;

/// What a tuple takes besides its value.
pub const TUPLE_HEAD_BYTES: usize = 12;

/// One write: a value that is to be visible under a key from a time on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuple<'a> {
    /// Under which key.
    pub key: KeyId,
    /// From when on.
    pub stamp: Time,
    /// What.
    pub value: &'a [u8],
}

impl Tuple<'_> {
    /// Writes the tuple to the beginning of `buffer` and says how long it is; `None` if it does not fit.
    pub fn write(&self, buffer: &mut [u8]) -> Option<usize> {
        let length = TUPLE_HEAD_BYTES + self.value.len();
        let (head, value) = buffer.get_mut(..length)?.split_at_mut(TUPLE_HEAD_BYTES);
        head[0..2].copy_from_slice(&self.key.0.to_le_bytes());
        head[2..4].copy_from_slice(&u16::try_from(self.value.len()).ok()?.to_le_bytes());
        head[4..12].copy_from_slice(&self.stamp.0.to_le_bytes());
        value.copy_from_slice(self.value);
        Some(length)
    }
}

/// The tuples of a batch. After the last one [`Tuples::is_whole`] says whether the batch ended where a tuple did.
#[derive(Clone, Debug)]
pub struct Tuples<'a> {
    rest: &'a [u8],
}

impl<'a> Tuples<'a> {
    /// The tuples of these bytes.
    pub fn of(batch: &'a [u8]) -> Tuples<'a> {
        Tuples { rest: batch }
    }

    /// Whether nothing is left that is not a tuple. Only to be asked when there is no next one.
    pub fn is_whole(&self) -> bool {
        self.rest.is_empty()
    }
}

impl<'a> Iterator for Tuples<'a> {
    type Item = Tuple<'a>;

    #[inline]
    fn next(&mut self) -> Option<Tuple<'a>> {
        let (head, rest) = self.rest.split_first_chunk::<TUPLE_HEAD_BYTES>()?;
        let [k0, k1, l0, l1, stamp @ ..] = *head;
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes([l0, l1])))?;
        self.rest = rest;
        let stamp = Time(u64::from_le_bytes(stamp));
        Some(Tuple { key: KeyId(u16::from_le_bytes([k0, k1])), stamp, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_come_back_as_written_and_a_torn_one_is_noticed() {
        let tuple = Tuple { key: KeyId(513), stamp: Time(1_050), value: b"a\0b" };
        let mut buffer = [0; 40];
        assert_eq!(tuple.write(&mut buffer), Some(15));
        assert_eq!(tuple.write(&mut buffer[15..]), Some(15));
        assert_eq!(tuple.write(&mut buffer[30..]), None, "there are only ten bytes left");
        let mut tuples = Tuples::of(&buffer[..30]);
        assert_eq!((tuples.next(), tuples.next(), tuples.next()), (Some(tuple), Some(tuple), None));
        assert!(tuples.is_whole());
        let mut torn = Tuples::of(&buffer[..29]);
        assert_eq!(torn.by_ref().count(), 1);
        assert!(!torn.is_whole());
    }
}
