//! What a thin link to routers has room for: what is promised and fits goes by the connection for that, and all else behind it.
//!
//! What leaves and does not fit goes by the connection for best effort, and disturbs nobody. What comes is sent by routers, which
//! do not know of that: where it does not fit, nothing that comes is promised.
//!
//! Source: `contract/thin.rs`; `docs/decisions/0043`.

use super::{Uplink, UplinkReporter};
use contract::{Contract, Flow, Narrow, Span, ThinLink, TrafficClass};
use wire::Effects;

/// What is on the link in both directions.
pub(super) struct Room {
    link: Option<ThinLink>,
    out: Flow,
    into: Flow,
    /// Why what comes is not promised.
    narrow: Option<Narrow>,
}

/// What a stream takes of it.
#[derive(Clone, Copy, Default)]
pub(super) struct Share {
    /// Its way, and back.
    pub(super) flows: [Flow; 2],
    /// How old its messages are at most when they come here, as far as that is counted.
    pub(super) age: Span,
    /// Why it has no room.
    pub(super) narrow: Option<Narrow>,
}

impl Share {
    /// Whether room is taken for it.
    pub(super) fn has_room(&self) -> bool {
        self.flows != [Flow::default(); 2]
    }
}

impl Room {
    pub(super) fn new(link: Option<ThinLink>) -> Room {
        Room { link, out: Flow::default(), into: Flow::default(), narrow: None }
    }

    /// How the link is used by what is promised, where it is thin.
    pub(super) fn view(&self) -> Option<LinkView> {
        let link = self.link?;
        let way = |flow: &Flow| WayView { rate: flow.rate(), waits: link.waits(flow) };
        let narrow = self.narrow.map(|narrow| narrow.to_string());
        Some(LinkView { link, out: way(&self.out), into: way(&self.into), narrow })
    }

    /// A stream is to leave, and its messages are so old at most when they come here.
    pub(super) fn send(&mut self, contract: &Contract, age: Span) -> Share {
        let Some(link) = self.link.filter(|_| TrafficClass::of(contract) == TrafficClass::Promised) else {
            return Share { narrow: self.lacks_size(contract), ..Share::default() };
        };
        let [there, back] = Flow::of_stream(contract, age);
        let (out, into) = (self.out.plus(there), self.into.plus(back));
        if let Err(narrow) = link.carries(&out).and_then(|()| link.carries(&into)) {
            return Share { narrow: Some(narrow), ..Share::default() };
        }
        (self.out, self.into) = (out, into);
        Share { flows: [there, back], age, narrow: None }
    }

    /// It does not leave any more.
    pub(super) fn send_no_more(&mut self, share: &Share) {
        let [there, back] = share.flows;
        (self.out, self.into) = (self.out.minus(there), self.into.minus(back));
    }

    /// A stream comes.
    pub(super) fn receive(&mut self, contract: &Contract, age: Span) -> Share {
        if self.link.is_none() || TrafficClass::of(contract) == TrafficClass::Bulk {
            return Share::default();
        }
        let [there, back] = Flow::of_stream(contract, age);
        (self.into, self.out) = (self.into.plus(there), self.out.plus(back));
        Share { flows: [there, back], age, narrow: None }
    }

    /// It does not come any more.
    pub(super) fn receive_no_more(&mut self, share: &Share) {
        let [there, back] = share.flows;
        (self.into, self.out) = (self.into.minus(there), self.out.minus(back));
    }

    /// Looks whether what comes has room. Returns whether that is another answer than before.
    fn look(&mut self) -> bool {
        let Some(link) = self.link else { return false };
        let narrow = link.carries(&self.into).and_then(|()| link.carries(&self.out)).err();
        let changed = narrow.is_some() != self.narrow.is_some();
        if changed {
            self.narrow = narrow;
        }
        changed
    }

    /// Why what comes of a stream is not promised.
    pub(super) fn narrow(&self, contract: &Contract) -> Option<Narrow> {
        match TrafficClass::of(contract) {
            TrafficClass::Promised => self.narrow,
            TrafficClass::Bulk => self.lacks_size(contract),
        }
    }

    /// Whether a stream is not promised since nobody knows how long its messages are.
    fn lacks_size(&self, contract: &Contract) -> Option<Narrow> {
        let lacks = self.link.is_some() && contract.size == 0 && TrafficClass::promises(contract);
        lacks.then_some(Narrow::Size)
    }
}

/// A thin link, and how it is used by what is promised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkView {
    /// As it is stated.
    pub link: ThinLink,
    /// What leaves, and the answers to what comes.
    pub out: WayView,
    /// What comes, and the answers to what leaves.
    pub into: WayView,
    /// Why nothing that comes is promised.
    pub narrow: Option<String>,
}

/// One direction of a thin link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WayView {
    /// Bytes in a second, at most.
    pub rate: u64,
    /// How long the last waits if all come at once.
    pub waits: Span,
}

impl<R: UplinkReporter> Uplink<R> {
    /// A stream does not come by the link any more.
    pub(super) fn give_room_back<N: Effects>(&mut self, share: &Share, net: &mut N) {
        self.room.receive_no_more(share);
        self.look_at_room(net);
    }

    /// What comes has room, or has none any more.
    pub(super) fn look_at_room<N: Effects>(&mut self, net: &mut N) {
        if self.room.look() {
            self.follow_all_ways_in(net);
        }
    }
}
