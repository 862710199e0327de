//! Faults that are built in on purpose, to show that the simulator's checkers notice them.
//!
//! They exist only with the feature `mutants`, which nothing but tests asks for. Without it, [`Mutant::is_on`] is a
//! constant `false`, and the compiler leaves nothing of them.

/// A fault, named after what the code then does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// The job queue ignores deadlines.
    ServeInOrderOfArrival,
    /// The broker stops after the first job of a portion and says that there is no more.
    LeaveJobs,
    /// The analysis holds copies to be needless everywhere.
    CopyNothing,
    /// A new primary does not dispatch the copies that it has.
    KeepCopiesBack,
    /// A backup ignores prunes.
    IgnorePrunes,
    /// Messages that reach a broker which no longer reigns are dropped.
    DropStrays,
    /// A broker that comes to stand by keeps to itself for whose reign.
    TellNoReign,
    /// A promotion does not raise the epoch.
    KeepEpoch,
    /// A backup waits much longer than configured before it takes over.
    SuspectLate,
    /// Heartbeats are looked at for nothing: whoever does not answer in time on the connection is taken for dead.
    IgnoreHeartbeats,
    /// A heartbeat that was overtaken, or is sent again, counts as a new one.
    HearOldHeartbeats,
    /// A primary never learns that its backup knows everything.
    IgnoreStandby,
    /// Messages are deferred for a subscriber without limit.
    DeferWithoutLimit,
    /// All payloads of a stream are written to the same place.
    MixPayloads,
    /// Bounds of contracts are not checked.
    AdmitAnything,
    /// Admission counts messages, and nothing of what turns cost besides.
    TurnsForNothing,
    /// Admission counts nothing of what is written for those who are served last.
    LastForNothing,
    /// A publisher does not send again what it retains.
    ForgetRetained,
    /// A site's link confirms messages when they come, and not when the next one has them.
    ConfirmOnArrival,
    /// A site's link carries what has come from another site.
    CarryOn,
    /// Where a stream goes by another router, what was retained for the one before is forgotten.
    ForgetWhereMoved,
    /// Best effort goes by the connection for what is promised, on a thin link as well.
    OneWayForAll,
    /// A site's link asks routers for everything.
    WantEverything,
    /// A site's link does not say how old messages are when they come.
    ForgetAge,
    /// A site's link says that it keeps more messages for the next broker than it does.
    KeepLess,
    /// What is handed on counts as with the next broker when it leaves.
    TrustLinks,
    /// What was retained is sent to a router that has begun anew before anybody has come back to it.
    SendAtOnce,
    /// What comes to an uplink before all its routers have said what is wanted goes nowhere if those that have do not carry it.
    DropUnrouted,
    /// What another site wants goes by a router from which that site is cut off.
    TrustAbsent,
    /// What is to go by two routers goes by one.
    OnePath,
    /// What is wanted less often than it is published is sent as often.
    SampleEverything,
    /// Of what comes by two routers every copy is handed on.
    TakeEveryCopy,
    /// What the next broker does not promise crosses as if it did.
    PromiseAnyway,
    /// A publisher publishes although its contract was refused.
    PublishRefused,
    /// A client follows whoever reigns, also in an epoch that is over.
    FollowAnybody,
    /// A subscriber takes duplicates for new messages.
    HandOverTwice,
    /// A subscriber calls nothing late.
    CallNothingLate,
    /// Every contract is refused.
    RefuseContracts,
    /// Every subscription is refused.
    RefuseSubscriptions,
    /// The analysis lets copies be late by the failover time.
    CopyLate,
    /// The analysis leaves no time for the way to the subscriber.
    DispatchLate,
    /// A new primary does not dispatch what it had forwarded to the one that died.
    ForgetForwarded,
    /// What has been forwarded counts as dispatched.
    SettleForwarded,
    /// A backup does not learn the primary's subscribers.
    IgnoreSessions,
    /// What a subscriber has not confirmed is not offered again when it comes back.
    OfferOnce,
    /// What waits for a subscriber is not sent when there is room again.
    LeaveDeferred,
    /// A broker whose graphs change does not bind its topics anew.
    KeepBindings,
    /// A graph that is the same before and after a change begins anew.
    EndEveryGraph,
    /// An operator's input keeps every event.
    KeepEveryEvent,
    /// An operator uses an event again.
    UseTwice,
    /// An operator does not shed what is out of date.
    KeepOutdated,
    /// An operator does not see that its inputs are too far apart.
    KeepApart,
    /// A message counts as processed when it has been given to the operators.
    SettleUnprocessed,
    /// A backup is told that operators are done with a message when it has been given to them.
    FinishEarly,
    /// A new primary does not process what it has copies of.
    ForgetUnprocessed,
    /// A client believes for ever what it has found out about its clock first.
    KeepOldClock,
    /// A backup whose clock went back waits until it says again when the next poll is due.
    TrustClock,
    /// A backup lets nobody through to the primary.
    LetNobodyThrough,
    /// A backup does not take over what operators remember.
    ForgetMemories,
    /// A subscriber does not tell the primary what came late or not at all.
    TellNoTroubles,
    /// A broker judges what it sends when it is written into a buffer, not when it has left.
    JudgeBeforeLeaving,
    /// A subscriber counts no losses.
    CountNoLosses,
    /// Lazy copies begin without a budget, and late by the failover time.
    BeginCopiesLate,
    /// One message in `M + 1` is marked to be copied lazily.
    MarkFewer,
    /// Lazy copies are given up, whether or not their messages have been dispatched.
    GiveCopiesUp,
    /// A backup is not told which messages wait for sessions of MQTT.
    ForgetWaiting,
    /// A backup is not told which messages of QoS 2 have come.
    ForgetIncoming,
    /// A backup is not told what is retained.
    ForgetKept,
    /// What a client of MQTT subscribes takes effect before what it has published just before.
    Overtake,
    /// The wills of clients that are gone are not published.
    LeaveNoWill,
    /// An agreement takes what the node itself has heard, and not what was passed on.
    BelieveOwnEars,
    /// A node does not repeat to itself what it was told.
    ForgetOwnWord,
    /// A round goes on although somebody has not been heard.
    GoOnEarly,
    /// A frame of the job before is taken for one of this job.
    TakeOldFrames,
    /// Codes of frames are not looked at.
    IgnoreCodes,
    /// A read sees what is to be visible later.
    ShowEarly,
    /// Values that come after their instant are not counted.
    CountNothingLate,
    /// A second value for an instant takes the place of the first.
    Overwrite,
    /// A round lasts twice as long.
    WaitTwice,
    /// A read gives what is too old.
    ReadStale,
    /// The leader gives topics of a router that has died to nobody else.
    KeepDeadRouters,
    /// A router carries a topic back to the site that it comes from.
    CarryBack,
    /// What is offered is taken for what is asked.
    MatchAnything,
    /// The leader counts epochs from one again, and a site takes the word of an older one.
    TakeOlderEpochs,
    /// A site keeps its links to routers that carry nothing for it.
    KeepLinks,
    /// A site stays with the first router of a topic.
    KeepFirstRoute,
    /// What rings is not read again.
    ForgetRings,
    /// A topic in which nobody has any interest is never removed.
    KeepIdleTopics,
    /// A new primary leaves the nodes of the one before it as they are.
    LeaveNodes,
    /// A former router keeps a topic that has moved.
    KeepMoved,
    /// A router that is there for some topics is taken to be there for any.
    IgnoreMeaning,
    /// One stamp more is kept than configured.
    KeepOneMore,
    /// What is new makes way, and not what is oldest.
    DropNewest,
    /// A vote takes the first proposal.
    TakeFirst,
    /// Publishing times may be anything.
    TakeAnyStamp,
    /// Who is silent is called a liar.
    CallSilenceLies,
    /// A node that has rejoined writes what it has not seen.
    WriteUnseen,
    /// A write may be for a time that has passed.
    WriteThePast,
    /// Nobody is noticed to have published something else.
    CompareNothing,
    /// A node that has missed a job goes on as if it had not.
    TakeWhatComes,
    /// What a single node says of the store is believed.
    BelieveOne,
    /// A node that has missed something asks nobody for it.
    AskNobody,
    /// What a list names is asked for and handed on, whether it has come or not.
    HandAgain,
    /// The other keeper is told at once of what has been handed on, before it has left.
    SettleAtOnce,
    /// A pass ends with the first part of its answer.
    EndAtFirst,
    /// An answer of which a part is missing is taken as it comes.
    ForgetGaps,
    /// A keeper that goes on numbers what was missed from the beginning.
    NumberAnew,
    /// What comes live counts as had although the site stood still just before.
    TrustLive,
    /// Places move as soon as nobody wants anything.
    RestAtOnce,
    /// What is under way when somebody goes is judged as if he did not come back.
    PassOverAway,
    /// Who goes on after a crash begins with whatever log it likes.
    AnyLogFirst,
    /// A keeper that begins is not told that its site has just stood still.
    TellNoDoubts,
    /// A log elsewhere counts from when it is asked for first, not from when it is heard of.
    MeetLate,
    /// A bridge reads a writer of DDS although nobody elsewhere hears it.
    ReadUnwanted,
    /// A bridge reads a writer of DDS before anybody is ready to write what it writes.
    ReadAtOnce,
    /// A stand-in writes samples as they come.
    WriteAsItComes,
    /// What another bridge said is heeded although it has said something else since.
    HeedOldWords,
    /// A bridge keeps nothing for readers that come late.
    KeepNothingForLate,
    /// A stand-in whose writer is read by another bridge writes again what it has written.
    WriteAgain,
    /// A peer lets any claim that comes replace the one before.
    TakeOlderClaims,
    /// A master keeps members that are lost.
    KeepLost,
    /// A region is never split.
    NeverSplit,
    /// A region that is too small stays so.
    NeverAdopt,
    /// Masters do not look whether others live.
    WatchNobody,
    /// Masters do not look for peers that they lost.
    ForgetStrays,
    /// Whoever hears a tree says what it knows, also when it is the same.
    AskAgainAtOnce,
    /// What was not put again in time stays at its point.
    KeepExpired,
    /// An interest meets whatever lies on its pieces of the curve.
    MeetAnybody,
    /// A point does not say that a meeting is over.
    PartInSilence,
    /// A point that is no longer responsible is heeded no more at once.
    LeaveAtOnce,
    /// What is said to a point that has come to be responsible is said when it is due anyway.
    PutLate,
    /// Journals of a site are gone over whenever one is due.
    TakeNoTurns,
    /// What is about other regions as well is put in the own one alone.
    ForgetOtherRegions,
    /// What a peer puts for others stays, although they do not put it again.
    KeepPassingOn,
    /// What is put is confirmed before copies of it are.
    ConfirmAlone,
    /// Copies that differ stay as they are.
    NeverCompare,
    /// What does not belong to a peer any more goes before others have it.
    LeaveUnseen,
    /// Who runs a function goes on although it is not told so any more.
    HireForever,
    /// Who was chosen to run a function stays so when it has gone.
    KeepTheDead,
    /// All who have a copy of a function are told to run it.
    RunEveryCopy,
    /// A master does not say that it is one.
    ReignInSilence,
}

#[cfg(feature = "mutants")]
thread_local! {
    static ON: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

impl Mutant {
    /// Whether this fault is built in, on this thread.
    #[inline(always)]
    pub fn is_on(self) -> bool {
        #[cfg(feature = "mutants")]
        return ON.get() == Some(self);
        #[cfg(not(feature = "mutants"))]
        false
    }

    /// Builds a fault in on this thread, or mends it.
    #[cfg(feature = "mutants")]
    pub fn switch(mutant: Option<Mutant>) {
        ON.set(mutant);
    }
}
