//! The worked examples of the published system, and what it leaves open, one at a time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod world;

use contract::Span;
use federation::{Load, Policy, RouterSettings, Side, Terms};
use simulation::Latency;
use std::collections::BTreeSet;
use world::World;

fn terms() -> Terms {
    Terms::default()
}

/// PubSubCoord, figure 1: a topic of one network stays there; one of several goes by a router, and not back to where it comes from.
#[test]
fn only_what_is_wanted_elsewhere_leaves_a_site() {
    let mut world = World::new(1);
    let router = world.add_router("r1");
    let [a, b, c] = ["a", "b", "c"].map(|name| world.add_site(name));
    world.open(a, "A", Side::Publishes, &terms());
    world.open(a, "A", Side::Subscribes, &terms());
    world.open(b, "B", Side::Publishes, &terms());
    world.open(b, "B", Side::Subscribes, &terms());
    world.open(c, "B", Side::Subscribes, &terms());
    world.run(Span::secs(5));
    let carried = |world: &mut World, topic| world.router(router).unwrap().carried(topic).cloned().unwrap();
    assert!(carried(&mut world, "A").ways.is_empty());
    let ways = carried(&mut world, "B").ways;
    assert_eq!(ways, [("b".to_owned(), BTreeSet::from(["c".to_owned()]))].into());
    assert_eq!(world.participants[a].links["r1"], "r1:7571");
    world.close(c, "B", Side::Subscribes);
    world.run(Span::secs(5));
    let survey = federation::Survey::of(world.service.nodes());
    assert_eq!((survey.layout.as_str(), survey.leader.as_deref()), ("verge-1", Some("r1")));
    assert_eq!(survey.sites.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(survey.routers["r1"].topics, 2);
    let topic = &survey.topics["B"];
    assert_eq!(topic.record.router.as_deref(), Some("r1"));
    assert!(topic.published.contains("b") && topic.wanted.contains("b") && topic.kept.is_empty());
    assert!(survey.foreign.is_empty(), "{:?}", survey.foreign);
    assert!(carried(&mut world, "B").ways.is_empty());
    assert!(world.participants[c].links.is_empty());
    assert_eq!(world.broken, [""; 0]);
}

fn topics_of(world: &mut World, of: usize) -> Vec<String> {
    world.router(of).unwrap().topics().map(|(topic, _)| topic.to_owned()).collect()
}

/// Seven topics over three routers, and what happens when the first of them dies.
#[test]
fn topics_go_to_the_router_with_the_fewest() {
    let mut world = World::new(2);
    let routers = ["r1", "r2", "r3"].map(|name| world.add_router(name));
    let [a, b] = ["a", "b"].map(|name| world.add_site(name));
    world.run(Span::secs(2));
    for topic in 1..8 {
        world.open(a, &format!("t{topic}"), Side::Publishes, &terms());
        world.open(b, &format!("t{topic}"), Side::Subscribes, &terms());
        world.run(Span::secs(2));
    }
    let had = routers.map(|router| topics_of(&mut world, router));
    assert_eq!(had, [vec!["t1", "t4", "t7"], vec!["t2", "t5"], vec!["t3", "t6"]]);
    world.kill(routers[0]);
    world.run(Span::secs(10));
    let has = [routers[1], routers[2]].map(|router| topics_of(&mut world, router));
    assert_eq!(has, [vec!["t1", "t2", "t5", "t7"], vec!["t3", "t4", "t6"]]);
    for (topic, (route, _)) in &world.participants[a].routes {
        assert_ne!(route.router, "r1", "{topic}");
    }
    assert_eq!(world.broken, [""; 0]);
}

/// Topics go to the router from which least leaves, as routers have said themselves, and then to the one with fewer new ones.
#[test]
fn topics_go_to_the_router_from_which_least_leaves() {
    let mut world = World::new(4);
    world.router_settings = |settings| RouterSettings { policy: Policy::LeastTraffic, ..settings };
    let routers = ["r1", "r2"].map(|name| world.add_router(name));
    let [a, b] = ["a", "b"].map(|name| world.add_site(name));
    world.run(Span::secs(2));
    for (router, bytes_per_second) in routers.into_iter().zip([500_000, 1_000]) {
        let load = Load { topics: 1, connections: 2, bytes_per_second, processor_permille: 10 };
        let now = world.now;
        world.router(router).unwrap().tell_load(now, load);
    }
    world.run(Span::secs(2));
    for topic in 1..5 {
        world.open(a, &format!("t{topic}"), Side::Publishes, &terms());
        world.open(b, &format!("t{topic}"), Side::Subscribes, &terms());
        world.run(Span::secs(2));
    }
    let had = routers.map(|router| topics_of(&mut world, router).len());
    // A router that has no topics is taken to send nothing for any.
    assert_eq!(had, [1, 3]);
    let survey = federation::Survey::of(world.service.nodes());
    assert_eq!(survey.routers["r1"].record.as_ref().unwrap().load.bytes_per_second, 500_000);
    assert_eq!(world.broken, [""; 0]);
}

/// A link lasts while one topic needs it.
#[test]
fn links_are_counted_by_topics() {
    let mut world = World::new(3);
    world.add_router("r1");
    let site = world.add_site("e1");
    for topic in ["t1", "t1", "t4"] {
        world.open(site, topic, Side::Publishes, &terms());
    }
    world.run(Span::secs(3));
    let nodes = |world: &World| world.service.nodes().filter(|(path, _)| path.ends_with("/pub/e1")).count();
    assert_eq!((nodes(&world), world.participants[site].links.len()), (2, 1));
    world.close(site, "t1", Side::Publishes);
    world.run(Span::secs(3));
    assert_eq!((nodes(&world), world.participants[site].links.len()), (2, 1));
    world.close(site, "t1", Side::Publishes);
    world.run(Span::secs(3));
    assert_eq!((nodes(&world), world.participants[site].links.len()), (1, 1));
    world.close(site, "t4", Side::Publishes);
    world.run(Span::secs(3));
    assert_eq!((nodes(&world), world.participants[site].links.len()), (0, 0));
    // And after a minute nothing of the topics is left.
    world.run(Span::secs(70));
    assert!(world.service.nodes().all(|(path, _)| !path.contains("/t1") && !path.contains("/t4")));
    assert_eq!(world.broken, [""; 0]);
}

/// A router drains: its topics go to others one by one, and until the new one has begun, both carry it.
#[test]
fn a_router_drains_and_a_new_one_takes_its_share() {
    let mut world = World::new(4);
    let r1 = world.add_router("r1");
    let [a, b] = ["a", "b"].map(|name| world.add_site(name));
    for topic in 0..40 {
        world.open(a, &format!("t{topic}"), Side::Publishes, &terms());
        world.open(b, &format!("t{topic}"), Side::Subscribes, &terms());
    }
    world.run(Span::secs(5));
    let r2 = world.add_router("r2");
    world.run(Span::secs(30));
    assert_eq!([r1, r2].map(|router| topics_of(&mut world, router).len()), [20, 20]);
    world.drain(r1, true);
    for _ in 0..300 {
        world.run(Span::millis(100));
        for topic in (0..40).map(|topic| format!("t{topic}")) {
            let carries = |world: &mut World, router| {
                let carried = world.router(router).unwrap().carried(&topic).cloned();
                carried.is_some_and(|carried| carried.ways.len() == 1)
            };
            assert!([r1, r2].into_iter().any(|router| carries(&mut world, router)), "nobody carries {topic}");
        }
    }
    assert_eq!([r1, r2].map(|router| topics_of(&mut world, router).len()), [0, 40]);
    assert!(world.participants[a].links.keys().eq(["r2"]));
    assert_eq!(world.broken, [""; 0]);
}

/// Two sites of one name: the second is told, waits, and disturbs nobody; when the first is gone, the name is its own.
#[test]
fn a_name_belongs_to_whoever_claimed_it_first() {
    let mut world = World::new(5);
    world.add_router("r1");
    let first = world.add_site("a");
    let other = world.add_site("b");
    world.open(first, "x", Side::Publishes, &terms());
    world.open(other, "x", Side::Subscribes, &terms());
    world.run(Span::secs(5));
    world.forget_news();
    let second = world.add_namesake("a");
    world.open(second, "y", Side::Publishes, &terms());
    world.run(Span::secs(20));
    assert_eq!(world.said(second, "NameTaken"), 1, "{:?}", world.participants[second].news);
    assert!(world.participants[first].news.is_empty() && world.participants[other].news.is_empty());
    assert!(world.service.nodes().all(|(path, _)| !path.contains("/y")));
    world.kill(first);
    world.run(Span::secs(10));
    assert_eq!(world.said(second, "Claimed"), 1, "{:?}", world.participants[second].news);
    assert!(world.service.nodes().any(|(path, _)| path.ends_with("/y/pub/a")));
}

/// A tree of another release, or of something else, is left alone.
#[test]
fn nothing_is_written_into_the_tree_of_something_else() {
    let mut world = World::new(6);
    let data = b"verge-9".to_vec();
    let (path, lasting) = ("/version".to_owned(), federation::Lasting::Persistent);
    let admin = world.service.connect(world.now, None);
    let write = federation::Operation::Create { path, data, lasting };
    world.service.answer(admin, &federation::Request::Write(vec![write]));
    let (site, router) = (world.add_site("a"), world.add_router("r1"));
    world.open(site, "x", Side::Publishes, &terms());
    world.run(Span::secs(20));
    for one in [site, router] {
        assert_eq!(world.said(one, "verge-9"), 1, "{:?}", world.participants[one].news);
    }
    assert_eq!(world.service.nodes().count(), 2);
}

/// Nodes of others in between are no business of ours, and what is none of our records says nothing.
#[test]
fn foreign_nodes_are_passed_over() {
    let mut world = World::new(7);
    let router = world.add_router("r1");
    let [a, b] = ["a", "b"].map(|name| world.add_site(name));
    world.open(a, "x", Side::Publishes, &terms());
    world.run(Span::secs(5));
    let admin = world.service.connect(world.now, None);
    let topic = world.service.nodes().find(|(path, _)| path.ends_with("/x")).unwrap().0.to_owned();
    for path in [
        "/topics/zz".to_owned(),
        "/topics/zz/%zz".to_owned(),
        "/broker/rogue".to_owned(),
        "/assign/%".to_owned(),
        "/leader/mine".to_owned(),
        format!("{topic}/sub/stranger"),
        format!("{topic}/odd"),
    ] {
        let (data, lasting) = (b"{]".to_vec(), federation::Lasting::Persistent);
        let write = federation::Operation::Create { path, data, lasting };
        let (reply, rings) = world.service.answer(admin, &federation::Request::Write(vec![write]));
        assert!(matches!(reply, federation::Reply::Written(_)), "{reply:?}");
        world.rung(rings);
    }
    world.open(b, "x", Side::Subscribes, &terms());
    world.open(a, "z", Side::Publishes, &terms());
    world.run(Span::secs(10));
    assert!(world.router(router).unwrap().leads());
    let ways = world.router(router).unwrap().carried("x").unwrap().ways.clone();
    assert_eq!(ways, [("a".to_owned(), BTreeSet::from(["b".to_owned()]))].into());
    assert_eq!(world.participants[a].routes["z"].0.router, "r1");
    world.kill(router);
    let next = world.add_router("r2");
    world.run(Span::secs(15));
    assert!(world.router(next).unwrap().leads());
    assert_eq!(world.participants[a].routes["z"].0.router, "r2");
}

/// Topics that fall idle together go together, not one in each idle time.
#[test]
fn many_idle_topics_are_removed_soon_after_each_other() {
    let mut world = World::new(8);
    (1..3).for_each(|number| _ = world.add_router(&format!("r{number}")));
    let site = world.add_site("a");
    let topics: Vec<String> = (0..100).map(|number| format!("t{number}")).collect();
    topics.iter().for_each(|topic| world.open(site, topic, Side::Publishes, &terms()));
    world.run(Span::secs(10));
    topics.iter().for_each(|topic| world.close(site, topic, Side::Publishes));
    world.run(Span::secs(61));
    let left = |world: &World| {
        world
            .service
            .nodes()
            .filter(|(path, _)| path.matches('/').count() == 3 && path.starts_with("/topics"))
            .count()
    };
    world.run(Span::secs(20));
    assert_eq!(left(&world), 0);
}

/// What may not be read is said, once, and read when that has been mended.
#[test]
fn what_may_not_be_read_is_told_and_tried_again() {
    let mut world = World::new(9);
    world.service.bar("/version", true);
    let (site, router) = (world.add_site("a"), world.add_router("r1"));
    world.run(Span::secs(10));
    for one in [site, router] {
        assert_eq!(world.said(one, "Forbidden"), 1, "{:?}", world.participants[one].news);
    }
    world.service.bar("/version", false);
    world.run(Span::secs(5));
    for one in [site, router] {
        assert_eq!(world.said(one, "Claimed"), 1, "{:?}", world.participants[one].news);
    }
}

/// Whoever makes the tree loses the connection before that is done.
#[test]
fn a_tree_that_was_not_made_is_made_later() {
    let mut world = World::new(10);
    world.latency = Latency::fixed(Span::millis(100));
    let (site, router) = (world.add_site("a"), world.add_router("r1"));
    // It has been found empty after 200 ms, and what is to stand in it is on its way.
    world.run(Span::millis(250));
    [site, router].into_iter().for_each(|one| world.cut(one, Span::millis(500)));
    world.run(Span::secs(10));
    for one in [site, router] {
        assert_eq!(world.said(one, "Claimed"), 1, "{:?}", world.participants[one].news);
    }
}

/// What says whose the tree is may not be written: that is said, once.
#[test]
fn a_tree_that_may_not_be_made_is_told() {
    let mut world = World::new(11);
    world.service.shield("/version", true);
    let (site, router) = (world.add_site("a"), world.add_router("r1"));
    world.run(Span::secs(10));
    for one in [site, router] {
        assert_eq!(world.said(one, "Forbidden"), 1, "{:?}", world.participants[one].news);
    }
    world.service.shield("/version", false);
    world.run(Span::secs(5));
    for one in [site, router] {
        assert_eq!(world.said(one, "Claimed"), 1, "{:?}", world.participants[one].news);
    }
}

/// What a site may not write is said once, however often it is tried.
#[test]
fn an_endpoint_that_may_not_be_written_is_told_once() {
    let mut world = World::new(12);
    world.add_router("r1");
    let site = world.add_site("a");
    world.open(site, "y", Side::Publishes, &terms());
    world.run(Span::secs(5));
    let folder = world.service.nodes().find(|(path, _)| path.ends_with("/y/pub")).unwrap().0.to_owned();
    let path = folder.replace("/pub", "/sub/a");
    world.service.shield(&path, true);
    world.open(site, "y", Side::Subscribes, &terms());
    world.run(Span::secs(10));
    assert_eq!(world.said(site, "Forbidden"), 1, "{:?}", world.participants[site].news);
    world.service.shield(&path, false);
    world.run(Span::secs(3));
    assert!(world.service.nodes().any(|(there, _)| there == path));
}

/// A filter with wildcards asks for what other sites publish, and keeps nothing that nobody publishes any more.
#[test]
fn what_filters_mean_is_asked_for_while_somebody_else_publishes_it() {
    let mut world = World::new(6);
    world.add_router("r1");
    let [a, b] = ["a", "b"].map(|name| world.add_site(name));
    world.open(b, "plant/own", Side::Publishes, &terms());
    world.wish(b, &["plant/#", "office"]);
    world.run(Span::secs(3));
    let asked = |world: &World| {
        let nodes = world.service.nodes().filter_map(|(path, _)| path.strip_suffix("/sub/b"));
        let topics = nodes.filter_map(|path| federation::unescape(path.rsplit('/').next()?));
        topics.collect::<BTreeSet<_>>()
    };
    assert_eq!(asked(&world), BTreeSet::from(["office".to_owned()]), "nobody else publishes anything");
    for topic in ["plant/1", "plant/own", "yard/1", "$SYS/1"] {
        world.open(a, topic, Side::Publishes, &terms());
    }
    world.run(Span::secs(3));
    assert_eq!(asked(&world), ["office", "plant/1", "plant/own"].map(str::to_owned).into());
    world.close(a, "plant/1", Side::Publishes);
    world.run(Span::secs(70));
    assert_eq!(asked(&world), ["office", "plant/own"].map(str::to_owned).into());
    assert!(world.service.nodes().all(|(path, _)| !path.contains("plant%2f1")), "it is forgotten");
    world.wish(b, &[]);
    world.run(Span::secs(3));
    assert!(asked(&world).is_empty());
    assert_eq!(world.broken, [""; 0]);
}

/// An admin spoils the layout's version by mistake and mends it: who was told hears that all is well again.
#[test]
fn a_tree_that_is_mended_is_told_of() {
    let mut world = World::new(7);
    world.add_router("r1");
    let site = world.add_site("a");
    world.run(Span::secs(2));
    assert_eq!(world.said(site, "Claimed"), 1);
    world.set_node("/version", "99");
    world.run(Span::secs(3));
    assert_eq!(world.said(site, "Layout"), 1);
    world.set_node("/version", "verge-1");
    world.run(Span::secs(3));
    assert_eq!(world.said(site, "Claimed"), 2);
    assert_eq!(world.broken, [""; 0]);
}
