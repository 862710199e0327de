//! One pass over a part of a log elsewhere: a list of what is there, then what is missing of it.

use super::{
    EVERY, Handed, HandedOn, Hands, LEAVING, LISTENING, Met, Numbered, Origin, SILENCE, Source, Unsettled,
    leaving,
};
use crate::ranges::Ranges;
use crate::words::{LOGS_MAX, RANGES_MAX};
use crate::{Ask, Beat, From, Item, Items, Listed, LogEnd, Progress, StreamName, Told, Want};
use contract::{Mutant, Span, Time, TopicFilter};
use std::collections::BTreeMap;

/// What is being asked for.
#[derive(Clone, Debug)]
pub(super) struct Pass {
    number: u64,
    journal: u64,
    log: Box<str>,
    stage: Stage,
    /// When something of it was heard last, or it was asked.
    heard: Span,
    /// How often it was asked without an answer.
    tries: u32,
    /// A place that moved and has not been told.
    moved: Option<u64>,
    /// The log's end as it was asked for.
    end: u64,
    /// How far other journals had come in the same log.
    others: Vec<(u64, u64)>,
    /// More is missing than was asked for: the place stays.
    is_partial: bool,
    /// Somebody has gone since it began, and what is missing is judged without him: the place stays as well.
    narrowed: bool,
}

#[derive(Clone, Debug)]
enum Stage {
    List,
    Give { after: u64, up_to: u64, missing: BTreeMap<StreamName, Ranges>, index: u64 },
    Ended,
}

/// A log elsewhere, and how far it has been gone over.
struct Log<'a> {
    journal: u64,
    source: &'a Source,
    log: &'a str,
    end: u64,
    place: Option<u64>,
}

/// Places in logs of a site.
const PLACES_MAX: usize = 8 * LOGS_MAX;
/// So many bits of a position count since the journal was opened.
const OPENING_BITS: u32 = 40;
const OPENING: u64 = (1 << OPENING_BITS) - 1;
/// A list comes within this time, and so does the next part of an answer; otherwise it is asked again.
const PATIENCE: Span = Span::secs(6);
/// So often, before another log has its turn.
const TRIES: u32 = 3;
/// So often before another journal has its turn, where who died has handed on from this one.
const INSISTING_MAX: u32 = 10;
/// So often in a row a place stays since somebody has gone.
const STAYING_MAX: u32 = 3;

/// What is wanted of every site.
pub(super) struct Wish<'a> {
    pub(super) filters: &'a [Box<str>],
    /// Of a log that is met for the first time.
    pub(super) history: Span,
    /// Bytes in a second that a site may send; zero: as many as it does.
    pub(super) rate: u64,
}

/// How messages come.
pub(super) struct Arrival<'a> {
    pub(super) now: Time,
    pub(super) steady: Span,
    /// The clock here is ahead by so much, and by the time under way.
    pub(super) shift: Span,
    /// What is wanted now.
    pub(super) wanted: &'a [TopicFilter],
}

fn is_wanted(wanted: &[TopicFilter], topic: &str) -> bool {
    wanted.iter().any(|filter| filter.matches(topic))
}

impl Origin {
    /// Who wanted something has gone, and is back soon, it may be: what is under way passes over nothing.
    pub(super) fn want_less(&mut self) {
        // One who comes and goes all the time does not hold up the others.
        let stays = self.stayed < STAYING_MAX;
        self.pass.iter_mut().for_each(|pass| pass.narrowed |= stays);
    }

    /// Nobody wants anything: what is under way is asked for again when somebody does.
    pub(super) fn want_nothing(&mut self) {
        self.pass = None;
    }

    /// Who acts is another one.
    pub(super) fn begin_anew(&mut self, acts: bool) {
        self.pass = None;
        let Some(unsettled) = self.unsettled.as_mut().filter(|unsettled| acts && unsettled.inherited) else {
            return;
        };
        unsettled.tries = 0;
        if let Some(source) = self.sources.get_mut(&unsettled.journal) {
            (source.had, source.given_up) = Default::default();
        }
    }

