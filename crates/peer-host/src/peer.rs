//! A peer, on sockets and a clock.

use crate::greeting::{greeting, ring_of, space_of, terms_of};
use crate::links::{self, Heard, Links};
use crate::programs::{self, Asked, NotPut, Stands, lines};
use crate::report::PeerReport;
use crate::secure::Secure;
use crate::shelf::{Shelf, Synced};
use crate::work::{Duty, Work};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use contract::{Location, Time};
use engine::{Note, Peer, PeerEffects, PeerWord, PutError, Where};
use host::Helpers;
use host::tls::{TlsSettings, mutual_terms};
use overlay::{Extent, Member, News, PeerId, Role};
use rendezvous::{Meeting, Space, Topic};
use report::{ContractReport, MeetingEvent, NeedsReport};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use store::{Answer, Item, ItemId, Limits};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

/// What a peer is told to be.
pub struct Settings {
    /// Its name, which no other one has.
    pub name: String,
    /// Where others reach it: host and port.
    pub address: String,
    /// Where it listens for them.
    pub peers: std::net::TcpListener,
    /// Where it listens for programs.
    pub programs: Option<std::net::TcpListener>,
    /// Where it is.
    pub location: Location,
    /// Profiles that it offers by itself.
    pub offers: Vec<String>,
    /// What is said of things.
    pub space: Space,
    /// How peers find together.
    pub overlay: overlay::Settings,
    /// What peers show each other, and whom they believe; not encrypted without.
    pub tls: Option<TlsSettings>,
    /// Where it keeps things; in memory, if nowhere.
    pub store: Option<PathBuf>,
    /// How much it keeps.
    pub keeps: Limits,
    /// Who runs functions of its region; nobody, if there is none.
    pub work: Option<Arc<dyn Work>>,
}

/// Where it says what people want to know.
pub trait Journal: Send + Sync {
    /// Something has happened.
    fn note(&self, text: &str);
    /// Something is not as it should be.
    fn warn(&self, text: &str);
}

/// What disks have done with that waits to be heard.
const SYNCED_MAX: usize = 64;
/// Words that wait to be heard.
const HEARD_MAX: usize = 1_024;
/// How long a peer that ends may take to say so.
const ENDS_WITHIN: Duration = Duration::from_millis(500);

/// Runs a peer until it is told to stop, or whoever could tell it is gone.
///
/// # Errors
///
/// The system gives no sockets or no thread, or what was kept cannot be read.
pub fn run(
    settings: Settings,
    helpers: &Helpers,
    journal: &dyn Journal,
    stop: oneshot::Receiver<()>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(settings, helpers, journal, stop))
}

async fn serve(
    mut settings: Settings,
    helpers: &Helpers,
    journal: &dyn Journal,
    mut stop: oneshot::Receiver<()>,
) -> io::Result<()> {
    let clock = Clock::new();
    settings.overlay.contacts = links::without(&settings.address, &settings.overlay.contacts);
    let terms: Arc<str> = terms_of(&settings.space, &settings.overlay).into();
    let id = PeerId { ring: ring_of(&settings.name), life: clock.now().0 };
    let Settings { name, address, location, offers, space, overlay, .. } = settings;
    let extent = overlay.extent;
    let own = Member { id, name, address, location };
    let (told, mut heard) = mpsc::channel(HEARD_MAX);
    let (asks, mut asked) = mpsc::channel(HEARD_MAX);
    let work = settings.work.take();
    if let Some(tls) = &settings.tls {
        // What is wrong is said now, and not at each connection.
        mutual_terms(tls).map_err(io::Error::other)?;
    }
    let secure = Secure(settings.tls.map(Arc::new));
    let links = Links::new(greeting(&own, &terms), secure.clone(), told.clone());
    tokio::spawn(links::attend(listener(settings.peers)?, terms, secure, told));
    if let Some(door) = settings.programs {
        tokio::spawn(programs::attend(listener(door)?, asks.clone(), work.clone()));
    }
    let (synced, mut done) = mpsc::channel(SYNCED_MAX);
    let mut peer = Peer::new(overlay, &space, own, settings.keeps, clock.now());
    let shelf = open_shelf(settings.store, &space, helpers, synced, (&mut peer, clock.now()))?;
    let (programs, turned_away) = (BTreeMap::new(), TurnedAway::default());
    let (answers, name) = (BTreeMap::new(), peer.rings().own().name.clone());
    let mut out = Outside {
        links,
        journal,
        programs,
        slow: Vec::new(),
        turned_away,
        shelf,
        name,
        failed: None,
        answers,
        work,
        unplaced: Vec::new(),
    };
    let mut numbers = 0;
    for text in &offers {
        numbers += 1;
        if let Err(error) = peer.offer(clock.now(), numbers, text, &mut out) {
            journal.warn(&format!("`{text}` is not offered: {error}"));
        }
    }
    while out.failed.is_none() {
        let now = clock.now();
        if peer.next_deadline() <= now {
            peer.handle_timeout(now, &mut out);
        }
        out.settle(&mut peer, now);
        out.give(&mut peer, now);
        out.assign(&mut peer, now);
        let due = clock.instant(peer.next_deadline());
        tokio::select! {
            _ = &mut stop => break,
            () = tokio::time::sleep_until(due.into()) => {}
            Some(heard) = heard.recv() => out.hear(&mut peer, clock.now(), heard),
            Some(synced) = done.recv() => out.synced(&mut peer, clock.now(), synced),
            Some(asked) = asked.recv() => {
                numbers += 1;
                out.asked(&mut peer, clock.now(), (numbers, &extent), asked);
            }
        }
    }
    out.end(&mut peer, clock.now());
    peer.handle_leave(clock.now(), &mut out);
    out.links.finish(ENDS_WITHIN).await;
    out.failed.map_or(Ok(()), |why| Err(io::Error::other(why)))
}

