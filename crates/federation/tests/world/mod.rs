//! Sites and routers around a coordination service, on invented time: links with delays, outages, sessions that end, participants that
//! die and come back, or whose partner takes over.

#![allow(dead_code, reason = "each test uses its own part of the world")]

use contract::{Span, Time, TopicFilter};
use federation::{
    Holder, Keep, Operation, Participant, Reply, Request, Route, Router, RouterNews, RouterSettings, Session,
    Side, Site, SiteNews, SiteSettings, Terms, Ticket,
};
use simulation::{Agenda, Coordination, Latency, Ring};
use std::collections::BTreeMap;

pub const TIME_OUT: Span = Span::secs(5);
const TOUCH: Span = Span::millis(1_500);

pub enum Role {
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

    /// Does what is due. Returns whether anything was.
    fn handle_timeout(&mut self, now: Time) -> bool {
        let due = self.face().next_deadline() <= now;
        if due {
            self.face().handle_timeout(now);
        }
        due
    }
}

/// What is going to be done to the world.
type Act = Box<dyn FnOnce(&mut World)>;

/// Something on its way between a participant and the service.
enum Carried {
    Ask(Ticket, Request),
    Reply(Ticket, Reply),
    Ring(String),
}

enum What {
    ToService { from: usize, life: u64, what: Carried },
    ToParticipant { to: usize, life: u64, what: Carried },
    Timer { of: usize },
    Touch { of: usize, life: u64 },
    Expire,
    Connect { of: usize },
}

pub struct Player {
    pub name: String,
    pub role: Option<Role>,
    session: Option<i64>,
    connected: bool,
    /// Cannot reach the service.
    pub cut: bool,
    /// Grows with each connection, so that what is on the way in an old one does not arrive in the new.
    life: u64,
    /// What goes one way arrives in order.
    last_out: Time,
    last_in: Time,
    pub reign: u64,
    /// What applications at a site want: said again to whoever takes over.
    pub wants: BTreeMap<(String, Side), (u32, Terms)>,
    pub keeps: BTreeMap<String, (Keep, Terms)>,
    /// Filters of what is wanted.
    pub wishes: Vec<TopicFilter>,
    pub news: Vec<(Time, String)>,
    pub routes: BTreeMap<String, (Route, Time)>,
    pub links: BTreeMap<String, String>,
    pub begins: bool,
}

pub struct World {
    pub now: Time,
    pub service: Coordination,
    pub service_is_up: bool,
    pub agenda: Agenda<Act>,
    events: Agenda<What>,
    pub participants: Vec<Player>,
    pub latency: Latency,
    pub random: fastrand::Rng,
    pub router_settings: fn(RouterSettings) -> RouterSettings,
    /// An admin has removed nodes by hand.
    pub wiped: bool,
    /// When something was last removed that said that a topic is to be kept.
    pub kept_no_more_at: Time,
    /// What must never be, and was.
    pub broken: Vec<String>,
}

impl World {
    pub fn new(seed: u64) -> World {
        World {
            now: Time(1_700_000_000_000_000_000),
            service: Coordination::new(TIME_OUT),
            service_is_up: true,
            agenda: Agenda::new(),
            events: Agenda::new(),
            participants: Vec::new(),
            latency: Latency { least: Span::millis(5), typical: Span::millis(20), most: Span::millis(200) },
            random: fastrand::Rng::with_seed(seed),
            router_settings: |settings| settings,
            wiped: false,
            kept_no_more_at: Time::ZERO,
            broken: Vec::new(),
        }
    }

    fn add(&mut self, name: &str, role: Role) -> usize {
        self.participants.push(Player {
            name: name.to_owned(),
            role: Some(role),
            session: None,
            connected: false,
            cut: false,
            life: 0,
            last_out: self.now,
            last_in: self.now,
            reign: 1,
            wants: BTreeMap::new(),
            keeps: BTreeMap::new(),
            wishes: Vec::new(),
            news: Vec::new(),
            routes: BTreeMap::new(),
            links: BTreeMap::new(),
            begins: true,
        });
        let of = self.participants.len() - 1;
        self.events.push(self.now, What::Connect { of });
        of
    }

    pub fn add_site(&mut self, name: &str) -> usize {
        let site = new_site(name, name, 1);
        self.add(name, Role::Site(Box::new(site)))
    }

    /// A site that calls itself like another, and is another pair.
    pub fn add_namesake(&mut self, name: &str) -> usize {
        let site = new_site(name, &format!("other-{name}"), 1);
        self.add(name, Role::Site(Box::new(site)))
    }

    pub fn add_router(&mut self, name: &str) -> usize {
        let router = self.new_router(name, 1);
        self.add(name, router)
    }

