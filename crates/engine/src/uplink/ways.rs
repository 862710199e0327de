//! Whether the whole way keeps the contract of a stream that crosses, and how old its messages are at most where they come next.
//!
//! The problem: the deadline is that of the whole way, and each broker of it knows its own part. The idea: what lies behind a broker comes
//! with what is wanted, the longest of it ([`super::wishes`]); what lies before it comes with the stream ([`Crossing`]). Between the two an
//! uplink adds the links that it knows, and compares with the deadline. What cannot be kept crosses without a promise, when there is
//! time, and that is said; so is what the next broker would not promise.
//!
//! Source: `contract/path.rs`; `docs/decisions/0040`.

use super::{Uplink, UplinkNews, UplinkReporter, Which, router_name};
use contract::{Crossing, Mutant, Narrow, Span};
use std::collections::{BTreeMap, BTreeSet};
use wire::Effects;

/// What is said of a stream that comes so.
const NOT_PROMISED_BEFORE: &str =
    "the way to this site does not promise it: see `verge site status` at the site that publishes it";
/// Streams of which it is remembered why they cross without a promise.
const UNPROMISED_MAX: usize = 1_024;

/// Streams that cross without a promise: where they are published, the topic there, and why.
#[derive(Default)]
pub(super) struct Unpromised(BTreeMap<(Which, Box<str>), Why>);

struct Why {
    text: Box<str>,
    /// Whether the next broker has refused to promise it, so that it is not asked again.
    refused: bool,
}

impl Unpromised {
    fn is_refused(&self, which: Which, topic: &str) -> bool {
        self.0.get(&(which, topic.into())).is_some_and(|why| why.refused)
    }

    /// Everything: where, the topic, and why.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Which, &str, &str)> {
        self.0.iter().map(|((which, topic), why)| (*which, &**topic, &*why.text))
    }

    /// Nothing is to be said of a stream any more.
    pub(super) fn forget(&mut self, which: Which, topic: &str) {
        self.0.remove(&(which, topic.into()));
    }

    /// Nor of anything that is published there.
    pub(super) fn forget_all_at(&mut self, which: Which) {
        self.0.retain(|(at, _), _| *at != which);
    }

    pub(super) fn is_known(&self, which: Which, topic: &str) -> bool {
        self.0.contains_key(&(which, topic.into()))
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// The next broker on the way of a stream.
pub(super) struct Next<'a> {
    pub(super) which: Which,
    /// How exactly the clock of the router on this part of the way is known, whichever side of it.
    pub(super) clock: Span,
    /// What the topic is called there.
    pub(super) topic: &'a str,
    /// `D`.
    pub(super) deadline: Span,
    /// Messages that are kept here for that broker.
    pub(super) retain: u32,
    /// From when a message is there until the last who wants it has it.
    pub(super) onward: Span,
    /// Why the link to routers has no room for it.
    pub(super) narrow: Option<Narrow>,
}

impl<R: UplinkReporter> Uplink<R> {
    /// How exactly a router's clock is known.
    pub(super) fn clock_of(&self, router: usize) -> Span {
        let known = self.routers.get(router).and_then(|router| router.end.endpoint.clock());
        known.map_or(Span::ZERO, |known| known.within)
    }

    /// What is known of a stream's messages when they come to the next broker, where this is known when they leave the one before.
    pub(super) fn crossing_to(&mut self, before: Crossing, next: &Next<'_>) -> Crossing {
        let links = self.settings.near + self.settings.far;
        let within = before.within + next.clock;
        let age = before.age + links;
        let takes = age + next.onward;
        let kept = takes <= next.deadline;
        let refused = self.unpromised.is_refused(next.which, next.topic);
        if before.promised
            && let Some(narrow) = next.narrow
        {
            self.unpromise(next.which, next.topic, &narrow.to_string(), false);
        } else if before.promised && !kept {
            let why = format!(
                "the whole way may take {takes}, and its deadline is {}: {} until it leaves the broker before this uplink, {links} on the two \
                 links here, {} behind them",
                next.deadline, before.age, next.onward
            );
            self.unpromise(next.which, next.topic, &why, false);
        } else if !refused {
            self.unpromised.forget(next.which, next.topic);
        }
        let age = if Mutant::ForgetAge.is_on() { Span::ZERO } else { age };
        let retain = if Mutant::KeepLess.is_on() { next.retain + 4 } else { next.retain };
        Crossing {
            age,
            retain,
            within,
            promised: before.promised && kept && !refused && next.narrow.is_none(),
        }
    }

    /// The next broker has refused a stream. Where it was asked for a promise, it is asked without. Returns whether that is so.
    pub(super) fn ask_without_promise<N: Effects>(
        &mut self,
        which: Which,
        publication: u32,
        why: &str,
        net: &mut N,
    ) -> bool {
        let carried = self.get(which).and_then(|end| end.endpoint.carried(publication));
        let Some((topic, crossing)) = carried.map(|(topic, crossing)| (Box::<str>::from(topic), crossing))
        else {
            return false;
        };
        if !crossing.promised {
            return false;
        }
        if !Mutant::PromiseAnyway.is_on() {
            self.unpromise(which, &topic, why, true);
        }
        let crossing = Crossing { promised: false, ..crossing };
        self.with_end(which, net, |end, out| end.endpoint.carry_by(publication, crossing, out));
        true
    }

    /// Streams that have come here without a promise: somebody before this uplink knows why.
    pub(super) fn come_unpromised(&self) -> impl Iterator<Item = (Which, &str, &str)> {
        let coming = self.inward.at_home().filter_map(|publication| self.home.endpoint.carried(publication));
        let unpromised = coming.filter(|(_, crossing)| !crossing.promised).map(|(topic, _)| topic);
        // A topic may have several streams.
        let topics: BTreeSet<&str> =
            unpromised.filter(|topic| !self.unpromised.is_known(Which::Home, topic)).collect();
        topics.into_iter().map(|topic| (Which::Home, topic, NOT_PROMISED_BEFORE))
    }

    /// Remembers why a stream crosses without a promise. That is told once for each reason.
    fn unpromise(&mut self, which: Which, topic: &str, why: &str, refused: bool) {
        let key = (which, Box::<str>::from(topic));
        let known = self.unpromised.0.get(&key);
        let is_news = known.is_none_or(|before| *before.text != *why);
        if known.is_none() && self.unpromised.0.len() >= UNPROMISED_MAX {
            return;
        }
        if is_news {
            let router = router_name(&self.routers, which);
            self.reporter.report(&UplinkNews::Unpromised { router, topic, why });
        }
        self.unpromised.0.insert(key, Why { text: why.into(), refused });
    }
}
