//! All frames, and how they are told apart.
//!
//! A frame is a head of eight bytes (kind, three reserved bytes, length of the body) and a body. The first frame of
//! both ends is [`Frame::Hello`]; it carries the magic number and the version, so that a stranger or another version is
//! recognised at once.

use crate::account::{LATENCY_COUNTS, Received, Trouble};
use crate::heartbeat::Nonce;
use crate::knowledge::Knows;
use crate::limits::{
    FRAME_BODY_BYTES_MAX, FRAME_HEAD_BYTES, NAME_BYTES_MAX, OPERATOR_BYTES_MAX, PASSWORD_BYTES_MAX,
    TEXT_BYTES_MAX, USER_BYTES_MAX,
};
use crate::load::{LevelStatuses, OperatorStatuses};
use crate::message::{Body, MarkKind, MessageKind};
use crate::reader::{Reader, put, put_text};
use crate::secret::Secret;
use crate::status::{NodeStatus, StreamStatuses};
use crate::terms::{CrossingHead, NeedsHead, TermsHead};
use crate::{Marks, Messages, PROTOCOL_VERSION};
use contract::{Contract, Crossing, Epoch, Needs, NodeId, Reign, Remedies, Span, TOPIC_BYTES_MAX, Time};
use std::fmt;
use zerocopy::byteorder::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Why bytes are not a frame. All of them are the peer's fault and end the connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The first bytes do not come from a Verge program.
    #[error("the peer does not speak the Verge protocol")]
    NotVerge,
    /// A Verge program of another version.
    #[error(
        "the peer speaks protocol version {0}, this program speaks {PROTOCOL_VERSION}: run the same release on both"
    )]
    Version(u16),
    /// A kind of frame that this version does not have.
    #[error("unknown frame kind {0:#04x}")]
    UnknownKind(u8),
    /// A length field above the limit. Nothing has been reserved for it.
    #[error("a frame of {0} bytes is above the limit of {FRAME_BODY_BYTES_MAX}")]
    FrameTooLong(usize),
    /// A payload above the limit.
    #[error("a payload of {0} bytes is above the limit of {max}", max = crate::limits::PAYLOAD_BYTES_MAX)]
    PayloadTooLong(usize),
    /// A body that ends before its content does.
    #[error("a frame ends in the middle of a field")]
    Truncated,
    /// A body that goes on after its content.
    #[error("{0} bytes too many in a frame")]
    TrailingBytes(usize),
    /// A text above its limit.
    #[error("a text of {length} bytes is above the limit of {limit}")]
    TextTooLong {
        /// Its length.
        length: usize,
        /// The limit of this field.
        limit: usize,
    },
    /// A text that is not UTF-8.
    #[error("a text is not valid UTF-8")]
    NotText,
    /// A contract that makes no sense.
    #[error("a contract with impossible terms")]
    BadContract,
    /// A field with a value that this version does not have.
    #[error("the value {value} is not allowed in field `{field}`")]
    BadValue {
        /// The field.
        field: &'static str,
        /// The value.
        value: u8,
    },
}

/// What the sender of a greeting is, and what it does at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Standing {
    /// A broker that looks for its pair.
    Seeking = 0,
    /// The broker that reigns.
    Primary = 1,
    /// A broker that stands by.
    Backup = 2,
    /// A client that follows a living primary.
    Following = 3,
    /// A client without a primary.
    Orphaned = 4,
    /// A client that cannot reach the primary, and asks a broker that stands by to be let through to it. What answers is the
    /// primary.
    CutOff = 5,
}

impl Standing {
    pub(crate) fn from_byte(value: u8) -> Result<Standing, WireError> {
        Ok(match value {
            0 => Standing::Seeking,
            1 => Standing::Primary,
            2 => Standing::Backup,
            3 => Standing::Following,
            4 => Standing::Orphaned,
            5 => Standing::CutOff,
            _ => return Err(WireError::BadValue { field: "standing", value }),
        })
    }

    /// Whether this is a broker.
    pub fn is_broker(self) -> bool {
        matches!(self, Standing::Seeking | Standing::Primary | Standing::Backup)
    }
}

/// The first frame in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello<'a> {
    /// What the sender is and does.
    pub standing: Standing,
    /// Whether a broker would rather be primary, where neither reigns yet.
    pub prefers_to_reign: bool,
    /// The highest reign that the sender knows.
    pub reign: Reign,
    /// The sender's process.
    pub node: NodeId,
    /// When the sender's process started, in nanoseconds since the Unix epoch. A later incarnation of a name replaces
    /// the earlier ones.
    pub incarnation: u64,
    /// The sender's name; a client that comes back under its name comes back to its streams.
    pub name: &'a str,
    /// The user that a client is; empty for nobody.
    pub user: &'a str,
    /// The user's password, or what brokers of a pair know each other by; empty for none.
    pub password: Secret<'a>,
    /// How far a broker's copy of sessions and retained messages is.
    pub knows: Knows<'a>,
}

/// Why a link is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FarewellReason {
    /// The sender ends its work.
    Leaving = 0,
    /// The receiver sent something that is not allowed.
    Misbehaved = 1,
    /// The receiver does not speak this version.
    Version = 2,
    /// A limit of the sender is reached.
    Limit = 3,
    /// Nothing was heard for too long.
    Silent = 4,
    /// The same name came again.
    Replaced = 5,
    /// The receiver is not known, or may not do what it wanted to.
    Denied = 6,
    /// The sender cannot tell yet who the receiver is: it may try again in a while.
    Busy = 7,
    /// The receiver asked to be let through to the primary, and the sender cannot do that now.
    NoWay = 8,
}

/// The last frame of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Farewell<'a> {
    /// Why.
    pub reason: FarewellReason,
    /// The same for people, with a remedy.
    pub text: &'a str,
}

/// A publisher asks to carry a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Register<'a> {
    /// The publisher's number for the stream.
    pub stream: u32,
    /// Which life of the publication this is. A later one counts its messages from zero again.
    pub incarnation: u64,
    /// The contract it asks for; without one, the broker's configuration must have one for this topic.
    pub contract: Option<Contract>,
    /// The topic.
    pub topic: &'a str,
}

/// A site's link to other brokers asks to carry a stream on behalf of its publisher, who numbers the messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carry<'a> {
    /// The sender's number for the stream.
    pub stream: u32,
    /// Which life of the publication this is.
    pub incarnation: u64,
    /// The first number that comes this way. Earlier ones that do not come are no loss.
    pub first_seq: u64,
    /// The contract that it asks for.
    pub contract: Contract,
    /// The topic.
    pub topic: &'a str,
    /// The publisher.
    pub publisher: &'a str,
    /// The site in which it is published.
    pub origin: &'a str,
    /// What is known of its messages when they come.
    pub crossing: Crossing,
}

