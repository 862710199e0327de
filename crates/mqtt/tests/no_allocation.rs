//! What happens with every message allocates nothing: counted by the allocator.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use contract::Time;
use mqtt::SessionId;
use mqtt::packet::{
    Answer, ConnAck, Decoded, Delivery, Options, PACKET_BYTES_MAX, Packet, Properties, Qos, Reason, Version,
    acknowledge, acknowledge_error, connack, decode, delivery, delivery_bytes, disconnect, pong, suback,
    unsuback,
};
use mqtt::retained::{Limits, New, Retained};
use mqtt::tree::{Entry, Matches, Subscriptions};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

fn allocations(of: impl FnOnce()) -> u64 {
    let before = counting::allocations();
    of();
    counting::allocations() - before
}

#[test]
fn a_topic_is_matched_without_allocating() {
    let mut tree = Subscriptions::new(10_000);
    let options = Options { qos: Qos::AtLeastOnce, ..Options::default() };
    for session in 0..100 {
        for filter in ["hall/#", "hall/+/heat", "hall/oven/+", "$share/g/hall/+/heat", "+/+/+"] {
            tree.insert(filter, SessionId(session), Entry { options, subscription: Some(session + 1) })
                .unwrap();
        }
    }
    let mut found = Matches::default();
    assert!(
        allocations(|| tree.matches("hall/oven/heat", &mut found)) > 0,
        "the first time, so this test can fail"
    );
    assert_eq!((found.rows().len(), found.groups().len()), (100, 1));
    let again = allocations(|| {
        for _ in 0..100 {
            tree.matches("hall/oven/heat", &mut found);
            tree.matches("other/oven", &mut found);
            tree.matches("hall/oven/heat", &mut found);
            assert!(tree.next_member(found.groups()[0], |session| session.0 % 2 == 0).is_some());
        }
    });
    assert_eq!(again, 0);
}

#[test]
fn a_topic_with_a_message_gets_the_next_one_without_allocating() {
    let mut retained = Retained::new(Limits { topics_max: 10, bytes_max: 100_000 });
    let message = |payload, at| New {
        payload,
        properties: b"p",
        qos: Qos::AtMostOnce,
        expires: Some(Time(at)),
        origin: (),
    };
    assert!(allocations(|| retained.set("hall/oven", message(&[0; 500], 10)).unwrap()) > 0);
    let again = allocations(|| {
        for at in 0..100 {
            retained.set("hall/oven", message(&[1; 400], 10 + at)).unwrap();
            assert!(retained.get("hall/oven", Time(9)).is_some());
        }
    });
    assert_eq!(again, 0);
}

/// A message with every property that a client may send.
fn message() -> Vec<u8> {
    let properties: &[&[u8]] = &[
        &[1, 1, 2, 0, 0, 0, 9, 3, 0, 1, b'c', 8, 0, 1, b'r', 9, 0, 1, 0xFF, 0x23, 0, 1],
        &[0x26, 0, 14],
        b"verge-deadline",
        &[0, 5],
        b"10 ms",
    ];
    let properties = properties.concat();
    let body = [&[0, 5][..], b"a/b/c", &[0, 1, properties.len() as u8], &properties, &[7; 16]].concat();
    [&[0x34, body.len() as u8], body.as_slice()].concat()
}

#[test]
fn what_comes_often_is_read_without_allocation() {
    let message = message();
    let packets: [(&[u8], Version); 7] = [
        (&message, Version::V5),
        (&[0x30, 4, 0, 1, b't', 9], Version::V311),
        (&[0x40, 2, 0, 1], Version::V311),
        (&[0x50, 8, 0, 1, 0x10, 4, 0x1F, 0, 1, b'r'], Version::V5),
        (&[0x62, 2, 0, 1], Version::V5),
        (&[0x70, 3, 0, 1, 0x92], Version::V5),
        (&[0xC0, 0], Version::V5),
    ];
    let count = allocations(|| {
        for (bytes, version) in packets {
            assert_eq!(
                decode(&bytes[..bytes.len() - 1], Some(version), PACKET_BYTES_MAX),
                Ok(Decoded::Incomplete)
            );
            let Ok(Decoded::Packet(packet, _)) = decode(bytes, Some(version), PACKET_BYTES_MAX) else {
                panic!()
            };
            if let Packet::Publish(publish) = packet {
                let users =
                    publish.properties.user().filter(|user| *user == ("verge-deadline", "10 ms")).count();
                assert_eq!(users == 1, version == Version::V5);
            }
        }
        assert!(decode(&[0x36, 4, 0, 1, b't', 9], Some(Version::V5), PACKET_BYTES_MAX).is_err());
    });
    assert_eq!(count, 0);
}

#[test]
fn whatever_the_broker_says_is_written_without_allocation_beyond_the_buffer() {
    let message = message();
    let Ok(Decoded::Packet(Packet::Publish(publish), _)) =
        decode(&message, Some(Version::V5), PACKET_BYTES_MAX)
    else {
        panic!()
    };
    let (mut out, mut forwarded) = (Vec::with_capacity(4096), Vec::with_capacity(4096));
    let count = allocations(|| {
        publish.properties.forward(&mut forwarded);
        assert!(Properties::stored(&forwarded).has_forwardable());
        let sent = Delivery {
            dup: false,
            qos: Qos::AtLeastOnce,
            retain: false,
            topic: publish.topic,
            id: 1,
            alias: Some(1),
            expiry: Some(1),
            subscriptions: &[1, 300],
            properties: &forwarded,
            payload: publish.payload,
        };
        let hello = ConnAck {
            assigned_client: Some("made-up"),
            text: Some("welcome"),
            server_reference: Some("other:1883"),
            ..ConnAck::default()
        };
        for version in [Version::V311, Version::V5] {
            delivery(&mut out, version, &sent);
            assert!(delivery_bytes(version, &sent) > 16);
            acknowledge(&mut out, version, Answer::PubRec, 1, Reason::QUOTA_EXCEEDED);
            connack(&mut out, version, &hello);
            suback(&mut out, version, 1, &[Reason::SUCCESS, Reason::NOT_AUTHORIZED], Some("not here"));
            unsuback(&mut out, version, 1, &[Reason::SUCCESS], None);
        }
        acknowledge_error(&mut out, Answer::PubRec, 1, Reason::QUOTA_EXCEEDED, Some("too much"));
        pong(&mut out);
        disconnect(&mut out, Reason::SERVER_BUSY, Some("too much"), None);
    });
    assert_eq!(count, 0);
    assert!(!out.is_empty());
}
