//! The thread that joins this broker's site to others.

use super::approach::Approach;
use super::beside::{Voice, Word};
use super::coordination::{Coordinated, Service, identity};
use super::picture::{Painter, Picture};
use super::wishes;
use crate::Trouble;
use crate::log::Lines;
use crate::users::read_password;
use config::{BrokerAddress, Config, Login, SiteConfig};
use contract::Span;
use engine::{
    CoordinationView, LinkView, Node, RouterView, Traffic, Uplink, UplinkNews, UplinkReporter,
    UplinkSettings, UplinkView, WayView,
};
use federation::{Participant, Request, Ticket};
use host::realtime::schedule;
use host::tls::Tls;
use host::{Driver, HandshakeSettings, Handshakes, Helpers, Place, Target, Troubles, now};
use report::{
    CoordinationReport, FlowReport, LinkReport, LinkUse, RefusedStream, RouterReport, SiteReport,
    UnwishedFilter,
};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use wire::PeerIndex;

/// Between two attempts to reach a router through a proxy.
const PROXY_RETRY: Span = Span::millis(500);
/// Handshakes with routers that are made at once.
const HANDSHAKES: usize = 16;

fn link_report(view: LinkView) -> LinkReport {
    let way = |way: WayView| LinkUse { promised: way.rate, waits_ns: way.waits.0 };
    LinkReport {
        bandwidth: view.link.bandwidth,
        bulk: view.link.bulk,
        queueing_ns: view.link.queueing.0,
        outward: way(view.out),
        inward: way(view.into),
        trouble: view.narrow.unwrap_or_default(),
    }
}

fn report_of(view: UplinkView) -> SiteReport {
    let flow = |(streams, Traffic { messages, bytes, dropped, repeated })| FlowReport {
        streams,
        messages,
        bytes,
        dropped,
        repeated,
    };
    let router = |router: RouterView| RouterReport {
        name: router.name,
        reached: router.reached,
        why: router.why,
        clock_ahead_ns: router.clock.map(|(ahead, _)| ahead),
        clock_within_ns: router.clock.map(|(_, within)| within),
        reckoned_ns: router.reckoned.0,
        wanted_elsewhere: router.wishes,
        outward: flow(router.outward),
        inward: flow(router.inward),
    };
    let coordination = |view: CoordinationView| CoordinationReport {
        holds: view.holds,
        trouble: view.trouble,
        offered: view.offered,
        asked: view.asked,
        routed: view.routed,
    };
    let refused = |(router, topic, why)| RefusedStream { router, topic, why };
    let unwished = |(router, filter, why)| UnwishedFilter { router, filter, why };
    SiteReport {
        site: view.site,
        carries: view.carries,
        published_bytes: None,
        wanted_here: view.wishes,
        routers: view.routers.into_iter().map(router).collect(),
        refused: view.refused.into_iter().map(refused).collect(),
        unpromised: view.unpromised.into_iter().map(refused).collect(),
        unwished: view.unwished.into_iter().map(unwished).collect(),
        by_one_router: view.by_one_router,
        coordination: view.coordination.map(coordination),
        link: view.link.map(link_report),
        keeper: None,
    }
}

/// Starts the uplink, where the site has a name.
pub fn start(
    config: &Config,
    own: &BrokerAddress,
    (lines, voice): (&Lines, &Voice),
    helpers: &Helpers,
) -> Result<Option<Picture<SiteReport>>, Trouble> {
    let Some(site) = &config.site else { return Ok(None) };
    let at_home = AtHome::of(config, own, site)?;
    let settings = settings(config, site, &at_home)?;
    if site.is_lonely() {
        let name = &site.routers[0].name;
        lines.say(&format!(
            "note: the router {name} is the only one, and alone: what it misses while it is away comes live afterwards only as far as uplink.retain goes, whatever \
             contracts say. Give it a partner, or the sites another router"
        ));
    }
    let told = Told { voice: voice.clone(), site: site.name.clone() };
    let mut driver = Driver::new(Uplink::new(settings, now(), told), Vec::new())?;
    if site.secure || site.proxy.is_some() || at_home.is_secure() {
        employ(&mut driver, config, lines, helpers)?;
    }
    at_home.connect(&mut driver, Uplink::<Told>::peers_of_home, lines, helpers)?;
    let approach = Approach::of(site, lines, helpers)?;
    for (router, address) in site.routers.iter().enumerate() {
        for (index, place) in address.places.iter().enumerate() {
            let peers = Uplink::<Told>::peers_of(router, PeerIndex(index as u8));
            let key = format!("routers.{}", address.name);
            reach(&mut driver, &peers, place, (&approach, &key), lines, helpers)?;
        }
    }
    let ((picture, painter), said) = (Picture::new(), lines.clone());
    // The data thread goes first, and everything else on the host after both.
    let priority = wishes(config).priority.map(|priority| priority.saturating_sub(1).max(1));
    let service =
        config.coordination.is_some().then(|| coordinate(config, approach, &mut driver, lines, helpers));
    let service = service.transpose()?;
    helpers.hire("uplink", move || {
        schedule(priority, &[], "the uplink").iter().for_each(|line| said.say(&format!("note: {line}")));
        run(driver, service, painter)
    })?;
    Ok(Some(picture))
}

