//! What a broker does for clients that cannot reach the primary, as the backup that lets them through and as the primary that serves them.

use super::{Relay, Step};
use crate::broker_node::BrokerNode;
use crate::driving::{CLOSING_TIME, DRAINED_BYTES};
use crate::processing::Operators;
use crate::reporter::Reporter;
use crate::service::Service;
use broker::Event;
use contract::{Mutant, Time};
use mqtt::Rules;
use wire::{
    Decoded, Effects, Farewell, FarewellReason, Frame, Hello, LinkChange, LinkId, Order, Outbox, Protocol,
    Standing, decode, is_greeting,
};

const REIGNS: &str = "this broker reigns: nobody need be let through to it";
const NO_WAY: &str = "this broker knows of no living primary to which it could let you through; it will when the pair is whole";
const TOO_MANY: &str =
    "as many clients as limits.relayed allows pass through this broker already, or the pair is changing";
const TOO_MUCH: &str = "more is sent to the primary through this broker than the link between the brokers carries: send less, or \
                        mend your way to the primary";
const OVER: &str = "the primary to which this broker let you through is gone from there";

/// A client's connection leads to no channel any more; it only has to end.
fn channel_is_over(relay: &mut Relay, number: u32, link: LinkId) {
    relay.clients.insert(link, None);
    relay.channel(number).into_iter().for_each(|channel| channel.link = None);
}

/// Clients that are let through to the primary.
pub(crate) struct Ways;

impl Service for Ways {
    fn handle_link<R: Reporter, O: Operators, G: Rules>(
        node: &mut BrokerNode<R, O, G>,
        now: Time,
        link: LinkId,
        change: LinkChange,
        net: &mut impl Effects,
    ) -> bool {
        if change == LinkChange::Closed && node.relay.pair == Some(link) {
            node.lose_ways(now, net);
        }
        if !node.relay.carries(link) {
            return false;
        }
        let channel = node.relay.clients.get(&link).copied().flatten();
        match (change, channel) {
            (LinkChange::Closed, channel) => {
                node.relay.clients.remove(&link);
                if let Some(number) = channel {
                    node.relay.channel(number).into_iter().for_each(|channel| channel.link = None);
                    // What it has sent before still goes its way.
                    node.relay.end(number);
                    node.relay.give_room(number);
                }
            }
            (LinkChange::Drained, Some(number)) => node.relay.give_room(number),
            _ => {}
        }
        true
    }

    fn handle_bytes<R: Reporter, O: Operators, G: Rules>(
        node: &mut BrokerNode<R, O, G>,
        now: Time,
        link: LinkId,
        bytes: &[u8],
        net: &mut impl Effects,
    ) -> Option<usize> {
        if node.relay.carries(link) {
            let channel = node.relay.clients.get(&link).copied().flatten();
            if channel.is_some_and(|number| !node.relay.take(number, bytes)) {
                node.part_with(link, FarewellReason::Limit, TOO_MUCH, net);
            }
            return Some(bytes.len());
        }
        if !is_greeting(bytes) || !node.broker.is_stranger(link) {
            return None;
        }
        match decode(bytes) {
            Ok(Decoded::Frame(Frame::Hello(hello), _)) if hello.standing == Standing::CutOff => {
                node.open_way(now, link, &hello, bytes, net);
                Some(bytes.len())
            }
            _ => None,
        }
    }

    /// What waits in channels that end is given up after a while.
    fn handle_timeout<R: Reporter, O: Operators, G: Rules>(
        node: &mut BrokerNode<R, O, G>,
        now: Time,
        _net: &mut impl Effects,
    ) {
        for number in 0..node.relay.channels.len() as u32 {
            let late = node.relay.channel(number).is_some_and(|channel| channel.gives_up(now, CLOSING_TIME));
            if late {
                node.relay.call(number);
            }
        }
    }

    /// What came in channels is handed over, and what waits in them leaves.
    fn poll_work<R: Reporter, O: Operators, G: Rules>(
        node: &mut BrokerNode<R, O, G>,
        now: Time,
        net: &mut impl Effects,
    ) -> bool {
        if node.relay.is_idle() {
            return false;
        }
        node.relay.now = now;
        if !node.relay.lead_here && node.broker.way_to_primary() != node.relay.pair {
            // The primary has handed over, or is gone. What it has sent already still comes, and is passed on.
            (0..node.relay.channels.len() as u32).for_each(|number| _ = node.relay.end(number));
        }
        let mut worked = false;
        loop {
            while let Some(step) = node.relay.steps.pop_front() {
                worked = true;
                node.take_step(now, step, net);
            }
            node.relay.pump(net);
            node.let_go_of_channels(now);
            if node.relay.steps.is_empty() {
                return worked;
            }
        }
    }

