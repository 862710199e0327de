//! A coordination service in these worlds, and the part of routers that speaks with it. Where routers are reached is told by their pair's number.

use super::{Happening, Who, World};
use contract::{Span, Time};
use engine::Coordinated;
use federation::{Holder, Participant, Reply, Request, Router, RouterSettings, Session, Ticket};
use simulation::Coordination;
use std::collections::{BTreeMap, BTreeSet};

/// How long a request is on its way, an answer, and a ring.
const WAY: Span = Span::millis(2);
/// So often is everybody heard of, and do routers look who is linked.
const EVERY: Span = Span::millis(100);
/// Of whom nothing is heard for so long is gone.
pub const TIME_OUT: Span = Span::secs(2);

/// Who speaks with the service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Party {
    Uplink(usize),
    /// By its broker.
    Router(usize),
}

/// What happens around the service.
pub enum Step {
    Look,
    Connect(Party, u64),
    Ask(Party, u64, Ticket, Request),
    Answer(Party, u64, Ticket, Reply),
    Ring(Party, u64, String),
}

/// A party's connection. Another number is another session.
#[derive(Default)]
struct Connection {
    life: u64,
    session: Option<i64>,
}

struct Seat {
    router: Router,
    epoch: u64,
}

/// The service, and who is connected.
pub struct Service {
    pub tree: Coordination,
    connections: BTreeMap<Party, Connection>,
    /// By broker: routers that reign.
    seats: BTreeMap<usize, Seat>,
    /// Pairs that are routers.
    routers: Vec<usize>,
}

impl World {
    /// From now on a service names the routers, which these pairs are.
    pub fn add_service(&mut self, routers: &[usize]) {
        self.service = Some(Service {
            tree: Coordination::new(TIME_OUT),
            connections: BTreeMap::new(),
            seats: BTreeMap::new(),
            routers: routers.to_vec(),
        });
        self.agenda.push(self.now, Happening::Coordination(Step::Look));
    }

    /// Joins a pair to whatever routers the service names.
    pub fn add_coordinated_site(
        &mut self,
        site: &str,
        pair: usize,
        tune: impl Fn(&mut engine::UplinkSettings),
    ) {
        self.add_site(site, pair, &[], |settings| {
            let identity = format!("{site}-pair");
            settings.coordinated = Some(Coordinated { identity, topics_max: 10_000 });
            tune(settings);
        });
    }

    /// A router is to be rid of its topics, or no longer.
    pub fn drain(&mut self, pair: usize, drains: bool) {
        let tree = &mut self.service.as_mut().unwrap().tree;
        let path = federation::drain_path(&format!("r{pair}"));
        let rings = if drains { tree.put(&path) } else { tree.wipe(&path) };
        self.ring(rings);
    }

    /// Topics that a router has been given.
    pub fn topics_of_router(&self, pair: usize) -> Vec<String> {
        let seats = &self.service.as_ref().unwrap().seats;
        let seat = seats.iter().find(|(broker, _)| **broker / 2 == pair);
        seat.map_or(Vec::new(), |(_, seat)| seat.router.topics().map(|(topic, _)| topic.to_owned()).collect())
    }

    pub(super) fn coordinate(&mut self, step: Step) {
        match step {
            Step::Look => {
                self.look();
                self.put(EVERY, Step::Look);
            }
            Step::Connect(party, life) => {
                let now = self.now;
                let service = self.service.as_mut().unwrap();
                let connection = service.connections.entry(party).or_default();
                if connection.life == life {
                    let session = service.tree.connect(now, None);
                    connection.session = Some(session);
                    self.tell_party(party, |of, now| of.handle_session(now, Session::Connected(session)));
                }
            }
            Step::Ask(party, life, ticket, request) => {
                let service = self.service.as_mut().unwrap();
                let Some(session) = service.session(party, life) else { return };
                if !service.tree.stands(session) {
                    return;
                }
                let (reply, rings) = service.tree.answer(session, &request);
                self.put(WAY, Step::Answer(party, life, ticket, reply));
                self.ring(rings);
            }
            Step::Answer(party, life, ticket, reply) => {
                if self.service.as_ref().unwrap().session(party, life).is_some() {
                    self.tell_party(party, |of, now| of.handle_reply(now, ticket, reply));
                }
            }
            Step::Ring(party, life, path) => {
                if self.service.as_ref().unwrap().session(party, life).is_some() {
                    self.tell_party(party, |of, now| of.handle_event(now, &path));
                }
            }
        }
    }

    fn put(&mut self, after: Span, step: Step) {
        self.agenda.push(self.now + after, Happening::Coordination(step));
    }

    fn ring(&mut self, rings: Vec<simulation::Ring>) {
        for ring in rings {
            let connections = &self.service.as_ref().unwrap().connections;
            let whose = connections.iter().find(|(_, of)| of.session == Some(ring.session));
            if let Some((party, of)) = whose {
                let (party, life) = (*party, of.life);
                self.put(WAY, Step::Ring(party, life, ring.path));
            }
        }
    }

