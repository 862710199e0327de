//! Subscribers come and go.

use crate::broker::Broker;
use crate::commands::Promises;
use crate::commands::tasks::{SLOTS_PER_UNIT, TEST_UNITS, Task};
use crate::outputs::Outputs;
use crate::settings::Limits;
use crate::steps::work::Flow;
use crate::store::Store;
use crate::store::ids::{SessionId, TopicId};
use crate::store::links::{Party, site};
use crate::store::pace::Pace;
use crate::store::sessions::{Deferred, Session};
use crate::store::table::Topic;
use crate::watch::events::Event;
use contract::{Mutant, Needs, Span, Time, TopicFilter, TrafficClass, invariant};
use std::collections::{BTreeMap, VecDeque};
use wire::{Frame, LinkId};

/// Why best effort and promises do not go together, as what is asked for is the one or the other.
const MIXED: (&str, &str) =
    ("something is promised to the client already", "the client is served as best effort already");

/// Filters of a site's link, which stand for those of all clients of a site.
const FILTERS_OF_A_SITE: usize = 16_384;

/// Filters that a client may have.
fn filters_of(client: &str, limits: &Limits) -> usize {
    let most = limits.filters_per_session;
    if site(client).is_some() { most.max(FILTERS_OF_A_SITE) } else { most }
}

/// Subscribers of one confirmed topic: one bit each.
pub(crate) const CONFIRMING_MAX: usize = u64::BITS as usize;

/// A subscription that topics are being told of.
#[derive(Clone)]
pub(crate) struct Subscribing {
    /// Who is answered, and its number for the filter; `None` where the primary has told of it.
    pub(crate) link: Option<LinkId>,
    number: u32,
    session: SessionId,
    filter: TopicFilter,
    needs: Needs,
    place: String,
    /// Topics that have the subscriber because of it.
    joined: usize,
    /// Why it cannot be; then topics are cleared of it again.
    refusal: Option<String>,
    /// Why it is served as best effort, where that was not asked for.
    instead: Option<String>,
    /// Nothing is promised to it, and there was too little time before it came: clients that have just connected may take it, as long as
    /// nobody knows what they want. It is let in, since it takes less than they.
    lenient: bool,
}

impl Broker {
    /// A client wants the topics of a filter.
    pub(crate) fn subscribe(
        &mut self,
        now: Time,
        from: LinkId,
        number: u32,
        needs: Needs,
        filter: &str,
        out: &mut impl Outputs,
    ) {
        if let Err(text) = self.try_subscribe(now, from, number, needs, filter, out) {
            self.answer_subscription(from, number, filter, Err(&text), out);
        }
    }

    /// Says what came of a client's wish for a filter.
    pub(crate) fn answer_subscription(
        &mut self,
        from: LinkId,
        number: u32,
        filter: &str,
        result: Result<&str, &str>,
        out: &mut impl Outputs,
    ) {
        let (admitted, text) = (result.is_ok(), result.unwrap_or_else(|text| text));
        if !admitted {
            self.flow.stats.refused += 1;
            let client = self.flow.store.links.get(from).map_or("", |link| &link.name);
            out.report(&Event::SubscriptionRefused { client, filter, reason: text });
        } else if !text.is_empty() {
            let client = self.flow.store.links.get(from).map_or("", |link| &link.name);
            out.report(&Event::BestEffortInstead { client, filter, reason: text });
        }
        let reigns = self.membership.pair.is_primary();
        out.send(from, &Frame::Subscribed { number, admitted, reigns, text });
    }

