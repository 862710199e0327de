//! What an application is handed was accepted from a publisher, is what it was, and was asked for.
//!
//! Source: the meaning of a message. Payloads say what they are ([`crate::scene`]).

use crate::ledger::Ledger;
use crate::node::{Got, Joined};

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

/// A joined result was handed over: it was made of what was published. `in_step`: clocks are apart by little.
pub(super) fn joined(ledger: &Ledger, joined: &Joined, in_step: bool) -> Result<(), String> {
    let Joined { topic, created, parts } = joined;
    let stamps = parts.iter().map(|(stream, seq)| Some(ledger.stream(*stream)?.message(*seq)?.stamped));
    match stamps.collect::<Option<Vec<_>>>().and_then(|stamps| stamps.into_iter().max()) {
        Some(newest) if newest == *created || !in_step => Ok(()),
        Some(_) => Err(format!("a result on {topic} does not have the time of its newest message")),
        None => Err(format!("a result on {topic} was made of {parts:?}, which nobody published")),
    }
}
