//! What differs between two configurations, and whether it applies at once or needs a restart.

use super::Config;
use super::schema;
use std::collections::BTreeMap;
use std::fmt;

/// One difference.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The key.
    pub key: String,
    /// What the broker runs with; nothing if it is new.
    pub before: Option<String>,
    /// What it should run with; nothing if it has been taken out.
    pub after: Option<String>,
    /// Whether it applies now; otherwise it needs a restart.
    pub applies_now: bool,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.key)?;
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => write!(f, "{before} -> {after}")?,
            (None, Some(after)) => write!(f, "new: {after}")?,
            (Some(before), None) => write!(f, "{before} taken out")?,
            (None, None) => {}
        }
        f.write_str(if self.applies_now { " (applies now)" } else { " (needs a restart)" })
    }
}

/// The values that a broker runs with, by key.
#[derive(Clone, Debug)]
pub struct Running(BTreeMap<String, String>);

impl Running {
    /// Those of the configuration that it was started with.
    pub fn new(config: &Config) -> Running {
        Running(values(config))
    }

    /// What a configuration changes, in the order of the keys. What applies now is what it runs with from then on; what
    /// needs a restart is a difference again the next time.
    pub fn take(&mut self, config: &Config) -> Vec<Change> {
        let wanted = values(config);
        let mut changes = Vec::new();
        let keys: std::collections::BTreeSet<&String> = self.0.keys().chain(wanted.keys()).collect();
        for key in keys {
            let (before, after) = (self.0.get(key), wanted.get(key));
            if before != after {
                changes.push(Change {
                    key: key.clone(),
                    before: before.cloned(),
                    after: after.cloned(),
                    applies_now: applies_now(key),
                });
            }
        }
        for change in changes.iter().filter(|change| change.applies_now) {
            match &change.after {
                Some(after) => self.0.insert(change.key.clone(), after.clone()),
                None => self.0.remove(&change.key),
            };
        }
        changes
    }
}

fn applies_now(key: &str) -> bool {
    match key.split_once(' ') {
        Some((section, _)) => schema::repeated(section).is_some_and(|section| section.reloadable),
        None => schema::find(key).is_some_and(|key| key.reloadable),
    }
}

/// Values by key. Entries of a section that share their name, such as topics of one filter, are one.
fn values(config: &Config) -> BTreeMap<String, String> {
    let mut values: BTreeMap<String, String> = BTreeMap::new();
    for (key, value, _) in &config.effective {
        values
            .entry(key.clone())
            .and_modify(|known| {
                known.push_str("; ");
                known.push_str(value);
            })
            .or_insert_with(|| value.clone());
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::load;

    fn shown(changes: &[Change]) -> Vec<String> {
        changes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_a_topic_has_beside_its_contract_needs_a_restart() {
        let topic = |more: &str| {
            load(
                "changes",
                &format!(
                    "[brokers.a]\nclients = \"127.0.0.1:7571\"\nstart_as = \"primary\"\n[site]\nname = \"n\"\njournal = \"/tmp/j\"\n[routers.r1]\naddress = \"r:1\"\n[routers.r2]\naddress = \"r:2\"\n[[topic]]\nfilter = \"a/#\"\nperiod = \"1s\"\n{more}"
                ),
            )
        };
        let mut running = Running::new(&topic(""));
        let changes = shown(&running.take(&topic("paths = 2\nkeep = \"72h\"\n")));
        assert_eq!(
            changes,
            [
                "topic.keep a/#: new: 259200s, rank 3 (needs a restart)",
                "topic.paths a/#: new: 2 (needs a restart)"
            ]
        );
    }

    #[test]
    fn changes_are_listed_with_what_becomes_of_them() {
        let before = load("changes", "[log]\nlevel = \"info\"\n[detection]\npoll = \"5ms\"\n");
        let after = load(
            "changes",
            "[log]\nlevel = \"warn\"\n[detection]\npoll = \"6ms\"\n[[topic]]\nfilter = \"a/#\"\nperiod = \"1s\"\n",
        );
        let mut running = Running::new(&before);
        let changes = shown(&running.take(&after));
        assert_eq!(changes.len(), 3, "{changes:?}");
        assert_eq!(changes[0], "detection.poll: \"5ms\" -> \"6ms\" (needs a restart)");
        assert_eq!(changes[1], "log.level: \"info\" -> \"warn\" (applies now)");
        assert!(changes[2].starts_with("topic a/#: new: ") && changes[2].ends_with("(applies now)"));
        // What was applied is no difference any more, what needs a restart still is one.
        let again = shown(&running.take(&after));
        assert_eq!(again.len(), 1, "{again:?}");
        assert!(again.iter().all(|change| change.ends_with("(needs a restart)")));
        let back = shown(&running.take(&before));
        assert_eq!(back[0], "log.level: \"warn\" -> \"info\" (applies now)");
        assert!(
            back[1].starts_with("topic a/#: ") && back[1].ends_with("taken out (applies now)"),
            "{back:?}"
        );
    }
}
