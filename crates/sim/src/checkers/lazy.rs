//! A lazy copy is of a marked message, and leaves no earlier than a batch may take it along.
//!
//! Source: ARREC, A2 and A4 (§4.5.1), with `M`, `D^r(M)` and the marks computed here from the terms. That
//! a copy does not leave too late is said by `deadlines`, that none is missing by `losses`. Looked at are messages that came in
//! order and in their time while everything was whole: others are copied eagerly, and a new backup gets all at once.

use crate::ledger::{self, Life, Stream};
use crate::scenario::Scenario;
use contract::{Lazy, Time};

pub(super) const NAME: &str = "lazy";
pub(super) const STATEMENT: &str =
    "only every M-th message is copied lazily, and no earlier than a batch may take it along";

#[derive(Clone)]
pub(super) struct Copies {
    lazy: Option<Lazy>,
}

impl Copies {
    pub(super) fn new(scenario: &Scenario) -> Copies {
        Copies { lazy: scenario.lazy().filter(|_| scenario.assumed) }
    }

    /// A broker has written a copy. `calm`: since when everything is whole.
    pub(super) fn wrote(
        &self,
        stream: &Stream,
        host: usize,
        life: Life,
        calm: Time,
        local: Time,
        seq: u64,
    ) -> Result<(), String> {
        let (Some(lazy), Some(deadlines)) = (self.lazy, stream.deadlines) else { return Ok(()) };
        let Some(every) = deadlines.every else { return Ok(()) };
        let in_order = |seq: u64| {
            let flags = stream.traces(host, life, seq) & (ledger::ARRIVED | ledger::AHEAD);
            stream.message(seq).filter(|message| message.accepted >= calm && flags == ledger::ARRIVED)
        };
        let Some((before, message)) = seq.checked_sub(1).and_then(in_order).zip(in_order(seq)) else {
            return Ok(());
        };
        if message.stamped.since(before.stamped) < stream.contract.period {
            return Ok(());
        }
        if !(seq + 1).is_multiple_of(every) {
            let topic = &stream.topic;
            return Err(format!("{topic} #{seq} was copied, and only every {every} messages one is"));
        }
        let begin = message.stamped + (deadlines.replication - lazy.budget);
        if local + lazy.window < begin {
            return Err(format!(
                "{} #{seq} was copied {} before it had to be, with a window of {}",
                stream.topic,
                begin.since(local),
                lazy.window
            ));
        }
        Ok(())
    }
}
