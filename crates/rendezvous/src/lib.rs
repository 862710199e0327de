#![doc = include_str!("../README.md")]

mod clusters;
mod curve;
mod index;
mod pattern;
mod point;
mod posts;
mod profile;
mod reading;
mod space;
mod terms;
mod words;

pub use clusters::{Cluster, Resolution};
pub use curve::DIMENSIONS_MAX;
pub use index::{Interests, Key};
pub use pattern::{Bounds, Pattern, Value};
pub use point::{
    MEETINGS_MAX, NoRoom, NotMade, Other, PARTIES_MAX, Party, Point, Post, SHOWN_BYTES_MAX, Said, Tell,
    Topic, digest,
};
pub use posts::{Carry, EXPIRY, GRACE, Map, Meeting, Posts};
pub use profile::{Area, Interest, Profile};
pub use reading::{At, ELEMENTS_MAX, Placed, ProfileError, WORD_BYTES_MAX, WrongElement, read};
pub use space::{Dimension, Kind, NAME_BYTES_MAX, Space, SpaceError};
pub use terms::{Agreed, TERMS_BYTES_MAX, Terms, TermsError, Unfit};