    /// Begins a subscription, which is answered when every topic knows of it. `Err`: there is none.
    fn try_subscribe(
        &mut self,
        now: Time,
        from: LinkId,
        number: u32,
        needs: Needs,
        filter: &str,
        out: &mut impl Outputs,
    ) -> Result<(), String> {
        if Mutant::RefuseSubscriptions.is_on() {
            return Err(String::new());
        }
        let parsed: TopicFilter = filter.parse().map_err(|error: contract::TopicError| error.to_string())?;
        let Some(link) = self.flow.store.links.get(from) else {
            return invariant!("who sends a frame has a link", Ok(()));
        };
        let (client, incarnation) = (link.name.clone(), link.incarnation);
        let mut index = self.take_session(now, &client, incarnation, Some(from), out)?;
        let outlived = |session: &Session| session.class != needs.class && session.is_left();
        if self.flow.store.sessions.get(index).is_some_and(outlived) {
            // It has come back for messages of another class, and has topics that are not of it.
            self.end_session(now, index, out);
            index = self.take_session(now, &client, incarnation, Some(from), out)?;
        }
        let limit = filters_of(&client, &self.settings.limits);
        let tree_bytes = self.flow.store.sessions.tree_bytes();
        // A number that has meant another filter until now gives that up.
        let before = self.flow.store.sessions.get(index).and_then(|session| session.numbers.get(&number));
        if before.is_some_and(|before| *before != parsed) {
            self.unsubscribe(now, from, number, out);
        }
        let Some(session) = self.flow.store.sessions.get_mut(index) else {
            return invariant!("a session that was found or made is there", Ok(()));
        };
        session.unbind(number);
        if session.numbers.len() >= limit {
            return Err(format!(
                "the client has {} subscriptions, its limit: raise limits.filters_per_session",
                session.numbers.len()
            ));
        }
        if let Some(text) = session.lacks_room(&parsed, limit) {
            return Err(text);
        }
        let (needed, share) =
            (tree_bytes + contract::filter_bytes(parsed.as_str()), self.settings.limits.filters());
        if !session.filters.contains_key(&parsed) && needed > share.bytes {
            return Err(format!(
                "filters of all clients would take {needed} of the {} bytes that are theirs ({share}): raise {}, or use shorter ones or \
                 ones with fewer levels",
                share.bytes, share.key
            ));
        }
        let known = session.filters.get(&parsed);
        let again = self.settings.best_effort_subscriptions && needs.is_none() && session.best_effort;
        let needs = if again { Needs::BEST_EFFORT } else { needs };
        if known.is_some_and(|wanted| wanted.needs != needs && wanted.uses > 0) {
            return Err(
                "the client has this filter already, and needs something else there: unsubscribe it first"
                    .to_owned(),
            );
        }
        needs.check().map_err(|error| error.to_string())?;
        if session.filters.values().any(|wanted| wanted.needs.best_effort != needs.best_effort) {
            return Err(format!(
                "{}: use a client of its own for best effort",
                if needs.best_effort { MIXED.0 } else { MIXED.1 }
            ));
        }
        if session.filters.values().any(|wanted| wanted.needs.class != needs.class) {
            return Err("the client has filters of another class of messages: use another client for these"
                .to_owned());
        }
        if let Some(class) = needs.link.filter(|class| self.settings.links.delay(*class).is_none()) {
            return Err(contract::Refusal::UnknownLink(class).to_string());
        }
        let instead = again.then(|| "the client is served so already".to_owned());
        let (subscribing, known) = self.enter(now, index, Some(from), number, (parsed, needs), out);
        self.begin_subscribing(now, Subscribing { instead, ..subscribing }, known, out);
        Ok(())
    }

    /// A session has one more filter, which is within its limits. Topics are to be told of it, unless it was known: the second of what is
    /// returned.
    fn enter(
        &mut self,
        now: Time,
        index: SessionId,
        link: Option<LinkId>,
        number: u32,
        (filter, needs): (TopicFilter, Needs),
        out: &mut impl Outputs,
    ) -> (Subscribing, bool) {
        let mut known = false;
        if let Some(session) = self.flow.store.sessions.get_mut(index) {
            known = session.filters.get(&filter).is_some_and(|wanted| wanted.needs == needs);
            match link {
                Some(_) => session.bind(number, &filter),
                None => _ = session.want(&filter),
            }
            session.want(&filter).needs = needs;
            session.sum_up();
            if !known {
                session.began = now;
                self.flow.store.sessions.index(index, &filter);
                self.tell_interest(index, &filter, true, out);
            }
        } else {
            invariant!("a session that gets a filter is there");
        }
        self.serve_in_turn(index, out);
        let (place, joined, refusal, instead) = (String::new(), 0, None, None);
        let lenient = needs.best_effort && self.overload_of(0).is_some();
        let session = index;
        let subscribing =
            Subscribing { link, number, session, filter, needs, place, joined, refusal, instead, lenient };
        (subscribing, known)
    }

