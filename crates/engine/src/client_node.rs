//! A client as a node.

use crate::node::{Node, effects_through, for_each_frame};
use contract::{Span, Time};
use endpoint::{Confirmation, Delivery, Endpoint, Outputs, PublicationState, Reigning, Settings, Unfit};
use wire::{
    Effects, Farewell, Frame, LinkChange, LinkId, Mark, MarkKind, Message, MessageKind, PeerIndex, Shortfall,
};

/// What a client's application hears. Every method may be left as it is.
pub trait Application {
    /// A message.
    fn deliver(&mut self, delivery: &Delivery<'_>) {
        let _ = delivery;
    }

    /// The answer to a publication.
    fn judged(&mut self, publication: u32, state: &PublicationState) {
        let _ = (publication, state);
    }

    /// The answer to a subscription; `Ok` with more than nothing: it is served as best effort, and why.
    fn subscribed(&mut self, subscription: u32, result: Result<&str, &str>) {
        let _ = (subscription, result);
    }

    /// The primary has changed.
    fn reigning(&mut self, reigning: Reigning) {
        let _ = reigning;
    }

    /// A broker closed the connection and said why.
    fn dismissed(&mut self, broker: PeerIndex, farewell: &Farewell<'_>) {
        let _ = (broker, farewell);
    }

    /// A broker could not be reached.
    fn unreachable(&mut self, broker: PeerIndex, refused: bool) {
        let _ = (broker, refused);
    }

    /// An address does not lead to a broker that this client can use.
    fn unfit(&mut self, broker: PeerIndex, why: &Unfit) {
        let _ = (broker, why);
    }

    /// A broker dropped messages for this client, which reads slower than its topics publish.
    fn fell_short(&mut self, broker: PeerIndex, shortfall: &Shortfall) {
        let _ = (broker, shortfall);
    }

    /// A broker answered a request for status or handover.
    fn answered(&mut self, broker: PeerIndex, frame: &Frame<'_>) {
        let _ = (broker, frame);
    }
}

/// A client, wired to bytes.
#[derive(Clone)]
pub struct ClientNode<A> {
    endpoint: Endpoint,
    application: A,
}

impl<A: Application> ClientNode<A> {
    /// A client that has just started.
    pub fn new(settings: Settings, now: Time, application: A) -> ClientNode<A> {
        ClientNode { endpoint: Endpoint::new(settings, now), application }
    }

    /// The endpoint, to be looked at.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The application.
    pub fn application(&mut self) -> &mut A {
        &mut self.application
    }

    /// The endpoint, to be asked for something, with the outputs that this takes.
    pub fn with<N: Effects, T>(
        &mut self,
        net: &mut N,
        act: impl FnOnce(&mut Endpoint, &mut ClientOutputs<'_, N, A>) -> T,
    ) -> T {
        act(&mut self.endpoint, &mut ClientOutputs { net, application: &mut self.application })
    }
}

impl<A: Application> Node for ClientNode<A> {
    fn handle_link(&mut self, now: Time, link: LinkId, change: LinkChange, net: &mut impl Effects) {
        self.with(net, |endpoint, out| endpoint.handle_link(now, link, change, out));
    }

    fn handle_dial_failed(&mut self, now: Time, peer: PeerIndex, refused: bool, _net: &mut impl Effects) {
        self.endpoint.handle_dial_failed(now, peer, refused);
        if self.endpoint.is_direct(peer) {
            self.application.unreachable(peer, refused);
        }
    }

    fn handle_bytes(&mut self, now: Time, link: LinkId, bytes: &[u8], net: &mut impl Effects) -> usize {
        self.with(net, |endpoint, out| feed(endpoint, now, link, bytes, out))
    }

    fn run(&mut self, _now: Time, _net: &mut impl Effects) -> bool {
        false
    }

    fn handle_timeout(&mut self, now: Time, net: &mut impl Effects) {
        self.with(net, |endpoint, out| endpoint.handle_timeout(now, out));
    }

    fn next_deadline(&self) -> Time {
        self.endpoint.next_deadline()
    }
}

/// Gives an endpoint what has come. Returns how many bytes were used.
pub(crate) fn feed(
    endpoint: &mut Endpoint,
    now: Time,
    link: LinkId,
    bytes: &[u8],
    out: &mut impl Outputs,
) -> usize {
    endpoint.hear(link);
    let result = for_each_frame(bytes, |frame| {
        endpoint.handle_frame(now, link, frame, out);
        true
    });
    result.unwrap_or_else(|error| {
        endpoint.handle_garbage(link, &error, out);
        bytes.len()
    })
}

/// The network and the application as one.
pub struct ClientOutputs<'a, N, A> {
    net: &'a mut N,
    application: &'a mut A,
}

impl<N: Effects, A: Application> Outputs for ClientOutputs<'_, N, A> {
    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.application.deliver(delivery);
    }

    fn judged(&mut self, publication: u32, state: &PublicationState) {
        self.application.judged(publication, state);
    }

    fn subscribed(&mut self, subscription: u32, result: Result<&str, &str>) {
        self.application.subscribed(subscription, result);
    }

    fn reigning(&mut self, reigning: Reigning) {
        self.application.reigning(reigning);
    }

    fn dismissed(&mut self, broker: PeerIndex, farewell: &Farewell<'_>) {
        self.application.dismissed(broker, farewell);
    }

    fn unfit(&mut self, broker: PeerIndex, why: &Unfit) {
        self.application.unfit(broker, why);
    }

    fn fell_short(&mut self, broker: PeerIndex, shortfall: &Shortfall) {
        self.application.fell_short(broker, shortfall);
    }

    /// Applications do not hand on.
    fn repeated(&mut self, _stream: u32, _confirmation: Confirmation) {}

    fn retired(&mut self, _stream: u32) {}

    fn answered(&mut self, broker: PeerIndex, frame: &Frame<'_>) {
        self.application.answered(broker, frame);
    }
}

impl<N: Effects, A> Effects for ClientOutputs<'_, N, A> {
    effects_through!(net);
}
