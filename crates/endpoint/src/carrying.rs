//! What a site's link does beside what every client does: it publishes for others, under their numbers, and turns the time of one clock
//! into that of another.
//!
//! The problem: clocks of two sites need not agree. The idea: what counts is a message's age. Whoever hands it on knows how far its own clock
//! is from the next broker's, and writes the creation as the time that this broker's clock showed then. The truth is no further from
//! that than `within` of [`Endpoint::clock`].
//!
//! Invariant: nothing is sent to a broker, and nothing is asked of it, before its clock is known.

use crate::endpoint::{Asked, Endpoint, Outputs, PUBLICATIONS, place};
use crate::publication::{AdvertiseError, Publication, PublicationState, PublishError, Retention, Whose};
use crate::subscription::Confirmation;
use contract::{Contract, Crossing, Span, Time};
use std::cmp::Reverse;
use wire::limits::PAYLOAD_BYTES_MAX;
use wire::{MarkKind, Message, MessageFlags, MessageKind};

/// A stream to be published for somebody else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carried<'a> {
    /// The topic, as it is called where it goes.
    pub topic: &'a str,
    /// Its publisher, as it is called there.
    pub publisher: &'a str,
    /// The site in which it is published.
    pub origin: &'a str,
    /// Which life of the publication it is.
    pub incarnation: u64,
    /// The number of the first message that goes this way.
    pub first_seq: u64,
    /// What is asked for.
    pub contract: Contract,
    /// So many messages are retained.
    pub retain: u32,
    /// What is known of the messages when they come to the broker.
    pub crossing: Crossing,
}

/// A message that is published for somebody else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passed<'a> {
    /// Its publisher's number.
    pub seq: u64,
    /// When it was created, by our clock.
    pub created: Time,
    /// How it came: [`MessageFlags::TRUTHS`].
    pub truths: MessageFlags,
    /// What it carries, with its trailer.
    pub payload: &'a [u8],
}

impl Endpoint {
    /// Begins to publish a stream for somebody else. Messages may follow at once: a broker that refuses it drops them. Whoever calls sees to it
    /// that no stream is carried twice.
    pub fn carry(&mut self, carried: &Carried<'_>, out: &mut impl Outputs) -> Result<u32, AdvertiseError> {
        contract::check_name(carried.topic)?;
        let mut publication = Publication::new(carried.topic, carried.incarnation, Some(carried.contract));
        publication.carried = Some(Whose {
            publisher: carried.publisher.into(),
            origin: carried.origin.into(),
            crossing: carried.crossing,
        });
        publication.next_seq = carried.first_seq;
        publication.retention = Retention::new(carried.retain);
        let limit = self.settings.limits.publications;
        let free = &mut self.free[PUBLICATIONS];
        let number =
            place(&mut self.publications, free, publication, limit).ok_or(AdvertiseError::Limit(limit))?;
        (0..self.brokers.len()).for_each(|broker| self.catch_up_with(broker, number, out));
        Ok(number)
    }

    /// What is known of a stream's messages has changed: brokers are asked anew to carry it, also those that have refused it, and what is
    /// retained is sent again. Nothing where it is as before.
    pub fn carry_by(&mut self, number: u32, crossing: Crossing, out: &mut impl Outputs) {
        let slot = self.publications.get_mut(number as usize).and_then(Option::as_mut);
        let Some(publication) = slot else { return };
        let Some(whose) = &mut publication.carried else { return };
        if std::mem::replace(&mut whose.crossing, crossing) == crossing {
            return;
        }
        publication.state = PublicationState::Waiting;
        (publication.registered, publication.declined, publication.resent) = (0, 0, 0);
        (0..self.brokers.len()).for_each(|broker| self.catch_up_with(broker, number, out));
    }

    /// The topic of a stream that is published for somebody else, as it is called there, and what the brokers were told of its messages.
    pub fn carried(&self, number: u32) -> Option<(&str, Crossing)> {
        let publication = self.publications.get(number as usize)?.as_ref()?;
        Some((&publication.topic, publication.carried.as_ref()?.crossing))
    }

