//! Streams of readings through a graph, supplied on time.

use crate::busy;
use crate::graphs::{self, Terms};
use crate::kinds::Kinds;
use crate::process::{resident_kib, used};
use crate::tally::{Quantiles, Tally};
use crate::time::{span, timespec};
use contract::{Receipt, Span, StreamId, Ticket, Time};
use host::realtime::{Wishes, ask};
use host::{Gather, Movers, Occupancy, Staffing, Workers, now};
use processing::{Crew, GraphSpec, Level, Marks, Number, Product, Router, Supply, Violation};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What runs, and how.
#[derive(Deserialize)]
pub struct Plan {
    /// Streams of CPEP, figure 2.6, by level; of figure 2.7, the copies are the first.
    copies: [u32; 3],
    /// Figure 2.7 instead of 2.6.
    shared_graph: bool,
    /// Points of the frames: high, middle and low; of figure 2.7 those of s1 to s4, and of s5 to s8.
    points: [usize; 3],
    seconds: f64,
    warm_up: f64,
    seed: u64,
    prioritization: bool,
    sharing: bool,
    shed: bool,
    /// `R` of middle streams.
    within_ms: f64,
    /// `A` of all, in periods of the supplier.
    validity_periods: u64,
    /// How far apart the suppliers of one stream begin; as far as their period if they have nothing to do with each other.
    apart_ms: f64,
    /// How much faster or slower than said each supplier's clock is at most.
    drift: f64,
    mover_threads: bool,
    workers: usize,
    /// How long the data thread rests at most where operators keep all processors, microseconds.
    #[serde(default)]
    gather_us: f64,
    /// Microseconds that operators take instead of their work, by their names.
    #[serde(default)]
    costs_us: BTreeMap<String, f64>,
    /// How long results are awaited whose readings were created in time; the load goes on meanwhile. Else what counts is
    /// what has come in time.
    #[serde(default)]
    drain: f64,
}

/// What came of it.
#[derive(Serialize)]
pub struct Report {
    levels: BTreeMap<String, Row>,
    /// Of all processors.
    processor_share: f64,
    switches_per_ms: f64,
    resident_kib: u64,
    resident_highest_kib: u64,
    /// Of all processors' time, what a hypervisor gave to somebody else.
    stolen_share: f64,
    /// The longest time by which the data thread supplied late.
    supplied_late_ms: f64,
    /// What a step of `busy` takes, if it is used.
    step_ns: Option<f64>,
    /// What its runs took at the median, by their stated cost.
    took: Option<f64>,
    /// Events dropped since too many waited.
    refused: u64,
    faults: u64,
    /// Wishes that were not granted.
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    quantiles: Quantiles,
    /// Results that were true when they came.
    valid: u64,
    /// Results none of whose parts were too far apart.
    consistent: u64,
    /// Results within the deadline of their output.
    timely: u64,
}

struct Supplier {
    handle: u32,
    period: Span,
    payload: Vec<u8>,
    seq: u64,
}

/// Results of a level, and what is true of them.
struct Account {
    tally: Tally,
    valid: u64,
    consistent: u64,
    timely: u64,
}

/// As in a broker: the data thread above all levels.
const DATA_PRIORITY: u8 = 50;
const LEVELS: u8 = 3;
const EVENTS: usize = 65_536;
const INBOX: usize = 16_384;
const RESULTS: usize = 8_192;

struct Bench {
    router: Router,
    workers: Workers,
    load: Occupancy,
    /// As a broker's data thread rests where operators keep all processors.
    gather: Gather,
    suppliers: Vec<Supplier>,
    /// When each supplier is due.
    agenda: BinaryHeap<Reverse<(Time, usize)>>,
    accounts: Vec<Account>,
    /// By output: its account.
    outputs: Vec<usize>,
    calls: Calls,
    faults: u64,
    late: Span,
    /// Since when readings count, and until when.
    from: Time,
    until: Time,
}

/// What wakes the data thread: each ring of the workers' bell, as in a broker, and the next reading that is due.
struct Calls {
    epoll: OwnedFd,
    /// Set once for each time, so that a ring does not set it anew.
    timer: OwnedFd,
    set: Time,
}

impl Calls {
    fn of(workers: &Workers) -> Result<Calls, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC)?;
        let each = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, workers.bell(), epoll::EventData::new_u64(0), each)?;
        epoll::add(&epoll, &timer, epoll::EventData::new_u64(1), each)?;
        Ok(Calls { epoll, timer, set: Time::ZERO })
    }

    /// Waits until somebody calls, or until this time.
    fn wait(&mut self, until: Time) {
        if self.set != until {
            let once = Itimerspec { it_interval: Timespec::default(), it_value: timespec(until) };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)
                .expect("invariant: the time is valid");
            self.set = until;
        }
        let _ = epoll::wait(&self.epoll, &mut [MaybeUninit::<epoll::Event>::uninit(); 2], None);
    }
}

