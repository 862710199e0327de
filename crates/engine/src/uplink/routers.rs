//! Routers by their places: which there are, and what is known of each.
//!
//! A router has two places: one for what is promised, and, where the link is thin, one for best effort. Each is a connection, and a client of
//! the router, of its own, so that what was lost or waits on one holds up nothing on the other. Where the link is wide the first has
//! everything, and the second stays free.

use super::ends::End;
use super::wishes::Wishes;
use super::{ROUTERS_MAX, Traffic, Uplink, UplinkNews, UplinkReporter, UplinkSettings, Which};
use contract::path::REASSIGNED_WITHIN;
use contract::{Mutant, Span, Time, TrafficClass};
use endpoint::{Reigning, Settings};
use wire::Effects;
use wire::limits::SITE_BULK;

/// A place is not taken again before whatever was dialed there has come or failed.
const VACANT_FOR: Span = Span::secs(10);
const TOO_MANY_ROUTERS: &str =
    "this site is linked to as many routers as it may be: its topics do not cross by this one";

/// Places that a router has.
pub(super) const CLASSES: usize = 2;

/// The place of a router's connection for a class, from the router's own number.
pub(super) fn place_of(router: usize, class: TrafficClass) -> usize {
    CLASSES * router + usize::from(class == TrafficClass::Bulk)
}

/// The class of what goes by a place, where classes have their own.
pub(super) fn class_at(place: usize) -> TrafficClass {
    if place.is_multiple_of(CLASSES) { TrafficClass::Promised } else { TrafficClass::Bulk }
}

/// A connection to a router, and what is known of it.
pub(super) struct Router {
    pub(super) name: String,
    /// How many addresses it has; none where the place is free.
    pub(super) brokers: u8,
    pub(super) end: End,
    pub(super) reached: bool,
    /// It has been reached before.
    pub(super) met: bool,
    /// It knows nothing of sites yet, since it has begun anew: until then they may come back.
    pub(super) anew_until: Option<Time>,
    /// Why it was left last.
    pub(super) why: String,
    /// What other sites want there.
    pub(super) wishes: Wishes,
    pub(super) sent: Traffic,
    pub(super) came: Traffic,
    pub(super) vacant_since: Time,
    /// It was reached a moment ago: not all who want something there may be there yet.
    pub(super) settles_until: Option<Time>,
}

impl Router {
    /// One that is not reached yet. `class`: what goes by it, where classes have connections of their own.
    pub(super) fn new(
        name: &str,
        brokers: u8,
        class: Option<TrafficClass>,
        settings: &UplinkSettings,
        now: Time,
    ) -> Router {
        let mut end = Settings { brokers, ..settings.router.clone() };
        if class == Some(TrafficClass::Bulk) {
            end.name.push_str(SITE_BULK);
        }
        let end = End::new(end, Some(settings.link), class, now);
        Router {
            name: name.to_owned(),
            brokers,
            end,
            reached: false,
            met: false,
            anew_until: None,
            why: String::new(),
            wishes: Wishes::default(),
            sent: Default::default(),
            came: Default::default(),
            vacant_since: Time::ZERO,
            settles_until: None,
        }
    }

    /// A place for one.
    fn vacant(settings: &UplinkSettings, now: Time) -> Router {
        Router { vacant_since: now, ..Router::new("", 0, None, settings, now) }
    }

    /// The connections to a router of this name.
    pub(super) fn of(name: &str, brokers: u8, settings: &UplinkSettings, now: Time) -> [Router; CLASSES] {
        let one = |class| Router::new(name, brokers, class, settings, now);
        match settings.thin {
            Some(_) => [one(Some(TrafficClass::Promised)), one(Some(TrafficClass::Bulk))],
            None => [one(None), Router::vacant(settings, now)],
        }
    }

    /// Whether it is reached, and somebody wants a topic there who surely is there.
    pub(super) fn carries(&self, topic: &str) -> bool {
        let wanted = match self.anew_until {
            Some(_) => self.wishes.mean_surely(topic),
            None => self.wishes.mean(topic),
        };
        self.reached && wanted
    }

    /// The same, and all who want it are there.
    pub(super) fn serves(&self, topic: &str) -> bool {
        self.carries(topic) && (!self.wishes.is_absent(topic) || Mutant::TrustAbsent.is_on())
    }

    pub(super) fn is_vacant(&self) -> bool {
        self.brokers == 0
    }
}

