//! A sample on its way: what stands before the bytes that its writer wrote.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version of this format: 1 |
//! | 1 | bits 0 to 3: 0 the end of what was recalled, 1 a key, 2 data, 3 a question whether anybody is ready. Bit 5: a key hash is there |
//! | 1 | bit 0 disposed of, bit 1 unregistered |
//! | 8 | the bridge, little-endian |
//! | 16 | the writer |
//! | 8 | which time it is that the bridge reads the writer, little-endian |
//! | 8 | its number, from its bridge, little-endian |
//! | 8 | which time it is that the bridge sends again what it keeps, 0: sent for the first time, little-endian |
//! | 8 | when it was written, in nanoseconds since 1970 by its writer's clock, little-endian. Of an end: how many were sent again |
//! | 16 | the key hash, where there is one |
//! | | the bytes, with their encapsulation header (RTPS 2.5 §10.2) |

use crate::endpoint::Guid;
use crate::words::BridgeId;

const VERSION: u8 = 1;
const HASHED: u8 = 0x20;
const HEAD_BYTES: usize = 3 + 8 + 16 + 8 + 8 + 8 + 8;

/// What stands before a sample takes at most so many bytes.
pub const HEADER_BYTES_MAX: usize = HEAD_BYTES + 16;

/// The status of an instance: it was disposed of.
pub const DISPOSED: u8 = 1;
/// The status of an instance: its writer writes it no more.
pub const UNREGISTERED: u8 = 2;

/// What the bytes of a sample are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Nothing: all that was recalled has been sent.
    End,
    /// The key of an instance.
    Key,
    /// A whole sample.
    Data,
    /// Nothing: whoever is ready to write what the writer will write says so ([`crate::Word::Ready`]).
    Probe,
}

/// What a writer wrote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// What its bytes are.
    pub kind: Kind,
    /// What has become of its instance: [`DISPOSED`], [`UNREGISTERED`].
    pub status: u8,
    /// Nanoseconds since 1970, by its writer's clock.
    pub stamp: i64,
    /// What tells its instance apart, where that is known.
    pub hash: Option<[u8; 16]>,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Sample {
    /// A question whether anybody is ready.
    pub(crate) fn probe() -> Sample {
        Sample { kind: Kind::Probe, ..Sample::end(0) }
    }

    /// The end of what was recalled, of so many samples.
    pub(crate) fn end(samples: usize) -> Sample {
        Sample { kind: Kind::End, status: 0, stamp: samples as i64, hash: None, bytes: Vec::new() }
    }

    /// A change of which only the key hash came. It is the key itself, big-endian and filled up with zeros, wherever a key takes at most
    /// 16 bytes (RTPS 2.5 §9.6.4.8), and a reader leaves what is too much.
    pub fn of_hash(hash: [u8; 16], status: u8, stamp: i64) -> Sample {
        let bytes = [0; 4].into_iter().chain(hash).collect();
        Sample { kind: Kind::Key, status, stamp, hash: Some(hash), bytes }
    }
}

/// A sample with who wrote it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Carried {
    /// Who sends it.
    pub bridge: BridgeId,
    /// Who wrote it.
    pub writer: Guid,
    /// Which time it is that the bridge reads this writer. Numbers begin anew with each.
    pub life: u64,
    /// Its number among those of this writer that the bridge sends. That of an end is the next one.
    pub seq: u64,
    /// Which time it is that the bridge sends again what it keeps; 0: it is sent for the first time.
    pub again: u64,
    /// The sample.
    pub sample: Sample,
}

