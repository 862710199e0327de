//! A domain of DDS, by the library of Cyclone DDS: who is there, samples as bytes, readers and writers of types that are not known.

#![allow(unsafe_code, reason = "the library is written in C; each place says why it is sound")]

mod shim;

use dds::{
    Durability, Endpoint, Guid, History, Kind, Liveliness, Order, Ownership, Presentation, Qos, Reliability,
    Sample,
};
use shim::{BridgeEndpoint, BridgeParticipant, BridgeQos, BridgeSample, Opaque, PARTITIONS_MAX};
use std::ffi::{CStr, CString, c_char, c_void};
use std::fmt;

/// What the library says of a mistake.
#[derive(Debug)]
pub struct CycloneError(String);

impl fmt::Display for CycloneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CycloneError {}

/// A sample that was written in the domain.
#[derive(Debug)]
pub struct Taken {
    /// Who reads it.
    pub tap: u64,
    /// Who wrote it.
    pub writer: Guid,
    /// What.
    pub sample: Sample,
}

/// What is heard of the domain, on threads of the library. Neither may wait, nor call the library.
pub trait Ears: Send + Sync {
    /// A sample.
    fn take(&self, taken: Taken);
    /// Readers, writers or participants have come or gone: [`Domain::news`] tells which.
    fn wake(&self);
}

/// Who has come, changed or gone.
#[derive(Debug)]
pub enum News {
    /// A reader or a writer. The second is what its program says of itself.
    Endpoint(Endpoint, Vec<u8>),
    /// One has gone.
    Lost(Guid),
    /// A participant, and what it says of itself; `None`: it has gone.
    Participant(Guid, Option<Vec<u8>>),
}

/// A reader. It ends when it is dropped.
pub struct Tap(i32);

/// A writer. It ends when it is dropped.
pub struct StandIn {
    writer: i32,
    sertype: *const Opaque,
}

/// A participant of a domain.
pub struct Domain {
    bridge: *mut Opaque,
    mark: CString,
    /// Where the library finds the ears. It is called no more once the participant is deleted, so this goes last.
    _ears: Box<Box<dyn Ears>>,
}

/// # Safety
/// `from` is null or points to `length` bytes that live for the call.
unsafe fn bytes(from: *const u8, length: u32) -> Vec<u8> {
    if from.is_null() || length == 0 {
        return Vec::new();
    }
    // SAFETY: as promised.
    unsafe { std::slice::from_raw_parts(from, length as usize) }.to_vec()
}

/// # Safety
/// `from` is null or a string of C that lives for the call.
unsafe fn text(from: *const c_char) -> String {
    if from.is_null() {
        return String::new();
    }
    // SAFETY: as promised.
    unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned()
}

extern "C" fn take(context: *mut c_void, sample: *const BridgeSample) {
    // SAFETY: the context is the box of `Domain::_ears`, which outlives the participant; the sample lives for the call.
    let (ears, from) = unsafe { (&*context.cast::<Box<dyn Ears>>(), &*sample) };
    let hash = (from.has_hash != 0).then_some(from.hash);
    let (status, stamp) = (from.status as u8, from.stamp);
    let sample = match (from.kind, hash) {
        (0, Some(hash)) => Sample::of_hash(hash, status, stamp),
        // Neither a key nor what stands for one: there is nothing to pass on.
        (0, None) => return,
        (kind, hash) => {
            let kind = if kind == 2 { Kind::Data } else { Kind::Key };
            // SAFETY: the library says how long its bytes are, and they live for the call.
            Sample { kind, status, stamp, hash, bytes: unsafe { bytes(from.bytes, from.length) } }
        }
    };
    ears.take(Taken { tap: from.tap, writer: Guid(from.writer), sample });
}

extern "C" fn wake(context: *mut c_void) {
    // SAFETY: as in `take`.
    let ears = unsafe { &*context.cast::<Box<dyn Ears>>() };
    ears.wake();
}

