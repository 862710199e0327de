//! What is wrong with a packet.

use super::{Reason, Version};
use std::fmt;

/// A packet that breaks the protocol. The connection ends with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// What to tell the client, where its version can be told.
    pub reason: Reason,
    /// What is wrong, for the admin.
    pub what: &'static str,
    /// The version in which a client may be told, as far as it is known. For a version that is not spoken here: the one whose
    /// CONNACK such a client understands.
    pub version_hint: Option<Version>,
}

impl Malformed {
    /// With any reason.
    #[cold]
    pub(super) fn new(reason: Reason, what: &'static str) -> Malformed {
        Malformed { reason, what, version_hint: None }
    }

    /// Bytes that are no packet.
    #[cold]
    pub(super) fn packet(what: &'static str) -> Malformed {
        Malformed::new(Reason::MALFORMED_PACKET, what)
    }

    /// A packet that must not be sent, or not like this.
    #[cold]
    pub(super) fn protocol(what: &'static str) -> Malformed {
        Malformed::new(Reason::PROTOCOL_ERROR, what)
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.what)
    }
}

impl std::error::Error for Malformed {}
