//! The node's socket: applications that come, write, read, misbehave and die.
#![allow(clippy::unwrap_used, reason = "tests fail by panics")]

mod common;

use common::house::House;
use common::{Node1, config, setup, socket_path, wait_for};
use contract::{Span, Time};
use kv_shared::{
    Answer, CONNECTIONS_MAX, Content, JSON_TUPLES, LINE_BYTES_MAX, Lines, Plain, Request, RingWriter, Server,
    ServerError, Store, clock,
};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};

fn connect(house: &House) -> Lines {
    Lines::new(UnixStream::connect(&house.path).unwrap())
}

fn ask(lines: &mut Lines, request: &Request) -> Answer {
    lines.send(request, &[]).unwrap();
    lines.receive().unwrap()
}

/// The answer, or none from a node that has no room for one more connection.
fn ask_if_taken(lines: &mut Lines, request: &Request) -> Option<Answer> {
    lines.send(request, &[]).ok()?;
    lines.receive().ok()
}

fn attach(lines: &mut Lines, tuples: usize) -> Result<(Store, RingWriter), String> {
    match ask(lines, &Request::Attach { lane: 0, tuples, name: "test".into() }) {
        Answer::Attached { .. } => {
            let [store, ring, _vectors] = lines.take_files().try_into().unwrap();
            Ok((Store::map(store).unwrap(), RingWriter::map(ring).unwrap()))
        }
        Answer::Error(error) => Err(error),
        other => panic!("{other:?}"),
    }
}

/// Publishes anew until it is seen: a machine with other things to do may hold the jobs up for longer than a value waits.
fn written(mut attempt: impl FnMut(Time) -> bool) -> Time {
    let mut publishing = Time::ZERO;
    for _ in 0..20 {
        publishing = clock::now() + Span::millis(600);
        if attempt(publishing) {
            return publishing;
        }
    }
    panic!("not seen after 20 attempts, the last for {publishing:?}");
}

