//! Who reigns: the state of one broker of a pair, and what follows from each piece of news.
//!
//! The problem: exactly one of two brokers should serve; the other must notice within milliseconds that it is gone,
//! and neither can tell a dead partner from a slow or unreachable one.
//!
//! The idea: reigns are numbered. A backup that suspects its primary takes the next epoch at once, rightly or wrongly;
//! everybody follows the highest reign they have heard of, and a primary that hears of a higher one steps down. A wrong
//! suspicion thus costs duplicates, which subscribers drop, and never a message.
//!
//! The invariants: a broker's reign never goes back; only a backup that knows everything (`synced`), or has handed over and
//! not been told everything since (`remembers`), takes over by suspicion; a broker that has lost its memory never reigns
//! while somebody follows a living primary.
//!
//! Left to others: carrying decisions out ([`crate::membership::reign`]), and bringing a backup up to date ([`crate::membership::standby`]).
//! Suspicion counts unanswered polls, not elapsed time, so a jump of the clock or a pause of this process alone causes
//! none. Only whoever has handed over counts time, since its successor does not answer polls yet; it looks twice.
//!
//! Polls go on the connection, where one lost segment is silence for 200 ms, and are answered by a thread that may have much to do. So
//! an unanswered poll is a reason to look at the heartbeats ([`crate::membership::liveness`]): whoever sends them lives, and is taken for dead only
//! when they stop as well, or when they say that its data thread stands still. Who was wrong all the same waits longer the next time.

use crate::settings::Detection;
use crate::watch::events::{Loneliness, PromotionCause};
use contract::{Mutant, NodeId, Reign, Span, StreamId, Time, invariant};
use std::cmp::Ordering;
use wire::{Evidence, Knowledge, LinkId, Standing};

/// What this broker is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// Looks for its partner, and serves nobody.
    Seeking { since: Time },
    /// Serves.
    Primary { backup: Option<Partner> },
    /// Stands by. Without a link it is about to decide whether the primary is dead.
    Backup { primary: Option<LinkId>, synced: bool, verdict_by: Time },
}

/// The backup, seen from the primary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Partner {
    pub(crate) link: LinkId,
    /// The first stream that it has not been told of.
    pub(crate) next_stream: StreamId,
    /// Whether it has been told of every stream that was there when it came; it hears of others as they come.
    pub(crate) knows_streams: bool,
    /// The same for what is remembered of other protocols.
    pub(crate) next_record: Option<u64>,
    /// Whether it has been told everything that there was.
    pub(crate) told: bool,
    /// Whether it has said that it knows everything.
    pub(crate) stands_by: bool,
    /// When it last polled, and when to look whether it has.
    pub(crate) heard: Time,
    pub(crate) look_at: Time,
    /// It has been found silent once since.
    pub(crate) doubted: bool,
    /// It keeps what it remembers, since that is more than we do, and is to reign when it knows the rest.
    pub(crate) knows_more: bool,
}

impl Partner {
    /// Whether it has been told of this stream, so that it understands what is said of its messages.
    #[inline]
    pub(crate) fn knows(&self, stream: StreamId) -> bool {
        self.told || stream < self.next_stream
    }
}

/// What the other broker last said on one of the links to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct News {
    pub(crate) link: LinkId,
    pub(crate) standing: Standing,
    pub(crate) reign: Reign,
    pub(crate) node: NodeId,
    pub(crate) prefers_to_reign: bool,
    pub(crate) copies: Copies,
}

/// How what this broker remembers of other protocols compares with what its partner does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Copies {
    /// Ours, seen from theirs: `Less` goes second.
    pub(crate) rank: Ordering,
    /// Each has something that the other lacks.
    pub(crate) apart: bool,
    /// Ours has all of theirs, except what the partner has changed since it began to reign without asking us, and more.
    pub(crate) keeps: bool,
    /// Changes that we know of.
    pub(crate) ours: u64,
    /// The same of the partner.
    pub(crate) theirs: u64,
    /// How many of ours the partner lacks.
    pub(crate) surplus: u64,
    /// Whether these were overtaken: its reign began with all that ours had told.
    pub(crate) overtaken: bool,
}

