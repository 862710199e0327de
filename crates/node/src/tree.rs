//! What stands in the coordination service's tree, read once.

use crate::Trouble;
use crate::broker::coordination::settings;
use config::Config;
use coordination::{Event, ZooKeeper};
use crossbeam_channel::{RecvTimeoutError, bounded};
use federation::{Reply, Request, Session, Ticket};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Nodes of a tree that are read at most.
const NODES_MAX: usize = 1_000_000;

/// All nodes below the namespace, and what each holds. Takes no longer than `patience` without hearing anything.
///
/// # Errors
///
/// No service is configured, or it does not answer, or does not let us read.
pub fn read_tree(config: &Config, patience: Duration) -> Result<BTreeMap<String, Vec<u8>>, Trouble> {
    let (ring, rung) = bounded(1);
    let wake = Arc::new(move || _ = ring.try_send(()));
    let zookeeper =
        ZooKeeper::connect(settings(config)?, wake).map_err(|error| Trouble(error.to_string()))?;
    let mut reading = Reading {
        zookeeper,
        nodes: BTreeMap::new(),
        open: BTreeMap::new(),
        waiting: VecDeque::new(),
        tickets: 0,
        begun: false,
    };
    let mut until = Instant::now() + patience;
    let mut trouble = "the coordination service does not answer".to_owned();
    let result = loop {
        match reading.turn() {
            Ok(true) => break Ok(()),
            Ok(false) => {}
            Err(Stop::Trouble(why)) => trouble = why,
            Err(Stop::Refused(why)) => break Err(Trouble(why)),
        }
        match rung.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(()) if reading.begun => until = Instant::now() + patience,
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break Err(Trouble(trouble)),
        }
    };
    let Reading { zookeeper, nodes, .. } = reading;
    zookeeper.close();
    result.map(|()| nodes)
}

enum Stop {
    /// It may be better soon.
    Trouble(String),
    Refused(String),
}

struct Reading {
    zookeeper: ZooKeeper,
    nodes: BTreeMap<String, Vec<u8>>,
    /// What was asked, and not answered yet.
    open: BTreeMap<Ticket, Request>,
    waiting: VecDeque<Request>,
    tickets: u64,
    begun: bool,
}

impl Reading {
    /// Takes what has come, and asks for more. `true`: everything has been read.
    fn turn(&mut self) -> Result<bool, Stop> {
        while let Some(event) = self.zookeeper.poll_event() {
            match event {
                Event::Session(Session::Connected(_)) if !self.begun => {
                    self.begun = true;
                    self.waiting.push_back(Request::List { path: "/".to_owned() });
                }
                Event::Session(Session::Connected(_)) | Event::Ring(_) => {}
                Event::Session(_) => {
                    return Err(Stop::Refused("the session with the coordination service broke".to_owned()));
                }
                Event::Reply(ticket, reply) => self.take(ticket, reply)?,
                Event::Trouble(trouble) => return Err(Stop::Trouble(trouble.to_string())),
            }
        }
        while self.zookeeper.has_room()
            && let Some(request) = self.waiting.pop_front()
        {
            self.tickets += 1;
            let ticket = Ticket(self.tickets);
            if self.zookeeper.ask(ticket, request.clone()).is_err() {
                contract::invariant!("there was room");
            }
            self.open.insert(ticket, request);
        }
        Ok(self.begun && self.open.is_empty() && self.waiting.is_empty())
    }

    fn take(&mut self, ticket: Ticket, reply: Reply) -> Result<(), Stop> {
        match (self.open.remove(&ticket), reply) {
            (Some(Request::List { path }), Reply::Children(names)) => {
                for name in names.unwrap_or_default() {
                    let below = format!("{}/{name}", path.trim_end_matches('/'));
                    self.waiting.push_back(Request::Read { path: below.clone() });
                    self.waiting.push_back(Request::List { path: below });
                }
                if self.waiting.len() > 2 * NODES_MAX {
                    return Err(Stop::Refused(format!("the tree has more than {NODES_MAX} nodes")));
                }
            }
            (Some(Request::Read { path }), Reply::Node(Some(node))) => {
                self.nodes.insert(path, node.data);
            }
            (Some(request), Reply::Refused { why, .. }) => {
                return Err(Stop::Refused(format!("{request:?}: {why}")));
            }
            _ => {}
        }
        Ok(())
    }
}
