//! The node's socket: takes applications in, and answers those that only speak JSON. Threads that block; nothing here is on time.

mod guest;
mod socket;

use crate::proposal::WriteError;
use crate::ring::RingWriter;
use crate::store::Store;
use guest::Guest;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket::Socket;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Most connections at once.
pub const CONNECTIONS_MAX: usize = 64;

/// How many tuples all applications without shared memory may write together for one job.
pub const JSON_TUPLES: usize = 8;

/// The name under which the server itself writes for those applications.
pub const JSON_NAME: &str = "json";

/// How long an application may leave an answer unread.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the server rests when it cannot take anybody in, for want of descriptors for example.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// How long who comes may wait for those that have gone, but still have what they were given.
const LEAVING_MAX: Duration = Duration::from_secs(1);

/// What the node does for its applications. All of it is called from the server's threads, several at once.
pub trait Backend: Send + Sync {
    /// The store of a lane, as applications see it; `None` if there is no such lane.
    fn store(&self, lane: u16) -> Option<Arc<Store>>;

    /// What the values of a lane were made of; `None` if there is no such lane, or it is not kept.
    fn vectors(&self, lane: u16) -> Option<Arc<Store>>;

    /// The names of all nodes, by number.
    fn nodes(&self) -> Vec<String>;

    /// Takes in an application that writes up to `tuples` for one job; a sentence if it cannot be.
    fn attach(&self, lane: u16, tuples: usize, name: &str) -> Result<Seat, String>;

    /// An application has gone: its ring and its share are free.
    fn detach(&self, lane: u16, slot: u32);

    /// How the node does.
    fn status(&self) -> serde_json::Value;
}

/// What an application is given.
#[derive(Debug)]
pub struct Seat {
    /// Its number at this lane.
    pub slot: u32,
    /// Its ring: [`RingReader::file`](crate::RingReader::file), duplicated.
    pub ring: OwnedFd,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Somebody answers there already.
    #[error("{0}: another node answers on this socket: end it, or give this one another path")]
    Taken(PathBuf),
    /// Something else is there.
    #[error("{0}: there is something that is no socket: remove it, or take another path")]
    NotASocket(PathBuf),
    /// The system refused.
    #[error("{path}: {error}; the folder must exist and be writable for the node")]
    System {
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// A socket that is being served. It ends when it is dropped, or [stopped](Server::stop).
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves applications on this path. Who may is decided by the file's mode, 0660. A socket that is left over from a node that
    /// has died is removed, one on which somebody answers is not.
    pub fn start(path: &Path, backend: Arc<dyn Backend>) -> Result<Server, ServerError> {
        let socket = Socket::bind(path)?;
        let shared = Arc::new(Shared {
            socket,
            backend,
            doors: Mutex::default(),
            guests: Mutex::default(),
            gone: Condvar::new(),
            stopping: AtomicBool::new(false),
        });
        let served = shared.clone();
        let accepting = thread::Builder::new().name("kv-socket".into()).spawn(move || accept(&served));
        let accepting = accepting.map_err(|error| ServerError::System { path: path.to_owned(), error })?;
        Ok(Server { shared, accepting: Some(accepting) })
    }

    /// How many applications are connected.
    pub fn connections(&self) -> usize {
        lock(&self.shared.guests).len()
    }

    /// Whether it still takes connections. If not, its thread has panicked.
    pub fn is_serving(&self) -> bool {
        self.accepting.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Ends all connections, gives back what applications had, and removes the socket.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let Some(accepting) = self.accepting.take() else { return };
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.socket.wake();
        let _ = accepting.join();
        let mut guests = lock(&self.shared.guests);
        for stream in guests.values() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        while !guests.is_empty() {
            guests = self.shared.gone.wait(guests).unwrap_or_else(PoisonError::into_inner);
        }
        for (lane, door) in std::mem::take(&mut *lock(&self.shared.doors)) {
            self.shared.backend.detach(lane, door.slot);
        }
        self.shared.socket.remove();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

struct Shared {
    socket: Socket,
    backend: Arc<dyn Backend>,
    /// The server's own rings, by lane; there are no more than lanes.
    doors: Mutex<BTreeMap<u16, Door>>,
    /// By a number that counts up; at most [`CONNECTIONS_MAX`].
    guests: Mutex<BTreeMap<u64, UnixStream>>,
    /// A guest has gone.
    gone: Condvar,
    stopping: AtomicBool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("socket", &self.socket).finish_non_exhaustive()
    }
}

/// What the server writes through for applications without shared memory.
struct Door {
    store: Arc<Store>,
    slot: u32,
    ring: RingWriter,
}

impl Shared {
    /// Waits for those that have ended their connections to give back what they had, so that an application that is started anew
    /// finds its place free. Whether there were any, and they have.
    fn let_leave(&self) -> bool {
        let mut guests = lock(&self.guests);
        let leaving: Vec<u64> =
            guests.iter().filter(|(_, stream)| has_hung_up(stream)).map(|(&number, _)| number).collect();
        let until = Instant::now() + LEAVING_MAX;
        while leaving.iter().any(|number| guests.contains_key(number)) {
            let Some(rest) = until.checked_duration_since(Instant::now()) else { return false };
            guests = self.gone.wait_timeout(guests, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
        !leaving.is_empty()
    }

    /// I1, for an application without shared memory.
    fn write(
        &self,
        lane: u16,
        store: &Arc<Store>,
        key: kv::KeyId,
        value: &[u8],
        stamp: u64,
    ) -> Result<(), String> {
        let publishing = contract::Time(stamp);
        let said = |error: WriteError| error.to_string();
        store.check_write(key, value, publishing, crate::clock::now()).map_err(said)?;
        let mut doors = lock(&self.doors);
        // The lane may have been started anew since.
        let stale = doors.get(&lane).is_some_and(|door| !Arc::ptr_eq(&door.store, store));
        if stale && let Some(door) = doors.remove(&lane) {
            self.backend.detach(lane, door.slot);
        }
        let door = match doors.entry(lane) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let Seat { slot, ring } = self.backend.attach(lane, JSON_TUPLES, JSON_NAME)?;
                let ring = RingWriter::map(ring).map_err(|error| {
                    self.backend.detach(lane, slot);
                    error.to_string()
                })?;
                entry.insert(Door { store: store.clone(), slot, ring })
            }
        };
        door.ring.push(key, publishing, value).map_err(|full| said(full.into()))
    }
}

fn accept(shared: &Arc<Shared>) {
    let mut number = 0;
    while !shared.stopping.load(Ordering::Acquire) {
        match shared.socket.accept() {
            Ok(stream) => {
                number += 1;
                Guest::take_in(shared, stream, number);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) if shared.stopping.load(Ordering::Acquire) => {}
            Err(_) => thread::sleep(ACCEPT_REST),
        }
    }
}

/// Whether the other end of a connection has been closed, whatever may still be read from it.
fn has_hung_up(stream: &UnixStream) -> bool {
    let mut seen = [PollFd::new(stream, PollFlags::RDHUP)];
    poll(&mut seen, Some(&Timespec::default())).is_ok_and(|changed| changed > 0)
}

/// What is behind a lock is whole between any two statements, so a thread that has panicked leaves nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
