//! Names of nodes: where in the tree what stands.
//!
//! ```text
//! /version                          the layout's version
//! /leader/<number>        ephemeral who may assign, in this order: {identity, reign}
//! /broker/<router>        ephemeral {where it is reached, whether it drains, its load}
//! /drain/<router>                   the router is to be rid of its topics; an admin creates and removes it
//! /assign/<router>/<k>              which topics it carries, with the epoch of each; 256 topics a shard
//! /edge/<site>            ephemeral {identity, reign}
//! /topics/<hh>/<topic>              {its router, the epoch of that, what did not match}
//!        .../pub/<site>   ephemeral what the site offers
//!        .../sub/<site>   ephemeral what the site wants
//!        .../kept/<site>            what is to be kept for the site while it is away: {until when, how much}
//! ```
//!
//! Topics stand in 256 folders by a hash of their names: a list of all would have to be read again for each new one, and would outgrow
//! what the service sends at a time at about 20 000.

/// What the layout is called.
pub(crate) const VERSION: &str = "verge-1";
pub(crate) const VERSION_PATH: &str = "/version";
pub(crate) const TOPICS: &str = "/topics";
pub(crate) const BROKERS: &str = "/broker";
pub(crate) const ASSIGN: &str = "/assign";
pub(crate) const DRAINS: &str = "/drain";
pub(crate) const EDGES: &str = "/edge";
pub(crate) const LEADERS: &str = "/leader";

/// The sides of a topic, and a place for those who are away.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Side {
    /// It is published at the site.
    Publishes,
    /// Somebody at the site has subscribed to it.
    Subscribes,
    /// What comes while the site is away is to be kept for it.
    Keeps,
}

impl Side {
    /// All of them.
    pub const ALL: [Side; 3] = [Side::Publishes, Side::Subscribes, Side::Keeps];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Side::Publishes => "pub",
            Side::Subscribes => "sub",
            Side::Keeps => "kept",
        }
    }
}

/// A hash that is the same on every host and in every release.
pub(crate) fn hash(text: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.iter().flat_map(|part| part.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    // The last bytes alone would change only the low bits.
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// A text as the name of a node: what is not a letter, a digit, `-`, `_` or `.` becomes `%` and two digits, and so does a `.` at the
/// beginning.
pub fn escape(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    for (place, byte) in text.bytes().enumerate() {
        if byte.is_ascii_alphanumeric() || b"-_".contains(&byte) || (byte == b'.' && place > 0) {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02x}"));
        }
    }
    name
}

/// The text that a name stands for; `None` where it is nothing that [`escape`] makes.
pub fn unescape(name: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(name.len()), name.as_bytes());
    while let [first, tail @ ..] = rest {
        rest = if *first == b'%' {
            let (digits, tail) = tail.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            tail
        } else {
            bytes.push(*first);
            tail
        };
    }
    let text = String::from_utf8(bytes).ok()?;
    (!text.is_empty() && escape(&text) == name).then_some(text)
}

/// The folder of a topic.
pub(crate) fn folder_of(topic: &str) -> String {
    format!("{TOPICS}/{:02x}", hash(&[topic]) & 0xff)
}

/// All folders of topics.
pub(crate) fn folders() -> impl Iterator<Item = String> {
    (0..256).map(|folder| format!("{TOPICS}/{folder:02x}"))
}

/// Whether a path is that of a folder of topics.
pub(crate) fn is_folder(path: &str) -> bool {
    path.strip_prefix(TOPICS).is_some_and(|rest| rest.matches('/').count() == 1)
}

pub(crate) fn topic_path(topic: &str) -> String {
    format!("{}/{}", folder_of(topic), escape(topic))
}

pub(crate) fn side_path(topic: &str, side: Side) -> String {
    format!("{}/{}", topic_path(topic), side.name())
}

pub(crate) fn endpoint_path(topic: &str, side: Side, site: &str) -> String {
    format!("{}/{}", side_path(topic, side), escape(site))
}

pub(crate) fn broker_path(router: &str) -> String {
    format!("{BROKERS}/{}", escape(router))
}

/// The node that says that a router is to be rid of its topics. An admin creates it, below a folder that may have to be made, and removes it.
pub fn drain_path(router: &str) -> String {
    format!("{DRAINS}/{}", escape(router))
}

pub(crate) fn assign_path(router: &str) -> String {
    format!("{ASSIGN}/{}", escape(router))
}

/// What lies directly above a node.
pub(crate) fn above(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(above, _)| above)
}

/// The last part of a path.
pub(crate) fn last(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, last)| last)
}

/// The topic and the side of a path to a topic's folder of one side, or to an endpoint in it.
pub(crate) fn topic_of(path: &str) -> Option<(String, Option<Side>)> {
    let mut parts = path.strip_prefix(TOPICS)?.strip_prefix('/')?.split('/');
    let topic = unescape(parts.nth(1)?)?;
    let side = match parts.next() {
        None => None,
        Some(name) => Some(Side::ALL.into_iter().find(|side| side.name() == name)?),
    };
    Some((topic, side))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_whatever_is_in_them() {
        for text in ["a", "plant/7/speed", "ü%2f", ".", "..", "a.b", "$x+#", "\u{0}", "%"] {
            assert_eq!(unescape(&escape(text)).as_deref(), Some(text));
            assert!(!escape(text).contains('/') && !escape(text).starts_with('.'), "{text}");
        }
        for foreign in ["", "%", "%2", "%zz", "%41", "ü", ".", "%2F"] {
            assert_eq!(unescape(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn paths_tell_their_topic_and_side() {
        let path = endpoint_path("plant/7", Side::Subscribes, "depot");
        assert_eq!(path.strip_prefix(&folder_of("plant/7")), Some("/plant%2f7/sub/depot"));
        assert_eq!(topic_of(&path), Some(("plant/7".to_owned(), Some(Side::Subscribes))));
        assert_eq!(topic_of(&topic_path("x")), Some(("x".to_owned(), None)));
        assert_eq!(topic_of("/topics/00"), None);
        assert_eq!(topic_of("/topics/00/x/strange/y"), None);
    }

    #[test]
    fn topics_are_spread_over_the_folders() {
        let mut counts = [0; 256];
        (0..25_600).for_each(|n| counts[(hash(&[&format!("plant/{n}/speed")]) & 0xff) as usize] += 1);
        assert!(counts.iter().all(|count| (50..170).contains(count)), "{counts:?}");
    }
}