    /// Tells topics of a filter that was not known.
    fn begin_subscribing(
        &mut self,
        now: Time,
        subscribing: Subscribing,
        known: bool,
        out: &mut impl Outputs,
    ) {
        if known {
            return self.end_subscribing(&subscribing, out);
        }
        self.begin(now, Task::Subscribe(subscribing), out);
    }

    /// Tells further topics of a subscription, or that it has been refused. Returns how many units that took, and whether that was all.
    pub(crate) fn go_on_subscribing(
        &mut self,
        now: Time,
        subscribing: &mut Subscribing,
        units: usize,
        out: &mut impl Outputs,
    ) -> (usize, bool) {
        let index = subscribing.session;
        if self.flow.store.sessions.get(index).is_none() {
            // It has ended meanwhile, and topics are cleared of it.
            return (1, true);
        }
        let (mut used, mut more) = (0, true);
        while used < units && more && subscribing.refusal.is_none() {
            let (topics, looks);
            (topics, looks, more) = self.next_topics(&subscribing.filter, &mut subscribing.place);
            used += looks + topics.len();
            subscribing.refusal = self.join_topics(index, &topics, &mut subscribing.joined).err();
            if subscribing.needs.confirm {
                self.keep_until_handed_on(now, &topics, out);
            }
        }
        let counts = subscribing.joined > 0 || !subscribing.needs.is_none();
        if subscribing.refusal.is_none() && counts && !subscribing.lenient {
            used += TEST_UNITS;
            subscribing.refusal = self.overload_of(subscribing.joined.max(1));
        }
        if subscribing.refusal.is_none() {
            if !more {
                self.end_subscribing(subscribing, out);
            }
            return (used, !more);
        }
        if let Some(session) = self.flow.store.sessions.get_mut(index)
            && session.filters.contains_key(&subscribing.filter)
        {
            session.unbind(subscribing.number);
            self.forget_filter(index, &subscribing.filter, out);
            (subscribing.place, more) = (String::new(), true);
        }
        if used < units && more {
            let Subscribing { filter, place, .. } = subscribing;
            let some;
            (some, more) = self.clear_topics(index, filter, place, units - used, out);
            used += some;
        }
        if !more && !self.serve_instead(now, subscribing, out) {
            self.end_subscribing(subscribing, out);
        }
        (used, !more)
    }

    /// Begins anew what cannot be served in time as best effort, where that is configured, the client has asked for nothing in particular,
    /// and nothing is promised to it. Returns whether it did.
    fn serve_instead(&mut self, now: Time, subscribing: &Subscribing, out: &mut impl Outputs) -> bool {
        // The primary has judged what came from there.
        let Subscribing { link: Some(link), number, session: index, ref filter, needs, .. } = *subscribing
        else {
            return false;
        };
        // Its client may have gone meanwhile, or come back on another connection.
        let Some(session) = self.flow.store.sessions.get(index).filter(|session| session.link == Some(link))
        else {
            return false;
        };
        let promised = session.filters.values().any(|wanted| !wanted.needs.best_effort);
        if !self.settings.best_effort_subscriptions || !needs.is_none() || promised {
            return false;
        }
        let wish = (filter.clone(), Needs::BEST_EFFORT);
        let (anew, _) = self.enter(now, index, Some(link), number, wish, out);
        let instead = subscribing.refusal.clone();
        self.tasks.waiting.push_front(Task::Subscribe(Subscribing { instead, ..anew }));
        true
    }

    /// What is for a session leaves in the turn in which it was made, or after everything else.
    pub(crate) fn serve_in_turn(&mut self, index: SessionId, out: &mut impl Outputs) {
        let Broker {
            flow: Flow { store: Store { sessions, links, .. }, .. },
            promises: Promises { admission, .. },
            settings,
            ..
        } = self;
        let Some(session) = sessions.get(index) else {
            return invariant!("a session that is served is there");
        };
        let Some(link) = session.link else { return };
        out.put_last(link, session.best_effort);
        let Some(state) = links.get_mut(link) else { return invariant!("a session's link is there") };
        if let Some(before) = state.counted {
            let io = state.transport.of(&settings.costs.io).served(session.best_effort);
            admission.crowd_mut().remove(before, 1);
            admission.crowd_mut().add(io, 1);
            state.counted = Some(io);
        }
    }

