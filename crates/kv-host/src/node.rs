//! A whole node: its lanes, its connections, and whoever asks it.

use crate::clients::{CHANGES_MAX, Change, Clients};
use crate::links::Links;
use crate::mischief::Mischief;
use crate::pulse::Pulse;
use crate::report::{Shared, Telling};
use crate::settings::{Journal, LaneSettings, NodeSettings};
use crate::status::{Desk, LaneDesk};
use crate::wires::{Handover, Wires};
use contract::Span;
use host::{Helpers, HostError, Loss};
use kv::{Lane, Start, VoteFunction};
use kv_shared::{Backend, MemoryError, Server, ServerError, State, StoreWriter};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections that may wait for a lane's next job.
const HANDOVERS_MAX: usize = 4 * kv::NODES_MAX;
/// Jobs that do not count are told so often at most, all of them together.
const QUIET: Duration = Duration::from_secs(10);
/// Between two looks at what lanes tell.
const LOOK: Duration = Duration::from_millis(100);

/// Why a node cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// Its address is taken, or not of this host.
    #[error(
        "cannot listen on {address} for other nodes: {reason}; is the node running already, and is the address one of this host?"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's word.
        reason: io::Error,
    },
    /// The socket for tasks cannot be made.
    #[error(transparent)]
    Socket(#[from] ServerError),
    /// Memory to share cannot be had.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A thread or something as small cannot be had.
    #[error("{0}")]
    System(#[from] io::Error),
    /// The same.
    #[error(transparent)]
    Host(#[from] HostError),
    /// One of its threads has ended and was not to.
    #[error("{0}: this node ends, the others count it as crashed. Start it again")]
    ThreadEnded(Loss),
    /// Too many clocks are off.
    #[error(
        "the clocks of {nodes} are off by more than {limit} (a tenth of a round), more nodes than may be faulty: synchronise the clocks of \
         all nodes, with PTP or chrony, and start again"
    )]
    Clocks {
        /// Which, and by how much at least.
        nodes: String,
        /// How much is allowed.
        limit: Span,
    },
}

impl From<Errno> for NodeError {
    fn from(error: Errno) -> NodeError {
        NodeError::System(error.into())
    }
}

/// A node that runs until it is stopped.
pub struct Node {
    stop: Arc<AtomicBool>,
    bell: Arc<OwnedFd>,
    links: Arc<Links>,
    desk: Arc<Desk>,
    server: Server,
    lanes: Vec<JoinHandle<()>>,
    helpers: Vec<JoinHandle<()>>,
    watched: Vec<Watched>,
    journal: Arc<dyn Journal>,
    threads: Helpers,
}

/// What has been said of a lane.
struct Watched {
    shared: Shared,
    alarms: u64,
    skipped: u64,
    fenced: u64,
    fenced_said: Option<Instant>,
    lacks: bool,
    late: u64,
    votes: Vec<Arc<dyn VoteFunction>>,
    votes_failed: u64,
    votes_said: Option<Instant>,
    hears: usize,
    liars: kv::NodeSet,
    clock_back: bool,
}

/// What a lane needs before its thread begins.
struct Ready {
    lane: LaneSettings,
    handovers: Receiver<Handover>,
    clients: Clients,
    store: StoreWriter,
    shared: Shared,
}

/// A node that listens and has not begun.
pub struct Opened {
    node: Node,
    settings: NodeSettings,
    listener: TcpListener,
    ready: Vec<Ready>,
}

/// Says how a node is, as `verge kv status` does.
pub type Reporter = Arc<dyn Fn() -> serde_json::Value + Send + Sync>;

