//! How far a copy of sessions and retained messages is, so that two copies can be compared.
//!
//! The problem: after both brokers have died, one of two copies may end earlier than the other, and a single count does not
//! say which: both may have grown apart. The idea: changes are counted by the reign that made them, and whoever copies them
//! copies the counts. Of two copies, one knows at least as much as the other where none of its counts is smaller.
//!
//! A reign that took over from a primary whose every word it had heard *closes* the reigns before: what they had beyond its own
//! count was acknowledged to nobody, and is no knowledge. A reign of a broker that could not ask its partner is *unasked* and closes
//! nothing. The number for people is the sum, [`Knowledge::total`].

use crate::WireError;
use crate::reader::{Reader, put};
use contract::{Epoch, NodeId, Reign};
use zerocopy::byteorder::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// So many reigns are told apart. Those before them are only a sum, and a copy that differs in them counts as apart.
pub const REIGNS_TOLD_MAX: usize = 16;

/// What one reign has changed, as far as a copy knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The reign.
    pub reign: Reign,
    /// How many of its changes the copy has.
    pub count: u64,
    /// Whether a later reign began with exactly these.
    pub closed: bool,
    /// Whether it began without the partner having been asked.
    pub unasked: bool,
}

/// How far a copy is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Knowledge {
    /// Changes of reigns that are not told apart any more.
    before: u64,
    /// In their order.
    parts: Vec<Part>,
}

/// How two copies compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    /// Neither has anything that the other lacks.
    Same,
    /// The first has all of the second, and more.
    More,
    /// The second has all of the first, and more.
    Less,
    /// Each has something that the other lacks.
    Apart,
}

impl Knowledge {
    /// How many changes it has seen; the number for people.
    pub fn total(&self) -> u64 {
        self.parts.iter().fold(self.before, |sum, part| sum.saturating_add(part.count))
    }

    /// The reigns that are told apart, in their order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Changes of reigns before those.
    pub fn before(&self) -> u64 {
        self.before
    }

    /// A reign begins; where it closes those before it, they have had what is counted here and no more.
    pub fn begin(&mut self, closes: bool) {
        if closes {
            self.parts.iter_mut().for_each(|part| part.closed = true);
        }
    }

    /// Counts changes of a reign, which is the latest if it is new. Returns the reigns that are no longer told apart for it.
    pub fn count(&mut self, reign: Reign, unasked: bool, changes: u64) -> Vec<Reign> {
        match self.parts.last_mut().filter(|last| last.reign == reign) {
            Some(last) => {
                last.count = last.count.saturating_add(changes);
                Vec::new()
            }
            None => self.set(Part { reign, count: changes, closed: false, unasked }),
        }
    }

    /// Learns what another has counted. Returns the reigns that are no longer told apart for it.
    pub fn set(&mut self, part: Part) -> Vec<Reign> {
        if let Some(known) = self.parts.iter_mut().find(|known| known.reign == part.reign) {
            *known = part;
            return Vec::new();
        }
        self.parts.push(part);
        let mut gone = Vec::new();
        while self.parts.len() > REIGNS_TOLD_MAX {
            let oldest = self.parts.remove(0);
            self.before = self.before.saturating_add(oldest.count);
            gone.push(oldest.reign);
        }
        gone
    }

    /// Learns the sum of what is not told apart.
    pub fn set_before(&mut self, before: u64) {
        self.before = before;
    }

    /// A reign is not told apart any more.
    pub fn remove(&mut self, reign: Reign) {
        self.parts.retain(|part| part.reign != reign);
    }

    /// Nothing is known any more.
    pub fn clear(&mut self) {
        *self = Knowledge::default();
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.before == 0 && self.parts.is_empty()
    }

    /// How this copy compares with another.
    pub fn compare(&self, other: &Knowledge) -> Comparison {
        match (self.covers(other, false), other.covers(self, false)) {
            (true, true) => Comparison::Same,
            (true, false) => Comparison::More,
            (false, true) => Comparison::Less,
            (false, false) => Comparison::Apart,
        }
    }

    /// Whether this copy has all that another has, if need be besides what that has changed in reigns that began unasked.
    pub fn covers(&self, other: &Knowledge, besides_unasked: bool) -> bool {
        let known = |part: &Part| self.parts.iter().find(|known| known.reign == part.reign);
        let is_besides = |part: &Part| part.unasked && besides_unasked;
        // The oldest reigns may be a sum here and told apart there, or the other way round. Then the sums are equal.
        let summed = other.parts.iter().take_while(|part| known(part).is_none() && !is_besides(part)).count();
        let (older, newer) = other.parts.split_at_checked(summed).unwrap_or_default();
        let sum = |parts: &[Part]| parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.count));
        let before = other.before.saturating_add(sum(older));
        let theirs = |part: &&Part| other.parts.iter().any(|known| known.reign == part.reign);
        let more: u64 = self.parts.iter().take_while(|part| !theirs(part)).map(|part| part.count).sum();
        let same =
            before == 0 || before == self.before || summed == 0 && before == self.before.saturating_add(more);
        let has = |part: &Part| {
            let known = known(part).is_some_and(|known| known.closed || known.count >= part.count);
            part.count == 0 || known || is_besides(part)
        };
        same && newer.iter().all(has)
    }

    /// Of what another copy has, how much this one lacks, at least.
    pub fn lacks(&self, other: &Knowledge) -> u64 {
        let known = |reign| self.parts.iter().find(|part| part.reign == reign).map_or(0, |part| part.count);
        other.parts.iter().map(|part| part.count.saturating_sub(known(part.reign))).sum()
    }

    /// As it is sent.
    pub fn write(&self, out: &mut Vec<u8>) {
        if self.is_empty() {
            return;
        }
        put(out, &U64::new(self.before));
        for part in &self.parts {
            let flags = u8::from(part.closed) | u8::from(part.unasked) << 1;
            let (epoch, node) = (part.reign.epoch.0.into(), part.reign.node.0.into());
            put(out, &PartHead { epoch, node, count: part.count.into(), flags });
        }
    }
}

