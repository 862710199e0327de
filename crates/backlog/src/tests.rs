//! Two sites and a way between them that breaks: whatever is kept where it was published comes to who wants it elsewhere, once.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]
#![allow(clippy::disallowed_methods, reason = "VERGE_SEED and VERGE_SEEDS choose other runs")]

use crate::{
    Answering, Ask, Asking, AskingSettings, Beat, Handed, HandedOn, Hands, Item, Kept, LogEnd, Logs, Looked,
    Part, Place, Progress, Want,
};
use contract::{Mutant, Span, Time, TopicFilter};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const LOG: &str = "plant/#";
const STEP: Span = Span::millis(20);
const WAY: Span = Span::millis(40);
/// What was handed on has left.
const LEAVING: Span = Span::millis(100);
/// Journals say nothing of themselves before.
const QUIET: Span = Span::secs(3);
/// The clock of the publishing site is ahead by so much.
const AHEAD: Span = Span::secs(3_600);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Message {
    topic: String,
    life: u64,
    seq: u64,
}

/// A journal of the publishing site, and the keeper beside it.
struct Journal {
    number: u64,
    items: Vec<(Message, Time)>,
    /// Its end a while ago, by time.
    ends: VecDeque<(Time, u64)>,
    answering: Answering,
    up: bool,
    /// Since when it is up without a break.
    began: Time,
}

impl Logs for Journal {
    fn younger(&mut self, _log: &str, span: Span) -> u64 {
        assert_eq!(span, Span::ZERO);
        self.items.len() as u64
    }

    fn read(
        &mut self,
        log: &str,
        after: u64,
        items: usize,
        each: &mut dyn FnMut(&Kept<'_>) -> bool,
    ) -> Looked {
        assert_eq!(log, LOG);
        let mut at = after;
        for (message, created) in self.items.iter().skip(after as usize).take(items) {
            at += 1;
            let Message { topic, life, seq } = message;
            let payload = seq.to_le_bytes();
            let item = Item {
                topic,
                publisher: "plc",
                life: *life,
                seq: *seq,
                created: *created,
                flags: (seq % 3) as u8,
                payload: &payload,
            };
            if !each(&Kept { position: at, item }) {
                break;
            }
        }
        Looked { to: at, is_end: at >= self.items.len() as u64 }
    }
}

/// What goes over the way.
enum Word {
    Live(Message),
    Beat(Beat),
    Part(Vec<u8>, Time),
    Ask(Vec<u8>),
}

/// What a keeper of the receiving site does.
#[derive(Default)]
struct Did {
    asks: Vec<Vec<u8>>,
    handed: Vec<(Message, u64, u64)>,
    told: Vec<Vec<u8>>,
    places: Vec<(u64, String, u64)>,
    wrong: Vec<String>,
    now: Time,
    /// Nothing can be told to the other keeper now.
    is_mute: bool,
}

impl Hands for Did {
    fn ask(&mut self, _origin: &str, ask: &Ask) {
        self.asks.push(ask.encode());
    }
    fn hand_on(&mut self, message: &HandedOn<'_>) -> Handed {
        let item = &message.item;
        let age = self.now.since(message.created);
        let is_whole = item.payload == item.seq.to_le_bytes() && u64::from(item.flags) == item.seq % 3;
        if !is_whole || age < Span::ZERO || age > Span::secs(10_000) {
            self.wrong.push(format!("{} {} is {age} old", item.topic, item.seq));
        }
        let what = Message { topic: item.topic.to_owned(), life: item.life, seq: item.seq };
        self.handed.push((what, message.life, message.seq));
        Handed::On
    }
    fn remember(&mut self, place: &Place<'_>) {
        self.places.push((place.journal, place.log.to_owned(), place.position));
    }
    fn tell(&mut self, progress: &Progress) -> bool {
        if !self.is_mute {
            self.told.push(progress.encode());
        }
        !self.is_mute
    }
}

struct Keeper {
    asking: Asking,
    places: BTreeMap<(u64, String), u64>,
    up: bool,
}

struct World {
    now: Time,
    random: fastrand::Rng,
    journals: Vec<Journal>,
    keepers: Vec<Keeper>,
    /// Bytes in a second that the receiving site takes: in an eighth of these worlds less than journals send.
    takes: u64,
    /// How old what journals say to have is, in steps.
    lag: usize,
    acting: usize,
    way_is_up: bool,
    /// One message in so many is lost by itself.
    losses: u32,
    /// By whether they go to the receiving site.
    under_way: [VecDeque<(Time, Word)>; 2],
    /// The journal of which something was handed on last.
    hands_on: u64,
    /// What came just before the acting keeper died.
    just_came: BTreeSet<Message>,
    /// What of it may come again: the journal that it came from has gone as well.
    forgiven: BTreeSet<Message>,
    /// What was handed on and has not left.
    leaving: VecDeque<(Time, (Message, u64, u64))>,
    next: BTreeMap<String, (u64, u64, Time)>,
    published: BTreeSet<Message>,
    /// What came live, and when, by a clock that nobody sets.
    live: BTreeMap<Message, Span>,
    /// The receiving site stands still.
    stands_still: bool,
    /// Since when it did, when whoever subscribes there is back, and until when what comes live may come again; by that clock as well.
    doubtful: Vec<(Span, Span, Span)>,
    /// By the numbers under which it came.
    missed: BTreeMap<(String, u64, u64), (Message, u64)>,
    wrong: Vec<String>,
    /// What has happened, and when.
    story: Vec<String>,
    tick: u64,
}

fn wanted() -> Vec<TopicFilter> {
    vec!["plant/+/x".parse().unwrap()]
}

impl World {
    fn new(seed: u64) -> World {
        let now = Time(1_000_000_000_000_000);
        let journal = |number| Journal {
            number,
            items: Vec::new(),
            ends: VecDeque::new(),
            answering: Answering::new(200_000),
            up: true,
            began: Time(number),
        };
        let mut world = World {
            now,
            random: fastrand::Rng::with_seed(seed),
            journals: vec![journal(11), journal(22)],
            keepers: Vec::new(),
            takes: if seed % 8 == 7 { 100_000 } else { 0 },
            lag: 50,
            acting: 0,
            way_is_up: true,
            losses: 0,
            under_way: Default::default(),
            hands_on: 0,
            just_came: BTreeSet::new(),
            forgiven: BTreeSet::new(),
            leaving: VecDeque::new(),
            next: BTreeMap::new(),
            published: BTreeSet::new(),
            live: BTreeMap::new(),
            stands_still: false,
            doubtful: Vec::new(),
            missed: BTreeMap::new(),
            wrong: Vec::new(),
            story: Vec::new(),
            tick: 0,
        };
        for _ in 0..2 {
            let keeper = world.keeper(BTreeMap::new());
            world.keepers.push(keeper);
        }
        for number in 0..4 {
            world.next.insert(format!("plant/{number}/x"), (1, 0, now));
        }
        world.next.insert("plant/4/y".to_owned(), (1, 0, now));
        world
    }

