//! What is kept for a filter.

use super::Entry;
use crate::ids::{GroupId, SessionId};
use contract::Kept;

/// A session and its subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Whose.
    pub session: SessionId,
    /// How it subscribed.
    pub entry: Entry,
}

/// Who wants what a filter means.
#[derive(Clone, Debug, Default)]
pub(super) struct Leaf {
    /// By session.
    pub members: Vec<Member>,
    /// Groups, by name.
    pub groups: Vec<GroupId>,
}

impl Kept for Leaf {
    fn is_empty(&self) -> bool {
        self.members.is_empty() && self.groups.is_empty()
    }
}
