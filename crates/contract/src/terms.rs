//! The contract of a topic: what its publishers and the brokers promise to its subscribers.

use crate::Span;
use std::fmt;
use std::str::FromStr;

/// How many messages of a stream may be lost in a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Loss {
    /// At most this many consecutive losses; zero means that nothing may be lost.
    AtMost(u32),
    /// Best effort: any number.
    Unbounded,
}

impl Loss {
    /// Whether a run of `run` consecutive losses keeps the contract.
    pub fn tolerates(self, run: u64) -> bool {
        match self {
            Loss::AtMost(most) => run <= u64::from(most),
            Loss::Unbounded => true,
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::AtMost(most) => f.pad(&most.to_string()),
            Loss::Unbounded => f.pad("∞"),
        }
    }
}

/// The kind of link between the broker and a topic's subscribers, by name: `edge`, `cloud`, or one of the deployment's
/// own. It selects the delay `ΔBS`. The name is stored in place, so that a contract is a plain value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkClass([u8; LinkClass::BYTES]);

/// Why a name is not a link class.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a link class: use 1 to 15 letters, digits, `-` or `_`")]
pub struct LinkClassError(pub String);

impl LinkClass {
    /// Room for a name, its end marked by a zero.
    pub const BYTES: usize = 16;
    /// Subscribers on the brokers' own network.
    pub const EDGE: LinkClass = LinkClass(*b"edge\0\0\0\0\0\0\0\0\0\0\0\0");
    /// Subscribers across a wide-area network.
    pub const CLOUD: LinkClass = LinkClass(*b"cloud\0\0\0\0\0\0\0\0\0\0\0");

    /// The name.
    pub fn name(&self) -> &str {
        let end = self.0.iter().position(|&b| b == 0).unwrap_or(self.0.len());
        std::str::from_utf8(&self.0[..end]).unwrap_or("")
    }

    /// The stored form, for the wire.
    pub fn bytes(&self) -> [u8; LinkClass::BYTES] {
        self.0
    }

    /// Reads the stored form; every malformed one is refused, so equal names have equal bytes.
    pub fn from_bytes(bytes: [u8; LinkClass::BYTES]) -> Result<LinkClass, LinkClassError> {
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        let text = String::from_utf8_lossy(&bytes[..end]);
        let class: LinkClass = text.parse()?;
        if class.0 == bytes { Ok(class) } else { Err(LinkClassError(text.into_owned())) }
    }
}

impl FromStr for LinkClass {
    type Err = LinkClassError;

    fn from_str(name: &str) -> Result<LinkClass, LinkClassError> {
        let fits = (1..LinkClass::BYTES).contains(&name.len());
        if !fits || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
            return Err(LinkClassError(name.to_owned()));
        }
        let mut bytes = [0; LinkClass::BYTES];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Ok(LinkClass(bytes))
    }
}

impl fmt::Display for LinkClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for LinkClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LinkClass({})", self.name())
    }
}

/// What a topic promises. Built like a sentence:
///
/// ```
/// use contract::{Contract, Span};
///
/// let vibration = Contract::every(Span::millis(50)).deadline(Span::millis(20)).tolerate(0).retain(2);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Contract {
    /// `T`: the shortest time between two messages of one stream. [`Span::FOREVER`] for a message that is rare.
    pub period: Span,
    /// `D`: from creation at the publisher to arrival at every subscriber.
    pub deadline: Span,
    /// `L`: how many messages in a row may be lost.
    pub loss: Loss,
    /// `N`: how many of its newest messages the publisher keeps, to send them again when a broker has failed.
    pub retain: u32,
    /// Where the subscribers are.
    pub link: LinkClass,
    /// Decides between equal deadlines; the higher number goes first.
    pub priority: u8,
    /// Whether a message counts as dispatched only when its subscribers have confirmed it. Off: when it has been
    /// handed to the transport. What waits there dies with the broker's host, and may die with its process.
    pub confirm: bool,
    /// The largest payload of its messages, in bytes; zero where that is not said. Brokers reserve memory for so much.
    pub size: u32,
}

/// Why a set of terms makes no contract.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContractError {
    /// A period or deadline that is zero or negative.
    #[error("the {term} is {value}: it must be longer than zero")]
    NotPositive {
        /// Which term.
        term: &'static str,
        /// Its value.
        value: Span,
    },
    /// More retained messages than any publisher should keep.
    #[error("a retention of {0} messages is above the limit of {max}", max = Contract::RETAIN_MAX)]
    RetainsTooMany(u32),
    /// A subscriber that nothing is promised to, and that needs something.
    #[error("best effort promises nothing: leave out deadline, loss and link, or best effort")]
    BestEffortWithNeeds,
}

