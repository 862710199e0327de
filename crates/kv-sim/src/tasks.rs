//! What tasks write, and with which freshness they read: a pure function of the seed, so that replicas write the same.

use crate::happening::Place;
use crate::part::Write;
use crate::scenario::{KeyKind, Scenario};
use contract::{Span, Time};
use kv::{KeyId, Node};
use simulation::hash;

/// The value of a key at an instant: the same at all nodes, or near it where numbers are voted on.
pub(crate) fn value(
    scenario: &Scenario,
    seed: u64,
    key: usize,
    node: usize,
    stamp: Time,
    early: bool,
) -> Vec<u8> {
    let number = (stamp.0 / scenario.period.0 as u64 % 10_000) as f64;
    if scenario.keys.get(key).is_some_and(|spec| spec.kind != KeyKind::Majority) {
        return (number + node as f64 / 4.0).to_le_bytes().to_vec();
    }
    let random = hash::number(hash::number(seed, key as u64 * 2 + u64::from(early)), stamp.0);
    let bytes = [random.to_le_bytes(), stamp.0.to_le_bytes()].concat();
    bytes[..1 + random as usize % Scenario::VALUE_BYTES_MAX].to_vec()
}

/// What a task writes in the period that begins at `release`, by the rules I3 and I4, and now and then something that must be refused.
pub(crate) fn writes(
    scenario: &Scenario,
    seed: u64,
    (task, at): (usize, Place),
    release: Time,
    now: Time,
    random: &mut fastrand::Rng,
) -> Vec<Write> {
    let Place { lane, node } = at;
    // As soon as the next job may carry it, and sooner than it can.
    let early = release + scenario.offset_of(lane) + Span(1);
    let mut all = Vec::new();
    let period = scenario.period * scenario.tasks[task].periods;
    for (key, spec) in scenario.keys.iter().enumerate().filter(|(_, spec)| spec.task == task) {
        let writers = spec.writers.unwrap_or(kv::NodeSet::all(scenario.nodes));
        if !writers.contains(Node::at(node)) {
            continue;
        }
        let mut write = |publishing, early| {
            let value = value(scenario, seed, key, node, publishing, early);
            all.push(Write { key: KeyId(key as u16), value, publishing });
        };
        if spec.twice {
            write(release + period + period, true);
        }
        write(release + period, false);
    }
    if random.u8(..6) == 0 {
        let publishing = match random.u8(..5) {
            0 => now,
            1 => now + Span(random.i64(-scenario.period.0..=0)),
            2 => release + scenario.period * 400,
            3 => early + Span(random.i64(0..=1)),
            _ => release + scenario.period,
        };
        let key = KeyId(random.u16(..=scenario.keys.len() as u16));
        let value = vec![1; random.usize(..=Scenario::VALUE_BYTES_MAX + 1)];
        all.insert(random.usize(..=all.len()), Write { key, value, publishing });
    }
    all
}
