//! The bridge itself: its core between a domain of DDS and a client of Verge, on one thread.

use crate::cyclone::{CycloneError, Domain, Ears, News, StandIn, Taken, Tap};
use contract::{Contract, Loss, Span, TopicFilter};
use crossbeam_channel::{Receiver, Sender, bounded};
use dds::{Bridge, BridgeId, Carried, Effect, Guid, Neighbour, Sample, Settings, Who, Wish};
use host::monotonic;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use verge::{Client, Error, Publisher};
use wire::limits::PAYLOAD_BYTES_MAX;

/// What is to be bridged.
#[derive(Clone, Debug)]
pub struct Options {
    /// The domain of DDS.
    pub domain: u32,
    /// Its number among bridges.
    pub known_as: u32,
    /// The bridge's name, for people.
    pub name: String,
    /// A number that no other bridge has.
    pub id: u64,
    /// Partitions and topics that may be carried (`-/rt/#`); empty: all.
    pub only: Vec<TopicFilter>,
    /// Those that may not.
    pub except: Vec<TopicFilter>,
    /// Those that are published although no reader of DDS elsewhere wants them.
    pub publish: Vec<TopicFilter>,
    /// After so long without a word of another bridge its writers are taken to be gone.
    pub lease: Span,
    /// The period of topics that the brokers' configuration does not know.
    pub period: Span,
}

/// Why a bridge ends.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BridgeError {
    /// The domain cannot be entered.
    #[error("cannot enter domain {0} of DDS: {1}; see CYCLONEDDS_URI for which network it uses")]
    Domain(u32, CycloneError),
    /// The client of Verge has ended.
    #[error(transparent)]
    Client(#[from] Error),
}

/// Samples that wait between DDS and Verge.
const SAMPLES_MAX: usize = 65_536;
/// What they may take.
const SAMPLE_BYTES_MAX: usize = 64 << 20;
/// Messages that wait between Verge and DDS.
const MESSAGES_MAX: usize = 65_536;
/// What they may take.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Messages of Verge that are looked at before samples of DDS are again.
const MESSAGES_AT_ONCE: usize = 1024;
/// Samples that wait for the readers of one stand-in.
const UNWRITTEN_MAX: usize = 8192;
/// What they may take.
const UNWRITTEN_BYTES_MAX: usize = 16 << 20;
/// How often time is told.
const TICK: Duration = Duration::from_millis(10);
/// For so long a message that cannot be sent yet is tried again.
const PATIENCE: Duration = Duration::from_secs(5);
/// What every bridge of Verge says of itself in a domain begins so.
const MARK: &str = "verge-dds/1";

/// What is heard of DDS.
struct Hearing {
    samples: Sender<Taken>,
    waiting: Arc<AtomicUsize>,
    /// Samples for which there was no room.
    overrun: Arc<AtomicU64>,
    news: Sender<()>,
}

