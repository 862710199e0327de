//! The face that cores turn to the world: what they are told of links, and what they ask for.

use crate::{Companion, Evidence, Farewell, Frame, Mark, MarkKind, Message, MessageKind};
use contract::Span;
use contract::admission::Carriers;
use std::fmt;

/// One connection, from its opening until its closing has been told; then the number may be used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub u32);

impl LinkId {
    /// Links that the driver knows have numbers below this.
    const CHANNELS: u32 = 1 << 31;

    /// The link of a client that comes through the other broker, in this channel. No driver knows it.
    pub const fn of_channel(channel: u32) -> LinkId {
        LinkId(LinkId::CHANNELS | channel)
    }

    /// The channel, if this is such a link.
    #[inline]
    pub const fn channel(self) -> Option<u32> {
        if self.0 < LinkId::CHANNELS { None } else { Some(self.0 & !LinkId::CHANNELS) }
    }
}

/// One of the addresses that a core was told at start: a broker's peer, or a client's brokers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeerIndex(pub u8);

/// When bytes leave, among those of one turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// With the others.
    Any,
    /// What this link has to send leaves after what all others have: it says that something sent there has been done.
    Last,
}

/// What is spoken on a connection that somebody made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    /// The frames of this crate.
    #[default]
    Verge,
    /// MQTT, of either version.
    Mqtt,
}

/// How bytes are carried on a connection that somebody made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Transport {
    /// TCP.
    #[default]
    Plain,
    /// TLS. Whether clients must show a certificate, the host's settings say.
    Tls,
    /// TLS between brokers: whoever connects must show the certificate of a broker.
    PairTls,
    /// WebSocket.
    WebSocket,
    /// WebSocket over TLS.
    SecureWebSocket,
}

impl Transport {
    /// What is kept for this way in which bytes are carried.
    pub fn of<T>(self, carriers: &Carriers<T>) -> &T {
        match self {
            Transport::Plain => &carriers.tcp,
            Transport::Tls | Transport::PairTls => &carriers.tls,
            Transport::WebSocket => &carriers.websocket,
            Transport::SecureWebSocket => &carriers.secure_websocket,
        }
    }

    /// The same to be changed.
    pub fn of_mut<T>(self, carriers: &mut Carriers<T>) -> &mut T {
        match self {
            Transport::Plain => &mut carriers.tcp,
            Transport::Tls | Transport::PairTls => &mut carriers.tls,
            Transport::WebSocket => &mut carriers.websocket,
            Transport::SecureWebSocket => &mut carriers.secure_websocket,
        }
    }

    /// Whether bytes are encrypted.
    pub fn is_secure(self) -> bool {
        matches!(self, Transport::Tls | Transport::PairTls | Transport::SecureWebSocket)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Transport::Plain => "TCP",
            Transport::Tls | Transport::PairTls => "TLS",
            Transport::WebSocket => "WebSocket",
            Transport::SecureWebSocket => "WebSocket over TLS",
        })
    }
}

/// What happens to a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkChange {
    /// Somebody connected to us, at a door where this is spoken.
    Accepted(Protocol),
    /// The connection that was asked for with [`Effects::dial`] stands.
    Dialed(PeerIndex),
    /// The link is gone, by either side's will. Nothing more comes of it and nothing can be sent.
    Closed,
    /// The link was congested and its backlog has gone down.
    Drained,
}

/// What a core asks of the world. The host encodes straight into the connection's output buffer.
pub trait Effects {
    /// Sends a frame. Frames of one link arrive in the order in which they were sent.
    fn send(&mut self, link: LinkId, frame: &Frame<'_>);

    /// Sends one message, in a batch with its neighbours where possible.
    fn send_message(&mut self, link: LinkId, kind: MessageKind, message: &Message<'_>);

    /// The same, unless this many bytes or more wait on the link. Returns whether it was sent.
    #[inline]
    fn offer_message(&mut self, link: LinkId, kind: MessageKind, message: &Message<'_>, full: usize) -> bool {
        let sends = self.backlog(link) < full;
        if sends {
            self.send_message(link, kind, message);
        }
        sends
    }

    /// Sends one mark, in a batch with its neighbours where possible.
    fn send_mark(&mut self, link: LinkId, kind: MarkKind, mark: Mark);

    /// How many bytes wait to be sent on the link. Cores keep it bounded.
    fn backlog(&self, link: LinkId) -> usize;

    /// Drops messages for the subscriber on this link that have not begun to leave, the oldest first, until no more than so many bytes
    /// wait there. Returns how many messages that were.
    fn shed(&mut self, link: LinkId, keep: usize) -> u64;

    /// How many bytes of all that was written on the link the other end is known to have. Where nobody counts it stays at zero, and no link
    /// is taken for slow.
    fn taken(&self, link: LinkId) -> u64;

    /// No more than so many bytes of the link should wait in the system, where nothing can be dropped any more. On the link to the partner
    /// that is meant of what is under way as well, since heartbeats go the same way.
    fn hold_back(&mut self, link: LinkId, bytes: usize);

    /// Asks for a connection. The answer is a [`LinkChange::Dialed`], or the core's `handle_dial_failed`.
    fn dial(&mut self, peer: PeerIndex, within: Span);

    /// Says farewell and closes the link when what was sent before has left. [`LinkChange::Closed`] follows.
    fn close(&mut self, link: LinkId, farewell: &Farewell<'_>);

    /// Sends what `write` appends, on a link where something else than frames is spoken.
    fn append(&mut self, link: LinkId, order: Order, write: impl FnOnce(&mut Vec<u8>));

    /// Asks for what came on the link and was not consumed to be presented again, as if more had come.
    fn present_again(&mut self, link: LinkId);

    /// Nothing further is to be read from this link, nor its end to be told, until what was not consumed has been presented again: it
    /// waits for its turn, and who waits does not fill buffers.
    fn hold(&mut self, link: LinkId) {
        let _ = link;
    }

    /// What comes on this link is looked at in time however much others bring: it leads to the other broker of the pair, which takes one
    /// that does not answer for dead. There is one such link; the last one counts.
    fn put_first(&mut self, link: LinkId) {
        let _ = link;
    }

    /// What is for this link leaves after everything else, and in small portions, so that it holds up nobody; or as usual again.
    fn put_last(&mut self, link: LinkId, last: bool) {
        let _ = (link, last);
    }

    /// No more than so many bytes in a second are to leave on this link, evenly: what it goes by carries little.
    fn pace(&mut self, link: LinkId, rate: u64) {
        let _ = (link, rate);
    }

    /// From now on this process's heartbeats count, and no others do. `None`: nobody's.
    fn listen_for(&mut self, companion: Option<Companion>) {
        let _ = companion;
    }

    /// What heartbeats say of the other broker; `None` where none have come, so that only the connection tells.
    fn evidence(&self) -> Option<Evidence> {
        None
    }

    /// Closes the link when what was sent before has left, without a farewell. [`LinkChange::Closed`] follows.
    fn hang_up(&mut self, link: LinkId);
}
