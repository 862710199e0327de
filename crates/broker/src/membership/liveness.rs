//! Whether the other broker lives, told by datagrams.
//!
//! The problem: the connection between the brokers is silent for 200 ms or more when one segment is lost, and the thread that answers
//! polls on it is late when it has much to do. Neither is a death, and a contract counts with a detection that takes tens of
//! milliseconds.
//!
//! The idea: each broker sends the other a numbered heartbeat every few milliseconds, from a thread that does nothing else. A lost one is one
//! lost one. How many in a row may be missing follows from how many are lost at all, and from how evenly they come. Each says for how
//! long the sender's data thread has been in its present turn, so that a process whose data thread stands still is not taken for one
//! that works.
//!
//! The invariants: silence is counted in heartbeats that were sent here, not in time, so a process that stands still itself finds
//! nobody silent; who is heard and does not hear counts as silent, since a broker that is cut off in one direction serves nobody; an old heartbeat, or anybody else's, counts for nothing; patience never exceeds [`Hearing::patience_max`].
//!
//! Left to others: what follows from silence ([`crate::Broker`]), the thread and its socket (`host`).
//! Times are of a clock that is never set; only their differences count.

use contract::{Mutant, Span, Time};
use wire::{Companion, Evidence, HEARTBEAT_BYTES, Heartbeat};

/// How heartbeats are sent and listened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hearing {
    /// The time between two heartbeats.
    pub every: Span,
    /// How long silence is borne at least.
    pub patience: Span,
    /// How long it is borne at most, however unevenly heartbeats come.
    pub patience_max: Span,
}

/// Both directions of heartbeats, and what they say.
#[derive(Clone, Debug)]
pub struct Liveness {
    hearing: Hearing,
    next_at: Time,
    /// Heartbeats sent so far, and when the last ones were.
    sent: u64,
    sent_at: [Time; MEMORY],
    companion: Option<Companion>,
    heard: Heard,
}

/// What has come of one companion.
#[derive(Clone, Copy, Debug)]
struct Heard {
    /// Its highest number, and when that came.
    number: u64,
    at: Time,
    /// Which of the numbers up to that have come: bit `i` for the one that is `i` lower.
    came: u64,
    /// How many numbers came in all.
    count: u64,
    /// Heartbeats sent here since.
    ticks: u32,
    /// The highest number of ours that it has had, as far as it has said.
    echoed: u64,
    still: Span,
    round_trip: Option<RoundTrip>,
    losses: Losses,
}

/// A smoothed round trip and its mean deviation.
#[derive(Clone, Copy, Debug)]
struct RoundTrip {
    mean: Span,
    deviation: Span,
}

/// Numbers that were to come, and those that did, of this window and the one before.
#[derive(Clone, Copy, Debug)]
struct Losses {
    since_number: u64,
    since_count: u64,
    /// Times at which some were missing, one or several in a row; of this window, and of the one before.
    times: u64,
    before: Option<[u64; 2]>,
    times_before: u64,
}

/// Sent heartbeats whose time is remembered, for round trips.
const MEMORY: usize = 64;
/// Numbers in a window of losses.
const LOSS_WINDOW: u64 = 2_000;
/// One loss in so many is assumed before anything has been seen.
const ASSUMED_LOSS: u64 = 1_000;
/// So many heartbeats of a living companion in a row are lost once in a thousand million.
const LOSS_ODDS: f64 = 1e-9;
/// More in a row than any patience has room for.
const IN_A_ROW_MAX: u32 = 1_000;
/// A share of each new round trip in the smoothed one.
const SMOOTHING: i64 = 32;
/// Heartbeats that may be under way, beyond the round trip, before one counts as not heard.
const ECHO_SLACK: u64 = 2;
/// What is off by more heartbeats than this counts as so much.
const OUTLIER: u64 = 4;
/// More heartbeats in a row than a lossy link loses.
const OUTAGE: u64 = 4;
/// How many mean deviations a heartbeat may be late.
const DEVIATIONS: u64 = 4;

