//! After a lane has been made, it allocates nothing: counted by the allocator over thousands of jobs of whole clusters.

mod common;

use common::Cluster;
use contract::{Span, Time};
use kv::{KeyId, Node, Step};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

#[test]
fn jobs_allocate_nothing() {
    for (n, f, keys, jobs) in [(4, 1, 20, 2_000), (7, 2, 10, 200), (5, 1, 1, 500)] {
        let mut cluster = Cluster::new(n, f, keys);
        let begun = counting::allocations();
        for job in 0..jobs {
            cluster.write(job);
            let (_, outcome) = cluster.run(job);
            assert_eq!((outcome.published as usize, outcome.silent.len()), (keys, 0));
            // Frames that are late, torn or none, and reads that fail, are as quiet.
            let lane = &mut cluster.lanes[0];
            let answered = lane.answer(Node(1)).is_some();
            assert_eq!(answered, job == 0, "before the first job nobody knows what there is");
            assert!(lane.take(Node(1), &[7; 200]).is_err());
            let now = lane.setup().release_of(job) + Span::millis(50);
            assert!(lane.read(KeyId(0), now, now).is_ok());
            assert!(lane.read(KeyId(0), now + Span(1), now + Span(2)).is_err());
            assert!(lane.write(KeyId(0), &[0; 8], Time(0), now).is_err());
        }
        assert_eq!(
            counting::allocations() - begun,
            0,
            "allocations in {jobs} jobs of {n} nodes with {keys} keys"
        );
    }
}

#[test]
fn jobs_with_silent_and_late_nodes_allocate_nothing() {
    let mut cluster = Cluster::new(4, 1, 20);
    let setup = cluster.lanes[0].setup().clone();
    let begun = counting::allocations();
    for job in 0..500 {
        cluster.write(job);
        let release = setup.release_of(job);
        // Node 3 begins too late every other time, and says nothing to anybody otherwise.
        let skips = job % 2 == 1;
        for (node, lane) in cluster.lanes.iter_mut().enumerate() {
            let late = if node == 3 && skips { Span::millis(20) } else { Span::ZERO };
            assert_eq!(lane.begin(release, release + late).is_err(), node == 3 && skips);
        }
        for round in 1..=2 {
            for (from, to) in [(0, 1), (0, 2), (0, 3), (1, 0), (1, 2), (1, 3), (2, 0), (2, 1), (2, 3)] {
                assert_eq!(cluster.send(from, to).is_err(), to == 3 && skips);
            }
            let end = release + setup.round() * round;
            cluster.lanes.iter_mut().for_each(|lane| assert!(!matches!(lane.step(end), Step::Wait { .. })));
        }
        for lane in &mut cluster.lanes[..if skips { 3 } else { 4 }] {
            lane.fuse();
            let outcome = lane.publish(release, &mut ());
            assert_eq!(outcome.published + outcome.held, 20);
        }
    }
    assert_eq!(counting::allocations() - begun, 0);
    assert_eq!(cluster.lanes[3].skipped(), 250);
    assert_eq!(cluster.lanes[0].counters(Node(3)).silent, 1_000);
}
