//! How fast a subscriber's connection takes what is sent to it, and how much may wait for it there.
//!
//! **The problem.** What has been written to a connection cannot be taken back. Behind a narrow one, the usual backlog of megabytes is
//! minutes of data, and all that a subscriber gets is old.
//!
//! **The idea.** It is looked at now and then what a connection has taken. While it never runs empty, that is its rate, and no more may
//! wait on it than it takes within [`WINDOW`]: the rest waits in the broker, where the oldest can be dropped. A subscriber that has been
//! behind for [`SLOW_AFTER`], although its connection takes something all the time, is *slow*: messages that have waited for it too long
//! (`limits.subscriber_delay`, or their deadline) are dropped, so that what it gets is the newest. One that takes nothing for a while is
//! not slow but stopped: what waits for it stays, and it may catch up.

use contract::{Span, Time};
use wire::Shortfall;

/// What may wait on the connection of a slow subscriber: as much as it takes in this time.
const WINDOW: Span = Span::millis(500);
/// The least of that, or a connection would be idle between two looks.
const WINDOW_BYTES_MIN: usize = 8 << 10;
/// A connection on which less waits is not behind.
const CALM_BYTES: usize = 4 << 10;
/// So much may wait in the kernel of a new connection, of which nobody knows what it takes.
const UNPROVEN_BYTES: usize = 16 << 10;
/// It is like any other when it has been measured, or when nothing has waited on it at so many looks.
const PROVING_LOOKS: u32 = 10;
/// A connection that was slow is like any other when nothing has waited for so long.
const CALM_AFTER: Span = Span::secs(10);
/// A rate is measured for so long at least, at first and later.
const MEASURED_FIRST: Span = Span::millis(200);
const MEASURED_AGAIN: Span = Span::secs(1);
/// Looks at which a connection must have taken something for it to have a rate: one that goes on after a pause has none yet.
const MOVES_MIN: u32 = 2;
/// Whoever has been behind for so long without a pause is slow.
const SLOW_AFTER: Span = Span::secs(2);
/// Whoever takes nothing for so long is not slow but stopped.
const STOPPED_AFTER: Span = Span::secs(1);
/// How long messages are counted before anybody is told of those that were dropped.
const COUNTED: Span = Span::secs(1);
/// The shortest time between two sentences to a subscriber that messages were dropped for it.
pub(crate) const TOLD_AGAIN: Span = Span::secs(10);

/// The pace of one subscriber.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    /// Bytes that may wait on its connection before its messages wait in the broker.
    pub(crate) window: usize,
    /// Since when something has waited at each look; [`Time::NEVER`] if nothing did at the last one.
    behind_since: Time,
    /// Since when nothing has waited; [`Time::NEVER`] if something did at the last look.
    calm_since: Time,
    /// When its connection last took something.
    moved_at: Time,
    /// What it had taken then.
    taken: u64,
    /// When the present measurement began, and what the connection had taken by then.
    measured_from: (Time, u64),
    /// Looks since then at which it had taken something.
    moves: u32,
    /// Bytes per second, where they have been measured.
    rate: Option<u64>,
    /// Looks at a new connection until nobody minds what waits in its kernel, and whether this was said.
    proving: u32,
    held_back: bool,
    /// Messages that had to wait, and then were sent.
    sent: u64,
    /// The counts when it was last told, and when that was; [`Time::ZERO`] if it never was.
    told: Counts,
    told_at: Time,
    /// Since when what was dropped is counted; [`Time::NEVER`] if nothing was.
    counted_from: Time,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    sent: u64,
    dropped: u64,
}

impl Pace {
    /// Nothing is known of the connection; so many bytes may wait on it.
    pub(crate) fn new(now: Time, window: usize) -> Pace {
        Pace {
            window,
            behind_since: Time::NEVER,
            calm_since: Time::NEVER,
            moved_at: now,
            taken: 0,
            measured_from: (now, 0),
            moves: 0,
            rate: None,
            proving: PROVING_LOOKS,
            held_back: false,
            sent: 0,
            told: Counts::default(),
            told_at: Time::ZERO,
            counted_from: Time::NEVER,
        }
    }

