//! The endpoint as a value.
//!
//! It follows the highest reign that it has heard of. Each time it gets a primary (another one, or the same one after a
//! broken connection) a new *succession* begins: every publication sends what it retains once per succession, marked as
//! sent again, before anything new.
//!
//! A client that has no primary although a broker stands by for one is cut off from it, and asks that broker to be let through: that is
//! another connection to the same broker, a *way*, on which the primary answers. It is used until the primary is reached directly.
//!
//! What it refuses of a lower epoch is authority: nothing is published there. Messages that a deposed primary had
//! already sent are data like any other; they are taken, and duplicates are dropped.

use crate::brokers::{BrokerLink, Connection, Greeting};
use crate::carrying::Passed;
use crate::publication::{AdvertiseError, Publication, PublicationState, PublishError, Retained};
use crate::settings::{BROKERS_MAX, Settings};
use crate::subscription::{Confirmation, Delivery, Inbound, StreamAccount, Subscription};
use crate::tally::{Arrival, Tally};
use crate::witness::{TROUBLES_MAX, Untold, Witness, certain};
use contract::path::{Age, Timeliness};
use contract::{Contract, Filters, Mutant, Needs, NodeId, Reign, Span, Time, TopicFilter, names};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::fmt;
use wire::limits::PAYLOAD_BYTES_MAX;
use wire::{
    Announce, ClockDifference, Effects, Farewell, FarewellReason, Frame, Hello, LinkChange, LinkId, Mark,
    MarkKind, Message, MessageFlags, MessageKind, Messages, PROTOCOL_VERSION, PeerIndex, Secret, Shortfall,
    Standing, Verdict,
};

/// Whom an endpoint follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reigning {
    /// A primary.
    Primary {
        /// Which of the brokers, by its place in the list of addresses.
        broker: PeerIndex,
        /// That broker only stands by, and lets this client through to the primary, which it cannot reach.
        relayed: bool,
        /// Its reign.
        reign: Reign,
        /// How long there was none.
        outage: Span,
        /// It stood by before, on this connection: what the primary before it was told it has been told.
        stood_by: bool,
    },
    /// Nobody: messages are retained, as many as their contracts say.
    Nobody,
}

/// Why an address does not lead to a broker that a client can use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Unfit {
    /// What answers there does not speak the protocol of brokers.
    Stranger,
    /// A broker of another version.
    Version(u16),
    /// Connections are taken there, and nothing is said.
    Mute,
    /// Connections are closed there without a word.
    Curt,
    /// A broker has stopped answering.
    Silent,
    /// The broker is reached at another address as well.
    Same(PeerIndex),
    /// A broker of another pair than the one that is followed.
    Apart,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Stranger => f.write_str("is no Verge broker: something else listens there"),
            Unfit::Version(version) => write!(
                f,
                "speaks protocol version {version}, this program speaks {PROTOCOL_VERSION}: run the same release on both"
            ),
            Unfit::Mute => f.write_str(
                "takes connections and says nothing: something else than a broker listens there, or one that stands still",
            ),
            Unfit::Curt => f.write_str(
                "closes connections without a word: something else than a broker's port for clients listens there, or a broker \
                 that has no place left",
            ),
            Unfit::Silent => f.write_str("does not answer any more"),
            Unfit::Apart => f.write_str("is a broker of another pair"),
            Unfit::Same(_) => f.write_str("is a broker that is reached at another address already"),
        }
    }
}

/// What an endpoint asks of the world: frames sent, links opened and closed, and its application told.
pub trait Outputs: Effects {
    /// A message for the application.
    fn deliver(&mut self, delivery: &Delivery<'_>);
    /// The answer to a publication.
    fn judged(&mut self, publication: u32, state: &PublicationState);
    /// The answer to a subscription: `Ok` with what there is to say of it, mostly nothing; `Err` with the reason where it is refused.
    fn subscribed(&mut self, subscription: u32, result: Result<&str, &str>);
    /// The primary has changed.
    fn reigning(&mut self, reigning: Reigning);
    /// A broker closed the connection and said why.
    fn dismissed(&mut self, broker: PeerIndex, farewell: &Farewell<'_>);
    /// An address does not lead to a broker that this client can use.
    fn unfit(&mut self, broker: PeerIndex, why: &Unfit);
    /// A broker dropped messages for this client, which reads slower than its topics publish.
    fn fell_short(&mut self, broker: PeerIndex, shortfall: &Shortfall);
    /// A message of a stream came again, and has to be confirmed all the same.
    fn repeated(&mut self, stream: u32, confirmation: Confirmation);
    /// The primary carries a stream no longer, by the number in [`Delivery`].
    fn retired(&mut self, stream: u32);
    /// A broker answered a request for status or handover, or a question of [`Endpoint::ask`].
    fn answered(&mut self, broker: PeerIndex, frame: &Frame<'_>);
}

/// A question to a primary; see [`Endpoint::ask`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    pub(crate) broker: usize,
    pub(crate) link: LinkId,
    pub(crate) number: u64,
}

/// A client of a pair of brokers: publishers, subscribers, or both.
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) settings: Settings,
    /// The links to the brokers, as many as are known; and from [`BROKERS_MAX`] on, the ways through each of them.
    pub(crate) brokers: Vec<BrokerLink>,
    /// When a way that is no longer needed is closed, if the broker has not done so.
    retire_way_at: Time,
    /// The highest reign heard of.
    reign: Reign,
    primary: Option<PeerIndex>,
    /// Until when the primary is followed although it stands by for another; see [`Endpoint::follow_forwarder`].
    forwards_until: Time,
    /// How many primaries there have been; see the module's words.
    pub(crate) succession: u64,
    orphaned_since: Time,
    pub(crate) publications: Vec<Option<Publication>>,
    /// Numbers of publications and subscriptions that have ended.
    pub(crate) free: [BinaryHeap<Reverse<u32>>; 2],
    published_topics: BTreeSet<Box<str>>,
    /// Publications so far, ended ones included.
    advertised: u64,
    /// The next publication to be brought up to date on each broker.
    catch_up: Vec<usize>,
    subscriptions: Vec<Option<Subscription>>,
    /// Those by filter.
    by_filter: Filters<Vec<u32>>,
    pub(crate) inbound: Vec<Inbound>,
    by_name: BTreeMap<(Box<str>, Box<str>), u32>,
    /// The streams of each topic.
    by_topic: BTreeMap<Box<str>, Vec<u32>>,
    witness: Witness,
}

/// Places of [`Endpoint::free`].
pub(crate) const PUBLICATIONS: usize = 0;
const SUBSCRIPTIONS: usize = 1;

impl Endpoint {
    /// An endpoint that has just started.
    pub fn new(settings: Settings, now: Time) -> Endpoint {
        Endpoint {
            brokers: (0..2 * BROKERS_MAX).map(|_| BrokerLink::new(now)).collect(),
            retire_way_at: Time::NEVER,
            catch_up: vec![0; 2 * BROKERS_MAX],
            settings,
            reign: Reign::default(),
            primary: None,
            forwards_until: Time::NEVER,
            succession: 0,
            orphaned_since: now,
            publications: Vec::new(),
            free: Default::default(),
            published_topics: BTreeSet::new(),
            advertised: 0,
            subscriptions: Vec::new(),
            by_filter: Filters::default(),
            inbound: Vec::new(),
            by_name: BTreeMap::new(),
            by_topic: BTreeMap::new(),
            witness: Witness::default(),
        }
    }

