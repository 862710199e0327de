//! Subscribers that are served as best effort: their messages wait, and a few of them are made in each turn.
//!
//! The problem: to whom nothing is promised must not take time from those to whom something is. Each message would have to be made and
//! written for each of them, and admission would have to count that. The idea: what they are to have waits as any subscriber's messages do
//! that has no room, which costs hardly anything. [`LAST_MESSAGES`] of them are made in each turn, one for each subscriber in turn, and they
//! leave after everything else ([`wire::Effects::put_last`]). Admission counts so much with every turn (`contract/rounds.rs`). What has waited
//! for long where something newer has come is passed over, and what has been overwritten is gone, so that they get the newest there is time
//! for.

use crate::outputs::Outputs;
use crate::steps::Steps;
use crate::store::ids::SessionId;
use crate::store::sessions::Session;
use contract::Time;
use contract::rounds::{LAST_BYTES_BEGUN, LAST_MESSAGES};
use std::collections::VecDeque;

/// Those for whom something waits, and who may have room.
#[derive(Clone, Debug, Default)]
pub(crate) struct Last(VecDeque<SessionId>);

impl Last {
    /// Something waits for a subscriber: its turn comes.
    pub(crate) fn call(&mut self, index: SessionId, session: &mut Session) {
        if !std::mem::replace(&mut session.has_turn, true) {
            self.0.push_back(index);
        }
    }

    /// Whether anything can be made.
    pub(crate) fn waits(&self) -> bool {
        !self.0.is_empty()
    }
}

impl Steps<'_> {
    /// Makes some of what waits for those who are served last.
    pub(crate) fn serve_last(&mut self, now: Time, out: &mut impl Outputs) {
        let (mut made, mut bytes) = (0, 0);
        while made < LAST_MESSAGES
            && bytes < LAST_BYTES_BEGUN
            && let Some(index) = self.flow.work.last.0.pop_front()
        {
            made += 1;
            // Who has left meanwhile, or has no connection, has no turn.
            let Some(session) = self.flow.store.sessions.get_mut(index) else { continue };
            session.has_turn = false;
            let Some(link) = session.link else { continue };
            let before = out.backlog(link);
            // Who has no room is called again when it has.
            if self.send_some_deferred(now, index, 1, out)
                && let Some(session) = self.flow.store.sessions.get_mut(index)
            {
                self.flow.work.last.call(index, session);
            }
            bytes += out.backlog(link).saturating_sub(before);
        }
    }
}
