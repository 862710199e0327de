//! A lane beside one that may say anything, with proper codes and without: nothing panics, and nothing is read before its instant.
#![no_main]

use contract::{Span, Time};
use kv::frame::BodyHash;
use kv::hello::{CHALLENGE_BYTES, Challenge, GREETING_BYTES, Greeting, decode_facts};
use kv::{Ask, Config, Format, Head, Key, KeyId, Lane, LinkKey, Node, Setup, Start, Step, Vote};
use libfuzzer_sys::fuzz_target;

const KEY: LinkKey = LinkKey([7; 32]);

fuzz_target!(|steps: Vec<(u8, u8, u8, u8, Vec<u8>)>| {
    let config = Config {
        nodes: ["a", "b", "c", "d"].map(str::to_owned).to_vec(),
        keys: vec![
            Key::named("m"),
            Key::named("x").vote(Vote::Median(Format::F64)),
            Key::named("y").vote(Vote::TrimmedMean(Format::Decimal)),
            Key::named("z").vote(Vote::Max(Format::I64)),
        ],
        batch_tuples_max: Some(4),
        history: 3,
        ..Config::default()
    };
    let setup = Setup::new(config).expect("a proper configuration");
    let mut release = setup.first_release(Time(1_000_000_000_000));
    let links = vec![KEY; 4];
    let mut lane = Lane::new(setup.clone(), Node(0), &links, Start::Founding, release);
    let mut steps = steps.into_iter();
    for job in 0..4_u64 {
        let _ = lane.write(KeyId(0), b"v", release + Span::millis(46), release - Span(1));
        if lane.begin(release, release).is_err() {
            return;
        }
        let mut now = release;
        while !matches!(lane.step(now), Step::Over) {
            let Some((kind, from, round, other, body)) = steps.next() else {
                now = now + setup.round();
                continue;
            };
            let sender = Node(from % 4);
            match kind % 4 {
                0 => {
                    let _ = lane.take(sender, &body);
                }
                1 => now = now + Span::millis(i64::from(other)),
                2 => lane.silence(sender),
                _ => {
                    let head = Head {
                        lane: 0,
                        job: setup.job_at(release).unwrap_or(0) + u64::from(other % 2),
                        round: round % 4,
                        sender,
                        receiver: Node(0),
                        body_len: body.len() as u32,
                        fingerprint: setup.fingerprint(),
                        digest: u64::from(other),
                        sure: other % 2 == 0,
                        ask: (other > 200).then(|| Ask { since: now, key: u32::from(other) }),
                        until: u32::from(other),
                    };
                    let head = head.seal(&BodyHash::of(&body), &KEY);
                    let _ = lane.take(sender, &[&head[..], &body].concat());
                    if let Ok(greeting) =
                        <&[u8; GREETING_BYTES]>::try_from(&body[..body.len().min(GREETING_BYTES)])
                    {
                        let _ = Greeting::parse(greeting);
                        let answer = body.last_chunk::<CHALLENGE_BYTES>();
                        drop(answer.map(|answer| Challenge::open(answer, greeting, &KEY)));
                    }
                    drop(decode_facts(&body));
                }
            }
        }
        lane.fuse();
        let _ = lane.publish(now, &mut ());
        for key in (0..4).map(KeyId) {
            if let Ok(value) = lane.read(key, Time::ZERO, now) {
                assert!(value.stamp <= now);
            }
        }
        release = setup.release_of(setup.job_at(release).unwrap_or(0) + 1 + job % 2);
    }
});
