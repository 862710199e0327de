//! A connection is a session of its own, as with the other brokers.

use std::io;
use std::time::{Duration, Instant};
use verge_bench_peers::links::{Peer, Publisher, Route, Subscriber, Taker};
use verge_bench_peers::pace::go_first;
use zenoh::pubsub::Publisher as Declared;
use zenoh::qos::{CongestionControl, Priority};
use zenoh::{Config, Session, Wait};

/// How long the router may need to hear of a subscription, and between two looks for subscribers.
const LOOKING: Duration = Duration::from_millis(20);
/// How long it may take until all know of all: what is published before may be dropped, and would count as lost.
const SETTLING: Duration = Duration::from_millis(500);
/// After so long it is taken that a topic has no subscriber yet.
const UNWANTED: Duration = Duration::from_millis(200);

/// Where it listens: address and port.
pub struct Router(pub String);

const SETTINGS: &str = include_str!("../../config/zenoh-client.json5");

impl Router {
    /// Has the library start its threads, which all sessions of the process share, with this priority: otherwise they have that of
    /// the thread that opens the first session, whichever it is.
    pub fn start_threads(&self, priority: u8) -> io::Result<()> {
        let start = || {
            go_first(priority);
            self.open()?.close().wait().map_err(io::Error::other)
        };
        std::thread::scope(|scope| scope.spawn(start).join()).expect("invariant: errors are returned")
    }

    fn open(&self) -> io::Result<Session> {
        let mut config = Config::from_json5(SETTINGS).map_err(io::Error::other)?;
        crate::collect(&mut config)?;
        let address = format!("[\"tcp/{}\"]", self.0);
        config.insert_json5("connect/endpoints", &address).map_err(io::Error::other)?;
        zenoh::open(config).wait().map_err(io::Error::other)
    }
}

impl Peer for Router {
    fn publish(&self, route: &Route<'_>) -> io::Result<Box<dyn Publisher>> {
        let session = self.open()?;
        let topics = route
            .topics
            .iter()
            .map(|topic| {
                // What has no deadline is bulk.
                let urgent = !topic.contract.deadline.is_forever();
                // Not `express`: messages that are published together would leave one by one, each with a call of its own.
                session
                    .declare_publisher(topic.name.clone())
                    .congestion_control(CongestionControl::Block)
                    .priority(if urgent { Priority::RealTime } else { Priority::Data })
                    .wait()
                    .map_err(io::Error::other)
            })
            .collect::<io::Result<Vec<_>>>()?;
        // A publisher drops what nobody is known to want, and hears of subscribers only some time after it was declared.
        let begun = Instant::now();
        let matched =
            |topic: &Declared<'_>| topic.matching_status().wait().is_ok_and(|status| status.matching());
        while !topics.iter().all(matched) && begun.elapsed() < UNWANTED {
            std::thread::sleep(LOOKING);
        }
        std::thread::sleep(SETTLING);
        Ok(Box::new(Connection { topics, waiting: Vec::new(), _session: session }))
    }

    fn subscribe(&self, route: &Route<'_>, mut take: Taker) -> io::Result<Box<dyn Subscriber>> {
        let session = self.open()?;
        // One taker for all filters: samples of a session come one after the other, but Zenoh does not say so.
        let take = std::sync::Arc::new(std::sync::Mutex::new(move |payload: &[u8]| take(payload)));
        for filter in route.filters {
            let take = std::sync::Arc::clone(&take);
            session
                .declare_subscriber(filter.replace('+', "*"))
                .callback(move |sample| {
                    let payload = sample.payload().to_bytes();
                    take.lock().unwrap_or_else(std::sync::PoisonError::into_inner)(&payload);
                })
                .background()
                .wait()
                .map_err(io::Error::other)?;
        }
        // Nothing says when the router knows of it.
        std::thread::sleep(LOOKING);
        Ok(Box::new(Listening { session: Some(session) }))
    }
}

/// A session that publishes.
struct Connection {
    topics: Vec<Declared<'static>>,
    /// Topics and payloads that leave next.
    waiting: Vec<(usize, Vec<u8>)>,
    _session: Session,
}

impl Publisher for Connection {
    fn put(&mut self, topic: usize, payload: &[u8]) {
        self.waiting.push((topic, payload.to_vec()));
    }

    fn send(&mut self) -> io::Result<()> {
        for (topic, payload) in self.waiting.drain(..) {
            self.topics[topic].put(payload).wait().map_err(io::Error::other)?;
        }
        Ok(())
    }
}

/// A session that subscribes; its callbacks end with it.
struct Listening {
    session: Option<Session>,
}

impl Subscriber for Listening {}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            // Where the router has gone, it is closed already.
            let _ = session.close().wait();
        }
    }
}
