//! The page about operators is the one that the table of kinds makes.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operators.md");

#[test]
fn the_page_is_what_the_table_says() {
    let written = fs::read_to_string(PAGE).unwrap_or_default();
    let made = processing::kinds::reference();
    if std::env::var_os("VERGE_WRITE_PAGES").is_some() {
        fs::write(PAGE, made).unwrap();
        return;
    }
    assert!(written == made, "run `VERGE_WRITE_PAGES=1 cargo test -p verge-processing --test reference`");
}
