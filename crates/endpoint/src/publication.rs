//! The publishing end of one stream: numbers its messages, retains the newest, sends them again after a failover (FRAME, A6).

use crate::carrying::Passed;
use contract::{Contract, Crossing, Mutant, Remedies, Span, Time, TopicError};
use wire::limits::PAYLOAD_BYTES_MAX;
use wire::{Carry, Effects, Frame, LinkId, Message, MessageFlags, MessageKind, Register};

/// Why a message is not accepted. It has no number, and nobody will miss it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// No primary has answered the registration yet.
    #[error("no broker has admitted the topic yet")]
    NotAdmitted,
    /// The contract was refused.
    #[error("the contract was refused: {0}")]
    Refused(String),
    /// The payload is above the limit.
    #[error("a payload of {0} bytes is above the limit of {PAYLOAD_BYTES_MAX}")]
    TooLong(usize),
    /// The payload is longer than the contract says.
    #[error(
        "a payload of {payload} bytes is longer than the contract's size of {stated}: state a larger size, or send it in parts"
    )]
    LongerThanStated {
        /// Its length.
        payload: usize,
        /// What the contract says.
        stated: usize,
    },
    /// The connection to the primary is congested.
    #[error("the broker does not take messages as fast as they are published: publish less, or wait")]
    Overloaded,
    /// There is no such publication any more.
    #[error("the publication has ended")]
    Ended,
}

/// Why a topic cannot be published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdvertiseError {
    /// The name is none.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// This client publishes it already; two publications would number their messages alike.
    #[error("this client publishes `{0}` already: use that publisher, or end it first")]
    Twice(String),
    /// The limit of publications is reached.
    #[error("the client's limit of {0} publications is reached")]
    Limit(usize),
}

/// How far the registration of a publication has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublicationState {
    /// No primary has answered yet.
    Waiting,
    /// Carried, under this contract.
    Admitted(Contract),
    /// Not carried: why, and what would be.
    Refused(String, Remedies),
}

/// The newest messages of a stream.
#[derive(Clone, Default)]
pub(crate) struct Retention {
    slots: Vec<Retained>,
    next: usize,
    kept: usize,
}

/// A message that is retained.
#[derive(Clone, Default, Debug)]
pub struct Retained {
    seq: u64,
    created: Time,
    truths: MessageFlags,
    payload: Vec<u8>,
}

impl Retained {
    /// As what it is published.
    pub fn passed(&self) -> Passed<'_> {
        let Retained { seq, created, truths, ref payload } = *self;
        Passed { seq, created, truths, payload }
    }
}

impl Retention {
    pub(crate) fn new(messages: u32) -> Retention {
        Retention { slots: (0..messages).map(|_| Retained::default()).collect(), next: 0, kept: 0 }
    }

    pub(crate) fn keep(&mut self, Passed { seq, created, truths, payload }: Passed<'_>) {
        let Some(slot) = self.slots.get_mut(self.next) else { return };
        (slot.seq, slot.created, slot.truths) = (seq, created, truths);
        slot.payload.clear();
        slot.payload.extend_from_slice(payload);
        self.next = (self.next + 1) % self.slots.len();
        self.kept = (self.kept + 1).min(self.slots.len());
    }

    /// The clock by which messages were created has been set.
    pub(crate) fn step(&mut self, by: Span) {
        self.slots.iter_mut().for_each(|kept| kept.created = kept.created.moved(by));
    }

    /// Whether nothing is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.kept == 0
    }

    /// Oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Retained> {
        let (count, start) = (self.slots.len(), self.next + self.slots.len() - self.kept);
        (0..self.kept).map(move |offset| &self.slots[(start + offset) % count])
    }
}

/// Whose a publication is that is carried for somebody else.
#[derive(Clone)]
pub(crate) struct Whose {
    pub(crate) publisher: Box<str>,
    /// The site in which it is.
    pub(crate) origin: Box<str>,
    pub(crate) crossing: Crossing,
}

#[derive(Clone)]
pub(crate) struct Publication {
    pub(crate) topic: Box<str>,
    /// Which life of the topic in this client it is.
    pub(crate) incarnation: u64,
    pub(crate) asked: Option<Contract>,
    /// Whose it is, where it is somebody else's.
    pub(crate) carried: Option<Whose>,
    /// It is retained and not sent, see [`crate::Endpoint::hold`].
    pub(crate) held: bool,
    pub(crate) state: PublicationState,
    pub(crate) retention: Retention,
    pub(crate) next_seq: u64,
    /// The links whose brokers know the registration, one bit each.
    pub(crate) registered: u16,
    /// The links whose brokers refused it when they reigned, one bit each: they have no stream under its number.
    pub(crate) declined: u16,
    /// The succession (see `Endpoint`) whose primary has been sent what is retained.
    pub(crate) resent: u64,
    /// Messages that the brokers have said that they could not keep, and why not the latest.
    pub(crate) untaken: u64,
    pub(crate) untaken_for: String,
}

