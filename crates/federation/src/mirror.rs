//! The part of the tree that a participant follows, and what it writes.
//!
//! The problem: watches ring once, may ring late, and say nothing of what has changed; connections break with requests under way. The
//! idea: a ring means "something changed". Whatever is followed is read again, with a new watch, and only what differs is told. After a
//! break everything is read again.
//!
//! The invariant: what is followed is either known as of a read after its last ring, or a read of it is under way or waits for a place.

use crate::coordination::{Node, Operation, Refusal, Reply, Request, Session, Ticket};
use contract::{Mutant, invariant};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Requests that may be under way; the others wait.
pub const REQUESTS_MAX: usize = 256;

/// What of a node is followed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Aspect {
    /// What it holds.
    Data,
    /// What lies below it.
    Children,
}

/// What is known of something that is followed.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Known {
    Nothing,
    Node(Option<Node>),
    Children(Option<BTreeSet<String>>),
}

#[derive(Clone, Debug)]
struct Followed {
    followers: u32,
    known: Known,
    /// Nothing has rung since it was read.
    fresh: bool,
    /// A read is under way, or waits.
    reading: bool,
    /// It has rung since.
    again: bool,
}

/// How a write, or a read of its own, ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Outcome<P> {
    pub(crate) purpose: P,
    pub(crate) reply: Reply,
}

#[derive(Clone, Debug)]
enum Asked<P> {
    Follow(Aspect, String),
    Once(P),
}

/// See the module's words. `P` says what a write was for.
#[derive(Clone, Debug)]
pub(crate) struct Mirror<P> {
    session: Option<i64>,
    connected: bool,
    followed: BTreeMap<(Aspect, String), Followed>,
    asked: BTreeMap<Ticket, Asked<P>>,
    tickets: u64,
    /// Wait for a place among those under way.
    waiting: VecDeque<(Asked<P>, Request)>,
    out: VecDeque<(Ticket, Request)>,
    changed: VecDeque<(Aspect, String)>,
    outcomes: VecDeque<Outcome<P>>,
    /// What the service did not let us read, and whether that has been told.
    barred: BTreeMap<(Aspect, String), (Refusal, bool)>,
}

/// What a change of the session means for a participant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// Nothing.
    Nothing,
    /// The same session is connected again: what it owned it owns.
    Back,
    /// A new session: it owns nothing yet.
    New,
    /// Nothing can be written for now.
    Away,
}

impl<P> Mirror<P> {
    pub(crate) fn new() -> Mirror<P> {
        Mirror {
            session: None,
            connected: false,
            followed: BTreeMap::new(),
            asked: BTreeMap::new(),
            tickets: 0,
            waiting: VecDeque::new(),
            out: VecDeque::new(),
            changed: VecDeque::new(),
            outcomes: VecDeque::new(),
            barred: BTreeMap::new(),
        }
    }

    /// The session, while it is connected.
    pub(crate) fn session(&self) -> Option<i64> {
        self.session.filter(|_| self.connected)
    }

    /// Whether nothing has rung since something that is followed was read.
    pub(crate) fn is_fresh_at(&self, aspect: Aspect, path: &str) -> bool {
        self.followed.get(&(aspect, path.to_owned())).is_some_and(|followed| followed.fresh)
    }

    pub(crate) fn follow(&mut self, aspect: Aspect, path: &str) {
        if let Some(followed) = self.followed.get_mut(&(aspect, path.to_owned())) {
            followed.followers += 1;
            return;
        }
        let followed =
            Followed { followers: 1, known: Known::Nothing, fresh: false, reading: false, again: false };
        self.followed.insert((aspect, path.to_owned()), followed);
        self.read(aspect, path);
    }

    pub(crate) fn unfollow(&mut self, aspect: Aspect, path: &str) {
        let key = (aspect, path.to_owned());
        let Some(followed) = self.followed.get_mut(&key) else {
            return invariant!("what is followed no more was followed");
        };
        followed.followers -= 1;
        if followed.followers == 0 {
            self.followed.remove(&key);
        }
    }