impl Liveness {
    /// Nobody is listened for yet.
    pub fn new(hearing: Hearing, now: Time) -> Liveness {
        assert!(hearing.every > Span::ZERO, "heartbeats have a time between them");
        Liveness {
            hearing,
            next_at: now,
            sent: 0,
            sent_at: [Time::ZERO; MEMORY],
            companion: None,
            heard: Heard::nothing(now),
        }
    }

    /// From now on this companion's heartbeats count. What was heard of the same one still does.
    pub fn listen_for(&mut self, now: Time, companion: Option<Companion>) {
        if self.companion != companion {
            self.companion = companion;
            self.heard = Heard { echoed: self.sent, ..Heard::nothing(now) };
        }
    }

    /// Somebody sent this. Returns whether it counts.
    pub fn handle_datagram(&mut self, now: Time, bytes: &[u8]) -> bool {
        let Some(beat) = self.companion.and_then(|companion| companion.open(bytes)) else { return false };
        // An echo of what was never sent is nobody's honest word.
        if beat.number == 0 || beat.heard > self.sent {
            return false;
        }
        if beat.number <= self.heard.number && !Mutant::HearOldHeartbeats.is_on() {
            // It was overtaken, or somebody sends it again: it says nothing of now, but if it is new, it was not lost.
            return self.heard.take_late(&beat);
        }
        // Nor does one that waited here for this process to go on.
        if now <= self.next_at + self.hearing.every {
            self.learn_round_trip(now, &beat);
        }
        self.heard.take(now, &beat);
        self.heard.echoed = self.heard.echoed.max(beat.heard);
        true
    }

    fn learn_round_trip(&mut self, now: Time, beat: &Heartbeat) {
        if beat.heard == 0 || beat.heard + MEMORY as u64 <= self.sent {
            return;
        }
        let sent_at = self.sent_at[(beat.heard % MEMORY as u64) as usize];
        let sample = (now.since(sent_at) - beat.held).max(Span::ZERO);
        // One that waited for a process which stood still says little of the link.
        let (outlier, every) = (self.hearing.every * OUTLIER, self.hearing.every);
        self.heard.round_trip = Some(match self.heard.round_trip {
            None => RoundTrip { mean: sample, deviation: Span(sample.0 / 2).min(every) },
            Some(RoundTrip { mean, deviation }) => {
                let off = (sample.0 - mean.0).clamp(-outlier.0, outlier.0);
                RoundTrip {
                    mean: Span(mean.0 + off / SMOOTHING),
                    deviation: Span(deviation.0 + (off.abs() - deviation.0) / SMOOTHING),
                }
            }
        });
    }

    /// When [`Liveness::handle_timeout`] has something to do.
    pub fn next_deadline(&self) -> Time {
        self.next_at
    }

    /// Sends a heartbeat, if one is due. What has come before must have been handed over. `still`: for how long this process's data
    /// thread has been in its present turn.
    pub fn handle_timeout(&mut self, now: Time, still: Span, send: impl FnOnce(&[u8; HEARTBEAT_BYTES])) {
        if now < self.next_at {
            return;
        }
        // Those that were missed while this process stood still are not made up for.
        self.next_at = (self.next_at + self.hearing.every).max(now);
        let Some(companion) = self.companion else { return };
        self.sent += 1;
        self.sent_at[(self.sent % MEMORY as u64) as usize] = now;
        self.heard.ticks = self.heard.ticks.saturating_add(1);
        let held = if self.heard.number == 0 { Span::ZERO } else { now.since(self.heard.at) };
        send(&companion.sign(&Heartbeat {
            number: self.sent,
            heard: self.heard.number,
            held,
            still,
            received: self.heard.count,
        }));
    }

    /// What is known of the companion; nothing before its first heartbeat.
    pub fn evidence(&self) -> Option<Evidence> {
        let companion = self.companion.filter(|_| self.heard.number > 0)?;
        // Who is heard and hears nothing is cut off as well: it would not know who reigns, and nobody could publish there.
        let there_and_back = self.heard.round_trip.map_or(0, |it| it.mean.0 / self.hearing.every.0) as u64;
        let unheard = (self.sent - self.heard.echoed).saturating_sub(there_and_back + ECHO_SLACK);
        let ticks = u64::from(self.heard.ticks);
        Some(Evidence {
            node: companion.node,
            silence: self.hearing.every * ticks.max(unheard),
            unheard: self.hearing.every * ticks,
            patience: self.patience(),
            still: self.heard.still,
            heard: self.heard.count,
            round_trip: self.heard.round_trip.map(|it| it.mean),
            loss_ppm: self.heard.loss_ppm(),
        })
    }

