//! A real Apache ZooKeeper, for tests that skip where there is none: Java is looked for, and Maven fetches the jars once, into `target/`.
//! JAVA and MVN name other programs than those on the path; from where Maven fetches is for its own settings to say.

#![allow(dead_code, reason = "each test uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]
#![allow(clippy::disallowed_methods, reason = "JAVA and MVN name other programs")]

use coordination::Settings;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Far longer than anything here takes.
pub const LONG: Duration = Duration::from_secs(60);

/// The least that the service takes is two of its ticks.
const TICK_MS: u32 = 250;

fn program(variable: &str, usual: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| usual.to_owned())
}

fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("zookeeper")
}

/// The jars, fetched where they are missing; `Err`: why there are none.
fn jars() -> Result<PathBuf, String> {
    let found = Command::new(program("JAVA", "java")).arg("-version").stderr(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        return Err("there is no Java: install one, or name it with JAVA".to_owned());
    }
    let (all, jars) = (target(), target().join("jars"));
    fs::create_dir_all(&all).map_err(|why| why.to_string())?;
    // Tests of several processes may begin at once.
    let lock = fs::File::create(all.join("lock")).map_err(|why| why.to_string())?;
    lock.lock().map_err(|why| why.to_string())?;
    if jars.join("whole").exists() {
        return Ok(jars);
    }
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../coordination/tests/service/pom.xml");
    let fetched = Command::new(program("MVN", "mvn"))
        .args(["-q", "-B", "-f"])
        .arg(project)
        .arg("dependency:copy-dependencies")
        .arg(format!("-DoutputDirectory={}", jars.display()))
        .stdin(Stdio::null())
        .output();
    match fetched {
        Ok(done) if done.status.success() => {
            fs::write(jars.join("whole"), "").map_err(|why| why.to_string())?;
            Ok(jars)
        }
        Ok(_) => Err("Maven cannot fetch the jars of ZooKeeper: see its settings".to_owned()),
        Err(why) => Err(format!("there is no Maven ({why}): install it, or name it with MVN")),
    }
}

/// The jars; nothing, with a word why, where they cannot be had.
fn jars_or_word() -> Option<PathBuf> {
    jars().inspect_err(|why| println!("SKIPPED: {why}")).ok()
}

/// A server of its own, on this host.
pub struct Server {
    jars: PathBuf,
    folder: PathBuf,
    pub port: u16,
    /// For encrypted connections, where that is set up.
    pub secure_port: u16,
    more: fn(&Server) -> String,
    /// Its lines about the ensemble that it is of; empty: it stands alone.
    ensemble: String,
    process: Option<Child>,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

static SERVERS: AtomicU32 = AtomicU32::new(0);

impl Server {
    /// Starts one; `None`, with a word why, where that cannot be.
    pub fn start() -> Option<Server> {
        Server::start_with(|_| String::new())
    }

    /// Starts one with more settings, which may write files into its folder.
    pub fn start_with(more: fn(&Server) -> String) -> Option<Server> {
        let mut server = Server::new(jars_or_word()?, more);
        server.run();
        Some(server)
    }

    /// Three that are one service.
    pub fn start_ensemble() -> Option<[Server; 3]> {
        let jars = jars_or_word()?;
        let ports = [(); 3].map(|()| (free_port(), free_port()));
        let members = ports.iter().enumerate().map(|(index, (quorum, election))| {
            format!("server.{}=127.0.0.1:{quorum}:{election}\n", index + 1)
        });
        let lines = members.collect::<String>() + "initLimit=20\nsyncLimit=10\n";
        let mut servers = [1, 2, 3].map(|number| {
            let mut server = Server::new(jars.clone(), |_| String::new());
            server.ensemble.clone_from(&lines);
            fs::write(server.folder.join("data/myid"), number.to_string()).unwrap();
            server.launch();
            server
        });
        servers.iter_mut().for_each(|server| wait("a server of three serves", || server.serves()));
        Some(servers)
    }

    fn new(jars: PathBuf, more: fn(&Server) -> String) -> Server {
        let number = SERVERS.fetch_add(1, Ordering::Relaxed);
        let folder = target().join(format!("run-{}-{number}", std::process::id()));
        fs::create_dir_all(folder.join("data")).unwrap();
        let (port, secure_port) = (free_port(), free_port());
        Server { jars, folder, port, secure_port, more, ensemble: String::new(), process: None }
    }

    /// Starts it on the data that it left.
    pub fn run(&mut self) {
        self.launch();
        wait("the server serves", || self.serves());
    }

    fn launch(&mut self) {
        let settings = format!(
            "tickTime={TICK_MS}\ndataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n\
             4lw.commands.whitelist=srvr\nmaxClientCnxns=0\nfsync.warningthresholdms=10000\n{}{}",
            self.folder.join("data").display(),
            self.port,
            (self.more)(self),
            self.ensemble
        );
        let file = self.folder.join("zoo.cfg");
        fs::write(&file, settings).unwrap();
        let log = fs::File::options().create(true).append(true).open(self.folder.join("log")).unwrap();
        // A file that is named and not there keeps it from starting.
        let users = self.file("users");
        let users = users.exists().then(|| format!("-Djava.security.auth.login.config={}", users.display()));
        let process = Command::new(program("JAVA", "java"))
            .args(["-Xmx128m", "-XX:+UseSerialGC", "-Dzookeeper.forceSync=no"])
            .args(users)
            .arg("-cp")
            .arg(format!("{}/*", self.jars.display()))
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.process = Some(process);
    }

    /// What it says of itself.
    fn words(&self) -> String {
        let mut text = String::new();
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
            _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
            _ = stream.write_all(b"srvr");
            _ = stream.read_to_string(&mut text);
        }
        text
    }

    /// `ruok` is answered before it serves.
    fn serves(&self) -> bool {
        self.words().contains("Mode:")
    }

    /// Whether it leads others.
    pub fn leads(&self) -> bool {
        self.words().contains("Mode: leader")
    }

    /// Kills it without a word.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            _ = process.kill();
            _ = process.wait();
        }
    }

    /// A file in its folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn settings(&self, namespace: &str) -> Settings {
        Settings::new(&format!("127.0.0.1:{}", self.port), namespace)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        if !std::thread::panicking() {
            _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Looks again and again, for far longer than it takes.
pub fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONG, "not within {LONG:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
