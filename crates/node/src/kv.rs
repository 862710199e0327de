//! `verge kv node`: one node, until it is asked to end.

use crate::Trouble;
use crate::broker::observe::{interval, listen};
use crate::log::{Lines, write_in_background};
use crate::losses::on_loss;
use crate::signals::{Heard, cut_short_after, ends_within, say_ignored};
use broker::Severity;
use config::{KvConfig, KvNode, LogConfig};
use host::{Helpers, Notifier};
use kv::LinkKey;
use kv_host::{Journal, LaneSettings, Node, NodeAddress, NodeSettings, secrets};
use serde_json::Value;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use web::{CONNECTIONS_MAX, NodeBeat, NodeControl, NodeSource, Turning, node_reasons};

/// Says everything in the log.
struct Spoken(Lines);

impl Journal for Spoken {
    fn note(&self, text: &str) {
        self.0.say(text);
    }

    fn warn(&self, text: &str) {
        self.0.warn(&format!("warning: {text}"));
    }
}

/// What is said on the command line.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// Links without secret keys are no reason not to run.
    pub insecure: bool,
    /// It begins a new history.
    pub founds: bool,
    /// A signal makes it lie, for trials.
    pub may_lie: bool,
}

/// A node has no other settings for its log.
const LOG: LogConfig = LogConfig { json: false, level: Severity::Info };
/// What signals do.
const SIGNALS: &str = "SIGTERM ends a node, and its configuration is read at its start only";

/// Runs the node of this name until it is asked to end.
pub fn run(config: &KvConfig, name: &str, words: Words, heard: Heard) -> Result<(), Trouble> {
    let Words { insecure, founds, may_lie } = words;
    let Some(me) = config.node(name) else {
        return Err(Trouble(format!("there is no node `{name}`: nodes are {}", config.names().join(", "))));
    };
    let node = &config.nodes[me];
    let helpers = Helpers::new()?;
    let lines = write_in_background(name, LOG, &helpers)?;
    let journal = Arc::new(Spoken(lines.clone()));
    let stop = Arc::new(AtomicBool::new(false));
    let lies = may_lie.then(Arc::<AtomicBool>::default);
    hear_signals(heard, stop.clone(), lies.clone(), lines.clone(), &helpers)?;
    let lost = stop.clone();
    on_loss(helpers.clone(), move || lost.store(true, Ordering::Relaxed))?;
    if may_lie {
        journal.warn("--may-lie: SIGUSR1 makes this node lie, SIGUSR2 makes it honest again");
    }
    let settings = NodeSettings {
        me: kv::Node::at(me),
        nodes: config.nodes.iter().map(address).collect(),
        links: links(config, me, insecure, &journal)?,
        lanes: config
            .lanes
            .iter()
            .map(|lane| LaneSettings {
                setup: lane.setup.clone(),
                processor: lane.processor,
                priority: lane.priority,
                vectors: lane.vectors,
            })
            .collect(),
        socket: node.socket.clone(),
        start_wait: config.start_wait,
        founds,
        lies,
    };
    for sentence in host::realtime::ask(&host::realtime::Wishes {
        priority: None,
        processors: Vec::new(),
        lock_memory: true,
    }) {
        journal.note(&sentence);
    }
    let notifier = Notifier::from_environment().unwrap_or_else(|error| {
        journal.warn(&format!("the service manager at NOTIFY_SOCKET cannot be told of anything: {error}"));
        Notifier::default()
    });
    let opened = Node::open(settings, journal.clone(), stop.clone())?;
    let key = || format!("kv.nodes.{name}.http");
    let http = node.http.as_ref().map(|place| listen(place, &key())).transpose()?;
    show(opened.reporter(), http, &notifier, &journal, &helpers)?;
    // Systemd starts what needs the node when it listens: others may have to be started before it runs.
    notifier.ready();
    let node = opened.begin()?;
    if !stop.load(Ordering::Relaxed) {
        journal.note("runs");
    }
    node.run()?;
    notifier.stopping();
    if helpers.loss().is_none() {
        journal.note("ended");
    }
    lines.end();
    helpers.loss().map_or_else(|| Ok(()), |loss| Err(Trouble(loss.to_string())))
}

