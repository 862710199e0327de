//! What a site missed of another one while the way was cut, or a broker was dead, comes to it afterwards: once, in order, as it was published.
#![allow(clippy::unwrap_used, reason = "tests fail by panics")]

use crate::world;

use ::mqtt::testing::QoS;
use contract::{Contract, Span};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use world::World;

const NORTH: usize = 0;
const SOUTH: usize = 1;
const ROUTER: usize = 2;
const TOPICS: usize = 5;

/// Two sites with keepers, and one router that is a pair, or two that a service names.
struct Sites {
    world: World,
    publisher: usize,
    historian: usize,
    publications: Vec<u32>,
    published: u64,
}

fn contract() -> Contract {
    Contract::every(Span::millis(100)).deadline(Span::secs(1)).retain(3)
}

impl Sites {
    fn new(named: bool) -> Sites {
        Sites::with(named, |_| {})
    }

    fn with(named: bool, brokers: fn(&mut broker::Settings)) -> Sites {
        Sites::keeping(named, brokers, |_| {})
    }

    fn keeping(
        named: bool,
        brokers: fn(&mut broker::Settings),
        keepers: fn(&mut engine::KeeperSettings),
    ) -> Sites {
        let mut world = World::of_pairs(if named { 4 } else { 3 }, brokers, None);
        if named {
            world.add_service(&[ROUTER, ROUTER + 1]);
        }
        for (site, pair) in [("north", NORTH), ("south", SOUTH)] {
            match named {
                true => world.add_coordinated_site(site, pair, |_| {}),
                false => world.add_site(site, pair, &[ROUTER], |_| {}),
            }
            world.add_keepers(site, pair, &["plant/#"], keepers);
        }
        world.run_for(Span::secs(1));
        let publisher = world.add_client_at(NORTH, "plc", 7);
        let historian = world.add_client_at(SOUTH, "historian", 7);
        world.run_for(Span::millis(200));
        world.subscribe(historian, "plant/#");
        world.subscribe(historian, "$backlog/plant/#");
        let publications = (0..TOPICS)
            .map(|topic| world.advertise(publisher, &format!("plant/{topic}"), contract()))
            .collect();
        world.run_for(Span::secs(14));
        Sites { world, publisher, historian, publications, published: 0 }
    }

    fn publish_for(&mut self, span: Span) {
        let end = self.world.now + span;
        while self.world.now < end {
            for publication in &self.publications {
                let payload = self.published.to_le_bytes();
                // Where a broker has just died, nobody may be there to be published to; it is retained.
                _ = self.world.publish(self.publisher, *publication, &payload);
            }
            self.published += 1;
            self.world.run_for(Span::millis(100));
        }
    }

    /// No uplink of a site reaches a router, or all do again.
    fn cut(&mut self, pair: usize, cut: bool) {
        for uplink in [2 * pair, 2 * pair + 1] {
            for broker in 2 * ROUTER..self.world.brokers.len() {
                self.world.cut_uplink(uplink, broker, cut);
            }
        }
    }

    /// A whole host: the broker, and what stands beside it at a site.
    fn kill_host(&mut self, broker: usize) {
        if broker < 2 * ROUTER {
            self.world.kill_uplink(broker);
            self.world.kill_keeper(broker);
        }
        self.world.kill(broker);
    }

    fn start_host(&mut self, broker: usize) {
        self.world.start(broker);
        if broker < 2 * ROUTER {
            self.world.start_uplink(broker);
            self.world.start_keeper(broker);
        }
    }

    /// The receiving site is cut off for a while, and gets what it missed. How much came as backlog, and what keepers told of themselves.
    fn miss_some(&mut self) -> (usize, Vec<String>) {
        self.cut(SOUTH, true);
        self.publish_for(Span::secs(10));
        self.cut(SOUTH, false);
        self.publish_for(Span::secs(15));
        self.world.run_for(Span::secs(20));
        let told = self.world.keepers.iter_mut().flat_map(|kept| kept.keeper.reporter().0.clone()).collect();
        (self.check().1, told)
    }