    /// There is another connection, of which nothing is known.
    /// While there was none, messages were dropped as well, of which nobody is told.
    pub(crate) fn reconnected(&mut self, now: Time, window: usize, dropped: u64) {
        let Pace { sent, told_at, .. } = *self;
        *self = Pace { sent, told: Counts { sent, dropped }, told_at, ..Pace::new(now, window) };
    }

    /// The clock has jumped: what was measured means nothing.
    pub(crate) fn forgive(&mut self, now: Time) {
        (self.moved_at, self.measured_from, self.moves) = (now, (now, self.taken), 0);
        if self.behind_since != Time::NEVER {
            self.behind_since = now;
        }
        if self.calm_since != Time::NEVER {
            self.calm_since = now;
        }
    }

    /// Looks at the connection: so many bytes wait on it, messages wait in the broker or not, and `taken` says how many bytes the other end
    /// has got of it. `usual` may wait where nobody is slow. Returns how much may wait in the connection's kernel, where that has changed.
    pub(crate) fn look(
        &mut self,
        now: Time,
        backlog: usize,
        waits: bool,
        usual: usize,
        taken: impl FnOnce() -> u64,
    ) -> Option<usize> {
        let before = self.window;
        self.look_at_window(now, backlog, waits, usual, taken);
        let was_proven = self.proving == 0;
        if self.rate.is_some() {
            self.proving = 0;
        } else if !waits && backlog < CALM_BYTES {
            self.proving = self.proving.saturating_sub(1);
        }
        let is_proven = self.proving == 0;
        let begins = !is_proven && !std::mem::replace(&mut self.held_back, true);
        (begins || was_proven != is_proven || self.window != before).then(|| self.kept_in_kernel(usual))
    }

    fn kept_in_kernel(&self, usual: usize) -> usize {
        match self.window {
            window if window < usual => window / 2,
            _ if self.proving > 0 => UNPROVEN_BYTES.min(usual),
            _ => usual,
        }
    }

    fn look_at_window(
        &mut self,
        now: Time,
        backlog: usize,
        waits: bool,
        usual: usize,
        taken: impl FnOnce() -> u64,
    ) {
        // What is usual changes with the number of subscribers.
        self.window = if self.rate.is_none() { usual } else { self.window.min(usual) };
        if !waits && backlog < CALM_BYTES {
            return self.rest(now, usual);
        }
        self.calm_since = Time::NEVER;
        // A clock that went back: count from now.
        let begins = self.behind_since == Time::NEVER || self.behind_since > now;
        let taken = taken();
        if begins || taken != self.taken {
            (self.moved_at, self.taken) = (now, taken);
            self.moves += 1;
        }
        self.moved_at = self.moved_at.min(now);
        if begins {
            self.behind_since = now;
            self.measure_anew(now);
        } else if now >= self.moved_at + STOPPED_AFTER {
            self.behind_since = now;
            // One that is known to be narrow has lost a packet, perhaps. What comes at once after that is of the whole time.
            if self.window >= usual {
                self.rate = None;
                self.measure_anew(now);
            }
        } else if waits && backlog < CALM_BYTES {
            // It has run empty, so that it is the window and not the connection that holds up the rest.
            self.window = self.window.saturating_mul(2).min(usual);
            self.measure_anew(now);
        } else {
            self.measure(now, usual);
        }
    }

    /// Nothing waits. A connection that was slow has its window for a while longer: what comes next may be more again than it takes, and
    /// what is written until that is measured cannot be taken back.
    fn rest(&mut self, now: Time, usual: usize) {
        self.behind_since = Time::NEVER;
        self.calm_since = self.calm_since.min(now);
        if now >= self.calm_since + CALM_AFTER {
            (self.rate, self.window) = (None, usual);
        }
    }

    fn measure_anew(&mut self, now: Time) {
        (self.measured_from, self.moves) = ((now, self.taken), 0);
    }

