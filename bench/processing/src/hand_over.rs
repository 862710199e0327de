//! What it takes from the end of one operator to the beginning of the next, within a level and from level to level.

use contract::{Receipt, Span, StreamId, Ticket, Time};
use host::realtime::{Wishes, ask};
use host::{Movers, Staffing, Workers, now};
use processing::{
    Answer, Answers, Built, ConsumerSpec, Crew, Event, Factory, Fault, GraphSpec, Input, Join, Keep, Level,
    LevelQueue, Memory, Number, Operator, OperatorSpec, Outlet, Parameters, PayloadType, Place, Product,
    Results, Route, Router, Setup, Station, Stats, Streams, SupplierSpec, Supply, Violation,
};
use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Instant;

/// How much is measured.
#[derive(Deserialize)]
pub struct Plan {
    rounds: usize,
    /// With real-time rights, each level has a thread of its own.
    realtime: bool,
}

/// Nanoseconds, all sorted: median, and what a tenth is below and above.
#[derive(Serialize)]
pub struct Report {
    /// A pair of readings of the clock, which is part of what follows.
    clock: Quantiles,
    /// The queue alone: the result of a run becomes the next run.
    queue_within: Quantiles,
    /// Two queues, with what a thread does between them except for its ring.
    queue_between: Quantiles,
    /// The shipped threads, one message at a time: end of one operator to beginning of the next.
    /// Between levels, `silent` runs meanwhile.
    threads_within: Quantiles,
    threads_between: Quantiles,
    /// The shipped threads, always something to do: what one more operator adds to a message that does nothing but say
    /// a number, result included.
    step_within: Quantiles,
    step_between: Quantiles,
}

#[derive(Serialize, Clone, Copy)]
struct Quantiles {
    p10: f64,
    p50: f64,
    p90: f64,
}

fn quantiles(mut values: Vec<f64>) -> Quantiles {
    values.sort_by(f64::total_cmp);
    let at = |q: f64| values.get((values.len() as f64 * q) as usize).copied().unwrap_or(f64::NAN);
    Quantiles { p10: at(0.1), p50: at(0.5), p90: at(0.9) }
}

/// Runs it.
pub fn run(plan: &Plan) -> Report {
    // Asked for before this thread stays on one of them.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let host = Host { realtime: plan.realtime, processors };
    let clock = (0..plan.rounds).map(|_| {
        let begin = Instant::now();
        begin.elapsed().as_nanos() as f64
    });
    let clock = quantiles(clock.collect());
    let (within, between) = (queues(plan.rounds, 0), queues(plan.rounds, 1));
    let bursts = plan.rounds.div_ceil(BURST as usize).clamp(50, 400);
    let mut added = (Vec::new(), Vec::new());
    // Interleaved, so that a slow spell hits all three alike.
    for _ in 0..BLOCKS {
        let alone = threads(&spec(None, true), host, bursts / BLOCKS, BURST).per_message;
        let same = threads(&spec(Some(0), true), host, bursts / BLOCKS, BURST).per_message;
        let other = threads(&spec(Some(1), true), host, bursts / BLOCKS, BURST).per_message;
        added.0.push(same - alone);
        added.1.push(other - alone);
    }
    let single = |second| quantiles(threads(&spec(Some(second), second > 0), host, plan.rounds, 1).gaps);
    Report {
        clock,
        queue_within: within,
        queue_between: between,
        threads_within: single(0),
        threads_between: single(1),
        step_within: quantiles(added.0),
        step_between: quantiles(added.1),
    }
}

/// Messages supplied at once, so that threads always have something to do.
const BURST: u32 = 1_000;
const BLOCKS: usize = 10;

/// `a` feeds `first`, and that feeds `second` at this level and `silent`, where there are such.
fn spec(second: Option<u8>, silent: bool) -> GraphSpec {
    let operator = |name: &str, input: &str| OperatorSpec {
        name: name.to_owned(),
        kind: name.to_owned(),
        parameters: Parameters::default(),
        inputs: vec![input.to_owned()],
        join: Join::All,
        violation: Violation::Mark,
        sets: Vec::new(),
        keep: Keep::All(10_000),
        cost: None,
    };
    let consumer = |from: &str, level| ConsumerSpec {
        name: format!("out/{from}"),
        from: from.to_owned(),
        level: Level(level),
        deadline: Span::FOREVER,
    };
    let supplier = SupplierSpec {
        name: "a".to_owned(),
        payload: PayloadType::Bytes,
        validity: Span::FOREVER,
        period: Span::micros(1),
    };
    let mut spec = GraphSpec { suppliers: vec![supplier], ..GraphSpec::default() };
    spec.operators.push(operator("first", "a"));
    if let Some(level) = second {
        spec.operators.push(operator("second", "first"));
        spec.consumers.push(consumer("second", level));
    }
    // Keeps `first` at level 0 whatever comes after it, and has no results, which would wake the data thread.
    if silent {
        spec.operators.push(operator("silent", "first"));
        spec.consumers.push(consumer("silent", 0));
    }
    spec
}

/// `first` says when it ends, `second` how long that was ago when it begins.
struct Stamps;

enum Stamp {
    End,
    Begin,
    Silent,
}

impl Factory for Stamps {
    fn build(&self, kind: &str, _setup: &Setup<'_>) -> Result<Built, String> {
        let operator = Box::new(match kind {
            "first" => Stamp::End,
            "second" => Stamp::Begin,
            _ => Stamp::Silent,
        });
        Ok(Built { operator, output: PayloadType::Bytes, answers: Answers::Always, memory: Memory::Nothing })
    }
}

