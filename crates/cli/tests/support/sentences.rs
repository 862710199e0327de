//! The sentences of `docs/clients.md`.

const PAGE: &str = include_str!("../../../../docs/clients.md");
/// Stands for anything in a sentence.
const ANYTHING: char = '…';

/// All sentences of the page.
pub fn rows() -> Vec<&'static str> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| sentence"));
    rows.filter_map(|line| line.split('|').nth(1)).map(str::trim).collect()
}

/// Whether one line of the text says this.
pub fn says(text: &str, sentence: &str) -> bool {
    text.lines().any(|line| {
        let mut rest = Some(line);
        for part in sentence.split(ANYTHING) {
            rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, after)| after);
        }
        rest.is_some()
    })
}

/// A sentence of the page must have been said.
pub fn said(text: &str, sentence: &str) {
    assert!(rows().contains(&sentence), "not in docs/clients.md: {sentence}");
    assert!(says(text, sentence), "not said: {sentence}\n{text}");
}
