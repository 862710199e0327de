//! Reasons in words, for clients that want them.

use super::Client;

impl Client {
    /// A reason in words, unless the client cannot be told, or does not want to be.
    pub(super) fn words<'t>(&self, text: &'t str) -> Option<&'t str> {
        Some(text).filter(|_| self.wants_words())
    }

    /// Whether it can be told reasons in words, and wants to be.
    pub(super) fn wants_words(&self) -> bool {
        self.version.is_5() && self.problems
    }
}

/// Appends a packet with a reason in words, or without them where the packet would be larger than the client takes. Where it is larger
/// even so, nothing is appended, and `false` returned.
pub(super) fn append_with_words(
    out: &mut Vec<u8>,
    packet_bytes_max: usize,
    text: Option<&str>,
    write: impl Fn(&mut Vec<u8>, Option<&str>),
) -> bool {
    let begins = out.len();
    for text in [text, None] {
        write(out, text);
        if out.len() - begins <= packet_bytes_max {
            return true;
        }
        out.truncate(begins);
    }
    false
}
