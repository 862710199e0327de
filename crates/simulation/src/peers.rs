//! Peers of the overlay on invented time: links with delays, in order; processes that die and begin anew, hosts that fall silent, networks
//! that are cut, peers that are stopped for a while, move, come and go.

mod play;

use crate::{Agenda, Latency};
use contract::{Location, RingId, Span, Time};
use overlay::{CELLS, Effects, Extent, Frame, Member, News, PeerId, Rank, Rings, Role, Settings};
pub use play::{CHECKERS, SETTLES, Wrong, befall, check, mend, people, play};
use std::collections::{BTreeMap, BTreeSet};

/// Whatever is built around a peer of the overlay.
pub trait Inhabitant: Sized {
    /// What such peers say to each other.
    type Word;
    /// One that has just begun.
    fn begin(settings: &Settings, own: Member, now: Time) -> Self;
    /// The overlay in it.
    fn rings(&self) -> &Rings;
    /// It hears a word.
    fn hear(&mut self, now: Time, from: &Member, word: Self::Word, out: &mut Letters<Self::Word>);
    /// A link of it is lost.
    fn lose(&mut self, now: Time, peer: PeerId, out: &mut Letters<Self::Word>);
    /// A link of it is new.
    fn meet(&mut self, now: Time, peer: PeerId, out: &mut Letters<Self::Word>);
    /// Something is due.
    fn wake(&mut self, now: Time, out: &mut Letters<Self::Word>);
    /// When that is.
    fn next_deadline(&self) -> Time;
    /// It is somewhere else.
    fn move_to(&mut self, now: Time, location: Location, out: &mut Letters<Self::Word>);
    /// It goes.
    fn leave(&mut self, now: Time, out: &mut Letters<Self::Word>);
}

/// What a peer has said, to a peer or to whoever is at an address, and what it was told.
#[derive(Debug)]
pub struct Letters<W> {
    /// Words that leave.
    pub sent: Vec<(Option<PeerId>, String, W)>,
    /// What it tells whoever uses it.
    pub told: Vec<News>,
}

impl<W> Default for Letters<W> {
    fn default() -> Letters<W> {
        Letters { sent: Vec::new(), told: Vec::new() }
    }
}

impl Effects for Letters<Frame> {
    fn send(&mut self, to: &Member, frame: Frame) {
        self.sent.push((Some(to.id), to.address.clone(), frame));
    }

    fn send_to_address(&mut self, address: &str, frame: Frame) {
        self.sent.push((None, address.to_owned(), frame));
    }

    fn tell(&mut self, news: News) {
        self.told.push(news);
    }
}

impl Inhabitant for Rings {
    type Word = Frame;

    fn begin(settings: &Settings, own: Member, now: Time) -> Rings {
        Rings::new(settings.clone(), own, now)
    }

    fn rings(&self) -> &Rings {
        self
    }

    fn hear(&mut self, now: Time, from: &Member, word: Frame, out: &mut Letters<Frame>) {
        self.handle_frame(now, from, word, out);
    }

    fn lose(&mut self, now: Time, peer: PeerId, out: &mut Letters<Frame>) {
        self.handle_lost(now, peer, out);
    }

    fn meet(&mut self, _now: Time, _peer: PeerId, _out: &mut Letters<Frame>) {}

    fn wake(&mut self, now: Time, out: &mut Letters<Frame>) {
        self.handle_timeout(now, out);
    }

    fn next_deadline(&self) -> Time {
        Rings::next_deadline(self)
    }

    fn move_to(&mut self, now: Time, location: Location, out: &mut Letters<Frame>) {
        self.handle_moved(now, location, out);
    }

    fn leave(&mut self, now: Time, out: &mut Letters<Frame>) {
        self.handle_leave(now, out);
    }
}

enum What<W> {
    Arrive { from: Member, to: PeerId, word: Box<W> },
    Met { of: PeerId, peer: PeerId },
    Lost { of: PeerId, peer: PeerId },
    Timer { of: usize },
}

/// One of the peers, alive or not.
#[derive(Debug)]
pub struct Player<N> {
    /// Its process, while it is alive.
    pub node: Option<N>,
    /// As others know it.
    pub member: Member,
    /// Which part of the network it is in: parts do not reach each other.
    pub part: u32,
    /// Nothing happens in it until then.
    pub stopped_until: Time,
    /// What it was told in this life.
    pub told: Vec<(Time, News)>,
    /// Whoever it has a link with.
    links: BTreeSet<PeerId>,
    timer: Time,
    /// On each cell, the claim that it knew last.
    ranks: Vec<Rank>,
}

