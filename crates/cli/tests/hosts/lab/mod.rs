//! Hosts for tests: guests of User-Mode Linux on one bridge, in a network namespace of this process.
//!
//! ```ignore
//! let Some(lab) = Lab::start("what this is about", 3) else { return };      // SKIPPED, with the reason, where guests cannot run
//! let broker = lab.guest(1).spawn("verge broker a --config /lab/verge.toml");
//! lab.guest(1).step_clock("2 seconds");
//! lab.guest(2).netem("delay 3ms 2ms loss 1%");
//! lab.guest(2).cut();
//! ```
//!
//! Guest I has the address 10.9.0.I. It sees the files of the machine on which the tests run, read-only and at their places
//! (`/usr`, `/lib`, `/host` for the rest), so that it runs the `verge` under test with its libraries. `/lab` is one folder of
//! all guests and of the test, which outlives guests that die: scripts, logs and configurations are there.
//! Commands come over the guest's console, not over its network, so that they reach a guest whose cable is cut.
//!
//! One lab runs at a time in a process. Everything that it has made ends with it, and what a killed test process has left is
//! cleared away by the next one.

#![allow(dead_code, reason = "each test uses its own part of this")]

mod packages;

use crate::support::{Folder, wait_for, wait_until};
use packages::Packages;
use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a guest may take to start. Two seconds do, where nobody else works.
const START: Duration = Duration::from_secs(180);
/// Memory of a guest, of which it takes what it uses.
const MEMORY: &str = "256M";
/// Namespaces of all labs begin so; then comes the number of the process.
const NAMESPACE: &str = "verge-hosts-";
/// The time between two looks at a guest that starts.
const LOOK: Duration = Duration::from_millis(5);
/// More guests than anybody needs.
const GUESTS_MAX: usize = 8;

/// Guests that run, and their network.
pub struct Lab {
    guests: Vec<Guest>,
    network: Network,
    folder: Folder,
    _alone: MutexGuard<'static, ()>,
}

impl Lab {
    /// So many guests that are up. `None` where they cannot run; that is printed with the reason.
    pub fn start(test: &str, guests: usize) -> Option<Lab> {
        assert!((1..=GUESTS_MAX).contains(&guests), "a lab has 1 to {GUESTS_MAX} guests");
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (packages, network) = match Packages::ready().and_then(|packages| Ok((packages, Network::new()?)))
        {
            Ok(both) => both,
            Err(reason) => {
                println!("SKIPPED: {test}: {reason}");
                return None;
            }
        };
        let folder = Folder::new();
        // Made while nobody uses the lab; a guest's root looks for `verge` there first.
        std::fs::create_dir(folder.path("tmp")).unwrap();
        let place = |number| Guest {
            number,
            packages: packages.clone(),
            folder: folder.path(""),
            namespace: network.0.clone(),
            kernel: RefCell::default(),
        };
        let guests: Vec<Guest> = (1..=guests).map(place).collect();
        for guest in &guests {
            network.plug(guest.number);
            guest.power_on();
        }
        for guest in &guests {
            if let Err(reason) = guest.wait_for_boot() {
                println!("SKIPPED: {test}: {reason}");
                return None;
            }
        }
        Some(Lab { guests, network, folder, _alone: alone })
    }

    /// A guest, by its number from 1 on.
    pub fn guest(&self, number: usize) -> &Guest {
        &self.guests[number - 1]
    }

    /// All guests.
    pub fn guests(&self) -> &[Guest] {
        &self.guests
    }

    /// Writes a file into `/lab`.
    pub fn write(&self, name: &str, content: &str) {
        self.folder.write(name, content);
    }

    /// A file of `/lab` as the test sees it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path(name)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.guests.iter().for_each(Guest::print_logs);
        }
        // Before the network, in which they are, and the folder.
        self.guests.clear();
    }
}

/// A guest that does not start ends with its test as well.
impl Drop for Guest {
    fn drop(&mut self) {
        self.kill();
    }
}

/// One host.
pub struct Guest {
    number: usize,
    packages: Packages,
    /// What guests have as `/lab`.
    folder: PathBuf,
    namespace: String,
    /// Its kernel, while it has power.
    kernel: RefCell<Option<Child>>,
}