    /// What waits in channels is looked at whenever the broker looks at something.
    fn next_deadline<R: Reporter, O: Operators, G: Rules>(_node: &BrokerNode<R, O, G>) -> Time {
        Time::NEVER
    }
}

impl<R: Reporter, O: Operators, G: Rules> BrokerNode<R, O, G> {
    /// A client asks to be let through to the primary.
    fn open_way(&mut self, now: Time, link: LinkId, hello: &Hello<'_>, bytes: &[u8], net: &mut impl Effects) {
        let way = self.broker.way_to_primary().filter(|_| !self.broker.is_leaving());
        let Some(pair) = way.filter(|_| !Mutant::LetNobodyThrough.is_on()) else {
            let text = if self.broker.is_primary() { REIGNS } else { NO_WAY };
            return self.send_away(link, FarewellReason::NoWay, text, net);
        };
        let limit = self.broker.limits().relayed;
        let Some(channel) = self.relay.begin(now, pair, link, hello.name, limit) else {
            return self.send_away(link, FarewellReason::NoWay, TOO_MANY, net);
        };
        let gate = self.gate.as_deref();
        let address = gate.and_then(|gate| gate.address(link)).map(|address| address.to_string());
        let (address, client) = (address.as_deref().unwrap_or(""), hello.name);
        let certificate = gate.and_then(|gate| gate.certificate(link)).unwrap_or("");
        net.send(pair, &Frame::RelayOpen { channel, client, address, certificate });
        self.relay.take(channel, bytes);
        self.broker.let_go(link);
        if let Some(gate) = &mut self.gate {
            gate.handle_link(link, LinkChange::Closed);
        }
        self.reporter.report(&Event::CutOff { client, through_here: true });
    }

    /// Turns away somebody who wanted to be let through. That is no news for the admin: where it matters, the client tells its own.
    fn send_away(&mut self, link: LinkId, reason: FarewellReason, text: &str, net: &mut impl Effects) {
        let (broker, mut wired) = self.wired(net);
        broker.send_away(link, reason, text, &mut wired);
    }

    /// Closes the connection of a relayed client; its channel ends when what it has sent has left.
    fn part_with(&mut self, link: LinkId, reason: FarewellReason, text: &str, net: &mut impl Effects) {
        net.close(link, &Farewell { reason, text });
        if let Some(Some(number)) = self.relay.clients.get(&link).copied() {
            channel_is_over(&mut self.relay, number, link);
            self.relay.end(number);
        }
    }

    fn let_go_of_channels(&mut self, now: Time) {
        if !std::mem::take(&mut self.relay.some_end) {
            return;
        }
        for number in 0..self.relay.channels.len() as u32 {
            if let Some(channel) = self.relay.let_go(number) {
                let (client, lasted, bytes) = (&*channel.client, now.since(channel.since), channel.bytes);
                let through_here = !self.relay.lead_here;
                self.reporter.report(&Event::CutOffEnded { client, through_here, lasted, bytes });
            }
        }
    }

    fn take_step(&mut self, now: Time, step: Step, net: &mut impl Effects) {
        match step {
            Step::Opened { channel, client, address, certificate } => {
                self.welcome_through(now, channel, &address, &certificate, net);
                self.reporter.report(&Event::CutOff { client: &client, through_here: false });
            }
            Step::Refused { from, channel } => net.send(from, &Frame::RelayEnd { channel }),
            Step::Came(channel) if self.relay.lead_here => self.read_channel(now, channel, net),
            Step::Came(channel) => self.pass_on(channel, net),
            Step::Ended(channel) if self.relay.lead_here => {
                self.relay.end(channel);
                self.tell_closed(now, channel, net);
            }
            Step::Ended(number) => {
                let Some(channel) = self.relay.channel(number) else { return };
                channel.out = Outbox::default();
                let (link, over) = (channel.link, channel.ending);
                self.relay.end(number);
                self.relay.call(number);
                match link {
                    // The pair has changed, and nobody has told the client.
                    Some(link) if over => self.part_with(link, FarewellReason::NoWay, OVER, net),
                    Some(link) => {
                        // The primary has closed it, with a farewell of its own.
                        channel_is_over(&mut self.relay, number, link);
                        net.hang_up(link);
                    }
                    None => {}
                }
            }
            Step::Closed(channel) => self.tell_closed(now, channel, net),
            Step::Drained(channel) => {
                let (broker, mut wired) = self.wired(net);
                broker.handle_link(now, LinkId::of_channel(channel), LinkChange::Drained, &mut wired);
            }
        }
    }