/// All of them, and what is between them.
pub struct World<N: Inhabitant> {
    /// The time.
    pub now: Time,
    /// The peers.
    pub players: Vec<Player<N>>,
    /// Chance.
    pub random: fastrand::Rng,
    /// What they are all told.
    pub settings: Settings,
    /// How long words are under way.
    pub latency: Latency,
    events: Agenda<What<N::Word>>,
    /// When the last frame of a pair arrives.
    last: BTreeMap<(PeerId, PeerId), Time>,
    /// How many words were said.
    pub words: u64,
    /// What must never be, and was.
    pub broken: Vec<String>,
}

/// The area that is covered goes from 0 to this, in both directions.
pub const SIDE: f64 = 80.0;

/// A place.
pub fn at(lat: f64, long: f64) -> Location {
    Location::new(lat, long).expect("invariant: tests name places on earth")
}

impl<N: Inhabitant> World<N> {
    /// Without anybody.
    pub fn new(seed: u64) -> World<N> {
        let extent = Extent::new(at(0.0, 0.0), at(SIDE, SIDE)).expect("invariant: it is not empty");
        let contacts = vec!["p0".to_owned(), "p1".to_owned(), "p2".to_owned()];
        World {
            now: Time(1_700_000_000_000_000_000),
            players: Vec::new(),
            random: fastrand::Rng::with_seed(seed),
            settings: Settings { least: 2, ..Settings::new(extent, contacts) },
            latency: Latency { least: Span::millis(1), typical: Span::millis(8), most: Span::millis(100) },
            events: Agenda::new(),
            last: BTreeMap::new(),
            words: 0,
            broken: Vec::new(),
        }
    }

    /// One more, who has not begun.
    pub fn add(&mut self, location: Location) -> usize {
        let of = self.players.len();
        let ring = RingId::beginning_with(u128::from(self.random.u64(..)), 64);
        let id = PeerId { ring, life: 0 };
        let member = Member { id, name: format!("p{of}"), address: format!("p{of}"), location };
        let player = Player {
            node: None,
            member,
            part: 0,
            stopped_until: Time::ZERO,
            told: Vec::new(),
            links: BTreeSet::new(),
            timer: Time::NEVER,
            ranks: Vec::new(),
        };
        self.players.push(player);
        of
    }

    /// It begins, if it is not there.
    pub fn start(&mut self, of: usize) {
        let now = self.now;
        let player = &mut self.players[of];
        if player.node.is_none() {
            player.member.id.life += 1;
            player.node = Some(N::begin(&self.settings, player.member.clone(), now));
            player.stopped_until = Time::ZERO;
            player.told.clear();
            player.ranks.clear();
            self.after(of, Letters::default());
        }
    }

    /// Its process ends. Unless the host goes with it, links are closed.
    pub fn kill(&mut self, of: usize, silent: bool) {
        if self.players[of].node.take().is_none() {
            return;
        }
        let (id, links) = (self.players[of].member.id, std::mem::take(&mut self.players[of].links));
        for peer in links {
            if let Some(other) = self.index_of(peer) {
                self.players[other].links.remove(&id);
                if !silent && self.players[other].part == self.players[of].part {
                    let at = self.now + self.latency.sample(&mut self.random);
                    self.events.push(at, What::Lost { of: peer, peer: id });
                }
            }
        }
    }

    /// It goes, and says so.
    pub fn leave(&mut self, of: usize) {
        self.with(of, |node, now, out| node.leave(now, out));
        self.kill(of, false);
    }

    /// It moves.
    pub fn move_to(&mut self, of: usize, location: Location) {
        self.players[of].member.location = location;
        self.with(of, |node, now, out| node.move_to(now, location, out));
    }

    fn index_of(&self, peer: PeerId) -> Option<usize> {
        self.players.iter().position(|player| player.member.id == peer && player.node.is_some())
    }

    /// Lets one do something, if it is alive.
    pub fn with(&mut self, of: usize, act: impl FnOnce(&mut N, Time, &mut Letters<N::Word>)) {
        let now = self.now;
        if let Some(node) = self.players[of].node.as_mut() {
            let mut out = Letters::default();
            act(node, now, &mut out);
            self.after(of, out);
        }
    }

    fn after(&mut self, of: usize, out: Letters<N::Word>) {
        for news in out.told {
            if news == News::Tree {
                self.compare_ranks(of);
            }
            self.players[of].told.push((self.now, news));
        }
        for (peer, address, word) in out.sent {
            self.carry(of, peer, &address, word);
        }
        let player = &mut self.players[of];
        if let Some(node) = &player.node {
            let due = node.next_deadline().max(self.now);
            if due < player.timer || player.timer < self.now {
                player.timer = due;
                self.events.push(due, What::Timer { of });
            }
        }
    }

