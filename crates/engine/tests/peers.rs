//! Peers with what is offered and wanted: whoever belongs together meets, whatever happens to points, masters, regions and the network.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

use contract::{Location, Mutant, Span, Time};
use engine::{Note, Peer, PeerEffects, PeerWord, Where};
use overlay::{Member, News, PeerId, Rings, Settings};
use rendezvous::{Interest, Kind, Meeting, Profile, Space, Topic};
use simulation::peers::{Inhabitant, Letters, SETTLES, SIDE, World, Wrong, at, befall, check, mend, people};
use simulation::{seeds, wrong_in};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::{Answer, Item, ItemId, Limits};

fn space() -> Space {
    Space::new(&[("kind", Kind::Words), ("sensor", Kind::Words)], false).unwrap()
}

/// What was refused: of what is put under which number, which topic, and why.
type Refused = Vec<(u64, Topic, String)>;

/// A peer in the world, and what it was told of refusals.
struct Host(Peer, Refused);

/// What it says goes into letters; of topics it is asked at the end.
struct Writing<'a>(&'a mut Letters<PeerWord>, &'a mut Refused);

impl PeerEffects for Writing<'_> {
    fn send(&mut self, to: &Member, word: &PeerWord) {
        self.0.sent.push((Some(to.id), to.address.clone(), word.clone()));
    }

    fn send_to_address(&mut self, address: &str, word: &PeerWord) {
        self.0.sent.push((None, address.to_owned(), word.clone()));
    }

    fn start(&mut self, _number: u64, _meeting: &Meeting) {}

    fn stop(&mut self, _number: u64, _meeting: &Meeting) {}

    fn refused(&mut self, number: u64, topic: Topic, why: &str) {
        self.1.push((number, topic, why.to_owned()));
    }

    fn tell(&mut self, news: &News) {
        self.0.told.push(news.clone());
    }

    fn write(&mut self, _id: ItemId, _item: &Item, _until: Time) {}

    fn erase(&mut self, _id: ItemId) {}

    fn load(&self, _at: Where, _runs: usize) -> Option<u32> {
        None
    }

    fn value(&self, _id: ItemId) -> Option<Arc<[u8]>> {
        None
    }

    fn answer(&mut self, _request: u64, _answer: Answer) {}

    fn noted(&mut self, _number: u64, _note: &Note) {}
}

impl Inhabitant for Host {
    type Word = PeerWord;

    fn begin(settings: &Settings, own: Member, now: Time) -> Host {
        Host(
            Peer::new(settings.clone(), &space(), own, Limits { items: 1_000, bytes: 1 << 20 }, now),
            Vec::new(),
        )
    }

    fn rings(&self) -> &Rings {
        self.0.rings()
    }

    fn hear(&mut self, now: Time, from: &Member, word: PeerWord, out: &mut Letters<PeerWord>) {
        let mut bytes = Vec::new();
        word.append_to(&mut bytes);
        self.0.handle_word(now, from, PeerWord::decode(&bytes).unwrap(), &mut Writing(out, &mut self.1));
    }

    fn lose(&mut self, now: Time, peer: PeerId, out: &mut Letters<PeerWord>) {
        self.0.handle_lost(now, peer, &mut Writing(out, &mut Vec::new()));
    }

    fn meet(&mut self, now: Time, peer: PeerId, out: &mut Letters<PeerWord>) {
        self.0.handle_link(now, peer, &mut Writing(out, &mut Vec::new()));
    }

    fn wake(&mut self, now: Time, out: &mut Letters<PeerWord>) {
        self.0.handle_timeout(now, &mut Writing(out, &mut Vec::new()));
    }

    fn next_deadline(&self) -> Time {
        self.0.next_deadline()
    }

    fn move_to(&mut self, now: Time, location: Location, out: &mut Letters<PeerWord>) {
        self.0.handle_moved(now, location, &mut Writing(out, &mut Vec::new()));
    }

    fn leave(&mut self, now: Time, out: &mut Letters<PeerWord>) {
        self.0.handle_leave(now, &mut Writing(out, &mut Vec::new()));
    }
}

