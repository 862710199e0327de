//! What is looked at now and then: connections that say nothing, sessions and streams that nobody came back to.

use crate::broker::Broker;
use crate::commands::tasks::{LINKS_PER_UNIT, Task, UNITS_PER_SLICE};
use crate::membership::partner::Look;
use crate::outputs::Outputs;
use crate::store::ids::SessionId;
use crate::store::links::Party;
use crate::store::links::site;
use crate::store::sessions::Session;
use crate::store::table::{Stream, Table};
use crate::watch::COMPLAINT_INTERVAL;
use crate::watch::events::Event;
use contract::{Mutant, Span, StreamId, Time, invariants};
use std::ops::Range;
use wire::{FarewellReason, Frame, LinkId};

/// The time between two looks.
const INTERVAL: Span = Span::millis(100);
/// A look that comes so much too late was not delayed by work: the clock has jumped, or the process has slept.
const JUMP: Span = Span::secs(1);
/// After so long without a word a site's link is taken to be away. Its session goes on.
const SITE_AWAY: Span = Span::secs(1);
/// Streams that one look visits; the next goes on behind them. A look at all of many would hold up messages, and leave nothing of
/// what they need in the processor's cache.
const STREAMS_PER_LOOK: usize = 1_024;

/// When a broker looked last, and how far it got.
#[derive(Clone)]
pub(crate) struct House {
    /// When it looks next.
    at: Time,
    /// The stream with which it goes on.
    next_stream: usize,
    /// When the admin was last told of broken promises, and of how many.
    promises_told: (Time, u64),
}

impl House {
    /// Nothing has been looked at yet, and now is the time.
    pub(crate) fn new(now: Time) -> House {
        House { at: now, next_stream: 0, promises_told: (Time::ZERO, 0) }
    }

    /// The places of the streams at which it looks this time.
    fn streams(&self, table: &Table) -> Range<usize> {
        self.next_stream..(self.next_stream + STREAMS_PER_LOOK).min(table.streams.len())
    }

    /// When it looks next.
    pub(crate) fn next_deadline(&self) -> Time {
        self.at
    }

    /// Tells of promises that the program has broken, all places at once and then for a while none.
    fn tell_broken_promises(&mut self, now: Time, out: &mut impl Outputs) {
        let (at, told) = self.promises_told;
        let broken = invariants::broken();
        let recent = at <= now && now < at + COMPLAINT_INTERVAL;
        if broken == told || recent {
            return;
        }
        self.promises_told = (now, broken);
        for place in invariants::places() {
            let times = place.take_untold();
            if times > 0 {
                out.report(&Event::PromiseBroken { place: &place.to_string(), times });
            }
        }
    }
}

impl Broker {
    pub(crate) fn keep_house(&mut self, now: Time, out: &mut impl Outputs) {
        // A clock that went back must not stop us from looking.
        if now < self.house.at && self.house.at <= now + INTERVAL {
            return;
        }
        if now > self.house.at + JUMP {
            self.forgive(now);
        }
        self.house.at = now + INTERVAL;
        let look = Look { now, settings: &self.settings, table: &self.flow.store.table };
        self.membership.look_at_partner(&look, &self.flow.stats, out);
        self.steps().tell_slow_copying(now, out);
        self.house.tell_broken_promises(now, out);
        self.steps().divide(out);
        let reigns = self.membership.pair.is_primary();
        let known = (&self.flow.store.table, &self.settings);
        self.promises.look_at_crowd(now, reigns, known, out);
        self.look_at_paces(now, out);
        self.resume_subscribers(now, out);
        self.tell_slow_subscribers(now, out);
        self.continue_sync(UNITS_PER_SLICE, out);
        self.look_at_sites(now, out);
        self.close_silent_links(now, out);
        self.end_left_sessions(now, out);
        let places = self.house.streams(&self.flow.store.table);
        let (promises, rules) = (&self.promises, &self.settings.topics);
        let gap_of = |topic: &str| {
            let rule = promises.rule_of(topic).and_then(|place| rules.get(place));
            rule.map_or(Span::FOREVER, |rule| rule.gap)
        };
        let has_gaps = rules.iter().any(|rule| !rule.gap.is_forever());
        self.silences.listen_to_streams(
            now,
            reigns,
            (&mut self.flow.store.table, places),
            has_gaps.then_some(&gap_of),
            &mut self.flow.stats,
            out,
        );
        self.retire_left_streams(now, out);
    }

    /// Nobody was silent for as long as it seems: what is waited for, is waited for anew.
    fn forgive(&mut self, now: Time) {
        self.membership.pair.forgive(now);
        self.silences.begin_anew(now);
        for (_, link) in self.flow.store.links.iter_mut() {
            (link.heard, link.opened) = (now, now);
        }
        for (_, session) in self.flow.store.sessions.iter_mut() {
            session.detached_at = now;
            session.pace.forgive(now);
            session.deferred.iter_mut().for_each(|message| message.since = now);
        }
    }

    /// How fast subscribers read, and how much may wait on their connections.
    fn look_at_paces(&mut self, now: Time, out: &mut impl Outputs) {
        let usual = self.flow.work.part.backlog;
        for (_, session) in self.flow.store.sessions.iter_mut() {
            let Some(link) = session.link else { continue };
            let (backlog, waits) = (out.backlog(link), !session.deferred.is_empty());
            let usual = session.usual(usual);
            if let Some(kept) = session.pace.look(now, backlog, waits, usual, || out.taken(link)) {
                out.hold_back(link, kept);
            }
        }
    }

