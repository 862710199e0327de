//! `verge store`: what peers keep.

use super::posts::{peers, text_of};
use crate::arguments::Format;
use crate::arguments::peer::StoreCommand;
use config::Config;
use console::{Outcome, Trouble, complain, json, line, table, yes};
use contract::Span;
use serde::Serialize;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use verge::{Kept, KeptPage, KeptQuery, Peers};

pub fn store(config: &Config, command: &StoreCommand, format: Format) -> Outcome {
    match command {
        StoreCommand::Put { profile, message, file, lasts, at, .. } => {
            let value = value(message.as_deref(), file.as_deref())?;
            let done = put(&peers(config, at.peer.as_deref())?, (profile, &value), *lasts, format)?;
            let least = config.peers.as_ref().map_or(0, |peers| peers.overlay.least as u64);
            if done.copies < least {
                complain(&format!(
                    "verge: {} of {least} peers keep it (overlay.least), since its region has no more: if others are about to come, they will have it as well",
                    done.copies
                ));
            }
            Ok(yes(true))
        }
        StoreCommand::Get { profile, at } => get(&peers(config, at.peer.as_deref())?, profile),
        StoreCommand::Query { interest, limit, after, values, at } => {
            let query = KeptQuery { limit: *limit, after: after.clone(), values: *values };
            let page = peers(config, at.peer.as_deref())?.query(interest, &query)?;
            show(&page, *values, format)
        }
        StoreCommand::Delete { profile, at } => {
            peers(config, at.peer.as_deref())?.delete(profile)?;
            Ok(yes(true))
        }
    }
}

fn value(message: Option<&str>, file: Option<&Path>) -> Result<Vec<u8>, Trouble> {
    match (message, file) {
        (Some(text), _) => Ok(text.as_bytes().to_vec()),
        (None, Some(path)) => {
            std::fs::read(path).map_err(|error| Trouble(format!("cannot read {}: {error}", path.display())))
        }
        (None, None) => {
            let mut value = Vec::new();
            std::io::stdin().lock().read_to_end(&mut value)?;
            Ok(value)
        }
    }
}

#[derive(Serialize)]
struct Put<'a> {
    profile: &'a str,
    bytes: usize,
    version: u64,
    copies: u64,
}

fn put(
    peers: &Peers,
    (profile, value): (&str, &[u8]),
    lasts: Option<Span>,
    format: Format,
) -> Result<verge::Put, Trouble> {
    let done = peers.put(profile, value, lasts)?;
    if format == Format::Json {
        let verge::Put { version, copies, .. } = done;
        json(&Put { profile, bytes: value.len(), version, copies })?;
    }
    Ok(done)
}

fn get(peers: &Peers, profile: &str) -> Outcome {
    let Some(value) = peers.get(profile)? else {
        complain("verge: nothing is kept under this profile");
        return Ok(yes(false));
    };
    match std::io::stdout().lock().write_all(&value) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(yes(true)),
    }
}

/// A thing, as JSON has it.
#[derive(Serialize)]
struct Thing<'a> {
    key: &'a str,
    bytes: u64,
    version: u64,
    lat: f64,
    long: f64,
    left_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
}

#[derive(Serialize)]
struct Page<'a> {
    things: Vec<Thing<'a>>,
    next: &'a Option<String>,
    silent: usize,
}

fn show(page: &KeptPage, values: bool, format: Format) -> Outcome {
    let thing = |kept: &'_ Kept| {
        let (value, encoding) = kept.value.as_deref().map(text_of).unzip();
        (value, encoding)
    };
    if format == Format::Json {
        let things = page.things.iter().map(|kept| {
            let (value, encoding) = thing(kept);
            Thing {
                key: &kept.key,
                bytes: kept.bytes,
                version: kept.version,
                lat: kept.place.0,
                long: kept.place.1,
                left_ns: kept.left.map(|left| left.as_nanos_u64()),
                value,
                encoding,
            }
        });
        json(&Page { things: things.collect(), next: &page.next, silent: page.silent })?;
        return Ok(yes(!page.things.is_empty()));
    }
    let mut shown = if values {
        table(&["what", "bytes", "at", "value"], &[1])
    } else {
        table(&["what", "bytes", "at"], &[1])
    };
    for kept in &page.things {
        let place = format!("{}, {}", kept.place.0, kept.place.1);
        let row = [kept.key.clone(), kept.bytes.to_string(), place];
        shown.add_row(row.into_iter().chain(values.then(|| thing(kept).0.unwrap_or_default())));
    }
    if page.things.is_empty() {
        line("Nothing is kept that is as said.")?;
    } else {
        line(&shown.to_string())?;
    }
    if let Some(next) = &page.next {
        complain(&format!("verge: there may be more: --after {next}"));
    }
    if page.silent > 0 {
        complain(&format!("verge: {} peers have not answered, and something may lack", page.silent));
    }
    Ok(yes(!page.things.is_empty()))
}
