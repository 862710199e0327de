//! One agreement after the other: exponential information gathering in rounds that end at absolute times (A1, A2).
//!
//! The problem: each node has a batch, and all correct nodes shall know the same batch of every node, although up to `f` nodes
//! may say anything to anybody. The idea: in round 1 everybody tells its batch to all, in round `ρ` what it was told in round
//! `ρ − 1`. After `f + 1` rounds every path of hearsay has gone through a correct node, and counting settles the rest.
//!
//! Round `ρ` ends at `release + ρ·τ` on the synchronised clock, or earlier for a node that has all that can come. That is safe:
//! a correct node sends once in a round and goes on early only with complete input, and what comes for a later round of the
//! same job is kept. What does not come is `⊥`. A frame counts while its round is open, so a node that the scheduler has kept
//! waiting past the end of a round first takes what has come and then goes on.
//!
//! Frames stay where they were received: a slot of the tree is a place in them, and what a node says to itself is the same place
//! again. Everything has room for the largest case from the beginning.
//!
//! Further reading: Pease, Shostak, Lamport, *Reaching agreement in the presence of faults* (1980); Lynch, *Distributed
//! algorithms* (1996), chapter 6.

use crate::evidence::Heard;
use crate::frame::{Ask, BATCH_HEAD_BYTES, Batches, BodyHash, STATE_ROUND, append_batch, is_authentic};
use crate::resolve::{Counting, Vector, resolve};
use crate::state::{Recovery, is_state};
use crate::{
    Comparison, Dropped, Frame, HEAD_BYTES, Head, LinkKey, Mode, Node, NodeSet, PeerCounters, Setup,
};
use contract::{Mutant, Time};
use std::sync::Arc;

/// Where a batch is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    at: u32,
    pub(crate) len: u32,
}

impl Slot {
    /// `⊥`.
    pub(crate) const NOTHING: Slot = Slot { at: 0, len: 0 };

    #[inline]
    pub(crate) fn is_nothing(self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(crate) fn at(self) -> u32 {
        self.at
    }

    #[inline]
    pub(crate) fn bytes(self, arena: &[u8]) -> &[u8] {
        &arena[self.at as usize..][..self.len as usize]
    }

    pub(crate) fn new(at: usize, len: usize) -> Slot {
        // The tree is below 4 GiB: `checks::tree_bytes`.
        if len == 0 { Slot::NOTHING } else { Slot { at: at as u32, len: len as u32 } }
    }
}

/// What is to be done next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// No job has begun.
    Idle,
    /// Read on until this time, or until frames of these peers have come.
    Wait {
        /// When the round ends.
        until: Time,
        /// Who is still to be heard.
        missing: NodeSet,
    },
    /// A round has begun: send [`Job::frame`] to every peer.
    Send,
    /// All rounds are over: resolve.
    Over,
}

/// What became of a frame that was not dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// It is of the round that is under way.
    InTime,
    /// It is kept for a later round of this job, or for the job that has not begun yet.
    Kept,
    /// It is an answer about state.
    State,
}

/// The agreements of one node in one lane.
#[derive(Debug)]
pub struct Job {
    setup: Arc<Setup>,
    me: Node,
    links: Box<[LinkKey]>,
    number: u64,
    release: Time,
    /// 0 before the job begins, `R + 1` when all rounds are over.
    round: usize,
    /// The digest of this node's store, and whether that lacks nothing.
    store: (u64, bool),
    comparison: Comparison,
    /// Whose store is the same as this node's, which of those lack nothing, and who lacks nothing and has another.
    equal: NodeSet,
    equal_sure: NodeSet,
    other_sure: NodeSet,
    /// What this node asks for, and what peers ask for.
    ask: Option<Ask>,
    asks: Box<[Option<Ask>]>,
    pub(crate) recovery: Recovery,
    /// What this node agrees on may not be what others agree on.
    fenced: bool,
    /// From whom nothing more will come in this job.
    cut: NodeSet,
    /// Whose frame has come, by round.
    heard: Box<[NodeSet]>,
    levels: Box<[Box<[Slot]>]>,
    /// Levels 1 and 2 as they were heard, for evidence.
    first: Box<[Slot]>,
    second: Box<[Slot]>,
    liars: NodeSet,
    /// The own batch, then room for a body for each round and peer.
    arena: Box<[u8]>,
    /// Where those bodies begin.
    areas: Box<[usize]>,
    /// The body of this round, and its hash.
    body: Box<[u8]>,
    body_len: usize,
    body_hash: BodyHash,
    peers: Box<[PeerCounters]>,
}

