//! The thread of a lane: one job in each period, on time.

use crate::clients::Clients;
use crate::report::Telling;
use crate::wires::{Handover, Wires};
use contract::{Span, Time};
use kv::{BeginError, Lane, Step};
use kv_shared::{State, StoreWriter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

/// How long it sleeps at most before it looks whether it is to end.
const NAP: Span = Span::millis(200);

/// What the thread of a lane owns.
pub(crate) struct Pulse {
    pub(crate) lane: Lane,
    pub(crate) wires: Wires,
    pub(crate) handovers: Receiver<Handover>,
    pub(crate) clients: Clients,
    pub(crate) store: StoreWriter,
    pub(crate) telling: Telling,
    /// Jobs before it are not counted: peers are still coming.
    pub(crate) counts_from: Time,
    pub(crate) stop: Arc<AtomicBool>,
}

impl Pulse {
    /// One job after the other, until the node is to end.
    pub(crate) fn run(mut self) {
        let mut last = None;
        while let Some(release) = self.await_release(last) {
            last = Some(release);
            self.work(release);
            self.telling.tell(&self.lane);
        }
        self.store.set_state(State::Ended);
    }

    /// Sleeps until the next release; `None` if the node is to end.
    fn await_release(&mut self, last: Option<Time>) -> Option<Time> {
        let setup = self.lane.setup();
        let (period, now) = (setup.period(), host::now());
        // A job that is less than a quarter of a period late is begun at once; the core knows the limit.
        let due = last.map(|last| last + period).filter(|due| now < *due + Span(period.0 / 4));
        let release = due.unwrap_or_else(|| setup.release_after(now));
        loop {
            let now = host::now();
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            if release <= now {
                self.telling.facts.clock_back = Span::ZERO;
                return Some(release);
            }
            self.store.beat(now);
            let ahead = release.since(now + period);
            if ahead > Span::ZERO {
                self.telling.facts.clock_back = ahead;
                self.telling.tell(&self.lane);
            }
            // An interruption is as good as having slept.
            let _ = kv_shared::clock::sleep_towards(release.min(now + NAP));
        }
    }

    fn work(&mut self, release: Time) {
        while let Ok(handover) = self.handovers.try_recv() {
            self.wires.adopt(handover);
        }
        // From here on, what clients write is of the next job; so this is said before their rings are emptied.
        let job = self.lane.setup().job_at(release).unwrap_or(0);
        self.store.begun(job);
        let now = host::now();
        self.clients.drain(&mut self.lane, now, &mut self.telling.facts.writes);
        let is_over = match self.lane.begin(release, now) {
            Ok(()) => self.rounds(release),
            // It is counted, and told.
            Err(BeginError::Missed { .. } | BeginError::ClockWentBack(_)) => false,
            Err(error) => {
                debug_assert!(false, "the release was asked for: {error}");
                false
            }
        };
        if is_over {
            self.lane.fuse();
            let outcome = self.lane.publish(host::now(), &mut self.store);
            self.telling.ended(outcome, release, host::now(), release >= self.counts_from);
        }
        self.store.set_lacks(!self.lane.is_sure());
        self.store.set_alone(self.lane.is_alone());
        self.store.set_cautious_until(self.lane.cautious_until());
        self.store.finished(job);
        self.store.beat(host::now());
        if is_over {
            // In what is left of the period, before the next job.
            let period = self.lane.setup().period();
            self.wires.answer(&mut self.lane, release + period - Span(period.0 / 8));
        }
        (self.telling.facts.sends_to, self.telling.facts.hears) = self.wires.connected();
    }

    /// Sends the frames of a round that has begun.
    fn send(&mut self) {
        self.wires.send(&self.lane);
        self.lane.sent(host::now());
    }

    /// Exchanges what is to be agreed on; `false` if the node is to end.
    fn rounds(&mut self, release: Time) -> bool {
        let length = self.lane.setup().round();
        self.wires.open(&mut self.lane, host::now());
        self.send();
        self.wires.hear(&mut self.lane);
        let mut end = release + length;
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return false;
            }
            let now = host::now();
            if self.wires.is_sending() {
                if now < end {
                    self.wires.wait(&mut self.lane, now, end);
                    continue;
                }
                self.wires.give_up();
            }
            match self.lane.step(now) {
                Step::Wait { until, .. } => self.wires.wait(&mut self.lane, now, until),
                Step::Send => {
                    end = end + length;
                    self.send();
                    self.wires.hear(&mut self.lane);
                }
                Step::Over | Step::Idle => return true,
            }
        }
    }
}