impl Contract {
    /// The largest retention that a contract may ask of a publisher.
    pub const RETAIN_MAX: u32 = 1 << 16;

    /// A contract for a message every `period`: due within the period, nothing lost, one message retained.
    pub fn every(period: Span) -> Contract {
        Contract {
            period,
            deadline: period,
            loss: Loss::AtMost(0),
            retain: 1,
            link: LinkClass::EDGE,
            priority: 0,
            confirm: false,
            size: 0,
        }
    }

    /// Sets `D`.
    pub fn deadline(self, deadline: Span) -> Contract {
        Contract { deadline, ..self }
    }

    /// Sets `L`.
    pub fn tolerate(self, losses: u32) -> Contract {
        Contract { loss: Loss::AtMost(losses), ..self }
    }

    /// Sets `L` to infinity and retains nothing.
    pub fn best_effort(self) -> Contract {
        Contract { loss: Loss::Unbounded, retain: 0, ..self }
    }

    /// The same where nothing is promised and nothing is due: messages go when there is time.
    #[must_use]
    pub fn unpromised(self) -> Contract {
        Contract { deadline: Span::FOREVER, ..self.best_effort() }
    }

    /// That of a topic of which nobody has said anything: messages go when there is time, and no processor is kept for them.
    pub fn unstated() -> Contract {
        Contract::every(Span::FOREVER).unpromised()
    }

    /// Sets `N`.
    pub fn retain(self, messages: u32) -> Contract {
        Contract { retain: messages, ..self }
    }

    /// Sets the destination link.
    pub fn over(self, link: LinkClass) -> Contract {
        Contract { link, ..self }
    }

    /// Sets the priority among equal deadlines.
    pub fn priority(self, priority: u8) -> Contract {
        Contract { priority, ..self }
    }

    /// Counts a message as dispatched only when its subscribers have confirmed it.
    pub fn confirmed(self) -> Contract {
        Contract { confirm: true, ..self }
    }

    /// Sets the largest payload of its messages, in bytes.
    pub fn size(self, bytes: u32) -> Contract {
        Contract { size: bytes, ..self }
    }

    /// Checks what can be checked without knowing the deployment.
    pub fn check(&self) -> Result<(), ContractError> {
        for (term, value) in [("period", self.period), ("deadline", self.deadline)] {
            if value <= Span::ZERO {
                return Err(ContractError::NotPositive { term, value });
            }
        }
        if self.retain > Contract::RETAIN_MAX {
            return Err(ContractError::RetainsTooMany(self.retain));
        }
        Ok(())
    }

    /// How long the retained and the tolerated messages together span: `(N + L) · T`.
    pub fn cover(&self) -> Span {
        match self.loss {
            Loss::AtMost(losses) => self.period * (u64::from(self.retain) + u64::from(losses)),
            Loss::Unbounded => Span::FOREVER,
        }
    }
}

impl fmt::Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Contract { period, deadline, loss, retain, link, .. } = self;
        write!(f, "period {period}, deadline {deadline}, loss {loss}, retain {retain}, link {link}")?;
        if self.priority != 0 {
            write!(f, ", priority {}", self.priority)?;
        }
        if self.confirm {
            write!(f, ", confirmed")?;
        }
        if self.size != 0 {
            write!(f, ", size {}", self.size)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_class_has_one_stored_form() {
        assert_eq!("edge".parse(), Ok(LinkClass::EDGE));
        assert_eq!(LinkClass::from_bytes(LinkClass::CLOUD.bytes()), Ok(LinkClass::CLOUD));
        assert!(LinkClass::from_bytes(*b"edge\0x\0\0\0\0\0\0\0\0\0\0").is_err());
        assert!(LinkClass::from_bytes([b'x'; 16]).is_err());
        assert!("".parse::<LinkClass>().is_err());
        assert!("with space".parse::<LinkClass>().is_err());
    }

    #[test]
    fn terms_that_make_no_contract_are_named() {
        let bad = Contract::every(Span::ZERO).check().unwrap_err();
        assert_eq!(bad.to_string(), "the period is 0ms: it must be longer than zero");
        assert!(Contract::every(Span::millis(1)).retain(u32::MAX).check().is_err());
        assert_eq!(Contract::every(Span::FOREVER).check(), Ok(()));
    }
}
