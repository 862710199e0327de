//! What events say, for programs: a stable name, how grave it is, and every value by its name.

use crate::watch::events::{Event, LateCause, Loneliness, PromotionCause};
use contract::{Span, Time, shortened};

/// How grave an event is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// Messages are being lost or would be lost by the next crash.
    Error,
    /// Somebody should look at it.
    Warning,
    /// Good to know.
    Info,
    /// Of interest to who looks for something.
    Debug,
}

impl Severity {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warn",
            Severity::Info => "info",
            Severity::Debug => "debug",
        }
    }
}

/// One value of an event.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fact<'a> {
    /// A text.
    Text(&'a str),
    /// A number.
    Number(u64),
    /// A time, in seconds; negative if it lies the other way.
    Seconds(Span),
    /// Whether it is so.
    Flag(bool),
}

impl PromotionCause {
    /// A name that stays the same.
    pub fn as_str(self) -> &'static str {
        match self {
            PromotionCause::Alone => "alone",
            PromotionCause::First => "first",
            PromotionCause::Disconnected => "disconnected",
            PromotionCause::Silent => "silent",
            PromotionCause::Stalled => "stalled",
            PromotionCause::Restarted => "restarted",
            PromotionCause::Handover => "handover",
            PromotionCause::TakenBack => "taken_back",
            PromotionCause::Raised => "raised",
        }
    }
}

impl Loneliness {
    /// A name that stays the same.
    pub fn as_str(self) -> &'static str {
        match self {
            Loneliness::NotJoined => "not_joined",
            Loneliness::Disconnected => "disconnected",
            Loneliness::Silent => "silent",
        }
    }
}

impl LateCause {
    /// A name that stays the same.
    pub fn as_str(self) -> &'static str {
        match self {
            LateCause::Broker => "broker",
            LateCause::Age(_) => "age",
            LateCause::Clock(_) => "clock",
        }
    }
}

