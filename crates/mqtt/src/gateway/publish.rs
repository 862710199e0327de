//! Messages from clients, until they are covered.

use super::asking::asked_contract;
use super::repeats::Unwanted;
use super::words::append_with_words;
use super::{Action, Admits, Gateway, Rules, Step, Trouble};
use crate::ids::{NO_SESSION, SessionId};
use crate::packet::{
    Answer, Properties, Publish, Qos, Reason, Version, Will, acknowledge, acknowledge_error,
};
use crate::records::Key;
use crate::session::{Outlet, Session, Told};
use crate::unanswered::Pending;
use contract::{Contract, Mutant, Span, StreamId, Time, invariant};
use std::hash::{DefaultHasher, Hash, Hasher};
use wire::{Effects, LinkId, MessageFlags, Order, Posting};

/// The operator is told again of what is refused to a session on the same topic after this time.
const TELL_REFUSED_EVERY: Span = Span::secs(1);

/// A message that a client publishes, and what its answer needs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Post<'a> {
    /// Whose.
    pub session: SessionId,
    /// Its packet identifier; zero with QoS 0.
    pub id: u16,
    /// Its quality of service.
    pub qos: Qos,
    /// How long its payload is.
    pub bytes: usize,
    /// What is to be published.
    pub posting: Posting<'a>,
}

/// What of a [`Post`] cannot be borrowed from its packet. Whoever calls [`Gateway::take`] keeps it, so that the gateway is free while the
/// message is published.
#[derive(Clone, Debug, Default)]
pub struct Buffers {
    publisher: String,
    topic: String,
    /// Payload and trailer, where there is one.
    body: Vec<u8>,
}

impl Buffers {
    /// Takes what a message needs besides its topic, which is there. Returns how it came.
    fn fill(&mut self, publisher: &str, publish: &Publish<'_>) -> MessageFlags {
        self.publisher.clear();
        self.publisher.push_str(publisher);
        self.body.clear();
        let mut truths = truths_of(publish.qos, publish.retain);
        if publish.expiry.is_some() || publish.properties.has_forwardable() {
            self.body.extend_from_slice(publish.payload);
            if end_with(&mut self.body, publish.expiry, |out| publish.properties.forward(out)) {
                truths = truths.with(MessageFlags::TRAILER);
            }
        }
        truths
    }

    /// The message that is here and in its packet.
    fn posting<'a>(
        &'a self,
        publish: &Publish<'a>,
        (asked, fallback): (Option<Contract>, Contract),
        hint: Option<StreamId>,
        truths: MessageFlags,
    ) -> Posting<'a> {
        let whole = truths.contains(MessageFlags::TRAILER);
        Posting {
            publisher: &self.publisher,
            topic: &self.topic,
            asked,
            fallback,
            hint,
            payload: if whole { &self.body } else { publish.payload },
            truths,
            asks: publish.qos != Qos::AtMostOnce,
        }
    }
}

/// A message that the gateway itself has to publish: a will.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Draft {
    /// Who publishes.
    pub publisher: Box<str>,
    /// On which topic.
    pub topic: Box<str>,
    /// Payload with its trailer.
    pub body: Vec<u8>,
    /// How it would have come.
    pub truths: MessageFlags,
}

impl Draft {
    /// A client's will.
    pub(crate) fn of_will(publisher: Box<str>, will: Will) -> Draft {
        let mut body = will.payload.into_vec();
        let mut truths = truths_of(will.qos, will.retain);
        if end_with(&mut body, will.expiry, |out| out.extend_from_slice(&will.properties)) {
            truths = truths.with(MessageFlags::TRAILER);
        }
        Draft { publisher, topic: will.topic, body, truths }
    }
}

/// In a trailer, of a message that never expires.
const NEVER_EXPIRES: u64 = u64::MAX;

/// Ends a payload with a trailer, unless there is nothing to say there: how many seconds after its creation the message is of no use any more, whatever clock
/// that was stamped by, and properties.
fn end_with(body: &mut Vec<u8>, expiry: Option<u32>, properties: impl FnOnce(&mut Vec<u8>)) -> bool {
    let begins = body.len();
    body.extend_from_slice(&expiry.map_or(NEVER_EXPIRES, u64::from).to_le_bytes());
    let empty = body.len();
    properties(body);
    let bytes = body.len() - begins;
    if (expiry.is_none() && body.len() == empty) || !wire::end_trailer(body, bytes) {
        body.truncate(begins);
        return false;
    }
    true
}

