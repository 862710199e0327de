//! When a message counts as handed on: when the next one has it, and not before. Only then is whoever sent it told, and forgets it.
//!
//! The idea: whatever is written to a broker before a poll has been looked at when that poll is answered. So a message waits for the answer to
//! the next poll; where the connection or the primary changes before, it has been sent again from what is retained, and waits for the next
//! poll there.
//!
//! Source: the decision that a message is dispatched towards a next hop when that has it; `docs/decisions/0039`.

use super::ends::{Arrived, Awaited};
use super::{Uplink, UplinkReporter, Which};
use contract::Mutant;
use endpoint::Confirmation;
use wire::Effects;

/// Messages that may wait for one end. What is above is confirmed although that may not have it yet.
const AWAITED_MAX: usize = 65_536;

impl<R: UplinkReporter> Uplink<R> {
    /// Gives a message to ends under a publication at each, and confirms it where it came from when the first that takes it has it; at once where none
    /// does. Returns whether it goes anywhere.
    pub(super) fn hand_over<N: Effects>(
        &mut self,
        message: &Arrived,
        payload: &[u8],
        from: Which,
        to: impl Iterator<Item = (Which, u32)>,
        net: &mut N,
    ) -> bool {
        let (mut counts, mut also) = (None, None);
        for (to, publication) in to {
            if self.give(message, payload, (from, to, publication), net) {
                *(if counts.is_none() { &mut counts } else { &mut also }) = Some(to);
            }
        }
        match counts {
            Some(counts) => self.confirm_when_had(counts, from, (message.confirmation, also), net),
            None => self.confirm_now(from, message.confirmation, net),
        }
        counts.is_some()
    }

    /// Gives a message to an end, and counts it. Returns whether the end takes it.
    fn give<N: Effects>(
        &mut self,
        message: &Arrived,
        payload: &[u8],
        (from, to, publication): (Which, Which, u32),
        net: &mut N,
    ) -> bool {
        let sent = self.with_end(to, net, |end, out| {
            end.endpoint.publish_as(publication, &message.passed(payload), out)
        });
        let traffic = match (from, to) {
            (Which::Router(router), _) => self.routers.get_mut(router).map(|router| &mut router.came),
            (_, Which::Router(router)) => self.routers.get_mut(router).map(|router| &mut router.sent),
            _ => None,
        };
        if let Some(traffic) = traffic {
            traffic.count(sent.as_ref(), payload.len());
        }
        matches!(sent, Some(Ok(())))
    }

    /// Confirms a message where it came from, at once: it goes nowhere.
    pub(super) fn confirm_now<N: Effects>(
        &mut self,
        from: Which,
        confirmation: Option<Confirmation>,
        net: &mut N,
    ) {
        if let Some(confirmation) = confirmation {
            self.with_end(from, net, |end, out| end.endpoint.confirm(confirmation, out));
        }
    }

    /// A message has been given to an end, and is confirmed where it came from when that has it.
    pub(super) fn confirm_when_had<N: Effects>(
        &mut self,
        to: Which,
        from: Which,
        (confirmation, also): (Option<Confirmation>, Option<Which>),
        net: &mut N,
    ) {
        if Mutant::ConfirmOnArrival.is_on() {
            return self.confirm_now(from, confirmation, net);
        }
        let (Some(confirmation), Some(end)) = (confirmation, self.end(to)) else { return };
        let sign = end.endpoint.next_sign();
        end.awaited.push_back(Awaited { sign, from, confirmation, also });
        if end.awaited.len() > AWAITED_MAX
            && let Some(oldest) = end.awaited.pop_front()
        {
            self.confirm_now(oldest.from, Some(oldest.confirmation), net);
        }
    }

    /// A router is away: what another one has been given too is confirmed when that has it.
    pub(super) fn await_elsewhere<N: Effects>(&mut self, router: usize, net: &mut N) {
        let Some(gone) = self.routers.get_mut(router) else { return };
        let awaited = std::mem::take(&mut gone.end.awaited);
        let is_reached = |also: &Which| match also {
            Which::Router(other) => self.routers.get(*other).is_some_and(|other| other.reached),
            Which::Home | Which::Tap => false,
        };
        let (moves, stays): (Vec<Awaited>, Vec<Awaited>) =
            awaited.into_iter().partition(|awaited| awaited.also.as_ref().is_some_and(is_reached));
        if let Some(gone) = self.routers.get_mut(router) {
            gone.end.awaited = stays.into();
        }
        for Awaited { from, confirmation, also, .. } in moves {
            if let Some(also) = also {
                self.confirm_when_had(also, from, (Some(confirmation), None), net);
            }
        }
    }

    /// Confirms what an end has by now.
    pub(super) fn confirm_what_is_had<N: Effects>(&mut self, to: Which, net: &mut N) {
        while let Some(end) = self.end(to)
            && let Some(Awaited { sign, from, confirmation, .. }) = end.awaited.front().copied()
        {
            match sign.and_then(|sign| end.endpoint.has_answered(sign)) {
                Some(false) => return,
                Some(true) => {
                    end.awaited.pop_front();
                    self.confirm_now(from, Some(confirmation), net);
                }
                None => {
                    let anew = end.endpoint.next_sign();
                    if anew.is_some() {
                        end.awaited.iter_mut().for_each(|awaited| awaited.sign = anew);
                    }
                    return;
                }
            }
        }
    }

    /// A message came again: it is confirmed when the end has it that has been given it.
    pub(super) fn confirm_again<N: Effects>(
        &mut self,
        from: Which,
        stream: u32,
        confirmation: Confirmation,
        net: &mut N,
    ) {
        let to = match from {
            Which::Tap if self.opening.confirm_by(stream, confirmation) => return,
            Which::Tap => {
                let paths = self.in_order(self.outward.paths_of(stream));
                paths.iter().next().map(|(router, _)| Which::Router(router))
            }
            Which::Router(router) => self.inward.is_published(router, stream).then_some(Which::Home),
            Which::Home => None,
        };
        match to {
            Some(to) => self.confirm_when_had(to, from, (Some(confirmation), None), net),
            None => self.confirm_now(from, Some(confirmation), net),
        }
    }
}
