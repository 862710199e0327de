//! One measurement of event processing, given as JSON and reported as JSON; `bench/processing/measure.py` plans them and writes the
//! page.
//!
//! Everything is in one process as it is in a broker, without the broker: a data thread supplies readings on time and takes
//! results, the shipped `Router` and `Workers` do the rest.

mod busy;
mod floor;
mod graphs;
mod hand_over;
mod kinds;
mod load;
mod process;
mod tally;
mod time;

use serde::{Deserialize, Serialize};

/// As in `verge`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What is to be measured.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    /// Streams of readings through the graphs of CPEP, figures 2.6 and 2.7.
    Load(load::Plan),
    /// The operators of figure 2.6 on bare threads.
    Floor(floor::Plan),
    /// What it takes from operator to operator.
    HandOver(hand_over::Plan),
}

fn main() {
    let order = std::env::args().nth(1).unwrap_or_default();
    match serde_json::from_str(&order) {
        Ok(Order::Load(plan)) => print(&load::run(&plan)),
        Ok(Order::Floor(plan)) => print(&floor::run(&plan)),
        Ok(Order::HandOver(plan)) => print(&hand_over::run(&plan)),
        Err(error) => {
            eprintln!("the order is no JSON that is understood ({error}); see bench/processing/measure.py");
            std::process::exit(2);
        }
    }
}

fn print(report: &impl Serialize) {
    println!("{}", serde_json::to_string(report).expect("invariant: reports are numbers and words"));
}
