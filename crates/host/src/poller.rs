//! Waiting for sockets, with the kernel's epoll.
//!
//! Who waits again and again until something is due, and is woken by sockets long before, would have the kernel set a timer and take
//! it back each time. So there is an alarm clock, which is set anew only where it would ring too late, or has rung. One that
//! rings too early costs a look at the time.

use contract::{Span, Time};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

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

/// The number of the alarm clock.
const ALARM: u64 = u64::MAX;

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
    /// It follows the host's clock, and rings when that is stepped.
    alarm: OwnedFd,
    /// For when it is set; [`Time::NEVER`] if it has rung.
    set_for: AtomicU64,
    /// How it is set; tests have a clock that is stepped between any two looks.
    set: fn(&OwnedFd, Time) -> Result<(), Errno>,
}

/// Events taken at once. More would make the first of them wait for the last before their answers leave.
const EVENTS_PER_WAIT: usize = 32;

impl Poller {
    /// An empty set.
    pub fn new() -> Result<Poller, Errno> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let alarm = timerfd_create(TimerfdClockId::Realtime, flags)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let poller = Poller { epoll, alarm, set_for: AtomicU64::new(Time::NEVER.0), set: set_alarm };
        poller.add_bell(&poller.alarm, ALARM)?;
        Ok(poller)
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
        let timeout = (!at_most.is_forever()).then(|| timespec(at_most.as_nanos_u64()));
        self.take_ready(timeout.as_ref(), ready)
    }

    /// Waits until something is ready or the host's clock says this, and puts what is ready into `ready`. It may end sooner; whoever
    /// has to wait longer calls again. [`Time::ZERO`]: it does not wait.
    pub fn wait_until(&self, due: Time, ready: &mut Vec<Ready>) -> Result<(), Errno> {
        if due == Time::ZERO {
            return self.wait(Span::ZERO, ready);
        }
        let mut at_most = None;
        if due.0 < self.set_for.load(Ordering::Relaxed) {
            match (self.set)(&self.alarm, due) {
                Ok(()) => {}
                // The host's clock was stepped since the alarm was set last. It is set all the same, but for a time that was made
                // up by the clock before, so that it counts as having rung: whoever waits looks at the clock again.
                Err(Errno::CANCELED) => at_most = Some(timespec(0)),
                Err(error) => return Err(error),
            }
            self.set_for.store(due.0, Ordering::Relaxed);
        }
        self.take_ready(at_most.as_ref(), ready)
    }

    fn take_ready(&self, timeout: Option<&Timespec>, ready: &mut Vec<Ready>) -> Result<(), Errno> {
        ready.clear();
        let mut buffer = [std::mem::MaybeUninit::<epoll::Event>::uninit(); EVENTS_PER_WAIT];
        let events = match epoll::wait(&self.epoll, &mut buffer, timeout) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error),
        };
        for event in events {
            let token = event.data.u64();
            if token == ALARM {
                self.set_for.store(Time::NEVER.0, Ordering::Relaxed);
                continue;
            }
            let flags = event.flags;
            let broken = flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR);
            ready.push(Ready {
                token,
                readable: broken || flags.contains(epoll::EventFlags::IN),
                writable: broken || flags.contains(epoll::EventFlags::OUT),
            });
        }
        Ok(())
    }
}

/// Sets the alarm by the host's clock. It rings, too, when that is stepped.
fn set_alarm(alarm: &OwnedFd, due: Time) -> Result<(), Errno> {
    let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
    let value = Itimerspec { it_interval: timespec(0), it_value: timespec(due.0) };
    timerfd_settime(alarm, flags, &value).map(drop)
}

fn timespec(nanos: u64) -> Timespec {
    Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}

