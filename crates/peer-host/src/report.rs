//! What is shown of a peer.

use engine::Peer;
use overlay::{Cells, Member, Role};
use serde::{Deserialize, Serialize};

/// A peer, and what it knows of others.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PeerReport {
    /// Itself.
    pub own: MemberReport,
    /// `seeking`, `member`, `electing`, `master` or `out`.
    pub role: String,
    /// Who is in its region, itself among them.
    pub members: Vec<MemberReport>,
    /// All regions.
    pub regions: Vec<RegionReport>,
    /// What programs of its own offer and want.
    pub posts: usize,
    /// What is put here for peers of other regions.
    pub proxied: usize,
    /// Profiles and interests that are put at it, as a point.
    pub at_point: usize,
    /// Things that it keeps.
    pub kept: usize,
    /// Bytes of their keys and values.
    pub kept_bytes: u64,
}

/// A peer as others know it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MemberReport {
    /// Its name.
    pub name: String,
    /// Where it is on the ring.
    pub ring: String,
    /// Where it is reached.
    pub address: String,
    /// Where it is.
    pub lat: f64,
    /// The same.
    pub long: f64,
}

/// A region.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RegionReport {
    /// Its master.
    pub master: MemberReport,
    /// How many of the 256 smallest cells it has.
    pub cells: u32,
    /// Its squares: the corners in the south-west and in the north-east, as latitude and longitude.
    pub squares: Vec<[(f64, f64); 2]>,
    /// Whether the peer that says so is in it.
    pub own: bool,
}

impl MemberReport {
    fn of(member: &Member) -> MemberReport {
        MemberReport {
            name: member.name.clone(),
            ring: member.id.ring.to_string(),
            address: member.address.clone(),
            lat: member.location.lat(),
            long: member.location.long(),
        }
    }
}

impl PeerReport {
    /// Of a peer.
    pub(crate) fn of(peer: &Peer, extent: &overlay::Extent) -> PeerReport {
        let rings = peer.rings();
        let role = match rings.role() {
            Role::Seeking => "seeking",
            Role::Member => "member",
            Role::Electing => "electing",
            Role::Master => "master",
            Role::Out => "out",
        };
        let squares = |cells: Cells| cells.blocks().into_iter().map(|block| extent.corners(block)).collect();
        let regions = rings.tree().claims().map(|claim| RegionReport {
            master: MemberReport::of(&claim.master),
            cells: claim.cells.count(),
            squares: squares(claim.cells),
            own: claim.rank() == rings.table().reign,
        });
        let ((posts, proxied), (kept, kept_bytes)) = (peer.posts(), peer.kept());
        PeerReport {
            own: MemberReport::of(rings.own()),
            role: role.to_owned(),
            members: rings.table().members.values().map(MemberReport::of).collect(),
            regions: regions.collect(),
            posts,
            proxied,
            at_point: peer.point().len(),
            kept,
            kept_bytes,
        }
    }
}
