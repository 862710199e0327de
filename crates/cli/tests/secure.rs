//! Brokers that are protected: a pair and its clients over TLS, certificates exchanged while they run, and what is refused.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use mqtt::packet::Version;
use mqtt::testing::{FromBroker, Heard, connect};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustix::process::Signal;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use support::strangers::{GROWTH_MAX, Strangers};
use support::{Folder, PATIENT, Pair, Site, WATCHDOG, free_ports, wait_until};
use verge::{Client, Contract, Span, TlsSettings};

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn issuer() -> Issuer {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Issuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Writes a certificate for this host, and its key.
fn issue(issuer: &Issuer, folder: &Folder, name: &str) {
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    folder.write("own.pem", params.signed_by(&key, issuer).unwrap().pem());
    folder.write("own.key", key.serialize_pem());
}

/// A pair that speaks TLS with clients and between its brokers.
fn secure_site(issuer: &Issuer) -> (Site, String) {
    let site = Site::new(PATIENT);
    let [a, b] = free_ports::<2>();
    issue(issuer, &site.folder, "broker");
    site.folder.write("ca.pem", issuer.pem());
    std::fs::create_dir(site.folder.path("conf.d")).unwrap();
    let text = format!(
        "[brokers.a]\npair_tls = true\nclients_tls = \"127.0.0.1:{a}\"\n\
         [brokers.b]\npair_tls = true\nclients_tls = \"127.0.0.1:{b}\"\n\
         [tls]\ncertificate = \"../own.pem\"\nkey = \"../own.key\"\nca = \"../ca.pem\"\n"
    );
    site.folder.write("conf.d/tls.toml", text);
    (site, format!("127.0.0.1:{a},127.0.0.1:{b}"))
}

fn believing(ca: PathBuf) -> TlsSettings {
    TlsSettings { ca: Some(ca), ..TlsSettings::default() }
}

#[test]
fn a_pair_and_its_clients_speak_tls_and_survive_a_kill() {
    let issuer = issuer();
    let (site, addresses) = secure_site(&issuer);
    let ca = site.folder.path("ca.pem");
    let mut pair = Pair::start_on(site);
    let client = Client::builder().patience(WATCHDOG).tls(believing(ca)).connect(&addresses).unwrap();
    let messages = client.subscribe("press/#").unwrap();
    let contract = Contract::every(Span::millis(50)).retain(64);
    let publisher = client.publisher("press/7", contract).unwrap();
    for number in 0..20_u8 {
        publisher.publish(&[number]).unwrap();
    }
    let primary = pair.wait_for_protection();
    pair.kill(primary);
    pair.wait_for_reign(1 - primary);
    client.wait_for_primary().unwrap();
    for number in 20..40_u8 {
        wait_until("publishing", || publisher.publish(&[number]).is_ok());
    }
    let mut seen = Vec::new();
    while seen.len() < 40 {
        seen.extend(messages.next_within(WATCHDOG).unwrap().payload);
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..40).collect::<Vec<u8>>());

    // The program takes addresses and issuer from the same file.
    let status = pair.site.run(&["status", "--format", "json"]);
    assert!(status.out.contains("\"primary\""), "{status:?}");
    let other = pair.site.folder.write("other.pem", self::issuer().pem());
    let refused = pair.site.folder.run(["status", "--host", &addresses, "--ca", other.to_str().unwrap()]);
    refused.must(2, &["no broker answers"]);
}

#[test]
fn a_client_is_told_why_no_broker_is_good_enough() {
    let issuer = issuer();
    let (site, addresses) = secure_site(&issuer);
    let _broker = site.start(0);
    let other = site.folder.write("other.pem", self::issuer().pem());
    let builder = Client::builder().tls(believing(other)).patience(std::time::Duration::from_secs(2));
    wait_until("the broker", || TcpStream::connect(addresses.split(',').next().unwrap()).is_ok());
    let error = builder.connect(&addresses).map(drop).unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
}