impl Job {
    /// For one node of a lane, with the keys of its links to all nodes in their order; its own is not used. It waits for the job
    /// of this number.
    ///
    /// # Panics
    /// If there is no such node, or not one key for each.
    pub fn new(setup: Arc<Setup>, me: Node, links: &[LinkKey], number: u64) -> Job {
        let (n, rounds) = (setup.nodes(), setup.rounds());
        assert!(me.index() < n, "{me} of {n}");
        assert_eq!(links.len(), n, "one key for each node");
        let mut end = setup.batch_bytes_max();
        let mut areas = Vec::with_capacity(rounds * n);
        for round in 1..=rounds {
            for peer in 0..n {
                areas.push(end);
                end += if peer == me.index() { 0 } else { setup.body_bytes_max(round) };
            }
        }
        let slots = |level| vec![Slot::NOTHING; setup.layout().slots(level)].into_boxed_slice();
        let mut job = Job {
            me,
            links: links.into(),
            number,
            release: Time::ZERO,
            round: 0,
            store: (0, false),
            comparison: Comparison::default(),
            equal: NodeSet::EMPTY,
            equal_sure: NodeSet::EMPTY,
            other_sure: NodeSet::EMPTY,
            ask: None,
            asks: vec![None; n].into(),
            recovery: Recovery::new(&setup),
            fenced: false,
            cut: NodeSet::EMPTY,
            heard: vec![NodeSet::EMPTY; rounds].into(),
            levels: (0..=rounds).map(slots).collect(),
            first: slots(1),
            second: slots(rounds.min(2)),
            liars: NodeSet::EMPTY,
            arena: vec![0; end].into(),
            areas: areas.into(),
            body: vec![0; setup.body_bytes_max(rounds)].into(),
            body_len: 0,
            body_hash: BodyHash::of(&[]),
            peers: vec![PeerCounters::default(); n].into(),
            setup,
        };
        job.expect(number, (0, false));
        job
    }

    /// Forgets the job before and waits for this one; its frames are taken from now on. `store` is the digest of this node's store, and whether
    /// that lacks nothing.
    pub fn expect(&mut self, number: u64, store: (u64, bool)) {
        self.number = number;
        self.release = self.setup.release_of(number);
        self.round = 0;
        self.store = store;
        self.comparison = Comparison::default();
        (self.equal, self.equal_sure, self.other_sure) = Default::default();
        self.ask = None;
        self.asks.fill(None);
        self.fenced = false;
        self.cut = NodeSet::EMPTY;
        self.liars = NodeSet::EMPTY;
        self.heard.fill(NodeSet::EMPTY);
        self.levels.iter_mut().for_each(|level| level.fill(Slot::NOTHING));
    }

    /// Begins the job that it waits for with this node's batch, and with it round 1: send [`Job::frame`] to every peer. `ask` is what it asks
    /// the others for.
    ///
    /// # Panics
    /// If the batch is longer than a batch may be.
    pub fn begin(&mut self, batch: &[u8], ask: Option<Ask>, now: Time) {
        assert!(batch.len() <= self.setup.batch_bytes_max(), "a batch of {} bytes", batch.len());
        self.arena[..batch.len()].copy_from_slice(batch);
        self.levels[0][0] = Slot::new(0, batch.len());
        self.ask = ask;
        self.open(1, now);
    }

    /// The number of the job.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// When the job is released.
    pub fn release(&self) -> Time {
        self.release
    }

    /// Whether the job that it has the number of has begun.
    pub fn has_begun(&self) -> bool {
        self.round != 0
    }

    /// The round that is under way, if one is.
    pub fn round(&self) -> Option<usize> {
        (1..=self.setup.rounds()).contains(&self.round).then_some(self.round)
    }