    /// A claim on a cell is only replaced by a higher one.
    fn compare_ranks(&mut self, of: usize) {
        let Player { node: Some(node), ranks, member, .. } = &mut self.players[of] else { return };
        let mut known = vec![Rank::default(); CELLS];
        for claim in node.rings().tree().claims() {
            claim.cells.iter().for_each(|cell| known[usize::from(cell.0)] = claim.rank());
        }
        if let Some((cell, _)) = ranks.iter().enumerate().find(|(cell, before)| known[*cell] < **before) {
            self.broken.push(format!("{} takes an older claim on cell {cell}", member.name));
        }
        *ranks = known;
    }

    fn carry(&mut self, of: usize, to: Option<PeerId>, address: &str, word: N::Word) {
        self.words += 1;
        // What a link knows of a peer is from when it was opened.
        let own = Member { location: at(0.0, 0.0), ..self.players[of].member.clone() };
        let there = self.players.iter().position(|player| player.member.address == *address);
        let Some(there) = there else { return };
        let way = self.latency.sample(&mut self.random);
        if self.players[there].part != self.players[of].part {
            // Nothing comes back, until the attempt is given up.
            if let Some(peer) = to.filter(|_| self.random.bool()) {
                let at = self.now + Span::secs(3);
                self.events.push(at, What::Lost { of: own.id, peer });
            }
            return;
        }
        let id = self.players[there].member.id;
        if self.players[there].node.is_none() || to.is_some_and(|to| to != id) {
            if let Some(peer) = to {
                let at = self.now + way + way;
                self.events.push(at, What::Lost { of: own.id, peer });
            }
            return;
        }
        if self.players[of].links.insert(id) {
            self.players[there].links.insert(own.id);
            let at = self.now + way;
            self.events.push(at, What::Met { of: own.id, peer: id });
            self.events.push(at, What::Met { of: id, peer: own.id });
        }
        let last = self.last.entry((own.id, id)).or_insert(Time::ZERO);
        let at = (self.now + way).max(*last);
        *last = at;
        self.events.push(at, What::Arrive { from: own, to: id, word: Box::new(word) });
    }

    /// Until then, or until nothing happens any more.
    pub fn run_until(&mut self, until: Time) {
        while self.events.next_at().is_some_and(|at| at <= until) {
            let Some((at, what)) = self.events.pop() else { break };
            self.now = at;
            self.happen(what);
        }
        self.now = until;
    }

    /// So long.
    pub fn run_for(&mut self, span: Span) {
        self.run_until(self.now + span);
    }

    fn is_stopped(&self, of: usize) -> bool {
        self.players[of].stopped_until > self.now
    }

    fn happen(&mut self, what: What<N::Word>) {
        let of = match &what {
            What::Arrive { to, .. } => self.index_of(*to),
            What::Lost { of, .. } | What::Met { of, .. } => self.index_of(*of),
            What::Timer { of } => Some(*of),
        };
        let Some(of) = of else { return };
        if self.is_stopped(of) {
            // It waits until the process goes on.
            let at = self.players[of].stopped_until;
            if matches!(what, What::Timer { .. }) {
                self.players[of].timer = at;
            }
            return self.events.push(at, what);
        }
        match what {
            What::Arrive { from, word, .. } => {
                let other = self.players.iter().position(|player| player.member.id == from.id);
                if other.is_some_and(|other| self.players[other].part == self.players[of].part) {
                    self.with(of, |node, now, out| node.hear(now, &from, *word, out));
                }
            }
            What::Met { peer, .. } => self.with(of, |node, now, out| node.meet(now, peer, out)),
            What::Lost { peer, .. } => {
                self.players[of].links.remove(&peer);
                self.with(of, |node, now, out| node.lose(now, peer, out));
            }
            What::Timer { .. } => {
                self.players[of].timer = Time::NEVER;
                self.with(of, |node, now, out| node.wake(now, out));
            }
        }
    }

    /// Those who are, and the overlay in each.
    pub fn alive(&self) -> impl Iterator<Item = (&Player<N>, &Rings)> {
        self.players.iter().filter_map(|player| player.node.as_ref().map(|node| (player, node.rings())))
    }

    /// Whether it is alive, and stands so.
    pub fn is(&self, of: usize, role: Role) -> bool {
        self.players[of].node.as_ref().is_some_and(|node| node.rings().role() == role)
    }
}
