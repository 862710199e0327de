//! What work costs on this host, kept in a file, so that every command counts with the same, today and tomorrow.
//!
//! It is measured anew where another kernel, processor or release would make it wrong, and where the file is damaged; whoever measures
//! says why. A host on which the file cannot be written is measured each time.

use config::AdmissionConfig;
use contract::Span;
use contract::admission::{Carriers, Costs};
use contract::rounds::Io;
use host::{Calibration, calibrate};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

/// The name of the file in its folder.
const FILE: &str = "profile.json";
/// No profile is longer.
const BYTES_MAX: u64 = 64 << 10;
/// What is counted where nothing can be measured.
const ASSUMED: Span = Span::micros(10);
/// Measurements of which the middle one counts.
const TIMES: usize = 5;

/// What was measured, and where.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// What it holds for.
    pub host: HostId,
    /// All in nanoseconds of processor time, with the margin in them.
    pub arrival_ns: i64,
    /// To send a message to one subscriber.
    pub dispatch_ns: i64,
    /// To copy a message.
    pub replication_ns: i64,
    /// A turn.
    pub turn_ns: i64,
    /// For how long the data thread was held up.
    pub blocking_ns: i64,
    /// Plain connections.
    pub tcp: Connection,
    /// Those over TLS.
    pub tls: Connection,
    /// Those over WebSocket.
    pub websocket: Connection,
    /// Those over both.
    pub secure_websocket: Connection,
}

/// What one connection costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connection {
    /// A read.
    pub read_ns: i64,
    /// A write.
    pub write_ns: i64,
    /// 1024 bytes.
    pub kib_ns: i64,
}

/// Of which host a profile is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostId {
    /// Its kernel.
    pub kernel: String,
    /// Its processor.
    pub processor: String,
    /// The release of Verge.
    pub release: String,
}

/// Why a profile is of no use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Why {
    /// There is none.
    Missing,
    /// It cannot be read, or is something else.
    Damaged(String),
    /// It was made where this was different: what, there, and here.
    Other(&'static str, String, String),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Missing => f.write_str("this host has not been measured"),
            Why::Damaged(text) => write!(f, "the profile is damaged ({text})"),
            Why::Other(what, there, here) => {
                write!(f, "the profile was made with another {what} (`{there}`, here `{here}`)")
            }
        }
    }
}

impl HostId {
    /// This host.
    pub fn here() -> HostId {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let info = text("/proc/cpuinfo");
        let named = |name: &str| info.lines().find(|line| line.starts_with(name));
        let model = named("model name").or_else(|| named("CPU part")).and_then(|line| line.split_once(':'));
        // What is built for debugging is slower.
        let built = if cfg!(debug_assertions) { " (debug)" } else { "" };
        HostId {
            kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
            processor: model.map_or("unknown", |(_, model)| model.trim()).to_owned(),
            release: format!("{}{built}", env!("CARGO_PKG_VERSION")),
        }
    }

    /// What is different here.
    fn difference(&self, here: &HostId) -> Option<Why> {
        let HostId { kernel, processor, release } = self;
        [
            ("kernel", kernel, &here.kernel),
            ("processor", processor, &here.processor),
            ("release", release, &here.release),
        ]
        .into_iter()
        .find(|(_, there, here)| there != here)
        .map(|(what, there, here)| Why::Other(what, there.clone(), here.clone()))
    }
}

impl From<Io> for Connection {
    fn from(Io { read, write, kib }: Io) -> Connection {
        Connection { read_ns: read.0, write_ns: write.0, kib_ns: kib.0 }
    }
}

impl From<Connection> for Io {
    fn from(Connection { read_ns, write_ns, kib_ns }: Connection) -> Io {
        Io { read: Span(read_ns), write: Span(write_ns), kib: Span(kib_ns) }
    }
}

