//! What is to be measured.

use crate::account::HEAD_BYTES;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::net::SocketAddr;

/// Loads a broker and reports what came of it as JSON.
#[derive(Parser)]
#[command(version)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Kinds of load.
#[derive(Subcommand)]
pub enum Command {
    /// One message goes there and back, again and again: round trips.
    Pingpong(Pingpong),
    /// One publisher, one subscriber, as many messages as go.
    Flood(Flood),
    /// One publisher, several subscribers.
    Fanout(Fanout),
    /// Ten urgent topics at 10 Hz while one publisher sends as much as the broker takes.
    Urgent(Urgent),
    /// The workload of FRAME, table 3.2.
    Frame(Frame),
    /// The most urgent category of FRAME, table 3.2, while somebody else ends a broker.
    Crash(Crash),
    /// One end of a load: publishes topics that take turns until its input ends, and says how many messages each had.
    Publish(Publish),
    /// The other end: receives until its input ends, and says what came; each gap at once, as a line of its own.
    Receive(Receive),
    /// How long a message takes over a bare connection of this host and back, halved.
    Echo(Echo),
    /// What clients of Verge ask besides carrying messages, beside a load that another process makes.
    Commands(Commands),
    /// How long it takes to register topics and to subscribe each of them, on a broker of Verge that has nothing else to do.
    SetUp(SetUp),
    /// The floor: hands the bytes of a publisher to its subscribers, and looks at none.
    Relay {
        /// Where.
        #[arg(long)]
        listen: SocketAddr,
        /// Keep the last messages of each topic, and hand them on by deadline: the least that a broker with deadlines does.
        #[arg(long)]
        keep: bool,
    },
}

/// What is spoken.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// The own protocol, by the official client.
    Verge,
    /// MQTT 3.1.1, QoS 0.
    Mqtt,
    /// The text protocol of NATS.
    Nats,
    /// Streams of Redis: XADD, XREAD.
    Redis,
    /// The protocol of Zenoh, by its Rust client; see `bench/peers/zenoh`.
    Zenoh,
    /// Lengths and bytes.
    Relay,
}

/// Of every load.
#[derive(Args, Clone)]
pub struct Common {
    /// What the broker speaks.
    #[arg(long)]
    pub protocol: Protocol,
    /// Where it listens; for a pair both, divided by a comma.
    #[arg(long)]
    pub broker: String,
    /// Its process.
    #[arg(long, default_value_t = 0)]
    pub pid: u32,
    /// The payload.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(HEAD_BYTES..=1_000_000))]
    pub bytes: u32,
    /// Before anything counts, in seconds.
    #[arg(long, default_value_t = 1.0)]
    pub warm_up: f64,
    /// What counts.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Keep every processor from sleeping, with a thread that runs when nothing else does.
    #[arg(long)]
    pub awake: bool,
}

impl Common {
    /// The payload.
    pub fn bytes(&self) -> usize {
        self.bytes as usize
    }
}

/// Round trips.
#[derive(Args)]
pub struct Pingpong {
    /// What every load has.
    #[command(flatten)]
    pub common: Common,
}

/// As many as go.
#[derive(Args)]
pub struct Flood {
    /// What every load has.
    #[command(flatten)]
    pub common: Common,
    /// Messages that may be on their way; 0: as many as the connection takes. By default 4 MiB of them, at most 65536.
    #[arg(long)]
    pub window: Option<u64>,
}

/// To several subscribers.
#[derive(Args)]
pub struct Fanout {
    /// What every load has.
    #[command(flatten)]
    pub common: Common,
    /// How many.
    #[arg(long, default_value_t = 10)]
    pub subscribers: usize,
    /// Messages per second; 0: as many as go.
    #[arg(long, default_value_t = 1000)]
    pub rate: u64,
    /// As for `flood`.
    #[arg(long)]
    pub window: Option<u64>,
}

/// Urgent beside bulk.
#[derive(Args)]
pub struct Urgent {
    /// What every load has.
    #[command(flatten)]
    pub common: Common,
    /// Urgent topics.
    #[arg(long, default_value_t = 10)]
    pub topics: u32,
    /// Messages of each per second.
    #[arg(long, default_value_t = 10)]
    pub rate: u64,
    /// The payload of bulk messages.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(HEAD_BYTES..=1_000_000))]
    pub bulk_bytes: u32,
    /// Bulk messages that may be on their way; 0: as many as the connection takes.
    #[arg(long, default_value_t = 0)]
    pub bulk_window: u64,
    /// SCHED_FIFO priority of the threads of urgent messages, above the one of the others; 0: the same as they.
    #[arg(long, default_value_t = 0)]
    pub urgent_priority: u8,
}

/// FRAME, table 3.2.
#[derive(Args)]
pub struct Frame {
    /// What every load has.
    #[command(flatten)]
    pub common: Common,
    /// As near to this number as the table allows.
    #[arg(long, default_value_t = 1525, value_parser = clap::value_parser!(u32).range(28..))]
    pub topics: u32,
}

/// Filters, topics and clients, all at once.
#[derive(Args)]
pub struct Commands {
    /// Where the broker listens.
    #[arg(long)]
    pub broker: SocketAddr,
    /// Where clients of MQTT reach it.
    #[arg(long)]
    pub mqtt: Option<SocketAddr>,
    /// Exact filters that are subscribed.
    #[arg(long, default_value_t = 10_000)]
    pub filters: u32,
    /// Topics that are registered and ended again and again.
    #[arg(long, default_value_t = 5_000)]
    pub topics: u32,
    /// Clients of MQTT that come and go.
    #[arg(long, default_value_t = 1_000)]
    pub clients_per_second: u32,
    /// For how long.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
}

/// Topics, and a filter for each.
#[derive(Args)]
pub struct SetUp {
    /// Where the broker listens.
    #[arg(long)]
    pub broker: SocketAddr,
    /// How many.
    #[arg(long, default_value_t = 13_525)]
    pub topics: u32,
}

/// Every message of a few topics.
#[derive(Args)]
pub struct Crash {
    /// What every load has.
    #[command(flatten)]
    pub common: Common,
    /// How many.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub topics: u32,
    /// Of each, in milliseconds.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    pub period_ms: u64,
}

/// Topics `NAME/0`, `NAME/1`, ..., of which each publishes and receives in a process of its own.
#[derive(Args)]
pub struct Ends {
    /// What every load has.
    #[command(flatten)]
    pub common: Common,
    /// How many.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub topics: u32,
    /// What stands before their numbers.
    #[arg(long, default_value = "t")]
    pub name: String,
    /// Of each, in milliseconds.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    pub period_ms: u64,
}

/// The end that publishes.
#[derive(Args)]
pub struct Publish {
    /// What both ends have.
    #[command(flatten)]
    pub ends: Ends,
    /// The promise, where the broker knows of promises.
    #[arg(long, default_value_t = 1_000)]
    pub deadline_ms: u64,
    /// Messages that the publisher keeps.
    #[arg(long, default_value_t = 20)]
    pub retain: u32,
}

/// The end that receives.
#[derive(Args)]
pub struct Receive {
    /// What both ends have.
    #[command(flatten)]
    pub ends: Ends,
    /// What was missed comes with this before its topic.
    #[arg(long)]
    pub missed: Option<String>,
}

/// A bare connection.
#[derive(Args)]
pub struct Echo {
    /// Messages per second.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub rate: u64,
    /// For how long.
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
}
