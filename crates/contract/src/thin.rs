//! What a link of stated bandwidth can carry, so that messages with contracts do not wait for each other too long.
//!
//! The problem: a link of a megabit in a second takes 12 ms for a packet, and keeps seconds of packets that were sent to it faster. What is
//! best effort must not stand before what is not, and what is promised must not stand before each other for longer than was reckoned with.
//! The idea: best effort goes by a connection of its own, and that is sent at a fixed rate, so that no more of it is ever on the link
//! than a few packets. All else may come at once: then the last of it waits for all.
//!
//! Lemma: a link carries `B` bytes in a second in the order of their coming. What comes of source `i` in any time `t` is at most
//! `b_i + r_i*t`. If `sum r_i <= B`, no byte waits for longer than `sum b_i / B`. Proof: let a byte come at `t`, and let the link have been busy since
//! `s`, and idle before. What has come in `[s, t]` is at most `sum b_i + (t - s) * sum r_i`, and `(t - s) * B` has left; so what stands before the
//! byte, and the byte, are no more than `sum b_i`, which takes `sum b_i / B`.
//!
//! A stream whose messages come `T` apart at the publisher, and have been on the way for up to `A` when they come here, has
//! `r = S/T` and `b = S*(1 + A/T)`: what was under way for longest may come together with what was quickest.
//!
//! What the model leaves out: packets that are lost and sent again, what is sent again after a failover, and a connection that has not found
//! out yet how much the link takes (it begins with about 14 KiB in one round trip).
//!
//! Source: Cruz, *A calculus for network delay, part I* (1991); the decision that traffic classes have connections of their own.

use crate::{Contract, Loss, Span};
use std::fmt;

/// What messages are, for a link that is not wide enough for all of them at once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TrafficClass {
    /// They have a deadline, or no more than a number of them may be lost, and it is said how long they are.
    Promised,
    /// All others, which wait for those.
    Bulk,
}

impl TrafficClass {
    /// The class of a stream of this contract.
    pub fn of(contract: &Contract) -> TrafficClass {
        // One message of a megabyte would hold up all others for seconds.
        match contract.size > 0 && TrafficClass::promises(contract) {
            true => TrafficClass::Promised,
            false => TrafficClass::Bulk,
        }
    }

    /// The same where it is known which topic it is, at its site or below that at a router. That a keeper of a site is there it says in a few bytes, twice
    /// in a second, and that is worth nothing when it is late.
    pub fn of_topic(topic: &str, contract: &Contract) -> TrafficClass {
        let below = topic.split_once('/').map_or("", |(_, below)| below);
        match [topic, below].contains(&"$keep/beat") {
            true => TrafficClass::Promised,
            false => TrafficClass::of(contract),
        }
    }

    /// Whether a contract asks for anything.
    pub fn promises(contract: &Contract) -> bool {
        !contract.deadline.is_forever() || contract.loss != Loss::Unbounded
    }
}

impl fmt::Display for TrafficClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TrafficClass::Promised => "what something is promised of",
            TrafficClass::Bulk => "what is best effort, or says no size",
        })
    }
}

/// A link between a site and its routers, as its owner states it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThinLink {
    /// Bytes in a second that it carries at least, each way.
    pub bandwidth: u64,
    /// Those that best effort may take of them.
    pub bulk: u64,
    /// How long messages with contracts may wait for each other, at most.
    pub queueing: Span,
}

/// What a stream adds to a message on a link, besides its payload: the frame that it may have alone, and the record of TLS.
pub const MESSAGE_BYTES: u64 = 88;
/// What each packet has in front: Ethernet, IPv6, TCP with timestamps.
pub const PACKET_BYTES: u64 = 86;
/// What is taken for the rest of a packet. A link that takes less has more of them.
const PACKET_FILL: u64 = 1_200;
/// What goes the other way for each message: TCP acknowledges it, and the next broker says that it has it.
const ANSWER_BYTES: u64 = PACKET_BYTES + 40;
/// What goes each way in any case, in a second: polls, comparisons of clocks, what is wanted, and beats of keepers of a few sites.
const STANDING_RATE: u64 = 6_000;
/// As much of that as may come at once.
const STANDING_BURST: u64 = 1_000;
/// What is around best effort, and its acknowledgements that go the other way, as a part of it.
const BULK_AROUND: u64 = 10;
/// What may stand on the link of best effort: TCP sends two packets at once at the least where it is paced, and perhaps one again.
const BULK_BURST: u64 = 3 * (1_448 + PACKET_BYTES);
/// A link that carries less is not worth a class of its own.
pub const BANDWIDTH_MIN: u64 = 8_000;

/// What comes to a link in one direction: in any time `t`, no more than `burst` and `t` times the rate.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Flow {
    /// Bytes that may come at once.
    pub burst: u64,
    /// Thousandths of bytes in a second.
    millis: u64,
}

