//! The endpoints of an uplink, and what each of them hears, kept until it can be dealt with: what one end says mostly makes another speak.

use super::Which;
use crate::node::effects_through;
use contract::{LinkClass, Needs, Span, Time, TrafficClass};
use endpoint::{
    Asked, BROKERS_MAX, Confirmation, Delivery, Endpoint, Outputs, Passed, PublicationState, Reigning,
    Settings, Unfit,
};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use wire::{
    Effects, Farewell, FarewellReason, Frame, LinkId, Mark, MarkKind, Message, MessageFlags, MessageKind,
    PeerIndex, Shortfall,
};

/// An endpoint, and what its numbers mean.
pub(super) struct End {
    pub(super) endpoint: Endpoint,
    /// How far away its broker reckons it to be; `None`: as contracts say.
    link: Option<LinkClass>,
    /// What comes by it; `None`: everything.
    class: Option<TrafficClass>,
    /// Filters that it subscribes, the number of each, and the way onward from there.
    wished: BTreeMap<Box<str>, (u32, Span)>,
    /// Messages that it has been given: the sign that it has them, and where they are confirmed then.
    pub(super) awaited: VecDeque<Awaited>,
}

/// A message that an end has been given, and that is to be confirmed when it has it.
#[derive(Clone, Copy)]
pub(super) struct Awaited {
    /// The sign that it has it.
    pub(super) sign: Option<Asked>,
    /// Where it came from.
    pub(super) from: Which,
    pub(super) confirmation: Confirmation,
    /// Another one that has been given it too.
    pub(super) also: Option<Which>,
}

impl End {
    pub(super) fn new(
        settings: Settings,
        link: Option<LinkClass>,
        class: Option<TrafficClass>,
        now: Time,
    ) -> End {
        End {
            link,
            class,
            endpoint: Endpoint::new(settings, now),
            wished: BTreeMap::new(),
            awaited: VecDeque::new(),
        }
    }

    /// Subscribes these filters from now on, and no others; with each comes how long what follows takes. What comes is handed on, and confirmed
    /// when the next one has it. Returns a filter for which there was no room, if there is one.
    pub(super) fn wish<N: Effects>(
        &mut self,
        filters: BTreeMap<Box<str>, Span>,
        out: &mut Through<'_, N>,
    ) -> Option<Box<str>> {
        self.wished.retain(|filter, (number, _)| {
            let stays = filters.contains_key(filter);
            if !stays {
                self.endpoint.unsubscribe(*number, out);
            }
            stays
        });
        let mut missed = None;
        for (filter, onward) in filters {
            let needs = Needs { confirm: true, onward, link: self.link, class: self.class, ..Needs::NONE };
            if let Some((number, known)) = self.wished.get_mut(&filter) {
                // A broker takes a filter from a client but once, so what is there is changed.
                if std::mem::replace(known, onward) != onward {
                    self.endpoint.need(*number, needs, out);
                }
                continue;
            }
            let parsed = filter.parse().ok();
            match parsed.and_then(|parsed| self.endpoint.subscribe_with(&parsed, needs, out)) {
                Some(number) => _ = self.wished.insert(filter, (number, onward)),
                None => missed = missed.or(Some(filter)),
            }
        }
        missed
    }

    /// The filter that has this number.
    pub(super) fn filter_of(&self, subscription: u32) -> &str {
        let mut wished = self.wished.iter();
        wished.find(|(_, (number, _))| *number == subscription).map_or("", |(filter, _)| filter)
    }
}

/// A message that has come, without its payload.
#[derive(Clone)]
pub(crate) struct Arrived {
    pub(crate) stream: u32,
    /// Of its publication.
    pub(crate) life: u64,
    pub(crate) seq: u64,
    pub(crate) created: Time,
    truths: MessageFlags,
    pub(crate) confirmation: Option<Confirmation>,
    payload: Range<usize>,
}

impl Arrived {
    /// As what it is handed on. A router, or another site, retains nothing for clients of MQTT: who subscribes there while nobody else does would be given
    /// what has been out of date since the last one left.
    pub(crate) fn passed<'a>(&self, payload: &'a [u8]) -> Passed<'a> {
        let &Arrived { seq, created, truths, .. } = self;
        Passed { seq, created, truths: truths.without(MessageFlags::RETAIN), payload }
    }
}

/// Something else that has come.
pub(crate) enum Event {
    Reigning(Reigning),
    Interest {
        filter: Box<str>,
        way: Option<Span>,
    },
    Published {
        topic: Box<str>,
        published: bool,
    },
    Refused {
        publication: u32,
        why: String,
    },
    Admitted {
        publication: u32,
    },
    /// Whether a filter is subscribed, or why not.
    Wished {
        subscription: u32,
        refused: Option<String>,
    },
    Repeated {
        stream: u32,
        confirmation: Confirmation,
    },
    Ended {
        stream: u32,
    },
    Left {
        why: String,
    },
    /// Messages were dropped, since this end took them too slowly.
    Short {
        why: String,
    },
}

