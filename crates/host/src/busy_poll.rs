//! Looking for messages before sleeping, where it is likely to pay.
//!
//! The problem: to sleep until the next message comes and be woken for it takes a thread 5 to 20 us, and on a virtual machine up to 50,
//! which in a dialogue is more than all else a broker does for a message. Who looks again and again instead hears of it at once, but keeps its processor from others,
//! and does so for nothing if no message comes soon. The idea: look only while the last waits say that the next will be short, and for
//! no longer than sleeping and waking would take about, so that a wrong guess costs at most as much again.

use contract::Span;

/// It looks where at least so many of the last 64 waits were short.
const SHORT_WAITS: u32 = 56;

/// How long the last waits for messages were.
pub(crate) struct BusyPoll {
    most: Span,
    /// A bit for each of the last 64 waits, set where it was short; the lowest is the last.
    short: u64,
}

impl BusyPoll {
    /// It looks for so long at most, and never if that is zero.
    pub(crate) fn new(most: Span) -> BusyPoll {
        BusyPoll { most, short: 0 }
    }

    /// Whether it ever looks.
    pub(crate) fn is_wanted(&self) -> bool {
        self.most > Span::ZERO
    }

    /// How long to look now before sleeping; zero where that would hardly pay.
    pub(crate) fn span(&self) -> Span {
        if self.short.count_ones() >= SHORT_WAITS { self.most } else { Span::ZERO }
    }

    /// It has looked; `found`: and need not sleep.
    pub(crate) fn looked(&mut self, found: bool) {
        self.note(found);
    }

    /// It has slept at once, and waited for so long in all. Waking is a part of that, and would not be if it had looked.
    pub(crate) fn slept(&mut self, waited: Span) {
        self.note((Span::ZERO..=self.most + self.most).contains(&waited));
    }

    /// Before this wait much was carried: clients need processors to go on with it, and nobody waits for a single message.
    pub(crate) fn carried_bulk(&mut self) {
        self.note(false);
    }

    fn note(&mut self, short: bool) {
        self.short = self.short << 1 | u64::from(short);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Span = Span::micros(50);

    fn after_waits(waits: impl IntoIterator<Item = i64>) -> BusyPoll {
        let mut poll = BusyPoll::new(MOST);
        waits.into_iter().for_each(|micros| poll.slept(Span::micros(micros)));
        poll
    }

    #[test]
    fn it_looks_once_nearly_all_waits_are_short() {
        assert_eq!(BusyPoll::new(MOST).span(), Span::ZERO, "nothing is known yet");
        assert_eq!(after_waits([90; 55]).span(), Span::ZERO);
        assert_eq!(after_waits([90; 56]).span(), MOST, "most of which is waking");
        assert_eq!(after_waits([110; 1_000]).span(), Span::ZERO);
        let every = |nth: i64| after_waits((0..1_000).map(|wait| if wait % nth == 0 { 1_000 } else { 10 }));
        assert_eq!(every(9).span(), MOST);
        assert_eq!(every(7).span(), Span::ZERO);
    }

    #[test]
    fn it_stops_after_looking_nine_times_for_nothing() {
        let mut poll = after_waits([10; 64]);
        let mut in_vain = 0;
        while poll.span() > Span::ZERO {
            poll.looked(false);
            in_vain += 1;
        }
        assert_eq!(in_vain, 9);
        (0..8).for_each(|_| poll.slept(Span::micros(10)));
        assert_eq!(poll.span(), Span::ZERO, "nor does it begin again soon");
        (0..56).for_each(|_| poll.slept(Span::micros(10)));
        assert_eq!(poll.span(), MOST);
    }

    #[test]
    fn it_goes_on_while_it_finds_something() {
        let mut poll = after_waits([10; 64]);
        for look in 0..1_000 {
            poll.looked(look % 9 != 0);
            assert_eq!(poll.span(), MOST);
        }
    }

    #[test]
    fn a_few_small_messages_beside_bulk_do_not_make_it_look() {
        let mut poll = BusyPoll::new(MOST);
        for turn in 0..1_000 {
            if turn % 4 == 0 {
                poll.carried_bulk();
            } else {
                poll.slept(Span::micros(10));
            }
            assert_eq!(poll.span(), Span::ZERO);
        }
    }

    #[test]
    fn a_clock_that_went_back_says_nothing_of_a_short_wait() {
        assert_eq!(after_waits([-10; 64]).span(), Span::ZERO);
        let mut never = BusyPoll::new(Span::ZERO);
        (0..64).for_each(|_| never.slept(Span::ZERO));
        assert_eq!((never.is_wanted(), never.span()), (false, Span::ZERO));
    }
}