impl Event<'_> {
    /// A name that stays the same from release to release.
    pub fn kind(&self) -> &'static str {
        match self {
            Event::OperatorFailed { .. } => "operator_failed",
            Event::OperatorOverdue { .. } => "operator_overdue",
            Event::ResultRefused { .. } => "result_refused",
            Event::ShortOfRoom { .. } => "short_of_room",
            Event::Promoted { .. } => "promoted",
            Event::SteppedDown { .. } => "stepped_down",
            Event::Joined { .. } => "joined",
            Event::Protected { .. } => "protected",
            Event::Unprotected { .. } => "unprotected",
            Event::HandedOver { .. } => "handed_over",
            Event::DetectionSlow { .. } => "detection_slow",
            Event::PairLinkLossy { .. } => "pair_link_lossy",
            Event::PairLinkThin { .. } => "pair_link_thin",
            Event::PairLinkFar { .. } => "pair_link_far",
            Event::CopyingSlow { .. } => "copying_slow",
            Event::BudgetShort { .. } => "budget_short",
            Event::TookOverFalsely { .. } => "took_over_falsely",
            Event::Crowded { .. } => "crowded",
            Event::Refused { .. } => "refused",
            Event::SubscriptionRefused { .. } => "subscription_refused",
            Event::BestEffortInstead { .. } => "best_effort_instead",
            Event::Expelled { .. } => "expelled",
            Event::ClientCame { .. } => "client_came",
            Event::ClientGone { .. } => "client_gone",
            Event::MessageGivenUp { .. } => "message_given_up",
            Event::PromiseBroken { .. } => "promise_broken",
            Event::GoesRound { .. } => "goes_round",
            Event::SessionFull { .. } => "session_full",
            Event::SlowSubscriber { .. } => "slow_subscriber",
            Event::TooFast { .. } => "too_fast",
            Event::ClockApart { .. } => "clock_apart",
            Event::Reincarnated { .. } => "reincarnated",
            Event::CutOff { .. } => "cut_off",
            Event::CutOffEnded { .. } => "cut_off_ended",
            Event::Silent { .. } => "silent",
            Event::SilenceEnded { .. } => "silence_ended",
            Event::DeadlineMissed { .. } => "deadline_missed",
            Event::LossRun { .. } => "loss_run",
            Event::OperatorForgets { .. } => "operator_forgets",
            Event::OperatorSlow { .. } => "operator_slow",
            Event::SubscriberFar { .. } => "subscriber_far",
            Event::EventsBeyond { .. } => "events_beyond",
            Event::EventsShort { .. } => "events_short",
            Event::SubscriberLate { .. } => "subscriber_late",
            Event::SubscriberMissed { .. } => "subscriber_missed",
            Event::ReignsUnasked { .. } => "reigns_unasked",
            Event::KnowsMore { .. } => "knows_more",
            Event::KnowsLess { .. } => "knows_less",
            Event::CopyLeft { .. } => "copy_left",
            Event::StoreGivenUp { .. } => "store_given_up",
            Event::StoreBack { .. } => "store_back",
            Event::StoreOld { .. } => "store_old",
            Event::OutOfMemory { .. } => "out_of_memory",
        }
    }

    /// How grave it is.
    pub fn severity(&self) -> Severity {
        match self {
            Event::Unprotected { .. }
            | Event::LossRun { .. }
            | Event::SubscriberMissed { .. }
            | Event::OutOfMemory { .. }
            | Event::StoreGivenUp { .. }
            | Event::StoreOld { .. }
            | Event::PromiseBroken { .. }
            | Event::CopyLeft { overtaken: false, .. } => Severity::Error,
            Event::Promoted { .. }
            | Event::SteppedDown { .. }
            | Event::Joined { .. }
            | Event::Protected { .. }
            | Event::HandedOver { .. }
            | Event::ReignsUnasked { .. }
            | Event::CopyLeft { .. }
            | Event::StoreBack { .. }
            | Event::CutOffEnded { .. }
            | Event::SilenceEnded { .. }
            | Event::Reincarnated { .. } => Severity::Info,
            Event::ClientCame { .. } | Event::ClientGone { .. } => Severity::Debug,
            _ => Severity::Warning,
        }
    }

    /// Whether something was refused to a client, which may ask for it again and again, and for ever new things.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Event::Refused { .. }
                | Event::SubscriptionRefused { .. }
                | Event::MessageGivenUp { .. }
                | Event::GoesRound { .. }
                | Event::SessionFull { .. }
        )
    }

    /// What it happened to: the same trouble of the same subject is one cause.
    pub fn subject(&self) -> &str {
        match self {
            Event::OperatorFailed { operator, .. }
            | Event::OperatorForgets { operator, .. }
            | Event::OperatorSlow { operator, .. }
            | Event::OperatorOverdue { operator, .. } => operator,
            Event::ResultRefused { topic, .. }
            | Event::ShortOfRoom { topic, .. }
            | Event::Refused { topic, .. }
            | Event::TooFast { topic, .. }
            | Event::DeadlineMissed { topic, .. }
            | Event::Silent { topic, .. }
            | Event::SilenceEnded { topic, .. }
            | Event::OutOfMemory { topic, .. }
            | Event::GoesRound { topic, .. }
            | Event::SubscriberLate { topic, .. }
            | Event::SubscriberMissed { topic, .. }
            | Event::LossRun { topic, .. } => topic,
            Event::PromiseBroken { place, .. } => place,
            Event::SubscriptionRefused { filter, .. } | Event::BestEffortInstead { filter, .. } => filter,
            // Many connections may be closed for one reason, and their names are the peers' choice.
            Event::Expelled { reason, .. } => reason,
            Event::SubscriberFar { subscriber, .. } => subscriber,
            Event::SlowSubscriber { client, .. }
            | Event::ClientCame { client, .. }
            | Event::ClientGone { client, .. }
            | Event::MessageGivenUp { client, .. }
            | Event::SessionFull { client, .. }
            | Event::ClockApart { client, .. }
            | Event::CutOff { client, .. }
            | Event::CutOffEnded { client, .. }
            | Event::Reincarnated { client } => client,
            Event::Promoted { .. }
            | Event::SteppedDown { .. }
            | Event::Joined { .. }
            | Event::Protected { .. }
            | Event::Unprotected { .. }
            | Event::DetectionSlow { .. }
            | Event::PairLinkLossy { .. }
            | Event::PairLinkThin { .. }
            | Event::PairLinkFar { .. }
            | Event::CopyingSlow { .. }
            | Event::BudgetShort { .. }
            | Event::TookOverFalsely { .. }
            | Event::Crowded { .. }
            | Event::EventsBeyond { .. }
            | Event::EventsShort { .. }
            | Event::HandedOver { .. }
            | Event::ReignsUnasked { .. }
            | Event::KnowsMore { .. }
            | Event::KnowsLess { .. }
            | Event::CopyLeft { .. }
            | Event::StoreGivenUp { .. }
            | Event::StoreBack { .. }
            | Event::StoreOld { .. } => "",
        }
    }

    /// Every value, by a name that stays the same.
    #[expect(clippy::too_many_lines, reason = "one arm for each event")]
    pub fn facts<'e>(&'e self, hear: &mut dyn FnMut(&'static str, Fact<'e>)) {
        use Fact::{Flag, Number, Seconds, Text};
        match self {
            Event::OperatorFailed { operator, cause, reason, budget, faults } => {
                hear("operator", Text(operator));
                hear("cause", Text(cause.as_str()));
                hear("reason", Text(reason));
                if let Some(budget) = budget {
                    hear("budget_seconds", Seconds(*budget));
                }
                hear("faults", Number(faults.iter().sum()));
            }
            Event::OperatorOverdue { operator, level, limit, replaced } => {
                hear("operator", Text(operator));
                hear("level", Number(u64::from(*level)));
                hear("limit_seconds", Seconds(*limit));
                hear("replaced", Flag(*replaced));
            }
            Event::DetectionSlow { takes, failover, loss_ppm, round_trip } => {
                hear("takes_seconds", Seconds(*takes));
                hear("failover_seconds", Seconds(*failover));
                hear("loss_ppm", Number(u64::from(*loss_ppm)));
                hear("round_trip_seconds", Seconds(*round_trip));
            }
            Event::PairLinkLossy { loss_ppm, late_by, streams } => {
                hear("loss_ppm", Number(u64::from(*loss_ppm)));
                hear("late_by_seconds", Seconds(*late_by));
                hear("streams", Number(*streams));
            }
            Event::CopyingSlow { takes, budget } => {
                hear("takes_seconds", Seconds(*takes));
                hear("budget_seconds", Seconds(*budget));
            }
            Event::BudgetShort { needed, budget, streams } => {
                hear("needed_seconds", Seconds(*needed));
                hear("budget_seconds", Seconds(*budget));
                hear("streams", Number(*streams));
            }
            Event::PairLinkFar { takes, planned, streams } => {
                hear("takes_seconds", Seconds(*takes));
                hear("planned_seconds", Seconds(*planned));
                hear("streams", Number(*streams));
            }
            Event::PairLinkThin { carries, needed, wait, streams } => {
                hear("carries_bytes_per_second", Number(*carries));
                hear("needed_bytes_per_second", Number(*needed));
                hear("wait_seconds", Seconds(*wait));
                hear("streams", Number(*streams));
            }
            Event::TookOverFalsely { patience } => hear("patience_seconds", Seconds(*patience)),
            Event::Crowded { clients, takes, streams } => {
                hear("clients", Number(*clients));
                hear("takes_seconds", Seconds(*takes));
                hear("streams", Number(*streams));
            }
            Event::ResultRefused { topic, reason } => {
                hear("topic", Text(topic));
                hear("reason", Text(reason));
            }
            Event::ShortOfRoom { topic, kept, needed } => {
                hear("topic", Text(topic));
                hear("kept", Number(*kept as u64));
                hear("needed", Number(*needed as u64));
            }
            Event::Promoted { reign, cause, recovered } => {
                hear("epoch", Number(reign.epoch.0));
                hear("cause", Text(cause.as_str()));
                hear("recovered", Number(*recovered));
            }
            Event::SteppedDown { reign } | Event::Joined { reign } => hear("epoch", Number(reign.epoch.0)),
            Event::Protected { streams } => hear("streams", Number(*streams)),
            Event::Unprotected { cause } => hear("cause", Text(cause.as_str())),
            Event::HandedOver { forwarded } => hear("forwarded", Number(*forwarded)),
            Event::Refused { client, topic, reason } => {
                hear("client", Text(client));
                hear("topic", Text(topic));
                hear("reason", Text(reason));
            }
            Event::SubscriptionRefused { client, filter, reason }
            | Event::BestEffortInstead { client, filter, reason } => {
                hear("client", Text(client));
                hear("filter", Text(filter));
                hear("reason", Text(reason));
            }
            Event::Expelled { client, reason } | Event::ClientGone { client, reason } => {
                hear("client", Text(client));
                hear("reason", Text(reason));
            }
            Event::ClientCame { client, user, address, protocol, resumed } => {
                hear("client", Text(client));
                hear("user", Text(user));
                hear("address", Text(address));
                hear("protocol", Text(protocol));
                hear("resumed", Flag(*resumed));
            }
            Event::MessageGivenUp { client, topic, reason, times } => {
                hear("client", Text(client));
                hear("topic", Text(topic));
                hear("reason", Text(reason));
                hear("times", Number(*times));
            }
            Event::PromiseBroken { place, times } => {
                hear("place", Text(place));
                hear("times", Number(*times));
            }
            Event::GoesRound { client, other, topic, times, within } => {
                hear("client", Text(client));
                hear("other", Text(other));
                hear("topic", Text(topic));
                hear("times", Number(*times));
                hear("within_seconds", Seconds(*within));
            }
            Event::SessionFull { client, dropped, refused } => {
                hear("client", Text(client));
                hear("dropped", Number(*dropped));
                hear("refused", Flag(*refused));
            }
            Event::SlowSubscriber { client, shortfall } => {
                hear("client", Text(client));
                hear("dropped", Number(shortfall.dropped));
                hear("waited", Number(shortfall.waited));
                hear("span_seconds", Seconds(shortfall.span));
                hear("bytes_per_second", Number(shortfall.rate));
            }
            Event::TooFast { client, topic, step, period } => {
                hear("client", Text(client));
                hear("topic", Text(topic));
                hear("step_seconds", Seconds(*step));
                hear("period_seconds", Seconds(*period));
            }
            Event::ClockApart { client, ahead, within } => {
                hear("client", Text(client));
                hear("ahead_seconds", Seconds(*ahead));
                if let Some(within) = within {
                    hear("within_seconds", Seconds(*within));
                }
            }
            Event::Reincarnated { client } => hear("client", Text(client)),
            Event::Silent { topic, publisher, after, .. }
            | Event::SilenceEnded { topic, publisher, after } => {
                hear("topic", Text(topic));
                hear("client", Text(publisher));
                hear("after_seconds", Seconds(*after));
            }
            Event::CutOff { client, through_here } => {
                hear("client", Text(client));
                hear("through_here", Flag(*through_here));
            }
            Event::CutOffEnded { client, through_here, lasted, bytes } => {
                hear("client", Text(client));
                hear("through_here", Flag(*through_here));
                hear("lasted_seconds", Seconds(*lasted));
                hear("bytes", Number(*bytes));
            }
            Event::OutOfMemory { topic, publisher, messages, reason } => {
                hear("topic", Text(topic));
                hear("client", Text(publisher));
                hear("messages", Number(*messages));
                hear("reason", Text(reason));
            }
            Event::DeadlineMissed { topic, publisher, by, missed, cause } => {
                hear("topic", Text(topic));
                hear("client", Text(publisher));
                hear("by_seconds", Seconds(*by));
                hear("missed", Number(*missed));
                hear("cause", Text(cause.as_str()));
                if let LateCause::Clock(clock) = cause {
                    hear("clock_ahead_seconds", Seconds(clock.ahead));
                    hear("clock_within_seconds", Seconds(clock.within));
                }
            }
            Event::LossRun { topic, publisher, run, tolerated } => {
                hear("topic", Text(topic));
                hear("client", Text(publisher));
                hear("run", Number(*run));
                hear("tolerated", Number(u64::from(*tolerated)));
            }
            Event::OperatorForgets { operator, reason } => {
                hear("operator", Text(operator));
                hear("reason", Text(reason));
            }
            Event::SubscriberFar { subscriber, topic, class, way, planned } => {
                hear("subscriber", Text(subscriber));
                hear("topic", Text(topic));
                hear("link", Text(class));
                hear("way_seconds", Seconds(*way));
                hear("planned_seconds", Seconds(*planned));
            }
            Event::OperatorSlow { operator, took, cost } => {
                hear("operator", Text(operator));
                hear("took_seconds", Seconds(*took));
                hear("cost_seconds", Seconds(*cost));
            }
            Event::EventsBeyond { events } => hear("events", Number(*events)),
            Event::EventsShort { needed, permitted } => {
                hear("needed", Number(*needed));
                hear("permitted", Number(*permitted));
            }
            Event::SubscriberLate { topic, publisher, subscriber, late, by } => {
                hear("topic", Text(topic));
                hear("client", Text(publisher));
                hear("subscriber", Text(subscriber));
                hear("late", Number(*late));
                hear("by_seconds", Seconds(*by));
            }
            Event::SubscriberMissed { topic, publisher, subscriber, lost, run, tolerated } => {
                hear("topic", Text(topic));
                hear("client", Text(publisher));
                hear("subscriber", Text(subscriber));
                hear("lost", Number(*lost));
                hear("run", Number(*run));
                hear("tolerated", Number(u64::from(*tolerated)));
            }
            Event::ReignsUnasked { known } => hear("known", Number(*known)),
            Event::KnowsMore { ours, theirs } | Event::KnowsLess { ours, theirs } => {
                hear("known", Number(*ours));
                hear("known_by_partner", Number(*theirs));
            }
            Event::CopyLeft { ours, theirs, surplus, overtaken, aside } => {
                hear("known", Number(*ours));
                hear("known_by_partner", Number(*theirs));
                hear("surplus", Number(*surplus));
                hear("overtaken", Flag(*overtaken));
                hear("aside", Text(aside.unwrap_or("")));
            }
            Event::StoreGivenUp { reason, stored } => {
                hear("reason", Text(reason));
                hear("stored", Number(*stored));
            }
            Event::StoreBack { stored } => hear("stored", Number(*stored)),
            Event::StoreOld { reason, stored, expected, aside } => {
                hear("reason", Text(reason));
                hear("stored", Number(*stored));
                hear("expected", Number(*expected));
                hear("aside", Text(aside.unwrap_or("")));
            }
        }
    }
}