    fn keeper(&self, places: BTreeMap<(u64, String), u64>) -> Keeper {
        let settings = AskingSettings { history: Span::ZERO, began: self.now, takes: self.takes };
        let mut asking = Asking::new(settings, self.now);
        for ((journal, log), position) in &places {
            let (journal, position) = (*journal, *position);
            asking.restore(&Place { origin: "north", journal, log, position });
        }
        asking.want(self.now, wanted(), true);
        Keeper { asking, places, up: true }
    }

    /// A keeper does something, and what comes of it leaves.
    fn with(&mut self, index: usize, act: impl FnOnce(&mut Asking, Time, &mut Did)) {
        let mut act = Some(act);
        self.with_any(index, &mut |asking, now, did| act.take().unwrap()(asking, now, did));
    }

    fn with_any(&mut self, index: usize, act: &mut dyn FnMut(&mut Asking, Time, &mut Did)) {
        if !self.keepers[index].up {
            return;
        }
        let is_mute = self.random.u32(0..24) == 0;
        let mut did = Did { now: self.now, is_mute, ..Did::default() };
        act(&mut self.keepers[index].asking, self.now, &mut did);
        let places = did.places.into_iter().map(|(journal, log, position)| ((journal, log), position));
        self.keepers[index].places.extend(places);
        self.wrong.append(&mut did.wrong);
        did.asks.into_iter().for_each(|ask| self.send(0, Word::Ask(ask)));
        let at = self.now + LEAVING;
        self.leaving.extend(did.handed.into_iter().map(|handed| (at, handed)));
        for told in did.told {
            let progress = Progress::decode(&told).unwrap();
            if let Progress::HandsOn { journal, .. } = progress {
                self.hands_on = journal;
            }
            let mut hear =
                |asking: &mut Asking, now, did: &mut Did| asking.hear_progress(now, progress.clone(), did);
            self.with_any(1 - index, &mut hear);
        }
    }

