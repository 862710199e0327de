//! An application's place at one lane of its node.

use crate::{Error, Key, Number, Stamped};
use contract::Time;
use kv::KeyId;
use kv_shared::clock::now;
use kv_shared::{
    Answer, Found, Gone, LaneFacts, Lines, PassingError, ReadError, Request, RingWriter, Said, State, Store,
    WriteError,
};
use std::io;
use std::ops::Deref;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long the node may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to rest between two tries to reach a node that is not there yet.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// How an application attaches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// How many tuples it writes for one job, that is, in one period of the lane. All applications of a lane share what the lane
    /// can carry.
    pub tuples: usize,
    /// What it is called in the node's status.
    pub name: String,
    /// How long to wait for a node that is not there yet.
    pub wait: Duration,
}

impl Default for Options {
    /// 16 tuples, the program's name, and no waiting.
    fn default() -> Options {
        let program = std::env::args_os()
            .next()
            .map(|path| Path::new(&path).file_name().unwrap_or_default().to_owned());
        let mut name = program.unwrap_or_default().to_string_lossy().into_owned();
        name.retain(|letter| letter.is_ascii_graphic());
        name.truncate(kv_shared::CLIENT_NAME_BYTES_MAX);
        Options { tuples: 16, name, wait: Duration::ZERO }
    }
}

/// An application that reads and writes. It keeps its place as long as it lives; when it is dropped, or its process dies, the node
/// takes it back.
#[derive(Debug)]
pub struct Client {
    reader: Reader,
    ring: RingWriter,
    slot: u32,
    /// Its end is the end of the place.
    _connection: Lines,
}

/// The reading half of a [`Client`], which any number of threads may have.
#[derive(Clone, Debug)]
pub struct Reader {
    store: Arc<Store>,
    /// What values were made of, if the lane keeps that.
    vectors: Option<Arc<Store>>,
    nodes: Arc<[String]>,
    fail_safe: Arc<AtomicBool>,
}

/// A value in the caller's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Value<'a> {
    /// The instant from which on it is valid.
    pub stamp: Time,
    /// The value.
    pub bytes: &'a [u8],
}

/// What a value was made of, in the caller's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vector<'a> {
    /// The instant from which on the value is valid.
    pub stamp: Time,
    /// As it is kept.
    pub bytes: &'a [u8],
}

impl<'a> Vector<'a> {
    /// Who proposed what, in ascending order of nodes; [`Reader::nodes`] has their names. All correct nodes have the same. Who is missing
    /// proposed nothing, or has lied.
    pub fn said(&self) -> Said<'a> {
        Said::of(self.bytes)
    }
}

impl Client {
    /// Attaches to a lane of the node behind this socket.
    pub fn attach(socket: impl AsRef<Path>, lane: u16, options: &Options) -> Result<Client, Error> {
        let path = socket.as_ref();
        let until = Instant::now() + options.wait;
        let stream = connect(path, until)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(PassingError::from)?;
        let mut lines = Lines::new(stream);
        let request = Request::Attach { lane, tuples: options.tuples, name: options.name.clone() };
        lines.send(&request, &[])?;
        let (slot, nodes) = match lines.receive()? {
            Answer::Attached { slot, nodes, .. } => (slot, nodes.into()),
            Answer::Error(reason) => return Err(Error::Refused(reason)),
            other => return Err(Error::Refused(format!("it answers something else: {other:?}"))),
        };
        let mut files = lines.take_files().into_iter();
        let (Some(store), Some(ring)) = (files.next(), files.next()) else {
            return Err(Error::Refused("it gives no memory with its answer".to_owned()));
        };
        let vectors = files.next().map(Store::map).transpose()?.map(Arc::new);
        let (store, fail_safe) = (Arc::new(Store::map(store)?), Arc::default());
        let reader = Reader { store, vectors, nodes, fail_safe };
        Ok(Client { reader, ring: RingWriter::map(ring)?, slot, _connection: lines })
    }

    /// The number of this application at the lane.
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// How many tuples it may write for one job.
    pub fn tuples_max(&self) -> usize {
        self.ring.tuples_max()
    }

    /// The reading half, for other threads.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// I1: proposes a value that is to be visible on all nodes from `publishing` on. The next job of the lane carries it.
    pub fn write(&mut self, key: &Key, value: &[u8], publishing: Time) -> Result<(), Error> {
        let written = self.try_write(key.id, value, publishing);
        written.map_err(|error| Error::Write { key: key.name.clone(), error })
    }

    fn try_write(&mut self, key: KeyId, value: &[u8], publishing: Time) -> Result<(), WriteError> {
        self.reader.store.check_write(key, value, publishing, now())?;
        Ok(self.ring.push(key, publishing, value)?)
    }

    /// The same with a number, in the format of the key.
    pub fn write_number<N: Number>(&mut self, key: &Key, number: N, publishing: Time) -> Result<(), Error> {
        let mut value = [0; crate::NUMBER_BYTES_MAX];
        let room = self.reader.store.facts().value_bytes_max.min(value.len());
        let Some(len) = number.write(key.terms.format, &mut value[..room]) else {
            let error = kv::WriteError::NotANumber.into();
            return Err(Error::Write { key: key.name.clone(), error });
        };
        self.write(key, &value[..len], publishing)
    }
}

impl Deref for Client {
    type Target = Reader;

    fn deref(&self) -> &Reader {
        &self.reader
    }
}