    /// Where messages wait until the next broker of their way has them, rings hold as many.
    fn keep_until_handed_on(&mut self, now: Time, topics: &[TopicId], out: &mut impl Outputs) {
        for topic in topics {
            let entry = self.flow.store.table.topic(*topic);
            if entry.is_some_and(|topic| topic.planned().hop.handing_on > Span::ZERO) {
                self.fit_rings(now, *topic, out);
            }
        }
    }

    /// Topics get a subscriber. `Err`: one cannot have any more.
    fn join_topics(
        &mut self,
        index: SessionId,
        topics: &[TopicId],
        joined: &mut usize,
    ) -> Result<(), String> {
        let session = self.flow.store.sessions.get(index);
        let best_effort = session.is_some_and(|session| session.best_effort);
        for topic in topics {
            let Some(entry) = self.flow.store.table.topic(*topic) else {
                invariant!("a topic that was found by its name is there");
                continue;
            };
            let class = TrafficClass::of_topic(entry.name.as_str(), &entry.contract);
            let session = self.flow.store.sessions.get(index);
            if session.is_some_and(|session| !session.takes(entry.name.as_str(), class)) {
                continue;
            }
            if entry.subscribers.contains(&index) {
                if entry.is_best_effort(index) != best_effort {
                    self.change_subscribers(*topic, |topic| topic.serve_as_best_effort(index, best_effort));
                    *joined += 1;
                }
                self.plan_for_subscribers(*topic, index)?;
                continue;
            }
            let full = entry.confirms() && entry.subscribers.len() >= CONFIRMING_MAX;
            if full && entry.contract.confirm {
                return Err(format!("a confirmed topic has {CONFIRMING_MAX} subscribers, its limit"));
            }
            self.change_subscribers(*topic, |topic| {
                topic.subscribers.push(index);
                if best_effort {
                    topic.serve_as_best_effort(index, true);
                }
            });
            *joined += 1;
            if full {
                // Nobody is refused since somebody else would rather confirm.
                self.plan_for_those_left(*topic);
            }
            self.plan_for_subscribers(*topic, index)?;
        }
        Ok(())
    }

    /// Why one more subscriber of so many topics cannot be served.
    pub(crate) fn overload_of(&self, topics: usize) -> Option<String> {
        let checked =
            self.membership.pair.is_primary() && self.settings.schedulability && !self.settings.is_baseline();
        let overload = self.promises.admission.overload().filter(|_| checked)?;
        Some(format!(
            "not schedulable with one more subscriber of {topics} topics: {overload}; narrow the filter, or subscribe as best effort"
        ))
    }

    /// A subscription holds for every topic, or for none: its subscriber is answered.
    fn end_subscribing(&mut self, subscribing: &Subscribing, out: &mut impl Outputs) {
        let Subscribing { link, number, session: index, filter, needs, refusal, instead, .. } = subscribing;
        let Some(session) = self.flow.store.sessions.get(*index) else {
            return invariant!("a session that has subscribed is there");
        };
        // Its client may have gone meanwhile, or come back on another connection.
        let Some(link) = link.filter(|link| session.link == Some(*link)) else { return };
        if refusal.is_none()
            && let Some(partner) = self.membership.pair.backup()
        {
            let (incarnation, client) = (session.incarnation, &*session.client);
            let (needs, filter) = (*needs, filter.as_str());
            out.send(partner.link, &Frame::Session { incarnation, present: true, needs, client, filter });
        }
        let served = instead.as_deref().map(Needs::instead_of);
        let result = refusal.as_deref().map_or(Ok(served.as_deref().unwrap_or("")), Err);
        self.answer_subscription(link, *number, filter.as_str(), result, out);
    }

