//! Sites behind thin links: best effort holds up nothing that is promised, and what has no room is not promised.
#![allow(clippy::unwrap_used, reason = "tests fail by panics")]

use crate::world;

use contract::{Contract, Mutant, Span, ThinLink};
use world::World;

/// The pairs of these worlds, and their router.
const NORTH: usize = 0;
const SOUTH: usize = 1;
const ROUTER: usize = 2;

/// Two sites, of which these links are thin; a publisher at the first, and who subscribes everything at the second.
struct Sites {
    world: World,
    publisher: usize,
    subscriber: usize,
}

/// Two megabits, a quarter of it for best effort.
const THIN: ThinLink = ThinLink { bandwidth: 250_000, bulk: 62_500, queueing: Span::millis(40) };

impl Sites {
    fn new(links: [Option<ThinLink>; 2]) -> Sites {
        let mut world = World::of_pairs(3, |_| {}, None);
        for (pair, site) in [(NORTH, "north"), (SOUTH, "south")] {
            world.add_site(site, pair, &[ROUTER], |told| told.thin = links[pair]);
        }
        world.run_for(Span::secs(1));
        let publisher = world.add_client_at(NORTH, "pump", 7);
        let subscriber = world.add_client_at(SOUTH, "desk", 7);
        world.run_for(Span::millis(200));
        world.subscribe(subscriber, "#");
        world.run_for(Span::millis(500));
        Sites { world, publisher, subscriber }
    }

    /// What came of a topic: how long each message took.
    fn took(&mut self, topic: &str) -> Vec<Span> {
        let messages = &self.world.seen(self.subscriber).messages;
        messages.iter().filter(|message| message.0 == topic).map(|message| message.2).collect()
    }

    /// Topics that the uplinks of a site say to cross without a promise.
    fn unpromised(&self, pair: usize) -> Vec<String> {
        let views = [2 * pair, 2 * pair + 1].map(|uplink| self.world.uplinks[uplink].view());
        views.into_iter().flat_map(|view| view.unpromised).map(|(_, topic, _)| topic).collect()
    }
}

fn timely() -> Contract {
    Contract::every(Span::millis(50)).deadline(Span::millis(200)).retain(4).size(100)
}

fn bulk() -> Contract {
    Contract { deadline: Span::FOREVER, ..Contract::every(Span::millis(1)).best_effort() }
}

/// A file of 250 kB is published in 2.5 s beside a stream with a contract. Returns how long the slowest message of either took, and how many came.
fn flood(links: [Option<ThinLink>; 2]) -> [(Span, usize); 2] {
    let mut sites = Sites::new(links);
    let publisher = sites.publisher;
    let urgent = sites.world.advertise(publisher, "urgent", timely());
    let file = sites.world.advertise(publisher, "file", bulk());
    sites.world.run_for(Span::millis(500));
    for message in 0..100 {
        if message < 50 {
            (0..5).for_each(|_| _ = sites.world.publish(publisher, file, &[7; 1_000]).unwrap());
        }
        sites.world.publish(publisher, urgent, b"1").unwrap();
        sites.world.run_for(Span::millis(50));
    }
    sites.world.run_for(Span::secs(2));
    assert!(sites.unpromised(NORTH).is_empty() && sites.unpromised(SOUTH).is_empty());
    // That best effort has to wait, and is dropped, is nobody's trouble.
    let told: Vec<&String> = sites.world.uplinks.iter_mut().flat_map(|uplink| &uplink.reporter().0).collect();
    assert!(!told.iter().any(|word| word.contains("Unreached")), "{told:?}");
    ["urgent", "file"].map(|topic| {
        let took = sites.took(topic);
        (took.iter().copied().max().unwrap(), took.len())
    })
}

