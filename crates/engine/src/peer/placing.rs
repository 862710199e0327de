//! Who runs a function: the owner of its place says so, and goes on saying so.
//!
//! The problem: a function has to run at one peer that can, whoever dies, and has to stay there while others come and go. The idea: its name has a place
//! on the ring, and the owner of that place has a copy of it before anybody else takes over. The owner asks the members of the region who would run it,
//! and how much each has to do already; it keeps a word of whom it has chosen beside the function, so that the next owner knows it as well, and tells
//! that one again each second. Who is not told any more ends the function by itself ([`LEASE`]).
//!
//! The invariant: as long as who was chosen is in the region, nobody else is. Where a network is cut, both sides have an owner.

use super::duties::{self, RUNS, STARTS, UNHEARD, Where, function_name};
use super::keeping::{Own, Places};
use super::words::WorkWord;
use super::{Peer, PeerEffects, PeerWord};
use contract::{Location, Mutant, RingId, Span, Time};
use overlay::{Member, PeerId, Rank};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::{ItemId, Ring, Version};

/// So long after its beginning a peer says nothing of who runs what: it may not have found the others yet.
pub const NO_DUTY_FOR: Span = Span::secs(5);
/// How often who runs a function is told so.
const SAYS_EVERY: Span = Span::secs(1);
/// How long one runs a function that is not told so any more. An owner that begins anew is silent for [`NO_DUTY_FOR`] of it.
pub const LEASE: Span = Span::secs(10);
/// How long it is waited for what is known of who runs a function, where nothing is: it comes beside the function.
const SETTLES: Span = Span::millis(300);
/// How long those who are asked may take.
const ANSWERS_WITHIN: Span = Span::millis(300);
/// How long it is remembered who was chosen: longer than anybody's answer takes.
const REMEMBERED_FOR: Span = Span::secs(1);
/// How long a choice may take to be kept.
const KEPT_WITHIN: Span = Span::secs(3);
/// When it is asked again, where nobody would run it.
const ASKS_AGAIN: Span = Span::secs(5);

/// A function whose place is this peer's.
#[derive(Clone, Debug)]
struct Owned {
    id: ItemId,
    version: Version,
    location: Location,
    at: Where,
    is_started: bool,
    /// Who was chosen last, and under which version of the word of it that is kept.
    runner: Option<RingId>,
    said: Option<(Version, RingId)>,
    /// What that one was told last.
    told: Option<(PeerId, Version, bool)>,
}

/// A function that nobody in the region runs.
#[derive(Clone, Debug)]
struct Vacancy {
    stage: Stage,
    until: Time,
    waits: BTreeSet<RingId>,
    offers: BTreeMap<RingId, u32>,
    since: Time,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Somebody may run it, of whom it is not known here yet.
    Settles,
    /// Members are asked.
    Asks,
    /// One was chosen.
    Chosen,
    /// Nobody would.
    Nobody,
}

impl Vacancy {
    /// Members are asked a little later.
    fn settling(now: Time) -> Vacancy {
        Vacancy::new(now, Stage::Settles, now + SETTLES, BTreeSet::new())
    }

    fn new(since: Time, stage: Stage, until: Time, waits: BTreeSet<RingId>) -> Vacancy {
        Vacancy { stage, until, waits, offers: BTreeMap::new(), since }
    }
}

/// What an owner knows of who runs what.
#[derive(Clone, Debug)]
pub(super) struct Placing {
    /// What is kept here that peers have for themselves.
    pub(super) kept: Own,
    /// Before that it says nothing.
    from: Time,
    owned: BTreeMap<Arc<str>, Owned>,
    /// The members when that was looked at last.
    members: (Rank, u64),
    vacant: BTreeMap<Arc<str>, Vacancy>,
    /// Who was chosen a short time ago, and when.
    chosen: Vec<(Time, RingId)>,
    says_at: Time,
    /// When something is due.
    wakes: Time,
    /// The functions that nobody would run.
    unplaced: BTreeSet<Arc<str>>,
}

