//! Messages that are refused and come again and again, since their clients cannot be told.
//!
//! A client of MQTT 3.1.1 hears of a message that is refused by the end of its connection. It comes back and sends the same message first,
//! for ever, and nothing else of it arrives. So it is counted how often the same message has come. After as many times as configured it is
//! acknowledged and dropped, and the admin is told.

use super::publish::answer_to;
use super::{Gateway, Phase, Rules, Trouble};
use crate::ids::SessionId;
use crate::packet::{Oversized, Qos, Reason};
use contract::{Time, invariant};
use std::collections::BTreeMap;
use wire::{Effects, LinkId};

/// Clients of which it is known what they repeat; above it, the one that came longest ago is forgotten.
const REPEATS_MAX: usize = 1_024;

/// So much of a topic is compared.
const TOPIC_BYTES: usize = 512;

/// What clients repeat, by their names.
#[derive(Clone, Debug, Default)]
pub(super) struct Repeats(BTreeMap<Box<str>, Repeat>);

#[derive(Clone, Debug)]
struct Repeat {
    /// Its beginning.
    topic: Box<str>,
    bytes: usize,
    times: u32,
    at: Time,
}

impl Repeats {
    /// A client's message on this topic, of so many bytes, is refused. Returns how often it has been, one after the other.
    fn count(&mut self, now: Time, client: &str, topic: &str, bytes: usize) -> u32 {
        let topic = topic.get(..topic.floor_char_boundary(TOPIC_BYTES)).unwrap_or_default();
        if let Some(repeat) = self.0.get_mut(client) {
            let same = *repeat.topic == *topic && repeat.bytes == bytes;
            let times = if same { repeat.times.saturating_add(1) } else { 1 };
            *repeat = Repeat { topic: topic.into(), bytes, times, at: now };
            return times;
        }
        if self.0.len() >= REPEATS_MAX
            && let Some(oldest) =
                self.0.iter().min_by_key(|(_, repeat)| repeat.at).map(|(name, _)| name.clone())
        {
            self.0.remove(&oldest);
        }
        self.0.insert(client.into(), Repeat { topic: topic.into(), bytes, times: 1, at: now });
        1
    }
}

/// A message that is refused.
#[derive(Clone, Copy)]
pub(super) struct Unwanted<'a> {
    pub(super) id: u16,
    pub(super) qos: Qos,
    pub(super) topic: &'a str,
    /// Of its payload, or of all of it where it is too large.
    pub(super) bytes: usize,
    pub(super) reason: Reason,
    pub(super) text: &'a str,
}

impl<R: Rules> Gateway<R> {
    /// A message is refused, and its client can be told only by the end of its connection. Returns whether it was acknowledged instead,
    /// since it has come often enough.
    pub(super) fn refuse_repeated(
        &mut self,
        now: Time,
        (link, index): (LinkId, SessionId),
        unwanted: &Unwanted<'_>,
        net: &mut impl Effects,
    ) -> bool {
        let Unwanted { id, qos, topic, bytes, reason, text } = *unwanted;
        let Some(session) = self.sessions.get(index) else {
            return invariant!("who publishes has a session", false);
        };
        let (client, version) = (session.client.clone(), session.version);
        let times = self.repeated.count(now, &client, topic, bytes);
        // One that is too large will be so again.
        let sure = reason == Reason::PACKET_TOO_LARGE;
        let most = if sure { self.settings.limits.repeats.min(1) } else { self.settings.limits.repeats };
        if most == 0 || times <= most {
            self.tell_refused(now, index, topic, bytes, text);
            self.refuse_as_told(now, link, reason, text, net);
            return false;
        }
        self.stats.given_up += 1;
        let (topic, text) = (topic.to_owned(), text.to_owned());
        if version.is_5() {
            self.refuse_message(index, id, qos, Reason::QUOTA_EXCEEDED, &text, net);
        } else if answer_to(qos).is_some() {
            self.answer(index, id, qos, Reason::SUCCESS, net);
        }
        self.trouble(Trouble::GivenUp { client, topic, reason: text, times });
        true
    }

    /// A message that is larger than is taken. Whoever sends it for the first time hears so by the end of its connection; of one that it
    /// repeats, the rest is thrown away as it comes.
    pub(super) fn refuse_oversized(
        &mut self,
        now: Time,
        link: LinkId,
        oversized: &Oversized<'_>,
        net: &mut impl Effects,
    ) {
        let Oversized { topic, id, qos, bytes } = *oversized;
        let Some(Phase::Open { session }) = self.client(link).map(|client| &client.phase) else {
            return invariant!("only messages of clients that were let in are looked at");
        };
        let index = *session;
        let text = format!(
            "larger than the {} bytes that are taken: have mqtt.packet raised",
            self.settings.limits.packet_bytes
        );
        let unwanted = Unwanted { id, qos, topic, bytes, reason: Reason::PACKET_TOO_LARGE, text: &text };
        if self.refuse_repeated(now, (link, index), &unwanted, net) {
            match self.client_mut(link) {
                Some(client) => client.skips = bytes,
                None => invariant!("who publishes is connected"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_message_is_counted_and_another_begins_anew() {
        let mut repeats = Repeats::default();
        let mut count = |client, topic, bytes| repeats.count(Time(1), client, topic, bytes);
        assert_eq!((1..4).map(|_| count("a", "t", 9)).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!((count("b", "t", 9), count("a", "t", 8), count("a", "t", 9)), (1, 1, 1));
    }

    #[test]
    fn who_came_longest_ago_is_forgotten() {
        let mut repeats = Repeats::default();
        for number in 0..=REPEATS_MAX as u64 {
            assert_eq!(repeats.count(Time(number), &number.to_string(), "t", 1), 1);
        }
        assert_eq!(repeats.0.len(), REPEATS_MAX);
        assert_eq!(
            (repeats.count(Time(9_999), "0", "t", 1), repeats.count(Time(9_999), "2", "t", 1)),
            (1, 2)
        );
    }
}
