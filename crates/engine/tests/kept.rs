//! Peers with what they keep: what was confirmed is there whichever peers die, all copies are the same, and nothing is where it does not belong.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

use contract::{Location, Mutant, RingId, Span, Time};
use engine::{Note, Peer, PeerEffects, PeerWord, Where};
use overlay::{Member, News, PeerId, Rings, Settings};
use rendezvous::{Kind, Meeting, Profile, Space, Topic};
use simulation::peers::{Inhabitant, Letters, SETTLES, SIDE, World, Wrong, at, check, people};
use simulation::{seeds, wrong_in};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use store::{Answer, Item, ItemId, Limits, Query, Version};

const KEPT: Limits = Limits { items: 10_000, bytes: 1 << 20 };
/// How often it is looked what runs.
const STEP: Span = Span::millis(100);
/// How long a function may run nowhere while regions are split and joined: until copies are compared again.
const REARRANGES: Span = Span::secs(22);
/// How long a disk takes.
const SYNCS: Span = Span::millis(8);

fn space() -> Space {
    Space::new(&[("kind", Kind::Words), ("sensor", Kind::Words)], false).unwrap()
}

#[derive(Default)]
struct Disk {
    things: BTreeMap<ItemId, (Item, Time)>,
    /// Tickets, and when they are on disk.
    tickets: VecDeque<(Time, u64)>,
    answers: BTreeMap<u64, Answer>,
    /// The functions that run here.
    runs: BTreeSet<String>,
    /// Whether it runs those that have to be at the core, and not those at the edge.
    is_core: bool,
    notes: Vec<(u64, Note)>,
}

/// A peer in the world, and its disk.
struct Host {
    peer: Peer,
    disk: Disk,
}

struct Writing<'a>(&'a mut Letters<PeerWord>, &'a mut Disk);

impl PeerEffects for Writing<'_> {
    fn send(&mut self, to: &Member, word: &PeerWord) {
        self.0.sent.push((Some(to.id), to.address.clone(), word.clone()));
    }

    fn send_to_address(&mut self, address: &str, word: &PeerWord) {
        self.0.sent.push((None, address.to_owned(), word.clone()));
    }

    fn start(&mut self, _number: u64, _meeting: &Meeting) {}

    fn stop(&mut self, _number: u64, _meeting: &Meeting) {}

    fn refused(&mut self, _number: u64, _topic: Topic, _why: &str) {}

    fn tell(&mut self, news: &News) {
        self.0.told.push(news.clone());
    }

    fn write(&mut self, id: ItemId, item: &Item, until: Time) {
        self.1.things.insert(id, (item.clone(), until));
    }

    fn erase(&mut self, id: ItemId) {
        self.1.things.remove(&id);
    }

    fn value(&self, id: ItemId) -> Option<Arc<[u8]>> {
        self.1.things.get(&id)?.0.value.clone()
    }

    fn answer(&mut self, request: u64, answer: Answer) {
        self.1.answers.insert(request, answer);
    }

    fn noted(&mut self, number: u64, note: &Note) {
        self.1.notes.push((number, note.clone()));
    }

    fn load(&self, at: Where, runs: usize) -> Option<u32> {
        self.1.may_run(at).then(|| u32::try_from(runs).unwrap())
    }
}

impl Disk {
    fn may_run(&self, at: Where) -> bool {
        match at {
            Where::Anywhere => true,
            Where::Edge => !self.is_core,
            Where::Core => self.is_core,
        }
    }
}

