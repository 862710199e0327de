//! One run of anything, and what must hold at its end.

#![allow(dead_code, reason = "each test uses its own part of it")]

use crate::world::World;
use contract::Span;
use federation::{Carried, Keep, RouterSettings, Side, Terms};
use std::collections::{BTreeMap, BTreeSet};

/// What must hold, by name: one router carries each topic of interest; between the sites that want it and no others; sites know it; links are
/// those that are needed; no epoch goes back; what nobody wants is forgotten; nobody hears of a failover; topics go by the routers that are there for
/// them, and no more than they take.
pub const CHECKERS: [&str; 8] = ["carriers", "ways", "routes", "links", "epochs", "idle", "quiet", "meant"];

/// What is not as it must be: the checker, and what it found.
pub type Wrong = (&'static str, String);

const TOPICS: usize = 12;
/// What sites may want by filters: of topics that nobody subscribes by name.
const WISHES: [&[&str]; 4] = [&[], &["wild/#"], &["wild/9"], &["wild/+", "wild/10"]];

fn topic(number: usize) -> String {
    if number < 8 { format!("plant/{number}") } else { format!("wild/{number}") }
}

/// Whether a site's filters ask for a topic, by code of its own: one names it, or means it and another site publishes it.
fn is_wished(world: &World, cast: &Cast, site: usize, name: &str) -> bool {
    let publishes =
        |of: &usize| world.participants[*of].wants.contains_key(&(name.to_owned(), Side::Publishes));
    let others = cast.sites.iter().filter(|of| **of != site).any(publishes);
    world.participants[site].wishes.iter().any(|filter| match filter.as_str() {
        "wild/#" | "wild/+" => name.starts_with("wild/") && others,
        named => named == name,
    })
}

fn terms(random: &mut fastrand::Rng) -> Terms {
    let type_name = [None, Some("Speed"), Some("Torque")][random.usize(..3)].map(str::to_owned);
    Terms { type_name, loss: [None, Some(0), Some(3)][random.usize(..3)], ..Terms::default() }
}

/// For which topics a router is there, and how many it takes.
fn meant(router: &str) -> (&'static [&'static str], Option<usize>) {
    match router {
        "r1" => (&["wild/#", "plant/0"], None),
        "r2" => (&["plant/+"], Some(2)),
        _ => (&[], None),
    }
}

/// Whether a topic is where it should be, and no router has more than it takes, by code of its own.
fn misplaced(world: &mut World, cast: &Cast, carried: &BTreeMap<String, String>) -> Vec<String> {
    let mut has: BTreeMap<String, usize> = BTreeMap::new();
    for router in &cast.routers {
        let count = world.router(*router).unwrap().topics().count();
        has.insert(world.participants[*router].name.clone(), count);
    }
    let drains = |name: &str| cast.drains.iter().any(|of| world.participants[*of].name == name);
    let rank = |router: &str, topic: &str| match (drains(router), meant(router).0) {
        (true, _) => 3,
        (false, []) => 1,
        (false, only) => {
            let is_meant = only.iter().any(|filter| match filter.strip_suffix(['#', '+']) {
                Some(start) => topic.starts_with(start),
                None => topic == *filter,
            });
            if is_meant { 0 } else { 2 }
        }
    };
    let full = |name: &str| meant(name).1.is_some_and(|most| has[name] >= most);
    let mut wrong = Vec::new();
    for (topic, router) in carried {
        let better = has.keys().find(|other| !full(other) && rank(other, topic) < rank(router, topic));
        wrong
            .extend(better.map(|better| format!("{topic} goes by {router}, and {better} is the one for it")));
    }
    let above = has.iter().filter(|(name, count)| meant(name).1.is_some_and(|most| **count > most));
    wrong.extend(above.map(|(name, count)| format!("{name} has {count} topics")));
    wrong
}

struct Cast {
    sites: Vec<usize>,
    routers: Vec<usize>,
    drains: BTreeSet<usize>,
}

fn begin(world: &mut World, random: &mut fastrand::Rng) -> Cast {
    world.router_settings = |settings| {
        let (only, topics_max) = meant(&settings.name);
        let only = only.iter().map(|filter| filter.parse().unwrap()).collect();
        RouterSettings { only, topics_max, idle: Span::secs(20), move_limit: Span::secs(3), ..settings }
    };
    let routers = (0..random.usize(1..4)).map(|number| world.add_router(&format!("r{number}"))).collect();
    let sites = (0..random.usize(2..6)).map(|number| world.add_site(&format!("s{number}"))).collect();
    Cast { sites, routers, drains: BTreeSet::new() }
}