impl Node {
    /// Listens for the others and for tasks.
    pub fn open(
        settings: NodeSettings,
        journal: Arc<dyn Journal>,
        stop: Arc<AtomicBool>,
    ) -> Result<Opened, NodeError> {
        let address = settings.nodes[settings.me.index()].address;
        let refused = |reason| NodeError::Listen { address, reason };
        let listener = TcpListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true)?;
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let threads = Helpers::new()?;
        let (ready, senders, desks) = prepare(&settings)?;
        let links =
            Arc::new(Links::new(settings.clone(), journal.clone(), stop.clone(), senders, threads.clone()));
        let desk = Arc::new(Desk::new(settings.clone(), desks, links.clone()));
        let server = Server::start(&settings.socket, desk.clone())?;
        let (socket, process) = (settings.socket.display(), std::process::id());
        journal.note(&format!("listens on {address}, for tasks at {socket}; process {process}"));
        let node = Node {
            stop,
            bell,
            links,
            desk,
            server,
            lanes: Vec::new(),
            helpers: Vec::new(),
            watched: Vec::new(),
            journal,
            threads,
        };
        Ok(Opened { node, settings, listener, ready })
    }

    fn connect(&mut self, settings: &NodeSettings, listener: TcpListener) -> io::Result<()> {
        let links = self.links.clone();
        let listen = move || {
            links.listening(&listener);
            Ok(())
        };
        self.helpers.push(self.threads.hire("kv listener", listen)?);
        for peer in (0..settings.nodes.len()).map(kv::Node::at).filter(|peer| *peer != settings.me) {
            let links = self.links.clone();
            let dial = move || {
                links.dialing(peer);
                Ok(())
            };
            self.helpers.push(self.threads.hire("kv dialer", dial)?);
        }
        Ok(())
    }

    /// Waits until all others are there and agree about the time, or for as long as it is to wait.
    fn await_others(&self, settings: &NodeSettings) -> Result<(), NodeError> {
        let names = |nodes: &[kv::Node]| {
            let name = |node: &kv::Node| format!("`{}`", settings.nodes[node.index()].name);
            nodes.iter().map(name).collect::<Vec<_>>().join(", ")
        };
        let since = Instant::now();
        let patience = Duration::from_nanos(settings.start_wait.as_nanos_u64());
        while !self.stop.load(Ordering::Relaxed) {
            let missing = self.links.missing();
            if missing.is_empty() {
                break;
            }
            if since.elapsed() >= patience {
                self.journal.warn(&format!("begins without {}, which did not come", names(&missing)));
                break;
            }
            std::thread::sleep(LOOK / 4);
        }
        let limit =
            settings.lanes.iter().map(|lane| lane.setup.clock_error_max()).min().unwrap_or(Span::FOREVER);
        let faults = settings.lanes.iter().map(|lane| lane.setup.faults()).min().unwrap_or(0);
        let beyond = self.links.clocks.beyond(limit);
        if beyond.len() > faults {
            let of = |(node, off): &(kv::Node, Span)| format!("{} (by {off} or more)", names(&[*node]));
            return Err(NodeError::Clocks {
                nodes: beyond.iter().map(of).collect::<Vec<_>>().join(", "),
                limit,
            });
        }
        for (node, off) in beyond {
            self.journal.warn(&format!(
                "the clock of {} is off by {off} or more: it counts as faulty",
                names(&[node])
            ));
        }
        Ok(())
    }

    fn begin(&mut self, settings: &NodeSettings, ready: Vec<Ready>) -> Result<(), NodeError> {
        let rejoins = self.links.found_running.load(Ordering::Relaxed);
        let start = match (rejoins, settings.founds) {
            (true, _) => Start::Rejoining,
            (false, true) => Start::Founded,
            (false, false) => Start::Founding,
        };
        if rejoins && settings.founds {
            self.journal.warn("the others are running, so this node joins them and founds nothing");
        }
        self.journal.note(if rejoins { "joins the others, which are running" } else { "begins" });
        for one in ready {
            let pulse = self.pulse(settings, one, start);
            let (priority, processors) = (pulse.1.priority, pulse.1.processor);
            let journal = self.journal.clone();
            let who = format!("lane {}", pulse.1.setup.config().lane);
            let pulse = pulse.0;
            self.lanes.push(self.threads.hire("kv lane", move || {
                let processors: Vec<usize> = processors.into_iter().collect();
                for refusal in host::realtime::schedule(priority, &processors, &who) {
                    journal.warn(&refusal);
                }
                pulse.run();
                Ok(())
            })?);
        }
        self.links.is_running.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn pulse(&mut self, settings: &NodeSettings, ready: Ready, start: Start) -> (Pulse, LaneSettings) {
        let Ready { lane: told, handovers, clients, store, shared } = ready;
        let setup = told.setup.clone();
        let now = host::now();
        let lane = Lane::new(setup.clone(), settings.me, &settings.links, start, now);
        let counts_from = setup.first_release(now);
        store.set_counts_from(counts_from);
        // What is written before the first job is for that one.
        store.begun(setup.job_at(setup.release_after(now)).unwrap_or(0).saturating_sub(1));
        store.set_cautious_until(lane.cautious_until());
        store.set_lacks(!lane.is_sure());
        store.set_state(State::Running);
        self.watched.push(Watched::new(shared.clone(), setup.vote_functions()));
        let switch = settings.lies.clone();
        let mischief = switch.map(|switch| Mischief::new(switch, &settings.links, setup.frame_bytes_max()));
        let pulse = Pulse {
            lane,
            wires: Wires::new(
                settings.me,
                setup.nodes(),
                setup.frame_bytes_max(),
                mischief,
                self.bell.clone(),
            ),
            handovers,
            clients,
            store,
            telling: Telling::new(shared, setup.vote_functions()),
            counts_from,
            stop: self.stop.clone(),
        };
        (pulse, told)
    }

    /// Waits until `stop` is set, and says meanwhile what an operator should know. An error: one of its threads is gone, and the node
    /// is of no use without it.
    pub fn run(mut self) -> Result<(), NodeError> {
        let mut lost = None;
        while lost.is_none() && !self.stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
            lost = self.lost();
            for watched in &mut self.watched {
                watched.look(&self.desk, &*self.journal);
            }
        }
        self.stop.store(true, Ordering::Relaxed);
        self.end();
        lost.map_or(Ok(()), |loss| Err(NodeError::ThreadEnded(loss)))
    }

    fn lost(&self) -> Option<Loss> {
        let socket = || Loss { thread: "kv-socket".to_owned(), reason: "it panicked".to_owned() };
        self.threads.loss().cloned().or_else(|| (!self.server.is_serving()).then(socket))
    }

    fn end(self) {
        // Whoever waits for frames wakes up.
        let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
        for thread in self.lanes.into_iter().chain(self.helpers) {
            drop(thread.join());
        }
        self.server.stop();
    }
}

