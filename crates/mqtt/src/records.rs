//! What has to outlive this process: told to the backup and to the store, in a form of its own.
//!
//! A record is a key and a value, or a key alone, which says that there is nothing any more. The first byte of a key is its
//! kind. Whoever has been told all records knows what this gateway knows.

use crate::packet::{Options, Qos, RetainHandling, Version, Will};
use crate::session::{Flight, Numbers, Session, Walk};
use crate::tree::Entry;
use contract::{Epoch, Needs, NodeId, Reign, Span, Time, invariant};
use std::collections::BTreeMap;
use wire::{Knowledge, Part};

/// Kinds of records, by the first byte of their keys.
pub(crate) mod kind {
    /// A session, by client.
    pub(crate) const SESSION: u8 = b'S';
    /// A message that waits for a session, by client and order.
    pub(crate) const WAITING: u8 = b'Q';
    /// A QoS 2 message from a client, by client and packet identifier.
    pub(crate) const INCOMING: u8 = b'I';
    /// What a message carries, by its name.
    pub(crate) const BODY: u8 = b'B';
    /// A retained message, by topic.
    pub(crate) const RETAINED: u8 = b'R';
    /// How many changes of a reign are known. It goes after the changes that it counts.
    pub(crate) const KNOWN: u8 = b'K';
    /// That a record was changed in a reign that began unasked, by its key; so that this outlives the process as well.
    pub(crate) const LOGGED: u8 = b'L';
}

/// Records that have been written and not yet told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    bytes: Vec<u8>,
    /// Whether anybody is told. Otherwise nothing is written.
    pub(crate) wanted: bool,
    /// How many have been written and not been counted.
    changes: u64,
    /// All that has been written since a reign began unasked.
    log: Option<ChangeLog>,
}

/// The latest of every record that has changed, for a partner that knows everything else.
#[derive(Clone, Debug, Default)]
struct ChangeLog {
    records: BTreeMap<Box<[u8]>, Option<Box<[u8]>>>,
    bytes: usize,
}

/// Above it, a log of changes is given up, and everything is told instead.
const LOG_BYTES_MAX: usize = 8 << 20;
/// What a record takes in it besides its key and its value.
const LOG_RECORD_BYTES: usize = 96;

/// One record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// Key.
    pub key: &'a [u8],
    /// Value; `None`: it is no more.
    pub value: Option<&'a [u8]>,
}

impl Record<'_> {
    /// The bytes that it takes among others.
    pub fn encoded_bytes(&self) -> usize {
        9 + self.key.len() + self.value.map_or(0, <[u8]>::len)
    }
}

impl ChangeLog {
    /// Whether the record is new in it.
    fn insert(&mut self, key: &[u8], value: Option<&[u8]>) -> bool {
        let size = |value: Option<&[u8]>| key.len() + value.map_or(0, <[u8]>::len) + LOG_RECORD_BYTES;
        self.bytes += size(value);
        let old = self.records.insert(key.into(), value.map(Box::from));
        self.bytes -= old.as_ref().map_or(0, |old| size(old.as_deref()));
        old.is_none()
    }
}

impl Records {
    /// Writes a record whose value is appended by `write`.
    pub(crate) fn put(&mut self, key: &Key<'_>, write: impl FnOnce(&mut Vec<u8>)) {
        if self.wanted {
            let begins = self.bytes.len();
            write_record(&mut self.bytes, key, Some(write));
            self.count(begins);
        }
    }

    /// Writes that there is nothing under this key any more.
    pub(crate) fn remove(&mut self, key: &Key<'_>) {
        if self.wanted {
            let begins = self.bytes.len();
            write_record(&mut self.bytes, key, None::<fn(&mut Vec<u8>)>);
            self.count(begins);
        }
    }

    /// Writes how far this copy is, which is no change.
    pub(crate) fn note(&mut self, part: &Part, place: u32) {
        if self.wanted {
            write_record(
                &mut self.bytes,
                &Key::Known(part.reign),
                Some(|out: &mut Vec<u8>| write_part(out, part, place)),
            );
        }
    }

