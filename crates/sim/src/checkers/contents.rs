//! What an application is handed was accepted from a publisher, is what it was, and was asked for.
//!
//! Source: the meaning of a message. Payloads say what they are ([`crate::scene`]).

use crate::ledger::Ledger;
use crate::node::Got;

pub(super) const NAME: &str = "contents";
pub(super) const STATEMENT: &str = "what is handed over was published so, and asked for";

pub(super) fn delivered(ledger: &Ledger, subscriber: usize, got: &Got, topic: &str) -> Result<(), String> {
    let subscriber = &ledger.subscribers[subscriber];
    let Some(stream) = ledger.stream(got.stream).filter(|_| got.intact) else {
        return Err(format!("{} was handed bytes that nobody published, on {topic}", subscriber.name));
    };
    if stream.topic != topic {
        return Err(format!("{} was handed a message of {} on {topic}", subscriber.name, stream.topic));
    }
    if got.seq >= stream.messages.len() as u64 {
        return Err(format!("{} was handed {topic} #{}, which nobody published", subscriber.name, got.seq));
    }
    if !subscriber.wants(topic) {
        return Err(format!("{} was handed {topic}, for which it had not asked", subscriber.name));
    }
    Ok(())
}