    fn send(&mut self, direction: usize, word: Word) {
        if !self.way_is_up || self.losses > 0 && self.random.u32(0..self.losses) == 0 {
            return;
        }
        self.under_way[direction].push_back((self.now + WAY, word));
    }

    fn publish(&mut self) {
        let now = self.now;
        let topics: Vec<String> = self.next.keys().cloned().collect();
        for topic in topics {
            let due = self.next[&topic].2 <= now;
            if !due {
                continue;
            }
            let begins_anew = self.random.u32(0..600) == 0;
            let wait = Span::millis(self.random.i64(30..200));
            let next = self.next.get_mut(&topic).unwrap();
            if begins_anew {
                (next.0, next.1) = (next.0 + 1, 0);
            }
            let message = Message { topic: topic.clone(), life: next.0, seq: next.1 };
            (next.1, next.2) = (next.1 + 1, now + wait);
            let mut is_kept = false;
            for journal in self.journals.iter_mut().filter(|journal| journal.up) {
                journal.items.push((message.clone(), now + AHEAD));
                is_kept = true;
            }
            if is_kept && topic.ends_with('x') {
                self.published.insert(message.clone());
                self.send(1, Word::Live(message));
            }
        }
    }

    /// What a clock says that nobody sets.
    fn steady(&self) -> Span {
        STEP * self.tick
    }

