//! Which subscriptions a topic has.
//!
//! The problem: a message comes, and among a hundred thousand filters those that mean its topic are wanted within a
//! microsecond. They are found by [`contract::Filters`], a tree over the levels of filters.
//!
//! Invariants: every filter of the tree has a subscription, and a session has one subscription for each text of a
//! filter. Order of insertion does not show in what comes out.
//!
//! Left to the gateway: who may subscribe, limits per session, and that a message goes to one member of each group.

mod filter;
mod matches;
mod node;
#[cfg(test)]
mod tests;

#[cfg(test)]
use contract::TOPIC_LEVELS_MAX;
use contract::{Filters, Kept, invariant};
use std::collections::{BTreeMap, BTreeSet};

pub use filter::{Filter, FilterError, is_shared, parse_filter};
pub use matches::{Matches, Row, Want};
use node::Leaf;
pub use node::Member;

use crate::ids::{GroupId, Number, SessionId};
use crate::packet::Options;
use crate::slab::Slab;

/// Filters without wildcards that have changed and of which nobody has asked yet; where there are more, everything has changed.
const CHANGED_MAX: usize = 256;

/// How a session subscribed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Entry {
    /// Options.
    pub options: Options,
    /// The number that comes with each message.
    pub subscription: Option<u32>,
}

/// All subscriptions.
#[derive(Clone, Debug)]
pub struct Subscriptions {
    filters: Filters<Leaf>,
    groups: Slab<GroupId, Group>,
    /// By session and text of the filter.
    texts: BTreeMap<(SessionId, Box<str>), Entry>,
    /// How many each session has, and what their filters would take alone; see [`contract::filter_bytes`].
    held: Vec<(u32, usize)>,
    /// How long all filters are together.
    text_bytes: usize,
    /// What all may take of memory.
    bytes_max: usize,
    subscriptions_max: usize,
    generation: u64,
    changed: Vec<Box<str>>,
    /// Filters that were subscribed or given up, and of which nobody has asked yet whether they are wanted now.
    stirred: BTreeSet<Box<str>>,
}

/// Sessions that share one filter.
#[derive(Clone, Debug)]
struct Group {
    name: Box<str>,
    /// By session.
    members: Vec<Member>,
    /// Who was the last in turn.
    last: Option<SessionId>,
}

impl Subscriptions {
    /// No subscriptions, and room for so many.
    pub fn new(subscriptions_max: usize) -> Subscriptions {
        Subscriptions {
            filters: Filters::default(),
            groups: Slab::new(),
            texts: BTreeMap::new(),
            held: Vec::new(),
            text_bytes: 0,
            bytes_max: usize::MAX,
            subscriptions_max,
            generation: 0,
            changed: Vec::new(),
            stirred: BTreeSet::new(),
        }
    }

