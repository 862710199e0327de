//! Which subscriptions a topic has.
//!
//! The problem: a message comes, and among a hundred thousand filters those that mean its topic are wanted within a
//! microsecond. The idea: a tree over the levels of filters. From each node a topic goes on to at most two children, the one
//! with its next level and the one for `+`. The time depends on the depth of the topic and on how many wildcards filters
//! have, not on how many filters there are; at worst, with filters made for it, every node is seen once.
//!
//! Invariants: every node but the root leads to a subscription, and a session has one subscription for each text of a
//! filter. Order of insertion does not show in what comes out.
//!
//! Left to the gateway: who may subscribe, limits per session, and that a message goes to one member of each group.

mod filter;
mod matches;
mod node;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use contract::TOPIC_LEVELS_MAX;

pub use filter::{Filter, FilterError, parse_filter};
pub use matches::{Matches, Row, Want};
pub use node::Member;
use node::{Level, Node, Share};

use crate::packet::Options;
use crate::slab::Slab;

/// One level more than filters have: a topic's further levels make no difference.
const LEVELS_SEEN: usize = TOPIC_LEVELS_MAX + 1;

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
    nodes: Slab<Node>,
    root: u32,
    groups: Slab<Group>,
    /// Texts of filters by session.
    texts: BTreeSet<(u32, Box<str>)>,
    subscriptions_max: usize,
    generation: u64,
}

/// Sessions that share one filter.
#[derive(Clone, Debug)]
struct Group {
    name: Box<str>,
    /// By session.
    members: Vec<Member>,
    /// Who was the last in turn.
    last: Option<u32>,
}

/// Where a filter's subscriptions are.
#[derive(Clone, Copy)]
struct Place {
    node: u32,
    below: bool,
}

impl Subscriptions {
    /// No subscriptions, and room for so many.
    pub fn new(subscriptions_max: usize) -> Subscriptions {
        let mut nodes = Slab::new();
        let root = nodes.insert(Node::default());
        let (groups, texts) = (Slab::new(), BTreeSet::new());
        Subscriptions { nodes, root, groups, texts, subscriptions_max, generation: 0 }
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
        self.nodes.len()
    }

    /// Another number after every change: what was found with the same number is still true.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Adds a subscription, or replaces the session's one with the same text. Says whether there was one.
    pub fn insert(&mut self, filter: &str, session: u32, entry: Entry) -> Result<bool, FilterError> {
        let parsed = parse_filter(filter)?;
        if parsed.group.is_some() && entry.options.no_local {
            return Err(FilterError::SharedNoLocal);
        }
        let before = self.entry(parsed, session);
        if before == Some(entry) {
            return Ok(true);
        }
        if before.is_none() {
            if self.texts.len() >= self.subscriptions_max {
                return Err(FilterError::Full(self.subscriptions_max));
            }
            self.texts.insert((session, filter.into()));
        }
        self.generation += 1;
        let place = self.grow(parsed.filter);
        let members = match parsed.group {
            None => self.node_mut(place.node).members_mut(place.below),
            Some(name) => {
                let group = self.grow_group(place, name);
                &mut self.group_mut(group).members
            }
        };
        match members.binary_search_by_key(&session, |member| member.session) {
            Ok(at) => members.get_mut(at).expect("invariant: just found").entry = entry,
            Err(at) => members.insert(at, Member { session, entry }),
        }
        Ok(before.is_some())
    }

    /// Removes a subscription. Says whether there was one.
    pub fn remove(&mut self, filter: &str, session: u32) -> bool {
        if !self.texts.remove(&(session, filter.into())) {
            return false;
        }
        self.generation += 1;
        self.uproot(filter, session);
        true
    }

    /// Removes all subscriptions of a session.
    pub fn remove_session(&mut self, session: u32) {
        while let Some(next) = self.texts.range((session, Box::default())..).next()
            && next.0 == session
        {
            let next = next.clone();
            self.remove(&next.1, session);
        }
    }

