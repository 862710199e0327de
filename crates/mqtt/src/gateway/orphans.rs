//! What was for a member of a shared group whose session has ended: another member is given it.
//!
//! A message with QoS 1 that was not acknowledged goes to another member, and so does all that had only been waiting. One of QoS 2 that
//! was on its way does not: it may have arrived (MQTT 5, section 4.8.2). It is counted as dropped.

use super::giving::Item;
use super::{Gateway, Rules};
use crate::ids::{BodyId, GroupId, NO_BODY, SessionId};
use crate::packet::Qos;
use crate::tree::Matches;
use contract::{Time, invariant};
use wire::Effects;

/// Messages that are passed on before others have their turn. All that wait are bounded as what waits for sessions is: each holds a body.
const PASSED_PER_TURN: usize = 64;

/// A message without its subscriber.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Orphan {
    /// The group that shared it.
    group: GroupId,
    body: BodyId,
    qos: Qos,
    retain: bool,
}

impl<R: Rules> Gateway<R> {
    /// Remembers what a session that ends was to be given, and had of groups that it is still a member of.
    pub(super) fn orphan(&mut self, index: SessionId) {
        if !self.reigns() {
            return;
        }
        let Gateway { sessions, subscriptions, bodies, orphans, stats, scratch, .. } = self;
        let Some(session) = sessions.get(index).filter(|session| session.shares > 0) else { return };
        let flights = session.flights.iter().filter(|flight| flight.body != NO_BODY && !flight.received);
        let flights = flights.map(|flight| (flight.body, flight.qos, flight.retain, true));
        let queued = session.queue.iter().map(|queued| (queued.body, queued.qos, queued.retain, false));
        let mut found = std::mem::take(&mut scratch.matches);
        for (body, qos, retain, sent) in flights.chain(queued) {
            let Some(kept) = bodies.get(body) else {
                invariant!("a body that somebody waits for is kept");
                continue;
            };
            subscriptions.matches(kept.topic(), &mut found);
            let is_member = |group: &&GroupId| {
                let members = subscriptions.members(**group);
                members.binary_search_by_key(&index, |member| member.session).is_ok()
            };
            // It came by a subscription of its own, or by one that it has taken back.
            let Some(&group) = found.groups().iter().find(is_member) else { continue };
            if sent && qos == Qos::ExactlyOnce {
                stats.dropped += 1;
                continue;
            }
            bodies.hold(body);
            orphans.push_back(Orphan { group, body, qos, retain });
        }
        scratch.matches = found;
    }

    /// Gives other members what those that have gone were to be given: some of it now, and the rest in further turns.
    pub fn pass_on(&mut self, now: Time, net: &mut impl Effects) {
        for _ in 0..PASSED_PER_TURN {
            let Some(orphan) = self.orphans.pop_front() else { return };
            if !self.pass(now, orphan, net) {
                self.stats.dropped += 1;
            }
            self.release_body(orphan.body);
        }
    }

    /// Says whether anybody has it now.
    fn pass(&mut self, now: Time, orphan: Orphan, net: &mut impl Effects) -> bool {
        let Some(body) = self.bodies.get(orphan.body) else {
            return invariant!("a body that somebody waits for is kept", false);
        };
        if body.expires.is_some_and(|at| at <= now) {
            self.stats.expired += 1;
            return true;
        }
        let (topic, expires) = (body.topic().to_owned(), body.expires);
        let (properties, payload) = (body.properties().to_vec(), body.payload().to_vec());
        // The group may be another one by now.
        let mut found = Matches::default();
        self.subscriptions.matches(&topic, &mut found);
        if !found.groups().contains(&orphan.group) {
            return false;
        }
        let Some((member, entry)) = self.next_of_group(orphan.group) else {
            return invariant!("a group that was found has a member", false);
        };
        let item = Item {
            topic: &topic,
            qos: orphan.qos,
            retain: orphan.retain,
            expires,
            properties: &properties,
            payload: &payload,
            origin: wire::Origin::default(),
            created: now,
        };
        self.stats.passed_on += 1;
        self.give_one(now, member, &item, &entry, net);
        true
    }
}
