//! Peers: what is offered and wanted there, and what they say of it.
//!
//! The problem: a peer may die, and with it all that was put there. The idea: it is put again at the next one that answers. What had met until
//! then is taken to last until that one has had time to say the same.

use crate::Error;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use contract::{Contract, Needs};
use host::{Helpers, Place};
use report::{MeetingEvent, RefusalReport};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a peer may say nothing; one that has nothing to say sends an empty line more often.
const PATIENCE: Duration = Duration::from_secs(15);
const CONNECTS_WITHIN: Duration = Duration::from_secs(2);
/// How often it is looked whether all is over.
const LOOKS_EVERY: Duration = Duration::from_millis(250);
/// How long it is waited before peers are asked again.
const RESTS: Duration = Duration::from_millis(500);
/// How long another peer may take to say what the one before has said.
const SAYS_WITHIN: Duration = Duration::from_secs(5);
/// How long a topic goes on when it has stopped: the other end may ask another peer, since its own is restarted.
const LINGERS: Duration = Duration::from_secs(2);
/// The longest line that is read, and the longest answer.
const LINE_BYTES_MAX: usize = 256 << 10;
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Peers that may be given.
const PEERS_MAX: usize = 1_024;

/// Peers of one overlay: any of them may be asked, and the first that answers is.
#[derive(Clone, Debug)]
pub struct Peers(pub(crate) Arc<[Place]>);

/// What becomes of something that is offered or wanted.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Met {
    /// It has a topic with somebody: what is offered is published there, what is wanted comes there.
    Start {
        /// The topic.
        topic: String,
        /// What the other end says.
        other: String,
        /// The contract that follows from what both say, if one does.
        contract: Option<Contract>,
        /// What who wants it has to ask of brokers.
        needs: Needs,
    },
    /// It has no longer: the last with whom it had that topic has gone two seconds ago.
    Stop {
        /// The topic.
        topic: String,
    },
    /// Something matches, and what one end needs of messages the other one does not offer.
    Unfit {
        /// What the other end says.
        other: String,
        /// Why not.
        why: String,
    },
    /// The brokers refuse the topic, here or at the other end; nothing is published or comes there until it starts again.
    Refused {
        /// The topic.
        topic: String,
        /// Why.
        why: String,
    },
    /// Something new is kept that is as was wanted.
    Stored {
        /// What it is, as a profile.
        key: String,
        /// How many bytes its value has.
        bytes: u64,
        /// The value, if it has no more than 64 KiB.
        value: Option<Vec<u8>>,
    },
    /// This peer has it now.
    Asked {
        /// Where its HTTP is.
        peer: String,
    },
    /// The peer that had it has gone, and another one is asked. Topics go on meanwhile.
    Lost {
        /// Where its HTTP was.
        peer: String,
        /// Why.
        why: String,
    },
}

/// Who hears of that, on a thread of its own.
pub(crate) trait Hears: Send + 'static {
    /// Something has become of it.
    fn hear(&mut self, met: &Met);
    /// Some time has passed.
    fn tick(&mut self) {}
    /// A topic has stopped and goes on for a while, or it has started again meanwhile.
    fn lingers(&mut self, topic: &str, does: bool) {
        let _ = (topic, does);
    }
    /// What brokers have refused since this was last asked, and why: the other end is told.
    fn take_refused(&mut self) -> Vec<(String, String)> {
        Vec::new()
    }
}

impl<F: FnMut(&Met) + Send + 'static> Hears for F {
    fn hear(&mut self, met: &Met) {
        self(met);
    }
}

/// Something that is offered or wanted, as long as this lives.
pub struct Posting {
    shared: Arc<Shared>,
    helpers: Helpers,
}

#[derive(Default)]
struct Shared {
    ended: AtomicBool,
    stream: Mutex<Option<TcpStream>>,
}

impl Posting {
    /// An error, with the reason, once nothing is heard any more, since the function that hears it has panicked.
    pub fn check(&self) -> Result<(), Error> {
        self.helpers.loss().map_or(Ok(()), |loss| Err(Error::Ended(loss.to_string())))
    }
}