impl Flow {
    /// What so many bytes are that come at most so often, when they have been on the way for up to `age`.
    fn of(bytes: u64, period: Span, age: Span) -> Flow {
        if period.is_forever() || period <= Span::ZERO {
            return Flow { burst: bytes, millis: 0 };
        }
        let (bytes, period) = (u128::from(bytes), period.as_nanos_u64().into());
        let age: u128 = age.max(Span::ZERO).as_nanos_u64().into();
        let burst = bytes + (bytes * age).div_ceil(period);
        let millis = (bytes * 1_000_000_000_000).div_ceil(period);
        let within = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
        Flow { burst: within(burst), millis: within(millis) }
    }

    /// A stream's messages, and what goes the other way because of them. `age`: how long they have been on the way at most when they come here.
    pub fn of_stream(contract: &Contract, age: Span) -> [Flow; 2] {
        let bytes = u64::from(contract.size) + MESSAGE_BYTES;
        let there = bytes + bytes.div_ceil(PACKET_FILL) * PACKET_BYTES;
        let back = bytes.div_ceil(PACKET_FILL) * ANSWER_BYTES;
        [there, back].map(|bytes| Flow::of(bytes, contract.period, age))
    }

    /// Both together.
    pub fn plus(self, other: Flow) -> Flow {
        Flow {
            burst: self.burst.saturating_add(other.burst),
            millis: self.millis.saturating_add(other.millis),
        }
    }

    /// So many of it.
    pub fn times(self, count: u32) -> Flow {
        let count = u64::from(count);
        Flow { burst: self.burst.saturating_mul(count), millis: self.millis.saturating_mul(count) }
    }

    /// Without what was added before.
    pub fn minus(self, other: Flow) -> Flow {
        Flow {
            burst: self.burst.saturating_sub(other.burst),
            millis: self.millis.saturating_sub(other.millis),
        }
    }

    /// Bytes in a second.
    pub fn rate(&self) -> u64 {
        self.millis.div_ceil(1_000)
    }
}

/// Why a link has no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Narrow {
    /// The contract does not say how long messages are.
    Size,
    /// It has room, and its connection is not there yet.
    Waits,
    /// All with contracts would need so many bytes in a second, and have so many.
    Rate {
        /// Needed.
        needed: u64,
        /// There.
        left: u64,
    },
    /// If all came at once, the last would wait for so long, and may wait for so long.
    Queueing {
        /// It would.
        takes: Span,
        /// It may.
        most: Span,
    },
}

impl fmt::Display for Narrow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Narrow::Size => f.write_str(
                "the link to routers is thin, and the contract does not say how long messages are: state it (size = 100, --size 100)",
            ),
            Narrow::Waits => f.write_str(
                "it goes with best effort until the router is reached by the connection for what is promised; wait for that",
            ),
            Narrow::Rate { needed, left } => write!(
                f,
                "the link to routers is too thin: messages with contracts would take {needed} bytes in a second of the {left} that uplink.bulk_bandwidth leaves \
                 of uplink.bandwidth; state shorter messages or longer periods in contracts, or what the link really carries"
            ),
            Narrow::Queueing { takes, most } => write!(
                f,
                "the link to routers is too thin: if all messages with contracts came at once, the last would wait for {takes}, and uplink.queueing is {most}; state \
                 shorter messages in contracts, or a class with more time for uplink.link"
            ),
        }
    }
}

impl ThinLink {
    /// Whether everything with a contract that goes one way has room: then nothing of it waits on the link for longer than `queueing`.
    pub fn carries(&self, flow: &Flow) -> Result<(), Narrow> {
        let left = self.left();
        if flow.rate() > left {
            return Err(Narrow::Rate { needed: flow.rate(), left });
        }
        let takes = self.waits(flow);
        if takes > self.queueing {
            return Err(Narrow::Queueing { takes, most: self.queueing });
        }
        Ok(())
    }

    /// What is left for contracts, in a second.
    fn left(&self) -> u64 {
        let bulk = self.bulk + self.bulk / BULK_AROUND;
        self.bandwidth.saturating_sub(bulk).saturating_sub(STANDING_RATE)
    }

    /// So many flows like this one alone have room one way.
    pub fn holds(&self, flow: &Flow) -> u64 {
        let left = self.left();
        let by_rate = left.saturating_mul(1_000).checked_div(flow.millis).unwrap_or(u64::MAX);
        let waiting = u128::from(self.queueing.as_nanos_u64()) * u128::from(self.bandwidth) / 1_000_000_000;
        let waiting = u64::try_from(waiting).unwrap_or(u64::MAX).saturating_sub(BULK_BURST + STANDING_BURST);
        by_rate.min(waiting.checked_div(flow.burst).unwrap_or(u64::MAX))
    }

