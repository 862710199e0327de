//! The keeper beside a broker of a site: it keeps what is published here in the site's journal, and makes good what the site has missed of others.
//!
//! The problem: links between sites are cut for hours, and the hot path keeps nothing for so long. The idea: a keeper is two clients of the site's own
//! pair, in a thread of its own, with a journal on its own disk. One client (*tap*) gets what is published, and hands on what was missed; the other
//! (*talk*) speaks with keepers elsewhere by topics, `$keep/...`, which uplinks carry like any other. Who asks, and when, `backlog` decides.
//!
//! There is one beside each broker of a pair. Both keep; the one whose broker reigns asks, and tells the other one what has come of it (`$keeper/...`, which stays
//! in the site).
//!
//! Source: store and forward, `docs/decisions/0042`.

mod handing;
mod keeping;
mod talking;

use crate::client_node::feed;
use crate::node::Node;
use crate::uplink::ends::{Dials, Event, Heard, Through};
use crate::uplink::wishes::Wishes;
use backlog::{Answering, Asking, AskingSettings, OriginView, Traffic};
use contract::{Needs, Span, Time, TopicFilter};
use endpoint::{BROKERS_MAX, Endpoint, Limits, Reigning, Settings};
use handing::{Doing, HandingOn};
use journal::{Files, Journal, SyncOrder};
use keeping::{Keeping, Reading};
use std::collections::BTreeMap;
use talking::Talking;
use wire::{Effects, LinkChange, LinkId, LinkMap, PeerIndex};

/// Topics that are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptTopics {
    /// Which.
    pub filter: TopicFilter,
    /// For how long; zero: they are not, whatever a later filter says.
    pub keep: Span,
    /// Bytes that they may take; the oldest are given up then.
    pub bytes_max: u64,
    /// What is given up where the journal is full: what has the highest, below [`journal::PRIORITIES`].
    pub rank: u8,
}

/// Everything that a keeper is told at start.
#[derive(Clone, Debug)]
pub struct KeeperSettings {
    /// The site's name.
    pub site: String,
    /// How the site's own brokers are spoken to, where messages come and go.
    pub tap: Settings,
    /// The same where keepers speak with each other.
    pub talk: Settings,
    /// Which of the brokers it stands beside.
    pub beside: PeerIndex,
    /// What of this site is kept. Of two filters that mean a topic, the first counts.
    pub keep: Vec<KeptTopics>,
    /// Which topics of other sites may come.
    pub want: Vec<TopicFilter>,
    /// How much of what was published before is wanted of a site that is met for the first time.
    pub history: Span,
    /// Bytes in a second that leave as backlog at most.
    pub rate: u64,
    /// Bytes in a second that may come as backlog at most; zero: as many as others send.
    pub takes: u64,
    /// The number of the journal if it has none yet: no other has it.
    pub identity: u64,
}

impl KeeperSettings {
    /// The usual settings of a site whose pair has so many addresses. `incarnation`: when this process started.
    pub fn new(site: &str, beside: u8, brokers: u8, incarnation: u64) -> KeeperSettings {
        let limits = Limits { subscriptions: FILTERS_MAX, ..Limits::default() };
        let tap = format!("@{site}/keeper/{}", beside + 1);
        KeeperSettings {
            site: site.to_owned(),
            tap: Settings {
                crosses: true,
                hears_properties: true,
                limits,
                ..Settings::new(&tap, incarnation, brokers)
            },
            talk: Settings::new(&format!("keeper/{}", beside + 1), incarnation, brokers),
            beside: PeerIndex(beside),
            keep: Vec::new(),
            want: vec!["#".parse().expect("invariant: a filter")],
            history: Span::ZERO,
            rate: 1 << 20,
            takes: 0,
            identity: incarnation,
        }
    }
}

/// Filters that a keeper subscribes.
const FILTERS_MAX: usize = 16_384;
/// Numbers by which the driver is told to dial, for each of the two clients.
const PEERS_PER_END: u8 = 2 * BROKERS_MAX as u8;
/// Between two looks at what is due.
const TICK: Span = Span::millis(100);
/// Between two attempts to connect until there is a primary for the first time.
const HURRY: Span = Span::millis(2);
/// What is wanted as backlog is subscribed below this.
const BACKLOG: &str = "$backlog/";

