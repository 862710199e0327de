//! Events: what goes from step to step, and where it is kept meanwhile.
//!
//! The problem: an event is read by several operators at different times on different threads, what it carries should be
//! copied once, and a message counts as processed only when nothing that was made of it is on its way any more. The idea:
//! an event is shared by reference and holds references to what it was made of. When the last reference goes, the event
//! returns to the store that it came from, and if it was a message, its receipt goes back to the broker. No path can forget
//! this: shed, replaced, failed and delivered events all end the same way.
//!
//! The last reference may go on a thread of any priority, and another thread may be interrupted in the middle of the same.
//! So nobody ever waits here: what cannot be had at once is made anew, and what cannot be kept at once is given up. The program's
//! allocator must not wait either (`node/allocator.rs`).

use crate::validity::Validity;
use contract::{StreamId, Time};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// Which message an event stands for: a result has the number of its first input, so that subscribers recognise a result
/// that is made again after a crash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Number {
    /// The broker's index of the stream.
    pub stream: StreamId,
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

    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    pub(crate) fn of_bits(bits: u8) -> Marks {
        Marks(bits & (Marks::OUT_OF_DATE.0 | Marks::APART.0))
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
    permit: Option<u32>,
    home: Option<Arc<Store>>,
}

impl Body {
    /// Ends the event. Returns where it came from.
    fn end(&mut self) -> Option<Arc<Store>> {
        self.parents.clear();
        self.payload.clear();
        self.marks = Marks::NONE;
        let home = self.home.take()?;
        if let (Some(permit), Some(permits)) = (self.permit.take(), &home.permits) {
            permits.give_back(permit);
        }
        Some(home)
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        // Its store did not get it back.
        if let Some(home) = self.end() {
            home.made.fetch_sub(1, Relaxed);
        }
    }
}

/// How much moves in an instance of a graph: events on their way to an operator or outside, operators that wait for their turn, and runs.
/// Where nothing moves, nothing does until somebody outside begins it.
#[derive(Debug, Default)]
pub(crate) struct Pulse(AtomicU64);

impl Pulse {
    /// Whether nothing moves.
    pub(crate) fn is_still(&self) -> bool {
        self.0.load(SeqCst) == 0
    }

    /// Something moves, until the token is dropped.
    pub(crate) fn beat(self: &Arc<Pulse>) -> Token {
        self.0.fetch_add(1, SeqCst);
        Token(Arc::clone(self))
    }
}

/// Something that moves.
#[derive(Debug)]
pub(crate) struct Token(Arc<Pulse>);

impl Drop for Token {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, SeqCst);
    }
}

/// A reference to an event.
#[derive(Debug)]
pub struct Event {
    body: Option<Arc<Body>>,
    /// It is on its way through an instance that remembers.
    moving: Option<Token>,
}

/// Another reference to the same event, which is on no way.
impl Clone for Event {
    fn clone(&self) -> Event {
        Event { body: self.body.clone(), moving: None }
    }
}

impl Event {
    /// The same event, on its way through an instance.
    pub(crate) fn on_its_way(self, pulse: Option<&Arc<Pulse>>) -> Event {
        let mut event = self;
        event.moving = pulse.map(Pulse::beat);
        event
    }

    /// It does not move any more, though somebody still has it.
    pub fn rests(&mut self) {
        self.moving = None;
    }

    /// It has arrived. What moved goes on with whoever has the token.
    pub(crate) fn arrive(&mut self) -> Option<Token> {
        self.moving.take()
    }
}

impl Deref for Event {
    type Target = Body;

    fn deref(&self) -> &Body {
        self.body.as_ref().expect("invariant: only dropping takes the reference")
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let Some(mut body) = self.body.take() else { return };
        // The usual case, seen by reading alone.
        if Arc::strong_count(&body) > 1 {
            return;
        }
        // Where two last references go at the same instant, neither is alone; the body is then freed and not kept.
        if let Some(home) = Arc::get_mut(&mut body).and_then(Body::end) {
            home.keep(body);
        }
    }
}

/// An event that is being made.
#[derive(Debug)]
pub struct Draft(Event);

impl Draft {
    /// What it will say.
    pub fn body(&mut self) -> &mut Body {
        let body = self.0.body.as_mut().and_then(Arc::get_mut);
        body.expect("invariant: nobody else has a draft")
    }

    /// Makes it an event.
    pub fn done(self) -> Event {
        self.0
    }
}

/// Permits for messages to be under way, by number. Giving one back never fails and never waits: it sets a bit.
#[derive(Debug)]
pub(crate) struct Permits {
    /// One bit each: has been given back.
    back: Box<[AtomicU64]>,
    /// One bit for each word of `back` that may hold some.
    words: Box<[AtomicU64]>,
}

impl Permits {
    /// So many permits.
    pub(crate) fn new(count: usize) -> Permits {
        let zeroes = |bits: usize| (0..bits.div_ceil(64).max(1)).map(|_| AtomicU64::new(0)).collect();
        let back: Box<[AtomicU64]> = zeroes(count);
        Permits { words: zeroes(back.len()), back }
    }

    fn give_back(&self, permit: u32) {
        let word = permit as usize / 64;
        self.back[word].fetch_or(1 << (permit % 64), SeqCst);
        self.words[word / 64].fetch_or(1 << (word % 64), SeqCst);
    }