/// The file takes its 4 s, in whichever direction the link is thin, and nothing else takes longer for it.
#[test]
fn best_effort_takes_its_part_of_the_link_and_holds_up_nothing() {
    for links in [[Some(THIN), None], [None, Some(THIN)], [Some(THIN); 2]] {
        let [(urgent, all), (file, some)] = flood(links);
        // A router gives who takes little the newest of what may be lost.
        assert!(all == 100 && (150..=250).contains(&some), "{links:?}: {all} {some}");
        // Two ways of 10 ms each.
        assert!((Span::millis(20)..Span::millis(23)).contains(&urgent), "{links:?}: {urgent}");
        assert!((Span::millis(500)..Span::millis(2_500)).contains(&file), "{links:?}: {file}");
    }
    Mutant::switch(Some(Mutant::OneWayForAll));
    let [_, (file, _)] = flood([Some(THIN), None]);
    Mutant::switch(None);
    assert!(file < Span::millis(500), "it has no way of its own, and that is seen");
}

/// What leaves and has no room goes behind what has, comes all the same, and is promised once there is room.
#[test]
fn what_leaves_and_has_no_room_is_not_promised_until_it_has() {
    let mut sites = Sites::new([Some(ThinLink { queueing: Span::millis(50), ..THIN }), None]);
    let publisher = sites.publisher;
    // Each takes some 290 bytes, with those that may come together; 12 500 may wait, of which 5 602 do in any case.
    let topics: Vec<u32> =
        (0..30).map(|number| sites.world.advertise(publisher, &format!("t/{number}"), timely())).collect();
    sites.world.run_for(Span::millis(500));
    let publish = |sites: &mut Sites, topics: &[u32], rounds| {
        for _ in 0..rounds {
            topics.iter().for_each(|topic| _ = sites.world.publish(publisher, *topic, b"1").unwrap());
            sites.world.run_for(Span::millis(50));
        }
    };
    publish(&mut sites, &topics, 20);
    sites.world.run_for(Span::secs(1));
    let without = sites.unpromised(NORTH);
    assert!((1..29).contains(&without.len()), "{without:?}");
    let link = sites.world.uplinks[0].view().link.unwrap();
    assert!(
        link.out.waits <= link.link.queueing && link.out.waits + Span::millis(3) > link.link.queueing,
        "{link:?}"
    );
    for number in 0..30 {
        assert_eq!(sites.took(&format!("t/{number}")).len(), 20);
    }
    // As many go as had no room.
    let (gone, left) = topics.split_at(without.len());
    let went: Vec<&u32> = gone.iter().collect();
    went.iter().for_each(|topic| sites.world.withdraw(publisher, **topic));
    sites.world.run_for(Span::millis(500));
    publish(&mut sites, left, 20);
    sites.world.run_for(Span::secs(1));
    assert_eq!(sites.unpromised(NORTH), Vec::<String>::new());
    let missed = (without.len()..30).filter(|number| sites.took(&format!("t/{number}")).len() != 40);
    assert_eq!(missed.collect::<Vec<_>>(), [0_usize; 0], "moving loses nothing");
}

/// A stream that had no room moves to the other connection while seconds of best effort wait on the first.
#[test]
fn what_moves_while_best_effort_waits_loses_nothing() {
    let mut sites = Sites::new([Some(ThinLink { queueing: Span::millis(30), ..THIN }), None]);
    let publisher = sites.publisher;
    let file = sites.world.advertise(publisher, "file", bulk());
    let topics: Vec<u32> =
        (0..12).map(|number| sites.world.advertise(publisher, &format!("t/{number}"), timely())).collect();
    sites.world.run_for(Span::millis(500));
    let mut without = 0;
    for round in 0..160 {
        // As many go as had no room, first of all those that had some.
        if round == 60 {
            without = sites.unpromised(NORTH).len();
            assert!((1..11).contains(&without), "{without}");
            topics[..without].iter().for_each(|topic| sites.world.withdraw(publisher, *topic));
        }
        topics[without..].iter().for_each(|topic| _ = sites.world.publish(publisher, *topic, b"1").unwrap());
        if round < 120 {
            (0..6).for_each(|_| _ = sites.world.publish(publisher, file, &[7; 1_000]).unwrap());
        }
        sites.world.run_for(Span::millis(50));
    }
    sites.world.run_for(Span::secs(4));
    assert_eq!(sites.unpromised(NORTH), Vec::<String>::new());
    for number in without..12 {
        let topic = format!("t/{number}");
        let seen = &sites.world.seen(sites.subscriber).messages;
        let mut numbers: Vec<u64> =
            seen.iter().filter(|message| message.0 == topic).map(|message| message.1).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..160).collect::<Vec<_>>(), "{topic}");
    }
}

