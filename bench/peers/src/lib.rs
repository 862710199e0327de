//! One measurement of one broker, reported as a JSON object; `bench/peers/measure.py` starts the brokers, plans the measurements and writes
//! the page.
//!
//! Every broker has the same load, behind the two traits of `links`: a connection that publishes writes in the thread that
//! publishes, a connection that subscribes reads in a thread of its own. Latency counts from the time at which a message was to be
//! sent, so a load or a broker that is held up shows in it. Every message has a number, so what is missing is counted.
//!
//! A library, so that a program with dependencies of its own (`bench/peers/zenoh`) loads its broker in the same way.

mod account;
pub mod arguments;
mod commands;
mod crash;
mod ends;
mod frame;
mod keeper;
pub mod links;
mod observe;
pub mod pace;
mod pingpong;
mod relay;
mod socket;
mod stream;
mod urgent;

use arguments::Command;
use links::Find;
use serde::Serialize;
use std::io;

/// Does what is asked, with the broker that `find` gives, and prints what came of it.
///
/// # Errors
/// Where the broker cannot be reached or does not do what it should.
pub fn execute(command: &Command, find: Find) -> io::Result<()> {
    match command {
        Command::Pingpong(plan) => print(&pingpong::run(plan, find)?),
        Command::Flood(plan) => print(&stream::flood(plan, find)?),
        Command::Fanout(plan) => print(&stream::fan_out(plan, find)?),
        Command::Urgent(plan) => print(&urgent::run(plan, find)?),
        Command::Frame(plan) => print(&frame::run(plan, find)?),
        Command::Crash(plan) => print(&crash::run(plan, find)?),
        Command::Publish(plan) => print(&ends::publish(plan, find)?),
        Command::Receive(plan) => print(&ends::receive(plan, find)?),
        Command::Echo(plan) => print(&ends::echo(plan)?),
        Command::Commands(plan) => print(&commands::run(plan)?),
        Command::SetUp(plan) => print(&commands::set_up(plan)?),
        Command::Relay { listen, keep } => relay::run(*listen, *keep),
    }
}

fn print(report: &impl Serialize) -> io::Result<()> {
    println!("{}", serde_json::to_string(report)?);
    Ok(())
}