    fn step(&mut self) {
        self.now = self.now + STEP;
        self.tick += 1;
        self.publish();
        for direction in 0..2 - usize::from(self.stands_still) {
            while self.under_way[direction].front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, word) = self.under_way[direction].pop_front().unwrap();
                self.arrive(word);
            }
        }
        while !self.stands_still && self.leaving.front().is_some_and(|(at, _)| *at <= self.now) {
            let (_, (message, life, seq)) = self.leaving.pop_front().unwrap();
            self.come(&message, life, seq);
        }
        for index in 0..self.journals.len() {
            self.serve(index);
        }
        if self.tick.is_multiple_of(5) && !self.stands_still {
            (0..2).for_each(|index| self.with(index, |asking, now, did| asking.tick(now, did)));
        }
    }

    /// A keeper of the publishing site goes on.
    fn serve(&mut self, index: usize) {
        let (now, beats) = (self.now, self.tick.is_multiple_of(25));
        let journal = &mut self.journals[index];
        if !journal.up {
            return journal.ends.clear();
        }
        journal.ends.push_back((now, journal.items.len() as u64));
        while journal.ends.len() > self.lag {
            journal.ends.pop_front();
        }
        // Who has just begun knows no end that is old enough.
        let beats = beats && journal.ends.len() == self.lag;
        let mut parts = Vec::new();
        let mut answering = journal.answering.clone();
        answering.work(now + AHEAD, journal, &mut |site, bytes| {
            assert_eq!(site, "south");
            parts.push(bytes.to_vec());
            true
        });
        journal.answering = answering;
        // A keeper looks at its journal ten times in a second.
        let now_ends = journal.ends.iter().rev().nth(5).map_or(0, |(_, end)| *end);
        let logs = vec![LogEnd { log: LOG.into(), end: journal.ends[0].1, now: now_ends }];
        let beat = Beat { journal: journal.number, reigns: index == 0, began: journal.began, logs };
        parts.into_iter().for_each(|part| self.send(1, Word::Part(part, now)));
        if beats && self.steady() >= QUIET {
            self.send(1, Word::Beat(beat));
        }
    }

    fn arrive(&mut self, word: Word) {
        for index in 0..2 {
            match &word {
                Word::Live(Message { topic, life, seq }) => self.with(index, |asking, now, _| {
                    asking.hear_live(now, "north", (topic, "plc@north", *life), *seq);
                }),
                Word::Beat(beat) => {
                    let beat = Beat::decode(&beat.encode()).unwrap();
                    self.with(index, |asking, now, _| asking.hear_beat(now, "north", beat));
                }
                Word::Part(bytes, sent) => self.with(index, |asking, now, did| {
                    asking.hear_part(now, "north", &Part::decode(bytes).unwrap(), *sent, did);
                }),
                Word::Ask(bytes) => {
                    let ask = Ask::decode(bytes).unwrap();
                    let journal = &mut self.journals[index];
                    if journal.number == ask.journal && journal.up {
                        journal.answering.hear("south", ask);
                    }
                }
            }
        }
        if let Word::Live(message) = word {
            let at = self.steady();
            if self.missed.values().any(|(missed, _)| *missed == message) && !self.is_doubtful(at) {
                self.wrong.push(format!("live after it was handed on: {message:?}"));
            }
            // Who subscribes is not back yet after a standstill.
            let is_away = self.doubtful.iter().any(|(from, back, _)| (*from..*back).contains(&at));
            if !is_away {
                self.live.insert(message, at);
            }
        }
    }

    /// Whether a message that came live may come again: it did so just before a standstill, or after it.
    fn is_doubtful(&self, at: Span) -> bool {
        self.doubtful.iter().any(|(from, _, to)| (*from - Span::secs(1)..*to).contains(&at))
    }

    /// The receiving site stands still for a while; who subscribes there goes away meanwhile, and what was under way to him is lost.
    fn stand_still(&mut self) {
        let begin = self.steady();
        self.live.retain(|_, at| *at < begin - Span::millis(200));
        self.stands_still = true;
        let span = Span::millis(self.random.i64(1_000..7_000));
        self.run_for(span);
        self.stands_still = false;
        let end = self.steady();
        self.doubtful.push((begin, end + Span::secs(1), end + Span::secs(6)));
    }

    /// What was missed has come to who wants it.
    fn come(&mut self, message: &Message, life: u64, seq: u64) {
        let came = (message.clone(), self.tick);
        let before = self.missed.insert((message.topic.clone(), life, seq), came).map(|(before, _)| before);
        match before {
            // The same again: it is dropped.
            Some(before) if before == *message => {}
            Some(before) => self.wrong.push(format!("{before:?} and {message:?} have one number")),
            None => {
                let others = self.missed.values().filter(|(other, _)| other == message).count();
                let others = if self.forgiven.contains(message) { 1 } else { others };
                let live = self.live.get(message);
                if others > 1 || live.is_some_and(|at| !self.is_doubtful(*at)) {
                    self.wrong.push(format!("{}: twice: {message:?}", self.tick));
                }
                if !message.topic.ends_with('x') {
                    self.wrong.push(format!("not wanted: {message:?}"));
                }
                if seq > 0 && !self.missed.contains_key(&(message.topic.clone(), life, seq - 1)) {
                    self.wrong.push(format!("a gap before {seq} of life {life}: {message:?}"));
                }
            }
        }
    }

    fn run_for(&mut self, span: Span) {
        let end = self.now + span;
        while self.now < end {
            self.step();
        }
    }

    /// The acting keeper dies, with what has not left, or gives its part to the other one.
    fn fail_over(&mut self, dies: bool) {
        let (from, to) = (self.acting, 1 - self.acting);
        if !self.keepers[to].up {
            return;
        }
        if dies {
            self.keepers[from].up = false;
            self.leaving.clear();
            // What left in the last 0.3 s, and came a little later.
            let is_new = |(_, at): &&(Message, u64)| *at + 25 >= self.tick;
            self.just_came =
                self.missed.values().filter(is_new).map(|(message, _)| message.clone()).collect();
        } else {
            self.with(from, |asking, now, did| asking.act(now, false, did));
        }
        self.acting = to;
        self.with(to, |asking, now, did| asking.act(now, true, did));
    }

    /// Who has died begins anew, with the places that it has remembered.
    fn come_back(&mut self) {
        for index in 0..2 {
            if !self.keepers[index].up {
                let places = std::mem::take(&mut self.keepers[index].places);
                self.keepers[index] = self.keeper(places);
            }
        }
    }

    /// Something happens.
    fn befall(&mut self, may: &[u32]) {
        let what = may[self.random.usize(0..may.len())];
        self.story.push(format!("{}: {what}", self.tick));
        match what {
            0 | 1 => self.way_is_up = !self.way_is_up,
            2 => self.fail_over(true),
            3 => self.fail_over(false),
            4 => self.come_back(),
            5 => self.losses = [0, 7, 60][self.random.usize(0..3)],
            6 => {
                // One journal at least is there.
                let index = self.random.usize(0..2);
                self.journals[index].up = !self.journals[index].up || !self.journals[1 - index].up;
                self.journals[index].began = self.now;
                if !self.journals[index].up && self.journals[index].number == self.hands_on {
                    self.forgiven.append(&mut self.just_came);
                }
            }
            // Who wants it is away for a moment; he goes just when something is asked for, it may be.
            7 => {
                let mut wait = self.random.u64(0..2) * 750;
                while wait > 0 && !self.under_way[0].iter().any(|(_, word)| matches!(word, Word::Ask(_))) {
                    self.step();
                    wait -= 1;
                }
                let acting = self.acting;
                self.with(acting, |asking, now, _| asking.want(now, Vec::new(), true));
                self.run_for(Span::secs(5));
                self.with(acting, |asking, now, _| asking.want(now, wanted(), true));
            }
            // The acting keeper dies just when it hands something on, of one of the journals.
            8 => {
                let until = self.now + Span::secs(15);
                let journal = [11, 22][self.random.usize(0..2)];
                while (self.leaving.is_empty() || self.hands_on != journal) && self.now < until {
                    self.step();
                }
                let more = self.random.usize(0..12);
                (0..more).for_each(|_| self.step());
                self.fail_over(true);
            }
            9 => {
                self.stand_still();
                // The one that stands by has been restarted, and has its turn soon.
                let standby = 1 - self.acting;
                if self.random.u32(0..3) == 0 && self.keepers[standby].up {
                    let places = std::mem::take(&mut self.keepers[standby].places);
                    self.keepers[standby] = self.keeper(places);
                    // So that it has been told what the other one knows.
                    let span = Span::millis(self.random.i64(4_000..12_000));
                    self.run_for(span);
                    self.fail_over(false);
                }
            }
            _ => {
                let ahead = Span::secs(self.random.i64(1..500));
                // Somebody sets all clocks.
                self.now = self.now + ahead;
                self.keepers.iter_mut().for_each(|keeper| keeper.asking.handle_clock_step(ahead));
            }
        }
    }
}