    /// Those for which messages were dropped, and the admin, are told so.
    fn tell_slow_subscribers(&mut self, now: Time, out: &mut impl Outputs) {
        for (_, session) in self.flow.store.sessions.iter_mut() {
            let Some(link) = session.link else { continue };
            if let Some(shortfall) = session.pace.shortfall(now, session.dropped) {
                out.send(link, &Frame::Shortfall(shortfall));
                out.report(&Event::SlowSubscriber { client: &session.client, shortfall });
            }
        }
    }

    /// Subscribers whose messages wait although their connection has room: a limit below what a driver reports as
    /// drained, or a connection that was never full.
    fn resume_subscribers(&mut self, now: Time, out: &mut impl Outputs) {
        let waiting = |(index, session): (SessionId, &Session)| {
            (session.link.is_some() && !session.deferred.is_empty()).then_some(index)
        };
        if Mutant::LeaveDeferred.is_on() {
            return;
        }
        self.flow.store.sessions.iter_mut().for_each(|(_, session)| session.trim());
        let waiting: Vec<SessionId> = self.flow.store.sessions.iter().filter_map(waiting).collect();
        waiting.into_iter().for_each(|index| self.send_deferred(now, index, out));
    }

    /// Links of sites that have gone, or from which nothing comes: others are told that what they want had better go elsewhere.
    fn look_at_sites(&mut self, now: Time, out: &mut impl Outputs) {
        if !self.membership.pair.is_primary() {
            return;
        }
        let links = &self.flow.store.links;
        let mut changed = Vec::new();
        for (index, session) in self.flow.store.sessions.iter_mut() {
            if site(&session.client).is_none() {
                continue;
            }
            let heard = session.link.and_then(|link| links.get(link)).map(|link| link.heard);
            let away = now > heard.unwrap_or(session.detached_at) + SITE_AWAY;
            if std::mem::replace(&mut session.away, away) != away {
                changed.push(index);
            }
        }
        for session in changed {
            self.interest.has_missed = true;
            self.begin(now, Task::TellAway { session, after: None }, out);
        }
    }

    fn close_silent_links(&mut self, now: Time, out: &mut impl Outputs) {
        let limits = self.settings.limits;
        let silent: Vec<(LinkId, &str)> = self
            .flow
            .store
            .links
            .iter_mut()
            .filter(|(_, link)| !link.closing)
            .filter_map(|(id, link)| {
                // A clock that went back: count from now.
                link.heard = link.heard.min(now);
                link.opened = link.opened.min(now);
                match link.party {
                    Party::Unknown if now > link.opened + limits.greeting => Some((id, "no greeting came")),
                    Party::Client { .. } if now > link.heard + limits.silence => {
                        Some((id, "nothing was heard for too long"))
                    }
                    _ => None,
                }
            })
            .collect();
        for (link, text) in silent {
            self.expel(link, FarewellReason::Silent, text, out);
        }
    }

    /// A backup keeps the sessions of its primary for as long as that does, and its own as long as a primary would.
    fn end_left_sessions(&mut self, now: Time, out: &mut impl Outputs) {
        let (reigns, linger) = (self.membership.pair.is_primary(), self.settings.limits.session_linger);
        let left: Vec<SessionId> = self
            .flow
            .store
            .sessions
            .iter()
            .filter(|(_, session)| reigns || !session.shared)
            .filter(|(_, session)| session.link.is_none() && now > session.detached_at + linger)
            .map(|(index, _)| index)
            .collect();
        left.into_iter().for_each(|index| self.end_session(now, index, out));
    }

    /// The same for streams: those that no primary has named are this broker's own. They end in slices, and the next look waits until
    /// all of these have.
    fn retire_left_streams(&mut self, now: Time, out: &mut impl Outputs) {
        if self.tasks.waiting.iter().any(|task| matches!(task, Task::Retire { .. })) {
            return;
        }
        let streams = self.flow.store.table.streams_from(self.house.next_stream, STREAMS_PER_LOOK);
        let left: Vec<StreamId> =
            streams.filter(|(_, stream)| self.is_left(now, stream)).map(|(index, _)| index).collect();
        let next = self.house.next_stream + STREAMS_PER_LOOK;
        self.house.next_stream = if next < self.flow.store.table.streams.len() { next } else { 0 };
        if !left.is_empty() {
            self.begin(now, Task::Retire { streams: left.into_iter().rev().collect() }, out);
        }
    }

    /// Whether nobody has come back to a stream for too long.
    fn is_left(&self, now: Time, stream: &Stream) -> bool {
        let (reigns, linger) = (self.membership.pair.is_primary(), self.settings.limits.stream_linger);
        let record = &stream.record;
        let own = (reigns || !record.admitted) && record.made_of.is_none();
        own && record.source.is_none() && now > record.silent_since + linger
    }

    /// Retires a stream, unless somebody has come back to it meanwhile. Returns how many units of work that was.
    pub(crate) fn retire_left(&mut self, now: Time, index: StreamId, out: &mut impl Outputs) -> usize {
        if self.flow.store.table.stream(index).is_some_and(|stream| self.is_left(now, stream)) {
            self.retire(now, index, out);
        }
        1 + self.flow.store.links.len() / LINKS_PER_UNIT
    }
}
