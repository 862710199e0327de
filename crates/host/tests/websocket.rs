//! WebSocket, against tungstenite as the client: messages of every size, pieces, pings, closing, and requests that are not
//! welcome.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use host::Cause;
use host::tls::ClientCertificates;
use std::io::{Read, Write};
use std::net::SocketAddr;
use support::certificates::Plant;
use support::house::{House, Plan, pattern, plain, secure};
use tungstenite::client::IntoClientRequest;
use tungstenite::handshake::client::Request;
use tungstenite::http::HeaderValue;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, Message};
use tungstenite::{Error, WebSocket};
use wire::Transport;

fn request(path: &str, address: SocketAddr) -> Request {
    let mut request = format!("ws://{address}{path}").into_client_request().unwrap();
    request.headers_mut().insert("Sec-WebSocket-Protocol", HeaderValue::from_static("mqtt"));
    request
}

fn connect<S: Read + Write>(stream: S, address: SocketAddr) -> WebSocket<S> {
    let (socket, response) = tungstenite::client(request("/mqtt", address), stream).map_err(drop).unwrap();
    assert_eq!(response.headers().get("Sec-WebSocket-Protocol").unwrap(), "mqtt");
    socket
}

/// Reads what comes until there are so many bytes.
fn read<S: Read + Write>(socket: &mut WebSocket<S>, length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < length {
        match socket.read().unwrap() {
            Message::Binary(part) => bytes.extend_from_slice(&part),
            other => panic!("{other:?}"),
        }
    }
    bytes
}

fn echo<S: Read + Write>(socket: &mut WebSocket<S>, bytes: &[u8]) {
    socket.send(Message::Binary(bytes.to_vec().into())).unwrap();
    assert!(read(socket, bytes.len()) == bytes, "{} bytes", bytes.len());
}

#[test]
fn messages_of_every_size_come_back() {
    let plant = Plant::new(ClientCertificates::None);
    let house = House::new(&plant.settings);
    let mut socket = connect(plain(house.ws), house.ws);
    for length in [1, 2, 125, 126, 127, 65_535, 65_536, 65_537, 300_000] {
        echo(&mut socket, &pattern(length));
    }
    socket.send(Message::Binary(Vec::new().into())).unwrap();
    echo(&mut socket, b"after nothing");
}

#[test]
fn the_same_over_tls() {
    let plant = Plant::new(ClientCertificates::Required);
    let house = House::new(&plant.settings);
    let identity = plant.clients.issue("browser", &[], support::certificates::Validity::Now);
    let stream = secure(house.wss, &plant.client(Some(identity)));
    let mut socket = connect(stream, house.wss);
    for length in [1, 126, 16_370, 16_384, 65_536, 500_000] {
        echo(&mut socket, &pattern(length));
    }
    house.wait("the name", |seen| seen.names == ["browser"]);
    socket.close(None).unwrap();
    // The answer, and then the end.
    while socket.read().is_ok() {}
    house.wait("the end", |seen| seen.closed == 1);
}

#[test]
fn a_node_is_told_by_which_kind_of_door_somebody_came() {
    let plant = Plant::new(ClientCertificates::None);
    let house = House::new(&plant.settings);
    let mut expected = Vec::new();
    let mut comes = |transport| {
        expected.push(transport);
        house.wait("the door", |seen| seen.carried == expected);
    };
    let _plain = plain(house.plain);
    comes(Transport::Plain);
    let mut tls = secure(house.tls, &plant.client(None));
    tls.write_all(b"x").unwrap();
    comes(Transport::Tls);
    let _ws = connect(plain(house.ws), house.ws);
    comes(Transport::WebSocket);
    let _wss = connect(secure(house.wss, &plant.client(None)), house.wss);
    comes(Transport::SecureWebSocket);
}

#[test]
fn who_stops_reading_gets_everything_later_and_in_order() {
    let plant = Plant::new(ClientCertificates::None);
    let house = House::new(&plant.settings);
    let bytes = pattern(4_000_000);
    let mut other = connect(plain(house.ws), house.ws);
    let slow = |socket: &mut dyn FnMut(Option<&[u8]>) -> Vec<u8>, before: usize| {
        socket(Some(&bytes));
        house.wait("all bytes", |seen| seen.came >= before + bytes.len());
        assert!(socket(None) == bytes);
    };
    let mut socket = connect(plain(house.ws), house.ws);
    slow(&mut |part| send_or_read(&mut socket, part, bytes.len()), 0);
    let mut socket = connect(secure(house.wss, &plant.client(None)), house.wss);
    slow(&mut |part| send_or_read(&mut socket, part, bytes.len()), bytes.len());
    echo(&mut other, b"others go on");
}

