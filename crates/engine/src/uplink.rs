//! What joins a site to others: a client of the site's own brokers and of each router at once, which carries what is wanted across.
//!
//! The problem: nothing may leave a site that nobody elsewhere wants, what is wanted must cross in time although clocks differ, and either
//! end may fail over. The idea: an uplink is nothing but endpoints. Towards a router it is a publisher that retains and sends again, towards
//! home a subscriber of just what routers say that other sites want; and the other way round. At a router a site's topics stand
//! below the site's name, so that sites cannot disturb each other, and each can be held to its own by ordinary rights.
//!
//! Beside each broker of a site there is an uplink; only the one whose broker reigns is connected to routers. To them, and to the site's brokers where
//! it receives what leaves, all uplinks of a site are one client: when another goes on, its subscriptions are there already, and what had to
//! wait meanwhile comes.
//!
//! Invariants: what leaves is published in this site, shared, and wanted elsewhere. What comes is wanted here. Streams keep their publishers,
//! lives and numbers, so that whatever comes twice is dropped where it is received.
//!
//! Source: the edge broker of PubSubCoord §2.6; `docs/decisions/0039`.

mod coordinated;
pub(crate) mod ends;
mod handing;
mod holding;
mod inward;
mod opening;
mod outward;
mod room;
mod routers;
mod sampling;
mod troubles;
mod ways;
pub(crate) mod wishes;

use crate::client_node::feed;
use crate::node::Node;
use contract::{LinkClass, Span, ThinLink, Time, TopicFilter, TrafficClass};
use coordinated::Coordinator;
pub use coordinated::{Coordinated, CoordinationView};
use endpoint::{BROKERS_MAX, Endpoint, Limits, PublishError, Reigning, Settings};
use ends::{Dials, End, Event, Heard, Through};
use inward::Inward;
use opening::Opening;
use outward::Outward;
use room::Room;
pub use room::{LinkView, WayView};
use routers::{CLASSES, Router, class_at, place_of};
use std::collections::BTreeMap;
use ways::Unpromised;
use wire::{Effects, LinkChange, LinkId, LinkMap, PeerIndex};
use wishes::Wishes;

/// Routers that an uplink may be told of.
pub const ROUTERS_MAX: usize = 14;
/// Brokers of a router.
const ROUTER_BROKERS_MAX: u8 = 2;
/// Numbers by which the driver is told to dial, for each end: one for each broker, and one for the way through it.
const PEERS_AT_HOME: u8 = 2 * BROKERS_MAX as u8;
const PEERS_PER_ROUTER: u8 = 2 * ROUTER_BROKERS_MAX;

/// One of an uplink's endpoints.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Which {
    /// At the site's own brokers, always: hears what is wanted there, and publishes what comes.
    Home,
    /// There too: receives what leaves. It is connected where that can go somewhere.
    Tap,
    /// At a router, by its place.
    Router(usize),
}

impl Which {
    /// Its numbers for dialing.
    fn dials(self) -> Dials {
        match self {
            Which::Home => Dials { base: 0, brokers: BROKERS_MAX as u8 },
            Which::Tap => Dials { base: PEERS_AT_HOME, brokers: BROKERS_MAX as u8 },
            Which::Router(place) => {
                let base = 2 * PEERS_AT_HOME + place as u8 * PEERS_PER_ROUTER;
                Dials { base, brokers: ROUTER_BROKERS_MAX }
            }
        }
    }

    /// Whose number for dialing that is, and what it means there.
    fn of_peer(peer: PeerIndex) -> (Which, PeerIndex) {
        let which = match peer.0 / PEERS_AT_HOME {
            0 => Which::Home,
            1 => Which::Tap,
            _ => Which::Router(usize::from((peer.0 - 2 * PEERS_AT_HOME) / PEERS_PER_ROUTER)),
        };
        (which, which.dials().peer(peer))
    }
}

