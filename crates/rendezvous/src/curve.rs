//! The Hilbert curve: points of a space of several dimensions, in an order in which neighbours stay near each other.
//!
//! Source: J. Skilling, "Programming the Hilbert curve" (2004), his transpose; the first dimension holds the most significant bit (rendezvous P4).
//!
//! What [`crate::clusters`] leans on: the first `g` bits of each coordinate alone decide the first `d * g` bits of the index.

use contract::RingId;

/// Dimensions that a space may have.
pub const DIMENSIONS_MAX: usize = 6;

/// Bits of each coordinate in a space of so many dimensions.
pub(crate) fn bits_of(dimensions: usize) -> u32 {
    (RingId::BITS / dimensions.max(1) as u32).min(32)
}

/// Where a point of a space lies on the curve, as an index of `bits` for each of the coordinates.
pub(crate) fn index(point: &[u32], bits: u32) -> RingId {
    let mut axes = [0; DIMENSIONS_MAX];
    let axes = &mut axes[..point.len().min(DIMENSIONS_MAX)];
    axes.copy_from_slice(&point[..axes.len()]);
    transpose(axes, bits);
    let mut index = RingId::MIN;
    for bit in (0..bits).rev() {
        for axis in &*axes {
            index = index.up(1).with_lowest(axis >> bit & 1 == 1);
        }
    }
    index
}

/// The same as a place on the ring.
pub(crate) fn place(point: &[u32], bits: u32) -> RingId {
    index(point, bits).up(RingId::BITS - bits * point.len() as u32)
}

/// The point at an index of the curve with `bits` for each of the coordinates, which are at most 128 together. It is written into `axes`.
pub(crate) fn point(index: u128, bits: u32, axes: &mut [u32]) {
    axes.fill(0);
    let mut left = bits * axes.len() as u32;
    for bit in (0..bits).rev() {
        for axis in &mut *axes {
            left -= 1;
            *axis |= ((index >> left & 1) as u32) << bit;
        }
    }
    straighten(axes, bits);
}

/// Coordinates to the bits of the index, those of each dimension together.
fn transpose(axes: &mut [u32], bits: u32) {
    let top = 1_u32 << (bits - 1);
    let mut bit = top;
    while bit > 1 {
        let below = bit - 1;
        for place in 0..axes.len() {
            turn(axes, place, bit, below);
        }
        bit >>= 1;
    }
    for place in 1..axes.len() {
        axes[place] ^= axes[place - 1];
    }
    let last = axes.last().copied().unwrap_or(0);
    let (mut flips, mut bit) = (0, top);
    while bit > 1 {
        if last & bit != 0 {
            flips ^= bit - 1;
        }
        bit >>= 1;
    }
    axes.iter_mut().for_each(|axis| *axis ^= flips);
}

/// The way back.
fn straighten(axes: &mut [u32], bits: u32) {
    let flips = axes.last().copied().unwrap_or(0) >> 1;
    for place in (1..axes.len()).rev() {
        axes[place] ^= axes[place - 1];
    }
    if let Some(first) = axes.first_mut() {
        *first ^= flips;
    }
    for shift in 1..bits {
        let bit = 1_u32 << shift;
        for place in (0..axes.len()).rev() {
            turn(axes, place, bit, bit - 1);
        }
    }
}

/// One step of both: what is below a bit is turned round, or changes places with the first dimension.
#[inline]
fn turn(axes: &mut [u32], place: usize, bit: u32, below: u32) {
    if axes[place] & bit != 0 {
        axes[0] ^= below;
    } else {
        let differs = (axes[0] ^ axes[place]) & below;
        axes[0] ^= differs;
        axes[place] ^= differs;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn low(index: RingId) -> u128 {
        let bytes = index.to_bytes();
        u128::from_be_bytes(bytes[4..].try_into().unwrap())
    }

    #[test]
    fn the_order_of_a_plane_is_that_of_the_page() {
        let rows = [[0, 1, 14, 15], [3, 2, 13, 12], [4, 7, 8, 11], [5, 6, 9, 10]];
        for (y, row) in rows.iter().enumerate() {
            for (x, expected) in row.iter().enumerate() {
                assert_eq!(low(index(&[x as u32, y as u32], 2)), *expected, "x {x}, y {y}");
            }
        }
    }

    #[test]
    fn points_of_six_dimensions_are_those_of_the_page() {
        for (point, expected) in [
            ([0, 0, 0, 0, 0, 0], 0),
            ([3, 0, 0, 0, 0, 0], 4_095),
            ([1, 2, 3, 0, 1, 2], 1_143),
            ([3, 3, 3, 3, 3, 3], 2_730),
            ([0, 0, 0, 0, 0, 3], 65),
        ] {
            assert_eq!(low(index(&point, 2)), expected, "{point:?}");
        }
        let point = [24_689_360, 37_721_779, 47_472_181, 41_104_179, 53_812_920, 44_096_815];
        assert_eq!(index(&point, 26).to_string(), "057c9bb853f8f9157f8c803b00d0f757df1341f8");
        assert_eq!(place(&point, 26).to_string(), "57c9bb853f8f9157f8c803b00d0f757df1341f80");
    }

    #[test]
    fn each_step_along_the_curve_goes_to_a_neighbour() {
        for (dimensions, bits) in [(1, 10), (2, 5), (3, 3), (4, 3), (5, 2), (6, 2)] {
            let mut before: Option<Vec<u32>> = None;
            for step in 0..1_u128 << (dimensions as u32 * bits) {
                let mut now = vec![0; dimensions];
                point(step, bits, &mut now);
                assert_eq!(low(index(&now, bits)), step, "there and back");
                if let Some(before) = before {
                    let apart = now.iter().zip(&before).map(|(a, b)| a.abs_diff(*b)).sum::<u32>();
                    assert_eq!(apart, 1, "{before:?} {now:?}");
                }
                before = Some(now);
            }
        }
    }

    proptest! {
        #[test]
        fn the_first_bits_decide_the_first_bits(dimensions in 1_usize..=6, coordinates: [u32; 6], keep in 1_u32..=20) {
            let bits = bits_of(dimensions);
            let keep = keep.min(bits);
            let point: Vec<u32> = coordinates[..dimensions].iter().map(|c| c >> (32 - bits)).collect();
            let coarse: Vec<u32> = point.iter().map(|c| c >> (bits - keep)).collect();
            let prefix = low(index(&coarse, keep));
            let kept = keep * dimensions as u32;
            let whole = place(&point, bits);
            prop_assert!(RingId::beginning_with(prefix, kept) <= whole && whole <= RingId::ending(prefix, kept));
        }
    }
}
