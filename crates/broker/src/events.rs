//! What a broker reports to its operator. Each event is a sentence that says what happened and, where something can be
//! done about it, what.

use contract::{Reign, Span};
use std::fmt;
use wire::Shortfall;

/// Why a broker took the reign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PromotionCause {
    /// No partner was found, or none is configured.
    Alone,
    /// Both were starting, and this one goes first.
    First,
    /// The connection to the primary broke and it could not be reached again.
    Disconnected,
    /// The primary did not answer its polls.
    Silent,
    /// The primary came back without its memory.
    Restarted,
    /// The primary handed over.
    Handover,
    /// The reign was handed over, and the successor did not take it in time.
    TakenBack,
    /// Somebody knew of a higher epoch that nobody reigns any more.
    Raised,
}

impl fmt::Display for PromotionCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PromotionCause::Alone => "no partner is there",
            PromotionCause::First => "both were starting and this one goes first",
            PromotionCause::Disconnected => "the primary is unreachable",
            PromotionCause::Silent => "the primary does not answer",
            PromotionCause::Restarted => "the primary restarted and has lost its memory",
            PromotionCause::Handover => "the primary handed over",
            PromotionCause::TakenBack => "the successor did not take the reign in time",
            PromotionCause::Raised => "a higher epoch was known and nobody reigned in it",
        })
    }
}

/// Why a primary has no backup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loneliness {
    /// None has joined yet.
    NotJoined,
    /// Its connection broke.
    Disconnected,
    /// It stopped polling.
    Silent,
}

/// Something that an operator may want to know.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Runs of an operator fail; told once in a while.
    OperatorFailed {
        /// The operator.
        operator: &'a str,
        /// Why the latest one did.
        reason: &'a str,
        /// How many did so far.
        faults: u64,
    },
    /// An operator has been in one run for too long.
    OperatorOverdue {
        /// The operator.
        operator: &'a str,
        /// Its level.
        level: u8,
        /// For how long at least.
        limit: Span,
        /// Whether another thread does the work of the one that is held up.
        replaced: bool,
    },
    /// Results of an operator cannot be published.
    ResultRefused {
        /// Their topic.
        topic: &'a str,
        /// Why.
        reason: &'a str,
    },
    /// Operators that have just begun need more of a topic's messages to be kept than there is room for.
    ShortOfRoom {
        /// The topic.
        topic: &'a str,
        /// How many messages of a stream are kept.
        kept: usize,
        /// How many would have to be.
        needed: usize,
    },
    /// This broker reigns now.
    Promoted {
        /// Since which promotion.
        reign: Reign,
        /// Why.
        cause: PromotionCause,
        /// Copies that were dispatched at once, since nobody knew whether the old primary had.
        recovered: u64,
    },
    /// This broker reigned and no longer does.
    SteppedDown {
        /// The reign that is higher.
        reign: Reign,
    },
    /// This broker stands by for a primary.
    Joined {
        /// The reign.
        reign: Reign,
    },
    /// A crash of the primary would now be survived within every contract.
    Protected {
        /// Streams that the backup knows.
        streams: u64,
    },
    /// A crash of the primary would now lose messages.
    Unprotected {
        /// Why.
        cause: Loneliness,
    },
    /// The reign has been given to the backup.
    HandedOver {
        /// Messages that were still waiting and went along.
        forwarded: u64,
    },
    /// A contract was refused.
    Refused {
        /// The client.
        client: &'a str,
        /// The topic.
        topic: &'a str,
        /// Why, with a remedy.
        reason: &'a str,
    },
    /// A subscription was refused.
    SubscriptionRefused {
        /// The client.
        client: &'a str,
        /// The filter.
        filter: &'a str,
        /// Why, with a remedy.
        reason: &'a str,
    },
    /// A link was closed by this broker.
    Expelled {
        /// The name the peer gave, or nothing.
        client: &'a str,
        /// Why.
        reason: &'a str,
    },
    /// A subscriber does not read fast enough and has begun to lose its oldest messages.
    SlowSubscriber {
        /// The client.
        client: &'a str,
        /// What it has lost since the operator was last told.
        shortfall: Shortfall,
    },
    /// A publisher sends faster than its period.
    TooFast {
        /// The client.
        client: &'a str,
        /// The topic.
        topic: &'a str,
        /// The time between two messages.
        step: Span,
        /// The period of the contract.
        period: Span,
    },
    /// A publisher's clock and this broker's disagree.
    ClockApart {
        /// The client.
        client: &'a str,
        /// How far the creation time is ahead; negative if it is behind.
        ahead: Span,
    },
    /// Messages of a stream were dispatched after their deadline; told at most once per stream and second.
    DeadlineMissed {
        /// The topic.
        topic: &'a str,
        /// Who publishes it.
        publisher: &'a str,
        /// By how much the latest one missed it.
        by: Span,
        /// How many did since it was last told.
        missed: u64,
    },
    /// More messages in a row are missing than the contract tolerates; told at most once per stream and second.
    LossRun {
        /// The topic.
        topic: &'a str,
        /// Who publishes it.
        publisher: &'a str,
        /// How many are missing.
        run: u64,
        /// How many may be.
        tolerated: u32,
    },
    /// A client came back in a new life; its streams begin anew.
    Reincarnated {
        /// The client.
        client: &'a str,
    },
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Promoted { reign, cause, recovered } => {
                write!(f, "this broker is primary in epoch {}: {cause}", reign.epoch)?;
                if *recovered > 0 { write!(f, "; {recovered} copies dispatched") } else { Ok(()) }
            }
            Event::SteppedDown { reign } => {
                write!(f, "stepped down: epoch {} reigns elsewhere", reign.epoch)
            }
            Event::OperatorFailed { operator, reason, faults } => {
                write!(
                    f,
                    "the operator `{operator}` failed: {reason}; {faults} of its runs have failed so far, the others go on"
                )
            }
            Event::OperatorOverdue { operator, level, limit, replaced } => {
                write!(f, "the operator `{operator}` has not returned for {limit}: ")?;
                write_consequence(f, *level, *replaced)
            }
            Event::ResultRefused { topic, reason } => {
                write!(f, "results of an operator cannot be published on `{topic}`: {reason}")
            }
            Event::ShortOfRoom { topic, kept, needed } => write!(
                f,
                "operators of `{topic}` need {needed} of its messages to be kept, and {kept} are: a message that is overwritten \
                 while they have it is not covered. Raise limits.ring_slots_max or limits.store, and restart"
            ),
            Event::Joined { reign } => write!(f, "this broker is backup in epoch {}", reign.epoch),
            Event::Protected { streams } => write!(f, "protected: the backup knows all {streams} streams"),
            Event::Unprotected { cause } => {
                let cause = match cause {
                    Loneliness::NotJoined => "no backup has joined yet",
                    Loneliness::Disconnected => "the connection to the backup broke",
                    Loneliness::Silent => "the backup stopped polling",
                };
                write!(f, "UNPROTECTED: {cause}; a crash now loses messages. Start the other broker")
            }
            Event::HandedOver { forwarded } => {
                write!(f, "handed over to the backup, with {forwarded} messages that were waiting")
            }
            Event::Refused { client, topic, reason } => {
                write!(f, "refused `{topic}` of {client}: {reason}")
            }
            Event::SubscriptionRefused { client, filter, reason } => {
                write!(f, "refused the subscription `{filter}` of {client}: {reason}")
            }
            Event::Expelled { client: "", reason } => {
                write!(f, "closed a connection: {reason}")
            }
            Event::Expelled { client, reason } => write!(f, "closed the connection of {client}: {reason}"),
            Event::SlowSubscriber { client, shortfall } => {
                write!(f, "subscriber {client} does not read fast enough: {shortfall}")
            }
            Event::TooFast { client, topic, step, period } => write!(
                f,
                "{client} publishes `{topic}` after {step} although its period is {period}: the loss bound does not \
                 hold for such bursts. State a shorter period"
            ),
            Event::ClockApart { client, ahead } => write_clock(f, client, *ahead),
            Event::DeadlineMissed { .. } | Event::LossRun { .. } => self.write_breach(f),
            Event::Reincarnated { client } => write!(f, "{client} has restarted; its streams begin anew"),
        }
    }
}

