//! A backup that joins is told in pieces, between which things change. In the end it knows the same.
#![allow(clippy::unwrap_used, reason = "a test")]

use contract::{Contract, Loss, Span, StreamId, Time};
use mqtt::packet::Version;
use mqtt::testing::{QoS, encode_5, subscribe, v5};
use mqtt::{Admits, Buffers, Gateway, Limits, RouteId, Settings, Wish};
use simulation::Wires;
use std::num::NonZeroU16;
use wire::{LinkId, MessageFlags, Origin, Routed};

const NOW: Time = Time(1_000_000_000_000);

/// Everybody is served.
struct Nobody;

impl Admits for Nobody {
    fn comes(&mut self, _link: LinkId, _wish: &Wish) -> Option<Result<(), String>> {
        Some(Ok(()))
    }
    fn serves_instead(&self) -> bool {
        false
    }
    fn shares(&mut self, _carried: [&contract::admission::Carriers<u64>; 2]) {}
    fn goes(&mut self, _wish: &Wish) {}
    fn has_room(&self) -> bool {
        true
    }
    fn was_dispatched(&self, _stream: StreamId, _seq: u64) -> bool {
        true
    }
    fn spend(&mut self, _units: usize) {}
}

fn gateway(node: u64) -> Gateway {
    let fallback = Contract { loss: Loss::Unbounded, ..Contract::every(Span::FOREVER) };
    let mut gateway = Gateway::new(
        Settings { limits: Limits::default(), fallback, server_references: Default::default(), node },
        mqtt::Open,
    );
    gateway.record(true);
    gateway
}

fn connect(gateway: &mut Gateway, number: u32, clean_start: bool) {
    let hello = v5::Connect {
        client_id: format!("client {number}").into(),
        session_expiry_interval_secs: 3_600,
        clean_start,
        ..Default::default()
    };
    let link = LinkId(number);
    gateway.accept(NOW, link, &mut Wires::default());
    for bytes in [
        encode_5(hello.into()).unwrap(),
        subscribe(Version::V5, NonZeroU16::MIN, "t", QoS::AtLeastOnce).unwrap(),
    ] {
        let taken =
            gateway.take(NOW, link, &bytes, &mut Buffers::default(), &mut Nobody, &mut Wires::default()).0;
        assert_eq!(taken, bytes.len());
    }
}

fn deliver(gateway: &mut Gateway, route: RouteId, seq: u64) {
    deliver_payload(gateway, route, seq, &[7; 1_000]);
}

fn deliver_payload(gateway: &mut Gateway, route: RouteId, seq: u64, payload: &[u8]) {
    let contract = Contract::every(Span::FOREVER);
    let message = Routed {
        stream: StreamId(0),
        origin: Origin { publisher: "p", incarnation: 1, seq },
        created: NOW,
        again: false,
        contract: &Contract { loss: Loss::Unbounded, ..contract },
        truths: MessageFlags::AT_LEAST_ONCE,
        marks: MessageFlags::NONE,
        trailer: &[],
        payload,
    };
    gateway.deliver(NOW, route, &message, &mut Wires::default());
}

const SESSIONS: u32 = 20;

#[test]
fn a_backup_that_is_told_in_pieces_knows_the_same_in_the_end() {
    for change_after in [1, 2, 3, 5, 8, usize::MAX] {
        let (mut primary, mut backup) = (gateway(1), gateway(2));
        let route = with_sessions(&mut primary);
        let _ = primary.take_records();
        let (mut place, mut pieces, mut bytes) = (Some(0), 0, 0);
        while let Some(from) = place {
            let mut piece = Vec::new();
            place = primary.tell(from, &mut piece);
            assert!(piece.len() < 64 << 10, "a piece of {} bytes", piece.len());
            (pieces, bytes) = (pieces + 1, bytes + piece.len());
            backup.learn(&piece);
            if pieces % change_after == 0 {
                // Sessions end, begin, come back, and are given more.
                let number = pieces as u32 * 7 % SESSIONS;
                connect(&mut primary, number, pieces % 2 == 0);
                primary.close(NOW, LinkId(number));
                deliver(&mut primary, route, 400 + pieces as u64);
                backup.learn(&primary.take_records());
            }
        }
        assert!(pieces > 8);
        // Each message is told once, not once for each session that waits for it.
        assert!(bytes < 2 << 20, "{bytes} bytes in {pieces} pieces");
        backup.set_reign(NOW, true, &mut Wires::default());
        let (here, there) = (primary.stats(), backup.stats());
        let told =
            |stats: &mqtt::Stats| (stats.sessions, stats.subscriptions, stats.waiting, stats.waiting_bytes);
        assert_eq!(told(&here), told(&there), "changes after {change_after} pieces");
        // The same clients end their sessions at both, and nothing is left at either.
        for gateway in [&mut primary, &mut backup] {
            for number in 0..SESSIONS {
                connect(gateway, number, true);
            }
            assert_eq!(gateway.stats().waiting, 0);
            assert_eq!(gateway.stats().waiting_bytes, 0);
        }
    }
}

