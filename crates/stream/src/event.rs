//! Events: what goes from step to step, and where it is kept meanwhile.
//!
//! The problem: an event is read by several operators at different times on different threads, what it carries should be
//! copied once, and a message counts as processed only when nothing that was made of it is on its way any more. The idea:
//! an event is shared by reference and holds references to what it was made of. When the last reference goes, the event
//! returns to the store that it came from, and if it was a message, its receipt goes back to the broker. No path can forget
//! this: shed, replaced, failed and delivered events all end the same way.

use crate::validity::Validity;
use contract::{Receipt, Time};
use crossbeam_queue::ArrayQueue;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Which message an event stands for: a result has the number of its first input, so that subscribers recognise a result
/// that is made again after a crash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Number {
    /// The broker's index of the stream.
    pub stream: u32,
    /// The incarnation of its publisher.
    pub incarnation: u64,
    /// The message's number.
    pub seq: u64,
}

/// What is wrong with an event in time, where violations are marked and not shed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marks(u8);

impl Marks {
    /// Nothing.
    pub const NONE: Marks = Marks(0);
    /// Something that it is made of was out of date.
    pub const OUT_OF_DATE: Marks = Marks(1);
    /// What it is made of was too far apart.
    pub const APART: Marks = Marks(2);

    /// Both together.
    #[must_use]
    pub fn with(self, other: Marks) -> Marks {
        Marks(self.0 | other.0)
    }

    /// Whether all of `other` is marked.
    pub fn contains(self, other: Marks) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What an event says.
#[derive(Debug, Default)]
pub struct Body {
    /// When it is true.
    pub validity: Validity,
    /// When the results that it leads to are due; [`Time::NEVER`] if nobody said.
    pub deadline: Time,
    /// Which message it stands for.
    pub number: Number,
    /// What is wrong with it.
    pub marks: Marks,
    /// What it carries.
    pub payload: Vec<u8>,
    /// What it was made of.
    pub(crate) parents: Vec<Event>,
    receipt: Option<Receipt>,
    home: Option<Arc<Store>>,
}

impl Body {
    /// Ends the event. Returns where it came from.
    fn end(&mut self) -> Option<Arc<Store>> {
        self.parents.clear();
        self.payload.clear();
        self.marks = Marks::NONE;
        let home = self.home.take()?;
        if let (Some(receipt), Some(done)) = (self.receipt.take(), &home.done) {
            // There is a place for each event under way; see `Receipts`.
            let _ = done.0.push(receipt);
        }
        Some(home)
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.end();
    }
}

/// A reference to an event.
#[derive(Clone, Debug)]
pub struct Event(Option<Arc<Body>>);

impl Deref for Event {
    type Target = Body;

    fn deref(&self) -> &Body {
        self.0.as_ref().expect("invariant: only dropping takes the reference")
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let Some(mut body) = self.0.take() else { return };
        // Where two last references go at the same instant, neither is alone; the body is then freed and not kept.
        if let Some(home) = Arc::get_mut(&mut body).and_then(Body::end) {
            let _ = home.free.push(body);
        }
    }
}

/// An event that is being made.
#[derive(Debug)]
pub struct Draft(Event);

impl Draft {
    /// What it will say.
    pub fn body(&mut self) -> &mut Body {
        let body = self.0.0.as_mut().and_then(Arc::get_mut);
        body.expect("invariant: nobody else has a draft")
    }

    /// Makes it an event.
    pub fn done(self) -> Event {
        self.0
    }
}

/// Messages that have been processed, on their way back to the broker.
#[derive(Debug)]
pub struct Receipts(ArrayQueue<Receipt>);

impl Receipts {
    /// With places for so many messages; more must not be under way.
    pub fn new(places: usize) -> Receipts {
        Receipts(ArrayQueue::new(places.max(1)))
    }

    /// The next one.
    pub fn pop(&self) -> Option<Receipt> {
        self.0.pop()
    }
}

/// Where the events of one source are kept when nobody uses them: as many as can be true at once (C6).
#[derive(Debug)]
pub struct Store {
    free: ArrayQueue<Arc<Body>>,
    done: Option<Arc<Receipts>>,
    beyond: AtomicU64,
}

impl Store {
    /// A store for so many events. `done`: where messages go when they have been processed; for suppliers.
    pub fn new(ring: usize, done: Option<Arc<Receipts>>) -> Arc<Store> {
        let free = ArrayQueue::new(ring.max(1));
        while free.push(Arc::default()).is_ok() {}
        Arc::new(Store { free, done, beyond: AtomicU64::new(0) })
    }

    /// An empty event. If all are in use, one more is made and counted.
    pub fn draft(self: &Arc<Store>, receipt: Option<Receipt>) -> Draft {
        let body = self.free.pop().unwrap_or_else(|| {
            self.beyond.fetch_add(1, Ordering::Relaxed);
            Arc::default()
        });
        let mut draft = Draft(Event(Some(body)));
        let body = draft.body();
        (body.home, body.receipt) = (Some(Arc::clone(self)), receipt);
        draft
    }

    /// How many events were made although the store had none left.
    pub fn beyond(&self) -> u64 {
        self.beyond.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(ticket: u32) -> Option<Receipt> {
        Some(Receipt { stream: 1, ticket, round: 0 })
    }

    #[test]
    fn a_message_is_processed_when_nothing_made_of_it_is_left() {
        let receipts = Arc::new(Receipts::new(4));
        let supplier = Store::new(1, Some(Arc::clone(&receipts)));
        let results = Store::new(1, None);
        let message = supplier.draft(receipt(7)).done();
        let mut result = results.draft(None);
        result.body().parents.push(message.clone());
        let result = result.done();
        drop(message);
        assert_eq!(receipts.pop(), None, "its result is on its way");
        let another = result.clone();
        drop(result);
        assert_eq!(receipts.pop(), None);
        drop(another);
        assert_eq!(receipts.pop(), receipt(7));
        assert_eq!(receipts.pop(), None);
    }

    #[test]
    fn events_are_used_again_and_those_beyond_the_ring_are_counted() {
        let store = Store::new(1, None);
        let mut first = store.draft(None);
        first.body().payload.extend_from_slice(b"something long enough");
        let place = first.body().payload.as_ptr();
        drop(first.done());
        let mut again = store.draft(None);
        again.body().payload.push(1);
        assert_eq!(again.body().payload.as_ptr(), place, "the same memory");
        assert_eq!(store.beyond(), 0);
        let second = store.draft(None).done();
        assert_eq!(store.beyond(), 1);
        drop((again, second));
        assert_eq!(store.free.len(), 1);
    }

    #[test]
    fn a_reference_can_be_dropped_on_any_thread() {
        let receipts = Arc::new(Receipts::new(1_000));
        let store = Store::new(4, Some(Arc::clone(&receipts)));
        for ticket in 0..1_000 {
            let event = store.draft(receipt(ticket)).done();
            let other = event.clone();
            let thread = std::thread::Builder::new().spawn(move || drop(other)).unwrap();
            drop(event);
            thread.join().unwrap();
        }
        let mut tickets: Vec<u32> =
            std::iter::from_fn(|| receipts.pop()).map(|receipt| receipt.ticket).collect();
        tickets.sort_unstable();
        assert_eq!(tickets, (0..1_000).collect::<Vec<_>>(), "each once");
    }
}
