//! What subscribers need beyond what a topic's contract says, and how the strictest of them governs.
//!
//! The problem: a topic has one plan, and its subscribers may need messages sooner, miss fewer, or be further away. The idea: each of them
//! alone would have a contract, whose dispatch must begin in time for its own deadline over its own way, and whose copies for its own loss
//! number. The dispatch that begins in time for the most urgent does so for all (F2 falls with `D - ΔBS`), and copies for the smallest loss
//! number are early enough for all (F1 grows with `L`).
//!
//! Source: subscribers state `D` and `L` in FRAME §3.3.2; the strictest of a topic counts.

use crate::{
    AtHop, Contract, ContractError, Delays, LinkClass, Links, Loss, Mutant, Planned, Span, TrafficClass,
};
use std::fmt;

/// How long a site's link waits at most before it asks whether the next broker has what it was sent.
const ANSWERED_WITHIN: Span = Span::millis(100);

/// What a subscriber needs of the topics of a filter, beyond their contracts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// `D`: from creation to arrival. Longer than the contract's, it changes nothing.
    pub deadline: Option<Span>,
    /// `L`: how many messages in a row it may miss. More than the contract's, it changes nothing.
    pub loss: Option<u32>,
    /// How far away it is; otherwise as the contract says.
    pub link: Option<LinkClass>,
    /// Nothing is promised to it: it is served after everybody else, and gets the newest of what there is time for. It needs nothing else then.
    pub best_effort: bool,
    /// It says itself when it has a message, since it hands it on: until then the message counts as not dispatched, unless any number may be lost.
    pub confirm: bool,
    /// It hands messages on, and they take so long from it to the last who gets them, at most. Zero: it is the last itself.
    pub onward: Span,
    /// It wants messages of this class alone, since those of the other one come to it on another connection. All filters of a client are of one.
    pub class: Option<TrafficClass>,
}

impl Needs {
    /// Nothing beyond the contract.
    pub const NONE: Needs = Needs {
        deadline: None,
        loss: None,
        link: None,
        best_effort: false,
        confirm: false,
        onward: Span::ZERO,
        class: None,
    };

    /// To be served when nobody waits to whom anything is promised.
    pub const BEST_EFFORT: Needs = Needs { best_effort: true, ..Needs::NONE };

    /// Whether that is nothing.
    pub fn is_none(&self) -> bool {
        *self == Needs::NONE
    }

    /// What is told to somebody who is served as best effort instead of being refused for this reason. Its last clause says what would do,
    /// and that is done.
    pub fn instead_of(refusal: &str) -> String {
        let why = refusal.rsplit_once("; ").map_or(refusal, |(why, _)| why);
        format!("served as best effort: {why}")
    }

    /// Whether that keeps nobody out: what a site's link would rather have, and goes without where there is no time.
    pub fn is_soft(&self) -> bool {
        Needs { confirm: false, onward: Span::ZERO, class: None, ..*self }.is_none()
    }

    /// Until the next broker has said that it has a message: it is asked at the next poll.
    fn handing_on(&self) -> Span {
        if Mutant::TrustLinks.is_on() {
            return Span::ZERO;
        }
        self.onward + self.onward + ANSWERED_WITHIN
    }

    /// Checks what can be checked without knowing the deployment.
    pub fn check(&self) -> Result<(), ContractError> {
        if let Some(value) = self.deadline.filter(|deadline| *deadline <= Span::ZERO) {
            return Err(ContractError::NotPositive { term: "deadline", value });
        }
        if self.onward < Span::ZERO {
            return Err(ContractError::NotPositive { term: "way onward", value: self.onward });
        }
        if self.best_effort && *self != Needs::BEST_EFFORT {
            return Err(ContractError::BestEffortWithNeeds);
        }
        Ok(())
    }

