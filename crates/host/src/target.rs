//! How a peer is reached that a node may dial.

use crate::place::Whereabouts;
use rustls::pki_types::ServerName;
use std::net::SocketAddr;
use std::sync::Arc;
use wire::Tunnel;

/// How a peer is reached.
#[derive(Clone, Default, Debug)]
pub struct Target {
    /// Where it is, or the proxy before it.
    pub whereabouts: Whereabouts,
    /// With a name, connections are encrypted, and the peer's certificate must have it.
    pub name: Option<ServerName<'static>>,
    /// What the proxy is asked for, where there is one.
    pub tunnel: Option<Arc<Tunnel>>,
}

impl Target {
    /// At this address, without TLS or a proxy.
    pub fn known(address: SocketAddr) -> Target {
        Target { whereabouts: Whereabouts::known(address), ..Target::default() }
    }

    /// Whether something has to be said before the first frame.
    pub(crate) fn needs_handshake(&self) -> bool {
        self.name.is_some() || self.tunnel.is_some()
    }
}
