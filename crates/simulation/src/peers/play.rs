//! What happens to a world of peers, and what must be so of the overlay once nothing happens any more.

use super::{Inhabitant, SIDE, World, at};
use contract::{Location, Span};
use overlay::{Block, Cells, News, Rings, Role};
use std::collections::BTreeMap;

/// After the last fault, all is as it must be within this.
pub const SETTLES: Span = Span::secs(60);

/// The checkers.
pub const CHECKERS: [&str; 7] = ["epochs", "areas", "masters", "tables", "shape", "news", "calm"];

/// What is wrong: the checker that says so, and what it says.
pub type Wrong = Vec<(&'static str, String)>;

/// Somewhere: most of them in a town.
fn somewhere<N: Inhabitant>(world: &mut World<N>) -> Location {
    let random = &mut world.random;
    match random.u8(..3) {
        0 => at(random.f64() * SIDE, random.f64() * SIDE),
        _ => at(random.f64() * SIDE / 2.0, random.f64() * SIDE / 2.0),
    }
}

/// One world, begun with some peers that come, and then faults if these are asked for. What is wrong in the end.
pub fn play<N: Inhabitant>(seed: u64, worst: bool) -> Wrong {
    let mut world: World<N> = World::new(seed);
    people(&mut world);
    if worst {
        let faults = world.random.usize(1..14);
        for _ in 0..faults {
            let wait = world.random.i64(0..20_000);
            world.run_for(Span::millis(wait));
            befall(&mut world);
        }
        world.run_for(Span::secs(1));
        mend(&mut world);
    }
    world.run_for(SETTLES);
    let mut wrong = check(&world);
    check_calm(&mut world, &mut wrong);
    wrong
}

/// Some peers come.
pub fn people<N: Inhabitant>(world: &mut World<N>) {
    let peers = world.random.usize(1..28);
    for _ in 0..peers {
        let location = somewhere(world);
        let of = world.add(location);
        world.start(of);
        let wait = if world.random.bool() { 0 } else { world.random.i64(0..3_000) };
        world.run_for(Span::millis(wait));
    }
}

/// Once all is as it must be, nothing is said but that peers live.
fn check_calm<N: Inhabitant>(world: &mut World<N>, wrong: &mut Wrong) {
    let before = world.words;
    let digests =
        |world: &World<N>| -> Vec<u64> { world.alive().map(|(_, rings)| rings.tree().digest()).collect() };
    let known = digests(world);
    world.run_for(Span::secs(15));
    // Ten beats: a member asks its master and has an answer, a master another, and contacts or strays that are gone each 5 s.
    let peers = world.alive().count() as u64;
    let words = world.words - before;
    if words > peers * (11 * 4 + 4 * 5) || digests(world) != known {
        wrong.push(("calm", format!("{words} words of {peers} peers in 15 s")));
    }
}

/// Something does.
pub fn befall<N: Inhabitant>(world: &mut World<N>) {
    let of = world.random.usize(..world.players.len());
    match world.random.u8(..11) {
        0 | 1 => {
            let silent = world.random.bool();
            world.kill(of, silent);
        }
        2 => {
            // A master, if there is one.
            let masters: Vec<usize> =
                (0..world.players.len()).filter(|of| world.is(*of, Role::Master)).collect();
            if let Some(of) = masters.get(world.random.usize(..masters.len().max(1))) {
                let silent = world.random.bool();
                world.kill(*of, silent);
            }
        }
        3 => world.leave(of),
        4 => world.start(of),
        5 => {
            let location = somewhere(world);
            let of = world.add(location);
            world.start(of);
        }
        6 => {
            let until = world.now + Span::millis(world.random.i64(50..15_000));
            world.players[of].stopped_until = until;
        }
        7 => {
            let location = somewhere(world);
            world.move_to(of, location);
        }
        8 => {
            let parts = world.random.u32(2..4);
            for of in 0..world.players.len() {
                world.players[of].part = world.random.u32(..parts);
            }
        }
        9 => black_out(world, of),
        _ => mend(world),
    }
}

/// All of a region lose their power, as one of its peers sees it.
fn black_out<N: Inhabitant>(world: &mut World<N>, of: usize) {
    let Some(node) = &world.players[of].node else { return };
    let names: Vec<String> =
        node.rings().table().members.values().map(|member| member.name.clone()).collect();
    for of in 0..world.players.len() {
        if names.contains(&world.players[of].member.name) {
            world.kill(of, true);
        }
    }
}

/// All networks are one, and one that all know is there.
pub fn mend<N: Inhabitant>(world: &mut World<N>) {
    world.start(0);
    for player in &mut world.players {
        player.part = 0;
    }
}

/// What is wrong with the overlay, where it should be at rest.
pub fn check<N: Inhabitant>(world: &World<N>) -> Wrong {
    let mut wrong: Wrong = world.broken.iter().take(1).map(|broken| ("epochs", broken.clone())).collect();
    check_areas(world, &mut wrong);
    if wrong.is_empty() {
        check_masters(world, &mut wrong);
    }
    if wrong.is_empty() {
        check_tables(world, &mut wrong);
        check_shape(world, &mut wrong);
        check_news(world, &mut wrong);
    }
    wrong
}

/// All know one partition of the area.
fn check_areas<N: Inhabitant>(world: &World<N>, wrong: &mut Wrong) {
    let mut trees: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for (player, rings) in world.alive() {
        trees.entry(rings.tree().digest()).or_default().push(&player.member.name);
        if rings.tree().covered() != Cells::ALL {
            let missing = Cells::ALL.without(rings.tree().covered());
            wrong.push(("areas", format!("{} knows nobody who has {missing}", player.member.name)));
        }
    }
    if trees.len() > 1 {
        let trees: Vec<_> = trees.values().collect();
        wrong.push(("areas", format!("there are {} trees: {trees:?}", trees.len())));
    }
}

/// Each region has a master that lives and knows it, and nobody else thinks so.
fn check_masters<N: Inhabitant>(world: &World<N>, wrong: &mut Wrong) {
    let Some((_, first)) = world.alive().next() else { return };
    let masters = first.tree().masters();
    for (player, rings) in world.alive() {
        let holds = masters.get(&player.member.id.ring).is_some_and(|master| master.id == player.member.id);
        if holds != (rings.role() == Role::Master) || !matches!(rings.role(), Role::Master | Role::Member) {
            wrong.push((
                "masters",
                format!("{} holds {holds}, and is {:?}", player.member.name, rings.role()),
            ));
        }
    }
    for master in masters.values() {
        if !world.alive().any(|(player, _)| player.member.id == master.id) {
            wrong.push(("masters", format!("{} is dead, and has a region", master.name)));
        }
    }
}

fn region_of<N: Inhabitant>(world: &World<N>, cells: Cells) -> Vec<&Rings> {
    let extent = world.settings.extent;
    let inside = world.alive().filter(|(player, _)| cells.contains(extent.cell_of(player.member.location)));
    inside.map(|(_, rings)| rings).collect()
}

/// The members of a region know each other, and nobody else.
fn check_tables<N: Inhabitant>(world: &World<N>, wrong: &mut Wrong) {
    let Some((_, first)) = world.alive().next() else { return };
    for claim in first.tree().claims() {
        let members = region_of(world, claim.cells);
        let real: BTreeMap<_, _> =
            members.iter().map(|rings| (rings.own().id.ring, rings.own().clone())).collect();
        for rings in &members {
            if rings.table().members != real {
                let mut differs = real.keys().chain(rings.table().members.keys());
                let differs = differs.find(|place| real.get(place) != rings.table().members.get(place));
                let of = differs.map(|place| (real.get(place), rings.table().members.get(place)));
                wrong.push(("tables", format!("{}: real and known {of:?}", rings.own().name)));
            }
        }
    }
}

/// No region is too small that could be part of another, and none is large that could be split (P7).
fn check_shape<N: Inhabitant>(world: &World<N>, wrong: &mut Wrong) {
    let Some((_, first)) = world.alive().next() else { return };
    let (least, capacity) = (world.settings.least, world.settings.capacity);
    let count = |cells: Cells| region_of(world, cells).len();
    let claims: Vec<_> = first.tree().claims().collect();
    for claim in &claims {
        if claims.len() > 1 && count(claim.cells) < least {
            wrong.push(("shape", format!("{} has {} members", claim.cells, count(claim.cells))));
        }
        for block in claim.cells.blocks() {
            let could_split = |block: Block| {
                block
                    .quarters()
                    .is_some_and(|quarters| quarters.iter().all(|each| count(each.cells()) >= least))
            };
            if count(block.cells()) > capacity && could_split(block) {
                wrong.push(("shape", format!("{block} has {} members in one region", count(block.cells()))));
            }
        }
    }
}

/// Whoever was told last that it masters a region does, and nobody else.
fn check_news<N: Inhabitant>(world: &World<N>, wrong: &mut Wrong) {
    for (player, rings) in world.alive() {
        let last = player.told.iter().rev().find(|(_, news)| matches!(news, News::Master | News::NoMaster));
        let told = last.is_some_and(|(_, news)| *news == News::Master);
        if told != (rings.role() == Role::Master) {
            wrong
                .push(("news", format!("{} is {:?}, and was told {told}", player.member.name, rings.role())));
        }
    }
}
