//! Memory of subscribers: how much may wait for each, so that those who do not read are together no more than what is for them.
//!
//! The problem: each subscriber that does not read has a backlog, and a limit for each alone is no bound for all. The idea: what is for
//! subscribers is divided among those who are there. Where more come, those who have more than their part by then give way: the
//! oldest of what waits for them is dropped and counted, as if their limit had always been so. A part is never more than
//! `limits.subscriber_backlog`.
//!
//! **The invariant**: between two looks of housekeeping, what waits is no more than what was for subscribers at the last one, and a
//! part of it for each who came since.

use crate::outputs::Outputs;
use crate::steps::Steps;
use crate::store::sessions::Session;
use contract::admission::Carriers;

/// Of what is for subscribers, messages that are remembered to be sent later take one part in so many.
const FOR_DEFERRED: usize = 8;
/// A buffer that grows takes up to so many times what is in it.
const BUFFER_TIMES: usize = 2;
/// What one such message takes in a queue that doubles when it is full.
const DEFERRED_BYTES: usize = 32;
/// So much may wait for a subscriber in any case, or it could not be sent anything.
const LEAST_BYTES: usize = 4 << 10;
/// So many messages may be remembered for it in any case.
const LEAST_DEFERRED: usize = 16;
/// A queue of no more than so many messages keeps its room when it is empty.
const KEPT_DEFERRED: usize = 256;

/// What each subscriber may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    /// Bytes that wait on its connection.
    pub(crate) backlog: usize,
    /// Messages that are remembered.
    pub(crate) deferred: usize,
    /// Subscribers of other protocols, which have their parts as well.
    others: usize,
    by_carrier: [Carriers<u64>; 2],
}

impl Part {
    /// That of who is alone.
    pub(crate) fn new(limits: &crate::Limits) -> Part {
        let (backlog, deferred) = (limits.subscriber_backlog_bytes, limits.deferred_per_subscriber);
        Part { backlog, deferred, others: 0, by_carrier: Default::default() }
    }

    /// So many clients of other protocols share with subscribers now: those who are served in turn, and last. Returns how many did.
    pub(crate) fn share_with(&mut self, others: [Carriers<u64>; 2]) -> [Carriers<u64>; 2] {
        let count =
            |Carriers { tcp, tls, websocket, secure_websocket }| tcp + tls + websocket + secure_websocket;
        self.others = others.into_iter().map(count).sum::<u64>() as usize;
        std::mem::replace(&mut self.by_carrier, others)
    }
}

impl Steps<'_> {
    /// Divides what is for subscribers among those who are there, and takes back from those who have more.
    pub(crate) fn divide(&mut self, out: &mut impl Outputs) {
        let limits = &self.settings.limits;
        let (all, before) = (limits.subscribers().bytes, self.flow.work.part);
        let connected = self.flow.store.sessions.iter().filter(|(_, session)| session.link.is_some()).count();
        let backlogs = (all - all / FOR_DEFERRED) / BUFFER_TIMES;
        let backlog = backlogs / (connected + before.others).max(1);
        let deferred = all / FOR_DEFERRED / DEFERRED_BYTES / self.flow.store.sessions.len().max(1);
        self.flow.work.part = Part {
            by_carrier: before.by_carrier,
            backlog: limits.subscriber_backlog_bytes.min(backlog.max(LEAST_BYTES)),
            deferred: limits.deferred_per_subscriber.min(deferred.max(LEAST_DEFERRED)),
            others: before.others,
        };
        if self.flow.work.part.backlog < before.backlog {
            self.shed(out);
        }
        if self.flow.work.part.deferred < before.deferred {
            self.forget_oldest(out);
        }
    }

    /// Whoever has more waiting than its part loses the oldest of it.
    fn shed(&mut self, out: &mut impl Outputs) {
        let part = self.flow.work.part.backlog;
        for (_, session) in self.flow.store.sessions.iter_mut() {
            let Some(link) = session.link.filter(|link| out.backlog(*link) > part) else { continue };
            session.miss(out.shed(link, part), &mut self.flow.stats);
        }
    }

    /// The same for what is remembered.
    fn forget_oldest(&mut self, out: &mut impl Outputs) {
        let most = self.flow.work.part.deferred;
        for (index, session) in self.flow.store.sessions.iter_mut() {
            let excess = session.deferred.len().saturating_sub(most);
            session.miss(excess as u64, &mut self.flow.stats);
            self.flow.work.dropped.extend(session.deferred.drain(..excess).map(|message| (index, message)));
            session.deferred.shrink_to(most);
        }
        self.write_off_dropped(out);
    }
}

impl Session {
    /// Nothing is remembered for it any more: a queue that has grown gives its room back.
    pub(crate) fn trim(&mut self) {
        if self.deferred.is_empty() && self.deferred.capacity() > KEPT_DEFERRED {
            self.deferred.shrink_to(KEPT_DEFERRED);
        }
    }
}
