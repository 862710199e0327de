//! Whatever is done to a journal and its disk, it does what a plain list would, as far as the disk lets it.

use super::drive::Drive;
use crate::{
    Budget, Cursor, Durability, FileName, History, Journal, Mutant, NewItem, OpenError, Position, ReceiverId,
    Room, Settings, State, SyncOrder, TopicId, TopicSettings,
};
use contract::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Up to where topics were handed on, by receiver and topic.
type Said = BTreeMap<(usize, usize), Position>;

/// What a run found wrong.
type Wrong = String;

macro_rules! ensure {
    ($holds:expr, $($words:tt)*) => {
        if !$holds {
            return Err(format!($($words)*));
        }
    };
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// It is there, unless it is out of date or was given up.
    Sure,
    /// The power failed before it was synced.
    Maybe,
    /// It is near a place where the disk was damaged: what can be read of it depends on where the index has its marks.
    Near,
    /// It was not there when somebody looked after that.
    Lost,
    /// It was given up; if the disk forgets that its file was removed, it is there again.
    GivenUp,
}

#[derive(Clone, Debug)]
struct Known {
    identity: Vec<u8>,
    sequence: u64,
    created: Time,
    expires: Time,
    flags: u8,
    payload: Vec<u8>,
    fate: Fate,
}

#[derive(Default)]
struct KnownTopic {
    name: String,
    settings: TopicSettings,
    items: BTreeMap<Position, Known>,
    /// Items that the journal says it has given up, in all openings.
    given_up: u64,
    /// The same since it was opened.
    given_up_now: u64,
}

struct World {
    random: fastrand::Rng,
    drive: Drive,
    settings: Settings,
    journal: Option<Journal<Drive>>,
    now: Time,
    topics: Vec<(TopicId, KnownTopic)>,
    receivers: Vec<ReceiverId>,
    /// What was said, and what has been synced of it.
    positions: BTreeMap<(usize, usize), (Position, Position)>,
    order: Option<(SyncOrder, Said)>,
    damaged: BTreeSet<FileName>,
    last: Position,
    sequence: u64,
    compactions: u64,
}

const SEGMENT: u32 = 4_096;
const RECEIVERS: [&str; 2] = ["north", "south"];

impl World {
    fn new(seed: u64) -> World {
        let mut random = fastrand::Rng::with_seed(seed);
        let durability = [Durability::Os, Durability::Each, Durability::Interval(Span::millis(50))];
        let settings = Settings {
            segment_bytes: SEGMENT,
            bytes_max: (160 << 10) + u64::from(SEGMENT) * random.u64(8..40),
            segments_max: random.usize(8..64),
            topics_per_segment_max: random.usize(1..6),
            marks_per_segment_max: random.usize(4..20),
            items_per_mark: random.u32(1..9),
            payload_bytes_max: 2_000,
            identity_bytes_max: 32,
            durability: durability[random.usize(..3)],
            room: if random.bool() { Room::OldestFirst } else { Room::LeastCriticalFirst },
            ..Settings::default()
        };
        let drive = Drive::new(1 << 20, random.u64(..));
        let (topics, receivers) = (Vec::new(), Vec::new());
        World {
            random,
            drive,
            settings,
            journal: None,
            now: Time(1_000_000_000_000),
            topics,
            receivers,
            positions: BTreeMap::new(),
            order: None,
            damaged: BTreeSet::new(),
            last: Position::BEGIN,
            sequence: 0,
            compactions: 0,
        }
    }

    fn journal(&mut self) -> &mut Journal<Drive> {
        self.journal.as_mut().unwrap()
    }

    fn run(&mut self, steps: usize) -> Result<(), Wrong> {
        for number in 0..4 {
            let settings = self.topic_settings();
            self.topics.push((
                TopicId(0),
                KnownTopic { name: format!("topic/{number}"), settings, ..KnownTopic::default() },
            ));
        }
        self.open()?;
        for _ in 0..steps {
            self.step()?;
            self.listen();
        }
        self.check()
    }

