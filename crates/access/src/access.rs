//! The contents of a user file, and the question that it answers.

use crate::action::{Action, Actions};
use crate::caller::Caller;
use crate::pattern::{asked_filter, asked_name, covers, is_wild, overlaps};
use crate::problem::{Place, Problem};
use contract::TopicFilter;
use std::collections::BTreeMap;
use std::fmt;

/// The name of the user that applies where nobody logs in.
pub const ANONYMOUS: &str = "anonymous";
/// The longest name of a user or a role, and the longest subject of a certificate, in bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// A user, by its number in one [`Access`]. Another one, read anew, has other numbers: look up by name again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct UserId(pub u32);

/// Somebody who may connect.
#[derive(Clone, PartialEq, Debug)]
pub struct User {
    pub(crate) name: Box<str>,
    pub(crate) password: Option<Box<str>>,
    pub(crate) certificate: Option<Box<str>>,
    pub(crate) roles: Box<[u32]>,
    pub(crate) limits: UserLimits,
    pub(crate) rules: RuleSet,
}

impl User {
    /// The name: one plain level of a topic.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The hash of the password. Without one, nobody logs in by password as this user.
    pub fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// The common name of the certificates that mean this user.
    pub fn certificate(&self) -> Option<&str> {
        self.certificate.as_deref()
    }

    /// How much all connections of this user together may do.
    pub fn limits(&self) -> UserLimits {
        self.limits
    }
}

/// How much a user may do. `None` stands for no limit of the user's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UserLimits {
    /// Connections at the same time.
    pub connections: Option<u32>,
    /// Messages published in a second.
    pub messages_per_second: Option<u64>,
    /// Bytes of payload published in a second.
    pub bytes_per_second: Option<u64>,
}

/// Whether a rule allows or denies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It allows.
    Allow,
    /// It denies, whatever others allow.
    Deny,
}

/// Whose rule it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// A user's own.
    User(UserId),
    /// A role's, by its number in the file.
    Role(u32),
}

/// A rule about one pattern. A rule in the file with several topics becomes several of these.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    pub(crate) verdict: Verdict,
    pub(crate) actions: Actions,
    pub(crate) pattern: TopicFilter,
    /// See [`crate::pattern::literal_len`].
    pub(crate) literal: usize,
    pub(crate) owner: Owner,
    pub(crate) place: Place,
}

impl Rule {
    /// Whether it allows or denies.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// What it is about.
    pub fn actions(&self) -> Actions {
        self.actions
    }

    /// Which topics it is about, with `%u` and `%c` as written.
    pub fn pattern(&self) -> &str {
        self.pattern.as_str()
    }

    /// Whose it is.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// Whether something begins as all that the pattern covers does.
    fn begins(&self, asked: &str) -> bool {
        asked.as_bytes().starts_with(&self.pattern.as_str().as_bytes()[..self.literal])
    }

    /// Where its pattern is in the file.
    pub fn place(&self) -> Place {
        self.place
    }
}

/// Rules of one user or role: what denies apart from what allows, as it is looked at first.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct RuleSet {
    pub deny: Vec<Rule>,
    pub allow: Vec<Rule>,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Role {
    pub name: Box<str>,
    pub rules: RuleSet,
}

/// Whether something is allowed, and why.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Judgement<'a> {
    /// Whether it is allowed.
    pub allowed: bool,
    /// Why.
    pub because: Because<'a>,
}

/// Why something is allowed or not.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Because<'a> {
    /// This rule says so.
    Rule(&'a Rule),
    /// No rule allows it.
    NoRule,
    /// What was asked for is no topic, or no filter where one may be.
    NotATopic,
    /// There is no such user.
    NoUser,
    /// There is no user file, so that everything is allowed.
    Open,
}

/// What a password is checked against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Challenge<'a> {
    /// Who it would be. Without somebody the answer is no, whatever the check says.
    pub user: Option<UserId>,
    /// The hash to check against. For unknown users it is as expensive as those of the others, and fits no password.
    pub hash: &'a str,
}

/// Who may do what.
#[derive(Clone, PartialEq, Debug)]
pub struct Access {
    pub(crate) users: Vec<User>,
    pub(crate) roles: Vec<Role>,
    pub(crate) names: BTreeMap<Box<str>, UserId>,
    pub(crate) certificates: BTreeMap<Box<str>, UserId>,
    pub(crate) decoy: Box<str>,
    pub(crate) open: bool,
}

impl Access {
    /// Reads a user file, or says everything that is wrong with it.
    pub fn parse(text: &str) -> Result<Access, Vec<Problem>> {
        crate::reader::read(text)
    }

    /// What holds without a user file: everybody is `anonymous` and may do everything.
    pub fn open() -> Access {
        let mut access = crate::reader::read("[[user]]\nname = \"anonymous\"\n").unwrap_or_else(|problems| {
            unreachable!("invariant: the text above is a user file: {problems:?}");
        });
        access.open = true;
        access
    }

    /// Whether there is no user file.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// The user of this name. `anonymous` is one of them where the file has it.
    pub fn user(&self, name: &str) -> Option<UserId> {
        self.names.get(name).copied()
    }

    /// The user whom certificates with this common name mean.
    pub fn by_certificate(&self, common_name: &str) -> Option<UserId> {
        self.certificates.get(common_name).copied()
    }