impl Event<'_> {
    /// A contract that was broken.
    fn write_breach(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::DeadlineMissed { topic, publisher, by, missed } => write!(
                f,
                "{missed} messages of `{topic}` from {publisher} were dispatched after their deadline, the latest by {by}: \
                 see `verge status`; lengthen the deadline, or give the broker less to do"
            ),
            Event::LossRun { topic, publisher, run, tolerated } => write!(
                f,
                "{run} messages in a row of `{topic}` from {publisher} are missing, and its contract tolerates \
                 {tolerated}: raise what the publisher retains, or find what loses them (`verge doctor`)"
            ),
            _ => Ok(()),
        }
    }
}

/// What creation times say of a clock.
fn write_clock(f: &mut fmt::Formatter<'_>, client: &str, ahead: Span) -> fmt::Result {
    if ahead > Span::ZERO {
        return write!(
            f,
            "the clock of {client} is {ahead} ahead of this broker's: deadlines mean nothing until both are \
             synchronised (see `verge doctor`)"
        );
    }
    write!(
        f,
        "messages of {client} are {} old when they come: its clock is behind this broker's, or they have waited for so \
         long, since a process or a connection stood still. While clocks are apart, deadlines mean nothing (see `verge doctor`)",
        -ahead
    )
}

/// What follows from an operator that does not return, and what to do.
fn write_consequence(f: &mut fmt::Formatter<'_>, level: u8, replaced: bool) -> fmt::Result {
    if replaced {
        write!(f, "what comes for it waits; the others of level {level} go on, on another thread")?;
    } else {
        write!(
            f,
            "level {level} waits for it, since as many threads as may be replaced are held up already"
        )?;
    }
    f.write_str(". Take it out of the configuration, and restart the broker if it never returns")
}
