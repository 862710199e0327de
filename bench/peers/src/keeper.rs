//! The least that a broker does which keeps messages and serves them by deadline: it cuts what came into messages, notes their
//! numbers, keeps them in a ring for each topic, and writes them out, the earliest deadline first. No contracts but one, no admission,
//! no copies, no lists of subscribers, no rights, no accounts of latency.

use crate::account::Head;
use std::io;

/// Messages of one topic that are kept; as many as a broker keeps unless a contract needs more.
const SLOTS: usize = 8;
/// What every topic promises.
const DEADLINE_NS: u64 = 100_000_000;
const TOPICS_MAX: usize = 1 << 17;
/// The length in front of a payload.
const LENGTH_BYTES: usize = 4;

/// One channel.
#[derive(Default)]
pub struct Keeper {
    /// The beginning of a message whose end has not come.
    partial: Vec<u8>,
    topics: Vec<Topic>,
    jobs: Vec<Job>,
    output: Vec<u8>,
}

#[derive(Clone, Default)]
#[repr(align(64))]
struct Topic {
    /// The number after the highest that has come.
    next: u32,
    missing: u32,
    ticket: u32,
    /// Bytes between two payloads.
    room: u32,
    payloads: Box<[u8]>,
    slots: [Slot; SLOTS],
}

#[derive(Clone, Copy, Default)]
struct Slot {
    seq: u32,
    length: u32,
    waits: bool,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Job {
    deadline_ns: u64,
    order: u32,
    topic: u32,
    slot: u32,
}

impl Keeper {
    /// What subscribers get of what a publisher sent, after what came before.
    ///
    /// # Errors
    /// What came is no message of the load, or there are too many topics.
    pub fn pass(&mut self, portion: &[u8]) -> io::Result<&[u8]> {
        self.output.clear();
        let mut whole = std::mem::take(&mut self.partial);
        let used = if whole.is_empty() {
            self.keep_all(portion)?
        } else {
            whole.extend_from_slice(portion);
            self.keep_all(&whole)?
        };
        if whole.is_empty() {
            whole.extend_from_slice(&portion[used..]);
        } else {
            whole.drain(..used);
        }
        self.partial = whole;
        self.serve();
        Ok(&self.output)
    }

    /// Keeps the messages that are whole. Returns how many bytes they are.
    fn keep_all(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut at = 0;
        while let Some(length) = bytes[at..].first_chunk() {
            let from = at + LENGTH_BYTES;
            let Some(payload) = bytes.get(from..from + u32::from_le_bytes(*length) as usize) else { break };
            self.keep(payload)?;
            at = from + payload.len();
        }
        Ok(at)
    }

    fn keep(&mut self, payload: &[u8]) -> io::Result<()> {
        let head = Head::of(payload).filter(|head| (head.topic as usize) < TOPICS_MAX);
        let Some(head) = head else {
            return Err(io::Error::other("no message of a load that a floor knows"));
        };
        let number = head.topic as usize;
        if number >= self.topics.len() {
            self.topics.resize(number + 1, Topic::default());
        }
        if self.topics[number].is_full() {
            self.serve();
        }
        let topic = &mut self.topics[number];
        if head.seq < topic.next && topic.slots.iter().any(|slot| slot.seq == head.seq) {
            return Ok(());
        }
        if head.seq >= topic.next {
            topic.missing += head.seq - topic.next;
            topic.next = head.seq + 1;
        }
        let slot = topic.put(head.seq, payload);
        let order = self.jobs.len() as u32;
        self.jobs.push(Job { deadline_ns: head.due_ns + DEADLINE_NS, order, topic: head.topic, slot });
        Ok(())
    }

    /// Writes out what waits.
    fn serve(&mut self) {
        self.jobs.sort_unstable();
        for job in self.jobs.drain(..) {
            let topic = &mut self.topics[job.topic as usize];
            let slot = &mut topic.slots[job.slot as usize];
            self.output.extend_from_slice(&slot.length.to_le_bytes());
            let from = (job.slot * topic.room) as usize;
            self.output.extend_from_slice(&topic.payloads[from..from + slot.length as usize]);
            slot.waits = false;
        }
    }
}

impl Topic {
    /// Whether the next message would overwrite one that waits.
    fn is_full(&self) -> bool {
        self.slots[self.ticket as usize % SLOTS].waits
    }

    /// Returns the slot.
    fn put(&mut self, seq: u32, payload: &[u8]) -> u32 {
        if payload.len() > self.room as usize {
            // Payloads of a load are all of one length: nothing is lost by it.
            self.room = payload.len() as u32;
            self.payloads = vec![0; SLOTS * payload.len()].into_boxed_slice();
        }
        let slot = self.ticket % SLOTS as u32;
        self.ticket = self.ticket.wrapping_add(1);
        self.slots[slot as usize] = Slot { seq, length: payload.len() as u32, waits: true };
        self.payloads[(slot * self.room) as usize..][..payload.len()].copy_from_slice(payload);
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 20;

    fn message(due_ns: u64, topic: u32, seq: u32) -> Vec<u8> {
        let mut payload = [0; BYTES];
        Head { due_ns, topic, seq }.put(&mut payload);
        [&(BYTES as u32).to_le_bytes()[..], &payload].concat()
    }

    #[test]
    fn the_earliest_deadline_leaves_first_wherever_what_came_is_cut() {
        let came = [message(9, 1, 0), message(5, 0, 0), message(7, 2, 0), message(7, 1, 1)];
        let bytes = came.concat();
        let mut keeper = Keeper::default();
        let expected = [&came[1][..], &came[2], &came[3], &came[0]].concat();
        assert_eq!(keeper.pass(&bytes).unwrap(), expected);
        for cut in 0..bytes.len() {
            let mut keeper = Keeper::default();
            let mut left = keeper.pass(&bytes[..cut]).unwrap().to_vec();
            left.extend_from_slice(keeper.pass(&bytes[cut..]).unwrap());
            assert_eq!(left.len(), expected.len());
            came.iter().for_each(|one| assert!(left.chunks(one.len()).any(|left| left == one)));
        }
    }

    #[test]
    fn more_of_a_topic_than_it_has_slots_are_served_in_between() {
        let came: Vec<_> = (0..3 * SLOTS as u32).map(|seq| message(u64::from(seq), 0, seq)).collect();
        let mut keeper = Keeper::default();
        assert_eq!(keeper.pass(&came.concat()).unwrap(), came.concat());
        assert!(keeper.pass(&came[came.len() - 2]).unwrap().is_empty(), "it came before");
        assert_eq!((keeper.topics[0].next, keeper.topics[0].missing), (3 * SLOTS as u32, 0));
        assert!(keeper.pass(&message(0, TOPICS_MAX as u32, 0)).is_err());
    }
}
