//! Short talks with the coordination service: what stands in its tree, and what an admin writes there.

use crate::Trouble;
use crate::broker::coordination::settings;
use config::Config;
use coordination::{Event, ZooKeeper};
use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use federation::{Lasting, Operation, Refusal, Reply, Request, Session, Ticket, drain_path};
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
    let mut talking = Talking::begin(config)?;
    talking.waiting.push_back(Request::List { path: "/".to_owned() });
    let result = talking.go_on(patience);
    talking.zookeeper.close();
    result.map(|()| talking.nodes)
}

/// Says that a router is to be rid of its topics, or is not any more.
///
/// # Errors
///
/// The same, where it does not let us write.
pub fn drain_router(config: &Config, router: &str, drains: bool, patience: Duration) -> Result<(), Trouble> {
    let mut talking = Talking::begin(config)?;
    let path = drain_path(router);
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let create = |path| Operation::Create { path, data: Vec::new(), lasting: Lasting::Persistent };
    let writes = if drains {
        vec![create(folder), create(path)]
    } else {
        vec![Operation::Delete { path, version: None }]
    };
    talking.waiting.extend(writes.into_iter().map(|write| Request::Write(vec![write])));
    let result = talking.go_on(patience);
    talking.zookeeper.close();
    result
}

enum Stop {
    /// It may be better soon.
    Trouble(String),
    Refused(String),
}

/// A short talk with the service.
struct Talking {
    zookeeper: ZooKeeper,
    rung: Receiver<()>,
    nodes: BTreeMap<String, Vec<u8>>,
    /// What was asked, and not answered yet.
    open: BTreeMap<Ticket, Request>,
    /// What is still to be asked.
    waiting: VecDeque<Request>,
    tickets: u64,
    begun: bool,
}

impl Talking {
    fn begin(config: &Config) -> Result<Talking, Trouble> {
        let (ring, rung) = bounded(1);
        // Where one ring waits, another says nothing more.
        let wake = Arc::new(move || _ = ring.try_send(()));
        let zookeeper = ZooKeeper::connect(settings(config)?, wake);
        Ok(Talking {
            zookeeper: zookeeper.map_err(|error| Trouble(error.to_string()))?,
            rung,
            nodes: BTreeMap::new(),
            open: BTreeMap::new(),
            waiting: VecDeque::new(),
            tickets: 0,
            begun: false,
        })
    }

    /// Asks everything, and what follows from it.
    fn go_on(&mut self, patience: Duration) -> Result<(), Trouble> {
        let mut until = Instant::now() + patience;
        let mut trouble = "the coordination service does not answer".to_owned();
        loop {
            match self.turn() {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(Stop::Trouble(why)) => trouble = why,
                Err(Stop::Refused(why)) => return Err(Trouble(why)),
            }
            match self.rung.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(()) if self.begun => until = Instant::now() + patience,
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(Trouble(trouble));
                }
            }
        }
    }

    /// Takes what has come, and asks for more. `true`: everything has been answered.
    fn turn(&mut self) -> Result<bool, Stop> {
        while let Some(event) = self.zookeeper.poll_event() {
            match event {
                Event::Session(Session::Connected(_)) => self.begun = true,
                Event::Session(_) => {
                    return Err(Stop::Refused("the session with the coordination service broke".to_owned()));
                }
                Event::Ring(_) => {}
                Event::Reply(ticket, reply) => self.take(ticket, reply)?,
                Event::Trouble(trouble) => return Err(Stop::Trouble(trouble.to_string())),
            }
        }
        while self.begun
            && self.zookeeper.has_room()
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
            // What is to be made is there, or what is to go is not.
            (Some(Request::Write(_)), Reply::Refused { why: Refusal::Exists | Refusal::Missing, .. }) => {}
            (Some(request), Reply::Refused { why, .. }) => {
                return Err(Stop::Refused(format!("{request:?}: {why}")));
            }
            _ => {}
        }
        Ok(())
    }
}
