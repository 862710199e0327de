//! The table of all metrics. What is rendered, the page `docs/metrics.md`, and the checks of the dashboard come from it.

use crate::exposition::{Samples, seconds};
use crate::nodes::NODE_METRICS;
use crate::process::ProcessUse;
use crate::site::SITE_METRICS;
use broker::{Failing, FailureCause, LATENCY_BUCKETS, Snapshot};
use std::time::Duration;
use wire::{Standing, StoreState};

/// What a metric is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It only grows while the process lives.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Counts by bucket.
    Histogram,
}

impl Kind {
    /// Its name in the text format.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// What metrics are made from.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// The broker.
    pub snapshot: &'a Snapshot,
    /// The process, where the host tells.
    pub process: Option<ProcessUse>,
    /// How long the data thread took to answer.
    pub answered_in: Duration,
}

/// One metric.
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it means.
    pub help: &'static str,
    collect: fn(&Reading<'_>, &mut Samples<'_>),
}

const fn metric(
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
    collect: fn(&Reading<'_>, &mut Samples<'_>),
) -> Metric {
    Metric { name, kind, labels, help, collect }
}

/// A counter or gauge without labels that is one number of the snapshot's node.
macro_rules! of_node {
    ($name:literal, $kind:ident, $($field:ident).+, $help:literal) => {
        metric($name, Kind::$kind, &[], $help, |reading, samples| {
            samples.count(reading.snapshot.node.$($field).+.into());
        })
    };
}

/// A counter or gauge without labels that another part of the node counts under this name.
macro_rules! figure {
    ($name:literal, $kind:ident, $help:literal) => {
        metric($name, Kind::$kind, &[], $help, |reading, samples| {
            let figures = &reading.snapshot.figures;
            if let Some((_, value)) = figures.iter().find(|(name, _)| *name == $name) {
                samples.count(*value);
            }
        })
    };
}

/// One number of the process.
macro_rules! of_process {
    ($name:literal, $kind:ident, $($field:ident).+, $help:literal) => {
        metric($name, Kind::$kind, &[], $help, |reading, samples| {
            if let Some(used) = reading.process {
                samples.value(used.$($field).+ as f64);
            }
        })
    };
}

/// One number of each level of operators.
macro_rules! of_levels {
    ($name:literal, $kind:ident, $help:literal, $value:expr) => {
        metric($name, Kind::$kind, &["level"], $help, |reading, samples| {
            for level in &reading.snapshot.levels {
                samples.labelled_value(&[("level", &level.level.to_string())], $value(level));
            }
        })
    };
}

/// One number of each class of contracts.
macro_rules! of_classes {
    ($name:literal, $kind:ident, $($field:ident).+, $help:literal) => {
        metric($name, Kind::$kind, &["class"], $help, |reading, samples| {
            for (class, counts) in &reading.snapshot.classes {
                samples.labelled(&[("class", class)], counts.$($field).+.into());
            }
        })
    };
}