/// Turns until the process ends.
fn run(
    mut driver: Driver<Uplink<Told>>,
    mut service: Option<Service>,
    mut painter: Painter<SiteReport>,
) -> Result<(), String> {
    let mut ready = Vec::new();
    loop {
        host::end_on_purpose("uplink")?;
        driver.wait_and_turn(&mut ready).map_err(|error| error.to_string())?;
        if let Some(service) = &mut service {
            service.turn(&mut Linking(&mut driver));
            while let Some((router, locator)) = driver.with_unsent(|uplink, _| uplink.poll_link()) {
                service.find(router, locator);
            }
        }
        painter.draw(now(), || report_of(driver.node().view()));
    }
}

/// Has handshakes made for a driver's connections over TLS, or through a proxy.
fn employ<N: Node>(
    driver: &mut Driver<N>,
    config: &Config,
    lines: &Lines,
    helpers: &Helpers,
) -> Result<(), Trouble> {
    let (tls, notes) = Tls::load(&config.tls).map_err(|error| Trouble(error.to_string()))?;
    notes.iter().for_each(|note| lines.say(&format!("note: {note}")));
    let said = lines.clone();
    let troubles = Arc::new(Troubles::new(move |line| said.say(&format!("note: {line}"))));
    let within = config.limits.greeting;
    let settings = HandshakeSettings { handshakes: HANDSHAKES, within, tls: Some(Arc::new(tls)), troubles };
    driver.employ(Handshakes::start(settings, helpers)?)?;
    Ok(())
}

/// Tells a driver how somebody is reached. The key is where that comes from.
fn reach<N: Node>(
    driver: &mut Driver<N>,
    peers: &[PeerIndex],
    place: &Place,
    (approach, key): (&Approach, &str),
    lines: &Lines,
    helpers: &Helpers,
) -> Result<(), Trouble> {
    let target = approach.reach(place, key, lines, helpers);
    let target = target.map_err(|error| Trouble(format!("{key}: {error}")))?;
    driver.with_unsent(|_, net| {
        for peer in peers {
            net.set_peer(*peer, target.clone());
        }
    });
    Ok(())
}

/// What rings a bell.
pub(super) type Ring = Arc<dyn Fn() + Send + Sync>;

/// A bell that wakes a driver, and what rings it.
pub(super) fn bell() -> Result<(Ring, Arc<OwnedFd>), Trouble> {
    let failed = |error: rustix::io::Errno| Trouble(format!("cannot make a bell: {error}"));
    let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(failed)?);
    let rung = Arc::clone(&bell);
    // It fails only if it has been rung 2^64 times.
    Ok((Arc::new(move || _ = rustix::io::write(&*rung, &1_u64.to_ne_bytes())), bell))
}

/// Begins with the coordination service, which wakes the driver when there is something.
fn coordinate(
    config: &Config,
    approach: Approach,
    driver: &mut Driver<Uplink<Told>>,
    lines: &Lines,
    helpers: &Helpers,
) -> Result<Service, Trouble> {
    let (ring, bell) = bell()?;
    driver.wake_with(&bell)?;
    Service::start(config, lines, helpers, approach, ring)
}

/// The uplink, as the service sees it.
struct Linking<'a>(&'a mut Driver<Uplink<Told>>);

