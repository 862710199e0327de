//! `verge kv`: nodes of the key-value store, and what asks them.

mod check;
mod costs;
mod secrets;
mod sim;
mod status;
mod values;

use crate::arguments::Format;
use crate::arguments::kv::KvCommand;
use config::{Config, KvConfig};
use console::{Outcome, Trouble, yes};
use node::kv::Words;
use node::{signals, talk};
use std::path::Path;

/// Runs what was typed; `load` reads the configuration.
pub fn run(
    command: &KvCommand,
    format: Format,
    load: impl Fn(Option<&Path>) -> Result<Config, Trouble>,
) -> Outcome {
    let load = |file: Option<&Path>| store(load(file)?);
    match command {
        KvCommand::Node { name, insecure, found, may_lie } => {
            let heard = signals::begin()?;
            let words = Words { insecure: *insecure, founds: *found, may_lie: *may_lie };
            node::kv::run(&load(None)?, name, words, heard)?;
            Ok(yes(true))
        }
        KvCommand::Get { key, at, age, vector } => {
            let show = if *vector { values::vector } else { values::get };
            show(&talk::reach(&at.at(), load)?, key, *age, format)
        }
        KvCommand::Put { key, value, at, within } => {
            values::put(&talk::reach(&at.at(), load)?, key, value, *within, format)
        }
        KvCommand::Watch { filters, at, count } => {
            values::watch(&talk::reach(&at.at(), load)?, filters, *count, format)
        }
        KvCommand::Check { file } => check::run(&load(file.as_deref())?, format),
        KvCommand::Status { at, watch } => status::run(&talk::reach(&at.at(), load)?, *watch, format),
        KvCommand::Demo(arguments) => demos::pendulum::run(arguments, format),
        KvCommand::Secrets { folder } => secrets::run(&load(None)?, folder),
        KvCommand::Sim(arguments) => sim::run(arguments, format),
    }
}

fn store(config: Config) -> Result<KvConfig, Trouble> {
    let none = "no key-value store is configured: add [kv.nodes.NAME] with `address` for each node, and a [[lane]] with `keys` \
                (docs/kv.md has an example)";
    config.kv.ok_or_else(|| Trouble(none.to_owned()))
}