    /// The same as somebody else has written it.
    pub(crate) fn note_as_it_is(&mut self, reign: Reign, value: &[u8]) {
        if self.wanted {
            let write = |out: &mut Vec<u8>| out.extend_from_slice(value);
            write_record(&mut self.bytes, &Key::Known(reign), Some(write));
        }
    }

    /// Writes the sum of what is not told apart.
    pub(crate) fn note_before(&mut self, before: u64) {
        if self.wanted {
            let write = |out: &mut Vec<u8>| out.extend_from_slice(&before.to_le_bytes());
            write_record(&mut self.bytes, &Key::Known(Reign::default()), Some(write));
        }
    }

    /// Writes that a reign is not told apart any more.
    pub(crate) fn note_gone(&mut self, reign: Reign) {
        if self.wanted {
            write_record(&mut self.bytes, &Key::Known(reign), None::<fn(&mut Vec<u8>)>);
        }
    }

    /// A record has been written, which begins there.
    fn count(&mut self, begins: usize) {
        self.changes += 1;
        if self.log.is_some() {
            self.log(begins);
        }
    }

    #[cold]
    fn log(&mut self, begins: usize) {
        let Some(log) = &mut self.log else { return invariant!("who logs a record has a log") };
        let Some(written) = self.bytes.get(begins..) else {
            return invariant!("a record that was just written is there");
        };
        let mut new = Vec::new();
        for Record { key, value } in records(written) {
            if log.insert(key, value) {
                write_record(&mut new, &Key::Logged(key), Some(|_: &mut Vec<u8>| {}));
            }
        }
        self.bytes.append(&mut new);
        if log.bytes > LOG_BYTES_MAX {
            self.end_log();
        }
    }

    /// From now on, what is written is kept as well; in addition to what an earlier life has kept.
    pub(crate) fn begin_log(&mut self) {
        self.log.get_or_insert_default();
        self.wanted = true;
    }

    /// No longer.
    pub(crate) fn end_log(&mut self) {
        let Some(log) = self.log.take().filter(|_| self.wanted) else { return };
        for key in log.records.keys() {
            write_record(&mut self.bytes, &Key::Logged(key), None::<fn(&mut Vec<u8>)>);
        }
    }

    /// Appends which records are kept so, for a store.
    pub(crate) fn tell_log(&self, out: &mut Vec<u8>) {
        for key in self.log.iter().flat_map(|log| log.records.keys()) {
            write_record(out, &Key::Logged(key), Some(|_: &mut Vec<u8>| {}));
        }
    }

    /// What an earlier life had kept, by what its store holds.
    pub(crate) fn restore_log(&mut self, kept: &[u8]) {
        let logged = |record: Record<'_>| record.key.first() == Some(&kind::LOGGED);
        let mut log = ChangeLog::default();
        for key in records(kept).filter(|record| logged(*record)).filter_map(|record| record.key.get(1..)) {
            log.insert(key, None);
        }
        if log.records.is_empty() {
            return;
        }
        for Record { key, value } in records(kept) {
            if log.records.contains_key(key) {
                log.insert(key, value);
            }
        }
        self.log = Some(log);
    }

    /// Whether everything since [`Records::begin_log`] is kept.
    pub(crate) fn has_log(&self) -> bool {
        self.log.is_some()
    }

    /// All that has changed since [`Records::begin_log`], in the order in which it is learnt. `None`: there is no log, or no more.
    pub(crate) fn logged(&self) -> Option<Vec<u8>> {
        let log = self.log.as_ref()?;
        let mut out = Vec::new();
        for wanted in 0..RANKS {
            for (key, value) in log.records.iter().filter(|(key, _)| rank(key) == wanted) {
                append(&mut out, key, value.as_deref());
            }
        }
        Some(out)
    }

