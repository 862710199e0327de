//! Operators on threads: everything that is supplied comes out, in the order of the levels, and failing ones harm nobody.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use contract::{Receipt, Span, StreamId, Ticket, Time};
use host::{Helpers, Movers, Staffing, Workers, now};
use processing::{
    Answer, Answers, Built, ConsumerSpec, Crew, Factory, Fault, GraphSpec, Input, Join, Keep, Level, Memory,
    Number, Operator, OperatorSpec, Overdue, Parameters, PayloadType, Place, Product, Router, Setup,
    SupplierSpec, Supply, Violation,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

struct Kinds;

struct Sum(bool);

impl Operator for Sum {
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        if self.0 {
            // Without the message that a panic prints.
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        output.push(
            inputs.iter().fold(0, |sum, input| sum ^ input.payload.iter().fold(0, |sum, byte| sum ^ byte)),
        );
        Ok(Answer::Result)
    }
}

/// Does not return before the gate is open.
struct Waits(&'static AtomicBool);

/// The same, and says that it has begun.
struct Begins(&'static [AtomicBool; 2]);

impl Operator for Begins {
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        self.0[0].store(true, SeqCst);
        Waits(&self.0[1]).run(inputs, output)
    }
}

impl Operator for Waits {
    fn run(&mut self, _inputs: &[Input<'_>], _output: &mut Vec<u8>) -> Result<Answer, Fault> {
        while !self.0.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Answer::Nothing)
    }
}

/// Never opened.
static NEVER: AtomicBool = AtomicBool::new(false);
/// Opened by one test.
static GATE: AtomicBool = AtomicBool::new(false);
/// Opened by two others.
static NEWEST: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];
static IN_ORDER: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

impl Factory for Kinds {
    fn build(&self, kind: &str, _setup: &Setup<'_>) -> Result<Built, String> {
        let operator: Box<dyn Operator> = match kind {
            "never" => Box::new(Waits(&NEVER)),
            "gate" => Box::new(Waits(&GATE)),
            "newest" => Box::new(Begins(&NEWEST)),
            "in order" => Box::new(Begins(&IN_ORDER)),
            _ => Box::new(Sum(kind == "panic")),
        };
        Ok(Built { operator, output: PayloadType::Bytes, answers: Answers::Always, memory: Memory::Nothing })
    }
}

fn operator(name: &str, kind: &str, inputs: &[&str]) -> OperatorSpec {
    OperatorSpec {
        name: name.to_owned(),
        kind: kind.to_owned(),
        parameters: Parameters::default(),
        inputs: inputs.iter().map(|input| (*input).to_owned()).collect(),
        join: Join::All,
        violation: Violation::Mark,
        sets: Vec::new(),
        keep: Keep::All(10_000),
        cost: None,
    }
}

/// `a` feeds a chain over three levels and one operator that panics.
fn spec() -> GraphSpec {
    let supplier = SupplierSpec {
        name: "a".to_owned(),
        payload: PayloadType::Bytes,
        validity: Span::FOREVER,
        period: Span::micros(1),
    };
    let consumer = |name: &str, from: &str, level| ConsumerSpec {
        name: name.to_owned(),
        from: from.to_owned(),
        level: Level(level),
        deadline: Span::FOREVER,
    };
    GraphSpec {
        suppliers: vec![supplier],
        operators: vec![
            operator("first", "sum", &["a"]),
            operator("second", "sum", &["first"]),
            operator("third", "sum", &["second", "a"]),
            operator("bad", "panic", &["a"]),
        ],
        consumers: vec![
            consumer("out/0", "first", 0),
            consumer("out/1", "second", 1),
            consumer("out/2", "third", 2),
            consumer("out/bad", "bad", 2),
        ],
    }
}

fn staffing(priority: Option<u8>, movers: Movers) -> Staffing {
    Staffing { levels: 3, workers: 2, priority, processors: Vec::new(), inbox: 200_000, results: 64, movers }
}

fn everything_comes_out(staffing: &Staffing) {
    const MESSAGES: u32 = 2_000;
    let mut workers = Workers::start(staffing, &Helpers::new().unwrap()).unwrap();
    let mut router = Router::new(Arc::new(Kinds), 3, 1 << 20);
    router.change(vec![spec()]).unwrap();
    let handle = router.bind("a", &mut workers).unwrap().handle;
    let until = now() + Span::secs(30);
    let (mut results, mut processed, mut faults) = ([0_u32; 3], 0, 0);
    for ticket in 0..MESSAGES {
        let number = Number { stream: StreamId(0), incarnation: 0, seq: u64::from(ticket) };
        let receipt = Receipt { stream: StreamId(0), ticket: Ticket(ticket), round: 0 };
        let message = Supply { receipt, number, created: now(), payload: &ticket.to_le_bytes() };
        assert!(router.supply(handle, &message, &mut workers));
    }
    while (processed < MESSAGES || faults < MESSAGES || results[2] < MESSAGES) && now() < until {
        match workers.collect() {
            Some(Product::Result(outlet, event)) => {
                let output = router.output(outlet.output).unwrap().topic.clone();
                let level = ["out/0", "out/1", "out/2"].iter().position(|name| **name == output).unwrap();
                assert_eq!(u64::from(results[level]), event.number.seq, "in order, none missing");
                results[level] += 1;
            }
            Some(Product::Fault { fault, .. }) => {
                assert_eq!(fault, Fault::Panicked);
                faults += 1;
            }
            Some(Product::Saved { .. } | Product::Overran { .. }) => panic!("nobody has asked"),
            None => std::thread::yield_now(),
        }
        while router.processed().is_some() {
            processed += 1;
        }
    }
    assert_eq!((results, processed, faults), ([MESSAGES; 3], MESSAGES, MESSAGES));
    assert_eq!((router.under_way(), workers.refused()), (0, 0));
    while !workers.is_idle() && now() < until {
        std::thread::yield_now();
    }
    assert!(workers.is_idle());
}

#[test]
fn workers_without_priorities_serve_all_levels() {
    everything_comes_out(&staffing(None, Movers::Workers));
}

#[test]
fn workers_with_priorities_and_movers_of_either_kind_serve_their_level() {
    for movers in [Movers::Workers, Movers::Threads] {
        everything_comes_out(&staffing(Some(10), movers));
    }
}

#[test]
fn a_full_level_refuses_and_says_so() {
    let mut workers =
        Workers::start(&Staffing { inbox: 1, ..staffing(None, Movers::Workers) }, &Helpers::new().unwrap())
            .unwrap();
    let mut router = Router::new(Arc::new(Kinds), 3, 1 << 20);
    let mut spec = spec();
    spec.operators.truncate(1);
    spec.consumers.truncate(1);
    router.change(vec![spec]).unwrap();
    let handle = router.bind("a", &mut workers).unwrap().handle;
    let until = now() + Span::secs(30);
    let mut sent = 0;
    while workers.refused() == 0 && now() < until {
        let receipt = Receipt { stream: StreamId(0), ticket: Ticket(sent), round: 0 };
        let message = Supply { receipt, number: Number::default(), created: Time(1), payload: &[1] };
        assert!(router.supply(handle, &message, &mut workers));
        sent += 1;
    }
    let mut processed = 0;
    while processed < sent && now() < until {
        while workers.collect().is_some() {}
        processed += std::iter::from_fn(|| router.processed()).count() as u32;
    }
    assert_eq!(processed, sent, "what was refused is not under way for ever");
}

/// One operator that works, and so many that do not return, all fed by `a` and in one level.
fn spec_with(kind: &str, waiting: usize) -> GraphSpec {
    let mut spec = spec();
    spec.operators.truncate(1);
    spec.consumers.truncate(1);
    for number in 0..waiting {
        let name = format!("waits-{number}");
        spec.operators.push(operator(&name, kind, &["a"]));
        let (name, from) = (format!("out/{name}"), name);
        spec.consumers.push(ConsumerSpec { name, from, level: Level(0), deadline: Span::FOREVER });
    }
    spec
}

/// A router with its workers, and what has come of them.
struct Plant {
    router: Router,
    workers: Workers,
    handle: u32,
    sent: u32,
    results: u64,
    /// The number of the last result.
    last: u64,
    overdue: Vec<Overdue>,
}

impl Plant {
    fn new(spec: GraphSpec, staffing: &Staffing) -> Plant {
        let mut workers = Workers::start(staffing, &Helpers::new().unwrap()).unwrap();
        let mut router = Router::new(Arc::new(Kinds), 3, 1 << 10);
        router.change(vec![spec]).unwrap();
        let handle = router.bind("a", &mut workers).unwrap().handle;
        Plant { router, workers, handle, sent: 0, results: 0, last: 0, overdue: Vec::new() }
    }

    fn send(&mut self) {
        let number = Number { stream: StreamId(0), incarnation: 0, seq: u64::from(self.sent) };
        let receipt = Receipt { stream: StreamId(0), ticket: Ticket(self.sent), round: 0 };
        let message = Supply { receipt, number, created: now(), payload: &[1] };
        assert!(self.router.supply(self.handle, &message, &mut self.workers));
        self.sent += 1;
    }

    /// Waits until it is so, and takes what comes meanwhile.
    fn until(&mut self, is_so: impl Fn(&Plant) -> bool) {
        let until = now() + Span::secs(30);
        while !is_so(self) {
            assert!(now() < until, "watchdog: {} results, {:?}", self.results, self.overdue);
            if let Some(product) = self.workers.collect() {
                self.results += 1;
                if let Product::Result(_, event) = product {
                    self.last = event.number.seq;
                }
            }
            self.overdue.extend(self.workers.overdue());
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

fn one_that_never_returns_harms_nobody(staffing: &Staffing) {
    let began = now();
    let mut plant = Plant::new(spec_with("never", 1), &Staffing { workers: 1, ..staffing.clone() });
    (0..20).for_each(|_| plant.send());
    plant.until(|plant| plant.results == 20 && !plant.overdue.is_empty());
    let [overdue] = &plant.overdue[..] else { panic!("once: {:?}", plant.overdue) };
    assert_eq!((&*overdue.operator, overdue.level, overdue.replaced), ("waits-0", 0, true));
    assert!(now().since(began) >= overdue.limit);
    plant.until(|plant| plant.workers.strain(0).overdue == 1);
    assert_eq!(plant.workers.strain(1).overdue, 0);
    plant.send();
    plant.until(|plant| plant.results == 21);
    assert_eq!(plant.overdue.len(), 1, "once");
    // It must return all the same.
    drop(plant.workers);
}

#[test]
fn an_operator_that_never_returns_is_told_of_once_and_the_others_go_on() {
    one_that_never_returns_harms_nobody(&staffing(None, Movers::Workers));
}

#[test]
fn so_it_is_with_priorities_where_the_host_gives_them() {
    one_that_never_returns_harms_nobody(&staffing(Some(10), Movers::Workers));
}

#[test]
fn no_more_threads_are_replaced_than_may_be() {
    let staffing = Staffing { workers: 1, ..staffing(None, Movers::Workers) };
    let mut plant = Plant::new(spec_with("never", 6), &staffing);
    plant.send();
    // Four are replaced; the fifth keeps the last thread, and the sixth never begins.
    plant.until(|plant| plant.overdue.len() == 5);
    let replaced: Vec<bool> = plant.overdue.iter().map(|overdue| overdue.replaced).collect();
    assert_eq!(replaced, [true, true, true, true, false]);
    plant.until(|plant| plant.workers.strain(0).overdue == 5);
    drop(plant.workers);
}

#[test]
fn one_that_does_return_gives_its_place_to_the_thread_that_took_it() {
    let staffing = Staffing { workers: 1, ..staffing(None, Movers::Workers) };
    let mut plant = Plant::new(spec_with("gate", 1), &staffing);
    plant.send();
    plant.until(|plant| plant.overdue.len() == 1 && plant.results == 1);
    GATE.store(true, SeqCst);
    plant.until(|plant| plant.workers.strain(0).overdue == 0);
    plant.send();
    plant.until(|plant| plant.results == 2 && plant.workers.is_idle());
    let done = std::iter::from_fn(|| plant.router.processed()).count();
    assert_eq!((done, plant.router.under_way()), (2, 0));
    assert_eq!(plant.overdue.len(), 1);
}

/// While the only thread is held up, far more comes than the inbox has room for. Returns the plant when all is done.
fn held_up(kind: &str, keep: Keep, gate: &'static [AtomicBool; 2]) -> Plant {
    let staffing = Staffing { workers: 1, inbox: 4, ..staffing(None, Movers::Workers) };
    let mut spec = spec_with(kind, 1);
    spec.operators[0].keep = keep;
    let mut plant = Plant::new(spec, &staffing);
    plant.send();
    plant.until(|plant| plant.results == 1 && gate[0].load(SeqCst));
    (0..50).for_each(|_| plant.send());
    gate[1].store(true, SeqCst);
    plant.until(|plant| plant.workers.is_idle());
    let sent = plant.sent as usize;
    assert_eq!(std::iter::from_fn(|| plant.router.processed()).count(), sent, "none is under way for ever");
    plant
}

#[test]
fn a_level_that_was_held_up_goes_on_with_the_newest_where_that_is_what_an_input_keeps() {
    let plant = held_up("newest", Keep::Latest, &NEWEST);
    assert_eq!(plant.last, 50);
    assert!(plant.results <= 6, "{} results of what nobody wants any more", plant.results);
    let replaced: u64 = plant.router.rows().map(|row| row.counts.counters.replaced).sum();
    assert!(replaced >= 44, "{replaced} were counted");
}

#[test]
fn a_level_that_was_held_up_has_dropped_the_oldest_of_what_did_not_fit() {
    let plant = held_up("in order", Keep::All(10_000), &IN_ORDER);
    assert_eq!(plant.last, 50);
    assert!(plant.workers.refused() >= 80, "{} were dropped", plant.workers.refused());
}

#[test]
fn a_run_that_takes_longer_than_was_said_is_told_once_in_a_while() {
    let mut spec = spec_with("sum", 0);
    spec.operators[0].cost = Some(Span(1));
    let mut plant = Plant::new(spec, &staffing(None, Movers::Workers));
    (0..10).for_each(|_| plant.send());
    let (mut overran, mut results) = (0, 0);
    let until = now() + Span::secs(30);
    while results < 10 && now() < until {
        match plant.workers.collect() {
            Some(Product::Overran { operator, took, cost, .. }) => {
                assert_eq!((&*operator, cost), ("first", Span(1)));
                assert!(took > cost);
                overran += 1;
            }
            Some(Product::Result(..)) => results += 1,
            _ => std::thread::yield_now(),
        }
    }
    assert_eq!((results, overran), (10, 1));
}

#[test]
fn what_operators_remember_is_asked_for_between_runs() {
    let mut plant = Plant::new(spec_with("sum", 0), &staffing(None, Movers::Workers));
    let place = Place { level: 0, index: 0, life: 1 };
    plant.send();
    // Nobody asks while something moves in an instance.
    plant.until(|plant| plant.results == 1);
    plant.workers.save(place, 7);
    plant.workers.save(Place { life: 9, ..place }, 8);
    let (mut saved, until) = (Vec::new(), now() + Span::secs(30));
    while saved.len() < 2 && now() < until {
        if let Some(Product::Saved { ticket, memory, .. }) = plant.workers.collect() {
            saved.push((ticket, memory.is_ok()));
        }
    }
    saved.sort_unstable();
    assert_eq!(saved, [(7, true), (8, false)], "one that is gone says so");
}
