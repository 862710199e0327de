//! `verge kv get`, `put` and `watch`.

use crate::arguments::Format;
use console::{Outcome, Trouble, complain, json, line, print, table, yes};
use contract::{Span, Time, TopicFilter};
use kv_shared::{Answer, Content, Plain, Request};
use node::talk::{Reached, Talk};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// A value at a node.
#[derive(Serialize, Clone, PartialEq)]
struct Row {
    node: String,
    key: String,
    /// The value for people: text, a number, or hexadecimal digits.
    value: String,
    /// From when on it is valid, in nanoseconds since the Unix epoch.
    stamp: u64,
    /// How long ago that was.
    age_ms: f64,
}

/// How long `put` waits beyond the publishing time.
const PATIENCE: Span = Span::millis(500);
/// How many periods after a release a value is to be visible, one attempt after the other.
const LEADS: [u64; 3] = [2, 8, 8];
/// How long after a release all nodes have begun its job.
const BEGUN: Span = Span::millis(1);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(2);

/// Prints a value: once, if all nodes have the same; otherwise as each has it.
pub fn get(reached: &Reached, key: &str, age: Option<Span>, format: Format) -> Outcome {
    let freshness = freshness(age);
    let mut rows = Vec::new();
    let mut refusals = Vec::new();
    for node in &reached.nodes {
        match read(node, reached.lane, key, freshness)? {
            Ok(row) => rows.push(row),
            Err(text) => refusals.push(format!("{}: {text}", node.name)),
        }
    }
    for refusal in &refusals {
        complain(&refusal.to_string());
    }
    let same = rows.windows(2).all(|pair| (&pair[0].value, pair[0].stamp) == (&pair[1].value, pair[1].stamp));
    match (format, same) {
        (Format::Json, _) => json(&rows)?,
        (Format::Table, true) => rows.first().map_or(Ok(()), |row| line(&row.value))?,
        (Format::Table, false) => show(&rows, format)?,
    }
    Ok(yes(refusals.is_empty() && same))
}

fn show(rows: &[Row], format: Format) -> Result<(), Trouble> {
    let mut shown = table(&["node", "value", "valid from", "age ms"], &[3]);
    for row in rows {
        shown.add_row([&row.node, &row.value, &clock(Time(row.stamp)), &format!("{:.3}", row.age_ms)]);
    }
    print(format, &shown, &rows)
}

/// What a value was made of, at a node.
#[derive(Serialize, Clone, PartialEq)]
struct VectorRow {
    node: String,
    key: String,
    /// From when on the value is valid, in nanoseconds since the Unix epoch.
    stamp: u64,
    /// Who proposed what, for people.
    said: BTreeMap<String, String>,
}

/// Prints what a value was made of, as each node has it.
pub fn vector(reached: &Reached, key: &str, age: Option<Span>, format: Format) -> Outcome {
    let freshness = freshness(age);
    let (mut rows, mut refused) = (Vec::new(), false);
    for node in &reached.nodes {
        let ask = Request::Vector { lane: reached.lane, key: key.to_owned(), freshness };
        match node.try_ask(&ask)? {
            Answer::Vector { stamp, said } => {
                let said = said.into_iter().map(|(who, plain)| (who, for_people(plain))).collect();
                rows.push(VectorRow { node: node.name.clone(), key: key.to_owned(), stamp, said });
            }
            Answer::Error(text) => {
                complain(&format!("{}: {text}", node.name));
                refused = true;
            }
            other => return Err(Trouble(format!("{} answers something else: {other:?}", node.name))),
        }
    }
    let mut shown = table(&["node", "valid from", "proposed by", "value"], &[]);
    for row in &rows {
        for (who, value) in &row.said {
            shown.add_row([&row.node, &clock(Time(row.stamp)), who, value]);
        }
    }
    if format == Format::Json || !rows.is_empty() {
        print(format, &shown, &rows)?;
    }
    let same = rows.windows(2).all(|pair| (&pair[0].said, pair[0].stamp) == (&pair[1].said, pair[1].stamp));
    Ok(yes(!refused && same))
}

/// The oldest stamp that will do.
fn freshness(age: Option<Span>) -> u64 {
    age.map_or(0, |age| host::now().0.saturating_sub(age.as_nanos_u64()))
}

/// What a node has, or why it has nothing.
fn read(node: &Talk, lane: u16, key: &str, freshness: u64) -> Result<Result<Row, String>, Trouble> {
    let answer = node.try_ask(&Request::Read { lane, key: key.to_owned(), freshness })?;
    Ok(match answer {
        Answer::Value { stamp, plain } => {
            let value = for_people(plain);
            let age_ms = host::now().since(Time(stamp)).as_millis_f64();
            Ok(Row { node: node.name.clone(), key: key.to_owned(), value, stamp, age_ms })
        }
        Answer::Error(text) => Err(text),
        other => return Err(Trouble(format!("{} answers something else: {other:?}", node.name))),
    })
}

