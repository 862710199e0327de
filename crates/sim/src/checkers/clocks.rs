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

/// A step that is smaller than what two answers leave open contradicts neither of them; it is seen when the best one is too old. Ways, and so
/// what answers leave open, are alike to within this factor.
const HIDDEN_TIMES: u64 = 3;

/// `ahead`: by how much the client's clock is ahead of the broker's; `drift_ppb`: what it gains on it; `set`: whether clocks were set.
pub(super) fn known(
    client: &str,
    known: ClockDifference,
    ahead: Span,
    drift_ppb: i64,
    set: bool,
) -> Result<(), String> {
    let drifted = Span(AGE_MAX.0 / 1_000_000_000 * drift_ppb.abs());
    let off = Span((known.ahead - ahead).0.abs());
    let hidden = if set { known.within * HIDDEN_TIMES } else { Span::ZERO };
    if off <= known.within + hidden + drifted {
        return Ok(());
    }
    Err(format!(
        "{client} says that its clock is {} ahead, to within {}, and it is {ahead}",
        known.ahead, known.within
    ))
}
