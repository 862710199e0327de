//! Graphs as patterns: `turbine/+/vibration` in, `turbine/+/rms` out, and one instance of the graph for each turbine.
//!
//! All suppliers of a graph have the same number of `+`; what stands in their places in the first topic that comes names the
//! instance, and the results' topics take it in the same order.

use crate::spec::GraphSpec;
use contract::{TopicFilter, check_name};

/// Why topics of a graph do not fit together.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// A topic that is none.
    #[error("`{topic}` is no topic: {reason}")]
    Topic {
        /// The topic.
        topic: String,
        /// Why.
        reason: String,
    },
    /// `#` in a pattern.
    #[error("`{0}` holds `#`: name each topic of a graph, with `+` for the levels that differ")]
    Hash(String),
    /// Another number of `+` than in the graph's first supplier.
    #[error(
        "`{topic}` has {has} of `+` and `{first}` has {wanted}: all topics of a graph have the same number"
    )]
    Count {
        /// The topic.
        topic: String,
        /// How many it has.
        has: usize,
        /// The first supplier.
        first: String,
        /// How many that has.
        wanted: usize,
    },
}

/// All that is wrong with a graph's topics.
pub(crate) fn check(spec: &GraphSpec) -> Vec<PatternError> {
    let suppliers = spec.suppliers.iter().map(|supplier| supplier.name.as_str());
    let topics: Vec<&str> =
        suppliers.chain(spec.consumers.iter().map(|consumer| consumer.name.as_str())).collect();
    let Some(first) = topics.first() else { return Vec::new() };
    let wanted = wildcards(first);
    let mut errors = Vec::new();
    for topic in &topics {
        let (name, has) = ((*topic).to_owned(), wildcards(topic));
        if let Err(reason) = topic.parse::<TopicFilter>() {
            errors.push(PatternError::Topic { topic: name, reason: reason.to_string() });
        } else if topic.ends_with('#') {
            errors.push(PatternError::Hash(name));
        } else if has != wanted {
            errors.push(PatternError::Count { topic: name, has, first: (*first).to_owned(), wanted });
        }
    }
    errors
}

fn wildcards(pattern: &str) -> usize {
    pattern.split('/').filter(|level| *level == "+").count()
}

/// What stands in the places of `+` if the topic is one of those meant.
pub fn captures<'a>(pattern: &str, topic: &'a str) -> Option<Vec<&'a str>> {
    let mut levels = topic.split('/');
    let mut found = Vec::new();
    for wanted in pattern.split('/') {
        let level = levels.next()?;
        match wanted {
            "+" => found.push(level),
            same if same == level => {}
            _ => return None,
        }
    }
    let reserved = topic.starts_with('$') && pattern.starts_with('+');
    (levels.next().is_none() && !reserved).then_some(found)
}

/// The topic with these in the places of `+`, if that is one.
pub fn fill(pattern: &str, captures: &[&str]) -> Option<String> {
    let mut captures = captures.iter();
    let levels: Option<Vec<&str>> = pattern
        .split('/')
        .map(|level| if level == "+" { captures.next().copied() } else { Some(level) })
        .collect();
    levels.map(|levels| levels.join("/")).filter(|name| check_name(name).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_captured_fills_the_results_topic() {
        let found = captures("plant/+/turbine/+/speed", "plant/a/turbine/7/speed").unwrap();
        assert_eq!(found, ["a", "7"]);
        assert_eq!(fill("rms/+/+", &found).as_deref(), Some("rms/a/7"));
        assert_eq!(captures("a/+", "a/b/c"), None);
        assert_eq!(captures("a/+/c", "a/b"), None);
        assert_eq!(captures("a/b", "a/b"), Some(vec![]));
        assert_eq!(captures("+/x", "$SYS/x"), None);
        assert_eq!(fill("a/+/+", &["b"]), None, "too few");
    }
}
