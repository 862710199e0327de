//! The face of a node towards its driver.

use contract::{Span, Time};
use std::net::IpAddr;
use wire::{Decoded, Effects, Frame, LinkChange, LinkId, PeerIndex, Protocol, Transport, WireError, decode};

/// A node as a driver sees it. The driver waits, reads the clock once, feeds what has come, lets the node run while it
/// has work, sends what it left in the output buffers, and sleeps until [`Node::next_deadline`].
pub trait Node {
    /// Whether connections of this protocol are worth taking now. Doors of one that is not are closed, as if nobody listened there.
    fn is_open(&self, _protocol: Protocol) -> bool {
        true
    }

    /// A link has changed.
    fn handle_link(&mut self, now: Time, link: LinkId, change: LinkChange, net: &mut impl Effects);

    /// A link that was just accepted came in by a door of this kind. Without a word it is [`Transport::Plain`].
    fn handle_transport(&mut self, _link: LinkId, _transport: Transport) {}

    /// A link that was just accepted comes from here.
    fn handle_address(&mut self, _link: LinkId, _address: IpAddr) {}

    /// A link of another protocol than the own that was just accepted came in at this address of the host.
    fn handle_own_address(&mut self, _link: LinkId, _address: IpAddr) {}

    /// A link that was just accepted has none of the places for clients, which are taken: it may ask how this node is, and no more.
    fn handle_crowded(&mut self, _link: LinkId) {}

    /// A link that was just accepted belongs to somebody who has proven this name, with a certificate.
    fn handle_identity(&mut self, _now: Time, _link: LinkId, _name: &str) {}

    /// A connection that was asked for could not be made. `refused`: the host answered that nobody listens.
    fn handle_dial_failed(&mut self, now: Time, peer: PeerIndex, refused: bool, net: &mut impl Effects);

    /// Bytes have come, following those not consumed before. Returns how many were consumed; the driver keeps the rest
    /// and presents it again with what comes next.
    fn handle_bytes(&mut self, now: Time, link: LinkId, bytes: &[u8], net: &mut impl Effects) -> usize;

    /// Does a portion of the work that waits. Returns whether there is more.
    fn run(&mut self, now: Time, net: &mut impl Effects) -> bool;

    /// Whether it wants to hear when what it has written has left.
    fn awaits_leaving(&self) -> bool {
        false
    }

    /// What it has written has been given to the system, or waits for peers that do not take it.
    fn handle_left(&mut self, _now: Time, _net: &mut impl Effects) {}

    /// The clock has been set: it is `by` further than it would be, or back where that is negative. Comes before the first time that is read
    /// from it.
    fn handle_clock_step(&mut self, _now: Time, _by: Span) {}

    /// Does what is due.
    fn handle_timeout(&mut self, now: Time, net: &mut impl Effects);

    /// When [`Node::handle_timeout`] has something to do.
    fn next_deadline(&self) -> Time;
}

/// Cuts bytes into frames and hands them on, until one is not taken. Returns how many bytes were consumed, or the error that ends the
/// link.
pub(crate) fn for_each_frame(
    bytes: &[u8],
    mut handle: impl FnMut(Frame<'_>) -> bool,
) -> Result<usize, WireError> {
    let mut consumed = 0;
    while let Some(rest) = bytes.get(consumed..).filter(|rest| !rest.is_empty()) {
        match decode(rest)? {
            Decoded::Frame(frame, length) => {
                if !handle(frame) {
                    break;
                }
                consumed += length;
            }
            Decoded::Incomplete(_) => break,
        }
    }
    Ok(consumed)
}

/// The methods of [`Effects`], passed on to a field.
macro_rules! effects_through {
    ($net:ident) => {
        fn dial(&mut self, peer: PeerIndex, within: Span) {
            self.$net.dial(peer, within);
        }

        effects_through!($net, but_dial);
    };
    ($net:ident, but_dial) => {
        fn send(&mut self, link: LinkId, frame: &Frame<'_>) {
            self.$net.send(link, frame);
        }

        fn send_message(&mut self, link: LinkId, kind: MessageKind, message: &Message<'_>) {
            self.$net.send_message(link, kind, message);
        }

        #[inline]
        fn offer_message(
            &mut self,
            link: LinkId,
            kind: MessageKind,
            message: &Message<'_>,
            full: usize,
        ) -> bool {
            self.$net.offer_message(link, kind, message, full)
        }

        fn send_mark(&mut self, link: LinkId, kind: MarkKind, mark: Mark) {
            self.$net.send_mark(link, kind, mark);
        }

        fn backlog(&self, link: LinkId) -> usize {
            self.$net.backlog(link)
        }

        fn shed(&mut self, link: LinkId, keep: usize) -> u64 {
            self.$net.shed(link, keep)
        }

        fn taken(&self, link: LinkId) -> u64 {
            self.$net.taken(link)
        }

        fn hold_back(&mut self, link: LinkId, bytes: usize) {
            self.$net.hold_back(link, bytes);
        }

        fn close(&mut self, link: LinkId, farewell: &Farewell<'_>) {
            self.$net.close(link, farewell);
        }

        fn append(&mut self, link: LinkId, order: wire::Order, write: impl FnOnce(&mut Vec<u8>)) {
            self.$net.append(link, order, write);
        }

        fn present_again(&mut self, link: LinkId) {
            self.$net.present_again(link);
        }

        fn hold(&mut self, link: LinkId) {
            self.$net.hold(link);
        }

        fn put_first(&mut self, link: LinkId) {
            self.$net.put_first(link);
        }

        fn put_last(&mut self, link: LinkId, last: bool) {
            self.$net.put_last(link, last);
        }

        fn pace(&mut self, link: LinkId, rate: u64) {
            self.$net.pace(link, rate);
        }

        fn listen_for(&mut self, companion: Option<wire::Companion>) {
            self.$net.listen_for(companion);
        }

        fn evidence(&self) -> Option<wire::Evidence> {
            self.$net.evidence()
        }

        fn hang_up(&mut self, link: LinkId) {
            self.$net.hang_up(link);
        }
    };
}
pub(crate) use effects_through;
