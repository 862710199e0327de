//! What is simulated: a deployment, its workload, and what goes wrong. A scenario and a seed decide a run.

use broker::{Detection, Limits, Policy, Replication, TopicRule};
use contract::admission::Costs;
use contract::{Contract, Delays, Lazy, Links, Span, Supply};
use processing::GraphSpec;
use simulation::Latency;

/// How wrong a host's clock is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClockError {
    /// How far it is ahead at the beginning.
    pub offset: Span,
    /// Nanoseconds that it gains in a second.
    pub drift_ppb: i64,
}

/// When a publisher publishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// Once in every period, exactly.
    Periodic,
    /// Never faster than the period, and on average so many percent slower.
    Sporadic(u32),
    /// Once in every period, but so many messages at once now and then: a breach of contract.
    Bursts(u32),
}

/// A topic of one publisher.
#[derive(Clone, PartialEq, Debug)]
pub struct TopicSpec {
    /// Its name.
    pub name: String,
    /// Its contract.
    pub contract: Contract,
    /// Whether the publisher states it; else the brokers' configuration does.
    pub stated: bool,
    /// The length of its payloads; at least [`crate::PAYLOAD_BYTES_MIN`].
    pub payload_bytes: usize,
    /// When it is published.
    pub pace: Pace,
}

/// A client that publishes.
#[derive(Clone, PartialEq, Debug)]
pub struct PublisherSpec {
    /// Its name.
    pub name: String,
    /// What it publishes. Topics of one period go out together, in one write.
    pub topics: Vec<TopicSpec>,
    /// From it to the brokers, and back.
    pub latency: Latency,
    /// Its clock.
    pub clock: ClockError,
    /// When it starts.
    pub starts: Span,
}

/// A client that subscribes.
#[derive(Clone, PartialEq, Debug)]
pub struct SubscriberSpec {
    /// Its name.
    pub name: String,
    /// What it subscribes.
    pub filters: Vec<String>,
    /// Whether it asks for best effort.
    pub best_effort: bool,
    /// From the brokers to it, and back.
    pub latency: Latency,
    /// Its clock.
    pub clock: ClockError,
    /// When it starts.
    pub starts: Span,
}

/// A topic of a client that speaks MQTT.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceTopic {
    /// Its name; nobody else publishes it.
    pub name: String,
    /// 0, 1 or 2.
    pub qos: u8,
    /// Whether the newest message is kept for subscribers to come.
    pub retain: bool,
    /// The length of its payloads; at least [`crate::PAYLOAD_BYTES_MIN`].
    pub payload_bytes: usize,
    /// How often it is published.
    pub period: Span,
}

/// A client that speaks MQTT.
#[derive(Clone, PartialEq, Debug)]
pub struct DeviceSpec {
    /// Its name, which is its client identifier.
    pub name: String,
    /// What it speaks.
    pub version: mqtt::packet::Version,
    /// Its session outlives its connections.
    pub lasts: bool,
    /// What it publishes.
    pub topics: Vec<DeviceTopic>,
    /// What it subscribes, with the highest QoS that it wants.
    pub filters: Vec<(String, u8)>,
    /// The topic of its will, if it has one.
    pub will: Option<String>,
    /// From it to the brokers, and back.
    pub latency: Latency,
    /// Its clock.
    pub clock: ClockError,
    /// When it starts.
    pub starts: Span,
}

/// One of the hosts, by what it is at that moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The broker that reigns.
    Primary,
    /// The other one.
    Backup,
    /// A broker, by its place.
    Broker(usize),
    /// A publisher, by its place.
    Publisher(usize),
    /// A subscriber, by its place.
    Subscriber(usize),
    /// A client that speaks MQTT, by its place.
    Device(usize),
}

/// When something happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// So long after the beginning.
    At(Span),
    /// So long after everything is whole again: the pair is protected and all clients are connected.
    Settled(Span),
    /// So long after the fault before it.
    After(Span),
}

/// What of a process's last write reaches the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LastWrites {
    /// It dies between two turns.
    All,
    /// It dies during its next turn's writing: so many connections have been written to, and of the next only the
    /// given share, in percent.
    Some(u32, u32),
}

