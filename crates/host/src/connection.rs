//! One connection, and how its bytes leave.

use crate::network::Seat;
use crate::transport::Layers;
use contract::Time;
use engine::driving::Portion;
use rustix::io::Errno;
use rustix::net::{self, SendFlags, sockopt};
use socket2::SockRef;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use wire::{Outbox, PeerIndex};

/// One connection, and what waits on it.
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    /// Who made it, if somebody else did, and whose place it takes.
    pub(crate) seat: Option<Seat>,
    pub(crate) phase: Phase,
    pub(crate) outbox: Outbox,
    /// What lies between the outbox and the socket, where something does.
    pub(crate) layers: Option<Box<Layers>>,
    /// The beginning of a frame whose end has not come.
    pub(crate) partial: Vec<u8>,
    /// The node has its reasons to leave that there; nothing more is read before it has been presented again.
    pub(crate) held: bool,
    pub(crate) dirty: bool,
    /// What is for it leaves after everything else, and in small portions.
    pub(crate) last: bool,
    /// Something of it must leave after what the others have to send.
    pub(crate) pass: Pass,
    /// The socket has been full, or took as much as it may at once, and the poller says when it has room.
    pub(crate) waits_to_write: bool,
    pub(crate) congested: bool,
    /// How much its next read may bring, and what the last one brought.
    pub(crate) portion: Portion,
    pub(crate) read: usize,
    /// Whether anything has come.
    pub(crate) has_spoken: bool,
    /// Its peer may hold back what it has until the kernel here acknowledges what has come (Nagle's algorithm), so that is done at once.
    pub(crate) prompt: bool,
    /// Bytes that the socket has taken.
    pub(crate) sent: u64,
    /// Most that one system call sends, and that the kernel keeps which the other end is not ready for.
    most: usize,
    /// Bytes in a second that leave at most, where that is asked for.
    paced: Option<u64>,
}

/// When what a connection has to send leaves, among all that leaves in one turn.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Pass {
    /// It has left.
    Done,
    /// What is for subscribers, and copies.
    First,
    /// What says that something of the first pass has been dispatched.
    Prunes,
    /// What says that something of the first pass is covered.
    Answers,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Connecting { peer: PeerIndex, until: Time },
    Open,
    Closing { until: Time },
}

impl Connection {
    /// Nothing waits on it.
    pub(crate) fn new(socket: OwnedFd, phase: Phase) -> Connection {
        Connection {
            socket,
            seat: None,
            phase,
            outbox: Outbox::default(),
            layers: None,
            partial: Vec::new(),
            held: false,
            dirty: false,
            pass: Pass::First,
            last: false,
            waits_to_write: false,
            congested: false,
            portion: Portion::default(),
            read: 0,
            has_spoken: false,
            prompt: false,
            sent: 0,
            most: SEND_BYTES,
            paced: None,
        }
    }

    /// From where somebody made it.
    pub(crate) fn from(&self) -> Option<IpAddr> {
        self.seat?.address
    }

    /// The kernel should keep no more than so much that the other end is not ready for, in bounds.
    pub(crate) fn hold_back(&mut self, bytes: usize) {
        let paced = self.paced.map_or(SEND_BYTES as u64, |rate| rate / PACED_BUFFERS);
        let most = SEND_BYTES.min(usize::try_from(paced).unwrap_or(SEND_BYTES)).max(UNSENT_BYTES_MIN);
        self.most = bytes.clamp(UNSENT_BYTES_MIN, most);
        limit_unsent_to(&self.socket, self.most);
    }

    /// The kernel should have no more than about so much that the other end has not acknowledged, within what it allows.
    pub(crate) fn limit_in_flight(&self, bytes: usize) {
        // Linux doubles it, for its own.
        let _ = sockopt::set_socket_send_buffer_size(&self.socket, (bytes / 2).max(UNSENT_BYTES_MIN / 2));
    }

    /// The kernel is to send no more than so many bytes in a second, evenly, and to keep little that it has not sent.
    pub(crate) fn pace(&mut self, rate: u64) {
        let rate = rate.max(PACE_MIN);
        if self.paced.replace(rate) != Some(rate) {
            self.hold_back(SEND_BYTES);
            set_pacing_rate(&self.socket, rate);
        }
    }

