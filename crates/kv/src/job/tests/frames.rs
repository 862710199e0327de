use super::*;
use contract::Span;

/// Node 0 of four with its job begun, and the frames of the others for both rounds.
fn begun() -> (Arc<Setup>, Vec<Job>) {
    let setup = Setup::new(config(4, 1)).unwrap();
    let mut jobs = cluster(&setup);
    for (node, job) in (10..).zip(&mut jobs) {
        job.begin(&[node], None, Time::ZERO);
    }
    (setup, jobs)
}

fn bytes(job: &Job, to: u8) -> Vec<u8> {
    let frame = job.frame(Node(to));
    [&frame.head[..], frame.body].concat()
}

#[test]
fn a_node_that_has_heard_all_goes_on_at_once_and_otherwise_at_the_end_of_the_round() {
    let (setup, mut jobs) = begun();
    let release = jobs[0].release();
    let everybody = one(1).with(one(2)).with(one(3));
    let until = release + setup.round();
    assert_eq!(jobs[0].step(release), Step::Wait { until, missing: everybody });
    for peer in 1..4 {
        let frame = bytes(&jobs[peer as usize], 0);
        assert_eq!(jobs[0].take(Node(peer), &frame), Ok(Taken::InTime));
    }
    assert_eq!(jobs[0].step(release + Span(1)), Step::Send);
    let until = release + setup.round() * 2;
    assert_eq!(jobs[0].step(until - Span(1)), Step::Wait { until, missing: everybody });
    assert_eq!(jobs[0].step(until), Step::Over);
    assert_eq!(jobs[0].counters(Node(1)).silent, 1);
    assert_eq!(jobs[0].silent(), everybody);
}

#[test]
fn a_frame_of_a_later_round_is_kept_until_its_round_begins() {
    let (_, mut jobs) = begun();
    let release = jobs[0].release();
    for (from, to) in [(0, 1), (2, 1), (3, 1)] {
        let frame = bytes(&jobs[from as usize], to);
        jobs[to as usize].take(Node(from), &frame).unwrap();
    }
    let first = bytes(&jobs[1], 0);
    assert_eq!(jobs[1].step(release), Step::Send);
    let second = bytes(&jobs[1], 0);
    assert_eq!(jobs[0].take(Node(1), &second), Ok(Taken::Kept));
    assert_eq!(jobs[0].take(Node(1), &first), Ok(Taken::InTime));
    assert!(!jobs[0].wants(Node(1)), "it has said all that it can in this job");
    for peer in [2, 3] {
        let frame = bytes(&jobs[peer as usize], 0);
        jobs[0].take(Node(peer), &frame).unwrap();
    }
    assert_eq!(jobs[0].step(release), Step::Send);
    let Step::Wait { missing, .. } = jobs[0].step(release) else { panic!() };
    assert_eq!(missing, one(2).with(one(3)));
}

#[test]
fn a_frame_whose_round_is_over_changes_nothing() {
    let (setup, mut jobs) = begun();
    let (first, release) = (bytes(&jobs[1], 0), jobs[0].release());
    assert_eq!(jobs[0].step(release + setup.round()), Step::Send);
    assert_eq!(jobs[0].take(Node(1), &first), Err(Dropped::Late { job: NUMBER, round: 1 }));
    assert_eq!(jobs[0].step(release + setup.round() * 2), Step::Over);
    assert_eq!(jobs[0].take(Node(1), &first), Err(Dropped::Late { job: NUMBER, round: 1 }));
    jobs[0].resolve();
    assert!(jobs[0].vector().batch(Node(1)).is_empty());
    assert_eq!(jobs[0].counters(Node(1)).late, 2);
}

#[test]
fn a_frame_is_kept_for_a_job_that_has_not_begun_but_not_for_any_other() {
    let (_, mut jobs) = begun();
    let frame = bytes(&jobs[1], 0);
    jobs[0].expect(NUMBER - 2, (0, false));
    assert_eq!(jobs[0].take(Node(1), &frame), Err(Dropped::FarAhead { job: NUMBER }));
    jobs[0].expect(NUMBER - 1, (0, false));
    assert_eq!(jobs[0].take(Node(1), &frame), Err(Dropped::TooEarly { job: NUMBER }));
    jobs[0].expect(NUMBER, (0, false));
    assert_eq!(jobs[0].take(Node(1), &frame), Ok(Taken::Kept));
    jobs[0].expect(NUMBER + 1, (0, false));
    assert_eq!(jobs[0].take(Node(1), &frame), Err(Dropped::Late { job: NUMBER, round: 1 }));
    assert_eq!((jobs[0].counters(Node(1)).wrong, jobs[0].counters(Node(1)).late), (2, 1));
}