const KINDS: [&str; 3] = ["drone", "car", "mast"];
const SENSORS: [&str; 3] = ["lidar", "light", "radar"];

/// What somebody says at a peer: whether it is offered, and how it is written.
type Words = BTreeMap<(usize, u64), (bool, String)>;

/// Says something at some peer, or takes it back.
fn say(world: &mut World<Host>, said: &mut Words) {
    let of = world.random.usize(..world.players.len());
    if world.players[of].node.is_none() {
        return;
    }
    let number = world.random.u64(..3);
    if world.random.u8(..5) == 0 {
        said.remove(&(of, number));
        return world
            .with(of, |host, now, out| host.0.withdraw(now, number, &mut Writing(out, &mut Vec::new())));
    }
    let kind = *world.random.choice(&KINDS).unwrap();
    let sensor = *world.random.choice(&SENSORS).unwrap();
    let offers = world.random.bool();
    let corner = (world.random.f64() * SIDE, world.random.f64() * SIDE);
    let (height, width) = (world.random.f64() * SIDE / 2.0, world.random.f64() * SIDE / 2.0);
    let area = format!("lat={}..{}, long={}..{}", corner.0, corner.0 + height, corner.1, corner.1 + width);
    let text = match (offers, world.random.u8(..4)) {
        // Something that is elsewhere.
        (true, 0) => format!("{kind}, {sensor}, lat={}, long={}", corner.0, corner.1),
        (true, _) => format!("{kind}, {sensor}"),
        (false, 0) => format!("{kind}, {}*", &sensor[..2]),
        (false, 1) => format!("kind={kind}, {area}"),
        (false, _) => format!("sensor={sensor}, lat=0..{SIDE}, long=0..{SIDE}"),
    };
    world.with(of, |host, now, out| {
        let put = if offers { Peer::offer } else { Peer::want };
        put(&mut host.0, now, number, &text, &mut Writing(out, &mut Vec::new())).unwrap();
    });
    said.insert((of, number), (offers, text));
}

/// The topics that each should have: of wishes without an area those of their region alone.
fn expected(world: &World<Host>, said: &Words) -> BTreeMap<(usize, u64), BTreeSet<Topic>> {
    let space = space();
    let mut expected: BTreeMap<(usize, u64), BTreeSet<Topic>> = BTreeMap::new();
    for (offers, (_, offer)) in said.iter().filter(|(_, (offers, _))| *offers) {
        let host = world.players[offers.0].node.as_ref().unwrap();
        let here = host.rings().own().location;
        let profile = Profile::read(&space, offer).unwrap().located(Some(here));
        let cell = world.settings.extent.cell_of(profile.location().unwrap());
        for (wants, (_, want)) in said.iter().filter(|(_, (offers, _))| !*offers) {
            let interest = Interest::read(&space, want).unwrap();
            let region = world.players[wants.0].node.as_ref().unwrap().rings().region();
            if interest.matches(&profile) && (interest.area().is_some() || region.contains(cell)) {
                let topic = Topic::of(offer, want);
                expected.entry(*offers).or_default().insert(topic);
                expected.entry(*wants).or_default().insert(topic);
            }
        }
    }
    expected
}

/// One world, in which things are said and things happen. What is wrong in the end.
fn play(seed: u64, worst: bool) -> Wrong {
    let mut world: World<Host> = World::new(seed);
    let mut said = Words::new();
    people(&mut world);
    for _ in 0..world.random.usize(2..24) {
        let wait = world.random.i64(0..8_000);
        world.run_for(Span::millis(wait));
        say(&mut world, &mut said);
        if worst && world.random.u8(..3) == 0 {
            befall(&mut world);
            let is_alive = |of: usize| world.players[of].node.is_some();
            said.retain(|(of, _), _| is_alive(*of));
        }
    }
    mend(&mut world);
    // The overlay comes to rest, then what was put is put where it belongs, and what has gone is forgotten.
    world.run_for(SETTLES + Span::secs(85));
    let mut wrong = check(&world);
    let expected = expected(&world, &said);
    for ((of, number), (_, text)) in &said {
        let node = world.players[*of].node.as_ref().unwrap();
        let has: BTreeSet<Topic> = node.0.topics_of(*number).collect();
        let should = expected.get(&(*of, *number)).cloned().unwrap_or_default();
        if let Some(missing) = should.difference(&has).next() {
            wrong.push(("meetings", format!("p{of} says {text:?} and was not told of {missing}")));
        }
        if let Some(other) = has.difference(&should).next() {
            wrong.push(("strangers", format!("p{of} says {text:?} and has {other} without a reason")));
        }
    }
    wrong
}

