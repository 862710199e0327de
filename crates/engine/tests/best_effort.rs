//! Subscribers to whom nothing is promised: who asks for it, and for whom there is no time, where that is configured.
#![allow(clippy::unwrap_used, reason = "a broken world is a broken test")]

use crate::world;

use broker::{Settings, Snapshot, Survey};
use contract::{Contract, Needs, Span};
use world::World;

const LAST: Needs = Needs::BEST_EFFORT;
/// So many are served last in the test of who is.
const LAST_ONES: usize = 2;

const TOPICS: usize = 4;

/// Topics with a deadline of 40 ms, of which each subscriber takes some, and a publisher; the number of the first.
fn tight(instead: bool) -> (World, usize, u32) {
    fn costly(settings: &mut Settings) {
        settings.supply.share_ppm = 1_000_000;
        settings.costs.io.tcp.write = Span::millis(1);
    }
    fn instead_of_refusing(settings: &mut Settings) {
        costly(settings);
        settings.best_effort_subscriptions = true;
    }
    let mut world = World::protected(if instead { instead_of_refusing } else { costly });
    let publisher = world.add_client("plc");
    world.run_for(Span::millis(50));
    let contract = Contract::every(Span::millis(50)).deadline(Span::millis(40)).tolerate(2).retain(2);
    let topics: Vec<u32> = (0..TOPICS)
        .map(|number| {
            let topic = world.advertise(publisher, &format!("t/{number}"), contract);
            world.run_for(Span::millis(50));
            topic
        })
        .collect();
    (world, publisher, topics[0])
}

fn joins(world: &mut World, name: &str, filter: &str, needs: Needs) -> (usize, Result<String, String>) {
    let client = world.add_client(name);
    world.run_for(Span::millis(50));
    world.subscribe_needing(client, filter, needs);
    world.run_for(Span::millis(50));
    let answer = world.seen(client).subscribed.last().unwrap().clone();
    (client, answer)
}

/// Publishes some messages, and returns how many each of these got.
fn publish(world: &mut World, (publisher, topic): (usize, u32), clients: &[usize]) -> Vec<usize> {
    let had: Vec<usize> = clients.iter().map(|client| world.seen(*client).messages.len()).collect();
    for _ in 0..10 {
        world.publish(publisher, topic, b"x").unwrap();
        world.run_for(Span::millis(50));
    }
    clients.iter().zip(had).map(|(client, had)| world.seen(*client).messages.len() - had).collect()
}

#[test]
fn for_whom_there_is_no_time_is_served_last_where_that_is_configured() {
    let (mut world, publisher, topic) = tight(false);
    let mut admitted = Vec::new();
    let refused = loop {
        let (client, answer) = joins(&mut world, &format!("s{}", admitted.len()), "t/#", Needs::NONE);
        match answer {
            Ok(words) => assert_eq!(words, ""),
            Err(text) => break text,
        }
        admitted.push(client);
        assert!(admitted.len() < 20, "nobody is refused");
    };
    assert!(refused.contains("not schedulable with one more subscriber"), "{refused}");
    let most = admitted.len();
    assert_eq!(publish(&mut world, (publisher, topic), &admitted), vec![10; most]);

    let (mut world, publisher, topic) = tight(true);
    let (mut clients, mut promised) = (Vec::new(), 0);
    while clients.len() - promised < LAST_ONES {
        let (client, answer) = joins(&mut world, &format!("s{}", clients.len()), "t/#", Needs::NONE);
        let words = answer.unwrap();
        let instead = words.starts_with("served as best effort: not schedulable");
        assert!(instead || (words.is_empty() && clients.len() == promised), "{words}");
        promised += usize::from(!instead);
        clients.push(client);
    }
    assert!((1..=most).contains(&promised), "a little time is kept for those who are served last");
    let told = world.log(0).iter().filter(|line| line.contains("is served as best effort")).count();
    assert_eq!(told, LAST_ONES);
    assert_eq!(publish(&mut world, (publisher, topic), &clients), vec![10; clients.len()]);
    let urgent = Needs { deadline: Some(Span::millis(30)), ..Needs::NONE };
    let (refused, answer) = joins(&mut world, "urgent", "t/#", urgent);
    assert!(answer.is_err(), "who needs something is refused");
    world.unsubscribe(refused, 0);

    world.kill(0);
    world.run_for(Span::secs(1));
    assert_eq!(
        publish(&mut world, (publisher, topic), &clients),
        vec![10; clients.len()],
        "at the other broker"
    );
    assert_eq!(receivers(&mut world, 1), (promised as u32, LAST_ONES as u32), "and it knows who is who");
}

/// To how many it is promised, and how many are served last.
fn receivers(world: &mut World, broker: usize) -> (u32, u32) {
    let broker = world.broker(broker);
    let those = broker.receivers_of(broker.stream_of("t/0", "plc").unwrap()).unwrap();
    (those.promised, those.best_effort)
}