/// What a trailer says: when the message expires, and its properties. One that is none says nothing: messages come from partners and other sites as
/// well, and what is wrong would end the connections of whoever is given it.
pub(crate) fn read_trailer(created: Time, trailer: &[u8]) -> (Option<Time>, &[u8]) {
    let Some((seconds, properties)) = trailer.split_first_chunk::<8>() else { return (None, &[]) };
    if !Properties::are_forwarded(properties) {
        return (None, &[]);
    }
    let seconds = i64::try_from(u64::from_le_bytes(*seconds)).ok();
    (seconds.map(|seconds| created + Span::secs(seconds.min(u32::MAX.into()))), properties)
}

fn truths_of(qos: Qos, retain: bool) -> MessageFlags {
    let mut truths = match qos {
        Qos::AtMostOnce => MessageFlags::NONE,
        Qos::AtLeastOnce => MessageFlags::AT_LEAST_ONCE,
        Qos::ExactlyOnce => MessageFlags::AT_LEAST_ONCE.with(MessageFlags::EXACTLY_ONCE),
    };
    if retain {
        truths = truths.with(MessageFlags::RETAIN);
    }
    truths
}

/// Runs of a client's messages on one topic that may not have been dispatched yet, before it waits for them.
pub(super) const AHEAD_MAX: usize = 64;

/// What is said to who goes beyond its user's rates.
const TOO_MANY: &str = "more messages than the user may publish: send fewer, or have messages_per_second or bytes_per_second \
                        raised";

/// What is said of a message for which a session has no room, where that is configured.
const QUEUE_FULL: &str =
    "a subscriber's queue is full: publish again later, have it come and read, or raise mqtt.queue_messages";

/// What is said of a message that had to go before it was covered.
const NO_MEMORY: &str =
    "newer messages took its memory: publish less at a time, ask for a contract, or have limits.store raised";