    /// Whether a log of this journal is asked once more at once: numbers hang on it.
    fn insists(&mut self, journal: u64) -> bool {
        let is_that = |it: &&mut Unsettled| it.journal == journal && it.inherited;
        self.unsettled.as_mut().filter(is_that).is_some_and(|it| {
            it.tries += 1;
            it.tries < INSISTING_MAX
        })
    }

    /// Logs are heard of: of one that has no place everything that follows counts, also where it cannot be asked for a long time.
    pub(super) fn meet(&mut self, now: Span, beat: &Beat) {
        for LogEnd { log, now: position, .. } in beat.logs.iter().take(LOGS_MAX) {
            let key = (beat.journal, log.clone());
            if self.places.contains_key(&key) || self.met.contains_key(&key) {
                continue;
            }
            if self.met.len() >= PLACES_MAX {
                // Those of journals that are not there any more.
                self.met.retain(|(journal, _), _| self.sources.contains_key(journal));
            }
            if self.met.len() < PLACES_MAX {
                self.met.insert(key, Met { at: now, position: *position });
            }
        }
    }

    /// From where on a log without a place is asked for.
    fn begin_where_met(&self, now: Span, journal: u64, log: &str, history: Span) -> From {
        match self.met.get(&(journal, log.into())).filter(|_| !Mutant::MeetLate.is_on()) {
            Some(met) if history == Span::ZERO => From::After(met.position),
            met => From::Younger(history + met.map_or(Span::ZERO, |met| now - met.at)),
        }
    }

    /// A place never goes back.
    pub(super) fn move_place(&mut self, journal: u64, log: &str, position: u64) {
        self.met.remove(&(journal, log.into()));
        let places = self.places.len();
        if let Some(place) = self.places.get_mut(&(journal, log.into())) {
            *place = position.max(*place);
            return;
        }
        if places >= PLACES_MAX {
            // That of a journal which is not there any more.
            let sources = &self.sources;
            let dead = self.places.keys().find(|(journal, _)| !sources.contains_key(journal)).cloned();
            dead.and_then(|dead| self.places.remove(&dead));
        }
        if self.places.len() < PLACES_MAX {
            self.places.insert((journal, log.into()), position);
        }
    }

    /// Journals that are silent are away.
    pub(super) fn leave_silent(&mut self, now: Span) {
        self.sources.retain(|_, source| now - source.heard < SILENCE);
        self.pass = self.pass.take().filter(|pass| self.sources.contains_key(&pass.journal));
    }

