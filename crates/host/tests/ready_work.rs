//! What becomes ready late in a turn is done in that turn, and what was done leaves early in it.
#![allow(clippy::unwrap_used, reason = "a test")]

use contract::{Span, Time};
use engine::Node;
use std::io::Write;
use std::net::TcpStream;
use wire::{Effects, LinkChange, LinkId, Order, PeerIndex, Protocol, Transport};

/// Has something to do when it is woken, as a broker that its clock promotes has copies to dispatch.
#[derive(Default)]
struct Promoted {
    woken: bool,
    ready: u32,
    done: u32,
}

impl Node for Promoted {
    fn handle_link(&mut self, _now: Time, _link: LinkId, _change: LinkChange, _net: &mut impl Effects) {}
    fn handle_dial_failed(&mut self, _now: Time, _peer: PeerIndex, _refused: bool, _net: &mut impl Effects) {}
    fn handle_bytes(&mut self, _now: Time, _link: LinkId, bytes: &[u8], _net: &mut impl Effects) -> usize {
        bytes.len()
    }
    fn run(&mut self, _now: Time, _net: &mut impl Effects) -> bool {
        let portion = self.ready.min(1);
        self.ready -= portion;
        self.done += portion;
        self.ready > 0
    }
    fn handle_timeout(&mut self, _now: Time, _net: &mut impl Effects) {
        (self.woken, self.ready) = (true, 3);
    }
    fn next_deadline(&self) -> Time {
        if self.woken { Time::NEVER } else { Time::ZERO }
    }
}

#[test]
fn what_a_timeout_made_ready_is_begun_in_the_same_turn_and_goes_on_without_waiting() {
    let mut driver = host::Driver::new(Promoted::default(), Vec::new()).unwrap();
    driver.turn(&[]);
    assert_eq!(driver.node().done, 1, "the first portion");
    assert_eq!(driver.patience(), Span::ZERO, "there is more");
    driver.turn(&[]);
    assert_eq!(driver.node().done, 3);
    assert_eq!(driver.patience(), Span::FOREVER);
}

/// Answers what comes, and looks in its time-outs, which are always due, whether the answer has arrived.
struct Answering {
    peer: Option<TcpStream>,
    asked: bool,
    arrived: Vec<bool>,
    runs: u32,
}

impl Node for Answering {
    fn handle_link(&mut self, _now: Time, _link: LinkId, _change: LinkChange, _net: &mut impl Effects) {}
    fn handle_dial_failed(&mut self, _now: Time, _peer: PeerIndex, _refused: bool, _net: &mut impl Effects) {}
    fn handle_bytes(&mut self, _now: Time, link: LinkId, bytes: &[u8], net: &mut impl Effects) -> usize {
        net.append(link, Order::Any, |out| out.extend_from_slice(bytes));
        self.asked = true;
        bytes.len()
    }
    fn run(&mut self, _now: Time, _net: &mut impl Effects) -> bool {
        self.runs += 1;
        false
    }
    fn handle_timeout(&mut self, _now: Time, _net: &mut impl Effects) {
        if self.asked {
            self.arrived.push(self.peer.as_ref().is_some_and(|peer| peer.peek(&mut [0]).is_ok()));
        }
    }
    fn next_deadline(&self) -> Time {
        if self.asked { Time::ZERO } else { Time::NEVER }
    }
}

#[test]
fn answers_leave_before_anything_else_is_looked_after_and_idle_nodes_are_not_asked_twice() {
    let node = Answering { peer: None, asked: false, arrived: Vec::new(), runs: 0 };
    let mut driver = host::Driver::new(node, Vec::new()).unwrap();
    let address = driver.listen("127.0.0.1:0".parse().unwrap(), Protocol::Verge, Transport::Plain).unwrap();
    let mut ready = Vec::new();
    let mut peer = TcpStream::connect(address).unwrap();
    driver.wait_and_turn(&mut ready).unwrap();
    let own = peer.try_clone().unwrap();
    own.set_nonblocking(true).unwrap();
    driver.with(|node, _| (node.peer, node.runs) = (Some(own), 0));
    peer.write_all(b"?").unwrap();
    while !driver.node().asked {
        driver.wait_and_turn(&mut ready).unwrap();
    }
    assert_eq!(driver.node().arrived, [true], "the answer goes first");
    // After reading, and after the time-out; what neither left to do is not asked for.
    assert_eq!(driver.node().runs, 2);
}