#[test]
fn certificates_are_exchanged_on_sighup_and_bad_ones_are_not_taken() {
    let first = issuer();
    let (site, addresses) = secure_site(&first);
    let ca = site.folder.path("ca.pem");
    let mut pair = Pair::start_on(site);
    let primary = pair.wait_for_protection();
    let client = Client::builder().patience(WATCHDOG).tls(believing(ca)).connect(&addresses).unwrap();
    let messages = client.subscribe("press/#").unwrap();
    let publisher = client.publisher("press/7", Contract::every(Span::millis(50)).retain(64)).unwrap();

    let key = std::fs::read(pair.site.folder.path("own.key")).unwrap();
    pair.site.folder.write("own.key", "no key at all");
    pair.broker(primary).signal(Signal::HUP);
    let log = pair.site.folder.path(["a.log", "b.log"][primary]);
    let said = |words: &str| std::fs::read_to_string(&log).unwrap_or_default().contains(words);
    wait_until("the refusal", || said("is not taken over") && said("there is no private key in"));
    pair.site.folder.write("own.key", key);

    // Another issuer: who believes it comes in now, and who is connected stays.
    let second = issuer();
    issue(&second, &pair.site.folder, "broker");
    let new_ca = pair.site.folder.write("new.pem", second.pem());
    pair.broker(primary).signal(Signal::HUP);
    wait_until("the exchange", || said("certificates are loaded again"));
    let address = addresses.split(',').nth(primary).unwrap();
    let newcomer = Client::builder().patience(WATCHDOG).tls(believing(new_ca)).connect(address).unwrap();
    newcomer.wait_for_primary().unwrap();
    publisher.publish(b"still here").unwrap();
    assert_eq!(messages.next_within(WATCHDOG).unwrap().payload, b"still here");
}

/// Says hello, and returns where the broker sends the client.
fn sent_to(mut stream: impl Read + Write) -> Option<String> {
    let hello = connect(Version::V5, "lost", true).unwrap();
    stream.write_all(&hello).unwrap();
    let mut from_broker = FromBroker::new(Version::V5);
    loop {
        if let Some(packet) = from_broker.packet().unwrap() {
            return match Heard::read(packet).unwrap() {
                Heard::Connack { code: 0x9c, more: Some(more), .. } => {
                    more.server_reference.map(|reference| reference.to_string())
                }
                other => panic!("{other:?}"),
            };
        }
        let mut bytes = [0; 512];
        let read = stream.read(&mut bytes).unwrap();
        assert!(read > 0, "the broker has closed without a word");
        from_broker.feed(&bytes[..read]);
    }
}

#[test]
fn clients_of_mqtt_are_sent_to_the_partners_listener_of_the_same_kind() {
    let issuer = issuer();
    let (site, _) = secure_site(&issuer);
    let [plain, tls] = [free_ports::<2>(), free_ports::<2>()];
    let listeners = |broker: usize| {
        let (plain, tls) = (plain[broker], tls[broker]);
        format!("mqtt = \"127.0.0.1:{plain}\"\nmqtt_tls = \"localhost:{tls}\"\n")
    };
    let text =
        format!("[brokers.a]\n{}[brokers.b]\n{}[mqtt]\nstandby = \"redirect\"\n", listeners(0), listeners(1));
    site.folder.write("conf.d/mqtt.toml", text);
    let pair = Pair::start_on(site);
    let primary = pair.wait_for_protection();
    let sent = sent_to(dial("127.0.0.1", plain[1 - primary]));
    assert_eq!(sent, Some(format!("127.0.0.1:{}", plain[primary])));
    let stream = encrypted(&issuer, dial("localhost", tls[1 - primary]));
    // As it was written: the host is what the certificate is for.
    assert_eq!(sent_to(stream), Some(format!("localhost:{}", tls[primary])));
}

fn dial(host: &str, port: u16) -> TcpStream {
    let socket = TcpStream::connect((host, port)).unwrap();
    socket.set_read_timeout(Some(WATCHDOG)).unwrap();
    socket
}