    /// What came live, and what as backlog; nothing is missing, and nothing came twice, or it says so.
    fn check(&mut self) -> (usize, usize) {
        let mut counts = (0, 0);
        for topic in 0..TOPICS {
            let seen = &self.world.seen(self.historian).messages;
            let of = |name: String| -> Vec<u64> {
                let of = seen.iter().filter(|message| message.0 == name);
                of.map(|message| u64::from_le_bytes(message.3[..].try_into().unwrap())).collect()
            };
            let (live, backlog) = (of(format!("plant/{topic}")), of(format!("$backlog/plant/{topic}")));
            let once: BTreeSet<u64> = live.iter().chain(&backlog).copied().collect();
            let missing: Vec<u64> = (0..self.published).filter(|number| !once.contains(number)).collect();
            let told: Vec<&Vec<String>> =
                self.world.uplinks.iter_mut().map(|uplink| &uplink.reporter().0).collect();
            assert!(
                missing.is_empty() && once.len() == live.len() + backlog.len(),
                "{topic}: lacks {missing:?}, live {live:?}, backlog {backlog:?}, {told:#?}"
            );
            assert!(backlog.is_sorted(), "{backlog:?}");
            counts = (counts.0 + live.len(), counts.1 + backlog.len());
        }
        counts
    }
}

#[test]
fn what_was_published_during_a_cut_comes_afterwards() {
    for named in [false, true] {
        for side in [NORTH, SOUTH] {
            let mut sites = Sites::new(named);
            sites.publish_for(Span::secs(5));
            sites.cut(side, true);
            sites.publish_for(Span::secs(60));
            sites.cut(side, false);
            sites.publish_for(Span::secs(20));
            sites.world.run_for(Span::secs(40));
            let (live, backlog) = sites.check();
            assert!(live > 1_000 && backlog > 2_700, "{named} {side}: {live} {backlog}");
            let ages: Vec<Span> = {
                let seen = &sites.world.seen(sites.historian).messages;
                seen.iter().filter(|message| message.0.starts_with('$')).map(|message| message.2).collect()
            };
            assert!(ages.iter().all(|age| *age > Span::secs(1) && *age < Span::secs(90)), "{ages:?}");
        }
    }
}

#[test]
fn what_has_a_limit_of_its_own_takes_no_more_and_the_newest_comes() {
    const LIMIT: u64 = 192 << 10;
    let mut sites = Sites::keeping(false, |_| {}, |keeper| keeper.keep[0].bytes_max = LIMIT);
    sites.publish_for(Span::secs(5));
    let first = sites.published;
    sites.cut(SOUTH, true);
    sites.publish_for(Span::secs(120));
    let last = sites.published;
    sites.cut(SOUTH, false);
    sites.publish_for(Span::secs(20));
    sites.world.run_for(Span::secs(40));
    for topic in 0..TOPICS {
        let seen = &sites.world.seen(sites.historian).messages;
        let names = [format!("plant/{topic}"), format!("$backlog/plant/{topic}")];
        let of = seen.iter().filter(|message| names.contains(&message.0));
        let came: BTreeSet<u64> =
            of.map(|message| u64::from_le_bytes(message.3[..].try_into().unwrap())).collect();
        let missing: Vec<u64> = (0..sites.published).filter(|number| !came.contains(number)).collect();
        // What came first of the cut was given up, and nothing else.
        let (from, to) = (missing.first().copied().unwrap_or(0), missing.last().copied().unwrap_or(0));
        assert_eq!(missing.len() as u64, to + 1 - from, "{topic}: {missing:?}");
        assert!(
            (first..first + 20).contains(&from) && to + 20 < last,
            "{topic}: {from} to {to} of {first} to {last}"
        );
        // Some 60 to 130 bytes for each that is left.
        let left = (last - to) * TOPICS as u64;
        assert!((LIMIT / 130..LIMIT / 60).contains(&left), "{left}");
    }
}

#[test]
fn deaths_of_primaries_meanwhile_lose_nothing_and_bring_nothing_twice() {
    for (during, after) in [
        (2 * NORTH, None),
        (2 * SOUTH, None),
        (2 * ROUTER, Some(2 * SOUTH)),
        (2 * NORTH, Some(2 * SOUTH)),
        (2 * SOUTH, Some(2 * NORTH)),
    ] {
        let mut sites = Sites::new(false);
        sites.publish_for(Span::secs(5));
        sites.cut(SOUTH, true);
        sites.publish_for(Span::secs(10));
        sites.kill_host(during);
        sites.publish_for(Span::secs(10));
        sites.start_host(during);
        sites.publish_for(Span::secs(10));
        sites.cut(SOUTH, false);
        // Some of what was missed has come.
        sites.publish_for(Span::millis(5_600));
        if let Some(broker) = after {
            sites.kill_host(broker);
        }
        sites.publish_for(Span::secs(20));
        sites.world.run_for(Span::secs(60));
        let (_, backlog) = sites.check();
        assert!(backlog > 1_300, "{during} {after:?}: {backlog}");
    }
}

