//! How the demo's brokers are configured.

use crate::workload::Table;
use clap::ValueEnum;
use std::fmt::Write;
use std::net::TcpListener;

/// The configurations that FRAME compares in §3.6.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Earliest deadline first, and copies as soon as nothing more urgent waits, where the contract needs them.
    Frame,
    /// The same, and publishers retain one message more where copies would be needed.
    #[value(name = "frame+")]
    FramePlus,
    /// First come first served; everything is copied before it is dispatched, and copies are pruned.
    Fcfs,
    /// The same without pruning.
    #[value(name = "fcfs-")]
    FcfsMinus,
}

impl Policy {
    /// Its name as it is typed.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// What the brokers are told. Copies are made when they are due by the order of jobs, as in FRAME §3.4.
    fn lines(self) -> String {
        let scheduling = match self {
            Policy::Frame | Policy::FramePlus => "frame",
            Policy::Fcfs => "fcfs",
            Policy::FcfsMinus => "fcfs-minus",
        };
        // What is measured goes up to where it breaks, beyond what would be admitted.
        format!(
            "[scheduling]\npolicy = \"{scheduling}\"\n[replication]\npolicy = \"eager\"\n[admission]\nschedulability = false\n"
        )
    }
}

/// The workload of a policy.
pub fn table(policy: Option<Policy>) -> Table {
    match policy {
        Some(Policy::FramePlus) => Table::DeliveryPlus,
        _ => Table::Delivery,
    }
}

/// Streams besides those of the workload: the columns of a recording.
const OTHER_STREAMS: u32 = 4_096;
/// What a broker carries if it is not told.
const STREAMS_DEFAULT: u32 = 65_536;

/// The configuration of both brokers: a pair at these ports.
pub fn configuration(ports: [u16; 4], topics: u32, policy: Option<Policy>) -> String {
    let [a, a_pair, b, b_pair] = ports;
    let mut text = format!(
        "[brokers.a]\nclients = \"127.0.0.1:{a}\"\npair = \"127.0.0.1:{a_pair}\"\nstart_as = \"primary\"\n\
         [brokers.b]\nclients = \"127.0.0.1:{b}\"\npair = \"127.0.0.1:{b_pair}\"\nstart_as = \"backup\"\n"
    );
    text.extend(policy.map(Policy::lines));
    let streams = topics.saturating_add(OTHER_STREAMS);
    if streams > STREAMS_DEFAULT {
        let _ = write!(text, "[limits]\nstreams = {streams}\n");
    }
    text
}

/// Ports that nobody uses at the moment.
pub fn free_ports<const N: usize>() -> std::io::Result<[u16; N]> {
    let mut ports = [0; N];
    let mut held = Vec::new();
    for port in &mut ports {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;
    use broker::Replication;
    use config::{Config, testing::load};

    fn loaded(policy: Option<Policy>, topics: u32) -> Config {
        load("demo", &configuration([7000, 7001, 7002, 7003], topics, policy))
    }

    #[test]
    fn every_policy_is_a_valid_configuration_and_says_what_it_should() {
        let orders = |policy| {
            let config = loaded(Some(policy), 1_525);
            assert_eq!(config.replication, Replication::Eager);
            config.policy
        };
        assert_eq!(orders(Policy::Frame), broker::Policy::Frame);
        assert_eq!(orders(Policy::FramePlus), broker::Policy::Frame);
        assert_eq!(orders(Policy::Fcfs), broker::Policy::Fcfs);
        assert_eq!(orders(Policy::FcfsMinus), broker::Policy::FcfsMinus);
    }

    #[test]
    fn without_a_policy_brokers_are_as_shipped_and_carry_what_is_asked() {
        let (small, large) = (loaded(None, 1_525), loaded(None, 120_025));
        assert!(matches!(small.replication, Replication::Lazy(_)));
        assert_eq!(small.limits.streams, 65_536);
        assert!(large.limits.streams > 120_025);
    }
}
