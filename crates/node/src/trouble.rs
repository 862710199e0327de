//! What ends a command or a process, and how it is said.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fmt;

/// Something that ends a command, for the admin: what is wrong and what to do.
#[derive(Debug)]
pub struct Trouble(pub String);

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "verge: {}", self.0)
    }
}

macro_rules! trouble_from {
    ($($type:ty),*) => {$(
        impl From<$type> for Trouble {
            fn from(error: $type) -> Trouble {
                Trouble(error.to_string())
            }
        }
    )*};
}
trouble_from!(
    verge::Error,
    config::Problems,
    host::HostError,
    kv_host::NodeError,
    planner::PlanError,
    recording::RecordingError,
    std::io::Error,
    wasm::WasmError
);

/// Says something on standard error. Nobody can be told where that cannot be written to, and a line that nobody reads is not waited for
/// for long: neither may end a command, or keep it from ending.
pub fn complain(text: &str) {
    let stderr = std::io::stderr();
    let line = format!("{text}\n");
    let mut rest = line.as_bytes();
    while !rest.is_empty() {
        // Where there is room at all, a pipe has room for so much.
        let (piece, _) = rest.split_at(rest.len().min(PIECE_BYTES));
        let written = match poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&PATIENCE)) {
            Ok(0) => return,
            Ok(_) => rustix::io::write(&stderr, piece),
            Err(error) => Err(error),
        };
        match written {
            Ok(written) => rest = rest.get(written..).unwrap_or(&[]),
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// What a pipe takes in one piece.
const PIECE_BYTES: usize = 4096;
/// How long a command waits for whoever reads its complaints.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
