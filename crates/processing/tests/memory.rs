//! What operators remember survives: a run that goes on elsewhere from a picture has the results of one that was never interrupted.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use contract::{Receipt, Span, StreamId, Ticket, Time};
use processing::{
    BuiltIn, ConsumerSpec, Crew, Event, Fault, GraphSpec, Join, Keep, Level, LevelQueue, Number,
    OperatorSpec, Outlet, Parameters, Place, Product, Results, Route, Router, Station, Stats, Streams,
    SupplierSpec, Supply, Value, Violation,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Runs one step at a time.
#[derive(Default)]
struct Queue {
    level: LevelQueue,
    products: Vec<Product>,
}

struct Sink<'a>(&'a mut Vec<Product>);

impl Results for Sink<'_> {
    fn result(&mut self, outlet: Outlet, event: Event) {
        self.0.push(Product::Result(outlet, event));
    }
    fn fault(&mut self, operator: &Arc<str>, _stats: &Arc<Stats>, fault: &Fault) {
        panic!("{operator}: {fault}");
    }
}

impl Crew for Queue {
    fn add(&mut self, station: Box<Station>) {
        self.level.add(station);
    }
    fn remove(&mut self, place: Place) {
        self.level.remove(place);
    }
    fn offer(&mut self, route: Route, event: Event) -> bool {
        self.level.offer(route, event);
        true
    }
    fn save(&mut self, place: Place, ticket: u32) {
        let memory = self.level.begin_save(place).and_then(|mut save| {
            save.work();
            self.level.end_save(save)
        });
        self.products.push(Product::Saved { place, ticket, memory });
    }
    fn restore(&mut self, place: Place, memory: Vec<u8>, streams: Streams) {
        self.level.restore(place, &memory, &streams, &mut Sink(&mut self.products));
    }
    fn collect(&mut self) -> Option<Product> {
        (!self.products.is_empty()).then(|| self.products.remove(0))
    }
    fn is_idle(&self) -> bool {
        !self.level.is_ready() && self.products.is_empty()
    }
}

/// By output and number.
type Got = BTreeMap<(String, u32, u64), Vec<u8>>;

/// A broker's operators.
struct Side {
    router: Router,
    queue: Queue,
    now: Time,
    handles: [u32; 2],
    /// Its number for the first of both streams.
    base: u32,
    got: Got,
    pictures: BTreeMap<Arc<str>, Vec<u8>>,
    settled: BTreeSet<u32>,
}

const TOPICS: [&str; 2] = ["a", "b"];

fn spec() -> GraphSpec {
    let supplier = |name: &str| SupplierSpec {
        name: name.to_owned(),
        payload: "f64".parse().unwrap(),
        validity: Span::FOREVER,
        period: Span::millis(10),
    };
    let operator = |name: &str, kind: &str, inputs: &[&str], parameters: &[(&str, Value)]| OperatorSpec {
        name: name.to_owned(),
        kind: kind.to_owned(),
        parameters: parameters
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect::<Parameters>(),
        inputs: inputs.iter().map(|input| (*input).to_owned()).collect(),
        join: Join::All,
        violation: Violation::Mark,
        sets: Vec::new(),
        keep: Keep::All(64),
        cost: None,
    };
    let consumer = |from: &str| ConsumerSpec {
        name: format!("out/{from}"),
        from: from.to_owned(),
        level: Level(0),
        deadline: Span::FOREVER,
    };
    let operators = vec![
        operator("mean", "average", &["a"], &[("window", Value::Number(5.0))]),
        operator(
            "alarm",
            "threshold",
            &["mean"],
            &[("above", Value::Number(50.0)), ("clear", Value::Number(30.0))],
        ),
        operator("both", "join", &["mean", "b"], &[]),
        operator("peak", "max", &["both"], &[("window", Value::Number(3.0))]),
        operator("band", "deadband", &["b"], &[("absolute", Value::Number(20.0))]),
        operator(
            "grid",
            "resample",
            &["a"],
            &[("every", Value::Span(Span(3))), ("method", Value::Text("linear".to_owned()))],
        ),
        operator("lines", "fft", &["a"], &[("size", Value::Number(8.0))]),
        operator(
            "state",
            "ekf",
            &["b"],
            &[
                ("model", Value::Text("constant-velocity".to_owned())),
                ("axes", Value::Number(1.0)),
                ("process", Value::Number(1.0)),
                ("noise", Value::Number(4.0)),
            ],
        ),
    ];
    let consumers = operators.iter().map(|operator| consumer(&operator.name)).collect();
    GraphSpec { suppliers: TOPICS.map(supplier).to_vec(), operators, consumers }
}

