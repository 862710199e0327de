//! What two keepers of a site tell each other: who stands by knows what has been handed on, and goes on with it.

use super::{Asking, DOUBTING, GREETING, Hands, Numbered, Place, UNTOLD_MAX, Unsettled};
use crate::words::{LOGS_MAX, STREAMS_MAX};
use crate::{Progress, StreamName, Told};
use contract::{Mutant, Span, Time};

/// Ranges that are told of a stream: the highest.
const RANGES_TOLD: usize = 64;

impl Asking {
    /// The other keeper of the site says something.
    pub fn hear_progress(&mut self, now: Time, progress: Progress, hands: &mut impl Hands) {
        let steady = self.clock.look(now);
        let (site, streams, places, all) = match progress {
            Progress::Hello => {
                if self.acts.is_some() {
                    self.tell_everything(hands);
                }
                return;
            }
            Progress::Doubts(left) => {
                self.lately.clear();
                self.clock.doubt(left);
                return;
            }
            Progress::HandsOn { origin, journal } => {
                let hears = self.acts.is_none() && !origin.is_empty() && !Mutant::AnyLogFirst.is_on();
                if let Some(origin) = self.origin(&origin).filter(|_| hears) {
                    let (until, told) = (steady, None);
                    origin.unsettled = Some(Unsettled { journal, until, told, inherited: true, tries: 0 });
                }
                return;
            }
            Progress::Had { origin, streams, places, all } => (origin, streams, places, all),
        };
        self.informed |= all;
        self.fresh &= !all;
        if site.is_empty() {
            return;
        }
        let Some(origin) = self.origin(&site) else { return };
        for Told { stream, had, numbered } in streams {
            let StreamName { topic, publisher, life } = stream;
            for range in had {
                origin.seen.insert(steady, (&topic, &publisher, life), range);
            }
            if numbered.0 > 0 && numbered.0 < u64::MAX && numbered.1 < u64::MAX && !Mutant::NumberAnew.is_on()
            {
                let none = Numbered { life: 0, next: 0, at: steady, is_over: false };
                let known = origin.numbered.entry((topic, publisher)).or_insert(none);
                let (life, next) = (known.life, known.next).max(numbered);
                *known = Numbered { life, next, at: steady, is_over: false };
            }
        }
        for (journal, log, position) in places {
            origin.move_place(journal, &log, position);
            hands.remember(&Place { origin: &site, journal, log: &log, position });
        }
    }

    /// Tells what has left by now.
    pub(super) fn tell_what_left(&mut self, now: Span, hands: &mut impl Hands) {
        while let Some((_, told)) = self.telling.pop_front_if(|(at, _)| *at <= now) {
            if let Progress::Had { origin, places, .. } = &told {
                for (journal, log, position) in places {
                    hands.remember(&Place { origin, journal: *journal, log, position: *position });
                }
            }
            self.untold.push_back(told);
        }
        // In its order, also where some of it could not be told at once.
        while self.untold.front().is_some_and(|told| hands.tell(told)) {
            self.untold.pop_front();
        }
        if self.untold.len() > UNTOLD_MAX {
            self.untold.clear();
        }
    }

    /// Who has just begun to stand by knows nothing of what has come before.
    pub(super) fn greet(&mut self, now: Span, hands: &mut impl Hands) {
        if !self.informed && self.greeted.is_none_or(|at| now - at >= GREETING) {
            self.greeted = hands.tell(&Progress::Hello).then_some(now);
        }
    }

    /// Tells the other keeper all that is known.
    fn tell_everything(&self, hands: &mut impl Hands) {
        let mut left = true;
        let doubts = self.clock.doubts_until - self.clock.now;
        // What came live a moment ago the other one has not counted yet.
        if doubts + DOUBTING[0] > Span::ZERO && !Mutant::TellNoDoubts.is_on() {
            left &= hands.tell(&Progress::Doubts(doubts.max(Span::ZERO)));
        }
        for (site, origin) in &self.origins {
            let had = |origin: &str, streams, places| Progress::Had {
                origin: origin.into(),
                streams,
                places,
                all: false,
            };
            let mut streams = Vec::new();
            for (stream, ranges) in origin.seen.iter() {
                let numbered = origin.numbered.get(&(stream.topic.clone(), stream.publisher.clone()));
                let numbered = numbered.map_or((0, 0), |numbered| (numbered.life, numbered.next));
                let had_of = ranges.iter().skip(ranges.len().saturating_sub(RANGES_TOLD)).collect();
                streams.push(Told { stream, had: had_of, numbered });
                if streams.len() >= STREAMS_MAX / 4 {
                    left &= hands.tell(&had(site, std::mem::take(&mut streams), Vec::new()));
                }
            }
            left &= hands.tell(&had(site, streams, Vec::new()));
            if let Some(Unsettled { journal, .. }) = &origin.unsettled {
                left &= hands.tell(&Progress::HandsOn { origin: site.clone(), journal: *journal });
            }
            let mut places: Vec<_> =
                origin.places.iter().map(|((journal, log), at)| (*journal, log.clone(), *at)).collect();
            // Of a log without a place what has come since it was heard of counts, for whoever begins later too.
            if self.settings.history == Span::ZERO {
                let met = origin.met.iter();
                places.extend(met.map(|((journal, log), met)| (*journal, log.clone(), met.position)));
            }
            for some in places.chunks(LOGS_MAX) {
                left &= hands.tell(&had(site, Vec::new(), some.to_vec()));
            }
        }
        // What came a moment ago the other one has not seen.
        for site in self.origins.keys() {
            let of = self.lately.iter().filter(|(_, from, ..)| from == site);
            let had = of.map(|(.., stream, seq)| Told {
                stream: stream.clone(),
                had: vec![(*seq, *seq)],
                numbered: (0, 0),
            });
            for streams in had.collect::<Vec<_>>().chunks(STREAMS_MAX / 4) {
                let (origin, streams) = (site.clone(), streams.to_vec());
                left &= hands.tell(&Progress::Had { origin, streams, places: Vec::new(), all: false });
            }
        }
        let (origin, streams, places) = (Box::from(""), Vec::new(), Vec::new());
        // Where something could not be said, the other one asks again.
        if left {
            hands.tell(&Progress::Had { origin, streams, places, all: true });
        }
    }
}
