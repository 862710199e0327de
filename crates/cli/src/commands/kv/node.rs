//! `verge kv node`: one node, until it is asked to end.

use crate::config::{KvConfig, KvNode};
use crate::output::{Outcome, Trouble, yes};
use kv::LinkKey;
use kv_host::{Journal, LaneSettings, Node, NodeAddress, NodeSettings, secrets};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Says everything on the standard error, with the node's name.
struct Spoken(String);

impl Journal for Spoken {
    fn note(&self, text: &str) {
        eprintln!("{}: {text}", self.0);
    }

    fn warn(&self, text: &str) {
        eprintln!("{}: warning: {text}", self.0);
    }
}

pub fn run(config: &KvConfig, name: &str, insecure: bool, may_lie: bool) -> Outcome {
    let Some(me) = config.node(name) else {
        return Err(Trouble(format!("there is no node `{name}`: nodes are {}", config.names().join(", "))));
    };
    let node = &config.nodes[me];
    let journal = Arc::new(Spoken(name.to_owned()));
    let lies = if may_lie { Some(lies_on_signal(&journal)?) } else { None };
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
            })
            .collect(),
        socket: node.socket.clone(),
        start_wait: config.start_wait,
        lies,
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    for sentence in host::realtime::ask(&host::realtime::Wishes {
        priority: None,
        processors: Vec::new(),
        lock_memory: true,
    }) {
        journal.note(&sentence);
    }
    journal.note(&format!(
        "listens on {}, for tasks at {}; process {}",
        node.address,
        node.socket.display(),
        std::process::id()
    ));
    let node = Node::start(&settings, journal.clone(), stop.clone())?;
    if !stop.load(Ordering::Relaxed) {
        journal.note("runs");
    }
    node.run()?;
    journal.note("ended");
    Ok(yes(true))
}

/// SIGUSR1 makes a liar of the node, SIGUSR2 ends that.
fn lies_on_signal(journal: &Spoken) -> Result<Arc<AtomicBool>, Trouble> {
    let lies = Arc::new(AtomicBool::new(false));
    let (on, off) = (lies.clone(), lies.clone());
    let mut signals =
        signal_hook::iterator::Signals::new([signal_hook::consts::SIGUSR1, signal_hook::consts::SIGUSR2])?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let switch = if signal == signal_hook::consts::SIGUSR1 { &on } else { &off };
            switch.store(signal == signal_hook::consts::SIGUSR1, Ordering::Relaxed);
        }
    });
    journal.warn("--may-lie: SIGUSR1 makes this node lie, SIGUSR2 makes it honest again");
    Ok(lies)
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
    let text = std::fs::read_to_string(path).map_err(|error| {
        Trouble(format!("cannot read kv.nodes.{}.secrets = {}: {error}", node.name, path.display()))
    })?;
    secrets::parse(&text, &names, me).map_err(|error| Trouble(format!("{}: {error}", path.display())))
}