/// Shows the node over HTTP, and tells the service manager that it is alive while its lanes do their jobs. Its thread must be there before
/// those of lanes take their priorities.
fn show(
    source: NodeSource,
    http: Option<TcpListener>,
    notifier: &Notifier,
    journal: &Spoken,
    helpers: &Helpers,
) -> Result<(), Trouble> {
    if http.is_none() && !notifier.is_connected() {
        return Ok(());
    }
    if let Some(address) = http.as_ref().and_then(|listener| listener.local_addr().ok()) {
        journal.note(&format!("metrics at http://{address}/metrics"));
        if !address.ip().is_loopback() {
            journal.warn("note: metrics are shown beyond this host, to whoever asks");
        }
    }
    let beat = notifier.is_connected().then(|| beat(notifier.clone()));
    let control = NodeControl { source, http, connections: CONNECTIONS_MAX, beat };
    helpers.hire("control", move || control.run().map_err(|error| error.to_string()))?;
    Ok(())
}

fn beat(notifier: Notifier) -> (Duration, NodeBeat) {
    let every = interval(&notifier);
    let (mut turning, mut told) = (Turning::default(), String::new());
    let beat = move |report: &Value| {
        let turns = turning.look(report, Instant::now());
        if turns {
            notifier.alive();
        }
        let troubles = node_reasons(report);
        let text = match troubles.iter().max_by_key(|reason| reason.blocking) {
            _ if !turns => "a lane stands still".to_owned(),
            None => "all is well".to_owned(),
            Some(reason) => reason.text.clone(),
        };
        if text != told {
            notifier.status(&text);
            told = text;
        }
    };
    (every, Box::new(beat))
}

/// SIGTERM and SIGINT end it. Where it may lie, SIGUSR1 makes a liar of it, and SIGUSR2 ends that. No other signal does anything.
fn hear_signals(
    heard: Heard,
    stop: Arc<AtomicBool>,
    lies: Option<Arc<AtomicBool>>,
    lines: Lines,
    helpers: &Helpers,
) -> Result<(), Trouble> {
    heard.each(helpers, move |signal| match (signal, &lies) {
        (SIGTERM | SIGINT, _) => {
            let again = stop.swap(true, Ordering::Relaxed);
            cut_short_after(ends_within(Duration::ZERO, again), &lines);
        }
        (SIGUSR1 | SIGUSR2, Some(lies)) => lies.store(signal == SIGUSR1, Ordering::Relaxed),
        _ => say_ignored(signal, SIGNALS, &lines),
    })
}

fn address(node: &KvNode) -> NodeAddress {
    NodeAddress { name: node.name.clone(), address: node.address }
}

/// The keys of the node's links. Without any, whoever reaches a node could be all of the others.
fn links(config: &KvConfig, me: usize, insecure: bool, journal: &Spoken) -> Result<Vec<LinkKey>, Trouble> {
    let (node, names) = (&config.nodes[me], config.names());
    let Some(path) = &node.secrets else {
        let outside = config.nodes.iter().find(|node| !node.address.ip().is_loopback());
        if let Some(other) = outside.filter(|_| !insecure) {
            return Err(Trouble(format!(
                "node `{}` is reached beyond this host at {}, and links have no secret keys: make them with `verge kv secrets FOLDER` and name \
                 each node's file in kv.nodes.NAME.secrets, or say --insecure",
                other.name, other.address
            )));
        }
        if outside.is_some() {
            journal.warn("--insecure: whoever reaches the nodes can speak for any of them");
        }
        return Ok(secrets::public(&names, me));
    };
    let unreadable = |error: std::io::Error| {
        Trouble(format!("cannot read kv.nodes.{}.secrets = {}: {error}", node.name, path.display()))
    };
    let mode = std::fs::metadata(path).map_err(unreadable)?.permissions().mode();
    if mode & 0o007 != 0 {
        return Err(Trouble(format!(
            "kv.nodes.{}.secrets = {}: everybody on this host can read these keys, and so speak for this node (mode {:o}): make new keys with \
             `verge kv secrets`, or `chmod o= {}` if nobody has read them",
            node.name,
            path.display(),
            mode & 0o777,
            path.display()
        )));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    secrets::parse(&text, &names, me).map_err(|error| Trouble(format!("{}: {error}", path.display())))
}
