//! What no client lets a test do: keep silent, hold back answers, say things twice.

use crate::broker::{Broker, Kind, kind};
use crate::support::WATCHDOG;
use crate::tools::skipped;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const PUBLISH: u8 = 3;
const PINGRESP: u8 = 13;

/// A client of MQTT 5 made of bytes.
pub struct Wire(TcpStream);

/// What CONNECT says.
#[derive(Clone, Copy, Default)]
pub struct Connect<'a> {
    pub name: &'a str,
    pub keep_alive_s: u16,
    /// Whether the session outlives the connection, and whether an earlier one is wanted.
    pub stay: bool,
    pub properties: &'a [u8],
    pub will: Option<&'a str>,
}

pub fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat()
}

pub fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    assert!(body.len() < 16_384, "two digits are enough here");
    let length = if body.len() < 128 {
        vec![body.len() as u8]
    } else {
        vec![(body.len() % 128) as u8 | 0x80, (body.len() / 128) as u8]
    };
    [&[first], &length[..], body].concat()
}

impl Wire {
    fn open(broker: &Broker) -> Wire {
        let socket = TcpStream::connect(("127.0.0.1", broker.port)).unwrap();
        socket.set_read_timeout(Some(WATCHDOG)).unwrap();
        Wire(socket)
    }

    /// Returns whether the session was there.
    pub fn connect(broker: &Broker, connect: Connect<'_>) -> (Wire, bool) {
        let mut wire = Wire::open(broker);
        let will = connect.will.map(|topic| [&[0][..], &text(topic), &text("dead")].concat());
        let flags = u8::from(!connect.stay) << 1 | u8::from(will.is_some()) << 2;
        // Session expiry interval: a minute.
        let expiry: &[u8] = if connect.stay { &[0x11, 0, 0, 0, 60] } else { &[] };
        let properties = [expiry, connect.properties].concat();
        let body = [
            &text("MQTT")[..],
            &[5, flags],
            &connect.keep_alive_s.to_be_bytes(),
            &[properties.len() as u8],
            &properties,
            &text(connect.name),
            &will.unwrap_or_default(),
        ];
        wire.send(0x10, &body.concat());
        let (first, body) = wire.next().expect("CONNACK");
        assert_eq!((first, body[1]), (0x20, 0), "{body:?}");
        (wire, body[0] == 1)
    }

    pub fn send(&mut self, first: u8, body: &[u8]) {
        self.0.write_all(&packet(first, body)).unwrap();
    }

    /// The next packet, if the connection does not end before.
    pub fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut byte = [0];
        let mut read = |byte: &mut [u8]| match self.0.read_exact(byte) {
            Ok(()) => true,
            Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
                false
            }
            Err(error) => panic!("{error}"),
        };
        if !read(&mut byte) {
            return None;
        }
        let first = byte[0];
        let (mut length, mut shift) = (0, 0);
        loop {
            assert!(read(&mut byte), "a packet was cut");
            length |= usize::from(byte[0] & 0x7f) << shift;
            shift += 7;
            if byte[0] & 0x80 == 0 {
                break;
            }
        }
        let mut body = vec![0; length];
        assert!(read(&mut body), "a packet was cut");
        Some((first, body))
    }

    fn expect(&mut self, kind: u8) -> (u8, Vec<u8>) {
        let (first, body) = self.next().unwrap_or_else(|| panic!("the connection ended before {kind}"));
        assert_eq!(first >> 4, kind, "{first:#x} {body:?}");
        (first, body)
    }

    fn subscribe(&mut self, filter: &str, qos: u8) {
        self.send(0x82, &[&[0, 1, 0][..], &text(filter), &[qos]].concat());
        self.expect(9);
    }

    /// Sends a message without waiting for an answer.
    fn publish(&mut self, topic: &str, qos: u8, id: u8, flags: u8, payload: &[u8]) {
        let id: &[u8] = if qos > 0 { &[0, id] } else { &[] };
        self.send(0x30 | qos << 1 | flags, &[&text(topic)[..], id, &[0], payload].concat());
    }

    /// Nothing else may have come before the answer to this.
    fn nothing_comes(&mut self) {
        self.send(0xc0, &[]);
        self.expect(PINGRESP);
    }
}

/// Topic, packet identifier and payload of a message with QoS 1 or 2 and without properties.
fn parts(body: &[u8]) -> (String, [u8; 2], String) {
    let end = 2 + usize::from(u16::from_be_bytes([body[0], body[1]]));
    let properties = usize::from(body[end + 2]);
    let read = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (read(&body[2..end]), [body[end], body[end + 1]], read(&body[end + 3 + properties..]))
}

fn with_broker(test: &str, act: impl FnOnce(&Broker)) {
    match Broker::start() {
        Ok(broker) => act(&broker),
        Err(reason) => skipped(test, &reason),
    }
}

#[test]
fn who_keeps_silent_is_disconnected_and_its_will_is_published() {
    with_broker("keep-alive", |broker| {
        let (mut watcher, _) = Wire::connect(broker, Connect { name: "watcher", ..Connect::default() });
        watcher.subscribe("will", 0);
        let began = Instant::now();
        let silent = Connect { name: "silent", keep_alive_s: 1, will: Some("will"), ..Connect::default() };
        let (mut silent, _) = Wire::connect(broker, silent);
        while let Some((first, body)) = silent.next() {
            assert_eq!((first, body.first()), (0xe0, Some(&0x8d)), "DISCONNECT: keep alive timeout");
        }
        assert!(began.elapsed() >= Duration::from_secs(1), "too early: {:?}", began.elapsed());
        watcher.expect(PUBLISH);
    });
}

