//! Who is the highest of a ring, by Hirschberg and Sinclair (A4).
//!
//! The idea: who may be the highest sends its identifier both ways, over one place, then two, four and so on. Who is higher swallows it.
//! Whoever has both words back goes on, and whoever sees its own come round is the highest. So n log n words are enough, where all asking
//! all would take n².
//!
//! The ring may be in any order; on one that is ordered by identifiers nobody but the highest comes beyond the first phase.
//!
//! What it leaves to others: who is next on the ring, words that get lost, and a round that does not end (`rings.rs`).

use crate::PeerId;

/// A side of a place on the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Downwards.
    Down,
    /// Upwards.
    Up,
}

impl Side {
    /// Both.
    pub const BOTH: [Side; 2] = [Side::Down, Side::Up];

    /// The one across.
    pub fn across(self) -> Side {
        match self {
            Side::Down => Side::Up,
            Side::Up => Side::Down,
        }
    }
}

/// What is said along the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// A candidate's, on its way out, with so many places still to go.
    Out {
        /// The candidate.
        id: PeerId,
        /// How often it has had both words back.
        phase: u8,
        /// Places to go, the next included.
        hops: u32,
    },
    /// A candidate's, on its way back.
    Back {
        /// The candidate.
        id: PeerId,
        /// As it was sent.
        phase: u8,
        /// Places to go at most, the next included: where the candidate is no longer there, the word ends.
        hops: u32,
    },
}

/// A round that one place on the ring takes part in.
#[derive(Clone, Debug)]
pub struct Election {
    own: PeerId,
    phase: u8,
    back: [bool; 2],
    stands: Stands,
}

/// How a place stands in a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stands {
    /// It has not been asked.
    Idle,
    /// It may be the highest.
    Candidate,
    /// Somebody is higher.
    Defeated,
    /// It is the highest.
    Elected,
}

/// Something to be said, and to which side.
pub type Said = (Side, Word);

/// The greatest phase: 2^30 places are more than any ring has.
const PHASE_MAX: u8 = 30;

impl Election {
    /// A round that has not begun here.
    pub fn new(own: PeerId) -> Election {
        Election { own, phase: 0, back: [false; 2], stands: Stands::Idle }
    }

    /// How this place stands.
    pub fn stands(&self) -> Stands {
        self.stands
    }

    /// Becomes a candidate, if it is nothing yet.
    pub fn stand(&mut self, say: &mut Vec<Said>) {
        if self.stands == Stands::Idle {
            self.stands = Stands::Candidate;
            self.send_out(say);
        }
    }

    /// Says again what both sides were told last, as a side has somebody else now.
    pub fn say_again(&mut self, say: &mut Vec<Said>) {
        if self.stands == Stands::Candidate {
            self.send_out(say);
        }
    }

    fn send_out(&mut self, say: &mut Vec<Said>) {
        self.back = [false; 2];
        let word = Word::Out { id: self.own, phase: self.phase, hops: 1 << self.phase };
        say.extend(Side::BOTH.map(|side| (side, word)));
    }

    /// Hears a word that comes from a side.
    pub fn hear(&mut self, from: Side, word: Word, say: &mut Vec<Said>) {
        match word {
            Word::Out { id, .. } if id == self.own => {
                // Once round: all others are lower, or they would have swallowed it.
                if self.stands == Stands::Candidate {
                    self.stands = Stands::Elected;
                }
            }
            Word::Out { id, .. } if id < self.own => self.stand(say),
            Word::Out { id, phase, hops } => {
                if self.stands != Stands::Elected {
                    self.stands = Stands::Defeated;
                }
                say.push(match hops {
                    0 | 1 => (from, Word::Back { id, phase, hops: 1 << phase.min(PHASE_MAX) }),
                    _ => (from.across(), Word::Out { id, phase, hops: hops - 1 }),
                });
            }
            Word::Back { id, phase, .. } if id == self.own => self.came_back(from, phase, say),
            Word::Back { hops: 0 | 1, .. } => {}
            Word::Back { id, phase, hops } => {
                say.push((from.across(), Word::Back { id, phase, hops: hops - 1 }));
            }
        }
    }

    fn came_back(&mut self, from: Side, phase: u8, say: &mut Vec<Said>) {
        if self.stands != Stands::Candidate || phase != self.phase {
            return;
        }
        self.back[usize::from(from == Side::Up)] = true;
        if self.back == [true; 2] && self.phase < PHASE_MAX {
            self.phase += 1;
            self.send_out(say);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::RingId;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn id(number: u32) -> PeerId {
        PeerId { ring: RingId::beginning_with(u128::from(number), RingId::BITS), life: 1 }
    }

    /// All of a ring stand at once. Who is elected, in which phase, and after how many words.
    fn elect(ring: &[u32], mut next: impl FnMut(usize) -> usize) -> (Vec<u32>, u8, usize) {
        let mut places: Vec<Election> = ring.iter().map(|number| Election::new(id(*number))).collect();
        let mut under_way = VecDeque::new();
        let mut words = 0;
        let mut send = |at: usize, say: Vec<Said>, under_way: &mut VecDeque<(usize, Side, Word)>| {
            for (side, word) in say {
                words += 1;
                let to = match side {
                    Side::Up => (at + 1) % ring.len(),
                    Side::Down => (at + ring.len() - 1) % ring.len(),
                };
                under_way.push_back((to, side.across(), word));
            }
        };
        for (at, place) in places.iter_mut().enumerate() {
            let mut say = Vec::new();
            place.stand(&mut say);
            send(at, say, &mut under_way);
        }
        while !under_way.is_empty() {
            let (to, from, word) = under_way.remove(next(under_way.len())).unwrap();
            let mut say = Vec::new();
            places[to].hear(from, word, &mut say);
            send(to, say, &mut under_way);
        }
        let elected = places.iter().zip(ring).filter(|(place, _)| place.stands() == Stands::Elected);
        let phase = places.iter().map(|place| place.phase).max().unwrap();
        (elected.map(|(_, number)| *number).collect(), phase, words)
    }

    #[test]
    fn the_worked_example_comes_out() {
        assert_eq!(elect(&[3, 7, 5, 1, 6], |_| 0), (vec![7], 3, 55));
    }

    #[test]
    fn on_an_ordered_ring_only_the_highest_goes_on() {
        let ring: Vec<u32> = (0..1000).collect();
        let (elected, phase, words) = elect(&ring, |_| 0);
        assert_eq!((elected, phase), (vec![999], 10));
        // Each says two and has one back, or two; then the highest alone asks one, two, four and so on both ways, and back.
        assert!(words < 12 * 1000, "{words}");
    }

    proptest! {
        /// P8, in whatever order words arrive.
        #[test]
        fn the_highest_is_elected_with_few_words(ring in 1..40usize, shuffle in any::<u64>()) {
            let mut random = fastrand::Rng::with_seed(shuffle);
            let mut numbers: Vec<u32> = (1..=ring as u32).collect();
            random.shuffle(&mut numbers);
            // What goes one way over one link arrives in order; this is worse than that.
            let (elected, _, words) = elect(&numbers, |under_way| random.usize(..under_way));
            prop_assert_eq!(elected, [ring as u32]);
            let phases = 1 + (ring as f64).log2().ceil() as usize;
            prop_assert!(words <= 8 * ring * phases, "{} words", words);
        }
    }
}
