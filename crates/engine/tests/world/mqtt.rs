//! Clients that speak MQTT, with the codec of another implementation.

use super::{Who, World};
use ::mqtt::packet::Version;
use ::mqtt::testing::{
    FromBroker, MqttPacket, Publish, QoS, connect, encode_3, encode_5, publish, subscribe, v3, v5,
};
use contract::{NodeId, Span, Time};
use engine::Node;
use std::collections::BTreeSet;
use std::num::{NonZeroU16, NonZeroU32};
use wire::{Effects, LinkChange, LinkId, Order, PeerIndex, Transport};

/// What a gateway of these worlds is told, unless a test tunes it.
pub fn gateway(index: usize, node: NodeId, tune: fn(&mut ::mqtt::Settings)) -> ::mqtt::Gateway {
    let mut settings = ::mqtt::Settings {
        limits: ::mqtt::Limits {
            sys_interval: Span::ZERO,
            // Doors are always open here.
            standby: ::mqtt::Standby::Redirect,
            ..Default::default()
        },
        fallback: contract::Contract::unstated(),
        server_references: ::mqtt::References {
            plain: Some(["b:1883", "a:1883"][index].into()),
            ..Default::default()
        },
        node: node.0,
    };
    tune(&mut settings);
    ::mqtt::Gateway::new(settings, ::mqtt::Open)
}

pub use ::mqtt::testing::{Heard as Got, answer};

pub struct MqttClient {
    pub version: Version,
    decoder: FromBroker,
    pub got: Vec<Got>,
    /// Reasons in words that it has heard in answers, empty where there were none.
    pub words: Vec<String>,
    /// The payloads of QoS 2 that its application has had, and the numbers that are not released.
    pub once: Vec<String>,
    unreleased: BTreeSet<u16>,
    pub link: Option<LinkId>,
    /// The kind of door that it takes.
    pub transport: Transport,
    /// What it says when it is connected.
    hello: Vec<u8>,
    /// Whether it answers messages.
    pub answers: bool,
    /// Whether its connection was refused or has gone.
    pub closed: bool,
    next_id: u16,
}

impl MqttClient {
    fn write(&mut self, net: &mut impl Effects, bytes: &[u8]) {
        if let Some(link) = self.link {
            net.append(link, Order::Any, |out| out.extend_from_slice(bytes));
        }
    }

    fn count(&mut self, got: &Got) {
        match got {
            Got::Message(message)
                if message.qos == QoS::ExactlyOnce
                    && self.unreleased.insert(message.packet_id.unwrap().get()) =>
            {
                self.once.push(String::from_utf8_lossy(&message.payload).into_owned());
            }
            Got::Pubrel(id, _) => _ = self.unreleased.remove(id),
            _ => {}
        }
    }

    fn answer(&mut self, got: &Got, net: &mut impl Effects) {
        let bytes = match got {
            Got::Message(message) => match (message.qos, message.packet_id) {
                (QoS::AtLeastOnce, Some(id)) => answer(4, id.get()),
                (QoS::ExactlyOnce, Some(id)) => answer(5, id.get()),
                _ => return,
            },
            Got::Pubrec(id, code) if *code < 0x80 => answer(6, *id),
            Got::Pubrel(id, _) => answer(7, *id),
            _ => return,
        };
        self.write(net, &bytes);
    }
}

impl Node for MqttClient {
    fn handle_link(&mut self, _now: Time, link: LinkId, change: LinkChange, net: &mut impl Effects) {
        match change {
            LinkChange::Dialed(_) => {
                self.link = Some(link);
                let hello = std::mem::take(&mut self.hello);
                self.write(net, &hello);
            }
            LinkChange::Closed if self.link == Some(link) => (self.link, self.closed) = (None, true),
            _ => {}
        }
    }

    fn handle_dial_failed(&mut self, _now: Time, _peer: PeerIndex, _refused: bool, _net: &mut impl Effects) {
        self.closed = true;
    }

