//! Which pieces of the curve a box of the space lies on (rendezvous A6).
//!
//! The problem: what an interest means is a box, and on the curve it is many pieces. The idea: cut the cube into halves along all dimensions at once, in
//! the order of the curve; keep what lies within the box, drop what lies outside, and cut what is neither again. In six dimensions one cut makes 64
//! pieces, so that there is an end to cutting: what is not decided then is kept whole, and whoever has it matches exactly.
//!
//! Invariant: every point of the box lies on one of the pieces, and they are in order, apart, and no more than asked for.
//!
//! Source: recursive refinement as in Squid (Schmidt and Parashar).

use crate::curve::{self, DIMENSIONS_MAX};
use contract::RingId;
use std::ops::RangeInclusive;

/// A piece of the curve, with both ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cluster {
    /// Where it begins.
    pub first: RingId,
    /// Where it ends.
    pub last: RingId,
}

impl Cluster {
    /// Whether a place lies on it.
    pub fn contains(&self, place: RingId) -> bool {
        self.first <= place && place <= self.last
    }
}

/// How finely boxes are resolved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resolution {
    /// How often pieces are cut at most.
    pub depth: u32,
    /// Pieces that may be the answer.
    pub clusters: usize,
    /// Pieces that are looked at, at most.
    pub looks: usize,
}

impl Default for Resolution {
    fn default() -> Resolution {
        Resolution { depth: 12, clusters: 64, looks: 2_048 }
    }
}

/// Cuts beyond which a piece has no number any more.
const DEPTH_MAX: u32 = 20;

/// A part of the curve while it is cut: its number among those of its size, and how often it has been cut.
#[derive(Clone, Copy)]
struct Piece {
    number: u128,
    depth: u32,
}

impl Piece {
    fn cluster(self, dimensions: u32) -> Cluster {
        let bits = self.depth * dimensions;
        Cluster { first: RingId::beginning_with(self.number, bits), last: RingId::ending(self.number, bits) }
    }
}

/// How a piece lies to a box.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lies {
    Within,
    Outside,
    Across,
}

/// The pieces of the curve on which a box lies, in their order. `bits`: those of each coordinate.
pub(crate) fn resolve(ranges: &[RangeInclusive<u32>], bits: u32, resolution: &Resolution) -> Vec<Cluster> {
    let dimensions = ranges.len() as u32;
    let depth_max = resolution.depth.min(bits).min(DEPTH_MAX);
    let (mut found, mut across, mut looks) = (Vec::new(), vec![Piece { number: 0, depth: 0 }], 0);
    for depth in 1..=depth_max {
        let mut next = Vec::new();
        for piece in across {
            if looks + (1 << dimensions) > resolution.looks {
                found.push(piece.cluster(dimensions));
                continue;
            }
            looks += 1 << dimensions;
            for part in 0..1_u128 << dimensions {
                let part = Piece { number: piece.number << dimensions | part, depth };
                match lies(part, ranges, bits) {
                    Lies::Within => found.push(part.cluster(dimensions)),
                    Lies::Outside => {}
                    Lies::Across => next.push(part),
                }
            }
        }
        across = next;
        // What is found beyond this only tells which of the pieces are best joined again. In many dimensions the first cut makes so many, and tells little.
        let is_fine = depth > 1 && found.len() + across.len() >= resolution.clusters;
        if across.is_empty() || is_fine {
            break;
        }
    }
    found.extend(across.iter().map(|piece| piece.cluster(dimensions)));
    found.sort_unstable();
    joined(found, resolution.clusters.max(1))
}

fn lies(piece: Piece, ranges: &[RangeInclusive<u32>], bits: u32) -> Lies {
    let mut axes = [0; DIMENSIONS_MAX];
    let axes = &mut axes[..ranges.len()];
    curve::point(piece.number, piece.depth, axes);
    let (below, mut lies) = (bits - piece.depth, Lies::Within);
    for (axis, range) in axes.iter().zip(ranges) {
        let first = u64::from(*axis) << below;
        let last = first + (1 << below) - 1;
        let (from, to) = (u64::from(*range.start()), u64::from(*range.end()));
        if last < from || to < first {
            return Lies::Outside;
        }
        if first < from || to < last {
            lies = Lies::Across;
        }
    }
    lies
}