impl Copies {
    pub(crate) fn compare(ours: &Knowledge, theirs: &Knowledge) -> Copies {
        let (more, less) = (ours.covers(theirs, false), theirs.covers(ours, false));
        // Where neither is a part of the other, one that began without asking goes first, if the other has everything else: it tells
        // what it has changed, and gives the reign. Otherwise the longer one does. Both sides count alike.
        let (keeps, kept) = (ours.covers(theirs, true), theirs.covers(ours, true));
        let rank = match (more, less) {
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) if keeps != kept => kept.cmp(&keeps),
            _ => ours.total().cmp(&theirs.total()),
        };
        Copies {
            rank,
            apart: !more && !less,
            keeps: !less && keeps,
            ours: ours.total(),
            theirs: theirs.total(),
            surplus: theirs.lacks(ours),
            overtaken: less,
        }
    }
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    Stay,
    /// Whom this broker follows stays, in another reign; everybody is told.
    Tell,
    Promote(PromotionCause),
    /// Step down, and stand by on this link if there is one.
    StepDown(Option<LinkId>),
    Join(LinkId),
    Seek,
    Dial,
    Poll(LinkId, u64),
    /// The partner is taken for dead; close its link.
    DropBackup(LinkId, Loneliness),
    /// The primary that never completed our knowledge is taken for dead; close its link and look around.
    DropPrimary(LinkId),
    /// The primary lives, and the connection to it does not; close it, and connect anew.
    Reconnect(LinkId),
}

#[derive(Clone)]
pub(crate) struct Pair {
    node: NodeId,
    prefers_to_reign: bool,
    has_peer: bool,
    /// What it remembers may be old: it is in no hurry to reign before its partner has been asked.
    doubts: bool,
    detection: Detection,
    pub(crate) role: Role,
    /// The highest reign heard of; this broker's own while it is primary.
    pub(crate) reign: Reign,
    news: Vec<News>,
    /// We gave the reign away, and our successor has not told us everything yet. Should it die, nobody knows more than we.
    remembers: bool,
    /// When that was, and whether the successor has been found silent once since it was last heard.
    gave_at: Time,
    successor_doubted: bool,
    /// It reigned, or knew everything, a moment ago. Another one reigns since, and has not told it everything yet; should that one die,
    /// nobody knows more.
    informed: bool,
    dialing: bool,
    dial_at: Time,
    poll: Polling,
    /// The process that this broker last stood by for, and when anything came from it.
    primary_node: NodeId,
    primary_heard: Time,
    caution: Caution,
    /// Patience is not doubled beyond this at first, so that a death is noticed within what contracts count with.
    doubled_max: Span,
}

/// What has been learnt of suspicions that were wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caution {
    /// Patience is doubled so often.
    doublings: u32,
    /// Since when.
    since: Time,
    /// Whose place was taken by suspicion, and when.
    suspected: Option<(Time, NodeId)>,
    /// Takeovers from a primary that lived.
    pub(crate) false_takeovers: u64,
}

#[derive(Clone)]
struct Polling {
    next_at: Time,
    number: u64,
    answered: bool,
    /// Its answer was missing at the last look.
    doubted: bool,
    misses: u32,
}

/// Who is heard of again so soon after its place was taken was not dead.
const FALSE_WITHIN: Span = Span::secs(1);
/// Patience is doubled so often at most, and halved again after so long without a wrong suspicion.
const DOUBLINGS_MAX: u32 = 5;
/// So many wrong suspicions within that time show that a death cannot be told from this link, or this host, within the failover time.
const DOUBLINGS_WITHIN: u32 = 2;
const CAUTIOUS_FOR: Span = Span::secs(600);
/// So long a connection may be silent whose other end lives, before it is made anew.
const DEAF_MAX: Span = Span::secs(2);

/// Links to the partner at the same time; each side may dial once, and an old one may not have closed yet.
const PEER_LINKS_MAX: usize = 8;

/// The furthest that a claimed epoch may be ahead of ours.
const EPOCH_STEP_MAX: u64 = 1 << 32;

/// For so long at most, a successor that polls without taking the reign is waited for.
const SUCCESSION_MAX: Span = Span::secs(1);

/// A backup that has not polled for this many polls beyond the tolerated ones is gone.
const SILENT_POLLS: u32 = 8;

impl Pair {
    pub(crate) fn new(
        node: NodeId,
        prefers_to_reign: bool,
        has_peer: bool,
        detection: Detection,
        now: Time,
    ) -> Pair {
        Pair {
            node,
            prefers_to_reign,
            has_peer,
            doubts: false,
            detection,
            role: Role::Seeking { since: now },
            reign: Reign::default(),
            news: Vec::new(),
            remembers: false,
            gave_at: Time::ZERO,
            successor_doubted: false,
            informed: false,
            dialing: false,
            dial_at: now,
            poll: Polling { next_at: Time::NEVER, number: 0, answered: true, doubted: false, misses: 0 },
            primary_node: NodeId(0),
            primary_heard: now,
            caution: Caution { doublings: 0, since: now, suspected: None, false_takeovers: 0 },
            doubled_max: Span::ZERO,
        }
    }

    /// What this broker remembers may be old.
    pub(crate) fn doubt(&mut self) {
        self.doubts = true;
    }

