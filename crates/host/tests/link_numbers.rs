//! A link's number is used again only after its closing has been told.
#![allow(clippy::unwrap_used, reason = "a test")]

use contract::Time;
use engine::Node;
use std::net::TcpStream;
use wire::{Effects, Frame, LinkChange, LinkId, PeerIndex};

/// Notes what it is told of links.
#[derive(Default)]
struct Probe(Vec<(LinkId, LinkChange)>);

impl Node for Probe {
    fn handle_link(&mut self, _now: Time, link: LinkId, change: LinkChange, _net: &mut impl Effects) {
        self.0.push((link, change));
    }
    fn handle_dial_failed(&mut self, _now: Time, _peer: PeerIndex, _refused: bool, _net: &mut impl Effects) {}
    fn handle_bytes(&mut self, _now: Time, _link: LinkId, bytes: &[u8], _net: &mut impl Effects) -> usize {
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

#[test]
fn a_link_number_is_not_reused_before_its_closing_is_told() {
    let mut driver = host::Driver::new(Probe::default(), Vec::new()).unwrap();
    let address = driver.listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut ready = Vec::new();
    let first = TcpStream::connect(address).unwrap();
    driver.wait_and_turn(&mut ready).unwrap();
    // What the first leaves unread makes its end a reset, which sending finds before reading does.
    driver.with(|_, net| net.send(LinkId(0), &Frame::Poll { number: 1 }));
    let mut byte = [0];
    while first.peek(&mut byte).unwrap() == 0 {}
    drop(first);
    let _second = TcpStream::connect(address).unwrap();
    for number in 2..10 {
        driver.with(|_, net| net.send(LinkId(0), &Frame::Poll { number }));
    }
    while driver.node().0.iter().filter(|(_, change)| *change == LinkChange::Accepted).count() < 2 {
        driver.wait_and_turn(&mut ready).unwrap();
    }
    driver.turn(&[]);
    let of_first = |entry: &&(LinkId, LinkChange)| entry.0 == LinkId(0);
    let told: Vec<LinkChange> = driver.node().0.iter().filter(of_first).map(|(_, change)| *change).collect();
    let twice = told.windows(2).any(|pair| pair == [LinkChange::Accepted, LinkChange::Accepted]);
    assert!(!twice, "given away while in use: {told:?}");
    assert!(told.contains(&LinkChange::Closed), "the first is gone, and that was told: {told:?}");
}
