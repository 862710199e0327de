//! One peer of the overlay: regions of a quadtree, each a ring with a master (A1 to A4, §12.8).
//!
//! The problem: peers come, die and move, networks are cut in two and joined again. At any time a peer must know which region a place is
//! in, who is in its own region and so who has which part of the ring, and in the end all must know the same.
//!
//! The idea: a region is what a master claims in the [`Tree`], which all peers have; its members are what the master says in the
//! [`Table`], which all members have. Where the members of a region lose their master they elect another, which claims the same cells
//! anew. A region that has become large is split, one that has become small is adopted by a neighbour; a region that has died out is taken
//! over by the master that watches its master. All four are claims, and claims of any order give the same tree.
//!
//! The invariant: a peer acts as master only for cells on which its own claim holds.
//!
//! What it leaves to others: links, the names of peers (certificates), and what is kept at places of the ring.

mod electing;
mod joining;
mod mastering;

use crate::frame::Frame;
use crate::table::Table;
use crate::tree::{Claim, Rank, Tree};
use crate::{Cells, Extent, Member, PeerId};
use contract::{Location, RingId, Span, Time};
use std::collections::{BTreeMap, VecDeque};

/// What a deployment has set; the same for all its peers.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What is covered.
    pub extent: Extent,
    /// How many peers a region has at least, and so how many have a copy of what is kept (n).
    pub least: usize,
    /// How many peers a region may have before it is split.
    pub capacity: usize,
    /// How often a member and its master tell each other that they live.
    pub alive_every: Span,
    /// How many of these may be missing.
    pub misses: u32,
    /// After how long without an answer from any contact a peer begins a tree of its own.
    pub discovery: Span,
    /// How long a region may be too small, or without any master, before its neighbours act.
    pub grace: Span,
    /// How long a peer may be outside of its region before it changes.
    pub outside: Span,
    /// Where others may be reached: host and port.
    pub contacts: Vec<String>,
}

impl Settings {
    /// As the specification has them (§6), for this area and these contacts.
    pub fn new(extent: Extent, contacts: Vec<String>) -> Settings {
        Settings {
            extent,
            least: 3,
            capacity: 4,
            alive_every: Span::millis(1_500),
            misses: 3,
            discovery: Span::secs(2),
            grace: Span::secs(10),
            outside: Span::secs(5),
            contacts,
        }
    }

    /// How long somebody may be silent.
    fn patience(&self) -> Span {
        self.alive_every * u64::from(self.misses)
    }
}

/// What a peer does to the outside.
pub trait Effects {
    /// Says something to a peer. It is connected to, if it is not.
    fn send(&mut self, to: &Member, frame: Frame);
    /// Says something to whoever is at an address.
    fn send_to_address(&mut self, address: &str, frame: Frame);
    /// Something has happened that whoever uses the overlay wants to know.
    fn tell(&mut self, news: News);
}

/// What has happened.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum News {
    /// It has begun a tree, as nobody answered.
    Founded,
    /// Who has which part of the own ring has changed.
    Region,
    /// Who has which part of the area has changed.
    Tree,
    /// It masters its region now.
    Master,
    /// Another does.
    NoMaster,
    /// Another peer with the same name has begun later. This one takes no part any more.
    Replaced,
    /// The region has as many members as it can. It is tried again.
    Full,
}

/// What a peer is doing.
#[derive(Clone, Debug)]
enum State {
    /// It looks for others.
    Seeking,
    /// It has asked the holder of its cell to be let in, or is going to.
    Joining { rank: Rank, since: Time, ask_at: Time },
    /// It is in a region.
    Member,
    /// It lacks a master, and a new one is chosen.
    Electing(Box<electing::Round>),
    /// It masters a region.
    Master(Box<mastering::Reign>),
    /// It takes no part: it has left, or another has its name.
    Out,
}

/// How somebody goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Going {
    /// It has said so.
    Leaves,
    /// It does not answer. It may come again.
    IsLost,
}

/// How a peer stands, for a person.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It has found nobody yet, or nobody that takes it in.
    Seeking,
    /// It is in a region.
    Member,
    /// Its region has lost its master.
    Electing,
    /// It masters its region.
    Master,
    /// It has left, or another peer has its name.
    Out,
}

/// How often a peer that is alone asks around.
const ASK_EVERY: Span = Span::millis(500);
/// How many peers that were lost are remembered, to be asked whether they are there again.
const STRAYS_MAX: usize = 32;
/// How often one of them is asked.
const STRAY_EVERY: Span = Span::secs(5);
/// How much later than due a peer may be served before it takes the lateness for its own.
const LATENESS: Span = Span::millis(500);

