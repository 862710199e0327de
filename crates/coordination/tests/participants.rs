//! Sites and routers, each on a thread of its own, exchange interest over a real service; they die, and the service does.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]
#![allow(clippy::disallowed_methods, reason = "VERGE_SEED and VERGE_SEEDS choose other runs")]

mod service;

use contract::{Span, Time};
use coordination::{Event, Settings, ZooKeeper};
use federation::{
    Carried, Holder, Participant, Route, Router, RouterNews, RouterSettings, Side, Site, SiteNews,
    SiteSettings, Terms,
};
use service::{Bell, Relay, Server, wait};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

const TOPICS: usize = 12;
const TIME_OUT: Span = Span::secs(1);

fn now() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Time(u64::try_from(since.as_nanos()).unwrap())
}

enum Role {
    Site(Box<Site>),
    Router(Box<Router>),
}

impl Role {
    fn face(&mut self) -> &mut dyn Participant {
        match self {
            Role::Site(site) => &mut **site,
            Role::Router(router) => &mut **router,
        }
    }
}

/// What a participant has been told.
#[derive(Default)]
struct Known {
    routes: BTreeMap<String, Route>,
    carries: BTreeMap<String, Carried>,
    links: BTreeMap<String, String>,
    news: Vec<String>,
}

/// What is done to a participant.
enum Act {
    Open(String, Side),
    Close(String, Side),
    /// It ends, and closes its session.
    End,
    /// It dies.
    Die,
}

/// A participant on a thread of its own.
struct Running {
    known: Arc<Mutex<Known>>,
    acts: Sender<Act>,
    bell: Arc<Bell>,
    thread: JoinHandle<()>,
}

impl Running {
    fn start(settings: &Settings, role: Role) -> Running {
        let (acts, to_do) = channel();
        let (bell, known) = (Arc::<Bell>::default(), Arc::<Mutex<Known>>::default());
        let ring = Arc::clone(&bell);
        let zookeeper = ZooKeeper::connect(settings.clone(), Arc::new(move || ring.ring())).unwrap();
        let turning = Turning { role, zookeeper, known: Arc::clone(&known) };
        let waits = Arc::clone(&bell);
        let thread = std::thread::spawn(move || turning.run(&to_do, &waits));
        Running { known, acts, bell, thread }
    }

    fn act(&self, act: Act) {
        self.acts.send(act).unwrap();
        self.bell.ring();
    }

    fn end(self, act: Act) {
        self.act(act);
        self.thread.join().unwrap();
    }

    fn open(&self, side: Side) {
        (0..TOPICS).for_each(|number| self.act(Act::Open(topic(number), side)));
    }

    fn known<T>(&self, look: impl FnOnce(&mut Known) -> T) -> T {
        look(&mut self.known.lock().unwrap())
    }

    /// Whether all topics are carried by these, and no former one.
    fn routes(&self, routers: &[&str]) -> bool {
        self.known(|known| {
            let by = |route: &Route| route.former.is_none() && routers.contains(&route.router.as_str());
            known.routes.len() == TOPICS && known.routes.values().all(by)
        })
    }
}

/// A participant, and what drives it.
struct Turning {
    role: Role,
    zookeeper: ZooKeeper,
    known: Arc<Mutex<Known>>,
}

impl Turning {
    fn run(mut self, acts: &Receiver<Act>, bell: &Bell) {
        loop {
            match acts.try_recv() {
                Ok(Act::Open(topic, side)) => {
                    if let Role::Site(site) = &mut self.role {
                        site.open(now(), &topic, side, &Terms::default()).unwrap();
                    }
                }
                Ok(Act::Close(topic, side)) => {
                    if let Role::Site(site) = &mut self.role {
                        site.close(now(), &topic, side);
                    }
                }
                Ok(Act::End) | Err(TryRecvError::Disconnected) => return self.zookeeper.close(),
                Ok(Act::Die) => return self.zookeeper.abandon(),
                Err(TryRecvError::Empty) => {
                    let due = self.role.face().next_deadline();
                    let left = due.since(now()).as_nanos_u64().min(1_000_000_000);
                    bell.wait(Duration::from_nanos(left));
                }
            }
            self.turn();
        }
    }