impl Coordinated for Linking<'_> {
    fn wants(&self) -> Option<u64> {
        self.0.node().coordination()
    }

    fn poll(&mut self) -> Option<(Ticket, Request)> {
        self.0.with_unsent(|uplink, _| uplink.poll_coordination())
    }

    fn tell(&mut self, tell: &mut dyn FnMut(&mut dyn Participant)) {
        self.0.with(|uplink, net| uplink.coordinate(now(), net, |site| tell(site)));
    }

    fn trouble(&mut self, trouble: Option<&str>) {
        self.0.with_unsent(|uplink, _| uplink.coordination_trouble(trouble));
    }

    fn found(&mut self, router: &str, targets: Vec<Target>) {
        let brokers = targets.len().min(2) as u8;
        self.0.with(|uplink, net| {
            let Some(place) = uplink.place_for(now(), router, net) else { return };
            for (index, target) in targets.into_iter().take(2).enumerate() {
                for peer in Uplink::<Told>::peers_of(place, PeerIndex(index as u8)) {
                    net.set_peer(peer, target.clone());
                }
            }
            uplink.link(now(), place, router, brokers, net);
        });
    }
}

/// The site's own brokers, as their clients beside them see them.
pub(super) struct AtHome {
    /// Which of them this one is.
    pub(super) beside: usize,
    /// The user, and the password.
    pub(super) login: (String, String),
    /// Where they are reached, and whether over TLS.
    places: Vec<(Place, bool)>,
}

impl AtHome {
    pub(super) fn of(config: &Config, own: &BrokerAddress, site: &SiteConfig) -> Result<AtHome, Trouble> {
        let beside = config.brokers.iter().position(|broker| broker.name == own.name).unwrap_or_default();
        Ok(AtHome { beside, login: credentials(&site.at_home)?, places: home_places(config) })
    }

    fn is_secure(&self) -> bool {
        self.places.iter().any(|(_, secure)| *secure)
    }

    /// Tells a driver where they are, by the numbers that it is told to dial.
    fn connect<N: Node>(
        &self,
        driver: &mut Driver<N>,
        peers: fn(PeerIndex) -> [PeerIndex; 4],
        lines: &Lines,
        helpers: &Helpers,
    ) -> Result<(), Trouble> {
        for (index, (place, secure)) in self.places.iter().enumerate() {
            let peers = peers(PeerIndex(index as u8));
            let approach = Approach::direct(*secure);
            reach(driver, &peers, place, (&approach, "the site's brokers"), lines, helpers)?;
        }
        Ok(())
    }

    /// The same for a driver that connects to nobody else.
    pub(super) fn reach<N: Node>(
        &self,
        driver: &mut Driver<N>,
        peers: fn(PeerIndex) -> [PeerIndex; 4],
        config: &Config,
        lines: &Lines,
        helpers: &Helpers,
    ) -> Result<(), Trouble> {
        if self.is_secure() {
            employ(driver, config, lines, helpers)?;
        }
        self.connect(driver, peers, lines, helpers)
    }
}

/// Where the site's own brokers are reached, and whether over TLS: over what all of them have.
fn home_places(config: &Config) -> Vec<(Place, bool)> {
    let secure: Option<Vec<Place>> =
        config.brokers.iter().map(|broker| broker.listeners.clients_tls.clone()).collect();
    match secure.filter(|_| config.tls.ca.is_some()) {
        Some(places) => places.into_iter().map(|place| (place, true)).collect(),
        None => config.brokers.iter().map(|broker| (broker.clients.clone(), false)).collect(),
    }
}

