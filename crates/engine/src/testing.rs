//! Who hears what a node reports, for tests: a log with a store that holds everything at once, and nobody.

use crate::{Introduces, Keeps, KnowsEverybody, Reporter};
use broker::Event;
use std::collections::BTreeMap;
use std::net::IpAddr;
use wire::StoreState;

/// Keeps what a node reports.
#[derive(Default)]
pub struct Log {
    /// Events, in words.
    pub words: Vec<String>,
    /// The store, if there is one.
    pub disk: Option<Disk>,
    /// Clients that want to be known, and nobody has judged.
    pub logins: Vec<mqtt::Login>,
    /// Where clients came from that wanted to be known.
    pub callers: Vec<Option<IpAddr>>,
}

/// What a store holds. It has everything at once, unless it is given up.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    /// Values by key.
    pub records: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Nothing is written any more.
    pub given_up: bool,
    /// What has been put aside.
    pub asides: Vec<BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl Log {
    /// With a store, or without one.
    pub fn with_disk(disk: Option<Disk>) -> Log {
        Log { disk, ..Log::default() }
    }
}

impl Reporter for Log {
    fn report(&mut self, event: &Event<'_>) {
        let words = event.to_string();
        assert!(!words.is_empty(), "an event without words: {event:?}");
        self.words.push(words);
    }

    fn next_alarm(&mut self, _out: &mut String) -> bool {
        false
    }

    fn tidy(&mut self, _freed: usize) {}
}

impl Keeps for Log {
    fn keeps(&self) -> bool {
        self.disk.is_some()
    }

    fn store(&self) -> (StoreState, &str) {
        match &self.disk {
            None => (StoreState::None, ""),
            Some(Disk { given_up: true, .. }) => (StoreState::GivenUp, "the test says so"),
            Some(_) => (StoreState::Writes, ""),
        }
    }

    fn keep(&mut self, records: &[u8], _known: u64) {
        let Some(disk) = self.disk.as_mut().filter(|disk| !disk.given_up) else { return };
        for record in mqtt::records(records) {
            match record.value {
                Some(value) => _ = disk.records.insert(record.key.to_vec(), value.to_vec()),
                None => _ = disk.records.remove(record.key),
            }
        }
    }

    fn set_aside(&mut self) -> Option<String> {
        let disk = self.disk.as_mut()?;
        disk.asides.push(std::mem::take(&mut disk.records));
        Some("aside".to_owned())
    }

    fn wants_everything(&mut self) -> bool {
        false
    }

    fn takes_more(&mut self) -> Option<bool> {
        None
    }

    fn kept_all(&mut self) {}
}

impl Introduces for Log {
    fn caller(&mut self, address: Option<IpAddr>) {
        self.callers.push(address);
    }

    fn login(&mut self, login: mqtt::Login) {
        self.logins.push(login);
    }
}

/// Listens to nothing, and allocates nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent {
    /// Whether there is a store, which forgets all it is given.
    pub keeps: bool,
}

impl Reporter for Silent {
    fn report(&mut self, _event: &Event<'_>) {}

    fn next_alarm(&mut self, _out: &mut String) -> bool {
        false
    }

    fn tidy(&mut self, _freed: usize) {}
}

impl KnowsEverybody for Silent {}

impl Keeps for Silent {
    fn keeps(&self) -> bool {
        self.keeps
    }

    fn keep(&mut self, _records: &[u8], _known: u64) {}

    fn store(&self) -> (StoreState, &str) {
        (StoreState::None, "")
    }

    fn set_aside(&mut self) -> Option<String> {
        None
    }

    fn wants_everything(&mut self) -> bool {
        false
    }

    fn takes_more(&mut self) -> Option<bool> {
        None
    }

    fn kept_all(&mut self) {}
}