    /// A client no longer wants the topics of a filter.
    pub(crate) fn unsubscribe(&mut self, now: Time, from: LinkId, number: u32, out: &mut impl Outputs) {
        let Some(link) = self.flow.store.links.get(from) else {
            return invariant!("who sends a frame has a link");
        };
        // A client may say what it likes, and the primary may have ended its session, having seen a later life of it.
        let Some(index) = link.session() else { return };
        let Some(session) = self.flow.store.sessions.get_mut(index) else { return };
        let Some((filter, last)) = session.unbind(number) else { return };
        if last {
            self.tell_backup_of_end(index, filter.as_str(), out);
            self.remove_filter(now, index, filter, out);
        }
    }

    /// A client has greeted; if it was here before, its session goes on where it stopped.
    pub(crate) fn attach(&mut self, now: Time, from: LinkId, out: &mut impl Outputs) {
        let Some(link) = self.flow.store.links.get(from) else { return invariant!("who greets has a link") };
        let (name, incarnation) = (link.name.clone(), link.incarnation);
        if self.flow.store.sessions.find(&name).is_none() {
            return;
        }
        if let Ok(index) = self.take_session(now, &name, incarnation, Some(from), out) {
            self.offer_again(now, index, out);
        }
    }

    /// The session of a client, made if need be. A new life of the client begins with nothing.
    fn take_session(
        &mut self,
        now: Time,
        client: &str,
        incarnation: u64,
        link: Option<LinkId>,
        out: &mut impl Outputs,
    ) -> Result<SessionId, String> {
        let known = self.flow.store.sessions.find(client);
        let outlived = known.filter(|index| {
            self.flow.store.sessions.get(*index).is_some_and(|s| s.incarnation < incarnation)
        });
        if let Some(index) = outlived {
            self.remove_session(now, index, out);
        }
        let index = match self.flow.store.sessions.find(client) {
            Some(index) => index,
            None if self.flow.store.sessions.len() >= self.settings.limits.sessions => {
                return Err(format!(
                    "the broker serves {} subscribers, its limit: raise limits.sessions",
                    self.flow.store.sessions.len()
                ));
            }
            None => self.flow.store.sessions.insert(Session {
                client: client.into(),
                incarnation,
                link: None,
                filters: BTreeMap::new(),
                bytes: 0,
                needy: false,
                numbers: BTreeMap::new(),
                deferred: VecDeque::new(),
                dropped: 0,
                pace: Pace::new(now, self.settings.limits.subscriber_backlog_bytes),
                shared: false,
                best_effort: false,
                class: None,
                has_turn: false,
                resuming: false,
                began: now,
                detached_at: now,
                away: false,
            }),
        };
        if let Some(link) = link {
            self.connect(now, index, link);
            self.serve_in_turn(index, out);
        }
        Ok(index)
    }

    /// What is for a session goes to this link from now on.
    fn connect(&mut self, now: Time, index: SessionId, link: LinkId) {
        let Some(session) = self.flow.store.sessions.get_mut(index) else {
            return invariant!("a session that was found or made is there");
        };
        if session.link != Some(link) {
            session.pace.reconnected(now, self.settings.limits.subscriber_backlog_bytes, session.dropped);
        }
        session.link = Some(link);
        if let Some(state) = self.flow.store.links.sender(link) {
            state.party = Party::Client { session: Some(index) };
        }
    }

    /// Changes who subscribes a topic, and the load with it.
    pub(crate) fn change_subscribers(&mut self, topic: TopicId, change: impl FnOnce(&mut Topic)) {
        let Some(entry) = self.flow.store.table.topic(topic) else {
            return invariant!("a topic that gets or loses a subscriber is there");
        };
        let (plan, contract, before) = (entry.plan, entry.contract, entry.receivers());
        let admitted = entry
            .streams
            .iter()
            .filter(|s| self.flow.store.table.stream(**s).is_some_and(|s| s.record.admitted))
            .count();
        let Some(mut entry) = self.flow.store.table.topic_mut(topic) else {
            return invariant!("a topic that gets or loses a subscriber is there");
        };
        change(&mut entry);
        let after = entry.receivers();
        drop(entry);
        for _ in 0..admitted {
            self.promises.admission.uncount(&plan, &contract, before);
            self.promises.admission.count(&plan, &contract, after);
        }
    }

