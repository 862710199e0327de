//! A controller whose state lives in the store: it may run on several nodes at once, and all of them compute the same.
//!
//!     cargo run --example control -- SOCKET [ROUNDS]

use std::error::Error;
use std::ops::ControlFlow;
use std::time::Duration;
use verge_kv::{Client, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let socket = arguments.next().ok_or("usage: control SOCKET [ROUNDS]")?;
    let rounds: u64 = arguments.next().map_or(Ok(u64::MAX), |rounds| rounds.parse())?;

    let options = Options { tuples: 1, name: "control-rust".into(), wait: Duration::from_secs(10) };
    let mut lane = Client::attach(socket, 0, &options)?;
    let angle = lane.key("pendulum/angle")?;
    // Refusals only mean that other programs may get in the way.
    for refusal in verge_kv::realtime(Some(20), None) {
        eprintln!("{refusal}");
    }

    let (mut state, mut read, mut written) = (0.0, 0, 0);
    let period = lane.facts().period;
    let report = lane.every(period, |job| {
        // What this and the other replicas agreed on; where nothing came of it, the own state has to do.
        match job.read_number::<f64>(&angle) {
            Ok(agreed) => (state, read) = (agreed.number, read + 1),
            Err(error) => eprintln!("{error}"),
        }
        state = 0.5 * state + 1.0;
        match job.write_number(&angle, state) {
            Ok(()) => written += 1,
            Err(error) => eprintln!("{error}"),
        }
        if job.report().runs < rounds { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    println!("state {state:.6} read {read} written {written} runs {} missed {}", report.runs, report.missed);
    Ok(())
}
