//! Streams of which nothing comes any more, seen while it lasts.
//!
//! The problem: a gap is noticed with the message behind it. Where none comes, since a publisher is cut off or stands still, every count
//! stays as good as it was.
//!
//! The idea: housekeeping looks at each stream now and then. One that has not gone on for two periods, its deadline and
//! [`TOLERANCE`] is *silent*: that is shown and told, and taken back when it goes on.
//!
//! A period is the shortest time between two messages, and a publisher that has nothing to say breaks no promise. What tells the two
//! apart is what comes next: where it goes on with the next number, it had nothing to say, and so long a pause is usual for this stream
//! from then on; it is silent after twice as long. Where numbers are missing, it was not heard, and nothing is learnt.
//!
//! Not judged: best effort, topics without a period, streams that have never said anything, results of operators, and streams whose
//! publisher has ended them or said farewell.

use crate::broker::Broker;
use crate::housekeeping::STREAMS_PER_LOOK;
use crate::outputs::Outputs;
use crate::store::table::{Stream, Topic};
use crate::watch::events::Event;
use contract::{Contract, Loss, Span, StreamId, Time};

/// For looks that come late, clocks that differ, and failovers.
const TOLERANCE: Span = Span::secs(1);
/// What is learnt of pauses is bounded: no stream is left alone for longer than twice this.
const USUAL_MAX: Span = Span::secs(24 * 3600);

/// What was seen of one stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Quiet {
    /// The next number, and how many were missing, when it was last seen to go on, and when that was.
    seen: (u64, u64),
    since: Time,
    /// The longest pause after which it went on with the next number.
    usual: Span,
    silent: bool,
    ended: bool,
}

/// What a look finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Finding {
    Nothing,
    Fell { after: Span },
    Spoke { after: Span },
}

impl Quiet {
    /// Its publisher has ended it, or said farewell. It is judged again when something comes.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// Looks at a stream. What was seen before `from` does not count.
    fn look(&mut self, now: Time, from: Time, seen: (u64, u64), contract: &Contract) -> Finding {
        if self.since < from || self.since > now {
            (self.since, self.seen, self.silent) = (now, seen, false);
            return Finding::Nothing;
        }
        let after = now.since(self.since);
        if seen != self.seen {
            let missing = seen.1 != self.seen.1;
            let was_silent = std::mem::replace(&mut self.silent, false);
            if !missing && !self.ended {
                self.usual = self.usual.max(after).min(USUAL_MAX);
            }
            (self.since, self.seen, self.ended) = (now, seen, false);
            return if was_silent { Finding::Spoke { after } } else { Finding::Nothing };
        }
        let patience = (contract.period * 2).max(self.usual * 2) + contract.deadline + TOLERANCE;
        if self.silent || self.ended || after <= patience {
            return Finding::Nothing;
        }
        self.silent = true;
        Finding::Fell { after }
    }
}

/// All of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Silences {
    count: u32,
    /// What was seen before does not count: since then this broker reigns, or its clock has jumped.
    from: Time,
    reigns: bool,
}

impl Silences {
    /// How many streams are silent.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Everybody is listened to anew.
    pub(crate) fn begin_anew(&mut self, now: Time) {
        (self.count, self.from) = (0, now);
    }
}

impl Broker {
    /// For how long a stream has been silent, if it is.
    pub(crate) fn silence(&self, now: Time, stream: &Stream) -> Option<Span> {
        let quiet = &stream.record.quiet;
        let silent =
            quiet.silent && quiet.since >= self.watch.silences.from && self.membership.pair.is_primary();
        silent.then(|| now.since(quiet.since).max(Span::ZERO))
    }

    /// A stream is forgotten, or its publisher has ended it.
    pub(crate) fn end_silence(&mut self, index: StreamId) {
        let from = self.watch.silences.from;
        if let Some(stream) = self.store.table.stream_mut(index) {
            let quiet = &mut stream.record.quiet;
            let counted = std::mem::replace(&mut quiet.silent, false) && quiet.since >= from;
            self.watch.silences.count -= u32::from(counted);
            quiet.end();
        }
    }

