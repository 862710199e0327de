//! A fingerprint of a run: equal runs have equal ones.

const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// Mixes a number into a fingerprint.
pub(crate) fn number(hash: u64, value: u64) -> u64 {
    let product = u128::from(hash ^ value) * u128::from(FACTOR);
    (product >> 64) as u64 ^ product as u64 ^ hash.rotate_left(23)
}

/// Mixes bytes into a fingerprint.
pub(crate) fn bytes(hash: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(hash, |hash, word| number(hash, u64::from_le_bytes(*word)));
    rest.iter().fold(number(hash, bytes.len() as u64), |hash, byte| number(hash, u64::from(*byte)))
}