#[test]
fn who_asks_for_best_effort_takes_no_time_from_others_and_has_no_say() {
    let (mut world, publisher, topic) = tight(false);
    let clients: Vec<usize> = (0..20)
        .map(|number| {
            let (client, answer) = joins(&mut world, &format!("dashboard-{number}"), "#", LAST);
            assert_eq!(answer, Ok(String::new()));
            client
        })
        .collect();
    let (served, answer) = joins(&mut world, "hmi", "t/#", Needs::NONE);
    assert_eq!(answer, Ok(String::new()));
    assert_eq!(receivers(&mut world, 0), (1, 20));
    assert_eq!(publish(&mut world, (publisher, topic), &clients), vec![10; 20]);
    // What is late for them is nobody's trouble.
    let created = world.now - Span::millis(60);
    world.publish_created(publisher, topic, b"x", created).unwrap();
    world.run_for(Span::secs(1));
    let mut snapshot = Snapshot::default();
    world.broker(0).fill(world.now, &Survey::default(), &mut snapshot);
    assert_eq!(snapshot.node.counters.subscribers_late, 1);
    assert_eq!(world.seen(served).messages.len(), 11);
}

#[test]
fn a_client_is_served_as_best_effort_or_not() {
    let (mut world, ..) = tight(true);
    let (client, answer) = joins(&mut world, "hmi", "t/#", Needs::NONE);
    assert_eq!(answer, Ok(String::new()));
    world.subscribe_needing(client, "u/#", LAST);
    world.run_for(Span::millis(50));
    let refused = world.seen(client).subscribed.last().unwrap().clone().unwrap_err();
    assert!(refused.contains("use a client of its own for best effort"), "{refused}");
    let (client, answer) = joins(&mut world, "dashboard", "t/#", LAST);
    assert_eq!(answer, Ok(String::new()));
    world.subscribe_needing(client, "u/#", Needs::NONE);
    world.run_for(Span::millis(50));
    let words = world.seen(client).subscribed.last().unwrap().clone().unwrap();
    assert!(words.contains("the client is served so already"), "{words}");
    // When it has nothing any more it may begin anew.
    world.unsubscribe(client, 0);
    world.unsubscribe(client, 1);
    world.run_for(Span::millis(50));
    world.subscribe_needing(client, "t/#", Needs::NONE);
    world.run_for(Span::millis(50));
    assert_eq!(world.seen(client).subscribed.last().unwrap(), &Ok(String::new()));
    assert_eq!(receivers(&mut world, 0), (2, 0));
}

/// Takes all of its time for clients that poll.
fn crowded() -> World {
    fn dear(settings: &mut Settings) {
        settings.supply.share_ppm = 1_000_000;
        settings.costs.io.tcp.write = Span::millis(1);
    }
    World::protected(dear)
}

#[test]
fn the_last_message_of_a_publisher_that_leaves_comes_to_everybody() {
    const CLIENTS: usize = 3 * contract::rounds::LAST_MESSAGES;
    let mut world = World::protected(|_| {});
    let clients: Vec<usize> =
        (0..CLIENTS).map(|number| joins(&mut world, &format!("d-{number}"), "#", LAST).0).collect();
    let publisher = world.add_client("plc");
    world.run_for(Span::millis(50));
    let topic = world.advertise(publisher, "t", Contract::every(Span::millis(50)).retain(4));
    world.run_for(Span::millis(50));
    world.publish(publisher, topic, b"x").unwrap();
    world.withdraw(publisher, topic);
    world.run_for(Span::secs(1));
    assert!(clients.iter().all(|client| world.seen(*client).messages.len() == 1));
    assert_eq!(world.broker(0).stream_of("t", "plc"), None, "and then the stream is gone");
}

#[test]
fn who_does_not_read_gets_the_newest_when_it_does() {
    let mut world = World::protected(|settings| settings.limits.subscriber_backlog_bytes = 2_000);
    let (client, _) = joins(&mut world, "dashboard", "#", LAST);
    let publisher = world.add_client("plc");
    world.run_for(Span::millis(50));
    let topic =
        world.advertise(publisher, "t", Contract::every(Span::millis(5)).retain(64).deadline(Span::secs(1)));
    world.run_for(Span::millis(50));
    world.stall(client, true);
    for _ in 0..100 {
        world.publish(publisher, topic, &[7; 1_000]).unwrap();
        world.run_for(Span::millis(5));
    }
    world.stall(client, false);
    world.run_for(Span::secs(1));
    let seen = &world.seen(client).messages;
    let late = seen.iter().filter(|(_, _, latency, _)| *latency > Span::millis(100)).count();
    assert_eq!(seen.last().map(|(_, seq, ..)| *seq), Some(99));
    assert!(late <= 5, "{late} of {}: only what had left before", seen.len());
    assert!(world.seen(client).shortfalls.is_empty(), "it was not promised anything");
}

#[test]
fn who_is_served_last_is_let_in_though_clients_that_have_just_come_take_all_there_is() {
    let mut world = crowded();
    let publisher = world.add_client("plc");
    world.run_for(Span::millis(50));
    let contract = Contract::every(Span::millis(50)).deadline(Span::millis(40)).tolerate(2).retain(2);
    world.advertise(publisher, "t/0", contract);
    world.run_for(Span::millis(50));
    let clients: Vec<usize> = (0..40).map(|number| world.add_client(&format!("d-{number}"))).collect();
    world.run_for(Span::millis(100));
    for client in clients {
        world.subscribe_needing(client, "t/#", LAST);
        world.run_for(Span::millis(50));
        assert_eq!(world.seen(client).subscribed.last(), Some(&Ok(String::new())));
    }
    assert_eq!(receivers(&mut world, 0), (0, 40));
}
