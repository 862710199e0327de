//! `verge peer`, and what asks a peer: `verge find`, `verge interest`, `verge announce`.

use crate::arguments::Format;
use crate::arguments::peer::{FindArguments, PeerCommand, PostArguments};
use config::{Config, PeersConfig};
use console::{Outcome, RED, Trouble, coloured, json, line, table, yes};
use contract::Span;
use node::signals;
use peer_host::{PeerReport, RegionReport};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long a peer may take to answer; one that has nothing to say sends an empty line more often.
const PATIENCE: Duration = Duration::from_secs(15);
const CONNECTS_WITHIN: Duration = Duration::from_secs(2);
/// The longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

pub fn run(config: &Config, command: &PeerCommand, format: Format) -> Outcome {
    match command {
        PeerCommand::Run { name, insecure } => {
            let heard = signals::begin()?;
            node::peer::run(peers(config)?, name, *insecure, heard)?;
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

/// Why there is no answer.
enum Failed {
    /// The peer does not answer.
    Unreached(String),
    /// It says what is wrong with what was asked; another peer would say the same.
    Refused(String),
}

impl Failed {
    fn why(self) -> String {
        let (Failed::Unreached(why) | Failed::Refused(why)) = self;
        why
    }
}

/// A request, and the rest of the answer behind its head.
fn request(place: &str, method: &str, path: &str, body: &str) -> Result<BufReader<TcpStream>, Failed> {
    let (is_well, mut answer) = said(place, method, path, body).map_err(Failed::Unreached)?;
    if is_well {
        return Ok(answer);
    }
    let mut why = String::new();
    // What cannot be read says nothing.
    _ = answer.by_ref().take(ANSWER_BYTES_MAX).read_to_string(&mut why);
    Err(Failed::Refused(why.trim().to_owned()))
}

/// Whether a request is granted, and the rest of the answer.
fn said(place: &str, method: &str, path: &str, body: &str) -> Result<(bool, BufReader<TcpStream>), String> {
    let unreached = |error: std::io::Error| format!("its HTTP port {place} does not answer: {error}");
    let address = place.to_socket_addrs().map_err(unreached)?.next().ok_or("its address is none")?;
    let mut stream = TcpStream::connect_timeout(&address, CONNECTS_WITHIN).map_err(unreached)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(unreached)?;
    // By 1.0 the answer comes without parts.
    let head = format!("{method} {path} HTTP/1.0\r\nHost: {place}\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).map_err(unreached)?;
    let mut answer = BufReader::new(stream);
    let mut line = String::new();
    answer.read_line(&mut line).map_err(unreached)?;
    let is_well = line.split(' ').nth(1) == Some("200");
    while line != "\r\n" {
        line.clear();
        if answer.read_line(&mut line).map_err(unreached)? == 0 {
            return Err(format!("{place} does not answer as a peer does"));
        }
    }
    Ok((is_well, answer))
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
    let answer = request(&place, "GET", "/api/v1/peer", "").map_err(Failed::why).and_then(|answer| {
        let mut body = String::new();
        answer.take(ANSWER_BYTES_MAX).read_to_string(&mut body).map_err(|error| error.to_string())?;
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
        &["peer", "is", "at", "master", "in its region", "puts", "for others", "has at its point"],
        &[4, 5, 6, 7],
    );
    for row in &rows {
        match &row.report {
            Some(report) => {
                let role = if is_in(report) { report.role.clone() } else { coloured(&report.role, RED) };
                let master = report.regions.iter().find(|region| region.own);
                let master = master.map(|region| region.master.name.clone()).unwrap_or_default();
                let counts = [report.members.len(), report.posts, report.proxied, report.at_point]
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

/// What a peer says of something that was put.
#[derive(Deserialize, Serialize)]
struct Event {
    event: String,
    topic: String,
    #[serde(default)]
    other: String,
}

/// Puts something at the first peer that answers.
fn put(config: &Config, post: &PostArguments, path: &str) -> Result<(String, BufReader<TcpStream>), Trouble> {
    let mut troubles = Vec::new();
    for (name, place) in places(config, post.peer.as_deref())? {
        match request(&place, "POST", path, &post.profile) {
            Ok(answer) => return Ok((name, answer)),
            Err(Failed::Refused(why)) => return Err(Trouble(why)),
            Err(Failed::Unreached(why)) => troubles.push(format!("{name}: {why}")),
        }
    }
    Err(Trouble(troubles.join("; ")))
}

/// The next event, until then; `None`: none has come.
fn event(answer: &mut BufReader<TcpStream>, until: Option<Instant>) -> Result<Option<Event>, String> {
    let mut text = String::new();
    loop {
        if let Some(until) = until {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            answer.get_ref().set_read_timeout(Some(left)).map_err(|error| error.to_string())?;
        }
        match answer.read_line(&mut text) {
            Ok(0) => return Err("it has ended".to_owned()),
            Ok(_) if text.trim().is_empty() => text.clear(),
            Ok(_) => return serde_json::from_str(&text).map(Some).map_err(|error| error.to_string()),
            Err(error) if until.is_some() && is_time_out(&error) => {}
            Err(error) => return Err(format!("nothing is heard of it any more ({error})")),
        }
    }
}

fn is_time_out(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

/// Puts something, and tells what is said of it until the program is ended.
pub fn post(config: &Config, arguments: &PostArguments, offers: bool, format: Format) -> Outcome {
    let path = if offers { "/api/v1/offer" } else { "/api/v1/want" };
    let (name, mut answer) = put(config, arguments, path)?;
    loop {
        match event(&mut answer, None) {
            Ok(None) => {}
            Ok(Some(event)) if format == Format::Json => {
                line(&serde_json::to_string(&event).map_err(|error| Trouble(error.to_string()))?)?;
            }
            Ok(Some(Event { event, topic, other })) => {
                line(format!("{event:<5}  {topic}  {other}").trim_end())?;
            }
            Err(why) => return Err(Trouble(format!("the peer {name}: {why}; what was put there is over"))),
        }
    }
}

/// Shows what there is, and ends. Yes: something is there.
pub fn find(config: &Config, arguments: &FindArguments, format: Format) -> Outcome {
    let (name, mut answer) = put(config, &arguments.post, "/api/v1/want")?;
    let until = Instant::now() + Duration::from_nanos(arguments.wait.max(Span::ZERO).as_nanos_u64());
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    while let Some(Event { event, topic, other }) =
        event(&mut answer, Some(until)).map_err(|why| Trouble(format!("the peer {name}: {why}")))?
    {
        if event == "start" {
            found.insert(topic, other)
        } else {
            found.remove(&topic)
        };
    }
    if format == Format::Json {
        let events = found.iter().map(|(topic, other)| Found { topic, profile: other });
        json(&events.collect::<Vec<_>>())?;
        return Ok(yes(!found.is_empty()));
    }
    let mut shown = table(&["what", "topic"], &[]);
    found.iter().for_each(|(topic, other)| _ = shown.add_row([other.clone(), topic.clone()]));
    if found.is_empty() {
        line("Nothing is there that is as said.")?;
    } else {
        line(&shown.to_string())?;
    }
    Ok(yes(!found.is_empty()))
}

#[derive(Serialize)]
struct Found<'a> {
    topic: &'a str,
    profile: &'a str,
}
