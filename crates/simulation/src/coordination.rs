//! A coordination service that answers at once: nodes, versions, sessions, watches. Delays, losses and outages are its world's.
//!
//! It keeps to what Apache ZooKeeper promises and no more: a watch rings once; a rung watch says which node, not what has changed; what an
//! expired session owned goes one node after the other.

use contract::{Span, Time};
use federation::{Lasting, Node, Operation, Refusal, Reply, Request, Stat};
use std::collections::{BTreeMap, BTreeSet};

/// A watch has rung.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ring {
    /// Whose.
    pub session: i64,
    /// The node.
    pub path: String,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    data: Vec<u8>,
    stat: Stat,
    children: BTreeSet<String>,
    created_below: u32,
}

/// The service.
#[derive(Clone, Debug)]
pub struct Coordination {
    nodes: BTreeMap<String, Entry>,
    /// Watches on what a node holds, and on what lies below it.
    watches: [BTreeMap<String, BTreeSet<i64>>; 2],
    /// Until when each stands, if nothing is heard of it.
    sessions: BTreeMap<i64, Time>,
    time_out: Span,
    last_session: i64,
    changes: i64,
    /// Nodes that nobody may read, and those that nobody may create, change or delete.
    barred: BTreeSet<String>,
    shielded: BTreeSet<String>,
    /// Requests answered, by kind: reads, lists, writes.
    answered: [u64; 3],
}

const DATA: usize = 0;
const CHILDREN: usize = 1;

impl Coordination {
    /// An empty tree. Sessions that are not heard of for so long end.
    pub fn new(time_out: Span) -> Coordination {
        Coordination {
            nodes: BTreeMap::from([(String::new(), Entry::default())]),
            watches: Default::default(),
            sessions: BTreeMap::new(),
            time_out,
            last_session: 0,
            changes: 0,
            barred: BTreeSet::new(),
            shielded: BTreeSet::new(),
            answered: [0; 3],
        }
    }

    /// Somebody connects, and goes on with a session if that still stands. Returns the session.
    pub fn connect(&mut self, now: Time, session: Option<i64>) -> i64 {
        let session = session.filter(|session| self.sessions.contains_key(session)).unwrap_or_else(|| {
            self.last_session += 1;
            self.last_session
        });
        self.hear(now, session);
        session
    }

    /// Something has come from a session.
    pub fn hear(&mut self, now: Time, session: i64) {
        self.sessions.insert(session, now + self.time_out);
    }

    /// Whether a session stands.
    pub fn stands(&self, session: i64) -> bool {
        self.sessions.contains_key(&session)
    }

    /// When a session ends, if nothing is heard of it.
    pub fn ends_at(&self, session: i64) -> Option<Time> {
        self.sessions.get(&session).copied()
    }

    /// Ends sessions of which nothing has been heard for too long.
    pub fn expire(&mut self, now: Time) -> Vec<Ring> {
        let over = self.sessions.iter().filter(|(_, until)| **until <= now);
        let over: Vec<i64> = over.map(|(session, _)| *session).collect();
        over.into_iter().flat_map(|session| self.end(session)).collect()
    }

    /// Ends a session, as who closes it does.
    pub fn end(&mut self, session: i64) -> Vec<Ring> {
        self.sessions.remove(&session);
        for watches in &mut self.watches {
            watches.values_mut().for_each(|sessions| _ = sessions.remove(&session));
        }
        let owned = self.nodes.iter().filter(|(_, entry)| entry.stat.owner == session);
        let owned: Vec<String> = owned.map(|(path, _)| path.clone()).collect();
        owned.iter().flat_map(|path| self.delete(path)).collect()
    }

    /// A node by hand of an admin: it and all below are gone.
    pub fn wipe(&mut self, path: &str) -> Vec<Ring> {
        let below: Vec<String> =
            self.nodes.get(path).into_iter().flat_map(|entry| entry.children.clone()).collect();
        let mut rings: Vec<Ring> =
            below.iter().flat_map(|name| self.wipe(&format!("{path}/{name}"))).collect();
        rings.extend(self.delete(path));
        rings
    }

    /// A node by hand of an admin, with the folders above it.
    pub fn put(&mut self, path: &str) -> Vec<Ring> {
        let ends = path.match_indices('/').map(|(end, _)| end).skip(1).chain([path.len()]);
        let paths: Vec<String> = ends.map(|end| path[..end].to_owned()).collect();
        let mut rings = Vec::new();
        for path in paths {
            let create = Operation::Create { path, data: Vec::new(), lasting: Lasting::Persistent };
            // What is there stays.
            rings.extend(self.answer(0, &Request::Write(vec![create])).1);
        }
        rings
    }

