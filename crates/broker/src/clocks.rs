//! How far the clocks of clients are from this broker's, and what that explains.
//!
//! A client asks for the time now and then, and says what it has found: the answer came within a known time, so that the truth is
//! no further from the middle than half of that (`endpoint/clock.rs`). Whatever the load and the way, the difference is thus known with
//! its error, and what it explains is not said of deadlines or load.

use crate::arrive::COMPLAINT_INTERVAL;
use crate::broker::{Broker, Outputs};
use crate::events::{Event, LateCause};
use crate::links::Links;
use contract::{Span, Time};
use wire::{ClockDifference, Frame, LinkId};

/// Clocks that differ by more than this are no jitter between synchronised ones.
pub(crate) const CLOCKS_APART_MIN: Span = Span::millis(10);

impl Broker {
    /// A client asks for the time, and says how far its clock is ahead, as far as it knows.
    pub(crate) fn tell_time(
        &mut self,
        now: Time,
        from: LinkId,
        sent: Time,
        known: Option<ClockDifference>,
        out: &mut impl Outputs,
    ) {
        out.send(from, &Frame::ClockReply { sent, clock: now });
        let Some(link) = self.links.get_mut(from) else { return };
        link.clock = known.filter(|known| known.within >= Span::ZERO);
        let Some(clock) = link.clock.filter(|clock| clock.least() > CLOCKS_APART_MIN) else { return };
        let ahead = clock.ahead > Span::ZERO;
        let (told_at, told_ahead) = link.clock_told;
        let recent = told_at <= now && now < told_at + COMPLAINT_INTERVAL && told_ahead == ahead;
        if recent || !self.stats.telling.allows(now, Time::ZERO) {
            return;
        }
        link.clock_told = (now, ahead);
        out.report(&Event::ClockApart { client: &link.name, ahead: clock.ahead, within: Some(clock.within) });
    }
}

impl Links {
    /// How far a client's clock is ahead of this broker's, where it has said so.
    pub(crate) fn clock_of(&self, client: &str) -> Option<ClockDifference> {
        self.get(self.find(client)?)?.clock
    }
}

/// Why a message was late. `age`: how old it was when it came, if it was older than its deadline then.
pub(crate) fn cause_of_lateness(clock: Option<ClockDifference>, age: Option<Span>) -> LateCause {
    match (clock, age) {
        (Some(clock), _) if clock.ahead < Span::ZERO && clock.least() > CLOCKS_APART_MIN => {
            LateCause::Clock(clock)
        }
        (_, Some(age)) => LateCause::Age(age),
        _ => LateCause::Broker,
    }
}
