//! What keys may hold, and which there are. The keys themselves are in `keys.rs`: the reference `docs/configuration.md`,
//! `verge config default` and the check for unknown keys all come from there.

use crate::keys;
pub(crate) use crate::keys::KEYS;
use contract::Span;

/// What a key may hold.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// A span with its unit.
    Duration,
    /// The same in this range.
    DurationWithin(Span, Span),
    /// A span, or `auto` to measure it on this host.
    DurationOrAuto,
    /// `host:port`.
    Address,
    /// `host:port`, or `none`.
    AddressOrNone,
    /// A file, or `none`.
    PathOrNone,
    /// `http://host:port` or `socks5://host:port`, or `none`.
    Proxy,
    /// Bits in a second (`2Mbit/s`), or `none`.
    Bandwidth,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number in this range.
    Integer(i64, i64),
    /// A whole number in this range, or `auto`.
    IntegerOrAuto(i64, i64),
    /// A number of bytes, plain or with a unit (`64KiB`, `1MiB`, `1GiB`).
    Bytes,
    /// The same in this range.
    BytesWithin(i64, i64),
    /// Bytes in this range, or what there is.
    BytesOrAuto(i64, i64),
    /// A number above 0 and up to 1.
    Share,
    /// `true` or `false`.
    Switch,
    /// `true`, `false` or `auto`.
    SwitchOrAuto,
    /// A list of whole numbers.
    Integers,
    /// A topic filter.
    Filter,
    /// Topic filters.
    Filters,
    /// A number of losses, or `unbounded`.
    Loss,
    /// The name of a link class.
    Link,
    /// A folder, or nothing.
    Folder,
    /// A name of the user's choice.
    Name,
    /// A list of names and topics.
    Names,
    /// A place on the earth.
    Location,
    /// What is said of things.
    Dimensions,
    /// What devices are.
    Profiles,
    /// What payloads are.
    Payload,
    /// Which events an input keeps.
    Keep,
    /// A level, by number or by name.
    Level,
    /// A list of relative sets.
    Sets,
    /// A file.
    Path,
    /// The name of a user, or nothing.
    User,
    /// The name of a site, or nothing.
    Site,
    /// A list of names of keys.
    StoreKeys,
    /// How several values become one.
    Vote,
    /// A list of names of nodes.
    Nodes,
    /// A list of `host:port`.
    Places,
    /// The path of a node of a coordination service.
    Namespace,
}

impl Kind {
    /// The same in a sentence that says what to write.
    pub(crate) fn expected(self) -> String {
        let is_plain = matches!(
            self,
            Kind::Choice(_)
                | Kind::Address
                | Kind::AddressOrNone
                | Kind::Proxy
                | Kind::Vote
                | Kind::Bytes
                | Kind::BytesWithin(..)
                | Kind::BytesOrAuto(..)
        );
        format!("{}{}", if is_plain { "" } else { "a " }, self.describe())
    }

    /// What to write, for people.
    pub fn describe(self) -> String {
        match self {
            Kind::DurationWithin(least, most) => format!("duration, from \"{least}\" to \"{most}\""),
            Kind::Duration => "duration, such as \"50ms\"".to_owned(),
            Kind::DurationOrAuto => "duration, or \"auto\"".to_owned(),
            Kind::Address => "\"host:port\"".to_owned(),
            Kind::AddressOrNone => "\"host:port\", or \"none\"".to_owned(),
            Kind::PathOrNone => "path of a file, or \"none\"".to_owned(),
            Kind::Proxy => "\"http://host:port\" or \"socks5://host:port\", or \"none\"".to_owned(),
            Kind::Bandwidth => "bandwidth such as \"2Mbit/s\" or \"500kbit/s\", or \"none\"".to_owned(),
            Kind::Choice(words) => {
                words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or ")
            }
            Kind::Integer(min, max) => format!("whole number from {min} to {max}"),
            Kind::IntegerOrAuto(min, max) => format!("whole number from {min} to {max}, or \"auto\""),
            Kind::BytesWithin(least, most) => format!("bytes, such as 65536 or \"64KiB\", from {least} to {most}"),
            Kind::Bytes => "bytes, such as 65536 or \"64KiB\"".to_owned(),
            Kind::BytesOrAuto(least, most) => format!("bytes, such as \"512MiB\", from {least} to {most}, or \"auto\""),
            Kind::Share => "number above 0 and up to 1".to_owned(),
            Kind::Switch => "true or false".to_owned(),
            Kind::SwitchOrAuto => "true, false or \"auto\"".to_owned(),
            Kind::Integers => "list of whole numbers".to_owned(),
            Kind::Filters => "list of topic filters, such as [\"turbine/#\"]".to_owned(),
            Kind::Filter => "topic filter, such as \"turbine/+/speed\"".to_owned(),
            Kind::Loss => "whole number, or \"unbounded\"".to_owned(),
            Kind::Link => "name of a link class".to_owned(),
            Kind::Folder => "folder, or \"\"".to_owned(),
            Kind::Name => "name without `/`".to_owned(),
            Kind::Names => "list of operators' names and of topics".to_owned(),
            Kind::Location => "latitude and longitude, such as \"40.06, -74.41\"".to_owned(),
            Kind::Dimensions => "list of names, with a range for numbers, such as [\"kind\", \"battery: 0..100\"]".to_owned(),
            Kind::Profiles => "list of profiles, such as [\"drone, lidar; topic=plant/7/lidar\"]".to_owned(),
            Kind::Payload => {
                "payload type: \"bytes\", \"i16\", \"i32\", \"f32\", \"f64\", \"text\", \"json:path\" or \"cbor:path\""
                    .to_owned()
            }
            Kind::Keep => format!("whole number from 1 to {}, \"all\" or \"latest\"", processing::Keep::MOST),
            Kind::Level => "whole number from 0, or \"high\", \"middle\" or \"low\" (0, 1, 2)".to_owned(),
            Kind::Sets => "list of sets, such as [{ inputs = [\"a\", \"b\"], within = \"5ms\" }]".to_owned(),
            Kind::Path => "path of a file".to_owned(),
            Kind::User => "name of a user, or \"\"".to_owned(),
            Kind::Site => "name of a site, without spaces, `/`, `+`, `#`, `%`, `$`, or \"\"".to_owned(),
            Kind::StoreKeys => "list of names of keys, such as [\"pendulum/angle\", \"sensor/{0..99}\"]".to_owned(),
            Kind::Vote => {
                "\"majority\", or \"median\", \"trimmed-mean\", \"weighted-mean\", \"min\" or \"max\" with \"f64\", \"i64\" or \
                 \"decimal\", as in \"median f64\""
                    .to_owned()
            }
            Kind::Nodes => "list of names of nodes".to_owned(),
            Kind::Places => "list of addresses, such as [\"host:2181\"]".to_owned(),
            Kind::Namespace => "path that begins with `/` and does not end with it, such as \"/verge\"".to_owned(),
        }
    }
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its path; `*` stands for a name that the user chooses.
    pub path: &'static str,
    /// What it may hold.
    pub kind: Kind,
    /// Its default as it would be written, or nothing where it must be given.
    pub default: &'static str,
    /// What it means.
    pub doc: &'static str,
    /// Whether a running broker takes it over on SIGHUP.
    pub reloadable: bool,
}