    /// Each log, and how far it has been gone over.
    fn logs(&self) -> impl Iterator<Item = Log<'_>> {
        self.sources.iter().flat_map(move |(journal, source)| {
            source.ends.iter().map(move |(log, end)| {
                let place = self.places.get(&(*journal, log.clone())).copied();
                Log { journal: *journal, source, log, end: *end, place }
            })
        })
    }

    /// Messages behind the places, at most: of the journal that has most.
    pub(super) fn left(&self) -> u64 {
        let mut left: BTreeMap<u64, u64> = BTreeMap::new();
        for Log { journal, end, place, .. } in self.logs() {
            let between = place.map_or(0, |place| end.saturating_sub(place));
            // A journal that was opened anew since has begun to count from there on.
            *left.entry(journal).or_default() +=
                if between >> OPENING_BITS == 0 { between } else { end & OPENING };
        }
        left.into_values().max().unwrap_or(0)
    }

    /// Whether everything has been looked at a short while ago.
    pub(super) fn has_all(&self, now: Span) -> bool {
        let lately = |had: &Span| now - *had < EVERY + EVERY;
        let mut logs = self.logs();
        !self.sources.is_empty() && logs.all(|known| known.source.had.get(known.log).is_some_and(lately))
    }

    /// Whether a pass has ended, so that there may be another one.
    pub(super) fn has_ended_pass(&self) -> bool {
        self.pass.as_ref().is_some_and(|pass| matches!(pass.stage, Stage::Ended))
    }

    /// All places at the ends. Returns those that have moved.
    pub(super) fn pass_over(&mut self) -> Vec<(u64, Box<str>, u64)> {
        let moves = self.logs().filter(|known| known.place != Some(known.end));
        let moved: Vec<_> = moves.map(|known| (known.journal, Box::from(known.log), known.end)).collect();
        moved.iter().for_each(|(journal, log, end)| self.move_place(*journal, log, *end));
        moved
    }

    /// Begins a pass where one is due, and asks again where nothing has come.
    pub(super) fn go_on(
        &mut self,
        now: Span,
        number: &mut u64,
        (site, wish): (&str, &Wish<'_>),
        hands: &mut impl Hands,
    ) {
        if let Some(pass) = &mut self.pass {
            if now - pass.heard < PATIENCE && !matches!(pass.stage, Stage::Ended) {
                return;
            }
            pass.tries += 1;
            if matches!(pass.stage, Stage::Give { .. }) && pass.tries <= TRIES {
                *number += 1;
                return self.ask_for_rest(now, *number, (site, wish.rate), hands);
            }
            if !matches!(pass.stage, Stage::Ended) {
                let (journal, log) = (pass.journal, pass.log.clone());
                if !self.insists(journal) {
                    let source = self.sources.get_mut(&journal);
                    source.into_iter().for_each(|source| _ = source.given_up.insert(log.clone(), now));
                }
            }
            self.pass = None;
        }
        let Some(next) = self.next_log(now) else { return };
        let (journal, log, end, place) = next;
        *number += 1;
        let from = place.map_or_else(|| self.begin_where_met(now, journal, &log, wish.history), From::After);
        let want = Want::List { from, up_to: end, filters: wish.filters.to_vec() };
        hands.ask(site, &Ask { number: *number, journal, log: log.clone(), rate: wish.rate, want });
        let others = self.others_of(journal, &log);
        self.pass = Some(Pass {
            number: *number,
            others,
            journal,
            log,
            stage: Stage::List,
            heard: now,
            tries: 0,
            moved: None,
            end,
            is_partial: false,
            narrowed: false,
        });
    }

    /// How far a log is gone over now. What a journal lacks, as it was away itself, comes from one that has kept for longer, and before what this one
    /// has of the time after: so it goes as far as it had come when that one was last gone over.
    fn reach(&self, now: Span, known: &Log<'_>) -> u64 {
        let Log { source, log, end, .. } = *known;
        let answers = |other: &Source| other.given_up.get(log).is_none_or(|at| now - *at >= EVERY);
        let elders = self.sources.iter().filter_map(|(journal, other)| {
            let is_elder = other.began < source.began && answers(other);
            Some((*journal, *other.ends.get(log)?)).filter(|_| is_elder)
        });
        let has_more = |(journal, end): (u64, u64)| {
            self.places.get(&(journal, log.into())).is_none_or(|place| *place < end)
        };
        let mut elders = elders.peekable();
        if elders.peek().is_none() || Mutant::TakeNoTurns.is_on() {
            end
        } else if elders.any(has_more) {
            source.reach.get(log).copied().unwrap_or(0)
        } else {
            source.before.get(log).copied().unwrap_or(0)
        }
    }

    /// How far other journals have come in a log, a beat ago: whatever is told of this one is of no earlier time.
    fn others_of(&self, journal: u64, log: &str) -> Vec<(u64, u64)> {
        let others = self.sources.iter().filter(|(other, _)| **other != journal);
        others.filter_map(|(other, source)| Some((*other, *source.before.get(log)?))).collect()
    }

    /// The log whose turn it is: its journal, its name, its end, and how far it has been gone over.
    fn next_log(&mut self, now: Span) -> Option<(u64, Box<str>, u64, Option<u64>)> {
        let has_more = |known: &Log<'_>| known.place.is_none_or(|place| place < known.end);
        let due = |known: &Log<'_>| {
            let Log { source, log, .. } = *known;
            let lately = |at: &Span| now - *at < EVERY;
            let waits =
                source.had.get(log).is_some_and(lately) || source.given_up.get(log).is_some_and(lately);
            now - source.since >= LISTENING && !waits && has_more(known)
        };
        let before = self.unsettled.as_ref().filter(|it| it.inherited || now < it.until);
        let goes_on = |known: &Log<'_>| before.is_some_and(|it| it.inherited && it.journal == known.journal);
        let is_other = |known: &Log<'_>| before.is_some_and(|it| it.journal != known.journal);
        // Who has kept for longest has most, and gives it in order.
        let first = |known: &Log<'_>| (is_other(known), known.source.began, !known.source.reigns);
        let reach = |known: &Log<'_>| if goes_on(known) { known.end } else { self.reach(now, known) };
        let all = self.logs().filter(due).map(|known| Log { end: reach(&known), ..known });
        let next = all.filter(has_more).min_by_key(first)?;
        let changes = is_other(&next);
        let next = (next.journal, Box::from(next.log), next.end, next.place);
        if let Some(before) = before.filter(|_| changes) {
            let source = self.sources.get(&before.journal);
            let is_new = source.is_some_and(|source| now - source.since < LISTENING);
            if now < before.until || is_new {
                return None;
            }
            let is_gone_over = |known: Log<'_>| {
                known.source.had.contains_key(known.log)
                    || known.place.is_some_and(|place| place >= known.end)
            };
            let of_it = |known: &Log<'_>| known.journal == before.journal;
            let is_settled = source.is_some() && self.logs().filter(of_it).all(is_gone_over);
            if !is_settled {
                // Whoever died has handed on from a journal that gives no answer.
                self.numbered.values_mut().for_each(|numbered| numbered.is_over = true);
            }
            self.unsettled = None;
        }
        Some(next)
    }

    /// A list has come. Returns whether something of it is missing, which is to be asked for.
    pub(super) fn take_list(
        &mut self,
        now: Span,
        number: u64,
        (after, up_to): (u64, u64),
        streams: &Listed,
        wanted: &[TopicFilter],
    ) -> bool {
        let Some(pass) = &mut self.pass else { return false };
        if pass.number != number || !matches!(pass.stage, Stage::List) {
            return false;
        }
        (pass.heard, pass.tries) = (now, 0);
        let (mut missing, mut asked) = (BTreeMap::new(), 0);
        for (name, ranges) in streams {
            if !is_wanted(wanted, &name.topic) || contract::check_name(&name.topic).is_err() {
                continue;
            }
            // What is more than one question may name is listed again when this has come.
            if asked >= RANGES_MAX / 2 {
                pass.is_partial = true;
                break;
            }
            let mut lacking = self.seen.lacking(name, ranges.iter().copied());
            if lacking.len() > RANGES_MAX / 2 {
                lacking.keep_lowest(RANGES_MAX / 2);
                pass.is_partial = true;
            }
            asked += lacking.len();
            if !lacking.is_empty() {
                missing.insert(name.clone(), lacking);
            }
        }
        if missing.is_empty() {
            self.end_pass(now, after, up_to);
            return false;
        }
        pass.stage = Stage::Give { after, up_to, missing, index: 0 };
        true
    }

    /// A pass has come to its end: the place moves.
    fn end_pass(&mut self, now: Span, after: u64, up_to: u64) {
        let Some(pass) = &mut self.pass else { return };
        pass.stage = Stage::Ended;
        self.stayed = if pass.narrowed { self.stayed + 1 } else { 0 };
        if pass.is_partial || pass.narrowed {
            return;
        }
        pass.moved = Some(up_to);
        let (journal, log, end) = (pass.journal, pass.log.clone(), pass.end);
        let others = std::mem::take(&mut pass.others);
        let place = self.places.get(&(journal, log.clone())).copied();
        self.move_place(journal, &log, up_to);
        if let Some(source) = self.sources.get_mut(&journal) {
            // Where nothing moves, there is nothing either.
            let stands = place == Some(up_to) || up_to <= after;
            if stands || up_to >= end {
                source.had.insert(log.clone(), now);
                for (other, end) in others {
                    if let Some(source) = self.sources.get_mut(&other) {
                        source.reach.insert(log.clone(), end);
                    }
                }
            } else {
                source.had.remove(&log);
            }
        }
    }

    /// The place that moved last, if nobody has been told yet: journal, log, position.
    pub(super) fn take_moved(&mut self) -> Option<(u64, Box<str>, u64)> {
        let pass = self.pass.as_mut()?;
        Some((pass.journal, pass.log.clone(), pass.moved.take()?))
    }

    /// Asks for what is still missing.
    pub(super) fn ask_for_rest(
        &mut self,
        now: Span,
        number: u64,
        (site, rate): (&str, u64),
        hands: &mut impl Hands,
    ) {
        let Some(pass) = &mut self.pass else { return };
        let Stage::Give { after, up_to, missing, index } = &mut pass.stage else { return };
        (pass.number, pass.heard, *index) = (number, now, 0);
        let missing = missing.iter().map(|(name, ranges)| (name.clone(), ranges.iter().collect())).collect();
        let want = Want::Give { after: *after, up_to: *up_to, missing };
        hands.ask(site, &Ask { number, journal: pass.journal, log: pass.log.clone(), rate, want });
    }

    /// Messages have come: those that were asked for are handed on. Returns what the other keeper is to be told, and whether the rest is to be asked
    /// for again.
    pub(super) fn take_items(
        &mut self,
        site: &str,
        items: &Items<'_>,
        arrival: &Arrival<'_>,
        hands: &mut impl Hands,
    ) -> (Option<Progress>, bool) {
        let steady = arrival.steady;
        let Some(pass) = &mut self.pass else { return (None, false) };
        // What is asked for is wanted, unless somebody has gone since.
        let asks_who_wants = pass.narrowed;
        let Stage::Give { after, up_to, missing, index } = &mut pass.stage else { return (None, false) };
        if pass.number != items.number || items.index < *index {
            return (None, false);
        }
        if items.index > *index && !Mutant::ForgetGaps.is_on() {
            // A part of the answer was lost. What comes is to be in order.
            return (None, true);
        }
        (pass.heard, pass.tries, *index) = (steady, 0, items.index + 1);
        let (after, up_to, mut left) = (*after, *up_to, std::mem::take(missing));
        let mut told: BTreeMap<StreamName, (Ranges, (u64, u64))> = BTreeMap::new();
        let mut has_room = true;
        for item in items.iter() {
            let name = StreamName::new(item.topic, item.publisher, item.life);
            let is_missing = left.get(&name).is_some_and(|ranges| ranges.has(item.seq));
            // It may have come live meanwhile.
            let has_come = self.seen.has(item.topic, item.publisher, item.life, item.seq);
            if is_missing && asks_who_wants && !is_wanted(arrival.wanted, item.topic) {
                // Also what follows of it, if somebody is back before that comes: it comes in its order when it is asked for again.
                left.remove(&name);
                continue;
            }
            if !is_missing || has_come && !Mutant::HandAgain.is_on() {
                continue;
            }
            let Some(numbered) = self.hand_on(site, &item, arrival, hands) else {
                has_room = false;
                break;
            };
            let (had, numbers) = told.entry(name).or_default();
            had.insert(item.seq, item.seq);
            *numbers = numbered;
        }
        for (name, (had, _)) in &told {
            if let Some(ranges) = left.get_mut(name) {
                *ranges = Ranges::of(ranges.iter().flat_map(|(first, last)| had.lacking(first, last)));
            }
        }
        if has_room && (items.done || Mutant::EndAtFirst.is_on()) {
            let gone = left.iter().map(|(name, ranges)| self.seen.lacking(name, ranges.iter()).numbers());
            self.gone = gone.fold(self.gone, u64::saturating_add);
            self.end_pass(steady, after, up_to);
        } else if let Some(Pass { stage: Stage::Give { missing, index, .. }, .. }) = &mut self.pass {
            *missing = left;
            if !has_room {
                // Nothing more of this answer is taken; it is asked again when the patience with it is over.
                *index = u64::MAX;
            }
        }
        let told = told.into_iter();
        let streams: Vec<Told> = told
            .map(|(stream, (had, numbered))| Told { stream, had: had.iter().collect(), numbered })
            .collect();
        let places: Vec<_> = self.take_moved().into_iter().collect();
        let says = !streams.is_empty() || !places.is_empty();
        (says.then(|| Progress::Had { origin: site.into(), streams, places, all: false }), false)
    }

    /// Something is handed on from the journal of the pass: the other keeper is told, again and again while that goes on.
    fn tell_journal(&mut self, now: Span, site: &str, hands: &mut impl Hands) {
        let Some(Pass { journal, .. }) = self.pass else { return };
        let until = now + leaving();
        let fresh = Unsettled { journal, until, told: None, inherited: false, tries: 0 };
        let known = self.unsettled.take().filter(|known| known.journal == journal);
        let known = self.unsettled.insert(Unsettled { until, ..known.unwrap_or(fresh) });
        if known.told.is_none_or(|told| now - told >= LEAVING)
            && hands.tell(&Progress::HandsOn { origin: site.into(), journal })
        {
            known.told = Some(now);
        }
    }

    /// Hands a message on, or passes it over where that cannot be. Returns how its stream is numbered then, life and next number; `None`: there is
    /// no room now.
    fn hand_on(
        &mut self,
        site: &str,
        item: &Item<'_>,
        &Arrival { now, steady, shift, .. }: &Arrival<'_>,
        hands: &mut impl Hands,
    ) -> Option<(u64, u64)> {
        self.tell_journal(steady, site, hands);
        let none = Numbered { life: 0, next: 0, at: steady, is_over: true };
        let numbered = self.numbered.entry((item.topic.into(), item.publisher.into())).or_insert(none);
        if numbered.is_over {
            // Who goes on has to number in the same life, also what has not left.
            let stream = StreamName::new(item.topic, item.publisher, item.life);
            let life = now.0.max(numbered.life.saturating_add(1));
            if !hands.tell(&begins(site, stream, life)) {
                return None;
            }
            *numbered = Numbered { life, next: 0, at: steady, is_over: false };
        }
        let (created, life, seq) = (item.created + shift, numbered.life, numbered.next);
        let next = match hands.hand_on(&HandedOn { origin: site, item: *item, created, life, seq }) {
            Handed::NoRoom => return None,
            Handed::Never => {
                self.gone = self.gone.saturating_add(1);
                seq
            }
            Handed::On => {
                self.came.messages += 1;
                self.came.bytes += item.payload.len() as u64;
                seq.saturating_add(1)
            }
        };
        (numbered.next, numbered.at) = (next, steady);
        self.seen.insert(steady, (item.topic, item.publisher, item.life), (item.seq, item.seq));
        Some((life, next))
    }
}

/// What is told when what was missed of a stream is numbered for the first time in this life.
fn begins(site: &str, stream: StreamName, life: u64) -> Progress {
    let streams = vec![Told { stream, had: Vec::new(), numbered: (life, 0) }];
    Progress::Had { origin: site.into(), streams, places: Vec::new(), all: false }
}
