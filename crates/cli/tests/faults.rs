//! A pair of brokers as real processes, under load, and everything that may happen to it: death, pauses, planned ends,
//! and clients that misbehave.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use support::{
    Family, Load, PATIENT, Pair, Process, Receiver, Site, WATCHDOG, program, wait_for, wait_until,
};
use verge::{Contract, Span, Standing};

/// The failover time for which contracts are given, x.
const FAILOVER: Duration = Duration::from_millis(50);
/// How often a failover may take longer than that before a test gives up on a busy host.
const ATTEMPTS: u32 = 4;

/// What became of a pair.
struct Outcome {
    /// Messages that never came.
    missing: Vec<String>,
    /// The longest time from a failure until the publisher had its new primary.
    failover: Duration,
}

impl Outcome {
    /// Stops the load. Nobody has failed, and the reign was handed over so often. Where it moved more often, a broker had to wait
    /// for so long that it was suspected, and how long that was is not known.
    fn without_failure(receiver: &Receiver, load: &mut Load, handovers: usize) -> Outcome {
        let missing = receiver.settle(&load.stop());
        let unasked = load.moves().saturating_sub(handovers);
        Outcome { missing, failover: if unasked > 0 { Duration::MAX } else { Duration::ZERO } }
    }
}

/// Contracts are kept where a failover takes no longer than x. On a busy host one may, or a broker may be suspected that
/// only had to wait; such an attempt proves nothing, unless nothing is missing all the same, and is made again.
/// `None`: a broker was suspected that the rest of the attempt needs.
fn nothing_is_missing(mut attempt: impl FnMut() -> Option<Outcome>) {
    for number in 1..=ATTEMPTS {
        let Some(Outcome { missing, failover }) = attempt() else {
            eprintln!("attempt {number}: the host was too busy, a broker was suspected without reason");
            continue;
        };
        if missing.is_empty() {
            return;
        }
        assert!(failover > FAILOVER, "missing, although the failover took {failover:?}: {missing:?}");
        eprintln!("attempt {number}: the host was too busy, a failover took {failover:?}");
    }
    panic!("the host was too busy in {ATTEMPTS} attempts");
}

#[test]
fn messages_flow_from_publishers_to_subscribers() {
    nothing_is_missing(|| {
        let pair = Pair::start(PATIENT);
        let receiver = Receiver::start(&pair.site, "#");
        let mut load = Load::start(&pair.site, &Family::patient());
        receiver.wait_for_more(&load.topics, 5);
        let report = pair.watcher.status(pair.wait_for_protection(), true).unwrap().unwrap();
        for stream in &report.streams {
            assert_eq!(stream.replicate, stream.topic.starts_with("copied/"), "{}", stream.topic);
        }
        assert_eq!(report.streams.len(), load.topics.len());
        Some(Outcome::without_failure(&receiver, &mut load, 0))
    });
}

#[test]
fn after_kill_9_of_the_primary_nothing_is_missing_and_it_rejoins_and_the_other_may_be_killed_too() {
    nothing_is_missing(|| {
        let mut pair = Pair::start("");
        let receiver = Receiver::start(&pair.site, "#");
        let mut load = Load::start(&pair.site, &[Family::kept(), Family::copied()]);
        let mut failover = Duration::ZERO;
        for _ in 0..2 {
            receiver.wait_for_more(&load.topics, 3);
            let primary = pair.wait_for_protection();
            let killed_at = pair.kill(primary);
            failover = failover.max(load.failover(killed_at, 1 - primary));
            receiver.wait_for_more(&load.topics, 3);
            pair.restart(primary);
            if pair.wait_for_protection() == primary {
                return None;
            }
        }
        let status = pair.site.run(&["status"]);
        assert!(status.out.contains("\nprotected: a crash of the primary is survived"), "{status:?}");
        receiver.wait_for_more(&load.topics, 3);
        Some(Outcome { missing: receiver.settle(&load.stop()), failover })
    });
}

#[test]
fn after_kill_9_of_the_backup_the_pair_is_unprotected_and_nothing_is_missing() {
    nothing_is_missing(|| {
        let mut pair = Pair::start(PATIENT);
        let receiver = Receiver::start(&pair.site, "#");
        let mut load = Load::start(&pair.site, &Family::patient());
        receiver.wait_for_more(&load.topics, 3);
        let primary = pair.wait_for_protection();
        pair.kill(1 - primary);
        wait_until("the primary's notice", || pair.report(primary).is_some_and(|report| !report.protected));
        assert!(pair.stands(primary, Standing::Primary));
        pair.site.run(&["status"]).must(1, &["UNPROTECTED", "start the other broker", "NO ANSWER"]);
        assert!(pair.broker(primary).log().contains("UNPROTECTED: the connection to the backup broke"));
        receiver.wait_for_more(&load.topics, 3);
        pair.restart(1 - primary);
        if pair.wait_for_protection() != primary {
            return None;
        }
        Some(Outcome::without_failure(&receiver, &mut load, 0))
    });
}