    /// A session's subscriptions, by text.
    pub fn of_session(&self, session: u32) -> impl Iterator<Item = (&str, Entry)> {
        self.filters_of(session).filter_map(move |text| Some((text, self.get(text, session)?)))
    }

    /// The texts of a session's filters, in order.
    pub fn filters_of(&self, session: u32) -> impl Iterator<Item = &str> {
        let texts = self.texts.range((session, Box::default())..);
        texts.take_while(move |(of, _)| *of == session).map(|(_, text)| &**text)
    }

    /// A session's subscription with this text.
    pub fn get(&self, filter: &str, session: u32) -> Option<Entry> {
        self.entry(parse_filter(filter).ok()?, session)
    }

    /// Who wants messages of `topic`, a plain topic name.
    pub fn matches(&self, topic: &str, found: &mut Matches) {
        found.clear();
        let mut levels = [(0, ""); LEVELS_SEEN];
        let mut count = 0;
        for (slot, level) in levels.iter_mut().zip(topic.split('/')) {
            *slot = (node::hash(level), level);
            count += 1;
        }
        let levels = levels.get(..count).unwrap_or_default();
        if !topic.starts_with('$') {
            self.collect(self.root, levels, found);
        } else if let Some((first, rest)) = levels.split_first()
            // The broker's own topics are not meant by wildcards at the beginning.
            && let Some(child) = self.node(self.root).children.get(&Level::hashed(first.0, first.1))
        {
            self.collect(child, rest, found);
        }
        found.merge();
    }

    /// Whose turn it is in a group, and how that one subscribed: the next one by number for which `alive` holds. `None`: it
    /// holds for nobody, or the group is gone.
    pub fn next_member(&mut self, group: u32, alive: impl Fn(u32) -> bool) -> Option<(u32, Entry)> {
        let group = self.groups.get_mut(group)?;
        let begin =
            group.last.map_or(0, |last| group.members.partition_point(|member| member.session <= last));
        let (before, after) = group.members.split_at(begin);
        let next = after.iter().chain(before).find(|member| alive(member.session))?;
        group.last = Some(next.session);
        Some((next.session, next.entry))
    }

    /// The members of a group, by session.
    pub fn members(&self, group: u32) -> &[Member] {
        self.groups.get(group).map_or(&[], |group| &group.members)
    }

    /// Calls itself for `+` only: as deep as filters are, which is [`TOPIC_LEVELS_MAX`].
    fn collect(&self, from: u32, levels: &[(u64, &str)], found: &mut Matches) {
        let (mut node, mut levels) = (self.node(from), levels);
        loop {
            let ends = levels.is_empty();
            found.add(&node.below);
            if ends {
                found.add(&node.here);
            }
            for share in node.shares.iter().filter(|share| ends || share.below) {
                found.add_group(share.group);
            }
            let Some((next, rest)) = levels.split_first() else { return };
            let literal = node.children.get(&Level::hashed(next.0, next.1));
            match (node.plus, literal) {
                (Some(plus), Some(literal)) => {
                    self.collect(plus, rest, found);
                    node = self.node(literal);
                }
                (Some(only), None) | (None, Some(only)) => node = self.node(only),
                (None, None) => return,
            }
            levels = rest;
        }
    }

    fn entry(&self, filter: Filter<'_>, session: u32) -> Option<Entry> {
        let place = self.find(filter.filter)?;
        let node = self.node(place.node);
        let members = match filter.group {
            None => node.members(place.below),
            Some(name) => {
                let at = self.find_group(node, name, place.below).ok()?;
                &self.groups.get(node.shares.get(at)?.group)?.members
            }
        };
        let at = members.binary_search_by_key(&session, |member| member.session).ok()?;
        members.get(at).map(|member| member.entry)
    }

    fn find(&self, filter: &str) -> Option<Place> {
        let mut node = self.root;
        for level in filter.split('/') {
            node = match level {
                "#" => return Some(Place { node, below: true }),
                level => self.child(node, level)?,
            };
        }
        Some(Place { node, below: false })
    }

