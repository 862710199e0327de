//! Deployments and their misfortunes, made up from a seed: topology, contracts, limits, workload, faults, and values of
//! the configuration that nobody would choose.

mod devices;

use crate::operators::LEVELS;
use crate::scenario::{
    Act, ClockError, Fault, LastWrites, Pace, PublisherSpec, Scenario, SubscriberSpec, Target, TopicSpec,
    When,
};
use broker::{Detection, Limits, Policy, Replication, TopicRule};
use contract::admission::{Carriers, Costs};
use contract::rounds::Io;
use contract::timing::LinkDelay;
use contract::{Contract, Delays, Every, Lazy, LinkClass, Links, Loss, Span, Supply};
use engine::driving::Portion;
use fastrand::Rng;
use mqtt::Standby;
use processing::{
    ConsumerSpec, GraphSpec, Join, Keep, Level, OperatorSpec, Parameters, PayloadType, RelativeSet,
    SupplierSpec, Value, Violation, captures,
};
use simulation::Latency;

/// How bad it gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weather {
    /// Everything that the guarantees assume, and at its worst. All of them must hold.
    Assumed,
    /// Anything: several faults at once, clocks that jump, hosts that crawl, limits that are far too low. Loss bounds and
    /// deadlines are not promised then; everything else is.
    Beyond,
}

/// What admission counts with, as a host that was measured doubles it.
fn doubled(truth: &Costs) -> Costs {
    Costs {
        arrival: truth.arrival * 2,
        dispatch: truth.dispatch * 2,
        replication: truth.replication * 2,
        turn: truth.turn * 2,
        io: truth.io.map(|io| Io { read: io.read * 2, write: io.write * 2, kib: io.kib * 2 }),
    }
}

/// A copy leaves with what came at once with it, so a budget that is enough for the copies needs as much more as that takes.
fn give_copies_time(scenario: &mut Scenario) {
    let Scenario { costs, supply, publishers, subscribers, replication, .. } = scenario;
    let Replication::Lazy(lazy) = replication else { return };
    let copies =
        |costs: &Costs| costs.replication * publishers.iter().map(|spec| spec.topics.len() as u64).sum();
    let share = |work: Span| Span(work.0 * 1_000_000 / i64::from(supply.share_ppm));
    if lazy.budget < supply.blocking + share(copies(costs)) {
        return;
    }
    let (tcp, wanting) = (costs.io.tcp, subscribers.len().max(1) as u64);
    let message = costs.arrival + tcp.read + tcp.kib * wanting + (costs.dispatch + tcp.write) * wanting;
    let topics = publishers.iter().map(|spec| spec.topics.len() as u64).sum::<u64>();
    let clients = publishers.len() as u64 + wanting;
    lazy.budget = lazy.budget
        + supply.blocking
        + share(message * topics * 2 + (tcp.read + tcp.write) * clients + costs.turn * 8);
}

/// The deployment that belongs to a seed.
pub fn scenario_of(seed: u64, weather: Weather) -> Scenario {
    let mut random = Rng::with_seed(seed ^ SALT);
    let (far, crowded) = (random.u32(0..3) == 0, random.u32(0..6) == 0);
    let lazy = random.u32(0..3) > 0;
    let mut maker = Maker { random, weather, far, crowded, lazy };
    let mut scenario = maker.scenario();
    // Chance of its own, so that the rest stays what it was.
    maker.random = Rng::with_seed(seed ^ SALT.rotate_left(53));
    scenario.true_costs.io = maker.io();
    scenario.costs = doubled(&scenario.true_costs);
    give_copies_time(&mut scenario);
    maker.random = Rng::with_seed(seed ^ SALT.rotate_left(7));
    scenario.best_effort_subscriptions = maker.one_in(4);
    if scenario.best_effort_subscriptions && maker.one_in(2) {
        maker.leave_little_time(&mut scenario);
    }
    if maker.one_in(5) {
        maker.add_a_dashboard(&mut scenario);
    }
    maker.random = Rng::with_seed(seed ^ SALT.rotate_left(17));
    if maker.one_in(3) {
        maker.change_operators(&mut scenario);
    }
    maker.random = Rng::with_seed(seed ^ SALT.rotate_left(29));
    if maker.one_in(3) {
        maker.add_devices(&mut scenario);
    }
    maker.random = Rng::with_seed(seed ^ SALT.rotate_left(11));
    if maker.one_in(2) {
        scenario.mqtt.standby = Standby::Redirect;
    }
    let changes = scenario.faults.iter().any(|fault| matches!(fault.act, Act::Graphs { .. }));
    maker.random = Rng::with_seed(seed ^ SALT.rotate_left(53));
    if maker.one_in(4) && !scenario.topics.is_empty() {
        maker.change_contracts(&mut scenario);
    }
    maker.random = Rng::with_seed(seed ^ SALT.rotate_left(41));
    let processes = changes || !scenario.processing.is_empty();
    // What comes at once after a cut is more than operators have been planned for.
    if maker.one_in(4) && (weather == Weather::Beyond || !processes) {
        maker.cut_off_from_the_primary(&mut scenario);
    }
    // How old inputs of operators may be is counted by clocks as well.
    if weather == Weather::Assumed && processes {
        scenario.faults.retain(|fault| !is_step(fault));
    }
    // A topic that is remembered now and not later is copied lazily in between, which nobody could foretell here.
    if scenario.lazy().is_some() && !scenario.later.is_empty() {
        let graphs = std::iter::once(&mut scenario.processing).chain(&mut scenario.later).flatten();
        let operators = graphs.flat_map(|graph| &mut graph.operators);
        operators
            .filter(|operator| operator.kind == "step")
            .for_each(|operator| operator.kind = "tag".to_owned());
    }
    scenario
}

