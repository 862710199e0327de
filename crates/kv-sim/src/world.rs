//! Invented time, links and processes around the lanes of a cluster. What a lane is called with, and when, is as `kv-host` does it.

use crate::checkers::{Violation, Watch};
use crate::happening::{Happening, Place};
use crate::ledger::Terms;
use crate::network::UNLIMITED;
use crate::part::Part;
use crate::report::{Findings, Outcome};
use crate::scenario::{Act, START, Scenario};
use contract::{Span, Time};
use kv::{Lane, LinkKey, Node, Setup, Start};
use simulation::network::{self, Network, News, Sockets};
use simulation::{Agenda, Clock, Machine, hash};
use std::collections::VecDeque;
use std::sync::Arc;

/// A run that takes more steps than this is not getting anywhere.
const STEPS_MAX: u64 = 5_000_000;
/// Lines of the story that are kept.
const STORY_LINES: usize = 100_000;

/// All nodes' parts in one lane.
pub(crate) struct Strand {
    pub(crate) setup: Arc<Setup>,
    pub(crate) parts: Vec<Part>,
    pub(crate) watch: Watch,
}

/// A cluster and its surroundings.
pub struct World<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) seed: u64,
    pub(crate) now: Time,
    pub(crate) agenda: Agenda<Happening>,
    /// The hosts of the nodes.
    pub(crate) machines: Vec<Machine>,
    pub(crate) strands: Vec<Strand>,
    pub(crate) network: Network<()>,
    /// By node's part in a lane, as the network has them.
    pub(crate) sockets: Vec<Sockets<(), ()>>,
    /// What is still to be heard of connections.
    pub(crate) news: VecDeque<(usize, News)>,
    /// How long what is being sent is on its way.
    pub(crate) way: Span,
    /// Chance in what goes wrong with connections.
    pub(crate) chance: fastrand::Rng,
    pub(crate) findings: Findings,
    pub(crate) hash: u64,
    steps: u64,
    story: Option<Vec<String>>,
}

/// Plays a scenario to its end.
pub fn play(scenario: &Scenario, seed: u64) -> Outcome {
    World::new(scenario, seed).finish()
}

