//! What clients of MQTT are promised: what was acknowledged reaches every session that outlives its connections, with QoS 2
//! once, in order; sessions, retained messages and wills are still there after a crash.
//!
//! Source: `docs/mqtt.md`, "what an acknowledgement means". It holds when a process dies or hands over. It does not where a
//! host goes down with what its kernel had not sent, where the kernel of a dead process discards what its partner was to be told, or
//! where two brokers reign for a while because nothing passes between them: what was published before such an upheaval is not
//! looked at.

use crate::device::{Taken, Word};
use crate::ledger::Ledger;
use crate::scenario::{DeviceSpec, Scenario};
use contract::{Span, Time, TopicFilter};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const ACKNOWLEDGED: &str = "acknowledged";
pub(super) const ACKNOWLEDGED_STATEMENT: &str =
    "what was acknowledged to a client of MQTT reaches every lasting session, and those are there";
pub(super) const ONCE: &str = "once";
pub(super) const ONCE_STATEMENT: &str =
    "with QoS 2, and with QoS 0, nothing comes twice, and messages keep their order";
pub(super) const RETAINED: &str = "retained";
pub(super) const RETAINED_STATEMENT: &str =
    "who subscribes is given the newest retained message of each topic";
pub(super) const WILLS: &str = "wills";
pub(super) const WILLS_STATEMENT: &str = "the will of a client whose process dies is published";

/// Numbers of streams that are devices'.
const DEVICE_STREAMS: u32 = 1 << 30;

/// A broker knows so soon of the end of a connection.
const HEARD_OF: Span = Span::millis(20);

/// Whether a payload says that a device published it.
pub(crate) fn is_of_device(stream: u32) -> bool {
    (DEVICE_STREAMS..crate::operators::MIXED).contains(&stream)
}

pub(super) type Verdict = Result<(), (&'static str, Time, String)>;

#[derive(Clone)]
struct Message {
    accepted: Time,
    answered: Option<Time>,
}

#[derive(Clone)]
struct Stream {
    topic: String,
    device: usize,
    qos: u8,
    retain: bool,
    is_will: bool,
    messages: Vec<Message>,
}

#[derive(Clone, Default)]
struct Session {
    /// Since when it has each of its subscriptions, as its client knows.
    subscribed: Vec<Option<Time>>,
    connected: Option<Time>,
    had: BTreeSet<(u32, u64)>,
    /// The newest message of each stream.
    newest: BTreeMap<u32, u64>,
    /// What each topic must give at least to one who subscribes in the end, and what came.
    asked: BTreeMap<u32, u64>,
    retained: BTreeMap<u32, u64>,
}

#[derive(Clone)]
struct Device {
    name: String,
    lasts: bool,
    filters: Vec<(TopicFilter, u8)>,
    streams: Vec<u32>,
    will: Option<u32>,
    session: Session,
}

#[derive(Clone)]
pub(crate) struct Devices {
    devices: Vec<Device>,
    streams: Vec<Stream>,
    first_host: usize,
    assumed: bool,
    unprotected: [bool; 2],
    alive: [bool; 2],
    reigning: [bool; 2],
    /// The host of a broker went down, not only its process.
    host_down: [bool; 2],
    /// Nothing is promised of what was published until then.
    upheaval: Time,
    /// When everybody subscribed once more.
    asked: Time,
    /// Wills that must be published, and since when.
    due: Vec<(u32, u64, Time)>,
}

/// What is looked at when a device's application is told something.
pub(super) fn looked_at(word: &Word) -> &'static [&'static str] {
    match word {
        Word::Connected { .. } | Word::Refused { .. } => &[ACKNOWLEDGED],
        Word::Message(taken) if taken.retained => &[RETAINED],
        Word::Message(_) => &[ONCE],
        Word::Subscribed { .. } | Word::Answered { .. } | Word::Nonsense(_) => &[],
    }
}

impl Devices {
    /// Messages that brokers have acknowledged.
    pub(super) fn answered(&self) -> u64 {
        let messages = self.streams.iter().flat_map(|stream| &stream.messages);
        messages.filter(|message| message.answered.is_some()).count() as u64
    }

    /// Wills that had to be published.
    pub(super) fn wills(&self) -> u64 {
        self.due.len() as u64
    }

    pub(super) fn new(scenario: &Scenario) -> Devices {
        let mut devices = Devices {
            devices: Vec::new(),
            streams: Vec::new(),
            first_host: 2 + scenario.publishers.len() + scenario.subscribers.len(),
            assumed: scenario.assumed,
            unprotected: [true; 2],
            alive: [false; 2],
            reigning: [false; 2],
            host_down: [false; 2],
            upheaval: Time::ZERO,
            asked: Time::ZERO,
            due: Vec::new(),
        };
        scenario.devices.iter().for_each(|spec| devices.add(spec));
        devices
    }

