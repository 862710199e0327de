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
//! Left to others: carrying decisions out ([`crate::reign`]), and bringing a backup up to date ([`crate::standby`]).
//! Suspicion counts unanswered polls, not elapsed time, so a jump of the clock or a pause of this process alone causes
//! none. Only whoever has handed over counts time, since its successor does not answer polls yet; it looks twice.

use crate::events::{Loneliness, PromotionCause};
use crate::settings::Detection;
use contract::{Mutant, NodeId, Reign, Span, Time};
use std::cmp::Ordering;
use wire::{Knowledge, LinkId, Standing};

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
    pub(crate) next_stream: u32,
    /// The same for what is remembered of other protocols.
    pub(crate) next_record: Option<u64>,
    /// Whether it has been told everything that there was.
    pub(crate) told: bool,
    /// Whether it has said that it knows everything.
    pub(crate) stands_by: bool,
    /// When it last polled.
    pub(crate) heard: Time,
    /// It has been found silent once since.
    pub(crate) doubted: bool,
    /// It keeps what it remembers, since that is more than we do, and is to reign when it knows the rest.
    pub(crate) knows_more: bool,
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
    /// Neither remembers anything.
    #[cfg(test)]
    pub(crate) const NONE: Copies = Copies {
        rank: Ordering::Equal,
        apart: false,
        keeps: false,
        ours: 0,
        theirs: 0,
        surplus: 0,
        overtaken: true,
    };

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
    dialing: bool,
    dial_at: Time,
    poll: Polling,
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
            dialing: false,
            dial_at: now,
            poll: Polling { next_at: Time::NEVER, number: 0, answered: true, doubted: false, misses: 0 },
        }
    }

    /// What this broker remembers may be old.
    pub(crate) fn doubt(&mut self) {
        self.doubts = true;
    }

    pub(crate) fn standing(&self) -> Standing {
        match self.role {
            // A partner that has lost its memory must not go first.
            Role::Seeking { .. } if self.remembers => Standing::Backup,
            Role::Seeking { .. } => Standing::Seeking,
            Role::Primary { .. } => Standing::Primary,
            Role::Backup { .. } => Standing::Backup,
        }
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
        self.news.retain(|known| known.link != news.link);
        self.news.push(news);
        match (self.role, news.standing) {
            (Role::Primary { .. }, Standing::Primary) if news.reign > self.reign => {
                Decision::StepDown(Some(news.link))
            }
            (Role::Primary { .. }, Standing::Primary) => Decision::Stay,
            (Role::Primary { .. }, _) if news.reign > self.reign => {
                self.reign.epoch = news.reign.epoch;
                Decision::Promote(PromotionCause::Raised)
            }
            (Role::Primary { .. }, _) => Decision::Stay,
            (_, Standing::Primary) => self.follow(news),
            (Role::Seeking { .. }, Standing::Seeking) => self.go_first(news),
            (Role::Backup { primary: Some(link), .. }, Standing::Seeking)
                if link != news.link && self.node_of(link) == Some(news.node) =>
            {
                // An older greeting of our primary, overtaken on another link.
                Decision::Stay
            }
            (Role::Backup { synced, .. }, Standing::Seeking) if synced || self.remembers => {
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
            let wait = if self.remembers { Span::ZERO } else { self.detection.retry };
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
                self.tick(now, false)
            }
            _ => Decision::Stay,
        }
    }

    /// The partner cannot be connected to. `refused`: its host answers, and nobody listens there.
    pub(crate) fn on_dial_failed(&mut self, now: Time, refused: bool, clients_follow: bool) -> Decision {
        self.dialing = false;
        self.dial_at = now + self.detection.retry;
        match self.role {
            Role::Backup { primary: None, synced, .. } => self.take_over(synced),
            Role::Seeking { .. }
                if refused
                    && (self.remembers || self.prefers_to_reign && !self.doubts && !clients_follow)
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
        if self.remembers || matches!(self.role, Role::Backup { primary: None, .. }) {
            self.dial_at = now;
            return self.tick(now, false);
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
        if let Some(partner) = self.backup_mut().filter(|partner| partner.link == link) {
            (partner.heard, partner.doubted) = (now, false);
        }
    }

    /// Looks at the clock. Call it again while it decides something else than to stay.
    pub(crate) fn tick(&mut self, now: Time, clients_follow: bool) -> Decision {
        // A clock that went back must not leave us waiting for a time that is far away.
        let verdict_within = self.verdict_within();
        let soon = |at: Time, within: Span| if at == Time::NEVER { at } else { at.min(now + within) };
        self.poll.next_at = soon(self.poll.next_at, self.detection.poll);
        self.dial_at = soon(self.dial_at, self.detection.retry);
        if let Some(partner) = self.backup_mut() {
            partner.heard = partner.heard.min(now);
        }
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
                self.poll_primary(now, link, synced)
            }
            Role::Backup { primary: None, synced, verdict_by } if now >= verdict_by => self.take_over(synced),
            Role::Seeking { since } if now >= since + self.patience() => self.lose_patience(now),
            Role::Primary { backup: Some(partner) } if now > partner.heard + self.silence() => {
                self.doubt_backup(now, partner)
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
            Role::Primary { backup: Some(partner) } => partner.heard + self.silence() + Span(1),
            Role::Primary { backup: None } => Time::NEVER,
        };
        if self.wants_dial() { role.min(self.dial_at) } else { role }
    }

    /// Takes the next epoch.
    pub(crate) fn promote(&mut self) -> Reign {
        self.remembers = false;
        let epoch = if Mutant::KeepEpoch.is_on() { self.reign.epoch } else { self.reign.epoch.next() };
        self.reign = Reign { epoch, node: self.node };
        let backup = self.backup();
        self.role = Role::Primary { backup };
        self.poll.next_at = Time::NEVER;
        self.reign
    }

    /// Stands by on a link; everything has to be learnt from there.
    pub(crate) fn join(&mut self, now: Time, link: LinkId) {
        if let Some(news) = self.news_of(link) {
            self.reign = self.reign.max(news.reign);
        }
        self.role = Role::Backup { primary: Some(link), synced: false, verdict_by: Time::NEVER };
        self.poll =
            Polling { next_at: now, number: self.poll.number, answered: true, doubted: false, misses: 0 };
    }

    /// The primary says that we have been told everything.
    pub(crate) fn on_synced(&mut self, link: LinkId) -> bool {
        match &mut self.role {
            Role::Backup { primary, synced, .. } if *primary == Some(link) => {
                *synced = true;
                self.remembers = false;
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
        match &mut self.role {
            Role::Primary { backup } => {
                let (told, stands_by, doubted) = (false, false, false);
                *backup = Some(Partner {
                    link,
                    next_stream: 0,
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
        if let Some(partner) = self.backup_mut() {
            partner.heard = now;
        }
    }

    /// What the broker on a link last said.
    pub(crate) fn news_of(&self, link: LinkId) -> Option<News> {
        self.news.iter().find(|news| news.link == link).copied()
    }

    fn node_of(&self, link: LinkId) -> Option<NodeId> {
        self.news_of(link).map(|news| news.node)
    }

    fn follow(&mut self, news: News) -> Decision {
        let joined = self.primary_link();
        if news.reign.epoch < self.reign.epoch || joined == Some(news.link) {
            // Either a reign that has ended and will hear so from our greeting, or nothing new.
            if joined == Some(news.link) {
                self.reign = self.reign.max(news.reign);
            }
            return Decision::Stay;
        }
        if joined.is_some() && joined.and_then(|link| self.node_of(link)) == Some(news.node) {
            return Decision::Stay;
        }
        Decision::Join(news.link)
    }

    /// The primary is out of reach: a backup that knows enough takes its place.
    fn take_over(&self, synced: bool) -> Decision {
        if synced || self.remembers {
            Decision::Promote(PromotionCause::Disconnected)
        } else {
            Decision::Seek
        }
    }

    fn go_first(&mut self, news: News) -> Decision {
        let rank = (news.copies.rank, self.prefers_to_reign, self.node);
        if self.remembers || rank > (Ordering::Equal, news.prefers_to_reign, news.node) {
            self.reign = self.reign.max(news.reign);
            let cause = if self.remembers { PromotionCause::Restarted } else { PromotionCause::First };
            Decision::Promote(cause)
        } else {
            Decision::Stay
        }
    }

    fn poll_primary(&mut self, now: Time, link: LinkId, synced: bool) -> Decision {
        if !self.poll.answered && !std::mem::replace(&mut self.poll.doubted, true) {
            // The answer may be here and not read yet. The driver reads what is there before it asks again.
            return Decision::Stay;
        }
        self.poll.doubted = false;
        if !self.poll.answered {
            self.poll.misses += 1;
            let tolerated =
                if Mutant::SuspectLate.is_on() { self.detection.misses * 8 } else { self.detection.misses };
            if self.poll.misses >= tolerated {
                return if synced {
                    Decision::Promote(PromotionCause::Silent)
                } else {
                    Decision::DropPrimary(link)
                };
            }
        }
        self.poll.answered = false;
        self.poll.number += 1;
        self.poll.next_at = now + self.detection.poll;
        Decision::Poll(link, self.poll.number)
    }

    /// The backup has been silent for long, or the clock has jumped: it has until the second look to poll.
    fn doubt_backup(&mut self, now: Time, partner: Partner) -> Decision {
        if partner.doubted {
            return Decision::DropBackup(partner.link, Loneliness::Silent);
        }
        let heard = now - self.silence() + self.detection.poll * 2;
        if let Some(partner) = self.backup_mut() {
            (partner.doubted, partner.heard) = (true, heard);
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
            _ if self.remembers => self.verdict_within(),
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
