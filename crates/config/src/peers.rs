//! Peers: where they are, and what is said of things that they offer and want.

use super::{Understanding, keys};
use contract::Location;
use host::Place;
use overlay::{Extent, Settings};
use rendezvous::{Kind, Profile, Space};
use std::path::PathBuf;

/// Profiles that one peer may offer by itself.
pub const OFFERS_MAX: usize = 1_024;

/// All peers of a file.
#[derive(Clone, Debug)]
pub struct PeersConfig {
    /// What is said of things.
    pub space: Space,
    /// How peers find together. All of the file are contacts of each other.
    pub overlay: Settings,
    /// Whether they speak TLS with each other.
    pub secure: bool,
    /// By name.
    pub peers: Vec<PeerConfig>,
}

/// A peer.
#[derive(Clone, PartialEq, Debug)]
pub struct PeerConfig {
    /// Its name.
    pub name: String,
    /// Where it listens for others, and they reach it.
    pub address: Place,
    /// Where it listens for programs.
    pub http: Option<Place>,
    /// Where it is.
    pub location: Location,
    /// Whether functions run here that have to be at the core, and not those that have to be at the edge.
    pub is_core: bool,
    /// Profiles that it offers by itself, all of which can be read.
    pub offers: Vec<String>,
    /// Where it keeps things; in memory, if nowhere.
    pub store: Option<PathBuf>,
    /// Bytes that it keeps at most.
    pub store_bytes: u64,
}

impl Understanding {
    /// `None` if there are none, or something about them is wrong.
    pub(super) fn peers(&mut self) -> Option<PeersConfig> {
        let peer = |name: String| {
            Some(PeerConfig {
                address: self.of(&keys::PEERS_ADDRESS, &name)??,
                http: self.of(&keys::PEERS_HTTP, &name).flatten(),
                location: self.of(&keys::PEERS_LOCATION, &name)??,
                is_core: self.of(&keys::PEERS_ROLE, &name)?,
                offers: self.of(&keys::PEERS_OFFERS, &name)?,
                store: self
                    .of(&keys::PEERS_STORE, &name)
                    .flatten()
                    .map(|folder| self.beside(&self.source(&keys::PEERS_STORE.path_of(&name)), folder)),
                store_bytes: self.of(&keys::PEERS_STORE_BYTES, &name)?,
                name,
            })
        };
        let peers: Vec<PeerConfig> = self.names(&keys::PEERS_ADDRESS).into_iter().filter_map(peer).collect();
        if peers.is_empty() {
            return None;
        }
        for peer in &peers {
            if peer.address.is_unspecified() {
                let source = self.source(&keys::PEERS_ADDRESS.path_of(&peer.name));
                let message = format!(
                    "{} is all addresses of a host, and other peers have to be told one",
                    peer.address
                );
                self.problem(
                    &source,
                    message,
                    "say where others reach it, such as \"p1.example:7610\"".to_owned(),
                );
            }
        }
        let (space, extent) = (self.space(), self.extent());
        let contacts = peers
            .iter()
            .map(|peer| &peer.address)
            .chain(&self.get(&keys::OVERLAY_CONTACTS))
            .map(ToString::to_string)
            .collect();
        let overlay = Settings {
            least: self.get(&keys::OVERLAY_LEAST),
            capacity: self.get(&keys::OVERLAY_CAPACITY),
            alive_every: self.get(&keys::OVERLAY_ALIVE),
            ..Settings::new(extent?, contacts)
        };
        let space = space?;
        peers.iter().for_each(|peer| self.check_offers(peer, &space));
        let secure = self.secure_peers();
        Some(PeersConfig { space, overlay, secure, peers })
    }

    /// Whether peers speak TLS, for which they need certificates.
    fn secure_peers(&mut self) -> bool {
        let secure = self.get(&keys::OVERLAY_TLS);
        let needed = [&keys::TLS_CERTIFICATE, &keys::TLS_KEY, &keys::TLS_CA];
        for key in needed.into_iter().filter(|key| secure && self.get(*key).is_none()).collect::<Vec<_>>() {
            let source = self.place_of(&keys::OVERLAY_TLS);
            let message = format!("overlay.tls needs {}, which is not configured", key.path());
            self.problem(&source, message, format!("give {}, or leave overlay.tls out", key.path()));
        }
        secure
    }