/// A [`Knowledge`] in a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Knows<'a>(&'a [u8]);

impl<'a> Knows<'a> {
    /// Of somebody who keeps no copy.
    pub const NOTHING: Knows<'static> = Knows(&[]);

    /// What [`Knowledge::write`] wrote.
    pub fn of(bytes: &'a [u8]) -> Knows<'a> {
        Knows(bytes)
    }

    pub(crate) fn bytes(self) -> &'a [u8] {
        self.0
    }

    pub(crate) fn check(bytes: &'a [u8]) -> Result<Knows<'a>, WireError> {
        let knows = Knows(bytes);
        knows.read_checked()?;
        Ok(knows)
    }

    /// What is known.
    pub fn read(self) -> Knowledge {
        self.read_checked().unwrap_or_default()
    }

    fn read_checked(self) -> Result<Knowledge, WireError> {
        let mut knowledge = Knowledge::default();
        if self.0.is_empty() {
            return Ok(knowledge);
        }
        let mut reader = Reader(self.0);
        knowledge.before = reader.head::<U64>()?.get();
        while !reader.0.is_empty() {
            let head = reader.head::<PartHead>()?;
            if knowledge.parts.len() == REIGNS_TOLD_MAX || head.flags > 3 {
                return Err(WireError::BadValue { field: "knowledge", value: head.flags });
            }
            let reign = Reign { epoch: Epoch(head.epoch.get()), node: NodeId(head.node.get()) };
            let (closed, unasked) = (head.flags & 1 != 0, head.flags & 2 != 0);
            knowledge.parts.push(Part { reign, count: head.count.get(), closed, unasked });
        }
        Ok(knowledge)
    }
}

#[repr(C)]
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
struct PartHead {
    epoch: U64,
    node: U64,
    count: U64,
    flags: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reign(node: u64) -> Reign {
        Reign { epoch: Epoch(1), node: NodeId(node) }
    }

    fn of(counts: &[(u64, u64)]) -> Knowledge {
        let mut knowledge = Knowledge::default();
        counts.iter().for_each(|(node, count)| _ = knowledge.count(reign(*node), false, *count));
        knowledge
    }

    #[test]
    fn a_copy_that_ends_earlier_knows_less() {
        let (part, whole) = (of(&[(1, 1_987)]), of(&[(1, 5_000)]));
        assert_eq!(part.compare(&whole), Comparison::Less);
        assert_eq!(whole.compare(&part), Comparison::More);
        assert_eq!(whole.compare(&whole), Comparison::Same);
        assert_eq!((part.total(), part.lacks(&whole)), (1_987, 3_013));
        assert_eq!(Knowledge::default().compare(&part), Comparison::Less);
    }

    #[test]
    fn a_count_that_grew_in_another_reign_is_no_more_knowledge() {
        let (apart, whole) = (of(&[(1, 1_987), (2, 9_000)]), of(&[(1, 5_000)]));
        assert_eq!(apart.compare(&whole), Comparison::Apart);
        assert!(!whole.covers(&apart, false));
        let mut unasked = of(&[(1, 1_987)]);
        unasked.count(reign(2), true, 9_000);
        assert!(whole.covers(&unasked, true), "all but its own reign");
        assert!(!whole.covers(&unasked, false));
        assert!(!of(&[(1, 1_000)]).covers(&unasked, true));
    }

    #[test]
    fn what_a_closed_reign_had_beyond_is_no_knowledge() {
        let mut taken_over = of(&[(1, 9)]);
        taken_over.begin(true);
        let died = of(&[(1, 10)]);
        assert_eq!(taken_over.compare(&died), Comparison::Same);
        taken_over.count(reign(2), false, 1);
        assert_eq!(taken_over.compare(&died), Comparison::More);
    }

    #[test]
    fn reigns_that_are_too_many_become_a_sum() {
        let counts: Vec<(u64, u64)> = (0..40).map(|node| (node, 10)).collect();
        let mut long = of(&counts);
        assert_eq!((long.parts().len(), long.before(), long.total()), (REIGNS_TOLD_MAX, 240, 400));
        assert_eq!(long.compare(&long.clone()), Comparison::Same);
        let gone = long.count(reign(99), false, 1);
        assert_eq!(gone, [reign(24)]);
        assert_eq!(long.compare(&of(&counts[..20])), Comparison::Apart, "nobody can tell");
        assert_eq!(long.compare(&of(&counts)), Comparison::More);
    }

    #[test]
    fn it_is_sent_whole_and_anything_else_is_refused() {
        let mut knowledge = of(&[(1, 5), (2, 6)]);
        knowledge.begin(true);
        knowledge.count(reign(3), true, 7);
        let mut bytes = Vec::new();
        knowledge.write(&mut bytes);
        assert_eq!(Knows::check(&bytes).unwrap().read(), knowledge);
        for cut in 1..bytes.len() {
            let whole = cut >= 8 && (cut - 8) % 25 == 0;
            assert_eq!(Knows::check(&bytes[..cut]).is_ok(), whole, "{cut}");
        }
        let mut none = Vec::new();
        Knowledge::default().write(&mut none);
        assert!(none.is_empty());
    }
}
