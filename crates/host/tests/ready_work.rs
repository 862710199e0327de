//! What becomes ready late in a turn is done in that turn.
#![allow(clippy::unwrap_used, reason = "a test")]

use contract::{Span, Time};
use engine::Node;
use wire::{Effects, LinkChange, LinkId, PeerIndex};

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
