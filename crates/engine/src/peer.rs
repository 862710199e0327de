//! A peer: the overlay and what is offered and wanted, wired together.
//!
//! The problem: whoever puts something knows the members of its own region, and of others only their masters. The idea: it puts things at
//! the points of its own region, and of each other region that they are about at its master, which puts them at the points there and hands
//! on what those say. So a master is a point to others, and who has put something does not see how many there are behind it.
//!
//! Whatever changes in a region or in the tree is heeded by putting things again where they belong then, before the old point is heeded no
//! more (`Posts`); and what a point has that is no longer its own it forgets when all have had time for that.

mod duties;
mod keeping;
mod maps;
mod placing;
mod words;

use contract::{Location, Mutant, RingId, Span, Time};
pub use duties::{
    Duty, FUNCTION_NAME_MAX, FUNCTIONS_MAX, Nowhere, Where, function_name, function_text, is_function_name,
};
pub use keeping::{LOOK_MAX, NOTE_BYTES_MAX, Note};
use maps::{Region, Whole};
use overlay::{Effects, Extent, Frame, Member, News, PeerId, Rings, Settings};
pub use placing::{LEASE, NO_DUTY_FOR};
use rendezvous::{
    Carry, EXPIRY, GRACE, Interest, Map, Meeting, Party, Point, Post, Posts, Profile, ProfileError, Said,
    Space, Topic, digest,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use store::{Answer, Item, ItemId, Limits, Store};
pub use words::{PeerWord, Put, TEXT_BYTES_MAX, WHY_BYTES_MAX, WorkWord};

/// What a peer does to the outside.
pub trait PeerEffects {
    /// Says something to a peer. It is connected to, if it is not.
    fn send(&mut self, to: &Member, word: &PeerWord);
    /// Says something to whoever is at an address.
    fn send_to_address(&mut self, address: &str, word: &PeerWord);
    /// Something that was put here has met another: what is offered is published on the topic, what is wanted comes there.
    fn start(&mut self, number: u64, meeting: &Meeting);
    /// That is over.
    fn stop(&mut self, number: u64, meeting: &Meeting);
    /// The other end of a topic cannot have it: the brokers refuse it there.
    fn refused(&mut self, number: u64, topic: Topic, why: &str);
    /// Something has happened to the region, the tree, or the peer in it.
    fn tell(&mut self, news: &News);
    /// Something that is kept is to be written to disk, in order, and lasts until then.
    fn write(&mut self, id: ItemId, item: &Item, until: Time);
    /// Something is to be removed from there.
    fn erase(&mut self, id: ItemId);
    /// The value of something that was written, also if it is not on disk yet.
    fn value(&self, id: ItemId) -> Option<Arc<[u8]>>;
    /// What is kept, or was asked for, has this answer.
    fn answer(&mut self, request: u64, answer: Answer);
    /// Something new is kept that is as was wanted here.
    fn noted(&mut self, number: u64, note: &Note);
    /// How much this peer has to do already, if it would run one more function that has to be there besides so many; `None`: it would not.
    fn load(&self, at: Where, runs: usize) -> Option<u32>;
}

/// What is put for peers of other regions, at most.
const PROXIED_MAX: usize = 100_000;
/// Numbers of it begin here.
const PROXIED: u64 = 1 << 63;
/// So long after a change a point forgets what is not its own any more.
const CLEARS_AFTER: Span = Span(GRACE.0 + 1_000_000_000);

/// Something that another region wants put at the points of this one.
#[derive(Clone, Debug)]
struct Proxied {
    party: Party,
    text: Box<str>,
    location: Option<Location>,
    until: Time,
}

/// A peer.
#[derive(Clone, Debug)]
pub struct Peer {
    space: Space,
    extent: Extent,
    rings: Rings,
    point: Point,
    /// What is put here by those for whom this peer speaks.
    own: Posts,
    /// What is put for peers of other regions, by its number and by who put it.
    proxied: Posts,
    proxies: BTreeMap<u64, Proxied>,
    proxies_end: BTreeSet<(Time, u64)>,
    parties: BTreeMap<Party, u64>,
    next_proxy: u64,
    /// What is offered here and is where the peer is, as it is written.
    here: BTreeMap<u64, Box<str>>,
    /// Who has put something here, so that they can be told.
    known: BTreeMap<RingId, Member>,
    /// What this peer says to itself.
    queue: VecDeque<PeerWord>,
    clears_at: Time,
    /// What it keeps, how many peers have each, and who of other regions has asked.
    store: Store,
    keeps: Limits,
    copies: usize,
    strangers: keeping::Strangers,
    placing: placing::Placing,
    duties: duties::Duties,
}

/// Why something cannot be put.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PutError {
    /// It cannot be read.
    #[error("{0}")]
    Profile(#[from] ProfileError),
    /// It is too long.
    #[error("it has {0} bytes, and may have {TEXT_BYTES_MAX}: say it more shortly")]
    TooLong(usize),
    /// No function may be called so.
    #[error(
        "a function is called by letters and digits, `-`, `_` and `.` behind the first, {FUNCTION_NAME_MAX} at most"
    )]
    Name,
}

