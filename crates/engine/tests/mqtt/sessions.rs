//! Sessions: who is let in, who is taken over, and what outlives a connection.

use crate::world::World;
use crate::world::mqtt::{Got, lasting, message, will};
use contract::Span;
use mqtt::packet::Version;
use mqtt::testing::{QoS, connect, encode_5, publish, v5};
use std::num::NonZeroU32;
use wire::Transport;

/// A CONNECT whose session ends with its connection.
pub fn passing(client: &str) -> v5::Connect {
    v5::Connect { client_id: client.into(), keep_alive: 60, ..Default::default() }
}

#[test]
fn a_client_that_comes_and_goes_leaves_no_timers_behind() {
    let mut world = World::serving(|_| {});
    let client = world.connected(0, lasting("comes and goes"));
    for _ in 0..100 {
        world.cut_off(client);
        assert!(world.reconnect(client, 0, lasting("comes and goes")));
    }
    assert!(world.timers(0) <= 2, "{} timers", world.timers(0));
}

#[test]
fn a_client_of_3_1_1_that_sends_a_great_deal_at_once_is_slowed_down_and_not_expelled() {
    let mut world = World::serving(|settings| settings.limits.receive_maximum = 10);
    for qos in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
        let client = world.connected_3(0, "burst", true);
        let all: Vec<u8> =
            (1..=1_000).flat_map(|id| publish(Version::V311, "t", qos, id, b"x").unwrap()).collect();
        world.say(client, &all);
        world.run_for(Span::secs(1));
        let answered = |got: &&Got| matches!(got, Got::Puback(..) | Got::Pubrec(..));
        assert_eq!(world.mqtt[client].got.iter().filter(answered).count(), 1_000);
        assert!(!world.mqtt[client].closed);
    }
}

/// It has no word for a refusal, and must not take its message for safe. Who runs the broker is told.
#[test]
fn a_client_of_3_1_1_that_may_not_publish_on_a_topic_is_disconnected_and_one_of_5_hears_why() {
    let mut world = World::serving(|_| {});
    let old = world.connected_3(0, "old", true);
    world.say(old, &publish(Version::V311, "$SYS/forged", QoS::AtLeastOnce, 1, b"x").unwrap());
    let new = world.connected(0, passing("new"));
    world.say(new, &publish(Version::V5, "$SYS/forged", QoS::AtLeastOnce, 1, b"x").unwrap());
    world.run_for(Span::millis(50));
    assert!(world.mqtt[old].closed);
    assert!(!world.mqtt[old].got.iter().any(|got| matches!(got, Got::Puback(..))));
    assert!(!world.mqtt[new].closed);
    assert!(matches!(world.last_got(new), Got::Puback(1, 0x87)), "{:?}", world.last_got(new));
    for client in ["old", "new"] {
        let told = format!("refused `$SYS/forged` of {client}");
        assert!(world.log(0).iter().any(|line| line.contains(&told)), "{:?}", world.log(0));
    }
}

#[test]
fn a_client_of_5_that_ignores_the_receive_maximum_is_expelled() {
    let mut world = World::serving(|settings| settings.limits.receive_maximum = 10);
    let client = world.connected(0, passing("burst"));
    let all: Vec<u8> =
        (1..=11).flat_map(|id| publish(Version::V5, "t", QoS::ExactlyOnce, id, b"x").unwrap()).collect();
    world.mqtt[client].answers = false;
    world.say(client, &all);
    world.run_for(Span::secs(1));
    assert_eq!(world.last_got(client), &Got::Disconnect { code: 0x93, reference: None });
}

#[test]
fn a_deposed_primary_forgets_the_sessions_of_clients_that_were_connected_to_it() {
    let mut world = World::serving(|_| {});
    world.cut_pair();
    world.run_for(Span::secs(2));
    assert!(world.broker(0).is_primary() && world.broker(1).is_primary(), "each takes the other for dead");
    for broker in 0..2 {
        let client = world.connected(broker, lasting(["here", "there"][usize::from(broker)]));
        world.want(client, "t", QoS::AtLeastOnce);
    }
    world.mend_pair();
    world.run_for(Span::secs(3));
    let reigning = usize::from(world.broker(1).is_primary());
    assert!(world.broker(reigning).is_protected());
    assert_eq!(world.stats(reigning).sessions, 1);
    assert_eq!(world.stats(1 - reigning).sessions, 1);
    // Who was connected to the deposed one has been sent to the other.
    let sent_away = Got::Disconnect { code: 0x9c, reference: Some(["a:1883", "b:1883"][reigning].into()) };
    assert_eq!(world.last_got(1 - reigning), &sent_away);
}

