//! A scenario in lines that a person can read.

use crate::scenario::{
    Act, ClockError, DeviceSpec, Fault, LastWrites, Pace, Scenario, Target, TopicSpec, When,
};
use contract::Span;
use std::fmt;

impl Scenario {
    /// What work costs, and how it is ordered.
    fn write_costs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scenario { true_costs, request_cost, supply, .. } = self;
        writeln!(
            f,
            "jobs cost {}, {}, {} (arrival, dispatch, copy), a turn {}, a read {}, a write {}, a request for a stream {request_cost}; {} % of a processor, blocking {}; {:?}, {:?}",
            true_costs.arrival,
            true_costs.dispatch,
            true_costs.replication,
            true_costs.turn,
            true_costs.io.tcp.read,
            true_costs.io.tcp.write,
            f64::from(supply.share_ppm) / 1e4,
            supply.blocking,
            self.policy,
            self.replication
        )
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scenario { delays, detection, .. } = self;
        writeln!(
            f,
            "for {}, {}; x {}, dPB {}, dBB {}; poll {} x {}, connect {}, retry {}",
            self.span,
            if self.assumed {
                "within what the guarantees assume"
            } else {
                "beyond what the guarantees assume"
            },
            delays.failover,
            delays.publisher_to_broker,
            delays.broker_to_broker,
            detection.poll,
            detection.misses,
            detection.connect,
            detection.retry
        )?;
        self.write_costs(f)?;
        writeln!(f, "a and b: {} apart, clocks {} and {}", self.pair, self.clocks[0], self.clocks[1])?;
        for spec in &self.publishers {
            writeln!(
                f,
                "{}: {} away, clock {}, starts at {}",
                spec.name, spec.latency, spec.clock, spec.starts
            )?;
            spec.topics.iter().try_for_each(|topic| writeln!(f, "  {topic}"))?;
        }
        for spec in &self.subscribers {
            let filters = spec.filters.join(" ");
            writeln!(
                f,
                "{}: {} away, clock {}, starts at {}: {filters}",
                spec.name, spec.latency, spec.clock, spec.starts
            )?;
        }
        self.devices.iter().try_for_each(|spec| write!(f, "{spec}"))?;
        for graph in &self.processing {
            let operators: Vec<String> = graph
                .operators
                .iter()
                .map(|operator| format!("{} of {}", operator.name, operator.inputs.join(", ")))
                .collect();
            let (workers, cost) = (self.workers, self.operator_cost);
            writeln!(f, "operators on {workers} workers, {cost} each: {}", operators.join("; "))?;
        }
        for (index, graphs) in self.later.iter().enumerate() {
            let operators = graphs.iter().flat_map(|graph| &graph.operators);
            let names: Vec<&str> = operators.map(|operator| operator.name.as_str()).collect();
            writeln!(f, "graphs {}: {}", index + 1, names.join("; "))?;
        }
        let usual = broker::Limits::default();
        if self.limits != usual {
            writeln!(f, "limits: {:?}", self.limits)?;
        }
        self.faults
            .iter()
            .enumerate()
            .try_for_each(|(index, fault)| writeln!(f, "fault {}: {fault}", index + 1))
    }
}

impl fmt::Display for ClockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == ClockError::default() {
            return f.write_str("right");
        }
        write!(f, "off by {} and {} ppb", self.offset, self.drift_ppb)
    }
}

impl fmt::Display for TopicSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stated = if self.stated { "" } else { ", as configured" };
        let pace = match self.pace {
            Pace::Periodic => String::new(),
            Pace::Sporadic(percent) => format!(", up to {} % slower", 2 * percent),
            Pace::Bursts(most) => format!(", in bursts of up to {most}"),
        };
        write!(f, "{}: {}{stated}{pace}, {} bytes", self.name, self.contract, self.payload_bytes)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.when {
            When::At(at) => write!(f, "at {at}, {}", self.act),
            When::Settled(after) => write!(f, "{after} after all is whole, {}", self.act),
            When::After(span) => write!(f, "{span} after that, {}", self.act),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Primary => f.write_str("the primary"),
            Target::Backup => f.write_str("the backup"),
            Target::Broker(index) => write!(f, "broker {}", ["a", "b"][(*index).min(1)]),
            Target::Publisher(index) => write!(f, "publisher {index}"),
            Target::Subscriber(index) => write!(f, "subscriber {index}"),
            Target::Device(index) => write!(f, "device {index}"),
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let back = |restart: &Option<Span>| match restart {
            Some(after) => format!(", and is back {after} later"),
            None => ", for good".to_owned(),
        };
        let names = |targets: &[Target]| targets.iter().map(Target::to_string).collect::<Vec<_>>().join(", ");
        match self {
            Act::Crash { target, writes: LastWrites::All, restart } => {
                write!(f, "{target} dies{}", back(restart))
            }
            Act::Crash { target, writes: LastWrites::Some(whole, share), restart } => write!(
                f,
                "{target} dies when it has written to {whole} connections and {share} % to the next{}",
                back(restart)
            ),
            Act::HostCrash { target, restart } => write!(f, "the host of {target} dies{}", back(restart)),
            Act::Pause { target, span } => write!(f, "{target} stands still for {span}"),
            Act::Partition { from, to, one_way, span } => {
                let way = if *one_way { "nothing passes from" } else { "nothing passes between" };
                write!(f, "{way} {} to {} for {span}", names(from), names(to))
            }
            Act::Break { from, to, delivers, half_open } => {
                let rest = if *delivers { "; what was under way still arrives" } else { "" };
                let told = if *half_open { "; only the first is told" } else { "" };
                write!(f, "the connections of {from} and {to} break{rest}{told}")
            }
            Act::Graphs { target, later } => write!(f, "{target} is given the graphs {}", later + 1),
            Act::Priorities { target, priority } => {
                write!(f, "{target} is given priority {priority} for topics")
            }
            Act::Handover => f.write_str("the operator hands over"),
            Act::ClockStep { target, by } => write!(f, "the clock of {target} is set by {by}"),
            Act::Slow { target, times, span } => write!(f, "{target} is {times} times as slow for {span}"),
        }
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let session = if self.lasts { "lasting" } else { "passing" };
        let filters: Vec<_> = self.filters.iter().map(|(filter, qos)| format!("{filter} ({qos})")).collect();
        writeln!(
            f,
            "{}: MQTT {:?}, a {session} session, {} away, clock {}, starts at {}, will {:?}: {}",
            self.name,
            self.version,
            self.latency,
            self.clock,
            self.starts,
            self.will,
            filters.join(" ")
        )?;
        for topic in &self.topics {
            let retain = if topic.retain { ", retained" } else { "" };
            writeln!(
                f,
                "  {}: QoS {}{retain}, every {}, {} bytes",
                topic.name, topic.qos, topic.period, topic.payload_bytes
            )?;
        }
        Ok(())
    }
}