    fn remove_filter(&mut self, now: Time, index: SessionId, filter: TopicFilter, out: &mut impl Outputs) {
        self.forget_filter(index, &filter, out);
        self.begin(now, Task::Leave { session: index, filter, place: String::new() }, out);
    }

    /// A session does not have a filter any more; its topics do not know that yet.
    fn forget_filter(&mut self, index: SessionId, filter: &TopicFilter, out: &mut impl Outputs) {
        let Some(session) = self.flow.store.sessions.get_mut(index) else {
            return invariant!("a session whose filter goes is there");
        };
        session.forget(filter);
        session.sum_up();
        self.flow.store.sessions.unindex(index, filter);
        self.tell_interest(index, filter, false, out);
        self.serve_in_turn(index, out);
    }

    /// Takes a session out of a topic. Messages that only it has not confirmed are settled. Returns how many units of work that was.
    pub(crate) fn remove_subscriber(
        &mut self,
        topic: TopicId,
        session: SessionId,
        out: &mut impl Outputs,
    ) -> usize {
        let Some(entry) = self.flow.store.table.topic(topic) else {
            return invariant!("a topic that loses a subscriber is there", 0);
        };
        // A topic that its subscription had not reached yet does not have it.
        let Some(position) = entry.subscribers.iter().position(|other| *other == session) else { return 0 };
        let streams = entry.streams.clone();
        self.change_subscribers(topic, |topic| {
            topic.subscribers.remove(position);
            if topic.is_best_effort(session) {
                topic.serve_as_best_effort(session, false);
            }
        });
        self.plan_for_those_left(topic);
        let mut slots = 0;
        for index in streams {
            let Some(stream) = self.flow.store.table.stream_mut(index) else {
                invariant!("a topic's streams are there");
                continue;
            };
            for ticket in stream.ring.tickets() {
                let Some(stream) = self.flow.store.table.stream_mut(index) else {
                    invariant!("settling a message ends no stream");
                    continue;
                };
                let Some(slot) = stream.ring.slot_mut(ticket) else { continue };
                slots += 1;
                slot.unconfirmed = without_bit(slot.unconfirmed, position);
                if slot.is_complete() {
                    self.steps().settle(index, ticket, out);
                }
            }
        }
        1 + slots / SLOTS_PER_UNIT
    }

    /// Forgets a session.
    pub(crate) fn end_session(&mut self, now: Time, index: SessionId, out: &mut impl Outputs) {
        self.tell_backup_of_end(index, "", out);
        self.remove_session(now, index, out);
    }

    /// The same where the backup need not be told, since the client begins anew.
    fn remove_session(&mut self, now: Time, index: SessionId, out: &mut impl Outputs) {
        // The primary may have ended it already, having seen a later life of its client.
        let Some(session) = self.flow.store.sessions.remove(index) else { return };
        let filters = session.filters.into_keys().collect();
        self.begin(now, Task::End { session: index, filters, place: String::new() }, out);
    }

    fn tell_backup_of_end(&self, index: SessionId, filter: &str, out: &mut impl Outputs) {
        // As above.
        let Some(session) = self.flow.store.sessions.get(index) else { return };
        if let Some(partner) = self.membership.pair.backup() {
            let (incarnation, client) = (session.incarnation, &*session.client);
            let needs = Needs::NONE;
            out.send(partner.link, &Frame::Session { incarnation, present: false, needs, client, filter });
        }
    }

