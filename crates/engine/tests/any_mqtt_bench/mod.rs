//! One broker with links of MQTT clients and of a broker that would be its partner. What happens is made of eight bytes each.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../world/seat.rs"]
mod seat;

use broker::{Limits, Settings};
use contract::{Epoch, NodeId, Reign, Span, Time};
use engine::testing::Log;
use engine::{BrokerNode, Node};
use mqtt::packet::Version;
use mqtt::testing::{FromBroker, MqttPacket, QoS, connect, publish, subscribe, v5};
use seat::Seat;
use std::num::NonZeroU16;
use wire::{Effects, Frame, Hello, LinkChange, LinkId, Outbox, Protocol, Secret, Standing};

/// Links of MQTT clients.
pub const LINKS: u32 = 4;
/// The partner's link, and that of a client which behaves.
const PARTNER: LinkId = LinkId(LINKS);
const GOOD: LinkId = LinkId(LINKS + 1);
/// Topics, filters, names of clients.
pub const WORDS: [&str; 10] =
    ["a", "a/b", "+/b", "#", "$share/g/a", "$share/g/#", "$SYS/#", "bad/#/x", "b", "c"];

pub struct Stand {
    seat: Seat<BrokerNode<Log>>,
    /// Links that have said who they are.
    greeted: [bool; LINKS as usize],
    limits: mqtt::Limits,
}

impl Stand {
    /// `stands_by`: there is a partner, which reigns.
    pub fn new(stands_by: bool) -> Stand {
        let now = Time(1_000_000_000_000);
        let settings = Settings {
            limits: Limits { streams: 50, store_bytes: 1 << 20, ..Default::default() },
            ..Settings::new("tried", NodeId(50), now)
        };
        let limits = mqtt::Limits {
            connections: 6,
            sessions: 5,
            packet_bytes: 2_000,
            receive_maximum: 4,
            topic_aliases: 3,
            topic_aliases_out: 2,
            inflight: 3,
            queue_messages: 4,
            queue_bytes: 4_000,
            backlog_bytes: 3_000,
            subscriptions_per_session: 4,
            subscriptions: 12,
            retained_messages: 4,
            retained_bytes: 4_000,
            topics_per_session: 2,
            session_expiry: Span::secs(30),
            ..Default::default()
        };
        let told = mqtt::Settings {
            limits,
            fallback: contract::Contract::unstated(),
            server_references: mqtt::References {
                plain: Some("elsewhere:1883".into()),
                ..Default::default()
            },
            node: 50,
        };
        let gateway = mqtt::Gateway::new(told, mqtt::Open);
        let node = BrokerNode::new(settings, Log::default()).with_gateway(gateway);
        let mut bench = Stand { seat: Seat::new(node, now), greeted: [false; 4], limits };
        (0..=GOOD.0).for_each(|link| _ = bench.seat.open(accepted(LinkId(link))));
        if stands_by {
            bench.partner(0, 0);
        }
        bench.pass(Span::secs(1));
        bench
    }

    fn feed(&mut self, link: LinkId, bytes: &[u8]) {
        self.seat.bring(link, bytes);
        self.seat.rest();
        self.settle();
    }

    /// Whoever is not wanted comes again, and nobody is where the node wants to connect to.
    fn settle(&mut self) {
        let (ended, dials) = (self.seat.wires.take_ended(), std::mem::take(&mut self.seat.wires.dials));
        for link in &ended {
            self.greeted.get_mut(link.0 as usize).into_iter().for_each(|greeted| *greeted = false);
            self.seat.reopen(*link, accepted(*link));
        }
        dials.iter().for_each(|peer| self.seat.dial_failed(*peer, false));
        if !ended.is_empty() || !dials.is_empty() {
            self.seat.rest();
        }
    }

    fn pass(&mut self, span: Span) {
        self.seat.now = self.seat.now + span;
        for _ in 0..40 {
            if self.seat.node.next_deadline() > self.seat.now {
                return;
            }
            self.seat.rest();
            self.settle();
        }
        assert!(
            self.seat.node.next_deadline() > self.seat.now,
            "the broker asks to be woken again and again"
        );
    }

