//! Nobody's command holds up the data: a broker in the turns of a driver, with commands that concern a thousand topics. In every turn a
//! message comes on a topic of somebody else, and leaves in the same turn; and no turn does more for commands than its share.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::world;

use broker::{Settings, UNITS_PER_SLICE};
use contract::{Contract, NodeId, Span, Time};
use engine::testing::Log;
use engine::{BrokerNode, Node};
use mqtt::packet::Version;
use mqtt::testing::{QoS, connect, encode_3, publish, v3};
use std::num::NonZeroU16;
use wire::{
    Decoded, Farewell, FarewellReason, Frame, LinkChange, LinkId, Message, MessageFlags, MessageKind, Outbox,
    Protocol, Register, Standing, decode,
};
use world::alone::hello;
use world::seat::Seat;
use world::{START, settings};

/// Topics that a command concerns.
const TOPICS: usize = 1_000;
/// What one turn may do for commands at most: its slice, and what was begun with the last unit of it.
const PER_TURN_MAX: usize = 2 * UNITS_PER_SLICE;

struct Host {
    seat: Seat<BrokerNode<Log>>,
    turns: usize,
    /// The publisher and the subscriber of the topic that is watched, and the messages so far.
    watched: Option<(LinkId, LinkId, u64)>,
}

impl Host {
    fn new(tune: impl FnOnce(&mut Settings)) -> Host {
        let mut settings = settings(0, NodeId(7), START);
        (settings.has_peer, settings.limits.filters_per_session) = (false, 2 * TOPICS);
        tune(&mut settings);
        let gateway = world::mqtt::gateway(0, NodeId(7), |settings| {
            settings.limits.subscriptions_per_session = 2 * TOPICS;
        });
        let node = BrokerNode::new(settings, Log::default()).with_gateway(gateway);
        let mut host = Host { seat: Seat::new(node, START), turns: 0, watched: None };
        while !host.seat.node.broker().is_primary() {
            host.seat.now = host.seat.now.max(host.seat.node.next_deadline());
            host.turn();
        }
        host.watch();
        host
    }

    fn accept(&mut self, protocol: Protocol) -> LinkId {
        self.seat.open(LinkChange::Accepted(protocol))
    }

    fn client(&mut self, name: &str) -> LinkId {
        let link = self.accept(Protocol::Verge);
        self.tell(link, &[hello(Standing::Orphaned, name, 0, 0)]);
        self.rest();
        link
    }

    /// Somebody has said so much; the broker reads it in its next turn.
    fn tell(&mut self, link: LinkId, frames: &[Frame<'_>]) {
        let mut outbox = Outbox::default();
        frames.iter().for_each(|frame| outbox.push(frame));
        self.seat.kept.entry(link).or_default().extend_from_slice(outbox.unsent());
    }

    /// A topic of somebody who has nothing to do with all the others.
    fn watch(&mut self) {
        let (publisher, subscriber) = (self.client("watched"), self.client("watcher"));
        self.tell(publisher, &[register(0, "$watched/t")]);
        self.tell(
            subscriber,
            &[Frame::Subscribe { number: 0, needs: contract::Needs::NONE, filter: "$watched/t" }],
        );
        self.rest();
        self.watched = Some((publisher, subscriber, 0));
    }

    fn turn(&mut self) {
        self.turns += 1;
        self.seat.turn();
        self.seat.now = self.seat.now + Span::micros(100);
    }

    /// Turns until nothing waits.
    fn rest(&mut self) {
        while !self.seat.kept.is_empty() || self.is_busy() {
            self.turn();
        }
        self.turn();
    }

    fn is_busy(&self) -> bool {
        self.seat.node.next_deadline() == Time::ZERO || self.seat.is_busy()
    }

    /// Frames that were written on a link since the last look, by the beginning of their names.
    fn heard(&mut self, link: LinkId, name: &str) -> usize {
        let bytes = self.seat.wires.take(link);
        let (mut rest, mut heard) = (&bytes[..], 0);
        while let Ok(Decoded::Frame(frame, used)) = decode(rest) {
            rest = &rest[used..];
            heard += usize::from(format!("{frame:?}").starts_with(name));
        }
        heard
    }

    fn packets(&mut self, link: LinkId, kind: u8) -> usize {
        let bytes = self.seat.wires.take(link);
        packets_in(&bytes).filter(|packet| *packet == kind).count()
    }

    /// Turns until `done` things have been done, of which `progress` says how many more there are since it was last asked. In each turn
    /// the message that came has left, and so much was done for commands at most.
    fn carry_on(&mut self, what: &str, done: usize, mut progress: impl FnMut(&mut Host) -> usize) {
        let (publisher, subscriber, mut seq) = self.watched.unwrap();
        let (begun, mut so_far) = (self.turns, 0);
        self.heard(subscriber, "Deliver");
        while so_far < done || self.is_busy() || !self.seat.kept.is_empty() {
            let message =
                Message { stream: 0, flags: MessageFlags::NONE, seq, created: self.seat.now, payload: b"m" };
            let mut outbox = Outbox::default();
            outbox.push_message(MessageKind::Publish, &message);
            self.seat.kept.entry(publisher).or_default().extend_from_slice(outbox.unsent());
            seq += 1;
            self.turn();
            assert_eq!(
                self.heard(subscriber, "Deliver"),
                1,
                "{what}: the message of turn {} waited",
                self.turns
            );
            let more = progress(self);
            assert!(more <= PER_TURN_MAX, "{what}: one turn did {more}");
            so_far += more;
            assert!(self.turns - begun <= 100 * TOPICS, "{what}: it does not end, {so_far} of {done}");
        }
        self.watched = Some((publisher, subscriber, seq));
        let turns = self.turns - begun;
        assert!(turns >= done / PER_TURN_MAX, "{what}: all at once, in {turns} turns");
    }

    /// A client that publishes a thousand topics.
    fn publisher(&mut self) -> LinkId {
        let link = self.client("publisher");
        let topics = topics();
        let frames: Vec<Frame<'_>> =
            (0..).zip(&topics).map(|(number, topic)| register(number, topic)).collect();
        self.tell(link, &frames);
        self.carry_on("registrations", TOPICS, |host| host.heard(link, "Verdict"));
        link
    }
}

fn topics() -> Vec<String> {
    (0..TOPICS).map(|number| format!("plant/{number}/speed")).collect()
}

fn register(stream: u32, topic: &str) -> Frame<'_> {
    let contract = Contract { loss: contract::Loss::AtMost(1), ..Contract::every(Span::secs(1)) };
    Frame::Register(Register { stream, incarnation: 1, contract: Some(contract), topic })
}

