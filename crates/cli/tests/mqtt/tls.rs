//! The same clients over TLS: with the broker's certificate alone, and with certificates on both sides. Whoever does not trust
//! the broker, or shows no certificate where one is wanted, does not get in.

use crate::broker::{Broker, Listener, Secrets};
use crate::rumqttc_clients::{every_qos, retained, wills};
use crate::rumqttc_peer::{Way, v3, v5};
use crate::scenarios::{OVER_ANOTHER_WAY, mqtt_js, must_pass, paho};
use crate::support::{Folder, Process};
use crate::tools::{self, Tool, skipped};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Certificates of two authorities, of which the broker trusts one.
struct Papers {
    folder: Folder,
    authority: PathBuf,
    /// Of whom nobody has heard.
    other: PathBuf,
    server: [PathBuf; 2],
    client: [PathBuf; 2],
}

impl Papers {
    fn new() -> Papers {
        let folder = Folder::new();
        let authority = Authority::new("Plant");
        let other = Authority::new("Somebody else");
        let server = authority.signs("broker", ExtendedKeyUsagePurpose::ServerAuth);
        let client = authority.signs("sensor", ExtendedKeyUsagePurpose::ClientAuth);
        let write = |name: &str, text: &str| folder.write(name, text);
        Papers {
            authority: write("authority.pem", &authority.certificate),
            other: write("other.pem", &other.certificate),
            server: [write("broker.pem", &server[0]), write("broker.key", &server[1])],
            client: [write("client.pem", &client[0]), write("client.key", &client[1])],
            folder,
        }
    }

    fn secrets(&self, mutual: bool) -> Secrets {
        Secrets { authority: self.authority.clone(), server: self.server.clone(), mutual }
    }

    /// How a client comes in.
    fn way(&self, port: u16, mutual: bool) -> Value {
        let mut way = json!({"port": port, "authority": self.authority});
        if mutual {
            way["certificate"] = json!(self.client[0]);
            way["key"] = json!(self.client[1]);
        }
        way
    }
}

/// Who signs.
struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Authority { certificate, issuer: Issuer::new(params, key) }
    }

    /// A certificate for a name on this host, and its key.
    fn signs(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> [String; 2] {
        let hosts = ["127.0.0.1", "localhost"].map(str::to_owned);
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        [certificate.pem(), key.serialize_pem()]
    }
}

fn speaks_over_tls(test: &str, mutual: bool, client: Tool<Command>) {
    let papers = Papers::new();
    let broker = Broker::start_listening(Listener::Tls, Some(&papers.secrets(mutual)));
    match client.and_then(|client| Ok((client, broker?))) {
        Err(reason) => skipped(test, &reason),
        Ok((client, broker)) => {
            must_pass(&broker, client, &papers.way(broker.port, mutual), &OVER_ANOTHER_WAY);
        }
    }
}

#[test]
fn paho_2_speaks_over_tls() {
    speaks_over_tls("paho 2 over TLS", false, paho(2));
}

#[test]
fn paho_1_speaks_over_tls_with_certificates_on_both_sides() {
    speaks_over_tls("paho 1 over mutual TLS", true, paho(1));
}

#[test]
fn mqtt_js_speaks_over_tls_with_certificates_on_both_sides() {
    speaks_over_tls("MQTT.js over mutual TLS", true, mqtt_js());
}

#[test]
fn rumqttc_speaks_over_tls_in_both_versions() {
    // Several tests may get here; the first one decides.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let papers = Papers::new();
    let authority = std::fs::read(&papers.authority).unwrap();
    let scenarios: [fn(Way<'_>); 6] = [
        every_qos::<v3::Version>,
        retained::<v3::Version>,
        wills::<v3::Version>,
        every_qos::<v5::Version>,
        retained::<v5::Version>,
        wills::<v5::Version>,
    ];
    for scenario in scenarios {
        match Broker::start_listening(Listener::Tls, Some(&papers.secrets(false))) {
            Err(reason) => return skipped("rumqttc over TLS", &reason),
            Ok(broker) => scenario(Way { port: broker.port, authority: Some(&authority) }),
        }
    }
}

/// The exit code of a publisher.
fn publishes(
    broker: &Broker,
    authority: &Path,
    certificate: Option<&[PathBuf; 2]>,
    log: PathBuf,
) -> Option<i32> {
    let mut command = Command::new("mosquitto_pub");
    command.args(["-h", "127.0.0.1", "-p", &broker.port.to_string(), "-t", "t", "-m", "m", "-q", "1"]);
    command.arg("--cafile").arg(authority);
    if let Some([certificate, key]) = certificate {
        command.arg("--cert").arg(certificate).arg("--key").arg(key);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Process::start(&mut command, log).wait_for_end()
}

#[test]
fn whoever_does_not_trust_the_broker_or_shows_no_certificate_does_not_get_in() {
    let papers = Papers::new();
    let log = || papers.folder.path("client.log");
    for mutual in [false, true] {
        let broker = Broker::start_listening(Listener::Tls, Some(&papers.secrets(mutual)));
        let broker = match tools::mosquitto_clients().and(broker) {
            Ok(broker) => broker,
            Err(reason) => return skipped("strangers over TLS", &reason),
        };
        let certificate = mutual.then_some(&papers.client);
        assert_eq!(publishes(&broker, &papers.authority, certificate, log()), Some(0));
        assert_ne!(
            publishes(&broker, &papers.other, certificate, log()),
            Some(0),
            "a broker that is not trusted"
        );
        if mutual {
            assert_ne!(publishes(&broker, &papers.authority, None, log()), Some(0), "no certificate");
        }
        assert_eq!(
            publishes(&broker, &papers.authority, certificate, log()),
            Some(0),
            "others do not notice"
        );
    }
}
