//! What is asked by those for whom a peer speaks, and by peers of other regions: put, get, look.
//!
//! The problem: who has something changes while it is asked for, and whoever is asked may die. The idea: all that may have it are asked, the newest
//! answer counts, and what is put is put again where its place is then.

use crate::item::{Item, ItemId, Version};
use crate::store::{Effects, Refusal, Ring, Store};
use crate::words::StoreWord;
use contract::{RingId, Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// How long an answer may take. Peers of other regions are waited for longer, since they ask others.
const ANSWERS_WITHIN: Span = Span::secs(3);
const ANSWERS_FROM_AFAR_WITHIN: Span = Span::secs(4);
/// How long it is waited before something is put again that could not be.
const AGAIN: Span = Span::millis(50);
/// What is said of something besides its key and value, about.
const ENTRY_BYTES: u64 = 100;
/// The most bytes that one peer answers with.
const SEEN_BYTES_MAX: u64 = 4 << 20;
/// What may be asked at once.
const ASKS_MAX: usize = 4_096;

/// What a request has led to.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// It is kept, or deleted, by so many peers.
    Done(Version, u64),
    /// What is kept; `None`: nothing.
    Got(Option<Item>),
    /// What is kept that is as asked, in order.
    Found {
        /// That.
        items: Vec<Item>,
        /// Behind what there may be more; `None`: that is all.
        next: Option<ItemId>,
        /// How many peers have not answered in time: something may lack.
        silent: usize,
    },
    /// It is not done.
    Refused(Refusal),
}

/// What is looked for.
#[derive(Clone, PartialEq, Debug)]
pub struct Query {
    /// What is wanted, as an interest is written.
    pub interest: String,
    /// Only what comes behind this.
    pub after: Option<ItemId>,
    /// How many at most.
    pub limit: usize,
    /// Whether with values.
    pub values: bool,
}

/// Who has asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asker {
    /// Somebody for whom this peer speaks.
    Own(u64),
    /// A peer of another region.
    Peer(RingId, u64),
}

/// Something that is asked.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    asker: Asker,
    what: What,
    /// Members of the region that have not answered yet.
    members: BTreeSet<RingId>,
    /// Masters of others that have not.
    masters: BTreeSet<RingId>,
    /// How many were asked, and have answered.
    of: usize,
    answered: usize,
    until: Time,
    /// When it is put again, if it is.
    again_at: Time,
}

#[derive(Clone, Debug)]
enum What {
    Put(Item),
    Get { id: ItemId, best: Option<Item> },
    Look { limit: usize, found: BTreeMap<ItemId, Item>, cut: Option<ItemId>, silent: usize },
}

impl Store {
    /// Puts something, or deletes it where it has no value, for somebody for whom this peer speaks. Its version does not matter.
    pub fn put_for(&mut self, now: Time, request: u64, item: Item, ring: &impl Ring, out: &mut impl Effects) {
        self.begin_put(now, Asker::Own(request), item, ring, out);
    }

    /// Asks for something.
    pub fn get_for(
        &mut self,
        now: Time,
        request: u64,
        (id, afar): (ItemId, Option<RingId>),
        ring: &impl Ring,
        out: &mut impl Effects,
    ) {
        self.begin_get(now, Asker::Own(request), (id, afar), ring, out);
    }

    /// Looks for something at these peers: members of the region, and masters of others.
    pub fn look_for(
        &mut self,
        now: Time,
        request: u64,
        query: &Query,
        at: (BTreeSet<RingId>, BTreeSet<RingId>),
        out: &mut impl Effects,
    ) {
        self.begin_look(now, Asker::Own(request), query, at, out);
    }

    /// The same for peers of other regions.
    pub fn forward(
        &mut self,
        now: Time,
        from: RingId,
        word: StoreWord,
        at: BTreeSet<RingId>,
        ring: &impl Ring,
        out: &mut impl Effects,
    ) {
        match word {
            StoreWord::Put { request, item } => {
                self.begin_put(now, Asker::Peer(from, request), item, ring, out);
            }
            StoreWord::Fetch { request, id } => {
                self.begin_get(now, Asker::Peer(from, request), (id, None), ring, out);
            }
            StoreWord::Look { request, query } => {
                self.begin_look(now, Asker::Peer(from, request), &query, (at, BTreeSet::new()), out);
            }
            _ => {}
        }
    }