/// The kinds of the packets of MQTT in these bytes.
fn packets_in(bytes: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (first, after) = rest.split_first()?;
        let digits = after.iter().take_while(|digit| **digit >= 0x80).count() + 1;
        let length = after[..digits].iter().rev().fold(0, |sum, digit| sum << 7 | usize::from(digit & 0x7F));
        rest = &after[digits + length..];
        Some(first >> 4)
    })
}

fn subscribe_all(filters: &[String]) -> Vec<Frame<'_>> {
    (0..)
        .zip(filters)
        .map(|(number, filter)| Frame::Subscribe { number, needs: contract::Needs::NONE, filter })
        .collect()
}

#[test]
fn registrations_and_exact_subscriptions_leave_every_turn_to_messages() {
    let mut host = Host::new(|_| {});
    host.publisher();
    let subscriber = host.client("subscriber");
    host.tell(subscriber, &subscribe_all(&topics()));
    host.carry_on("subscriptions", TOPICS, |host| host.heard(subscriber, "Subscribed"));
    let unsubscribe: Vec<Frame<'_>> =
        (0..TOPICS as u32).map(|number| Frame::Unsubscribe { number }).collect();
    host.tell(subscriber, &unsubscribe);
    host.carry_on("no subscriptions", 0, |_| 0);
}

#[test]
fn one_subscription_of_everything_is_answered_when_every_topic_has_it() {
    let mut host = Host::new(|_| {});
    let publisher = host.publisher();
    let subscriber = host.client("subscriber");
    host.tell(
        subscriber,
        &[
            Frame::Subscribe { number: 3, needs: contract::Needs::NONE, filter: "plant/#" },
            Frame::Poll { number: 9 },
        ],
    );
    let mut turns = 0;
    host.carry_on("everything", 1, |host| {
        turns += 1;
        host.heard(subscriber, "Subscribed")
    });
    assert!(turns >= TOPICS / PER_TURN_MAX, "in {turns} turns");
    // Whoever speaks next on that connection was behind it, and is answered now.
    let message =
        Message { stream: 999, flags: MessageFlags::NONE, seq: 0, created: host.seat.now, payload: b"m" };
    let mut outbox = Outbox::default();
    outbox.push_message(MessageKind::Publish, &message);
    host.seat.kept.entry(publisher).or_default().extend_from_slice(outbox.unsent());
    host.rest();
    assert_eq!(host.heard(subscriber, "Deliver"), 1, "the last topic has it");
    host.tell(subscriber, &[Frame::Unsubscribe { number: 3 }]);
    host.turn();
    assert!(host.seat.node.broker().has_tasks(), "topics are cleared in slices");
    host.carry_on("nothing", 0, |_| 0);
}

