//! Subscriptions come and go.

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
        let mut begun = Vec::new();
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
                Err(reason) if reason == Reason::PROTOCOL_ERROR => {
                    let text = "a shared subscription cannot be no-local";
                    return self.refuse(now, link, reason, text, net);
                }
                Err(reason) => reasons.push(reason),
            }
        }
        let Some(session) = self.sessions.get(index) else { return };
        let (version, persistent) = (session.version, session.is_persistent());
        net.append(link, Order::Last, |out| suback(out, version, subscribe.id, &reasons));
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

    /// Adds a subscription. Returns whether there was none of this filter.
    fn add_subscription(
        &mut self,
        index: u32,
        wanted: &Wanted,
        entry: Entry,
        load: &mut impl Load,
    ) -> Result<bool, Reason> {
        let limits = self.settings.limits;
        let filter = parse_filter(&wanted.filter).map_err(|_| Reason::TOPIC_FILTER_INVALID)?;
        let session = self.sessions.get(index).ok_or(Reason::UNSPECIFIED)?;
        if !self.rules.allow(session.user.as_deref(), &session.client, Action::Subscribe, filter.filter) {
            self.stats.not_authorized += 1;
            return Err(Reason::NOT_AUTHORIZED);
        }
        let known = self.subscriptions.get(&wanted.filter, index).is_some();
        let held = self.subscriptions.filters_of(index).take(limits.subscriptions_per_session).count();
        if !known && held >= limits.subscriptions_per_session {
            return Err(Reason::QUOTA_EXCEEDED);
        }
        if !known {
            load.count(filter.filter, true).map_err(|_| Reason::QUOTA_EXCEEDED)?;
        }
        self.subscriptions.insert(&wanted.filter, index, entry).map_err(|error| {
            let _ = if known { Ok(()) } else { load.count(filter.filter, false) };
            match error {
                FilterError::SharedNoLocal => Reason::PROTOCOL_ERROR,
                FilterError::Full(_) => Reason::QUOTA_EXCEEDED,
                _ => Reason::TOPIC_FILTER_INVALID,
            }
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
        for text in &unsubscribe.filters {
            if let Some(session) = self.sessions.get_mut(index) {
                session.walks.retain(|walk| walk.filter != *text);
            }
            reasons.push(match parse_filter(text) {
                Err(_) => Reason::TOPIC_FILTER_INVALID,
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
        net.append(link, Order::Last, |out| unsuback(out, version, unsubscribe.id, &reasons));
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