    fn new_router(&self, name: &str, reign: u64) -> Role {
        let holder = Holder { identity: format!("{name}-pair"), reign };
        let settings = RouterSettings::new(name, holder, &format!("{name}:7571"));
        Role::Router(Box::new(Router::new((self.router_settings)(settings))))
    }

    pub fn site(&mut self, of: usize) -> Option<&mut Site> {
        match self.participants[of].role.as_mut() {
            Some(Role::Site(site)) => Some(site),
            _ => None,
        }
    }

    pub fn router(&mut self, of: usize) -> Option<&mut Router> {
        match self.participants[of].role.as_mut() {
            Some(Role::Router(router)) => Some(router),
            _ => None,
        }
    }

    pub fn open(&mut self, of: usize, topic: &str, side: Side, terms: &Terms) {
        let key = (topic.to_owned(), side);
        let want = self.participants[of].wants.entry(key).or_insert((0, terms.clone()));
        (want.0, want.1) = (want.0 + 1, terms.clone());
        let now = self.now;
        if let Some(site) = self.site(of) {
            site.open(now, topic, side, terms).unwrap();
        }
        self.after(of);
    }

    pub fn close(&mut self, of: usize, topic: &str, side: Side) {
        let key = (topic.to_owned(), side);
        let Some(want) = self.participants[of].wants.get_mut(&key) else { return };
        want.0 -= 1;
        if want.0 == 0 {
            self.participants[of].wants.remove(&key);
        }
        let now = self.now;
        if let Some(site) = self.site(of) {
            site.close(now, topic, side);
        }
        self.after(of);
    }

    /// From now on a site wants what these filters mean.
    pub fn wish(&mut self, of: usize, filters: &[&str]) {
        let wishes: Vec<TopicFilter> = filters.iter().map(|filter| filter.parse().unwrap()).collect();
        self.participants[of].wishes.clone_from(&wishes);
        let now = self.now;
        if let Some(site) = self.site(of) {
            site.wish(now, &wishes);
        }
        self.after(of);
    }

    pub fn keep(&mut self, of: usize, topic: &str, keep: Keep) {
        self.participants[of].keeps.insert(topic.to_owned(), (keep, Terms::default()));
        let now = self.now;
        if let Some(site) = self.site(of) {
            site.keep(now, topic, keep, &Terms::default()).unwrap();
        }
        self.after(of);
    }

    /// It dies without a word. Its session ends when the service has not heard of it for long enough.
    pub fn kill(&mut self, of: usize) {
        let participant = &mut self.participants[of];
        (participant.role, participant.connected, participant.session) = (None, false, None);
        participant.life += 1;
        participant.routes.clear();
        participant.links.clear();
    }

    /// The other broker of its pair takes over, in the next reign.
    pub fn take_over(&mut self, of: usize) {
        self.kill(of);
        self.participants[of].reign += 1;
        self.start(of);
    }

    pub fn start(&mut self, of: usize) {
        let participant = &self.participants[of];
        let (name, reign) = (participant.name.clone(), participant.reign);
        let is_router = name.starts_with('r');
        let role = if is_router {
            self.new_router(&name, reign)
        } else {
            let mut site = new_site(&name, &name, reign);
            // A broker that stood by has observed for a while.
            if reign % 2 == 0 {
                site = Site::observing(site.settings().clone());
                let observes = Span::millis((reign * 37 % 400) as i64);
                let reigns = move |world: &mut World| {
                    let now = world.now;
                    let same = world.participants[of].reign == reign;
                    world.site(of).filter(|_| same).into_iter().for_each(|site| site.reign(now, reign));
                    world.after(of);
                };
                self.agenda.push(self.now + observes, Box::new(reigns));
            }
            Role::Site(Box::new(site))
        };
        self.participants[of].role = Some(role);
        let wants = self.participants[of].wants.clone();
        let keeps = self.participants[of].keeps.clone();
        let wishes = self.participants[of].wishes.clone();
        let now = self.now;
        if let Some(site) = self.site(of) {
            for ((topic, side), (count, terms)) in &wants {
                (0..*count).for_each(|_| site.open(now, topic, *side, terms).unwrap());
            }
            for (topic, (keep, terms)) in &keeps {
                site.keep(now, topic, *keep, terms).unwrap();
            }
            site.wish(now, &wishes);
        }
        self.events.push(self.now, What::Connect { of });
    }

    /// It loses its connection to the service for so long.
    pub fn cut(&mut self, of: usize, span: Span) {
        self.participants[of].cut = true;
        self.lose(of);
        self.agenda.push(self.now + span, Box::new(move |world| world.participants[of].cut = false));
    }

    /// An admin removes a node and all below it.
    pub fn wipe(&mut self, path: &str) {
        self.wiped = true;
        let rings = self.service.wipe(path);
        self.ring(rings);
    }

