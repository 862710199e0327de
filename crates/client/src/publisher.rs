//! Publishing.

use crate::Error;
use crate::client::Client;
use contract::Contract;
use endpoint::PublicationState;

/// Publishes one topic. Dropping it ends the stream.
pub struct Publisher {
    pub(crate) client: Client,
    pub(crate) number: u32,
    pub(crate) topic: String,
}

impl Publisher {
    /// The topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Publishes a message, created now, and returns its number in the stream. It is written to the primary's
    /// connection before this returns, and retained as the contract says; while there is no primary it is retained
    /// only.
    pub fn publish(&self, payload: &[u8]) -> Result<u64, Error> {
        self.client.batch(|batch| batch.publish(self, payload))
    }

    /// The contract under which the broker carries it: the one that was asked for, or the configured one. `None` while
    /// no broker carries it.
    pub fn contract(&self) -> Option<Contract> {
        let state = self.client.shared.with(|node, _| match node.endpoint().publication_state(self.number) {
            Some(PublicationState::Admitted(contract)) => Some(*contract),
            _ => None,
        });
        state.unwrap_or_default()
    }

    /// How many of its messages the brokers have said that they could not keep, for want of memory, and why not the latest. They say
    /// so a little later than the message leaves; see [`Client::settle`].
    pub fn untaken(&self) -> (u64, String) {
        let untaken = self.client.shared.with(|node, _| {
            let (messages, reason) = node.endpoint().untaken(self.number);
            (messages, reason.to_owned())
        });
        untaken.unwrap_or_default()
    }

    /// How many messages have been numbered.
    pub fn published(&self) -> u64 {
        self.client.shared.with(|node, _| node.endpoint().published(self.number)).unwrap_or(0)
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        // Inside a handler the client cannot be called; the broker forgets the stream when the connection ends.
        let _ = self
            .client
            .shared
            .with(|node, net| node.with(net, |endpoint, out| endpoint.withdraw(self.number, out)));
    }
}

/// Several messages that leave with one write.
pub struct Batch<'a> {
    pub(crate) node: &'a mut engine::ClientNode<crate::events::Events>,
    pub(crate) net: &'a mut host::Network,
}

impl Batch<'_> {
    /// Adds a message of one of the client's publishers, created now.
    pub fn publish(&mut self, publisher: &Publisher, payload: &[u8]) -> Result<u64, Error> {
        let now = host::now();
        let number = publisher.number;
        Ok(self.node.with(self.net, |endpoint, out| endpoint.publish(now, number, payload, out))?)
    }
}
