//! Where the brokers are: addresses and names as they were given, and what the names mean at present. Names are asked for on threads of
//! their own, one each, since an answer may take many seconds; a name without an answer stops nobody.

use crate::Error;
use crate::client::Shared;
use crate::events::{BrokerTrouble, Events};
use contract::Reign;
use endpoint::{BROKERS_MAX, Endpoint, Unfit};
use engine::ClientNode;
use host::tls::{ServerName, server_name};
use host::{AskAgain, Network, Place, Whereabouts};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::Duration;
use wire::PeerIndex;

/// How a client reaches one of its brokers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reach {
    /// Where, as it was given, and what a name means.
    pub address: String,
    /// The broker's number for [`crate::Client::status`]; none for a name that does not resolve.
    pub broker: Option<usize>,
    /// Why it is not reached; none if it is.
    pub trouble: Option<String>,
    /// Whether that is more than a broker that is not there at the moment: the address or the name is to be corrected.
    pub is_wrong: bool,
    /// Who reigns, as far as this broker knows; none if it is not reached. Brokers of one pair agree on it, but for a moment.
    pub reign: Option<Reign>,
}

/// All places, and the brokers at them.
#[derive(Default)]
pub(crate) struct Places {
    given: Vec<Given>,
    /// For each broker its place, and its address.
    brokers: Vec<(usize, Whereabouts)>,
}

struct Given {
    place: Place,
    /// What asking for the name has led to, if it was asked for.
    answer: Option<Result<(), String>>,
}

/// What an answer changes.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Change {
    /// There is a broker more.
    New(SocketAddr),
    /// This broker's address is another.
    Moved(u8),
}

impl Places {
    /// The brokers that are given by their addresses are known at once.
    pub(crate) fn new(places: Vec<Place>) -> Places {
        let literal = |(index, place): (usize, &Place)| Some((index, Whereabouts::known(place.literal()?)));
        let brokers = places.iter().enumerate().filter_map(literal).collect();
        let answer = |place: &Place| place.literal().map(|_| Ok(()));
        let given = places.into_iter().map(|place| Given { answer: answer(&place), place }).collect();
        Places { given, brokers }
    }

    /// The addresses known so far, by the numbers of the brokers.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.brokers.iter().filter_map(|(_, whereabouts)| whereabouts.get()).collect()
    }

    /// The brokers known so far, by their numbers.
    pub(crate) fn known(&self) -> Vec<(Place, Whereabouts)> {
        let place =
            |(of, found): &(usize, Whereabouts)| Some((self.given.get(*of)?.place.clone(), found.clone()));
        self.brokers.iter().filter_map(place).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.brokers.len()
    }

    /// Whether it has been asked for every name.
    pub(crate) fn is_asked(&self) -> bool {
        self.given.iter().all(|given| given.answer.is_some())
    }

    /// Names, with their places in the list.
    pub(crate) fn names(&self) -> Vec<(usize, Place)> {
        let named = self.given.iter().enumerate().filter(|(_, given)| given.place.literal().is_none());
        named.map(|(index, given)| (index, given.place.clone())).collect()
    }

    fn of(&self, place: usize) -> impl Iterator<Item = (u8, &Whereabouts)> {
        let numbered = self.brokers.iter().enumerate();
        numbered.filter(move |(_, (of, _))| *of == place).map(|(index, (_, found))| (index as u8, found))
    }

    /// A name was asked for. Addresses that it had and no longer has become those that are new, unless somebody is connected there.
    fn learn(
        &mut self,
        place: usize,
        found: Result<Vec<SocketAddr>, String>,
        connected: impl Fn(u8) -> bool,
    ) -> Vec<Change> {
        let Some(given) = self.given.get_mut(place) else { return Vec::new() };
        let addresses = match found {
            Ok(addresses) => addresses,
            Err(reason) => {
                given.answer = Some(Err(reason));
                return Vec::new();
            }
        };
        given.answer = Some(Ok(()));
        let known: Vec<SocketAddr> = self.of(place).filter_map(|(_, found)| found.get()).collect();
        let gone = |(broker, found): &(u8, &Whereabouts)| {
            !found.get().is_some_and(|at| addresses.contains(&at)) && !connected(*broker)
        };
        let mut gone: Vec<u8> = self.of(place).filter(gone).map(|(broker, _)| broker).collect();
        let fresh = addresses.iter().filter(|address| !known.contains(address));
        let change = |address: &SocketAddr| match gone.pop() {
            Some(broker) => {
                self.brokers.iter().skip(usize::from(broker)).take(1).for_each(|(_, found)| {
                    found.set(*address);
                });
                Change::Moved(broker)
            }
            None => Change::New(*address),
        };
        fresh.map(change).collect()
    }
}