    /// A node holds something else, by hand of an admin.
    pub fn set_node(&mut self, path: &str, text: &str) {
        let (path, data) = (path.to_owned(), text.as_bytes().to_vec());
        let (_, rings) =
            self.service.answer(0, &Request::Write(vec![Operation::Set { path, data, version: None }]));
        self.ring(rings);
    }

    /// An admin says that a router is to be rid of its topics, or is not any more.
    pub fn drain(&mut self, of: usize, drains: bool) {
        let path = federation::drain_path(&self.participants[of].name);
        let rings = if drains { self.service.put(&path) } else { self.service.wipe(&path) };
        self.ring(rings);
    }

    /// The service answers nobody for so long; sessions end meanwhile only if nobody is heard of for longer.
    pub fn outage(&mut self, span: Span) {
        self.service_is_up = false;
        (0..self.participants.len()).for_each(|of| self.lose(of));
        self.agenda.push(self.now + span, Box::new(|world| world.service_is_up = true));
    }

    fn lose(&mut self, of: usize) {
        let now = self.now;
        let participant = &mut self.participants[of];
        if !std::mem::replace(&mut participant.connected, false) {
            return;
        }
        participant.life += 1;
        if let Some(role) = participant.role.as_mut() {
            role.face().handle_session(now, Session::Away);
        }
        self.after(of);
        self.events.push(self.now + Span::millis(300), What::Connect { of });
    }