    fn add(&mut self, spec: &DeviceSpec) {
        let (device, mut streams) = (self.devices.len(), Vec::new());
        let mut stream = |topic: &str, qos, retain, is_will| {
            let topic = topic.to_owned();
            self.streams.push(Stream { topic, device, qos, retain, is_will, messages: Vec::new() });
            DEVICE_STREAMS + self.streams.len() as u32 - 1
        };
        for topic in &spec.topics {
            streams.push(stream(&topic.name, topic.qos, topic.retain, false));
        }
        let will = spec.will.as_ref().map(|topic| stream(topic, 1, false, true));
        let filters: Vec<_> =
            spec.filters.iter().filter_map(|(filter, qos)| Some((filter.parse().ok()?, *qos))).collect();
        let session = Session { subscribed: vec![None; filters.len()], ..Session::default() };
        self.devices.push(Device {
            name: spec.name.clone(),
            lasts: spec.lasts,
            filters,
            streams,
            will,
            session,
        });
    }

    fn stream(&self, number: u32) -> Option<&Stream> {
        self.streams.get(number.checked_sub(DEVICE_STREAMS)? as usize)
    }

    fn stream_mut(&mut self, number: u32) -> Option<&mut Stream> {
        self.streams.get_mut(number.checked_sub(DEVICE_STREAMS)? as usize)
    }

    pub(crate) fn device_of(&self, host: usize) -> Option<usize> {
        host.checked_sub(self.first_host).filter(|device| *device < self.devices.len())
    }

    /// The numbers of a device's streams, and that of its will.
    pub(crate) fn streams_of(&self, device: usize) -> (Vec<u32>, u32) {
        let Device { streams, will, .. } = &self.devices[device];
        (streams.clone(), will.unwrap_or(crate::port::NO_STREAM))
    }

    /// The number of the next message of a stream.
    pub(crate) fn next(&self, stream: u32) -> u64 {
        self.stream(stream).map_or(0, |stream| stream.messages.len() as u64)
    }

    pub(crate) fn accepted(&mut self, now: Time, stream: u32) {
        if let Some(stream) = self.stream_mut(stream) {
            stream.messages.push(Message { accepted: now, answered: None });
        }
    }

    /// A device has said this many times who it is; each time its will has another number.
    pub(crate) fn greets(&mut self, now: Time, device: usize, greetings: u64) {
        let Some(stream) = self.devices[device].will.and_then(|will| self.stream_mut(will)) else { return };
        while stream.messages.len() as u64 <= greetings {
            stream.messages.push(Message { accepted: now, answered: None });
        }
    }

    // What becomes of brokers.

    pub(crate) fn broker_starts(&mut self, host: usize) {
        (self.alive[host], self.unprotected[host], self.host_down[host]) = (true, true, false);
    }

    pub(crate) fn host_goes_down(&mut self, host: usize) {
        if let Some(down) = self.host_down.get_mut(host) {
            *down = true;
        }
    }

    /// A broker's process is gone. `reigned`: as far as anybody knows.
    pub(crate) fn broker_dies(&mut self, now: Time, host: usize, reigned: bool) {
        (self.alive[host], self.reigning[host]) = (false, false);
        if reigned && self.unprotected[host] {
            self.upheaval = now;
        }
        // It may not have heard of these deaths yet, and nobody else can know of them.
        self.due.retain(|(_, _, at)| !reigned || now.since(*at) > HEARD_OF);
    }

    /// `handed`: the other broker gave its reign away.
    pub(crate) fn promoted(&mut self, now: Time, host: usize, handed: bool) {
        (self.unprotected[host], self.reigning[host]) = (true, true);
        if !handed && (self.alive[1 - host] || self.host_down[1 - host]) {
            self.upheaval = now;
        }
    }

    /// The kernel of a dead broker has discarded something that was on its way to the other one.
    pub(crate) fn partner_not_told(&mut self, now: Time) {
        self.upheaval = now;
    }

    /// A broker has found out that another one reigns.
    pub(crate) fn follows(&mut self, now: Time, host: usize) {
        if std::mem::take(&mut self.reigning[host]) {
            self.upheaval = now;
        }
    }

    pub(crate) fn hands_over(&mut self, now: Time, host: usize) {
        self.reigning[host] = false;
        // Of one that has just died it does not know, and the other cannot tell it from one that is on its way.
        self.due.retain(|(_, _, at)| now.since(*at) > HEARD_OF);
    }

    pub(crate) fn protected(&mut self, host: usize, protected: bool) {
        self.unprotected[host] = !protected;
    }

    // What becomes of devices.

