//! Who receives: what is asked for, and when; what has come, and what is handed on.
//!
//! The problem: a message may be missing because the way was cut, because a broker died, because this site was away, or because it was lost alone; and it
//! must come once. The idea: there is one way to find out, which is to compare a list of what stands behind a place with what has come. A place moves over
//! a list when all of it has come, or has been given; so whatever interrupts that, it is asked again from there.
//!
//! Both keepers of a pair hear what comes live. The one whose broker reigns acts, and tells the other what it has handed on (`following.rs`), after a while in which that
//! has surely left: who goes on after a crash hands on the last few again under the same numbers, which whoever has them drops.
//!
//! Invariants: nothing that has come is handed on. A place moves only over what has come, has been handed on, is there no more, or is not wanted here.

mod following;
mod pass;

use crate::seen::Seen;
use crate::words::{FILTERS_BYTES_MAX, FILTERS_MAX, LOGS_MAX};
use crate::{Ask, Beat, Item, Part, Progress, StreamName, Traffic};
use contract::{Mutant, Span, Time, TopicFilter};
use pass::{Arrival, Pass, Wish};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How a site asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AskingSettings {
    /// How much of what was published before is wanted of a log that is met for the first time.
    pub history: Span,
    /// When this process began: questions are numbered from there on.
    pub began: Time,
    /// Bytes in a second that may come of what was missed, from all sites together; zero: as many as they send.
    pub takes: u64,
}

/// A place in a log elsewhere: everything up to it has been handed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place<'a> {
    /// Which site.
    pub origin: &'a str,
    /// Which of its journals.
    pub journal: u64,
    /// Which log.
    pub log: &'a str,
    /// Up to where.
    pub position: u64,
}

/// A message that was missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandedOn<'a> {
    /// Its site.
    pub origin: &'a str,
    /// As it was kept there.
    pub item: Item<'a>,
    /// When it was created, by the clock here.
    pub created: Time,
    /// What was missed is numbered anew, without gaps: in which life.
    pub life: u64,
    /// And its number.
    pub seq: u64,
}

/// What an asking keeper does.
pub trait Hands {
    /// Asks another site.
    fn ask(&mut self, origin: &str, ask: &Ask);
    /// Hands a message on.
    fn hand_on(&mut self, message: &HandedOn<'_>) -> Handed;
    /// A place is to be remembered beyond this process.
    fn remember(&mut self, place: &Place<'_>);
    /// Tells the other keeper of the site. Returns whether that has left.
    fn tell(&mut self, progress: &Progress) -> bool;
}

/// What has become of a message that was to be handed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handed {
    /// It has been.
    On,
    /// There is no room now.
    NoRoom,
    /// It cannot be, now or later: it is passed over.
    Never,
}

/// How it stands with a site.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OriginView {
    /// Its name.
    pub site: Box<str>,
    /// Whether a keeper of it is heard.
    pub heard: bool,
    /// Whether something is being asked for.
    pub asks: bool,
    /// Messages that stand behind the places, at most: what has come live and what nobody wants here is among them.
    pub left: u64,
    /// What was missed, and has been handed on.
    pub came: Traffic,
    /// Messages that were missed, and are there no more.
    pub gone: u64,
    /// Whether everything that there was a moment ago has been looked at.
    pub has_all: bool,
}

/// Sites that are known; of one more nothing is heard.
const ORIGINS_MAX: usize = 64;
/// Journals of a site; of more, those that are silent are forgotten.
const SOURCES_MAX: usize = 8;
/// Who has not been heard for so long is away.
const SILENCE: Span = Span::secs(4);
/// So long is listened before anything is asked: what is under way comes by itself.
const LISTENING: Span = Span::secs(2);
/// So often it is asked whether something was lost alone. A site that begins anew whole has so much come again, since places are as old.
const EVERY: Span = Span::secs(10);
/// So long after somebody has gone nothing new is asked for: mostly he comes back.
const RESTING: Span = Span::secs(10);
/// So long after a rest there is another one.
const RESTING_AGAIN: Span = Span::secs(60);
/// Filters that are remembered to have gone.
const GONE_MAX: usize = 1_024;
/// So long places stay where they are although nobody wants anything: after the beginning, when whoever wants something may take long to begin as well,
/// and after somebody did.
const HOLDING: [Span; 2] = [Span::secs(600), Span::secs(60)];
/// Who has not looked for so long stood still, and with him the site's broker, it may be: its subscribers have gone, and are on their way back.
const STANDSTILL: Span = Span::millis(800);
/// What comes live within this time before a standstill, and after it, may not have come to all of them: it counts as missed.
const DOUBTING: [Span; 2] = [Span::millis(500), Span::secs(3)];
/// Live messages that may wait to be counted as had.
const LATELY_MAX: usize = 65_536;
/// What could not be told to the other keeper and is told later. Of more nothing is: it has none, or asks when it begins.
const UNTOLD_MAX: usize = 4_096;
/// What was handed on has surely left after this time.
const LEAVING: Span = Span::millis(300);
/// What has come of a stream is forgotten after this time, where everything is had.
const FORGETTING: Span = Span::secs(120);
/// How often a keeper that stands by asks what is known.
const GREETING: Span = Span::secs(2);
/// The clock may go on by so much between two looks; what is more is somebody who set it.
const LOOK_MAX: Span = Span::secs(1);

