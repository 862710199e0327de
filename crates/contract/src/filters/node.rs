//! One level of a filter.

use super::Kept;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::mem;

/// Where filters that begin alike part. Its own text is in its parent.
#[derive(Clone, Debug, Default)]
pub(super) struct Node<T> {
    pub children: Children,
    /// The child for `+`.
    pub plus: Option<u32>,
    /// For the filter that ends here.
    pub here: T,
    /// For the filter that ends here with `#`.
    pub below: T,
}

impl<T: Kept> Node<T> {
    pub(super) fn is_empty(&self) -> bool {
        let childless = self.plus.is_none() && matches!(self.children, Children::None);
        childless && self.here.is_empty() && self.below.is_empty()
    }
}

/// A level's text behind a hash of it: most comparisons end at the hash and do not follow the pointer. Whoever makes hashes
/// collide gains nothing, as order goes on with the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Level<'a> {
    hash: u64,
    text: Cow<'a, str>,
}

impl<'a> Level<'a> {
    pub(super) fn new(text: &'a str) -> Level<'a> {
        Level::hashed(hash(text), text)
    }

    pub(super) fn hashed(hash: u64, text: &'a str) -> Level<'a> {
        Level { hash, text: Cow::Borrowed(text) }
    }

    fn owned(&self) -> Level<'static> {
        Level { hash: self.hash, text: Cow::Owned(self.text.clone().into_owned()) }
    }
}

/// FNV-1a.
pub(super) fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Literal children. Most nodes have none, one, or very many.
#[derive(Clone, Debug, Default)]
pub(super) enum Children {
    #[default]
    None,
    One(Level<'static>, u32),
    Many(BTreeMap<Level<'static>, u32>),
}

impl Children {
    pub(super) fn get<'a>(&'a self, level: &Level<'a>) -> Option<u32> {
        match self {
            Children::None => None,
            Children::One(own, child) => (own == level).then_some(*child),
            Children::Many(all) => {
                let all: &BTreeMap<Level<'a>, u32> = all;
                all.get(level).copied()
            }
        }
    }

    pub(super) fn insert(&mut self, level: &Level<'_>, child: u32) {
        *self = match mem::take(self) {
            Children::None => Children::One(level.owned(), child),
            Children::One(other, sibling) => {
                Children::Many(BTreeMap::from([(other, sibling), (level.owned(), child)]))
            }
            Children::Many(mut all) => {
                all.insert(level.owned(), child);
                Children::Many(all)
            }
        };
    }

    pub(super) fn remove(&mut self, level: &Level<'_>) {
        match self {
            Children::None => {}
            Children::One(own, _) => {
                if (own.hash, &own.text) == (level.hash, &level.text) {
                    *self = Children::None;
                }
            }
            Children::Many(all) => {
                all.remove(&level.owned());
                if all.is_empty() {
                    *self = Children::None;
                }
            }
        }
    }
}