/// A peer of the overlay.
#[derive(Clone, Debug)]
pub struct Rings {
    settings: Settings,
    own: Member,
    tree: Tree,
    table: Table,
    state: State,
    /// When the master was last heard.
    master_heard: Time,
    /// When the next word that this one lives is due, or the next attempt to find others.
    beat_at: Time,
    /// Who was lost, oldest first: addresses.
    strays: VecDeque<String>,
    stray_at: Time,
    /// Whom to ask next of those who are known.
    turn: usize,
    /// Since when its location is in another region.
    outside_since: Option<Time>,
    /// When others were last asked what they know.
    asked_at: Time,
    /// Since when it is in no region.
    lost_since: Option<Time>,
    /// A claim whose master could not be reached, and until when that is not tried again.
    unreachable: Option<(Rank, Time)>,
}

impl Rings {
    /// A peer that is about to look for others.
    pub fn new(settings: Settings, own: Member, now: Time) -> Rings {
        Rings {
            settings,
            own,
            tree: Tree::new(),
            table: Table::default(),
            state: State::Seeking,
            master_heard: now,
            beat_at: now,
            strays: VecDeque::new(),
            stray_at: now,
            turn: 0,
            outside_since: None,
            asked_at: Time::ZERO,
            lost_since: None,
            unreachable: None,
        }
    }

    /// Itself, as others are told.
    pub fn own(&self) -> &Member {
        &self.own
    }

    /// Who has which part of the area.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Who is in the own region.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// How it stands.
    pub fn role(&self) -> Role {
        match &self.state {
            State::Seeking | State::Joining { .. } => Role::Seeking,
            State::Member => Role::Member,
            State::Electing(_) => Role::Electing,
            State::Master(_) => Role::Master,
            State::Out => Role::Out,
        }
    }

    /// The cells of its own region: those that the claim of its table's master holds.
    pub fn region(&self) -> Cells {
        self.claimed(self.table.reign)
    }

    fn claimed(&self, rank: Rank) -> Cells {
        self.tree.claim(rank).map_or(Cells::NONE, |claim| claim.cells)
    }

    /// Hears a frame of a peer.
    pub fn handle_frame(&mut self, now: Time, from: &Member, frame: Frame, out: &mut impl Effects) {
        if from.id == self.own.id || matches!(self.state, State::Out) {
            return;
        }
        if from.id.ring == self.own.id.ring {
            return self.meet_namesake(from.id, out);
        }
        match frame {
            Frame::Discover => self.discovered(from, out),
            Frame::Tree { claims } => self.hear_tree(now, from, &claims, out),
            Frame::Join { location } => self.joined(now, Member { location, ..from.clone() }, out),
            Frame::Table { reign, version, members } => {
                let members = members.into_iter().map(|member| (member.id.ring, member)).collect();
                self.hear_table(now, Table { reign, version, members }, out);
            }
            Frame::Changed { reign, version, put, gone } => {
                self.hear_change(now, reign, version, (put, gone), out);
            }
            Frame::Full => self.refused(now, from.id, out),
            Frame::Alive { reign, version, tree, asks } => {
                self.hear_alive(now, from, (reign, version), asks, out);
                if tree != self.tree.digest() {
                    out.send(from, self.tree_frame());
                }
            }
            Frame::Stranger => self.hear_stranger(now, from.id),
            Frame::Leave => self.member_is_gone(now, from.id, Going::Leaves),
            Frame::Elect { reign, from: side, word } => self.hear_word(now, from, reign, (side, word), out),
            Frame::Reigns { reign } => self.hear_that_it_reigns(now, reign),
            Frame::Probe { reign } => self.probed(now, from, reign, out),
            Frame::Present { reign } => self.hear_present(from.id, reign),
        }
    }

