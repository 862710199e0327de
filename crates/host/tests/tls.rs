//! TLS: messages of every size, peers that are slow or not what they say, and certificates that change.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use contract::Span;
use host::Cause;
use host::tls::{ClientCertificates, TlsSettings};
use std::io::{Read, Write};
use support::certificates::{Issuer, Plant, Validity, client};
use support::house::{House, Plan, dialer, pattern, plain, secure};
use support::turn_until;
use wire::{Effects, Order};

/// Sends bytes and reads as many back, both at once.
fn echo(stream: &mut support::house::Secure, bytes: &[u8], piece: usize) {
    let mut back = vec![0; bytes.len()];
    let mut read = 0;
    for piece in bytes.chunks(piece) {
        stream.write_all(piece).unwrap();
        stream.read_exact(&mut back[read..read + piece.len()]).unwrap();
        read += piece.len();
    }
    assert!(back == bytes, "{} bytes in pieces of {piece}", bytes.len());
}

#[test]
fn messages_of_every_size_come_back_over_both_versions() {
    let plant = Plant::new(ClientCertificates::None);
    let house = House::new(&plant.settings);
    let config = plant.client(None);
    let mut stream = secure(house.tls, &config);
    echo(&mut stream, &pattern(200), 1);
    for piece in [16_383, 16_384, 16_385, 40_000] {
        echo(&mut stream, &pattern(200_000), piece);
    }
    assert_eq!(stream.conn.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));

    let mut roots = rustls::RootCertStore::empty();
    let ca = rustls::pki_types::CertificateDer::from_pem_slice(plant.brokers.pem().as_bytes());
    use rustls::pki_types::pem::PemObject;
    roots.add(ca.unwrap()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let older = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let older = std::sync::Arc::new(older);
    let mut stream = secure(house.tls, &older);
    echo(&mut stream, &pattern(100_000), 20_000);
    assert_eq!(stream.conn.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_2));

    let strict = TlsSettings { minimum: host::tls::TlsVersion::V13, ..plant.settings.clone() };
    house.certificates.reload(&strict).unwrap();
    assert!(secure(house.tls, &older).write_all(b"x").is_err());
    assert!(house.trouble(Cause::TlsVersion).contains("no version or cipher in common"));
    echo(&mut stream, &pattern(1_000), 100);
}

#[test]
fn a_handshake_and_data_byte_by_byte_hold_nobody_up() {
    let plant = Plant::new(ClientCertificates::None);
    let house = House::new(&plant.settings);
    let config = plant.client(None);
    // Ciphertext goes through a buffer and leaves one byte at a time.
    let mut slow = secure(house.tls, &config);
    let mut quick = secure(house.tls, &config);
    let drip = |stream: &mut support::house::Secure| {
        let mut sealed = Vec::new();
        while stream.conn.wants_write() {
            stream.conn.write_tls(&mut sealed).unwrap();
        }
        for byte in sealed {
            stream.sock.write_all(&[byte]).unwrap();
        }
    };
    while stream_is_new(&slow) {
        drip(&mut slow);
        echo(&mut quick, b"meanwhile", 3);
        if stream_is_new(&slow) {
            slow.conn.read_tls(&mut slow.sock).unwrap();
            slow.conn.process_new_packets().unwrap();
        }
    }
    slow.conn.writer().write_all(&pattern(2_000)).unwrap();
    drip(&mut slow);
    let mut back = vec![0; 2_000];
    slow.read_exact(&mut back).unwrap();
    assert_eq!(back, pattern(2_000));
}

fn stream_is_new(stream: &support::house::Secure) -> bool {
    stream.conn.is_handshaking() || stream.conn.wants_write()
}

#[test]
fn who_stops_reading_gets_everything_later_and_in_order() {
    let plant = Plant::new(ClientCertificates::None);
    let house = House::new(&plant.settings);
    let mut stream = secure(house.tls, &plant.client(None));
    let bytes = pattern(8_000_000);
    let mut writer = secure(house.tls, &plant.client(None));
    // Nothing is read until all is written: what comes back waits in the node, beyond what kernels hold.
    stream.write_all(&bytes).unwrap();
    house.wait("all bytes", |seen| seen.came >= bytes.len());
    echo(&mut writer, b"others go on", 4);
    let mut back = vec![0; bytes.len()];
    stream.read_exact(&mut back).unwrap();
    assert!(back == bytes);
}

