//! Who the clients are, for whoever runs the broker.

use super::{Gateway, Rules};
use crate::packet::Reason;
use contract::{Time, invariant};
use wire::{ClientRow, Effects};

impl<R: Rules> Gateway<R> {
    /// Hands over clients with names after this one, so many at most. Returns the last name where there are more.
    pub fn list(&self, after: &str, most: usize, mut hear: impl FnMut(&ClientRow<'_>)) -> Option<String> {
        let mut left = most;
        let mut last = None;
        for (name, index) in self.sessions.after(after) {
            let Some(session) = self.sessions.get(index) else {
                invariant!("a session with a name is there");
                continue;
            };
            if left == 0 {
                return Some(last.map_or_else(|| after.to_owned(), str::to_owned));
            }
            left -= 1;
            last = Some(name);
            let client = session.link.and_then(|link| self.client(link));
            let address =
                client.and_then(|client| client.from).map(|from| from.to_string()).unwrap_or_default();
            hear(&ClientRow {
                client: name,
                protocol: session.version.protocol(),
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
            self.refuse(now, link, Reason::ADMINISTRATIVE_ACTION, "an admin has dropped it", net);
        }
        // Without an expiry, the session has ended with its connection.
        if let Some(index) = self.sessions.find(client).filter(|_| ends) {
            self.end_session(index);
        }
        true
    }
}
