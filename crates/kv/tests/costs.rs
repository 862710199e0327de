//! What a job costs, printed and not judged: `cargo test --release -p verge-kv --test costs -- --ignored --nocapture`.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures, so it needs a clock")]

mod common;

use common::Cluster;
use kv::Step;
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

/// Of `n = 4`, `f = 1`: where the time of a job goes, and what a read takes.
#[test]
#[ignore = "it measures and cannot fail"]
fn parts_of_a_job_and_reads() {
    for tuples in [100, 905] {
        let mut cluster = Cluster::new(4, 1, tuples);
        let setup = cluster.lanes[0].setup().clone();
        let mut parts: [Vec<Duration>; 4] = Default::default();
        for job in 0..500 {
            cluster.write(job);
            let release = setup.release_of(job);
            let mut clock = Instant::now();
            let mut part = |part: usize| {
                let now = Instant::now();
                parts[part].push((now - clock) / 4);
                clock = now;
            };
            cluster.lanes.iter_mut().for_each(|lane| lane.begin(release, release).expect("begins"));
            part(0);
            for _ in 0..setup.rounds() {
                for (from, to) in
                    (0..4).flat_map(|from| (0..4).map(move |to| (from, to))).filter(|(a, b)| a != b)
                {
                    cluster.send(from, to).expect("is taken");
                }
                cluster
                    .lanes
                    .iter_mut()
                    .for_each(|lane| assert!(!matches!(lane.step(release), Step::Wait { .. })));
            }
            part(1);
            cluster.lanes.iter_mut().for_each(|lane| assert_eq!(lane.fuse().values as usize, tuples));
            part(2);
            for lane in &mut cluster.lanes {
                lane.publish(release, &mut ());
            }
            part(3);
        }
        for (name, times) in ["begin", "rounds", "resolve and vote", "publish"].iter().zip(&mut parts) {
            times.sort();
            println!("tuples={tuples}: {name} {:?}", times[times.len() / 2]);
        }
        let now = setup.release_of(499) + setup.period();
        let begun = Instant::now();
        let mut found = 0;
        for read in 0..1_000_000_usize {
            let key = kv::KeyId((read * 7_919 % tuples) as u16);
            found += usize::from(cluster.lanes[0].read(key, now - setup.period(), now).is_ok());
        }
        println!("tuples={tuples}: a read takes {:?}, {found} found", begun.elapsed() / 1_000_000);
    }
}
