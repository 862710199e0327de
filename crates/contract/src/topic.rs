//! Topic names and filters, by the rules of MQTT: levels divided by `/`, `+` for one level, `#` for all that follow.

use crate::filters::NODE_BYTES;
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The longest topic name or filter, in bytes: the longest text of MQTT.
pub const TOPIC_BYTES_MAX: usize = 65_535;
/// The deepest topic name or filter, in levels.
pub const TOPIC_LEVELS_MAX: usize = 200;
/// What a table that limits how many names it holds allows each of them on average, in bytes. See [`names_bytes_max`].
const TOPIC_BYTES_USUAL: usize = 512;
/// The same for a filter, with its places in trees. See [`filters_bytes_max`].
const FILTER_BYTES_USUAL: usize = 2_048;
/// What a byte of a filter's text takes: it is kept so often.
pub const FILTER_TEXT_COPIES: usize = 3;
/// So much of a text is shown where it is refused.
const SHOWN_BYTES: usize = 256;
/// So much of a topic is shown where it is told of.
pub const TOPIC_BYTES_SHOWN: usize = 120;

/// How many levels a name or filter has.
pub fn levels(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'/').count() + 1
}

/// The most bytes that names of a table may have together where there may be so many of them: a few may be as long as can be, all together
/// are as long as if none were longer than usual. One always fits.
pub fn names_bytes_max(count: usize) -> usize {
    count.saturating_mul(TOPIC_BYTES_USUAL).max(TOPIC_BYTES_MAX)
}

/// What a filter takes of memory, if no other begins like it: its text, and a place for each level in a tree.
pub fn filter_bytes(filter: &str) -> usize {
    FILTER_TEXT_COPIES * filter.len() + NODE_BYTES * levels(filter)
}

/// The most that filters may take together, see [`filter_bytes`], where there may be so many of them. One always fits.
pub fn filters_bytes_max(count: usize) -> usize {
    let longest = FILTER_TEXT_COPIES * TOPIC_BYTES_MAX + NODE_BYTES * TOPIC_LEVELS_MAX;
    count.saturating_mul(FILTER_BYTES_USUAL).max(longest)
}

/// Why a text is not a topic name or filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopicError {
    /// Nothing there.
    #[error("a topic needs at least one character")]
    Empty,
    /// Longer than [`TOPIC_BYTES_MAX`].
    #[error("a topic of {0} bytes is above the limit of {TOPIC_BYTES_MAX}")]
    TooLong(usize),
    /// Deeper than [`TOPIC_LEVELS_MAX`].
    #[error("a topic of {0} levels is above the limit of {TOPIC_LEVELS_MAX}")]
    TooDeep(usize),
    /// A zero or another control character.
    #[error("`{0}` holds a control character")]
    ControlCharacter(String),
    /// `+` or `#` in a name, which only filters may hold.
    #[error("`{0}` holds a wildcard: `+` and `#` belong in filters, a message needs one plain topic")]
    WildcardInName(String),
    /// A wildcard that is only part of a level.
    #[error("`{0}`: a wildcard stands alone in its level, as in `turbine/+/speed`")]
    WildcardInLevel(String),
    /// `#` somewhere else than at the end.
    #[error("`{0}`: `#` may only be the last level")]
    HashNotLast(String),
}

/// A text of so many bytes at most, for people. A longer one has its middle left out, since what tells things apart is at its ends.
pub fn shortened(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    let room = bytes_max.saturating_sub(GAP.len());
    let head = text.floor_char_boundary(room - room / 3);
    let tail = text.ceil_char_boundary(text.len() - room / 3);
    Cow::Owned([text.get(..head), Some(GAP), text.get(tail..)].into_iter().flatten().collect())
}

const GAP: &str = "\u{2026}";

/// A text as an error shows it: without control characters, and not longer than is read.
pub fn shown(text: &str) -> String {
    shortened(text, SHOWN_BYTES).escape_debug().to_string()
}

fn check_common(text: &str) -> Result<(), TopicError> {
    if text.is_empty() {
        return Err(TopicError::Empty);
    }
    if text.len() > TOPIC_BYTES_MAX {
        return Err(TopicError::TooLong(text.len()));
    }
    let levels = levels(text);
    if levels > TOPIC_LEVELS_MAX {
        return Err(TopicError::TooDeep(levels));
    }
    if text.chars().any(char::is_control) {
        return Err(TopicError::ControlCharacter(shown(text)));
    }
    Ok(())
}

