//! What nodes send to each other: a head of [`HEAD_BYTES`] and a body (A2).
//!
//! | bytes | field |
//! |---|---|
//! | 0 to 3 | `VgKV` |
//! | 4, 5 | version |
//! | 6, 7 | lane |
//! | 8 to 15 | number of the job |
//! | 16, 17, 18 | round, sender, receiver |
//! | 19 | 1: the sender's store lacks nothing; 2: it asks for state, or answers |
//! | 20 to 23 | length of the body |
//! | 24 to 31 | fingerprint of the configuration |
//! | 32 to 39 | digest of the store as it was after the job before this one |
//! | 40 to 47 | state: stamps after this time |
//! | 48 to 51 | state: from this key on |
//! | 52 to 55 | state: up to this key, which is not in the answer |
//! | 56 to 87 | code of authentication |
//!
//! All numbers are little-endian. The body is, for each label that the sender speaks about in this round and in the order of the
//! labels, the label (4 bytes), the length of the batch (4) and the batch. An answer about state has the round 255, the number of the job
//! after which it is so, and tuples for a body, by key and stamp.
//!
//! The code is a keyed BLAKE3 of the head and of the BLAKE3 of the body, with the key of the two nodes. A correct node says the
//! same to all in a round, so it hashes the body once and not for each of them. The code takes the place of a checksum: what it
//! finds, no checksum would find less of. It is no signature; whoever has it cannot show it to a third. A frame that fails is as
//! if it had not come.

use crate::Node;
use contract::Time;
use std::fmt;

/// The bytes before the body.
pub const HEAD_BYTES: usize = 88;
const SIGNED_BYTES: usize = 56;
const SURE: u8 = 1;
const ASKS: u8 = 2;
/// What begins every frame.
pub const MAGIC: [u8; 4] = *b"VgKV";
/// The version of frames and of what nodes conclude from them.
pub const VERSION: u16 = 2;
/// The round of an answer about state.
pub const STATE_ROUND: u8 = 255;
/// What a batch takes in a body besides its tuples.
pub const BATCH_HEAD_BYTES: usize = 8;

/// A key that two nodes share, and nobody else. Not even the others of the cluster: one that lies could speak for them.
#[derive(Clone)]
pub struct LinkKey(pub [u8; 32]);

impl fmt::Debug for LinkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkKey(..)")
    }
}

/// The fields of a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The lane.
    pub lane: u16,
    /// The job, counted in periods since the Unix epoch.
    pub job: u64,
    /// The round, from 1.
    pub round: u8,
    /// Who sends.
    pub sender: Node,
    /// Whom to.
    pub receiver: Node,
    /// The bytes that follow the head.
    pub body_len: u32,
    /// Which configuration the sender has.
    pub fingerprint: u64,
    /// Of the sender's store, as it was after the job before this one; in an answer, after this one.
    pub digest: u64,
    /// Whether that store lacks nothing that others may have.
    pub sure: bool,
    /// What the sender asks for in round 1; in an answer, what it answers.
    pub ask: Option<Ask>,
    /// In an answer: the first key that it says nothing of.
    pub until: u32,
}

/// A part of the store that a node asks the others for: they answer with how it is after the job in which they were asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// Stamps after this time.
    pub since: Time,
    /// From this key on.
    pub key: u32,
}

/// A frame to be sent, without copying its body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// The head, with its code.
    pub head: [u8; HEAD_BYTES],
    /// The body.
    pub body: &'a [u8],
}

impl Frame<'_> {
    /// Its length.
    pub fn bytes(&self) -> usize {
        HEAD_BYTES + self.body.len()
    }
}

/// Why a head is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeadError {
    /// Something else begins there. The connection cannot be read any further.
    #[error("the peer does not speak the protocol of the store")]
    NotOurs,
    /// Another version.
    #[error(
        "the peer speaks version {0} of the store's protocol, this program {VERSION}: run the same release on all nodes"
    )]
    Version(u16),
    /// A field with a value that nothing has.
    #[error("the head of a frame is malformed")]
    Malformed,
}

