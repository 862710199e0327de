//! What operators remember, as bytes: how it is written and read, and what of an instance of a graph makes it go on elsewhere as if nothing
//! had happened.
//!
//! The problem: an operator that remembers gives other results after a crash than without one, unless whoever goes on has what it knew, and
//! is given what it had not seen yet, each once. The idea: a picture is taken of a whole instance while nothing moves in it: of every
//! operator, of the events that wait for a partner, and of the numbers of the messages that have been given to it. What is in the numbers
//! is in the rest and need not come again; everything else comes again, since its messages are settled only when a picture has them.

use crate::event::Number;
use crate::operator::Fault;
use contract::{StreamId, Time};

/// The most bytes that an instance may remember.
pub const MEMORY_BYTES_MAX: usize = 1_000_000;

/// Appends numbers.
pub trait Put {
    /// A number.
    fn put_u64(&mut self, value: u64);
    /// A number, bit for bit.
    fn put_f64(&mut self, value: f64);
    /// Bytes, after how many they are.
    fn put_bytes(&mut self, bytes: &[u8]);
}

impl Put for Vec<u8> {
    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_f64(&mut self, value: f64) {
        self.put_u64(value.to_bits());
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_u64(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }
}

/// Reads what [`Put`] has written. `None`: there is no more, or less than it says.
#[derive(Clone, Copy, Debug)]
pub struct Recalled<'a>(pub &'a [u8]);

impl<'a> Recalled<'a> {
    /// A number.
    pub fn u64(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }

    /// A number, bit for bit.
    pub fn f64(&mut self) -> Option<f64> {
        self.u64().map(f64::from_bits)
    }

    /// Bytes.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u64()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Whether everything has been read.
    pub fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// A time, and as many numbers as there are after it.
pub(crate) fn numbers_after_a_time(memory: &[u8]) -> Option<(Time, Vec<f64>)> {
    let mut recalled = Recalled(memory);
    let at = Time(recalled.u64()?);
    let (chunks, rest) = recalled.0.as_chunks::<8>();
    let numbers = chunks.iter().map(|chunk| f64::from_le_bytes(*chunk)).collect();
    rest.is_empty().then_some((at, numbers))
}

/// What an operator says to a memory that is not its own.
pub(crate) const FOREIGN: Fault = Fault::Failed("what it is to remember is not its own");

/// Messages of a stream that an instance has been given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cut {
    /// The stream, and the life of its publisher.
    pub(crate) stream: StreamId,
    pub(crate) incarnation: u64,
    /// The number after the highest.
    next: u64,
    /// Which of the [`WINDOW`] numbers before that it was given, the highest in the lowest bit. What is older it was given, or will not be.
    window: u64,
}

const WINDOW: u64 = 64;

impl Cut {
    fn of(number: &Number) -> Cut {
        Cut { stream: number.stream, incarnation: number.incarnation, next: number.seq, window: 0 }
    }

    fn has(&self, seq: u64) -> bool {
        match self.next.checked_sub(seq) {
            None | Some(0) => false,
            Some(back) => back > WINDOW || self.window >> (back - 1) & 1 == 1,
        }
    }

    fn add(&mut self, seq: u64) {
        if seq >= self.next {
            let step = seq - self.next + 1;
            self.window = if step >= WINDOW { 0 } else { self.window << step };
            (self.next, self.window) = (seq.saturating_add(1), self.window | 1);
        } else if self.next - seq <= WINDOW {
            self.window |= 1 << (self.next - seq - 1);
        }
    }
}

/// All messages that an instance has been given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cuts(Vec<Cut>);

impl Cuts {
    /// Whether it has been given this one.
    pub(crate) fn has(&self, number: &Number) -> bool {
        let cut = self.0.iter().find(|cut| cut.stream == number.stream);
        cut.is_some_and(|cut| cut.incarnation == number.incarnation && cut.has(number.seq))
    }

    /// Whether it has been given nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Its streams, under our own numbers.
    pub(crate) fn own_streams(&self) -> Streams {
        Streams(self.0.iter().map(|cut| (cut.stream.0, cut.stream)).collect())
    }

    /// Its streams, and the lives of their publishers.
    pub(crate) fn lives(&self) -> Vec<(StreamId, u64)> {
        self.0.iter().map(|cut| (cut.stream, cut.incarnation)).collect()
    }