/// A section that may be there many times.
pub struct Repeated {
    /// Its name.
    pub name: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
    /// Whether it may have others.
    pub open: bool,
    /// Whether a running broker takes its entries over on SIGHUP.
    pub reloadable: bool,
}

/// `[[topic]]`.
pub static TOPIC: Repeated =
    Repeated { name: "topic", keys: keys::topic::KEYS, open: false, reloadable: true };
/// `[[source]]`.
pub static SOURCE: Repeated =
    Repeated { name: "source", keys: keys::source::KEYS, open: false, reloadable: true };
/// `[[operator]]`.
pub static OPERATOR: Repeated =
    Repeated { name: "operator", keys: keys::operator::KEYS, open: true, reloadable: true };
/// `[[lane]]`.
pub static LANE: Repeated = Repeated { name: "lane", keys: keys::lane::KEYS, open: false, reloadable: false };
/// `[[vote]]`.
pub static VOTE: Repeated = Repeated { name: "vote", keys: keys::vote::KEYS, open: false, reloadable: false };
/// `[[task]]`.
pub static TASK: Repeated = Repeated { name: "task", keys: keys::task::KEYS, open: false, reloadable: false };

/// All such sections.
pub static REPEATED: [&Repeated; 6] = [&TOPIC, &SOURCE, &OPERATOR, &LANE, &VOTE, &TASK];

/// The repeated section of this name.
pub fn repeated(name: &str) -> Option<&'static Repeated> {
    REPEATED.iter().copied().find(|section| section.name == name)
}

/// The key for a path in which names stand in the place of `*`.
pub fn find(path: &str) -> Option<&'static Key> {
    place(path).map(|place| &KEYS[place])
}

/// Where that is among all keys.
pub fn place(path: &str) -> Option<usize> {
    KEYS.iter().position(|key| matches(key.path, path))
}

/// Whether a path is one of those that a pattern means.
pub fn matches(pattern: &str, path: &str) -> bool {
    if !pattern.contains('*') {
        return pattern == path;
    }
    let (mut wanted, mut given) = (pattern.split('.'), path.split('.'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(wanted), Some(given)) if wanted == "*" || wanted == given => {}
            _ => return false,
        }
    }
}

/// The known name that is most like a mistyped one, if one is near.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.into_iter().map(|candidate| (distance(name, candidate), candidate));
    scored.min().filter(|(distance, _)| *distance <= 1 + name.len() / 4).map(|(_, candidate)| candidate)
}

/// How many letters must be changed, added or removed.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in to.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_users_own_choice_are_found() {
        assert_eq!(find("brokers.a.clients").map(|key| key.path), Some("brokers.*.clients"));
        assert!(find("brokers.a").is_none() && find("brokers.a.b.clients").is_none());
    }

    #[test]
    fn a_mistyped_name_is_recognised() {
        assert_eq!(nearest("perod", ["filter", "period", "loss"]), Some("period"));
        assert_eq!(nearest("xyzzy", ["filter", "period", "loss"]), None);
    }
}