    fn measure(&mut self, now: Time, usual: usize) {
        let (from, taken_then) = self.measured_from;
        let span = now.since(from);
        // The first measurement is short, since what is written until then cannot be taken back.
        let known = self.window < usual;
        let least = if known { MEASURED_AGAIN } else { MEASURED_FIRST };
        if span < least || self.moves < MOVES_MIN {
            return;
        }
        let taken = u128::from(self.taken.saturating_sub(taken_then));
        let rate = taken * 1_000_000_000 / u128::from(span.as_nanos_u64().max(1));
        let window = rate * u128::from(WINDOW.as_nanos_u64()) / 1_000_000_000;
        self.rate = Some(u64::try_from(rate).unwrap_or(u64::MAX));
        // Acknowledgements come late and together, now and then; a window that was too large is felt for seconds.
        let most = if known { self.window.saturating_mul(2).min(usual) } else { usual };
        self.window = usize::try_from(window).unwrap_or(usize::MAX).max(WINDOW_BYTES_MIN).min(most);
        self.measure_anew(now);
    }

    /// Whether it takes less than comes for it, and that not just for a moment.
    pub(crate) fn is_slow(&self, now: Time) -> bool {
        self.rate.is_some() && self.behind_since != Time::NEVER && now >= self.behind_since + SLOW_AFTER
    }

    /// A message that had to wait was sent.
    pub(crate) fn count_sent(&mut self) {
        self.sent += 1;
    }

