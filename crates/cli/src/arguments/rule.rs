//! What may be typed after `verge rule`.

use super::peer::AtPeer;
use clap::{Args, Subcommand};
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
Examples:
  verge rule test --if 'level > 90 AND NOT pump.on' -m '{\"level\": 95, \"pump\": {\"on\": false}}'
                                     whether it would fire, and why not
  verge rule add tanks tanks.toml    have peers run the rules of a file, in place of those they run as `tanks`
  verge rule add hot --on 'motor, temp*' --if 'value > 90' --every 10s --alarm
                                     the same for a single rule
  verge rule list                    which rules there are, where they run, how often they have fired
  verge rule trace tanks             what they have made of the last messages, and why
  verge rule remove tanks

docs/rules.md is the manual.";

#[derive(Subcommand, Debug)]
pub enum RuleCommand {
    /// Have peers run rules, in place of those of the same name.
    Add {
        /// What the rules are called together.
        name: String,
        #[command(flatten)]
        rules: RuleArguments,
        #[command(flatten)]
        at: AtPeer,
    },
    /// Say of each message which rule would fire, and why the others would not. Exit code 1 if none would for any message.
    Test {
        #[command(flatten)]
        rules: RuleArguments,
        /// The message [default: each line of the standard input].
        #[arg(long, short = 'm', value_name = "TEXT")]
        message: Option<String>,
    },
    /// Show rules, where they run, and what they have done. Exit code 1 where some do not run.
    List {
        #[command(flatten)]
        at: AtPeer,
    },
    /// Remove rules. Exit code 1 if there were none.
    Remove {
        /// What they are called together.
        name: String,
        #[command(flatten)]
        at: AtPeer,
    },
    /// Show what rules have made of the last messages, and why. Exit code 1 if there were none.
    Trace {
        /// What they are called together.
        name: String,
        /// How many messages, up to 64.
        #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
        last: usize,
        #[command(flatten)]
        at: AtPeer,
    },
}

/// Rules: those of a file, or a single one.
#[derive(Args, Debug)]
pub struct RuleArguments {
    /// A file with rules (docs/rules.md).
    #[arg(required_unless_present = "condition", conflicts_with_all = ["condition", "on", "payload", "every", "say", "give", "topic", "alarm", "start"])]
    pub file: Option<PathBuf>,
    /// When it fires.
    #[arg(long = "if", value_name = "CONDITION", allow_hyphen_values = true)]
    pub condition: Option<String>,
    /// Which messages it looks at, as in `verge interest`.
    #[arg(long, value_name = "INTEREST")]
    pub on: Option<String>,
    /// What these are: json, cbor, text, i16, i32, f32 or f64.
    #[arg(long = "type", value_name = "TYPE", default_value = "json")]
    pub payload: String,
    /// It fires no more often than this.
    #[arg(long, value_name = "TIME")]
    pub every: Option<String>,
    /// What it says [default: the message itself].
    #[arg(long, value_name = "TEXT")]
    pub say: Option<String>,
    /// Who wants such things gets it: a profile, as in `verge announce`.
    #[arg(long, value_name = "PROFILE")]
    pub give: Option<String>,
    /// It is published there.
    #[arg(long, value_name = "TOPIC")]
    pub topic: Option<String>,
    /// The log of the peer that runs it says it.
    #[arg(long)]
    pub alarm: bool,
    /// It starts this function, for a minute (docs/functions.md).
    #[arg(long, value_name = "FUNCTION")]
    pub start: Option<String>,
}
