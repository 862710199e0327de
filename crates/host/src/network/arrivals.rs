//! Connections that come, and those that must make a handshake first.

use super::{Network, News};
use crate::connection::Phase;
use crate::doors::{ADMIN_PLACES, Door, DoorLimits, Guests, PARTNER_PLACES, Place};
use crate::handshake::{Entrant, Errand};
use crate::target::Target;
use crate::transport::Layers;
use crate::troubles::{Cause, Troubles};
use rustix::net::sockopt;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use wire::{LinkId, PeerIndex, Protocol, Transport};

/// Somebody who has come in by a door.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) from: Option<SocketAddr>,
    pub(crate) protocol: Protocol,
    pub(crate) transport: Transport,
    pub(crate) place: Place,
}

/// What a connection takes that others then cannot have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    /// Where it comes from, if it counts among the connections from there.
    pub(crate) address: Option<IpAddr>,
    pub(super) place: Place,
}

impl Arrival {
    fn seat(&self) -> Seat {
        // The partner's places are its own, however many clients come from its host.
        let address = self.from.map(canonical).filter(|_| self.place != Place::Partner);
        Seat { address, place: self.place }
    }
}

impl Network {
    pub(crate) fn limit(&mut self, limits: DoorLimits, troubles: Arc<Troubles>) {
        self.limits = limits;
        self.troubles = troubles;
    }

    /// A place for a connection that somebody made, if there is one.
    pub(crate) fn receive(&mut self, from: Option<SocketAddr>, door: &Door) -> Option<Arrival> {
        let Door { protocol, transport, guests, .. } = *door;
        let place = match guests {
            Guests::Partner => self.partner_place(door)?,
            Guests::Clients => self.client_place(from, protocol)?,
        };
        Some(Arrival { from, protocol, transport, place })
    }

    fn partner_place(&mut self, door: &Door) -> Option<Place> {
        if self.places.take(Place::Partner, PARTNER_PLACES) {
            return Some(Place::Partner);
        }
        self.troubles.note(Cause::PartnerFull, || {
            format!(
                "{PARTNER_PLACES} connections at {} are kept for the partner, and more than these came; the oldest that is not the \
                 partner's is closed: let only the partner's host reach this listener",
                door.address
            )
        });
        (self.make_room(Place::Partner) && self.places.take(Place::Partner, PARTNER_PLACES))
            .then_some(Place::Partner)
    }

    fn client_place(&mut self, from: Option<SocketAddr>, protocol: Protocol) -> Option<Place> {
        let DoorLimits { per_address: most, clients, .. } = self.limits;
        let address = from.map(canonical);
        if let Some(from) = address.filter(|from| !self.seats.take(*from, most)) {
            self.troubles.note(Cause::AddressFull, || {
                format!("{from} has {most} connections already, which is limits.connections_per_address; another was closed")
            });
            return None;
        }
        if self.places.take(Place::Client, clients) {
            return Some(Place::Client);
        }
        self.troubles.note(Cause::PlacesFull, || {
            let short = "limits.connections, or fewer where the host allows too few descriptors";
            format!(
                "{clients} clients are connected, which is all that may be ({short}); another was refused"
            )
        });
        let free = |network: &mut Network| network.places.take(Place::Admin, ADMIN_PLACES);
        if protocol == Protocol::Verge && (free(self) || (self.make_room(Place::Admin) && free(self))) {
            return Some(Place::Admin);
        }
        if let Some(from) = address {
            self.seats.leave(from);
        }
        None
    }

    /// Closes a connection with a place of this kind: one that ends anyway, or else the oldest of those that have said nothing, or else
    /// the oldest; but none that is known to be the partner's. Whether there was one.
    fn make_room(&mut self, place: Place) -> bool {
        let known = [self.partner, self.foremost];
        let held = |index: &u32| Some((*index, self.slots.get(*index as usize)?.as_ref()?));
        let all = self.reserved.iter().filter_map(held);
        let candidates = all.filter(|(index, connection)| {
            connection.seat.is_some_and(|seat| seat.place == place) && !known.contains(&Some(*index))
        });
        let chosen = candidates.min_by_key(|(_, connection)| match connection.phase {
            Phase::Closing { .. } => 0,
            _ if !connection.has_spoken => 1,
            _ => 2,
        });
        let chosen = chosen.map(|(index, _)| index);
        if let Some(index) = chosen {
            self.drop_connection(index);
        }
        chosen.is_some()
    }

