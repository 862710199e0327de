//! The timing analysis of one topic: formulas F1 to F7 and R4, each a function that names its lemma.
//!
//! The problem: a message must reach its subscribers in time, and when the primary dies, at most `L` in a row may be
//! lost. The idea: a message is safe while its publisher still retains it, so the copy to the backup may wait until
//! just before that ends; and where the dispatch is due even earlier than the copy, no copy is needed at all.
//!
//! Source: FRAME §3.3 (lemmas 1 and 2, proposition 1); for R4, ARREC §4.4. Notation there and names here:
//!
//! | there | here |
//! |---|---|
//! | `T`, `D`, `L`, `N` | [`Contract`]: `period`, `deadline`, `loss`, `retain` |
//! | `x` | [`Delays::failover`] |
//! | `ΔPB`, `ΔBB` | [`Delays::publisher_to_broker`], [`Delays::broker_to_broker`] |
//! | `ΔBS` | [`Links`], per destination link class |
//! | `D^r`, `D^d` | replication deadline, dispatch deadline |

use crate::{Contract, LinkClass, Loss, Mutant, Span, Time};

/// The delays of a deployment that do not depend on the topic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delays {
    /// `x`: from the failure of the primary until every publisher sends to the backup. An upper bound.
    pub failover: Span,
    /// `ΔBB`: from the primary to the backup. An upper bound.
    pub broker_to_broker: Span,
    /// `ΔPB`: from creation to arrival at the broker. The upper bound that admission plans with; at run time it is
    /// measured for every message.
    pub publisher_to_broker: Span,
    /// `R`: a message that goes on to other brokers leaves a broker so long after it came, at most. A promise: admission plans with it.
    pub response: Span,
}

impl Default for Delays {
    fn default() -> Delays {
        Delays {
            failover: Span::millis(50),
            broker_to_broker: Span::micros(50),
            publisher_to_broker: Span::millis(1),
            response: Span::millis(5),
        }
    }
}

/// The delays of one class of links to subscribers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkDelay {
    /// `ΔBS`: from the broker to a subscriber. It decides how late a dispatch may start. FRAME §3.3.4 takes a *lower* bound, for an
    /// estimate above the truth lets urgent local messages be overtaken for nothing. A deadline is kept at the subscriber where
    /// the way takes no longer than this, so brokers say where it does.
    pub to_subscriber: Span,
    /// From dispatch until the subscriber's confirmation is back. An *upper* bound; used by confirmed topics only.
    pub confirmation: Span,
}

/// The link classes of a deployment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Links(Vec<(LinkClass, LinkDelay)>);

impl Links {
    /// Most classes that a deployment may define.
    pub const MAX: usize = 64;

    /// Links of the given classes; a class named twice keeps its last delay.
    pub fn new(classes: impl IntoIterator<Item = (LinkClass, LinkDelay)>) -> Links {
        let mut links = Links(Vec::new());
        for (class, delay) in classes {
            links.0.retain(|(known, _)| *known != class);
            links.0.push((class, delay));
        }
        links
    }

    /// The delays of a class, if the deployment defines it.
    pub fn delay(&self, class: LinkClass) -> Option<LinkDelay> {
        self.0.iter().find(|(known, _)| *known == class).map(|(_, delay)| *delay)
    }

    /// Every class with its delays.
    pub fn iter(&self) -> impl Iterator<Item = &(LinkClass, LinkDelay)> {
        self.0.iter()
    }
}

impl Default for Links {
    /// `edge` at 1 ms and `cloud` at 20 ms.
    fn default() -> Links {
        let edge = LinkDelay { to_subscriber: Span::millis(1), confirmation: Span::millis(10) };
        let cloud = LinkDelay { to_subscriber: Span::millis(20), confirmation: Span::millis(100) };
        Links(vec![(LinkClass::EDGE, edge), (LinkClass::CLOUD, cloud)])
    }
}

/// **F1**, FRAME, lemma 1: `D^r = (N + L)·T − ΔPB − ΔBB − x`. A message whose copy leaves within `D^r` of its arrival is
/// covered at every crash instant; one nanosecond later there is an instant at which `L + 1` in a row are lost.
pub fn replication_deadline(contract: &Contract, publisher_to_broker: Span, delays: &Delays) -> Span {
    let failover = if Mutant::CopyLate.is_on() { Span::ZERO } else { delays.failover };
    contract.cover() - publisher_to_broker - delays.broker_to_broker - failover
}