fn interest(write: bool) -> epoll::EventFlags {
    if write { epoll::EventFlags::IN | epoll::EventFlags::OUT } else { epoll::EventFlags::IN }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::now;
    use rustix::event::{EventfdFlags, eventfd};

    const LONG: Span = Span::secs(3_600);

    /// Waits until something is ready or this is due, however often the alarm rings too early. Returns how often it waited.
    fn wait(poller: &Poller, due: Time, ready: &mut Vec<Ready>) -> u32 {
        for times in 1..100 {
            poller.wait_until(due, ready).unwrap();
            if !ready.is_empty() || now() >= due {
                return times;
            }
        }
        panic!("it ends again and again, and nothing is due");
    }

    #[test]
    fn it_waits_until_the_clock_says_so_and_no_longer_than_the_sooner_of_two_times() {
        let poller = Poller::new().unwrap();
        let mut ready = Vec::new();
        for _ in 0..3 {
            let due = now() + Span::millis(3);
            assert_eq!(wait(&poller, due, &mut ready), 1);
            assert!(now() >= due && ready.is_empty());
        }
        let bell = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        poller.add_bell(&bell, 7).unwrap();
        rustix::io::write(&bell, &1_u64.to_ne_bytes()).unwrap();
        poller.wait_until(now() + LONG, &mut ready).unwrap();
        assert_eq!(
            ready.first().map(|ready| ready.token),
            Some(7),
            "a bell is heard, with the alarm set for later"
        );
        let due = now() + Span::millis(3);
        wait(&poller, due, &mut ready);
        assert!(now() >= due && ready.is_empty(), "the alarm is set for sooner");
    }

    #[test]
    fn an_alarm_that_was_set_for_too_soon_rings_once_and_is_set_again() {
        let poller = Poller::new().unwrap();
        let mut ready = Vec::new();
        let bell = eventfd(1, EventfdFlags::NONBLOCK).unwrap();
        poller.add_bell(&bell, 7).unwrap();
        let soon = now() + Span::millis(5);
        assert_eq!(wait(&poller, soon, &mut ready), 1, "the bell comes first");
        let later = soon + Span::millis(5);
        assert!(wait(&poller, later, &mut ready) <= 2);
        assert!(now() >= later && ready.is_empty());
        assert_eq!(wait(&poller, now() - Span::secs(1), &mut ready), 1, "what is overdue is not waited for");
    }

    /// What the kernel does when the clock was stepped since the alarm was set last.
    fn set_after_a_step(alarm: &OwnedFd, due: Time) -> Result<(), Errno> {
        set_alarm(alarm, due).and(Err(Errno::CANCELED))
    }

    #[test]
    fn a_clock_that_is_stepped_ends_no_wait_but_this_one() {
        let mut poller = Poller::new().unwrap();
        let mut ready = Vec::new();
        poller.set = set_after_a_step;
        poller.wait_until(now() + LONG, &mut ready).unwrap();
        assert!(ready.is_empty(), "it has ended at once, for a look at the clock");
        let bell = eventfd(1, EventfdFlags::NONBLOCK).unwrap();
        poller.add_bell(&bell, 7).unwrap();
        poller.wait_until(now() + LONG - Span::secs(1), &mut ready).unwrap();
        assert_eq!(ready.len(), 1, "what is ready is not forgotten for it");
        poller.set = set_alarm;
        let due = now() + Span::millis(3);
        wait(&poller, due, &mut ready);
        assert!(now() >= due && ready.is_empty());
    }

    #[test]
    fn the_alarm_is_set_by_a_call_that_tells_of_a_step_and_is_not_set_again() {
        let mut poller = Poller::new().unwrap();
        let mut ready = Vec::new();
        poller.set = set_after_a_step;
        let due = now() + Span::millis(3);
        poller.wait_until(due, &mut ready).unwrap();
        // Setting it once more would fail, and an alarm that is not set would never ring.
        poller.set = |_, _| Err(Errno::INVAL);
        while now() < due {
            poller.wait_until(due, &mut ready).unwrap();
        }
        assert!(ready.is_empty());
    }

    #[test]
    fn an_alarm_that_cannot_be_set_is_an_error() {
        let mut poller = Poller::new().unwrap();
        poller.set = |_, _| Err(Errno::INVAL);
        assert_eq!(poller.wait_until(now() + LONG, &mut Vec::new()), Err(Errno::INVAL));
    }

    #[test]
    fn what_has_rung_while_nobody_waited_is_heard_later() {
        let poller = Poller::new().unwrap();
        let mut ready = Vec::new();
        let due = now() + Span::millis(2);
        let bell = eventfd(1, EventfdFlags::NONBLOCK).unwrap();
        poller.add_bell(&bell, 7).unwrap();
        poller.wait_until(due, &mut ready).unwrap();
        assert_eq!(ready.len(), 1);
        while now() < due + Span::millis(1) {
            std::hint::spin_loop();
        }
        poller.wait_until(due, &mut ready).unwrap();
        assert!(ready.is_empty(), "it ends at once, since that was due");
        let next = now() + Span::millis(2);
        wait(&poller, next, &mut ready);
        assert!(now() >= next);
    }
}