impl Guest {
    /// Its address.
    pub fn address(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 9, 0, self.number as u8)
    }

    /// Runs a script of the shell until it ends.
    pub fn run(&self, script: &str) -> Ended {
        let job = self.begin(script, "");
        let code = wait_for(&format!("the end of `{script}` on guest {}", self.number), || job.exit_code());
        Ended { code, out: job.log() }
    }

    /// The same for one that must succeed. Returns what it printed.
    pub fn must(&self, script: &str) -> String {
        let ended = self.run(script);
        assert_eq!(ended.code, 0, "`{script}` on guest {}: {}", self.number, ended.out);
        ended.out
    }

    /// Starts a program, with arguments as the shell reads them, and leaves it running.
    pub fn spawn(&self, command: &str) -> Job {
        self.begin(command, "exec ")
    }

    /// Steps its clock, by what `date` understands: `2 seconds`, `-1.5 seconds`.
    pub fn step_clock(&self, by: &str) {
        self.must(&format!("date -s '{by}'"));
    }

    /// Makes its clock run faster (or slower, where negative) by so many thousandths.
    pub fn drift_clock(&self, thousandths: i32) {
        self.must(&format!("adjtimex -t {}", 10_000 + 10 * thousandths));
    }

    /// What it sends is delayed and lost like this, in the words of `tc ... netem`. Takes the place of an earlier one.
    pub fn netem(&self, how: &str) {
        self.mend_link();
        self.must(&format!("tc qdisc add dev vec0 root netem {how}"));
    }

    /// What it sends passes no faster than this, in the words of `tc ... tbf`: `500kbit`. At most `buffer` (`20ms`) waits.
    pub fn narrow(&self, rate: &str, buffer: &str) {
        self.mend_link();
        self.must(&format!("tc qdisc add dev vec0 root tbf rate {rate} burst 8kb latency {buffer}"));
    }

    /// What it sends to these guests is lost; the other way, and to all others, everything passes.
    pub fn mute_towards(&self, others: &[&Guest]) {
        self.treat(others, "netem loss 100%");
    }

    /// What it sends to these guests passes no faster than this; as [`Guest::narrow`].
    pub fn narrow_towards(&self, others: &[&Guest], rate: &str, buffer: &str) {
        self.treat(others, &format!("tbf rate {rate} burst 8kb latency {buffer}"));
    }

    /// What it sends to these guests goes through a queue of its own, in the words of `tc`.
    fn treat(&self, others: &[&Guest], queue: &str) {
        self.mend_link();
        let mut script = format!(
            "set -e; tc qdisc add dev vec0 root handle 1: prio bands 4 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
            tc qdisc add dev vec0 parent 1:4 handle 40: {queue}\n"
        );
        for other in others {
            let to = other.address();
            writeln!(
                script,
                "tc filter add dev vec0 parent 1: protocol ip u32 match ip dst {to}/32 flowid 1:4"
            )
            .unwrap();
        }
        self.must(&script);
    }

    /// What it sends passes again as it should.
    pub fn mend_link(&self) {
        self.run("tc qdisc del dev vec0 root");
    }

    /// Pulls its cable.
    pub fn cut(&self) {
        self.ip(&["link", "set", &self.tap(), "nomaster"]);
    }

    /// Plugs its cable in again.
    pub fn join(&self) {
        self.ip(&["link", "set", &self.tap(), "master", BRIDGE]);
    }

    /// The host loses its power: nothing more leaves it, and nobody is told.
    pub fn kill(&self) {
        let Some(mut kernel) = self.kernel.borrow_mut().take() else { return };
        // The kernel's processes are one group. It is gone when this process is.
        let group = rustix::process::Pid::from_child(&kernel);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = kernel.wait();
    }

    /// The host has power again, and starts with nothing but `/lab`.
    pub fn boot(&self) {
        assert!(self.kernel.borrow().is_none(), "guest {} has power", self.number);
        self.power_on();
        self.wait_for_boot().unwrap();
    }

    fn power_on(&self) {
        let own = self.folder.join(self.number.to_string());
        std::fs::create_dir_all(&own).unwrap();
        let log = std::fs::File::create(own.join("console")).unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace]).arg(&self.packages.kernel);
        command.args([format!("mem={MEMORY}"), format!("initrd={}", self.packages.root.display())]);
        command.args(["con=null", "con0=fd:0,fd:1", "quiet"]);
        let (tap, folder) = (self.tap(), self.folder.join(""));
        let number = self.number;
        command.args([
            format!("umid=guest{number}"),
            format!("uml_dir={}tmp/", folder.display()),
            // The same at every boot, so that others find it at once.
            format!("vec0:transport=tap,ifname={tap},depth=64,mac=02:00:00:09:00:{number:02x}"),
            format!("labguest={number}"),
            format!("labfolder={}", folder.display()),
            format!("labprogram={}", Path::new(env!("CARGO_BIN_EXE_verge")).parent().unwrap().display()),
        ]);
        command.env("TMPDIR", self.folder.join("tmp")).stdin(Stdio::piped()).stdout(log.try_clone().unwrap());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        *self.kernel.borrow_mut() = Some(command.stderr(log).spawn().unwrap());
    }

    /// `Err`: why guests cannot run on this machine.
    fn wait_for_boot(&self) -> Result<(), String> {
        let console = self.folder.join(self.number.to_string()).join("console");
        let says = |word: &str| String::from_utf8_lossy(&std::fs::read(&console).unwrap()).contains(word);
        let since = Instant::now();
        while !says("READY") {
            // A program's registers are more than this kernel has room for: so it is with processors that have AMX.
            if says("ptrace set fp regs failed") {
                return Err("the guests' kernel does not know this machine's processor".to_owned());
            }
            assert!(since.elapsed() < START, "guest {} did not start within {START:?}", self.number);
            std::thread::sleep(LOOK);
        }
        // It has begun with whole seconds.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        self.must(&format!("date -s @{}.{:09}", now.as_secs(), now.subsec_nanos()));
        Ok(())
    }

    fn begin(&self, script: &str, before: &str) -> Job {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(self.number.to_string()).join(number.to_string());
        std::fs::write(path.with_extension("sh"), format!("{before}{script}\n")).unwrap();
        let mut kernel = self.kernel.borrow_mut();
        let kernel = kernel.as_mut().unwrap_or_else(|| panic!("guest {} has no power", self.number));
        writeln!(kernel.stdin.as_mut().unwrap(), "{}/{number}", self.number).unwrap();
        Job { path, script: script.to_owned() }
    }

    fn tap(&self) -> String {
        format!("tap{}", self.number)
    }

    fn ip(&self, words: &[&str]) {
        ip(&[&["-n", &self.namespace], words].concat()).unwrap();
    }

    /// For a test that fails.
    fn print_logs(&self) {
        let own = self.folder.join(self.number.to_string());
        let mut logs: Vec<PathBuf> =
            std::fs::read_dir(&own).unwrap().map(|entry| entry.unwrap().path()).collect();
        logs.sort();
        for log in logs.iter().filter(|log| log.extension().is_some_and(|kind| kind == "out")) {
            let script = std::fs::read_to_string(log.with_extension("sh")).unwrap_or_default();
            let text = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
            let from = text.len().saturating_sub(LOG_BYTES_SHOWN);
            let tail = text.get(from..).unwrap_or(&text);
            eprintln!("--- guest {}: {}\n{tail}", self.number, script.trim());
        }
    }
}

