//! The process around a broker: its log, its alarms, and the store for what must outlive it.

use super::log::Lines;
use super::logins::Desk;
use crate::config::Config;
use crate::output::Trouble;
use broker::{Alarms, Event};
use engine::Reporter;
use host::{Before, Record, State, Store, StoreSettings, now};
use std::collections::VecDeque;
use std::net::IpAddr;

/// Alarms that may wait to be published. Above it, further ones are only in the log.
const ALARMS_MAX: usize = 256;

/// What a broker has around it.
pub struct Around {
    pub lines: Lines,
    name: String,
    alarms: Alarms,
    waiting: VecDeque<String>,
    store: Option<Store>,
    /// Says who clients are, where somebody wants to know.
    pub desk: Option<Desk>,
}

impl Around {
    /// Opens the store, if one is configured. Returns what it has kept, ready for the gateway.
    pub fn new(
        config: &Config,
        name: &str,
        lines: Lines,
        desk: Option<Desk>,
    ) -> Result<(Around, Vec<u8>), Trouble> {
        let (alarms, waiting) = (Alarms::default(), VecDeque::new());
        let mut around = Around { lines, name: name.to_owned(), alarms, waiting, store: None, desk };
        let Some(folder) = &config.store.folder else { return Ok((around, Vec::new())) };
        let settings = StoreSettings {
            commit_every: config.store.commit_every,
            queue_bytes_max: config.store.queue_bytes_max,
        };
        let told = around.lines.clone();
        let (store, records) = Store::open(folder, &settings, move |reason| {
            told.warn(&format!(
                "the store is given up, and this broker goes on without it: sessions and retained messages will not outlive a \
                 restart of both brokers. {reason}"
            ));
        })
        .map_err(|error| Trouble(error.to_string()))?;
        match store.before() {
            Before::Poisoned { reason } => around.lines.warn(&format!(
                "the store was given up by the process before ({reason}), so that what it holds may be old"
            )),
            Before::Killed => around.lines.say("the process before ended without closing the store"),
            Before::New | Before::Clean => {}
        }
        around.store = Some(store);
        Ok((around, in_order(records)))
    }

    /// Whether a store was given up.
    pub fn store_is_poisoned(&self) -> bool {
        self.store.as_ref().is_some_and(|store| matches!(store.state(), State::Poisoned { .. }))
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

    fn keeps(&self) -> bool {
        self.store.is_some()
    }

    fn keep(&mut self, records: &[u8]) {
        let Some(store) = &mut self.store else { return };
        for record in mqtt::records(records) {
            match record.value {
                Some(value) => store.put(record.key.into(), value.into()),
                None => store.remove(record.key.into()),
            }
        }
    }

    fn tidy(&mut self, freed: usize) {
        crate::allocator::give_back(freed >= MUCH_FREED);
    }

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

    fn next_alarm(&mut self, out: &mut String) -> bool {
        let next = self.waiting.pop_front();
        if let Some(alarm) = &next {
            out.push_str(alarm);
        }
        next.is_some()
    }
}
