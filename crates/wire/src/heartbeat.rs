//! Heartbeats between the brokers of a pair: single datagrams, beside the connection on which everything else goes.
//!
//! One lost segment of a connection is silence until it is sent again, for 200 ms or more. A lost datagram is one lost datagram.
//! Each is numbered, and signed with a key that both brokers make of their secret and of what each has drawn at random and told
//! the other on the connection, so that nobody else's counts and none counts twice.

use crate::PROTOCOL_VERSION;
use contract::{NodeId, Span};
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The length of every heartbeat.
pub const HEARTBEAT_BYTES: usize = 64;
/// What a broker draws at random for its heartbeats.
pub type Nonce = [u8; 16];

const MAGIC: [u8; 4] = *b"VRGH";
const SIGNED_BYTES: usize = HEARTBEAT_BYTES - 16;
/// The purpose of the key, so that nothing else that is made of the same secret is the same.
const PURPOSE: &str = "Verge heartbeats between the brokers of a pair, 1";

/// Whose heartbeats count, and how they are known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Companion {
    own: NodeId,
    /// The other broker's process.
    pub node: NodeId,
    key: [u8; 32],
}

/// The key is not shown.
impl std::fmt::Debug for Companion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Companion").field("node", &self.node).finish_non_exhaustive()
    }
}

impl Companion {
    /// This broker and the other one, each with what it has drawn, and what only they know.
    pub fn new(own: (NodeId, &Nonce), other: (NodeId, &Nonce), secret: &str) -> Companion {
        let mut hasher = blake3::Hasher::new_derive_key(PURPOSE);
        hasher.update(own.1.min(other.1)).update(own.1.max(other.1)).update(secret.as_bytes());
        Companion { own: own.0, node: other.0, key: *hasher.finalize().as_bytes() }
    }

    /// The heartbeat in these bytes, if it is the companion's.
    pub fn open(&self, bytes: &[u8]) -> Option<Heartbeat> {
        let bytes: &[u8; HEARTBEAT_BYTES] = bytes.try_into().ok()?;
        let (head, _) = Head::ref_from_prefix(bytes).ok()?;
        // What is cheap to see is looked at first: strangers can send at any rate.
        let plausible =
            head.magic == MAGIC && head.version.get() == PROTOCOL_VERSION && head.node.get() == self.node.0;
        let (signed, tag) = bytes.split_at_checked(SIGNED_BYTES)?;
        if !plausible || self.tag(signed) != *<&[u8; 16]>::try_from(tag).ok()? {
            return None;
        }
        Some(Heartbeat {
            number: head.number.get(),
            heard: head.heard.get(),
            held: Span::micros(head.held_us.get().into()),
            still: Span::micros(head.still_us.get().into()),
            received: head.received.get(),
        })
    }

    /// Signs a heartbeat for the companion.
    pub fn sign(&self, heartbeat: &Heartbeat) -> [u8; HEARTBEAT_BYTES] {
        let micros = |span: Span| U32::new(u32::try_from(span.0.max(0) / 1_000).unwrap_or(u32::MAX));
        let head = Head {
            magic: MAGIC,
            version: PROTOCOL_VERSION.into(),
            reserved: [0; 2],
            node: self.own.0.into(),
            number: heartbeat.number.into(),
            heard: heartbeat.heard.into(),
            received: heartbeat.received.into(),
            held_us: micros(heartbeat.held),
            still_us: micros(heartbeat.still),
        };
        let mut bytes = [0; HEARTBEAT_BYTES];
        let (signed, tag) = bytes.split_at_mut(SIGNED_BYTES);
        signed.copy_from_slice(head.as_bytes());
        tag.copy_from_slice(&self.tag(signed));
        bytes
    }

    fn tag(&self, signed: &[u8]) -> [u8; 16] {
        let mut tag = [0; 16];
        let hash = blake3::keyed_hash(&self.key, signed);
        tag.iter_mut().zip(hash.as_bytes()).for_each(|(to, from)| *to = *from);
        tag
    }
}

/// One heartbeat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heartbeat {
    /// The sender's heartbeats so far; the first has number 1.
    pub number: u64,
    /// The highest number that the sender has had from the receiver; 0 for none.
    pub heard: u64,
    /// How long before this one was sent the sender had that.
    pub held: Span,
    /// For how long the sender's data thread has been in its present turn; zero if it waits for something to do.
    pub still: Span,
    /// How many heartbeats of the receiver the sender has had.
    pub received: u64,
}

/// What heartbeats say of the other broker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Evidence {
    /// Of which process.
    pub node: NodeId,
    /// For how long it has been silent, or has not heard this broker, counted in heartbeats sent here.
    pub silence: Span,
    /// For how long it has been silent, whether or not it hears this broker.
    pub unheard: Span,
    /// For how long it may be, as its heartbeats come.
    pub patience: Span,
    /// For how long its data thread had been in one turn, when that was last heard.
    pub still: Span,
    /// How many of its heartbeats have come.
    pub heard: u64,
    /// The time to it and back, once that has been seen.
    pub round_trip: Option<Span>,
    /// What share of its heartbeats is lost, in millionths.
    pub loss_ppm: u32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Head {
    magic: [u8; 4],
    version: U16,
    reserved: [u8; 2],
    node: U64,
    number: U64,
    heard: U64,
    received: U64,
    held_us: U32,
    still_us: U32,
}

const _: () = assert!(size_of::<Head>() == SIGNED_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    const BEAT: Heartbeat =
        Heartbeat { number: 3, heard: 2, held: Span::micros(1_500), still: Span::millis(4), received: 2 };
    const A: (NodeId, &Nonce) = (NodeId(7), &[1; 16]);
    const B: (NodeId, &Nonce) = (NodeId(8), &[2; 16]);

    #[test]
    fn a_heartbeat_comes_back_as_it_was_and_both_make_the_same_key() {
        let (here, there) = (Companion::new(A, B, "s"), Companion::new(B, A, "s"));
        assert_eq!(there.open(&here.sign(&BEAT)), Some(BEAT));
        assert_eq!(here.open(&here.sign(&BEAT)), None, "one's own, sent back");
    }

    #[test]
    fn a_heartbeat_that_is_not_the_companions_counts_for_nothing() {
        let (here, there) = (Companion::new(A, B, "s"), Companion::new(B, A, "s"));
        let bytes = here.sign(&BEAT);
        for place in 0..HEARTBEAT_BYTES {
            for bit in 0..8 {
                let mut bent = bytes;
                bent[place] ^= 1 << bit;
                assert_eq!(there.open(&bent), None, "bit {bit} of byte {place}");
            }
            assert_eq!(there.open(&bytes[..place]), None, "{place} bytes");
        }
        for other in [
            Companion::new(B, A, "t"),
            Companion::new(B, (A.0, &[3; 16]), "s"),
            Companion::new(B, (NodeId(6), A.1), "s"),
        ] {
            assert_eq!(other.open(&bytes), None);
        }
    }
}
