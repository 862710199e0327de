//! How records lie in files: little endian, one behind the other, from the header on.
//!
//! ```text
//! header   0 magic 8   8 version u16  10 lane u8  11 -  12 generation u32  16 id u64  24 covers_to u64
//!         32 bytes of the file u64  40 - 20  60 crc u32
//! record   0 length u32  4 crc u32  8 kind u8
//! item     9 flags u8  10 length of the identity u16  12 topic u32  16 item of the topic before it in this file u32, 0: none
//!         20 number u64  28 sequence u64  36 created u64  44 expires u64  52 identity, payload
//! note     9 -  10 length of the name u16  12 first u32  16 second u32  20 value u64  28 name
//! seal     9 - 3  12 entries u32  16 items from mark to mark u32  20 entries: topic u32, count u32, bytes u64, first u64, last u64, last at u32, declared at u32,
//!            created at the latest u64, expires at the latest u64, marks u32, marks: number u64, at u32, bytes before u32
//! trailer  the last bytes of a file that was sealed: seal at u32, its length u32, "SEAL", crc u32
//! ```
//!
//! A checksum is CRC-32C over all other bytes of what it stands in. A length of zero is the end: files are zero where nothing was written.

use crate::segment::{Entry, Mark, Segment};
use crate::{FileName, Position, TopicId};
use contract::Time;

pub(crate) const HEADER_BYTES: usize = 64;
pub(crate) const FRAME_BYTES: usize = 9;
/// What an item takes besides its identity and its payload.
pub const ITEM_BYTES: usize = 52;
/// What a note takes besides its name; with each segment one for each topic in it.
pub const NOTE_BYTES: usize = 28;
pub(crate) const TRAILER_BYTES: usize = 16;
/// The longest name of a topic or a receiver.
pub const NAME_BYTES_MAX: usize = 1_024;
const SEAL_BYTES: usize = 20;
const ENTRY_BYTES: usize = 60;
const MARK_BYTES: usize = 16;
const SEGMENT_MAGIC: &[u8; 8] = b"VergeSeg";
const NOTES_MAGIC: &[u8; 8] = b"VergeNot";
const SEAL_MAGIC: &[u8; 4] = b"SEAL";
/// The version of all of this.
pub const FORMAT_VERSION: u16 = 1;

pub(crate) const KIND_ITEM: u8 = 1;
pub(crate) const KIND_SEAL: u8 = 2;
const KINDS_OF_NOTES: std::ops::RangeInclusive<u8> = 16..=21;

/// What a seal takes.
pub(crate) const fn seal_bytes(entries: usize, marks: usize) -> usize {
    SEAL_BYTES + entries * ENTRY_BYTES + marks * MARK_BYTES
}

/// The head of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) lane: u8,
    pub(crate) generation: u32,
    pub(crate) id: u64,
    /// What was compacted into it: up to which segment of its lane.
    pub(crate) covers_to: u64,
    pub(crate) bytes: u64,
}

/// What a header turns out to be.
pub(crate) enum Found {
    Header(Header),
    /// Nothing but zeros, or nothing at all.
    Empty,
    Version(u16),
    Damaged,
}

impl Header {
    pub(crate) fn encode(&self, is_notes: bool) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(if is_notes { NOTES_MAGIC } else { SEGMENT_MAGIC });
        bytes[8..10].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[10] = self.lane;
        bytes[12..16].copy_from_slice(&self.generation.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.id.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.covers_to.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.bytes.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(name: FileName, bytes: &[u8]) -> Found {
        if bytes.iter().all(|byte| *byte == 0) {
            return Found::Empty;
        }
        let magic = match name {
            FileName::Notes(_) => NOTES_MAGIC,
            FileName::Segment { .. } => SEGMENT_MAGIC,
        };
        let (Some(found), Some(version)) = (bytes.get(..8), u16_at(bytes, 8)) else { return Found::Damaged };
        // No version is 0; that is a head of which the disk has kept the beginning. The version comes first: what stands behind it, and where its checksum is, is another version's affair.
        if found == magic && version != FORMAT_VERSION && version != 0 {
            return Found::Version(version);
        }
        let header = || {
            let crc = crc32c::crc32c(bytes.get(..60)?);
            let header = Header {
                lane: *bytes.get(10)?,
                generation: u32_at(bytes, 12)?,
                id: u64_at(bytes, 16)?,
                covers_to: u64_at(bytes, 24)?,
                bytes: u64_at(bytes, 32)?,
            };
            let named = match name {
                FileName::Notes(number) => (number, 0),
                FileName::Segment { id, generation } => (id, generation),
            };
            let fits = found == magic && crc == u32_at(bytes, 60)? && named == (header.id, header.generation);
            (fits && usize::from(header.lane) < crate::PRIORITIES).then_some(header)
        };
        header().map_or(Found::Damaged, Found::Header)
    }
}

/// An item as it lies in a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RawItem<'a> {
    pub(crate) topic: TopicId,
    pub(crate) flags: u8,
    pub(crate) before: u32,
    pub(crate) position: Position,
    pub(crate) sequence: u64,
    pub(crate) created: Time,
    pub(crate) expires: Time,
    pub(crate) identity: &'a [u8],
    pub(crate) payload: &'a [u8],
}

