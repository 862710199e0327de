//! What peers run: functions are kept like other things, and who has the place of one runs it.
//!
//! The problem: a function has to run once, whoever dies. The idea: its name has a place on the ring, and the owner of that place has a copy of it
//! before anybody else takes over. So there is nobody who decides. Where a network is cut, both sides have an owner; and a peer that has just begun
//! may be alone with what is on its disk, so that it takes no duty for a while. When a peer comes that owns the place of what another one runs, that one
//! goes on until it hears that the owner does: who runs something keeps a word of it beside the function, and the owner's word counts.

use super::keeping::{Own, Places};
use super::{Peer, PeerEffects, PutError, checked};
use contract::{Location, Mutant, Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::{Item, ItemId, Query, Ring, Version};

/// How the keys begin that peers have for themselves; those of profiles never do.
pub(super) const OWN: char = '=';
/// How those of functions do.
const FUNCTIONS: &str = "=function/";
/// And those by which functions are started that run only when they are asked to. They have the places of their functions on the ring.
const STARTS: &str = "=start/";
/// And those by which who runs a function says so.
const RUNS: &str = "=runs/";
/// How such words are numbered, of which nobody waits for an answer.
const UNHEARD: u64 = u64::MAX;
/// So long after its beginning a peer takes no duty: it may not have found the others yet.
pub const NO_DUTY_FOR: Span = Span::secs(5);
/// The longest name of a function.
pub const FUNCTION_NAME_MAX: usize = 64;

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

/// What is known of duties.
#[derive(Clone, Debug)]
pub(super) struct Duties {
    /// What is kept here that peers have for themselves.
    pub(super) kept: Own,
    /// Before that there is none.
    from: Time,
    /// The same, until it has come.
    pub(super) wakes: Time,
    /// Functions that are this peer's own and of which another one has said last that it runs them, or nobody has.
    /// With where they are: what is said of one has to stay with it.
    unsaid: BTreeMap<Arc<str>, Location>,
}

impl Duties {
    pub(super) fn new(now: Time) -> Duties {
        let from = now + NO_DUTY_FOR;
        Duties { kept: Own::default(), from, wakes: from, unsaid: BTreeMap::new() }
    }

    /// They may begin.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        if self.wakes <= now {
            self.wakes = Time::NEVER;
            self.kept.change();
        }
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
        (name, text): (&str, Option<Arc<[u8]>>),
        out: &mut impl PeerEffects,
    ) -> Result<(), PutError> {
        let here = self.rings.own().location;
        if text.is_none() && is_function_name(name) {
            // What was said of one that has gone would hold for the next one of its name.
            for prefix in [STARTS, RUNS] {
                self.keep_for_function(now, UNHEARD, (prefix, name, here), (None, Span::FOREVER), out)?;
            }
        }
        self.keep_for_function(now, request, (FUNCTIONS, name, here), (text, Span::FOREVER), out)
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

    fn keep_for_function(
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

    /// What this peer has to run now, if that may have changed since this was last asked.
    pub fn take_duties(&mut self, now: Time, out: &mut impl PeerEffects) -> Option<Vec<Duty>> {
        if now < self.duties.from || !self.duties.kept.take_change() {
            return None;
        }
        let kept: Vec<(ItemId, Arc<str>)> = self.duties.kept.all().collect();
        let own = self.rings.own().id.ring;
        let (mut duties, mut unsaid) = (Vec::new(), BTreeMap::new());
        self.with_store(out, |store, places: &Places<'_>, through| {
            let (mut started, mut runs) = (BTreeSet::new(), BTreeMap::new());
            for (id, key) in &kept {
                if let Some(name) = key.strip_prefix(STARTS)
                    && store.item(now, *id, through).is_some_and(|item| item.size.is_some())
                {
                    started.insert(name);
                } else if let Some(name) = key.strip_prefix(RUNS)
                    && let Some(item) = store.item(now, *id, through).filter(|item| item.size.is_some())
                {
                    runs.insert(name, item.version.by);
                }
            }
            for (id, key) in &kept {
                let (Some(name), Some(owner)) =
                    (function_name(key), places.owners(id.place).first().copied())
                else {
                    continue;
                };
                // Who has said last that it runs it, and is not the owner, goes on until the owner says so.
                let goes_on = runs.get(name) == Some(&own) && !Mutant::EndAtOnce.is_on();
                if owner != own && !goes_on && !Mutant::RunEveryCopy.is_on() {
                    continue;
                }
                // Texts of what others run are not read.
                let Some(Item { version, location, value: Some(text), .. }) = store.item(now, *id, through)
                else {
                    continue;
                };
                if owner == own && runs.get(name) != Some(&own) {
                    unsaid.insert(name.into(), location);
                }
                duties.push(Duty { name: name.into(), version, text, is_started: started.contains(name) });
            }
        });
        self.duties.unsaid = unsaid;
        Some(duties)
    }

    /// A function that is this peer's duty runs, or waits to be started: who has run it so far may end. It is told at each change, and said until that
    /// is kept.
    pub fn handle_begun(&mut self, now: Time, name: &str, out: &mut impl PeerEffects) {
        if let Some(location) = self.duties.unsaid.get(name).copied() {
            let value = (Some(Arc::from(&b""[..])), Span::FOREVER);
            // A name that is no name has no duty.
            _ = self.keep_for_function(now, UNHEARD, (RUNS, name, location), value, out);
        }
    }
}