impl<R: UplinkReporter> Uplink<R> {
    /// The number that a router has, or is to have; what had it before is let go. `None`: there are too many, which is told.
    pub fn place_for<N: Effects>(&mut self, now: Time, name: &str, net: &mut N) -> Option<usize> {
        if let Some(router) = self.router_called(name) {
            self.unlink(now, router, net);
        }
        let is_free = |router: &Router| router.is_vacant() && router.vacant_since + VACANT_FOR <= now;
        let vacant = self.routers.chunks(CLASSES).position(|places| places.iter().all(is_free));
        if vacant.is_none() && self.routers.len() >= CLASSES * ROUTERS_MAX {
            let bulk = false;
            self.reporter.report(&UplinkNews::Unreached { router: name, bulk, why: TOO_MANY_ROUTERS });
            return None;
        }
        Some(vacant.unwrap_or_else(|| {
            (0..CLASSES).for_each(|_| self.routers.push(Router::vacant(&self.settings, now)));
            self.routers.len() / CLASSES - 1
        }))
    }

    /// Best effort has its part of a thin link with all routers together.
    pub(super) fn share_pace<N: Effects>(&mut self, net: &mut N) {
        let Some(thin) = self.settings.thin else { return };
        let places: Vec<usize> = (0..self.routers.len())
            .filter(|place| class_at(*place) == TrafficClass::Bulk && !self.routers[*place].is_vacant())
            .collect();
        let rate = thin.bulk / (places.len() as u64).max(1);
        for place in places {
            self.with_end(Which::Router(place), net, |end, out| end.endpoint.pace(rate, out));
        }
    }

    /// Links to a router by this number; it has so many brokers, which can be dialed by now.
    pub fn link<N: Effects>(&mut self, now: Time, router: usize, name: &str, brokers: u8, net: &mut N) {
        let connections = Router::of(name, brokers, &self.settings, now);
        for (place, anew) in self.routers.iter_mut().skip(CLASSES * router).zip(connections) {
            // A place that stays free does so since it was left.
            if !anew.is_vacant() {
                *place = anew;
            }
        }
        self.share_pace(net);
        self.wish_at_routers(net);
    }

    /// The number of a router.
    pub(super) fn router_called(&self, name: &str) -> Option<usize> {
        self.routers.iter().position(|router| router.name == name).map(|place| place / CLASSES)
    }

    /// The place of a router's connection for a class.
    pub(super) fn place_called(&self, name: &str, class: TrafficClass) -> Option<usize> {
        Some(place_of(self.router_called(name)?, self.way_of(class)))
    }

    /// The class by whose connections a class goes.
    pub(super) fn way_of(&self, class: TrafficClass) -> TrafficClass {
        let divides = self.settings.thin.is_some() && !Mutant::OneWayForAll.is_on();
        if divides { class } else { TrafficClass::Promised }
    }

    /// A router is reached, or is not any more.
    pub(super) fn hear_router<N: Effects>(
        &mut self,
        now: Time,
        index: usize,
        reigning: Reigning,
        net: &mut N,
    ) {
        let Some(router) = self.routers.get_mut(index) else { return };
        match reigning {
            Reigning::Primary { stood_by, .. } => {
                router.wishes.ask();
                router.why.clear();
                let knows = stood_by || !std::mem::replace(&mut router.met, true);
                router.anew_until = (!knows).then(|| now + REASSIGNED_WITHIN);
                if knows {
                    self.release_all(index, net);
                } else {
                    self.forget_ways_from(index);
                }
                let Some(router) = self.routers.get_mut(index) else { return };
                if !std::mem::replace(&mut router.reached, true) {
                    router.settles_until = Some(now + REASSIGNED_WITHIN);
                    let bulk = class_at(index) == TrafficClass::Bulk;
                    self.reporter.report(&UplinkNews::Reached { router: &router.name, bulk });
                    self.move_streams(net);
                }
            }
            Reigning::Nobody => {
                router.reached = false;
                let bulk = class_at(index) == TrafficClass::Bulk;
                self.reporter.report(&UplinkNews::Unreached { router: &router.name, bulk, why: "" });
                self.hold_all(index, net);
                self.move_streams(net);
                self.await_elsewhere(index, net);
            }
        }
    }

    /// A router is left: it has nothing more of this site.
    pub(super) fn unlink<N: Effects>(&mut self, now: Time, router: usize, net: &mut N) {
        for place in CLASSES * router..CLASSES * (router + 1) {
            if self.routers.get(place).is_some_and(|router| !router.is_vacant()) {
                self.vacate(now, place, net);
            }
        }
        self.share_pace(net);
    }

    fn vacate<N: Effects>(&mut self, now: Time, place: usize, net: &mut N) {
        let which = Which::Router(place);
        self.end_all_of(place, net);
        self.wish_at(which, Default::default(), net);
        self.with(now, which, net, |endpoint, out| endpoint.say_farewell(out));
        // Another router may have this place.
        self.refused.retain(|(at, _), _| *at != which);
        self.unwished.retain(|(at, _), _| *at != which);
        self.unpromised.forget_all_at(which);
        if let Some(router) = self.routers.get_mut(place) {
            *router = Router::vacant(&self.settings, now);
        }
    }
}
