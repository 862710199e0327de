//! Sites whose routers a coordination service names.
#![allow(clippy::unwrap_used, reason = "tests fail by panics")]

mod world;

use contract::{Contract, Span};
use std::collections::BTreeSet;
use world::World;
use world::coordination::TIME_OUT;

/// Pairs: two sites, and the routers behind them.
const NORTH: usize = 0;
const SOUTH: usize = 1;
const ROUTERS: [usize; 2] = [2, 3];
const TOPICS: usize = 8;

fn contract() -> Contract {
    Contract::every(Span::millis(50)).deadline(Span::secs(1)).retain(3)
}

/// Two sites and two routers. What the one publishes the other wants.
struct Sites {
    world: World,
    publisher: usize,
    subscriber: usize,
    publications: Vec<u32>,
    published: u64,
}

impl Sites {
    fn new() -> Sites {
        let mut world = World::of_pairs(4, |_| {}, None);
        world.add_service(&ROUTERS);
        for (site, pair) in [("north", NORTH), ("south", SOUTH)] {
            world.add_coordinated_site(site, pair, |told| told.retain = 30);
        }
        world.run_for(Span::secs(1));
        let publisher = world.add_client_at(NORTH, "plc", 7);
        let subscriber = world.add_client_at(SOUTH, "desk", 7);
        world.run_for(Span::millis(200));
        world.subscribe(subscriber, "plant/#");
        let publications = (0..TOPICS)
            .map(|topic| world.advertise(publisher, &format!("plant/{topic}"), contract()))
            .collect();
        world.run_for(Span::secs(2));
        Sites { world, publisher, subscriber, publications, published: 0 }
    }

    fn publish_for(&mut self, span: Span) {
        let end = self.world.now + span;
        while self.world.now < end {
            for publication in &self.publications {
                self.world.publish(self.publisher, *publication, b"1").unwrap();
            }
            self.published += 1;
            self.world.run_for(Span::millis(50));
        }
    }

    /// Everything has come, and once.
    fn check(&mut self) {
        self.world.run_for(Span::secs(1));
        for topic in 0..TOPICS {
            let name = format!("plant/{topic}");
            let seen = self.world.seen(self.subscriber).messages.iter();
            let came: Vec<u64> = seen.filter(|message| message.0 == name).map(|message| message.1).collect();
            let once: BTreeSet<u64> = came.iter().copied().collect();
            assert_eq!(once.len(), came.len(), "{name} came twice: {came:?}");
            let missing: Vec<u64> = (0..self.published).filter(|seq| !once.contains(seq)).collect();
            assert!(missing.is_empty(), "{name} lacks {missing:?} of {}", self.published);
        }
    }

    /// What the carrying uplink of a site shows of its routers: names and streams out.
    fn routers(&self, pair: usize) -> Vec<(String, usize)> {
        let views = [2 * pair, 2 * pair + 1].map(|uplink| self.world.uplinks[uplink].view());
        let view = views.into_iter().find(|view| view.carries).unwrap();
        let routers = view.routers.into_iter().filter(|router| router.reached);
        let mut routers: Vec<_> = routers.map(|router| (router.name, router.outward.0)).collect();
        routers.sort();
        routers
    }
}

#[test]
fn topics_go_by_the_routers_that_are_named_and_share_them() {
    let mut sites = Sites::new();
    sites.publish_for(Span::secs(2));
    sites.check();
    let half = TOPICS / 2;
    assert_eq!(sites.routers(NORTH), [("r2".to_owned(), half), ("r3".to_owned(), half)]);
    let view = sites.world.uplinks[0].view().coordination.unwrap();
    assert!(view.holds && view.trouble.is_empty(), "{view:?}");
    assert_eq!((view.offered, view.asked, view.routed), (TOPICS, 0, TOPICS));
    let standby = sites.world.uplinks[1].view().coordination.unwrap();
    assert_eq!((standby.holds, standby.routed), (false, TOPICS), "who stands by knows where topics go");
}

