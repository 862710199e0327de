//! The client's side, for tests: what clients send, and how they read what brokers send. All of it is done by the library, so
//! that tests check this crate against another implementation.

use crate::packet::Version;
use bytes::{Bytes, BytesMut};
pub use rmqtt_codec::error::{DecodeError, EncodeError};
pub use rmqtt_codec::types::{Protocol, Publish, QoS};
pub use rmqtt_codec::{MqttCodec, MqttPacket, v3, v5};
use std::num::NonZeroU16;
use tokio_util::codec::{Decoder, Encoder};

/// Encodes any packet of MQTT 3.1.1.
pub fn encode_3(packet: v3::Packet) -> Result<Vec<u8>, EncodeError> {
    let mut bytes = BytesMut::new();
    v3::Codec::default().encode(packet, &mut bytes)?;
    Ok(bytes.into())
}

/// Encodes any packet of MQTT 5.
pub fn encode_5(packet: v5::Packet) -> Result<Vec<u8>, EncodeError> {
    let mut bytes = BytesMut::new();
    v5::Codec::default().encode(packet, &mut bytes)?;
    Ok(bytes.into())
}

/// A CONNECT with this client identifier and a keep-alive of a minute.
pub fn connect(version: Version, client: &str, clean: bool) -> Result<Vec<u8>, EncodeError> {
    match version {
        Version::V31 | Version::V311 => encode_3(
            v3::Connect {
                client_id: client.into(),
                clean_session: clean,
                keep_alive: 60,
                ..Default::default()
            }
            .into(),
        ),
        Version::V5 => encode_5(
            v5::Connect {
                client_id: client.into(),
                clean_start: clean,
                keep_alive: 60,
                ..Default::default()
            }
            .into(),
        ),
    }
}

/// A PUBLISH; `id` is zero for QoS 0.
pub fn publish(
    version: Version,
    topic: &str,
    qos: QoS,
    id: u16,
    payload: &[u8],
) -> Result<Vec<u8>, EncodeError> {
    let publish = Publish {
        dup: false,
        retain: false,
        qos,
        topic: topic.into(),
        packet_id: NonZeroU16::new(id),
        payload: Bytes::copy_from_slice(payload),
        properties: (version == Version::V5).then(v5::PublishProperties::default),
    };
    match version {
        Version::V31 | Version::V311 => encode_3(publish.into()),
        Version::V5 => encode_5(publish.into()),
    }
}

/// A SUBSCRIBE to one filter.
pub fn subscribe(version: Version, id: NonZeroU16, filter: &str, qos: QoS) -> Result<Vec<u8>, EncodeError> {
    match version {
        Version::V31 | Version::V311 => {
            encode_3(v3::Packet::Subscribe { packet_id: id, topic_filters: vec![(filter.into(), qos)] })
        }
        Version::V5 => encode_5(v5::Packet::Subscribe(v5::Subscribe {
            packet_id: id,
            id: None,
            user_properties: Vec::new(),
            topic_filters: vec![(filter.into(), v5::SubscriptionOptions { qos, ..Default::default() })],
        })),
    }
}

/// One of the four answers, by the number of its kind: 4 PUBACK, 5 PUBREC, 6 PUBREL, 7 PUBCOMP.
pub fn answer(kind: u8, id: u16) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    vec![kind << 4 | if kind == 6 { 2 } else { 0 }, 2, high, low]
}

/// Reads what a broker sends.
#[derive(Debug)]
pub struct FromBroker {
    codec: MqttCodec,
    bytes: BytesMut,
}

impl FromBroker {
    /// A client of this version.
    pub fn new(version: Version) -> FromBroker {
        let codec = match version {
            Version::V31 | Version::V311 => MqttCodec::V3(v3::Codec::default()),
            Version::V5 => MqttCodec::V5(v5::Codec::default()),
        };
        FromBroker { codec, bytes: BytesMut::new() }
    }

    /// Takes bytes as they come.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next packet, the same for both versions. `Err` with what brokers must not send.
    pub fn next_heard(&mut self) -> Result<Option<Heard>, String> {
        let packet = self.packet().map_err(|error| format!("{error:?}"))?;
        packet.map(Heard::read).transpose()
    }

    /// Bytes that have come and are not a whole packet yet.
    pub fn waiting(&self) -> usize {
        self.bytes.len()
    }

