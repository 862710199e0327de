//! Real processes for tests: brokers of a pair on ports of their own, a load, a receiver that keeps count, and conditions
//! that are waited for under a watchdog. Everything is on 127.0.0.1, and every process ends with the value that owns it.

#![allow(dead_code, reason = "each test file uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

pub mod http;
pub mod link;
pub mod sentences;
pub mod strangers;

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use verge::{Client, Contract, NodeReport, Publisher, Reigning, Span, Standing};

/// How long a condition may take before the test is given up.
pub const WATCHDOG: Duration = Duration::from_secs(60);
/// The time between two looks at a condition.
const LOOK: Duration = Duration::from_millis(5);

/// Waits until `look` finds something.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + WATCHDOG;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "watchdog: {what} did not happen within {WATCHDOG:?}");
        std::thread::sleep(LOOK);
    }
}

/// Waits until something is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, || is_so().then_some(()));
}

/// A folder of its own, removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    /// An empty folder.
    pub fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("verge-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file into it.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Runs the program here until it ends by itself.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Ran {
        self.run_with(arguments, &[])
    }

    /// The same with environment variables.
    pub fn run_with<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
        environment: &[(&str, &str)],
    ) -> Ran {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let [out, err] = ["out", "err"].map(|kind| self.path(&format!("run-{number}.{kind}")));
        let mut command = program(arguments);
        command.current_dir(&self.0).stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
        command.envs(environment.iter().copied());
        let mut process = Process { child: command.spawn().unwrap(), log: err.clone() };
        let code = process.wait_for_end();
        let text = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
        Ran { code, out: text(&out), err: text(&err) }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a program that has ended left behind.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; nothing if it was ended by a signal.
    pub code: Option<i32>,
    /// What it printed.
    pub out: String,
    /// What it complained of.
    pub err: String,
}

impl Ran {
    /// It must have ended with this code and have said all of this, on either stream.
    pub fn must(&self, code: i32, says: &[&str]) {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
        for text in says {
            let said = self.out.contains(text) || self.err.contains(text);
            assert!(said, "lacks {text:?}:\n{}{}", self.out, self.err);
        }
    }
}

/// The program with arguments, and without what the tester's environment would add.
pub fn program<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_verge"));
    command.args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("VERGE_")) {
        command.env_remove(name);
    }
    // The host is measured once for all tests, and the tester's own profile stays as it is.
    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    // Contexts of the tester's own are not meant.
    command.env("XDG_CONFIG_HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

/// Ports of 127.0.0.1 that nobody uses. They are below those that the system hands out to outgoing connections.
pub fn free_ports<const N: usize>() -> [u16; N] {
    const FIRST: u32 = 12_000;
    const COUNT: u32 = 20_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(97);
    let mut ports = [0; N];
    for port in &mut ports {
        *port = (0..COUNT)
            .map(|_| start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)))
            .map(|number| (FIRST + number % COUNT) as u16)
            .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
            .unwrap();
    }
    ports
}

/// A process that is ended, by its number, when it is no longer needed.
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a command that logs to this file, where an earlier life of it ended.
    pub fn start(command: &mut Command, log: PathBuf) -> Process {
        let stderr = File::options().create(true).append(true).open(&log).unwrap();
        Process { child: command.stderr(stderr).spawn().unwrap(), log }
    }

    /// A process that was started in another way, and says something to this file, if anywhere.
    pub fn adopt(child: Child, log: PathBuf) -> Process {
        Process { child, log }
    }

    /// What it reads and prints, where the command had pipes for that.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has complained of so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap()).into_owned()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.id()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(id, signal).unwrap();
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM; returns the exit code.
    pub fn terminate(&mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.wait_for_end()
    }

    /// Waits until it ends by itself; returns the exit code.
    pub fn wait_for_end(&mut self) -> Option<i32> {
        let log = self.log.clone();
        wait_for(&format!("the end of the process that logs to {}", log.display()), || {
            self.child.try_wait().unwrap()
        })
        .code()
    }

    /// Memory that it has in fact, in bytes.
    pub fn resident(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<usize>().unwrap() << 10
    }

    /// How many descriptors it has open.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.id())).unwrap().count()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- {}:\n{}", self.log.display(), self.log());
        }
    }
}

/// A configured pair of which nothing need run yet.
pub struct Site {
    /// Where the configuration and the logs are.
    pub folder: Folder,
    /// The configuration.
    pub config: PathBuf,
    /// For each broker the port for clients, and the one for its partner.
    pub ports: [u16; 4],
}

