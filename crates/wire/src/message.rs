//! The frames that carry payload (publish, deliver, replicate, forward) and those that only point at messages (prune,
//! confirm). Both come in batches: a frame's body is a run of messages or marks.

use crate::WireError;
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::reader::{Reader, put};
use contract::Time;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// On which leg of its way a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum MessageKind {
    /// From a publisher to a broker.
    Publish = 0x20,
    /// From a broker to a subscriber.
    Deliver = 0x21,
    /// A copy from the primary to its backup.
    Replicate = 0x22,
    /// A message that reached a broker which does not reign, on its way to the one that does.
    Forward = 0x23,
}

/// What a mark says of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum MarkKind {
    /// Primary to backup: the copy is no longer needed. If there was none: the message is not to be processed again.
    Prune = 0x28,
    /// Subscriber to broker: the message has arrived.
    Confirm = 0x29,
}

/// Properties of one message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MessageFlags(pub u8);

impl MessageFlags {
    /// Nothing special.
    pub const NONE: MessageFlags = MessageFlags(0);
    /// The publisher sends a retained message again after a failover; to a subscriber: it was sent again, or is dispatched from a copy, so
    /// that it may be late.
    pub const RESEND: MessageFlags = MessageFlags(1);
    /// The subscriber is asked to confirm.
    pub const CONFIRM: MessageFlags = MessageFlags(2);
    /// A result that is made of something that was out of date.
    pub const OUT_OF_DATE: MessageFlags = MessageFlags(4);
    /// A result that is made of things too far apart in time.
    pub const APART: MessageFlags = MessageFlags(8);

    /// It came through MQTT with QoS 1 or more; see [`MessageFlags::FOREIGN`].
    pub const AT_LEAST_ONCE: MessageFlags = MessageFlags(16);
    /// It came through MQTT with QoS 2.
    pub const EXACTLY_ONCE: MessageFlags = MessageFlags(32);
    /// It came through MQTT and is to be retained.
    pub const RETAIN: MessageFlags = MessageFlags(64);
    /// Its payload ends with a [`trailer`].
    pub const TRAILER: MessageFlags = MessageFlags(128);
    /// How it came through MQTT. Brokers and the links of sites tell each other, other clients neither say nor hear it.
    pub const FOREIGN: MessageFlags = MessageFlags(16 | 32 | 64 | 128);
    /// What is true of a message wherever it is: how it came, and what is wrong with it in time.
    pub const TRUTHS: MessageFlags = MessageFlags(4 | 8 | 16 | 32 | 64 | 128);

    /// Both sets together.
    #[must_use]
    pub fn with(self, other: MessageFlags) -> MessageFlags {
        MessageFlags(self.0 | other.0)
    }

    /// What is in both.
    #[must_use]
    pub fn only(self, other: MessageFlags) -> MessageFlags {
        MessageFlags(self.0 & other.0)
    }

    /// What is in this set, and not in the other.
    #[must_use]
    pub fn without(self, other: MessageFlags) -> MessageFlags {
        MessageFlags(self.0 & !other.0)
    }

    /// Whether all of `other` is set.
    pub fn contains(self, other: MessageFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// One message on the wire. Its stream is numbered by the sender, per link: a publisher by its registration, a broker
/// by its announcement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'a> {
    /// The sender's number for the stream.
    pub stream: u32,
    /// Properties.
    pub flags: MessageFlags,
    /// The message's number in its stream: 0, 1, 2 …
    pub seq: u64,
    /// When the publisher created it.
    pub created: Time,
    /// What it carries; at most [`PAYLOAD_BYTES_MAX`] bytes.
    pub payload: &'a [u8],
}

/// Cuts the trailer off a payload, where the flags say that it has one: what it carries, and the trailer. The trailer is for
/// whoever serves another protocol; its last two bytes are its length without them. One that is not as it should be counts as
/// payload.
#[inline]
pub fn trailer(flags: MessageFlags, payload: &[u8]) -> (&[u8], &[u8]) {
    let cut = if flags.contains(MessageFlags::TRAILER) { cut_trailer(payload) } else { None };
    cut.unwrap_or((payload, &[]))
}

#[cold]
fn cut_trailer(payload: &[u8]) -> Option<(&[u8], &[u8])> {
    let (rest, length) = payload.split_last_chunk::<2>()?;
    rest.split_at_checked(rest.len().checked_sub(usize::from(u16::from_le_bytes(*length)))?)
}

/// Ends a payload with a trailer, of which `bytes` have been appended. `false`: it is too long.
pub fn end_trailer(body: &mut Vec<u8>, bytes: usize) -> bool {
    let Ok(length) = u16::try_from(bytes) else { return false };
    body.extend_from_slice(&length.to_le_bytes());
    true
}

#[repr(C)]
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
struct MessageHead {
    stream: U32,
    /// The flags in the lowest byte, the payload's length above.
    length_and_flags: U32,
    seq: U64,
    created: U64,
}

impl<'a> Message<'a> {
    /// The bytes that it takes in a frame.
    pub fn encoded_bytes(&self) -> usize {
        size_of::<MessageHead>() + self.payload.len()
    }

