//! `verge config`: what the configuration says, and what it may say.

use crate::arguments::{ConfigCommand, Format};
use crate::config::{Config, default_text, reference};
use crate::output::{Outcome, line, print, table, yes};
use serde::Serialize;
use std::path::Path;

#[derive(Serialize)]
struct Effective<'a> {
    key: &'a str,
    value: &'a str,
    from: &'a str,
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
            Config::load(named.as_deref().or(file), set)?;
            line("the configuration is valid")?;
        }
    }
    Ok(yes(true))
}