/// What it keeps, with what is there from an earlier life.
fn open_shelf(
    folder: Option<PathBuf>,
    space: &Space,
    helpers: &Helpers,
    synced: mpsc::Sender<Synced>,
    (peer, now): (&mut Peer, Time),
) -> io::Result<Shelf> {
    let Some(folder) = folder else { return Ok(Shelf::in_memory()) };
    let hire = |work: Box<dyn FnOnce() -> Result<(), String> + Send>| {
        helpers.hire("store", work).map(drop).map_err(|error| error.to_string())
    };
    let opened = Shelf::open(&folder, &space_of(space), synced, hire);
    let (shelf, found) = opened.map_err(io::Error::other)?;
    found.into_iter().for_each(|kept| peer.restore(now, kept));
    Ok(shelf)
}

fn duty(duty: engine::Duty) -> Duty {
    let engine::Duty { name, version, text, is_started } = duty;
    Duty { name, version: version.at, text, is_started }
}

fn listener(door: std::net::TcpListener) -> io::Result<TcpListener> {
    door.set_nonblocking(true)?;
    TcpListener::from_std(door)
}

/// Time since the Unix epoch as it was when the peer began, and as has passed since: nobody sets it.
struct Clock {
    began: Instant,
    at: Time,
}

impl Clock {
    fn new() -> Clock {
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Clock { began: Instant::now(), at: Time(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX)) }
    }

    fn now(&self) -> Time {
        let passed = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Time(self.at.0.saturating_add(passed))
    }

    /// A day from now for what is later.
    fn instant(&self, at: Time) -> Instant {
        let after = Duration::from_nanos(at.0.saturating_sub(self.at.0));
        let most = self.began.elapsed() + Duration::from_secs(86_400);
        self.began + after.min(most)
    }
}

struct Outside<'a> {
    links: Links,
    journal: &'a dyn Journal,
    /// Programs that have put something.
    programs: BTreeMap<u64, mpsc::Sender<String>>,
    /// Those that are let go: they do not read, or the peer takes no part any more.
    slow: Vec<u64>,
    turned_away: TurnedAway,
    shelf: Shelf,
    name: String,
    /// Why it ends, if it does by itself.
    failed: Option<String>,
    /// Who waits for what of things that are kept.
    answers: BTreeMap<u64, oneshot::Sender<Result<Answer, NotPut>>>,
    /// Who runs functions.
    work: Option<Arc<dyn Work>>,
    /// Functions of which it was told that nobody would run them.
    unplaced: Vec<(Arc<str>, Where)>,
}

/// Who was turned away, said once in a while.
#[derive(Default)]
struct TurnedAway {
    said: Option<Instant>,
    /// How many since.
    others: u64,
}

/// So often it is said at most.
const TURNED_AWAY_EVERY: Duration = Duration::from_secs(10);

impl TurnedAway {
    fn say(&mut self, why: &str, journal: &dyn Journal) {
        if self.said.is_some_and(|said| said.elapsed() < TURNED_AWAY_EVERY) {
            self.others += 1;
            return;
        }
        self.said = Some(Instant::now());
        match std::mem::take(&mut self.others) {
            0 => journal.warn(why),
            others => journal.warn(&format!("{why}; and {others} others were turned away before")),
        }
    }
}