#[test]
fn sigterm_of_the_primary_under_load_loses_nothing_at_all_and_it_exits_with_0() {
    nothing_is_missing(|| {
        let mut pair = Pair::start(PATIENT);
        let receiver = Receiver::start(&pair.site, "#");
        let mut load = Load::start(&pair.site, &Family::patient());
        for _ in 0..2 {
            receiver.wait_for_more(&load.topics, 3);
            let primary = pair.wait_for_protection();
            assert_eq!(pair.broker(primary).terminate(), Some(0));
            pair.wait_for_reign(1 - primary);
            let log = pair.broker(primary).log();
            assert!(log.contains("handed over to the backup") && log.trim_end().ends_with("ended"), "{log}");
            receiver.wait_for_more(&load.topics, 3);
            pair.restart(primary);
            if pair.wait_for_protection() == primary {
                return None;
            }
        }
        Some(Outcome::without_failure(&receiver, &mut load, 2))
    });
}

#[test]
fn sigterm_of_a_lone_broker_ends_it_with_0() {
    let site = Site::new(PATIENT);
    let mut broker = site.start(0);
    let receiver = Receiver::start(&site, "#");
    let mut load = Load::start(&site, &Family::patient());
    receiver.wait_for_more(&load.topics, 3);
    let published = load.stop();
    receiver.must_have(&published);
    assert_eq!(broker.terminate(), Some(0), "{}", broker.log());
}

#[test]
fn after_a_pause_of_the_primary_the_backup_reigns_nothing_is_missing_and_the_old_one_stands_by() {
    nothing_is_missing(|| {
        let mut pair = Pair::start("");
        let receiver = Receiver::start(&pair.site, "#");
        let mut load = Load::start(&pair.site, &[Family::kept()]);
        receiver.wait_for_more(&load.topics, 3);
        let primary = pair.wait_for_protection();
        let paused_at = Instant::now();
        pair.broker(primary).signal(Signal::STOP);
        let failover = load.failover(paused_at, 1 - primary);
        // The pause itself.
        std::thread::sleep(Duration::from_millis(500).saturating_sub(paused_at.elapsed()));
        assert!(pair.stands(1 - primary, Standing::Primary));
        pair.broker(primary).signal(Signal::CONT);
        if pair.wait_for_protection() == primary {
            return None;
        }
        receiver.wait_for_more(&load.topics, 3);
        Some(Outcome { missing: receiver.settle(&load.stop()), failover })
    });
}

#[test]
fn a_planned_handover_under_load_loses_nothing() {
    nothing_is_missing(|| {
        let pair = Pair::start(PATIENT);
        let receiver = Receiver::start(&pair.site, "#");
        let mut load = Load::start(&pair.site, &Family::patient());
        for _ in 0..3 {
            receiver.wait_for_more(&load.topics, 2);
            let primary = pair.wait_for_protection();
            pair.site.run(&["handover"]).must(0, &["handed over: epoch"]);
            if pair.wait_for_protection() == primary {
                return None;
            }
        }
        receiver.wait_for_more(&load.topics, 2);
        Some(Outcome::without_failure(&receiver, &mut load, 3))
    });
}

#[test]
fn a_handover_without_a_backup_is_refused_with_the_reason() {
    let site = Site::new(PATIENT);
    let _broker = site.start(0);
    site.client().wait_for_primary().unwrap();
    site.run(&["handover"]).must(1, &["no handover", "the pair is unprotected: there is no backup"]);
}

#[test]
fn of_two_brokers_that_both_start_as_primary_exactly_one_reigns() {
    for _ in 0..3 {
        let pair = Pair::start_on(Site::with_roles(["primary", "primary"], PATIENT));
        let primary = pair.wait_for_protection();
        let receiver = Receiver::start(&pair.site, "#");
        let mut load = Load::start(&pair.site, &Family::patient());
        receiver.wait_for_more(&load.topics, 2);
        receiver.must_have(&load.stop());
        assert!(pair.stands(primary, Standing::Primary) && pair.stands(1 - primary, Standing::Backup));
    }
}