#[test]
fn no_more_messages_are_under_way_than_a_client_can_take() {
    with_broker("receive maximum", |broker| {
        let receive_maximum: &[u8] = &[0x21, 0, 2];
        let narrow = Connect { name: "narrow", properties: receive_maximum, ..Connect::default() };
        let (mut narrow, _) = Wire::connect(broker, narrow);
        narrow.subscribe("t", 1);
        let (mut publisher, _) = Wire::connect(broker, Connect { name: "publisher", ..Connect::default() });
        for id in 1..=5 {
            publisher.publish("t", 1, id, 0, &[b'0' + id]);
            publisher.expect(4);
        }
        let mut ids = Vec::new();
        for number in ["1", "2"] {
            let (_, id, payload) = parts(&narrow.expect(PUBLISH).1);
            assert_eq!(payload, number);
            ids.push(id);
        }
        narrow.nothing_comes();
        for number in ["3", "4", "5"] {
            narrow.send(0x40, &ids.remove(0));
            let (_, id, payload) = parts(&narrow.expect(PUBLISH).1);
            assert_eq!(payload, number);
            ids.push(id);
            // Debian's mosquitto sends one more than it may after the first answer.
            if kind() == Kind::Verge {
                narrow.nothing_comes();
            }
        }
    });
}

#[test]
fn a_packet_above_the_maximum_of_a_client_is_left_out() {
    with_broker("maximum packet size", |broker| {
        let maximum: &[u8] = &[0x27, 0, 0, 0, 100];
        let (mut small, _) =
            Wire::connect(broker, Connect { name: "small", properties: maximum, ..Connect::default() });
        small.subscribe("t", 1);
        let (mut publisher, _) = Wire::connect(broker, Connect { name: "publisher", ..Connect::default() });
        for (id, length) in [(1, 200), (2, 10)] {
            publisher.publish("t", 1, id, 0, &vec![b'x'; length]);
            publisher.expect(4);
        }
        assert_eq!(parts(&small.expect(PUBLISH).1).2.len(), 10);
    });
}

#[test]
fn what_was_not_answered_comes_again_to_the_session_and_is_marked() {
    with_broker("messages that come again", |broker| {
        let connect = Connect { name: "keeper", stay: true, ..Connect::default() };
        let (mut first, session) = Wire::connect(broker, connect);
        assert!(!session);
        first.subscribe("t", 1);
        let (mut publisher, _) = Wire::connect(broker, Connect { name: "publisher", ..Connect::default() });
        publisher.publish("t", 1, 1, 0, b"once");
        publisher.expect(4);
        let (head, body) = first.expect(PUBLISH);
        assert_eq!(head & 8, 0);
        drop(first);
        let (mut second, session) = Wire::connect(broker, connect);
        assert!(session);
        let (head, again) = second.expect(PUBLISH);
        assert_eq!((head & 8, parts(&again)), (8, parts(&body)), "marked, with the same number");
        second.send(0x40, &parts(&again).1);
        second.nothing_comes();
        drop(second);
        let (mut third, session) = Wire::connect(broker, connect);
        assert!(session);
        third.nothing_comes();
    });
}

#[test]
fn a_message_of_qos_2_that_is_sent_twice_is_delivered_once() {
    with_broker("QoS 2 twice", |broker| {
        let (mut subscriber, _) = Wire::connect(broker, Connect { name: "subscriber", ..Connect::default() });
        subscriber.subscribe("t", 1);
        let connect = Connect { name: "publisher", stay: true, ..Connect::default() };
        let (mut publisher, _) = Wire::connect(broker, connect);
        publisher.publish("t", 2, 7, 0, b"first");
        publisher.expect(5);
        drop(publisher);
        let (mut publisher, session) = Wire::connect(broker, connect);
        assert!(session);
        publisher.publish("t", 2, 7, 8, b"first");
        publisher.expect(5);
        publisher.send(0x62, &[0, 7]);
        publisher.expect(7);
        // The number is free again: this is another message.
        publisher.publish("t", 2, 7, 0, b"second");
        publisher.expect(5);
        publisher.send(0x62, &[0, 7]);
        publisher.expect(7);
        for wanted in ["first", "second"] {
            let (_, id, payload) = parts(&subscriber.expect(PUBLISH).1);
            assert_eq!(payload, wanted);
            subscriber.send(0x40, &id);
        }
        subscriber.nothing_comes();
    });
}

#[test]
fn a_connection_that_is_taken_over_is_told_so() {
    with_broker("takeover", |broker| {
        let connect = Connect { name: "one", ..Connect::default() };
        let (mut first, _) = Wire::connect(broker, connect);
        let (mut second, _) = Wire::connect(broker, connect);
        let told = first.next();
        // Debian's mosquitto closes the connection without a reason.
        if kind() == Kind::Verge {
            let (head, body) = told.expect("DISCONNECT");
            assert_eq!((head, body.first()), (0xe0, Some(&0x8e)));
            assert_eq!(first.next(), None);
        } else {
            assert_eq!(told, None);
        }
        second.nothing_comes();
    });
}

#[test]
fn who_does_not_begin_with_connect_is_disconnected() {
    with_broker("strangers", |broker| {
        for bytes in [&b"\xc0\x00"[..], b"GET / HTTP/1.1\r\n\r\n", b"\x10\x06\x00\x04MQTT"] {
            let mut stranger = Wire::open(broker);
            stranger.0.write_all(bytes).unwrap();
            stranger.0.shutdown(std::net::Shutdown::Write).unwrap();
            while stranger.next().is_some_and(|(first, _)| matches!(first >> 4, 2 | 14)) {}
        }
        let (mut other, _) = Wire::connect(broker, Connect { name: "other", ..Connect::default() });
        other.nothing_comes();
    });
}
