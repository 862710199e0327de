//! What peers keep, wired to who has which place and to what keys mean.
//!
//! A key is a profile, in its one way of writing; what is kept is where the profile says, or where the peer is that was asked. It is at its place in the
//! region there, and peers of other regions ask its master.

use super::duties::OWN;
use super::maps::{Region, Whole};
use super::{Peer, PeerEffects, PeerWord, PutError, checked};
use contract::{Location, RingId, Span, Time};
use overlay::{Extent, Member, Rings};
use rendezvous::{Interest, Map, Party, Post, Profile};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::{Answer, Effects, Item, ItemId, Kept, Query, Refusal, Ring, StoreWord};

/// Something new that is kept, as those are told who want such things.
#[derive(Clone, PartialEq, Debug)]
pub struct Note {
    /// What it is.
    pub key: Arc<str>,
    /// How many bytes its value has.
    pub size: u64,
    /// The value, if it has no more than [`NOTE_BYTES_MAX`].
    pub value: Option<Arc<[u8]>>,
}

/// Values up to this size go with a note.
pub const NOTE_BYTES_MAX: usize = 64 << 10;
/// Things that one answer has at most.
pub const LOOK_MAX: usize = 10_000;
/// Peers of other regions that have asked, remembered so that they can be answered.
const STRANGERS_MAX: usize = 4_096;
/// How long they are.
const REMEMBERED_FOR: Span = Span::secs(30);

/// Peers of other regions that have asked.
#[derive(Clone, Default, Debug)]
pub(super) struct Strangers(BTreeMap<RingId, (Member, Time)>);

impl Strangers {
    fn insert(&mut self, now: Time, member: &Member) {
        if self.0.len() >= STRANGERS_MAX {
            self.0.retain(|_, (_, until)| *until > now);
        }
        if self.0.len() < STRANGERS_MAX {
            self.0.insert(member.id.ring, (member.clone(), now + REMEMBERED_FOR));
        }
    }

    pub(super) fn get(&self, peer: RingId) -> Option<&Member> {
        self.0.get(&peer).map(|(member, _)| member)
    }
}

/// Who has which place, as the overlay says.
pub(super) struct Places<'a> {
    rings: &'a Rings,
    extent: Extent,
    copies: usize,
}

/// What is kept here that peers have for themselves.
#[derive(Clone, Default, Debug)]
pub(super) struct Own {
    /// With their keys.
    all: BTreeMap<ItemId, Arc<str>>,
    has_changed: bool,
}

impl Own {
    pub(super) fn all(&self) -> impl Iterator<Item = (ItemId, Arc<str>)> {
        self.all.iter().map(|(id, key)| (*id, Arc::clone(key)))
    }

    /// Whether it, or who has which place, may be otherwise than when this was last asked.
    pub(super) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// Who has which place may be otherwise from now on.
    pub(super) fn change(&mut self) {
        self.has_changed = true;
    }

    fn write(&mut self, id: ItemId, key: &Arc<str>) {
        if key.starts_with(OWN) {
            self.all.insert(id, Arc::clone(key));
            self.has_changed = true;
        }
    }

    fn erase(&mut self, id: ItemId) {
        self.has_changed |= self.all.remove(&id).is_some();
    }
}

impl Ring for Places<'_> {
    fn owners(&self, place: RingId) -> Vec<RingId> {
        let table = self.rings.table();
        if !table.has(self.rings.own().id) {
            return Vec::new();
        }
        table.owners(place, self.copies).map(|member| member.id.ring).collect()
    }

    fn before(&self) -> RingId {
        let own = self.rings.own().id.ring;
        self.rings.table().below(own, |_| true).map_or(own, |member| member.id.ring)
    }

    fn has(&self, peer: RingId) -> bool {
        self.rings.table().members.contains_key(&peer)
    }

    fn elsewhere(&self, location: Location) -> Option<RingId> {
        let claim = self.rings.tree().holder(self.extent.cell_of(location))?;
        (claim.rank() != self.rings.table().reign).then_some(claim.master.id.ring)
    }
}

/// What the store wants done: words are said when it is done.
pub(super) struct Through<'a, E> {
    out: &'a mut E,
    own: &'a mut Own,
    says: Vec<(RingId, StoreWord)>,
    new: Vec<Item>,
}