/// Everything that an uplink is told at start.
#[derive(Clone, Debug)]
pub struct UplinkSettings {
    /// The site's name: one level of topics.
    pub site: String,
    /// How the site's own brokers are spoken to.
    pub home: Settings,
    /// The same where what leaves is received.
    pub tap: Settings,
    /// Which of them this uplink stands beside.
    pub beside: PeerIndex,
    /// How routers are spoken to; each has a number of brokers of its own.
    pub router: Settings,
    /// The routers: names, and how many addresses each has. None where the site is coordinated.
    pub routers: Vec<(String, u8)>,
    /// By name, for which topics a listed router is there before all others, while no others go by it.
    pub meant: BTreeMap<String, Vec<TopicFilter>>,
    /// How a coordination service names the routers, if one does.
    pub coordinated: Option<Coordinated>,
    /// Which of the site's topics may leave it.
    pub share: Vec<TopicFilter>,
    /// Which topics of other sites may come.
    pub want: Vec<TopicFilter>,
    /// The link class by which routers reckon the way to a site.
    pub link: LinkClass,
    /// Whether routers are reached through a proxy.
    pub proxied: bool,
    /// So many messages of each stream are retained for a router that fails, at least.
    pub retain: u32,
    /// What the link to routers carries, where that is little.
    pub thin: Option<ThinLink>,
    /// By filter whether topics go by two routers; the first that means a topic counts.
    pub twice: Vec<(TopicFilter, bool)>,
    /// From the site's own broker to here, and back: an upper bound.
    pub near: Span,
    /// The same to a router.
    pub far: Span,
}

impl UplinkSettings {
    /// The usual settings of a site whose pair has so many addresses. `incarnation`: when this process started.
    pub fn new(site: &str, beside: u8, brokers: u8, incarnation: u64) -> UplinkSettings {
        let crossing = |name: &str, incarnation, brokers| Settings {
            crosses: true,
            limits: Limits { subscriptions: FILTERS_MAX, ..Limits::default() },
            ..Settings::new(name, incarnation, brokers)
        };
        let everything = || vec!["#".parse().expect("invariant: a filter")];
        UplinkSettings {
            site: site.to_owned(),
            home: crossing(&format!("@{site}/{}", beside + 1), incarnation, brokers),
            tap: Settings {
                crosses: false,
                hands_on: true,
                ..crossing(&format!("@{site}/out"), ONE_LIFE, brokers)
            },
            beside: PeerIndex(beside),
            router: Settings {
                translates: true,
                hands_on: true,
                ..crossing(&format!("@{site}"), ONE_LIFE, 0)
            },
            routers: Vec::new(),
            meant: BTreeMap::new(),
            coordinated: None,
            share: everything(),
            want: everything(),
            link: LinkClass::CLOUD,
            proxied: false,
            retain: 0,
            thin: None,
            twice: Vec::new(),
            near: Span::millis(1),
            far: Span::millis(20),
        }
    }
}

impl UplinkSettings {
    /// Whether a topic goes by two routers.
    fn goes_twice(&self, topic: &str) -> bool {
        self.twice.iter().find(|(filter, _)| filter.matches(topic)).is_some_and(|(_, twice)| *twice)
    }
}

/// All uplinks of a site live one life where they are one client.
const ONE_LIFE: u64 = 1;
/// Filters that an uplink subscribes at one end.
const FILTERS_MAX: usize = 65_536;

/// What an uplink has to tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum UplinkNews<'a> {
    /// Its broker reigns, so that it carries; or it does no longer.
    Carries(bool),
    /// A router is reached.
    Reached {
        /// Its name.
        router: &'a str,
        /// That is meant of the connection for best effort.
        bulk: bool,
    },
    /// It is no longer, or still is not.
    Unreached {
        /// Its name.
        router: &'a str,
        /// That is meant of the connection for best effort.
        bulk: bool,
        /// Why, as far as somebody has said so.
        why: &'a str,
    },
    /// It is reached, and has dropped messages for this site, which took them too slowly.
    Dropped {
        /// Its name.
        router: &'a str,
        /// How many, and why.
        why: &'a str,
    },
    /// One of the site's own brokers does not let it in, or has let it go.
    Homeless {
        /// Why.
        why: &'a str,
    },
    /// A stream is not carried.
    Refused {
        /// The router that refuses it; `None`: the site's own broker.
        router: Option<&'a str>,
        /// The topic, as it is called there.
        topic: &'a str,
        /// Why.
        why: &'a str,
    },
    /// A stream crosses without a promise.
    Unpromised {
        /// The router; `None`: the site's own broker.
        router: Option<&'a str>,
        /// The topic, as it is called there.
        topic: &'a str,
        /// Why.
        why: &'a str,
    },
    /// The coordination service knows this site by its name, and says where its topics go.
    Coordinated,
    /// It does not, or something else is wrong with coordination. What is known goes on.
    Uncoordinated {
        /// Why, and what would do.
        why: &'a str,
    },
    /// Something that others want is not told to be wanted, or not subscribed.
    Unwished {
        /// The router; `None`: the site's own broker.
        router: Option<&'a str>,
        /// The filter.
        filter: &'a str,
        /// Why.
        why: &'a str,
    },
}