impl Host {
    fn act<T>(
        &mut self,
        now: Time,
        out: &mut Letters<PeerWord>,
        act: impl FnOnce(&mut Peer, &mut Writing<'_>) -> T,
    ) -> T {
        let Host { peer, disk } = self;
        let result = act(peer, &mut Writing(out, disk));
        if let Some(ticket) = peer.take_ticket() {
            disk.tickets.push_back((now + SYNCS, ticket));
        }
        if let Some(duties) = peer.take_duties(now, &mut Writing(out, disk)) {
            disk.runs = duties.iter().map(|duty| duty.name.to_string()).collect();
        }
        if let Some(ticket) = peer.take_ticket() {
            disk.tickets.push_back((now + SYNCS, ticket));
        }
        result
    }
}

/// Each third is.
fn is_core(member: &Member) -> bool {
    member.id.ring.to_bytes()[19].is_multiple_of(3)
}

impl Inhabitant for Host {
    type Word = PeerWord;

    /// A host that comes back has lost its disk.
    fn begin(settings: &Settings, own: Member, now: Time) -> Host {
        let disk = Disk { is_core: is_core(&own), ..Disk::default() };
        Host { peer: Peer::new(settings.clone(), &space(), own, KEPT, now), disk }
    }

    fn rings(&self) -> &Rings {
        self.peer.rings()
    }

    fn hear(&mut self, now: Time, from: &Member, word: PeerWord, out: &mut Letters<PeerWord>) {
        let mut bytes = Vec::new();
        word.append_to(&mut bytes);
        let word = PeerWord::decode(&bytes).unwrap();
        self.act(now, out, |peer, out| peer.handle_word(now, from, word, out));
    }

    fn lose(&mut self, now: Time, lost: PeerId, out: &mut Letters<PeerWord>) {
        self.act(now, out, |peer, out| peer.handle_lost(now, lost, out));
    }

    fn meet(&mut self, now: Time, met: PeerId, out: &mut Letters<PeerWord>) {
        self.act(now, out, |peer, out| peer.handle_link(now, met, out));
    }

    fn wake(&mut self, now: Time, out: &mut Letters<PeerWord>) {
        while let Some((_, ticket)) = self.disk.tickets.front().copied().filter(|(at, _)| *at <= now) {
            self.disk.tickets.pop_front();
            self.act(now, out, |peer, out| peer.handle_synced(now, ticket, &Ok(()), out));
        }
        self.act(now, out, |peer, out| peer.handle_timeout(now, out));
    }

    fn next_deadline(&self) -> Time {
        let disk = self.disk.tickets.front().map_or(Time::NEVER, |(at, _)| *at);
        self.peer.next_deadline().min(disk)
    }

    fn move_to(&mut self, now: Time, location: Location, out: &mut Letters<PeerWord>) {
        self.act(now, out, |peer, out| peer.handle_moved(now, location, out));
    }

    fn leave(&mut self, now: Time, out: &mut Letters<PeerWord>) {
        self.act(now, out, |peer, out| peer.handle_leave(now, out));
    }
}

const KINDS: [&str; 3] = ["drone", "car", "mast"];
const SENSORS: [&str; 3] = ["lidar", "light", "radar"];

/// A value; none: it was deleted.
type Value = Option<Arc<[u8]>>;

/// What is known of a key: what was confirmed last, and what was put since of which nobody knows whether it is kept.
#[derive(Default)]
struct Known {
    confirmed: Option<Value>,
    perhaps: Vec<Value>,
}

/// What is known of a function.
struct Function {
    location: Location,
    at: Where,
    /// Who has added it.
    by: usize,
    /// Whether it was confirmed that it is there, or is not; `None`: nobody knows.
    is_there: Option<bool>,
}

struct Play {
    world: World<Host>,
    known: BTreeMap<String, Known>,
    /// What is under way: by whom, under which number, of which key, and what.
    asked: Vec<(usize, u64, String, Value)>,
    functions: BTreeMap<String, Function>,
    asked_functions: Vec<(usize, u64, String, bool)>,
    numbers: u64,
    wrong: Wrong,
}

impl Play {
    fn new(seed: u64) -> Play {
        let mut play = Play::empty(seed);
        people(&mut play.world);
        play.world.run_for(SETTLES);
        play
    }

