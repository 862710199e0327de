//! `verge site`: how this site is joined to others.

pub mod top;

use crate::arguments::Format;
use config::{Bandwidth, BrokerAddress, Config};
use console::{
    GREEN, Outcome, RED, Trouble, YELLOW, coloured, fit_terminal, json, line, say_left_out, table, yes,
};
use federation::{Load, Refused, Survey, SurveyedTopic};
use planner::{Crossing, Keeping};
use report::{
    CoordinationReport, FlowReport, KeeperReport, LinkReport, LinkUse, RefusedStream, RouterReport,
    SiteReport, UnwishedFilter,
};
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long a broker may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
const HEADINGS: [&str; 10] = [
    "router",
    "reached",
    "clock ms",
    "wanted",
    "streams out",
    "messages out",
    "dropped out",
    "streams in",
    "messages in",
    "again in",
];
/// Columns that are left out first where a terminal is narrow.
const LESS_IMPORTANT: [&str; 4] = ["again in", "clock ms", "dropped out", "wanted"];

/// What one of the site's brokers says.
#[derive(Serialize)]
struct Row {
    broker: String,
    /// Why nothing is known, where nothing is.
    trouble: Option<String>,
    #[serde(flatten)]
    report: Option<SiteReport>,
}

fn joins_nothing() -> Trouble {
    let text = "this configuration joins no site to others: give it site.name and [routers.*], see sites.md";
    Trouble(text.to_owned())
}

/// Shows what the way to another site takes, and whether it keeps the contracts of what may leave. Yes: it does.
pub fn check(config: &Config, format: Format) -> Outcome {
    let Some(way) = planner::crossing(config) else { return Err(joins_nothing()) };
    let journal = planner::keeping(config);
    let kept = way.kept && journal.as_ref().is_none_or(|journal| journal.kept);
    if format == Format::Json {
        json(&Checked { way, journal })?;
        return Ok(yes(kept));
    }
    check_way(&way)?;
    if let Some(journal) = journal {
        check_journal(&journal)?;
    }
    Ok(yes(kept))
}

/// What `verge site check` says.
#[derive(Serialize)]
struct Checked {
    #[serde(flatten)]
    way: Crossing,
    /// The journal of each broker; nothing where there is none.
    journal: Option<Keeping>,
}

fn check_way(answer: &Crossing) -> Result<(), Trouble> {
    let mut way = table(&["part of the way", "at most ms", "key"], &[1]);
    for part in &answer.way {
        way.add_row([part.part.to_owned(), format!("{:.3}", part.at_most_ms), part.key.clone()]);
    }
    way.add_row(["together".to_owned(), format!("{:.3}", answer.takes_ms), String::new()]);
    line(&way.to_string())?;
    line("The other brokers of the way are taken to be configured as these are.\n")?;
    if answer.topics.is_empty() {
        return line(
            "No [[topic]] is of what may leave (site.share): contracts that publishers state are tested when they come.",
        );
    }
    let mut topics = table(
        &["topics", "period ms", "deadline ms", "spare ms", "loss", "retain", "kept"],
        &[1, 2, 3, 4, 5],
    );
    for topic in &answer.topics {
        let [first, further] = topic.retain;
        let kept = yes_or_no(topic.kept);
        topics.add_row([
            topic.filter.clone(),
            millis(topic.period_ms),
            millis(topic.deadline_ms),
            millis(topic.spare_ms),
            topic.loss.clone(),
            format!("{first}, then {further}"),
            kept,
        ]);
    }
    line(&topics.to_string())?;
    for topic in &answer.topics {
        if let Some(most) = topic.streams_at_most.filter(|_| topic.kept) {
            line(&format!(
                "{}: the link to routers has room for {most} such streams, if nothing else is promised there",
                topic.filter
            ))?;
        }
    }
    for topic in answer.topics.iter().filter(|topic| !topic.kept) {
        line(&format!("{} {}: {}", coloured("without a promise:", YELLOW), topic.filter, topic.reason))?;
    }
    Ok(())
}