impl Ears for Hearing {
    fn take(&self, taken: Taken) {
        let bytes = taken.sample.bytes.len();
        let fits = self.waiting.fetch_add(bytes, Ordering::Relaxed) + bytes <= SAMPLE_BYTES_MAX.max(bytes);
        if !fits || self.samples.try_send(taken).is_err() {
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            self.overrun.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn wake(&self) {
        // One is enough.
        let _ = self.news.try_send(());
    }
}

/// A message of Verge.
struct Come {
    topic: Arc<str>,
    payload: Vec<u8>,
    age: Span,
}

/// Bridges until `stop` says so. `tell` gets what people should know, one sentence each.
///
/// # Errors
/// The domain cannot be entered, or the client has ended.
pub fn run(
    client: &Client,
    options: &Options,
    mut stop: impl FnMut() -> bool,
    mut tell: impl FnMut(&str),
) -> Result<(), BridgeError> {
    let (samples, taken) = bounded(SAMPLES_MAX);
    let (news, has_news) = bounded(1);
    let (messages, come) = bounded(MESSAGES_MAX);
    let waiting = Arc::new(AtomicUsize::new(0));
    let overrun: Arc<AtomicU64> = Arc::default();
    let hearing = Hearing { samples, waiting: Arc::clone(&waiting), overrun: Arc::clone(&overrun), news };
    let domain = Domain::enter(options.domain, &mark(options, false), hearing)
        .map_err(|error| BridgeError::Domain(options.domain, error))?;
    let who = Who { id: BridgeId(options.id), name: options.name.clone(), domain: options.domain };
    let settings = Settings {
        who,
        domain: options.known_as,
        only: options.only.clone(),
        except: options.except.clone(),
        publish: options.publish.clone(),
        lease: options.lease,
        sample_bytes: PAYLOAD_BYTES_MAX - dds::HEADER_BYTES_MAX,
    };
    let mut hands = Hands {
        client,
        options,
        domain,
        taps: BTreeMap::new(),
        stand_ins: BTreeMap::new(),
        topics: BTreeMap::new(),
        subscriptions: BTreeMap::new(),
        tried: Instant::now(),
        said: BTreeMap::new(),
        messages,
        waiting: Arc::new(AtomicUsize::new(0)),
        overrun,
        unmade: Vec::new(),
        ending: VecDeque::new(),
        cursor: String::new(),
        outgoing: Vec::new(),
        told_long: BTreeSet::new(),
    };
    let own = hands.domain.guid();
    let mut bridge = Bridge::new(monotonic(), settings);
    while !stop() {
        client.check()?;
        wait(&taken, &come, &has_news);
        let mut lost = Vec::new();
        let mut look = |bridge: &mut Bridge, hands: &Hands<'_>| {
            let news = has_news.try_recv().map(|()| hands.domain.news()).unwrap_or_default();
            news.into_iter().for_each(|news| hear(bridge, options, own, news, &mut lost));
        };
        look(&mut bridge, &hands);
        // What is there now was written before what is lost now had gone.
        for Taken { tap, writer, sample } in taken.try_iter().take(taken.len()) {
            waiting.fetch_sub(sample.bytes.len(), Ordering::Relaxed);
            // Whoever wrote it may have come only now.
            look(&mut bridge, &hands);
            bridge.sample(monotonic(), tap, writer, sample);
        }
        lost.into_iter().for_each(|guid| bridge.lost(monotonic(), guid));
        for Come { topic, payload, age } in come.try_iter().take(MESSAGES_AT_ONCE) {
            hands.waiting.fetch_sub(payload.len(), Ordering::Relaxed);
            bridge.message(monotonic(), &topic, &payload, age);
        }
        bridge.dropped(hands.overrun.swap(0, Ordering::Relaxed));
        // Words of others may still wait here: nobody is taken to be silent before they are read.
        bridge.tick(monotonic(), come.is_empty());
        hands.carry_out(&mut bridge, &mut tell);
    }
    bridge.end();
    hands.carry_out(&mut bridge, &mut tell);
    Ok(())
}

/// Waits until there is something to do, or time is to be told.
fn wait(taken: &Receiver<Taken>, come: &Receiver<Come>, news: &Receiver<()>) {
    let mut select = crossbeam_channel::Select::new();
    select.recv(taken);
    select.recv(come);
    select.recv(news);
    let _ = select.ready_timeout(TICK);
}

/// What a bridge says of itself in its domain.
fn mark(options: &Options, serves: bool) -> String {
    let state = if serves { "serves" } else { "stands-by" };
    format!("{MARK} {} {} {state}", options.known_as, BridgeId(options.id))
}

/// Reads such a mark. `None`: it is none of a bridge, or of one for another domain.
fn neighbour(says: &[u8], known_as: u32) -> Option<Neighbour> {
    let mut words = std::str::from_utf8(says).ok()?.strip_prefix(MARK)?.split_whitespace();
    let domain: u32 = words.next()?.parse().ok()?;
    let id = BridgeId::try_from(words.next()?.to_owned()).ok()?;
    let serves = words.next()? == "serves";
    (domain == known_as).then_some(Neighbour { id, serves })
}

fn hear(bridge: &mut Bridge, options: &Options, own: Guid, news: News, lost: &mut Vec<Guid>) {
    match news {
        News::Participant(guid, _) if guid == own => {}
        News::Participant(guid, says) => {
            bridge.neighbour(guid, says.and_then(|says| neighbour(&says, options.known_as)));
        }
        // What bridges have made here is not of this domain.
        News::Endpoint(_, says) if says.starts_with(MARK.as_bytes()) => {}
        // Topics of the library's own begin so.
        News::Endpoint(endpoint, _) if endpoint.topic.starts_with("DCPS") => {}
        News::Endpoint(endpoint, _) => bridge.found(monotonic(), endpoint),
        News::Lost(guid) => lost.push(guid),
    }
}

/// A topic of Verge that is published.
struct Topic {
    publisher: Option<Publisher>,
    /// The contract that it is to have, where the brokers' configuration has none for it.
    wanted: Contract,
    /// The one that it has.
    contract: Contract,
    pace: Pace,
}

/// How fast messages follow each other.
#[derive(Default)]
struct Pace {
    first: Option<Instant>,
    messages: u32,
    told: bool,
}

impl Pace {
    /// Messages after which a pace is taken to be known.
    const ENOUGH: u32 = 100;

