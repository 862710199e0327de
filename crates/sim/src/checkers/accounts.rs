//! What a subscriber counts as received, lost and late is what it was.
//!
//! Source: no loss goes unreported. What is missing between the message that came first and the last one must be counted;
//! what is missing before that may be. A message that comes long after it was given up counts as both. A result that was not
//! promised, since graphs changed, may be missing without being counted: its stream begins with the first that is made, and
//! older messages may still come to the operators after that one.

use super::served::Served;
use crate::ledger::Ledger;
use endpoint::StreamAccount;

pub(super) const NAME: &str = "accounts";
pub(super) const STATEMENT: &str = "a subscriber's account of received, lost and late messages is true";

/// Numbers that came and did not, of one or more lives of a publisher.
#[derive(Clone, Copy, Debug, Default)]
struct Truth {
    received: u64,
    late: u64,
    /// Messages that came after they had been given up.
    overdue: u64,
    /// Missing after the one that came first, up to the last, although they were promised, and the longest run of them.
    between: [u64; 2],
    /// All that are missing from the beginning of the stream on.
    at_most: [u64; 2],
}

/// The subscriber's life is over, or the run: every gap has been judged.
pub(super) fn agrees(
    ledger: &Ledger,
    served: &Served,
    subscriber: usize,
    publisher: usize,
    account: &StreamAccount<'_>,
) -> Result<(), String> {
    if ledger.joined.iter().any(|(topic, ..)| topic == account.topic) {
        // Their numbers are those of one of the messages that they are made of, with gaps; see `operators`.
        return Ok(());
    }
    let mut truth = Truth::default();
    let lives = ledger.streams.iter().filter(|s| s.host == publisher && s.topic == account.topic);
    for (stream, receipt) in lives.filter_map(|stream| Some((stream, stream.receipts[subscriber].as_ref()?)))
    {
        truth.received += receipt.received();
        truth.late += receipt.called_late;
        truth.overdue += receipt.overdue;
        let began = receipt.began.unwrap_or(u64::MAX);
        // What is missing at the end is not known to be lost, so a gap counts when something has come after it.
        let (mut run, mut certain, mut gap) = (0, 0, [0; 2]);
        for (seq, has) in (0..).zip(receipt.had_in_this_life()) {
            if has {
                add_run(&mut truth.at_most, std::mem::take(&mut run));
                add_run(&mut gap, std::mem::take(&mut certain));
                let [missing, longest] = std::mem::take(&mut gap);
                truth.between = [truth.between[0] + missing, truth.between[1].max(longest)];
                continue;
            }
            run += 1;
            if seq > began && served.is_promised(ledger, stream, seq) {
                certain += 1;
            } else {
                add_run(&mut gap, std::mem::take(&mut certain));
            }
        }
    }
    let tally = account.tally;
    let says = [tally.received(), tally.lost(), tally.longest_run(), account.late];
    let lost = truth.between[0]..=truth.at_most[0] + truth.overdue;
    let longest = if truth.overdue > 0 { u64::MAX } else { truth.at_most[1] };
    let holds = says[0] == truth.received
        && lost.contains(&says[1])
        && (truth.between[1]..=longest).contains(&says[2])
        && says[3] == truth.late;
    if holds {
        return Ok(());
    }
    let name = &ledger.subscribers[subscriber].name;
    Err(format!(
        "{name} counts {} messages of {} as received, {} as lost, {} of them in a row, {} as late; the truth is {truth:?}",
        says[0], account.topic, says[1], says[2], says[3]
    ))
}

fn add_run([missing, longest]: &mut [u64; 2], run: u64) {
    *missing += run;
    *longest = (*longest).max(run);
}