impl Drop for Posting {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        if let Some(stream) = self.shared.stream.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // One that is closed already is as it should be.
            _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Peers {
    /// Where HTTP of peers is: `host:port`, several divided by commas.
    pub fn at(places: &str) -> Result<Peers, Error> {
        let texts = places.split(',').map(str::trim).filter(|text| !text.is_empty());
        let one =
            |text: &str| text.parse().map_err(|reason| Error::Address { text: text.to_owned(), reason });
        let known: Vec<Place> = texts.map(one).collect::<Result<_, _>>()?;
        match known.len() {
            0 => Err(Error::Address { text: places.to_owned(), reason: "it is empty".to_owned() }),
            1..=PEERS_MAX => Ok(Peers(known.into())),
            _ => Err(Error::Limit("peers")),
        }
    }

    /// Offers something, and hears of it. Returns when a peer has it.
    /// ```no_run
    /// # fn f() -> Result<(), verge::Error> {
    /// let peers = verge::Peers::at("127.0.0.1:7611")?;
    /// let offered = peers.offer("drone, lidar", |met: &verge::Met| println!("{met:?}"))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn offer(&self, profile: &str, hears: impl FnMut(&Met) + Send + 'static) -> Result<Posting, Error> {
        self.post(true, profile, hears)
    }

    /// Wants something, and hears of it. Returns when a peer has it.
    pub fn want(&self, interest: &str, hears: impl FnMut(&Met) + Send + 'static) -> Result<Posting, Error> {
        self.post(false, interest, hears)
    }

    pub(crate) fn post(&self, offers: bool, text: &str, hears: impl Hears) -> Result<Posting, Error> {
        let path = if offers { "/api/v1/offer" } else { "/api/v1/want" };
        let asking = Asking { places: Arc::clone(&self.0), path, text: text.to_owned() };
        let first = asking.first(0)?;
        let shared = Arc::new(Shared::default());
        shared.hold(&first.1)?;
        let helpers = Helpers::new().map_err(|error| Error::System(error.to_string()))?;
        let follow = Follow { asking, shared: Arc::clone(&shared), hears, held: Held::default() };
        let work = move || {
            follow.run(first);
            Ok(())
        };
        helpers.hire("verge-peers", work).map_err(|error| Error::System(error.to_string()))?;
        Ok(Posting { shared, helpers })
    }
}

/// What a peer answers to `GET` of a path.
pub fn ask_peer(place: &str, path: &str) -> Result<String, Error> {
    let body = rest(place, request(place, "GET", path, &[])?)?;
    String::from_utf8(body).map_err(|error| Error::NoPeer(format!("{place}: {error}")))
}

/// The body of an answer.
pub(crate) fn rest(place: &str, answer: BufReader<TcpStream>) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    let read = answer.take(ANSWER_BYTES_MAX).read_to_end(&mut body);
    read.map_err(|error| Error::NoPeer(format!("{place}: {error}")))?;
    Ok(body)
}

/// The bytes that a text stands for.
pub(crate) fn bytes_of(text: String, encoding: Option<&str>) -> Option<Vec<u8>> {
    match encoding {
        Some("base64") => STANDARD.decode(text).ok(),
        _ => Some(text.into_bytes()),
    }
}

/// A request, and the rest of the answer behind its head.
pub(crate) fn request(
    place: &str,
    method: &str,
    path: &str,
    body: &[u8],
) -> Result<BufReader<TcpStream>, Error> {
    let (code, mut answer) = said(place, method, path, body).map_err(Error::NoPeer)?;
    if code == 200 {
        return Ok(answer);
    }
    let mut why = String::new();
    // What cannot be read says nothing.
    _ = answer.by_ref().take(LINE_BYTES_MAX as u64).read_to_string(&mut why);
    let why = why.trim().to_owned();
    // One that is full or ends says so; another one may take it.
    match code {
        503 => Err(Error::NoPeer(format!("{place}: {why}"))),
        404 => Err(Error::Nothing),
        _ => Err(Error::Peer(why)),
    }
}