#[test]
fn a_peer_whose_connection_is_lost_is_not_waited_for() {
    let (_, mut jobs) = begun();
    let release = jobs[0].release();
    for peer in [1, 2] {
        let frame = bytes(&jobs[peer as usize], 0);
        jobs[0].take(Node(peer), &frame).unwrap();
    }
    jobs[0].silence(Node(3));
    assert!(!jobs[0].wants(Node(3)));
    assert_eq!(jobs[0].step(release), Step::Send);
    assert_eq!(jobs[0].silent(), one(3));
}

#[test]
fn a_frame_that_is_not_what_it_should_be_is_silence() {
    let (setup, mut jobs) = begun();
    let good = bytes(&jobs[1], 0);
    let of = |words: Words| frame(&setup, Node(1), Node(0), 1, &words);
    let mut forged = good.clone();
    *forged.last_mut().unwrap() ^= 1;
    let to_another = bytes(&jobs[1], 2);
    let long = [&good[..], &[0]].concat();
    let other = Setup::new(Config { history: 5, ..config(4, 1) }).unwrap();
    let foreign = frame(&other, Node(1), Node(0), 1, &vec![(0, vec![1])]);
    let mut third_round = good.clone();
    third_round[16] = 3;
    let cases = [
        (1, forged, Dropped::Forged),
        (1, to_another, Dropped::Misdirected),
        (2, good.clone(), Dropped::Misdirected),
        (9, good.clone(), Dropped::Misdirected),
        (1, long, Dropped::Length(good.len() + 1)),
        (1, good[..good.len() - 1].to_vec(), Dropped::Length(good.len() - 1)),
        (1, good[..HEAD_BYTES - 1].to_vec(), Dropped::Length(HEAD_BYTES - 1)),
        (1, foreign, Dropped::OtherConfiguration),
        (1, third_round, Dropped::NoSuchRound(3)),
        (1, of(vec![]), Dropped::Malformed),
        (1, of(vec![(1, vec![1])]), Dropped::Malformed),
        (1, of(vec![(0, vec![1]), (0, vec![1])]), Dropped::Malformed),
        (1, of(vec![(0, vec![1; 200])]), Dropped::Length(HEAD_BYTES + 208)),
    ];
    for (from, bytes, expected) in cases {
        assert_eq!(jobs[0].take(Node(from), &bytes), Err(expected));
    }
    assert_eq!(jobs[0].take(Node(1), &good), Ok(Taken::InTime), "none of it took its place");
    assert_eq!(jobs[0].take(Node(1), &good), Err(Dropped::Repeated));
    let counters = jobs[0].counters(Node(1));
    assert_eq!((counters.forged, counters.repeated, counters.wrong), (1, 1, 10));
}

#[test]
fn whatever_bytes_come_nothing_panics_and_nothing_forged_is_taken() {
    let (_, mut jobs) = begun();
    let good = bytes(&jobs[1], 0);
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..bytes.len());
            match random.u8(..3) {
                0 => bytes[at] = bytes[at].wrapping_add(random.u8(1..)),
                1 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, random.u8(..)),
            }
        }
        if bytes != good {
            assert!(jobs[0].take(Node(1), &bytes).is_err());
        }
    }
    assert_eq!(jobs[0].take(Node(1), &good), Ok(Taken::InTime));
}

#[test]
fn a_frame_replayed_in_a_later_job_is_late() {
    let (setup, mut jobs) = begun();
    let old = bytes(&jobs[1], 0);
    jobs.iter_mut().for_each(|job| job.expect(NUMBER + 1, (0, false)));
    jobs.iter_mut().for_each(|job| job.begin(&[1], None, Time::ZERO));
    assert_eq!(jobs[0].take(Node(1), &old), Err(Dropped::Late { job: NUMBER, round: 1 }));
    let mut renumbered = old;
    renumbered[8..16].copy_from_slice(&(NUMBER + 1).to_le_bytes());
    assert_eq!(jobs[0].take(Node(1), &renumbered), Err(Dropped::Forged));
    assert_eq!(jobs[0].release(), setup.release_of(NUMBER + 1));
}

#[test]
fn a_frame_whose_job_was_changed_on_the_way_is_not_one_to_be_kept() {
    let (_, mut jobs) = begun();
    let honest = bytes(&jobs[1], 0);
    for bit in 0..64 {
        let mut frame = honest.clone();
        frame[8 + bit / 8] ^= 1 << (bit % 8);
        let dropped = jobs[0].take(Node(1), &frame).unwrap_err();
        assert!(matches!(dropped, Dropped::Forged | Dropped::Late { .. }), "bit {bit}: {dropped}");
    }
    assert_eq!(jobs[0].take(Node(1), &honest), Ok(Taken::InTime));
}
