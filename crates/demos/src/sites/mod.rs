//! `verge site demo`: three sites and two routers between them, real processes all of them, on hosts with networks of their own where this host can make them.
//! Primaries and a router are killed, a link is cut, and a site moves to another address. At the end, what was published at one site is compared with what
//! came to the others.

mod hosts;
mod ledger;
mod line;
mod load;
mod service;
mod stage;
mod timeline;

use crate::crash::Folder;
use clap::Args;
use console::{Format, GREEN, Outcome, RED, Trouble, coloured, json, line as print, table, yes};
use hosts::{Hosts, go_apart};
use ledger::{Ledger, RECEIVERS, Row, Seen, TICK, Tick};
use serde::Serialize;
use stage::Stayed;
use std::path::PathBuf;

/// What is typed.
#[derive(Args, Debug)]
pub struct SitesDemoArguments {
    /// Topics that cross, each with ten messages in a second.
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=500))]
    pub topics: u32,
    /// For how many seconds a site is cut off from the others.
    #[arg(long, default_value_t = 20, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(2..=600))]
    pub cut: u32,
    /// Play this recording, CSV or Parquet: its columns are the topics, several times where there are fewer.
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
    /// Let a ZooKeeper name the routers: a folder with its jars, which `java` runs. Otherwise sites have a list of them.
    #[arg(long, value_name = "FOLDER")]
    pub zookeeper: Option<PathBuf>,
    /// Stay in this host's network; then no link can be cut, and no address change.
    #[arg(long)]
    pub here: bool,
    /// It has been started in a network of its own.
    #[arg(long, hide = true)]
    pub apart: bool,
}

/// What came of it.
#[derive(Serialize)]
struct Report {
    /// Nothing is missing, and nothing came twice.
    kept: bool,
    topics: u32,
    /// Whether sites and routers were hosts with networks of their own.
    apart: bool,
    /// Whether a service named the routers.
    coordinated: bool,
    rows: Vec<Row>,
    local: Stayed,
    /// How long a moment of the timeline is.
    tick_seconds: f64,
    timeline: Vec<Tick>,
}

/// Runs the demo.
pub fn run(arguments: &SitesDemoArguments, format: Format) -> Outcome {
    let hosts = hosts(arguments);
    let folder = Folder::new("verge-demo-sites")?;
    let performed = stage::perform(&folder, &hosts, arguments);
    let (ledger, local) = performed.map_err(|trouble| match trouble.0.as_str() {
        stage::ASKED_TO_END => trouble,
        _ => folder.explain(&trouble, &stage::LOGS),
    })?;
    let report = report(arguments, &hosts, &ledger, local);
    match format {
        Format::Json => json(&report)?,
        Format::Table => show(&report)?,
    }
    Ok(yes(report.kept))
}

/// Hosts with networks of their own, or a word why not.
fn hosts(arguments: &SitesDemoArguments) -> Hosts {
    if arguments.here {
        return Hosts::Here;
    }
    let made = if arguments.apart { Hosts::apart() } else { Err(go_apart()) };
    made.unwrap_or_else(|why| {
        eprintln!(
            "note: no networks of their own ({why}): all are on this host, no link is cut, and no site moves"
        );
        Hosts::Here
    })
}

fn report(arguments: &SitesDemoArguments, hosts: &Hosts, ledger: &Ledger, local: Stayed) -> Report {
    let rows = ledger.rows();
    let kept = rows.iter().flat_map(|row| &row.sites).all(|seen| seen.missing == 0 && seen.twice == 0);
    Report {
        kept,
        topics: arguments.topics,
        apart: hosts.is_apart(),
        coordinated: arguments.zookeeper.is_some(),
        rows,
        local,
        tick_seconds: TICK.as_secs_f64(),
        timeline: ledger.ticks(),
    }
}

fn show(report: &Report) -> Result<(), Trouble> {
    let headings = [
        "",
        "what happened",
        "at s",
        "published",
        "to",
        "live",
        "late",
        "backlog",
        "missing",
        "twice",
        "silence ms",
    ];
    let mut shown = table(&headings, &[2, 3, 5, 6, 7, 8, 9, 10]);
    for (part, row) in report.rows.iter().enumerate() {
        for (site, seen) in row.sites.iter().enumerate() {
            let Seen { site: name, live, late, backlog, missing, twice, silence_ms } = seen;
            let head = match site {
                0 => [
                    timeline::letter(part).to_string(),
                    row.what.clone(),
                    format!("{:.0}", row.at_seconds),
                    row.published.to_string(),
                ],
                _ => [(); 4].map(|()| String::new()),
            };
            let silence = silence_ms.map_or_else(|| "cut off".to_owned(), |silence| format!("{silence:.0}"));
            let counts = [live, late, backlog, missing, twice].map(u64::to_string);
            shown.add_row(head.into_iter().chain([name.clone()]).chain(counts).chain([silence]));
        }
    }
    print(&shown.to_string())?;
    print(&timeline::draw(&report.timeline, &report.rows))?;
    let Stayed { messages, bytes, link_bytes } = report.local;
    let left = link_bytes.map_or_else(String::new, |left| format!(" {} left north in all.", mebibytes(left)));
    print(&format!(
        "What only north wants stays there: {messages} messages of `local/#`, {}.{left}",
        mebibytes(bytes)
    ))?;
    print(&verdict(report))?;
    print(
        "`published` in that part, and of these: `live` came on its topic, some of them `late` (after more than 2 s, the deadline), `backlog` came later below\n\
         `$backlog/`. `silence`: the longest time in which nothing came live of a topic, which is published each 100 ms; `cut off`: nothing could.",
    )?;
    if report.coordinated {
        print(
            "A router that is alone is replaced when its session with ZooKeeper has ended, after 5 s: what it had comes late until then, and is not lost.",
        )?;
    }
    Ok(())
}

fn verdict(report: &Report) -> String {
    if report.kept {
        let text =
            format!("Everything that was published at north came to {}, once.", RECEIVERS.join(" and "));
        return coloured(&text, GREEN);
    }
    let word = |site: &&str| {
        let seen = report.rows.iter().flat_map(|row| &row.sites).filter(|seen| seen.site == **site);
        let (missing, twice) = seen.fold((0, 0), |all, seen| (all.0 + seen.missing, all.1 + seen.twice));
        (missing + twice > 0).then(|| format!("at {site} {missing} are missing, and {twice} came twice"))
    };
    let words: Vec<String> = RECEIVERS.iter().filter_map(word).collect();
    coloured(&format!("Not kept: {}.", words.join("; ")), RED)
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
