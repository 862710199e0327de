//! A fingerprint of a run, and numbers that look random: equal runs have equal ones.

const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// Mixes a number into a fingerprint.
pub(crate) fn number(hash: u64, value: u64) -> u64 {
    let product = u128::from(hash ^ value ^ 0xA076_1D64_78BD_642F) * u128::from(FACTOR);
    ((product >> 64) as u64 ^ product as u64) ^ hash.rotate_left(23)
}

/// Mixes bytes into a fingerprint.
pub(crate) fn bytes(hash: u64, bytes: &[u8]) -> u64 {
    let word = |chunk: &[u8]| chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    bytes.chunks(8).map(word).fold(number(hash, bytes.len() as u64), number)
}
