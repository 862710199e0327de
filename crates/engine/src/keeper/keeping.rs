//! What is kept: the logs of the journal, and the places in those of other sites.

use super::{Keeper, KeeperReporter, KeeperSettings, KeptTopics};
use crate::uplink::ends::Arrived;
use backlog::{Asking, ITEM_BYTES_MAX, Item, Kept, LogEnd, Logs, Looked, Place};
use contract::{Span, Time, TopicFilter};
use journal::{
    Budget, Cursor, Files, History, Journal, LimitError, NewItem, Position, ReceiverId, TopicId,
    TopicSettings,
};
use std::collections::{BTreeMap, VecDeque};

/// The journal's number is the name of a receiver that begins with this.
const IDENTITY: &str = "$journal ";
/// Places in logs elsewhere are receivers whose names begin with this; their position is that of the topic of the same name.
const PLACES: &str = "$place ";
/// Stands between the parts of such a name. No name of a site and no filter has it.
const BETWEEN: char = '\u{1}';
/// What is this old has had time to go its ordinary way, also where that was by a router which died alone: the service's session (5 s) has to end, and
/// then uplinks send what they have retained. What is younger is not told to be there.
const SETTLING: Span = Span::secs(8);
/// Bytes that are looked at in one go.
const LOOKED_BYTES: usize = 256 << 10;
/// The longest identity that is kept: names of publishers and topics.
const IDENTITY_BYTES_MAX: usize = 2_048;
/// Elsewhere a publisher is called by this name and that of the site, and the whole has room for so many bytes.
const NAME_BYTES_MAX: usize = wire::limits::NAME_BYTES_MAX;

/// What is kept.
pub(super) struct Keeping {
    /// The journal's number, which no other has.
    pub(super) identity: u64,
    logs: Vec<Log>,
    /// Which log a topic goes to, by the first filter that means it; `None`: to none.
    rules: Vec<(TopicFilter, Option<usize>)>,
    /// The logs' ends a while ago, by time.
    ends: VecDeque<(Time, Vec<u64>)>,
    /// By the number of the stream: which life of it, its log, and its identity.
    streams: BTreeMap<u32, (u64, usize, Vec<u8>)>,
    /// Marks the positions of receivers.
    places: Option<TopicId>,
    receivers: BTreeMap<String, ReceiverId>,
    /// Messages that were too long.
    too_long: u64,
}

struct Log {
    filter: TopicFilter,
    topic: TopicId,
    end: u64,
}

impl Keeping {
    pub(super) fn new<F: Files>(journal: &mut Journal<F>, settings: &KeeperSettings) -> Keeping {
        let named = |journal: &Journal<F>| {
            journal.receivers().find_map(|(_, name)| {
                let number = std::str::from_utf8(name).ok()?.strip_prefix(IDENTITY)?;
                u64::from_str_radix(number, 16).ok()
            })
        };
        let identity = named(journal).unwrap_or_else(|| {
            let _ = journal.receiver(format!("{IDENTITY}{:x}", settings.identity).as_bytes());
            settings.identity
        });
        let (mut logs, mut rules) = (Vec::new(), Vec::new());
        for KeptTopics { filter, keep, bytes_max, rank } in &settings.keep {
            let like = TopicSettings { keep: *keep, bytes_max: *bytes_max, priority: *rank };
            let kept = *keep > Span::ZERO;
            let topic = kept.then(|| journal.topic(filter.as_str().as_bytes(), like)).and_then(Result::ok);
            rules.push((filter.clone(), topic.map(|_| logs.len())));
            if let Some(topic) = topic {
                let end = journal.range(topic).map_or(0, |(_, last)| last.0);
                logs.push(Log { filter: filter.clone(), topic, end });
            }
        }
        let places = journal.topic(PLACES.as_bytes(), TopicSettings::default()).ok();
        let (streams, receivers) = (BTreeMap::new(), BTreeMap::new());
        Keeping { identity, logs, rules, ends: VecDeque::new(), streams, places, receivers, too_long: 0 }
    }