    /// Another address of a broker has been found. Returns its place, or nothing where there are [`BROKERS_MAX`] already.
    pub fn add_broker(&mut self, now: Time) -> Option<PeerIndex> {
        let index = self.settings.brokers;
        if usize::from(index) >= BROKERS_MAX {
            return None;
        }
        self.settings.brokers += 1;
        self.move_broker(now, PeerIndex(index));
        Some(PeerIndex(index))
    }

    /// The address of a broker has become another, which is tried at once unless the broker is connected.
    pub fn move_broker(&mut self, now: Time, broker: PeerIndex) {
        if let Some(broker) = self.brokers.get_mut(usize::from(broker.0)) {
            broker.moved(now);
        }
    }

    /// The place at which the same broker is reached, where an address leads to one that is reached anyway.
    pub fn same_as(&self, broker: PeerIndex) -> Option<PeerIndex> {
        self.brokers.get(usize::from(broker.0))?.same_as
    }

    /// The reign of which a broker that is connected has told.
    pub fn reign_of(&self, broker: PeerIndex) -> Option<Reign> {
        let broker = self.brokers.get(usize::from(broker.0))?;
        broker.up().map(|_| broker.reign)
    }

    /// Whether a broker that is connected is of another pair than the one that is followed.
    pub fn is_apart(&self, broker: PeerIndex) -> bool {
        self.brokers.get(usize::from(broker.0)).is_some_and(|broker| broker.is_apart)
    }

    /// The primary that is followed, by the place of its broker in the list of addresses; [`Endpoint::way`] of that broker, where it is
    /// reached through it.
    pub fn primary(&self) -> Option<PeerIndex> {
        self.primary
    }

    /// The broker through which the primary is reached, where it is not reached directly.
    pub fn through(&self) -> Option<PeerIndex> {
        let way = usize::from(self.primary?.0);
        (way >= BROKERS_MAX).then(|| self.behind(way))
    }

    /// What a broker said last of what it is; `None` where it is not connected.
    pub fn standing(&self, broker: PeerIndex) -> Option<Standing> {
        let link = self.brokers.get(usize::from(broker.0)).filter(|link| link.up().is_some());
        link.map(|link| link.standing)
    }

    /// Whether a number that the driver is given for dialing means a broker itself, and not a way through it.
    pub fn is_direct(&self, peer: PeerIndex) -> bool {
        usize::from(peer.0) < BROKERS_MAX
    }

    /// How many brokers are known.
    fn direct(&self) -> usize {
        usize::from(self.settings.brokers).min(BROKERS_MAX)
    }

    /// Brokers and it send each other no more than so many bytes in a second from now on; of what it publishes no more waits than leaves in
    /// three seconds.
    pub fn pace(&mut self, rate: u64, out: &mut impl Outputs) {
        self.settings.pace = Some(rate);
        for link in self.brokers.iter().take(BROKERS_MAX).filter_map(BrokerLink::up) {
            out.pace(link, rate);
            out.send(link, &Frame::Pace { rate });
        }
    }

    /// The number by which the driver is told to dial a broker in order to get through it to the primary.
    pub fn way(broker: PeerIndex) -> PeerIndex {
        PeerIndex(broker.0 + BROKERS_MAX as u8)
    }

    /// The links to brokers, and the ways through each of them.
    fn parts(&self) -> (&[BrokerLink], &[BrokerLink]) {
        let (direct, ways) = self.brokers.split_at(BROKERS_MAX);
        (&direct[..self.direct()], &ways[..self.direct()])
    }

    /// The broker to which a link or a way leads.
    fn behind(&self, index: usize) -> PeerIndex {
        PeerIndex((index % BROKERS_MAX) as u8)
    }

    /// Whether a primary is there.
    pub fn has_primary(&self) -> bool {
        self.primary.is_some()
    }

    /// The time between two attempts to connect is another one from now on.
    pub fn retry_every(&mut self, retry: Span) {
        self.settings.retry = retry;
    }

    /// The connection to the primary, for whoever asks how much waits on it.
    pub fn connection(&self) -> Option<LinkId> {
        self.primary_link().map(|(_, link)| link)
    }

    /// How far this client's clock is ahead of the primary's, if there is one and it has answered.
    pub fn clock(&self) -> Option<ClockDifference> {
        let (primary, _) = self.primary_link()?;
        self.brokers[primary].clock.known()
    }

    /// The brokers that are connected.
    pub fn connected(&self) -> impl Iterator<Item = PeerIndex> {
        let direct = self.brokers.iter().take(self.direct());
        let up = direct.enumerate().filter(|(_, broker)| broker.up().is_some());
        up.map(|(index, _)| PeerIndex(index as u8))
    }

    /// Begins to publish a topic. Without a contract, the brokers' configuration must have one.
    pub fn advertise(
        &mut self,
        topic: &str,
        contract: Option<Contract>,
        out: &mut impl Outputs,
    ) -> Result<u32, AdvertiseError> {
        contract::check_name(topic)?;
        if self.published_topics.contains(topic) {
            return Err(AdvertiseError::Twice(topic.to_owned()));
        }
        // Every publication is a life of its own, since each numbers its messages from zero.
        let incarnation = self.settings.incarnation.saturating_add(self.advertised);
        let publication = Publication::new(topic, incarnation, contract);
        let limit = self.settings.limits.publications;
        let free = &mut self.free[PUBLICATIONS];
        let number =
            place(&mut self.publications, free, publication, limit).ok_or(AdvertiseError::Limit(limit))?;
        self.advertised += 1;
        self.published_topics.insert(topic.into());
        (0..self.brokers.len()).for_each(|broker| self.catch_up_with(broker, number, out));
        Ok(number)
    }

    /// Ends a publication.
    pub fn withdraw(&mut self, publication: u32, out: &mut impl Outputs) {
        let Some(slot) = self.publications.get_mut(publication as usize) else { return };
        let Some(ended) = slot.take() else { return };
        self.free[PUBLICATIONS].push(Reverse(publication));
        self.published_topics.remove(&ended.topic);
        for (index, broker) in self.brokers.iter().enumerate() {
            if let Some(link) = broker.up().filter(|_| ended.registered >> index & 1 == 1) {
                out.send(link, &Frame::Unregister { stream: publication });
            }
        }
    }

    /// How far the registration of a publication has come.
    pub fn publication_state(&self, publication: u32) -> Option<&PublicationState> {
        self.publications.get(publication as usize)?.as_ref().map(|publication| &publication.state)
    }

