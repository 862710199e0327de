//! Brokers that run operators, as real processes: what their status shows, what a bad message does, and what SIGHUP changes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use support::{PATIENT, Pair, wait_for, wait_until};
use verge::{Publisher, Subscription};

const PLANT: &str = "\
[[topic]]
filter = \"turbine/+/temp\"
period = \"100ms\"
deadline = \"500ms\"
loss = 0
retain = 10
";

/// A source, and an operator that turns degrees into kelvin, on a topic of its own.
fn kelvin(output: &str, more: &str) -> String {
    format!(
        "[[source]]\ntopic = \"turbine/+/temp\"\ntype = \"json:value\"\n\
         [[operator]]\nname = \"kelvin\"\nkind = \"scale\"\ninputs = [\"turbine/+/temp\"]\nfrom = \"degC\"\nto = \"K\"\n\
         cost = \"100us\"\noutput = \"turbine/+/{output}\"\n{more}"
    )
}

const IN_TIME: &str = "deadline = \"400ms\"\n";

/// A pair with the operator, somebody who publishes a temperature and somebody who reads the result.
struct Plant {
    pair: Pair,
    primary: usize,
    publisher: Publisher,
    results: Subscription,
    /// The configuration without operators.
    base: String,
}

impl Plant {
    fn start() -> Plant {
        let pair = Pair::start(&format!("{PATIENT}{PLANT}{}", kelvin("kelvin", IN_TIME)));
        let primary = pair.wait_for_protection();
        let text = std::fs::read_to_string(&pair.site.config).unwrap();
        let base = text.split("[[source]]").next().unwrap().to_owned();
        let client = pair.site.client();
        let results = client.subscribe("turbine/#").unwrap();
        let publisher = client.publisher_by_configuration("turbine/7/temp").unwrap();
        Plant { pair, primary, publisher, results, base }
    }

    fn publish(&self, text: &str) {
        self.publisher.publish(text.as_bytes()).unwrap();
        // The period of the contract.
        std::thread::sleep(Duration::from_millis(101));
    }

    /// Publishes until a result comes on this topic; returns it.
    fn result_on(&self, topic: &str) -> f64 {
        wait_for(&format!("a result on {topic}"), || {
            self.publish("{\"value\": 20.0}");
            let message = std::iter::from_fn(|| self.results.next_within(Duration::ZERO));
            let message = message.filter(|message| &*message.topic == topic).last()?;
            Some(f64::from_le_bytes(message.payload.get(..8)?.try_into().unwrap()))
        })
    }

    /// The rows of operators and of levels.
    fn status(&self) -> (Value, Value) {
        let ran = self.pair.site.run(&["status", "--format", "json"]);
        let report: Value = serde_json::from_str(&ran.out).unwrap();
        (report["operators"].clone(), report["levels"].clone())
    }

    /// Writes other operators, and has the primary read them; returns what it then says for the first time.
    fn hang_up(&mut self, operators: &str, says: &str) -> String {
        std::fs::write(&self.pair.site.config, format!("{}{operators}", self.base)).unwrap();
        let primary = self.primary;
        let before = self.pair.broker(primary).log().len();
        self.pair.broker(primary).signal(Signal::HUP);
        wait_for(says, || {
            let log = self.pair.broker(primary).log()[before..].to_owned();
            log.contains(says).then_some(log)
        })
    }
}

#[test]
fn the_status_shows_operators_and_bad_messages_are_faults_that_harm_no_other() {
    let mut plant = Plant::start();
    for _ in 0..3 {
        plant.publish("{\"value\": 20.0}");
        plant.publish("nonsense");
    }
    assert!((plant.result_on("turbine/7/kelvin") - 293.15).abs() < 1e-6);
    wait_until("the counts", || {
        let (operators, _) = plant.status();
        operators[0]["faults"] == 3 && operators[0]["results"].as_u64() >= Some(4)
    });
    let (operators, levels) = plant.status();
    let [row] = &operators.as_array().unwrap()[..] else { panic!("one operator: {operators}") };
    assert_eq!(row["operator"], "kelvin[7]");
    let count = |name: &str| row[name].as_u64().unwrap();
    assert_eq!(count("runs"), count("results") + count("faults"), "{row}");
    assert!(row["mean_us"].as_f64() > Some(0.0) && row["worst_us"].as_f64() >= row["mean_us"].as_f64());
    let [level] = &levels.as_array().unwrap()[..] else { panic!("one level: {levels}") };
    assert_eq!((level["operators"].as_u64(), level["refused"].as_u64()), (Some(1), Some(0)));
    assert_eq!(level["overdue"], 0);
    assert!(level["busy_percent"].as_f64() > Some(0.0));
    let shown = plant.pair.site.run(&["status"]);
    for text in ["busy %", "worst ms", "refused", "shed abs", "faults", "mean us", "kelvin[7]"] {
        assert!(shown.out.contains(text), "lacks {text}: {}", shown.out);
    }
    let primary = plant.primary;
    let log = plant.pair.broker(primary).log();
    assert!(log.contains("the operator `kelvin[7]` failed"), "{log}");
    let report = plant.pair.report(primary).unwrap();
    assert!(report.counter("results") >= 4, "{:?}", report.counters);
}