fn check_journal(answer: &Keeping) -> Result<(), Trouble> {
    let mib = |bytes: u64| format!("{:.0}", bytes as f64 / f64::from(1 << 20));
    let hours = |seconds: f64| format!("{:.1}", seconds / 3_600.0);
    let mut topics = table(
        &["kept", "messages/s", "payload at most", "for h", "room for h", "takes MiB"],
        &[1, 2, 3, 4, 5],
    );
    for topic in &answer.topics {
        let rate = topic.messages_per_second;
        topics.add_row([
            topic.filter.clone(),
            rate.map_or("not known".to_owned(), |rate| format!("{rate:.1}")),
            format!("{} B", topic.payload_bytes),
            hours(topic.keep_s),
            hours(topic.holds_s),
            mib(topic.needs_bytes),
        ]);
    }
    line("")?;
    line(&topics.to_string())?;
    line(&format!(
        "What is kept needs {} MiB of each broker's disk at most, and the journal may take {} (site.journal_bytes).",
        mib(answer.needs_bytes),
        mib(answer.bytes_max)
    ))?;
    if !answer.kept {
        line(&format!(
            "{} the oldest messages are given up before their time: raise site.journal_bytes to {} MiB, or keep less; where payloads \
             are shorter, say so with `size` in [[topic]]",
            coloured("too small:", RED),
            mib(answer.enough_bytes)
        ))?;
    }
    Ok(())
}

/// How long the coordination service may be silent.
pub const SERVICE_PATIENCE: Duration = Duration::from_secs(5);

/// What stands in the coordination service's tree.
pub fn survey(config: &Config) -> Result<Survey, Trouble> {
    let nodes = node::read_tree(config, SERVICE_PATIENCE)?;
    let survey = Survey::of(nodes.iter().map(|(path, data)| (path.as_str(), data.as_slice())));
    if !survey.is_ours() && !survey.layout.is_empty() {
        return Err(Trouble(format!(
            "the tree of the coordination service is not of this release (`{}`): give coordination.namespace another one",
            survey.layout
        )));
    }
    Ok(survey)
}

/// Shows what stands in the coordination service's tree. Yes: what one site publishes and another wants has a router.
pub fn tree(config: &Config, format: Format) -> Outcome {
    let survey = survey(config)?;
    let crosses = |topic: &&SurveyedTopic| {
        topic.published.iter().any(|from| topic.wanted.iter().chain(&topic.kept).any(|to| to != from))
    };
    let whole = survey.topics.values().filter(crosses).all(|topic| topic.record.router.is_some());
    if format == Format::Json {
        json(&survey)?;
        return Ok(yes(whole));
    }
    if survey.layout.is_empty() {
        line("There is nothing yet: no site or router has been there with this coordination.namespace.")?;
        return Ok(yes(whole));
    }
    let mut routers = table(
        &[
            "router",
            "reached at",
            "leads",
            "drains",
            "there for",
            "topics",
            "sites",
            "sends kB/s",
            "processor",
        ],
        &[5, 6, 7, 8],
    );
    for (name, router) in &survey.routers {
        let leads = if survey.leader.as_ref() == Some(name) { "yes" } else { "" };
        let (place, drains) = match &router.record {
            Some(record) => (record.locator.clone(), if router.drains { "yes" } else { "" }),
            None => (coloured("is not there", RED), ""),
        };
        // One that has just begun has not said anything.
        let load = router.record.as_ref().map(|record| record.load).filter(|load| *load != Load::default());
        let figure = |of: fn(&Load) -> String| load.as_ref().map(of).unwrap_or_default();
        let sites = figure(|load| load.connections.to_string());
        let sends = figure(|load| format!("{:.1}", load.bytes_per_second as f64 / 1e3));
        let processor = figure(|load| format!("{:.1} %", f64::from(load.processor_permille) / 10.0));
        let (leads, drains, topics) = (leads.to_owned(), drains.to_owned(), router.topics.to_string());
        let meant = router.record.as_ref().map(|record| record.only.join(" ")).unwrap_or_default();
        routers.add_row([name.clone(), place, leads, drains, meant, topics, sites, sends, processor]);
    }
    line(&routers.to_string())?;
    let sites: Vec<&str> = survey.sites.keys().map(String::as_str).collect();
    line(&format!("sites: {}\n", if sites.is_empty() { "none".to_owned() } else { sites.join(", ") }))?;
    let mut topics = table(&["topic", "router", "published at", "wanted at"], &[]);
    for (name, topic) in &survey.topics {
        let joined = |sites: &BTreeSet<String>| sites.iter().cloned().collect::<Vec<_>>().join(", ");
        let router = match (&topic.record.router, &topic.record.former) {
            (None, _) => coloured("none", YELLOW),
            (Some(router), None) => router.clone(),
            (Some(router), Some(former)) => format!("{router}, moving from {former}"),
        };
        let kept = topic.kept.iter().map(|site| format!("{site} (kept)"));
        let wanted = topic.wanted.iter().cloned().chain(kept).collect();
        topics.add_row([name.clone(), router, joined(&topic.published), joined(&wanted)]);
    }
    line(&topics.to_string())?;
    for (name, topic) in &survey.topics {
        for Refused { from, to, why } in &topic.record.refused {
            line(&format!("{} {name} from {from} to {to}: {why}", coloured("not carried:", RED)))?;
        }
    }
    for path in &survey.foreign {
        line(&format!("{} {path} is none of this release's", coloured("foreign:", YELLOW)))?;
    }
    Ok(yes(whole))
}

