//! Reasons in words, for clients that want them.

use super::Client;
use crate::packet::Version;

impl Client {
    /// A reason in words, unless the client cannot be told, or does not want to be.
    pub(super) fn words<'t>(&self, text: &'t str) -> Option<&'t str> {
        Some(text).filter(|_| self.wants_words())
    }

    /// Whether it can be told reasons in words, and wants to be.
    pub(super) fn wants_words(&self) -> bool {
        self.version == Version::V5 && self.problems
    }
}

/// Appends a packet with a reason in words, or without them where the packet would be larger than the client takes.
pub(super) fn append_with_words(
    out: &mut Vec<u8>,
    packet_bytes_max: usize,
    text: Option<&str>,
    write: impl Fn(&mut Vec<u8>, Option<&str>),
) {
    let begins = out.len();
    write(out, text);
    if text.is_some() && out.len() - begins > packet_bytes_max {
        out.truncate(begins);
        write(out, None);
    }
}