extern "C" fn tell_participant(to: *mut c_void, from: *const BridgeParticipant) {
    // SAFETY: `Domain::news` gives its own list, and the participant lives for the call.
    let (news, from) = unsafe { (&mut *to.cast::<Vec<News>>(), &*from) };
    // SAFETY: as above.
    let says = (from.alive != 0).then(|| unsafe { bytes(from.user_data, from.user_data_length) });
    news.push(News::Participant(Guid(from.guid), says));
}

extern "C" fn tell_endpoint(to: *mut c_void, from: *const BridgeEndpoint) {
    // SAFETY: as in `tell_participant`.
    let (news, from) = unsafe { (&mut *to.cast::<Vec<News>>(), &*from) };
    if from.alive == 0 || from.topic.is_null() {
        news.push(News::Lost(Guid(from.guid)));
        return;
    }
    // SAFETY: as in `tell_participant`.
    let (topic, type_name, qos, says) = unsafe {
        let says = bytes(from.user_data, from.user_data_length);
        (text(from.topic), text(from.type_name), qos_read(&from.qos), says)
    };
    let endpoint = Endpoint { guid: Guid(from.guid), writes: from.is_writer != 0, topic, type_name, qos };
    news.push(News::Endpoint(endpoint, says));
}

/// Time as the library counts it: its greatest value is without end.
fn time(nanos: i64) -> Option<u64> {
    (nanos != i64::MAX).then(|| nanos.max(0).unsigned_abs())
}

/// HISTORY as the library says it.
fn history(kind: i32, depth: i32) -> History {
    match kind {
        0 => History::KeepLast(depth.max(1).unsigned_abs()),
        1 => History::KeepAll,
        _ => History::Unsaid,
    }
}

fn nanos(time: Option<u64>) -> i64 {
    time.and_then(|time| i64::try_from(time).ok()).unwrap_or(i64::MAX)
}

/// # Safety
/// Its partitions are strings of C that live for the call.
unsafe fn qos_read(from: &BridgeQos) -> Qos {
    let partitions = from.partition.iter().take(from.partitions as usize);
    Qos {
        reliability: if from.reliability == 1 { Reliability::Reliable } else { Reliability::BestEffort },
        max_blocking_ns: time(from.max_blocking).unwrap_or(u64::MAX >> 1),
        durability: match from.durability {
            0 => Durability::Volatile,
            1 => Durability::TransientLocal,
            2 => Durability::Transient,
            _ => Durability::Persistent,
        },
        history: history(from.history, from.depth),
        service: history(from.service_history, from.service_depth),
        deadline_ns: time(from.deadline),
        latency_budget_ns: time(from.latency_budget).unwrap_or(u64::MAX >> 1),
        lifespan_ns: time(from.lifespan),
        liveliness: match from.liveliness {
            0 => Liveliness::Automatic,
            1 => Liveliness::ManualByParticipant,
            _ => Liveliness::ManualByTopic,
        },
        lease_ns: time(from.lease),
        ownership: if from.ownership == 1 { Ownership::Exclusive } else { Ownership::Shared },
        strength: from.strength,
        order: if from.order == 1 { Order::BySource } else { Order::ByReception },
        presentation: Presentation {
            scope: (from.access & 3) as u8,
            coherent: from.access & 4 != 0,
            ordered: from.access & 8 != 0,
        },
        priority: from.priority,
        representations: from.representations,
        // SAFETY: as promised.
        partitions: partitions.map(|name| unsafe { text(*name) }).collect(),
    }
}

