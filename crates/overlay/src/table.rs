//! The members of a region, as its master says (§12.8).

use crate::tree::Rank;
use crate::{Member, PeerId};
use contract::RingId;
use std::collections::BTreeMap;

/// How many members a region has at most.
pub const MEMBERS_MAX: usize = 1024;

/// Who is in a region. The master makes versions of it, everybody else has the newest heard of.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Table {
    /// The claim under which its master made it.
    pub reign: Rank,
    /// Grows with each change in a reign.
    pub version: u64,
    /// By where they are on the ring.
    pub members: BTreeMap<RingId, Member>,
}

impl Table {
    /// Whether exactly this life is in it.
    pub fn has(&self, peer: PeerId) -> bool {
        self.members.get(&peer.ring).is_some_and(|member| member.id == peer)
    }

    /// Who has a place on the ring: the first member at it or above it, going round (P5).
    pub fn owner(&self, place: RingId) -> Option<&Member> {
        self.from(place).next()
    }

    /// Who has a place on the ring and who has a copy: the owner and those after it, no more than there are.
    pub fn owners(&self, place: RingId, copies: usize) -> impl Iterator<Item = &Member> {
        self.from(place).take(copies)
    }

    /// All, from a place on, going round.
    pub fn from(&self, place: RingId) -> impl Iterator<Item = &Member> {
        self.members.range(place..).chain(self.members.range(..place)).map(|(_, member)| member)
    }

    /// The next above a place, going round, of those who are asked for. Itself, if there is nobody else.
    pub fn above(&self, place: RingId, asked_for: impl Fn(&Member) -> bool) -> Option<&Member> {
        self.from(place.next()).find(|member| asked_for(member))
    }

    /// The next below a place, going round, of those who are asked for.
    pub fn below(&self, place: RingId, asked_for: impl Fn(&Member) -> bool) -> Option<&Member> {
        let round = self.members.range(..place).rev().chain(self.members.range(place..).rev());
        round.map(|(_, member)| member).find(|member| asked_for(member))
    }

    /// Puts a member in. One of an earlier life goes; of a later one, it stays. Returns whether anything has changed.
    pub fn put(&mut self, member: Member) -> bool {
        let place = member.id.ring;
        if self.members.get(&place).is_some_and(|known| known.id.life > member.id.life || *known == member) {
            return false;
        }
        self.members.insert(place, member);
        true
    }

    /// Takes a member out, if it is in with this life or an earlier one.
    pub fn take(&mut self, peer: PeerId) -> Option<Member> {
        let is_in = self.members.get(&peer.ring).is_some_and(|known| known.id <= peer);
        is_in.then(|| self.members.remove(&peer.ring)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::Location;

    fn id(number: u32) -> PeerId {
        PeerId { ring: RingId::beginning_with(u128::from(number), 6), life: 1 }
    }

    fn table(numbers: &[u32]) -> Table {
        let mut table = Table::default();
        for number in numbers {
            let location = Location::new(0.0, 0.0).unwrap();
            let (name, address) = (format!("{number}"), String::new());
            table.put(Member { id: id(*number), name, address, location });
        }
        table
    }

    fn names<'a>(members: impl Iterator<Item = &'a Member>) -> Vec<&'a str> {
        members.map(|member| member.name.as_str()).collect()
    }

    /// The ring of the worked vectors: 10, 20, 40 and 56 of 64.
    #[test]
    fn whoever_is_at_a_place_or_next_above_has_it() {
        let table = table(&[10, 20, 40, 56]);
        let owner = |number| table.owner(id(number).ring).map(|member| member.name.as_str());
        assert_eq!(owner(24), Some("40"));
        assert_eq!(owner(40), Some("40"));
        assert_eq!(owner(55), Some("56"));
        assert_eq!(owner(59), Some("10"), "it goes round");
        assert_eq!(names(table.owners(id(41).ring, 3)), ["56", "10", "20"]);
        assert_eq!(names(table.owners(id(0).ring, 9)), ["10", "20", "40", "56"]);
    }

    #[test]
    fn neighbours_are_found_round_the_ends_and_over_those_who_are_away() {
        let table = table(&[10, 20, 40]);
        let name = |member: Option<&Member>| member.map(|member| member.name.clone());
        assert_eq!(name(table.above(id(40).ring, |_| true)).as_deref(), Some("10"));
        assert_eq!(name(table.below(id(10).ring, |_| true)).as_deref(), Some("40"));
        assert_eq!(name(table.above(id(10).ring, |member| member.name != "20")).as_deref(), Some("40"));
        assert_eq!(name(table.above(id(10).ring, |member| member.name == "10")).as_deref(), Some("10"));
    }

    #[test]
    fn the_later_life_stays() {
        let mut table = table(&[10]);
        let mut later = table.owner(RingId::MIN).unwrap().clone();
        let earlier = later.clone();
        later.id.life = 2;
        assert!(table.put(later.clone()) && !table.put(later.clone()) && !table.put(earlier.clone()));
        assert_eq!(table.take(earlier.id), None);
        assert!(table.has(later.id) && !table.has(earlier.id));
        assert!(table.take(later.id).is_some());
    }
}
