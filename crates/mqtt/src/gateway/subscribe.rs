//! Subscriptions come and go.

use super::words::append_with_words;
use super::{Action, Gateway, Load, Rules};
use crate::packet::{Qos, Reason, RetainHandling, Subscribe, Unsubscribe, Wanted, suback, unsuback};
use crate::tree::{Entry, FilterError, parse_filter};
use contract::Time;
use wire::{Effects, LinkId, Order};

impl<R: Rules> Gateway<R> {
    pub(super) fn subscribe(
        &mut self,
        now: Time,
        link: LinkId,
        index: u32,
        subscribe: &Subscribe,
        load: &mut impl Load,
        net: &mut impl Effects,
    ) {
        let mut reasons = Vec::with_capacity(subscribe.filters.len());
        let (mut begun, mut why) = (Vec::new(), None);
        for wanted in &subscribe.filters {
            let entry = Entry { options: wanted.options, subscription: subscribe.subscription };
            match self.add_subscription(index, wanted, entry, load) {
                Ok(new) => {
                    reasons.push(match wanted.options.qos {
                        Qos::AtMostOnce => Reason::SUCCESS,
                        Qos::AtLeastOnce => Reason::GRANTED_QOS_1,
                        Qos::ExactlyOnce => Reason::GRANTED_QOS_2,
                    });
                    begun.push((wanted, entry, new));
                }
                Err((reason, text)) if reason == Reason::PROTOCOL_ERROR => {
                    return self.refuse(now, link, reason, &text, net);
                }
                Err((reason, text)) => {
                    reasons.push(reason);
                    why.get_or_insert(text);
                }
            }
        }
        let Some(session) = self.sessions.get(index) else { return };
        let (version, persistent) = (session.version, session.is_persistent());
        self.answer_filters(link, why.as_deref(), net, |out, words| {
            suback(out, version, subscribe.id, &reasons, words);
        });
        if persistent && !begun.is_empty() {
            self.record_session(index);
        }
        for (wanted, entry, new) in begun {
            let wants = match wanted.options.retain_handling {
                RetainHandling::Send => true,
                RetainHandling::SendIfNew => new,
                RetainHandling::Keep => false,
            };
            // Who shares a subscription is not sent what is retained: it would be nobody's turn.
            if wants && parse_filter(&wanted.filter).is_ok_and(|filter| filter.group.is_none()) {
                self.give_retained(now, index, &wanted.filter, &entry, net);
                self.give_sys(now, index, &wanted.filter, &entry, net);
            }
        }
    }

    /// Answers one packet about filters, in words for the first one that is refused.
    fn answer_filters(
        &self,
        link: LinkId,
        why: Option<&str>,
        net: &mut impl Effects,
        write: impl Fn(&mut Vec<u8>, Option<&str>),
    ) {
        let Some(client) = self.client(link) else { return };
        let words = why.and_then(|text| client.words(text));
        net.append(link, Order::Last, |out| append_with_words(out, client.packet_bytes_max, words, write));
    }

    /// Adds a subscription. Returns whether there was none of this filter; if it cannot be, why.
    fn add_subscription(
        &mut self,
        index: u32,
        wanted: &Wanted,
        entry: Entry,
        load: &mut impl Load,
    ) -> Result<bool, (Reason, String)> {
        let limits = self.settings.limits;
        let filter = parse_filter(&wanted.filter)
            .map_err(|error| (Reason::TOPIC_FILTER_INVALID, error.to_string()))?;
        let session = self.sessions.get(index).ok_or((Reason::UNSPECIFIED, String::new()))?;
        if !self.rules.allow(session.user.as_deref(), &session.client, Action::Subscribe, filter.filter) {
            self.stats.not_authorized += 1;
            let text = format!(
                "no rule lets this user subscribe to `{}`: `verge acl test USER TOPIC subscribe` says which there are",
                filter.filter
            );
            return Err((Reason::NOT_AUTHORIZED, text));
        }
        let known = self.subscriptions.get(&wanted.filter, index).is_some();
        let held = self.subscriptions.filters_of(index).take(limits.subscriptions_per_session).count();
        if !known && held >= limits.subscriptions_per_session {
            let text = format!(
                "the session has {held} subscriptions, which is the limit: unsubscribe from what is not needed, or raise \
                 mqtt.subscriptions_per_session"
            );
            return Err((Reason::QUOTA_EXCEEDED, text));
        }
        if !known {
            load.count(filter.filter, true).map_err(|text| (Reason::QUOTA_EXCEEDED, text))?;
        }
        self.subscriptions.insert(&wanted.filter, index, entry).map_err(|error| {
            let _ = if known { Ok(()) } else { load.count(filter.filter, false) };
            let reason = match error {
                FilterError::SharedNoLocal => Reason::PROTOCOL_ERROR,
                FilterError::Full(_) => Reason::QUOTA_EXCEEDED,
                _ => Reason::TOPIC_FILTER_INVALID,
            };
            (reason, error.to_string())
        })?;
        Ok(!known)
    }

    pub(super) fn unsubscribe(
        &mut self,
        link: LinkId,
        index: u32,
        unsubscribe: &Unsubscribe,
        load: &mut impl Load,
        net: &mut impl Effects,
    ) {
        let mut reasons = Vec::with_capacity(unsubscribe.filters.len());
        let mut why = None;
        for text in &unsubscribe.filters {
            if let Some(session) = self.sessions.get_mut(index) {
                session.walks.retain(|walk| walk.filter != *text);
            }
            reasons.push(match parse_filter(text) {
                Err(error) => {
                    why.get_or_insert_with(|| error.to_string());
                    Reason::TOPIC_FILTER_INVALID
                }
                Ok(filter) if self.subscriptions.remove(text, index) => {
                    let _ = load.count(filter.filter, false);
                    Reason::SUCCESS
                }
                Ok(_) => Reason::NO_SUBSCRIPTION_EXISTED,
            });
        }
        let Some(session) = self.sessions.get(index) else { return };
        let (version, persistent) = (session.version, session.is_persistent());
        if persistent {
            self.record_session(index);
        }
        self.answer_filters(link, why.as_deref(), net, |out, words| {
            unsuback(out, version, unsubscribe.id, &reasons, words);
        });
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