/// The answer to [`Register`] and [`Carry`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict<'a> {
    /// The publisher's number for the stream.
    pub stream: u32,
    /// Whether the contract is given.
    pub admitted: bool,
    /// Whether the sender reigns. The word of one that does not says only whether it could take note of the stream.
    pub reigns: bool,
    /// Whether messages will be copied to the backup.
    pub replicate: bool,
    /// The contract as given; where refused, as asked for.
    pub contract: Option<Contract>,
    /// `D^d` and `D^r` of the plan.
    pub deadlines: [Span; 2],
    /// Where refused: the smallest changes that would be admitted.
    pub remedies: Remedies,
    /// Where refused: the reason, for people.
    pub text: &'a str,
}

/// A broker names one of its streams to a subscriber or to the other broker, before it first uses the number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Announce<'a> {
    /// The broker's number for the stream.
    pub stream: u32,
    /// The incarnation of its publisher.
    pub incarnation: u64,
    /// The number of the next message to arrive.
    pub next_seq: u64,
    /// Its contract.
    pub contract: Contract,
    /// Whether every number is used. If not, one that never comes is no loss: an operator had nothing to say.
    pub gapless: bool,
    /// The broker's number for the class of its contract; see [`Received`].
    pub class: u16,
    /// Its topic.
    pub topic: &'a str,
    /// Its publisher's name.
    pub publisher: &'a str,
    /// The site in which it is published; empty: in the broker's own.
    pub origin: &'a str,
    /// What is known of its messages: to a subscriber when they leave the broker, to the other broker when they come.
    pub crossing: Crossing,
}

/// How far one clock is ahead of another, and how exactly that is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockDifference {
    /// By how much; negative if it is behind.
    pub ahead: Span,
    /// The truth is no further from that.
    pub within: Span,
}

impl ClockDifference {
    /// The least by which the clocks differ, whichever is ahead.
    pub fn least(&self) -> Span {
        Span(self.ahead.0.saturating_abs().saturating_sub(self.within.0)).max(Span::ZERO)
    }
}

/// A broker tells a subscriber that messages were dropped for it, since it takes less than its topics bring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shortfall {
    /// For how long this was counted.
    pub span: Span,
    /// Messages that were dropped, the oldest first.
    pub dropped: u64,
    /// All that had to wait in this time: the dropped ones, and those that were sent.
    pub waited: u64,
    /// Bytes that its connection takes per second; zero where it takes none.
    pub rate: u64,
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shortfall { span, dropped, waited, rate } = self;
        let seconds = span.as_millis_f64() / 1e3;
        write!(
            f,
            "of {waited} messages that had to wait in the last {seconds:.0} s, {dropped} were dropped, the oldest first; "
        )?;
        match rate {
            0 => f.write_str("nothing is read at the moment"),
            _ => write!(f, "{:.1} kB/s are read", *rate as f64 / 1e3),
        }
    }
}

