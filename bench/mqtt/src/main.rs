//! One measurement of an MQTT broker, given as JSON and reported as JSON; `bench/mqtt/measure.py` starts the brokers, plans the
//! measurements and writes the page.
//!
//! The load must cost far less than the broker: one thread, sockets that do not wait, many packets in one system call, and packets
//! that are copied from a template with a few bytes changed.

mod idle;
mod load;
mod urgent;

use serde::{Deserialize, Serialize};

/// What is to be measured.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    /// Publishers and subscribers, as fast as answers allow or at a rate.
    Load(load::Plan),
    /// A few urgent messages beside as many others as the broker takes.
    Urgent(urgent::Plan),
    /// Connections on which nothing happens.
    Idle(idle::Plan),
}

fn main() {
    let order = std::env::args().nth(1).unwrap_or_default();
    let done = match serde_json::from_str(&order) {
        Ok(Order::Load(plan)) => load::run(&plan).map(|report| print(&report)),
        Ok(Order::Urgent(plan)) => urgent::run(&plan).map(|report| print(&report)),
        Ok(Order::Idle(plan)) => idle::run(&plan).map(|report| print(&report)),
        Err(error) => {
            eprintln!("the order is no JSON that is understood ({error}); see bench/mqtt/measure.py");
            std::process::exit(2);
        }
    };
    if let Err(error) = done {
        eprintln!("the broker on that port: {error}");
        std::process::exit(1);
    }
}

fn print(report: &impl Serialize) {
    println!("{}", serde_json::to_string(report).expect("invariant: reports are numbers and words"));
}
