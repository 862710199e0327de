//! What every driver keeps to, whether its sockets are real or invented.

mod portion;
mod turn;

use contract::Span;
pub use portion::Portion;
pub use turn::{Reading, Turn, TurnState, hear_news, serve, take_turn};

/// Most bytes read from one connection before others have their turn; see [`Portion`].
pub const READ_BYTES: usize = contract::rounds::READ_BYTES;
/// A connection that brings so much with one read is served after others.
pub const FLOOD_BYTES: usize = 32 << 10;
/// Portions of work before sockets are looked at again.
pub(crate) const PORTIONS_PER_TURN: usize = contract::rounds::JOBS_PER_TURN as usize / JOBS_PER_PORTION;
/// Jobs that run before new bytes are looked at. Fewer would cost more calls, more would make an urgent message wait.
pub const JOBS_PER_PORTION: usize = 64;
/// A backlog above this, gone down to it, is reported as drained.
pub const DRAINED_BYTES: usize = 64 << 10;
/// A peer for which so much waits has stopped reading; its connection is given up.
pub const OUTBOX_BYTES_MAX: usize = 64 << 20;
/// How long a connection that is closed may take to send the rest.
pub const CLOSING_TIME: Span = Span::secs(1);