/// What is known of an item without its checksum: enough to find the one before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ItemHead {
    pub(crate) len: u32,
    pub(crate) topic: TopicId,
    pub(crate) before: u32,
    pub(crate) position: Position,
}

impl<'a> RawItem<'a> {
    pub(crate) fn len(&self) -> usize {
        ITEM_BYTES + self.identity.len() + self.payload.len()
    }

    pub(crate) fn encode(&self, into: &mut Vec<u8>) {
        into.clear();
        into.reserve(self.len());
        let mut head = [0; ITEM_BYTES];
        head[..4].copy_from_slice(&(self.len() as u32).to_le_bytes());
        head[8] = KIND_ITEM;
        head[9] = self.flags;
        head[10..12].copy_from_slice(&(self.identity.len() as u16).to_le_bytes());
        head[12..16].copy_from_slice(&self.topic.0.to_le_bytes());
        head[16..20].copy_from_slice(&self.before.to_le_bytes());
        head[20..28].copy_from_slice(&self.position.0.to_le_bytes());
        head[28..36].copy_from_slice(&self.sequence.to_le_bytes());
        head[36..44].copy_from_slice(&self.created.0.to_le_bytes());
        head[44..].copy_from_slice(&self.expires.0.to_le_bytes());
        into.extend_from_slice(&head);
        into.extend_from_slice(self.identity);
        into.extend_from_slice(self.payload);
        seal_record(into);
    }

    pub(crate) fn decode(bytes: &'a [u8]) -> Option<RawItem<'a>> {
        let head = ItemHead::decode(bytes)?;
        let behind = bytes.get(ITEM_BYTES..)?;
        let (identity, payload) = behind.split_at_checked(usize::from(u16_at(bytes, 10)?))?;
        Some(RawItem {
            topic: head.topic,
            flags: *bytes.get(9)?,
            before: head.before,
            position: head.position,
            sequence: u64_at(bytes, 28)?,
            created: Time(u64_at(bytes, 36)?),
            expires: Time(u64_at(bytes, 44)?),
            identity,
            payload,
        })
    }
}

impl ItemHead {
    pub(crate) fn decode(bytes: &[u8]) -> Option<ItemHead> {
        let head = ItemHead {
            len: u32_at(bytes, 0)?,
            topic: TopicId(u32_at(bytes, 12)?),
            before: u32_at(bytes, 16)?,
            position: Position(u64_at(bytes, 20)?),
        };
        (bytes.get(8) == Some(&KIND_ITEM) && head.len as usize >= ITEM_BYTES).then_some(head)
    }
}

/// What a note says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Word {
    /// First: the number of a topic. Second: its priority. Value: how long it is kept.
    Topic = 16,
    /// First: the number of a receiver.
    Receiver = 17,
    /// First: a receiver. Second: a topic. Value: up to where it was handed on.
    HandedOn = 18,
    /// First: a receiver that there is no more.
    Gone = 19,
    /// Value: how often the journal was opened.
    Opening = 20,
    /// All that there was to be said when the file was begun has been.
    Complete = 21,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Note<'a> {
    pub(crate) word: Word,
    pub(crate) first: u32,
    pub(crate) second: u32,
    pub(crate) value: u64,
    pub(crate) name: &'a [u8],
}

impl<'a> Note<'a> {
    pub(crate) fn encode(&self, into: &mut Vec<u8>) {
        into.clear();
        let len = NOTE_BYTES + self.name.len();
        into.extend_from_slice(&(len as u32).to_le_bytes());
        into.extend_from_slice(&[0; 4]);
        into.extend_from_slice(&[self.word as u8, 0]);
        into.extend_from_slice(&(self.name.len() as u16).to_le_bytes());
        into.extend_from_slice(&self.first.to_le_bytes());
        into.extend_from_slice(&self.second.to_le_bytes());
        into.extend_from_slice(&self.value.to_le_bytes());
        into.extend_from_slice(self.name);
        seal_record(into);
    }

    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Note<'a>> {
        let word = match *bytes.get(8)? {
            16 => Word::Topic,
            17 => Word::Receiver,
            18 => Word::HandedOn,
            19 => Word::Gone,
            20 => Word::Opening,
            21 => Word::Complete,
            _ => return None,
        };
        let name = bytes.get(NOTE_BYTES..)?;
        let len = usize::from(u16_at(bytes, 10)?);
        (name.len() == len && len <= NAME_BYTES_MAX).then_some(Note {
            word,
            first: u32_at(bytes, 12)?,
            second: u32_at(bytes, 16)?,
            value: u64_at(bytes, 20)?,
            name,
        })
    }
}

/// What a record turns out to be; its checksum is right.
pub(crate) enum Record<'a> {
    Item(RawItem<'a>),
    Note(Note<'a>),
    Seal,
}

impl<'a> Record<'a> {
    /// The record that these bytes are, no more and no less.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Record<'a>> {
        if !is_whole(bytes) {
            return None;
        }
        match *bytes.get(8)? {
            KIND_ITEM => RawItem::decode(bytes).map(Record::Item),
            KIND_SEAL => Some(Record::Seal),
            kind if KINDS_OF_NOTES.contains(&kind) => Note::decode(bytes).map(Record::Note),
            _ => None,
        }
    }
}

