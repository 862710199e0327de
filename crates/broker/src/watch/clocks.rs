//! How far the clocks of clients are from this broker's, and what that explains.
//!
//! A client asks for the time now and then, and says what it has found: the answer came within a known time, so that the truth is
//! no further from the middle than half of that (`endpoint/clock.rs`). Whatever the load and the way, the difference is thus known with
//! its error, and what it explains is not said of deadlines or load.

use crate::outputs::Outputs;
use crate::settings::Settings;
use crate::store::Store;
use crate::store::ids::SessionId;
use crate::store::links::{Link, Links};
use crate::store::table::Topic;
use crate::watch::COMPLAINT_INTERVAL;
use crate::watch::events::{Event, LateCause};
use crate::watch::status::Stats;
use contract::{LinkClass, Span, Time, invariant};
use wire::{ClockDifference, Frame, LinkId};

/// Clocks that differ by more than this are no jitter between synchronised ones.
pub(crate) const CLOCKS_APART_MIN: Span = Span::millis(10);

impl Stats {
    /// A client asks for the time, and says how far its clock is ahead, as far as it knows.
    pub(crate) fn tell_time(
        &mut self,
        now: Time,
        from: LinkId,
        (sent, known): (Time, Option<ClockDifference>),
        (store, settings): (&mut Store, &Settings),
        out: &mut impl Outputs,
    ) {
        out.send(from, &Frame::ClockReply { sent, clock: now });
        let Some(link) = store.links.get_mut(from) else {
            return invariant!("who sends a frame has a link");
        };
        link.clock = known.filter(|known| known.within >= Span::ZERO);
        store.look_at_way(now, from, settings, out);
        let Some(link) = store.links.get_mut(from) else {
            return invariant!("who sends a frame has a link");
        };
        let Some(clock) = link.clock.filter(|clock| clock.least() > CLOCKS_APART_MIN) else { return };
        let ahead = clock.ahead > Span::ZERO;
        let (told_at, told_ahead) = link.clock_told;
        let recent = told_at <= now && now < told_at + COMPLAINT_INTERVAL && told_ahead == ahead;
        if recent || !self.telling.allows(now, Time::ZERO) {
            return;
        }
        link.clock_told = (now, ahead);
        out.report(&Event::ClockApart { client: &link.name, ahead: clock.ahead, within: Some(clock.within) });
    }
}

/// Topics that are looked at for a subscriber that is far.
const TOPICS_LOOKED_AT: usize = 4_096;

impl Store {
    /// Whether a subscriber is further away than the link class of its topics says. It has just said how long answers take.
    fn look_at_way(&mut self, now: Time, from: LinkId, settings: &Settings, out: &mut impl Outputs) {
        let Some(link) = self.links.get(from) else {
            return invariant!("who sends a frame has a link");
        };
        let (Some(way), Some(session)) = (link.way(), link.session()) else { return };
        let nearest = settings.links.iter().map(|(_, delay)| delay.to_subscriber).min();
        let recent = link.far_told_at <= now && now < link.far_told_at + COMPLAINT_INTERVAL;
        if nearest.is_none_or(|nearest| way <= nearest) || recent {
            return;
        }
        let topics = self.table.topics.iter().flatten().take(TOPICS_LOOKED_AT);
        let far = topics.filter(|topic| topic.subscribers.contains(&session));
        let Some((topic, planned)) =
            far.filter_map(|topic| Some((topic, self.is_too_far(topic, session, way, settings)?))).next()
        else {
            return;
        };
        let class = self.class_of_way(topic, session);
        let (subscriber, topic) = (&*link.name, topic.name.as_str());
        out.report(&Event::SubscriberFar { subscriber, topic, class: class.name(), way, planned });
        match self.links.get_mut(from) {
            Some(link) => link.far_told_at = now,
            None => invariant!("telling the admin closes no link"),
        }
    }

    /// The class of the way to a subscriber of a topic: its own, if it has said so.
    fn class_of_way(&self, topic: &Topic, session: SessionId) -> LinkClass {
        let session = self.sessions.get(session);
        let own =
            session.and_then(|session| session.needs_of(topic.name.as_str()).find_map(|needs| needs.link));
        own.unwrap_or(topic.contract.link)
    }

    /// The way to a subscriber that a topic is planned with, where this one is longer.
    fn is_too_far(&self, topic: &Topic, session: SessionId, way: Span, settings: &Settings) -> Option<Span> {
        let planned = settings.links.delay(self.class_of_way(topic, session))?.to_subscriber;
        (way > planned && !topic.strict().deadline.is_forever()).then_some(planned)
    }

    /// Whether a subscriber of a topic is further away than its link class says.
    pub(crate) fn has_far_subscribers(&self, topic: &Topic, settings: &Settings) -> bool {
        topic.subscribers.iter().any(|index| {
            let way = self.sessions.get(*index).and_then(|session| self.links.get(session.link?)?.way());
            way.is_some_and(|way| self.is_too_far(topic, *index, way, settings).is_some())
        })
    }
}

impl Link {
    /// About how long the way to a client takes at best: half of the shortest time of late in which an answer came.
    fn way(&self) -> Option<Span> {
        self.clock.map(|clock| clock.within)
    }
}

impl Links {
    /// How far a client's clock is ahead of this broker's, where it has said so.
    pub(crate) fn clock_of(&self, client: &str) -> Option<ClockDifference> {
        self.get(self.find(client)?)?.clock
    }
}

/// Why a message was late. `age`: how old it was when it came, if it was older than its deadline then.
pub(crate) fn cause_of_lateness(clock: Option<ClockDifference>, age: Option<Span>) -> LateCause {
    match (clock, age) {
        (Some(clock), _) if clock.ahead < Span::ZERO && clock.least() > CLOCKS_APART_MIN => {
            LateCause::Clock(clock)
        }
        (_, Some(age)) => LateCause::Age(age),
        _ => LateCause::Broker,
    }
}
