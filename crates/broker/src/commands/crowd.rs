//! Whether there is still room for what has been promised.
//!
//! Streams and subscriptions are admitted or refused. A connection is not: who it is and what it wants is said on it. Each client polls, and
//! has to be read and written, so enough of them break a promise that was given before they came. Nor are graphs of operators that a
//! running broker is given: a topic that they process needs copies that it did not need before. Then the contracts concerned are at
//! risk, and the admin hears of it.

use crate::broker::Broker;
use crate::commands::Promises;
use crate::outputs::Outputs;
use crate::settings::Settings;
use crate::store::table::{Table, Topic};
use crate::watch::events::Event;
use contract::admission::Carriers;
use contract::{BudgetShort, Span, Time};
use wire::Transport;

/// What the connections have come to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CrowdLook {
    /// So many clients there were when it was looked at.
    clients: u64,
    /// The time within which whatever comes has left, where that is longer than promised.
    takes: Option<Span>,
    told_at: Time,
    /// Topics are planned otherwise than when it was looked at.
    planned_anew: bool,
    /// The lazy copies that may have to begin at once do not fit the budget.
    budget_short: Option<BudgetShort>,
    budget_told_at: Time,
}

impl CrowdLook {
    /// A topic has another plan, for which nobody asked whether it fits.
    pub(crate) fn planned_anew(&mut self) {
        self.planned_anew = true;
    }

    /// Whether a topic is copied lazily, and the copies that may have to begin at once do not fit the budget.
    pub(crate) fn is_beyond_budget(&self, topic: &Topic) -> bool {
        self.budget_short.is_some() && topic.plan.lazy.is_some()
    }

    /// Whether there are too many connections for this topic's contract.
    pub(crate) fn is_crowded_for(&self, topic: &Topic) -> bool {
        self.takes.is_some_and(|takes| is_shorter(topic, takes))
    }

    fn tell_short_budget(&mut self, now: Time, table: &Table, out: &mut impl Outputs) {
        let Some(BudgetShort { budget, needed, .. }) = self.budget_short else { return };
        if self.budget_told_at != Time::ZERO && now < self.budget_told_at + TOLD_EVERY {
            return;
        }
        self.budget_told_at = now;
        let streams = admitted_where(table, |topic| self.is_beyond_budget(topic));
        out.report(&Event::BudgetShort { needed, budget, streams });
    }
}

/// It is told again after this, while it lasts.
const TOLD_EVERY: Span = Span::secs(10);

impl Promises {
    /// Looks again where clients have come or gone, or plans have changed, and tells.
    pub(crate) fn look_at_crowd(
        &mut self,
        now: Time,
        reigns: bool,
        (table, settings): (&Table, &Settings),
        out: &mut impl Outputs,
    ) {
        let Promises { crowd, admission, .. } = self;
        let checked = reigns && settings.schedulability && !settings.is_baseline();
        if !checked || !settings.replication.keeps_contracts() {
            // A backup looks when it reigns.
            (crowd.takes, crowd.budget_short, crowd.planned_anew) = (None, None, true);
            return;
        }
        let clients = admission.crowd_mut().len();
        let was_short = crowd.takes.is_some() || crowd.budget_short.is_some();
        if clients != crowd.clients || crowd.planned_anew || was_short {
            (crowd.clients, crowd.planned_anew) = (clients, false);
            crowd.budget_short = admission.budget_short();
            crowd.takes = admission.overload().map(|_| {
                // Longer than can be said, if there is no bound.
                admission.rounds(Span::FOREVER).unwrap_or(Span::FOREVER)
            });
        }
        crowd.tell_short_budget(now, table, out);
        let Some(takes) = crowd.takes else { return };
        if crowd.told_at != Time::ZERO && now < crowd.told_at + TOLD_EVERY {
            return;
        }
        crowd.told_at = now;
        let streams = admitted_where(table, |topic| crowd.is_crowded_for(topic));
        out.report(&Event::Crowded { clients, takes, streams });
    }
}

impl Broker {
    /// How many clients of other protocols share with subscribers, by how their bytes are carried. Admission counts their connections.
    /// The first of them are served in turn, the second last.
    pub fn share_with(&mut self, others: [&Carriers<u64>; 2]) {
        let others = others.map(|others| *others);
        let before = self.flow.work.part.share_with(others);
        if before == others {
            return;
        }
        let (io, crowd) = (self.settings.costs.io, self.promises.admission.crowd_mut());
        for transport in [Transport::Plain, Transport::Tls, Transport::WebSocket, Transport::SecureWebSocket]
        {
            for (last, (before, now)) in [false, true].into_iter().zip(before.iter().zip(&others)) {
                let io = transport.of(&io).served(last);
                crowd.remove(io, *transport.of(before));
                crowd.add(io, *transport.of(now));
            }
        }
    }
}

fn is_shorter(topic: &Topic, takes: Span) -> bool {
    !topic.plan.dispatch.is_forever() && topic.plan.dispatch < takes
}

/// How many admitted streams have such topics.
fn admitted_where(table: &Table, concerned: impl Fn(&Topic) -> bool) -> u64 {
    let streams = table.streams().filter(|(_, stream)| stream.record.admitted);
    streams.filter_map(|(_, stream)| table.topic(stream.topic)).filter(|topic| concerned(topic)).count()
        as u64
}
