//! Peers on invented time: links with delays, in order; processes that die and begin anew, hosts that fall silent, networks that are cut,
//! peers that are stopped for a while, move, come and go.

#![allow(dead_code, reason = "each test uses its own part of the world")]

use contract::{Location, RingId, Span, Time};
use overlay::{CELLS, Effects, Extent, Frame, Member, News, PeerId, Rank, Rings, Role, Settings};
use simulation::{Agenda, Latency};
use std::collections::{BTreeMap, BTreeSet};

enum What {
    Arrive { from: Member, to: PeerId, frame: Box<Frame> },
    Lost { of: PeerId, peer: PeerId },
    Timer { of: usize },
}

pub struct Player {
    pub rings: Option<Rings>,
    pub member: Member,
    /// Which part of the network it is in: parts do not reach each other.
    pub part: u32,
    pub stopped_until: Time,
    pub told: Vec<(Time, News)>,
    /// Whoever it has a link with.
    links: BTreeSet<PeerId>,
    timer: Time,
    /// On each cell, the claim that it knew last.
    ranks: Vec<Rank>,
}

pub struct World {
    pub now: Time,
    pub players: Vec<Player>,
    pub random: fastrand::Rng,
    pub settings: Settings,
    pub latency: Latency,
    events: Agenda<What>,
    /// When the last frame of a pair arrives.
    last: BTreeMap<(PeerId, PeerId), Time>,
    pub frames: u64,
    /// What must never be, and was.
    pub broken: Vec<String>,
}

#[derive(Default)]
struct Did {
    sent: Vec<(Option<Member>, String, Frame)>,
    told: Vec<News>,
}

impl Effects for Did {
    fn send(&mut self, to: &Member, frame: Frame) {
        self.sent.push((Some(to.clone()), to.address.clone(), frame));
    }

    fn send_to_address(&mut self, address: &str, frame: Frame) {
        self.sent.push((None, address.to_owned(), frame));
    }

    fn tell(&mut self, news: News) {
        self.told.push(news);
    }
}

pub const SIDE: f64 = 80.0;

pub fn at(lat: f64, long: f64) -> Location {
    Location::new(lat, long).unwrap()
}

impl World {
    pub fn new(seed: u64) -> World {
        let extent = Extent::new(at(0.0, 0.0), at(SIDE, SIDE)).unwrap();
        let contacts = vec!["p0".to_owned(), "p1".to_owned(), "p2".to_owned()];
        World {
            now: Time(1_700_000_000_000_000_000),
            players: Vec::new(),
            random: fastrand::Rng::with_seed(seed),
            settings: Settings { least: 2, ..Settings::new(extent, contacts) },
            latency: Latency { least: Span::millis(1), typical: Span::millis(8), most: Span::millis(100) },
            events: Agenda::new(),
            last: BTreeMap::new(),
            frames: 0,
            broken: Vec::new(),
        }
    }

