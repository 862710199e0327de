//! Bringing a backup up to date, and what a backup does with copies.
//!
//! The problem: a broker that joins must learn every stream and subscription while the primary goes on serving. The
//! idea: it is told in small portions, between other work, from the first stream to the last; whatever is new
//! meanwhile is told at once. Connections keep order, so when the last portion has arrived, everything has.
//!
//! A stream's messages are copied as soon as the stream has been named, and all that are still undispatched are copied
//! then, so nothing falls between.

use crate::broker::{Broker, Outputs};
use crate::events::Event;
use crate::ring::SlotFlags;
use contract::{Mutant, Time};
use wire::{Frame, LinkId, Marks, MessageFlags, Messages};

/// Streams of which a backup is told at once, however much waits for it.
const STREAMS_TOLD_MIN: u32 = 64;

impl Broker {
    /// A broker wants to stand by for us.
    pub(crate) fn take_backup(&mut self, now: Time, from: LinkId, out: &mut impl Outputs) {
        if !self.pair.accept_backup(now, from) {
            // We do not reign; our greeting or a later word of ours tells it so.
            return;
        }
        if let Some(link) = self.links.get_mut(from) {
            link.announced = Default::default();
        }
        self.forget_lazy_copies(now);
        self.continue_sync(out);
    }

    /// Tells the backup the next portion of what it does not know yet.
    pub(crate) fn continue_sync(&mut self, out: &mut impl Outputs) {
        let Some(partner) = self.pair.backup().filter(|partner| !partner.told) else { return };
        let streams = self.table.streams.len() as u32;
        let mut next = partner.next_stream;
        // What waits may be this turn's own data, turn after turn, so a little is told in any case.
        let least = next.saturating_add(STREAMS_TOLD_MIN);
        let limit = self.settings.limits.sync_backlog_bytes;
        while next < streams && (next < least || out.backlog(partner.link) < limit) {
            self.announce(partner.link, next, out);
            self.copy_again(next);
            next += 1;
        }
        let mut next_record = partner.next_record;
        let mut told_some = false;
        while let Some(from) = next_record.filter(|_| next >= streams) {
            // A piece in any case, as with streams.
            if told_some && out.backlog(partner.link) >= limit {
                break;
            }
            next_record = out.tell(partner.link, from);
            told_some = true;
        }
        let told = next >= streams && next_record.is_none();
        if told {
            for (_, session) in self.sessions.iter() {
                for filter in &session.filters {
                    let (incarnation, client) = (session.incarnation, &*session.client);
                    let filter = filter.as_str();
                    out.send(partner.link, &Frame::Session { incarnation, present: true, client, filter });
                }
            }
            out.send(partner.link, &Frame::Synced);
        }
        if let Some(partner) = self.pair.backup_mut() {
            (partner.next_stream, partner.next_record, partner.told) = (next, next_record, told);
        }
    }

    /// The primary has told us everything.
    pub(crate) fn know_everything(&mut self, from: LinkId, out: &mut impl Outputs) {
        if self.pair.on_synced(from) {
            out.report(&Event::Joined { reign: self.pair.reign });
            out.send(from, &Frame::Standby);
        }
    }

    /// The backup knows everything.
    pub(crate) fn become_protected(&mut self, from: LinkId, out: &mut impl Outputs) {
        let Some(partner) = self.pair.backup_mut().filter(|partner| partner.link == from && partner.told)
        else {
            return;
        };
        if Mutant::IgnoreStandby.is_on() {
            return;
        }
        partner.stands_by = true;
        out.report(&Event::Protected { streams: self.table.len() as u64 });
    }

    /// Copies from the primary, or what it had not dispatched when it handed over.
    pub(crate) fn keep_copies(
        &mut self,
        now: Time,
        from: LinkId,
        messages: Messages<'_>,
        out: &mut impl Outputs,
    ) {
        if self.pair.primary_link() != Some(from) {
            return;
        }
        for message in messages {
            let Some(index) = self.links.get(from).and_then(|link| link.stream(message.stream)) else {
                continue;
            };
            let Some(stream) = self.table.stream_mut(index) else { continue };
            if message.seq == u64::MAX {
                continue;
            }
            let truths = message.flags.only(MessageFlags::TRUTHS);
            if let Some(slot) = stream.ring.find(message.seq).and_then(|ticket| stream.ring.slot_mut(ticket))
            {
                // It came here before, when we reigned or forwarded it. Now it is the primary's, and we keep it for that.
                slot.set(SlotFlags::COPY);
                slot.clear(SlotFlags::OFFERED);
                slot.clear(SlotFlags::FORWARDED);
                continue;
            }
            if !stream.ring.has_room(message.payload.len())
                && let Err(shortage) = self.find_room(now, index, message.payload.len(), out)
            {
                self.lose_for_memory(now, index, shortage, out);
                continue;
            }
            let Some(stream) = self.table.stream_mut(index) else { continue };
            self.stats.copies_kept += 1;
            stream.next_seq = stream.next_seq.max(message.seq.saturating_add(1));
            stream.keep(message.seq, message.created, message.payload, SlotFlags::COPY, truths);
        }
    }

    /// Copies that the primary has dispatched.
    pub(crate) fn prune(&mut self, from: LinkId, marks: Marks<'_>) {
        if self.pair.primary_link() != Some(from) || Mutant::IgnorePrunes.is_on() {
            return;
        }
        for mark in marks {
            let Some(index) = self.links.get(from).and_then(|link| link.stream(mark.stream)) else {
                continue;
            };
            let Some(stream) = self.table.stream_mut(index) else { continue };
            // A prune follows its copy on the same connection. Where there is no copy, there never was, or newer ones have
            // overwritten it.
            let copy = stream.ring.find(mark.seq).and_then(|ticket| stream.ring.slot_mut(ticket));
            match copy {
                Some(copy) => {
                    copy.set(SlotFlags::DISPATCHED);
                    self.stats.pruned += 1;
                }
                None => self.remember_finished(index, mark.seq),
            }
        }
    }
}