/// A broker of the publishing site is away shortly before the way comes back. What is wrong with the order in which things come.
fn away_before_the_way_is_back(seed: u64) -> Vec<String> {
    let mut world = World::new(seed * 8);
    world.lag = 400;
    world.with(0, |asking, now, did| asking.act(now, true, did));
    world.run_for(Span::secs(15));
    world.way_is_up = false;
    world.run_for(Span::secs(15));
    world.journals[1].up = false;
    world.run_for(Span::secs(3));
    (world.journals[1].up, world.journals[1].began) = (true, world.now);
    let wait = world.random.i64(0..8_000);
    world.run_for(Span::millis(wait));
    world.way_is_up = true;
    world.run_for(Span::secs(60));
    let mut wrong = world.wrong;
    let mut last: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for ((topic, ..), (message, _)) in &world.missed {
        let at = (message.life, message.seq);
        if let Some(before) = last.insert(topic, at).filter(|before| *before > at) {
            wrong.push(format!("seed {seed}: {topic} {at:?} after {before:?}"));
        }
    }
    if last.len() != 4 {
        wrong.push(format!("seed {seed}: something comes of {last:?} alone"));
    }
    wrong
}

#[test]
fn what_one_journal_lacks_comes_in_its_place_where_the_other_has_it() {
    for seed in seeds(20) {
        assert_eq!(away_before_the_way_is_back(seed), Vec::<String>::new());
    }
    Mutant::switch(Some(Mutant::TakeNoTurns));
    let noticed = (0..20).any(|seed| !away_before_the_way_is_back(seed).is_empty());
    Mutant::switch(None);
    assert!(noticed, "a journal that goes first where it should wait");
}

/// The journal that has kept for longest lacks something all the same, and the acting keeper dies just when it hands that on from the other one, while
/// messages get lost: who goes on has to begin with that one. What is wrong in the end.
fn dies_with_what_the_first_journal_lacks(seed: u64) -> Vec<String> {
    let mut world = World::new(seed * 8);
    world.with(0, |asking, now, did| asking.act(now, true, did));
    world.run_for(Span::secs(8));
    world.way_is_up = false;
    world.run_for(Span::secs(1));
    world.journals[0].up = false;
    world.run_for(Span::secs(2));
    world.journals[0].up = true;
    world.way_is_up = true;
    world.losses = 7;
    let until = world.now + Span::secs(40);
    while (world.leaving.is_empty() || world.hands_on != 22) && world.now < until {
        world.step();
    }
    let more = world.random.usize(0..6);
    (0..more).for_each(|_| world.step());
    world.fail_over(true);
    world.run_for(Span::secs(60));
    world.wrong
}

