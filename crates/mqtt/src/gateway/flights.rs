//! Messages that clients have to answer: sent, sent again, and done with.

use super::giving::{Outgoing, order_of};
use super::{Gateway, Rules};
use crate::bodies::Bodies;
use crate::ids::{BodyId, NO_BODY, SessionId};
use crate::packet::{Acknowledge, Answer, Qos, Reason, acknowledge};
use crate::records::{Key, Records, Waiting};
use crate::session::{ALL_SENT, Flight, Queued};
use contract::{Time, invariant};
use wire::{Effects, LinkId, Order};

impl<R: Rules> Gateway<R> {
    /// A link has room again.
    pub fn drained(&mut self, now: Time, link: LinkId, net: &mut impl Effects) {
        // Whoever has not been let in, or goes, is given nothing.
        if let Some(session) = self.session_of(link) {
            self.pump(now, session, net);
        }
    }

    /// Sends what waits for a session, as far as its connection and its window have room.
    pub(super) fn pump(&mut self, now: Time, index: SessionId, net: &mut impl Effects) {
        self.send_again(now, index, net);
        let Gateway { sessions, clients, bodies, records, stats, settings, .. } = self;
        let Some(session) = sessions.get_mut(index) else {
            return invariant!("a client that is served has a session");
        };
        if session.resend_from != ALL_SENT {
            return;
        }
        let Some(link) = session.link else { return invariant!("a client that is served is connected") };
        let Some(client) = clients.get(link.0 as usize).and_then(Option::as_deref) else {
            return invariant!("a session's link is a client's");
        };
        let room = session.backlog_bytes(settings.limits.backlog_bytes);
        while session.flights.len() < session.window && net.backlog(link) < room {
            let Some(queued) = session.queue.pop_front() else { break };
            let Queued { order, qos, retain, body: number, subscriptions } = queued;
            let Some(body) = bodies.get(number) else {
                invariant!("a body that somebody waits for is kept");
                continue;
            };
            let gone = body.expires.is_some_and(|at| at <= now);
            let id = if gone { 0 } else { session.take_id() };
            let numbers = subscriptions.as_slice();
            let outgoing =
                Outgoing { dup: false, qos, retain, id, subscriptions: numbers, order: order_of(qos) };
            if gone || !outgoing.send(now, (link, client), &mut session.aliases, body, stats, net) {
                stats.expired += u64::from(gone);
                records.remove(&Key::Waiting(&session.client, order));
                release(bodies, records, number);
                continue;
            }
            let keeps = session.keeps_bodies();
            let body_kept = if keeps { number } else { NO_BODY };
            let flight = Flight { id, order, body: body_kept, qos, retain, received: false, subscriptions };
            if session.is_persistent() {
                let waiting = Waiting::of_flight(&flight, body.id);
                records.put(&Key::Waiting(&session.client, order), |out| waiting.write(out));
            }
            if !keeps {
                release(bodies, records, number);
            }
            session.flights.push_back(flight);
        }
        self.walk_retained(now, index, net);
    }

    /// After a client has come back: what it has taken note of it is asked to release again. That is no message, so that its window has
    /// nothing to do with it.
    pub(super) fn release_again(&mut self, index: SessionId, net: &mut impl Effects) {
        let Some(session) = self.sessions.get(index) else {
            return invariant!("a client that is served has a session");
        };
        let Some(link) = session.link else { return invariant!("a client that is served is connected") };
        for flight in session.flights.iter().filter(|flight| flight.received) {
            net.append(link, Order::Any, |out| {
                acknowledge(out, session.version, Answer::PubRel, flight.id, Reason::SUCCESS);
            });
        }
    }

    /// After a client has come back: what it has not answered is sent again, in its order, as far as there is room.
    fn send_again(&mut self, now: Time, index: SessionId, net: &mut impl Effects) {
        let Gateway { sessions, clients, bodies, records, stats, settings, .. } = self;
        let Some(session) = sessions.get_mut(index) else {
            return invariant!("a client that is served has a session");
        };
        let Some(link) = session.link else { return invariant!("a client that is served is connected") };
        let Some(client) = clients.get(link.0 as usize).and_then(Option::as_deref) else {
            return invariant!("a session's link is a client's");
        };
        while session.resend_from != ALL_SENT {
            let at = session.flights.partition_point(|flight| flight.order < session.resend_from);
            let Some(flight) = session.flights.get(at) else {
                session.resend_from = ALL_SENT;
                break;
            };
            if net.backlog(link) >= session.backlog_bytes(settings.limits.backlog_bytes) {
                break;
            }
            let after = flight.order.saturating_add(1);
            if flight.received {
                session.resend_from = after;
                continue;
            }
            if at >= session.window {
                break;
            }
            let Flight { id, qos, retain, ref subscriptions, .. } = *flight;
            let (subscriptions, order) = (subscriptions.as_slice(), order_of(qos));
            let outgoing = Outgoing { dup: true, qos, retain, id, subscriptions, order };
            let aliases = &mut session.aliases;
            let body = bodies.get(flight.body);
            if body.is_none() {
                invariant!("a body that somebody waits for is kept");
            }
            if body.is_some_and(|body| outgoing.send(now, (link, client), aliases, body, stats, net)) {
                session.resend_from = after;
            } else if let Some(flight) = session.flights.remove(at) {
                // It is larger than the client takes by now.
                records.remove(&Key::Waiting(&session.client, flight.order));
                release(bodies, records, flight.body);
            } else {
                return invariant!("a message that was found is there");
            }
        }
    }

