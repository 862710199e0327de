#![doc = include_str!("../README.md")]

mod cells;
mod codec;
mod election;
mod frame;
mod member;
mod rings;
mod table;
mod tree;

pub use cells::{Block, CELLS, Cell, Cells, DEPTH, EmptyExtent, Extent};
pub use codec::{ADDRESS_BYTES_MAX, FrameError, NAME_BYTES_MAX};
pub use election::{Election, Said, Side, Stands, Word};
pub use frame::Frame;
pub use member::{Member, PeerId};
pub use rings::{Effects, News, Rings, Role, Settings};
pub use table::{MEMBERS_MAX, Table};
pub use tree::{Claim, Rank, Tree};
