//! Sockets that are looked at together.

use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::mem::MaybeUninit;

/// Which sockets can be read or written.
pub struct Poller {
    epoll: OwnedFd,
}

/// What one of them can.
#[derive(Clone, Copy)]
pub struct Ready {
    /// As it was added.
    pub index: usize,
    /// Something has come, or it has ended.
    pub readable: bool,
    /// There is room.
    pub writable: bool,
}

impl Poller {
    /// Looks at none yet.
    pub fn new() -> io::Result<Poller> {
        Ok(Poller { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// From now on, this one too.
    pub fn add(&self, socket: impl AsFd, index: usize) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, data(index), epoll::EventFlags::IN)?)
    }

    /// Whether it is said when it can be written.
    pub fn watch(&self, socket: impl AsFd, index: usize, writable: bool) -> io::Result<()> {
        let out = if writable { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
        Ok(epoll::modify(&self.epoll, socket, data(index), epoll::EventFlags::IN | out)?)
    }

    /// Waits until something can be done, or until this time.
    pub fn wait(&self, until_ns: u64, ready: &mut Vec<Ready>) -> io::Result<()> {
        const AT_ONCE: usize = 128;
        ready.clear();
        let left = until_ns.saturating_sub(now_ns());
        let timeout =
            Timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as i64 };
        let mut room = [MaybeUninit::<epoll::Event>::uninit(); AT_ONCE];
        let events = match epoll::wait(&self.epoll, &mut room, Some(&timeout)) {
            Ok((events, _)) => events,
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let gone = epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        ready.extend(events.iter().map(|event| {
            // The kernel's structure is packed: its fields are copied.
            let (flags, data) = (event.flags, event.data);
            Ready {
                index: data.u64() as usize,
                readable: flags.intersects(epoll::EventFlags::IN | gone),
                writable: flags.contains(epoll::EventFlags::OUT),
            }
        }));
        Ok(())
    }
}

fn data(index: usize) -> epoll::EventData {
    epoll::EventData::new_u64(index as u64)
}

/// The clock of all measurements.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