/// A clock that is never set: it goes on while somebody looks.
#[derive(Clone, Copy, Debug)]
struct Steady {
    seen: Time,
    now: Span,
    /// Until when what comes live counts as missed.
    doubts_until: Span,
    /// A standstill has just been noticed.
    stood_still: bool,
}

impl Steady {
    /// What comes live within this time may not have come to everybody.
    fn doubt(&mut self, left: Span) {
        self.doubts_until = self.doubts_until.max(self.now + left.min(DOUBTING[1]));
    }

    fn look(&mut self, now: Time) -> Span {
        let passed = now.since(self.seen);
        (self.seen, self.now) = (now, self.now + passed.clamp(Span::ZERO, LOOK_MAX));
        if passed >= STANDSTILL {
            self.stood_still = true;
            self.doubt(DOUBTING[1]);
        }
        self.now
    }
}

/// The asking side of a keeper.
#[derive(Clone, Debug)]
pub struct Asking {
    settings: AskingSettings,
    clock: Steady,
    /// Whether it acts, since when.
    acts: Option<Span>,
    /// Whether it knows what the other keeper knows.
    informed: bool,
    /// It has just begun, and has never known: what comes live counts for nothing until it is told what the other keeper made of it.
    fresh: bool,
    greeted: Option<Span>,
    number: u64,
    wanted: Vec<TopicFilter>,
    /// Whether it is known what is wanted.
    wants_all: bool,
    /// Filters that are wanted no more since it rests.
    gone: BTreeSet<Box<str>>,
    /// Since when it rests, or did last.
    rested: Option<Span>,
    /// Since when nothing is wanted.
    idle_since: Span,
    origins: BTreeMap<Box<str>, Origin>,
    /// What the other keeper is to be told, and when.
    telling: VecDeque<(Span, Progress)>,
    /// What it should have been told, and could not be yet.
    untold: VecDeque<Progress>,
    /// What has come live a moment ago, of which site.
    lately: VecDeque<(Span, Box<str>, StreamName, u64)>,
    forgot: Span,
}

/// A site of which something is wanted.
#[derive(Clone, Debug, Default)]
struct Origin {
    seen: Seen,
    /// How what was missed is numbered, by topic and publisher.
    numbered: BTreeMap<(Box<str>, Box<str>), Numbered>,
    sources: BTreeMap<u64, Source>,
    places: BTreeMap<(u64, Box<str>), u64>,
    /// Logs that have been heard of and have no place yet.
    met: BTreeMap<(u64, Box<str>), Met>,
    pass: Option<Pass>,
    /// From which journal was handed on last.
    unsettled: Option<Unsettled>,
    /// Passes in a row after which a place stayed, since somebody had gone meanwhile.
    stayed: u32,
    came: Traffic,
    gone: u64,
}

/// When a log was heard of for the first time, and how far it had come.
#[derive(Clone, Copy, Debug)]
struct Met {
    at: Span,
    position: u64,
}

/// How what was missed of a stream is numbered.
#[derive(Clone, Copy, Debug)]
struct Numbered {
    life: u64,
    next: u64,
    /// When there was one.
    at: Span,
    /// Whoever died may have used more of these numbers, for other messages: the next one begins anew.
    is_over: bool,
}