    /// How many changes have been written and not been counted; now they are.
    pub(crate) fn take_changes(&mut self) -> u64 {
        std::mem::take(&mut self.changes)
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Gives the buffer back, so that its room is used again.
    pub(crate) fn give_back(&mut self, mut bytes: Vec<u8>) {
        if self.bytes.is_empty() {
            bytes.clear();
            bytes.shrink_to(BUFFER_BYTES_KEPT);
            self.bytes = bytes;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// A buffer larger than this is not kept.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

/// The key of a record.
#[derive(Clone, Copy)]
pub(crate) enum Key<'a> {
    Session(&'a str),
    Waiting(&'a str, u64),
    Incoming(&'a str, u16),
    Body(u64),
    Retained(&'a str),
    Known(Reign),
    Logged(&'a [u8]),
}

impl Key<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Key::Session(client) => {
                out.push(kind::SESSION);
                out.extend_from_slice(client.as_bytes());
            }
            Key::Waiting(client, order) => {
                out.push(kind::WAITING);
                out.extend_from_slice(&order.to_be_bytes());
                out.extend_from_slice(client.as_bytes());
            }
            Key::Incoming(client, id) => {
                out.push(kind::INCOMING);
                out.extend_from_slice(&id.to_be_bytes());
                out.extend_from_slice(client.as_bytes());
            }
            Key::Body(id) => {
                out.push(kind::BODY);
                out.extend_from_slice(&id.to_be_bytes());
            }
            Key::Retained(topic) => {
                out.push(kind::RETAINED);
                out.extend_from_slice(topic.as_bytes());
            }
            Key::Known(reign) => {
                out.push(kind::KNOWN);
                out.extend_from_slice(&reign.epoch.0.to_be_bytes());
                out.extend_from_slice(&reign.node.0.to_be_bytes());
            }
            Key::Logged(key) => {
                out.push(kind::LOGGED);
                out.extend_from_slice(key);
            }
        }
    }

    /// Reads a key. Another version may have kinds that are not known here.
    pub(crate) fn read(bytes: &[u8]) -> Option<Key<'_>> {
        let (kind, rest) = bytes.split_first()?;
        let text = |bytes| std::str::from_utf8(bytes).ok();
        Some(match *kind {
            kind::SESSION => Key::Session(text(rest)?),
            kind::WAITING => {
                let (order, client) = rest.split_first_chunk()?;
                Key::Waiting(text(client)?, u64::from_be_bytes(*order))
            }
            kind::INCOMING => {
                let (id, client) = rest.split_first_chunk()?;
                Key::Incoming(text(client)?, u16::from_be_bytes(*id))
            }
            kind::BODY => Key::Body(u64::from_be_bytes(rest.try_into().ok()?)),
            kind::RETAINED => Key::Retained(text(rest)?),
            kind::KNOWN => {
                let (epoch, node) = rest.split_first_chunk()?;
                let node = u64::from_be_bytes(node.try_into().ok()?);
                Key::Known(Reign { epoch: Epoch(u64::from_be_bytes(*epoch)), node: NodeId(node) })
            }
            kind::LOGGED => Key::Logged(rest),
            _ => return None,
        })
    }
}

/// A record: whether there is a value, the lengths of key and value, key, value.
pub(crate) fn write_record(out: &mut Vec<u8>, key: &Key<'_>, value: Option<impl FnOnce(&mut Vec<u8>)>) {
    out.push(u8::from(value.is_some()));
    let lengths = out.len();
    out.extend_from_slice(&[0; 8]);
    let begins = out.len();
    key.write(out);
    let key_bytes = (out.len() - begins) as u32;
    let begins = out.len();
    if let Some(write) = value {
        write(out);
    }
    let value_bytes = (out.len() - begins) as u32;
    if let Some((first, second)) =
        out.get_mut(lengths..lengths + 8).and_then(|both| both.split_at_mut_checked(4))
    {
        first.copy_from_slice(&key_bytes.to_le_bytes());
        second.copy_from_slice(&value_bytes.to_le_bytes());
    } else {
        invariant!("the lengths have a place before what they are of");
    }
}

/// Appends a record as it is.
pub fn append_record(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    append(out, key, Some(value));
}

fn append(out: &mut Vec<u8>, key: &[u8], value: Option<&[u8]>) {
    let bytes = value.unwrap_or(&[]);
    out.push(u8::from(value.is_some()));
    out.extend_from_slice(&(key.len() as u32).to_le_bytes());
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(bytes);
}

/// In which order records are learnt: what others refer to goes first, and the counts of what is known last.
pub fn rank(key: &[u8]) -> u8 {
    match key.first() {
        Some(&kind::SESSION) => 0,
        Some(&kind::BODY) => 1,
        Some(&kind::KNOWN) => 3,
        _ => 2,
    }
}

/// The ranks that there are.
const RANKS: u8 = 4;

/// How many changes the records of a store are the result of. `records` are keys and values.
pub fn known<'a>(records: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Knowledge {
    let mut parts = Vec::new();
    let mut knowledge = Knowledge::default();
    for (key, value) in records {
        match Key::read(key) {
            Some(Key::Known(reign)) if reign == Reign::default() => {
                knowledge.set_before(read_before(value));
            }
            Some(Key::Known(reign)) => parts.extend(read_part(reign, value)),
            // Other records, and what another version has written.
            _ => {}
        }
    }
    parts.sort_by_key(|(place, _)| *place);
    parts.into_iter().for_each(|(_, part)| _ = knowledge.set(part));
    knowledge
}

pub(crate) fn write_part(out: &mut Vec<u8>, part: &Part, place: u32) {
    out.extend_from_slice(&part.count.to_le_bytes());
    out.extend_from_slice(&place.to_le_bytes());
    out.push(u8::from(part.closed) | u8::from(part.unasked) << 1);
}

/// The count of a reign, and its place among the others.
pub(crate) fn read_part(reign: Reign, value: &[u8]) -> Option<(u32, Part)> {
    let mut reader = Reader(value);
    let (count, place, flags) = (reader.u64()?, reader.u32()?, reader.u8()?);
    Some((place, Part { reign, count, closed: flags & 1 != 0, unasked: flags & 2 != 0 }))
}

/// Reads the sum of what is not told apart. What is no number counts for nothing: another version, or a partner that lies, may have written it.
pub(crate) fn read_before(value: &[u8]) -> u64 {
    Reader(value).u64().unwrap_or(0)
}

/// The records in `bytes`, until the first that is not whole.
pub fn records(mut bytes: &[u8]) -> impl Iterator<Item = Record<'_>> {
    std::iter::from_fn(move || {
        let mut reader = Reader(bytes);
        let present = reader.u8()?;
        let (key_bytes, value_bytes) = (reader.u32()? as usize, reader.u32()? as usize);
        let (key, value) = (reader.bytes(key_bytes)?, reader.bytes(value_bytes)?);
        bytes = reader.0;
        Some(Record { key, value: (present != 0).then_some(value) })
    })
}

/// Reads the fields of a value.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn piece(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()? as usize;
        self.bytes(length)
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.piece()?).ok()
    }

    pub(crate) fn qos(&mut self) -> Option<Qos> {
        Qos::from_number(self.u8()?)
    }
}

