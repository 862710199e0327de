//! The brokers that need nothing but what the workspace has anyway.

use clap::Parser;
use verge_bench_peers::arguments::Arguments;
use verge_bench_peers::{execute, links};

fn main() {
    if let Err(error) = execute(&Arguments::parse().command, links::peer) {
        eprintln!("verge-bench-peers: {error}");
        std::process::exit(1);
    }
}