    fn empty(seed: u64) -> Play {
        let world: World<Host> = World::new(seed);
        let (known, functions) = (BTreeMap::new(), BTreeMap::new());
        let (asked, asked_functions) = (Vec::new(), Vec::new());
        Play { world, known, asked, functions, asked_functions, numbers: 0, wrong: Vec::new() }
    }

    fn alive(&self) -> Vec<usize> {
        (0..self.world.players.len()).filter(|of| self.world.players[*of].node.is_some()).collect()
    }

    fn disk(&self, of: usize) -> &Disk {
        &self.world.players[of].node.as_ref().unwrap().disk
    }

    /// Puts something, or deletes it, somewhere. One key is put once at a time, so that it is known what has to be there.
    fn put(&mut self) {
        let random = &mut self.world.random;
        let [lat, long] = [random.u8(..4), random.u8(..4)].map(|step| f64::from(step) * SIDE / 4.0 + 1.0);
        let (kind, sensor) = (random.choice(KINDS).unwrap(), random.choice(SENSORS).unwrap());
        let key = format!("{kind}, {sensor}, lat={lat}, long={long}");
        let deletes = random.u8(..5) == 0;
        let Some(of) = self.world.random.choice(self.alive()) else { return };
        if self.asked.iter().any(|(_, _, asked, _)| *asked == key) {
            return;
        }
        self.numbers += 1;
        let number = self.numbers;
        let value: Value = (!deletes).then(|| number.to_string().as_bytes().into());
        self.world.with(of, |host, now, out| {
            let put = (key.as_str(), value.clone());
            host.act(now, out, |peer, out| peer.keep(now, number, put, Span::FOREVER, out)).unwrap();
        });
        self.known.entry(key.clone()).or_default().perhaps.push(value.clone());
        self.asked.push((of, number, key, value));
    }

    /// Adds a function somewhere, or has who has added one remove it.
    fn put_function(&mut self) {
        self.numbers += 1;
        let number = self.numbers;
        let known =
            self.functions.iter().find(|(_, of)| of.is_there == Some(true) && self.alive().contains(&of.by));
        let removed = known.map(|(name, known)| (name.clone(), known.by));
        let (name, of, is_there) = match removed {
            Some((name, of)) if self.world.random.u8(..3) == 0 => (name, of, false),
            _ => {
                let Some(of) = self.world.random.choice(self.alive()) else { return };
                (format!("f{number}"), of, true)
            }
        };
        let location = self.world.players[of].member.location;
        let at = [Where::Anywhere, Where::Anywhere, Where::Edge, Where::Core];
        let at = self.world.random.choice(at).unwrap();
        let text = is_there.then_some((at, name.as_bytes()));
        self.world.with(of, |host, now, out| {
            host.act(now, out, |peer, out| peer.keep_function(now, number, (&name, text), out)).unwrap();
        });
        self.functions.insert(name.clone(), Function { location, at, by: of, is_there: None });
        self.asked_functions.push((of, number, name, is_there));
    }

    fn hear_of_functions(&mut self) {
        for (of, number, name, is_there) in std::mem::take(&mut self.asked_functions) {
            let Some(host) = self.world.players[of].node.as_mut() else { continue };
            match host.disk.answers.remove(&number) {
                None => self.asked_functions.push((of, number, name, is_there)),
                Some(Answer::Done(..)) => {
                    self.functions.entry(name).and_modify(|known| known.is_there = Some(is_there));
                }
                Some(_) => {}
            }
        }
    }

    /// Time passes in which nobody dies: a function goes on while others come to whom it falls.
    fn watch_functions(&mut self, span: Span, most: Span) {
        let mut missed: BTreeMap<String, i64> = BTreeMap::new();
        for _ in 0..span.0 / STEP.0 {
            self.world.run_for(STEP);
            self.hear_of_functions();
            for (name, function) in &self.functions {
                let runs = self.alive().into_iter().any(|of| self.disk(of).runs.contains(name));
                let missed = missed.entry(name.clone()).or_default();
                let may_miss = runs || function.is_there != Some(true) || !self.may_run(function);
                *missed = if may_miss { 0 } else { *missed + 1 };
                if *missed == most.0 / STEP.0 {
                    self.wrong.push(("gaps", format!("{name} has run nowhere for {most}")));
                }
            }
        }
    }

