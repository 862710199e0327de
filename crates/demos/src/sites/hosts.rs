//! Where the processes of the demo run: hosts with networks of their own (namespaces, with a line between them), or this host alone.

use super::line::{End, Line};
use console::Trouble;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tun_rs::{DeviceBuilder, Layer};

/// A host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    North,
    South,
    East,
    R1,
    R2,
    Service,
}

impl Place {
    pub const ALL: [Place; 6] =
        [Place::North, Place::South, Place::East, Place::R1, Place::R2, Place::Service];

    pub fn name(self) -> &'static str {
        ["north", "south", "east", "r1", "r2", "service"][self as usize]
    }

    /// From there to the middle of the network: sites are far from it, routers and the service are beside it.
    fn delay(self) -> Duration {
        Duration::from_micros([8_000, 12_000, 16_000, 300, 300, 300][self as usize])
    }
}

/// The argument by which the demo starts itself again, apart from this host's network.
pub const APART: &str = "--apart";
const TUN: &str = "/dev/net/tun";
/// Where `ip` keeps the names of namespaces.
const NAMES: &str = "/run/netns";

/// Starts this program again in a network of its own, where that can be had, and does not return; else says why not.
pub fn go_apart() -> Trouble {
    let mut words = vec!["--net", "--mount"];
    if !rustix::process::geteuid().is_root() {
        words.extend(["--user", "--map-root-user"]);
    }
    let quiet = |command: &mut Command| {
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    for program in ["unshare", "ip", "mount"] {
        if !quiet(Command::new(program).arg("-V")) {
            return Trouble(format!("there is no program `{program}`"));
        }
    }
    if !quiet(Command::new("unshare").args(&words).arg("true")) {
        return Trouble("`unshare` cannot make a network here".to_owned());
    }
    if let Err(error) = OpenOptions::new().read(true).write(true).open(TUN) {
        return Trouble(format!("{TUN}: {error}"));
    }
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return error.into(),
    };
    let arguments = std::env::args_os().skip(1);
    Command::new("unshare").args(words).arg("--").arg(program).args(arguments).arg(APART).exec().into()
}

/// All hosts.
pub enum Hosts {
    /// Each has a network of its own.
    Apart { line: Line },
    /// All are this one.
    Here,
}

impl Hosts {
    /// Makes them. This process has to have been started by [`go_apart`].
    pub fn apart() -> Result<Hosts, Trouble> {
        run("mount", &["-t", "tmpfs", "tmpfs", "/run"])?;
        ip(&["link", "set", "lo", "up"])?;
        let ends: Result<Vec<End>, Trouble> = Place::ALL.into_iter().map(make).collect();
        Ok(Hosts::Apart { line: Line::start(ends?)? })
    }

    pub fn is_apart(&self) -> bool {
        matches!(self, Hosts::Apart { .. })
    }

    /// Under which address the others reach it.
    pub fn address(&self, place: Place) -> String {
        if self.is_apart() { address(place as u8 + 1) } else { "127.0.0.1".to_owned() }
    }

    /// Does something at a host. Threads and processes that are begun there stay there.
    pub fn at<T: Send>(
        &self,
        place: Place,
        act: impl FnOnce() -> Result<T, Trouble> + Send,
    ) -> Result<T, Trouble> {
        if !self.is_apart() {
            return act();
        }
        let there = || {
            let network = File::open(Path::new(NAMES).join(place.name()))?;
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(network.as_fd(), kind).map_err(std::io::Error::from)?;
            act()
        };
        let ended = std::thread::scope(|scope| scope.spawn(there).join());
        ended.unwrap_or_else(|_| Err(Trouble(format!("a thread at {} has ended", place.name()))))
    }

    /// Cuts a host off from all others, or joins it again.
    pub fn cut(&self, place: Place, is_cut: bool) {
        if let Hosts::Apart { line } = self {
            line.cut(place as usize, is_cut);
        }
    }

    /// Bytes that a host has sent to others.
    pub fn sent(&self, place: Place) -> Option<u64> {
        match self {
            Hosts::Apart { line } => Some(line.sent(place as usize)),
            Hosts::Here => None,
        }
    }

    /// Takes a host's address away and gives it another one. Returns both.
    pub fn move_on(&self, place: Place) -> Result<(String, String), Trouble> {
        const FURTHER: u8 = 100;
        let (old, new) = (address(place as u8 + 1), address(place as u8 + 1 + FURTHER));
        ip(&["-n", place.name(), "addr", "del", &format!("{old}/24"), "dev", place.name()])?;
        ip(&["-n", place.name(), "addr", "add", &format!("{new}/24"), "dev", place.name()])?;
        Ok((old, new))
    }
}

fn address(number: u8) -> String {
    format!("10.77.0.{number}")
}

/// A namespace with a device, the other end of which is the line's.
fn make(place: Place) -> Result<End, Trouble> {
    let name = place.name();
    let device = DeviceBuilder::new().name(name).layer(Layer::L2).enable(false).build_sync()?;
    ip(&["netns", "add", name])?;
    ip(&["link", "set", name, "netns", name])?;
    let (hardware, own) =
        (format!("02:00:00:00:00:{:02x}", place as u8 + 1), format!("{}/24", address(place as u8 + 1)));
    for words in [
        &["link", "set", "lo", "up"][..],
        &["link", "set", name, "address", &hardware],
        &["addr", "add", &own, "dev", name],
        &["link", "set", name, "up"],
    ] {
        ip(&[&["-n", name], words].concat())?;
    }
    Ok(End { device, delay: place.delay() })
}

fn ip(words: &[&str]) -> Result<(), Trouble> {
    run("ip", words)
}

fn run(program: &str, words: &[&str]) -> Result<(), Trouble> {
    let done = Command::new(program).args(words).stdin(Stdio::null()).output()?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(Trouble(format!("`{program} {}`: {}", words.join(" "), said.trim())))
}
