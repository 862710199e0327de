//! Every interleaving of a few messages and a crash, with the shipped nodes.
//!
//! The problem: seeds find what is likely to be found. The idea: with one or two messages, everything that can happen is few
//! enough to be tried: each connection delivers at any moment, each job runs at any moment, the primary's output
//! buffers are written at any moment that the driver allows, and the primary dies at any moment, or never. Time stands still, so nothing but
//! this order decides.
//!
//! What a node does depends on what it was given, in which order; two ways that gave every node the same are one state.
//!
//! The premise of lemma 1 is kept by force: a message is published only when the one that it pushes out of the publisher's
//! retention has left the primary, as a copy or to its subscriber. Without that, losses are to be expected, and found.

use crate::node::{App, Ear, Program};
use crate::port::{Pass, Port, Written};
use crate::scene;
use broker::Settings;
use contract::{Contract, NodeId, Span, Supply, Time};
use engine::{BrokerNode, ClientNode, NoOperators, Node};
use simulation::hash;
use simulation::network::EndId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wire::{LinkChange, LinkId, MarkKind, MessageKind, PeerIndex, Protocol};

/// What is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Model {
    /// The contract of the one topic.
    pub contract: Contract,
    /// Messages.
    pub messages: u64,
    /// Prunes leave after the deliveries that they stand for, as the driver sees to.
    pub prunes_leave_last: bool,
    /// A message is published only when the premise of lemma 1 holds.
    pub premise: bool,
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Explored {
    /// States that were looked at.
    pub states: u64,
    /// Those in which nothing could happen any more.
    pub ends: u64,
}

/// How a broken property came about: the steps that led to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counterexample {
    /// What is wrong.
    pub what: String,
    /// What happened, in order.
    pub steps: Vec<String>,
}

impl Model {
    /// Tries everything. `Err` with the first way that loses a message, hands one over twice, or dispatches a copy that was
    /// pruned.
    pub fn explore(self) -> Result<Explored, Counterexample> {
        let mut explored = Explored { states: 0, ends: 0 };
        let mut seen = BTreeSet::new();
        let mut waiting = vec![State::new(self)];
        while let Some(state) = waiting.pop() {
            if !seen.insert(state.fingerprint()) {
                continue;
            }
            explored.states += 1;
            assert!(explored.states < STATES_MAX, "the model is too large to be tried out");
            if let Some(what) = state.wrong.clone() {
                return Err(Counterexample { what, steps: state.steps });
            }
            let choices = state.choices();
            if choices.iter().all(|choice| *choice == Choice::Crash) {
                explored.ends += 1;
                if let Some(what) = state.missing() {
                    return Err(Counterexample { what, steps: state.steps });
                }
            }
            waiting.extend(choices.into_iter().map(|choice| state.clone().after(choice)));
        }
        Ok(explored)
    }
}

/// More states than this are not tried.
const STATES_MAX: u64 = 5_000_000;

const A: usize = 0;
const B: usize = 1;
const PUBLISHER: usize = 2;
const SUBSCRIBER: usize = 3;
const NAMES: [&str; 4] = ["a", "b", "publisher", "subscriber"];

/// Something that may happen next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Choice {
    Publish,
    Deliver(usize, usize),
    RunJob(usize),
    Write(LinkId),
    Refuse,
    Crash,
}

/// What a connection carries.
#[derive(Clone, Debug)]
enum Item {
    Bytes { bytes: Vec<u8>, pruned: Vec<u64> },
    End,
}

#[derive(Clone)]
struct State {
    model: Model,
    now: Time,
    nodes: [Program<NoOperators>; 4],
    ports: [Port; 4],
    /// What each node was given, as a number.
    histories: [u64; 4],
    channels: BTreeMap<(usize, usize), VecDeque<Item>>,
    links: BTreeMap<(usize, usize), LinkId>,
    stream: u32,
    published: u64,
    /// Messages that have left the primary, as a copy or to the subscriber.
    left: BTreeSet<u64>,
    /// Copies that the backup has been told to prune, and messages that came to it otherwise.
    pruned: BTreeSet<u64>,
    resent: BTreeSet<u64>,
    had: BTreeSet<u64>,
    crashed: bool,
    /// The backup waits for the answer to an attempt to connect.
    knocking: bool,
    wrong: Option<String>,
    steps: Vec<String>,
}