/// One frame.
#[expect(
    clippy::large_enum_variant,
    reason = "it lives on the stack for the length of one call, and nothing keeps many"
)]
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Frame<'a> {
    /// The greeting of both ends.
    Hello(Hello<'a>),
    /// The end of the link.
    Farewell(Farewell<'a>),
    /// News of the highest reign and of the sender's own standing. From a broker to everybody at each change; from a
    /// client to its brokers, which is how a deposed primary learns of it.
    Reign {
        /// The highest reign that the sender knows.
        reign: Reign,
        /// The sender's standing.
        standing: Standing,
    },
    /// Publisher to broker: carry this stream.
    Register(Register<'a>),
    /// A site's link to broker: carry this stream for its publisher.
    Carry(Carry<'a>),
    /// Broker to publisher: the answer.
    Verdict(Verdict<'a>),
    /// Publisher to broker: the stream ends. Broker to publisher: the number is no longer bound to a stream; register
    /// again.
    Unregister {
        /// The publisher's number for it.
        stream: u32,
    },
    /// Broker to publisher: messages of this stream were not kept, for want of memory.
    Untaken {
        /// The publisher's number for it.
        stream: u32,
        /// How many, since this was last said.
        messages: u32,
        /// Why, for people.
        text: &'a str,
    },
    /// Broker to subscriber or broker: this number means this stream.
    Announce(Announce<'a>),
    /// Broker to subscriber or broker: this number means nothing any more.
    Retire {
        /// The broker's number.
        stream: u32,
    },
    /// Publisher to broker: messages.
    Publish(Messages<'a>),
    /// Broker to subscriber: messages.
    Deliver(Messages<'a>),
    /// Primary to backup: copies.
    Replicate(Messages<'a>),
    /// Backup to primary: messages that came to the wrong broker.
    Forward(Messages<'a>),
    /// Primary to backup: copies that are no longer needed.
    Prune(Marks<'a>),
    /// Subscriber to broker: messages that have arrived.
    Confirm(Marks<'a>),
    /// Subscriber to broker: send me the topics of this filter.
    Subscribe {
        /// The subscriber's number for the subscription.
        number: u32,
        /// What it needs beyond the contracts of these topics.
        needs: Needs,
        /// The filter.
        filter: &'a str,
    },
    /// Broker to subscriber: the answer.
    Subscribed {
        /// The subscriber's number.
        number: u32,
        /// Whether it is carried.
        admitted: bool,
        /// Whether the sender reigns. The word of one that does not says only whether it could take note of it.
        reigns: bool,
        /// Where refused: why.
        text: &'a str,
    },
    /// Subscriber to broker: no longer.
    Unsubscribe {
        /// The subscriber's number.
        number: u32,
    },
    /// A site's link to broker: tell me now, and whenever it changes, what others subscribe here.
    AskInterest {
        /// Whether it wants to know as well which topics are published here.
        topics: bool,
    },
    /// A site's link to broker: send me no more than so much on this connection, since the link that it goes by is thin.
    Pace {
        /// Bytes in a second.
        rate: u64,
    },
    /// Broker to a site's link: somebody else subscribes these topics, or nobody does any more.
    Interest {
        /// Whether they are wanted.
        wanted: bool,
        /// From when a message is here until the last of them has it, at most.
        onward: Span,
        /// The filter. An empty one says that everything has been told that was there when this was asked.
        filter: &'a str,
    },
    /// Broker to a site's link: a topic is published in this site, or is not any more.
    Published {
        /// Whether it is.
        published: bool,
        /// The topic. An empty one says that everything has been told that was there when this was asked.
        topic: &'a str,
    },
    /// Broker to subscriber: you read too slowly.
    Shortfall(Shortfall),
    /// Subscriber to primary: what has come.
    Received(Received),
    /// Subscriber to primary: what was wrong with a stream.
    Trouble(Trouble),
    /// Primary to backup: a client's subscription, so that the backup keeps messages for it from the first moment.
    Session {
        /// The client's incarnation.
        incarnation: u64,
        /// Whether it begins or ends.
        present: bool,
        /// What it needs beyond the contracts of these topics.
        needs: Needs,
        /// The client's name.
        client: &'a str,
        /// The filter.
        filter: &'a str,
    },
    /// Primary to backup: what those who serve other protocols have to remember, in their own form.
    Records(&'a [u8]),
    /// Primary to backup: what operators remember, in their own form, with the sender's numbers of streams in it.
    Memory {
        /// The instance of a graph.
        instance: &'a str,
        /// What it remembers.
        picture: &'a [u8],
    },
    /// Broker to primary: take me as your backup.
    Join,
    /// Broker to primary that reigns unasked: take me as your backup. I keep the sessions and retained messages that I have, since I
    /// know more; tell me what you have changed, and let me reign.
    JoinKnowing,
    /// Broker to broker: how far the sender's copy of sessions and retained messages is.
    Knows(Knows<'a>),
    /// Primary to backup: you know everything now.
    Synced,
    /// Backup to primary: I do; the pair is protected.
    Standby,
    /// Backup to primary, client to broker: are you there?
    Poll {
        /// Counts the polls of a link.
        number: u64,
    },
    /// The answer to [`Frame::Poll`].
    PollReply {
        /// The poll's number.
        number: u64,
    },
    /// Broker to broker: what my heartbeats are signed with, besides our secret.
    Heartbeats {
        /// Drawn at random.
        nonce: Nonce,
    },
    /// Client to broker: what does your clock say?
    ClockRequest {
        /// What the client's clock says.
        sent: Time,
        /// By how much it is ahead of the broker's, as far as the client knows.
        known: Option<ClockDifference>,
    },
    /// The answer to [`Frame::ClockRequest`].
    ClockReply {
        /// What the client's clock said.
        sent: Time,
        /// What the broker's says.
        clock: Time,
    },
    /// Operator to primary: give the reign to the backup.
    Handover,
    /// Broker to admin: the answer.
    HandoverReply {
        /// Whether the reign has been given.
        done: bool,
        /// The epoch that reigns now.
        epoch: Epoch,
        /// For people: what happened, or why not.
        text: &'a str,
    },
    /// Primary to backup: reign. Everything that was not dispatched has been sent before.
    TakeOver {
        /// The epoch of the new reign.
        epoch: Epoch,
    },
    /// Backup to primary: a client that cannot reach you has come to me; what it sends follows in this channel.
    RelayOpen {
        /// The backup's number for the channel.
        channel: u32,
        /// What the client calls itself.
        client: &'a str,
        /// Where the client comes from, if that is known.
        address: &'a str,
        /// The name in its certificate, if it has shown one.
        certificate: &'a str,
    },
    /// Between the brokers: what a relayed client sends or gets, as it is.
    Relay {
        /// The channel.
        channel: u32,
        /// Some of its bytes; frames may begin and end anywhere in them.
        bytes: &'a [u8],
    },
    /// Between the brokers: so many bytes of a channel have found their place, and as many more may follow.
    RelayRoom {
        /// The channel, or [`NO_CHANNEL`] for bytes that have only come over the link, whosever they are.
        channel: u32,
        /// How many.
        bytes: u32,
    },
    /// Between the brokers: nothing more comes in this channel. It is over when both have said so.
    RelayEnd {
        /// The channel.
        channel: u32,
    },
    /// Anyone to broker: a snapshot, with the rows of streams and operators from this number on.
    StatusRequest {
        /// The first row asked for, of streams and of operators.
        first_stream: u32,
        /// How many of each; zero for none.
        rows: u32,
    },
    /// Anyone to broker: which clients it has, from one on.
    ClientsRequest {
        /// What the answer before said as `next`; empty for the first.
        after: &'a str,
    },
    /// Broker to asker: clients, each as a JSON object and a comma.
    Clients {
        /// What to ask for next; empty: there are no more.
        next: &'a str,
        /// The rows.
        rows: &'a [u8],
    },
    /// Anyone to broker: a client is to be disconnected.
    DropClient {
        /// The client.
        client: &'a str,
        /// Whether its session ends as well.
        ends: bool,
    },
    /// Broker to asker: whether there was one.
    DropReply {
        /// Whether a client of that name was connected, or had a session.
        found: bool,
    },
    /// Broker to asker: the snapshot of the broker.
    NodeStatus(NodeStatus<'a>),
    /// Broker to asker: rows of levels, with the first rows of operators.
    LevelStatuses(LevelStatuses<'a>),
    /// Broker to asker: rows of operators, if there are any.
    OperatorStatuses(OperatorStatuses<'a>),
    /// Broker to asker: rows of streams; always the last of an answer that has rows.
    StreamStatuses(StreamStatuses<'a>),
}

/// What the beginning of a buffer holds.
#[expect(
    clippy::large_enum_variant,
    reason = "it lives on the stack for the length of one call, and most are frames"
)]
#[derive(PartialEq, Debug)]
pub enum Decoded<'a> {
    /// A frame, and the bytes it took.
    Frame(Frame<'a>, usize),
    /// The beginning of one; so many bytes make it whole.
    Incomplete(usize),
}

/// No channel in particular.
pub const NO_CHANNEL: u32 = u32::MAX;

const MAGIC: [u8; 4] = *b"VRGE";

mod kind {
    pub(super) const HELLO: u8 = 0x01;
    pub(super) const FAREWELL: u8 = 0x02;
    pub(super) const REIGN: u8 = 0x03;
    pub(super) const POLL: u8 = 0x04;
    pub(super) const POLL_REPLY: u8 = 0x05;
    pub(super) const CLOCK_REQUEST: u8 = 0x06;
    pub(super) const CLOCK_REPLY: u8 = 0x07;
    pub(super) const REGISTER: u8 = 0x10;
    pub(super) const VERDICT: u8 = 0x11;
    pub(super) const UNREGISTER: u8 = 0x12;
    pub(super) const ANNOUNCE: u8 = 0x13;
    pub(super) const RETIRE: u8 = 0x14;
    pub(super) const UNTAKEN: u8 = 0x15;
    pub(super) const SUBSCRIBE: u8 = 0x18;
    pub(super) const SUBSCRIBED: u8 = 0x19;
    pub(super) const UNSUBSCRIBE: u8 = 0x1a;
    pub(super) const SESSION: u8 = 0x1b;
    pub(super) const RECORDS: u8 = 0x1c;
    pub(super) const SHORTFALL: u8 = 0x1d;
    pub(super) const CARRY: u8 = 0x16;
    pub(super) const MEMORY: u8 = 0x17;
    pub(super) const ASK_INTEREST: u8 = 0x24;
    pub(super) const INTEREST: u8 = 0x25;
    pub(super) const PUBLISHED: u8 = 0x26;
    pub(super) const PACE: u8 = 0x27;
    pub(super) const RECEIVED: u8 = 0x1e;
    pub(super) const TROUBLE: u8 = 0x1f;
    pub(super) const JOIN: u8 = 0x30;
    pub(super) const SYNCED: u8 = 0x31;
    pub(super) const STANDBY: u8 = 0x32;
    pub(super) const TAKE_OVER: u8 = 0x33;
    pub(super) const JOIN_KNOWING: u8 = 0x34;
    pub(super) const KNOWS: u8 = 0x35;
    pub(super) const HEARTBEATS: u8 = 0x36;
    pub(super) const HANDOVER: u8 = 0x38;
    pub(super) const HANDOVER_REPLY: u8 = 0x39;
    pub(super) const STATUS_REQUEST: u8 = 0x40;
    pub(super) const NODE_STATUS: u8 = 0x41;
    pub(super) const STREAM_STATUSES: u8 = 0x42;
    pub(super) const OPERATOR_STATUSES: u8 = 0x43;
    pub(super) const LEVEL_STATUSES: u8 = 0x44;
    pub(super) const CLIENTS_REQUEST: u8 = 0x45;
    pub(super) const CLIENTS: u8 = 0x46;
    pub(super) const DROP_CLIENT: u8 = 0x47;
    pub(super) const DROP_REPLY: u8 = 0x48;
    pub(super) const RELAY_OPEN: u8 = 0x50;
    pub(super) const RELAY: u8 = 0x51;
    pub(super) const RELAY_ROOM: u8 = 0x52;
    pub(super) const RELAY_END: u8 = 0x53;
}

macro_rules! heads {
    ($($name:ident { $($field:ident: $type:ty),* $(,)? })*) => {$(
        #[repr(C)]
        #[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
        struct $name { $($field: $type),* }
    )*};
}

heads! {
    HelloHead { magic: [u8; 4], version: U16, standing: u8, prefers_to_reign: u8, epoch: U64, reign_node: U64, node: U64, incarnation: U64 }
    ReignHead { epoch: U64, node: U64, standing: u8 }
    RegisterHead { stream: U32, incarnation: U64, has_contract: u8, reserved: [u8; 3], terms: TermsHead }
    CarryHead { stream: U32, incarnation: U64, first_seq: U64, terms: TermsHead, crossing: CrossingHead }
    VerdictHead {
        stream: U32, admitted: u8, replicate: u8, has_contract: u8, reigns: u8, retain: U32,
        period: I64, deadline: I64, dispatch_deadline: I64, replication_deadline: I64, terms: TermsHead,
    }
    AnnounceHead {
        stream: U32, incarnation: U64, next_seq: U64, terms: TermsHead, gapless: u8, class: U16, crossing: CrossingHead,
    }
    InterestHead { wanted: u8, onward: I64 }
    SubscribedHead { number: U32, admitted: u8, reigns: u8 }
    ReceivedHead { class: U16, latency: [U32; LATENCY_COUNTS], latency_nanos: U64 }
    TroubleHead { stream: U32, lost: U32, run: U32, late: U32, by: I64 }
    ShortfallHead { span: I64, dropped: U64, waited: U64, rate: U64 }
    SessionHead { incarnation: U64, present: u8, needs: NeedsHead }
    SubscribeHead { number: U32, needs: NeedsHead }
    HandoverReplyHead { epoch: U64, done: u8 }
    StatusRequestHead { first_stream: U32, rows: U32 }
    ClockRequestHead { sent: U64, known: u8, ahead: I64, within: I64 }
    ClockReplyHead { sent: U64, clock: U64 }
    RelayRoomHead { channel: U32, bytes: U32 }
    UntakenHead { stream: U32, messages: U32 }
}

/// No remedy in this field.
const NONE_U32: u32 = u32::MAX;
const NONE_I64: i64 = i64::MIN;

/// Whether bytes begin as a greeting does.
#[inline]
pub fn is_greeting(bytes: &[u8]) -> bool {
    bytes.first() == Some(&kind::HELLO)
}

/// Reads the frame at the beginning of `bytes`.
pub fn decode(bytes: &[u8]) -> Result<Decoded<'_>, WireError> {
    let Some((head, rest)) = bytes.split_at_checked(FRAME_HEAD_BYTES) else {
        return Ok(Decoded::Incomplete(FRAME_HEAD_BYTES));
    };
    let &[kind, _, _, _, l0, l1, l2, l3] = head else { return Err(WireError::Truncated) };
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if length > FRAME_BODY_BYTES_MAX {
        return Err(WireError::FrameTooLong(length));
    }
    let Some(body) = rest.get(..length) else {
        return Ok(Decoded::Incomplete(FRAME_HEAD_BYTES + length));
    };
    Ok(Decoded::Frame(Frame::decode_body(kind, body)?, FRAME_HEAD_BYTES + length))
}

impl<'a> Frame<'a> {
    /// Appends the frame to `out`. Texts above their limit are cut.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let at = out.len();
        out.extend_from_slice(&[self.kind(), 0, 0, 0, 0, 0, 0, 0]);
        self.encode_body(out);
        let length = (out.len() - at - FRAME_HEAD_BYTES) as u32;
        if let Some(field) = out.get_mut(at + 4..at + FRAME_HEAD_BYTES) {
            field.copy_from_slice(&length.to_le_bytes());
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Frame::Hello(_) => kind::HELLO,
            Frame::Farewell(_) => kind::FAREWELL,
            Frame::Reign { .. } => kind::REIGN,
            Frame::Register(_) => kind::REGISTER,
            Frame::Carry(_) => kind::CARRY,
            Frame::AskInterest { .. } => kind::ASK_INTEREST,
            Frame::Pace { .. } => kind::PACE,
            Frame::Interest { .. } => kind::INTEREST,
            Frame::Published { .. } => kind::PUBLISHED,
            Frame::Verdict(_) => kind::VERDICT,
            Frame::Unregister { .. } => kind::UNREGISTER,
            Frame::Announce(_) => kind::ANNOUNCE,
            Frame::Retire { .. } => kind::RETIRE,
            Frame::Untaken { .. } => kind::UNTAKEN,
            Frame::Publish(_) => MessageKind::Publish as u8,
            Frame::Deliver(_) => MessageKind::Deliver as u8,
            Frame::Replicate(_) => MessageKind::Replicate as u8,
            Frame::Forward(_) => MessageKind::Forward as u8,
            Frame::Prune(_) => MarkKind::Prune as u8,
            Frame::Confirm(_) => MarkKind::Confirm as u8,
            Frame::Subscribe { .. } => kind::SUBSCRIBE,
            Frame::Subscribed { .. } => kind::SUBSCRIBED,
            Frame::Unsubscribe { .. } => kind::UNSUBSCRIBE,
            Frame::Shortfall(_) => kind::SHORTFALL,
            Frame::Received(_) => kind::RECEIVED,
            Frame::Trouble(_) => kind::TROUBLE,
            Frame::Session { .. } => kind::SESSION,
            Frame::Records(_) => kind::RECORDS,
            Frame::Memory { .. } => kind::MEMORY,
            Frame::Join => kind::JOIN,
            Frame::JoinKnowing => kind::JOIN_KNOWING,
            Frame::Knows(_) => kind::KNOWS,
            Frame::Synced => kind::SYNCED,
            Frame::Standby => kind::STANDBY,
            Frame::Poll { .. } => kind::POLL,
            Frame::PollReply { .. } => kind::POLL_REPLY,
            Frame::Heartbeats { .. } => kind::HEARTBEATS,
            Frame::ClockRequest { .. } => kind::CLOCK_REQUEST,
            Frame::ClockReply { .. } => kind::CLOCK_REPLY,
            Frame::Handover => kind::HANDOVER,
            Frame::HandoverReply { .. } => kind::HANDOVER_REPLY,
            Frame::TakeOver { .. } => kind::TAKE_OVER,
            Frame::StatusRequest { .. } => kind::STATUS_REQUEST,
            Frame::ClientsRequest { .. } => kind::CLIENTS_REQUEST,
            Frame::Clients { .. } => kind::CLIENTS,
            Frame::DropClient { .. } => kind::DROP_CLIENT,
            Frame::DropReply { .. } => kind::DROP_REPLY,
            Frame::NodeStatus(_) => kind::NODE_STATUS,
            Frame::LevelStatuses(_) => kind::LEVEL_STATUSES,
            Frame::OperatorStatuses(_) => kind::OPERATOR_STATUSES,
            Frame::StreamStatuses(_) => kind::STREAM_STATUSES,
            Frame::RelayOpen { .. } => kind::RELAY_OPEN,
            Frame::Relay { .. } => kind::RELAY,
            Frame::RelayRoom { .. } => kind::RELAY_ROOM,
            Frame::RelayEnd { .. } => kind::RELAY_END,
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each frame")]
    fn encode_body(&self, out: &mut Vec<u8>) {
        match self {
            Frame::Hello(hello) => hello.encode(out),
            Frame::Farewell(farewell) => {
                put(out, &(farewell.reason as u8));
                put_text(out, farewell.text, TEXT_BYTES_MAX);
            }
            Frame::Reign { reign, standing } => {
                let (epoch, node) = (reign.epoch.0.into(), reign.node.0.into());
                put(out, &ReignHead { epoch, node, standing: *standing as u8 });
            }
            Frame::Register(register) => register.encode(out),
            Frame::Carry(carry) => carry.encode(out),
            Frame::Interest { wanted, onward, filter } => {
                put(out, &InterestHead { wanted: u8::from(*wanted), onward: onward.0.into() });
                put_text(out, filter, TOPIC_BYTES_MAX);
            }
            Frame::AskInterest { topics } => out.push(u8::from(*topics)),
            Frame::Pace { rate } => put(out, &U64::new(*rate)),
            Frame::Published { published, topic } => {
                out.push(u8::from(*published));
                put_text(out, topic, TOPIC_BYTES_MAX);
            }
            Frame::Verdict(verdict) => verdict.encode(out),
            Frame::Announce(announce) => announce.encode(out),
            Frame::Publish(run) | Frame::Deliver(run) | Frame::Replicate(run) | Frame::Forward(run) => {
                out.extend_from_slice(run.body());
            }
            Frame::Prune(run) | Frame::Confirm(run) => out.extend_from_slice(run.body()),
            Frame::Unregister { stream: number }
            | Frame::Retire { stream: number }
            | Frame::Unsubscribe { number } => put(out, &U32::new(*number)),
            Frame::RelayOpen { channel, client, address, certificate } => {
                put(out, &U32::new(*channel));
                put_text(out, client, NAME_BYTES_MAX);
                put_text(out, address, NAME_BYTES_MAX);
                put_text(out, certificate, TEXT_BYTES_MAX);
            }
            Frame::Relay { channel, bytes } => {
                put(out, &U32::new(*channel));
                out.extend_from_slice(bytes);
            }
            Frame::RelayRoom { channel, bytes } => {
                put(out, &RelayRoomHead { channel: (*channel).into(), bytes: (*bytes).into() });
            }
            Frame::RelayEnd { channel } => put(out, &U32::new(*channel)),
            Frame::Untaken { stream, messages, text } => {
                put(out, &UntakenHead { stream: (*stream).into(), messages: (*messages).into() });
                put_text(out, text, TEXT_BYTES_MAX);
            }
            Frame::Subscribe { number, needs, filter } => {
                put(out, &SubscribeHead { number: (*number).into(), needs: NeedsHead::new(needs) });
                put_text(out, filter, TOPIC_BYTES_MAX);
            }
            Frame::Subscribed { number, admitted, reigns, text } => {
                let (admitted, reigns) = (u8::from(*admitted), u8::from(*reigns));
                put(out, &SubscribedHead { number: (*number).into(), admitted, reigns });
                put_text(out, text, TEXT_BYTES_MAX);
            }
            Frame::Shortfall(Shortfall { span, dropped, waited, rate }) => {
                let (dropped, waited, rate) = ((*dropped).into(), (*waited).into(), (*rate).into());
                put(out, &ShortfallHead { span: span.0.into(), dropped, waited, rate });
            }
            Frame::Received(received) => {
                let (class, latency_nanos) = (received.class.into(), received.latency_nanos.into());
                put(out, &ReceivedHead { class, latency: received.latency.map(U32::new), latency_nanos });
            }
            Frame::Trouble(Trouble { stream, lost, run, late, by }) => {
                let [stream, lost, run, late] = [stream, lost, run, late].map(|number| U32::new(*number));
                put(out, &TroubleHead { stream, lost, run, late, by: by.0.into() });
            }
            Frame::Session { incarnation, present, needs, client, filter } => {
                let (present, needs) = (u8::from(*present), NeedsHead::new(needs));
                put(out, &SessionHead { incarnation: (*incarnation).into(), present, needs });
                put_text(out, client, NAME_BYTES_MAX);
                put_text(out, filter, TOPIC_BYTES_MAX);
            }
            Frame::Records(body) => out.extend_from_slice(body),
            Frame::Memory { instance, picture } => {
                put_text(out, instance, OPERATOR_BYTES_MAX);
                out.extend_from_slice(picture);
            }
            Frame::Knows(knows) => out.extend_from_slice(knows.bytes()),
            Frame::Join | Frame::JoinKnowing | Frame::Synced | Frame::Standby | Frame::Handover => {}
            Frame::Poll { number } | Frame::PollReply { number } => put(out, &U64::new(*number)),
            Frame::ClockRequest { sent, known } => {
                let (ahead, within) = known.map_or((0, 0), |known| (known.ahead.0, known.within.0));
                let (sent, known) = (sent.0.into(), u8::from(known.is_some()));
                put(out, &ClockRequestHead { sent, known, ahead: ahead.into(), within: within.into() });
            }
            Frame::ClockReply { sent, clock } => {
                put(out, &ClockReplyHead { sent: sent.0.into(), clock: clock.0.into() });
            }
            Frame::HandoverReply { done, epoch, text } => {
                put(out, &HandoverReplyHead { epoch: epoch.0.into(), done: u8::from(*done) });
                put_text(out, text, TEXT_BYTES_MAX);
            }
            Frame::TakeOver { epoch } => put(out, &U64::new(epoch.0)),
            Frame::Heartbeats { nonce } => put(out, nonce),
            Frame::StatusRequest { first_stream, rows } => {
                put(out, &StatusRequestHead { first_stream: (*first_stream).into(), rows: (*rows).into() });
            }
            Frame::ClientsRequest { after } => put_text(out, after, TEXT_BYTES_MAX),
            Frame::Clients { next, rows } => {
                put_text(out, next, TEXT_BYTES_MAX);
                out.extend_from_slice(rows);
            }
            Frame::DropClient { client, ends } => {
                put(out, &u8::from(*ends));
                put_text(out, client, TEXT_BYTES_MAX);
            }
            Frame::DropReply { found } => put(out, &u8::from(*found)),
            Frame::NodeStatus(status) => status.write(out),
            Frame::LevelStatuses(rows) => out.extend_from_slice(rows.0),
            Frame::OperatorStatuses(rows) => out.extend_from_slice(rows.0),
            Frame::StreamStatuses(rows) => out.extend_from_slice(rows.0),
        }
    }

    fn decode_body(kind: u8, body: &'a [u8]) -> Result<Frame<'a>, WireError> {
        // The frames that carry data first: they are the ones that come often.
        match kind {
            k if k == MessageKind::Publish as u8 => return Messages::check(body).map(Frame::Publish),
            k if k == MessageKind::Deliver as u8 => return Messages::check(body).map(Frame::Deliver),
            k if k == MessageKind::Replicate as u8 => return Messages::check(body).map(Frame::Replicate),
            k if k == MessageKind::Forward as u8 => return Messages::check(body).map(Frame::Forward),
            k if k == MarkKind::Prune as u8 => return Marks::check(body).map(Frame::Prune),
            k if k == MarkKind::Confirm as u8 => return Marks::check(body).map(Frame::Confirm),
            kind::RECORDS => return Ok(Frame::Records(body)),
            kind::KNOWS => return Knows::check(body).map(Frame::Knows),
            kind::RELAY => {
                let mut reader = Reader(body);
                let channel = reader.head::<U32>()?.get();
                return Ok(Frame::Relay { channel, bytes: reader.0 });
            }
            kind::CLIENTS => {
                let mut reader = Reader(body);
                let next = reader.text(TEXT_BYTES_MAX)?;
                return Ok(Frame::Clients { next, rows: reader.0 });
            }
            kind::STREAM_STATUSES => return StreamStatuses::check(body).map(Frame::StreamStatuses),
            kind::OPERATOR_STATUSES => return OperatorStatuses::check(body).map(Frame::OperatorStatuses),
            kind::LEVEL_STATUSES => return LevelStatuses::check(body).map(Frame::LevelStatuses),
            _ => {}
        }
        let mut reader = Reader(body);
        let frame = Frame::decode_control(kind, &mut reader)?;
        reader.end()?;
        Ok(frame)
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each frame")]
    fn decode_control(kind: u8, reader: &mut Reader<'a>) -> Result<Frame<'a>, WireError> {
        Ok(match kind {
            kind::HELLO => Frame::Hello(Hello::decode(reader)?),
            kind::FAREWELL => Frame::Farewell(Farewell::decode(reader)?),
            kind::REIGN => {
                let head = reader.head::<ReignHead>()?;
                let reign = Reign { epoch: Epoch(head.epoch.get()), node: NodeId(head.node.get()) };
                Frame::Reign { reign, standing: Standing::from_byte(head.standing)? }
            }
            kind::REGISTER => Frame::Register(Register::decode(reader)?),
            kind::CARRY => Frame::Carry(Carry::decode(reader)?),
            kind::ASK_INTEREST => Frame::AskInterest { topics: *reader.head::<u8>()? != 0 },
            kind::PACE => Frame::Pace { rate: reader.head::<U64>()?.get() },
            kind::PUBLISHED => {
                let published = *reader.head::<u8>()? != 0;
                Frame::Published { published, topic: reader.text(TOPIC_BYTES_MAX)? }
            }
            kind::INTEREST => {
                let head = reader.head::<InterestHead>()?;
                let (wanted, onward) = (head.wanted != 0, Span(head.onward.get()).max(Span::ZERO));
                Frame::Interest { wanted, onward, filter: reader.text(TOPIC_BYTES_MAX)? }
            }
            kind::VERDICT => Frame::Verdict(Verdict::decode(reader)?),
            kind::UNREGISTER => Frame::Unregister { stream: reader.head::<U32>()?.get() },
            kind::ANNOUNCE => Frame::Announce(Announce::decode(reader)?),
            kind::RETIRE => Frame::Retire { stream: reader.head::<U32>()?.get() },
            kind::UNTAKEN => {
                let head = reader.head::<UntakenHead>()?;
                let text = reader.text(TEXT_BYTES_MAX)?;
                Frame::Untaken { stream: head.stream.get(), messages: head.messages.get(), text }
            }
            kind::SUBSCRIBE => {
                let head = reader.head::<SubscribeHead>()?;
                let (number, needs) = (head.number.get(), head.needs.needs()?);
                Frame::Subscribe { number, needs, filter: reader.text(TOPIC_BYTES_MAX)? }
            }
            kind::SUBSCRIBED => {
                let head = reader.head::<SubscribedHead>()?;
                let text = reader.text(TEXT_BYTES_MAX)?;
                let (admitted, reigns) = (head.admitted != 0, head.reigns != 0);
                Frame::Subscribed { number: head.number.get(), admitted, reigns, text }
            }
            kind::UNSUBSCRIBE => Frame::Unsubscribe { number: reader.head::<U32>()?.get() },
            kind::SHORTFALL => {
                let head = reader.head::<ShortfallHead>()?;
                let (dropped, waited, rate) = (head.dropped.get(), head.waited.get(), head.rate.get());
                Frame::Shortfall(Shortfall { span: Span(head.span.get()), dropped, waited, rate })
            }
            kind::MEMORY => {
                let instance = reader.text(OPERATOR_BYTES_MAX)?;
                Frame::Memory { instance, picture: std::mem::take(&mut reader.0) }
            }
            kind::RECEIVED => {
                let head = reader.head::<ReceivedHead>()?;
                let (class, latency_nanos) = (head.class.get(), head.latency_nanos.get());
                Frame::Received(Received { class, latency: head.latency.map(U32::get), latency_nanos })
            }
            kind::TROUBLE => {
                let head = reader.head::<TroubleHead>()?;
                let [stream, lost, run, late] = [head.stream, head.lost, head.run, head.late].map(U32::get);
                Frame::Trouble(Trouble { stream, lost, run, late, by: Span(head.by.get()) })
            }
            kind::SESSION => {
                let head = reader.head::<SessionHead>()?;
                let client = reader.text(NAME_BYTES_MAX)?;
                let filter = reader.text(TOPIC_BYTES_MAX)?;
                let (incarnation, present) = (head.incarnation.get(), head.present != 0);
                Frame::Session { incarnation, present, needs: head.needs.needs()?, client, filter }
            }
            kind::JOIN => Frame::Join,
            kind::JOIN_KNOWING => Frame::JoinKnowing,
            kind::SYNCED => Frame::Synced,
            kind::STANDBY => Frame::Standby,
            kind::POLL => Frame::Poll { number: reader.head::<U64>()?.get() },
            kind::POLL_REPLY => Frame::PollReply { number: reader.head::<U64>()?.get() },
            kind::CLOCK_REQUEST => {
                let head = reader.head::<ClockRequestHead>()?;
                let (ahead, within) = (Span(head.ahead.get()), Span(head.within.get()));
                let known = (head.known != 0).then_some(ClockDifference { ahead, within });
                Frame::ClockRequest { sent: Time(head.sent.get()), known }
            }
            kind::CLOCK_REPLY => {
                let head = reader.head::<ClockReplyHead>()?;
                Frame::ClockReply { sent: Time(head.sent.get()), clock: Time(head.clock.get()) }
            }
            kind::HANDOVER => Frame::Handover,
            kind::HANDOVER_REPLY => {
                let head = reader.head::<HandoverReplyHead>()?;
                let text = reader.text(TEXT_BYTES_MAX)?;
                Frame::HandoverReply { done: head.done != 0, epoch: Epoch(head.epoch.get()), text }
            }
            kind::TAKE_OVER => Frame::TakeOver { epoch: Epoch(reader.head::<U64>()?.get()) },
            kind::HEARTBEATS => Frame::Heartbeats { nonce: *reader.head::<Nonce>()? },
            kind::STATUS_REQUEST => {
                let head = reader.head::<StatusRequestHead>()?;
                Frame::StatusRequest { first_stream: head.first_stream.get(), rows: head.rows.get() }
            }
            kind::CLIENTS_REQUEST => Frame::ClientsRequest { after: reader.text(TEXT_BYTES_MAX)? },
            kind::DROP_CLIENT => {
                let ends = *reader.head::<u8>()? != 0;
                Frame::DropClient { client: reader.text(TEXT_BYTES_MAX)?, ends }
            }
            kind::DROP_REPLY => Frame::DropReply { found: *reader.head::<u8>()? != 0 },
            kind::RELAY_OPEN => Frame::RelayOpen {
                channel: reader.head::<U32>()?.get(),
                client: reader.text(NAME_BYTES_MAX)?,
                address: reader.text(NAME_BYTES_MAX)?,
                certificate: reader.text(TEXT_BYTES_MAX)?,
            },
            kind::RELAY_ROOM => {
                let head = reader.head::<RelayRoomHead>()?;
                Frame::RelayRoom { channel: head.channel.get(), bytes: head.bytes.get() }
            }
            kind::RELAY_END => Frame::RelayEnd { channel: reader.head::<U32>()?.get() },
            kind::NODE_STATUS => Frame::NodeStatus(NodeStatus::read(reader)?),
            other => return Err(WireError::UnknownKind(other)),
        })
    }
}

impl<'a> Hello<'a> {
    fn encode(&self, out: &mut Vec<u8>) {
        let head = HelloHead {
            magic: MAGIC,
            version: PROTOCOL_VERSION.into(),
            standing: self.standing as u8,
            prefers_to_reign: u8::from(self.prefers_to_reign),
            epoch: self.reign.epoch.0.into(),
            reign_node: self.reign.node.0.into(),
            node: self.node.0.into(),
            incarnation: self.incarnation.into(),
        };
        put(out, &head);
        put_text(out, self.name, NAME_BYTES_MAX);
        put_text(out, self.user, USER_BYTES_MAX);
        put_text(out, self.password.0, PASSWORD_BYTES_MAX);
        out.extend_from_slice(self.knows.bytes());
    }

    /// The magic number and the version are read first: what follows them may differ in another version.
    fn decode(reader: &mut Reader<'a>) -> Result<Hello<'a>, WireError> {
        let magic = reader.0.get(..4).ok_or(WireError::NotVerge)?;
        if magic != MAGIC {
            return Err(WireError::NotVerge);
        }
        if let Some(&[low, high]) = reader.0.get(4..6)
            && u16::from_le_bytes([low, high]) != PROTOCOL_VERSION
        {
            return Err(WireError::Version(u16::from_le_bytes([low, high])));
        }
        let head = reader.head::<HelloHead>()?;
        Ok(Hello {
            standing: Standing::from_byte(head.standing)?,
            prefers_to_reign: head.prefers_to_reign != 0,
            reign: Reign { epoch: Epoch(head.epoch.get()), node: NodeId(head.reign_node.get()) },
            node: NodeId(head.node.get()),
            incarnation: head.incarnation.get(),
            name: reader.text(NAME_BYTES_MAX)?,
            user: reader.text(USER_BYTES_MAX)?,
            password: Secret(reader.text(PASSWORD_BYTES_MAX)?),
            knows: Knows::check(std::mem::take(&mut reader.0))?,
        })
    }
}

impl<'a> Farewell<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Farewell<'a>, WireError> {
        let reason = match *reader.head::<u8>()? {
            0 => FarewellReason::Leaving,
            1 => FarewellReason::Misbehaved,
            2 => FarewellReason::Version,
            3 => FarewellReason::Limit,
            4 => FarewellReason::Silent,
            5 => FarewellReason::Replaced,
            6 => FarewellReason::Denied,
            7 => FarewellReason::Busy,
            8 => FarewellReason::NoWay,
            value => return Err(WireError::BadValue { field: "reason", value }),
        };
        Ok(Farewell { reason, text: reader.text(TEXT_BYTES_MAX)? })
    }
}

/// Stands in the place of a contract where there is none.
fn no_terms() -> TermsHead {
    TermsHead::new(&Contract::every(Span::secs(1)))
}

impl<'a> Register<'a> {
    fn encode(&self, out: &mut Vec<u8>) {
        let head = RegisterHead {
            stream: self.stream.into(),
            incarnation: self.incarnation.into(),
            has_contract: u8::from(self.contract.is_some()),
            reserved: [0; 3],
            terms: self.contract.as_ref().map_or_else(no_terms, TermsHead::new),
        };
        put(out, &head);
        put_text(out, self.topic, TOPIC_BYTES_MAX);
    }

    fn decode(reader: &mut Reader<'a>) -> Result<Register<'a>, WireError> {
        let head = reader.head::<RegisterHead>()?;
        let contract = if head.has_contract != 0 { Some(head.terms.contract()?) } else { None };
        Ok(Register {
            stream: head.stream.get(),
            incarnation: head.incarnation.get(),
            contract,
            topic: reader.text(TOPIC_BYTES_MAX)?,
        })
    }
}

impl<'a> Carry<'a> {
    fn encode(&self, out: &mut Vec<u8>) {
        let head = CarryHead {
            stream: self.stream.into(),
            incarnation: self.incarnation.into(),
            first_seq: self.first_seq.into(),
            terms: TermsHead::new(&self.contract),
            crossing: CrossingHead::new(&self.crossing),
        };
        put(out, &head);
        put_text(out, self.topic, TOPIC_BYTES_MAX);
        put_text(out, self.publisher, NAME_BYTES_MAX);
        put_text(out, self.origin, NAME_BYTES_MAX);
    }

    fn decode(reader: &mut Reader<'a>) -> Result<Carry<'a>, WireError> {
        let head = reader.head::<CarryHead>()?;
        Ok(Carry {
            stream: head.stream.get(),
            incarnation: head.incarnation.get(),
            first_seq: head.first_seq.get(),
            contract: head.terms.contract()?,
            crossing: head.crossing.crossing()?,
            topic: reader.text(TOPIC_BYTES_MAX)?,
            publisher: reader.text(NAME_BYTES_MAX)?,
            origin: reader.text(NAME_BYTES_MAX)?,
        })
    }
}

impl<'a> Verdict<'a> {
    fn encode(&self, out: &mut Vec<u8>) {
        let head = VerdictHead {
            stream: self.stream.into(),
            admitted: u8::from(self.admitted),
            replicate: u8::from(self.replicate),
            has_contract: u8::from(self.contract.is_some()),
            reigns: u8::from(self.reigns),
            retain: self.remedies.retain.unwrap_or(NONE_U32).into(),
            period: self.remedies.period.map_or(NONE_I64, |t| t.0).into(),
            deadline: self.remedies.deadline.map_or(NONE_I64, |d| d.0).into(),
            dispatch_deadline: self.deadlines[0].0.into(),
            replication_deadline: self.deadlines[1].0.into(),
            terms: self.contract.as_ref().map_or_else(no_terms, TermsHead::new),
        };
        put(out, &head);
        put_text(out, self.text, TEXT_BYTES_MAX);
    }

    fn decode(reader: &mut Reader<'a>) -> Result<Verdict<'a>, WireError> {
        let head = reader.head::<VerdictHead>()?;
        let contract = if head.has_contract != 0 { Some(head.terms.contract()?) } else { None };
        let span = |field: I64| (field.get() != NONE_I64).then_some(Span(field.get()));
        Ok(Verdict {
            stream: head.stream.get(),
            admitted: head.admitted != 0,
            reigns: head.reigns != 0,
            replicate: head.replicate != 0,
            contract,
            deadlines: [Span(head.dispatch_deadline.get()), Span(head.replication_deadline.get())],
            remedies: Remedies {
                by_uplink: false,
                retain: Some(head.retain.get()).filter(|n| *n != NONE_U32),
                period: span(head.period),
                deadline: span(head.deadline),
            },
            text: reader.text(TEXT_BYTES_MAX)?,
        })
    }
}

impl<'a> Announce<'a> {
    fn encode(&self, out: &mut Vec<u8>) {
        let head = AnnounceHead {
            stream: self.stream.into(),
            incarnation: self.incarnation.into(),
            next_seq: self.next_seq.into(),
            terms: TermsHead::new(&self.contract),
            gapless: u8::from(self.gapless),
            class: self.class.into(),
            crossing: CrossingHead::new(&self.crossing),
        };
        put(out, &head);
        put_text(out, self.topic, TOPIC_BYTES_MAX);
        put_text(out, self.publisher, NAME_BYTES_MAX);
        put_text(out, self.origin, NAME_BYTES_MAX);
    }

    fn decode(reader: &mut Reader<'a>) -> Result<Announce<'a>, WireError> {
        let head = reader.head::<AnnounceHead>()?;
        Ok(Announce {
            stream: head.stream.get(),
            incarnation: head.incarnation.get(),
            next_seq: head.next_seq.get(),
            contract: head.terms.contract()?,
            gapless: head.gapless != 0,
            class: head.class.get(),
            crossing: head.crossing.crossing()?,
            topic: reader.text(TOPIC_BYTES_MAX)?,
            publisher: reader.text(NAME_BYTES_MAX)?,
            origin: reader.text(NAME_BYTES_MAX)?,
        })
    }
}

#[cfg(test)]
mod tests;
