//! Which part of the area is whose.
//!
//! The problem: masters come and go, regions are split and joined, and peers that were cut off from each other do so without knowing of
//! each other. Whatever each has heard, in whatever order, all must come to one partition of the area, with one master for each cell.
//!
//! The idea: each cell has the **claim** that was made last on it, and a claim is ordered by its epoch, then by who makes it. To split a
//! region, to take over a dead master's or to adopt a neighbour's are all the same: claims of a higher epoch. Two trees are united cell by
//! cell, which gives the same in any order and any number of times.
//!
//! The invariant: the claim on a cell never becomes lower.
//!
//! What it leaves to others: when to claim (`rings.rs`).

use crate::{Cell, Cells, Member, PeerId};
use contract::{Mutant, RingId};
use std::collections::BTreeMap;

/// A master's word that cells are its own.
#[derive(Clone, PartialEq, Debug)]
pub struct Claim {
    /// Higher than that of any claim that it replaces.
    pub epoch: u64,
    /// Who makes it.
    pub master: Member,
    /// On which cells.
    pub cells: Cells,
}

/// By what two claims on a cell are told apart: the higher holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Rank {
    /// Its epoch.
    pub epoch: u64,
    /// Who made it.
    pub master: PeerId,
}

impl Claim {
    /// Its rank.
    pub fn rank(&self) -> Rank {
        Rank { epoch: self.epoch, master: self.master.id }
    }
}

/// All claims that hold, each with the cells on which it does.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Tree {
    claims: BTreeMap<Rank, Claim>,
}

impl Tree {
    /// Nothing is claimed.
    pub fn new() -> Tree {
        Tree::default()
    }

    /// Hears a claim. Returns whether anything has changed.
    pub fn hear(&mut self, claim: &Claim) -> bool {
        let rank = claim.rank();
        let higher = self.claims.range(rank..).fold(Cells::NONE, |all, (_, other)| all.or(other.cells));
        let mut new = claim.cells.without(higher);
        if Mutant::TakeOlderClaims.is_on() {
            new = claim.cells;
        }
        if new.is_empty() {
            return false;
        }
        for (other, lower) in &mut self.claims {
            if *other != rank {
                lower.cells = lower.cells.without(new);
            }
        }
        self.claims.retain(|_, claim| !claim.cells.is_empty());
        let claim = Claim { cells: new, ..claim.clone() };
        self.claims.entry(rank).and_modify(|own| own.cells = own.cells.or(new)).or_insert(claim);
        true
    }

    /// The claim of a rank, as far as it holds.
    pub fn claim(&self, rank: Rank) -> Option<&Claim> {
        self.claims.get(&rank)
    }

    /// All claims, by rank.
    pub fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.claims.values()
    }

    /// The claim that holds on a cell.
    pub fn holder(&self, cell: Cell) -> Option<&Claim> {
        self.claims.values().find(|claim| claim.cells.contains(cell))
    }

    /// What a peer holds by its latest claim. A master claims all that it has with each claim, but may be given more by others.
    pub fn held_by(&self, master: PeerId) -> Option<&Claim> {
        self.claims.values().rev().find(|claim| claim.master.id == master)
    }

    /// All that a peer holds.
    pub fn all_of(&self, master: PeerId) -> Cells {
        let own = self.claims.values().filter(|claim| claim.master.id == master);
        own.fold(Cells::NONE, |all, claim| all.or(claim.cells))
    }

    /// Who holds anything, in the order of their identifiers, and of one identifier the latest life.
    pub fn masters(&self) -> BTreeMap<RingId, &Member> {
        let mut masters: BTreeMap<RingId, &Member> = BTreeMap::new();
        for claim in self.claims.values() {
            let known = masters.entry(claim.master.id.ring).or_insert(&claim.master);
            if known.id < claim.master.id {
                *known = &claim.master;
            }
        }
        masters
    }

    /// The highest epoch of claims on any of these cells; 0 if there is none.
    pub fn epoch_of(&self, cells: Cells) -> u64 {
        let touched = self.claims.values().filter(|claim| !claim.cells.and(cells).is_empty());
        touched.map(|claim| claim.epoch).max().unwrap_or(0)
    }

    /// All cells that somebody holds.
    pub fn covered(&self) -> Cells {
        self.claims.values().fold(Cells::NONE, |all, claim| all.or(claim.cells))
    }

    /// Two trees with the same digest are the same, but for one in 2^64.
    pub fn digest(&self) -> u64 {
        // FNV-1a: this is no secret, and nobody gains by two trees that look alike.
        let mut digest = 0xcbf2_9ce4_8422_2325_u64;
        let mut add = |bytes: &[u8]| {
            for byte in bytes {
                digest = (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        };
        for (rank, claim) in &self.claims {
            add(&rank.epoch.to_le_bytes());
            add(&rank.master.ring.to_bytes());
            add(&rank.master.life.to_le_bytes());
            add(&claim.cells.to_bytes());
        }
        digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Block;
    use contract::Location;
    use proptest::prelude::*;

    fn claim(epoch: u64, master: u8, cells: Cells) -> Claim {
        let id = PeerId { ring: RingId::beginning_with(u128::from(master), 8), life: 1 };
        let location = Location::new(0.0, 0.0).unwrap();
        Claim { epoch, master: Member { id, name: String::new(), address: String::new(), location }, cells }
    }

    fn tree(claims: &[Claim]) -> Tree {
        let mut tree = Tree::new();
        for claim in claims {
            tree.hear(claim);
        }
        tree
    }

    #[test]
    fn the_highest_epoch_holds_then_the_highest_identifier() {
        let [south_west, ..] = Block::ALL.quarters().unwrap();
        let mut tree = tree(&[claim(1, 7, Cells::ALL)]);
        assert!(tree.hear(&claim(2, 3, south_west.cells())));
        assert!(!tree.hear(&claim(2, 3, south_west.cells())), "once heard it changes nothing");
        assert!(!tree.hear(&claim(1, 9, Cells::NONE)));
        assert!(tree.hear(&claim(1, 9, Cells::ALL)));
        let holders: Vec<(u64, u32)> =
            tree.claims().map(|claim| (claim.epoch, claim.cells.count())).collect();
        assert_eq!(holders, [(1, 192), (2, 64)]);
        assert_eq!(tree.masters().len(), 2);
        assert_eq!(tree.epoch_of(Cells::ALL), 2);
        assert_eq!(tree.epoch_of(Cells::ALL.without(south_west.cells())), 1);
    }

    proptest! {
        #[test]
        fn claims_give_one_tree_in_any_order_and_cell_by_cell(
            claims in prop::collection::vec((1..6u64, 0..5u8, any::<[u8; 32]>()), 1..12),
            order in any::<u64>(),
        ) {
            let claims: Vec<Claim> =
                claims.iter().map(|(epoch, master, cells)| claim(*epoch, *master, Cells::from_bytes(*cells))).collect();
            let whole = tree(&claims);
            let mut shuffled = claims.clone();
            shuffled.extend(claims.iter().cloned());
            fastrand::Rng::with_seed(order).shuffle(&mut shuffled);
            let other = tree(&shuffled);
            prop_assert_eq!(&other, &whole);
            prop_assert_eq!(other.digest(), whole.digest());
            for cell in Cells::ALL.iter() {
                let highest = claims.iter().filter(|claim| claim.cells.contains(cell));
                let highest = highest.map(|claim| Rank { epoch: claim.epoch, master: claim.master.id }).max();
                let holder = whole.holder(cell).map(|claim| Rank { epoch: claim.epoch, master: claim.master.id });
                prop_assert_eq!(holder, highest);
            }
        }
    }
}
