//! No message is handed to an application twice.
//!
//! Source: FRAME, A7: a message may come from both brokers, from a copy and sent again by its publisher.

use crate::ledger::Ledger;
use crate::node::Got;

pub(super) const NAME: &str = "duplicates";
pub(super) const STATEMENT: &str = "no message is handed to an application twice";

pub(super) fn again(ledger: &Ledger, subscriber: usize, got: &Got) -> Result<(), String> {
    let name = &ledger.subscribers[subscriber].name;
    let topic = ledger.stream(got.stream).map_or("?", |stream| &stream.topic);
    Err(format!("{name} was handed {topic} #{} a second time", got.seq))
}