    /// How long the last waits if all come at once.
    pub fn waits(&self, flow: &Flow) -> Span {
        let bytes = u128::from(flow.burst) + u128::from(BULK_BURST + STANDING_BURST);
        let nanos = (bytes * 1_000_000_000).div_ceil(self.bandwidth.max(1).into());
        Span(i64::try_from(nanos).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn thin(bandwidth: u64) -> ThinLink {
        ThinLink { bandwidth, bulk: bandwidth / 2, queueing: Span::millis(50) }
    }

    /// How long the last byte of anything waits on a link that carries so many bytes in a second, where this comes: at which nanosecond, and how much.
    fn longest(bandwidth: u64, mut comes: Vec<(u64, u64)>) -> u64 {
        comes.sort_unstable();
        let (mut free, mut longest) = (0_u128, 0);
        for (at, bytes) in comes {
            let takes = (u128::from(bytes) * 1_000_000_000).div_ceil(bandwidth.into());
            free = free.max(at.into()) + takes;
            longest = longest.max(free - u128::from(at));
        }
        longest as u64
    }

    proptest! {
        /// Enough: whatever comes within what was stated waits no longer. Tight: what comes at once waits for nearly as long.
        #[test]
        fn nothing_waits_longer_than_foretold_and_what_comes_at_once_nearly_so_long(
            streams in prop::collection::vec((1_u32..2_000, 5_i64..200, 0_i64..100, prop::collection::vec(0.0..1.0_f64, 40)), 1..12),
            spare in 1_u64..40,
        ) {
            let (mut all, mut comes, mut at_once) = (Flow::default(), Vec::new(), 0);
            for (size, period, age, draws) in &streams {
                let (period, age) = (Span::millis(*period), Span::millis(*age));
                let contract = Contract::every(period).deadline(Span::secs(1)).size(*size);
                let [there, _] = Flow::of_stream(&contract, age);
                let bytes = Flow::of_stream(&contract, Span::ZERO)[0].burst;
                all = all.plus(there);
                // Published each period, and on the way for anything up to the age.
                for (number, draw) in draws.iter().enumerate() {
                    let at = number as u64 * period.as_nanos_u64() + (draw * age.0 as f64) as u64;
                    comes.push((at, bytes));
                }
                at_once += bytes * (1 + age.0 as u64 / period.0 as u64);
            }
            // No wider than it has to be.
            let link = ThinLink { queueing: Span::FOREVER, ..thin(all.rate() + spare) };
            let foretold = link.waits(&all).0 as u64;
            prop_assert!(longest(link.bandwidth, comes) <= foretold);
            let alone = (at_once + BULK_BURST + STANDING_BURST) as f64 * 1e9 / link.bandwidth as f64;
            let most = (at_once + streams.len() as u64 * 2_400 + BULK_BURST + STANDING_BURST) as f64 * 1e9 / link.bandwidth as f64;
            prop_assert!(alone <= foretold as f64 + 1.0 && foretold as f64 <= most * 1.01 + 1.0, "{alone} {foretold} {most}");
        }
    }

    #[test]
    fn a_link_carries_what_its_rate_and_the_time_to_wait_allow() {
        let contract = Contract::every(Span::millis(100)).deadline(Span::millis(200)).size(100);
        let [there, back] = Flow::of_stream(&contract, Span::ZERO);
        assert_eq!((there.burst, there.rate()), (274, 2_740));
        assert_eq!((back.burst, back.rate()), (126, 1_260));
        let many = |count: u32| (0..count).fold(Flow::default(), |all, _| all.plus(there));
        // Ten megabits: 62 500 bytes may wait, of which best effort may have 4 602, and what goes in any case 1 000.
        let wide = ThinLink { bulk: 125_000, ..thin(1_250_000) };
        assert_eq!(wide.carries(&many(207)), Ok(()));
        assert!(matches!(wide.carries(&many(208)), Err(Narrow::Queueing { .. })));
        let patient = ThinLink { queueing: Span::secs(1), ..thin(1_250_000) };
        assert!(matches!(patient.carries(&many(240)), Err(Narrow::Rate { needed: 657_600, left: 556_500 })));
        assert_eq!(many(3).minus(there), many(2));
        assert_eq!((wide.holds(&there), patient.holds(&there)), (207, 203));
        assert_eq!(patient.carries(&many(203)), Ok(()));
        assert!(patient.carries(&many(204)).is_err());
    }

    #[test]
    fn what_is_promised_and_says_how_long_it_is_is_not_bulk() {
        let contract = Contract::every(Span::millis(100)).size(100);
        assert_eq!(TrafficClass::of(&contract.deadline(Span::millis(5))), TrafficClass::Promised);
        assert_eq!(TrafficClass::of(&contract.deadline(Span::millis(5)).size(0)), TrafficClass::Bulk);
        let patient = Contract { deadline: Span::FOREVER, ..contract };
        assert_eq!(TrafficClass::of(&patient.tolerate(3)), TrafficClass::Promised);
        assert_eq!(TrafficClass::of(&patient.best_effort()), TrafficClass::Bulk);
        let beat = Contract::unstated();
        for (topic, class) in [
            ("$keep/beat", TrafficClass::Promised),
            ("north/$keep/beat", TrafficClass::Promised),
            ("north/$keep/ask/south", TrafficClass::Bulk),
            ("north/$keep/part/south", TrafficClass::Bulk),
            ("$keep/part/south", TrafficClass::Bulk),
            ("north/plant/$keep/beat", TrafficClass::Bulk),
        ] {
            assert_eq!(TrafficClass::of_topic(topic, &beat), class, "{topic}");
        }
    }
}