/// What a keeper has to tell.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KeeperNews<'a> {
    /// Something about its journal.
    Journal(&'a journal::Event),
    /// The site's own brokers do not let it in, or have let it go, or do not let it do something.
    Homeless {
        /// Why.
        why: &'a str,
    },
    /// There was no time for the keeper as one more subscriber: it is served as best effort, and may miss messages.
    Unpromised {
        /// Why.
        why: &'a str,
    },
    /// A topic could not be subscribed or published at the site's own brokers.
    Refused {
        /// The topic or filter.
        topic: &'a str,
        /// Why.
        why: &'a str,
    },
    /// Everything that was missed of a site has come.
    Had {
        /// The site.
        site: &'a str,
        /// So many messages since this was told last.
        messages: u64,
        /// So many were missed, and are not there any more.
        gone: u64,
    },
}

/// Who hears of it.
pub trait KeeperReporter {
    /// Something has happened.
    fn report(&mut self, news: &KeeperNews<'_>);
}

/// A keeper as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeeperView {
    /// Whether its broker reigns, so that it asks.
    pub acts: bool,
    /// Filters that are subscribed below `$backlog/` at the site.
    pub wanted: usize,
    /// How the journal is.
    pub state: journal::State,
    /// Bytes of all its files.
    pub bytes: u64,
    /// Messages that were kept since it began.
    pub kept: u64,
    /// Messages that were not.
    pub not_kept: u64,
    /// Messages that were given up before their time, for want of room.
    pub given_up: u64,
    /// How it stands with other sites.
    pub origins: Vec<OriginView>,
    /// What was given to other sites.
    pub given: Vec<(String, Traffic)>,
}

/// One of a keeper's clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Tap,
    Talk,
}

impl Side {
    /// Its numbers for dialing.
    fn dials(self) -> Dials {
        let base = match self {
            Side::Tap => 0,
            Side::Talk => PEERS_PER_END,
        };
        Dials { base, brokers: BROKERS_MAX as u8 }
    }
}

/// The keeper of a site, wired to bytes.
pub struct Keeper<F: Files, R> {
    settings: KeeperSettings,
    reporter: R,
    journal: Journal<F>,
    keeping: Keeping,
    asking: Asking,
    answering: Answering,
    tap: Endpoint,
    talking: Talking,
    handing: HandingOn,
    links: LinkMap<Side>,
    heard: Heard,
    /// What is wanted here.
    wishes: Wishes,
    wants_anew: bool,
    /// What the tap subscribes, to keep it or to see what comes live, and the numbers.
    watched: BTreeMap<Box<str>, u32>,
    /// How it subscribes: as best effort, once something else was refused.
    needs: Needs,
    acts: bool,
    why: String,
    /// What had been told of each site: messages, and what was gone.
    told: BTreeMap<Box<str>, (u64, u64)>,
    next_tick: Time,
    began: Time,
    has_begun: bool,
}

impl<F: Files, R: KeeperReporter> Keeper<F, R> {
    /// A keeper that has just started, with a journal that was opened.
    pub fn new(settings: KeeperSettings, mut journal: Journal<F>, now: Time, reporter: R) -> Keeper<F, R> {
        let mut keeping = Keeping::new(&mut journal, &settings);
        let mut asking =
            Asking::new(AskingSettings { history: settings.history, began: now, takes: settings.takes }, now);
        keeping.restore(&journal, &mut asking);
        let mut tap = Endpoint::new(settings.tap.clone(), now);
        let talking = Talking::new(Endpoint::new(settings.talk.clone(), now));
        // Publishers send again what they retain as soon as a broker is there. The keeper is to be there before them.
        tap.retry_every(HURRY);
        Keeper {
            answering: Answering::new(settings.rate),
            settings,
            reporter,
            journal,
            keeping,
            asking,
            tap,
            talking,
            handing: HandingOn::default(),
            links: LinkMap::default(),
            heard: Heard::default(),
            wishes: Wishes::default(),
            wants_anew: false,
            watched: BTreeMap::new(),
            needs: Needs::NONE,
            acts: false,
            why: String::new(),
            told: BTreeMap::new(),
            next_tick: now,
            began: now,
            has_begun: false,
        }
    }

