#![doc = include_str!("../README.md")]

mod arguments;
mod commands;
mod habits;

use console::{Trouble, complain};
use rustix::process::{Signal, getpid, kill_process};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = habits::arguments();
    let watched = if arguments.while_input { end_with_input() } else { Ok(()) };
    match watched.and_then(|()| commands::run(arguments)) {
        Ok(code) => code,
        Err(trouble) => {
            complain(&trouble.to_string());
            ExitCode::from(console::TROUBLE)
        }
    }
}

/// Sends SIGTERM to this process when standard input ends.
fn end_with_input() -> Result<(), Trouble> {
    let watch = || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = kill_process(getpid(), Signal::TERM);
    };
    std::thread::Builder::new().name("input".to_owned()).spawn(watch)?;
    Ok(())
}