impl State {
    /// A protected pair, a publisher whose topic is admitted, and a subscriber.
    fn new(model: Model) -> State {
        let now = crate::world::START;
        let broker =
            |index: usize| Program::Broker(Box::new(BrokerNode::new(settings(index, now), Ear::default())));
        let client = |name: &str| {
            let settings = endpoint::Settings::new(name, now.0, 2);
            Program::Client(Box::new(ClientNode::new(settings, now, App::default())))
        };
        let mut state = State {
            model,
            now,
            nodes: [broker(A), broker(B), client("publisher"), client("subscriber")],
            ports: Default::default(),
            histories: [1, 2, 3, 4],
            channels: BTreeMap::new(),
            links: BTreeMap::new(),
            stream: 0,
            published: 0,
            left: BTreeSet::new(),
            pruned: BTreeSet::new(),
            resent: BTreeSet::new(),
            had: BTreeSet::new(),
            crashed: false,
            knocking: false,
            wrong: None,
            steps: Vec::new(),
        };
        for (from, to) in [(B, A), (PUBLISHER, A), (PUBLISHER, B), (SUBSCRIBER, A), (SUBSCRIBER, B)] {
            state.connect(from, to);
        }
        state.let_settle();
        state.take_up_roles();
        state.let_settle();
        assert!(state.is_protected(), "invariant: a pair without faults becomes protected");
        state
    }

    fn open(&mut self, node: usize, side: usize, peer: usize) -> LinkId {
        self.ports[node].sockets.open(EndId { conn: 0, age: 0, side }, peer)
    }

    fn connect(&mut self, from: usize, to: usize) {
        let (near, far) = (self.open(from, 0, to), self.open(to, 1, from));
        self.links.insert((from, to), near);
        self.links.insert((to, from), far);
        let peer = PeerIndex(if from < 2 { 0 } else { to as u8 });
        self.nodes[to].handle_link(self.now, far, LinkChange::Accepted(Protocol::Verge), &mut self.ports[to]);
        self.nodes[from].handle_link(self.now, near, LinkChange::Dialed(peer), &mut self.ports[from]);
    }

    fn take_up_roles(&mut self) {
        let contract = self.model.contract;
        let State { nodes: [_, _, Program::Client(publisher), Program::Client(subscriber)], ports, .. } =
            self
        else {
            return;
        };
        let advertised = publisher
            .with(&mut ports[PUBLISHER], |endpoint, out| endpoint.advertise("topic", Some(contract), out));
        assert_eq!(advertised, Ok(0), "invariant: the first topic of a client");
        if let Ok(filter) = "topic".parse() {
            subscriber.with(&mut ports[SUBSCRIBER], |endpoint, out| endpoint.subscribe(&filter, out));
        }
    }

    /// Lets everything happen that is under way, and time pass, until the pair is as it should be.
    fn let_settle(&mut self) {
        for _ in 0..200 {
            self.now = self.now + Span::millis(1);
            for node in 0..4 {
                self.nodes[node].handle_timeout(self.now, &mut self.ports[node]);
                self.listen(node);
            }
            while let Some(choice) =
                self.choices().into_iter().find(|choice| !matches!(choice, Choice::Crash | Choice::Publish))
            {
                self.apply(choice);
            }
            self.ports.iter_mut().for_each(|port| port.dials.clear());
        }
        (self.knocking, self.histories) = (false, [1, 2, 3, 4]);
        self.steps.clear();
    }

    fn is_protected(&self) -> bool {
        let protected = |node: &Program<NoOperators>| match node {
            Program::Broker(node) => node.broker().is_protected(),
            _ => true,
        };
        self.nodes.iter().all(protected)
    }

    /// Everything that can happen next.
    fn choices(&self) -> Vec<Choice> {
        let mut choices = Vec::new();
        for ((from, to), channel) in &self.channels {
            if !channel.is_empty() {
                choices.push(Choice::Deliver(*from, *to));
            }
        }
        for broker in [A, B] {
            let Program::Broker(node) = &self.nodes[broker] else { continue };
            // A broker that knows of nobody who reigns keeps its jobs.
            if node.broker().occupancy().jobs > 0 && (node.broker().is_primary() || self.links_to(broker)) {
                choices.push(Choice::RunJob(broker));
            }
        }
        choices.extend(self.writable().map(Choice::Write));
        if self.knocking {
            choices.push(Choice::Refuse);
        }
        if self.may_publish() {
            choices.push(Choice::Publish);
        }
        if !self.crashed {
            choices.push(Choice::Crash);
        }
        choices
    }

