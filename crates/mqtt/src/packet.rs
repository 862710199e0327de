//! Packets as the rest of the crate sees them, the same for both versions of the protocol.
//!
//! What is frequent (PUBLISH and the four acknowledgements) borrows from the bytes that came and allocates nothing. What is
//! rare (CONNECT, SUBSCRIBE, UNSUBSCRIBE) owns what it holds.
//!
//! [`decode()`] reads what clients send, and refuses everything that breaks the protocol. Functions such as [`delivery`] write
//! what the broker says.

mod checks;
mod decode;
mod encode;
mod library;
mod malformed;
mod properties;
mod property;
mod reader;

pub use decode::{Decoded, Head, Oversized, decode, oversized};
pub use encode::{
    PACKET_BYTES_MAX, acknowledge, acknowledge_error, connack, delivery, delivery_bytes, disconnect, pong,
    suback, unsuback,
};
pub use malformed::Malformed;

use std::fmt;

/// Which version of the protocol a connection speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// 3.1, which is 3.1.1 but for a few bits.
    V31,
    /// 3.1.1.
    V311,
    /// 5.0.
    V5,
}

impl Version {
    /// Whether it is 5.0: whether answers have reasons, and packets properties.
    #[inline]
    pub fn is_5(self) -> bool {
        self == Version::V5
    }
}

impl Version {
    /// As people write it, with the protocol.
    pub fn protocol(self) -> &'static str {
        match self {
            Version::V31 => "MQTT 3.1",
            Version::V311 => "MQTT 3.1.1",
            Version::V5 => "MQTT 5",
        }
    }
}

/// How surely a message is delivered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(u8)]
pub enum Qos {
    /// At most once: QoS 0.
    #[default]
    AtMostOnce = 0,
    /// At least once: QoS 1.
    AtLeastOnce = 1,
    /// Exactly once: QoS 2.
    ExactlyOnce = 2,
}

impl Qos {
    /// By its number.
    pub fn from_number(number: u8) -> Option<Qos> {
        [Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce].get(usize::from(number)).copied()
    }
}

/// Why something was done or refused: a reason code of MQTT 5, section 2.4. For 3.1.1 they are turned into what it has.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reason(pub u8);

macro_rules! reasons {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        impl Reason {
            $(#[doc = $text] pub const $name: Reason = Reason($code);)*

            /// In words.
            pub fn text(self) -> &'static str {
                match self.0 {
                    $($code => $text,)*
                    _ => "unknown reason",
                }
            }
        }
    };
}

reasons! {
    SUCCESS = 0x00, "success";
    GRANTED_QOS_1 = 0x01, "granted QoS 1";
    GRANTED_QOS_2 = 0x02, "granted QoS 2";
    DISCONNECT_WITH_WILL = 0x04, "disconnect with will message";
    NO_MATCHING_SUBSCRIBERS = 0x10, "no matching subscribers";
    NO_SUBSCRIPTION_EXISTED = 0x11, "no subscription existed";
    UNSPECIFIED = 0x80, "unspecified error";
    MALFORMED_PACKET = 0x81, "malformed packet";
    PROTOCOL_ERROR = 0x82, "protocol error";
    IMPLEMENTATION_SPECIFIC = 0x83, "implementation specific error";
    UNSUPPORTED_VERSION = 0x84, "unsupported protocol version";
    CLIENT_ID_NOT_VALID = 0x85, "client identifier not valid";
    BAD_CREDENTIALS = 0x86, "bad user name or password";
    NOT_AUTHORIZED = 0x87, "not authorized";
    SERVER_UNAVAILABLE = 0x88, "server unavailable";
    SERVER_BUSY = 0x89, "server busy";
    BANNED = 0x8A, "banned";
    SHUTTING_DOWN = 0x8B, "server shutting down";
    BAD_AUTHENTICATION_METHOD = 0x8C, "bad authentication method";
    KEEP_ALIVE_TIMEOUT = 0x8D, "keep alive timeout";
    SESSION_TAKEN_OVER = 0x8E, "session taken over";
    TOPIC_FILTER_INVALID = 0x8F, "topic filter invalid";
    TOPIC_NAME_INVALID = 0x90, "topic name invalid";
    PACKET_ID_IN_USE = 0x91, "packet identifier in use";
    PACKET_ID_NOT_FOUND = 0x92, "packet identifier not found";
    RECEIVE_MAXIMUM_EXCEEDED = 0x93, "receive maximum exceeded";
    TOPIC_ALIAS_INVALID = 0x94, "topic alias invalid";
    PACKET_TOO_LARGE = 0x95, "packet too large";
    MESSAGE_RATE_TOO_HIGH = 0x96, "message rate too high";
    QUOTA_EXCEEDED = 0x97, "quota exceeded";
    ADMINISTRATIVE_ACTION = 0x98, "administrative action";
    PAYLOAD_FORMAT_INVALID = 0x99, "payload format invalid";
    RETAIN_NOT_SUPPORTED = 0x9A, "retain not supported";
    QOS_NOT_SUPPORTED = 0x9B, "QoS not supported";
    USE_ANOTHER_SERVER = 0x9C, "use another server";
    SERVER_MOVED = 0x9D, "server moved";
    SHARED_NOT_SUPPORTED = 0x9E, "shared subscriptions not supported";
    CONNECTION_RATE_EXCEEDED = 0x9F, "connection rate exceeded";
    MAXIMUM_CONNECT_TIME = 0xA0, "maximum connect time";
    SUBSCRIPTION_IDS_NOT_SUPPORTED = 0xA1, "subscription identifiers not supported";
    WILDCARDS_NOT_SUPPORTED = 0xA2, "wildcard subscriptions not supported";
}