    /// What is kept here and may be as asked: those of these places, in order. What it has to be besides is looked at outside.
    pub fn look(
        &self,
        now: Time,
        query: &Query,
        places: &[(RingId, RingId)],
        matches: impl Fn(&Item) -> bool,
        out: &impl Effects,
    ) -> (Vec<Item>, Option<ItemId>) {
        let (mut found, mut bytes) = (Vec::new(), 0);
        let begin = query.after.map_or(ItemId::MIN, ItemId::next);
        for (first, last) in places {
            let (from, to) = (ItemId::first_at(*first).max(begin), ItemId::last_at(*last));
            if from > to {
                continue;
            }
            for (id, entry) in self.index.range(from..=to) {
                // Deletions go with the rest, since others may not know of them yet.
                let key = Item {
                    place: id.place,
                    key: entry.key.clone(),
                    version: entry.version,
                    location: entry.location,
                    left: entry.left(now),
                    size: (!entry.is_gone).then_some(entry.size),
                    value: None,
                };
                if entry.until <= now || !matches(&key) {
                    continue;
                }
                let value = match entry.is_gone {
                    true => None,
                    false if query.values => match out.value(*id) {
                        Some(value) => Some(value),
                        None => continue,
                    },
                    false => None,
                };
                let item = Item { value, ..key };
                bytes += (item.key.len() + item.value.as_ref().map_or(0, |value| value.len())) as u64
                    + ENTRY_BYTES;
                if found.len() >= query.limit || bytes > SEEN_BYTES_MAX {
                    let cut = found.last().map(Item::id);
                    return (found, cut);
                }
                found.push(item);
            }
        }
        (found, None)
    }

    fn begin(
        &mut self,
        now: Time,
        asker: Asker,
        what: What,
        afar: bool,
        out: &mut impl Effects,
    ) -> Option<u64> {
        if self.asks.len() >= ASKS_MAX {
            answer(asker, Answer::Refused(Refusal::Busy), out);
            return None;
        }
        let within = if afar { ANSWERS_FROM_AFAR_WITHIN } else { ANSWERS_WITHIN };
        let number = self.number();
        let (members, masters) = (BTreeSet::new(), BTreeSet::new());
        let (until, again_at) = (now + within, Time::NEVER);
        let ask = Ask { asker, what, members, masters, of: 0, answered: 0, until, again_at };
        self.asks.insert(number, ask);
        Some(number)
    }

    fn begin_put(&mut self, now: Time, asker: Asker, item: Item, ring: &impl Ring, out: &mut impl Effects) {
        let afar = ring.elsewhere(item.location).is_some();
        if let Some(number) = self.begin(now, asker, What::Put(item), afar, out) {
            self.put_where_it_belongs(number, ring, out);
        }
    }

    /// Puts it at its owner, or at the master of the region where it is.
    fn put_where_it_belongs(&mut self, request: u64, ring: &impl Ring, out: &mut impl Effects) {
        let Some(ask) = self.asks.get_mut(&request) else { return };
        let What::Put(item) = &ask.what else { return };
        let word = StoreWord::Put { request, item: item.clone() };
        let (afar, owner) = ask.asker.home(item, ring);
        ask.again_at = Time::NEVER;
        (ask.members, ask.masters) = (owner.into_iter().collect(), afar.into_iter().collect());
        ask.of = 1;
        match (afar, owner) {
            (Some(master), _) => out.say(master, StoreWord::Forward(Box::new(word))),
            (None, Some(owner)) => out.say(owner, word),
            // Nobody has its place yet.
            (None, None) => {}
        }
    }

    fn begin_get(
        &mut self,
        now: Time,
        asker: Asker,
        (id, afar): (ItemId, Option<RingId>),
        ring: &impl Ring,
        out: &mut impl Effects,
    ) {
        let what = What::Get { id, best: None };
        let Some(request) = self.begin(now, asker, what, afar.is_some(), out) else { return };
        let word = StoreWord::Fetch { request, id };
        let Some(ask) = self.asks.get_mut(&request) else { return };
        match afar {
            Some(master) => {
                ask.masters.insert(master);
                out.say(master, StoreWord::Forward(Box::new(word)));
            }
            None => {
                ask.members = ring.owners(id.place).into_iter().collect();
                ask.members.iter().for_each(|owner| out.say(*owner, word.clone()));
            }
        }
        ask.of = ask.members.len() + ask.masters.len();
    }

    fn begin_look(
        &mut self,
        now: Time,
        asker: Asker,
        query: &Query,
        (members, masters): (BTreeSet<RingId>, BTreeSet<RingId>),
        out: &mut impl Effects,
    ) {
        let what = What::Look { limit: query.limit, found: BTreeMap::new(), cut: None, silent: 0 };
        let Some(request) = self.begin(now, asker, what, !masters.is_empty(), out) else { return };
        let word = StoreWord::Look { request, query: query.clone() };
        members.iter().for_each(|member| out.say(*member, word.clone()));
        masters.iter().for_each(|master| out.say(*master, StoreWord::Forward(Box::new(word.clone()))));
        let Some(ask) = self.asks.get_mut(&request) else { return };
        (ask.members, ask.masters) = (members, masters);
        ask.of = ask.members.len() + ask.masters.len();
        if ask.of == 0 {
            self.end(request, out);
        }
    }

