//! SIGUSR1: a line in the log that says how a broker is.

use super::observe::describe;
use crate::log::Lines;
use broker::Snapshot;

/// Says it.
pub fn say(snapshot: &Snapshot, lines: &Lines) {
    let (node, occupancy) = (&snapshot.node, &snapshot.occupancy);
    let [met, at_risk, broken, silent] = snapshot.states;
    let refused: u64 = snapshot.troubles.iter().map(|(_, count)| count).sum();
    lines.say(&format!(
        "status: {}; {met} contracts met, {at_risk} at risk, {broken} broken, {silent} silent; {} messages arrived, {} dispatched, {} late, {} dropped; \
         {} connections, {refused} refused or given up; {} bytes in rings",
        describe(snapshot),
        node.counters.arrived,
        node.counters.dispatched,
        node.counters.late,
        node.counters.dropped,
        occupancy.links,
        occupancy.store_bytes,
    ));
}