    /// Contracts count with this failover time. A wrong suspicion costs duplicates, and a late one messages, so patience is doubled at first
    /// only as far as there is room: beside polls and an attempt to connect, one poll is left for the ways. Where that does not help, the
    /// reign would only go to and fro, and nobody be protected: it is doubled further, and the admin is told that detection is slow.
    pub(crate) fn keep_within(mut self, failover: Span) -> Pair {
        self.doubled_max = failover - self.detection.connect - self.detection.poll * 2;
        self
    }

    pub(crate) fn standing(&self) -> Standing {
        match self.role {
            // A partner that has lost its memory must not go first.
            Role::Seeking { .. } if self.knows_most() => Standing::Backup,
            Role::Seeking { .. } => Standing::Seeking,
            Role::Primary { .. } => Standing::Primary,
            Role::Backup { .. } => Standing::Backup,
        }
    }

    /// Whether nobody is known to know more than this broker, although it neither reigns nor has been told everything.
    fn knows_most(&self) -> bool {
        self.remembers || self.informed
    }

    pub(crate) fn is_primary(&self) -> bool {
        matches!(self.role, Role::Primary { .. })
    }

    pub(crate) fn is_protected(&self) -> bool {
        match self.role {
            Role::Primary { backup } => backup.is_some_and(|partner| partner.stands_by),
            Role::Backup { primary, synced, .. } => primary.is_some() && synced,
            Role::Seeking { .. } => false,
        }
    }

    /// Whether the primary is telling this broker everything, and has not finished.
    pub(crate) fn is_being_told(&self) -> bool {
        matches!(self.role, Role::Backup { synced: false, .. })
    }

    /// The backup, if this broker reigns and has one.
    pub(crate) fn backup(&self) -> Option<Partner> {
        match self.role {
            Role::Primary { backup } => backup,
            _ => None,
        }
    }

    /// Whether this broker reigns and has the one on this link as backup.
    pub(crate) fn is_backup(&self, link: LinkId) -> bool {
        self.backup().is_some_and(|partner| partner.link == link)
    }

    pub(crate) fn backup_mut(&mut self) -> Option<&mut Partner> {
        match &mut self.role {
            Role::Primary { backup } => backup.as_mut(),
            _ => None,
        }
    }

    /// The link to the primary, if this broker stands by.
    pub(crate) fn primary_link(&self) -> Option<LinkId> {
        match self.role {
            Role::Backup { primary, .. } => primary,
            _ => None,
        }
    }

    /// The reign that clients are told of: that of the primary for which this broker stands by. [`Pair::reign`] may be higher, since
    /// anybody's word bounds the next epoch from below.
    pub(crate) fn followed(&self) -> Reign {
        let primary = self.primary_link().and_then(|link| self.news_of(link));
        primary.map_or(self.reign, |news| news.reign)
    }

    /// Where messages go that reached this broker although it does not reign.
    pub(crate) fn forward_link(&self) -> Option<LinkId> {
        self.primary_link().or_else(|| {
            let reigning = |news: &&News| news.standing == Standing::Primary && news.reign >= self.reign;
            if self.is_primary() { None } else { self.news.iter().find(reigning).map(|news| news.link) }
        })
    }

    pub(crate) fn can_take_peer_link(&self) -> bool {
        self.news.len() < PEER_LINKS_MAX
    }

    /// The partner greeted, or told of a change.
    pub(crate) fn on_news(&mut self, now: Time, news: News) -> Decision {
        self.dialing = false;
        if !self.is_credible(news.reign) {
            return Decision::Stay;
        }
        let told_before = self.news_of(news.link).map(|known| known.reign);
        self.news.retain(|known| known.link != news.link);
        self.news.push(news);
        self.judge_suspicion(now, news.node);
        match (self.role, news.standing) {
            (Role::Primary { backup }, Standing::Primary) if news.reign > self.reign => {
                if backup.is_some_and(|backup| now < backup.heard + FALSE_WITHIN) {
                    self.be_cautious(now);
                }
                Decision::StepDown(Some(news.link))
            }
            (Role::Primary { .. }, Standing::Primary) => Decision::Stay,
            (Role::Primary { .. }, _) if news.reign > self.reign => {
                self.reign.epoch = news.reign.epoch;
                Decision::Promote(PromotionCause::Raised)
            }
            (Role::Primary { .. }, _) => Decision::Stay,
            (_, Standing::Primary) => self.follow(news, told_before),
            (Role::Seeking { .. }, Standing::Seeking) => self.go_first(news),
            (Role::Backup { primary: Some(link), .. }, Standing::Seeking)
                if link != news.link && self.node_of(link) == Some(news.node) =>
            {
                // An older greeting of our primary, overtaken on another link.
                Decision::Stay
            }
            (Role::Backup { synced, .. }, Standing::Seeking) if synced || self.knows_most() => {
                self.reign = self.reign.max(news.reign);
                Decision::Promote(PromotionCause::Restarted)
            }
            (Role::Backup { .. }, Standing::Seeking) => {
                self.seek(now);
                self.go_first(news)
            }
            (Role::Backup { synced: true, primary: None, .. }, Standing::Backup)
                if (self.reign, self.node) > (news.reign, news.node) =>
            {
                Decision::Promote(PromotionCause::Disconnected)
            }
            _ => Decision::Stay,
        }
    }

