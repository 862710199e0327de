//! Jobs of the shipped core on virtual time, over links with a bandwidth and a latency: what the rounds cost a network, and nothing else.
//! Processors take no time here.
//!
//! All nodes are on one switch. A node's frames leave one after the other as fast as its link goes; the switch has each as a whole before it
//! sends it on, and the link to the receiver carries one frame at a time. Bytes have the overhead of TCP over Ethernet.

use crate::Outcome;
use crate::arguments::Links;
use crate::workload::{Workload, expected};
use contract::{Span, Time};
use kv::{Config, Key, KeyId, Lane, LinkKey, Node, Setup, Start, Step};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// 1460 bytes of a segment take so many on the wire: heads of TCP, IP and Ethernet, preamble, check sum and gap.
const SEGMENT: u64 = 1460;
const SEGMENT_ON_WIRE: u64 = 1538;
/// What its tasks take before a job, as In-ConcReTeS has it for four of them.
const OFFSET: Span = Span::millis(4);

/// What came of one job in which every node writes every key.
#[derive(Serialize)]
pub struct Report {
    nodes: usize,
    faults: usize,
    keys: usize,
    megabits: u64,
    /// From the release until the last node has all it needs.
    coordination_ms: f64,
    round_ms: f64,
    /// What a node sends in a job, frames as they are.
    bytes: u64,
    /// Whether all nodes have heard all others in all rounds.
    complete: bool,
    /// Values that the node with the fewest has published.
    published: u32,
}

/// Nodes, the times at which their links are free, and what happens when.
struct World {
    lanes: Vec<Lane>,
    plan: Ways,
    agenda: BTreeMap<(Time, u64), Event>,
    count: u64,
    bytes: u64,
    over: Vec<Option<Time>>,
}

/// When links are free again.
struct Ways {
    up: Vec<Time>,
    down: Vec<Time>,
    bytes_per_second: u64,
    latency: Span,
}

enum Event {
    /// A frame is with the switch.
    Switched { from: usize, to: usize, frame: Vec<u8> },
    /// A frame has come.
    Come { from: usize, to: usize, frame: Vec<u8> },
    /// A round ends at the latest.
    Due(usize),
}

pub fn run(plan: &Links) -> Outcome<Report> {
    let setup = setup(plan)?;
    let release = setup.first_release(Time(1_000_000_000_000));
    let links = vec![LinkKey([7; 32]); plan.nodes];
    let lane = |me| Lane::new(setup.clone(), Node::at(me), &links, Start::Founding, release);
    let ways = Ways {
        up: vec![release; plan.nodes],
        down: vec![release; plan.nodes],
        bytes_per_second: plan.megabits.max(1) * 125_000,
        latency: plan.latency,
    };
    let lanes = (0..plan.nodes).map(lane).collect();
    let mut world = World {
        lanes,
        plan: ways,
        agenda: BTreeMap::new(),
        count: 0,
        bytes: 0,
        over: vec![None; plan.nodes],
    };
    world.write(&setup, release)?;
    for node in 0..plan.nodes {
        world.lanes[node].begin(release, release)?;
        world.send(node, release);
        world.step(node, release);
    }
    while let Some(((now, _), event)) = world.agenda.pop_first() {
        world.handle(now, event);
    }
    let end = world.over.iter().flatten().max().copied().unwrap_or(release);
    let outcomes =
        world.lanes.iter_mut().zip(&world.over).filter(|(_, over)| over.is_some()).map(|(lane, _)| {
            lane.fuse();
            lane.publish(end, &mut ())
        });
    let outcomes: Vec<_> = outcomes.collect();
    Ok(Report {
        nodes: plan.nodes,
        faults: plan.faults,
        keys: plan.keys,
        megabits: plan.megabits,
        coordination_ms: end.since(release).as_millis_f64(),
        round_ms: setup.round().as_millis_f64(),
        bytes: world.bytes / plan.nodes as u64,
        complete: outcomes.len() == plan.nodes && outcomes.iter().all(|outcome| outcome.silent.is_empty()),
        published: outcomes.iter().map(|outcome| outcome.published).min().unwrap_or(0),
    })
}

fn setup(plan: &Links) -> Outcome<Arc<Setup>> {
    let config = Config {
        nodes: (0..plan.nodes).map(|node| format!("n{node}")).collect(),
        faults: plan.faults,
        keys: (0..plan.keys).map(|at| Key::named(&format!("k/{at}"))).collect(),
        period: plan.period,
        offset: OFFSET,
        tree_bytes_max: 1 << 30,
        ..Config::default()
    };
    Setup::new(config).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        problems.join("; ").into()
    })
}