#[test]
fn what_one_application_writes_another_one_reads_at_its_instant() {
    let house = House::start("attached");
    let (mut one, mut two) = (connect(&house), connect(&house));
    let (store, mut ring) = attach(&mut one, 20).unwrap();
    let (other, _ring) = attach(&mut two, 2).unwrap();
    assert_eq!(store.node_name(), "only");
    let key = store.key("a").unwrap();
    let mut value = [0; 16];
    for _ in 0..3 {
        written(|publishing| {
            if store.check_write(key, b"hello", publishing, clock::now()).is_err() {
                return false;
            }
            ring.push(key, publishing, b"hello").unwrap();
            while clock::now() < publishing {
                let now = clock::now();
                let seen = other.read(key, publishing, now, &mut value);
                assert!(seen.is_err() || now >= publishing, "seen from its instant on and not before");
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            other.read(key, publishing, clock::now(), &mut value).is_ok()
        });
    }
    assert_eq!(&value[..5], b"hello");
    assert_eq!(house.end().problems, Vec::new());
    assert!(other.node_alive(clock::now()).is_err());
}

#[test]
fn applications_that_speak_json_read_and_write_as_well() {
    let house = House::start("json");
    let mut lines = connect(&house);
    let read =
        |key: &str, freshness: Time| Request::Read { lane: 0, key: key.into(), freshness: freshness.0 };
    let write = |key: &str, content: Content, publishing: Time| Request::Write {
        lane: 0,
        key: key.into(),
        content,
        publishing: publishing.0,
    };
    let text = |text: &str| Content::Value(text.into());
    let publishing = written(|publishing| {
        let requests = [
            write("a", text("hello"), publishing),
            write("pendulum/angle", Content::Number(2.into()), publishing),
        ];
        let taken = requests.iter().filter(|request| ask(&mut lines, request) == Answer::Written {}).count();
        wait_for("the instant", || clock::now() > publishing);
        let is_there = |key: &&str| matches!(ask(&mut lines, &read(key, publishing)), Answer::Value { .. });
        taken == 2 && ["a", "pendulum/angle"].iter().all(is_there)
    });
    let Answer::Value { stamp, plain: Plain { bytes, text: Some(seen), number: None } } =
        ask(&mut lines, &read("a", publishing))
    else {
        panic!("no value")
    };
    assert_eq!((stamp, bytes.as_str(), seen.as_str()), (publishing.0, "68656c6c6f", "hello"));
    let Answer::Value { plain: Plain { number: Some(number), text: None, .. }, .. } =
        ask(&mut lines, &read("pendulum/angle", publishing))
    else {
        panic!("no value")
    };
    assert_eq!(number.as_f64(), Some(2.0));
    let vector =
        |key: &str, freshness: Time| Request::Vector { lane: 0, key: key.into(), freshness: freshness.0 };
    let said = [("only".to_owned(), Plain::of(&2.0_f64.to_le_bytes(), Some(kv::Format::F64)))].into();
    let answer = ask(&mut lines, &vector("pendulum/angle", publishing));
    assert_eq!(answer, Answer::Vector { stamp: publishing.0, said });
    assert_eq!(ask(&mut lines, &Request::Status {}), Answer::Status(serde_json::json!({ "clients": 1 })));
    for (request, reason) in [
        (read("b", Time::ZERO), "key `b` is not configured"),
        (read("text", Time::ZERO), "key `text`: nothing has been published"),
        (vector("text", Time::ZERO), "key `text`: no vector is there"),
        (Request::Vector { lane: 1, key: "a".into(), freshness: 0 }, "no such lane"),
        (Request::Read { lane: 1, key: "a".into(), freshness: 0 }, "no such lane"),
        (write("a", text("v"), Time(5)), "key `a`: the publishing time was"),
        (write("theirs", text("v"), Time(5)), "`writers`"),
        (write("a", Content::Bytes("0g".into()), Time(5)), "hexadecimal"),
        (Request::Attach { lane: 0, tuples: 23, name: String::new() }, "22 of the lane's 30 tuples"),
        (Request::Attach { lane: 0, tuples: 1, name: "x".repeat(65) }, "at most 64 bytes"),
    ] {
        wait_for(reason, || match ask(&mut lines, &request) {
            Answer::Error(error) => error.contains(reason),
            answer => panic!("{request:?} was granted: {answer:?}"),
        });
    }
    // Its small share of a job cannot be had twice.
    let full = format!("{JSON_TUPLES} tuples wait");
    wait_for(&full, || {
        let answer = ask(&mut lines, &write("a", text("v"), clock::now() + Span::millis(600)));
        matches!(answer, Answer::Error(error) if error.contains(&full))
    });
    house.end();
}

#[test]
fn lines_that_are_none_are_answered_and_harm_nobody() {
    let house = House::start("lines");
    let mut other = connect(&house);
    let (_store, _ring) = attach(&mut other, 1).unwrap();
    assert!(attach(&mut other, 1).unwrap_err().contains("has attached already"));
    let mut stream = UnixStream::connect(&house.path).unwrap();
    // In pieces, and two at once.
    stream.write_all(b"nonsense\n\xFF\n{\"sta").unwrap();
    stream.write_all(b"tus\":{}}\n{\"status\":{}}\n").unwrap();
    let mut lines = Lines::new(stream.try_clone().unwrap());
    for _ in 0..2 {
        assert!(matches!(lines.receive().unwrap(), Answer::Error(error) if error.contains("expected")));
    }
    for _ in 0..2 {
        assert!(matches!(lines.receive().unwrap(), Answer::Status(_)));
    }
    let _ = stream.write_all(&[b'x'; LINE_BYTES_MAX + 1]);
    assert!(matches!(lines.receive().unwrap(), Answer::Error(error) if error.contains("at most 65536")));
    let end = stream.read(&mut [0; 1]);
    assert!(end.is_err() || end.unwrap() == 0, "nothing can follow");
    assert!(matches!(ask(&mut other, &Request::Status {}), Answer::Status(_)));
    house.end();
}

#[test]
fn connections_are_limited_and_those_that_end_make_room() {
    let house = House::start("many");
    let mut guests: Vec<Lines> = (0..CONNECTIONS_MAX).map(|_| connect(&house)).collect();
    wait_for("all to be taken in", || house.server().connections() == CONNECTIONS_MAX);
    let mut one_more = connect(&house);
    assert!(matches!(one_more.receive().unwrap(), Answer::Error(error) if error.contains("64 clients")));
    attach(&mut guests[3], 30).unwrap();
    guests.truncate(3);
    wait_for("room", || {
        let mut lines = connect(&house);
        let answer = ask_if_taken(&mut lines, &Request::Attach { lane: 0, tuples: 30, name: "test".into() });
        matches!(answer, Some(Answer::Attached { .. }))
    });
    house.end();
}

#[test]
fn who_comes_back_at_once_has_its_place() {
    let house = House::start("back");
    let mut guests: Vec<Lines> = (1..CONNECTIONS_MAX).map(|_| connect(&house)).collect();
    wait_for("all to be taken in", || house.server().connections() == CONNECTIONS_MAX - 1);
    for _ in 0..500 {
        let mut lines = connect(&house);
        attach(&mut lines, 30).unwrap();
    }
    guests.truncate(1);
    house.end();
}

/// What the test below kills: writes as fast as it can, also into the middle of its ring.
#[test]
#[ignore = "a part of the next test"]
fn a_client_to_be_killed() {
    let Ok(path) = std::env::var("VERGE_TEST_KV_SOCKET") else { return };
    let mut lines = Lines::new(UnixStream::connect(path).unwrap());
    let (store, mut ring) = attach(&mut lines, 30).unwrap();
    let key = store.key("a").unwrap();
    println!("attached");
    loop {
        let _ = ring.push(key, clock::now() + Span::millis(600), b"0123456789abcdef");
    }
}

#[test]
fn a_client_that_is_killed_while_it_writes_harms_nobody() {
    let house = House::start("killed");
    let mut random = fastrand::Rng::with_seed(std::process::id().into());
    for _ in 0..10 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_client_to_be_killed", "--ignored", "--nocapture"])
            .env("VERGE_TEST_KV_SOCKET", &house.path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        wait_for("the client", || house.seats.lock().unwrap().quotas.left() == 0);
        std::thread::sleep(std::time::Duration::from_millis(random.u64(..150)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // Its room is another one's at once, and the lane goes on.
    let mut lines = connect(&house);
    let (store, mut ring) = attach(&mut lines, 30).unwrap();
    let key = store.key("text").unwrap();
    written(|publishing| {
        ring.push(key, publishing, b"1.5").unwrap();
        wait_for("the instant", || clock::now() > publishing);
        store.read(key, publishing, clock::now(), &mut [0; 16]).is_ok()
    });
    assert_eq!(house.end().problems, Vec::new());
}

#[test]
fn a_socket_is_only_taken_over_from_the_dead() {
    let setup = setup(config());
    let backend = || Node1::new(&setup, Time(0)).backend();
    let path = socket_path("stale");
    drop(UnixListener::bind(&path).unwrap());
    let server = Server::start(&path, backend()).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    assert!(matches!(Server::start(&path, backend()), Err(ServerError::Taken(_))));
    assert!(path.exists());
    // Somebody has put another file there: it is not ours to remove.
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "precious").unwrap();
    server.stop();
    assert!(matches!(Server::start(&path, backend()), Err(ServerError::NotASocket(_))));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    let nowhere = Path::new("/nonexistent/kv.sock");
    let error = Server::start(nowhere, backend()).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/kv.sock") && error.contains("folder must exist"), "{error}");
}