#[test]
fn a_site_that_was_away_whole_goes_on_from_the_places_that_it_has_kept() {
    let mut sites = Sites::new(false);
    sites.publish_for(Span::secs(20));
    sites.kill_host(2 * SOUTH);
    sites.kill_host(2 * SOUTH + 1);
    sites.publish_for(Span::secs(30));
    sites.start_host(2 * SOUTH);
    sites.start_host(2 * SOUTH + 1);
    sites.publish_for(Span::secs(20));
    sites.world.run_for(Span::secs(60));
    let seen = &sites.world.seen(sites.historian).messages;
    let came: BTreeSet<(String, Vec<u8>)> = seen
        .iter()
        .map(|message| (message.0.trim_start_matches("$backlog/").to_owned(), message.3.clone()))
        .collect();
    assert_eq!(came.len() as u64, sites.published * TOPICS as u64);
    // Places are kept each ten seconds, and are eight seconds old: what came live since comes once more.
    let twice = seen.len() - came.len();
    assert!(twice <= TOPICS * 220, "{twice} of {}", seen.len());
}

#[test]
fn what_nobody_wants_as_backlog_does_not_cross() {
    let mut sites = Sites::new(false);
    let historian = sites.historian;
    sites.world.unsubscribe(historian, 1);
    sites.cut(SOUTH, true);
    sites.publish_for(Span::secs(20));
    sites.cut(SOUTH, false);
    sites.publish_for(Span::secs(20));
    let seen = &sites.world.seen(historian).messages;
    assert!(seen.iter().all(|message| !message.0.starts_with('$')));
    let view = sites.world.keepers[0].keeper.view();
    assert!(view.kept >= 2_000 && view.not_kept == 0 && view.given.is_empty(), "{view:?}");
}

#[test]
fn no_time_is_kept_for_what_keepers_say_and_for_backlog() {
    let mut sites = Sites::with(false, |settings| {
        settings.supply.share_ppm = 1_000_000;
        settings.costs.io.tcp.write = Span::micros(120);
    });
    sites.publish_for(Span::secs(15));
    let (backlog, told) = sites.miss_some();
    let says = |word: &str| told.iter().any(|told| told.starts_with(word));
    assert!(backlog > 100 && !says("Unpromised") && !says("Refused"), "{backlog} {told:#?}");
}

#[test]
fn a_keeper_that_begins_anew_where_there_is_no_time_for_it_is_served_after_all_others() {
    let mut world = World::of_pairs(
        3,
        |settings| {
            settings.supply.share_ppm = 1_000_000;
            settings.costs.io.tcp.write = Span::micros(300);
        },
        None,
    );
    for (site, pair) in [("north", NORTH), ("south", SOUTH)] {
        world.add_site(site, pair, &[ROUTER], |_| {});
        world.add_keepers(site, pair, &["plant/#"], |_| {});
    }
    world.run_for(Span::secs(1));
    let publisher = world.add_client_at(NORTH, "plc", 7);
    let historian = world.add_client_at(SOUTH, "historian", 7);
    world.run_for(Span::millis(200));
    world.subscribe(historian, "plant/#");
    world.subscribe(historian, "$backlog/plant/#");
    let urgent = Contract::every(Span::millis(50)).deadline(Span::millis(40)).tolerate(2).retain(2);
    let publications =
        (0..TOPICS).map(|topic| world.advertise(publisher, &format!("plant/{topic}"), urgent)).collect();
    let mut sites = Sites { world, publisher, historian, publications, published: 0 };
    sites.world.run_for(Span::secs(14));
    // Keepers have asked each other before.
    sites.publish_for(Span::secs(15));
    // A keeper that begins anew is one more subscriber.
    sites.kill_host(2 * NORTH);
    sites.publish_for(Span::secs(12));
    for number in 0..100 {
        let client = sites.world.add_client_at(NORTH, &format!("panel{number}"), 7);
        sites.world.run_for(Span::millis(50));
        sites.world.subscribe(client, "plant/#");
        sites.world.run_for(Span::millis(50));
        if sites.world.seen(client).subscribed.last().unwrap().is_err() {
            break;
        }
        assert!(number < 99, "nobody is refused");
    }
    sites.start_host(2 * NORTH);
    sites.publish_for(Span::secs(5));
    sites.kill_host(2 * NORTH + 1);
    sites.publish_for(Span::secs(5));
    let (backlog, told) = sites.miss_some();
    let says = |word: &str| told.iter().any(|told| told.starts_with(word));
    assert!(backlog > 400 && says("Unpromised") && !says("Refused"), "{backlog} {told:#?}");
}

