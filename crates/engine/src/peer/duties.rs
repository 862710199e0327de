//! What peers run: functions are kept like other things, and one peer of the region runs each.
//!
//! Here is what is kept of functions, and what this peer is told to run. Who is told to is decided in `placing.rs`.

use super::placing::LEASE;
use super::words::WorkWord;
use super::{Peer, PeerEffects, PeerWord, PutError, checked};
use contract::{Location, Mutant, RingId, Span, Time};
use overlay::Member;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use store::{Item, Query, Version};

/// How the keys begin that peers have for themselves; those of profiles never do.
pub(super) const OWN: char = '=';
/// How those of functions do.
const FUNCTIONS: &str = "=function/";
/// And those by which functions are started that run only when they are asked to. They have the places of their functions on the ring.
pub(super) const STARTS: &str = "=start/";
/// And those that say who runs a function.
pub(super) const RUNS: &str = "=runs/";
/// How such words are numbered, of which nobody waits for an answer.
pub(super) const UNHEARD: u64 = u64::MAX;
/// The longest name of a function.
pub const FUNCTION_NAME_MAX: usize = 64;
/// Functions that one peer runs at once, at most.
pub const FUNCTIONS_MAX: usize = 256;

/// Where a function may run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Where {
    /// At any peer.
    #[default]
    Anywhere,
    /// At one that is near devices.
    Edge,
    /// At one that has much room.
    Core,
}

impl Where {
    /// As one byte.
    pub fn byte(self) -> u8 {
        match self {
            Where::Anywhere => 0,
            Where::Edge => 1,
            Where::Core => 2,
        }
    }

    /// From one byte.
    pub fn from_byte(byte: u8) -> Option<Where> {
        [Where::Anywhere, Where::Edge, Where::Core].into_iter().find(|place| place.byte() == byte)
    }

    /// That of a function as it is kept.
    pub(super) fn of(kept: &[u8]) -> Option<Where> {
        kept.first().copied().and_then(Where::from_byte)
    }
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Where::Anywhere => "any",
            Where::Edge => "edge",
            Where::Core => "core",
        })
    }
}

/// A function cannot be there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a function is at `edge`, at `core`, or at `any` peer")]
pub struct Nowhere;

impl FromStr for Where {
    type Err = Nowhere;

    fn from_str(text: &str) -> Result<Where, Nowhere> {
        [Where::Anywhere, Where::Edge, Where::Core]
            .into_iter()
            .find(|place| place.to_string() == text)
            .ok_or(Nowhere)
    }
}

/// The text of a function, of what is kept of it.
pub fn function_text(kept: &[u8]) -> Option<&[u8]> {
    kept.split_first().map(|(_, text)| text)
}

/// A function that this peer has to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Duty {
    /// Its name.
    pub name: Arc<str>,
    /// Which of several functions of that name.
    pub version: Version,
    /// What it is.
    pub text: Arc<[u8]>,
    /// Whether somebody has started it, and that is not over.
    pub is_started: bool,
}

/// A duty, and how long.
#[derive(Clone, Debug)]
struct Hired {
    duty: Duty,
    /// Who has said so.
    by: RingId,
    until: Time,
}

/// What this peer is told to run.
#[derive(Clone, Debug)]
pub(super) struct Duties {
    hired: BTreeMap<Arc<str>, Hired>,
    has_changed: bool,
}

impl Default for Duties {
    /// What an earlier life ran has to end.
    fn default() -> Duties {
        Duties { hired: BTreeMap::new(), has_changed: true }
    }
}

impl Duties {
    /// When the first of them is over.
    pub(super) fn next_deadline(&self) -> Time {
        self.hired.values().map(|hired| hired.until).min().unwrap_or(Time::NEVER)
    }

    /// Ends what it is not told to run any more.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        let count = self.hired.len();
        self.hired.retain(|_, hired| hired.until > now);
        self.has_changed |= self.hired.len() != count;
    }

    /// Ends all.
    pub(super) fn end(&mut self) {
        *self = Duties::default();
    }
}

/// The name of a function that a key stands for.
pub fn function_name(key: &str) -> Option<&str> {
    key.strip_prefix(FUNCTIONS).filter(|name| is_function_name(name))
}

/// Whether a function may be called so: letters and digits, and behind the first of them `-`, `_` and `.`.
pub fn is_function_name(name: &str) -> bool {
    let may = |letter: u8| letter.is_ascii_alphanumeric() || b"-_.".contains(&letter);
    name.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        && name.len() <= FUNCTION_NAME_MAX
        && name.bytes().all(may)
}

impl Peer {
    /// Keeps a function in the region of this peer, in place of one of the same name; without a text, it is removed.
    pub fn keep_function(
        &mut self,
        now: Time,
        request: u64,
        (name, function): (&str, Option<(Where, &[u8])>),
        out: &mut impl PeerEffects,
    ) -> Result<(), PutError> {
        let here = self.rings.own().location;
        if function.is_none() && is_function_name(name) {
            // A start of one that has gone would hold for the next one of its name.
            self.keep_for_function(now, UNHEARD, (STARTS, name, here), (None, Span::FOREVER), out)?;
        }
        let value = function.map(|(at, text)| [&[at.byte()], text].concat().into());
        self.keep_for_function(now, request, (FUNCTIONS, name, here), (value, Span::FOREVER), out)
    }