    /// A client comes through the backup.
    fn welcome_through(
        &mut self,
        now: Time,
        number: u32,
        address: &str,
        certificate: &str,
        net: &mut impl Effects,
    ) {
        let (link, change) = (LinkId::of_channel(number), LinkChange::Accepted(Protocol::Verge));
        self.relay.channel(number).into_iter().for_each(|channel| channel.known = true);
        if let Some(gate) = &mut self.gate {
            gate.handle_link(link, change);
            if let Ok(address) = address.parse() {
                gate.locate(link, address);
            }
            if !certificate.is_empty() {
                gate.identify(link, certificate);
            }
        }
        let (broker, mut wired) = self.wired(net);
        broker.handle_link(now, link, change, &mut wired);
    }

    /// The broker reads what came in a channel, as from a connection.
    fn read_channel(&mut self, now: Time, number: u32, net: &mut impl Effects) {
        let Some(channel) = self.relay.channel(number) else { return };
        channel.fresh = false;
        let mut bytes = std::mem::take(&mut channel.came);
        let used = if channel.known && !channel.ending {
            self.handle_frames(now, LinkId::of_channel(number), &bytes, net)
        } else {
            bytes.len()
        };
        bytes.drain(..used);
        if let Some(channel) = self.relay.channel(number) {
            channel.came = bytes;
        }
        self.relay.give_room(number);
    }

    /// The backup passes on to the client what the primary wrote. There is room for more when the client has read most of it.
    fn pass_on(&mut self, number: u32, net: &mut impl Effects) {
        let Some(channel) = self.relay.channel(number) else { return };
        channel.fresh = false;
        let bytes = std::mem::take(&mut channel.came);
        let backlog = channel.link.map_or(0, |link| {
            net.append(link, Order::Any, |out| out.extend_from_slice(&bytes));
            net.backlog(link)
        });
        if backlog <= DRAINED_BYTES {
            self.relay.give_room(number);
        }
    }

    fn tell_closed(&mut self, now: Time, number: u32, net: &mut impl Effects) {
        let known = self.relay.channel(number).is_some_and(|channel| std::mem::take(&mut channel.known));
        if known {
            self.forget_channel_link(now, LinkId::of_channel(number), net);
        }
    }

    fn forget_channel_link(&mut self, now: Time, link: LinkId, net: &mut impl Effects) {
        if let Some(gate) = &mut self.gate {
            gate.handle_link(link, LinkChange::Closed);
        }
        let (broker, mut wired) = self.wired(net);
        broker.handle_link(now, link, LinkChange::Closed, &mut wired);
    }

    /// The link between the brokers is gone, and with it all channels.
    fn lose_ways(&mut self, now: Time, net: &mut impl Effects) {
        let lead_here = self.relay.lead_here;
        for (number, mut channel) in self.relay.lose_all() {
            if let Some(link) = channel.link.take() {
                let bytes = std::mem::take(&mut channel.came);
                net.append(link, Order::Any, |out| out.extend_from_slice(&bytes));
                self.part_with(link, FarewellReason::NoWay, OVER, net);
            }
            if channel.known {
                self.forget_channel_link(now, LinkId::of_channel(number), net);
            }
            let (client, lasted, bytes) = (&*channel.client, now.since(channel.since), channel.bytes);
            self.reporter.report(&Event::CutOffEnded { client, through_here: !lead_here, lasted, bytes });
        }
    }

    /// The broker ends: clients that it lets through are told.
    pub(crate) fn end_ways(&mut self, net: &mut impl Effects) {
        let clients: Vec<LinkId> = self.relay.clients.keys().copied().collect();
        for link in clients {
            self.part_with(link, FarewellReason::Leaving, "the broker ends", net);
        }
        self.relay.pump(net);
    }
}
