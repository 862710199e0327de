//! Sites whose routers a coordination service names, and such whose topics go by two routers at once.
#![allow(clippy::unwrap_used, reason = "tests fail by panics")]

use crate::world;

use contract::Span;
use world::named::{self, NORTH, ROUTERS, SOUTH, Sites, TOPICS, contract};

#[test]
fn the_death_of_one_of_two_paths_is_not_noticed() {
    assert_eq!(named::lose_each_of_two_routers(), Ok(()));
}

#[test]
fn topics_go_by_another_router_where_the_receiver_is_cut_off_from_theirs() {
    assert_eq!(named::cut_off_the_receiver(), Ok(()));
}

#[test]
fn what_short_lives_have_said_is_published_once_although_it_comes_by_two_routers() {
    assert_eq!(named::live_shortly(), Ok(()));
}

#[test]
fn what_is_wanted_less_often_comes_so_and_is_not_lost() {
    assert_eq!(named::want_less_often(false), Ok(()));
    assert_eq!(named::want_less_often(true), Ok(()));
}

#[test]
fn topics_go_by_the_routers_that_are_named_and_share_them() {
    let mut sites = Sites::new();
    sites.publish_for(Span::secs(2));
    assert_eq!(sites.check(), Ok(()));
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
    assert_eq!(named::fail_over(), Ok(()));
}

/// What has waited at home comes when the first router is reached, and what the other one carries is to wait for that.
#[test]
fn a_failover_loses_nothing_where_one_router_is_far_away() {
    assert_eq!(named::fail_over_beside_far_routers(true), Ok(()));
    assert_eq!(named::fail_over_beside_far_routers(false), Ok(()));
}

#[test]
fn a_router_that_drains_loses_nothing_and_is_left() {
    let mut sites = Sites::new();
    sites.publish_for(Span::secs(1));
    sites.world.drain(ROUTERS[0], true);
    sites.publish_for(Span::secs(10));
    assert_eq!(sites.world.topics_of_router(ROUTERS[0]), [""; 0]);
    assert_eq!(sites.routers(NORTH), [("r3".to_owned(), TOPICS)]);
    assert_eq!(sites.routers(SOUTH).len(), 1, "who has nothing there is not linked to it any more");
    sites.world.drain(ROUTERS[0], false);
    sites.publish_for(Span::secs(10));
    assert_eq!(sites.world.topics_of_router(ROUTERS[0]).len(), TOPICS / 2);
    assert_eq!(sites.check(), Ok(()));
}

#[test]
fn topics_of_a_dead_router_go_to_another() {
    assert_eq!(named::lose_a_router(), Ok(()));
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
    let office = sites.world.advertise(late, "office/late", contract());
    sites.world.run_for(Span::millis(500));
    let offered = sites.world.uplinks[0].view().coordination.unwrap().offered;
    assert_eq!(offered, TOPICS + 2);
    assert_eq!(sites.routers(NORTH).iter().map(|(_, streams)| streams).sum::<usize>(), 1);
    // What has ended is offered no longer.
    sites.world.withdraw(late, office);
    sites.world.run_for(Span::secs(12));
    assert_eq!(sites.world.uplinks[0].view().coordination.unwrap().offered, TOPICS + 1);
}
