//! When what is synced. The journal gives an order, and is told when it has been done; meanwhile it goes on.

use crate::{Durability, Event, FileName, Files, Journal, Mutant, Position, State, SyncOrder};
use contract::Time;
use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(crate) struct Syncs {
    dirty: BTreeSet<FileName>,
    /// What was written to last, so that a burst does not look it up.
    soiled: Option<FileName>,
    /// Whether which files there are has changed.
    pub(crate) names: bool,
    /// Something waits for a sync, whatever the durability: old files can be removed only then.
    pub(crate) is_needed: bool,
    under_way: Option<UnderWay>,
    tickets: u64,
    /// How many compactions have begun.
    pub(crate) compactions: u64,
    begun: Time,
    pub(crate) durable: Position,
}

#[derive(Debug)]
struct UnderWay {
    ticket: u64,
    up_to: Position,
    /// A compaction whose copy is complete.
    compaction: Option<u64>,
    /// Files of notes that are of no more use afterwards.
    notes: Vec<u64>,
}

impl From<Position> for Syncs {
    /// Everything up to here has been synced, and there is nothing else.
    fn from(durable: Position) -> Syncs {
        Syncs { durable, ..Syncs::default() }
    }
}

impl Syncs {
    pub(crate) fn soil(&mut self, name: FileName) {
        if self.soiled != Some(name) {
            self.soiled = Some(name);
            self.dirty.insert(name);
        }
    }

    pub(crate) fn forget(&mut self, name: FileName) {
        self.dirty.remove(&name);
        self.soiled = self.soiled.filter(|soiled| *soiled != name);
    }
}

impl<F: Files> Journal<F> {
    /// What is to be synced now. There is no other order until [`Journal::handle_synced`] was called for this one.
    pub fn poll_sync(&mut self, now: Time) -> Option<SyncOrder> {
        if now < self.next_sync() {
            return None;
        }
        self.syncs.tickets += 1;
        let ticket = self.syncs.tickets;
        self.syncs.under_way = Some(UnderWay {
            ticket,
            up_to: self.last(),
            compaction: self.compaction_to_sync(),
            notes: std::mem::take(&mut self.notes.old),
        });
        self.syncs.begun = now;
        self.syncs.is_needed = false;
        self.syncs.soiled = None;
        let files = std::mem::take(&mut self.syncs.dirty).into_iter().collect();
        let names = std::mem::take(&mut self.syncs.names) && !Mutant::ForgetNames.is_on();
        Some(SyncOrder { ticket, names, files })
    }

    /// An order has been carried out, or could not be: then the journal is poisoned. Tickets of other openings are not looked at.
    pub fn handle_synced(&mut self, ticket: u64, done: Result<(), String>) {
        let Some(under_way) = self.syncs.under_way.take_if(|under_way| under_way.ticket == ticket) else {
            return;
        };
        match done {
            Err(reason) if !Mutant::ForgetFailure.is_on() => self.become_(State::Poisoned(reason)),
            _ => {
                self.syncs.durable = self.syncs.durable.max(under_way.up_to);
                under_way.notes.into_iter().for_each(|number| self.remove_notes(number));
                if let Some(number) = under_way.compaction {
                    self.finish_compaction(number);
                }
            }
        }
    }

    /// Up to this item everything is on the disk, whatever happens to the power.
    pub fn durable(&self) -> Position {
        self.syncs.durable
    }

    /// When the next order is due.
    pub(crate) fn next_sync(&self) -> Time {
        let syncs = &self.syncs;
        if syncs.under_way.is_some() || matches!(self.state, State::Poisoned(_)) {
            return Time::NEVER;
        }
        let is_dirty = syncs.names || !syncs.dirty.is_empty();
        match self.settings.durability {
            _ if syncs.is_needed => Time::ZERO,
            Durability::Interval(span) if is_dirty => syncs.begun + span,
            Durability::Each if is_dirty => Time::ZERO,
            _ => Time::NEVER,
        }
    }

    /// Tells that something was not noted.
    pub(crate) fn not_noted(&mut self, error: &crate::FileError) {
        self.notes.is_behind = true;
        self.events.push(Event::NotNoted { reason: error.to_string() });
    }
}
