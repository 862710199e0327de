//! Alarms: what breaks or endangers a contract, as documents for whoever watches. Which of them are told is decided here; a
//! gateway publishes them.

use crate::watch::events::Event;
use crate::watch::facts::{Fact, write_json};
use crate::watch::throttle::{Budget, Throttle, Verdict, cause_of};
use contract::{Span, Time};

/// The time between two alarms of the same kind about the same topic.
const INTERVAL: Span = Span::secs(1);

/// What has been told lately, so that the same alarm is not told too often.
#[derive(Clone, Debug)]
pub struct Alarms {
    throttle: Throttle<()>,
    /// Of what is refused to clients, which choose its topics.
    refusals: Budget,
}

/// Alarms in a second about what is refused to clients, of topics that were not told of lately.
const REFUSALS_MAX: u32 = 20;

/// How many causes are remembered. Above it, the one told longest ago is forgotten, and may be told again sooner.
pub const CAUSES_MAX: usize = 256;

impl Default for Alarms {
    fn default() -> Alarms {
        Alarms::new(CAUSES_MAX)
    }
}

impl Alarms {
    /// Remembers so many causes.
    pub fn new(causes_max: usize) -> Alarms {
        Alarms { throttle: Throttle::new(INTERVAL, causes_max), refusals: Budget::new(REFUSALS_MAX) }
    }

    /// Appends the alarm for an event as a JSON object to `out`. `false`: it is none, or has just been told.
    ///
    /// Its fields: `time_ns`, `broker`, `kind`, `severity`, what the kind has (`topic`, `client`, …), `left_out` with how many
    /// of the same cause were not told since the last one, and `text`, a sentence for people.
    pub fn raise(&mut self, now: Time, broker: &str, event: &Event<'_>, out: &mut String) -> bool {
        if !is_alarm(event) {
            return false;
        }
        let Some(left_out) = self.allow(now, (event.kind(), event.subject()), event.is_refusal()) else {
            return false;
        };
        write_json(out, now, broker, event, &[("left_out", Fact::Number(left_out))]);
        true
    }

    /// Whether an alarm of this kind about this may be told now, and how many were left out before it. `is_refusal`: who is refused chooses
    /// what it is about.
    pub fn allow(&mut self, now: Time, (kind, subject): (&str, &str), is_refusal: bool) -> Option<u64> {
        let cause = cause_of(kind, subject);
        if is_refusal && !self.throttle.knows(cause) && !self.refusals.take(now) {
            return None;
        }
        match self.throttle.ask(now, cause, || ()) {
            Verdict::LeaveOut => None,
            Verdict::Tell { left_out } => {
                // Those that there was no room for are told with the next one that is.
                let beyond = if is_refusal { self.refusals.take_beyond(now) } else { 0 };
                Some(left_out + beyond)
            }
        }
    }
}

