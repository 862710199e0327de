//! Whether the connections that are there leave room for what has been promised.
//!
//! Streams and subscriptions are admitted or refused. A connection is not: who it is and what it wants is said on it. Each client polls, and
//! has to be read and written, so enough of them break a promise that was given before they came. Then the contracts concerned are at
//! risk, and the operator hears of it.

use crate::broker::{Broker, Outputs};
use crate::events::Event;
use crate::table::Topic;
use contract::{Span, Time};

/// What the connections have come to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CrowdLook {
    /// So many clients there were when it was looked at.
    clients: u64,
    /// The time within which whatever comes has left, where that is longer than promised.
    takes: Option<Span>,
    told_at: Time,
}

/// It is told again after this, while it lasts.
const TOLD_EVERY: Span = Span::secs(10);

impl Broker {
    /// Looks again where clients have come or gone, and tells.
    pub(crate) fn look_at_crowd(&mut self, now: Time, out: &mut impl Outputs) {
        let checked = self.pair.is_primary() && self.settings.schedulability && !self.is_baseline();
        let clients = self.admission.crowd_mut().len();
        if !checked || clients != self.crowd.clients || self.crowd.takes.is_some() {
            self.crowd.clients = clients;
            self.crowd.takes = self.admission.overload().filter(|_| checked).map(|_| {
                // Longer than can be said, if there is no bound.
                self.admission.rounds(Span::FOREVER).unwrap_or(Span::FOREVER)
            });
        }
        let Some(takes) = self.crowd.takes else { return };
        if self.crowd.told_at != Time::ZERO && now < self.crowd.told_at + TOLD_EVERY {
            return;
        }
        self.crowd.told_at = now;
        let streams = self.table.streams().filter(|(_, stream)| {
            stream.record.admitted
                && self.table.topic(stream.topic).is_some_and(|topic| is_shorter(topic, takes))
        });
        let streams = streams.count() as u64;
        out.report(&Event::Crowded { clients, takes, streams });
    }

    /// Whether there are too many connections for this topic's contract.
    pub(crate) fn is_crowded_for(&self, topic: &Topic) -> bool {
        self.crowd.takes.is_some_and(|takes| is_shorter(topic, takes))
    }
}

fn is_shorter(topic: &Topic, takes: Span) -> bool {
    !topic.plan.dispatch.is_forever() && topic.plan.dispatch < takes
}
