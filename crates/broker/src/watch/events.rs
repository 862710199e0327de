//! What a broker reports to its operator. Each event is a sentence that says what happened and, where something can be
//! done about it, what.

use contract::{Reign, Span};
use std::fmt;
use wire::{ClockDifference, Shortfall};

/// Why a broker took the reign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PromotionCause {
    /// No partner was found, or none is configured.
    Alone,
    /// Both were starting, and this one goes first.
    First,
    /// The connection to the primary broke and it could not be reached again.
    Disconnected,
    /// The primary did not answer its polls, nor did its heartbeats come.
    Silent,
    /// The primary's process sends heartbeats, and its data thread stands still.
    Stalled,
    /// The primary came back without its memory.
    Restarted,
    /// The primary handed over.
    Handover,
    /// The reign was handed over, and the successor did not take it in time.
    TakenBack,
    /// Somebody knew of a higher epoch that nobody reigns any more.
    Raised,
}

impl PromotionCause {
    /// Whether the reign was taken from a primary that was believed dead, and not given.
    pub(crate) fn is_a_take_over(self) -> bool {
        matches!(self, PromotionCause::Disconnected | PromotionCause::Silent | PromotionCause::Stalled)
    }
}

impl fmt::Display for PromotionCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PromotionCause::Alone => "no partner is there",
            PromotionCause::First => "both were starting and this one goes first",
            PromotionCause::Disconnected => "the primary is unreachable",
            PromotionCause::Silent => "the primary does not answer",
            PromotionCause::Stalled => "the primary's process lives, and its data thread stands still",
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

/// Why messages are late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LateCause {
    /// They were in time when they came.
    Broker,
    /// The latest one was older than its deadline when it came.
    Age(Span),
    /// Their publisher's clock is behind.
    Clock(ClockDifference),
}

/// Why a run of an operator failed, by what is to be done about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailureCause {
    /// It did not end in time.
    Budget,
    /// Its code broke off.
    Trap,
    /// It had no result for what it was given.
    Refused,
}

impl FailureCause {
    /// All of them.
    pub const ALL: [FailureCause; 3] = [FailureCause::Budget, FailureCause::Trap, FailureCause::Refused];

    /// A name that stays the same from release to release.
    pub fn as_str(self) -> &'static str {
        match self {
            FailureCause::Budget => "budget",
            FailureCause::Trap => "trap",
            FailureCause::Refused => "refused",
        }
    }
}