impl<E: PeerEffects> Effects for Through<'_, E> {
    fn say(&mut self, to: RingId, word: StoreWord) {
        self.says.push((to, word));
    }

    fn write(&mut self, id: ItemId, item: &Item, until: Time) {
        self.own.write(id, &item.key);
        self.out.write(id, item, until);
    }

    fn erase(&mut self, id: ItemId) {
        self.own.erase(id);
        self.out.erase(id);
    }

    fn value(&self, id: ItemId) -> Option<Arc<[u8]>> {
        self.out.value(id)
    }

    fn answer(&mut self, request: u64, answer: Answer) {
        self.out.answer(request, answer);
    }

    fn stored(&mut self, item: &Item) {
        self.new.push(item.clone());
    }
}

impl Peer {
    /// Something is on disk from an earlier life.
    pub fn restore(&mut self, now: Time, kept: Kept) {
        self.placing.kept.write(kept.id(), &kept.key);
        self.store.restore(now, kept);
    }

    /// How much it keeps: things, and their bytes.
    pub fn kept(&self) -> (usize, u64) {
        self.store.kept()
    }

    /// What was written since this was last asked is to be brought to disk; see [`Peer::handle_synced`].
    pub fn take_ticket(&mut self) -> Option<u64> {
        self.store.take_ticket()
    }

    /// What was written before that ticket is on disk, or why it is not.
    pub fn handle_synced(
        &mut self,
        now: Time,
        ticket: u64,
        result: &Result<(), String>,
        out: &mut impl PeerEffects,
    ) {
        self.with_store(out, |store, _, through| store.handle_synced(ticket, result, through));
        self.settle(now, out);
    }

    /// Keeps something for so long, or deletes it where it has no value.
    pub fn keep(
        &mut self,
        now: Time,
        request: u64,
        (key, value): (&str, Option<Arc<[u8]>>),
        lasts: Span,
        out: &mut impl PeerEffects,
    ) -> Result<(), PutError> {
        let profile = Profile::read(&self.space, checked(key)?)?;
        let item = Item {
            place: self.space.place_of(&profile),
            key: profile.canonical(&self.space).into(),
            version: store::Version::default(),
            location: profile.location().unwrap_or(self.rings.own().location),
            left: lasts,
            size: value.as_ref().map(|value| value.len() as u64),
            value,
        };
        self.keep_item(now, request, item, out);
        Ok(())
    }

    pub(super) fn keep_item(&mut self, now: Time, request: u64, item: Item, out: &mut impl PeerEffects) {
        if self.is_nowhere(request, out) {
            return;
        }
        self.with_store(out, |store, places, through| store.put_for(now, request, item, places, through));
        self.settle(now, out);
    }

    /// Asks for something.
    pub fn fetch(
        &mut self,
        now: Time,
        request: u64,
        key: &str,
        out: &mut impl PeerEffects,
    ) -> Result<(), PutError> {
        let profile = Profile::read(&self.space, checked(key)?)?;
        if self.is_nowhere(request, out) {
            return Ok(());
        }
        let id = ItemId::of(self.space.place_of(&profile), &profile.canonical(&self.space));
        self.with_store(out, |store, places, through| {
            let afar = profile.location().and_then(|location| places.elsewhere(location));
            store.get_for(now, request, (id, afar), places, through);
        });
        self.settle(now, out);
        Ok(())
    }

    /// Looks for what is kept that is as said.
    pub fn look(
        &mut self,
        now: Time,
        request: u64,
        query: &Query,
        out: &mut impl PeerEffects,
    ) -> Result<(), PutError> {
        let post = Post::Want(Interest::read(&self.space, checked(&query.interest)?)?);
        if self.is_nowhere(request, out) {
            return Ok(());
        }
        let map = Whole { rings: &self.rings, space: &self.space, extent: self.extent };
        let (members, masters) = map
            .points_of(&post)
            .into_iter()
            .partition(|point| self.rings.table().members.contains_key(point));
        let members = self.with_copies(&members);
        let query = Query { limit: query.limit.min(LOOK_MAX), ..query.clone() };
        self.with_store(out, |store, _, through| {
            store.look_for(now, request, &query, (members, masters), through);
        });
        self.settle(now, out);
        Ok(())
    }

    /// Whether it is in no region yet: then nobody has any place, and it says so.
    pub(super) fn is_nowhere(&self, request: u64, out: &mut impl PeerEffects) -> bool {
        let is_nowhere = !self.rings.table().has(self.rings.own().id);
        if is_nowhere {
            out.answer(request, Answer::Refused(Refusal::NoRegion));
        }
        is_nowhere
    }