    fn topic_settings(&mut self) -> TopicSettings {
        let keep = [Span::secs(2), Span::secs(20), Span::secs(200), Span::FOREVER];
        let bytes_max = if self.random.u8(..4) == 0 { self.random.u64(500..9_000) } else { u64::MAX };
        TopicSettings { keep: keep[self.random.usize(..4)], bytes_max, priority: self.random.u8(..4) }
    }

    fn step(&mut self) -> Result<(), Wrong> {
        match self.random.u32(..200) {
            0..100 => self.append()?,
            100..120 => self.sync()?,
            120..140 => {
                self.now = self.now + Span::millis(self.random.i64(0..1_500));
                let (now, bytes) = (self.now, self.random.usize(1..6_000));
                self.journal().maintain(now, bytes);
            }
            140..165 => self.hand_on()?,
            165..172 => self.check()?,
            172..178 => self.read_from_somewhere()?,
            178..181 => self.history()?,
            181 => self.set_topic()?,
            182..185 => self.crash()?,
            185 => self.reopen()?,
            186 => self.damage()?,
            187 => self.drive.fails.set(true),
            188..192 => self.drive.fails.set(false),
            192 => self.drive.disk.borrow_mut().resize(0),
            193..197 => self.drive.disk.borrow_mut().resize(1 << 20),
            197 => self.drive.disk.borrow_mut().refuse_syncs(true),
            _ => self.drive.disk.borrow_mut().refuse_syncs(false),
        }
        Ok(())
    }

    /// Counts what the journal says.
    fn listen(&mut self) {
        while self.journal().poll_event().is_some() {}
        let journal = self.journal.as_ref().unwrap();
        for (id, topic) in &mut self.topics {
            let counters = journal.counters(*id).unwrap();
            let given_up = counters.topic_full + counters.journal_full;
            topic.given_up += given_up - topic.given_up_now;
            topic.given_up_now = given_up;
        }
    }

    fn open(&mut self) -> Result<(), Wrong> {
        self.order = None;
        self.journal = None;
        let before = self.drive.disk.borrow().free_bytes();
        let journal = match Journal::open(self.drive.clone(), self.settings.clone()) {
            Ok(journal) => journal,
            Err(OpenError::Files(_)) => {
                // Whoever runs it mends the disk and tries again.
                self.drive.disk.borrow_mut().refuse_syncs(false);
                self.drive.disk.borrow_mut().resize(1 << 20);
                self.drive.fails.set(false);
                Journal::open(self.drive.clone(), self.settings.clone())
                    .map_err(|error| format!("it does not open: {error}, {before} bytes were free"))?
            }
            Err(error) => return Err(error.to_string()),
        };
        self.journal = Some(journal);
        let journal = self.journal.as_mut().unwrap();
        for (id, topic) in &mut self.topics {
            topic.given_up_now = 0;
            *id = journal.topic(topic.name.as_bytes(), topic.settings).map_err(|error| error.to_string())?;
        }
        self.receivers.clear();
        for name in RECEIVERS {
            self.receivers.push(journal.receiver(name.as_bytes()).map_err(|error| error.to_string())?);
        }
        self.listen();
        self.check()?;
        self.check_positions()
    }

    fn append(&mut self) -> Result<(), Wrong> {
        for _ in 0..self.random.usize(1..12) {
            let index = self.random.usize(..self.topics.len());
            let len =
                if self.random.u8(..10) == 0 { self.random.usize(..2_010) } else { self.random.usize(..90) };
            let byte = self.random.u8(..);
            self.sequence += 1;
            let known = Known {
                identity: vec![byte; self.random.usize(..33)],
                sequence: self.sequence,
                created: self.now - Span::millis(self.random.i64(0..3_000)),
                expires: if self.random.u8(..5) == 0 {
                    self.now + Span::secs(self.random.i64(0..60))
                } else {
                    Time::NEVER
                },
                flags: byte,
                payload: (0..len).map(|at| byte.wrapping_add(at as u8)).collect(),
                fate: Fate::Sure,
            };
            let (topic, now) = (self.topics[index].0, self.now);
            let item = NewItem {
                topic,
                identity: &known.identity,
                sequence: known.sequence,
                created: known.created,
                expires: known.expires,
                flags: known.flags,
                payload: &known.payload,
            };
            let Ok(position) = self.journal().append(now, &item) else { continue };
            ensure!(position > self.last, "{position} was given after {}", self.last);
            self.last = position;
            self.topics[index].1.items.insert(position, known);
        }
        self.mark_near();
        let used = self.journal().used_bytes();
        // Notes may be there three times: as they were synced, as they are being synced, and as they are.
        let limit = self.settings.bytes_max + (128 << 10);
        ensure!(used <= limit, "{used} bytes of {limit}");
        let segments = self.journal().segments().count();
        ensure!(segments <= self.settings.segments_max, "{segments} segments");
        Ok(())
    }

