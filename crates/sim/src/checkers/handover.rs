//! A planned handover loses nothing, whatever the contracts tolerate.
//!
//! Source: "planned handover moves the reign with nothing lost" (ARCHITECTURE, faults).

use super::served::Served;
use crate::ledger::Ledger;
use crate::scenario::Act;
use contract::{Span, Time};

pub(super) const NAME: &str = "handover";
pub(super) const STATEMENT: &str = "a handover loses nothing, not even what may be lost";

#[derive(Clone, Default)]
pub(super) struct Handover {
    /// From each handover until everything was whole again.
    windows: Vec<(Time, Option<Time>)>,
}

/// Messages are under way for no longer than this.
const UNDER_WAY: Span = Span::millis(500);

impl Handover {
    pub(super) fn fault_begins(&mut self, now: Time, act: &Act, whole: bool) {
        // What the next fault does to messages that are under way is not the handover's doing.
        self.windows.pop_if(|(_, to)| to.is_none());
        if let Some((_, Some(to))) = self.windows.last_mut() {
            *to = (*to).min(now - UNDER_WAY);
        }
        if whole && *act == Act::Handover {
            self.windows.push((now, None));
        }
    }

    pub(super) fn whole(&mut self, now: Time) {
        if let Some((_, to)) = self.windows.last_mut() {
            to.get_or_insert(now);
        }
    }

    pub(super) fn ends(&self, ledger: &Ledger, served: &Served) -> Result<(), (Time, String)> {
        for (from, to) in &self.windows {
            for stream in ledger.streams.iter().filter(|stream| !stream.refused) {
                let origin = ledger.origin_of(stream);
                let first = stream.messages.partition_point(|message| message.accepted < *from);
                let last =
                    stream.messages.partition_point(|message| to.is_none_or(|to| message.accepted < to));
                for (index, receipt) in stream.receipts.iter().enumerate() {
                    let Some(receipt) = receipt else { continue };
                    let wanted = |seq: u64| {
                        receipt.wanted.iter().any(|(from, to)| *from <= seq && to.is_none_or(|to| seq < to))
                    };
                    let missing = (first as u64..last as u64).find(|seq| {
                        wanted(*seq)
                            && !receipt.has(*seq)
                            && served.is_promised(ledger, stream, *seq)
                            && !receipt.excused.contains(seq)
                            && !stream.excused.contains(seq)
                            && !origin.excused.contains(seq)
                    });
                    if let Some(seq) = missing {
                        let name = &ledger.subscribers[index].name;
                        let about = stream.message(seq).map_or(*from, |message| message.accepted);
                        let what =
                            format!("{name} misses {} #{seq}, published during a handover", stream.topic);
                        return Err((about, what));
                    }
                }
            }
        }
        Ok(())
    }
}
