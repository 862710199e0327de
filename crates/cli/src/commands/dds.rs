//! `verge dds`: domains of DDS, bridged by Verge.

use super::connect;
use crate::arguments::dds::{BridgeArguments, DdsCommand};
use config::Config;
use console::{Format, Outcome, RED, coloured, fit_terminal, json, line, say_left_out, table, yes};
use dds::{Counts, Mismatch, Remote};
use dds_host::Survey;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

pub fn run(config: &Config, command: &DdsCommand, format: Format) -> Outcome {
    match command {
        DdsCommand::Bridge(arguments) => bridge(config, arguments),
        DdsCommand::Status { brokers, domain, wide } => {
            let name = format!("survey-{:016x}", host::random_number());
            let client = connect(config, brokers, Some(&name))?;
            show(&dds_host::survey(&client, &name, *domain)?, *domain, *wide, format)
        }
    }
}

#[cfg(not(feature = "dds"))]
fn bridge(_config: &Config, _arguments: &BridgeArguments) -> Outcome {
    Err(console::Trouble(
        "this `verge` was built without DDS: install Cyclone DDS 0.10 with its headers (Debian: apt-get install cyclonedds-dev), and build it \
         with `cargo build --release --bin verge --features dds`"
            .to_owned(),
    ))
}

#[cfg(feature = "dds")]
fn bridge(config: &Config, arguments: &BridgeArguments) -> Outcome {
    use super::stopping::Stop;
    use super::watch::Watch;
    use console::complain;
    use contract::Span;

    let stop = Stop::on_signals()?;
    let known_as = arguments.known_as.unwrap_or(arguments.domain);
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    let name = arguments.id.clone().unwrap_or_else(|| format!("{host}-{}", arguments.domain));
    if let Some(why) = dds::bad_bridge_name(&name) {
        return Err(console::Trouble(format!("`{name}` is no name for a bridge (--id): {why}")));
    }
    for (flag, span, least) in
        [("--lease", arguments.lease, Span::secs(2)), ("--period", arguments.period, Span::millis(1))]
    {
        if span < least {
            return Err(console::Trouble(format!("{flag} is {span}: it must be at least {least}")));
        }
    }
    // Each topic of another domain is one; how many there may be, the broker says.
    let wanted = node::client::Wanted { subscriptions: Some(dds::LOCAL_MAX), ..arguments.brokers.wanted() };
    let client = node::client::connect(config, &wanted, Some(&name))?;
    let _watch = Watch::start(&client, config)?;
    let options = dds_host::Options {
        domain: arguments.domain,
        known_as,
        name: name.clone(),
        id: host::random_number(),
        only: arguments.only.clone(),
        except: arguments.except.clone(),
        publish: arguments.publish.clone(),
        lease: arguments.lease,
        period: arguments.period,
    };
    complain(&format!("verge: {name}: domain {} of DDS, as {known_as} among bridges", arguments.domain));
    let tell = |words: &str| complain(&format!("verge: {name}: {words}"));
    dds_host::run(&client, &options, || stop.is_asked(), tell)
        .map_err(|error| console::Trouble(error.to_string()))?;
    Ok(yes(true))
}

/// What is shown of a bridge.
#[derive(Serialize)]
struct BridgeRow<'a> {
    id: String,
    name: &'a str,
    /// The domain of DDS, as its own network numbers it.
    domain: u32,
    /// `serves`, `stands by`, or `unknown` where its list has not come.
    state: &'static str,
    writers: usize,
    readers: usize,
    #[serde(flatten)]
    counts: Counts,
}

/// Writers and readers of one topic, of two domains.
#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
struct LinkRow<'a> {
    topic: &'a str,
    #[serde(rename = "type")]
    type_name: &'a str,
    /// The bridge of the writers.
    from: String,
    /// The bridge of the readers.
    to: String,
    /// Why they do not hear them; `None`: they do.
    mismatch: Option<String>,
    writers: usize,
    readers: usize,
}

#[derive(Serialize)]
struct Shown<'a> {
    domain: u32,
    bridges: Vec<BridgeRow<'a>>,
    links: Vec<LinkRow<'a>>,
}

