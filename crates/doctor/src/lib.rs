#![doc = include_str!("../README.md")]

mod cgroup;
mod clock;
mod cpu;
mod holder;
mod kernel;
mod memory;
mod network;
mod rights;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Serialize;

/// How well one aspect of the host serves a broker.
///
/// The order runs from best to worst, so that the greatest health among several
/// findings is the verdict on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Nothing needs to be done.
    Good,
    /// A broker works, but the host costs it something.
    Fair,
    /// The deadlines or loss bounds of topics may be broken.
    Poor,
}

/// What one check found: enough to act on without looking anything up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The aspect examined, such as "real-time rights".
    pub name: &'static str,
    /// The judgement, by which findings are sorted and coloured.
    pub health: Health,
    /// What is the case, in one clause, with units on its numbers.
    pub state: String,
    /// What the state costs a broker; empty when the health is good.
    pub cost: String,
    /// The command or file line that mends it; empty when the health is good.
    pub remedy: String,
}

impl Finding {
    fn good(name: &'static str, state: impl Into<String>) -> Self {
        Self { name, health: Health::Good, state: state.into(), cost: String::new(), remedy: String::new() }
    }

    fn fair(
        name: &'static str,
        state: impl Into<String>,
        cost: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { name, health: Health::Fair, state: state.into(), cost: cost.into(), remedy: remedy.into() }
    }

    fn poor(
        name: &'static str,
        state: impl Into<String>,
        cost: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { health: Health::Poor, ..Self::fair(name, state, cost, remedy) }
    }

    /// Turns a fact that could not be had into a finding, so that a check which
    /// failed is never mistaken for one that passed.
    fn unknown(name: &'static str, unknown: &Unknown) -> Self {
        Self::fair(
            name,
            format!("unknown: {} {}", unknown.source, unknown.reason),
            "a fault here would go unnoticed",
            unknown.remedy.as_str(),
        )
    }
}

/// Examines the host under `root`, which is "/" in production and a fixture
/// folder in tests. It changes nothing and takes about a tenth of a second,
/// because it measures how late the host wakes a sleeping thread.
#[must_use]
pub fn examine(root: &Path) -> Vec<Finding> {
    let host = Host { root };
    let mut findings = rights::examine(&host);
    findings.extend(kernel::examine(&host));
    findings.extend(cgroup::examine(&host));
    findings.extend(cpu::examine(&host));
    findings.extend(clock::examine(&host));
    findings.extend(memory::examine(&host));
    findings.extend(network::examine(&host));
    findings
}

/// How many processors the control group of this process grants, if it grants a part only and that can be found out.
#[must_use]
pub fn granted_processors() -> Option<f64> {
    cgroup::granted(&Host { root: Path::new("/") })
}

/// Examines whether brokers can listen on `addresses`, one finding for each.
///
/// Each port is opened for TCP and closed again at once: only the attempt
/// itself tells apart a free port, a taken one and one this user may not open.
#[must_use]
pub fn examine_ports(addresses: &[SocketAddr]) -> Vec<Finding> {
    network::examine_ports(addresses)
}

/// A fact that could not be had: where it was sought, what went wrong there and
/// how the user can get at it.
#[derive(Debug)]
struct Unknown {
    source: String,
    reason: String,
    remedy: String,
}

impl Unknown {
    fn unreadable(path: &str, error: &io::Error) -> Self {
        Self {
            source: path.to_owned(),
            reason: format!("could not be read ({error})"),
            remedy: format!("run verge doctor as root and outside any container, or sudo cat {path}"),
        }
    }

    fn malformed(path: &str) -> Self {
        Self {
            source: path.to_owned(),
            reason: "is not in the expected form".to_owned(),
            remedy: format!("look at it with sudo cat {path}"),
        }
    }
}

/// The file system of the host under examination.
struct Host<'a> {
    root: &'a Path,
}

impl Host<'_> {
    /// Maps an absolute path of the host to where it lies below the root.
    fn locate(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn read(&self, path: &str) -> Result<String, Unknown> {
        match fs::read(self.locate(path)) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) => Err(Unknown::unreadable(path, &error)),
        }
    }

    /// Reads a file whose absence is itself a fact rather than a failure.
    fn read_if_present(&self, path: &str) -> Result<Option<String>, Unknown> {
        match fs::read(self.locate(path)) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Unknown::unreadable(path, &error)),
        }
    }

    fn parse<T>(&self, path: &str, parser: impl FnOnce(&str) -> Option<T>) -> Result<T, Unknown> {
        parser(&self.read(path)?).ok_or_else(|| Unknown::malformed(path))
    }

    fn parse_if_present<T>(
        &self,
        path: &str,
        parser: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Unknown> {
        match self.read_if_present(path)? {
            Some(text) => parser(&text).map(Some).ok_or_else(|| Unknown::malformed(path)),
            None => Ok(None),
        }
    }

    fn has_folder(&self, path: &str) -> bool {
        self.locate(path).is_dir()
    }
}

/// Gives the finding of a check, or says why there is none.
fn settle(name: &'static str, outcome: Result<Finding, Unknown>) -> Finding {
    outcome.unwrap_or_else(|unknown| Finding::unknown(name, &unknown))
}

/// Parses a file that holds one number and nothing else.
fn number<T: FromStr>(text: &str) -> Option<T> {
    text.trim().parse().ok()
}

/// Picks the word that a kernel file marks as chosen, as in `always [madvise] never`.
fn chosen(text: &str, open: char, close: char) -> Option<&str> {
    text.split_whitespace().find_map(|word| word.strip_prefix(open)?.strip_suffix(close))
}

/// Writes a size in the largest unit of which it holds at least one.
fn size(bytes: u64) -> String {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    match bytes {
        GIB.. => format!("{}.{} GiB", bytes / GIB, bytes % GIB * 10 / GIB),
        MIB.. => format!("{} MiB", bytes / MIB),
        KIB.. => format!("{} KiB", bytes / KIB),
        _ => format!("{bytes} bytes"),
    }
}
