//! The own protocol, by the official client.

use super::{Peer, Publisher, Route, Subscriber, Taker};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use verge::Client;

/// Their addresses.
pub struct Brokers(pub String);

/// How long to wait where the broker does not take more.
const REST: Duration = Duration::from_micros(20);

impl Peer for Brokers {
    fn publish(&self, route: &Route<'_>) -> io::Result<Box<dyn Publisher>> {
        let client = self.open(route)?;
        let topics = route.topics.iter().map(|topic| (topic.name.as_str(), Some(topic.contract)));
        let publishers = client.publishers(topics).map_err(io::Error::other)?;
        Ok(Box::new(Connection { publishers, client, waiting: Vec::new(), bytes: Vec::new() }))
    }

    fn subscribe(&self, route: &Route<'_>, take: Taker) -> io::Result<Box<dyn Subscriber>> {
        let client = self.open(route)?;
        let shared = Arc::new(Mutex::new(take));
        for filter in route.filters {
            let take = Arc::clone(&shared);
            let handler = move |delivery: &verge::Delivery<'_>| {
                let mut take = take.lock().unwrap_or_else(PoisonError::into_inner);
                take(delivery.payload);
            };
            client.subscribe_with(filter, handler).map_err(io::Error::other)?;
        }
        Ok(Box::new(Listener { _client: client }))
    }
}

impl Brokers {
    fn open(&self, route: &Route<'_>) -> io::Result<Client> {
        let patience = crate::socket::PATIENCE;
        Client::builder().name(route.name).patience(patience).connect(&self.0).map_err(io::Error::other)
    }
}

struct Listener {
    _client: Client,
}

impl Subscriber for Listener {}

struct Connection {
    // Before the client: they end their streams by it.
    publishers: Vec<verge::Publisher>,
    client: Client,
    /// Topics and the ends of their payloads.
    waiting: Vec<(usize, usize)>,
    bytes: Vec<u8>,
}

impl Publisher for Connection {
    fn put(&mut self, topic: usize, payload: &[u8]) {
        self.bytes.extend_from_slice(payload);
        self.waiting.push((topic, self.bytes.len()));
    }

    fn send(&mut self) -> io::Result<()> {
        let mut sent = 0;
        let mut begin = 0;
        while sent < self.waiting.len() {
            let done = self.client.batch(|batch| {
                while let Some(&(topic, end)) = self.waiting.get(sent) {
                    batch.publish(&self.publishers[topic], &self.bytes[begin..end])?;
                    (sent, begin) = (sent + 1, end);
                }
                Ok(())
            });
            match done {
                Ok(()) => {}
                Err(error) if error.is_retryable() => std::thread::sleep(REST),
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        self.waiting.clear();
        self.bytes.clear();
        Ok(())
    }
}