#[test]
fn who_goes_on_begins_with_the_journal_of_which_something_was_handed_on() {
    for seed in seeds(40) {
        assert_eq!(dies_with_what_the_first_journal_lacks(seed), Vec::<String>::new(), "seed {seed}");
    }
    Mutant::switch(Some(Mutant::AnyLogFirst));
    let noticed = (0..40).any(|seed| !dies_with_what_the_first_journal_lacks(seed).is_empty());
    Mutant::switch(None);
    assert!(noticed, "a keeper that begins with any journal");
}

/// All that may befall, see [`World::befall`].
const ANYTHING: [u32; 11] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

/// One world, in which these things may befall. What is wrong in the end.
fn play(seed: u64, may: &[u32]) -> Vec<String> {
    let mut world = World::new(seed);
    world.with(0, |asking, now, did| asking.act(now, true, did));
    // Something may happen when journals have just been heard of, before they could be asked.
    let calm = QUIET + Span::millis(world.random.i64(600..5_000));
    world.run_for(calm);
    // What was published before the first beat is nobody's.
    world.published.clear();
    let calm: BTreeSet<Message> = world.live.keys().cloned().collect();
    for _ in 0..world.random.u32(1..8) {
        world.befall(may);
        let span = Span::millis(world.random.i64(100..12_000));
        world.run_for(span);
    }
    world.way_is_up = true;
    world.losses = 0;
    world.journals.iter_mut().for_each(|journal| journal.up = true);
    world.come_back();
    world.run_for(Span::secs(90));
    let settled: Vec<Message> =
        world.published.iter().filter(|message| !calm.contains(message)).cloned().collect();
    let missed: BTreeSet<&Message> = world.missed.values().map(|(message, _)| message).collect();
    let mut wrong = world.wrong.clone();
    let newest: BTreeMap<&str, (u64, u64)> =
        world.next.iter().map(|(topic, next)| (topic.as_str(), (next.0, next.1))).collect();
    for message in &settled {
        let (life, next) = newest[message.topic.as_str()];
        // The last ones are still on their way.
        let is_new = message.life == life && message.seq + 3 >= next;
        if !is_new && !world.live.contains_key(message) && !missed.contains(message) {
            wrong.push(format!("missing: {message:?}"));
        }
    }
    wrong.truncate(5);
    if !wrong.is_empty() {
        wrong.push(world.story.join(", "));
    }
    wrong
}