    /// The numbers by which the driver is told to dial a broker of the site's own.
    pub fn peers_of_home(broker: PeerIndex) -> [PeerIndex; 4] {
        let peers = |side: Side| [broker, Endpoint::way(broker)].map(|peer| side.dials().number(peer));
        let ([tap, through], [talk, other]) = (peers(Side::Tap), peers(Side::Talk));
        [tap, through, talk, other]
    }

    /// Who hears what it has to tell.
    pub fn reporter(&mut self) -> &mut R {
        &mut self.reporter
    }

    /// The journal, to be looked at.
    pub fn journal(&self) -> &Journal<F> {
        &self.journal
    }

    /// What of the journal is to be synced now. There is no other order until [`Keeper::synced`].
    pub fn poll_sync(&mut self, now: Time) -> Option<SyncOrder> {
        self.journal.poll_sync(now)
    }

    /// That has been done, or could not be.
    pub fn synced(&mut self, ticket: u64, result: Result<(), String>) {
        self.journal.handle_synced(ticket, result);
    }

    /// How it is.
    pub fn view(&self) -> KeeperView {
        let (kept, not_kept, given_up) = self.keeping.counts(&self.journal);
        KeeperView {
            acts: self.acts,
            wanted: self.asking.wanted(),
            state: self.journal.state().clone(),
            bytes: self.journal.used_bytes(),
            kept,
            not_kept,
            given_up,
            origins: self.asking.view(),
            given: self.answering.given().map(|(site, traffic)| (site.to_owned(), traffic)).collect(),
        }
    }

    /// What is subscribed whatever others want: own topics that are kept, and what keepers say.
    fn begin<N: Effects>(&mut self, net: &mut N) {
        self.has_begun = true;
        self.watch([].into_iter(), net);
        let mut heard = Heard::default();
        let mut out = Through { net, dials: Side::Talk.dials(), heard: &mut heard };
        for filter in talking::heard_by(&self.settings.site).iter().filter_map(|topic| topic.parse().ok()) {
            // What keepers say to each other takes nothing from what others are promised.
            self.talking.endpoint.subscribe_with(&filter, Needs::BEST_EFFORT, &mut out);
        }
        // What is said first has a topic then.
        self.talking.publication(talking::PROGRESS, net);
    }