/// Something that an admin may want to know.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Runs of an operator fail; told once in a while.
    OperatorFailed {
        /// The operator.
        operator: &'a str,
        /// Why the latest one did.
        cause: FailureCause,
        /// The same in words.
        reason: &'a str,
        /// What a run may take, where that was the cause.
        budget: Option<Span>,
        /// How many did so far, in the order of [`FailureCause::ALL`].
        faults: [u64; 3],
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
    /// A death takes longer to be sure of than contracts count with.
    DetectionSlow {
        /// How long.
        takes: Span,
        /// What contracts count with.
        failover: Span,
        /// What share of heartbeats is lost, in millionths.
        loss_ppm: u32,
        /// To the partner and back.
        round_trip: Span,
    },
    /// The link to the partner loses packets, so that copies may come too late.
    PairLinkLossy {
        /// What share of heartbeats is lost, in millionths.
        loss_ppm: u32,
        /// By how much a copy may be late when it is lost once.
        late_by: Span,
        /// Streams whose copies must be there sooner.
        streams: u64,
    },
    /// The way to the backup takes longer than contracts count with.
    PairLinkFar {
        /// How long, on the average.
        takes: Span,
        /// What contracts count with.
        planned: Span,
        /// Streams whose messages are copied.
        streams: u64,
    },
    /// From when a copy is due to begin until it has left takes longer than contracts count with.
    CopyingSlow {
        /// How long, at the 99th percentile.
        takes: Span,
        /// `C_r`, what contracts count with.
        budget: Span,
    },
    /// The link to the backup carries less than copies need.
    PairLinkThin {
        /// Bytes in a second that it carries.
        carries: u64,
        /// Bytes in a second that copies need.
        needed: u64,
        /// How long a copy waits that is made now.
        wait: Span,
        /// Streams whose copies must be there sooner.
        streams: u64,
    },
    /// There are more connections than deadlines leave time for.
    Crowded {
        /// Clients that are connected.
        clients: u64,
        /// The time within which whatever comes has left; forever where there is no bound.
        takes: Span,
        /// Streams whose messages must have left sooner.
        streams: u64,
    },
    /// Copies that may have to begin at once no longer fit the budget, since clients or operators have come.
    BudgetShort {
        /// What all of them take at once.
        needed: Span,
        /// `C_r`, what contracts count with.
        budget: Span,
        /// Streams whose messages are copied so.
        streams: u64,
    },
    /// The primary whose place was taken lives.
    TookOverFalsely {
        /// How long silence is borne from now on.
        patience: Span,
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
    /// A subscription that would be refused is served as best effort, as configured.
    BestEffortInstead {
        /// The client.
        client: &'a str,
        /// The filter.
        filter: &'a str,
        /// Why.
        reason: &'a str,
    },
    /// A link was closed by this broker.
    Expelled {
        /// The name the peer gave, or nothing.
        client: &'a str,
        /// Why.
        reason: &'a str,
    },
    /// A client of another protocol has been let in.
    ClientCame {
        /// The name that it gave.
        client: &'a str,
        /// Who it is; nobody where nobody has to say so.
        user: &'a str,
        /// Where it comes from, as far as that is known.
        address: &'a str,
        /// What it speaks.
        protocol: &'a str,
        /// Whether its session was there.
        resumed: bool,
    },
    /// A client of another protocol is connected no more.
    ClientGone {
        /// The name that it gave.
        client: &'a str,
        /// Why.
        reason: &'a str,
    },
    /// A message that a client sends again and again, and that is refused each time, was acknowledged and dropped.
    MessageGivenUp {
        /// The client.
        client: &'a str,
        /// The topic.
        topic: &'a str,
        /// Why it is refused, with a remedy.
        reason: &'a str,
        /// How often it has come.
        times: u64,
    },
    /// A promise that the program makes to itself is broken: a fault of the program.
    PromiseBroken {
        /// What should have been, and where.
        place: &'a str,
        /// How often it was not, since this was told last.
        times: u64,
    },
    /// A bridge brings the same message again and again, and another takes it away.
    GoesRound {
        /// The one that brings it.
        client: &'a str,
        /// The other one.
        other: &'a str,
        /// The topic.
        topic: &'a str,
        /// How often it has come.
        times: u64,
        /// In which time.
        within: Span,
    },
    /// More waits for a session than may: messages for it are lost, or refused to who publishes them.
    SessionFull {
        /// The client.
        client: &'a str,
        /// So many messages for it have been lost or refused.
        dropped: u64,
        /// Whether they are refused to their publishers.
        refused: bool,
    },
    /// A subscriber does not read fast enough and has begun to lose its oldest messages.
    SlowSubscriber {
        /// The client.
        client: &'a str,
        /// What it has lost since the admin was last told.
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
    /// A client's clock and this broker's disagree, or what it sends looks so.
    ClockApart {
        /// The client.
        client: &'a str,
        /// How far its clock is ahead; negative if it is behind. Where that was not measured, a creation time.
        ahead: Span,
        /// How exactly that was measured, if it was.
        within: Option<Span>,
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
        /// Why, as far as is known.
        cause: LateCause,
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
    /// What an operator remembers could not be copied to the backup.
    OperatorForgets {
        /// The operator.
        operator: &'a str,
        /// Why.
        reason: &'a str,
    },
    /// A run of an operator took longer than it is said to take; told once in a while.
    OperatorSlow {
        /// The operator.
        operator: &'a str,
        /// How long it took.
        took: Span,
        /// What is said.
        cost: Span,
    },
    /// Operators had more events in use than can be true at once; told once in a while.
    EventsBeyond {
        /// How many, since it was last told.
        events: u64,
    },
    /// What was said of topics and operators lets more messages be under way in operators than may be.
    EventsShort {
        /// How many.
        needed: u64,
        /// How many may be.
        permitted: u64,
    },
    /// A subscriber is further away than the link class of a topic says, so that what leaves in time may come late; told once in a while.
    SubscriberFar {
        /// The subscriber.
        subscriber: &'a str,
        /// One of its topics.
        topic: &'a str,
        /// The link class of that.
        class: &'a str,
        /// Half of the shortest time of late in which an answer came.
        way: Span,
        /// What is planned with.
        planned: Span,
    },
    /// A subscriber says that messages came to it after their deadline, although they were not sent again after a failover; told at
    /// most once per stream and second.
    SubscriberLate {
        /// The topic.
        topic: &'a str,
        /// Who publishes it.
        publisher: &'a str,
        /// The subscriber.
        subscriber: &'a str,
        /// How many, since it last said so.
        late: u64,
        /// By how much the worst of them missed it.
        by: Span,
    },
    /// A subscriber says that it missed more messages in a row than the contract tolerates; told at most once per stream and second.
    SubscriberMissed {
        /// The topic.
        topic: &'a str,
        /// Who publishes it.
        publisher: &'a str,
        /// The subscriber.
        subscriber: &'a str,
        /// How many, since it last said so.
        lost: u64,
        /// The longest run of them.
        run: u64,
        /// How many may be missing in a row.
        tolerated: u32,
    },
    /// Messages of a stream were not kept for want of memory; told at most once per stream and second.
    OutOfMemory {
        /// The topic.
        topic: &'a str,
        /// Who publishes it.
        publisher: &'a str,
        /// How many were not since it was last told.
        messages: u64,
        /// Why not, with a remedy.
        reason: &'a str,
    },
    /// A client cannot reach the primary, and has been let through to it by the backup.
    CutOff {
        /// The client.
        client: &'a str,
        /// Whether this broker is the backup.
        through_here: bool,
    },
    /// That is over.
    CutOffEnded {
        /// The client.
        client: &'a str,
        /// Whether this broker was the backup.
        through_here: bool,
        /// How long it lasted.
        lasted: Span,
        /// Bytes that passed, both ways.
        bytes: u64,
    },
    /// Nothing has come of a stream for longer than its contract lets expect, and its publisher has not ended it.
    Silent {
        /// The topic.
        topic: &'a str,
        /// Who publishes it.
        publisher: &'a str,
        /// For how long nothing has come.
        after: Span,
        /// What is configured to be the longest gap; forever where nothing is.
        gap: Span,
    },
    /// It goes on.
    SilenceEnded {
        /// The topic.
        topic: &'a str,
        /// Who publishes it.
        publisher: &'a str,
        /// For how long nothing had come.
        after: Span,
    },
    /// A client came back in a new life; its streams begin anew.
    Reincarnated {
        /// The client.
        client: &'a str,
    },
    /// This broker reigns, could not ask its partner, and may know less of sessions and retained messages.
    ReignsUnasked {
        /// How many changes of them it knows of.
        known: u64,
    },
    /// This broker knows more of sessions and retained messages than the partner that reigns: it is about to reign itself.
    KnowsMore {
        /// How many changes it knows of.
        ours: u64,
        /// How many the partner does.
        theirs: u64,
    },
    /// The partner that joins knows more of sessions and retained messages than this broker, which reigns: it is given the reign.
    KnowsLess {
        /// How many changes this broker knows of.
        ours: u64,
        /// How many the partner does.
        theirs: u64,
    },
    /// This broker takes the partner's sessions and retained messages, and the partner lacks some of its own.
    CopyLeft {
        /// How many changes this broker knew of.
        ours: u64,
        /// How many the partner does.
        theirs: u64,
        /// How many of ours are not among them.
        surplus: u64,
        /// Whether they came after all that the partner had been told when it took the reign, so that nobody counted on them.
        overtaken: bool,
        /// The file with this broker's copy, if it had a store.
        aside: Option<&'a str>,
    },
    /// A write to the store has failed.
    StoreGivenUp {
        /// Why.
        reason: &'a str,
        /// Up to which change everything is in it.
        stored: u64,
    },
    /// The store that was given up has everything again.
    StoreBack {
        /// Up to which change.
        stored: u64,
    },
    /// What the store holds is not what was written last.
    StoreOld {
        /// Why.
        reason: &'a str,
        /// Up to which change it has everything.
        stored: u64,
        /// Up to which change it had.
        expected: u64,
        /// The file that could not be used, if there is one.
        aside: Option<&'a str>,
    },
}

impl fmt::Display for Event<'_> {
    #[expect(clippy::too_many_lines, reason = "one arm for each event")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Promoted { reign, cause, recovered } => {
                write!(f, "this broker is primary in epoch {}: {cause}", reign.epoch)?;
                if *recovered > 0 { write!(f, "; {recovered} copies dispatched") } else { Ok(()) }
            }
            Event::SteppedDown { reign } => {
                write!(f, "stepped down: epoch {} reigns elsewhere", reign.epoch)
            }
            Event::OperatorFailed { operator, cause, reason, faults, .. } => {
                write!(f, "the operator `{operator}` failed: {reason}; ")?;
                write_failures(f, *cause, faults)
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
            Event::DetectionSlow { .. }
            | Event::PairLinkLossy { .. }
            | Event::PairLinkThin { .. }
            | Event::PairLinkFar { .. }
            | Event::CopyingSlow { .. }
            | Event::BudgetShort { .. }
            | Event::TookOverFalsely { .. } => self.write_link(f),
            Event::Crowded { clients, takes, streams } => write!(
                f,
                "with {clients} clients it takes up to {takes} until everything that comes at once has left, and {streams} streams need \
                 theirs sooner, so they are at risk. Let fewer clients connect (limits.connections), or relax deadlines (`verge check`)"
            ),
            Event::HandedOver { forwarded } => {
                write!(f, "handed over to the backup, with {forwarded} messages that were waiting")
            }
            Event::Refused { client, topic, reason } => {
                write!(f, "refused `{topic}` of {client}: {reason}")
            }
            Event::SubscriptionRefused { client, filter, reason } => {
                write!(f, "refused the subscription `{filter}` of {client}: {reason}")
            }
            Event::BestEffortInstead { client, filter, reason } => {
                write!(f, "the subscription `{filter}` of {client} is {reason}")
            }
            Event::Expelled { client: "", reason } => {
                write!(f, "closed a connection: {reason}")
            }
            Event::Expelled { client, reason } => write!(f, "closed the connection of {client}: {reason}"),
            Event::ClientCame { client, user, address, protocol, resumed } => {
                let session = if *resumed { "goes on with its session" } else { "begins anew" };
                write!(f, "{client} has connected with {protocol}")?;
                if !user.is_empty() {
                    write!(f, " as `{user}`")?;
                }
                if !address.is_empty() {
                    write!(f, " from {address}")?;
                }
                write!(f, ", and {session}")
            }
            Event::ClientGone { client, reason } => write!(f, "{client} has gone: {reason}"),
            Event::MessageGivenUp { client, topic, reason, times } => write!(
                f,
                "{client} has sent a message on `{topic}` {times} times that is refused each time ({reason}); it was acknowledged and \
                 dropped, so that the client goes on: correct what it sends (mqtt.repeats)"
            ),
            Event::PromiseBroken { place, times } => write!(
                f,
                "a promise of the program to itself was broken {times} times: {place}. It goes on, and this is a fault of Verge: please \
                 report it with this line"
            ),
            Event::GoesRound { client, other, topic, times, within } => write!(
                f,
                "the bridge {client} has brought the same message on `{topic}` {times} times within {within}, and the bridge {other} takes \
                 it away: if they carry it round between brokers, let each topic go one way only"
            ),
            Event::SessionFull { client, dropped, refused } => {
                let lost = if *refused { "refused to their publishers" } else { "lost" };
                write!(
                    f,
                    "more waits for the session of {client} than may: {dropped} messages have been {lost}. Have it come and read, end \
                     its session (`verge clients drop`), or raise mqtt.queue_messages and mqtt.queue"
                )
            }
            Event::SlowSubscriber { client, shortfall } => {
                write!(f, "subscriber {client} does not read fast enough: {shortfall}")
            }
            Event::TooFast { client, topic, step, period } => write!(
                f,
                "{client} publishes `{topic}` after {step} although its period is {period}: the loss bound does not \
                 hold for such bursts. State a shorter period"
            ),
            Event::ClockApart { client, ahead, within } => write_clock(f, client, *ahead, *within),
            Event::DeadlineMissed { .. }
            | Event::LossRun { .. }
            | Event::SubscriberLate { .. }
            | Event::SubscriberMissed { .. } => self.write_breach(f),
            Event::OutOfMemory { topic, publisher, messages, reason } => {
                write!(
                    f,
                    "{messages} messages of `{topic}` from {publisher} are lost for want of memory: {reason}"
                )
            }
            Event::OperatorForgets { operator, reason } => write!(
                f,
                "what {operator} remembers could not be copied to the backup: {reason}. Its results go on; a failover now would make it begin \
                 anew from what the backup has"
            ),
            Event::OperatorSlow { operator, took, cost } => write!(
                f,
                "a run of {operator} took {took}, and its `cost` is {cost}: what `verge graph` says of its results does not hold. Raise \
                 `cost`, and look whether the deadlines of the results still can be kept (`verge graph`)"
            ),
            Event::SubscriberFar { subscriber, topic, class, way, planned } => write!(
                f,
                "messages take about {way} to {subscriber} at best, and `{topic}` is planned with {planned} (link.{class}.broker_to_subscriber): what leaves \
                 in time may come late. Set that to the longest time that the way takes, or give the topic a link class of its own"
            ),
            Event::EventsBeyond { events } => write!(
                f,
                "operators had {events} events more in use than can be true at once: they are behind, or results wait. Look at the load of \
                 their levels (`verge status`)"
            ),
            Event::EventsShort { needed, permitted } => write!(
                f,
                "{needed} messages are under way in operators at once by what was said of their topics, and {permitted} may be: raise \
                 processing.events, or messages will be lost"
            ),
            Event::Reincarnated { client } => write!(f, "{client} has restarted; its streams begin anew"),
            Event::ReignsUnasked { .. }
            | Event::KnowsMore { .. }
            | Event::KnowsLess { .. }
            | Event::CopyLeft { .. } => self.write_copies(f),
            Event::StoreGivenUp { .. } | Event::StoreBack { .. } | Event::StoreOld { .. } => {
                self.write_store(f)
            }
            Event::CutOff { .. } | Event::CutOffEnded { .. } => self.write_cut(f),
            Event::Silent { topic, publisher, after, gap } if gap.is_forever() => write!(
                f,
                "`{topic}` of {publisher} is silent: nothing has come for {after}. Its publisher is cut off or stands still, or has \
                 nothing to say; look after it"
            ),
            Event::Silent { topic, publisher, after, gap } => write!(
                f,
                "`{topic}` of {publisher} is silent: nothing has come for {after}, and something was to come within {gap} (gap). Look \
                 after its publisher, and the way from it"
            ),
            Event::SilenceEnded { topic, publisher, after } => {
                write!(f, "`{topic}` of {publisher} goes on, after {after} in which nothing came")
            }
        }
    }
}

