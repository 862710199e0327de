//! How a master keeps its region: who is in it, and how large it is (A2, A3).

use super::{Effects, Going, News, Rings, STRAY_EVERY, State};
use crate::cells::{Block, Cells};
use crate::frame::Frame;
use crate::table::{MEMBERS_MAX, Table};
use crate::tree::{Claim, Rank};
use crate::{Member, PeerId};
use contract::{Mutant, RingId, Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// How long changes of a table are gathered.
const GATHER: Span = Span::millis(50);

/// What a master has besides the table.
#[derive(Clone, Debug, Default)]
pub(super) struct Reign {
    /// When each member was last heard.
    heard: BTreeMap<RingId, Time>,
    /// Who is to be sent all of the table.
    fresh: BTreeSet<RingId>,
    /// What has changed since the version that was sent last.
    put: BTreeMap<RingId, Member>,
    gone: BTreeMap<RingId, PeerId>,
    /// When that is sent.
    flush_at: Option<Time>,
    /// Since when the region is too small.
    small_since: Option<Time>,
    /// The masters that it watches, and when each was last heard.
    watched: BTreeMap<PeerId, Time>,
}

impl Reign {
    pub(super) fn due(&self) -> Time {
        self.flush_at.unwrap_or(Time::NEVER)
    }

    pub(super) fn forgive(&mut self, now: Time) {
        self.heard.values_mut().chain(self.watched.values_mut()).for_each(|heard| *heard = now);
    }

    fn flush_soon(&mut self, now: Time) {
        self.flush_at.get_or_insert(now + GATHER);
    }
}

impl Rings {
    fn reign(&mut self) -> Option<&mut Reign> {
        match &mut self.state {
            State::Master(reign) => Some(reign),
            _ => None,
        }
    }

    /// Masters what the tree says that it holds. Its members are those of its last table that are in these cells and may be alive.
    pub(super) fn take_up(&mut self, now: Time, out: &mut impl Effects) {
        if let Some(all) = self.claimed_apart() {
            self.claim(&self.own.clone(), all);
        }
        let Some(claim) = self.tree.held_by(self.own.id).cloned() else { return };
        let away = match &self.state {
            State::Electing(round) => round.absent().clone(),
            _ => BTreeSet::new(),
        };
        let extent = self.settings.extent;
        let own = self.own.id.ring;
        let lost = self.table.members.iter().filter(|(place, _)| away.contains(place) && **place != own);
        for address in lost.map(|(_, member)| member.address.clone()).collect::<Vec<String>>() {
            self.remember_stray(&address);
        }
        self.table.members.retain(|place, member| {
            !away.contains(place) && claim.cells.contains(extent.cell_of(member.location))
        });
        self.table.version = if self.table.reign == claim.rank() { self.table.version + 1 } else { 1 };
        self.table.reign = claim.rank();
        let mut reign = Reign::default();
        if let State::Master(before) = &mut self.state {
            reign.small_since = before.small_since;
            reign.watched = std::mem::take(&mut before.watched);
        } else if !Mutant::ReignInSilence.is_on() {
            out.tell(News::Master);
        }
        self.table.put(self.own.clone());
        reign.heard = self.table.members.keys().map(|place| (*place, now)).collect();
        reign.fresh = self.table.members.keys().copied().collect();
        reign.flush_at = Some(now);
        self.state = State::Master(Box::new(reign));
        self.lost_since = None;
        self.beat_at = now + self.settings.alive_every;
        self.spread(out);
        if !claim.cells.contains(extent.cell_of(self.own.location)) && self.outside_since.is_none() {
            self.hand_over(now, out);
        }
    }

    /// What it holds by more than one claim, since two have given it something without knowing of each other.
    fn claimed_apart(&self) -> Option<Cells> {
        let all = self.tree.all_of(self.own.id);
        self.tree.held_by(self.own.id).filter(|claim| claim.cells != all).map(|_| all)
    }

    /// The tree is another one: what it holds may be less or more, or nothing.
    pub(super) fn reign_has_changed(&mut self, now: Time, out: &mut impl Effects) {
        let Some(claim) = self.tree.held_by(self.own.id).cloned() else {
            out.tell(News::NoMaster);
            self.seek(now);
            return self.follow_holder(now, out);
        };
        if claim.rank() != self.table.reign || self.claimed_apart().is_some() {
            return self.take_up(now, out);
        }
        let extent = self.settings.extent;
        let gone = self.table.members.values();
        let gone = gone
            .filter(|member| !claim.cells.contains(extent.cell_of(member.location)))
            .map(|member| member.id);
        for peer in gone.collect::<Vec<PeerId>>() {
            if peer == self.own.id {
                if self.outside_since.is_none() {
                    return self.hand_over(now, out);
                }
            } else {
                self.member_is_gone(now, peer, Going::Leaves);
            }
        }
    }

    /// Gives what it holds to the highest of its members there, or to the master next to it, and follows the tree.
    pub(super) fn hand_over(&mut self, now: Time, out: &mut impl Effects) {
        let Some(claim) = self.tree.held_by(self.own.id).cloned() else { return };
        let extent = self.settings.extent;
        let is_heir = |member: &&Member| {
            member.id != self.own.id && claim.cells.contains(extent.cell_of(member.location))
        };
        let heir =
            self.table.members.values().rev().find(is_heir).map(|member| (member.clone(), Cells::NONE));
        let heir =
            heir.or_else(|| self.neighbour(claim.cells).map(|other| (other.master.clone(), other.cells)));
        let Some((master, cells)) = heir else { return };
        self.claim(&master, cells.or(claim.cells));
        self.spread(out);
        self.tree_has_changed(now, out);
    }

    /// The claim of another that shares most of the way down the tree with these cells.
    fn neighbour(&self, cells: Cells) -> Option<&Claim> {
        let near = |other: &&Claim| {
            let shared = |block: &Block| {
                let mut block = *block;
                while block.cells().and(other.cells).is_empty() {
                    block = Block { depth: block.depth.saturating_sub(1), index: block.index >> 2 };
                }
                block.depth
            };
            cells.blocks().iter().map(shared).max()
        };
        let others = self.tree.claims().filter(|claim| claim.master.id != self.own.id);
        others.max_by_key(|claim| (near(claim), std::cmp::Reverse(claim.cells.first())))
    }

    pub(super) fn joined(&mut self, now: Time, from: Member, out: &mut impl Effects) {
        let is_ours = self.region().contains(self.settings.extent.cell_of(from.location));
        if !matches!(self.state, State::Master(_)) || !is_ours {
            return out.send(&from, self.tree_frame());
        }
        let place = from.id.ring;
        if self.table.members.len() >= MEMBERS_MAX && !self.table.members.contains_key(&place) {
            return out.send(&from, Frame::Full);
        }
        if self.table.members.get(&place).is_some_and(|known| known.id.life > from.id.life) {
            // By that it sees that another has its name.
            return out.send(&from, self.table_frame());
        }
        self.enter(now, from);
        if let Some(reign) = self.reign() {
            reign.fresh.insert(place);
            reign.heard.insert(place, now);
            reign.flush_soon(now);
        }
    }

    /// All members, to be sent.
    fn table_frame(&self) -> Frame {
        let Table { reign, version, members } = &self.table;
        Frame::Table { reign: *reign, version: *version, members: members.values().cloned().collect() }
    }

    /// Enters a member, new or with another location.
    pub(super) fn enter(&mut self, now: Time, member: Member) {
        if self.table.put(member.clone())
            && let Some(reign) = self.reign()
        {
            reign.gone.remove(&member.id.ring);
            reign.put.insert(member.id.ring, member);
            reign.flush_soon(now);
        }
    }

    pub(super) fn member_is_gone(&mut self, now: Time, peer: PeerId, how: Going) {
        if peer == self.own.id || !matches!(self.state, State::Master(_)) || Mutant::KeepLost.is_on() {
            return;
        }
        let Some(member) = self.table.take(peer) else { return };
        if how == Going::IsLost {
            self.remember_stray(&member.address);
        }
        if let Some(reign) = self.reign() {
            reign.heard.remove(&peer.ring);
            reign.fresh.remove(&peer.ring);
            reign.put.remove(&peer.ring);
            reign.gone.insert(peer.ring, member.id);
            reign.flush_soon(now);
        }
    }

    pub(super) fn hear_as_master(
        &mut self,
        now: Time,
        from: &Member,
        (rank, version): (Rank, u64),
        asks: bool,
        out: &mut impl Effects,
    ) {
        let is_member = self.table.has(from.id);
        let (own, told) = (self.table.reign, self.table.version);
        let is_elsewhere = rank != own && self.tree.claim(rank).is_some();
        if is_member && is_elsewhere {
            self.member_is_gone(now, from.id, Going::Leaves);
        }
        let Some(reign) = self.reign() else { return };
        if is_member && !is_elsewhere {
            reign.heard.insert(from.id.ring, now);
            if (rank, version) != (own, told) {
                reign.fresh.insert(from.id.ring);
                reign.flush_soon(now);
            }
        } else if let Some(heard) = reign.watched.get_mut(&from.id) {
            *heard = now;
        } else if rank.master == own.master {
            return out.send(from, Frame::Stranger);
        }
        if asks {
            out.send(from, self.alive_frame(false));
        }
    }

    pub(super) fn go_on_mastering(&mut self, now: Time, out: &mut impl Effects) {
        if self.reign().is_some_and(|reign| reign.due() <= now) {
            self.flush(now, out);
        }
        if self.beat_at > now || !matches!(self.state, State::Master(_)) {
            return;
        }
        self.beat_at = now + self.settings.alive_every;
        self.drop_silent(now);
        self.shape(now, out);
        self.watch(now, out);
        self.ask_a_stray(now, out);
    }

    /// Sends what has changed to those who know the version before, and all of it to the others.
    fn flush(&mut self, now: Time, out: &mut impl Effects) {
        let own = self.own.id.ring;
        let Some(reign) = self.reign() else { return };
        reign.flush_at = None;
        let fresh = std::mem::take(&mut reign.fresh);
        let put: Vec<Member> = std::mem::take(&mut reign.put).into_values().collect();
        let gone: Vec<PeerId> = std::mem::take(&mut reign.gone).into_values().collect();
        let has_changed = !put.is_empty() || !gone.is_empty();
        self.table.version += u64::from(has_changed);
        let Table { reign, version, members } = &self.table;
        let (reign, version) = (*reign, *version);
        for (place, member) in members.iter().filter(|(place, _)| **place != own) {
            if fresh.contains(place) {
                out.send(member, self.table_frame());
            } else if has_changed {
                out.send(member, Frame::Changed { reign, version, put: put.clone(), gone: gone.clone() });
            }
        }
        out.tell(News::Region);
        self.shape(now, out);
    }

    fn drop_silent(&mut self, now: Time) {
        let patience = self.settings.patience();
        let own = self.own.id.ring;
        let Some(reign) = self.reign() else { return };
        let silent =
            reign.heard.iter().filter(|(place, heard)| **place != own && now.since(**heard) >= patience);
        let silent: Vec<RingId> = silent.map(|(place, _)| *place).collect();
        for place in silent {
            if let Some(id) = self.table.members.get(&place).map(|member| member.id) {
                self.member_is_gone(now, id, Going::IsLost);
            }
        }
    }

    /// Splits the region where it is large (P7), lets a part go that can stand alone, or gives it away where it is too small.
    fn shape(&mut self, now: Time, out: &mut impl Effects) {
        let cells = self.region();
        let blocks = cells.blocks();
        let split =
            blocks.iter().find_map(|block| self.split_of(*block)).filter(|_| !Mutant::NeverSplit.is_on());
        if let Some(quarters) = split {
            let all = quarters.iter().fold(Cells::NONE, |all, quarter| all.or(quarter.cells()));
            let largest = quarters.iter().max_by_key(|quarter| self.members_in(quarter.cells()).count());
            let parts = quarters.iter().map(|quarter| {
                let rest = if Some(quarter) == largest { cells.without(all) } else { Cells::NONE };
                (quarter.cells(), rest)
            });
            return self.divide(now, parts.collect(), out);
        }
        let least = self.settings.least;
        let of = |cells| self.members_in(cells).count();
        let alone = blocks.iter().find(|block| {
            blocks.len() > 1 && of(block.cells()) >= least && of(cells.without(block.cells())) >= least
        });
        if let Some(block) = alone {
            let rest = cells.without(block.cells());
            return self.divide(now, vec![(block.cells(), Cells::NONE), (rest, Cells::NONE)], out);
        }
        self.give_away_if_small(now, out);
    }

    fn give_away_if_small(&mut self, now: Time, out: &mut impl Effects) {
        let is_small = self.table.members.len() < self.settings.least && !Mutant::NeverAdopt.is_on();
        let grace = self.settings.grace;
        let Some(reign) = self.reign() else { return };
        reign.small_since = is_small.then(|| reign.small_since.unwrap_or(now));
        if reign.small_since.is_none_or(|since| now.since(since) < grace) {
            return;
        }
        reign.small_since = Some(now);
        let cells = self.region();
        let Some(other) = self.neighbour(cells).cloned() else { return };
        self.claim(&other.master, other.cells.or(cells));
        self.spread(out);
        self.tree_has_changed(now, out);
    }

    /// The quarters of a block if it is to be split, now or after one of them was.
    fn split_of(&self, block: Block) -> Option<[Block; 4]> {
        let quarters = block.quarters()?;
        let is_large = self.members_in(block.cells()).count() > self.settings.capacity;
        let each_can_stand =
            quarters.iter().all(|quarter| self.members_in(quarter.cells()).count() >= self.settings.least);
        (is_large && each_can_stand).then_some(quarters)
    }

    /// The members in some cells, the highest last.
    fn members_in(&self, cells: Cells) -> impl DoubleEndedIterator<Item = &Member> {
        let extent = self.settings.extent;
        self.table.members.values().filter(move |member| cells.contains(extent.cell_of(member.location)))
    }

    /// Gives each part to the highest of its members, with what it has besides.
    fn divide(&mut self, now: Time, parts: Vec<(Cells, Cells)>, out: &mut impl Effects) {
        let epoch = self.tree.epoch_of(self.region()).saturating_add(1);
        for (cells, besides) in parts {
            let Some(master) = self.members_in(cells).next_back().cloned() else { continue };
            self.tree.hear(&Claim { epoch, master, cells: cells.or(besides) });
        }
        self.spread(out);
        self.tree_has_changed(now, out);
    }

    /// Watches the next master in the order of identifiers, and where that is silent the one after it. What one holds that was silent for
    /// long is taken over.
    fn watch(&mut self, now: Time, out: &mut impl Effects) {
        let own = self.own.id;
        let masters = self.tree.masters();
        let round = masters.range(own.ring..).chain(masters.range(..own.ring));
        let round: Vec<Member> =
            round.map(|(_, master)| (*master).clone()).filter(|master| master.id != own).collect();
        let (patience, grace) = (self.settings.patience(), self.settings.grace);
        let beat = self.alive_frame(true);
        let Some(reign) = self.reign() else { return };
        let before = std::mem::take(&mut reign.watched);
        let mut dead = None;
        for master in round {
            let heard = before.get(&master.id).copied().unwrap_or(now);
            reign.watched.insert(master.id, heard);
            out.send(&master, beat.clone());
            if now.since(heard) < patience {
                break;
            }
            if now.since(heard) >= patience + grace && !Mutant::WatchNobody.is_on() {
                dead = Some(master);
                break;
            }
        }
        if let Some(dead) = dead {
            let held = self.tree.all_of(dead.id);
            self.remember_stray(&dead.address);
            self.claim(&self.own.clone(), self.region().or(held));
            self.spread(out);
            self.tree_has_changed(now, out);
        }
    }

    /// Asks a contact or somebody who was lost whether they have a tree, which may be another.
    fn ask_a_stray(&mut self, now: Time, out: &mut impl Effects) {
        if now < self.stray_at || Mutant::ForgetStrays.is_on() {
            return;
        }
        self.stray_at = now + STRAY_EVERY;
        let known = self.known();
        let is_known = |address: &String| {
            *address == self.own.address || known.values().any(|member| member.address == *address)
        };
        let strays: Vec<&String> = self.strays.iter().filter(|address| !is_known(address)).collect();
        let stray = strays.get(self.turn % strays.len().max(1)).copied();
        for address in self.settings.contacts.iter().filter(|address| !is_known(address)).chain(stray) {
            out.send_to_address(address, Frame::Discover);
        }
        self.turn = self.turn.wrapping_add(1);
    }

    /// Tells what it knows of the area to its members and to all other masters.
    pub(super) fn spread(&self, out: &mut impl Effects) {
        let frame = self.tree_frame();
        for member in self.known().values() {
            out.send(member, frame.clone());
        }
    }

    /// What a master hears, its members hear from it. Other masters hear it from whoever made it.
    pub(super) fn pass_tree_on(&self, from: PeerId, out: &mut impl Effects) {
        if matches!(self.state, State::Master(_)) {
            let frame = self.tree_frame();
            for member in
                self.table.members.values().filter(|member| member.id != from && member.id != self.own.id)
            {
                out.send(member, frame.clone());
            }
        }
    }
}
