use super::*;
use access::{Access, Cost, SALT_BYTES, hash_password};
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::BTreeMap;

fn access(users: &[(&str, &str)], cost: Cost) -> Access {
    let user = |(name, password): &(&str, &str)| {
        let hash = hash_password(password.as_bytes(), &[7; SALT_BYTES], cost).unwrap();
        format!("[[user]]\nname = \"{name}\"\npassword = \"{hash}\"\n")
    };
    Access::parse(&users.iter().map(user).collect::<String>()).unwrap()
}

/// Waits by the bell until so many answers are there.
fn answers(authenticator: &mut Authenticator, count: usize) -> BTreeMap<u64, bool> {
    let mut all = BTreeMap::new();
    while all.len() < count {
        let bell = authenticator.bell();
        let mut waited = [PollFd::new(&bell, PollFlags::IN)];
        poll(&mut waited, None).unwrap();
        while let Some(answer) = authenticator.next_answer() {
            all.insert(answer.ticket, answer.right);
        }
    }
    all
}

#[test]
fn only_the_right_password_of_a_known_user_is_right() {
    let access = access(&[("ann", "apple"), ("bob", "berry")], Cost::LEAST);
    let mut authenticator = Authenticator::start(
        Authentication { threads: 2, ..Authentication::default() },
        &Helpers::new().unwrap(),
    )
    .unwrap();
    let long = "x".repeat(PASSWORD_BYTES_MAX + 1);
    let tries = [
        ("ann", "apple", true),
        ("ann", "berry", false),
        ("bob", "berry", true),
        ("bob", "", false),
        ("cid", "apple", false),
        ("ann", &long, false),
    ];
    for (ticket, (name, password, _)) in (0..).zip(tries) {
        let asked = authenticator.ask(ticket, &access.challenge(name), password.as_bytes());
        assert_eq!(asked, Asked::Waiting, "{name} is checked like everybody");
    }
    let answers = answers(&mut authenticator, tries.len());
    assert!((0..).zip(tries).all(|(ticket, (_, _, right))| answers[&ticket] == right), "{answers:?}");
    assert_eq!(authenticator.pending(), 0);
}

#[test]
fn many_who_come_back_are_let_in_at_once() {
    let access = access(&[("ann", "apple")], Cost::LEAST);
    let mut authenticator = Authenticator::start(
        Authentication { pending: 1, ..Authentication::default() },
        &Helpers::new().unwrap(),
    )
    .unwrap();
    assert_eq!(authenticator.ask(1, &access.challenge("ann"), b"apple"), Asked::Waiting);
    assert!(answers(&mut authenticator, 1)[&1]);
    for ticket in 2..1000 {
        assert_eq!(authenticator.ask(ticket, &access.challenge("ann"), b"apple"), Asked::Right);
    }
    assert_eq!(authenticator.ask(1000, &access.challenge("ann"), b"apples"), Asked::Waiting);
    assert!(!answers(&mut authenticator, 1)[&1000]);
    // Wrong ones are never remembered, and a new password ends what was remembered of the old one.
    assert_eq!(authenticator.ask(1001, &access.challenge("ann"), b"apples"), Asked::Waiting);
    answers(&mut authenticator, 1);
    let changed = self::access(&[("ann", "cherry")], Cost::LEAST);
    assert_eq!(authenticator.ask(1002, &changed.challenge("ann"), b"apple"), Asked::Waiting);
    assert!(!answers(&mut authenticator, 1)[&1002]);
}

#[test]
fn wrong_passwords_at_rate_are_answered_busy_and_nothing_piles_up() {
    let access = access(&[("ann", "apple")], Cost { memory_kib: 1024, passes: 2, lanes: 1 });
    let mut authenticator = Authenticator::start(
        Authentication { pending: 4, ..Authentication::default() },
        &Helpers::new().unwrap(),
    )
    .unwrap();
    let asked: Vec<Asked> =
        (0..10_000).map(|ticket| authenticator.ask(ticket, &access.challenge("ann"), b"guess")).collect();
    assert_eq!(asked.iter().filter(|asked| **asked == Asked::Waiting).count(), 4);
    assert!(asked[4..].iter().all(|asked| *asked == Asked::Busy));
    assert_eq!(answers(&mut authenticator, 4), (0..4).map(|ticket| (ticket, false)).collect());
    assert_eq!(
        authenticator.ask(4, &access.challenge("ann"), b"apple"),
        Asked::Waiting,
        "there is room again"
    );
}

#[test]
fn ending_does_not_wait_for_who_is_in_line() {
    let access = access(&[("ann", "apple")], Cost::DEFAULT);
    let mut authenticator =
        Authenticator::start(Authentication::default(), &Helpers::new().unwrap()).unwrap();
    for ticket in 0..100 {
        authenticator.ask(ticket, &access.challenge("ann"), b"guess");
    }
    let bell = authenticator.bell.clone();
    drop(authenticator);
    let mut rung = [0; 8];
    let rung = read(&*bell, &mut rung).map_or(0, |_| u64::from_ne_bytes(rung));
    assert!(rung < 100, "all {rung} were checked");
}