    /// It is given this one.
    pub(crate) fn add(&mut self, number: &Number) {
        match self.0.iter_mut().find(|cut| cut.stream == number.stream) {
            Some(cut) if cut.incarnation == number.incarnation => cut.add(number.seq),
            Some(cut) => {
                *cut = Cut::of(number);
                cut.add(number.seq);
            }
            None => {
                let mut cut = Cut::of(number);
                cut.add(number.seq);
                self.0.push(cut);
            }
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.put_u64(self.0.len() as u64);
        for Cut { stream, incarnation, next, window } in &self.0 {
            [u64::from(stream.0), *incarnation, *next, *window].iter().for_each(|value| out.put_u64(*value));
        }
    }

    fn read(recalled: &mut Recalled<'_>) -> Option<Cuts> {
        let count = recalled.u64()?;
        let mut cuts = Vec::new();
        for _ in 0..count {
            let stream = u32::try_from(recalled.u64()?).ok()?;
            let (incarnation, next, window) = (recalled.u64()?, recalled.u64()?, recalled.u64()?);
            cuts.push(Cut { stream: StreamId(stream), incarnation, next, window });
        }
        Some(Cuts(cuts))
    }
}

/// A picture of an instance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Picture {
    /// What has to be the same where it is restored: the graph.
    pub(crate) fingerprint: u64,
    pub(crate) cuts: Cuts,
    /// By operator: what it and its inputs remember; empty where that is nothing.
    pub(crate) operators: Vec<Vec<u8>>,
}

impl Picture {
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u64(self.fingerprint);
        self.cuts.write(&mut out);
        out.put_u64(self.operators.len() as u64);
        self.operators.iter().for_each(|memory| out.put_bytes(memory));
        out
    }

    /// Reads one. `ours`: our numbers for the streams of whoever took it; of others nothing is known here.
    pub(crate) fn read(bytes: &[u8], ours: &dyn Fn(u32) -> Option<StreamId>) -> Option<(Picture, Streams)> {
        let mut recalled = Recalled(bytes);
        let fingerprint = recalled.u64()?;
        let theirs = Cuts::read(&mut recalled)?;
        let streams =
            Streams(theirs.0.iter().filter_map(|cut| Some((cut.stream.0, ours(cut.stream.0)?))).collect());
        let cuts =
            theirs.0.into_iter().filter_map(|cut| Some(Cut { stream: streams.ours(cut.stream.0)?, ..cut }));
        let cuts = Cuts(cuts.collect());
        let count = usize::try_from(recalled.u64()?).ok().filter(|count| *count <= bytes.len())?;
        let operators = (0..count).map(|_| recalled.bytes().map(<[u8]>::to_vec)).collect::<Option<_>>()?;
        recalled.end()?;
        Some((Picture { fingerprint, cuts, operators }, streams))
    }
}

/// The streams of whoever took a picture, and ours.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Streams(Vec<(u32, StreamId)>);

impl Streams {
    pub(crate) fn ours(&self, theirs: u32) -> Option<StreamId> {
        self.0.iter().find(|(known, _)| *known == theirs).map(|(_, ours)| *ours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Against a set of all numbers: whatever is not too old to be told is told, and nothing that was not given is called given.
        #[test]
        fn numbers_are_told_apart(begin in 0_u64..100, steps in prop::collection::vec((0_u64..9, 0_u64..70), 1..200)) {
            let (mut cuts, mut given, mut highest) = (Cuts::default(), BTreeSet::new(), begin);
            let number = |seq| Number { stream: StreamId(3), incarnation: 7, seq };
            let first = begin;
            for (forward, back) in steps {
                highest += forward;
                let seq = highest.saturating_sub(back).max(first);
                cuts.add(&number(seq));
                given.insert(seq);
                let next = given.last().unwrap() + 1;
                let oldest = *given.first().unwrap();
                for seq in next.saturating_sub(WINDOW).max(oldest)..next + 3 {
                    prop_assert_eq!(cuts.has(&number(seq)), given.contains(&seq), "{}", seq);
                }
            }
            let picture = Picture { fingerprint: 5, cuts: cuts.clone(), operators: vec![vec![1, 2], Vec::new()] };
            let (same, _) = Picture::read(&picture.write(), &|stream| Some(StreamId(stream))).unwrap();
            prop_assert_eq!(&same, &picture);
            let (other, streams) = Picture::read(&picture.write(), &|stream| Some(StreamId(stream + 1))).unwrap();
            prop_assert_eq!(streams.ours(3), Some(StreamId(4)));
            let last = *given.last().unwrap();
            let theirs = Number { stream: StreamId(4), incarnation: 7, seq: last };
            prop_assert_eq!((other.cuts.has(&theirs), other.cuts.has(&number(last))), (true, false));
        }

        /// Whatever bytes come, nothing is reserved for what is not there.
        #[test]
        fn rubbish_is_no_picture(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Picture::read(&bytes, &|stream| Some(StreamId(stream)));
        }
    }
}
