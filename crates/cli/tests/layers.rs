//! The picture of the layers is true: every crate stands in it once, and depends on nothing above it, nor to the left of it in its row.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What stands in no layer: for tests alone.
const APART: [&str; 1] = ["counting"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Where each crate is drawn: its row from the top, and its place from the left.
fn drawn(picture: &str) -> BTreeMap<String, (usize, usize)> {
    let (mut drawn, mut row, mut column) = (BTreeMap::new(), 0, 0);
    for line in picture.lines() {
        if line.contains("class=\"layer\" x=") {
            (row, column) = (row + 1, 0);
        }
        if let Some(name) = line.split_once("text-anchor=\"middle\">").map(|(_, rest)| rest) {
            let name = name.split_once('<').unwrap().0.to_owned();
            assert_eq!(drawn.insert(name.clone(), (row, column)), None, "{name} is drawn twice");
            column += 1;
        }
    }
    drawn
}

/// What a crate depends on, by names as the workspace has them.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let section = manifest.split_once("\n[dependencies]\n").map_or("", |(_, rest)| rest);
    let section = section.split_once("\n[").map_or(section, |(section, _)| section);
    let names = section.lines().filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter(|name| !name.is_empty() && !name.starts_with('#')).map(str::to_owned).collect()
}

/// The folders of our own crates, by names as the workspace has them.
fn folders(manifest: &str) -> BTreeMap<String, String> {
    let own = manifest.lines().filter_map(|line| {
        let (name, rest) = line.split_once(" = { path = \"crates/")?;
        Some((name.to_owned(), rest.split_once('"')?.0.to_owned()))
    });
    own.collect()
}

#[test]
fn arrows_between_crates_point_down_as_they_are_drawn() {
    let root = root();
    let read =
        |path: PathBuf| std::fs::read_to_string(&path).unwrap_or_else(|_| panic!("{}", path.display()));
    let drawn = drawn(&read(root.join("docs/internals/layers.svg")));
    let folders = folders(&read(root.join("Cargo.toml")));
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(root.join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if APART.contains(&name.as_str()) {
            continue;
        }
        let Some(place) = drawn.get(&name) else {
            wrong.push(format!("{name} is not drawn"));
            continue;
        };
        let depends = dependencies(&read(root.join("crates").join(&name).join("Cargo.toml")));
        for other in depends.iter().filter_map(|dependency| folders.get(dependency)) {
            if drawn.get(other).is_none_or(|below| below <= place) {
                wrong.push(format!("{name} depends on {other}"));
            }
        }
    }
    assert!(wrong.is_empty(), "docs/internals/layers.svg or the manifests: {wrong:?}");
    assert!(
        drawn.len() > 20 && folders.len() > 20,
        "{} drawn, {} in the manifest",
        drawn.len(),
        folders.len()
    );
}

#[test]
fn a_dependency_is_seen_whatever_its_form() {
    let manifest = "[package]\nname = \"x\"\n\n[dependencies]\nwire.workspace = true\nbroker = { workspace = true }\n\n[dev-dependencies]\nhost.workspace = true\n";
    assert_eq!(dependencies(manifest), BTreeSet::from(["broker".to_owned(), "wire".to_owned()]));
}