    /// Tells the asking side which places the journal remembers.
    pub(super) fn restore<F: Files>(&mut self, journal: &Journal<F>, asking: &mut Asking) {
        let Some(topic) = self.places else { return };
        for (id, name) in journal.receivers() {
            let Some(name) = std::str::from_utf8(name).ok() else { continue };
            let Some(parts) = name.strip_prefix(PLACES) else { continue };
            let mut parts = parts.splitn(3, BETWEEN);
            let (Some(origin), Some(number), Some(log)) = (parts.next(), parts.next(), parts.next()) else {
                continue;
            };
            let Ok(number) = u64::from_str_radix(number, 16) else { continue };
            self.receivers.insert(name.to_owned(), id);
            // One more was remembered, since nothing is what no position says.
            let position = journal.handed_on(id, topic).0.saturating_sub(1);
            asking.restore(&Place { origin, journal: number, log, position });
        }
    }

    /// A place is remembered beyond this process.
    pub(super) fn remember<F: Files>(
        &mut self,
        journal: &mut Journal<F>,
        place: &Place<'_>,
    ) -> Result<(), LimitError> {
        let Some(topic) = self.places else { return Err(LimitError::Topics) };
        let Place { origin, journal: number, log, position } = *place;
        let name = format!("{PLACES}{origin}{BETWEEN}{number:x}{BETWEEN}{log}");
        let receiver = match self.receivers.get(&name) {
            Some(receiver) => *receiver,
            None => {
                let receiver = journal.receiver(name.as_bytes())?;
                self.receivers.insert(name, receiver);
                receiver
            }
        };
        journal.hand_on(receiver, topic, Position(position.saturating_add(1)))
    }

    /// Messages that were kept, those that were not, and those that were given up for want of room.
    pub(super) fn counts<F: Files>(&self, journal: &Journal<F>) -> (u64, u64, u64) {
        let mut counts = (0, self.too_long, 0);
        for counters in self.logs.iter().filter_map(|log| journal.counters(log.topic)) {
            let lost = counters.not_kept;
            counts.0 += counters.kept;
            counts.1 += lost.full + lost.failed + lost.poisoned + lost.too_long + lost.no_room;
            counts.2 += counters.topic_full + counters.journal_full + counters.damaged;
        }
        counts
    }

    /// Looks where the logs end.
    pub(super) fn look_at_ends<F: Files>(&mut self, now: Time, journal: &Journal<F>) {
        for log in &mut self.logs {
            log.end = journal.range(log.topic).map_or(log.end, |(_, last)| last.0.max(log.end));
        }
        // A clock that went back must not keep what is later.
        self.ends.retain(|(at, _)| *at <= now);
        self.ends.push_back((now, self.logs.iter().map(|log| log.end).collect()));
        while self.ends.get(1).is_some_and(|(at, _)| now.since(*at) >= SETTLING) {
            self.ends.pop_front();
        }
    }

    /// The ends of the logs, as they were so long ago that everything before has had time to go its ordinary way.
    pub(super) fn settled(&self, now: Time) -> Vec<LogEnd> {
        let settled = self.ends.front().filter(|(at, _)| now.since(*at) >= SETTLING);
        let Some(((_, ends), (_, newest))) = settled.zip(self.ends.back()) else { return Vec::new() };
        let logs = self.logs.iter().zip(ends.iter().zip(newest));
        logs.map(|(log, (end, now))| LogEnd { log: log.filter.as_str().into(), end: *end, now: *now })
            .collect()
    }

    /// The clock has been set.
    pub(super) fn handle_clock_step(&mut self, by: Span) {
        self.ends.iter_mut().for_each(|(at, _)| *at = at.moved(by));
    }

    fn topic_of(&self, log: &str) -> Option<TopicId> {
        self.logs.iter().find(|known| known.filter.as_str() == log).map(|known| known.topic)
    }
}