/// The journal from which messages were handed on last. Each journal has its own order, and where the other keeper goes on before it knows which messages
/// those were, the same ones are to have the same numbers. (What a journal has in several logs is in one of them each.)
#[derive(Clone, Debug)]
struct Unsettled {
    journal: u64,
    /// Until when the other keeper may not know.
    until: Span,
    /// When it was told which journal that is.
    told: Option<Span>,
    /// It was the other keeper that handed on, and the journal has not been gone over since.
    inherited: bool,
    /// How often it was asked then without an answer.
    tries: u32,
}

/// A journal of a site.
#[derive(Clone, Debug)]
struct Source {
    heard: Span,
    since: Span,
    reigns: bool,
    /// Since when its keeper has kept without a break.
    began: Time,
    ends: BTreeMap<Box<str>, u64>,
    /// As it had told a beat before.
    before: BTreeMap<Box<str>, u64>,
    /// How far each log may be gone over: as far as it had come when one that has kept for longer was.
    reach: BTreeMap<Box<str>, u64>,
    /// When each log was had up to its end; it is asked at once where that is not so.
    had: BTreeMap<Box<str>, Span>,
    /// When a log was given up, since no answer came.
    given_up: BTreeMap<Box<str>, Span>,
}

impl Asking {
    /// One that knows nothing yet, and stands by.
    pub fn new(settings: AskingSettings, now: Time) -> Asking {
        Asking {
            settings,
            clock: Steady { seen: now, now: Span::ZERO, doubts_until: Span::ZERO, stood_still: false },
            acts: None,
            informed: false,
            fresh: true,
            greeted: None,
            number: settings.began.0,
            wanted: Vec::new(),
            wants_all: false,
            gone: BTreeSet::new(),
            rested: None,
            idle_since: Span::ZERO,
            origins: BTreeMap::new(),
            telling: VecDeque::new(),
            untold: VecDeque::new(),
            lately: VecDeque::new(),
            forgot: Span::ZERO,
        }
    }

    /// A place that was remembered.
    pub fn restore(&mut self, place: &Place<'_>) {
        if let Some(origin) = self.origin(place.origin) {
            origin.move_place(place.journal, place.log, place.position);
        }
    }

    /// How it stands with each site.
    pub fn view(&self) -> Vec<OriginView> {
        let view = |site: &str, origin: &Origin| OriginView {
            site: site.into(),
            heard: !origin.sources.is_empty(),
            asks: origin.pass.is_some(),
            left: origin.left(),
            came: origin.came,
            gone: origin.gone,
            has_all: origin.has_all(self.clock.now),
        };
        self.origins.iter().map(|(site, origin)| view(site, origin)).collect()
    }

    /// Filters that are wanted here.
    pub fn wanted(&self) -> usize {
        self.wanted.len()
    }

    /// Somebody has set the clock: it is `by` further than it would be, or back.
    pub fn handle_clock_step(&mut self, by: Span) {
        self.clock.seen = self.clock.seen.moved(by);
    }

    /// What is wanted here of other sites, and whether that is all.
    pub fn want(&mut self, now: Time, filters: Vec<TopicFilter>, all: bool) {
        let now = self.clock.look(now);
        let texts: BTreeSet<&str> = filters.iter().map(TopicFilter::as_str).collect();
        let ended: Vec<&str> = self.wanted.iter().map(TopicFilter::as_str).collect();
        let ended: Vec<&str> = ended.into_iter().filter(|before| !texts.contains(before)).collect();
        // One who comes and goes all the time does not hold up the others.
        if !ended.is_empty() && self.rested.is_none_or(|at| now - at >= RESTING_AGAIN) {
            (self.rested, self.gone) = (Some(now), BTreeSet::new());
        }
        if !ended.is_empty() && !Mutant::PassOverAway.is_on() {
            let leave = if filters.is_empty() { Origin::want_nothing } else { Origin::want_less };
            self.origins.values_mut().for_each(leave);
        }
        self.gone.extend(ended.into_iter().take(GONE_MAX).map(Box::from));
        self.gone.retain(|gone| !texts.contains(&**gone));
        if !self.wanted.is_empty() || !filters.is_empty() {
            self.idle_since = now;
        }
        (self.wanted, self.wants_all) = (filters, all);
    }

    /// The keeper's broker reigns, so that it acts; or does no longer.
    pub fn act(&mut self, now: Time, acts: bool, hands: &mut impl Hands) {
        let now = self.clock.look(now);
        if acts == self.acts.is_some() {
            return;
        }
        self.acts = acts.then_some(now);
        self.greeted = None;
        self.informed = acts;
        self.fresh &= !acts;
        self.origins.values_mut().for_each(|origin| origin.begin_anew(acts));
        if !acts {
            // The other one goes on at once.
            self.tell_what_left(Span::FOREVER, hands);
        }
    }