/// Who hears of it.
pub trait UplinkReporter {
    /// Something has happened.
    fn report(&mut self, news: &UplinkNews<'_>);
}

/// What an uplink has carried.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Traffic {
    /// Messages.
    pub messages: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Messages that could not be handed on, since too much waits on the connection.
    pub dropped: u64,
    /// Messages that another router had brought before.
    pub repeated: u64,
}

impl Traffic {
    /// Both together.
    fn plus(self, other: Traffic) -> Traffic {
        Traffic {
            messages: self.messages + other.messages,
            bytes: self.bytes + other.bytes,
            dropped: self.dropped + other.dropped,
            repeated: self.repeated + other.repeated,
        }
    }

    /// A message of so many bytes has been given to an endpoint, or not.
    fn count(&mut self, sent: Option<&Result<(), PublishError>>, bytes: usize) {
        match sent {
            Some(Ok(())) => {
                self.messages += 1;
                self.bytes += bytes as u64;
            }
            Some(Err(PublishError::Overloaded)) => self.dropped += 1,
            // That has been told.
            _ => {}
        }
    }
}

/// A router as it is seen from a site.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouterView {
    /// Its name.
    pub name: String,
    /// Whether it is reached, and has a primary.
    pub reached: bool,
    /// How far its clock is known to be from ours, and how exactly, in nanoseconds.
    pub clock: Option<(i64, i64)>,
    /// Why it is not reached, as far as somebody has said so.
    pub why: String,
    /// How long the way there is reckoned to be.
    pub reckoned: Span,
    /// Filters that other sites want.
    pub wishes: usize,
    /// Streams that go there, and what has gone.
    pub outward: (usize, Traffic),
    /// Streams that come from there, and what has come.
    pub inward: (usize, Traffic),
}

/// An uplink as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UplinkView {
    /// The site.
    pub site: String,
    /// Whether it carries.
    pub carries: bool,
    /// Filters that are wanted here, and not more often than once.
    pub wishes: usize,
    /// The routers.
    pub routers: Vec<RouterView>,
    /// Streams that are not carried.
    pub refused: Vec<(Option<String>, String, String)>,
    /// Streams that cross without a promise.
    pub unpromised: Vec<(Option<String>, String, String)>,
    /// Filters that are wanted on the other side, and could not be subscribed.
    pub unwished: Vec<(Option<String>, String, String)>,
    /// Topics that are to go by two routers, and go by one.
    pub by_one_router: Vec<String>,
    /// How coordination is, where a service does that.
    pub coordination: Option<CoordinationView>,
    /// How the link to routers is used, where it is thin.
    pub link: Option<LinkView>,
}

