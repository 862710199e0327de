//! Who brings what takes long to handle gets less of each turn, and holds up nobody who asks whether this node lives.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use contract::Time;
use engine::Node;
use host::Driver;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;
use support::connected;
use wire::{Effects, LinkChange, LinkId, PeerIndex};

/// Takes its time with each read, and notes from whom it was, and how much. The last who came is its partner.
struct Slow {
    links: Vec<LinkId>,
    seen: Vec<(usize, usize)>,
}

/// Longer than all connections together may take in one turn.
const LONG: Duration = Duration::from_millis(4);

impl Node for Slow {
    fn handle_link(&mut self, _now: Time, link: LinkId, _change: LinkChange, net: &mut impl Effects) {
        self.links.push(link);
        net.put_first(link);
    }
    fn handle_dial_failed(&mut self, _now: Time, _peer: PeerIndex, _refused: bool, _net: &mut impl Effects) {}
    fn handle_bytes(&mut self, _now: Time, link: LinkId, bytes: &[u8], _net: &mut impl Effects) -> usize {
        let who = self.links.iter().position(|known| *known == link).unwrap();
        self.seen.push((who, bytes.len()));
        std::thread::sleep(LONG);
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

/// A driver with so many connections.
fn with_connections(count: usize) -> (Driver<Slow>, Vec<TcpStream>) {
    connected(Slow { links: Vec::new(), seen: Vec::new() }, count, |node| node.links.len())
}

fn turn(driver: &mut Driver<Slow>) -> Vec<(usize, usize)> {
    driver.wait_and_turn(&mut Vec::new()).unwrap();
    driver.with(|node, _| std::mem::take(&mut node.seen))
}

#[test]
fn reads_that_take_long_become_smaller() {
    let (mut driver, mut clients) = with_connections(1);
    clients[0].write_all(&[0; 32 << 10]).unwrap();
    let sizes: Vec<usize> = (0..4).flat_map(|_| turn(&mut driver)).map(|(_, bytes)| bytes).collect();
    assert_eq!(sizes, [4_096, 2_048, 1_024, 1_024]);
}

#[test]
fn a_turn_ends_when_it_has_taken_long_and_the_next_begins_with_the_partner() {
    const PARTNER: usize = 4;
    let (mut driver, mut clients) = with_connections(PARTNER + 1);
    for client in &mut clients[..PARTNER] {
        client.write_all(&[0; 8]).unwrap();
    }
    let who = |seen: Vec<(usize, usize)>| seen.iter().map(|(who, _)| *who).collect::<Vec<usize>>();
    assert_eq!(who(turn(&mut driver)), [0, 1], "the second begins while there is time");
    for client in &mut clients {
        client.write_all(&[0; 8]).unwrap();
    }
    assert_eq!(
        who(turn(&mut driver)),
        [PARTNER, 2, 3, 0, 1],
        "then whose turn did not come; others are less urgent now"
    );
}