    /// Whether any peer of its region may run a function.
    fn may_run(&self, function: &Function) -> bool {
        let members = self.owners_of_all(function.location);
        let alive = self.alive().into_iter();
        let mut here = alive.filter(|of| members.contains(&self.world.players[*of].member.id.ring));
        here.any(|of| self.disk(of).may_run(function.at))
    }

    /// Each function that was confirmed runs at one peer that may run it, if there is any, and none runs at two.
    fn check_functions(&mut self) {
        for (name, function) in &self.functions {
            let run: Vec<usize> =
                self.alive().into_iter().filter(|of| self.disk(*of).runs.contains(name)).collect();
            let (runs, may) = (run.len(), self.may_run(function));
            let right = match function.is_there {
                Some(true) => runs == usize::from(may),
                Some(false) => runs == 0,
                None => runs <= 1,
            };
            if !right || !run.iter().all(|of| self.disk(*of).may_run(function.at)) {
                let known = function.is_there;
                self.wrong.push((
                    "functions",
                    format!("{name}, of which is known {known:?}, runs at {run:?} (it may: {may})"),
                ));
            }
        }
    }

    /// Hears what was answered. Returns whether something was confirmed.
    fn hear(&mut self) -> bool {
        let mut confirmed = false;
        for (of, number, key, value) in std::mem::take(&mut self.asked) {
            let Some(host) = self.world.players[of].node.as_mut() else { continue };
            match host.disk.answers.remove(&number) {
                None => self.asked.push((of, number, key, value)),
                Some(Answer::Done(..)) => {
                    confirmed = true;
                    let known = self.known.entry(key).or_default();
                    *known = Known { confirmed: Some(value), perhaps: Vec::new() };
                }
                Some(_) => {}
            }
        }
        confirmed
    }

    /// Who has to have what is at a place, as a member of the region says where it is.
    fn owners(&self, place: RingId, location: Location) -> Vec<RingId> {
        self.first_from(place, location, self.world.settings.least)
    }

    fn owners_of_all(&self, location: Location) -> Vec<RingId> {
        self.first_from(RingId::MIN, location, usize::MAX)
    }

    fn first_from(&self, place: RingId, location: Location, count: usize) -> Vec<RingId> {
        let cell = self.world.settings.extent.cell_of(location);
        let inside = self.world.alive().find(|(_, rings)| rings.region().contains(cell));
        let owners = |rings: &Rings| {
            let owners = rings.table().owners(place, count);
            owners.map(|member| member.id.ring).collect()
        };
        inside.map(|(_, rings)| owners(rings)).unwrap_or_default()
    }

    /// Kills all but one at once of so many peers as have to have everything that was confirmed.
    fn kill(&mut self) {
        let space = space();
        let kept = self.known.iter().filter(|(_, known)| known.confirmed.is_some());
        let owners = kept.map(|(key, _)| {
            let profile = Profile::read(&space, key).unwrap();
            self.owners(space.place_of(&profile), profile.location().unwrap()).len()
        });
        let functions = self.functions.iter().filter(|(_, function)| function.is_there.is_some());
        let of_functions =
            functions.map(|(name, of)| self.owners(store::place_by_hash(name), of.location).len());
        let most = owners.chain(of_functions).min().unwrap_or(self.world.settings.least).saturating_sub(1);
        for _ in 0..most {
            let alive = self.alive();
            let Some(of) = self.world.random.choice(alive) else { return };
            self.world.kill(of, false);
            self.asked.retain(|(asked, ..)| *asked != of);
            self.asked_functions.retain(|(asked, ..)| *asked != of);
        }
    }