/// The uplink of a site, wired to bytes.
pub struct Uplink<R> {
    settings: UplinkSettings,
    reporter: R,
    /// When something was heard last.
    seen: Time,
    home: End,
    tap: End,
    /// Whether the tap is connected, or on its way.
    taps: bool,
    opening: Opening,
    routers: Vec<Router>,
    carries: bool,
    /// Why the site's own brokers were left last.
    why: String,
    /// Whose link each is.
    links: LinkMap<Which>,
    heard: Heard,
    /// What is heard while something is asked of an endpoint of which nothing comes at once: nothing.
    aside: Heard,
    coordinator: Option<Coordinator>,
    /// What is wanted at home.
    wishes: Wishes,
    wants_anew: WantsAnew,
    outward: Outward,
    inward: Inward,
    room: Room,
    /// Streams that are not carried: who refuses, the topic there, and why.
    refused: BTreeMap<(Which, Box<str>), Box<str>>,
    unpromised: Unpromised,
    /// Filters that are not subscribed at one of the ends although they are wanted: where, the filter, and why.
    unwished: BTreeMap<(Which, Box<str>), Box<str>>,
}

/// Where other things are to be subscribed than before.
#[derive(Default)]
struct WantsAnew {
    at_home: bool,
    at_routers: bool,
    /// Or something else is published here, and the service is to be told.
    published: bool,
    /// Or what is wanted here.
    wished: bool,
}

/// What keepers of sites say to each other stands below this. It crosses whatever is shared and wanted; all else that begins with `$` stays, save what is
/// wanted less often (`sampling.rs`).
const KEEPERS: &str = "$keep/";

/// Whether a topic may cross, where those of these filters may.
fn may_cross(topic: &str, allowed: &[TopicFilter]) -> bool {
    match topic.starts_with('$') {
        true => match sampling::split(topic) {
            Some((_, of)) => may_cross(of, allowed),
            None => topic.starts_with(KEEPERS),
        },
        false => allowed.iter().any(|allowed| allowed.matches(topic)),
    }
}

/// What of a filter may cross, where those of these filters may.
fn within(filter: &TopicFilter, allowed: &[TopicFilter]) -> Vec<TopicFilter> {
    match filter.as_str().starts_with('$') {
        true => match sampling::split(filter.as_str()) {
            Some((every, of)) => {
                let of: Option<TopicFilter> = of.parse().ok();
                let all = of.into_iter().flat_map(|of| within(&of, allowed));
                all.filter_map(|of| format!("{}{every}/{}", sampling::EVERY, of.as_str()).parse().ok())
                    .collect()
            }
            None => filter.as_str().starts_with(KEEPERS).then(|| filter.clone()).into_iter().collect(),
        },
        false => allowed.iter().filter_map(|allowed| allowed.common(filter)).collect(),
    }
}

/// A broker of one of the ends, and the way through it.
fn peers(which: Which, broker: PeerIndex) -> [PeerIndex; 2] {
    [broker, Endpoint::way(broker)].map(|peer| which.dials().number(peer))
}

/// What a router is called; the site's own brokers have no name.
fn router_name(routers: &[Router], which: Which) -> Option<&str> {
    match which {
        Which::Home | Which::Tap => None,
        Which::Router(place) => routers.get(place).map(|router| router.name.as_str()),
    }
}

impl<R: UplinkReporter> Uplink<R> {
    /// An uplink that has just started.
    pub fn new(settings: UplinkSettings, now: Time, reporter: R) -> Uplink<R> {
        let hears_topics = settings.coordinated.is_some();
        let home = End::new(Settings { hears_topics, ..settings.home.clone() }, None, None, now);
        let routers = settings.routers.iter().take(ROUTERS_MAX);
        let routers = routers.flat_map(|(name, brokers)| Router::of(name, *brokers, &settings, now));
        Uplink {
            routers: routers.collect(),
            coordinator: settings
                .coordinated
                .clone()
                .map(|coordinated| Coordinator::new(coordinated, &settings.site)),
            home,
            tap: End::new(settings.tap.clone(), None, None, now),
            taps: false,
            opening: Opening::default(),
            reporter,
            seen: now,
            carries: false,
            why: String::new(),
            links: LinkMap::default(),
            heard: Heard::default(),
            aside: Heard::default(),
            wishes: Wishes::default(),
            wants_anew: WantsAnew::default(),
            outward: Outward::default(),
            inward: Inward::default(),
            room: Room::new(settings.thin),
            refused: BTreeMap::new(),
            unpromised: Unpromised::default(),
            unwished: BTreeMap::new(),
            settings,
        }
    }

