//! Tells the program from which commit it was built, so that a failing seed can be replayed with the same code.

use std::process::Command;

fn main() {
    let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    let commit = output.ok().filter(|output| output.status.success());
    if let Some(commit) = commit.and_then(|output| String::from_utf8(output.stdout).ok()) {
        println!("cargo:rustc-env=VERGE_COMMIT={}", commit.trim());
    }
    println!("cargo:rerun-if-changed=../../.git/HEAD");
    println!("cargo:rerun-if-changed=../../.git/logs/HEAD");
}
