//! What each node proposed under a key for an instant, as all correct nodes have agreed: kept in a store of its own, of which a value is a
//! whole vector.
//!
//! ```text
//! for each node that proposed something, in ascending order:
//!   its number   one byte
//!   a length     two bytes, little-endian
//!   the value
//! ```

use kv::{Node, Proposals};

/// What there is of each node besides its value.
const HEAD_BYTES: usize = 3;

/// The longest vector of so many nodes with values of so many bytes.
pub const fn vector_bytes_max(nodes: usize, value_bytes_max: usize) -> usize {
    nodes * (HEAD_BYTES + value_bytes_max)
}

/// Writes a vector that fits, and says how long it is.
pub(crate) fn write(proposals: Proposals<'_>, out: &mut [u8]) -> usize {
    let mut len = 0;
    for (node, value) in proposals.iter() {
        let place = &mut out[len..len + HEAD_BYTES + value.len()];
        place[0] = node.0;
        place[1..HEAD_BYTES].copy_from_slice(&(value.len() as u16).to_le_bytes());
        place[HEAD_BYTES..].copy_from_slice(value);
        len += place.len();
    }
    len
}

/// Who proposed what, of a vector that was read.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a> {
    rest: &'a [u8],
}

impl<'a> Said<'a> {
    /// Of these bytes.
    pub fn of(bytes: &'a [u8]) -> Said<'a> {
        Said { rest: bytes }
    }
}

impl<'a> Iterator for Said<'a> {
    type Item = (Node, &'a [u8]);

    /// Ends early where the bytes are no vector.
    fn next(&mut self) -> Option<(Node, &'a [u8])> {
        let (head, rest) = self.rest.split_first_chunk::<HEAD_BYTES>()?;
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes([head[1], head[2]])))?;
        self.rest = rest;
        Some((Node(head[0]), value))
    }
}