    fn links_to(&self, broker: usize) -> bool {
        let link = self.links.get(&(broker, 1 - broker));
        let Program::Broker(node) = &self.nodes[broker] else { return false };
        link.is_some_and(|link| node.broker().follows(*link))
    }

    /// Connections of the primary that may be written to now. Those with prunes come last, as the driver sees to.
    fn writable(&self) -> impl Iterator<Item = LinkId> {
        let sockets = self.ports[A].sockets.iter().filter(|(_, socket)| !socket.outbox.is_empty());
        let sockets: Vec<_> = sockets.map(|(link, socket)| (link, socket.own.pass)).collect();
        let others = sockets.iter().any(|(_, pass)| *pass == Pass::First);
        let last = self.model.prunes_leave_last && others;
        let now = move |(_, pass): &(LinkId, Pass)| *pass == Pass::First || !last;
        sockets.into_iter().filter(now).map(|(link, _)| link)
    }

    /// Whether the next message may be published: there is one, and what it pushes out of the retention has left.
    fn may_publish(&self) -> bool {
        let pushed_out = self.published.checked_sub(u64::from(self.model.contract.retain));
        let covered = pushed_out.is_none_or(|last| {
            (0..=last)
                .filter(|seq| *seq < self.published)
                .all(|seq| self.left.contains(&seq) || self.had.contains(&seq))
        });
        self.published < self.model.messages && (covered || !self.model.premise)
    }

    fn after(mut self, choice: Choice) -> State {
        self.steps.push(describe(choice));
        self.apply(choice);
        self
    }

    fn apply(&mut self, choice: Choice) {
        match choice {
            Choice::Publish => self.publish(),
            Choice::Deliver(from, to) => self.deliver(from, to),
            Choice::RunJob(broker) => {
                self.note(broker, 3);
                if let Program::Broker(node) = &mut self.nodes[broker] {
                    node.run_jobs(self.now, 1, &mut self.ports[broker]);
                }
                self.listen(broker);
            }
            Choice::Write(link) => {
                self.note(A, 4 + u64::from(link.0));
                self.write(A, link);
            }
            Choice::Refuse => {
                self.note(B, 1);
                self.knocking = false;
                self.nodes[B].handle_dial_failed(self.now, PeerIndex(0), true, &mut self.ports[B]);
                self.listen(B);
            }
            Choice::Crash => self.crash(),
        }
    }

    fn publish(&mut self) {
        self.note(PUBLISHER, 2);
        let (now, seq, mut payload) = (self.now, self.published, Vec::new());
        scene::write_payload(&mut payload, self.stream, seq, scene::PAYLOAD_HEAD);
        let Program::Client(node) = &mut self.nodes[PUBLISHER] else { return };
        let result =
            node.with(&mut self.ports[PUBLISHER], |endpoint, out| endpoint.publish(now, 0, &payload, out));
        assert_eq!(result, Ok(seq), "invariant: the topic is admitted");
        self.published += 1;
        self.listen(PUBLISHER);
    }

    fn deliver(&mut self, from: usize, to: usize) {
        self.note(to, 16 + from as u64);
        let Some(item) = self.channels.get_mut(&(from, to)).and_then(VecDeque::pop_front) else { return };
        let Some(link) = self.links.get(&(to, from)).copied() else { return };
        match item {
            Item::Bytes { bytes, pruned } => {
                self.pruned.extend(pruned);
                let used = self.nodes[to].handle_bytes(self.now, link, &bytes, &mut self.ports[to]);
                assert_eq!(used, bytes.len(), "invariant: whole frames are written");
            }
            Item::End => {
                self.nodes[to].handle_link(self.now, link, LinkChange::Closed, &mut self.ports[to]);
                self.ports[to].sockets.release(link);
                self.links.remove(&(to, from));
            }
        }
        self.listen(to);
    }