/// All metrics, in the order in which they are shown.
pub const METRICS: &[Metric] = &[
    metric(
        "verge_info",
        Kind::Gauge,
        &["broker", "version"],
        "Always 1; the labels say which broker and which release.",
        |reading, samples| {
            let version = env!("CARGO_PKG_VERSION");
            samples.labelled(&[("broker", &reading.snapshot.name), ("version", version)], 1);
        },
    ),
    metric(
        "verge_start_time_seconds",
        Kind::Gauge,
        &[],
        "When the process started, in seconds since 1970.",
        |reading, samples| samples.value(reading.snapshot.node.started.0 as f64 / 1e9),
    ),
    metric(
        "verge_role",
        Kind::Gauge,
        &["role"],
        "1 for what the broker is in its pair: primary, backup or seeking; 0 for the others.",
        |reading, samples| {
            let roles = [
                ("primary", Standing::Primary),
                ("backup", Standing::Backup),
                ("seeking", Standing::Seeking),
            ];
            for (role, standing) in roles {
                samples.labelled(&[("role", role)], u64::from(reading.snapshot.node.standing == standing));
            }
        },
    ),
    metric(
        "verge_epoch",
        Kind::Gauge,
        &[],
        "The number of the reign that the broker knows of. It grows with every failover and handover.",
        |reading, samples| samples.count(reading.snapshot.node.reign.epoch.0),
    ),
    of_node!(
        "verge_protected",
        Gauge,
        protected,
        "1 if a crash of the primary would now be survived within every contract."
    ),
    metric(
        "verge_broken_invariants_total",
        Kind::Counter,
        &[],
        "How often the program broke a promise to itself and went on: a fault of Verge. The log names the place.",
        |reading, samples| samples.count(reading.snapshot.broken_invariants),
    ),
    of_node!("verge_promotions_total", Counter, counters.promotions, "How often this broker became primary."),
    of_node!(
        "verge_false_takeovers_total",
        Counter,
        counters.false_takeovers,
        "How often this broker took the reign of a primary that was alive and reached again at once."
    ),
    metric(
        "verge_pair_round_trip_seconds",
        Kind::Gauge,
        &[],
        "To the partner and back, as heartbeats show it; 0 where none have come.",
        |reading, samples| samples.value(reading.snapshot.node.counters.pair_round_trip_us as f64 / 1e6),
    ),
    metric(
        "verge_pair_loss_ratio",
        Kind::Gauge,
        &[],
        "The share of the partner's heartbeats that is lost.",
        |reading, samples| samples.value(reading.snapshot.node.counters.pair_loss_ppm as f64 / 1e6),
    ),
    metric(
        "verge_pair_patience_seconds",
        Kind::Gauge,
        &[],
        "How long the partner may be silent before it is taken for dead; 0 where no heartbeats have come.",
        |reading, samples| samples.value(reading.snapshot.node.counters.pair_patience_us as f64 / 1e6),
    ),
    metric(
        "verge_copying_seconds",
        Kind::Gauge,
        &[],
        "From when a lazy copy is due to begin until it has left, at the 99th percentile of a thousand turns with copies; replication.budget must cover it. 0 where too few were made.",
        |reading, samples| samples.value(reading.snapshot.node.counters.copying_us as f64 / 1e6),
    ),
    of_node!("verge_clients", Gauge, clients, "Connected clients."),
    of_node!(
        "verge_relayed_clients",
        Gauge,
        relayed,
        "Clients that cannot reach the primary, and pass through its backup to it; both brokers count them."
    ),
    of_node!(
        "verge_relayed_bytes_total",
        Counter,
        counters.relayed_bytes,
        "Bytes of such clients, both ways."
    ),
    of_node!(
        "verge_streams_silent",
        Gauge,
        silent,
        "Streams of which nothing has come for longer than their contract lets expect, and whose publisher has not ended them."
    ),
    metric(
        "verge_streams",
        Kind::Gauge,
        &["state"],
        "Streams by whether their contract is met, at risk, or was broken within the last minute, or nothing comes of them.",
        |reading, samples| {
            let states = ["met", "at_risk", "broken", "silent"].into_iter().zip(reading.snapshot.states);
            states.for_each(|(state, count)| samples.labelled(&[("state", state)], count));
        },
    ),
    metric(
        "verge_dispatch_latency_seconds",
        Kind::Histogram,
        &["class"],
        "From the creation of a message to its dispatch, by class of contract: the filter of its [[topic]], or `other`.",
        |reading, samples| {
            for (class, counts) in &reading.snapshot.classes {
                samples.histogram(class, &LATENCY_BUCKETS, &counts.latency, counts.latency_nanos);
            }
        },
    ),
    of_classes!(
        "verge_deadline_missed_total",
        Counter,
        missed,
        "Messages dispatched after their deadline, by class of contract."
    ),
    of_classes!(
        "verge_lost_total",
        Counter,
        lost,
        "Messages that were missing when a later one came, or were overwritten before they were dispatched."
    ),
    of_classes!(
        "verge_longest_loss_run",
        Gauge,
        longest_run,
        "The longest run of those since the process started."
    ),
    metric(
        "verge_subscriber_latency_seconds",
        Kind::Histogram,
        &["class"],
        "From the creation of a message to its arrival, as subscribers of the native protocol say, once for each of them. What is sent again after a failover is not counted.",
        |reading, samples| {
            for (class, counts) in &reading.snapshot.classes {
                samples.histogram(class, &LATENCY_BUCKETS, &counts.arrivals, counts.arrivals_nanos);
            }
        },
    ),
    of_classes!(
        "verge_subscriber_late_total",
        Counter,
        subscribers_late,
        "Messages that came to a subscriber after their deadline, as it says."
    ),
    of_classes!(
        "verge_subscriber_lost_total",
        Counter,
        subscribers_lost,
        "Messages that never came to a subscriber, as it says."
    ),
    of_node!("verge_messages_arrived_total", Counter, counters.arrived, "Messages that arrived."),
    of_node!("verge_messages_arrived_bytes_total", Counter, counters.arrived_bytes, "Their payload bytes."),
    of_node!("verge_messages_dispatched_total", Counter, counters.dispatched, "Messages dispatched."),
    of_node!(
        "verge_messages_duplicate_total",
        Counter,
        counters.duplicates,
        "Messages that arrived again and were dropped."
    ),
    of_node!(
        "verge_messages_forwarded_total",
        Counter,
        counters.forwarded,
        "Messages that came while this broker did not reign, and were sent on."
    ),
    of_node!(
        "verge_messages_overrun_total",
        Counter,
        counters.overrun,
        "Messages that found no room, or were overwritten before they were dispatched."
    ),
    of_node!(
        "verge_messages_dropped_total",
        Counter,
        counters.dropped,
        "Messages dropped for subscribers that did not read."
    ),
    of_node!(
        "verge_messages_too_fast_total",
        Counter,
        counters.rate_violations,
        "Messages that followed faster than their period allows."
    ),
    of_node!(
        "verge_messages_clock_ahead_total",
        Counter,
        counters.clock_ahead,
        "Messages whose creation time was ahead of this broker's clock."
    ),
    of_node!(
        "verge_messages_unregistered_total",
        Counter,
        counters.unregistered,
        "Messages under a number that was never registered."
    ),
    of_node!("verge_refused_total", Counter, counters.refused, "Contracts and subscriptions refused."),
    of_node!("verge_replication_copies_total", Counter, counters.replicated, "Copies sent to the backup."),
    of_node!(
        "verge_replication_bytes_total",
        Counter,
        counters.replicated_bytes,
        "Payload bytes of the copies sent to the backup."
    ),
    of_node!(
        "verge_replication_batches_total",
        Counter,
        counters.batches,
        "Batches in which lazy copies left."
    ),
    of_node!(
        "verge_replication_late_total",
        Counter,
        counters.late_replications,
        "Copies that left after their deadline."
    ),
    of_node!(
        "verge_replication_pruned_total",
        Counter,
        counters.pruned,
        "Copies that the backup was told to drop."
    ),
    of_node!(
        "verge_replication_kept_total",
        Counter,
        counters.copies_kept,
        "Copies that this broker kept for a primary."
    ),
    metric(
        "verge_table_entries",
        Kind::Gauge,
        &["table"],
        "Entries of a limited table. `deferred` is of the subscriber for which most messages wait.",
        |reading, samples| {
            for (table, entries, _) in tables(reading.snapshot) {
                samples.labelled(&[("table", table)], entries as u64);
            }
        },
    ),
    metric(
        "verge_table_limit",
        Kind::Gauge,
        &["table"],
        "The limit of the same table, by the configuration.",
        |reading, samples| {
            for (table, _, limit) in tables(reading.snapshot) {
                samples.labelled(&[("table", table)], limit as u64);
            }
        },
    ),
    metric(
        "verge_store_bytes",
        Kind::Gauge,
        &[],
        "Bytes for messages: what contracts have reserved, and what best effort has.",
        |reading, samples| {
            samples.count(reading.snapshot.occupancy.store_bytes as u64);
        },
    ),
    metric(
        "verge_store_limit_bytes",
        Kind::Gauge,
        &[],
        "The bound of that: limits.store, or half of limits.memory.",
        |reading, samples| {
            samples.count(reading.snapshot.limits.messages().bytes as u64);
        },
    ),
    metric(
        "verge_memory_bytes",
        Kind::Gauge,
        &["share"],
        "Memory that is taken of each share: contracts (reserved), best_effort (real).",
        |reading, samples| {
            let full = reading.snapshot.occupancy;
            samples.labelled(&[("share", "contracts")], full.contract_bytes as u64);
            samples.labelled(&[("share", "best_effort")], (full.store_bytes - full.contract_bytes) as u64);
        },
    ),
    metric(
        "verge_memory_limit_bytes",
        Kind::Gauge,
        &["share"],
        "The bounds: all (limits.memory), messages (of contracts and of best effort), subscribers (what waits on connections), sessions (what \
         waits in sessions of MQTT, and as much again for what is retained).",
        |reading, samples| {
            let limits = reading.snapshot.limits;
            samples.labelled(&[("share", "all")], limits.memory_bytes as u64);
            samples.labelled(&[("share", "messages")], limits.messages().bytes as u64);
            samples.labelled(&[("share", "subscribers")], limits.subscribers().bytes as u64);
            samples.labelled(&[("share", "sessions")], limits.sessions().bytes as u64);
        },
    ),
    metric(
        "verge_messages_out_of_memory_total",
        Kind::Counter,
        &["share"],
        "Messages that were not kept for want of memory: under a loss bound (longer than what was reserved), and of best effort.",
        |reading, samples| {
            let [contracts, best_effort] = reading.snapshot.occupancy.unstored;
            samples.labelled(&[("share", "contracts")], contracts);
            samples.labelled(&[("share", "best_effort")], best_effort);
        },
    ),
    metric(
        "verge_store_poisoned",
        Kind::Gauge,
        &[],
        "1 if the store was given up, since a write has failed; 0 when it is back.",
        |reading, samples| {
            let store = reading.snapshot.node.store;
            samples.count(u64::from(matches!(store, StoreState::GivenUp | StoreState::ComingBack)));
        },
    ),
    metric(
        "verge_known_changes",
        Kind::Gauge,
        &[],
        "Changes of sessions and retained messages that this broker knows of; the same on both brokers of a protected pair.",
        |reading, samples| samples.count(reading.snapshot.node.known),
    ),
    metric(
        "verge_admission_utilisation_ratio",
        Kind::Gauge,
        &[],
        "The share of one processor that the admitted contracts take.",
        |reading, samples| samples.value(f64::from(reading.snapshot.node.utilisation_ppm) / 1e6),
    ),
    metric(
        "verge_admission_limit_ratio",
        Kind::Gauge,
        &[],
        "The share that they may take: admission.share.",
        |reading, samples| samples.value(f64::from(reading.snapshot.share_ppm) / 1e6),
    ),
    of_node!("verge_operators", Gauge, operators, "Operators at work."),
    of_node!(
        "verge_operators_under_way",
        Gauge,
        counters.under_way,
        "Messages that are under way in operators."
    ),
    of_node!(
        "verge_operators_memory_copies_total",
        Counter,
        counters.memories,
        "Copies of what operators remember that were sent to the backup."
    ),
    of_node!("verge_operators_memory_bytes_total", Counter, counters.memory_bytes, "Their bytes."),
    of_node!(
        "verge_operators_events_beyond_total",
        Counter,
        counters.events_beyond,
        "Events of operators that were made although as many were in use as can be true at once."
    ),
    of_node!("verge_operators_results_total", Counter, counters.results, "Results that were published."),
    of_node!(
        "verge_operators_results_refused_total",
        Counter,
        counters.results_refused,
        "Results that could not be published, since their topic was refused."
    ),
    of_node!(
        "verge_operators_results_broken",
        Gauge,
        counters.results_broken,
        "Topics of results that are refused at present, so that none of their results is published."
    ),
    of_node!(
        "verge_operators_unprocessed_total",
        Counter,
        counters.unprocessed,
        "Messages that operators could not take, since too many were under way."
    ),
    metric(
        "verge_operator_failed_runs_total",
        Kind::Counter,
        &["operator", "cause"],
        "Runs that failed, by the operator's name in the configuration. `cause`: `budget` (did not end in time), `trap` (broke off) or \
         `refused` (no result for what it was given). Only operators that have failed; 64 of them by name, the rest as `(others)`. It \
         begins anew when operators are changed.",
        |reading, samples| {
            for Failing { operator, faults } in &reading.snapshot.failing {
                for (cause, count) in FailureCause::ALL.iter().zip(faults) {
                    samples.labelled(&[("operator", operator), ("cause", cause.as_str())], *count);
                }
            }
        },
    ),
    of_levels!("verge_level_operators", Gauge, "Operators of a level.", |level: &wire::LevelStatus| {
        f64::from(level.operators)
    }),
    of_levels!(
        "verge_level_busy_seconds_total",
        Counter,
        "The time of all runs of the operators that are at work. It begins anew when operators are changed.",
        |level: &wire::LevelStatus| seconds(level.busy)
    ),
    of_levels!(
        "verge_level_longest_run_seconds",
        Gauge,
        "The longest run of the operators that are at work.",
        |level: &wire::LevelStatus| seconds(level.worst)
    ),
    of_levels!(
        "verge_level_refused_total",
        Counter,
        "Events dropped because too many waited for the level.",
        |level: &wire::LevelStatus| level.refused as f64
    ),
    of_levels!(
        "verge_level_overdue",
        Gauge,
        "Runs that have been under way for so long that they count as not returning.",
        |level: &wire::LevelStatus| f64::from(level.overdue)
    ),
    figure!("verge_mqtt_connections", Gauge, "Connections of MQTT clients."),
    figure!("verge_mqtt_sessions", Gauge, "MQTT sessions, connected or not."),
    figure!("verge_mqtt_subscriptions", Gauge, "MQTT subscriptions."),
    figure!("verge_mqtt_retained_messages", Gauge, "Retained messages."),
    figure!("verge_mqtt_retained_bytes", Gauge, "Bytes of retained messages."),
    figure!("verge_mqtt_sessions_max", Gauge, "The most sessions that there may be: mqtt.sessions."),
    figure!(
        "verge_mqtt_subscriptions_max",
        Gauge,
        "The most subscriptions that there may be: mqtt.subscriptions."
    ),
    figure!("verge_mqtt_filters_bytes", Gauge, "Memory that filters of MQTT subscriptions take, about."),
    figure!(
        "verge_mqtt_filters_bytes_max",
        Gauge,
        "The most that they may take: a part in 32 of limits.memory."
    ),
    figure!(
        "verge_mqtt_retained_messages_max",
        Gauge,
        "The most messages that may be retained: mqtt.retained_messages."
    ),
    figure!(
        "verge_mqtt_retained_bytes_max",
        Gauge,
        "The most bytes that retained messages may take: mqtt.retained."
    ),
    figure!("verge_mqtt_waiting_messages", Gauge, "Messages that wait for MQTT sessions."),
    figure!("verge_mqtt_waiting_bytes", Gauge, "Bytes of messages that wait for MQTT sessions."),
    figure!("verge_mqtt_accepted_total", Counter, "Connections taken by MQTT listeners."),
    figure!("verge_mqtt_connects_total", Counter, "MQTT clients that were let in."),
    figure!("verge_mqtt_connects_refused_total", Counter, "MQTT clients that were not let in."),
    figure!(
        "verge_mqtt_logins_refused_total",
        Counter,
        "MQTT clients refused because of a user name, password or certificate."
    ),
    figure!(
        "verge_mqtt_refused_full_total",
        Counter,
        "MQTT connections and sessions refused because a limit was reached."
    ),
    figure!("verge_mqtt_redirected_total", Counter, "MQTT clients sent to the other broker."),
    figure!("verge_mqtt_disconnects_total", Counter, "MQTT clients that said farewell."),
    figure!("verge_mqtt_expelled_total", Counter, "MQTT connections that the broker ended."),
    figure!(
        "verge_mqtt_taken_over_total",
        Counter,
        "MQTT clients that came again while they were connected."
    ),
    figure!("verge_mqtt_keep_alive_missed_total", Counter, "MQTT clients that were silent for too long."),
    figure!(
        "verge_mqtt_sessions_expired_total",
        Counter,
        "MQTT sessions that ended because their client stayed away."
    ),
    figure!("verge_mqtt_malformed_total", Counter, "Packets that broke the protocol."),
    figure!("verge_mqtt_packets_received_total", Counter, "MQTT packets taken."),
    figure!("verge_mqtt_messages_received_total", Counter, "Messages from MQTT clients."),
    figure!("verge_mqtt_received_bytes_total", Counter, "Payload of messages from MQTT clients."),
    figure!("verge_mqtt_messages_sent_total", Counter, "Messages to MQTT clients."),
    figure!("verge_mqtt_sent_bytes_total", Counter, "Payload of messages to MQTT clients."),
    figure!(
        "verge_mqtt_dropped_total",
        Counter,
        "Messages for MQTT clients that were dropped: they did not read, did not come, or a limit was reached."
    ),
    figure!(
        "verge_mqtt_queue_full_total",
        Counter,
        "Messages for MQTT sessions that were lost, or refused to their publishers, because a session's queue was full."
    ),
    figure!(
        "verge_mqtt_given_up_total",
        Counter,
        "Messages that were refused each time they came, and at last acknowledged and dropped."
    ),
    figure!(
        "verge_mqtt_passed_on_total",
        Counter,
        "Messages of members of shared groups that are gone, which another member was given."
    ),
    figure!("verge_mqtt_expired_total", Counter, "Messages that expired before they could be sent."),
    figure!(
        "verge_mqtt_messages_refused_total",
        Counter,
        "Messages of MQTT clients that the broker did not take."
    ),
    figure!(
        "verge_mqtt_not_authorized_total",
        Counter,
        "Publications and subscriptions that were not allowed."
    ),
    figure!(
        "verge_mqtt_retained_refused_total",
        Counter,
        "Messages that were not retained because a limit was reached."
    ),
    figure!("verge_mqtt_wills_total", Counter, "Wills published."),
    metric(
        "verge_data_thread_answer_seconds",
        Kind::Gauge,
        &[],
        "How long the data thread took to answer this scrape.",
        |reading, samples| samples.value(reading.answered_in.as_secs_f64()),
    ),
    metric(
        "verge_listener_troubles_total",
        Kind::Counter,
        &["cause"],
        "Connections that were refused or given up before or below the broker's protocols. Each cause is in the log once per second.",
        |reading, samples| {
            for (cause, count) in &reading.snapshot.troubles {
                samples.labelled(&[("cause", cause)], *count);
            }
        },
    ),
    of_process!("verge_process_cpu_seconds_total", Counter, cpu_seconds, "Processor time of all threads."),
    of_process!("verge_process_resident_memory_bytes", Gauge, resident_bytes, "Resident memory."),
    of_process!("verge_process_open_fds", Gauge, open_fds, "Open descriptors."),
    of_process!("verge_process_max_fds", Gauge, max_fds, "Descriptors that may be open."),
    of_process!("verge_process_threads", Gauge, threads, "Threads."),
];

