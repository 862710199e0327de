//! Who wants a topic.

use super::node::Member;
use crate::ids::{GroupId, SessionId};
use crate::packet::Qos;
use contract::invariant;

/// Who wants a topic. Used again and again, it stops allocating once it has grown.
#[derive(Clone, Debug, Default)]
pub struct Matches {
    members: Vec<Member>,
    /// How many lists the members are from; each is in order.
    lists: usize,
    rows: Vec<Row>,
    subscriptions: Vec<u32>,
    groups: Vec<GroupId>,
}

/// A session that wants a topic. Where several of its subscriptions do, they are one row: it gets the message once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// Which session.
    pub session: SessionId,
    /// How it wants messages of others.
    pub others: Want,
    /// How it wants its own messages: by those subscriptions that are not no-local. `None`: all are.
    pub own: Option<Want>,
}

/// How a message is wanted by the subscriptions of one session taken together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Want {
    /// The highest that any asks for.
    pub qos: Qos,
    /// Whether any asks for the retain flag as it was published.
    pub retain_as_published: bool,
    first: u32,
    count: u32,
}

impl Want {
    /// As one subscription does, whose number is kept elsewhere.
    pub fn of(options: &crate::packet::Options) -> Want {
        Want { qos: options.qos, retain_as_published: options.retain_as_published, first: 0, count: 0 }
    }
}

impl Matches {
    /// Sessions in order of their numbers, without those of groups.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The groups that each want it once, for [`Subscriptions::next_member`](super::Subscriptions::next_member).
    pub fn groups(&self) -> &[GroupId] {
        &self.groups
    }

    /// The numbers of the subscriptions behind a row of these matches. Two subscriptions with one number make it come twice.
    pub fn subscriptions(&self, want: &Want) -> &[u32] {
        let first = want.first as usize;
        let numbers = self.subscriptions.get(first..first + want.count as usize);
        numbers.unwrap_or_else(|| invariant!("the numbers behind a row are among all numbers", &[]))
    }

    /// Whether nobody wants it.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.groups.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.members.clear();
        self.lists = 0;
        self.rows.clear();
        self.subscriptions.clear();
        self.groups.clear();
    }

    pub(super) fn add(&mut self, members: &[Member]) {
        if !members.is_empty() {
            self.members.extend_from_slice(members);
            self.lists += 1;
        }
    }

    pub(super) fn add_group(&mut self, group: GroupId) {
        self.groups.push(group);
    }

    /// Makes rows of members.
    pub(super) fn merge(&mut self) {
        if self.lists > 1 {
            // What takes a session's own messages comes first, so that its numbers are the beginning of all numbers.
            self.members.sort_unstable_by_key(|member| {
                (member.session, member.entry.options.no_local, member.entry.subscription)
            });
        }
        for Member { session, entry } in &self.members {
            let first = u32::try_from(self.subscriptions.len());
            let first = first.unwrap_or_else(|_| invariant!("subscriptions are limited", u32::MAX));
            self.subscriptions.extend(entry.subscription);
            let (qos, retain_as_published) = (entry.options.qos, entry.options.retain_as_published);
            let count = u32::from(entry.subscription.is_some());
            let want = Want { qos, retain_as_published, first, count };
            let own = (!entry.options.no_local).then_some(want);
            match self.rows.last_mut() {
                Some(row) if row.session == *session => {
                    row.others.join(want);
                    match (&mut row.own, own) {
                        (Some(so_far), Some(own)) => so_far.join(own),
                        (None, own) => row.own = own,
                        (Some(_), None) => {}
                    }
                }
                _ => self.rows.push(Row { session: *session, others: want, own }),
            }
        }
    }
}

impl Want {
    fn join(&mut self, other: Want) {
        self.qos = self.qos.max(other.qos);
        self.retain_as_published |= other.retain_as_published;
        self.count += other.count;
    }
}