/// Connects as a stranger and says something; the broker must close the connection.
fn must_be_closed(port: u16, bytes: &[u8]) {
    let mut stranger = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stranger.set_read_timeout(Some(WATCHDOG)).unwrap();
    // The broker may close before it has read everything.
    let _ = stranger.write_all(bytes);
    let mut heard = Vec::new();
    match stranger.read_to_end(&mut heard) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "after {:?}", &bytes[..8]),
    }
}

/// A frame of this kind, with a length that need not be true.
fn frame(kind: u8, length: u32, body: &[u8]) -> Vec<u8> {
    [&[kind, 0, 0, 0], &length.to_le_bytes()[..], body].concat()
}

/// What a broker says of those who do not begin with a greeting.
const NOT_VERGE: &str = "the peer does not speak the Verge protocol";

/// Strangers speak at the port of clients and at the port of the partner, of both brokers, while others are served.
fn strangers_are_sent_away(said: &[u8], log_says: &str) {
    nothing_is_missing(|| {
        let mut pair = Pair::start(PATIENT);
        let receiver = Receiver::start(&pair.site, "#");
        let mut load = Load::start(&pair.site, &Family::patient());
        receiver.wait_for_more(&load.topics, 1);
        std::thread::scope(|scope| {
            for port in pair.site.ports {
                scope.spawn(move || must_be_closed(port, said));
            }
        });
        for index in 0..2 {
            let named = |log: String| log.matches(&format!("closed a connection: {log_says}")).count() == 2;
            let broker = pair.broker(index);
            wait_until(&format!("{log_says:?} in the log"), || named(broker.log()));
        }
        receiver.wait_for_more(&load.topics, 1);
        pair.wait_for_protection();
        Some(Outcome::without_failure(&receiver, &mut load, 0))
    });
}

#[test]
fn whoever_sends_garbage_is_sent_away_and_others_are_served() {
    let mut state = 1_u32;
    let garbage: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
    .take(4096)
    .collect();
    strangers_are_sent_away(&garbage, NOT_VERGE);
}

#[test]
fn whoever_stops_in_the_middle_of_a_frame_is_sent_away_and_others_are_served() {
    strangers_are_sent_away(&frame(0x01, 60, b"VRGE\x01"), "no greeting came");
}

#[test]
fn whoever_announces_a_gigabyte_is_sent_away_and_others_are_served() {
    strangers_are_sent_away(&frame(0x01, 1 << 30, b"VRGE"), NOT_VERGE);
}

#[test]
fn whoever_speaks_http_is_sent_away_and_others_are_served() {
    strangers_are_sent_away(b"GET /status HTTP/1.1\r\nHost: broker\r\n\r\n", NOT_VERGE);
}

#[test]
fn whoever_speaks_another_version_is_sent_away_and_others_are_served() {
    let mut body = b"VRGE".to_vec();
    body.extend(0x4242_u16.to_le_bytes());
    body.resize(64, 0);
    let said = frame(0x01, body.len() as u32, &body);
    strangers_are_sent_away(&said, "the peer speaks protocol version 16962");
}

#[test]
fn ten_thousand_idle_connections_disturb_nobody() {
    const WANTED: u64 = 10_000;
    const RESERVED: u64 = 200;
    let limit = getrlimit(Resource::Nofile);
    let maximum = limit.maximum.unwrap_or(u64::MAX).min(WANTED + RESERVED + 1_000);
    if limit.current.is_some_and(|current| current < maximum) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(maximum), maximum: limit.maximum }).unwrap();
    }
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let count = WANTED.min(allowed.saturating_sub(RESERVED)) as usize;
    if count < WANTED as usize {
        eprintln!("{allowed} descriptors are allowed, so {count} connections are tried instead of {WANTED}");
    }
    nothing_is_missing(|| {
        let mut pair = Pair::start(&format!("{PATIENT}[limits]\ngreeting = \"60s\"\n"));
        let receiver = Receiver::start(&pair.site, "#");
        let mut load = Load::start(&pair.site, &Family::patient());
        receiver.wait_for_more(&load.topics, 1);
        let primary = pair.wait_for_protection();
        let port = pair.site.ports[2 * primary];
        let idle: Vec<TcpStream> =
            (0..count).map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap()).collect();
        wait_until("the acceptance of all", || pair.broker(primary).descriptors() > count);
        receiver.wait_for_more(&load.topics, 5);
        drop(idle);
        wait_until("the end of all", || pair.broker(primary).descriptors() < 100);
        receiver.wait_for_more(&load.topics, 3);
        pair.wait_for_protection();
        // On a busy host messages are late, which is said of each stream; connections that come and go are nothing to speak of.
        let log = pair.broker(primary).log();
        let others = log.lines().filter(|line| !line.contains("were dispatched after their deadline"));
        assert!(others.count() < 100, "{log}");
        Some(Outcome::without_failure(&receiver, &mut load, 0))
    });
}