    fn child(&self, node: u32, level: &str) -> Option<u32> {
        let node = self.node(node);
        if level == "+" { node.plus } else { node.children.get(&Level::new(level)) }
    }

    /// Where in a node's list of groups one is, or belongs.
    fn find_group(&self, node: &Node, name: &str, below: bool) -> Result<usize, usize> {
        node.shares.binary_search_by(|share| {
            (self.group(share.group).name.as_ref(), share.below).cmp(&(name, below))
        })
    }

    fn grow(&mut self, filter: &str) -> Place {
        let mut node = self.root;
        for level in filter.split('/') {
            if level == "#" {
                return Place { node, below: true };
            }
            node = self.child(node, level).unwrap_or_else(|| {
                let child = self.nodes.insert(Node::default());
                let node = self.node_mut(node);
                if level == "+" {
                    node.plus = Some(child);
                } else {
                    node.children.insert(&Level::new(level), child);
                }
                child
            });
        }
        Place { node, below: false }
    }

    fn grow_group(&mut self, place: Place, name: &str) -> u32 {
        let node = self.node(place.node);
        match self.find_group(node, name, place.below) {
            Ok(at) => node.shares.get(at).expect("invariant: just found").group,
            Err(at) => {
                let group = self.groups.insert(Group { name: name.into(), members: Vec::new(), last: None });
                self.node_mut(place.node).shares.insert(at, Share { group, below: place.below });
                group
            }
        }
    }

    /// Takes a subscription out of its node, and the nodes away that lead nowhere now.
    fn uproot(&mut self, text: &str, session: u32) {
        let filter = parse_filter(text).expect("invariant: `texts` holds what was parsed");
        let (mut path, mut node, mut below) = (Vec::new(), self.root, false);
        for level in filter.filter.split('/') {
            if level == "#" {
                below = true;
                break;
            }
            path.push((node, level));
            node = self.child(node, level).expect("invariant: a path leads to each of `texts`");
        }
        let place = Place { node, below };
        match filter.group {
            None => leave(self.node_mut(node).members_mut(below), session),
            Some(name) => self.leave_group(place, name, session),
        }
        while self.node(node).is_empty()
            && let Some((parent, level)) = path.pop()
        {
            self.nodes.remove(node);
            let parent_node = self.node_mut(parent);
            if level == "+" {
                parent_node.plus = None;
            } else {
                parent_node.children.remove(&Level::new(level));
            }
            node = parent;
        }
    }

    fn leave_group(&mut self, place: Place, name: &str, session: u32) {
        let node = self.node(place.node);
        let at = self
            .find_group(node, name, place.below)
            .expect("invariant: groups of `texts` are in their nodes");
        let number = node.shares.get(at).expect("invariant: just found").group;
        let group = self.group_mut(number);
        leave(&mut group.members, session);
        if group.members.is_empty() {
            self.groups.remove(number);
            self.node_mut(place.node).shares.remove(at);
        }
    }

    fn node(&self, number: u32) -> &Node {
        self.nodes.get(number).expect("invariant: parents know only nodes that are there")
    }

    fn node_mut(&mut self, number: u32) -> &mut Node {
        self.nodes.get_mut(number).expect("invariant: parents know only nodes that are there")
    }

    fn group(&self, number: u32) -> &Group {
        self.groups.get(number).expect("invariant: nodes know only groups that are there")
    }

    fn group_mut(&mut self, number: u32) -> &mut Group {
        self.groups.get_mut(number).expect("invariant: nodes know only groups that are there")
    }
}

fn leave(members: &mut Vec<Member>, session: u32) {
    let at = members.binary_search_by_key(&session, |member| member.session);
    members.remove(at.expect("invariant: members are where `texts` says"));
    // Lists that were long once do not hold their memory for ever.
    if members.capacity() > 4 * members.len() {
        members.shrink_to(2 * members.len());
    }
}
