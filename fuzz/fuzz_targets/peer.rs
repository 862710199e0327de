//! Anything that peers may say to a peer of the overlay, with time, lost links and what its own programs want in between. Nothing may panic, and what is
//! read must be written the same.
#![no_main]

use contract::{Location, RingId, Span, Time};
use engine::{Note, Peer, PeerEffects, PeerWord, Where};
use libfuzzer_sys::fuzz_target;
use overlay::{Extent, Member, News, PeerId, Settings};
use rendezvous::{Kind, Meeting, Space, Topic};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{Answer, Item, ItemId, Limits, Query};

/// What it says must be readable.
#[derive(Default)]
struct Deaf(BTreeMap<ItemId, Option<Arc<[u8]>>>);

impl PeerEffects for Deaf {
    fn send(&mut self, _to: &Member, word: &PeerWord) {
        again(word);
    }

    fn send_to_address(&mut self, _address: &str, word: &PeerWord) {
        again(word);
    }

    fn start(&mut self, _number: u64, _meeting: &Meeting) {}

    fn stop(&mut self, _number: u64, _meeting: &Meeting) {}

    fn refused(&mut self, _number: u64, _topic: Topic, _why: &str) {}

    fn tell(&mut self, _news: &News) {}

    fn write(&mut self, id: ItemId, item: &Item, _until: Time) {
        self.0.insert(id, item.value.clone());
    }

    fn erase(&mut self, id: ItemId) {
        self.0.remove(&id);
    }

    fn value(&self, id: ItemId) -> Option<Arc<[u8]>> {
        self.0.get(&id)?.clone()
    }

    fn answer(&mut self, _request: u64, _answer: Answer) {}

    fn noted(&mut self, _number: u64, _note: &Note) {}

    fn load(&self, at: Where, runs: usize) -> Option<u32> {
        (at != Where::Core).then(|| u32::try_from(runs).unwrap_or(u32::MAX))
    }
}

fn again(word: &PeerWord) {
    let mut bytes = Vec::new();
    word.append_to(&mut bytes);
    assert_eq!(PeerWord::decode(&bytes).expect("what was written"), *word);
}

fn member(number: u8) -> Member {
    let id = PeerId { ring: RingId::beginning_with(u128::from(number), 8), life: 1 + u64::from(number % 3) };
    let location = Location::new(f64::from(number) / 4.0, f64::from(number) / 2.0).expect("a place");
    Member { id, name: format!("p{number}"), address: format!("p{number}:1"), location }
}

fuzz_target!(|steps: Vec<(u8, u8, Vec<u8>)>| {
    let corner = |lat, long| Location::new(lat, long).expect("a place");
    let extent = Extent::new(corner(0.0, 0.0), corner(64.0, 128.0)).expect("an area");
    let space =
        Space::new(&[("kind", Kind::Words), ("battery", Kind::Numbers { least: 0.0, most: 100.0 })], false)
            .expect("a space");
    let settings = Settings { least: 2, ..Settings::new(extent, vec!["p1:1".to_owned()]) };
    let mut now = Time(1_000_000_000);
    let limits = Limits { items: 100, bytes: 10_000 };
    let mut peer = Peer::new(settings, &space, member(0), limits, now);
    let mut out = Deaf::default();
    for (kind, who, bytes) in steps {
        let from = member(who % 8);
        match kind % 14 {
            0 => peer.handle_lost(now, from.id, &mut out),
            1 => peer.handle_link(now, from.id, &mut out),
            2 => {
                now = now + Span::millis(i64::from(who) * 100);
                for _ in 0..16 {
                    if peer.next_deadline() <= now {
                        peer.handle_timeout(now, &mut out);
                    }
                }
            }
            // Whatever is wrong with it is said.
            3 => _ = peer.want(now, u64::from(who), &String::from_utf8_lossy(&bytes), &mut out),
            4 => _ = peer.offer(now, u64::from(who), &String::from_utf8_lossy(&bytes), &mut out),
            5 => peer.withdraw(now, u64::from(who), &mut out),
            6 => {
                let value = (who % 3 > 0).then(|| Arc::from(&bytes[..]));
                let key = String::from_utf8_lossy(&bytes);
                _ = peer.keep(now, u64::from(who), (&key, value), Span::secs(i64::from(who)), &mut out);
            }
            7 => _ = peer.fetch(now, u64::from(who), &String::from_utf8_lossy(&bytes), &mut out),
            8 => {
                let interest = String::from_utf8_lossy(&bytes).into_owned();
                let query = Query { interest, after: None, limit: usize::from(who), values: who % 2 == 0 };
                _ = peer.look(now, u64::from(who), &query, &mut out);
            }
            9 => {
                if let Some(ticket) = peer.take_ticket() {
                    let result = if who % 4 == 0 { Err("full".to_owned()) } else { Ok(()) };
                    peer.handle_synced(now, ticket, &result, &mut out);
                }
            }
            10 => {
                let name = String::from_utf8_lossy(&bytes);
                let at = Where::from_byte(who % 3).unwrap_or_default();
                let function = (who % 4 > 0).then_some((at, &bytes[..]));
                _ = peer.keep_function(now, u64::from(who), (&name, function), &mut out);
                _ = peer.look_for_functions(now, u64::from(who), usize::from(who), &mut out);
            }
            11 => _ = peer.take_duties(now, &mut out),
            _ => {
                if let Ok(word) = PeerWord::decode(&bytes) {
                    again(&word);
                    peer.handle_word(now, &from, word, &mut out);
                }
            }
        }
    }
});
