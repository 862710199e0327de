//! The world: hosts, the connections between them, and time, which moves from one thing that happens to the next.
//!
//! A host's process runs in turns, as the drivers of the product do (`turn.rs`).

use crate::checkers::{Watch, is_of_device};
use crate::clients::Role;
use crate::device::Device;
use crate::faults::Progress;
use crate::happening::Happening;
use crate::heart::{Datagram, Heart};
use crate::node::{App, Ear, Heard, Host, Program, Told};
use crate::operators::{Kinds, LEVELS, UNDER_WAY_MAX, Workers};
use crate::port::{Note, Written};
use crate::scenario::Scenario;
use crate::story::{Story, StoryLine};
use broker::{Liveness, Settings};
use contract::rounds::{LAST_BYTES, LAST_WRITES};
use contract::{NodeId, Span, Time};
use engine::driving::{CLOSING_TIME, DRAINED_BYTES, OUTBOX_BYTES_MAX, TurnState};
use engine::{BrokerNode, Node, Processor};
use processing::GraphSpec;
use simulation::network::{self, EndId, Hosts, Network, News};
use simulation::{Agenda, Clock, Latency, hash};
use std::sync::Arc;
use wire::{LinkChange, LinkId, MarkKind, MessageKind, Protocol};

/// When every run begins.
pub(crate) const START: Time = Time(1_700_000_000_000_000_000);

/// How often a worker whose process stands still looks whether it goes on.
const STILL: Span = Span::millis(1);
/// A copy costs four times what it costs to take it back; admission counts both as one.
const PRUNES_PER_COPY: i64 = 5;

fn network_settings(scenario: &Scenario) -> network::Settings {
    network::Settings {
        window_bytes: scenario.window_bytes,
        outbox_bytes_max: OUTBOX_BYTES_MAX,
        drained_bytes: DRAINED_BYTES,
        closing_time: CLOSING_TIME,
    }
}

/// A deployment on invented time.
pub struct World {
    pub(crate) scenario: Scenario,
    pub(crate) seed: u64,
    /// Chance in what goes wrong.
    pub(crate) random: fastrand::Rng,
    pub(crate) now: Time,
    pub(crate) agenda: Agenda<Happening>,
    /// The brokers, then the publishers, then the subscribers.
    pub(crate) hosts: Vec<Host>,
    pub(crate) roles: Vec<Role>,
    pub(crate) network: Network<Note>,
    pub(crate) datagrams: Vec<Datagram>,
    pub(crate) free_datagrams: Vec<u32>,
    /// Which graphs the configuration of each broker has.
    pub(crate) configured: [usize; 2],
    /// Which priority it has for topics, where that was changed.
    pub(crate) priorities: [Option<u8>; 2],
    /// A broker has been told to read it again.
    pub(crate) rereads: [bool; 2],
    /// The latest that one of them was given.
    pub(crate) newest_plan: usize,
    pub(crate) progress: Progress,
    pub(crate) watch: Watch,
    pub(crate) payload: Vec<u8>,
    pub(crate) hash: u64,
    pub(crate) steps: u64,
    /// What happened last.
    pub(crate) latest: Option<Happening>,
    pub(crate) story: Option<Story>,
    lives: u64,
}

impl World {
    /// A deployment that has not begun.
    pub fn new(scenario: &Scenario, seed: u64) -> World {
        contract::invariants::stop_where_broken();
        let mut world = World {
            watch: Watch::new(scenario),
            scenario: scenario.clone(),
            seed,
            random: fastrand::Rng::with_seed(seed),
            now: START,
            agenda: Agenda::default(),
            hosts: Vec::new(),
            roles: Vec::new(),
            network: Network::new(network_settings(scenario)),
            datagrams: Vec::new(),
            free_datagrams: Vec::new(),
            configured: [0; 2],
            priorities: [None; 2],
            rereads: [false; 2],
            newest_plan: 0,
            progress: Progress::default(),
            payload: Vec::new(),
            hash: seed,
            steps: 0,
            latest: None,
            story: None,
            lives: 0,
        };
        for (name, clock) in ["a", "b"].into_iter().zip(scenario.clocks) {
            let clock = Clock::new(START, clock.offset, clock.drift_ppb);
            world.hosts.push(Host::new(name, clock, Latency::fixed(Span::ZERO), seed));
        }
        world.add_clients();
        for host in 0..world.hosts.len() {
            let after = world.start_of(host);
            world.agenda.push(START + after, Happening::Start { node: host });
        }
        world.agenda.push(START, Happening::Look);
        world
    }

