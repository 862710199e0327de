//! One node's part in one lane: what tasks write and read, and the jobs in between.

use crate::frame::Ask;
use crate::state::{Gap, write_state};
use crate::{
    Comparison, Dropped, Frame, Fuse, Fused, Inserted, Job, KeyId, LinkKey, Node, NodeSet, PeerCounters,
    Publish, Published, ReadError, Setup, Step, Taken, Tuple, Unpublished, Value,
};
use contract::{Mutant, Span, Time};
use std::sync::Arc;

/// How a node comes into its lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// All begin together with an empty store. That is so once enough others are seen to have an empty one too.
    Founding,
    /// The same, and an operator says so: nothing need be seen of others.
    Founded,
    /// The others may have been running: what it writes before it has read would contradict them.
    Rejoining,
}

/// Why a write was refused. Nothing has been written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The key is not of this configuration.
    #[error("key number {} is not configured: add it to `keys` on all nodes", .0.0)]
    UnknownKey(KeyId),
    /// This node is no writer of the key.
    #[error("this node is not one of the key's `writers`")]
    NotAWriter,
    /// The publishing time has come or passed (I1).
    #[error("the publishing time was {0} ago: it must lie in the future")]
    PublishingTimePast(Span),
    /// The publishing time is not after the release of the job that carries the value; all nodes would refuse it (A3).
    #[error(
        "the publishing time is {0} before the job that would carry the value: nothing can be agreed on before that"
    )]
    PublishingTimeTooSoon(Span),
    /// The publishing time is beyond the horizon; all nodes would refuse it (A3).
    #[error("the publishing time is {ahead} after the next job: at most {horizon} (`horizon`)")]
    PublishingTimeTooFar {
        /// How far behind the release of the job that would carry it.
        ahead: Span,
        /// `H`.
        horizon: Span,
    },
    /// The value is too long.
    #[error("a value of {bytes} bytes: `value_bytes_max` allows {max}")]
    ValueTooLong {
        /// Its length.
        bytes: usize,
        /// `VS`.
        max: usize,
    },
    /// The key votes on numbers, and the value is none, or not finite.
    #[error("the value is not a finite number of the format that the key votes on")]
    NotANumber,
    /// As many tuples as a job may carry wait already (I1).
    #[error("{0} tuples wait for the next job, as many as `batch_tuples_max` allows")]
    Full(usize),
    /// The node has come to others that were running, or to none, and does not know this key's state yet (A6).
    #[error(
        "this node does not know what the others have agreed on, and nothing has been published under this key since: write when it can be read"
    )]
    Rejoining,
}

/// Why a job did not begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BeginError {
    /// No job is released at this time.
    #[error("no job is released at this time: releases are at multiples of `period` plus `offset`")]
    NotARelease,
    /// A job of this or a later release has begun before.
    #[error("the clock has gone back by {0} or more: a job that was released later has begun")]
    ClockWentBack(Span),
    /// The release lies in the future.
    #[error("the release is {0} ahead")]
    NotYet(Span),
    /// The release was missed by a quarter of a period or more: the job is skipped, and what was written for it is dropped.
    #[error(
        "the release was missed by {late}: from {limit} on a job is skipped, and what was written for it is dropped"
    )]
    Missed {
        /// How late.
        late: Span,
        /// `T/4`.
        limit: Span,
    },
}

/// What came of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Its number.
    pub job: u64,
    /// What was made of the vector.
    pub fused: Fused,
    /// Values that are new in the store.
    pub published: u32,
    /// Those of them whose instant had passed: readers have missed it on this node.
    pub late: u32,
    /// Values that were not new, or older than the whole history.
    pub ignored: u32,
    /// Values that nobody reads before this node knows what it has missed.
    pub held: u32,
    /// What this node agreed on may not be what others agreed on, so it published nothing and counts the job as missed.
    pub fenced: bool,
    /// Whether the store lacks nothing that others may have.
    pub sure: bool,
    /// The digest of the store, after this job.
    pub digest: u64,
    /// Who was silent in a round.
    pub silent: NodeSet,
    /// Who has certainly lied.
    pub liars: NodeSet,
    /// How the job before this one ended here and elsewhere.
    pub comparison: Comparison,
    /// Whether more than `f` published something else in the job before: the store can no longer be trusted.
    pub alarm: bool,
    /// Whether the alarm is on: it was raised now or before, and the store has not been seen to be that of others since.
    pub alone: bool,
}

