//! What clients know: which messages were accepted, who wanted them, who got them. Nothing of it comes from a broker's
//! memory.

use crate::operators::offset_of;
use crate::scenario::{Scenario, TopicSpec};
use contract::{Contract, Delays, Every, Lazy, Links, Loss, Span, Time, TopicFilter};
use processing::{GraphSpec, captures, fill};
use std::collections::{BTreeMap, BTreeSet};

/// What happened to a message in one life of one broker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Traces {
    life: Life,
    flags: u16,
    /// When its copy came, among all copies of the stream.
    came: u32,
}

/// Which life of a broker, and which time that it stood by in it: what it was told as backup counts until it joins
/// anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Life {
    pub(crate) process: u32,
    pub(crate) tenure: u32,
}

/// It came from its publisher, or was forwarded.
pub(crate) const ARRIVED: u16 = 1;
/// A copy of it came from the primary.
pub(crate) const COPY: u16 = 2;
/// The primary said that the copy is no longer needed.
pub(crate) const PRUNED: u16 = 4;
/// It was written for a subscriber.
pub(crate) const DISPATCHED: u16 = 8;
/// A copy was written for the backup.
pub(crate) const COPIED: u16 = 16;

/// A primary that it followed before said so, or the present one of an earlier copy.
pub(crate) const PRUNED_BEFORE: u16 = 64;
/// It came before it was created, by the clocks of the two.
pub(crate) const AHEAD: u16 = 32;
/// The primary was done with it before it had told what operators remember of it.
pub(crate) const DOUBTED: u16 = 128;

/// An accepted message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    /// When, in truth.
    pub(crate) accepted: Time,
    /// When, by its publisher's clock.
    pub(crate) stamped: Time,
    /// To which brokers its publisher has sent it, one bit each.
    pub(crate) sent: u8,
    traces: [Traces; 2],
}

/// What one subscriber got of one stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receipt {
    /// From which number to which it wanted them; the last range may be open.
    pub(crate) wanted: Vec<(u64, Option<u64>)>,
    had: Vec<u64>,
    /// The number that came first, in the subscriber's present life.
    pub(crate) began: Option<u64>,
    /// What earlier lives of the subscriber had.
    earlier: Vec<u64>,
    /// Messages that no guarantee covers: lost on the way with its connection or a host's kernel.
    pub(crate) excused: BTreeSet<u64>,
    /// Messages that the subscriber called late, and those that came when it had given them up; in its present life.
    pub(crate) called_late: u64,
    pub(crate) overdue: u64,
    /// While everything was whole, and otherwise.
    pub(crate) calm: Journeys,
    pub(crate) disturbed: Journeys,
}

/// How long messages took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Journeys {
    /// Messages that came.
    pub count: u64,
    /// The longest way.
    pub worst: Span,
    /// Those that came after their deadline.
    pub late: u64,
}

impl Journeys {
    pub(crate) fn add(&mut self, latency: Span, deadline: Span) {
        self.count += 1;
        self.worst = self.worst.max(latency);
        self.late += u64::from(latency > deadline);
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Journeys) -> Journeys {
        Journeys {
            count: self.count + other.count,
            worst: self.worst.max(other.worst),
            late: self.late + other.late,
        }
    }
}

impl Receipt {
    pub(crate) fn has(&self, seq: u64) -> bool {
        let has =
            |words: &Vec<u64>| words.get((seq / 64) as usize).is_some_and(|word| word >> (seq % 64) & 1 == 1);
        has(&self.had) || has(&self.earlier)
    }

    /// The subscriber begins a new life, and does not know what the one before had.
    fn begin_anew(&mut self) {
        self.earlier.resize(self.had.len().max(self.earlier.len()), 0);
        self.earlier.iter_mut().zip(&self.had).for_each(|(earlier, had)| *earlier |= had);
        self.had.clear();
        (self.began, self.called_late, self.overdue) = (None, 0, 0);
    }

