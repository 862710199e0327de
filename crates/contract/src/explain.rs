//! How the numbers of a contract come about, for who asks: the formulas with what stands in them.

use crate::timing;
use crate::{AtHop, Contract, Delays, LinkDelay, Loss, Planned, Span};
use std::fmt;

/// The formulas of one contract, as words. Source: FRAME, lemmas 1 and 2, and proposition 1 (F1 to F3).
#[derive(Clone, Copy, Debug)]
pub struct Explanation {
    contract: Contract,
    hop: AtHop,
    delays: Delays,
    link: LinkDelay,
}

impl Explanation {
    pub(crate) fn new(Planned { contract, hop }: Planned, delays: &Delays, link: LinkDelay) -> Explanation {
        Explanation { contract, hop, delays: hop.delays(delays), link }
    }
}

impl fmt::Display for Explanation {
    /// Three lines: the dispatch deadline, the replication deadline, and whether copies are needed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explanation { contract, hop, delays, link } = self;
        let Contract { period, deadline, retain, .. } = contract;
        let Delays { broker_to_broker, failover, .. } = delays;
        let upstream = hop.upstream(delays);
        let dispatch = timing::dispatch_deadline(contract, upstream, link.to_subscriber);
        writeln!(
            f,
            "D_d = D - dPB - dBS = {deadline} - {upstream} - {} = {dispatch}: a message must have left the broker so long \
             after it came",
            link.to_subscriber
        )?;
        let Loss::AtMost(losses) = contract.loss else {
            return write!(
                f,
                "D_r = forever, since any number of messages may be lost: no copies are needed"
            );
        };
        let replication = timing::replication_deadline(contract, upstream, delays);
        writeln!(
            f,
            "D_r = (N + L)*T - dPB - dBB - x = ({retain} + {losses})*{period} - {upstream} - {broker_to_broker} - {failover} \
             = {replication}: a copy must have left by then"
        )?;
        let settled = if contract.confirm { link.confirmation.max(hop.handing_on) } else { Span::ZERO };
        if replication < Span::ZERO || dispatch < Span::ZERO {
            return write!(f, "below zero: it cannot be kept");
        }
        if timing::replication_is_needless(dispatch, replication, settled) {
            write!(f, "D_d <= D_r: every message has left before its copy would be due, so none is needed")
        } else {
            write!(f, "D_d > D_r: a crash may come between, so messages are copied")
        }
    }
}

/// The longest run that a crash could cost: the least `L` for which `D^r >= 0`. What tolerance there is lacks of that, retention would
/// have to cover (F5).
pub(crate) fn losses_of_a_crash(contract: &Contract, publisher_to_broker: Span, delays: &Delays) -> u64 {
    let covered = timing::smallest_retention(&contract.tolerate(0), publisher_to_broker, delays);
    covered.saturating_sub(u64::from(contract.retain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkClass, Links};
    use proptest::prelude::*;

    #[test]
    fn numbers_stand_in_their_formulas() {
        let contract = Contract::every(Span::millis(50)).retain(1);
        let link = Links::default().delay(LinkClass::EDGE).unwrap();
        let words = Explanation::new(contract.into(), &Delays::default(), link).to_string();
        assert!(words.contains("(1 + 0)*50ms"), "{words}");
        assert!(words.ends_with("it cannot be kept"), "{words}");
        let words = Explanation::new(contract.retain(2).into(), &Delays::default(), link).to_string();
        assert!(words.ends_with("so none is needed"), "{words}");
    }

    proptest! {
        /// What a refusal says that a crash could cost is enough, and one less is not.
        #[test]
        fn losses_of_a_crash_are_enough_and_tight(period in 1_i64..500, retain in 0_u32..5, failover in 1_i64..200) {
            let delays = Delays { failover: Span::millis(failover), ..Delays::default() };
            let upstream = delays.publisher_to_broker;
            let contract = Contract::every(Span::millis(period)).retain(retain);
            let losses = losses_of_a_crash(&contract, upstream, &delays) as u32;
            let holds = |losses| timing::replication_deadline(&contract.tolerate(losses), upstream, &delays) >= Span::ZERO;
            prop_assert!(holds(losses));
            prop_assert!(losses == 0 || !holds(losses - 1));
        }
    }
}
