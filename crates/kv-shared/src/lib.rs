#![doc = include_str!("../README.md")]

pub mod clock;
mod memory;
mod passing;
mod proposal;
mod protocol;
mod quotas;
mod read;
mod ring;
mod server;
mod shape;
mod store;
mod vector;
mod writer;

pub use memory::{MEMORY_BYTES_MAX, MemoryError};
pub use passing::{FILES_MAX, Lines, PassingError};
pub use proposal::WriteError;
pub use protocol::{
    Answer, CLIENT_NAME_BYTES_MAX, Content, LINE_BYTES_MAX, LineError, Plain, Request, decode, encode,
    from_hex, to_hex,
};
pub use quotas::{QuotaError, Quotas, SLOTS_MAX};
pub use read::{Found, LOOKS_MAX, ReadError};
pub use ring::{Full, RingProblem, RingReader, RingWriter};
pub use server::{Backend, CONNECTIONS_MAX, JSON_NAME, JSON_TUPLES, Seat, Server, ServerError};
pub use shape::KeyTerms;
pub use store::{Gone, LaneFacts, State, Store};
pub use vector::{Said, vector_bytes_max};
pub use writer::StoreWriter;