    /// Starts a function of its region that runs only when it is asked to, for so long, or stops it.
    pub fn start_function(
        &mut self,
        now: Time,
        request: u64,
        (name, lasts): (&str, Option<Span>),
        out: &mut impl PeerEffects,
    ) -> Result<(), PutError> {
        let value = lasts.map(|_| Arc::from(&b""[..]));
        let (here, left) = (self.rings.own().location, lasts.unwrap_or(Span::FOREVER));
        self.keep_for_function(now, request, (STARTS, name, here), (value, left), out)
    }

    pub(super) fn keep_for_function(
        &mut self,
        now: Time,
        request: u64,
        (prefix, name, location): (&str, &str, Location),
        (value, left): (Option<Arc<[u8]>>, Span),
        out: &mut impl PeerEffects,
    ) -> Result<(), PutError> {
        if !is_function_name(name) {
            return Err(PutError::Name);
        }
        let item = Item {
            place: store::place_by_hash(name),
            key: format!("{prefix}{name}").into(),
            version: Version::default(),
            location,
            left,
            size: value.as_ref().map(|value| value.len() as u64),
            value,
        };
        self.keep_item(now, request, item, out);
        Ok(())
    }

    /// Looks for the functions of its region.
    pub fn look_for_functions(
        &mut self,
        now: Time,
        request: u64,
        limit: usize,
        out: &mut impl PeerEffects,
    ) -> Result<(), PutError> {
        let query = Query { interest: checked(FUNCTIONS)?.to_owned(), after: None, limit, values: true };
        if self.is_nowhere(request, out) {
            return Ok(());
        }
        let members = self.rings.table().members.keys().copied().collect();
        self.with_store(out, |store, _, through| {
            store.look_for(now, request, &query, (members, BTreeSet::new()), through);
        });
        self.settle(now, out);
        Ok(())
    }

    /// What this peer has to run now, if that is otherwise than when this was last asked. It is to be asked after each event.
    pub fn take_duties(&mut self, now: Time, out: &mut impl PeerEffects) -> Option<Vec<Duty>> {
        self.place(now, out);
        self.settle(now, out);
        let has_changed = std::mem::take(&mut self.duties.has_changed);
        has_changed.then(|| self.duties.hired.values().map(|hired| hired.duty.clone()).collect())
    }

    /// A member says something of functions.
    pub(super) fn hear_work(&mut self, now: Time, from: &Member, word: WorkWord, out: &mut impl PeerEffects) {
        let peer = from.id.ring;
        if !self.rings.table().members.contains_key(&peer) {
            return;
        }
        match word {
            WorkWord::Asks { name, at } => {
                let load = self.load(at, self.duties.hired.len(), out);
                self.say(peer, PeerWord::Work(WorkWord::Offers { name, load }), out);
            }
            WorkWord::Offers { name, load } => self.hear_offer(now, from, (&name, load), out),
            WorkWord::Lacks { name } => self.hear_lacks(from, &name),
            WorkWord::Runs { name, version, at, is_started, text } => {
                self.hear_runs(now, peer, (name, version, at, is_started), text, out);
            }
            WorkWord::Ends { name } => {
                if self.duties.hired.get(&name).is_some_and(|hired| hired.by == peer) {
                    self.duties.hired.remove(&name);
                    self.duties.has_changed = true;
                }
            }
        }
    }

    /// How much this peer has to do, if it would run one more than so many.
    fn load(&self, at: Where, runs: usize, out: &impl PeerEffects) -> Option<u32> {
        if runs < FUNCTIONS_MAX { out.load(at, runs) } else { None }
    }

    /// The owner of its place says that this peer runs a function.
    fn hear_runs(
        &mut self,
        now: Time,
        by: RingId,
        (name, version, at, is_started): (Arc<str>, Version, Where, bool),
        text: Option<Arc<[u8]>>,
        out: &mut impl PeerEffects,
    ) {
        let known = self.duties.hired.get_mut(&name);
        let until = if Mutant::HireForever.is_on() { Time::NEVER } else { now + LEASE };
        if let Some(known) = known {
            if known.duty.version > version {
                // Who says so has not heard of the newer one.
                return;
            }
            if known.duty.version == version {
                (known.by, known.until) = (by, until);
                self.duties.has_changed |= known.duty.is_started != is_started;
                known.duty.is_started = is_started;
                return;
            }
        }
        // One in place of another of its name needs no further room.
        let others = self.duties.hired.len() - usize::from(self.duties.hired.contains_key(&name));
        if self.load(at, others, out).is_none() {
            self.duties.has_changed |= self.duties.hired.remove(&name).is_some();
            return self.say(by, PeerWord::Work(WorkWord::Offers { name, load: None }), out);
        }
        let Some(text) = text else {
            return self.say(by, PeerWord::Work(WorkWord::Lacks { name }), out);
        };
        let duty = Duty { name: Arc::clone(&name), version, text, is_started };
        self.duties.hired.insert(name, Hired { duty, by, until });
        self.duties.has_changed = true;
    }
}