/// What an endpoint has heard.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) messages: Vec<Arrived>,
    pub(crate) payloads: Vec<u8>,
    /// Each with how many messages had come before it.
    pub(crate) events: Vec<(usize, Event)>,
}

impl Heard {
    fn tell(&mut self, event: Event) {
        self.events.push((self.messages.len(), event));
    }

    pub(crate) fn payload(&self, message: &Arrived) -> &[u8] {
        self.payloads.get(message.payload.clone()).unwrap_or(&[])
    }
}

const NAME_TWICE: &str = "another connection has come there under this site's name. After the way stood still it is an older one of this site; if it comes again and again, give each \
     site a name of its own, and each router's address once";

/// The numbers by which the driver is told to dial for one of the endpoints: one for each broker, and one for the way through it.
#[derive(Clone, Copy)]
pub(crate) struct Dials {
    /// The first of them.
    pub(crate) base: u8,
    /// Brokers that it may have.
    pub(crate) brokers: u8,
}

impl Dials {
    /// The driver's number for what the endpoint calls so.
    pub(crate) fn number(self, peer: PeerIndex) -> PeerIndex {
        let (way, broker) = (peer.0 / BROKERS_MAX as u8, peer.0 % BROKERS_MAX as u8);
        PeerIndex(self.base + way * self.brokers + broker)
    }

    /// What the endpoint calls what the driver has a number for.
    pub(crate) fn peer(self, number: PeerIndex) -> PeerIndex {
        let at = number.0.saturating_sub(self.base);
        let (way, broker) = (at / self.brokers, PeerIndex(at % self.brokers));
        if way == 0 { broker } else { Endpoint::way(broker) }
    }
}

/// The network as one of the endpoints sees it, and where what it hears is kept.
pub(crate) struct Through<'a, N> {
    pub(crate) net: &'a mut N,
    /// Its numbers for dialing.
    pub(crate) dials: Dials,
    pub(crate) heard: &'a mut Heard,
}

impl<N: Effects> Outputs for Through<'_, N> {
    fn deliver(&mut self, delivery: &Delivery<'_>) {
        let begin = self.heard.payloads.len();
        self.heard.payloads.extend_from_slice(delivery.payload);
        let &Delivery { stream, life, seq, created, truths, confirmation, .. } = delivery;
        let payload = begin..self.heard.payloads.len();
        self.heard.messages.push(Arrived { stream, life, seq, created, truths, confirmation, payload });
    }

    fn repeated(&mut self, stream: u32, confirmation: Confirmation) {
        self.heard.tell(Event::Repeated { stream, confirmation });
    }

    fn judged(&mut self, publication: u32, state: &PublicationState) {
        self.heard.tell(match state {
            PublicationState::Refused(why, _) => Event::Refused { publication, why: why.clone() },
            PublicationState::Admitted(_) | PublicationState::Waiting => Event::Admitted { publication },
        });
    }

    fn subscribed(&mut self, subscription: u32, result: Result<&str, &str>) {
        let refused = result.err().map(str::to_owned);
        self.heard.tell(Event::Wished { subscription, refused });
    }

    fn reigning(&mut self, reigning: Reigning) {
        self.heard.tell(Event::Reigning(reigning));
    }

    fn dismissed(&mut self, _broker: PeerIndex, farewell: &Farewell<'_>) {
        if farewell.reason == FarewellReason::Leaving {
            // It ends, which is seen by who reigns then.
            return;
        }
        let why = match farewell.reason {
            FarewellReason::Replaced => NAME_TWICE,
            _ => farewell.text,
        };
        self.heard.tell(Event::Left { why: why.to_owned() });
    }

    fn unfit(&mut self, _broker: PeerIndex, why: &Unfit) {
        self.heard.tell(Event::Left { why: why.to_string() });
    }

    fn fell_short(&mut self, _broker: PeerIndex, shortfall: &Shortfall) {
        self.heard.tell(Event::Short { why: shortfall.to_string() });
    }

    fn retired(&mut self, stream: u32) {
        self.heard.tell(Event::Ended { stream });
    }

    fn answered(&mut self, _broker: PeerIndex, frame: &Frame<'_>) {
        match *frame {
            Frame::Interest { filter, wanted, onward } => {
                let way = wanted.then_some(onward);
                self.heard.tell(Event::Interest { filter: filter.into(), way });
            }
            Frame::Published { topic, published } => {
                self.heard.tell(Event::Published { topic: topic.into(), published });
            }
            _ => {}
        }
    }
}

impl<N: Effects> Effects for Through<'_, N> {
    fn dial(&mut self, peer: PeerIndex, within: Span) {
        self.net.dial(self.dials.number(peer), within);
    }

    effects_through!(net, but_dial);
}
