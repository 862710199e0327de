//! Where connections wait until their handshakes are done: what is said to a proxy, TLS, and the request for a WebSocket.
//!
//! Handshakes take a thousand times as long as a message does, so they are made by a thread of their own, and the data
//! thread gets connections that are ready. Both sides hand over through bounded rings and wake each other. Who does
//! not get on with its handshake holds up nobody: it only has a place, for a limited time, and where places run out, who has
//! had one for longest gives it up.

mod pending;
mod upgrade;

use crate::clock::now;
use crate::error::HostError;
use crate::helpers::{Helpers, end_on_purpose, errno};
use crate::network::Arrival;
use crate::poller::{Poller, Ready};
use crate::tls::Tls;
use crate::transport::Layers;
use crate::troubles::{Cause, Troubles};
use contract::{Span, Time};
use pending::{Pending, Step};
use rtrb::{Consumer, Producer, RingBuffer};
use rustix::event::{EventfdFlags, eventfd};
use rustls::pki_types::ServerName;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use wire::{PeerIndex, Transport, Tunnel};

/// What a handshakes needs.
pub struct HandshakeSettings {
    /// Handshakes under way at once.
    pub handshakes: usize,
    /// How long one may take.
    pub within: Span,
    /// Certificates, if there is TLS.
    pub tls: Option<Arc<Tls>>,
    /// Who is told of handshakes that fail.
    pub troubles: Arc<Troubles>,
}

/// The thread that makes handshakes, as the data thread sees it. It ends when this is dropped.
pub struct Handshakes {
    entrants: Producer<Entrant>,
    outcomes: Consumer<Outcome>,
    shared: Arc<Shared>,
    tls: Option<Arc<Tls>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    ended: AtomicBool,
    /// Rung when somebody enters.
    door_bell: OwnedFd,
    /// Rung when somebody is done.
    bell: OwnedFd,
}

/// A connection that needs a handshake.
pub(crate) struct Entrant {
    pub(crate) socket: OwnedFd,
    pub(crate) errand: Errand,
}

/// Who began a connection.
pub(crate) enum Errand {
    /// Somebody came in by a door.
    Accepted(Arrival),
    /// We made it. With a name it is encrypted; with a tunnel a proxy is asked for it first.
    Dialed {
        peer: PeerIndex,
        address: SocketAddr,
        name: Option<ServerName<'static>>,
        tunnel: Option<Arc<Tunnel>>,
    },
}

/// What became of it.
pub(crate) enum Outcome {
    /// It is ready.
    Ready { socket: OwnedFd, errand: Errand, layers: Box<Layers>, name: Option<String> },
    /// It failed.
    Failed { errand: Errand },
}

/// Lower than others: handshakes may wait, messages may not.
const NICENESS: i32 = 5;
/// The token of the door bell; all_pending count upwards from 0.
const DOOR_BELL: u64 = u64::MAX;
/// Connections that may wait to enter, at least: as many as the system keeps for one listener.
const ENTRANTS: usize = 1024;
/// How long the handshakes rests when the data thread does not take what is ready.
const REST: Span = Span::millis(1);

impl Handshakes {
    /// Starts the thread. It takes over the priority of this one, so that this must be before a data thread takes its own.
    pub fn start(settings: HandshakeSettings, helpers: &Helpers) -> Result<Handshakes, HostError> {
        let failed = |reason| HostError::System { what: "cannot start the thread for handshakes", reason };
        let places = settings.handshakes.max(1);
        let (entrants, entering) = RingBuffer::new(places.max(ENTRANTS));
        let (leaving, outcomes) = RingBuffer::new(places);
        let bell = || eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(failed);
        let shared = Arc::new(Shared { ended: AtomicBool::new(false), door_bell: bell()?, bell: bell()? });
        let poller = Poller::new().map_err(failed)?;
        poller.add_bell(&shared.door_bell, DOOR_BELL).map_err(failed)?;
        let tls = settings.tls.clone();
        let room = Room {
            settings,
            places,
            poller,
            entering,
            leaving,
            all_pending: BTreeMap::new(),
            next: 0,
            done: VecDeque::new(),
            shared: Arc::clone(&shared),
        };
        let work = move || {
            // Where it is not allowed, they only compete a little more.
            let _ = rustix::process::nice(NICENESS);
            room.run()
        };
        let thread = helpers.hire("handshakes", work).map_err(|error| failed(errno(&error)))?;
        Ok(Handshakes { entrants, outcomes, shared, tls, thread: Some(thread) })
    }

    /// Whether connections of this kind can be taken.
    pub(crate) fn serves(&self, transport: Transport) -> bool {
        !transport.is_secure() || self.tls.as_ref().is_some_and(|tls| tls.serves(transport))
    }

    /// Sends somebody in, or gives it back where there is no room.
    pub(crate) fn enter(&mut self, entrant: Entrant) -> Result<(), Errand> {
        let result = self.entrants.push(entrant).map_err(|rtrb::PushError::Full(entrant)| entrant.errand);
        ring(&self.shared.door_bell);
        result
    }

    /// The next who is done.
    pub(crate) fn take(&mut self) -> Option<Outcome> {
        self.outcomes.pop().ok()
    }

    /// Whether somebody is done.
    pub(crate) fn has_some(&self) -> bool {
        !self.outcomes.is_empty()
    }

