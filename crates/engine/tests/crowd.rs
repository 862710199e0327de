//! Clients that come after promises were given: each has to be read and written, and enough of them leave no time.
#![allow(clippy::unwrap_used, reason = "a broken world is a broken test")]

use crate::world;

use broker::{Settings, Snapshot, Survey};
use contract::rounds::Io;
use contract::{Contract, Span};
use world::World;

/// Connections cost much, so that few are enough.
fn dear(settings: &mut Settings) {
    let io = Io { read: Span::micros(20), write: Span::micros(50), kib: Span::ZERO };
    (settings.costs.turn, settings.costs.io.tcp) = (Span::micros(10), io);
}

/// Streams whose contracts are at risk.
fn at_risk(world: &World) -> u64 {
    let mut snapshot = Snapshot { with_streams: true, ..Snapshot::default() };
    world.broker(0).fill(world.now, &Survey::default(), &mut snapshot);
    snapshot.states[1]
}

fn told(world: &mut World) -> usize {
    world.log(0).iter().filter(|line| line.contains("until everything that comes at once has left")).count()
}

#[test]
fn clients_that_leave_no_time_put_contracts_at_risk_until_they_are_gone() {
    let mut world = World::protected(dear);
    let publisher = world.add_client("plc");
    world.run_for(Span::millis(50));
    let contract = Contract::every(Span::millis(50)).deadline(Span::millis(5)).retain(2);
    world.advertise(publisher, "t", contract);
    world.run_for(Span::millis(50));
    let crowd: Vec<usize> = (0..10).map(|number| world.add_client(&format!("idle {number}"))).collect();
    world.run_for(Span::millis(500));
    assert_eq!((at_risk(&world), told(&mut world)), (0, 0), "there is time for these");
    let more: Vec<usize> = (10..60).map(|number| world.add_client(&format!("idle {number}"))).collect();
    world.run_for(Span::millis(500));
    assert_eq!((at_risk(&world), told(&mut world)), (1, 1));
    for client in more.into_iter().chain(crowd) {
        world.wall(client, 0, true);
        world.break_link(client, 0);
    }
    world.run_for(Span::secs(2));
    assert_eq!((at_risk(&world), told(&mut world)), (0, 1));
}