    /// The frame of this round for a peer.
    ///
    /// # Panics
    /// If there is no such peer.
    pub fn frame(&self, to: Node) -> Frame<'_> {
        let head = Head {
            lane: self.setup.config().lane,
            job: self.number,
            round: self.round as u8,
            sender: self.me,
            receiver: to,
            body_len: self.body_len as u32,
            fingerprint: self.setup.fingerprint(),
            digest: self.store.0,
            sure: self.store.1,
            ask: self.ask.filter(|_| self.round == 1),
            until: 0,
        };
        let head = head.seal(&self.body_hash, &self.links[to.index()]);
        Frame { head, body: &self.body[..self.body_len] }
    }

    /// What a peer has asked for in this job.
    pub(crate) fn asked(&self, peer: Node) -> Option<Ask> {
        self.asks.get(peer.index()).copied().flatten()
    }

    /// An answer to a peer: how what it asked for is after this job, as tuples up to a key.
    pub(crate) fn answer<'a>(
        &self,
        to: Node,
        job: u64,
        ask: Ask,
        (body, until): (&'a [u8], u32),
        digest: u64,
    ) -> Frame<'a> {
        let head = Head {
            lane: self.setup.config().lane,
            job,
            round: STATE_ROUND,
            sender: self.me,
            receiver: to,
            body_len: body.len() as u32,
            fingerprint: self.setup.fingerprint(),
            digest,
            sure: true,
            ask: Some(ask),
            until,
        };
        Frame { head: head.seal(&BodyHash::of(body), &self.links[to.index()]), body }
    }

    /// A whole frame that has come from a peer.
    pub fn take(&mut self, from: Node, bytes: &[u8]) -> Result<Taken, Dropped> {
        let result = self.admit(from, bytes);
        if let (Err(dropped), Some(counters)) = (result, self.peers.get_mut(from.index())) {
            dropped.count(counters);
        }
        result
    }

    fn admit(&mut self, from: Node, bytes: &[u8]) -> Result<Taken, Dropped> {
        let too_short = Dropped::Length(bytes.len());
        let (head_bytes, body) = bytes.split_first_chunk::<HEAD_BYTES>().ok_or(too_short)?;
        let head = Head::parse(head_bytes)?;
        let key = self.links.get(from.index()).filter(|_| from != self.me).ok_or(Dropped::Misdirected)?;
        let lane = self.setup.config().lane;
        if (head.sender, head.receiver, head.lane) != (from, self.me, lane) {
            return Err(Dropped::Misdirected);
        }
        if head.fingerprint != self.setup.fingerprint() {
            return Err(Dropped::OtherConfiguration);
        }
        if head.round == STATE_ROUND {
            return self.admit_state(from, &head, bytes);
        }
        let round = usize::from(head.round);
        if round == 0 || round > self.setup.rounds() {
            return Err(Dropped::NoSuchRound(head.round));
        }
        let is_ahead = head.job > self.number;
        let is_old = head.job < self.number && !Mutant::TakeOldFrames.is_on();
        if is_old || (!is_ahead && round < self.round) {
            return Err(Dropped::Late { job: head.job, round: head.round });
        }
        if !is_ahead && self.heard[round - 1].contains(from) {
            return Err(Dropped::Repeated);
        }
        if body.len() != head.body_len as usize || body.len() > self.setup.body_bytes_max(round) {
            return Err(Dropped::Length(bytes.len()));
        }
        if !is_authentic(head_bytes, body, key) && !Mutant::IgnoreCodes.is_on() {
            return Err(Dropped::Forged);
        }
        // Only now: what is too early is kept by whoever reads, and nobody else shall make it wait.
        if is_ahead {
            let is_next = head.job - self.number == 1;
            return Err(if is_next {
                Dropped::TooEarly { job: head.job }
            } else {
                Dropped::FarAhead { job: head.job }
            });
        }
        self.check_body(round, from, body)?;
        self.keep(round, from, body);
        if round == 1 {
            self.compare(from, &head);
        }
        Ok(if round == self.round { Taken::InTime } else { Taken::Kept })
    }

    /// What a frame of round 1 says besides its batch.
    fn compare(&mut self, from: Node, head: &Head) {
        self.asks[from.index()] = head.ask;
        let (ours, sure) = self.store;
        let equal = head.digest == ours;
        if equal {
            self.equal.insert(from);
        }
        if head.sure {
            let side = if equal { &mut self.equal_sure } else { &mut self.other_sure };
            side.insert(from);
        }
        if sure && head.sure && !Mutant::CompareNothing.is_on() {
            let side = if equal { &mut self.comparison.agree } else { &mut self.comparison.differ };
            side.insert(from);
        }
    }

    /// An answer about state, if this node waits for it.
    fn admit_state(&mut self, from: Node, head: &Head, bytes: &[u8]) -> Result<Taken, Dropped> {
        let (head_bytes, body) =
            bytes.split_first_chunk::<HEAD_BYTES>().ok_or(Dropped::Length(bytes.len()))?;
        if head.job >= self.number {
            return Err(Dropped::FarAhead { job: head.job });
        }
        if body.len() != head.body_len as usize || body.len() > self.setup.state_bytes_max() {
            return Err(Dropped::Length(bytes.len()));
        }
        let key = &self.links[from.index()];
        if !is_authentic(head_bytes, body, key) && !Mutant::IgnoreCodes.is_on() {
            return Err(Dropped::Forged);
        }
        let ask = head.ask.ok_or(Dropped::Malformed)?;
        if !head.sure || !is_state(body, ask, head.until, &self.setup) {
            return Err(Dropped::Malformed);
        }
        // What is not asked for any more is nobody's fault.
        if self.recovery.expects(head.job, head.ask) {
            self.recovery.offer(from, body, head.until);
        }
        Ok(Taken::State)
    }

    /// Whether what this node agrees on may differ from what others agree on, since it was deaf, or too late where nodes only stop.
    pub(crate) fn is_fenced(&self) -> bool {
        // Where nodes only stop and nobody is heard, nobody is there who could agree on anything else.
        let alone = self.setup.mode() == Mode::Crash && self.heard.iter().all(|heard| heard.is_empty());
        self.fenced && !alone && !Mutant::TakeWhatComes.is_on()
    }

    /// Whether others are seen to have the same store, so that this one lacks nothing.
    pub(crate) fn is_like_others(&self) -> bool {
        let (n, f) = (self.setup.nodes(), self.setup.faults());
        let (sure, together) = (self.equal_sure.len(), self.equal.len() + 1);
        match self.setup.mode() {
            Mode::Byzantine => sure > f || together >= n - f,
            Mode::Crash => sure > 0 || (2 * together > n && self.other_sure.is_empty()),
        }
    }

    /// Whether a body has exactly the batches that its round demands.
    fn check_body(&self, round: usize, from: Node, body: &[u8]) -> Result<(), Dropped> {
        let mut batches = Batches::of(body);
        for &label in self.setup.layout().said(round, from) {
            let (found, _, length) = batches.next().ok_or(Dropped::Malformed)?;
            if found != label || length > self.setup.batch_bytes_max() {
                return Err(Dropped::Malformed);
            }
        }
        if batches.is_whole() { Ok(()) } else { Err(Dropped::Malformed) }
    }

    fn keep(&mut self, round: usize, from: Node, body: &[u8]) {
        let area = self.areas[(round - 1) * self.setup.nodes() + from.index()];
        self.arena[area..area + body.len()].copy_from_slice(body);
        let level = &mut self.levels[round];
        for (label, at, length) in Batches::of(body) {
            let slot = self.setup.layout().child(round - 1, label as usize, from);
            level[slot] = Slot::new(area + at, length);
        }
        self.heard[round - 1].insert(from);
    }

    /// A6: nothing more will come from this peer in this job, since its connection is lost. Rounds do not wait for it.
    pub fn silence(&mut self, peer: Node) {
        self.cut.insert(peer);
    }

    /// Whether a frame of this peer may still be of use in this job. If not, what it sends belongs to a later one: leave it
    /// in the connection.
    pub fn wants(&self, peer: Node) -> bool {
        let open = self.heard.get(self.round.max(1) - 1..).unwrap_or_default();
        peer != self.me && !self.cut.contains(peer) && open.iter().any(|heard| !heard.contains(peer))
    }

    /// The frames of this round have left. Where nodes only stop, who speaks later than the others listen is not heard and does not see it.
    pub fn sent(&mut self, now: Time) {
        let (end, link) = (self.release + self.setup.round() * self.round as u64, self.setup.config().link);
        let late = now + (link.round_min() - link.send) > end;
        self.fenced |= late && self.setup.mode() == Mode::Crash;
    }

    /// Ends the round if its time has come or all have been heard, and begins the next.
    pub fn step(&mut self, now: Time) -> Step {
        let Some(round) = self.round() else {
            return if self.round == 0 { Step::Idle } else { Step::Over };
        };
        let everybody = NodeSet::all(self.setup.nodes());
        let unheard = everybody.without(self.heard[round - 1]).without([self.me].into_iter().collect());
        let rounds = if Mutant::WaitTwice.is_on() { 2 * round as u64 } else { round as u64 };
        let (until, missing) = (self.release + self.setup.round() * rounds, unheard.without(self.cut));
        let early = Mutant::GoOnEarly.is_on() && missing.len() == 1;
        if now < until && !missing.is_empty() && !early {
            return Step::Wait { until, missing };
        }
        unheard.iter().for_each(|peer| self.peers[peer.index()].silent += 1);
        let deaf = unheard.len() > self.setup.faults();
        self.fenced |= deaf && self.setup.mode() == Mode::Byzantine;
        if round == self.setup.rounds() {
            self.round = round + 1;
            return Step::Over;
        }
        self.open(round + 1, now);
        Step::Send
    }

    /// Repeats to itself what this node has heard, and makes the frame that says it to the others.
    fn open(&mut self, round: usize, now: Time) {
        self.round = round;
        // A round that begins too late is too late whenever its frames leave.
        self.sent(now);
        let layout = self.setup.layout();
        let (above, below) = self.levels.split_at_mut(round);
        self.body_len = 0;
        for &m in layout.said(round, self.me) {
            let slot = above[round - 1][m as usize];
            if !Mutant::ForgetOwnWord.is_on() {
                below[0][layout.child(round - 1, m as usize, self.me)] = slot;
            }
            self.body_len = append_batch(&mut self.body, self.body_len, m, slot.bytes(&self.arena));
        }
        debug_assert!(self.body_len >= BATCH_HEAD_BYTES);
        self.body_hash = BodyHash::of(&self.body[..self.body_len]);
    }

    /// Resolves what was heard. The vector is there afterwards.
    ///
    /// # Panics
    /// If the rounds are not over.
    pub fn resolve(&mut self) {
        assert_eq!(self.round, self.setup.rounds() + 1, "resolve when `step` says that all rounds are over");
        let setup = &self.setup;
        let counting = Counting { mode: setup.mode(), rule: setup.resolve_rule(), faults: setup.faults() };
        self.first.copy_from_slice(&self.levels[1]);
        self.second.copy_from_slice(&self.levels[setup.rounds().min(2)]);
        resolve(counting, setup.layout(), &mut self.levels, &self.arena);
        if setup.rounds() > 1 {
            let heard = Heard {
                me: self.me,
                faults: setup.faults(),
                in_first_round: self.heard[0],
                first: &self.first,
                second: &self.second,
                vector: &self.levels[1],
                arena: &self.arena,
            };
            self.liars = heard.liars(setup.layout());
        }
        self.liars.iter().for_each(|peer| self.peers[peer.index()].lied += 1);
        self.comparison.differ.iter().for_each(|peer| self.peers[peer.index()].differed += 1);
    }

    /// What was agreed on; of use after [`Job::resolve`] and until the next job is expected.
    pub fn vector(&self) -> Vector<'_> {
        Vector { slots: &self.levels[1], bytes: &self.arena }
    }

    /// Who was silent in a round of this job that is over.
    pub fn silent(&self) -> NodeSet {
        let everybody = NodeSet::all(self.setup.nodes()).without([self.me].into_iter().collect());
        let over = &self.heard[..self.round.saturating_sub(1)];
        over.iter().fold(NodeSet::EMPTY, |silent, heard| silent.with(everybody.without(*heard)))
    }

    /// Who has certainly lied in this job.
    pub fn liars(&self) -> NodeSet {
        self.liars
    }

    /// How peers' digests of the job before compare with the own one.
    pub fn comparison(&self) -> Comparison {
        self.comparison
    }

    /// What a peer has done since the lane began.
    pub fn counters(&self, peer: Node) -> PeerCounters {
        self.peers.get(peer.index()).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