impl Carried {
    /// As a message.
    pub fn encode(&self) -> Vec<u8> {
        let Carried { bridge, writer, life, seq, again, sample } = self;
        let kind = match sample.kind {
            Kind::End => 0,
            Kind::Key => 1,
            Kind::Data => 2,
            Kind::Probe => 3,
        };
        let flags = kind | if sample.hash.is_some() { HASHED } else { 0 };
        let mut out = Vec::with_capacity(HEADER_BYTES_MAX + sample.bytes.len());
        out.extend([VERSION, flags, sample.status]);
        out.extend(bridge.0.to_le_bytes());
        out.extend(writer.0);
        out.extend(life.to_le_bytes());
        out.extend(seq.to_le_bytes());
        out.extend(again.to_le_bytes());
        out.extend(sample.stamp.to_le_bytes());
        out.extend(sample.hash.iter().flatten());
        out.extend(&sample.bytes);
        out
    }

    /// Whether a message is a sample that is sent for the first time.
    pub fn is_live(message: &[u8]) -> bool {
        let kind = message.get(1).map_or(0, |flags| flags & 0x0f);
        let again = message.get(HEAD_BYTES - 16..HEAD_BYTES - 8);
        message.first() == Some(&VERSION) && matches!(kind, 1 | 2) && again == Some(&[0; 8])
    }

    /// Of a message. `None`: it is none of these.
    pub fn decode(message: &[u8]) -> Option<Carried> {
        let (&[version, flags, status], rest) = message.split_first_chunk()?;
        let kind = match flags & 0x0f {
            0 => Kind::End,
            1 => Kind::Key,
            2 => Kind::Data,
            3 => Kind::Probe,
            _ => return None,
        };
        if version != VERSION || flags & !(0x0f | HASHED) != 0 || status & !(DISPOSED | UNREGISTERED) != 0 {
            return None;
        }
        let (bridge, rest) = rest.split_first_chunk()?;
        let (writer, rest) = rest.split_first_chunk()?;
        let (life, rest) = rest.split_first_chunk()?;
        let (seq, rest) = rest.split_first_chunk()?;
        let (again, rest) = rest.split_first_chunk()?;
        let (stamp, rest) = rest.split_first_chunk()?;
        let (hash, bytes) = match flags & HASHED {
            0 => (None, rest),
            _ => rest.split_first_chunk().map(|(hash, bytes)| (Some(*hash), bytes))?,
        };
        // A library reads the encapsulation header of whatever it is given.
        if matches!(kind, Kind::Key | Kind::Data) && bytes.len() < 4 {
            return None;
        }
        let stamp = i64::from_le_bytes(*stamp);
        let sample = Sample { kind, status, stamp, hash, bytes: bytes.to_vec() };
        let bridge = BridgeId(u64::from_le_bytes(*bridge));
        let (life, seq) = (u64::from_le_bytes(*life), u64::from_le_bytes(*seq));
        Some(Carried { bridge, writer: Guid(*writer), life, seq, again: u64::from_le_bytes(*again), sample })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_read_as_it_is_written_and_nothing_else_is() {
        let mut chance = fastrand::Rng::with_seed(1);
        for _ in 0..500 {
            let hash = chance.bool().then(|| std::array::from_fn(|_| chance.u8(..)));
            let bytes = (0..chance.usize(4..40)).map(|_| chance.u8(..)).collect();
            let kind = [Kind::Key, Kind::Data][chance.usize(..2)];
            let sample = Sample { kind, status: chance.u8(..4), stamp: chance.i64(..), hash, bytes };
            let writer = Guid(std::array::from_fn(|_| chance.u8(..)));
            let bridge = BridgeId(chance.u64(..));
            let (life, seq) = (chance.u64(..), chance.u64(..));
            let carried = Carried { bridge, writer, life, seq, again: chance.u64(..3), sample };
            let message = carried.encode();
            assert_eq!(Carried::is_live(&message), carried.again == 0);
            assert_eq!(Carried::decode(&message).as_ref(), Some(&carried));
            let least = message.len() - carried.sample.bytes.len() + 4;
            assert!((0..least).all(|length| Carried::decode(&message[..length]).is_none()));
            let mut rubbish = message;
            rubbish[chance.usize(..3)] ^= 0xc0;
            assert_eq!(Carried::decode(&rubbish), None);
        }
    }
}
