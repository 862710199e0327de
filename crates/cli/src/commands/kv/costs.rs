//! What a job of the store costs on this host, measured with the shipped core and all nodes in memory.

use contract::{Span, Time};
use kv::{Format, KeyId, Lane, LinkKey, Node, Setup, Start, Step, Vote};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Jobs that are measured; the longest counts, since bounds are wanted.
const JOBS: u64 = 40;
/// Jobs before that.
const WARM_UP: u64 = 5;
/// Nobody waits longer for it than this.
const PATIENCE: Duration = Duration::from_secs(5);

/// The processor time of one node's job in which every node writes so many values, and how many it wrote really.
pub fn job(setup: &Arc<Setup>, tuples: usize) -> (Span, usize) {
    let nodes = setup.nodes();
    let links = vec![LinkKey([7; 32]); nodes];
    let first = setup.first_release(Time(1_000_000_000_000));
    let lane = |me| Lane::new(setup.clone(), Node::at(me), &links, Start::Founding, first);
    let mut lanes: Vec<Lane> = (0..nodes).map(lane).collect();
    let mut frames = vec![Vec::new(); nodes];
    let (mut worst, mut written, mut release, since) = (Span::ZERO, 0, first, Instant::now());
    for job in 0..WARM_UP + JOBS {
        written = write(&mut lanes, release, tuples);
        let cost = one_job(&mut lanes, &mut frames, release);
        if job >= WARM_UP {
            worst = worst.max(cost);
            if since.elapsed() > PATIENCE {
                break;
            }
        }
        release = release + setup.period();
    }
    (worst, written)
}

/// Lets all nodes write as much as they may, up to so many values of the greatest length; how many node 0 has written.
fn write(lanes: &mut [Lane], release: Time, tuples: usize) -> usize {
    let setup = lanes[0].setup().clone();
    let stamp = release + setup.period();
    for lane in lanes.iter_mut() {
        for place in 0..tuples {
            let key = place % setup.keys();
            let format = setup.config().keys[key].vote.as_ref().and_then(Vote::format);
            let value = match format {
                None => vec![0x3f; setup.value_bytes_max()],
                Some(Format::Decimal) => b"1.5".to_vec(),
                Some(Format::F64 | Format::I64) => 1.5_f64.to_le_bytes().to_vec(),
            };
            // Keys that it may not write are left out.
            let _ = lane.write(KeyId(key as u16), &value, stamp, release - Span(1));
        }
    }
    lanes[0].waiting()
}

/// Lets all nodes do a job; what that of node 0 took.
fn one_job(lanes: &mut [Lane], frames: &mut [Vec<u8>], release: Time) -> Span {
    let setup = lanes[0].setup().clone();
    let mut took = Duration::ZERO;
    for (place, lane) in lanes.iter_mut().enumerate() {
        let begun = Instant::now();
        let _ = lane.begin(release, release);
        if place == 0 {
            took += begun.elapsed();
        }
    }
    for round in 1..=setup.rounds() {
        for to in 0..lanes.len() {
            for from in (0..lanes.len()).filter(|from| *from != to) {
                let begun = Instant::now();
                let frame = lanes[from].frame(Node::at(to));
                frames[from].clear();
                frames[from].extend_from_slice(&frame.head);
                frames[from].extend_from_slice(frame.body);
                took += if from == 0 { begun.elapsed() } else { Duration::ZERO };
                let begun = Instant::now();
                let _ = lanes[to].take(Node::at(from), &frames[from]);
                took += if to == 0 { begun.elapsed() } else { Duration::ZERO };
            }
        }
        let end = release + setup.round() * round as u64;
        for (place, lane) in lanes.iter_mut().enumerate() {
            let begun = Instant::now();
            let step = lane.step(end);
            took += if place == 0 { begun.elapsed() } else { Duration::ZERO };
            debug_assert!(matches!(step, Step::Send | Step::Over));
        }
    }
    for (place, lane) in lanes.iter_mut().enumerate() {
        let begun = Instant::now();
        lane.fuse();
        let _ = lane.publish(release, &mut ());
        took += if place == 0 { begun.elapsed() } else { Duration::ZERO };
    }
    Span(i64::try_from(took.as_nanos()).unwrap_or(i64::MAX))
}
