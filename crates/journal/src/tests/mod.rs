//! The journal on an invented disk.

mod anything;
mod cases;
mod drive;
