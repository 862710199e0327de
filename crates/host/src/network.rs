//! Connections and their output buffers. Cores encode straight into them through [`Effects`].

use crate::connection::{self, Connection, Pass, Phase};
use crate::doors::{DoorLimits, Places, Seats};
use crate::handshake::Handshakes;
use crate::heart::Heart;
use crate::poller::Poller;
use crate::target::Target;
use crate::troubles::Troubles;
use contract::rounds::{LAST_BYTES_BEGUN, LAST_WRITES};
use contract::{Span, Time};
use engine::driving::{CLOSING_TIME, DRAINED_BYTES, FLOOD_BYTES, OUTBOX_BYTES_MAX, READ_BYTES};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SocketFlags, SocketType, sockopt};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use wire::{
    Companion, Effects, Evidence, Farewell, Frame, LinkId, Mark, MarkKind, Message, MessageKind, Order,
    Outbox, PeerIndex,
};

mod arrivals;
mod shelled;

pub(crate) use arrivals::{Arrival, Seat};

/// All connections of one node.
pub struct Network {
    pub(crate) poller: Arc<Poller>,
    /// How the peers are reached that the node may dial.
    peers: Vec<Target>,
    /// Others connect to this node, and none of them may hold up the rest.
    pub(crate) serves: bool,
    slots: Vec<Option<Connection>>,
    free: Vec<u32>,
    /// Connections with something to send, each once.
    dirty: Vec<u32>,
    /// What the node must still be told.
    pub(crate) news: Vec<News>,
    /// Connections that are being made or being closed, which have a time limit.
    watched: Vec<u32>,
    pub(crate) dials: Vec<(PeerIndex, Span)>,
    scratch: Vec<u8>,
    /// The connection on which the last copy went.
    partner: Option<u32>,
    /// The connection on which the other broker asks whether this one lives.
    pub(crate) foremost: Option<u32>,
    /// Sends and hears heartbeats, where there is a partner.
    pub(crate) heart: Option<Heart>,
    seats: Seats,
    places: Places,
    /// Connections that have none of the clients' places, oldest first.
    reserved: Vec<u32>,
    pub(crate) limits: DoorLimits,
    pub(crate) troubles: Arc<Troubles>,
    /// Makes handshakes, where there are any.
    pub(crate) handshakes: Option<Handshakes>,
    /// Ciphertext that was just read.
    sealed: Vec<u8>,
    /// Since this was set to `false`, a connection has brought much at once, or did not take all that was there for it.
    pub(crate) bulk: bool,
    /// When room that is not used is given back next.
    trim_at: Time,
    /// Whose turn it is then.
    trim_next: usize,
    /// Connections that are served last, and can be written to.
    ready_last: usize,
    /// Bytes that the kernel has taken of all connections.
    sent: u64,
    /// Prompt connections that were read in this turn, and what their sockets had taken before.
    unanswered: Vec<(u32, u64)>,
}

/// Between two looks at room that is not used.
const TRIM_INTERVAL: Span = Span::secs(10);
/// Connections that are looked at together.
const TRIMMED_AT_ONCE: usize = 256;
/// Room for what has come in part that is not worth giving back.
const KEPT_BYTES: usize = 4 << 10;
/// What is more than a message or a few: who sends so much at once needs a processor to go on.
const BULK_BYTES: usize = 4 << 10;

/// Something that the node must be told, once it is not busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum News {
    Dialed(LinkId, PeerIndex),
    DialFailed(PeerIndex, bool),
    Closed(LinkId),
    Drained(LinkId),
    /// What came and was not consumed is to be presented again.
    Again(LinkId),
}

impl Network {
    /// No connections yet; `peers` are the addresses that the node may dial.
    pub fn new(poller: Arc<Poller>, peers: Vec<SocketAddr>) -> Network {
        let peers = peers.into_iter().map(Target::known).collect();
        Network {
            poller,
            peers,
            serves: false,
            slots: Vec::new(),
            free: Vec::new(),
            dirty: Vec::new(),
            news: Vec::new(),
            watched: Vec::new(),
            dials: Vec::new(),
            partner: None,
            foremost: None,
            heart: None,
            seats: Seats::default(),
            places: Places::default(),
            reserved: Vec::new(),
            limits: DoorLimits::default(),
            troubles: Arc::default(),
            handshakes: None,
            sealed: Vec::new(),
            bulk: false,
            trim_at: Time::ZERO,
            trim_next: 0,
            ready_last: 0,
            sent: 0,
            unanswered: Vec::new(),
            scratch: vec![
                0;
                READ_BYTES + wire::limits::FRAME_BODY_BYTES_MAX + wire::limits::FRAME_HEAD_BYTES
            ],
        }
    }