    pub(crate) fn hear_done(
        &mut self,
        now: Time,
        from: RingId,
        request: u64,
        result: Result<(Version, u64), Refusal>,
        out: &mut impl Effects,
    ) {
        let Some(ask) = self.asks.get_mut(&request).filter(|ask| ask.waits_for(from)) else { return };
        match result {
            // It will have another place, or there will be room.
            Err(Refusal::NotMine | Refusal::Busy) if matches!(ask.what, What::Put(_)) => {
                ask.again_at = now + AGAIN;
            }
            Ok((version, copies)) if matches!(ask.what, What::Put(_)) => {
                self.close(request, Answer::Done(version, copies), out);
            }
            Ok(_) => {}
            Err(refusal) => self.close(request, Answer::Refused(refusal), out),
        }
    }

    pub(crate) fn hear_fetched(
        &mut self,
        from: RingId,
        request: u64,
        item: Option<Item>,
        out: &mut impl Effects,
    ) {
        let Some(ask) = self.asks.get_mut(&request) else { return };
        if !ask.hears(from) {
            return;
        }
        let What::Get { id, best } = &mut ask.what else { return };
        if let Some(item) = item.filter(|item| item.id() == *id)
            && best.as_ref().is_none_or(|best| best.version < item.version)
        {
            *best = Some(item);
        }
        if ask.is_complete() {
            self.end(request, out);
        }
    }

    pub(crate) fn hear_seen(
        &mut self,
        from: RingId,
        request: u64,
        (items, cut, unheard): (Vec<Item>, Option<ItemId>, u64),
        out: &mut impl Effects,
    ) {
        let Some(ask) = self.asks.get_mut(&request) else { return };
        if !ask.hears(from) {
            return;
        }
        let What::Look { found, cut: known, silent, .. } = &mut ask.what else { return };
        *silent += unheard as usize;
        for item in items {
            let id = item.id();
            if found.get(&id).is_none_or(|known| known.version < item.version) {
                found.insert(id, item);
            }
        }
        *known = known.iter().copied().chain(cut).min();
        if ask.is_complete() {
            self.end(request, out);
        }
    }

    /// Others have other places: what was put is put there, and who has gone is not waited for.
    pub(crate) fn ask_again(&mut self, ring: &impl Ring, out: &mut impl Effects) {
        let (mut again, mut complete) = (Vec::new(), Vec::new());
        for (request, ask) in &mut self.asks {
            if let What::Put(item) = &ask.what {
                let (afar, owner) = ask.asker.home(item, ring);
                let stays = match afar {
                    Some(master) => ask.masters.contains(&master),
                    None => owner.is_some_and(|owner| ask.members.contains(&owner)),
                };
                if !stays {
                    again.push(*request);
                }
                continue;
            }
            ask.members.retain(|member| ring.has(*member));
            if ask.is_complete() {
                complete.push(*request);
            }
        }
        again.into_iter().for_each(|request| self.put_where_it_belongs(request, ring, out));
        complete.into_iter().for_each(|request| self.end(request, out));
    }

    /// Answers what was not answered in time with what is known, and puts again what could not be put.
    pub(crate) fn end_asks(&mut self, now: Time, ring: &impl Ring, out: &mut impl Effects) {
        let due = |at: fn(&Ask) -> Time| {
            let due = self.asks.iter().filter(move |(_, ask)| at(ask) <= now);
            due.map(|(request, _)| *request).collect::<Vec<u64>>()
        };
        let (late, again) = (due(|ask| ask.until), due(|ask| ask.again_at));
        late.into_iter().for_each(|request| self.end(request, out));
        again.into_iter().for_each(|request| self.put_where_it_belongs(request, ring, out));
    }

    /// When something is due of what is asked.
    pub(crate) fn asks_due(&self) -> Time {
        self.asks.values().map(|ask| ask.until.min(ask.again_at)).min().unwrap_or(Time::NEVER)
    }

    /// Nobody else answers any more.
    fn end(&mut self, request: u64, out: &mut impl Effects) {
        let Some(Ask { what, of, answered, .. }) = self.asks.get(&request) else { return };
        let no_answer = Answer::Refused(Refusal::NoAnswer { answered: *answered, of: *of });
        let answer = match what {
            What::Put(_) => no_answer,
            What::Get { best: Some(best), .. } => Answer::Got(best.size.is_some().then(|| best.clone())),
            What::Get { best: None, .. }
                if *answered == 0 || *answered < *of && !self.is_complete(request) =>
            {
                no_answer
            }
            What::Get { best: None, .. } => Answer::Got(None),
            What::Look { limit, found, cut, silent } => {
                // Behind the first place where somebody has stopped, others may have what that one has as well.
                let known = found.iter().filter(|(id, _)| cut.is_none_or(|cut| **id <= cut));
                let all: Vec<Item> = known.map(|(_, item)| item.clone()).collect();
                let mut items: Vec<Item> = all.into_iter().filter(|item| item.size.is_some()).collect();
                let is_cut = items.len() > *limit;
                items.truncate(*limit);
                let next = if is_cut { items.last().map(Item::id) } else { *cut };
                Answer::Found { items, next, silent: silent + of - answered }
            }
        };
        self.close(request, answer, out);
    }