    #[inline]
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        debug_assert!(self.payload.len() <= PAYLOAD_BYTES_MAX);
        let head = MessageHead {
            stream: self.stream.into(),
            length_and_flags: ((self.payload.len() as u32) << 8 | u32::from(self.flags.0)).into(),
            seq: self.seq.into(),
            created: self.created.0.into(),
        };
        put(out, &head);
        out.extend_from_slice(self.payload);
    }

    #[inline]
    fn read(reader: &mut Reader<'a>) -> Result<Message<'a>, WireError> {
        let head = reader.head::<MessageHead>()?;
        let length_and_flags = head.length_and_flags.get();
        let length = (length_and_flags >> 8) as usize;
        if length > PAYLOAD_BYTES_MAX {
            return Err(WireError::PayloadTooLong(length));
        }
        Ok(Message {
            stream: head.stream.get(),
            flags: MessageFlags(length_and_flags as u8),
            seq: head.seq.get(),
            created: Time(head.created.get()),
            payload: reader.bytes(length)?,
        })
    }
}

/// A run of messages whose lengths have been checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Messages<'a>(&'a [u8]);

impl<'a> Messages<'a> {
    pub(crate) fn check(body: &'a [u8]) -> Result<Messages<'a>, WireError> {
        let mut reader = Reader(body);
        while !reader.0.is_empty() {
            Message::read(&mut reader)?;
        }
        Ok(Messages(body))
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    #[inline]
    fn next(&mut self) -> Option<Message<'a>> {
        let mut reader = Reader(self.0);
        let message = Message::read(&mut reader).ok()?;
        self.0 = reader.0;
        Some(message)
    }
}

/// A pointer to one message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The stream's number. In a prune: the sender's. In a confirmation: the one under which it was delivered.
    pub stream: u32,
    /// The message's number in its stream.
    pub seq: u64,
}

#[repr(C)]
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
struct MarkHead {
    stream: U32,
    seq: U64,
}

/// The bytes that a mark takes in a frame.
pub const MARK_BYTES: usize = size_of::<MarkHead>();

impl Mark {
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        put(out, &MarkHead { stream: self.stream.into(), seq: self.seq.into() });
    }
}

/// A run of marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marks<'a>(&'a [u8]);

impl<'a> Marks<'a> {
    pub(crate) fn check(body: &'a [u8]) -> Result<Marks<'a>, WireError> {
        if body.len().is_multiple_of(MARK_BYTES) { Ok(Marks(body)) } else { Err(WireError::Truncated) }
    }
}

impl Iterator for Marks<'_> {
    type Item = Mark;

    fn next(&mut self) -> Option<Mark> {
        let mut reader = Reader(self.0);
        let head = reader.head::<MarkHead>().ok()?;
        self.0 = reader.0;
        Some(Mark { stream: head.stream.get(), seq: head.seq.get() })
    }
}

/// The body of a frame of messages or marks, as it was received, for encoding it again.
pub(crate) trait Body {
    fn body(&self) -> &[u8];
}

impl Body for Messages<'_> {
    fn body(&self) -> &[u8] {
        self.0
    }
}

impl Body for Marks<'_> {
    fn body(&self) -> &[u8] {
        self.0
    }
}
