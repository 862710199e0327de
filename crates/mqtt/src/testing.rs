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
        Version::V311 => encode_3(
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
        Version::V311 => encode_3(publish.into()),
        Version::V5 => encode_5(publish.into()),
    }
}

/// A SUBSCRIBE to one filter.
pub fn subscribe(version: Version, id: NonZeroU16, filter: &str, qos: QoS) -> Result<Vec<u8>, EncodeError> {
    match version {
        Version::V311 => {
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
            Version::V311 => MqttCodec::V3(v3::Codec::default()),
            Version::V5 => MqttCodec::V5(v5::Codec::default()),
        };
        FromBroker { codec, bytes: BytesMut::new() }
    }

    /// Takes bytes as they come.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next packet, where it has come as a whole.
    pub fn packet(&mut self) -> Result<Option<MqttPacket>, DecodeError> {
        Ok(self.codec.decode(&mut self.bytes)?.map(|(packet, _)| packet))
    }
}
