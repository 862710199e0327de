//! Control tasks on a store, reported as JSON; `bench/kv/measure.py` starts nodes and servers, one process of this program for each node, and
//! writes the page.
//!
//! Tasks are the same on every store, behind the trait of `stores`: released at multiples of their period on the system's clock, they
//! read what the task before them wrote, compute, and write for their next release. An iteration has read if all its reads succeeded,
//! and has written if all its writes did. A release that comes too late to be served is an iteration that has done neither.

mod account;
mod arguments;
mod http;
mod links;
mod pendulum;
mod reads;
mod stores;
mod tasks;
mod workload;

use arguments::{Arguments, Command};
use clap::Parser;
use serde::Serialize;
use std::error::Error;

/// Whatever ends the program; the message says what to do.
type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() {
    let done = match Arguments::parse().command {
        Command::Tasks(plan) => tasks::run(&plan).and_then(|report| print(&report)),
        Command::Reads(plan) => reads::run(&plan).and_then(|report| print(&report)),
        Command::Links(plan) => links::run(&plan).and_then(|report| print(&report)),
    };
    if let Err(error) = done {
        eprintln!("verge-bench-kv: {error}");
        std::process::exit(1);
    }
}

fn print(report: &impl Serialize) -> Outcome<()> {
    println!("{}", serde_json::to_string(report)?);
    Ok(())
}
