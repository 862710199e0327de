//! Two sites, and the only router between them, which dies whole.

use super::World;
use contract::{Contract, Span};

const NORTH: usize = 0;
const SOUTH: usize = 1;

/// What comes, in order, and how many were published, where the only router is away for so many milliseconds.
/// `before`: it has failed over already.
pub fn lose_the_only_router(away: i64, before: bool) -> (Vec<u64>, u64) {
    let mut world = World::of_pairs(3, |_| {}, None);
    for (site, pair) in [("north", NORTH), ("south", SOUTH)] {
        world.add_site(site, pair, &[2], |told| told.retain = 25);
    }
    world.run_for(Span::secs(1));
    let (publisher, subscriber) =
        (world.add_client_at(NORTH, "pump", 7), world.add_client_at(SOUTH, "desk", 7));
    world.run_for(Span::millis(200));
    let contract = Contract::every(Span::millis(100)).deadline(Span::millis(400)).retain(4);
    let publication = world.advertise(publisher, "plant/pressure", contract);
    world.subscribe(subscriber, "#");
    world.run_for(Span::millis(500));
    let publish_for = |world: &mut World, span: Span| {
        let end = world.now + span;
        while world.now < end {
            world.publish(publisher, publication, b"1").unwrap();
            world.run_for(Span::millis(100));
        }
    };
    publish_for(&mut world, Span::secs(1));
    if before {
        world.kill(4);
        publish_for(&mut world, Span::secs(1));
        world.start(4);
        publish_for(&mut world, Span::secs(1));
    }
    [4, 5].into_iter().for_each(|broker| world.kill(broker));
    publish_for(&mut world, Span::millis(away));
    [4, 5].into_iter().for_each(|broker| world.start(broker));
    publish_for(&mut world, Span::secs(4));
    world.run_for(Span::secs(1));
    let mut came: Vec<u64> = world.seen(subscriber).messages.iter().map(|message| message.1).collect();
    came.sort_unstable();
    (came, 50 + if before { 20 } else { 0 } + (away + 99) as u64 / 100)
}
