//! What each peer has done that a correct one does not do.

use crate::frame::HeadError;

/// Since the lane began, one for each peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PeerCounters {
    /// Rounds that ended without its frame.
    pub silent: u64,
    /// Frames whose round or job was over.
    pub late: u64,
    /// Frames with a wrong code of authentication.
    pub forged: u64,
    /// Frames that do not belong where they came in, or are malformed.
    pub wrong: u64,
    /// Frames for a round that it had already spoken in.
    pub repeated: u64,
    /// Jobs in which it told different nodes different things, or passed on what was not said.
    pub lied: u64,
    /// Jobs after which it had published something else.
    pub differed: u64,
}

/// Why a frame was dropped: it is as if it had not come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Dropped {
    /// It does not begin with a head.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// It ends before or after its stated length, or is longer than a frame of this round can be.
    #[error("a frame of {0} bytes where it cannot have so many")]
    Length(usize),
    /// It is from another node than the one at the other end, for another one, or of another lane.
    #[error("a frame that belongs to another connection")]
    Misdirected,
    /// Its sender has another configuration.
    #[error("a frame by another configuration: compare the configurations of both nodes")]
    OtherConfiguration,
    /// There is no such round.
    #[error("a frame of round {0}, which there is not")]
    NoSuchRound(u8),
    /// Its round or its job is over.
    #[error("a frame of job {job}, round {round}, which is over")]
    Late {
        /// Its job.
        job: u64,
        /// Its round.
        round: u8,
    },
    /// Its job is the next one, for which it may be kept.
    #[error("a frame of job {job} before its time")]
    TooEarly {
        /// Its job.
        job: u64,
    },
    /// Its job is none that a correct clock could have begun. Whoever kept it would hear nothing behind it.
    #[error("a frame of job {job}, which is far ahead")]
    FarAhead {
        /// Its job.
        job: u64,
    },
    /// Its sender has already spoken in this round.
    #[error("a second frame for one round")]
    Repeated,
    /// Its code of authentication is wrong.
    #[error("a frame with a wrong code: its sender has another key, or it was changed on the way")]
    Forged,
    /// Its body is not what its round demands.
    #[error("a frame with a malformed body")]
    Malformed,
}

impl Dropped {
    pub(crate) fn count(self, counters: &mut PeerCounters) {
        let counter = match self {
            Dropped::Late { .. } => &mut counters.late,
            Dropped::Repeated => &mut counters.repeated,
            Dropped::Forged => &mut counters.forged,
            _ => &mut counters.wrong,
        };
        *counter += 1;
    }
}
