//! Messages that go round between brokers: one bridge takes them away, another brings them back as new ones.
//!
//! A broker cannot tell such a message from one that is published again. It can tell that a bridge brings the same message again and again,
//! as fast as it is carried, and that another bridge takes it away. So it is counted, for each bridge, how often it has brought the same
//! lately, in a table of few places: a message that comes in between takes one off what was counted in its place, so that what goes round
//! is found among many others, and what is published now and then is not. The operator is told; nothing is held up, since it may be meant.

use super::{Gateway, Rules, Trouble};
use crate::ids::SessionId;
use crate::tree::Matches;
use contract::{Span, Time, invariant};
use std::hash::{DefaultHasher, Hash, Hasher};
use wire::LinkId;

/// So often within [`WITHIN`] a message is carried round before it is told of.
const TIMES: u32 = 200;
/// See there.
const WITHIN: Span = Span::secs(10);
/// Places of a bridge's table.
const PLACES: usize = 64;
/// So much of a payload is compared.
const COMPARED_BYTES: usize = 256;

/// What a bridge has brought lately.
#[derive(Clone, Debug)]
pub(super) struct Recent([Seen; PLACES]);

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    message: u64,
    times: u32,
    since: Time,
}

impl Default for Recent {
    fn default() -> Recent {
        Recent([Seen::default(); PLACES])
    }
}

impl Recent {
    /// The bridge has brought a message. Whether that was the time at which it is to be told.
    fn count(&mut self, now: Time, message: u64) -> bool {
        let Some(seen) = self.0.get_mut(message as usize % PLACES) else {
            return invariant!("a place is one of the table", false);
        };
        if seen.message != message && seen.times > 1 {
            seen.times -= 1;
            return false;
        }
        let lasts = seen.message == message && seen.since <= now && now < seen.since + WITHIN;
        *seen = if lasts {
            Seen { times: seen.times.saturating_add(1), ..*seen }
        } else {
            Seen { message, times: 1, since: now }
        };
        seen.times == TIMES
    }
}

impl<R: Rules> Gateway<R> {
    /// A bridge brings a message: the admin is told if another one seems to have taken it away before.
    pub(super) fn look_for_loop(
        &mut self,
        now: Time,
        (link, index): (LinkId, SessionId),
        topic: &str,
        payload: &[u8],
    ) {
        let Some(client) = self.client_mut(link).filter(|client| client.bridge) else { return };
        let mut hasher = DefaultHasher::new();
        let compared = payload.get(..COMPARED_BYTES).unwrap_or(payload);
        (topic, payload.len(), compared).hash(&mut hasher);
        if !client.brought.get_or_insert_default().count(now, hasher.finish()) {
            return;
        }
        let mut matches = Matches::default();
        self.subscriptions.matches(topic, &mut matches);
        let other = matches.rows().iter().filter(|row| row.session != index).find_map(|row| {
            let Some(session) = self.sessions.get(row.session) else {
                return invariant!("who subscribes has a session", None);
            };
            let is_bridge =
                session.link.and_then(|link| self.client(link)).is_some_and(|client| client.bridge);
            is_bridge.then(|| session.client.clone())
        });
        // Its client may publish it again and again, and nobody take it away.
        let Some((client, other)) = self.sessions.get(index).map(|session| session.client.clone()).zip(other)
        else {
            return;
        };
        self.trouble(Trouble::GoesRound {
            client,
            other,
            topic: topic.to_owned(),
            times: TIMES,
            within: WITHIN,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time(1_000_000_000);

    #[test]
    fn what_goes_round_is_found_among_many_others() {
        let (mut recent, mut found) = (Recent::default(), 0);
        for number in 0..2_000_u64 {
            let now = START + Span::millis(number as i64);
            // Four others between, which never come again.
            (0..4).for_each(|other| assert!(!recent.count(now, 1_000 + 5 * number + other)));
            found += u64::from(recent.count(now, 7));
        }
        assert_eq!(found, 1);
    }

    #[test]
    fn what_is_published_now_and_then_is_not() {
        let mut recent = Recent::default();
        for number in 0..10_000 {
            assert!(!recent.count(START + Span::millis(51 * number), 7));
        }
    }
}
