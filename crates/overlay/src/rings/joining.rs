//! How a peer finds others, gets into a region and stays in it (A1).

use super::{ASK_EVERY, Effects, News, Rings, State};
use crate::frame::Frame;
use crate::table::Table;
use crate::tree::{Claim, Rank, Tree};
use crate::{Cells, Member, PeerId};
use contract::{Mutant, Span, Time};

/// How long a new master has to send its table before it is asked for it.
const TABLE_COMES: Span = Span::millis(300);
/// How often a master is asked to be let in.
const JOIN_EVERY: Span = Span::secs(1);
/// How long to wait before a master that others hear is asked again.
const STILL_REIGNS: Span = Span::millis(200);
/// How long to wait before a full region is asked again.
const FULL_FOR: Span = Span::secs(5);
/// How far the epoch of a claim may be above all that were heard of: so many splits and elections happen to nobody who is cut off.
const EPOCHS_AHEAD_MAX: u64 = 1 << 20;
/// Of those who are known, how many a peer that seeks asks at a time.
const ASKED_AT_ONCE: usize = 4;

impl Rings {
    pub(super) fn seek(&mut self, now: Time) {
        self.state = State::Seeking;
        self.beat_at = now.max(self.asked_at + ASK_EVERY);
        self.lost_since.get_or_insert(now);
    }

    /// Asks contacts and some of those who are known. Claims where nobody answers.
    pub(super) fn go_on_seeking(&mut self, now: Time, out: &mut impl Effects) {
        let since = *self.lost_since.get_or_insert(now);
        // Where somebody was, what it had is taken over when nobody else does.
        let is_new = self.tree.covered().is_empty();
        let waits = if is_new { self.settings.discovery } else { self.settings.grace * 2 };
        if now.since(since) >= waits {
            if is_new {
                out.tell(News::Founded);
            }
            let cells = self.holder().map_or(Cells::ALL, |claim| claim.cells);
            self.claim(&self.own.clone(), cells);
            return self.tree_has_changed(now, out);
        }
        self.asked_at = now;
        self.beat_at = now + ASK_EVERY;
        for contact in self.settings.contacts.iter().filter(|contact| **contact != self.own.address) {
            out.send_to_address(contact, Frame::Discover);
        }
        let known = self.known();
        let first = self.turn % known.len().max(1);
        for member in known.values().cycle().skip(first).take(known.len().min(ASKED_AT_ONCE)) {
            out.send(member, Frame::Discover);
        }
        self.turn = first + ASKED_AT_ONCE;
    }

    pub(super) fn discovered(&mut self, from: &Member, out: &mut impl Effects) {
        if !self.tree.covered().is_empty() {
            out.send(from, self.tree_frame());
        }
    }

    /// Hears what somebody knows, and tells it what it does not.
    pub(super) fn hear_tree(&mut self, now: Time, from: &Member, claims: &[Claim], out: &mut impl Effects) {
        // One that says that it is far ahead of all others would be the last to claim anything.
        let epoch_max = self.tree.epoch_of(Cells::ALL).saturating_add(EPOCHS_AHEAD_MAX);
        if claims.iter().any(|claim| claim.epoch > epoch_max) {
            return;
        }
        let mut theirs = Tree::new();
        let mut has_changed = false;
        for claim in claims {
            theirs.hear(claim);
            has_changed |= self.tree.hear(claim);
        }
        if theirs.digest() != self.tree.digest() || Mutant::AskAgainAtOnce.is_on() {
            out.send(from, self.tree_frame());
        }
        if has_changed {
            self.pass_tree_on(from.id, out);
            self.tree_has_changed(now, out);
        } else if matches!(self.state, State::Seeking) {
            self.follow_holder(now, out);
        }
    }

    /// Does what the tree says, which is another one now.
    pub(super) fn tree_has_changed(&mut self, now: Time, out: &mut impl Effects) {
        out.tell(News::Tree);
        let own = self.own.id;
        let namesake = self.tree.masters().get(&own.ring).map(|master| master.id);
        if let Some(newer) = namesake.filter(|master| master.life > own.life) {
            return self.meet_namesake(newer, out);
        }
        match &self.state {
            State::Master(_) => self.reign_has_changed(now, out),
            State::Out => {}
            _ => self.follow_holder(now, out),
        }
    }

    /// Goes to whoever holds its cell, or takes the region up if that is itself.
    pub(super) fn follow_holder(&mut self, now: Time, out: &mut impl Effects) {
        let Some(holder) = self.holder().cloned() else { return };
        let own = self.own.id;
        if self.tree.held_by(own).is_some() {
            return self.take_up(now, out);
        }
        if holder.master.id.ring == own.ring {
            // Its own, from before it began anew: nobody else has this place.
            self.claim(&self.own.clone(), holder.cells);
            return self.tree_has_changed(now, out);
        }
        let rank = holder.rank();
        match &self.state {
            State::Joining { rank: asked, .. } if *asked == rank => {}
            State::Member if self.table.reign == rank => {}
            // It is about to leave its region, or comes back.
            State::Member if self.outside_since.is_some() && !self.region().is_empty() => {}
            State::Electing(round) if round.is_about(rank) => {}
            State::Seeking if self.unreachable.is_some_and(|(other, until)| other == rank && now < until) => {
            }
            State::Seeking => self.join(now, rank, now),
            _ => self.join(now, rank, now + TABLE_COMES),
        }
    }