    /// How a peer is reached that the node may dial by this number.
    pub fn set_peer(&mut self, peer: PeerIndex, target: Target) {
        let at = usize::from(peer.0);
        self.peers.resize_with(self.peers.len().max(at + 1), Target::default);
        self.peers[at] = target;
    }

    /// Begins to connect to a peer.
    pub(crate) fn connect(&mut self, now: Time, peer: PeerIndex, within: Span) {
        let Some(target) = self.peers.get(usize::from(peer.0)) else { return };
        let Some(address) = target.whereabouts.get() else {
            target.whereabouts.fail();
            return self.news.push(News::DialFailed(peer, false));
        };
        match self.start_connecting(&address, peer, now + within) {
            Ok(index) => self.watched.push(index),
            Err(error) => self.report_failed_dial(peer, error == Errno::CONNREFUSED),
        }
    }

    /// Nobody was reached there; whoever looks for the peer may want to look elsewhere.
    pub(crate) fn report_failed_dial(&mut self, peer: PeerIndex, refused: bool) {
        let target = self.peers.get(usize::from(peer.0));
        target.iter().for_each(|target| target.whereabouts.fail());
        // That nobody listens where a proxy was says nothing of the peer.
        let refused = refused && target.is_some_and(|target| target.tunnel.is_none());
        self.news.push(News::DialFailed(peer, refused));
    }