    fn handle_bytes(&mut self, _now: Time, link: LinkId, bytes: &[u8], net: &mut impl Effects) -> usize {
        if self.link == Some(link) {
            self.decoder.feed(bytes);
            while let Some(packet) = self.decoder.packet().expect("brokers send what the codec can read") {
                self.words.extend(words_in(&packet));
                let got = Got::read(packet).expect("brokers send what clients can read");
                self.count(&got);
                if self.answers {
                    self.answer(&got, net);
                }
                self.got.push(got);
            }
        }
        bytes.len()
    }

    fn run(&mut self, _now: Time, _net: &mut impl Effects) -> bool {
        false
    }

    fn handle_timeout(&mut self, _now: Time, _net: &mut impl Effects) {}

    fn next_deadline(&self) -> Time {
        Time::NEVER
    }
}

/// The reason in words of an answer of MQTT 5.
fn words_in(packet: &MqttPacket) -> Option<String> {
    let MqttPacket::V5(packet) = packet else { return None };
    let words = match packet {
        v5::Packet::ConnectAck(ack) => &ack.reason_string,
        v5::Packet::PublishAck(ack) => &ack.reason_string,
        v5::Packet::PublishReceived(ack) => &ack.reason_string,
        v5::Packet::SubscribeAck(ack) => &ack.reason_string,
        v5::Packet::UnsubscribeAck(ack) => &ack.reason_string,
        v5::Packet::Disconnect(word) => &word.reason_string,
        _ => return None,
    };
    Some(words.as_ref().map_or_else(String::new, ToString::to_string))
}

/// A CONNECT of MQTT 5 whose session stays for an hour.
pub fn lasting(client: &str) -> v5::Connect {
    v5::Connect {
        client_id: client.into(),
        keep_alive: 60,
        session_expiry_interval_secs: 3_600,
        ..Default::default()
    }
}

/// A will.
pub fn will(topic: &str, text: &'static str) -> v5::LastWill {
    v5::LastWill {
        qos: QoS::AtLeastOnce,
        retain: false,
        topic: topic.into(),
        message: text.into(),
        will_delay_interval_sec: None,
        correlation_data: None,
        message_expiry_interval: None,
        content_type: None,
        user_properties: Default::default(),
        is_utf8_payload: None,
        response_topic: None,
    }
}

/// A PUBLISH of MQTT 5, to be changed.
pub fn message(topic: &str, qos: QoS, id: u16, payload: &[u8]) -> Publish {
    Publish {
        dup: false,
        retain: false,
        qos,
        topic: topic.into(),
        packet_id: NonZeroU16::new(id),
        payload: payload.to_vec().into(),
        properties: Some(v5::PublishProperties::default()),
    }
}

impl World {
    /// A protected pair that serves MQTT.
    pub fn serving(gateway: fn(&mut ::mqtt::Settings)) -> World {
        let mut world = World::with_gateway(|_| {}, Some(gateway));
        world.run_for(Span::secs(1));
        assert!(world.broker(0).is_primary() && world.broker(0).is_protected(), "{:?}", world.log(0));
        world
    }

    /// A client that has not connected yet.
    pub fn add_mqtt(&mut self, version: Version) -> usize {
        let index = self.mqtt.len();
        self.mqtt.push(MqttClient {
            version,
            decoder: FromBroker::new(version),
            got: Vec::new(),
            words: Vec::new(),
            once: Vec::new(),
            unreleased: BTreeSet::new(),
            link: None,
            transport: Transport::Plain,
            hello: Vec::new(),
            answers: true,
            closed: false,
            next_id: 0,
        });
        self.add_place(Who::Mqtt(index));
        index
    }