    /// A peer says something about what is kept.
    pub(super) fn take_store(
        &mut self,
        now: Time,
        from: &Member,
        word: StoreWord,
        out: &mut impl PeerEffects,
    ) {
        let peer = from.id.ring;
        if !self.rings.table().members.contains_key(&peer) {
            self.strangers.insert(now, from);
        }
        match word {
            StoreWord::Look { request, query } => self.look_here(now, peer, request, &query, out),
            StoreWord::Forward(word) => self.forward(now, peer, *word, out),
            word => {
                self.with_store(out, |store, places, through| {
                    store.handle_word(now, peer, word, places, through);
                });
            }
        }
    }

    /// What is kept here and is as said.
    fn look_here(&mut self, now: Time, to: RingId, request: u64, query: &Query, out: &mut impl PeerEffects) {
        let found = match Interest::read(&self.space, &query.interest) {
            _ if query.interest.starts_with(OWN) => {
                let through = Through { out, own: &mut self.placing.kept, says: Vec::new(), new: Vec::new() };
                let query = Query { limit: query.limit.min(LOOK_MAX), ..query.clone() };
                let all = [(RingId::MIN, RingId::MAX)];
                let matches = |item: &Item| item.key.starts_with(&*query.interest);
                self.store.look(now, &query, &all, matches, &through)
            }
            Ok(interest) => {
                let pieces: Vec<(RingId, RingId)> =
                    interest.pieces(&self.space).iter().map(|piece| (piece.first, piece.last)).collect();
                let matches = |item: &Item| {
                    if item.key.starts_with(OWN) {
                        return false;
                    }
                    let profile = Profile::read(&self.space, &item.key);
                    profile.is_ok_and(|profile| interest.matches(&profile.located(Some(item.location))))
                };
                let through = Through { out, own: &mut self.placing.kept, says: Vec::new(), new: Vec::new() };
                let limit = query.limit.min(LOOK_MAX);
                self.store.look(now, &Query { limit, ..query.clone() }, &pieces, matches, &through)
            }
            // Who says what cannot be read has another space.
            Err(_) => (Vec::new(), None),
        };
        let (items, cut) = found;
        self.say(to, PeerWord::Store(StoreWord::Seen { request, items, cut, silent: 0 }), out);
    }

    /// A peer of another region wants something of this one.
    fn forward(&mut self, now: Time, from: RingId, word: StoreWord, out: &mut impl PeerEffects) {
        let mut at = BTreeSet::new();
        if let StoreWord::Look { query, .. } = &word
            && let Ok(interest) = Interest::read(&self.space, &query.interest)
        {
            let map = Region { table: self.rings.table(), space: &self.space };
            at = self.with_copies(&map.points_of(&Post::Want(interest)));
        }
        self.with_store(out, |store, places, through| {
            store.forward(now, from, word, at, places, through);
        });
    }

    /// Points, and those that have copies of what they have: one that is new does not have all yet.
    fn with_copies(&self, points: &BTreeSet<RingId>) -> BTreeSet<RingId> {
        let table = self.rings.table();
        let all = points.iter().flat_map(|point| table.owners(*point, self.copies));
        all.map(|member| member.id.ring).collect()
    }

    /// Lets the store do something, and says what it has to say.
    pub(super) fn with_store<E: PeerEffects>(
        &mut self,
        out: &mut E,
        act: impl FnOnce(&mut store::Store, &Places<'_>, &mut Through<'_, E>),
    ) {
        let places = Places { rings: &self.rings, extent: self.extent, copies: self.copies };
        let own = &mut self.placing.kept;
        let mut through = Through { out, own, says: Vec::new(), new: Vec::new() };
        act(&mut self.store, &places, &mut through);
        let Through { says, new, .. } = through;
        for (to, word) in says {
            self.say(to, PeerWord::Store(word), out);
        }
        for item in new {
            self.tell_of(&item, out);
        }
    }

    /// Tells those who want such things of something new that is kept here.
    fn tell_of(&mut self, item: &Item, out: &mut impl PeerEffects) {
        if item.key.starts_with(OWN) {
            return;
        }
        let Ok(profile) = Profile::read(&self.space, &item.key) else { return };
        let wants: Vec<Party> = self.point.who_wants(&profile.located(Some(item.location))).collect();
        let value = item.value.clone().unwrap_or_default();
        let size = value.len() as u64;
        let note = Note {
            key: Arc::clone(&item.key),
            size,
            value: (value.len() <= NOTE_BYTES_MAX).then_some(value),
        };
        for Party { peer, number } in wants {
            self.say(peer, PeerWord::Noted { number, note: note.clone() }, out);
        }
    }
}