fn act(world: &mut World, cast: &mut Cast, random: &mut fastrand::Rng, worst: bool) {
    let any = |random: &mut fastrand::Rng, of: &[usize]| of[random.usize(..of.len())];
    let site = any(random, &cast.sites);
    let router = any(random, &cast.routers);
    let one = if random.bool() { site } else { router };
    let name = topic(random.usize(..TOPICS));
    let side = if random.bool() || name.starts_with("wild") { Side::Publishes } else { Side::Subscribes };
    let span = Span::millis(random.i64(100..9_000));
    match random.u32(..if worst { 42 } else { 26 }) {
        24 | 25 => world.wish(site, WISHES[random.usize(..WISHES.len())]),
        0..10 => {
            let terms = terms(random);
            world.open(site, &name, side, &terms);
        }
        10..20 => world.close(site, &name, side),
        20 => {
            let until_s = (world.now + Span::secs(random.i64(5..400))).0 / 1_000_000_000;
            world.keep(site, &name, Keep { until_s, quota_bytes: 1_000 });
        }
        21..24 => {
            if !cast.drains.remove(&router) {
                cast.drains.insert(router);
            }
            world.drain(router, cast.drains.contains(&router));
        }
        26..30 => world.take_over(one),
        30..34 => {
            world.kill(one);
            world.act_at(span, move |world| {
                if world.participants[one].role.is_none() {
                    world.participants[one].reign += 1;
                    world.start(one);
                }
            });
        }
        34..38 => world.cut(one, span),
        38..40 => world.outage(Span(span.0 / 2)),
        40 => {
            let paths: Vec<String> = world.service.nodes().map(|(path, _)| path.to_owned()).collect();
            let path = &paths[random.usize(..paths.len())];
            // What a site has below a topic it does not look at again; see the README.
            if path.starts_with("/topics/") && path.matches('/').count() == 3 {
                world.wipe(path);
            }
        }
        _ => world.run(span),
    }
}

/// What must be carried of a topic, from what applications want, by code of its own.
fn wanted(world: &World, cast: &Cast, name: &str) -> Option<(Carried, BTreeSet<(String, String)>)> {
    let (mut offers, mut asks) = (BTreeMap::new(), BTreeMap::new());
    let (mut carried, mut refused) = (Carried::default(), BTreeSet::new());
    let now_s = world.now.0 / 1_000_000_000;
    for (of, site) in cast.sites.iter().map(|site| (*site, &world.participants[*site])) {
        let want = |side| site.wants.get(&(name.to_owned(), side)).map(|(_, terms)| terms.clone());
        if let Some(kept) = site.keeps.get(name).filter(|(keep, _)| keep.until_s > now_s) {
            carried.kept.insert(site.name.clone());
            asks.insert(site.name.clone(), kept.1.clone());
        }
        offers.extend(want(Side::Publishes).map(|terms| (site.name.clone(), terms)));
        asks.extend(want(Side::Subscribes).map(|terms| (site.name.clone(), terms)));
        if is_wished(world, cast, of, name) {
            asks.insert(site.name.clone(), Terms::default());
        }
    }
    let pairs = offers.iter().flat_map(|offer| asks.iter().map(move |ask| (offer, ask)));
    for ((from, offered), (to, asked)) in pairs.filter(|((from, _), (to, _))| from != to) {
        let typed =
            offered.type_name.is_none() || asked.type_name.is_none() || offered.type_name == asked.type_name;
        let kept = asked.loss.is_none_or(|asked| offered.loss.is_some_and(|offered| offered <= asked));
        if typed && kept {
            carried.ways.entry(from.clone()).or_default().insert(to.clone());
        } else {
            refused.insert((from.clone(), to.clone()));
        }
    }
    (!offers.is_empty() || !asks.is_empty()).then_some((carried, refused))
}