impl World {
    /// The uniform load: every node writes every key.
    fn write(&mut self, setup: &Setup, release: Time) -> Outcome<()> {
        let workload = Workload::uniform(setup.keys(), setup.period());
        let stamp = release + setup.period() - OFFSET;
        for (at, key) in workload.keys.iter().enumerate() {
            let value = expected(at, key, stamp);
            for lane in &mut self.lanes {
                lane.write(KeyId(at as u16), value.as_bytes(), stamp, release - Span(1))?;
            }
        }
        Ok(())
    }

    fn send(&mut self, from: usize, now: Time) {
        // In the order of `kv-host`: each begins with the one after it.
        let nodes = self.lanes.len();
        for to in (1..nodes).map(|step| (from + step) % nodes) {
            let frame = self.lanes[from].frame(Node::at(to));
            let frame = [&frame.head[..], frame.body].concat();
            self.bytes += frame.len() as u64;
            let left = self.plan.carry(Way::Up, from, now, frame.len());
            self.later(left, Event::Switched { from, to, frame });
        }
    }

    /// Ends a round if that may be, and begins the next.
    fn step(&mut self, node: usize, now: Time) {
        loop {
            match self.lanes[node].step(now) {
                Step::Send => self.send(node, now),
                Step::Wait { until, .. } => return self.later(until, Event::Due(node)),
                Step::Over => {
                    self.over[node].get_or_insert(now);
                    return;
                }
                Step::Idle => return,
            }
        }
    }

    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Switched { from, to, frame } => {
                let come = self.plan.carry(Way::Down, to, now, frame.len()) + self.plan.latency;
                self.later(come, Event::Come { from, to, frame });
            }
            Event::Come { from, to, frame } => {
                // One that is too late is dropped, and its sender silent.
                let _ = self.lanes[to].take(Node::at(from), &frame);
                if self.over[to].is_none() {
                    self.step(to, now);
                }
            }
            Event::Due(node) => {
                // The time may be that of a round that has ended since.
                if self.over[node].is_none() && matches!(self.lanes[node].step(now), Step::Send) {
                    self.send(node, now);
                    self.step(node, now);
                } else if self.over[node].is_none() && matches!(self.lanes[node].step(now), Step::Over) {
                    self.over[node] = Some(now);
                }
            }
        }
    }

    fn later(&mut self, at: Time, event: Event) {
        self.count += 1;
        self.agenda.insert((at, self.count), event);
    }
}

/// From a node, or to it.
#[derive(Clone, Copy)]
enum Way {
    Up,
    Down,
}

impl Ways {
    /// When the last byte is through.
    fn carry(&mut self, way: Way, node: usize, now: Time, bytes: usize) -> Time {
        let free = match way {
            Way::Up => &mut self.up[node],
            Way::Down => &mut self.down[node],
        };
        let on_wire = bytes as u64 + (bytes as u64).div_ceil(SEGMENT) * (SEGMENT_ON_WIRE - SEGMENT);
        let takes = Span((on_wire as i64).saturating_mul(1_000_000_000) / self.bytes_per_second as i64);
        *free = (*free).max(now) + takes;
        *free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(keys: usize, megabits: u64) -> Links {
        Links { nodes: 4, faults: 1, keys, period: Span::millis(50), megabits, latency: Span::micros(200) }
    }

    #[test]
    fn a_job_takes_what_its_bytes_and_its_rounds_take() {
        let report = run(&plan(100, 100)).expect("it runs");
        assert!(report.complete && report.published == 100);
        // Both rounds carry all bytes over the sender's link, a last frame over the receiver's, and have one latency each.
        let sent = report.bytes as f64 * 8.0 / 100e6 * 1e3;
        assert!(report.coordination_ms > sent + 0.4, "{} ms, {sent} ms", report.coordination_ms);
        assert!(
            report.coordination_ms < sent * 4.0 / 3.0 * 1.1 + 0.4,
            "{} ms, {sent} ms",
            report.coordination_ms
        );
        let faster = run(&plan(100, 1000)).expect("it runs");
        assert!(faster.bytes == report.bytes && faster.coordination_ms < report.coordination_ms / 2.0);
    }

    #[test]
    fn where_rounds_are_too_short_for_the_bytes_nothing_is_agreed_on() {
        let report = run(&plan(5000, 10)).expect("it runs");
        assert!(!report.complete && report.published < 5000);
        // K5: it ends in time all the same.
        assert!(report.coordination_ms <= report.round_ms * 2.0);
    }
}