impl Head {
    /// Reads a head; its code has not been looked at then. Whoever reads from a stream learns here how much follows, and must
    /// compare that with `Setup::body_bytes_max` before reserving anything.
    pub fn parse(bytes: &[u8; HEAD_BYTES]) -> Result<Head, HeadError> {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        if bytes[..4] != MAGIC {
            return Err(HeadError::NotOurs);
        }
        let version = u16::from_le_bytes([bytes[4], bytes[5]]);
        if version != VERSION {
            return Err(HeadError::Version(version));
        }
        let half = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        if bytes[19] > SURE | ASKS {
            return Err(HeadError::Malformed);
        }
        let ask = Ask { since: Time(word(40)), key: half(48) };
        Ok(Head {
            lane: u16::from_le_bytes([bytes[6], bytes[7]]),
            job: word(8),
            round: bytes[16],
            sender: Node(bytes[17]),
            receiver: Node(bytes[18]),
            body_len: u32::from_le_bytes([bytes[20], bytes[21], bytes[22], bytes[23]]),
            fingerprint: word(24),
            digest: word(32),
            sure: bytes[19] & SURE != 0,
            ask: (bytes[19] & ASKS != 0).then_some(ask),
            until: half(52),
        })
    }

    /// The head as bytes, with the code for a body that hashes to `body`.
    pub fn seal(&self, body: &BodyHash, key: &LinkKey) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.lane.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.job.to_le_bytes());
        bytes[16] = self.round;
        bytes[17] = self.sender.0;
        bytes[18] = self.receiver.0;
        bytes[19] = if self.sure { SURE } else { 0 } | if self.ask.is_some() { ASKS } else { 0 };
        bytes[20..24].copy_from_slice(&self.body_len.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.fingerprint.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.digest.to_le_bytes());
        if let Some(Ask { since, key }) = self.ask {
            bytes[40..48].copy_from_slice(&since.0.to_le_bytes());
            bytes[48..52].copy_from_slice(&key.to_le_bytes());
        }
        bytes[52..56].copy_from_slice(&self.until.to_le_bytes());
        let code = code(&bytes, body, key);
        bytes[SIGNED_BYTES..].copy_from_slice(code.as_bytes());
        bytes
    }
}

/// The hash of a body.
#[derive(Clone, Copy, Debug)]
pub struct BodyHash(blake3::Hash);

impl BodyHash {
    /// Of these bytes.
    pub fn of(body: &[u8]) -> BodyHash {
        BodyHash(blake3::hash(body))
    }
}

/// Whether the code of a head is the one for this body and key. Takes the same time for every wrong code.
pub fn is_authentic(head: &[u8; HEAD_BYTES], body: &[u8], key: &LinkKey) -> bool {
    let mut stated = [0; 32];
    stated.copy_from_slice(&head[SIGNED_BYTES..]);
    code(head, &BodyHash::of(body), key) == blake3::Hash::from_bytes(stated)
}

fn code(head: &[u8; HEAD_BYTES], body: &BodyHash, key: &LinkKey) -> blake3::Hash {
    let mut covered = [0; SIGNED_BYTES + blake3::OUT_LEN];
    covered[..SIGNED_BYTES].copy_from_slice(&head[..SIGNED_BYTES]);
    covered[SIGNED_BYTES..].copy_from_slice(body.0.as_bytes());
    blake3::keyed_hash(&key.0, &covered)
}

/// Appends a batch to a body of which `len` bytes are written; the new length.
///
/// # Panics
/// If it does not fit: bodies are as large as the largest that the configuration allows.
pub fn append_batch(body: &mut [u8], len: usize, label: u32, batch: &[u8]) -> usize {
    let start = len + BATCH_HEAD_BYTES;
    let end = start + batch.len();
    body[len..len + 4].copy_from_slice(&label.to_le_bytes());
    body[len + 4..start].copy_from_slice(&(batch.len() as u32).to_le_bytes());
    body[start..end].copy_from_slice(batch);
    end
}

