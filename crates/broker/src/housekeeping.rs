//! What is looked at now and then: connections that say nothing, sessions and streams that nobody came back to.

use crate::broker::{Broker, Outputs};
use crate::links::Party;
use contract::{Span, Time};
use wire::{FarewellReason, LinkId};

/// The time between two looks.
const INTERVAL: Span = Span::millis(100);

impl Broker {
    pub(crate) fn keep_house(&mut self, now: Time, out: &mut impl Outputs) {
        // A clock that went back must not stop us from looking.
        if now < self.housekeeping_at && self.housekeeping_at <= now + INTERVAL {
            return;
        }
        self.housekeeping_at = now + INTERVAL;
        self.continue_sync(now, out);
        self.close_silent_links(now, out);
        self.end_left_sessions(now, out);
        self.retire_left_streams(now, out);
    }

    fn close_silent_links(&mut self, now: Time, out: &mut impl Outputs) {
        let limits = self.settings.limits;
        let silent: Vec<(LinkId, &str)> = self
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

    fn end_left_sessions(&mut self, now: Time, out: &mut impl Outputs) {
        // A backup keeps the sessions of its primary for as long as that does.
        if !self.pair.is_primary() {
            return;
        }
        let linger = self.settings.limits.session_linger;
        let left: Vec<u32> = self
            .sessions
            .iter()
            .filter(|(_, session)| session.link.is_none() && now > session.detached_at + linger)
            .map(|(index, _)| index)
            .collect();
        left.into_iter().for_each(|index| self.end_session(index, out));
    }

    fn retire_left_streams(&mut self, now: Time, out: &mut impl Outputs) {
        if !self.pair.is_primary() {
            return;
        }
        let linger = self.settings.limits.stream_linger;
        let left: Vec<u32> = self
            .table
            .streams()
            .filter(|(_, stream)| stream.source.is_none() && now > stream.silent_since + linger)
            .map(|(index, _)| index)
            .collect();
        left.into_iter().for_each(|index| self.retire(index, out));
    }
}