impl Operator for Stamp {
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        let stamp = match self {
            Stamp::Silent => return Ok(Answer::Nothing),
            Stamp::End => now().0,
            Stamp::Begin => {
                let ended = inputs[0].payload.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                now().0.saturating_sub(ended)
            }
        };
        output.extend_from_slice(&stamp.to_le_bytes());
        Ok(Answer::Result)
    }
}

/// The queues of the levels, worked off by the caller.
#[derive(Default)]
struct Queues(Vec<LevelQueue>);

impl Crew for Queues {
    fn add(&mut self, station: Box<Station>) {
        self.0[usize::from(station.place().level)].add(station);
    }
    fn remove(&mut self, place: Place) {
        self.0[usize::from(place.level)].remove(place);
    }
    fn offer(&mut self, route: Route, event: Event) -> bool {
        self.0[usize::from(route.to.level)].offer(route, event);
        true
    }
    fn save(&mut self, _place: Place, _ticket: u32) {}
    fn restore(&mut self, _place: Place, _memory: Vec<u8>, _streams: Streams) {}
    fn collect(&mut self) -> Option<Product> {
        None
    }
    fn is_idle(&self) -> bool {
        true
    }
}

struct Nobody;

impl Results for Nobody {
    fn result(&mut self, _outlet: Outlet, _event: Event) {}
    fn fault(&mut self, _operator: &Arc<str>, _stats: &Arc<Stats>, _fault: &Fault) {}
}

fn router(spec: &GraphSpec) -> Router {
    let mut router = Router::new(Arc::new(Stamps), 2, 65_536);
    router.change(vec![spec.clone()]).expect("the graph is right");
    router
}

fn supply(router: &mut Router, handle: u32, seq: u32, crew: &mut impl Crew) {
    let receipt = Receipt { stream: StreamId(0), ticket: Ticket(seq), round: 0 };
    let number = Number { stream: StreamId(0), incarnation: 0, seq: u64::from(seq) };
    let created: Time = now();
    router.supply(handle, &Supply { receipt, number, created, payload: &[0; 8] }, crew);
}

fn queues(rounds: usize, second: u8) -> Quantiles {
    let mut queues = Queues((0..2).map(|_| LevelQueue::default()).collect());
    let mut router = router(&spec(Some(second), second > 0));
    let handle = router.bind("a", &mut queues).expect("the graph wants it").handle;
    let mut gaps = Vec::with_capacity(rounds);
    for round in 0..rounds {
        supply(&mut router, handle, round as u32, &mut queues);
        let [urgent, other] = &mut queues.0[..] else { unreachable!("two levels") };
        let mut first = urgent.begin(now()).expect("invariant: it was supplied");
        let outcome = first.work();
        // Within a level a worker reads the clock once; to another one it goes by way of its next look for work.
        let from = Instant::now();
        let time = now();
        urgent.end(time, first, &outcome, &mut Nobody);
        let second = if second == 0 {
            urgent.begin(time)
        } else {
            let (route, event) = urgent.hand_over().expect("invariant: its result goes to the other level");
            other.offer(route, event);
            other.begin(now())
        };
        gaps.push(from.elapsed().as_nanos() as f64);
        let mut run = second.expect("invariant: its input is there");
        loop {
            let outcome = run.work();
            let queue = if run.place().level == 0 { &mut *urgent } else { &mut *other };
            queue.end(now(), run, &outcome, &mut Nobody);
            let Some(next) = urgent.begin(now()).or_else(|| other.begin(now())) else { break };
            run = next;
        }
        while router.processed().is_some() {}
    }
    quantiles(gaps)
}

/// Where threads run.
#[derive(Clone, Copy)]
struct Host {
    realtime: bool,
    processors: usize,
}

struct Measured {
    /// From operator to operator, if there are two.
    gaps: Vec<f64>,
    /// Time for each message, while there are always some.
    per_message: f64,
}

/// One thread for each level on the last processor, this one on the first.
fn threads(spec: &GraphSpec, host: Host, rounds: usize, burst: u32) -> Measured {
    let staffing = Staffing {
        levels: 2,
        workers: 1,
        priority: host.realtime.then_some(49),
        processors: vec![host.processors - 1],
        inbox: 65_536,
        results: 8_192,
        movers: Movers::Workers,
    };
    let mut workers = Workers::start(&staffing, &host::Helpers::new().expect("a bell can be had"))
        .expect("threads can be started");
    let wishes = Wishes { priority: host.realtime.then_some(50), processors: vec![0], lock_memory: false };
    for note in workers.refusals().iter().cloned().chain(ask(&wishes)) {
        eprintln!("note: {note}");
    }
    let mut router = router(spec);
    let handle = router.bind("a", &mut workers).expect("the graph wants it").handle;
    let mut measured = Measured { gaps: Vec::new(), per_message: 0.0 };
    let mut times = Vec::new();
    for round in 0..rounds {
        let began = Instant::now();
        (0..burst).for_each(|n| supply(&mut router, handle, round as u32 * burst + n, &mut workers));
        let mut processed = 0;
        while processed < burst {
            while let Some(product) = workers.collect() {
                let Product::Result(_, event) = product else { panic!("an operator failed") };
                let gap = event.payload.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                measured.gaps.push(gap as f64);
            }
            processed += std::iter::from_fn(|| router.processed()).count() as u32;
            if processed < burst && burst == 1 {
                let bell = workers.bell();
                let short = rustix::event::Timespec { tv_sec: 0, tv_nsec: 100_000 };
                let _ = poll(&mut [PollFd::new(&bell, PollFlags::IN)], Some(&short));
                let _ = rustix::io::read(bell, &mut [0; 8]);
            }
        }
        times.push(began.elapsed().as_nanos() as f64 / f64::from(burst));
    }
    measured.per_message = quantiles(times).p50;
    measured
}