impl<F: Files, R: KeeperReporter> Keeper<F, R> {
    /// A message has come: one of this site is kept, one of another has come live.
    pub(super) fn take_message(&mut self, now: Time, message: &Arrived, payload: &[u8]) {
        let Some(account) = self.tap.stream(message.stream) else { return };
        if account.topic.starts_with('$') {
            return;
        }
        if !account.origin.is_empty() {
            let stream = (account.topic, account.publisher, account.incarnation);
            return self.asking.hear_live(now, account.origin, stream, message.seq);
        }
        let keeping = &mut self.keeping;
        let known = keeping.streams.get(&message.stream).filter(|known| known.0 == account.incarnation);
        if known.is_none() {
            let rule = keeping.rules.iter().find(|(filter, _)| filter.matches(account.topic));
            let Some(log) = rule.and_then(|(_, log)| *log) else { return };
            let identity = identity(account.topic, account.publisher, account.incarnation);
            keeping.streams.insert(message.stream, (account.incarnation, log, identity));
        }
        let Some((_, log, identity)) = keeping.streams.get(&message.stream) else { return };
        let Some(Log { topic, .. }) = keeping.logs.get(*log) else { return };
        let name = account.publisher.len() + 1 + self.settings.site.len();
        if payload.len() > ITEM_BYTES_MAX || identity.len() > IDENTITY_BYTES_MAX || name > NAME_BYTES_MAX {
            keeping.too_long += 1;
            return;
        }
        let item = NewItem {
            topic: *topic,
            identity,
            sequence: message.seq,
            created: message.created,
            expires: Time::NEVER,
            flags: message.passed(payload).truths.0,
            payload,
        };
        // What is not kept is counted by the journal.
        let _ = self.journal.append(now, &item);
    }
}

/// Whose messages they are, as it stands in the journal: the publisher's name and its length, which life, and the topic.
fn identity(topic: &str, publisher: &str, life: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(10 + publisher.len() + topic.len());
    let length = u16::try_from(publisher.len()).unwrap_or(u16::MAX);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(publisher.as_bytes());
    bytes.extend_from_slice(&life.to_le_bytes());
    bytes.extend_from_slice(topic.as_bytes());
    bytes
}

/// The same read back: topic, publisher, life.
fn read_identity(bytes: &[u8]) -> Option<(&str, &str, u64)> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (publisher, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
    let (life, topic) = rest.split_first_chunk()?;
    Some((std::str::from_utf8(topic).ok()?, std::str::from_utf8(publisher).ok()?, u64::from_le_bytes(*life)))
}

/// The journal, as the answering side reads it.
pub(super) struct Reading<'a, F: Files> {
    pub(super) journal: &'a mut Journal<F>,
    pub(super) keeping: &'a Keeping,
    pub(super) now: Time,
}

impl<F: Files> Logs for Reading<'_, F> {
    fn younger(&mut self, log: &str, span: Span) -> u64 {
        let Some(topic) = self.keeping.topic_of(log) else { return 0 };
        if span <= Span::ZERO {
            return self.journal.last().0;
        }
        let mut cursor = self.journal.history(topic, History::Younger(span), self.now);
        let begin = cursor.position().0;
        let budget = Budget { items: usize::MAX, bytes: LOOKED_BYTES };
        let mut batch = self.journal.read(&mut cursor, self.now, budget);
        batch.next_item().map_or(begin, |item| item.position.0.saturating_sub(1))
    }

    fn read(
        &mut self,
        log: &str,
        after: u64,
        items: usize,
        each: &mut dyn FnMut(&Kept<'_>) -> bool,
    ) -> Looked {
        let Some(topic) = self.keeping.topic_of(log) else { return Looked { to: after, is_end: true } };
        let mut cursor = Cursor::after(topic, Position(after));
        let budget = Budget { items, bytes: LOOKED_BYTES };
        let mut batch = self.journal.read(&mut cursor, self.now, budget);
        while let Some(found) = batch.next_item() {
            let position = found.position.0;
            let Some((topic, publisher, life)) = read_identity(found.identity) else { continue };
            let (seq, created, flags, payload) = (found.sequence, found.created, found.flags, found.payload);
            let item = Item { topic, publisher, life, seq, created, flags, payload };
            if !each(&Kept { position, item }) {
                return Looked { to: position, is_end: false };
            }
        }
        let is_end = batch.is_at_end();
        Looked { to: after.max(cursor.position().0), is_end }
    }
}
