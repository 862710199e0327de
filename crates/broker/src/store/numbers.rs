//! Which streams the numbers of a peer mean.

use contract::StreamId;
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// No stream behind this number.
pub(crate) const NO_STREAM: StreamId = StreamId(u32::MAX);

/// Both ways: messages come with the peer's numbers, and a stream that ends must be found among tens of thousands, many times in a row
/// where a publisher leaves.
#[derive(Clone, Default)]
pub(crate) struct Numbers {
    /// Our stream for each number.
    streams: Vec<StreamId>,
    /// Streams with their numbers; rarely more than one each.
    bound: BTreeSet<(StreamId, u32)>,
}

impl Numbers {
    #[inline]
    pub(crate) fn stream(&self, number: u32) -> Option<StreamId> {
        self.streams.get(number as usize).copied().filter(|stream| *stream != NO_STREAM)
    }

    /// How far the numbers go.
    pub(crate) fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether no stream has had a number.
    pub(crate) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Binds a number to a stream, or to none.
    pub(crate) fn bind(&mut self, number: u32, stream: StreamId) {
        let place = number as usize;
        if place >= self.streams.len() {
            self.streams.resize(place + 1, NO_STREAM);
        }
        let before = std::mem::replace(&mut self.streams[place], stream);
        if before != NO_STREAM {
            self.bound.remove(&(before, number));
        }
        if stream != NO_STREAM {
            self.bound.insert((stream, number));
        }
    }

    /// Whether the stream has a number.
    pub(crate) fn knows(&self, stream: StreamId) -> bool {
        self.bound.range((stream, 0)..=(stream, u32::MAX)).next().is_some()
    }

    /// The stream has no number any more. Returns those that it had.
    pub(crate) fn unbind(&mut self, stream: StreamId) -> SmallVec<[u32; 2]> {
        let numbers: SmallVec<[u32; 2]> =
            self.bound.range((stream, 0)..=(stream, u32::MAX)).map(|(_, number)| *number).collect();
        for number in &numbers {
            self.bound.remove(&(stream, *number));
            self.streams[*number as usize] = NO_STREAM;
        }
        numbers
    }

    /// Streams that have a number.
    pub(crate) fn streams(&self) -> impl Iterator<Item = StreamId> {
        self.streams.iter().copied().filter(|stream| *stream != NO_STREAM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    enum Change {
        Bind(u32, StreamId),
        Free(u32),
        Unbind(StreamId),
    }

    fn changes() -> impl Strategy<Value = Vec<Change>> {
        let change = prop_oneof![
            4 => (0_u32..6, 0_u32..4).prop_map(|(number, stream)| Change::Bind(number, StreamId(stream))),
            1 => (0_u32..6).prop_map(Change::Free),
            2 => (0_u32..4).prop_map(|stream| Change::Unbind(StreamId(stream))),
        ];
        prop::collection::vec(change, 0..40)
    }

    proptest! {
        /// What it says of a stream is what looking at each number says.
        #[test]
        fn a_stream_is_found_under_all_its_numbers_and_no_other(changes in changes()) {
            let mut numbers = Numbers::default();
            let mut plain = [NO_STREAM; 6];
            for change in changes {
                match change {
                    Change::Bind(number, stream) => {
                        numbers.bind(number, stream);
                        plain[number as usize] = stream;
                    }
                    Change::Free(number) => {
                        numbers.bind(number, NO_STREAM);
                        plain[number as usize] = NO_STREAM;
                    }
                    Change::Unbind(stream) => {
                        let had = (0..6).filter(|number| plain[*number as usize] == stream);
                        prop_assert_eq!(numbers.unbind(stream).to_vec(), had.collect::<Vec<u32>>());
                        plain.iter_mut().filter(|bound| **bound == stream).for_each(|bound| *bound = NO_STREAM);
                    }
                }
                for (number, stream) in plain.iter().enumerate() {
                    prop_assert_eq!(numbers.stream(number as u32), Some(*stream).filter(|it| *it != NO_STREAM));
                }
                let bound = plain.iter().copied().filter(|stream| *stream != NO_STREAM);
                prop_assert_eq!(numbers.streams().collect::<Vec<_>>(), bound.collect::<Vec<_>>());
            }
        }
    }
}