/// Runs it.
pub fn run(plan: &Plan) -> Report {
    let staffing = Staffing {
        levels: LEVELS,
        workers: plan.workers,
        priority: Some(DATA_PRIORITY - 1),
        processors: Vec::new(),
        inbox: INBOX,
        results: RESULTS,
        movers: if plan.mover_threads { Movers::Threads } else { Movers::Workers },
    };
    let workers = Workers::start(&staffing, &host::Helpers::new().expect("a bell can be had"))
        .expect("threads can be started");
    let mut notes = workers.refusals().to_vec();
    let wishes = Wishes { priority: Some(DATA_PRIORITY), processors: Vec::new(), lock_memory: false };
    notes.extend(ask(&wishes));
    let mut bench = Bench::new(plan, workers);
    let begin = now();
    bench.from = begin + span(plan.warm_up);
    bench.serve(bench.from);
    let (before, counted_from) = (used(), now());
    bench.from = counted_from;
    bench.late = Span::ZERO;
    let end = counted_from + span(plan.seconds);
    if plan.drain > 0.0 {
        bench.until = end;
    }
    bench.serve(end);
    let (after, seconds) = (used(), now().since(counted_from).0 as f64 / 1e9);
    let (resident_kib, resident_highest_kib) = resident_kib();
    let supplied_late_ms = bench.late.as_millis_f64();
    bench.serve(end + span(plan.drain));
    // What was created in time is exactly that much; what came in time, as much as it took.
    let counted = if plan.drain > 0.0 { plan.seconds } else { seconds };
    let switches = (after.waited + after.gave_way) - (before.waited + before.gave_way);
    Report {
        processor_share: after.share_since(&before, seconds),
        stolen_share: after.stolen_since(&before, seconds),
        switches_per_ms: switches as f64 / seconds / 1e3,
        resident_kib,
        resident_highest_kib,
        supplied_late_ms,
        step_ns: (!plan.costs_us.is_empty()).then(busy::step_ns),
        took: busy::took(),
        refused: bench.router.refused() + bench.workers.refused(),
        faults: bench.faults,
        notes,
        levels: bench
            .accounts
            .iter()
            .map(|account| (account.tally.name.clone(), account.row(counted)))
            .collect(),
    }
}

fn specs(plan: &Plan) -> Vec<GraphSpec> {
    let terms = Terms {
        violation: if plan.shed { Violation::Shed } else { Violation::Mark },
        within: span(plan.within_ms / 1e3),
        validity_periods: plan.validity_periods,
    };
    let mut spec = if plan.shared_graph { graphs::shared(&terms) } else { graphs::streams(&terms) };
    if !plan.prioritization {
        spec.consumers.iter_mut().for_each(|consumer| consumer.level = Level(0));
    }
    graphs::take_costs(&mut spec, &plan.costs_us);
    let spec = if plan.sharing { spec } else { spec.unshared() };
    spec.components()
}

impl Bench {
    fn new(plan: &Plan, workers: Workers) -> Bench {
        let mut router = Router::new(Arc::new(Kinds), LEVELS, EVENTS);
        if let Err(errors) = router.change(specs(plan)) {
            panic!("the graphs are wrong: {errors:?}");
        }
        let calls = Calls::of(&workers).expect("there are descriptors");
        let mut bench = Bench {
            router,
            load: workers.load(),
            workers,
            gather: Gather::new(Span::nanos((plan.gather_us * 1e3) as i64)),
            calls,
            suppliers: Vec::new(),
            agenda: BinaryHeap::new(),
            accounts: Vec::new(),
            outputs: Vec::new(),
            faults: 0,
            late: Span::ZERO,
            from: Time::ZERO,
            until: Time::NEVER,
        };
        let mut chance = fastrand::Rng::with_seed(plan.seed);
        if plan.shared_graph {
            for copy in 0..plan.copies[0] {
                let frames: Vec<_> = (1..=8)
                    .map(|n| (format!("plant/{copy}/s{n}"), plan.points[usize::from(n > 4)]))
                    .collect();
                bench.stream(plan, 10, &frames, &mut chance);
            }
        } else {
            for (level, name, letter, count, period) in
                [(0, "high", 'h', 2, 5), (1, "middle", 'm', 4, 10), (2, "low", 'l', 2, 20)]
            {
                for copy in 0..plan.copies[level] {
                    let frames: Vec<_> = (1..=count)
                        .map(|n| (format!("{name}/{copy}/{letter}{n}"), plan.points[level]))
                        .collect();
                    bench.stream(plan, period, &frames, &mut chance);
                }
            }
        }
        bench.name_outputs(plan);
        bench
    }

