//! Data behind a match: what is offered is published while somebody wants it, what is wanted comes wherever it is.

use crate::Error;
use crate::client::{Client, QUEUE_MESSAGES};
use crate::peers::{Hears, Met, Peers, Posting};
use crate::publisher::Publisher;
use crate::subscription::{Message, queue};
use contract::{Contract, Needs, Remedies};
use crossbeam_channel::{Receiver, Sender};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// So many messages it keeps, where brokers say that a contract takes so many and the profile says fewer.
const RETAIN_MAX: u32 = 1_000;
/// How the names of topics begin that peers make; others are published by somebody else.
const MADE: &str = "rv/";

impl Client {
    /// Offers something at peers, to publish it while somebody wants it.
    /// ```no_run
    /// # fn f(client: &verge::Client) -> Result<(), verge::Error> {
    /// let peers = verge::Peers::at("127.0.0.1:7611")?;
    /// let lidar = client.announce(&peers, "drone, lidar; period=50ms, retain=20")?;
    /// let wanted_by = lidar.publish(b"0.271")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn announce(&self, peers: &Peers, profile: &str) -> Result<Announcement, Error> {
        self.announce_with(peers, profile, |_: &Met| {})
    }

    /// The same, and hears what becomes of it, on a thread of its own.
    pub fn announce_with(
        &self,
        peers: &Peers,
        profile: &str,
        hears: impl FnMut(&Met) + Send + 'static,
    ) -> Result<Announcement, Error> {
        let publishers: Publishers = Arc::default();
        let publishing = Publishing { client: self.clone(), publishers: Arc::clone(&publishers) };
        let posting = peers.post(true, profile, Following::new(publishing, hears))?;
        Ok(Announcement { client: self.clone(), publishers, posting })
    }

    /// Receives what there is that matches an interest, as an iterator.
    /// ```no_run
    /// # fn f(client: &verge::Client) -> Result<(), verge::Error> {
    /// let peers = verge::Peers::at("127.0.0.1:7611")?;
    /// for message in client.interest(&peers, "drone, li*; deadline=100ms, loss=0")? {
    ///     println!("{} {:?}", message.topic, message.payload);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn interest(&self, peers: &Peers, interest: &str) -> Result<Found, Error> {
        self.interest_with(peers, interest, |_: &Met| {})
    }

    /// The same, and hears what becomes of it, on a thread of its own.
    pub fn interest_with(
        &self,
        peers: &Peers,
        interest: &str,
        hears: impl FnMut(&Met) + Send + 'static,
    ) -> Result<Found, Error> {
        let (sender, receiver) = crossbeam_channel::bounded(QUEUE_MESSAGES);
        let dropped = Arc::new(AtomicU64::new(0));
        let receiving = Receiving {
            client: self.clone(),
            sender,
            receiver: receiver.clone(),
            dropped: Arc::clone(&dropped),
            open: BTreeMap::new(),
        };
        let posting = peers.post(false, interest, Following::new(receiving, hears))?;
        Ok(Found { posting, receiver, dropped })
    }
}

/// Something that is offered, as long as this lives.
pub struct Announcement {
    client: Client,
    publishers: Publishers,
    posting: Posting,
}

/// By topic; and whether nobody wants it any more, so that it ends soon.
type Publishers = Arc<Mutex<BTreeMap<String, (Publisher, bool)>>>;