impl Profile {
    /// Measures this host, several times, of which the middle one counts. `None` where it cannot be measured.
    pub fn measure() -> Option<Profile> {
        let all = (0..TIMES).map(|_| calibrate()).collect::<Option<Vec<Calibration>>>()?;
        let middle = |part: &dyn Fn(&Calibration) -> Span| {
            let mut parts: Vec<i64> = all.iter().map(|one| part(one).0).collect();
            parts.sort_unstable();
            parts[TIMES / 2]
        };
        let connection = |of: &dyn Fn(&Carriers<Io>) -> Io| Connection {
            read_ns: middle(&|one| of(&one.costs.io).read),
            write_ns: middle(&|one| of(&one.costs.io).write),
            kib_ns: middle(&|one| of(&one.costs.io).kib),
        };
        Some(Profile {
            host: HostId::here(),
            arrival_ns: middle(&|one| one.costs.arrival),
            dispatch_ns: middle(&|one| one.costs.dispatch),
            replication_ns: middle(&|one| one.costs.replication),
            turn_ns: middle(&|one| one.costs.turn),
            blocking_ns: middle(&|one| one.blocking),
            tcp: connection(&|io| io.tcp),
            tls: connection(&|io| io.tls),
            websocket: connection(&|io| io.websocket),
            secure_websocket: connection(&|io| io.secure_websocket),
        })
    }

    /// What is counted where nothing can be measured.
    fn assumed() -> Profile {
        let connection = Connection { read_ns: ASSUMED.0, write_ns: ASSUMED.0, kib_ns: ASSUMED.0 };
        Profile {
            host: HostId::here(),
            arrival_ns: ASSUMED.0,
            dispatch_ns: ASSUMED.0,
            replication_ns: ASSUMED.0,
            turn_ns: 2 * ASSUMED.0,
            blocking_ns: Span::millis(5).0,
            tcp: connection,
            tls: connection,
            websocket: connection,
            secure_websocket: connection,
        }
    }

    /// Reads the profile of this host.
    pub fn load(file: &Path) -> Result<Profile, Why> {
        let damaged = |text: String| Why::Damaged(text);
        match std::fs::metadata(file) {
            Ok(data) if data.len() > BYTES_MAX => return Err(damaged(format!("{} bytes long", data.len()))),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(Why::Missing),
            Err(error) => return Err(damaged(error.to_string())),
        }
        let text = std::fs::read_to_string(file).map_err(|error| damaged(error.to_string()))?;
        let profile: Profile = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        if let Some(why) = profile.host.difference(&HostId::here()) {
            return Err(why);
        }
        if profile.all().iter().any(|cost| !(0..=Span::secs(1).0).contains(cost)) {
            return Err(damaged("a cost is below zero or above one second".to_owned()));
        }
        Ok(profile)
    }

    /// Writes it, in one piece.
    pub fn save(&self, file: &Path) -> std::io::Result<()> {
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let text = serde_json::to_string_pretty(self)?;
        let new = file.with_extension(format!("{}.new", std::process::id()));
        let written = std::fs::write(&new, text + "\n").and_then(|()| std::fs::rename(&new, file));
        written.inspect_err(|_| _ = std::fs::remove_file(&new))
    }

    fn all(&self) -> Vec<i64> {
        let Profile { arrival_ns, dispatch_ns, replication_ns, turn_ns, blocking_ns, .. } = *self;
        let connections = [self.tcp, self.tls, self.websocket, self.secure_websocket];
        let of_connections = connections.iter().flat_map(|one| [one.read_ns, one.write_ns, one.kib_ns]);
        [arrival_ns, dispatch_ns, replication_ns, turn_ns, blocking_ns]
            .into_iter()
            .chain(of_connections)
            .collect()
    }

    /// What admission counts with, and the longest blocking.
    pub fn costs(&self) -> (Costs, Span) {
        let costs = Costs {
            arrival: Span(self.arrival_ns),
            dispatch: Span(self.dispatch_ns),
            replication: Span(self.replication_ns),
            turn: Span(self.turn_ns),
            io: Carriers {
                tcp: self.tcp.into(),
                tls: self.tls.into(),
                websocket: self.websocket.into(),
                secure_websocket: self.secure_websocket.into(),
            },
        };
        (costs, Span(self.blocking_ns))
    }
}