    /// The same, whose filters take no more than so many bytes of memory, about.
    #[must_use]
    pub fn within(self, bytes_max: usize) -> Subscriptions {
        Subscriptions { bytes_max, ..self }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// How many nodes they take, with the root.
    pub fn nodes(&self) -> usize {
        self.filters.nodes()
    }

    /// Another number after every change, except of a filter that means one topic, of which [`Subscriptions::take_changed`]
    /// tells: what was found with the same number is still true of all other topics.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// A topic of which something else is to be found now, whatever the generation says. `None`: there are no more.
    #[inline]
    pub fn take_changed(&mut self) -> Option<Box<str>> {
        self.changed.pop()
    }

    /// Whether there is any that somebody has subscribed or given up.
    #[inline]
    pub fn has_stirred(&self) -> bool {
        !self.stirred.is_empty()
    }

    /// A filter that somebody has subscribed or given up, and whether it is wanted now. `None`: there are no more.
    pub fn take_stirred(&mut self) -> Option<(Box<str>, bool)> {
        let filter = self.stirred.pop_first()?;
        let wanted = self.filters.get(&filter).is_some_and(|leaf| !Kept::is_empty(leaf));
        Some((filter, wanted))
    }

    /// A filter has other subscriptions than before.
    fn note_change(&mut self, filter: &str) {
        if filter.contains(['+', '#']) || self.changed.len() >= CHANGED_MAX {
            self.generation += 1;
            self.changed.clear();
        } else {
            self.changed.push(filter.into());
        }
    }

    /// Adds a subscription, or replaces the session's one with the same text. Says whether there was one.
    pub fn insert(&mut self, filter: &str, session: SessionId, entry: Entry) -> Result<bool, FilterError> {
        let parsed = parse_filter(filter)?;
        if parsed.group.is_some() && entry.options.no_local {
            return Err(FilterError::SharedNoLocal);
        }
        let before = self.get(filter, session);
        if before == Some(entry) {
            return Ok(true);
        }
        if before.is_none() {
            if self.texts.len() >= self.subscriptions_max {
                return Err(FilterError::Full(self.subscriptions_max));
            }
            let bytes = contract::filter_bytes(filter);
            let (needed, limit) = (self.bytes() + bytes, self.bytes_max);
            if needed > limit {
                return Err(FilterError::NoMemory { needed, limit });
            }
            if self.held.len() <= session.place() {
                self.held.resize(session.place() + 1, (0, 0));
            }
            match self.held.get_mut(session.place()) {
                Some((count, held)) => (*count, *held) = (*count + 1, *held + bytes),
                None => invariant!("a session that subscribes has a place"),
            }
            self.text_bytes += filter.len();
        }
        self.texts.insert((session, filter.into()), entry);
        self.note_change(parsed.filter);
        if before.is_none() {
            self.stirred.insert(parsed.filter.into());
        }
        let Subscriptions { filters, groups, .. } = self;
        filters.change(parsed.filter, |leaf| {
            let members = match parsed.group {
                None => &mut leaf.members,
                Some(name) => &mut group_of(leaf, groups, name).members,
            };
            match members.binary_search_by_key(&session, |member| member.session) {
                Ok(at) => members.get_mut(at).expect("invariant: just found").entry = entry,
                Err(at) => members.insert(at, Member { session, entry }),
            }
        });
        Ok(before.is_some())
    }

    /// Removes a subscription. Says whether there was one.
    pub fn remove(&mut self, filter: &str, session: SessionId) -> bool {
        if self.texts.remove(&(session, filter.into())).is_none() {
            return false;
        }
        match self.held.get_mut(session.place()) {
            Some((count, held)) => {
                (*count, *held) = (*count - 1, *held - contract::filter_bytes(filter));
            }
            None => invariant!("a session that subscribes has a place"),
        }
        self.text_bytes -= filter.len();
        let parsed = parse_filter(filter).expect("invariant: `texts` holds what was parsed");
        self.note_change(parsed.filter);
        self.stirred.insert(parsed.filter.into());
        let Subscriptions { filters, groups, .. } = self;
        filters.change(parsed.filter, |leaf| match parsed.group {
            None => leave(&mut leaf.members, session),
            Some(name) => leave_group(leaf, groups, name, session),
        });
        true
    }

    /// Removes all subscriptions of a session.
    pub fn remove_session(&mut self, session: SessionId) {
        while let Some((next, _)) = self.texts.range((session, Box::default())..).next()
            && next.0 == session
        {
            let next = next.clone();
            self.remove(&next.1, session);
        }
    }

    /// How many subscriptions a session has. One that has never had any has no place.
    pub fn held(&self, session: SessionId) -> usize {
        self.held.get(session.place()).map_or(0, |(count, _)| *count as usize)
    }

    /// What filters take of memory, about.
    pub fn bytes(&self) -> usize {
        self.filters.bytes() + contract::FILTER_TEXT_COPIES * self.text_bytes
    }

    /// What the filters of a session would take alone. One that has never had any has no place.
    pub fn bytes_of(&self, session: SessionId) -> usize {
        self.held.get(session.place()).map_or(0, |(_, bytes)| *bytes)
    }

    /// A session's subscriptions, by text.
    pub fn of_session(&self, session: SessionId) -> impl Iterator<Item = (&str, Entry)> {
        let texts = self.texts.range((session, Box::default())..);
        let own = texts.take_while(move |((of, _), _)| *of == session);
        own.map(|((_, text), entry)| (&**text, *entry))
    }

    /// The texts of a session's filters, in order.
    pub fn filters_of(&self, session: SessionId) -> impl Iterator<Item = &str> {
        self.of_session(session).map(|(text, _)| text)
    }

    /// A session's subscription with this text.
    pub fn get(&self, filter: &str, session: SessionId) -> Option<Entry> {
        self.texts.get(&(session, Box::from(filter))).copied()
    }

    /// Who wants messages of `topic`, a plain topic name.
    pub fn matches(&self, topic: &str, found: &mut Matches) {
        found.clear();
        self.filters.each(topic, |leaf| {
            found.add(&leaf.members);
            leaf.groups.iter().for_each(|group| found.add_group(*group));
        });
        found.merge();
    }

    /// Whose turn it is in a group, and how that one subscribed: the next one by number for which `alive` holds. `None`: it
    /// holds for nobody, or the group is gone.
    pub fn next_member(
        &mut self,
        group: GroupId,
        alive: impl Fn(SessionId) -> bool,
    ) -> Option<(SessionId, Entry)> {
        let group = self.groups.get_mut(group)?;
        let begin =
            group.last.map_or(0, |last| group.members.partition_point(|member| member.session <= last));
        let (before, after) = group.members.split_at(begin);
        let next = after.iter().chain(before).find(|member| alive(member.session))?;
        group.last = Some(next.session);
        Some((next.session, next.entry))
    }

    /// The members of a group that was found just now, by session.
    pub fn members(&self, group: GroupId) -> &[Member] {
        match self.groups.get(group) {
            Some(group) => &group.members,
            None => invariant!("a group that was found has members", &[]),
        }
    }
}

/// Where in a leaf's list of groups one is, or belongs.
fn find_group(leaf: &Leaf, groups: &Slab<GroupId, Group>, name: &str) -> Result<usize, usize> {
    let name_of =
        |group: GroupId| &*groups.get(group).expect("invariant: leaves know only groups that are there").name;
    leaf.groups.binary_search_by(|group| name_of(*group).cmp(name))
}

fn group_of<'a>(leaf: &mut Leaf, groups: &'a mut Slab<GroupId, Group>, name: &str) -> &'a mut Group {
    let number = match find_group(leaf, groups, name) {
        Ok(at) => *leaf.groups.get(at).expect("invariant: just found"),
        Err(at) => {
            let number = groups.insert(Group { name: name.into(), members: Vec::new(), last: None });
            leaf.groups.insert(at, number);
            number
        }
    };
    groups.get_mut(number).expect("invariant: leaves know only groups that are there")
}

fn leave_group(leaf: &mut Leaf, groups: &mut Slab<GroupId, Group>, name: &str, session: SessionId) {
    let at = find_group(leaf, groups, name).expect("invariant: groups of `texts` are in their leaves");
    let number = *leaf.groups.get(at).expect("invariant: just found");
    let group = groups.get_mut(number).expect("invariant: leaves know only groups that are there");
    leave(&mut group.members, session);
    if group.members.is_empty() {
        groups.remove(number);
        leaf.groups.remove(at);
    }
}

fn leave(members: &mut Vec<Member>, session: SessionId) {
    let at = members.binary_search_by_key(&session, |member| member.session);
    members.remove(at.expect("invariant: members are where `texts` says"));
    // Lists that were long once do not hold their memory for ever.
    if members.capacity() > 4 * members.len() {
        members.shrink_to(2 * members.len());
    }
}
