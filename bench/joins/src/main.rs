//! Sites that join over a real coordination service, all at once: what a request takes, and when all ways are open. One JSON object.
//!
//! `verge-bench-joins SERVERS NAMESPACE ROUTERS JOINS`: each site and each router is the shipped core with a session of its own; what moves messages is not there.
//! 20 sites publish 50 topics each, and 100 sites subscribe their share of the joins, so that each topic goes to about ten of them at most.

use contract::{Span, Time};
use coordination::{Event, Settings, ZooKeeper};
use federation::{
    Holder, MemberNews, Participant, Reply, Request, Router, RouterNews, RouterSettings, Side, Site,
    SiteNews, SiteSettings, Terms, Ticket,
};
use serde_json::json;
use std::collections::{BTreeMap, HashSet};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime};

const PUBLISHING: usize = 20;
const TOPICS_OF_EACH: usize = 50;
const SUBSCRIBING: usize = 100;
const TOPICS: usize = PUBLISHING * TOPICS_OF_EACH;
/// Requests that are under way, of all together.
const UNDER_WAY_MAX: usize = 256;
/// Much longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often deadlines are looked at.
const LOOK: Duration = Duration::from_millis(5);

type Failure = Box<dyn Error>;

fn now() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time(since.as_nanos() as u64)
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

/// A site or a router, and its session.
struct Member {
    role: Role,
    zookeeper: ZooKeeper,
    rung: Arc<AtomicBool>,
    claimed: bool,
    asked: BTreeMap<Ticket, (Kind, Instant)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Read,
    List,
    Write,
}

impl Kind {
    fn of(request: &Request) -> Kind {
        match request {
            Request::Read { .. } => Kind::Read,
            Request::List { .. } => Kind::List,
            Request::Write(_) => Kind::Write,
        }
    }
}

struct Run {
    settings: Settings,
    members: Vec<Member>,
    rings: Sender<usize>,
    rung: Receiver<usize>,
    under_way: usize,
    /// Where the next request is looked for first.
    turn: usize,
    took: Vec<(Kind, Duration)>,
    refused: u64,
    /// Ways of each topic that its router carries, by topic.
    ways: BTreeMap<String, usize>,
    /// Topics of which a site knows the router.
    routes: HashSet<(usize, String)>,
}

impl Run {
    fn new(settings: Settings) -> Run {
        let (rings, rung) = channel();
        Run {
            settings,
            members: Vec::new(),
            rings,
            rung,
            under_way: 0,
            turn: 0,
            took: Vec::new(),
            refused: 0,
            ways: BTreeMap::new(),
            routes: HashSet::new(),
        }
    }

    fn add(&mut self, role: Role) -> Result<usize, Failure> {
        let (index, rings) = (self.members.len(), self.rings.clone());
        let rung = Arc::new(AtomicBool::new(false));
        let rings_once = Arc::clone(&rung);
        let wake = move || {
            if !rings_once.swap(true, Ordering::AcqRel) {
                _ = rings.send(index);
            }
        };
        let zookeeper = ZooKeeper::connect(self.settings.clone(), Arc::new(wake))?;
        self.members.push(Member { role, zookeeper, rung, claimed: false, asked: BTreeMap::new() });
        Ok(index)
    }

    fn site(&mut self, name: &str) -> Result<usize, Failure> {
        let holder = Holder { identity: format!("{name}-pair"), reign: 1 };
        let settings = SiteSettings { name: name.to_owned(), holder, topics_max: TOPICS };
        self.add(Role::Site(Box::new(Site::new(settings))))
    }

    fn router(&mut self, name: &str) -> Result<usize, Failure> {
        let holder = Holder { identity: format!("{name}-pair"), reign: 1 };
        let settings = RouterSettings::new(name, holder, &format!("{name}:7571"));
        self.add(Role::Router(Box::new(Router::new(settings))))
    }

    /// Goes on until this holds. Returns how long that took.
    fn until(&mut self, what: &str, holds: impl Fn(&Run) -> bool) -> Result<Duration, Failure> {
        let begun = Instant::now();
        while !holds(self) {
            if begun.elapsed() > PATIENCE {
                return Err(format!("not within {PATIENCE:?}: {what}").into());
            }
            match self.rung.recv_timeout(LOOK) {
                Ok(index) => self.hear(index)?,
                Err(RecvTimeoutError::Timeout) => self.look()?,
                Err(RecvTimeoutError::Disconnected) => unreachable!("one end is held here"),
            }
            self.ask()?;
        }
        Ok(begun.elapsed())
    }

    /// Whatever is due.
    fn look(&mut self) -> Result<(), Failure> {
        for index in 0..self.members.len() {
            let now = now();
            let face = self.members[index].role.face();
            if face.next_deadline() <= now {
                face.handle_timeout(now);
                self.news(index)?;
            }
        }
        Ok(())
    }

    fn hear(&mut self, index: usize) -> Result<(), Failure> {
        let member = &mut self.members[index];
        member.rung.store(false, Ordering::Release);
        while let Some(event) = member.zookeeper.poll_event() {
            let now = now();
            match event {
                Event::Session(session) => {
                    self.under_way -= member.asked.len();
                    member.asked.clear();
                    member.role.face().handle_session(now, session);
                }
                Event::Reply(ticket, reply) => {
                    if let Some((kind, asked)) = member.asked.remove(&ticket) {
                        self.under_way -= 1;
                        self.took.push((kind, asked.elapsed()));
                    }
                    self.refused += u64::from(matches!(reply, Reply::Refused { .. }));
                    member.role.face().handle_reply(now, ticket, reply);
                }
                Event::Ring(path) => member.role.face().handle_event(now, &path),
                Event::Trouble(why) => return Err(why.to_string().into()),
            }
        }
        self.look()?;
        self.news(index)
    }