    /// Who lives is heard of; sessions of others end; routers look who is linked.
    fn look(&mut self) {
        let now = self.now;
        let alive = |world: &World, party: Party| match party {
            Party::Uplink(index) => !world.ended.contains(&world.host(Who::Uplink(index))),
            Party::Router(broker) => world.brokers[broker].is_some(),
        };
        let parties: Vec<Party> = self.service.as_ref().unwrap().connections.keys().copied().collect();
        for party in parties {
            let alive = alive(self, party);
            let service = self.service.as_mut().unwrap();
            let connection = service.connections.get_mut(&party).unwrap();
            match connection.session {
                Some(session) if alive && service.tree.stands(session) => service.tree.hear(now, session),
                Some(_) if alive => {
                    connection.session = None;
                    let life = connection.life;
                    self.tell_party(party, |of, now| of.handle_session(now, Session::Expired));
                    self.put(WAY, Step::Connect(party, life));
                }
                _ => {}
            }
        }
        let rings = self.service.as_mut().unwrap().tree.expire(now);
        self.ring(rings);
        for pair in self.service.as_ref().unwrap().routers.clone() {
            (2 * pair..2 * pair + 2).for_each(|broker| self.seat(pair, broker));
        }
    }

    /// A router's broker claims its name while it reigns.
    fn seat(&mut self, pair: usize, broker: usize) {
        let reign = self.brokers[broker].as_ref().map(|node| node.broker()).filter(|of| of.is_primary());
        let epoch = reign.map(|of| of.reign().epoch.0);
        let sites: BTreeSet<String> =
            reign.into_iter().flat_map(|of| of.sites().map(str::to_owned)).collect();
        let now = self.now;
        let service = self.service.as_mut().unwrap();
        let party = Party::Router(broker);
        let known = service.seats.get(&broker).map(|seat| seat.epoch);
        if known != epoch {
            service.seats.remove(&broker);
            let connection = service.connections.entry(party).or_default();
            *connection = Connection { life: connection.life + 1, session: None };
            let life = connection.life;
            if let Some(epoch) = epoch {
                let holder = Holder { identity: format!("r{pair}-pair"), reign: epoch };
                let settings = RouterSettings::new(&format!("r{pair}"), holder, &pair.to_string());
                service.seats.insert(broker, Seat { router: Router::new(settings), epoch });
                self.put(WAY, Step::Connect(party, life));
            }
            return;
        }
        if let Some(seat) = service.seats.get_mut(&broker) {
            seat.router.linked(now, &sites);
            self.tell_party(party, |of, now| of.handle_timeout(now));
        }
    }

    fn tell_party(&mut self, party: Party, tell: impl FnOnce(&mut dyn Participant, Time)) {
        match party {
            Party::Uplink(index) => {
                let host = self.host(Who::Uplink(index));
                if self.ended.contains(&host) {
                    return;
                }
                let now = self.local(host);
                let port = &mut self.places[host].port;
                self.uplinks[index].coordinate(now, port, |site| tell(site, now));
                self.wake_by(host, self.now);
            }
            Party::Router(broker) => {
                let now = self.now;
                let service = self.service.as_mut().unwrap();
                let Some(seat) = service.seats.get_mut(&broker) else { return };
                tell(&mut seat.router, now);
                while seat.router.poll_news().is_some() {}
                let life = service.connections.get(&party).map_or(0, |of| of.life);
                let requests: Vec<_> = std::iter::from_fn(|| seat.router.poll_request()).collect();
                for (ticket, request) in requests {
                    self.put(WAY, Step::Ask(party, life, ticket, request));
                }
            }
        }
    }

    /// What an uplink asks of the service is on its way, and routers that it is to be linked to are.
    pub(super) fn ask_service(&mut self, host: usize) {
        let Who::Uplink(index) = self.places[host].who else { return };
        let Some(life) = self.uplinks[index].coordination() else { return };
        if self.service.is_none() {
            return;
        }
        let party = Party::Uplink(index);
        let connections = &mut self.service.as_mut().unwrap().connections;
        // A process that has begun anew counts from zero again; what it owned before is nobody's.
        let begun = self.places[host].machine.life();
        let number = (u64::from(begun) << 32) + life + 1;
        let connection = connections.entry(party).or_default();
        if connection.life != number {
            *connection = Connection { life: number, session: None };
            self.put(WAY, Step::Connect(party, number));
        }
        let now = self.local(host);
        while let Some((ticket, request)) = self.uplinks[index].poll_coordination() {
            self.put(WAY, Step::Ask(party, number, ticket, request));
        }
        while let Some((router, locator)) = self.uplinks[index].poll_link() {
            let port = &mut self.places[host].port;
            let Some(place) = self.uplinks[index].place_for(now, &router, port) else { continue };
            let ends = &mut self.ends[index];
            ends.resize(ends.len().max(place + 2), 0);
            ends[place + 1] = locator.parse().unwrap();
            self.uplinks[index].link(now, place, &router, 2, port);
            self.wake_by(host, self.now);
        }
    }
}

impl Service {
    fn session(&self, party: Party, life: u64) -> Option<i64> {
        self.connections.get(&party).filter(|of| of.life == life)?.session
    }
}
