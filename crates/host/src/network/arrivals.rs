//! Connections that come, and those that must make a handshake first.

use super::{Network, News};
use crate::connection::Phase;
use crate::lobby::{Entrant, Errand};
use crate::place::Whereabouts;
use crate::shell::Shell;
use crate::troubles::{Cause, Troubles};
use rustix::net::sockopt;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use wire::{LinkId, PeerIndex, Protocol, Transport};

impl Network {
    pub(crate) fn limit(&mut self, per_address: u32, troubles: Arc<Troubles>) {
        self.per_address = per_address;
        self.troubles = troubles;
    }

    /// Takes a connection that somebody made, if its address may have one more.
    pub(crate) fn accept(&mut self, socket: OwnedFd, from: Option<SocketAddr>) -> Option<LinkId> {
        if !self.seat(from) {
            return None;
        }
        self.settle(socket, from, None)
    }

    /// Sends a connection that somebody made to make its handshake.
    pub(crate) fn accept_later(
        &mut self,
        socket: OwnedFd,
        from: Option<SocketAddr>,
        protocol: Protocol,
        transport: Transport,
    ) {
        if !self.seat(from) {
            return;
        }
        let errand = Errand::Accepted { from, protocol, transport };
        let entered =
            self.lobby.as_mut().is_some_and(|lobby| lobby.enter(Entrant { socket, errand }).is_ok());
        if !entered {
            self.unseat(from);
            self.troubles.note(Cause::LobbyFull, || {
                "connections come faster than handshakes can be begun; another was closed".to_owned()
            });
        }
    }

    /// Takes a connection whose seat is taken. Gives the seat back if that fails.
    pub(crate) fn settle(
        &mut self,
        socket: OwnedFd,
        from: Option<SocketAddr>,
        shell: Option<Box<Shell>>,
    ) -> Option<LinkId> {
        let link = sockopt::set_tcp_nodelay(&socket, true).and_then(|()| self.insert(socket, Phase::Open));
        let Ok(link) = link else {
            self.unseat(from);
            return None;
        };
        self.dress(link, shell);
        if let Some(connection) = self.get(link.0) {
            connection.from = from.map(canonical);
        }
        Some(link)
    }

    /// Takes a connection that we made, and whose handshake is done.
    pub(crate) fn settle_dialed(
        &mut self,
        socket: OwnedFd,
        peer: PeerIndex,
        shell: Box<Shell>,
    ) -> Option<LinkId> {
        match self.insert(socket, Phase::Open) {
            Ok(link) => {
                self.dress(link, Some(shell));
                self.news.push(News::Dialed(link, peer));
                Some(link)
            }
            Err(_) => {
                self.report_failed_dial(peer, false);
                None
            }
        }
    }

    fn dress(&mut self, link: LinkId, shell: Option<Box<Shell>>) {
        let Some(shell) = shell else { return };
        if self.sealed.is_empty() {
            self.sealed = vec![0; crate::shell::READ_BYTES];
        }
        if let Some(connection) = self.get(link.0) {
            connection.shell = Some(shell);
        }
        // Something of the handshake may still have to leave.
        self.touch(link);
    }

    fn seat(&mut self, from: Option<SocketAddr>) -> bool {
        let most = self.per_address;
        let from = from.map(canonical);
        let seated = from.is_none_or(|from| self.seats.take(from, most));
        if let Some(from) = from.filter(|_| !seated) {
            self.troubles.note(Cause::AddressFull, || {
                format!("{from} has {most} connections already, which is limits.connections_per_address; another was closed")
            });
        }
        seated
    }

    /// A connection that had a seat is gone before it was settled.
    pub(crate) fn unseat(&mut self, from: Option<SocketAddr>) {
        if let Some(from) = from {
            self.seats.leave(canonical(from));
        }
    }

    /// A connection that we made stands, and must be encrypted. Its number is not the node's yet.
    pub(super) fn secure(&mut self, index: u32, peer: PeerIndex) {
        let at = usize::from(peer.0);
        let known = self.names.get(at).cloned().zip(self.peers.get(at).and_then(Whereabouts::get));
        let socket = self.slots.get_mut(index as usize).and_then(Option::take);
        let Some((socket, (name, address))) = socket.map(|connection| connection.socket).zip(known) else {
            return self.fail_dial(index, peer, false);
        };
        self.poller.remove(&socket);
        self.watched.retain(|other| *other != index);
        self.free.push(index);
        let errand = Errand::Dialed { peer, address, name };
        let entered =
            self.lobby.as_mut().is_some_and(|lobby| lobby.enter(Entrant { socket, errand }).is_ok());
        if !entered {
            self.report_failed_dial(peer, false);
        }
    }
}

/// IPv4 has a second form, as IPv6; both are the same host.
fn canonical(address: SocketAddr) -> IpAddr {
    address.ip().to_canonical()
}