    /// How many messages came, in the subscriber's present life.
    pub(crate) fn received(&self) -> u64 {
        self.had.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Whether each message came, from the first number on, in the subscriber's present life.
    pub(crate) fn had_in_this_life(&self) -> impl Iterator<Item = bool> {
        self.had.iter().flat_map(|word| (0..64).map(move |bit| word >> bit & 1 == 1))
    }

    /// Marks a message as had. Returns whether it was before, in this life of the subscriber.
    pub(crate) fn take(&mut self, seq: u64) -> bool {
        self.began.get_or_insert(seq);
        let word = (seq / 64) as usize;
        if word >= self.had.len() {
            self.had.resize(word + 1, 0);
        }
        let bit = 1 << (seq % 64);
        let before = self.had[word] & bit != 0;
        self.had[word] |= bit;
        before
    }
}

/// When the jobs of a message are due, counted from its creation. Computed here from the terms (F1, F2, F6, R4) and not
/// taken from the product, whose formulas are under test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Deadlines {
    /// `D^d' = D - dBS`.
    pub(crate) dispatch: Span,
    /// `D^r' = (N + L - M + 1)T - dBB - x`, `M` being 1 where copies are eager; forever where any loss is tolerated.
    pub(crate) replication: Span,
    /// `M`, where copies are lazy.
    pub(crate) every: Option<u64>,
}

impl Deadlines {
    fn of(contract: &Contract, delays: &Delays, links: &Links, lazy: Option<Lazy>) -> Option<Deadlines> {
        let to_subscriber = links.delay(contract.link)?.to_subscriber;
        let dispatch = Span(contract.deadline.0 - to_subscriber.0);
        let losses = match contract.loss {
            Loss::AtMost(losses) if !contract.period.is_forever() => u64::from(losses),
            _ => return Some(Deadlines { dispatch, replication: Span::FOREVER, every: None }),
        };
        let of_every = |every: u64| {
            let cover = contract.period * (u64::from(contract.retain) + losses + 1 - every);
            Span(cover.0 - delays.broker_to_broker.0 - delays.failover.0)
        };
        let every = lazy.and_then(|lazy| {
            let wanted = match lazy.every {
                Every::All => 1,
                Every::Max if losses > 0 && contract.retain > 0 => losses + 1,
                Every::Loss | Every::Max => losses.max(1),
            };
            let is_soon_enough = |every: &u64| of_every(*every) - delays.publisher_to_broker > lazy.budget;
            (1..=wanted).rev().find(is_soon_enough)
        });
        Some(Deadlines { dispatch, replication: of_every(every.unwrap_or(1)), every })
    }
}

/// One life of one topic at one publisher.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) topic: String,
    pub(crate) host: usize,
    pub(crate) contract: Contract,
    /// `None` where the link class is unknown.
    pub(crate) deadlines: Option<Deadlines>,
    pub(crate) judged: Option<bool>,
    pub(crate) ended: bool,
    pub(crate) messages: Vec<Message>,
    /// By subscriber.
    pub(crate) receipts: Vec<Option<Receipt>>,
    /// Messages that no guarantee covers for anybody.
    pub(crate) excused: BTreeSet<u64>,
    /// Copies that brokers wrote.
    pub(crate) copies: u64,
    /// Copies that have come to either broker.
    came: u32,
    /// How many of its newest messages a broker keeps at least.
    pub(crate) kept: u64,
    /// Whether operators remember something of it.
    remembered: bool,
    /// For results: the stream of the messages that they stand for, each for the one of its number.
    pub(crate) origin: Option<u32>,
    /// How many streams of results follow it.
    results: u32,
    /// Results that a broker could not carry.
    pub(crate) refused: bool,
}

/// A topic of results of which each stands for a message.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ResultTopic {
    from: String,
    topic: String,
    deadline: Span,
    period: Span,
}

impl Stream {
    pub(crate) fn message(&self, seq: u64) -> Option<&Message> {
        self.messages.get(seq as usize)
    }

