//! Who the clients are, for whoever runs the broker.

use super::{Gateway, Rules};
use crate::packet::{Reason, Version};
use contract::Time;
use wire::Effects;

/// A client with a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Guest<'a> {
    /// Its identifier.
    pub client: &'a str,
    /// What it speaks, or spoke last.
    pub version: Version,
    /// Who it is; empty where nobody has to say so.
    pub user: &'a str,
    /// Where it comes from, if that is known and it is connected.
    pub address: &'a str,
    /// Whether it is connected.
    pub connected: bool,
    /// Since when it is, or since when it is not; [`Time::ZERO`] where that was elsewhere.
    pub since: Time,
    /// Its subscriptions.
    pub subscriptions: usize,
    /// Messages that wait for it.
    pub queued: usize,
    /// Messages that it has been sent and has not answered.
    pub in_flight: usize,
    /// Messages that it has not been given.
    pub dropped: u64,
}

impl<R: Rules> Gateway<R> {
    /// Hands over clients with names after this one, so many at most. Returns the last name where there are more.
    pub fn list(&self, after: &str, most: usize, mut hear: impl FnMut(&Guest<'_>)) -> Option<String> {
        let mut left = most;
        let mut last = None;
        for (name, index) in self.sessions.after(after) {
            let Some(session) = self.sessions.get(index) else { continue };
            if left == 0 {
                return Some(last.map_or_else(|| after.to_owned(), str::to_owned));
            }
            left -= 1;
            last = Some(name);
            let client = session.link.and_then(|link| self.client(link));
            let address =
                client.and_then(|client| client.from).map(|from| from.to_string()).unwrap_or_default();
            hear(&Guest {
                client: name,
                version: session.version,
                user: session.user.as_deref().unwrap_or(""),
                address: &address,
                connected: session.link.is_some(),
                since: session.since,
                subscriptions: self.subscriptions.held(index),
                queued: session.queue.len(),
                in_flight: session.flights.len(),
                dropped: session.dropped,
            });
        }
        None
    }

    /// Ends a client's connection, and its session if that is wanted. Its will is published. Says whether there was one.
    pub fn drop_client(&mut self, now: Time, client: &str, ends: bool, net: &mut impl Effects) -> bool {
        let Some(index) = self.sessions.find(client) else { return false };
        if let Some(link) = self.sessions.get(index).and_then(|session| session.link) {
            self.refuse(now, link, Reason::ADMINISTRATIVE_ACTION, "an operator has dropped it", net);
        }
        // Without an expiry, the session has ended with its connection.
        if let Some(index) = self.sessions.find(client).filter(|_| ends) {
            self.end_session(index);
        }
        true
    }
}