    /// Who somebody is that does not log in. `None`: nobody may connect without logging in.
    pub fn anonymous(&self) -> Option<UserId> {
        self.user(ANONYMOUS)
    }

    /// What to check a password against that was given for this name.
    pub fn challenge(&self, name: &str) -> Challenge<'_> {
        let known = self.user(name).and_then(|id| Some((id, self.get(id)?.password()?)));
        match known {
            Some((id, hash)) => Challenge { user: Some(id), hash },
            None => Challenge { user: None, hash: &self.decoy },
        }
    }

    /// What is known of a user. `None` for a number of another file.
    pub fn get(&self, user: UserId) -> Option<&User> {
        self.users.get(user.0 as usize)
    }

    /// All users, in the order of the file.
    pub fn users(&self) -> impl Iterator<Item = (UserId, &User)> {
        (0..).map(UserId).zip(&self.users)
    }

    /// The names of a user's roles.
    pub fn roles(&self, user: UserId) -> impl Iterator<Item = &str> {
        self.roles_of(user).map(|role| &*role.name)
    }

    /// The name of a rule's owner, as in ``role `sensor` ``.
    pub fn owner(&self, rule: &Rule) -> impl fmt::Display {
        match rule.owner {
            Owner::User(id) => format!("user `{}`", self.get(id).map_or("", User::name)),
            Owner::Role(index) => {
                format!("role `{}`", self.roles.get(index as usize).map_or("", |role| &*role.name))
            }
        }
    }

    /// Whether a user may do something, as this client; if not, why, with the rule that denies it, and a remedy. See [`Access::allows`].
    pub fn check(&self, user: &str, client: &str, action: Action, what: &str) -> Result<(), String> {
        let judgement = match self.user(user) {
            Some(id) => self.allows(id, client, action, what),
            None => Judgement { allowed: false, because: Because::NoUser },
        };
        if judgement.allowed {
            return Ok(());
        }
        let ask = format!("see `verge acl test {user} {what} {action}`");
        Err(match judgement.because {
            Because::Rule(rule) => {
                format!(
                    "line {} of the user file ({}) denies `{action}` on `{what}` to user `{user}`; {ask}",
                    rule.place().line,
                    self.owner(rule)
                )
            }
            Because::NotATopic => format!("`{what}` is no topic or filter"),
            Because::NoUser => {
                format!("the user file has no user `{user}` any more; add it, and log in again")
            }
            Because::NoRule | Because::Open => format!(
                "no rule in the user file allows `{action}` on `{what}` to user `{user}`; add one, and {ask}"
            ),
        })
    }

    /// Whether a user with this client id may do this. `topic` is a topic to publish on, a filter to subscribe to (with or
    /// without `$share/group/`), a topic or filter to state a contract for, or what to do to a broker.
    ///
    /// What a rule denies stays denied whatever others allow: for a filter, a rule that denies any topic that it means. What
    /// no rule allows is denied: for a filter, one rule has to allow all topics that it means. Allocates nothing.
    pub fn allows(&self, user: UserId, client: &str, action: Action, topic: &str) -> Judgement<'_> {
        let denied = |because| Judgement { allowed: false, because };
        if self.open {
            return Judgement { allowed: true, because: Because::Open };
        }
        let Some(who) = self.get(user) else { return denied(Because::NoUser) };
        let asked = match action {
            Action::Publish | Action::Admin => asked_name(topic),
            Action::Subscribe | Action::Contract => asked_filter(topic),
        };
        let Some(asked) = asked else { return denied(Because::NotATopic) };
        let caller = Caller { user: &who.name, client };
        let sets = || std::iter::once(&who.rules).chain(self.roles_of(user).map(|role| &role.rules));
        let wild = is_wild(asked);
        let denies = |rule: &&Rule| {
            let near = rule.actions.has(action) && (wild || rule.begins(asked));
            near && overlaps(rule.pattern.as_str(), asked, caller)
        };
        if let Some(rule) = sets().flat_map(|set| &set.deny).find(denies) {
            return denied(Because::Rule(rule));
        }
        let allows = |rule: &&Rule| {
            let near = rule.actions.has(action) && rule.begins(asked);
            near && covers(rule.pattern.as_str(), asked, caller)
        };
        match sets().flat_map(|set| &set.allow).find(allows) {
            Some(rule) => Judgement { allowed: true, because: Because::Rule(rule) },
            None => denied(Because::NoRule),
        }
    }

    fn roles_of(&self, user: UserId) -> impl Iterator<Item = &Role> {
        let roles: &[u32] = self.get(user).map_or(&[], |user| &user.roles);
        roles.iter().filter_map(|role| self.roles.get(*role as usize))
    }
}

/// Why a text cannot be the name of a user, if so. A name stands for `%u` in rules, where it has to be one plain level.
pub fn check_user_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("a name needs at least one character".to_owned());
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("a name of {} bytes is above the limit of {NAME_BYTES_MAX}", name.len()));
    }
    let unfit = |letter: &char| {
        letter.is_control() || letter.is_whitespace() || ['/', '+', '#', '%', '$'].contains(letter)
    };
    match name.chars().find(unfit) {
        Some(letter) => Err(format!("a name cannot hold {letter:?}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