    /// Lets the next thing happen. `false` if nothing ever will.
    pub(crate) fn step(&mut self) -> bool {
        let Some((at, what)) = self.agenda.pop() else { return false };
        self.now = at;
        self.steps += 1;
        self.hash = hash::number(self.hash, at.0);
        self.latest = Some(what);
        match what {
            Happening::Passing(what) => network::happens(self, what),
            Happening::TurnEnd { node, life } if self.lives(node, life) => self.turn_time_ends(node),
            Happening::WorkEnd { node, life, worker } if self.lives(node, life) => {
                self.work_ends(node, worker);
            }
            Happening::Wake { node, life } if self.lives(node, life) => self.wake(node),
            Happening::Beat { node, life } if self.lives(node, life) => self.beat(node),
            Happening::Datagram { number } => self.datagram(number),
            Happening::Publish { node, life, group } if self.lives(node, life) => self.publish(node, group),
            Happening::Prove { node, life, topic } if self.lives(node, life) => self.prove(node, topic),
            Happening::Start { node } => self.start(node),
            Happening::Restart { node, life } if self.hosts[node].machine.life() == life => self.start(node),
            Happening::Resume { node, life } if self.lives(node, life) => self.resume(node),
            Happening::Perish { node, life } if self.lives(node, life) => self.kill(node),
            Happening::Recover { node, life } if self.lives(node, life) => {
                self.hosts[node].machine.slow_down(1);
            }
            Happening::Heal { partition } => network::heal(self, partition),
            Happening::Fault { number } if number as usize == self.progress.faults => self.next_fault(),
            Happening::Look => self.look(),
            _ => {}
        }
        true
    }

    fn lives(&self, host: usize, life: u32) -> bool {
        self.hosts[host].machine.life() == life && self.hosts[host].is_alive()
    }

    /// Starts a host's process, and the host itself if it was down.
    pub(crate) fn start(&mut self, host: usize) {
        if self.hosts[host].is_alive() {
            return;
        }
        let was_down = self.hosts[host].machine.start();
        let now = self.hosts[host].machine.local(self.now);
        let program = if host < 2 {
            let ear = Ear { words: self.story.is_some().then(Vec::new), ..Ear::default() };
            self.new_broker(host, now, ear)
        } else if let Role::Device { index, .. } = self.roles[host] {
            let (streams, will) = self.watch.devices.streams_of(index);
            let device = Device::new(&self.scenario.devices[index], streams, will, now);
            Program::Device(Box::new(device))
        } else {
            let settings = self.client_settings(host, now);
            Program::Client(Box::new(engine::ClientNode::new(settings, now, App::default())))
        };
        self.replace_program(host, program);
        self.hosts[host].port.spoken = self.story.is_some().then(Vec::new);
        let state = &mut self.hosts[host];
        state.dying = None;
        state.turn = TurnState { busy: false, last: now };
        if was_down {
            network::release_held(self);
        }
        self.tell(host, || "starts".to_owned());
        if host < 2 {
            self.watch.broker_starts(host);
            let life = self.hosts[host].machine.life();
            self.hosts[host].heart =
                Some(Heart::new(Liveness::new(self.scenario.detection.hearing(), self.now)));
            self.agenda.push(self.now, Happening::Beat { node: host, life });
        } else {
            self.take_up_role(host);
        }
        self.turn(host);
    }

    fn new_broker(&mut self, host: usize, now: Time, ear: Ear) -> Program {
        let workers = Workers::new(self.scenario.workers);
        let mut operators = Processor::new(Arc::new(Kinds), LEVELS, UNDER_WAY_MAX, workers);
        operators.set_interval(self.scenario.snapshots);
        self.rereads[host] = false;
        self.watch.loads(self.now, host, self.configured[host]);
        let graphs = operators.change(self.graphs_of(host));
        assert!(graphs.is_ok(), "invariant: the graphs of a scenario are right: {graphs:?}");
        let settings = self.settings(host, now);
        let gateway = self.gateway_settings(host, &settings);
        let node = BrokerNode::with_operators(settings, ear, operators);
        let node = match gateway.filter(|_| !self.scenario.devices.is_empty()) {
            Some(settings) => node.with_gateway(mqtt::Gateway::new(settings, mqtt::Open)),
            None => node,
        };
        Program::Broker(Box::new(node))
    }