impl<R: Rules> Gateway<R> {
    /// A client publishes.
    pub(super) fn publish<'a>(
        &mut self,
        now: Time,
        link: LinkId,
        index: SessionId,
        publish: &Publish<'a>,
        buffers: &'a mut Buffers,
        net: &mut impl Effects,
    ) -> Step<'a> {
        self.stats.messages_received += 1;
        self.stats.bytes_received += publish.payload.len() as u64;
        self.prepare(now, link, index, publish, buffers, net)
    }

    /// Whether a message with QoS 2 has come before. Its answer may have been lost.
    fn has_come(&mut self, index: SessionId, publish: &Publish<'_>, net: &mut impl Effects) -> bool {
        let Some(session) = self.sessions.get_mut(index) else {
            return invariant!("who publishes has a session", false);
        };
        let Some(known) = session.incoming(publish.id) else { return false };
        if session.is_another(known, publish.dup) {
            self.forget_incoming(index, publish.id);
            return false;
        }
        if known.covered {
            self.answer(index, publish.id, publish.qos, Reason::SUCCESS, net);
        }
        true
    }

    fn prepare<'a>(
        &mut self,
        now: Time,
        link: LinkId,
        index: SessionId,
        publish: &Publish<'a>,
        buffers: &'a mut Buffers,
        net: &mut impl Effects,
    ) -> Step<'a> {
        let receive_maximum = self.settings.limits.receive_maximum;
        match self.resolve_topic(link, publish, &mut buffers.topic) {
            Err((reason, text)) if reason == Reason::TOPIC_NAME_INVALID => {
                self.stats.refused_messages += 1;
                self.refuse_or_end(now, (link, index), publish, &buffers.topic, (reason, text, true), net);
                return Step::Done;
            }
            Err((reason, text)) => {
                self.refuse(now, link, reason, text, net);
                return Step::Done;
            }
            Ok(()) => {}
        }
        if publish.qos == Qos::ExactlyOnce && self.has_come(index, publish, net) {
            return Step::Done;
        }
        let Some(session) = self.sessions.get_mut(index) else {
            return invariant!("who publishes has a session", Step::Done);
        };
        if publish.qos == Qos::AtLeastOnce && session.pending.has(publish.id) {
            let text = "a packet identifier was used again before its message was acknowledged";
            if !publish.dup {
                self.refuse(now, link, Reason::PROTOCOL_ERROR, text, net);
            }
            return Step::Done;
        }
        // Identifiers that a client of MQTT 3.1.1 has not released are as many as there are identifiers at most.
        let agreed = session.version == Version::V5 && publish.qos != Qos::AtMostOnce;
        if agreed && session.unanswered() >= usize::from(receive_maximum) {
            let text = "more unanswered messages than the receive maximum";
            self.refuse(now, link, Reason::RECEIVE_MAXIMUM_EXCEEDED, text, net);
            return Step::Done;
        }
        let user = session.user.as_deref();
        let asked = match asked_contract(&self.settings.fallback, publish) {
            Ok(asked) => asked,
            Err(text) => {
                let reason = Reason::IMPLEMENTATION_SPECIFIC;
                self.tell_refused(now, index, &buffers.topic, publish.payload.len(), &text);
                self.refuse_message(index, publish.id, publish.qos, reason, &text, net);
                return Step::Done;
            }
        };
        let forbidden = forbidden(&self.rules, session, &buffers.topic, asked.is_some());
        if let Some(text) = forbidden {
            self.stats.not_authorized += 1;
            self.stats.refused_messages += 1;
            let why = (Reason::NOT_AUTHORIZED, &*text, true);
            self.refuse_or_end(now, (link, index), publish, &buffers.topic, why, net);
            return Step::Done;
        }
        if !self.rules.spend(now, user, publish.payload.len()) {
            return self.slow_down(now, link, index, publish, &buffers.topic, net);
        }
        self.look_for_loop(now, (link, index), &buffers.topic, publish.payload);
        let Some(session) = self.sessions.get_mut(index) else {
            return invariant!("who publishes has a session", Step::Done);
        };
        // Where it asks for another contract by now, the broker says whether that can be.
        let same = |outlet: &Outlet| asked.is_none() || outlet.asked == asked;
        let outlet = session.outlets.get(&buffers.topic).filter(same);
        let hint = outlet.map(|outlet| outlet.stream);
        let truths = buffers.fill(&session.publisher, publish);
        let (id, qos, bytes) = (publish.id, publish.qos, publish.payload.len());
        let posting = buffers.posting(publish, (asked, self.settings.fallback), hint, truths);
        Step::Post(Post { session: index, id, qos, bytes, posting })
    }

    /// The broker has dispatched everything that it had.
    pub fn all_dispatched(&mut self) {
        self.dispatched += 1;
    }

    /// Whether what a client sends has to wait for its messages before it, so that packets take effect in their order: a command for all
    /// of them (`most` is 0), a message where there are more than are remembered.
    #[inline]
    pub(super) fn is_behind(&mut self, session: SessionId, most: usize, load: &impl Admits) -> bool {
        let Some(session) = self.sessions.get_mut(session).filter(|session| session.ahead.len() > most)
        else {
            return false;
        };
        session.forget_ahead(self.dispatched);
        session.ahead.retain(|&(stream, seq)| !load.was_dispatched(stream, seq));
        session.ahead.len() > most && !Mutant::Overtake.is_on()
    }

    /// Whether a client has as many messages that are not covered as are taken at a time. MQTT 3.1.1 has no word for
    /// this number, so that such a client is slowed down where others would break an agreement.
    pub(super) fn is_crowded(&self, link: LinkId) -> bool {
        let session = self.session_of(link).and_then(|index| self.sessions.get(index));
        session
            .is_some_and(|session| session.pending.len() >= usize::from(self.settings.limits.receive_maximum))
    }

    /// A client publishes more than its user may. One that can be told is told; one that cannot must not take its message for safe.
    fn slow_down(
        &mut self,
        now: Time,
        link: LinkId,
        index: SessionId,
        publish: &Publish<'_>,
        topic: &str,
        net: &mut impl Effects,
    ) -> Step<'static> {
        self.stats.refused_messages += 1;
        let why = (Reason::QUOTA_EXCEEDED, TOO_MANY, false);
        self.refuse_or_end(now, (link, index), publish, topic, why, net);
        Step::Done
    }

    /// A message is not taken. One of 3.1.1 has no word for that: its connection ends, so that it does not take its message for safe. If it
    /// would be refused again (`for_ever`), it is counted how often it comes.
    fn refuse_or_end(
        &mut self,
        now: Time,
        (link, index): (LinkId, SessionId),
        publish: &Publish<'_>,
        topic: &str,
        (reason, text, for_ever): (Reason, &str, bool),
        net: &mut impl Effects,
    ) {
        let version = match self.client(link) {
            Some(client) => client.version,
            None => invariant!("who publishes is connected", Version::V5),
        };
        let &Publish { id, qos, payload, .. } = publish;
        if qos == Qos::AtMostOnce || version.is_5() {
            self.tell_refused(now, index, topic, payload.len(), text);
            self.refuse_message(index, id, qos, reason, text, net);
        } else if for_ever {
            let unwanted = Unwanted { id, qos, topic, bytes: payload.len(), reason, text };
            self.refuse_repeated(now, (link, index), &unwanted, net);
        } else {
            self.tell_refused(now, index, topic, payload.len(), text);
            self.refuse_as_told(now, link, reason, text, net);
        }
    }

    /// Tells the admin of a message that was refused; of one topic after the other, and of the same once in a while.
    pub(super) fn tell_refused(
        &mut self,
        now: Time,
        index: SessionId,
        topic: &str,
        bytes: usize,
        text: &str,
    ) {
        let Some(session) = self.sessions.get_mut(index) else {
            return invariant!("who publishes has a session");
        };
        let mut hasher = DefaultHasher::new();
        (topic, text).hash(&mut hasher);
        let Told { cause, at, left_out } = session.refused_told;
        if cause == hasher.finish() && at <= now && now < at + TELL_REFUSED_EVERY {
            session.refused_told.left_out += 1;
            return;
        }
        session.refused_told = Told { cause: hasher.finish(), at: now, left_out: 0 };
        let (client, user, link) = (session.client.clone(), session.user.clone(), session.link);
        let from = link.and_then(|link| self.client(link)).and_then(|client| client.from);
        let mut reason = format!("{text} (a message of {bytes} bytes");
        user.iter().for_each(|user| reason += &format!(", as `{user}`"));
        from.iter().for_each(|from| reason += &format!(", from {from}"));
        if left_out > 0 {
            reason += &format!("; {left_out} more of it were refused since that was told last");
        }
        reason.push(')');
        self.trouble(Trouble::Refused { client, topic: topic.to_owned(), reason });
    }

    /// The topic of a message, which an alias may stand for.
    fn resolve_topic(
        &mut self,
        link: LinkId,
        publish: &Publish<'_>,
        topic: &mut String,
    ) -> Result<(), (Reason, &'static str)> {
        let most = self.settings.limits.topic_aliases;
        topic.clear();
        topic.push_str(publish.topic);
        if let Some(alias) = publish.alias {
            let too_high = (Reason::TOPIC_ALIAS_INVALID, "a topic alias that is too high");
            let unknown = (Reason::PROTOCOL_ERROR, "a topic alias that was never given a topic");
            let client = self.client_mut(link).filter(|_| alias <= most).ok_or(too_high)?;
            let place = usize::from(alias - 1);
            if topic.is_empty() {
                let known = client.aliases.get(place).and_then(Option::as_deref).ok_or(unknown)?;
                topic.push_str(known);
                return Ok(());
            }
            if client.aliases.len() <= place {
                client.aliases.resize(place + 1, None);
            }
            if let Some(slot) = client.aliases.get_mut(place).filter(|slot| slot.as_deref() != Some(topic)) {
                let before = slot.as_deref().map_or(0, str::len);
                let bytes = client.alias_bytes - before + topic.len();
                if bytes > contract::names_bytes_max(most.into()) {
                    let text =
                        "topic aliases for topics that are too long together: have mqtt.topic_aliases raised";
                    return Err((Reason::QUOTA_EXCEEDED, text));
                }
                *slot = Some(topic.as_str().into());
                client.alias_bytes = bytes;
            }
        }
        let limits = &self.settings.limits;
        let wrong = contract::check_name(topic).is_err();
        if wrong || limits.are_lower() {
            let text = limits.too_long(topic).or(wrong.then_some("a topic that is none"));
            return text.map_or(Ok(()), |text| Err((Reason::TOPIC_NAME_INVALID, text)));
        }
        Ok(())
    }

    /// The broker has taken a message, as this number of this stream. With QoS 1 and 2 [`Gateway::covered`] will be called.
    pub fn posted(&mut self, post: &Post<'_>, stream: StreamId, seq: u64) {
        let most = self.settings.limits.topics_per_session;
        let Some(session) = self.sessions.get_mut(post.session) else {
            return invariant!("who publishes has a session");
        };
        let Posting { topic, hint, asked, .. } = post.posting;
        if hint != Some(stream) {
            session.outlets.insert(topic, Outlet { stream, asked }, most);
        }
        session.forget_ahead(self.dispatched);
        match session.ahead.last_mut() {
            Some((last, newest)) if *last == stream => *newest = seq,
            _ => session.ahead.push((stream, seq)),
        }
        if post.qos == Qos::AtMostOnce {
            return;
        }
        if post.qos == Qos::ExactlyOnce {
            session.take_incoming(post.id);
        }
        session.pending.push(Pending { stream, seq, id: post.id, qos: post.qos });
        if self.owners.len() <= stream.place() {
            self.owners.resize(stream.place() + 1, NO_SESSION);
        }
        match self.owners.get_mut(stream.place()) {
            Some(owner) => *owner = post.session,
            None => invariant!("a stream on which a client publishes has a place"),
        }
    }

    /// The broker has not taken a message: the reason, in words, and whether it would be refused again.
    pub fn not_posted(
        &mut self,
        now: Time,
        post: &Post<'_>,
        (reason, text, for_ever): (Reason, &str, bool),
        net: &mut impl Effects,
    ) {
        self.stats.refused_messages += 1;
        let topic = post.posting.topic;
        let Some(session) = self.sessions.get(post.session) else {
            return invariant!("who publishes has a session");
        };
        let (version, link) = (session.version, session.link);
        if let Some(link) =
            link.filter(|_| reason == Reason::USE_ANOTHER_SERVER && post.qos != Qos::AtMostOnce)
        {
            // No answer to a message says that, but the end of a connection does.
            return self.refuse(now, link, reason, text, net);
        }
        if let Some(link) = link.filter(|_| post.qos != Qos::AtMostOnce && !version.is_5()) {
            // It cannot be told, and must not take its message for safe. What it has not been answered it sends again.
            let &Post { id, qos, bytes, .. } = post;
            if !for_ever {
                self.tell_refused(now, post.session, topic, bytes, text);
                return self.refuse_as_told(now, link, reason, text, net);
            }
            let unwanted = Unwanted { id, qos, topic, bytes, reason, text };
            self.refuse_repeated(now, (link, post.session), &unwanted, net);
            return;
        }
        self.tell_refused(now, post.session, topic, post.bytes, text);
        self.refuse_message(post.session, post.id, post.qos, reason, text, net);
    }

    /// A message whose publisher waits for word is covered.
    pub fn covered(&mut self, stream: StreamId, seq: u64, net: &mut impl Effects) {
        if !self.unheld.is_empty() && self.unheld.remove(&(stream, seq)) {
            return self.give_up(stream, seq, QUEUE_FULL, net);
        }
        let Some(&index) = self.owners.get(stream.place()) else {
            return invariant!("who waits for word has published");
        };
        // Its session may have ended, or have lost with its connection what it waited for.
        let Some(session) = self.sessions.get_mut(index) else { return };
        let Some(pending) = session.pending.take(stream, seq) else { return };
        let is_new = pending.qos == Qos::ExactlyOnce && session.cover_incoming(pending.id);
        if is_new && session.is_persistent() && !Mutant::ForgetIncoming.is_on() {
            self.records.put(&Key::Incoming(&session.client, pending.id), |_| {});
        }
        self.answer(index, pending.id, pending.qos, Reason::SUCCESS, net);
    }

    /// A message whose publisher waits for word is lost, since there was no memory for it. A client of MQTT 3.1.1 cannot be told: its
    /// connection ends, so that it sends again what was not answered.
    pub fn given_up(&mut self, stream: StreamId, seq: u64, net: &mut impl Effects) {
        self.unheld.remove(&(stream, seq));
        self.give_up(stream, seq, NO_MEMORY, net);
    }

    fn give_up(&mut self, stream: StreamId, seq: u64, text: &str, net: &mut impl Effects) {
        let Some(&index) = self.owners.get(stream.place()) else {
            return invariant!("who waits for word has published");
        };
        // As in `covered`.
        let Some(session) = self.sessions.get_mut(index) else { return };
        let Some(pending) = session.pending.take(stream, seq) else { return };
        let (version, link) = (session.version, session.link);
        let _ = session.remove_incoming(pending.id);
        self.stats.refused_messages += 1;
        match link.filter(|_| !version.is_5()) {
            Some(link) => net.hang_up(link),
            None => {
                self.refuse_message(index, pending.id, pending.qos, Reason::QUOTA_EXCEEDED, text, net);
            }
        }
    }

    /// Answers a message that is covered, after everything else that leaves in this turn.
    pub(super) fn answer(
        &mut self,
        index: SessionId,
        id: u16,
        qos: Qos,
        reason: Reason,
        net: &mut impl Effects,
    ) {
        let Some(answer) = answer_to(qos) else { return };
        // Its client may have gone: it asks again when it comes back.
        let Some((link, version)) =
            self.sessions.get(index).and_then(|session| Some((session.link?, session.version)))
        else {
            return;
        };
        net.append(link, Order::Last, |out| acknowledge(out, version, answer, id, reason));
    }

    /// Answers a message that is not published. A client of MQTT 5 hears why, and the others take it for acknowledged, as the
    /// protocol has it.
    pub(super) fn refuse_message(
        &mut self,
        index: SessionId,
        id: u16,
        qos: Qos,
        reason: Reason,
        text: &str,
        net: &mut impl Effects,
    ) {
        let Some(answer) = answer_to(qos) else { return };
        // Its client may have gone: it sends the message again when it comes back.
        let Some(link) = self.sessions.get(index).and_then(|session| session.link) else { return };
        let Some(client) = self.client(link) else { return invariant!("a session's link is a client's") };
        let (words, version) = (client.words(text), client.version);
        net.append(link, Order::Last, |out| match words {
            None => acknowledge(out, version, answer, id, reason),
            Some(_) => {
                append_with_words(out, client.packet_bytes_max, words, |out, words| {
                    acknowledge_error(out, answer, id, reason, words);
                });
            }
        });
    }

    /// A client releases the number of a QoS 2 message.
    pub(super) fn release_incoming(
        &mut self,
        link: LinkId,
        index: SessionId,
        id: u16,
        net: &mut impl Effects,
    ) {
        let known = self.forget_incoming(index, id);
        let Some(version) = self.sessions.get(index).map(|session| session.version) else {
            return invariant!("who answers a message has a session");
        };
        let reason = if known { Reason::SUCCESS } else { Reason::PACKET_ID_NOT_FOUND };
        net.append(link, Order::Last, |out| acknowledge(out, version, Answer::PubComp, id, reason));
    }

    /// A QoS 2 message of a client is under way no more. Says whether it was.
    fn forget_incoming(&mut self, index: SessionId, id: u16) -> bool {
        let Some(session) = self.sessions.get_mut(index) else {
            return invariant!("who publishes has a session", false);
        };
        let known = session.remove_incoming(id);
        if known && session.is_persistent() {
            self.records.remove(&Key::Incoming(&session.client, id));
        }
        known
    }

    /// The next message that the gateway itself has to publish.
    pub fn next_draft(&mut self) -> Option<Draft> {
        self.drafts.pop_front()
    }
}