#[test]
fn whoever_belongs_together_meets_in_all_regions() {
    assert_eq!(wrong_in(seeds(60), |seed| play(seed, false)), []);
}

#[test]
fn so_they_do_after_anything_that_may_happen() {
    assert_eq!(wrong_in(seeds(60), |seed| play(seed, true)), []);
}

#[test]
fn what_is_put_in_the_own_region_alone_is_noticed() {
    Mutant::switch(Some(Mutant::ForgetOtherRegions));
    let noticed = (0..60).any(|seed| play(seed, true).first().is_some_and(|(name, _)| *name == "meetings"));
    Mutant::switch(None);
    assert!(noticed);
}

/// Somebody in one of four regions wants what is in another, and its host loses its power. The topics that the offer has before and after.
fn wants_elsewhere_and_dies() -> [usize; 2] {
    let mut world: World<Host> = World::new(1);
    for (north, east) in [(10.0, 10.0), (20.0, 20.0), (60.0, 60.0), (70.0, 70.0)] {
        for place in [at(north, east), at(north, SIDE - east)] {
            let of = world.add(place);
            world.start(of);
        }
    }
    world.run_for(Span::secs(20));
    assert_eq!(check(&world), []);
    let regions: BTreeSet<String> = world.alive().map(|(_, rings)| rings.region().to_string()).collect();
    assert_eq!(regions, ["ne", "nw", "se", "sw"].map(str::to_owned).into());
    let find = |quarter: &str| {
        let all = world.players.iter().position(|player| {
            player.node.as_ref().is_some_and(|host| host.rings().region().to_string() == quarter)
        });
        all.unwrap()
    };
    let (offers, wants) = (find("ne"), find("sw"));
    world.with(offers, |host, now, out| {
        host.0.offer(now, 1, "drone, lidar", &mut Writing(out, &mut Vec::new())).unwrap();
    });
    let interest = format!("drone, lat=40..{SIDE}, long=40..{SIDE}");
    world.with(wants, |host, now, out| {
        host.0.want(now, 1, &interest, &mut Writing(out, &mut Vec::new())).unwrap();
    });
    world.run_for(Span::secs(1));
    let topics = |world: &World<Host>| world.players[offers].node.as_ref().unwrap().0.topics_of(1).count();
    let before = topics(&world);
    world.kill(wants, true);
    world.run_for(Span::secs(150));
    [before, topics(&world)]
}

#[test]
fn what_is_wanted_from_another_region_ends_with_who_wanted_it() {
    assert_eq!(wants_elsewhere_and_dies(), [1, 0]);
    Mutant::switch(Some(Mutant::KeepPassingOn));
    let topics = wants_elsewhere_and_dies();
    Mutant::switch(None);
    assert_eq!(topics, [1, 1], "what is passed on for ever is noticed");
}