    /// What it and the admin are to be told by now, if so many messages were dropped for it altogether.
    pub(crate) fn shortfall(&mut self, now: Time, dropped: u64) -> Option<Shortfall> {
        // A clock that went back must not keep it from being told.
        self.counted_from =
            if self.counted_from == Time::NEVER { Time::NEVER } else { self.counted_from.min(now) };
        self.told_at = self.told_at.min(now);
        if dropped == self.told.dropped {
            // Counting begins with the first that is dropped.
            (self.told.sent, self.counted_from) = (self.sent, Time::NEVER);
            return None;
        }
        if self.counted_from == Time::NEVER {
            self.counted_from = now;
        }
        let soon = self.told_at != Time::ZERO && now < self.told_at + TOLD_AGAIN;
        if soon || now < self.counted_from + COUNTED {
            return None;
        }
        let (missing, sent) = (dropped - self.told.dropped, self.sent - self.told.sent);
        let span = now.since(self.counted_from);
        (self.told, self.told_at, self.counted_from) = (Counts { sent: self.sent, dropped }, now, now);
        Some(Shortfall { span, dropped: missing, waited: missing + sent, rate: self.rate.unwrap_or(0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: usize = 4 << 20;

    fn at(millis: i64) -> Time {
        Time(1_000_000_000_000_000) + Span::millis(millis)
    }

    /// A connection behind which this many bytes per second pass, and more always waits.
    fn behind(pace: &mut Pace, from: i64, until: i64, rate: u64) {
        for millis in (from..until).step_by(100) {
            let taken = pace.taken + rate / 10;
            pace.look(at(millis), 100_000, true, USUAL, || taken);
        }
    }

    #[test]
    fn half_a_second_of_what_a_narrow_connection_takes_may_wait_on_it() {
        let mut pace = Pace::new(at(0), USUAL);
        behind(&mut pace, 0, 400, 32_000);
        assert_eq!(pace.window, 16_000);
        assert!(!pace.is_slow(at(400)), "it may be a moment");
        behind(&mut pace, 400, 2_200, 32_000);
        assert!(pace.is_slow(at(2_200)));
        behind(&mut pace, 2_200, 8_000, 100_000);
        assert_eq!(pace.window, 50_000, "it follows the connection");
        assert!(pace.rate.is_some_and(|rate| rate == 100_000));
        assert!(
            pace.look(at(8_000), 0, false, USUAL, || 0).is_none(),
            "nothing waits any more, for a moment perhaps"
        );
        assert_eq!((pace.window, pace.is_slow(at(8_000))), (50_000, false));
        assert_eq!(pace.look(at(18_000), 0, false, USUAL, || 0), Some(USUAL), "it is like any other");
        assert_eq!(pace.window, USUAL);
    }

    #[test]
    fn a_connection_that_runs_empty_while_messages_wait_gets_more_at_once() {
        let mut pace = Pace::new(at(0), USUAL);
        behind(&mut pace, 0, 400, 32_000);
        assert_eq!(pace.window, 16_000);
        for millis in (400..1_300).step_by(100) {
            pace.look(at(millis), 0, true, USUAL, || 1_000_000 + millis as u64 * 1_000);
        }
        assert_eq!(pace.window, USUAL);
    }

    #[test]
    fn whoever_takes_nothing_is_stopped_and_not_slow() {
        let mut pace = Pace::new(at(0), USUAL);
        behind(&mut pace, 0, 10_000, 0);
        assert!(!pace.is_slow(at(10_000)));
        assert_eq!(pace.window, USUAL);
        let mut pace = Pace::new(at(0), USUAL);
        behind(&mut pace, 0, 3_000, 32_000);
        behind(&mut pace, 3_000, 4_500, 0);
        assert!(!pace.is_slow(at(4_500)), "it was slow, and has stopped");
    }

    #[test]
    fn what_is_acknowledged_at_once_after_a_pause_does_not_open_the_window_wide() {
        let mut pace = Pace::new(at(0), USUAL);
        behind(&mut pace, 0, 5_000, 32_000);
        let taken = pace.taken;
        (5_000..8_000).step_by(100).for_each(|millis| {
            pace.look(at(millis), 100_000, true, USUAL, || taken);
        });
        pace.look(at(8_000), 100_000, true, USUAL, || taken + 96_000);
        behind(&mut pace, 8_100, 12_000, 32_000);
        assert!(pace.window <= 32_000, "{}", pace.window);
        assert!(!pace.is_slow(at(9_000)) && pace.is_slow(at(12_000)));
    }

    #[test]
    fn a_burst_changes_nothing() {
        let mut pace = Pace::new(at(0), USUAL);
        for millis in (0..10_000).step_by(100) {
            let burst = millis % 1_000 == 0;
            let (backlog, taken) = if burst { (500_000, pace.taken) } else { (0, pace.taken + 500_000) };
            pace.look(at(millis), backlog, burst, USUAL, || taken);
            assert_eq!(pace.window, USUAL);
        }
    }

    #[test]
    fn little_waits_in_the_kernel_of_a_new_connection_until_it_is_known() {
        let mut pace = Pace::new(at(0), USUAL);
        assert_eq!(pace.look(at(0), 0, false, USUAL, || 0), Some(UNPROVEN_BYTES));
        let changed: Vec<_> = (1..100).map(|look| pace.look(at(100 * look), 0, false, USUAL, || 0)).collect();
        let proven = PROVING_LOOKS as usize - 2;
        assert!(changed.iter().enumerate().all(|(look, held)| *held == (look == proven).then_some(USUAL)));
        // One that turns out to be narrow.
        let mut pace = Pace::new(at(0), USUAL);
        behind(&mut pace, 0, 400, 32_000);
        assert_eq!(pace.kept_in_kernel(USUAL), 8_000);
        // One that turns out to be wide.
        let mut pace = Pace::new(at(0), USUAL);
        behind(&mut pace, 0, 400, 100_000_000);
        assert_eq!(pace.kept_in_kernel(USUAL), USUAL);
    }

    #[test]
    fn it_is_told_a_second_after_the_first_loss_and_then_every_ten() {
        let mut pace = Pace::new(at(0), USUAL);
        let mut told = Vec::new();
        for look in 0..250 {
            let dropped = if look < 5 { 0 } else { (look - 4) * 3 };
            (0..2).for_each(|_| pace.count_sent());
            told.extend(pace.shortfall(at(100 * look as i64), dropped).map(|told| (look, told)));
        }
        let looks: Vec<u64> = told.iter().map(|(look, _)| *look).collect();
        assert_eq!(looks, [15, 115, 215]);
        let second = told[1].1;
        assert_eq!((second.span, second.dropped, second.waited), (Span::secs(10), 300, 500));
    }

    #[test]
    fn a_clock_that_is_set_back_silences_nobody() {
        let mut pace = Pace::new(at(0), USUAL);
        assert!(pace.shortfall(at(0), 1).is_none());
        assert!(pace.shortfall(at(1_000), 2).is_some());
        assert!(pace.shortfall(at(-3_600_000), 3).is_none());
        assert!(pace.shortfall(at(-3_600_000 + 10_000), 4).is_some());
    }
}