    /// Publishes a message under the number that its publisher gave it. It is retained as the contract says; while there is no primary, that is
    /// all that happens.
    pub fn publish_as(
        &mut self,
        number: u32,
        passed: &Passed<'_>,
        out: &mut impl Outputs,
    ) -> Result<(), PublishError> {
        let Passed { seq, created, truths, payload } = *passed;
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(PublishError::TooLong(payload.len()));
        }
        let primary = self.primary_link();
        let shift = primary.map_or(Span::ZERO, |(broker, _)| self.shift(broker));
        let slot = self.publications.get_mut(number as usize).and_then(Option::as_mut);
        let publication = slot.ok_or(PublishError::Ended)?;
        if let PublicationState::Refused(text, _) = &publication.state {
            return Err(PublishError::Refused(text.clone()));
        }
        publication.next_seq = publication.next_seq.max(seq.saturating_add(1));
        publication.retention.keep(*passed);
        let Some((broker, link)) = primary.filter(|_| !publication.held) else { return Ok(()) };
        if out.backlog(link) > self.settings.backlog_bytes() {
            return Err(PublishError::Overloaded);
        }
        let resends = publication.resent != self.succession;
        publication.bring_up_to_date(number, broker, link, (Some(self.succession), shift), out);
        if !resends || publication.retention.is_empty() {
            let message = Message { stream: number, flags: truths, seq, created: created + shift, payload };
            out.send_message(link, MessageKind::Publish, &message);
        }
        Ok(())
    }

    /// A carried stream is only retained from now on; or it is sent again, and what is retained before it.
    pub fn hold(&mut self, number: u32, held: bool, out: &mut impl Outputs) {
        let slot = self.publications.get_mut(number as usize).and_then(Option::as_mut);
        let Some(publication) = slot.filter(|publication| publication.held != held) else { return };
        publication.held = held;
        if !held {
            (0..self.brokers.len()).for_each(|broker| self.catch_up_with(broker, number, out));
        }
    }

    /// Our clock has been set: it is `by` further than it would be, or back. What is known of the brokers' clocks moves with it, and so does when
    /// was created what is retained for others.
    pub fn handle_clock_step(&mut self, by: Span) {
        self.brokers.iter_mut().for_each(|broker| broker.clock.step(by));
        if self.settings.translates {
            let carried = self.publications.iter_mut().flatten().filter(|known| known.carried.is_some());
            carried.for_each(|publication| publication.retention.step(by));
        }
    }

    /// What has to be added to a time of our clock for that of a broker's.
    pub(crate) fn shift(&self, broker: usize) -> Span {
        let known =
            self.brokers.get(broker).filter(|_| self.settings.translates).and_then(|b| b.clock.known());
        known.map_or(Span::ZERO, |known| Span(-known.ahead.0))
    }

    /// Ends a publication here, and leaves its stream to whoever goes on with it: no broker is told.
    pub fn let_go(&mut self, publication: u32) {
        let slot = self.publications.get_mut(publication as usize);
        if slot.and_then(Option::take).is_some() {
            self.free[PUBLICATIONS].push(Reverse(publication));
        }
    }

    /// What was to be confirmed has been handed on. Where the connection has gone since, the message comes again.
    pub fn confirm(&self, confirmation: Confirmation, out: &mut impl Outputs) {
        if self.broker_of(confirmation.link).is_some() {
            out.send_mark(confirmation.link, MarkKind::Confirm, confirmation.mark);
        }
    }

    /// A sign that the primary has looked at everything that was published until now, which comes with the next poll; see
    /// [`Endpoint::has_answered`].
    pub fn next_sign(&self) -> Option<Asked> {
        let (broker, link) = self.primary_link()?;
        Some(Asked { broker, link, number: self.brokers.get(broker)?.polled() + 1 })
    }
}