    fn turn(&mut self) {
        while let Some(event) = self.zookeeper.poll_event() {
            let now = now();
            match event {
                Event::Session(session) => self.role.face().handle_session(now, session),
                Event::Reply(ticket, reply) => self.role.face().handle_reply(now, ticket, reply),
                Event::Ring(path) => self.role.face().handle_event(now, &path),
                Event::Trouble(_) => {}
            }
        }
        let now = now();
        if self.role.face().next_deadline() <= now {
            self.role.face().handle_timeout(now);
        }
        self.hear(now);
        while self.zookeeper.has_room()
            && let Some((ticket, request)) = self.role.face().poll_request()
        {
            self.zookeeper.ask(ticket, request).unwrap();
        }
    }

    fn hear(&mut self, now: Time) {
        let mut known = self.known.lock().unwrap();
        match &mut self.role {
            Role::Site(site) => {
                while let Some(news) = site.poll_news() {
                    known.hear_site(news);
                }
            }
            Role::Router(router) => {
                while let Some(news) = router.poll_news() {
                    if let RouterNews::Carries { topic, carried: Some(_) } = &news {
                        router.begun(now, topic);
                    }
                    known.hear_router(news);
                }
            }
        }
    }
}

impl Known {
    fn hear_site(&mut self, news: SiteNews) {
        self.news.push(format!("{news:?}"));
        match news {
            SiteNews::Route { topic, route: Some(route) } => _ = self.routes.insert(topic, route),
            SiteNews::Route { topic, route: None } => _ = self.routes.remove(&topic),
            SiteNews::Link { router, locator } => _ = self.links.insert(router, locator),
            SiteNews::Unlink { router } => _ = self.links.remove(&router),
            _ => {}
        }
    }

    fn hear_router(&mut self, news: RouterNews) {
        self.news.push(format!("{news:?}"));
        match news {
            RouterNews::Carries { topic, carried: Some(carried) } => _ = self.carries.insert(topic, carried),
            RouterNews::Carries { topic, carried: None } => _ = self.carries.remove(&topic),
            _ => {}
        }
    }
}

fn topic(number: usize) -> String {
    format!("plant/{number}")
}

fn site(settings: &Settings, name: &str, reign: u64) -> Running {
    let holder = Holder { identity: format!("{name}-pair"), reign };
    let site = Site::new(SiteSettings { name: name.to_owned(), holder, topics_max: 1_000 });
    Running::start(settings, Role::Site(Box::new(site)))
}

fn router(settings: &Settings, name: &str) -> Running {
    let holder = Holder { identity: format!("{name}-pair"), reign: 1 };
    let router = RouterSettings::new(name, holder, &format!("{name}:7571"));
    let router = Router::new(RouterSettings { idle: Span::millis(500), ..router });
    Running::start(settings, Role::Router(Box::new(router)))
}

/// Two sites, of which one publishes and the other subscribes, and two routers; all topics are carried.
struct Cast {
    from: Running,
    to: Running,
    routers: [Running; 2],
}

fn begin(settings: &Settings) -> Cast {
    let routers = ["r0", "r1"].map(|name| router(settings, name));
    let cast = Cast { from: site(settings, "from", 1), to: site(settings, "to", 1), routers };
    cast.from.open(Side::Publishes);
    cast.to.open(Side::Subscribes);
    wait("all topics are carried", || cast.is_carried(&["r0", "r1"]));
    cast
}

impl Cast {
    /// Both sites know who carries what, and whoever does carries it from one to the other.
    fn is_carried(&self, routers: &[&str]) -> bool {
        let is_whole = |carried: &Carried| {
            carried.ways.len() == 1 && carried.ways.get("from").is_some_and(|to| to.contains("to"))
        };
        let whole = |router: &Running| {
            router.known(|known| known.carries.values().filter(|carried| is_whole(carried)).count())
        };
        let routes = [&self.from, &self.to].map(|site| site.known(|known| known.routes.clone()));
        self.from.routes(routers)
            && self.to.routes(routers)
            && routes[0] == routes[1]
            && self.routers.iter().map(whole).sum::<usize>() == TOPICS
    }
}

fn settings(server: &Server) -> Settings {
    Settings { session_time_out: TIME_OUT, ..server.settings("/verge/test") }
}

#[test]
fn topics_move_from_a_router_that_goes_and_end_when_nobody_wants_them() {
    let Some(server) = Server::start() else { return };
    let settings = settings(&server);
    let mut cast = begin(&settings);
    let shares = cast.routers.each_ref().map(|router| router.known(|known| known.carries.len()));
    assert_eq!(shares.iter().sum::<usize>(), TOPICS);
    let next = router(&settings, "r2");
    std::mem::replace(&mut cast.routers[0], next).end(Act::End);
    wait("topics have moved", || cast.is_carried(&["r1", "r2"]));
    let next = router(&settings, "r3");
    std::mem::replace(&mut cast.routers[1], next).end(Act::Die);
    wait("topics have moved again", || cast.is_carried(&["r2", "r3"]));
    for number in 0..TOPICS {
        cast.from.act(Act::Close(topic(number), Side::Publishes));
        cast.to.act(Act::Close(topic(number), Side::Subscribes));
    }
    let is_over = |site: &Running| site.known(|known| known.routes.is_empty() && known.links.is_empty());
    wait("nothing is carried", || is_over(&cast.from) && is_over(&cast.to));
    let rests = |router: &Running| router.known(|known| known.carries.is_empty());
    wait("nothing is remembered", || cast.routers.iter().all(rests));
}