/// Whether an event says that a contract is broken, endangered, or refused; or, for `protected`, that it no longer is.
pub fn is_alarm(event: &Event<'_>) -> bool {
    match event {
        Event::DeadlineMissed { .. }
        | Event::LossRun { .. }
        | Event::OperatorForgets { .. }
        | Event::OperatorSlow { .. }
        | Event::SubscriberFar { .. }
        | Event::EventsBeyond { .. }
        | Event::EventsShort { .. }
        | Event::SubscriberLate { .. }
        | Event::SubscriberMissed { .. }
        | Event::OutOfMemory { .. }
        | Event::Unprotected { .. }
        | Event::Protected { .. }
        | Event::Refused { .. }
        | Event::SubscriptionRefused { .. }
        | Event::BestEffortInstead { .. }
        | Event::ResultRefused { .. }
        | Event::ShortOfRoom { .. }
        | Event::SlowSubscriber { .. }
        | Event::MessageGivenUp { .. }
        | Event::GoesRound { .. }
        | Event::SessionFull { .. }
        | Event::TooFast { .. }
        | Event::ClockApart { .. }
        | Event::DetectionSlow { .. }
        | Event::PairLinkLossy { .. }
        | Event::PairLinkThin { .. }
        | Event::PairLinkFar { .. }
        | Event::CopyingSlow { .. }
        | Event::BudgetShort { .. }
        | Event::TookOverFalsely { .. }
        | Event::Crowded { .. }
        | Event::CutOff { .. }
        | Event::CutOffEnded { .. }
        | Event::Silent { .. }
        | Event::SilenceEnded { .. }
        | Event::OperatorFailed { .. }
        | Event::OperatorOverdue { .. }
        | Event::KnowsMore { .. }
        | Event::KnowsLess { .. }
        | Event::CopyLeft { overtaken: false, .. }
        | Event::StoreGivenUp { .. }
        | Event::StoreBack { .. }
        | Event::StoreOld { .. } => true,
        Event::Promoted { .. }
        | Event::SteppedDown { .. }
        | Event::Joined { .. }
        | Event::HandedOver { .. }
        | Event::Expelled { .. }
        | Event::ClientCame { .. }
        | Event::ClientGone { .. }
        | Event::PromiseBroken { .. }
        | Event::ReignsUnasked { .. }
        | Event::CopyLeft { .. }
        | Event::Reincarnated { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::events::{LateCause, Loneliness};

    const NOW: Time = Time(1_700_000_000_000_000_000);

    fn missed(topic: &str) -> Event<'_> {
        let (publisher, by) = ("plc", Span::micros(1_500));
        Event::DeadlineMissed { topic, publisher, by, missed: 3, cause: LateCause::Broker }
    }

    #[test]
    fn an_alarm_is_told_once_per_second_for_each_topic_and_kind() {
        let mut alarms = Alarms::default();
        let mut out = String::new();
        assert!(alarms.raise(NOW, "a", &missed("x"), &mut out));
        assert!(alarms.raise(NOW, "a", &missed("y"), &mut out), "another topic");
        assert!(!alarms.raise(NOW + Span::millis(900), "a", &missed("x"), &mut out));
        let loss = Event::LossRun { topic: "x", publisher: "plc", run: 4, tolerated: 3 };
        assert!(alarms.raise(NOW, "a", &loss, &mut out), "another kind");
        out.clear();
        assert!(alarms.raise(NOW + Span::secs(1), "a", &missed("x"), &mut out));
        assert!(out.contains("\"left_out\":1"), "{out}");
    }

    #[test]
    fn who_is_refused_on_ever_new_topics_does_not_fill_the_alarms() {
        let (mut alarms, mut out) = (Alarms::default(), String::new());
        let mut raised = 0;
        for number in 0..10_000 {
            let topic = format!("t/{number}");
            let event = Event::Refused { client: "c", topic: &topic, reason: "no right" };
            raised += u32::from(alarms.raise(NOW + Span::micros(number), "a", &event, &mut out));
        }
        assert_eq!(raised, REFUSALS_MAX);
        // One that was told a moment ago takes their count from nobody.
        let event = Event::Refused { client: "c", topic: "t/19", reason: "no right" };
        assert!(!alarms.raise(NOW + Span::secs(1) + Span::micros(5), "a", &event, &mut out));
        out.clear();
        let event = Event::Refused { client: "c", topic: "last", reason: "no right" };
        assert!(alarms.raise(NOW + Span::secs(2), "a", &event, &mut out));
        assert!(out.contains("\"left_out\":9980"), "{out}");
    }

    #[test]
    fn what_concerns_no_contract_is_no_alarm() {
        let mut out = String::new();
        let event = Event::Reincarnated { client: "plc" };
        assert!(!Alarms::default().raise(NOW, "a", &event, &mut out) && out.is_empty());
        let event = Event::Unprotected { cause: Loneliness::Silent };
        assert!(Alarms::default().raise(NOW, "a", &event, &mut out));
        assert!(
            out.starts_with("{\"time_ns\":1700000000000000000,\"broker\":\"a\",\"kind\":\"unprotected\"")
        );
    }
}
