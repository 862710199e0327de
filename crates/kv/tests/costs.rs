//! What a job costs, printed and not judged: `cargo test --release -p verge-kv --test costs -- --ignored --nocapture`.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures, so it needs a clock")]

mod common;

use common::Cluster;
use std::time::{Duration, Instant};

#[test]
#[ignore = "it measures and cannot fail"]
fn processor_time_and_bytes_of_a_job() {
    for (n, f, tuples) in [(4, 1, 100), (4, 1, 905), (4, 1, 1_000), (4, 1, 5_000), (7, 2, 100), (7, 2, 905)] {
        let mut cluster = Cluster::new(n, f, tuples);
        let mut times: Vec<Duration> = Vec::new();
        let mut bytes = 0;
        for job in 0..(if n == 4 { 300 } else { 40 }) {
            cluster.write(job);
            let begun = Instant::now();
            bytes = cluster.run(job).0;
            times.push(begun.elapsed() / n as u32);
        }
        times.sort();
        let (half, worst) = (times[times.len() / 2], times[times.len() - 1]);
        let tree = cluster.lanes[0].setup().tree_bytes();
        println!(
            "n={n} f={f} tuples={tuples}: per node and job {half:?} median, {worst:?} worst, {bytes} bytes sent, tree {tree} bytes"
        );
    }
}