    /// An admin says whether anybody may read a node.
    pub fn bar(&mut self, path: &str, bars: bool) {
        let _ = if bars { self.barred.insert(path.to_owned()) } else { self.barred.remove(path) };
    }

    /// An admin says whether anybody may create, change or delete a node.
    pub fn shield(&mut self, path: &str, shields: bool) {
        let _ = if shields { self.shielded.insert(path.to_owned()) } else { self.shielded.remove(path) };
    }

    /// Answers a request, and says whose watches have rung.
    pub fn answer(&mut self, session: i64, request: &Request) -> (Reply, Vec<Ring>) {
        match request {
            Request::Read { path } | Request::List { path } if self.barred.contains(path) => {
                (Reply::Refused { operation: 0, why: Refusal::Forbidden }, Vec::new())
            }
            Request::Read { path } => {
                self.answered[0] += 1;
                self.watches[DATA].entry(path.clone()).or_default().insert(session);
                let node = self.nodes.get(path);
                (
                    Reply::Node(node.map(|entry| Node { data: entry.data.clone(), stat: entry.stat })),
                    Vec::new(),
                )
            }
            Request::List { path } => {
                self.answered[1] += 1;
                self.watches[CHILDREN].entry(path.clone()).or_default().insert(session);
                let children = self.nodes.get(path).map(|entry| entry.children.iter().cloned().collect());
                (Reply::Children(children), Vec::new())
            }
            Request::Write(operations) => {
                self.answered[2] += 1;
                self.write(session, operations)
            }
        }
    }

    fn write(&mut self, session: i64, operations: &[Operation]) -> (Reply, Vec<Ring>) {
        let (mut before, changes) = (Vec::new(), self.changes);
        let (mut created, mut touched) = (Vec::new(), Vec::new());
        for (operation, wanted) in operations.iter().enumerate() {
            let above = wanted.path().rsplit_once('/').map_or("", |(above, _)| above);
            before
                .extend([above, wanted.path()].map(|path| (path.to_owned(), self.nodes.get(path).cloned())));
            match self.apply(session, wanted) {
                Ok(name) => {
                    touched.push(name.clone().unwrap_or_else(|| wanted.path().to_owned()));
                    created.push(name);
                }
                Err(why) => {
                    self.changes = changes;
                    self.put_back(before, &touched);
                    return (Reply::Refused { operation, why }, Vec::new());
                }
            }
        }
        let is_check = |operation: &Operation| matches!(operation, Operation::Check { .. });
        let changed = operations.iter().zip(&touched).filter(|(operation, _)| !is_check(operation));
        let rings = changed.flat_map(|(operation, path)| {
            let ends = !matches!(operation, Operation::Set { .. });
            ring(&mut self.watches, path, ends)
        });
        let rings = rings.collect();
        (Reply::Written(created), rings)
    }

    /// The nodes are as they were before a write that could not be done.
    fn put_back(&mut self, before: Vec<(String, Option<Entry>)>, touched: &[String]) {
        touched.iter().for_each(|path| _ = self.nodes.remove(path));
        for (path, entry) in before.into_iter().rev() {
            match entry {
                Some(entry) => _ = self.nodes.insert(path, entry),
                None => _ = self.nodes.remove(&path),
            }
        }
    }

    fn apply(&mut self, session: i64, operation: &Operation) -> Result<Option<String>, Refusal> {
        if self.shielded.contains(operation.path()) {
            return Err(Refusal::Forbidden);
        }
        match operation {
            Operation::Check { path, version } => self.check(path, *version).map(|()| None),
            Operation::Create { path, data, lasting } => self.create(session, path, data, *lasting),
            Operation::Set { path, data, version } => {
                self.check(path, *version)?;
                let entry = self.nodes.get_mut(path).ok_or(Refusal::Missing)?;
                entry.data.clone_from(data);
                entry.stat.version += 1;
                self.changes += 1;
                Ok(None)
            }
            Operation::Delete { path, version } => {
                self.check(path, *version)?;
                if self.nodes.get(path).is_some_and(|entry| !entry.children.is_empty()) {
                    return Err(Refusal::NotEmpty);
                }
                self.remove(path);
                Ok(None)
            }
        }
    }

    fn check(&self, path: &str, version: Option<i32>) -> Result<(), Refusal> {
        let entry = self.nodes.get(path).ok_or(Refusal::Missing)?;
        let right = version.is_none_or(|version| entry.stat.version == version);
        if right { Ok(()) } else { Err(Refusal::Version) }
    }

