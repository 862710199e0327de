//! A client that speaks MQTT, and does what the libraries in use do: it comes back to either broker when its connection is
//! gone, sends again what was not answered, and hands a message of QoS 2 to its application once.
//!
//! Packets are written and read by another implementation than the product's ([`mqtt::testing`]).

mod packets;

use crate::scenario::DeviceSpec;
use crate::scene;
use contract::{Span, Time};
use engine::Node;
use mqtt::testing::{self, FromBroker, Heard, Publish, QoS, v5};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU16;
use wire::{Effects, LinkChange, LinkId, PeerIndex};

/// What an application on it was told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    /// The connection stands. `asked`: for the session that was there before.
    Connected {
        asked: bool,
        present: bool,
    },
    Subscribed {
        filter: usize,
    },
    Message(Taken),
    /// A message is covered, as the broker says.
    Answered {
        stream: u32,
        seq: u64,
    },
    /// It was not taken, for this reason.
    Refused {
        stream: u32,
        seq: u64,
        reason: u8,
    },
    /// A broker said something that it must not say.
    Nonsense(String),
}

/// A message that came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Taken {
    pub(crate) topic: String,
    pub(crate) stream: u32,
    pub(crate) seq: u64,
    /// The payload is what was published under this number.
    pub(crate) intact: bool,
    pub(crate) qos: u8,
    /// It came because it is retained.
    pub(crate) retained: bool,
}

/// A message of its application.
#[derive(Clone, Debug)]
struct Outgoing {
    topic: usize,
    stream: u32,
    seq: u64,
}

/// One that was sent and not answered to the end.
#[derive(Clone, Debug)]
struct Unanswered {
    id: u16,
    message: Outgoing,
    /// PUBREC has come.
    received: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Resting,
    Dialing,
    Greeting,
    Open,
}

/// A client that speaks MQTT.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    spec: DeviceSpec,
    /// The simulator's numbers of its topics, and that of its will.
    streams: Vec<u32>,
    will: u32,
    phase: Phase,
    link: Option<LinkId>,
    /// The broker that it is connected to, or tries next.
    broker: u8,
    attempts: u64,
    timer: Time,
    heard: Time,
    said: Time,
    /// It asks again at this time at the earliest.
    asks_at: Time,
    /// The session that was there before is of no use to it: it has just started.
    is_new: bool,
    greetings: u64,
    next_id: u16,
    unanswered: VecDeque<Unanswered>,
    waiting: VecDeque<Outgoing>,
    window: usize,
    /// Numbers of QoS 2 that have come and are not released.
    unreleased: BTreeSet<u16>,
    subscribing: Vec<(u16, usize)>,
    /// Topics that have a number on this connection, if the broker allows so many.
    aliased: Vec<bool>,
    aliases_max: usize,
    /// Topics by the numbers that the broker has given them on this connection.
    named: BTreeMap<u16, String>,
    pub(crate) words: Vec<Word>,
}

/// Messages that are on their way at most.
const WINDOW: usize = 10;
/// Messages that wait to be sent at most; above it, the application is told.
const WAITING_MAX: usize = 10_000;
/// A broker has so long to answer a CONNECT.
const GREETING: Span = Span::secs(3);
const KEEP_ALIVE_SECONDS: u16 = 1;
const KEEP_ALIVE: Span = Span::secs(KEEP_ALIVE_SECONDS as i64);
const CONNECT_WITHIN: Span = Span::millis(500);
/// It waits so long before it tries again, and longer each time.
const REST: Span = Span::millis(2);
const RESTS_MAX: u64 = 20;

impl Device {
    pub(crate) fn new(spec: &DeviceSpec, streams: Vec<u32>, will: u32, now: Time) -> Device {
        Device {
            spec: spec.clone(),
            streams,
            will,
            phase: Phase::Resting,
            link: None,
            broker: 0,
            attempts: 0,
            timer: now,
            heard: now,
            said: now,
            asks_at: now,
            is_new: true,
            greetings: 0,
            next_id: 0,
            unanswered: VecDeque::new(),
            waiting: VecDeque::new(),
            window: WINDOW,
            unreleased: BTreeSet::new(),
            subscribing: Vec::new(),
            aliased: Vec::new(),
            aliases_max: 0,
            named: BTreeMap::new(),
            words: Vec::new(),
        }
    }

    /// The broker that serves it, if one does and all of its subscriptions are answered.
    pub(crate) fn settled_at(&self) -> Option<usize> {
        (self.phase == Phase::Open && self.subscribing.is_empty()).then_some(usize::from(self.broker))
    }

    /// Messages that were not answered.
    pub(crate) fn open_messages(&self) -> usize {
        self.unanswered.len() + self.waiting.len()
    }

    /// Which connection it is, by what its will says.
    pub(crate) fn greetings(&self) -> u64 {
        self.greetings
    }

