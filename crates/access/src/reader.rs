//! Reading a user file: what it may hold, and everything that may be wrong with it.

use crate::access::{
    ANONYMOUS, Access, NAME_BYTES_MAX, Owner, Role, Rule, RuleSet, User, UserId, UserLimits, Verdict,
    check_user_name,
};
use crate::action::{Action, Actions};
use crate::password::{Cost, check_hash, decoy};
use crate::pattern::literal_len;
use crate::problem::Problem;
use crate::table::{Notes, Text};
use contract::TopicFilter;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The most users of one file.
pub const USERS_MAX: usize = 100_000;
/// The most roles of one file, and of one user.
pub const ROLES_MAX: usize = 4096;
/// The most rules of one user or role.
pub const RULES_MAX: usize = 1024;
/// The most topics of one rule.
pub const TOPICS_PER_RULE_MAX: usize = 1024;
/// The most problems that are told at once.
pub const PROBLEMS_MAX: usize = 100;

const USER_KEYS: &[&str] = &[
    "name",
    "password",
    "certificate",
    "roles",
    "connections",
    "messages_per_second",
    "bytes_per_second",
    "rule",
];
const ROLE_KEYS: &[&str] = &["name", "rule"];
const RULE_KEYS: &[&str] = &["allow", "deny", "topics"];
const ACTIONS: &str = "write one of \"publish\", \"subscribe\", \"contract\", \"admin\", or a list of them";

pub(crate) fn read(text: &str) -> Result<Access, Vec<Problem>> {
    let mut reader = Reader { notes: Notes::new(text, PROBLEMS_MAX), role_numbers: BTreeMap::new() };
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let message = format!("this is not TOML: {}", error.message());
        reader.notes.add(error.span().unwrap_or(0..0), message, "mend the syntax here");
    }
    let access = reader.file(table.get_ref());
    let problems = reader.notes.into_problems();
    if problems.is_empty() { Ok(access) } else { Err(problems) }
}

struct Reader<'t> {
    notes: Notes<'t>,
    /// The number of each role, with where its name is.
    role_numbers: BTreeMap<String, (u32, Range<usize>)>,
}