/// Appends one JSON object for an event: what is common first, then its facts, then its sentence.
///
/// `extra` are more fields, as they are.
pub fn write_json(out: &mut String, now: Time, broker: &str, event: &Event<'_>, extra: &[(&str, Fact<'_>)]) {
    let mut object = JsonObject::begin_record(out, now, broker, (event.kind(), event.severity()));
    event.facts(&mut |name, fact| object.field(name, fact));
    extra.iter().for_each(|(name, fact)| object.field(name, *fact));
    object.field("text", Fact::Text(&event.to_string()));
    object.end();
}

/// A JSON object that is being written.
pub struct JsonObject<'a> {
    out: &'a mut String,
    is_empty: bool,
}

impl<'a> JsonObject<'a> {
    /// Begins one.
    pub fn begin(out: &'a mut String) -> JsonObject<'a> {
        out.push('{');
        JsonObject { out, is_empty: true }
    }

    /// Begins one with what every line of a log and every alarm has.
    pub fn begin_record(
        out: &'a mut String,
        at: Time,
        broker: &str,
        (kind, severity): (&str, Severity),
    ) -> JsonObject<'a> {
        let mut object = JsonObject::begin(out);
        object.field("time_ns", Fact::Number(at.0));
        object.field("broker", Fact::Text(broker));
        object.field("kind", Fact::Text(kind));
        object.field("severity", Fact::Text(severity.as_str()));
        object
    }

    /// Writes a field.
    pub fn field(&mut self, name: &str, fact: Fact<'_>) {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.out.push(',');
        }
        write_text(self.out, name);
        self.out.push(':');
        match fact {
            Fact::Text(text) => write_text(self.out, text),
            Fact::Number(number) => self.out.push_str(&number.to_string()),
            Fact::Seconds(span) if span.is_forever() => self.out.push_str("null"),
            Fact::Seconds(span) => self.out.push_str(&seconds(span)),
            Fact::Flag(flag) => self.out.push_str(if flag { "true" } else { "false" }),
        }
    }

    /// Ends it.
    pub fn end(self) {
        self.out.push('}');
    }
}

/// A span as a number of seconds, exact to the nanosecond.
fn seconds(span: Span) -> String {
    let sign = if span < Span::ZERO { "-" } else { "" };
    let nanos = span.0.unsigned_abs();
    format!("{sign}{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

/// The longest text that is said whole: topics may be longer.
const TEXT_BYTES_MAX: usize = 4_096;

fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for letter in shortened(text, TEXT_BYTES_MAX).chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            // Others that end or turn a line around, for whoever prints it.
            letter if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}') => {
                out.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests;
