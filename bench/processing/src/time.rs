//! Times as plans and the kernel have them.

use contract::{Span, Time};
use rustix::event::Timespec;

/// So many seconds.
pub fn span(seconds: f64) -> Span {
    Span::nanos((seconds * 1e9) as i64)
}

/// As the kernel takes it.
pub fn timespec(time: Time) -> Timespec {
    Timespec { tv_sec: (time.0 / 1_000_000_000) as i64, tv_nsec: (time.0 % 1_000_000_000) as i64 }
}
