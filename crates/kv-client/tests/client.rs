//! Applications in Rust at a real lane of one node.
#![allow(clippy::unwrap_used, reason = "tests fail by panics")]

#[path = "../../kv-shared/tests/common/mod.rs"]
mod common;

use common::house::House;
use common::{socket_path, wait_for};
use std::ops::ControlFlow;
use std::time::Duration;
use verge_kv::{Client, Error, Node, Options, Releases, Span, Stamped, Time, now};

fn options(tuples: usize) -> Options {
    Options { tuples, ..Options::default() }
}

#[test]
fn what_a_task_writes_is_there_at_its_next_release() {
    let house = House::start("every");
    let mut lane = Client::attach(&house.path, 0, &options(2)).unwrap();
    let (angle, text) = (lane.key("pendulum/angle").unwrap(), lane.key("text").unwrap());
    let period = lane.facts().period;
    let (mut came, mut last) = (0, Time::ZERO);
    let report = lane.every(period, |job| {
        assert_eq!(job.release().0 % period.0 as u64, 0);
        assert!(job.release() > last && job.release() <= now(), "each release once, and not before its time");
        last = job.release();
        if let Ok(Stamped { stamp, number }) = job.read_number::<f64>(&angle) {
            // What it wrote one period ago, or two if a coordination failed.
            assert!(stamp == job.release() || stamp == job.freshness());
            assert_eq!(number, stamp.0 as f64);
            assert_eq!(job.read_number::<f32>(&text).unwrap().number, 0.5);
            came += 1;
        }
        let publishing = job.publishing();
        let written =
            job.write_number(&angle, publishing.0 as f64).and_then(|()| job.write_number(&text, 0.5));
        assert!(written.is_ok() || written.unwrap_err().may_pass());
        if came < 5 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    assert!(report.unwrap().runs >= 6);
    let node = house.end();
    assert_eq!((node.refused, node.problems), (0, Vec::new()));
    assert_eq!(lane.node_alive(), Err(verge_kv::Gone::Ended));
    let gone = lane.write(&angle, &[0; 8], now() + period * 2).unwrap_err();
    assert!(gone.to_string().contains("key `pendulum/angle`: the node has ended"), "{gone}");
}

#[test]
fn a_reader_of_a_slower_writer_takes_its_latest_release() {
    let house = House::start("slower");
    let (mut slow, mut fast) = (
        Client::attach(&house.path, 0, &options(1)).unwrap(),
        Client::attach(&house.path, 0, &options(1)).unwrap(),
    );
    let period = fast.facts().period;
    let slow_period = period * 3;
    let key = slow.key("a").unwrap();
    let writing = std::thread::spawn(move || {
        slow.every(slow_period, |job| {
            let _ = job.write(&key, b"slow");
            if job.report().runs < 8 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
    });
    let key = fast.key("a").unwrap();
    let mut came = 0;
    fast.every(period, |job| {
        let mut buffer = [0; 16];
        let wanted = job.freshness_from(slow_period);
        assert_eq!(wanted, Releases::latest(job.release(), slow_period));
        assert_eq!(job.freshness_from(period), job.release() - period);
        if let Ok(value) = job.read_from(&key, slow_period, &mut buffer) {
            assert!(value.stamp >= wanted && value.bytes == b"slow");
            came += 1;
        }
        if came < 6 && !writing.is_finished() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
    .unwrap();
    assert!(came >= 3, "each value is read in three periods");
    writing.join().unwrap().unwrap();
    house.end();
}

#[test]
fn releases_that_a_task_misses_are_counted_and_left_out() {
    let house = House::start("missed");
    let mut lane = Client::attach(&house.path, 0, &options(1)).unwrap();
    let period = lane.facts().period;
    let mut releases = Vec::new();
    let report = lane.every(period, |job| {
        releases.push(job.release());
        if releases.len() == 2 {
            std::thread::sleep(Duration::from_millis(350));
        }
        if releases.len() < 4 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let report = report.unwrap();
    let elapsed = releases[3].since(releases[0]).0 / period.0 + 1;
    assert_eq!(report.runs + report.missed, elapsed as u64, "each release was run or missed");
    assert!(report.runs == 4 && report.missed >= 2);
    house.end();
}

#[test]
fn refusals_name_the_key_and_the_remedy() {
    let path = socket_path("nobody");
    let nobody = Client::attach(&path, 0, &options(1)).unwrap_err().to_string();
    std::fs::remove_dir(path.parent().unwrap()).unwrap();
    assert!(nobody.contains("kv.sock") && nobody.contains("is the node running"), "{nobody}");
    let house = House::start("refusals");
    let lane_one = Client::attach(&house.path, 1, &options(1)).unwrap_err().to_string();
    assert!(lane_one.contains("no such lane"), "{lane_one}");
    let many = Client::attach(&house.path, 0, &options(31)).unwrap_err().to_string();
    assert!(many.contains("30 of the lane's 30 tuples"), "{many}");
    let mut lane = Client::attach(&house.path, 0, &options(2)).unwrap();
    assert!(matches!(lane.key("b"), Err(Error::UnknownKey(key)) if key == "b"));
    assert_eq!(
        lane.keys().map(|key| key.name().to_owned()).collect::<Vec<_>>(),
        ["a", "mine", "pendulum/angle", "text", "theirs"]
    );
    let (a, theirs, mine) = (lane.key("a").unwrap(), lane.key("theirs").unwrap(), lane.key("mine").unwrap());
    assert!(a.may_write() && !theirs.may_write());
    assert_eq!((a.format(), mine.format()), (None, Some(verge_kv::Format::I64)));
    let period = lane.facts().period;
    let soon = |periods: u64| now() + period * periods;
    wait_for("the node", || lane.node_alive().is_ok());
    for (error, words, may_pass) in [
        (lane.read_now(&a, &mut []).unwrap_err(), "key `a`: nothing has been published", true),
        (
            lane.write(&theirs, b"v", soon(2)).unwrap_err(),
            "key `theirs`: this node is not one of the key's `writers`",
            false,
        ),
        (lane.write(&a, b"v", Time(1)).unwrap_err(), "key `a`: the publishing time was", true),
        (lane.write(&a, b"v", soon(100)).unwrap_err(), "`horizon`", false),
        (lane.write(&a, &[0; 17], soon(2)).unwrap_err(), "key `a`: a value of 17 bytes", false),
        (
            lane.write_number(&mine, 0.5, soon(2)).unwrap_err(),
            "key `mine`: the value is not a finite number",
            false,
        ),
        (
            lane.every(Span::millis(150), |_| ControlFlow::Break(())).unwrap_err(),
            "a whole multiple of the lane's, 100ms",
            false,
        ),
    ] {
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(error.may_pass(), may_pass, "{error}");
    }
    let full = std::iter::repeat_with(|| lane.write(&a, b"no number", now() + period * 5))
        .find_map(Result::err)
        .unwrap();
    assert!(full.to_string().contains("2 tuples wait"), "{full}");
    wait_for("the value", || lane.read_now(&a, &mut [0; 16]).is_ok());
    let none = lane.read_number::<f64>(&a, Time::ZERO).unwrap_err().to_string();
    assert!(none.contains("key `a`: its value of 9 bytes is no f64"), "{none}");
    let small = lane.read_now(&a, &mut [0; 4]).unwrap_err().to_string();
    assert!(small.contains("the value has 9 bytes, and the buffer 4"), "{small}");
    house.end();
}

#[test]
fn a_node_that_lacks_something_says_so_and_that_may_pass() {
    let house = House::lacking("lacking");
    let mut lane = Client::attach(&house.path, 0, &options(1)).unwrap();
    let a = lane.key("a").unwrap();
    wait_for("the node", || lane.node_alive().is_ok());
    for (error, words) in [
        (lane.read_now(&a, &mut [0; 16]).unwrap_err(), "key `a`: this node has missed a job"),
        (
            lane.write(&a, b"v", now() + lane.facts().period * 5).unwrap_err(),
            "key `a`: this node does not know what the others",
        ),
    ] {
        assert!(error.to_string().contains(words) && error.may_pass(), "{error}");
    }
    house.end();
}

#[test]
fn whoever_is_fail_safe_reads_nothing_while_the_alarm_is_on() {
    let (house, alarmed) = (House::start("safe"), House::lacking("alarmed"));
    for (house, on) in [(&house, false), (&alarmed, true)] {
        let lane = Client::attach(&house.path, 0, &options(1)).unwrap();
        let (a, other) = (lane.key("a").unwrap(), lane.reader().clone());
        lane.fail_safe(true);
        assert_eq!(lane.alarm(), on);
        for reader in [lane.reader(), &other] {
            let error = reader.read_now(&a, &mut [0; 16]).unwrap_err();
            assert_eq!(error.to_string().contains("nothing that was read can be trusted"), on, "{error}");
            let error = reader.read_vector(&a, Time::ZERO, &mut [0; 99]).unwrap_err();
            assert_eq!(error.to_string().contains("nothing that was read can be trusted"), on, "{error}");
        }
        lane.fail_safe(false);
        let error = lane.read_now(&a, &mut [0; 16]).unwrap_err();
        assert!(!error.to_string().contains("can be trusted"), "{error}");
    }
    house.end();
    alarmed.end();
}

#[test]
fn it_is_known_who_proposed_what() {
    let house = House::start("vector");
    let mut lane = Client::attach(&house.path, 0, &options(2)).unwrap();
    let angle = lane.key("pendulum/angle").unwrap();
    assert_eq!(lane.nodes(), ["only", "other"]);
    assert_eq!(lane.vector_bytes_max(), 2 * (3 + lane.facts().value_bytes_max));
    let mut buffer = vec![0; lane.vector_bytes_max()];
    let error = lane.read_vector(&angle, Time::ZERO, &mut buffer).unwrap_err();
    assert!(error.to_string().contains("no vector is there: nothing has been published"), "{error}");
    let mut publishing = Time::ZERO;
    wait_for("a write", || {
        publishing = now() + lane.facts().period * 3;
        lane.write_number(&angle, 0.5, publishing).is_ok()
    });
    wait_for("its instant", || lane.read_number::<f64>(&angle, publishing).is_ok());
    let vector = lane.read_vector(&angle, publishing, &mut buffer).unwrap();
    assert_eq!(vector.stamp, publishing, "that of the value");
    assert_eq!(vector.said().collect::<Vec<_>>(), [(Node(0), &0.5_f64.to_le_bytes()[..])]);
    let error = lane.read_vector(&angle, publishing, &mut [0; 4]).unwrap_err();
    assert!(error.to_string().contains("the buffer 4"), "{error}");
    house.end();
}

#[test]
fn a_client_waits_for_its_node_and_gives_its_place_back() {
    let path = socket_path("waits");
    let attaching = std::thread::spawn(move || {
        let options = Options { tuples: 30, wait: Duration::from_secs(30), ..Options::default() };
        Client::attach(path, 0, &options)
    });
    std::thread::sleep(Duration::from_millis(100));
    let house = House::start("waits");
    let lane = attaching.join().unwrap().unwrap();
    assert_eq!((lane.tuples_max(), house.seats.lock().unwrap().quotas.left()), (30, 0));
    drop(lane);
    wait_for("its share", || house.seats.lock().unwrap().quotas.left() == 30);
    house.end();
}
