//! Where a broker listens, how many may come in, and what TLS needs there.

use super::problems::Source;
use super::value::{Raw, Value};
use super::{BrokerAddress, Config, Understanding};
use host::tls::{ClientCertificates, TlsSettings, TlsVersion};
use host::{Door, DoorLimits, Guests, Place};
use std::path::{Path, PathBuf};
use wire::{Protocol, Transport};

/// Listeners that may name the host by which a broker is reached; those for clients first, since the pair may have a network of its own.
const REACHED: [&str; 7] = ["clients", "clients_tls", "mqtt", "mqtt_tls", "mqtt_ws", "mqtt_wss", "pair"];

/// Where a broker listens besides the two addresses that it always has.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Listeners {
    /// `clients` as others reach it.
    pub clients_text: String,
    /// Native clients with TLS.
    pub clients_tls: Option<Place>,
    /// The same as others reach it, with the host as it was written.
    pub clients_tls_text: Option<String>,
    /// Whether the partner comes with TLS.
    pub pair_tls: bool,
    /// The host of `pair` as it was written, which must be in the broker's certificate.
    pub pair_host: String,
    /// Clients of MQTT.
    pub mqtt: Option<Place>,
    /// With TLS.
    pub mqtt_tls: Option<Place>,
    /// Over WebSocket.
    pub mqtt_ws: Option<Place>,
    /// Over WebSocket with TLS.
    pub mqtt_wss: Option<Place>,
    /// The last four as clients reach them that are sent there, with hosts as they were written: certificates name those.
    pub mqtt_references: mqtt::References,
}

/// Where a broker listens, as it is configured.
#[derive(Clone, Copy, Debug)]
pub struct Entrance<'a> {
    /// Its key.
    pub key: &'static str,
    /// Where it listens.
    pub place: &'a Place,
    /// What is spoken there.
    pub protocol: Protocol,
    /// How bytes are carried.
    pub transport: Transport,
}

impl BrokerAddress {
    /// All its entrances.
    pub fn entrances(&self) -> Vec<Entrance<'_>> {
        let listeners = &self.listeners;
        let pair = if listeners.pair_tls { Transport::PairTls } else { Transport::Plain };
        let all = [
            ("clients", Some(&self.clients), Protocol::Verge, Transport::Plain),
            ("clients_tls", listeners.clients_tls.as_ref(), Protocol::Verge, Transport::Tls),
            ("pair", Some(&self.pair), Protocol::Verge, pair),
            ("mqtt", listeners.mqtt.as_ref(), Protocol::Mqtt, Transport::Plain),
            ("mqtt_tls", listeners.mqtt_tls.as_ref(), Protocol::Mqtt, Transport::Tls),
            ("mqtt_ws", listeners.mqtt_ws.as_ref(), Protocol::Mqtt, Transport::WebSocket),
            ("mqtt_wss", listeners.mqtt_wss.as_ref(), Protocol::Mqtt, Transport::SecureWebSocket),
        ];
        let present = all.into_iter().filter_map(|(key, place, protocol, transport)| {
            Some(Entrance { key, place: place?, protocol, transport })
        });
        present.collect()
    }

    /// All its doors, each with its key: a broker must know its own addresses.
    pub fn doors(&self) -> Result<Vec<(&'static str, Door)>, String> {
        let door = |entrance: Entrance<'_>| {
            let Entrance { key, place, protocol, transport } = entrance;
            let address = place.resolve_one().map_err(|reason| {
                format!(
                    "brokers.{}.{key} = \"{place}\" does not resolve ({reason}): a broker must know where it listens itself. \
                     Correct it, or write an IP address",
                    self.name
                )
            })?;
            let guests = if key == "pair" { Guests::Partner } else { Guests::Clients };
            Ok((key, Door { address, protocol, transport, guests }))
        };
        self.entrances().into_iter().map(door).collect()
    }
}

impl Understanding {
    pub(super) fn listeners(&self, broker: &str) -> Listeners {
        let path = |key: &str| format!("brokers.{broker}.{key}");
        let address = |key: &str| match self.values.get(&path(key)) {
            Some(Value::Address(address)) => Some(address.clone()),
            _ => None,
        };
        let text = |key: &str| match self.layers.values.get(&path(key)).map(|given| &given.raw) {
            Some(Raw::Text(text)) => text.clone(),
            _ => String::new(),
        };
        let clients_tls = address("clients_tls");
        let pair = text("pair");
        let named = |key: &str| address(key).map(|place| self.named(broker, &place));
        let reference = |key: &str| named(key).map(Into::into);
        Listeners {
            clients_tls,
            clients_text: named("clients").unwrap_or_default(),
            clients_tls_text: named("clients_tls"),
            pair_tls: self.values.get(&path("pair_tls")) == Some(&Value::Switch(true)),
            pair_host: pair.rsplit_once(':').map_or("", |(host, _)| host).to_owned(),
            mqtt: address("mqtt"),
            mqtt_tls: address("mqtt_tls"),
            mqtt_ws: address("mqtt_ws"),
            mqtt_wss: address("mqtt_wss"),
            mqtt_references: mqtt::References {
                plain: reference("mqtt"),
                tls: reference("mqtt_tls"),
                web_socket: reference("mqtt_ws"),
                secure_web_socket: reference("mqtt_wss"),
            },
        }
    }

