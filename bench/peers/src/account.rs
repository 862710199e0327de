//! What a message carries besides padding, and the account of what has come.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use verge_bench_mqtt::observed::Times;
use verge_bench_mqtt::poller::now_ns;

/// The smallest payload.
pub const HEAD_BYTES: i64 = 16;

/// The first bytes of every payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// When it was to be sent.
    pub due_ns: u64,
    /// Its topic's number.
    pub topic: u32,
    /// Its number in the topic, from zero.
    pub seq: u32,
}

impl Head {
    /// Writes it.
    pub fn put(&self, payload: &mut [u8]) {
        payload[..8].copy_from_slice(&self.due_ns.to_le_bytes());
        payload[8..12].copy_from_slice(&self.topic.to_le_bytes());
        payload[12..16].copy_from_slice(&self.seq.to_le_bytes());
    }

    /// Reads it.
    pub fn of(payload: &[u8]) -> Option<Head> {
        let word = |at: usize| Some(u32::from_le_bytes(*payload.get(at..)?.first_chunk()?));
        let due_ns = u64::from_le_bytes(*payload.first_chunk()?);
        Some(Head { due_ns, topic: word(8)?, seq: word(12)? })
    }
}

/// One topic, as it has come.
#[derive(Clone, Copy, Default)]
struct Line {
    next: u32,
    longest_run: u32,
}

/// What has come on one connection.
pub struct Account {
    bytes: usize,
    lines: Vec<Line>,
    /// Each counted once, unless it came again after a later one.
    pub received: u64,
    /// Came with a number that was not above the last.
    pub repeated: u64,
    /// Were no messages of this load, or had another length.
    pub strange: u64,
    /// Came after their deadline, of those that count.
    pub late: u64,
    /// By class of the topic, of what was due while measuring.
    pub times: Vec<Times>,
    classes: Vec<(u32, u64)>,
    window_ns: (u64, u64),
    counter: Arc<AtomicU64>,
    reached: Arc<AtomicU64>,
    home: Arc<Mutex<Vec<Account>>>,
}

/// Where connections put their accounts when they end.
#[derive(Clone, Default)]
pub struct Accounts {
    home: Arc<Mutex<Vec<Account>>>,
    /// All that have come, by now.
    pub delivered: Arc<AtomicU64>,
    /// Of each connection: the number after the last that has come, whatever is missing before it.
    reached: Arc<Mutex<Vec<Arc<AtomicU64>>>>,
}

/// Topics that are measured together.
#[derive(Clone, Copy)]
pub struct Class {
    /// How many; they follow those of the class before.
    pub topics: u32,
    /// From due to arrival.
    pub deadline_ns: u64,
    /// Which histogram.
    pub group: u32,
}

impl Accounts {
    /// A connection's account of these classes; latency counts for what is due within the window.
    pub fn open(&self, bytes: usize, classes: &[Class], window_ns: (u64, u64)) -> Account {
        let reached = Arc::new(AtomicU64::new(0));
        self.reached.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&reached));
        let groups = classes.iter().map(|class| class.group + 1).max().unwrap_or(0);
        let each = |class: &Class| vec![(class.group, class.deadline_ns); class.topics as usize];
        let classes: Vec<(u32, u64)> = classes.iter().flat_map(each).collect();
        Account {
            bytes,
            lines: vec![Line::default(); classes.len()],
            received: 0,
            repeated: 0,
            strange: 0,
            late: 0,
            times: (0..groups).map(|_| Times::new()).collect(),
            classes,
            window_ns,
            counter: Arc::clone(&self.delivered),
            reached,
            home: Arc::clone(&self.home),
        }
    }

    /// Those of connections that have ended.
    pub fn collect(&self) -> Vec<Account> {
        std::mem::take(&mut self.home.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The number that no connection is behind, where all have the same topic and no other.
    pub fn reached(&self) -> u64 {
        let all = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|one| one.load(Ordering::Relaxed)).min().unwrap_or(0)
    }

    /// All that have come, by now.
    pub fn count(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }
}

impl Account {
    /// A message has come. Latency is looked at only with `timed`: asking the clock costs more than all the rest.
    pub fn take(&mut self, payload: &[u8], timed: bool) {
        let head = Head::of(payload).filter(|head| (head.topic as usize) < self.lines.len());
        let Some(head) = head.filter(|_| payload.len() == self.bytes) else {
            self.strange += 1;
            return;
        };
        let line = &mut self.lines[head.topic as usize];
        if head.seq < line.next {
            self.repeated += 1;
            return;
        }
        line.longest_run = line.longest_run.max(head.seq - line.next);
        line.next = head.seq + 1;
        self.received += 1;
        self.counter.fetch_add(1, Ordering::Relaxed);
        self.reached.store(u64::from(line.next), Ordering::Relaxed);
        if timed && (self.window_ns.0..self.window_ns.1).contains(&head.due_ns) {
            let took = now_ns().saturating_sub(head.due_ns);
            let (group, deadline_ns) = self.classes[head.topic as usize];
            self.times[group as usize].note(took);
            self.late += u64::from(took > deadline_ns);
        }
    }

    /// The longest run of losses of a topic of which so many were sent.
    pub fn longest_run(&self, topic: usize, sent: u32) -> u32 {
        let Some(line) = self.lines.get(topic) else { return sent };
        line.longest_run.max(sent.saturating_sub(line.next))
    }

    /// Hands it over.
    pub fn close(self) {
        let home = Arc::clone(&self.home);
        home.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASS: Class = Class { topics: 2, deadline_ns: 1, group: 0 };

    fn come(account: &mut Account, topic: u32, seq: u32) {
        let mut payload = [0; 20];
        Head { due_ns: 5, topic, seq }.put(&mut payload);
        account.take(&payload, true);
    }

    #[test]
    fn gaps_repetitions_and_a_missing_end_are_seen() {
        let mut account = Accounts::default().open(20, &[CLASS], (0, 10));
        [0, 1, 4, 3, 5].into_iter().for_each(|seq| come(&mut account, 1, seq));
        assert_eq!((account.received, account.repeated, account.late), (4, 1, 4));
        assert_eq!(account.longest_run(1, 6), 2);
        assert_eq!(account.longest_run(1, 10), 4);
        assert_eq!(account.longest_run(0, 3), 3);
    }

    #[test]
    fn what_is_no_message_of_the_load_is_counted_as_strange() {
        let mut account = Accounts::default().open(20, &[CLASS], (0, 10));
        account.take(&[0; 19], true);
        come(&mut account, 2, 0);
        assert_eq!((account.received, account.strange), (0, 2));
    }
}