/// Proposes a value at every node, and waits until it is visible.
pub fn put(reached: &Reached, key: &str, value: &str, within: Option<Span>, format: Format) -> Outcome {
    let publishing = propose_everywhere(reached, key, value, within)?;
    let until = publishing + PATIENCE;
    let (mut rows, mut absent) = (Vec::new(), None);
    for node in &reached.nodes {
        loop {
            match read(node, reached.lane, key, 0)? {
                Ok(row) if row.stamp >= publishing.0 => {
                    rows.push(row);
                    break;
                }
                _ if host::now() >= until => {
                    absent = Some(&node.name);
                    break;
                }
                _ => std::thread::sleep(LOOK),
            }
        }
    }
    if let Some(name) = absent {
        complain(&format!(
            "nothing was published at node {name} for {}: a vote needs enough nodes that propose the same, and `verge kv status` shows who is \
             silent",
            clock(publishing)
        ));
    }
    if !rows.is_empty() || format == Format::Json {
        show(&rows, format)?;
    }
    Ok(yes(absent.is_none()))
}

/// Proposes a value at all nodes for the same instant, and says which. All must be in one job, so it begins right after a release. A
/// host that is so busy that it comes too late tries again with more time.
fn propose_everywhere(
    reached: &Reached,
    key: &str,
    value: &str,
    within: Option<Span>,
) -> Result<Time, Trouble> {
    let (period, offset) = lane_times(&reached.nodes[0], reached.lane)?;
    for lead in LEADS {
        let released = after_release(period, offset);
        let publishing = within.map_or(released + period * lead, |within| host::now() + within);
        let proposed: Result<Vec<Proposed>, Trouble> =
            reached.nodes.iter().map(|node| propose(node, reached.lane, key, value, publishing)).collect();
        if host::now() < released + period || within.is_some() {
            let taken = proposed?;
            let refused = taken.iter().find_map(|proposed| match proposed {
                Proposed::NoWriter(reason) => Some(reason),
                Proposed::Taken => None,
            });
            return match refused {
                Some(reason) if !taken.contains(&Proposed::Taken) => Err(Trouble(reason.clone())),
                _ => Ok(publishing),
            };
        }
    }
    Err(Trouble("this host is too busy to propose a value at all nodes within one period: try again, or ask one node with -n".to_owned()))
}

/// Waits for a release and until jobs have begun; when it was.
fn after_release(period: Span, offset: Span) -> Time {
    let nanos = period.as_nanos_u64().max(1);
    let next = host::now().0.saturating_sub(offset.as_nanos_u64()) / nanos + 1;
    let release = Time(next * nanos) + offset;
    let begun = release + BEGUN;
    while host::now() < begun {
        std::thread::sleep(
            LOOK.min(Duration::from_nanos(begun.since(host::now()).max(Span(1)).as_nanos_u64())),
        );
    }
    release
}

/// What a node says of a proposal.
#[derive(PartialEq)]
enum Proposed {
    Taken,
    /// It is not one of the key's writers.
    NoWriter(String),
}

/// As a number where the key votes on numbers, as text otherwise.
fn propose(node: &Talk, lane: u16, key: &str, value: &str, publishing: Time) -> Result<Proposed, Trouble> {
    let write = |content| Request::Write { lane, key: key.to_owned(), content, publishing: publishing.0 };
    let number = value.parse::<serde_json::Number>().ok();
    if let Some(number) = number
        && let Answer::Written {} = node.try_ask(&write(Content::Number(number)))?
    {
        return Ok(Proposed::Taken);
    }
    match node.try_ask(&write(Content::Value(value.to_owned())))? {
        Answer::Written {} => Ok(Proposed::Taken),
        Answer::Error(text) if text.contains("`writers`") => {
            Ok(Proposed::NoWriter(format!("{}: {text}", node.name)))
        }
        Answer::Error(text) => Err(Trouble(format!("{}: {text}", node.name))),
        other => Err(Trouble(format!("{} answers something else: {other:?}", node.name))),
    }
}

/// Period and offset of a lane.
fn lane_times(node: &Talk, lane: u16) -> Result<(Span, Span), Trouble> {
    let status = node.status()?;
    let lanes = status["lanes"].as_array().cloned().unwrap_or_default();
    let found = lanes.iter().find(|status| status["lane"] == lane);
    let span = |name: &str| found?[name].as_f64().map(|seconds| Span((seconds * 1e9).round() as i64));
    let times = span("period_seconds").zip(span("offset_seconds"));
    times.ok_or_else(|| Trouble(format!("{}: there is no lane {lane}", node.name)))
}

