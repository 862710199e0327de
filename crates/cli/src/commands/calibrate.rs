//! `verge calibrate`: measures what work costs on this host, and keeps it for all commands.

use crate::arguments::Format;
use config::Config;
use console::{Outcome, Trouble, json, line, yes};
use contract::Span;
use node::profile::{Connection, Profile, place};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Serialize)]
struct Report {
    file: PathBuf,
    #[serde(flatten)]
    profile: Profile,
    /// What was kept before, if it was of this host.
    before: Option<Profile>,
}

/// Measures, keeps the profile, and shows it beside the one before.
pub fn run(config: &Config, format: Format) -> Outcome {
    let file = place(&config.admission);
    let before = Profile::load(&file).ok();
    let Some(profile) = Profile::measure() else {
        return Err(Trouble(
            "this host cannot be measured: it lacks sockets or threads (see ulimit -n and ulimit -u)"
                .to_owned(),
        ));
    };
    profile.save(&file).map_err(|error| {
        Trouble(format!(
            "cannot keep the profile in {} ({error}): set admission.profile_folder",
            file.display()
        ))
    })?;
    let report = Report { file, profile, before };
    match format {
        Format::Json => json(&report)?,
        Format::Table => show(&report)?,
    }
    Ok(yes(true))
}

fn show(report: &Report) -> Result<(), Trouble> {
    let Report { profile, before, file } = report;
    line(&format!("{:<36} {:>10} {:>10}", "processor time, with a margin", "now", "before"))?;
    let row = |what: &str, of: &dyn Fn(&Profile) -> i64| {
        let shown = |profile: &Profile| Span(of(profile)).to_string();
        let before = before.as_ref().map_or_else(|| "-".to_owned(), shown);
        line(&format!("{what:<36} {:>10} {before:>10}", shown(profile)))
    };
    row("a turn", &|profile| profile.turn_ns)?;
    row("a message: taking it in", &|profile| profile.arrival_ns)?;
    row("  dispatching it to one subscriber", &|profile| profile.dispatch_ns)?;
    row("  copying it, and taking that back", &|profile| profile.replication_ns)?;
    type Kind<'a> = (&'a str, &'a dyn Fn(&Profile) -> Connection);
    let kinds: [Kind<'_>; 4] = [
        ("TCP", &|profile| profile.tcp),
        ("TLS", &|profile| profile.tls),
        ("WebSocket", &|profile| profile.websocket),
        ("WebSocket over TLS", &|profile| profile.secure_websocket),
    ];
    for (name, of) in kinds {
        row(&format!("{name}: a read"), &|profile| of(profile).read_ns)?;
        row("  a write", &|profile| of(profile).write_ns)?;
        row("  1024 bytes", &|profile| of(profile).kib_ns)?;
    }
    row("longest blocking", &|profile| profile.blocking_ns)?;
    line(&format!("kept in {}; brokers that run count with what they began with", file.display()))
}
