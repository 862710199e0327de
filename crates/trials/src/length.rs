//! How long a run lasts.

use contract::Span;

/// A run lasts no longer than this.
pub const RUN_MAX: Span = Span::secs(7 * 24 * 3_600);
/// The same in words.
pub const RUN_MAX_WORDS: &str = "7 days";