/// Does nothing with 1, never ends with 2, gives up with 3, and says that it failed with 4.
const MOODY: &str = r#"(module
    (memory (export "memory") 1)
    (func (export "verge_abi_version") (result i32) (i32.const 1))
    (func (export "verge_input") (param i32 i32 i64) (result i32) (i32.const 1024))
    (func (export "verge_run") (param i64) (result i64)
        (if (f64.eq (f64.load (i32.const 1024)) (f64.const 2)) (then (loop $again (br $again))))
        (if (f64.eq (f64.load (i32.const 1024)) (f64.const 3)) (then (unreachable)))
        (if (f64.eq (f64.load (i32.const 1024)) (f64.const 4)) (then (return (i64.const -2))))
        (i64.const 0x40000000008)))"#;

#[test]
fn a_module_that_fails_is_counted_and_told_by_cause() {
    let site = support::Site::new(&format!(
        "{PATIENT}[[topic]]\nfilter = \"a\"\nperiod = \"20ms\"\ndeadline = \"500ms\"\nloss = \"unbounded\"\n\
         [[source]]\ntopic = \"a\"\ntype = \"f64\"\n\
         [[operator]]\nname = \"moody\"\nkind = \"wasm\"\nmodule = \"moody.wasm\"\nbudget = \"2ms\"\ncost = \"2ms\"\n\
         inputs = [\"a\"]\noutput = \"o\"\n"
    ));
    site.folder.write("moody.wasm", wat::parse_str(MOODY).unwrap());
    let mut pair = Pair::start_on(site);
    let primary = pair.wait_for_protection();
    let client = pair.site.client();
    let results = client.subscribe("o").unwrap();
    let publisher = client.publisher_by_configuration("a").unwrap();
    let publish = |value: f64| {
        publisher.publish(&value.to_le_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(21));
    };
    wait_until("a result", || {
        publish(1.0);
        results.next_within(Duration::ZERO).is_some()
    });
    [2.0, 3.0, 2.0, 4.0, 1.0].into_iter().for_each(publish);
    wait_until("the failed runs by cause", || {
        let ran = pair.site.run(&["status", "--format", "json"]);
        let report: Value = serde_json::from_str(&ran.out).unwrap();
        let row = report["operators"][0].clone();
        (&row["faults"], &row["runaways"], &row["traps"]) == (&4.into(), &2.into(), &1.into())
    });
    let log = pair.broker(primary).log();
    for text in [
        "the operator `moody` failed: it did not end within its budget of 2ms",
        "raise the operator's `budget`",
    ] {
        assert!(log.contains(text), "lacks {text}: {log}");
    }
}

/// Counts its runs.
const COUNTS: &str = r#"(module
    (memory (export "memory") 1)
    (global $count (mut f64) (f64.const 0))
    (func (export "verge_abi_version") (result i32) (i32.const 1))
    (func (export "verge_input") (param i32 i32 i64) (result i32) (i32.const 1024))
    (func (export "verge_run") (param i64) (result i64)
        (global.set $count (f64.add (global.get $count) (f64.const 1)))
        (f64.store (i32.const 0) (global.get $count))
        (i64.const 8))
    (func (export "verge_save") (result i64)
        (f64.store (i32.const 8) (global.get $count))
        (i64.const 0x800000008))
    (func (export "verge_restore") (param i32) (result i32)
        (global.set $count (f64.load (i32.const 1024)))
        (i32.ne (local.get 0) (i32.const 8))))"#;

/// The reading of a number: high for a while in each hundred.
fn reading(seq: u64) -> f64 {
    if (40..90).contains(&(seq % 100)) { 100.0 + (seq % 7) as f64 } else { (seq % 10) as f64 }
}

/// What the mean over eight readings is that ends with this one.
fn mean(seq: u64) -> f64 {
    let readings = || (seq.saturating_sub(7)..=seq).map(reading);
    readings().sum::<f64>() / readings().count() as f64
}