#[test]
fn nobody_notices_that_a_site_is_taken_over_by_its_partner() {
    let Some(server) = Server::start() else { return };
    let settings = settings(&server);
    let mut cast = begin(&settings);
    // What was written last has been heard by all.
    std::thread::sleep(Duration::from_secs(1));
    let others = [&cast.to, &cast.routers[0], &cast.routers[1]].map(|one| Arc::clone(&one.known));
    others.iter().for_each(|one| one.lock().unwrap().news.clear());
    let partner = site(&settings, "from", 2);
    partner.open(Side::Publishes);
    std::mem::replace(&mut cast.from, partner).end(Act::Die);
    wait("the partner knows all routes", || cast.is_carried(&["r0", "r1"]));
    // Twice as long as the dead broker's session lasts.
    std::thread::sleep(Duration::from_nanos(2 * TIME_OUT.as_nanos_u64()));
    for one in others {
        let news = &one.lock().unwrap().news;
        assert!(news.is_empty(), "{news:?}");
    }
    assert!(cast.is_carried(&["r0", "r1"]));
    assert!(cast.from.known(|known| known.news.iter().any(|news| news == "Member(Claimed)")));
}

#[test]
fn all_go_on_when_the_service_comes_back() {
    let Some(mut server) = Server::start() else { return };
    let settings = settings(&server);
    let cast = begin(&settings);
    for seconds in [0, 4] {
        server.kill();
        std::thread::sleep(Duration::from_secs(seconds));
        // What is wanted meanwhile is said later.
        cast.from.act(Act::Close(topic(0), Side::Publishes));
        cast.from.act(Act::Open(topic(TOPICS), Side::Publishes));
        server.run();
        cast.to.act(Act::Open(topic(TOPICS), Side::Subscribes));
        let is_known = |site: &Running, topic: &str| site.known(|known| known.routes.contains_key(topic));
        wait("the new topic is carried, and the old one not", || {
            is_known(&cast.from, &topic(TOPICS)) && is_known(&cast.to, &topic(TOPICS)) && {
                !is_known(&cast.from, &topic(0))
            }
        });
        cast.from.act(Act::Close(topic(TOPICS), Side::Publishes));
        cast.to.act(Act::Close(topic(TOPICS), Side::Subscribes));
        cast.from.act(Act::Open(topic(0), Side::Publishes));
        wait("all is as it was", || cast.is_carried(&["r0", "r1"]));
    }
}

/// The server that leads dies, and comes back; then the next one.
#[test]
fn all_go_on_while_two_of_three_servers_are_there() {
    let Some(mut servers) = Server::start_ensemble() else { return };
    let all: Vec<String> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
    let cast =
        begin(&Settings { session_time_out: TIME_OUT, ..Settings::new(&all.join(","), "/verge/test") });
    for _ in 0..2 {
        let leader = servers.iter().position(Server::leads).unwrap();
        servers[leader].kill();
        cast.from.act(Act::Open(topic(TOPICS), Side::Publishes));
        cast.to.act(Act::Open(topic(TOPICS), Side::Subscribes));
        let knows = |site: &Running| site.known(|known| known.routes.contains_key(&topic(TOPICS)));
        wait("a new topic is carried without the dead server", || knows(&cast.from) && knows(&cast.to));
        cast.from.act(Act::Close(topic(TOPICS), Side::Publishes));
        cast.to.act(Act::Close(topic(TOPICS), Side::Subscribes));
        wait("the others are carried as before", || cast.is_carried(&["r0", "r1"]));
        servers[leader].run();
    }
}

/// A site that dies and comes back under other reigns, behind a relay that may be cut.
struct Shaken {
    name: String,
    reign: u64,
    relay: Relay,
    running: Running,
    wants: BTreeSet<(usize, Side)>,
}

