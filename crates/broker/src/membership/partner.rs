//! What this broker knows of its link to the partner, and what follows for contracts.
//!
//! Contracts count with a failover time, within which a death is noticed, and with copies that are there in time. Both rest on the link
//! between the brokers. Where heartbeats show that it does not bear them, or copies wait for it again and again, the admin is told with
//! the numbers, and the streams concerned are at risk.
//!
//! How much the link carries is seen only while more waits than it takes: then it is what has left. A topic whose messages would have to be
//! copied is not admitted on top of that.

use crate::membership::Membership;
use crate::outputs::Outputs;
use crate::settings::Settings;
use crate::store::table::{Table, Topic};
use crate::watch::TELL_EVERY;
use crate::watch::events::Event;
use crate::watch::status::Stats;
use contract::{Span, Time};
use wire::{Evidence, LinkId};

/// The link to the partner.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PartnerLink {
    evidence: Option<Evidence>,
    /// When each trouble was last told.
    slow_told: Time,
    lossy_told: Time,
    thin_told: Time,
    far_told: Time,
    /// Takeovers that were wrong, as far as they were told.
    false_told: u64,
    /// A death takes longer to be noticed than contracts count with.
    notices_late: bool,
    copies: Copies,
}

/// What is looked at beside the link itself.
pub(crate) struct Look<'a> {
    pub(crate) now: Time,
    pub(crate) settings: &'a Settings,
    pub(crate) table: &'a Table,
}

/// What copies need of the link, and what it carries.
#[derive(Clone, Copy, Debug, Default)]
struct Copies {
    /// Bytes of copies that were made until the last look, and those that waited then.
    made: u64,
    waiting: u64,
    /// Looks in a row at which more waited than the link took.
    full_looks: u32,
    /// What was made and what left meanwhile, in bytes.
    needed: u64,
    carried: u64,
    /// What that means in a second, and how long what waits will take, while the link is too thin and for a while after that.
    thin: Option<Thin>,
    /// Looks since more waited than the link took.
    easy_looks: u32,
    /// The link of which no more than it carries in a moment waits in the kernel and on the way, and how much that is.
    held_back: Option<(LinkId, usize)>,
}

/// A link that carries less than copies need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thin {
    /// Bytes in a second.
    pub(crate) carries: u64,
    pub(crate) needed: u64,
    /// How long a copy that is made now waits.
    pub(crate) wait: Span,
}

/// A way between the brokers that takes so much longer than planned is no trouble worth a word: a thread may be woken so late.
const FAR_MIN: Span = Span::millis(1);
/// Streams at risk are looked for so often at most.
const LOOK_EVERY: Span = Span::secs(1);
/// Heartbeats before anything is concluded from their losses.
const HEARD_MIN: u64 = 1_000;
/// Of a million; one lost packet in ten thousand is no trouble worth a word.
const LOSS_TOLD_PPM: u32 = 100;
/// Bytes that may wait at a look without a sign of too thin a link.
const WAITING_MAX: u64 = 16 << 10;
/// Looks in a row until a link is found too thin: half a second.
const FULL_LOOKS: u32 = 5;
/// A link that was too thin is taken for thin for so many looks more: nothing waits on it while the partner is away either.
const KEPT_LOOKS: u32 = 300;
/// What may wait behind a broker that cannot be taken back, where the link is thin: as much as it carries in this time. Heartbeats, which
/// go the same way, are late by it.
const THIN_WINDOW: Span = Span::millis(50);
const THIN_WINDOW_BYTES: std::ops::RangeInclusive<u64> = 4 << 10..=64 << 10;
/// Where it is not thin.
const WIDE_WINDOW_BYTES: usize = 4 << 20;
/// Housekeeping looks so often.
const LOOKS_IN_A_SECOND: u64 = 10;
/// The longest wait that is told, in nanoseconds.
const HOUR: u128 = 3_600_000_000_000;
/// What a copy takes besides its payload, about.
const COPY_HEAD_BYTES: u64 = 28;
/// The least time after which Linux sends a segment again, unless the route says otherwise.
const RESEND_AFTER: Span = Span::millis(200);

