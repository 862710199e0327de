//! What lies below knows nothing of what lies above it.

use std::path::{Path, PathBuf};

/// A folder, and what of this crate it must not name.
struct Wall {
    folder: &'static str,
    forbidden: &'static [&'static str],
    /// What it may name all the same.
    but: &'static [&'static str],
}

/// From below. The broker itself is above all of them.
const WALLS: [Wall; 4] = [
    Wall {
        folder: "store",
        forbidden: &["broker", "commands", "housekeeping", "membership", "outputs", "steps", "watch"],
        but: &[],
    },
    Wall { folder: "watch", forbidden: &["commands", "membership", "steps"], but: &[] },
    Wall {
        folder: "steps",
        forbidden: &["broker", "commands", "housekeeping", "membership"],
        // Who reigns, and whom copies go to, are looked at with every message.
        but: &["membership::pair"],
    },
    Wall { folder: "commands", forbidden: &["membership"], but: &[] },
];

/// Who takes the whole broker: itself, who moves several of its parts at once, and who shows all of it. It may only become shorter.
const TAKE_ALL: [&str; 19] = [
    "broker.rs",
    "broker/carry.rs",
    "housekeeping.rs",
    "commands/binding.rs",
    "commands/counting.rs",
    "commands/crowd.rs",
    "commands/guests.rs",
    "commands/implied.rs",
    "commands/needs.rs",
    "commands/register.rs",
    "commands/rules.rs",
    "commands/sites.rs",
    "commands/subscribe.rs",
    "commands/tasks.rs",
    "membership/guard.rs",
    "membership/reign.rs",
    "membership/standby.rs",
    "watch/snapshot.rs",
    "watch/status.rs",
];

#[test]
fn what_lies_below_knows_nothing_of_what_lies_above() {
    for Wall { folder, forbidden, but } in WALLS {
        for (file, line) in code_of(folder) {
            let knows = |module: &str| names(&line, &format!("crate::{module}"));
            let may = but.iter().any(|module| knows(module));
            let above = forbidden.iter().find(|module| knows(module)).filter(|_| !may);
            assert!(above.is_none(), "{} knows of what lies above it: {line}", file.display());
        }
    }
}

#[test]
fn steps_borrow_parts_and_few_take_the_whole_broker() {
    let mut take_all: Vec<String> = ["", "broker", "commands", "membership", "steps", "store", "watch"]
        .into_iter()
        .flat_map(code_of)
        .filter(|(_, line)| ["impl Broker", "mut Broker", "&Broker"].iter().any(|whole| names(line, whole)))
        .map(|(file, _)| file.strip_prefix(source()).unwrap().to_str().unwrap().to_owned())
        .collect();
    take_all.sort();
    take_all.dedup();
    let mut known = TAKE_ALL;
    known.sort_unstable();
    assert_eq!(take_all, known, "these take the whole broker, and those should");
}

#[test]
fn steps_see_the_pair_and_cannot_change_it() {
    for (file, line) in code_of("steps") {
        for part in ["Pair", "Membership", "Promises", "Tasks", "Settings", "Silences"] {
            let changes = names(&line, &format!("&mut {part}")) || names(&line, &format!("&'a mut {part}"));
            assert!(!changes, "{} could change what only others may: {line}", file.display());
        }
    }
}

/// Whether a line has this name, and not one that only begins or ends so.
fn names(line: &str, name: &str) -> bool {
    let is_of_a_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    line.match_indices(name).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + name.len()..]);
        !before.ends_with(is_of_a_name) && !after.starts_with(is_of_a_name)
    })
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The lines of a folder's files, and of its module's, that are neither comments nor tests.
fn code_of(folder: &str) -> Vec<(PathBuf, String)> {
    let entries = std::fs::read_dir(source().join(folder)).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("it can be read").path());
    let mut files: Vec<PathBuf> = paths.filter(|path| path.is_file()).collect();
    files.extend(Some(source().join(folder).with_extension("rs")).filter(|file| file.is_file()));
    assert!(!files.is_empty(), "{folder} has no files");
    let mut lines = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("it is text");
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let spoken = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        lines.extend(spoken.map(|line| (file.clone(), line.to_owned())));
    }
    lines
}