    /// Bytes that the other end is known to have.
    pub(crate) fn taken(&self) -> u64 {
        self.sent.saturating_sub(unacknowledged(&self.socket))
    }

    /// Bytes that have not left.
    pub(crate) fn waiting(&self) -> usize {
        self.outbox.len() + self.layers.as_ref().map_or(0, |layers| layers.len())
    }

    /// Sends what the socket takes, or with `once` as much as one system call sends.
    pub(crate) fn send_plain(&mut self, once: bool) {
        while !self.outbox.is_empty() {
            match send(&self.socket, self.outbox.unsent(), room(&self.socket, self.most)) {
                Sent::Some(sent) => {
                    self.outbox.consume(sent);
                    self.sent += sent as u64;
                }
                Sent::Full => break,
                Sent::Broken => {
                    self.outbox = Outbox::default();
                    break;
                }
            }
            if once {
                break;
            }
        }
    }

    /// The same where something lies between.
    pub(crate) fn send_sealed(&mut self, once: bool) {
        let Some(layers) = &mut self.layers else { return };
        loop {
            layers.seal(&mut self.outbox);
            if self.outbox.is_empty() && matches!(self.phase, Phase::Closing { .. }) {
                layers.say_farewell();
            }
            if layers.len() == 0 {
                return;
            }
            match send(&self.socket, layers.ready(), room(&self.socket, self.most)) {
                Sent::Some(sent) => {
                    layers.consume(sent);
                    self.sent += sent as u64;
                }
                Sent::Full => return,
                Sent::Broken => {
                    self.outbox = Outbox::default();
                    return layers.give_up();
                }
            }
            if once {
                return;
            }
        }
    }
}

/// Most that one system call sends. A kernel that does not interrupt them lets nobody of higher priority run before it is done, which
/// took 4 ms for megabytes. More than [`READ_BYTES`](engine::driving::READ_BYTES), so that what was read at once leaves at once, with its heads.
const SEND_BYTES: usize = 128 << 10;

/// Keeps what the other end is not ready for in the outbox, but for so much. The kernel would take megabytes, and a system call that
/// finds them when there is room again sends for as long as the other end reads, up to milliseconds, where it is not interrupted.
pub(crate) fn limit_unsent(socket: &OwnedFd) {
    limit_unsent_to(socket, SEND_BYTES);
}

/// The same for so much: what waits in the kernel of a connection that takes little is old when it arrives.
fn limit_unsent_to(socket: &OwnedFd, bytes: usize) {
    // Sockets of other kinds than TCP have no such limit, and need none.
    let _ = SockRef::from(socket).set_tcp_notsent_lowat(bytes as u32);
}

/// How much may be sent at once, where the kernel should keep no more than `most` that it has not sent. Where that is little it has to be
/// asked, since it puts into a packet that waits what still fits there, which is up to 64 KiB. Once it has less, it says that there is room.
fn room(socket: &OwnedFd, most: usize) -> usize {
    if most == SEND_BYTES {
        return most;
    }
    most.saturating_sub(usize::try_from(queue::<SIOCOUTQNSD>(socket)).unwrap_or(usize::MAX))
}

/// Bytes in a second that nobody is paced below.
const PACE_MIN: u64 = 1 << 10;
/// The kernel has what leaves in this part of a second.
const PACED_BUFFERS: u64 = 8;

/// Has the kernel spread what it sends. One that cannot do that sends as it did.
#[expect(unsafe_code, reason = "no library sets it")]
fn set_pacing_rate(socket: &OwnedFd, rate: u64) {
    let (value, size) = (&raw const rate, size_of::<u64>() as libc::socklen_t);
    // SAFETY: the option takes a number of eight bytes, which lives longer than the call.
    _ = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, value.cast(), size)
    };
}

/// What the kernel has of a connection's bytes and the other end has not acknowledged.
fn unacknowledged(socket: &OwnedFd) -> u64 {
    queue::<SIOCOUTQ>(socket)
}

/// A length of a socket's queue; zero where it has none.
#[expect(unsafe_code, reason = "no library asks for it")]
fn queue<const WHICH: rustix::ioctl::Opcode>(socket: &OwnedFd) -> u64 {
    // SAFETY: the calls with these codes write one `c_int` and do nothing else, for every kind of socket that knows them.
    let asked = unsafe {
        let getter = rustix::ioctl::Getter::<WHICH, i32>::new();
        rustix::ioctl::ioctl(socket, getter)
    };
    u64::try_from(asked.unwrap_or(0)).unwrap_or(0)
}

