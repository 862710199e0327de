//! What may be typed after `verge dds`.

use super::BrokerArguments;
use clap::{Args, Subcommand};
use contract::{Span, TopicFilter};

/// What is done with a domain of DDS.
#[derive(Subcommand, Debug)]
pub enum DdsCommand {
    /// Bridge a domain of DDS: its readers hear the writers of domains that are bridged elsewhere, and the other way round. Until SIGTERM.
    /// Which network it uses is said as for every program of Cyclone DDS, in CYCLONEDDS_URI.
    Bridge(BridgeArguments),
    /// Show which bridges there are, and which writer is heard by whom, or why not. Exit code 0 only if one serves, each has a name of its
    /// own and has said what it sees, and every reader hears every writer of its topic and partitions.
    Status {
        #[command(flatten)]
        brokers: BrokerArguments,
        /// The number of the domain among bridges (`--as` of theirs).
        #[arg(long, short = 'd', visible_alias = "as", default_value_t = 0)]
        domain: u32,
        /// Show all columns, also where they do not fit the terminal.
        #[arg(long)]
        wide: bool,
    },
}

impl DdsCommand {
    pub fn brokers_mut(&mut self) -> &mut BrokerArguments {
        match self {
            DdsCommand::Bridge(arguments) => &mut arguments.brokers,
            DdsCommand::Status { brokers, .. } => brokers,
        }
    }
}

#[derive(Args, Debug)]
pub struct BridgeArguments {
    #[command(flatten)]
    pub brokers: BrokerArguments,
    /// The domain of DDS.
    #[arg(long, short = 'd', default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=230))]
    pub domain: u32,
    /// The number of the domain among bridges, where domains of different numbers are to be one [default: that of --domain].
    #[arg(long = "as", value_name = "DOMAIN")]
    pub known_as: Option<u32>,
    /// The bridge's name, which no other bridge has, here or at another site [default: HOST-DOMAIN, with this host's name].
    #[arg(long, short = 'i', value_name = "NAME")]
    pub id: Option<String>,
    /// Bridge these alone, as PARTITION/TOPIC with wildcards: '-/rt/#' is all below rt/ without a partition. Give it several times for several.
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    pub only: Vec<TopicFilter>,
    /// Bridge all but these.
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    pub except: Vec<TopicFilter>,
    /// Publish these also while no reader of DDS elsewhere wants them, for subscribers of Verge.
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    pub publish: Vec<TopicFilter>,
    /// After so long without a word of another bridge its writers are taken to be gone.
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub lease: Span,
    /// The least time between two samples of a reliable topic, where the brokers' configuration has no contract for it. A topic that comes
    /// faster is told.
    #[arg(long, value_name = "TIME", default_value = "50ms")]
    pub period: Span,
}