impl Copies {
    /// So much has been made so far, and so much waits now.
    fn look(&mut self, made: u64, waiting: u64) {
        let newly = made.saturating_sub(self.made);
        let carried = (newly + self.waiting).saturating_sub(waiting);
        let full = self.waiting > WAITING_MAX && waiting > WAITING_MAX;
        (self.made, self.waiting) = (made, waiting);
        if !full {
            self.be_easy();
            return;
        }
        self.easy_looks = 0;
        self.full_looks = self.full_looks.saturating_add(1);
        (self.needed, self.carried) = (self.needed + newly, self.carried + carried);
        if self.full_looks < FULL_LOOKS {
            return;
        }
        let in_a_second = |bytes: u64| bytes * LOOKS_IN_A_SECOND / u64::from(self.full_looks);
        let (needed, carries) = (in_a_second(self.needed), in_a_second(self.carried));
        let wait = Span((u128::from(waiting) * 1_000_000_000 / u128::from(carries.max(1))).min(HOUR) as i64);
        self.thin = Some(Thin { carries, needed, wait });
        if self.full_looks == FULL_LOOKS * 4 {
            // What was long ago counts less.
            (self.full_looks, self.needed, self.carried) =
                (self.full_looks / 2, self.needed / 2, self.carried / 2);
        }
    }

    /// What waits does not wait long. What was found before is remembered for a while.
    fn be_easy(&mut self) {
        (self.full_looks, self.needed, self.carried) = (0, 0, 0);
        self.easy_looks = self.easy_looks.saturating_add(1);
        if self.easy_looks > KEPT_LOOKS {
            self.thin = None;
        }
    }

    fn be_forgotten(&mut self) {
        *self = Copies { made: self.made, held_back: self.held_back, ..Copies::default() };
    }
}

impl PartnerLink {
    pub(crate) fn round_trip(&self) -> Span {
        self.evidence.and_then(|it| it.round_trip).unwrap_or(Span::ZERO)
    }

    pub(crate) fn loss_ppm(&self) -> u32 {
        self.evidence.map_or(0, |it| it.loss_ppm)
    }

    /// What was found in an earlier reign must not refuse those who come back from the last one.
    pub(crate) fn begin_reign(&mut self) {
        self.copies.be_forgotten();
    }

    pub(crate) fn patience(&self) -> Span {
        self.evidence.map_or(Span::ZERO, |it| it.patience)
    }

    /// How long the way to the partner takes, where that is longer than planned. Heartbeats are measured there and back.
    fn far(&self, planned: Span) -> Option<Span> {
        let heard = self.evidence.is_some_and(|it| it.heard >= HEARD_MIN);
        let takes = Span(self.round_trip().0 / 2);
        (heard && takes > planned + FAR_MIN).then_some(takes)
    }

    /// By how much a copy may be late that is lost once, if the link is seen to lose any.
    fn late_by(&self) -> Option<Span> {
        let lossy = |it: &Evidence| it.heard >= HEARD_MIN && it.loss_ppm >= LOSS_TOLD_PPM;
        self.evidence.filter(lossy).map(|_| RESEND_AFTER + self.round_trip())
    }

    /// Whether the partner, or this link to it, does not bear what this topic's contract counts with: a death is noticed too late, copies are
    /// on their way for longer than planned or wait for too long, or one that is lost once comes too late on a link that loses some.
    pub(crate) fn puts_at_risk(&self, topic: &Topic, settings: &Settings) -> bool {
        let counted = topic.strict().loss != contract::Loss::Unbounded && topic.plan.replicate;
        let far = self.far(settings.delays.broker_to_broker);
        if counted && (self.notices_late || far.is_some()) {
            return true;
        }
        let waits = self.copies.thin.map(|thin| thin.wait);
        let late_by = self.late_by().max(waits);
        counted && late_by.is_some_and(|late_by| topic.plan.pseudo.replication < late_by)
    }

    fn streams_at_risk(&self, look: &Look<'_>) -> u64 {
        let topics = look.table.streams().filter_map(|(_, stream)| look.table.topic(stream.topic));
        topics.filter(|topic| self.puts_at_risk(topic, look.settings)).count() as u64
    }
}

impl Membership {
    /// The link to the backup, if it carries less than copies need already.
    pub(crate) fn thin_link(&self) -> Option<Thin> {
        self.partner.copies.thin.filter(|_| self.pair.is_primary())
    }