    /// Begins a sync, or ends one.
    fn sync(&mut self) -> Result<(), Wrong> {
        let now = self.now;
        let Some((order, positions)) = self.order.take() else {
            let positions = self.positions.iter().map(|(key, (said, _))| (*key, *said)).collect();
            let is_behind = self.journal().notes.is_behind;
            self.order = self.journal().poll_sync(now).map(|order| (order, positions));
            if let Some((_, positions)) = &mut self.order
                && is_behind
            {
                positions.clear();
            }
            return Ok(());
        };
        let before: Vec<FileName> = self.journal().segments().map(|report| report.file).collect();
        // What is done meanwhile may be in it or not; here it is.
        let done = self.drive.carry_out(&order);
        let is_done = done.is_ok();
        self.journal().handle_synced(order.ticket, done.map_err(|error| error.to_string()));
        let poisoned = matches!(self.journal().state(), State::Poisoned(_));
        ensure!(is_done != poisoned || Mutant::ForgetFailure.is_on(), "a failed sync poisons");
        for (key, position) in positions.into_iter().filter(|_| is_done) {
            self.positions.entry(key).or_default().1 = position;
        }
        let after = self.journal().segments().map(|report| report.file);
        let copies = after.filter(|file| !before.contains(file)).count();
        self.compactions += copies as u64;
        if poisoned && self.random.bool() { self.reopen() } else { Ok(()) }
    }

    fn hand_on(&mut self) -> Result<(), Wrong> {
        let key = (self.random.usize(..RECEIVERS.len()), self.random.usize(..self.topics.len()));
        let (receiver, topic) = (self.receivers[key.0], self.topics[key.1].0);
        let to = self.random.u64(..self.topics[key.1].1.items.len() as u64 + 1);
        let position = self.topics[key.1].1.items.keys().nth(to as usize).copied().unwrap_or(Position::BEGIN);
        self.journal().hand_on(receiver, topic, position).map_err(|error| error.to_string())?;
        let known = &mut self.positions.entry(key).or_default().0;
        *known = position.max(*known);
        let (known, found) = (*known, self.journal().handed_on(receiver, topic));
        ensure!(found == known, "{found} was handed on, and it was {known}");
        Ok(())
    }

    /// After a restart, what is known of positions lies between what was synced and what was said.
    fn check_positions(&mut self) -> Result<(), Wrong> {
        for (key, (said, synced)) in &mut self.positions {
            let journal = self.journal.as_ref().unwrap();
            let found = journal.handed_on(self.receivers[key.0], self.topics[key.1].0);
            ensure!((*synced..=*said).contains(&found), "{found} is not between {synced} and {said}");
            (*said, *synced) = (found, found);
        }
        Ok(())
    }

    fn crash(&mut self) -> Result<(), Wrong> {
        // What was given up is to be known before the disk forgets that it was.
        self.check()?;
        let durable = self.journal().durable();
        self.journal = None;
        self.drive.disk.borrow_mut().crash(&mut self.random);
        for (_, topic) in &mut self.topics {
            for (_, item) in topic.items.iter_mut().filter(|(position, _)| **position > durable) {
                item.fate = if item.fate == Fate::Sure { Fate::Maybe } else { item.fate };
            }
        }
        self.open()
    }