    fn join(&mut self, now: Time, rank: Rank, ask_at: Time) {
        self.outside_since = None;
        self.state = State::Joining { rank, since: now, ask_at };
    }

    pub(super) fn go_on_joining(&mut self, now: Time, rank: Rank, since: Time, out: &mut impl Effects) {
        if now.since(since) >= self.settings.patience() {
            return self.cannot_join(now, rank, out);
        }
        match self.holder() {
            Some(claim) if claim.rank() == rank => {
                out.send(&claim.master, self.join_frame());
                self.state = State::Joining { rank, since, ask_at: now + JOIN_EVERY };
            }
            Some(claim) => {
                // It has moved since, or somebody else has its cell.
                let rank = claim.rank();
                self.join(now, rank, now);
            }
            None => self.seek(now),
        }
    }

    /// Who should let it in cannot be reached. If it was a member there, that is over for all of them.
    pub(super) fn cannot_join(&mut self, now: Time, rank: Rank, out: &mut impl Effects) {
        if self.table.reign == rank && self.table.has(self.own.id) {
            self.elect(now, out);
        } else {
            self.unreachable = Some((rank, now + JOIN_EVERY));
            self.seek(now);
        }
    }

    /// It has been told that its master lives: it tries that one again.
    pub(super) fn hear_that_it_reigns(&mut self, now: Time, reign: Rank) {
        if let State::Electing(round) = &self.state
            && round.is_about(reign)
        {
            self.join(now, reign, now + STILL_REIGNS);
        }
    }

    /// There is no room for it.
    pub(super) fn refused(&mut self, now: Time, from: PeerId, out: &mut impl Effects) {
        if let State::Joining { rank, .. } = &self.state
            && rank.master == from
        {
            self.state = State::Joining { rank: *rank, since: now, ask_at: now + FULL_FOR };
            out.tell(News::Full);
        }
    }

    /// The master does not count it among its members.
    pub(super) fn hear_stranger(&mut self, now: Time, from: PeerId) {
        if matches!(self.state, State::Member) && self.table.reign.master == from {
            self.join(now, self.table.reign, now);
        }
    }

    /// A table of the claim that holds on its cell, or of the region that it is about to leave.
    pub(super) fn hear_table(&mut self, now: Time, table: Table, out: &mut impl Effects) {
        if let Some(other) =
            table.members.get(&self.own.id.ring).filter(|other| other.id.life > self.own.id.life)
        {
            return self.meet_namesake(other.id, out);
        }
        let is_due = self.holder().is_some_and(|holder| holder.rank() == table.reign)
            || matches!(self.state, State::Member) && self.table.reign == table.reign;
        let is_newer = table.reign != self.table.reign || table.version >= self.table.version;
        if !is_due || !is_newer || !table.has(self.own.id) || table.reign.master == self.own.id {
            return;
        }
        if !matches!(self.state, State::Member) {
            self.state = State::Member;
            self.lost_since = None;
            self.beat_at = now + self.settings.alive_every;
        }
        self.master_heard = now;
        if self.table != table {
            self.table = table;
            out.tell(News::Region);
        }
        if self.is_somewhere_else() {
            self.say_to_master(self.join_frame(), out);
        }
    }

    pub(super) fn hear_change(
        &mut self,
        now: Time,
        reign: Rank,
        version: u64,
        (put, gone): (Vec<Member>, Vec<PeerId>),
        out: &mut impl Effects,
    ) {
        if !matches!(self.state, State::Member) || self.table.reign != reign || version <= self.table.version
        {
            return;
        }
        self.master_heard = now;
        if version != self.table.version + 1 {
            // One is missing. The master sees that by what this one says next.
            self.beat_at = now;
            return;
        }
        for peer in gone {
            self.table.take(peer);
        }
        for member in put {
            self.table.put(member);
        }
        self.table.version = version;
        out.tell(News::Region);
        if !self.table.has(self.own.id) {
            self.join(now, reign, now);
        }
    }

    /// Tells the master that it lives. If it has not heard the master for long, that is over.
    pub(super) fn beat_as_member(&mut self, now: Time, out: &mut impl Effects) {
        if now.since(self.master_heard) >= self.settings.patience() {
            return self.elect(now, out);
        }
        self.beat_at = now + self.settings.alive_every;
        self.say_to_master(self.alive_frame(true), out);
        if self.is_somewhere_else() {
            self.say_to_master(self.join_frame(), out);
        }
    }

    /// Whether it has moved, within its region, while nobody could be told.
    fn is_somewhere_else(&self) -> bool {
        self.outside_since.is_none() && self.table.members.get(&self.own.id.ring) != Some(&self.own)
    }

    pub(super) fn hear_alive(
        &mut self,
        now: Time,
        from: &Member,
        (reign, version): (Rank, u64),
        asks: bool,
        out: &mut impl Effects,
    ) {
        match &self.state {
            State::Master(_) => self.hear_as_master(now, from, (reign, version), asks, out),
            State::Member if self.table.reign.master == from.id => {
                self.master_heard = now;
                if (reign, version) != (self.table.reign, self.table.version) && reign == self.table.reign {
                    // Something went missing: asked for at once.
                    self.beat_at = self.beat_at.min(now + ASK_EVERY);
                }
            }
            _ => {}
        }
    }
}