    /// Publishes a message and returns its number. It is retained as the contract says; while there is no primary, that
    /// is all that happens.
    pub fn publish(
        &mut self,
        now: Time,
        number: u32,
        payload: &[u8],
        out: &mut impl Outputs,
    ) -> Result<u64, PublishError> {
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(PublishError::TooLong(payload.len()));
        }
        let primary = self.primary_link();
        let slot = self.publications.get_mut(number as usize).and_then(Option::as_mut);
        let publication = slot.ok_or(PublishError::Ended)?;
        match &publication.state {
            PublicationState::Admitted(_) => {}
            PublicationState::Waiting => return Err(PublishError::NotAdmitted),
            PublicationState::Refused(..) if Mutant::PublishRefused.is_on() => {}
            PublicationState::Refused(text, _) => return Err(PublishError::Refused(text.clone())),
        }
        if let Some((broker, link)) = primary {
            if out.backlog(link) > self.settings.backlog_bytes() {
                return Err(PublishError::Overloaded);
            }
            publication.bring_up_to_date(number, broker, link, (Some(self.succession), Span::ZERO), out);
        }
        let stated = publication.size();
        if stated != 0 && payload.len() > stated {
            return Err(PublishError::LongerThanStated { payload: payload.len(), stated });
        }
        let seq = publication.next_seq;
        publication.next_seq += 1;
        let truths = MessageFlags::NONE;
        publication.retention.keep(Passed { seq, created: now, truths, payload });
        if let Some((_, link)) = primary {
            let message = Message { stream: number, flags: MessageFlags::NONE, seq, created: now, payload };
            out.send_message(link, MessageKind::Publish, &message);
        }
        Ok(seq)
    }

    /// How many messages of a publication the brokers have said that they could not keep, and why not the latest.
    pub fn untaken(&self, publication: u32) -> (u64, &str) {
        let slot = self.publications.get(publication as usize).and_then(Option::as_ref);
        slot.map_or((0, ""), |publication| (publication.untaken, &publication.untaken_for))
    }

    /// Asks the primary for a sign. When [`Endpoint::has_answered`] says so, it has looked at everything that was published
    /// before, and what it had to say of that has come.
    pub fn ask(&mut self, out: &mut impl Outputs) -> Option<Asked> {
        let (index, link) = self.primary_link()?;
        let number = self.brokers.get_mut(index)?.ask();
        out.send(link, &Frame::Poll { number });
        Some(Asked { broker: index, link, number })
    }

    /// Whether that has been answered. `None`: the connection has gone, and it never will be.
    pub fn has_answered(&self, asked: Asked) -> Option<bool> {
        let broker = self.brokers.get(asked.broker).filter(|broker| broker.up() == Some(asked.link))?;
        Some(broker.answered >= asked.number)
    }

    /// How many messages a publication has numbered.
    pub fn published(&self, publication: u32) -> u64 {
        let slot = self.publications.get(publication as usize).and_then(Option::as_ref);
        slot.map_or(0, |publication| publication.next_seq)
    }

    /// Begins to receive the topics of a filter. `None` if the limit of subscriptions is reached.
    pub fn subscribe(&mut self, filter: &TopicFilter, out: &mut impl Outputs) -> Option<u32> {
        self.subscribe_with(filter, Needs::NONE, out)
    }

    /// The same for a subscriber that needs more than the contracts of the topics say. Where that cannot be kept, it is refused.
    pub fn subscribe_with(
        &mut self,
        filter: &TopicFilter,
        needs: Needs,
        out: &mut impl Outputs,
    ) -> Option<u32> {
        let subscription = Subscription { filter: filter.clone(), needs, answered: false, declined: 0 };
        let limit = self.settings.limits.subscriptions;
        let number = place(&mut self.subscriptions, &mut self.free[SUBSCRIPTIONS], subscription, limit)?;
        self.by_filter.change(filter.as_str(), |numbers| numbers.push(number));
        self.each_inbound(filter, |inbound| {
            if inbound.subscriptions.is_empty() {
                // What was published while nobody here wanted it is nobody's loss.
                inbound.tally.resume();
            }
            inbound.subscriptions.push(number);
            inbound.due = inbound.due.min(needs.of(&inbound.contract).deadline);
        });
        for link in self.brokers.iter().filter_map(BrokerLink::up) {
            out.send(link, &Frame::Subscribe { number, needs, filter: filter.as_str() });
        }
        Some(number)
    }

    /// A subscription needs something else from now on. Nothing of what comes ends meanwhile.
    pub fn need(&mut self, number: u32, needs: Needs, out: &mut impl Outputs) {
        let slot = self.subscriptions.get_mut(number as usize).and_then(Option::as_mut);
        let Some(subscription) = slot.filter(|known| known.needs != needs) else { return };
        (subscription.needs, subscription.answered) = (needs, false);
        let filter = subscription.filter.clone();
        self.find_due(&filter);
        for link in self.brokers.iter().filter_map(BrokerLink::up) {
            out.send(link, &Frame::Subscribe { number, needs, filter: filter.as_str() });
        }
    }

    /// Ends a subscription.
    pub fn unsubscribe(&mut self, number: u32, out: &mut impl Outputs) {
        let Some(slot) = self.subscriptions.get_mut(number as usize) else { return };
        if let Some(Subscription { filter, .. }) = slot.take() {
            self.free[SUBSCRIPTIONS].push(Reverse(number));
            self.by_filter.change(filter.as_str(), |numbers| numbers.retain(|other| *other != number));
            self.each_inbound(&filter, |inbound| inbound.subscriptions.retain(|other| *other != number));
            self.find_due(&filter);
        }
        for link in self.brokers.iter().filter_map(BrokerLink::up) {
            out.send(link, &Frame::Unsubscribe { number });
        }
    }

    /// When messages of a filter's topics are due, after a subscription has gone.
    fn find_due(&mut self, filter: &TopicFilter) {
        let needs = self.needs();
        self.each_inbound(filter, |inbound| inbound.due = due(inbound, &needs));
    }

    /// By the number of the subscription.
    fn needs(&self) -> Vec<Needs> {
        self.subscriptions.iter().map(|slot| slot.as_ref().map_or(Needs::NONE, |one| one.needs)).collect()
    }

    /// Changes every stream whose topic a filter means.
    fn each_inbound(&mut self, filter: &TopicFilter, mut change: impl FnMut(&mut Inbound)) {
        let Endpoint { by_topic, inbound, .. } = self;
        names::walk(by_topic, filter.as_str(), &mut String::new(), usize::MAX, &mut |_, streams| {
            for stream in streams {
                inbound.get_mut(*stream as usize).into_iter().for_each(&mut change);
            }
        });
    }

    /// The streams received so far, with their accounts.
    pub fn streams(&self) -> impl Iterator<Item = StreamAccount<'_>> {
        self.inbound.iter().map(Inbound::account)
    }

    /// A stream that is received, by the number in [`Delivery`].
    pub fn stream(&self, stream: u32) -> Option<StreamAccount<'_>> {
        self.inbound.get(stream as usize).map(Inbound::account)
    }

    /// Which life of a stream is received.
    pub fn life(&self, stream: u32) -> Option<u64> {
        self.inbound.get(stream as usize).map(|inbound| inbound.incarnation)
    }

    /// What is retained of a publication, the oldest first.
    pub fn retained(&self, publication: u32) -> impl Iterator<Item = &Retained> {
        let publication = self.publications.get(publication as usize).and_then(Option::as_ref);
        publication.map(|publication| publication.retention.iter()).into_iter().flatten()
    }

    /// Judges the gaps whose time is over, also of streams on which nothing comes any more.
    pub fn judge_gaps(&mut self, now: Time) {
        for inbound in &mut self.inbound {
            let settle = self.settings.settle(&inbound.contract);
            inbound.tally.judge(now, settle);
        }
    }

    /// Sends a request (for status, or a handover) to one broker. `false` if it is not connected.
    pub fn request(&self, broker: PeerIndex, frame: &Frame<'_>, out: &mut impl Outputs) -> bool {
        let link = self.brokers.get(usize::from(broker.0)).and_then(BrokerLink::up);
        link.inspect(|link| out.send(*link, frame)).is_some()
    }

    /// A link has changed.
    pub fn handle_link(&mut self, now: Time, link: LinkId, change: LinkChange, out: &mut impl Outputs) {
        match change {
            LinkChange::Accepted(_) => {}
            LinkChange::Dialed(peer) => self.greet(now, peer, link, out),
            LinkChange::Closed => {
                let Some(index) = self.broker_of(link) else { return };
                if index < BROKERS_MAX && self.brokers[index].up().is_none() && !self.brokers[index].told {
                    self.brokers[index].rest = CURT_REST;
                    out.unfit(PeerIndex(index as u8), &Unfit::Curt);
                }
                self.lose(now, index, out);
            }
            LinkChange::Drained => self.catch_up(out),
        }
    }

    /// The connection to a broker is gone, or given up.
    fn lose(&mut self, now: Time, index: usize, out: &mut impl Outputs) {
        self.brokers[index].lost(now, self.settings.retry);
        let bit = 1 << index;
        self.publications.iter_mut().flatten().for_each(|publication| publication.registered &= !bit);
        self.subscriptions.iter_mut().flatten().for_each(|subscription| subscription.declined &= !bit);
        self.elect(now, out);
    }

    /// A broker could not be connected to.
    pub fn handle_dial_failed(&mut self, now: Time, peer: PeerIndex, _refused: bool) {
        if let Some(broker) = self.brokers.get_mut(usize::from(peer.0)) {
            broker.lost(now, self.settings.retry);
        }
    }

    /// A broker sent what is no frame.
    pub fn handle_garbage(&mut self, link: LinkId, error: &wire::WireError, out: &mut impl Outputs) {
        let text = error.to_string();
        let farewell = Farewell { reason: FarewellReason::Misbehaved, text: &text };
        if let Some(index) = self.broker_of(link) {
            let broker = self.behind(index);
            let greeted = self.brokers[index].up().is_some();
            self.brokers[index].told = true;
            if !greeted {
                self.brokers[index].rest = STRANGER_REST;
            }
            match error {
                wire::WireError::Version(version) => out.unfit(broker, &Unfit::Version(*version)),
                _ if !greeted => out.unfit(broker, &Unfit::Stranger),
                _ => out.dismissed(broker, &farewell),
            }
        }
        out.close(link, &farewell);
    }

    /// Something has come, be it the middle of a frame. Whatever comes shows that a broker lives: behind a narrow connection, answers to
    /// polls wait behind messages, and one frame may take longer than polls may stay unanswered.
    pub fn hear(&mut self, from: LinkId) {
        if let Some(index) = self.broker_of(from) {
            self.brokers[index].heard();
        }
    }

    /// A frame has come.
    pub fn handle_frame(&mut self, now: Time, from: LinkId, frame: Frame<'_>, out: &mut impl Outputs) {
        let Some(index) = self.broker_of(from) else { return };
        let broker = PeerIndex(index as u8);
        match frame {
            Frame::Deliver(messages) => self.receive(now, index, from, messages, out),
            Frame::Hello(hello) => self.welcome(now, index, from, &hello, out),
            Frame::Reign { reign, standing } => {
                self.brokers[index].tells_reign(now, standing, reign);
                self.elect(now, out);
            }
            Frame::Announce(announce) => self.learn(now, index, &announce, self.primary == Some(broker)),
            Frame::Retire { stream } => self.unlearn(index, stream, out),
            Frame::Unregister { stream } => self.register_again(index, stream, out),
            Frame::Verdict(verdict) => self.judge(broker, &verdict, out),
            Frame::Subscribed { number, admitted, reigns, text } => {
                let result = if admitted { Ok(text) } else { Err(text) };
                self.hear_subscribed(broker, number, reigns, result, out);
            }
            Frame::Shortfall(shortfall) => out.fell_short(broker, &shortfall),
            Frame::Poll { number } => out.send(from, &Frame::PollReply { number }),
            Frame::PollReply { number } => {
                if self.brokers[index].answer(number) {
                    out.answered(broker, &frame);
                }
            }
            Frame::Untaken { stream, messages, text } => {
                if let Some(Some(publication)) = self.publications.get_mut(stream as usize) {
                    publication.untaken = publication.untaken.saturating_add(messages.into());
                    publication.untaken_for.clear();
                    publication.untaken_for.push_str(text);
                }
            }
            Frame::ClockReply { sent, clock } => self.compare_clocks(now, index, from, (sent, clock), out),
            Frame::Interest { .. } | Frame::Published { .. } if self.primary == Some(broker) => {
                out.answered(broker, &frame);
            }
            Frame::Interest { .. } | Frame::Published { .. } => {}
            Frame::NodeStatus(_)
            | Frame::LevelStatuses(_)
            | Frame::OperatorStatuses(_)
            | Frame::StreamStatuses(_)
            | Frame::Clients { .. }
            | Frame::DropReply { .. }
            | Frame::HandoverReply { .. } => {
                out.answered(broker, &frame);
            }
            Frame::Farewell(farewell) => {
                self.brokers[index].told = true;
                if self.brokers[index].up().is_none() {
                    self.brokers[index].rest = rest_after(farewell.reason);
                } else if self.settings.crosses
                    && matches!(farewell.reason, FarewellReason::Replaced | FarewellReason::Denied)
                {
                    // Two that take the name from each other again and again would help nobody, nor does asking for what is denied.
                    self.brokers[index].rest = UNWELCOME_REST;
                }
                if self.is_direct(broker) || !self.follows_directly() {
                    out.dismissed(self.behind(index), &farewell);
                }
                out.close(from, &Farewell { reason: FarewellReason::Leaving, text: "farewell" });
            }
            _ => {
                let text = "a broker may not send this frame to a client";
                out.close(from, &Farewell { reason: FarewellReason::Misbehaved, text });
            }
        }
    }

    /// When [`Endpoint::handle_timeout`] has something to do.
    pub fn next_deadline(&self) -> Time {
        let (direct, ways) = self.parts();
        let in_use = |way: &&BrokerLink| !matches!(way.connection, Connection::Down { .. });
        let links = direct.iter().chain(ways.iter().filter(in_use)).map(BrokerLink::next_deadline).min();
        let way = self.next_way().map_or(Time::NEVER, |(_, at)| at);
        links.unwrap_or(Time::NEVER).min(self.forwards_until).min(way).min(self.retire_way_at)
    }

    /// Does what is due: dials, polls, and gives up connections that do not answer.
    pub fn handle_timeout(&mut self, now: Time, out: &mut impl Outputs) {
        let &Settings { poll, misses, connect, .. } = &self.settings;
        let direct = self.direct();
        let reached =
            self.brokers.iter().take(direct).enumerate().map(|(index, broker)| {
                u32::from(broker.link().is_some()).checked_shl(index as u32).unwrap_or(0)
            });
        let reached = reached.fold(0, |all, one| all | one);
        let mut given_up = 0_u32;
        let mut polled = None;
        for (index, broker) in self.brokers.iter_mut().enumerate() {
            if let Connection::Down { retry_at } = &mut broker.connection {
                // A clock that went back must not keep us from trying.
                *retry_at = (*retry_at).min(now + broker.rest.max(ELSEWHERE));
                if now < *retry_at || index >= direct {
                    continue;
                }
                if broker.same_as.is_some_and(|other| reached >> other.0 & 1 == 1) {
                    *retry_at = now + ELSEWHERE;
                } else {
                    broker.same_as = None;
                    (broker.connection, broker.rest) = (Connection::Dialing, Span::ZERO);
                    out.dial(PeerIndex(index as u8), connect);
                }
                continue;
            }
            let Some(link) = broker.link() else { continue };
            match broker.poll(now, poll, misses) {
                Ok(Some(number)) => {
                    out.send(link, &Frame::Poll { number });
                    if self.primary == Some(PeerIndex(index as u8)) {
                        polled = Some((index, link, number));
                    }
                    if broker.up().is_some() && broker.clock.is_due(number) {
                        out.send(link, &Frame::ClockRequest { sent: now, known: broker.clock.known() });
                    }
                }
                Ok(None) => {}
                Err(()) => {
                    let why = if broker.up().is_some() { Unfit::Silent } else { Unfit::Mute };
                    if index < BROKERS_MAX {
                        out.unfit(PeerIndex(index as u8), &why);
                    }
                    out.close(link, &Farewell { reason: FarewellReason::Silent, text: "no answer to polls" });
                    given_up |= 1 << index;
                }
            }
        }
        if let Some((index, link, number)) = polled {
            self.tell_what_came(index, link, number, out);
        }
        // Closing takes as long as what was written has time to leave, and nobody waits for that.
        for index in (0..self.brokers.len()).filter(|index| given_up >> index & 1 == 1) {
            self.lose(now, index, out);
        }
        let followed = self.primary.map(|_| self.reign);
        for (index, broker) in self.brokers.iter_mut().take(direct).enumerate() {
            if broker.stands_apart(followed) {
                out.unfit(PeerIndex(index as u8), &Unfit::Apart);
            }
        }
        if self.forwards_until != Time::NEVER {
            self.elect(now, out);
        }
        self.see_to_ways(now, out);
        self.catch_up(out);
    }

    /// Since when something that a stream missed, or that came late, waits to be told to the primary that is followed.
    pub fn untold_since(&self) -> Option<Time> {
        let (primary, _) = self.primary_link()?;
        let known = |index: &&u32| self.brokers[primary].number_of(**index).is_some();
        let waiting = self.witness.troubled.iter().filter(known);
        waiting.filter_map(|index| self.inbound.get(*index as usize)?.untold.listed).min()
    }

    /// Tells the primary what has come, with the poll of this number.
    fn tell_what_came(&mut self, broker: usize, link: LinkId, poll: u64, out: &mut impl Outputs) {
        if Mutant::TellNoTroubles.is_on() {
            return;
        }
        for received in self.witness.take_received(poll) {
            out.send(link, &Frame::Received(received));
        }
        for _ in 0..TROUBLES_MAX.min(self.witness.troubled.len()) {
            let Some(index) = self.witness.troubled.pop_front() else { return };
            let Some(inbound) = self.inbound.get_mut(index as usize) else { continue };
            match self.brokers[broker].number_of(index) {
                Some(number) => out.send(link, &Frame::Trouble(inbound.take_trouble(number))),
                // Nobody asks for it any more.
                None if inbound.subscriptions.is_empty() => drop(inbound.take_trouble(0)),
                // This primary has not named it yet.
                None => self.witness.troubled.push_back(index),
            }
        }
    }

    /// The way to be dialed next, and when: there has been no primary for longer than a failover takes, and a broker stands by for one.
    /// There is one way at a time, since the primary has one link for a client.
    fn next_way(&self) -> Option<(usize, Time)> {
        let (direct, ways) = self.parts();
        let resting = |way: &BrokerLink| match way.connection {
            Connection::Down { retry_at } => Some(retry_at),
            _ => None,
        };
        if self.primary.is_some() || !ways.iter().all(|way| resting(way).is_some()) {
            return None;
        }
        // Where the primary has failed, the one that stands by is about to reign, and should not be kept busy with this meanwhile. Where
        // both have just begun, the other one is about to be reached.
        let patience = self.settings.failover + self.settings.poll;
        // One of another pair would lead to the primary of that pair.
        let stands_by = |broker: &BrokerLink| {
            broker.up().is_some() && broker.standing == Standing::Backup && !broker.is_apart
        };
        let through = |(index, (broker, way)): (usize, (&BrokerLink, &BrokerLink))| {
            let retry_at = resting(way).filter(|_| stands_by(broker))?;
            let since = self.orphaned_since.max(broker.stands_by_since) + patience;
            Some((index + BROKERS_MAX, retry_at.max(since)))
        };
        direct.iter().zip(ways).enumerate().filter_map(through).min_by_key(|(_, at)| *at)
    }

    /// Dials a way that is needed, and closes one that no longer is.
    fn see_to_ways(&mut self, now: Time, out: &mut impl Outputs) {
        // A clock that went back must not keep us from trying.
        self.orphaned_since = self.orphaned_since.min(now);
        self.brokers.iter_mut().filter(|broker| broker.standing == Standing::Backup).for_each(|broker| {
            broker.stands_by_since = broker.stands_by_since.min(now);
        });
        if let Some((way, _)) = self.next_way().filter(|(_, at)| now >= *at) {
            (self.brokers[way].connection, self.brokers[way].rest) = (Connection::Dialing, Span::ZERO);
            out.dial(PeerIndex(way as u8), self.settings.connect);
        }
        if self.retire_way_at == Time::NEVER || !self.follows_directly() {
            self.retire_way_at = Time::NEVER;
            return;
        }
        self.retire_way_at = self.retire_way_at.min(now + self.settings.connect);
        if now >= self.retire_way_at {
            self.retire_way_at = Time::NEVER;
            self.brokers.iter().skip(BROKERS_MAX).filter_map(BrokerLink::link).for_each(|link| {
                out.close(link, &OTHER_WAY);
            });
        }
    }

    /// The primary is reached directly. Nothing more is sent on a way, and the primary closes it when everything that it has written there
    /// has come; one on which nobody has answered yet is not needed any more.
    fn retire_ways(&mut self, now: Time, out: &mut impl Outputs) {
        for way in self.brokers.iter().skip(BROKERS_MAX) {
            match way.connection {
                Connection::Greeting(link) => out.close(link, &OTHER_WAY),
                Connection::Up(link) => {
                    out.send(link, &Frame::Farewell(OTHER_WAY));
                    self.retire_way_at = now + self.settings.connect;
                }
                Connection::Down { .. } | Connection::Dialing => {}
            }
        }
    }

    /// Whether a primary is followed that is reached directly.
    fn follows_directly(&self) -> bool {
        self.primary.is_some_and(|primary| self.is_direct(primary))
    }

    /// Leaves all brokers to another process that goes on under its name, so that its streams and subscriptions stay.
    pub fn give_way(&mut self, out: &mut impl Outputs) {
        for link in self.brokers.iter().filter_map(BrokerLink::link) {
            let text = "another process goes on under this name";
            out.close(link, &Farewell { reason: FarewellReason::Replaced, text });
        }
    }

    /// Says farewell to all brokers.
    pub fn say_farewell(&mut self, out: &mut impl Outputs) {
        for link in self.brokers.iter().filter_map(BrokerLink::link) {
            out.close(link, &Farewell { reason: FarewellReason::Leaving, text: "the client ends" });
        }
    }

    pub(crate) fn broker_of(&self, link: LinkId) -> Option<usize> {
        self.brokers.iter().position(|broker| broker.link() == Some(link))
    }

    pub(crate) fn primary_link(&self) -> Option<(usize, LinkId)> {
        let index = usize::from(self.primary?.0);
        Some((index, self.brokers.get(index)?.up()?))
    }

    fn greet(&mut self, now: Time, peer: PeerIndex, link: LinkId, out: &mut impl Outputs) {
        let (direct, followed) = (self.is_direct(peer), self.primary.is_some());
        let Some(broker) = self.brokers.get_mut(usize::from(peer.0)) else { return };
        broker.connected(now, link, self.settings.poll);
        let standing = match (direct, followed) {
            (false, true) => return out.close(link, &OTHER_WAY),
            (false, false) => Standing::CutOff,
            (true, true) => Standing::Following,
            (true, false) => Standing::Orphaned,
        };
        let hello = Hello {
            standing,
            prefers_to_reign: false,
            reign: self.reign,
            node: NodeId(0),
            incarnation: self.settings.incarnation,
            name: &self.settings.name,
            user: &self.settings.credentials.user,
            password: Secret(&self.settings.credentials.password),
            knows: wire::Knows::NOTHING,
        };
        out.send(link, &Frame::Hello(hello));
    }

    /// A broker has greeted back: it is told of our subscriptions and publications.
    fn welcome(&mut self, now: Time, index: usize, link: LinkId, hello: &Hello<'_>, out: &mut impl Outputs) {
        if !hello.standing.is_broker() {
            let text = "this address is no broker";
            self.brokers[index].told = true;
            out.unfit(self.behind(index), &Unfit::Stranger);
            return out.close(link, &Farewell { reason: FarewellReason::Misbehaved, text });
        }
        if index < BROKERS_MAX {
            self.leave_other_addresses(index, hello.node, out);
        }
        if self.settings.translates && self.brokers[index].clock.known().is_none() {
            self.brokers[index].awaits_clock = Some(Greeting::of(hello));
            return out.send(link, &Frame::ClockRequest { sent: now, known: None });
        }
        self.brokers[index].greeted(now, link, hello);
        if let Some(rate) = self.settings.pace.filter(|_| index < BROKERS_MAX) {
            // The way through a broker is as fast as the link to that.
            out.pace(link, rate);
            out.send(link, &Frame::Pace { rate });
        }
        self.catch_up[index] = 0;
        let succession = self.succession;
        self.elect(now, out);
        // A new primary has just been asked what none has answered yet.
        let asked = self.succession != succession && self.primary == Some(PeerIndex(index as u8));
        for (number, subscription) in self.subscriptions.iter().enumerate() {
            if let Some(subscription) = subscription.as_ref().filter(|known| known.answered || !asked) {
                let (needs, filter) = (subscription.needs, subscription.filter.as_str());
                out.send(link, &Frame::Subscribe { number: number as u32, needs, filter });
            }
        }
        self.catch_up(out);
    }

    /// A broker has greeted that is known at other addresses. It keeps the last connection of a client, so this is the one.
    fn leave_other_addresses(&mut self, index: usize, node: NodeId, out: &mut impl Outputs) {
        let direct = self.direct();
        for (other, broker) in self.brokers.iter_mut().take(direct).enumerate() {
            if other == index || broker.node != Some(node) {
                continue;
            }
            (broker.same_as, broker.told) = (Some(PeerIndex(index as u8)), true);
            out.unfit(PeerIndex(other as u8), &Unfit::Same(PeerIndex(index as u8)));
            if let Some(link) = broker.link() {
                let text = "the same broker is reached at another address";
                out.close(link, &Farewell { reason: FarewellReason::Replaced, text });
            }
        }
    }

    /// Finds the primary to follow, and tells the brokers whom we follow where that changes.
    fn elect(&mut self, now: Time, out: &mut impl Outputs) {
        let reigning = |broker: &BrokerLink| broker.up().is_some() && broker.standing == Standing::Primary;
        let candidates = self.brokers.iter().enumerate().filter(|(_, broker)| reigning(broker));
        // A primary that is reached in two ways is followed directly.
        let best = candidates.max_by_key(|(index, broker)| (broker.reign, *index < BROKERS_MAX));
        let elected = best
            .filter(|(_, broker)| broker.reign >= self.reign || Mutant::FollowAnybody.is_on())
            .map(|(index, broker)| (index, broker.reign));
        match elected {
            Some((index, reign)) => {
                let broker = PeerIndex(index as u8);
                if self.primary == Some(broker) && self.reign == reign {
                    self.forwards_until = Time::NEVER;
                    return;
                }
                let outage = if self.primary.is_some() { Span::ZERO } else { now.since(self.orphaned_since) };
                (self.primary, self.reign, self.forwards_until) = (Some(broker), reign, Time::NEVER);
                self.succession += 1;
                self.catch_up[index] = 0;
                self.tell_brokers(Standing::Following, out);
                self.ask_again(index, out);
                let relayed = !self.is_direct(broker);
                if !relayed {
                    self.retire_ways(now, out);
                }
                let stood_by = self.brokers[index].stood_by;
                let broker = self.behind(index);
                out.reigning(Reigning::Primary { broker, relayed, reign, outage, stood_by });
                self.catch_up(out);
            }
            None if self.follow_forwarder(now) => {}
            None if self.primary.is_some() => {
                (self.primary, self.forwards_until) = (None, Time::NEVER);
                self.orphaned_since = now;
                self.tell_brokers(Standing::Orphaned, out);
                out.reigning(Reigning::Nobody);
            }
            None => {}
        }
    }

    /// A primary that stands by for its successor sends on what it gets. Until the successor is heard of, that is the
    /// shortest way to it, so the old one is followed for the time of a failover. After that, the successor is out of
    /// reach, and the application must know.
    fn follow_forwarder(&mut self, now: Time) -> bool {
        let primary = self.primary_link();
        if primary.is_none_or(|(index, _)| self.brokers[index].standing != Standing::Backup) {
            return false;
        }
        // A clock that went back must not lengthen it.
        self.forwards_until = self.forwards_until.min(now + self.settings.failover);
        now < self.forwards_until
    }

    /// Subscriptions that no primary has answered, since the answer of the last one may have died with it, and those of
    /// which this broker could not take note before.
    fn ask_again(&mut self, broker: usize, out: &mut impl Outputs) {
        let Some(link) = self.brokers[broker].up() else { return };
        if self.settings.crosses {
            out.send(link, &Frame::AskInterest { topics: self.settings.hears_topics });
        }
        let bit = 1 << broker;
        for (number, subscription) in self.subscriptions.iter_mut().enumerate() {
            let missing = |known: &&mut Subscription| !known.answered || known.declined & bit != 0;
            if let Some(subscription) = subscription.as_mut().filter(missing) {
                subscription.declined &= !bit;
                let (needs, filter) = (subscription.needs, subscription.filter.as_str());
                out.send(link, &Frame::Subscribe { number: number as u32, needs, filter });
            }
        }
    }

    fn tell_brokers(&self, standing: Standing, out: &mut impl Outputs) {
        for link in self.brokers.iter().filter_map(BrokerLink::up) {
            out.send(link, &Frame::Reign { reign: self.reign, standing });
        }
    }

    /// Registers publications with every broker, and sends the primary what is retained, as far as there is room.
    fn catch_up(&mut self, out: &mut impl Outputs) {
        let room = self.settings.limits.catch_up_bytes;
        let primary = self.primary_link().map(|(index, _)| index);
        for index in 0..self.brokers.len() {
            let Some(link) = self.brokers[index].up() else { continue };
            let succession = (primary == Some(index)).then_some(self.succession);
            let shift = self.shift(index);
            while self.catch_up[index] < self.publications.len() && out.backlog(link) < room {
                let next = self.catch_up[index];
                if let Some(publication) = &mut self.publications[next] {
                    publication.bring_up_to_date(next as u32, index, link, (succession, shift), out);
                }
                self.catch_up[index] += 1;
            }
        }
    }

    /// A broker no longer knows one of our numbers, because it forgot the stream while we were away.
    fn register_again(&mut self, broker: usize, stream: u32, out: &mut impl Outputs) {
        let slot = self.publications.get_mut(stream as usize);
        let Some(publication) = slot.and_then(Option::as_mut) else { return };
        publication.registered &= !(1 << broker);
        self.catch_up_with(broker, stream, out);
    }

    /// Tells one broker of one publication: at once, where it is told of all others, and in its turn otherwise.
    pub(crate) fn catch_up_with(&mut self, broker: usize, number: u32, out: &mut impl Outputs) {
        let Some(link) = self.brokers[broker].up() else { return };
        let index = number as usize;
        // A place that is new is told in its turn, which is the next.
        let told = self.catch_up[broker] >= self.publications.len();
        if !told || out.backlog(link) >= self.settings.limits.catch_up_bytes {
            self.catch_up[broker] = self.catch_up[broker].min(index);
            return self.catch_up(out);
        }
        let succession =
            (self.primary_link().map(|(index, _)| index) == Some(broker)).then_some(self.succession);
        let shift = self.shift(broker);
        if let Some(Some(publication)) = self.publications.get_mut(index) {
            publication.bring_up_to_date(number, broker, link, (succession, shift), out);
        }
    }

    fn judge(&mut self, broker: PeerIndex, verdict: &Verdict<'_>, out: &mut impl Outputs) {
        let slot = self.publications.get_mut(verdict.stream as usize);
        let Some(publication) = slot.and_then(Option::as_mut) else { return };
        if self.primary != Some(broker) || !verdict.reigns {
            if !verdict.admitted {
                // It could not take note of the stream, and is asked again when it comes to reign.
                publication.registered &= !(1 << broker.0);
            }
            return;
        }
        match verdict.contract.filter(|_| verdict.admitted) {
            Some(contract) => publication.admit(contract),
            None => {
                publication.declined |= 1 << broker.0;
                publication.state = PublicationState::Refused(verdict.text.to_owned(), verdict.remedies);
            }
        }
        out.judged(verdict.stream, &publication.state);
    }

    fn hear_subscribed(
        &mut self,
        broker: PeerIndex,
        number: u32,
        reigns: bool,
        result: Result<&str, &str>,
        out: &mut impl Outputs,
    ) {
        let slot = self.subscriptions.get_mut(number as usize).and_then(Option::as_mut);
        let Some(subscription) = slot else { return };
        // A broker that stands by answers for itself, and is asked again when it comes to reign; what counts is the
        // primary's word.
        if self.primary != Some(broker) || !reigns {
            subscription.declined |= u16::from(result.is_err()) << broker.0;
        } else if !std::mem::replace(&mut subscription.answered, true) || result != Ok("") {
            // Of one that was admitted before, this says that it goes on without what it needs.
            let dropped = result.is_err() && !subscription.needs.is_none();
            let filter = dropped.then(|| {
                subscription.needs = Needs::NONE;
                subscription.filter.clone()
            });
            if let Some(filter) = filter {
                self.find_due(&filter);
            }
            out.subscribed(number, result);
        }
    }

    /// A broker names a stream.
    fn learn(&mut self, now: Time, broker: usize, announce: &Announce<'_>, reigns: bool) {
        let needs = self.needs();
        let limit = self.settings.limits.streams;
        if announce.stream as usize >= limit {
            return;
        }
        let key = (Box::from(announce.topic), Box::from(announce.publisher));
        let known = self.by_name.get(&key).copied();
        let there = self.inbound.len();
        let index = known.unwrap_or(there as u32);
        match known.and_then(|index| self.inbound.get_mut(index as usize)) {
            // A device whose clock went back begins a life with a lower number; whoever reigns knows which life is lived.
            Some(inbound) if announce.incarnation < inbound.incarnation && !reigns => {
                return self.brokers[broker].bind(announce.stream, None);
            }
            Some(inbound) if announce.incarnation != inbound.incarnation => {
                inbound.tally.close();
                inbound.tally.begin_anew(inbound.incarnation, announce.incarnation, announce.next_seq);
                (inbound.incarnation, inbound.contract) = (announce.incarnation, announce.contract);
                inbound.crossing = announce.crossing;
                inbound.class = announce.class;
                inbound.due = due(inbound, &needs);
                // What the other broker still sends of the life before is not of this one.
                self.brokers.iter_mut().for_each(|broker| broker.unbind(index));
            }
            Some(inbound) => {
                inbound.class = announce.class;
                inbound.crossing = announce.crossing;
                // A configured contract may be another after both brokers began anew.
                if reigns && inbound.contract != announce.contract {
                    inbound.contract = announce.contract;
                    inbound.due = due(inbound, &needs);
                }
                // What waited to be told can be, from now on.
                if reigns
                    && inbound.untold.listed.is_some()
                    && self.brokers[broker].number_of(index).is_none()
                {
                    inbound.untold.listed = Some(now);
                }
            }
            None if there >= limit => return,
            None => {
                let mut matching: Vec<u32> = Vec::new();
                self.by_filter.each(announce.topic, |numbers| matching.extend(numbers));
                matching.sort_unstable();
                let mut inbound = Inbound {
                    topic: announce.topic.into(),
                    publisher: announce.publisher.into(),
                    origin: announce.origin.into(),
                    incarnation: announce.incarnation,
                    contract: announce.contract,
                    due: announce.contract.deadline,
                    class: announce.class,
                    tally: Tally::new(announce.next_seq, announce.gapless),
                    late: 0,
                    unjudged: 0,
                    crossing: announce.crossing,
                    untold: Untold::default(),
                    subscriptions: matching,
                };
                inbound.due = due(&inbound, &needs);
                if self.settings.hands_on {
                    // Another process may have had under this name what came before.
                    inbound.tally.resume();
                }
                self.inbound.push(inbound);
                self.by_topic.entry(announce.topic.into()).or_default().push(index);
                self.by_name.insert(key, index);
            }
        }
        self.witness.expect(announce.class);
        self.brokers[broker].bind(announce.stream, Some(index));
    }

    /// A broker's number means no stream any more.
    fn unlearn(&mut self, broker: usize, stream: u32, out: &mut impl Outputs) {
        if (stream as usize) >= self.settings.limits.streams {
            return;
        }
        let follows = self.primary == Some(PeerIndex(broker as u8));
        let ended = self.brokers[broker].stream(stream).filter(|_| follows);
        self.brokers[broker].bind(stream, None);
        ended.into_iter().for_each(|stream| out.retired(stream));
    }

    /// A broker has said what its clock shows. Where its greeting waited for that, it counts now.
    fn compare_clocks(
        &mut self,
        now: Time,
        broker: usize,
        link: LinkId,
        (sent, clock): (Time, Time),
        out: &mut impl Outputs,
    ) {
        self.brokers[broker].clock.take(sent, clock, now);
        if let Some(greeting) = self.brokers[broker].awaits_clock.take() {
            self.welcome(now, broker, link, &greeting.hello(), out);
        }
    }

    fn receive(
        &mut self,
        now: Time,
        broker: usize,
        from: LinkId,
        messages: Messages<'_>,
        out: &mut impl Outputs,
    ) {
        let too_long = certain(self.brokers[broker].clock.known());
        let shift = self.shift(broker);
        for message in messages {
            let Some(index) = self.brokers[broker].stream(message.stream) else { continue };
            let mark = Mark { stream: message.stream, seq: message.seq };
            let asks = message.flags.contains(MessageFlags::CONFIRM);
            let confirmation = (asks && self.settings.hands_on).then_some(Confirmation { link: from, mark });
            if asks && confirmation.is_none() {
                out.send_mark(from, MarkKind::Confirm, mark);
            }
            let inbound = &mut self.inbound[index as usize];
            let settle = self.settings.settle(&inbound.contract);
            let arrival = inbound.tally.arrive(now, message.seq, settle);
            if inbound.tally.has_untold() {
                self.witness.list(now, index, inbound);
            }
            let Arrival::Fresh { reordered } = arrival else {
                confirmation.into_iter().for_each(|confirmation| out.repeated(index, confirmation));
                continue;
            };
            let created = message.created - shift;
            let latency = now.since(created);
            if !message.flags.contains(MessageFlags::RESEND) {
                let certain = latency - too_long - inbound.crossing.within;
                self.witness.sees(now, index, inbound, certain.max(Span::ZERO));
            }
            let age = Age { measured: latency, within: inbound.crossing.within };
            let judged = age.judge(inbound.due);
            let late = judged == Timeliness::Late && !Mutant::CallNothingLate.is_on();
            let unjudged = judged == Timeliness::CannotBeJudged;
            let (truths, payload) = match self.settings.hands_on || self.settings.hears_properties {
                true => (message.flags.only(MessageFlags::TRUTHS), message.payload),
                false => (MessageFlags::NONE, wire::trailer(message.flags, message.payload).0),
            };
            inbound.late += u64::from(late);
            inbound.unjudged += u64::from(unjudged);
            out.deliver(&Delivery {
                topic: &inbound.topic,
                publisher: &inbound.publisher,
                seq: message.seq,
                created,
                latency,
                late,
                unjudged,
                reordered,
                out_of_date: message.flags.contains(MessageFlags::OUT_OF_DATE),
                apart: message.flags.contains(MessageFlags::APART),
                truths,
                payload,
                contract: &inbound.contract,
                tally: &inbound.tally,
                stream: index,
                life: inbound.incarnation,
                subscriptions: &inbound.subscriptions,
                confirmation,
            });
        }
    }
}

