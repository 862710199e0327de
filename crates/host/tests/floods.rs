//! Who brings much at a time is served after the others.
#![allow(clippy::unwrap_used, reason = "a test")]

use contract::Time;
use engine::Node;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use wire::{Effects, LinkChange, LinkId, Order, PeerIndex, Protocol, Transport};

/// Answers each read of the second connection with a byte, and looks with each read of the first whether that byte has come.
struct Listener {
    links: Vec<LinkId>,
    second: Option<TcpStream>,
    seen: Vec<&'static str>,
}

impl Node for Listener {
    fn handle_link(&mut self, _now: Time, link: LinkId, change: LinkChange, _net: &mut impl Effects) {
        assert!(matches!(change, LinkChange::Accepted(_)), "{change:?}");
        self.links.push(link);
    }
    fn handle_dial_failed(&mut self, _now: Time, _peer: PeerIndex, _refused: bool, _net: &mut impl Effects) {}
    fn handle_bytes(&mut self, _now: Time, link: LinkId, bytes: &[u8], net: &mut impl Effects) -> usize {
        if link != self.links[0] {
            net.append(link, Order::Any, |out| out.push(1));
            self.seen.push("second");
        } else if let Some(second) = &mut self.second {
            let came = second.read(&mut [0]);
            let waits = came.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
            self.seen.push(if waits { "first" } else { "first, after an answer" });
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

/// More than one read takes.
const FLOOD_BYTES: usize = 100 << 10;

#[test]
fn what_others_bring_is_answered_before_a_flood_is_looked_at() {
    let node = Listener { links: Vec::new(), second: None, seen: Vec::new() };
    let mut driver = host::Driver::new(node, Vec::new()).unwrap();
    let door = driver.listen("127.0.0.1:0".parse().unwrap(), Protocol::Verge, Transport::Plain).unwrap();
    let mut ready = Vec::new();
    let mut connect = |count: usize| {
        let client = TcpStream::connect(door).unwrap();
        while driver.node().links.len() < count {
            driver.wait_and_turn(&mut ready).unwrap();
        }
        client
    };
    let (mut first, mut second) = (connect(1), connect(2));
    second.set_nonblocking(true).unwrap();
    let ear = second.try_clone().unwrap();
    driver.with(|node, _| node.second = Some(ear));
    first.write_all(&vec![0; FLOOD_BYTES]).unwrap();
    driver.wait_and_turn(&mut ready).unwrap();
    second.write_all(&[7]).unwrap();
    driver.wait_and_turn(&mut ready).unwrap();
    assert_eq!(driver.node().seen, ["first", "second", "first, after an answer"]);
}