/// The store of one node in one lane.
#[derive(Debug)]
pub struct Lane {
    setup: Arc<Setup>,
    me: Node,
    unpublished: Unpublished,
    published: Published,
    job: Job,
    fuse: Fuse,
    fused: Option<Fused>,
    /// What it may lack.
    gap: Option<Gap>,
    /// It has raised the alarm, and its store has not been like that of others since.
    alone: bool,
    /// How it came, whether a job has ended since, and whether it has lacked nothing since.
    start: Start,
    has_ended: bool,
    has_known: bool,
    /// Until when a key must have been published before this node writes it.
    cautious_until: Time,
    /// The job that was published last, for which answers about state are made, and room for one.
    answers_for: u64,
    asks: Box<[Option<Ask>]>,
    answer: Box<[u8]>,
    late_publish: u64,
    skipped: u64,
    fenced: u64,
    recovered: u64,
}

impl Lane {
    /// A node's part, with the keys of its links to all nodes in their order (its own is not used). The first job is that of the
    /// first release at or after `first`; frames of others for it are taken from now on.
    ///
    /// # Panics
    /// If there is no such node, or not one key for each.
    pub fn new(setup: Arc<Setup>, me: Node, links: &[LinkKey], start: Start, first: Time) -> Lane {
        let job = setup.job_at(setup.release_after(first - Span(1))).unwrap_or(0);
        let mut lane = Lane {
            me,
            unpublished: Unpublished::new(&setup),
            published: Published::new(&setup),
            job: Job::new(setup.clone(), me, links, job),
            fuse: Fuse::new(setup.clone()),
            fused: None,
            gap: None,
            alone: false,
            start,
            has_ended: false,
            has_known: false,
            cautious_until: Time::ZERO,
            answers_for: 0,
            asks: vec![None; setup.nodes()].into(),
            answer: vec![0; setup.state_bytes_max()].into(),
            late_publish: 0,
            skipped: 0,
            fenced: 0,
            recovered: 0,
            setup,
        };
        match start {
            Start::Founded => {}
            Start::Founding => lane.lack(Time::ZERO, first),
            Start::Rejoining => lane.rejoin(first),
        }
        lane.expect(job);
        lane
    }

    /// A6: forgets the store, since this node has been away for so long that it may be out of date. Until it knows what the others have, or a key
    /// has been published again, or for the length of the horizon, this node does not write the key.
    pub fn rejoin(&mut self, now: Time) {
        self.unpublished.clear();
        self.published.clear();
        (self.start, self.has_known) = (Start::Rejoining, false);
        self.lack(Time::ZERO, now);
        self.cautious_until = now + self.setup.horizon();
    }

    /// What was agreed on after `since`, in jobs released up to `last`, may be missing here.
    fn lack(&mut self, since: Time, last: Time) {
        let until = last + self.setup.horizon();
        let before = self.gap.unwrap_or(Gap { since, until });
        self.gap = Some(Gap { since: before.since.min(since), until: before.until.max(until) });
        self.job.recovery.restart();
    }

    /// The jobs from `first` to `last` were missed.
    fn miss(&mut self, first: u64, last: u64) {
        self.lack(self.setup.release_of(first), self.setup.release_of(last));
    }

    /// Whether the store lacks nothing that others may have.
    pub fn is_sure(&self) -> bool {
        self.gap.is_none()
    }

    /// Until when this node, which has come to others or to nobody, writes only keys that it can read, unless it knows before what there is.
    pub fn cautious_until(&self) -> Time {
        match self.start {
            _ if self.has_known || Mutant::WriteUnseen.is_on() => Time::ZERO,
            Start::Rejoining => self.cautious_until,
            // Before the first job all are alike.
            Start::Founding if self.has_ended => Time::NEVER,
            Start::Founding | Start::Founded => Time::ZERO,
        }
    }

    /// The configuration and what follows from it.
    pub fn setup(&self) -> &Arc<Setup> {
        &self.setup
    }

    /// I1: proposes a value that is to be visible from `publishing` on. It is in the next job that begins.
    pub fn write(&mut self, key: KeyId, value: &[u8], publishing: Time, now: Time) -> Result<(), WriteError> {
        let terms = self.setup.terms(key).ok_or(WriteError::UnknownKey(key))?;
        if !terms.writers.contains(self.me) {
            return Err(WriteError::NotAWriter);
        }
        let past = Mutant::WriteThePast.is_on();
        if publishing <= now && !past {
            return Err(WriteError::PublishingTimePast(now.since(publishing)));
        }
        let release = self.next_release(now);
        if publishing <= release && !past {
            return Err(WriteError::PublishingTimeTooSoon(release.since(publishing)));
        }
        let (ahead, horizon) = (publishing.since(release), self.setup.horizon());
        if ahead > horizon {
            return Err(WriteError::PublishingTimeTooFar { ahead, horizon });
        }
        let (bytes, max) = (value.len(), self.setup.value_bytes_max());
        if bytes > max {
            return Err(WriteError::ValueTooLong { bytes, max });
        }
        if !terms.vote.accepts(value) {
            return Err(WriteError::NotANumber);
        }
        let alone = terms.writers == [self.me].into_iter().collect();
        if now < self.cautious_until() && self.published.is_empty(key) && !alone {
            return Err(WriteError::Rejoining);
        }
        let written = self.unpublished.push(&Tuple { key, stamp: publishing, value });
        written.then_some(()).ok_or(WriteError::Full(self.unpublished.len()))
    }