    /// Publishes. `false`: the message is not taken, now or ever.
    pub(crate) fn publish(&mut self, now: Time, topic: usize, seq: u64, net: &mut impl Effects) -> bool {
        let message = Outgoing { topic, stream: self.streams[topic], seq };
        if self.spec.topics[topic].qos == 0 {
            if self.phase == Phase::Open {
                self.write_publish(now, &message, None, net);
            }
            return self.phase == Phase::Open;
        }
        if self.waiting.len() >= WAITING_MAX {
            return false;
        }
        self.waiting.push_back(message);
        self.send_waiting(now, net);
        true
    }

    /// Asks once more for everything that it wants.
    pub(crate) fn subscribe_all(&mut self, now: Time, net: &mut impl Effects) {
        for filter in 0..self.spec.filters.len() {
            let id = self.new_id();
            self.subscribing.push((id, filter));
            self.write_subscribe(now, id, filter, net);
        }
    }

    fn new_id(&mut self) -> u16 {
        loop {
            self.next_id = self.next_id % u16::MAX + 1;
            let id = self.next_id;
            let used = self.unanswered.iter().any(|sent| sent.id == id);
            if !used && !self.subscribing.iter().any(|(asked, _)| *asked == id) {
                return self.next_id;
            }
        }
    }

    fn send_waiting(&mut self, now: Time, net: &mut impl Effects) {
        while self.phase == Phase::Open && self.unanswered.len() < self.window {
            let Some(message) = self.waiting.pop_front() else { return };
            let id = self.new_id();
            self.write_publish(now, &message, Some((id, false)), net);
            self.unanswered.push_back(Unanswered { id, message, received: false });
        }
    }

    /// What was not answered is sent again, in its order.
    fn send_again(&mut self, now: Time, net: &mut impl Effects) {
        for index in 0..self.unanswered.len() {
            let Unanswered { id, message, received } = self.unanswered[index].clone();
            if received {
                self.write(now, &testing::answer(6, id), net);
            } else {
                self.write_publish(now, &message, Some((id, true)), net);
            }
        }
    }

    // What comes.

    fn hear(&mut self, now: Time, heard: Heard, net: &mut impl Effects) {
        match heard {
            Heard::Connack { present, code: 0, more } if self.phase == Phase::Greeting => {
                self.is_connected(now, present, more.as_deref(), net);
            }
            Heard::Connack { .. } | Heard::Disconnect { .. } => self.give_up(now, net),
            Heard::Message(message) => self.take(now, &message, net),
            Heard::Puback(id, reason) => self.answered(now, id, reason, true, net),
            Heard::Pubrec(id, reason) => {
                self.answered(now, id, reason, false, net);
                if reason < FAILURE {
                    self.write(now, &testing::answer(6, id), net);
                }
            }
            Heard::Pubcomp(id, _) => {
                self.unanswered.retain(|sent| sent.id != id || !sent.received);
                self.send_waiting(now, net);
            }
            Heard::Pubrel(id, _) => {
                self.unreleased.remove(&id);
                self.write(now, &testing::answer(7, id), net);
            }
            Heard::Suback(id, codes) => {
                let Some(place) = self.subscribing.iter().position(|(asked, _)| *asked == id) else {
                    return self.words.push(Word::Nonsense(format!("SUBACK {id} was not asked for")));
                };
                let (_, filter) = self.subscribing.swap_remove(place);
                if codes.iter().all(|code| *code < FAILURE) {
                    self.words.push(Word::Subscribed { filter });
                }
            }
            Heard::Unsuback(..) | Heard::Pong => {}
        }
    }

    fn is_connected(
        &mut self,
        now: Time,
        present: bool,
        more: Option<&v5::ConnectAck>,
        net: &mut impl Effects,
    ) {
        let asked = !std::mem::take(&mut self.is_new);
        self.words.push(Word::Connected { asked, present });
        (self.phase, self.attempts, self.heard) = (Phase::Open, 0, now);
        self.named.clear();
        self.aliases_max = more.map_or(0, |ack| usize::from(ack.topic_alias_max));
        self.aliased = vec![false; self.aliases_max.min(self.spec.topics.len())];
        self.window = more.map_or(WINDOW, |ack| usize::from(ack.receive_max.get()).min(WINDOW));
        if !present {
            self.unreleased.clear();
        }
        self.send_again(now, net);
        if !present || !self.subscribing.is_empty() {
            self.subscribing.clear();
            self.subscribe_all(now, net);
        }
        self.send_waiting(now, net);
        self.set_timer();
    }

    fn take(&mut self, now: Time, message: &Publish, net: &mut impl Effects) {
        let (stream, seq, intact) = scene::read_payload(&message.payload);
        let id = message.packet_id.map_or(0, NonZeroU16::get);
        let (qos, handed) = match message.qos {
            QoS::AtMostOnce => (0, true),
            QoS::AtLeastOnce => (1, true),
            QoS::ExactlyOnce => (2, self.unreleased.insert(id)),
        };
        let topic = self.topic_of(message);
        if handed {
            let retained = message.retain;
            self.words.push(Word::Message(Taken { topic, stream, seq, intact, qos, retained }));
        }
        match qos {
            1 => self.write(now, &testing::answer(4, id), net),
            2 => self.write(now, &testing::answer(5, id), net),
            _ => {}
        }
    }

