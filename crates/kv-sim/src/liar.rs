//! What a faulty node sends in place of a frame. It has its own keys and nobody else's, so what it says as itself has proper codes.

use crate::scenario::{KeyKind, Lie, Scenario};
use contract::{Span, Time};
use kv::frame::{BATCH_HEAD_BYTES, Batches, BodyHash, append_batch};
use kv::{HEAD_BYTES, Head, KeyId, LinkKey, Node, STATE_ROUND, Setup, TUPLE_HEAD_BYTES, Tuple, Tuples};
use simulation::hash;

/// What leaves.
pub(crate) struct Utterance {
    pub(crate) bytes: Vec<u8>,
    /// Its code does not fit.
    pub(crate) is_tampered: bool,
}

impl Utterance {
    pub(crate) fn of(bytes: Vec<u8>) -> Utterance {
        Utterance { bytes, is_tampered: false }
    }
}

/// Who lies, and to whom.
pub(crate) struct Liar<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) setup: &'a Setup,
    pub(crate) seed: u64,
    pub(crate) key: &'a LinkKey,
    /// What has been sent to this receiver before.
    pub(crate) sent: &'a [Vec<u8>],
}

impl Liar<'_> {
    /// What it says instead of this frame.
    pub(crate) fn utter(&self, lie: Lie, honest: &[u8], random: &mut fastrand::Rng) -> Vec<Utterance> {
        let Some((head, body)) = split(honest) else { return vec![Utterance::of(honest.to_vec())] };
        let sealed = |head: Head, body: &[u8]| Utterance::of(self.seal(head, body));
        match lie {
            // Whoever lies, lies about what was agreed on as well.
            lie if head.round == STATE_ROUND && !matches!(lie, Lie::Bits | Lie::Cut | Lie::Replay) => {
                let head = Head { sure: true, ..head };
                vec![sealed(head, &self.state(&head, body, random))]
            }
            Lie::Batches => vec![sealed(head, &self.batches(&head, body, random))],
            Lie::Relays if head.round > 1 => vec![sealed(head, &self.batches(&head, body, random))],
            Lie::Relays => vec![Utterance::of(honest.to_vec())],
            Lie::Bits => vec![tampered(honest, random)],
            Lie::Shape => vec![sealed(head, &misshapen(body, random))],
            Lie::Cut => vec![cut(honest, random)],
            Lie::Job => {
                let job = if random.bool() { head.job - 1 } else { head.job + 1 };
                vec![sealed(Head { job, ..head }, body)]
            }
            Lie::FarJob => {
                let job = [head.job + random.u64(2..9), u64::MAX, 0][random.usize(..3)];
                vec![sealed(Head { job, ..head }, body)]
            }
            Lie::Round => {
                let round =
                    [0, head.round.wrapping_add(1), head.round.saturating_sub(1), u8::MAX][random.usize(..4)];
                vec![sealed(Head { round, ..head }, body)]
            }
            Lie::Address => vec![sealed(misaddressed(head, random), body)],
            Lie::Repeat => {
                vec![Utterance::of(honest.to_vec()), sealed(head, &self.batches(&head, body, random))]
            }
            Lie::Replay => self.replay(honest, random),
            Lie::Digest => {
                let digest = [head.digest, random.u64(..), 0][random.usize(..3)];
                vec![sealed(Head { digest, sure: random.bool(), ..head }, body)]
            }
        }
    }

    fn seal(&self, head: Head, body: &[u8]) -> Vec<u8> {
        let head = Head { body_len: body.len() as u32, ..head };
        [&head.seal(&BodyHash::of(body), self.key)[..], body].concat()
    }

    fn replay(&self, honest: &[u8], random: &mut fastrand::Rng) -> Vec<Utterance> {
        let mut all = Vec::new();
        for _ in 0..random.usize(1..4) {
            if !self.sent.is_empty() {
                all.push(Utterance::of(self.sent[random.usize(..self.sent.len())].clone()));
            }
        }
        if random.bool() {
            all.push(Utterance::of(honest.to_vec()));
        }
        all
    }

    /// The labels are as they must be, or nobody would listen. All liars take their batches from the same few, so that some
    /// support each other.
    fn batches(&self, head: &Head, body: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
        let mut lied = Vec::new();
        for (label, at, length) in Batches::of(body) {
            let source =
                if head.round == 1 { u32::from(head.sender.0) } else { label % self.scenario.nodes as u32 };
            let batch = match random.u8(..8) {
                0 => Vec::new(),
                1 | 2 => body[at..at + length].to_vec(),
                _ => {
                    let choice = hash::number(hash::number(self.seed, head.job), u64::from(source));
                    self.invent(head.job, hash::number(choice, random.u64(..3)))
                }
            };
            let start = lied.len();
            lied.resize(start + BATCH_HEAD_BYTES + batch.len(), 0);
            append_batch(&mut lied, start, label, &batch);
        }
        lied
    }

    /// An answer about state in which values are others, or not there.
    fn state(&self, head: &Head, body: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
        let mut lied = Vec::new();
        for tuple in Tuples::of(body) {
            let seed = hash::number(hash::number(self.seed, tuple.stamp.0), head.job);
            let value = match random.u8(..4) {
                0 => continue,
                1 => tuple.value.to_vec(),
                _ => self.value(usize::from(tuple.key.0), tuple.stamp, &mut fastrand::Rng::with_seed(seed)),
            };
            let start = lied.len();
            lied.resize(start + TUPLE_HEAD_BYTES + value.len(), 0);
            let _: Option<usize> = Tuple { value: &value, ..tuple }.write(&mut lied[start..]);
        }
        lied
    }

    /// A batch that a liar may come up with: proper tuples, absurd ones, too many, and torn bytes.
    fn invent(&self, job: u64, seed: u64) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(seed);
        let (release, beginning) =
            (self.setup.release_of(job), Time(job * self.scenario.period.as_nanos_u64()));
        let mut batch = Vec::new();
        let many = random.u8(..12) == 0;
        for _ in 0..random.usize(..self.setup.batch_tuples_max() + 2) + usize::from(many) * 100 {
            let stamp = match random.u8(..10) {
                0 => Time(random.u64(..)),
                1 => release + self.setup.horizon() + Span(random.i64(0..=1)),
                2 | 4 => release + Span(random.i64(0..=2)),
                3 => beginning + self.scenario.period * random.u64(..20),
                _ => beginning + self.scenario.period,
            };
            let beyond = u16::from(random.u8(..8) == 0);
            let key = random.u16(..self.scenario.keys.len() as u16 + beyond);
            let value = self.value(usize::from(key), stamp, &mut random);
            let length = if many { 0 } else { value.len() };
            let mut bytes = [0; 64];
            let tuple = Tuple { key: KeyId(key), stamp, value: &value[..length] };
            if let Some(length) = tuple.write(&mut bytes) {
                batch.extend_from_slice(&bytes[..length]);
            }
        }
        batch.truncate(self.setup.batch_bytes_max());
        if random.u8(..8) == 0 {
            batch.truncate(random.usize(..=batch.len()));
        }
        batch
    }

    fn value(&self, key: usize, stamp: Time, random: &mut fastrand::Rng) -> Vec<u8> {
        let numeric = self.scenario.keys.get(key).is_some_and(|spec| spec.kind != KeyKind::Majority);
        match random.u8(..8) {
            0 => f64::NAN.to_le_bytes().to_vec(),
            1 => f64::MAX.to_le_bytes().to_vec(),
            2 => (-1e6_f64).to_le_bytes().to_vec(),
            3 => vec![7; random.usize(..=Scenario::VALUE_BYTES_MAX + 1)],
            4 if !numeric => crate::tasks::value(self.scenario, self.seed, key, 0, stamp, false),
            _ => (stamp.0 as f64 / self.scenario.period.0 as f64).to_le_bytes().to_vec(),
        }
    }
}

