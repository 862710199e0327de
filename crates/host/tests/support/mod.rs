//! A node that notes what it is told and sends back what comes, and a driver that turns until something holds.
#![allow(clippy::unwrap_used, dead_code, reason = "a test, and not every test uses everything")]

pub mod certificates;
pub mod house;

use contract::{Span, Time};
use engine::Node;
use host::{Driver, now};
use std::net::TcpStream;
use wire::{Effects, LinkChange, LinkId, Order, PeerIndex, Protocol, Transport};

/// Notes what it is told, and sends back every byte that comes.
#[derive(Default)]
pub struct Probe {
    pub told: Vec<(LinkId, LinkChange)>,
    /// How what was accepted is carried.
    pub carried: Vec<(LinkId, Transport)>,
    /// Links for which there was no place of clients.
    pub crowded: Vec<LinkId>,
    /// Bytes that came on all links.
    pub came: usize,
    /// Peers that could not be reached.
    pub unreachable: Vec<(PeerIndex, bool)>,
    /// Links and the names in their certificates.
    pub names: Vec<(LinkId, String)>,
    /// Instead of sending back, keeps what comes.
    pub keeps: bool,
    pub kept: Vec<u8>,
    /// What is not worth taking now.
    pub shut: Option<Protocol>,
}

impl Probe {
    pub fn accepted(&self) -> usize {
        self.told.iter().filter(|(_, change)| matches!(change, LinkChange::Accepted(_))).count()
    }

    pub fn closed(&self) -> usize {
        self.told.iter().filter(|(_, change)| *change == LinkChange::Closed).count()
    }

    pub fn dialed(&self) -> Option<LinkId> {
        let dialed =
            |(link, change): &(LinkId, LinkChange)| matches!(change, LinkChange::Dialed(_)).then_some(*link);
        self.told.iter().rev().find_map(dialed)
    }
}

impl Node for Probe {
    fn is_open(&self, protocol: Protocol) -> bool {
        self.shut != Some(protocol)
    }

    fn handle_link(&mut self, _now: Time, link: LinkId, change: LinkChange, _net: &mut impl Effects) {
        self.told.push((link, change));
    }

    fn handle_transport(&mut self, link: LinkId, transport: Transport) {
        assert!(matches!(self.told.last(), Some((accepted, LinkChange::Accepted(_))) if *accepted == link));
        self.carried.push((link, transport));
    }

    fn handle_crowded(&mut self, link: LinkId) {
        self.crowded.push(link);
    }

    fn handle_identity(&mut self, _now: Time, link: LinkId, name: &str) {
        self.names.push((link, name.to_owned()));
    }

    fn handle_dial_failed(&mut self, _now: Time, peer: PeerIndex, refused: bool, _net: &mut impl Effects) {
        self.unreachable.push((peer, refused));
    }

    fn handle_bytes(&mut self, _now: Time, link: LinkId, bytes: &[u8], net: &mut impl Effects) -> usize {
        self.came += bytes.len();
        if self.keeps {
            self.kept.extend_from_slice(bytes);
        } else {
            net.append(link, Order::Any, |out| out.extend_from_slice(bytes));
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

/// Turns the driver until the condition holds. The watchdog only ends a test that hangs.
pub fn turn_until(driver: &mut Driver<Probe>, mut holds: impl FnMut(&Probe) -> bool) {
    let watchdog = now() + Span::secs(60);
    let mut ready = Vec::new();
    while !holds(driver.node()) {
        assert!(now() < watchdog, "nothing happened for 60 s: {:?}", driver.node().told);
        let patience = driver.patience().min(Span::millis(5));
        driver.poller().wait(patience, &mut ready).unwrap();
        driver.turn(&ready);
    }
}

/// A driver with so many connections; `came` says how many of them its node knows of.
pub fn connected<N: Node>(node: N, count: usize, came: impl Fn(&N) -> usize) -> (Driver<N>, Vec<TcpStream>) {
    let mut driver = Driver::new(node, Vec::new()).unwrap();
    let door = driver.listen("127.0.0.1:0".parse().unwrap(), Protocol::Verge, Transport::Plain).unwrap();
    let mut ready = Vec::new();
    let connect = |index: usize| {
        let client = TcpStream::connect(door).unwrap();
        while came(driver.node()) <= index {
            driver.wait_and_turn(&mut ready).unwrap();
        }
        client
    };
    let clients = (0..count).map(connect).collect();
    (driver, clients)
}
