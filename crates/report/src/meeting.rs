//! What a peer says of something that was put there: lines of JSON.

use contract::{Contract, Loss, Needs, Span, SpanError};
use serde::{Deserialize, Serialize};

/// One line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "event")]
pub enum MeetingEvent {
    /// It has met another.
    Start {
        /// The topic of both.
        topic: String,
        /// What the other one says.
        other: String,
        /// The contract under which messages are published, if one follows from what both say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        contract: Option<ContractReport>,
        /// What who wants them asks of brokers, if it asks for anything.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        needs: Option<NeedsReport>,
    },
    /// That is over.
    Stop {
        /// The topic.
        topic: String,
        /// What the other one said.
        #[serde(default)]
        other: String,
    },
    /// Something new is kept that is as was wanted.
    Stored {
        /// What it is, as a profile.
        key: String,
        /// How many bytes its value has.
        bytes: u64,
        /// The value, if it is short.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<String>,
        /// How `value` says the bytes: as they are (`utf-8`), or where they are no text in `base64`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        encoding: Option<String>,
    },
    /// The brokers refuse the topic to the other end: nothing comes, or nobody hears.
    Refused {
        /// The topic.
        topic: String,
        /// Why.
        why: String,
    },
    /// It matches another, and what one end needs of messages the other one does not offer.
    Unfit {
        /// The topic that there would be.
        topic: String,
        /// What the other one says.
        other: String,
        /// Why not.
        why: String,
    },
}

/// The most bytes of a value that peers keep.
pub const VALUE_BYTES_MAX: usize = 1 << 20;

/// Something that is kept.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct KeptReport {
    /// What it is, as a profile.
    pub key: String,
    /// How many bytes its value has.
    pub bytes: u64,
    /// Which of several; those that come later have greater ones. About when it was put, in nanoseconds since the Unix epoch.
    pub version: u64,
    /// How far to the north it is.
    pub lat: f64,
    /// How far to the east it is.
    pub long: f64,
    /// How long it lasts; `null`: for ever.
    pub left_ns: Option<u64>,
    /// The value, if values were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// How `value` says the bytes: as they are (`utf-8`), or where they are no text in `base64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
}

/// What a program says when brokers refuse a topic to it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RefusalReport {
    /// The topic.
    pub topic: String,
    /// Why.
    pub why: String,
}

/// A contract, with times as people write them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ContractReport {
    /// How often messages come at most.
    pub period: String,
    /// How soon they are there.
    pub deadline: String,
    /// How many in a row may be lost; `null`: any number.
    pub loss: Option<u32>,
    /// How many the publisher keeps.
    pub retain: u32,
    /// The most bytes of one; zero where nobody has said.
    pub size: u32,
}

/// What a subscriber asks of brokers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NeedsReport {
    /// How soon messages have to be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// How many in a row may be lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<u32>,
}

impl ContractReport {
    /// Of a contract.
    pub fn of(contract: &Contract) -> ContractReport {
        let loss = match contract.loss {
            Loss::AtMost(losses) => Some(losses),
            Loss::Unbounded => None,
        };
        let [period, deadline] = [contract.period, contract.deadline].map(|span| span.to_string());
        ContractReport { period, deadline, loss, retain: contract.retain, size: contract.size }
    }

    /// The contract.
    ///
    /// # Errors
    ///
    /// One of its times is none.
    pub fn contract(&self) -> Result<Contract, SpanError> {
        let every = Contract::every(self.period.parse()?).deadline(self.deadline.parse()?);
        let every = match self.loss {
            Some(losses) => every.tolerate(losses),
            None => every.best_effort(),
        };
        Ok(every.retain(self.retain).size(self.size))
    }
}

impl NeedsReport {
    /// Of needs; `None` if there are none.
    pub fn of(needs: &Needs) -> Option<NeedsReport> {
        let says = needs.deadline.is_some() || needs.loss.is_some();
        says.then(|| NeedsReport { deadline: needs.deadline.map(|span| span.to_string()), loss: needs.loss })
    }

    /// The needs.
    ///
    /// # Errors
    ///
    /// Its time is none.
    pub fn needs(&self) -> Result<Needs, SpanError> {
        let deadline = self.deadline.as_deref().map(str::parse::<Span>).transpose()?;
        Ok(Needs { deadline, loss: self.loss, ..Needs::NONE })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]
mod tests {
    use super::*;

    #[test]
    fn a_contract_comes_back_as_it_was() {
        let bounded = Contract::every(Span::millis(50)).deadline(Span::millis(20)).tolerate(2).retain(7);
        for contract in [bounded, bounded.best_effort(), Contract::every(Span::FOREVER).size(64)] {
            assert_eq!(ContractReport::of(&contract).contract().unwrap(), contract);
        }
        let needs = Needs { deadline: Some(Span::millis(5)), ..Needs::NONE };
        assert_eq!(NeedsReport::of(&needs).unwrap().needs().unwrap(), needs);
        assert_eq!(NeedsReport::of(&Needs::NONE), None);
    }

    #[test]
    fn a_line_has_only_what_there_is() {
        let start =
            MeetingEvent::Start { topic: "rv/1".into(), other: "drone".into(), contract: None, needs: None };
        let text = serde_json::to_string(&start).unwrap();
        assert_eq!(text, r#"{"event":"start","topic":"rv/1","other":"drone"}"#);
        assert_eq!(serde_json::from_str::<MeetingEvent>(&text).unwrap(), start);
    }
}
