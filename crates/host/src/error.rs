//! Why a driver cannot start.

use rustix::io::Errno;
use std::net::SocketAddr;
use wire::Transport;

/// Why a driver cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The address to listen on is taken.
    #[error(
        "{0} is in use: another program, or another broker, listens there; stop it or choose another port"
    )]
    AddressInUse(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's word.
        reason: Errno,
    },
    /// Heartbeats of the partner cannot be listened for.
    #[error(
        "cannot listen for the partner's heartbeats on UDP port {address}: {reason}: let nothing else use that port"
    )]
    Heartbeats {
        /// The address.
        address: SocketAddr,
        /// The system's word.
        reason: Errno,
    },
    /// A thread without which nothing is promised has ended.
    #[error("the thread of {0} has ended, and this process ends with it: start it again, and report this")]
    Thread(&'static str),
    /// The door needs handshakes, and nobody was given to make them.
    #[error("cannot listen on {address} for {transport}: there is no lobby for its handshakes")]
    NoLobby {
        /// The address.
        address: SocketAddr,
        /// How bytes are carried there.
        transport: Transport,
    },
    /// Something else that the system refused.
    #[error("{what}: {reason}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's word.
        reason: Errno,
    },
}
