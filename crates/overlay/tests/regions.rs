//! Regions as they are split and joined: the worked example, and many peers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

use contract::{Location, Span};
use overlay::{Extent, Rings, Role};
use simulation::peers::{SETTLES, at, check};

type World = simulation::peers::World<Rings>;

fn regions(world: &World) -> Vec<String> {
    let (_, rings) = world.alive().next().unwrap();
    let mut regions: Vec<String> = rings.tree().claims().map(|claim| claim.cells.to_string()).collect();
    regions.sort();
    regions
}

/// §7: five points do not split the area, as one of its quarters would be too small; three more do.
#[test]
fn a_region_is_split_when_each_quarter_can_stand_alone() {
    let mut world = World::new(1);
    world.settings.extent = Extent::new(at(0.0, 0.0), Location::new(90.0, 100.0).unwrap()).unwrap();
    let begin = |world: &mut World, points: &[(f64, f64)]| {
        for (east, north) in points {
            let of = world.add(at(north * 0.9, *east));
            world.start(of);
        }
        world.run_for(Span::secs(10));
        assert_eq!(check(world), []);
    };
    begin(&mut world, &[(10.0, 10.0), (20.0, 20.0), (80.0, 80.0), (90.0, 90.0), (10.0, 90.0)]);
    assert_eq!(regions(&world), ["all"]);
    begin(&mut world, &[(20.0, 80.0), (80.0, 20.0), (90.0, 10.0)]);
    assert_eq!(regions(&world), ["ne", "nw", "se", "sw"]);
}

/// §12.14: two levels of splits, and regions that come together again.
#[test]
fn many_peers_split_twice_and_come_together() {
    let mut world = World::new(2);
    for of in 0..64_u32 {
        let (north, east) = (of / 8, of % 8);
        let of = world.add(at(f64::from(north) * 10.0 + 5.0, f64::from(east) * 10.0 + 5.0));
        world.start(of);
        world.run_for(Span::millis(100));
    }
    world.run_for(SETTLES);
    assert_eq!(check(&world), []);
    assert_eq!(regions(&world).len(), 16, "each of four by four has four peers: {:?}", regions(&world));
    // Three of four peers in each go, whoever they are.
    for of in (0..64).filter(|of| of % 2 == 1 || of / 8 % 2 == 1) {
        world.kill(of, false);
    }
    world.run_for(SETTLES);
    assert_eq!(check(&world), []);
    assert!(regions(&world).len() <= 8, "sixteen peers, two in a region at least: {:?}", regions(&world));
}

/// §12.8: of a peer whose links close, all members of its region know within a second; a master is followed by another in that time.
#[test]
fn who_dies_is_out_of_all_tables_within_a_second() {
    for seed in 0..50 {
        let mut world = World::new(seed);
        for _ in 0..12 {
            let of = world.add(at(5.0, 5.0));
            world.start(of);
        }
        world.run_for(Span::secs(20));
        let dies = if seed % 2 == 0 {
            (0..12).find(|of| world.is(*of, Role::Master)).unwrap()
        } else {
            world.random.usize(..12)
        };
        let id = world.players[dies].member.id;
        world.kill(dies, false);
        world.run_for(Span::secs(1));
        for (player, rings) in world.alive() {
            assert!(!rings.table().has(id), "seed {seed}: {} still knows it", player.member.name);
        }
        assert_eq!(check(&world), [], "seed {seed}");
    }
}

/// A large region: what is said while all is calm grows with the members of the master alone.
#[test]
fn three_hundred_peers_in_one_place_are_one_region() {
    let mut world = World::new(3);
    for _ in 0..300 {
        let of = world.add(at(5.0, 5.0));
        world.start(of);
    }
    world.run_for(Span::secs(10));
    assert_eq!(check(&world), []);
    assert_eq!(regions(&world), ["all"], "peers in one place cannot be split");
    let master = (0..300).find(|of| world.is(*of, Role::Master)).unwrap();
    let before = world.words;
    world.kill(master, true);
    world.run_for(Span::secs(60));
    assert_eq!(check(&world), []);
    let words = world.words - before;
    // An election, a table for all, and 40 beats of all.
    assert!(words < 300 * (40 * 2 + 60), "{words} words");
}
