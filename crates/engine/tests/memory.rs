//! Memory for messages and for subscribers, on virtual time.
#![allow(clippy::unwrap_used, reason = "a broken world is a broken test")]

use crate::world;

use contract::{Contract, Span};
use endpoint::PublicationState;
use world::{Who, World};

/// Nothing may be lost, and 50 messages are kept.
fn kept() -> Contract {
    Contract::every(Span::millis(10)).deadline(Span::millis(500)).tolerate(0).retain(50)
}

fn best_effort() -> Contract {
    Contract::every(Span::millis(1)).deadline(Span::secs(1)).best_effort()
}

fn admitted(world: &World, client: usize, publication: u32) -> bool {
    matches!(world.endpoint(client).publication_state(publication), Some(PublicationState::Admitted(_)))
}

/// A pair with a mebibyte for messages.
fn small() -> World {
    World::protected(|settings| settings.limits.store_bytes = 1 << 20)
}

#[test]
fn a_contract_takes_its_memory_from_best_effort_at_once() {
    let mut world = small();
    let [subscriber, publisher] = ["subscriber", "publisher"].map(|name| world.add_client(name));
    world.run_for(Span::millis(300));
    world.subscribe(subscriber, "#");
    let larges = [0, 1, 2].map(|n| world.advertise(publisher, &format!("large/{n}"), best_effort()));
    world.run_for(Span::millis(100));
    for number in 0..40 {
        world.publish(publisher, larges[number % 3], &[7; 50_000]).unwrap();
        world.run_for(Span::millis(1));
    }
    let taken = world.broker(0).occupancy();
    assert!((900_000..=1 << 20).contains(&taken.store_bytes) && taken.contract_bytes == 0, "{taken:?}");
    let contracts: Vec<u32> =
        (0..5).map(|n| world.advertise(publisher, &format!("kept/{n}"), kept())).collect();
    world.run_for(Span::millis(100));
    let carried: Vec<u32> = contracts.iter().copied().filter(|it| admitted(&world, publisher, *it)).collect();
    assert_eq!(carried.len(), 3, "as many as have room, whatever best effort has");
    for number in 0..200 {
        world.publish(publisher, larges[0], &[8; 50_000]).unwrap();
        for it in &carried {
            world.publish(publisher, *it, &[number; 4_096]).unwrap();
        }
        world.run_for(Span::millis(10));
    }
    for topic in 0..3 {
        let topic = format!("kept/{topic}");
        let came = world.seen(subscriber).messages.iter().filter(|message| message.0 == topic).count();
        assert_eq!(came, 200, "{topic}");
    }
    for broker in 0..2 {
        let taken = world.broker(broker).occupancy();
        assert!(taken.store_bytes <= 1 << 20 && taken.contract_bytes > 800_000, "{taken:?}");
    }
    let PublicationState::Refused(reason, _) =
        world.endpoint(publisher).publication_state(contracts[4]).unwrap()
    else {
        panic!("there is no room for five");
    };
    for said in ["64 messages of up to 4096 bytes", "limits.store = 1048576", "too few"] {
        assert!(reason.contains(said), "{said}: {reason}");
    }
}

#[test]
fn who_publishes_more_than_there_is_memory_for_is_told() {
    let mut world = small();
    let publisher = world.add_client("publisher");
    world.run_for(Span::millis(300));
    let large = world.advertise(publisher, "large", best_effort());
    let longer = world.advertise(publisher, "longer", kept());
    world.run_for(Span::millis(100));
    world.publish(publisher, large, &[7; 1 << 20]).unwrap();
    world.publish(publisher, longer, &[7; 100_000]).unwrap();
    world.publish(publisher, longer, &[7; 4_096]).unwrap();
    world.run_for(Span::millis(10));
    let (messages, reason) = world.endpoint(publisher).untaken(large);
    assert_eq!(messages, 1);
    assert!(
        reason.contains("1048576 bytes without a loss bound") && reason.contains("raise limits.store"),
        "{reason}"
    );
    let (messages, reason) = world.endpoint(publisher).untaken(longer);
    assert_eq!(messages, 1);
    assert!(reason.contains("longer than the 4096 that are reserved"), "{reason}");
    let log = world.log(0).join("\n");
    assert!(log.contains("for want of memory") && !log.contains("raise what the publisher retains"), "{log}");
    assert_eq!(world.broker(0).occupancy().unstored, [1, 1]);
}

#[test]
fn a_contract_that_states_its_size_is_kept_to_it() {
    let mut world = small();
    let publisher = world.add_client("publisher");
    world.run_for(Span::millis(300));
    let small = world.advertise(publisher, "small", kept().size(100));
    let large = world.advertise(publisher, "large", kept().size(100_000));
    world.run_for(Span::millis(100));
    assert!(admitted(&world, publisher, small) && !admitted(&world, publisher, large));
    assert!(world.publish(publisher, small, &[0; 100]).is_ok());
    let error = world.publish(publisher, small, &[0; 101]).unwrap_err();
    assert!(error.to_string().contains("size of 100"), "{error}");
}

#[test]
fn what_has_left_gives_its_memory_back() {
    let mut world = small();
    let publisher = world.add_client("publisher");
    world.run_for(Span::millis(300));
    let topics = [("large", best_effort()), ("kept", kept())];
    let numbers = topics.map(|(topic, contract)| world.advertise(publisher, topic, contract));
    world.run_for(Span::millis(100));
    for _ in 0..30 {
        for it in numbers {
            world.publish(publisher, it, &[7; 4_000]).unwrap();
        }
        world.run_for(Span::millis(10));
    }
    assert!(world.broker(0).occupancy().store_bytes > 300_000);
    numbers.iter().for_each(|it| world.withdraw(publisher, *it));
    world.run_for(Span::secs(1));
    for broker in 0..2 {
        assert_eq!(world.broker(broker).occupancy().store_bytes, 0, "of broker {broker}");
    }
}

#[test]
fn subscribers_that_do_not_read_have_less_the_more_they_are() {
    let mut world = World::protected(|settings| {
        (settings.limits.memory_bytes, settings.limits.silence) = (8 << 20, Span::secs(60));
    });
    let publisher = world.add_client("publisher");
    world.run_for(Span::millis(300));
    let flood = world.advertise(publisher, "flood", best_effort());
    world.run_for(Span::millis(100));
    // A quarter, of which an eighth is for what is remembered, and as much again for room in buffers.
    let all = (8 << 20) / 4 / 8 * 7 / 2;
    let mut subscribers = Vec::new();
    for round in 1..=4 {
        for _ in 0..2 {
            let subscriber = world.add_client(&format!("s{}", subscribers.len()));
            world.run_for(Span::millis(300));
            world.subscribe(subscriber, "flood");
            world.run_for(Span::millis(50));
            world.stall(subscriber, true);
            world.pause(Who::Client(subscriber));
            subscribers.push(subscriber);
        }
        for _ in 0..60 {
            world.publish(publisher, flood, &[7; 50_000]).unwrap();
            world.run_for(Span::millis(10));
        }
        let part = world.broker(0).backlog_part();
        assert_eq!(part, all / (2 * round), "with {} of them", 2 * round);
        let waiting = world.waiting(0);
        assert!(waiting <= all + 2 * round * 60_000, "{waiting} bytes wait, and {all} may");
    }
    // Their losses are counted for a second before anybody is told.
    world.run_for(Span::secs(2));
    assert!(world.log(0).iter().any(|line| line.contains("does not read fast enough")));
}