    fn gateway_settings(&self, host: usize, settings: &Settings) -> Option<mqtt::Settings> {
        let limits = self.scenario.mqtt;
        let fallback = contract::Contract::unstated();
        let plain = Some(["b", "a"][host].into());
        let server_references = mqtt::References { plain, ..Default::default() };
        Some(mqtt::Settings { limits, fallback, server_references, node: settings.node.0 })
    }

    /// The graphs that a broker finds in its configuration.
    fn graphs_of(&self, host: usize) -> Vec<GraphSpec> {
        self.scenario.plans().nth(self.configured[host]).cloned().unwrap_or_default()
    }

    /// A broker takes over what its configuration has become, between two turns, as the driver does.
    pub(crate) fn reread(&mut self, host: usize, spent: Span) {
        let graphs = self.graphs_of(host);
        let rules = self.scenario.rules(self.priorities[host]);
        let local = self.hosts[host].machine.local(self.now + spent);
        let Host { program: Program::Broker(node), port, .. } = &mut self.hosts[host] else { return };
        let change = node.change_graphs(local, graphs, port);
        assert!(change.is_ok(), "invariant: the graphs of a scenario are right: {change:?}");
        let changed = node.change_topics(local, rules, port);
        assert!(
            changed.is_ok(),
            "invariant: another priority takes nothing from what is promised: {changed:?}"
        );
        self.watch.loads(self.now, host, self.configured[host]);
        self.tell(host, || format!("{change:?}"));
        self.digest(host, spent);
    }

    fn settings(&mut self, host: usize, started: Time) -> Settings {
        self.lives += 1;
        let scenario = &self.scenario;
        Settings {
            name: self.hosts[host].machine.name.clone(),
            // Drawn at random by a real driver, so that either may be the larger.
            node: NodeId(self.hosts[host].machine.random.u64(1..u64::MAX / 2) * 2 + (self.lives & 1)),
            nonce: self.hosts[host].machine.random.u128(..).to_le_bytes(),
            started,
            prefers_to_reign: host == 0,
            has_peer: true,
            policy: scenario.policy,
            replication: scenario.replication,
            delays: scenario.delays,
            reassigned: contract::path::REASSIGNED_WITHIN,
            links: scenario.links.clone(),
            costs: scenario.costs,
            supply: scenario.supply,
            schedulability: scenario.schedulability,
            best_effort_subscriptions: scenario.best_effort_subscriptions,
            topics: scenario.rules(self.priorities[host]),
            detection: scenario.detection,
            limits: scenario.limits,
        }
    }

    fn wake(&mut self, host: usize) {
        if self.hosts[host].machine.wakes(self.now) {
            self.rouse(host);
        }
    }

    /// A portion of a process's work. Returns whether there is more.
    pub(crate) fn portion(&mut self, host: usize, local: Time, spent: &mut Span) -> bool {
        self.watch.portion_begins(host);
        let Host { program, port, .. } = &mut self.hosts[host];
        let more = program.run(local, port);
        *spent += self.digest(host, *spent);
        self.watch.portion_ends(host);
        self.employ(host, *spent);
        more
    }

    /// Workers that are free begin what can be run.
    fn employ(&mut self, host: usize, spent: Span) {
        let local = self.hosts[host].machine.local(self.now + spent);
        loop {
            let Host { program: Program::Broker(node), machine, .. } = &mut self.hosts[host] else { return };
            let crew = node.operators().crew();
            let began = crew.begin(local);
            let seen = std::mem::take(&mut crew.seen);
            if let Some(worker) = began {
                let cost = self.scenario.operator_cost.sample(&mut machine.random);
                let what = Happening::WorkEnd { node: host, life: machine.life(), worker };
                self.agenda.push(self.now + spent + machine.takes(cost), what);
            }
            for seen in seen {
                self.watch.operators(self.now, host, local, &seen);
            }
            if began.is_none() {
                return;
            }
        }
    }

