//! Taking, giving and losing the reign.

use crate::broker::{Broker, PARTNER};
use crate::commands::tasks::UNITS_PER_SLICE;
use crate::membership::Membership;
use crate::membership::pair::{Copies, Decision, Role};
use crate::outputs::Outputs;
use crate::settings::Settings;
use crate::store::links::{Links, Party};
use crate::store::queue::JobKind;
use crate::watch::events::{Event, PromotionCause};
use contract::{Mutant, Time};
use wire::{Companion, Farewell, FarewellReason, Frame, Knowledge, Knows, LinkId, Standing, StoreState};

/// How far this broker is on its way out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leaving {
    No,
    /// It has been asked to end, and does so at the latest at this time.
    Until {
        latest: Time,
        reigned: bool,
        epoch: u64,
    },
}

/// How a reign began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Beginning {
    /// The partner could not be asked whether it remembers more.
    pub unasked: bool,
    /// Nobody remembers more that counts.
    pub closes: bool,
    /// It was taken from a primary that was believed dead, and not given.
    pub taken: bool,
}

impl Membership {
    /// From now on the heartbeats of the broker on this link count, once it has said how they are signed.
    pub(crate) fn listen_for(
        &self,
        link: LinkId,
        links: &Links,
        settings: &Settings,
        out: &mut impl Outputs,
    ) {
        let node = self.pair.node_of(link);
        // Which says it first, its news or its nonce, is the partner's to choose.
        let nonce = links.get(link).and_then(|link| link.nonce);
        if let Some((node, nonce)) = node.zip(nonce) {
            let own = (settings.node, &settings.nonce);
            out.listen_for(Some(Companion::new(own, (node, &nonce), &self.secret)));
        }
    }

    /// What is remembered of other protocols, as the partner is told of it; nothing where nothing is. A reign closes those before it from its
    /// first moment on, and what counts its changes hears of it only in the same turn: until then a partner that is not dead would find
    /// that it knows more, and take the reign back with an old copy.
    pub(crate) fn written_knowledge(&self, out: &impl Outputs) -> Vec<u8> {
        let mut written = Vec::new();
        if let Some(knowledge) = out.knowledge() {
            let counts = knowledge.parts().last().is_some_and(|last| last.reign == self.pair.reign);
            let mut told = knowledge.clone();
            if self.pair.is_primary() && !counts {
                told.begin(self.beginning.closes);
            }
            told.write(&mut written);
        }
        written
    }

    /// Tells everybody what this broker is now.
    fn tell_standing(&self, links: &Links, out: &mut impl Outputs) {
        let knows = self.written_knowledge(out);
        let standing = self.pair.standing();
        for (id, link) in links.iter() {
            // A link that we dialed may not have been greeted back yet; what we said there must not go stale.
            let silent = Mutant::TellNoReign.is_on() && link.is_client() && !self.pair.is_primary();
            if link.greeted && !link.closing && !silent {
                if !knows.is_empty() && matches!(link.party, Party::Peer) {
                    out.send(id, &Frame::Knows(Knows::of(&knows)));
                }
                let reign = if link.is_client() { self.pair.followed() } else { self.pair.reign };
                out.send(id, &Frame::Reign { reign, standing });
            }
        }
    }
}

impl Broker {
    /// Does what the pair decided.
    pub(crate) fn carry_out(&mut self, now: Time, decision: Decision, out: &mut impl Outputs) {
        let leaving = self.membership.leaving != Leaving::No;
        match decision {
            Decision::Stay => {}
            Decision::Tell => self.membership.tell_standing(&self.flow.store.links, out),
            // Who is on the way out takes no new part in the pair, unless nobody else has what it handed over.
            Decision::Promote(_)
                if leaving && !self.membership.pair.is_primary() && !self.membership.pair.remembers() =>
            {
                self.membership.pair.seek(now);
            }
            Decision::Join(_) if leaving && !self.membership.pair.is_primary() => {
                self.membership.pair.seek(now);
            }
            Decision::Promote(cause) => self.promote(now, cause, out),
            Decision::StepDown(to) => self.step_down(now, to, out),
            Decision::Join(link) => self.join(now, link, out),
            Decision::Seek => {
                self.membership.pair.seek(now);
                self.membership.tell_standing(&self.flow.store.links, out);
            }
            Decision::Dial => out.dial(PARTNER, self.settings.detection.connect),
            Decision::Poll(link, number) => out.send(link, &Frame::Poll { number }),
            Decision::DropBackup(link, cause) => {
                self.membership.pair.drop_backup(now);
                out.report(&Event::Unprotected { cause });
                self.expel(link, FarewellReason::Silent, "the backup is taken for dead", out);
            }
            Decision::Reconnect(link) => {
                let text = "the connection is silent although the primary lives; it is made anew";
                self.expel(link, FarewellReason::Silent, text, out);
            }
            Decision::DropPrimary(link) => {
                self.membership.pair.disregard(link);
                self.membership.pair.seek(now);
                self.expel(link, FarewellReason::Silent, "the primary is taken for dead", out);
                self.membership.tell_standing(&self.flow.store.links, out);
            }
        }
    }

