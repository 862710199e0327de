//! Streams of which nothing comes any more, seen while it lasts.
//!
//! The problem: a gap is noticed with the message behind it. Where none comes, since a publisher is cut off or stands still, every count
//! stays as good as it was.
//!
//! The idea: housekeeping looks at each stream now and then. One that has not gone on for two periods, its deadline and
//! [`TOLERANCE`](crate::store::quiet::TOLERANCE) is *silent*: that is shown and told, and taken back when it goes on.
//!
//! A period is the shortest time between two messages, and a publisher that has nothing to say breaks no promise. What tells the two
//! apart is what comes next: where it goes on with the next number, it had nothing to say, and so long a pause is usual for this stream
//! from then on; it is silent after twice as long. Where numbers are missing, it was not heard, and nothing is learnt.
//!
//! Where a gap is configured, a stream is silent after that, whatever is usual: since it was there first, or said something last.
//!
//! Not judged: results of operators, and streams whose publisher has ended them or said farewell; where no gap is configured, best effort,
//! topics without a period, and streams that have never said anything.

use crate::outputs::Outputs;
use crate::store::quiet::{Finding, Quiet};
use crate::store::table::{Stream, Table, Topic};
use crate::watch::events::Event;
use crate::watch::status::Stats;
use contract::{Loss, Span, StreamId, Time, invariant};
use std::ops::Range;

/// All of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Silences {
    count: u32,
    /// What was seen before does not count: since then this broker reigns, or its clock has jumped.
    from: Time,
    reigns: bool,
    /// How often the configuration of topics has changed.
    changes: u32,
}

/// What is configured of the gaps of a topic; nothing where no topic has one.
pub(crate) type GapOf<'a> = Option<&'a dyn Fn(&str) -> Span>;

impl Silences {
    /// How many streams are silent.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Other gaps are configured from now on.
    pub(crate) fn change_gaps(&mut self) {
        self.changes = self.changes.wrapping_add(1);
    }

    /// Everybody is listened to anew.
    pub(crate) fn begin_anew(&mut self, now: Time) {
        (self.count, self.from) = (0, now);
    }

    /// For how long a stream of a broker that `reigns` has been silent, if it is.
    pub(crate) fn of(&self, now: Time, stream: &Stream, reigns: bool) -> Option<Span> {
        let quiet = &stream.record.quiet;
        let silent = quiet.silent && quiet.since >= self.from && reigns;
        silent.then(|| now.since(quiet.since).max(Span::ZERO))
    }

    /// A stream is forgotten, or its publisher has ended it.
    pub(crate) fn end(&mut self, table: &mut Table, index: StreamId) {
        let Some(stream) = table.stream_mut(index) else {
            return invariant!("a stream that ends is there");
        };
        self.excuse(&mut stream.record.quiet);
        stream.record.quiet.end();
    }

    /// A stream is not silent any more, although nothing has come.
    fn excuse(&mut self, quiet: &mut Quiet) {
        let counted = std::mem::replace(&mut quiet.silent, false) && quiet.since >= self.from;
        self.count -= u32::from(counted);
    }

    /// Looks at some of the streams, if this broker reigns: those at which housekeeping looks this time.
    pub(crate) fn listen_to_streams(
        &mut self,
        now: Time,
        reigns: bool,
        (table, places): (&mut Table, Range<usize>),
        gap_of: GapOf<'_>,
        stats: &mut Stats,
        out: &mut impl Outputs,
    ) {
        if std::mem::replace(&mut self.reigns, reigns) != reigns {
            self.begin_anew(now);
        }
        if !reigns {
            return;
        }
        for index in places {
            // There need not be a stream at each place.
            let Some((stream, topic)) = table.pair_mut(StreamId(index as u32)) else { continue };
            // A stream begins with none; the first look finds what is configured.
            let changes = self.changes.wrapping_add(1);
            let gap = gap_of.map_or(Span::FOREVER, |look_up| {
                stream.record.quiet.gap(changes, || look_up(topic.name.as_str()))
            });
            if !is_judged(stream, topic, !gap.is_forever()) {
                // It may have been, by another configuration.
                self.excuse(&mut stream.record.quiet);
                continue;
            }
            let seen = (stream.next_seq, stream.record.troubles.lost);
            let record = &mut stream.record;
            let finding = record.quiet.look(now, self.from, seen, (gap, &topic.contract));
            let (silent, after) = match finding {
                Finding::Nothing => continue,
                Finding::Fell { after } => (true, after),
                Finding::Spoke { after } => (false, after),
            };
            self.count = if silent { self.count + 1 } else { self.count.saturating_sub(1) };
            if stats.telling.allows(now, Time::ZERO) {
                let (topic, publisher) = (topic.name.as_str(), &*record.publisher);
                out.report(&if silent {
                    Event::Silent { topic, publisher, after, gap }
                } else {
                    Event::SilenceEnded { topic, publisher, after }
                });
            }
        }
    }
}

fn is_judged(stream: &Stream, topic: &Topic, has_gap: bool) -> bool {
    let contract = &topic.contract;
    let says_when =
        || contract.loss != Loss::Unbounded && !contract.period.is_forever() && stream.arrived() > 0;
    stream.record.admitted && stream.record.made_of.is_none() && (has_gap || says_when())
}
