//! What an application is handed was accepted from a publisher, is what it was, and was asked for.
//!
//! Source: the meaning of a message. Payloads say what they are ([`crate::scene`]).

use crate::ledger::Ledger;
use crate::node::Got;

pub(super) const NAME: &str = "contents";
pub(super) const STATEMENT: &str = "what is handed over was published so, and asked for";

/// A message was handed over. `topic`: on which topic, where that is not already known to be right.
pub(super) fn delivered(ledger: &Ledger, index: usize, got: &Got, topic: Option<&str>) -> Result<(), String> {
    let subscriber = &ledger.subscribers[index];
    let Some(stream) = ledger.stream(got.stream).filter(|_| got.intact) else {
        return Err(format!("{} was handed bytes that nobody published", subscriber.name));
    };
    if let Some(topic) = topic.filter(|topic| *topic != stream.topic) {
        return Err(format!("{} was handed a message of {} on {topic}", subscriber.name, stream.topic));
    }
    if got.seq >= stream.messages.len() as u64 {
        return Err(format!(
            "{} was handed {} #{}, which nobody published",
            subscriber.name, stream.topic, got.seq
        ));
    }
    if stream.receipts[index].is_none() {
        return Err(format!("{} was handed {}, for which it had not asked", subscriber.name, stream.topic));
    }
    Ok(())
}
