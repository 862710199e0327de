//! Things with numbers. The numbers of what is gone are given again, the latest first.

use crate::ids::Number;
use contract::invariant;

#[derive(Clone, Debug)]
pub(crate) struct Slab<N, T> {
    slots: Vec<Option<T>>,
    free: Vec<N>,
}

impl<N: Number, T> Default for Slab<N, T> {
    fn default() -> Slab<N, T> {
        Slab::new()
    }
}

impl<N: Number, T> Slab<N, T> {
    pub(crate) fn new() -> Slab<N, T> {
        Slab { slots: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn get(&self, number: N) -> Option<&T> {
        self.slots.get(number.place())?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, number: N) -> Option<&mut T> {
        self.slots.get_mut(number.place())?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten()
    }

    pub(crate) fn insert(&mut self, thing: T) -> N {
        if let Some(number) = self.free.pop() {
            if let Some(slot) = self.slots.get_mut(number.place()) {
                *slot = Some(thing);
                return number;
            }
            invariant!("a number that is given again has a place");
        }
        let number =
            u32::try_from(self.slots.len()).expect("invariant: owners limit what they keep, far below 2^32");
        self.slots.push(Some(thing));
        N::of(number)
    }

    pub(crate) fn remove(&mut self, number: N) -> Option<T> {
        let thing = self.slots.get_mut(number.place())?.take()?;
        self.free.push(number);
        Some(thing)
    }

    /// One above the highest number ever given.
    pub(crate) fn end(&self) -> u32 {
        self.slots.len() as u32
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
