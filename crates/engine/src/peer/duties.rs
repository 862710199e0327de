//! What peers run: functions are kept like other things, and who has the place of one runs it.
//!
//! The problem: a function has to run once, whoever dies. The idea: its name has a place on the ring, and the owner of that place has a copy of it
//! before anybody else takes over. So there is nobody who decides. Where a network is cut, both sides have an owner; and a peer that has just begun
//! may be alone with what is on its disk, so that it takes no duty for a while.

use super::keeping::{Own, Places};
use super::{Peer, PeerEffects, PutError, checked};
use contract::{Mutant, Span, Time};
use std::collections::BTreeSet;
use std::sync::Arc;
use store::{Item, Query, Version};

/// How the keys begin that peers have for themselves; those of profiles never do.
pub(super) const OWN: char = '=';
/// How those of functions do.
const FUNCTIONS: &str = "=function/";
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
}

impl Duties {
    pub(super) fn new(now: Time) -> Duties {
        Duties { kept: Own::default(), from: now + NO_DUTY_FOR, wakes: now + NO_DUTY_FOR }
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

/// Whether a function may be called so: letters, digits, `-`, `_` and `.`.
pub fn is_function_name(name: &str) -> bool {
    let may = |letter: u8| letter.is_ascii_alphanumeric() || b"-_.".contains(&letter);
    (1..=FUNCTION_NAME_MAX).contains(&name.len()) && name.bytes().all(may)
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
        if !is_function_name(name) {
            return Err(PutError::Name);
        }
        let item = Item {
            place: store::place_by_hash(name),
            key: format!("{FUNCTIONS}{name}").into(),
            version: Version::default(),
            location: self.rings.own().location,
            left: Span::FOREVER,
            size: text.as_ref().map(|text| text.len() as u64),
            value: text,
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
        let ids: Vec<_> = self.duties.kept.ids().collect();
        let mut duties = Vec::new();
        self.with_store(out, |store, places: &Places<'_>, through| {
            for id in ids {
                let Some(item) = store.item(now, id, through) else { continue };
                if let (Some(name), Some(text), true) = (
                    function_name(&item.key),
                    item.value.clone(),
                    places.is_own(id.place) || Mutant::RunEveryCopy.is_on(),
                ) {
                    duties.push(Duty { name: name.into(), version: item.version, text });
                }
            }
        });
        Some(duties)
    }
}
