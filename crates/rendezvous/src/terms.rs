//! What both ends of a meeting say of the messages between them, and the contract that follows from it.
//!
//! The problem: who offers something knows how often it comes and how much of it can be sent again; who wants it knows how soon and how completely
//! it has to come. Neither knows the other. The idea: each says what it knows behind its profile or interest, each end is told what the other one
//! says, and both reckon the same from that: the strictest of what is said.
//!
//! Invariant: what is agreed keeps whatever either end asks for, and asks for nothing that neither does.
//!
//! What it leaves to others: whether the brokers can keep it (admission).

use contract::{Contract, Needs, Span, check_name};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// What one end says of messages: what stands behind `;` in a profile or interest.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Terms {
    /// Of what is offered: its messages are on this topic already, whoever wants them.
    pub topic: Option<Arc<str>>,
    /// How often messages come at most; of what is wanted, how often they have to come at least.
    pub period: Option<Span>,
    /// How soon after they are made they have to be there.
    pub deadline: Option<Span>,
    /// How many in a row may be lost.
    pub loss: Option<u32>,
    /// Of what is offered: how many of the newest are kept, to be sent again when a broker has failed.
    pub retain: Option<u32>,
    /// Of what is offered: the most bytes of one.
    pub size: Option<u32>,
}

/// How the names of topics begin that are made.
pub(crate) const MADE: &str = "rv/";
/// Bytes that the name of a topic may have here.
pub const TOPIC_BYTES_MAX: usize = 512;
/// The most bytes that a message may have.
const SIZE_MAX: u32 = 1 << 20;
/// Bytes that terms have at most, as they are written.
pub const TERMS_BYTES_MAX: usize = TOPIC_BYTES_MAX + 256;

/// Why terms are none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TermsError {
    /// No `=`, or nothing on one side of it.
    #[error(
        "`{0}`: behind `;` stands what is said of messages, as in `; period=50ms, deadline=100ms, loss=0`"
    )]
    NoTerm(String),
    /// Nobody knows what that is.
    #[error("`{0}` is none of `topic`, `period`, `deadline`, `loss`, `retain`, `size`")]
    Unknown(String),
    /// It is there twice.
    #[error("`{0}` is there twice")]
    Twice(&'static str),
    /// Its value is none.
    #[error("`{term}`: {why}")]
    Value {
        /// Of what.
        term: &'static str,
        /// Why not.
        why: String,
    },
    /// It is said in an interest.
    #[error("`{0}` is for profiles: who offers something says it")]
    OfOffers(&'static str),
}

/// What is to be said of messages, from what both ends say.
#[derive(Clone, PartialEq, Debug)]
pub struct Agreed {
    /// The topic that they are on already, if they are on one.
    pub topic: Option<Arc<str>>,
    /// The contract under which they are to be published; `None` if who offers them does not say how often they come: then brokers know it, or
    /// nothing is promised.
    pub contract: Option<Contract>,
    /// What who wants them is to ask of brokers.
    pub needs: Needs,
}

/// Why both ends cannot have what they say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// It comes too seldom.
    #[error("it is wanted at least every {wanted}, and comes every {offered}")]
    Seldom {
        /// How often it is wanted.
        wanted: Span,
        /// How often it comes.
        offered: Span,
    },
    /// Nobody says how often it comes.
    #[error(
        "it is wanted at least every {0}, and who offers it does not say how often it comes: say `; period=...` with it"
    )]
    NoPeriod(Span),
    /// It is not to be lost, and nobody says how often it comes.
    #[error(
        "no more than {0} in a row may be lost, and who offers it does not say how often it comes: say `; period=...` with it"
    )]
    MayBeLost(u32),
}

/// The terms of an end in both directions: names with what they are of.
const NAMES: [&str; 6] = ["topic", "period", "deadline", "loss", "retain", "size"];