    pub fn step(&mut self, [link, what, a, b, c, d, e, word]: [u8; 8]) {
        let link = LinkId(u32::from(link) % LINKS);
        let word = WORDS[usize::from(word) % WORDS.len()];
        let other = WORDS[usize::from(e) % WORDS.len()];
        let version = if link.0.is_multiple_of(2) { Version::V5 } else { Version::V311 };
        let qos = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce][usize::from(a % 3)];
        let id = if qos == QoS::AtMostOnce { 0 } else { u16::from(b % 6) + 1 };
        let greeted = std::mem::replace(&mut self.greeted[link.0 as usize], true);
        if !greeted && e % 16 != 0 {
            let client = ["one", "two", "three", "four", "five", "six"][usize::from(e % 6)];
            self.feed(link, &hello(version, client, [b, c, d], "a"));
        }
        match what % 64 {
            0..=1 => {
                let client =
                    ["one", "two", "three", "four", "five", "six", "", "bad\u{7}"][usize::from(b % 8)];
                self.feed(link, &hello(version, client, [a, c, d], word));
            }
            2..=20 => {
                let payload = vec![7; usize::from(c) * usize::from(d % 8)];
                let topic = if e % 8 == 0 { word } else { ["a", "a/b", "b", "c"][usize::from(e % 4)] };
                let mut bytes = publish(version, topic, qos, id, &payload).unwrap_or_default();
                if let Some(first) = bytes.first_mut() {
                    *first |= (d & 1) | (b & 1) << 3;
                }
                self.feed(link, &bytes);
            }
            21..=26 => {
                let id = NonZeroU16::new(u16::from(b) + 1).unwrap();
                self.feed(link, &subscribe(version, id, word, qos).unwrap_or_default());
            }
            27..=28 => self.feed(
                link,
                &[
                    &[0xA2, 4 + word.len() as u8 + u8::from(version == Version::V5), 0, 1][..],
                    &[0][..usize::from(version == Version::V5)],
                    &[0, word.len() as u8],
                    word.as_bytes(),
                ]
                .concat(),
            ),
            29..=38 => {
                let kind = 4 + a % 4;
                self.feed(link, &[kind << 4 | if kind == 6 { 2 } else { 0 }, 2, 0, b % 8]);
            }
            39 => self.feed(link, if a % 2 == 0 { &[0xC0, 0] } else { &[0xE0, 0] }),
            40 => self.feed(link, &[a, b, c, d, e]),
            41..=42 => {
                self.seat.wires.hang_up(link);
                self.settle();
            }
            43..=44 => self.pass(Span::millis(i64::from(a) * i64::from(b % 16))),
            45..=49 => {
                self.seat.wires.outbox(link).consume(usize::MAX);
                self.seat.node.handle_link(self.seat.now, link, LinkChange::Drained, &mut self.seat.wires);
                self.settle();
            }
            50 => self.partner(a, b),
            _ => self.records([what, a, b, c, d], word, other),
        }
    }

    /// The other broker appears, reigns, or joins.
    fn partner(&mut self, what: u8, number: u8) {
        let reign = Reign { epoch: Epoch(9 + u64::from(number)), node: NodeId(9) };
        let mut out = Outbox::default();
        match what % 8 {
            0..=1 => {
                let (standing, node, name) = (Standing::Primary, NodeId(9), "b");
                let incarnation = u64::from(number);
                out.push(&Frame::Hello(Hello {
                    standing,
                    prefers_to_reign: true,
                    reign,
                    node,
                    incarnation,
                    name,
                    user: "",
                    password: Secret(""),
                    knows: wire::Knows::NOTHING,
                }));
                out.push(&Frame::Synced);
            }
            2 => {
                let standing =
                    [Standing::Primary, Standing::Seeking, Standing::Backup][usize::from(number % 3)];
                let (node, name) = (NodeId(9), "b");
                let incarnation = u64::from(number);
                out.push(&Frame::Hello(Hello {
                    standing,
                    prefers_to_reign: false,
                    reign,
                    node,
                    incarnation,
                    name,
                    user: "",
                    password: Secret(""),
                    knows: wire::Knows::NOTHING,
                }));
            }
            3 => out.push(&Frame::Join),
            4 => out.push(&Frame::Standby),
            5 => out.push(&Frame::TakeOver { epoch: Epoch(u64::from(number)) }),
            6 => out.push(&Frame::Reign { reign, standing: Standing::Primary }),
            _ => self.seat.wires.hang_up(PARTNER),
        }
        let bytes = out.unsent().to_vec();
        self.seat.wires.outbox(PARTNER).consume(usize::MAX);
        self.feed(PARTNER, &bytes);
    }

    /// Records as a primary tells them, or nearly so; straight to the gateway, since a broker that reigns takes none.
    fn records(&mut self, [kind, a, b, c, d]: [u8; 5], word: &str, other: &str) {
        if self.seat.node.broker().is_primary() {
            return;
        }
        let number = if a == 255 { u64::MAX } else { u64::from(a % 8) };
        let mut key = vec![b"SQIBRX"[usize::from(kind % 6)]];
        match kind % 6 {
            1 => key.extend_from_slice(&number.to_be_bytes()),
            2 => key.extend_from_slice(&u16::from(a).to_be_bytes()),
            3 => key.extend_from_slice(&number.to_be_bytes()),
            _ => {}
        }
        if kind % 6 != 3 {
            key.extend_from_slice(word.as_bytes());
        }
        let piece = |text: &str| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
        let value = match kind % 6 {
            0 => [
                vec![1, b, 0, 0, 0],
                vec![c; 24],
                piece(""),
                vec![0],
                piece(other),
                vec![d % 4, b, 0, 0, 0, 0],
            ]
            .concat(),
            1 => [&number.to_le_bytes()[..], &[b, 0, c % 4, d]].concat(),
            3 | 4 => [vec![a % 4], vec![b; 32], piece(word), piece("p"), piece(""), piece(other)].concat(),
            _ => vec![a; usize::from(b % 4)],
        };
        let value = &value[..value.len().min(usize::from(d) * 2)];
        let mut bytes = vec![u8::from(c % 5 != 0)];
        bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(if c % 5 == 0 { 0 } else { value.len() as u32 }).to_le_bytes());
        bytes.extend_from_slice(&key);
        if c % 5 != 0 {
            bytes.extend_from_slice(value);
        }
        let mut out = Outbox::default();
        out.push(&Frame::Records(&bytes));
        let bytes = out.unsent().to_vec();
        self.feed(PARTNER, &bytes);
    }

    pub fn check_limits(&mut self) {
        let limits = self.limits;
        let gateway = self.seat.node.gateway().unwrap();
        let (stats, timers) = (gateway.stats(), gateway.timers());
        assert!(stats.sessions <= limits.sessions as u64, "{stats:?}");
        assert!(stats.subscriptions <= limits.subscriptions as u64, "{stats:?}");
        assert!(stats.retained <= limits.retained_messages as u64, "{stats:?}");
        assert!(stats.retained_bytes <= limits.retained_bytes as u64, "{stats:?}");
        assert!(stats.waiting_bytes <= limits.queue_bytes as u64, "{stats:?}");
        assert!(timers <= GOOD.0 as usize + 1 + 2 * limits.sessions + 1, "{timers} timers");
    }

    /// Everybody leaves; after a while the broker serves again, whatever it was told.
    pub fn serves(&mut self) -> bool {
        (0..=GOOD.0).for_each(|link| self.seat.wires.hang_up(LinkId(link)));
        self.settle();
        (0..100).for_each(|_| self.pass(Span::millis(500)));
        self.seat.wires.hang_up(GOOD);
        self.settle();
        let number = NonZeroU16::new(1).unwrap();
        let all = [
            hello(Version::V5, "good", [1, 0, 0], "a"),
            subscribe(Version::V5, number, "good", QoS::ExactlyOnce).unwrap(),
            publish(Version::V5, "good", QoS::ExactlyOnce, 9, b"served").unwrap(),
        ];
        self.feed(GOOD, &all.concat());
        let mut reader = FromBroker::new(Version::V5);
        reader.feed(self.seat.wires.outbox(GOOD).unsent());
        let mut served = false;
        while let Ok(Some(packet)) = reader.packet() {
            served |= matches!(packet, MqttPacket::V5(v5::Packet::Publish(message)) if *message.payload == *b"served");
        }
        served
    }
}

