//! The commands, one file each.

mod acl;
mod bench;
mod broker;
mod bundle;
mod calibrate;
mod check;
mod clients;
mod config;
mod conform;
pub mod context;
mod declared;
pub mod demo;
mod doctor;
mod graph;
mod handover;
pub mod kv;
mod manual;
mod metrics;
mod operator;
mod publish;
mod record;
mod rehearsal;
mod replay;
mod security;
mod sim;
mod status;
mod stopping;
pub mod subscribe;
mod user;
mod watch;
mod worker;
pub mod workload;

use crate::arguments::{Arguments, BrokerArguments, Command, Format, SecurityCommand};
use crate::output::{Outcome, Trouble, complain};
use crate::users::read_password;
use ::config::Config;
use host::tls::TlsSettings;
use std::path::{Path, PathBuf};
use verge::{Builder, Client};
use wire::limits::OPERATOR_NAMES;

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
            let heard = broker::signals::begin()?;
            let now = load(None)?;
            broker::run(&now, name.as_deref(), insecure, heard, move || Config::load(config.as_deref(), &set))
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
        Command::Demo(arguments) => demo::run(&arguments, format),
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
        Command::Kv { command } => kv::run(&command, format, load),
        Command::Context { command } => context::run(command, config.as_deref(), format),
        Command::Config { command } => config::run(&command, config.as_deref(), &set, format),
        Command::Worker { brokers, role } => worker::run(&load(None)?, &brokers, &role),
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
    let (given, secure) = (brokers.addresses(), config.secure_client_addresses());
    let encrypted = brokers.ca.is_some() || given.is_none() && config.tls.ca.is_some() && secure.is_some();
    let configured = || secure.filter(|_| encrypted).unwrap_or_else(|| config.client_addresses());
    let addresses = given.unwrap_or_else(configured);
    let builder: Builder = Client::builder().failover(config.delays.failover);
    let builder = name.into_iter().fold(builder, Builder::name);
    let builder = if encrypted { builder.tls(client_tls(config, brokers)) } else { builder };
    let builder = match credentials(config, brokers)? {
        Some((user, password)) => builder.credentials(&user, &password),
        None => builder,
    };
    Ok(builder.start(&addresses)?)
}

/// Whom a client believes, and what it shows.
fn client_tls(config: &Config, brokers: &BrokerArguments) -> TlsSettings {
    let (mut certificate, mut key) = (brokers.certificate.clone(), brokers.key.clone());
    // The configured key may be the broker's, which not everybody may read; those come without a certificate.
    let readable =
        |path: &Option<PathBuf>| path.as_ref().is_some_and(|path| std::fs::File::open(path).is_ok());
    if certificate.is_none() && readable(&config.tls.certificate) && readable(&config.tls.key) {
        (certificate, key) = (config.tls.certificate.clone(), config.tls.key.clone());
    }
    TlsSettings {
        certificate,
        key,
        ca: brokers.ca.clone().or_else(|| config.tls.ca.clone()),
        minimum: config.tls.minimum,
        ..TlsSettings::default()
    }
}

/// Who a command is, and its password. A password on the command line would be seen by everybody on the host.
fn credentials(config: &Config, brokers: &BrokerArguments) -> Result<Option<(String, String)>, Trouble> {
    // Those of the configuration are for its own brokers.
    let known = config.client_addresses() + "," + &config.secure_client_addresses().unwrap_or_default();
    let ours = brokers.addresses().is_none_or(|given| all_among(&given, &known));
    let configured = config.client.user.clone().filter(|_| ours);
    let Some(user) = brokers.user.clone().or(configured) else {
        if config.client.user.is_some() {
            complain(
                "verge: client.user is for the configured brokers, and not for these: say -u NAME, or nobody logs in",
            );
        }
        return Ok(None);
    };
    let of_configuration = config.client.password_file.as_ref().filter(|_| ours);
    let from_environment = || std::env::var(PASSWORD).ok();
    if let Some(password) = &brokers.password {
        return Ok(Some((user, password.clone())));
    }
    let password = match (&brokers.password_file, from_environment(), of_configuration) {
        (Some(file), _, _) | (None, None, Some(file)) => read_password(file)?,
        (None, Some(password), _) => password,
        (None, None, None) => {
            return Err(Trouble(format!(
                "there is no password for `{user}`: set {PASSWORD}, or give --password-file FILE or the key \
                 client.password_file"
            )));
        }
    };
    Ok(Some((user, password)))
}

/// Whether all of these addresses are among those, however this host is called.
fn all_among(given: &str, known: &str) -> bool {
    let (given, known) = (given.replace("localhost", "127.0.0.1"), known.replace("localhost", "127.0.0.1"));
    given.split(',').all(|given| known.split(',').any(|known| known == given))
}

/// The environment variable with the password.
const PASSWORD: &str = "VERGE_PASSWORD";

/// How a command calls itself that only asks how brokers are, or moves the reign: a few places are kept for those where clients have
/// all of theirs.
fn operator() -> String {
    format!("{OPERATOR_NAMES}{:016x}", host::random_number())
}

/// The same, when a primary is found.
fn connect(config: &Config, brokers: &BrokerArguments, name: Option<&str>) -> Result<Client, Trouble> {
    let client = start_client(config, brokers, name)?;
    client.wait_for_primary()?;
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::all_among;

    #[test]
    fn credentials_are_for_brokers_that_are_configured_by_whatever_name_of_this_host() {
        let known = "127.0.0.1:7571,plant-b:7571,localhost:7572";
        for (given, among) in [
            ("localhost:7571", true),
            ("127.0.0.1:7572,plant-b:7571", true),
            ("plant-b:7572", false),
            ("127.0.0.1:7571,elsewhere:7571", false),
        ] {
            assert_eq!(all_among(given, known), among, "{given}");
        }
    }
}
