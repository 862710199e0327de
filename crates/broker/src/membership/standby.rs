//! Bringing a backup up to date, and what a backup does with copies.
//!
//! The problem: a broker that joins must learn every stream and subscription while the primary goes on serving. The
//! idea: it is told in small portions, between other work, from the first stream to the last; whatever is new
//! meanwhile is told at once. Connections keep order, so when the last portion has arrived, everything has.
//!
//! A stream's messages are copied as soon as the stream has been named, and all that are still undispatched are copied
//! then, so nothing falls between.

use crate::broker::Broker;
use crate::commands::tasks::{SLOTS_PER_UNIT, UNITS_PER_SLICE};
use crate::membership::pair::Copies;
use crate::outputs::Outputs;
use crate::store::ids::SessionId;
use crate::store::sessions::Sessions;
use crate::watch::events::Event;
use contract::{Mutant, StreamId, Time, TopicFilter, invariant};
use std::ops::Bound;
use wire::{Frame, LinkId};

/// Streams of which a backup is told at once, however much waits for it.
const STREAMS_TOLD_MIN: u32 = 64;

/// What a piece of records counts for, in units of work.
const RECORDS_UNITS: usize = 32;

/// How far a backup has been told of sessions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Telling {
    /// The next session; `None` after the last.
    session: Option<SessionId>,
    /// Its filter that was told last.
    filter: Option<TopicFilter>,
    /// There is room for more, and the next turn goes on.
    pub(crate) goes_on: bool,
}

impl Telling {
    /// Tells the backup of the next filter of a session. `false`: there is none.
    fn tell_next_filter(&mut self, sessions: &Sessions, link: LinkId, out: &mut impl Outputs) -> bool {
        while let Some(from) = self.session {
            let Some((index, session)) = sessions.iter_from(from).next() else { break };
            let begin = match self.filter.take().filter(|_| index == from) {
                Some(last) => Bound::Excluded(last),
                None => Bound::Unbounded,
            };
            let Some((filter, wanted)) = session.filters.range((begin, Bound::Unbounded)).next() else {
                self.session = Some(SessionId(index.0 + 1));
                continue;
            };
            let (incarnation, client) = (session.incarnation, &*session.client);
            let (present, needs, filter_name) = (true, wanted.needs, filter.as_str());
            out.send(link, &Frame::Session { incarnation, present, needs, client, filter: filter_name });
            (self.session, self.filter) = (Some(index), Some(filter.clone()));
            return true;
        }
        self.session = None;
        false
    }
}

impl Broker {
    /// A broker wants to stand by for us.
    pub(crate) fn take_backup(&mut self, now: Time, from: LinkId, knows_more: bool, out: &mut impl Outputs) {
        if !self.membership.pair.accept_backup(now, from, knows_more) {
            // We do not reign; our greeting or a later word of ours tells it so.
            return;
        }
        if let Some(news) = self.membership.pair.news_of(from).filter(|_| knows_more) {
            let Copies { ours, theirs, .. } = news.copies;
            out.report(&Event::KnowsLess { ours, theirs });
        }
        if let Some(link) = self.flow.store.links.sender(from) {
            link.announced = Default::default();
        }
        self.membership.listen_for(from, &self.flow.store.links, &self.settings, out);
        self.steps().forget_lazy_copies(now);
        self.membership.telling = Telling { session: Some(SessionId(0)), ..Telling::default() };
        self.continue_sync(UNITS_PER_SLICE, out);
    }

    /// Tells the backup the next portion of what it does not know yet, within so many units of work.
    pub(crate) fn continue_sync(&mut self, units: usize, out: &mut impl Outputs) {
        self.membership.telling.goes_on = false;
        let Some(partner) = self.membership.pair.backup().filter(|partner| !partner.told) else { return };
        let (streams, link) = (StreamId(self.flow.store.table.streams.len() as u32), partner.link);
        let (mut next, mut next_record, mut used) = (partner.next_stream, partner.next_record, 0);
        // What waits may be this turn's own data, turn after turn, so a little is told in any case.
        let least = StreamId(next.0.saturating_add(STREAMS_TOLD_MIN));
        let limit = self.settings.limits.sync_backlog_bytes;
        while next < streams && used < units && (next < least || out.backlog(link) < limit) {
            self.steps().announce(link, next, out);
            used += self.steps().prune_again(next, link, out) / SLOTS_PER_UNIT;
            used += 1 + self.steps().copy_again(next) / SLOTS_PER_UNIT;
            next.0 += 1;
        }
        let mut told_some = false;
        if partner.knows_more && next >= streams && next_record == Some(0) && out.tell_changes(link) {
            next_record = None;
        }
        while let Some(from) = next_record.filter(|_| next >= streams && used < units) {
            // A piece in any case, as with streams.
            if told_some && out.backlog(link) >= limit {
                break;
            }
            next_record = out.tell(link, from);
            used += RECORDS_UNITS;
            told_some = true;
        }
        let mut told = next >= streams && next_record.is_none();
        while told && used < units && (used == 0 || out.backlog(link) < limit) {
            match self.membership.telling.tell_next_filter(&self.flow.store.sessions, link, out) {
                true => used += 1,
                false => break,
            }
        }
        told &= self.membership.telling.session.is_none() && out.has_told_memories(link);
        if told {
            out.send(link, &Frame::Synced);
        }
        self.membership.telling.goes_on = !told && used >= units && out.backlog(link) < limit;
        self.spend(used);
        let Some(partner) = self.membership.pair.backup_mut() else {
            return invariant!("a backup that is being told is there");
        };
        (partner.next_stream, partner.next_record, partner.told) = (next, next_record, told);
        partner.knows_streams |= next >= streams;
    }

    /// A backup that has just come has been told what operators remember, for which it had to wait: the telling of the rest goes on.
    pub fn told_memories(&mut self) {
        self.membership.telling.goes_on |= self.membership.pair.backup().is_some_and(|partner| !partner.told);
    }

    /// The primary has told us everything.
    pub(crate) fn know_everything(&mut self, from: LinkId, out: &mut impl Outputs) {
        if self.membership.pair.on_synced(from) {
            self.steps().trust_finished();
            out.told_everything();
            out.report(&Event::Joined { reign: self.membership.pair.reign });
            out.send(from, &Frame::Standby);
        }
    }

    /// The backup knows everything.
    pub(crate) fn become_protected(&mut self, now: Time, from: LinkId, out: &mut impl Outputs) {
        // It may have been dropped meanwhile, and a partner may say what it likes.
        let Some(partner) =
            self.membership.pair.backup_mut().filter(|partner| partner.link == from && partner.told)
        else {
            return;
        };
        if Mutant::IgnoreStandby.is_on() {
            return;
        }
        partner.stands_by = true;
        let yields = partner.knows_more;
        out.report(&Event::Protected { streams: self.flow.store.table.len() as u64 });
        if yields {
            self.give_reign(now, from, out);
        }
    }
}
