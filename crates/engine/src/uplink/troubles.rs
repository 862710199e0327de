//! What does not cross as it should, and why: told once for each reason, and shown for as long as it is so.

use super::{Uplink, UplinkNews, UplinkReporter, Which, router_name};
use wire::Effects;

/// Streams of which it is remembered why they are not carried, and filters of which it is why they are not subscribed.
const REFUSED_MAX: usize = 1_024;

impl<R: UplinkReporter> Uplink<R> {
    pub(super) fn note_refusal<N: Effects>(
        &mut self,
        which: Which,
        publication: u32,
        why: &str,
        net: &mut N,
    ) {
        if self.ask_without_promise(which, publication, why, net) {
            return;
        }
        if let Some(topic) = self.topic_of(which, publication) {
            self.refuse(which, &topic, why);
        }
    }

    /// What a stream is called where it is published.
    pub(super) fn topic_of(&self, which: Which, publication: u32) -> Option<Box<str>> {
        Some(self.get(which)?.endpoint.carried(publication)?.0.into())
    }

    /// One of the ends has said whether a filter is subscribed there.
    pub(super) fn note_wish(&mut self, which: Which, subscription: u32, refused: Option<String>) {
        if refused.is_none() && self.unwished.is_empty() {
            return;
        }
        let Some(filter) = self.get(which).map(|end| end.filter_of(subscription).to_owned()) else { return };
        match refused {
            Some(why) => self.tell_unwished(which, &filter, &why),
            None => _ = self.unwished.remove(&(which, filter.into())),
        }
    }

    /// Something that others want is not subscribed at one of the ends. That is told once for each reason.
    pub(super) fn tell_unwished(&mut self, which: Which, filter: &str, why: &str) {
        let known = self.unwished.get(&(which, filter.into()));
        if known.map_or(self.unwished.len() < REFUSED_MAX, |before| **before != *why) {
            let router = router_name(&self.routers, which);
            self.reporter.report(&UplinkNews::Unwished { router, filter, why });
            self.unwished.insert((which, filter.into()), why.into());
        }
    }

    /// A stream is not carried at one of the ends. That is told once for each reason.
    pub(super) fn refuse(&mut self, which: Which, topic: &str, why: &str) {
        let router = router_name(&self.routers, which);
        let key = (which, topic.into());
        self.unpromised.forget(which, topic);
        let known = self.refused.get(&key);
        let is_news = known.map_or(self.refused.len() < REFUSED_MAX, |before| **before != *why);
        if is_news {
            self.reporter.report(&UplinkNews::Refused { router, topic, why });
            self.refused.insert(key, why.into());
        }
    }

    pub(super) fn is_troubled(&self, which: Which, topic: &str) -> bool {
        self.unpromised.is_known(which, topic) || self.refused.contains_key(&(which, topic.into()))
    }

    /// A stream has ended, and no other of its topic goes there: nothing is to be said of it any more.
    pub(super) fn forget_troubles(&mut self, which: Which, topic: &str) {
        self.refused.remove(&(which, topic.into()));
        self.unpromised.forget(which, topic);
    }

    pub(super) fn note_admission(&mut self, which: Which, publication: u32) {
        if self.refused.is_empty() {
            return;
        }
        if let Some(topic) = self.topic_of(which, publication) {
            self.refused.remove(&(which, topic));
        }
    }
}
