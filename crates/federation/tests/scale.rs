//! Many at once: what a herd of joins costs, and that nothing is listed as a whole where that would grow with the square.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod world;

use contract::Span;
use federation::{Side, Terms};
use simulation::Latency;
use world::World;

/// PubSubCoord §3: 20 publishing sites with 50 topics each, 100 subscribing ones with 100 of these topics each, 40 routers, and 80 ms there and back.
#[test]
fn ten_thousand_joins_have_their_routes_within_ten_seconds() {
    let mut world = World::new(1);
    world.latency = Latency::fixed(Span::millis(40));
    let routers: Vec<usize> = (0..40).map(|number| world.add_router(&format!("r{number}"))).collect();
    let sites: Vec<usize> = (0..120).map(|number| world.add_site(&format!("s{number}"))).collect();
    world.run(Span::secs(3));
    let begun = world.now;
    let topic = |number: usize| format!("plant/{number}");
    for (place, site) in sites.iter().enumerate() {
        let (count, side) = if place < 20 { (50, Side::Publishes) } else { (100, Side::Subscribes) };
        for number in 0..count {
            let number = if place < 20 { place * 50 + number } else { (place * 10 + number * 7) % 1_000 };
            world.open(*site, &topic(number), side, &Terms::default());
        }
    }
    let pairs = |world: &mut World| -> usize {
        let carried = routers.iter().map(|router| {
            let topics = world.router(*router).unwrap().topics();
            topics
                .flat_map(|(_, carried)| carried.ways.values())
                .map(std::collections::BTreeSet::len)
                .sum::<usize>()
        });
        carried.sum()
    };
    while pairs(&mut world) < 10_000 && world.now.since(begun) < Span::secs(60) {
        world.run(Span::millis(100));
    }
    let took = world.now.since(begun);
    let routes: usize = world.participants.iter().map(|one| one.routes.len()).sum();
    let (nodes, watches, answered) =
        (world.service.nodes().count(), world.service.watches(), world.service.answered());
    println!("{took}: {nodes} nodes, {watches} watches, {answered:?} reads, lists and writes");
    assert!(took <= Span::secs(10), "{took}");
    assert_eq!(routes, 11_000);
    // A node for each topic and its three sides, and one for each endpoint; each is looked at a few times, not once for each other.
    // Most writes are those of sites that find the tree empty, all at once.
    assert!(nodes < 16_000 && watches < 60_000, "{nodes} nodes, {watches} watches");
    let [reads, lists, writes] = answered;
    assert!(reads < 80_000 && lists < 40_000 && writes < 90_000, "{answered:?}");
    assert_eq!(world.broken, [""; 0]);
}

/// Shards of 256 topics, so that no node outgrows what the service takes: 50 000 topics over four routers.
#[test]
fn fifty_thousand_topics_fit_into_nodes_of_less_than_a_megabyte() {
    let mut world = World::new(2);
    world.latency = Latency::fixed(Span::millis(1));
    let routers: Vec<usize> = (0..4).map(|number| world.add_router(&format!("r{number}"))).collect();
    let sites = ["s1", "s2"].map(|name| world.add_site(name));
    world.run(Span::secs(1));
    for number in 0..50_000 {
        let site = sites[number % 2];
        world.open(
            site,
            &format!("plant/line-{}/machine-{number}/speed", number % 40),
            Side::Publishes,
            &Terms::default(),
        );
    }
    world.run(Span::secs(120));
    let given = routers.iter().map(|router| world.router(*router).unwrap().topics().count());
    let given: Vec<usize> = given.collect();
    assert_eq!(given.iter().sum::<usize>(), 50_000, "{given:?}");
    assert!(given.iter().all(|topics| (12_400..12_600).contains(topics)), "{given:?}");
    let largest = world.service.nodes().map(|(_, data)| data.len()).max().unwrap();
    assert!(largest < 100_000, "{largest} bytes in a node");
}
