//! Doors: each says what is spoken there, and takes no more connections than it may.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use host::{Cause, Door, DoorLimits, Driver, Guests, PLACES_KEPT, Troubles};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use support::{Probe, turn_until};
use wire::{LinkChange, Protocol, Transport};

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

#[test]
fn a_node_is_told_what_is_spoken_at_each_door() {
    let mut driver = Driver::new(Probe::default(), Vec::new()).unwrap();
    let native = driver.listen(loopback(), Protocol::Verge, Transport::Plain).unwrap();
    let mqtt = driver.listen(loopback(), Protocol::Mqtt, Transport::Plain).unwrap();
    let _first = TcpStream::connect(mqtt).unwrap();
    turn_until(&mut driver, |probe| probe.told.len() == 1);
    let _second = TcpStream::connect(native).unwrap();
    turn_until(&mut driver, |probe| probe.told.len() == 2);
    let told: Vec<LinkChange> = driver.node().told.iter().map(|(_, change)| *change).collect();
    assert_eq!(told, [LinkChange::Accepted(Protocol::Mqtt), LinkChange::Accepted(Protocol::Verge)]);
}

#[test]
fn an_address_has_no_more_connections_than_it_may_and_gets_those_back_that_end() {
    let troubles = Arc::new(Troubles::default());
    let mut driver = Driver::new(Probe::default(), Vec::new()).unwrap();
    driver.limit(DoorLimits { per_address: 2, ..Default::default() }, Arc::clone(&troubles));
    let address = driver.listen(loopback(), Protocol::Verge, Transport::Plain).unwrap();
    let first = TcpStream::connect(address).unwrap();
    let _second = TcpStream::connect(address).unwrap();
    let mut third = TcpStream::connect(address).unwrap();
    turn_until(&mut driver, |_| troubles.count(Cause::AddressFull) == 1);
    assert_eq!(third.read(&mut [0]).unwrap_or(0), 0, "closed");
    drop(first);
    turn_until(&mut driver, |probe| probe.closed() == 1);
    let _fourth = TcpStream::connect(address).unwrap();
    turn_until(&mut driver, |probe| probe.accepted() == 3);
    assert_eq!(troubles.count(Cause::AddressFull), 1);
}

#[test]
fn connections_that_come_too_fast_wait_and_are_taken_later() {
    let troubles = Arc::new(Troubles::default());
    let mut driver = Driver::new(Probe::default(), Vec::new()).unwrap();
    driver.limit(DoorLimits { per_second: 5, ..Default::default() }, Arc::clone(&troubles));
    let address = driver.listen(loopback(), Protocol::Verge, Transport::Plain).unwrap();
    let _streams: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(address).unwrap()).collect();
    turn_until(&mut driver, |probe| probe.accepted() == 8);
    assert!(troubles.count(Cause::DoorPace) >= 1, "somebody had to wait");
}

#[test]
fn a_door_that_is_shut_refuses_as_if_nobody_listened_and_opens_again() {
    let shut = Probe { shut: Some(Protocol::Mqtt), ..Probe::default() };
    let mut driver = Driver::new(shut, Vec::new()).unwrap();
    let native = driver.listen(loopback(), Protocol::Verge, Transport::Plain).unwrap();
    let mqtt = driver.listen(loopback(), Protocol::Mqtt, Transport::Plain).unwrap();
    let mut accepted = 0;
    for _ in 0..3 {
        let refused = TcpStream::connect(mqtt).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        // Nobody else takes the port meanwhile.
        assert!(std::net::TcpListener::bind(mqtt).is_err());
        let _other = TcpStream::connect(native).unwrap();
        accepted += 1;
        turn_until(&mut driver, |probe| probe.accepted() == accepted);
        driver.with(|probe, _| probe.shut = None);
        driver.turn(&[]);
        let mut guest = TcpStream::connect(mqtt).unwrap();
        accepted += 1;
        turn_until(&mut driver, |probe| probe.accepted() == accepted);
        // Who is in stays; who waits in the system's queue is refused.
        let mut waiting = TcpStream::connect(mqtt).unwrap();
        driver.with(|probe, _| probe.shut = Some(Protocol::Mqtt));
        driver.turn(&[]);
        assert!(waiting.read(&mut [0]).is_err());
        guest.write_all(b"x").unwrap();
        let came = driver.node().came;
        turn_until(&mut driver, |probe| probe.came > came);
    }
}

