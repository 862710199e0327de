//! What may be typed after `verge peer`, and what asks a peer.

use clap::{Args, Subcommand};
use contract::Span;

pub const EXAMPLES: &str = "\
Examples:
  verge peer run p1                  run peer p1, until SIGTERM
  verge peer status                  regions, their masters and members, as the configured peers see them
  verge announce 'drone, lidar'      offer something, and hear when somebody wants it
  verge interest 'drone, li*'        want something, and hear when it is there
  verge find 'drone, *'              what there is now

docs/peers.md is the manual.";

#[derive(Subcommand, Debug)]
pub enum PeerCommand {
    /// Run one peer, until SIGTERM.
    Run {
        /// Which of the configured peers.
        name: String,
        /// Run although other hosts may reach it: connections between peers are not encrypted, and nobody is asked who it is.
        #[arg(long)]
        insecure: bool,
    },
    /// How peers are: regions, masters, members. Exit code 1 where one does not answer, or is in no region.
    Status {
        /// A peer by its name, or where its HTTP is: host:port [default: all of the configuration].
        #[arg(long, value_name = "PEER")]
        peer: Option<String>,
    },
}

/// A peer that is asked.
#[derive(Args, Debug)]
pub struct PostArguments {
    /// Values of the dimensions of [space] with commas between, such as 'drone, lidar', or with their names: 'sensor=lidar'. What is wanted may
    /// have `*`, `li*`, `10..20`, and say where it is looked for: 'lat=40..41, long=-75..-74'.
    pub profile: String,
    /// A peer by its name, or where its HTTP is: host:port [default: the first of the configuration that answers].
    #[arg(long, value_name = "PEER")]
    pub peer: Option<String>,
}

#[derive(Args, Debug)]
pub struct FindArguments {
    #[command(flatten)]
    pub post: PostArguments,
    /// How long it is waited for what other peers say.
    #[arg(long, default_value = "500ms", value_name = "TIME")]
    pub wait: Span,
}
