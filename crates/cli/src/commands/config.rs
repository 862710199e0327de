//! `verge config`: what the configuration says, and what it may say.

use crate::arguments::{ConfigCommand, Format};
use config::{Config, default_text, reference};
use console::{Outcome, Trouble, json, line, print, table, yes};
use node::broker::obstacles;
use serde::Serialize;
use std::path::Path;

#[derive(Serialize)]
struct Effective<'a> {
    key: &'a str,
    value: &'a str,
    from: &'a str,
}

/// What is written is valid; whether it can run is a question of the host as well.
#[derive(Serialize)]
struct Checked<'a> {
    valid: bool,
    refused_here: Vec<Refused<'a>>,
}

#[derive(Serialize)]
struct Refused<'a> {
    broker: &'a str,
    reason: &'a str,
}

/// Runs one of the sub-commands.
pub fn run(command: &ConfigCommand, file: Option<&Path>, set: &[String], format: Format) -> Outcome {
    match command {
        ConfigCommand::Show => {
            let config = Config::load(file, set)?;
            let mut shown = table(&["key", "value", "from"], &[]);
            for (key, value, from) in &config.effective {
                shown.add_row([key, value, from]);
            }
            let rows: Vec<Effective<'_>> =
                config.effective.iter().map(|(key, value, from)| Effective { key, value, from }).collect();
            print(format, &shown, &rows)?;
        }
        ConfigCommand::Default => line(default_text().trim_end())?,
        ConfigCommand::Reference => line(reference().trim_end())?,
        ConfigCommand::Check { file: named } => {
            let config = Config::load(named.as_deref().or(file), set)?;
            report_obstacles(&config, format)?;
        }
    }
    Ok(yes(true))
}

/// Says that the configuration is valid, and which of its brokers this host would not run. Files of the other host need
/// not be here, so that this is no mistake of the configuration.
fn report_obstacles(config: &Config, format: Format) -> Result<(), Trouble> {
    let obstacles = obstacles(config);
    if format == Format::Json {
        let refused_here = obstacles.iter().map(|(broker, why)| Refused { broker, reason: &why.0 }).collect();
        return json(&Checked { valid: true, refused_here });
    }
    line("the configuration is valid")?;
    for (broker, Trouble(reason)) in &obstacles {
        line(&format!("note: on this host, `verge broker {broker}` would be refused: {reason}"))?;
    }
    Ok(())
}