/// QoS as the library takes it. The strings live in the second.
fn qos_write(from: &Qos) -> Result<(BridgeQos, Vec<CString>), CycloneError> {
    if from.partitions.len() > PARTITIONS_MAX {
        return Err(CycloneError(format!("more than {PARTITIONS_MAX} partitions")));
    }
    let partitions: Vec<CString> =
        from.partitions.iter().map(|name| c_text(name)).collect::<Result<_, _>>()?;
    let mut partition = [std::ptr::null(); PARTITIONS_MAX];
    partition.iter_mut().zip(&partitions).for_each(|(slot, name)| *slot = name.as_ptr());
    let kept = |history| match history {
        History::Unsaid => (0, dds::DEPTH_UNSAID as i32),
        History::KeepLast(depth) => (0, i32::try_from(depth).unwrap_or(i32::MAX)),
        History::KeepAll => (1, 1),
    };
    let ((history, depth), (service_history, service_depth)) = (kept(from.history), kept(from.kept()));
    let qos = BridgeQos {
        // A stand-in never waits for a reader that is slow, since others would wait for it.
        max_blocking: 0,
        deadline: nanos(from.deadline_ns),
        latency_budget: nanos(Some(from.latency_budget_ns)),
        lifespan: nanos(from.lifespan_ns),
        lease: nanos(from.lease_ns),
        reliability: i32::from(from.reliability == Reliability::Reliable),
        durability: match from.durability {
            Durability::Volatile => 0,
            Durability::TransientLocal => 1,
            Durability::Transient => 2,
            Durability::Persistent => 3,
        },
        history,
        depth,
        service_history,
        service_depth,
        liveliness: match from.liveliness {
            Liveliness::Automatic => 0,
            Liveliness::ManualByParticipant => 1,
            Liveliness::ManualByTopic => 2,
        },
        ownership: i32::from(from.ownership == Ownership::Exclusive),
        strength: from.strength,
        order: i32::from(from.order == Order::BySource),
        priority: from.priority,
        // Sets of changes are not carried as such: the library's usual PRESENTATION is offered.
        access: 0,
        representations: from.representations,
        partitions: partitions.len() as u32,
        partition,
    };
    Ok((qos, partitions))
}

fn c_text(text: &str) -> Result<CString, CycloneError> {
    CString::new(text).map_err(|_| CycloneError("a name has a zero in it".to_owned()))
}

/// What the library says of a result, if it is a mistake.
fn checked(result: i32) -> Result<i32, CycloneError> {
    if result >= 0 {
        return Ok(result);
    }
    // SAFETY: the library has words for every number, and they live for ever.
    let words = unsafe { text(shim::bridge_words(result)) };
    Err(CycloneError(words))
}

impl Domain {
    /// Enters a domain. `mark` is what the participant says of itself, and every reader and writer that it makes.
    ///
    /// # Errors
    /// The library cannot: there is no network, or its configuration (`CYCLONEDDS_URI`) is wrong, which it says on standard error.
    pub fn enter(domain: u32, mark: &str, ears: impl Ears + 'static) -> Result<Domain, CycloneError> {
        let mark = c_text(mark)?;
        let ears: Box<Box<dyn Ears>> = Box::new(Box::new(ears));
        let context = std::ptr::from_ref::<Box<dyn Ears>>(&ears).cast_mut().cast::<c_void>();
        let mut error = 0;
        // SAFETY: the mark lives for the call, and the context for as long as the participant (`Domain::drop`).
        let bridge = unsafe { shim::bridge_open(domain, mark.as_ptr(), take, wake, context, &raw mut error) };
        if bridge.is_null() {
            return Err(checked(error).err().unwrap_or_else(|| CycloneError("no participant".to_owned())));
        }
        Ok(Domain { bridge, mark, _ears: ears })
    }

    /// The participant's identity.
    pub fn guid(&self) -> Guid {
        let mut guid = [0; 16];
        // SAFETY: 16 bytes are written.
        unsafe { shim::bridge_guid(self.bridge, guid.as_mut_ptr()) };
        Guid(guid)
    }

    /// The participant says something else of itself.
    ///
    /// # Errors
    /// The library cannot.
    pub fn say(&self, mark: &str) -> Result<(), CycloneError> {
        let mark = c_text(mark)?;
        // SAFETY: the mark lives for the call.
        checked(unsafe { shim::bridge_say(self.bridge, mark.as_ptr()) }).map(drop)
    }