/// The same, and tells the story.
pub fn play_aloud(scenario: &Scenario, seed: u64) -> Outcome {
    let mut world = World::new(scenario, seed);
    world.story = Some(Vec::new());
    world.finish()
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario, seed: u64) -> World<'a> {
        let strand = |lane| {
            let setup = Setup::new(scenario.config(lane)).expect("scenarios are proper configurations");
            let parts = (0..scenario.nodes).map(|_| Part::new(scenario.nodes)).collect();
            Strand { setup, parts, watch: Watch::new(Terms::of(scenario, lane), scenario.only) }
        };
        let mut world = World {
            scenario,
            seed,
            now: START - scenario.before(),
            agenda: Agenda::default(),
            machines: scenario
                .clocks
                .iter()
                .enumerate()
                .map(|(node, ahead)| machine(node, *ahead, seed))
                .collect(),
            strands: (0..scenario.lanes).map(strand).collect(),
            network: Network::new(UNLIMITED),
            sockets: (0..scenario.lanes * scenario.nodes).map(|_| Sockets::default()).collect(),
            news: VecDeque::new(),
            way: Span::ZERO,
            chance: fastrand::Rng::with_seed(seed),
            findings: Findings::default(),
            hash: seed,
            steps: 0,
            story: None,
        };
        for node in 0..scenario.nodes {
            world.start(node, Start::Founding);
        }
        world.plan();
        world
    }

    /// Puts down what is known from the beginning: tasks, readers, crashes.
    fn plan(&mut self) {
        for lane in 0..self.scenario.lanes {
            for node in 0..self.scenario.nodes {
                let at = Place { lane, node };
                for task in 0..self.scenario.tasks.len() {
                    self.plan_task(at, task, 0);
                }
                for job in 0..=self.scenario.jobs {
                    self.plan_looks(at, job);
                }
            }
        }
        for fault in &self.scenario.faults {
            let Act::Crash(after) = fault.act else { continue };
            let node = fault.node;
            let release = self.scenario.beginning(fault.from) + self.scenario.offset;
            let back = self.scenario.beginning(fault.until) - Span(self.scenario.period.0 / 8);
            self.agenda.push(release + after, Happening::Crash { node });
            self.agenda.push(back, Happening::Restart { node });
        }
    }

    pub(crate) fn plan_task(&mut self, at: Place, task: usize, period: u64) {
        let spec = self.scenario.tasks[task];
        let cost =
            edge(&mut self.random(&[1, at.lane as u64, at.node as u64, task as u64, period]), spec.cost);
        let local = self.scenario.beginning(period) + cost;
        self.agenda.push(self.when(at, local), Happening::Task { at, task, period });
    }

    /// A reader looks at the end of a period, right before it, and in between.
    fn plan_looks(&mut self, at: Place, job: u64) {
        let between =
            Span(self.random(&[2, at.lane as u64, at.node as u64, job]).i64(0..self.scenario.period.0));
        let beginning = self.scenario.beginning(job);
        for local in [beginning - Span(1), beginning, beginning + between] {
            self.agenda.push(self.when(at, local), Happening::Look { at });
        }
    }

    /// Chance for one thing, which does not depend on what else happens.
    pub(crate) fn random(&self, what: &[u64]) -> fastrand::Rng {
        fastrand::Rng::with_seed(what.iter().fold(self.seed, |hash, number| hash::number(hash, *number)))
    }

    pub(crate) fn part(&self, at: Place) -> &Part {
        &self.strands[at.lane].parts[at.node]
    }

    pub(crate) fn part_mut(&mut self, at: Place) -> &mut Part {
        &mut self.strands[at.lane].parts[at.node]
    }

    /// The time on a node's clock.
    pub(crate) fn local(&self, at: Place) -> Time {
        self.machines[at.node].local(self.now)
    }

    /// When a node's clock shows this; now, if it has already.
    pub(crate) fn when(&self, at: Place, local: Time) -> Time {
        self.now + self.machines[at.node].clock.until(self.now, local)
    }

    /// Which life of its process it is.
    pub(crate) fn life(&self, at: Place) -> u32 {
        self.machines[at.node].life()
    }

    /// Whether a process still has this life.
    fn lives(&self, at: Place, life: u32) -> bool {
        self.part(at).lane.is_some() && self.life(at) == life
    }

    /// The key of two nodes.
    pub(crate) fn key(&self, one: usize, other: usize) -> LinkKey {
        let (low, high) = (one.min(other) as u64, one.max(other) as u64);
        let word = hash::number(hash::number(self.seed, low), high);
        LinkKey(std::array::from_fn(|at| (word >> (8 * (at % 8))) as u8 ^ at as u8))
    }

    pub(crate) fn tell(&mut self, at: Place, what: impl FnOnce() -> String) {
        let now = self.now;
        let lanes = self.scenario.lanes;
        if let Some(story) = &mut self.story
            && story.len() < STORY_LINES
        {
            let since = now.since(START).0 as f64 / 1e9;
            let lane = if lanes > 1 { format!(" lane {}", at.lane) } else { String::new() };
            story.push(format!("{since:>12.6} s  node {}{lane}  {}", at.node, what()));
        }
    }

    /// A process starts, and is connected to all others that live.
    fn start(&mut self, node: usize, start: Start) {
        if self.part(Place { lane: 0, node }).lane.is_some() {
            return;
        }
        self.machines[node].start();
        for lane in 0..self.scenario.lanes {
            let at = Place { lane, node };
            let links: Vec<LinkKey> = (0..self.scenario.nodes).map(|peer| self.key(node, peer)).collect();
            let now = self.local(at);
            let strand = &mut self.strands[lane];
            let made = Lane::new(strand.setup.clone(), Node::at(node), &links, start, now.max(START));
            strand.parts[node].lane = Some(made);
            strand.watch.born(node, now, start == Start::Rejoining);
            for peer in (0..self.scenario.nodes).filter(|peer| *peer != node) {
                self.connect(at, peer);
                self.connect(Place { lane, node: peer }, node);
            }
            self.sleep(at, None);
            self.tell(at, || format!("starts, {start:?}"));
        }
    }

    fn crash(&mut self, node: usize) {
        for lane in 0..self.scenario.lanes {
            let at = Place { lane, node };
            if self.part(at).lane.is_none() {
                return;
            }
            self.tell(at, || "dies".to_owned());
            self.findings.crashes += 1;
            let [leaving, coming] = self.part(at).links();
            self.part_mut(at).die();
            // What it has sent comes still, and then the end.
            leaving.into_iter().for_each(|link| self.give_up(at, link, Span::ZERO));
            coming.into_iter().for_each(|link| self.give_up(at, link, self.scenario.link.delay_max));
        }
    }

    fn step(&mut self, what: Happening) {
        match what {
            Happening::Passing(what) => {
                network::happens(self, what);
                self.hear_news();
            }
            Happening::Redial { at, to } => {
                let part = self.part(at);
                if part.outgoing[to].is_none() && part.offered_out[to].is_none() {
                    self.connect(at, to);
                }
            }
            Happening::Task { at, task, period } => self.task(at, task, period),
            Happening::Release { at, life, release } if self.lives(at, life) => self.work(at, release),
            Happening::Turn { at, life, ticket } => {
                let part = self.part(at);
                if self.lives(at, life) && part.ticket == ticket && part.waits_until.is_some() {
                    self.turn(at);
                }
            }
            Happening::Finish { at, life } if self.lives(at, life) => self.publish(at),
            Happening::Release { .. } | Happening::Finish { .. } => {}
            Happening::Look { at } => self.look(at),
            Happening::Crash { node } => self.crash(node),
            Happening::Restart { node } => {
                let is_dead = self.part(Place { lane: 0, node }).lane.is_none();
                self.findings.rejoins += u64::from(is_dead);
                self.start(node, Start::Rejoining);
            }
        }
    }

    fn violated(&self) -> Option<Violation> {
        let broken = self.strands.iter().find_map(|strand| strand.watch.violation());
        broken.map(|(checker, node, what)| {
            let at = self.now.since(START);
            Violation { checker, at, node: *node, what: what.clone() }
        })
    }

    fn finish(mut self) -> Outcome {
        let mut violation = None;
        while let Some((when, what)) = self.agenda.pop() {
            self.now = when;
            self.steps += 1;
            self.step(what);
            violation = self.violated();
            if violation.is_none() && self.steps > STEPS_MAX {
                let (checker, at) = ("termination", self.now.since(START));
                violation = Some(Violation { checker, at, node: 0, what: "the run has no end".to_owned() });
            }
            if violation.is_some() {
                break;
            }
        }
        if violation.is_none() {
            self.end();
            violation = self.violated();
        }
        let mut findings = self.findings;
        self.strands.iter().for_each(|strand| strand.watch.findings(&mut findings));
        let mut story = self.story.unwrap_or_default();
        story.extend(violation.as_ref().map(|violation| format!("VIOLATED  {violation}")));
        let lasted = self.now.since(START - self.scenario.before());
        Outcome { violation, hash: self.hash, steps: self.steps, lasted, findings, story }
    }

    /// Asks all lanes once more.
    fn end(&mut self) {
        for Strand { parts, watch, .. } in &mut self.strands {
            for (node, part) in parts.iter().enumerate() {
                let Some(lane) = &part.lane else { continue };
                let nodes = (0..parts.len()).map(Node::at);
                let accused = nodes.filter(|peer| {
                    let counters = lane.counters(*peer);
                    counters.lied + counters.forged > 0
                });
                watch.ends(node, accused);
                self.findings.skipped += lane.skipped();
                self.findings.recovered += lane.recovered();
                self.findings.fenced += lane.fenced();
            }
        }
    }
}

/// The host of a node.
fn machine(node: usize, ahead: Span, seed: u64) -> Machine {
    Machine::new(&node.to_string(), Clock::new(START, ahead, 0), seed)
}

/// Mostly nothing or the bound, where things break.
pub(crate) fn edge(random: &mut fastrand::Rng, bound: Span) -> Span {
    Span(match random.u8(..4) {
        0 => 0,
        1 | 2 => bound.0,
        _ => random.i64(0..=bound.0.max(0)),
    })
}
