//! Places on a ring of identifiers, which peers, profiles and stored things share.

use std::fmt;

/// A place on the ring: 160 bits, and after the highest comes the lowest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RingId {
    high: u32,
    low: u128,
}

impl RingId {
    /// Its bits.
    pub const BITS: u32 = 160;
    /// The lowest.
    pub const MIN: RingId = RingId { high: 0, low: 0 };
    /// The highest.
    pub const MAX: RingId = RingId { high: u32::MAX, low: u128::MAX };

    /// From its bytes, the most significant first.
    pub fn from_bytes(bytes: [u8; 20]) -> RingId {
        let [a, b, c, d, low @ ..] = bytes;
        RingId { high: u32::from_be_bytes([a, b, c, d]), low: u128::from_be_bytes(low) }
    }

    /// Its bytes, the most significant first.
    pub fn to_bytes(self) -> [u8; 20] {
        let mut bytes = [0; 20];
        let (high, low) = bytes.split_at_mut(4);
        high.copy_from_slice(&self.high.to_be_bytes());
        low.copy_from_slice(&self.low.to_be_bytes());
        bytes
    }

    /// The lowest place of all that begin with so many bits, which are these.
    pub fn beginning_with(prefix: u128, bits: u32) -> RingId {
        RingId { high: 0, low: prefix }.up(RingId::BITS.saturating_sub(bits))
    }

    /// The highest place of all that begin with so many bits, which are these.
    pub fn ending(prefix: u128, bits: u32) -> RingId {
        let rest = RingId { high: 0, low: 1 }.up(RingId::BITS.saturating_sub(bits)).before();
        let RingId { high, low } = RingId::beginning_with(prefix, bits);
        RingId { high: high | rest.high, low: low | rest.low }
    }

    /// The next place.
    #[must_use]
    pub fn next(self) -> RingId {
        let (low, carries) = self.low.overflowing_add(1);
        RingId { high: self.high.wrapping_add(u32::from(carries)), low }
    }

    /// The place before.
    #[must_use]
    pub fn before(self) -> RingId {
        let (low, borrows) = self.low.overflowing_sub(1);
        RingId { high: self.high.wrapping_sub(u32::from(borrows)), low }
    }

    /// How far it is from here up to another place, going round.
    #[must_use]
    pub fn up_to(self, other: RingId) -> RingId {
        let (low, borrows) = other.low.overflowing_sub(self.low);
        let high = other.high.wrapping_sub(self.high).wrapping_sub(u32::from(borrows));
        RingId { high, low }
    }

    /// All bits so many places further up. Those that leave are lost.
    #[must_use]
    pub fn up(self, places: u32) -> RingId {
        let RingId { high, low } = self;
        match places {
            0 => self,
            1..=31 => RingId { high: high << places | (low >> (128 - places)) as u32, low: low << places },
            32..=127 => RingId { high: (low >> (128 - places)) as u32, low: low << places },
            128..=159 => RingId { high: (low << (places - 128)) as u32, low: 0 },
            _ => RingId::MIN,
        }
    }

    /// The same with its lowest bit set, or not.
    #[must_use]
    pub fn with_lowest(self, bit: bool) -> RingId {
        RingId { low: self.low & !1 | u128::from(bit), ..self }
    }

    /// Whether it lies after one place and not after another, going round. Of a place to itself that is all of the ring.
    pub fn lies_within(self, after: RingId, until: RingId) -> bool {
        after == until || (after.next().up_to(self) <= after.next().up_to(until))
    }
}

impl fmt::Display for RingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}{:032x}", self.high, self.low)
    }
}

impl fmt::Debug for RingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(bits: u128, shift: u32) -> RingId {
        RingId::beginning_with(bits, RingId::BITS - shift)
    }

    #[test]
    fn prefixes_stand_at_the_top() {
        assert_eq!(id(1, 159).to_string(), format!("8{}", "0".repeat(39)));
        assert_eq!(
            RingId::ending(0x7ba9_5867_21e0_f9bd, 64).to_string(),
            format!("7ba9586721e0f9bd{}", "f".repeat(24))
        );
        assert_eq!((RingId::beginning_with(0, 0), RingId::ending(0, 0)), (RingId::MIN, RingId::MAX));
        assert_eq!(RingId::MAX.next(), RingId::MIN);
        assert_eq!(RingId::MIN.before(), RingId::MAX);
    }

    #[test]
    fn the_ring_goes_round() {
        let (low, high) = (id(10, 0), id(56, 0));
        assert!(
            id(40, 0).lies_within(low, high) && high.lies_within(low, high) && !low.lies_within(low, high)
        );
        assert!(id(5, 0).lies_within(high, low) && RingId::MAX.lies_within(high, low));
        assert!(!id(40, 0).lies_within(high, low));
        assert!(id(40, 0).lies_within(low, low), "who is alone has all of it");
    }

    proptest! {
        #[test]
        fn moving_up_bit_by_bit_is_moving_up_at_once(bits: u128, places in 0u32..200) {
            let start = RingId { high: 7, low: bits };
            let mut slow = start;
            (0..places).for_each(|_| slow = slow.up(1));
            prop_assert_eq!(start.up(places), slow);
        }

        #[test]
        fn bytes_keep_the_order(a: [u8; 20], b: [u8; 20]) {
            let (x, y) = (RingId::from_bytes(a), RingId::from_bytes(b));
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
            prop_assert_eq!(x.to_bytes(), a);
        }

        #[test]
        fn a_way_round_is_one_way_and_the_other(a: [u8; 20], b: [u8; 20], c: [u8; 20]) {
            let [a, b, c] = [a, b, c].map(RingId::from_bytes);
            prop_assert_eq!(a.up_to(b).up_to(a.up_to(c)), b.up_to(c));
            if a != b {
                prop_assert!(c.lies_within(a, b) != c.lies_within(b, a));
            }
        }
    }
}