    fn create(
        &mut self,
        session: i64,
        path: &str,
        data: &[u8],
        lasting: Lasting,
    ) -> Result<Option<String>, Refusal> {
        let (above, name) = path.rsplit_once('/').ok_or(Refusal::Other)?;
        let parent = self.nodes.get_mut(above).ok_or(Refusal::Missing)?;
        if parent.stat.owner != 0 {
            return Err(Refusal::Other);
        }
        let name = match lasting {
            Lasting::EphemeralSequential => format!("{name}{:010}", parent.created_below),
            Lasting::Ephemeral | Lasting::Persistent => name.to_owned(),
        };
        if !parent.children.insert(name.clone()) {
            return Err(Refusal::Exists);
        }
        parent.created_below += 1;
        self.changes += 1;
        let owner = if lasting == Lasting::Persistent { 0 } else { session };
        let stat = Stat { version: 0, owner, created: self.changes };
        let path = format!("{above}/{name}");
        let entry = Entry { data: data.to_vec(), stat, ..Entry::default() };
        self.nodes.insert(path.clone(), entry);
        Ok((lasting == Lasting::EphemeralSequential).then_some(path))
    }

    fn remove(&mut self, path: &str) {
        self.changes += 1;
        self.nodes.remove(path);
        if let Some((above, name)) = path.rsplit_once('/')
            && let Some(parent) = self.nodes.get_mut(above)
        {
            parent.children.remove(name);
        }
    }

    fn delete(&mut self, path: &str) -> Vec<Ring> {
        self.remove(path);
        ring(&mut self.watches, path, true)
    }

    /// All nodes, and what they hold.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.nodes.iter().map(|(path, entry)| (path.as_str(), entry.data.as_slice()))
    }

    /// Watches that may ring.
    pub fn watches(&self) -> usize {
        self.watches.iter().flat_map(BTreeMap::values).map(BTreeSet::len).sum()
    }

    /// Reads, lists and writes that have been answered.
    pub fn answered(&self) -> [u64; 3] {
        self.answered
    }
}

/// A node has changed; where it has come or gone, what is above it has too.
fn ring(watches: &mut [BTreeMap<String, BTreeSet<i64>>; 2], path: &str, ends: bool) -> Vec<Ring> {
    let mut rings = Vec::new();
    let mut take = |kind: usize, path: &str| {
        let sessions = watches[kind].remove(path).unwrap_or_default();
        rings.extend(sessions.into_iter().map(|session| Ring { session, path: path.to_owned() }));
    };
    take(DATA, path);
    if ends {
        take(CHILDREN, path);
        take(CHILDREN, path.rsplit_once('/').map_or("", |(above, _)| above));
    }
    rings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(path: &str, lasting: Lasting) -> Operation {
        Operation::Create { path: path.to_owned(), data: Vec::new(), lasting }
    }

    #[test]
    fn a_write_is_done_as_a_whole_or_not_at_all() {
        let mut service = Coordination::new(Span::secs(5));
        let session = service.connect(Time::ZERO, None);
        let wrong = [create("/a", Lasting::Persistent), create("/b/c", Lasting::Persistent)];
        let (reply, rings) = service.answer(session, &Request::Write(wrong.to_vec()));
        assert_eq!(reply, Reply::Refused { operation: 1, why: Refusal::Missing });
        assert!(rings.is_empty() && service.nodes().count() == 1);
    }

    #[test]
    fn what_a_session_owns_goes_with_it_and_watches_ring_once() {
        let mut service = Coordination::new(Span::secs(5));
        let [one, two] = [0, 1].map(|_| service.connect(Time::ZERO, None));
        let write =
            Request::Write(vec![create("/a", Lasting::Persistent), create("/a/x", Lasting::Ephemeral)]);
        service.answer(one, &write);
        service.answer(two, &Request::List { path: "/a".to_owned() });
        service.hear(Time::ZERO + Span::secs(4), two);
        assert_eq!(service.expire(Time::ZERO + Span::secs(4)), []);
        let rings = service.expire(Time::ZERO + Span::secs(5));
        assert_eq!(rings, [Ring { session: two, path: "/a".to_owned() }]);
        assert!(!service.stands(one) && service.stands(two));
        assert_eq!(service.watches(), 0);
        assert_ne!(service.connect(Time::ZERO, Some(one)), one);
    }

    #[test]
    fn places_in_a_queue_are_in_the_order_in_which_they_were_taken() {
        let mut service = Coordination::new(Span::secs(5));
        let session = service.connect(Time::ZERO, None);
        service.answer(session, &Request::Write(vec![create("/q", Lasting::Persistent)]));
        let take = Request::Write(vec![create("/q/n-", Lasting::EphemeralSequential)]);
        let replies = [0, 1].map(|_| service.answer(session, &take).0);
        let name = |number: u32| Some(format!("/q/n-{number:010}"));
        assert_eq!(replies, [0, 1].map(|number| Reply::Written(vec![name(number)])));
    }
}
