//! What a broker reaches from within a node: the network, the process around it, operators, clients of MQTT, and clients that come through
//! the other broker, as one.

use crate::processing::Operators;
use crate::relay::Relay;
use crate::reporter::Reporter;
use crate::serving::send_records;
use broker::{Event, Processed, Processes, Processing, Relays, Remembers, Reports, Route, Routes, Survey};
use contract::{Span, StreamId, Time};
use mqtt::{Gateway, RouteId, Rules};
use std::ops::Range;
use wire::{
    ClientRow, Companion, Effects, Evidence, Farewell, Frame, Knowledge, LinkId, Mark, MarkKind, Message,
    MessageKind, Order, PeerIndex, Routed, StoreState,
};

/// What the broker does not know of itself.
pub(crate) fn survey_of<O: Operators, G: Rules>(
    operators: &O,
    relay: &Relay,
    gateway: Option<&Gateway<G>>,
    wanted: Range<u32>,
) -> Survey {
    let mut survey = operators.survey(wanted);
    relay.survey(&mut survey);
    survey.other_clients = gateway.map_or(0, Gateway::clients) as u32;
    survey
}

/// The network, the reporter, the operators and the gateway as one.
pub(crate) struct Wired<'a, N, R, O, G> {
    pub(crate) net: &'a mut N,
    pub(crate) relay: &'a mut Relay,
    pub(crate) reporter: &'a mut R,
    pub(crate) operators: &'a mut O,
    /// The backup that is given what operators remember.
    pub(crate) kept_for: Option<LinkId>,
    pub(crate) gateway: Option<&'a mut Gateway<G>>,
}

impl<N: Effects, R: Reporter, O: Operators, G: Rules> Reports for Wired<'_, N, R, O, G> {
    fn report(&mut self, event: &Event<'_>) {
        self.reporter.report(event);
    }

    fn survey(&mut self, wanted: Range<u32>) -> Survey {
        survey_of(self.operators, self.relay, self.gateway.as_deref(), wanted)
    }
}

impl<N: Effects, R: Reporter, O: Operators, G: Rules> Processes for Wired<'_, N, R, O, G> {
    fn bind(&mut self, topic: &str) -> Option<Processing> {
        self.operators.bind(topic)
    }

    fn unbind(&mut self, handle: u32) {
        self.operators.unbind(handle);
    }

    fn process(&mut self, handle: u32, message: &Processed<'_>) -> bool {
        self.operators.process(handle, message)
    }

    fn has_output(&mut self, output: u32) -> bool {
        self.operators.has_output(output)
    }

    fn release(&mut self, lineage: u32) {
        self.operators.release(lineage);
    }

    fn offered(&mut self, lineage: u32) {
        self.operators.offered(lineage);
    }
}

impl<N: Effects, R: Reporter, O: Operators, G: Rules> Routes for Wired<'_, N, R, O, G> {
    fn route(&mut self, topic: &str) -> Option<Route> {
        let (RouteId(number), receivers) = self.gateway.as_mut()?.route(topic);
        Some(Route { number, receivers })
    }

    fn unroute(&mut self, route: u32) {
        if let Some(gateway) = &mut self.gateway {
            gateway.unroute(RouteId(route));
        }
    }

    fn deliver(&mut self, now: Time, route: u32, message: &Routed<'_>) {
        if let Some(gateway) = &mut self.gateway {
            gateway.deliver(now, RouteId(route), message, self.net);
        }
    }

    fn covered(&mut self, stream: StreamId, seq: u64) {
        if let Some(gateway) = &mut self.gateway {
            gateway.covered(stream, seq, self.net);
        }
    }

    fn given_up(&mut self, stream: StreamId, seq: u64) {
        if let Some(gateway) = &mut self.gateway {
            gateway.given_up(stream, seq, self.net);
        }
    }

    fn list_clients(
        &mut self,
        after: &str,
        most: usize,
        hear: &mut dyn FnMut(&ClientRow<'_>),
    ) -> Option<String> {
        self.gateway.as_ref()?.list(after, most, hear)
    }

    fn drop_client(&mut self, now: Time, client: &str, ends: bool) -> bool {
        let Some(gateway) = &mut self.gateway else { return false };
        gateway.drop_client(now, client, ends, self.net)
    }
}

impl<N: Effects, R: Reporter, O: Operators, G: Rules> Remembers for Wired<'_, N, R, O, G> {
    fn learn(&mut self, _now: Time, records: &[u8]) {
        if let Some(gateway) = &mut self.gateway {
            gateway.learn(records);
        }
    }

    fn begin_learning(&mut self, now: Time, knows: bool) {
        if let Some(gateway) = &mut self.gateway {
            gateway.begin_learning(now, knows, self.net);
        }
    }

    fn told_everything(&mut self) {
        if let Some(gateway) = &mut self.gateway {
            gateway.told_everything();
        }
    }

    fn tell(&mut self, link: LinkId, from: u64) -> Option<u64> {
        // What has changed comes before what is there, which may refer to it.
        self.tell_rest(link);
        let gateway = self.gateway.as_mut()?;
        let mut records = Vec::new();
        let next = gateway.tell(from, &mut records);
        if !records.is_empty() {
            send_records(self.net, link, &records);
        }
        next
    }

    fn tell_rest(&mut self, link: LinkId) {
        let Some(gateway) = self.gateway.as_mut().filter(|gateway| gateway.has_records()) else { return };
        let records = gateway.take_records();
        send_records(self.net, link, &records);
        self.reporter.keep(&records, gateway.knowledge().total());
        gateway.give_back(records);
    }

    fn tell_changes(&mut self, link: LinkId) -> bool {
        self.tell_rest(link);
        let Some(changes) = self.gateway.as_mut().and_then(|gateway| gateway.logged()) else { return false };
        send_records(self.net, link, &changes);
        true
    }

    fn knowledge(&self) -> Option<&Knowledge> {
        self.gateway.as_ref().map(|gateway| gateway.knowledge())
    }

    fn set_aside(&mut self) -> Option<String> {
        self.reporter.set_aside()
    }

    fn store(&self) -> (StoreState, &str) {
        self.reporter.store()
    }

    fn recall(&mut self, now: Time, instance: &str, picture: &[u8], ours: &dyn Fn(u32) -> Option<StreamId>) {
        self.operators.recall(now, instance, picture, ours);
    }

    fn has_told_memories(&self, backup: LinkId) -> bool {
        // Of a backup that has come in this turn, operators have not heard yet.
        let is_told = self.kept_for == Some(backup) && self.operators.is_kept();
        is_told || !self.operators.remembers()
    }
}

