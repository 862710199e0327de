//! Where a broker listens, how many may come in, and what TLS needs there.

use super::keys::{
    self, BROKERS_CLIENTS, BROKERS_CLIENTS_TLS, BROKERS_MQTT, BROKERS_MQTT_TLS, BROKERS_MQTT_WS,
    BROKERS_MQTT_WSS, BROKERS_PAIR, BROKERS_PAIR_TLS,
};
use super::typed::Typed;
use super::value::Raw;
use super::{BrokerAddress, Config, Understanding};
use host::tls::{ClientCertificates, TlsSettings};
use host::{Door, DoorLimits, Guests, Place};
use wire::{Protocol, Transport};

/// Listeners that may name the host by which a broker is reached; those for clients first, since the pair may have a network of its own.
const REACHED: [Typed<Option<Place>>; 7] = [
    BROKERS_CLIENTS,
    BROKERS_CLIENTS_TLS,
    BROKERS_MQTT,
    BROKERS_MQTT_TLS,
    BROKERS_MQTT_WS,
    BROKERS_MQTT_WSS,
    BROKERS_PAIR,
];

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
        let address = |key: &Typed<Option<Place>>| self.of(key, broker).flatten();
        let named = |key: &Typed<Option<Place>>| address(key).map(|place| self.named(broker, &place));
        let reference = |key: &Typed<Option<Place>>| named(key).map(Into::into);
        let pair = match self.layers.values.get(&BROKERS_PAIR.path_of(broker)).map(|given| &given.raw) {
            Some(Raw::Text(text)) => text.as_str(),
            _ => "",
        };
        Listeners {
            clients_tls: address(&BROKERS_CLIENTS_TLS),
            clients_text: named(&BROKERS_CLIENTS).unwrap_or_default(),
            clients_tls_text: named(&BROKERS_CLIENTS_TLS),
            pair_tls: self.of(&BROKERS_PAIR_TLS, broker) == Some(true),
            pair_host: pair.rsplit_once(':').map_or("", |(host, _)| host).to_owned(),
            mqtt: address(&BROKERS_MQTT),
            mqtt_tls: address(&BROKERS_MQTT_TLS),
            mqtt_ws: address(&BROKERS_MQTT_WS),
            mqtt_wss: address(&BROKERS_MQTT_WSS),
            mqtt_references: mqtt::References {
                plain: reference(&BROKERS_MQTT),
                tls: reference(&BROKERS_MQTT_TLS),
                web_socket: reference(&BROKERS_MQTT_WS),
                secure_web_socket: reference(&BROKERS_MQTT_WSS),
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
        let named = REACHED.iter().filter_map(|key| self.of(key, broker).flatten()).find(Place::is_of_others);
        let named = named.as_ref().map(|place| place.host());
        format!("{}:{}", named.unwrap_or_default(), place.port())
    }

    pub(super) fn mqtt(&self) -> mqtt::Limits {
        mqtt::Limits {
            connections: self.get(&keys::LIMITS_CONNECTIONS),
            sessions: self.get(&keys::MQTT_SESSIONS),
            packet_bytes: self.get(&keys::MQTT_PACKET),
            topic_bytes: self.get(&keys::MQTT_TOPIC_BYTES),
            topic_levels: self.get(&keys::MQTT_TOPIC_LEVELS),
            receive_maximum: self.get(&keys::MQTT_RECEIVE_MAXIMUM),
            topic_aliases: self.get(&keys::MQTT_TOPIC_ALIASES),
            topic_aliases_out: self.get(&keys::MQTT_TOPIC_ALIASES_OUT),
            inflight: self.get(&keys::MQTT_INFLIGHT),
            queue_messages: self.get(&keys::MQTT_QUEUE_MESSAGES),
            queue_bytes: self.get(&keys::MQTT_QUEUE),
            // A connection is said to have room again once less than this waits on it.
            backlog_bytes: self.get(&keys::MQTT_BACKLOG).max(engine::driving::DRAINED_BYTES + 1),
            subscriptions_per_session: self.get(&keys::MQTT_SUBSCRIPTIONS_PER_SESSION),
            subscriptions: self.get(&keys::MQTT_SUBSCRIPTIONS),
            // A share of the broker's memory, which is known when it starts.
            filters_bytes: usize::MAX,
            retained_messages: self.get(&keys::MQTT_RETAINED_MESSAGES),
            retained_bytes: self.get(&keys::MQTT_RETAINED),
            topics_per_session: self.get(&keys::MQTT_TOPICS_PER_SESSION),
            greeting: self.get(&keys::MQTT_GREETING),
            session_expiry: self.get(&keys::MQTT_SESSION_EXPIRY),
            keep_alive: self.get(&keys::MQTT_KEEP_ALIVE),
            standby: self.get(&keys::MQTT_STANDBY),
            repeats: self.get(&keys::MQTT_REPEATS),
            refuses_when_full: self.get(&keys::MQTT_WHEN_FULL),
            hold: self.get(&keys::MQTT_HOLD),
            grace: self.get(&keys::MQTT_GRACE),
            sys_interval: self.get(&keys::MQTT_SYS_INTERVAL),
        }
    }

    pub(super) fn door_limits(&self) -> DoorLimits {
        DoorLimits {
            per_second: self.get(&keys::LIMITS_ACCEPTS_PER_SECOND),
            per_address: self.get(&keys::LIMITS_CONNECTIONS_PER_ADDRESS),
            clients: u32::try_from(self.get(&keys::LIMITS_CONNECTIONS)).unwrap_or(u32::MAX),
        }
    }

    pub(super) fn tls(&mut self) -> TlsSettings {
        let brokers = self.brokers();
        TlsSettings {
            client_certificates: self.get(&keys::TLS_CLIENT_CERTIFICATES),
            minimum: self.get(&keys::TLS_MINIMUM_VERSION),
            certificate: self.file(&keys::TLS_CERTIFICATE),
            key: self.file(&keys::TLS_KEY),
            ca: self.file(&keys::TLS_CA),
            client_ca: self.file(&keys::TLS_CLIENT_CA),
            brokers: brokers.into_iter().map(|broker| broker.listeners.pair_host).collect(),
        }
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
                    (keys::TLS_CERTIFICATE.path(), transport.is_secure() && tls.certificate.is_none()),
                    (keys::TLS_KEY.path(), transport.is_secure() && tls.key.is_none()),
                    (keys::TLS_CA.path(), needs_ca && tls.ca.is_none()),
                ];
                for (lacking, _) in lacks.into_iter().filter(|(_, lacks)| *lacks) {
                    let source = self.source(&path);
                    let remedy = format!("give {lacking}, or leave {path} out");
                    self.problem(&source, format!("{path} needs {lacking}, which is not configured"), remedy);
                }
            }
        }
        if tls.client_certificates != ClientCertificates::None && tls.client_ca.is_none() {
            let source = self.place_of(&keys::TLS_CLIENT_CERTIFICATES);
            let message =
                "tls.client_certificates asks for certificates, and tls.client_ca is not configured";
            let remedy = "give tls.client_ca: who issues certificates of clients";
            self.problem(&source, message.to_owned(), remedy.to_owned());
        }
    }
}