    /// Who has come, changed or gone since this was last asked; what this participant has made is among them.
    pub fn news(&self) -> Vec<News> {
        let mut news: Vec<News> = Vec::new();
        let to = std::ptr::from_mut(&mut news).cast::<c_void>();
        // SAFETY: the list lives for the calls, and nothing else touches it meanwhile.
        unsafe {
            shim::bridge_participants(self.bridge, tell_participant, to);
            shim::bridge_endpoints(self.bridge, tell_endpoint, to);
        }
        news
    }

    /// Reads a topic. Samples come to [`Ears::take`], with this number.
    ///
    /// # Errors
    /// The library cannot: the topic has another type here, or the QoS contradicts itself.
    pub fn tap(&self, number: u64, like: &Endpoint, qos: &Qos) -> Result<Tap, CycloneError> {
        let (topic, type_name) = (c_text(&like.topic)?, c_text(&like.type_name)?);
        let (qos, _partitions) = qos_write(qos)?;
        let keyed = u32::from(like.guid.is_keyed());
        // SAFETY: all strings live for the call.
        let reader = unsafe {
            let (topic, type_name) = (topic.as_ptr(), type_name.as_ptr());
            shim::bridge_tap(self.bridge, number, topic, type_name, keyed, &raw const qos, self.mark.as_ptr())
        };
        checked(reader).map(Tap)
    }

    /// Writes a topic as another writer does.
    ///
    /// # Errors
    /// As in [`Domain::tap`].
    pub fn stand_in(&self, like: &Endpoint) -> Result<StandIn, CycloneError> {
        let (topic, type_name) = (c_text(&like.topic)?, c_text(&like.type_name)?);
        let (qos, _partitions) = qos_write(&like.qos)?;
        let keyed = u32::from(like.guid.is_keyed());
        let mut sertype = std::ptr::null_mut();
        // SAFETY: all strings live for the call.
        let writer = unsafe {
            let (topic, type_name, mark) = (topic.as_ptr(), type_name.as_ptr(), self.mark.as_ptr());
            shim::bridge_writer(self.bridge, topic, type_name, keyed, &raw const qos, mark, &raw mut sertype)
        };
        checked(writer).map(|writer| StandIn { writer, sertype })
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more. Deleting the participant waits for what the library is doing, and deletes all that it has made.
        unsafe { shim::bridge_close(self.bridge) };
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        // SAFETY: an entity that is there no more (its participant went first) is an error, and nothing else.
        let _ = unsafe { shim::bridge_delete(self.0) };
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        // SAFETY: as above.
        let _ = unsafe { shim::bridge_delete(self.writer) };
    }
}

impl StandIn {
    /// Writes a sample.
    ///
    /// # Errors
    /// The library cannot: readers are slow, and there is no room for it.
    pub fn write(&self, sample: &Sample) -> Result<(), CycloneError> {
        let Ok(length) = u32::try_from(sample.bytes.len()) else {
            return Err(CycloneError("a sample of more than 4 GiB".to_owned()));
        };
        let from = BridgeSample {
            tap: 0,
            writer: [0; 16],
            stamp: sample.stamp,
            kind: if sample.kind == Kind::Data { 2 } else { 1 },
            status: u32::from(sample.status),
            has_hash: u32::from(sample.hash.is_some()),
            hash: sample.hash.unwrap_or_default(),
            bytes: sample.bytes.as_ptr(),
            length,
        };
        // SAFETY: the type lives as long as the writer, which holds its topic; the sample is copied.
        checked(unsafe { shim::bridge_write(self.writer, self.sertype, &raw const from) }).map(drop)
    }

    /// How many readers have found it.
    pub fn readers(&self) -> u32 {
        // SAFETY: it only asks.
        let readers = unsafe { shim::bridge_matched(self.writer) };
        readers.max(0).unsigned_abs()
    }
}