fn lock(publishers: &Publishers) -> MutexGuard<'_, BTreeMap<String, (Publisher, bool)>> {
    publishers.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Announcement {
    /// Publishes a message on all topics of those who want it. Returns how many these are; zero: nobody wants it, and nothing was sent. Nor is
    /// anything after an error by which the same may succeed later ([`Error::is_retryable`]), unless the client's patience has passed.
    pub fn publish(&self, payload: &[u8]) -> Result<usize, Error> {
        self.posting.check()?;
        let publishers = lock(&self.publishers);
        let until = Instant::now() + self.client.shared.patience;
        for (place, (publisher, _)) in publishers.values().enumerate() {
            // When the first has it, the others are to have it as well.
            while let Err(error) = publisher.publish(payload) {
                if place == 0 || !error.is_retryable() || Instant::now() > until {
                    return Err(error);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(publishers.len())
    }

    /// Whether somebody wants it now, and brokers take it. For two seconds after nobody does, what is published goes out nevertheless.
    pub fn is_wanted(&self) -> bool {
        lock(&self.publishers).values().any(|(_, lingers)| !lingers)
    }
}

/// What was found that matches an interest. Iterate over it, or take messages one by one. Dropping it ends the interest.
pub struct Found {
    posting: Posting,
    receiver: Receiver<Message>,
    dropped: Arc<AtomicU64>,
}

impl Found {
    /// Waits for the next message. `None` when the client has ended, or [`Found::check`] says why.
    pub fn next_message(&self) -> Option<Message> {
        self.receiver.recv().ok()
    }

    /// Waits for the next message, but not for longer than this.
    pub fn next_within(&self, at_most: Duration) -> Option<Message> {
        self.receiver.recv_timeout(at_most).ok()
    }

    /// How many messages have come and are not taken yet.
    pub fn waiting(&self) -> usize {
        self.receiver.len()
    }

    /// Messages that this application did not take in time; the oldest were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// An error, with the reason, once nothing is found any more.
    pub fn check(&self) -> Result<(), Error> {
        self.posting.check()
    }
}

impl Iterator for Found {
    type Item = Message;

    fn next(&mut self) -> Option<Message> {
        self.next_message()
    }
}

/// One end of topics.
trait End: Send + 'static {
    fn client(&self) -> &Client;
    /// Begins with a topic.
    fn open(&mut self, topic: &str, contract: Option<Contract>, needs: Needs) -> Result<(), Error>;
    /// It is over.
    fn close(&mut self, topic: &str);
    /// It is over soon, or it is not any more.
    fn lingers(&mut self, topic: &str, does: bool) {
        let _ = (topic, does);
    }
}

/// Opens topics as they start. While there is no primary they wait.
struct Following<E, F> {
    end: E,
    hears: F,
    waiting: BTreeMap<String, (Option<Contract>, Needs)>,
    refused: Vec<(String, String)>,
}

impl<E: End, F: FnMut(&Met) + Send + 'static> Following<E, F> {
    fn new(end: E, hears: F) -> Following<E, F> {
        Following { end, hears, waiting: BTreeMap::new(), refused: Vec::new() }
    }
}

impl<E: End, F: FnMut(&Met) + Send + 'static> Hears for Following<E, F> {
    fn hear(&mut self, met: &Met) {
        (self.hears)(met);
        match met {
            Met::Start { topic, contract, needs, .. } => {
                self.waiting.insert(topic.clone(), (*contract, *needs));
                self.tick();
            }
            Met::Stop { topic } => {
                self.waiting.remove(topic);
                self.end.close(topic);
            }
            _ => {}
        }
    }

    fn take_refused(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.refused)
    }

    fn lingers(&mut self, topic: &str, does: bool) {
        self.end.lingers(topic, does);
    }

    fn tick(&mut self) {
        if self.waiting.is_empty() || !matches!(self.end.client().without_primary(), Ok(None)) {
            return;
        }
        for (topic, (contract, needs)) in std::mem::take(&mut self.waiting) {
            match self.end.open(&topic, contract, needs) {
                Ok(()) => {}
                Err(error) if error.is_retryable() => _ = self.waiting.insert(topic, (contract, needs)),
                Err(error) => {
                    let why = error.to_string();
                    // Of other topics it is not this client's word.
                    if topic.starts_with(MADE) {
                        self.refused.push((topic.clone(), why.clone()));
                    }
                    (self.hears)(&Met::Refused { topic, why });
                }
            }
        }
    }
}

struct Publishing {
    client: Client,
    publishers: Publishers,
}

impl End for Publishing {
    fn client(&self) -> &Client {
        &self.client
    }

    fn open(&mut self, topic: &str, contract: Option<Contract>, _needs: Needs) -> Result<(), Error> {
        if !topic.starts_with(MADE) {
            return Ok(());
        }
        let publisher = match contract {
            Some(contract) => match self.client.publisher(topic, contract) {
                // It costs nobody anything but this client's memory.
                Err(Error::Refused { remedies: Remedies { retain: Some(retain), .. }, .. })
                    if retain <= RETAIN_MAX =>
                {
                    self.client.publisher(topic, contract.retain(retain))
                }
                publisher => publisher,
            },
            // Nobody has said anything, unless the configuration does.
            None => self.client.publisher_as_configured(topic),
        };
        let publisher = publisher?;
        lock(&self.publishers).insert(topic.to_owned(), (publisher, false));
        Ok(())
    }

    fn close(&mut self, topic: &str) {
        lock(&self.publishers).remove(topic);
    }

    fn lingers(&mut self, topic: &str, does: bool) {
        if let Some((_, lingers)) = lock(&self.publishers).get_mut(topic) {
            *lingers = does;
        }
    }
}

struct Receiving {
    client: Client,
    sender: Sender<Message>,
    receiver: Receiver<Message>,
    dropped: Arc<AtomicU64>,
    open: BTreeMap<String, u32>,
}

impl End for Receiving {
    fn client(&self) -> &Client {
        &self.client
    }

    fn open(&mut self, topic: &str, _contract: Option<Contract>, needs: Needs) -> Result<(), Error> {
        let handler = queue(self.sender.clone(), self.receiver.clone(), Arc::clone(&self.dropped));
        let number = self.client.begin_subscription(topic, needs, handler)?;
        self.open.insert(topic.to_owned(), number);
        Ok(())
    }

    fn close(&mut self, topic: &str) {
        if let Some(number) = self.open.remove(topic) {
            self.client.unsubscribe(number);
        }
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        for number in std::mem::take(&mut self.open).into_values() {
            self.client.unsubscribe(number);
        }
    }
}