    /// A client told which reign it knows of, and whether it follows a living primary in it.
    pub(crate) fn on_client_reign(&mut self, reign: Reign, follows: bool) -> Decision {
        if reign <= self.reign || !self.is_credible(reign) {
            return Decision::Stay;
        }
        match self.role {
            // Whoever stands by here would have said that it reigns. A client that has been given brokers of two pairs follows another.
            Role::Primary { .. } if follows && self.backup_node().is_some_and(|node| node != reign.node) => {
                Decision::Stay
            }
            Role::Primary { .. } if follows => {
                self.reign = reign;
                Decision::StepDown(None)
            }
            Role::Primary { .. } => {
                self.reign.epoch = reign.epoch;
                Decision::Promote(PromotionCause::Raised)
            }
            _ => {
                // What a client says bounds our next epoch from below; whom to follow, the partner itself says.
                self.reign = reign;
                Decision::Stay
            }
        }
    }

    /// The process that stands by, if any does.
    fn backup_node(&self) -> Option<NodeId> {
        self.backup().and_then(|partner| self.node_of(partner.link))
    }

    /// Epochs grow by one at each promotion. A claim that is out of all proportion is a fault or worse, and following it
    /// would use up the numbers.
    fn is_credible(&self, reign: Reign) -> bool {
        reign.epoch.0 <= self.reign.epoch.0.saturating_add(EPOCH_STEP_MAX)
    }

    /// The primary hands over.
    pub(crate) fn on_take_over(&mut self, link: LinkId, epoch: contract::Epoch) -> Decision {
        let credible = self.is_credible(Reign { epoch, node: self.node });
        if self.primary_link() == Some(link) && credible {
            self.reign.epoch = self.reign.epoch.max(contract::Epoch(epoch.0.saturating_sub(1)));
            Decision::Promote(PromotionCause::Handover)
        } else {
            Decision::Stay
        }
    }

    /// A link is gone.
    pub(crate) fn on_closed(&mut self, now: Time, link: LinkId) -> Decision {
        self.news.retain(|known| known.link != link);
        if self.news.is_empty() {
            let wait = if self.knows_most() { Span::ZERO } else { self.detection.retry };
            self.dial_at = self.dial_at.min(now + wait);
        }
        match self.role {
            Role::Primary { backup: Some(partner) } if partner.link == link => {
                Decision::DropBackup(link, Loneliness::Disconnected)
            }
            Role::Backup { primary: Some(primary), synced, .. } if primary == link => {
                let verdict_by = now + self.verdict_within();
                self.role = Role::Backup { primary: None, synced, verdict_by };
                self.poll.next_at = Time::NEVER;
                // Another link to the primary, if there is one, may be as dead and not know it yet. A new attempt to
                // connect tells at once: where the process is gone, it is refused.
                self.dial_at = now;
                self.tick(now, false, None)
            }
            _ => Decision::Stay,
        }
    }

    /// The partner cannot be connected to. `refused`: its host answers, and nobody listens there.
    pub(crate) fn on_dial_failed(
        &mut self,
        now: Time,
        refused: bool,
        clients_follow: bool,
        evidence: Option<Evidence>,
    ) -> Decision {
        self.dialing = false;
        self.dial_at = now + self.detection.retry;
        match self.role {
            // An attempt may be lost on the way; who refuses it is there, and no broker is.
            Role::Backup { primary: None, .. } if !refused && self.lives(now, evidence) == Some(true) => {
                self.dial_at = now;
                Decision::Stay
            }
            Role::Backup { primary: None, synced, .. } => self.take_over(now, synced),
            Role::Seeking { .. }
                if refused
                    && (self.knows_most() || self.prefers_to_reign && !self.doubts && !clients_follow)
                    && self.news.is_empty() =>
            {
                Decision::Promote(PromotionCause::Alone)
            }
            _ => Decision::Stay,
        }
    }

    /// A connection that was asked for stands; its greeting is due.
    pub(crate) fn on_dialed(&mut self) {
        self.dialing = false;
        self.dial_at = Time::NEVER;
    }