    /// The numbers by which the driver is told to dial a router's broker.
    pub fn peers_of(router: usize, broker: PeerIndex) -> [PeerIndex; 4] {
        let places = [TrafficClass::Promised, TrafficClass::Bulk].map(|class| place_of(router, class));
        let [[first, way], [bulk, other]] = places.map(|place| peers(Which::Router(place), broker));
        [first, way, bulk, other]
    }

    /// The router that is meant by such a number; `None`: one of the site's own brokers is.
    pub fn router_of(peer: PeerIndex) -> Option<usize> {
        match Which::of_peer(peer).0 {
            Which::Router(place) => Some(place / CLASSES),
            Which::Home | Which::Tap => None,
        }
    }

    /// The numbers by which it is told to dial a broker of the site's own.
    pub fn peers_of_home(broker: PeerIndex) -> [PeerIndex; 4] {
        let ([home, way], [tap, other]) = (peers(Which::Home, broker), peers(Which::Tap, broker));
        [home, way, tap, other]
    }

    /// How it is.
    pub fn view(&self) -> UplinkView {
        let routers = self.routers.chunks(CLASSES).enumerate();
        let routers = routers.filter_map(|(number, ways)| self.view_of(number, ways));
        let name = |which: &Which| router_name(&self.routers, *which).map(str::to_owned);
        let told =
            |(which, topic, why): (Which, &str, &str)| (name(&which), topic.to_owned(), why.to_owned());
        let all = |known: &BTreeMap<(Which, Box<str>), Box<str>>| {
            known.iter().map(|((end, topic), why)| told((*end, topic, why))).collect()
        };
        let reached = |place: usize| self.routers.get(place).is_some_and(|router| router.reached);
        UplinkView {
            site: self.settings.site.clone(),
            carries: self.carries,
            wishes: self.wishes.len(),
            routers: routers.collect(),
            refused: all(&self.refused),
            unpromised: self.unpromised.iter().chain(self.come_unpromised()).map(told).collect(),
            unwished: all(&self.unwished),
            by_one_router: self.outward.by_one_router(reached).into_iter().map(str::to_owned).collect(),
            coordination: self.coordinator.as_ref().map(Coordinator::view),
            link: self.room.view(),
        }
    }

    /// A router, by all connections to it.
    fn view_of(&self, number: usize, ways: &[Router]) -> Option<RouterView> {
        let first = ways.first().filter(|router| !router.is_vacant())?;
        let used = || ways.iter().filter(|router| !router.is_vacant());
        let away = used().find(|router| !router.reached);
        let places = CLASSES * number..CLASSES * number + ways.len();
        let all = |traffic: fn(&Router) -> Traffic| {
            used().fold(Traffic::default(), |all, way| all.plus(traffic(way)))
        };
        Some(RouterView {
            name: first.name.clone(),
            reached: away.is_none(),
            why: away.map_or(String::new(), |router| router.why.clone()),
            clock: first.end.endpoint.clock().map(|known| (known.ahead.0, known.within.0)),
            reckoned: self.settings.far,
            wishes: first.wishes.len(),
            outward: (places.clone().map(|place| self.outward.streams(place)).sum(), all(|way| way.sent)),
            inward: (places.map(|place| self.inward.streams(place)).sum(), all(|way| way.came)),
        })
    }

    /// Who hears what it has to tell.
    pub fn reporter(&mut self) -> &mut R {
        &mut self.reporter
    }

    fn end(&mut self, which: Which) -> Option<&mut End> {
        match which {
            Which::Home => Some(&mut self.home),
            Which::Tap => Some(&mut self.tap),
            Which::Router(place) => self.routers.get_mut(place).map(|router| &mut router.end),
        }
    }