fn bridge_row(remote: &Remote) -> BridgeRow<'_> {
    let writers = remote.endpoints.values().filter(|endpoint| endpoint.writes).count();
    BridgeRow {
        id: remote.who.id.to_string(),
        name: &remote.who.name,
        domain: remote.who.domain,
        state: match (remote.stands_by, remote.is_known()) {
            (true, _) => "stands by",
            (false, true) => SERVES,
            (false, false) => UNKNOWN,
        },
        writers,
        readers: remote.endpoints.len() - writers,
        counts: remote.counts,
    }
}

fn link_rows(survey: &Survey) -> Vec<LinkRow<'_>> {
    let mut rows: BTreeMap<_, (Vec<dds::Guid>, Vec<dds::Guid>)> = BTreeMap::new();
    let named = |id| {
        let of = |remote: &&Remote| remote.who.id == id;
        survey.bridges.iter().find(of).map_or_else(String::new, |remote| remote.who.name.clone())
    };
    for link in survey.links.iter().filter(|link| link.mismatch != Some(Mismatch::Partition)) {
        let mismatch = link.mismatch.as_ref().map(ToString::to_string);
        let key =
            (link.topic.as_str(), link.writer.type_name.as_str(), named(link.from), named(link.to), mismatch);
        let (writers, readers) = rows.entry(key).or_default();
        writers.push(link.writer.guid);
        readers.push(link.reader.guid);
    }
    let count = |mut guids: Vec<dds::Guid>| {
        guids.sort_unstable();
        guids.dedup();
        guids.len()
    };
    let row = |((topic, type_name, from, to, mismatch), (writers, readers))| LinkRow {
        topic,
        type_name,
        from,
        to,
        mismatch,
        writers: count(writers),
        readers: count(readers),
    };
    rows.into_iter().map(row).collect()
}

/// Whether the list of every bridge has come, each has a name of its own, and one serves at least.
fn is_served(bridges: &[BridgeRow<'_>]) -> bool {
    let names: BTreeSet<&str> = bridges.iter().map(|row| row.name).collect();
    let states = || bridges.iter().map(|row| row.state);
    names.len() == bridges.len()
        && states().any(|state| state == SERVES)
        && !states().any(|state| state == UNKNOWN)
}

const SERVES: &str = "serves";
const UNKNOWN: &str = "unknown";
const BRIDGES: [&str; 9] =
    ["bridge", "domain", "state", "writers", "readers", "sent", "written", "dropped", "expired"];
const LINKS: [&str; 7] = ["topic", "from", "to", "heard", "writers", "readers", "type"];

fn show(survey: &Survey, domain: u32, wide: bool, format: Format) -> Outcome {
    let (bridges, links) = (survey.bridges.iter().map(bridge_row).collect::<Vec<_>>(), link_rows(survey));
    let well = is_served(&bridges) && links.iter().all(|link| link.mismatch.is_none());
    if format == Format::Json {
        json(&Shown { domain, bridges, links })?;
        return Ok(yes(well));
    }
    if bridges.is_empty() {
        line(&format!("no bridge answers for domain {domain} (`verge dds bridge`)"))?;
        return Ok(yes(false));
    }
    let mut shown = table(&BRIDGES, &[1, 3, 4, 5, 6, 7, 8]);
    for row in &bridges {
        let Counts { sent, written, dropped, expired } = row.counts;
        let figures = [row.writers as u64, row.readers as u64, sent, written, dropped, expired];
        let words = [row.name.to_owned(), row.domain.to_string(), row.state.to_owned()];
        shown.add_row(words.into_iter().chain(figures.map(|figure| figure.to_string())));
    }
    let left_out = fit_terminal(&mut shown, wide, &BRIDGES, &["expired", "domain"]);
    line(&shown.to_string())?;
    say_left_out(&left_out)?;
    if links.is_empty() {
        line("no reader and writer of one topic are in different domains")?;
        return Ok(yes(well));
    }
    let mut shown = table(&LINKS, &[4, 5]);
    for row in &links {
        let heard = row.mismatch.as_ref().map_or_else(|| "yes".to_owned(), |why| coloured(why, RED));
        let figures = [row.writers.to_string(), row.readers.to_string()];
        let words = [row.topic.to_owned(), row.from.clone(), row.to.clone(), heard];
        shown.add_row(words.into_iter().chain(figures).chain([row.type_name.to_owned()]));
    }
    let left_out = fit_terminal(&mut shown, wide, &LINKS, &["type", "readers", "writers"]);
    line(&shown.to_string())?;
    say_left_out(&left_out)?;
    Ok(yes(well))
}
