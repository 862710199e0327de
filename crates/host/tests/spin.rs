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
    driver.spin(spin);
    driver
}

/// How often the calling thread has slept.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

/// Whether the driver sleeps until something comes, a while from now.
fn sleeps_until_something_comes(spin: Span) -> bool {
    let mut driver = driver(Time::NEVER, spin);
    let address = driver.listen("127.0.0.1:0".parse().unwrap(), Protocol::Verge, Transport::Plain).unwrap();
    let mut peer = TcpStream::connect(address).unwrap();
    let mut ready = Vec::new();
    driver.wait_and_turn(&mut ready).unwrap();
    let sender = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(10));
        peer.write_all(b"!").unwrap();
        peer
    });
    let before = sleeps();
    while driver.node().came == 0 {
        driver.wait_and_turn(&mut ready).unwrap();
    }
    let slept = sleeps() > before;
    sender.join().unwrap();
    slept
}

#[test]
fn who_spins_hears_of_what_comes_without_having_slept() {
    assert!(!sleeps_until_something_comes(LONG));
    // On a busy host something may be there before anybody can sleep.
    assert!((0..100).any(|_| sleeps_until_something_comes(Span::ZERO)), "else this shows nothing");
    assert!((0..100).any(|_| sleeps_until_something_comes(Span::micros(100))), "it sleeps after all");
}

#[test]
fn what_is_due_ends_it() {
    let mut driver = driver(now() + Span::millis(5), LONG);
    let mut ready = Vec::new();
    while driver.node().timeouts == 0 {
        driver.wait_and_turn(&mut ready).unwrap();
    }
    assert_eq!(driver.node().timeouts, 1);
}