    fn news(&mut self, index: usize) -> Result<(), Failure> {
        let member = &mut self.members[index];
        match &mut member.role {
            Role::Site(site) => {
                while let Some(news) = site.poll_news() {
                    match news {
                        SiteNews::Member(MemberNews::Claimed) => member.claimed = true,
                        SiteNews::Route { topic, route: Some(_) } => _ = self.routes.insert((index, topic)),
                        SiteNews::Route { topic, route: None } => _ = self.routes.remove(&(index, topic)),
                        SiteNews::TooMany(why) => return Err(why.into()),
                        _ => {}
                    }
                }
            }
            Role::Router(router) => {
                while let Some(news) = router.poll_news() {
                    match news {
                        RouterNews::Member(MemberNews::Claimed) => member.claimed = true,
                        RouterNews::Carries { topic, carried: Some(carried) } => {
                            router.begun(now(), &topic);
                            let ways = carried.ways.values().map(|to| to.len()).sum();
                            self.ways.insert(topic, ways);
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }

    /// Asks what may be asked, of each participant in its turn.
    fn ask(&mut self) -> Result<(), Failure> {
        let count = self.members.len();
        let mut silent = 0;
        while self.under_way < UNDER_WAY_MAX && silent < count {
            self.turn = (self.turn + 1) % count;
            let member = &mut self.members[self.turn];
            let request = if member.zookeeper.has_room() { member.role.face().poll_request() } else { None };
            let Some((ticket, request)) = request else {
                silent += 1;
                continue;
            };
            silent = 0;
            member.asked.insert(ticket, (Kind::of(&request), Instant::now()));
            self.under_way += 1;
            member.zookeeper.ask(ticket, request)?;
        }
        Ok(())
    }

    fn open(&mut self, index: usize, topic: &str, side: Side) -> Result<(), Failure> {
        if let Role::Site(site) = &mut self.members[index].role {
            site.open(now(), topic, side, &Terms::default())?;
        }
        Ok(())
    }

    fn is_quiet(&self) -> bool {
        self.under_way == 0 && self.members.iter().all(|member| member.claimed)
    }

    /// Median, 99th percentile and longest, in milliseconds, and how many.
    fn latencies(&self, kind: Option<Kind>) -> serde_json::Value {
        let mut took: Vec<f64> = self
            .took
            .iter()
            .filter(|(one, _)| kind.is_none_or(|kind| kind == *one))
            .map(|(_, took)| took.as_secs_f64() * 1e3)
            .collect();
        took.sort_by(f64::total_cmp);
        let at =
            |share: f64| took.get(((took.len() as f64 * share) as usize).min(took.len().saturating_sub(1)));
        json!({ "count": took.len(), "p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": took.last() })
    }
}

fn topic(number: usize) -> String {
    format!("plant/{}/{}", number / TOPICS_OF_EACH, number % TOPICS_OF_EACH)
}

fn run(servers: &str, namespace: &str, routers: usize, joins: usize) -> Result<(), Failure> {
    let settings = Settings { session_time_out: Span::secs(30), ..Settings::new(servers, namespace) };
    let mut run = Run::new(settings);
    (0..routers).try_for_each(|number| run.router(&format!("r{number:02}")).map(drop))?;
    run.until("routers are known", Run::is_quiet)?;
    for number in 0..PUBLISHING {
        let site = run.site(&format!("from{number:02}"))?;
        for one in 0..TOPICS_OF_EACH {
            run.open(site, &topic(number * TOPICS_OF_EACH + one), Side::Publishes)?;
        }
    }
    run.until("every topic has a router", |run| run.routes.len() == TOPICS && run.is_quiet())?;
    let first = run.members.len();
    (0..SUBSCRIBING).try_for_each(|number| run.site(&format!("to{number:03}")).map(drop))?;
    run.until("subscribing sites are known", Run::is_quiet)?;
    (run.took, run.refused) = (Vec::new(), 0);
    let share = joins / SUBSCRIBING;
    for site in 0..SUBSCRIBING {
        for one in 0..share {
            run.open(first + site, &topic((site * share + one) % TOPICS), Side::Subscribes)?;
        }
    }
    let open = run.until("all ways are open", |run| {
        run.routes.len() == TOPICS + share * SUBSCRIBING
            && run.ways.values().sum::<usize>() == share * SUBSCRIBING
    })?;
    let quiet = open + run.until("nobody asks any more", Run::is_quiet)?;
    let figures = json!({
        "joins": share * SUBSCRIBING,
        "routers": routers,
        "sites": PUBLISHING + SUBSCRIBING,
        "topics": TOPICS,
        "open_s": open.as_secs_f64(),
        "quiet_s": quiet.as_secs_f64(),
        "refused": run.refused,
        "all": run.latencies(None),
        "reads": run.latencies(Some(Kind::Read)),
        "lists": run.latencies(Some(Kind::List)),
        "writes": run.latencies(Some(Kind::Write)),
    });
    println!("{figures}");
    // The tree stands as it is until whoever looks at it has done so.
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    run.members.into_iter().for_each(|member| member.zookeeper.abandon());
    Ok(())
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [servers, namespace, routers, joins] = &words[..] else {
        return Err("verge-bench-joins SERVERS NAMESPACE ROUTERS JOINS".into());
    };
    run(servers, namespace, routers.parse()?, joins.parse()?)
}