#[test]
fn a_subscriber_that_never_reads_harms_no_other() {
    nothing_is_missing(|| {
        let more = "[limits]\nsubscriber_backlog = \"64KiB\"\ndeferred_per_subscriber = 64\n";
        let mut pair = Pair::start(&format!("{PATIENT}{more}"));
        let receiver = Receiver::start(&pair.site, "kept/#");
        let mut load = Load::start(&pair.site, &Family::patient()[..1]);
        let (release, released) = mpsc::channel::<()>();
        let slow = verge::Client::builder().name("sleeper").patience(WATCHDOG);
        let slow = slow.connect(&pair.site.addresses()).unwrap();
        // The client's thread is held until the sender is dropped.
        slow.subscribe_with("flood", move |_| assert!(released.recv().is_err())).unwrap();

        let flooder = pair.site.client();
        let contract = Contract::every(Span::millis(1)).deadline(Span::secs(1)).best_effort();
        let publisher = flooder.publisher("flood", contract).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let flood = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let batch = flooder.batch(|batch| {
                    (0..50).try_for_each(|_| batch.publish(&publisher, &[b'x'; 512]).map(drop))
                });
                assert!(batch.is_ok() || batch.is_err_and(|error| error.is_retryable()));
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let complaint = wait_for("the complaint about the slow subscriber", || {
            let logs = [0, 1].map(|index| pair.broker(index).log());
            logs.into_iter().find(|log| log.contains("does not read fast enough"))
        });
        assert!(complaint.contains("subscriber sleeper does not read fast enough"), "{complaint}");
        receiver.wait_for_more(&load.topics, 5);
        stop.store(true, Ordering::Relaxed);
        flood.join().unwrap();
        drop(release);
        drop(slow);
        receiver.wait_for_more(&load.topics, 2);
        Some(Outcome::without_failure(&receiver, &mut load, 0))
    });
}

#[test]
fn a_publisher_faster_than_its_period_is_named_and_harms_no_other() {
    nothing_is_missing(|| {
        let mut pair = Pair::start(PATIENT);
        let receiver = Receiver::start(&pair.site, "kept/#");
        let mut load = Load::start(&pair.site, &Family::patient()[..1]);
        let hasty =
            Family { name: "hasty", topics: 1, every: Duration::from_millis(5), ..Family::patient()[0] };
        let mut haste = Load::start(&pair.site, &[hasty]);
        wait_until("the complaint about the hasty publisher", || {
            let logs = [0, 1].map(|index| pair.broker(index).log());
            logs.iter().any(|log| {
                log.contains("publishes `hasty/0` after")
                    && log.contains("although its period is 100ms")
                    && log.contains("State a shorter period")
            })
        });
        receiver.wait_for_more(&load.topics, 5);
        haste.stop();
        Some(Outcome::without_failure(&receiver, &mut load, 0))
    });
}

#[test]
fn a_contract_that_cannot_be_kept_is_refused_with_the_remedy() {
    let pair = Pair::start("");
    let refused = pair.site.run(&["pub", "--period", "50ms", "--retain", "1", "-t", "x", "-m", "y"]);
    refused.must(1, &["the contract of `x` was refused", "--retain 2"]);
    pair.site.run(&["pub", "--period", "50ms", "--retain", "2", "-t", "x", "-m", "y"]).must(0, &[]);
}

#[test]
fn who_waits_for_a_broker_is_told_why() {
    let mut pair = Pair::start("");
    let clients = |pair: &Pair| [0, 1].map(|index| pair.report(index).map_or(0, |report| report.clients));
    let (log, before) = (pair.site.folder.path("older.log"), clients(&pair));
    let subscribe = |log: PathBuf| {
        let mut command = program(["sub", "-t", "#", "-i", "eye"]);
        Process::start(command.arg("--config").arg(&pair.site.config).stdout(Stdio::null()), log)
    };
    let older = subscribe(log);
    wait_until("the connections of the older one", || {
        clients(&pair).iter().zip(before).all(|(now, before)| *now > before)
    });
    let newer = subscribe(pair.site.folder.path("newer.log"));
    let is_told = |text: &str| wait_until(text, || older.log().contains(text));
    is_told("a client of this name has started later: give every client a name of its own");
    drop(newer);
    is_told("verge: a primary is there again");
    pair.kill(0);
    pair.kill(1);
    is_told("nobody listens there");
}
