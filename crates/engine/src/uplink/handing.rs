//! When a message counts as handed on: when the next one has it, and not before. Only then is whoever sent it told, and forgets it.
//!
//! The idea: whatever is written to a broker before a poll has been looked at when that poll is answered. So a message waits for the answer to
//! the next poll; where the connection or the primary changes before, it has been sent again from what is retained, and waits for the next
//! poll there.
//!
//! Source: the decision that a message is dispatched towards a next hop when that has it; `docs/decisions/0039`.

use super::{Uplink, UplinkReporter, Which};
use contract::Mutant;
use endpoint::Confirmation;
use wire::Effects;

/// Messages that may wait for one end. What is above is confirmed although that may not have it yet.
const AWAITED_MAX: usize = 65_536;

impl<R: UplinkReporter> Uplink<R> {
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
        confirmation: Option<Confirmation>,
        net: &mut N,
    ) {
        if Mutant::ConfirmOnArrival.is_on() {
            return self.confirm_now(from, confirmation, net);
        }
        let (Some(confirmation), Some(end)) = (confirmation, self.end(to)) else { return };
        let sign = end.endpoint.next_sign();
        end.awaited.push_back((sign, from, confirmation));
        if end.awaited.len() > AWAITED_MAX
            && let Some((_, from, oldest)) = end.awaited.pop_front()
        {
            self.confirm_now(from, Some(oldest), net);
        }
    }

    /// Confirms what an end has by now.
    pub(super) fn confirm_what_is_had<N: Effects>(&mut self, to: Which, net: &mut N) {
        while let Some(end) = self.end(to)
            && let Some((sign, from, confirmation)) = end.awaited.front().copied()
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
                        end.awaited.iter_mut().for_each(|(sign, ..)| *sign = anew);
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
            Which::Tap => self.outward.router_of(stream).map(Which::Router),
            Which::Router(router) => self.inward.is_published(router, stream).then_some(Which::Home),
            Which::Home => None,
        };
        match to {
            Some(to) => self.confirm_when_had(to, from, Some(confirmation), net),
            None => self.confirm_now(from, Some(confirmation), net),
        }
    }
}