    pub(crate) fn traces(&self, broker: usize, life: Life, seq: u64) -> u16 {
        let traces = self.message(seq).map_or(Traces::default(), |message| message.traces[broker]);
        traces.at(life).flags
    }

    /// A publisher has sent a message to a broker.
    pub(crate) fn sends(&mut self, broker: usize, seq: u64) {
        if let Some(message) = self.messages.get_mut(seq as usize) {
            message.sent |= 1 << broker;
        }
    }

    pub(crate) fn trace(&mut self, broker: usize, life: Life, seq: u64, flag: u16) {
        if let Some(message) = self.messages.get_mut(seq as usize) {
            let traces = &mut message.traces[broker];
            *traces = traces.at(life);
            traces.flags |= flag;
        }
    }

    /// A broker has been told that a message is done with; what operators remember, it had been told of all before or not.
    pub(crate) fn pruned(&mut self, broker: usize, life: Life, seq: u64, told_all: bool) {
        let known = self.traces(broker, life, seq) & COPY != 0;
        self.trace(broker, life, seq, if told_all || !self.remembered { PRUNED } else { DOUBTED });
        self.came += 1;
        if let Some(message) = self.messages.get_mut(seq as usize).filter(|_| !known) {
            message.traces[broker].came = self.came;
        }
    }

    /// When the copy of a message, or its prune where there was none, came to a broker, among all of this stream.
    pub(crate) fn came(&self, broker: usize, seq: u64) -> u32 {
        self.message(seq).map_or(0, |message| message.traces[broker].came)
    }

    /// A copy has come from the primary. What that said of an earlier copy does not hold for this one.
    pub(crate) fn copied(&mut self, broker: usize, life: Life, seq: u64) {
        let pruned = self.traces(broker, life, seq) & PRUNED != 0;
        self.trace(broker, life, seq, if pruned { COPY | PRUNED_BEFORE } else { COPY });
        self.came += 1;
        if let Some(message) = self.messages.get_mut(seq as usize) {
            message.traces[broker].flags &= !PRUNED;
            message.traces[broker].came = self.came;
        }
    }
}

impl Traces {
    /// What is left of it in this life.
    fn at(self, life: Life) -> Traces {
        let flags = if self.life.process != life.process {
            0
        } else if self.life.tenure != life.tenure {
            let before = if self.flags & (PRUNED | DOUBTED) != 0 { PRUNED_BEFORE } else { 0 };
            self.flags & !(COPY | PRUNED | DOUBTED) | before
        } else {
            self.flags
        };
        Traces { life, flags, ..self }
    }
}

/// A subscribing client.
#[derive(Clone, Debug)]
pub(crate) struct Subscriber {
    pub(crate) name: String,
    pub(crate) filters: Vec<TopicFilter>,
    /// Whether it asked for best effort.
    pub(crate) best_effort: bool,
    /// How much faster than time its clock is, in parts per billion.
    drift_ppb: i64,
    /// When its clock was last set; [`Time::ZERO`] if it never was.
    clock_set_at: Time,
    /// What the primary answered, by subscription: whether it is promised anything.
    pub(crate) answers: Vec<Option<bool>>,
}

impl Subscriber {
    pub(crate) fn wants(&self, topic: &str) -> bool {
        self.filters.iter().any(|filter| filter.matches(topic))
    }

    /// Somebody has set its clock.
    pub(crate) fn sets_clock(&mut self, now: Time) {
        self.clock_set_at = now;
    }

    /// Whether it may have given up a message that comes now, by its own clock, if it gives up what is older than this.
    pub(crate) fn may_have_given_up(&self, now: Time, accepted: Time, after: Span) -> bool {
        let sooner = i128::from(after.0) * i128::from(self.drift_ppb.max(0)) / 1_000_000_000;
        now.since(accepted) + Span(sooner as i64) > after || accepted < self.clock_set_at
    }

    /// Whether a subscription that matches the topic has been admitted, and is promised what the contract says.
    pub(crate) fn is_served(&self, topic: &str) -> bool {
        let admitted = self.answers.iter().map(|answer| *answer == Some(true));
        self.filters.iter().zip(admitted).any(|(filter, admitted)| admitted && filter.matches(topic))
    }
}

