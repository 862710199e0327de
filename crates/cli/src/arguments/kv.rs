//! What may be typed after `verge kv`.

use clap::{Args, Subcommand};
use contract::Span;
use demos::pendulum::KvDemoArguments;
use node::talk::At;
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
Examples:
  verge kv check verge.toml          do the tasks and the store fit into their periods
  verge kv secrets keys/             a file with the keys of its links for each node
  verge kv node a                    run node a, until SIGTERM
  verge kv put pendulum/angle 0.25   propose a value, at all nodes of this host
  verge kv get pendulum/angle        what is visible now
  verge kv watch 'pendulum/#'        whatever becomes visible
  verge kv status                    do the nodes agree, who is silent, who lies
  verge kv demo                      four replicas balance a pendulum, and one of them lies
  verge kv sim --seeds 1000          1000 invented clusters with liars, in search of a broken promise

docs/kv.md is the manual.";

#[derive(Subcommand, Debug)]
pub enum KvCommand {
    /// Run one node, until SIGTERM.
    Node {
        /// Which of the configured nodes.
        name: String,
        /// Run although links have no secret keys and nodes are reached beyond this host.
        #[arg(long)]
        insecure: bool,
        /// Begin with an empty store: nothing was agreed on before. Not heeded where others run.
        #[arg(long)]
        found: bool,
        /// Lie from SIGUSR1 on, for demonstrations.
        #[arg(long, hide = true)]
        may_lie: bool,
    },
    /// Print the value of a key that is visible now.
    Get {
        /// The key.
        key: String,
        #[command(flatten)]
        at: AtArguments,
        /// The oldest value that will do, as in 100ms [default: any].
        #[arg(long, value_name = "AGE")]
        age: Option<Span>,
        /// Show what the value was made of: who proposed what. The lane must keep that (`vectors`).
        #[arg(long)]
        vector: bool,
    },
    /// Propose a value, at all nodes of this host or at one, and wait until it is visible.
    Put {
        /// The key.
        key: String,
        /// The value: a number where the key votes on numbers, text otherwise.
        #[arg(allow_hyphen_values = true)]
        value: String,
        #[command(flatten)]
        at: AtArguments,
        /// When it is to be visible, from now [default: two periods after the next release].
        #[arg(long = "in", value_name = "SPAN")]
        within: Option<Span>,
    },
    /// Print values when they become visible.
    Watch {
        /// Filters of keys, as in 'pendulum/#'.
        #[arg(default_value = "#")]
        filters: Vec<String>,
        #[command(flatten)]
        at: AtArguments,
        /// End after so many values.
        #[arg(short = 'C', long, value_name = "COUNT")]
        count: Option<u64>,
    },
    /// Say whether tasks and store fit into their periods, with costs measured on this host.
    Check {
        /// The configuration to check.
        file: Option<PathBuf>,
    },
    /// Show whether nodes agree, who is silent and who lies.
    Status {
        #[command(flatten)]
        at: AtArguments,
        /// Show it again every second.
        #[arg(long, short = 'w')]
        watch: bool,
    },
    /// Balance a pendulum with four replicas of its controller, one of which lies, with the store and without.
    Demo(KvDemoArguments),
    /// Make the keys of all links: a file for each node, to be copied to its host.
    Secrets {
        /// The folder for the files.
        folder: PathBuf,
    },
    /// Make up clusters and faults from seeds, and look for broken promises.
    Sim(SimArguments),
}

/// Which clusters are made up.
#[derive(Args, Debug, Clone)]
pub struct SimArguments {
    /// How many runs, each from a seed of its own [default: 100, and 1 with --trace].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: Option<u64>,
    /// The first seed; the others follow.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// More faults than are tolerated, and frames that come late; only what holds whatever others do is demanded then.
    #[arg(long)]
    pub beyond: bool,
    /// Run every seed twice; both runs must be the same, step by step.
    #[arg(long)]
    pub twice: bool,
    /// Tell the story of one run; of one that breaks a promise, of the smallest that does.
    #[arg(long)]
    pub trace: bool,
    /// Runs at a time [default: one per processor].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
}

impl AtArguments {
    /// What that means.
    pub fn at(&self) -> At {
        At { node: self.node.clone(), socket: self.socket.clone(), lane: self.lane }
    }
}

/// Which node is asked.
#[derive(Args, Debug, Clone, Default)]
pub struct AtArguments {
    /// Ask this configured node [default: all of them on this host].
    #[arg(long, short = 'n', value_name = "NAME")]
    pub node: Option<String>,
    /// Ask the node with this socket; no configuration is needed then.
    #[arg(long, value_name = "PATH", conflicts_with = "node")]
    pub socket: Option<PathBuf>,
    /// The lane.
    #[arg(long, default_value_t = 0)]
    pub lane: u16,
}