fn for_the_partner() -> Door {
    Door {
        address: loopback(),
        protocol: Protocol::Verge,
        transport: Transport::Plain,
        guests: Guests::Partner,
    }
}

/// Whether somebody is still connected, by sending something that is sent back.
fn is_open(driver: &mut Driver<Probe>, stream: &mut TcpStream) -> bool {
    let came = driver.node().came;
    if stream.write_all(b"x").is_err() {
        return false;
    }
    stream.set_nonblocking(true).unwrap();
    let mut closed = false;
    turn_until(driver, |probe| {
        closed = matches!(stream.read(&mut [0; 8]), Ok(0)) || stream.take_error().unwrap().is_some();
        closed || probe.came > came
    });
    !closed
}

#[test]
fn clients_take_no_place_of_operators_or_of_the_partner() {
    let troubles = Arc::new(Troubles::default());
    let mut driver = Driver::new(Probe::default(), Vec::new()).unwrap();
    driver.limit(DoorLimits { clients: 2, ..Default::default() }, Arc::clone(&troubles));
    let clients = driver.listen(loopback(), Protocol::Verge, Transport::Plain).unwrap();
    let mqtt = driver.listen(loopback(), Protocol::Mqtt, Transport::Plain).unwrap();
    let partner = driver.open(for_the_partner()).unwrap();
    let connect = |driver: &mut Driver<Probe>, address| {
        let before = driver.node().accepted();
        let stream = TcpStream::connect(address).unwrap();
        turn_until(driver, |probe| probe.accepted() == before + 1);
        stream
    };
    let mut first = connect(&mut driver, clients);
    let mut second = connect(&mut driver, mqtt);
    assert!(driver.node().crowded.is_empty());
    // Operators speak the own protocol only.
    let mut refused = TcpStream::connect(mqtt).unwrap();
    turn_until(&mut driver, |_| troubles.count(Cause::PlacesFull) == 1);
    assert_eq!(refused.read(&mut [0]).unwrap_or(0), 0, "closed");
    let operators: Vec<TcpStream> = (0..3).map(|_| connect(&mut driver, clients)).collect();
    assert_eq!(driver.node().crowded.len(), operators.len());
    assert_eq!(driver.node().closed(), 0);
    // One too many takes the place of the oldest operator, and of nobody else.
    let _last = connect(&mut driver, clients);
    turn_until(&mut driver, |probe| probe.closed() == 1);
    let gone = driver.node().told.iter().find(|(_, change)| *change == LinkChange::Closed).unwrap().0;
    assert_eq!(gone, driver.node().crowded[0]);
    assert!(is_open(&mut driver, &mut first) && is_open(&mut driver, &mut second));
    let _partner = connect(&mut driver, partner);
    assert_eq!(driver.node().crowded.len(), 4);
    // A client that leaves gives its place to the next.
    drop(first);
    turn_until(&mut driver, |probe| probe.closed() == 2);
    let _next = connect(&mut driver, clients);
    assert_eq!(driver.node().crowded.len(), 4);
}

#[test]
fn strangers_at_the_partners_door_are_closed_for_the_one_who_comes_last() {
    let troubles = Arc::new(Troubles::default());
    let mut driver = Driver::new(Probe::default(), Vec::new()).unwrap();
    // The partner's places do not count for its host.
    driver.limit(DoorLimits { per_address: 1, ..Default::default() }, Arc::clone(&troubles));
    let door = driver.open(for_the_partner()).unwrap();
    let mut known = TcpStream::connect(door).unwrap();
    turn_until(&mut driver, |probe| probe.accepted() == 1);
    let (link, _) = driver.node().told[0];
    driver.with(|_, net| wire::Effects::put_first(net, link));
    let strangers: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(door).unwrap()).collect();
    turn_until(&mut driver, |probe| probe.accepted() == 1 + strangers.len());
    turn_until(&mut driver, |probe| probe.accepted() - probe.closed() <= PLACES_KEPT as usize);
    assert!(is_open(&mut driver, &mut known), "it is known to be the partner's");
    assert!(troubles.count(Cause::PartnerFull) >= 10);
    assert_eq!(troubles.count(Cause::AddressFull), 0);
}
