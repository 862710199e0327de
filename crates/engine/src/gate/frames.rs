//! The frames of guarded connections, on their way to the broker.

use super::{Entry, Gate, Guarding, Guest, Refusal, UNKNOWN_BYTES_MAX, named};
use crate::broker_node::BrokerNode;
use crate::commands::{Command, is_command};
use crate::processing::Operators;
use crate::reporter::Reporter;
use access::{Access, Action};
use contract::Time;
use mqtt::Rules;
use std::sync::Arc;
use wire::{Carry, Decoded, Effects, FarewellReason, Frame, LinkId, Register, decode};

/// What `verge acl test` and rules call what is asked of a broker.
const STATUS: &str = "status";
const HANDOVER: &str = "handover";
const CLIENTS: &str = "clients";
const SITES: &str = "sites";

/// What becomes of a frame.
enum Pass {
    /// The broker gets it.
    On,
    /// It has been answered.
    Answered,
    /// It stays where it is.
    Stays,
    /// The connection ends.
    Ends,
}

impl<R: Reporter, O: Operators, G: Rules> BrokerNode<R, O, G> {
    /// The same broker, behind a gate. It must have just started.
    #[must_use]
    pub fn with_gate(mut self, by: Guarding) -> BrokerNode<R, O, G> {
        let gate = Gate::new(by);
        self.broker.prove_with(gate.pair_secret().unwrap_or(""));
        self.gate = Some(Box::new(gate));
        self
    }

    /// Takes other rules. Clients whose users are gone are closed; the others keep what they have, and are held to the new
    /// rules with the next thing that they ask for. Without a gate that has rules, nothing happens.
    pub fn change_rules(&mut self, now: Time, access: Arc<Access>, net: &mut impl Effects) {
        let Some(gate) = self.gate.as_deref_mut().filter(|gate| gate.has_rules()) else { return };
        for (link, identity) in gate.change(access) {
            let text = format!("the user `{}` has been taken out of the user file", identity.user);
            self.turn_away(link, &identity.client, FarewellReason::Denied, &text, net);
        }
        self.settle(now, net);
    }

    /// Closes a connection that may not come in, or stay.
    pub(crate) fn turn_away(
        &mut self,
        link: LinkId,
        client: &str,
        reason: FarewellReason,
        text: &str,
        net: &mut impl Effects,
    ) {
        if let Some(gate) = &mut self.gate {
            gate.give_up(link);
        }
        let (broker, mut wired) = self.wired(net);
        broker.turn_away(link, client, reason, text, &mut wired);
    }

    /// Bytes of a connection that is guarded. Returns how many were used.
    pub(crate) fn handle_guarded_bytes(
        &mut self,
        now: Time,
        link: LinkId,
        bytes: &[u8],
        net: &mut impl Effects,
    ) -> usize {
        let mut used = 0;
        while let Some(rest) = bytes.get(used..).filter(|rest| !rest.is_empty()) {
            match self.gate.as_deref().and_then(|gate| gate.guest(link)) {
                Some(Guest::Waiting { .. }) if rest.len() <= UNKNOWN_BYTES_MAX => break,
                Some(Guest::Waiting { .. }) => {
                    let text = "it sent too much before it was known";
                    self.turn_away(link, "", FarewellReason::Misbehaved, text, net);
                    return bytes.len();
                }
                Some(Guest::Gone) => return bytes.len(),
                _ => {}
            }
            match decode(rest) {
                Ok(Decoded::Frame(frame, _)) if self.has_to_wait(link, &frame) => {
                    self.delay(link, net);
                    break;
                }
                Ok(Decoded::Frame(frame, length)) => match self.pass(now, link, &frame, net) {
                    Pass::On => {
                        let command = is_command(&frame);
                        let (broker, mut wired) = self.wired(net);
                        broker.handle_frame(now, link, frame, &mut wired);
                        used += length;
                        if command {
                            self.commands.spend(self.broker.take_spent() + 1);
                        }
                    }
                    Pass::Answered => used += length,
                    Pass::Stays => {}
                    Pass::Ends => return bytes.len(),
                },
                Ok(Decoded::Incomplete(whole)) => {
                    if whole <= UNKNOWN_BYTES_MAX || !self.is_fresh(link) {
                        break;
                    }
                    // Nothing is kept for whoever has not said who it is.
                    let text = "a connection begins with a greeting";
                    self.turn_away(link, "", FarewellReason::Misbehaved, text, net);
                    return bytes.len();
                }
                Err(error) => {
                    let (broker, mut wired) = self.wired(net);
                    broker.handle_garbage(link, &error, &mut wired);
                    return bytes.len();
                }
            }
        }
        used
    }

