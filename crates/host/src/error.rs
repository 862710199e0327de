//! Why a driver cannot start.

use crate::helpers::Loss;
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
    /// The door needs handshakes, and nobody was given to make them.
    #[error("cannot listen on {address} for {transport}: there is no handshakes for its handshakes")]
    NoLobby {
        /// The address.
        address: SocketAddr,
        /// How bytes are carried there.
        transport: Transport,
    },
    /// A thread that helps this one is gone.
    #[error("{0}")]
    ThreadEnded(Loss),
    /// The host allows too few descriptors for any client.
    #[error(
        "the host allows {allowed} descriptors, and {kept} are needed before the first client comes in: for listeners, the partner, \
         operators and HTTP. Raise LimitNOFILE (ulimit -n)"
    )]
    Descriptors {
        /// How many it allows.
        allowed: u64,
        /// How many are not for clients.
        kept: u64,
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