impl Reason {
    /// Whether it says that something was not done.
    pub fn is_error(self) -> bool {
        self.0 >= 0x80
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:02X} ({})", self.0, self.text())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}

/// A packet that a client sent.
#[derive(Clone, PartialEq, Debug)]
pub enum Packet<'a> {
    /// The first one.
    Connect(Box<Connect>),
    /// A message.
    Publish(Publish<'a>),
    /// One of the four answers to messages.
    Acknowledge(Acknowledge),
    /// Topics wanted.
    Subscribe(Subscribe),
    /// Topics no longer wanted.
    Unsubscribe(Unsubscribe),
    /// It is still there.
    Ping,
    /// The last one.
    Disconnect(Disconnect),
    /// Extended authentication, MQTT 5.
    Auth(Reason),
}

/// How a client introduces itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Connect {
    /// Version.
    pub version: Version,
    /// Whether it says that it is a bridge, as those of mosquitto do by the highest bit of the protocol level.
    pub bridge: bool,
    /// Empty: the broker makes one up.
    pub client: Box<str>,
    /// Whether its session begins anew.
    pub clean_start: bool,
    /// Seconds; zero: it may be silent for ever.
    pub keep_alive: u16,
    /// What is published if it goes without a word.
    pub will: Option<Will>,
    /// User name.
    pub user: Option<Box<str>>,
    /// Password.
    pub password: Option<Box<[u8]>>,
    /// Seconds for which its session outlives its connection; `u32::MAX`: for ever. For 3.1.1: zero with a clean session, else
    /// for ever.
    pub session_expiry: u32,
    /// Messages of QoS 1 and 2 that it takes before it has acknowledged them; at least 1.
    pub receive_maximum: u16,
    /// The largest packet that it takes.
    pub packet_bytes_max: Option<u32>,
    /// Topic aliases that it takes.
    pub topic_alias_maximum: u16,
    /// Whether it wants reasons in words.
    pub wants_problems: bool,
    /// The method of extended authentication that it asks for.
    pub authentication: Option<Box<str>>,
}

/// What is published when a client goes without a word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Will {
    /// Topic.
    pub topic: Box<str>,
    /// Payload.
    pub payload: Box<[u8]>,
    /// How surely it is delivered.
    pub qos: Qos,
    /// Whether it is retained.
    pub retain: bool,
    /// Seconds between the end of the connection and the will.
    pub delay: u32,
    /// Seconds for which it may be delivered.
    pub expiry: Option<u32>,
    /// Encoded properties that go on to subscribers, as [`Properties::forward`] gives them.
    pub properties: Box<[u8]>,
}

/// A message from a client.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Publish<'a> {
    /// Whether it has been sent before.
    pub dup: bool,
    /// How surely it is delivered.
    pub qos: Qos,
    /// Whether it is kept for subscribers to come.
    pub retain: bool,
    /// Empty where an alias stands for it.
    pub topic: &'a str,
    /// Zero with QoS 0.
    pub id: u16,
    /// A number for the topic.
    pub alias: Option<u16>,
    /// Seconds for which it may be delivered.
    pub expiry: Option<u32>,
    /// All of its properties, as they came.
    pub properties: Properties<'a>,
    /// What it carries.
    pub payload: &'a [u8],
}