    /// A device's process is gone. `greetings`: the connection that it had, if it had one.
    pub(crate) fn dies(&mut self, now: Time, device: usize, greetings: Option<u64>) {
        let Device { will, session, filters, .. } = &mut self.devices[device];
        *session = Session { subscribed: vec![None; filters.len()], ..Session::default() };
        if let (Some(will), Some(number)) = (*will, greetings) {
            self.due.push((will, number, now));
        }
    }

    pub(crate) fn heard(&mut self, now: Time, device: usize, word: &Word, ledger: &Ledger) -> Verdict {
        match word {
            Word::Connected { asked, present } => self.connected(now, device, *asked, *present),
            Word::Subscribed { filter } => {
                self.devices[device].session.subscribed[*filter].get_or_insert(now);
                Ok(())
            }
            Word::Message(taken) if !is_of_device(taken.stream) => self.native(now, device, taken, ledger),
            Word::Message(taken) => self.took(now, device, taken),
            Word::Answered { stream, seq } => {
                if let Some(message) =
                    self.stream_mut(*stream).and_then(|stream| stream.messages.get_mut(*seq as usize))
                {
                    message.answered = Some(now);
                }
                Ok(())
            }
            Word::Refused { stream, seq, reason } if self.assumed => {
                let name = &self.devices[device].name;
                let topic = self.stream(*stream).map_or("?", |stream| &stream.topic);
                Err((ACKNOWLEDGED, now, format!("{topic} #{seq} of {name} was refused with {reason:#x}")))
            }
            Word::Refused { .. } => Ok(()),
            Word::Nonsense(what) => {
                Err((super::contents::NAME, now, format!("{} heard {what}", self.devices[device].name)))
            }
        }
    }

    fn connected(&mut self, now: Time, device: usize, asked: bool, present: bool) -> Verdict {
        let (assumed, upheaval) = (self.assumed, self.upheaval);
        let Device { name, lasts, session, .. } = &mut self.devices[device];
        let before = session.connected.replace(now);
        if !present {
            session.subscribed.fill(None);
        }
        if *lasts && asked && !present && assumed && before.is_some_and(|before| before > upheaval) {
            return Err((ACKNOWLEDGED, now, format!("the session of {name} was gone when it came back")));
        }
        Ok(())
    }

    /// A message of a native publisher: it is what it was, and asked for.
    fn native(&self, now: Time, device: usize, taken: &Taken, ledger: &Ledger) -> Verdict {
        let Device { name, filters, .. } = &self.devices[device];
        let is_right = taken.stream == crate::operators::MIXED
            || ledger.stream(taken.stream).is_some_and(|stream| {
                taken.intact && stream.topic == taken.topic && taken.seq < stream.messages.len() as u64
            });
        if is_right && filters.iter().any(|(filter, _)| filter.matches(&taken.topic)) {
            return Ok(());
        }
        Err((super::contents::NAME, now, format!("{name} was handed {taken:?}, which nobody published so")))
    }

    /// A message of a device, as a native subscriber was handed it.
    pub(super) fn crossed(&self, now: Time, name: &str, stream: u32, seq: u64, intact: bool) -> Verdict {
        let known = self.stream(stream).is_some_and(|stream| seq < stream.messages.len() as u64);
        if known && intact {
            return Ok(());
        }
        Err((
            super::contents::NAME,
            now,
            format!("{name} was handed #{seq} of {stream}, which nobody published so"),
        ))
    }

    fn took(&mut self, now: Time, device: usize, taken: &Taken) -> Verdict {
        let Taken { topic, stream: number, seq, intact, qos, retained } = taken;
        let (assumed, upheaval) = (self.assumed, self.upheaval);
        let Some(stream) = self.streams.get((number - DEVICE_STREAMS) as usize) else {
            return Err((super::contents::NAME, now, format!("bytes came that nobody published: {taken:?}")));
        };
        let sender_lasts = self.devices[stream.device].lasts;
        let Device { name, lasts, filters, session, .. } = &mut self.devices[device];
        let wanted = filters.iter().zip(&session.subscribed);
        let wanted = wanted.filter(|((filter, _), _)| filter.matches(&stream.topic));
        let wanted: Vec<(u8, Option<Time>)> =
            wanted.map(|((_, wanted), since)| ((*wanted).min(stream.qos), *since)).collect();
        // A filter of a higher quality may not have been granted when the message came to the broker.
        let best = |accepted: Time| {
            let later = |since: Option<Time>| since.is_none_or(|since| since >= accepted);
            let mut higher = wanted.iter().filter(|(wanted, _)| wanted > qos);
            wanted.iter().any(|(wanted, _)| wanted == qos) && higher.all(|(_, since)| later(*since))
        };
        let is_right = |message: &&Message| {
            let of_quality = best(message.accepted) || *retained && !wanted.is_empty();
            *intact && *topic == stream.topic && of_quality
        };
        let message = stream.messages.get(*seq as usize);
        let Some(message) = message.filter(is_right) else {
            return Err((
                super::contents::NAME,
                now,
                format!("{name} was handed {taken:?}, which nobody published so"),
            ));
        };
        if *retained {
            let newest = session.retained.entry(*number).or_default();
            *newest = (*newest).max(*seq);
            return Ok(());
        }
        let first = session.had.insert((*number, *seq));
        let newest = session.newest.get(number).copied().filter(|newest| newest > seq);
        session.newest.insert(*number, newest.unwrap_or(*seq));
        if !assumed || message.accepted <= upheaval || stream.is_will {
            return Ok(());
        }
        let once = match stream.qos {
            0 => true,
            1 => false,
            _ => sender_lasts && (*qos == 0 || *qos == 2 && *lasts),
        };
        if !first && once {
            return Err((ONCE, now, format!("{name} was handed {topic} #{seq} twice, with QoS {qos}")));
        }
        match newest {
            Some(newest) if first && *qos > 0 => {
                Err((ONCE, now, format!("{name} was handed {topic} #{seq} after #{newest}")))
            }
            _ => Ok(()),
        }
    }

