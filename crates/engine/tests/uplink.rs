//! Sites and routers: pairs of brokers with uplinks between them, on an invented network.
#![allow(clippy::unwrap_used, reason = "tests fail by panics")]

use crate::world;

use ::mqtt::testing::QoS;
use contract::{Contract, LinkClass, LinkDelay, Links, Span};
use engine::UplinkSettings;
use wire::{Carry, Frame, MessageFlags, Register, Standing};
use world::alone::{Alone, hello};
use world::{Who, World};

/// The pairs of these worlds.
const NORTH: usize = 0;
const SOUTH: usize = 1;

/// Two sites, each a pair with an uplink beside each broker, and so many routers, each a pair.
struct Sites {
    world: World,
    publisher: usize,
    subscriber: usize,
}

fn contract() -> Contract {
    Contract::every(Span::millis(100)).deadline(Span::millis(400)).retain(4)
}

impl Sites {
    fn new(routers: usize) -> Sites {
        Sites::tuned(routers, |_| {})
    }

    fn tuned(routers: usize, tune: impl Fn(&mut UplinkSettings)) -> Sites {
        let mut world = World::of_pairs(2 + routers, |_| {}, None);
        let routers: Vec<usize> = (2..2 + routers).collect();
        for (site, pair) in [("north", NORTH), ("south", SOUTH)] {
            world.add_site(site, pair, &routers, &tune);
        }
        world.run_for(Span::secs(1));
        let publisher = world.add_client_at(NORTH, "pump", 7);
        let subscriber = world.add_client_at(SOUTH, "desk", 7);
        world.run_for(Span::millis(200));
        Sites { world, publisher, subscriber }
    }

    fn came(&mut self, client: usize) -> Vec<(String, u64)> {
        let messages = &self.world.seen(client).messages;
        messages.iter().map(|(topic, seq, ..)| (topic.clone(), *seq)).collect()
    }

    /// Publishes at the contract's period for so long.
    fn publish_for(&mut self, publication: u32, span: Span) {
        let end = self.world.now + span;
        while self.world.now < end {
            self.world.publish(self.publisher, publication, b"12.5").unwrap();
            self.world.run_for(Span::millis(100));
        }
    }

    fn told(&mut self) -> Vec<Vec<String>> {
        self.world.uplinks.iter_mut().map(|uplink| uplink.reporter().0.clone()).collect()
    }
}

#[test]
fn what_is_wanted_elsewhere_crosses_and_nothing_else_does() {
    let mut sites = Sites::new(1);
    let (publisher, subscriber) = (sites.publisher, sites.subscriber);
    let wanted = sites.world.advertise(publisher, "plant/pressure", contract());
    let unwanted = sites.world.advertise(publisher, "office/lamp", contract());
    sites.world.subscribe(subscriber, "plant/#");
    sites.world.run_for(Span::millis(500));
    for _ in 0..10 {
        sites.world.publish(publisher, wanted, b"12.5").unwrap();
        sites.world.publish(publisher, unwanted, b"on").unwrap();
        sites.world.run_for(Span::millis(100));
    }
    let came = sites.came(subscriber);
    let expected: Vec<(String, u64)> = (0..10).map(|seq| ("plant/pressure".to_owned(), seq)).collect();
    assert_eq!(came, expected, "{:#?}", sites.told());
    let views: Vec<_> = sites.world.uplinks.iter().map(engine::Uplink::view).collect();
    assert_eq!(views[0].routers[0].outward.1.messages, 10, "{views:#?}");
    assert_eq!(views[0].routers[0].inward.1.messages, 0);
    assert_eq!(views[2].routers[0].inward.1.messages, 10);
    assert!(views.iter().all(|view| view.refused.is_empty()));
    // Two ways of 10 ms each.
    let slowest = sites.world.seen(subscriber).messages.iter().map(|message| message.2).max().unwrap();
    assert!((Span::millis(20)..Span::millis(23)).contains(&slowest), "{slowest}");
}

/// Topics may be called as the site is.
#[test]
fn topics_that_begin_with_the_sites_own_name_cross_as_well() {
    let mut sites = Sites::new(1);
    let publication = sites.world.advertise(sites.publisher, "north/pressure", contract());
    sites.world.subscribe(sites.subscriber, "#");
    sites.world.run_for(Span::millis(500));
    sites.publish_for(publication, Span::secs(1));
    let came = sites.came(sites.subscriber);
    assert_eq!(came.len(), 10, "{came:?}");
    assert!(came.iter().all(|(topic, _)| topic == "north/pressure"));
}

#[test]
fn a_site_hears_its_own_messages_once_and_at_home() {
    let mut sites = Sites::new(1);
    let publication = sites.world.advertise(sites.publisher, "plant/pressure", contract());
    let at_home = sites.world.add_client_at(NORTH, "panel", 7);
    let subscriber = sites.subscriber;
    sites.world.run_for(Span::millis(100));
    sites.world.subscribe(at_home, "#");
    sites.world.subscribe(subscriber, "+/pressure");
    sites.world.run_for(Span::millis(200));
    sites.publish_for(publication, Span::secs(1));
    sites.world.run_for(Span::millis(200));
    for client in [at_home, subscriber] {
        let came = sites.came(client);
        assert_eq!(came.len(), 10, "{came:?}");
    }
    let views: Vec<_> = sites.world.uplinks.iter().map(engine::Uplink::view).collect();
    assert_eq!(views[0].routers[0].inward.1.messages, 0, "{views:#?}");
    assert_eq!(views[2].routers[0].outward.1.messages, 0);
}

/// Ages stay what they are when the clocks of a site are set while messages flow.
#[test]
fn clocks_of_a_site_may_be_set_while_messages_flow() {
    for (side, by) in [(NORTH, 10), (NORTH, -10), (SOUTH, 3_600), (SOUTH, -10)] {
        let mut sites = Sites::new(1);
        let publication = sites.world.advertise(sites.publisher, "plant/pressure", contract());
        sites.world.subscribe(sites.subscriber, "plant/#");
        sites.world.run_for(Span::millis(500));
        let (brokers, uplinks) = ([2 * side, 2 * side + 1], [2 * side, 2 * side + 1]);
        let hosts: Vec<Who> = brokers.map(Who::Broker).into_iter().chain(uplinks.map(Who::Uplink)).collect();
        let hosts: Vec<Who> = hosts.into_iter().chain([Who::Client(side)]).collect();
        let clock = Who::Client(sites.publisher);
        for message in 0..20 {
            let created = sites.world.clock(clock);
            sites.world.publish_created(sites.publisher, publication, b"1", created).unwrap();
            sites.world.run_for(Span::millis(99));
            if message == 9 {
                sites.world.set_clocks(&hosts, Span::secs(by));
            }
            sites.world.run_for(Span::millis(1));
        }
        let seen = &sites.world.seen(sites.subscriber).messages;
        let latencies: Vec<Span> = seen.iter().map(|message| message.2).collect();
        assert_eq!(latencies.len(), 20);
        for latency in latencies {
            assert!((Span::millis(19)..Span::millis(25)).contains(&latency), "{side} {by}: {latency}");
        }
    }
}