    /// The process ends and begins again; the disk has everything.
    fn reopen(&mut self) -> Result<(), Wrong> {
        // What a topic has given up may be there again, where its segment is.
        self.check()?;
        if self.journal().notes.is_behind {
            for (said, synced) in self.positions.values_mut() {
                *synced = Position::BEGIN.min(*said);
            }
        } else if self.random.bool() {
            // Nothing that was said is lost without a crash.
            for (said, synced) in self.positions.values_mut() {
                *synced = *said;
            }
        }
        self.open()
    }

    fn damage(&mut self) -> Result<(), Wrong> {
        let reports: Vec<_> = self.journal().segments().collect();
        if reports.is_empty() {
            return Ok(());
        }
        let report = &reports[self.random.usize(..reports.len())];
        let sector = self.random.u64(..u64::from(SEGMENT) / 512);
        let mut disk = self.drive.disk.borrow_mut();
        disk.damage(&report.file.to_string(), sector, &mut self.random).unwrap();
        drop(disk);
        self.journal().page.forget();
        self.damaged.insert(report.file);
        if self.random.bool() { self.reopen() } else { self.check() }
    }

    /// What is in a file that was damaged, also what was written to it since.
    fn mark_near(&mut self) {
        let journal = self.journal.as_ref().unwrap();
        let reports = journal.segments().filter(|report| self.damaged.contains(&report.file));
        for (first, last) in reports.filter_map(|report| report.range) {
            for (_, item) in self.topics.iter_mut().flat_map(|(_, topic)| topic.items.range_mut(first..=last))
            {
                item.fate = if item.fate == Fate::Lost { Fate::Lost } else { Fate::Near };
            }
        }
    }

    fn set_topic(&mut self) -> Result<(), Wrong> {
        let (index, settings) = (self.random.usize(..self.topics.len()), self.topic_settings());
        // Items that were deleted because of a shorter time do not come back with a longer one.
        let keep = self.topics[index].1.settings.keep.min(settings.keep);
        let settings = TopicSettings { keep, ..settings };
        self.topics[index].1.settings = settings;
        let name = self.topics[index].1.name.clone();
        let id = self.journal().topic(name.as_bytes(), settings).map_err(|error| error.to_string())?;
        ensure!(id == self.topics[index].0, "{name} has another number");
        self.listen();
        self.check()
    }

    /// All items of a topic, as they are read.
    fn read(&mut self, index: usize, mut cursor: Cursor) -> Result<Vec<Position>, Wrong> {
        let (id, mut found) = (self.topics[index].0, Vec::new());
        let now = self.now;
        loop {
            let budget = Budget { items: self.random.usize(1..40), bytes: self.random.usize(1..9_000) };
            let journal = self.journal.as_mut().unwrap();
            let mut batch = journal.read(&mut cursor, now, budget);
            let known = &self.topics[index].1;
            while let Some(item) = batch.next_item() {
                let at = item.position;
                let Some(it) = known.items.get(&at) else { return Err(format!("{at} was never appended")) };
                let is_same = (item.topic, item.identity, item.payload)
                    == (id, &it.identity[..], &it.payload[..])
                    && (item.sequence, item.created, item.expires, item.flags)
                        == (it.sequence, it.created, it.expires, it.flags);
                ensure!(is_same, "{at} is {item:?} and was {it:?}");
                ensure!(it.fate != Fate::Lost, "{at} was lost, and is there again");
                let ends = (it.created + known.settings.keep).min(it.expires);
                ensure!(ends > now, "{at} is out of date");
                ensure!(found.last().is_none_or(|last| *last < at), "{at} comes after {found:?}");
                found.push(at);
            }
            if batch.is_at_end() {
                return Ok(found);
            }
        }
    }

