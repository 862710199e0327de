#![doc = include_str!("../README.md")]

mod allocator;
mod arguments;
mod commands;
mod config;
mod doctor;
mod kinds;
mod output;
mod recording;
mod users;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = arguments::Arguments::parse();
    match commands::run(arguments) {
        Ok(code) => code,
        Err(trouble) => {
            eprintln!("{trouble}");
            ExitCode::from(output::TROUBLE)
        }
    }
}