/// What comes is sent by routers, which know nothing of that: where it has no room, nothing of it is promised.
#[test]
fn where_what_comes_has_no_room_nothing_of_it_is_promised() {
    let mut sites = Sites::new([None, Some(ThinLink { queueing: Span::millis(50), ..THIN })]);
    let publisher = sites.publisher;
    let mut promised = Vec::new();
    for number in 0..60 {
        let topic = sites.world.advertise(publisher, &format!("t/{number}"), timely());
        sites.world.run_for(Span::millis(50));
        sites.world.publish(publisher, topic, b"1").unwrap();
        sites.world.run_for(Span::millis(50));
        promised.push(number + 1 - sites.unpromised(SOUTH).len());
    }
    let most = *promised.iter().max().unwrap();
    assert!((3..60).contains(&most), "{promised:?}");
    assert_eq!(promised.last(), Some(&0));
    let link = sites.world.uplinks[2].view().link.unwrap();
    assert!(link.narrow.unwrap().contains("too thin"));
    assert_eq!(sites.world.seen(sites.subscriber).messages.len(), 60);
}

/// A site that is told of its link's bandwidth, or of none any more, and comes back while routers still know its former sessions.
#[test]
fn a_link_may_become_thin_and_wide_again() {
    let mut sites = Sites::new([None; 2]);
    let publisher = sites.publisher;
    let urgent = sites.world.advertise(publisher, "urgent", timely());
    let file = sites.world.advertise(publisher, "file", bulk());
    for (round, thin) in [None, Some(THIN), None, Some(THIN)].into_iter().enumerate() {
        for uplink in 0..4 {
            sites.world.retune(uplink, |told| told.thin = thin);
            sites.world.kill_uplink(uplink);
            sites.world.start_uplink(uplink);
        }
        sites.world.run_for(Span::secs(3));
        for _ in 0..20 {
            [urgent, file].iter().for_each(|topic| _ = sites.world.publish(publisher, *topic, b"1").unwrap());
            sites.world.run_for(Span::millis(50));
        }
        sites.world.run_for(Span::secs(1));
        let views: Vec<_> = sites.world.uplinks.iter().map(engine::Uplink::view).collect();
        assert!(views.iter().all(|view| view.unwished.is_empty()), "{thin:?}: {views:#?}");
        let came = [sites.took("urgent").len(), sites.took("file").len()];
        assert_eq!(came, [20 * (round + 1); 2], "{thin:?}");
    }
}

/// What is wanted less often goes with best effort, and takes nothing of what is promised to others.
#[test]
fn a_thin_link_carries_what_is_wanted_less_often() {
    for links in [[Some(THIN), None], [None, Some(THIN)], [Some(THIN); 2]] {
        let mut sites = Sites::new(links);
        let (publisher, subscriber) = (sites.publisher, sites.subscriber);
        sites.world.unsubscribe(subscriber, 0);
        sites.world.subscribe(subscriber, "$every/1s/#");
        let urgent = sites.world.advertise(publisher, "urgent", timely());
        sites.world.run_for(Span::millis(500));
        for _ in 0..100 {
            sites.world.publish(publisher, urgent, b"1").unwrap();
            sites.world.run_for(Span::millis(50));
        }
        assert_eq!((sites.took("$every/1s/urgent").len(), sites.took("urgent").len()), (5, 0), "{links:?}");
        let view = sites.world.uplinks[2 * NORTH].view();
        assert_eq!((view.unpromised, view.refused), (Vec::new(), Vec::new()));
        assert!(view.link.is_none_or(|link| link.out.rate == 0), "{links:?}");
    }
}