    /// A keeper of another site is there.
    pub fn hear_beat(&mut self, now: Time, site: &str, beat: Beat) {
        let now = self.clock.look(now);
        let Some(origin) = self.origin(site) else { return };
        if !origin.sources.contains_key(&beat.journal) && origin.sources.len() >= SOURCES_MAX {
            return;
        }
        let fresh = Source {
            heard: now,
            since: now,
            reigns: false,
            began: beat.began,
            ends: BTreeMap::new(),
            before: BTreeMap::new(),
            reach: BTreeMap::new(),
            had: BTreeMap::new(),
            given_up: BTreeMap::new(),
        };
        origin.meet(now, &beat);
        let source = origin.sources.entry(beat.journal).or_insert(fresh);
        (source.heard, source.reigns, source.began) = (now, beat.reigns, beat.began);
        source.before = std::mem::take(&mut source.ends);
        source.ends = beat.logs.into_iter().take(LOGS_MAX).map(|log| (log.log, log.end)).collect();
        let ends = &source.ends;
        source.had.retain(|log, _| ends.contains_key(log));
        source.given_up.retain(|log, _| ends.contains_key(log));
        source.reach.retain(|log, _| ends.contains_key(log));
    }

    /// A message of another site has come live. `publisher`: as it is called here, with its site.
    pub fn hear_live(
        &mut self,
        now: Time,
        site: &str,
        (topic, publisher, life): (&str, &str, u64),
        seq: u64,
    ) {
        let now = self.clock.look(now);
        if std::mem::take(&mut self.clock.stood_still) {
            self.lately.clear();
        }
        if now < self.clock.doubts_until && !Mutant::TrustLive.is_on() {
            return;
        }
        // It may be the first that is heard of its site: what its keeper says of the same moment comes a little later.
        let own = publisher.strip_suffix(site).and_then(|name| name.strip_suffix('@')).unwrap_or(publisher);
        self.lately.push_back((now, site.into(), StreamName::new(topic, own, life), seq));
        if self.lately.len() > LATELY_MAX {
            self.count_live(now);
        }
    }

    /// What came live a while ago is had, unless this keeper stood still since.
    fn count_live(&mut self, now: Span) {
        if std::mem::take(&mut self.clock.stood_still) {
            self.lately.clear();
        }
        while let Some((at, ..)) = self.lately.front()
            && (self.lately.len() > LATELY_MAX || now - *at >= DOUBTING[0])
            && let Some((_, site, name, seq)) = self.lately.pop_front()
        {
            let Some(origin) = self.origins.get_mut(&site).filter(|_| !self.fresh) else { continue };
            origin.seen.insert(now, (&name.topic, &name.publisher, name.life), (seq, seq));
        }
    }

    /// An answer has come. `created`: when it was sent, by the clock here.
    pub fn hear_part(
        &mut self,
        now: Time,
        site: &str,
        part: &Part<'_>,
        created: Time,
        hands: &mut impl Hands,
    ) {
        let steady = self.clock.look(now);
        if self.acts.is_none() {
            return;
        }
        let rate = self.rate();
        let Some(origin) = self.origins.get_mut(site) else { return };
        match part {
            Part::List { number, after, up_to, streams } => {
                if origin.take_list(steady, *number, (*after, *up_to), streams, &self.wanted) {
                    self.number += 1;
                    origin.ask_for_rest(steady, self.number, (site, rate), hands);
                } else {
                    self.tell_place(steady, site);
                    self.go_on_with(steady, site, hands);
                }
            }
            Part::Items(items) => {
                let arrival = Arrival { now, steady, shift: created.since(items.sent), wanted: &self.wanted };
                let (told, asks_again) = origin.take_items(site, items, &arrival, hands);
                if asks_again {
                    self.number += 1;
                    origin.ask_for_rest(steady, self.number, (site, rate), hands);
                }
                if let Some(told) = told {
                    self.telling.push_back((steady + leaving(), told));
                }
                self.go_on_with(steady, site, hands);
            }
        }
    }