    /// Lets so much time pass.
    pub fn run(&mut self, span: Span) {
        let until = self.now + span;
        loop {
            let (done, next) = (self.agenda.next_at(), self.events.next_at());
            let at = done.unwrap_or(Time::NEVER).min(next.unwrap_or(Time::NEVER));
            if at > until {
                self.now = until;
                return;
            }
            self.now = at;
            if done == Some(at) {
                if let Some((_, act)) = self.agenda.pop() {
                    act(self);
                }
            } else if let Some((_, what)) = self.events.pop() {
                self.happen(what);
            }
        }
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Connect { of } => self.connect(of),
            What::Touch { of, life } => {
                let participant = &self.participants[of];
                if participant.life == life && participant.connected {
                    let session = participant.session.unwrap();
                    self.service.hear(self.now, session);
                    self.expire_later(session);
                    self.events.push(self.now + TOUCH, What::Touch { of, life });
                }
            }
            What::Expire => {
                if self.service_is_up {
                    let rings = self.service.expire(self.now);
                    self.ring(rings);
                }
            }
            What::Timer { of } => {
                let now = self.now;
                if self.participants[of].role.as_mut().is_some_and(|role| role.handle_timeout(now)) {
                    self.after(of);
                }
            }
            What::ToService { from, life, what } => {
                let participant = &self.participants[from];
                if participant.life != life || !participant.connected || !self.service_is_up {
                    return;
                }
                let (Some(session), Carried::Ask(ticket, request)) = (participant.session, what) else {
                    return;
                };
                if !self.service.stands(session) {
                    return self.lose(from);
                }
                let (reply, rings) = self.service.answer(session, &request);
                if std::env::var_os("VERGE_TRACE").is_some() {
                    println!(
                        "{:?} {} {session}: {request:?} -> {reply:?}",
                        self.now, self.participants[from].name
                    );
                }
                self.send_back(from, Carried::Reply(ticket, reply));
                self.ring(rings);
            }
            What::ToParticipant { to, life, what } => {
                let (now, participant) = (self.now, &mut self.participants[to]);
                if participant.life != life {
                    return;
                }
                if let Some(role) = participant.role.as_mut().map(Role::face) {
                    match what {
                        Carried::Reply(ticket, reply) => role.handle_reply(now, ticket, reply),
                        Carried::Ring(path) => role.handle_event(now, &path),
                        Carried::Ask(..) => unreachable!("participants are asked nothing"),
                    }
                }
                self.after(to);
            }
        }
    }

    fn connect(&mut self, of: usize) {
        let participant = &mut self.participants[of];
        if participant.role.is_none() || participant.connected {
            return;
        }
        if participant.cut || !self.service_is_up {
            self.events.push(self.now + Span::millis(300), What::Connect { of });
            return;
        }
        let before = participant.session;
        let session = self.service.connect(self.now, before);
        let participant = &mut self.participants[of];
        (participant.connected, participant.session) = (true, Some(session));
        participant.life += 1;
        let (life, now) = (participant.life, self.now);
        for told in [
            (before.is_some() && before != Some(session)).then_some(Session::Expired),
            Some(Session::Connected(session)),
        ] {
            let Some(told) = told else { continue };
            if let Some(role) = self.participants[of].role.as_mut() {
                role.face().handle_session(now, told);
            }
        }
        self.expire_later(session);
        self.events.push(self.now + TOUCH, What::Touch { of, life });
        self.after(of);
    }

    fn expire_later(&mut self, session: i64) {
        if let Some(at) = self.service.ends_at(session) {
            self.events.push(at, What::Expire);
        }
    }

    fn ring(&mut self, rings: Vec<Ring>) {
        for Ring { session, path } in rings {
            let to = self.participants.iter().position(|one| one.session == Some(session) && one.connected);
            if let Some(to) = to {
                self.send_back(to, Carried::Ring(path));
            }
        }
    }

    fn send_back(&mut self, to: usize, what: Carried) {
        let at = self.now + self.latency.sample(&mut self.random);
        let participant = &mut self.participants[to];
        participant.last_in = participant.last_in.max(at);
        let (at, life) = (participant.last_in, participant.life);
        self.events.push(at, What::ToParticipant { to, life, what });
    }

    /// Takes what a participant has to say.
    fn after(&mut self, of: usize) {
        loop {
            let asked = self.participants[of].role.as_mut().and_then(|role| role.face().poll_request());
            let Some((ticket, request)) = asked else { break };
            let at = self.now + self.latency.sample(&mut self.random);
            let participant = &mut self.participants[of];
            participant.last_out = participant.last_out.max(at);
            let (at, life) = (participant.last_out, participant.life);
            self.events.push(at, What::ToService { from: of, life, what: Carried::Ask(ticket, request) });
        }
        self.hear(of);
        let due = self.participants[of].role.as_mut().map_or(Time::NEVER, |role| role.face().next_deadline());
        if due != Time::NEVER {
            self.events.push(due.max(self.now), What::Timer { of });
        }
    }

    fn hear(&mut self, of: usize) {
        let now = self.now;
        let mut begun = Vec::new();
        loop {
            match self.participants[of].role.as_mut() {
                Some(Role::Site(site)) => {
                    let Some(news) = site.poll_news() else { break };
                    self.hear_site(of, &news);
                    self.participants[of].news.push((now, format!("{news:?}")));
                }
                Some(Role::Router(router)) => {
                    let Some(news) = router.poll_news() else { break };
                    if let RouterNews::Carries { topic, carried: Some(_) } = &news {
                        begun.push(topic.clone());
                    }
                    self.participants[of].news.push((now, format!("{news:?}")));
                }
                None => break,
            }
        }
        if self.participants[of].begins {
            // Sites need a moment to link.
            for topic in begun {
                let act = move |world: &mut World| {
                    let now = world.now;
                    if let Some(router) = world.router(of) {
                        router.begun(now, &topic);
                    }
                    world.after(of);
                };
                self.agenda.push(now + Span::millis(250), Box::new(act));
            }
        }
    }

    fn hear_site(&mut self, of: usize, news: &SiteNews) {
        let participant = &mut self.participants[of];
        match news {
            SiteNews::Route { topic, route: Some(route) } => {
                let before = participant.routes.get(topic).map_or(0, |(route, _)| route.epoch);
                if before > route.epoch && !self.wiped {
                    let name = &participant.name;
                    self.broken
                        .push(format!("{name} goes from epoch {before} of {topic} to {}", route.epoch));
                }
                participant.routes.insert(topic.clone(), (route.clone(), self.now));
            }
            SiteNews::Route { topic, route: None } => _ = participant.routes.remove(topic),
            SiteNews::Link { router, locator } => {
                participant.links.insert(router.clone(), locator.clone());
            }
            // An admin has said so, or it has run out.
            SiteNews::KeptNoMore { topic } => {
                participant.keeps.remove(topic);
                self.kept_no_more_at = self.now;
            }
            SiteNews::Unlink { router } => _ = participant.links.remove(router),
            _ => {}
        }
    }

    /// Has watches ring that rang since somebody wrote who is none of the participants.
    pub fn rung(&mut self, rings: Vec<Ring>) {
        self.ring(rings);
    }

    /// What participants have said that holds these words, by participant.
    pub fn said(&self, of: usize, words: &str) -> usize {
        self.participants[of].news.iter().filter(|(_, news)| news.contains(words)).count()
    }

    pub fn forget_news(&mut self) {
        self.participants.iter_mut().for_each(|one| one.news.clear());
    }

    pub fn act_at(&mut self, span: Span, act: impl FnOnce(&mut World) + 'static) {
        self.agenda.push(self.now + span, Box::new(act));
    }
}

fn new_site(name: &str, identity: &str, reign: u64) -> Site {
    let holder = Holder { identity: format!("{identity}-pair"), reign };
    Site::new(SiteSettings { name: name.to_owned(), holder, topics_max: 100_000 })
}

impl World {
    /// The tree and what everybody said, for people.
    pub fn show(&self) {
        for (path, data) in self.service.nodes() {
            println!("{path} {}", String::from_utf8_lossy(data));
        }
        for one in &self.participants {
            for (at, news) in &one.news {
                println!("{at:?} {}: {news}", one.name);
            }
        }
    }
}
