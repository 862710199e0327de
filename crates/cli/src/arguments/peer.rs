//! What may be typed after `verge peer`, and what asks a peer.

use super::{BrokerArguments, seconds_or_span};
use crate::commands::subscribe::Pattern;
use clap::{Args, Subcommand};
use contract::Span;
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
Examples:
  verge peer run p1                  run peer p1, until SIGTERM
  verge peer status                  regions, their masters and members, as the configured peers see them
  verge announce 'drone, lidar'      offer something, and hear when somebody wants it
  verge interest 'drone, li*'        want something, and hear when it is there
  verge find 'drone, *'              what there is now
  sensor | verge announce 'drone, lidar; period=50ms' --lines
                                     publish each line while somebody wants it
  verge interest 'drone, li*; deadline=100ms, loss=0' --subscribe
                                     print what comes

docs/peers.md is the manual.";

#[derive(Subcommand, Debug)]
pub enum PeerCommand {
    /// Run one peer, until SIGTERM.
    Run {
        /// Which of the configured peers.
        name: String,
        /// Run although other hosts may reach what nobody is asked at who it is: `address` without overlay.tls, or `http`.
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
    /// have `*`, `li*`, `10..20`, and say where it is looked for: 'lat=40..41, long=-75..-74'. Behind `;` stands what is said of messages.
    pub profile: String,
    /// A peer by its name, or where its HTTP is: host:port [default: the first of the configuration that answers].
    #[arg(long, value_name = "PEER")]
    pub peer: Option<String>,
}

pub const STORE_EXAMPLES: &str = "\
Examples:
  verge store put 'drone, lidar' -m 0.271        keep a value under a profile
  verge store put 'drone, image' -f last.png --lasts 1h
  verge store get 'drone, lidar'
  verge store query 'drone, *'                   what is kept that is so
  verge store query 'drone, lat=40..41' --values -o json
  verge store delete 'drone, lidar'

docs/peers.md is the manual.";

#[derive(Subcommand, Debug)]
pub enum StoreCommand {
    /// Keep a value under a profile, in place of what is there. Exit code 0 when the peers that have to have it have it on disk.
    Put {
        /// What it is.
        profile: String,
        /// The value.
        #[arg(long, short = 'm', value_name = "TEXT", group = "content")]
        message: Option<String>,
        /// A file with the value.
        #[arg(long, short = 'f', value_name = "FILE", group = "content")]
        file: Option<PathBuf>,
        /// All of the standard input is the value [default].
        #[arg(long, short = 's', group = "content")]
        stdin: bool,
        /// How long it lasts [default: until it is deleted].
        #[arg(long, value_name = "TIME")]
        lasts: Option<Span>,
        #[command(flatten)]
        at: AtPeer,
    },
    /// Write a value to the standard output, as it is. Exit code 1 if nothing is there.
    Get {
        /// What it is.
        profile: String,
        #[command(flatten)]
        at: AtPeer,
    },
    /// Show what is kept that is as said. Exit code 1 if that is nothing.
    Query {
        /// What it has to be, as in `verge interest`.
        interest: String,
        /// How many at most.
        #[arg(long, value_name = "N", default_value_t = 1_000)]
        limit: usize,
        /// Only those behind this, which an answer has said.
        #[arg(long, value_name = "NEXT")]
        after: Option<String>,
        /// Show values.
        #[arg(long)]
        values: bool,
        #[command(flatten)]
        at: AtPeer,
    },
    /// Delete what is kept under a profile.
    Delete {
        /// What it is.
        profile: String,
        #[command(flatten)]
        at: AtPeer,
    },
}

/// Which peer is asked.
#[derive(Args, Debug)]
pub struct AtPeer {
    /// A peer by its name, or where its HTTP is: host:port [default: the first of the configuration that answers].
    #[arg(long, value_name = "PEER")]
    pub peer: Option<String>,
}

#[derive(Args, Debug)]
pub struct AnnounceArguments {
    #[command(flatten)]
    pub post: PostArguments,
    #[command(flatten)]
    pub brokers: BrokerArguments,
    /// Every line of the standard input is a message: it is published while somebody wants it.
    #[arg(long, short = 'l')]
    pub lines: bool,
    /// The publisher's name, which must be its own [default: made up].
    #[arg(long, short = 'i', value_name = "NAME", requires = "lines")]
    pub id: Option<String>,
}

#[derive(Args, Debug)]
pub struct InterestArguments {
    #[command(flatten)]
    pub post: PostArguments,
    #[command(flatten)]
    pub brokers: BrokerArguments,
    /// Print the messages of what is there, as `verge sub` does.
    #[arg(long, short = 's')]
    pub subscribe: bool,
    /// Print the topic before each message.
    #[arg(long, short = 'v', requires = "subscribe")]
    pub verbose: bool,
    /// Print each message so, as `verge sub` does.
    #[arg(
        long = "print",
        short = 'F',
        value_name = "FORMAT",
        conflicts_with = "verbose",
        requires = "subscribe"
    )]
    pub pattern: Option<Pattern>,
    /// End after so many messages.
    #[arg(long, short = 'C', value_name = "N", requires = "subscribe")]
    pub count: Option<u64>,
    /// End after so long (`2` and `2s` are seconds); exit code 1 if nothing came.
    #[arg(long, short = 'W', value_name = "SECONDS", value_parser = seconds_or_span, requires = "subscribe")]
    pub wait: Option<Span>,
    /// The subscriber's name, which must be its own [default: made up].
    #[arg(long, short = 'i', value_name = "NAME", requires = "subscribe")]
    pub id: Option<String>,
}

#[derive(Args, Debug)]
pub struct FindArguments {
    #[command(flatten)]
    pub post: PostArguments,
    /// How long it is waited for what other peers say.
    #[arg(long, default_value = "500ms", value_name = "TIME")]
    pub wait: Span,
}