    /// Takes note of what a node has done.
    fn listen(&mut self, node: usize) {
        self.knocking |= node == B && !std::mem::take(&mut self.ports[node].dials).is_empty() && self.crashed;
        for sent in std::mem::take(&mut self.ports[node].sent) {
            let seq = sent.note.seq;
            match sent.note.what {
                Written::Message { kind: MessageKind::Publish, resent: true, .. } => {
                    self.resent.insert(seq);
                }
                Written::Message { kind: MessageKind::Deliver, .. }
                    if node == B && self.pruned.contains(&seq) && !self.resent.contains(&seq) =>
                {
                    self.wrong = Some(format!("#{seq} was dispatched although its copy had been pruned"));
                }
                _ => {}
            }
        }
        if let Program::Client(client) = &mut self.nodes[node] {
            client.application().heard.clear();
            for got in std::mem::take(&mut client.application().got) {
                if !self.had.insert(got.seq) {
                    self.wrong = Some(format!("#{} was handed over twice", got.seq));
                }
            }
        }
        if node != A {
            self.write_all(node);
        }
    }

    /// Who does not die in this model writes at once; when it does makes no difference to anybody.
    fn write_all(&mut self, node: usize) {
        let links: Vec<LinkId> = self.ports[node].sockets.iter().map(|(link, _)| link).collect();
        for link in links {
            let socket = self.ports[node].sockets.get(link);
            if socket.is_some_and(|socket| !socket.outbox.is_empty()) {
                self.write(node, link);
            }
        }
    }

    /// What waits for a connection is given to its kernel.
    fn write(&mut self, node: usize, link: LinkId) {
        let Some(socket) = self.ports[node].sockets.get_mut(link) else { return };
        let (to, mut bytes) = (socket.peer, Vec::new());
        socket.outbox.copy_to(&mut bytes, usize::MAX);
        (socket.dirty, socket.own.pass) = (false, Pass::First);
        let mut pruned = Vec::new();
        let left = &mut self.left;
        socket.leave(bytes.len(), |_, note| match note.what {
            Written::Mark { kind: MarkKind::Prune } => pruned.push(note.seq),
            Written::Message { kind: MessageKind::Deliver | MessageKind::Replicate, .. } => {
                left.insert(note.seq);
            }
            _ => {}
        });
        self.ports[node].sockets.dirty.retain(|dirty| *dirty != link);
        if self.links.contains_key(&(to, node)) {
            self.channels.entry((node, to)).or_default().push_back(Item::Bytes { bytes, pruned });
        }
    }

    /// The primary's process dies. What it has written arrives; what it has not is gone.
    fn crash(&mut self) {
        self.crashed = true;
        (self.nodes[A], self.ports[A]) = (Program::Dead, Port::default());
        self.histories[A] = 0;
        for peer in [B, PUBLISHER, SUBSCRIBER] {
            self.channels.remove(&(peer, A));
            self.links.remove(&(A, peer));
            self.channels.entry((A, peer)).or_default().push_back(Item::End);
        }
    }

    /// What is wrong at the end, if anything.
    fn missing(&self) -> Option<String> {
        let lost = (0..self.published).find(|seq| !self.had.contains(seq));
        lost.map(|seq| format!("#{seq} was lost"))
    }

    fn note(&mut self, node: usize, what: u64) {
        self.histories[node] = hash::number(self.histories[node], what);
    }

    /// What every node was given decides what it is, and what it has sent. Of a dead node, what is under way counts.
    fn fingerprint(&self) -> u64 {
        let nodes =
            self.histories.iter().fold(u64::from(self.crashed), |hash, history| hash::number(hash, *history));
        self.channels.iter().filter(|((from, _), _)| *from == A).fold(nodes, |hash, (_, channel)| {
            channel.iter().fold(hash::number(hash, channel.len() as u64), |hash, item| match item {
                Item::Bytes { bytes, .. } => hash::bytes(hash, bytes),
                Item::End => hash::number(hash, 77),
            })
        })
    }
}

fn describe(choice: Choice) -> String {
    match choice {
        Choice::Publish => "the publisher publishes".to_owned(),
        Choice::Deliver(from, to) => format!("{} reads from {}", NAMES[to], NAMES[from]),
        Choice::RunJob(broker) => format!("{} runs a job", NAMES[broker]),
        Choice::Write(link) => format!("a writes to its connection {}", link.0),
        Choice::Refuse => "b is refused by a's host".to_owned(),
        Choice::Crash => "a dies".to_owned(),
    }
}

fn settings(index: usize, now: Time) -> Settings {
    let supply = Supply { share_ppm: 1_000_000, blocking: Span::ZERO };
    Settings {
        prefers_to_reign: index == A,
        supply,
        ..Settings::new(NAMES[index], NodeId(index as u64 + 1), now)
    }
}
