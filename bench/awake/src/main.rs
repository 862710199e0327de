//! Keeps processors awake until its input ends, as a broker does where `realtime.awake` is set: runners do it for every system that
//! they measure.

use host::Awake;
use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
    let awake = match Awake::start(&[]) {
        Ok(awake) => awake,
        Err(reason) => {
            eprintln!("not all processors are kept awake: {reason}");
            return ExitCode::FAILURE;
        }
    };
    println!("awake");
    let ended = io::copy(&mut io::stdin(), &mut io::sink());
    drop(awake);
    if ended.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