/// Shows the uplinks of both brokers. Yes: one carries, reaches all routers, and carries everything that is wanted as its contracts say.
pub fn status(config: &Config, wide: bool, format: Format) -> Outcome {
    let Some(site) = &config.site else { return Err(joins_nothing()) };
    let rows: Vec<Row> = config.brokers.iter().map(ask).collect();
    let carrying = rows.iter().filter_map(|row| row.report.as_ref()).find(|report| report.carries);
    let whole = carrying.is_some_and(|report| {
        let kept = report.refused.is_empty()
            && report.unpromised.is_empty()
            && report.unwished.is_empty()
            && report.by_one_router.is_empty();
        let kept = kept && report.coordination.as_ref().is_none_or(|of| of.holds && of.trouble.is_empty());
        kept && report.routers.iter().all(|router| router.reached && !is_far(router))
    });
    let reports = rows.iter().filter_map(|row| row.report.as_ref());
    let mut keepers = reports.filter_map(|report| report.keeper.as_ref());
    let whole = whole && keepers.all(|keeper| keeper.trouble.is_empty());
    if format == Format::Json {
        json(&rows)?;
        return Ok(yes(whole));
    }
    for Row { broker, trouble, report } in &rows {
        let said = match (trouble, report) {
            (Some(trouble), _) => coloured(trouble, YELLOW),
            (None, Some(report)) if report.carries => coloured("its uplink carries", GREEN),
            (None, _) => "its uplink stands by".to_owned(),
        };
        line(&format!("site {}, broker {broker}: {said}", site.name))?;
    }
    let Some(report) = carrying else {
        let known = rows.iter().all(|row| row.report.is_some());
        let said = match known {
            true => coloured("no uplink carries: nothing crosses", RED),
            false => coloured("no uplink that could be asked carries: what crosses is not known", YELLOW),
        };
        line(&said)?;
        return Ok(yes(false));
    };
    let mut shown = table(&HEADINGS, &[2, 3, 4, 5, 6, 7, 8, 9]);
    report.routers.iter().for_each(|router| _ = shown.add_row(cells(router)));
    let left_out = fit_terminal(&mut shown, wide, &HEADINGS, &LESS_IMPORTANT);
    line(&shown.to_string())?;
    if let Some(CoordinationReport { holds, trouble, offered, asked, routed }) = &report.coordination {
        line(&format!(
            "The coordination service knows {offered} topics that are published here, and {asked} that are wanted; {routed} of them have a router."
        ))?;
        if !trouble.is_empty() || !holds {
            let why = if trouble.is_empty() { "it does not know this site yet" } else { trouble };
            line(&format!("{} {why}", coloured("not coordinated:", RED)))?;
        }
    }
    if let Some(link) = &report.link {
        line(&thin(link))?;
    }
    troubles(report)?;
    keepers_of(&rows)?;
    for router in report.routers.iter().filter(|router| is_far(router)) {
        line(&format!(
            "{} router {}: the quickest way there and back takes {:.3} ms, and it is reckoned as {:.3} ms each way: raise \
             broker_to_subscriber of the link class of uplink.link",
            coloured("far:", YELLOW),
            router.name,
            2e-6 * router.clock_within_ns.unwrap_or_default() as f64,
            router.reckoned_ns as f64 / 1e6
        ))?;
    }
    line(&what_stays(report))?;
    say_left_out(&left_out)?;
    Ok(yes(whole))
}

