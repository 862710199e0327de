//! What a durable writer has written, for those who come late: of each instance as much as the writer keeps itself.

use crate::endpoint::History;
use crate::sample::{DISPOSED, Sample};
use contract::Time;
use std::collections::{BTreeMap, VecDeque};

/// Samples of an instance that are kept where their writer does not say how many it keeps.
pub const DEPTH_UNSAID: usize = 100;
/// What is kept of one writer, in bytes. Above it, its oldest samples go.
pub const BYTES_MAX: usize = 16 << 20;

/// What is kept of one writer.
#[derive(Debug)]
pub(crate) struct Kept {
    depth: usize,
    instances: BTreeMap<Option<[u8; 16]>, VecDeque<u64>>,
    samples: BTreeMap<u64, (Sample, Time)>,
    bytes: usize,
}

impl Kept {
    pub(crate) fn new(history: History) -> Kept {
        let depth = match history {
            History::Unsaid => DEPTH_UNSAID,
            History::KeepLast(depth) => depth.max(1) as usize,
            History::KeepAll => usize::MAX,
        };
        Kept { depth, instances: BTreeMap::new(), samples: BTreeMap::new(), bytes: 0 }
    }

    /// Keeps a sample. Numbers go up.
    pub(crate) fn keep(&mut self, now: Time, seq: u64, sample: &Sample) {
        if sample.status & DISPOSED != 0 {
            // Who comes late has never seen the instance.
            for old in self.instances.remove(&sample.hash).into_iter().flatten() {
                self.drop_sample(old);
            }
            return;
        }
        if sample.kind != crate::sample::Kind::Data {
            return;
        }
        self.bytes += size(sample);
        self.samples.insert(seq, (sample.clone(), now));
        let instance = self.instances.entry(sample.hash).or_default();
        instance.push_back(seq);
        let old = if instance.len() > self.depth { instance.pop_front() } else { None };
        old.into_iter().for_each(|old| self.drop_sample(old));
        while self.bytes > BYTES_MAX
            && let Some((oldest, (sample, _))) = self.samples.first_key_value()
        {
            let (oldest, hash) = (*oldest, sample.hash);
            if let Some(instance) = self.instances.get_mut(&hash) {
                // The oldest of all is the oldest of its instance.
                instance.pop_front();
                if instance.is_empty() {
                    self.instances.remove(&hash);
                }
            }
            self.drop_sample(oldest);
        }
    }

    /// All of it that is not older than that, in order.
    pub(crate) fn samples(&self, now: Time, lifespan: Option<u64>) -> impl Iterator<Item = (u64, &Sample)> {
        let valid =
            move |kept: &Time| lifespan.is_none_or(|lifespan| now.since(*kept).as_nanos_u64() <= lifespan);
        self.samples.iter().filter(move |(_, (_, kept))| valid(kept)).map(|(seq, (sample, _))| (*seq, sample))
    }

    fn drop_sample(&mut self, seq: u64) {
        if let Some((sample, _)) = self.samples.remove(&seq) {
            self.bytes -= size(&sample);
        }
    }
}

/// What a sample takes, with what stands around it.
fn size(sample: &Sample) -> usize {
    sample.bytes.len() + 128
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Kind;

    fn sample(instance: u8, bytes: usize) -> Sample {
        Sample { kind: Kind::Data, status: 0, stamp: 0, hash: Some([instance; 16]), bytes: vec![0; bytes] }
    }

    fn kept(kept: &Kept) -> Vec<u64> {
        kept.samples(Time(100), None).map(|(seq, _)| seq).collect()
    }

    #[test]
    fn a_busy_instance_takes_nothing_from_a_quiet_one() {
        let mut history = Kept::new(History::KeepLast(2));
        history.keep(Time(0), 0, &sample(1, 4));
        (1..100).for_each(|seq| history.keep(Time(seq), seq, &sample(2, 4)));
        assert_eq!(kept(&history), [0, 98, 99]);
        history.keep(Time(100), 100, &Sample { kind: Kind::Key, status: DISPOSED, ..sample(2, 4) });
        assert_eq!(kept(&history), [0]);
    }

    #[test]
    fn what_is_kept_has_a_limit_in_bytes() {
        let mut history = Kept::new(History::KeepAll);
        (0..40).for_each(|seq| history.keep(Time(seq), seq, &sample((seq % 3) as u8, 1 << 20)));
        assert!(history.bytes <= BYTES_MAX);
        assert_eq!(kept(&history), (25..40).collect::<Vec<u64>>());
        let told: usize = history.instances.values().map(VecDeque::len).sum();
        assert_eq!(told, 15);
    }
}
