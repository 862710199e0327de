//! How two nodes begin a connection: who they are, that they hold the key of their link, and that they are configured alike (A5).
//!
//! ```text
//! dialer   Greeting   who, for whom, which lane, the fingerprint of its configuration, a number used once
//! listener Challenge  its fingerprint, its clock, a number used once, a code over both
//! dialer   Proof      a code over both, and its facts if the fingerprints differ
//! listener Verdict    welcome, or why not
//! ```
//!
//! Each side proves that it has the key before the other believes anything. What is sent again later fails at the numbers that are
//! used once. The facts are compared only between nodes that have proved who they are, and the answer names the first that differs.
//! The listener's clock, and the dialer's before and after, bound how far the two clocks are apart.

use crate::frame::{HeadError, MAGIC, VERSION};
use crate::{Fact, LinkKey, Node, Setup, first_difference};
use contract::{Span, Time};

/// The bytes of a [`Greeting`].
pub const GREETING_BYTES: usize = 44;
/// The bytes of a [`Challenge`].
pub const CHALLENGE_BYTES: usize = 70;
/// The bytes of a code.
pub const PROOF_BYTES: usize = 32;
/// The longest list of facts, and the longest refusal.
pub const TEXT_BYTES_MAX: usize = 16 << 20;
const NONCE_BYTES: usize = 16;

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Frames of a lane.
    Frames,
    /// A look at the listener's clock; the connection ends after the challenge.
    Clock,
}

/// What the node that connects says first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Greeting {
    /// What it wants.
    pub purpose: Purpose,
    /// For which lane.
    pub lane: u16,
    /// Who it is.
    pub sender: Node,
    /// Whom it takes the other for.
    pub receiver: Node,
    /// Tells its lives apart.
    pub incarnation: u64,
    /// Its configuration, as one number.
    pub fingerprint: u64,
    /// Never used again.
    pub nonce: [u8; NONCE_BYTES],
}

impl Greeting {
    /// As bytes.
    pub fn encode(&self) -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[6] = u8::from(self.purpose == Purpose::Clock);
        bytes[8..10].copy_from_slice(&self.lane.to_le_bytes());
        bytes[10] = self.sender.0;
        bytes[11] = self.receiver.0;
        bytes[12..20].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.fingerprint.to_le_bytes());
        bytes[28..].copy_from_slice(&self.nonce);
        bytes
    }

    /// Reads one.
    pub fn parse(bytes: &[u8; GREETING_BYTES]) -> Result<Greeting, HeadError> {
        check_beginning(bytes)?;
        let purpose = match bytes[6] {
            0 => Purpose::Frames,
            1 => Purpose::Clock,
            _ => return Err(HeadError::Malformed),
        };
        Ok(Greeting {
            purpose,
            lane: u16::from_le_bytes([bytes[8], bytes[9]]),
            sender: Node(bytes[10]),
            receiver: Node(bytes[11]),
            incarnation: word(bytes, 12),
            fingerprint: word(bytes, 20),
            nonce: std::array::from_fn(|at| bytes[28 + at]),
        })
    }
}

/// What the node that was connected to answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Challenge {
    /// Its configuration of the lane, as one number; 0 if it has no such lane.
    pub fingerprint: u64,
    /// When it answered, by its clock.
    pub time: Time,
    /// Never used again.
    pub nonce: [u8; NONCE_BYTES],
}