/// Whether these bytes are a record of this length with the right checksum.
pub(crate) fn is_whole(bytes: &[u8]) -> bool {
    if crate::Mutant::BelieveAnything.is_on() {
        return true;
    }
    let whole = || {
        let (len, behind) = (bytes.get(..4)?, bytes.get(8..)?);
        Some(u32_at(bytes, 0)? as usize == bytes.len() && checksum(len, behind) == u32_at(bytes, 4)?)
    };
    whole().unwrap_or(false)
}

fn checksum(len: &[u8], behind: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(len), behind)
}

fn seal_record(record: &mut [u8]) {
    let (frame, behind) = record.split_at_mut(8);
    let crc = checksum(&frame[..4], behind);
    frame[4..].copy_from_slice(&crc.to_le_bytes());
}

/// The index of a segment, to be written at its end.
pub(crate) fn encode_seal(segment: &Segment, into: &mut Vec<u8>) {
    into.clear();
    let len = seal_bytes(segment.entries.len(), segment.marks) as u32;
    into.extend_from_slice(&len.to_le_bytes());
    into.extend_from_slice(&[0, 0, 0, 0, KIND_SEAL, 0, 0, 0]);
    into.extend_from_slice(&(segment.entries.len() as u32).to_le_bytes());
    into.extend_from_slice(&segment.items_per_mark.to_le_bytes());
    for entry in &segment.entries {
        into.extend_from_slice(&entry.topic.0.to_le_bytes());
        into.extend_from_slice(&entry.count.to_le_bytes());
        for number in [entry.bytes, entry.first.0, entry.last.0] {
            into.extend_from_slice(&number.to_le_bytes());
        }
        into.extend_from_slice(&entry.last_at.to_le_bytes());
        into.extend_from_slice(&entry.declared_at.to_le_bytes());
        into.extend_from_slice(&entry.created_max.0.to_le_bytes());
        into.extend_from_slice(&entry.expires_max.0.to_le_bytes());
        into.extend_from_slice(&(entry.marks.len() as u32).to_le_bytes());
        for mark in &entry.marks {
            into.extend_from_slice(&mark.position.0.to_le_bytes());
            into.extend_from_slice(&mark.at.to_le_bytes());
            into.extend_from_slice(&mark.bytes_before.to_le_bytes());
        }
    }
    seal_record(into);
}

/// The entries of a seal whose checksum is right, and how many items there are from mark to mark.
pub(crate) fn decode_seal(bytes: &[u8]) -> Option<(Vec<Entry>, u32)> {
    let (count, items_per_mark) = (u32_at(bytes, 12)? as usize, u32_at(bytes, 16)?);
    let mut rest = bytes.get(SEAL_BYTES..)?;
    let mut entries = Vec::with_capacity(count.min(rest.len() / ENTRY_BYTES));
    for _ in 0..count {
        let (entry, behind) = rest.split_at_checked(ENTRY_BYTES)?;
        let marks = (u32_at(entry, 56)? as usize).checked_mul(MARK_BYTES)?;
        let (marks, behind) = behind.split_at_checked(marks)?;
        let mark = |bytes: &[u8]| {
            let position = Position(u64_at(bytes, 0)?);
            Some(Mark { position, at: u32_at(bytes, 8)?, bytes_before: u32_at(bytes, 12)? })
        };
        entries.push(Entry {
            topic: TopicId(u32_at(entry, 0)?),
            count: u32_at(entry, 4)?,
            bytes: u64_at(entry, 8)?,
            first: Position(u64_at(entry, 16)?),
            last: Position(u64_at(entry, 24)?),
            last_at: u32_at(entry, 32)?,
            declared_at: u32_at(entry, 36)?,
            created_max: Time(u64_at(entry, 40)?),
            expires_max: Time(u64_at(entry, 48)?),
            marks: marks.chunks_exact(MARK_BYTES).map(mark).collect::<Option<_>>()?,
            given_up: 0,
        });
        rest = behind;
    }
    (rest.is_empty() && items_per_mark > 0).then_some((entries, items_per_mark))
}

pub(crate) fn encode_trailer(seal_at: u32, len: u32) -> [u8; TRAILER_BYTES] {
    let mut bytes = [0; TRAILER_BYTES];
    bytes[..4].copy_from_slice(&seal_at.to_le_bytes());
    bytes[4..8].copy_from_slice(&len.to_le_bytes());
    bytes[8..12].copy_from_slice(SEAL_MAGIC);
    let crc = crc32c::crc32c(&bytes[..12]);
    bytes[12..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Where the seal is, and its length.
pub(crate) fn decode_trailer(bytes: &[u8]) -> Option<(u32, u32)> {
    let right = bytes.get(8..12)? == SEAL_MAGIC && crc32c::crc32c(bytes.get(..12)?) == u32_at(bytes, 12)?;
    right.then_some((u32_at(bytes, 0)?, u32_at(bytes, 4)?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
