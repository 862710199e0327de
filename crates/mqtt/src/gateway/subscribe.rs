//! Subscriptions come and go.

use super::asking::asked_needs;
use super::words::append_with_words;
use super::{ANSWER_TOO_LARGE, Action, Admits, Gateway, Rules, Step, Trouble, Wish};
use crate::ids::SessionId;
use crate::packet::{Qos, Reason, Subscribe, Unsubscribe, Wanted, suback, unsuback};
use crate::tree::{Entry, FilterError, is_shared, parse_filter};
use contract::{Needs, Time, invariant};
use wire::{Effects, LinkId, Order};

/// How far a packet about filters has come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asking {
    reasons: Vec<Reason>,
    /// Places of filters that have been subscribed, and whether each is new.
    begun: Vec<(usize, bool)>,
    /// In words, why the first one was refused, or is served as best effort.
    why: Option<String>,
    /// Why the next one cannot be served otherwise than as best effort.
    instead: Option<String>,
}

/// Words that wait for the admin, of subscriptions that are served as best effort.
const INSTEAD_MAX: usize = 64;
/// Subscriptions that are written in one unit of work, where a session is recorded.
const RECORDED_PER_UNIT: usize = 32;

impl<R: Rules> Gateway<R> {
    /// A client subscribes. Where its filters are many, or one means very many topics, the packet is not taken yet and goes on where it
    /// was when it comes again.
    pub(super) fn subscribe<'a>(
        &mut self,
        now: Time,
        link: LinkId,
        index: SessionId,
        subscribe: &Subscribe,
        load: &mut impl Admits,
        net: &mut impl Effects,
    ) -> Step<'a> {
        let mut asking = self.resume_asking(link);
        let needs = asked_needs(&subscribe.asks);
        let bridges = self.client(link).is_some_and(|client| client.bridge && !client.version.is_5());
        let entry_of = |wanted: &Wanted| {
            let mut options = wanted.options;
            if bridges && parse_filter(&wanted.filter).is_ok_and(|filter| filter.group.is_none()) {
                // It would bring back what it has brought, and the other broker would not know what is retained.
                (options.no_local, options.retain_as_published) = (true, true);
            }
            Entry { options, subscription: subscribe.subscription }
        };
        while let Some(wanted) = subscribe.filters.get(asking.reasons.len()) {
            if !load.has_room() {
                return self.ask_later(link, asking);
            }
            let entry = entry_of(wanted);
            let added = match &needs {
                Ok(needs) => self.add_subscription(link, index, wanted, (entry, *needs), &mut asking, load),
                Err(text) => Some(Err((Reason::IMPLEMENTATION_SPECIFIC, String::clone(text)))),
            };
            match added {
                None => return self.ask_later(link, asking),
                Some(Ok(new)) => {
                    asking.begun.push((asking.reasons.len(), new));
                    asking.reasons.push(granted(wanted.options.qos));
                }
                Some(Err((reason, text))) if reason == Reason::PROTOCOL_ERROR => {
                    self.refuse(now, link, reason, &text, net);
                    return Step::Done;
                }
                Some(Err((reason, text))) => {
                    asking.reasons.push(reason);
                    self.tell_refused_filter(index, &wanted.filter, &text);
                    asking.why.get_or_insert(text);
                }
            }
        }
        let Asking { reasons, begun, why, .. } = *asking;
        let Some(session) = self.sessions.get(index) else {
            return invariant!("who subscribes has a session", Step::Done);
        };
        let (version, persistent) = (session.version, session.is_persistent());
        self.serve_in_turn(link, index, net);
        self.answer_filters(now, link, why.as_deref(), net, |out, words| {
            suback(out, version, subscribe.id, &reasons, words);
        });
        // Who does not take the answer has been hung up on, and a session that ends with its connection is gone.
        if self.sessions.get(index).is_none() {
            return Step::Done;
        }
        let changed = persistent && !begun.is_empty();
        for (at, new) in begun {
            let Some(wanted) = subscribe.filters.get(at) else {
                invariant!("a packet that comes again is the same");
                continue;
            };
            let entry = entry_of(wanted);
            let wants = wanted.options.retain_handling.wants(new);
            // Who shares a subscription is not sent what is retained: it would be nobody's turn.
            if wants && parse_filter(&wanted.filter).is_ok_and(|filter| filter.group.is_none()) {
                self.give_retained(index, &wanted.filter, &entry);
                self.give_sys(now, index, &wanted.filter, &entry, net);
            }
        }
        self.walk_retained(now, index, net);
        if changed {
            self.record_session(index);
            load.spend(self.subscriptions.held(index) / RECORDED_PER_UNIT);
        }
        Step::Done
    }

    /// Tells the admin of a filter that was refused.
    fn tell_refused_filter(&mut self, index: SessionId, filter: &str, reason: &str) {
        let Some(session) = self.sessions.get(index) else {
            return invariant!("who subscribes has a session");
        };
        let (client, filter, reason) = (session.client.clone(), filter.into(), reason.to_owned());
        self.trouble(Trouble::RefusedFilter { client, filter, reason });
    }

    /// A session has a subscription more, or less.
    pub(super) fn count_share(&mut self, index: SessionId, text: &str, more: bool) {
        if !is_shared(text) {
            return;
        }
        let Some(session) = self.sessions.get_mut(index) else {
            return invariant!("who subscribes has a session");
        };
        session.shares = if more { session.shares + 1 } else { session.shares.saturating_sub(1) };
    }

    /// How far the packet has come that a client sends, or sends again.
    fn resume_asking(&mut self, link: LinkId) -> Box<Asking> {
        self.client_mut(link).and_then(|client| client.asking.take()).unwrap_or_default()
    }

    /// The packet comes again and goes on where it was.
    fn ask_later<'a>(&mut self, link: LinkId, asking: Box<Asking>) -> Step<'a> {
        match self.client_mut(link) {
            Some(client) => client.asking = Some(asking),
            None => invariant!("who subscribes is connected"),
        }
        Step::Later
    }

    /// Answers one packet about filters, in words for the first one of which there is something to say.
    fn answer_filters(
        &mut self,
        now: Time,
        link: LinkId,
        why: Option<&str>,
        net: &mut impl Effects,
        write: impl Fn(&mut Vec<u8>, Option<&str>),
    ) {
        let Some(client) = self.client(link) else { return invariant!("who subscribes is connected") };
        let words = why.and_then(|text| client.words(text));
        let mut fits = true;
        net.append(link, Order::Last, |out| {
            fits = append_with_words(out, client.packet_bytes_max, words, write);
        });
        if !fits {
            self.refuse(now, link, Reason::PACKET_TOO_LARGE, ANSWER_TOO_LARGE, net);
        }
    }

    /// Adds a subscription. Returns whether there was none of this filter; if it cannot be, why. `None`: that is not known yet.
    fn add_subscription(
        &mut self,
        link: LinkId,
        index: SessionId,
        wanted: &Wanted,
        (entry, asked): (Entry, Needs),
        asking: &mut Asking,
        load: &mut impl Admits,
    ) -> Option<Result<bool, (Reason, String)>> {
        // All of a session is served as best effort, or nothing.
        let Some(session) = self.sessions.get(index) else {
            return invariant!("who subscribes has a session", None);
        };
        let (last, client) = (session.is_best_effort(), session.client.clone());
        let may_instead = load.serves_instead() && asked.is_none();
        let instead = may_instead && (last || asking.instead.is_some());
        let needs = if instead { Needs::BEST_EFFORT } else { asked };
        let known = match self.check_subscription(index, wanted, needs) {
            Ok(known) => known,
            Err(refused) => {
                self.stats.not_authorized += u64::from(refused.0 == Reason::NOT_AUTHORIZED);
                return Some(Err(refused));
            }
        };
        let wish = Wish { client, text: wanted.filter.clone(), needs };
        match if known { Some(Ok(())) } else { load.comes(link, &wish) } {
            None => return None,
            Some(Ok(())) => {}
            Some(Err(text)) if may_instead && !instead && self.subscriptions.held(index) == 0 => {
                asking.instead = Some(text);
                self.count_served(link, true);
                load.shares(self.carried());
                return self.add_subscription(link, index, wanted, (entry, asked), asking, load);
            }
            Some(Err(text)) => return Some(Err((Reason::QUOTA_EXCEEDED, text))),
        }
        let inserted = self.subscriptions.insert(&wanted.filter, index, entry);
        if inserted == Ok(false) {
            self.count_share(index, &wanted.filter, true);
        }
        if inserted.is_ok() && !needs.is_none() {
            match self.sessions.get_mut(index) {
                Some(session) => session.needs.insert(wanted.filter.clone(), needs),
                None => invariant!("who subscribes has a session"),
            }
        }
        if instead && inserted.is_ok() {
            let reason =
                asking.instead.take().unwrap_or_else(|| "the client is served so already".to_owned());
            let words = Needs::instead_of(&reason);
            if self.instead.len() < INSTEAD_MAX {
                self.instead.push((wish.clone(), words.clone()));
            }
            asking.why.get_or_insert(words);
        }
        Some(inserted.map(|_| !known).map_err(|error| {
            if !known {
                load.goes(&wish);
            }
            let reason = match error {
                FilterError::SharedNoLocal => Reason::PROTOCOL_ERROR,
                FilterError::Full(_) | FilterError::NoMemory { .. } => Reason::QUOTA_EXCEEDED,
                _ => Reason::TOPIC_FILTER_INVALID,
            };
            (reason, error.to_string())
        }))
    }

    /// Whether a session may have a subscription, and has had one of the same text before.
    fn check_subscription(
        &self,
        index: SessionId,
        wanted: &Wanted,
        needs: Needs,
    ) -> Result<bool, (Reason, String)> {
        let limits = &self.settings.limits;
        let filter = parse_filter(&wanted.filter)
            .map_err(|error| (Reason::TOPIC_FILTER_INVALID, error.to_string()))?;
        if let Some(text) = limits.too_long(&wanted.filter) {
            return Err((Reason::TOPIC_FILTER_INVALID, text.to_owned()));
        }
        let Some(session) = self.sessions.get(index) else {
            return invariant!("who subscribes has a session", Err((Reason::UNSPECIFIED, String::new())));
        };
        if !self.rules.allow(session.user.as_deref(), &session.client, Action::Subscribe, filter.filter) {
            let text = self.rules.why_not(
                session.user.as_deref(),
                &session.client,
                Action::Subscribe,
                filter.filter,
            );
            return Err((Reason::NOT_AUTHORIZED, text));
        }
        let known = self.subscriptions.get(&wanted.filter, index).is_some();
        if known && session.wish(&wanted.filter).needs != needs {
            let text = "the session has this filter already, and needs something else there: unsubscribe from it first";
            return Err((Reason::IMPLEMENTATION_SPECIFIC, text.to_owned()));
        }
        let held = self.subscriptions.held(index);
        if held > 0 && !known && session.is_best_effort() != needs.best_effort {
            let text = "all of a session is served as best effort, or nothing of it: use a client of its own for this subscription";
            return Err((Reason::IMPLEMENTATION_SPECIFIC, text.to_owned()));
        }
        if !known && held >= limits.subscriptions_per_session {
            let text = format!(
                "the session has {held} subscriptions, which is the limit: unsubscribe from what is not needed, or raise \
                 mqtt.subscriptions_per_session"
            );
            return Err((Reason::QUOTA_EXCEEDED, text));
        }
        let most = contract::filters_bytes_max(limits.subscriptions_per_session);
        let needed = self.subscriptions.bytes_of(index) + contract::filter_bytes(&wanted.filter);
        if !known && needed > most {
            let text = format!(
                "the session's filters would take {needed} bytes of memory, and mqtt.subscriptions_per_session allows {most}: use shorter \
                 ones or ones with fewer levels, or raise it"
            );
            return Err((Reason::QUOTA_EXCEEDED, text));
        }
        Ok(known)
    }

    /// A client takes subscriptions back; the packet may have to come again, as with [`Gateway::subscribe`].
    pub(super) fn unsubscribe<'a>(
        &mut self,
        now: Time,
        link: LinkId,
        index: SessionId,
        unsubscribe: &Unsubscribe,
        load: &mut impl Admits,
        net: &mut impl Effects,
    ) -> Step<'a> {
        let mut asking = self.resume_asking(link);
        while let Some(text) = unsubscribe.filters.get(asking.reasons.len()) {
            if !load.has_room() {
                return self.ask_later(link, asking);
            }
            match self.sessions.get_mut(index) {
                Some(session) => session.walks.retain(|walk| walk.filter != *text),
                None => invariant!("who unsubscribes has a session"),
            }
            asking.reasons.push(match parse_filter(text) {
                Err(error) => {
                    asking.why.get_or_insert_with(|| error.to_string());
                    Reason::TOPIC_FILTER_INVALID
                }
                Ok(_) if self.subscriptions.remove(text, index) => {
                    self.count_share(index, text, false);
                    match self.sessions.get_mut(index) {
                        Some(session) => {
                            load.goes(&session.wish(text));
                            session.needs.remove(text);
                        }
                        None => invariant!("who unsubscribes has a session"),
                    }
                    Reason::SUCCESS
                }
                Ok(_) => Reason::NO_SUBSCRIPTION_EXISTED,
            });
        }
        let Some(session) = self.sessions.get(index) else {
            return invariant!("who unsubscribes has a session", Step::Done);
        };
        let (version, persistent) = (session.version, session.is_persistent());
        self.serve_in_turn(link, index, net);
        if persistent {
            self.record_session(index);
            load.spend(self.subscriptions.held(index) / RECORDED_PER_UNIT);
        }
        self.answer_filters(now, link, asking.why.as_deref(), net, |out, words| {
            unsuback(out, version, unsubscribe.id, &asking.reasons, words);
        });
        Step::Done
    }

    /// Who wants a topic.
    pub(crate) fn find(&self, topic: &str, matches: &mut crate::tree::Matches) {
        self.subscriptions.matches(topic, matches);
    }

    /// How many subscribers a topic has.
    pub fn receivers(&mut self, topic: &str) -> u32 {
        let mut matches = std::mem::take(&mut self.scratch.matches);
        self.subscriptions.matches(topic, &mut matches);
        let receivers = matches.rows().len() + matches.groups().len();
        self.scratch.matches = matches;
        receivers as u32
    }
}

/// What is said of a subscription that is taken.
fn granted(qos: Qos) -> Reason {
    match qos {
        Qos::AtMostOnce => Reason::SUCCESS,
        Qos::AtLeastOnce => Reason::GRANTED_QOS_1,
        Qos::ExactlyOnce => Reason::GRANTED_QOS_2,
    }
}
