//! A crew of one worker on invented time: the level order, one operator after the other, each of a given cost.

#![allow(dead_code, clippy::unwrap_used, reason = "helpers of tests, of which each file uses its part")]

use contract::{Receipt, Span, StreamId, Ticket, Time};
use processing::{
    Answer, Answers, Built, ConsumerSpec, Crew, Event, Factory, Fault, GraphSpec, Input, Join, Keep, Level,
    LevelQueue, Memory, Number, Operator, OperatorSpec, Outlet, Parameters, PayloadType, Place, Product,
    Results, Route, Router, Setup, Station, Stats, Streams, SupplierSpec, Supply, Violation,
};
use std::collections::BTreeMap;
use std::sync::Arc;

pub const LEVELS: u8 = 3;

/// Kinds for tests: `pass` joins its inputs, `panic` panics, `fail` fails, `odd` answers to odd payloads only.
pub struct Kinds;

struct Pass(String);

impl Operator for Pass {
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        inputs.iter().for_each(|input| output.extend_from_slice(input.payload));
        match self.0.as_str() {
            "panic" => panic!("on purpose"),
            "fail" => Err(Fault::Failed("on purpose")),
            "odd" if output.first().is_some_and(|byte| byte % 2 == 0) => Ok(Answer::Nothing),
            _ => Ok(Answer::Result),
        }
    }
}

impl Factory for Kinds {
    fn build(&self, kind: &str, _setup: &Setup<'_>) -> Result<Built, String> {
        let answers = if kind == "odd" { Answers::Sometimes } else { Answers::Always };
        Ok(Built {
            operator: Box::new(Pass(kind.to_owned())),
            output: PayloadType::Bytes,
            answers,
            memory: Memory::Nothing,
        })
    }
}

pub fn supplier(name: &str) -> SupplierSpec {
    SupplierSpec {
        name: name.to_owned(),
        payload: PayloadType::Bytes,
        validity: Span::FOREVER,
        period: Span::millis(10),
    }
}

pub fn operator(name: &str, inputs: &[&str]) -> OperatorSpec {
    OperatorSpec {
        name: name.to_owned(),
        kind: "pass".to_owned(),
        parameters: Parameters::default(),
        inputs: inputs.iter().map(|input| (*input).to_owned()).collect(),
        join: Join::All,
        violation: Violation::Mark,
        sets: Vec::new(),
        keep: Keep::Latest,
        cost: None,
    }
}

pub fn consumer(name: &str, from: &str, level: u8) -> ConsumerSpec {
    ConsumerSpec {
        name: name.to_owned(),
        from: from.to_owned(),
        level: Level(level),
        deadline: Span::FOREVER,
    }
}

/// A result as somebody got it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Got {
    pub at: Time,
    pub output: String,
    pub payload: Vec<u8>,
    pub event: Times,
}

/// What a result says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Times {
    pub begins: Time,
    pub ends: Time,
    pub seq: u64,
    pub marks: processing::Marks,
}

/// One worker.
pub struct Plant {
    pub router: Router,
    pub queues: Queues,
    pub now: Time,
    pub cost: Span,
    /// How long results wait until they are published.
    pub waits: Span,
    pub got: Vec<Got>,
    handles: BTreeMap<String, u32>,
    sent: u32,
    pub order: Vec<String>,
}

#[derive(Default)]
pub struct Queues {
    pub levels: Vec<LevelQueue>,
    pub faults: usize,
    results: Vec<(Outlet, Event)>,
    pub saved: Vec<(Place, u32, Result<Vec<u8>, Fault>)>,
    pub full: bool,
}

impl Crew for Queues {
    fn add(&mut self, station: Box<Station>) {
        let place = station.place();
        self.levels[usize::from(place.level)].add(station);
    }
    fn remove(&mut self, place: Place) {
        self.levels[usize::from(place.level)].remove(place);
    }
    fn offer(&mut self, route: Route, event: Event) -> bool {
        if !self.full {
            self.levels[usize::from(route.to.level)].offer(route, event);
        }
        !self.full
    }
    fn save(&mut self, place: Place, ticket: u32) {
        let level = &mut self.levels[usize::from(place.level)];
        let memory = level.begin_save(place).and_then(|mut save| {
            save.work();
            level.end_save(save)
        });
        self.saved.push((place, ticket, memory));
    }
    fn restore(&mut self, place: Place, memory: Vec<u8>, streams: Streams) {
        let Queues { levels, results, faults, .. } = self;
        levels[usize::from(place.level)].restore(place, &memory, &streams, &mut Sink(results, faults));
    }
    fn collect(&mut self) -> Option<Product> {
        None
    }
    fn is_idle(&self) -> bool {
        self.levels.iter().all(|level| !level.is_ready() && !level.has_moving())
    }
}