/// Says how much of what is published here has to leave.
fn what_stays(report: &SiteReport) -> String {
    let wanted = format!(
        "{} filters are subscribed here. `wanted` counts those that other sites subscribe.",
        report.wanted_here
    );
    let left = report.routers.iter().map(|router| router.outward.bytes).sum::<u64>();
    match report.published_bytes {
        Some(published @ 1..) => {
            let stays = 100.0 - 100.0 * left.min(published) as f64 / published as f64;
            let [published, left] = [published, left].map(|bytes| format!("{:.1} kB", bytes as f64 / 1e3));
            format!(
                "{wanted}\nOf {published} that were published here since the broker began, {left} went to routers: {stays:.1} % stayed."
            )
        }
        _ => wanted,
    }
}

/// Says how a link of stated bandwidth is used.
fn thin(link: &LinkReport) -> String {
    let way = |way: &LinkUse| {
        format!("{}, {:.1} ms if all come at once", Bandwidth(way.promised), way.waits_ns as f64 / 1e6)
    };
    let said = format!(
        "The link to routers carries {}, of which {} for best effort. Promised outward: {}; inward: {}; at most {:.1} ms.",
        Bandwidth(link.bandwidth),
        Bandwidth(link.bulk),
        way(&link.outward),
        way(&link.inward),
        link.queueing_ns as f64 / 1e6
    );
    match &*link.trouble {
        "" => said,
        trouble => {
            format!("{said}\n{} nothing that comes is promised: {trouble}", coloured("too thin:", YELLOW))
        }
    }
}

/// Says what is kept, and what was missed.
fn keepers_of(rows: &[Row]) -> Result<(), Trouble> {
    let keepers = rows.iter().filter_map(|row| Some((&row.broker, row.report.as_ref()?.keeper.as_ref()?)));
    for (broker, keeper) in keepers {
        let KeeperReport { bytes, bytes_max, kept, not_kept, given_up, trouble, .. } = keeper;
        let mib = |bytes: &u64| *bytes as f64 / f64::from(1 << 20);
        line(&format!(
            "The journal of broker {broker} has {:.1} of {:.1} MiB. Since the broker began {kept} messages were kept, {not_kept} were not, \
             {given_up} were given up for want of room.",
            mib(bytes),
            mib(bytes_max)
        ))?;
        if !trouble.is_empty() {
            line(&format!("{} {trouble}", coloured("not kept:", RED)))?;
        }
        for given in &keeper.given {
            line(&format!(
                "It has given {} messages to {}, which had missed them.",
                given.messages, given.site
            ))?;
        }
        if !keeper.asks || keeper.missed.is_empty() {
            continue;
        }
        let mut shown = table(&["missed of", "heard", "asks", "left at most", "came", "gone"], &[3, 4, 5]);
        for of in &keeper.missed {
            let heard = yes_or_no(of.heard);
            let asks = if of.asks { "yes" } else { "" };
            let counts = [of.left, of.messages, of.gone].map(|count| count.to_string());
            shown.add_row([of.site.clone(), heard, asks.to_owned()].into_iter().chain(counts));
        }
        line(&shown.to_string())?;
        if keeper.wanted == 0 {
            line(
                "Nobody subscribes `$backlog/...` here, so nothing is asked for. What is left waits for a minute after somebody did, and for 10 minutes after a start.",
            )?;
        }
    }
    Ok(())
}

