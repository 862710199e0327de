#![allow(clippy::unwrap_used, reason = "a test")]
use super::*;
use crate::demand::Load;
use proptest::prelude::*;
use std::collections::BTreeSet;

const WHOLE: Supply = Supply { share_ppm: 1_000_000, blocking: Span::ZERO };
/// No time that matters.
const LONG: Span = Span::secs(10);

/// Publishers and subscribers on connections of their own, as a loop has them.
#[derive(Clone, Debug)]
struct Made {
    io: Io,
    turn: i64,
    /// Period, receivers, and cost of each stream's messages.
    streams: Vec<(i64, u32, i64)>,
    subscribers: u32,
    jitter: i64,
    poll: i64,
    blocking: i64,
}

impl Made {
    fn clients(&self) -> u64 {
        self.streams.len() as u64 + u64::from(self.subscribers)
    }

    fn load(&self) -> Load {
        let pace = Pace {
            turn: Span(self.turn),
            arrival: Span::ZERO,
            poll: Span(self.poll),
            jitter: Span(self.jitter),
            last: Span::ZERO,
        };
        let mut load = Load::default().paced(pace);
        for &(period, writes, cost) in &self.streams {
            let (deadline, period) = (Span::FOREVER, Span(period));
            load.add(Job { deadline, period, cost: Span(cost), writes, bytes: 0 }, 1);
        }
        load.crowd_mut().add(self.io, self.clients());
        load
    }

    fn bound(&self) -> Option<Span> {
        let supply = Supply { blocking: Span(self.blocking), ..WHOLE };
        self.load().rounds(&supply, LONG).ok()
    }

    /// The longest that a message waits until it has left a loop which reads all that is there, does it, and writes. `phases` are when the
    /// first message of each stream is made, `late` by how much each is delayed on its way, within the jitter, and `polls` when each client
    /// polls for the first time.
    fn longest(&self, phases: &[i64], late: &[i64], polls: impl Fn(i64) -> i64, horizon: i64) -> i64 {
        let mut comes: Vec<(i64, usize)> = Vec::new();
        for (stream, &(period, ..)) in self.streams.iter().enumerate() {
            let phase = phases.get(stream).copied().unwrap_or(0) % period;
            for number in 0..(horizon - phase).max(0) / period {
                let delay = late.get((number as usize + stream) % late.len()).copied().unwrap_or(0);
                comes.push((phase + number * period + delay % (self.jitter + 1), stream));
            }
        }
        comes.sort_unstable();
        let mut polls: Vec<i64> = (0..self.clients() as i64).map(polls).collect();
        let (mut now, mut next, mut longest) = (0_i64, 0, 0);
        while let Some(&(first, _)) = comes.get(next) {
            now = now.max(first.min(polls.iter().copied().min().unwrap_or(i64::MAX)));
            let (begun, taken) = (now, next);
            let mut work = self.turn + self.blocking;
            // By the number of the connection: publishers first.
            let (mut read, mut written) = (BTreeSet::new(), BTreeSet::new());
            for (client, poll) in polls.iter_mut().enumerate().filter(|(_, poll)| **poll <= begun) {
                read.insert(client);
                written.insert(client);
                *poll += self.poll;
            }
            while let Some(&(_, stream)) = comes.get(next).filter(|(came, _)| *came <= begun) {
                let (_, receivers, cost) = self.streams[stream];
                work += cost;
                read.insert(stream);
                let receiver = |number| self.streams.len() + (number + stream) % self.subscribers as usize;
                written.extend((0..receivers as usize).map(receiver));
                next += 1;
            }
            now += work + self.io.read.0 * read.len() as i64 + self.io.write.0 * written.len() as i64;
            longest = comes[taken..next].iter().map(|(came, _)| now - came).fold(longest, i64::max);
        }
        longest
    }
}

fn made() -> impl Strategy<Value = Made> {
    let io = (0_i64..4, 0_i64..6).prop_map(|(read, write)| Io {
        read: Span(read),
        write: Span(write),
        kib: Span::ZERO,
    });
    let streams = prop::collection::vec((20_i64..400, 1_u32..8, 1_i64..10), 1..8);
    (io, 0_i64..6, streams, 1_u32..12, 0_i64..40, 100_i64..500, 0_i64..5).prop_map(
        |(io, turn, streams, subscribers, jitter, poll, blocking)| {
            let streams = streams
                .into_iter()
                .map(|(period, receivers, cost)| (period, receivers.min(subscribers), cost))
                .collect();
            Made { io, turn, streams, subscribers, jitter, poll, blocking }
        },
    )
}

