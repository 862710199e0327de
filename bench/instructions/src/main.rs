//! One fixed scenario of the shipped code, in memory: no socket, no clock, no chance. `bench/instructions.py` runs it under
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

/// Makes a scenario ready for so many batches.
type Prepare = fn(u64) -> Box<dyn Scenario>;

const SCENARIOS: [(&str, Prepare); 8] = [
    ("decode", |batches| Box::new(decode::Frames::new(batches))),
    ("one-to-one", |batches| Box::new(native::Flow::new(batches, 1, false))),
    ("fan-out", |batches| Box::new(native::Flow::new(batches, 10, false))),
    ("replicated", |batches| Box::new(native::Flow::new(batches, 1, true))),
    ("many-streams", |batches| Box::new(native::ManyStreams::new(batches))),
    ("mqtt-qos0", |batches| Box::new(gateway::Flow::new(batches, mqtt::testing::QoS::AtMostOnce, 1))),
    ("mqtt-qos1", |batches| Box::new(gateway::Flow::new(batches, mqtt::testing::QoS::AtLeastOnce, 1))),
    ("mqtt-fan-out", |batches| Box::new(gateway::Flow::new(batches, mqtt::testing::QoS::AtMostOnce, 10))),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if words == ["list"] {
        SCENARIOS.iter().for_each(|(name, _)| println!("{name}"));
        return ExitCode::SUCCESS;
    }
    let pause = match words.split_first() {
        Some((&"time", rest)) if rest.len() == 3 => rest[2].parse().ok().map(Duration::from_micros),
        _ => None,
    };
    let words = if pause.is_some() { &words[1..3] } else { &words };
    match order(words) {
        Ok((prepare, batches)) => {
            let mut scenario = prepare(WARM_UP + batches);
            (0..WARM_UP).for_each(|_| scenario.carry());
            match pause {
                Some(pause) => timed(&mut *scenario, batches, pause),
                None => measured(&mut *scenario, batches),
            }
            scenario.check((WARM_UP + batches) * BATCH);
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprintln!("{text}");
            ExitCode::from(2)
        }
    }
}

/// The scenario and the batches that were asked for.
fn order(words: &[&str]) -> Result<(Prepare, u64), String> {
    let &[name, messages] = words else {
        return Err("say `list`, a scenario and a number of messages (`one-to-one 20000`), or `time`, these and a pause in \
                    microseconds (`time one-to-one 20000 370`)"
            .to_owned());
    };
    let Some((_, prepare)) = SCENARIOS.iter().find(|(known, _)| *known == name) else {
        return Err(format!("there is no scenario `{name}`; `list` names them"));
    };
    match messages.parse() {
        Ok(messages) if (BATCH..=MESSAGES_MAX).contains(&messages) && messages % BATCH == 0 => {
            Ok((*prepare, messages / BATCH))
        }
        _ => Err(format!(
            "`{messages}` is no number of messages: a multiple of {BATCH}, at most {MESSAGES_MAX}"
        )),
    }
}

/// What is counted. Its name is known to `bench/instructions.py`.
#[inline(never)]
fn measured(scenario: &mut dyn Scenario, batches: u64) {
    for _ in 0..batches {
        scenario.carry();
    }
}

/// Says what share of the batches took how long.
fn timed(scenario: &mut dyn Scenario, batches: u64, pause: Duration) {
    let mut took: Vec<u128> = (0..batches)
        .map(|_| {
            if !pause.is_zero() {
                std::thread::sleep(pause);
            }
            let from = Instant::now();
            scenario.carry();
            from.elapsed().as_nanos() / u128::from(BATCH)
        })
        .collect();
    took.sort_unstable();
    let at = |percent| took[took.len() * percent / 100];
    println!("ns a message: p10 {}, p50 {}, p90 {}", at(10), at(50), at(90));
}