impl Event<'_> {
    /// What the link between the brokers does to detection and copies.
    fn write_link(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::DetectionSlow { takes, failover, loss_ppm, round_trip } => write!(
                f,
                "the death of the partner takes up to {takes} to be sure of ({} % of its heartbeats are lost, {round_trip} there and \
                 back), and contracts count with network.failover = {failover}: raise it to {takes}, or mend the link between the \
                 brokers",
                Percent(*loss_ppm)
            ),
            Event::PairLinkLossy { loss_ppm, late_by, streams } => write!(
                f,
                "{} % of what the partner sends is lost: a copy that is lost once comes {late_by} later, and {streams} streams need \
                 theirs sooner, so they are at risk. Mend the link, give the pair a second path, or lower the least time-out of its route \
                 (`ip route change ... rto_min 20ms`)",
                Percent(*loss_ppm)
            ),
            Event::PairLinkThin { carries, needed, wait, streams } => write!(
                f,
                "the link to the backup carries {carries} bytes in a second, and copies need {needed}: a copy waits for {wait}, and \
                 {streams} streams need theirs sooner, so they are at risk. No further topic is admitted whose messages must be copied. \
                 Give the brokers a faster link, let publishers retain more so that fewer need copies (`verge check`), or choose \
                 replication.policy = \"lazy\""
            ),
            Event::PairLinkFar { takes, planned, streams } => write!(
                f,
                "copies are on their way to the backup for {takes}, and contracts count with network.broker_to_broker = {planned}: {streams} \
                 streams whose messages are copied are at risk. Set network.broker_to_broker to more than {takes} on both brokers, or bring \
                 them nearer"
            ),
            Event::CopyingSlow { takes, budget } => write!(
                f,
                "one copy in a hundred has left only {takes} after it was due to begin, and contracts count with replication.budget = \
                 {budget}: copies that were needed may have been late. Raise replication.budget to more than {takes} on both brokers, or \
                 give the broker less to do"
            ),
            Event::BudgetShort { needed, budget, streams } => write!(
                f,
                "since clients or operators have come, what may have to be copied at once takes {needed}, and replication.budget is \
                 {budget}, so {streams} streams are at risk. Raise replication.budget to at least {needed} on both brokers, or use \
                 replication.policy = \"eager\""
            ),
            Event::TookOverFalsely { patience } => write!(
                f,
                "the primary whose place this broker took lives: nothing is lost by that, but it was no death. A silence of {patience} is \
                 borne from now on. Give both brokers real-time rights (`verge doctor`), or mend the link between them"
            ),
            _ => Ok(()),
        }
    }

    /// A client that is cut off from the primary, or no longer is.
    fn write_cut(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::CutOff { client, through_here: true } => write!(
                f,
                "{client} cannot reach the primary, and passes through this broker to it; should this broker fail, it has none. Mend \
                 the way from its host to the primary's"
            ),
            Event::CutOff { client, .. } => write!(
                f,
                "{client} cannot reach this broker, and passes through the backup to it; should the backup fail, it has none. Mend the \
                 way from its host to this one"
            ),
            Event::CutOffEnded { client, lasted, bytes, .. } => {
                write!(f, "{client} no longer passes through the backup: after {lasted} and {bytes} bytes")
            }
            _ => Ok(()),
        }
    }

    /// A contract that was broken.
    fn write_breach(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::DeadlineMissed { topic, publisher, by, missed, cause } => {
                write!(
                    f,
                    "{missed} messages of `{topic}` from {publisher} were dispatched after their deadline, the latest by {by}: "
                )?;
                write_cause(f, *cause, *by)
            }
            Event::LossRun { topic, publisher, run, tolerated } => write!(
                f,
                "{run} messages in a row of `{topic}` from {publisher} are missing, and its contract tolerates \
                 {tolerated}: raise what the publisher retains, or find what loses them (`verge doctor`)"
            ),
            Event::SubscriberLate { topic, publisher, subscriber, late, by } => write!(
                f,
                "{late} messages of `{topic}` from {publisher} came to {subscriber} after their deadline, by up to {by}: look at the way \
                 to its host and at how busy that is, or state a longer deadline"
            ),
            Event::SubscriberMissed { topic, publisher, subscriber, lost, run, tolerated } => write!(
                f,
                "{subscriber} misses {lost} messages of `{topic}` from {publisher}, {run} of them in a row, and its contract tolerates \
                 {tolerated}: look at the way to its host, or whether it reads too slowly (`verge doctor`)"
            ),
            _ => Ok(()),
        }
    }
}