impl Reader {
    /// Looks a key up. To be done once, before the first period.
    pub fn key(&self, name: &str) -> Result<Key, Error> {
        let id = self.store.key(name).ok_or_else(|| Error::UnknownKey(name.to_owned()))?;
        Ok(self.known(id, name))
    }

    /// All keys of the lane, in the order of their names.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.store.keys().map(|(id, name)| self.known(id, &name))
    }

    fn known(&self, id: KeyId, name: &str) -> Key {
        Key { id, name: name.into(), terms: self.store.terms(id).unwrap_or_default() }
    }

    /// I2: the newest value that is at least as new as `freshness` and whose instant has come, in `buffer`. Takes no lock, waits
    /// for nobody, does not enter the kernel.
    #[inline]
    pub fn read<'b>(&self, key: &Key, freshness: Time, buffer: &'b mut [u8]) -> Result<Value<'b>, Error> {
        let Found { stamp, len } = self.look(key, freshness, buffer)?;
        Ok(Value { stamp, bytes: &buffer[..len] })
    }

    /// The newest value whose instant has come, however old it is.
    pub fn read_now<'b>(&self, key: &Key, buffer: &'b mut [u8]) -> Result<Value<'b>, Error> {
        self.read(key, Time::ZERO, buffer)
    }

    /// As [`Reader::read`], for a number.
    pub fn read_number<N: Number>(&self, key: &Key, freshness: Time) -> Result<Stamped<N>, Error> {
        let mut short = [0; 16];
        let mut long;
        // Most numbers are short, and clearing room for the longest would take longer than reading.
        let buffer: &mut [u8] = if self.facts().value_bytes_max <= short.len() {
            &mut short
        } else {
            long = [0; crate::NUMBER_BYTES_MAX];
            &mut long
        };
        let Found { stamp, len } = self.look(key, freshness, buffer)?;
        let number = N::read(key.terms.format, &buffer[..len]);
        let none = || Error::NotANumber {
            key: key.name.clone(),
            format: key.terms.format,
            bytes: len,
            wanted: N::NAME,
        };
        Ok(Stamped { stamp, number: number.ok_or_else(none)? })
    }

    #[inline]
    fn look(&self, key: &Key, freshness: Time, buffer: &mut [u8]) -> Result<Found, Error> {
        let mut found = self.store.read(key.id, freshness, now(), buffer);
        if let Err(ReadError::Lane(kv::ReadError::Nothing | kv::ReadError::Unknown)) = found {
            // A thread that was interrupted after it had looked at the clock, for so long that everything is newer by now.
            found = self.store.read(key.id, freshness, now(), buffer);
        }
        self.if_safe(found).map_err(|error| Error::Read { key: key.name.clone(), error })
    }

    /// What the newest value was made of that is at least as new as `freshness` and whose instant has come: who proposed what, as all correct
    /// nodes have agreed. A buffer of [`Reader::vector_bytes_max`] bytes is always large enough. Of values that this node has missed and
    /// taken from others there is none.
    pub fn read_vector<'b>(
        &self,
        key: &Key,
        freshness: Time,
        buffer: &'b mut [u8],
    ) -> Result<Vector<'b>, Error> {
        let vectors = self.vectors.as_ref().ok_or(Error::NoVectors)?;
        let found = self.store.vector_in(vectors, key.id, freshness, buffer);
        let found = self.if_safe(found).map_err(|error| Error::Read { key: key.name.clone(), error })?;
        Ok(Vector { stamp: found.stamp, bytes: &buffer[..found.len] })
    }

    /// The longest vector; 0 where the lane keeps none.
    pub fn vector_bytes_max(&self) -> usize {
        self.vectors.as_ref().map_or(0, |vectors| vectors.facts().value_bytes_max)
    }

    /// The names of all nodes, by number.
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// From now on every read of this application is refused ([`ReadError::Alarm`]) while the node's alarm is on, also what is fresh enough.
    /// For whoever has a safe state to go to.
    pub fn fail_safe(&self, on: bool) {
        self.fail_safe.store(on, Relaxed);
    }

    /// Whether the node's alarm is on: more nodes than may be faulty have another store, and what was read here and there may differ. It goes off when
    /// the store is seen to be that of the others again.
    pub fn alarm(&self) -> bool {
        self.store.is_alone()
    }

    #[inline]
    fn if_safe(&self, found: Result<Found, ReadError>) -> Result<Found, ReadError> {
        // After the value was copied: what is read when the alarm comes is refused as well.
        if self.fail_safe.load(Relaxed) && self.store.is_alone() { Err(ReadError::Alarm) } else { found }
    }

    /// What the lane runs by.
    pub fn facts(&self) -> &LaneFacts {
        self.store.facts()
    }

    /// The name of this node.
    pub fn node_name(&self) -> &str {
        self.store.node_name()
    }

    /// What the lane is doing.
    pub fn state(&self) -> State {
        self.store.state()
    }

    /// Whether the node lives: it has not ended, and has been heard of within two periods of the lane.
    pub fn node_alive(&self) -> Result<(), Gone> {
        self.store.node_alive(now())
    }
}

fn connect(path: &Path, until: Instant) -> Result<UnixStream, Error> {
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => return Ok(stream),
            Err(error) if Instant::now() >= until || !may_come(&error) => {
                return Err(Error::NoNode { path: path.to_owned(), error });
            }
            Err(_) => std::thread::sleep(TRY_AGAIN_AFTER),
        }
    }
}

/// Whether a node that is being started explains it.
fn may_come(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused | io::ErrorKind::PermissionDenied
    )
}