    /// The next packet, where it has come as a whole.
    pub fn packet(&mut self) -> Result<Option<MqttPacket>, DecodeError> {
        Ok(self.codec.decode(&mut self.bytes)?.map(|(packet, _)| packet))
    }
}

/// A packet from a broker, the same for both versions.
#[derive(Clone, PartialEq, Debug)]
pub enum Heard {
    /// The connection is taken, or refused.
    Connack {
        /// A session was there.
        present: bool,
        /// The reason, or the return code of 3.1.1.
        code: u8,
        /// All of it, in MQTT 5.
        more: Option<Box<v5::ConnectAck>>,
    },
    /// PUBLISH.
    Message(Box<Publish>),
    /// PUBACK, for this packet identifier and with this reason.
    Puback(u16, u8),
    /// PUBREC.
    Pubrec(u16, u8),
    /// PUBREL.
    Pubrel(u16, u8),
    /// PUBCOMP.
    Pubcomp(u16, u8),
    /// SUBACK, with a reason for each filter.
    Suback(u16, Vec<u8>),
    /// UNSUBACK.
    Unsuback(u16, Vec<u8>),
    /// PINGRESP.
    Pong,
    /// DISCONNECT.
    Disconnect {
        /// The reason.
        code: u8,
        /// Where else to go.
        reference: Option<String>,
    },
}

impl Heard {
    /// A packet, the same for both versions. `Err` with what brokers must not send.
    pub fn read(packet: MqttPacket) -> Result<Heard, String> {
        Ok(match packet {
            MqttPacket::V3(packet) => match packet {
                v3::Packet::ConnectAck(ack) => {
                    Heard::Connack { present: ack.session_present, code: ack.return_code.into(), more: None }
                }
                v3::Packet::Publish(message) => Heard::Message(message),
                v3::Packet::PublishAck { packet_id } => Heard::Puback(packet_id.get(), 0),
                v3::Packet::PublishReceived { packet_id } => Heard::Pubrec(packet_id.get(), 0),
                v3::Packet::PublishRelease { packet_id } => Heard::Pubrel(packet_id.get(), 0),
                v3::Packet::PublishComplete { packet_id } => Heard::Pubcomp(packet_id.get(), 0),
                v3::Packet::SubscribeAck { packet_id, status } => {
                    let code = |status: &v3::SubscribeReturnCode| match status {
                        v3::SubscribeReturnCode::Success(qos) => *qos as u8,
                        v3::SubscribeReturnCode::Failure => 0x80,
                    };
                    Heard::Suback(packet_id.get(), status.iter().map(code).collect())
                }
                v3::Packet::UnsubscribeAck { packet_id } => Heard::Unsuback(packet_id.get(), Vec::new()),
                v3::Packet::PingResponse => Heard::Pong,
                other => return Err(format!("a broker sends no {other:?}")),
            },
            MqttPacket::V5(packet) => match packet {
                v5::Packet::ConnectAck(ack) => {
                    let (present, code) = (ack.session_present, ack.reason_code as u8);
                    Heard::Connack { present, code, more: Some(ack) }
                }
                v5::Packet::Publish(message) => Heard::Message(message),
                v5::Packet::PublishAck(ack) => Heard::Puback(ack.packet_id.get(), ack.reason_code as u8),
                v5::Packet::PublishReceived(ack) => Heard::Pubrec(ack.packet_id.get(), ack.reason_code as u8),
                v5::Packet::PublishRelease(ack) => Heard::Pubrel(ack.packet_id.get(), ack.reason_code as u8),
                v5::Packet::PublishComplete(ack) => {
                    Heard::Pubcomp(ack.packet_id.get(), ack.reason_code as u8)
                }
                v5::Packet::SubscribeAck(ack) => {
                    Heard::Suback(ack.packet_id.get(), ack.status.iter().map(|code| *code as u8).collect())
                }
                v5::Packet::UnsubscribeAck(ack) => {
                    Heard::Unsuback(ack.packet_id.get(), ack.status.iter().map(|code| *code as u8).collect())
                }
                v5::Packet::PingResponse => Heard::Pong,
                v5::Packet::Disconnect(word) => Heard::Disconnect {
                    code: word.reason_code as u8,
                    reference: word.server_reference.map(|reference| reference.to_string()),
                },
                other => return Err(format!("a broker sends no {other:?}")),
            },
            MqttPacket::Version(version) => return Err(format!("{version:?}")),
        })
    }
}
