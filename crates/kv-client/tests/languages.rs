//! The examples in C, Python and Rust, with a real lane of one node; and what C and Python are told when something is refused.
//! Without a C compiler or Python those tests say SKIPPED.
#![allow(clippy::unwrap_used, reason = "tests fail by panics")]

#[path = "../../kv-shared/tests/common/mod.rs"]
mod common;

use common::house::House;
use common::wait_for;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use verge_kv::{Client, Options, Time};

/// The folder where cargo puts the library for C and the examples.
fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let mut folders = test.ancestors().skip(1).take(2).map(|folder| folder.join(name));
    folders
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("{name} was not built beside {}", test.display()))
}

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn is_there(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        eprintln!("SKIPPED: {program} is not installed, so the examples for it are not tried");
    }
    there
}

fn compile(program: &Path, to: &Path) {
    let library = built("libverge_kv.so");
    let folder = library.parent().unwrap();
    let output = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1"])
        .arg(program)
        .arg("-I")
        .arg(source("crates/kv-client/include"))
        .arg("-L")
        .arg(folder)
        .args(["-lverge_kv", "-o"])
        .arg(to)
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn python(script: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("python3");
    command.arg(script).env("PYTHONPATH", source("python")).env("VERGE_KV_LIBRARY", built("libverge_kv.so"));
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// How often an example may be too late for its node, on a machine that has no time for either.
const TRIES: usize = 10;

/// Ten periods of the example: its state goes through the store and converges, and another application sees it.
fn control(name: &str, mut example: Command) {
    let house = House::start(name);
    example.arg(&house.path).arg("10");
    let mut seen = String::new();
    let through = (0..TRIES).any(|_| {
        let output = example.output().unwrap();
        let text = words(&output);
        let number = |name: &str| -> f64 {
            let mut fields = text.split_whitespace().skip_while(|field| *field != name);
            fields.nth(1).unwrap().parse().unwrap()
        };
        assert!(number("state") > 1.9 && number("state") < 2.0 && number("runs") == 10.0, "{text}");
        seen += &text;
        seen += &String::from_utf8_lossy(&output.stderr);
        number("written") > 2.0 && number("read") > 2.0
    });
    assert!(through, "in {TRIES} runs it read or wrote next to nothing:\n{seen}");
    let lane = Client::attach(&house.path, 0, &Options::default()).unwrap();
    let angle = lane.key("pendulum/angle").unwrap();
    wait_for("the last state", || {
        let state = lane.read_number::<f64>(&angle, Time::ZERO).unwrap().number;
        // The last one may have been refused.
        state > 1.5 && state < 2.0
    });
    let node = house.end();
    assert!(node.problems.is_empty(), "{:?}", node.problems);
}

#[test]
fn the_example_in_c_controls() {
    if !is_there("cc") {
        return;
    }
    let program = std::env::temp_dir().join(format!("verge-kv-control-{}", std::process::id()));
    compile(&source("examples/kv/control.c"), &program);
    control("c", Command::new(&program));
    std::fs::remove_file(program).unwrap();
}

#[test]
fn the_example_in_python_controls() {
    if is_there("python3") {
        control("python", python(source("examples/kv/control.py")));
    }
}

#[test]
fn the_example_in_rust_controls() {
    control("rust", Command::new(built("examples/control")));
}

#[test]
fn c_is_told_what_was_refused_and_why() {
    if !is_there("cc") {
        return;
    }
    let folder = std::env::temp_dir().join(format!("verge-kv-refusals-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("refusals");
    compile(&source("crates/kv-client/tests/refusals.c"), &program);
    let (house, lacking) = (House::start("c-refusals"), House::lacking("c-lacking"));
    let output = Command::new(&program).args([&house.path, &lacking.path]).output().unwrap();
    assert_eq!(words(&output), "all is as it should be\n");
    house.end();
    lacking.end();
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn python_is_told_what_was_refused_and_why() {
    if !is_there("python3") {
        return;
    }
    let (house, lacking) = (House::start("py-refusals"), House::lacking("py-lacking"));
    let mut program = python(source("crates/kv-client/tests/refusals.py"));
    let output = program.args([&house.path, &lacking.path]).output().unwrap();
    assert_eq!(words(&output), "all is as it should be\n");
    house.end();
    lacking.end();
}