/// The batches of a body: their label, where they begin in the body, and their length.
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> Batches<'a> {
    /// Of this body.
    pub fn of(body: &'a [u8]) -> Batches<'a> {
        Batches { body, at: 0 }
    }

    /// Whether nothing is left that is not a batch. Only to be asked when there is no next one.
    pub fn is_whole(&self) -> bool {
        self.at == self.body.len()
    }
}

impl Iterator for Batches<'_> {
    type Item = (u32, usize, usize);

    fn next(&mut self) -> Option<(u32, usize, usize)> {
        let (head, rest) = self.body.get(self.at..)?.split_first_chunk::<BATCH_HEAD_BYTES>()?;
        let [label @ .., l0, l1, l2, l3] = *head;
        let length = usize::try_from(u32::from_le_bytes([l0, l1, l2, l3])).ok()?;
        if length > rest.len() {
            return None;
        }
        let start = self.at + BATCH_HEAD_BYTES;
        self.at = start + length;
        Some((u32::from_le_bytes(label), start, length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head {
            lane: 2,
            job: 77,
            round: 1,
            sender: Node(3),
            receiver: Node(0),
            body_len: 4,
            fingerprint: 9,
            digest: u64::MAX,
            sure: true,
            ask: Some(Ask { since: Time(5), key: 7 }),
            until: 11,
        }
    }

    #[test]
    fn a_head_comes_back_as_sealed_and_any_flipped_bit_is_noticed() {
        let key = LinkKey([5; 32]);
        let sealed = head().seal(&BodyHash::of(b"body"), &key);
        assert_eq!(Head::parse(&sealed), Ok(head()));
        assert!(is_authentic(&sealed, b"body", &key));
        for bit in 0..HEAD_BYTES * 8 {
            let mut flipped = sealed;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_authentic(&flipped, b"body", &key), "bit {bit}");
        }
        assert!(!is_authentic(&sealed, b"bodz", &key));
        assert!(!is_authentic(&sealed, b"body", &LinkKey([6; 32])));
    }

    #[test]
    fn the_bytes_of_version_2_stay_what_they_are() {
        let sealed = head().seal(&BodyHash::of(b"body"), &LinkKey([5; 32]));
        let hex: String = sealed.iter().map(|byte| format!("{byte:02x}")).collect();
        let plain = "56674b56020002004d0000000000000001030003040000000900000000000000\
                     ffffffffffffffff0500000000000000070000000b000000";
        assert_eq!(hex[..2 * SIGNED_BYTES], *plain);
        assert_eq!(
            hex[2 * SIGNED_BYTES..],
            *"264a793b640d197596b6972e1fc360177a19cc66375b488c99ca18fd008fa973"
        );
    }

    #[test]
    fn strangers_and_other_versions_are_told_apart() {
        let sealed = head().seal(&BodyHash::of(b""), &LinkKey([0; 32]));
        let mut stranger = sealed;
        stranger[..4].copy_from_slice(b"GET ");
        assert_eq!(Head::parse(&stranger), Err(HeadError::NotOurs));
        let mut later = sealed;
        later[4] = 9;
        assert_eq!(Head::parse(&later), Err(HeadError::Version(9)));
    }

    #[test]
    fn batches_come_back_as_appended_and_a_torn_one_is_noticed() {
        let mut body = [0; 64];
        let len = append_batch(&mut body, 0, 7, b"abc");
        let len = append_batch(&mut body, len, 8, b"");
        let mut batches = Batches::of(&body[..len]);
        assert_eq!(batches.by_ref().collect::<Vec<_>>(), [(7, 8, 3), (8, 19, 0)]);
        assert!(batches.is_whole());
        let mut torn = Batches::of(&body[..len - 1]);
        assert_eq!(torn.by_ref().count(), 1);
        assert!(!torn.is_whole());
    }

    #[test]
    fn a_key_is_not_written_to_logs() {
        assert_eq!(format!("{:?}", LinkKey([1; 32])), "LinkKey(..)");
    }
}
