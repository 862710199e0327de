//! Doors: where a node listens, what is spoken there, and how many may come in.

use contract::{Span, Time};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use wire::{Protocol, Transport};

/// Where a node listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Door {
    /// The address; with port 0 the system chooses one.
    pub address: SocketAddr,
    /// What is spoken there.
    pub protocol: Protocol,
    /// How it is carried.
    pub transport: Transport,
    /// Whom it is for.
    pub guests: Guests,
}

/// Whom a door is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guests {
    /// Clients, and operators who ask how a broker is.
    Clients,
    /// The other broker of the pair, for which places are kept.
    Partner,
}

/// How many may come in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DoorLimits {
    /// Connections that one door takes in a second. Further ones wait in the system's queue.
    pub per_second: u32,
    /// Connections from one address, through all doors for clients. Further ones are closed.
    pub per_address: u32,
    /// Clients, through all doors.
    pub clients: u32,
}

/// Connections that the partner may have at once beside the one that is made to it: it has one, and another when it comes back
/// before its old one has been noticed to be gone. Above it, the oldest that is not known to be the partner's is closed.
pub(crate) const PARTNER_PLACES: u32 = 4;
/// Places for admins where clients have all of theirs. Above it, the oldest of them is closed.
pub(crate) const ADMIN_PLACES: u32 = 3;

/// Connections beyond those of clients.
pub const PLACES_KEPT: u32 = PARTNER_PLACES + ADMIN_PLACES;

/// Whose place a connection takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Client,
    /// Clients have all their places; whoever has this one may only ask how the broker is.
    Admin,
    Partner,
}

/// How many connections have a place of each kind.
#[derive(Default)]
pub(crate) struct Places {
    clients: u32,
    admins: u32,
    partner: u32,
}

impl Places {
    fn count(&mut self, place: Place) -> &mut u32 {
        match place {
            Place::Client => &mut self.clients,
            Place::Admin => &mut self.admins,
            Place::Partner => &mut self.partner,
        }
    }

    /// Takes a place, unless there are `most` of its kind.
    pub(crate) fn take(&mut self, place: Place, most: u32) -> bool {
        let count = self.count(place);
        let free = *count < most;
        *count += u32::from(free);
        free
    }

    /// Gives a place back.
    pub(crate) fn leave(&mut self, place: Place) {
        *self.count(place) -= 1;
    }
}

impl Default for DoorLimits {
    fn default() -> DoorLimits {
        DoorLimits { per_second: 5_000, per_address: 16_384, clients: 16_384 }
    }
}

/// How fast a door may still take connections: as many at once as it may take in a second.
pub(crate) struct Pace {
    per_second: u32,
    /// Connections that may be taken, in billionths.
    credit: u64,
    since: Time,
}

const ONE: u64 = 1_000_000_000;
/// How long a door without credit rests at least, so that it does not wake the thread for each connection.
const REST_MIN: Span = Span::millis(10);

impl Pace {
    pub(crate) fn new(now: Time, per_second: u32) -> Pace {
        Pace { per_second, credit: u64::from(per_second) * ONE, since: now }
    }

    /// Takes one more, or says how long to rest.
    pub(crate) fn take(&mut self, now: Time) -> Result<(), Span> {
        let most = u64::from(self.per_second) * ONE;
        // A clock that went back gives nothing, and one that jumped ahead no more than a second's worth.
        let passed = now.since(self.since).max(Span::ZERO).as_nanos_u64().min(ONE);
        self.since = now;
        self.credit = (self.credit + passed * u64::from(self.per_second)).min(most);
        if self.credit >= ONE {
            self.credit -= ONE;
            return Ok(());
        }
        let lacking = (ONE - self.credit) / u64::from(self.per_second).max(1);
        Err(Span::nanos(i64::try_from(lacking).unwrap_or(i64::MAX)).max(REST_MIN))
    }
}

/// How many connections each address has.
#[derive(Default)]
pub(crate) struct Seats {
    taken: HashMap<IpAddr, u32>,
}

impl Seats {
    /// Takes a seat, unless the address has all that it may.
    pub(crate) fn take(&mut self, address: IpAddr, most: u32) -> bool {
        let taken = self.taken.entry(address).or_default();
        let free = *taken < most;
        *taken += u32::from(free);
        free
    }

    /// Gives a seat back.
    pub(crate) fn leave(&mut self, address: IpAddr) {
        if let Some(taken) = self.taken.get_mut(&address) {
            *taken -= 1;
            if *taken == 0 {
                self.taken.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_takes_a_seconds_worth_at_once_and_then_its_pace() {
        let start = Time(1_000 * ONE);
        let mut pace = Pace::new(start, 100);
        assert!((0..100).all(|_| pace.take(start).is_ok()));
        assert_eq!(pace.take(start), Err(Span::millis(10)));
        assert!(pace.take(start + Span::millis(9)).is_err());
        assert!(pace.take(start + Span::millis(10)).is_ok());
        assert!(pace.take(start + Span::millis(10)).is_err());
        // A clock that goes back, and comes again.
        assert!(pace.take(Time(ONE)).is_err());
        assert!(pace.take(Time(ONE) + Span::millis(10)).is_ok());
        let later = start + Span::secs(3600);
        assert_eq!((0..1_000).filter(|_| pace.take(later).is_ok()).count(), 100);
    }

    #[test]
    fn places_of_one_kind_are_not_taken_by_another() {
        let mut places = Places::default();
        assert!(places.take(Place::Client, 1) && !places.take(Place::Client, 1));
        assert!(places.take(Place::Partner, 1) && places.take(Place::Admin, 1));
        assert!(!places.take(Place::Admin, 1));
        places.leave(Place::Client);
        assert!(places.take(Place::Client, 1) && !places.take(Place::Admin, 1));
    }

    #[test]
    fn an_address_has_so_many_seats_and_those_that_were_left_again() {
        let mut seats = Seats::default();
        let (one, other) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        assert!(seats.take(one, 2) && seats.take(one, 2) && !seats.take(one, 2));
        assert!(seats.take(other, 2));
        seats.leave(one);
        assert!(seats.take(one, 2) && !seats.take(one, 2));
        seats.leave(one);
        seats.leave(one);
        seats.leave(other);
        assert!(seats.taken.is_empty());
    }
}