    /// Devices with lasting sessions subscribe once more: what is retained must come.
    pub(crate) fn asks_for_retained(&mut self, now: Time) {
        self.asked = now;
        let upheaval = self.upheaval;
        let newest = |stream: &Stream| {
            let answered = |message: &Message| message.answered.is_some() && message.accepted > upheaval;
            stream.messages.iter().rposition(answered).filter(|_| stream.retain && stream.qos > 0)
        };
        let numbers = DEVICE_STREAMS..;
        let floors: Vec<(u32, u64)> = numbers
            .zip(&self.streams)
            .filter_map(|(number, stream)| Some((number, newest(stream)? as u64)))
            .collect();
        for device in self.devices.iter_mut().filter(|device| device.lasts) {
            let subscribed =
                || device.filters.iter().zip(&device.session.subscribed).filter(|(_, since)| since.is_some());
            let wants = |topic: &str| subscribed().any(|((filter, _), _)| filter.matches(topic));
            let topic = |number: u32| self.streams[(number - DEVICE_STREAMS) as usize].topic.as_str();
            device.session.asked =
                floors.iter().copied().filter(|(number, _)| wants(topic(*number))).collect();
            device.session.retained.clear();
        }
    }

    /// The run is over: what is still missing is lost.
    pub(super) fn ends(&self) -> Verdict {
        if !self.assumed {
            return Ok(());
        }
        for device in self.devices.iter().filter(|device| device.lasts) {
            for (number, stream) in (DEVICE_STREAMS..).zip(&self.streams) {
                self.nothing_missing(device, number, stream)?;
            }
            for (number, least) in &device.session.asked {
                let got = device.session.retained.get(number);
                if got.is_none_or(|got| got < least) {
                    let topic = &self.streams[(number - DEVICE_STREAMS) as usize].topic;
                    let what = format!(
                        "{} subscribed and was given {got:?} of {topic}, where #{least} is retained",
                        device.name
                    );
                    return Err((RETAINED, self.asked, what));
                }
            }
        }
        Ok(())
    }

    /// Since when a device has had a subscription for a topic with at least this QoS.
    fn since(&self, device: &Device, topic: &str) -> Option<Time> {
        let wants = device.filters.iter().zip(&device.session.subscribed);
        wants
            .filter(|((filter, qos), _)| *qos > 0 && filter.matches(topic))
            .filter_map(|(_, since)| *since)
            .min()
    }

    fn nothing_missing(&self, device: &Device, number: u32, stream: &Stream) -> Verdict {
        let Some(since) = self.since(device, &stream.topic).filter(|_| stream.qos > 0) else { return Ok(()) };
        let promised = since.max(self.upheaval);
        if stream.is_will {
            let due = self.due.iter().filter(|(will, _, at)| *will == number && *at > promised);
            return match due.clone().find(|(_, seq, _)| !device.session.had.contains(&(number, *seq))) {
                Some((_, seq, at)) => Err((
                    WILLS,
                    *at,
                    format!("{} misses {} #{seq}, the will of a device that died", device.name, stream.topic),
                )),
                None => Ok(()),
            };
        }
        for (seq, message) in (0..).zip(&stream.messages) {
            if message.answered.is_some()
                && message.accepted > promised
                && !device.session.had.contains(&(number, seq))
            {
                let what = format!("{} misses {} #{seq}, which was acknowledged", device.name, stream.topic);
                return Err((ACKNOWLEDGED, message.accepted, what));
            }
        }
        Ok(())
    }
}