/// What answers a message.
pub(super) fn answer_to(qos: Qos) -> Option<Answer> {
    match qos {
        Qos::AtMostOnce => None,
        Qos::AtLeastOnce => Some(Answer::PubAck),
        Qos::ExactlyOnce => Some(Answer::PubRec),
    }
}

/// Whether nobody but the broker publishes on a topic. Bridges of mosquitto publish there whether they are connected.
pub(super) fn is_own(topic: &str) -> bool {
    let bridge = || topic.strip_prefix("$SYS/broker/connection/")?.strip_suffix("/state");
    topic.starts_with('$') && bridge().is_none_or(|name| name.is_empty() || name.contains('/'))
}

/// Why a client may not publish here, if it may not.
fn forbidden(rules: &impl Rules, session: &Session, topic: &str, asks: bool) -> Option<String> {
    let (user, client) = (session.user.as_deref(), &*session.client);
    let may = |action| rules.allow(user, client, action, topic);
    let why_not = |action| rules.why_not(user, client, action, topic);
    if is_own(topic) {
        Some("topics that begin with `$` are the broker's own: publish on another one".to_owned())
    } else if !may(Action::Publish) {
        Some(why_not(Action::Publish))
    } else if asks && !may(Action::Contract) {
        let why = why_not(Action::Contract);
        Some(format!("{why}, or leave the user properties `verge-...` out"))
    } else {
        None
    }
}