impl Opened {
    /// Whoever wants to know how the node is asks this.
    pub fn reporter(&self) -> Reporter {
        let desk = self.node.desk.clone();
        Arc::new(move || desk.status())
    }

    /// Connects to the others, waits for them, and begins. Returns when jobs have begun, or the node was to stop before.
    pub fn begin(self) -> Result<Node, NodeError> {
        let Opened { mut node, settings, listener, ready } = self;
        node.connect(&settings, listener)?;
        node.await_others(&settings)?;
        if !node.stop.load(Ordering::Relaxed) {
            node.begin(&settings, ready)?;
        }
        Ok(node)
    }
}

impl Watched {
    fn new(shared: Shared, votes: Vec<Arc<dyn VoteFunction>>) -> Watched {
        let (alarms, skipped, fenced, late, hears) = (0, 0, 0, 0, 0);
        let (liars, clock_back, lacks) = (kv::NodeSet::EMPTY, false, false);
        let (votes_failed, votes_said, fenced_said) = (0, None, None);
        Watched {
            shared,
            alarms,
            skipped,
            fenced,
            fenced_said,
            lacks,
            late,
            votes,
            votes_failed,
            votes_said,
            hears,
            liars,
            clock_back,
        }
    }

    /// Says what is new.
    fn look(&mut self, desk: &Desk, journal: &dyn Journal) {
        let facts = self.shared.read().facts;
        let Some(last) = facts.last else { return };
        if facts.alarms > self.alarms {
            journal.warn(
                "the stores of more nodes than may be faulty differ from this one: what was read here and there may differ. This node gives \
                 its readers nothing new until its store is theirs. Stop the control, compare `verge kv status` on all nodes, and restart those that are alone",
            );
        }
        if facts.skipped > self.skipped {
            journal.warn(&format!(
                "{} jobs were skipped: the thread of the lane was not run in time",
                facts.skipped - self.skipped
            ));
        }
        let quiet = self.fenced_said.is_some_and(|said| said.elapsed() < QUIET);
        if facts.fenced > self.fenced && !quiet {
            self.fenced_said = Some(Instant::now());
            journal.warn(&format!(
                "{} jobs do not count here: fewer nodes were heard than are right, or this node spoke too late",
                facts.fenced - self.fenced
            ));
        }
        if !last.sure && !self.lacks {
            journal.warn("this node may lack what the others have agreed on: it asks them, and readers hear that it does not know");
        }
        if last.sure && self.lacks {
            journal.note("this node knows again what the others have agreed on");
        }
        if facts.late_publish > self.late {
            journal.warn(&format!(
                "{} values were published after their instant",
                facts.late_publish - self.late
            ));
        }
        let quiet_votes = self.votes_said.is_some_and(|said| said.elapsed() < QUIET);
        if facts.votes_failed > self.votes_failed && !quiet_votes {
            self.votes_said = Some(Instant::now());
            let failing = self.votes.iter().filter(|vote| vote.failed() > 0);
            let reasons: Vec<String> =
                failing.map(|vote| format!("{}: {}", vote.name(), vote.last_failure())).collect();
            journal.warn(&format!(
                "{} votes came to no value, here and on all correct nodes: {}",
                facts.votes_failed - self.votes_failed,
                reasons.join("; ")
            ));
            self.votes_failed = facts.votes_failed;
        }
        for liar in last.liars.without(self.liars).iter() {
            journal
                .warn(&format!("node `{}` lies: it told different nodes different things", desk.name(liar)));
        }
        if facts.hears.len() != self.hears {
            journal.note(&format!("hears {} of {} other nodes", facts.hears.len(), desk.nodes() - 1));
        }
        let clock_back = facts.clock_back > Span::ZERO;
        if clock_back && !self.clock_back {
            journal.warn(&format!(
                "the clock has gone back: the next job is {} ahead. If the clock is right now, restart this node",
                facts.clock_back
            ));
        }
        (self.alarms, self.skipped, self.late) = (facts.alarms, facts.skipped, facts.late_publish);
        self.lacks = !last.sure;
        if !quiet {
            self.fenced = facts.fenced;
        }
        (self.hears, self.liars, self.clock_back) =
            (facts.hears.len(), self.liars.with(last.liars), clock_back);
    }
}

type Prepared = (Vec<Ready>, Vec<SyncSender<Handover>>, Vec<LaneDesk>);

/// Memory and channels of all lanes.
fn prepare(settings: &NodeSettings) -> Result<Prepared, NodeError> {
    let (mut all, mut senders, mut desks) = (Vec::new(), Vec::new(), Vec::new());
    for lane in &settings.lanes {
        let (sender, handovers) = sync_channel(HANDOVERS_MAX);
        let (changes, inbox) = sync_channel::<Change>(CHANGES_MAX);
        let store = StoreWriter::create_with_vectors(&lane.setup, settings.me, lane.vectors)?;
        // Before its first job it knows nothing of what others may have.
        store.set_lacks(!settings.founds);
        let shared = Shared::new();
        let stores = (store.reader()?, store.vectors()?);
        desks.push(LaneDesk::new(lane.setup.clone(), stores, changes, shared.clone()));
        senders.push(sender);
        all.push(Ready { lane: lane.clone(), handovers, clients: Clients::new(inbox), store, shared });
    }
    Ok((all, senders, desks))
}
