//! The examples for users are built and run, where there are tools to build them with. What is missing is said.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use processing::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{compute, limits, set_up};

/// The lines that an example may have.
const LINES_MAX: usize = 40;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/operators")
}

/// Whether this command runs and succeeds.
fn works(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

/// Runs a build, which must succeed.
fn build(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_rust_example_says_when_numbers_lie_apart() {
    const TARGET: &str = "wasm32-unknown-unknown";
    let library = Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output();
    let library = library.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    if !library.is_ok_and(|path| Path::new(&path).is_dir()) {
        println!("SKIPPED: there is no Rust target {TARGET}; `rustup target add {TARGET}` installs it");
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rust-example");
    let mut cargo = Command::new(env!("CARGO"));
    for variable in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET", "CARGO_BUILD_RUSTFLAGS"] {
        cargo.env_remove(variable);
    }
    build(
        cargo
            .args(["build", "--release", "--offline"])
            .env("CARGO_TARGET_DIR", &folder)
            .current_dir(examples().join("rust")),
    );
    let module = std::fs::read(folder.join(TARGET).join("release/spread.wasm")).unwrap();
    let given = [("above", Value::Number(1.0)), ("output", Value::Text("f64".to_owned()))];
    let mut sandbox = set_up(&module, 1, &given, &limits()).unwrap();
    assert_eq!(compute(&mut sandbox, &[&[1.0, 4.5, 2.0]]), Ok(Some(vec![3.5])));
    assert_eq!(compute(&mut sandbox, &[&[1.0, 1.5]]), Ok(None));
    assert_eq!(compute(&mut sandbox, &[&[]]), Ok(None));
    assert!(compute(&mut sandbox, &[&[0.0; 4097]]).unwrap_err().to_string().contains("no room"));
}

#[test]
fn the_c_example_divides_what_is_newest() {
    if !works("clang", &["--print-targets"]) || !works("wasm-ld", &["--version"]) {
        println!("SKIPPED: there is no clang with wasm-ld; `apt-get install clang lld` installs them");
        return;
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ratio.wasm");
    let mut clang = Command::new("clang");
    clang.args(["--target=wasm32", "-O2", "-Wall", "-Werror", "-ffreestanding", "-nostdlib"]);
    clang.args(["-Wl,--no-entry", "-Wl,-z,stack-size=16384", "-o"]).arg(&file);
    build(clang.arg(examples().join("c/ratio.c")));
    let mut sandbox = set_up(&std::fs::read(file).unwrap(), 2, &[], &limits()).unwrap();
    assert_eq!(compute(&mut sandbox, &[&[6.0]]), Ok(None));
    assert_eq!(compute(&mut sandbox, &[&[6.0], &[4.0]]), Ok(Some(vec![1.5])));
    assert_eq!(compute(&mut sandbox, &[&[8.0]]), Ok(Some(vec![2.0])));
    assert_eq!(
        compute(&mut sandbox, &[&[8.0], &[0.0]]).unwrap_err().to_string(),
        "the module says that it failed"
    );
    assert!(compute(&mut sandbox, &[&[8.0, 9.0]]).unwrap_err().to_string().contains("no room"));
}

#[test]
fn the_examples_fit_on_a_screen() {
    for name in ["rust/src/lib.rs", "c/ratio.c"] {
        let lines = std::fs::read_to_string(examples().join(name)).unwrap().lines().count();
        assert!(lines < LINES_MAX, "{name} has {lines} lines");
    }
}