impl Placing {
    pub(super) fn new(now: Time) -> Placing {
        let from = now + NO_DUTY_FOR;
        Placing {
            kept: Own::default(),
            from,
            owned: BTreeMap::new(),
            members: <(Rank, u64)>::default(),
            vacant: BTreeMap::new(),
            chosen: Vec::new(),
            says_at: from,
            wakes: from,
            unplaced: BTreeSet::new(),
        }
    }

    pub(super) fn next_deadline(&self) -> Time {
        self.wakes
    }
}

impl Peer {
    /// Functions whose place is this peer's and that nobody in the region would run, with where they have to.
    pub fn unplaced(&self) -> impl Iterator<Item = (&Arc<str>, Where)> {
        let owned = &self.placing.owned;
        self.placing.unplaced.iter().filter_map(|name| Some((name, owned.get(name)?.at)))
    }

    /// Sees that each function whose place is this peer's is run by somebody.
    pub(super) fn place(&mut self, now: Time, out: &mut impl PeerEffects) {
        if now < self.placing.from {
            return;
        }
        let has_changed = self.placing.kept.take_change();
        if !has_changed && now < self.placing.wakes {
            return;
        }
        if has_changed {
            self.look_what_is_owned(now, out);
        }
        let says_all = self.placing.says_at <= now;
        if says_all {
            self.placing.says_at = now + SAYS_EVERY;
        }
        let names: Vec<Arc<str>> = self.placing.owned.keys().cloned().collect();
        for name in names {
            self.place_one(now, &name, says_all, out);
        }
        let Placing { owned, vacant, unplaced, says_at, wakes, .. } = &mut self.placing;
        vacant.retain(|name, _| owned.contains_key(name));
        *unplaced = vacant
            .iter()
            .filter(|(_, vacancy)| vacancy.stage == Stage::Nobody)
            .map(|(name, _)| Arc::clone(name))
            .collect();
        let due = vacant.values().map(|vacancy| vacancy.until).min().unwrap_or(Time::NEVER);
        *wakes = if owned.is_empty() { Time::NEVER } else { due.min(*says_at) };
    }