/// What belongs to a message of MQTT is kept with it: it comes as backlog as it would have come live.
#[test]
fn what_clients_of_mqtt_say_of_a_message_comes_with_it_and_what_has_expired_does_not() {
    let world = World::of_pairs(3, |_| {}, Some(|_| {}));
    let mut sites = Sites { world, publisher: 0, historian: 0, publications: Vec::new(), published: 0 };
    for (site, pair) in [("north", NORTH), ("south", SOUTH)] {
        sites.world.add_site(site, pair, &[ROUTER], |_| {});
        sites.world.add_keepers(site, pair, &["plant/#"], |_| {});
    }
    sites.world.run_for(Span::secs(1));
    let pump = sites.world.connected(0, world::mqtt::lasting("pump"));
    let desk = sites.world.connected(2, world::mqtt::lasting("desk"));
    sites.world.want(desk, "plant/+", QoS::AtLeastOnce);
    sites.world.want(desk, "$backlog/plant/+", QoS::AtLeastOnce);
    let away = sites.world.connected(2, world::mqtt::lasting("away"));
    sites.world.want(away, "$backlog/plant/+", QoS::AtLeastOnce);
    let historian = sites.world.add_client_at(SOUTH, "historian", 7);
    sites.world.run_for(Span::millis(200));
    sites.world.subscribe(historian, "$backlog/plant/#");
    let message = |id: u16| {
        let mut message = world::mqtt::message("plant/1", QoS::AtLeastOnce, id, format!("{id}").as_bytes());
        message.retain = true;
        let properties = message.properties.as_mut().unwrap();
        properties.content_type = Some("text/plain".into());
        properties.user_properties.push(("number".into(), format!("{id}").into()));
        properties.message_expiry_interval = NonZeroU32::new(if id.is_multiple_of(2) { 5 } else { 600 });
        message
    };
    let say = |sites: &mut Sites, ids: std::ops::Range<u16>| {
        for id in ids {
            sites.world.say_5(pump, message(id));
            sites.world.run_for(Span::millis(100));
        }
    };
    say(&mut sites, 1..140);
    sites.world.cut_off(away);
    sites.cut(SOUTH, true);
    say(&mut sites, 140..340);
    sites.cut(SOUTH, false);
    say(&mut sites, 340..400);
    sites.world.run_for(Span::secs(20));
    let all: Vec<_> = sites.world.messages(desk).cloned().collect();
    let missed: Vec<_> = all.iter().filter(|message| message.topic.starts_with('$')).collect();
    let number = |payload: &[u8]| String::from_utf8_lossy(payload).parse::<u16>().unwrap();
    let numbers: Vec<u16> = missed.iter().map(|message| number(&message.payload)).collect();
    let others: Vec<u16> = (140..numbers[numbers.len() - 1]).filter(|id| !numbers.contains(id)).collect();
    assert!(numbers.len() > 80 && numbers.is_sorted(), "{numbers:?}");
    assert!(others.iter().all(|id| id.is_multiple_of(2)), "{others:?}");
    assert!(numbers.iter().all(|id| !id.is_multiple_of(2)), "they have expired: {numbers:?}");
    for message in missed {
        let properties = message.properties.clone().unwrap();
        assert_eq!((message.qos, message.retain), (QoS::AtLeastOnce, false));
        assert_eq!(properties.content_type, Some("text/plain".into()));
        assert_eq!(properties.user_properties.len(), 1);
        assert!(properties.message_expiry_interval.is_some_and(|left| (550..600).contains(&left.get())));
    }
    assert!(sites.world.reconnect(away, 2, world::mqtt::lasting("away")), "its session is there");
    sites.world.run_for(Span::secs(1));
    let kept: Vec<u16> = sites.world.messages(away).map(|message| number(&message.payload)).collect();
    assert_eq!(kept, numbers, "a session that is away is kept it, as far as it has not expired");
    let natives = &sites.world.seen(historian).messages;
    assert!(natives.len() > 160, "native clients get the payload alone, and all of them: {}", natives.len());
    assert!(natives.iter().all(|(.., payload)| number(payload) >= 140));
}