    /// Looks at some of the streams: those at which housekeeping looks this time.
    pub(crate) fn listen_to_streams(&mut self, now: Time, out: &mut impl Outputs) {
        let reigns = self.membership.pair.is_primary();
        if std::mem::replace(&mut self.watch.silences.reigns, reigns) != reigns {
            self.watch.silences.begin_anew(now);
        }
        if !reigns {
            return;
        }
        let places = self.house.next_stream
            ..(self.house.next_stream + STREAMS_PER_LOOK).min(self.store.table.streams.len());
        for index in places {
            let Some((stream, topic)) = self.store.table.pair_mut(StreamId(index as u32)) else { continue };
            if !is_judged(stream, topic) {
                continue;
            }
            let seen = (stream.next_seq, stream.record.troubles.lost);
            let record = &mut stream.record;
            let finding = record.quiet.look(now, self.watch.silences.from, seen, &topic.contract);
            let (silent, after) = match finding {
                Finding::Nothing => continue,
                Finding::Fell { after } => (true, after),
                Finding::Spoke { after } => (false, after),
            };
            self.watch.silences.count = if silent {
                self.watch.silences.count + 1
            } else {
                self.watch.silences.count.saturating_sub(1)
            };
            if self.watch.stats.telling.allows(now, Time::ZERO) {
                let (topic, publisher) = (topic.name.as_str(), &*record.publisher);
                out.report(&if silent {
                    Event::Silent { topic, publisher, after }
                } else {
                    Event::SilenceEnded { topic, publisher, after }
                });
            }
        }
    }
}

fn is_judged(stream: &Stream, topic: &Topic) -> bool {
    let contract = &topic.contract;
    stream.record.admitted
        && stream.record.made_of.is_none()
        && contract.loss != Loss::Unbounded
        && !contract.period.is_forever()
        && stream.arrived() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time(1_000_000_000_000);

    fn every_second() -> Contract {
        Contract::every(Span::secs(1)).deadline(Span::millis(500))
    }

    /// Looks every 100 ms until something is found.
    fn find(quiet: &mut Quiet, now: &mut Time, seen: (u64, u64)) -> Option<Span> {
        for _ in 0..1_000 {
            *now = *now + Span::millis(100);
            if let Finding::Fell { after } = quiet.look(*now, START, seen, &every_second()) {
                return Some(after);
            }
        }
        None
    }

    #[test]
    fn a_stream_is_silent_after_two_periods_its_deadline_and_a_second() {
        let (mut quiet, mut now) = (Quiet::default(), START);
        assert_eq!(find(&mut quiet, &mut now, (1, 0)), Some(Span::millis(3_600)));
        assert_eq!(find(&mut quiet, &mut now, (1, 0)), None, "it is found once");
        let spoke = quiet.look(now, START, (9, 7), &every_second());
        assert!(matches!(spoke, Finding::Spoke { .. }) && !quiet.silent);
        assert_eq!(
            find(&mut quiet, &mut now, (9, 7)),
            Some(Span::millis(3_600)),
            "nothing was learnt of a gap"
        );
    }

    #[test]
    fn who_had_nothing_to_say_may_be_quiet_for_twice_as_long() {
        let (mut quiet, mut now) = (Quiet::default(), START);
        assert_eq!(find(&mut quiet, &mut now, (1, 0)), Some(Span::millis(3_600)));
        now = now + Span::millis(1_400);
        assert_eq!(quiet.look(now, START, (2, 0), &every_second()), Finding::Spoke { after: Span::secs(5) });
        assert_eq!(find(&mut quiet, &mut now, (2, 0)), Some(Span::millis(11_600)));
    }

    #[test]
    fn what_has_ended_is_not_silent_until_it_goes_on() {
        let (mut quiet, mut now) = (Quiet::default(), START);
        quiet.look(now, START, (1, 0), &every_second());
        quiet.end();
        assert_eq!(find(&mut quiet, &mut now, (1, 0)), None);
        quiet.look(now, START, (2, 0), &every_second());
        assert!(find(&mut quiet, &mut now, (2, 0)).is_some());
    }

    #[test]
    fn a_clock_that_jumps_makes_nobody_silent() {
        let mut quiet = Quiet::default();
        quiet.look(START, START, (1, 0), &every_second());
        let later = START + Span::secs(3_600);
        assert_eq!(quiet.look(later, later, (1, 0), &every_second()), Finding::Nothing);
        assert_eq!(quiet.look(START, START, (1, 0), &every_second()), Finding::Nothing);
        assert_eq!(quiet.look(START + Span::secs(1), START, (1, 0), &every_second()), Finding::Nothing);
    }
}