    /// A link that we had made is gone before anybody greeted. A backup that has just lost its
    /// primary asks again at once: a dying process may take a connection in its last moment, and the next is refused.
    pub(crate) fn on_dialed_closed(&mut self, now: Time) -> Decision {
        if self.knows_most() || matches!(self.role, Role::Backup { primary: None, .. }) {
            self.dial_at = now;
            return self.tick(now, false, None);
        }
        if self.wants_dial() {
            self.dial_at = self.dial_at.min(now + self.detection.retry);
        }
        Decision::Stay
    }

    /// The number of the poll that was sent last.
    pub(crate) fn poll_number(&self) -> u64 {
        self.poll.number
    }

    /// The primary answered.
    pub(crate) fn on_poll_reply(&mut self, link: LinkId) {
        if self.primary_link() == Some(link) {
            self.poll.answered = true;
            self.poll.misses = 0;
        }
    }

    /// Whether this broker has handed over, and its successor has not told it everything since.
    pub(crate) fn remembers(&self) -> bool {
        self.remembers
    }

    /// Somebody polled. Whoever is to succeed us and still polls lives, and has not heard of it yet.
    pub(crate) fn on_polled(&mut self, now: Time, link: LinkId) {
        let successor = self.remembers && self.news_of(link).is_some();
        let waits = successor && now < self.gave_at + SUCCESSION_MAX;
        if let Role::Seeking { since } = &mut self.role
            && waits
        {
            (*since, self.successor_doubted) = (now, false);
        }
        let look_at = now + self.silence();
        if let Some(partner) = self.backup_mut().filter(|partner| partner.link == link) {
            (partner.heard, partner.look_at, partner.doubted) = (now, look_at, false);
        }
    }

    /// Something came from the primary at this time.
    pub(crate) fn on_heard(&mut self, at: Time) {
        self.primary_heard = at;
    }

    /// Looks at the clock, and at what heartbeats say. Call it again while it decides something else than to stay.
    pub(crate) fn tick(&mut self, now: Time, clients_follow: bool, evidence: Option<Evidence>) -> Decision {
        // A clock that went back must not leave us waiting for a time that is far away.
        let verdict_within = self.verdict_within();
        let trusts = Mutant::TrustClock.is_on();
        let soon =
            |at: Time, within: Span| if at == Time::NEVER || trusts { at } else { at.min(now + within) };
        self.poll.next_at = soon(self.poll.next_at, self.detection.poll);
        self.dial_at = soon(self.dial_at, self.detection.retry);
        let silence = self.silence();
        if let Some(partner) = self.backup_mut() {
            partner.heard = partner.heard.min(now);
            partner.look_at = partner.look_at.min(now + silence);
        }
        self.caution.since = self.caution.since.min(now);
        self.primary_heard = self.primary_heard.min(now);
        if let Role::Backup { verdict_by, .. } = &mut self.role
            && *verdict_by != Time::NEVER
        {
            *verdict_by = (*verdict_by).min(now + verdict_within);
        }
        if let Role::Seeking { since } = &mut self.role {
            // While somebody follows a living primary, the patience of a broker that knows nothing does not run out.
            *since = if clients_follow && !self.remembers { now } else { (*since).min(now) };
        }
        if let Role::Seeking { .. } = self.role
            && let Some(link) = self.known_primary()
        {
            return Decision::Join(link);
        }
        match self.role {
            Role::Backup { primary: Some(link), synced, .. } if now >= self.poll.next_at => {
                self.poll_primary(now, link, synced, evidence)
            }
            Role::Backup { primary: None, synced, verdict_by } if now >= verdict_by => {
                self.reach_verdict(now, synced, evidence)
            }
            Role::Seeking { since } if now >= since + self.patience() => self.lose_patience(now),
            Role::Primary { backup: Some(partner) } if now > partner.look_at => {
                self.doubt_backup(now, partner, evidence)
            }
            _ if self.wants_dial() && now >= self.dial_at => {
                self.dialing = true;
                self.dial_at = now + self.detection.retry;
                Decision::Dial
            }
            _ => Decision::Stay,
        }
    }

    /// When [`Pair::tick`] has something to do.
    pub(crate) fn next_deadline(&self) -> Time {
        let role = match self.role {
            Role::Backup { primary: Some(_), .. } => self.poll.next_at,
            Role::Backup { primary: None, verdict_by, .. } => verdict_by,
            Role::Seeking { since } => since + self.patience(),
            Role::Primary { backup: Some(partner) } => partner.look_at + Span(1),
            Role::Primary { backup: None } => Time::NEVER,
        };
        if self.wants_dial() { role.min(self.dial_at) } else { role }
    }

    /// Takes the next epoch.
    pub(crate) fn promote(&mut self) -> Reign {
        (self.remembers, self.informed) = (false, false);
        let epoch = if Mutant::KeepEpoch.is_on() { self.reign.epoch } else { self.reign.epoch.next() };
        self.reign = Reign { epoch, node: self.node };
        let backup = self.backup();
        self.role = Role::Primary { backup };
        self.poll.next_at = Time::NEVER;
        self.reign
    }

