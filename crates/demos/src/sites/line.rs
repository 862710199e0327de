//! The network between hosts that are namespaces: frames of Ethernet are carried from one to the other, each a delay later, in their order. A host can be
//! cut off. It is for kernels without a delay line of their own, which most of them are.

use fastrand::Rng;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tun_rs::SyncDevice;

const FRAME_MAX: usize = 2048;
/// Frames that are read from one host before the next has its turn.
const AT_ONCE: usize = 64;
/// Bytes that may be on their way; what comes beyond is lost, as in a router with a full queue.
const UNDERWAY_MAX: usize = 8 << 20;
/// How much longer a frame may take than the one before it.
const JITTER: f64 = 0.05;
/// How soon the line notices that it is to end.
const HEED: Duration = Duration::from_millis(50);

/// One end of the line.
pub struct End {
    pub device: SyncDevice,
    /// From here to the middle of the network.
    pub delay: Duration,
}

/// What is said to the line, and what it tells.
struct Shared {
    is_cut: Vec<AtomicBool>,
    sent: Vec<AtomicU64>,
    ends: AtomicBool,
}

/// A line that carries, until it is dropped.
pub struct Line {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Line {
    /// Carries between these ends. The last byte of the hardware address of each is its place, counted from one.
    pub fn start(ends: Vec<End>) -> io::Result<Line> {
        for end in &ends {
            rustix::io::ioctl_fionbio(&end.device, true)?;
        }
        let shared = Arc::new(Shared {
            is_cut: ends.iter().map(|_| AtomicBool::new(false)).collect(),
            sent: ends.iter().map(|_| AtomicU64::new(0)).collect(),
            ends: AtomicBool::new(false),
        });
        let carried = Arc::clone(&shared);
        let carry = move || Carrying::new(ends, &carried).run();
        let thread = std::thread::Builder::new().name("line".to_owned()).spawn(carry)?;
        Ok(Line { shared, thread: Some(thread) })
    }

    /// From now on nothing comes from this end or goes to it, or all does again.
    pub fn cut(&self, end: usize, is_cut: bool) {
        self.shared.is_cut[end].store(is_cut, Ordering::Relaxed);
    }

    /// Bytes that came from this end, as frames.
    pub fn sent(&self, end: usize) -> u64 {
        self.shared.sent[end].load(Ordering::Relaxed)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A frame on its way. The number keeps those of one instant in order.
type Underway = Reverse<(Instant, u64, usize, Vec<u8>)>;

struct Carrying<'a> {
    ends: Vec<End>,
    shared: &'a Shared,
    underway: BinaryHeap<Underway>,
    bytes: usize,
    number: u64,
    /// When the last frame from one end to the other arrives.
    last: Vec<Vec<Instant>>,
    random: Rng,
}

impl Carrying<'_> {
    fn new(ends: Vec<End>, shared: &Shared) -> Carrying<'_> {
        let last = vec![vec![Instant::now(); ends.len()]; ends.len()];
        let (underway, random) = (BinaryHeap::new(), Rng::with_seed(1));
        Carrying { ends, shared, underway, bytes: 0, number: 0, last, random }
    }

    fn run(mut self) {
        while !self.shared.ends.load(Ordering::Relaxed) {
            self.deliver();
            let due =
                self.underway.peek().map(|Reverse((at, ..))| at.saturating_duration_since(Instant::now()));
            let ready = self.wait(due.unwrap_or(HEED).min(HEED));
            ready.into_iter().for_each(|source| self.take(source));
        }
    }

    /// The ends from which something has come.
    fn wait(&self, patience: Duration) -> Vec<usize> {
        let mut fds: Vec<PollFd<'_>> =
            self.ends.iter().map(|end| PollFd::new(&end.device, PollFlags::IN)).collect();
        let patience = Timespec { tv_sec: 0, tv_nsec: patience.subsec_nanos().into() };
        if poll(&mut fds, Some(&patience)).is_err() {
            return Vec::new();
        }
        (0..fds.len()).filter(|index| fds[*index].revents().contains(PollFlags::IN)).collect()
    }

    fn take(&mut self, source: usize) {
        let mut frame = [0; FRAME_MAX];
        for _ in 0..AT_ONCE {
            let Ok(read) = rustix::io::read(&self.ends[source].device, &mut frame) else { return };
            if self.shared.is_cut[source].load(Ordering::Relaxed) {
                continue;
            }
            self.shared.sent[source].fetch_add(read as u64, Ordering::Relaxed);
            for target in targets(&frame[..read], source, self.ends.len()) {
                self.send(source, target, &frame[..read]);
            }
        }
    }

    fn send(&mut self, source: usize, target: usize, frame: &[u8]) {
        if self.bytes + frame.len() > UNDERWAY_MAX {
            return;
        }
        let way = self.ends[source].delay + self.ends[target].delay;
        let last = &mut self.last[source][target];
        let at = (Instant::now() + way.mul_f64(1.0 + JITTER * self.random.f64())).max(*last);
        *last = at;
        self.bytes += frame.len();
        self.number += 1;
        self.underway.push(Reverse((at, self.number, target, frame.to_vec())));
    }

    /// Hands over what has been on its way for long enough. What an end does not take is lost, as in life.
    fn deliver(&mut self) {
        let now = Instant::now();
        while self.underway.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            let Some(Reverse((_, _, target, frame))) = self.underway.pop() else { return };
            self.bytes -= frame.len();
            if !self.shared.is_cut[target].load(Ordering::Relaxed) {
                let _ = rustix::io::write(&self.ends[target].device, &frame);
            }
        }
    }
}

/// To which ends a frame goes: to the one that it names, or to all others where it is for many.
fn targets(frame: &[u8], source: usize, ends: usize) -> Vec<usize> {
    match frame.first_chunk::<6>() {
        Some([first, ..]) if first & 1 == 1 => (0..ends).filter(|end| *end != source).collect(),
        Some([.., last]) => usize::from(*last).checked_sub(1).filter(|end| *end < ends).into_iter().collect(),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_goes_where_it_says_or_to_all_others_and_nowhere_if_it_is_none() {
        assert_eq!(targets(&[2, 0, 0, 0, 0, 3, 9], 0, 4), [2]);
        assert_eq!(targets(&[255; 14], 1, 4), [0, 2, 3]);
        assert!(targets(&[2, 0, 0, 0, 0, 9], 0, 4).is_empty());
        assert!(targets(&[2, 0, 0, 0, 0, 0], 0, 4).is_empty() && targets(&[2, 0], 0, 4).is_empty());
    }
}