pub(crate) fn put_piece(out: &mut Vec<u8>, piece: &[u8]) {
    out.extend_from_slice(&(piece.len() as u32).to_le_bytes());
    out.extend_from_slice(piece);
}

fn put_time(out: &mut Vec<u8>, time: Option<Time>) {
    out.extend_from_slice(&time.map_or(0, |time| time.0).to_le_bytes());
}

fn time(reader: &mut Reader<'_>) -> Option<Option<Time>> {
    reader.u64().map(|nanos| (nanos != 0).then_some(Time(nanos)))
}

/// A retained message or a body, as both are recorded.
pub(crate) struct Content<'a> {
    pub(crate) topic: &'a str,
    pub(crate) qos: Qos,
    pub(crate) created: Time,
    pub(crate) expires: Option<Time>,
    pub(crate) publisher: &'a str,
    /// In which life of its publisher.
    pub(crate) incarnation: u64,
    pub(crate) seq: u64,
    pub(crate) properties: &'a [u8],
    pub(crate) payload: &'a [u8],
}

impl<'a> Content<'a> {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.push(self.qos as u8);
        out.extend_from_slice(&self.created.0.to_le_bytes());
        put_time(out, self.expires);
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        out.extend_from_slice(&self.seq.to_le_bytes());
        for piece in [self.topic.as_bytes(), self.publisher.as_bytes(), self.properties, self.payload] {
            put_piece(out, piece);
        }
    }

    pub(crate) fn read(value: &'a [u8]) -> Option<Content<'a>> {
        let mut reader = Reader(value);
        let (qos, created) = (reader.qos()?, Time(reader.u64()?));
        let (expires, incarnation, seq) = (time(&mut reader)?, reader.u64()?, reader.u64()?);
        let (topic, publisher) = (reader.text()?, reader.text()?);
        let (properties, payload) = (reader.piece()?, reader.piece()?);
        Some(Content { topic, qos, created, expires, publisher, incarnation, seq, properties, payload })
    }
}