    /// Takes all that have been given back.
    pub(crate) fn collect(&self, mut take: impl FnMut(u32)) {
        for (place, words) in self.words.iter().enumerate() {
            if words.load(Relaxed) == 0 {
                continue;
            }
            for word in bits(words.swap(0, SeqCst)).map(|bit| place * 64 + bit as usize) {
                bits(self.back[word].swap(0, SeqCst)).for_each(|bit| take(word as u32 * 64 + bit));
            }
        }
    }
}

/// The numbers of the bits that are set.
fn bits(mut set: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let lowest = (set != 0).then(|| set.trailing_zeros())?;
        set &= set - 1;
        Some(lowest)
    })
}

#[expect(clippy::disallowed_types, reason = "tried, never waited for; see above")]
type Free = std::sync::Mutex<Vec<Arc<Body>>>;

/// Events that a store begins with.
const MADE_AT_ONCE: usize = 4;

/// Where the events of one source are kept when nobody uses them: as many as can be true at once (C6).
#[derive(Debug)]
pub struct Store {
    free: Free,
    /// How many are kept at most.
    ring: usize,
    /// How many have been made.
    made: AtomicU64,
    permits: Option<Arc<Permits>>,
    /// How many events were made although their stores had none left, of all stores that count together.
    beyond: Arc<AtomicU64>,
}

impl Store {
    /// A store for so many events. Those that are made beyond that are counted in `beyond`.
    pub(crate) fn new(ring: usize, permits: Option<Arc<Permits>>, beyond: &Arc<AtomicU64>) -> Arc<Store> {
        let ring = ring.max(1);
        // Events that are true for long would take much room at once; those beyond the first are made when they are needed.
        let first = ring.min(MADE_AT_ONCE);
        let free = (0..first).map(|_| Arc::default()).collect();
        let made = AtomicU64::new(first as u64);
        Arc::new(Store { free: Free::new(free), ring, made, permits, beyond: Arc::clone(beyond) })
    }

    /// An empty event. If all that the ring has are in use, one more is made and counted. `permit`: to be given back when it ends.
    pub(crate) fn draft(self: &Arc<Store>, permit: Option<u32>) -> Draft {
        let kept = self.free.try_lock().ok().and_then(|mut free| free.pop());
        let body = kept.unwrap_or_else(|| {
            if self.made.fetch_add(1, Relaxed) >= self.ring as u64 {
                self.beyond.fetch_add(1, Relaxed);
            }
            Arc::default()
        });
        let mut draft = Draft(Event { body: Some(body), moving: None });
        let body = draft.body();
        (body.home, body.permit) = (Some(Arc::clone(self)), permit);
        draft
    }

    fn keep(&self, body: Arc<Body>) {
        if let Ok(mut free) = self.free.try_lock()
            && free.len() < self.ring
        {
            free.push(body);
        } else {
            self.made.fetch_sub(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(permits: &Permits) -> Vec<u32> {
        let mut back = Vec::new();
        permits.collect(|permit| back.push(permit));
        back
    }

    #[test]
    fn a_message_is_processed_when_nothing_made_of_it_is_left() {
        let permits = Arc::new(Permits::new(8));
        let supplier = Store::new(1, Some(Arc::clone(&permits)), &Arc::default());
        let results = Store::new(1, None, &Arc::default());
        let message = supplier.draft(Some(7)).done();
        let mut result = results.draft(None);
        result.body().parents.push(message.clone());
        let result = result.done();
        drop(message);
        assert_eq!(back(&permits), [] as [u32; 0], "its result is on its way");
        let another = result.clone();
        drop(result);
        assert_eq!(back(&permits), [] as [u32; 0]);
        drop(another);
        assert_eq!(back(&permits), [7]);
        assert_eq!(back(&permits), [] as [u32; 0]);
    }

    #[test]
    fn events_are_used_again_and_those_beyond_the_ring_are_counted() {
        let beyond = Arc::default();
        let store = Store::new(1, None, &beyond);
        let mut first = store.draft(None);
        first.body().payload.extend_from_slice(b"something long enough");
        let place = first.body().payload.as_ptr();
        drop(first.done());
        let mut again = store.draft(None);
        again.body().payload.push(1);
        assert_eq!(again.body().payload.as_ptr(), place, "the same memory");
        assert_eq!(beyond.load(Relaxed), 0);
        let second = store.draft(None).done();
        assert_eq!(beyond.load(Relaxed), 1);
        drop((again, second));
        assert_eq!(store.free.try_lock().unwrap().len(), 1);
    }

    #[test]
    fn a_reference_can_be_dropped_on_any_thread() {
        let permits = Arc::new(Permits::new(10_000));
        let store = Store::new(4, Some(Arc::clone(&permits)), &Arc::default());
        for permit in (0..10_000).step_by(10) {
            let event = store.draft(Some(permit)).done();
            let other = event.clone();
            let thread = std::thread::Builder::new().spawn(move || drop(other)).unwrap();
            drop(event);
            thread.join().unwrap();
        }
        assert_eq!(back(&permits), (0..10_000).step_by(10).collect::<Vec<_>>(), "each once");
    }
}