impl Challenge {
    /// As bytes, with the code that shows who answers.
    pub fn seal(&self, greeting: &[u8; GREETING_BYTES], key: &LinkKey) -> [u8; CHALLENGE_BYTES] {
        let mut bytes = [0; CHALLENGE_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[6..14].copy_from_slice(&self.fingerprint.to_le_bytes());
        bytes[14..22].copy_from_slice(&self.time.0.to_le_bytes());
        bytes[22..38].copy_from_slice(&self.nonce);
        let code = code(b"challenge", greeting, &bytes[..38], &[], key);
        bytes[38..].copy_from_slice(code.as_bytes());
        bytes
    }

    /// Reads one, and whether it is by who holds the key.
    pub fn open(
        bytes: &[u8; CHALLENGE_BYTES],
        greeting: &[u8; GREETING_BYTES],
        key: &LinkKey,
    ) -> Result<Challenge, HelloError> {
        check_beginning(bytes).map_err(HelloError::Head)?;
        let code = code(b"challenge", greeting, &bytes[..38], &[], key);
        if !is_same(code, &bytes[38..]) {
            return Err(HelloError::Key);
        }
        Ok(Challenge {
            fingerprint: word(bytes, 6),
            time: Time(word(bytes, 14)),
            nonce: std::array::from_fn(|at| bytes[22 + at]),
        })
    }
}

/// The code by which the dialer shows who it is; `facts` is what it sends along.
pub fn proof(
    greeting: &[u8; GREETING_BYTES],
    challenge: &[u8; CHALLENGE_BYTES],
    facts: &[u8],
    key: &LinkKey,
) -> [u8; PROOF_BYTES] {
    *code(b"proof", greeting, challenge, facts, key).as_bytes()
}

/// Whether a proof is by who holds the key.
pub fn is_proof(
    proof: &[u8; PROOF_BYTES],
    greeting: &[u8; GREETING_BYTES],
    challenge: &[u8; CHALLENGE_BYTES],
    facts: &[u8],
    key: &LinkKey,
) -> bool {
    is_same(code(b"proof", greeting, challenge, facts, key), proof)
}

/// Why two nodes do not become connected.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HelloError {
    /// The other end speaks something else.
    #[error(transparent)]
    Head(HeadError),
    /// The other end does not hold the key of the link.
    #[error(
        "the peer does not hold the key of this link: its `secrets` are not of the same set, or it is another node"
    )]
    Key,
    /// It takes this node for another one, or itself for one that there is not.
    #[error(
        "the peer connects as node {sender} to node {receiver}, and this is node {me} of {n}: compare `kv.nodes` on both"
    )]
    Address {
        /// Who it says it is.
        sender: u8,
        /// Whom it wants.
        receiver: u8,
        /// Who this is.
        me: u8,
        /// How many there are.
        n: usize,
    },
    /// There is no such lane here.
    #[error("there is no lane {0} at the peer: compare `[[lane]]` on both")]
    NoLane(u16),
    /// The configurations differ.
    #[error(
        "the configurations differ: {name} is {theirs} there and {ours} here; make them the same on all nodes"
    )]
    Difference {
        /// What differs first.
        name: String,
        /// Here.
        ours: String,
        /// At the peer.
        theirs: String,
    },
    /// Another node of this identity is connected.
    #[error(
        "another node already is `{name}` here, connected from {address}: two nodes have one identity, stop one of them"
    )]
    Identity {
        /// Its name.
        name: String,
        /// Where it is.
        address: String,
    },
    /// What the other end said against it.
    #[error("the peer refuses, and says: {0}")]
    Refused(String),
}

/// Whether a greeting is for this node and one of its lanes, by a peer of it.
pub fn check_address(greeting: &Greeting, me: Node, n: usize) -> Result<(), HelloError> {
    let (sender, receiver) = (greeting.sender, greeting.receiver);
    if receiver != me || sender == me || sender.index() >= n {
        return Err(HelloError::Address { sender: sender.0, receiver: receiver.0, me: me.0, n });
    }
    Ok(())
}

/// What makes two configurations differ, said by the node of `setup`; `facts` is what the other one sent.
pub fn compare(setup: &Setup, facts: &[u8]) -> Result<(), HelloError> {
    let (ours, theirs) = (setup.config().facts(), decode_facts(facts));
    let nothing = || "missing".to_owned();
    match first_difference(&ours, &theirs) {
        None => Ok(()),
        Some((one, other)) => Err(HelloError::Difference {
            name: one.or(other).map_or_else(String::new, |fact| fact.name.clone()),
            ours: one.map_or_else(nothing, |fact| fact.value.clone()),
            theirs: other.map_or_else(nothing, |fact| fact.value.clone()),
        }),
    }
}

/// Facts as bytes: each name and value with its length before it.
pub fn encode_facts(facts: &[Fact]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in facts.iter().flat_map(|fact| [&fact.name, &fact.value]) {
        bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

/// The facts up to the first that is not whole.
pub fn decode_facts(mut bytes: &[u8]) -> Vec<Fact> {
    let mut text = || {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        bytes = rest;
        Some(String::from_utf8_lossy(text).into_owned())
    };
    std::iter::from_fn(|| Some(Fact { name: text()?, value: text()? })).collect()
}

/// How far another clock is ahead: at least and at most, from the own clock before and after it was asked.
pub fn clock_bounds(before: Time, theirs: Time, after: Time) -> (Span, Span) {
    (theirs.since(after), theirs.since(before))
}

fn check_beginning(bytes: &[u8]) -> Result<(), HeadError> {
    if bytes[..4] != MAGIC {
        return Err(HeadError::NotOurs);
    }
    let version = u16::from_le_bytes([bytes[4], bytes[5]]);
    if version == VERSION { Ok(()) } else { Err(HeadError::Version(version)) }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn code(what: &[u8], greeting: &[u8], challenge: &[u8], facts: &[u8], key: &LinkKey) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_keyed(&key.0);
    for part in [what, greeting, challenge, facts] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize()
}

/// In the same time for every difference.
fn is_same(code: blake3::Hash, stated: &[u8]) -> bool {
    <[u8; 32]>::try_from(stated).is_ok_and(|stated| code == blake3::Hash::from_bytes(stated))
}

#[cfg(test)]
mod tests;
