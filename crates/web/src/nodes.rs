//! What a node of the key-value store shows. All of it is made from what `verge kv status --format json` says of that node.

use crate::control::{on_runtime, ticks};
use crate::exposition::Samples;
use crate::metrics::{Kind, write_family};
use crate::readiness::Reason;
use crate::server::{EXPOSITION, JSON, TEXT, readiness, reply, routes, serve};
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Says how the node is.
pub type NodeSource = Arc<dyn Fn() -> Value + Send + Sync>;

/// Where a figure is in what is said of a node.
#[derive(Clone, Copy)]
enum Place {
    /// Of each lane.
    Lane(&'static str),
    /// Of each peer in each lane.
    Peer(&'static str),
    /// Several of each lane: the labels, of which the last tells them apart, and its values with their places.
    Lanes(&'static [&'static str; 2], &'static [(&'static str, &'static str)]),
    /// The same of each peer.
    Peers(&'static [&'static str; 3], &'static [(&'static str, &'static str)]),
}

/// One metric of a node.
pub struct NodeMetric {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// What it means.
    pub help: &'static str,
    place: Place,
}

impl NodeMetric {
    /// Its labels.
    pub fn labels(&self) -> &'static [&'static str] {
        match self.place {
            Place::Lane(_) => &["lane"],
            Place::Peer(_) => &["lane", "peer"],
            Place::Lanes(labels, _) => labels,
            Place::Peers(labels, _) => labels,
        }
    }
}

const fn counter(name: &'static str, place: Place, help: &'static str) -> NodeMetric {
    NodeMetric { name, kind: Kind::Counter, help, place }
}

const fn gauge(name: &'static str, place: Place, help: &'static str) -> NodeMetric {
    NodeMetric { name, kind: Kind::Gauge, help, place }
}

/// All of them.
pub const NODE_METRICS: &[NodeMetric] = &[
    gauge("verge_kv_running", Place::Lane("/state"), "1 once the lane does its jobs."),
    gauge(
        "verge_kv_knows_all",
        Place::Lane("/knows_all"),
        "1 while this node lacks nothing that others may have agreed on.",
    ),
    gauge(
        "verge_kv_alarm",
        Place::Lane("/alarm"),
        "1 from when the stores of more nodes than may be faulty differ from this one until it is theirs again: nothing that was read can be trusted.",
    ),
    counter("verge_kv_alarms_total", Place::Lane("/jobs/alarms"), "Jobs after which they did."),
    counter(
        "verge_kv_jobs_total",
        Place::Lane("/jobs/counted"),
        "Jobs that were brought to an end and count: those of the first seconds, while others may still come, do not.",
    ),
    counter(
        "verge_kv_jobs_complete_total",
        Place::Lane("/jobs/complete"),
        "Those of them in which all nodes were heard in all rounds.",
    ),
    counter(
        "verge_kv_jobs_skipped_total",
        Place::Lane("/jobs/skipped"),
        "Jobs that were not begun or not ended in time: the thread of the lane was not run.",
    ),
    counter(
        "verge_kv_jobs_fenced_total",
        Place::Lane("/jobs/fenced"),
        "Jobs in which this node heard too few, or spoke too late, and published nothing.",
    ),
    counter(
        "verge_kv_jobs_disagreed_total",
        Place::Lane("/jobs/disagreed"),
        "Jobs after which a peer's store was another.",
    ),
    counter(
        "verge_kv_recovered_total",
        Place::Lane("/jobs/recovered"),
        "Times that this node came to know all: after a start, and when it had missed something.",
    ),
    counter(
        "verge_kv_published_late_total",
        Place::Lane("/late_publish"),
        "Values that were published after their instant.",
    ),
    counter(
        "verge_kv_votes_failed_total",
        Place::Lane("/votes_failed"),
        "Votes of modules that came to no value, since the module was stopped or does not keep to its interface.",
    ),
    counter(
        "verge_kv_writes_total",
        Place::Lanes(
            &["lane", "fate"],
            &[("taken", "/writes/taken"), ("too_late", "/writes/too_late"), ("refused", "/writes/refused")],
        ),
        "What tasks on this host wrote that reached the lane: taken into a job, too late for its instant by then, or refused there. What is refused to its caller at once is not counted.",
    ),
    gauge(
        "verge_kv_coordination_seconds",
        Place::Lanes(
            &["lane", "quantile"],
            &[
                ("0.5", "/coordination_seconds/p50"),
                ("0.99", "/coordination_seconds/p99"),
                ("1", "/coordination_seconds/worst"),
            ],
        ),
        "From the release of a job until its values were in the store, since the node began.",
    ),
    gauge(
        "verge_kv_margin_min_seconds",
        Place::Lane("/margin_min_seconds"),
        "What was left of the period after that, at worst.",
    ),
    gauge("verge_kv_period_seconds", Place::Lane("/period_seconds"), "The period of the lane."),
    gauge(
        "verge_kv_clock_back_seconds",
        Place::Lane("/clock_back_seconds"),
        "How far the clock has gone back, until it has caught up.",
    ),
    gauge("verge_kv_clients", Place::Lane("/clients"), "Tasks and tools that have a place at the lane."),
    gauge(
        "verge_kv_peer_sends",
        Place::Peer("/sends"),
        "1 while this node has a connection on which it sends to that peer.",
    ),
    gauge(
        "verge_kv_peer_hears",
        Place::Peer("/hears"),
        "1 while this node has a connection on which it hears that peer.",
    ),
    gauge(
        "verge_kv_peer_clock_ahead_seconds",
        Place::Peers(
            &["lane", "peer", "bound"],
            &[("least", "/clock_ahead_seconds/0"), ("most", "/clock_ahead_seconds/1")],
        ),
        "How far the peer's clock is ahead of this one, at least and at most.",
    ),
    counter(
        "verge_kv_peer_silent_total",
        Place::Peer("/silent"),
        "Rounds in which nothing came from the peer in time.",
    ),
    counter(
        "verge_kv_peer_late_total",
        Place::Peer("/late"),
        "Frames of the peer that came after their round.",
    ),
    counter(
        "verge_kv_peer_forged_total",
        Place::Peer("/forged"),
        "Frames with a wrong code on the peer's link.",
    ),
    counter(
        "verge_kv_peer_wrong_total",
        Place::Peer("/wrong"),
        "Frames of the peer that say what cannot be.",
    ),
    counter(
        "verge_kv_peer_lied_total",
        Place::Peer("/lied"),
        "Jobs in which the peer told different nodes different things.",
    ),
    counter(
        "verge_kv_peer_differed_total",
        Place::Peer("/differed"),
        "Jobs after which the peer's store was another.",
    ),
];

fn lanes(report: &Value) -> impl Iterator<Item = (String, &Value)> {
    report["lanes"].as_array().into_iter().flatten().map(|lane| (lane["lane"].to_string(), lane))
}

fn peers(lane: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let all = lane["peers"].as_array().into_iter().flatten();
    all.map(|peer| (peer["name"].as_str().unwrap_or_default(), peer))
}

/// A figure; `None` where there is nothing to say yet.
fn figure(of: &Value, path: &str) -> Option<f64> {
    match of.pointer(path)? {
        Value::Number(number) => number.as_f64(),
        Value::Bool(is) => Some(f64::from(u8::from(*is))),
        Value::Array(all) => Some(all.len() as f64),
        // The only text among the figures is what a lane does.
        Value::String(state) => Some(f64::from(u8::from(state == "running"))),
        _ => None,
    }
}

/// All metrics of a node in the text format of Prometheus.
pub(crate) fn render_node(report: &Value) -> String {
    let mut out = String::new();
    for metric in NODE_METRICS {
        write_family(&mut out, metric.name, metric.kind, metric.help, |samples| {
            for (number, lane) in lanes(report) {
                collect(metric.place, &number, lane, samples);
            }
        });
    }
    out
}

fn collect(place: Place, number: &str, lane: &Value, samples: &mut Samples<'_>) {
    let mut put = |labels: &[(&str, &str)], of: &Value, path: &str| {
        if let Some(value) = figure(of, path) {
            samples.labelled_value(labels, value);
        }
    };
    let lane_label = ("lane", number);
    match place {
        Place::Lane(path) => put(&[lane_label], lane, path),
        Place::Peer(path) => {
            peers(lane).for_each(|(name, peer)| put(&[lane_label, ("peer", name)], peer, path));
        }
        Place::Lanes([_, label], paths) => {
            paths.iter().for_each(|(value, path)| put(&[lane_label, (label, value)], lane, path));
        }
        Place::Peers([_, _, label], paths) => {
            for (name, peer) in peers(lane) {
                let labels = |value| [lane_label, ("peer", name), (label, value)];
                paths.iter().for_each(|(value, path)| put(&labels(*value), peer, path));
            }
        }
    }
}

/// Trouble is trouble for so long.
const TROUBLE_SECONDS: f64 = 60.0;

/// Everything about a node that is not as it should be. What is blocking: it does not serve its readers.
pub fn node_reasons(report: &Value) -> Vec<Reason> {
    let mut reasons = Vec::new();
    for (number, lane) in lanes(report) {
        let mut find = |code, blocking, text: String, remedy| {
            reasons.push(Reason { code, blocking, text: format!("lane {number}: {text}"), remedy });
        };
        if lane["state"] != "running" {
            let remedy = "start the others: it begins when all are there, or after kv.start_wait";
            find("starting", true, "it waits for the other nodes".to_owned(), remedy);
            continue;
        }
        if lane["alarm"] == true {
            find(
                "alarm",
                true,
                "the stores of more nodes than may be faulty differ from this one".to_owned(),
                "stop the control, compare `verge kv status` on all nodes, and restart those that are alone",
            );
        }
        if lane["knows_all"] != true {
            find(
                "unknown",
                true,
                "it does not know yet what the others have agreed on".to_owned(),
                "if it lasts: does it hear enough others that know all (`verge kv status`)? Otherwise restart it",
            );
        }
        for (code, path, what, remedy) in [
            (
                "silent",
                "/last/silent",
                "not heard",
                "are they running, and connected? `verge doctor` there, and compare clocks",
            ),
            (
                "lying",
                "/last/liars",
                "lying",
                "replace their hardware or software; they are masked meanwhile",
            ),
            ("differs", "/last/differ", "of another store", "compare `verge kv status` on all nodes"),
        ] {
            let names = lane.pointer(path).and_then(Value::as_array).into_iter().flatten();
            let names: Vec<&str> = names.filter_map(Value::as_str).collect();
            if !names.is_empty() {
                find(code, false, format!("{what}: {}", names.join(", ")), remedy);
            }
        }
        if lane["troubled_seconds_ago"].as_f64().is_some_and(|ago| ago <= TROUBLE_SECONDS) {
            let remedy = "`verge kv status` has what was counted, and the node's log has when";
            find(
                "troubled",
                false,
                "something was not as it should be within the last minute".to_owned(),
                remedy,
            );
        }
    }
    reasons
}

/// Whether the lanes of a node do their jobs.
#[derive(Debug, Default)]
pub struct Turning(BTreeMap<String, Seen>);

#[derive(Clone, Copy, Debug)]
struct Seen {
    job: u64,
    since: Instant,
}

/// A lane that has not ended a job for so long, and for so many periods, stands still.
const STANDS_STILL: (Duration, f64) = (Duration::from_secs(2), 5.0);

impl Turning {
    /// Looks at a report. A lane that has not begun, or waits for a clock that went back, does not count.
    pub fn look(&mut self, report: &Value, now: Instant) -> bool {
        let mut all = true;
        for (number, lane) in lanes(report) {
            let of = |path: &str| lane.pointer(path).and_then(Value::as_u64).unwrap_or(0);
            let job = of("/last/job").wrapping_add(of("/jobs/skipped"));
            let waits = lane["state"] != "running"
                || lane["clock_back_seconds"].as_f64().is_some_and(|back| back > 0.0);
            let seen = self.0.entry(number).or_insert(Seen { job, since: now });
            if seen.job != job || waits {
                *seen = Seen { job, since: now };
            }
            let periods =
                Duration::from_secs_f64(lane["period_seconds"].as_f64().unwrap_or(0.0) * STANDS_STILL.1);
            all &= now.saturating_duration_since(seen.since) <= STANDS_STILL.0.max(periods);
        }
        all
    }
}

/// Something to do every so often with what the node says.
pub type NodeBeat = Box<dyn FnMut(&Value) + Send>;

/// What the control thread of a node does.
pub struct NodeControl {
    /// How it hears of the node.
    pub source: NodeSource,
    /// Where requests come in, if anywhere.
    pub http: Option<TcpListener>,
    /// So many connections are taken there at once; [`CONNECTIONS_MAX`](crate::CONNECTIONS_MAX) where there are descriptors enough.
    pub connections: usize,
    /// What is done every so often.
    pub beat: Option<(Duration, NodeBeat)>,
}

struct NodeShared {
    source: NodeSource,
    turning: Mutex<Turning>,
}

/// What is said of a lane that stands still.
const STUCK: &str = "a lane has not ended a job for two seconds and five periods";

impl NodeShared {
    fn turns(&self, report: &Value) -> bool {
        self.turning.lock().unwrap_or_else(PoisonError::into_inner).look(report, Instant::now())
    }
}

impl NodeControl {
    /// Does it until the process ends. An error says why it cannot.
    pub fn run(self) -> io::Result<()> {
        on_runtime(async move |parts| {
            let NodeControl { source, http, connections, beat } = self;
            if let Some((interval, mut act)) = beat {
                let source = Arc::clone(&source);
                parts.spawn(async move {
                    let mut ticks = ticks(interval);
                    loop {
                        ticks.tick().await;
                        act(&source());
                    }
                });
            }
            if let Some(listener) = http {
                let shared = Arc::new(NodeShared { source, turning: Mutex::default() });
                parts.spawn(serve(listener, connections, pages(shared))?);
            }
            Ok(())
        })
    }
}

fn pages(shared: Arc<NodeShared>) -> Router {
    routes(get(metrics), get(healthz), get(readyz), get(status)).with_state(shared)
}

async fn metrics(State(shared): State<Arc<NodeShared>>) -> Response {
    reply(StatusCode::OK, EXPOSITION, render_node(&(shared.source)()))
}

async fn healthz(State(shared): State<Arc<NodeShared>>) -> Response {
    let report = (shared.source)();
    if shared.turns(&report) {
        reply(StatusCode::OK, TEXT, "alive\n".to_owned())
    } else {
        reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{STUCK}\n"))
    }
}

async fn readyz(State(shared): State<Arc<NodeShared>>, RawQuery(query): RawQuery) -> Response {
    let report = (shared.source)();
    let mut reasons = node_reasons(&report);
    if !shared.turns(&report) {
        let remedy =
            "look for processes of a higher priority on its processor (`verge doctor`); restart the node";
        reasons.push(Reason { code: "stuck", blocking: true, text: STUCK.to_owned(), remedy });
    }
    readiness(&reasons, query)
}

async fn status(State(shared): State<Arc<NodeShared>>) -> Response {
    reply(StatusCode::OK, JSON, (shared.source)().to_string())
}

#[cfg(test)]
mod tests;