/// TLS with somebody whom this issuer has certified.
fn encrypted(issuer: &Issuer, socket: TcpStream) -> impl Read + Write {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(issuer.pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let trusting = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    rustls::StreamOwned::new(rustls::ClientConnection::new(Arc::new(trusting), name).unwrap(), socket)
}

/// How a client of TLS begins.
const CLIENT_HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
const MQTT_CONNECT: &[u8] = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01x";
const MQTT_ACCEPTED: &[u8] = b"\x20\x02\x00\x00";

#[test]
fn strangers_who_never_end_their_handshakes_keep_nobody_out_and_take_no_memory() {
    let issuer = issuer();
    let (site, addresses) = secure_site(&issuer);
    let [mqtt] = free_ports::<1>();
    site.folder.write("conf.d/mqtt.toml", format!("[brokers.a]\nmqtt_tls = \"127.0.0.1:{mqtt}\"\n"));
    let (ca, port) =
        (site.folder.path("ca.pem"), addresses.split([':', ',']).nth(1).unwrap().parse().unwrap());
    let mut pair = Pair::start_on(site);
    pair.wait_for_reign(0);
    let own_pair = pair.site.ports[1];
    let before = pair.broker(0).resident();
    {
        let strangers = Strangers::at(port, CLIENT_HELLO);
        let client = Client::builder().patience(WATCHDOG).tls(believing(ca)).connect(&addresses).unwrap();
        let heard = client.subscribe("t").unwrap();
        strangers.go_on();
        let contract = Contract::every(Span::millis(100)).deadline(Span::secs(10)).retain(8);
        client.publisher("t", contract).unwrap().publish(b"x").unwrap();
        wait_until("a message", || heard.next_within(std::time::Duration::ZERO).is_some());
    }
    {
        let _strangers = Strangers::at(own_pair, CLIENT_HELLO);
        pair.restart(1);
        pair.wait_for_protection();
    }
    {
        let _strangers = Strangers::at(mqtt, CLIENT_HELLO);
        wait_until("MQTT", || {
            let mut stream = encrypted(&issuer, dial("127.0.0.1", mqtt));
            let mut answer = vec![0; MQTT_ACCEPTED.len()];
            stream.write_all(MQTT_CONNECT).is_ok()
                && stream.read_exact(&mut answer).is_ok()
                && answer == MQTT_ACCEPTED
        });
    }
    let grown = pair.broker(0).resident().saturating_sub(before);
    assert!(grown < GROWTH_MAX, "{grown} bytes more");
}

/// Runs `verge broker a` with these keys, which it must refuse.
fn refused(keys: &str) -> support::Ran {
    let folder = Folder::new();
    let ca = issuer();
    issue(&ca, &folder, "broker");
    folder.write("ca.pem", ca.pem());
    let config = folder.write("verge.toml", keys);
    folder.run(["broker", "a", "--config", config.to_str().unwrap()])
}

#[test]
fn nothing_listens_beyond_this_host_without_protection() {
    let open = "[brokers.a]\nclients = \"127.0.0.1:0\"\npair = \"127.0.0.1:0\"\nmqtt = \"0.0.0.0:0\"\n";
    let words = ["brokers.a.mqtt = \"0.0.0.0:0\"", "security.users", "client_certificates", "--insecure"];
    refused(open).must(2, &words);
    let pair = "[brokers.a]\nclients = \"127.0.0.1:0\"\npair = \"0.0.0.0:0\"\n";
    refused(pair).must(2, &["brokers.a.pair = ", "pair_tls = true", "--insecure"]);
    // Certificates of clients protect a listener with TLS, and no other.
    let both = "[brokers.a]\nclients = \"127.0.0.1:0\"\npair = \"127.0.0.1:0\"\nmqtt = \"0.0.0.0:0\"\nmqtt_tls = \"0.0.0.0:0\"\n\
                [tls]\ncertificate = \"own.pem\"\nkey = \"own.key\"\nclient_ca = \"ca.pem\"\nclient_certificates = \"required\"\n";
    let ran = refused(both);
    ran.must(2, &["brokers.a.mqtt = "]);
    assert!(!ran.err.contains("brokers.a.mqtt_tls"), "{}", ran.err);
}

#[test]
fn what_tls_lacks_is_named() {
    let listener =
        "[brokers.a]\nclients = \"127.0.0.1:0\"\npair = \"127.0.0.1:0\"\nmqtt_tls = \"127.0.0.1:0\"\n";
    refused(listener).must(2, &["brokers.a.mqtt_tls needs tls.certificate", "tls.key"]);
    let absent = format!("{listener}[tls]\ncertificate = \"none.pem\"\nkey = \"own.key\"\n");
    refused(&absent).must(2, &["none.pem", "tls.certificate", "give the path"]);
    let swapped = format!("{listener}[tls]\ncertificate = \"own.key\"\nkey = \"own.key\"\n");
    refused(&swapped).must(2, &["there is no certificate in", "own.key"]);
    let asks = format!(
        "{listener}[tls]\ncertificate = \"own.pem\"\nkey = \"own.key\"\nclient_certificates = \"required\"\n"
    );
    refused(&asks).must(2, &["tls.client_ca"]);
    let other = format!("{listener}[tls]\ncertificate = \"ca.pem\"\nkey = \"own.key\"\n");
    refused(&other).must(2, &["does not match"]);
}