impl Outside<'_> {
    fn hear(&mut self, peer: &mut Peer, now: Time, heard: Heard) {
        match heard {
            Heard::Word(from, word) => peer.handle_word(now, &from, word, self),
            Heard::TurnedAway(why) => self.turned_away.say(&why, self.journal),
            Heard::Gone(id) => peer.handle_lost(now, id, self),
            Heard::Reached(which) => {
                if let Some(id) = self.links.reached(&which) {
                    peer.handle_link(now, id, self);
                }
            }
            Heard::Failed(which) => self.links.failed(&which),
            Heard::Closed(which) => self.links.closed(&which),
        }
    }

    /// A program asks something, which has this number from now on.
    fn asked(&mut self, peer: &mut Peer, now: Time, (number, extent): (u64, &Extent), asked: Asked) {
        match asked {
            Asked::Report { answer } => _ = answer.send(PeerReport::of(peer, extent)),
            Asked::Refuse { topic, why, answer } => {
                _ = answer.send(peer.refuse(now, topic, &why, self));
            }
            Asked::Over { number } => {
                self.programs.remove(&number);
                peer.withdraw(now, number, self);
            }
            Asked::Put { answer, .. } if peer.rings().role() == Role::Out => {
                _ = answer.send(Err(NotPut::Out));
            }
            Asked::Keep { answer, .. }
            | Asked::Fetch { answer, .. }
            | Asked::Look { answer, .. }
            | Asked::KeepFunction { answer, .. }
            | Asked::StartFunction { answer, .. }
            | Asked::LookForFunctions { answer, .. }
                if peer.rings().role() == Role::Out =>
            {
                _ = answer.send(Err(NotPut::Out));
            }
            Asked::Keep { key, value, lasts, answer } => {
                self.ask(number, answer, |out| peer.keep(now, number, (&key, value), lasts, out));
            }
            Asked::Fetch { key, answer } => {
                self.ask(number, answer, |out| peer.fetch(now, number, &key, out));
            }
            Asked::Look { query, answer } => {
                self.ask(number, answer, |out| peer.look(now, number, &query, out));
            }
            Asked::KeepFunction { name, function, answer } => {
                let function = function.as_ref().map(|(at, text)| (*at, &**text));
                self.ask(number, answer, |out| peer.keep_function(now, number, (&name, function), out));
            }
            Asked::StartFunction { name, lasts, answer } => {
                self.ask(number, answer, |out| peer.start_function(now, number, (&name, lasts), out));
            }
            Asked::LookForFunctions { limit, answer } => {
                self.ask(number, answer, |out| peer.look_for_functions(now, number, limit, out));
            }
            Asked::Put { offers, text, answer } => {
                if answer.send(self.put(peer, now, number, (offers, &text))).is_err() {
                    // Whoever asked has gone meanwhile.
                    self.programs.remove(&number);
                    peer.withdraw(now, number, self);
                }
            }
        }
    }

    /// A program has a question about what is kept.
    fn ask(
        &mut self,
        number: u64,
        answer: oneshot::Sender<Result<Answer, NotPut>>,
        ask: impl FnOnce(&mut Self) -> Result<(), PutError>,
    ) {
        self.answers.insert(number, answer);
        if let Err(error) = ask(self)
            && let Some(answer) = self.answers.remove(&number)
        {
            _ = answer.send(Err(NotPut::Wrong(error)));
        }
    }

    /// Has functions run that are this peer's duty.
    fn assign(&mut self, peer: &mut Peer, now: Time) {
        let duties = peer.take_duties(now, self);
        let Some(work) = &self.work else { return };
        if let Some(duties) = duties {
            work.assign(duties.into_iter().map(duty).collect());
        }
        work.try_again();
        let unplaced: Vec<_> = peer.unplaced().map(|(name, at)| (Arc::clone(name), at)).collect();
        if self.unplaced != unplaced {
            self.unplaced.clone_from(&unplaced);
            work.have_unplaced(unplaced);
        }
    }

    /// Lets everything go.
    fn end(&mut self, peer: &mut Peer, now: Time) {
        if let Some(work) = &self.work {
            work.assign(Vec::new());
        }
        self.slow.extend(self.programs.keys());
        self.settle(peer, now);
    }

    /// Gives the disk what was written.
    fn give(&mut self, peer: &mut Peer, now: Time) {
        if let Some(why) = self.shelf.take_unread() {
            self.journal.warn(&format!("the store cannot read what it keeps: {why}"));
        }
        let ticket = peer.take_ticket();
        if let Some(ticket) = self.shelf.give(ticket) {
            peer.handle_synced(now, ticket, &Ok(()), self);
        }
    }

    /// The disk has done with something.
    fn synced(&mut self, peer: &mut Peer, now: Time, synced: Synced) {
        let Synced { ticket, result, .. } = self.shelf.done(synced);
        let result = result.map_err(|why| format!("{}: {why}", self.name));
        if let Err(why) = &result {
            self.failed = Some(format!(
                "the store's disk fails, and this peer ends: others have copies of what it keeps. {why}"
            ));
        }
        if let Some(ticket) = ticket {
            peer.handle_synced(now, ticket, &result, self);
        }
    }

    /// A program offers or wants something.
    fn put(
        &mut self,
        peer: &mut Peer,
        now: Time,
        number: u64,
        (offers, text): (bool, &str),
    ) -> Result<Stands, NotPut> {
        let (line, lines) = lines();
        self.programs.insert(number, line);
        let put =
            if offers { peer.offer(now, number, text, self) } else { peer.want(now, number, text, self) };
        if put.is_err() {
            self.programs.remove(&number);
        }
        put.map(|()| Stands { number, lines }).map_err(NotPut::Wrong)
    }

    /// Tells the peer whom it has lost, and lets programs go that do not read.
    fn settle(&mut self, peer: &mut Peer, now: Time) {
        while let Some(lost) = self.links.lost.pop() {
            peer.handle_lost(now, lost, self);
        }
        while let Some(number) = self.slow.pop() {
            // Its answer ends.
            self.programs.remove(&number);
            peer.withdraw(now, number, self);
        }
    }

    fn line(&mut self, number: u64, line: &MeetingEvent) {
        let Some(program) = self.programs.get(&number) else { return };
        let mut text = serde_json::to_string(line).unwrap_or_default();
        text.push('\n');
        if program.try_send(text).is_err() {
            self.slow.push(number);
        }
    }
}