impl Event<'_> {
    /// What both brokers know of sessions and retained messages.
    fn write_copies(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::ReignsUnasked { known } => write!(
                f,
                "this broker reigns without having asked its partner: it knows of {known} changes of sessions and retained messages, \
                 and the partner may know of more. If so, it takes the reign when it comes. Start the other broker"
            ),
            Event::KnowsMore { ours, theirs } => write!(
                f,
                "the partner reigns and knows of {theirs} changes of sessions and retained messages, and this broker of {ours}: it \
                 keeps them, learns what the partner has changed since, and takes the reign"
            ),
            Event::KnowsLess { ours, theirs } => write!(
                f,
                "the partner knows of {theirs} changes of sessions and retained messages, and this broker of {ours}: it learns what \
                 has changed since, and is given the reign"
            ),
            Event::CopyLeft { ours, theirs, surplus, overtaken: true, .. } => write!(
                f,
                "the partner had taken the reign with all that it had been told: {surplus} changes of sessions and retained messages \
                 after that are given up (this broker knew of {ours}, the partner knows of {theirs})"
            ),
            Event::CopyLeft { ours, theirs, surplus, aside, .. } => {
                write!(
                    f,
                    "the partner reigns without {surplus} changes of sessions and retained messages that this broker knows of \
                     (this broker knows of {ours}, the partner of {theirs}), and both have changed: this broker takes the partner's. "
                )?;
                match aside {
                    Some(aside) => write!(
                        f,
                        "Its own are kept in {aside}; to go back to them, stop both brokers and put it in the place of records.redb"
                    ),
                    None => f.write_str(
                        "Its own are given up, since it has no store (store.folder) to keep them in",
                    ),
                }
            }
            _ => Ok(()),
        }
    }

    /// What has become of the store.
    fn write_store(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::StoreGivenUp { reason, stored } => write!(
                f,
                "the store is given up at change {stored}, and this broker goes on without it: sessions and retained messages will \
                 not outlive a restart of both brokers. {reason}. Mend the disk or free some space; it is tried again by itself"
            ),
            Event::StoreBack { stored } => {
                write!(f, "the store is back, and has everything up to change {stored}")
            }
            Event::StoreOld { reason, stored, expected, aside } => {
                write!(
                    f,
                    "the store holds sessions and retained messages up to change {stored}, and did up to change {expected}: {reason}. \
                     What is missing comes from the partner, if it knows more"
                )?;
                if let Some(aside) = aside {
                    write!(f, ". The file that cannot be used is {aside}")?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Millionths, as a percentage.
struct Percent(u32);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2}", f64::from(self.0) / 1e4)
    }
}