    /// The release of the job that carries what is written now.
    fn next_release(&self, now: Time) -> Time {
        let period = self.setup.period();
        let next = self.job.release() + if self.job.has_begun() { period } else { Span::ZERO };
        // A job that is so late will not begin any more.
        if now < next + period { next } else { now }
    }

    /// I2: the newest value of the key that is at least as new as `freshness` and whose instant has come.
    pub fn read(&self, key: KeyId, freshness: Time, now: Time) -> Result<Value<'_>, ReadError> {
        self.published.read(key, freshness, now).map_err(|error| match error {
            ReadError::Nothing | ReadError::Stale(_) if self.gap.is_some() => ReadError::Unknown,
            error => error,
        })
    }

    /// A1, 1: begins the job of this release with what tasks have written: send [`Lane::frame`] to every peer, and call
    /// [`Lane::silence`] for those without a connection. A job that another one is begun over is given up.
    pub fn begin(&mut self, release: Time, now: Time) -> Result<(), BeginError> {
        let number = self.setup.job_at(release).ok_or(BeginError::NotARelease)?;
        let begun = self.job.has_begun();
        if number < self.job.number() || (begun && number == self.job.number()) {
            return Err(BeginError::ClockWentBack(self.job.release().since(release)));
        }
        if release > now {
            return Err(BeginError::NotYet(release.since(now)));
        }
        // Jobs whose release nobody has begun, and one that has not come to its end.
        self.skipped += number - self.job.number();
        if number > self.job.number() {
            self.miss(self.job.number(), number - 1);
        }
        let (late, limit) = (now.since(release), Span(self.setup.period().0 / 4));
        if late >= limit {
            self.skipped += 1;
            self.unpublished.clear();
            self.miss(number, number);
            self.expect(number.saturating_add(1));
            return Err(BeginError::Missed { late, limit });
        }
        if number != self.job.number() {
            self.expect(number);
        }
        let ask = self.gap.and_then(|gap| self.job.recovery.ask(number, gap));
        self.job.begin(self.unpublished.drain(), ask, now);
        Ok(())
    }

    fn expect(&mut self, number: u64) {
        self.fused = None;
        self.job.expect(number, (self.published.digest(), self.gap.is_none()));
    }

    /// The frame of this round for a peer.
    ///
    /// # Panics
    /// If there is no such peer.
    pub fn frame(&self, to: Node) -> Frame<'_> {
        self.job.frame(to)
    }

    /// A whole frame that has come from a peer. What was wrong with one that is dropped is counted; otherwise it is as if it had
    /// not come.
    pub fn take(&mut self, from: Node, bytes: &[u8]) -> Result<Taken, Dropped> {
        self.job.take(from, bytes)
    }

    /// A6: the connection to this peer is lost. Rounds of this job do not wait for it.
    pub fn silence(&mut self, peer: Node) {
        self.job.silence(peer);
    }

    /// Whether a frame of this peer may still be of use in this job. If not, leave it in the connection.
    pub fn wants(&self, peer: Node) -> bool {
        self.job.wants(peer)
    }

    /// The frames of this round have left, or wait for connections that do not take them. A node of [`Mode::Crash`](crate::Mode::Crash) that
    /// spoke later than the others listen publishes nothing of this job.
    pub fn sent(&mut self, now: Time) {
        self.job.sent(now);
    }

    /// Ends the round if its time has come or all have been heard, and begins the next.
    pub fn step(&mut self, now: Time) -> Step {
        self.job.step(now)
    }

    /// A1, 3 to 5: resolves what was heard and votes. Nothing is visible yet.
    ///
    /// # Panics
    /// If the rounds are not over.
    pub fn fuse(&mut self) -> Fused {
        self.job.resolve();
        let fused = self.fuse.fuse(self.job.release(), self.job.vector());
        self.fused = Some(fused);
        fused
    }

    /// A1, 5 and 6: publishes what [`Lane::fuse`] has made, here and to `others`, and waits for the next job.
    ///
    /// A value whose instant has passed is published all the same, and counted: readers of this node have missed it, but what it
    /// is does not differ from what others have read.
    ///
    /// # Panics
    /// If nothing has been fused.
    pub fn publish(&mut self, now: Time, others: &mut impl Publish) -> Outcome {
        let fused = self.fused.expect("`fuse` comes before `publish`");
        let (number, comparison) = (self.job.number(), self.job.comparison());
        let mut outcome = Outcome {
            job: number,
            fused,
            published: 0,
            late: 0,
            ignored: 0,
            held: 0,
            fenced: self.job.is_fenced(),
            sure: false,
            digest: 0,
            silent: self.job.silent(),
            liars: self.job.liars(),
            comparison,
            alarm: comparison.is_alarming(&self.setup),
            alone: false,
        };
        self.recover(number, others);
        if outcome.alarm {
            self.alone = true;
            // Nobody shall believe what cannot be trusted.
            self.lack(Time::ZERO, self.job.release());
        }
        // Those who have not met enough others to begin together agree on nothing: their stores stay empty, and so the same.
        let begins = self.start == Start::Founding && !self.has_known && self.gap.is_some();
        if outcome.fenced {
            self.fenced += 1;
            self.miss(number, number);
        } else if !begins {
            self.publish_fused(now, &mut outcome, others);
        }
        (outcome.sure, outcome.digest) = (self.gap.is_none(), self.published.digest());
        outcome.alone = self.alone;
        self.has_known |= outcome.sure;
        self.late_publish += u64::from(outcome.late);
        (self.has_ended, self.answers_for) = (true, number);
        for peer in NodeSet::all(self.setup.nodes()).iter() {
            self.asks[peer.index()] = self.job.asked(peer).filter(|_| outcome.sure);
        }
        self.expect(number.saturating_add(1));
        outcome
    }

    /// Takes what others say that this node has missed, or sees that it has missed nothing.
    fn recover(&mut self, number: u64, others: &mut impl Publish) {
        let Some(_) = self.gap else { return };
        let (alike, alone) = (self.job.is_like_others(), self.alone);
        // What others have does not help a store that has something else already: it must be seen to be like theirs.
        let adopted = !alike && self.job.recovery.adopt(number, &self.setup, &mut self.published);
        if alike || (adopted && !alone) {
            self.alone = false;
            self.gap = None;
            self.recovered += 1;
            self.job.recovery.restart();
            self.published.release_held(|key, stamp, value| others.recover(key, stamp, value));
        }
    }

    fn publish_fused(&mut self, now: Time, outcome: &mut Outcome, others: &mut impl Publish) {
        for (Tuple { key, stamp, value }, proposals) in self.fuse.decided(self.job.vector().bytes) {
            // A node whose store is not that of others may go on to agree on something else than they do.
            let held = self.alone || self.gap.is_some_and(|gap| stamp <= gap.until);
            let held = held && !Mutant::TakeWhatComes.is_on();
            match self.published.insert_as(key, stamp, value, held) {
                Inserted::New if held => outcome.held += 1,
                Inserted::New => {
                    others.agreed(key, stamp, proposals);
                    others.publish(key, stamp, value);
                    outcome.published += 1;
                    outcome.late += u32::from(stamp <= now && !Mutant::CountNothingLate.is_on());
                }
                Inserted::Repeated | Inserted::TooOld => outcome.ignored += 1,
            }
        }
    }

    /// What a peer asked for in the job that was published last: send it, after that job. `None`: nothing, or this node does not know.
    pub fn answer(&mut self, to: Node) -> Option<Frame<'_>> {
        let ask = self.asks.get_mut(to.index())?.take()?;
        let (len, until) = write_state(&self.published, self.setup.keys(), ask, &mut self.answer);
        let said = (&self.answer[..len], until);
        (until > ask.key).then(|| self.job.answer(to, self.answers_for, ask, said, self.published.digest()))
    }

    /// The batch of each node that was agreed on; of use between [`Lane::fuse`] and [`Lane::publish`].
    pub fn agreed(&self, node: Node) -> &[u8] {
        self.job.vector().batch(node)
    }

    /// Values that were published after their instant since the lane began.
    pub fn late_publish(&self) -> u64 {
        self.late_publish
    }

    /// Jobs that were skipped because they would have begun too late, were not begun at all, or not brought to an end.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// What a peer has done since the lane began.
    pub fn counters(&self, peer: Node) -> PeerCounters {
        self.job.counters(peer)
    }

    /// Jobs of which this node published nothing, since it may have agreed on something else than the others.
    pub fn fenced(&self) -> u64 {
        self.fenced
    }

    /// How often it has come to know what it had missed.
    pub fn recovered(&self) -> u64 {
        self.recovered
    }

    /// Whether its store was seen to be another than those of more nodes than may be faulty, and has not been seen to be theirs since.
    pub fn is_alone(&self) -> bool {
        self.alone
    }

    /// How many tuples wait for the next job.
    pub fn waiting(&self) -> usize {
        self.unpublished.len()
    }
}

#[cfg(test)]
mod tests;