    fn is_fresh(&self, link: LinkId) -> bool {
        let guest = self.gate.as_deref().and_then(|gate| gate.guest(link));
        matches!(guest, Some(Guest::Fresh { .. }))
    }

    /// Looks at a frame before the broker gets it.
    fn pass(&mut self, now: Time, link: LinkId, frame: &Frame<'_>, net: &mut impl Effects) -> Pass {
        let BrokerNode { gate: Some(gate), broker, reporter, .. } = self else { return Pass::On };
        match (gate.guest(link), frame) {
            // What comes often is not looked at further.
            (Some(Guest::Free), _) | (_, Frame::Publish(_) | Frame::Confirm(_)) => Pass::On,
            // It is turned away whoever it is, and its password costs nothing.
            (_, Frame::Hello(hello)) if broker.crowds_out(link, hello) => Pass::On,
            (_, Frame::Hello(hello)) => match gate.admit(link, hello, broker, reporter) {
                Entry::Enter => {
                    if let Some(Guest::Client(identity)) = gate.guest(link) {
                        broker.belong_to(link, &identity.user);
                    }
                    Pass::On
                }
                Entry::Wait => Pass::Stays,
                Entry::Refuse(reason, text) => {
                    let client = named(hello, gate.address(link));
                    self.turn_away(link, &client, reason, &text, net);
                    Pass::Ends
                }
            },
            (Some(Guest::Client(_)), _) => self.pass_wish(now, link, frame, net),
            _ => Pass::On,
        }
    }

    /// A client may want something.
    fn pass_wish(&mut self, now: Time, link: LinkId, frame: &Frame<'_>, net: &mut impl Effects) -> Pass {
        let Some(Guest::Client(who)) = self.gate.as_deref().and_then(|gate| gate.guest(link)) else {
            return Pass::On;
        };
        let check = |action, what: &str| match self.gate.as_deref() {
            Some(gate) => gate.check(who, action, what),
            None => Ok(()),
        };
        let checked = match Command::of(frame) {
            Some(Command::Register(register)) => check(Action::Publish, register.topic).and_then(|()| {
                if register.contract.is_some() { check(Action::Contract, register.topic) } else { Ok(()) }
            }),
            Some(Command::Carry(carry)) => check(Action::Admin, SITES)
                .and_then(|()| check(Action::Publish, carry.topic))
                .and_then(|()| check(Action::Contract, carry.topic)),
            Some(Command::AskInterest) => check(Action::Admin, SITES),
            Some(Command::Subscribe(filter)) => check(Action::Subscribe, filter),
            Some(Command::Look) => check(Action::Admin, STATUS),
            Some(Command::DropClient) => check(Action::Admin, CLIENTS),
            Some(Command::Handover) => check(Action::Admin, HANDOVER),
            Some(Command::Free) | None => Ok(()),
        };
        let Err(text) = checked else { return Pass::On };
        let client = who.client.clone();
        let (broker, mut wired) = self.wired(net);
        if !broker.hear(now, link) {
            return Pass::Answered;
        }
        match frame {
            Frame::Register(register) => broker.refuse_stream(link, register, text, &mut wired),
            Frame::Carry(carry) => {
                let Carry { stream, incarnation, contract, topic, .. } = *carry;
                let register = Register { stream, incarnation, contract: Some(contract), topic };
                broker.refuse_stream(link, &register, text, &mut wired);
            }
            Frame::Subscribe { number, filter, .. } => {
                broker.refuse_filter(link, *number, filter, &text, &mut wired);
            }
            Frame::Handover => broker.refuse_handover(link, &text, &mut wired),
            _ => {
                self.turn_away(link, &client, FarewellReason::Denied, &text, net);
                return Pass::Ends;
            }
        }
        Pass::Answered
    }

    /// The gate's part of [`BrokerNode::judged`].
    pub(crate) fn judged_at_gate(
        &mut self,
        ticket: u64,
        user: Result<Option<Box<str>>, mqtt::packet::Reason>,
        net: &mut impl Effects,
    ) {
        match self.gate.as_deref_mut().and_then(|gate| gate.judged(ticket, user)) {
            Some((link, Ok(()))) => self.wired(net).1.present_again(link),
            Some((link, Err(Refusal { reason, client, text }))) => {
                self.turn_away(link, &client, reason, text, net);
            }
            // It has left meanwhile.
            None => {}
        }
    }
}