impl PeerEffects for Outside<'_> {
    fn send(&mut self, to: &Member, word: &PeerWord) {
        self.links.say(&to.address, Some(to.id), word);
    }

    fn send_to_address(&mut self, address: &str, word: &PeerWord) {
        self.links.say(address, None, word);
    }

    fn start(&mut self, number: u64, meeting: &Meeting) {
        let (topic, other) = (meeting.name().to_string(), meeting.other.says.to_string());
        let line = match &meeting.agreed {
            Ok(agreed) => MeetingEvent::Start {
                topic,
                other,
                contract: agreed.contract.as_ref().map(ContractReport::of),
                needs: NeedsReport::of(&agreed.needs),
            },
            Err(why) => MeetingEvent::Unfit { topic, other, why: why.to_string() },
        };
        self.line(number, &line);
    }

    fn stop(&mut self, number: u64, meeting: &Meeting) {
        // Nothing has begun of what did not fit.
        if meeting.agreed.is_ok() {
            let (topic, other) = (meeting.name().to_string(), meeting.other.says.to_string());
            self.line(number, &MeetingEvent::Stop { topic, other });
        }
    }

    fn refused(&mut self, number: u64, topic: Topic, why: &str) {
        let (topic, why) = (topic.to_string(), why.to_owned());
        self.line(number, &MeetingEvent::Refused { topic, why });
    }

    fn write(&mut self, id: ItemId, item: &Item, until: Time) {
        self.shelf.write(id, item, until);
    }

    fn erase(&mut self, id: ItemId) {
        self.shelf.erase(id);
    }

    fn value(&self, id: ItemId) -> Option<Arc<[u8]>> {
        self.shelf.value(id)
    }

    fn answer(&mut self, request: u64, answer: Answer) {
        if let Some(waits) = self.answers.remove(&request) {
            // Whoever asked may have gone meanwhile.
            _ = waits.send(Ok(answer));
        }
    }

    fn noted(&mut self, number: u64, note: &Note) {
        let (value, encoding) = match note.value.as_deref().map(|value| (value, std::str::from_utf8(value))) {
            Some((_, Ok(text))) => (Some(text.to_owned()), Some("utf-8".to_owned())),
            Some((value, Err(_))) => (Some(STANDARD.encode(value)), Some("base64".to_owned())),
            None => (None, None),
        };
        let (key, bytes) = (note.key.to_string(), note.size);
        self.line(number, &MeetingEvent::Stored { key, bytes, value, encoding });
    }

    fn load(&self, at: Where, runs: usize) -> Option<u32> {
        self.work.as_ref()?.load(at, runs)
    }

    fn tell(&mut self, news: &News) {
        match news {
            News::Founded => self.journal.note("nobody answered: this peer begins a tree of regions"),
            News::Master => self.journal.note("it masters its region"),
            News::NoMaster => self.journal.note("another peer masters the region"),
            News::Replaced => {
                self.journal.warn(
                    "another peer of this name has begun later, and this one takes no part any more: give each its own name, and start this one again",
                );
                // Programs have to ask another one.
                self.slow.extend(self.programs.keys());
            }
            News::Full => self
                .journal
                .warn("its region has as many peers as it can, and takes no more; it is tried again"),
            _ => {}
        }
    }
}
