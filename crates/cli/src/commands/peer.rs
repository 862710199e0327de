//! `verge peer`.

mod functions;
mod kept;
mod posts;
mod rules;

pub use self::functions::function;
use crate::arguments::Format;
use crate::arguments::peer::PeerCommand;
use config::{Config, PeersConfig};
use console::{Outcome, RED, Trouble, coloured, json, line, table, yes};
pub use kept::store;
use node::signals;
use peer_host::{PeerReport, RegionReport};
pub use posts::{announce, find, interest};
pub use rules::rule;
use serde::Serialize;
use std::collections::BTreeMap;

pub fn run(config: &Config, command: &PeerCommand, format: Format) -> Outcome {
    match command {
        PeerCommand::Run { name, insecure } => {
            let heard = signals::begin()?;
            node::peer::run((peers(config)?, config), name, *insecure, heard)?;
            Ok(yes(true))
        }
        PeerCommand::Status { peer } => status(config, peer.as_deref(), format),
    }
}

fn peers(config: &Config) -> Result<&PeersConfig, Trouble> {
    let none =
        "no peers are configured: add [peers.NAME] with `address` for each (docs/peers.md has an example)";
    config.peers.as_ref().ok_or_else(|| Trouble(none.to_owned()))
}

/// Where peers are asked: what is called them, and the address of their HTTP.
fn places(config: &Config, wanted: Option<&str>) -> Result<Vec<(String, String)>, Trouble> {
    if let Some(place) = wanted.filter(|wanted| wanted.contains(':')) {
        return Ok(vec![(place.to_owned(), place.to_owned())]);
    }
    let peers = &peers(config)?.peers;
    let asked = peers.iter().filter(|peer| wanted.is_none_or(|wanted| wanted == peer.name));
    let places = asked.filter_map(|peer| Some((peer.name.clone(), peer.http.as_ref()?.to_string())));
    let places: Vec<(String, String)> = places.collect();
    match (places.is_empty(), wanted) {
        (false, _) => Ok(places),
        (true, Some(name)) => Err(Trouble(format!(
            "no peer `{name}` is configured that has `http`: give peers.{name}.http, or say --peer host:port"
        ))),
        (true, None) => Err(Trouble(
            "no configured peer has `http`: give peers.NAME.http, or say --peer host:port".to_owned(),
        )),
    }
}

/// What one peer says.
#[derive(Serialize)]
struct Row {
    peer: String,
    /// Why nothing is known, where nothing is.
    trouble: Option<String>,
    #[serde(flatten)]
    report: Option<PeerReport>,
}

fn ask((name, place): (String, String)) -> Row {
    let answer = verge::ask_peer(&place, "/api/v1/peer").map_err(|error| match error {
        verge::Error::NoPeer(why) => why,
        other => other.to_string(),
    });
    let answer = answer.and_then(|body| {
        serde_json::from_str(&body).map_err(|error| format!("it says what cannot be read: {error}"))
    });
    match answer {
        Ok(report) => Row { peer: name, trouble: None, report: Some(report) },
        Err(why) => Row { peer: name, trouble: Some(why), report: None },
    }
}

fn status(config: &Config, peer: Option<&str>, format: Format) -> Outcome {
    let rows: Vec<Row> = places(config, peer)?.into_iter().map(ask).collect();
    let is_in = |report: &PeerReport| matches!(&*report.role, "member" | "master");
    let well = rows.iter().all(|row| row.report.as_ref().is_some_and(is_in));
    if format == Format::Json {
        json(&rows)?;
        return Ok(yes(well));
    }
    let mut shown = table(
        &["peer", "is", "at", "master", "in its region", "puts", "for others", "at its point", "keeps"],
        &[4, 5, 6, 7, 8],
    );
    for row in &rows {
        match &row.report {
            Some(report) => {
                let role = if is_in(report) { report.role.clone() } else { coloured(&report.role, RED) };
                let master = report.regions.iter().find(|region| region.own);
                let master = master.map(|region| region.master.name.clone()).unwrap_or_default();
                let members = report.members.len();
                let counts = [members, report.posts, report.proxied, report.at_point, report.kept]
                    .map(|count| count.to_string());
                let place = format!("{}, {}", report.own.lat, report.own.long);
                shown.add_row([row.peer.clone(), role, place, master].into_iter().chain(counts));
            }
            None => _ = shown.add_row([row.peer.clone(), coloured("does not answer", RED)]),
        }
    }
    line(&shown.to_string())?;
    for (peer, trouble) in rows.iter().filter_map(|row| Some((&row.peer, row.trouble.as_ref()?))) {
        line(&format!("{} {peer}: {trouble}", coloured("not reached:", RED)))?;
    }
    let mut regions: BTreeMap<&str, &RegionReport> = BTreeMap::new();
    let known = rows.iter().filter_map(|row| row.report.as_ref()).flat_map(|report| &report.regions);
    known.for_each(|region| _ = regions.insert(&region.master.name, region));
    let mut shown = table(&["region of", "covers", "from", "to"], &[1]);
    for (master, region) in regions {
        let share = format!("{:.1} %", f64::from(region.cells) / 2.56);
        for (number, [from, to]) in region.squares.iter().enumerate() {
            let corner = |(lat, long): &(f64, f64)| format!("{lat}, {long}");
            let first =
                if number == 0 { [master.to_owned(), share.clone()] } else { [String::new(), String::new()] };
            shown.add_row(first.into_iter().chain([corner(from), corner(to)]));
        }
    }
    line(&shown.to_string())?;
    Ok(yes(well))
}
