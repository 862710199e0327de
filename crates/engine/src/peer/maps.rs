//! Which points are responsible for what is put: those of the own region, and the masters of others.

use contract::{Location, Mutant, RingId};
use overlay::{Cells, Extent, Rings, Table};
use rendezvous::{Area, Map, Post, Space};
use std::collections::BTreeSet;

/// Which points there are in the own region.
pub(super) struct Region<'a> {
    pub(super) table: &'a Table,
    pub(super) space: &'a Space,
}

impl Map for Region<'_> {
    fn points_of(&self, post: &Post) -> BTreeSet<RingId> {
        let owner = |place: RingId| self.table.owner(place).map(|member| member.id.ring);
        match post {
            Post::Offer(profile) => owner(self.space.place_of(profile)).into_iter().collect(),
            Post::Want(interest) => {
                let clusters = interest.pieces(self.space);
                let within = clusters
                    .iter()
                    .flat_map(|cluster| self.table.members.range(cluster.first..=cluster.last));
                let last = clusters.iter().filter_map(|cluster| owner(cluster.last));
                within.map(|(place, _)| *place).chain(last).collect()
            }
        }
    }
}

/// Which points there are, in the own region and in others: those are behind their masters.
pub(super) struct Whole<'a> {
    pub(super) rings: &'a Rings,
    pub(super) space: &'a Space,
    pub(super) extent: Extent,
}

impl Whole<'_> {
    /// Where something is put: where it is, or where it looks; the own region, if it says nothing of that (§12.6).
    fn cells_of(&self, post: &Post) -> Option<Cells> {
        match post {
            Post::Offer(profile) => profile.location().map(|location| {
                let mut cells = Cells::NONE;
                cells.insert(self.extent.cell_of(location));
                cells
            }),
            Post::Want(interest) => interest.area().and_then(|area| cells_in(&self.extent, &area)),
        }
    }
}

impl Map for Whole<'_> {
    fn points_of(&self, post: &Post) -> BTreeSet<RingId> {
        let table = self.rings.table();
        let region = Region { table, space: self.space };
        let Some(cells) = self.cells_of(post) else { return region.points_of(post) };
        let mut points = BTreeSet::new();
        for claim in self.rings.tree().claims().filter(|claim| !claim.cells.and(cells).is_empty()) {
            if claim.rank() == table.reign {
                points.extend(region.points_of(post));
            } else if !Mutant::ForgetOtherRegions.is_on() {
                points.insert(claim.master.id.ring);
            }
        }
        points
    }
}

/// The cells that an area touches; none, if it has no extent.
fn cells_in(extent: &Extent, area: &Area) -> Option<Cells> {
    let corner = |lat: f64, long: f64| Location::new(lat.clamp(-90.0, 90.0), long.clamp(-180.0, 180.0)).ok();
    let south_west = corner(area.lat.from(), area.long.from())?;
    Some(extent.cells_in(south_west, corner(area.lat.to(), area.long.to())?))
}