    /// Has one of the clients do something, and then deals with what has come of it.
    fn with<N: Effects, T>(
        &mut self,
        now: Time,
        side: Side,
        net: &mut N,
        act: impl FnOnce(&mut Endpoint, &mut Through<'_, N>) -> T,
    ) -> T {
        let mut heard = std::mem::take(&mut self.heard);
        let endpoint = match side {
            Side::Tap => &mut self.tap,
            Side::Talk => &mut self.talking.endpoint,
        };
        let result = act(endpoint, &mut Through { net, dials: side.dials(), heard: &mut heard });
        let mut messages = std::mem::take(&mut heard.messages);
        for message in messages.drain(..) {
            let payload = heard.payload(&message);
            match side {
                Side::Tap => self.take_message(now, &message, payload),
                Side::Talk => self.take_word(now, &message, payload, net),
            }
        }
        heard.messages = messages;
        heard.payloads.clear();
        for (_, event) in heard.events.drain(..) {
            self.hear(now, side, event, net);
        }
        self.heard = heard;
        if std::mem::take(&mut self.wants_anew) {
            self.want(now, net);
        }
        result
    }

    fn hear<N: Effects>(&mut self, now: Time, side: Side, event: Event, net: &mut N) {
        match event {
            Event::Reigning(Reigning::Primary { broker, relayed, .. }) if side == Side::Tap => {
                self.why.clear();
                self.tap.retry_every(self.settings.tap.retry);
                self.wishes.ask();
                self.acts = broker == self.settings.beside && !relayed;
                let acts = self.acts;
                self.asking_does(now, net, |asking, hands| asking.act(now, acts, hands));
                self.wants_anew = true;
            }
            Event::Interest { filter, way } => {
                let is_news = self.wishes.hear(&filter, way, false);
                self.wants_anew |= is_news || filter.is_empty();
            }
            Event::Refused { publication, why } => {
                let topic = match side {
                    Side::Talk => self.talking.topic_of(publication),
                    Side::Tap => self.tap.carried(publication).map(|(topic, _)| topic.to_owned()),
                };
                let topic = topic.unwrap_or_default();
                self.reporter.report(&KeeperNews::Refused { topic: &topic, why: &why });
            }
            Event::Wished { refused: Some(why), .. } if side == Side::Tap && self.needs.is_none() => {
                self.reporter.report(&KeeperNews::Unpromised { why: &why });
                self.needs = Needs::BEST_EFFORT;
                self.unwatch(|_| false, net);
                self.wants_anew = true;
            }
            Event::Wished { refused: Some(why), .. } => {
                self.reporter.report(&KeeperNews::Refused { topic: "a filter", why: &why });
            }
            Event::Left { why } if self.why != why => {
                self.why = why;
                self.reporter.report(&KeeperNews::Homeless { why: &self.why });
            }
            _ => {}
        }
    }

    /// What is wanted here has changed: what comes live of it is watched, and the rest is asked for.
    fn want<N: Effects>(&mut self, now: Time, net: &mut N) {
        let below: TopicFilter = format!("{BACKLOG}#").parse().expect("invariant: a filter");
        let mut wanted = BTreeMap::new();
        for (filter, _) in self.wishes.within(std::slice::from_ref(&below)) {
            let topics = filter.as_str().strip_prefix(BACKLOG).and_then(|topics| topics.parse().ok());
            let Some(topics): Option<TopicFilter> = topics else { continue };
            for common in self.settings.want.iter().filter_map(|want| want.common(&topics)) {
                wanted.insert(Box::<str>::from(common.as_str()), common);
            }
        }
        self.watch(wanted.values().cloned(), net);
        let all = self.wishes.is_complete();
        self.asking.want(now, wanted.into_values().collect(), all);
    }

    /// The tap subscribes what is kept and these filters, and nothing else.
    fn watch<N: Effects>(&mut self, wanted: impl Iterator<Item = TopicFilter>, net: &mut N) {
        let kept = self.settings.keep.iter().filter(|kept| kept.keep > Span::ZERO);
        let all = kept.map(|kept| kept.filter.clone()).chain(wanted);
        let all: BTreeMap<Box<str>, TopicFilter> =
            all.map(|filter| (filter.as_str().into(), filter)).collect();
        self.unwatch(|filter| all.contains_key(filter), net);
        let mut heard = Heard::default();
        let mut out = Through { net, dials: Side::Tap.dials(), heard: &mut heard };
        for (text, filter) in all {
            if !self.watched.contains_key(&text)
                && let Some(number) = self.tap.subscribe_with(&filter, self.needs, &mut out)
            {
                self.watched.insert(text, number);
            }
        }
    }

    /// The tap subscribes nothing any more but these.
    fn unwatch<N: Effects>(&mut self, but: impl Fn(&str) -> bool, net: &mut N) {
        let mut heard = Heard::default();
        let mut out = Through { net, dials: Side::Tap.dials(), heard: &mut heard };
        self.watched.retain(|filter, number| {
            let stays = but(filter);
            if !stays {
                self.tap.unsubscribe(*number, &mut out);
            }
            stays
        });
    }

    /// The asking side does something.
    fn asking_does<N: Effects>(
        &mut self,
        now: Time,
        net: &mut N,
        act: impl FnOnce(&mut Asking, &mut Doing<'_, F, N>),
    ) {
        let Keeper { asking, journal, keeping, tap, talking, handing, .. } = self;
        let mut heard = Heard::default();
        act(asking, &mut Doing { now, journal, keeping, tap, talking, handing, net, heard: &mut heard });
    }

    /// Does what is due ten times in a second.
    fn tick<N: Effects>(&mut self, now: Time, net: &mut N) {
        self.journal.maintain(now, COPY_BYTES);
        while let Some(event) = self.journal.poll_event() {
            self.reporter.report(&KeeperNews::Journal(&event));
        }
        self.keeping.look_at_ends(now, &self.journal);
        self.say_beat(now, net);
        self.say_what_waits(now, net);
        self.asking_does(now, net, |asking, hands| asking.tick(now, hands));
        self.answer(now, net);
        self.handing.withdraw_idle(now, &mut self.tap, net);
        self.tell_what_came();
    }

    /// What is asked for is read and sent.
    fn answer<N: Effects>(&mut self, now: Time, net: &mut N) {
        let Keeper { answering, journal, keeping, talking, .. } = self;
        talking.take_asks(answering);
        if answering.is_idle() {
            return;
        }
        let mut reading = Reading { journal, keeping, now };
        answering.work(now, &mut reading, &mut |site, bytes| {
            talking.say(now, &talking::part_for(site), bytes, net)
        });
    }

    /// Tells when everything that was missed of a site has come.
    fn tell_what_came(&mut self) {
        if !self.acts {
            return;
        }
        for origin in self.asking.view() {
            let told = self.told.entry(origin.site.clone()).or_default();
            let now = (origin.came.messages, origin.gone);
            if now != *told && !origin.asks && origin.heard && origin.has_all {
                let (messages, gone) = (now.0 - told.0, now.1 - told.1);
                *told = now;
                self.reporter.report(&KeeperNews::Had { site: &origin.site, messages, gone });
            }
        }
    }
}

/// Bytes that compaction copies in one go.
const COPY_BYTES: usize = 256 << 10;

impl<F: Files, R: KeeperReporter> Node for Keeper<F, R> {
    fn handle_link(&mut self, now: Time, link: LinkId, change: LinkChange, net: &mut impl Effects) {
        let (side, change) = match change {
            LinkChange::Accepted(_) => return,
            LinkChange::Dialed(peer) => {
                let (side, peer) = of_peer(peer);
                self.links.insert(link, side);
                (Some(side), LinkChange::Dialed(peer))
            }
            LinkChange::Closed => (self.links.remove(link), change),
            LinkChange::Drained => (self.links.get(link).copied(), change),
        };
        if let Some(side) = side {
            self.with(now, side, net, |endpoint, out| endpoint.handle_link(now, link, change, out));
        }
    }

    fn handle_dial_failed(&mut self, now: Time, peer: PeerIndex, refused: bool, net: &mut impl Effects) {
        let (side, peer) = of_peer(peer);
        self.with(now, side, net, |endpoint, _| endpoint.handle_dial_failed(now, peer, refused));
    }

    fn handle_bytes(&mut self, now: Time, link: LinkId, bytes: &[u8], net: &mut impl Effects) -> usize {
        let Some(side) = self.links.get(link).copied() else { return bytes.len() };
        self.with(now, side, net, |endpoint, out| feed(endpoint, now, link, bytes, out))
    }

    fn run(&mut self, _now: Time, _net: &mut impl Effects) -> bool {
        false
    }

    fn handle_clock_step(&mut self, _now: Time, by: Span) {
        self.asking.handle_clock_step(by);
        self.keeping.handle_clock_step(by);
        self.handing.handle_clock_step(by);
        self.tap.handle_clock_step(by);
        self.talking.endpoint.handle_clock_step(by);
        self.next_tick = self.next_tick.moved(by);
    }

    fn handle_timeout(&mut self, now: Time, net: &mut impl Effects) {
        if !self.has_begun {
            self.begin(net);
        }
        for side in [Side::Tap, Side::Talk] {
            self.with(now, side, net, |endpoint, out| endpoint.handle_timeout(now, out));
        }
        // A clock that went back must not keep it from looking.
        if now >= self.next_tick || now + TICK < self.next_tick {
            self.next_tick = now + TICK;
            self.tick(now, net);
        }
    }

    fn next_deadline(&self) -> Time {
        self.tap.next_deadline().min(self.talking.endpoint.next_deadline()).min(self.next_tick)
    }
}

/// Whose number for dialing that is, and what it means there.
fn of_peer(peer: PeerIndex) -> (Side, PeerIndex) {
    let side = if peer.0 < PEERS_PER_END { Side::Tap } else { Side::Talk };
    (side, side.dials().peer(peer))
}
