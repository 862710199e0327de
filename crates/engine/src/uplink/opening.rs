//! What has come from home before it is known where it goes.
//!
//! The problem: an uplink that begins to carry reaches its routers one after the other, and is given what has waited at home when the first of
//! them has said what is wanted. What another one carries would go nowhere, and be lost. The idea: from then on, and for as long as it takes until
//! topics of a router that is not reached have moved, a message that goes nowhere waits here, and home has it as one that is not confirmed.
//!
//! Invariant: what comes of a stream, its end included, is done in the order in which it came.

use super::ends::Arrived;
use super::{Uplink, UplinkReporter, Which};
use contract::path::REASSIGNED_WITHIN;
use contract::{Mutant, Span, Time};
use endpoint::Confirmation;
use std::collections::{BTreeMap, VecDeque};
use wire::Effects;

/// Messages, and bytes of their payloads, that may wait. Of a stream for which there is no room the oldest is given up.
const WAITING_MAX: usize = 65_536;
const WAITING_BYTES_MAX: usize = 16 << 20;

/// What has come of a stream: a message, or its end.
type Waiting = Option<(Arrived, Vec<u8>)>;

/// Until when ways are opened, and what waits for that.
#[derive(Default)]
pub(super) struct Opening {
    /// Until then a message that goes nowhere waits.
    pub(super) until: Option<Time>,
    /// By the number of the stream at home.
    waiting: BTreeMap<u32, VecDeque<Waiting>>,
    messages: usize,
    bytes: usize,
}

impl Opening {
    /// What leaves begins to come.
    pub(super) fn begin(&mut self, now: Time) {
        self.until = (!Mutant::DropUnrouted.is_on()).then(|| now + REASSIGNED_WITHIN);
    }

    /// Whether anything of a stream waits, so that what follows has to wait behind it.
    pub(super) fn holds(&self, stream: u32) -> bool {
        self.waiting.contains_key(&stream)
    }

    /// A message that waits has come again: that is what is to be confirmed. Returns whether it waits.
    pub(super) fn confirm_by(&mut self, stream: u32, confirmation: Confirmation) -> bool {
        let waiting = self.waiting.get_mut(&stream).into_iter().flatten().flatten();
        let mut known = waiting.map(|(message, _)| message).filter(|known| known.seq == confirmation.seq());
        let known = known.next();
        let waits = known.is_some();
        known.into_iter().for_each(|known| known.confirmation = Some(confirmation));
        waits
    }

    /// The clock has been set.
    pub(super) fn step(&mut self, by: Span) {
        let waiting = self.waiting.values_mut().flatten().flatten();
        waiting.for_each(|(message, _)| message.created = message.created.moved(by));
    }

    /// A stream of which something waits has ended at home.
    pub(super) fn end(&mut self, stream: u32) {
        self.waiting.entry(stream).or_default().push_back(None);
    }

    /// Keeps a message. Returns one of its stream for which there is no room: the oldest, or this one.
    fn push(&mut self, message: Arrived, payload: Vec<u8>) -> Option<Arrived> {
        let is_full = self.messages >= WAITING_MAX || self.bytes + payload.len() > WAITING_BYTES_MAX;
        let mut given_up = None;
        if is_full {
            let queue = self.waiting.get_mut(&message.stream);
            let oldest = queue.and_then(|queue| {
                let place = queue.iter().position(Option::is_some)?;
                queue.remove(place).flatten()
            });
            let Some((oldest, kept)) = oldest else { return Some(message) };
            self.forget(&kept);
            given_up = Some(oldest);
        }
        (self.messages, self.bytes) = (self.messages + 1, self.bytes + payload.len());
        self.waiting.entry(message.stream).or_default().push_back(Some((message, payload)));
        given_up
    }

    /// A message does not wait any more.
    fn forget(&mut self, payload: &[u8]) {
        (self.messages, self.bytes) = (self.messages - 1, self.bytes - payload.len());
    }
}

impl<R: UplinkReporter> Uplink<R> {
    /// A message that may leave goes nowhere: it waits, while that may yet change.
    pub(super) fn keep_unrouted<N: Effects>(&mut self, message: &Arrived, payload: &[u8], net: &mut N) {
        let given_up = match self.opening.until {
            Some(_) => self.opening.push(message.clone(), payload.to_vec()),
            None => Some(message.clone()),
        };
        if let Some(message) = given_up {
            self.confirm_now(Which::Tap, message.confirmation, net);
        }
    }

    /// Something is known of where topics go: what has waited for that goes on, or waits again.
    pub(super) fn pass_what_waited<N: Effects>(&mut self, net: &mut N) {
        for (stream, mut queue) in std::mem::take(&mut self.opening.waiting) {
            while let Some(next) = queue.pop_front() {
                let Some((message, payload)) = next else {
                    self.end_outward(stream, net);
                    continue;
                };
                let paths = self.paths_of(&message, net);
                if paths.is_none() && self.opening.until.is_some() {
                    queue.push_front(Some((message, payload)));
                    break;
                }
                self.opening.forget(&payload);
                self.hand_out(&message, &payload, paths.unwrap_or_default(), net);
            }
            if !queue.is_empty() {
                self.opening.waiting.insert(stream, queue);
            }
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