#[test]
fn a_number_that_is_used_for_another_filter_gives_up_the_first() {
    let mut host = Host::new(|settings| settings.limits.filters_per_session = 3);
    let subscriber = host.client("subscriber");
    let wish = |number, filter| Frame::Subscribe { number, needs: contract::Needs::NONE, filter };
    let filters = |host: &Host| {
        host.seat.node.broker().filters_of("subscriber").map(str::to_owned).collect::<Vec<String>>()
    };
    host.tell(subscriber, &[wish(0, "a"), wish(1, "b"), wish(2, "b")]);
    host.rest();
    // Again the same, one that nobody else means, and one that another number means as well.
    host.tell(subscriber, &[wish(0, "a"), wish(0, "c"), wish(2, "d")]);
    host.rest();
    assert_eq!(filters(&host), ["b", "c", "d"]);
    host.tell(subscriber, &[wish(2, "a/#/b")]);
    host.rest();
    assert_eq!(filters(&host), ["b", "c", "d"], "what is no filter changes nothing");
}

#[test]
fn what_follows_a_subscription_on_its_connection_is_answered_after_it() {
    let mut host = Host::new(|_| {});
    host.publisher();
    let subscriber = host.client("subscriber");
    host.tell(
        subscriber,
        &[
            Frame::Subscribe { number: 3, needs: contract::Needs::NONE, filter: "#" },
            Frame::Poll { number: 9 },
        ],
    );
    host.turn();
    assert_eq!(host.heard(subscriber, "PollReply"), 0, "the subscription has not been answered");
    host.rest();
    assert_eq!(host.heard(subscriber, "PollReply"), 1);
}

#[test]
fn a_subscriber_of_everything_that_leaves_is_forgotten_in_slices() {
    let mut host = Host::new(|_| {});
    host.publisher();
    let subscriber = host.client("subscriber");
    host.tell(subscriber, &[Frame::Subscribe { number: 0, needs: contract::Needs::NONE, filter: "#" }]);
    host.rest();
    host.tell(subscriber, &[Frame::Farewell(Farewell { reason: FarewellReason::Leaving, text: "" })]);
    host.turn();
    assert!(host.seat.node.broker().has_tasks(), "not at once");
    assert_eq!(host.seat.node.broker().occupancy().sessions, 1, "its name is free");
    let begun = host.turns;
    host.carry_on("the end of a session", 0, |_| 0);
    assert!(host.turns - begun >= TOPICS / PER_TURN_MAX - 1);
}

#[test]
fn streams_that_are_unregistered_or_left_end_in_slices() {
    let mut host = Host::new(|settings| settings.limits.stream_linger = Span::millis(200));
    let publisher = host.publisher();
    let frames: Vec<Frame<'_>> = (0..TOPICS as u32 / 2).map(|stream| Frame::Unregister { stream }).collect();
    host.tell(publisher, &frames);
    let mut streams = host.seat.node.broker().occupancy().streams;
    let mut fewer = move |host: &mut Host| {
        let now = host.seat.node.broker().occupancy().streams;
        std::mem::replace(&mut streams, now) - now
    };
    host.carry_on("unregistered", TOPICS / 2, &mut fewer);
    host.seat.node.handle_link(host.seat.now, publisher, LinkChange::Closed, &mut host.seat.wires);
    assert!(host.seat.node.broker().has_tasks(), "its streams lose their publisher in slices");
    host.carry_on("left", TOPICS / 2, &mut fewer);
    assert_eq!(host.seat.node.broker().occupancy().streams, 1);
}

#[test]
fn clients_that_come_all_at_once_are_greeted_in_slices() {
    let mut host = Host::new(|_| {});
    let links: Vec<LinkId> = (0..TOPICS).map(|_| host.accept(Protocol::Verge)).collect();
    for (number, link) in links.iter().enumerate() {
        host.tell(*link, &[hello(Standing::Orphaned, &format!("c{number}"), 0, 0)]);
    }
    host.carry_on("greetings", TOPICS, |host| links.iter().map(|link| host.heard(*link, "Hello")).sum());
}

#[test]
fn questions_are_answered_in_slices() {
    let mut host = Host::new(|_| {});
    host.publisher();
    let asker = host.client("asker");
    let frames: Vec<Frame<'_>> =
        (0..500).map(|_| Frame::StatusRequest { first_stream: 0, rows: 256 }).collect();
    host.tell(asker, &frames);
    // Each has 256 rows.
    host.carry_on("questions", 500, |host| 32 * host.heard(asker, "NodeStatus") / 32);
    assert!(host.turns >= 500 * 256 / 8 / PER_TURN_MAX);
}