#[test]
fn what_operators_remember_survives_deaths_of_the_primary() {
    let operator = |name: &str, kind: &str, more: &str| {
        format!(
            "[[operator]]\nname = \"{name}\"\nkind = \"{kind}\"\ninputs = [\"p\"]\noutput = \"{name}\"\ncost = \"1ms\"\n{more}"
        )
    };
    let site = support::Site::new(&format!(
        "{PATIENT}[[topic]]\nfilter = \"p\"\nperiod = \"20ms\"\ndeadline = \"500ms\"\nloss = 0\nretain = 40\n\
         [[source]]\ntopic = \"p\"\ntype = \"f64\"\n{}{}{}",
        operator("mean", "average", "window = 8\n"),
        operator("alarm", "threshold", "above = 50\n"),
        operator("count", "wasm", "module = \"counts.wasm\"\nanswers = \"always\"\n"),
    ));
    site.folder.write("counts.wasm", wat::parse_str(COUNTS).unwrap());
    let mut pair = Pair::start_on(site);
    let mut primary = pair.wait_for_protection();
    let client = pair.site.client();
    let results = client.subscribe("#").unwrap();
    let publisher = client.publisher_by_configuration("p").unwrap();
    let (mut seq, mut got) = (0, BTreeMap::new());
    let mut publish = |count: u64, got: &mut BTreeMap<(String, u64), f64>| {
        for _ in 0..count {
            assert_eq!(publisher.publish(&reading(seq).to_le_bytes()).unwrap(), seq);
            seq += 1;
            std::thread::sleep(Duration::from_millis(21));
            while let Some(message) = results.next_within(Duration::ZERO) {
                let value = f64::from_le_bytes(message.payload[..8].try_into().unwrap());
                got.insert((message.topic.to_string(), message.seq), value);
            }
        }
        seq
    };
    for _ in 0..3 {
        // Somewhere in a window, an alarm that is raised, and a count.
        publish(57, &mut got);
        pair.kill(primary);
        publish(30, &mut got);
        pair.restart(primary);
        primary = pair.wait_for_protection();
    }
    let sent = publish(20, &mut got);
    for seq in 0..sent {
        let result = |name: &str| got.get(&(name.to_owned(), seq)).copied();
        let kept = [result("p"), result("mean"), result("count")];
        assert_eq!(
            kept,
            [Some(reading(seq)), Some(mean(seq)), Some(seq as f64 + 1.0)],
            "number {seq} of {sent}"
        );
        let is_high = |seq: u64| reading(seq) > 50.0;
        let (raised, before) = (is_high(seq), seq.checked_sub(1).is_some_and(is_high));
        assert_eq!(
            result("alarm"),
            (raised != before).then_some(f64::from(u8::from(raised))),
            "number {seq}"
        );
    }
}

#[test]
fn without_operators_the_status_has_no_rows_of_them() {
    let pair = Pair::start(PATIENT);
    let shown = pair.site.run(&["status"]);
    shown.must(0, &["primary", "backup"]);
    assert!(!shown.out.contains("busy %") && !shown.out.contains("shed abs"), "{}", shown.out);
}

#[test]
fn sighup_keeps_begins_and_ends_graphs() {
    let mut plant = Plant::start();
    plant.result_on("turbine/7/kelvin");
    let runs = |plant: &Plant| plant.status().0[0]["runs"].as_u64().unwrap();
    let before = runs(&plant);
    let same = kelvin("kelvin", IN_TIME);
    plant.hang_up(&same, "operators: 1 graphs go on, 0 begin, 0 have ended");
    assert!(runs(&plant) >= before, "its counts go on with it");
    plant.hang_up(&kelvin("absolute", IN_TIME), "operators: 0 graphs go on, 1 begin, 1 have ended");
    assert!((plant.result_on("turbine/7/absolute") - 293.15).abs() < 1e-6);
    plant.hang_up("", "operators: 0 graphs go on, 0 begin, 1 have ended");
    wait_until("the end of the operator", || plant.status().0.as_array().unwrap().is_empty());
}

#[test]
fn sighup_with_a_broken_file_or_a_deadline_that_cannot_be_kept_changes_nothing() {
    let mut plant = Plant::start();
    plant.result_on("turbine/7/kelvin");
    let log = plant.hang_up("[[operator]]\nname = \n", "the configuration is not taken over");
    assert!(log.contains("operators go on as before"), "{log}");
    plant.result_on("turbine/7/kelvin");
    let tight = kelvin("kelvin", "deadline = \"20us\"\n");
    let log = plant.hang_up(&tight, "the configuration is not taken over");
    for text in ["turbine/+/kelvin", "the result takes", "longer than its deadline of 20us", "would do"] {
        assert!(log.contains(text), "lacks {text}: {log}");
    }
    plant.result_on("turbine/7/kelvin");
    assert_eq!(plant.pair.broker(plant.primary).terminate(), Some(0));
}

#[test]
fn results_go_where_they_belong_after_several_changes() {
    let mut plant = Plant::start();
    plant.result_on("turbine/7/kelvin");
    for name in ["absolute", "warm", "kelvin"] {
        plant.hang_up(&kelvin(name, IN_TIME), "operators: 0 graphs go on, 1 begin, 1 have ended");
        plant.result_on(&format!("turbine/7/{name}"));
    }
    // Another contract on the same topic.
    plant.hang_up(
        &kelvin("kelvin", "deadline = \"45ms\"\n"),
        "operators: 0 graphs go on, 1 begin, 1 have ended",
    );
    assert!((plant.result_on("turbine/7/kelvin") - 293.15).abs() < 1e-6);
}