    /// Counts a message. Once, `Some`: the mean time between two messages, where that is less than half of the period.
    fn count(&mut self, period: Span) -> Option<Span> {
        let now = Instant::now();
        let first = *self.first.get_or_insert(now);
        self.messages += 1;
        if self.messages <= Pace::ENOUGH || self.told {
            return None;
        }
        let mean = Span::nanos(now.duration_since(first).as_nanos() as i64 / i64::from(Pace::ENOUGH));
        // Measured anew from here on.
        (self.first, self.messages) = (Some(now), 1);
        self.told = !period.is_forever() && mean.0 < period.0 / 2;
        self.told.then_some(mean)
    }
}

/// Topics that could not be published or received are tried again after so long.
const REST: Duration = Duration::from_secs(1);
/// So many of them at once: each may wait for an answer.
const AT_ONCE: usize = 8;
/// A publisher keeps what it has published for so long, so that it can send it again.
const RETAINED_FOR: Span = Span::secs(2);
/// But no more messages of a topic than this.
const RETAINED_MAX: i64 = 1000;

/// The contract of a topic that the brokers' configuration does not know.
fn contract_of(wish: Wish, period: Span) -> Contract {
    let period = period.max(Span::millis(1));
    let deadline = wish.deadline.unwrap_or(period.max(Span::secs(1)));
    match (wish.loss, wish.deadline) {
        (Loss::Unbounded, None) => Contract::unstated(),
        (Loss::Unbounded, Some(_)) => Contract::every(period).deadline(deadline).best_effort(),
        (Loss::AtMost(most), _) => {
            let retained = (RETAINED_FOR.0 / period.0).clamp(2, RETAINED_MAX) as u32;
            Contract::every(period).deadline(deadline).tolerate(most).retain(retained)
        }
    }
}

/// What a bridge does.
struct Hands<'a> {
    client: &'a Client,
    options: &'a Options,
    taps: BTreeMap<u64, Tap>,
    stand_ins: BTreeMap<Guid, Standing>,
    /// Readers and writers that could not be made, and are tried again.
    unmade: Vec<Effect>,
    /// Those that are no longer needed. Deleting a writer waits for its readers for up to a second.
    ending: VecDeque<Ending>,
    topics: BTreeMap<String, Topic>,
    /// Topics of Verge that are received; `None`: not yet.
    subscriptions: BTreeMap<String, Option<u32>>,
    /// When topics that could not be published or received were last tried again.
    tried: Instant,
    /// What was said of each last.
    said: BTreeMap<String, String>,
    messages: Sender<Come>,
    /// Bytes of messages that wait.
    waiting: Arc<AtomicUsize>,
    /// Messages for which there was no room.
    overrun: Arc<AtomicU64>,
    /// Messages of one topic that leave together.
    outgoing: Vec<(String, Vec<u8>)>,
    /// Topics with messages that are too long: each is told once.
    told_long: BTreeSet<String>,
    /// The topic that was tried again last.
    cursor: String,
    /// After everything that is in it.
    domain: Domain,
}