/// When messages of a stream are due. `needs`: by the number of the subscription.
fn due(inbound: &Inbound, needs: &[Needs]) -> Span {
    let own = inbound.subscriptions.iter().filter_map(|number| needs.get(*number as usize));
    own.map(|needs| needs.of(&inbound.contract).deadline).min().unwrap_or(inbound.contract.deadline)
}

/// What is said on a way that is not needed. It is no leave: the client's session goes on.
const OTHER_WAY: Farewell<'static> =
    Farewell { reason: FarewellReason::Replaced, text: "the primary is reached without this way" };
/// How long an address is left alone where something else than a broker of this release answers, which cannot help it.
const STRANGER_REST: Span = Span::secs(1);
/// The same where connections are closed without a word, which a broker does as well that is just ending.
const CURT_REST: Span = Span::millis(250);
/// How long a site's link leaves a broker alone where another of its name has come, or where it may not do what it wants.
const UNWELCOME_REST: Span = Span::secs(5);
/// How soon it is looked again whether a broker that is reached elsewhere still is.
const ELSEWHERE: Span = Span::millis(200);

/// How long a broker is left alone that has not even greeted before it said farewell. What it does not allow now it will hardly allow a moment later, and
/// looking at a password again and again costs it much. Where there is no place for it now, there may be one soon.
fn rest_after(reason: FarewellReason) -> Span {
    match reason {
        FarewellReason::Denied => Span::secs(5),
        FarewellReason::Busy | FarewellReason::Limit => Span::secs(1),
        FarewellReason::NoWay => Span::millis(200),
        _ => Span::ZERO,
    }
}

/// Puts a value into the first free place and returns its number, or `None` if the limit is reached.
pub(crate) fn place<T>(
    slots: &mut Vec<Option<T>>,
    free: &mut BinaryHeap<Reverse<u32>>,
    value: T,
    limit: usize,
) -> Option<u32> {
    let index = match free.pop() {
        Some(Reverse(index)) => index as usize,
        None if slots.len() < limit => {
            slots.push(None);
            slots.len() - 1
        }
        None => return None,
    };
    slots[index] = Some(value);
    Some(index as u32)
}
