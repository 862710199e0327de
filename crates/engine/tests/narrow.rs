//! Subscribers behind narrow connections.
#![allow(clippy::unwrap_used, reason = "a broken world is a broken test")]

use crate::world;

use contract::{Contract, Span};
use endpoint::Reigning;
use wire::{Frame, PeerIndex};
use world::World;

/// Bytes per second: 256 kbit/s.
const NARROW: u64 = 32_000;
const TOPICS: usize = 20;
const PAYLOAD: usize = 2_048;
const PERIOD: Span = Span::millis(50);

/// Publishes 20 topics of 2 KiB 20 times a second for so long, which is 26 times what passes.
fn publish(world: &mut World, publisher: usize, topics: &[u32], span: Span) {
    let end = world.now + span;
    while world.now < end {
        for topic in topics {
            world.publish(publisher, *topic, &[7; PAYLOAD]).unwrap();
        }
        world.run_for(PERIOD);
    }
}

struct Cast {
    world: World,
    publisher: usize,
    subscriber: usize,
    topics: Vec<u32>,
}

/// A pair, a publisher, and a subscriber of everything whose connections become narrow.
fn cast() -> Cast {
    let mut world = World::protected(|_| {});
    let (publisher, subscriber) = (world.add_client("publisher"), world.add_client("subscriber"));
    world.run_for(Span::millis(100));
    world.subscribe(subscriber, "#");
    let contract = Contract::every(PERIOD).deadline(Span::millis(200)).best_effort();
    let topics =
        (0..TOPICS).map(|index| world.advertise(publisher, &format!("t/{index}"), contract)).collect();
    world.run_for(Span::millis(100));
    world.narrow.insert(subscriber, NARROW);
    Cast { world, publisher, subscriber, topics }
}

#[test]
fn a_subscriber_behind_a_narrow_connection_keeps_it_and_gets_the_newest_at_its_rate() {
    let Cast { mut world, publisher, subscriber, topics } = cast();
    // At first nobody knows how much passes, and what has been written cannot be taken back.
    publish(&mut world, publisher, &topics, Span::secs(20));
    let before = world.seen(subscriber).messages.len();
    publish(&mut world, publisher, &topics, Span::secs(20));
    let seen = world.seen(subscriber);
    assert!(
        seen.dismissed.is_empty() && seen.reigning.len() == 1,
        "{:?} {:?}",
        seen.dismissed,
        seen.reigning
    );
    let fresh = &seen.messages[before..];
    let bytes = fresh.iter().map(|(.., payload)| payload.len() as u64).sum::<u64>();
    assert!(bytes >= 20 * NARROW * 9 / 10, "{bytes} of {}", 20 * NARROW);
    // A second in the broker, half a second on the connection, and a message on its way.
    let oldest = fresh.iter().map(|(_, _, latency, _)| *latency).max().unwrap();
    assert!(oldest < Span::millis(1_800), "{oldest}");
}

#[test]
fn it_is_told_that_it_is_slow_and_so_is_the_operator() {
    let Cast { mut world, publisher, subscriber, topics } = cast();
    publish(&mut world, publisher, &topics, Span::secs(40));
    let told = world.seen(subscriber).shortfalls.clone();
    assert!((2..=4).contains(&told.len()), "one every ten seconds: {told:?}");
    let last = told.last().unwrap();
    assert_eq!(last.span, Span::secs(10));
    // What has arrived is counted in whole segments.
    assert!((NARROW * 9 / 10..=NARROW + 1_500).contains(&last.rate), "{last}");
    assert!(last.dropped > 3_000 && last.dropped < last.waited, "{last}");
    let log = world.log(0).to_vec();
    let lines: Vec<_> =
        log.iter().filter(|line| line.contains("subscriber does not read fast enough")).collect();
    assert_eq!(lines.len(), told.len(), "{log:?}");
    assert!(lines[0].contains("were dropped, the oldest first") && lines[0].contains("kB/s"), "{}", lines[0]);
}

#[test]
fn one_message_that_takes_long_on_its_way_is_no_silence() {
    let Cast { mut world, publisher, subscriber, topics } = cast();
    // 16 seconds, in which nothing else passes, so that all polls stay unanswered.
    world.publish(publisher, topics[0], &[7; 512 << 10]).unwrap();
    world.run_for(Span::secs(20));
    let seen = world.seen(subscriber);
    assert_eq!((seen.messages.len(), seen.reigning.len()), (1, 1), "{:?}", seen.reigning);
}

#[test]
fn who_is_fast_again_gets_everything_again() {
    let Cast { mut world, publisher, subscriber, topics } = cast();
    publish(&mut world, publisher, &topics, Span::secs(10));
    world.narrow.clear();
    world.run_for(Span::secs(1));
    let (before, told) = (world.seen(subscriber).messages.len(), world.seen(subscriber).shortfalls.len());
    publish(&mut world, publisher, &topics, Span::secs(30));
    world.run_for(Span::secs(1));
    assert_eq!(world.seen(subscriber).messages.len() - before, 30 * 20 * TOPICS);
    assert!(world.seen(subscriber).shortfalls.len() <= told + 1, "what was not yet told, at most");
}

#[test]
fn a_subscriber_that_stops_for_a_while_and_then_catches_up_loses_nothing_that_is_there() {
    let Cast { mut world, publisher, subscriber, topics } = cast();
    world.narrow.clear();
    world.stall(subscriber, true);
    publish(&mut world, publisher, &topics[..1], Span::millis(700));
    world.stall(subscriber, false);
    world.run_for(Span::millis(500));
    let account = world.endpoint(subscriber).streams().map(|stream| stream.tally.lost()).sum::<u64>();
    assert_eq!((world.seen(subscriber).messages.len(), account), (14, 0));
}

#[test]
fn news_that_wait_behind_messages_make_no_broker_one_of_another_pair() {
    let Cast { mut world, publisher, subscriber, topics } = cast();
    // More than passes in seconds is written before anybody knows how much does.
    publish(&mut world, publisher, &topics, Span::millis(300));
    world.request(publisher, 0, &Frame::Handover);
    publish(&mut world, publisher, &topics, Span::secs(15));
    assert!(world.broker(1).is_primary());
    assert_eq!(world.seen(subscriber).unfit, []);
    let last = world.seen(subscriber).reigning.last().copied();
    assert!(matches!(last, Some(Reigning::Primary { broker: PeerIndex(1), .. })), "{last:?}");
}
