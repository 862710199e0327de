//! What a broker counts and tells when contracts are broken.
#![allow(clippy::unwrap_used, reason = "a broken world is a broken test")]

use crate::world;

use broker::{ClassCounts, Settings, Snapshot, Survey, TopicRule};
use contract::{Contract, Span};
use world::World;
use world::run::urgent;

/// One class for `t/#`, and whatever is left.
fn with_rule(settings: &mut Settings) {
    settings.topics = vec![TopicRule::new("t/#".parse().unwrap(), urgent())];
}

struct Plant {
    world: World,
    publisher: usize,
}

impl Plant {
    fn new() -> Plant {
        let mut world = World::protected(with_rule);
        let (publisher, subscriber) = (world.add_client("plc"), world.add_client("s"));
        world.run_for(Span::millis(50));
        world.subscribe(subscriber, "#");
        world.run_for(Span::millis(50));
        Plant { world, publisher }
    }

    fn advertise(&mut self, topic: &str, contract: Option<Contract>) -> u32 {
        let number = self.world.advertise_as(self.publisher, topic, contract);
        self.world.run_for(Span::millis(50));
        number
    }

    fn publish_late(&mut self, number: u32) {
        let created = self.world.now - Span::millis(300);
        self.world.publish_created(self.publisher, number, b"x", created).unwrap();
        self.world.run_for(Span::millis(10));
    }

    fn told(&mut self, text: &str) -> usize {
        self.world.log(0).iter().filter(|line| line.contains(text)).count()
    }

    fn class(&self, name: &str) -> ClassCounts {
        let mut snapshot = Snapshot::default();
        self.world.broker(0).fill(self.world.now, &Survey::default(), &mut snapshot);
        snapshot.classes.iter().find(|(class, _)| class == name).unwrap().1
    }
}

#[test]
fn late_messages_are_counted_each_and_told_once_per_second() {
    let mut plant = Plant::new();
    let number = plant.advertise("t/0", None);
    (0..5).for_each(|_| plant.publish_late(number));
    assert_eq!(plant.class("t/#").missed, 5);
    assert_eq!(plant.class("other"), ClassCounts::default());
    assert_eq!(plant.told("dispatched after their deadline"), 1);
    plant.world.run_for(Span::secs(1));
    plant.publish_late(number);
    assert_eq!(plant.told("dispatched after their deadline"), 2);
    assert_eq!(plant.told("5 messages of `t/0` from plc were dispatched after their deadline"), 1);
}

#[test]
fn what_is_dispatched_in_time_and_leaves_late_is_late() {
    let mut plant = Plant::new();
    let number = plant.advertise("t/0", None);
    for (writing, missed) in [(0, 0), (1_000, 1), (1_000, 2), (0, 2), (0, 2)] {
        plant.world.writing = Span::millis(writing);
        plant.world.publish(plant.publisher, number, b"x").unwrap();
        plant.world.run_for(Span::millis(60));
        assert_eq!(plant.class("t/#").missed, missed, "writing takes {writing} ms");
    }
    assert_eq!(plant.told("after their deadline") + plant.told("after its deadline"), 1);
}

#[test]
fn messages_in_time_are_counted_by_latency_and_nothing_is_told() {
    let mut plant = Plant::new();
    let number = plant.advertise("elsewhere", Some(urgent()));
    for _ in 0..3 {
        plant.world.publish(plant.publisher, number, b"x").unwrap();
        plant.world.run_for(Span::millis(60));
    }
    let other = plant.class("other");
    assert_eq!((other.latency.iter().sum::<u64>(), other.missed, other.lost), (3, 0, 0));
    assert!(other.latency_nanos > 0);
    assert_eq!(plant.told("deadline") + plant.told("missing"), 0);
}

#[test]
fn a_run_of_losses_beyond_the_contract_is_told_and_one_within_is_only_counted() {
    let mut plant = Plant::new();
    let tolerant =
        plant.advertise("elsewhere", Some(Contract { loss: contract::Loss::AtMost(4), ..urgent() }));
    plant.world.publish_raw(plant.publisher, 0, tolerant, 0);
    plant.world.publish_raw(plant.publisher, 0, tolerant, 5);
    plant.world.run_for(Span::millis(10));
    assert_eq!((plant.class("other").lost, plant.class("other").longest_run), (4, 4));
    assert_eq!(plant.told("in a row"), 0);
    plant.world.publish_raw(plant.publisher, 0, tolerant, 11);
    plant.world.run_for(Span::millis(10));
    assert_eq!((plant.class("other").lost, plant.class("other").longest_run), (9, 5));
    assert_eq!(
        plant.told("5 messages in a row of `elsewhere` from plc are missing, and its contract tolerates 4"),
        1
    );
}