/// Costs are given, so that start and admission do not depend on how busy the host is.
pub const ORDINARY: &str = "\
[realtime]
priority = 0
lock_memory = false
[admission]
arrival_cost = \"5us\"
dispatch_cost = \"5us\"
replication_cost = \"5us\"
turn_cost = \"8us\"
read_cost = \"2us\"
write_cost = \"5us\"
kib_cost = \"1us\"
blocking = \"1ms\"
";

impl Site {
    /// The usual pair, and more configuration.
    pub fn new(more: &str) -> Site {
        Site::with_roles(["primary", "backup"], more)
    }

    /// A pair whose brokers start as told.
    pub fn with_roles(roles: [&str; 2], more: &str) -> Site {
        let ports = free_ports::<4>();
        let mut text = String::from(ORDINARY);
        for (index, role) in roles.into_iter().enumerate() {
            let [clients, pair] = [ports[2 * index], ports[2 * index + 1]];
            text += &format!(
                "[brokers.{}]\nclients = \"127.0.0.1:{clients}\"\npair = \"127.0.0.1:{pair}\"\nstart_as = \"{role}\"\n",
                NAMES[index]
            );
        }
        let folder = Folder::new();
        let config = folder.write("verge.toml", text + more);
        Site { folder, config, ports }
    }

    /// Where clients reach both brokers.
    pub fn addresses(&self) -> String {
        format!("127.0.0.1:{},127.0.0.1:{}", self.ports[0], self.ports[2])
    }

    /// A client of both.
    pub fn client(&self) -> Client {
        Client::builder().patience(WATCHDOG).connect(&self.addresses()).unwrap()
    }

    /// Starts one of the brokers. Its log goes on where an earlier life of it ended.
    pub fn start(&self, index: usize) -> Process {
        self.start_with(index, &[])
    }

    /// The same with environment variables.
    pub fn start_with(&self, index: usize, environment: &[(&str, String)]) -> Process {
        let log = self.folder.path(&format!("{}.log", NAMES[index]));
        let mut command = program(["broker", NAMES[index]]);
        command.arg("--config").arg(&self.config).stdout(Stdio::null());
        command.envs(environment.iter().map(|(name, value)| (*name, value)));
        Process::start(&mut command, log)
    }

    /// Runs a command of the program with this configuration.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        let config = ["--config".as_ref(), self.config.as_os_str()];
        self.folder.run(config.into_iter().chain(arguments.iter().map(|text| text.as_ref())))
    }
}

const NAMES: [&str; 2] = ["a", "b"];

/// A pair that runs.
pub struct Pair {
    /// The brokers, where they run.
    pub brokers: [Option<Process>; 2],
    /// Asks both for their status.
    pub watcher: Client,
    /// Where it is.
    pub site: Site,
}

impl Pair {
    /// Starts both brokers; returns when the pair is protected.
    pub fn start(more: &str) -> Pair {
        Pair::start_on(Site::new(more))
    }

    /// The same on a given site.
    pub fn start_on(site: Site) -> Pair {
        let brokers = [Some(site.start(0)), Some(site.start(1))];
        let watcher = Client::builder().patience(Duration::from_secs(1)).start(&site.addresses()).unwrap();
        let pair = Pair { brokers, watcher, site };
        pair.wait_for_protection();
        pair
    }

    /// A running broker.
    pub fn broker(&mut self, index: usize) -> &mut Process {
        self.brokers[index].as_mut().unwrap()
    }

    /// SIGKILL for one broker; returns when that was.
    pub fn kill(&mut self, index: usize) -> Instant {
        let at = Instant::now();
        self.brokers[index].take().unwrap().kill();
        at
    }

    /// Starts a broker that has ended.
    pub fn restart(&mut self, index: usize) {
        self.brokers[index] = Some(self.site.start(index));
    }

    /// What one broker says of itself, if it answers.
    pub fn report(&self, index: usize) -> Option<NodeReport> {
        self.brokers[index].as_ref()?;
        self.watcher.status(index, false).ok().flatten()
    }

    /// Whether this broker says that it is that.
    pub fn stands(&self, index: usize, standing: Standing) -> bool {
        self.report(index).is_some_and(|report| report.standing == standing)
    }