impl Peer {
    /// A peer that is about to look for others.
    pub fn new(settings: Settings, space: &Space, own: Member, keeps: Limits, now: Time) -> Peer {
        let (store, copies) = (Store::new(own.id.ring, keeps), settings.least);
        Peer {
            space: space.clone(),
            extent: settings.extent,
            rings: Rings::new(settings, own, now),
            point: Point::new(space),
            own: Posts::new(),
            proxied: Posts::new(),
            proxies: BTreeMap::new(),
            proxies_end: BTreeSet::new(),
            parties: BTreeMap::new(),
            next_proxy: PROXIED,
            here: BTreeMap::new(),
            known: BTreeMap::new(),
            queue: VecDeque::new(),
            clears_at: Time::NEVER,
            store,
            keeps,
            copies,
            strangers: keeping::Strangers::default(),
            placing: placing::Placing::new(now),
            duties: duties::Duties::default(),
        }
    }

    /// The overlay, as this peer knows it.
    pub fn rings(&self) -> &Rings {
        &self.rings
    }

    /// What has been put at this peer as a point.
    pub fn point(&self) -> &Point {
        &self.point
    }

    /// How much is put here by those for whom this peer speaks, and for peers of other regions.
    pub fn posts(&self) -> (usize, usize) {
        (self.own.len(), self.proxies.len())
    }

    /// The topics of something that was put here.
    pub fn topics_of(&self, number: u64) -> impl Iterator<Item = Topic> {
        self.own.topics_of(number)
    }

    /// Something is offered by somebody for whom this peer speaks, or something else in place of it. It is where the peer is, unless it says itself
    /// where.
    pub fn offer(
        &mut self,
        now: Time,
        number: u64,
        text: &str,
        out: &mut impl PeerEffects,
    ) -> Result<(), PutError> {
        let profile = Profile::read(&self.space, checked(text)?)?;
        let is_here = profile.location().is_none();
        let post = Post::Offer(profile.located(Some(self.rings.own().location)));
        self.put_own(now, number, text, (post, is_here), out);
        Ok(())
    }

    /// Something is wanted by somebody for whom this peer speaks, or something else in place of it.
    pub fn want(
        &mut self,
        now: Time,
        number: u64,
        text: &str,
        out: &mut impl PeerEffects,
    ) -> Result<(), PutError> {
        let interest = Interest::read(&self.space, checked(text)?)?;
        self.put_own(now, number, text, (Post::Want(interest), false), out);
        Ok(())
    }