    /// The contract as this subscriber needs it.
    pub fn of(&self, contract: &Contract) -> Contract {
        let deadline = self.deadline.map_or(contract.deadline, |deadline| deadline.min(contract.deadline));
        let loss = self.loss.map_or(contract.loss, |most| Loss::AtMost(most).min(contract.loss));
        Contract { deadline, loss, link: self.link.unwrap_or(contract.link), ..*contract }
    }
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms = [
            self.deadline.map(|deadline| format!("deadline {deadline}")),
            self.loss.map(|most| format!("loss {most}")),
            self.link.map(|link| format!("link {link}")),
            self.best_effort.then(|| "best effort".to_owned()),
            self.confirm.then(|| "confirmation".to_owned()),
            (self.onward > Span::ZERO).then(|| format!("hands on within {}", self.onward)),
            self.class.map(|class| format!("{class} alone")),
        ];
        f.write_str(&terms.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

impl Links {
    /// The contract by which a topic is planned so that each of its subscribers has what it needs: the one stated, with the deadline of whom it
    /// takes to be served first, over the contract's own way, and the smallest loss number. `Err`: a link class that is not configured.
    ///
    /// For who hands messages on, they leave in time for the way behind, or so long after they came as a broker of a way may take
    /// (`R`) where losses are bounded: then the next one knows how old they are. Where even `R` is too long for that way, who hands on
    /// says that it cannot be kept.
    pub fn strictest(
        &self,
        planned: impl Into<Planned>,
        needs: impl IntoIterator<Item = Needs>,
        delays: &Delays,
    ) -> Result<Planned, LinkClass> {
        let Planned { contract, hop } = &planned.into();
        let way = |class: LinkClass| self.delay(class).map(|delay| delay.to_subscriber).ok_or(class);
        let base = way(contract.link)?;
        // `D - ΔBS`, of whoever has least.
        let (mut spare, mut loss) = (contract.deadline - base, contract.loss);
        let (mut confirm, mut handing_on) = (contract.confirm, hop.handing_on);
        let by_response = hop.upstream(delays) + delays.response;
        for needs in needs {
            let own = needs.of(contract);
            let way = way(own.link)?;
            let left = own.deadline - way;
            spare = spare.min(match needs.onward {
                Span::ZERO => left,
                _ if own.loss == Loss::Unbounded => (left - needs.onward).max(by_response),
                _ => by_response,
            });
            loss = loss.min(own.loss);
            if needs.confirm && own.loss != Loss::Unbounded {
                (confirm, handing_on) = (true, handing_on.max(needs.handing_on()));
            }
        }
        let deadline = if contract.deadline.is_forever() && spare == contract.deadline - base {
            contract.deadline
        } else {
            spare + base
        };
        let contract = Contract { deadline, loss, confirm, ..*contract };
        Ok(Planned { contract, hop: AtHop { handing_on, ..*hop } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::{dispatch_deadline, replication_deadline};
    use crate::{Delays, LinkDelay};
    use proptest::prelude::*;

    fn links() -> Links {
        let way = |micros| LinkDelay { to_subscriber: Span::micros(micros), confirmation: Span::millis(10) };
        Links::new([(LinkClass::EDGE, way(1_000)), (LinkClass::CLOUD, way(20_000))])
    }

    fn any_needs() -> impl Strategy<Value = Needs> {
        let deadline = prop::option::of((1_i64..200).prop_map(Span::millis));
        let link = prop::option::of(prop_oneof![Just(LinkClass::EDGE), Just(LinkClass::CLOUD)]);
        (deadline, prop::option::of(0_u32..6), link).prop_map(|(deadline, loss, link)| Needs {
            deadline,
            loss,
            link,
            best_effort: false,
            ..Needs::NONE
        })
    }

    proptest! {
        /// Enough for everybody, and no more than somebody needs.
        #[test]
        fn the_strictest_serves_everybody_and_is_what_somebody_needs(
            all in prop::collection::vec(any_needs(), 0..6),
            (deadline, loss, retain) in (1_i64..200, 0_u32..6, 0_u32..4),
        ) {
            let (links, delays) = (links(), Delays::default());
            let contract = Contract::every(Span::millis(50)).deadline(Span::millis(deadline)).tolerate(loss).retain(retain);
            let strict = links.strictest(contract, all.iter().copied(), &Delays::default()).unwrap().contract;
            let of = |contract: &Contract| {
                let way = links.delay(contract.link).unwrap().to_subscriber;
                let upstream = delays.publisher_to_broker;
                (dispatch_deadline(contract, upstream, way), replication_deadline(contract, upstream, &delays))
            };
            let (dispatch, replication) = of(&strict);
            let own: Vec<_> = all.iter().map(|needs| of(&needs.of(&contract))).chain([of(&contract)]).collect();
            prop_assert_eq!(Some(dispatch), own.iter().map(|own| own.0).min());
            prop_assert_eq!(Some(replication), own.iter().map(|own| own.1).min());
            prop_assert_eq!((strict.link, strict.period, strict.retain), (contract.link, contract.period, contract.retain));
        }
    }

    #[test]
    fn needs_that_are_less_than_the_contract_change_nothing_and_a_link_that_is_not_there_is_named() {
        let contract = Contract::every(Span::millis(50)).tolerate(2);
        let lax = Needs {
            deadline: Some(Span::secs(1)),
            loss: Some(9),
            link: Some(LinkClass::EDGE),
            ..Needs::NONE
        };
        assert_eq!(
            links().strictest(contract, [lax, Needs::NONE, Needs::BEST_EFFORT], &Delays::default()),
            Ok(contract.into())
        );
        let far = Needs { link: Some("moon".parse().unwrap()), ..Needs::NONE };
        assert_eq!(links().strictest(contract, [far], &Delays::default()), Err("moon".parse().unwrap()));
        let rare = contract.deadline(Span::FOREVER);
        assert_eq!(links().strictest(rare, [Needs::NONE], &Delays::default()), Ok(rare.into()));
        let urgent = Needs { deadline: Some(Span::millis(5)), ..Needs::NONE };
        assert_eq!(
            links().strictest(rare, [urgent], &Delays::default()).unwrap().contract.deadline,
            Span::millis(5)
        );
        assert_eq!(Needs { loss: Some(0), ..urgent }.to_string(), "deadline 5ms, loss 0");
        assert_eq!(Needs { best_effort: true, ..urgent }.check(), Err(ContractError::BestEffortWithNeeds));
        assert_eq!(
            (Needs::BEST_EFFORT.check(), Needs::BEST_EFFORT.to_string()),
            (Ok(()), "best effort".to_owned())
        );
    }
}
