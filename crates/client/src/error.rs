//! What can go wrong, for the caller.

use contract::{Remedies, Span};
use endpoint::PublishError;
use std::fmt;

/// Why a request of a client was not met.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// An address that is none.
    Address {
        /// As it was given.
        text: String,
        /// Why.
        reason: String,
    },
    /// No primary within the time.
    NoPrimary {
        /// How long was waited.
        waited: Span,
        /// What each broker did, in words.
        brokers: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A user name or password that cannot be one.
    Credentials(String),
    /// The brokers do not know the client, or do not allow what it asked for.
    Denied(String),
    /// No answer within the time.
    NoAnswer(Span),
    /// A topic name or filter that is none.
    Topic(String),
    /// The broker refused the contract.
    Refused {
        /// The topic.
        topic: String,
        /// Why, with what would be admitted.
        reason: String,
        /// The smallest changes that would be admitted.
        remedies: Remedies,
    },
    /// The broker refused the subscription.
    SubscriptionRefused {
        /// The filter.
        filter: String,
        /// Why.
        reason: String,
    },
    /// The message was not accepted.
    NotPublished(PublishError),
    /// A limit of this client.
    Limit(&'static str),
    /// The client was called from inside one of its own handlers or batches, which hold it.
    InsideHandler,
    /// The client has ended, and why: one of its handlers panicked, or the system refused what it cannot do without.
    Ended(String),
    /// The system refused something that a client needs.
    System(String),
    /// Certificates or keys that cannot be used.
    Tls(String),
    /// A broker refused a handover.
    Handover(String),
    /// A peer says what is wrong with what is offered or wanted.
    Peer(String),
    /// Nothing is kept under that.
    Nothing,
    /// No peer answers, or none takes it, and why.
    NoPeer(String),
}

impl Error {
    /// Whether the same call may succeed later, without anything else being changed.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Error::NoPrimary { .. }
                | Error::NoPeer(_)
                | Error::NoAnswer(_)
                | Error::NotPublished(PublishError::Overloaded | PublishError::NotAdmitted)
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Address { text, reason } => {
                write!(f, "`{text}` is no address ({reason}): write host:port, as in 127.0.0.1:7571")
            }
            Error::NoPrimary { waited, brokers, remedy } => {
                write!(f, "no primary broker was found within {waited}: {brokers}; {remedy}")
            }
            Error::Credentials(reason) => f.write_str(reason),
            Error::Denied(reason) => write!(f, "the broker says no: {reason}"),
            Error::NoAnswer(waited) => write!(f, "the broker did not answer within {waited}"),
            Error::Topic(reason) => f.write_str(reason),
            Error::Refused { topic, reason, .. } => {
                write!(f, "the contract of `{topic}` was refused: {reason}")
            }
            Error::SubscriptionRefused { filter, reason } => {
                write!(f, "the subscription `{filter}` was refused: {reason}")
            }
            Error::NotPublished(error) => write!(f, "not published: {error}"),
            Error::Limit(which) => write!(f, "the client's limit of {which} is reached"),
            Error::InsideHandler => {
                write!(
                    f,
                    "a handler or a batch may not call its own client: do it afterwards, or on another thread"
                )
            }
            Error::Ended(reason) => write!(f, "the client has ended: {reason}"),
            Error::System(reason) | Error::Tls(reason) | Error::Peer(reason) => f.write_str(reason),
            Error::Nothing => f.write_str("nothing is kept under this profile"),
            Error::NoPeer(reason) => write!(f, "no peer takes it: {reason}"),
            Error::Handover(reason) => write!(f, "no handover: {reason}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<PublishError> for Error {
    fn from(error: PublishError) -> Error {
        Error::NotPublished(error)
    }
}