    /// Connects to a broker and says this.
    pub fn dial(&mut self, client: usize, broker: u8, hello: Vec<u8>) {
        let mqtt = &mut self.mqtt[client];
        (mqtt.hello, mqtt.closed, mqtt.link) = (hello, false, None);
        mqtt.decoder = FromBroker::new(mqtt.version);
        self.port(Who::Mqtt(client)).dial(PeerIndex(broker), Span::secs(1));
        self.settle(Who::Mqtt(client));
    }

    /// A client of MQTT 5 that is connected to a broker.
    pub fn connected(&mut self, broker: u8, hello: v5::Connect) -> usize {
        let client = self.add_mqtt(Version::V5);
        self.reconnect(client, broker, hello);
        client
    }

    /// The same client connects once more. Returns whether its session was there.
    pub fn reconnect(&mut self, client: usize, broker: u8, hello: v5::Connect) -> bool {
        self.mqtt[client].got.clear();
        self.dial(client, broker, encode_5(hello.into()).unwrap());
        self.run_for(Span::millis(5));
        match self.mqtt[client].got.first() {
            Some(Got::Connack { present, code: 0, .. }) => *present,
            other => panic!("not connected: {other:?}"),
        }
    }

    /// A client of MQTT 3.1.1 that is connected to a broker.
    pub fn connected_3(&mut self, broker: u8, name: &str, clean: bool) -> usize {
        let client = self.add_mqtt(Version::V311);
        self.dial(client, broker, connect(Version::V311, name, clean).unwrap());
        self.run_for(Span::millis(5));
        assert!(matches!(self.mqtt[client].got[..], [Got::Connack { code: 0, .. }, ..]));
        client
    }

    /// Says hello to a broker and returns the first answer.
    pub fn try_connect(&mut self, broker: u8, hello: v5::Connect) -> Got {
        let client = self.add_mqtt(Version::V5);
        self.dial(client, broker, encode_5(hello.into()).unwrap());
        self.run_for(Span::secs(1));
        self.mqtt[client].got.first().cloned().expect("an answer")
    }

    /// Sends bytes.
    pub fn say(&mut self, client: usize, bytes: &[u8]) {
        let who = Who::Mqtt(client);
        let host = self.host(who);
        self.mqtt[client].write(&mut self.places[host].port, bytes);
        self.settle(who);
    }

    pub fn say_5(&mut self, client: usize, packet: impl Into<v5::Packet>) {
        self.say(client, &encode_5(packet.into()).unwrap());
    }

    pub fn say_3(&mut self, client: usize, packet: v3::Packet) {
        self.say(client, &encode_3(packet).unwrap());
    }

    /// Publishes, and returns the packet identifier.
    pub fn send(&mut self, client: usize, topic: &str, qos: QoS, payload: &[u8]) -> u16 {
        let id = if qos == QoS::AtMostOnce { 0 } else { self.new_id(client) };
        let bytes = publish(self.mqtt[client].version, topic, qos, id, payload).unwrap();
        self.say(client, &bytes);
        id
    }

    pub fn new_id(&mut self, client: usize) -> u16 {
        let mqtt = &mut self.mqtt[client];
        mqtt.next_id = mqtt.next_id % 60_000 + 1;
        mqtt.next_id
    }

    /// Subscribes and returns the code of the answer.
    pub fn want(&mut self, client: usize, filter: &str, qos: QoS) -> u8 {
        let id = self.new_id(client);
        let bytes = subscribe(self.mqtt[client].version, NonZeroU16::new(id).unwrap(), filter, qos).unwrap();
        self.say(client, &bytes);
        self.suback(client, id)
    }

    /// Subscribes with options, and a number for the subscription.
    pub fn want_with(
        &mut self,
        client: usize,
        filter: &str,
        number: u32,
        options: v5::SubscriptionOptions,
    ) -> u8 {
        let id = self.new_id(client);
        self.say_5(
            client,
            v5::Packet::Subscribe(v5::Subscribe {
                packet_id: NonZeroU16::new(id).unwrap(),
                id: NonZeroU32::new(number),
                user_properties: Vec::new(),
                topic_filters: vec![(filter.into(), options)],
            }),
        );
        self.suback(client, id)
    }

