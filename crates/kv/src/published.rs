//! What all have agreed on, by key and publishing time.

use crate::{KeyId, Setup};
use contract::{Mutant, Span, Time};

/// For each key the newest stamps in ascending order (I5), with their values.
///
/// A value does not move once it is there: an order of one byte for each place says which is the oldest. And it does not
/// change: what is published first under a key and stamp stands, so that nobody reads two values for one instant.
#[derive(Debug)]
pub struct Published {
    history: usize,
    value_bytes_max: usize,
    keys: usize,
    /// How many stamps each key has.
    lens: Box<[u8]>,
    /// For each key, the places in ascending order of their stamps.
    order: Box<[u8]>,
    stamps: Box<[Time]>,
    value_lens: Box<[u16]>,
    values: Box<[u8]>,
}

/// What `read` gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Value<'a> {
    /// The instant from which on it is valid.
    pub stamp: Time,
    /// The value.
    pub bytes: &'a [u8],
}

/// Why there is nothing to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The key is not of this configuration.
    #[error("key number {} is not configured: add it to `keys` on all nodes", .0.0)]
    UnknownKey(KeyId),
    /// The freshness asked for lies in the future (I2).
    #[error("the freshness asked for is {0} in the future: ask for a time that has come")]
    FreshnessInFuture(Span),
    /// Nothing is visible under this key.
    #[error("nothing has been published yet under this key")]
    Nothing,
    /// What is visible is too old.
    #[error("the newest value is {0} older than the freshness asked for")]
    Stale(Span),
}

/// What became of a value that was to be published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted {
    /// It is there now.
    New,
    /// Its key and stamp have a value already, which stands.
    Repeated,
    /// All places of its key have newer stamps.
    TooOld,
}

/// Somebody else who is to have what is published, for example memory that tasks share.
pub trait Publish {
    /// A value that is new. The stamp may lie ahead: readers see it from then on.
    fn publish(&mut self, key: KeyId, stamp: Time, value: &[u8]);
}

impl Publish for () {
    fn publish(&mut self, _key: KeyId, _stamp: Time, _value: &[u8]) {}
}

impl Published {
    /// Empty, with room for all keys of the configuration.
    pub fn new(setup: &Setup) -> Published {
        let history = setup.history() + usize::from(Mutant::KeepOneMore.is_on());
        let keys = setup.keys();
        let places = keys * history;
        Published {
            history,
            value_bytes_max: setup.value_bytes_max(),
            keys,
            lens: vec![0; keys].into(),
            order: vec![0; places].into(),
            stamps: vec![Time::ZERO; places].into(),
            value_lens: vec![0; places].into(),
            values: vec![0; places * setup.value_bytes_max()].into(),
        }
    }

    /// I2: the newest value of the key that is at least as new as `freshness` and whose instant has come.
    pub fn read(&self, key: KeyId, freshness: Time, now: Time) -> Result<Value<'_>, ReadError> {
        if usize::from(key.0) >= self.keys {
            return Err(ReadError::UnknownKey(key));
        }
        if freshness > now {
            return Err(ReadError::FreshnessInFuture(freshness.since(now)));
        }
        let visible = if Mutant::ShowEarly.is_on() { now + Span::millis(1) } else { now };
        let newest =
            self.places(key).rev().find(|&place| self.stamps[place] <= visible).ok_or(ReadError::Nothing)?;
        let stamp = self.stamps[newest];
        if stamp < freshness && !Mutant::ReadStale.is_on() {
            return Err(ReadError::Stale(freshness.since(stamp)));
        }
        let at = newest * self.value_bytes_max;
        Ok(Value { stamp, bytes: &self.values[at..at + usize::from(self.value_lens[newest])] })
    }

    /// Whether anything has been published under the key, be it visible yet or not.
    pub fn is_empty(&self, key: KeyId) -> bool {
        self.lens[usize::from(key.0)] == 0
    }

    /// Publishes a value that fits.
    pub fn insert(&mut self, key: KeyId, stamp: Time, value: &[u8]) -> Inserted {
        let (row, len) = (usize::from(key.0) * self.history, usize::from(self.lens[usize::from(key.0)]));
        let newer = self.places(key).rev().take_while(|&place| self.stamps[place] > stamp).count();
        let mut at = len - newer;
        if at > 0 && self.stamps[row + usize::from(self.order[row + at - 1])] == stamp {
            if Mutant::Overwrite.is_on() {
                let place = row + usize::from(self.order[row + at - 1]);
                return self.put(place, stamp, value);
            }
            return Inserted::Repeated;
        }
        let place = if len < self.history {
            self.lens[usize::from(key.0)] += 1;
            self.order.copy_within(row + at..row + len, row + at + 1);
            len as u8
        } else if at == len && Mutant::DropNewest.is_on() {
            at -= 1;
            self.order[row + at]
        } else if at == 0 {
            return Inserted::TooOld;
        } else {
            let oldest = self.order[row];
            at -= 1;
            self.order.copy_within(row + 1..row + 1 + at, row);
            oldest
        };
        self.order[row + at] = place;
        self.put(row + usize::from(place), stamp, value)
    }

    fn put(&mut self, place: usize, stamp: Time, value: &[u8]) -> Inserted {
        self.stamps[place] = stamp;
        self.value_lens[place] = value.len() as u16;
        let at = place * self.value_bytes_max;
        self.values[at..at + value.len()].copy_from_slice(value);
        Inserted::New
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.lens.fill(0);
    }

    /// The places of a key, oldest stamp first.
    fn places(&self, key: KeyId) -> impl DoubleEndedIterator<Item = usize> {
        let key = usize::from(key.0);
        let row = key * self.history;
        self.order[row..row + usize::from(self.lens[key])].iter().map(move |&place| row + usize::from(place))
    }
}

#[cfg(test)]
mod tests;
