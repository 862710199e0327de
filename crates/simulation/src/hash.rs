//! A fingerprint of a run, and numbers that look random: equal runs have equal ones.

const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
const MASK: u64 = 0xA076_1D64_78BD_642F;

/// Mixes a number into a fingerprint.
#[inline]
pub fn number(hash: u64, value: u64) -> u64 {
    fold(hash ^ value, FACTOR) ^ hash.rotate_left(23)
}

/// Mixes bytes into a fingerprint.
pub fn bytes(hash: u64, bytes: &[u8]) -> u64 {
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    let (words, rest) = bytes.as_chunks::<8>();
    let (pairs, single) = words.as_chunks::<2>();
    // The multiplications do not wait for each other.
    let (even, odd) = pairs.as_chunks::<2>().0.iter().fold((hash, hash), |(even, odd), [one, other]| {
        let one = fold(word(&one[0]) ^ MASK, word(&one[1]) ^ FACTOR);
        let other = fold(word(&other[0]) ^ MASK, word(&other[1]) ^ FACTOR);
        (even.rotate_left(7) ^ one, odd.rotate_left(9).wrapping_add(other))
    });
    let last = pairs.as_chunks::<2>().1.iter().flatten().chain(single);
    let hash = last.fold(number(even, odd), |hash, bytes| number(hash, word(bytes)));
    rest.iter().fold(number(hash, bytes.len() as u64), |hash, byte| number(hash, u64::from(*byte)))
}

fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_byte_and_the_length_count() {
        let original: Vec<u8> = (0..77).collect();
        let mut seen = BTreeSet::from([bytes(1, &original), bytes(1, &original[..76]), bytes(2, &original)]);
        for place in 0..original.len() {
            let mut changed = original.clone();
            changed[place] ^= 1;
            seen.insert(bytes(1, &changed));
        }
        assert_eq!(seen.len(), 3 + original.len());
    }
}
