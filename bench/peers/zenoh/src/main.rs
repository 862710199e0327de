//! Zenoh beside Verge: the load of `bench/peers` through Zenoh's own client, and the router that is loaded.
//!
//! `zenohd` is the library in the mode `router` with a loader of plugins around it; here it is the same library, in the same mode,
//! without plugins.

mod session;

use clap::Parser;
use std::io;
use std::path::{Path, PathBuf};
use verge_bench_peers::arguments::{Command, Common, Protocol};
use verge_bench_peers::links::{self, Peer};
use zenoh::{Config, Wait};

/// Loads a router of Zenoh, or is one.
#[derive(Parser)]
#[command(version)]
enum Words {
    /// The router; it ends with its process.
    Router {
        /// Its settings (JSON5).
        #[arg(long)]
        config: PathBuf,
        /// Where it listens: address and port.
        #[arg(long)]
        listen: String,
    },
    #[command(flatten)]
    Load(Command),
}

fn main() {
    let done = match Words::parse() {
        Words::Router { config, listen } => route(&config, &listen),
        Words::Load(command) => verge_bench_peers::execute(&command, find),
    };
    if let Err(error) = done {
        eprintln!("verge-bench-zenoh: {error}");
        std::process::exit(1);
    }
}

fn find(common: &Common) -> io::Result<Box<dyn Peer>> {
    match common.protocol {
        Protocol::Zenoh => {
            let router = session::Router(common.broker.clone());
            if let Some(priority) = threads_priority()? {
                router.start_threads(priority)?;
            }
            Ok(Box::new(router))
        }
        _ => links::peer(common),
    }
}

/// The priority of the library's own threads, if the environment says.
fn threads_priority() -> io::Result<Option<u8>> {
    let Ok(text) = std::env::var("ZENOH_THREADS_PRIORITY") else { return Ok(None) };
    text.parse()
        .map(Some)
        .map_err(|_| io::Error::other(format!("ZENOH_THREADS_PRIORITY={text} is no priority")))
}

/// For how many milliseconds messages may be collected to leave together, if the environment says.
fn collect(config: &mut Config) -> io::Result<()> {
    let Ok(most) = std::env::var("ZENOH_BATCHING_MS") else { return Ok(()) };
    config.insert_json5("transport/link/tx/queue/batching/time_limit", &most).map_err(io::Error::other)
}

fn route(settings: &Path, listen: &str) -> io::Result<()> {
    let mut config = Config::from_file(settings).map_err(io::Error::other)?;
    collect(&mut config)?;
    config.insert_json5("listen/endpoints", &format!("[\"tcp/{listen}\"]")).map_err(io::Error::other)?;
    let _session = zenoh::open(config).wait().map_err(io::Error::other)?;
    loop {
        std::thread::park();
    }
}
