//! What was seen of a stream of which nothing comes any more; what is concluded from it is in [`crate::watch::silence`].

use contract::{Contract, Span, Time};

/// For looks that come late, clocks that differ, and failovers.
pub(crate) const TOLERANCE: Span = Span::secs(1);
/// What is learnt of pauses is bounded: no stream is left alone for longer than twice this.
const USUAL_MAX: Span = Span::secs(24 * 3600);

/// What was seen of one stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Quiet {
    /// The next number, and how many were missing, when it was last seen to go on, and when that was.
    seen: (u64, u64),
    pub(crate) since: Time,
    /// The longest pause after which it went on with the next number.
    usual: Span,
    pub(crate) silent: bool,
    ended: bool,
    /// What the configuration says of its gaps, and the count of its changes by which that was looked up.
    gap: (u32, Span),
}

/// What a look finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Finding {
    Nothing,
    Fell { after: Span },
    Spoke { after: Span },
}

impl Quiet {
    /// Its publisher has ended it, or said farewell. It is judged again when something comes.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// The longest gap that it may have; forever where that is not configured. Looked up again where the configuration has changed.
    pub(crate) fn gap(&mut self, changes: u32, look_up: impl FnOnce() -> Span) -> Span {
        if self.gap.0 != changes {
            self.gap = (changes, look_up());
        }
        self.gap.1
    }

    /// Looks at a stream, of whose gaps this is configured: forever, where nothing is. What was seen before `from` does not count.
    pub(crate) fn look(
        &mut self,
        now: Time,
        from: Time,
        seen: (u64, u64),
        (gap, contract): (Span, &Contract),
    ) -> Finding {
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
        let usual = || (contract.period * 2).max(self.usual * 2) + contract.deadline + TOLERANCE;
        let patience = if gap.is_forever() { usual() } else { gap };
        if self.silent || self.ended || after <= patience {
            return Finding::Nothing;
        }
        self.silent = true;
        Finding::Fell { after }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time(1_000_000_000_000);

    fn look(quiet: &mut Quiet, now: Time, from: Time, seen: (u64, u64)) -> Finding {
        let contract = Contract::every(Span::secs(1)).deadline(Span::millis(500));
        quiet.look(now, from, seen, (Span::FOREVER, &contract))
    }

    /// Looks every 100 ms until something is found.
    fn find(quiet: &mut Quiet, now: &mut Time, seen: (u64, u64)) -> Option<Span> {
        for _ in 0..1_000 {
            *now = *now + Span::millis(100);
            if let Finding::Fell { after } = look(quiet, *now, START, seen) {
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
        let spoke = look(&mut quiet, now, START, (9, 7));
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
        assert_eq!(look(&mut quiet, now, START, (2, 0)), Finding::Spoke { after: Span::secs(5) });
        assert_eq!(find(&mut quiet, &mut now, (2, 0)), Some(Span::millis(11_600)));
    }

    #[test]
    fn a_gap_that_is_configured_is_looked_up_once_for_each_configuration() {
        let mut quiet = Quiet::default();
        let gap = |quiet: &mut Quiet, changes, gap| quiet.gap(changes, || gap);
        assert_eq!(gap(&mut quiet, 1, Span::secs(3)), Span::secs(3));
        assert_eq!(gap(&mut quiet, 1, Span::secs(4)), Span::secs(3));
        assert_eq!(gap(&mut quiet, 2, Span::FOREVER), Span::FOREVER);
    }

    #[test]
    fn what_has_ended_is_not_silent_until_it_goes_on() {
        let (mut quiet, mut now) = (Quiet::default(), START);
        look(&mut quiet, now, START, (1, 0));
        quiet.end();
        assert_eq!(find(&mut quiet, &mut now, (1, 0)), None);
        look(&mut quiet, now, START, (2, 0));
        assert!(find(&mut quiet, &mut now, (2, 0)).is_some());
    }

    #[test]
    fn a_clock_that_jumps_makes_nobody_silent() {
        let mut quiet = Quiet::default();
        look(&mut quiet, START, START, (1, 0));
        let later = START + Span::secs(3_600);
        assert_eq!(look(&mut quiet, later, later, (1, 0)), Finding::Nothing);
        assert_eq!(look(&mut quiet, START, START, (1, 0)), Finding::Nothing);
        assert_eq!(look(&mut quiet, START + Span::secs(1), START, (1, 0)), Finding::Nothing);
    }
}