    /// How long the companion may be silent: for as long as was asked for where heartbeats come as they should, and longer where they are
    /// seen to be lost, or late.
    fn patience(&self) -> Span {
        let Hearing { every, patience, patience_max } = self.hearing;
        let uneven = self.heard.round_trip.map_or(Span::ZERO, |it| it.deviation * DEVIATIONS);
        let lost = every * u64::from(self.heard.losses_in_a_row() + 1);
        (patience.max(lost) + uneven).min(patience_max.max(patience))
    }
}

impl Heard {
    fn nothing(now: Time) -> Heard {
        Heard {
            number: 0,
            at: now,
            came: 0,
            count: 0,
            ticks: 0,
            echoed: 0,
            still: Span::ZERO,
            round_trip: None,
            losses: Losses { since_number: 0, since_count: 0, times: 0, before: None, times_before: 0 },
        }
    }

    fn take(&mut self, now: Time, beat: &Heartbeat) {
        if self.number == 0 {
            // Those before the first were not listened for.
            self.losses.since_number = beat.number - 1;
        }
        let ahead = beat.number.saturating_sub(self.number);
        if self.number > 0 && ahead > OUTAGE {
            // So many in a row were cut off, and say nothing of what a link loses now and then.
            self.losses.since_number += ahead - 1;
        } else if self.number > 0 && ahead > 1 {
            self.losses.times += 1;
        }
        self.came = self.came.checked_shl(u32::try_from(ahead).unwrap_or(u32::MAX)).unwrap_or(0) | 1;
        (self.number, self.at, self.ticks, self.still) = (beat.number, now, 0, beat.still);
        self.count += 1;
        let due = self.number - self.losses.since_number;
        if due >= LOSS_WINDOW {
            let came = self.count - self.losses.since_count;
            self.losses = Losses {
                since_number: self.number,
                since_count: self.count,
                times: 0,
                before: Some([due, came]),
                times_before: self.losses.times,
            };
        }
    }

    /// One with a lower number than the highest. Returns whether it had not come yet.
    fn take_late(&mut self, beat: &Heartbeat) -> bool {
        let bit =
            1_u64.checked_shl(u32::try_from(self.number - beat.number).unwrap_or(u32::MAX)).unwrap_or(0);
        let is_new = bit != 0 && self.came & bit == 0;
        self.came |= bit;
        self.count += u64::from(is_new);
        is_new
    }

    /// What share of heartbeats does not come, in millionths.
    fn loss_ppm(&self) -> u32 {
        let [due, came] = self.due_and_came();
        ((due - came.min(due)) * 1_000_000).checked_div(due).unwrap_or(0) as u32
    }

    fn due_and_came(&self) -> [u64; 2] {
        let [due, came] = self.losses.before.unwrap_or([0; 2]);
        [due + self.number - self.losses.since_number, came + self.count - self.losses.since_count]
    }

    /// How many in a row may be lost before it is likelier that the companion is gone.
    fn losses_in_a_row(&self) -> u32 {
        let [due, came] = self.due_and_came();
        let lost = due - came.min(due);
        // What was missing once, be it a few in a row, says nothing of what is lost now and then, and patience is what a death costs.
        if lost == 0 || self.losses.times + self.losses.times_before <= 1 {
            return 0;
        }
        let share = (lost + 1) as f64 / (due + ASSUMED_LOSS) as f64;
        let (mut odds, mut in_a_row) = (1.0, 0);
        while odds > LOSS_ODDS && in_a_row < IN_A_ROW_MAX {
            (odds, in_a_row) = (odds * share, in_a_row + 1);
        }
        in_a_row
    }
}

#[cfg(test)]
mod tests;