    /// The suppliers of one stream, which begin near each other, anywhere in their period.
    fn stream(
        &mut self,
        plan: &Plan,
        period_ms: i64,
        frames: &[(String, usize)],
        chance: &mut fastrand::Rng,
    ) {
        let period = Span::millis(period_ms).0 as f64;
        let begin = now() + Span::millis(200) + Span::nanos((chance.f64() * period) as i64);
        for (topic, points) in frames {
            let bound = self.router.bind(topic, &mut self.workers).expect("a graph wants the topic");
            let value = |_| (128 + chance.i32(-100..100)) as f32;
            let payload = (0..*points).map(value).flat_map(f32::to_le_bytes).collect();
            let clock = 1.0 + plan.drift * (2.0 * chance.f64() - 1.0);
            let apart = Span::nanos((chance.f64() * plan.apart_ms.min(period / 1e6) * 1e6) as i64);
            self.agenda.push(Reverse((begin + apart, self.suppliers.len())));
            let period = Span::nanos((period * clock) as i64);
            self.suppliers.push(Supplier { handle: bound.handle, period, payload, seq: 0 });
        }
    }

    /// Outputs by the second level of their topics: what they count for.
    fn name_outputs(&mut self, plan: &Plan) {
        let mut index = 0;
        while let Some(output) = self.router.output(index) {
            let name = output.topic.split('/').nth(1).unwrap_or_default().to_owned();
            let found = self.accounts.iter().position(|account| account.tally.name == name);
            let account = found.unwrap_or_else(|| {
                let (copies, period) = match (plan.shared_graph, name.as_str()) {
                    (true, _) => (plan.copies[0], 10),
                    (false, "high") => (plan.copies[0], 5),
                    (false, "middle") => (plan.copies[1], 10),
                    (false, _) => (plan.copies[2], 20),
                };
                self.accounts.push(Account::new(name, f64::from(copies) * 1e3 / f64::from(period)));
                self.accounts.len() - 1
            });
            self.outputs.push(account);
            index += 1;
        }
    }

    /// Supplies what is due and takes what has come, until a time.
    fn serve(&mut self, until: Time) {
        loop {
            let mut time = now();
            if time >= until {
                return;
            }
            while let Some(Reverse((due, index))) =
                self.agenda.peek().copied().filter(|next| next.0.0 <= time)
            {
                self.agenda.pop();
                self.supply(index, due);
                self.agenda.push(Reverse((due + self.suppliers[index].period, index)));
                time = now();
                self.late = self.late.max(time.since(due));
                self.collect();
            }
            self.collect();
            match self.gather.rest(now) {
                Some(rest) => std::thread::sleep(rest),
                None => self.calls.wait(self.agenda.peek().map_or(until, |next| next.0.0).min(until)),
            }
            self.gather.woke(self.load.is_full(), now);
        }
    }

    /// Created when it was due: that the data thread is late counts as latency.
    fn supply(&mut self, index: usize, due: Time) {
        let supplier = &mut self.suppliers[index];
        supplier.seq += 1;
        let number = Number { stream: StreamId(index as u32), incarnation: 1, seq: supplier.seq };
        let receipt =
            Receipt { stream: StreamId(index as u32), ticket: Ticket(supplier.seq as u32), round: 0 };
        let message = Supply { receipt, number, created: due, payload: &supplier.payload };
        self.router.supply(supplier.handle, &message, &mut self.workers);
    }

    fn collect(&mut self) {
        while let Some(product) = self.workers.collect() {
            match product {
                Product::Result(outlet, event) => {
                    let time = now();
                    // Where events of the warm-up are left, they are not counted, and none from after the measurement.
                    if event.validity.begins < self.from || event.validity.begins >= self.until {
                        continue;
                    }
                    let account = &mut self.accounts[self.outputs[outlet.output as usize]];
                    let latency = time.since(event.validity.begins);
                    account.tally.latency.saturating_record(latency.as_nanos_u64() / 1_000);
                    account.valid += u64::from(!event.validity.is_over(time));
                    account.consistent += u64::from(!event.marks.contains(Marks::APART));
                    account.timely += u64::from(latency <= outlet.deadline);
                }
                Product::Saved { .. } | Product::Overran { .. } => {}
                Product::Fault { operator, fault, .. } => {
                    self.faults += 1;
                    if self.faults == 1 {
                        eprintln!("note: {operator}: {fault}");
                    }
                }
            }
        }
        while self.router.processed().is_some() {}
    }
}

impl Account {
    fn new(name: String, per_second: f64) -> Account {
        Account { tally: Tally::new(name, per_second), valid: 0, consistent: 0, timely: 0 }
    }

    fn row(&self, seconds: f64) -> Row {
        let quantiles = self.tally.quantiles(seconds);
        Row { quantiles, valid: self.valid, consistent: self.consistent, timely: self.timely }
    }
}