impl<N: Effects, R: Reporter, O: Operators, G: Rules> Relays for Wired<'_, N, R, O, G> {
    fn relay(&mut self, now: Time, from: LinkId, frame: &Frame<'_>, most: usize) {
        self.relay.hear(now, from, frame, most);
    }
}

/// What is for clients that come through the other broker goes into their channels.
impl<N: Effects, R, O, G> Effects for Wired<'_, N, R, O, G> {
    fn send(&mut self, link: LinkId, frame: &Frame<'_>) {
        match link.channel() {
            None => self.net.send(link, frame),
            Some(channel) => self.relay.write(channel, |out| out.push(frame)),
        }
    }

    fn send_message(&mut self, link: LinkId, kind: MessageKind, message: &Message<'_>) {
        match link.channel() {
            None => self.net.send_message(link, kind, message),
            Some(channel) => self.relay.write(channel, |out| out.push_message(kind, message)),
        }
    }

    #[inline(always)]
    fn offer_message(&mut self, link: LinkId, kind: MessageKind, message: &Message<'_>, full: usize) -> bool {
        match link.channel() {
            None => self.net.offer_message(link, kind, message, full),
            Some(channel) => {
                let sends = self.relay.backlog(channel) < full;
                if sends {
                    self.relay.write(channel, |out| out.push_message(kind, message));
                }
                sends
            }
        }
    }

    fn send_mark(&mut self, link: LinkId, kind: MarkKind, mark: Mark) {
        // A prune says that a message has been dispatched, so what was dispatched through channels leaves before it.
        if kind == MarkKind::Prune && self.relay.has_waiting() {
            self.relay.pump(self.net);
        }
        self.net.send_mark(link, kind, mark);
    }

    fn backlog(&self, link: LinkId) -> usize {
        match link.channel() {
            None => self.net.backlog(link),
            Some(channel) => self.relay.backlog(channel),
        }
    }

    fn shed(&mut self, link: LinkId, keep: usize) -> u64 {
        // A channel has room of its own, which is bounded.
        if link.channel().is_none() { self.net.shed(link, keep) } else { 0 }
    }

    fn taken(&self, link: LinkId) -> u64 {
        // Nobody counts what has passed a channel, so that none is taken for slow.
        if link.channel().is_none() { self.net.taken(link) } else { 0 }
    }

    fn hold_back(&mut self, link: LinkId, bytes: usize) {
        if link.channel().is_none() {
            self.net.hold_back(link, bytes);
        }
    }

    fn dial(&mut self, peer: PeerIndex, within: Span) {
        self.net.dial(peer, within);
    }

    fn close(&mut self, link: LinkId, farewell: &Farewell<'_>) {
        match link.channel() {
            None => self.net.close(link, farewell),
            Some(channel) => {
                self.relay.write(channel, |out| out.push(&Frame::Farewell(*farewell)));
                self.relay.hang_up(channel);
            }
        }
    }

    fn append(&mut self, link: LinkId, order: Order, write: impl FnOnce(&mut Vec<u8>)) {
        match link.channel() {
            None => self.net.append(link, order, write),
            Some(channel) => self.relay.write(channel, |out| out.append(write)),
        }
    }

    fn present_again(&mut self, link: LinkId) {
        match link.channel() {
            None => self.net.present_again(link),
            Some(channel) => self.relay.present_again(channel),
        }
    }

    fn put_first(&mut self, link: LinkId) {
        self.net.put_first(link);
    }

    fn put_last(&mut self, link: LinkId, last: bool) {
        // What is written into a channel is bounded by its window.
        if link.channel().is_none() {
            self.net.put_last(link, last);
        }
    }

    fn pace(&mut self, link: LinkId, rate: u64) {
        // A channel is as fast as the link that it goes by.
        if link.channel().is_none() {
            self.net.pace(link, rate);
        }
    }

    fn hold(&mut self, link: LinkId) {
        // What comes in a channel waits there.
        if link.channel().is_none() {
            self.net.hold(link);
        }
    }

    fn listen_for(&mut self, companion: Option<Companion>) {
        self.net.listen_for(companion);
    }

    fn evidence(&self) -> Option<Evidence> {
        self.net.evidence()
    }

    fn hang_up(&mut self, link: LinkId) {
        match link.channel() {
            None => self.net.hang_up(link),
            Some(channel) => self.relay.hang_up(channel),
        }
    }
}
