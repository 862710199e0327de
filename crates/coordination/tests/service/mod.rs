//! What tests of the driver have around it: a real service, and what drives participants against it.

#![allow(dead_code, reason = "each test uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod server;

#[allow(unused_imports, reason = "each test uses its own part")]
pub use server::{LONG, Server, wait};

use coordination::{Event, Settings, ZooKeeper};
use federation::{Reply, Request, Session, Ticket};
use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Woken by the driver.
#[derive(Default)]
pub struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    pub fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.changed.notify_all();
    }

    /// Waits for it, but not longer than this.
    pub fn wait(&self, most: Duration) {
        let rung = self.rung.lock().unwrap();
        let (mut rung, _) = self.changed.wait_timeout_while(rung, most, |rung| !*rung).unwrap();
        *rung = false;
    }
}

/// A session, and all that has been told in it.
pub struct Talk {
    pub zookeeper: ZooKeeper,
    bell: Arc<Bell>,
    tickets: u64,
    pub sessions: Vec<Session>,
    pub replies: BTreeMap<Ticket, Reply>,
    pub rings: Vec<String>,
    /// Everything, in its order.
    pub told: Vec<Event>,
}

impl Talk {
    pub fn new(settings: Settings) -> Talk {
        let bell = Arc::new(Bell::default());
        let ring = Arc::clone(&bell);
        let zookeeper = ZooKeeper::connect(settings, Arc::new(move || ring.ring())).unwrap();
        Talk {
            zookeeper,
            bell,
            tickets: 0,
            sessions: Vec::new(),
            replies: BTreeMap::new(),
            rings: Vec::new(),
            told: Vec::new(),
        }
    }

    pub fn connected(settings: Settings) -> (Talk, i64) {
        let mut talk = Talk::new(settings);
        let session = talk.until_connected();
        (talk, session)
    }

    pub fn until_connected(&mut self) -> i64 {
        let mut number = 0;
        self.until("connected", |talk| match talk.sessions.last() {
            Some(Session::Connected(session)) => {
                number = *session;
                true
            }
            _ => false,
        });
        number
    }

    pub fn poll(&mut self) {
        while let Some(event) = self.zookeeper.poll_event() {
            match &event {
                Event::Session(session) => self.sessions.push(*session),
                Event::Reply(ticket, reply) => _ = self.replies.insert(*ticket, reply.clone()),
                Event::Ring(path) => self.rings.push(path.clone()),
                Event::Trouble(_) => {}
            }
            self.told.push(event);
        }
    }

    pub fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Talk) -> bool) {
        let begun = Instant::now();
        self.poll();
        while !is_so(self) {
            assert!(begun.elapsed() < LONG, "not within {LONG:?}: {what}; {:?}", self.told);
            // Generous, so that a bell that is not rung shows.
            self.bell.wait(LONG);
            self.poll();
        }
    }

    pub fn send(&mut self, request: Request) -> Ticket {
        self.tickets += 1;
        self.zookeeper.ask(Ticket(self.tickets), request).unwrap();
        Ticket(self.tickets)
    }

    pub fn answer(&mut self, request: Request) -> Reply {
        let ticket = self.send(request);
        self.until("answered", |talk| talk.replies.contains_key(&ticket));
        self.replies.remove(&ticket).unwrap()
    }
}

/// What carries bytes between clients and a server, until it is cut.
pub struct Relay {
    pub port: u16,
    is_cut: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Relay {
    pub fn start(to: u16) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let relay = Relay { port, is_cut: Arc::default(), streams: Arc::default() };
        let (is_cut, streams) = (Arc::clone(&relay.is_cut), Arc::clone(&relay.streams));
        // Ends with the process of the test.
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let mut all = streams.lock().unwrap();
                if is_cut.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                for (mut from, mut to) in [(&client, &server), (&server, &client)]
                    .map(|(from, to)| (from.try_clone().unwrap(), to.try_clone().unwrap()))
                {
                    std::thread::spawn(move || {
                        _ = std::io::copy(&mut from, &mut to);
                        _ = to.shutdown(std::net::Shutdown::Both);
                    });
                }
                all.extend([client, server]);
            }
        });
        relay
    }

    /// Ends all connections, and turns new ones away; or lets them in again.
    pub fn cut(&self, is_cut: bool) {
        let mut streams = self.streams.lock().unwrap();
        self.is_cut.store(is_cut, Ordering::SeqCst);
        for stream in streams.drain(..) {
            _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// An admin removes a node at the top.
pub fn remove(server: &Server, path: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let removed = async {
        let client = zookeeper_client::Client::connect(&format!("127.0.0.1:{}", server.port)).await?;
        client.delete(path, None).await
    };
    runtime.block_on(removed).unwrap();
}
