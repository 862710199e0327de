//! What is to be measured.

use clap::{Args, Parser, Subcommand, ValueEnum};
use contract::Span;
use std::path::PathBuf;

/// Loads a store as the tasks of one node, and reports what came of it as JSON.
#[derive(Parser)]
#[command(version)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Kinds of measurement.
#[derive(Subcommand)]
pub enum Command {
    /// Runs the tasks of one node. Says `ready`, and begins when it reads `begin`.
    Tasks(Tasks),
    /// Reads from the shared memory of a node, one key after the other, and measures each read.
    Reads(Reads),
    /// Jobs of the store's core on invented links of a stated speed; no processor time is counted.
    Links(Links),
}

/// Where values are.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `verge kv node`, by the official client.
    Verge,
    /// An instance of Redis for each node and lane, and a vote by the reader.
    Redis,
    /// A cluster of etcd, by its JSON gateway.
    Etcd,
}

/// What tasks there are.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// Controllers of inverted pendulums, 19 numbers each.
    Control,
    /// Four tasks of 50, 100, 200 and 1000 ms that share the keys.
    Automotive,
    /// One task that reads and writes all keys in each period.
    Uniform,
}

/// The tasks of one node.
#[derive(Args)]
pub struct Tasks {
    /// What is loaded.
    #[arg(long)]
    pub store: Kind,
    /// What with.
    #[arg(long)]
    pub load: Load,
    /// Where the store is. verge: the node's socket. etcd: the node's member. redis: for each lane the instances of all nodes, with
    /// commas, that of this node first.
    #[arg(long, required = true)]
    pub server: Vec<String>,
    /// Lanes, each with tasks of its own.
    #[arg(long, default_value_t = 1)]
    pub lanes: u16,
    /// Controllers in each lane.
    #[arg(long, default_value_t = 1)]
    pub tasks: usize,
    /// Keys in each lane, of the other loads.
    #[arg(long, default_value_t = 100)]
    pub keys: usize,
    /// The period of tasks, and of those of `automotive` the unit: 50 ms leaves theirs as they are.
    #[arg(long, default_value = "50ms")]
    pub period: Span,
    /// Iterations before this do not count.
    #[arg(long, default_value = "2s")]
    pub warm_up: Span,
    /// How long they count after that.
    #[arg(long, default_value = "10s")]
    pub measure: Span,
    /// Give a server one command at a time, instead of all of an iteration at once.
    #[arg(long)]
    pub single: bool,
    /// Write wrong values from SIGUSR1 on.
    #[arg(long)]
    pub may_lie: bool,
}

/// Reading alone.
#[derive(Args)]
pub struct Reads {
    /// The node's socket.
    #[arg(long)]
    pub socket: PathBuf,
    /// How many reads.
    #[arg(long, default_value_t = 1_000_000)]
    pub count: usize,
}

/// Virtual time.
#[derive(Args)]
pub struct Links {
    /// Nodes.
    #[arg(long, default_value_t = 4)]
    pub nodes: usize,
    /// How many of them may be faulty.
    #[arg(long, default_value_t = 1)]
    pub faults: usize,
    /// Keys, of which every node writes each in every job.
    #[arg(long, default_value_t = 100)]
    pub keys: usize,
    /// The period of jobs.
    #[arg(long, default_value = "50ms")]
    pub period: Span,
    /// What a link carries in each direction.
    #[arg(long, default_value_t = 100)]
    pub megabits: u64,
    /// From a node to another beside the time on the links: switch, drivers, kernels.
    #[arg(long, default_value = "200us")]
    pub latency: Span,
}