    fn put_own(
        &mut self,
        now: Time,
        number: u64,
        text: &str,
        (post, is_here): (Post, bool),
        out: &mut impl PeerEffects,
    ) {
        let number = number & !PROXIED;
        if is_here {
            self.here.insert(number, text.into());
        } else {
            self.here.remove(&number);
        }
        let mut acts = Acts::default();
        let map = Whole { rings: &self.rings, space: &self.space, extent: self.extent };
        self.own.post(now, number, text, post, &map, &mut acts);
        self.act(acts, out);
        self.settle(now, out);
    }

    /// Brokers refuse a topic to somebody for whom this peer speaks: the other end is told. Returns whether anybody here has it.
    pub fn refuse(&mut self, now: Time, topic: Topic, why: &str, out: &mut impl PeerEffects) -> bool {
        let why = why.get(..why.floor_char_boundary(WHY_BYTES_MAX)).unwrap_or(why);
        let tellers: Vec<(u64, RingId)> = self.own.tellers_of(topic).collect();
        for (number, point) in &tellers {
            self.say(*point, PeerWord::Refuse { number: *number, topic, why: why.to_owned() }, out);
        }
        self.settle(now, out);
        !tellers.is_empty()
    }

    /// It is over.
    pub fn withdraw(&mut self, now: Time, number: u64, out: &mut impl PeerEffects) {
        let number = number & !PROXIED;
        let mut acts = Acts::default();
        self.here.remove(&number);
        self.own.withdraw(number, &mut acts);
        self.act(acts, out);
        self.settle(now, out);
    }

    /// Hears a word of a peer.
    pub fn handle_word(&mut self, now: Time, from: &Member, word: PeerWord, out: &mut impl PeerEffects) {
        match word {
            PeerWord::Overlay(frame) => {
                self.with_rings(now, out, |rings, through| rings.handle_frame(now, from, frame, through));
            }
            word => self.take(now, from, word, out),
        }
        self.settle(now, out);
    }

    /// The link to a peer is closed, or could not be opened.
    pub fn handle_lost(&mut self, now: Time, peer: PeerId, out: &mut impl PeerEffects) {
        self.with_rings(now, out, |rings, through| rings.handle_lost(now, peer, through));
        self.settle(now, out);
    }

    /// There is a new link to a peer.
    pub fn handle_link(&mut self, now: Time, peer: PeerId, out: &mut impl PeerEffects) {
        let mut acts = Acts::default();
        self.own.handle_link(peer.ring, &mut acts);
        self.proxied.handle_link(peer.ring, &mut acts);
        self.act(acts, out);
        self.settle(now, out);
    }

    /// It is somewhere else now, and with it what is offered here without saying where.
    pub fn handle_moved(&mut self, now: Time, location: Location, out: &mut impl PeerEffects) {
        self.with_rings(now, out, |rings, through| rings.handle_moved(now, location, through));
        let mut acts = Acts::default();
        let map = Whole { rings: &self.rings, space: &self.space, extent: self.extent };
        for (number, text) in &self.here {
            // It has been read before.
            if let Ok(profile) = Profile::read(&self.space, text) {
                let post = Post::Offer(profile.located(Some(location)));
                self.own.post(now, *number, text, post, &map, &mut acts);
            }
        }
        self.act(acts, out);
        self.settle(now, out);
    }

