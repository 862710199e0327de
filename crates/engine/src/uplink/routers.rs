//! Routers by their places: which there are, and what is known of each.

use super::ends::End;
use super::wishes::Wishes;
use super::{ROUTERS_MAX, Traffic, Uplink, UplinkNews, UplinkReporter, UplinkSettings, Which};
use contract::path::REASSIGNED_WITHIN;
use contract::{Span, Time};
use endpoint::{Reigning, Settings};
use wire::Effects;

/// A place is not taken again before whatever was dialed there has come or failed.
const VACANT_FOR: Span = Span::secs(10);
const TOO_MANY_ROUTERS: &str =
    "this site is linked to as many routers as it may be: its topics do not cross by this one";

/// A router, and what is known of it.
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
    /// One that is not reached yet.
    pub(super) fn new(name: &str, brokers: u8, settings: &UplinkSettings, now: Time) -> Router {
        let end = End::new(Settings { brokers, ..settings.router.clone() }, Some(settings.link), now);
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
        Router { vacant_since: now, ..Router::new("", 0, settings, now) }
    }

    pub(super) fn is_vacant(&self) -> bool {
        self.brokers == 0
    }
}

impl<R: UplinkReporter> Uplink<R> {
    /// The place that a router has, or is to have; what was there before is let go. `None`: there are too many, which is told.
    pub fn place_for<N: Effects>(&mut self, now: Time, name: &str, net: &mut N) -> Option<usize> {
        if let Some(place) = self.router_called(name) {
            self.unlink(now, place, net);
        }
        let vacant = self
            .routers
            .iter()
            .position(|router| router.is_vacant() && router.vacant_since + VACANT_FOR <= now);
        if vacant.is_none() && self.routers.len() >= ROUTERS_MAX {
            self.reporter.report(&UplinkNews::Unreached { router: name, why: TOO_MANY_ROUTERS });
            return None;
        }
        Some(vacant.unwrap_or_else(|| {
            self.routers.push(Router::vacant(&self.settings, now));
            self.routers.len() - 1
        }))
    }

    /// Links to a router at this place; it has so many brokers, which can be dialed by now.
    pub fn link<N: Effects>(&mut self, now: Time, place: usize, name: &str, brokers: u8, net: &mut N) {
        if let Some(router) = self.routers.get_mut(place) {
            *router = Router::new(name, brokers, &self.settings, now);
            self.wish_at_routers(net);
        }
    }

    pub(super) fn router_called(&self, name: &str) -> Option<usize> {
        self.routers.iter().position(|router| router.name == name)
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
                }
                let Some(router) = self.routers.get_mut(index) else { return };
                if !std::mem::replace(&mut router.reached, true) {
                    router.settles_until = Some(now + REASSIGNED_WITHIN);
                    self.reporter.report(&UplinkNews::Reached { router: &router.name });
                    self.move_streams(net);
                }
            }
            Reigning::Nobody => {
                router.reached = false;
                self.reporter.report(&UplinkNews::Unreached { router: &router.name, why: "" });
                self.hold_all(index, net);
                self.move_streams(net);
            }
        }
    }

    /// A router is left: it has nothing more of this site.
    pub(super) fn unlink<N: Effects>(&mut self, now: Time, place: usize, net: &mut N) {
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