/// Limited tables that count entries: name, entries, limit.
fn tables(snapshot: &Snapshot) -> [(&'static str, usize, usize); 5] {
    let (full, limits) = (snapshot.occupancy, snapshot.limits);
    [
        ("connections", full.links, limits.links),
        ("streams", full.streams, limits.streams),
        ("sessions", full.sessions, limits.sessions),
        ("jobs", full.jobs, limits.jobs),
        ("deferred", full.deferred, limits.deferred_per_subscriber),
    ]
}

/// All metrics in the text format of Prometheus.
pub fn render(reading: &Reading<'_>) -> String {
    let mut out = String::new();
    for metric in METRICS {
        write_family(&mut out, metric.name, metric.kind, metric.help, |samples| {
            (metric.collect)(reading, samples);
        });
    }
    out
}

/// Metrics that have samples from their first count on. Their names are there before, so that who writes alert rules finds them.
const AWAITED: [&str; 1] = ["verge_operator_failed_runs_total"];

/// A metric with its samples; nothing where there are none, as of levels where there are no operators.
pub(crate) fn write_family(
    out: &mut String,
    name: &'static str,
    kind: Kind,
    help: &str,
    collect: impl FnOnce(&mut Samples<'_>),
) {
    let before = out.len();
    for line in [["# HELP ", name, " ", help], ["# TYPE ", name, " ", kind.as_str()]] {
        line.iter().for_each(|part| out.push_str(part));
        out.push('\n');
    }
    let head = out.len();
    collect(&mut Samples::new(out, name));
    if out.len() == head && !AWAITED.contains(&name) {
        out.truncate(before);
    }
}

/// A line of the page.
fn write_row(text: &mut String, name: &str, kind: Kind, labels: &[&str], help: &str) {
    let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
    text.push_str(&format!("| `{name}` | {} | {} | {help} |\n", kind.as_str(), labels.join(", ")));
}

/// The page for people, as Markdown.
pub fn page() -> String {
    let mut text = String::from(
        "# Metrics\n\n\
         A broker with `brokers.NAME.http` shows these at `/metrics`, in the text format of Prometheus. Counters begin at zero with\n\
         the process. Beside them, `/healthz` says whether the data thread turns, `/readyz` what keeps the broker from serving,\n\
         with a remedy (503 if it does not serve; with `?strict` also if it is not protected), and `/api/v1/status` is the JSON of\n\
         `verge status`.\n\n\
         Labels have few values: `class` is a filter of a `[[topic]]`, up to `metrics.classes_max` of them, and `other`.\n\n\
         This page is made from the table of metrics by `verge metrics`; a test keeps it true.\n\n\
         | metric | type | labels | meaning |\n|---|---|---|---|\n",
    );
    for metric in METRICS {
        write_row(&mut text, metric.name, metric.kind, metric.labels, metric.help);
    }
    text.push_str(
        "\nA broker whose site is joined to others has these as well; `/api/v1/site` is the JSON of `verge site status` for it.\n\n\
         | metric | type | labels | meaning |\n|---|---|---|---|\n",
    );
    for metric in SITE_METRICS {
        write_row(&mut text, metric.name, metric.kind, metric.labels(), metric.help);
    }
    text.push_str("\nBuckets of histograms end at ");
    let ends: Vec<String> = LATENCY_BUCKETS.iter().map(ToString::to_string).collect();
    text.push_str(&ends.join(", "));
    text.push_str(
        ".\n\n## Nodes of the key-value store\n\n\
         A node with `kv.nodes.NAME.http` shows these in the same way. `/healthz` says whether its lanes do their jobs, `/readyz` whether it knows\n\
         what the others have agreed on (with `?strict` also whether a node is silent, lies or was late within a minute), and\n\
         `/api/v1/status` is the JSON of `verge kv status` for this node.\n\n\
         | metric | type | labels | meaning |\n|---|---|---|---|\n",
    );
    for metric in NODE_METRICS {
        write_row(&mut text, metric.name, metric.kind, metric.labels(), metric.help);
    }
    text
}

#[cfg(test)]
mod tests;