/// What was put by an earlier life of a peer is over when the next one puts something, and not a minute later.
#[test]
fn what_an_earlier_life_had_put_ends_with_the_first_word_of_the_next() {
    let mut world: World<Host> = World::new(3);
    for _ in 0..5 {
        let of = world.add(at(5.0, 5.0));
        world.start(of);
    }
    world.run_for(Span::secs(20));
    let put = |world: &mut World<Host>, of: usize, number: u64, offers: bool, text: &str| {
        world.with(of, |host, now, out| {
            let put = if offers { Peer::offer } else { Peer::want };
            put(&mut host.0, now, number, text, &mut Writing(out, &mut Vec::new())).unwrap();
        });
    };
    put(&mut world, 3, 7, true, "drone, lidar");
    put(&mut world, 3, 8, true, "drone, lifeline");
    put(&mut world, 4, 1, false, "drone, li*");
    world.run_for(Span::secs(1));
    let topics = |world: &World<Host>| world.players[4].node.as_ref().unwrap().0.topics_of(1).count();
    assert_eq!(topics(&world), 2);
    world.kill(3, false);
    world.run_for(Span::millis(100));
    world.start(3);
    world.run_for(Span::secs(10));
    put(&mut world, 3, 1, true, "drone, lidar");
    put(&mut world, 3, 2, true, "drone, lima");
    world.run_for(Span::secs(1));
    put(&mut world, 3, 3, true, "drone, lifeline");
    world.run_for(Span::secs(1));
    world.with(3, |host, now, out| {
        (1..4).for_each(|number| host.0.withdraw(now, number, &mut Writing(out, &mut Vec::new())));
    });
    world.run_for(Span::secs(1));
    assert_eq!(topics(&world), 0);
}

/// Across regions, too: who wants what brokers refuse to who offers it hears why.
#[test]
fn what_brokers_refuse_is_told_to_the_other_end() {
    let mut world: World<Host> = World::new(1);
    for (north, east) in [(10.0, 10.0), (20.0, 20.0), (60.0, 60.0), (70.0, 70.0)] {
        for place in [at(north, east), at(north, SIDE - east)] {
            let of = world.add(place);
            world.start(of);
        }
    }
    world.run_for(Span::secs(20));
    let interest = format!("drone, lat=0..{SIDE}, long=0..{SIDE}");
    world.with(0, |host, now, out| {
        host.0.want(now, 1, &interest, &mut Writing(out, &mut Vec::new())).unwrap();
    });
    for of in [1, 6] {
        let text = format!("drone, s{of}");
        world.with(of, |host, now, out| {
            host.0.offer(now, 1, &text, &mut Writing(out, &mut Vec::new())).unwrap();
        });
        world.run_for(Span::secs(1));
        let topic = Topic::of(&text, &interest);
        world.with(of, |host, now, out| {
            assert!(host.0.refuse(now, topic, "no time", &mut Writing(out, &mut Vec::new())));
            assert!(!host.0.refuse(now, Topic(7), "no time", &mut Writing(out, &mut Vec::new())));
        });
        world.run_for(Span::secs(1));
        let told = &world.players[0].node.as_ref().unwrap().1;
        assert_eq!(told.last(), Some(&(1, topic, "no time".to_owned())), "of {of}");
    }
}

/// §12.8: what was put at a point that dies meets again, and nothing ends meanwhile. §12.12: a master's death disturbs no match.
#[test]
fn pairs_meet_within_a_second_of_the_death_of_their_point() {
    for seed in 0..20 {
        let mut world: World<Host> = World::new(seed);
        for _ in 0..10 {
            let of = world.add(at(5.0, 5.0));
            world.start(of);
        }
        world.run_for(Span::secs(20));
        let put = |world: &mut World<Host>, of: usize, offers: bool, text: &str| {
            world.with(of, |host, now, out| {
                let put = if offers { Peer::offer } else { Peer::want };
                put(&mut host.0, now, 1, text, &mut Writing(out, &mut Vec::new())).unwrap();
            });
        };
        put(&mut world, 0, true, "drone, lidar");
        put(&mut world, 1, false, "drone, li*");
        world.run_for(Span::secs(1));
        let dies = (2..10)
            .filter(|of| world.players[*of].node.as_ref().is_some_and(|host| !host.0.point().is_empty()));
        let dies: Vec<usize> = dies.collect();
        dies.iter().for_each(|of| world.kill(*of, false));
        world.run_for(Span::secs(1));
        // Somebody who comes now meets as well, and so does whoever was there before.
        put(&mut world, 0, true, "drone, lidar, colour=red");
        world.run_for(Span::secs(1));
        let topic = Topic::of("drone, lidar, colour=red", "drone, li*");
        for of in [0, 1] {
            let topics: Vec<Topic> = world.players[of].node.as_ref().unwrap().0.topics_of(1).collect();
            assert!(topics.contains(&topic), "seed {seed}: {of} has {topics:?}, {dies:?} died");
        }
    }
}