    /// A listener as others reach it. One at all addresses of its host (`0.0.0.0`, `[::]`) is reached at the host that another listener
    /// of the broker names: the partner reaches one in any case. If that is only this host itself, there is no host before the port: it
    /// is the one by which somebody has come.
    fn named(&self, broker: &str, place: &Place) -> String {
        if !place.is_unspecified() {
            return place.to_string();
        }
        let named =
            REACHED.into_iter().find_map(|key| match self.values.get(&format!("brokers.{broker}.{key}")) {
                Some(Value::Address(other)) if other.is_of_others() => Some(other.host()),
                _ => None,
            });
        format!("{}:{}", named.unwrap_or_default(), place.port())
    }

    pub(super) fn mqtt(&self) -> mqtt::Limits {
        let small = |path: &str| u16::try_from(self.integer(path)).unwrap_or(u16::MAX);
        mqtt::Limits {
            connections: self.size("limits.connections"),
            sessions: self.size("mqtt.sessions"),
            packet_bytes: self.size("mqtt.packet"),
            topic_bytes: self.size("mqtt.topic_bytes"),
            topic_levels: self.size("mqtt.topic_levels"),
            receive_maximum: small("mqtt.receive_maximum"),
            topic_aliases: small("mqtt.topic_aliases"),
            topic_aliases_out: small("mqtt.topic_aliases_out"),
            inflight: small("mqtt.inflight"),
            queue_messages: self.size("mqtt.queue_messages"),
            queue_bytes: self.size("mqtt.queue"),
            // A connection is said to have room again once less than this waits on it.
            backlog_bytes: self.size("mqtt.backlog").max(engine::driving::DRAINED_BYTES + 1),
            subscriptions_per_session: self.size("mqtt.subscriptions_per_session"),
            subscriptions: self.size("mqtt.subscriptions"),
            // A share of the broker's memory, which is known when it starts.
            filters_bytes: usize::MAX,
            retained_messages: self.size("mqtt.retained_messages"),
            retained_bytes: self.size("mqtt.retained"),
            topics_per_session: self.size("mqtt.topics_per_session"),
            greeting: self.span("mqtt.greeting"),
            session_expiry: self.span("mqtt.session_expiry"),
            keep_alive: self.span("mqtt.keep_alive"),
            standby: match self.values.get("mqtt.standby") {
                Some(Value::Word(word)) if word == "redirect" => mqtt::Standby::Redirect,
                Some(Value::Word(word)) if word == "unavailable" => mqtt::Standby::Unavailable,
                _ => mqtt::Standby::Closed,
            },
            repeats: u32::try_from(self.integer("mqtt.repeats")).unwrap_or(u32::MAX),
            refuses_when_full: matches!(self.values.get("mqtt.when_full"), Some(Value::Word(word)) if word == "refuse"),
            hold: self.span("mqtt.hold"),
            grace: self.span("mqtt.grace"),
            sys_interval: self.span("mqtt.sys_interval"),
        }
    }

    pub(super) fn door_limits(&self) -> DoorLimits {
        let limit = |path: &str| u32::try_from(self.integer(path)).unwrap_or(u32::MAX);
        DoorLimits {
            per_second: limit("limits.accepts_per_second"),
            per_address: limit("limits.connections_per_address"),
            clients: limit("limits.connections"),
        }
    }

    pub(super) fn tls(&mut self) -> TlsSettings {
        let brokers = self.brokers();
        let word = |path: &str| match self.values.get(path) {
            Some(Value::Word(word)) => word.as_str(),
            _ => "",
        };
        TlsSettings {
            client_certificates: match word("tls.client_certificates") {
                "optional" => ClientCertificates::Optional,
                "required" => ClientCertificates::Required,
                _ => ClientCertificates::None,
            },
            minimum: if word("tls.minimum_version") == "1.3" { TlsVersion::V13 } else { TlsVersion::V12 },
            certificate: self.file("tls.certificate"),
            key: self.file("tls.key"),
            ca: self.file("tls.ca"),
            client_ca: self.file("tls.client_ca"),
            brokers: brokers.into_iter().map(|broker| broker.listeners.pair_host).collect(),
        }
    }

    /// A path, as seen from the file that has it.
    fn file(&self, key: &str) -> Option<PathBuf> {
        let Some(Value::Word(word)) = self.values.get(key) else { return None };
        let folder = match self.source(key) {
            Source::File(index, _) => self.layers.files.get(index).and_then(|file| file.path.parent()),
            _ => None,
        };
        Some(folder.unwrap_or(Path::new("")).join(word))
    }

    /// What listeners need and is not there.
    pub(super) fn check_listeners(&mut self, config: &Config) {
        let tls = &config.tls;
        for broker in &config.brokers {
            for Entrance { key, transport, .. } in broker.entrances() {
                let key = if key == "pair" { "pair_tls" } else { key };
                let path = format!("brokers.{}.{key}", broker.name);
                let needs_ca = transport == Transport::PairTls;
                let lacks = [
                    ("tls.certificate", transport.is_secure() && tls.certificate.is_none()),
                    ("tls.key", transport.is_secure() && tls.key.is_none()),
                    ("tls.ca", needs_ca && tls.ca.is_none()),
                ];
                for (lacking, _) in lacks.into_iter().filter(|(_, lacks)| *lacks) {
                    let source = self.source(&path);
                    let remedy = format!("give {lacking}, or leave {path} out");
                    self.problem(&source, format!("{path} needs {lacking}, which is not configured"), remedy);
                }
            }
        }
        if tls.client_certificates != ClientCertificates::None && tls.client_ca.is_none() {
            let source = self.source("tls.client_certificates");
            let message =
                "tls.client_certificates asks for certificates, and tls.client_ca is not configured";
            let remedy = "give tls.client_ca: who issues certificates of clients";
            self.problem(&source, message.to_owned(), remedy.to_owned());
        }
    }
}
