//! A client of rumqttc that waits for what should happen, in its API for MQTT 3.1.1 and in that for MQTT 5.

use crate::support::WATCHDOG;
use rumqttc::v5::mqttbytes::v5::PublishProperties;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// A message that has come.
#[derive(Debug)]
pub struct Message {
    pub topic: String,
    pub payload: String,
    pub qos: u8,
    pub retain: bool,
    /// With MQTT 5.
    pub properties: Option<PublishProperties>,
}

/// What a broker said.
#[derive(Debug)]
pub enum Said {
    Connected {
        session: bool,
    },
    Subscribed,
    /// To a message of QoS 1 or 2, completely.
    Answered,
    Message(Message),
    Ended(String),
}

/// Where a broker is, and whom its certificate must be signed by, if it has one.
#[derive(Clone, Copy)]
pub struct Way<'a> {
    pub port: u16,
    pub authority: Option<&'a [u8]>,
}

/// Who connects, and how.
pub struct Who<'a> {
    pub way: Way<'a>,
    pub name: &'a str,
    /// Whether the session outlives the connection, and whether an earlier one is wanted.
    pub stay: bool,
    /// Its topic, which is also its payload.
    pub will: Option<&'a str>,
}

/// One of the two APIs.
pub trait Api {
    type Client;
    fn connect(who: &Who<'_>, killed: Arc<AtomicBool>) -> (Self::Client, Receiver<Said>);
    fn publish(client: &Self::Client, topic: &str, qos: u8, retain: bool, payload: &str);
    fn subscribe(client: &Self::Client, filter: &str, qos: u8);
    fn leave(client: &Self::Client);
}

/// A client.
pub struct Peer<A: Api> {
    pub client: A::Client,
    said: Receiver<Said>,
    messages: VecDeque<Message>,
    killed: Arc<AtomicBool>,
    pub session: bool,
}

impl<A: Api> Peer<A> {
    /// Connects.
    pub fn connect(who: &Who<'_>) -> Peer<A> {
        let killed = Arc::new(AtomicBool::new(false));
        let (client, said) = A::connect(who, Arc::clone(&killed));
        let mut peer = Peer { client, said, messages: VecDeque::new(), killed, session: false };
        peer.session = peer.wait("CONNACK", |said| match said {
            Said::Connected { session } => Some(*session),
            _ => None,
        });
        peer
    }

    /// Waits for something that the broker says; messages that come meanwhile are kept.
    pub fn wait<T>(&mut self, what: &str, mut find: impl FnMut(&Said) -> Option<T>) -> T {
        let until = Instant::now() + WATCHDOG;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let said = self.said.recv_timeout(left);
            let said = said.unwrap_or_else(|error| panic!("no {what}: {error}; came {:?}", self.messages));
            let found = find(&said);
            if let Said::Message(message) = said {
                self.messages.push_back(message);
            }
            if let Some(found) = found {
                return found;
            }
        }
    }

    pub fn subscribe(&mut self, filter: &str, qos: u8) {
        A::subscribe(&self.client, filter, qos);
        self.wait("SUBACK", |said| matches!(said, Said::Subscribed).then_some(()));
    }

    /// Returns when the broker has answered, but for QoS 0.
    pub fn publish(&mut self, topic: &str, qos: u8, retain: bool, payload: &str) {
        A::publish(&self.client, topic, qos, retain, payload);
        if qos > 0 {
            self.wait_for_answer();
        }
    }

    pub fn wait_for_answer(&mut self) {
        self.wait("answer", |said| matches!(said, Said::Answered).then_some(()));
    }

    pub fn take(&mut self) -> Message {
        if self.messages.is_empty() {
            self.wait("message", |said| matches!(said, Said::Message(_)).then_some(()));
        }
        self.messages.pop_front().unwrap()
    }

    /// The next message must have this payload.
    pub fn expect(&mut self, payload: &str) -> Message {
        let message = self.take();
        assert_eq!(message.payload, payload, "{message:?}");
        message
    }

    /// Says farewell, and waits until the connection has ended.
    pub fn leave(&mut self) {
        A::leave(&self.client);
        self.wait("end", |said| matches!(said, Said::Ended(_)).then_some(()));
    }

    /// The connection ends without a farewell.
    pub fn kill(self) {}
}

impl<A: Api> Drop for Peer<A> {
    fn drop(&mut self) {
        self.killed.store(true, Ordering::Relaxed);
    }
}

/// The time between two looks at whether the connection shall end.
pub const LOOK: Duration = Duration::from_millis(20);
/// Requests that may wait.
pub const REQUESTS: usize = 100;

