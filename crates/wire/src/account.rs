//! What subscribers tell the primary of what came to them: how long it took, what was late, what is missing. A broker sees what leaves it;
//! whether that has arrived, and when, is known at the other end only.

use contract::Span;

/// Where the buckets of latencies end; what takes longer has one more bucket. Deadlines of machines are between 1 ms and 1 s,
/// and the least that a broker adds is some 50 us.
pub const LATENCY_BUCKETS: [Span; 14] = [
    Span::micros(50),
    Span::micros(100),
    Span::micros(200),
    Span::micros(500),
    Span::millis(1),
    Span::millis(2),
    Span::millis(5),
    Span::millis(10),
    Span::millis(20),
    Span::millis(50),
    Span::millis(100),
    Span::millis(200),
    Span::millis(500),
    Span::secs(1),
];

/// The buckets, the one without an end included.
pub const LATENCY_COUNTS: usize = LATENCY_BUCKETS.len() + 1;

/// The bucket of a latency.
#[inline]
pub fn bucket_of(latency: Span) -> usize {
    LATENCY_BUCKETS.partition_point(|end| *end < latency)
}

/// A subscriber to the primary: what has come of one class of contracts since it was last said. Messages that were sent again after a
/// failover are not in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Received {
    /// The class, by the number in [`crate::Announce`].
    pub class: u16,
    /// Messages by the time from creation to arrival, see [`LATENCY_BUCKETS`]. Not cumulative.
    pub latency: [u32; LATENCY_COUNTS],
    /// The sum of those times, in nanoseconds.
    pub latency_nanos: u64,
}

/// A subscriber to the primary: what was wrong with a stream since it was last said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Trouble {
    /// The broker's number of the stream.
    pub stream: u32,
    /// Messages that are missing for good.
    pub lost: u32,
    /// The longest run of those.
    pub run: u32,
    /// Messages that came after their deadline, except those that were sent again after a failover.
    pub late: u32,
    /// By how much the worst of them missed it.
    pub by: Span,
}
