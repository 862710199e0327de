//! What the asking side does: questions leave, what was missed is published here, places are remembered.

use super::keeping::Keeping;
use super::talking::{PROGRESS, Talking, ask_for};
use super::{BACKLOG, Side};
use crate::uplink::ends::{Heard, Through};
use backlog::{Ask, Handed, HandedOn, Hands, Place, Progress};
use contract::{Contract, Crossing, Span, Time};
use endpoint::{Carried, Endpoint, Passed, PublishError};
use journal::{Files, Journal};
use std::collections::BTreeMap;
use wire::{Effects, MessageFlags};

/// Streams of what was missed that may be published at once. Where there is one more, that of which nothing has come for longest ends.
const STREAMS_MAX: usize = 4_096;
/// What was missed of a stream has come to its end when nothing more has come for so long.
const IDLE: Span = Span::secs(60);
/// Bytes of what was missed that may wait for the site's broker: so live messages are not held up behind it.
const WAITING_MAX: usize = 256 << 10;

/// What was missed, as it is published here.
#[derive(Default)]
pub(super) struct HandingOn {
    /// By topic and publisher.
    streams: BTreeMap<(Box<str>, String), Stream>,
}

struct Stream {
    publication: u32,
    life: u64,
    used: Time,
}

impl HandingOn {
    /// The clock has been set.
    pub(super) fn handle_clock_step(&mut self, by: Span) {
        self.streams.values_mut().for_each(|stream| stream.used = stream.used.moved(by));
    }

    /// Streams of which nothing has come for a while end.
    pub(super) fn withdraw_idle<N: Effects>(&mut self, now: Time, tap: &mut Endpoint, net: &mut N) {
        let mut heard = Heard::default();
        let mut out = Through { net, dials: Side::Tap.dials(), heard: &mut heard };
        self.streams.retain(|_, stream| {
            stream.used = stream.used.min(now);
            let stays = now.since(stream.used) < IDLE;
            if !stays {
                tap.withdraw(stream.publication, &mut out);
            }
            stays
        });
    }
}

/// The asking side's hands.
pub(super) struct Doing<'a, F: Files, N> {
    pub(super) now: Time,
    pub(super) journal: &'a mut Journal<F>,
    pub(super) keeping: &'a mut Keeping,
    pub(super) tap: &'a mut Endpoint,
    pub(super) talking: &'a mut Talking,
    pub(super) handing: &'a mut HandingOn,
    pub(super) net: &'a mut N,
    pub(super) heard: &'a mut Heard,
}

impl<F: Files, N: Effects> Doing<'_, F, N> {
    /// The publication by which a message goes on.
    fn publication(&mut self, message: &HandedOn<'_>) -> Option<u32> {
        let HandedOn { origin, item, life, seq, .. } = *message;
        let key = (Box::from(item.topic), format!("{}@{origin}", item.publisher));
        let mut out = Through { net: &mut *self.net, dials: Side::Tap.dials(), heard: &mut *self.heard };
        if let Some(known) = self.handing.streams.get_mut(&key) {
            if known.life == life {
                known.used = self.now;
                return Some(known.publication);
            }
            self.tap.withdraw(known.publication, &mut out);
            self.handing.streams.remove(&key);
        }
        if self.handing.streams.len() >= STREAMS_MAX {
            let oldest = self.handing.streams.iter().min_by_key(|(_, stream)| stream.used);
            let oldest = oldest.map(|(key, _)| key.clone());
            if let Some(ended) = oldest.and_then(|oldest| self.handing.streams.remove(&oldest)) {
                self.tap.withdraw(ended.publication, &mut out);
            }
        }
        let topic = format!("{BACKLOG}{}", item.topic);
        let carried = Carried {
            topic: &topic,
            publisher: &key.1,
            origin,
            incarnation: life,
            first_seq: seq,
            contract: Contract::unstated(),
            retain: 0,
            crossing: Crossing::default(),
        };
        let publication = self.tap.carry(&carried, &mut out).ok()?;
        self.handing.streams.insert(key, Stream { publication, life, used: self.now });
        Some(publication)
    }
}

impl<F: Files, N: Effects> Hands for Doing<'_, F, N> {
    fn ask(&mut self, origin: &str, ask: &Ask) {
        self.talking.say(self.now, &ask_for(origin), &ask.encode(), self.net);
    }

    fn hand_on(&mut self, message: &HandedOn<'_>) -> Handed {
        let Some(link) = self.tap.connection() else { return Handed::NoRoom };
        if self.net.backlog(link) > WAITING_MAX {
            return Handed::NoRoom;
        }
        let Some(publication) = self.publication(message) else { return Handed::Never };
        let HandedOn { seq, created, item, .. } = *message;
        let mut out = Through { net: &mut *self.net, dials: Side::Tap.dials(), heard: &mut *self.heard };
        // What is retained stays at its site, whatever another one says.
        let truths = MessageFlags(item.flags).only(MessageFlags::TRUTHS).without(MessageFlags::RETAIN);
        let passed = Passed { seq, created, truths, payload: item.payload };
        match self.tap.publish_as(publication, &passed, &mut out) {
            Ok(()) => Handed::On,
            Err(PublishError::Overloaded) => Handed::NoRoom,
            Err(_) => Handed::Never,
        }
    }

    fn remember(&mut self, place: &Place<'_>) {
        // Where there is no room for it, it is only forgotten at a restart.
        let _ = self.keeping.remember(self.journal, place);
    }

    fn tell(&mut self, progress: &Progress) -> bool {
        self.talking.say_now(self.now, PROGRESS, &progress.encode(), self.net)
    }
}