/// What a broker at this place is called.
fn called(place: &Place, address: Option<SocketAddr>) -> String {
    match address.filter(|_| place.literal().is_none()) {
        Some(address) => format!("{place} ({address})"),
        None => place.to_string(),
    }
}

/// How all brokers are reached, in the order in which they were given.
pub(crate) fn reaches(node: &mut ClientNode<Events>) -> Vec<Reach> {
    let connected: Vec<PeerIndex> = node.endpoint().connected().collect();
    let same: Vec<bool> =
        (0..BROKERS_MAX as u8).map(|broker| node.endpoint().same_as(PeerIndex(broker)).is_some()).collect();
    let apart: Vec<bool> =
        (0..BROKERS_MAX as u8).map(|broker| node.endpoint().is_apart(PeerIndex(broker))).collect();
    let reigns: Vec<Option<Reign>> =
        (0..BROKERS_MAX as u8).map(|broker| node.endpoint().reign_of(PeerIndex(broker))).collect();
    let Events { places, troubles, .. } = node.application();
    let mut reaches = Vec::new();
    for (index, given) in places.given.iter().enumerate() {
        if let Some(Err(reason)) = &given.answer {
            let trouble = Some(format!("does not resolve ({reason}): it is asked for again"));
            let address = given.place.to_string();
            reaches.push(Reach { address, broker: None, trouble, is_wrong: true, reign: None });
        }
        let here: Vec<(u8, SocketAddr)> =
            places.of(index).filter_map(|(broker, found)| Some((broker, found.get()?))).collect();
        let is_there = |broker: u8| connected.contains(&PeerIndex(broker));
        for (broker, address) in here.iter().copied() {
            // One host may have addresses of both kinds, and a broker that listens at one of them.
            let other_kind =
                |(other, at): &(u8, SocketAddr)| is_there(*other) && at.is_ipv4() != address.is_ipv4();
            let hidden =
                same.get(usize::from(broker)).copied().unwrap_or(false) || here.iter().any(other_kind);
            if !is_there(broker) && hidden {
                continue;
            }
            let is_apart = is_there(broker) && apart.get(usize::from(broker)).copied().unwrap_or(false);
            let elsewhere = BrokerTrouble::Unfit(Unfit::Apart);
            let trouble =
                troubles.get(&broker).filter(|_| !is_there(broker)).or(is_apart.then_some(&elsewhere));
            let unknown = (!is_there(broker)).then(|| BrokerTrouble::Unreachable.to_string());
            reaches.push(Reach {
                address: called(&given.place, Some(address)),
                broker: Some(usize::from(broker)),
                is_wrong: trouble.is_some_and(BrokerTrouble::is_wrong),
                trouble: trouble.map(ToString::to_string).or(unknown),
                reign: reigns.get(usize::from(broker)).copied().flatten(),
            });
        }
    }
    reaches
}

impl BrokerTrouble {
    /// Whether the address is to be corrected, and not the broker.
    fn is_wrong(&self) -> bool {
        matches!(self, BrokerTrouble::Unfit(Unfit::Stranger | Unfit::Mute | Unfit::Curt | Unfit::Apart))
    }
}

/// What is to be done where no broker reigns, by what is known of the addresses.
pub(crate) fn remedy(reaches: &[Reach]) -> &'static str {
    let wrong = reaches.iter().filter(|reach| reach.is_wrong).count();
    if reaches.iter().any(|reach| reach.trouble.is_none()) {
        "wait until one of them reigns, or start its partner"
    } else if wrong > 0 && wrong == reaches.len() {
        "correct the addresses: a broker's clients connect at its brokers.NAME.clients"
    } else if wrong > 0 {
        "correct what is wrong, or start the other with `verge broker a`"
    } else {
        "start one with `verge broker a`, or correct the addresses"
    }
}

/// A broker is there, and so is the way through it.
pub(crate) fn reach(
    net: &mut Network,
    broker: PeerIndex,
    at: &Whereabouts,
    name: Option<ServerName<'static>>,
) {
    let target = host::Target { whereabouts: at.clone(), name, tunnel: None };
    net.set_peer(broker, target.clone());
    net.set_peer(Endpoint::way(broker), target);
}