fn seeds(usual: u64) -> std::ops::Range<u64> {
    let from: u64 = std::env::var("VERGE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let count = std::env::var("VERGE_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(usual);
    from..from + count
}

#[test]
fn what_is_kept_comes_once_whatever_happens_to_the_way_and_to_keepers() {
    for seed in seeds(60) {
        assert_eq!(play(seed, &ANYTHING), Vec::<String>::new(), "seed {seed}");
    }
}

#[test]
fn every_mutant_is_noticed() {
    // Each among things that let it do harm.
    for (mutant, may) in [
        (Mutant::HandAgain, &ANYTHING[..]),
        (Mutant::SettleAtOnce, &[4, 5, 8]),
        (Mutant::EndAtFirst, &[0]),
        (Mutant::ForgetGaps, &[0, 5, 6]),
        (Mutant::NumberAnew, &[0, 1, 4, 5, 8]),
        (Mutant::RestAtOnce, &[0, 7]),
        (Mutant::TrustLive, &[9]),
        (Mutant::PassOverAway, &[5, 6, 7]),
        (Mutant::TellNoDoubts, &[9]),
        (Mutant::MeetLate, &[0]),
    ] {
        Mutant::switch(Some(mutant));
        let noticed = (0..400).find(|seed| !play(*seed, may).is_empty());
        Mutant::switch(None);
        eprintln!("{mutant:?} {noticed:?}");
        assert!(noticed.is_some(), "{mutant:?} is not noticed");
    }
}

#[test]
fn what_another_site_says_may_be_anything() {
    let mut random = fastrand::Rng::with_seed(seeds(1).start);
    let mut asking = Asking::new(AskingSettings { history: Span::ZERO, began: Time(1), takes: 0 }, Time(1));
    asking.want(Time(1), wanted(), true);
    let mut did = Did::default();
    asking.act(Time(1), true, &mut did);
    let list = Part::encode_list(1, 0, 9, &vec![(crate::StreamName::new("plant/1/x", "p", 1), vec![(0, 9)])]);
    let beat = Beat {
        journal: 1,
        reigns: true,
        began: Time(1),
        logs: vec![LogEnd { log: LOG.into(), end: 9, now: 9 }],
    }
    .encode();
    let hands_on = Progress::HandsOn { origin: "north".into(), journal: 1 }.encode();
    let doubts = Progress::Doubts(Span::secs(2)).encode();
    let hello = Progress::Hello.encode();
    let words = [list, beat, Part::encode_items(1, 0, true, Time(1), b"xx"), hello, hands_on, doubts];
    for turn in 0..20_000 {
        // Half of the time it stands by.
        asking.act(Time(1 + turn), turn < 10_000, &mut did);
        let mut bytes = words[random.usize(0..words.len())].clone();
        for _ in 0..random.usize(0..4) {
            let at = random.usize(0..bytes.len());
            bytes[at] = random.u8(..);
        }
        bytes.truncate(random.usize(0..=bytes.len()));
        let _ = Ask::decode(&bytes);
        if let Ok(part) = Part::decode(&bytes) {
            asking.hear_part(Time(1), "north", &part, Time(1), &mut did);
        }
        if let Ok(beat) = Beat::decode(&bytes) {
            asking.hear_beat(Time(1), "north", beat);
        }
        if let Ok(progress) = Progress::decode(&bytes) {
            asking.hear_progress(Time(1), progress, &mut did);
        }
        asking.tick(Time(1), &mut did);
    }
    assert!(did.handed.is_empty());
}

/// A journal alone with a keeper elsewhere, until nothing more is asked for. What was handed on.
fn converse(items: Vec<(Message, Time)>, live: impl Fn(&Message) -> bool, seconds: u64) -> Vec<Message> {
    let (answering, mut now) = (Answering::new(1 << 30), Time(1_000_000_000_000));
    let mut asking = Asking::new(AskingSettings { history: Span::ZERO, began: now, takes: 0 }, now);
    asking.restore(&Place { origin: "north", journal: 1, log: LOG, position: 0 });
    asking.want(now, wanted(), true);
    let mut did = Did::default();
    asking.act(now, true, &mut did);
    let end = items.len() as u64;
    let mut journal =
        Journal { number: 1, items, ends: VecDeque::new(), answering, up: true, began: Time(1) };
    for step in 0..seconds * 10 {
        now = now + Span::millis(100);
        did.now = now;
        let logs = vec![LogEnd { log: LOG.into(), end, now: end }];
        asking.hear_beat(now, "north", Beat { journal: 1, reigns: true, began: Time(1), logs });
        if step == 0 {
            for Message { topic, life, seq } in
                journal.items.iter().map(|(message, _)| message).filter(|it| live(it))
            {
                asking.hear_live(now, "north", (topic, "plc@north", *life), *seq);
            }
        }
        asking.tick(now, &mut did);
        while !did.asks.is_empty() {
            let asks = std::mem::take(&mut did.asks);
            asks.iter().for_each(|ask| journal.answering.hear("south", Ask::decode(ask).unwrap()));
            let mut answering = journal.answering.clone();
            let mut parts = Vec::new();
            while !answering.is_idle() {
                answering.work(now, &mut journal, &mut |_, bytes| {
                    parts.push(bytes.to_vec());
                    true
                });
            }
            journal.answering = answering;
            for part in parts {
                asking.hear_part(now, "north", &Part::decode(&part).unwrap(), now, &mut did);
            }
        }
    }
    assert_eq!(did.places.last().map(|place| place.2), Some(end));
    did.handed.into_iter().map(|(message, ..)| message).collect()
}

/// Who wants it goes while it comes, and is back: what was on its way meanwhile comes in its order, and nothing is told to be gone.
#[test]
fn who_goes_while_it_comes_gets_the_rest_in_order() {
    // Alone, or while somebody else wants one of the topics.
    for others in [Vec::new(), vec!["plant/1/x".parse().unwrap()]] {
        let message =
            |number: u64| Message { topic: format!("plant/{}/x", number % 2), life: 1, seq: number / 2 };
        let items: Vec<_> = (0..2_000).map(|number| (message(number), Time(1_000_000_000_000))).collect();
        let (mut answering, mut now) = (Answering::new(20_000), Time(1_000_000_000_000));
        let mut asking = Asking::new(AskingSettings { history: Span::ZERO, began: now, takes: 0 }, now);
        asking.restore(&Place { origin: "north", journal: 1, log: LOG, position: 0 });
        asking.want(now, wanted(), true);
        let mut did = Did::default();
        asking.act(now, true, &mut did);
        let mut journal = Journal {
            number: 1,
            items,
            ends: VecDeque::new(),
            answering: Answering::new(1),
            up: true,
            began: Time(1),
        };
        for step in 0..600 {
            now = now + Span::millis(100);
            did.now = now;
            match step {
                40 => asking.want(now, others.clone(), true),
                60 => asking.want(now, wanted(), true),
                _ => {}
            }
            let logs = vec![LogEnd { log: LOG.into(), end: 2_000, now: 2_000 }];
            asking.hear_beat(now, "north", Beat { journal: 1, reigns: true, began: Time(1), logs });
            asking.tick(now, &mut did);
            std::mem::take(&mut did.asks)
                .iter()
                .for_each(|ask| answering.hear("south", Ask::decode(ask).unwrap()));
            let mut parts = Vec::new();
            answering.work(now, &mut journal, &mut |_, bytes| {
                parts.push(bytes.to_vec());
                true
            });
            for part in parts {
                asking.hear_part(now, "north", &Part::decode(&part).unwrap(), now, &mut did);
            }
        }
        for topic in ["plant/0/x", "plant/1/x"] {
            let of = did.handed.iter().filter(|(message, ..)| message.topic == topic);
            let seqs: Vec<u64> = of.map(|(message, ..)| message.seq).collect();
            assert_eq!(seqs, (0..1_000).collect::<Vec<_>>(), "{topic} {others:?}");
        }
        assert_eq!(asking.view()[0].gone, 0, "{others:?}");
    }
}

/// Who asks says how much may come in a second; a journal that may send more does not.
#[test]
fn no_more_comes_than_who_asks_can_take() {
    const TAKES: u64 = 20_000;
    let message = |number: u64| Message { topic: "plant/1/x".to_owned(), life: 1, seq: number };
    let items: Vec<_> = (0..4_000).map(|number| (message(number), Time(1_000_000_000_000))).collect();
    let mut sent = [0, TAKES].map(|rate| {
        let (mut answering, mut now) = (Answering::new(1 << 20), Time(1_000_000_000_000));
        let mut journal = Journal {
            number: 1,
            items: items.clone(),
            ends: VecDeque::new(),
            answering: answering.clone(),
            up: true,
            began: Time(1),
        };
        let missing = vec![(crate::StreamName::new("plant/1/x", "plc", 1), vec![(0, 3_999)])];
        let want = Want::Give { after: 0, up_to: 4_000, missing };
        answering.hear("south", Ask { number: 1, journal: 1, log: LOG.into(), rate, want });
        let mut sent = 0;
        for _ in 0..30 {
            now = now + Span::millis(100);
            answering.work(now, &mut journal, &mut |_, bytes| {
                sent += bytes.len() as u64;
                true
            });
        }
        sent
    });
    sent.sort_unstable();
    let [within, all] = sent;
    // A part that has begun is sent.
    assert!(within <= 3 * TAKES + (32 << 10) && within * 2 > 3 * TAKES, "{within} in 3 s");
    assert!(all > 2 * within, "{all}");
}

#[test]
fn what_is_missing_in_very_many_pieces_is_asked_for_in_portions() {
    let message =
        |number: u64| Message { topic: format!("plant/{}/x", number % 4), life: 1, seq: number / 4 };
    let items = (0..7_200).map(|number| (message(number), Time(1_000_000_000_000))).collect();
    let handed = converse(items, |message| message.seq % 2 == 0, 20);
    let (once, expected): (BTreeSet<_>, BTreeSet<_>) =
        (handed.iter().cloned().collect(), (0..7_200).map(message).filter(|it| it.seq % 2 == 1).collect());
    assert!(once == expected && handed.len() == 3_600, "{} of {}", handed.len(), once.len());
}

#[test]
fn thousands_of_streams_that_take_turns_are_all_gone_over() {
    let message =
        |number: u64| Message { topic: format!("plant/{}/x", number % 3_000), life: 1, seq: number / 3_000 };
    let items = (0..9_000).map(|number| (message(number), Time(1_000_000_000_000))).collect();
    let handed = converse(items, |message| message.seq == 1, 20);
    assert_eq!(handed.len(), 6_000);
}
