//! How long messages take from creation to dispatch, of all together and by class of contract.

use crate::watch::classes::Classes;
use contract::Span;
use hdrhistogram::Histogram;

/// The largest latency that is told from larger ones.
const LATENCY_MAX: Span = Span::secs(60);

#[derive(Clone)]
pub(crate) struct Latencies {
    /// In microseconds.
    all: Histogram<u32>,
    alike: Alike,
}

/// Messages in a row of one class that took the same microseconds, as those of a batch mostly do. They are counted at once.
#[derive(Clone, Copy, Default)]
struct Alike {
    class: u16,
    messages: u32,
    /// How long they took, in whole microseconds, rounded up.
    micros: u32,
    /// The longest that counts as the same: whole microseconds, in nanoseconds.
    longest: u64,
    /// Of all together.
    nanos: u64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        let highest = LATENCY_MAX.as_nanos_u64() / 1_000;
        let all = Histogram::new_with_bounds(1, highest, 2).expect("invariant: constant bounds are valid");
        Latencies { all, alike: Alike::default() }
    }
}

impl Latencies {
    /// A message of this class took so long. Nothing is told of it before [`Latencies::count_alike`]. Returns it in microseconds,
    /// rounded up.
    #[inline]
    pub(crate) fn record(&mut self, class: u16, latency: Span, classes: &mut Classes) -> u32 {
        let nanos = latency.as_nanos_u64();
        let as_long = self.alike.longest.wrapping_sub(nanos) < 1_000;
        if !as_long || self.alike.class != class {
            self.count_alike(classes);
            // Rounded up, so that a class counts it in the bucket where it belongs.
            let longest = nanos.next_multiple_of(1_000);
            let micros = u32::try_from(longest / 1_000).unwrap_or(u32::MAX);
            self.alike = Alike { class, messages: 0, micros, longest, nanos: 0 };
        }
        self.alike.messages += 1;
        self.alike.nanos = self.alike.nanos.saturating_add(nanos);
        self.alike.micros
    }

    /// Counts what was recorded.
    pub(crate) fn count_alike(&mut self, classes: &mut Classes) {
        let Alike { class, messages, longest, nanos, .. } = std::mem::take(&mut self.alike);
        if messages > 0 {
            let micros = longest / 1_000;
            self.all.saturating_record_n(micros, messages);
            let latency = Span::micros(micros as i64);
            classes.count(class, |class| class.record(latency, messages, nanos));
        }
    }

    /// Median, 99th percentile, longest.
    pub(crate) fn summary(&self) -> [Span; 3] {
        let micros = |value: u64| Span::micros(value as i64);
        let quantile = |q| micros(self.all.value_at_quantile(q));
        if self.all.is_empty() {
            [Span::ZERO; 3]
        } else {
            [quantile(0.5), quantile(0.99), micros(self.all.max())]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::TopicRule;
    use contract::Contract;
    use proptest::collection::vec;
    use proptest::{prop_assert_eq, proptest};

    fn classes() -> Classes {
        let contract = Contract::every(Span::millis(10));
        Classes::new(&[TopicRule::new("a/#".parse().unwrap(), contract)], 8)
    }

    proptest! {
        /// Whether they are counted one by one or together makes no difference.
        #[test]
        fn messages_that_are_alike_are_counted_as_if_they_came_alone(took in vec((0_u16..2, 49_998_i64..50_004), 1..200)) {
            let (mut together, mut alone) = (Latencies::default(), Latencies::default());
            let [mut of_together, mut of_alone] = [classes(), classes()];
            for (class, nanos) in took {
                together.record(class, Span(nanos), &mut of_together);
                alone.record(class, Span(nanos), &mut of_alone);
                alone.count_alike(&mut of_alone);
            }
            together.count_alike(&mut of_together);
            together.count_alike(&mut of_together);
            prop_assert_eq!(&together.all, &alone.all);
            prop_assert_eq!(together.summary(), alone.summary());
            let rows = |classes: &Classes| classes.iter().map(|(_, counts)| *counts).collect::<Vec<_>>();
            prop_assert_eq!(rows(&of_together), rows(&of_alone));
            let end = rows(&of_alone).iter().map(|counts| counts.latency[0]).sum::<u64>();
            prop_assert_eq!(end, u64::from(alone.all.count_at(50)), "what takes longer than 50 us is in the next bucket");
        }
    }
}