/// Finds out what a name means, and again while somebody is not reached there, until the client ends.
pub(crate) fn keep_asking(
    shared: &Weak<Shared>,
    index: usize,
    place: &Place,
    ended: &Receiver<()>,
) -> Result<(), String> {
    /// How often it is looked whether all are reached.
    const LOOK: Duration = Duration::from_secs(1);
    let mut again = AskAgain::default();
    loop {
        let found = place.resolve();
        let pause = match shared.upgrade().map(|shared| shared.learn(index, place, found)) {
            Some(Ok(())) => again.pause(),
            Some(Err(_)) | None => return Ok(()),
        };
        let mut pause = pause;
        loop {
            if ended.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                return Ok(());
            }
            match shared.upgrade().map(|shared| shared.reaches_all(index)) {
                Some(Ok(true)) => again.reset(),
                Some(Ok(false)) => break,
                Some(Err(_)) | None => return Ok(()),
            }
            pause = LOOK;
        }
    }
}

impl Shared {
    /// A name was asked for.
    fn learn(
        self: Arc<Shared>,
        index: usize,
        place: &Place,
        found: Result<Vec<SocketAddr>, String>,
    ) -> Result<(), Error> {
        let secure = self.is_secure();
        let name = secure.then(|| server_name(place.host())).transpose();
        let name = name.map_err(|error| Error::Tls(error.to_string()))?;
        self.with(|node, net| {
            let connected: Vec<PeerIndex> = node.endpoint().connected().collect();
            let is_there = |broker| connected.contains(&PeerIndex(broker));
            let now = host::now();
            for change in node.application().places.learn(index, found, is_there) {
                match change {
                    Change::Moved(broker) => {
                        node.with(net, |endpoint, _| endpoint.move_broker(now, PeerIndex(broker)));
                    }
                    Change::New(address) => {
                        if let Some(broker) = node.with(net, |endpoint, _| endpoint.add_broker(now)) {
                            let whereabouts = Whereabouts::known(address);
                            reach(net, broker, &whereabouts, name.clone());
                            node.application().places.brokers.push((index, whereabouts));
                        }
                    }
                }
            }
            node.application().heard += 1;
        })?;
        self.tell_of_change();
        Ok(())
    }

    /// Whether the name has a meaning, and every broker there is reached.
    fn reaches_all(self: Arc<Shared>, index: usize) -> Result<bool, Error> {
        self.with(|node, _| {
            let resolves = matches!(node.application().places.given[index].answer, Some(Ok(())));
            let here: Vec<u8> = node.application().places.of(index).map(|(broker, _)| broker).collect();
            let endpoint = node.endpoint();
            let reached = |broker: &u8| {
                let broker = PeerIndex(*broker);
                endpoint.standing(broker).is_some() || endpoint.same_as(broker).is_some()
            };
            resolves && here.iter().all(reached)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(texts: &[&str]) -> Places {
        Places::new(texts.iter().map(|text| text.parse().unwrap()).collect())
    }

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_are_known_at_once_and_names_when_they_are_found() {
        let mut places = places(&["127.0.0.1:1", "plant:2"]);
        assert_eq!((places.addresses(), places.is_asked()), (vec![at("127.0.0.1:1")], false));
        assert_eq!(places.learn(1, Err("no".to_owned()), |_| false), []);
        assert!(places.is_asked());
        let both = vec![at("10.0.0.1:2"), at("10.0.0.2:2")];
        let changes = places.learn(1, Ok(both.clone()), |_| false);
        assert_eq!(changes, both.iter().copied().map(Change::New).collect::<Vec<_>>());
    }

    #[test]
    fn a_name_that_moves_takes_its_broker_along_unless_that_is_connected() {
        let mut places = places(&["plant:2"]);
        places.brokers.push((0, Whereabouts::known(at("10.0.0.1:2"))));
        assert_eq!(places.learn(0, Ok(vec![at("10.0.0.9:2")]), |_| true), [Change::New(at("10.0.0.9:2"))]);
        assert_eq!(places.learn(0, Ok(vec![at("10.0.0.9:2")]), |_| false), [Change::Moved(0)]);
        assert_eq!(places.addresses(), [at("10.0.0.9:2")]);
        assert_eq!(places.learn(0, Ok(vec![at("10.0.0.9:2")]), |_| false), [], "nothing new");
    }
}
