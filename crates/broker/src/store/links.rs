//! The connections of a broker: who is at the other end, and which numbers mean which streams there.

use crate::store::bitset::BitSet;
use crate::store::ids::SessionId;
use crate::store::numbers::Numbers;
use contract::rounds::Io;
use contract::{Reign, StreamId, Time, invariant};
use std::collections::BTreeMap;
use std::net::IpAddr;
use wire::{ClockDifference, Knowledge, LinkId, LinkMap, Nonce, Standing, Transport};

#[derive(Clone)]
pub(crate) enum Party {
    /// Has not said who it is.
    Unknown,
    /// A publisher, a subscriber, or both; its session if it subscribes.
    Client { session: Option<SessionId> },
    /// The other broker.
    Peer,
}

#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) party: Party,
    pub(crate) name: Box<str>,
    pub(crate) incarnation: u64,
    /// What the client last said: whether it follows a living primary.
    pub(crate) standing: Standing,
    /// The reign of which the client last told.
    pub(crate) reign: Reign,
    /// What the partner last told that it remembers of other protocols.
    pub(crate) knowledge: Knowledge,
    /// The peer's numbers for streams, to ours.
    pub(crate) numbers: Numbers,
    /// Our streams that have been named to the peer.
    pub(crate) announced: BitSet,
    /// Whether we have sent our greeting.
    pub(crate) greeted: bool,
    pub(crate) opened: Time,
    pub(crate) heard: Time,
    /// What the other broker signs its heartbeats with.
    pub(crate) nonce: Option<Nonce>,
    /// When the admin was last told of its haste, or of messages that came too old or too young.
    pub(crate) complained_at: Time,
    /// How far its clock is ahead of ours, as it has found.
    pub(crate) clock: Option<ClockDifference>,
    /// When the admin was last told of that, and whether it was ahead.
    pub(crate) clock_told: (Time, bool),
    /// When the admin was last told that it is far away.
    pub(crate) far_told_at: Time,
    /// Whether we made it: to the partner, then.
    pub(crate) dialed: bool,
    /// How its bytes are carried.
    pub(crate) transport: Transport,
    /// What reading and writing it costs, once admission has counted it.
    pub(crate) counted: Option<Io>,
    /// Where it comes from, if that is known.
    pub(crate) address: Option<IpAddr>,
    /// Who its client has logged in as, to be told.
    pub(crate) user: Box<str>,
    /// All places for clients are taken, and it may only ask how this broker is.
    pub(crate) crowded: bool,
    /// We have asked to close it; whatever still comes is ignored.
    pub(crate) closing: bool,
}

impl Link {
    pub(crate) fn new(now: Time, dialed: bool) -> Link {
        Link {
            party: Party::Unknown,
            name: Box::from(""),
            incarnation: 0,
            standing: Standing::Orphaned,
            reign: Reign::default(),
            knowledge: Knowledge::default(),
            numbers: Numbers::default(),
            announced: BitSet::default(),
            greeted: false,
            opened: now,
            heard: now,
            nonce: None,
            complained_at: Time::ZERO,
            clock: None,
            clock_told: (Time::ZERO, false),
            far_told_at: Time::ZERO,
            dialed,
            transport: Transport::Plain,
            counted: None,
            address: None,
            user: Box::from(""),
            crowded: false,
            closing: false,
        }
    }

    pub(crate) fn is_client(&self) -> bool {
        matches!(self.party, Party::Client { .. })
    }

    /// Whether it carries messages between sites, with all that belongs to them.
    #[inline]
    pub(crate) fn is_of_site(&self) -> bool {
        self.is_client() && site(&self.name).is_some()
    }

    pub(crate) fn session(&self) -> Option<SessionId> {
        match self.party {
            Party::Client { session } => session,
            _ => None,
        }
    }

    /// Our stream for the peer's number.
    #[inline]
    pub(crate) fn stream(&self, number: u32) -> Option<StreamId> {
        self.numbers.stream(number)
    }

    /// Binds the peer's number to our stream. The caller has checked the number against the limit of streams.
    pub(crate) fn bind(&mut self, number: u32, stream: StreamId) {
        self.numbers.bind(number, stream);
    }
}

/// The site of which a client of this name is the link.
pub(crate) fn site(client: &str) -> Option<&str> {
    client.strip_prefix('@').and_then(|name| name.split('/').next())
}

/// All links, by their number.
#[derive(Clone, Default)]
pub(crate) struct Links {
    slots: LinkMap<Link>,
    by_client: BTreeMap<Box<str>, LinkId>,
    count: usize,
}

impl Links {
    pub(crate) fn insert(&mut self, id: LinkId, link: Link) {
        if self.slots.insert(id, link).is_none() {
            self.count += 1;
        }
    }

    pub(crate) fn remove(&mut self, id: LinkId) -> Option<Link> {
        let link = self.slots.remove(id);
        self.count -= usize::from(link.is_some());
        if let Some(link) = &link
            && self.by_client.get(&link.name) == Some(&id)
        {
            self.by_client.remove(&link.name);
        }
        link
    }

    /// The link of a client, by its name.
    pub(crate) fn find(&self, client: &str) -> Option<LinkId> {
        self.by_client.get(client).copied()
    }

    /// Gives a client's link its name; an older link of that name is no longer found.
    pub(crate) fn name(&mut self, id: LinkId, client: &str) {
        let Some(link) = self.get_mut(id) else { return invariant!("who greets has a link") };
        link.name = client.into();
        self.by_client.insert(client.into(), id);
    }

    /// Binds a number of the peer on this link to our stream. The caller has checked the number against the limit of streams.
    pub(crate) fn bind(&mut self, id: LinkId, number: u32, stream: StreamId) {
        let Some(link) = self.get_mut(id) else { return invariant!("who names a stream has a link") };
        link.bind(number, stream);
    }

    /// The link on which a frame has just come.
    pub(crate) fn sender(&mut self, id: LinkId) -> Option<&mut Link> {
        let link = self.slots.get_mut(id);
        if link.is_none() {
            invariant!("who sends a frame has a link");
        }
        link
    }

    #[inline]
    pub(crate) fn get(&self, id: LinkId) -> Option<&Link> {
        self.slots.get(id)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: LinkId) -> Option<&mut Link> {
        self.slots.get_mut(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (LinkId, &Link)> {
        self.slots.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (LinkId, &mut Link)> {
        self.slots.iter_mut()
    }
}
