use super::*;

/// E1 to E3: one byte for each batch; node 3 lies.
fn four(inputs: [u8; 4], lie: &mut Lie<'_>) -> (Vec<Vec<Vec<u8>>>, Vec<NodeSet>) {
    let setup = Setup::new(config(4, 1)).unwrap();
    let mut jobs = cluster(&setup);
    let vectors = run(&mut jobs, &inputs.map(|input| vec![input]), one(3), lie);
    (vectors, jobs.iter().map(Job::liars).collect())
}

fn about_all(words: Words, value: u8) -> Words {
    words.into_iter().map(|(label, _)| (label, vec![value])).collect()
}

#[test]
fn e1_a_node_that_tells_everybody_something_else_comes_to_nothing() {
    let (vectors, liars) = four([5, 5, 7, 0], &mut |_, round, to, words| {
        Some(about_all(words, if round == 1 { to.0 + 1 } else { 8 }))
    });
    for correct in 0..3 {
        assert_eq!(vectors[correct], [vec![5], vec![5], vec![7], vec![]]);
        assert_eq!(liars[correct], one(3), "node {correct} knows who lied");
    }
}

#[test]
fn e2_what_most_have_heard_holds_for_all() {
    let (vectors, liars) = four([5, 5, 7, 0], &mut |_, round, to, words| {
        let told = if to.0 < 2 { 9 } else { 4 };
        Some(about_all(words, if round == 1 { told } else { 6 + to.0 }))
    });
    for correct in 0..3 {
        assert_eq!(vectors[correct], [vec![5], vec![5], vec![7], vec![9]]);
        assert_eq!(liars[correct], one(3));
    }
}

#[test]
fn e3_a_silent_node_comes_to_nothing_and_harms_nobody() {
    let (vectors, liars) = four([5, 6, 7, 8], &mut |_, _, _, _| None);
    for correct in 0..3 {
        assert_eq!(vectors[correct], [vec![5], vec![6], vec![7], vec![]]);
        assert_eq!(liars[correct], NodeSet::EMPTY, "silence is no lie");
    }
}

/// Whether all correct nodes have equal vectors with the correct inputs, in one run with random liars.
fn holds(setup: &Arc<Setup>, jobs: &mut [Job], liar_count: usize, random: &mut fastrand::Rng) -> bool {
    let n = setup.nodes();
    let mut order: Vec<u8> = (0..n as u8).collect();
    random.shuffle(&mut order);
    let liars: NodeSet = order[..liar_count].iter().map(|&node| Node(node)).collect();
    let inputs: Vec<Vec<u8>> = (0..n).map(|_| vec![random.u8(1..4)]).collect();
    jobs.iter_mut().for_each(|job| job.expect(NUMBER, (0, false)));
    let vectors = run(jobs, &inputs, liars, &mut |_, _, _, mut words| {
        for (_, batch) in &mut words {
            match random.u8(..8) {
                0 => {}
                1 => batch.clear(),
                _ => *batch = vec![random.u8(1..4); random.usize(1..3)],
            }
        }
        (random.u8(..10) > 0).then_some(words)
    });
    let correct = |node: &usize| !liars.contains(Node::at(*node));
    let first = (0..n).find(correct).expect("somebody is correct");
    let (honest, accused) = (NodeSet::all(n).without(liars), jobs[first].liars());
    (0..n).filter(correct).all(|node| {
        let valid = (0..n).filter(correct).all(|source| vectors[node][source] == inputs[source]);
        valid && vectors[node] == vectors[first]
    }) && (0..n).filter(correct).all(|node| jobs[node].liars().without(honest) == jobs[node].liars())
        && accused.without(liars).is_empty()
}

fn broken(n: usize, f: usize, liars: usize, rule: ResolveRule, runs: usize) -> usize {
    // Unchecked, to see what the checks are for.
    let setup = Arc::new(Setup::derive(Config { resolve: rule, ..config(n, f) }));
    let mut jobs = cluster(&setup);
    let mut random = fastrand::Rng::with_seed((100 * n + f) as u64);
    (0..runs).filter(|_| !holds(&setup, &mut jobs, liars, &mut random)).count()
}

const RULES: [ResolveRule; 2] = [ResolveRule::Majority, ResolveRule::AllButFaulty];

#[test]
fn e5_correct_nodes_agree_and_keep_correct_inputs_and_accuse_no_correct_node() {
    for rule in RULES {
        for (n, f) in [(4, 1), (5, 1), (7, 1), (7, 2)] {
            for liars in 0..=f {
                assert_eq!(broken(n, f, liars, rule, 300), 0, "{n} nodes, {liars} of {f} lie, {rule:?}");
            }
        }
    }
}

#[test]
fn three_faults_among_ten_are_masked_too() {
    assert_eq!(broken(10, 3, 3, ResolveRule::Majority, 4), 0);
}

#[test]
fn e4_with_3f_nodes_almost_no_run_holds() {
    for rule in RULES {
        let broken = broken(3, 1, 1, rule, 500);
        assert!(broken > 450, "{broken} of 500 runs are broken");
    }
    assert!(broken(6, 2, 2, ResolveRule::Majority, 100) > 50);
}

#[test]
fn with_one_liar_or_one_round_off_it_breaks() {
    assert!(broken(4, 1, 2, ResolveRule::Majority, 100) > 50, "two liars where one is tolerated");
    assert!(broken(4, 0, 1, ResolveRule::Majority, 100) > 50, "one round where two are needed");
}

#[test]
fn where_nodes_only_crash_any_majority_may_do_so() {
    for (n, f) in [(2, 1), (3, 2), (4, 1), (4, 3), (5, 2)] {
        let setup = Setup::new(Config { mode: Mode::Crash, ..config(n, f) }).unwrap();
        let mut jobs = cluster(&setup);
        let mut random = fastrand::Rng::with_seed(5);
        for run_number in 0..300 {
            let inputs: Vec<Vec<u8>> = (0..n).map(|_| vec![random.u8(1..)]).collect();
            // Each of the last `f` sends so many frames in all, and is dead afterwards.
            let mut frames: Vec<usize> =
                (0..n).map(|_| random.usize(0..(n - 1) * setup.rounds() + 1)).collect();
            let crashing: NodeSet = (n - f..n).map(Node::at).collect();
            jobs.iter_mut().for_each(|job| job.expect(NUMBER, (0, false)));
            let vectors = run(&mut jobs, &inputs, crashing, &mut |from, _, _, words| {
                let left = &mut frames[from.index()];
                *left = left.checked_sub(1)?;
                Some(words)
            });
            for correct in 0..n - f {
                assert_eq!(vectors[correct], vectors[0], "{n}, {f}, run {run_number}");
                assert_eq!(vectors[0][correct], inputs[correct]);
            }
        }
    }
}

#[test]
fn where_nodes_only_crash_majorities_of_relayers_would_not_do() {
    // Two nodes, one tolerated: node 1 stops after round 1, so nobody repeats what node 0 has said.
    let setup = Setup::new(Config { mode: Mode::Crash, ..config(2, 1) }).unwrap();
    let mut jobs = cluster(&setup);
    let stops = &mut |_, round, _, words| (round == 1).then_some(words);
    let vectors = run(&mut jobs, &[vec![1], vec![2]], one(1), stops);
    assert_eq!(vectors[0], [vec![1], vec![2]]);
    let byzantine = Arc::new(Setup::derive(config(2, 1)));
    let mut jobs = cluster(&byzantine);
    let vectors = run(&mut jobs, &[vec![1], vec![2]], one(1), stops);
    assert_ne!(vectors[0][0], [1]);
}
