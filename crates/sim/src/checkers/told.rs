//! What a subscriber missed or got late it has told the primary.
//!
//! Source: late means late at the subscriber, and lost means lost there. A second after it noticed, a client that follows a primary has said
//! so, whatever it said it to before has died or not.

use contract::{Span, Time};

pub(super) const NAME: &str = "told";
pub(super) const STATEMENT: &str = "what subscribers miss or get late is told to the primary";

/// A poll comes every 100 ms, and tells of some streams.
const SOON: Span = Span::secs(1);

/// The run is over. `untold`: since when something waits to be told, by the client's clock, which says `local`.
pub(super) fn agrees(name: &str, local: Time, untold: Option<Time>) -> Result<(), String> {
    match untold.filter(|since| local > *since + SOON) {
        None => Ok(()),
        Some(since) => {
            Err(format!("{name} has not told for {} what it missed or got late", local.since(since)))
        }
    }
}
