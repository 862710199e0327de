//! A node in the turns of a driver, with links at whose other ends a test is: what comes, and when, is up to that.
#![allow(dead_code, reason = "each test file uses its own part of it")]

use contract::Time;
use engine::Node;
use engine::driving::{Turn, TurnState, hear_news, serve, take_turn};
use simulation::Wires;
use std::collections::BTreeMap;
use wire::{LinkChange, LinkId, PeerIndex};

pub struct Seat<N> {
    pub now: Time,
    pub node: N,
    pub wires: Wires,
    /// What has come on links and was not consumed.
    pub kept: BTreeMap<LinkId, Vec<u8>>,
    /// The number of the next link.
    pub links: u32,
    news: Vec<News>,
    turn: TurnState,
}

/// What a node is to be told in its next turn.
enum News {
    Changed(LinkId, LinkChange),
    DialFailed { peer: PeerIndex, refused: bool },
}

impl<N: Node> Seat<N> {
    pub fn new(node: N, now: Time) -> Seat<N> {
        let (wires, kept, turn) = (Wires::default(), BTreeMap::new(), TurnState::default());
        Seat { now, node, wires, kept, links: 0, news: Vec::new(), turn }
    }

    /// There is another link.
    pub fn open(&mut self, change: LinkChange) -> LinkId {
        let link = LinkId(self.links);
        self.links += 1;
        self.change(link, change);
        link
    }

    pub fn change(&mut self, link: LinkId, change: LinkChange) {
        self.news.push(News::Changed(link, change));
    }

    /// A link is gone, and another one has its number.
    pub fn reopen(&mut self, link: LinkId, change: LinkChange) {
        self.change(link, LinkChange::Closed);
        self.kept.remove(&link);
        self.wires.forget(link);
        self.change(link, change);
    }

    pub fn dial_failed(&mut self, peer: PeerIndex, refused: bool) {
        self.news.push(News::DialFailed { peer, refused });
    }

    /// Bytes have come.
    pub fn bring(&mut self, link: LinkId, bytes: &[u8]) {
        self.kept.entry(link).or_default().extend_from_slice(bytes);
    }

    pub fn turn(&mut self) {
        take_turn(self);
    }

    /// Whether the next turn has something to do that is not due by time, but for what was not consumed.
    pub fn is_busy(&self) -> bool {
        self.turn.busy || !self.news.is_empty() || !self.wires.again.is_empty()
    }

    /// Turns until there is nothing more to do.
    pub fn rest(&mut self) {
        self.turn();
        while self.is_busy() {
            self.turn();
        }
    }

    fn present(&mut self, link: LinkId) -> bool {
        self.wires.held.remove(&link);
        let Some(mut bytes) = self.kept.remove(&link) else { return false };
        let used = self.node.handle_bytes(self.now, link, &bytes, &mut self.wires);
        bytes.drain(..used);
        if !bytes.is_empty() {
            self.kept.insert(link, bytes);
        }
        true
    }
}

impl<N: Node> Turn for Seat<N> {
    type Ready = LinkId;

    fn state(&mut self) -> &mut TurnState {
        &mut self.turn
    }
    fn now(&self) -> Time {
        self.now
    }
    fn read_clock(&mut self) -> Time {
        self.now
    }
    fn begin(&mut self) {
        hear_news(self);
    }
    fn serve_ready(&mut self, flooding: bool) -> bool {
        let kept = self.kept.keys().copied().filter(|link| !flooding && !self.wires.held.contains(link));
        kept.collect::<Vec<_>>().iter().for_each(|link| _ = serve(self, link));
        false
    }
    fn read(&mut self, link: &LinkId) -> (Time, bool) {
        let came = self.present(*link);
        (self.now, came)
    }
    fn tell_news(&mut self) -> bool {
        let (news, again) = (std::mem::take(&mut self.news), std::mem::take(&mut self.wires.again));
        for news in &news {
            match *news {
                News::Changed(link, change) => {
                    self.node.handle_link(self.now, link, change, &mut self.wires);
                }
                News::DialFailed { peer, refused } => {
                    self.node.handle_dial_failed(self.now, peer, refused, &mut self.wires);
                }
            }
        }
        again.iter().for_each(|link| _ = self.present(*link));
        !news.is_empty() || !again.is_empty()
    }
    fn settle_guests(&mut self) {}
    fn portion(&mut self, time: Time) -> bool {
        self.node.run(time, &mut self.wires)
    }
    /// What is written stays there until a test looks.
    fn send(&mut self) {}
    fn expire(&mut self, _time: Time) {}
    fn next_deadline(&self) -> Time {
        self.node.next_deadline()
    }
    fn handle_timeout(&mut self, time: Time) {
        self.node.handle_timeout(time, &mut self.wires);
    }
    /// The same goes for what the node asks for.
    fn dial(&mut self, _time: Time) {}
    fn end(&mut self, time: Time) {
        if self.node.awaits_leaving() {
            self.node.handle_left(time, &mut self.wires);
        }
    }
}