    /// Subscribes with user properties and returns the code of the answer.
    pub fn want_needing(
        &mut self,
        client: usize,
        filter: &str,
        qos: QoS,
        user_properties: v5::UserProperties,
    ) -> u8 {
        let id = self.new_id(client);
        let packet_id = NonZeroU16::new(id).unwrap();
        let options = v5::SubscriptionOptions { qos, ..Default::default() };
        let topic_filters = vec![(filter.into(), options)];
        self.say_5(
            client,
            v5::Packet::Subscribe(v5::Subscribe { packet_id, id: None, user_properties, topic_filters }),
        );
        self.suback(client, id)
    }

    fn suback(&mut self, client: usize, id: u16) -> u8 {
        self.run_for(Span::millis(5));
        let answer = |got: &Got| match got {
            Got::Suback(of, codes) if *of == id => Some(codes[0]),
            _ => None,
        };
        self.mqtt[client].got.iter().find_map(answer).expect("a SUBACK")
    }

    pub fn unwant(&mut self, client: usize, filter: &str) {
        let packet_id = NonZeroU16::new(self.new_id(client)).unwrap();
        let topic_filters = vec![filter.into()];
        match self.mqtt[client].version {
            Version::V31 | Version::V311 => {
                self.say_3(client, v3::Packet::Unsubscribe { packet_id, topic_filters });
            }
            Version::V5 => self.say_5(
                client,
                v5::Packet::Unsubscribe(v5::Unsubscribe {
                    packet_id,
                    user_properties: Vec::new(),
                    topic_filters,
                }),
            ),
        }
        self.run_for(Span::millis(5));
    }

    /// Ends a connection with a word.
    pub fn part(&mut self, client: usize, code: v5::DisconnectReasonCode) {
        match self.mqtt[client].version {
            Version::V31 | Version::V311 => self.say_3(client, v3::Packet::Disconnect),
            Version::V5 => self.say_5(
                client,
                v5::Packet::Disconnect(v5::Disconnect { reason_code: code, ..Default::default() }),
            ),
        }
        self.run_for(Span::millis(5));
    }

    /// The connection of a client breaks, for both.
    pub fn cut_off(&mut self, client: usize) {
        let who = Who::Mqtt(client);
        let Some(link) = self.mqtt[client].link else { return };
        let host = self.host(who);
        let Some(peer) = self.places[host].port.sockets.get(link).map(|socket| socket.peer) else { return };
        self.break_between(who, self.places[peer].who);
        self.run_for(Span(1));
    }

    /// A client stops reading, or goes on.
    pub fn stall_mqtt(&mut self, client: usize, broker: usize, stalled: bool) {
        self.stall_who(Who::Mqtt(client), broker, stalled);
    }

    /// The payloads of the messages that a client has had, in their order.
    pub fn texts(&self, client: usize) -> Vec<String> {
        self.messages(client).map(|message| String::from_utf8_lossy(&message.payload).into_owned()).collect()
    }

    pub fn messages(&self, client: usize) -> impl Iterator<Item = &Publish> {
        self.mqtt[client].got.iter().filter_map(|got| match got {
            Got::Message(message) => Some(&**message),
            _ => None,
        })
    }

    pub fn last_got(&self, client: usize) -> &Got {
        self.mqtt[client].got.last().expect("something has come")
    }

    /// How many timers a gateway has.
    pub fn timers(&mut self, broker: usize) -> usize {
        self.brokers[broker].as_mut().unwrap().gateway().unwrap().timers()
    }

    pub fn stats(&mut self, broker: usize) -> ::mqtt::Stats {
        self.brokers[broker].as_mut().unwrap().gateway().unwrap().stats()
    }
}