/// What goes wrong, or is done on purpose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act {
    /// The process dies. What it had handed to its kernel still leaves.
    Crash {
        /// Whose.
        target: Target,
        /// What of its last writes leaves.
        writes: LastWrites,
        /// When it is started again; never, if nothing is said.
        restart: Option<Span>,
    },
    /// The host dies, and whatever its kernel had not sent yet. Nobody is told.
    HostCrash {
        /// Which.
        target: Target,
        /// When it is back.
        restart: Option<Span>,
    },
    /// The process stands still, and its connections stay up.
    Pause {
        /// Whose.
        target: Target,
        /// How long.
        span: Span,
    },
    /// Nothing passes from the first group of hosts to the second, nor back unless `one_way`.
    Partition {
        /// One side.
        from: Vec<Target>,
        /// The other.
        to: Vec<Target>,
        /// Whether answers still pass.
        one_way: bool,
        /// How long.
        span: Span,
    },
    /// The connections between a client and a broker, or between the brokers, break.
    Break {
        /// One end.
        from: Target,
        /// The other.
        to: Target,
        /// Whether what was under way still arrives.
        delivers: bool,
        /// Whether only `from` learns of it; the other end learns when it sends.
        half_open: bool,
    },
    /// The operator hands over.
    Handover,
    /// A broker is told to read its configuration again, and finds other graphs of operators there. One that is dead finds them
    /// when it starts.
    Graphs {
        /// Which.
        target: Target,
        /// The new graphs, by their place among [`Scenario::later`].
        later: usize,
    },
    /// A broker is told to read its configuration again, and finds another priority for topics there that nobody states a contract of. All
    /// that is carried of them is planned anew; what they promise stays.
    Priorities {
        /// Which.
        target: Target,
        /// The priority.
        priority: u8,
    },
    /// Somebody sets a clock.
    ClockStep {
        /// Whose.
        target: Target,
        /// By how much; back if negative.
        by: Span,
    },
    /// A processor becomes slower.
    Slow {
        /// Whose.
        target: Target,
        /// How many times.
        times: u32,
        /// How long.
        span: Span,
    },
}

/// A fault and its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// When.
    pub when: When,
    /// What.
    pub act: Act,
}

/// A whole deployment and what happens to it.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// How long messages flow at least. Faults that wait for others lengthen it.
    pub span: Span,
    /// The deployment's delays, as configured.
    pub delays: Delays,
    /// The link classes, as configured.
    pub links: Links,
    /// What admission counts a job as.
    pub costs: Costs,
    /// What a job really costs.
    pub true_costs: Costs,
    /// What it takes to judge one request to carry a stream.
    pub request_cost: Span,
    /// What share of the processor admission gives out.
    pub supply: Supply,
    /// Whether schedulability is tested.
    pub schedulability: bool,
    /// Whether a subscription for which there is no time is served as best effort.
    pub best_effort_subscriptions: bool,
    /// In which order jobs are served.
    pub policy: Policy,
    /// When copies are made.
    pub replication: Replication,
    /// Failure detection.
    pub detection: Detection,
    /// The brokers' limits.
    pub limits: Limits,
    /// Contracts by filter, as configured.
    pub topics: Vec<TopicRule>,
    /// The brokers' clocks.
    pub clocks: [ClockError; 2],
    /// Between the brokers.
    pub pair: Latency,
    /// Of what passes between the brokers, so many of a million pieces are lost: a datagram for good, a segment of a connection until it
    /// is sent again.
    pub pair_loss_ppm: u32,
    /// Bytes that the kernels hold for one direction of one connection.
    pub window_bytes: usize,
    /// Publishers.
    pub publishers: Vec<PublisherSpec>,
    /// Subscribers.
    pub subscribers: Vec<SubscriberSpec>,
    /// Clients that speak MQTT. Where there are none, brokers do not serve it.
    pub devices: Vec<DeviceSpec>,
    /// The limits of what serves them.
    pub mqtt: mqtt::Limits,
    /// What operators do: graphs of the kinds `tag` and `mix`, which only simulations have.
    pub processing: Vec<GraphSpec>,
    /// What operators do later: each a whole set of graphs that takes the place of those before.
    pub later: Vec<Vec<GraphSpec>>,
    /// How many operators of one broker run at once.
    pub workers: usize,
    /// How often what an operator remembers is copied to the backup.
    pub snapshots: Span,
    /// How long a run of an operator takes.
    pub operator_cost: Latency,
    /// What goes wrong, in order.
    pub faults: Vec<Fault>,
    /// Whether everything stays within what the guarantees assume, so that every one of them must hold.
    pub assumed: bool,
}

impl Scenario {
    /// The contracts of its configuration, with another priority where one has been set.
    pub(crate) fn rules(&self, priority: Option<u8>) -> Vec<TopicRule> {
        let topics = || self.publishers.iter().flat_map(|publisher| &publisher.topics);
        let is_stated = |name: &str| topics().any(|topic| topic.stated && topic.name == name);
        let mut rules = self.topics.clone();
        for rule in rules.iter_mut().filter(|rule| !is_stated(rule.filter.as_str())) {
            rule.contract.priority = priority.unwrap_or(rule.contract.priority);
        }
        rules
    }

    /// All sets of graphs, those at the beginning first.
    pub(crate) fn plans(&self) -> impl Iterator<Item = &Vec<GraphSpec>> {
        std::iter::once(&self.processing).chain(&self.later)
    }

    /// Whether only what can be kept is admitted: not so with the baselines.
    pub(crate) fn refuses_what_does_not_fit(&self) -> bool {
        self.schedulability && self.policy.is_by_deadline() && self.replication.keeps_contracts()
    }

    /// How copies are made lazily, if they are.
    pub(crate) fn lazy(&self) -> Option<Lazy> {
        self.replication.lazy().filter(|_| self.policy.is_by_deadline())
    }
}
