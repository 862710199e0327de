//! How long a read from shared memory takes, one by one.

use crate::Outcome;
use crate::arguments::Reads;
use serde::Serialize;
use std::time::Instant;
use verge_kv::{Client, Key, Options};

/// What reads have taken, in nanoseconds. Looking at the clock twice is in each of them.
#[derive(Serialize)]
pub struct Report {
    keys: usize,
    reads: usize,
    failed: usize,
    p50_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    /// The median of nothing at all, measured in the same way.
    clock_p50_ns: u64,
    /// All reads without a look at the clock in between, divided by their number.
    mean_ns: f64,
}

/// The step from one key to the next; keys that follow each other would be in the processor's cache already.
const STRIDE: usize = 7_919;

pub fn run(plan: &Reads) -> Outcome<Report> {
    let client =
        Client::attach(&plan.socket, 0, &Options { tuples: 1, name: "reads".into(), ..Options::default() })?;
    let keys: Vec<Key> = client.keys().collect();
    if keys.is_empty() || plan.count == 0 {
        return Err("nothing to read".into());
    }
    let mut buffer = [0; 4096];
    let of = |at: usize| &keys[at * STRIDE % keys.len()];
    let mut times = Vec::with_capacity(plan.count);
    let mut failed = 0;
    for at in 0..plan.count {
        let key = of(at);
        let begun = Instant::now();
        let read = client.read_now(key, &mut buffer);
        times.push(begun.elapsed().as_nanos() as u64);
        failed += usize::from(std::hint::black_box(read).is_err());
    }
    let begun = Instant::now();
    for at in 0..plan.count {
        let _ = std::hint::black_box(client.read_now(of(at), &mut buffer));
    }
    let mean_ns = begun.elapsed().as_nanos() as f64 / plan.count as f64;
    let mut nothing: Vec<u64> =
        (0..plan.count.min(100_000)).map(|_| Instant::now().elapsed().as_nanos() as u64).collect();
    let (keys, reads) = (keys.len(), times.len());
    let [p50_ns, p99_ns, p999_ns] = [0.5, 0.99, 0.999].map(|share| quantile(&mut times, share));
    Ok(Report {
        keys,
        reads,
        failed,
        p50_ns,
        p99_ns,
        p999_ns,
        clock_p50_ns: quantile(&mut nothing, 0.5),
        mean_ns,
    })
}

fn quantile(times: &mut [u64], share: f64) -> u64 {
    let place = ((times.len() - 1) as f64 * share) as usize;
    *times.select_nth_unstable(place).1
}
