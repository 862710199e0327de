//! What somebody may want to do.

use std::fmt;
use std::str::FromStr;

/// What somebody wants to do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Action {
    /// Send messages on a topic.
    Publish,
    /// Receive the messages of a filter.
    Subscribe,
    /// State a contract of one's own for a topic.
    Contract,
    /// Manage a broker. The topic is what is to be done, such as `status` or `handover`.
    Admin,
}

impl Action {
    /// All of them.
    pub const ALL: [Action; 4] = [Action::Publish, Action::Subscribe, Action::Contract, Action::Admin];

    /// The word for it in user files.
    pub fn name(self) -> &'static str {
        match self {
            Action::Publish => "publish",
            Action::Subscribe => "subscribe",
            Action::Contract => "contract",
            Action::Admin => "admin",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Action {
    type Err = String;

    fn from_str(name: &str) -> Result<Action, String> {
        let found = Action::ALL.into_iter().find(|action| action.name() == name);
        found.ok_or_else(|| format!("`{name}` is no action: they are publish, subscribe, contract and admin"))
    }
}

/// Some of the actions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Actions(u8);

impl Actions {
    /// These and one more.
    #[must_use]
    pub fn with(self, action: Action) -> Actions {
        Actions(self.0 | 1 << action as u8)
    }

    /// Whether one is among them.
    pub fn has(self, action: Action) -> bool {
        self.0 & 1 << action as u8 != 0
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Action> {
        Action::ALL.into_iter().filter(move |action| self.has(*action))
    }
}
