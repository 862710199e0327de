//! The judges and pages of all measurements are right: Python's tests of them, with documents that are made up. Nothing is measured.

use std::path::Path;
use std::process::Command;

#[test]
fn judges_and_pages_of_measurements_are_right() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let words = ["-m", "unittest", "discover", "-s", "bench/tests", "-t", "."];
    let Ok(ran) =
        Command::new("python3").args(words).current_dir(root).env("PYTHONDONTWRITEBYTECODE", "1").output()
    else {
        eprintln!("SKIPPED: there is no python3");
        return;
    };
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}