/// All of it.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    pub(crate) streams: Vec<Stream>,
    pub(crate) subscribers: Vec<Subscriber>,
    pub(crate) delays: Delays,
    links: Links,
    /// The present stream of a publisher's publication.
    current: BTreeMap<(usize, u32), u32>,
    publishers: usize,
    ring_slots_min: usize,
    lazy: Option<Lazy>,
    /// Topics whose messages come to operators that remember: they are never copied lazily.
    remembered: Vec<String>,
    results: Vec<ResultTopic>,
    /// Outputs whose results are made of several messages: topic, period and deadline.
    pub(crate) joined: Vec<(String, Span, Span)>,
}

impl Ledger {
    pub(crate) fn new(scenario: &Scenario) -> Ledger {
        let publishers = scenario.publishers.len();
        let subscribers = scenario.subscribers.iter().map(|spec| Subscriber {
            name: spec.name.clone(),
            filters: spec.filters.iter().filter_map(|filter| filter.parse().ok()).collect(),
            answers: vec![None; spec.filters.len()],
            best_effort: spec.best_effort,
            drift_ppb: spec.clock.drift_ppb,
            clock_set_at: Time::ZERO,
        });
        Ledger {
            streams: Vec::new(),
            subscribers: subscribers.collect(),
            delays: scenario.delays,
            links: scenario.links.clone(),
            current: BTreeMap::new(),
            publishers,
            ring_slots_min: scenario.limits.ring_slots_min,
            lazy: scenario.lazy(),
            remembered: remembered_topics(scenario),
            results: result_topics(scenario),
            joined: joined_topics(scenario),
        }
    }

    pub(crate) fn stream(&self, number: u32) -> Option<&Stream> {
        self.streams.get(number as usize)
    }

    pub(crate) fn stream_mut(&mut self, number: u32) -> Option<&mut Stream> {
        self.streams.get_mut(number as usize)
    }

    /// A subscriber's place, by its host.
    pub(crate) fn subscriber_of(&self, host: usize) -> Option<usize> {
        host.checked_sub(2 + self.publishers).filter(|index| *index < self.subscribers.len())
    }

    /// A publisher begins a stream. Those of its results get the numbers after it.
    pub(crate) fn begin_stream(&mut self, host: usize, number: u32, topic: &TopicSpec) -> u32 {
        let index = self.streams.len() as u32;
        if let Some(before) = self.current.insert((host, number), index) {
            let of_before = before as usize..=(before + self.streams[before as usize].results) as usize;
            self.streams[of_before].iter_mut().for_each(|stream| stream.ended = true);
        }
        let mut stream = self.new_stream(host, &topic.name, topic.contract, None);
        let lazy = self.lazy.filter(|_| !stream.remembered);
        stream.deadlines = Deadlines::of(&topic.contract, &self.delays, &self.links, lazy);
        self.streams.push(stream);
        for result in self.results.clone() {
            let Some(captured) = captures(&result.from, &topic.name) else { continue };
            let Some(name) = fill(&result.topic, &captured) else { continue };
            let ResultTopic { period, deadline, .. } = result;
            let contract = Contract { period, deadline, confirm: false, ..topic.contract };
            // Only the dispatch is a job of its own; a result is covered by its message.
            let dispatch = Deadlines::of(&contract, &self.delays, &self.links, None);
            let dispatch = dispatch.map(|due| Deadlines { replication: Span::FOREVER, ..due });
            let stream = self.new_stream(host, &name, contract, dispatch);
            self.streams.push(Stream { origin: Some(index), ..stream });
            self.streams[index as usize].results += 1;
        }
        index
    }