    pub fn add(&mut self, location: Location) -> usize {
        let of = self.players.len();
        let ring = RingId::beginning_with(u128::from(self.random.u64(..)), 64);
        let id = PeerId { ring, life: 0 };
        let member = Member { id, name: format!("p{of}"), address: format!("p{of}"), location };
        let player = Player {
            rings: None,
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

    pub fn start(&mut self, of: usize) {
        let now = self.now;
        let player = &mut self.players[of];
        if player.rings.is_none() {
            player.member.id.life += 1;
            player.rings = Some(Rings::new(self.settings.clone(), player.member.clone(), now));
            player.stopped_until = Time::ZERO;
            player.told.clear();
            player.ranks.clear();
            self.after(of, Did::default());
        }
    }

    /// Its process ends. Unless the host goes with it, links are closed.
    pub fn kill(&mut self, of: usize, silent: bool) {
        if self.players[of].rings.take().is_none() {
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

    pub fn leave(&mut self, of: usize) {
        self.with(of, |rings, now, did| rings.handle_leave(now, did));
        self.kill(of, false);
    }

    pub fn move_to(&mut self, of: usize, location: Location) {
        self.players[of].member.location = location;
        self.with(of, |rings, now, did| rings.handle_moved(now, location, did));
    }

    fn index_of(&self, peer: PeerId) -> Option<usize> {
        self.players.iter().position(|player| player.member.id == peer && player.rings.is_some())
    }

    fn with(&mut self, of: usize, act: impl FnOnce(&mut Rings, Time, &mut Did)) {
        let now = self.now;
        if let Some(rings) = self.players[of].rings.as_mut() {
            let mut did = Did::default();
            act(rings, now, &mut did);
            self.after(of, did);
        }
    }

    fn after(&mut self, of: usize, did: Did) {
        for news in did.told {
            if news == News::Tree {
                self.compare_ranks(of);
            }
            self.players[of].told.push((self.now, news));
        }
        for (member, address, frame) in did.sent {
            self.carry(of, member.map(|member| member.id), &address, frame);
        }
        let player = &mut self.players[of];
        if let Some(rings) = &player.rings {
            let due = rings.next_deadline().max(self.now);
            if due < player.timer || player.timer < self.now {
                player.timer = due;
                self.events.push(due, What::Timer { of });
            }
        }
    }

    /// A claim on a cell is only replaced by a higher one.
    fn compare_ranks(&mut self, of: usize) {
        let Player { rings: Some(rings), ranks, member, .. } = &mut self.players[of] else { return };
        let mut known = vec![Rank::default(); CELLS];
        for claim in rings.tree().claims() {
            claim.cells.iter().for_each(|cell| known[usize::from(cell.0)] = claim.rank());
        }
        if let Some((cell, _)) = ranks.iter().enumerate().find(|(cell, before)| known[*cell] < **before) {
            self.broken.push(format!("{} takes an older claim on cell {cell}", member.name));
        }
        *ranks = known;
    }

    fn carry(&mut self, of: usize, to: Option<PeerId>, address: &str, frame: Frame) {
        self.frames += 1;
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
        if self.players[there].rings.is_none() || to.is_some_and(|to| to != id) {
            if let Some(peer) = to {
                let at = self.now + way + way;
                self.events.push(at, What::Lost { of: own.id, peer });
            }
            return;
        }
        self.players[of].links.insert(id);
        self.players[there].links.insert(own.id);
        let last = self.last.entry((own.id, id)).or_insert(Time::ZERO);
        let at = (self.now + way).max(*last);
        *last = at;
        self.events.push(at, What::Arrive { from: own, to: id, frame: Box::new(frame) });
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

    pub fn run_for(&mut self, span: Span) {
        self.run_until(self.now + span);
    }

    fn is_stopped(&self, of: usize) -> bool {
        self.players[of].stopped_until > self.now
    }

    fn happen(&mut self, what: What) {
        let of = match &what {
            What::Arrive { to, .. } => self.index_of(*to),
            What::Lost { of, .. } => self.index_of(*of),
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
            What::Arrive { from, frame, .. } => {
                let other = self.players.iter().position(|player| player.member.id == from.id);
                if other.is_some_and(|other| self.players[other].part == self.players[of].part) {
                    self.with(of, |rings, now, did| rings.handle_frame(now, &from, *frame, did));
                }
            }
            What::Lost { peer, .. } => self.with(of, |rings, now, did| rings.handle_lost(now, peer, did)),
            What::Timer { .. } => {
                self.players[of].timer = Time::NEVER;
                self.with(of, |rings, now, did| rings.handle_timeout(now, did));
            }
        }
    }

    pub fn alive(&self) -> impl Iterator<Item = (&Player, &Rings)> {
        self.players.iter().filter_map(|player| player.rings.as_ref().map(|rings| (player, rings)))
    }

    pub fn is(&self, of: usize, role: Role) -> bool {
        self.players[of].rings.as_ref().is_some_and(|rings| rings.role() == role)
    }
}
