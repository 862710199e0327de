//! Waiting for sockets, with the kernel's epoll.

use contract::Span;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

/// What a socket is ready for.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// The number under which it was added.
    pub token: u64,
    /// There is something to read, or to learn by reading.
    pub readable: bool,
    /// There is room to write, or a connection attempt has ended.
    pub writable: bool,
}

/// Numbers from here on are wakers: not sockets of a node, but something that its driver's owner watches.
pub(crate) const WAKERS: u64 = 1 << 41;

impl Ready {
    /// Whether this is what was given to [`crate::Driver::wake_on`].
    pub fn is_waker(&self) -> bool {
        self.token >= WAKERS
    }
}

/// A set of sockets to wait for. Waiting needs only a shared reference, so that another thread may meanwhile change
/// what is waited for.
pub struct Poller {
    epoll: OwnedFd,
}

/// Events taken at once. More would make the first of them wait for the last before their answers leave.
const EVENTS_PER_WAIT: usize = 32;

impl Poller {
    /// An empty set.
    pub fn new() -> Result<Poller, Errno> {
        Ok(Poller { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    pub(crate) fn add(&self, socket: impl AsFd, token: u64, write: bool) -> Result<(), Errno> {
        epoll::add(&self.epoll, socket, epoll::EventData::new_u64(token), interest(write))
    }

    /// Adds something whose owner writes to it to wake us. Each write wakes once, whether or not anybody reads.
    pub(crate) fn add_bell(&self, bell: impl AsFd, token: u64) -> Result<(), Errno> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&self.epoll, bell, epoll::EventData::new_u64(token), flags)
    }

    pub(crate) fn change(&self, socket: impl AsFd, token: u64, write: bool) -> Result<(), Errno> {
        epoll::modify(&self.epoll, socket, epoll::EventData::new_u64(token), interest(write))
    }

    pub(crate) fn remove(&self, socket: impl AsFd) {
        // A socket that is not in the set needs no removing.
        let _ = epoll::delete(&self.epoll, socket);
    }

    /// Waits until something is ready or the time is over, and puts what is ready into `ready`.
    pub fn wait(&self, at_most: Span, ready: &mut Vec<Ready>) -> Result<(), Errno> {
        ready.clear();
        let mut buffer = [std::mem::MaybeUninit::<epoll::Event>::uninit(); EVENTS_PER_WAIT];
        let timeout = (!at_most.is_forever()).then(|| {
            let nanos = at_most.as_nanos_u64();
            Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
        });
        let events = match epoll::wait(&self.epoll, &mut buffer, timeout.as_ref()) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error),
        };
        for event in events {
            let flags = event.flags;
            let broken = flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR);
            ready.push(Ready {
                token: event.data.u64(),
                readable: broken || flags.contains(epoll::EventFlags::IN),
                writable: broken || flags.contains(epoll::EventFlags::OUT),
            });
        }
        Ok(())
    }
}

fn interest(write: bool) -> epoll::EventFlags {
    if write { epoll::EventFlags::IN | epoll::EventFlags::OUT } else { epoll::EventFlags::IN }
}