    /// Looks whether copies leave as fast as they are made.
    fn measure_copies(&mut self, stats: &Stats, out: &impl Outputs) {
        let made = stats.replicated_bytes + stats.replicated * COPY_HEAD_BYTES;
        let told = self.pair.backup().filter(|partner| partner.told);
        let waiting = told.map_or(0, |partner| out.backlog(partner.link) as u64);
        self.partner.copies.look(made, waiting);
    }

    /// Copies for a thin link wait here, where heartbeats get past them, and not in the queue in front of it.
    fn hold_copies_back(&mut self, out: &mut impl Outputs) {
        let window = |thin: Thin| {
            let bytes = thin.carries.saturating_mul(THIN_WINDOW.as_nanos_u64()) / 1_000_000_000;
            bytes.clamp(*THIN_WINDOW_BYTES.start(), *THIN_WINDOW_BYTES.end()) as usize
        };
        let bytes = self.partner.copies.thin.map(window);
        let wanted = self.pair.backup().zip(bytes).map(|(partner, bytes)| (partner.link, bytes));
        let held = std::mem::replace(&mut self.partner.copies.held_back, wanted);
        match (held, wanted) {
            _ if held == wanted => {}
            (_, Some((link, bytes))) => out.hold_back(link, bytes),
            // Once it is gone, its number may be another connection's.
            (Some((link, _)), None) if self.pair.is_backup(link) => out.hold_back(link, WIDE_WINDOW_BYTES),
            (_, None) => {}
        }
    }

    fn tell_thin_link(&mut self, look: &Look<'_>, out: &mut impl Outputs) {
        let Some(Thin { carries, needed, wait }) = self.thin_link() else { return };
        if look.now < self.partner.thin_told + TELL_EVERY {
            return;
        }
        self.partner.thin_told = look.now;
        let streams = self.partner.streams_at_risk(look);
        out.report(&Event::PairLinkThin { carries, needed, wait, streams });
    }

    /// Looks at what heartbeats say, and tells what does not bear the contracts.
    pub(crate) fn look_at_partner(&mut self, look: &Look<'_>, stats: &Stats, out: &mut impl Outputs) {
        self.partner.evidence = out.evidence();
        let PartnerLink { slow_told, lossy_told, thin_told, far_told, .. } = &mut self.partner;
        for told in [slow_told, lossy_told, thin_told, far_told] {
            *told = (*told).min(look.now);
        }
        self.measure_copies(stats, out);
        self.hold_copies_back(out);
        self.tell_thin_link(look, out);
        self.tell_false_takeover(look, out);
        self.tell_slow_detection(look, out);
        self.tell_losses(look, out);
        self.tell_far(look, out);
    }

    fn tell_far(&mut self, look: &Look<'_>, out: &mut impl Outputs) {
        let planned = look.settings.delays.broker_to_broker;
        let Some(takes) = self.partner.far(planned).filter(|_| self.pair.is_primary()) else {
            return;
        };
        if look.now < self.partner.far_told + TELL_EVERY {
            return;
        }
        let streams = self.partner.streams_at_risk(look);
        self.partner.far_told = told_or_looked(look.now, streams);
        if streams > 0 {
            out.report(&Event::PairLinkFar { takes, planned, streams });
        }
    }

    fn tell_false_takeover(&mut self, look: &Look<'_>, out: &mut impl Outputs) {
        let happened = self.pair.caution().false_takeovers;
        if happened > std::mem::replace(&mut self.partner.false_told, happened) {
            out.report(&Event::TookOverFalsely { patience: self.borne(look.now, look.settings) });
        }
    }

    /// How long silence is borne now.
    fn borne(&self, now: Time, settings: &Settings) -> Span {
        let configured = settings.detection.hearing().patience;
        self.pair.patience_for(now, self.partner.patience().max(configured))
    }

    fn tell_slow_detection(&mut self, look: &Look<'_>, out: &mut impl Outputs) {
        let failover = look.settings.delays.failover;
        let Some(evidence) = self.partner.evidence else {
            self.partner.notices_late = false;
            return;
        };
        let takes = self.noticed_within(look.now, look.settings);
        self.partner.notices_late = takes > failover;
        if self.partner.notices_late && look.now >= self.partner.slow_told + TELL_EVERY {
            self.partner.slow_told = look.now;
            let (loss_ppm, round_trip) = (evidence.loss_ppm, self.partner.round_trip());
            out.report(&Event::DetectionSlow { takes, failover, loss_ppm, round_trip });
        }
    }