    /// Stands by on a link; everything has to be learnt from there.
    pub(crate) fn join(&mut self, now: Time, link: LinkId) {
        match self.news_of(link) {
            Some(news) => {
                self.reign = self.reign.max(news.reign);
                self.primary_node = news.node;
            }
            None => invariant!("who is joined has told its news"),
        }
        self.informed |= matches!(self.role, Role::Backup { synced: true, .. });
        self.role = Role::Backup { primary: Some(link), synced: false, verdict_by: Time::NEVER };
        self.poll =
            Polling { next_at: now, number: self.poll.number, answered: true, doubted: false, misses: 0 };
    }

    /// The primary says that we have been told everything.
    pub(crate) fn on_synced(&mut self, link: LinkId) -> bool {
        match &mut self.role {
            Role::Backup { primary, synced, .. } if *primary == Some(link) => {
                *synced = true;
                (self.remembers, self.informed) = (false, false);
                true
            }
            _ => false,
        }
    }

    /// Goes back to looking for the partner.
    pub(crate) fn seek(&mut self, now: Time) {
        self.role = Role::Seeking { since: now };
        self.poll.next_at = Time::NEVER;
        self.dial_at = self.dial_at.min(now + self.detection.retry);
    }

    /// Another one reigns. Until that has told it everything, nobody knows more than this broker does.
    pub(crate) fn be_deposed(&mut self, now: Time) {
        self.drop_backup(now);
        self.seek(now);
        self.informed = true;
    }

    /// Has given the reign away, and waits for the successor to announce itself. The successor's epoch is its own: should it
    /// die before it is heard of, this broker takes a later one.
    pub(crate) fn await_successor(&mut self, now: Time, epoch: contract::Epoch) {
        self.reign = Reign { epoch, node: NodeId(0) };
        (self.gave_at, self.successor_doubted) = (now, false);
        self.seek(now);
        self.remembers = true;
    }

    /// Takes the broker on a link as backup, from the beginning.
    pub(crate) fn accept_backup(&mut self, now: Time, link: LinkId, knows_more: bool) -> bool {
        let look_at = now + self.silence();
        match &mut self.role {
            Role::Primary { backup } => {
                let (told, stands_by, doubted) = (false, false, false);
                *backup = Some(Partner {
                    look_at,
                    link,
                    next_stream: StreamId(0),
                    knows_streams: false,
                    next_record: Some(0),
                    told,
                    stands_by,
                    heard: now,
                    doubted,
                    knows_more,
                });
                true
            }
            _ => false,
        }
    }

    /// Reigns on alone.
    pub(crate) fn drop_backup(&mut self, now: Time) {
        if let Role::Primary { backup } = &mut self.role {
            *backup = None;
        }
        self.dial_at = now + self.detection.retry;
    }

    /// A link on which the partner last said that it reigns, as far as we know rightly.
    fn known_primary(&self) -> Option<LinkId> {
        let reigns =
            |news: &&News| news.standing == Standing::Primary && news.reign.epoch >= self.reign.epoch;
        self.news.iter().filter(reigns).max_by_key(|news| news.reign).map(|news| news.link)
    }

    /// We have given up a link; what was said there no longer counts.
    pub(crate) fn disregard(&mut self, link: LinkId) {
        self.news.retain(|news| news.link != link);
    }

    /// The clock has jumped, or this process has slept: nobody was silent for as long as it seems.
    pub(crate) fn forgive(&mut self, now: Time) {
        if let (Role::Seeking { since }, true) = (&mut self.role, self.remembers) {
            (*since, self.gave_at, self.successor_doubted) = (now, now, false);
        }
        let look_at = now + self.silence();
        if let Some(partner) = self.backup_mut() {
            (partner.heard, partner.look_at) = (now, look_at);
        }
    }

    /// What the broker on a link last said.
    pub(crate) fn news_of(&self, link: LinkId) -> Option<News> {
        self.news.iter().find(|news| news.link == link).copied()
    }

    pub(crate) fn node_of(&self, link: LinkId) -> Option<NodeId> {
        self.news_of(link).map(|news| news.node)
    }

    fn follow(&mut self, news: News, told_before: Option<Reign>) -> Decision {
        let joined = self.primary_link();
        if joined == Some(news.link) {
            // Nothing new, or the same primary has raised its reign. Who hears of us as one of the old reign takes us for one of
            // another pair before long.
            let raised = told_before != Some(news.reign);
            self.reign = self.reign.max(news.reign);
            return if raised { Decision::Tell } else { Decision::Stay };
        }
        if news.reign.epoch < self.reign.epoch {
            // A reign that has ended, and will hear so from our greeting.
            return Decision::Stay;
        }
        if joined.is_some() && joined.and_then(|link| self.node_of(link)) == Some(news.node) {
            return Decision::Stay;
        }
        Decision::Join(news.link)
    }