    /// Has one of the endpoints do something, and then deals with what has come of it.
    fn with<N: Effects, T>(
        &mut self,
        now: Time,
        which: Which,
        net: &mut N,
        act: impl FnOnce(&mut Endpoint, &mut Through<'_, N>) -> T,
    ) -> Option<T> {
        self.seen = now;
        let mut heard = std::mem::take(&mut self.heard);
        let result = self.end(which).map(|end| {
            let mut out = Through { net, dials: which.dials(), heard: &mut heard };
            act(&mut end.endpoint, &mut out)
        });
        self.deal_with(now, which, &mut heard, net);
        self.heard = heard;
        self.confirm_what_is_had(which, net);
        result
    }

    /// Deals with what an endpoint has heard. What follows from that is heard in its turn.
    fn deal_with<N: Effects>(&mut self, now: Time, which: Which, heard: &mut Heard, net: &mut N) {
        let mut messages = std::mem::take(&mut heard.messages);
        let mut events = std::mem::take(&mut heard.events).into_iter().peekable();
        for (before, message) in messages.drain(..).enumerate() {
            while let Some((_, event)) = events.next_if(|(after, _)| *after <= before) {
                self.hear(now, which, event, net);
            }
            let payload = heard.payload(&message);
            match which {
                Which::Home => {}
                Which::Tap => self.pass_out(&message, payload, net),
                Which::Router(router) => self.pass_in(router, &message, payload, net),
            }
        }
        heard.messages = messages;
        heard.payloads.clear();
        for (_, event) in events {
            self.hear(now, which, event, net);
        }
        // A broker tells thousands of filters at once.
        if std::mem::take(&mut self.wants_anew.at_routers) {
            self.wish_at_routers(net);
        }
        if std::mem::take(&mut self.wants_anew.at_home) {
            self.wish_at_home(net);
        }
        let (published, wished) = (&mut self.wants_anew.published, &mut self.wants_anew.wished);
        let (published, wished) = (std::mem::take(published), std::mem::take(wished));
        if published || wished {
            self.tell_coordination(now, wished, net);
        }
    }

    /// Has an endpoint do something of which nothing comes at once.
    fn with_end<N: Effects, T>(
        &mut self,
        which: Which,
        net: &mut N,
        act: impl FnOnce(&mut End, &mut Through<'_, N>) -> T,
    ) -> Option<T> {
        let mut aside = std::mem::take(&mut self.aside);
        let mut out = Through { net, dials: which.dials(), heard: &mut aside };
        let result = self.end(which).map(|end| act(end, &mut out));
        self.aside = aside;
        result
    }

    fn hear<N: Effects>(&mut self, now: Time, which: Which, event: Event, net: &mut N) {
        match (event, which) {
            (Event::Reigning(reigning), Which::Home) => self.follow(now, reigning, net),
            (Event::Reigning(reigning), Which::Router(router)) => {
                self.hear_router(now, router, reigning, net);
            }
            (Event::Interest { filter, way }, Which::Home) => {
                let anew = self.wishes.hear(&filter, way, false);
                self.wants_anew.at_routers |= anew;
                self.wants_anew.wished |= anew;
            }
            (Event::Published { topic, published }, Which::Home) => {
                if let Some(coordinator) = &mut self.coordinator {
                    self.wants_anew.published |= coordinator.hear(&topic, published);
                }
            }
            (Event::Interest { filter, way }, Which::Router(router)) => {
                let Some(there) = self.routers.get_mut(router) else { return };
                let anew = there.anew_until.is_some();
                self.wants_anew.at_home |= there.wishes.hear(&filter, way, anew);
                // What waits there has somewhere to go from now on.
                let begins = there.wishes.is_complete() && !self.taps;
                // What it has said again goes on, although it is no other thing than before.
                self.wants_anew.at_home |= anew;
                if begins {
                    self.taps = true;
                    self.opening.begin(now);
                }
            }
            (Event::Refused { publication, why }, _) => self.note_refusal(which, publication, &why, net),
            (Event::Admitted { publication }, _) => self.note_admission(which, publication),
            (Event::Wished { subscription, refused }, _) => self.note_wish(which, subscription, refused),
            (Event::Repeated { stream, confirmation }, _) => {
                self.confirm_again(which, stream, confirmation, net);
            }
            (Event::Ended { stream }, Which::Tap) => {
                if self.opening.holds(stream) {
                    self.opening.end(stream);
                } else {
                    self.end_outward(stream, net);
                }
                self.end_samples(stream, net);
            }
            (Event::Ended { stream }, Which::Router(router)) => self.end_inward(router, stream, net),
            // Best effort on a thin link waits, and is dropped: that is what it is for.
            (Event::Short { .. }, Which::Router(router)) if class_at(router) == TrafficClass::Bulk => {}
            (Event::Short { why }, Which::Router(router)) => {
                let Some(router) = self.routers.get(router) else { return };
                self.reporter.report(&UplinkNews::Dropped { router: &router.name, why: &why });
            }
            (Event::Left { why }, Which::Router(router)) => {
                let bulk = class_at(router) == TrafficClass::Bulk;
                let Some(router) = self.routers.get_mut(router) else { return };
                if router.why != why {
                    router.why = why;
                    let (router, why) = (router.name.as_str(), router.why.as_str());
                    self.reporter.report(&UplinkNews::Unreached { router, bulk, why });
                }
            }
            (Event::Left { why } | Event::Short { why }, Which::Home | Which::Tap) => {
                if self.why != why {
                    self.why = why;
                    self.reporter.report(&UplinkNews::Homeless { why: &self.why });
                }
            }
            (Event::Reigning(_) | Event::Interest { .. } | Event::Published { .. }, _) => {}
            (Event::Ended { .. }, Which::Home) => {}
        }
    }

    /// Whom the site's own brokers follow has changed.
    fn follow<N: Effects>(&mut self, now: Time, reigning: Reigning, net: &mut N) {
        match reigning {
            // Until another one reigns, what is on its way goes on.
            Reigning::Nobody => {}
            Reigning::Primary { broker, relayed, reign, .. } => {
                let carries = broker == self.settings.beside && !relayed;
                self.why.clear();
                self.wishes.ask();
                self.coordinator.iter_mut().for_each(Coordinator::ask);
                if carries != self.carries {
                    self.carries = carries;
                    self.reporter.report(&UplinkNews::Carries(carries));
                    if carries {
                        self.share_pace(net);
                        self.wish_at_routers(net);
                        let reigns = |coordinator: &mut Coordinator| coordinator.begin(now, reign.epoch);
                        self.coordinator.iter_mut().for_each(reigns);
                        self.tell_coordination(now, true, net);
                    } else {
                        self.leave_routers(now, net);
                    }
                }
            }
        }
    }

    /// The other broker reigns: its uplink carries from now on, under the same name.
    fn leave_routers<N: Effects>(&mut self, now: Time, net: &mut N) {
        for place in 0..self.routers.len() {
            let which = Which::Router(place);
            self.with(now, which, net, |endpoint, out| endpoint.give_way(out));
            let Some(router) = self.routers.get_mut(place) else { continue };
            let (sent, came) = (router.sent, router.came);
            if router.is_vacant() {
                continue;
            }
            let class = self.settings.thin.map(|_| class_at(place));
            let anew = Router::new(&router.name, router.brokers, class, &self.settings, now);
            *router = Router { sent, came, ..anew };
        }
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.end(now);
            self.tell_coordination(now, true, net);
        }
        self.with(now, Which::Tap, net, |endpoint, out| endpoint.give_way(out));
        self.home.awaited.clear();
        (self.tap, self.taps) = (End::new(self.settings.tap.clone(), None, None, now), false);
        (self.outward, self.opening) = (Outward::default(), Opening::default());
        self.room = Room::new(self.settings.thin);
        self.inward.forget_all(&mut self.home);
        self.wish_at_routers(net);
        self.refused.clear();
        self.unpromised.clear();
        self.unwished.clear();
    }

    /// One of the ends subscribes these filters, and no others; with each comes how long what follows takes.
    fn wish_at<N: Effects>(&mut self, which: Which, filters: BTreeMap<Box<str>, Span>, net: &mut N) {
        self.unwished.retain(|(at, filter), _| *at != which || filters.contains_key(filter));
        if let Some(Some(missed)) = self.with_end(which, net, |end, out| end.wish(filters, out)) {
            self.tell_unwished(which, &missed, "there are too many filters for one uplink");
        }
    }

    /// Whether an endpoint has anything to do: those of routers, and the tap, only where this uplink carries.
    fn is_in_use(&self, which: Which) -> bool {
        match which {
            Which::Home => true,
            Which::Tap => self.carries && self.taps,
            Which::Router(place) => {
                self.carries && self.routers.get(place).is_some_and(|router| !router.is_vacant())
            }
        }
    }

    fn all(&self) -> impl Iterator<Item = Which> + use<R> {
        [Which::Home, Which::Tap].into_iter().chain((0..self.routers.len()).map(Which::Router))
    }

    fn get(&self, which: Which) -> Option<&End> {
        match which {
            Which::Home => Some(&self.home),
            Which::Tap => Some(&self.tap),
            Which::Router(place) => self.routers.get(place).map(|router| &router.end),
        }
    }
}

impl<R: UplinkReporter> Node for Uplink<R> {
    fn handle_link(&mut self, now: Time, link: LinkId, change: LinkChange, net: &mut impl Effects) {
        let (which, change) = match change {
            LinkChange::Accepted(_) => return,
            LinkChange::Dialed(peer) => {
                let (which, peer) = Which::of_peer(peer);
                if !self.is_in_use(which) {
                    // It was asked for while this uplink carried.
                    return net.hang_up(link);
                }
                self.links.insert(link, which);
                (Some(which), LinkChange::Dialed(peer))
            }
            LinkChange::Closed => (self.links.remove(link), change),
            LinkChange::Drained => (self.links.get(link).copied(), change),
        };
        if let Some(which) = which {
            self.with(now, which, net, |endpoint, out| endpoint.handle_link(now, link, change, out));
        }
    }

