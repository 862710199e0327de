//! Watches that wait for their ring.
//!
//! The problem: the client hands out a watcher with each read, also where one of the same node waits already, and each would ring. The
//! idea: one watcher a node and kind; a later one takes the place of the former. The former is asked before it goes, since it may have
//! rung.

use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use tokio::sync::oneshot;
use zookeeper_client::{EventType, OneshotWatcher};

/// What is watched of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Kind {
    Data,
    Children,
}

type Key = (Kind, String);
type Waiting = Pin<Box<dyn Future<Output = Ended> + Send>>;

struct Ended {
    key: Key,
    number: u64,
    rang: bool,
}

/// See the module's words.
#[derive(Default)]
pub(crate) struct Watches {
    waiting: FuturesUnordered<Waiting>,
    /// The number of the one that counts, and how it is told to go.
    current: HashMap<Key, (u64, oneshot::Sender<()>)>,
    numbers: u64,
}

async fn wait(key: Key, number: u64, watcher: OneshotWatcher, replaced: oneshot::Receiver<()>) -> Ended {
    let rang = tokio::select! {
        biased;
        event = watcher.changed() => event.event_type != EventType::Session,
        _ = replaced => false,
    };
    Ended { key, number, rang }
}

impl Watches {
    /// A read has left a watch. Returns whether it has rung already.
    pub(crate) async fn add(&mut self, kind: Kind, path: String, watcher: OneshotWatcher) -> bool {
        self.numbers += 1;
        let (replace, replaced) = oneshot::channel();
        let key = (kind, path);
        let mut waiting: Waiting = Box::pin(wait(key.clone(), self.numbers, watcher, replaced));
        // The former goes when its sender is dropped here.
        self.current.insert(key, (self.numbers, replace));
        match poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context))).await {
            Poll::Ready(ended) => self.end(ended).is_some(),
            Poll::Pending => {
                self.waiting.push(waiting);
                false
            }
        }
    }

    fn end(&mut self, ended: Ended) -> Option<String> {
        if self.current.get(&ended.key).is_some_and(|(number, _)| *number == ended.number) {
            self.current.remove(&ended.key);
        }
        ended.rang.then_some(ended.key.1)
    }

    /// The next node of which a watch rings. Ready only then.
    pub(crate) async fn next(&mut self) -> String {
        loop {
            match self.waiting.next().await {
                Some(ended) => {
                    if let Some(path) = self.end(ended) {
                        return path;
                    }
                }
                None => std::future::pending().await,
            }
        }
    }

    /// The session is over, and its watches with it.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.current.clear();
    }
}
