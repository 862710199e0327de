//! Things with numbers. The numbers of what is gone are given again, the latest first.

use contract::invariant;

#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab::new()
    }
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Slab<T> {
        Slab { slots: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.slots.get(number as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.slots.get_mut(number as usize)?.as_mut()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten()
    }

    pub(crate) fn insert(&mut self, thing: T) -> u32 {
        if let Some(number) = self.free.pop() {
            if let Some(slot) = self.slots.get_mut(number as usize) {
                *slot = Some(thing);
                return number;
            }
            invariant!("a number that is given again has a place");
        }
        let number =
            u32::try_from(self.slots.len()).expect("invariant: owners limit what they keep, far below 2^32");
        self.slots.push(Some(thing));
        number
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let thing = self.slots.get_mut(number as usize)?.take()?;
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
