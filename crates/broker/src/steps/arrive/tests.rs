use crate::commands::register::Publisher;
use crate::steps::process::tests::{Alone, NOW, broker};
use contract::{Contract, Crossing, Span};
use wire::{Message, MessageFlags};

const PERIOD: Span = Span::millis(10);
const HALF: Span = Span::millis(5);

/// How many of these messages came too fast; each is its number, and how long after the first it came and was created.
fn too_fast(messages: impl IntoIterator<Item = (u64, Span, Span)>) -> u64 {
    too_fast_by(Crossing::NONE, messages)
}

/// The same where they come by other brokers.
fn too_fast_by(crossing: Crossing, messages: impl IntoIterator<Item = (u64, Span, Span)>) -> u64 {
    let (mut broker, mut out) = (broker(|_| ()), Alone::default());
    let publisher = Publisher { crossing, ..Publisher::new("p", 1) };
    let contract = Contract::every(PERIOD).deadline(PERIOD * 2).retain(1).tolerate(100);
    let index = broker.take_stream(NOW, "t", contract, &publisher, true, &mut out);
    let index = index.unwrap_or_else(|denial| panic!("{}", denial.text));
    for (seq, came, created) in messages {
        let (flags, created) = (MessageFlags::NONE, NOW + created);
        let message = Message { stream: index.0, flags, seq, created, payload: b"x" };
        broker.steps().store_message(NOW + came, None, index, &message, false, &mut out).unwrap();
    }
    broker.flow.stats.rate_violations
}

#[test]
fn a_clock_that_is_set_makes_nobody_too_fast() {
    for set in [-2_000_000, -15_000, 0, 300_000].map(Span::micros) {
        let messages = (0..500).map(|seq| {
            let at = PERIOD * seq;
            (seq, at, if seq < 100 { at } else { at + set })
        });
        assert_eq!(too_fast(messages), 0, "set by {set}");
    }
}

/// Creation is turned from clock to clock, and after a failover another uplink knows another difference.
#[test]
fn what_clocks_of_sites_do_not_tell_makes_nobody_too_fast() {
    let messages = |off: Span| {
        (0..100)
            .map(move |seq| (seq, PERIOD * seq, PERIOD * seq + if seq % 2 == 0 { off } else { Span::ZERO }))
    };
    let crossing = Crossing { within: Span::millis(2), ..Crossing::NONE };
    assert_eq!(too_fast_by(crossing, messages(Span::millis(4))), 0);
    assert_eq!(too_fast_by(crossing, messages(Span::millis(6))), 50);
    assert_eq!(too_fast(messages(Span::millis(4))), 50);
}

#[test]
fn who_publishes_twice_as_fast_is_seen_whatever_comes_late_in_between() {
    let twice = |seq: u64| (seq, HALF * seq, HALF * seq);
    assert_eq!(too_fast((0..100).map(twice)), 99);
    // Each fourth message comes after the one that follows it.
    let late = (0..100).map(|seq| seq + u64::from(seq % 4 == 2) - u64::from(seq % 4 == 3));
    assert_eq!(too_fast(late.map(twice)), 49);
}
