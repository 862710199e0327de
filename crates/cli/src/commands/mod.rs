//! The commands, one file each.

mod acl;
mod bench;
mod bundle;
mod calibrate;
mod check;
mod clients;
mod config;
mod conform;
pub mod context;
mod dds;
mod declared;
mod doctor;
mod graph;
mod handover;
pub mod kv;
mod manual;
mod metrics;
mod operator;
mod peer;
mod publish;
mod record;
mod replay;
mod router;
mod security;
mod sim;
mod site;
mod status;
mod stopping;
pub mod subscribe;
mod user;
mod watch;

use crate::arguments::{
    Arguments, BrokerArguments, Command, Format, RouterCommand, SecurityCommand, SiteCommand,
};
use ::config::Config;
use console::{Outcome, Trouble, yes};
use node::status::admin_name;
use std::path::{Path, PathBuf};
use verge::Client;

/// Runs the command that was typed.
pub fn run(arguments: Arguments) -> Outcome {
    let Arguments { config, set, format, mut command, context, .. } = arguments;
    let config = match command.brokers_mut() {
        Some(brokers) => context::apply(context.as_deref(), brokers, config)?,
        None => config,
    };
    let load = |file: Option<&Path>| Ok::<_, Trouble>(Config::load(file.or(config.as_deref()), &set)?);
    match command {
        Command::Broker { name, insecure } => {
            let heard = node::signals::begin()?;
            let now = load(None)?;
            let reload = move || Config::load(config.as_deref(), &set);
            node::broker::run(&now, name.as_deref(), insecure, heard, reload)?;
            Ok(yes(true))
        }
        Command::Pub(arguments) => publish::run(&load(None)?, &arguments, format),
        Command::Sub(arguments) => subscribe::run(&load(None)?, &arguments, format),
        Command::Record(arguments) => record::run(&load(None)?, &arguments, format),
        Command::Bench(arguments) => bench::run(&load(None)?, &arguments, format),
        Command::Replay(arguments) => replay::run(&load(None)?, &arguments, format),
        Command::Check { file, explain } => check::run(&load(file.as_deref())?, explain, format),
        Command::Calibrate => calibrate::run(&load(None)?, format),
        Command::Graph { file, svg, json } => {
            let config = load(file.as_deref())?;
            graph::run(&config, svg.as_deref(), json || format == Format::Json)
        }
        Command::Sim(arguments) => sim::run(&arguments, config.as_deref(), &set, format),
        Command::Status(arguments) => status::run(&load(None)?, &arguments, format),
        Command::Top { brokers } => status::top::run(&load(None)?, &brokers, format),
        Command::Clients(arguments) => clients::run(&load(None)?, &arguments, format),
        Command::Conform(arguments) => conform::run(&arguments, format),
        Command::Metrics => metrics::run(format),
        Command::Bundle(arguments) => bundle::run(config.as_deref(), &set, &arguments),
        Command::Completion { shell } => manual::completion(shell),
        Command::Man { folder } => manual::pages(&folder),
        Command::Doctor => doctor::run(&load(None)?, format),
        Command::Handover { brokers } => handover::run(&load(None)?, &brokers, format),
        Command::Demo(arguments) => demos::crash::run(&arguments, format),
        Command::Operator { command } => operator::run(&command, format),
        Command::Security { command: SecurityCommand::Init(arguments) } => {
            security::run(&load(None)?, config.as_deref(), &arguments)
        }
        Command::User { file, command } => {
            user::run(&file_or_configured(file.file, || load(None))?, &command, format)
        }
        Command::Acl { file, command } => {
            acl::run(&file_or_configured(file.file, || load(None))?, &command, format)
        }
        Command::Dds { command } => dds::run(&load(None)?, &command, format),
        Command::Kv { command } => kv::run(&command, format, load),
        Command::Peer { command } => peer::run(&load(None)?, &command, format),
        Command::Store { command } => peer::store(&load(None)?, &command, format),
        Command::Function { command } => peer::function(&load(None)?, &command, format),
        Command::Rule { command } => peer::rule(&load(None)?, &command, format),
        Command::Find(arguments) => peer::find(&load(None)?, &arguments, format),
        Command::Interest(arguments) => peer::interest(&load(None)?, &arguments, format),
        Command::Announce(arguments) => peer::announce(&load(None)?, &arguments, format),
        Command::Router { command: RouterCommand::Drain { router, undo, within } } => {
            router::drain(&load(None)?, &router, undo, within, format)
        }
        Command::Site { command: SiteCommand::Status { wide } } => site::status(&load(None)?, wide, format),
        Command::Site { command: SiteCommand::Top { wide } } => site::top::run(&load(None)?, wide, format),
        Command::Site { command: SiteCommand::Tree } => site::tree(&load(None)?, format),
        Command::Site { command: SiteCommand::Demo(arguments) } => demos::sites::run(&arguments, format),
        Command::Site { command: SiteCommand::Check } => site::check(&load(None)?, format),
        Command::Context { command } => context::run(command, config.as_deref(), format),
        Command::Config { command } => config::run(&command, config.as_deref(), &set, format),
        Command::Worker { brokers, role } => demos::worker::run(&load(None)?, &brokers.wanted(), &role),
    }
}

/// The user file that was named, or else the configured one.
fn file_or_configured(
    file: Option<PathBuf>,
    load: impl FnOnce() -> Result<Config, Trouble>,
) -> Result<PathBuf, Trouble> {
    let none = "there is no user file: name it with --file, or set the key security.users";
    match file {
        Some(file) => Ok(file),
        None => load()?.security.users.ok_or_else(|| Trouble(none.to_owned())),
    }
}

/// A client of the brokers that were named, or else of the configured ones. Without waiting for a primary.
fn start_client(config: &Config, brokers: &BrokerArguments, name: Option<&str>) -> Result<Client, Trouble> {
    node::client::start(config, &brokers.wanted(), name)
}

/// The same, when a primary is found.
fn connect(config: &Config, brokers: &BrokerArguments, name: Option<&str>) -> Result<Client, Trouble> {
    node::client::connect(config, &brokers.wanted(), name)
}