    fn is_complete(&self, request: u64) -> bool {
        self.asks.get(&request).is_none_or(Ask::is_complete)
    }

    fn close(&mut self, request: u64, said: Answer, out: &mut impl Effects) {
        if let Some(ask) = self.asks.remove(&request) {
            answer(ask.asker, said, out);
        }
    }
}

impl Ask {
    fn waits_for(&self, from: RingId) -> bool {
        self.members.contains(&from) || self.masters.contains(&from)
    }

    /// Whether it was waited for.
    fn hears(&mut self, from: RingId) -> bool {
        let was_asked = self.members.remove(&from) || self.masters.remove(&from);
        self.answered += usize::from(was_asked);
        was_asked
    }

    fn is_complete(&self) -> bool {
        self.members.is_empty() && self.masters.is_empty() && self.of > 0
    }
}

impl Asker {
    /// The master of the region where something is, if that is another one, and else who has its place. Who asks for another region has asked the
    /// right one.
    fn home(self, item: &Item, ring: &impl Ring) -> (Option<RingId>, Option<RingId>) {
        match ring.elsewhere(item.location).filter(|_| matches!(self, Asker::Own(_))) {
            Some(master) => (Some(master), None),
            None => (None, ring.owners(item.place).first().copied()),
        }
    }
}

/// Says it to whoever has asked.
fn answer(asker: Asker, answer: Answer, out: &mut impl Effects) {
    let (to, request) = match asker {
        Asker::Own(request) => return out.answer(request, answer),
        Asker::Peer(to, request) => (to, request),
    };
    let word = match answer {
        Answer::Done(version, copies) => StoreWord::Done { request, result: Ok((version, copies)) },
        Answer::Refused(refusal) => StoreWord::Done { request, result: Err(refusal) },
        Answer::Got(item) => StoreWord::Fetched { request, item },
        Answer::Found { items, next, silent } => {
            StoreWord::Seen { request, items, cut: next, silent: silent as u64 }
        }
    };
    out.say(to, word);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Limits;
    use contract::Location;
    use std::sync::Arc;

    const MASTER: RingId = RingId::MAX;

    /// Everything is elsewhere.
    struct Elsewhere;

    impl Ring for Elsewhere {
        fn owners(&self, _place: RingId) -> Vec<RingId> {
            Vec::new()
        }

        fn before(&self) -> RingId {
            RingId::MIN
        }

        fn has(&self, _peer: RingId) -> bool {
            false
        }

        fn elsewhere(&self, _location: Location) -> Option<RingId> {
            Some(MASTER)
        }
    }

    #[derive(Default)]
    struct Heard(Vec<StoreWord>, Vec<Answer>);

    impl Effects for Heard {
        fn say(&mut self, _to: RingId, word: StoreWord) {
            self.0.push(word);
        }

        fn write(&mut self, _id: ItemId, _item: &Item, _until: Time) {}

        fn erase(&mut self, _id: ItemId) {}

        fn value(&self, _id: ItemId) -> Option<Arc<[u8]>> {
            None
        }

        fn answer(&mut self, _request: u64, answer: Answer) {
            self.1.push(answer);
        }

        fn stored(&mut self, _item: &Item) {}
    }

    #[test]
    fn a_master_that_is_busy_is_asked_again_only_for_what_is_put() {
        let mut store = Store::new(RingId::MIN, Limits { items: 10, bytes: 1_000 });
        let (mut out, now) = (Heard::default(), Time(1_000_000_000));
        let id = ItemId::of(RingId::MIN, "kind=drone");
        store.get_for(now, 1, (id, Some(MASTER)), &Elsewhere, &mut out);
        let Some(StoreWord::Forward(asked)) = out.0.pop() else { panic!("{:?}", out.0) };
        let StoreWord::Fetch { request, .. } = *asked else { panic!("{asked:?}") };
        let busy = StoreWord::Done { request, result: Err(Refusal::Busy) };
        store.handle_word(now, MASTER, busy, &Elsewhere, &mut out);
        assert_eq!(out.1, [Answer::Refused(Refusal::Busy)]);
        store.handle_timeout(now, &Elsewhere, &mut out);
        assert!(store.next_deadline() > now, "nothing is left to do");
    }
}