    /// Waits until exactly one broker reigns and the other is ready to take over; returns which one reigns.
    pub fn wait_for_protection(&self) -> usize {
        wait_for("protection", || {
            let reports = [self.report(0)?, self.report(1)?];
            let primary = reports.iter().position(|report| report.standing == Standing::Primary)?;
            let other = &reports[1 - primary];
            let complete =
                reports[primary].protected && other.standing == Standing::Backup && other.protected;
            (complete && other.epoch == reports[primary].epoch).then_some(primary)
        })
    }

    /// Waits until this broker reigns.
    pub fn wait_for_reign(&self, index: usize) {
        wait_until("the reign of the other broker", || self.stands(index, Standing::Primary));
    }
}

/// What came, per topic and number.
#[derive(Default)]
struct Seen {
    numbers: BTreeMap<String, BTreeMap<u64, u32>>,
    /// Messages whose content is not that of their number.
    wrong: u64,
}

/// A subscriber that keeps count.
pub struct Receiver {
    _client: Client,
    seen: Arc<Mutex<Seen>>,
}

impl Receiver {
    /// Subscribes; every message of a [`Load`] that is published from now on must come.
    pub fn start(site: &Site, filter: &str) -> Receiver {
        let client = site.client();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let book = Arc::clone(&seen);
        let record = move |delivery: &verge::Delivery<'_>| {
            let mut seen = book.lock().unwrap();
            seen.wrong += u64::from(delivery.payload.get(..8) != Some(&delivery.seq.to_le_bytes()[..]));
            let numbers = seen.numbers.entry(delivery.topic.to_owned()).or_default();
            *numbers.entry(delivery.seq).or_default() += 1;
        };
        client.subscribe_with(filter, record).unwrap();
        Receiver { _client: client, seen }
    }

    /// Messages that have come, per topic; the least of these topics.
    pub fn least(&self, topics: &[String]) -> usize {
        let seen = self.seen.lock().unwrap();
        topics.iter().map(|topic| seen.numbers.get(topic).map_or(0, BTreeMap::len)).min().unwrap_or(0)
    }

    /// Waits until so many more messages of every topic have come.
    pub fn wait_for_more(&self, topics: &[String], more: usize) {
        let wanted = self.least(topics) + more;
        wait_until("the arrival of more messages", || self.least(topics) >= wanted);
    }

    /// What has not come although it was published, in words.
    pub fn missing(&self, published: &BTreeMap<String, u64>) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        let came = |topic: &String, number: u64| {
            seen.numbers.get(topic).is_some_and(|numbers| numbers.contains_key(&number))
        };
        published
            .iter()
            .flat_map(|(topic, count)| (0..*count).map(move |number| (topic, number)))
            .filter(|(topic, number)| !came(topic, *number))
            .map(|(topic, number)| format!("{topic} #{number}"))
            .collect()
    }

    /// Waits for what may still be on its way, and returns what has not come then. Messages that come twice or with the
    /// content of another are never right.
    pub fn settle(&self, published: &BTreeMap<String, u64>) -> Vec<String> {
        let until = Instant::now() + SETTLE;
        while !self.missing(published).is_empty() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        let seen = self.seen.lock().unwrap();
        let twice = seen.numbers.iter().flat_map(|(topic, numbers)| {
            numbers
                .iter()
                .filter(|(_, times)| **times > 1)
                .map(move |(number, _)| format!("{topic} #{number}"))
        });
        assert_eq!(twice.collect::<Vec<_>>(), Vec::<String>::new(), "came twice");
        assert_eq!(seen.wrong, 0, "messages with the content of others");
        drop(seen);
        self.missing(published)
    }

    /// Everything published must come.
    pub fn must_have(&self, published: &BTreeMap<String, u64>) {
        assert!(!published.is_empty() && published.values().all(|count| *count > 0), "{published:?}");
        assert_eq!(self.settle(published), Vec::<String>::new(), "missing of {published:?}");
    }
}

/// Until a message that has not come is lost: well above deadline and failover.
const SETTLE: Duration = Duration::from_secs(5);

/// Topics that are published by a thread of their own, each at its period, until stopped.
pub struct Load {
    /// The topics.
    pub topics: Vec<String>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<BTreeMap<String, u64>>>,
    reigns: Arc<Mutex<Vec<(Instant, usize)>>>,
}

