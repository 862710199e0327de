//! Streams whose contracts are at the edge of what the way between two sites keeps, and one crash: what is promised is kept.

use super::{START, World};
use contract::{Contract, Span};
use std::fmt::Write as _;

/// Pairs: two sites, and a router.
const NORTH: usize = 0;
const SOUTH: usize = 1;
const ROUTER: usize = 2;
/// A bound on what uplinks need until they send to another broker: three polls, and the way of its word.
const FAILOVER: Span = Span::millis(22);

struct Stream {
    topic: String,
    contract: Contract,
    publication: u32,
    next: u64,
    /// When the next message is created.
    due: contract::Time,
}

/// Runs one. `Ok`: how many streams were promised, and how many not.
pub fn run(seed: u64) -> Result<(usize, usize), String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut world = World::of_pairs(3, |settings| settings.delays.failover = FAILOVER, None);
    world.wide = Span::millis(random.i64(1..30));
    let (far, retain) = (world.wide + Span::millis(1), random.u32(0..4));
    for (pair, site) in [(NORTH, "north"), (SOUTH, "south")] {
        world.add_site(site, pair, &[ROUTER], |told| {
            (told.far, told.retain) = (far, retain);
        });
    }
    world.run_for(Span::secs(1));
    let publisher = world.add_client_at(NORTH, "plc", 7);
    let subscriber = world.add_client_at(SOUTH, "desk", 7);
    world.run_for(Span::millis(200));
    world.subscribe(subscriber, "#");
    world.run_for(Span::millis(500));
    let mut streams = Vec::new();
    for number in 0..12 {
        let contract = any_contract(&mut random);
        let period = contract.period;
        let topic = format!("plant/{number}");
        let publication = world.advertise(publisher, &topic, contract);
        let due = world.now + Span(random.i64(0..period.0));
        streams.push(Stream { topic, contract, publication, next: 0, due });
    }
    world.run_for(Span::millis(300));
    publish(&mut world, publisher, &mut streams, Span::secs(1));
    let story = crash(&mut world, publisher, &mut streams, &mut random);
    publish(&mut world, publisher, &mut streams, Span::secs(3));
    world.run_for(Span::secs(3));
    judge(&mut world, subscriber, &streams).map_err(|wrong| format!("{wrong}\n{story}"))
}

/// One whose losses and retention cover a little more than a failover.
fn any_contract(random: &mut fastrand::Rng) -> Contract {
    let period = Span::millis(random.i64(3..16));
    let contract = Contract::every(period).deadline(Span::millis(random.i64(20..500)));
    let cover = FAILOVER + Span::micros(random.i64(0..90_000));
    let messages = (cover.0 / period.0) as u32;
    let retain = random.u32(1..4);
    contract.retain(retain).tolerate(messages.saturating_sub(retain))
}

/// Publishes for so long, each stream as fast as it may.
fn publish(world: &mut World, client: usize, streams: &mut [Stream], span: Span) {
    let end = world.now + span;
    while world.now < end {
        let now = world.now;
        for stream in streams.iter_mut().filter(|stream| stream.due <= now) {
            // One that is refused at home is nobody's.
            if world.publish(client, stream.publication, &stream.next.to_le_bytes()).is_ok() {
                stream.next += 1;
            }
            stream.due = stream.due + stream.contract.period;
        }
        let next = streams.iter().map(|stream| stream.due).min().unwrap().min(end);
        world.run_for(next.since(world.now).max(Span(1)));
    }
}

/// A primary dies, alone or with its host; the host may have lost its network a moment before.
fn crash(world: &mut World, client: usize, streams: &mut [Stream], random: &mut fastrand::Rng) -> String {
    let mut story = String::new();
    let broker = 2 * random.usize(0..3);
    let is_site = broker < 2 * ROUTER;
    let (host, cut) = (is_site && random.bool(), random.bool());
    world.nodes_fall = host || random.bool();
    publish(world, client, streams, Span::micros(random.i64(0..300_000)));
    let at = world.now.since(START);
    writeln!(story, "{at}: broker {broker} dies, its host: {host}, which is cut off: {cut}").unwrap();
    if host && cut {
        (2 * ROUTER..2 * ROUTER + 2).for_each(|router| world.cut_uplink(broker, router, true));
        publish(world, client, streams, Span::micros(random.i64(0..40_000)));
    }
    if host {
        world.kill_uplink(broker);
    }
    world.kill(broker);
    (2 * ROUTER..2 * ROUTER + 2)
        .filter(|_| host && cut)
        .for_each(|router| world.cut_uplink(broker, router, false));
    story
}

/// No more in a row are missing than is tolerated, and nothing is late before the crash, where that is promised.
fn judge(world: &mut World, subscriber: usize, streams: &[Stream]) -> Result<(usize, usize), String> {
    let told: Vec<String> = world.uplinks.iter_mut().flat_map(|uplink| uplink.reporter().0.clone()).collect();
    let (mut wrong, mut counts) = (String::new(), (0, 0));
    for Stream { topic, contract, next, .. } in streams {
        let doubted = |word: &&String| {
            word.contains(&format!("\"{topic}\"")) || word.contains(&format!("\"north/{topic}\""))
        };
        let seen = world.seen(subscriber).messages.iter().filter(|message| message.0 == *topic);
        let mut had: Vec<u64> = seen.map(|message| message.1).collect();
        had.sort_unstable();
        if had.windows(2).any(|pair| pair[0] == pair[1]) {
            writeln!(wrong, "{topic} came twice: {had:?}").unwrap();
        }
        if told.iter().any(|word| doubted(&word)) || *next == 0 {
            counts.1 += 1;
            continue;
        }
        counts.0 += 1;
        let ends =
            [0].into_iter().chain(had.iter().map(|seq| seq + 1)).zip(had.iter().copied().chain([*next]));
        let run = ends.map(|(from, to)| to.saturating_sub(from)).max().unwrap_or(*next);
        if !contract.loss.tolerates(run) {
            writeln!(wrong, "{topic} ({contract}) lost {run} in a row").unwrap();
        }
    }
    if wrong.is_empty() { Ok(counts) } else { Err(format!("{wrong}{told:#?}")) }
}
