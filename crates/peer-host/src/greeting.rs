//! What a peer says of itself on each connection that it makes, before anything else.

use contract::{Location, RingId};
use overlay::{Member, PeerId};
use rendezvous::{Kind, Space};
use serde::{Deserialize, Serialize};

/// The longest greeting.
pub(crate) const GREETING_BYTES_MAX: usize = 4 << 10;
/// What is spoken.
const PROTOCOL: &str = "verge-peer-1";
/// The longest name, and the longest address.
const TEXT_BYTES_MAX: usize = 255;

#[derive(Serialize, Deserialize)]
struct Greeting {
    protocol: String,
    /// What all peers of a deployment have set alike.
    terms: String,
    name: String,
    address: String,
    life: u64,
    lat: f64,
    long: f64,
}

/// The host of an address, as certificates have it.
pub(crate) fn host_of(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

/// The place on the ring of a name.
pub(crate) fn ring_of(name: &str) -> RingId {
    let mut bytes = [0; 20];
    let hash = blake3::hash(name.as_bytes());
    bytes.iter_mut().zip(hash.as_bytes()).for_each(|(byte, of)| *byte = *of);
    RingId::from_bytes(bytes)
}

/// A space, as a text: what is kept has its places in it.
pub(crate) fn space_of(space: &Space) -> String {
    let kind = |kind| match kind {
        Kind::Words => "words".to_owned(),
        Kind::Numbers { least, most } => format!("{least}..{most}"),
    };
    let dimensions: Vec<String> =
        space.dimensions().iter().map(|one| format!("{} {}", one.name(), kind(one.kind()))).collect();
    format!("{dimensions:?} {}", space.is_closed())
}

/// What must be the same at all peers, as a short text.
pub(crate) fn terms_of(space: &Space, overlay: &overlay::Settings) -> String {
    let corners = overlay.extent.corners(overlay::Block::ALL);
    let (least, capacity, alive, misses) =
        (overlay.least, overlay.capacity, overlay.alive_every.0, overlay.misses);
    let all = format!("{} {corners:?} {least} {capacity} {alive} {misses}", space_of(space));
    blake3::hash(all.as_bytes()).to_hex().as_str().get(..16).unwrap_or_default().to_owned()
}

/// The greeting of a peer.
pub(crate) fn greeting(own: &Member, terms: &str) -> Vec<u8> {
    let greeting = Greeting {
        protocol: PROTOCOL.to_owned(),
        terms: terms.to_owned(),
        name: own.name.clone(),
        address: own.address.clone(),
        life: own.id.life,
        lat: own.location.lat(),
        long: own.location.long(),
    };
    serde_json::to_vec(&greeting).unwrap_or_default()
}

/// Who greets; or why it is no peer of ours, for people.
pub(crate) fn greeted(bytes: &[u8], terms: &str) -> Result<Member, String> {
    let greeting: Greeting =
        serde_json::from_slice(bytes).map_err(|_| "what connects there is no peer".to_owned())?;
    let Greeting { protocol, terms: theirs, name, address, life, lat, long } = greeting;
    if protocol != PROTOCOL {
        return Err(format!(
            "the peer {name} speaks {protocol}, and this one {PROTOCOL}: use the same release"
        ));
    }
    if theirs != terms {
        return Err(format!(
            "the peer {name} has another [space] or [overlay] than this one: they have to be the same at all peers"
        ));
    }
    if name.is_empty() || name.len() > TEXT_BYTES_MAX || address.len() > TEXT_BYTES_MAX {
        return Err(format!("a peer has no name, or a name or address above {TEXT_BYTES_MAX} bytes"));
    }
    let location = Location::new(lat, long).map_err(|error| format!("the peer {name}: {error}"))?;
    Ok(Member { id: PeerId { ring: ring_of(&name), life }, name, address, location })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]
mod tests {
    use super::*;
    use overlay::Extent;

    #[test]
    fn a_peer_of_other_terms_is_turned_away_with_a_reason() {
        let corner = |lat, long| Location::new(lat, long).unwrap();
        let overlay = |least| {
            let extent = Extent::new(corner(0.0, 0.0), corner(1.0, 1.0)).unwrap();
            overlay::Settings { least, ..overlay::Settings::new(extent, Vec::new()) }
        };
        let space = Space::new(&[("kind", Kind::Words)], false).unwrap();
        let (ours, others) = (terms_of(&space, &overlay(3)), terms_of(&space, &overlay(2)));
        let id = PeerId { ring: ring_of("p1"), life: 7 };
        let own = Member { id, name: "p1".to_owned(), address: "h:1".to_owned(), location: corner(0.5, 0.5) };
        let said = greeting(&own, &ours);
        assert!(said.len() < GREETING_BYTES_MAX);
        assert_eq!(greeted(&said, &ours), Ok(own));
        assert!(greeted(&said, &others).unwrap_err().contains("p1 has another [space] or [overlay]"));
        assert!(greeted(b"GET / HTTP/1.1", &ours).unwrap_err().contains("no peer"));
    }
}