    /// The connection to the primary is gone, and it could not be reached in time. Whoever lives all the same is tried again.
    fn reach_verdict(&mut self, now: Time, synced: bool, evidence: Option<Evidence>) -> Decision {
        if self.lives(now, evidence) != Some(true) {
            return self.take_over(now, synced);
        }
        let again = now + self.verdict_within();
        if let Role::Backup { verdict_by, .. } = &mut self.role {
            *verdict_by = again;
        }
        Decision::Stay
    }

    /// The primary is out of reach: a backup that knows enough takes its place.
    fn take_over(&mut self, now: Time, synced: bool) -> Decision {
        if synced || self.knows_most() {
            self.suspect(now, PromotionCause::Disconnected)
        } else {
            Decision::Seek
        }
    }

    /// Takes the place of a primary that may live.
    fn suspect(&mut self, now: Time, cause: PromotionCause) -> Decision {
        self.caution.suspected = Some((now, self.primary_node));
        Decision::Promote(cause)
    }

    /// Somebody is heard of: was it wrong to take its place?
    fn judge_suspicion(&mut self, now: Time, node: NodeId) {
        let Some((at, suspected)) = self.caution.suspected else { return };
        let soon = now < at + FALSE_WITHIN;
        if soon && node == suspected {
            self.caution.false_takeovers += 1;
            self.be_cautious(now);
        }
        if !soon || node == suspected {
            self.caution.suspected = None;
        }
    }

    /// What has been learnt of suspicions that were wrong.
    pub(crate) fn caution(&self) -> Caution {
        self.caution
    }

    fn be_cautious(&mut self, now: Time) {
        let doublings = (self.doublings(now) + 1).min(DOUBLINGS_MAX);
        (self.caution.doublings, self.caution.since) = (doublings, now);
    }

    /// How often patience is doubled now.
    fn doublings(&self, now: Time) -> u32 {
        let quiet = now.since(self.caution.since).0.max(0) / CAUTIOUS_FOR.0;
        self.caution.doublings.saturating_sub(u32::try_from(quiet).unwrap_or(u32::MAX))
    }

    /// How long silence is borne, where it takes so long to be sure in itself.
    pub(crate) fn patience_for(&self, now: Time, span: Span) -> Span {
        let doublings = self.doublings(now);
        let longest = self.detection.patience_max;
        let most = if doublings > DOUBLINGS_WITHIN { longest } else { longest.min(self.doubled_max) };
        (span * (1 << doublings)).min(most.max(span))
    }

    /// How many polls in a row may stay unanswered, while nothing else tells.
    fn tolerated_misses(&self, now: Time) -> u32 {
        let Detection { poll, misses, .. } = self.detection;
        let misses = if Mutant::SuspectLate.is_on() { misses * 8 } else { misses };
        let borne = self.patience_for(now, poll * u64::from(misses));
        u32::try_from(borne.0 / poll.0.max(1)).unwrap_or(u32::MAX).max(misses)
    }

    /// What heartbeats say of the primary that this broker stands by for, or last stood by for: whether it lives. `None`: nothing.
    fn lives(&self, now: Time, evidence: Option<Evidence>) -> Option<bool> {
        self.is_alive(now, self.primary_node, evidence)
    }

    fn is_alive(&self, now: Time, node: NodeId, evidence: Option<Evidence>) -> Option<bool> {
        let evidence = evidence.filter(|evidence| evidence.node == node)?;
        if Mutant::IgnoreHeartbeats.is_on() {
            return None;
        }
        let silence = self.counted_silence(&evidence);
        Some(silence < self.patience_for(now, evidence.patience) && evidence.still < self.detection.stall)
    }

    /// What counts of a silence. Whoever is heard and hears nothing would not know who reigns, so that it counts as silent; but where this
    /// broker was deposed by it, or has not been told everything, it is this one that is not heard, and a reign that it took would be
    /// nobody's but its own.
    fn counted_silence(&self, evidence: &Evidence) -> Span {
        match self.role {
            Role::Backup { synced: false, .. } => evidence.unheard,
            _ => evidence.silence,
        }
    }

    fn go_first(&mut self, news: News) -> Decision {
        let rank = (news.copies.rank, self.prefers_to_reign, self.node);
        if self.knows_most() || rank > (Ordering::Equal, news.prefers_to_reign, news.node) {
            self.reign = self.reign.max(news.reign);
            let cause = if self.knows_most() { PromotionCause::Restarted } else { PromotionCause::First };
            Decision::Promote(cause)
        } else {
            Decision::Stay
        }
    }