    /// A pass of a site may have come to its end: the next one begins at once.
    fn go_on_with(&mut self, now: Span, site: &str, hands: &mut impl Hands) {
        // Before anything is handed on from another journal.
        self.tell_what_left(now, hands);
        if self.listens(now) || self.wanted.is_empty() {
            return;
        }
        let wish = Wish { filters: &self.filters(), history: self.settings.history, rate: self.rate() };
        if let Some(origin) = self.origins.get_mut(site).filter(|origin| origin.has_ended_pass()) {
            origin.go_on(now, &mut self.number, (site, &wish), hands);
        }
    }

    /// The places of a site have moved.
    fn tell_place(&mut self, now: Span, site: &str) {
        let Some(moved) = self.origins.get_mut(site).and_then(Origin::take_moved) else { return };
        let (origin, streams, places) = (site.into(), Vec::new(), vec![moved]);
        self.telling.push_back((now + leaving(), Progress::Had { origin, streams, places, all: false }));
    }

    /// Does what is due: to be called ten times in a second.
    pub fn tick(&mut self, now: Time, hands: &mut impl Hands) {
        let steady = self.clock.look(now);
        self.count_live(steady);
        for origin in self.origins.values_mut() {
            origin.leave_silent(steady);
        }
        if steady - self.forgot > LISTENING * 5 {
            self.forgot = steady;
            for origin in self.origins.values_mut().filter(|origin| origin.has_all(steady)) {
                origin.seen.forget_idle(steady, FORGETTING);
                origin.numbered.retain(|_, numbered| steady - numbered.at < FORGETTING);
            }
        }
        self.tell_what_left(steady, hands);
        if self.acts.is_none() {
            return self.greet(steady, hands);
        }
        if self.listens(steady) {
            return;
        }
        if self.wanted.is_empty() {
            let holding = HOLDING[usize::from(self.idle_since > Span::ZERO)];
            if steady - self.idle_since > holding || Mutant::RestAtOnce.is_on() {
                self.pass_over_everything(hands);
            }
            return;
        }
        let wish = Wish { filters: &self.filters(), history: self.settings.history, rate: self.rate() };
        for (site, origin) in &mut self.origins {
            origin.go_on(steady, &mut self.number, (site, &wish), hands);
        }
    }

    /// Bytes in a second that each site may send: all of them share what may come. Who sends knows nothing of the link of who receives, and
    /// what is dropped before that would be asked for again without end.
    fn rate(&self) -> u64 {
        match self.settings.takes {
            0 => 0,
            takes => (takes / (self.origins.len() as u64).max(1)).max(1),
        }
    }

    /// Whether nothing new is asked for now.
    fn listens(&self, now: Span) -> bool {
        let has_begun = self.acts.is_some_and(|since| now - since >= LISTENING);
        let rests = !self.gone.is_empty() && self.rested.is_some_and(|at| now - at < RESTING);
        (!has_begun || !self.wants_all || rests) && !Mutant::RestAtOnce.is_on()
    }

    /// Nobody wants anything: places stand at the ends.
    fn pass_over_everything(&mut self, hands: &mut impl Hands) {
        for (site, origin) in &mut self.origins {
            let places = origin.pass_over();
            for (journal, log, position) in &places {
                let (journal, position) = (*journal, *position);
                hands.remember(&Place { origin: site, journal, log, position });
            }
            for places in places.chunks(LOGS_MAX).map(<[_]>::to_vec) {
                hands.tell(&Progress::Had { origin: site.clone(), streams: Vec::new(), places, all: false });
            }
        }
    }

    /// What is wanted, as it is asked for.
    fn filters(&self) -> Vec<Box<str>> {
        let bytes: usize = self.wanted.iter().map(|filter| filter.as_str().len()).sum();
        if self.wanted.len() > FILTERS_MAX || bytes > FILTERS_BYTES_MAX {
            return vec!["#".into()];
        }
        self.wanted.iter().map(|filter| filter.as_str().into()).collect()
    }

    /// A site, by its name; nothing where there are too many.
    fn origin(&mut self, site: &str) -> Option<&mut Origin> {
        if !self.origins.contains_key(site) {
            if self.origins.len() >= ORIGINS_MAX {
                return None;
            }
            self.origins.insert(site.into(), Origin::default());
        }
        self.origins.get_mut(site)
    }
}

/// How long it takes until what was handed on has surely left.
fn leaving() -> Span {
    if Mutant::SettleAtOnce.is_on() { Span::ZERO } else { LEAVING }
}