impl Shaken {
    fn new(settings: &Settings, server: &Server, name: &str) -> Shaken {
        let relay = Relay::start(server.port);
        let running = site(&through(settings, &relay), name, 1);
        Shaken { name: name.to_owned(), reign: 1, relay, running, wants: BTreeSet::new() }
    }

    /// Its partner takes over, and is told what is wanted.
    fn take_over(&mut self, settings: &Settings) {
        self.reign += 1;
        let partner = site(&through(settings, &self.relay), &self.name, self.reign);
        for (number, side) in &self.wants {
            partner.act(Act::Open(topic(*number), *side));
        }
        std::mem::replace(&mut self.running, partner).end(Act::Die);
    }

    fn toggle(&mut self, number: usize, side: Side) {
        let name = topic(number);
        if self.wants.remove(&(number, side)) {
            self.running.act(Act::Close(name, side));
        } else {
            self.wants.insert((number, side));
            self.running.act(Act::Open(name, side));
        }
    }
}

fn through(settings: &Settings, relay: &Relay) -> Settings {
    Settings { servers: format!("127.0.0.1:{}", relay.port), ..settings.clone() }
}

/// What must be carried of a topic, by code of its own; `None`: nobody wants it.
fn wanted(sites: &[Shaken], number: usize) -> Option<BTreeMap<String, BTreeSet<String>>> {
    let of = |side: Side| {
        let sites = sites.iter().filter(move |site| site.wants.contains(&(number, side)));
        sites.map(|site| site.name.clone())
    };
    let mut ways = BTreeMap::new();
    for from in of(Side::Publishes) {
        let to: BTreeSet<String> = of(Side::Subscribes).filter(|to| *to != from).collect();
        if !to.is_empty() {
            ways.insert(from, to);
        }
    }
    (of(Side::Publishes).next().is_some() || of(Side::Subscribes).next().is_some()).then_some(ways)
}

/// What is not as it must be.
fn wrong(sites: &[Shaken], routers: &[Running]) -> Option<String> {
    for number in 0..TOPICS {
        let (name, wants) = (topic(number), wanted(sites, number));
        let carried =
            routers.iter().filter_map(|router| router.known(|known| known.carries.get(&name).cloned()));
        let carried: Vec<Carried> = carried.collect();
        match (&wants, carried.as_slice()) {
            (None, []) => {}
            (Some(ways), [carried]) if carried.ways == *ways => {}
            _ => return Some(format!("{name} is wanted as {wants:?} and carried as {carried:?}")),
        }
        for site in sites {
            let wants = Side::ALL.into_iter().any(|side| site.wants.contains(&(number, side)));
            let route = site.running.known(|known| known.routes.get(&name).cloned());
            if route.as_ref().is_some_and(|route| route.former.is_some()) || route.is_some() != wants {
                return Some(format!("{} has {route:?} for {name}", site.name));
            }
        }
    }
    None
}

fn shake(server: &mut Server, settings: &Settings, sites: &mut [Shaken], random: &mut fastrand::Rng) {
    let place = random.usize(..sites.len());
    match random.u32(..20) {
        0..14 => {
            let side = if random.bool() { Side::Publishes } else { Side::Subscribes };
            sites[place].toggle(random.usize(..TOPICS), side);
        }
        14 => sites[place].take_over(settings),
        15 => sites[place].relay.cut(true),
        16..19 => sites[place].relay.cut(false),
        _ => {
            server.kill();
            std::thread::sleep(Duration::from_millis(random.u64(..1_500)));
            server.run();
        }
    }
    if random.bool() {
        std::thread::sleep(Duration::from_millis(random.u64(..200)));
    }
}

#[test]
fn everything_is_as_it_must_be_once_nothing_fails_any_more() {
    let Some(mut server) = Server::start() else { return };
    let settings = settings(&server);
    let mut random = fastrand::Rng::with_seed(number("VERGE_SEED", 1));
    let mut routers = vec![router(&settings, "r0"), router(&settings, "r1")];
    let mut sites = ["s0", "s1", "s2"].map(|name| Shaken::new(&settings, &server, name));
    for round in 0..number("VERGE_SEEDS", 2) as usize {
        for _ in 0..60 {
            shake(&mut server, &settings, &mut sites, &mut random);
        }
        let next = router(&settings, &format!("r{}", round + 2));
        let act = if random.bool() { Act::Die } else { Act::End };
        std::mem::replace(&mut routers[round % 2], next).end(act);
        sites.iter().for_each(|site| site.relay.cut(false));
        let begun = Instant::now();
        while let Some(wrong) = wrong(&sites, &routers) {
            assert!(begun.elapsed() < service::LONG, "round {round}: {wrong}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}