    fn handle_dial_failed(&mut self, now: Time, peer: PeerIndex, refused: bool, net: &mut impl Effects) {
        let (which, peer) = Which::of_peer(peer);
        let direct = self.get(which).is_some_and(|end| end.endpoint.is_direct(peer));
        self.with(now, which, net, |endpoint, _| endpoint.handle_dial_failed(now, peer, refused));
        if let Which::Router(place) = which
            && direct
            && self.routers.get(place).is_some_and(|router| !router.reached)
        {
            let why = match (refused, self.settings.proxied) {
                (true, _) => "nobody listens there",
                (false, false) => "it cannot be connected to",
                (false, true) => "it cannot be connected to through the proxy",
            };
            self.hear(now, which, Event::Left { why: why.to_owned() }, net);
        }
    }

    fn handle_bytes(&mut self, now: Time, link: LinkId, bytes: &[u8], net: &mut impl Effects) -> usize {
        let Some(which) = self.links.get(link).copied() else { return bytes.len() };
        let used = self.with(now, which, net, |endpoint, out| feed(endpoint, now, link, bytes, out));
        used.unwrap_or(bytes.len())
    }

    fn run(&mut self, _now: Time, _net: &mut impl Effects) -> bool {
        false
    }

    fn handle_clock_step(&mut self, _now: Time, by: Span) {
        for which in self.all() {
            self.end(which).into_iter().for_each(|end| end.endpoint.handle_clock_step(by));
        }
        self.opening.step(by);
        self.outward.sampling.step(by);
    }

    fn handle_timeout(&mut self, now: Time, net: &mut impl Effects) {
        for which in self.all() {
            if self.is_in_use(which) {
                self.with(now, which, net, |endpoint, out| endpoint.handle_timeout(now, out));
            }
        }
        self.wait_no_longer(now, net);
        self.open_no_longer(now, net);
        self.inward.forget_ended(now);
        self.coordinate_on_time(now, net);
    }

    fn next_deadline(&self) -> Time {
        let ends = self.all().filter(|which| self.is_in_use(*which)).filter_map(|which| self.get(which));
        let waits =
            self.routers.iter().flat_map(|router| [router.anew_until, router.settles_until]).flatten();
        let coordination = self.coordinator.as_ref().map(Coordinator::next_deadline);
        let ends = ends.map(|end| end.endpoint.next_deadline());
        ends.chain(waits).chain(self.opening.until).chain(coordination).min().unwrap_or(Time::NEVER)
    }
}