    /// Everything that must be there is, and nothing else.
    fn check(&mut self) -> Result<(), Wrong> {
        self.mark_near();
        for index in 0..self.topics.len() {
            let found = self.read(index, Cursor::after(self.topics[index].0, Position::BEGIN))?;
            let (now, topic) = (self.now, &mut self.topics[index].1);
            let is_sure = |at: &&Position| topic.items[*at].fate == Fate::Sure;
            let first = found.iter().find(is_sure).copied();
            let keep = topic.settings.keep;
            let mut missing = Vec::new();
            for (at, item) in &mut topic.items {
                let lives = (item.created + keep).min(item.expires) > now;
                let is_there = found.binary_search(at).is_ok();
                match item.fate {
                    // Opening has synced what was found.
                    Fate::Maybe if is_there => item.fate = Fate::Sure,
                    Fate::Maybe if lives && topic.given_up_now > 0 => item.fate = Fate::GivenUp,
                    Fate::Maybe if lives => item.fate = Fate::Lost,
                    Fate::Sure if lives && !is_there => missing.push(*at),
                    _ => {}
                }
            }
            for at in &missing {
                topic.items.entry(*at).and_modify(|item| item.fate = Fate::GivenUp);
            }
            ensure!(
                missing.len() as u64 <= topic.given_up,
                "{missing:?} of {} are missing, and {} were given up",
                topic.name,
                topic.given_up
            );
            topic.given_up -= missing.len() as u64;
            let last = missing.last().copied();
            ensure!(
                last.is_none_or(|last| first.is_none_or(|first| last < first)),
                "{missing:?} are missing, and {first:?} is there"
            );
        }
        Ok(())
    }

    fn read_from_somewhere(&mut self) -> Result<(), Wrong> {
        let index = self.random.usize(..self.topics.len());
        let id = self.topics[index].0;
        let all = self.read(index, Cursor::after(id, Position::BEGIN))?;
        let from = self.random.usize(..=all.len());
        let after = from.checked_sub(1).map_or(Position::BEGIN, |before| all[before]);
        let rest = self.read(index, Cursor::after(id, after))?;
        ensure!(rest == all[from..], "behind {after} there is {rest:?}, of {all:?}");
        Ok(())
    }

    fn history(&mut self) -> Result<(), Wrong> {
        let index = self.random.usize(..self.topics.len());
        let (id, now) = (self.topics[index].0, self.now);
        let all = self.read(index, Cursor::after(id, Position::BEGIN))?;
        let items = self.random.usize(..30);
        let cursor = self.journal().history(id, History::Last(items as u64), now);
        let last = self.read(index, cursor)?;
        ensure!(last.len() <= items && all.ends_with(&last), "the last {items} are {last:?}, of {all:?}");
        let span = Span::millis(self.random.i64(0..4_000));
        let cursor = self.journal().history(id, History::Younger(span), now);
        let young = self.read(index, cursor)?;
        let known = &self.topics[index].1.items;
        let expected: Vec<Position> = all.into_iter().filter(|at| known[at].created >= now - span).collect();
        ensure!(young == expected, "{young:?} are young, and {expected:?} should be");
        Ok(())
    }
}

fn run(seed: u64, steps: usize) -> Result<u64, Wrong> {
    let mut world = World::new(seed);
    world.run(steps)?;
    Ok(world.compactions)
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a person may want more seeds")]
fn whatever_is_done_to_it_a_journal_is_like_a_list() {
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(150);
    let mut compactions = 0;
    for seed in 0..seeds {
        compactions += run(seed, 600).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
    assert!(compactions > seeds / 10, "{compactions} compactions say little");
}

#[test]
fn every_fault_is_found() {
    let mutants = [
        Mutant::BelieveAnything,
        Mutant::ForgetNames,
        Mutant::GiveUpNewest,
        Mutant::RemoveEarly,
        Mutant::CopyTooLittle,
        Mutant::NumberAgain,
        Mutant::GoBack,
        Mutant::ReadExpired,
        Mutant::ForgetFailure,
    ];
    for mutant in mutants {
        Mutant::switch(Some(mutant));
        let found = (0..400).find_map(|seed| run(seed, 600).err());
        Mutant::switch(None);
        assert!(found.is_some(), "nobody notices {mutant:?}");
    }
}