    /// Takes the reign (FRAME, A5): everybody is told, and every copy that may not have been dispatched is.
    fn promote(&mut self, now: Time, cause: PromotionCause, out: &mut impl Outputs) {
        // What the primary has told of subscribers must hold before anything is dispatched to them.
        while self.has_tasks() {
            self.work_on(now, UNITS_PER_SLICE, out);
        }
        let reigned = self.membership.pair.is_primary();
        if !reigned {
            // Whoever has handed over remembers everything until then.
            let alone = cause == PromotionCause::Alone && !self.membership.pair.remembers();
            let apart = cause == PromotionCause::First && self.membership.pair.is_apart();
            let unasked = self.settings.has_peer && (alone || apart || self.membership.pair.is_being_told());
            let taken = cause.is_a_take_over();
            self.membership.beginning = Beginning { unasked, closes: !unasked, taken };
        }
        let reign = self.membership.pair.promote();
        self.membership.partner.begin_reign();
        self.flow.stats.promotions += 1;
        if let Some(asker) = self.membership.handover_asker.take() {
            let text = "the backup did not take the reign in time; this broker reigns on";
            out.send(asker, &Frame::HandoverReply { done: false, epoch: reign.epoch, text });
        }
        self.membership.tell_standing(&self.flow.store.links, out);
        let recovered = if reigned { 0 } else { self.steps().plan_copies(now) };
        for (_, session) in self.flow.store.sessions.iter_mut() {
            session.away = false;
            if session.link.is_none() {
                session.detached_at = now;
            }
        }
        out.report(&Event::Promoted { reign, cause, recovered });
        if let Some(known) = out.knowledge().map(Knowledge::total)
            && !reigned
            && self.membership.beginning.unasked
            && cause == PromotionCause::Alone
            && out.store().0 != StoreState::None
        {
            out.report(&Event::ReignsUnasked { known });
        }
        self.judge_provisional_streams(out);
    }

    /// Another broker reigns. What has not been dispatched goes there as soon as it is reached.
    fn step_down(&mut self, now: Time, to: Option<LinkId>, out: &mut impl Outputs) {
        self.steps().take_back_unprocessed(out);
        self.membership.pair.be_deposed(now);
        match to {
            Some(link) => self.join(now, link, out),
            None => self.membership.tell_standing(&self.flow.store.links, out),
        }
        out.report(&Event::SteppedDown { reign: self.membership.pair.reign });
    }

    /// Stands by for the broker on this link.
    ///
    /// What it remembers is learnt anew from the primary. If the primary lacks some of it, that is never in silence: where
    /// it reigns without having asked us, we keep ours, learn what it has changed, and are given the reign. Otherwise ours is put
    /// aside.
    fn join(&mut self, now: Time, link: LinkId, out: &mut impl Outputs) {
        let copies = self.membership.pair.news_of(link).map(|news| news.copies);
        self.membership.pair.join(now, link);
        self.membership.listen_for(link, &self.flow.store.links, &self.settings, out);
        match copies {
            Some(copies) if copies.keeps => {
                out.report(&Event::KnowsMore { ours: copies.ours, theirs: copies.theirs });
                out.send(link, &Frame::JoinKnowing);
            }
            copies => {
                if let Some(Copies { ours, theirs, surplus, overtaken, .. }) =
                    copies.filter(|copies| copies.surplus > 0)
                {
                    let aside = if overtaken { None } else { out.set_aside() };
                    let aside = aside.as_deref();
                    out.report(&Event::CopyLeft { ours, theirs, surplus, overtaken, aside });
                }
                let knows = copies.is_some_and(|copies| copies.surplus == 0);
                out.begin_learning(now, knows);
                out.send(link, &Frame::Join);
            }
        }
        self.membership.tell_standing(&self.flow.store.links, out);
        if let Some(asker) = self.membership.handover_asker.take() {
            let text = "the backup reigns now, and this broker stands by";
            out.send(
                asker,
                &Frame::HandoverReply { done: true, epoch: self.membership.pair.reign.epoch, text },
            );
        }
    }