/// A second site that is further away needs more of the same filter.
#[test]
fn a_filter_that_is_wanted_further_away_as_well_goes_on_to_be_wanted() {
    let mut world = World::of_pairs(4, |_| {}, None);
    for (site, pair, far) in [("north", NORTH, 20), ("south", SOUTH, 20), ("west", 3, 60)] {
        world.add_site(site, pair, &[2], |told| told.far = Span::millis(far));
    }
    world.run_for(Span::secs(1));
    let publisher = world.add_client_at(NORTH, "pump", 7);
    let desks = [world.add_client_at(SOUTH, "desk", 7), world.add_client_at(3, "desk", 7)];
    world.run_for(Span::millis(200));
    let publication = world.advertise(publisher, "plant/pressure", contract());
    for (round, desk) in desks.into_iter().enumerate() {
        world.subscribe(desk, "plant/#");
        world.run_for(Span::millis(500));
        for _ in 0..10 {
            world.publish(publisher, publication, b"12.5").unwrap();
            world.run_for(Span::millis(100));
        }
        let came: Vec<usize> = desks.iter().map(|desk| world.seen(*desk).messages.len()).collect();
        assert_eq!(came, [10 * (round + 1), 10 * round]);
    }
    let refused: Vec<_> = world.uplinks.iter().flat_map(|uplink| uplink.view().unwished).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

/// What comes late at one clock and early at another is neither: what counts is a message's age.
#[test]
fn clocks_of_sites_may_differ_by_an_hour() {
    for (north, south) in [(3_600, 0), (0, 3_600), (-3_600, 1_800)] {
        let mut sites = Sites::new(1);
        sites.world.run_for(Span::millis(100));
        let hosts = [
            (north, vec![Who::Broker(0), Who::Broker(1), Who::Uplink(0), Who::Uplink(1), Who::Client(0)]),
            (south, vec![Who::Broker(2), Who::Broker(3), Who::Uplink(2), Who::Uplink(3), Who::Client(1)]),
        ];
        for (by, who) in hosts {
            who.into_iter().for_each(|who| sites.world.skew(who, Span::secs(by)));
        }
        // Whoever has known another clock learns of it.
        sites.world.run_for(Span::secs(12));
        let publication = sites.world.advertise(sites.publisher, "plant/pressure", contract());
        sites.world.subscribe(sites.subscriber, "plant/#");
        sites.world.run_for(Span::millis(500));
        let clock = Who::Client(sites.publisher);
        for _ in 0..10 {
            let created = sites.world.clock(clock);
            sites.world.publish_created(sites.publisher, publication, b"1", created).unwrap();
            sites.world.run_for(Span::millis(100));
        }
        let latencies: Vec<Span> =
            sites.world.seen(sites.subscriber).messages.iter().map(|message| message.2).collect();
        assert_eq!(latencies.len(), 10, "{north} {south} {:#?}", sites.told());
        for latency in latencies {
            assert!((Span::millis(19)..Span::millis(25)).contains(&latency), "{north} {south}: {latency}");
        }
    }
}

#[test]
fn what_nobody_wants_any_more_stops_crossing_and_is_no_loss_when_it_is_wanted_again() {
    let mut sites = Sites::new(1);
    let publication = sites.world.advertise(sites.publisher, "plant/pressure", contract());
    let subscriber = sites.subscriber;
    let subscription = sites.world.subscribe(subscriber, "plant/#");
    sites.world.run_for(Span::millis(500));
    sites.publish_for(publication, Span::secs(1));
    sites.world.run_for(Span::millis(200));
    sites.world.unsubscribe(subscriber, subscription);
    sites.world.run_for(Span::millis(200));
    let before = sites.world.uplinks[0].view().routers[0].outward;
    sites.publish_for(publication, Span::secs(5));
    let view = sites.world.uplinks[0].view();
    assert_eq!((view.routers[0].outward.1, view.routers[0].outward.0), (before.1, 0), "{view:#?}");
    sites.world.subscribe(subscriber, "plant/pressure");
    sites.world.run_for(Span::millis(200));
    sites.publish_for(publication, Span::secs(1));
    sites.world.run_for(Span::secs(3));
    let came: Vec<u64> = sites.came(subscriber).into_iter().map(|(_, seq)| seq).collect();
    let expected: Vec<u64> = (0..10).chain(60..70).collect();
    assert_eq!(came, expected);
    let account = sites.world.endpoint(subscriber).streams().next().unwrap();
    assert_eq!((account.tally.received(), account.tally.lost(), account.late), (20, 0, 0));
    assert_eq!((account.publisher, account.origin), ("pump@north", "north"));
}

/// Whichever primary of either site or of the router dies, with its uplink or without, no message is lost, and nobody else notices.
#[test]
fn no_death_of_a_primary_loses_a_message_that_may_not_be_lost() {
    for (victim, whole) in [(0, true), (0, false), (2, true), (2, false), (4, false)] {
        let mut sites = Sites::new(1);
        let publication = sites.world.advertise(sites.publisher, "plant/pressure", contract());
        let subscriber = sites.subscriber;
        sites.world.subscribe(subscriber, "plant/#");
        sites.world.run_for(Span::millis(500));
        sites.publish_for(publication, Span::secs(1));
        if whole {
            sites.world.kill_uplink(victim);
        }
        sites.world.kill(victim);
        sites.publish_for(publication, Span::secs(2));
        sites.world.run_for(Span::secs(2));
        let mut came: Vec<u64> = sites.came(subscriber).into_iter().map(|(_, seq)| seq).collect();
        came.sort_unstable();
        let expected: Vec<u64> = (0..30).collect();
        assert_eq!(came, expected, "victim {victim} {whole}: {:#?}", sites.told());
    }
}

/// A router that dies whole is replaced by the other one, with what was retained for it.
#[test]
fn a_topic_goes_by_another_router_when_its_own_dies() {
    let mut sites = Sites::new(2);
    let subscriber = sites.subscriber;
    let publications: Vec<u32> = (0..8)
        .map(|number| sites.world.advertise(sites.publisher, &format!("plant/{number}"), contract()))
        .collect();
    sites.world.subscribe(subscriber, "plant/#");
    sites.world.run_for(Span::millis(500));
    let publish = |sites: &mut Sites, rounds: u64| {
        for _ in 0..rounds {
            publications.iter().for_each(|publication| {
                sites.world.publish(sites.publisher, *publication, b"1").unwrap();
            });
            sites.world.run_for(Span::millis(100));
        }
    };
    publish(&mut sites, 10);
    let shares: Vec<usize> =
        sites.world.uplinks[0].view().routers.iter().map(|router| router.outward.0).collect();
    assert!(shares.iter().sum::<usize>() == 8 && shares.iter().all(|share| *share > 0), "{shares:?}");
    (4..6).for_each(|broker| sites.world.kill(broker));
    publish(&mut sites, 30);
    sites.world.run_for(Span::secs(2));
    let shares: Vec<usize> =
        sites.world.uplinks[0].view().routers.iter().map(|router| router.outward.0).collect();
    assert_eq!(shares, [0, 8]);
    let mut came = sites.came(subscriber);
    came.sort();
    let expected: Vec<(String, u64)> =
        (0..8).flat_map(|topic| (0..40).map(move |seq| (format!("plant/{topic}"), seq))).collect();
    assert_eq!(came, expected);
    // It comes back, and has its share again.
    (4..6).for_each(|broker| sites.world.start(broker));
    sites.world.run_for(Span::secs(2));
    publish(&mut sites, 10);
    let shares: Vec<usize> =
        sites.world.uplinks[0].view().routers.iter().map(|router| router.outward.0).collect();
    assert!(shares.iter().sum::<usize>() == 8 && shares.iter().all(|share| *share > 0), "{shares:?}");
    sites.world.run_for(Span::secs(1));
    assert_eq!(sites.came(subscriber).len(), 400);
}

/// A router that is there for some topics carries those and no others, as long as it and another one are reached.
#[test]
fn topics_go_by_the_router_that_is_there_for_them() {
    let mut sites = Sites::tuned(2, |settings| {
        let second = settings.routers[1].0.clone();
        settings.meant.insert(second, vec!["plant/alarm/#".parse().unwrap()]);
    });
    let topics =
        ["plant/alarm/1", "plant/alarm/2", "plant/alarm/3", "plant/flow/1", "plant/flow/2", "plant/flow/3"];
    let publications = topics.map(|topic| sites.world.advertise(sites.publisher, topic, contract()));
    sites.world.subscribe(sites.subscriber, "plant/#");
    sites.world.run_for(Span::millis(500));
    let mut rounds = 0;
    let mut shares_after = |sites: &mut Sites| {
        for _ in 0..40 {
            for publication in publications {
                sites.world.publish(sites.publisher, publication, b"1").unwrap();
            }
            sites.world.run_for(Span::millis(100));
        }
        rounds += 40;
        let came = sites.came(sites.subscriber).len();
        assert_eq!(came, rounds * topics.len(), "{:#?}", sites.told());
        sites.world.uplinks[0].view().routers.iter().map(|router| router.outward.0).collect::<Vec<usize>>()
    };
    assert_eq!(shares_after(&mut sites), [3, 3]);
    // Either dies and comes back.
    for (brokers, alone) in [(6..8, [6, 0]), (4..6, [0, 6])] {
        brokers.clone().for_each(|broker| sites.world.kill(broker));
        sites.world.run_for(Span::secs(1));
        assert_eq!(shares_after(&mut sites), alone);
        brokers.for_each(|broker| sites.world.start(broker));
        sites.world.run_for(Span::secs(5));
        assert_eq!(shares_after(&mut sites), [3, 3]);
    }
}

#[test]
fn what_clients_of_mqtt_subscribe_is_wanted_as_well() {
    let mut world = World::of_pairs(3, |_| {}, Some(|_| {}));
    for (site, pair) in [("north", NORTH), ("south", SOUTH)] {
        world.add_site(site, pair, &[2], |_| {});
    }
    world.run_for(Span::secs(1));
    // Clients of MQTT are at the first pair here.
    let desk = world.connected(0, world::mqtt::lasting("desk"));
    world.want(desk, "plant/+", QoS::AtMostOnce);
    let publisher = world.add_client_at(SOUTH, "pump", 7);
    world.run_for(Span::millis(300));
    let publication = world.advertise(publisher, "plant/7", contract());
    world.run_for(Span::millis(300));
    for _ in 0..5 {
        world.publish(publisher, publication, b"1").unwrap();
        world.run_for(Span::millis(100));
    }
    assert_eq!(world.texts(desk).len(), 5);
}

/// Two sites and a router with clients of MQTT at both sites, and one client at each: who publishes, and who has subscribed.
fn with_mqtt_at_both() -> (World, [usize; 2]) {
    let mut world = World::of_pairs(3, |_| {}, Some(|_| {}));
    for (site, pair) in [("north", NORTH), ("south", SOUTH)] {
        world.add_site(site, pair, &[2], |settings| settings.retain = 8);
    }
    world.run_for(Span::secs(1));
    let pump = world.connected(0, world::mqtt::lasting("pump"));
    let desk = world.connected(2, world::mqtt::lasting("desk"));
    world.want(desk, "plant/+", QoS::ExactlyOnce);
    world.run_for(Span::millis(500));
    (world, [pump, desk])
}

/// A message with everything that may belong to one.
fn rich(qos: QoS, id: u16, payload: &[u8]) -> ::mqtt::testing::Publish {
    let mut message = world::mqtt::message("plant/1", qos, id, payload);
    message.retain = true;
    let properties = message.properties.as_mut().unwrap();
    properties.content_type = Some("text/plain".into());
    properties.response_topic = Some("plant/answers".into());
    properties.correlation_data = Some(b"17".to_vec().into());
    properties.user_properties.push(("line".into(), "3".into()));
    properties.message_expiry_interval = std::num::NonZeroU32::new(60);
    message
}

#[test]
fn what_clients_of_mqtt_say_of_a_message_crosses_with_it() {
    let (mut world, [pump, desk]) = with_mqtt_at_both();
    let spy = world.add_client_at(SOUTH, "spy", 7);
    world.run_for(Span::millis(200));
    world.subscribe(spy, "plant/#");
    world.run_for(Span::millis(200));
    let all = [(QoS::AtMostOnce, 0, "0"), (QoS::AtLeastOnce, 1, "1"), (QoS::ExactlyOnce, 2, "2")];
    for (qos, id, text) in all {
        world.say_5(pump, rich(qos, id, text.as_bytes()));
        world.run_for(Span::millis(100));
    }
    // What the router has retained for it comes with it as well.
    let reigns = (4..6).find(|broker| world.broker(*broker).is_primary()).unwrap();
    world.kill(reigns);
    world.say_5(pump, rich(QoS::AtLeastOnce, 3, b"3"));
    world.run_for(Span::secs(2));
    let came: Vec<_> = world.messages(desk).cloned().collect();
    let had: Vec<_> = came.iter().map(|message| (message.qos, message.payload.to_vec())).collect();
    let sent = all.into_iter().chain([(QoS::AtLeastOnce, 3, "3")]);
    assert_eq!(had, sent.map(|(qos, _, text)| (qos, text.as_bytes().to_vec())).collect::<Vec<_>>());
    for message in &came {
        let expected = rich(message.qos, 1, b"");
        let (had, expected) = (message.properties.clone().unwrap(), expected.properties.unwrap());
        assert_eq!(had.content_type, expected.content_type);
        assert_eq!(had.response_topic, expected.response_topic);
        assert_eq!(had.correlation_data, expected.correlation_data);
        assert_eq!(had.user_properties, expected.user_properties);
        assert!(had.message_expiry_interval.is_some_and(|left| (57..=60).contains(&left.get())), "{had:?}");
    }
    let payloads: Vec<_> = world
        .seen(spy)
        .messages
        .iter()
        .map(|(.., payload)| String::from_utf8_lossy(payload).into_owned())
        .collect();
    assert_eq!(payloads, ["0", "1", "2", "3"], "native clients get the payload alone");
}

/// Messages of other protocols are numbered by brokers, each reign from a number of its own on.
#[test]
fn a_failover_of_clients_of_mqtt_is_no_loss_at_another_site() {
    let (mut world, [pump, desk]) = with_mqtt_at_both();
    let spy = world.add_client_at(SOUTH, "spy", 7);
    world.run_for(Span::millis(200));
    world.subscribe(spy, "plant/#");
    world.run_for(Span::millis(200));
    let say = |world: &mut World, id: u16| {
        world.say_5(pump, world::mqtt::message("plant/1", QoS::AtLeastOnce, id, format!("{id}").as_bytes()));
        world.run_for(Span::millis(100));
    };
    (1..4).for_each(|id| say(&mut world, id));
    world.kill(0);
    world.run_for(Span::secs(1));
    assert!(world.reconnect(pump, 1, world::mqtt::lasting("pump")), "its session is there");
    (4..8).for_each(|id| say(&mut world, id));
    world.run_for(Span::secs(2));
    assert_eq!(world.texts(desk), ["1", "2", "3", "4", "5", "6", "7"]);
    let told: Vec<String> = (1..6).flat_map(|broker| world.log(broker).to_vec()).collect();
    let lost: Vec<&String> =
        told.iter().filter(|line| line.contains("missing") || line.contains("misses")).collect();
    assert!(lost.is_empty(), "{lost:#?}");
    let lost: u64 = world.endpoint(spy).streams().map(|stream| stream.tally.lost()).sum();
    assert_eq!((lost, world.seen(spy).messages.len()), (0, 7));
}

/// It would be out of date there as soon as nobody subscribes it for a while.
#[test]
fn what_is_retained_stays_at_its_site() {
    let (mut world, [pump, desk]) = with_mqtt_at_both();
    world.say_5(pump, rich(QoS::AtLeastOnce, 1, b"on"));
    world.run_for(Span::millis(200));
    assert_eq!(world.texts(desk), ["on"]);
    for (broker, expected) in [(0, 1), (2, 0)] {
        let late = world.connected(broker, world::mqtt::lasting("late"));
        world.want(late, "plant/+", QoS::AtLeastOnce);
        world.run_for(Span::secs(1));
        assert_eq!(world.texts(late).len(), expected, "at broker {broker}");
    }
}

/// A session at the other site that is away is kept what it wants with QoS 1, as at home.
#[test]
fn a_session_of_mqtt_that_is_away_gets_what_another_site_published_meanwhile() {
    let (mut world, [pump, desk]) = with_mqtt_at_both();
    world.cut_off(desk);
    world.run_for(Span::millis(100));
    for (id, text) in [(1, "a"), (2, "b")] {
        world.say_5(pump, world::mqtt::message("plant/1", QoS::AtLeastOnce, id, text.as_bytes()));
        world.run_for(Span::millis(100));
    }
    assert!(world.reconnect(desk, 2, world::mqtt::lasting("desk")), "its session is there");
    world.run_for(Span::millis(200));
    assert_eq!(world.texts(desk), ["a", "b"]);
}

/// Brokers believe the links of sites how a message came, and nobody else; and tell them, and nobody else.
#[test]
fn only_the_links_of_sites_say_and_hear_how_a_message_came() {
    let mut broker = Alone::broker(0, |_| {});
    broker.refuse_dials();
    broker.pass(Span::secs(2));
    assert!(broker.state().is_primary());
    let names = ["@north", "@south", "pump", "desk"];
    let links = names.map(|name| {
        let link = broker.accept();
        broker.tell(link, &hello(Standing::Orphaned, name, 0, 0));
        link
    });
    let [north, south, pump, desk] = links;
    let needs = contract::Needs::NONE;
    for link in [south, desk] {
        broker.tell(link, &Frame::Subscribe { number: 0, needs, filter: "north/+" });
    }
    let contract = contract();
    broker.tell(
        north,
        &Frame::Carry(Carry {
            stream: 0,
            incarnation: 1,
            first_seq: 0,
            contract,
            topic: "north/1",
            publisher: "pump@north",
            origin: "north",
            crossing: contract::Crossing::NONE,
        }),
    );
    broker.tell(
        pump,
        &Frame::Register(Register { stream: 0, incarnation: 1, contract: Some(contract), topic: "north/2" }),
    );
    for link in links {
        broker.delivered(link);
    }
    let flags = MessageFlags::OUT_OF_DATE.with(MessageFlags::AT_LEAST_ONCE).with(MessageFlags::TRAILER);
    let (whole, alone) = (b"12.5xy\x02\x00".to_vec(), b"12.5".to_vec());
    for (from, at_site, at_client) in [
        (north, (flags, whole.clone()), (MessageFlags::OUT_OF_DATE, alone)),
        (pump, (MessageFlags::NONE, whole.clone()), (MessageFlags::NONE, whole.clone())),
    ] {
        broker.send_flagged(from, 0, flags, &whole);
        broker.pass(Span::millis(10));
        assert_eq!((broker.delivered(south), broker.delivered(desk)), (vec![at_site], vec![at_client]));
    }
}

#[test]
fn a_topic_that_another_has_no_contract_for_or_another_one_is_refused_and_told() {
    let mut sites = Sites::new(1);
    let publication = sites.world.advertise(sites.publisher, "plant/pressure", contract());
    let local = sites.world.add_client_at(SOUTH, "other", 7);
    sites.world.run_for(Span::millis(100));
    sites.world.advertise(local, "plant/pressure", contract().tolerate(3));
    sites.world.subscribe(sites.subscriber, "plant/#");
    sites.world.run_for(Span::millis(500));
    sites.publish_for(publication, Span::secs(1));
    let view = sites.world.uplinks[2].view();
    let (router, topic, why) = &view.refused[0];
    assert_eq!((router, topic.as_str()), (&None, "plant/pressure"));
    assert!(why.contains("another contract"), "{why}");
    let told = sites.told();
    assert_eq!(told[2].iter().filter(|word| word.contains("Refused")).count(), 1, "{told:#?}");
}

/// How subscribers are reached is each site's own matter.
#[test]
fn a_topic_may_have_another_link_class_at_each_site() {
    let mut sites = Sites::new(1);
    let terms = contract().over("cloud".parse().unwrap());
    let publication = sites.world.advertise(sites.publisher, "plant/pressure", terms);
    let local = sites.world.add_client_at(SOUTH, "other", 7);
    sites.world.run_for(Span::millis(100));
    sites.world.advertise(local, "plant/pressure", terms);
    sites.world.subscribe(sites.subscriber, "plant/#");
    sites.world.run_for(Span::millis(500));
    sites.publish_for(publication, Span::secs(1));
    let subscriber = sites.subscriber;
    assert_eq!(sites.came(subscriber).len(), 10, "{:#?}", sites.told());
}

/// What cannot be asked for is seen, until it can.
#[test]
fn what_cannot_be_subscribed_is_shown() {
    let mut world = World::of_pairs(3, |_| {}, None);
    world.add_site("north", NORTH, &[2], |_| {});
    world.add_site("south", SOUTH, &[2], |told| told.link = "radio".parse().unwrap());
    world.run_for(Span::secs(1));
    let subscriber = world.add_client_at(SOUTH, "desk", 7);
    world.run_for(Span::millis(200));
    let subscription = world.subscribe(subscriber, "plant/#");
    world.run_for(Span::millis(300));
    let [(router, filter, why)] = &world.uplinks[2].view().unwished[..] else { panic!("nothing is shown") };
    assert_eq!((router.as_deref(), filter.as_str()), (Some("r2"), "+/plant/#"));
    assert!(why.contains("radio"), "{why}");
    world.unsubscribe(subscriber, subscription);
    world.run_for(Span::millis(300));
    assert!(world.uplinks[2].view().unwished.is_empty());
}

/// Who is connected to a router itself cannot speak for a site.
#[test]
fn what_stands_below_a_sites_name_and_is_not_of_it_is_not_carried() {
    let mut sites = Sites::new(1);
    let liar = sites.world.add_client_at(2, "liar", 7);
    sites.world.subscribe(sites.subscriber, "plant/#");
    sites.world.run_for(Span::millis(300));
    let publication = sites.world.advertise(liar, "north/plant/pressure", contract());
    sites.world.run_for(Span::millis(300));
    for _ in 0..5 {
        sites.world.publish(liar, publication, b"1").unwrap();
        sites.world.run_for(Span::millis(100));
    }
    assert_eq!(sites.came(sites.subscriber), []);
    let refused = &sites.world.uplinks[2].view().refused;
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].2.contains("publish only below its own"), "{refused:?}");
}