/// Writes a session with its subscriptions. What waits for it has records of its own.
pub(crate) fn write_session<'a>(
    out: &mut Vec<u8>,
    session: &Session,
    subscriptions: impl Iterator<Item = (&'a str, Entry)>,
) {
    out.push(match session.version {
        Version::V311 => 0,
        Version::V5 => 1,
        Version::V31 => 2,
    });
    out.extend_from_slice(&session.expiry.to_le_bytes());
    put_time(out, session.ends_at);
    put_time(out, session.will_at);
    out.extend_from_slice(&session.dropped.to_le_bytes());
    put_piece(out, session.user.as_deref().unwrap_or("").as_bytes());
    out.push(u8::from(session.will.is_some()));
    if let Some(will) = &session.will {
        out.push(will.qos as u8);
        out.push(u8::from(will.retain));
        out.extend_from_slice(&will.delay.to_le_bytes());
        out.extend_from_slice(&will.expiry.map_or(u64::MAX, u64::from).to_le_bytes());
        put_piece(out, will.topic.as_bytes());
        put_piece(out, &will.payload);
        put_piece(out, &will.properties);
    }
    let walks = |filter: &str| session.walks.iter().any(|walk| walk.is_kept() && *walk.filter == *filter);
    for (filter, entry) in subscriptions {
        let Options { qos, no_local, retain_as_published, retain_handling } = entry.options;
        put_piece(out, filter.as_bytes());
        out.push(qos as u8);
        let needs = session.needs.get(filter);
        let bits = u8::from(no_local) | u8::from(retain_as_published) << 1 | (retain_handling as u8) << 2;
        let served_last = needs.is_some_and(|needs| needs.best_effort);
        out.push(
            bits | if needs.is_some() { NEEDS_BIT } else { 0 }
                | if served_last { BEST_EFFORT_BIT } else { 0 }
                | if walks(filter) { WALK_BIT } else { 0 },
        );
        out.extend_from_slice(&entry.subscription.unwrap_or(0).to_le_bytes());
        if let Some(needs) = needs {
            write_needs(out, needs);
        }
    }
}

/// Among the bits of a subscription: what its client needs comes after it.
const NEEDS_BIT: u8 = 1 << 4;
/// The same: nothing is promised to its client.
const BEST_EFFORT_BIT: u8 = 1 << 5;
/// The same: it has not been given everything yet that is retained.
const WALK_BIT: u8 = 1 << 6;

fn write_needs(out: &mut Vec<u8>, needs: &Needs) {
    // Clients of MQTT confirm by acknowledgements.
    let Needs { deadline, loss, link, best_effort: _, confirm: _, onward: _, class: _ } = needs;
    out.extend_from_slice(&deadline.map_or(0, |deadline| deadline.0).to_le_bytes());
    out.extend_from_slice(&loss.map_or(u64::MAX, u64::from).to_le_bytes());
    put_piece(out, link.map(|link| link.to_string()).unwrap_or_default().as_bytes());
}