impl Side {
    fn new(base: u32, kept: bool) -> Side {
        let mut router = Router::new(Arc::new(BuiltIn), 1, 1_000);
        router.change(spec().components()).unwrap();
        router.set_interval(Span::ZERO);
        let mut queue = Queue::default();
        let handles = TOPICS.map(|topic| router.bind(topic, &mut queue).unwrap().handle);
        router.want_pictures(kept, &mut queue);
        if kept {
            router.retake_pictures();
        }
        let (got, pictures, settled) = (Got::new(), BTreeMap::new(), BTreeSet::new());
        Side { router, queue, now: Time(1_000_000), handles, base, got, pictures, settled }
    }

    fn supply(&mut self, index: u32, topic: usize, seq: u64, reading: f64) {
        let receipt = Receipt { stream: StreamId(topic as u32), ticket: Ticket(index), round: 0 };
        let number = Number { stream: StreamId(self.base + topic as u32), incarnation: 5, seq };
        let created = Time(1_000_000 + u64::from(index) * 7);
        let message = Supply { receipt, number, created, payload: &reading.to_le_bytes() };
        assert!(self.router.supply(self.handles[topic], &message, &mut self.queue));
    }

    /// One step. `false`: nothing is left.
    fn step(&mut self) -> bool {
        let Some(mut run) = self.queue.level.begin(self.now) else { return false };
        let outcome = run.work();
        self.queue.level.end(self.now, run, &outcome, &mut Sink(&mut self.queue.products));
        true
    }

    /// What the data thread does in a turn.
    fn turn(&mut self) {
        self.now = self.now + Span(1);
        while let Some(kept) = self.router.next_kept() {
            self.pictures.insert(kept.instance, kept.picture);
        }
        while let Some(product) = self.queue.collect() {
            match product {
                Product::Result(outlet, event) => {
                    let topic = self.router.output(outlet.output).unwrap().topic.clone();
                    let key = (topic, event.number.stream.0 - self.base, event.number.seq);
                    let before = self.got.insert(key.clone(), event.payload.clone());
                    assert!(before.is_none(), "{key:?} came twice");
                }
                Product::Saved { place, ticket, memory } => {
                    self.router.saved(place, ticket, memory, &mut self.queue);
                }
                Product::Fault { fault, .. } => panic!("{fault}"),
                Product::Overran { .. } => panic!("nobody has said how long a run takes"),
            }
        }
        self.router.tend_pictures(self.now, &mut self.queue);
        assert_eq!(self.router.next_unkept(), None);
        while let Some(receipt) = self.router.processed() {
            assert!(self.settled.insert(receipt.ticket.0), "{receipt:?} twice");
        }
    }

    fn finish(&mut self) {
        for _ in 0..20 {
            while self.step() {}
            self.turn();
        }
    }
}

