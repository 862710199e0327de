//! What a configuration means to a broker and to the threads of its operators.

use config::{AdmissionConfig, BrokerAddress, Config};
use contract::{NodeId, Span, Supply, Time};
use host::{Movers, PLACES_KEPT, Staffing};

/// The priority where the configuration says `auto`: above ordinary work, below the kernel's own threads.
pub const USUAL_PRIORITY: u8 = 50;
/// Results of one level that may wait for the data thread. It takes them before it waits for anything else.
const RESULTS: usize = 8_192;

/// What sets one run of a broker apart from every other.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Drawn at its start.
    pub node: NodeId,
    /// What its heartbeats are signed with, besides the pair's secret.
    pub nonce: wire::Nonce,
    /// When it started.
    pub started: Time,
}

/// What a broker is set up with on a host, apart from what it shares of memory (`memory.rs`).
pub fn settings(
    config: &Config,
    own: &BrokerAddress,
    has_peer: bool,
    host: &crate::Host,
    identity: Identity,
) -> broker::Settings {
    let Identity { node, nonce, started } = identity;
    broker::Settings {
        name: own.name.clone(),
        node,
        nonce,
        started,
        prefers_to_reign: own.starts_as_primary || !has_peer,
        has_peer,
        policy: config.policy,
        replication: config.replication,
        delays: config.delays,
        reassigned: config.reassigned(),
        links: config.links.clone(),
        costs: host.costs,
        supply: supply(&config.admission, host.held_up(config)),
        schedulability: config.admission.schedulability,
        best_effort_subscriptions: config.admission.best_effort_subscriptions,
        topics: config.topics.iter().map(|family| family.rule.clone()).collect(),
        detection: config.detection,
        limits: with_places_kept(host.limits),
    }
}

/// The share as admission counts it.
pub fn supply(admission: &AdmissionConfig, blocking: Span) -> Supply {
    Supply { share_ppm: (admission.share * 1e6) as u32, blocking }
}

/// Which threads run operators, on a host with so many processors. Without processors of their own they share those of the data thread.
pub fn staffing(config: &Config, there: usize) -> Staffing {
    let taken = &config.realtime.processors;
    // The data thread goes first wherever it is; one that stays on its processors leaves the others.
    let left: Vec<usize> = (0..there).filter(|processor| !taken.contains(processor)).collect();
    let processors = if taken.is_empty() || left.is_empty() { Vec::new() } else { left };
    let usual = if processors.is_empty() { there } else { processors.len() };
    let above = config.realtime.priority.unwrap_or(USUAL_PRIORITY);
    Staffing {
        levels: config.processing.levels,
        workers: config.processing.workers.unwrap_or(usual).max(1),
        priority: above.checked_sub(1).filter(|priority| *priority > 0),
        processors,
        inbox: config.processing.inbox,
        results: RESULTS,
        movers: Movers::Workers,
    }
}

/// The limits of a broker as its driver counts: clients of all protocols together. The partner and operators come on top.
fn with_places_kept(limits: broker::Limits) -> broker::Limits {
    broker::Limits { links: limits.links + PLACES_KEPT as usize, ..limits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_doors_keep_for_the_partner_and_for_admins_are_there_in_the_broker_too() {
        let config = config::testing::load("places", "limits.connections = 7\n");
        let host = crate::host::testing::host(&config);
        let identity = Identity { node: NodeId(1), nonce: [0; 16], started: Time::ZERO };
        let settings = settings(&config, &config.brokers[0], true, &host, identity);
        assert_eq!(settings.limits.links, config.limits.links + PLACES_KEPT as usize);
    }
}
