//! The process around a broker: its log, its alarms, and the store for what must outlive it.

use super::logins::Desk;
use crate::Trouble;
use crate::log::Lines;
use broker::{Alarms, Event};
use config::Config;
use crossbeam_channel::Receiver;
use engine::{Introduces, Keeps, Reporter};
use host::{Before, Found, Record, State, Store, StoreDoes, StoreSettings, now};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use wire::StoreState;

/// Alarms that may wait to be published. Above it, further ones are only in the log.
const ALARMS_MAX: usize = 256;

/// What a broker has around it.
pub struct Around {
    pub lines: Lines,
    name: String,
    alarms: Alarms,
    waiting: VecDeque<String>,
    /// Alarms of what stands beside the broker.
    beside: Receiver<String>,
    store: Option<Store>,
    /// What the store did at the last look, and why it does not write.
    seen: StoreState,
    reason: Arc<str>,
    /// Says who clients are, where somebody wants to know.
    pub desk: Option<Desk>,
}

impl Around {
    /// Opens the store, if one is configured. Returns what it has kept, ready for the gateway.
    pub fn new(
        config: &Config,
        name: &str,
        lines: Lines,
        beside: Receiver<String>,
        desk: Option<Desk>,
    ) -> Result<(Around, Vec<u8>), Trouble> {
        let (alarms, waiting) = (Alarms::default(), VecDeque::new());
        let mut around = Around {
            lines,
            name: name.to_owned(),
            alarms,
            waiting,
            beside,
            store: None,
            seen: StoreState::None,
            reason: Arc::from(""),
            desk,
        };
        let own = config.brokers.iter().find(|broker| broker.name == name).and_then(|own| own.store.as_ref());
        let Some(folder) = own.or(config.store.folder.as_ref()) else { return Ok((around, Vec::new())) };
        let settings = StoreSettings {
            commit_every: config.store.commit_every,
            queue_bytes_max: config.store.queue_bytes_max,
        };
        // Whoever owns the data thread looks at it often, and tells.
        let (store, records) =
            Store::open(folder, &settings, |_| {}).map_err(|error| Trouble(error.to_string()))?;
        if *store.before() == Before::Killed {
            around.lines.say("the process before ended without closing the store");
        }
        if let Found::Old { reason, stored, expected, aside } = store.found() {
            let aside = aside.as_ref().map(|path| path.display().to_string());
            let (stored, expected) = (*stored, *expected);
            around.report(&Event::StoreOld { reason, stored, expected, aside: aside.as_deref() });
        }
        around.store = Some(store);
        around.seen = StoreState::Writes;
        Ok((around, in_order(records)))
    }

    /// Whether what the store holds may not be the latest.
    pub fn may_be_old(&self) -> bool {
        self.store.as_ref().is_some_and(|store| *store.found() != Found::Whole)
    }

    /// Tells of what has become of the store since the last look.
    fn look_at_store(&mut self) {
        let Some(store) = &self.store else { return };
        let (seen, stored) = (does(store), store.stored());
        if seen == self.seen {
            return;
        }
        let before = std::mem::replace(&mut self.seen, seen);
        match store.state() {
            State::Poisoned { reason } => {
                self.reason = Arc::clone(&reason);
                self.report(&Event::StoreGivenUp { reason: &reason, stored });
            }
            State::Refilling { .. } => {
                self.lines.say("the store can be written again: it is given everything anew");
            }
            State::Healthy { .. } => {
                self.reason = Arc::from("");
                if before != StoreState::None {
                    self.report(&Event::StoreBack { stored });
                }
            }
        }
    }
}

impl Drop for Around {
    /// Writes what waits.
    fn drop(&mut self) {
        if let Some(Err(reason)) = self.store.take().map(Store::close) {
            self.lines.warn(&format!("the store does not have everything: {reason}"));
        }
    }
}

/// What a store does, in the words of the status.
fn does(store: &Store) -> StoreState {
    match store.does() {
        StoreDoes::Write => StoreState::Writes,
        StoreDoes::Nothing => StoreState::GivenUp,
        StoreDoes::BeginAnew => StoreState::ComingBack,
    }
}

/// Records as the gateway learns them.
fn in_order(mut records: Vec<Record>) -> Vec<u8> {
    records.sort_by_key(|(key, _)| mqtt::rank(key));
    let mut bytes = Vec::new();
    for (key, value) in &records {
        mqtt::append_record(&mut bytes, key, value);
    }
    bytes
}

/// So much is worth the time that giving it back takes.
const MUCH_FREED: usize = 1 << 20;

impl Reporter for Around {
    fn report(&mut self, event: &Event<'_>) {
        self.lines.report(event);
        let mut alarm = String::new();
        if self.waiting.len() < ALARMS_MAX && self.alarms.raise(now(), &self.name, event, &mut alarm) {
            self.waiting.push_back(alarm);
        }
    }

    fn tidy(&mut self, freed: usize) {
        crate::allocator::give_back(freed >= MUCH_FREED);
    }

    fn next_alarm(&mut self, out: &mut String) -> bool {
        self.look_at_store();
        let next = self.waiting.pop_front().or_else(|| self.beside.try_recv().ok());
        if let Some(alarm) = &next {
            out.push_str(alarm);
        }
        next.is_some()
    }
}

impl Keeps for Around {
    fn keeps(&self) -> bool {
        self.store.is_some()
    }

    fn keep(&mut self, records: &[u8], known: u64) {
        let Some(store) = &mut self.store else { return };
        for record in mqtt::records(records) {
            match record.value {
                Some(value) => store.put(record.key.into(), value.into()),
                None => store.remove(record.key.into()),
            }
        }
        store.reach(known);
    }

    fn store(&self) -> (StoreState, &str) {
        (self.seen, &self.reason)
    }

    fn set_aside(&mut self) -> Option<String> {
        let path = self.store.as_mut().and_then(Store::set_aside)?;
        Some(path.display().to_string())
    }

    fn wants_everything(&mut self) -> bool {
        self.store.as_mut().is_some_and(Store::wants_everything)
    }

    fn takes_more(&mut self) -> Option<bool> {
        self.store.as_mut().and_then(Store::takes_more)
    }

    fn kept_all(&mut self) {
        if let Some(store) = &mut self.store {
            store.given_all();
        }
    }
}

impl Introduces for Around {
    fn caller(&mut self, address: Option<IpAddr>) {
        if let Some(desk) = &mut self.desk {
            desk.caller(address);
        }
    }

    fn login(&mut self, login: mqtt::Login) {
        if let Some(desk) = &mut self.desk {
            desk.login(login);
        }
    }
}
