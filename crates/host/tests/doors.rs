//! Doors: each says what is spoken there, and takes no more connections than it may.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use host::{Cause, DoorLimits, Driver, Troubles};
use std::io::Read;
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
