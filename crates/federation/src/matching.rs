//! Whether what is offered is what is asked (PubSubCoord §2.2, W6), by the request-offered rules of DDS.

use crate::records::Terms;
use contract::{Mutant, Span};
use std::fmt;

/// Why a topic is not carried from one site to another.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Mismatch {
    /// Messages of another type.
    Type {
        /// The publisher's.
        offered: String,
        /// The subscriber's.
        asked: String,
    },
    /// The subscriber tolerates fewer losses in a row.
    Loss {
        /// The publisher's; `None`: any number.
        offered: Option<u32>,
        /// The subscriber's.
        asked: u32,
    },
    /// The subscriber asks for messages more often.
    Gap {
        /// The publisher's; `None`: nothing is promised.
        offered: Option<Span>,
        /// The subscriber's.
        asked: Span,
    },
    /// The subscriber asks for messages that came before it.
    Durability,
    /// The subscriber asks to be told sooner, or more exactly, that a writer has ended.
    Liveliness,
    /// One of them hears only the strongest writer.
    Ownership,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::Type { offered, asked } => write!(f, "its type is {offered}, asked is {asked}"),
            Mismatch::Loss { offered: Some(offered), asked } => {
                write!(f, "up to {offered} in a row may be lost, asked is {asked}")
            }
            Mismatch::Loss { offered: None, asked } => {
                write!(f, "any number may be lost, asked is at most {asked} in a row")
            }
            Mismatch::Gap { offered: Some(offered), asked } => {
                write!(f, "a message comes at least every {offered}, asked is every {asked}")
            }
            Mismatch::Gap { offered: None, asked } => {
                write!(f, "no greatest gap is promised, asked is {asked}")
            }
            Mismatch::Durability => f.write_str("messages are kept less long than asked"),
            Mismatch::Liveliness => {
                f.write_str("the end of a writer is told later, or less exactly, than asked")
            }
            Mismatch::Ownership => {
                f.write_str("one side hears the strongest writer alone, the other all of them")
            }
        }
    }
}

/// The first reason why a topic that is `offered` like this is not what is `asked`, if there is one. What a subscriber does not say, it does
/// not ask. A shorter deadline than the publisher's is no mismatch: whether the whole way keeps it is for admission to say.
pub fn mismatch(offered: &Terms, asked: &Terms) -> Option<Mismatch> {
    if Mutant::MatchAnything.is_on() {
        return None;
    }
    if let (Some(offered), Some(asked)) = (&offered.type_name, &asked.type_name)
        && offered != asked
    {
        return Some(Mismatch::Type { offered: offered.clone(), asked: asked.clone() });
    }
    if let Some(asked) = asked.loss
        && offered.loss.is_none_or(|offered| offered > asked)
    {
        return Some(Mismatch::Loss { offered: offered.loss, asked });
    }
    if let Some(asked) = asked.gap_ns
        && offered.gap_ns.is_none_or(|offered| offered > asked)
    {
        return Some(Mismatch::Gap { offered: offered.gap_ns.map(Span), asked: Span(asked) });
    }
    if offered.durability < asked.durability {
        return Some(Mismatch::Durability);
    }
    let late = asked.lease_ns.is_some_and(|asked| offered.lease_ns.is_none_or(|offered| offered > asked));
    if late || offered.liveliness < asked.liveliness {
        return Some(Mismatch::Liveliness);
    }
    (offered.exclusive != asked.exclusive).then_some(Mismatch::Ownership)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Durability, Liveliness};

    #[test]
    fn who_says_nothing_asks_nothing() {
        let offered = Terms { type_name: Some("Speed".to_owned()), gap_ns: Some(5), ..Terms::default() };
        assert_eq!(mismatch(&offered, &Terms::default()), None);
        assert_eq!(mismatch(&offered, &offered), None);
    }

    /// For each rule: what is just enough is no mismatch, and one step less is.
    #[test]
    fn each_rule_is_enough_and_tight() {
        let none = Terms::default();
        let typed = |name: &str| Terms { type_name: Some(name.to_owned()), ..Terms::default() };
        let loss = |loss| Terms { loss, ..Terms::default() };
        let gap = |gap_ns| Terms { gap_ns, ..Terms::default() };
        let durability = |durability| Terms { durability, ..Terms::default() };
        let liveliness = |liveliness, lease_ns| Terms { liveliness, lease_ns, ..Terms::default() };
        let exclusive = Terms { exclusive: true, ..Terms::default() };
        use Liveliness::{Automatic, ManualByParticipant, ManualByTopic};
        for (offered, asked, less) in [
            (typed("A"), typed("A"), typed("B")),
            (loss(Some(2)), loss(Some(2)), loss(Some(3))),
            (loss(Some(2)), loss(Some(2)), none.clone()),
            (gap(Some(9)), gap(Some(9)), gap(Some(10))),
            (gap(Some(9)), gap(Some(9)), none.clone()),
            (
                durability(Durability::Transient),
                durability(Durability::Transient),
                durability(Durability::TransientLocal),
            ),
            (
                liveliness(ManualByTopic, None),
                liveliness(ManualByTopic, None),
                liveliness(ManualByParticipant, None),
            ),
            (liveliness(Automatic, Some(4)), liveliness(Automatic, Some(4)), liveliness(Automatic, Some(5))),
            (liveliness(Automatic, Some(4)), liveliness(Automatic, Some(4)), none.clone()),
            (exclusive.clone(), exclusive, none),
        ] {
            assert_eq!(mismatch(&offered, &asked), None, "{offered:?} {asked:?}");
            assert!(mismatch(&less, &asked).is_some(), "{less:?} {asked:?}");
        }
    }

    #[test]
    fn a_mismatch_names_both_sides() {
        let asked = Terms { loss: Some(0), ..Terms::default() };
        let offered = Terms { loss: Some(3), ..Terms::default() };
        assert_eq!(
            mismatch(&offered, &asked).unwrap().to_string(),
            "up to 3 in a row may be lost, asked is 0"
        );
    }
}
