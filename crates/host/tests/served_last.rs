//! What is for connections that are served last leaves after everything else, a little in each turn, and all of it in the end.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use contract::Time;
use contract::rounds::LAST_WRITES;
use engine::Node;
use host::Driver;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use support::connected;
use wire::{Effects, LinkChange, LinkId, Order, PeerIndex};

/// Writes so much to everybody when the first who came says something. All but the first few are served last.
struct Fan {
    links: Vec<LinkId>,
    bytes: usize,
}

/// So many are served in turn.
const IN_TURN: usize = 2;

impl Node for Fan {
    fn handle_link(&mut self, _now: Time, link: LinkId, _change: LinkChange, net: &mut impl Effects) {
        net.put_last(link, self.links.len() >= IN_TURN);
        self.links.push(link);
    }
    fn handle_dial_failed(&mut self, _now: Time, _peer: PeerIndex, _refused: bool, _net: &mut impl Effects) {}
    fn handle_bytes(&mut self, _now: Time, _link: LinkId, bytes: &[u8], net: &mut impl Effects) -> usize {
        for link in &self.links {
            net.append(*link, Order::Any, |out| out.resize(out.len() + self.bytes, 7));
        }
        bytes.len()
    }
    fn run(&mut self, _now: Time, _net: &mut impl Effects) -> bool {
        false
    }
    fn handle_timeout(&mut self, _now: Time, _net: &mut impl Effects) {}
    fn next_deadline(&self) -> Time {
        Time::NEVER
    }
}

/// How many of these have something to read; it is read.
fn served(clients: &mut [TcpStream]) -> usize {
    let reads = |client: &mut TcpStream| match client.read(&mut [0; 256 << 10]) {
        Ok(read) => read > 0,
        Err(error) if error.kind() == ErrorKind::WouldBlock => false,
        Err(error) => panic!("{error}"),
    };
    clients.iter_mut().map(reads).filter(|read| *read).count()
}

/// A driver with so many who are served last.
fn with_last(last: usize, bytes: usize) -> (Driver<Fan>, Vec<TcpStream>) {
    let fan = Fan { links: Vec::new(), bytes };
    let (driver, clients) = connected(fan, IN_TURN + last, |node| node.links.len());
    clients.iter().for_each(|client| client.set_nonblocking(true).unwrap());
    (driver, clients)
}

#[test]
fn some_are_written_to_in_each_turn_and_the_next_follows_at_once() {
    const LAST: usize = 10;
    let (mut driver, mut clients) = with_last(LAST, 8);
    clients[0].write_all(b"x").unwrap();
    let mut left = LAST;
    driver.wait_and_turn(&mut Vec::new()).unwrap();
    assert_eq!(served(&mut clients[..IN_TURN]), IN_TURN);
    loop {
        let turn = left.min(LAST_WRITES as usize);
        assert_eq!(served(&mut clients[IN_TURN..]), turn);
        left -= turn;
        assert_eq!(driver.due() == Time::ZERO, left > 0);
        if left == 0 {
            break;
        }
        driver.wait_and_turn(&mut Vec::new()).unwrap();
        assert_eq!(served(&mut clients[..IN_TURN]), 0);
    }
    assert!(driver.is_flushed());
    // Who goes away while something waits for it is not waited for.
    clients[0].write_all(b"x").unwrap();
    driver.wait_and_turn(&mut Vec::new()).unwrap();
    clients.truncate(1);
    for _ in 0..20 {
        driver.turn(&[]);
    }
    assert!(driver.due() != Time::ZERO);
}

#[test]
fn much_for_one_of_them_is_enough_for_a_turn() {
    let (mut driver, mut clients) = with_last(3, 80 << 10);
    clients[0].write_all(b"x").unwrap();
    for _ in 0..3 {
        driver.wait_and_turn(&mut Vec::new()).unwrap();
        assert_eq!(served(&mut clients[IN_TURN..]), 1);
    }
}
