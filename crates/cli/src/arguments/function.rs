//! What may be typed after `verge function`.

use super::peer::AtPeer;
use clap::Subcommand;
use contract::Span;
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
Examples:
  verge function add mean mean.toml     have peers run what a file says, in place of what runs as `mean`
  verge function list                   what there is, where it runs, what it has done
  verge function start mean --for 10min let one run that has `runs = \"asked\"`
  verge function stop mean
  verge function trace mean             what has become of the last messages
  verge function remove mean

docs/functions.md is the manual.";

#[derive(Subcommand, Debug)]
pub enum FunctionCommand {
    /// Have peers run a function, in place of the one of the same name.
    Add {
        /// What it is called.
        name: String,
        /// The file that says what it is (docs/functions.md).
        file: PathBuf,
        #[command(flatten)]
        at: AtPeer,
    },
    /// Show functions, rules among them, where they run, and what they have done. Exit code 1 where some do not run that should.
    List {
        #[command(flatten)]
        at: AtPeer,
    },
    /// Let a function run that runs only when it is asked to.
    Start {
        /// What it is called.
        name: String,
        /// For how long [default: until it is stopped].
        #[arg(long = "for", value_name = "TIME")]
        lasts: Option<Span>,
        #[command(flatten)]
        at: AtPeer,
    },
    /// Stop such a function.
    Stop {
        /// What it is called.
        name: String,
        #[command(flatten)]
        at: AtPeer,
    },
    /// Show what has become of the last messages. Exit code 1 if there were none.
    Trace {
        /// What it is called.
        name: String,
        /// How many messages, up to 64.
        #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
        last: usize,
        #[command(flatten)]
        at: AtPeer,
    },
    /// Remove a function. Exit code 1 if there was none.
    Remove {
        /// What it is called.
        name: String,
        #[command(flatten)]
        at: AtPeer,
    },
}