proptest! {
    #[test]
    fn a_run_that_goes_on_elsewhere_has_the_results_of_one_that_was_never_interrupted(
        messages in prop::collection::vec((0_usize..2, -100_i32..100), 1..120),
        crash in 0_usize..120,
        steps in prop::collection::vec((0_usize..4, any::<bool>()), 120),
        again in 0_usize..10,
    ) {
        let mut seqs = [0, 0];
        let messages: Vec<(usize, u64, f64)> = messages
            .iter()
            .map(|(topic, reading)| {
                seqs[*topic] += 1;
                (*topic, seqs[*topic] - 1, f64::from(*reading) * 1.1)
            })
            .collect();
        let mut whole = Side::new(0, false);
        for (index, (topic, seq, reading)) in (0..).zip(&messages) {
            whole.supply(index, *topic, *seq, *reading);
            whole.finish();
        }
        prop_assert_eq!(whole.router.under_way(), waiting(&messages));
        let (crash, mut first) = (crash.min(messages.len()), Side::new(0, true));
        for (index, (topic, seq, reading)) in (0..crash as u32).zip(&messages) {
            first.supply(index, *topic, *seq, *reading);
            let (runs, turn) = steps[index as usize];
            (0..runs).for_each(|_| _ = first.step());
            if turn {
                first.turn();
            }
        }
        let mut second = Side::new(30, false);
        for (instance, picture) in &first.pictures {
            prop_assert!(second.router.recall(Time(7), instance, picture, &|stream| Some(StreamId(stream + 30)), &mut second.queue));
        }
        // What was not settled comes again, with some of what was.
        for (index, (topic, seq, reading)) in (0..).zip(&messages) {
            if !first.settled.contains(&index) || index as usize + again >= crash {
                second.supply(index, *topic, *seq, *reading);
                if index % 3 == 0 {
                    second.finish();
                }
            }
        }
        second.finish();
        for (key, payload) in &second.got {
            if let Some(before) = first.got.get(key) {
                prop_assert_eq!(before, payload, "{:?} is another the second time", key);
            }
        }
        let mut all = first.got;
        all.extend(second.got);
        prop_assert_eq!(all, whole.got);
    }
}

/// Messages that wait for a partner.
fn waiting(messages: &[(usize, u64, f64)]) -> usize {
    let count = |topic: usize| messages.iter().filter(|message| message.0 == topic).count();
    count(0).abs_diff(count(1))
}

#[test]
fn without_pictures_messages_are_settled_at_once_and_with_them_when_one_has_been_handed_out() {
    let mut alone = Side::new(0, false);
    alone.supply(0, 0, 0, 1.0);
    alone.supply(1, 1, 0, 1.0);
    (0..20).for_each(|_| _ = alone.step());
    alone.turn();
    assert_eq!(alone.settled.len(), 2);
    let mut kept = Side::new(0, true);
    kept.supply(0, 0, 0, 1.0);
    kept.supply(1, 1, 0, 1.0);
    (0..20).for_each(|_| _ = kept.step());
    kept.turn();
    assert_eq!((kept.settled.len(), kept.pictures.len()), (0, 0), "the results have just been published");
    kept.finish();
    assert_eq!((kept.settled.len(), kept.pictures.len()), (2, 1));
    kept.supply(2, 0, 1, 1.0);
    kept.supply(3, 1, 1, 1.0);
    (0..20).for_each(|_| _ = kept.step());
    kept.turn();
    kept.router.want_pictures(false, &mut kept.queue);
    kept.turn();
    assert_eq!(kept.settled.len(), 4, "nobody is there any more who keeps pictures");
}

#[test]
fn a_picture_of_another_graph_or_of_nothing_is_not_taken() {
    let mut kept = Side::new(0, true);
    kept.supply(0, 0, 0, 1.0);
    kept.finish();
    let (instance, picture) = kept.pictures.pop_first().unwrap();
    let mut other = Side::new(0, false);
    assert!(!other.router.recall(
        Time(7),
        &instance,
        &picture[1..],
        &|stream| Some(StreamId(stream)),
        &mut other.queue
    ));
    let mut changed = picture.clone();
    changed[0] ^= 1;
    // It may be one of the graphs that the other broker has read already: it waits for those.
    assert!(other.router.recall(
        Time(7),
        &instance,
        &changed,
        &|stream| Some(StreamId(stream)),
        &mut other.queue
    ));
    other.supply(0, 0, 0, 1.0);
    other.finish();
    assert!(other.got.keys().any(|(topic, ..)| topic == "out/mean"), "and this instance was not touched");
    let mut other = Side::new(0, false);
    assert!(other.router.recall(
        Time(7),
        &instance,
        &picture,
        &|stream| Some(StreamId(stream)),
        &mut other.queue
    ));
}