    /// It goes, and says so.
    pub fn handle_leave(&mut self, now: Time, out: &mut impl PeerEffects) {
        self.with_rings(now, out, |rings, through| rings.handle_leave(now, through));
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time, out: &mut impl PeerEffects) {
        if self.rings.next_deadline() <= now {
            self.with_rings(now, out, |rings, through| rings.handle_timeout(now, through));
        }
        let mut acts = Acts::default();
        if self.own.next_deadline() <= now {
            let map = Whole { rings: &self.rings, space: &self.space, extent: self.extent };
            self.own.handle_timeout(now, &map, &mut acts);
        }
        if self.proxied.next_deadline() <= now {
            self.forget_proxies(now, &mut acts);
            let map = Region { table: self.rings.table(), space: &self.space };
            self.proxied.handle_timeout(now, &map, &mut acts);
        }
        self.act(acts, out);
        if self.point.next_deadline() <= now {
            let mut told = Vec::new();
            self.point.handle_timeout(now, &mut told);
            self.tell(told, out);
            self.forget_silent();
        }
        if self.clears_at <= now {
            self.clear();
        }
        self.duties.handle_timeout(now);
        if self.placing.next_deadline() <= now {
            self.place(now, out);
        }
        if self.store.next_deadline() <= now {
            self.with_store(out, |store, places, through| store.handle_timeout(now, places, through));
        }
        self.settle(now, out);
    }

    /// When something is due next.
    pub fn next_deadline(&self) -> Time {
        let rendezvous =
            self.own.next_deadline().min(self.proxied.next_deadline()).min(self.point.next_deadline());
        let kept =
            self.store.next_deadline().min(self.duties.next_deadline()).min(self.placing.next_deadline());
        self.rings.next_deadline().min(rendezvous).min(self.clears_at).min(kept)
    }