/// What is not as it must be, in words.
fn wrong(world: &mut World, cast: &Cast) -> Vec<Wrong> {
    let mut wrong: Vec<Wrong> =
        std::mem::take(&mut world.broken).into_iter().map(|what| ("epochs", what)).collect();
    let mut links: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    let mut placed = BTreeMap::new();
    for name in (0..TOPICS).map(topic) {
        let wants = wanted(world, cast, &name);
        let mut carriers = Vec::new();
        for router in &cast.routers {
            let carried = world.router(*router).unwrap().carried(&name).cloned();
            carriers.extend(carried.map(|carried| (world.participants[*router].name.clone(), carried)));
        }
        let Some((wants, refused)) = wants else {
            if !carriers.is_empty() {
                wrong.push(("idle", format!("nobody wants {name}, and it is carried by {carriers:?}")));
            }
            let stands = world.service.nodes().any(|(path, _)| {
                federation::unescape(path.rsplit('/').next().unwrap()) == Some(name.clone())
            });
            if stands {
                wrong.push(("idle", format!("nobody wants {name}, and it stands in the tree")));
            }
            continue;
        };
        let [(router, carried)] = carriers.as_slice() else {
            wrong.push(("carriers", format!("{name} has {} routers: {carriers:?}", carriers.len())));
            continue;
        };
        placed.insert(name.clone(), router.clone());
        let without_words = Carried { refused: BTreeSet::new(), ..carried.clone() };
        let named = carried.refused.iter().map(|refused| (refused.from.clone(), refused.to.clone()));
        if without_words != wants || !named.eq(refused.iter().cloned()) {
            let what =
                format!("{name} is carried as {carried:?} and wanted as {wants:?}, refused {refused:?}");
            wrong.push(("ways", what));
        }
        for of in &cast.sites {
            let site = &world.participants[*of];
            let any = Side::ALL.into_iter().any(|side| site.wants.contains_key(&(name.clone(), side)))
                || is_wished(world, cast, *of, &name)
                || wants.kept.contains(&site.name);
            let route = site.routes.get(&name).map(|(route, _)| (route.router.clone(), route.former.clone()));
            if route != any.then(|| (router.clone(), None)) {
                wrong
                    .push(("routes", format!("{} has {route:?} for {name}, carried by {router}", site.name)));
            }
            if any {
                links.entry(*of).or_default().insert(router.clone());
            }
        }
    }
    for of in &cast.sites {
        let (site, needs) = (&world.participants[*of], links.remove(of).unwrap_or_default());
        if !site.links.keys().eq(&needs) {
            wrong.push(("links", format!("{} is linked to {:?} and needs {needs:?}", site.name, site.links)));
        }
    }
    wrong.extend(misplaced(world, cast, &placed).into_iter().map(|what| ("meant", what)));
    wrong
}

/// One run. Returns what is wrong at its end, by what checks it.
pub fn play(seed: u64, worst: bool) -> Vec<Wrong> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut world = World::new(seed);
    if std::env::var_os("VERGE_SHOW").is_some() {
        println!("seed {seed}");
    }
    let mut cast = begin(&mut world, &mut random);
    for _ in 0..random.usize(10..120) {
        act(&mut world, &mut cast, &mut random, worst);
        if random.bool() {
            let span = Span::millis(random.i64(1..1_500));
            world.run(span);
        }
    }
    // Sometimes a router dies for good; one is always left.
    if worst && cast.routers.len() > 1 && random.u32(..3) == 0 {
        let dead = cast.routers.swap_remove(random.usize(..cast.routers.len()));
        world.act_at(Span::secs(10), move |world| world.kill(dead));
    }
    // The last faults are over after ten seconds; sessions end, topics are given and moved, and what nobody wants is removed.
    world.run(Span::secs(75));
    // What was kept and has just run out takes its time as well.
    let just_over = |world: &World| {
        let now_s = world.now.0 / 1_000_000_000;
        let mut keeps = world.participants.iter().flat_map(|one| one.keeps.values());
        world.now.since(world.kept_no_more_at) < Span::secs(30)
            || keeps.any(|(keep, _)| (now_s.saturating_sub(30)..=now_s + 1).contains(&keep.until_s))
    };
    while just_over(&world) {
        world.run(Span::secs(7));
    }
    let alive = |of: &usize| world.participants[*of].role.is_some();
    assert!(cast.routers.iter().chain(&cast.sites).all(alive));
    let wrong = wrong(&mut world, &cast);
    if !wrong.is_empty() && std::env::var_os("VERGE_SHOW").is_some() {
        world.show();
    }
    wrong
}

/// After a failover of a pair nothing changes at routers and at other sites, also not when the dead broker's session ends.
pub fn fail_over(seed: u64) -> Vec<Wrong> {
    let mut world = World::new(seed);
    let router = world.add_router("r1");
    let [a, b] = ["a", "b"].map(|name| world.add_site(name));
    for topic in ["x", "y", "z"] {
        world.open(a, topic, Side::Publishes, &Terms::default());
        world.open(b, topic, Side::Subscribes, &Terms::default());
    }
    world.run(Span::secs(5));
    let mut wrong = Vec::new();
    for one in [a, b, router] {
        world.forget_news();
        world.take_over(one);
        world.run(Span::secs(20));
        for other in [a, b, router].into_iter().filter(|other| *other != one) {
            let news = &world.participants[other].news;
            wrong.extend(news.iter().map(|(_, news)| ("quiet", news.clone())));
        }
        if world.said(one, "Claimed") != 1 {
            wrong.push(("quiet", format!("not claimed once: {:?}", world.participants[one].news)));
        }
    }
    wrong
}
