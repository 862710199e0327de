//! For whoever decides, in front of a broker, who may do what: how the broker proves itself to its partner, and how it says no.

use crate::broker::Broker;
use crate::commands::register::Denial;
use crate::outputs::Outputs;
use crate::store::links::Party;
use crate::watch::events::Event;
use contract::Time;
use wire::{Farewell, FarewellReason, Frame, LinkId, Register};

impl Broker {
    /// What this broker's greetings to its partner carry, so that it is known there. Clients are not told.
    pub fn prove_with(&mut self, secret: &str) {
        self.membership.secret = secret.into();
    }

    /// Closes a link whose greeting the broker has not seen. `client` is what it calls itself.
    pub fn turn_away(
        &mut self,
        link: LinkId,
        client: &str,
        reason: FarewellReason,
        text: &str,
        out: &mut impl Outputs,
    ) {
        // What came before a connection ended may be read after it; so it is with those below.
        let Some(state) = self.flow.store.links.get_mut(link) else { return };
        if !std::mem::replace(&mut state.closing, true) {
            out.report(&Event::Expelled { client, reason: text });
            out.close(link, &Farewell { reason, text });
        }
    }

    /// Closes a link whose greeting the broker has not seen, and does not tell the admin.
    pub fn send_away(&mut self, link: LinkId, reason: FarewellReason, text: &str, out: &mut impl Outputs) {
        if let Some(state) = self.flow.store.links.get_mut(link)
            && !std::mem::replace(&mut state.closing, true)
        {
            out.close(link, &Farewell { reason, text });
        }
    }

    /// Forgets a link whose greeting it has not seen: it is somebody else's from now on.
    pub fn let_go(&mut self, link: LinkId) {
        self.flow.store.links.remove(link);
    }

    /// Refuses a registration for a reason that the broker does not know of.
    pub fn refuse_stream(
        &mut self,
        from: LinkId,
        register: &Register<'_>,
        text: String,
        out: &mut impl Outputs,
    ) {
        self.deny(from, register, &Denial::from(text), out);
    }

    /// Refuses a subscription for a reason that the broker does not know of.
    pub fn refuse_filter(
        &mut self,
        from: LinkId,
        number: u32,
        filter: &str,
        text: &str,
        out: &mut impl Outputs,
    ) {
        self.answer_subscription(from, number, filter, Err(text), out);
    }

    /// Refuses a handover for a reason that the broker does not know of.
    pub fn refuse_handover(&mut self, from: LinkId, text: &str, out: &mut impl Outputs) {
        out.send(from, &Frame::HandoverReply { done: false, epoch: self.membership.pair.reign.epoch, text });
    }

    /// A client's frame has come that the broker does not get. Returns whether the link is open, so that it can be answered.
    pub fn hear(&mut self, now: Time, from: LinkId) -> bool {
        let Some(link) = self.flow.store.links.get_mut(from).filter(|link| !link.closing) else {
            return false;
        };
        link.heard = now;
        true
    }

    /// Whether this link leads to the other broker of the pair, as far as is known.
    pub fn is_partners(&self, link: LinkId) -> bool {
        self.flow.store.links.get(link).is_some_and(|link| link.dialed || matches!(link.party, Party::Peer))
    }

    /// The link on which the client of this name is, if it is there.
    pub fn client_link(&self, name: &str) -> Option<LinkId> {
        self.flow.store.links.find(name)
    }

    /// What is kept for the client of this name, whether it is there or not.
    pub fn filters_of(&self, name: &str) -> impl Iterator<Item = &str> {
        let session =
            self.flow.store.sessions.find(name).and_then(|index| self.flow.store.sessions.get(index));
        session.into_iter().flat_map(|session| session.filters.keys().map(contract::TopicFilter::as_str))
    }
}