    fn new_stream(
        &self,
        host: usize,
        topic: &str,
        contract: Contract,
        deadlines: Option<Deadlines>,
    ) -> Stream {
        let receipt = |subscriber: &Subscriber| {
            let wanted = if subscriber.is_served(topic) { vec![(0, None)] } else { Vec::new() };
            subscriber.wants(topic).then(|| Receipt { wanted, ..Receipt::default() })
        };
        Stream {
            topic: topic.to_owned(),
            host,
            contract,
            deadlines,
            judged: None,
            ended: false,
            messages: Vec::new(),
            receipts: self.subscribers.iter().map(receipt).collect(),
            excused: BTreeSet::new(),
            copies: 0,
            came: 0,
            kept: self.kept(&contract),
            remembered: self.remembered.iter().any(|name| captures(name, topic).is_some()),
            origin: None,
            results: 0,
            refused: false,
        }
    }

    /// A stream and those of its results.
    fn family_mut(&mut self, number: u32) -> &mut [Stream] {
        let results = self.stream(number).map_or(0, |stream| stream.results) as usize;
        let first = number as usize;
        self.streams.get_mut(first..=first + results).unwrap_or_default()
    }

    /// A contract has been judged; its results are carried if it is.
    pub(crate) fn judge(&mut self, number: u32, admitted: bool) {
        self.family_mut(number).iter_mut().for_each(|stream| stream.judged = Some(admitted));
    }

    /// A broker cannot carry the results of this topic.
    pub(crate) fn refuse_results(&mut self, topic: &str) {
        let results = self.streams.iter_mut().filter(|stream| stream.origin.is_some());
        results.filter(|stream| stream.topic == topic).for_each(|stream| stream.refused = true);
    }

    /// The stream of the messages that a stream's messages stand for: itself, unless it is one of results.
    pub(crate) fn origin_of<'a>(&'a self, stream: &'a Stream) -> &'a Stream {
        stream.origin.and_then(|origin| self.stream(origin)).unwrap_or(stream)
    }

    /// Those between arrival and the later of dispatch and confirmation, and those that a publisher sends again.
    fn kept(&self, contract: &Contract) -> u64 {
        let link = self.links.delay(contract.link);
        let confirmation = link.filter(|_| contract.confirm).map_or(Span::ZERO, |link| link.confirmation);
        let dispatch = Deadlines::of(contract, &self.delays, &self.links, self.lazy)
            .map_or(Span::ZERO, |due| due.dispatch);
        let longest = (dispatch - self.delays.publisher_to_broker).max(Span::ZERO) + confirmation;
        let under_way = longest.as_nanos_u64() / contract.period.as_nanos_u64().max(1) + 1;
        under_way.max(u64::from(contract.retain) + 2).max(self.ring_slots_min as u64)
    }

    pub(crate) fn accept(&mut self, stream: u32, seq: u64, accepted: Time, stamped: Time) {
        for stream in self.family_mut(stream) {
            debug_assert_eq!(seq, stream.messages.len() as u64, "numbers follow each other");
            stream.messages.push(Message { accepted, stamped, sent: 0, traces: [Traces::default(); 2] });
        }
    }

    /// A subscriber has been answered: it wants what comes on what has been admitted. What was on its way when an admission
    /// was taken back is not held against anybody.
    pub(crate) fn answer(&mut self, now: Time, host: usize, subscription: u32, admitted: bool) {
        let Some(index) = self.subscriber_of(host) else { return };
        let subscriber = &mut self.subscribers[index];
        if let Some(answer) = subscriber.answers.get_mut(subscription as usize) {
            *answer = Some(admitted && !subscriber.best_effort);
        }
        for stream in self.streams.iter_mut().filter(|stream| !stream.ended) {
            let Some(receipt) = &mut stream.receipts[index] else { continue };
            let next = stream.messages.len() as u64;
            let open = receipt.wanted.last_mut().filter(|(_, to)| to.is_none());
            match (open, subscriber.is_served(&stream.topic)) {
                (None, true) => receipt.wanted.push((next, None)),
                (Some((from, to)), false) => {
                    let settled =
                        stream.messages.partition_point(|message| message.accepted + CLIENT_SLACK < now);
                    *to = Some((settled as u64).max(*from));
                }
                _ => {}
            }
        }
    }