#[test]
fn two_sites_of_one_name_are_told_and_do_not_fight() {
    let mut sites = Sites::new(1);
    sites.world.add_uplink("north", 2, &[2], |_| {});
    sites.world.run_for(Span::secs(20));
    let told = sites.told();
    let complaints = told.iter().flatten().filter(|word| word.contains("name of its own")).count();
    assert!((1..=10).contains(&complaints), "{told:#?}");
}

/// What is not shared does not leave, and what is not wanted does not come.
#[test]
fn rules_of_both_sites_count() {
    let mut world = World::of_pairs(3, |_| {}, None);
    let filters = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    world.add_uplink("north", 0, &[2], |settings| settings.share = filters(&["plant/#", "wind/+"]));
    world.add_uplink("south", 2, &[2], |settings| settings.want = filters(&["+/speed", "plant/pressure"]));
    world.run_for(Span::secs(1));
    let (publisher, subscriber) =
        (world.add_client_at(NORTH, "pump", 7), world.add_client_at(SOUTH, "desk", 7));
    world.run_for(Span::millis(100));
    world.subscribe(subscriber, "#");
    let topics = ["plant/pressure", "plant/heat", "wind/speed", "office/speed", "wind/1/speed"];
    let publications = topics.map(|topic| world.advertise(publisher, topic, contract()));
    world.run_for(Span::millis(300));
    for _ in 0..3 {
        publications.iter().for_each(|publication| _ = world.publish(publisher, *publication, b"1").unwrap());
        world.run_for(Span::millis(100));
    }
    let mut came: Vec<String> =
        world.seen(subscriber).messages.iter().map(|(topic, ..)| topic.clone()).collect();
    came.sort();
    came.dedup();
    assert_eq!(came, ["plant/pressure", "wind/speed"]);
}