/// Why messages are late, and what to do.
fn write_cause(f: &mut fmt::Formatter<'_>, cause: LateCause, by: Span) -> fmt::Result {
    match cause {
        LateCause::Broker => {
            write!(f, "see `verge status`; lengthen the deadline, or give the broker less to do")
        }
        LateCause::Age(age) => write!(
            f,
            "it was {age} old when it came. Its publisher's clock is behind this broker's, or it waited for so long, since a process or \
             a connection stood still (see `verge doctor`)"
        ),
        LateCause::Clock(clock) => {
            let (behind, within) = (-clock.ahead, clock.within);
            write!(
                f,
                "its publisher's clock is {behind} behind this broker's (to within {within}), which explains "
            )?;
            write!(f, "{}. {SYNCHRONISE}", if by <= behind + within { "it" } else { "so much of it" })
        }
    }
}

/// What to do about clocks.
const SYNCHRONISE: &str =
    "Until both are synchronised (chrony, or PTP; see `verge doctor`), deadlines mean nothing";

/// What is known of a clock, or what creation times say of it.
fn write_clock(f: &mut fmt::Formatter<'_>, client: &str, ahead: Span, within: Option<Span>) -> fmt::Result {
    if let Some(within) = within {
        let (by, side) = if ahead > Span::ZERO { (ahead, "ahead of") } else { (-ahead, "behind") };
        return write!(
            f,
            "the clock of {client} is {by} {side} this broker's (to within {within}). {SYNCHRONISE}"
        );
    }
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
fn write_failures(f: &mut fmt::Formatter<'_>, cause: FailureCause, faults: &[u64; 3]) -> fmt::Result {
    write!(f, "{} of its runs have failed so far (", faults.iter().sum::<u64>())?;
    for (index, (cause, count)) in FailureCause::ALL.iter().zip(faults).enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        write!(f, "{comma}{count} {}", cause.as_str())?;
    }
    f.write_str("), the others go on. ")?;
    f.write_str(match cause {
        FailureCause::Budget => {
            "Mend what does not end, or raise the operator's `budget` if it needs the time; `verge operator test` shows what a \
             module takes"
        }
        FailureCause::Trap => "It begins anew, without what it remembered: mend it, and try it with `verge operator test`",
        FailureCause::Refused => "Look at what it is given, and at the `type` of its sources",
    })
}

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
