//! The disk of a peer: what it keeps, in a folder.
//!
//! The problem: a disk may stand still for as long as it likes, and the peer's thread may not. The idea: a thread of its own writes, and says when what
//! it was given is on disk; values that are on their way there are read from memory.
//!
//! There are two tables: what is known of each thing, which is read at the start, and its value. Each write is one of both.

use contract::Time;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use store::{Item, ItemId, Kept};
use tokio::sync::mpsc as answers;

/// Bytes of what was read last that stay in memory.
const CACHE_BYTES: u64 = 16 << 20;
/// Bytes of each table that are written in memory before they become a file.
const BUFFER_BYTES: u64 = 8 << 20;
/// Bytes that the log of writes may have.
const LOG_BYTES_MAX: u64 = 128 << 20;
/// Errors of the disk that are said at most; others are like them.
const WHY_BYTES_MAX: usize = 500;

/// What is to be done.
enum Op {
    Write { id: ItemId, kept: Vec<u8>, value: Option<Arc<[u8]>> },
    Erase(ItemId),
}

/// What a disk is given at once.
struct Batch {
    ops: Vec<Op>,
    number: u64,
}

/// What has become of it.
pub(crate) struct Synced {
    number: u64,
    /// Whether all is on disk, or why not.
    pub(crate) result: Result<(), String>,
    /// Which ticket of the store that was, if it was one.
    pub(crate) ticket: Option<u64>,
}

/// A value on its way to the disk, or that there is none any more.
type OnItsWay = (u64, Option<Arc<[u8]>>);

/// What a peer keeps: on disk, or only in memory.
pub(crate) struct Shelf {
    disk: Option<Disk>,
    ops: Vec<Op>,
    /// By when they were written; without a disk they stay.
    on_their_way: BTreeMap<ItemId, OnItsWay>,
    /// What is with the disk.
    given: BTreeMap<u64, Vec<ItemId>>,
    number: u64,
    /// Tickets that are with it.
    tickets: BTreeMap<u64, u64>,
    /// Why something could not be read, until that is said.
    unread: RefCell<Option<String>>,
}

struct Disk {
    values: Keyspace,
    batches: mpsc::Sender<Batch>,
}

/// How keys are written: in the order of the ring.
fn key(id: ItemId) -> [u8; 36] {
    let mut key = [0; 36];
    let (place, hash) = key.split_at_mut(20);
    place.copy_from_slice(&id.place.to_bytes());
    hash.copy_from_slice(&id.hash.to_be_bytes());
    key
}

impl Shelf {
    /// In memory only.
    pub(crate) fn in_memory() -> Shelf {
        Shelf {
            disk: None,
            ops: Vec::new(),
            on_their_way: BTreeMap::new(),
            given: BTreeMap::new(),
            number: 0,
            tickets: BTreeMap::new(),
            unread: RefCell::new(None),
        }
    }

    /// In a folder, which is made if it is not there. Returns what is in it. The space is what things there are said of: they would have other places
    /// in another one.
    pub(crate) fn open(
        folder: &Path,
        space: &str,
        synced: answers::Sender<Synced>,
        hire: impl FnOnce(Box<dyn FnOnce() -> Result<(), String> + Send>) -> Result<(), String>,
    ) -> Result<(Shelf, Vec<Kept>), String> {
        let wrong = |error: fjall::Error| {
            format!("cannot use the folder {} (peers.NAME.store): {}", folder.display(), reason(&error))
        };
        let database = Database::builder(folder)
            .cache_size(CACHE_BYTES)
            .max_journaling_size(LOG_BYTES_MAX)
            .worker_threads(1)
            .open()
            .map_err(wrong)?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(BUFFER_BYTES);
        let table = |name: &str| database.keyspace(name, options).map_err(wrong);
        let (things, values, about) = (table("things")?, table("values")?, table("about")?);
        match about.get("space").map_err(wrong)? {
            Some(known) if *known != *space.as_bytes() => {
                return Err(format!(
                    "the store in {} has things of another [space]: give another folder, or the [space] of before",
                    folder.display()
                ));
            }
            Some(_) => {}
            None => about.insert("space", space).map_err(wrong)?,
        }
        let mut found = Vec::new();
        for thing in things.iter() {
            let (_, bytes) = thing.into_inner().map_err(wrong)?;
            let kept = Kept::from_bytes(&bytes);
            found.push(kept.map_err(|error| format!("the store in {}: {error}", folder.display()))?);
        }
        let (batches, given) = mpsc::channel::<Batch>();
        let disk = Disk { values: values.clone(), batches };
        hire(Box::new(move || {
            for Batch { ops, number } in given {
                let result = write(&database, &things, &values, ops);
                // The peer has ended if nobody hears it.
                if synced.blocking_send(Synced { number, result, ticket: None }).is_err() {
                    break;
                }
            }
            Ok(())
        }))?;
        Ok((Shelf { disk: Some(disk), ..Shelf::in_memory() }, found))
    }

