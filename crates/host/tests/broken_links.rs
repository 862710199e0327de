//! Connections that a peer resets: nothing that came before is lost, and a link's number is used again only after its
//! closing has been told.
#![allow(clippy::unwrap_used, reason = "a test")]

use contract::{Span, Time};
use engine::Node;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use wire::{Effects, Frame, LinkChange, LinkId, PeerIndex, Protocol, Transport};

/// Notes what it is told of links, and how many bytes came on those it knows.
#[derive(Default)]
struct Probe(Vec<(LinkId, LinkChange)>, usize);

impl Node for Probe {
    fn handle_link(&mut self, _now: Time, link: LinkId, change: LinkChange, _net: &mut impl Effects) {
        self.0.push((link, change));
    }
    fn handle_dial_failed(&mut self, _now: Time, _peer: PeerIndex, _refused: bool, _net: &mut impl Effects) {}
    fn handle_bytes(&mut self, _now: Time, link: LinkId, bytes: &[u8], _net: &mut impl Effects) -> usize {
        assert!(
            self.0.iter().any(|(known, _)| *known == link),
            "bytes of {link:?}, of which nothing was told"
        );
        self.1 += bytes.len();
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
fn what_a_peer_sent_before_it_died_is_read_although_writing_fails() {
    let mut driver = host::Driver::new(Probe::default(), Vec::new()).unwrap();
    let address = driver.listen("127.0.0.1:0".parse().unwrap(), Protocol::Verge, Transport::Plain).unwrap();
    let mut ready = Vec::new();
    let mut peer = TcpStream::connect(address).unwrap();
    driver.wait_and_turn(&mut ready).unwrap();
    driver.with(|_, net| net.send(LinkId(0), &Frame::Poll { number: 1 }));
    while peer.peek(&mut [0]).unwrap() == 0 {}
    // More than is read at once, and no more than the system takes at once. What the peer leaves unread makes its end a reset.
    let sent = vec![0; 80_000];
    peer.write_all(&sent).unwrap();
    drop(peer);
    for number in 2..10 {
        driver.with(|_, net| net.send(LinkId(0), &Frame::Poll { number }));
    }
    while !driver.node().0.contains(&(LinkId(0), LinkChange::Closed)) {
        driver.wait_and_turn(&mut ready).unwrap();
        driver.with(|_, net| net.send(LinkId(0), &Frame::Poll { number: 10 }));
    }
    assert_eq!(driver.node().1, sent.len());
}

#[test]
fn a_link_number_is_not_reused_before_its_closing_is_told() {
    let mut driver = host::Driver::new(Probe::default(), Vec::new()).unwrap();
    let address = driver.listen("127.0.0.1:0".parse().unwrap(), Protocol::Verge, Transport::Plain).unwrap();
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
    while driver
        .node()
        .0
        .iter()
        .filter(|(_, change)| *change == LinkChange::Accepted(Protocol::Verge))
        .count()
        < 2
    {
        driver.wait_and_turn(&mut ready).unwrap();
    }
    driver.turn(&[]);
    let of_first = |entry: &&(LinkId, LinkChange)| entry.0 == LinkId(0);
    let told: Vec<LinkChange> = driver.node().0.iter().filter(of_first).map(|(_, change)| *change).collect();
    let twice = told
        .windows(2)
        .any(|pair| pair == [LinkChange::Accepted(Protocol::Verge), LinkChange::Accepted(Protocol::Verge)]);
    assert!(!twice, "given away while in use: {told:?}");
    assert!(told.contains(&LinkChange::Closed), "the first is gone, and that was told: {told:?}");
}

#[test]
fn what_comes_first_on_a_connection_comes_after_the_word_that_it_is_made() {
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut driver = host::Driver::new(Probe::default(), vec![door.local_addr().unwrap()]).unwrap();
    driver.with(|_, net| net.dial(PeerIndex(0), Span::secs(30)));
    driver.turn(&[]);
    // A host that is busy learns of both at once.
    let (mut talkative, _) = door.accept().unwrap();
    talkative.write_all(b"SSH-2.0-OpenSSH_9.6\r\n").unwrap();
    let mut ready = Vec::new();
    while driver.node().1 == 0 {
        driver.wait_and_turn(&mut ready).unwrap();
    }
}
