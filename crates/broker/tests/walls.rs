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

/// These show the whole broker to others.
const SHOW_ALL: [&str; 2] = ["watch/status.rs", "watch/snapshot.rs"];

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
fn steps_borrow_parts_and_never_the_whole_broker() {
    for folder in ["store", "watch", "steps"] {
        for (file, line) in code_of(folder) {
            // The status shows all of it.
            let shows_all = SHOW_ALL.iter().any(|shown| file.ends_with(shown));
            let whole = ["impl Broker", "mut Broker", "crate::broker"].iter().any(|it| names(&line, it));
            assert!(shows_all || !whole, "{} takes the whole broker: {line}", file.display());
        }
    }
}

#[test]
fn steps_see_the_pair_and_cannot_change_it() {
    for (file, line) in code_of("steps") {
        for part in ["Pair", "Membership", "Promises", "Tasks", "Settings"] {
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

/// The lines of a folder and of its module's file that are neither comments nor tests.
fn code_of(folder: &str) -> Vec<(PathBuf, String)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = vec![source.join(folder).with_extension("rs")];
    let entries = std::fs::read_dir(source.join(folder)).unwrap().map(|entry| entry.unwrap().path());
    files.extend(entries.filter(|path| path.is_file()));
    assert!(files.len() > 5, "{} files in {folder}", files.len());
    let mut lines = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        let spoken = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        lines.extend(spoken.map(|line| (file.clone(), line.to_owned())));
    }
    lines
}