/// Asks for what has not been acknowledged.
const SIOCOUTQ: rustix::ioctl::Opcode = 0x5411;
/// Asks for what has not been sent.
const SIOCOUTQNSD: rustix::ioctl::Opcode = 0x894b;
/// The least that is kept ready in the kernel, or a connection would be idle until the next look at it.
const UNSENT_BYTES_MIN: usize = 4 << 10;

enum Sent {
    Some(usize),
    /// The socket has no room.
    Full,
    /// The peer is gone. What it sent before may still wait; reading it finds the end as well.
    Broken,
}

fn send(socket: &OwnedFd, bytes: &[u8], most: usize) -> Sent {
    if most == 0 {
        return Sent::Full;
    }
    let bytes = &bytes[..bytes.len().min(most)];
    loop {
        match net::send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(sent) => return Sent::Some(sent),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Sent::Full,
            Err(_) => return Sent::Broken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn one_system_call_sends_no_more_than_its_limit() {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (near, far) = net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        sockopt::set_socket_send_buffer_size(&near, 4 * SEND_BYTES).unwrap();
        let Sent::Some(sent) = send(&near, &[0; 2 * SEND_BYTES], SEND_BYTES) else { panic!("it has room") };
        // A socket may take less at a time; this one has room for more.
        assert!((1..=SEND_BYTES).contains(&sent), "{sent}");
        drop(far);
        assert!(matches!(send(&near, &[0], SEND_BYTES), Sent::Broken));
    }

    #[test]
    fn one_call_can_be_asked_for() {
        let left_by = |once| {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let (near, far) = net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
            sockopt::set_socket_send_buffer_size(&near, 4 * SEND_BYTES).unwrap();
            let mut connection = Connection::new(near, Phase::Open);
            connection.outbox.append(|out| out.resize(2 * SEND_BYTES, 0));
            connection.send_plain(once);
            drop(far);
            2 * SEND_BYTES - connection.waiting()
        };
        assert!((1..=SEND_BYTES).contains(&left_by(true)));
        assert!(left_by(false) > SEND_BYTES, "it has room for more");
    }

    #[test]
    fn a_connection_that_is_held_back_has_little_in_the_kernel() {
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = OwnedFd::from(TcpStream::connect(door.local_addr().unwrap()).unwrap());
        let far = OwnedFd::from(door.accept().unwrap().0);
        sockopt::set_socket_recv_buffer_size(&far, SEND_BYTES / 8).unwrap();
        let mut connection = Connection::new(near, Phase::Open);
        connection.hold_back(8 << 10);
        for _ in 0..200 {
            connection.outbox.append(|out| out.resize(out.len() + 2_048, 0));
            connection.send_plain(false);
        }
        let kept = queue::<SIOCOUTQNSD>(&connection.socket);
        assert!(
            connection.waiting() > 0 && kept <= 8 << 10,
            "{kept} in the kernel, {} here",
            connection.waiting()
        );
        assert!(connection.taken() > 0 && connection.taken() <= connection.sent);
    }

    /// What a socket takes whose other end does not read.
    fn taken(limit: fn(&OwnedFd)) -> usize {
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = OwnedFd::from(TcpStream::connect(door.local_addr().unwrap()).unwrap());
        let far = OwnedFd::from(door.accept().unwrap().0);
        sockopt::set_socket_send_buffer_size(&near, 2 * SEND_BYTES).unwrap();
        sockopt::set_socket_recv_buffer_size(&far, SEND_BYTES / 8).unwrap();
        limit(&near);
        let mut taken = 0;
        while let Sent::Some(sent) = send(&near, &[0; 4096], SEND_BYTES) {
            taken += sent;
        }
        taken
    }

    #[test]
    fn what_the_other_end_has_no_room_for_stays_here_but_for_the_limit() {
        let (with, without) = (taken(limit_unsent), taken(|_| {}));
        assert!(with + SEND_BYTES / 2 < without, "{with} with the limit, {without} without");
    }
}