    /// A worker has ended a run; one whose process stands still does so when that goes on.
    fn work_ends(&mut self, host: usize, worker: usize) {
        let life = self.hosts[host].machine.life();
        if self.hosts[host].machine.is_paused() {
            self.agenda.push(self.now + STILL, Happening::WorkEnd { node: host, life, worker });
            return;
        }
        let local = self.hosts[host].machine.local(self.now);
        if let Program::Broker(node) = &mut self.hosts[host].program {
            node.operators().crew().end(worker, local);
        }
        self.employ(host, Span::ZERO);
        self.rouse(host);
    }

    fn turn_time_ends(&mut self, host: usize) {
        if self.hosts[host].machine.may_end_turn() {
            self.end_turn(host);
        }
    }

    /// What was written in a turn leaves.
    pub(crate) fn end_turn(&mut self, host: usize) {
        self.hosts[host].machine.end_turn();
        self.hosts[host].heart.iter_mut().for_each(|heart| heart.turn_since = None);
        if !self.flush(host) {
            return;
        }
        self.tell_left(host);
        network::watch_closing(self, host);
        let (now, life) = (self.now, self.hosts[host].machine.life());
        let state = &mut self.hosts[host];
        let products = match &mut state.program {
            Program::Broker(node) => node.operators().crew().has_products(),
            _ => false,
        };
        let rereads = host < 2 && self.rereads[host];
        let waits = rereads
            || state.port.has_more
            || !state.news.is_empty()
            || !state.ready.is_empty()
            || state.turn.busy
            || products;
        let wait =
            if waits { Span::ZERO } else { state.machine.clock.until(now, state.program.next_deadline()) };
        let at = now + wait;
        if state.machine.wake_by(at) {
            self.agenda.push(at, Happening::Wake { node: host, life });
        }
    }

    /// Tells a process what has happened to its connections. `false`: nothing.
    pub(crate) fn tell_news(&mut self, host: usize, spent: Span) -> bool {
        let some = !self.hosts[host].news.is_empty();
        // Telling may make more news.
        while !self.hosts[host].news.is_empty() {
            for news in std::mem::take(&mut self.hosts[host].news) {
                let local = self.hosts[host].machine.local(self.now + spent);
                let change = match news {
                    News::Accepted(end) => {
                        let protocol = self.spoken_on(end);
                        network::open_end(self, end).map(|link| (link, LinkChange::Accepted(protocol)))
                    }
                    News::Dialed(end, peer) => match network::open_end(self, end) {
                        Some(link) => {
                            let way = host >= 2 && peer.0 >= 2;
                            self.hosts[host]
                                .port
                                .sockets
                                .get_mut(link)
                                .into_iter()
                                .for_each(|it| it.own.way = way);
                            Some((link, LinkChange::Dialed(peer)))
                        }
                        None => {
                            // Broken before its process had taken it.
                            let Host { program, port, .. } = &mut self.hosts[host];
                            program.handle_dial_failed(local, peer, false, port);
                            None
                        }
                    },
                    News::Closed(link) => Some((link, LinkChange::Closed)),
                    News::Again(link) => {
                        self.present_again(host, link, spent);
                        None
                    }
                    News::Drained(link) => {
                        self.hosts[host].port.sockets.get(link).map(|_| (link, LinkChange::Drained))
                    }
                    News::DialFailed { peer, refused } => {
                        let Host { program, port, .. } = &mut self.hosts[host];
                        program.handle_dial_failed(local, peer, refused, port);
                        None
                    }
                };
                let Host { program, port, .. } = &mut self.hosts[host];
                if let Some((link, change)) = change {
                    program.handle_link(local, link, change, port);
                    if change == LinkChange::Closed {
                        self.release(host, link);
                    }
                }
                self.digest(host, spent);
            }
        }
        some
    }

    /// What is spoken on a connection: that is up to who made it.
    pub(crate) fn spoken_on(&self, end: EndId) -> Protocol {
        match self.roles[self.network.made_by(end)] {
            Role::Device { .. } => Protocol::Mqtt,
            _ => Protocol::Verge,
        }
    }