/// Checks a topic name without copying it.
pub fn check_name(name: &str) -> Result<(), TopicError> {
    check_common(name)?;
    if name.contains(['+', '#']) {
        return Err(TopicError::WildcardInName(shown(name)));
    }
    Ok(())
}

/// The name of one topic, such as `turbine/7/vibration`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TopicName(Box<str>);

impl TopicName {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TopicName {
    type Err = TopicError;

    fn from_str(name: &str) -> Result<TopicName, TopicError> {
        check_name(name)?;
        Ok(TopicName(name.into()))
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A filter over topic names, such as `turbine/+/vibration` or `turbine/#`. Copies of it share its text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TopicFilter(Arc<str>);

impl TopicFilter {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `name` is one of the topics meant. Topics that begin with `$` are the broker's own and are not meant by
    /// a filter that begins with a wildcard.
    pub fn matches(&self, name: &str) -> bool {
        crate::looks::count(1);
        if name.starts_with('$') && self.0.starts_with(['+', '#']) {
            return false;
        }
        let mut levels = name.split('/');
        for wanted in self.0.split('/') {
            if wanted == "#" {
                return true;
            }
            match levels.next() {
                Some(level) if wanted == "+" || wanted == level => {}
                _ => return false,
            }
        }
        levels.next().is_none()
    }

    /// The filter that means what both mean; `None` where no topic is meant by both.
    pub fn common(&self, other: &TopicFilter) -> Option<TopicFilter> {
        let (mut ours, mut theirs) =
            (self.as_str().split('/').peekable(), other.as_str().split('/').peekable());
        let reserved = |level: Option<&&str>| level.is_some_and(|level| level.starts_with('$'));
        let any = |level: Option<&&str>| matches!(level, Some(&("+" | "#")));
        if any(ours.peek()) && reserved(theirs.peek()) || any(theirs.peek()) && reserved(ours.peek()) {
            return None;
        }
        let mut levels: Vec<&str> = Vec::new();
        loop {
            match (ours.peek().copied(), theirs.peek().copied()) {
                (None, None) => break,
                (Some("#"), _) => {
                    levels.extend(theirs);
                    break;
                }
                (_, Some("#")) => {
                    levels.extend(ours);
                    break;
                }
                (Some("+"), Some(level)) | (Some(level), Some("+")) => levels.push(level),
                (Some(level), Some(same)) if level == same => levels.push(level),
                _ => return None,
            }
            ours.next();
            theirs.next();
        }
        levels.join("/").parse().ok()
    }

    /// Whether it means every topic that `other` means.
    pub fn covers(&self, other: &TopicFilter) -> bool {
        if other.0.starts_with('$') && self.0.starts_with(['+', '#']) {
            return false;
        }
        let mut levels = other.0.split('/');
        for wanted in self.0.split('/') {
            if wanted == "#" {
                return true;
            }
            match levels.next() {
                Some(level) if wanted == level || (wanted == "+" && level != "#") => {}
                _ => return false,
            }
        }
        levels.next().is_none()
    }
}

impl FromStr for TopicFilter {
    type Err = TopicError;

    fn from_str(filter: &str) -> Result<TopicFilter, TopicError> {
        check_common(filter)?;
        let mut levels = filter.split('/').peekable();
        while let Some(level) = levels.next() {
            if level.len() > 1 && level.contains(['+', '#']) {
                return Err(TopicError::WildcardInLevel(shown(filter)));
            }
            if level == "#" && levels.peek().is_some() {
                return Err(TopicError::HashNotLast(shown(filter)));
            }
        }
        Ok(TopicFilter(filter.into()))
    }
}

impl fmt::Display for TopicFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(filter: &str, name: &str) -> bool {
        filter.parse::<TopicFilter>().unwrap().matches(name)
    }

    #[test]
    fn filters_match_as_in_mqtt() {
        assert!(matches("turbine/+/speed", "turbine/7/speed"));
        assert!(!matches("turbine/+/speed", "turbine/7/8/speed"));
        assert!(!matches("turbine/+", "turbine"));
        assert!(matches("turbine/#", "turbine"), "`#` also means the level above it");
        assert!(matches("turbine/#", "turbine/7/speed"));
        assert!(matches("#", "a/b/c"));
        assert!(matches("+/+", "/finance"));
        assert!(!matches("+", "/finance"));
        assert!(!matches("#", "$SYS/broker"));
        assert!(!matches("+/broker", "$SYS/broker"));
        assert!(matches("$SYS/#", "$SYS/broker"));
        assert!(matches("a//b", "a//b"));
        assert!(!matches("turbine/7", "turbine/7/speed"));
    }

    #[test]
    fn the_longest_and_the_deepest_are_carried_and_none_beyond() {
        let longest = "x".repeat(TOPIC_BYTES_MAX);
        assert_eq!(longest.parse::<TopicName>().map(|name| name.as_str().len()), Ok(TOPIC_BYTES_MAX));
        assert_eq!(check_name(&(longest + "x")), Err(TopicError::TooLong(TOPIC_BYTES_MAX + 1)));
        let deepest = vec!["+"; TOPIC_LEVELS_MAX].join("/");
        assert!(deepest.parse::<TopicFilter>().is_ok());
        let deeper = deepest + "/+";
        assert_eq!(deeper.parse::<TopicFilter>(), Err(TopicError::TooDeep(TOPIC_LEVELS_MAX + 1)));
    }

    #[test]
    fn one_name_of_any_length_fits_into_every_table_and_many_levels_count() {
        let (longest, deepest) = ("x".repeat(TOPIC_BYTES_MAX), vec!["a"; TOPIC_LEVELS_MAX].join("/"));
        assert!(longest.len() <= names_bytes_max(1));
        assert!(
            filter_bytes(&longest) <= filters_bytes_max(1) && filter_bytes(&deepest) <= filters_bytes_max(1)
        );
        assert_eq!((levels("turbine/7/vibration"), levels(&deepest)), (3, TOPIC_LEVELS_MAX));
        assert!(filter_bytes("turbine/7/vibration") * 1_000 < filters_bytes_max(1_000));
        assert_eq!(names_bytes_max(1_000), 512_000);
    }

    #[test]
    fn a_long_text_keeps_both_its_ends() {
        assert_eq!(shortened("as it is", 8), "as it is");
        let long = format!("plant/{}/7", "\u{e4}".repeat(40_000));
        let short = shortened(&long, 120);
        assert!(short.len() <= 120 && short.len() > 110, "{}", short.len());
        assert!(
            short.starts_with("plant/") && short.ends_with("/7") && short.contains('\u{2026}'),
            "{short}"
        );
        assert_eq!(shown("a\n"), "a\\n");
    }

    proptest! {
        /// What two filters have in common means what both mean. And a filter covers another exactly if it matches whatever the other matches, names of one level more included.
        #[test]
        fn a_filter_covers_another_if_it_means_all_of_its_topics(
            left in prop::collection::vec(prop::sample::select(vec!["a", "b", "+", "$s"]), 1..4),
            right in prop::collection::vec(prop::sample::select(vec!["a", "b", "+", "$s"]), 1..4),
            tails in prop::array::uniform2(any::<bool>()),
        ) {
            let filter = |levels: &[&str], tail| -> TopicFilter {
                let tail = if tail { "/#" } else { "" };
                (levels.join("/") + tail).parse().unwrap()
            };
            let (left, right) = (filter(&left, tails[0]), filter(&right, tails[1]));
            let words = ["a", "b", "c", "$s"];
            let longer = |names: &Vec<String>| -> Vec<String> {
                names.iter().flat_map(|name| words.map(|word| format!("{name}/{word}"))).collect()
            };
            let mut names: Vec<Vec<String>> = vec![words.map(str::to_owned).to_vec()];
            for depth in 0..4 {
                names.push(longer(&names[depth]));
            }
            let all = names.iter().flatten().filter(|name| right.matches(name)).all(|name| left.matches(name));
            prop_assert_eq!(left.covers(&right), all, "{} and {}", left, right);
            let both = left.common(&right);
            for name in names.iter().flatten() {
                let meant = both.as_ref().is_some_and(|both| both.matches(name));
                let by_both = left.matches(name) && right.matches(name);
                prop_assert_eq!(meant, by_both, "{} and {}: {:?} for {}", left, right, both, name);
            }
        }
    }

    #[test]
    fn malformed_filters_and_names_are_refused_with_the_reason() {
        assert!(matches!("a/#/b".parse::<TopicFilter>(), Err(TopicError::HashNotLast(_))));
        assert!(matches!("a/b#".parse::<TopicFilter>(), Err(TopicError::WildcardInLevel(_))));
        assert!(matches!("a/+b".parse::<TopicFilter>(), Err(TopicError::WildcardInLevel(_))));
        assert_eq!("".parse::<TopicFilter>(), Err(TopicError::Empty));
        assert!(matches!("a/+".parse::<TopicName>(), Err(TopicError::WildcardInName(_))));
        assert!(matches!("a\0b".parse::<TopicName>(), Err(TopicError::ControlCharacter(_))));
    }
}
