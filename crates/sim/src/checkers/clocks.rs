//! What a client has found out about its clock and its broker's is true, however they were set meanwhile.
//!
//! Source: a broker's clock is read between the asking and the answer. Looked at when a run is over, long after the last step of a
//! clock. The client's word is as old as a few answers, in which clocks may have run apart.

use contract::Span;
use wire::ClockDifference;

pub(super) const NAME: &str = "clocks";
pub(super) const STATEMENT: &str = "what a client says of its clock and its broker's is true";

/// So long, clocks may have run apart since the answer that counts.
const AGE_MAX: Span = Span::secs(12);

/// `ahead`: by how much the client's clock is ahead of the broker's; `drift_ppb`: what it gains on it.
pub(super) fn known(client: &str, known: ClockDifference, ahead: Span, drift_ppb: i64) -> Result<(), String> {
    let drifted = Span(AGE_MAX.0 / 1_000_000_000 * drift_ppb.abs());
    let off = Span((known.ahead - ahead).0.abs());
    if off <= known.within + drifted {
        return Ok(());
    }
    Err(format!(
        "{client} says that its clock is {} ahead, to within {}, and it is {ahead}",
        known.ahead, known.within
    ))
}