    /// A message or mark has reached a process, which reads it now. It came to its host before.
    pub(crate) fn note_arrives(
        &mut self,
        host: usize,
        link: LinkId,
        note: Note,
        came: Time,
        spent: &mut Span,
    ) {
        if matches!(&self.hosts[host].program, Program::Broker(node) if node.lets_through(link)) {
            // It goes on to the primary, and how long that takes is nobody's promise.
            return;
        }
        let Some(broker) = self.hosts[host].broker() else { return };
        let socket = self.hosts[host].port.sockets.get(link).filter(|_| broker.follows(link));
        let followed = socket.map(|socket| (socket.end.conn, socket.end.age));
        if let Written::Message { bytes, .. } = note.what {
            *spent += self.scenario.true_costs.arrival + self.carrying(bytes);
        }
        let local = self.hosts[host].machine.local(self.now + *spent);
        let came = self.hosts[host].machine.local(came);
        self.watch.arrived(local, came, host, followed, &note);
    }

    /// Takes note of what a process has written and said. Returns what the writing costs.
    pub(crate) fn digest(&mut self, host: usize, spent: Span) -> Span {
        let mut cost = Span::ZERO;
        let local = self.hosts[host].machine.local(self.now + spent);
        // Whom a client follows decides to whom it writes, so that is looked at first.
        self.hear(host, local);
        let mut sent = std::mem::take(&mut self.hosts[host].port.sent);
        for sent in sent.drain(..) {
            let Some(socket) = self.hosts[host].port.sockets.get(sent.link) else { continue };
            // What goes through the backup is for the primary.
            let peer = if socket.own.way { 1 - socket.peer } else { socket.peer };
            let last = socket.own.last;
            let before = cost;
            if host < 2 {
                let truth = &self.scenario.true_costs;
                let prune = Span(truth.replication.0 / PRUNES_PER_COPY);
                cost += match sent.note.what {
                    Written::Message { kind: MessageKind::Deliver, bytes, .. } => {
                        // What leaves last is carried when it does.
                        truth.dispatch + if last { Span::ZERO } else { self.carrying(bytes) }
                    }
                    Written::Message { kind: MessageKind::Replicate, bytes, .. } => {
                        truth.replication - prune + self.carrying(bytes)
                    }
                    Written::Mark { kind: MarkKind::Prune } => prune,
                    _ => Span::ZERO,
                };
                if last {
                    self.hosts[host].made_last += cost - before;
                }
            }
            let at = local + cost;
            self.watch.wrote(self.now + spent + cost, at, host, peer, &sent.note);
            if self.story.is_some() {
                let text = self.describe(peer, &sent.note);
                self.tell_line(host, false, || text);
            }
        }
        let Host { port, news, .. } = &mut self.hosts[host];
        port.sent = sent;
        let appended = std::mem::take(&mut port.appended);
        if host < 2 {
            cost += self.scenario.true_costs.dispatch * appended;
        }
        news.extend(port.again.drain(..).map(News::Again));
        if let Some(spoken) = self.hosts[host].port.spoken.as_mut().map(std::mem::take) {
            for (link, words) in spoken {
                let peer = self.hosts[host]
                    .port
                    .sockets
                    .get(link)
                    .map_or("?", |socket| &self.hosts[socket.peer].machine.name);
                let line = format!("says to {peer} on {}: {words}", link.0);
                self.tell_line(host, false, || line);
            }
        }
        cost
    }

    /// What so many bytes of a payload cost on one connection.
    fn carrying(&self, bytes: u32) -> Span {
        Span(self.scenario.true_costs.io.tcp.kib.0 * i64::from(bytes) / 1_024)
    }

    /// Says to a process that what it wrote has left.
    fn tell_left(&mut self, host: usize) {
        let local = self.hosts[host].machine.local(self.now);
        let Host { program, port, .. } = &mut self.hosts[host];
        if program.awaits_leaving() {
            program.handle_left(local, port);
            self.digest(host, Span::ZERO);
        }
        if host < 2 {
            self.watch.turn_ends(host);
        }
    }

