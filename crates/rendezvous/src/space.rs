//! The information space: which dimensions profiles have, and where on the ring they lie.

use crate::clusters::{Cluster, Resolution, resolve};
use crate::curve::{self, DIMENSIONS_MAX};
use crate::pattern::{Pattern, Value};
use crate::profile::{Interest, Profile};
use crate::words;
use contract::RingId;
use std::ops::RangeInclusive;

/// Bytes that the name of a dimension, or of another attribute, may have.
pub const NAME_BYTES_MAX: usize = 64;

/// What the values of a dimension are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// Words.
    Words,
    /// Numbers, most of which lie between these two.
    Numbers {
        /// The least.
        least: f64,
        /// The greatest.
        most: f64,
    },
}

/// One dimension.
#[derive(Clone, PartialEq, Debug)]
pub struct Dimension {
    pub(crate) name: Box<str>,
    pub(crate) kind: Kind,
}

impl Dimension {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its values are.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

/// Why something is no space.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpaceError {
    /// It has no dimension, or too many.
    #[error(
        "a space has 1 to {DIMENSIONS_MAX} dimensions, not {0}: what is named beyond them is matched without one"
    )]
    Dimensions(usize),
    /// A name that cannot be one.
    #[error(
        "`{0}` cannot be the name of a dimension: 1 to {NAME_BYTES_MAX} bytes of a-z, 0-9, `_` and `-`, and not `lat` or `long`"
    )]
    Name(String),
    /// A name that is there twice.
    #[error("there are two dimensions called `{0}`")]
    Twice(String),
    /// Numbers between which there is nothing.
    #[error("the numbers of dimension `{0}` have to begin below where they end, and to be finite")]
    Numbers(String),
}

/// Which dimensions profiles have. All peers of a deployment have the same one.
#[derive(Clone, PartialEq, Debug)]
pub struct Space {
    dimensions: Box<[Dimension]>,
    closed: bool,
    bits: u32,
}

impl Space {
    /// A space with these dimensions. One that is `closed` has no other attributes.
    pub fn new(dimensions: &[(&str, Kind)], closed: bool) -> Result<Space, SpaceError> {
        if dimensions.is_empty() || dimensions.len() > DIMENSIONS_MAX {
            return Err(SpaceError::Dimensions(dimensions.len()));
        }
        let mut known: Vec<Dimension> = Vec::new();
        for &(name, kind) in dimensions {
            let name = name.to_ascii_lowercase();
            if !is_name(&name) || is_place(&name) {
                return Err(SpaceError::Name(name));
            }
            if known.iter().any(|other| *other.name == *name) {
                return Err(SpaceError::Twice(name));
            }
            if let Kind::Numbers { least, most } = kind
                && !(least < most && least.is_finite() && most.is_finite() && (most - least).is_finite())
            {
                return Err(SpaceError::Numbers(name));
            }
            known.push(Dimension { name: name.into(), kind });
        }
        let bits = curve::bits_of(known.len());
        Ok(Space { dimensions: known.into(), closed, bits })
    }

    /// Its dimensions, in their order.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// Whether profiles have no attributes besides the dimensions.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The place of a dimension.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.dimensions.iter().position(|dimension| *dimension.name == *name)
    }

    /// Where a profile lies: whoever has this place knows who wants it. A dimension of which it says nothing counts as the least.
    pub fn place_of(&self, profile: &Profile) -> RingId {
        let mut point = [0; DIMENSIONS_MAX];
        for (coordinate, (value, dimension)) in
            point.iter_mut().zip(profile.values().iter().zip(&self.dimensions))
        {
            *coordinate = value.as_ref().map_or(0, |value| self.coordinate(dimension.kind, value));
        }
        curve::place(&point[..self.dimensions.len()], self.bits)
    }

    /// Where everything lies that an interest may mean, in the order of the ring. Where that would be too many pieces, they are larger: whoever has
    /// them matches exactly.
    pub fn clusters_of(&self, interest: &Interest, resolution: &Resolution) -> Vec<Cluster> {
        let ranges: Vec<_> = interest
            .wanted()
            .iter()
            .zip(&self.dimensions)
            .map(|(pattern, dimension)| self.range(dimension.kind, pattern.as_ref()))
            .collect();
        resolve(&ranges, self.bits, resolution)
    }

    pub(crate) fn coordinate(&self, kind: Kind, value: &Value) -> u32 {
        match kind {
            Kind::Words => words::coordinate_of(words::number_of(value.text()), self.bits),
            // Words of a dimension of numbers are refused when they are read.
            Kind::Numbers { least, most } => {
                words::coordinate_between(value.as_number().unwrap_or(least), least, most, self.bits)
            }
        }
    }

    /// The coordinates that a pattern may mean.
    pub(crate) fn range(&self, kind: Kind, pattern: Option<&Pattern>) -> RangeInclusive<u32> {
        let all = 0..=((1_u64 << self.bits) - 1) as u32;
        let word = |number| words::coordinate_of(number, self.bits);
        match pattern {
            None | Some(Pattern::Any) => all,
            Some(Pattern::Is(value)) => {
                let coordinate = self.coordinate(kind, value);
                coordinate..=coordinate
            }
            Some(Pattern::Begins(prefix)) => {
                let (least, most) = words::numbers_beginning(prefix);
                word(least)..=word(most)
            }
            Some(Pattern::Words { from, to }) => {
                let first = from.as_ref().map_or(0, |from| words::number_of(from));
                word(first)..=to.as_ref().map_or(*all.end(), |to| word(words::number_of(to)))
            }
            Some(Pattern::Numbers(bounds)) => {
                let Kind::Numbers { least, most } = kind else { return all };
                let of = |number| words::coordinate_between(number, least, most, self.bits);
                of(bounds.from())..=of(bounds.to())
            }
        }
    }

    pub(crate) fn bits(&self) -> u32 {
        self.bits
    }
}

/// Whether a text can name an attribute.
pub(crate) fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.bytes().all(fits)
}

/// Whether it names where something is on earth.
pub(crate) fn is_place(text: &str) -> bool {
    matches!(text, "lat" | "long")
}