    /// Something is kept otherwise, or others have other places.
    fn look_what_is_owned(&mut self, now: Time, out: &mut impl PeerEffects) {
        let kept: Vec<(ItemId, Arc<str>)> = self.placing.kept.all().collect();
        let own = self.rings.own().id.ring;
        let before = std::mem::take(&mut self.placing.owned);
        let (mut owned, mut removed) = (BTreeMap::new(), Vec::new());
        self.with_store(out, |store, places: &Places<'_>, through| {
            let is_own = |id: &ItemId| places.owners(id.place).first() == Some(&own);
            let (mut started, mut runners) = (BTreeSet::new(), BTreeMap::new());
            for (id, key) in kept.iter().filter(|(id, _)| is_own(id)) {
                let Some((version, _)) = store.version(now, *id) else { continue };
                if let Some(name) = key.strip_prefix(STARTS) {
                    started.insert(name);
                } else if let Some(name) = key.strip_prefix(RUNS) {
                    // What is on disk is read once.
                    let said = before.get(name).and_then(|known| known.said);
                    let said = said.filter(|(known, _)| *known == version).or_else(|| {
                        let value = store.item(now, *id, through)?.value?;
                        Some((version, RingId::from_bytes(<[u8; 20]>::try_from(&*value).ok()?)))
                    });
                    runners.extend(said.map(|said| (name, said)));
                }
            }
            for (id, key) in kept.iter().filter(|(id, _)| is_own(id)) {
                let Some(name) = function_name(key) else { continue };
                let known = before.get(name);
                // A text may be long, and is read once.
                let is_known = |version: Version| known.is_some_and(|known| known.version == version);
                let Some((version, location)) = store.version(now, *id) else {
                    // What is said of one that was removed would hold for the next one of its name.
                    let runner = runners.get(name).map(|(_, runner)| *runner);
                    removed.extend(runner.map(|runner| (Arc::<str>::from(name), runner)));
                    continue;
                };
                let at = match known.filter(|_| is_known(version)) {
                    Some(known) => Some(known.at),
                    None => store.item(now, *id, through).and_then(|item| Where::of(item.value.as_deref()?)),
                };
                let Some(at) = at else { continue };
                let (told, is_started) = (known.and_then(|known| known.told), started.contains(name));
                let said = runners.get(name).copied();
                let runner = said.map(|(_, runner)| runner);
                let id = *id;
                owned.insert(
                    Arc::from(name),
                    Owned { id, version, location, at, is_started, runner, said, told },
                );
            }
        });
        self.placing.owned = owned;
        let members = (self.rings.table().reign, self.rings.table().version);
        if std::mem::replace(&mut self.placing.members, members) != members {
            // Somebody may have come who would.
            let vacant = self.placing.vacant.values_mut();
            vacant.filter(|vacancy| vacancy.stage == Stage::Nobody).for_each(|vacancy| vacancy.until = now);
        }
        let here = self.rings.own().location;
        for (name, runner) in removed {
            _ = self.keep_for_function(now, UNHEARD, (RUNS, &name, here), (None, Span::FOREVER), out);
            self.say(runner, PeerWord::Work(WorkWord::Ends { name }), out);
        }
    }

    fn place_one(&mut self, now: Time, name: &Arc<str>, says: bool, out: &mut impl PeerEffects) {
        let Some(owned) = self.placing.owned.get(name) else { return };
        let table = self.rings.table();
        let is_here = |runner: &RingId| table.members.contains_key(runner) || Mutant::KeepTheDead.is_on();
        let Some(runner) = owned.runner.filter(is_here) else {
            return self.seek(now, name, out);
        };
        let life = table.members.get(&runner).map_or(PeerId::default(), |member| member.id);
        self.placing.vacant.remove(name);
        let tells = Some((life, owned.version, owned.is_started));
        let owned = owned.clone();
        if owned.told == tells && !says {
            return;
        }
        let has_text = owned.told.is_some_and(|(told, version, _)| (told, version) == (life, owned.version));
        let text = if has_text { None } else { self.text_of(now, owned.id, out) };
        if !has_text && text.is_none() {
            // It cannot be read: perhaps in a second.
            return;
        }
        if let Some(owned) = self.placing.owned.get_mut(name) {
            owned.told = tells;
        }
        let Owned { version, at, is_started, .. } = owned;
        let runs =
            |text| PeerWord::Work(WorkWord::Runs { name: Arc::clone(name), version, at, is_started, text });
        if Mutant::RunEveryCopy.is_on() {
            let copies = self.rings.table().owners(owned.id.place, self.copies);
            let copies: Vec<RingId> = copies.map(|member| member.id.ring).collect();
            let text = self.text_of(now, owned.id, out);
            copies.into_iter().for_each(|copy| self.say(copy, runs(text.clone()), out));
        }
        self.say(runner, runs(text), out);
    }

    fn text_of(&mut self, now: Time, id: ItemId, out: &mut impl PeerEffects) -> Option<Arc<[u8]>> {
        let mut text = None;
        self.with_store(out, |store, _, through| {
            text = store
                .item(now, id, through)
                .and_then(|item| duties::function_text(item.value.as_deref()?).map(Arc::from));
        });
        text
    }

    /// Nobody in the region runs it.
    fn seek(&mut self, now: Time, name: &Arc<str>, out: &mut impl PeerEffects) {
        let Some(owned) = self.placing.owned.get_mut(name) else { return };
        owned.told = None;
        let (at, knows_runner) = (owned.at, owned.runner.is_some());
        let Some(vacancy) = self.placing.vacant.get(name) else {
            if knows_runner {
                return self.ask_members(now, name, at, out);
            }
            self.placing.vacant.insert(Arc::clone(name), Vacancy::settling(now));
            return;
        };
        let is_due = vacancy.until <= now;
        match vacancy.stage {
            Stage::Asks if is_due || vacancy.waits.is_empty() => self.choose(now, name, out),
            Stage::Settles | Stage::Chosen | Stage::Nobody if is_due => {
                self.ask_members(now, name, at, out);
            }
            _ => {}
        }
    }

    fn ask_members(&mut self, now: Time, name: &Arc<str>, at: Where, out: &mut impl PeerEffects) {
        let waits: BTreeSet<RingId> = self.rings.table().members.keys().copied().collect();
        for member in &waits {
            self.say(*member, PeerWord::Work(WorkWord::Asks { name: Arc::clone(name), at }), out);
        }
        let vacancy = Vacancy::new(now, Stage::Asks, now + ANSWERS_WITHIN, waits);
        self.placing.vacant.insert(Arc::clone(name), vacancy);
    }

    /// Chooses who has the least to do: of several, the first from its place on.
    fn choose(&mut self, now: Time, name: &Arc<str>, out: &mut impl PeerEffects) {
        self.placing.chosen.retain(|(at, _)| *at + REMEMBERED_FOR > now);
        let (Some(owned), Some(vacancy)) = (self.placing.owned.get(name), self.placing.vacant.get_mut(name))
        else {
            return;
        };
        let (offers, chosen) = (&vacancy.offers, &self.placing.chosen);
        let offering = self.rings.table().from(owned.id.place).filter_map(|member| {
            let load = offers.get(&member.id.ring)?;
            // What it was chosen for since it was asked it has not counted.
            let since = |(at, whom): &&(Time, RingId)| *at >= vacancy.since && *whom == member.id.ring;
            let given = u32::try_from(chosen.iter().filter(since).count()).unwrap_or(u32::MAX);
            Some((load.saturating_add(given), member.id.ring))
        });
        let Some((_, chosen)) = offering.min_by_key(|(load, _)| *load) else {
            (vacancy.stage, vacancy.until) = (Stage::Nobody, now + ASKS_AGAIN);
            return;
        };
        (vacancy.stage, vacancy.until) = (Stage::Chosen, now + KEPT_WITHIN);
        self.placing.chosen.push((now, chosen));
        let location = owned.location;
        let value = (Some(Arc::from(&chosen.to_bytes()[..])), Span::FOREVER);
        // A name that is no name has no place.
        _ = self.keep_for_function(now, UNHEARD, (RUNS, name, location), value, out);
    }

    /// A member would run a function, or would not.
    pub(super) fn hear_offer(
        &mut self,
        now: Time,
        from: &Member,
        (name, load): (&Arc<str>, Option<u32>),
        out: &mut impl PeerEffects,
    ) {
        let peer = from.id.ring;
        if let Some(vacancy) =
            self.placing.vacant.get_mut(name).filter(|vacancy| vacancy.stage == Stage::Asks)
        {
            if vacancy.waits.remove(&peer)
                && let Some(load) = load
            {
                vacancy.offers.insert(peer, load);
            }
            if vacancy.waits.is_empty() {
                vacancy.until = now;
                self.placing.wakes = now;
            }
            return;
        }
        let is_refused = |owned: &&mut Owned| load.is_none() && owned.runner == Some(peer);
        if let Some(owned) = self.placing.owned.get_mut(name).filter(is_refused) {
            // Who runs it will not do so any more. Others are asked a little later, so that one that says both does not keep all busy.
            (owned.runner, owned.told) = (None, None);
            let location = owned.location;
            self.placing.vacant.insert(Arc::clone(name), Vacancy::settling(now));
            self.placing.wakes = now;
            _ = self.keep_for_function(now, UNHEARD, (RUNS, name, location), (None, Span::FOREVER), out);
        }
    }

    /// Who runs a function has not got its text, and gets it with the next word.
    pub(super) fn hear_lacks(&mut self, from: &Member, name: &str) {
        if let Some(owned) =
            self.placing.owned.get_mut(name).filter(|owned| owned.runner == Some(from.id.ring))
        {
            owned.told = None;
        }
    }
}
