//! What every driver keeps to, whether its sockets are real or invented.

mod outboxes;

use contract::Span;
pub use outboxes::Outboxes;

/// Bytes read from one connection before others have their turn.
pub const READ_BYTES: usize = 64 << 10;
/// Portions of work before sockets are looked at again.
pub const PORTIONS_PER_TURN: usize = 16;
/// A backlog above this, gone down to it, is reported as drained.
pub const DRAINED_BYTES: usize = 64 << 10;
/// A peer for which so much waits has stopped reading; its connection is given up.
pub const OUTBOX_BYTES_MAX: usize = 64 << 20;
/// How long a connection that is closed may take to send the rest.
pub const CLOSING_TIME: Span = Span::secs(1);