fn accepted(link: LinkId) -> LinkChange {
    LinkChange::Accepted(if link == PARTNER { Protocol::Verge } else { Protocol::Mqtt })
}

fn hello(version: Version, client: &str, [a, b, c]: [u8; 3], word: &str) -> Vec<u8> {
    if version == Version::V311 {
        return connect(version, client, a % 2 == 0).unwrap();
    }
    let will = v5::LastWill {
        qos: QoS::AtLeastOnce,
        retain: c % 2 == 0,
        topic: word.into(),
        message: "will".into(),
        will_delay_interval_sec: Some(u32::from(c % 5)),
        correlation_data: None,
        message_expiry_interval: None,
        content_type: None,
        user_properties: Default::default(),
        is_utf8_payload: None,
        response_topic: None,
    };
    let connect = v5::Connect {
        client_id: client.into(),
        clean_start: a % 2 == 0,
        keep_alive: u16::from(a % 3),
        session_expiry_interval_secs: [0, 5, 10, u32::MAX][usize::from(b % 4)],
        receive_max: NonZeroU16::new(u16::from(b % 6)),
        max_packet_size: std::num::NonZeroU32::new(u32::from(c) * 8),
        last_will: (c % 3 == 0).then_some(will),
        ..Default::default()
    };
    mqtt::testing::encode_5(connect.into()).unwrap_or_default()
}