fn settings(config: &Config, site: &SiteConfig, at_home: &AtHome) -> Result<UplinkSettings, Trouble> {
    let brokers = config.brokers.len() as u8;
    let mut settings = UplinkSettings::new(&site.name, at_home.beside as u8, brokers, now().0);
    let (at_home, at_routers) = (&at_home.login, credentials(&site.at_routers)?);
    let ends =
        [(&mut settings.home, at_home), (&mut settings.tap, at_home), (&mut settings.router, &at_routers)];
    for (end, (user, password)) in ends {
        (end.credentials.user, end.credentials.password) = (user.clone(), password.clone());
        end.failover = config.delays.failover;
    }
    let router = |router: &config::RouterAddress| (router.name.clone(), router.places.len() as u8);
    settings.routers = site.routers.iter().map(router).collect();
    settings.meant = site.routers.iter().map(|router| (router.name.clone(), router.topics.clone())).collect();
    (settings.share, settings.want) = (site.share.clone(), site.want.clone());
    (settings.link, settings.retain, settings.thin) = (site.link, site.retain, site.thin);
    [settings.near, settings.far] = config.ways(site);
    let twice = |topic: &config::TopicFamily| (topic.rule.filter.clone(), topic.paths > 1);
    settings.twice = config.topics.iter().map(twice).collect();
    settings.proxied = site.proxy.is_some();
    if settings.proxied {
        // One that refuses may lock who asks it too often.
        settings.router.retry = PROXY_RETRY;
    }
    settings.coordinated = config
        .coordination
        .as_ref()
        .map(|service| engine::Coordinated { identity: identity(config), topics_max: service.topics });
    Ok(settings)
}

/// A user and the password.
fn credentials(login: &Login) -> Result<(String, String), Trouble> {
    let password = login.password_file.as_deref().map(read_password).transpose()?;
    Ok((login.user.clone().unwrap_or_default(), password.unwrap_or_default()))
}

/// Tells what the uplink has to tell.
struct Told {
    voice: Voice,
    site: String,
}

impl UplinkReporter for Told {
    fn report(&mut self, news: &UplinkNews<'_>) {
        if let Some(word) = self.word(news) {
            self.voice.tell(&word);
        }
    }
}

impl Told {
    fn word<'a>(&self, news: &UplinkNews<'a>) -> Option<Word<'a>> {
        let site = &self.site;
        let there = |router: Option<&str>| match router {
            Some(router) => format!("the router {router}"),
            None => "the site's own broker".to_owned(),
        };
        let by = |bulk: bool| if bulk { " for best effort" } else { "" };
        let class = |bulk: bool| if bulk { "bulk" } else { "" };
        Some(match *news {
            UplinkNews::Carries(true) => {
                Word::good(format!("site {site}: this uplink carries, since its broker reigns"))
            }
            UplinkNews::Carries(false) => {
                Word::good(format!("site {site}: the other broker's uplink carries"))
            }
            UplinkNews::Reached { router, bulk } => {
                Word::good(format!("site {site}: the router {router} is reached{}", by(bulk)))
                    .alarm("router_reached", &[("router", router), ("class", class(bulk))])
            }
            UplinkNews::Unreached { router, bulk, why: "" } => {
                Word::bad(format!("site {site}: the router {router} is not reached any more{}", by(bulk)))
                    .alarm("router_unreached", &[("router", router), ("class", class(bulk))])
            }
            UplinkNews::Unreached { router, bulk, why } => {
                Word::bad(format!("site {site}: the router {router} is not reached{}: {why}", by(bulk)))
                    .alarm("router_unreached", &[("router", router), ("class", class(bulk))])
            }
            UplinkNews::Dropped { router, why } => Word::bad(format!(
                "site {site}: the router {router} has dropped messages for this site: {why}"
            ))
            .alarm("router_dropped", &[("router", router)]),
            UplinkNews::Homeless { why } => {
                Word::bad(format!("site {site}: the site's own broker does not let its uplink in: {why}"))
                    .alarm("uplink_refused", &[])
            }
            UplinkNews::Coordinated => {
                Word::good(format!("site {site}: the coordination service knows it by its name"))
                    .alarm("coordinated", &[])
            }
            UplinkNews::Uncoordinated { why } => {
                Word::bad(format!("site {site}: {why}")).alarm("not_coordinated", &[])
            }
            UplinkNews::Refused { router, topic, why } => {
                Word::bad(format!("site {site}: {} does not carry `{topic}`: {why}", there(router)))
                    .alarm("not_carried", &[("topic", topic)])
            }
            UplinkNews::Unpromised { router, topic, why } => Word::bad(format!(
                "site {site}: `{topic}` crosses without a promise of {}: {why}",
                there(router)
            ))
            .alarm("without_promise", &[("topic", topic)]),
            UplinkNews::Unwished { router, filter, why } => {
                Word::bad(format!("site {site}: {} is not asked for `{filter}`: {why}", there(router)))
                    .alarm("not_asked_for", &[("filter", filter)])
            }
            _ => return None,
        })
    }
}