/// Both APIs have the same words, but for a few.
macro_rules! api {
    ($module:ident, { $($import:item)* }, $stay:expr, $will:expr, $message:expr) => {
        pub mod $module {
            use super::{Api, LOOK, Message, REQUESTS, Said, WATCHDOG, Who};
            use std::sync::Arc;
            use std::sync::atomic::{AtomicBool, Ordering};
            use rumqttc::{TlsConfiguration, Transport};
            use std::sync::mpsc::{Receiver, Sender, channel};
            $($import)*

            /// The API of this version.
            pub struct Version;

            const QOS: [QoS; 3] = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];

            impl Api for Version {
                type Client = Client;

                fn connect(who: &Who<'_>, killed: Arc<AtomicBool>) -> (Client, Receiver<Said>) {
                    let mut options = MqttOptions::new(who.name, "127.0.0.1", who.way.port);
                    if let Some(authority) = who.way.authority {
                        let (ca, alpn, client_auth) = (authority.to_vec(), None, None);
                        let tls = TlsConfiguration::Simple { ca, alpn, client_auth };
                        options.set_transport(Transport::tls_with_config(tls));
                    }
                    let stay: fn(&mut MqttOptions, bool) = $stay;
                    let will: fn(&str) -> LastWill = $will;
                    stay(&mut options, who.stay);
                    if let Some(topic) = who.will {
                        options.set_last_will(will(topic));
                    }
                    let (client, connection) = Client::new(options, REQUESTS);
                    let (say, said) = channel();
                    std::thread::spawn(move || poll(connection, &say, &killed));
                    (client, said)
                }

                fn publish(client: &Client, topic: &str, qos: u8, retain: bool, payload: &str) {
                    client.publish(topic, QOS[usize::from(qos)], retain, payload.to_owned()).unwrap();
                }

                fn subscribe(client: &Client, filter: &str, qos: u8) {
                    client.subscribe(filter, QOS[usize::from(qos)]).unwrap();
                }

                fn leave(client: &Client) {
                    client.disconnect().unwrap();
                }
            }

            fn poll(mut connection: Connection, say: &Sender<Said>, killed: &AtomicBool) {
                let message: fn(Publish) -> Message = $message;
                // Whoever looks away while it connects begins anew, and the broker knows it already.
                let mut patience = WATCHDOG;
                while !killed.load(Ordering::Relaxed) {
                    let said = match connection.recv_timeout(patience) {
                        Err(RecvTimeoutError::Timeout) => continue,
                        Err(RecvTimeoutError::Disconnected) => Said::Ended("no client".to_owned()),
                        Ok(Err(error)) => Said::Ended(error.to_string()),
                        Ok(Ok(Event::Outgoing(_))) => continue,
                        Ok(Ok(Event::Incoming(packet))) => match packet {
                            Packet::ConnAck(answer) => {
                                patience = LOOK;
                                Said::Connected { session: answer.session_present }
                            }
                            Packet::SubAck(_) => Said::Subscribed,
                            Packet::PubAck(_) | Packet::PubComp(_) => Said::Answered,
                            Packet::Publish(publish) => Said::Message(message(publish)),
                            _ => continue,
                        },
                    };
                    let ended = matches!(said, Said::Ended(_));
                    if say.send(said).is_err() || ended {
                        return;
                    }
                }
            }
        }
    };
}

api!(
    v3,
    {
        use rumqttc::{
            Client, Connection, Event, LastWill, MqttOptions, Packet, Publish, QoS, RecvTimeoutError,
        };
    },
    |options, stay| {
        options.set_clean_session(!stay);
    },
    |topic| LastWill::new(topic, topic, QoS::AtLeastOnce, false),
    |publish| Message {
        topic: publish.topic,
        payload: String::from_utf8_lossy(&publish.payload).into_owned(),
        qos: publish.qos as u8,
        retain: publish.retain,
        properties: None,
    }
);

api!(
    v5,
    {
        use rumqttc::v5::mqttbytes::QoS;
        use rumqttc::v5::mqttbytes::v5::{LastWill, Packet, Publish};
        use rumqttc::v5::{Client, Connection, Event, MqttOptions, RecvTimeoutError};
    },
    |options, stay| {
        options.set_clean_start(!stay);
        options.set_session_expiry_interval(stay.then_some(60));
    },
    |topic| LastWill::new(topic, topic, QoS::AtLeastOnce, false, None),
    |publish| Message {
        topic: String::from_utf8_lossy(&publish.topic).into_owned(),
        payload: String::from_utf8_lossy(&publish.payload).into_owned(),
        qos: publish.qos as u8,
        retain: publish.retain,
        properties: publish.properties,
    }
);