/// The uplink would rather confirm what it has handed on, and more subscribers than can be told apart are no reason to refuse anybody.
#[test]
fn many_subscribers_at_home_and_one_elsewhere_all_get_everything() {
    let mut sites = Sites::new(1);
    let publication = sites.world.advertise(sites.publisher, "plant/pressure", contract());
    let at_home: Vec<usize> =
        (0..70).map(|number| sites.world.add_client_at(NORTH, &format!("panel-{number}"), 7)).collect();
    sites.world.run_for(Span::millis(100));
    let (before, after) = at_home.split_at(40);
    before.iter().for_each(|client| _ = sites.world.subscribe(*client, "plant/#"));
    sites.world.run_for(Span::millis(100));
    let subscriber = sites.subscriber;
    sites.world.subscribe(subscriber, "#");
    sites.world.run_for(Span::millis(300));
    sites.publish_for(publication, Span::secs(1));
    after.iter().for_each(|client| _ = sites.world.subscribe(*client, "plant/#"));
    sites.world.run_for(Span::millis(300));
    sites.publish_for(publication, Span::secs(1));
    sites.world.run_for(Span::millis(300));
    assert_eq!(sites.came(subscriber).len(), 20, "{:#?}", sites.told());
    for client in at_home {
        assert!(sites.came(client).len() >= 10);
        assert!(sites.world.seen(client).subscribed.iter().all(Result::is_ok));
    }
}