/// The code of an answer, and the rest of it.
fn said(place: &str, method: &str, path: &str, body: &[u8]) -> Result<(u16, BufReader<TcpStream>), String> {
    let unreached = |error: io::Error| format!("the HTTP port {place} does not answer: {error}");
    let address = place.to_socket_addrs().map_err(unreached)?.next();
    let address = address.ok_or_else(|| format!("the name in {place} has no address"))?;
    let mut stream = TcpStream::connect_timeout(&address, CONNECTS_WITHIN).map_err(unreached)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(unreached)?;
    // By 1.0 the answer comes without parts.
    let head = format!("{method} {path} HTTP/1.0\r\nHost: {place}\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).map_err(unreached)?;
    let mut answer = BufReader::new(stream);
    let mut head = answer.by_ref().take(LINE_BYTES_MAX as u64);
    let mut line = String::new();
    head.read_line(&mut line).map_err(unreached)?;
    let code = line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    while line != "\r\n" {
        line.clear();
        if head.read_line(&mut line).map_err(unreached)? == 0 {
            return Err(format!("{place} does not answer as a peer does"));
        }
    }
    Ok((code, answer))
}

/// What is put, and where it may be.
struct Asking {
    places: Arc<[Place]>,
    path: &'static str,
    text: String,
}

impl Asking {
    /// The first peer that takes it, from this one on.
    fn first(&self, from: usize) -> Result<(usize, BufReader<TcpStream>), Error> {
        let mut troubles = Vec::new();
        for place in (from..from + self.places.len()).map(|place| place % self.places.len()) {
            match request(&self.name(place), "POST", self.path, self.text.as_bytes()) {
                Ok(answer) => return Ok((place, answer)),
                Err(Error::NoPeer(why)) => troubles.push(why),
                Err(other) => return Err(other),
            }
        }
        Err(Error::NoPeer(troubles.join("; ")))
    }

    /// Tells a peer that brokers refuse a topic.
    fn refuse(&self, place: usize, topic: String, why: String) -> Result<(), Error> {
        let said = serde_json::to_vec(&RefusalReport { topic, why });
        let said = said.map_err(|error| Error::System(error.to_string()))?;
        request(&self.name(place), "POST", "/api/v1/refuse", &said).map(drop)
    }

    fn name(&self, place: usize) -> String {
        self.places.get(place).map(ToString::to_string).unwrap_or_default()
    }
}

impl Shared {
    /// Remembers the connection, so that it can be closed.
    fn hold(&self, answer: &BufReader<TcpStream>) -> Result<(), Error> {
        let stream = answer.get_ref().try_clone().map_err(|error| Error::System(error.to_string()))?;
        *self.stream.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

/// Topics that have started.
#[derive(Default)]
struct Held {
    /// How often each has started, as the peer says that has it now.
    topics: BTreeMap<String, u32>,
    /// Those that the one before had said, and this one has not yet.
    before: BTreeSet<String>,
    until: Option<Instant>,
    /// Those that have stopped, and until when they may start again without a word.
    ending: BTreeMap<String, Instant>,
    /// What is new of these: whether it ends.
    lingers: Vec<(String, bool)>,
}

impl Held {
    /// Takes an event. Returns what is new.
    fn take(&mut self, event: MeetingEvent) -> Option<Met> {
        match event {
            MeetingEvent::Start { topic, other, contract, needs } => {
                let count = self.topics.entry(topic.clone()).or_default();
                *count += 1;
                let ended = self.ending.remove(&topic).is_some();
                if ended {
                    self.lingers.push((topic.clone(), false));
                }
                let goes_on = self.before.remove(&topic) | ended;
                if *count > 1 || goes_on {
                    return None;
                }
                let contract = contract.and_then(|contract| contract.contract().ok());
                let needs = needs.and_then(|needs| needs.needs().ok()).unwrap_or(Needs::NONE);
                Some(Met::Start { topic, other, contract, needs })
            }
            MeetingEvent::Stop { topic, .. } => {
                let count = self.topics.get_mut(&topic)?;
                *count -= 1;
                if *count > 0 {
                    return None;
                }
                self.topics.remove(&topic);
                self.lingers.push((topic.clone(), true));
                // Where it has only asked another peer, it is there again at once.
                self.ending.insert(topic, Instant::now() + LINGERS);
                None
            }
            MeetingEvent::Unfit { other, why, .. } => Some(Met::Unfit { other, why }),
            MeetingEvent::Refused { topic, why } => {
                Some(Met::Refused { topic, why: format!("the other end cannot have it: {why}") })
            }
            MeetingEvent::Stored { key, bytes, value, encoding } => {
                let value = value.and_then(|value| bytes_of(value, encoding.as_deref()));
                Some(Met::Stored { key, bytes, value })
            }
        }
    }

    /// Another peer is asked.
    fn begin_again(&mut self) {
        self.before.extend(std::mem::take(&mut self.topics).into_keys());
        self.until = Some(Instant::now() + SAYS_WITHIN);
    }

    /// What has stopped for long enough, and what the peer before had said and this one would have said by now.
    fn over(&mut self) -> BTreeSet<String> {
        let now = Instant::now();
        let ended = self.ending.iter().filter(|(_, until)| **until <= now);
        let mut over: BTreeSet<String> = ended.map(|(topic, _)| topic.clone()).collect();
        self.ending.retain(|topic, _| !over.contains(topic));
        if self.until.is_some_and(|until| until <= now) {
            self.until = None;
            over.append(&mut self.before);
        }
        over
    }
}

struct Follow<H> {
    asking: Asking,
    shared: Arc<Shared>,
    hears: H,
    held: Held,
}

impl<H: Hears> Follow<H> {
    fn run(mut self, first: (usize, BufReader<TcpStream>)) {
        let (mut place, mut answer) = first;
        loop {
            let peer = self.asking.name(place);
            self.hears.hear(&Met::Asked { peer: peer.clone() });
            let why = self.read(place, answer);
            if self.shared.has_ended() {
                return;
            }
            self.hears.hear(&Met::Lost { peer, why });
            let Some(next) = self.another(place + 1) else { return };
            (place, answer) = next;
            self.held.begin_again();
        }
    }

    /// The next peer that takes it; `None`: it is over.
    fn another(&mut self, from: usize) -> Option<(usize, BufReader<TcpStream>)> {
        while !self.shared.has_ended() {
            self.hears.tick();
            if let Ok(next) = self.asking.first(from)
                && self.shared.hold(&next.1).is_ok()
            {
                return (!self.shared.has_ended()).then_some(next);
            }
            std::thread::sleep(RESTS);
        }
        None
    }

    /// Reads what a peer says, until it says no more. Returns why.
    fn read(&mut self, place: usize, mut answer: BufReader<TcpStream>) -> String {
        if let Err(error) = answer.get_ref().set_read_timeout(Some(LOOKS_EVERY)) {
            return error.to_string();
        }
        let (mut line, mut heard) = (Vec::new(), Instant::now());
        loop {
            let left = (LINE_BYTES_MAX - line.len()) as u64;
            match answer.by_ref().take(left).read_until(b'\n', &mut line) {
                Ok(0) => return "it has ended".to_owned(),
                Ok(_) if line.last() == Some(&b'\n') => {
                    heard = Instant::now();
                    if let Err(why) = self.take(&line) {
                        return why;
                    }
                    line.clear();
                }
                Ok(_) if line.len() >= LINE_BYTES_MAX => return "it says what is too long".to_owned(),
                Ok(_) => {}
                Err(error) if is_time_out(&error) => {}
                Err(error) => return error.to_string(),
            }
            if self.shared.has_ended() {
                return String::new();
            }
            if heard.elapsed() > PATIENCE {
                return "nothing is heard of it".to_owned();
            }
            for topic in self.held.over() {
                self.hears.hear(&Met::Stop { topic });
            }
            self.hears.tick();
            for (topic, why) in self.hears.take_refused() {
                // One that cannot be told is gone, which is heard of here.
                _ = self.asking.refuse(place, topic, why);
            }
        }
    }

    fn take(&mut self, line: &[u8]) -> Result<(), String> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let event =
            serde_json::from_slice(line).map_err(|error| format!("it says what cannot be read: {error}"))?;
        if let Some(met) = self.held.take(event) {
            self.hears.hear(&met);
        }
        for (topic, does) in std::mem::take(&mut self.held.lingers) {
            self.hears.lingers(&topic, does);
        }
        Ok(())
    }
}

fn is_time_out(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(topic: &str) -> MeetingEvent {
        MeetingEvent::Start { topic: topic.into(), other: "x".into(), contract: None, needs: None }
    }

    fn stop(topic: &str) -> MeetingEvent {
        MeetingEvent::Stop { topic: topic.into(), other: "x".into() }
    }

    #[test]
    fn a_topic_of_two_stops_with_the_last() {
        let mut held = Held::default();
        assert!(matches!(held.take(start("t")), Some(Met::Start { .. })));
        assert_eq!(held.take(start("t")), None);
        assert_eq!(held.take(stop("t")), None);
        assert_eq!(held.take(stop("t")), None, "it may come back");
        assert_eq!(held.take(start("t")), None, "it did");
        assert_eq!(held.lingers, [("t".to_owned(), true), ("t".to_owned(), false)]);
        held.take(stop("t"));
        assert!(held.over().is_empty());
        held.ending.insert("t".to_owned(), Instant::now());
        assert_eq!(held.over(), BTreeSet::from(["t".to_owned()]));
        assert_eq!(held.take(stop("t")), None, "of what has not started nothing is said");
    }

    #[test]
    fn what_another_peer_says_as_well_goes_on() {
        let mut held = Held::default();
        held.take(start("stays"));
        held.take(start("goes"));
        held.begin_again();
        assert_eq!(held.take(start("stays")), None);
        assert!(held.over().is_empty(), "it still has time to say so");
        held.until = Some(Instant::now());
        assert_eq!(held.over(), BTreeSet::from(["goes".to_owned()]));
        held.take(stop("stays"));
        assert!(held.ending.contains_key("stays"));
    }
}