    fn start_connecting(&mut self, address: &SocketAddr, peer: PeerIndex, until: Time) -> Result<u32, Errno> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        match net::connect(&socket, address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error),
        }
        let link = self.insert(socket, Phase::Connecting { peer, until })?;
        let connection = self.slots[link.0 as usize].as_mut().ok_or(Errno::BADF)?;
        connection.waits_to_write = true;
        self.poller.change(&connection.socket, u64::from(link.0), true)?;
        Ok(link.0)
    }

    fn insert(&mut self, socket: OwnedFd, phase: Phase) -> Result<LinkId, Errno> {
        connection::limit_unsent(&socket);
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        if let Err(error) = self.poller.add(&socket, u64::from(index), false) {
            self.free.push(index);
            return Err(error);
        }
        self.slots[index as usize] = Some(Connection::new(socket, phase));
        Ok(LinkId(index))
    }

    fn get(&mut self, index: u32) -> Option<&mut Connection> {
        self.slots.get_mut(index as usize)?.as_mut()
    }

    /// Whether a connection is served after others, since it brings or takes much at a time, or keeps the node for long.
    pub(crate) fn floods(&self, index: u32) -> bool {
        let connection = self.slots.get(index as usize).and_then(Option::as_ref);
        connection.is_some_and(|it| it.portion.floods() || (it.waits_to_write && it.waiting() > FLOOD_BYTES))
    }

    /// Reads once and hands over what is there; `handle` returns how much of it was consumed.
    pub(crate) fn read(&mut self, index: u32, handle: impl FnOnce(&[u8], &mut Network) -> usize) {
        if self.get(index).is_some_and(|connection| connection.held && connection.phase == Phase::Open) {
            return;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        if let Some(connection) = self.get(index).filter(|connection| connection.phase == Phase::Open) {
            let kept = connection.partial.len();
            connection.read = 0;
            if kept + READ_BYTES > scratch.len() {
                // Nodes take what is too large for a frame as garbage, so this is our fault, and not worth our end.
                self.scratch = scratch;
                return self.drop_connection(index);
            }
            scratch[..kept].copy_from_slice(&connection.partial);
            connection.partial.clear();
            if connection.layers.is_some() {
                self.read_shell(index, &mut scratch, kept, handle);
            } else {
                let room = &mut scratch[kept..kept + connection.portion.bytes()];
                match net::recv(&connection.socket, room, RecvFlags::DONTWAIT) {
                    Ok((_, 0)) => self.drop_connection(index),
                    Ok((_, read)) => {
                        connection.read = read;
                        let bytes = &scratch[..kept + read];
                        let used = handle(bytes, self);
                        self.keep_partial(index, bytes.get(used..).unwrap_or(&[]));
                    }
                    Err(Errno::AGAIN | Errno::INTR) => self.keep_partial(index, &scratch[..kept]),
                    Err(_) => self.drop_connection(index),
                }
            }
        } else if self.get(index).is_some_and(|connection| matches!(connection.phase, Phase::Closing { .. }))
        {
            self.drain_closing(index, &mut scratch);
        }
        self.scratch = scratch;
        if let Some(connection) = self.get(index).filter(|connection| connection.prompt) {
            let sent = connection.sent;
            self.unanswered.push((index, sent));
        }
    }

    /// The peer of a connection may wait for its bytes to be acknowledged before it sends more: programs of others do.
    pub(crate) fn be_prompt(&mut self, link: LinkId) {
        if let Some(connection) = self.get(link.0) {
            connection.prompt = true;
        }
    }

    /// Acknowledges what has come on prompt connections and was not answered: what is answered is acknowledged with that. A peer that
    /// writes twice and waits would otherwise lose 40 ms to the kernel, which waits for more to acknowledge.
    pub(crate) fn acknowledge(&mut self) {
        let mut unanswered = std::mem::take(&mut self.unanswered);
        for (index, sent) in unanswered.drain(..) {
            if let Some(connection) = self.get(index).filter(|connection| connection.sent == sent) {
                // Where it cannot be, the kernel does it later.
                let _ = sockopt::set_tcp_quickack(&connection.socket, true);
            }
        }
        self.unanswered = unanswered;
    }

    /// What a connection has just brought was handled within this time.
    pub(crate) fn handled(&mut self, index: u32, took: Span) {
        if let Some(connection) = self.get(index) {
            connection.portion.handled(connection.read, took);
            connection.has_spoken |= connection.read > 0;
            let much = connection.read >= BULK_BYTES;
            self.bulk |= much;
        }
    }

    /// What came on a connection and was not consumed is handed over again.
    pub(crate) fn present(&mut self, index: u32, handle: impl FnOnce(&[u8], &mut Network) -> usize) {
        let Some(connection) = self.get(index).filter(|connection| connection.phase == Phase::Open) else {
            return;
        };
        connection.held = false;
        let mut bytes = std::mem::take(&mut connection.partial);
        let used = handle(&bytes, self).min(bytes.len());
        // What waits for many turns keeps its room.
        if let Some(connection) = self.get(index).filter(|connection| connection.partial.is_empty()) {
            bytes.drain(..used);
            connection.partial = bytes;
        } else {
            self.keep_partial(index, bytes.get(used..).unwrap_or(&[]));
        }
    }

    fn keep_partial(&mut self, index: u32, rest: &[u8]) {
        if let Some(connection) = self.get(index) {
            connection.partial.extend_from_slice(rest);
        }
    }

    /// What a peer still sends while we close is read and thrown away, or the farewell would be lost with a reset.
    fn drain_closing(&mut self, index: u32, scratch: &mut [u8]) {
        let Some(connection) = self.get(index) else { return };
        match net::recv(&connection.socket, scratch, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => self.drop_connection(index),
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.drop_connection(index),
        }
    }

    /// The socket has room, or its connection attempt has ended.
    pub(crate) fn write_ready(&mut self, index: u32) {
        let Some(connection) = self.get(index) else { return };
        let Phase::Connecting { peer, .. } = connection.phase else {
            if connection.last {
                // Its turn comes after everybody else's.
                self.touch(LinkId(index));
                return;
            }
            if connection.pass != Pass::First {
                // Others of this turn go first; `flush` comes soon.
                return;
            }
            return self.flush_one(index);
        };
        let result = sockopt::socket_error(&connection.socket);
        if result == Ok(Ok(())) && self.peers.get(usize::from(peer.0)).is_some_and(Target::needs_handshake) {
            return self.shake_hands(index, peer);
        }
        let Some(connection) = self.get(index) else { return };
        match result {
            Ok(Ok(())) => {
                connection.phase = Phase::Open;
                self.watched.retain(|other| *other != index);
                self.news.push(News::Dialed(LinkId(index), peer));
                self.flush_one(index);
            }
            Ok(Err(error)) | Err(error) => {
                self.fail_dial(index, peer, error == Errno::CONNREFUSED);
            }
        }
    }

    /// Bytes that the kernel has taken since this began, of all connections together.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Sends what the node has written, one write per connection.
    pub(crate) fn flush(&mut self) {
        self.ready_last = 0;
        if self.dirty.is_empty() {
            return;
        }
        // A prune says that a message has been dispatched, so it leaves after the deliveries of the same turn: were the
        // process killed in between, the backup would otherwise forget what nobody has received. An answer to a publisher
        // says that its message is covered, so it leaves after the copies, and waits where they could not leave.
        for pass in [Pass::First, Pass::Prunes, Pass::Answers] {
            if pass == Pass::Answers && self.copies_wait() {
                break;
            }
            let mut at = 0;
            while let Some(&index) = self.dirty.get(at) {
                at += 1;
                let Some(connection) = self.get(index).filter(|connection| connection.pass == pass) else {
                    continue;
                };
                if connection.last {
                    self.ready_last += 1;
                    continue;
                }
                connection.dirty = false;
                connection.pass = Pass::Done;
                if !matches!(connection.phase, Phase::Connecting { .. }) {
                    self.flush_one(index);
                }
            }
        }
        let Network { dirty, slots, .. } = self;
        dirty.retain(|index| {
            let Some(connection) = slots.get_mut(*index as usize).and_then(Option::as_mut) else {
                return false;
            };
            let waits = connection.pass == Pass::Answers || connection.dirty;
            if !waits {
                connection.pass = Pass::First;
            }
            waits
        });
    }

    /// After everything else of a turn: what is for connections that are served last, who has waited longest first, as far as a turn may
    /// write there. The next one goes on at once.
    pub(crate) fn flush_last(&mut self) {
        let (mut writes, mut bytes, mut at) = (0, 0_usize, 0);
        let copies_wait = self.has_more() && self.copies_wait();
        while self.has_more()
            && writes < LAST_WRITES
            && bytes < LAST_BYTES_BEGUN
            && let Some(&index) = self.dirty.get(at)
        {
            at += 1;
            let Some(connection) = self.get(index).filter(|connection| connection.last) else { continue };
            if connection.pass == Pass::Answers && copies_wait {
                continue;
            }
            let sent = connection.sent;
            connection.dirty = false;
            connection.pass = Pass::First;
            self.ready_last -= 1;
            self.flush_one(index);
            writes += 1;
            let after = self.get(index).map_or(sent, |connection| connection.sent);
            bytes = bytes.saturating_add(after.saturating_sub(sent) as usize);
        }
        if writes > 0 {
            self.dirty.retain(|index| {
                let connection = self.slots.get(*index as usize).and_then(Option::as_ref);
                connection.is_some_and(|connection| connection.dirty)
            });
        }
    }

    /// Whether connections that are served last can be written to.
    pub(crate) fn has_more(&self) -> bool {
        self.ready_last > 0
    }

    /// Whether copies for the partner could not leave yet.
    fn copies_wait(&self) -> bool {
        let partner = self.partner.and_then(|index| self.slots.get(index as usize)).and_then(Option::as_ref);
        partner.is_some_and(|partner| partner.waiting() > 0)
    }

    fn flush_one(&mut self, index: u32) {
        let Network { slots, poller, serves, bulk, sent, .. } = self;
        let Some(connection) = slots.get_mut(index as usize).and_then(Option::as_mut) else { return };
        let before = connection.sent;
        // Whoever stopped writing because of so much must be told when it has left, even if that is now.
        connection.congested |= connection.waiting() > DRAINED_BYTES;
        // Who reads as fast as this node sends would have it for milliseconds, in which the others wait. The poller says at once
        // that there is room for more.
        let once = connection.last || (*serves && connection.waits_to_write);
        if connection.layers.is_some() {
            connection.send_sealed(once);
        } else {
            connection.send_plain(once);
        }
        *sent += connection.sent - before;
        let waiting = connection.waiting();
        let wants_to_write = waiting > 0;
        *bulk |= wants_to_write;
        if wants_to_write != connection.waits_to_write {
            connection.waits_to_write = wants_to_write;
            if poller.change(&connection.socket, u64::from(index), wants_to_write).is_err() {
                return self.drop_connection(index);
            }
        }
        let drained = connection.congested && waiting <= DRAINED_BYTES;
        connection.congested = waiting > DRAINED_BYTES;
        if waiting == 0 && matches!(connection.phase, Phase::Closing { .. }) {
            // The peer reads the farewell, closes, and we learn of it by reading.
            let _ = net::shutdown(&connection.socket, net::Shutdown::Write);
        } else if drained {
            self.news.push(News::Drained(LinkId(index)));
        }
        if waiting > OUTBOX_BYTES_MAX {
            self.drop_connection(index);
        }
    }

    /// Connections give back room that they have not used for a while.
    pub(crate) fn trim(&mut self, now: Time) {
        // A clock that went back must not keep us from it.
        if now < self.trim_at && self.trim_at <= now + TRIM_INTERVAL {
            return;
        }
        // A few at a time, so that many hold up nobody.
        let parts = self.slots.len().div_ceil(TRIMMED_AT_ONCE).max(1);
        self.trim_at = now + Span(TRIM_INTERVAL.0 / parts as i64);
        let first = self.trim_next * TRIMMED_AT_ONCE;
        self.trim_next = (self.trim_next + 1) % parts;
        for connection in self.slots.iter_mut().skip(first).take(TRIMMED_AT_ONCE).flatten() {
            connection.outbox.trim();
            if connection.partial.capacity() > 4 * connection.partial.len().max(KEPT_BYTES) {
                connection.partial.shrink_to(KEPT_BYTES);
            }
        }
    }

    /// Gives up connection attempts and closings whose time is over.
    pub(crate) fn expire(&mut self, now: Time) {
        let mut at = 0;
        while let Some(&index) = self.watched.get(at) {
            let phase = self.get(index).map(|connection| connection.phase);
            match phase {
                Some(Phase::Connecting { peer, until }) if now >= until => {
                    self.fail_dial(index, peer, false);
                }
                Some(Phase::Closing { until }) if now >= until => self.drop_connection(index),
                Some(Phase::Connecting { .. } | Phase::Closing { .. }) => at += 1,
                Some(Phase::Open) | None => {
                    self.watched.swap_remove(at);
                }
            }
        }
    }

    /// When [`Network::expire`] has something to do.
    pub(crate) fn next_expiry(&self) -> Time {
        let until = |index: &u32| match self.slots.get(*index as usize)?.as_ref()?.phase {
            Phase::Connecting { until, .. } | Phase::Closing { until } => Some(until),
            Phase::Open => None,
        };
        self.watched.iter().filter_map(until).min().unwrap_or(Time::NEVER)
    }

    /// Whether everything that was written has left.
    pub(crate) fn is_flushed(&self) -> bool {
        self.slots.iter().flatten().all(|connection| connection.waiting() == 0)
    }

    /// The node knows that the link is gone, so its number may be used again.
    pub(crate) fn release(&mut self, link: LinkId) {
        self.free.push(link.0);
    }

    /// A connection attempt has failed. The node never knew the link's number.
    fn fail_dial(&mut self, index: u32, peer: PeerIndex, refused: bool) {
        self.remove(index);
        self.free.push(index);
        self.report_failed_dial(peer, refused);
    }

    /// The connection is gone; the node will be told.
    fn drop_connection(&mut self, index: u32) {
        if self.remove(index) {
            self.news.push(News::Closed(LinkId(index)));
        }
    }

    fn remove(&mut self, index: u32) -> bool {
        let Some(connection) = self.slots.get_mut(index as usize).and_then(Option::take) else {
            return false;
        };
        self.poller.remove(&connection.socket);
        for known in [&mut self.partner, &mut self.foremost] {
            *known = known.filter(|known| *known != index);
        }
        self.watched.retain(|other| *other != index);
        if let Some(seat) = connection.seat {
            self.reserved.retain(|other| *other != index);
            self.vacate(seat);
        }
        true
    }

    fn touch(&mut self, link: LinkId) -> Option<&mut Outbox> {
        let connection = self.slots.get_mut(link.0 as usize)?.as_mut()?;
        if !connection.dirty {
            connection.dirty = true;
            self.dirty.push(link.0);
        }
        Some(&mut connection.outbox)
    }
}