/// Prints values as they become visible at one node, until it is interrupted.
pub fn watch(reached: &Reached, filters: &[String], count: Option<u64>, format: Format) -> Outcome {
    let parse = |filter: &String| {
        filter.parse::<TopicFilter>().map_err(|error| Trouble(format!("`{filter}`: {error}")))
    };
    let filters: Vec<TopicFilter> = filters.iter().map(parse).collect::<Result<_, _>>()?;
    let mut watched = reached
        .nodes
        .iter()
        .map(|node| Watched::new(node, reached.lane, &filters))
        .collect::<Result<Vec<_>, _>>()?;
    if watched.iter().all(|one| one.keys.is_empty()) {
        return Err(Trouble(format!("{}: no key of lane {} matches", watched[0].name, reached.lane)));
    }
    let mut newest: BTreeMap<String, (Time, String)> = BTreeMap::new();
    let mut printed = 0;
    loop {
        let mut lost = Vec::new();
        for one in &mut watched {
            if let Err(gone) = one.client.node_alive() {
                lost.push(format!("{}: {gone}", one.name));
                one.is_gone = true;
                continue;
            }
            for row in one.look() {
                match newest.get(&row.key) {
                    Some((stamp, _)) if *stamp > Time(row.stamp) => continue,
                    Some((stamp, value)) if *stamp == Time(row.stamp) => {
                        if *value != row.value {
                            complain(&format!(
                                "{} has another value of `{}` for {}: {}",
                                row.node,
                                row.key,
                                clock(*stamp),
                                row.value
                            ));
                        }
                        continue;
                    }
                    _ => {}
                }
                newest.insert(row.key.clone(), (Time(row.stamp), row.value.clone()));
                tell(&row, format)?;
                printed += 1;
                if count.is_some_and(|count| printed >= count) {
                    return Ok(yes(true));
                }
            }
        }
        watched.retain(|one| !one.is_gone);
        if watched.is_empty() {
            return Err(Trouble(lost.join("; ")));
        }
        lost.iter().for_each(|text| complain(text));
        std::thread::sleep(LOOK);
    }
}

/// A node whose values are watched.
struct Watched {
    name: String,
    client: verge_kv::Client,
    /// The newest stamp that has been seen under each key. What is visible already is not new.
    keys: Vec<(verge_kv::Key, Time)>,
    buffer: Vec<u8>,
    is_gone: bool,
}

impl Watched {
    fn new(node: &Talk, lane: u16, filters: &[TopicFilter]) -> Result<Watched, Trouble> {
        let options =
            verge_kv::Options { tuples: 1, name: "watch".to_owned(), ..verge_kv::Options::default() };
        let client = verge_kv::Client::attach(&node.socket, lane, &options)
            .map_err(|error| Trouble(format!("{}: {error}", node.name)))?;
        let mut buffer = vec![0; client.facts().value_bytes_max];
        let meant = client.keys().filter(|key| filters.iter().any(|filter| filter.matches(key.name())));
        let keys = meant
            .map(|key| {
                let seen = client.read_now(&key, &mut buffer).map_or(Time::ZERO, |value| value.stamp);
                (key, seen)
            })
            .collect();
        Ok(Watched { name: node.name.clone(), client, keys, buffer, is_gone: false })
    }

    /// What has become visible since the last look.
    fn look(&mut self) -> Vec<Row> {
        let Watched { name, client, keys, buffer, .. } = self;
        let mut rows = Vec::new();
        for (key, seen) in keys {
            let Ok(value) = client.read_now(key, buffer) else { continue };
            if value.stamp <= *seen {
                continue;
            }
            *seen = value.stamp;
            rows.push(Row {
                node: name.clone(),
                key: key.name().to_owned(),
                value: shown(key.format(), value.bytes),
                stamp: value.stamp.0,
                age_ms: host::now().since(value.stamp).as_millis_f64(),
            });
        }
        rows
    }
}

/// One value that has become visible, on a line.
fn tell(row: &Row, format: Format) -> Result<(), Trouble> {
    match format {
        Format::Json => line(&serde_json::to_string(row).map_err(|error| Trouble(error.to_string()))?),
        Format::Table => line(&format!("{} {} {}", clock(Time(row.stamp)), row.key, row.value)),
    }
}

/// A number if it is one, or a text, or its bytes.
fn for_people(plain: Plain) -> String {
    plain.number.map(|number| number.to_string()).or(plain.text).unwrap_or(plain.bytes)
}

/// A value for people.
fn shown(format: Option<kv::Format>, bytes: &[u8]) -> String {
    match Answer::value(0, bytes, format) {
        Answer::Value { plain, .. } => for_people(plain),
        _ => String::new(),
    }
}

/// A time of the day in UTC, with milliseconds.
fn clock(time: Time) -> String {
    let nanos = i128::from(time.0);
    jiff::Timestamp::from_nanosecond(nanos)
        .map_or_else(|_| time.0.to_string(), |at| at.strftime("%H:%M:%S%.3f").to_string())
}
