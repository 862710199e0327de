//! The endpoint as a value.
//!
//! It follows the highest reign that it has heard of. Each time it gets a primary (another one, or the same one after a
//! broken connection) a new *succession* begins: every publication sends what it retains once per succession, marked as
//! sent again, before anything new.
//!
//! What it refuses of a lower epoch is authority: nothing is published there. Messages that a deposed primary had
//! already sent are data like any other; they are taken, and duplicates are dropped.

use crate::brokers::{BrokerLink, Connection};
use crate::publication::{AdvertiseError, Publication, PublicationState, PublishError};
use crate::settings::{BROKERS_MAX, Settings};
use crate::subscription::{Delivery, Inbound, StreamAccount, Subscription};
use crate::tally::{Arrival, Tally};
use contract::{Contract, Mutant, NodeId, Reign, Span, Time, TopicFilter};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use wire::limits::PAYLOAD_BYTES_MAX;
use wire::{
    Announce, Effects, Farewell, FarewellReason, Frame, Hello, LinkChange, LinkId, Mark, MarkKind, Message,
    MessageFlags, MessageKind, Messages, PROTOCOL_VERSION, PeerIndex, Register, Secret, Shortfall, Standing,
    Verdict,
};

/// Whom an endpoint follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reigning {
    /// A primary.
    Primary {
        /// Which of the brokers, by its place in the list of addresses.
        broker: PeerIndex,
        /// Its reign.
        reign: Reign,
        /// How long there was none.
        outage: Span,
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
    /// The answer to a subscription: `Err` with the reason where it is refused.
    fn subscribed(&mut self, subscription: u32, result: Result<(), &str>);
    /// The primary has changed.
    fn reigning(&mut self, reigning: Reigning);
    /// A broker closed the connection and said why.
    fn dismissed(&mut self, broker: PeerIndex, farewell: &Farewell<'_>);
    /// An address does not lead to a broker that this client can use.
    fn unfit(&mut self, broker: PeerIndex, why: &Unfit);
    /// A broker dropped messages for this client, which reads slower than its topics publish.
    fn fell_short(&mut self, broker: PeerIndex, shortfall: &Shortfall);
    /// A broker answered a request for status or handover.
    fn answered(&mut self, broker: PeerIndex, frame: &Frame<'_>);
}

/// A client of a pair of brokers: publishers, subscribers, or both.
#[derive(Clone)]
pub struct Endpoint {
    settings: Settings,
    brokers: Vec<BrokerLink>,
    /// The highest reign heard of.
    reign: Reign,
    primary: Option<PeerIndex>,
    /// Until when the primary is followed although it stands by for another; see [`Endpoint::follow_forwarder`].
    forwards_until: Time,
    /// How many primaries there have been; see the module's words.
    succession: u64,
    orphaned_since: Time,
    publications: Vec<Option<Publication>>,
    published_topics: BTreeSet<Box<str>>,
    /// Publications so far, ended ones included.
    advertised: u64,
    /// The next publication to be brought up to date on each broker.
    catch_up: Vec<usize>,
    subscriptions: Vec<Option<Subscription>>,
    inbound: Vec<Inbound>,
    by_name: BTreeMap<(Box<str>, Box<str>), u32>,
}

impl Endpoint {
    /// An endpoint that has just started.
    pub fn new(settings: Settings, now: Time) -> Endpoint {
        Endpoint {
            brokers: (0..settings.brokers).map(|_| BrokerLink::new(now)).collect(),
            catch_up: vec![0; usize::from(settings.brokers)],
            settings,
            reign: Reign::default(),
            primary: None,
            forwards_until: Time::NEVER,
            succession: 0,
            orphaned_since: now,
            publications: Vec::new(),
            published_topics: BTreeSet::new(),
            advertised: 0,
            subscriptions: Vec::new(),
            inbound: Vec::new(),
            by_name: BTreeMap::new(),
        }
    }

    /// Another address of a broker has been found. Returns its place, or nothing where there are [`BROKERS_MAX`] already.
    pub fn add_broker(&mut self, now: Time) -> Option<PeerIndex> {
        let index = self.brokers.len();
        if index >= BROKERS_MAX {
            return None;
        }
        self.brokers.push(BrokerLink::new(now));
        self.catch_up.push(0);
        Some(PeerIndex(index as u8))
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

    /// Whether a broker that is connected is of another pair than the one that is followed.
    pub fn is_apart(&self, broker: PeerIndex) -> bool {
        self.brokers.get(usize::from(broker.0)).is_some_and(|broker| broker.is_apart)
    }

    /// What a broker that is connected does.
    pub fn standing(&self, broker: PeerIndex) -> Option<Standing> {
        let broker = self.brokers.get(usize::from(broker.0))?;
        broker.up().map(|_| broker.standing)
    }

    /// The broker that is followed, by its place in the list of addresses.
    pub fn primary(&self) -> Option<PeerIndex> {
        self.primary
    }

    /// Whether a primary is there.
    pub fn has_primary(&self) -> bool {
        self.primary.is_some()
    }

    /// The brokers that are connected.
    pub fn connected(&self) -> impl Iterator<Item = PeerIndex> {
        let up = self.brokers.iter().enumerate().filter(|(_, broker)| broker.up().is_some());
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
        let number = place(&mut self.publications, publication, limit).ok_or(AdvertiseError::Limit(limit))?;
        self.advertised += 1;
        self.published_topics.insert(topic.into());
        self.catch_up.iter_mut().for_each(|next| *next = (*next).min(number as usize));
        self.catch_up(out);
        Ok(number)
    }

    /// Ends a publication.
    pub fn withdraw(&mut self, publication: u32, out: &mut impl Outputs) {
        let Some(slot) = self.publications.get_mut(publication as usize) else { return };
        let Some(ended) = slot.take() else { return };
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
            if out.backlog(link) > self.settings.limits.backlog_bytes {
                return Err(PublishError::Overloaded);
            }
            publication.bring_up_to_date(number, broker, link, Some(self.succession), out);
        }
        let seq = publication.next_seq;
        publication.next_seq += 1;
        publication.retention.keep(seq, now, payload);
        if let Some((_, link)) = primary {
            let message = Message { stream: number, flags: MessageFlags::NONE, seq, created: now, payload };
            out.send_message(link, MessageKind::Publish, &message);
        }
        Ok(seq)
    }

    /// How many messages a publication has numbered.
    pub fn published(&self, publication: u32) -> u64 {
        let slot = self.publications.get(publication as usize).and_then(Option::as_ref);
        slot.map_or(0, |publication| publication.next_seq)
    }

    /// Begins to receive the topics of a filter. `None` if the limit of subscriptions is reached.
    pub fn subscribe(&mut self, filter: &TopicFilter, out: &mut impl Outputs) -> Option<u32> {
        let subscription = Subscription { filter: filter.clone(), answered: false, declined: 0 };
        let number = place(&mut self.subscriptions, subscription, self.settings.limits.subscriptions)?;
        for inbound in self.inbound.iter_mut().filter(|inbound| filter.matches(&inbound.topic)) {
            inbound.subscriptions.push(number);
        }
        for link in self.brokers.iter().filter_map(BrokerLink::up) {
            out.send(link, &Frame::Subscribe { number, filter: filter.as_str() });
        }
        Some(number)
    }

    /// Ends a subscription.
    pub fn unsubscribe(&mut self, number: u32, out: &mut impl Outputs) {
        let Some(slot) = self.subscriptions.get_mut(number as usize) else { return };
        *slot = None;
        for inbound in &mut self.inbound {
            inbound.subscriptions.retain(|other| *other != number);
        }
        for link in self.brokers.iter().filter_map(BrokerLink::up) {
            out.send(link, &Frame::Unsubscribe { number });
        }
    }

    /// The streams received so far, with their accounts.
    pub fn streams(&self) -> impl Iterator<Item = StreamAccount<'_>> {
        self.inbound.iter().map(Inbound::account)
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
                if self.brokers[index].up().is_none() && !self.brokers[index].told {
                    self.brokers[index].rest = CURT_REST;
                    out.unfit(PeerIndex(index as u8), &Unfit::Curt);
                }
                self.brokers[index].lost(now, self.settings.retry);
                let bit = 1 << index;
                self.publications.iter_mut().flatten().for_each(|publication| publication.registered &= !bit);
                self.subscriptions
                    .iter_mut()
                    .flatten()
                    .for_each(|subscription| subscription.declined &= !bit);
                self.elect(now, out);
            }
            LinkChange::Drained => self.catch_up(out),
        }
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
            let broker = PeerIndex(index as u8);
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
                (self.brokers[index].reign, self.brokers[index].standing) = (reign, standing);
                self.elect(now, out);
            }
            Frame::Announce(announce) => self.learn(index, &announce, self.primary == Some(broker)),
            Frame::Retire { stream } => {
                if (stream as usize) < self.settings.limits.streams {
                    self.brokers[index].bind(stream, None);
                }
            }
            Frame::Unregister { stream } => self.register_again(index, stream, out),
            Frame::Verdict(verdict) => self.judge(broker, &verdict, out),
            Frame::Subscribed { number, admitted, reigns, text } => {
                let result = if admitted { Ok(()) } else { Err(text) };
                self.hear_subscribed(broker, number, reigns, result, out);
            }
            Frame::Shortfall(shortfall) => out.fell_short(broker, &shortfall),
            Frame::Poll { number } => out.send(from, &Frame::PollReply { number }),
            Frame::PollReply { number } => self.brokers[index].replied(number),
            Frame::NodeStatus(_)
            | Frame::LevelStatuses(_)
            | Frame::OperatorStatuses(_)
            | Frame::StreamStatuses(_)
            | Frame::HandoverReply { .. } => {
                out.answered(broker, &frame);
            }
            Frame::Farewell(farewell) => {
                self.brokers[index].told = true;
                if self.brokers[index].up().is_none() {
                    self.brokers[index].rest = rest_after(farewell.reason);
                }
                out.dismissed(broker, &farewell);
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
        let brokers = self.brokers.iter().map(BrokerLink::next_deadline).min();
        brokers.unwrap_or(Time::NEVER).min(self.forwards_until)
    }

    /// Does what is due: dials, polls, and gives up connections that do not answer.
    pub fn handle_timeout(&mut self, now: Time, out: &mut impl Outputs) {
        let &Settings { poll, misses, connect, .. } = &self.settings;
        let reached =
            self.brokers.iter().enumerate().map(|(index, broker)| {
                u32::from(broker.link().is_some()).checked_shl(index as u32).unwrap_or(0)
            });
        let reached = reached.fold(0, |all, one| all | one);
        for (index, broker) in self.brokers.iter_mut().enumerate() {
            if let Connection::Down { retry_at } = &mut broker.connection {
                // A clock that went back must not keep us from trying.
                *retry_at = (*retry_at).min(now + broker.rest.max(ELSEWHERE));
                if now < *retry_at {
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
                Ok(Some(number)) => out.send(link, &Frame::Poll { number }),
                Ok(None) => {}
                Err(()) => {
                    broker.told = true;
                    let why = if broker.up().is_some() { Unfit::Silent } else { Unfit::Mute };
                    out.unfit(PeerIndex(index as u8), &why);
                    out.close(link, &Farewell { reason: FarewellReason::Silent, text: "no answer to polls" });
                }
            }
        }
        let followed = self.primary.map(|_| self.reign);
        for (index, broker) in self.brokers.iter_mut().enumerate() {
            if broker.stands_apart(followed) {
                out.unfit(PeerIndex(index as u8), &Unfit::Apart);
            }
        }
        if self.forwards_until != Time::NEVER {
            self.elect(now, out);
        }
        self.catch_up(out);
    }

    /// Says farewell to all brokers.
    pub fn say_farewell(&mut self, out: &mut impl Outputs) {
        for link in self.brokers.iter().filter_map(BrokerLink::link) {
            out.close(link, &Farewell { reason: FarewellReason::Leaving, text: "the client ends" });
        }
    }

    fn broker_of(&self, link: LinkId) -> Option<usize> {
        self.brokers.iter().position(|broker| broker.link() == Some(link))
    }

    fn primary_link(&self) -> Option<(usize, LinkId)> {
        let index = usize::from(self.primary?.0);
        Some((index, self.brokers.get(index)?.up()?))
    }

    fn greet(&mut self, now: Time, peer: PeerIndex, link: LinkId, out: &mut impl Outputs) {
        let Some(broker) = self.brokers.get_mut(usize::from(peer.0)) else { return };
        broker.connected(now, link, self.settings.poll);
        let standing = if self.primary.is_some() { Standing::Following } else { Standing::Orphaned };
        let hello = Hello {
            standing,
            prefers_to_reign: false,
            reign: self.reign,
            node: NodeId(0),
            incarnation: self.settings.incarnation,
            name: &self.settings.name,
            user: &self.settings.credentials.user,
            password: Secret(&self.settings.credentials.password),
        };
        out.send(link, &Frame::Hello(hello));
    }

    /// A broker has greeted back: it is told of our subscriptions and publications.
    fn welcome(&mut self, now: Time, index: usize, link: LinkId, hello: &Hello<'_>, out: &mut impl Outputs) {
        if !hello.standing.is_broker() {
            let text = "this address is no broker";
            self.brokers[index].told = true;
            out.unfit(PeerIndex(index as u8), &Unfit::Stranger);
            return out.close(link, &Farewell { reason: FarewellReason::Misbehaved, text });
        }
        self.leave_other_ways(index, hello.node, out);
        self.brokers[index].greeted(link, hello);
        self.catch_up[index] = 0;
        let succession = self.succession;
        self.elect(now, out);
        // A new primary has just been asked what none has answered yet.
        let asked = self.succession != succession && self.primary == Some(PeerIndex(index as u8));
        for (number, subscription) in self.subscriptions.iter().enumerate() {
            if let Some(subscription) = subscription.as_ref().filter(|known| known.answered || !asked) {
                let filter = subscription.filter.as_str();
                out.send(link, &Frame::Subscribe { number: number as u32, filter });
            }
        }
        self.catch_up(out);
    }

    /// A broker has greeted that is known at other addresses. It keeps the last connection of a client, so this is the one.
    fn leave_other_ways(&mut self, index: usize, node: NodeId, out: &mut impl Outputs) {
        for (other, broker) in self.brokers.iter_mut().enumerate() {
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
        let best = candidates.max_by_key(|(_, broker)| broker.reign);
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
                out.reigning(Reigning::Primary { broker, reign, outage });
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
    /// shortest way to it, so the old one is followed for the time of a fail-over. After that, the successor is out of
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
        let bit = 1 << broker;
        for (number, subscription) in self.subscriptions.iter_mut().enumerate() {
            let missing = |known: &&mut Subscription| !known.answered || known.declined & bit != 0;
            if let Some(subscription) = subscription.as_mut().filter(missing) {
                subscription.declined &= !bit;
                out.send(
                    link,
                    &Frame::Subscribe { number: number as u32, filter: subscription.filter.as_str() },
                );
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
        for (index, broker) in self.brokers.iter().enumerate() {
            let Some(link) = broker.up() else { continue };
            let succession = (primary == Some(index)).then_some(self.succession);
            let next = &mut self.catch_up[index];
            while *next < self.publications.len() && out.backlog(link) < room {
                if let Some(publication) = &mut self.publications[*next] {
                    publication.bring_up_to_date(*next as u32, index, link, succession, out);
                }
                *next += 1;
            }
        }
    }

    /// A broker no longer knows one of our numbers, because it forgot the stream while we were away.
    fn register_again(&mut self, broker: usize, stream: u32, out: &mut impl Outputs) {
        let slot = self.publications.get_mut(stream as usize);
        let Some(publication) = slot.and_then(Option::as_mut) else { return };
        publication.registered &= !(1 << broker);
        self.catch_up[broker] = self.catch_up[broker].min(stream as usize);
        self.catch_up(out);
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
        result: Result<(), &str>,
        out: &mut impl Outputs,
    ) {
        let slot = self.subscriptions.get_mut(number as usize).and_then(Option::as_mut);
        let Some(subscription) = slot else { return };
        // A broker that stands by answers for itself, and is asked again when it comes to reign; what counts is the
        // primary's word.
        if self.primary != Some(broker) || !reigns {
            subscription.declined |= u8::from(result.is_err()) << broker.0;
        } else if !std::mem::replace(&mut subscription.answered, true) || result.is_err() {
            out.subscribed(number, result);
        }
    }

    /// A broker names a stream.
    fn learn(&mut self, broker: usize, announce: &Announce<'_>, reigns: bool) {
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
                inbound.tally.begin_anew(announce.next_seq);
                (inbound.incarnation, inbound.contract) = (announce.incarnation, announce.contract);
                // What the other broker still sends of the life before is not of this one.
                self.brokers.iter_mut().for_each(|broker| broker.unbind(index));
            }
            Some(_) => {}
            None if there >= limit => return,
            None => {
                let matching = self.subscriptions.iter().enumerate().filter(|(_, slot)| {
                    slot.as_ref().is_some_and(|subscription| subscription.filter.matches(announce.topic))
                });
                let inbound = Inbound {
                    topic: announce.topic.into(),
                    publisher: announce.publisher.into(),
                    incarnation: announce.incarnation,
                    contract: announce.contract,
                    tally: Tally::new(announce.next_seq, announce.gapless),
                    late: 0,
                    subscriptions: matching.map(|(number, _)| number as u32).collect(),
                };
                self.inbound.push(inbound);
                self.by_name.insert(key, index);
            }
        }
        self.brokers[broker].bind(announce.stream, Some(index));
    }

    fn receive(
        &mut self,
        now: Time,
        broker: usize,
        from: LinkId,
        messages: Messages<'_>,
        out: &mut impl Outputs,
    ) {
        for message in messages {
            let Some(index) = self.brokers[broker].stream(message.stream) else { continue };
            if message.flags.contains(MessageFlags::CONFIRM) {
                out.send_mark(from, MarkKind::Confirm, Mark { stream: message.stream, seq: message.seq });
            }
            let inbound = &mut self.inbound[index as usize];
            let settle = self.settings.settle(&inbound.contract);
            let Arrival::Fresh { reordered } = inbound.tally.arrive(now, message.seq, settle) else {
                continue;
            };
            let latency = now.since(message.created);
            let late = latency > inbound.contract.deadline && !Mutant::CallNothingLate.is_on();
            inbound.late += u64::from(late);
            out.deliver(&Delivery {
                topic: &inbound.topic,
                publisher: &inbound.publisher,
                seq: message.seq,
                created: message.created,
                latency,
                late,
                reordered,
                out_of_date: message.flags.contains(MessageFlags::OUT_OF_DATE),
                apart: message.flags.contains(MessageFlags::APART),
                payload: message.payload,
                contract: &inbound.contract,
                tally: &inbound.tally,
                stream: index,
                subscriptions: &inbound.subscriptions,
            });
        }
    }
}

impl Publication {
    /// Registers with a broker, if that has not been done on its present connection; and, in a new succession, sends
    /// the primary what is retained.
    fn bring_up_to_date(
        &mut self,
        number: u32,
        broker: usize,
        link: LinkId,
        succession: Option<u64>,
        out: &mut impl Effects,
    ) {
        let bit = 1 << broker;
        // Only who reigns judges, so whoever comes to reign is asked again until one has admitted. So is who has refused it
        // before another admitted it: it takes nothing under this number.
        let unjudged = !matches!(self.state, PublicationState::Admitted(_));
        let declined = self.declined & bit != 0;
        let ask_again =
            (unjudged || declined) && succession.is_some_and(|succession| succession != self.resent);
        if self.registered & bit == 0 || ask_again {
            self.registered |= bit;
            self.declined &= !bit;
            out.send(
                link,
                &Frame::Register(Register {
                    stream: number,
                    incarnation: self.incarnation,
                    contract: self.asked,
                    topic: &self.topic,
                }),
            );
        }
        let Some(succession) = succession.filter(|succession| *succession != self.resent) else { return };
        self.resent = succession;
        if Mutant::ForgetRetained.is_on() {
            return;
        }
        for kept in self.retention.iter() {
            let message = Message {
                stream: number,
                flags: MessageFlags::RESEND,
                seq: kept.seq,
                created: kept.created,
                payload: &kept.payload,
            };
            out.send_message(link, MessageKind::Publish, &message);
        }
    }
}

/// How long an address is left alone where something else than a broker of this release answers, which cannot help it.
const STRANGER_REST: Span = Span::secs(1);
/// The same where connections are closed without a word, which a broker does as well that is just ending.
const CURT_REST: Span = Span::millis(250);
/// How soon it is looked again whether a broker that is reached elsewhere still is.
const ELSEWHERE: Span = Span::millis(200);

/// How long a broker is left alone that has not even greeted before it said farewell. What it does not allow now it will hardly allow a moment later, and
/// looking at a password again and again costs it much.
fn rest_after(reason: FarewellReason) -> Span {
    match reason {
        FarewellReason::Denied => Span::secs(5),
        FarewellReason::Busy => Span::secs(1),
        _ => Span::ZERO,
    }
}

/// Puts a value into the first free place and returns its number, or `None` if the limit is reached.
fn place<T>(slots: &mut Vec<Option<T>>, value: T, limit: usize) -> Option<u32> {
    let free = slots.iter().position(Option::is_none);
    let index = match free {
        Some(index) => index,
        None if slots.len() < limit => {
            slots.push(None);
            slots.len() - 1
        }
        None => return None,
    };
    slots[index] = Some(value);
    Some(index as u32)
}
