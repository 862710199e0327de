//! Periodic tasks: when they run, what they read and for when they write (I3, I4).
//!
//! Releases are multiples of the task's period on the synchronised clock, so replicas of a task run at the same time on all nodes
//! without a word between them. What a job writes at release `r` is valid from `r + T` on, however long the job took: data flows as
//! if every job took exactly one period.

use crate::{Client, Error, Key, Number, Reader, Stamped, Value};
use contract::{Span, Time};
use kv_shared::clock::{now, sleep_towards};
use std::ops::{ControlFlow, Deref};

/// When tasks and jobs of a lane are released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Releases {
    /// `T` of the lane.
    pub period: Span,
    /// `O`: how long after a multiple of the period the job begins that carries what tasks have written.
    pub offset: Span,
}

impl Releases {
    /// The first release after `time` of a task with this period.
    pub fn after(time: Time, period: Span) -> Time {
        Releases::latest(time, period) + period
    }

    /// The latest release at or before `time` of a task with this period.
    pub fn latest(time: Time, period: Span) -> Time {
        Time(time.0 - time.0 % period.as_nanos_u64().max(1))
    }

    /// The first job after `time`: what is written before it is with the other nodes soon after.
    pub fn job_after(&self, time: Time) -> Time {
        Releases::after(time - self.offset, self.period) + self.offset
    }
}

/// What became of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// How often it ran.
    pub runs: u64,
    /// How many releases it missed, because the run before took longer than two periods or the processor was not to be had.
    pub missed: u64,
    /// How often the clock was set back, and releases were counted anew from there.
    pub clock_set_back: u64,
}

/// One run of a task.
#[derive(Debug)]
pub struct Context<'a> {
    client: &'a mut Client,
    release: Time,
    period: Span,
    report: Report,
}

impl Reader {
    /// When tasks and jobs are released.
    pub fn releases(&self) -> Releases {
        let facts = self.facts();
        Releases { period: facts.period, offset: facts.offset }
    }
}

impl Client {
    /// Runs a task in the calling thread, once for each multiple of `period`, until it breaks. A release that it cannot run in
    /// before the next one is missed: it is counted and left out.
    pub fn every(
        &mut self,
        period: Span,
        mut task: impl FnMut(&mut Context<'_>) -> ControlFlow<()>,
    ) -> Result<Report, Error> {
        let (lane, horizon) = (self.facts().period, self.facts().horizon);
        if period < lane || period.0 % lane.0 != 0 || period > horizon {
            return Err(Error::Period { period, lane, horizon });
        }
        let mut report = Report::default();
        let mut release = Releases::after(now(), period);
        loop {
            // A signal only makes the thread look at the clock.
            let time = sleep_towards(release).unwrap_or_else(|_| now());
            if time + period * 2 < release {
                report.clock_set_back += 1;
                release = Releases::after(time, period);
            } else if time >= release + period {
                let next = Releases::after(time, period);
                report.missed += next.since(release).as_nanos_u64() / period.as_nanos_u64();
                release = next;
            } else if time >= release {
                report.runs += 1;
                if task(&mut Context { client: self, release, period, report }).is_break() {
                    return Ok(report);
                }
                release = release + period;
            }
        }
    }
}

impl Context<'_> {
    /// The release of this run.
    pub fn release(&self) -> Time {
        self.release
    }

    /// The period of the task.
    pub fn period(&self) -> Span {
        self.period
    }

    /// I3: the oldest stamp that a value may have which is written once in each of the task's own periods. It forgives one
    /// coordination that failed.
    pub fn freshness(&self) -> Time {
        self.release - self.period
    }

    /// I4: the same for a writer with this period. If it is slower, its latest release counts, and nothing is forgiven.
    pub fn freshness_from(&self, writer_period: Span) -> Time {
        if writer_period > self.period {
            Releases::latest(self.release, writer_period)
        } else {
            self.freshness()
        }
    }

    /// I3: from when on what this run writes is visible.
    pub fn publishing(&self) -> Time {
        self.release + self.period
    }

    /// How the task has done so far, with this run.
    pub fn report(&self) -> Report {
        self.report
    }

    /// I3: reads what is written once in each of the task's own periods.
    pub fn read<'b>(&self, key: &Key, buffer: &'b mut [u8]) -> Result<Value<'b>, Error> {
        self.client.read(key, self.freshness(), buffer)
    }

    /// I4: reads what is written once in each of these periods.
    pub fn read_from<'b>(
        &self,
        key: &Key,
        writer_period: Span,
        buffer: &'b mut [u8],
    ) -> Result<Value<'b>, Error> {
        self.client.read(key, self.freshness_from(writer_period), buffer)
    }

    /// As [`Context::read`], for a number.
    pub fn read_number<N: Number>(&self, key: &Key) -> Result<Stamped<N>, Error> {
        self.client.read_number(key, self.freshness())
    }

    /// As [`Context::read_from`], for a number.
    pub fn read_number_from<N: Number>(&self, key: &Key, writer_period: Span) -> Result<Stamped<N>, Error> {
        self.client.read_number(key, self.freshness_from(writer_period))
    }

    /// I3: writes a value that is visible from the next release on.
    pub fn write(&mut self, key: &Key, value: &[u8]) -> Result<(), Error> {
        self.client.write(key, value, self.publishing())
    }

    /// As [`Context::write`], for a number.
    pub fn write_number<N: Number>(&mut self, key: &Key, number: N) -> Result<(), Error> {
        self.client.write_number(key, number, self.publishing())
    }
}

impl Deref for Context<'_> {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.client
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    #[test]
    fn releases_are_multiples_of_the_period() {
        let period = Span::millis(50);
        assert_eq!(
            (Releases::latest(ms(1_049), period), Releases::after(ms(1_049), period)),
            (ms(1_000), ms(1_050))
        );
        assert_eq!(
            (Releases::latest(ms(1_050), period), Releases::after(ms(1_050), period)),
            (ms(1_050), ms(1_100))
        );
        let lane = Releases { period, offset: Span::millis(4) };
        assert_eq!((lane.job_after(ms(1_003)), lane.job_after(ms(1_004))), (ms(1_004), ms(1_054)));
        // I4: a reader every 50 ms of a writer every 200 ms.
        assert_eq!(Releases::latest(ms(1_350), Span::millis(200)), ms(1_200));
    }
}
