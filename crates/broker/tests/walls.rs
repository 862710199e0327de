//! What lies below knows nothing of what lies above it.

use std::path::Path;

/// Folders above the store, and the broker itself.
const ABOVE: [&str; 5] = ["broker", "commands", "membership", "outputs", "steps"];

#[test]
fn the_store_knows_of_no_step_no_command_and_no_partner() {
    let store = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store");
    let mut looked_at = 0;
    for file in std::fs::read_dir(store).unwrap().map(|file| file.unwrap().path()) {
        let text = std::fs::read_to_string(&file).unwrap();
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let above = ABOVE.iter().find(|above| line.contains(&format!("crate::{above}::")));
            assert!(above.is_none(), "{} knows of what lies above it: {line}", file.display());
        }
        looked_at += 1;
    }
    assert!(looked_at > 10, "{looked_at} files");
}