    /// A client's process has died. What was on the way to a subscriber then, or from a publisher, is its own loss.
    pub(crate) fn client_dies(&mut self, now: Time, host: usize) {
        let subscriber = self.subscriber_of(host);
        if let Some(index) = subscriber {
            self.subscribers[index].answers.fill(None);
        }
        for stream in &mut self.streams {
            let slack = stream.contract.deadline + CLIENT_SLACK;
            let next = stream.messages.len() as u64;
            let recent = |messages: &[Message]| messages.partition_point(|m| m.accepted + slack < now) as u64;
            if stream.host == host {
                stream.ended = true;
                let from = recent(&stream.messages);
                stream.excused.extend(from..next);
            } else if let Some(receipt) = subscriber.and_then(|index| stream.receipts[index].as_mut()) {
                let from = recent(&stream.messages);
                receipt.begin_anew();
                receipt.excused.extend(from..next);
                if let Some((_, to)) = receipt.wanted.last_mut() {
                    to.get_or_insert(next);
                }
            }
        }
    }

    /// Whether no publisher waits for a verdict and no subscriber for an answer.
    pub(crate) fn everybody_is_answered(&self) -> bool {
        self.streams.iter().all(|stream| stream.ended || stream.judged.is_some())
            && self.subscribers.iter().all(|subscriber| subscriber.answers.iter().all(Option::is_some))
    }

    /// The longest period of the live streams.
    pub(crate) fn longest_period(&self) -> Span {
        let live = self.streams.iter().filter(|stream| !stream.ended);
        live.map(|stream| stream.contract.period)
            .filter(|period| !period.is_forever())
            .max()
            .unwrap_or_default()
    }

    /// How long after its creation a message may still come.
    pub(crate) fn settle_time(&self) -> Span {
        let longest = self.streams.iter().map(|stream| stream.contract.deadline).max().unwrap_or_default();
        longest + self.delays.failover
    }
}

/// Topics that feed graphs with an operator that remembers.
fn remembered_topics(scenario: &Scenario) -> Vec<String> {
    let remembers = |graph: &&GraphSpec| graph.operators.iter().any(|operator| operator.kind == "step");
    let graphs = scenario.plans().flatten().filter(remembers);
    graphs.flat_map(|graph| &graph.suppliers).map(|supplier| supplier.name.clone()).collect()
}

/// The topics of results that stand for messages one by one, in the order of their numbers after those.
fn result_topics(scenario: &Scenario) -> Vec<ResultTopic> {
    let mut topics = Vec::new();
    for graph in scenario.plans().flatten() {
        let [supplier] = graph.suppliers.as_slice() else { continue };
        for consumer in &graph.consumers {
            let operator = graph.operators.iter().find(|operator| operator.name == consumer.from);
            let offset = operator.map_or(0, |operator| offset_of(&operator.parameters));
            let (from, topic, deadline) = (supplier.name.clone(), consumer.name.clone(), consumer.deadline);
            let made = ResultTopic { from, topic, deadline, period: supplier.period };
            // Graphs that change keep what others see of them.
            if offset > 0 && !topics.contains(&(offset, made.clone())) {
                topics.push((offset, made));
            }
        }
    }
    topics.sort_by_key(|(offset, _)| *offset);
    topics.into_iter().map(|(_, topic)| topic).collect()
}

/// The other outputs, with the shortest period of what leads to them.
fn joined_topics(scenario: &Scenario) -> Vec<(String, Span, Span)> {
    let joins = scenario.plans().flatten().filter(|graph| graph.suppliers.len() > 1);
    let outputs = joins.flat_map(|graph| {
        let period = graph.suppliers.iter().map(|supplier| supplier.period).min().unwrap_or(Span::FOREVER);
        graph.consumers.iter().map(move |consumer| (consumer.name.clone(), period, consumer.deadline))
    });
    outputs.collect()
}

/// What was on the way when a client died is not held against anybody.
const CLIENT_SLACK: Span = Span::secs(1);