/// A site may want more than one client may.
#[test]
fn a_site_has_the_filters_of_all_its_clients() {
    let mut sites = Sites::new(1);
    let publication = sites.world.advertise(sites.publisher, "plant/1999/x", contract());
    for number in 0..10 {
        let client = sites.world.add_client_at(SOUTH, &format!("panel-{number}"), 7);
        sites.world.run_for(Span::millis(50));
        for filter in 0..200 {
            sites.world.subscribe(client, &format!("plant/{}/#", 200 * number + filter));
        }
    }
    sites.world.run_for(Span::secs(1));
    assert_eq!(sites.world.uplinks[0].view().routers[0].wishes, 2_000, "{:?}", sites.told());
    sites.publish_for(publication, Span::secs(1));
    sites.world.run_for(Span::millis(200));
    assert_eq!(sites.world.uplinks[2].view().routers[0].inward.1.messages, 10);
}

/// What comes when it is just not wanted any more is not what is wanted from then on.
#[test]
fn who_comes_back_while_messages_are_under_way_gets_those_that_follow() {
    let mut sites = Sites::new(1);
    let publication = sites.world.advertise(sites.publisher, "plant/pressure", contract());
    let (publisher, subscriber) = (sites.publisher, sites.subscriber);
    sites.world.run_for(Span::millis(200));
    for _ in 0..5 {
        let subscription = sites.world.subscribe(subscriber, "plant/#");
        sites.world.run_for(Span::millis(300));
        sites.publish_for(publication, Span::millis(500));
        sites.world.publish(publisher, publication, b"1").unwrap();
        sites.world.run_for(Span::millis(12));
        sites.world.unsubscribe(subscriber, subscription);
        sites.world.run_for(Span::millis(300));
    }
    let came = sites.came(subscriber).len();
    assert!((25..=30).contains(&came), "{came}");
}