    /// Whether it may take longer than `network.failover` until the death of the partner is noticed. At the next look that is told, and
    /// contracts are at risk.
    pub(crate) fn notices_late(&self, now: Time, settings: &Settings) -> bool {
        self.partner.evidence.is_some() && self.noticed_within(now, settings) > settings.delays.failover
    }

    fn noticed_within(&self, now: Time, settings: &Settings) -> Span {
        let detection = settings.detection;
        self.borne(now, settings) + detection.poll + detection.connect
    }

    fn tell_losses(&mut self, look: &Look<'_>, out: &mut impl Outputs) {
        let Some(late_by) = self.partner.late_by() else { return };
        if !self.pair.is_primary() || look.now < self.partner.lossy_told + TELL_EVERY {
            return;
        }
        let streams = self.partner.streams_at_risk(look);
        self.partner.lossy_told = told_or_looked(look.now, streams);
        if streams > 0 {
            out.report(&Event::PairLinkLossy { loss_ppm: self.partner.loss_ppm(), late_by, streams });
        }
    }
}

/// When a trouble was told that concerns so many streams: looking at all of them is not for each time.
fn told_or_looked(now: Time, streams: u64) -> Time {
    if streams > 0 { now } else { now - (TELL_EVERY - LOOK_EVERY) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partner_is_far_where_the_way_there_is_longer_than_planned_and_known_well() {
        let link = |heard, millis| {
            let evidence = Evidence {
                node: contract::NodeId(1),
                silence: Span::ZERO,
                unheard: Span::ZERO,
                patience: Span::millis(50),
                still: Span::ZERO,
                heard,
                round_trip: Some(Span::millis(millis)),
                loss_ppm: 0,
            };
            PartnerLink { evidence: Some(evidence), ..PartnerLink::default() }
        };
        let planned = Span::micros(50);
        assert_eq!(link(HEARD_MIN, 20).far(planned), Some(Span::millis(10)));
        assert_eq!(link(HEARD_MIN - 1, 20).far(planned), None, "too little was heard");
        assert_eq!(link(HEARD_MIN, 2).far(planned), None, "a thread may have been woken late");
        assert_eq!(link(HEARD_MIN, 20).far(Span::millis(9)), None, "what is planned and a little");
        assert_eq!(link(HEARD_MIN, 20).far(Span::millis(8)), Some(Span::millis(10)));
        assert_eq!(PartnerLink::default().far(planned), None);
    }

    #[test]
    fn a_link_is_too_thin_only_while_more_waits_than_it_takes_and_its_rate_is_what_leaves() {
        let mut copies = Copies::default();
        // 40 000 bytes are made in each look, and all leave.
        let mut made = 0;
        for _ in 0..50 {
            made += 40_000;
            copies.look(made, 900);
            assert!(copies.thin.is_none());
        }
        // 6 250 leave.
        let mut waiting = 900;
        for look in 0..30 {
            (made, waiting) = (made + 40_000, waiting + 40_000 - 6_250);
            copies.look(made, waiting);
            assert_eq!(copies.thin.is_some(), look > 4, "look {look}");
        }
        let thin = copies.thin.expect("it is too thin");
        assert_eq!((thin.carries, thin.needed), (62_500, 400_000));
        assert_eq!(thin.wait, Span((waiting * 16_000) as i64));
        copies.look(made, 0);
        assert!(copies.thin.is_some(), "the partner may be away");
        (0..KEPT_LOOKS).for_each(|_| copies.look(made, 0));
        assert!(copies.thin.is_none(), "it has caught up");
    }

    #[test]
    fn one_burst_is_no_thin_link() {
        let mut copies = Copies::default();
        for (made, waiting) in
            [(1_000_000, 900_000), (1_000_000, 600_000), (1_000_000, 300_000), (1_000_000, 9_000)]
        {
            copies.look(made, waiting);
            assert!(copies.thin.is_none());
        }
    }
}