/// [`SESSIONS`] of clients that are away, and 400 messages that wait for each. Returns the route of those.
fn with_sessions(gateway: &mut Gateway) -> RouteId {
    gateway.set_reign(NOW, true, &mut Wires::default());
    let (route, _) = gateway.route("t");
    for number in 0..SESSIONS {
        connect(gateway, number, true);
        gateway.close(NOW, LinkId(number));
    }
    (0..400).for_each(|seq| deliver(gateway, route, seq));
    route
}

/// Tells so many pieces at most.
fn tell(from: &mut Gateway, to: &mut Gateway, pieces: usize) {
    let (mut place, mut told) = (Some(0), 0);
    while let Some(next) = place.filter(|_| told < pieces) {
        let mut piece = Vec::new();
        place = from.tell(next, &mut piece);
        to.learn(&piece);
        told += 1;
    }
}

/// Sessions, subscriptions, and what waits.
fn knows(gateway: &Gateway) -> [u64; 4] {
    let stats = gateway.stats();
    [stats.sessions, stats.subscriptions, stats.waiting, stats.waiting_bytes]
}

#[test]
fn whoever_is_told_anew_keeps_what_it_had_until_it_has_been_told() {
    for (told_pieces, finishes) in (0..12).map(|pieces| (pieces, false)).chain([(usize::MAX, true)]) {
        let (mut first, mut second) = (gateway(1), gateway(2));
        with_sessions(&mut first);
        tell(&mut first, &mut second, usize::MAX);
        second.told_everything();
        // The second reigns, a session ends there, one begins, and all are given more.
        second.set_reign(NOW, true, &mut Wires::default());
        let had = knows(&first);
        first.begin_learning(NOW, true, &mut Wires::default());
        let (route, _) = second.route("t");
        connect(&mut second, SESSIONS, true);
        second.close(NOW, LinkId(SESSIONS));
        deliver(&mut second, route, 400);
        let clean = v5::Connect { client_id: "client 3".into(), clean_start: true, ..Default::default() };
        second.accept(NOW, LinkId(3), &mut Wires::default());
        let bytes = encode_5(clean.into()).unwrap();
        second.take(NOW, LinkId(3), &bytes, &mut Buffers::default(), &mut Nobody, &mut Wires::default());
        second.close(NOW, LinkId(3));
        let _ = second.take_records();
        tell(&mut second, &mut first, told_pieces);
        if finishes {
            first.told_everything();
        }
        first.set_reign(NOW, true, &mut Wires::default());
        if finishes {
            assert_eq!(knows(&first), knows(&second));
        } else {
            // Of the session that was being told when it stopped, a part may be missing.
            let [sessions, subscriptions, waiting, _] = knows(&first);
            let [had_sessions, had_subscriptions, had_waiting, _] = had;
            assert!(
                sessions >= had_sessions && subscriptions >= had_subscriptions,
                "after {told_pieces} pieces"
            );
            assert!(waiting + 400 >= had_waiting, "{waiting} of {had_waiting} after {told_pieces} pieces");
        }
        for number in 0..=SESSIONS {
            connect(&mut first, number, true);
        }
        assert_eq!(first.stats().waiting, 0);
        assert_eq!(first.stats().waiting_bytes, 0);
    }
}

#[test]
fn a_body_with_the_name_of_another_is_not_taken_for_it() {
    let (mut first, mut second) = (gateway(1), gateway(1));
    for (gateway, clients, payload) in [(&mut first, 0..2, [1; 500]), (&mut second, 2..4, [2; 500])] {
        gateway.set_reign(NOW, true, &mut Wires::default());
        let (route, _) = gateway.route("t");
        for number in clients {
            connect(gateway, number, true);
            gateway.close(NOW, LinkId(number));
        }
        deliver_payload(gateway, route, 1, &payload);
    }
    let one = first.stats().waiting_bytes;
    first.begin_learning(NOW, true, &mut Wires::default());
    tell(&mut second, &mut first, usize::MAX);
    let stats = first.stats();
    assert_eq!((stats.sessions, stats.waiting), (4, 2), "those it had, and those it was told of");
    assert_eq!(stats.waiting_bytes, 2 * one, "two bodies of one name");
    first.told_everything();
    assert_eq!(knows(&first), knows(&second));
}
