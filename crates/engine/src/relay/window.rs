//! How much of relayed clients may be on the link between the brokers at once.
//!
//! The problem: what has been handed to the link goes before copies and answers to polls that come later, and a narrow link takes long for
//! it. The idea: the other broker says when bytes have come. Where they take much longer than the fastest did, the link queues them,
//! and fewer may follow; where they do not, more.

use contract::{Span, Time};

/// The bytes under way, and how many may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Window {
    under_way: usize,
    most: usize,
    /// The bytes that were under way when one was measured, less those that have come since, and when that was.
    measured: Option<(usize, Time)>,
    fastest: Span,
}

/// Some messages, which even a link of 1 Mbit/s carries in 32 ms.
const LEAST_BYTES: usize = 4 << 10;
/// 64 KiB per round trip of a millisecond are half a gigabit per second.
const MOST_BYTES: usize = 64 << 10;
/// Bytes that take so much longer than the fastest have waited behind others.
const LONG: Span = Span::millis(10);
/// Where it is no longer than this, more may follow.
const QUICK: Span = Span::millis(2);

impl Default for Window {
    fn default() -> Window {
        Window { under_way: 0, most: LEAST_BYTES, measured: None, fastest: Span::FOREVER }
    }
}

impl Window {
    /// How many bytes may be sent now.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.most.saturating_sub(self.under_way)
    }

    /// So many were sent.
    pub(super) fn sent(&mut self, now: Time, bytes: usize) {
        self.under_way += bytes;
        if bytes > 0 && self.measured.is_none() {
            self.measured = Some((self.under_way, now));
        }
    }

    /// So many have come.
    pub(super) fn came(&mut self, now: Time, bytes: usize) {
        self.under_way = self.under_way.saturating_sub(bytes);
        let Some((left, since)) = &mut self.measured else { return };
        *left = left.saturating_sub(bytes);
        if *left > 0 {
            return;
        }
        // A clock that went back says nothing.
        let took = now.since(*since).max(Span::ZERO);
        self.measured = None;
        self.fastest = self.fastest.min(took);
        if took > self.fastest + LONG {
            self.most = (self.most / 2).max(LEAST_BYTES);
        } else if took <= self.fastest + QUICK {
            self.most = (self.most * 2).min(MOST_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends as much as may be over a link of so many bytes per millisecond, with a round trip of 1 ms, until it has settled.
    fn settled(rate: usize) -> usize {
        let (mut window, mut now) = (Window::default(), Time(1_000_000_000));
        for _ in 0..50 {
            let bytes = window.room();
            window.sent(now, bytes);
            now = now + Span::millis(1) + Span::micros((bytes * 1_000 / rate) as i64);
            window.came(now, bytes);
        }
        window.most
    }

    #[test]
    fn a_wide_link_carries_much_and_a_narrow_one_little_at_a_time() {
        assert_eq!(settled(100_000), MOST_BYTES);
        // 8 Mbit/s: what is under way takes no longer than twice what is long.
        assert!((LEAST_BYTES..=2 * 10 * 1_000).contains(&settled(1_000)), "{}", settled(1_000));
        assert_eq!(settled(60), LEAST_BYTES);
    }

    #[test]
    fn no_more_is_sent_than_there_is_room_for() {
        let mut window = Window::default();
        window.sent(Time(1), LEAST_BYTES);
        assert_eq!(window.room(), 0);
        window.came(Time(2), LEAST_BYTES / 2);
        assert_eq!(window.room(), LEAST_BYTES / 2);
        window.came(Time(3), usize::MAX);
        assert!(window.room() >= LEAST_BYTES);
    }
}