fn send_or_read<S: Read + Write>(socket: &mut WebSocket<S>, part: Option<&[u8]>, length: usize) -> Vec<u8> {
    match part {
        Some(part) => {
            socket.send(Message::Binary(part.to_vec().into())).unwrap();
            Vec::new()
        }
        None => read(socket, length),
    }
}

#[test]
fn what_comes_with_the_request_is_not_lost() {
    let plant = Plant::new(ClientCertificates::None);
    let house = House::new(&plant.settings);
    let text = "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n";
    let mut bytes = text.as_bytes().to_vec();
    bytes.extend([0x82, 0x83, 0, 0, 0, 0, b'a', b'b', b'c', 0x82, 0x82, 0, 0]);
    for piece in [1, bytes.len()] {
        let mut stream = plain(house.ws);
        bytes.chunks(piece).for_each(|piece| stream.write_all(piece).unwrap());
        stream.write_all(&[0, 0, b'd', b'e']).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"de") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 101"));
    }
    // The same over TLS, where the library has decrypted it beforehand.
    let mut stream = secure(house.wss, &plant.client(None));
    bytes.extend([0, 0, b'd', b'e']);
    stream.write_all(&bytes).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"de") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
}

#[test]
fn pings_are_answered_and_closing_too() {
    let plant = Plant::new(ClientCertificates::None);
    let house = House::new(&plant.settings);
    let mut socket = connect(plain(house.ws), house.ws);
    socket.send(Message::Ping(b"still there?".to_vec().into())).unwrap();
    assert_eq!(socket.read().unwrap(), Message::Pong(b"still there?".to_vec().into()));
    let frame = CloseFrame { code: CloseCode::Away, reason: "shift is over".into() };
    socket.close(Some(frame)).unwrap();
    match socket.read().unwrap() {
        Message::Close(Some(frame)) => assert_eq!(frame.code, CloseCode::Away),
        other => panic!("{other:?}"),
    }
    assert!(matches!(socket.read(), Err(Error::ConnectionClosed)));
    house.wait("the end", |seen| seen.closed == 1);
}

#[test]
fn text_closes_the_connection_and_says_why() {
    let plant = Plant::new(ClientCertificates::None);
    let house = House::new(&plant.settings);
    let mut other = connect(plain(house.ws), house.ws);
    let mut socket = connect(plain(house.ws), house.ws);
    socket.send(Message::Text("hello".into())).unwrap();
    match socket.read().unwrap() {
        Message::Close(Some(frame)) => assert_eq!(frame.code, CloseCode::Unsupported),
        other => panic!("{other:?}"),
    }
    assert!(house.trouble(Cause::WebSocketBroken).contains("text"));
    echo(&mut other, b"nobody else notices");
}

#[test]
fn a_request_for_something_else_is_answered_in_words() {
    let plant = Plant::new(ClientCertificates::None);
    let house = House::new(&plant.settings);
    let mut stream = plain(house.ws);
    stream.write_all(b"GET /admin HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 404 ") && answer.contains("MQTT is at /mqtt"), "{answer}");
    assert!(house.trouble(Cause::WebSocketRequest).contains("/admin"));
    let mut stream = secure(house.wss, &plant.client(None));
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.starts_with(b"HTTP/1.1 426 "), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(house.seen().accepted, 0);
}

#[test]
fn who_floods_with_pings_and_does_not_read_makes_nothing_grow() {
    let plant = Plant::new(ClientCertificates::None);
    let house = House::planned(&plant.settings, &Plan { keeps: true, ..Plan::default() });
    let mut socket = connect(plain(house.ws), house.ws);
    for _ in 0..20_000 {
        socket.send(Message::Ping(vec![7; 125].into())).unwrap();
    }
    socket.send(Message::Binary(b"done".to_vec().into())).unwrap();
    house.wait("the message behind the pings", |seen| seen.kept == b"done");
}
