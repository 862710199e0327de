//! What a device says.

use super::{Device, KEEP_ALIVE_SECONDS, Outgoing};
use crate::scene;
use contract::Time;
use mqtt::packet::Version;
use mqtt::testing::{Publish, QoS, encode_3, encode_5, v3, v5};
use std::num::{NonZeroU16, NonZeroU32};
use wire::{Effects, Order};

const SESSION_SECONDS: u32 = 3_600;
/// Numbers for topics that it takes from brokers.
pub(super) const ALIASES_TAKEN: u16 = 4;

impl Device {
    pub(super) fn write(&mut self, now: Time, bytes: &[u8], net: &mut impl Effects) {
        if let Some(link) = self.link {
            self.said = now;
            net.append(link, Order::Any, |out| out.extend_from_slice(bytes));
        }
    }

    fn write_packet(&mut self, now: Time, three: v3::Packet, five: v5::Packet, net: &mut impl Effects) {
        let bytes = match self.spec.version {
            Version::V31 | Version::V311 => encode_3(three),
            Version::V5 => encode_5(five),
        };
        match bytes {
            Ok(bytes) => self.write(now, &bytes, net),
            Err(error) => unreachable!("invariant: what a device sends can be written: {error:?}"),
        }
    }

    pub(super) fn greet(&mut self, now: Time, net: &mut impl Effects) {
        self.greetings += 1;
        let mut payload = Vec::new();
        scene::write_payload(&mut payload, self.will, self.greetings, scene::PAYLOAD_HEAD);
        let will = self.spec.will.as_deref();
        let three = v3::Connect {
            client_id: self.spec.name.as_str().into(),
            clean_session: self.is_new && !self.spec.lasts,
            keep_alive: KEEP_ALIVE_SECONDS,
            last_will: will.map(|topic| v3::LastWill {
                qos: QoS::AtLeastOnce,
                retain: false,
                topic: topic.into(),
                message: payload.clone().into(),
            }),
            ..Default::default()
        };
        let five = v5::Connect {
            client_id: self.spec.name.as_str().into(),
            clean_start: self.is_new,
            keep_alive: KEEP_ALIVE_SECONDS,
            session_expiry_interval_secs: if self.spec.lasts { SESSION_SECONDS } else { 0 },
            topic_alias_max: ALIASES_TAKEN,
            last_will: will.map(|topic| v5::LastWill {
                qos: QoS::AtLeastOnce,
                retain: false,
                topic: topic.into(),
                message: payload.into(),
                will_delay_interval_sec: None,
                correlation_data: None,
                message_expiry_interval: None,
                content_type: None,
                user_properties: Default::default(),
                is_utf8_payload: None,
                response_topic: None,
            }),
            ..Default::default()
        };
        self.write_packet(now, three.into(), five.into(), net);
    }

    pub(super) fn write_publish(
        &mut self,
        now: Time,
        message: &Outgoing,
        answered: Option<(u16, bool)>,
        net: &mut impl Effects,
    ) {
        let spec = &self.spec.topics[message.topic];
        let mut payload = Vec::new();
        scene::write_payload(&mut payload, message.stream, message.seq, spec.payload_bytes);
        let (id, dup) = answered.unwrap_or((0, false));
        let mut publish = Publish {
            dup,
            retain: spec.retain,
            qos: quality(spec.qos),
            topic: spec.name.as_str().into(),
            packet_id: NonZeroU16::new(id),
            payload: payload.into(),
            properties: None,
        };
        if self.spec.version == Version::V5 {
            let mut properties = v5::PublishProperties::default();
            if message.topic < self.aliases_max {
                properties.topic_alias = NonZeroU16::new(message.topic as u16 + 1);
                if std::mem::replace(&mut self.aliased[message.topic], true) {
                    publish.topic = "".into();
                }
            }
            publish.properties = Some(properties);
        }
        self.write_packet(now, publish.clone().into(), publish.into(), net);
    }

    pub(super) fn write_subscribe(&mut self, now: Time, id: u16, filter: usize, net: &mut impl Effects) {
        let (filter, qos) = self.spec.filters[filter].clone();
        let Some(packet_id) = NonZeroU16::new(id) else { return };
        let three =
            v3::Packet::Subscribe { packet_id, topic_filters: vec![(filter.as_str().into(), quality(qos))] };
        let options = v5::SubscriptionOptions { qos: quality(qos), ..Default::default() };
        let five = v5::Packet::Subscribe(v5::Subscribe {
            packet_id,
            id: NonZeroU32::new(u32::from(qos) + 1),
            user_properties: Vec::new(),
            topic_filters: vec![(filter.as_str().into(), options)],
        });
        self.write_packet(now, three, five, net);
    }
}

fn quality(qos: u8) -> QoS {
    match qos {
        0 => QoS::AtMostOnce,
        1 => QoS::AtLeastOnce,
        _ => QoS::ExactlyOnce,
    }
}