impl Publication {
    pub(crate) fn new(topic: &str, incarnation: u64, asked: Option<Contract>) -> Publication {
        Publication {
            topic: topic.into(),
            incarnation,
            asked,
            carried: None,
            held: false,
            state: PublicationState::Waiting,
            retention: Retention::default(),
            next_seq: 0,
            registered: 0,
            declined: 0,
            resent: 0,
            untaken: 0,
            untaken_for: String::new(),
        }
    }

    /// How long its contract says that messages are at most; zero if it does not say.
    pub(crate) fn size(&self) -> usize {
        match &self.state {
            PublicationState::Admitted(contract) => contract.size as usize,
            _ => 0,
        }
    }

    /// The broker carries it. What is retained stays, and more is where a contract that has changed says so; less is not, since what was
    /// published before may still need it.
    pub(crate) fn admit(&mut self, contract: Contract) {
        if self.retention.slots.len() < contract.retain as usize {
            let mut retention = Retention::new(contract.retain);
            let all = self.retention.iter();
            all.for_each(|kept| retention.keep(kept.passed()));
            self.retention = retention;
        }
        self.state = PublicationState::Admitted(contract);
    }

    /// Registers with a broker, if that has not been done on its present connection; and, in a new succession, sends
    /// the primary what is retained.
    pub(crate) fn bring_up_to_date(
        &mut self,
        number: u32,
        broker: usize,
        link: LinkId,
        (succession, shift): (Option<u64>, Span),
        out: &mut impl Effects,
    ) {
        if self.held {
            return;
        }
        let bit = 1 << broker;
        // Only who reigns judges, so whoever comes to reign is asked again until one has admitted. So is who has refused it
        // before another admitted it: it takes nothing under this number.
        let unjudged = !matches!(self.state, PublicationState::Admitted(_));
        let declined = self.declined & bit != 0;
        let ask_again =
            (unjudged || declined) && succession.is_some_and(|succession| succession != self.resent);
        if self.registered & bit == 0 || ask_again {
            self.registered |= bit;
            self.declined &= !bit;
            self.ask(number, link, out);
        }
        let Some(succession) = succession.filter(|succession| *succession != self.resent) else { return };
        self.resent = succession;
        if Mutant::ForgetRetained.is_on() {
            return;
        }
        for kept in self.retention.iter() {
            let message = Message {
                stream: number,
                flags: MessageFlags::RESEND.with(kept.truths),
                seq: kept.seq,
                created: kept.created + shift,
                payload: &kept.payload,
            };
            out.send_message(link, MessageKind::Publish, &message);
        }
    }

    /// Asks a broker to carry it.
    fn ask(&self, stream: u32, link: LinkId, out: &mut impl Effects) {
        let (incarnation, topic) = (self.incarnation, &*self.topic);
        let frame = match (&self.carried, self.asked) {
            (Some(Whose { publisher, origin, crossing }), Some(contract)) => {
                let crossing = *crossing;
                let first_seq = self.retention.iter().next().map_or(self.next_seq, |kept| kept.seq);
                Frame::Carry(Carry {
                    stream,
                    incarnation,
                    first_seq,
                    contract,
                    topic,
                    publisher,
                    origin,
                    crossing,
                })
            }
            (_, contract) => Frame::Register(Register { stream, incarnation, contract, topic }),
        };
        out.send(link, &frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(seq: u64, payload: &[u8]) -> Passed<'_> {
        Passed { seq, created: Time(seq), truths: MessageFlags::NONE, payload }
    }

    #[test]
    fn the_newest_messages_are_retained_oldest_first() {
        let mut retention = Retention::new(3);
        assert_eq!(retention.iter().count(), 0);
        for seq in 0..5 {
            retention.keep(own(seq, &[seq as u8]));
        }
        let kept: Vec<_> = retention.iter().map(|kept| (kept.seq, kept.payload.clone())).collect();
        assert_eq!(kept, [(2, vec![2]), (3, vec![3]), (4, vec![4])]);
        let mut none = Retention::new(0);
        none.keep(own(1, b"x"));
        assert_eq!(none.iter().count(), 0);
    }

    #[test]
    fn a_contract_that_changes_takes_nothing_away_that_is_retained() {
        let mut publication = Publication::new("t", 1, None);
        let contract = Contract::every(Span::millis(1));
        for (retain, kept) in [(3, 3), (5, 5), (2, 5)] {
            publication.admit(contract.retain(retain));
            assert_eq!(publication.state, PublicationState::Admitted(contract.retain(retain)));
            (0..9).for_each(|seq| publication.retention.keep(own(seq, b"x")));
            assert_eq!(publication.retention.iter().count(), kept);
        }
    }
}