    /// Rung when somebody is done.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }
}

impl Drop for Handshakes {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        ring(&self.shared.door_bell);
        if let Some(thread) = self.thread.take() {
            // That it panicked has been printed.
            let _ = thread.join();
        }
    }
}

fn ring(bell: impl AsFd) {
    // It fails only if it has been rung 2^64 times.
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

/// The handshakes as its thread sees it.
struct Room {
    settings: HandshakeSettings,
    places: usize,
    poller: Poller,
    entering: Consumer<Entrant>,
    leaving: Producer<Outcome>,
    /// By number, which is also the order in which they came.
    all_pending: BTreeMap<u64, Pending>,
    next: u64,
    /// Who is done, and the data thread has no room yet.
    done: VecDeque<Outcome>,
    shared: Arc<Shared>,
}

impl Room {
    /// Until it is told to end. An error is that of waiting for sockets, without which nobody is served.
    fn run(mut self) -> Result<(), String> {
        let mut ready: Vec<Ready> = Vec::new();
        while !self.shared.ended.load(Ordering::Acquire) {
            end_on_purpose("handshakes")?;
            let waited = self.poller.wait(self.patience(), &mut ready);
            waited.map_err(|error| format!("cannot wait for handshakes: {error}"))?;
            for event in ready.iter().filter(|event| event.token != DOOR_BELL) {
                self.step(event.token);
            }
            self.give_up_late(now());
            self.hand_over();
            // Who comes out makes room for others, and nothing else wakes us for those that wait at the entrance.
            while self.done.is_empty() && !self.entering.is_empty() {
                self.let_in();
                self.hand_over();
            }
        }
        Ok(())
    }

    fn patience(&self) -> Span {
        if !self.done.is_empty() {
            return REST;
        }
        match self.all_pending.first_key_value() {
            Some((_, oldest)) => oldest.until.since(now()).max(Span::ZERO),
            None => Span::FOREVER,
        }
    }

    fn let_in(&mut self) {
        // Who comes out must find room, so nobody enters while somebody waits there.
        while self.done.is_empty() {
            let Ok(entrant) = self.entering.pop() else { return };
            if self.all_pending.len() >= self.places
                && let Some((number, _)) = self.all_pending.first_key_value()
            {
                let number = *number;
                self.fail(number, Cause::LobbyFull, |limits| {
                    format!(
                        "{} handshakes are under way, which is limits.handshakes; the oldest was given up",
                        limits.places
                    )
                });
            }
            self.receive(entrant);
        }
    }

    fn receive(&mut self, entrant: Entrant) {
        let number = self.next;
        self.next += 1;
        let loaded = self.settings.tls.as_ref().map(|tls| tls.loaded());
        let until = now() + self.settings.within;
        match Pending::new(entrant, loaded, until) {
            Ok(pending) => {
                if self.poller.add(&pending.socket, number, false).is_err() {
                    self.done.push_back(Outcome::Failed { errand: pending.errand });
                    return;
                }
                self.all_pending.insert(number, pending);
                // Usually the first bytes are here already.
                self.step(number);
            }
            Err((errand, reason)) => {
                self.settings.troubles.note(Cause::TlsBroken, || reason);
                self.done.push_back(Outcome::Failed { errand });
            }
        }
    }

    /// One pending goes on as far as it can.
    fn step(&mut self, number: u64) {
        let Some(pending) = self.all_pending.get_mut(&number) else { return };
        match pending.advance() {
            Step::Waits { to_write } => {
                if to_write != pending.waits_to_write {
                    pending.waits_to_write = to_write;
                    // A socket that cannot be watched is given up when its time is over.
                    let _ = self.poller.change(&pending.socket, number, to_write);
                }
            }
            Step::Done => {
                if let Some(pending) = self.all_pending.remove(&number) {
                    self.poller.remove(&pending.socket);
                    self.done.push_back(pending.into_outcome());
                }
            }
            Step::Failed(cause, text) => self.fail(number, cause, |_| text),
        }
    }

    fn give_up_late(&mut self, time: Time) {
        while let Some((number, pending)) = self.all_pending.first_key_value() {
            // A clock that went back must not keep them for longer than their time.
            if time < pending.until && pending.until.since(time) <= self.settings.within {
                return;
            }
            let number = *number;
            self.fail(number, Cause::HandshakeLate, |room| {
                format!("it did not end its handshake within limits.greeting ({})", room.settings.within)
            });
        }
    }

    fn fail(&mut self, number: u64, cause: Cause, text: impl FnOnce(&Room) -> String) {
        let Some(pending) = self.all_pending.remove(&number) else { return };
        self.poller.remove(&pending.socket);
        self.settings.troubles.note(cause, || format!("{}: {}", pending.describe(), text(self)));
        self.done.push_back(Outcome::Failed { errand: pending.errand });
    }

    fn hand_over(&mut self) {
        let mut handed = false;
        while let Some(outcome) = self.done.pop_front() {
            match self.leaving.push(outcome) {
                Ok(()) => handed = true,
                Err(rtrb::PushError::Full(outcome)) => {
                    self.done.push_front(outcome);
                    break;
                }
            }
        }
        if handed {
            ring(&self.shared.bell);
        }
    }
}
