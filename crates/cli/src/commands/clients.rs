//! `verge clients`: who is connected, and whose sessions wait.

use super::{admin_name, connect};
use crate::arguments::{BrokerArguments, ClientColumn, ClientsArguments, ClientsCommand, Format};
use config::Config;
use console::{Outcome, Trouble, complain, fit_terminal, json, line, print, say_left_out, table, yes};
use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};

const HEADINGS: [&str; 10] = [
    "client",
    "user",
    "address",
    "protocol",
    "state",
    "since",
    "subscriptions",
    "queued",
    "in flight",
    "dropped",
];
/// Columns that are left out first where a terminal is narrow.
const LESS_IMPORTANT: [&str; 4] = ["dropped", "subscriptions", "user", "in flight"];

/// A client, as a broker tells of it.
#[derive(Serialize, Deserialize)]
struct Row {
    client: String,
    protocol: String,
    user: String,
    address: String,
    connected: bool,
    since_ns: u64,
    subscriptions: u64,
    queued: u64,
    in_flight: u64,
    dropped: u64,
}

/// Lists them, or drops one.
pub fn run(config: &Config, arguments: &ClientsArguments, format: Format) -> Outcome {
    match &arguments.command {
        None => list(config, arguments, format),
        Some(ClientsCommand::Drop { client, end_session, brokers }) => {
            drop_one(config, brokers, (client, *end_session), format)
        }
    }
}

fn list(config: &Config, arguments: &ClientsArguments, format: Format) -> Outcome {
    let name = admin_name();
    let client = connect(config, &arguments.brokers, Some(&name))?;
    let mut rows: Vec<Row> = serde_json::from_str(&client.clients()?).map_err(|error| {
        Trouble(format!("the broker has said of its clients what cannot be read: {error}"))
    })?;
    // Not the one that asks.
    rows.retain(|row| row.client != name || row.protocol != "native");
    match arguments.sort {
        ClientColumn::Client => rows.sort_by(|one, other| one.client.cmp(&other.client)),
        ClientColumn::Queued => rows.sort_by_key(|row| std::cmp::Reverse(row.queued)),
        ClientColumn::InFlight => rows.sort_by_key(|row| std::cmp::Reverse(row.in_flight)),
        ClientColumn::Dropped => rows.sort_by_key(|row| std::cmp::Reverse(row.dropped)),
        ClientColumn::Since => rows.sort_by_key(|row| std::cmp::Reverse(row.since_ns)),
        ClientColumn::Address => rows.sort_by(|one, other| one.address.cmp(&other.address)),
    }
    let mut shown = table(&HEADINGS, &[5, 6, 7, 8, 9]);
    for row in &rows {
        shown.add_row([
            row.client.escape_debug().to_string(),
            row.user.clone(),
            row.address.clone(),
            row.protocol.clone(),
            if row.connected { "connected" } else { "away" }.to_owned(),
            ago(row.since_ns),
            row.subscriptions.to_string(),
            row.queued.to_string(),
            row.in_flight.to_string(),
            row.dropped.to_string(),
        ]);
    }
    let left_out = fit_terminal(&mut shown, arguments.wide, &HEADINGS, &LESS_IMPORTANT);
    print(format, &shown, &rows)?;
    if format == Format::Table {
        let connected = rows.iter().filter(|row| row.connected).count();
        line(&format!("{connected} connected, {} away", rows.len() - connected))?;
        say_left_out(&left_out)?;
    }
    Ok(yes(true))
}

/// How long ago that was. Of sessions that were told by another broker nobody knows.
fn ago(since_ns: u64) -> String {
    if since_ns == 0 {
        return "?".to_owned();
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let seconds = now.saturating_sub(since_ns / 1_000_000_000);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[derive(Serialize)]
struct Dropped<'a> {
    client: &'a str,
    found: bool,
}

fn drop_one(
    config: &Config,
    brokers: &BrokerArguments,
    (client, ends): (&str, bool),
    format: Format,
) -> Outcome {
    let found = connect(config, brokers, Some(&admin_name()))?.drop_client(client, ends)?;
    let session = if ends { ", and its session has ended" } else { "" };
    match format {
        Format::Json => json(&Dropped { client, found })?,
        Format::Table if found => line(&format!("dropped {}{session}", client.escape_debug()))?,
        Format::Table => complain(&format!(
            "verge: the primary has no client `{}`: `verge clients` lists those that there are",
            client.escape_debug()
        )),
    }
    Ok(yes(found))
}