/// The same while a third site goes on to want them, so that they go on to leave.
#[test]
fn who_comes_back_to_what_a_third_site_has_had_meanwhile_gets_what_follows() {
    let mut world = World::of_pairs(4, |_| {}, None);
    for (site, pair) in [("north", NORTH), ("south", SOUTH), ("east", 3)] {
        world.add_site(site, pair, &[2], |_| {});
    }
    world.run_for(Span::secs(1));
    let [publisher, other, third] = [(NORTH, "pump"), (SOUTH, "desk"), (3, "wall")]
        .map(|(pair, name)| world.add_client_at(pair, name, 7));
    world.run_for(Span::millis(100));
    let publication = world.advertise(publisher, "plant/pressure", contract());
    world.subscribe(third, "plant/#");
    world.run_for(Span::millis(300));
    for millis in 0..25 {
        let subscription = world.subscribe(other, "plant/+");
        world.run_for(Span::millis(millis));
        world.publish(publisher, publication, b"1").unwrap();
        world.run_for(Span::millis(25 - millis));
        world.unsubscribe(other, subscription);
        world.run_for(Span::millis(75));
    }
    world.subscribe(other, "plant/+");
    world.run_for(Span::millis(300));
    let before = world.seen(other).messages.len();
    for _ in 0..10 {
        world.publish(publisher, publication, b"1").unwrap();
        world.run_for(Span::millis(100));
    }
    assert_eq!(world.seen(other).messages.len() - before, 10);
    assert_eq!(world.seen(third).messages.len(), 35);
}

/// A router that begins anew has forgotten its epoch, hears of it from sites, and reigns again in a higher one while their clocks are compared.
#[test]
fn a_router_that_is_restarted_again_and_again_is_reached_each_time() {
    let mut sites = Sites::new(1);
    let publication = sites.world.advertise(sites.publisher, "plant/pressure", contract());
    sites.world.subscribe(sites.subscriber, "plant/#");
    // A router that is alone, and whose numbers are drawn.
    sites.world.nodes_fall = true;
    sites.world.kill(5);
    sites.world.run_for(Span::secs(2));
    for round in 0..12 {
        sites.world.kill(4);
        sites.world.run_for(Span::millis(700));
        sites.world.start(4);
        sites.world.run_for(Span::secs(4));
        for uplink in [0, 2] {
            let view = sites.world.uplinks[uplink].view();
            assert!(view.routers[0].reached, "round {round}: {view:#?} {:#?}", sites.told());
        }
        let subscriber = sites.subscriber;
        let before = sites.came(subscriber).len();
        sites.publish_for(publication, Span::secs(1));
        sites.world.run_for(Span::millis(200));
        assert_eq!(sites.came(subscriber).len() - before, 10);
    }
}

#[test]
fn what_the_whole_way_cannot_keep_crosses_without_a_promise_and_that_is_said() {
    let mut sites = Sites::new(1);
    // 1 ms to the site's broker, 5 there, 1 and 20 to the router, 5 there, 20 and 1 on, 5 there, and 1 to who subscribes.
    let [fits, short] = [59, 58].map(|deadline| contract().deadline(Span::millis(deadline)));
    let kept = sites.world.advertise(sites.publisher, "plant/kept", fits);
    let late = sites.world.advertise(sites.publisher, "plant/late", short);
    sites.world.subscribe(sites.subscriber, "plant/#");
    sites.world.run_for(Span::millis(500));
    for _ in 0..5 {
        for publication in [kept, late] {
            sites.world.publish(sites.publisher, publication, b"1").unwrap();
        }
        sites.world.run_for(Span::millis(100));
    }
    let view = sites.world.uplinks[0].view();
    let [(router, topic, why)] = &view.unpromised[..] else { panic!("{view:#?}") };
    assert_eq!((router.as_deref(), topic.as_str()), (Some("r2"), "north/plant/late"));
    assert!(why.starts_with("the whole way may take 59ms, and its deadline is 58ms: 6ms until"), "{why}");
    let there = sites.world.uplinks[2].view().unpromised;
    let [(None, topic, why)] = &there[..] else { panic!("{there:#?}") };
    assert!(topic == "plant/late" && why.contains("the way to this site"), "{there:#?}");
    assert_eq!(sites.came(sites.subscriber).len(), 10);
    let told = sites.told();
    let count = |told: &[String]| told.iter().filter(|word| word.contains("Unpromised")).count();
    assert_eq!((count(&told[0]), count(&told[2])), (1, 0), "once, by who knows the whole way: {told:#?}");
    // Who ends has no trouble any more.
    sites.world.withdraw(sites.publisher, late);
    sites.world.run_for(Span::secs(12));
    for site in [0, 2] {
        let view = sites.world.uplinks[site].view();
        assert!(view.unpromised.is_empty(), "{view:#?}");
    }
}

