//! Brokers, behind two traits.

mod mqtt;
mod nats;
mod redis;
mod relay;
mod verge;

use crate::account::Account;
use crate::arguments::{Common, Protocol};
use ::verge::{Contract, Loss, Span};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// A topic, and what is promised where the broker knows of promises.
#[derive(Clone)]
pub struct Topic {
    /// Its name, in the words of MQTT.
    pub name: String,
    /// The promise.
    pub contract: Contract,
}

/// What one connection is for.
pub struct Route<'a> {
    /// The name of the connection; one of a kind.
    pub name: &'a str,
    /// Publishers and subscribers of these topics share it; the relay knows nothing else.
    pub channel: &'a str,
    /// What is published.
    pub topics: &'a [Topic],
    /// What is subscribed, in the words of MQTT.
    pub filters: &'a [String],
    /// The length of every payload.
    pub bytes: usize,
}

/// A connection that publishes.
pub trait Publisher: Send {
    /// Adds a message to what leaves next, by the place of its topic.
    fn put(&mut self, topic: usize, payload: &[u8]);
    /// Sends what was added; waits while the broker does not take it.
    fn send(&mut self) -> io::Result<()>;
}

/// Called for every message of a connection, on its thread.
pub type Taker = Box<dyn FnMut(&[u8]) + Send>;

/// A connection that subscribes; it ends when this is dropped, and its taker is dropped then.
pub trait Subscriber: Send {}

/// A broker.
pub trait Peer: Sync {
    /// Connects, and returns when messages can be published.
    fn publish(&self, route: &Route<'_>) -> io::Result<Box<dyn Publisher>>;
    /// Connects, and returns when messages that are published from now on will come.
    fn subscribe(&self, route: &Route<'_>, take: Taker) -> io::Result<Box<dyn Subscriber>>;
}

/// How the broker is found that is meant.
pub type Find = fn(&Common) -> io::Result<Box<dyn Peer>>;

/// The broker that is meant.
///
/// # Errors
/// Where its address is none, or this program does not speak its protocol.
pub fn peer(common: &Common) -> io::Result<Box<dyn Peer>> {
    let first = common.broker.split(',').next().unwrap_or_default();
    let address = || -> io::Result<SocketAddr> {
        first.to_socket_addrs()?.next().ok_or_else(|| io::Error::other("--broker has no address"))
    };
    Ok(match common.protocol {
        Protocol::Verge => Box::new(verge::Brokers(common.broker.clone())),
        Protocol::Mqtt => Box::new(mqtt::Broker(address()?.port())),
        Protocol::Nats => Box::new(nats::Server(address()?)),
        Protocol::Redis => Box::new(redis::Server(address()?)),
        Protocol::Zenoh => {
            return Err(io::Error::other("Zenoh is spoken by verge-bench-zenoh (bench/peers/zenoh)"));
        }
        Protocol::Relay => Box::new(relay::Floor(address()?)),
    })
}

/// Topics without a promise: messages are served after all others, as well as can be.
pub fn bulk(prefix: &str, count: u32) -> Vec<Topic> {
    let contract = Contract { deadline: Span::FOREVER, ..Contract::every(Span::FOREVER).best_effort() };
    named(prefix, count, contract)
}

/// Topics whose messages are urgent, and none of which is sent again.
pub fn urgent(prefix: &str, count: u32, period: Span, deadline: Span) -> Vec<Topic> {
    let contract = Contract { loss: Loss::Unbounded, ..Contract::every(period).deadline(deadline).retain(0) };
    named(prefix, count, contract)
}

/// Topics with a contract, numbered.
pub fn named(prefix: &str, count: u32, contract: Contract) -> Vec<Topic> {
    (0..count).map(|index| Topic { name: format!("{prefix}/{index}"), contract }).collect()
}

/// Keeps the account of what comes, until the connection ends.
pub fn keep(account: Account, timed: bool) -> Taker {
    let mut ending = Ending(Some(account));
    Box::new(move |payload| {
        if let Some(account) = &mut ending.0 {
            account.take(payload, timed);
        }
    })
}

struct Ending(Option<Account>);

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(account) = self.0.take() {
            account.close();
        }
    }
}