    /// What a node that is followed holds. `None`: that is not known, or there is no such node.
    pub(crate) fn data(&self, path: &str) -> Option<&Node> {
        match &self.followed.get(&(Aspect::Data, path.to_owned()))?.known {
            Known::Node(node) => node.as_ref(),
            _ => None,
        }
    }

    /// What lies below a node that is followed. `None`: that is not known, or there is no such node.
    pub(crate) fn children(&self, path: &str) -> Option<&BTreeSet<String>> {
        match &self.followed.get(&(Aspect::Children, path.to_owned()))?.known {
            Known::Children(children) => children.as_ref(),
            _ => None,
        }
    }

    /// Whether something is followed, and has been read.
    pub(crate) fn is_known(&self, aspect: Aspect, path: &str) -> bool {
        let followed = self.followed.get(&(aspect, path.to_owned()));
        followed.is_some_and(|followed| followed.known != Known::Nothing)
    }

    /// Reads it again although it has not rung, where what was read turned out to be old.
    pub(crate) fn doubt(&mut self, aspect: Aspect, path: &str) {
        self.rung(aspect, path);
    }

    /// Reads it again, and tells what is found even if that is what was found before.
    pub(crate) fn look_again(&mut self, aspect: Aspect, path: &str) {
        if let Some(followed) = self.followed.get_mut(&(aspect, path.to_owned())) {
            followed.known = Known::Nothing;
            self.rung(aspect, path);
        }
    }

    /// Writes. The outcome comes later, under this purpose.
    pub(crate) fn write(&mut self, purpose: P, operations: Vec<Operation>) {
        self.ask(Asked::Once(purpose), Request::Write(operations));
    }

    /// Reads once. The outcome comes later, under this purpose.
    pub(crate) fn read_once(&mut self, purpose: P, path: &str) {
        self.ask(Asked::Once(purpose), Request::Read { path: path.to_owned() });
    }

    /// The next thing that has changed.
    pub(crate) fn poll_change(&mut self) -> Option<(Aspect, String)> {
        self.changed.pop_front()
    }

    /// How a write ended.
    pub(crate) fn poll_outcome(&mut self) -> Option<Outcome<P>> {
        self.outcomes.pop_front()
    }

    /// Something that the service does not let us read, told once.
    pub(crate) fn poll_barred(&mut self) -> Option<(String, Refusal)> {
        let ((_, path), (why, told)) = self.barred.iter_mut().find(|(_, (_, told))| !*told)?;
        *told = true;
        Some((path.clone(), *why))
    }

    /// Whether there is anything that could not be read.
    pub(crate) fn is_barred(&self) -> bool {
        !self.barred.is_empty()
    }

    /// Tries again what could not be read.
    pub(crate) fn read_barred(&mut self) {
        let barred: Vec<(Aspect, String)> = self.barred.keys().cloned().collect();
        for (aspect, path) in barred {
            if self.followed.contains_key(&(aspect, path.clone())) {
                self.rung(aspect, &path);
            } else {
                self.barred.remove(&(aspect, path));
            }
        }
    }

    /// The next request for the service.
    pub(crate) fn poll_request(&mut self) -> Option<(Ticket, Request)> {
        self.out.pop_front()
    }

    pub(crate) fn handle_session(&mut self, session: Session) -> Change {
        match session {
            Session::Connected(number) => {
                let before = self.session.replace(number);
                if self.connected && before == Some(number) {
                    return Change::Nothing;
                }
                self.lose_requests();
                self.connected = true;
                self.read_all();
                if before == Some(number) { Change::Back } else { Change::New }
            }
            Session::Away => {
                self.connected = false;
                self.lose_requests();
                Change::Away
            }
            Session::Expired => {
                (self.session, self.connected) = (None, false);
                self.lose_requests();
                Change::Away
            }
        }
    }