impl Terms {
    /// What is agreed between who offers this and who wants that.
    ///
    /// # Errors
    ///
    /// Who wants it needs what is not offered.
    pub fn agree(offered: &Terms, wanted: &Terms) -> Result<Agreed, Unfit> {
        match (wanted.period, offered.period) {
            (Some(wanted), Some(offered)) if offered > wanted => {
                return Err(Unfit::Seldom { wanted, offered });
            }
            (Some(wanted), None) => return Err(Unfit::NoPeriod(wanted)),
            // Of a topic that is there already brokers know more.
            (None, None) if offered.topic.is_none() => {
                if let Some(losses) = wanted.loss {
                    return Err(Unfit::MayBeLost(losses));
                }
            }
            _ => {}
        }
        let least = |a: Option<Span>, b: Option<Span>| a.into_iter().chain(b).min();
        let deadline = least(offered.deadline, wanted.deadline);
        let loss = offered.loss.into_iter().chain(wanted.loss).min();
        let contract = offered.period.map(|period| {
            let every = Contract::every(period).deadline(deadline.unwrap_or(period));
            let every = match loss {
                Some(losses) => every.tolerate(losses),
                None => every.best_effort(),
            };
            let retain = offered.retain.unwrap_or(every.retain);
            every.retain(retain).size(offered.size.unwrap_or(0))
        });
        let needs = Needs { deadline: wanted.deadline, loss: wanted.loss, ..Needs::NONE };
        Ok(Agreed { topic: offered.topic.clone(), contract, needs })
    }

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Terms::default()
    }

    /// Whether it says only what who wants something may say.
    pub(crate) fn check_wanted(&self) -> Result<(), TermsError> {
        let of_offers = [
            ("topic", self.topic.is_some()),
            ("retain", self.retain.is_some()),
            ("size", self.size.is_some()),
        ];
        match of_offers.into_iter().find(|(_, is_said)| *is_said) {
            Some((term, _)) => Err(TermsError::OfOffers(term)),
            None => Ok(()),
        }
    }

    fn set(&mut self, name: &'static str, value: &str) -> Result<(), TermsError> {
        let wrong = |why: String| TermsError::Value { term: name, why };
        let span = || {
            let span: Span = value.parse().map_err(|error: contract::SpanError| wrong(error.to_string()))?;
            if span > Span::ZERO { Ok(span) } else { Err(wrong("it must be longer than zero".to_owned())) }
        };
        let count = |most: u32| match value.parse::<u32>() {
            Ok(count) if count <= most => Ok(count),
            _ => Err(wrong(format!("`{value}` is no number from 0 to {most}"))),
        };
        match name {
            "topic" => {
                check_name(value).map_err(|error| wrong(error.to_string()))?;
                if value.len() > TOPIC_BYTES_MAX {
                    return Err(wrong(format!(
                        "{} bytes are above the limit of {TOPIC_BYTES_MAX}",
                        value.len()
                    )));
                }
                if value.starts_with(MADE) {
                    return Err(wrong(format!("names that begin with `{MADE}` are made by peers")));
                }
                self.topic = Some(value.into());
            }
            "period" => self.period = Some(span()?),
            "deadline" => self.deadline = Some(span()?),
            "loss" => self.loss = Some(count(u32::MAX)?),
            "retain" => self.retain = Some(count(Contract::RETAIN_MAX)?),
            _ => self.size = Some(count(SIZE_MAX)?),
        }
        Ok(())
    }

    /// What is said, by name.
    fn said(&self) -> impl Iterator<Item = (&'static str, String)> {
        let spans = [self.period, self.deadline].map(|span| span.map(|span| span.to_string()));
        let counts = [self.loss, self.retain, self.size].map(|count| count.map(|count| count.to_string()));
        let all = [self.topic.as_deref().map(str::to_owned)].into_iter().chain(spans).chain(counts);
        NAMES.into_iter().zip(all).filter_map(|(name, value)| Some((name, value?)))
    }
}

impl FromStr for Terms {
    type Err = TermsError;

    /// Reads `period=50ms, deadline=100ms, loss=0`; nothing is no terms.
    fn from_str(text: &str) -> Result<Terms, TermsError> {
        let mut terms = Terms::default();
        let mut known = Vec::new();
        for term in text.split(',').map(str::trim) {
            if term.is_empty() && text.trim().is_empty() {
                break;
            }
            let parts = term.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
            let (name, value) = parts
                .filter(|(name, value)| !name.is_empty() && !value.is_empty())
                .ok_or_else(|| TermsError::NoTerm(crate::reading::shortened(term)))?;
            let lower = name.to_ascii_lowercase();
            let name = NAMES.into_iter().find(|known| *known == lower);
            let name = name.ok_or_else(|| TermsError::Unknown(crate::reading::shortened(&lower)))?;
            if known.contains(&name) {
                return Err(TermsError::Twice(name));
            }
            known.push(name);
            terms.set(name, value)?;
        }
        Ok(terms)
    }
}