    fn poll_primary(
        &mut self,
        now: Time,
        link: LinkId,
        synced: bool,
        evidence: Option<Evidence>,
    ) -> Decision {
        if !self.poll.answered && !std::mem::replace(&mut self.poll.doubted, true) {
            // The answer may be here and not read yet. The driver reads what is there before it asks again.
            return Decision::Stay;
        }
        self.poll.doubted = false;
        if !self.poll.answered {
            self.poll.misses = self.poll.misses.saturating_add(1);
            let lives = self.lives(now, evidence);
            if lives != Some(true) && self.poll.misses >= self.tolerated_misses(now) {
                let still = lives.is_some() && evidence.is_some_and(|it| it.still >= self.detection.stall);
                let cause = if still { PromotionCause::Stalled } else { PromotionCause::Silent };
                return if synced || self.informed {
                    self.suspect(now, cause)
                } else {
                    Decision::DropPrimary(link)
                };
            }
            // Answers come after what it tells a broker that does not know everything yet, which takes its time on a thin link.
            let is_told = !synced && now < self.primary_heard + DEAF_MAX;
            if self.detection.poll * u64::from(self.poll.misses) >= DEAF_MAX && !is_told {
                self.poll.misses = 0;
                return Decision::Reconnect(link);
            }
        }
        self.poll.answered = false;
        self.poll.number += 1;
        self.poll.next_at = now + self.next_poll_within(now, evidence);
        Decision::Poll(link, self.poll.number)
    }

    /// When heartbeats will say that the primary is gone, if that is before the next poll would be due.
    fn next_poll_within(&self, now: Time, evidence: Option<Evidence>) -> Span {
        let poll = self.detection.poll;
        let waits = self.poll.misses > 0 && self.lives(now, evidence) == Some(true);
        let left = evidence
            .filter(|_| waits)
            .map_or(poll, |it| self.patience_for(now, it.patience) - self.counted_silence(&it));
        // Not more often than heartbeats come.
        left.max(self.detection.hearing().every).min(poll)
    }

    /// The backup has been silent for long, or the clock has jumped: it has until the second look to poll. Whoever lives has longer.
    fn doubt_backup(&mut self, now: Time, partner: Partner, evidence: Option<Evidence>) -> Decision {
        let node = self.node_of(partner.link).unwrap_or(NodeId(0));
        let lives = self.is_alive(now, node, evidence) == Some(true) && now < partner.heard + DEAF_MAX;
        if partner.doubted && !lives {
            return Decision::DropBackup(partner.link, Loneliness::Silent);
        }
        let look_at = now + self.detection.poll * 2;
        if let Some(partner) = self.backup_mut() {
            (partner.doubted, partner.look_at) = (!lives, look_at);
        }
        Decision::Stay
    }

    /// Nobody has come to reign. A successor has until the second look: its word may be here and not read yet.
    fn lose_patience(&mut self, now: Time) -> Decision {
        if !self.remembers {
            return Decision::Promote(PromotionCause::Alone);
        }
        if std::mem::replace(&mut self.successor_doubted, true) {
            return Decision::Promote(PromotionCause::TakenBack);
        }
        let since = now - self.patience() + self.detection.poll;
        self.role = Role::Seeking { since };
        Decision::Stay
    }

    fn wants_dial(&self) -> bool {
        let has_lost_primary = matches!(self.role, Role::Backup { primary: None, .. });
        self.has_peer && !self.dialing && (self.news.is_empty() || has_lost_primary)
    }

    /// How long a backup that lost the connection to its primary tries to reach it, and how long whoever handed over waits to
    /// hear of its successor.
    fn verdict_within(&self) -> Span {
        self.detection.connect + self.detection.poll * u64::from(self.detection.misses)
    }

    fn patience(&self) -> Span {
        match (self.has_peer, self.prefers_to_reign) {
            // Its successor's host may have died without a word, and publishers wait.
            _ if self.knows_most() => self.verdict_within(),
            (false, _) => Span::ZERO,
            (true, true) if !self.doubts && !self.knows_less() => self.detection.seek_preferred,
            (true, true) => self.detection.seek_preferred.max(self.detection.seek_other),
            (true, false) => self.detection.seek_other,
        }
    }

    /// Whether this broker and a partner that is there each remember something that the other does not.
    pub(crate) fn is_apart(&self) -> bool {
        self.news.iter().any(|news| news.copies.apart)
    }

    /// Whether a partner that is there remembers more.
    fn knows_less(&self) -> bool {
        self.news.iter().any(|news| news.copies.rank == Ordering::Less)
    }

    fn silence(&self) -> Span {
        self.detection.poll * u64::from(self.detection.misses + SILENT_POLLS)
    }
}