fn read_needs(reader: &mut Reader<'_>, best_effort: bool) -> Option<Needs> {
    let deadline = Some(Span(reader.u64()? as i64)).filter(|deadline| *deadline > Span::ZERO);
    let loss = u32::try_from(reader.u64()?).ok();
    let link = reader.text()?;
    let link = if link.is_empty() { None } else { Some(link.parse().ok()?) };
    Some(Needs { deadline, loss, link, best_effort, ..Needs::NONE })
}

/// A session's filters.
pub(crate) type Filters = Vec<(Box<str>, Entry)>;

/// Reads what [`write_session`] wrote: the session, and its subscriptions.
pub(crate) fn read_session(client: &str, value: &[u8]) -> Option<(Session, Filters)> {
    let mut reader = Reader(value);
    let version = match reader.u8()? {
        0 => Version::V311,
        1 => Version::V5,
        2 => Version::V31,
        _ => return None,
    };
    let mut session = Session::new(client, version);
    session.expiry = reader.u32()?;
    session.ends_at = time(&mut reader)?;
    session.will_at = time(&mut reader)?;
    session.dropped = reader.u64()?;
    session.user = Some(reader.text()?).filter(|user| !user.is_empty()).map(Box::from);
    if reader.u8()? != 0 {
        let (qos, retain, delay) = (reader.qos()?, reader.u8()? != 0, reader.u32()?);
        let expiry = u32::try_from(reader.u64()?).ok();
        let (topic, payload, properties) =
            (reader.text()?.into(), reader.piece()?.into(), reader.piece()?.into());
        session.will = Some(Will { topic, payload, qos, retain, delay, expiry, properties });
    }
    let mut subscriptions = Vec::new();
    while !reader.0.is_empty() {
        let (filter, qos, bits): (Box<str>, _, _) = (reader.text()?.into(), reader.qos()?, reader.u8()?);
        let subscription = Some(reader.u32()?).filter(|number| *number != 0);
        if bits & NEEDS_BIT != 0 {
            session.needs.insert(filter.clone(), read_needs(&mut reader, bits & BEST_EFFORT_BIT != 0)?);
        }
        let retain_handling = match bits >> 2 & 3 {
            0 => RetainHandling::Send,
            1 => RetainHandling::SendIfNew,
            _ => RetainHandling::Keep,
        };
        let options =
            Options { qos, no_local: bits & 1 != 0, retain_as_published: bits & 2 != 0, retain_handling };
        let entry = Entry { options, subscription };
        if bits & WALK_BIT != 0 {
            session.walks.push_back(Walk::new(&filter, entry));
        }
        subscriptions.push((filter, entry));
    }
    Some((session, subscriptions))
}

/// A message that waits for a session, or is on its way to it.
pub(crate) struct Waiting {
    pub(crate) body: u64,
    /// Zero while it is queued.
    pub(crate) id: u16,
    pub(crate) qos: Qos,
    pub(crate) retain: bool,
    pub(crate) received: bool,
    pub(crate) subscriptions: Numbers,
}

impl Waiting {
    /// One that is on its way.
    pub(crate) fn of_flight(flight: &Flight, body: u64) -> Waiting {
        let Flight { id, qos, retain, received, ref subscriptions, .. } = *flight;
        Waiting { body, id, qos, retain, received, subscriptions: subscriptions.clone() }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.body.to_le_bytes());
        out.extend_from_slice(&self.id.to_le_bytes());
        out.push(self.qos as u8);
        out.push(u8::from(self.retain) | u8::from(self.received) << 1);
        self.subscriptions.as_slice().iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
    }

    pub(crate) fn read(value: &[u8]) -> Option<Waiting> {
        let mut reader = Reader(value);
        let (body, id, qos, bits) = (reader.u64()?, reader.u16()?, reader.qos()?, reader.u8()?);
        let mut subscriptions = Vec::new();
        while !reader.0.is_empty() {
            subscriptions.push(reader.u32()?);
        }
        let (retain, received) = (bits & 1 != 0, bits & 2 != 0);
        let subscriptions = Numbers::from(&*subscriptions);
        Some(Waiting { body, id, qos, retain, received, subscriptions })
    }
}