    /// The topic of a message; empty where neither it nor a number says which.
    fn topic_of(&mut self, message: &Publish) -> String {
        let topic = message.topic.to_string();
        let alias = message.properties.as_ref().and_then(|properties| properties.topic_alias);
        let Some(alias) = alias.map(NonZeroU16::get) else { return topic };
        if alias > packets::ALIASES_TAKEN {
            self.words.push(Word::Nonsense(format!("the topic alias {alias}")));
        }
        if !topic.is_empty() {
            self.named.insert(alias, topic);
        }
        self.named.get(&alias).cloned().unwrap_or_default()
    }

    /// PUBACK or PUBREC.
    fn answered(&mut self, now: Time, id: u16, reason: u8, is_end: bool, net: &mut impl Effects) {
        let Some(place) = self.unanswered.iter().position(|sent| sent.id == id) else { return };
        let sent = &mut self.unanswered[place];
        let first = !std::mem::replace(&mut sent.received, true);
        let Outgoing { stream, seq, .. } = sent.message;
        if first {
            self.words.push(match reason {
                0..FAILURE => Word::Answered { stream, seq },
                _ => Word::Refused { stream, seq, reason },
            });
        }
        if is_end || reason >= FAILURE {
            self.unanswered.remove(place);
            self.send_waiting(now, net);
        }
    }

    fn give_up(&mut self, now: Time, net: &mut impl Effects) {
        if let Some(link) = self.link.take() {
            net.hang_up(link);
        }
        self.rest(now);
    }

    /// Tries the other broker next.
    fn rest(&mut self, now: Time) {
        (self.phase, self.link) = (Phase::Resting, None);
        self.broker = 1 - self.broker;
        self.attempts += 1;
        self.timer = now + REST * self.attempts.min(RESTS_MAX);
    }

    fn set_timer(&mut self) {
        let asked = self.asks_at.max(self.heard + KEEP_ALIVE);
        self.timer = (self.said + KEEP_ALIVE).min(asked).min(self.heard + KEEP_ALIVE * 2);
    }
}

impl Node for Device {
    fn handle_link(&mut self, now: Time, link: LinkId, change: LinkChange, net: &mut impl Effects) {
        match change {
            LinkChange::Dialed(_) => {
                (self.link, self.phase) = (Some(link), Phase::Greeting);
                self.timer = now + GREETING;
                self.greet(now, net);
            }
            LinkChange::Closed if self.link == Some(link) => self.rest(now),
            _ => {}
        }
    }

    fn handle_dial_failed(&mut self, now: Time, _peer: PeerIndex, _refused: bool, _net: &mut impl Effects) {
        self.rest(now);
    }

    fn handle_bytes(&mut self, now: Time, link: LinkId, bytes: &[u8], net: &mut impl Effects) -> usize {
        let mut reader = FromBroker::new(self.spec.version);
        reader.feed(bytes);
        let mut used = 0;
        while self.link == Some(link) {
            self.heard = now;
            match reader.next_heard() {
                Ok(Some(heard)) => {
                    used = bytes.len() - reader.waiting();
                    self.hear(now, heard, net);
                }
                // The reader may have taken a part of the packet; the next one is given all of it.
                Ok(None) => return used,
                Err(error) => {
                    self.words.push(Word::Nonsense(error));
                    self.give_up(now, net);
                }
            }
        }
        bytes.len()
    }

    fn run(&mut self, _now: Time, _net: &mut impl Effects) -> bool {
        false
    }

    fn handle_timeout(&mut self, now: Time, net: &mut impl Effects) {
        if now < self.timer {
            return;
        }
        match self.phase {
            Phase::Resting => {
                (self.phase, self.timer) = (Phase::Dialing, Time::NEVER);
                net.dial(PeerIndex(self.broker), CONNECT_WITHIN);
            }
            Phase::Dialing => {}
            Phase::Greeting => self.give_up(now, net),
            Phase::Open if now >= self.heard + KEEP_ALIVE * 2 => self.give_up(now, net),
            Phase::Open => {
                // Who publishes and is sent nothing hears nothing unless it asks.
                let unheard = now >= self.heard + KEEP_ALIVE && now >= self.asks_at;
                if now >= self.said + KEEP_ALIVE || unheard {
                    self.write(now, &PINGREQ, net);
                    self.asks_at = now + KEEP_ALIVE;
                }
                self.set_timer();
            }
        }
    }

    fn next_deadline(&self) -> Time {
        self.timer
    }
}

const PINGREQ: [u8; 2] = [0xC0, 0];
/// Reasons from here on say no.
const FAILURE: u8 = 0x80;
