//! The thread that sends heartbeats to the other broker, and listens for its own; see `broker`'s liveness for what they mean.
//!
//! It does nothing else, so that it is in time while the data thread is busy, and has more priority where the host allows any. The
//! data thread and it share no lock: words about whom to listen for go by a ring, and what heartbeats say comes back in a few numbers
//! that are read again where they changed meanwhile.
//!
//! Its socket is connected, so the kernel drops what does not come from the partner's address. Somebody who forges that address can
//! make it look at [`BATCH`] datagrams for each heartbeat that it sends, and no more.

use crate::error::HostError;
use crate::helpers::{Helpers, errno};
use crate::place::Whereabouts;
use crate::realtime;
use broker::{Hearing, Liveness};
use contract::{NodeId, Span, Time};
use rtrb::{Consumer, Producer, RingBuffer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use rustix::time::{ClockId, clock_gettime};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use wire::{Companion, Evidence, HEARTBEAT_BYTES};

/// How heartbeats go between the brokers.
#[derive(Clone, Debug)]
pub struct HeartSettings {
    /// Where this broker's partner connects; heartbeats come to the UDP port of the same number.
    pub own: SocketAddr,
    /// Where the partner listens, as far as that is known.
    pub partner: Whereabouts,
    /// How often they are sent.
    pub hearing: Hearing,
    /// The thread's priority; `None` for ordinary scheduling.
    pub priority: Option<u8>,
}

/// The data thread's side of the thread that sends and hears heartbeats. Dropping it ends the thread.
pub struct Heart {
    words: Producer<Option<Companion>>,
    shared: Arc<Shared>,
    hearing: Hearing,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    over: AtomicBool,
    /// When the data thread's turn began; zero while it waits.
    turn_since: AtomicU64,
    board: Board,
}

/// What heartbeats say. The writer makes the version odd, writes, and makes it even; a reader that sees the same even version before
/// and after has read what belongs together.
#[derive(Default)]
struct Board {
    version: AtomicU64,
    fields: [AtomicU64; FIELDS],
}

/// The time of writing, whether there is anything, and the fields of [`Evidence`].
const FIELDS: usize = 10;
/// Datagrams looked at for each heartbeat that is sent.
const BATCH: usize = 16;
/// Words that may wait; a pair changes its mind far less often than the thread looks.
const WORDS: usize = 16;
/// The longest sleep, after which words are looked for.
const NAP: Span = Span::millis(20);
/// How often a reader tries again that found the writer at work.
const READS: usize = 64;
/// "Expedited forwarding", so that a queue which knows classes puts heartbeats first.
const EXPEDITED: u8 = 0xb8;

/// A clock that is never set.
fn steady() -> Time {
    let time = clock_gettime(ClockId::Monotonic);
    Time((time.tv_sec.max(0) as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64))
}

impl Heart {
    /// Starts the thread. Sentences say which wishes were not granted.
    pub fn start(settings: HeartSettings, helpers: &Helpers) -> Result<(Heart, Vec<String>), HostError> {
        let failed = |reason| HostError::Heartbeats { address: settings.own, reason };
        let socket = open(&settings).map_err(failed)?;
        let shared = Arc::new(Shared::default());
        let (words, heard) = RingBuffer::new(WORDS);
        let (told, refusals) = std::sync::mpsc::channel();
        let beating = Arc::clone(&shared);
        let HeartSettings { partner, hearing, priority, .. } = settings;
        let reached = partner.get();
        let thread = helpers.hire("heart", move || {
            let _ = told.send(realtime::try_priority(priority, "heartbeats"));
            let mut socket = Socket { socket, partner, reached };
            beat(&mut socket, hearing, heard, &beating);
            Ok(())
        });
        let failed = |error| HostError::System {
            what: "cannot start the thread of heartbeats",
            reason: errno(&error),
        };
        let thread = thread.map_err(failed)?;
        let refusals = refusals.recv().unwrap_or_default();
        Ok((Heart { words, shared, hearing, thread: Some(thread) }, refusals))
    }

    /// The data thread has something to do from now on.
    pub(crate) fn begin_turn(&self) {
        self.shared.turn_since.store(steady().0, Ordering::Relaxed);
    }

    /// The data thread waits for something to do.
    pub(crate) fn end_turn(&self) {
        self.shared.turn_since.store(0, Ordering::Relaxed);
    }

    pub(crate) fn listen_for(&mut self, companion: Option<Companion>) {
        // Where so many words wait, the thread is not at work, and nothing is heard anyway.
        let _ = self.words.push(companion);
    }

    /// What heartbeats say, unless the thread has not looked for longer than anybody's silence is borne.
    pub(crate) fn evidence(&self) -> Option<Evidence> {
        self.shared.board.read(steady(), self.hearing.patience_max)
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn open(settings: &HeartSettings) -> Result<OwnedFd, Errno> {
    let family = if settings.own.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, SocketType::DGRAM, flags, None)?;
    net::bind(&socket, &settings.own)?;
    if let Some(partner) = settings.partner.get() {
        net::connect(&socket, &partner)?;
    }
    // A wish: where it is not granted, heartbeats wait with everything else.
    let _ = match family {
        AddressFamily::INET => sockopt::set_ip_tos(&socket, EXPEDITED),
        _ => sockopt::set_ipv6_tclass(&socket, EXPEDITED.into()),
    };
    Ok(socket)
}

/// The socket, connected to where the partner is.
struct Socket {
    socket: OwnedFd,
    partner: Whereabouts,
    /// Where it is connected to.
    reached: Option<SocketAddr>,
}

impl Socket {
    /// Follows the partner to where it is by now. Returns whether there is anybody to hear.
    fn follow(&mut self) -> bool {
        let now = self.partner.get();
        if now != self.reached
            && let Some(address) = now
            && net::connect(&self.socket, &address).is_ok()
        {
            self.reached = now;
        }
        self.reached.is_some()
    }
}

/// The thread.
fn beat(socket: &mut Socket, hearing: Hearing, mut words: Consumer<Option<Companion>>, shared: &Shared) {
    let mut liveness = Liveness::new(hearing, steady());
    while !shared.over.load(Ordering::Relaxed) {
        while let Ok(companion) = words.pop() {
            liveness.listen_for(steady(), companion);
        }
        // Until it is known where the partner is, anybody could be heard.
        let follows = socket.follow();
        let looked_at = if follows { receive(&socket.socket, &mut liveness) } else { BATCH };
        let now = steady();
        let since = shared.turn_since.load(Ordering::Relaxed);
        let still = if since == 0 { Span::ZERO } else { now.since(Time(since)).max(Span::ZERO) };
        // Who cannot be reached is noticed by hearing nothing.
        liveness.handle_timeout(now, still, |bytes| {
            let _ = net::send(&socket.socket, bytes, SendFlags::DONTWAIT);
        });
        shared.board.write(steady(), liveness.evidence());
        let wait = liveness.next_deadline().since(steady()).min(NAP).max(Span::ZERO);
        if looked_at == BATCH {
            // More than any partner sends, or nobody to hear: the rest waits, and is dropped where there is no room.
            std::thread::sleep(Duration::from_nanos(wait.as_nanos_u64()));
        } else {
            let wait = Timespec { tv_sec: 0, tv_nsec: wait.0 };
            // An error is a signal, or ends with the time at the latest; what is due is looked at either way.
            if poll(&mut [PollFd::new(&socket.socket, PollFlags::IN)], Some(&wait)).is_err() {
                std::thread::yield_now();
            }
        }
    }
}

/// Takes what has come. Returns how much that was.
fn receive(socket: &OwnedFd, liveness: &mut Liveness) -> usize {
    let mut bytes = [0; HEARTBEAT_BYTES + 1];
    for taken in 0..BATCH {
        match net::recv(socket, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((_, length)) => {
                liveness.handle_datagram(steady(), bytes.get(..length).unwrap_or(&[]));
            }
            Err(Errno::AGAIN) => return taken,
            // The partner's host says that nobody listens there; its next heartbeat says otherwise.
            Err(_) => {}
        }
    }
    BATCH
}

impl Board {
    fn write(&self, now: Time, evidence: Option<Evidence>) {
        let mut fields = [0; FIELDS];
        if let Some(it) = evidence {
            let spans = [it.silence, it.patience, it.still, it.unheard].map(|span| span.as_nanos_u64());
            let round_trip = it.round_trip.map_or(u64::MAX, |span| span.as_nanos_u64());
            fields = [
                now.0,
                1,
                it.node.0,
                spans[0],
                spans[1],
                spans[2],
                it.heard,
                round_trip,
                u64::from(it.loss_ppm),
                spans[3],
            ];
        }
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        std::sync::atomic::fence(Ordering::Release);
        for (field, value) in self.fields.iter().zip(fields) {
            field.store(value, Ordering::Relaxed);
        }
        self.version.store(version + 2, Ordering::Release);
    }

    fn read(&self, now: Time, stale: Span) -> Option<Evidence> {
        for _ in 0..READS {
            let version = self.version.load(Ordering::Acquire);
            let fields = self.fields.each_ref().map(|field| field.load(Ordering::Relaxed));
            std::sync::atomic::fence(Ordering::Acquire);
            if version % 2 == 1 || self.version.load(Ordering::Relaxed) != version {
                std::hint::spin_loop();
                continue;
            }
            let [written, some, node, silence, patience, still, heard, round_trip, loss, unheard] = fields;
            if some == 0 || now.since(Time(written)) > stale {
                return None;
            }
            let span = |nanos: u64| Span(i64::try_from(nanos).unwrap_or(i64::MAX));
            return Some(Evidence {
                node: NodeId(node),
                silence: span(silence),
                unheard: span(unheard),
                patience: span(patience),
                still: span(still),
                heard,
                round_trip: (round_trip != u64::MAX).then(|| span(round_trip)),
                loss_ppm: loss as u32,
            });
        }
        None
    }
}

#[cfg(test)]
mod tests;