#[test]
fn what_comes_late_to_a_subscriber_is_told_by_it() {
    let mut plant = Plant::new();
    let number = plant.advertise("t/0", None);
    plant.publish_late(number);
    for _ in 0..3 {
        plant.world.publish(plant.publisher, number, b"x").unwrap();
        plant.world.run_for(Span::millis(60));
    }
    plant.world.run_for(Span::secs(2));
    let class = plant.class("t/#");
    assert_eq!((class.subscribers_late, class.subscribers_lost), (1, 0));
    assert_eq!(class.arrivals.iter().sum::<u64>(), 4);
    assert!(class.arrivals_nanos > Span::millis(300).as_nanos_u64());
    assert_eq!(plant.told("1 messages of `t/0` from plc came to s after their deadline"), 1);
}

#[test]
fn what_a_subscriber_misses_is_told_by_it_when_it_has_given_it_up() {
    let mut plant = Plant::new();
    let number = plant.advertise("t/0", None);
    plant.world.publish_raw(plant.publisher, 0, number, 0);
    plant.world.publish_raw(plant.publisher, 0, number, 10);
    plant.world.run_for(Span::secs(2));
    assert_eq!(plant.class("t/#").subscribers_lost, 0, "it might still come");
    plant.world.publish_raw(plant.publisher, 0, number, 11);
    plant.world.run_for(Span::secs(1));
    assert_eq!(plant.class("t/#").subscribers_lost, 9);
    assert_eq!(plant.told("s misses 9 messages of `t/0` from plc, 9 of them in a row"), 1);
    plant.world.run_for(Span::secs(3));
    assert_eq!(plant.class("t/#").subscribers_lost, 9, "it is told once");
}

#[test]
fn what_was_published_before_both_brokers_began_is_no_loss_unless_a_subscriber_misses_it() {
    let mut plant = Plant::new();
    let number = plant.advertise("t/0", None);
    let publish = |plant: &mut Plant| {
        let _ = plant.world.publish(plant.publisher, number, b"x");
        plant.world.run_for(Span::millis(60));
    };
    (0..20).for_each(|_| publish(&mut plant));
    let mut subscribers = vec![1];
    for missed in [0, 6] {
        [1, 0].into_iter().for_each(|broker| plant.world.kill(broker));
        (0..missed).for_each(|_| publish(&mut plant));
        [0, 1].into_iter().for_each(|broker| plant.world.start(broker));
        plant.world.run_for(Span::secs(2));
        let late = plant.world.add_client(&format!("newcomer {missed}"));
        plant.world.run_for(Span::millis(100));
        plant.world.subscribe(late, "#");
        (0..40).for_each(|_| publish(&mut plant));
        let class = plant.class("t/#");
        let lost_by = |client: usize| {
            plant.world.endpoint(client).streams().map(|stream| stream.tally.lost()).sum::<u64>()
        };
        let lost = subscribers.iter().map(|client| lost_by(*client)).sum();
        assert_eq!((class.lost, class.subscribers_lost), (0, lost), "of the broker, and of its subscribers");
        assert_eq!(lost > 0, missed > 0, "what the publisher does not retain is lost");
        assert_eq!(lost_by(late), 0, "who comes later misses nothing");
        subscribers.push(late);
    }
}

#[test]
fn a_subscriber_that_is_further_away_than_was_planned_puts_its_topics_at_risk() {
    let states = |plant: &Plant| {
        let mut snapshot = Snapshot { with_streams: true, ..Snapshot::default() };
        plant.world.broker(0).fill(plant.world.now, &Survey::default(), &mut snapshot);
        snapshot.states
    };
    for (delay, states_then, told) in [(400, [1, 0, 0, 0], 0), (1_500, [0, 1, 0, 0], 1)] {
        let mut plant = Plant::new();
        let number = plant.advertise("t/0", None);
        plant.world.delay = Span::micros(delay);
        // An answer that came quickly counts for eight seconds.
        for _ in 0..200 {
            plant.world.publish(plant.publisher, number, b"x").unwrap();
            plant.world.run_for(Span::millis(60));
        }
        assert_eq!(states(&plant), states_then, "a way of {delay} us");
        assert_eq!(plant.told("link.edge.broker_to_subscriber"), told);
    }
}

#[test]
fn a_snapshot_that_is_filled_again_forgets_what_was() {
    let mut plant = Plant::new();
    let mut snapshot = Snapshot { with_streams: true, ..Snapshot::default() };
    plant.advertise("t/0", None);
    plant.world.broker(0).fill(plant.world.now, &Survey::default(), &mut snapshot);
    assert_eq!((snapshot.name.as_str(), snapshot.states), ("a", [1, 0, 0, 0]));
    assert!(snapshot.node.protected && snapshot.knows_primary && snapshot.has_peer);
    plant.world.broker(0).fill(plant.world.now, &Survey::default(), &mut snapshot);
    assert_eq!((snapshot.name.as_str(), snapshot.states, snapshot.classes.len()), ("a", [1, 0, 0, 0], 2));
}