/// Pieces that touch are one; where there are too many, those with the least between them are.
fn joined(pieces: Vec<Cluster>, most: usize) -> Vec<Cluster> {
    let mut joined: Vec<Cluster> = Vec::new();
    for piece in pieces {
        match joined.last_mut() {
            Some(last) if last.last.next() == piece.first => last.last = piece.last,
            _ => joined.push(piece),
        }
    }
    if joined.len() <= most {
        return joined;
    }
    let mut gaps: Vec<(RingId, usize)> = joined
        .windows(2)
        .enumerate()
        .filter_map(|(place, pair)| match pair {
            [a, b] => Some((a.last.up_to(b.first), place)),
            _ => None,
        })
        .collect();
    gaps.sort_unstable();
    gaps.truncate(joined.len() - most);
    let mut closed = vec![false; joined.len()];
    gaps.iter().for_each(|(_, place)| closed[*place] = true);
    let mut kept: Vec<Cluster> = Vec::with_capacity(most);
    let mut goes_on = false;
    for (piece, closes) in joined.into_iter().zip(closed) {
        match kept.last_mut().filter(|_| goes_on) {
            Some(last) => last.last = piece.last,
            None => kept.push(piece),
        }
        goes_on = closes;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Clusters as numbers of points of the curve.
    fn numbers(ranges: &[RangeInclusive<u32>], bits: u32) -> Vec<(u128, u128)> {
        let resolution = Resolution { looks: 1 << 20, clusters: 1_000, ..Resolution::default() };
        let low = RingId::BITS - bits * ranges.len() as u32;
        let number = |id: RingId| {
            let bytes = id.to_bytes();
            let high = u128::from_be_bytes(bytes[..16].try_into().unwrap());
            high >> (low - 32)
        };
        resolve(ranges, bits, &resolution).iter().map(|c| (number(c.first), number(c.last))).collect()
    }

    #[test]
    fn clusters_are_those_of_the_page() {
        assert_eq!(numbers(&[2..=3, 4..=7], 3), [(24, 31)]);
        assert_eq!(numbers(&[1..=2, 1..=6], 3), [(2, 2), (7, 8), (11, 13), (17, 18), (23, 24), (29, 30)]);
        assert_eq!(numbers(&[5..=5, 0..=7], 3), [(33, 34), (38, 39), (52, 52), (55, 56), (59, 59)]);
        assert_eq!(
            numbers(&[94..=94, 140..=147], 8),
            [(30_801, 30_802), (30_806, 30_807), (31_656, 31_657), (31_661, 31_662)]
        );
    }

    fn ranges(dimensions: usize, bits: u32, ends: [(u32, u32); 6]) -> Vec<RangeInclusive<u32>> {
        let cut = |value: u32| value >> (32 - bits);
        ends[..dimensions].iter().map(|(a, b)| cut(*a.min(b))..=cut(*a.max(b))).collect()
    }

    proptest! {
        /// The same as of every point, one by one.
        #[test]
        fn small_boxes_are_resolved_exactly(dimensions in 1_usize..=3, ends: [(u32, u32); 6]) {
            let bits = if dimensions == 1 { 8 } else { 4 };
            let ranges = ranges(dimensions, bits, ends);
            let mut expected: Vec<(u128, u128)> = Vec::new();
            for number in 0..1_u128 << (bits * dimensions as u32) {
                let mut axes = vec![0; dimensions];
                curve::point(number, bits, &mut axes);
                if axes.iter().zip(&ranges).all(|(axis, range)| range.contains(axis)) {
                    match expected.last_mut().filter(|last| last.1 + 1 == number) {
                        Some(last) => last.1 = number,
                        None => expected.push((number, number)),
                    }
                }
            }
            prop_assert_eq!(numbers(&ranges, bits), expected);
        }

        /// Every point of the box is on one of them; they are in order, apart, and few.
        #[test]
        fn nothing_of_a_box_is_missed(
            dimensions in 1_usize..=6,
            ends: [(u32, u32); 6],
            within: [u32; 6],
            clusters in 1_usize..=64,
            looks in 1_usize..=5_000,
        ) {
            let bits = curve::bits_of(dimensions);
            let ranges = ranges(dimensions, bits, ends);
            let found = resolve(&ranges, bits, &Resolution { clusters, looks, ..Resolution::default() });
            prop_assert!(found.len() <= clusters && !found.is_empty());
            prop_assert!(found.iter().all(|cluster| cluster.first <= cluster.last));
            prop_assert!(found.windows(2).all(|pair| pair[0].last.next() < pair[1].first));
            let point: Vec<u32> = within
                .iter()
                .zip(&ranges)
                .map(|(value, range)| {
                    let size = u64::from(range.end() - range.start()) + 1;
                    range.start() + (u64::from(*value) % size) as u32
                })
                .collect();
            let place = curve::place(&point, bits);
            prop_assert!(found.iter().any(|cluster| cluster.contains(place)));
        }
    }

    #[test]
    fn a_point_is_one_small_piece() {
        let found = resolve(&[7..=7, 9..=9], 32, &Resolution::default());
        assert_eq!(found.len(), 1);
        let place = curve::place(&[7, 9], 32);
        assert!(found[0].contains(place));
        assert_eq!(found[0].first.up_to(found[0].last).next(), RingId::beginning_with(1, 24));
    }
}