    pub(crate) fn write(&mut self, id: ItemId, item: &Item, until: Time) {
        self.on_their_way.insert(id, (self.number + 1, item.value.clone()));
        if self.disk.is_some() {
            let kept = item.kept(until).to_bytes();
            self.ops.push(Op::Write { id, kept, value: item.value.clone() });
        }
    }

    pub(crate) fn erase(&mut self, id: ItemId) {
        if self.disk.is_some() {
            self.on_their_way.insert(id, (self.number + 1, None));
            self.ops.push(Op::Erase(id));
        } else {
            self.on_their_way.remove(&id);
        }
    }

    pub(crate) fn value(&self, id: ItemId) -> Option<Arc<[u8]>> {
        if let Some((_, value)) = self.on_their_way.get(&id) {
            return value.clone();
        }
        match self.disk.as_ref()?.values.get(key(id)) {
            Ok(found) => found.map(|value| (*value).into()),
            Err(error) => {
                *self.unread.borrow_mut() = Some(error.to_string());
                None
            }
        }
    }

    /// Why something could not be read since this was last asked. Others have copies of it.
    pub(crate) fn take_unread(&self) -> Option<String> {
        self.unread.take()
    }

    /// Gives the disk what was written. Returns a ticket that is done with at once.
    pub(crate) fn give(&mut self, ticket: Option<u64>) -> Option<u64> {
        let Some(disk) = &self.disk else { return ticket };
        if self.ops.is_empty() && ticket.is_none() {
            return None;
        }
        self.number += 1;
        let ops = std::mem::take(&mut self.ops);
        let ids = ops.iter().map(|op| match op {
            Op::Write { id, .. } | Op::Erase(id) => *id,
        });
        self.given.insert(self.number, ids.collect());
        ticket.into_iter().for_each(|ticket| _ = self.tickets.insert(self.number, ticket));
        // A disk that takes nothing any more is lost, which its thread has said.
        _ = disk.batches.send(Batch { ops, number: self.number });
        None
    }

    /// The disk has done with something.
    pub(crate) fn done(&mut self, synced: Synced) -> Synced {
        for id in self.given.remove(&synced.number).unwrap_or_default() {
            if self.on_their_way.get(&id).is_some_and(|(number, _)| *number == synced.number) {
                self.on_their_way.remove(&id);
            }
        }
        Synced { ticket: self.tickets.remove(&synced.number), ..synced }
    }
}

/// What the library says, for people.
fn reason(error: &fjall::Error) -> String {
    match error {
        fjall::Error::Locked => "another process uses it: give each peer a folder of its own".to_owned(),
        fjall::Error::Io(error) => error.to_string(),
        other => other.to_string().chars().take(WHY_BYTES_MAX).collect(),
    }
}

fn write(database: &Database, things: &Keyspace, values: &Keyspace, ops: Vec<Op>) -> Result<(), String> {
    let mut batch = database.batch().durability(Some(PersistMode::SyncData));
    for op in ops {
        match op {
            Op::Write { id, kept, value } => {
                batch.insert(things, key(id), kept);
                match value {
                    Some(value) => batch.insert(values, key(id), &*value),
                    None => batch.remove(values, key(id)),
                }
            }
            Op::Erase(id) => {
                batch.remove(things, key(id));
                batch.remove(values, key(id));
            }
        }
    }
    batch.commit().map_err(|error| reason(&error))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]
