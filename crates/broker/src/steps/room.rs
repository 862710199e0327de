//! Room for messages is found, taken and given back; who gets it is in [`crate::store::memory`].

use crate::outputs::Outputs;
use crate::steps::Steps;
use crate::store::memory::{Need, Shortage};
use crate::store::ring::{Overwritten, Ring, SlotFlags};
use contract::{StreamId, Time, invariant};
use wire::Frame;

impl Steps<'_> {
    /// A stream's contract has become another one; that there is memory for it has been seen to. What is in its ring stays, and so does
    /// what was reserved.
    pub(crate) fn refit(
        &mut self,
        now: Time,
        index: StreamId,
        (before, need): (Need, Need),
        out: &mut impl Outputs,
    ) {
        let Some(stream) = self.flow.store.table.stream_mut(index) else {
            return invariant!("a stream whose contract changes is there");
        };
        let more = need.growth(before, &stream.ring);
        match need.with(&stream.ring) {
            Need::Loose { most, .. } => return stream.ring.allow(most),
            _ if more == 0 => return,
            Need::Reserved { slots, payload } if stream.ring.is_reserved() => {
                stream.ring.raise(payload);
                stream.ring.grow(slots);
                self.flow.store.memory.reserved += more;
            }
            need => {
                let reserved = stream.ring.moved_into(need.ring());
                let loose = std::mem::replace(&mut stream.ring, reserved);
                self.flow.store.memory.give_back(&loose);
                self.flow.store.memory.reserved += more;
            }
        }
        self.squeeze(now, out);
    }

    /// Takes the memory that a stream has to have, and so much for the name of its topic, from best effort where need be. `Err`: why
    /// there is not enough.
    pub(crate) fn take_memory(
        &mut self,
        now: Time,
        (need, name): (Need, usize),
        out: &mut impl Outputs,
    ) -> Result<(), String> {
        let (bound, bytes) = (self.settings.limits.messages(), need.bytes().saturating_add(name));
        match need {
            Need::Reserved { slots, payload } => {
                let left = self.flow.store.memory.left_for_contracts(&bound);
                if bytes > left {
                    let (places, lacking) = (Ring::reserved(slots, 0).slots(), bytes - left);
                    return Err(format!(
                        "the contract needs {bytes} bytes of memory, for {places} messages of up to {payload} bytes, and {left} of those \
                         for contracts are left ({bound}): {lacking} too few. State a smaller size, retain or tolerate less, or raise {}",
                        bound.key
                    ));
                }
                self.flow.store.memory.reserved += need.bytes();
            }
            Need::Loose { .. } => {
                let left = self.flow.store.memory.left_for_streams(&bound);
                if bytes > left {
                    return Err(format!(
                        "a stream without a loss bound needs {bytes} bytes of memory at least, and {left} of those for such streams are \
                         left ({bound}). Publish on fewer topics, or raise {}",
                        bound.key
                    ));
                }
                self.flow.store.memory.fixed += need.bytes();
            }
        }
        self.flow.store.memory.names += name;
        self.squeeze(now, out);
        Ok(())
    }

    /// The ring of a contract takes so many bytes more. `false`: there are not so many.
    pub(crate) fn reserve_more(&mut self, now: Time, bytes: usize, out: &mut impl Outputs) -> bool {
        let has_room = bytes <= self.flow.store.memory.left_for_contracts(&self.settings.limits.messages());
        if has_room {
            self.flow.store.memory.reserved += bytes;
            self.squeeze(now, out);
        }
        has_room
    }

    /// Makes room for the next message of a stream, with a payload of this length.
    #[cold]
    pub(crate) fn find_room(
        &mut self,
        now: Time,
        index: StreamId,
        length: usize,
        out: &mut impl Outputs,
    ) -> Result<(), Shortage> {
        let Some(stream) = self.flow.store.table.stream(index) else {
            return invariant!("a stream that takes a message is there", Ok(()));
        };
        if !stream.ring.is_reserved() && stream.ring.overwrites_unsent() {
            self.flow.store.grow_loose(index, &self.settings.limits.messages());
        }
        let Some(stream) = self.flow.store.table.stream(index) else {
            return invariant!("growing ends no stream", Ok(()));
        };
        if stream.ring.has_room(length) {
            return Ok(());
        }
        if !stream.ring.is_reserved() {
            return self.find_loose_room(now, index, length, out);
        }
        let (reserved, needed) = (stream.ring.payload_max(), stream.ring.raised_bytes(length));
        if needed > 0 && !self.reserve_more(now, needed, out) {
            let bound = self.settings.limits.messages();
            let left = self.flow.store.memory.left_for_contracts(&bound);
            return Err(Shortage::Longer { payload: length, reserved, needed, left, bound });
        }
        let Some(stream) = self.flow.store.table.stream_mut(index) else {
            return invariant!("making room ends no stream", Ok(()));
        };
        stream.ring.raise(length);
        stream.ring.make_room(length);
        Ok(())
    }

    /// The same for a stream of best effort.
    fn find_loose_room(
        &mut self,
        now: Time,
        index: StreamId,
        length: usize,
        out: &mut impl Outputs,
    ) -> Result<(), Shortage> {
        let bound = self.settings.limits.messages();
        let left = self.flow.store.memory.left_for_messages(&bound);
        if length > left {
            return Err(Shortage::TooLong { payload: length, left, bound });
        }
        self.squeeze_to(now, left - length, out);
        let Some(stream) = self.flow.store.table.stream_mut(index) else {
            return invariant!("making room ends no stream", Ok(()));
        };
        let before = stream.ring.loose_bytes();
        let ticket = stream.ring.next_ticket();
        stream.ring.make_room(length);
        self.flow.store.memory.loose = self.flow.store.memory.loose + stream.ring.loose_bytes() - before;
        self.flow.store.memory.order.push_back((index, ticket));
        if self.flow.store.memory.order.len() >= self.flow.store.memory.tidy_at {
            self.flow.store.forget_gone();
        }
        Ok(())
    }

    /// Best effort gives up what contracts have taken over.
    fn squeeze(&mut self, now: Time, out: &mut impl Outputs) {
        let left = self.flow.store.memory.left_for_messages(&self.settings.limits.messages());
        if self.flow.store.memory.loose > left {
            self.squeeze_to(now, left, out);
        }
    }

    /// Best effort gives up its oldest messages until it has no more than so many bytes, and then what its rings have beyond what they
    /// have at least.
    fn squeeze_to(&mut self, now: Time, left: usize, out: &mut impl Outputs) {
        while self.flow.store.memory.loose > left
            && let Some((index, ticket)) = self.flow.store.memory.order.pop_front()
        {
            // Streams end without a word here.
            let Some(stream) = self.flow.store.table.stream_mut(index) else { continue };
            let (freed, old) = stream.ring.evict(ticket);
            self.flow.store.memory.loose -= freed;
            if let Some(old) = old {
                self.write_off_squeezed(now, index, &old, out);
            }
        }
        if self.flow.store.memory.loose > left {
            self.shrink_rings(now, out);
        }
    }

    /// Rings of best effort become as small as they may be.
    fn shrink_rings(&mut self, now: Time, out: &mut impl Outputs) {
        let grown = |ring: &Ring| ring.slots() > ring.bounds().0;
        let rings: Vec<StreamId> = self
            .flow
            .store
            .table
            .streams()
            .filter(|(_, it)| grown(&it.ring))
            .map(|(index, _)| index)
            .collect();
        for index in rings {
            let Some(stream) = self.flow.store.table.stream_mut(index) else {
                invariant!("a stream that was listed is there");
                continue;
            };
            let (least, before) = (stream.ring.bounds().0, stream.ring.loose_bytes());
            let gone: Vec<Overwritten> =
                stream.ring.tickets_beyond(least).filter_map(|ticket| stream.ring.forget(ticket)).collect();
            stream.ring.resize(least);
            self.flow.store.memory.loose = self.flow.store.memory.loose + stream.ring.loose_bytes() - before;
            gone.iter().for_each(|old| self.write_off_squeezed(now, index, old, out));
        }
    }

    /// A message of best effort has gone for want of memory.
    fn write_off_squeezed(&mut self, now: Time, index: StreamId, old: &Overwritten, out: &mut impl Outputs) {
        if let Some(lineage) = old.lineage() {
            out.release(lineage);
        }
        if old.is_copied() {
            self.prune_overwritten(index, old, out);
        }
        if old.was_sent() {
            return;
        }
        if old.flags.has(SlotFlags::ASKED) {
            out.given_up(index, old.seq);
        }
        let bound = self.settings.limits.messages();
        let left = self.flow.store.memory.left_for_messages(&bound);
        self.lose_for_memory(now, index, Shortage::Squeezed { left, bound }, out);
    }

    /// A message that was to be kept is lost for want of memory: it is counted, and its publisher and the admin are told why.
    pub(crate) fn lose_for_memory(
        &mut self,
        now: Time,
        index: StreamId,
        shortage: Shortage,
        out: &mut impl Outputs,
    ) {
        let Some((stream, topic)) = self.flow.store.table.pair_mut(index) else {
            return invariant!("a stream that loses a message is there");
        };
        self.flow.stats.overrun += 1;
        if stream.ring.is_reserved() {
            self.flow.store.memory.unstored += 1;
        } else {
            self.flow.store.memory.squeezed += 1;
        }
        stream.lose_for_memory(now, topic, &mut self.flow.stats, shortage, out);
        if stream.record.source.is_some() {
            if stream.record.untold == 0 {
                self.flow.store.memory.untold.push(index);
            }
            stream.record.untold += 1;
            stream.record.shortage = Some(shortage);
        }
    }

    /// Tells publishers of their messages that were not kept.
    #[inline]
    pub(crate) fn tell_untaken(&mut self, out: &mut impl Outputs) {
        if !self.flow.store.memory.untold.is_empty() {
            self.tell_each_untaken(out);
        }
    }

    #[cold]
    fn tell_each_untaken(&mut self, out: &mut impl Outputs) {
        for index in std::mem::take(&mut self.flow.store.memory.untold) {
            // The stream may have ended since, and its publisher may have gone.
            let Some(stream) = self.flow.store.table.stream_mut(index) else { continue };
            let messages = std::mem::take(&mut stream.record.untold);
            let (source, shortage) = (stream.record.source, stream.record.shortage.take());
            if let Some((link, shortage)) = source.zip(shortage) {
                let stream = stream.record.source_number;
                out.send(link, &Frame::Untaken { stream, messages, text: &shortage.to_string() });
            }
        }
    }
}