    /// The link to a peer is closed, or could not be opened.
    pub fn handle_lost(&mut self, now: Time, peer: PeerId, out: &mut impl Effects) {
        match &self.state {
            State::Master(_) => self.member_is_gone(now, peer, Going::IsLost),
            State::Electing(_) => self.lost_in_election(now, peer, out),
            State::Member if self.table.reign.master == peer => self.elect(now, out),
            State::Joining { rank, .. } if rank.master == peer => self.cannot_join(now, *rank, out),
            _ => {}
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time, out: &mut impl Effects) {
        let due = self.next_deadline();
        if due > now {
            return;
        }
        if now.since(due) > LATENESS {
            self.forgive(now);
        }
        match &self.state {
            State::Seeking => self.go_on_seeking(now, out),
            State::Joining { rank, since, .. } => self.go_on_joining(now, *rank, *since, out),
            State::Member => self.beat_as_member(now, out),
            State::Electing(_) => self.go_on_electing(now, out),
            State::Master(_) => self.go_on_mastering(now, out),
            State::Out => {}
        }
        self.check_outside(now, out);
    }

    /// When something is due next.
    pub fn next_deadline(&self) -> Time {
        let due = match &self.state {
            State::Seeking => self.beat_at,
            State::Joining { ask_at, .. } => *ask_at,
            State::Member => self.beat_at.min(self.master_heard + self.settings.patience()),
            State::Electing(round) => round.due(),
            State::Master(reign) => reign.due().min(self.beat_at),
            State::Out => Time::NEVER,
        };
        match self.outside_since {
            Some(since) if !matches!(self.state, State::Out) => due.min(since + self.settings.outside),
            _ => due,
        }
    }

    /// It is somewhere else now. Its region changes when it has been outside of it for a while.
    pub fn handle_moved(&mut self, now: Time, location: Location, out: &mut impl Effects) {
        self.own.location = location;
        let is_inside = self.region().contains(self.settings.extent.cell_of(location));
        let is_in_region = matches!(self.state, State::Member | State::Master(_));
        self.outside_since = (is_in_region && !is_inside).then(|| self.outside_since.unwrap_or(now));
        if is_inside {
            match &self.state {
                State::Member => self.say_to_master(self.join_frame(), out),
                State::Master(_) => self.enter(now, self.own.clone()),
                // Whatever it joins, it is with its new location.
                _ => {}
            }
        }
    }

    fn check_outside(&mut self, now: Time, out: &mut impl Effects) {
        if self.outside_since.is_none_or(|since| now < since + self.settings.outside) {
            return;
        }
        self.outside_since = None;
        match &self.state {
            State::Member => {
                self.say_to_master(Frame::Leave, out);
                self.follow_holder(now, out);
            }
            State::Master(_) => self.hand_over(now, out),
            _ => {}
        }
    }

    /// It goes, and says so.
    pub fn handle_leave(&mut self, now: Time, out: &mut impl Effects) {
        match &self.state {
            State::Member => self.say_to_master(Frame::Leave, out),
            State::Master(_) => self.hand_over(now, out),
            _ => {}
        }
        self.state = State::Out;
    }

    fn say_to_master(&self, frame: Frame, out: &mut impl Effects) {
        if let Some(claim) = self.tree.held_by(self.table.reign.master) {
            out.send(&claim.master, frame);
        }
    }

    fn meet_namesake(&mut self, other: PeerId, out: &mut impl Effects) {
        if other.life > self.own.id.life {
            self.state = State::Out;
            out.tell(News::Replaced);
        }
    }

    /// This one was not served for a while: what it has not heard, it may have missed.
    fn forgive(&mut self, now: Time) {
        self.master_heard = now;
        if let State::Master(reign) = &mut self.state {
            reign.forgive(now);
        }
    }

    /// The claim on the cell that it is in.
    fn holder(&self) -> Option<&Claim> {
        self.tree.holder(self.settings.extent.cell_of(self.own.location))
    }

    /// All claims, to be sent.
    fn tree_frame(&self) -> Frame {
        Frame::Tree { claims: self.tree.claims().cloned().collect() }
    }

    /// That it wants to be in a region, to be sent.
    fn join_frame(&self) -> Frame {
        Frame::Join { location: self.own.location }
    }

    /// That it lives, to be sent.
    fn alive_frame(&self, asks: bool) -> Frame {
        let Table { reign, version, .. } = self.table;
        Frame::Alive { reign, version, tree: self.tree.digest(), asks }
    }

    /// Enters a claim of the next epoch on cells, its own or somebody else's.
    fn claim(&mut self, master: &Member, cells: Cells) {
        let epoch = self.tree.epoch_of(cells).saturating_add(1);
        self.tree.hear(&Claim { epoch, master: master.clone(), cells });
    }

    fn remember_stray(&mut self, address: &str) {
        if address != self.own.address && !self.strays.iter().any(|stray| stray == address) {
            if self.strays.len() == STRAYS_MAX {
                self.strays.pop_front();
            }
            self.strays.push_back(address.to_owned());
        }
    }

    /// Those whom it knows, besides itself: masters and the members of its region.
    fn known(&self) -> BTreeMap<RingId, &Member> {
        let mut known = self.tree.masters();
        known.extend(self.table.members.iter().map(|(place, member)| (*place, member)));
        known.remove(&self.own.id.ring);
        known
    }
}

#[cfg(test)]
mod tests;
