//! The limits of the protocol. Both ends keep them; a peer that does not is cut off.

/// The time between two polls of a client, where it does not choose another.
pub const CLIENT_POLL: contract::Span = contract::Span::millis(100);
/// The head that every frame begins with.
pub const FRAME_HEAD_BYTES: usize = 8;
/// The largest body of a frame. It holds one message of the largest payload and its head.
pub const FRAME_BODY_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + 1024;
/// The largest payload of a message.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// A batch of messages is closed when its body has reached this size.
pub const BATCH_BYTES_TARGET: usize = 64 << 10;
/// The longest name of a client or broker.
pub const NAME_BYTES_MAX: usize = 128;
/// How clients are called that only ask how a broker is, or move the reign: a few places are kept for them.
pub const ADMIN_NAMES: &str = "operator-";
/// The longest name of a user.
pub const USER_BYTES_MAX: usize = 128;
/// The longest password.
pub const PASSWORD_BYTES_MAX: usize = 1024;
/// The longest name of an operator with its instance; longer ones are cut where they are told.
pub const OPERATOR_BYTES_MAX: usize = 640;
/// An answer with rows is closed when they have reached this size; who asked goes on after the last of them.
pub const ROWS_BYTES_TARGET: usize = 512 << 10;
/// The longest text for people in a frame.
pub const TEXT_BYTES_MAX: usize = 1024;
/// The most streams that a broker may be told to carry: whoever numbers streams uses numbers below it.
pub const STREAMS_MAX: usize = 4_000_000;

/// What the name of a site's client at a router ends with where it is for best effort alone. A client there without it is called `@` and
/// the site.
pub const SITE_BULK: &str = "/bulk";