impl Effects for Network {
    fn send(&mut self, link: LinkId, frame: &Frame<'_>) {
        if let Some(outbox) = self.touch(link) {
            outbox.push(frame);
        }
        if matches!(frame, Frame::Records(_)) {
            self.partner = Some(link.0);
        }
    }

    fn send_message(&mut self, link: LinkId, kind: MessageKind, message: &Message<'_>) {
        if let Some(outbox) = self.touch(link) {
            outbox.push_message(kind, message);
        }
        if kind == MessageKind::Replicate {
            self.partner = Some(link.0);
        }
    }

    /// Looks for the connection once, since this is done for nearly every message.
    #[inline]
    fn offer_message(&mut self, link: LinkId, kind: MessageKind, message: &Message<'_>, full: usize) -> bool {
        let Network { slots, dirty, partner, .. } = self;
        let Some(connection) = slots.get_mut(link.0 as usize).and_then(Option::as_mut) else { return true };
        if connection.waiting() >= full {
            return false;
        }
        if !std::mem::replace(&mut connection.dirty, true) {
            dirty.push(link.0);
        }
        connection.outbox.push_message(kind, message);
        if kind == MessageKind::Replicate {
            *partner = Some(link.0);
        }
        true
    }

    fn send_mark(&mut self, link: LinkId, kind: MarkKind, mark: Mark) {
        if let Some(outbox) = self.touch(link) {
            outbox.push_mark(kind, mark);
        }
        if kind == MarkKind::Prune
            && let Some(connection) = self.get(link.0)
        {
            connection.pass = connection.pass.max(Pass::Prunes);
        }
    }

