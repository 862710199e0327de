//! What all have agreed on, by key and publishing time.

use crate::{KeyId, Proposals, Setup};
use contract::{Mutant, Span, Time};

/// For each key the newest stamps in ascending order (I5), with their values.
///
/// A value does not move once it is there: an order of one byte for each place says which is the oldest. And it does not
/// change: what is published first under a key and stamp stands, so that nobody reads two values for one instant.
///
/// A value is *held* while it is not sure that nobody published another one first: nobody reads it. The digest is a sum over all values, so that
/// it costs as much as what changes.
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
    held: Box<[bool]>,
    /// For each key, the newest stamp that has made way for others and may have been read: nothing comes back under it.
    gone: Box<[Time]>,
    held_count: usize,
    digest: u64,
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
    /// There may be something that others read, and this node has missed it.
    #[error(
        "this node has missed a job and does not know yet what was agreed on: read again, or on another node"
    )]
    Unknown,
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

    /// What the value was made of that is published next. Of one that is recovered, nobody says it.
    fn agreed(&mut self, key: KeyId, stamp: Time, proposals: Proposals<'_>) {
        let _ = (key, stamp, proposals);
    }

    /// A value that was agreed on in a job that this node missed, or was held back since it had.
    fn recover(&mut self, key: KeyId, stamp: Time, value: &[u8]) {
        self.publish(key, stamp, value);
    }
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
            held: vec![false; places].into(),
            gone: vec![Time::ZERO; keys].into(),
            held_count: 0,
            digest: 0,
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
        let newest = self.places(key).rev().find(|&place| self.stamps[place] <= visible && !self.held[place]);
        let newest = newest.ok_or(ReadError::Nothing)?;
        let stamp = self.stamps[newest];
        if stamp < freshness && !Mutant::ReadStale.is_on() {
            return Err(ReadError::Stale(freshness.since(stamp)));
        }
        Ok(Value { stamp, bytes: self.value(newest) })
    }

    fn value(&self, place: usize) -> &[u8] {
        let at = place * self.value_bytes_max;
        &self.values[at..at + usize::from(self.value_lens[place])]
    }

    /// Whether nothing that may be read has been published under the key, be it visible yet or not.
    pub fn is_empty(&self, key: KeyId) -> bool {
        self.places(key).all(|place| self.held[place])
    }

    /// A number that is the same wherever all values are, held ones too.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Values of a key with stamps after this, in ascending order.
    pub(crate) fn since(&self, key: KeyId, since: Time) -> impl Iterator<Item = (Time, &[u8])> {
        let places = self.places(key).filter(move |&place| self.stamps[place] > since);
        places.map(|place| (self.stamps[place], self.value(place)))
    }

    /// Publishes a value that fits.
    pub fn insert(&mut self, key: KeyId, stamp: Time, value: &[u8]) -> Inserted {
        self.insert_as(key, stamp, value, false)
    }

    /// Forgets what is held under a key with stamps after this.
    pub(crate) fn drop_held(&mut self, key: KeyId, since: Time) {
        let row = usize::from(key.0) * self.history;
        let mut at = 0;
        while at < usize::from(self.lens[usize::from(key.0)]) {
            let place = row + usize::from(self.order[row + at]);
            if self.held[place] && self.stamps[place] > since {
                self.take_out(key, at);
            } else {
                at += 1;
            }
        }
    }

    /// The value at this place of the order goes; the last place moves into its own.
    fn take_out(&mut self, key: KeyId, at: usize) {
        let row = usize::from(key.0) * self.history;
        let len = usize::from(self.lens[usize::from(key.0)]);
        let place = usize::from(self.order[row + at]);
        self.forget(row + place);
        self.order.copy_within(row + at + 1..row + len, row + at);
        let last = len - 1;
        self.lens[usize::from(key.0)] = last as u8;
        if place == last {
            return;
        }
        if let Some(moved) = self.order[row..row + last].iter_mut().find(|other| usize::from(**other) == last)
        {
            *moved = place as u8;
        }
        let (from, to) = (row + last, row + place);
        (self.stamps[to], self.value_lens[to], self.held[to]) =
            (self.stamps[from], self.value_lens[from], self.held[from]);
        self.held[from] = false;
        let bytes = self.value_bytes_max;
        self.values.copy_within(from * bytes..(from + 1) * bytes, to * bytes);
    }

    /// Everything that is held may be read from now on.
    pub(crate) fn release_held(&mut self, mut readable: impl FnMut(KeyId, Time, &[u8])) {
        for key in (0..self.keys).map(|key| KeyId(key as u16)) {
            if self.held_count == 0 {
                return;
            }
            let row = usize::from(key.0) * self.history;
            for at in 0..usize::from(self.lens[usize::from(key.0)]) {
                let place = row + usize::from(self.order[row + at]);
                if std::mem::take(&mut self.held[place]) {
                    self.held_count -= 1;
                    readable(key, self.stamps[place], self.value(place));
                }
            }
        }
    }

    /// The same for a value of which it may not be sure that it is the first.
    pub(crate) fn insert_as(&mut self, key: KeyId, stamp: Time, value: &[u8], held: bool) -> Inserted {
        let (row, len) = (usize::from(key.0) * self.history, usize::from(self.lens[usize::from(key.0)]));
        let newer = self.places(key).rev().take_while(|&place| self.stamps[place] > stamp).count();
        let mut at = len - newer;
        if at > 0 && self.stamps[row + usize::from(self.order[row + at - 1])] == stamp {
            if Mutant::Overwrite.is_on() {
                let place = row + usize::from(self.order[row + at - 1]);
                self.forget(place);
                return self.put(key, place, stamp, value, held);
            }
            return Inserted::Repeated;
        }
        if stamp <= self.gone[usize::from(key.0)] {
            return Inserted::TooOld;
        }
        let place = if len < self.history {
            self.lens[usize::from(key.0)] += 1;
            self.order.copy_within(row + at..row + len, row + at + 1);
            len as u8
        } else if at == len && Mutant::DropNewest.is_on() {
            at -= 1;
            self.forget(row + usize::from(self.order[row + at]));
            self.order[row + at]
        } else if at == 0 {
            return Inserted::TooOld;
        } else {
            let oldest = self.order[row];
            let place = row + usize::from(oldest);
            if !self.held[place] {
                self.gone[usize::from(key.0)] = self.stamps[place];
            }
            self.forget(place);
            at -= 1;
            self.order.copy_within(row + 1..row + 1 + at, row);
            oldest
        };
        self.order[row + at] = place;
        self.put(key, row + usize::from(place), stamp, value, held)
    }

    /// What is at a place counts no longer.
    fn forget(&mut self, place: usize) {
        let key = KeyId((place / self.history) as u16);
        self.digest = self.digest.wrapping_sub(entry_hash(key, self.stamps[place], self.value(place)));
        self.held_count -= usize::from(std::mem::take(&mut self.held[place]));
    }

    fn put(&mut self, key: KeyId, place: usize, stamp: Time, value: &[u8], held: bool) -> Inserted {
        self.digest = self.digest.wrapping_add(entry_hash(key, stamp, value));
        self.held[place] = held;
        self.held_count += usize::from(held);
        self.stamps[place] = stamp;
        self.value_lens[place] = value.len() as u16;
        let at = place * self.value_bytes_max;
        self.values[at..at + value.len()].copy_from_slice(value);
        Inserted::New
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.lens.fill(0);
        self.held.fill(false);
        self.gone.fill(Time::ZERO);
        (self.held_count, self.digest) = (0, 0);
    }

    /// The places of a key, oldest stamp first.
    fn places(&self, key: KeyId) -> impl DoubleEndedIterator<Item = usize> {
        let key = usize::from(key.0);
        let row = key * self.history;
        self.order[row..row + usize::from(self.lens[key])].iter().map(move |&place| row + usize::from(place))
    }
}

fn entry_hash(key: KeyId, stamp: Time, value: &[u8]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&key.0.to_le_bytes()).update(&stamp.0.to_le_bytes()).update(value);
    crate::digest::first_word(&hasher.finalize())
}

#[cfg(test)]
mod tests;
