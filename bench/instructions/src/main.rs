//! One fixed scenario of the shipped code, in memory: no socket, no clock, no chance. `bench/instructions/gate.py` runs it under
//! callgrind, which counts the instructions of [`measured`] and nothing else.
//!
//! What arrives is encoded before that, and the first messages, while buffers still grow, are not counted. What is counted is
//! what a node does from bytes to bytes; the calls to the kernel around it are not there.
//!
//! `time SCENARIO MESSAGES PAUSE_US` tells how long a batch takes instead, with a pause before each: after one, neither
//! code nor data are where the processor finds them at once. Instructions do not say that.

mod decode;
mod gateway;
mod native;
mod node;
mod workload;

use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Messages that arrive with one read.
const BATCH: u64 = 16;
/// Batches before anything is counted: more messages than any ring of a scenario has slots.
const WARM_UP: u64 = 256;
/// More would wrap the packet identifiers of MQTT, and nothing is gained by it.
const MESSAGES_MAX: u64 = 60_000 - WARM_UP * BATCH;

/// Work of which every batch costs the same.
trait Scenario {
    /// Carries the next batch of those that were prepared.
    fn carry(&mut self);

    /// Asserts that so many messages went the way that the scenario's name says.
    fn check(&mut self, messages: u64);
}

/// A scenario by its name.
struct Kind {
    name: &'static str,
    /// Messages that arrive with one read.
    batch: u64,
    /// Batches before anything is counted.
    warm_up: u64,
    /// Makes it ready for so many batches.
    prepare: fn(u64) -> Box<dyn Scenario>,
}

impl Kind {
    const fn new(name: &'static str, prepare: fn(u64) -> Box<dyn Scenario>) -> Kind {
        Kind { name, batch: BATCH, warm_up: WARM_UP, prepare }
    }
}

const SCENARIOS: [Kind; 9] = [
    Kind::new("decode", |batches| Box::new(decode::Frames::new(batches))),
    Kind::new("one-to-one", |batches| Box::new(native::Flow::new(batches, 1, false))),
    Kind::new("fan-out", |batches| Box::new(native::Flow::new(batches, 10, false))),
    Kind::new("replicated", |batches| Box::new(native::Flow::new(batches, 1, true))),
    Kind::new("many-streams", |batches| Box::new(native::ManyStreams::new(batches))),
    Kind {
        batch: workload::BATCH,
        warm_up: workload::WARM_UP,
        ..Kind::new("workload", |batches| Box::new(workload::Workload::new(batches)))
    },
    Kind::new("mqtt-qos0", |batches| {
        Box::new(gateway::Flow::new(batches, mqtt::testing::QoS::AtMostOnce, 1))
    }),
    Kind::new("mqtt-qos1", |batches| {
        Box::new(gateway::Flow::new(batches, mqtt::testing::QoS::AtLeastOnce, 1))
    }),
    Kind::new("mqtt-fan-out", |batches| {
        Box::new(gateway::Flow::new(batches, mqtt::testing::QoS::AtMostOnce, 10))
    }),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if words == ["list"] {
        SCENARIOS.iter().for_each(|kind| println!("{}", kind.name));
        return ExitCode::SUCCESS;
    }
    let pause = match words.split_first() {
        Some((&"time", rest)) if rest.len() == 3 => rest[2].parse().ok().map(Duration::from_micros),
        _ => None,
    };
    let words = if pause.is_some() { &words[1..3] } else { &words };
    match order(words) {
        Ok((kind, batches)) => {
            let all = kind.warm_up + batches;
            let mut scenario = (kind.prepare)(all);
            (0..kind.warm_up).for_each(|_| scenario.carry());
            match pause {
                Some(pause) => timed(&mut *scenario, batches, kind.batch, pause),
                None => measured(&mut *scenario, batches),
            }
            scenario.check(all * kind.batch);
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprintln!("{text}");
            ExitCode::from(2)
        }
    }
}

/// The scenario and the batches that were asked for.
fn order(words: &[&str]) -> Result<(&'static Kind, u64), String> {
    let &[name, messages] = words else {
        return Err("say `list`, a scenario and a number of messages (`one-to-one 20000`), or `time`, these and a pause in \
                    microseconds (`time one-to-one 20000 370`)"
            .to_owned());
    };
    let Some(kind) = SCENARIOS.iter().find(|kind| kind.name == name) else {
        return Err(format!("there is no scenario `{name}`; `list` names them"));
    };
    let batch = kind.batch;
    match messages.parse() {
        Ok(messages) if (batch..=MESSAGES_MAX).contains(&messages) && messages % batch == 0 => {
            Ok((kind, messages / batch))
        }
        _ => Err(format!(
            "`{messages}` is no number of messages: a multiple of {batch}, at most {MESSAGES_MAX}"
        )),
    }
}

/// What is counted. Its name is known to `bench/instructions/gate.py`.
#[inline(never)]
fn measured(scenario: &mut dyn Scenario, batches: u64) {
    for _ in 0..batches {
        scenario.carry();
    }
}

/// Says what share of the batches took how long.
fn timed(scenario: &mut dyn Scenario, batches: u64, batch: u64, pause: Duration) {
    let mut took: Vec<u128> = (0..batches)
        .map(|_| {
            if !pause.is_zero() {
                std::thread::sleep(pause);
            }
            let from = Instant::now();
            scenario.carry();
            from.elapsed().as_nanos() / u128::from(batch)
        })
        .collect();
    took.sort_unstable();
    let at = |percent| took[took.len() * percent / 100];
    println!("ns a message: p10 {}, p50 {}, p90 {}", at(10), at(50), at(90));
}