fn operator(kind: &str, name: &str, inputs: &[&str]) -> OperatorSpec {
    OperatorSpec {
        name: name.to_owned(),
        kind: kind.to_owned(),
        parameters: Parameters::new(),
        inputs: inputs.iter().map(|input| (*input).to_owned()).collect(),
        join: Join::All,
        violation: Violation::Mark,
        sets: Vec::new(),
        keep: Keep::Latest,
        cost: None,
    }
}

/// The same seed also decides the run; the two must not share their chance.
const SALT: u64 = 0x005E_ED0F_7E57;

struct Maker {
    random: Rng,
    weather: Weather,
    /// Some subscribers are far away.
    far: bool,
    /// Publishers have many topics, which go out together.
    crowded: bool,
    /// Copies are made lazily.
    lazy: bool,
}

impl Maker {
    fn is_beyond(&self) -> bool {
        self.weather == Weather::Beyond
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.random.u32(0..count) == 0
    }

    fn micros(&mut self, least: i64, most: i64) -> Span {
        Span::micros(self.random.i64(least..=most))
    }

    fn millis(&mut self, least: i64, most: i64) -> Span {
        Span::millis(self.random.i64(least..=most))
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.random.usize(0..choices.len())]
    }

    fn scenario(&mut self) -> Scenario {
        let pair = self.latency(500);
        let near = self.latency(800);
        let clock = self.micros(0, 200);
        let detection = self.detection();
        let true_costs = self.costs();
        let turn_cost = self.micros(2, 20);
        let delays = self.delays(&detection, pair, near, clock);
        let links = self.links(near);
        let true_costs = Costs { turn: turn_cost, ..true_costs };
        let costs = doubled(&true_costs);
        let blocking = Portion::longest(costs.arrival, 40) + Span(costs.dispatch.0 * 64);
        let publishers = self.publishers(near, clock, &delays);
        let subscribers = self.subscribers(near, clock, &publishers, &links);
        let topics = self.rules(&publishers);
        let faults = self.faults(publishers.len(), subscribers.len());
        let span = self.millis(1_000, 3_000);
        let supply = Supply { share_ppm: self.random.u32(500_000..=1_000_000), blocking };
        let processing = self.processing(&publishers);
        let operator_cost = self.operator_cost(&publishers);
        let workers = self.random.usize(1..=2);
        let request_cost = if self.is_beyond() { self.micros(0, 100) } else { Span::ZERO };
        let lossy = self.is_beyond() && self.one_in(5);
        let pair_loss_ppm = if lossy { self.random.u32(0..=30_000) } else { 0 };
        let copies = costs.replication * publishers.iter().map(|spec| spec.topics.len() as u64).sum();
        Scenario {
            span,
            delays,
            links,
            costs,
            true_costs,
            request_cost,
            supply,
            schedulability: !self.is_beyond() || !self.one_in(4),
            best_effort_subscriptions: false,
            policy: if self.is_beyond() && self.one_in(8) { Policy::Fcfs } else { Policy::Frame },
            detection,
            limits: self.limits(),
            topics,
            clocks: [self.clock(clock), self.clock(clock)],
            pair,
            pair_loss_ppm,
            window_bytes: if self.is_beyond() && self.one_in(3) { 128 << 10 } else { 4 << 20 },
            publishers,
            subscribers,
            processing,
            later: Vec::new(),
            devices: Vec::new(),
            mqtt: mqtt::Limits::default(),
            workers,
            // Of what is drawn anyway, so that it draws nothing more.
            snapshots: Span::millis(1 + (span.0 / 1_000) % 150),
            operator_cost,
            faults,
            assumed: !self.is_beyond(),
            replication: self.replication(&supply, copies),
        }
    }

    /// When copies are made. `copies`: what those of all streams cost at once.
    fn replication(&mut self, supply: &Supply, copies: Span) -> Replication {
        if self.is_beyond() && self.one_in(10) {
            let period = self.millis(1, 60);
            let skip_dispatched = self.random.bool();
            let periodic = Replication::Periodic { period, skip_dispatched };
            return self.pick(&[periodic, Replication::RetransmissionOnly]);
        }
        if !self.lazy {
            return Replication::Eager;
        }
        let every = self.pick(&[Every::All, Every::Loss, Every::Max]);
        let window = if self.one_in(3) { Span::ZERO } else { self.micros(0, 40_000) };
        // Enough for all at once, by little or by far; or too little, so that some are refused.
        let needed = supply.blocking + Span(copies.0 * 1_000_000 / i64::from(supply.share_ppm));
        let budget = match self.random.u32(0..8) {
            0 => self.micros(0, needed.0 / 1_000 + 1),
            1..4 => needed + Span(1),
            _ => needed + self.micros(0, 8_000),
        };
        Replication::Lazy(Lazy { every, window, budget })
    }

    fn latency(&mut self, most: i64) -> Latency {
        let least = self.micros(5, most / 4);
        let typical = least + self.micros(0, most / 4);
        Latency { least, typical, most: typical + self.micros(0, most / 2) }
    }

    fn clock(&mut self, bound: Span) -> ClockError {
        let most = if self.is_beyond() && self.one_in(4) { Span::secs(100) } else { Span(bound.0 / 2) };
        // A run lasts less than a minute, so that the drift stays within the bound as well. Beyond, it may be a tenth.
        let wild = self.is_beyond() && self.one_in(6);
        let drift = if wild { 100_000_000 } else { bound.0 / 2 / 60 };
        ClockError {
            offset: Span(self.random.i64(-most.0..=most.0)),
            drift_ppb: self.random.i64(-drift..=drift),
        }
    }

    fn detection(&mut self) -> Detection {
        Detection {
            poll: self.millis(3, 20),
            misses: self.random.u32(1..=3),
            connect: self.millis(3, 20),
            retry: self.millis(20, 150),
            seek_preferred: self.millis(100, 600),
            seek_other: self.millis(700, 3_000),
            ..Detection::default()
        }
    }

    fn costs(&mut self) -> Costs {
        Costs {
            turn: Span::ZERO,
            io: Carriers::default(),
            // Blocking lasts for many arrivals, and with lazy copies only what must be copied later than that is of interest.
            arrival: Span(self.random.i64(200..=if self.lazy { 600 } else { 4_000 })),
            dispatch: Span(self.random.i64(200..=8_000)),
            replication: Span(self.random.i64(200..=6_000)),
        }
    }

    /// What connections cost.
    fn io(&mut self) -> Carriers<Io> {
        let tcp = Io {
            read: Span(self.random.i64(300..=3_000)),
            write: Span(self.random.i64(500..=8_000)),
            kib: Span(self.random.i64(50..=2_000)),
        };
        Carriers { tcp, ..Carriers::default() }
    }

    /// The configured bounds hold in truth, and by little.
    fn delays(&mut self, detection: &Detection, pair: Latency, near: Latency, clock: Span) -> Delays {
        let detected = detection.poll * u64::from(detection.misses + 1) + detection.connect;
        // A batch of a crowd takes a while to be served.
        let turns = if self.crowded { Span::millis(4) } else { Span::micros(500) };
        Delays {
            failover: detected + pair.most * 4 + near.most * 2 + turns,
            broker_to_broker: pair.most + turns,
            publisher_to_broker: near.most + clock * 2 + turns,
            ..Delays::default()
        }
    }

    fn links(&mut self, near: Latency) -> Links {
        // FRAME §3.3.4 takes the way to subscribers from below; where it is the longest, arrival is promised as well.
        let to_subscriber = if self.random.bool() { near.most } else { self.micros(0, 1_000) };
        let edge = LinkDelay { to_subscriber, confirmation: Span::millis(15) };
        let cloud = LinkDelay { to_subscriber: self.millis(5, 60), confirmation: Span::millis(150) };
        Links::new([(LinkClass::EDGE, edge), (LinkClass::CLOUD, cloud)])
    }

    fn publishers(&mut self, near: Latency, clock: Span, delays: &Delays) -> Vec<PublisherSpec> {
        let count = self.random.usize(1..=3);
        (0..count)
            .map(|index| PublisherSpec {
                name: format!("publisher-{index}"),
                topics: (0..self.topic_count()).map(|topic| self.topic(index, topic, delays)).collect(),
                latency: near,
                clock: self.clock(clock),
                starts: if self.one_in(4) { self.millis(0, 1_500) } else { Span::ZERO },
            })
            .collect()
    }

    fn topic_count(&mut self) -> usize {
        if self.crowded { self.random.usize(10..=40) } else { self.random.usize(1..=5) }
    }

    fn topic(&mut self, publisher: usize, index: usize, delays: &Delays) -> TopicSpec {
        // Some topics have several publishers, which share its contract by being made from the topic's number alone.
        let shared = index == 0;
        let name = if shared { "shared/0".to_owned() } else { format!("site/{publisher}/topic/{index}") };
        let contract = if shared { shared_contract(delays) } else { self.contract(delays) };
        let pace = match self.random.u32(0..6) {
            _ if self.crowded => Pace::Periodic,
            0 | 1 => Pace::Periodic,
            2 if self.is_beyond() => Pace::Bursts(6),
            _ => Pace::Sporadic(self.random.u32(1..80)),
        };
        let payload_bytes = match self.random.u32(0..10) {
            0 => self.random.usize(1_000..20_000),
            1 if self.is_beyond() && self.one_in(4) => self.random.usize(20_000..64_000),
            _ => self.random.usize(12..200),
        };
        TopicSpec { name, contract, stated: !self.one_in(3), payload_bytes, pace }
    }

    /// A contract near the edge of what can be kept, on either side of it.
    fn contract(&mut self, delays: &Delays) -> Contract {
        let periods: &[i64] =
            if self.crowded { &[20, 50, 100] } else { &[5, 10, 20, 35, 50, 80, 100, 250, 400] };
        let period = self.pick(periods);
        let mut contract = Contract::every(Span::millis(period));
        contract.loss = match self.random.u32(0..8) {
            0 => Loss::Unbounded,
            1..5 => Loss::AtMost(0),
            _ => Loss::AtMost(self.random.u32(1..5)),
        };
        let least =
            contract::timing::smallest_retention(&contract, delays.publisher_to_broker, delays) as u32;
        contract.retain = match self.random.u32(0..6) {
            0 => self.random.u32(0..4),
            1 => least + self.random.u32(0..6),
            // Enough for some messages to be left out.
            2..4 if self.lazy => least + self.random.u32(0..3),
            _ => least,
        };
        contract.deadline = match self.random.u32(0..4) {
            0 => self.millis(8, 40),
            1 => contract.period,
            _ => self.millis(20, 400),
        };
        contract.priority = self.random.u8(0..4);
        contract.confirm = self.one_in(3);
        // The confirmation of somebody far away takes as long as the class of far links says.
        let cloud = if contract.confirm { self.far } else { self.one_in(4) };
        contract.link = if cloud { LinkClass::CLOUD } else { LinkClass::EDGE };
        if cloud && !self.one_in(4) {
            contract.deadline = self.millis(80, 400);
        }
        contract
    }

    fn subscribers(
        &mut self,
        near: Latency,
        clock: Span,
        publishers: &[PublisherSpec],
        links: &Links,
    ) -> Vec<SubscriberSpec> {
        let names: Vec<&str> = publishers
            .iter()
            .flat_map(|publisher| &publisher.topics)
            .map(|topic| topic.name.as_str())
            .collect();
        let far = links.delay(LinkClass::CLOUD).map_or(Span::ZERO, |link| link.to_subscriber);
        (0..self.random.usize(1..=3))
            .map(|index| {
                let filters = match self.random.u32(0..4) {
                    0 => vec!["site/+/topic/+".to_owned(), "shared/#".to_owned()],
                    1 => vec![names[self.random.usize(0..names.len())].to_owned(), "site/#".to_owned()],
                    _ => vec!["#".to_owned()],
                };
                let latency = if self.far && self.random.bool() {
                    let least = if self.random.bool() { far } else { far - Span::millis(4) };
                    Latency { least, typical: least + Span::millis(1), most: least + Span::millis(4) }
                } else {
                    near
                };
                let starts = if self.one_in(5) { self.millis(0, 1_500) } else { Span::ZERO };
                let clock = self.clock(clock);
                let (name, best_effort) = (format!("subscriber-{index}"), false);
                SubscriberSpec { name, filters, best_effort, latency, clock, starts }
            })
            .collect()
    }

    /// Subscribers come when topics are there, and admission gives out little: for some there is no time.
    fn leave_little_time(&mut self, scenario: &mut Scenario) {
        scenario.supply.share_ppm /= self.random.u32(2..60);
        for spec in &mut scenario.subscribers {
            spec.starts = self.millis(300, 1_500);
        }
    }

    /// Somebody who looks at everything, and to whom nothing is promised.
    fn add_a_dashboard(&mut self, scenario: &mut Scenario) {
        let Some(first) = scenario.subscribers.first() else { return };
        let starts = self.millis(0, 1_500);
        let (name, filters, best_effort) = ("dashboard".to_owned(), vec!["#".to_owned()], true);
        let dashboard = SubscriberSpec { name, filters, best_effort, starts, ..first.clone() };
        scenario.subscribers.push(dashboard);
    }

    /// What operators do, in half of all deployments: results that stand for messages one by one, and joined ones.
    fn processing(&mut self, publishers: &[PublisherSpec]) -> Vec<GraphSpec> {
        if self.random.bool() {
            return Vec::new();
        }
        let topics: Vec<&TopicSpec> = publishers.iter().flat_map(|publisher| &publisher.topics).collect();
        let mut graphs = vec![self.tags("site/+/topic/+", "one/+/+", "two/+/+", &topics)];
        if self.random.bool() {
            graphs.push(self.tags("shared/0", "one/shared", "two/shared", &topics));
        }
        let first = self.random.usize(0..topics.len());
        let second = self.random.usize(0..topics.len());
        if topics[first].name != topics[second].name {
            graphs.push(self.joins(&[topics[first], topics[second]]));
        }
        graphs
    }

    /// Graphs change while brokers run: on one of them first, on the other some time later, and something may go wrong in
    /// between.
    fn change_operators(&mut self, scenario: &mut Scenario) {
        let publishers = std::mem::take(&mut scenario.publishers);
        let topics: Vec<&TopicSpec> = publishers.iter().flat_map(|publisher| &publisher.topics).collect();
        let mut graphs = scenario.processing.clone();
        // Streams of results are numbered without gaps; the graphs that may be there already have the first two numbers.
        let offset = if graphs.is_empty() { 1.0 } else { 3.0 };
        let mut at = 0;
        for later in 0..self.random.usize(1..=2) {
            graphs = self.changed(graphs, &topics, offset);
            scenario.later.push(graphs.clone());
            let first = self.random.usize(0..2);
            for (target, is_first) in [(first, true), (1 - first, false)] {
                let most = self.pick(&[1_000, 50_000, 400_000]);
                let when = match (is_first, self.random.u32(0..3)) {
                    (_, 0) => When::Settled(self.micros(0, most)),
                    (true, _) => When::At(self.millis(300, 2_500)),
                    (false, _) => When::After(self.micros(0, most)),
                };
                let act = Act::Graphs { target: Target::Broker(target), later };
                at = self.random.usize(at..=scenario.faults.len());
                scenario.faults.insert(at, Fault { when, act });
                at += 1;
            }
        }
        scenario.publishers = publishers;
    }

    /// Contracts change while brokers run, on one of them first, and on the other some time later or never.
    fn change_contracts(&mut self, scenario: &mut Scenario) {
        for _ in 0..self.random.usize(1..=3) {
            let (first, priority) = (self.random.usize(0..2), self.random.u8(0..=9));
            let most = self.pick(&[1_000, 50_000, 400_000]);
            let when = match self.random.u32(0..3) {
                0 => When::Settled(self.micros(0, most)),
                _ => When::At(self.millis(300, 4_000)),
            };
            let act = Act::Priorities { target: Target::Broker(first), priority };
            scenario.faults.push(Fault { when, act });
            if !self.one_in(4) {
                let act = Act::Priorities { target: Target::Broker(1 - first), priority };
                scenario.faults.push(Fault { when: When::After(self.micros(0, most)), act });
            }
        }
    }

    /// A client does not reach the primary for a while, or two do not, in which it could pass through the backup. The pair is whole.
    fn cut_off_from_the_primary(&mut self, scenario: &mut Scenario) {
        for _ in 0..self.random.usize(1..=2) {
            let client = if self.random.bool() {
                Target::Publisher(self.random.usize(0..scenario.publishers.len()))
            } else {
                Target::Subscriber(self.random.usize(0..scenario.subscribers.len()))
            };
            let (from, to) = (vec![client], vec![Target::Primary]);
            let act = Act::Partition { from, to, one_way: false, span: self.millis(500, 4_000) };
            let when = When::Settled(self.micros(0, 300_000));
            scenario.faults.push(Fault { when, act });
        }
    }

    /// A set of graphs after somebody has worked on it: one is taken out, changed or put in, or several of that.
    fn changed(&mut self, mut graphs: Vec<GraphSpec>, topics: &[&TopicSpec], offset: f64) -> Vec<GraphSpec> {
        for _ in 0..self.random.usize(1..=3) {
            let pattern = "site/+/topic/+";
            let third = graphs.iter().position(|graph| graph.consumers.iter().any(|c| c.name == "three/+/+"));
            match (self.random.u32(0..4), third) {
                (0, _) if !graphs.is_empty() => {
                    let gone = self.random.usize(0..graphs.len());
                    graphs.remove(gone);
                }
                (1, Some(third)) => {
                    graphs.remove(third);
                }
                (1 | 2, None) if topics.iter().any(|topic| captures(pattern, &topic.name).is_some()) => {
                    let mut graph = self.tags(pattern, "three/+/+", "", topics);
                    graph.operators.truncate(2);
                    graph.operators[0].name = "third first".to_owned();
                    graph.operators[1] = OperatorSpec {
                        name: "third".to_owned(),
                        inputs: vec!["third first".to_owned()],
                        parameters: Parameters::from([("offset".to_owned(), Value::Number(offset))]),
                        ..graph.operators[1].clone()
                    };
                    graph.consumers.truncate(1);
                    graph.consumers[0].from = "third".to_owned();
                    graph.consumers[0].deadline = Span::millis(250);
                    graphs.push(graph);
                }
                _ if !graphs.is_empty() => {
                    // What others see of it stays: topics, deadlines, periods. What it is made of does not.
                    let changed = self.random.usize(0..graphs.len());
                    let graph = &mut graphs[changed];
                    for supplier in &mut graph.suppliers {
                        supplier.validity = self.micros(500, 300_000);
                    }
                    let level = Level(self.random.u8(0..LEVELS));
                    graph.consumers.iter_mut().for_each(|consumer| consumer.level = level);
                }
                _ => {}
            }
        }
        graphs
    }

    fn supplier(&mut self, name: &str, topics: &[&TopicSpec]) -> SupplierSpec {
        let meant = topics.iter().filter(|topic| captures(name, &topic.name).is_some());
        let period = meant.map(|topic| topic.contract.period).min().unwrap_or(Span::secs(1));
        let validity = if self.one_in(3) { Span::FOREVER } else { self.micros(500, 300_000) };
        SupplierSpec { name: name.to_owned(), payload: PayloadType::Bytes, validity, period }
    }

    fn consumer(&mut self, name: &str, from: &str) -> ConsumerSpec {
        let level = Level(self.random.u8(0..LEVELS));
        ConsumerSpec { name: name.to_owned(), from: from.to_owned(), level, deadline: self.millis(80, 400) }
    }

    /// Each message has a result on both outputs.
    fn tags(&mut self, from: &str, one: &str, two: &str, topics: &[&TopicSpec]) -> GraphSpec {
        let made = |kind: &str, name: &str, input: &str, offset: u32| {
            let parameters = Parameters::from([("offset".to_owned(), Value::Number(offset.into()))]);
            OperatorSpec {
                keep: Keep::All(4_096),
                parameters,
                ..operator(kind, &format!("{name} {from}"), &[input])
            }
        };
        let named = |name: &str| format!("{name} {from}");
        let after_two = if self.random.bool() { named("first") } else { from.to_owned() };
        GraphSpec {
            suppliers: vec![self.supplier(from, topics)],
            operators: vec![
                made("tag", "first", from, 0),
                made("tag", "one", &named("first"), 1),
                made("step", "two", &after_two, 2),
            ],
            consumers: vec![self.consumer(one, &named("one")), self.consumer(two, &named("two"))],
        }
    }

    /// Results of two topics, which may have to belong together, and of those with one of the topics again.
    fn joins(&mut self, topics: &[&TopicSpec; 2]) -> GraphSpec {
        let names = topics.map(|topic| topic.name.as_str());
        let mut joined = operator("mix", "join", &names);
        joined.violation = if self.random.bool() { Violation::Shed } else { Violation::Mark };
        if self.random.bool() {
            let (inputs, within) = (names.map(str::to_owned).into(), self.micros(0, 30_000));
            joined.sets = vec![RelativeSet { inputs, within }];
        }
        let mut any = operator("mix", "any", &["join", names[1]]);
        (any.join, any.keep) = (Join::Any, Keep::All(64));
        any.violation = if self.random.bool() { Violation::Shed } else { Violation::Mark };
        GraphSpec {
            suppliers: names.iter().map(|name| self.supplier(name, topics)).collect(),
            operators: vec![joined, any],
            consumers: vec![self.consumer("join/result", "join"), self.consumer("any/result", "any")],
        }
    }

    /// Short enough for one worker to be busy for less than half of the time.
    fn operator_cost(&mut self, publishers: &[PublisherSpec]) -> Latency {
        let topics = publishers.iter().flat_map(|publisher| &publisher.topics);
        let runs: f64 = topics.map(|topic| 5e9 / topic.contract.period.0 as f64).sum();
        let most = Span((0.4e9 / runs.max(1.0)) as i64).min(Span::millis(20));
        // Long runs are under way whenever something happens.
        let least = if self.random.bool() { most } else { Span(self.random.i64(1..=most.0.max(1))) };
        Latency { least, typical: least, most: most.max(least) }
    }

    /// Contracts of the topics whose publishers do not state them.
    fn rules(&mut self, publishers: &[PublisherSpec]) -> Vec<TopicRule> {
        let topics = publishers.iter().flat_map(|publisher| &publisher.topics).filter(|topic| !topic.stated);
        topics.filter_map(|topic| Some(TopicRule::new(topic.name.parse().ok()?, topic.contract))).collect()
    }

    fn limits(&mut self) -> Limits {
        let mut limits = Limits::default();
        if self.is_beyond() {
            if self.one_in(3) {
                limits.subscriber_backlog_bytes = self.random.usize(200..20_000);
                limits.deferred_per_subscriber = self.random.usize(1..50);
            }
            if self.one_in(4) {
                limits.jobs = self.random.usize(4..60);
            }
            if self.one_in(4) {
                limits.store_bytes = self.random.usize(20_000..400_000);
            }
            if self.one_in(6) {
                limits.streams = self.random.usize(1..8);
            }
            if self.one_in(8) {
                limits.sessions = self.random.usize(1..3);
            }
            if self.one_in(8) {
                limits.filters_per_session = 1;
            }
            if self.one_in(12) {
                limits.links = self.random.usize(2..8);
            }
            if self.one_in(4) {
                limits.ring_slots_max = self.random.usize(8..64);
            }
        }
        if self.one_in(3) {
            limits.sync_backlog_bytes = self.random.usize(100..5_000);
            // Brokers take no other configuration.
            limits.ring_slots_min = self.random.usize(2..16).min(limits.ring_slots_max);
        }
        if self.one_in(4) {
            limits.session_linger = self.millis(1_500, 6_000);
            limits.stream_linger = self.millis(1_500, 9_000);
        }
        limits
    }

    fn faults(&mut self, publishers: usize, subscribers: usize) -> Vec<Fault> {
        let mut faults = Vec::new();
        for _ in 0..self.random.usize(0..=4) {
            let when = if self.is_beyond() && !self.one_in(3) {
                When::At(self.millis(100, 4_000))
            } else {
                let most = self.pick(&[20_000, 300_000]);
                When::Settled(self.micros(0, most))
            };
            let act = self.act(publishers, subscribers);
            let hands_over = act == Act::Handover;
            faults.push(Fault { when, act });
            if hands_over && self.random.bool() {
                faults.push(self.death_after_handover());
            }
        }
        faults
    }

    /// Either broker dies while the reign is on its way from one to the other.
    fn death_after_handover(&mut self) -> Fault {
        let target = Target::Broker(self.random.usize(0..2));
        let most = self.pick(&[1_000, 1_000, 50_000]);
        let after = self.micros(0, most);
        let writes = if self.random.bool() {
            LastWrites::All
        } else {
            LastWrites::Some(self.random.u32(0..4), self.random.u32(0..=100))
        };
        let restart = Some(self.duration());
        let act = if self.one_in(4) {
            Act::HostCrash { target, restart }
        } else {
            Act::Crash { target, writes, restart }
        };
        Fault { when: When::After(after), act }
    }

    /// By how much somebody sets a clock, forward or back.
    fn clock_step(&mut self) -> Span {
        Span(self.random.i64(-5_000..=5_000) * 1_000_000)
    }

    fn duration(&mut self) -> Span {
        match self.random.u32(0..3) {
            0 => self.micros(0, 5_000),
            1 => self.millis(5, 100),
            _ => self.millis(100, 1_500),
        }
    }

    fn act(&mut self, publishers: usize, subscribers: usize) -> Act {
        let publisher = Target::Publisher(self.random.usize(0..publishers));
        let subscriber = Target::Subscriber(self.random.usize(0..subscribers));
        let client = if self.random.bool() { publisher } else { subscriber };
        let broker = self.pick(&[Target::Primary, Target::Primary, Target::Backup]);
        let span = self.duration();
        if self.far && self.one_in(3) {
            // What is on its way to somebody far away dies with the primary's host, and only copies cover it.
            return Act::HostCrash { target: Target::Primary, restart: Some(span) };
        }
        let kinds = if self.is_beyond() { 20 } else { 14 };
        match self.random.u32(0..kinds) {
            0..4 => {
                let writes = if self.random.bool() {
                    LastWrites::All
                } else {
                    LastWrites::Some(self.random.u32(0..4), self.random.u32(0..=100))
                };
                Act::Crash { target: broker, writes, restart: Some(span) }
            }
            4..6 => Act::HostCrash { target: broker, restart: Some(span) },
            6 => Act::Pause { target: broker, span },
            7 => Act::Partition {
                from: vec![Target::Primary],
                to: vec![Target::Backup],
                one_way: self.random.bool(),
                span,
            },
            8 | 9 => Act::Handover,
            10..13 => {
                let (delivers, half_open) = (self.random.bool(), self.random.bool());
                let (from, to) = self.pick(&[
                    (client, Target::Primary),
                    (client, Target::Backup),
                    (Target::Primary, Target::Backup),
                    (Target::Primary, subscriber),
                ]);
                Act::Break { from, to, delivers, half_open }
            }
            13 => {
                let target = self.pick(&[broker, Target::Backup, publisher, subscriber]);
                Act::ClockStep { target, by: self.clock_step() }
            }
            14 => Act::Partition { from: vec![client], to: vec![broker], one_way: self.random.bool(), span },
            15 => {
                let to = vec![Target::Primary, Target::Backup];
                Act::Partition { from: vec![client], to, one_way: self.random.bool(), span }
            }
            16 => Act::Pause { target: client, span: span * 5 },
            17 => Act::Slow { target: broker, times: self.random.u32(2..200), span },
            18 => Act::Crash { target: client, writes: LastWrites::All, restart: Some(span) },
            _ => Act::Partition {
                from: vec![Target::Primary],
                to: vec![Target::Backup, publisher, subscriber],
                one_way: self.random.bool(),
                span,
            },
        }
    }
}

fn is_step(fault: &Fault) -> bool {
    matches!(fault.act, Act::ClockStep { .. })
}

/// The contract of the topic that all publishers share.
fn shared_contract(delays: &Delays) -> Contract {
    let contract = Contract::every(Span::millis(60)).deadline(Span::millis(90)).tolerate(1);
    let least = contract::timing::smallest_retention(&contract, delays.publisher_to_broker, delays);
    contract.retain(least as u32)
}
