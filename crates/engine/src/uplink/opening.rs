//! What has come from home before it is known where it goes.
//!
//! The problem: an uplink that begins to carry reaches its routers one after the other, and is given what has waited at home when the first of
//! them has said what is wanted. What another one carries would go nowhere, and be lost. The idea: until every router has said what is wanted,
//! and the coordination service knows the site, a message that goes nowhere waits here, and home still has it to confirm. A router that is not
//! reached is waited for as long as it takes until its topics have moved.
//!
//! Invariant: messages of a stream leave in the order in which they came.

use super::ends::Arrived;
use super::routers::Router;
use super::{Uplink, UplinkReporter, Which};
use contract::path::REASSIGNED_WITHIN;
use contract::{Mutant, Time};
use std::collections::VecDeque;
use wire::Effects;

/// Messages, and bytes of their payloads, that may wait. Of what is above the oldest are given up.
const WAITING_MAX: usize = 65_536;
const WAITING_BYTES_MAX: usize = 16 << 20;

/// Since when ways are opened, and what waits for that.
#[derive(Default)]
pub(super) struct Opening {
    /// Until then a message that goes nowhere may wait.
    pub(super) until: Option<Time>,
    waiting: VecDeque<(Arrived, Vec<u8>)>,
    bytes: usize,
}

impl Opening {
    /// The uplink has begun to carry.
    pub(super) fn begin(&mut self, now: Time) {
        self.until = (!Mutant::DropUnrouted.is_on()).then(|| now + REASSIGNED_WITHIN);
    }

    /// Whether anything of a stream waits.
    pub(super) fn holds(&self, stream: u32) -> bool {
        self.waiting.iter().any(|(message, _)| message.stream == stream)
    }

    fn push(&mut self, message: Arrived, payload: &[u8]) {
        self.bytes += payload.len();
        self.waiting.push_back((message, payload.to_vec()));
    }

    /// A stream has ended at home, and its number may mean another one.
    pub(super) fn forget(&mut self, stream: u32) {
        self.waiting.retain(|(message, _)| message.stream != stream);
        self.bytes = self.waiting.iter().map(|(_, payload)| payload.len()).sum();
    }

    /// The oldest of those for which there is no room.
    fn pop_surplus(&mut self) -> Option<Arrived> {
        if self.waiting.len() <= WAITING_MAX && self.bytes <= WAITING_BYTES_MAX {
            return None;
        }
        let (oldest, payload) = self.waiting.pop_front()?;
        self.bytes -= payload.len();
        Some(oldest)
    }
}

impl<R: UplinkReporter> Uplink<R> {
    /// Whether every router has said what is wanted, and the coordination service, if there is one, knows the site.
    fn ways_are_open(&self) -> bool {
        let has_told = |router: &Router| router.is_vacant() || router.wishes.is_complete();
        let holds = self.coordinator.as_ref().is_none_or(super::Coordinator::holds);
        holds && self.routers.iter().all(has_told)
    }

    /// A message that may leave goes nowhere: it waits, if that may yet change.
    pub(super) fn keep_unrouted<N: Effects>(&mut self, message: &Arrived, payload: &[u8], net: &mut N) {
        if self.opening.until.is_none() || self.ways_are_open() {
            return self.confirm_now(Which::Tap, message.confirmation, net);
        }
        self.opening.push(message.clone(), payload);
        while let Some(oldest) = self.opening.pop_surplus() {
            self.confirm_now(Which::Tap, oldest.confirmation, net);
        }
    }

    /// Something is known of where topics go: what has waited for that goes on, or waits again.
    pub(super) fn pass_what_waited<N: Effects>(&mut self, net: &mut N) {
        self.opening.bytes = 0;
        for (message, payload) in std::mem::take(&mut self.opening.waiting) {
            self.pass_out(&message, &payload, net);
        }
    }

    /// What goes nowhere by now goes nowhere.
    pub(super) fn open_no_longer<N: Effects>(&mut self, now: Time, net: &mut N) {
        if self.opening.until.is_some_and(|until| until <= now) {
            self.opening.until = None;
            self.pass_what_waited(net);
        }
    }
}
