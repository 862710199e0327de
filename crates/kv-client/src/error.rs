//! What can go wrong, in words for whoever runs the application. Making an error allocates nothing where it may happen in each
//! period.

use contract::Span;
use kv::Format;
use kv_shared::{Gone, MemoryError, PassingError, ReadError, WriteError};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nobody answers.
    #[error(
        "{path}: {error}; is the node running with this socket, and may this user connect to it (the file's mode)?"
    )]
    NoNode {
        /// Which socket.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The node did not take the application in.
    #[error("the node refuses: {0}")]
    Refused(String),
    /// The node was not understood.
    #[error("{0}; node and application must be of the same version")]
    Passing(#[from] PassingError),
    /// What the node shares cannot be used.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// There is no such key.
    #[error("key `{0}` is not configured: add it to `keys` on all nodes, or look at its spelling")]
    UnknownKey(String),
    /// There is nothing to read.
    #[error("key `{key}`: {error}")]
    Read {
        /// Which key.
        key: Arc<str>,
        /// Why.
        error: ReadError,
    },
    /// The lane does not keep what values are made of.
    #[error("this lane keeps no vectors: set `vectors` of its [[lane]] on this node")]
    NoVectors,
    /// A value was not written.
    #[error("key `{key}`: {error}")]
    Write {
        /// Which key.
        key: Arc<str>,
        /// Why.
        error: WriteError,
    },
    /// What is there is no number, or none of the kind that is wanted.
    #[error("key `{key}`: its {} of {bytes} bytes is no {wanted}: read it with the type that was written, or as bytes", FormatName(*.format))]
    NotANumber {
        /// Which key.
        key: Arc<str>,
        /// What the key votes on.
        format: Option<Format>,
        /// How long the value is.
        bytes: usize,
        /// The type that was wanted.
        wanted: &'static str,
    },
    /// A task that does not fit the lane.
    #[error(
        "a task with a period of {period}: it must be a whole multiple of the lane's, {lane}, and at most its horizon, {horizon}"
    )]
    Period {
        /// As asked for.
        period: Span,
        /// `T` of the lane.
        lane: Span,
        /// `H`.
        horizon: Span,
    },
}

struct FormatName(Option<Format>);

impl fmt::Display for FormatName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.map_or("value", Format::name))
    }
}

impl Error {
    /// Whether the same may succeed in a later period, without anybody doing anything.
    pub fn may_pass(&self) -> bool {
        match self {
            Error::Read { error: ReadError::Lane(error), .. } => {
                matches!(error, kv::ReadError::Nothing | kv::ReadError::Stale(_) | kv::ReadError::Unknown)
            }
            Error::Read { error, .. } => matches!(error, ReadError::Restless | ReadError::NoVector),
            Error::Write { error, .. } => match error {
                WriteError::Lane(error) => {
                    matches!(error, kv::WriteError::PublishingTimePast(_) | kv::WriteError::Rejoining)
                }
                WriteError::Full(_) | WriteError::NoJobBefore(_) | WriteError::NodeGone(Gone::Silent(_)) => {
                    true
                }
                _ => false,
            },
            _ => false,
        }
    }
}
