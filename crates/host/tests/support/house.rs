//! A node with doors of every kind on a thread of its own.
#![allow(clippy::unwrap_used, dead_code, reason = "a test, and not every test uses everything")]

use super::Probe;
use contract::Span;
use host::realtime::Wishes;
use host::tls::{Tls, TlsSettings};
use host::{Cause, DoorLimits, Driver, HandshakeSettings, Handshakes, Helpers, Target, Troubles};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::{PeerIndex, Protocol, Transport};

/// What a house is built with.
pub struct Plan {
    pub handshakes: usize,
    pub within: Span,
    pub keeps: bool,
    /// Whether the node's thread goes before others, as that of a broker does.
    pub realtime: bool,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan { handshakes: 512, within: Span::secs(30), keeps: false, realtime: false }
    }
}

/// What the node was told so far, as others may see it.
#[derive(Default, Clone)]
pub struct Seen {
    pub accepted: usize,
    pub closed: usize,
    pub came: usize,
    pub names: Vec<String>,
    pub carried: Vec<Transport>,
    pub kept: Vec<u8>,
}

/// The node, its doors and its thread.
pub struct House {
    pub plain: SocketAddr,
    pub tls: SocketAddr,
    pub pair: SocketAddr,
    pub ws: SocketAddr,
    pub wss: SocketAddr,
    pub certificates: Arc<Tls>,
    pub troubles: Arc<Troubles>,
    pub lines: Arc<Mutex<Vec<String>>>,
    seen: Arc<Mutex<Seen>>,
    ended: Arc<AtomicBool>,
    waker: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl House {
    pub fn new(settings: &TlsSettings) -> House {
        House::planned(settings, &Plan::default())
    }

    pub fn planned(settings: &TlsSettings, plan: &Plan) -> House {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let said = Arc::clone(&lines);
        let troubles = Arc::new(Troubles::new(move |line| said.lock().unwrap().push(line.to_owned())));
        let (tls, _) = Tls::load(settings).unwrap();
        let certificates = Arc::new(tls);
        let handshakes = Handshakes::start(
            HandshakeSettings {
                handshakes: plan.handshakes,
                within: plan.within,
                tls: Some(Arc::clone(&certificates)),
                troubles: Arc::clone(&troubles),
            },
            &Helpers::new().unwrap(),
        );
        let probe = Probe { keeps: plan.keeps, ..Probe::default() };
        let mut driver = Driver::new(probe, Vec::new()).unwrap();
        driver.limit(DoorLimits::default(), Arc::clone(&troubles));
        driver.employ(handshakes.unwrap()).unwrap();
        let mut open =
            |transport| driver.listen("127.0.0.1:0".parse().unwrap(), Protocol::Mqtt, transport).unwrap();
        let (plain, tls) = (open(Transport::Plain), open(Transport::Tls));
        let (pair, ws) = (open(Transport::PairTls), open(Transport::WebSocket));
        let wss = open(Transport::SecureWebSocket);
        let (waker, sleeper) = UnixStream::pair().unwrap();
        driver.wake_on(&sleeper).unwrap();
        let (seen, ended) = (Arc::new(Mutex::new(Seen::default())), Arc::new(AtomicBool::new(false)));
        let (shown, over) = (Arc::clone(&seen), Arc::clone(&ended));
        let realtime = plan.realtime;
        let thread = std::thread::spawn(move || {
            let _sleeper = sleeper;
            if realtime {
                let wishes = Wishes { priority: Some(50), processors: Vec::new(), lock_memory: false };
                host::realtime::ask(&wishes).iter().for_each(|refused| eprintln!("note: {refused}"));
            }
            let mut ready = Vec::new();
            while !over.load(Ordering::Acquire) {
                driver.wait_and_turn(&mut ready).unwrap();
                driver.with_unsent(|probe, _| {
                    let mut seen = shown.lock().unwrap();
                    (seen.accepted, seen.closed, seen.came) = (probe.accepted(), probe.closed(), probe.came);
                    seen.names = probe.names.iter().map(|(_, name)| name.clone()).collect();
                    seen.carried = probe.carried.iter().map(|(_, transport)| *transport).collect();
                    let known = seen.kept.len();
                    seen.kept.extend_from_slice(&probe.kept[known..]);
                });
            }
        });
        House {
            plain,
            tls,
            pair,
            ws,
            wss,
            certificates,
            troubles,
            lines,
            seen,
            ended,
            waker,
            thread: Some(thread),
        }
    }

    pub fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until the condition holds. The watchdog only ends a test that hangs.
    pub fn wait(&self, what: &str, mut holds: impl FnMut(&Seen) -> bool) {
        let watchdog = Instant::now() + Duration::from_secs(60);
        while !holds(&self.seen()) {
            assert!(Instant::now() < watchdog, "{what} did not come; said: {:?}", self.lines.lock().unwrap());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until this trouble was counted and told, and returns all that was said.
    pub fn trouble(&self, cause: Cause) -> String {
        // The first of each cause is counted, and then told.
        let told = || {
            let causes = self.troubles.counts().filter(|(_, count)| *count > 0).count();
            self.lines.lock().unwrap().len() >= causes
        };
        self.wait(cause.name(), |_| self.troubles.count(cause) > 0 && told());
        self.lines.lock().unwrap().join("\n")
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        let _ = rustix::io::write(&self.waker, b"!");
        if let Some(thread) = self.thread.take() {
            let result = thread.join();
            assert!(result.is_ok() || std::thread::panicking(), "the node's thread panicked");
        }
    }
}

/// A client's connection over TLS.
pub type Secure = rustls::StreamOwned<rustls::ClientConnection, TcpStream>;

/// Connects over TLS; the handshake happens with the first bytes.
pub fn secure(address: SocketAddr, config: &Arc<ClientConfig>) -> Secure {
    let name = ServerName::IpAddress(address.ip().into());
    let tls = rustls::ClientConnection::new(Arc::clone(config), name).unwrap();
    Secure::new(tls, plain(address))
}

/// Connects, with a watchdog.
pub fn plain(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Bytes that are easy to compare.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 131 + at / 251) as u8).collect()
}

/// A driver that may dial one broker over TLS.
pub fn dialer(address: SocketAddr, name: &str, settings: &TlsSettings) -> (Driver<Probe>, Arc<Troubles>) {
    let troubles = Arc::new(Troubles::default());
    let (tls, _) = Tls::load(settings).unwrap();
    let handshakes = Handshakes::start(
        HandshakeSettings {
            handshakes: 4,
            within: Span::secs(30),
            tls: Some(Arc::new(tls)),
            troubles: Arc::clone(&troubles),
        },
        &Helpers::new().unwrap(),
    );
    let mut driver = Driver::new(Probe { keeps: true, ..Probe::default() }, Vec::new()).unwrap();
    driver.limit(DoorLimits::default(), Arc::clone(&troubles));
    driver.employ(handshakes.unwrap()).unwrap();
    let target = Target { name: Some(host::tls::server_name(name).unwrap()), ..Target::known(address) };
    driver.with_unsent(|_, net| net.set_peer(PeerIndex(0), target));
    driver.with(|_, net| wire::Effects::dial(net, PeerIndex(0), Span::secs(30)));
    (driver, troubles)
}