mod tests {
    use super::*;
    use contract::{Location, RingId, Span};
    use store::Version;

    fn item(number: u64, value: Option<&[u8]>) -> Item {
        Item {
            place: RingId::beginning_with(u128::from(number), 64),
            key: format!("kind={number}").into(),
            version: Version { at: number, by: RingId::MAX },
            location: Location::new(1.0, 2.0).unwrap(),
            left: Span::FOREVER,
            size: value.map(|value| value.len() as u64),
            value: value.map(Into::into),
        }
    }

    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder = std::env::temp_dir().join(format!("verge-shelf-{name}-{}", std::process::id()));
            _ = std::fs::remove_dir_all(&folder);
            Folder(folder)
        }

        fn open(&self, space: &str) -> Result<(Shelf, Vec<Kept>, answers::Receiver<Synced>), String> {
            let (told, heard) = answers::channel(16);
            let hire = |work: Box<dyn FnOnce() -> Result<(), String> + Send>| {
                std::thread::spawn(work);
                Ok(())
            };
            // One that was there before may still be closing.
            for _ in 0..200 {
                match Shelf::open(&self.0, space, told.clone(), hire) {
                    Err(why) if why.contains("another process") => {
                        std::thread::sleep(std::time::Duration::from_millis(10));
                    }
                    other => return other.map(|(shelf, found)| (shelf, found, heard)),
                }
            }
            Err("it stays locked".to_owned())
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_was_synced_is_there_again() {
        let folder = Folder::new("again");
        let (mut shelf, found, mut heard) = folder.open("kind").unwrap();
        assert_eq!(found, []);
        let (one, two, gone) = (item(1, Some(b"one")), item(2, Some(b"two")), item(3, None));
        for item in [&one, &two, &gone] {
            shelf.write(item.id(), item, Time::NEVER);
        }
        assert_eq!(shelf.value(one.id()).as_deref(), Some(&b"one"[..]), "it is on its way");
        assert_eq!(shelf.give(Some(7)), None);
        let synced = shelf.done(heard.blocking_recv().unwrap());
        assert_eq!((synced.ticket, synced.result), (Some(7), Ok(())));
        assert!(shelf.on_their_way.is_empty());
        shelf.erase(two.id());
        assert_eq!(shelf.value(two.id()), None);
        shelf.give(None);
        assert!(shelf.done(heard.blocking_recv().unwrap()).ticket.is_none());
        drop((shelf, heard));
        let (shelf, found, _heard) = folder.open("kind").unwrap();
        assert_eq!(found, [one.kept(Time::NEVER), gone.kept(Time::NEVER)]);
        assert_eq!(shelf.value(one.id()).as_deref(), Some(&b"one"[..]));
        assert_eq!((shelf.value(two.id()), shelf.value(gone.id())), (None, None));
        drop(shelf);
        assert!(folder.open("kind, sensor").err().unwrap().contains("another [space]"));
    }

    #[test]
    fn what_is_wrong_with_a_folder_is_said_with_its_key() {
        let folder = Folder::new("wrong");
        let _open = folder.open("kind").unwrap();
        let (told, _heard) = answers::channel(1);
        let why = Shelf::open(&folder.0, "kind", told.clone(), |_| Ok(())).err().unwrap();
        assert!(why.contains("(peers.NAME.store): another process uses it"), "{why}");
        let file = folder.0.join("a file");
        std::fs::write(&file, "").unwrap();
        let why = Shelf::open(&file, "kind", told, |_| Ok(())).err().unwrap();
        assert!(why.contains("Not a directory"), "{why}");
        assert_eq!(report::VALUE_BYTES_MAX, store::VALUE_BYTES_MAX, "clients know it too");
    }

    #[test]
    fn without_a_disk_values_stay_in_memory() {
        let mut shelf = Shelf::in_memory();
        let one = item(1, Some(b"one"));
        shelf.write(one.id(), &one, Time::NEVER);
        assert_eq!(shelf.give(Some(3)), Some(3), "nothing is waited for");
        assert_eq!(shelf.value(one.id()).as_deref(), Some(&b"one"[..]));
        shelf.erase(one.id());
        assert_eq!(shelf.value(one.id()), None);
    }
}