#[test]
fn a_backup_that_joins_is_told_in_slices() {
    let mut host = Host::new(|settings| settings.has_peer = true);
    host.publisher();
    let subscriber = host.client("subscriber");
    host.tell(subscriber, &subscribe_all(&topics()));
    host.rest();
    let peer = host.accept(Protocol::Verge);
    host.tell(peer, &[hello(Standing::Seeking, "b", 99, 0), Frame::Join]);
    let mut synced = 0;
    host.carry_on("joining", 2 * TOPICS, |host| {
        let words = host.seat.wires.take(peer);
        let (mut rest, mut told) = (&words[..], 0);
        while let Ok(Decoded::Frame(frame, used)) = decode(rest) {
            rest = &rest[used..];
            told += usize::from(matches!(frame, Frame::Announce(_) | Frame::Session { .. }));
            synced += usize::from(matches!(frame, Frame::Synced));
        }
        told
    });
    assert_eq!(synced, 1);
}

fn mqtt_client(host: &mut Host, name: &str) -> LinkId {
    let link = host.accept(Protocol::Mqtt);
    host.seat.kept.entry(link).or_default().extend(connect(Version::V311, name, false).unwrap());
    host.rest();
    assert_eq!(host.packets(link, 2), 1, "CONNACK");
    link
}

fn mqtt_subscribe(host: &mut Host, link: LinkId, filters: &[String]) {
    let topic_filters = filters.iter().map(|filter| (filter.as_str().into(), QoS::AtMostOnce)).collect();
    let packet = v3::Packet::Subscribe { packet_id: NonZeroU16::MIN, topic_filters };
    host.seat.kept.entry(link).or_default().extend(encode_3(packet).unwrap());
}

#[test]
fn one_packet_of_mqtt_with_a_thousand_filters_is_dealt_with_in_slices() {
    let mut host = Host::new(|_| {});
    host.publisher();
    let link = mqtt_client(&mut host, "m");
    mqtt_subscribe(&mut host, link, &topics());
    let mut before = 0;
    host.carry_on("filters", TOPICS, |host| {
        let now = host.seat.node.gateway().unwrap().stats().subscriptions as usize;
        now - std::mem::replace(&mut before, now)
    });
    assert_eq!(host.packets(link, 9), 1, "SUBACK comes once");
    // It leaves, and what its filters meant is counted no more, in slices.
    host.seat.node.handle_link(host.seat.now, link, LinkChange::Closed, &mut host.seat.wires);
    let link = host.accept(Protocol::Mqtt);
    host.seat.kept.entry(link).or_default().extend(connect(Version::V311, "m", true).unwrap());
    host.carry_on("a session that begins anew", 0, |_| 0);
    assert_eq!(host.seat.node.gateway().unwrap().stats().subscriptions, 0);
}

#[test]
fn one_filter_of_mqtt_for_everything_is_judged_in_slices() {
    let mut host = Host::new(|_| {});
    host.publisher();
    let link = mqtt_client(&mut host, "m");
    let begun = host.turns;
    mqtt_subscribe(&mut host, link, &["plant/#".to_owned()]);
    host.carry_on("everything", 1, |host| host.packets(link, 9));
    assert!(host.turns - begun >= TOPICS / PER_TURN_MAX, "in {} turns", host.turns - begun);
}

#[test]
fn what_is_retained_is_given_in_slices() {
    let mut host = Host::new(|_| {});
    let publisher = mqtt_client(&mut host, "p");
    for topic in topics() {
        let mut bytes = publish(Version::V311, &topic, QoS::AtMostOnce, 0, b"kept").unwrap();
        bytes[0] |= 1;
        host.seat.kept.entry(publisher).or_default().extend(bytes);
    }
    host.rest();
    let link = mqtt_client(&mut host, "m");
    mqtt_subscribe(&mut host, link, &["#".to_owned()]);
    host.carry_on("retained", TOPICS, |host| host.packets(link, 3));
}

/// Twice as many topics and filters take no more than a little over twice as many looks. Going through all topics for each filter, or
/// through all filters for each topic, would take four times as many.
#[cfg(debug_assertions)]
#[test]
fn twice_as_many_subscriptions_do_not_take_four_times_the_looks() {
    let looks = |count: usize| {
        let mut host = Host::new(|_| {});
        let (publisher, subscriber) = (host.client("publisher"), host.client("subscriber"));
        let topics: Vec<String> = topics().into_iter().take(count).collect();
        let before = contract::looks();
        // One half of the filters is there before the topics, and one half after them.
        let filters = subscribe_all(&topics);
        host.tell(subscriber, &filters[..count / 2]);
        host.rest();
        let frames: Vec<Frame<'_>> =
            (0..).zip(&topics).map(|(number, topic)| register(number, topic)).collect();
        host.tell(publisher, &frames);
        host.rest();
        host.tell(subscriber, &filters[count / 2..]);
        let link = mqtt_client(&mut host, "m");
        mqtt_subscribe(&mut host, link, &topics);
        host.rest();
        assert_eq!(host.heard(subscriber, "Subscribed"), count);
        contract::looks() - before
    };
    let (few, many) = (looks(TOPICS / 2), looks(TOPICS));
    assert!(many <= 5 * few / 2, "{few} looks for half as many, and {many}");
}