/// Its partner goes on with what it knows, and nobody else hears of it, also when the dead one's session ends.
#[test]
fn a_failover_of_a_site_or_a_router_changes_nothing_elsewhere() {
    let mut sites = Sites::new();
    sites.publish_for(Span::secs(1));
    let before = sites.routers(NORTH);
    for (broker, whose) in [(0, Some(0)), (2, Some(2)), (4, None)] {
        whose.into_iter().for_each(|uplink| sites.world.kill_uplink(uplink));
        sites.world.kill(broker);
        sites.publish_for(Span(2 * TIME_OUT.0));
        assert_eq!(sites.routers(NORTH), before, "{broker}");
        sites.world.start(broker);
        whose.into_iter().for_each(|uplink| sites.world.start_uplink(uplink));
        sites.publish_for(Span::secs(2));
    }
    sites.check();
    assert_eq!(sites.routers(NORTH), before);
}

#[test]
fn a_router_that_drains_loses_nothing_and_is_left() {
    let mut sites = Sites::new();
    sites.publish_for(Span::secs(1));
    sites.world.drain(ROUTERS[0], true);
    sites.publish_for(Span::secs(10));
    assert_eq!(sites.world.topics_of_router(ROUTERS[0]), [""; 0]);
    assert_eq!(sites.routers(NORTH), [("r3".to_owned(), TOPICS)]);
    assert_eq!(sites.routers(SOUTH).len(), 1, "who has nothing there is not linked to it");
    sites.world.drain(ROUTERS[0], false);
    sites.publish_for(Span::secs(10));
    assert_eq!(sites.world.topics_of_router(ROUTERS[0]).len(), TOPICS / 2);
    sites.check();
}

/// A router that dies for good is replaced when its session has ended; what is retained for it covers that here.
#[test]
fn topics_of_a_dead_router_go_to_another() {
    let mut sites = Sites::new();
    sites.publish_for(Span::secs(1));
    for broker in [2 * ROUTERS[0], 2 * ROUTERS[0] + 1] {
        sites.world.kill(broker);
    }
    sites.publish_for(TIME_OUT + Span::secs(1));
    assert_eq!(sites.routers(NORTH), [("r3".to_owned(), TOPICS)]);
    sites.publish_for(Span::secs(2));
    sites.world.run_for(Span::secs(1));
    let seen = sites.world.seen(sites.subscriber).messages.len();
    let (all, lost) = (sites.published as usize * TOPICS, sites.published as usize * TOPICS - seen);
    // 30 of each are retained, and 40 to 60 are published until the topics have moved.
    assert!(lost <= TOPICS / 2 * 30, "{lost} of {all}");
}

/// What is published later, and by whom nobody has heard of, comes as well.
#[test]
fn a_topic_that_comes_later_is_found_by_its_filter() {
    let mut sites = Sites::new();
    let late = sites.world.add_client_at(NORTH, "late", 7);
    sites.world.run_for(Span::millis(200));
    let publication = sites.world.advertise(late, "plant/late", contract());
    sites.world.run_for(Span::millis(500));
    for _ in 0..5 {
        sites.world.publish(late, publication, b"1").unwrap();
        sites.world.run_for(Span::millis(100));
    }
    let seen = sites.world.seen(sites.subscriber).messages.iter();
    assert_eq!(seen.filter(|message| message.0 == "plant/late").count(), 5);
    // What is not wanted elsewhere is offered, and stays.
    sites.world.advertise(late, "office/late", contract());
    sites.world.run_for(Span::millis(500));
    let offered = sites.world.uplinks[0].view().coordination.unwrap().offered;
    assert_eq!(offered, TOPICS + 2);
    assert_eq!(sites.routers(NORTH).iter().map(|(_, streams)| streams).sum::<usize>(), 1);
}