impl fmt::Display for Terms {
    /// As it is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said: Vec<String> = self.said().map(|(name, value)| format!("{name}={value}")).collect();
        f.write_str(&said.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::Loss;
    use proptest::prelude::*;

    fn read(text: &str) -> Terms {
        text.parse().unwrap()
    }

    /// What a contract lets happen is no worse than this end allows.
    fn keeps(contract: &Contract, terms: &Terms) -> bool {
        let loses = |most: u32| matches!(contract.loss, Loss::AtMost(losses) if losses <= most);
        terms.deadline.is_none_or(|deadline| contract.deadline <= deadline) && terms.loss.is_none_or(loses)
    }

    fn terms() -> impl Strategy<Value = Terms> {
        let span = || prop::option::of((1_i64..5).prop_map(|tens| Span::millis(tens * 10)));
        let topic = prop::option::of(Just(Arc::from("plant/temp")));
        let counts = prop::array::uniform3(prop::option::of(0_u32..4));
        (topic, span(), span(), counts).prop_map(|(topic, period, deadline, [loss, retain, size])| Terms {
            topic,
            period,
            deadline,
            loss,
            retain,
            size,
        })
    }

    #[test]
    fn the_strictest_of_both_is_agreed() {
        let offered = read("period=50ms, retain=20, size=64, loss=3");
        let agreed = Terms::agree(&offered, &read("deadline=100ms, loss=0, period=1s")).unwrap();
        let expected =
            Contract::every(Span::millis(50)).deadline(Span::millis(100)).tolerate(0).retain(20).size(64);
        assert_eq!(agreed.contract, Some(expected));
        assert_eq!((agreed.needs.deadline, agreed.needs.loss), (Some(Span::millis(100)), Some(0)));
        let nothing = Terms::agree(&read("topic=a"), &read("loss=0")).unwrap();
        assert_eq!((nothing.contract, nothing.needs.loss), (None, Some(0)));
        let unpromised = Terms::agree(&read("period=1s"), &read("")).unwrap().contract.unwrap();
        assert_eq!((unpromised.loss, unpromised.retain), (Loss::Unbounded, 0));
    }

    #[test]
    fn what_cannot_be_had_is_said() {
        let seldom = Terms::agree(&read("period=1s"), &read("period=50ms")).unwrap_err();
        assert_eq!(seldom.to_string(), "it is wanted at least every 50ms, and comes every 1s");
        for wanted in ["period=50ms", "loss=3"] {
            let unfit = Terms::agree(&read(""), &read(wanted)).unwrap_err().to_string();
            assert!(unfit.contains("say `; period=...` with it"), "{unfit}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, says) in [
            ("period", "behind `;` stands"),
            ("period=50ms,", "behind `;` stands"),
            ("color=red", "`color` is none of `topic`"),
            ("loss=0, loss=1", "`loss` is there twice"),
            ("period=0", "longer than zero"),
            ("period=50", "`period`"),
            ("loss=-1", "no number from 0"),
            ("retain=70000", "no number from 0 to 65536"),
            ("size=1048577", "no number from 0 to 1048576"),
            ("topic=a/#", "`topic`"),
            ("topic=rv/1", "are made by peers"),
        ] {
            let error = text.parse::<Terms>().unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
        let long = format!("topic={}", "x".repeat(600));
        assert!(long.parse::<Terms>().unwrap_err().to_string().contains("above the limit of 512"));
    }

    proptest! {
        #[test]
        fn times_are_read_as_they_are_written(period in 1_i64..=i64::MAX) {
            let terms = Terms { period: Some(Span(period)), ..Terms::default() };
            prop_assert_eq!(terms.to_string().parse::<Terms>().unwrap(), terms);
        }

        #[test]
        fn what_is_written_is_read(terms in terms()) {
            let text = terms.to_string();
            prop_assert!(text.len() <= TERMS_BYTES_MAX);
            prop_assert_eq!(text.parse::<Terms>().unwrap(), terms);
        }

        /// Enough: both have what they say. Tight: of a contract that is agreed nothing can be left out.
        #[test]
        fn an_agreement_is_what_both_say_and_no_more(offered in terms(), wanted in terms()) {
            let seldom = wanted.period.is_some_and(|wanted| offered.period.is_none_or(|offered| offered > wanted));
            let may_be_lost = wanted.loss.is_some() && offered.period.is_none() && offered.topic.is_none();
            let agreed = Terms::agree(&offered, &wanted);
            prop_assert_eq!(agreed.is_err(), seldom || may_be_lost);
            let Ok(Agreed { topic, contract, needs }) = agreed else { return Ok(()) };
            prop_assert_eq!(&topic, &offered.topic);
            prop_assert_eq!((needs.deadline, needs.loss), (wanted.deadline, wanted.loss));
            prop_assert_eq!(contract.is_some(), offered.period.is_some());
            let Some(contract) = contract else { return Ok(()) };
            prop_assert!(contract.check().is_ok());
            prop_assert_eq!(Some(contract.period), offered.period);
            prop_assert!(keeps(&contract, &offered) && keeps(&contract, &wanted));
            if offered.deadline.is_some() || wanted.deadline.is_some() {
                let looser = contract.deadline(Span(contract.deadline.0 + 1));
                prop_assert!(!(keeps(&looser, &offered) && keeps(&looser, &wanted)));
            }
            match contract.loss {
                Loss::AtMost(losses) => {
                    let looser = contract.tolerate(losses + 1);
                    prop_assert!(!(keeps(&looser, &offered) && keeps(&looser, &wanted)));
                }
                Loss::Unbounded => prop_assert!(offered.loss.is_none() && wanted.loss.is_none()),
            }
        }

        #[test]
        fn whatever_is_written_is_read_or_refused(text in "\\PC{0,60}") {
            let _ = text.parse::<Terms>();
        }
    }
}