    /// Takes a connection that somebody made and that has a place.
    pub(crate) fn accept(&mut self, socket: OwnedFd, arrival: &Arrival) -> Option<LinkId> {
        self.settle(socket, arrival, None)
    }

    /// Sends a connection that somebody made to make its handshake.
    pub(crate) fn accept_later(&mut self, socket: OwnedFd, arrival: Arrival) {
        let errand = Errand::Accepted(arrival);
        let entered = self
            .handshakes
            .as_mut()
            .is_some_and(|handshakes| handshakes.enter(Entrant { socket, errand }).is_ok());
        if !entered {
            self.unseat(&arrival);
            self.troubles.note(Cause::LobbyFull, || {
                "connections come faster than handshakes can be begun; another was closed".to_owned()
            });
        }
    }

    /// Takes a connection whose seat is taken. Gives the seat back if that fails.
    pub(crate) fn settle(
        &mut self,
        socket: OwnedFd,
        arrival: &Arrival,
        layers: Option<Box<Layers>>,
    ) -> Option<LinkId> {
        let link = sockopt::set_tcp_nodelay(&socket, true).and_then(|()| self.insert(socket, Phase::Open));
        let Ok(link) = link else {
            self.unseat(arrival);
            return None;
        };
        self.dress(link, layers);
        if let Some(connection) = self.get(link.0) {
            connection.seat = Some(arrival.seat());
        }
        if arrival.place != Place::Client {
            self.reserved.push(link.0);
        }
        Some(link)
    }

    /// Takes a connection that we made, and whose handshake is done.
    pub(crate) fn settle_dialed(
        &mut self,
        socket: OwnedFd,
        peer: PeerIndex,
        layers: Box<Layers>,
    ) -> Option<LinkId> {
        match self.insert(socket, Phase::Open) {
            Ok(link) => {
                self.dress(link, Some(layers));
                self.news.push(News::Dialed(link, peer));
                Some(link)
            }
            Err(_) => {
                self.report_failed_dial(peer, false);
                None
            }
        }
    }

    /// At which address of this host a connection came in.
    pub(crate) fn own_address(&mut self, link: LinkId) -> Option<SocketAddr> {
        let name = rustix::net::getsockname(&self.get(link.0)?.socket).ok()?;
        SocketAddr::try_from(name).ok()
    }

    fn dress(&mut self, link: LinkId, layers: Option<Box<Layers>>) {
        let Some(layers) = layers else { return };
        if self.sealed.is_empty() {
            self.sealed = vec![0; crate::transport::READ_BYTES];
        }
        if let Some(connection) = self.get(link.0) {
            connection.layers = Some(layers);
        }
        // Something of the handshake may still have to leave.
        self.touch(link);
    }

    /// A connection that had a seat is gone before it was settled.
    pub(crate) fn unseat(&mut self, arrival: &Arrival) {
        self.vacate(arrival.seat());
    }

    pub(super) fn vacate(&mut self, seat: Seat) {
        self.places.leave(seat.place);
        if let Some(address) = seat.address {
            self.seats.leave(address);
        }
    }

    /// A connection that we made stands, and must be encrypted, or a proxy be asked first. Its number is not the node's yet.
    pub(super) fn shake_hands(&mut self, index: u32, peer: PeerIndex) {
        let target = self.peers.get(usize::from(peer.0)).cloned();
        let known = target.and_then(|target| Some((target.whereabouts.get()?, target)));
        let socket = self.slots.get_mut(index as usize).and_then(Option::take);
        let Some((socket, (address, target))) = socket.map(|connection| connection.socket).zip(known) else {
            return self.fail_dial(index, peer, false);
        };
        self.poller.remove(&socket);
        self.watched.retain(|other| *other != index);
        self.free.push(index);
        let Target { name, tunnel, .. } = target;
        let errand = Errand::Dialed { peer, address, name, tunnel };
        let entered = self
            .handshakes
            .as_mut()
            .is_some_and(|handshakes| handshakes.enter(Entrant { socket, errand }).is_ok());
        if !entered {
            self.report_failed_dial(peer, false);
        }
    }
}

/// IPv4 has a second form, as IPv6; both are the same host.
fn canonical(address: SocketAddr) -> IpAddr {
    address.ip().to_canonical()
}