    fn start(&mut self) {
        let of = self.world.random.usize(..self.world.players.len());
        self.world.start(of);
    }

    /// Asks some peer, and returns what it answers.
    fn ask(&mut self, ask: impl FnOnce(&mut Peer, Time, u64, &mut Writing<'_>)) -> Answer {
        self.numbers += 1;
        let number = self.numbers;
        let of = self.world.random.choice(self.alive()).unwrap();
        self.world.with(of, |host, now, out| host.act(now, out, |peer, out| ask(peer, now, number, out)));
        self.world.run_for(Span::secs(5));
        self.world.players[of].node.as_mut().unwrap().disk.answers.remove(&number).expect("an answer")
    }

    fn check_values(&mut self) {
        let known: Vec<(String, Known)> = std::mem::take(&mut self.known).into_iter().collect();
        let mut there = 0;
        for (key, Known { confirmed, perhaps }) in &known {
            let may: Vec<Value> = confirmed.iter().cloned().chain(perhaps.iter().cloned()).collect();
            let answer = self.ask(|peer, now, number, out| peer.fetch(now, number, key, out).unwrap());
            match answer {
                Answer::Got(item) => {
                    there += usize::from(item.is_some());
                    let value = item.and_then(|item| item.value);
                    if !may.contains(&value) && (confirmed.is_some() || value.is_some()) {
                        self.wrong.push(("values", format!("{key}: {value:?} instead of one of {may:?}")));
                    }
                }
                other => self.wrong.push(("answers", format!("{key}: {other:?}"))),
            }
        }
        let interest = format!("lat=0..{SIDE}, long=0..{SIDE}");
        let query = Query { interest, after: None, limit: 1_000, values: true };
        match self.ask(|peer, now, number, out| peer.look(now, number, &query, out).unwrap()) {
            Answer::Found { items, next: None, silent: 0 }
                if items.len() == there && items.iter().all(|item| item.value.is_some()) => {}
            Answer::Found { items, next, silent } => {
                let found = (items.len(), next, silent);
                self.wrong.push(("queries", format!("{found:?}, and {there} are there")));
            }
            other => self.wrong.push(("queries", format!("{other:?}"))),
        }
    }

    /// Everything is on the disks of those who have to have it, the same, and on no others.
    fn check_copies(&mut self) {
        let alive = self.alive();
        let mut holders: BTreeMap<ItemId, BTreeMap<RingId, Version>> = BTreeMap::new();
        for of in &alive {
            let ring = self.world.players[*of].member.id.ring;
            for (id, (item, _)) in &self.disk(*of).things {
                holders.entry(*id).or_default().insert(ring, item.version);
            }
        }
        for (id, has) in holders {
            let location = alive
                .iter()
                .find_map(|of| self.disk(*of).things.get(&id).map(|(item, _)| item.location))
                .unwrap();
            let owners = self.owners(id.place, location);
            let same = has.values().all(|version| Some(version) == has.values().next());
            if !same || has.len() != owners.len() || !owners.iter().all(|owner| has.contains_key(owner)) {
                self.wrong.push(("copies", format!("{id:?} is at {has:?} and belongs to {owners:?}")));
            }
        }
    }
}

/// One world in which things are put and peers die, come back without their disks, and come anew. What is wrong in the end.
fn play(seed: u64) -> Wrong {
    let mut play = Play::new(seed);
    for _ in 0..play.world.random.usize(4..12) {
        for _ in 0..play.world.random.usize(1..12) {
            if play.world.random.u8(..4) == 0 {
                play.put_function();
            } else {
                play.put();
            }
            let wait = play.world.random.i64(0..40);
            play.world.run_for(Span::millis(wait));
            play.hear_of_functions();
            // Right after something was confirmed is the worst moment.
            if play.hear() && play.world.random.u8(..6) == 0 {
                break;
            }
        }
        match play.world.random.u8(..4) {
            0 | 1 => play.kill(),
            2 => play.start(),
            _ => {
                let (lat, long) = (play.world.random.f64() * SIDE, play.world.random.f64() * SIDE);
                let of = play.world.add(at(lat, long));
                play.world.start(of);
            }
        }
        // Copies are made anew before others die.
        play.world.run_for(Span::secs(5));
        play.hear();
        play.hear_of_functions();
        // Contacts come back: without any, who comes anew finds nobody.
        (0..3.min(play.world.players.len())).for_each(|contact| play.world.start(contact));
        play.watch_functions(SETTLES, REARRANGES);
    }
    let mut wrong = check(&play.world);
    play.check_copies();
    play.check_functions();
    play.check_values();
    wrong.append(&mut play.wrong);
    wrong
}

/// One world of one region, in which peers die and come back. Functions go on while others come to whom they fall.
fn come_back(seed: u64) -> Wrong {
    let mut play = Play::empty(seed);
    for _ in 0..4 {
        let of = play.world.add(at(10.0, 10.0));
        play.world.start(of);
    }
    play.world.run_for(SETTLES);
    for _ in 0..6 {
        (0..3).for_each(|_| play.put_function());
        play.world.run_for(Span::secs(1));
        play.hear_of_functions();
        let of = play.world.random.usize(..4);
        play.world.kill(of, false);
        play.asked_functions.retain(|(asked, ..)| *asked != of);
        let wait = play.world.random.i64(10..10_000);
        play.world.run_for(Span::secs(6) + Span::millis(wait));
        play.world.start(of);
        play.watch_functions(Span::secs(12), Span::secs(1));
    }
    play.check_functions();
    play.wrong
}

/// One world of one region, in which a peer is cut off or stands still for so long that another one takes over, and goes on afterwards.
fn heal(seed: u64) -> Wrong {
    let mut play = Play::empty(seed);
    for _ in 0..4 {
        let of = play.world.add(at(10.0, 10.0));
        play.world.start(of);
    }
    play.world.run_for(SETTLES);
    (0..8).for_each(|_| play.put_function());
    play.world.run_for(Span::secs(1));
    play.hear_of_functions();
    for _ in 0..3 {
        let of = play.world.random.usize(..4);
        let span = Span::secs(6) + Span::millis(play.world.random.i64(0..14_000));
        if play.world.random.bool() {
            play.world.players[of].part = 1;
            play.world.run_for(span);
            play.world.players[of].part = 0;
        } else {
            play.world.players[of].stopped_until = play.world.now + span;
            play.world.run_for(span);
        }
        // Copies are compared once more within this.
        play.world.run_for(SETTLES + REARRANGES);
        play.check_functions();
    }
    play.wrong
}

/// One world of one region, in which functions are added one after the other: none is given to who has more to do than another.
fn level(seed: u64) -> Wrong {
    let mut play = Play::empty(seed);
    for _ in 0..4 {
        let of = play.world.add(at(10.0, 10.0));
        play.world.start(of);
    }
    play.world.run_for(SETTLES);
    for number in 0..30 {
        play.say_of(number, true);
        play.world.run_for(Span::secs(2));
        play.check_level(number + 1);
    }
    // Who is told to end one does so at once.
    for number in 0..30 {
        play.say_of(number, false);
    }
    play.world.run_for(Span::secs(1));
    play.check_level(0);
    // Who is asked for several at once counts those that it was given meanwhile.
    for number in 30..60 {
        play.say_of(number, true);
    }
    play.world.run_for(Span::secs(3));
    let (_, most) = play.runs();
    if most > 16 {
        play.wrong.push(("level", format!("of 30 that came at once one runs {most}")));
    }
    play.wrong
}

impl Play {
    /// Some peer is asked to keep a function, or to remove it.
    fn say_of(&mut self, number: u64, is_there: bool) {
        let of = self.world.random.choice(self.alive()).unwrap();
        let name = format!("f{number}");
        self.world.with(of, |host, now, out| {
            let text = is_there.then_some((Where::Anywhere, &b""[..]));
            host.act(now, out, |peer, out| peer.keep_function(now, number, (&name, text), out)).unwrap();
        });
    }

