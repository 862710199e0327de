//! The operators of a broker: the threads that run them, and graphs that are changed while it runs.

use super::around::Around;
use super::logins::UserRules;
use super::reload::{Commit, Taker};
use crate::Trouble;
use crate::log::Lines;
use config::{Config, Kinds};
use crossbeam_channel::{Receiver, Sender, bounded};
use engine::{BrokerNode, Processor};
use host::{Helpers, Network, Occupancy, Workers, now};
use planner::{Host, Study, staffing};
use processing::GraphSpec;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// A broker with operators.
pub type Node = BrokerNode<Around, Processor<Workers>, UserRules>;

/// Starts the threads. They must be there before the data thread takes its priority, which they would inherit.
pub fn start(
    config: &Config,
    host: &Host,
    lines: &Lines,
    helpers: &Helpers,
) -> Result<(Processor<Workers>, OwnedFd, Occupancy), Trouble> {
    let processing = &config.processing;
    let workers = Workers::start(&staffing(config, host.processors), helpers)?;
    workers.refusals().iter().for_each(|sentence| lines.say(&format!("note: {sentence}")));
    let (bell, load) = (workers.bell().try_clone_to_owned()?, workers.load());
    let factory = config.kinds.clone();
    let mut processor = Processor::new(factory, processing.levels, processing.events, workers);
    processor.set_interval(processing.snapshots);
    Ok((processor, bell, load))
}

/// Graphs, and what sets up their operators: modules may have changed.
struct Changed {
    graphs: Vec<GraphSpec>,
    kinds: Arc<Kinds>,
}

/// Graphs on their way to the data thread.
pub struct Changes {
    changes: Receiver<Changed>,
    waker: UnixStream,
}

/// Sends graphs on their way, when the configuration has been read again.
pub struct GraphTaker {
    sender: Sender<Changed>,
    wake: Arc<UnixStream>,
    /// What was known of the host at the start: measured anew while the broker works, its messages would cost more.
    host: Host,
}

/// Both ends, and what wakes the data thread for it.
pub fn changes(host: Host) -> Result<(Changes, GraphTaker, OwnedFd), Trouble> {
    let (sender, changes) = bounded(1);
    let (waker, wake) = UnixStream::pair()?;
    waker.set_nonblocking(true)?;
    let watched = OwnedFd::from(waker.try_clone()?);
    Ok((Changes { changes, waker }, GraphTaker { sender, wake: Arc::new(wake), host }, watched))
}

impl GraphTaker {
    /// What wakes the data thread, for whoever else has something for it at such a time: descriptors are few.
    pub fn wake(&self) -> Arc<UnixStream> {
        Arc::clone(&self.wake)
    }
}

impl Taker for GraphTaker {
    fn prepare(&mut self, config: &Config) -> Result<Commit, String> {
        let changed = judged(config, &self.host)?;
        let (sender, wake) = (self.sender.clone(), Arc::clone(&self.wake));
        Ok(Box::new(move || {
            // It fails only when the data thread has ended.
            let _ = sender.send(changed).map(|()| (&*wake).write(&[0]));
        }))
    }
}

/// The graphs of the configuration as it is now, if all their results would be in time.
fn judged(config: &Config, host: &Host) -> Result<Changed, String> {
    let study = Study::of(config, host).map_err(|trouble| trouble.to_string())?;
    let late = study.rows().into_iter().flat_map(|graph| graph.outputs).filter(|output| !output.kept);
    let late: Vec<String> = late.map(|output| format!("`{}`: {}", output.topic, output.reason)).collect();
    if late.is_empty() {
        Ok(Changed { graphs: config.processing.graphs.clone(), kinds: Arc::clone(&config.kinds) })
    } else {
        Err(late.join("; "))
    }
}

impl Changes {
    /// Takes over what has come.
    pub fn apply(&mut self, node: &mut Node, net: &mut Network, lines: &Lines) {
        let mut bytes = [0; 16];
        let _ = self.waker.read(&mut bytes);
        while let Ok(changed) = self.changes.try_recv() {
            change(node, net, changed, lines);
        }
    }
}

/// Gives a broker its graphs, and says what that changed.
fn change(node: &mut Node, net: &mut Network, changed: Changed, lines: &Lines) {
    node.operators().set_factory(changed.kinds);
    match node.change_graphs(now(), changed.graphs, net) {
        Ok(change) => lines.say(&format!(
            "operators: {} graphs go on, {} begin, {} have ended",
            change.kept, change.added, change.removed
        )),
        Err(errors) => {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            lines.say(&format!("operators go on as before: {}", errors.join("; ")));
        }
    }
}
