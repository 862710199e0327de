//! A driver that looks for sockets again and again before it sleeps.
#![allow(clippy::unwrap_used, reason = "a test")]

use contract::{Span, Time};
use engine::Node;
use host::{Driver, now};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;
use wire::{Effects, LinkChange, LinkId, PeerIndex, Protocol, Transport};

/// Counts what comes; is due once, at its time.
struct Counting {
    came: usize,
    due: Time,
    timeouts: u32,
}

impl Node for Counting {
    fn handle_link(&mut self, _now: Time, _link: LinkId, _change: LinkChange, _net: &mut impl Effects) {}
    fn handle_dial_failed(&mut self, _now: Time, _peer: PeerIndex, _refused: bool, _net: &mut impl Effects) {}
    fn handle_bytes(&mut self, _now: Time, _link: LinkId, bytes: &[u8], _net: &mut impl Effects) -> usize {
        self.came += bytes.len();
        bytes.len()
    }
    fn run(&mut self, _now: Time, _net: &mut impl Effects) -> bool {
        false
    }
    fn handle_timeout(&mut self, _now: Time, _net: &mut impl Effects) {
        self.timeouts += 1;
        self.due = Time::NEVER;
    }
    fn next_deadline(&self) -> Time {
        self.due
    }
}

/// Longer than any of this takes.
const LONG: Span = Span::secs(3_600);

fn driver(due: Time, spin: Span) -> Driver<Counting> {
    let mut driver = Driver::new(Counting { came: 0, due, timeouts: 0 }, Vec::new()).unwrap();
    driver.busy_poll(spin);
    driver
}

/// How often the calling thread has slept.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

/// A peer that has sent messages of these sizes, each of which was there at once.
fn peer(driver: &mut Driver<Counting>, sizes: &[usize]) -> TcpStream {
    let address = driver.listen("127.0.0.1:0".parse().unwrap(), Protocol::Verge, Transport::Plain).unwrap();
    let mut peer = TcpStream::connect(address).unwrap();
    let mut ready = Vec::new();
    driver.wait_and_turn(&mut ready).unwrap();
    for size in sizes {
        peer.write_all(&vec![b'!'; *size]).unwrap();
        let all = driver.node().came + size;
        while driver.node().came < all {
            driver.wait_and_turn(&mut ready).unwrap();
        }
    }
    peer
}

const DIALOGUE: [usize; 100] = [1; 100];

/// Whether the driver sleeps until something comes, a while from now, after these messages.
fn sleeps_until_something_comes(spin: Span, sizes: &[usize]) -> bool {
    let mut driver = driver(Time::NEVER, spin);
    let mut peer = peer(&mut driver, sizes);
    let sender = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(10));
        peer.write_all(b"!").unwrap();
        peer
    });
    let (before, came, mut ready) = (sleeps(), driver.node().came, Vec::new());
    while driver.node().came == came {
        driver.wait_and_turn(&mut ready).unwrap();
    }
    let slept = sleeps() > before;
    sender.join().unwrap();
    slept
}

#[test]
fn who_spins_hears_of_what_comes_without_having_slept() {
    assert!(!sleeps_until_something_comes(LONG, &DIALOGUE));
    // On a busy host something may be there before anybody can sleep.
    let sleeps = |spin, sizes: &[usize]| (0..100).any(|_| sleeps_until_something_comes(spin, sizes));
    assert!(sleeps(Span::ZERO, &DIALOGUE), "else this shows nothing");
    assert!(sleeps(Span::micros(100), &DIALOGUE), "it sleeps after all");
    assert!(sleeps(LONG, &[1; 10]), "nothing has said that something will come soon");
    let bulk = [&DIALOGUE[..], &[4_096]].concat();
    assert!(sleeps(LONG, &bulk), "who brings much at once needs the processors");
}

#[test]
fn what_is_due_ends_it() {
    let mut driver = driver(Time::NEVER, LONG);
    let _peer = peer(&mut driver, &DIALOGUE);
    driver.with(|node, _| node.due = now() + Span::millis(5));
    let mut ready = Vec::new();
    while driver.node().timeouts == 0 {
        driver.wait_and_turn(&mut ready).unwrap();
    }
    assert_eq!(driver.node().timeouts, 1);
}