/// **R4**, ARREC, lemmas 4 and 6: `D^r(M) = (N + L - M + 1)·T - ΔPB - ΔBB - x`, where one in `M` messages
/// is copied, for `1 ≤ M ≤ max(1, L + 1)`. F1 is the case `M = 1`.
///
/// Why: count messages back from the last one that was sent to the dead primary. `0` to `N - 1` are retained. If the copy of
/// `q` has not left while that of `q + M` has, the run `N` to `q + M - 1` is lost, which must not be longer than `L`; so
/// `q = N + L - M + 1` must have been copied by the crash. Between two copies `M - 1` messages are covered by nothing, so
/// `M - 1 ≤ L`.
pub fn replication_deadline_of_every(
    contract: &Contract,
    every: u32,
    publisher_to_broker: Span,
    delays: &Delays,
) -> Span {
    let skipped = u64::from(every.saturating_sub(1));
    replication_deadline(contract, publisher_to_broker, delays) - contract.period * skipped
}

/// **F2**, FRAME, lemma 2: `D^d = D − ΔPB − ΔBS`.
pub fn dispatch_deadline(contract: &Contract, publisher_to_broker: Span, to_subscriber: Span) -> Span {
    let to_subscriber = if Mutant::DispatchLate.is_on() { Span::ZERO } else { to_subscriber };
    contract.deadline - publisher_to_broker - to_subscriber
}

/// **F3**, FRAME, proposition 1: no copy is needed if the dispatch is due no later than the copy would be: `D^d ≤ D^r`.
///
/// `settled` is the time that passes after the dispatch until the message counts as dispatched: zero where handing it
/// to the transport suffices (FRAME's case), the confirmation's upper bound where subscribers confirm.
pub fn replication_is_needless(dispatch: Span, replication: Span, settled: Span) -> bool {
    dispatch + settled <= replication || Mutant::CopyNothing.is_on()
}

/// **F3'**, FRAME, below proposition 1: the same decision without `ΔPB`, which cancels:
/// replicate if and only if `x + ΔBB − ΔBS > (N + L)·T − D`.
pub fn replication_is_needed(contract: &Contract, to_subscriber: Span, delays: &Delays) -> bool {
    let cover = contract.cover();
    !cover.is_forever()
        && delays.failover + delays.broker_to_broker - to_subscriber > cover - contract.deadline
}

/// **F4**, FRAME §3.3.4(1): both deadlines must be at least zero. Returns what is missing, if anything is.
pub fn shortfall(deadline: Span) -> Option<Span> {
    (deadline < Span::ZERO).then(|| -deadline)
}

/// **F5**: the smallest retention that makes `D^r ≥ 0`: `max(0, ⌈(x + ΔBB + ΔPB) / T − L⌉)`.
pub fn smallest_retention(contract: &Contract, publisher_to_broker: Span, delays: &Delays) -> u64 {
    let Loss::AtMost(losses) = contract.loss else { return 0 };
    let needed = delays.failover + delays.broker_to_broker + publisher_to_broker;
    let periods = needed.as_nanos_u64().div_ceil(contract.period.as_nanos_u64().max(1));
    periods.saturating_sub(u64::from(losses))
}

/// The smallest period that makes `D^r ≥ 0` with the retention as it is: the other way to satisfy F5.
pub fn smallest_period(contract: &Contract, publisher_to_broker: Span, delays: &Delays) -> Option<Span> {
    let Loss::AtMost(losses) = contract.loss else { return None };
    let messages = u64::from(contract.retain) + u64::from(losses);
    let needed = delays.failover + delays.broker_to_broker + publisher_to_broker;
    (messages > 0).then(|| Span(needed.as_nanos_u64().div_ceil(messages).min(i64::MAX as u64) as i64))
}

/// The numbers that are stored per topic at registration, so that an arrival costs two additions. What every message needs comes
/// first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct PseudoDeadlines {
    /// `D^d' = D − ΔBS`.
    pub dispatch: Span,
    /// `D^r' = (N + L)·T − ΔBB − x`.
    pub replication: Span,
}

/// **F6**, FRAME §3.4.1: the deadlines without `ΔPB`, which is known only when a message arrives.
pub fn pseudo_deadlines(contract: &Contract, to_subscriber: Span, delays: &Delays) -> PseudoDeadlines {
    PseudoDeadlines {
        replication: replication_deadline(contract, Span::ZERO, delays),
        dispatch: dispatch_deadline(contract, Span::ZERO, to_subscriber),
    }
}

/// **F7**: since arrival minus `ΔPB` is creation, the absolute deadline is `created + D'`, for both kinds of job.
pub fn absolute_deadline(created: Time, pseudo: Span) -> Time {
    created + pseudo
}

#[cfg(test)]
mod tests;