impl Reader<'_> {
    fn file(&mut self, table: &DeTable<'_>) -> Access {
        let (mut user_tables, mut role_tables) = (Vec::new(), Vec::new());
        for (key, value) in table {
            match &**key.get_ref() {
                "user" => user_tables = self.notes.tables("user", value),
                "role" => role_tables = self.notes.tables("role", value),
                other => self.notes.unknown(other, key.span(), &["[[user]]", "[[role]]"]),
            }
        }
        self.too_many("users", &mut user_tables, USERS_MAX);
        self.too_many("roles", &mut role_tables, ROLES_MAX);
        let roles = (0..).zip(role_tables).map(|(number, (span, table))| self.role(number, span, table));
        let mut access = Access {
            roles: roles.collect(),
            users: Vec::new(),
            names: BTreeMap::new(),
            certificates: BTreeMap::new(),
            decoy: "".into(),
            open: false,
        };
        let mut names = BTreeMap::new();
        let mut certificates = BTreeMap::new();
        let mut cost = None;
        for (id, (span, table)) in (0..).map(UserId).zip(user_tables) {
            let user = self.user(id, span, table, &mut names, &mut certificates);
            let of_user = user.password().and_then(|hash| check_hash(hash).ok());
            cost = cost.max(of_user);
            access.names.insert(user.name.clone(), id);
            access.certificates.extend(user.certificate.iter().map(|name| (name.clone(), id)));
            access.users.push(user);
        }
        access.decoy = decoy(cost.unwrap_or(Cost::DEFAULT)).into();
        access
    }

    fn too_many<T>(&mut self, what: &str, items: &mut Vec<(Range<usize>, T)>, max: usize) {
        if let Some((span, _)) = items.get(max) {
            let message = format!("{} {what} are above the limit of {max}", items.len());
            self.notes.add(span.clone(), message, "remove what is not needed");
            items.truncate(max);
        }
    }

    fn role(&mut self, number: u32, span: Range<usize>, table: &DeTable<'_>) -> Role {
        let mut name = None;
        let mut rules = RuleSet::default();
        for (key, value) in table {
            match &**key.get_ref() {
                "name" => name = self.notes.text("name", value),
                "rule" => rules = self.rules("role.rule", Owner::Role(number), value),
                other => self.notes.unknown(other, key.span(), ROLE_KEYS),
            }
        }
        let Some(name) = self.named(name, span, "role") else {
            return Role { name: "".into(), rules };
        };
        match self.role_numbers.get(&name.text) {
            Some((_, first)) => {
                let line = self.notes.place(first).line;
                let message = format!("there is a role `{}` already, in line {line}", name.text);
                self.notes.add(name.span, message, "give each role one name");
            }
            None => {
                self.role_numbers.insert(name.text.clone(), (number, name.span));
            }
        }
        Role { name: name.text.into(), rules }
    }

    fn named(&mut self, name: Option<Text>, span: Range<usize>, what: &str) -> Option<Text> {
        let Some(name) = name else {
            self.notes.add(span, format!("this {what} has no name"), "write name = \"...\"");
            return None;
        };
        if let Err(why) = check_user_name(&name.text) {
            let remedy = "use letters, digits, `-`, `_`, `.`, `@`: no space, `/`, `+`, `#`, `%`, `$`";
            self.notes.add(name.span.clone(), why, remedy);
        }
        Some(name)
    }

    fn user(
        &mut self,
        id: UserId,
        span: Range<usize>,
        table: &DeTable<'_>,
        names: &mut BTreeMap<String, Range<usize>>,
        certificates: &mut BTreeMap<String, Range<usize>>,
    ) -> User {
        let (mut name, mut password, mut certificate, mut roles) = (None, None, None, Vec::new());
        let (mut limits, mut rules) = (UserLimits::default(), RuleSet::default());
        for (key, value) in table {
            match &**key.get_ref() {
                "name" => name = self.notes.text("name", value),
                "password" => password = self.notes.text("password", value),
                "certificate" => certificate = self.notes.text("certificate", value),
                "roles" => roles = self.notes.texts("roles", value),
                "connections" => {
                    let number = self.notes.number("connections", value, u32::MAX.into());
                    limits.connections = number.and_then(|number| u32::try_from(number).ok());
                }
                "messages_per_second" => {
                    limits.messages_per_second = self.notes.number("messages_per_second", value, RATE_MAX);
                }
                "bytes_per_second" => {
                    limits.bytes_per_second = self.notes.number("bytes_per_second", value, RATE_MAX);
                }
                "rule" => rules = self.rules("user.rule", Owner::User(id), value),
                other => self.notes.unknown(other, key.span(), USER_KEYS),
            }
        }
        let name = self.named(name, span, "user");
        if let Some(name) = &name {
            self.once(names, name, "user");
            self.not_anonymous(name, password.as_ref().or(certificate.as_ref()));
        }
        if let Some(certificate) = &certificate {
            self.certificate(certificates, certificate);
        }
        if let Some(password) = &password
            && let Err(error) = check_hash(&password.text)
        {
            let remedy = "set a new one with `verge user passwd`";
            self.notes.add(password.span.clone(), error.to_string(), remedy);
        }
        let roles = self.known_roles(roles);
        let boxed = |text: Option<Text>| text.map(|text| text.text.into_boxed_str());
        User {
            name: boxed(name).unwrap_or_default(),
            password: boxed(password),
            certificate: boxed(certificate),
            roles,
            limits,
            rules,
        }
    }

    /// Notes a name that stands there a second time.
    fn once(&mut self, seen: &mut BTreeMap<String, Range<usize>>, name: &Text, what: &str) {
        match seen.get(&name.text) {
            Some(first) => {
                let line = self.notes.place(first).line;
                let message = format!("there is a {what} `{}` already, in line {line}", name.text);
                self.notes.add(name.span.clone(), message, format!("give each {what} one name"));
            }
            None => {
                seen.insert(name.text.clone(), name.span.clone());
            }
        }
    }

    fn not_anonymous(&mut self, name: &Text, login: Option<&Text>) {
        if let Some(login) = login.filter(|_| name.text == ANONYMOUS) {
            let message = "`anonymous` is who does not log in: it has neither password nor certificate";
            self.notes.add(login.span.clone(), message, "remove this, or choose another name");
        }
    }

    fn certificate(&mut self, seen: &mut BTreeMap<String, Range<usize>>, certificate: &Text) {
        if certificate.text.is_empty() || certificate.text.len() > NAME_BYTES_MAX {
            let message = format!("a common name has 1 to {NAME_BYTES_MAX} bytes");
            let remedy = "write the common name (CN) of the certificate's subject, or leave the key out";
            self.notes.add(certificate.span.clone(), message, remedy);
        }
        if let Some(first) = seen.get(&certificate.text) {
            let line = self.notes.place(first).line;
            let message = format!("`{}` already means the user of line {line}", certificate.text);
            self.notes.add(certificate.span.clone(), message, "a certificate means one user");
        }
        seen.insert(certificate.text.clone(), certificate.span.clone());
    }

    fn known_roles(&mut self, names: Vec<Text>) -> Box<[u32]> {
        let mut numbers: Vec<u32> = Vec::new();
        for name in names {
            match self.role_numbers.get(&name.text) {
                Some((number, _)) if numbers.contains(number) => {}
                Some((number, _)) => numbers.push(*number),
                None => {
                    let remedy = match self.role_numbers.is_empty() {
                        true => "this file has no [[role]] yet: add one with this name".to_owned(),
                        false => {
                            let known: Vec<&str> =
                                self.role_numbers.keys().take(10).map(String::as_str).collect();
                            format!("the roles are: {}", known.join(", "))
                        }
                    };
                    self.notes.add(name.span, format!("there is no role `{}`", name.text), remedy);
                }
            }
        }
        numbers.into()
    }

    fn rules(&mut self, section: &str, owner: Owner, value: &Spanned<DeValue<'_>>) -> RuleSet {
        let mut set = RuleSet::default();
        let mut tables = self.notes.tables(section, value);
        self.too_many("rules", &mut tables, RULES_MAX);
        for (span, table) in tables {
            self.rule(owner, span, table, &mut set);
        }
        set
    }

    fn rule(&mut self, owner: Owner, span: Range<usize>, table: &DeTable<'_>, set: &mut RuleSet) {
        let (mut allow, mut deny, mut topics) = (None, None, None);
        for (key, value) in table {
            match &**key.get_ref() {
                "allow" => allow = Some(self.actions("allow", value)),
                "deny" => deny = Some(self.actions("deny", value)),
                "topics" => topics = Some((self.notes.texts("topics", value), value.span())),
                other => self.notes.unknown(other, key.span(), RULE_KEYS),
            }
        }
        let (verdict, actions) = match (allow, deny) {
            (Some(actions), None) => (Verdict::Allow, actions),
            (None, Some(actions)) => (Verdict::Deny, actions),
            (None, None) => {
                self.notes.add(
                    span,
                    "this rule neither allows nor denies",
                    "write allow = or deny = and an action",
                );
                return;
            }
            (Some(_), Some(_)) => {
                self.notes.add(span, "this rule both allows and denies", "make two rules of it");
                return;
            }
        };
        let only_admin = actions == Actions::default().with(Action::Admin);
        let topics = match topics {
            Some((topics, at)) if topics.is_empty() => {
                self.notes.add(
                    at,
                    "this rule is about no topic",
                    "name at least one, such as \"plant/%u/#\"",
                );
                return;
            }
            Some((topics, _)) => topics,
            None if only_admin => vec![Text { text: "#".to_owned(), span }],
            None => {
                self.notes.add(span, "this rule has no topics", "write topics = [\"plant/%u/#\"]");
                return;
            }
        };
        if let Some(extra) = topics.get(TOPICS_PER_RULE_MAX) {
            let message = format!("a rule has at most {TOPICS_PER_RULE_MAX} topics");
            self.notes.add(extra.span.clone(), message, "make two rules of it, or use wildcards");
            return;
        }
        for topic in topics {
            let place = self.notes.place(&topic.span);
            if let Some(pattern) = self.pattern(&topic) {
                let literal = literal_len(pattern.as_str());
                let rule = Rule { verdict, actions, pattern, literal, owner, place };
                match verdict {
                    Verdict::Allow => set.allow.push(rule),
                    Verdict::Deny => set.deny.push(rule),
                }
            }
        }
    }

    fn actions(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Actions {
        let texts = self.notes.texts(key, value);
        if texts.is_empty() && value.get_ref().as_array().is_some_and(|items| items.is_empty()) {
            self.notes.add(value.span(), "this rule is about no action", ACTIONS);
        }
        texts.iter().fold(Actions::default(), |actions, text| match text.text.parse() {
            Ok(action) => actions.with(action),
            Err(why) => {
                self.notes.add(text.span.clone(), why, ACTIONS);
                actions
            }
        })
    }

    fn pattern(&mut self, topic: &Text) -> Option<TopicFilter> {
        let placeholder = |level: &str| level.len() > 2 && (level.contains("%u") || level.contains("%c"));
        if topic.text.split('/').any(placeholder) {
            let message = format!("`{}`: `%u` and `%c` stand alone in their level", topic.text);
            self.notes.add(topic.span.clone(), message, "write for example \"plant/%u/#\"");
            return None;
        }
        if topic.text.starts_with("$share/") {
            let message = format!("`{}`: rules do not name the group of a shared subscription", topic.text);
            self.notes.add(topic.span.clone(), message, "leave out `$share/` and the group");
            return None;
        }
        match topic.text.parse() {
            Ok(filter) => Some(filter),
            Err(error) => {
                let remedy = "write a topic filter, such as \"plant/+/speed\" or \"plant/#\"";
                self.notes.add(topic.span.clone(), error.to_string(), remedy);
                None
            }
        }
    }
}

/// The highest rate that may be configured.
const RATE_MAX: u64 = 1_000_000_000_000;

#[cfg(test)]
mod tests;