/// Where any number may be lost, a broker takes what time the deadline leaves it; the way to a site that is far away is reckoned with once.
#[test]
fn what_may_be_lost_and_has_a_deadline_is_promised_from_a_site_that_is_far_away() {
    fn radio() -> LinkClass {
        "radio".parse().unwrap()
    }
    fn with_radio(settings: &mut broker::Settings) {
        let far = LinkDelay { to_subscriber: Span::millis(150), confirmation: Span::millis(300) };
        settings.links = Links::new(settings.links.iter().copied().chain([(radio(), far)]));
    }
    let mut world = World::of_pairs(3, with_radio, None);
    world.add_site("north", NORTH, &[2], |told| (told.link, told.far) = (radio(), Span::millis(150)));
    world.add_site("south", SOUTH, &[2], |_| {});
    world.run_for(Span::secs(1));
    let (publisher, subscriber) =
        (world.add_client_at(NORTH, "pump", 7), world.add_client_at(SOUTH, "desk", 7));
    world.run_for(Span::millis(200));
    world.subscribe(subscriber, "#");
    let terms = Contract::every(Span::millis(100)).deadline(Span::millis(400)).best_effort();
    let publication = world.advertise(publisher, "plant/pressure", terms);
    world.run_for(Span::millis(500));
    for _ in 0..5 {
        world.publish(publisher, publication, b"1").unwrap();
        world.run_for(Span::millis(100));
    }
    let unpromised: Vec<_> = world.uplinks.iter().flat_map(|uplink| uplink.view().unpromised).collect();
    assert!(unpromised.is_empty(), "{unpromised:?}");
    assert_eq!(world.seen(subscriber).messages.len(), 5);
}

/// Each broker of the way plans with how old messages are when they come, and leaves time for what follows.
#[test]
fn every_broker_of_the_way_plans_its_own_part() {
    let mut sites = Sites::new(1);
    let publication = sites.world.advertise(sites.publisher, "plant/pressure", contract());
    sites.world.subscribe(sites.subscriber, "plant/#");
    sites.world.run_for(Span::millis(500));
    sites.publish_for(publication, Span::millis(300));
    let reckoned = |broker: usize, [topic, publisher]: [&str; 2], way: i64| {
        let broker = sites.world.broker(broker);
        let stream = broker.stream_of(topic, publisher).unwrap();
        let (strict, _) = broker.planned_for(stream).unwrap();
        strict.deadline - Span::millis(way)
    };
    // What is the latest age at which a message leaves: 1 + 5; then 1 + 20 and 5; then 20 + 1, and who subscribes is the last.
    assert_eq!(reckoned(0, ["plant/pressure", "pump"], 1), Span::millis(6));
    assert_eq!(reckoned(4, ["north/plant/pressure", "pump@north"], 1), Span::millis(32));
    assert_eq!(reckoned(2, ["plant/pressure", "pump@north"], 1), Span::millis(399));
}

/// What an uplink keeps for a router counts as retention there.
#[test]
fn a_loss_number_that_retention_does_not_cover_on_the_way_is_not_promised_there() {
    for (retain, promised) in [(0, false), (4, true)] {
        let mut world = World::of_pairs(3, |_| {}, None);
        for (site, pair) in [("north", NORTH), ("south", SOUTH)] {
            world.add_site(site, pair, &[2], |told| told.retain = retain);
        }
        world.run_for(Span::secs(1));
        let (publisher, subscriber) =
            (world.add_client_at(NORTH, "pump", 7), world.add_client_at(SOUTH, "desk", 7));
        world.run_for(Span::millis(200));
        // Enough for who publishes: 1 + 50 ms. At the router 27 ms have passed before the 50 begin.
        let tight = Contract::every(Span::millis(70)).deadline(Span::millis(400)).retain(1);
        let publication = world.advertise(publisher, "plant/pressure", tight);
        world.subscribe(subscriber, "#");
        world.run_for(Span::millis(500));
        for _ in 0..10 {
            world.publish(publisher, publication, b"1").unwrap();
            world.run_for(Span::millis(70));
        }
        world.run_for(Span::millis(100));
        assert_eq!(world.seen(subscriber).messages.len(), 10);
        let view = world.uplinks[0].view();
        assert_eq!(view.unpromised.is_empty(), promised, "{view:#?}");
        assert!(view.refused.is_empty());
        if !promised {
            assert!(view.unpromised[0].2.contains("a crash could lose 1 in a row"), "{view:#?}");
        }
    }
}

/// How far clocks are apart is known to half of the quickest way there and back, of each link.
#[test]
fn what_clocks_do_not_tell_is_not_called_late_nor_in_time() {
    let mut sites = Sites::new(1);
    for (deadline, unjudged, late) in [(61, 0, 0), (30, 10, 0)] {
        let topic = format!("plant/{deadline}");
        let terms = contract().deadline(Span::millis(deadline));
        let publication = sites.world.advertise(sites.publisher, &topic, terms);
        let subscriber = sites.world.add_client_at(SOUTH, &format!("desk/{deadline}"), 7);
        sites.world.run_for(Span::millis(300));
        sites.world.subscribe(subscriber, &topic);
        sites.world.run_for(Span::millis(500));
        sites.publish_for(publication, Span::secs(1));
        sites.world.run_for(Span::millis(100));
        let account = sites.world.endpoint(subscriber).streams().next().unwrap();
        assert_eq!(
            (account.tally.received(), account.unjudged, account.late),
            (10, unjudged, late),
            "{deadline}"
        );
    }
}

/// What somebody at another site needs beyond the contract is judged with how old messages are when they come there.
#[test]
fn what_a_subscriber_needs_and_the_way_does_not_keep_is_refused_to_it() {
    let mut sites = Sites::new(1);
    let publication = sites.world.advertise(sites.publisher, "plant/pressure", contract());
    sites.world.subscribe(sites.subscriber, "plant/#");
    sites.world.run_for(Span::millis(500));
    sites.publish_for(publication, Span::millis(500));
    for (deadline, admitted) in [(58, true), (53, false)] {
        let desk = sites.world.add_client_at(SOUTH, &format!("desk/{deadline}"), 7);
        sites.world.run_for(Span::millis(300));
        let needs = contract::Needs { deadline: Some(Span::millis(deadline)), ..contract::Needs::NONE };
        sites.world.subscribe_needing(desk, "plant/pressure", needs);
        sites.world.run_for(Span::millis(300));
        let answers = &sites.world.seen(desk).subscribed;
        assert!(answers.iter().all(|answer| answer.is_ok() == admitted), "{answers:?}");
    }
}

/// What is sent again to a router that has begun anew waits until the receiving site has come back to it.
#[test]
fn the_only_router_may_die_whole_where_retention_covers_its_absence() {
    for (away, before) in [(50, false), (300, false), (700, false), (50, true), (300, true), (700, true)] {
        let (came, published) = world::lonely::lose_the_only_router(away, before);
        assert_eq!(came, (0..published).collect::<Vec<_>>(), "{away} {before}");
    }
}