    /// Gives the reign to the backup, with everything that has not been dispatched. Nothing is lost: what publishers
    /// still send here is forwarded until they have moved.
    pub(crate) fn handover(&mut self, now: Time, asker: Option<LinkId>, out: &mut impl Outputs) {
        let epoch = self.membership.pair.reign.epoch;
        let refusal = match self.membership.pair.role {
            Role::Primary { backup: Some(partner) } if partner.stands_by => {
                self.give_reign(now, partner.link, out);
                self.membership.handover_asker = asker;
                return;
            }
            Role::Primary { .. } => "the pair is unprotected: there is no backup to hand over to",
            _ => "this broker does not reign: ask the other one",
        };
        if let Some(asker) = asker {
            out.send(asker, &Frame::HandoverReply { done: false, epoch, text: refusal });
        }
    }

    pub(crate) fn give_reign(&mut self, now: Time, to: LinkId, out: &mut impl Outputs) {
        let before = self.flow.stats.forwarded;
        let mut steps = self.steps();
        steps.take_back_unprocessed(out);
        while let Some(job) = steps.flow.work.queue.pop() {
            if job.kind() == JobKind::Dispatch {
                steps.forward(to, job, out);
            }
        }
        steps.forward_unconfirmed(to, out);
        out.tell_rest(to);
        let epoch = self.membership.pair.reign.epoch.next();
        out.send(to, &Frame::TakeOver { epoch });
        self.membership.pair.drop_backup(now);
        self.membership.pair.await_successor(now, epoch);
        // Clients are not told. They go on sending here, and it is forwarded, until they hear of the new reign.
        out.report(&Event::HandedOver { forwarded: self.flow.stats.forwarded - before });
    }

    /// Begins to end: hands over if there is somebody to hand over to. [`Broker::has_left`] says when it is done.
    pub fn leave(&mut self, now: Time, out: &mut impl Outputs) {
        if self.membership.leaving == Leaving::No {
            let latest = now + self.settings.limits.drain;
            let (reigned, epoch) = (self.membership.pair.is_primary(), self.membership.pair.reign.epoch.0);
            self.membership.leaving = Leaving::Until { latest, reigned, epoch };
            self.handover(now, None, out);
        }
    }

    /// Whether it has been asked to end.
    pub fn is_leaving(&self) -> bool {
        self.membership.leaving != Leaving::No
    }

    /// Whether nothing keeps this broker any more: what arrived has been dispatched or forwarded, and its publishers
    /// know of another primary. A broker without a partner only dispatches what it has, and what its operators make of it.
    pub fn has_left(&self, now: Time, operators_idle: bool) -> bool {
        let Leaving::Until { latest, reigned, epoch } = self.membership.leaving else { return false };
        if now >= latest {
            return true;
        }
        let reigns = self.membership.pair.is_primary();
        let moved = |(_, link): (LinkId, &crate::store::links::Link)| {
            let follows_another = link.reign.epoch.0 > epoch && link.standing == Standing::Following;
            !link.is_client() || link.numbers.is_empty() || follows_another
        };
        let settled = reigns || !reigned || self.flow.store.links.iter().all(moved);
        settled && operators_idle && self.flow.work.queue.is_empty()
    }

    /// Says farewell to everybody.
    pub fn say_farewell(&mut self, out: &mut impl Outputs) {
        let farewell = Farewell { reason: FarewellReason::Leaving, text: "the broker ends" };
        for (id, link) in self.flow.store.links.iter_mut() {
            link.closing = true;
            out.close(id, &farewell);
        }
    }
}