    fn backlog(&self, link: LinkId) -> usize {
        self.slots.get(link.0 as usize).and_then(Option::as_ref).map_or(0, Connection::waiting)
    }

    fn shed(&mut self, link: LinkId, keep: usize) -> u64 {
        self.get(link.0).map_or(0, |connection| connection.outbox.shed(keep))
    }

    fn taken(&self, link: LinkId) -> u64 {
        self.slots.get(link.0 as usize).and_then(Option::as_ref).map_or(0, Connection::taken)
    }

    fn hold_back(&mut self, link: LinkId, bytes: usize) {
        let is_partner = self.partner == Some(link.0);
        if let Some(connection) = self.get(link.0) {
            connection.hold_back(bytes);
            if is_partner {
                connection.limit_in_flight(bytes);
            }
        }
    }

    fn dial(&mut self, peer: PeerIndex, within: Span) {
        self.dials.push((peer, within));
    }

    fn close(&mut self, link: LinkId, farewell: &Farewell<'_>) {
        self.send(link, &Frame::Farewell(*farewell));
        self.hang_up(link);
    }

    fn append(&mut self, link: LinkId, order: Order, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(outbox) = self.touch(link) {
            outbox.append(write);
        }
        if order == Order::Last
            && let Some(connection) = self.get(link.0)
        {
            connection.pass = connection.pass.max(Pass::Answers);
        }
    }