/// A stand-in, and what its readers have had no room for yet.
struct Standing {
    writer: StandIn,
    unwritten: VecDeque<Sample>,
    bytes: usize,
}

/// What is no longer needed.
enum Ending {
    Tap { _reader: Tap },
    StandIn { _writer: StandIn },
}

impl Standing {
    /// Writes a sample, or keeps it until there is room. Returns how many were dropped.
    fn write(&mut self, sample: Sample) -> u64 {
        if self.unwritten.is_empty() && self.writer.write(&sample).is_ok() {
            return 0;
        }
        self.bytes += sample.bytes.len();
        self.unwritten.push_back(sample);
        let mut dropped = 0;
        while self.unwritten.len() > UNWRITTEN_MAX || self.bytes > UNWRITTEN_BYTES_MAX {
            let Some(oldest) = self.unwritten.pop_front() else { break };
            self.bytes -= oldest.bytes.len();
            dropped += 1;
        }
        dropped
    }

    /// Writes what there is room for now.
    fn catch_up(&mut self) {
        while let Some(first) = self.unwritten.front() {
            if self.writer.write(first).is_err() {
                return;
            }
            self.bytes -= first.bytes.len();
            self.unwritten.pop_front();
        }
    }
}

impl Hands<'_> {
    fn carry_out(&mut self, bridge: &mut Bridge, tell: &mut impl FnMut(&str)) {
        while let Some(effect) = bridge.poll() {
            if !matches!(effect, Effect::Publish { .. }) {
                self.send(bridge, tell);
            }
            match effect {
                Effect::Publish { topic, message } => self.outgoing.push((topic, message)),
                Effect::Tap { .. } | Effect::StandIn { .. } => self.make(effect, tell),
                Effect::Untap { tap } => {
                    self.unmade.retain(|it| !matches!(it, Effect::Tap { tap: other, .. } if *other == tap));
                    self.ending.extend(self.taps.remove(&tap).map(|reader| Ending::Tap { _reader: reader }));
                }
                Effect::StandDown { writer } => {
                    self.unmade.retain(
                        |it| !matches!(it, Effect::StandIn { writer: other } if other.guid == writer),
                    );
                    let ended = self.stand_ins.remove(&writer);
                    self.ending.extend(ended.map(|ended| Ending::StandIn { _writer: ended.writer }));
                }
                Effect::Write { writer, sample } => {
                    let standing = self.stand_ins.get_mut(&writer);
                    bridge.dropped(standing.map_or(1, |standing| standing.write(sample)));
                }
                Effect::Advertise { topic, wish } => self.advertise(&topic, wish, tell),
                Effect::Withdraw { topic } => {
                    self.said.remove(&topic);
                    self.topics.remove(&topic);
                }
                Effect::Subscribe { topic } => self.subscribe(&topic, tell),
                Effect::Unsubscribe { topic } => {
                    self.said.remove(&topic);
                    if let Some(Some(number)) = self.subscriptions.remove(&topic) {
                        self.client.unsubscribe(number);
                    }
                }
                Effect::Look { writer } => {
                    if self.stand_ins.get(&writer).is_some_and(|standing| standing.writer.readers() > 0) {
                        bridge.is_found(writer);
                    }
                }
                Effect::Mark { serves } => {
                    if let Err(error) = self.domain.say(&mark(self.options, serves)) {
                        tell(&format!("cannot tell other bridges of the domain: {error}"));
                    }
                }
                Effect::Tell(words) => tell(&words),
            }
        }
        self.send(bridge, tell);
        self.stand_ins.values_mut().for_each(Standing::catch_up);
        self.end_some();
        self.try_again(tell);
    }

    /// Makes a reader or a writer. What cannot be made is tried again.
    fn make(&mut self, effect: Effect, tell: &mut impl FnMut(&str)) {
        let (name, result) = match &effect {
            Effect::Tap { tap, like, qos } => {
                let made = self.domain.tap(*tap, like, qos);
                (&like.topic, made.map(|reader| drop(self.taps.insert(*tap, reader))))
            }
            Effect::StandIn { writer } => {
                let made = self.domain.stand_in(writer).map(|made| {
                    let standing = Standing { writer: made, unwritten: VecDeque::new(), bytes: 0 };
                    drop(self.stand_ins.insert(writer.guid, standing));
                });
                (&writer.topic, made)
            }
            _ => return,
        };
        if let Err(error) = result {
            let name = format!("{name} of DDS");
            self.say_once(&name, format!("`{name}` cannot be bridged: {error}"), tell);
            self.unmade.push(effect);
        }
    }

    /// Deletes what is no longer needed, for a moment at a time.
    fn end_some(&mut self) {
        let begun = Instant::now();
        while self.ending.pop_front().is_some() && begun.elapsed() < TICK {}
    }

    /// A topic is published from now on.
    fn advertise(&mut self, topic: &str, wish: Wish, tell: &mut impl FnMut(&str)) {
        let contract = contract_of(wish, self.options.period);
        let wanted = Topic { publisher: None, wanted: contract, contract, pace: Pace::default() };
        self.topics.insert(topic.to_owned(), wanted);
        self.register(topic, tell);
    }

    /// Has the primary admit a topic: under the configured contract, or else under what its writers offer, or else as best effort.
    fn register(&mut self, topic: &str, tell: &mut impl FnMut(&str)) {
        if self.has_no_primary() {
            return;
        }
        let Some(known) = self.topics.get_mut(topic) else { return };
        let mut result = self.client.publisher_by_configuration(topic);
        let mut words = String::new();
        if matches!(result, Err(Error::Refused { .. })) {
            result = self.client.publisher(topic, known.wanted);
        }
        if let Err(Error::Refused { reason, .. }) = &result {
            words = format!("`{topic}` is carried as best effort, since its promise was refused: {reason}");
            result = self.client.publisher(topic, Contract::unstated());
        }
        match result {
            Ok(publisher) => {
                known.contract = publisher.contract().unwrap_or(known.wanted);
                known.publisher = Some(publisher);
            }
            Err(error) => words = format!("`{topic}` cannot be published yet: {error}"),
        }
        self.say_once(topic, words, tell);
    }

    /// While there is no primary, nothing is asked of it: each question would wait. Who watches the client tells of that.
    fn has_no_primary(&self) -> bool {
        self.client.without_primary().is_ok_and(|absence| absence.is_some())
    }

    /// Tells what has become of a topic, but not the same again.
    fn say_once(&mut self, topic: &str, words: String, tell: &mut impl FnMut(&str)) {
        if words.is_empty() {
            self.said.remove(topic);
        } else if self.said.get(topic) != Some(&words) {
            tell(&words);
            self.said.insert(topic.to_owned(), words);
        }
    }

    /// Tries again with topics that could not be published or received.
    fn try_again(&mut self, tell: &mut impl FnMut(&str)) {
        if self.tried.elapsed() < REST || self.has_no_primary() {
            return;
        }
        self.tried = Instant::now();
        std::mem::take(&mut self.unmade).into_iter().for_each(|effect| self.make(effect, tell));
        let unpublished = self.topics.iter().filter(|(_, known)| known.publisher.is_none());
        let unheard = self.subscriptions.iter().filter(|(_, number)| number.is_none());
        let mut due: Vec<String> =
            unpublished.map(|(topic, _)| topic).chain(unheard.map(|(topic, _)| topic)).cloned().collect();
        due.sort();
        // Each in its turn, so that one that is refused for good holds up no other.
        let turn = due.partition_point(|topic| *topic <= self.cursor);
        due.rotate_left(turn);
        for topic in due.into_iter().take(AT_ONCE) {
            if self.topics.contains_key(&topic) {
                self.register(&topic, tell);
            } else {
                self.subscribe(&topic, tell);
            }
            self.cursor = topic;
        }
    }

    fn subscribe(&mut self, topic: &str, tell: &mut impl FnMut(&str)) {
        self.subscriptions.insert(topic.to_owned(), None);
        if self.has_no_primary() {
            return;
        }
        let messages = self.messages.clone();
        let mut names: BTreeMap<u32, Arc<str>> = BTreeMap::new();
        let (waiting, overrun) = (Arc::clone(&self.waiting), Arc::clone(&self.overrun));
        // Nothing on the client's thread may wait: what is too much is counted.
        let handler = move |delivery: &verge::Delivery<'_>| {
            let bytes = delivery.payload.len();
            let fits = waiting.fetch_add(bytes, Ordering::Relaxed) + bytes <= MESSAGE_BYTES_MAX;
            let name = names.entry(delivery.stream).or_insert_with(|| Arc::from(delivery.topic));
            let come =
                Come { topic: Arc::clone(name), payload: delivery.payload.to_vec(), age: delivery.latency };
            if !fits || messages.try_send(come).is_err() {
                waiting.fetch_sub(bytes, Ordering::Relaxed);
                overrun.fetch_add(1, Ordering::Relaxed);
            }
        };
        let words = match self.client.subscribe_with(topic, handler) {
            Ok(number) => {
                self.subscriptions.insert(topic.to_owned(), Some(number));
                String::new()
            }
            Err(error) => format!("`{topic}` cannot be received yet: {error}"),
        };
        self.say_once(topic, words, tell);
    }

    /// Publishes what waits.
    fn send(&mut self, bridge: &mut Bridge, tell: &mut impl FnMut(&str)) {
        let outgoing = std::mem::take(&mut self.outgoing);
        let begun = Instant::now();
        let mut sent = 0;
        while sent < outgoing.len() {
            let (topics, rest) = (&self.topics, &outgoing[sent..]);
            let mut taken = 0;
            let result = self.client.batch(|batch| {
                for (topic, message) in rest {
                    let publisher = topics.get(topic).and_then(|known| known.publisher.as_ref());
                    let Some(publisher) = publisher else { return Err(Error::Topic(NOT_YET.to_owned())) };
                    batch.publish(publisher, message)?;
                    taken += 1;
                }
                Ok(())
            });
            for (topic, _) in outgoing[sent..sent + taken].iter().filter(|(_, it)| Carried::is_live(it)) {
                let Some(known) = self.topics.get_mut(topic) else { continue };
                let period = known.contract.period;
                if let Some(mean) = known.pace.count(period) {
                    tell(&format!(
                        "`{topic}` comes every {mean} on average, and its contract says {period}: state it (--period, or [[topic]] in the \
                         brokers' configuration), so that admission reckons with it"
                    ));
                }
            }
            sent += taken;
            match result {
                Ok(()) => {}
                Err(error) if error.is_retryable() && begun.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => {
                    let (topic, message) = &outgoing[sent];
                    let known = self.topics.get(topic).is_some_and(|known| known.publisher.is_some());
                    if known && self.told_long.len() < TOLD_MAX && self.told_long.insert(topic.clone()) {
                        tell(&format!(
                            "`{topic}`: a message of {} bytes is not sent: {error}",
                            message.len()
                        ));
                    }
                    // What was admitted once may be refused by a broker that has begun anew: it is registered anew as well.
                    if message.len() <= PAYLOAD_BYTES_MAX
                        && !error.is_retryable()
                        && let Some(known) = self.topics.get_mut(topic)
                    {
                        known.publisher = None;
                    }
                    bridge.dropped(u64::from(Carried::is_live(message)));
                    sent += 1;
                }
            }
        }
    }
}

/// Topics of which a message that could not be sent has been told.
const TOLD_MAX: usize = 1000;
const NOT_YET: &str = "it is not published yet";