fn yes_or_no(is_well: bool) -> String {
    if is_well { coloured("yes", GREEN) } else { coloured("no", RED) }
}

fn millis(value: Option<f64>) -> String {
    value.map_or("none".to_owned(), |value| format!("{value:.1}"))
}

/// Says what does not cross as it should, and why.
fn troubles(report: &SiteReport) -> Result<(), Trouble> {
    for router in report.routers.iter().filter(|router| !router.reached && !router.why.is_empty()) {
        line(&format!("{} router {}: {}", coloured("not reached:", RED), router.name, router.why))?;
    }
    let there = |router: &Option<String>| {
        router.as_ref().map_or("the site's own broker".to_owned(), |name| format!("router {name}"))
    };
    for (said, colour, streams) in
        [("not carried:", RED, &report.refused), ("without a promise:", YELLOW, &report.unpromised)]
    {
        for RefusedStream { router, topic, why } in streams {
            line(&format!("{} {topic} by {}: {why}", coloured(said, colour), there(router)))?;
        }
    }
    if !report.by_one_router.is_empty() {
        let topics = report.by_one_router.join(", ");
        line(&format!("{} {topics}", coloured("by one router only, and not by two (paths = 2):", YELLOW)))?;
    }
    for UnwishedFilter { router, filter, why } in &report.unwished {
        line(&format!("{} {filter} at {}: {why}", coloured("not subscribed:", RED), there(router)))?;
    }
    Ok(())
}

/// Whether the way to a router surely takes longer than it is reckoned with.
fn is_far(router: &RouterReport) -> bool {
    router.clock_within_ns.is_some_and(|within| within > router.reckoned_ns)
}

fn cells(router: &RouterReport) -> [String; 10] {
    let RouterReport { outward, inward, .. } = router;
    let FlowReport { streams, messages, dropped, .. } = outward;
    let millis = |nanos: i64| nanos as f64 / 1e6;
    let clock = router.clock_ahead_ns.zip(router.clock_within_ns);
    let clock = clock
        .map_or("?".to_owned(), |(ahead, within)| format!("{:.3} ±{:.3}", millis(ahead), millis(within)));
    let reached = yes_or_no(router.reached);
    [
        router.name.clone(),
        reached,
        clock,
        router.wanted_elsewhere.to_string(),
        streams.to_string(),
        messages.to_string(),
        dropped.to_string(),
        inward.streams.to_string(),
        inward.messages.to_string(),
        inward.repeated.to_string(),
    ]
}

/// Asks one broker.
fn ask(broker: &BrokerAddress) -> Row {
    let told = match &broker.http {
        None => {
            Err(format!("brokers.{}.http is not given, and what is asked for is shown there", broker.name))
        }
        Some(place) => get(place.as_str()).and_then(|body| {
            serde_json::from_str(&body).map_err(|error| format!("it says what cannot be read: {error}"))
        }),
    };
    let (report, trouble) = match told {
        Ok(report) => (Some(report), None),
        Err(why) => (None, Some(why)),
    };
    Row { broker: broker.name.clone(), trouble, report }
}

/// The page of a broker's uplink. What answers there is this program, so no more of HTTP is needed than it speaks.
fn get(place: &str) -> Result<String, String> {
    let unreached = |error: std::io::Error| format!("its HTTP port {place} does not answer: {error}");
    let address = place.to_socket_addrs().map_err(unreached)?.next().ok_or("its address is none")?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(unreached)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(unreached)?;
    let request = format!("GET /api/v1/site HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(unreached)?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer).map_err(unreached)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("it does not answer as a broker does")?;
    match head.split(' ').nth(1) {
        Some("200") => Ok(body.to_owned()),
        _ => Err(body.trim().to_owned()),
    }
}

/// The longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