    /// Lets the overlay do something, and heeds what that has changed.
    fn with_rings<E: PeerEffects>(
        &mut self,
        now: Time,
        out: &mut E,
        act: impl FnOnce(&mut Rings, &mut Through<'_, E>),
    ) {
        let mut news = Vec::new();
        act(&mut self.rings, &mut Through { out, news: &mut news });
        news.iter().for_each(|news| out.tell(news));
        if news.contains(&News::Replaced) {
            self.fall_silent();
        }
        if !news.iter().any(|news| matches!(news, News::Region | News::Tree)) {
            return;
        }
        let mut acts = Acts::default();
        let map = Whole { rings: &self.rings, space: &self.space, extent: self.extent };
        self.own.handle_change(now, &map, &mut acts);
        let map = Region { table: self.rings.table(), space: &self.space };
        self.proxied.handle_change(now, &map, &mut acts);
        self.act(acts, out);
        self.clears_at = self.clears_at.min(now + CLEARS_AFTER);
        self.with_store(out, |store, places, through| store.handle_change(now, places, through));
        self.placing.kept.change();
    }

    /// Another has its name: whatever it said from now on would be taken for a word of that one.
    fn fall_silent(&mut self) {
        self.own = Posts::new();
        self.proxied = Posts::new();
        self.point = Point::new(&self.space);
        self.proxies.clear();
        self.proxies_end.clear();
        self.parties.clear();
        self.here.clear();
        self.known.clear();
        self.queue.clear();
        self.store = Store::new(self.rings.own().id.ring, self.keeps);
        self.placing.kept = keeping::Own::default();
        self.placing.kept.change();
        self.duties.end();
    }

    /// Takes what it has said to itself.
    fn settle(&mut self, now: Time, out: &mut impl PeerEffects) {
        while let Some(word) = self.queue.pop_front() {
            let own = self.rings.own().clone();
            self.take(now, &own, word, out);
        }
    }

    /// A word about what is offered and wanted.
    fn take(&mut self, now: Time, from: &Member, word: PeerWord, out: &mut impl PeerEffects) {
        match word {
            PeerWord::Put(put) if put.region => self.put_for(now, from, &put, out),
            PeerWord::Put(put) => self.put_here(now, from, &put, out),
            PeerWord::Take { number } => {
                let party = Party { peer: from.id.ring, number };
                let mut told = Vec::new();
                self.point.take(party, &mut told);
                self.tell(told, out);
                if let Some(proxy) = self.parties.get(&party).copied() {
                    let mut acts = Acts::default();
                    self.forget_proxy(proxy, &mut acts);
                    self.act(acts, out);
                }
                self.forget_if_silent(party.peer);
            }
            PeerWord::Said { number, said } => {
                let mut acts = Acts::default();
                let posts = if number < PROXIED { &mut self.own } else { &mut self.proxied };
                posts.hear(from.id.ring, number, said, &mut acts);
                self.act(acts, out);
            }
            PeerWord::Store(word) => self.take_store(now, from, word, out),
            PeerWord::Work(word) => self.hear_work(now, from, word, out),
            PeerWord::Refuse { number, topic, why } => {
                self.pass_refusal(Party { peer: from.id.ring, number }, topic, &why, out);
            }
            PeerWord::Refused { number, topic, why } if number < PROXIED => {
                if self.own.has(number) {
                    out.refused(number, topic, &why);
                }
            }
            PeerWord::Refused { number, topic, why } => {
                if let Some(Party { peer, number }) = self.proxies.get(&number).map(|proxied| proxied.party) {
                    self.say(peer, PeerWord::Refused { number, topic, why }, out);
                }
            }
            PeerWord::Noted { number, note } if number < PROXIED => {
                if self.own.has(number) {
                    out.noted(number, &note);
                }
            }
            PeerWord::Noted { number, note } => {
                if let Some(Party { peer, number }) = self.proxies.get(&number).map(|proxied| proxied.party) {
                    self.say(peer, PeerWord::Noted { number, note }, out);
                }
            }
            PeerWord::Overlay(_) => {}
        }
    }

    /// Tells the other ends of a topic that somebody cannot have it: those that are put here, and those that points of this region know.
    fn pass_refusal(&mut self, party: Party, topic: Topic, why: &str, out: &mut impl PeerEffects) {
        let others: Vec<Party> = self.point.others_of(party, topic).collect();
        for Party { peer, number } in others {
            self.say(peer, PeerWord::Refused { number, topic, why: why.to_owned() }, out);
        }
        if let Some(proxy) = self.parties.get(&party).copied() {
            let tellers: Vec<RingId> = self
                .proxied
                .tellers_of(topic)
                .filter(|(number, _)| *number == proxy)
                .map(|(_, point)| point)
                .collect();
            for point in tellers {
                self.say(point, PeerWord::Refuse { number: proxy, topic, why: why.to_owned() }, out);
            }
        }
    }

    /// Something is put here, as this peer is a point.
    fn put_here(&mut self, now: Time, from: &Member, put: &Put, out: &mut impl PeerEffects) {
        // Who says what cannot be read has another space, or is no peer of ours.
        let Ok(post) = self.read(put) else { return };
        let party = Party { peer: from.id.ring, number: put.number };
        if !self.knows_life(from) {
            return;
        }
        let mut told = Vec::new();
        // One for whom there is no room puts it again, and may find some then.
        if self.point.hear(party, &put.text, post, now + EXPIRY, put.digest, &mut told).is_ok() {
            self.begin_life(from, put.number, &mut told, out);
        }
        self.tell(told, out);
    }

    /// Whether a peer is of the life that is known, or of a later one.
    fn knows_life(&self, from: &Member) -> bool {
        self.known.get(&from.id.ring).is_none_or(|known| known.id.life <= from.id.life)
    }

    /// A peer has put something. What an earlier life of it had put is over: after that, so that who meets both hears of neither.
    fn begin_life(
        &mut self,
        from: &Member,
        number: u64,
        told: &mut Vec<(Party, Said)>,
        out: &mut impl PeerEffects,
    ) {
        let peer = from.id.ring;
        let before = self.known.insert(peer, from.clone());
        if before.is_none_or(|before| before.id.life >= from.id.life) {
            return;
        }
        for party in
            self.point.parties_of(peer).filter(|party| party.number != number).collect::<Vec<Party>>()
        {
            self.point.take(party, told);
        }
        let of = Party { peer, number: 0 }..=Party { peer, number: u64::MAX };
        let proxies = self.parties.range(of).filter(|(party, _)| party.number != number);
        let proxies: Vec<u64> = proxies.map(|(_, proxy)| *proxy).collect();
        let mut acts = Acts::default();
        proxies.into_iter().for_each(|proxy| self.forget_proxy(proxy, &mut acts));
        self.known.insert(peer, from.clone());
        self.act(acts, out);
    }

    /// Something is to be put at the points of this region, for a peer of another one.
    fn put_for(&mut self, now: Time, from: &Member, put: &Put, out: &mut impl PeerEffects) {
        let Ok(post) = self.read(put) else { return };
        if !self.knows_life(from) {
            return;
        }
        let party = Party { peer: from.id.ring, number: put.number };
        let proxy = match self.parties.get(&party) {
            Some(proxy) => *proxy,
            None if self.parties.len() >= PROXIED_MAX => return,
            None => {
                self.next_proxy = (self.next_proxy + 1) | PROXIED;
                self.parties.insert(party, self.next_proxy);
                self.next_proxy
            }
        };
        let mut told = Vec::new();
        self.begin_life(from, put.number, &mut told, out);
        self.tell(told, out);
        let until = now + EXPIRY;
        let text = put.text.as_str().into();
        let location = put.location;
        let before = self.proxies.insert(proxy, Proxied { party, text, location, until });
        before.iter().for_each(|before| _ = self.proxies_end.remove(&(before.until, proxy)));
        self.proxies_end.insert((until, proxy));
        let mut acts = Acts::default();
        if before.is_none_or(|before| *before.text != *put.text || before.location != location) {
            let map = Region { table: self.rings.table(), space: &self.space };
            self.proxied.post(now, proxy, &put.text, post, &map, &mut acts);
        }
        if put.digest != digest(self.proxied.topics_of(proxy)) {
            let said = Said::All(self.proxied.meetings_of(proxy).collect());
            self.say(party.peer, PeerWord::Said { number: party.number, said }, out);
        }
        self.act(acts, out);
    }

    fn read(&self, put: &Put) -> Result<Post, ProfileError> {
        if put.offers {
            Ok(Post::Offer(Profile::read(&self.space, &put.text)?.located(put.location)))
        } else {
            Ok(Post::Want(Interest::read(&self.space, &put.text)?))
        }
    }

    /// What was not put again in time is over.
    fn forget_proxies(&mut self, now: Time, acts: &mut Acts) {
        if Mutant::KeepPassingOn.is_on() {
            return;
        }
        while let Some((_, proxy)) = self.proxies_end.first().copied().filter(|(until, _)| *until <= now) {
            self.forget_proxy(proxy, acts);
        }
    }

    fn forget_proxy(&mut self, proxy: u64, acts: &mut Acts) {
        if let Some(Proxied { party, until, .. }) = self.proxies.remove(&proxy) {
            self.parties.remove(&party);
            self.proxies_end.remove(&(until, proxy));
            self.forget_if_silent(party.peer);
        }
        self.proxied.withdraw(proxy, acts);
    }

    /// Forgets what it has as a point and is not responsible for any more.
    fn clear(&mut self) {
        self.clears_at = Time::NEVER;
        let own = self.rings.own().id.ring;
        let map = Region { table: self.rings.table(), space: &self.space };
        self.point.retain(|_, post| map.points_of(post).contains(&own));
        self.forget_silent();
    }

    /// Whether a peer has something put here.
    fn has_of(&self, peer: RingId) -> bool {
        let of = Party { peer, number: 0 }..=Party { peer, number: u64::MAX };
        self.point.has_of(peer) || self.parties.range(of).next().is_some()
    }

    fn forget_if_silent(&mut self, peer: RingId) {
        if !self.has_of(peer) {
            self.known.remove(&peer);
        }
    }

    /// Forgets peers that have nothing put here any more.
    fn forget_silent(&mut self) {
        let silent: Vec<RingId> = self.known.keys().copied().filter(|peer| !self.has_of(*peer)).collect();
        silent.iter().for_each(|peer| _ = self.known.remove(peer));
    }

    /// Says what points were told to say.
    fn act(&mut self, acts: Acts, out: &mut impl PeerEffects) {
        for act in acts.0 {
            match act {
                Act::Put { point, number, text, offers, location, digest } => {
                    let region = !self.rings.table().members.contains_key(&point);
                    self.say(
                        point,
                        PeerWord::Put(Put { number, offers, region, text, location, digest }),
                        out,
                    );
                }
                Act::Take { point, number } => self.say(point, PeerWord::Take { number }, out),
                Act::Start(number, meeting) if number < PROXIED => out.start(number, &meeting),
                Act::Stop(number, meeting) if number < PROXIED => out.stop(number, &meeting),
                Act::Start(number, Meeting { topic, other, .. }) => {
                    self.pass_on(number, Said::Met(topic, other), out);
                }
                Act::Stop(number, meeting) => self.pass_on(number, Said::Parted(meeting.topic), out),
            }
        }
    }

    /// What the points of this region say, for who is in another one.
    fn pass_on(&mut self, proxy: u64, said: Said, out: &mut impl PeerEffects) {
        if let Some(Party { peer, number }) = self.proxies.get(&proxy).map(|proxied| proxied.party) {
            self.say(peer, PeerWord::Said { number, said }, out);
        }
    }

    fn tell(&mut self, told: Vec<(Party, Said)>, out: &mut impl PeerEffects) {
        for (Party { peer, number }, said) in told {
            self.say(peer, PeerWord::Said { number, said }, out);
        }
    }

    fn say(&mut self, to: RingId, word: PeerWord, out: &mut impl PeerEffects) {
        if to == self.rings.own().id.ring {
            return self.queue.push_back(word);
        }
        let masters = self.rings.tree().masters();
        let member = self.rings.table().members.get(&to).or_else(|| masters.get(&to).copied());
        if let Some(member) = member.or_else(|| self.known.get(&to)).or_else(|| self.strangers.get(to)) {
            out.send(member, &word);
        }
    }
}

fn checked(text: &str) -> Result<&str, PutError> {
    if text.len() > TEXT_BYTES_MAX { Err(PutError::TooLong(text.len())) } else { Ok(text) }
}

/// What is to be said and done for what was put.
enum Act {
    Put { point: RingId, number: u64, text: String, offers: bool, location: Option<Location>, digest: u128 },
    Take { point: RingId, number: u64 },
    Start(u64, Meeting),
    Stop(u64, Meeting),
}

#[derive(Default)]
struct Acts(Vec<Act>);

impl Carry for Acts {
    fn put(&mut self, point: RingId, number: u64, text: &str, post: &Post, digest: u128) {
        let (offers, location) = match post {
            Post::Offer(profile) => (true, profile.location()),
            Post::Want(_) => (false, None),
        };
        self.0.push(Act::Put { point, number, text: text.to_owned(), offers, location, digest });
    }

    fn take(&mut self, point: RingId, number: u64) {
        self.0.push(Act::Take { point, number });
    }

    fn start(&mut self, number: u64, meeting: &Meeting) {
        self.0.push(Act::Start(number, meeting.clone()));
    }

    fn stop(&mut self, number: u64, meeting: &Meeting) {
        self.0.push(Act::Stop(number, meeting.clone()));
    }
}

/// The outside, as the overlay sees it.
struct Through<'a, E> {
    out: &'a mut E,
    news: &'a mut Vec<News>,
}

impl<E: PeerEffects> Effects for Through<'_, E> {
    fn send(&mut self, to: &Member, frame: Frame) {
        self.out.send(to, &PeerWord::Overlay(frame));
    }

    fn send_to_address(&mut self, address: &str, frame: Frame) {
        self.out.send_to_address(address, &PeerWord::Overlay(frame));
    }

    fn tell(&mut self, news: News) {
        self.news.push(news);
    }
}