    /// What a broker's writes at the end of a turn cost. One to the other broker counts with the turn.
    pub(crate) fn writes(&self, host: usize) -> Span {
        let port = &self.hosts[host].port;
        let clients = port
            .sockets
            .dirty
            .iter()
            .filter_map(|link| port.sockets.get(*link))
            .filter(|socket| socket.peer >= 2);
        let (last, usual): (Vec<_>, Vec<_>) = clients.partition(|socket| socket.own.last);
        let kib = last.iter().map(|socket| socket.outbox.len() as i64).sum::<i64>().min(LAST_BYTES as i64);
        let io = self.scenario.true_costs.io.tcp;
        io.write * (usual.len() as u64 + LAST_WRITES.min(last.len() as u64)) + Span(io.kib.0 * kib / 1_024)
    }

    /// What a broker told its operator, and a client its application.
    fn hear(&mut self, host: usize, local: Time) {
        match &mut self.hosts[host].program {
            Program::Dead => {}
            Program::Broker(node) => {
                let told = std::mem::take(&mut node.reporter().told);
                if !told.is_empty() {
                    self.broker_said(host, told);
                }
            }
            Program::Client(node) => {
                let app = node.application();
                if !app.got.is_empty() || !app.joined.is_empty() || !app.heard.is_empty() {
                    self.client_heard(host, local);
                }
            }
            Program::Device(device) => {
                let words = std::mem::take(&mut device.words);
                let greetings = device.greetings();
                self.device_heard(host, greetings, &words);
            }
        }
    }

    fn broker_said(&mut self, host: usize, told: Vec<Told>) {
        if let Program::Broker(node) = &mut self.hosts[host].program {
            let words = node.reporter().words.as_mut().map(std::mem::take).unwrap_or_default();
            words.into_iter().for_each(|line| self.tell(host, || line));
        }
        for told in told {
            if let Told::ResultRefused(topic) = &told {
                self.watch.ledger.refuse_results(topic);
            }
            self.watch.told(self.now, host, &told);
        }
    }

    fn client_heard(&mut self, host: usize, local: Time) {
        let Program::Client(node) = &mut self.hosts[host].program else { return };
        let mut got = std::mem::take(&mut node.application().got);
        for joined in std::mem::take(&mut node.application().joined) {
            self.watch.joined(self.now, &joined);
        }
        for got in got.drain(..) {
            if is_of_device(got.stream) {
                self.watch.crossed(self.now, host, &got);
                continue;
            }
            let (topic, known) = &mut node.application().inbound[got.inbound as usize];
            let topic = topic.as_deref().filter(|_| std::mem::replace(known, got.stream) != got.stream);
            self.watch.delivered(self.now, local, host, &got, topic);
        }
        let heard = std::mem::take(&mut node.application().heard);
        node.application().got = got;
        for heard in heard {
            if self.story.is_some() && !matches!(heard, Heard::Judged { admitted: true, .. }) {
                let text = format!("{heard:?}");
                self.tell(host, || text);
            }
            self.application_heard(host, &heard);
        }
    }

    /// Writes a line of the story, if it is told.
    pub(crate) fn tell(&mut self, host: usize, what: impl FnOnce() -> String) {
        self.tell_line(host, true, what);
    }

    pub(crate) fn tell_line(&mut self, host: usize, matters: bool, what: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            let (at, who) = (self.now.since(START), self.hosts[host].machine.name.clone());
            story.add(StoryLine { at, who, what: what(), matters });
        }
    }

    fn describe(&self, to: usize, note: &Note) -> String {
        let verb = match note.what {
            Written::Message { kind: MessageKind::Publish, resent: true, .. } => "publishes again",
            Written::Message { kind: MessageKind::Publish, .. } => "publishes",
            Written::Message { kind: MessageKind::Deliver, .. } => "dispatches",
            Written::Message { kind: MessageKind::Replicate, .. } => "copies",
            Written::Message { kind: MessageKind::Forward, .. } => "forwards",
            Written::Mark { kind: MarkKind::Prune } => "prunes",
            Written::Mark { kind: MarkKind::Confirm } => "confirms",
        };
        let topic = self.watch.ledger.stream(note.stream).map_or("?", |stream| stream.topic.as_str());
        format!("{verb} {topic} #{} to {}", note.seq, self.hosts[to].machine.name)
    }

    /// The names of all hosts, the brokers first.
    pub fn host_names(&self) -> Vec<String> {
        self.hosts.iter().map(|host| host.machine.name.clone()).collect()
    }
}