    fn check_offers(&mut self, peer: &PeerConfig, space: &Space) {
        if peer.offers.len() > OFFERS_MAX {
            let source = self.source(&keys::PEERS_OFFERS.path_of(&peer.name));
            let message = format!("{} profiles are above the limit of {OFFERS_MAX}", peer.offers.len());
            self.problem(&source, message, "let other peers offer some of them".to_owned());
        }
        for text in &peer.offers {
            let why = match Profile::read(space, text) {
                Err(error) => error.to_string(),
                Ok(profile) if profile.terms().topic.is_none() => {
                    "it does not say which topic it is about".to_owned()
                }
                Ok(_) => continue,
            };
            let source = self.source(&keys::PEERS_OFFERS.path_of(&peer.name));
            let remedy =
                "give what the device is, and behind `;` its topic: \"drone, lidar; topic=plant/7/lidar\"";
            self.problem(&source, format!("`{text}`: {why}"), remedy.to_owned());
        }
    }

    fn space(&mut self) -> Option<Space> {
        let given = self.get(&keys::SPACE_DIMENSIONS);
        let read: Result<Vec<(&str, Kind)>, String> = given.iter().map(|text| dimension(text)).collect();
        let space = read.and_then(|read| {
            Space::new(&read, self.get(&keys::SPACE_CLOSED)).map_err(|error| error.to_string())
        });
        self.known(
            space,
            keys::SPACE_DIMENSIONS.path(),
            "give one to six names, such as [\"kind\", \"battery: 0..100\"]",
        )
    }

    fn extent(&mut self) -> Option<Extent> {
        let (from, to) = (self.get(&keys::OVERLAY_SOUTH_WEST)?, self.get(&keys::OVERLAY_NORTH_EAST)?);
        let extent = Extent::new(from, to).map_err(|error| error.to_string());
        self.known(extent, keys::OVERLAY_SOUTH_WEST.path(), "give overlay.south_west and overlay.north_east")
    }

    /// What is there, or a problem.
    fn known<T>(&mut self, found: Result<T, String>, path: &str, remedy: &str) -> Option<T> {
        found
            .map_err(|message| {
                let source = self.source(path);
                self.problem(&source, message, remedy.to_owned());
            })
            .ok()
    }
}

/// `kind`, or `battery: 0..100`.
fn dimension(text: &str) -> Result<(&str, Kind), String> {
    let Some((name, range)) = text.split_once(':') else { return Ok((text.trim(), Kind::Words)) };
    let (least, most) = range.split_once("..").unwrap_or((range, ""));
    match (least.trim().parse(), most.trim().parse()) {
        (Ok(least), Ok(most)) => Ok((name.trim(), Kind::Numbers { least, most })),
        _ => Err(format!("`{text}` has no range of numbers: write for example `{}: 0..100`", name.trim())),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Scratch, load};

    const PEERS: &str = "[peers.p1]\naddress = \"10.0.0.1:7610\"\nlocation = \"40.06, -74.41\"\n\
                         [peers.p2]\naddress = \"10.0.0.2:7610\"\nhttp = \"127.0.0.1:7611\"\noffers = [\"drone, 80; topic=plant/7\"]\n";

    #[test]
    fn peers_of_a_file_are_contacts_of_each_other() {
        let text = format!(
            "[space]\ndimensions = [\"kind\", \"battery: 0..100\"]\n{PEERS}[overlay]\ncontacts = [\"far:1\"]\n"
        );
        let config = load("peers", &text).peers.unwrap();
        assert_eq!(config.overlay.contacts, ["10.0.0.1:7610", "10.0.0.2:7610", "far:1"]);
        assert_eq!(config.space.dimensions().len(), 2);
        assert_eq!((config.peers[0].location.lat(), config.peers[0].location.long()), (40.06, -74.41));
        assert!(load("none", "").peers.is_none());
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_remedy() {
        for (more, said) in [
            ("[space]\ndimensions = [\"battery: full\"]\n", "`battery: 0..100`"),
            ("[space]\ndimensions = []\n", "1 to 6 dimensions"),
            ("[overlay]\ntls = true\n", "overlay.tls needs tls.ca"),
            ("[overlay]\nsouth_west = \"50, 0\"\nnorth_east = \"40, 10\"\n", "is empty"),
            ("[peers.p3]\naddress = \"0.0.0.0:7610\"\n", "all addresses of a host"),
            ("[peers.p4]\nlocation = \"1, 1\"\n", "lacks `address`"),
            ("[peers.p5]\naddress = \"h:1\"\nlocation = \"91, 0\"\n", "91"),
            ("[peers.p5]\naddress = \"h:1\"\noffers = [\"drone, li*; topic=a\"]\n", "are for interests"),
            ("[peers.p5]\naddress = \"h:1\"\noffers = [\"drone\"]\n", "which topic"),
            ("[peers.p5]\naddress = \"h:1\"\nlocation = \"here\"\n", "latitude and longitude"),
        ] {
            let problems =
                Scratch::new("peers", &format!("{PEERS}{more}")).load(&[], &[]).err().unwrap_or_default();
            assert!(problems.contains(said), "{more}: {problems}");
        }
    }
}