#[test]
fn a_message_for_many_connections_costs_a_write_for_each() {
    let io = Io { read: Span(1), write: Span(5), kib: Span::ZERO };
    let wide = |subscribers: u32| Made {
        io,
        turn: 3,
        streams: vec![(100_000, subscribers, 10)],
        subscribers,
        jitter: 0,
        poll: 1_000_000,
        blocking: 0,
    };
    // Two turns, the message, and each client's poll read and answered in the other turn than the message.
    for subscribers in [1_u32, 10, 1_000] {
        let clients = i64::from(subscribers) + 1;
        let polls = clients * (1 + 5) + 1;
        let bound = wide(subscribers).bound().unwrap();
        assert_eq!(bound, Span(2 * 3 + 10 + 5 * i64::from(subscribers) + polls), "{subscribers}");
    }
}

#[test]
fn many_messages_for_one_connection_cost_a_write_for_each_turn() {
    let io = Io { read: Span(2), write: Span(50), kib: Span::ZERO };
    let made = Made {
        io,
        turn: 0,
        streams: vec![(1_000_000, 1, 1); 500],
        subscribers: 1,
        jitter: 0,
        poll: 10_000_000,
        blocking: 0,
    };
    let mut load = made.load();
    load.crowd_mut().remove(io, 499);
    assert_eq!(load.rounds(&WHOLE, LONG), Ok(Span(500 + 2 * 2 * 2 + 2 * 2 * 50)));
}

#[test]
fn what_never_settles_says_so() {
    let made = Made {
        io: Io::default(),
        turn: 0,
        streams: vec![(10, 1, 6), (10, 1, 6)],
        subscribers: 1,
        jitter: 0,
        poll: 1_000,
        blocking: 0,
    };
    assert!(made.load().rounds(&WHOLE, Span(500)).is_err_and(|got| got > Span(500)));
    assert_eq!(made.bound(), None);
}

#[test]
fn bytes_count_once_in_and_once_for_each_receiver() {
    let io = Io { read: Span::ZERO, write: Span::ZERO, kib: Span(100) };
    let mut load = Load::default().paced(Pace::default());
    load.crowd_mut().add(io, 1);
    load.add(Job { deadline: LONG, period: LONG, cost: Span(1), writes: 3, bytes: 2_048 }, 1);
    assert_eq!(load.rounds(&WHOLE, LONG), Ok(Span(1 + 4 * 200)));
}

#[test]
fn who_is_served_last_takes_the_same_of_each_turn_however_many_they_are() {
    let io = Io { read: Span(2), write: Span(50), kib: Span(1) };
    let load = |best_effort| {
        let mut load = Load::default().paced(Pace { last: Span(3), ..Pace::default() });
        load.crowd_mut().add(io, 2);
        load.add(Job { deadline: LONG, period: LONG, cost: Span(1), writes: 1, bytes: 0 }, 1);
        load.add_best_effort(best_effort);
        load
    };
    let without = load(0).rounds(&WHOLE, LONG).unwrap();
    let last = Span(3) * LAST_MESSAGES as u64 + Span(50) * LAST_WRITES + Span((LAST_BYTES >> 10) as i64);
    assert_eq!(load(1).rounds(&WHOLE, LONG), Ok(without + last * 2));
    assert_eq!(load(1_000).rounds(&WHOLE, LONG), Ok(without + last * 2));
    let mut load = load(7);
    load.remove_best_effort(7);
    assert_eq!(load.rounds(&WHOLE, LONG), Ok(without));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// No message waits longer than the bound says, whatever the phases, the jitter within its limit, and the polls.
    #[test]
    fn whatever_comes_has_left_within_the_bound(
        made in made(),
        phases in prop::collection::vec(0_i64..400, 8),
        late in prop::collection::vec(0_i64..40, 1..20),
    ) {
        let Some(bound) = made.bound() else { return Ok(()) };
        let longest = made.longest(&phases, &late, |client| client * 7 % made.poll, 4_000);
        prop_assert!(longest <= bound.0, "{} > {}", longest, bound.0);
    }

    /// The bound is worth something: where everything comes just too late for a turn in which all clients are answered, it is needed but for
    /// a third and the moment by which it was too late.
    #[test]
    fn the_bound_is_not_idle(made in made()) {
        let streams = made.streams.iter().map(|(period, receivers, cost)| (period + 1_000, *receivers, *cost));
        let made = Made { streams: streams.collect(), jitter: 0, poll: 10_000, ..made };
        let Some(bound) = made.bound() else { return Ok(()) };
        let longest = made.longest(&[1; 8], &[0], |_| 0, 4_000);
        prop_assert!(3 * (longest + 1) >= 2 * bound.0, "{} of {}", longest, bound.0);
    }
}