/// Encoded and checked properties of a PUBLISH, without the length before them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Properties<'a>(pub(crate) &'a [u8]);

/// Which of the four answers to messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// QoS 1: it is covered.
    PubAck,
    /// QoS 2: it is covered, and its number is remembered.
    PubRec,
    /// QoS 2: its number may be forgotten.
    PubRel,
    /// QoS 2: it is forgotten.
    PubComp,
}

/// One of the four answers to messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acknowledge {
    /// Which one.
    pub answer: Answer,
    /// The message's packet identifier.
    pub id: u16,
    /// How it went.
    pub reason: Reason,
}

/// User properties with which a client asks for something begin like this.
pub(crate) const ASKING: &str = "verge-";

/// Topics wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subscribe {
    /// Packet identifier.
    pub id: u16,
    /// The number that comes with each message.
    pub subscription: Option<u32>,
    /// User properties that mean something here: names and values.
    pub asks: Vec<(Box<str>, Box<str>)>,
    /// Filters, at least one.
    pub filters: Vec<Wanted>,
}

/// One filter of a SUBSCRIBE. Its wildcards are where they may be; whether it is one that is taken is for the gateway to say, one by one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The filter, with `$share/group/` before it where it is shared.
    pub filter: Box<str>,
    /// How.
    pub options: Options,
}

/// Subscription options.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// At most so surely.
    pub qos: Qos,
    /// Not what the subscriber published itself.
    pub no_local: bool,
    /// The retain flag stays as it was published.
    pub retain_as_published: bool,
    /// Whether retained messages are sent at once.
    pub retain_handling: RetainHandling,
}

/// When retained messages are sent to a new subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RetainHandling {
    /// Always.
    #[default]
    Send,
    /// Where the subscription is new.
    SendIfNew,
    /// Never.
    Keep,
}

impl RetainHandling {
    /// Whether it wants them, with a subscription that is `new` or not.
    pub(crate) fn wants(self, new: bool) -> bool {
        match self {
            RetainHandling::Send => true,
            RetainHandling::SendIfNew => new,
            RetainHandling::Keep => false,
        }
    }
}

/// Topics no longer wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unsubscribe {
    /// Packet identifier.
    pub id: u16,
    /// Filters, at least one.
    pub filters: Vec<Box<str>>,
}

/// A client's last word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disconnect {
    /// Why.
    pub reason: Reason,
    /// Another [`Connect::session_expiry`].
    pub session_expiry: Option<u32>,
}

/// What a broker says to a CONNECT.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConnAck<'a> {
    /// Whether there was a session.
    pub session_present: bool,
    /// Success, or why not.
    pub reason: Reason,
    /// The session expiry, where it is not the one asked for.
    pub session_expiry: Option<u32>,
    /// Messages of QoS 1 and 2 that the broker takes before it has answered them.
    pub receive_maximum: Option<u16>,
    /// The largest packet that the broker takes.
    pub packet_bytes_max: Option<u32>,
    /// The name that the broker made up for the client.
    pub assigned_client: Option<&'a str>,
    /// Topic aliases that the broker takes.
    pub topic_alias_maximum: u16,
    /// The keep-alive that the broker wants instead, in seconds.
    pub server_keep_alive: Option<u16>,
    /// Where the client should go instead.
    pub server_reference: Option<&'a str>,
    /// In words.
    pub text: Option<&'a str>,
}

impl Default for Reason {
    fn default() -> Reason {
        Reason::SUCCESS
    }
}

/// A message to a client.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Delivery<'a> {
    /// Whether it has been sent before.
    pub dup: bool,
    /// How surely it is delivered.
    pub qos: Qos,
    /// Whether it was retained.
    pub retain: bool,
    /// Topic; empty where an alias that the client knows stands for it.
    pub topic: &'a str,
    /// Zero with QoS 0.
    pub id: u16,
    /// A number for the topic.
    pub alias: Option<u16>,
    /// Seconds for which it may still be delivered.
    pub expiry: Option<u32>,
    /// The numbers of the subscriptions that want it.
    pub subscriptions: &'a [u32],
    /// Encoded properties as [`Properties::forward`] gives them; left out for 3.1.1.
    pub properties: &'a [u8],
    /// What it carries.
    pub payload: &'a [u8],
}