/// Streams that go by another router come back only when all who want them have had the time to be there.
#[test]
fn who_comes_late_to_a_router_that_is_back_misses_nothing() {
    let mut world = World::of_pairs(5, |_| {}, None);
    for (site, pair) in [("north", 0), ("south", 1), ("east", 2)] {
        world.add_site(site, pair, &[3, 4], |told| told.retain = 20);
    }
    world.run_for(Span::secs(1));
    let publisher = world.add_client_at(0, "pump", 7);
    let subscribers = [1, 2].map(|pair| world.add_client_at(pair, "desk", 7));
    world.run_for(Span::millis(200));
    subscribers.into_iter().for_each(|subscriber| _ = world.subscribe(subscriber, "#"));
    let terms = Contract::every(Span::millis(50)).deadline(Span::secs(1)).retain(2);
    let publications: Vec<u32> =
        (0..8).map(|topic| world.advertise(publisher, &format!("plant/{topic}"), terms)).collect();
    world.run_for(Span::millis(500));
    let mut rounds = 0;
    let mut publish_for = |world: &mut World, span: Span| {
        let end = world.now + span;
        while world.now < end {
            publications
                .iter()
                .for_each(|publication| _ = world.publish(publisher, *publication, b"1").unwrap());
            rounds += 1;
            world.run_for(Span::millis(50));
        }
        rounds
    };
    publish_for(&mut world, Span::secs(1));
    [6, 7].into_iter().for_each(|broker| world.kill(broker));
    publish_for(&mut world, Span::secs(3));
    // The way of one site to the router is slow to come back.
    let cut = |world: &mut World, cut| {
        [(4, 6), (4, 7), (5, 6), (5, 7)]
            .into_iter()
            .for_each(|(uplink, broker)| world.cut_uplink(uplink, broker, cut));
    };
    cut(&mut world, true);
    [6, 7].into_iter().for_each(|broker| world.start(broker));
    publish_for(&mut world, Span::millis(900));
    cut(&mut world, false);
    let rounds = publish_for(&mut world, Span::secs(4));
    world.run_for(Span::secs(1));
    for subscriber in subscribers {
        let seen = &world.seen(subscriber).messages;
        let mut came: Vec<(String, u64)> =
            seen.iter().map(|message| (message.0.clone(), message.1)).collect();
        came.sort();
        came.dedup();
        assert_eq!((came.len(), seen.len()), (8 * rounds, 8 * rounds), "{subscriber}");
    }
}

/// As often as `share` and `want` let it, and not where nobody could say how often that is.
#[test]
fn what_is_wanted_less_often_has_to_be_shared_and_is_of_other_sites() {
    let mut world = World::of_pairs(3, |_| {}, None);
    for (site, pair) in [("north", NORTH), ("south", SOUTH)] {
        world.add_site(site, pair, &[2], |told| {
            told.share = vec!["plant/#".parse().unwrap()];
            told.want = vec!["+/pressure".parse().unwrap()];
        });
    }
    world.run_for(Span::secs(1));
    let publisher = world.add_client_at(NORTH, "pump", 7);
    let subscriber = world.add_client_at(SOUTH, "desk", 7);
    let at_home = world.add_client_at(NORTH, "panel", 7);
    world.run_for(Span::millis(200));
    for filter in ["$every/1s/#", "$every/+/plant/#", "$every/0s/plant/#", "$every/2s/$every/1s/#"] {
        world.subscribe(subscriber, filter);
    }
    world.subscribe(at_home, "$every/1s/#");
    let topics = ["plant/pressure", "plant/heat", "office/pressure"];
    let publications = topics.map(|topic| world.advertise(publisher, topic, contract()));
    world.run_for(Span::millis(500));
    for _ in 0..50 {
        for publication in publications {
            world.publish(publisher, publication, b"1").unwrap();
        }
        world.run_for(Span::millis(100));
    }
    let came: Vec<(String, u64)> =
        world.seen(subscriber).messages.iter().map(|(topic, seq, ..)| (topic.clone(), *seq)).collect();
    let expected: Vec<(String, u64)> =
        (0..5).map(|seq| ("$every/1s/plant/pressure".to_owned(), seq)).collect();
    assert_eq!(came, expected);
    assert!(world.seen(at_home).messages.is_empty());
    // Nobody wants it any more.
    world.unsubscribe(subscriber, 0);
    world.run_for(Span::millis(500));
    let sent = |world: &World| world.uplinks[0].view().routers[0].outward;
    let before = sent(&world);
    world.publish(publisher, publications[0], b"1").unwrap();
    world.run_for(Span::secs(2));
    assert_eq!((before.0, sent(&world)), (0, before));
}

/// A site that is cut off keeps nothing from others, and who wants everything of other sites is not sent what somebody wants less often.
#[test]
fn what_is_wanted_less_often_comes_while_another_site_is_away() {
    const EAST: usize = 2;
    let mut world = World::of_pairs(4, |_| {}, None);
    for (site, pair) in [("north", NORTH), ("south", SOUTH), ("east", EAST)] {
        world.add_site(site, pair, &[3], |_| {});
    }
    world.run_for(Span::secs(1));
    let publisher = world.add_client_at(NORTH, "pump", 7);
    // What a site that wants everything is sent, a client of the router sees.
    let [south, east, at_router] =
        [(SOUTH, "desk"), (EAST, "desk2"), (3, "spy")].map(|(pair, name)| world.add_client_at(pair, name, 7));
    world.run_for(Span::millis(200));
    world.subscribe(south, "$every/1s/plant/#");
    let publication = world.advertise(publisher, "plant/pressure", contract());
    world.run_for(Span::millis(500));
    let publish_for = |world: &mut World, seconds: u32| {
        for _ in 0..10 * seconds {
            world.publish(publisher, publication, b"1").unwrap();
            world.run_for(Span::millis(100));
        }
    };
    let came_east = |world: &World| {
        let views = [0, 1].map(|uplink| world.uplinks[2 * EAST + uplink].view());
        views.iter().map(|view| view.routers[0].inward.1.messages).sum::<u64>()
    };
    for filter in ["+/#", "#"] {
        world.subscribe(at_router, filter);
    }
    publish_for(&mut world, 10);
    let sent = &world.seen(at_router).messages;
    assert!(
        sent.iter().all(|message| message.0 == "north/plant/pressure"),
        "nobody there asked for it: {sent:?}"
    );
    world.subscribe(east, "$every/1s/plant/#");
    publish_for(&mut world, 5);
    let before = world.seen(south).messages.len();
    assert!(came_east(&world) >= 4);
    for (uplink, broker) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        world.cut_uplink(2 * EAST + uplink, 2 * 3 + broker, true);
    }
    publish_for(&mut world, 20);
    let came = world.seen(south).messages.len() - before;
    assert!((18..=21).contains(&came), "{came}");
}