#[test]
fn half_open_handshakes_give_up_their_places_to_those_that_get_on() {
    let plant = Plant::new(ClientCertificates::None);
    let plan = Plan { handshakes: 8, ..Plan::default() };
    let house = House::planned(&plant.settings, &plan);
    let mut silent: Vec<_> = (0..40).map(|_| plain(house.tls)).collect();
    house.wait("the limit", |_| house.troubles.count(Cause::LobbyFull) >= 32);
    echo(&mut secure(house.tls, &plant.client(None)), &pattern(5_000), 1_000);
    // The oldest are gone, and were not silently kept.
    assert_eq!(silent[0].read(&mut [0; 16]).unwrap_or(0), 0);
    assert!(house.trouble(Cause::LobbyFull).contains("limits.handshakes"));
}

#[test]
fn a_handshake_that_takes_too_long_is_ended_and_named() {
    let plant = Plant::new(ClientCertificates::None);
    let plan = Plan { within: Span::millis(50), ..Plan::default() };
    let house = House::planned(&plant.settings, &plan);
    let mut silent = plain(house.tls);
    assert_eq!(silent.read(&mut [0; 16]).unwrap_or(0), 0);
    let said = house.trouble(Cause::HandshakeLate);
    assert!(said.contains("127.0.0.1") && said.contains("limits.greeting"), "{said}");
}

#[test]
fn a_client_is_known_by_the_name_in_its_certificate() {
    let plant = Plant::new(ClientCertificates::Required);
    let house = House::new(&plant.settings);
    let identity = plant.clients.issue("press 7", &[], Validity::Now);
    let mut stream = secure(house.tls, &plant.client(Some(identity)));
    echo(&mut stream, b"hello", 5);
    house.wait("the name", |seen| seen.names == ["press 7"]);
}

#[test]
fn certificates_are_optional_where_they_are() {
    let plant = Plant::new(ClientCertificates::Optional);
    let house = House::new(&plant.settings);
    echo(&mut secure(house.tls, &plant.client(None)), b"nobody", 5);
    let identity = plant.clients.issue("somebody", &[], Validity::Now);
    echo(&mut secure(house.tls, &plant.client(Some(identity))), b"somebody", 5);
    house.wait("the name", |seen| seen.names == ["somebody"]);
}

/// Whether a client with this certificate is refused; TLS 1.3 tells it with the first read.
fn is_refused(house: &House, plant: &Plant, identity: Option<(String, String)>) -> bool {
    let mut stream = secure(house.tls, &plant.client(identity));
    stream.write_all(b"let me in").is_err() || stream.read_exact(&mut [0; 9]).is_err()
}

#[test]
fn bad_client_certificates_are_refused_and_named() {
    let plant = Plant::new(ClientCertificates::Required);
    let house = House::new(&plant.settings);
    assert!(is_refused(&house, &plant, None));
    house.trouble(Cause::CertificateMissing);
    let expired = plant.clients.issue("old press", &[], Validity::Past);
    assert!(is_refused(&house, &plant, Some(expired)));
    let said = house.trouble(Cause::CertificateTime);
    assert!(said.contains("expired") && said.contains("`old press`"), "{said}");
    let stranger = Issuer::new("clients").issue("mallory", &[], Validity::Now);
    assert!(is_refused(&house, &plant, Some(stranger)));
    house.trouble(Cause::CertificateBad);
    let foreign = Issuer::new("strangers").issue("eve", &[], Validity::Now);
    assert!(is_refused(&house, &plant, Some(foreign)));
    let said = house.trouble(Cause::CertificateUnknown);
    assert!(said.contains("`eve`"), "{said}");
    assert_eq!(house.seen().accepted, 0, "the node never heard of them");
}