    /// A client has a message: PUBACK or PUBCOMP. `Err`: that is no answer to the message with this number. One to a message that is not
    /// under way any more is none to anything: it may have crossed with the end of a connection.
    pub(super) fn finish_flight(&mut self, index: SessionId, word: Acknowledge) -> Result<(), &'static str> {
        let Gateway { sessions, bodies, records, .. } = self;
        let Some(session) = sessions.get_mut(index) else {
            return invariant!("who answers a message has a session", Ok(()));
        };
        let found = session.flights.iter().position(|flight| flight.id == word.id);
        let Some((at, flight)) = found.and_then(|at| Some((at, session.flights.get(at)?))) else {
            return Ok(());
        };
        match (word.answer, flight.qos, flight.received) {
            (Answer::PubAck, Qos::ExactlyOnce, _) => return Err("a PUBACK to a message of QoS 2"),
            (Answer::PubComp, Qos::AtLeastOnce, _) => return Err("a PUBCOMP to a message of QoS 1"),
            (Answer::PubComp, Qos::ExactlyOnce, false) => {
                return Err("a PUBCOMP to a message without a PUBREC before");
            }
            _ => {}
        }
        let Some(flight) = session.flights.remove(at) else {
            return invariant!("a message that was found is there", Ok(()));
        };
        if session.is_persistent() {
            records.remove(&Key::Waiting(&session.client, flight.order));
        }
        release(bodies, records, flight.body);
        Ok(())
    }

    /// A client has a QoS 2 message: PUBREC. Its number stays in use until the client has released it. `Err`: that is no answer to the
    /// message with this number.
    pub(super) fn receive_flight(
        &mut self,
        index: SessionId,
        word: Acknowledge,
        net: &mut impl Effects,
    ) -> Result<(), &'static str> {
        let Gateway { sessions, bodies, records, .. } = self;
        let Some(session) = sessions.get_mut(index) else {
            return invariant!("who answers a message has a session", Ok(()));
        };
        let Some(link) = session.link else {
            return invariant!("who answers a message is connected", Ok(()));
        };
        let version = session.version;
        let Some(at) = session.flights.iter().position(|flight| flight.id == word.id) else {
            // No PUBREL follows a PUBREC with an error.
            if !word.reason.is_error() {
                let reason = Reason::PACKET_ID_NOT_FOUND;
                net.append(link, Order::Any, |out| {
                    acknowledge(out, version, Answer::PubRel, word.id, reason);
                });
            }
            return Ok(());
        };
        if session.flights.get(at).is_some_and(|flight| flight.qos != Qos::ExactlyOnce) {
            return Err("a PUBREC to a message of QoS 1");
        }
        if word.reason.is_error() {
            // It does not want it, and no PUBREL follows.
            let Some(flight) = session.flights.remove(at) else {
                return invariant!("a message that was found is there", Ok(()));
            };
            records.remove(&Key::Waiting(&session.client, flight.order));
            release(bodies, records, flight.body);
            return Ok(());
        }
        let persistent = session.is_persistent();
        let Some(flight) = session.flights.get_mut(at) else {
            return invariant!("a message that was found is there", Ok(()));
        };
        let body = std::mem::replace(&mut flight.body, NO_BODY);
        flight.received = true;
        if persistent {
            let waiting = Waiting::of_flight(flight, 0);
            records.put(&Key::Waiting(&session.client, flight.order), |out| waiting.write(out));
        }
        release(bodies, records, body);
        net.append(link, Order::Last, |out| {
            acknowledge(out, version, Answer::PubRel, word.id, Reason::SUCCESS);
        });
        Ok(())
    }

    pub(super) fn release_body(&mut self, body: BodyId) {
        release(&mut self.bodies, &mut self.records, body);
    }
}

/// One less waits for a body.
pub(super) fn release(bodies: &mut Bodies, records: &mut Records, body: BodyId) {
    if let Some(gone) = bodies.release(body).filter(|gone| gone.recorded) {
        records.remove(&Key::Body(gone.id));
    }
}
