//! How the members of a region that has lost its master find another (A3, A4).
//!
//! All know each other, so that a word passes over whoever is known to be away: a closed link says so at once. Where words are lost, or the
//! ring is so large that they take long, nobody waits for them: each asks those who are higher whether they are there, the highest first,
//! and whoever has no answer is the master. Whoever still hears the master says so, and then nobody is elected.

use super::{Effects, Rings, State};
use crate::election::{Election, Said, Side, Stands, Word};
use crate::frame::Frame;
use crate::tree::Rank;
use crate::{Member, PeerId};
use contract::{RingId, Span, Time};
use std::collections::BTreeSet;

/// How long the ring has to decide, before it is asked who is there.
const ROUND: Span = Span::secs(1);
/// How much later each asks than the next higher, so that not all ask all.
const AFTER_THE_NEXT: Span = Span::millis(10);
/// How long that is waited for.
const PROBE: Span = Span::millis(300);
/// How much longer than usual a master may be silent without doubt.
const DOUBT: Span = Span::millis(500);

/// One election, as this peer sees it.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// The reign that is over.
    reign: Rank,
    election: Election,
    /// Who does not answer.
    absent: BTreeSet<RingId>,
    /// When it is asked who is there, or that is over.
    due: Time,
    /// Who has said so since it was asked.
    present: Option<BTreeSet<RingId>>,
}

impl Round {
    pub(super) fn due(&self) -> Time {
        self.due
    }

    pub(super) fn is_about(&self, reign: Rank) -> bool {
        self.reign == reign
    }

    pub(super) fn absent(&self) -> &BTreeSet<RingId> {
        &self.absent
    }
}

impl Rings {
    /// Begins to elect, as a candidate.
    pub(super) fn elect(&mut self, now: Time, out: &mut impl Effects) {
        self.begin_round(now);
        self.with_election(now, out, Election::stand);
    }

    fn begin_round(&mut self, now: Time) {
        let reign = self.table.reign;
        let absent = BTreeSet::from([reign.master.ring]);
        let election = Election::new(self.own.id);
        let round = Round { reign, election, absent, due: now + self.waits(), present: None };
        self.state = State::Electing(Box::new(round));
    }

    /// Lets the election do something, and says what it says.
    fn with_election(
        &mut self,
        now: Time,
        out: &mut impl Effects,
        act: impl FnOnce(&mut Election, &mut Vec<Said>),
    ) {
        let own = self.own.id.ring;
        let State::Electing(round) = &mut self.state else { return };
        let mut say = Vec::new();
        act(&mut round.election, &mut say);
        let is_there = |member: &Member| member.id.ring == own || !round.absent.contains(&member.id.ring);
        let mut is_alone = false;
        for (side, word) in say {
            let to = match side {
                Side::Up => self.table.above(own, is_there),
                Side::Down => self.table.below(own, is_there),
            };
            match to {
                Some(to) if to.id.ring != own => {
                    out.send(to, Frame::Elect { reign: round.reign, from: side.across(), word });
                }
                _ => is_alone = true,
            }
        }
        if is_alone || round.election.stands() == Stands::Elected {
            self.elected(now, out);
        }
    }

    /// It follows the master that is lost, on the same cells.
    fn elected(&mut self, now: Time, out: &mut impl Effects) {
        let State::Electing(round) = &self.state else { return };
        let cells = self.claimed(round.reign);
        if !cells.is_empty() {
            self.claim(&self.own.clone(), cells);
        }
        self.spread(out);
        self.tree_has_changed(now, out);
    }

    /// Whether it may have a say in who follows a reign: it was a member.
    fn may_elect(&self, reign: Rank) -> bool {
        self.table.reign == reign && self.table.has(self.own.id)
    }

    /// Somebody thinks that a reign is over. Returns whether this one goes along.
    fn goes_along(&mut self, now: Time, from: &Member, reign: Rank, out: &mut impl Effects) -> bool {
        match &self.state {
            State::Electing(round) if round.is_about(reign) => true,
            State::Member if self.table.reign == reign => {
                let hears = now.since(self.master_heard) < self.settings.alive_every + DOUBT;
                if hears {
                    out.send(from, Frame::Reigns { reign });
                } else {
                    self.begin_round(now);
                }
                !hears
            }
            State::Seeking | State::Joining { .. }
                if self.may_elect(reign) && self.tree.claim(reign).is_some() =>
            {
                self.begin_round(now);
                true
            }
            State::Master(_) if self.table.reign == reign => {
                out.send(from, self.alive_frame(false));
                out.send(from, Frame::Reigns { reign });
                false
            }
            _ => {
                out.send(from, self.tree_frame());
                false
            }
        }
    }

    pub(super) fn hear_word(
        &mut self,
        now: Time,
        from: &Member,
        reign: Rank,
        (side, word): (Side, Word),
        out: &mut impl Effects,
    ) {
        if self.goes_along(now, from, reign, out) {
            if let State::Electing(round) = &mut self.state {
                round.absent.remove(&from.id.ring);
            }
            self.with_election(now, out, |election, say| election.hear(side, word, say));
        }
    }

    pub(super) fn probed(&mut self, now: Time, from: &Member, reign: Rank, out: &mut impl Effects) {
        if self.goes_along(now, from, reign, out) {
            out.send(from, Frame::Present { reign });
        }
    }

    pub(super) fn hear_present(&mut self, from: PeerId, reign: Rank) {
        if let State::Electing(round) = &mut self.state
            && round.is_about(reign)
        {
            round.absent.remove(&from.ring);
            if let Some(present) = &mut round.present {
                present.insert(from.ring);
            }
        }
    }

    pub(super) fn lost_in_election(&mut self, now: Time, peer: PeerId, out: &mut impl Effects) {
        let State::Electing(round) = &mut self.state else { return };
        if self.table.has(peer) && round.absent.insert(peer.ring) {
            self.with_election(now, out, Election::say_again);
        }
    }

    /// How long it waits for others to decide.
    fn waits(&self) -> Span {
        ROUND + AFTER_THE_NEXT * self.table.members.range(self.own.id.ring..).count() as u64
    }

    /// Nobody has been elected in time: asks who is there of those who are higher, or masters the region if none of them is.
    pub(super) fn go_on_electing(&mut self, now: Time, out: &mut impl Effects) {
        let waits = self.waits();
        let own = self.own.id.ring;
        let State::Electing(round) = &mut self.state else { return };
        let higher = self.table.members.range(own.next()..).map(|(_, member)| member);
        match round.present.take() {
            None => {
                round.present = Some(BTreeSet::new());
                round.due = now + PROBE;
                let reign = round.reign;
                higher.for_each(|member| out.send(member, Frame::Probe { reign }));
            }
            Some(present) => {
                let away = higher.map(|member| member.id.ring).filter(|place| !present.contains(place));
                round.absent.extend(away);
                round.due = now + waits;
                if present.is_empty() {
                    self.elected(now, out);
                }
            }
        }
    }
}