/// Where the profile is: in the configured folder, or where programs of this user keep what they can make again.
pub fn place(admission: &AdmissionConfig) -> PathBuf {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let of_service = || named("CACHE_DIRECTORY");
    let of_user = || named("XDG_CACHE_HOME").or_else(|| named("HOME").map(|home| home.join(".cache")));
    let folder = admission.profile_folder.clone().or_else(of_service);
    folder
        .unwrap_or_else(|| of_user().unwrap_or_else(|| PathBuf::from("/var/cache")).join("verge"))
        .join(FILE)
}

/// The profile of this host, measured if need be. `say` hears why it was measured, and what became of it.
pub fn of_this_host(admission: &AdmissionConfig, say: impl Fn(&str)) -> Profile {
    let file = place(admission);
    let why = match Profile::load(&file) {
        Ok(profile) => return profile,
        Err(why) => why,
    };
    let Some(profile) = Profile::measure() else {
        say(&format!("{why}, and could not be: work is counted with {ASSUMED} for each step"));
        return Profile::assumed();
    };
    match profile.save(&file) {
        Ok(()) => say(&format!("{why}; it has been now: {}", file.display())),
        Err(error) => say(&format!(
            "{why}; it has been now, but that could not be kept in {} ({error}): set admission.profile_folder",
            file.display()
        )),
    }
    profile
}

/// What admission counts with: what is configured, and the host's profile for the rest.
pub fn costs(admission: &AdmissionConfig, say: impl Fn(&str)) -> (Costs, Span) {
    let AdmissionConfig { arrival, dispatch, replication, turn, read, write, kib, blocking, .. } = admission;
    let all = [arrival, dispatch, replication, turn, read, write, kib, blocking];
    let profile =
        if all.iter().all(|cost| cost.is_some()) { Profile::assumed() } else { of_this_host(admission, say) };
    let (measured, longest) = profile.costs();
    let costs = Costs {
        arrival: arrival.unwrap_or(measured.arrival),
        dispatch: dispatch.unwrap_or(measured.dispatch),
        replication: replication.unwrap_or(measured.replication),
        turn: turn.unwrap_or(measured.turn),
        io: measured.io.map(|io| Io {
            read: read.unwrap_or(io.read),
            write: write.unwrap_or(io.write),
            kib: kib.unwrap_or(io.kib),
        }),
    };
    (costs, blocking.unwrap_or(longest))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("verge-profile-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn what_was_saved_is_what_is_loaded() {
        let file = folder("same").join(FILE);
        assert_eq!(Profile::load(&file), Err(Why::Missing));
        let profile = Profile { arrival_ns: 123, ..Profile::assumed() };
        profile.save(&file).unwrap();
        assert_eq!(Profile::load(&file), Ok(profile));
        let left: Vec<_> = std::fs::read_dir(file.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "nothing else is left: {left:?}");
    }

    #[test]
    fn a_profile_of_elsewhere_or_a_damaged_one_says_why_it_is_of_no_use() {
        let file = folder("other").join(FILE);
        let here = HostId::here();
        for (host, what) in [
            (HostId { kernel: "1.2.3".to_owned(), ..here.clone() }, "another kernel (`1.2.3`"),
            (HostId { processor: "an abacus".to_owned(), ..here.clone() }, "another processor (`an abacus`"),
            (HostId { release: "0.0.0".to_owned(), ..here }, "another release (`0.0.0`"),
        ] {
            Profile { host, ..Profile::assumed() }.save(&file).unwrap();
            let why = Profile::load(&file).unwrap_err().to_string();
            assert!(why.contains(what), "{why}");
        }
        Profile { turn_ns: -1, ..Profile::assumed() }.save(&file).unwrap();
        assert!(Profile::load(&file).unwrap_err().to_string().contains("below zero"));
        for text in ["", "{", "[]", "{\"host\": 7}"] {
            std::fs::write(&file, text).unwrap();
            assert!(matches!(Profile::load(&file), Err(Why::Damaged(_))), "{text}");
        }
    }
}