struct Sink<'a>(&'a mut Vec<(Outlet, Event)>, &'a mut usize);

impl Results for Sink<'_> {
    fn result(&mut self, outlet: Outlet, event: Event) {
        self.0.push((outlet, event));
    }
    fn fault(&mut self, _operator: &Arc<str>, _stats: &Arc<Stats>, _fault: &Fault) {
        *self.1 += 1;
    }
}

impl Plant {
    pub fn new(spec: GraphSpec, topics: &[&str]) -> Plant {
        let mut plant = Plant {
            router: Router::new(Arc::new(Kinds), LEVELS, 100),
            queues: Queues {
                levels: (0..LEVELS).map(|_| LevelQueue::default()).collect(),
                ..Queues::default()
            },
            now: Time::ZERO,
            cost: Span::ZERO,
            waits: Span::ZERO,
            got: Vec::new(),
            handles: BTreeMap::new(),
            sent: 0,
            order: Vec::new(),
        };
        plant.router.change(spec.components()).unwrap();
        topics.iter().for_each(|topic| plant.bind(topic));
        plant
    }

    pub fn bind(&mut self, topic: &str) {
        let old = self.handles.remove(topic);
        if let Some(bound) = self.router.bind(topic, &mut self.queues) {
            self.handles.insert(topic.to_owned(), bound.handle);
        }
        if let Some(old) = old {
            self.router.unbind(old, &mut self.queues);
        }
    }

    pub fn unbind(&mut self, topic: &str) {
        let handle = self.handles.remove(topic).unwrap();
        self.router.unbind(handle, &mut self.queues);
    }

    /// An event of a supplier, created at this time.
    pub fn push(&mut self, topic: &str, created: u64, payload: &[u8]) -> bool {
        let receipt = Receipt { stream: StreamId(0), ticket: Ticket(self.sent), round: 0 };
        let number = Number { stream: StreamId(0), incarnation: 0, seq: u64::from(self.sent) };
        self.sent += 1;
        let Some(handle) = self.handles.get(topic) else { return false };
        let message = Supply { receipt, number, created: Time(created), payload };
        self.router.supply(*handle, &message, &mut self.queues)
    }

    /// One step in the order of the levels: a run, or a hand-over. `false`: nothing left.
    pub fn step(&mut self) -> bool {
        for level in 0..self.queues.levels.len() {
            if let Some(mut run) = self.queues.levels[level].begin(self.now) {
                self.order.push(format!("{level}:{}", run.place().index));
                let outcome = run.work();
                self.now = self.now + self.cost;
                let Queues { levels, faults, results, .. } = &mut self.queues;
                levels[level].end(self.now, run, &outcome, &mut Sink(results, faults));
                for (outlet, event) in results.drain(..) {
                    let output = self.router.output(outlet.output).unwrap();
                    let Some(marks) = output.check(self.now + self.waits, &event) else { continue };
                    let output = output.topic.clone();
                    let (begins, ends) = (event.validity.begins, event.validity.ends);
                    let event = Times { begins, ends, seq: event.number.seq, marks };
                    self.got.push(Got { at: self.now, output, payload: Vec::new(), event });
                }
                return true;
            }
            if let Some((route, event)) = self.queues.levels[level].hand_over() {
                self.queues.levels[usize::from(route.to.level)].offer(route, event);
                return true;
            }
        }
        false
    }

    pub fn run(&mut self) {
        while self.step() {}
    }

    /// Tickets of messages that have been processed.
    pub fn processed(&mut self) -> Vec<u32> {
        let receipts = std::iter::from_fn(|| self.router.processed());
        let mut tickets: Vec<u32> = receipts.map(|receipt| receipt.ticket.0).collect();
        tickets.sort_unstable();
        tickets
    }

    pub fn counts(&self, operator: &str) -> processing::Counts {
        self.router.rows().find(|row| row.name == operator).unwrap().counts
    }

    pub fn outputs(&self) -> Vec<(&str, u64)> {
        self.got.iter().map(|got| (got.output.as_str(), got.at.0)).collect()
    }
}
