//! A key that has been looked up.

use kv::{Format, KeyId};
use kv_shared::KeyTerms;
use std::sync::Arc;

/// A key of one lane; see [`Reader::key`](crate::Reader::key). It means nothing at another lane.
#[derive(Clone, Debug)]
pub struct Key {
    pub(crate) id: KeyId,
    pub(crate) name: Arc<str>,
    pub(crate) terms: KeyTerms,
}

impl Key {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number: its place in the configuration.
    pub fn number(&self) -> u16 {
        self.id.0
    }

    /// The format of its numbers, if it votes on numbers.
    pub fn format(&self) -> Option<Format> {
        self.terms.format
    }

    /// Whether this node may write it.
    pub fn may_write(&self) -> bool {
        self.terms.may_write
    }
}