#[test]
fn what_is_no_tls_is_refused_and_counted() {
    let plant = Plant::new(ClientCertificates::None);
    let house = House::new(&plant.settings);
    let mut stream = plain(house.tls);
    stream.write_all(b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00").unwrap();
    let mut alert = Vec::new();
    let _ = stream.read_to_end(&mut alert);
    assert!(house.trouble(Cause::TlsBroken).contains("no TLS"));
    drop(plain(house.tls));
    house.trouble(Cause::HandshakeClosed);
}

#[test]
fn garbage_in_an_established_connection_ends_it_and_nothing_else() {
    let plant = Plant::new(ClientCertificates::None);
    let house = House::new(&plant.settings);
    let config = plant.client(None);
    let (mut bad, mut good) = (secure(house.tls, &config), secure(house.tls, &config));
    echo(&mut bad, b"well begun", 5);
    bad.sock.write_all(&[23, 3, 3, 0, 40]).unwrap();
    bad.sock.write_all(&[7; 40]).unwrap();
    assert!(bad.read_exact(&mut [0]).is_err());
    house.wait("the end", |seen| seen.closed == 1);
    house.trouble(Cause::TlsBroken);
    echo(&mut good, &pattern(50_000), 10_000);
}

#[test]
fn a_farewell_is_answered() {
    let plant = Plant::new(ClientCertificates::None);
    let house = House::new(&plant.settings);
    let mut stream = secure(house.tls, &plant.client(None));
    echo(&mut stream, b"x", 1);
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    // Without a close_notify in return this would be an error.
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
    house.wait("the end", |seen| seen.closed == 1);
}

#[test]
fn new_certificates_are_for_new_connections() {
    let plant = Plant::new(ClientCertificates::None);
    let house = House::new(&plant.settings);
    let before = plant.client(None);
    let mut old = secure(house.tls, &before);
    echo(&mut old, b"before", 6);

    let other = Issuer::new("other brokers");
    let (certificate, key) = other.issue("broker a", &["127.0.0.1"], Validity::Now);
    plant.folder.write("own.pem", &certificate);
    // Only half of it is there: refused, and everything is as it was.
    let error = house.certificates.reload(&plant.settings).unwrap_err().to_string();
    assert!(error.contains("own.key") && error.contains("does not match"), "{error}");
    echo(&mut secure(house.tls, &before), b"still", 5);

    plant.folder.write("own.key", &key);
    house.certificates.reload(&plant.settings).unwrap();
    echo(&mut old, b"after", 5);
    let ca = plant.folder.write("other.pem", &other.pem());
    echo(&mut secure(house.tls, &client(&ca, None)), b"new", 3);
    let mut stream = secure(house.tls, &before);
    assert!(stream.write_all(b"x").is_err(), "the old issuer did not issue this");
    house.trouble(Cause::CertificateRefused);
}

#[test]
fn a_node_dials_over_tls_and_shows_its_certificate() {
    let plant = Plant::new(ClientCertificates::None);
    let settings = TlsSettings { brokers: vec!["127.0.0.1".to_owned()], ..plant.settings.clone() };
    let house = House::new(&settings);
    let (mut driver, _) = dialer(house.pair, "127.0.0.1", &settings);
    turn_until(&mut driver, |probe| probe.dialed().is_some());
    let link = driver.node().dialed().unwrap();
    let bytes = pattern(300_000);
    driver.with(|_, net| net.append(link, Order::Any, |out| out.extend_from_slice(&bytes)));
    turn_until(&mut driver, |probe| probe.kept.len() == bytes.len());
    assert!(driver.node().kept == bytes);
    house.wait("the name", |seen| seen.names == ["broker a"]);
    // Closing leaves the rest and says so.
    driver.with(|_, net| {
        net.append(link, Order::Any, |out| out.extend_from_slice(b"last"));
        net.hang_up(link);
    });
    house.wait("the last", |seen| seen.came == bytes.len() + 4);
    turn_until(&mut driver, |probe| probe.closed() == 1);
}

#[test]
fn a_broker_with_another_name_or_issuer_is_not_dialed() {
    let plant = Plant::new(ClientCertificates::None);
    let house = House::new(&plant.settings);
    let (mut driver, troubles) = dialer(house.pair, "broker-b", &plant.settings);
    turn_until(&mut driver, |probe| probe.unreachable.len() == 1);
    assert_eq!(troubles.count(Cause::CertificateName), 1);
    let ca = plant.folder.write("other.pem", &Issuer::new("others").pem());
    let (mut driver, troubles) =
        dialer(house.pair, "127.0.0.1", &TlsSettings { ca: Some(ca), ..plant.settings.clone() });
    turn_until(&mut driver, |probe| probe.unreachable.len() == 1);
    assert_eq!(troubles.count(Cause::CertificateUnknown), 1);
}

#[test]
fn only_a_broker_comes_in_by_the_pairs_door() {
    let plant = Plant::new(ClientCertificates::None);
    let brokers = vec!["broker-a".to_owned(), "broker-b".to_owned()];
    let house = House::new(&TlsSettings { brokers, ..plant.settings.clone() });
    let refused = |identity| {
        let mut stream = secure(house.pair, &plant.client(identity));
        stream.write_all(b"x").is_err() || stream.read_exact(&mut [0]).is_err()
    };
    assert!(refused(None));
    assert!(refused(Some(plant.clients.issue("a client", &["broker-b"], Validity::Now))));
    assert!(refused(Some(plant.brokers.issue("another server", &["web"], Validity::Now))));
    assert!(house.trouble(Cause::CertificateName).contains("`another server`"));
    assert!(!refused(Some(plant.brokers.issue("b", &["broker-b"], Validity::Now))));
}