    /// The primary tells of a client's subscription; an empty filter means all of them.
    #[expect(clippy::too_many_arguments, reason = "the fields of one frame")]
    pub(crate) fn learn_session(
        &mut self,
        now: Time,
        from: LinkId,
        client: &str,
        incarnation: u64,
        (filter, needs): (&str, Needs),
        present: bool,
        out: &mut impl Outputs,
    ) {
        if self.membership.pair.primary_link() != Some(from) || Mutant::IgnoreSessions.is_on() {
            return;
        }
        let parsed: Option<TopicFilter> = filter.parse().ok();
        if present {
            if let (Ok(index), Some(filter)) =
                (self.take_session(now, client, incarnation, None, out), parsed)
            {
                match self.flow.store.sessions.get_mut(index) {
                    Some(session) => session.shared = true,
                    None => invariant!("a session that was found or made is there"),
                }
                // The primary has judged it; a limit that is lower here is a matter of configuration.
                let limit = filters_of(client, &self.settings.limits);
                let room = |session: &Session| match session.filters.get(&filter) {
                    None => session.lacks_room(&filter, limit).is_none(),
                    Some(wanted) => wanted.needs != needs,
                };
                if self.flow.store.sessions.get(index).is_some_and(room) {
                    let (subscribing, known) = self.enter(now, index, None, 0, (filter, needs), out);
                    self.begin_subscribing(now, subscribing, known, out);
                }
            }
            return;
        }
        // There was no room for it, or the partner says what it likes.
        let Some(index) = self.flow.store.sessions.find(client) else { return };
        let Some(session) = self.flow.store.sessions.get(index) else {
            return invariant!("a session that was found is there");
        };
        let here = parsed.as_ref().is_some_and(|filter| session.calls(filter)) && session.link.is_some();
        match parsed {
            Some(filter) if !here => self.remove_filter(now, index, filter, out),
            None if session.link.is_none() => self.end_session(now, index, out),
            // Its client is here, and says itself what it wants.
            _ => {}
        }
    }

    /// Confirmed topics: what a subscriber had not confirmed when its connection broke is sent again. Until all of it has been found,
    /// what is new waits behind it.
    fn offer_again(&mut self, now: Time, index: SessionId, out: &mut impl Outputs) {
        let topics: Vec<TopicId> = self.flow.store.table.confirmed().rev().collect();
        if topics.is_empty() || Mutant::OfferOnce.is_on() {
            return self.send_deferred(now, index, out);
        }
        let Some(session) = self.flow.store.sessions.get_mut(index) else {
            return invariant!("a session that was found or made is there");
        };
        session.resuming = true;
        self.begin(now, Task::Offer { session: index, topics }, out);
    }

    /// The same for one topic. Returns how many units of work that was.
    pub(crate) fn offer_topic_again(&mut self, now: Time, index: SessionId, topic: TopicId) -> usize {
        let Broker { flow: Flow { store: Store { table, sessions, .. }, .. }, settings, .. } = self;
        // Both may have ended since this was begun.
        let (Some(session), Some(topic)) = (sessions.get_mut(index), table.topic(topic)) else { return 1 };
        let Some(position) = topic.subscribers.iter().position(|other| *other == index) else { return 1 };
        let bit = 1_u64.checked_shl(position as u32).unwrap_or(0);
        let mut slots = 0;
        for stream in &topic.streams {
            let Some(entry) = table.stream(*stream) else {
                invariant!("a topic's streams are there");
                continue;
            };
            for ticket in entry.ring.tickets() {
                slots += 1;
                let missing = |slot: &&crate::store::ring::Slot| slot.unconfirmed & bit != 0;
                let waiting = Deferred { stream: *stream, ticket, since: now };
                // What has come since waits already, and is sent twice; its subscriber drops the second.
                if entry.ring.slot(ticket).filter(missing).is_some() {
                    session.defer(waiting, settings.limits.deferred_per_subscriber);
                }
            }
        }
        1 + slots / SLOTS_PER_UNIT
    }

    /// Everything has been found that a subscriber had not confirmed.
    pub(crate) fn end_offering(&mut self, now: Time, index: SessionId, out: &mut impl Outputs) {
        // It may have ended meanwhile.
        if let Some(session) = self.flow.store.sessions.get_mut(index) {
            session.resuming = false;
        }
        self.send_deferred(now, index, out);
    }
}

/// The set without the bit at `position`; the bits above move down, as the subscribers do.
fn without_bit(set: u64, position: usize) -> u64 {
    if position >= CONFIRMING_MAX {
        return set;
    }
    let below = (1_u64 << position) - 1;
    (set & below) | (set >> 1 & !below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_a_bit_moves_the_higher_ones_down() {
        assert_eq!(without_bit(0b1011, 1), 0b101);
        assert_eq!(without_bit(0b1011, 0), 0b101);
        assert_eq!(without_bit(u64::MAX, 63), u64::MAX >> 1);
        assert_eq!(without_bit(0b1, 64), 0b1);
    }
}