    /// How many functions the peers run that run the fewest and the most.
    fn runs(&self) -> (usize, usize) {
        let runs = || self.alive().into_iter().map(|of| self.disk(of).runs.len());
        (runs().min().unwrap(), runs().max().unwrap())
    }

    fn check_level(&mut self, count: u64) {
        let ((least, most), all) = (self.runs(), self.alive().into_iter().map(|of| self.disk(of).runs.len()));
        let all: usize = all.sum();
        if most - least > 1 || all as u64 != count {
            self.wrong.push(("level", format!("of {count}, they run {least} to {most}, and {all} in all")));
        }
    }
}

#[test]
fn functions_are_given_to_who_has_the_least_to_do() {
    assert_eq!(wrong_in(seeds(3), level), []);
}

#[test]
fn after_a_cut_a_function_runs_once_again() {
    assert_eq!(wrong_in(seeds(10), heal), []);
}

#[test]
fn a_function_goes_on_while_the_peer_comes_back_to_which_it_falls() {
    assert_eq!(wrong_in(seeds(20), come_back), []);
}

#[test]
fn what_was_confirmed_is_there_whichever_peers_die() {
    assert_eq!(wrong_in(seeds(40), play), []);
}

/// Page by page everything comes once, whatever the pages are.
#[test]
fn pages_have_everything_once() {
    for limit in [1, 3, 7, 100] {
        let mut play = Play::new(u64::try_from(limit).unwrap());
        for _ in 0..30 {
            play.put();
            play.world.run_for(Span::millis(200));
        }
        play.world.run_for(Span::secs(5));
        play.hear();
        let kept = |known: &&Known| matches!(known.confirmed, Some(Some(_)));
        let expected = play.known.values().filter(kept).count();
        let (mut keys, mut after) = (Vec::new(), None);
        loop {
            let interest = format!("lat=0..{SIDE}, long=0..{SIDE}");
            let query = Query { interest, after, limit, values: false };
            let answer = play.ask(|peer, now, number, out| peer.look(now, number, &query, out).unwrap());
            let Answer::Found { items, next, silent: 0 } = answer else { panic!("{answer:?}") };
            assert!(
                items.len() <= limit && items.iter().all(|item| item.size.is_some() && item.value.is_none())
            );
            keys.extend(items.iter().map(|item| item.key.to_string()));
            after = next;
            if after.is_none() {
                break;
            }
        }
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!((keys.len(), count), (expected, expected), "pages of {limit}");
    }
}

#[test]
fn what_the_store_must_not_do_is_noticed() {
    for (mutant, checkers) in [
        (Mutant::ConfirmAlone, &["values"][..]),
        (Mutant::NeverCompare, &["copies", "values"]),
        (Mutant::LeaveUnseen, &["values", "copies"]),
        (Mutant::RunEveryCopy, &["functions"]),
    ] {
        Mutant::switch(Some(mutant));
        let noticed = (0..200).any(|seed| play(seed).iter().any(|(name, _)| checkers.contains(name)));
        Mutant::switch(None);
        assert!(noticed, "{mutant:?}");
    }
    for (mutant, world, checker) in [
        (Mutant::KeepTheDead, come_back as fn(u64) -> Wrong, "gaps"),
        (Mutant::HireForever, heal, "functions"),
    ] {
        Mutant::switch(Some(mutant));
        let noticed = (0..20).any(|seed| world(seed).iter().any(|(name, _)| *name == checker));
        Mutant::switch(None);
        assert!(noticed, "{mutant:?}");
    }
}
