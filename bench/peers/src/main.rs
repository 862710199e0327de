//! One measurement of one broker, reported as a JSON object; `bench/peers.py` starts the brokers, plans the measurements and writes
//! the page.
//!
//! Every broker has the same load, behind the two traits of `links`: a connection that publishes writes in the thread that
//! publishes, a connection that subscribes reads in a thread of its own. Latency counts from the time at which a message was to be
//! sent, so a load or a broker that is held up shows in it. Every message has a number, so what is missing is counted.

mod account;
mod arguments;
mod crash;
mod frame;
mod links;
mod observe;
mod pace;
mod pingpong;
mod relay;
mod socket;
mod stream;
mod urgent;

use arguments::{Arguments, Command};
use clap::Parser;
use serde::Serialize;
use std::io;

fn main() {
    let done = match Arguments::parse().command {
        Command::Pingpong(plan) => pingpong::run(&plan).and_then(|report| print(&report)),
        Command::Flood(plan) => stream::flood(&plan).and_then(|report| print(&report)),
        Command::Fanout(plan) => stream::fan_out(&plan).and_then(|report| print(&report)),
        Command::Urgent(plan) => urgent::run(&plan).and_then(|report| print(&report)),
        Command::Frame(plan) => frame::run(&plan).and_then(|report| print(&report)),
        Command::Crash(plan) => crash::run(&plan).and_then(|report| print(&report)),
        Command::Relay { listen } => relay::run(listen),
    };
    if let Err(error) = done {
        eprintln!("verge-bench-peers: {error}");
        std::process::exit(1);
    }
}

fn print(report: &impl Serialize) -> io::Result<()> {
    println!("{}", serde_json::to_string(report)?);
    Ok(())
}
