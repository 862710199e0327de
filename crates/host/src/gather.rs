//! Rests by which the data thread leaves processors to operators that need all of them.
//!
//! The problem: where operators keep every processor, each message that wakes the data thread interrupts one of them, and the waking
//! takes more of the processor than the message does: 20 to 30 us on a guest where interrupts are dear. Near capacity that is what is
//! missing, and the least urgent level never catches up. The idea: where nearly all wake-ups have found the processors full lately, the
//! data thread sleeps a little before it looks again, and takes at once what has come meanwhile.
//!
//! Resting makes the processors less full, so it ends at a smaller share than it begins with. A rest is one more time for which a
//! message may be held up, so admission must know the longest.

use contract::{Span, Time};
use std::time::Duration;

/// Wake-ups over which is averaged: a tenth of a second of a busy broker.
const AVERAGED: u32 = 1_024;
/// All wake-ups found the processors full.
const ALWAYS: u32 = 1 << 24;
/// It begins to rest when this share of them did, and ends when less than that did.
const BEGINS: u32 = ALWAYS / 100 * 86;
const ENDS: u32 = ALWAYS / 100 * 78;
/// A shorter rest would take what it saves.
const LEAST: Span = Span::micros(20);

/// Whether the data thread rests, and since when it has not.
pub struct Gather {
    /// How long it may rest.
    most: Span,
    /// The share of wake-ups that found the processors full, of [`ALWAYS`].
    full: u32,
    rests: bool,
    woke: Time,
}

impl Gather {
    /// It rests for so long at most.
    pub fn new(most: Span) -> Gather {
        Gather { most, full: 0, rests: false, woke: Time::ZERO }
    }

    /// The data thread has been woken. `full`: operators have all processors. The clock is asked only if need be.
    pub fn woke(&mut self, full: bool, now: impl FnOnce() -> Time) {
        self.full += if full { ALWAYS / AVERAGED } else { 0 };
        self.full -= self.full / AVERAGED;
        self.rests = self.full >= if self.rests { ENDS } else { BEGINS };
        if self.rests {
            self.woke = now();
        }
    }

    /// How long to sleep now, before it waits for messages.
    pub fn rest(&self, now: impl FnOnce() -> Time) -> Option<Duration> {
        if !self.rests {
            return None;
        }
        // A clock that went back must not make it longer.
        let worked = now().since(self.woke).max(Span::ZERO);
        let rest = self.most - worked;
        (rest >= LEAST).then(|| Duration::from_nanos(rest.as_nanos_u64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time(1_000_000_000);

    /// Wakes so often, of which so many in a hundred find the processors full.
    fn wake(gather: &mut Gather, times: u32, percent: u32) {
        (0..times).for_each(|number| gather.woke(number % 100 < percent, || START));
    }

    #[test]
    fn it_rests_only_where_nearly_all_wake_ups_found_the_processors_full() {
        let mut gather = Gather::new(Span::micros(200));
        assert_eq!(gather.rest(|| START), None);
        wake(&mut gather, 20_000, 75);
        assert_eq!(gather.rest(|| START), None, "a quarter of the time there was room");
        wake(&mut gather, 20_000, 95);
        assert_eq!(gather.rest(|| START), Some(Duration::from_micros(200)));
        wake(&mut gather, 20_000, 84);
        assert!(gather.rest(|| START).is_some(), "what it saves is no reason to end");
        wake(&mut gather, 20_000, 70);
        assert_eq!(gather.rest(|| START), None);
    }

    #[test]
    fn a_short_spell_makes_no_difference() {
        let mut gather = Gather::new(Span::micros(200));
        wake(&mut gather, 20_000, 50);
        wake(&mut gather, 100, 100);
        assert_eq!(gather.rest(|| START), None);
    }

    #[test]
    fn what_the_turn_took_is_no_rest_any_more() {
        let mut gather = Gather::new(Span::micros(200));
        wake(&mut gather, 20_000, 100);
        let rest = |after| gather.rest(|| START + Span::micros(after));
        assert_eq!(rest(150), Some(Duration::from_micros(50)));
        assert_eq!(rest(190), None, "so short a rest saves nothing");
        assert_eq!(rest(5_000), None);
        assert_eq!(rest(-5_000), Some(Duration::from_micros(200)), "a clock that went back");
        let mut never = Gather::new(Span::ZERO);
        wake(&mut never, 20_000, 100);
        assert_eq!(never.rest(|| START), None);
    }
}
