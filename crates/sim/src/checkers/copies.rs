//! A copy that was pruned is never dispatched; one that was not, always is when its holder comes to reign.
//!
//! Source: FRAME, table 3.3, A4 and A5. "Always" means before the new primary's queue is empty, if anybody
//! subscribes the topic, and as many of each stream as its ring keeps. Beyond what the guarantees assume, floods may
//! overwrite copies, and only the first half is checked.
//!
//! A message may be copied once more after its copy was pruned: the primary has overwritten it, and gets it again from a broker
//! that had forwarded it, long after. The prune was about the first copy; the second may be dispatched, and since everybody was
//! offered the message before, nobody depends on it.
//!
//! Where operators remember, a prune counts only for a backup that has been told what they remember: until then its own operators may have
//! to see the message.

use crate::ledger::{self, Ledger, Life, Receipt, Stream};
use crate::scenario::Scenario;
use broker::Broker;

pub(super) const NAME: &str = "copies";
pub(super) const STATEMENT: &str = "a pruned copy is never dispatched, one that was not always is";

#[derive(Clone)]
pub(super) struct Copies {
    /// Copies that a new primary has not dispatched yet.
    owed: [Vec<(u32, u64)>; 2],
    /// Copies that a backup keeps of every stream at least; those that came earlier give way.
    slots: usize,
    /// Nothing floods the rings or what waits for a subscriber, so that no copy has to give way.
    assumed: bool,
}

/// The newest messages of a stream among which copies are looked for.
const RECENT: u64 = 4_096;

impl Copies {
    pub(super) fn new(scenario: &Scenario) -> Copies {
        let limits = &scenario.limits;
        Copies {
            owed: Default::default(),
            slots: limits.backup_slots.max(limits.ring_slots_min),
            assumed: scenario.assumed,
        }
    }

    pub(super) fn dies(&mut self, host: usize) {
        self.owed[host].clear();
    }

    pub(super) fn promoted(&mut self, ledger: &Ledger, host: usize, life: Life) -> usize {
        self.owed[host].clear();
        if !self.assumed {
            return 0;
        }
        for (number, stream) in ledger.streams.iter().enumerate().filter(|(_, stream)| !stream.ended) {
            let next = stream.messages.len() as u64;
            let kept = self.slots.max(stream.contract.retain as usize + 2);
            let mut copies: Vec<(u32, u64, u16)> = (next.saturating_sub(RECENT)..next)
                .filter_map(|seq| {
                    let flags = stream.traces(host, life, seq);
                    let counts = flags & (ledger::COPY | ledger::PRUNED | ledger::DOUBTED) != 0;
                    counts.then_some((stream.came(host, seq), seq, flags))
                })
                .collect();
            // A ring keeps those that came last, be they older: a deposed broker forwards what it has kept. It keeps numbers that it is told
            // are done with as well.
            copies.sort_unstable_by(|first, second| second.cmp(first));
            for (_, seq, flags) in copies.into_iter().take(kept) {
                let done = ledger::PRUNED | ledger::PRUNED_BEFORE | ledger::DOUBTED | ledger::DISPATCHED;
                if flags & done == 0 {
                    self.owed[host].push((number as u32, seq));
                }
            }
        }
        self.owed[host].len()
    }

    pub(super) fn looks_at(
        &mut self,
        ledger: &Ledger,
        host: usize,
        life: Life,
        broker: &Broker,
    ) -> Result<(), String> {
        if self.owed[host].is_empty() || !broker.is_primary() || broker.occupancy().jobs > 0 {
            return Ok(());
        }
        for (number, seq) in std::mem::take(&mut self.owed[host]) {
            let Some(stream) = ledger.stream(number) else { continue };
            // A subscriber that is away has its share deferred, which nobody can see.
            let wants = |receipt: &Receipt| {
                receipt.wanted.last().is_some_and(|(from, to)| *from <= seq && to.is_none())
            };
            let wanted = stream.receipts.iter().flatten().any(wants);
            let dispatched = stream.traces(host, life, seq) & ledger::DISPATCHED != 0;
            if wanted && !dispatched && broker.occupancy().deferred == 0 {
                return Err(format!(
                    "the copy of {} #{seq} was neither pruned nor dispatched when its holder came to reign",
                    stream.topic
                ));
            }
        }
        Ok(())
    }
}

/// A broker runs the job of dispatching a message.
pub(super) fn dispatches(stream: &Stream, host: usize, life: Life, seq: u64) -> Result<(), String> {
    let flags = stream.traces(host, life, seq);
    if flags & ledger::PRUNED != 0 && flags & ledger::ARRIVED == 0 {
        return Err(format!("{} #{seq} was dispatched although its copy had been pruned", stream.topic));
    }
    Ok(())
}