fn code_of(got: &Got) -> u8 {
    match got {
        Got::Connack { code, .. } => *code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn connections_that_cannot_be_are_refused_with_their_reason() {
    let mut world = World::serving(|settings| settings.limits.sessions = 1);
    let refusals = [
        (v5::Connect { client_id: "x".repeat(124).into(), ..passing("") }, 0x85),
        (v5::Connect { client_id: "bad\u{7}".into(), ..passing("") }, 0x85),
        (v5::Connect { auth_method: Some("magic".into()), ..passing("a") }, 0x8c),
        (v5::Connect { last_will: Some(will("$SYS/x", "x")), ..passing("a") }, 0x90),
    ];
    for (hello, code) in refusals {
        assert_eq!(code_of(&world.try_connect(0, hello)), code);
    }
    world.connected(0, passing("first"));
    assert_eq!(code_of(&world.try_connect(0, passing("one too many"))), 0x97);
    let nameless = world.add_mqtt(Version::V311);
    world.dial(nameless, 0, connect(Version::V311, "", false).unwrap());
    world.run_for(Span::millis(50));
    assert_eq!(code_of(world.last_got(nameless)), 2, "3.1.1 has a name or begins anew");
}

#[test]
fn a_client_without_a_name_is_given_one_of_its_own() {
    let mut world = World::serving(|_| {});
    let names: Vec<String> = (0..2)
        .map(|_| match world.try_connect(0, passing("")) {
            Got::Connack { code: 0, more: Some(more), .. } => more.assigned_client_id.unwrap().to_string(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_ne!(names[0], names[1]);
}

#[test]
fn a_later_connection_takes_the_session_over() {
    let mut world = World::serving(|_| {});
    let first = world.connected(0, lasting("same"));
    world.want(first, "t", QoS::AtLeastOnce);
    let second = world.connected(0, v5::Connect { clean_start: false, ..lasting("same") });
    assert_eq!(world.last_got(first), &Got::Disconnect { code: 0x8e, reference: None });
    assert!(matches!(world.mqtt[second].got[0], Got::Connack { present: true, .. }));
    world.send(second, "t", QoS::AtLeastOnce, b"x");
    world.run_for(Span::millis(50));
    assert_eq!(world.texts(second), ["x"]);
    assert_eq!((world.stats(0).connections, world.stats(0).sessions), (1, 1));
}

#[test]
fn a_session_ends_when_its_time_is_over_or_by_a_clean_start() {
    let mut world = World::serving(|_| {});
    let short = || v5::Connect { session_expiry_interval_secs: 5, clean_start: false, ..passing("short") };
    let client = world.connected(0, short());
    world.want(client, "t", QoS::AtLeastOnce);
    world.cut_off(client);
    world.run_for(Span::secs(4));
    assert!(world.reconnect(client, 0, short()));
    world.cut_off(client);
    world.run_for(Span::secs(6));
    assert_eq!(world.stats(0).sessions, 0);
    assert_eq!(world.stats(1).sessions, 0, "the backup knows");
    assert!(!world.reconnect(client, 0, short()));
    world.cut_off(client);
    assert!(!world.reconnect(client, 0, v5::Connect { clean_start: true, ..short() }));
    // What a session ends with may be changed at its end.
    world.say_5(client, v5::Disconnect { session_expiry_interval_secs: Some(0), ..Default::default() });
    world.run_for(Span::millis(50));
    assert_eq!(world.stats(0).sessions, 0);
}

/// What is to last for a while lasts as long as it would have.
#[test]
fn setting_the_clock_throws_nobody_out_and_ends_nothing() {
    for by in [Span::secs(500), -Span::secs(500)] {
        let mut world = World::serving(|_| {});
        let connected = world.connected(0, passing("connected"));
        let short =
            || v5::Connect { session_expiry_interval_secs: 20, clean_start: false, ..passing("short") };
        let away = world.connected(0, short());
        world.want(away, "t", QoS::AtLeastOnce);
        world.cut_off(away);
        let publisher = world.connected(0, passing("publisher"));
        let mut expiring = message("t", QoS::AtLeastOnce, world.new_id(publisher), b"lasts");
        expiring.properties.as_mut().unwrap().message_expiry_interval = NonZeroU32::new(20);
        expiring.retain = true;
        world.say_5(publisher, expiring);
        world.run_for(Span::secs(2));
        assert_eq!(world.stats(0).retained, 1);
        world.set_clock(0, by);
        world.run_for(Span::secs(2));
        assert!(!world.mqtt[connected].closed, "{by}");
        assert_eq!(world.stats(0).retained, 1);
        let late = world.connected(0, passing("late"));
        world.want(late, "#", QoS::AtLeastOnce);
        assert!(world.reconnect(away, 0, short()));
        world.run_for(Span::millis(50));
        assert_eq!((world.texts(late), world.texts(away)), (vec!["lasts".into()], vec!["lasts".into()]));
        let left = world.messages(away).next().unwrap().properties.as_ref().unwrap().message_expiry_interval;
        assert_eq!(left, NonZeroU32::new(16), "{by}");
        // And it ends when that is over.
        world.cut_off(away);
        world.run_for(Span::secs(25));
        assert_eq!(world.stats(0).retained, 0, "{by}");
        assert_eq!(world.stats(0).sessions, 3, "{by}");
    }
}

#[test]
fn a_session_that_lasts_no_longer_is_not_known_elsewhere() {
    let mut world = World::serving(|_| {});
    let client = world.connected(0, lasting("once lasting"));
    world.want(client, "t", QoS::AtLeastOnce);
    world.cut_off(client);
    let publisher = world.connected(0, passing("publisher"));
    world.send(publisher, "t", QoS::AtLeastOnce, b"x");
    world.run_for(Span::millis(50));
    assert_eq!((world.stats(1).sessions, world.stats(1).waiting), (1, 1));
    assert!(world.reconnect(client, 0, v5::Connect { clean_start: false, ..passing("once lasting") }));
    world.run_for(Span::millis(50));
    assert_eq!(world.texts(client), ["x"]);
    assert_eq!((world.stats(1).sessions, world.stats(1).waiting), (0, 0));
}

#[test]
fn who_is_silent_beyond_the_keep_alive_is_expelled_and_who_pings_is_not() {
    let mut world = World::serving(|_| {});
    let silent = world.connected(0, v5::Connect { keep_alive: 10, ..passing("silent") });
    let pinging = world.connected(0, v5::Connect { keep_alive: 10, ..passing("pinging") });
    let carefree = world.connected(0, v5::Connect { keep_alive: 0, ..passing("carefree") });
    for second in 1..=40 {
        world.run_for(Span::secs(1));
        if second % 10 == 0 {
            world.say_5(pinging, v5::Packet::PingRequest);
        }
        assert_eq!(world.mqtt[silent].closed, second >= 15, "after {second} s");
    }
    assert_eq!(world.last_got(silent), &Got::Disconnect { code: 0x8d, reference: None });
    assert!(!world.mqtt[pinging].closed && !world.mqtt[carefree].closed);
    assert_eq!(world.last_got(pinging), &Got::Pong);
}

#[test]
fn the_backup_sends_clients_to_the_primary() {
    let mut world = World::serving(|_| {});
    match world.try_connect(1, passing("lost")) {
        Got::Connack { code: 0x9c, more: Some(more), .. } => {
            assert_eq!(more.server_reference.as_deref(), Some("a:1883"));
        }
        other => panic!("{other:?}"),
    }
    let old = world.add_mqtt(Version::V311);
    world.dial(old, 1, connect(Version::V311, "lost", true).unwrap());
    world.run_for(Span::secs(1));
    assert_eq!(code_of(world.last_got(old)), 3);
}

/// Where clients of every kind of door are sent by a word of this kind.
fn told(world: &World, clients: [usize; 4]) -> [Option<String>; 4] {
    clients.map(|client| match world.mqtt[client].got.as_slice() {
        [Got::Connack { code: 0x9c, more: Some(more), .. }] => {
            more.server_reference.as_ref().map(ToString::to_string)
        }
        [Got::Connack { code: 0, .. }, .., Got::Disconnect { code: 0x9c, reference }] => reference.clone(),
        [Got::Connack { code: 0x88, .. }] => None,
        other => panic!("{other:?}"),
    })
}

const KINDS: [Transport; 4] =
    [Transport::Plain, Transport::Tls, Transport::WebSocket, Transport::SecureWebSocket];

/// Clients of every kind of door say hello to a broker.
fn by_every_door(world: &mut World, broker: u8) -> [usize; 4] {
    let clients = KINDS.map(|transport| {
        let client = world.add_mqtt(Version::V5);
        world.mqtt[client].transport = transport;
        let hello = passing(&format!("by {transport}"));
        world.dial(client, broker, encode_5(hello.into()).unwrap());
        client
    });
    world.run_for(Span::secs(1));
    clients
}

fn some(references: [&str; 4]) -> [Option<String>; 4] {
    references.map(|reference| Some(reference.to_owned()))
}

#[test]
fn clients_are_sent_to_a_listener_of_the_kind_by_which_they_came() {
    let every = |settings: &mut mqtt::Settings| {
        settings.server_references = mqtt::References {
            plain: Some("other:1883".into()),
            tls: Some("other:8883".into()),
            web_socket: Some("other:8083".into()),
            secure_web_socket: Some("other:8084".into()),
        };
    };
    let expected = some(["other:1883", "other:8883", "other:8083", "other:8084"]);
    let mut world = World::serving(every);
    let clients = by_every_door(&mut world, 1);
    assert_eq!(told(&world, clients), expected);
    // The same in the word to those whose primary hands over.
    let clients = by_every_door(&mut world, 0);
    world.leave(0);
    world.run_for(Span::secs(1));
    assert_eq!(told(&world, clients), expected);
}

/// How a gateway is tuned, and whom it names at each kind of listener.
type Case = (fn(&mut mqtt::Settings), [Option<String>; 4]);

#[test]
fn where_the_other_broker_has_no_such_listener_clients_are_sent_to_tcp_or_else_tls() {
    let cases: [Case; 4] = [
        (
            |settings| {
                settings.server_references.tls = Some("other:8883".into());
            },
            some(["a:1883", "other:8883", "a:1883", "a:1883"]),
        ),
        (
            |settings| {
                settings.server_references =
                    mqtt::References { tls: Some("other:8883".into()), ..Default::default() };
            },
            some(["other:8883"; 4]),
        ),
        (
            |settings| {
                settings.server_references =
                    mqtt::References { secure_web_socket: Some("other:8084".into()), ..Default::default() };
            },
            [None, None, None, Some("other:8084".to_owned())],
        ),
        (|settings| settings.server_references = Default::default(), [const { None }; 4]),
    ];
    for (tune, expected) in cases {
        let mut world = World::serving(tune);
        let clients = by_every_door(&mut world, 1);
        assert_eq!(told(&world, clients), expected);
    }
}

#[test]
fn who_comes_just_before_a_promotion_is_let_in_by_it_with_what_it_has_sent() {
    let mut world = World::serving(|settings| settings.limits.hold = Span::secs(2));
    let client = world.add_mqtt(Version::V5);
    let mut early = connect(Version::V5, "early", true).unwrap();
    early.extend(publish(Version::V5, "t", QoS::AtLeastOnce, 1, b"early").unwrap());
    world.dial(client, 1, early);
    world.run_for(Span::millis(50));
    assert!(world.mqtt[client].got.is_empty());
    world.kill(0);
    world.run_for(Span::secs(1));
    assert!(matches!(world.mqtt[client].got[..], [Got::Connack { code: 0, .. }, Got::Puback(1, 0)]));
}

#[test]
fn a_client_of_3_1_1_keeps_a_longer_keep_alive_than_the_longest_since_it_cannot_be_told() {
    let mut world = World::serving(|settings| settings.limits.keep_alive = Span::secs(10));
    let client = world.connected_3(0, "three", true);
    world.run_for(Span::secs(70));
    assert!(!world.mqtt[client].closed);
    world.run_for(Span::secs(30));
    assert!(world.mqtt[client].closed);
}