impl Load {
    /// Begins to publish; `every` is the time between two messages of a topic.
    pub fn start(site: &Site, families: &[Family]) -> Load {
        let client = site.client();
        let reigns = Arc::new(Mutex::new(Vec::new()));
        let book = Arc::clone(&reigns);
        let hear = move |reigning| {
            if let Reigning::Primary { broker, .. } = reigning {
                book.lock().unwrap().push((Instant::now(), usize::from(broker.0)));
            }
        };
        client.on_reign(hear).unwrap();
        let named = families.iter().flat_map(|family| {
            (0..family.topics).map(move |number| (format!("{}/{number}", family.name), *family))
        });
        let named: Vec<(String, Family)> = named.collect();
        let asked = named.iter().map(|(topic, family)| (topic.as_str(), Some(family.contract)));
        let publishers = client.publishers(asked).unwrap();
        let topics = named.iter().map(|(topic, _)| topic.clone()).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let every: Vec<Duration> = named.iter().map(|(_, family)| family.every).collect();
        let thread = Some(std::thread::spawn(move || publish(&publishers, &every, &stopped)));
        Load { topics, stop, thread, reigns }
    }

    /// Stops publishing; returns how many messages each topic had.
    pub fn stop(&mut self) -> BTreeMap<String, u64> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }

    /// How often the publisher has heard of a primary since it began.
    pub fn moves(&self) -> usize {
        self.reigns.lock().unwrap().len()
    }

    /// How long after this moment the publisher had a primary in this broker.
    pub fn failover(&self, since: Instant, to: usize) -> Duration {
        wait_for("the publisher's new primary", || {
            let reigns = self.reigns.lock().unwrap();
            let (at, _) = reigns.last().filter(|(_, broker)| *broker == to)?;
            Some(at.saturating_duration_since(since))
        })
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Brokers that are slow to suspect each other, so that a busy host alone makes none take over.
pub const PATIENT: &str = "[network]\nfailover = \"310ms\"\n[detection]\nmisses = 25\n";

/// Brokers that do not suspect each other, however busy the host is.
pub const UNHURRIED: &str = "[network]\nfailover = \"5200ms\"\n[detection]\npoll = \"50ms\"\nmisses = 100\n";

/// Topics of one contract.
#[derive(Clone, Copy)]
pub struct Family {
    /// The first level of their names.
    pub name: &'static str,
    /// How many.
    pub topics: u32,
    /// Their contract.
    pub contract: Contract,
    /// The time between two messages of one topic.
    pub every: Duration,
}

impl Family {
    /// No loss, and two messages retained: needs no copies.
    pub fn kept() -> Family {
        Family::new("kept", Contract::every(Span::millis(100)).retain(2))
    }

    /// No loss, and one message retained: needs copies.
    pub fn copied() -> Family {
        Family::new("copied", Contract::every(Span::millis(100)).retain(1))
    }

    /// No loss, without and with copies, and up to three losses with nothing retained; for [`PATIENT`] brokers.
    pub fn patient() -> [Family; 3] {
        let every = |millis| Contract::every(Span::millis(millis));
        [
            Family::new("kept", every(100).retain(5)),
            Family::new("copied", every(100).retain(4)),
            Family::new("loose", every(200).tolerate(3).retain(0)),
        ]
    }

    fn new(name: &'static str, contract: Contract) -> Family {
        // A little more than the period, which is the shortest time.
        let every = Duration::from_nanos(contract.period.as_nanos_u64() * 102 / 100);
        Family { name, topics: 20, contract, every }
    }
}

fn publish(publishers: &[Publisher], every: &[Duration], stopped: &AtomicBool) -> BTreeMap<String, u64> {
    let began = Instant::now();
    let stagger = |index: usize| every[index].mul_f64(index as f64 / publishers.len() as f64);
    let mut due: Vec<Instant> = (0..publishers.len()).map(|index| began + stagger(index)).collect();
    while !stopped.load(Ordering::Relaxed) {
        let now = Instant::now();
        for (index, publisher) in publishers.iter().enumerate() {
            if due[index] > now {
                continue;
            }
            let mut payload = publisher.published().to_le_bytes().to_vec();
            payload.resize(16, 0);
            publisher.publish(&payload).unwrap();
            due[index] = Instant::now() + every[index];
        }
        let next = due.iter().min().copied().unwrap_or(now);
        std::thread::sleep(next.saturating_duration_since(Instant::now()).min(LOOK));
    }
    publishers.iter().map(|publisher| (publisher.topic().to_owned(), publisher.published())).collect()
}