    /// Nothing that was asked is answered any more.
    fn lose_requests(&mut self) {
        self.out.clear();
        let asked = std::mem::take(&mut self.asked).into_values();
        let waiting = std::mem::take(&mut self.waiting).into_iter().map(|(asked, _)| asked);
        for asked in asked.chain(waiting) {
            match asked {
                Asked::Once(purpose) => self.outcomes.push_back(Outcome { purpose, reply: Reply::Lost }),
                Asked::Follow(aspect, path) => {
                    if let Some(followed) = self.followed.get_mut(&(aspect, path)) {
                        (followed.reading, followed.again) = (false, false);
                    }
                }
            }
        }
    }

    fn read_all(&mut self) {
        let all: Vec<(Aspect, String)> = self.followed.keys().cloned().collect();
        all.iter().for_each(|(aspect, path)| self.rung(*aspect, path));
    }

    pub(crate) fn handle_event(&mut self, path: &str) {
        if Mutant::ForgetRings.is_on() {
            return;
        }
        self.rung(Aspect::Data, path);
        self.rung(Aspect::Children, path);
    }

    fn rung(&mut self, aspect: Aspect, path: &str) {
        let Some(followed) = self.followed.get_mut(&(aspect, path.to_owned())) else { return };
        followed.fresh = false;
        followed.again = followed.reading;
        self.read(aspect, path);
    }

    fn read(&mut self, aspect: Aspect, path: &str) {
        let Some(followed) = self.followed.get_mut(&(aspect, path.to_owned())) else { return };
        // What is not connected reads everything once it is.
        if followed.reading || !self.connected {
            return;
        }
        followed.reading = true;
        let path = path.to_owned();
        let request = match aspect {
            Aspect::Data => Request::Read { path: path.clone() },
            Aspect::Children => Request::List { path: path.clone() },
        };
        self.ask(Asked::Follow(aspect, path), request);
    }

    fn ask(&mut self, asked: Asked<P>, request: Request) {
        if !self.connected {
            if let Asked::Once(purpose) = asked {
                self.outcomes.push_back(Outcome { purpose, reply: Reply::Lost });
            }
            return;
        }
        self.waiting.push_back((asked, request));
        self.fill();
    }

    fn fill(&mut self) {
        while self.asked.len() < REQUESTS_MAX {
            let Some((asked, request)) = self.waiting.pop_front() else { return };
            self.tickets += 1;
            let ticket = Ticket(self.tickets);
            self.asked.insert(ticket, asked);
            self.out.push_back((ticket, request));
        }
    }

    pub(crate) fn handle_reply(&mut self, ticket: Ticket, reply: Reply) {
        // An answer to what was given up when the connection broke is none any more.
        let Some(asked) = self.asked.remove(&ticket) else { return };
        match asked {
            Asked::Once(purpose) => self.outcomes.push_back(Outcome { purpose, reply }),
            Asked::Follow(aspect, path) => self.take(aspect, &path, reply),
        }
        self.fill();
    }

    fn take(&mut self, aspect: Aspect, path: &str, reply: Reply) {
        let Some(followed) = self.followed.get_mut(&(aspect, path.to_owned())) else { return };
        followed.reading = false;
        let again = std::mem::replace(&mut followed.again, false);
        let known = match (aspect, reply) {
            (Aspect::Data, Reply::Node(node)) => Known::Node(node),
            (Aspect::Children, Reply::Children(children)) => {
                Known::Children(children.map(|names| names.into_iter().collect()))
            }
            (_, Reply::Refused { why, .. }) => {
                self.barred.entry((aspect, path.to_owned())).or_insert((why, false));
                return;
            }
            // Not read: again, when there is a connection.
            _ => return,
        };
        self.barred.remove(&(aspect, path.to_owned()));
        let Some(followed) = self.followed.get_mut(&(aspect, path.to_owned())) else { return };
        followed.fresh = !again;
        // What is read again and is not there may have been there in between.
        if followed.known != known || known == Known::Node(None) {
            followed.known = known;
            self.changed.push_back((aspect, path.to_owned()));
        }
        if again {
            self.read(aspect, path);
        }
    }
}
