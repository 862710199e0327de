use super::*;
use crate::{Config, Key};

const KEY: LinkKey = LinkKey([7; 32]);

fn greeting() -> Greeting {
    Greeting {
        purpose: Purpose::Frames,
        lane: 3,
        sender: Node(2),
        receiver: Node(1),
        incarnation: 99,
        fingerprint: u64::MAX,
        nonce: [4; 16],
    }
}

fn challenge() -> Challenge {
    Challenge { fingerprint: 8, time: Time(1_000), nonce: [5; 16] }
}

fn config(keys: &[&str]) -> Config {
    Config {
        nodes: (0..4).map(|n| format!("n{n}")).collect(),
        keys: keys.iter().map(|name| Key::named(name)).collect(),
        ..Config::default()
    }
}

#[test]
fn a_greeting_comes_back_and_strangers_are_told_apart() {
    let bytes = greeting().encode();
    assert_eq!(Greeting::parse(&bytes), Ok(greeting()));
    let mut stranger = bytes;
    stranger[..4].copy_from_slice(b"GET ");
    assert_eq!(Greeting::parse(&stranger), Err(HeadError::NotOurs));
    let mut later = bytes;
    later[4] = 9;
    assert_eq!(Greeting::parse(&later), Err(HeadError::Version(9)));
    let mut odd = bytes;
    odd[6] = 7;
    assert_eq!(Greeting::parse(&odd), Err(HeadError::Malformed));
}

#[test]
fn a_challenge_shows_who_answers_to_whom() {
    let asked = greeting().encode();
    let bytes = challenge().seal(&asked, &KEY);
    assert_eq!(Challenge::open(&bytes, &asked, &KEY), Ok(challenge()));
    assert_eq!(Challenge::open(&bytes, &asked, &LinkKey([8; 32])), Err(HelloError::Key));
    // Another greeting: what was answered once is no answer again.
    let other = Greeting { nonce: [6; 16], ..greeting() }.encode();
    assert_eq!(Challenge::open(&bytes, &other, &KEY), Err(HelloError::Key));
    for bit in 0..CHALLENGE_BYTES * 8 {
        let mut flipped = bytes;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Challenge::open(&flipped, &asked, &KEY).is_err(), "bit {bit}");
    }
}

#[test]
fn a_proof_is_of_this_exchange_and_these_facts() {
    let asked = greeting().encode();
    let answered = challenge().seal(&asked, &KEY);
    let shown = proof(&asked, &answered, b"facts", &KEY);
    assert!(is_proof(&shown, &asked, &answered, b"facts", &KEY));
    assert!(!is_proof(&shown, &asked, &answered, b"other", &KEY));
    assert!(!is_proof(&shown, &asked, &answered, b"facts", &LinkKey([8; 32])));
    let again = Challenge { nonce: [9; 16], ..challenge() }.seal(&asked, &KEY);
    assert!(!is_proof(&shown, &asked, &again, b"facts", &KEY));
}

#[test]
fn the_first_difference_is_named_with_both_values() {
    let ours = Setup::new(config(&["a", "b"])).unwrap();
    assert_eq!(compare(&ours, &encode_facts(&config(&["a", "b"]).facts())), Ok(()));
    let theirs = encode_facts(&Config { faults: 0, ..config(&["a", "b"]) }.facts());
    let text = compare(&ours, &theirs).unwrap_err().to_string();
    assert!(text.contains("faults is 0 there and 1 here"), "{text}");
    let text = compare(&ours, b"rubbish").unwrap_err().to_string();
    assert!(text.contains("nodes is missing there"), "{text}");
}

#[test]
fn facts_that_are_cut_off_or_lie_about_their_length_are_left_out() {
    let facts = config(&["a"]).facts();
    let bytes = encode_facts(&facts);
    assert_eq!(decode_facts(&bytes), facts);
    assert_eq!(decode_facts(&bytes[..bytes.len() - 1]).len(), facts.len() - 1);
    assert_eq!(decode_facts(&[0xff; 40]), []);
}

#[test]
fn a_greeting_for_somebody_else_is_refused() {
    assert_eq!(check_address(&greeting(), Node(1), 4), Ok(()));
    for (sender, receiver) in [(2, 0), (1, 1), (4, 1)] {
        let wrong = Greeting { sender: Node(sender), receiver: Node(receiver), ..greeting() };
        assert!(check_address(&wrong, Node(1), 4).is_err(), "{sender} to {receiver}");
    }
}

#[test]
fn the_bounds_of_a_clock_hold_what_it_is_off() {
    // It is 30 ahead; the way there took 5, the way back 3.
    let (before, theirs, after) = (Time(100), Time(135), Time(108));
    assert_eq!(clock_bounds(before, theirs, after), (Span(27), Span(35)));
}