    fn present_again(&mut self, link: LinkId) {
        self.news.push(News::Again(link));
    }

    fn hold(&mut self, link: LinkId) {
        if let Some(connection) = self.get(link.0) {
            connection.held = true;
        }
    }

    fn put_first(&mut self, link: LinkId) {
        self.foremost = Some(link.0);
    }

    fn put_last(&mut self, link: LinkId, last: bool) {
        if let Some(connection) = self.get(link.0) {
            connection.last = last;
        }
    }

    fn pace(&mut self, link: LinkId, rate: u64) {
        if let Some(connection) = self.get(link.0) {
            connection.pace(rate);
        }
    }

    fn listen_for(&mut self, companion: Option<Companion>) {
        if let Some(heart) = &mut self.heart {
            heart.listen_for(companion);
        }
    }

    fn evidence(&self) -> Option<Evidence> {
        self.heart.as_ref()?.evidence()
    }

    fn hang_up(&mut self, link: LinkId) {
        // Also where nothing waits: flushing is what ends it.
        self.touch(link);
        let until = crate::now() + CLOSING_TIME;
        if let Some(connection) = self.get(link.0).filter(|connection| connection.phase == Phase::Open) {
            connection.phase = Phase::Closing { until };
            connection.partial = Vec::new();
            self.watched.push(link.0);
        }
    }
}