/// Of a log of a test that fails.
const LOG_BYTES_SHOWN: usize = 4_000;

/// What a script that has ended left behind.
pub struct Ended {
    /// Its exit code.
    pub code: i32,
    /// What it printed, on either stream.
    pub out: String,
}

/// A program on a guest.
pub struct Job {
    path: PathBuf,
    script: String,
}

impl Job {
    /// What it has printed so far, on either stream. It can be read when its host is dead as well.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.path.with_extension("out")).unwrap_or_default())
            .into_owned()
    }

    /// The exit code, once it has ended: 128 and the signal's number where a signal ended it.
    pub fn exit_code(&self) -> Option<i32> {
        std::fs::read_to_string(self.path.with_extension("rc")).ok()?.trim().parse().ok()
    }

    /// Its number on its host, where it was started with [`Guest::spawn`].
    pub fn id(&self) -> u32 {
        wait_for(&format!("the start of `{}`", self.script), || {
            std::fs::read_to_string(self.path.with_extension("pid")).ok()?.trim().parse().ok()
        })
    }

    /// Waits until it has printed this.
    pub fn wait_for(&self, text: &str) {
        wait_until(&format!("that `{}` says `{text}`", self.script), || self.log().contains(text));
    }
}

/// The namespace, with a bridge in it.
struct Network(String);

const BRIDGE: &str = "labbr";

impl Network {
    fn new() -> Result<Network, String> {
        clear_away();
        let name = format!("{NAMESPACE}{}", std::process::id());
        ip(&["netns", "add", &name]).map_err(|error| format!("no network namespace can be had: {error}"))?;
        let network = Network(name);
        let bridge = || {
            ip(&["-n", &network.0, "link", "add", BRIDGE, "type", "bridge"])?;
            ip(&["-n", &network.0, "link", "set", BRIDGE, "up"])?;
            ip(&["-n", &network.0, "tuntap", "add", "tap0", "mode", "tap"])
        };
        bridge().map_err(|error| format!("no bridge with taps can be had: {error}"))?;
        Ok(network)
    }

    fn plug(&self, number: usize) {
        let tap = format!("tap{number}");
        ip(&["-n", &self.0, "tuntap", "add", &tap, "mode", "tap"]).unwrap();
        ip(&["-n", &self.0, "link", "set", &tap, "master", BRIDGE, "up"]).unwrap();
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = ip(&["netns", "del", &self.0]);
    }
}

/// Ends what test processes have left that were killed.
fn clear_away() {
    let all = ip(&["netns", "list"]).unwrap_or_default();
    for name in all.lines().filter_map(|line| line.split_whitespace().next()) {
        let Some(process) = name.strip_prefix(NAMESPACE) else { continue };
        if Path::new("/proc").join(process).exists() {
            continue;
        }
        for id in ip(&["netns", "pids", name]).unwrap_or_default().lines() {
            if let Some(id) = id.trim().parse().ok().and_then(rustix::process::Pid::from_raw) {
                let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
            }
        }
        let _ = ip(&["netns", "del", name]);
    }
}

/// Runs `ip`. Returns what it printed.
fn ip(words: &[&str]) -> Result<String, String> {
    let done =
        Command::new("ip").args(words).stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if done.status.success() {
        Ok(text(&done.stdout))
    } else {
        Err(format!("ip {}: {}", words.join(" "), text(&done.stderr)))
    }
}