fn split(frame: &[u8]) -> Option<(Head, &[u8])> {
    let (head, body) = frame.split_first_chunk::<HEAD_BYTES>()?;
    Some((Head::parse(head).ok()?, body))
}

/// Not the first six bytes: who speaks another protocol is hung up on, which is [`Lie::Cut`]; and not the length.
fn tampered(honest: &[u8], random: &mut fastrand::Rng) -> Utterance {
    let mut bytes = honest.to_vec();
    for _ in 0..random.usize(1..4) {
        let at = loop {
            let at = random.usize(6..bytes.len());
            if at != 19 && !(20..24).contains(&at) {
                break at;
            }
        };
        bytes[at] ^= 1 << random.u8(..8);
    }
    let is_tampered = bytes != honest;
    Utterance { bytes, is_tampered }
}

fn cut(honest: &[u8], random: &mut fastrand::Rng) -> Utterance {
    let mut bytes = honest.to_vec();
    match random.u8(..3) {
        0 => bytes.truncate(random.usize(1..honest.len())),
        1 => bytes[20..24].copy_from_slice(&random.u32(..).to_le_bytes()),
        _ => bytes[random.usize(..6)] ^= 0x55,
    }
    Utterance { is_tampered: bytes != honest, bytes }
}

fn misshapen(body: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = body.to_vec();
    // An answer about state may be empty.
    let shape = if bytes.len() < 8 { 1 } else { random.u8(..4) };
    match shape {
        0 => bytes.truncate(random.usize(..bytes.len())),
        1 => bytes.push(0),
        2 => bytes[random.usize(..4)] ^= 1,
        _ => bytes[4..8].copy_from_slice(&random.u32(..).to_le_bytes()),
    }
    bytes
}

fn misaddressed(head: Head, random: &mut fastrand::Rng) -> Head {
    match random.u8(..4) {
        0 => Head { sender: Node(random.u8(..)), ..head },
        1 => Head { receiver: Node(head.receiver.0 ^ 1), ..head },
        2 => Head { lane: head.lane ^ 1, ..head },
        _ => Head { fingerprint: head.fingerprint ^ 1, ..head },
    }
}