#[test]
fn what_is_remembered_goes_on_after_graphs_have_changed() {
    let more = || {
        let mut more = spec();
        let extra =
            OperatorSpec { name: "least".to_owned(), kind: "min".to_owned(), ..more.operators[0].clone() };
        more.consumers.push(ConsumerSpec {
            name: "out/least".to_owned(),
            from: "least".to_owned(),
            level: Level(0),
            deadline: Span::FOREVER,
        });
        more.operators.push(extra);
        more.components()
    };
    let change = |side: &mut Side| {
        side.router.change(more()).unwrap();
        // As a broker does it: what is new is bound before what was is unbound.
        for (topic, handle) in TOPICS.iter().zip(&mut side.handles) {
            let before = std::mem::replace(handle, side.router.bind(topic, &mut side.queue).unwrap().handle);
            side.router.unbind(before, &mut side.queue);
        }
    };
    let (mut first, mut second) = (Side::new(0, true), Side::new(0, false));
    change(&mut first);
    change(&mut second);
    for seq in 0..3 {
        first.supply(seq, 0, seq.into(), f64::from(seq));
        first.finish();
    }
    assert!(!first.pictures.is_empty());
    for (instance, picture) in &first.pictures {
        assert!(second.router.recall(
            Time(7),
            instance,
            picture,
            &|stream| Some(StreamId(stream)),
            &mut second.queue
        ));
    }
    first.supply(3, 0, 3, 3.0);
    first.finish();
    second.supply(3, 0, 3, 3.0);
    second.finish();
    let mean = ("out/mean".to_owned(), 0, 3);
    assert_eq!(second.got.get(&mean), Some(&1.5_f64.to_le_bytes().to_vec()));
    assert_eq!(second.got.get(&mean), first.got.get(&mean));
}

#[test]
fn who_has_just_come_waits_for_instances_that_are_still_to_go_back() {
    let mut side = Side::new(0, true);
    side.supply(0, 0, 0, 1.0);
    side.finish();
    side.supply(1, 0, 1, 2.0);
    let mut run = side.queue.level.begin(side.now).unwrap();
    // The reign is given away while something moves, and comes back.
    side.router.want_pictures(false, &mut side.queue);
    side.router.step_down(side.now, &mut side.queue);
    side.supply(2, 0, 1, 2.0);
    side.supply(3, 0, 2, 3.0);
    side.pictures.clear();
    side.router.want_pictures(true, &mut side.queue);
    side.turn();
    assert!(!side.router.is_kept() && side.pictures.is_empty(), "whoever has come understands none yet");
    side.router.retake_pictures();
    assert!(!side.router.is_kept(), "nobody has a picture yet");
    let outcome = run.work();
    side.queue.level.end(side.now, run, &outcome, &mut Sink(&mut side.queue.products));
    while side.step() {}
    side.turn();
    // What is made again is made twice.
    side.got.clear();
    side.finish();
    assert!(side.router.is_kept());
    let (instance, picture) =
        side.pictures.pop_last().expect("the first, without a message that would have asked for it");
    let mut other = Side::new(0, false);
    assert!(other.router.recall(
        Time(7),
        &instance,
        &picture,
        &|stream| Some(StreamId(stream)),
        &mut other.queue
    ));
    for seq in 1..4 {
        other.supply(seq, 0, seq.into(), f64::from(seq) + 1.0);
        other.finish();
    }
    let means: Vec<u64> = other.got.keys().filter(|key| key.0 == "out/mean").map(|key| key.2).collect();
    assert_eq!(means, [3], "the picture has the others");
    assert_eq!(other.got[&("out/mean".to_owned(), 0, 3)], 2.5_f64.to_le_bytes());
}

#[test]
fn nobody_waits_for_an_instance_that_has_ended() {
    let mut side = Side::new(0, true);
    side.supply(0, 0, 0, 1.0);
    side.finish();
    side.router.retake_pictures();
    assert!(!side.router.is_kept());
    side.handles.iter().for_each(|handle| side.router.unbind(*handle, &mut side.queue));
    assert!(side.router.is_kept());
}
