//! A broker as a node.

use crate::driving::DRAINED_BYTES;
use crate::gate::{Gate, is_of_gate};
use crate::node::{Node, for_each_frame};
use crate::processing::{NoOperators, Operators, Processor};
use crate::serving::send_records;
use broker::{
    Broker, Event, Origin, Outputs, Processed, Processing, Route, Routed, Settings, Snapshot, Survey,
};
use contract::{Span, Time};
use mqtt::gateway::Dispatched;
use mqtt::{Gateway, Rules};
use std::net::IpAddr;
use std::ops::Range;
use stream::{Change, Crew, GraphError, GraphSpec};
use wire::{
    Effects, Farewell, Frame, LinkChange, LinkId, Mark, MarkKind, Message, MessageKind, PeerIndex, Transport,
};

/// The process around a node: it hears what a broker has to tell its operator, keeps what must outlive the process, and finds
/// out who clients are.
pub trait Reporter {
    /// An event.
    fn report(&mut self, event: &Event<'_>);

    /// Whether there is a store, to which [`Reporter::keep`] leads.
    fn keeps(&self) -> bool {
        false
    }

    /// What has changed of what must outlive the process; see `mqtt::records`.
    fn keep(&mut self, records: &[u8]) {
        let _ = records;
    }

    /// The next thing that whoever watches should know, as a JSON object appended to `out`. `false`: there is none.
    fn next_alarm(&mut self, out: &mut String) -> bool {
        let _ = out;
        false
    }

    /// Told about every ten seconds: memory of messages that was given back since the last time, which the process may give back in turn.
    fn tidy(&mut self, freed: usize) {
        let _ = freed;
    }

    /// Where the next client comes from that wants to be known, if that is known.
    fn caller(&mut self, address: Option<IpAddr>) {
        let _ = address;
    }

    /// A client wants to be known. The answer is given with [`BrokerNode::judged`].
    fn login(&mut self, login: mqtt::Login) {
        let _ = login;
    }
}

/// A broker, wired to bytes, to operators and to clients of other protocols.
#[derive(Clone)]
pub struct BrokerNode<R, O = NoOperators, G = mqtt::Open> {
    pub(crate) broker: Broker,
    pub(crate) reporter: R,
    operators: O,
    pub(crate) gateway: Option<Box<Gateway<G>>>,
    /// Who looks at clients and at the partner before the broker does, if anybody does.
    pub(crate) gate: Option<Box<Gate>>,
    /// When a client of another protocol was last refused something in the operator's hearing.
    pub(crate) complained_at: Time,
    tidied: Tidied,
}

/// When memory was last looked at, and how much messages had.
#[derive(Clone, Copy, Default)]
struct Tidied {
    at: Time,
    bytes: usize,
}

/// Between two such looks.
const TIDY_INTERVAL: Span = Span::secs(10);

/// Jobs that run before new bytes are looked at. Fewer would cost more calls, more would make an urgent message wait.
pub(crate) const JOBS_PER_PORTION: usize = 64;
/// The same for results.
const RESULTS_PER_PORTION: usize = 64;

impl<R: Reporter> BrokerNode<R> {
    /// A broker that has just started, without operators.
    pub fn new(settings: Settings, reporter: R) -> BrokerNode<R> {
        BrokerNode::with_operators(settings, reporter, NoOperators)
    }
}

impl<R: Reporter, C: Crew, G: Rules> BrokerNode<R, Processor<C>, G> {
    /// Changes the graphs of operators: those that are the same go on, the others end or begin. Nothing changes if one of
    /// them is not right.
    pub fn change_graphs(
        &mut self,
        now: Time,
        graphs: Vec<GraphSpec>,
        net: &mut impl Effects,
    ) -> Result<Change, Vec<GraphError>> {
        let change = self.operators.change(graphs)?;
        let (broker, mut wired) = self.wired(net);
        broker.rebind(now, &mut wired);
        Ok(change)
    }
}

impl<R: Reporter, O: Operators> BrokerNode<R, O> {
    /// A broker that has just started.
    pub fn with_operators(settings: Settings, reporter: R, operators: O) -> BrokerNode<R, O> {
        let broker = Broker::new(settings);
        let (complained_at, tidied) = (Time::ZERO, Tidied::default());
        BrokerNode { broker, reporter, operators, gateway: None, gate: None, complained_at, tidied }
    }
}

impl<R: Reporter, O: Operators, G: Rules> BrokerNode<R, O, G> {
    /// The same broker, serving clients of MQTT as well. It must have just started.
    pub fn with_gateway<H: Rules>(self, mut gateway: Gateway<H>) -> BrokerNode<R, O, H> {
        let BrokerNode { broker, reporter, operators, gate, complained_at, tidied, .. } = self;
        gateway.record(reporter.keeps());
        let gateway = Some(Box::new(gateway));
        BrokerNode { broker, reporter, operators, gateway, gate, complained_at, tidied }
    }

    /// The same broker, serving only clients of its own protocol, where the type says that it might serve others.
    pub fn without_gateway<H: Rules>(self) -> BrokerNode<R, O, H> {
        let BrokerNode { broker, reporter, operators, gate, complained_at, tidied, .. } = self;
        BrokerNode { broker, reporter, operators, gateway: None, gate, complained_at, tidied }
    }

    /// Has memory given back that messages do not need any more.
    fn tidy(&mut self, now: Time) {
        // A clock that went back must not keep us from it.
        if now < self.tidied.at + TIDY_INTERVAL && self.tidied.at <= now {
            return;
        }
        let bytes = self.broker.stored_bytes();
        let before = std::mem::replace(&mut self.tidied, Tidied { at: now, bytes });
        self.reporter.tidy(before.bytes.saturating_sub(bytes));
    }

    /// What serves clients of MQTT, if anything does.
    pub fn gateway(&mut self) -> Option<&mut Gateway<G>> {
        self.gateway.as_deref_mut()
    }

    /// Who a client is that wanted to be known; see [`Reporter::login`].
    pub fn judged(
        &mut self,
        now: Time,
        ticket: u64,
        user: Result<Option<Box<str>>, mqtt::packet::Reason>,
        net: &mut impl Effects,
    ) {
        if is_of_gate(ticket) {
            self.judged_at_gate(ticket, user, net);
        } else if let Some(gateway) = &mut self.gateway {
            gateway.judged(now, ticket, user, net);
        }
        self.settle(now, net);
    }

    /// Ends connections of MQTT clients whose users may not be connected any more; see [`Gateway::expel`].
    pub fn expel_clients(
        &mut self,
        now: Time,
        gone: impl Fn(Option<&str>, Option<&str>) -> Option<String>,
        net: &mut impl Effects,
    ) {
        let BrokerNode { gateway, reporter, .. } = self;
        if let Some(gateway) = gateway {
            let told = |client: &str, reason: &str| reporter.report(&Event::Expelled { client, reason });
            gateway.expel(now, gone, told, net);
        }
        self.settle(now, net);
    }

    /// Its operators.
    pub fn operators(&mut self) -> &mut O {
        &mut self.operators
    }

    /// The broker, and everything else as it sees it.
    pub(crate) fn wired<'a, N: Effects>(
        &'a mut self,
        net: &'a mut N,
    ) -> (&'a mut Broker, Wired<'a, N, R, O, G>) {
        let BrokerNode { broker, reporter, operators, gateway, .. } = self;
        (broker, Wired { net, reporter, operators, gateway: gateway.as_deref_mut() })
    }

    /// Publishes some of what operators have made, and settles the messages with which they are done. Returns whether there may be more.
    fn take_results(&mut self, now: Time, net: &mut impl Effects) -> bool {
        let (broker, mut wired) = self.wired(net);
        let mut taken = 0;
        while taken < RESULTS_PER_PORTION {
            let Some(made) = wired.operators.next_result(now, wired.reporter) else { break };
            taken += 1;
            let result = made.outcome();
            if !broker.publish_result(now, &result, &mut wired) {
                wired.operators.release(result.lineage);
            }
        }
        while let Some(receipt) = wired.operators.processed() {
            broker.processed(receipt, &mut wired);
        }
        taken == RESULTS_PER_PORTION
    }

    /// The broker itself.
    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// Fills a snapshot of the broker and its operators.
    pub fn fill(&self, now: Time, into: &mut Snapshot) {
        // Levels come with the first of the operators' rows.
        self.broker.fill(now, &self.operators.survey(0..1), into);
        into.figures.clear();
        if let Some(gateway) = &self.gateway {
            gateway.stats().each(&mut |name, value| into.figures.push((name, value)));
        }
    }

    /// Who hears of events.
    pub fn reporter(&mut self) -> &mut R {
        &mut self.reporter
    }

    /// Runs at most so many jobs; [`Node::run`] with a portion of another size.
    pub fn run_jobs(&mut self, now: Time, budget: usize, net: &mut impl Effects) -> bool {
        let more = self.take_results(now, net);
        let (broker, mut wired) = self.wired(net);
        let more = broker.run(now, budget, &mut wired) | more;
        self.settle(now, net) | more
    }

    /// Begins to end; see [`Broker::leave`].
    pub fn leave(&mut self, now: Time, net: &mut impl Effects) {
        let (broker, mut wired) = self.wired(net);
        broker.leave(now, &mut wired);
        self.settle(now, net);
    }

    /// Whether nothing keeps it any more; see [`Broker::has_left`].
    pub fn has_left(&self, now: Time) -> bool {
        self.broker.has_left(now, self.operators.is_idle())
    }

    /// Says farewell to everybody.
    pub fn say_farewell(&mut self, net: &mut impl Effects) {
        let (broker, mut wired) = self.wired(net);
        broker.say_farewell(&mut wired);
    }
}

impl<R: Reporter, O: Operators, G: Rules> Node for BrokerNode<R, O, G> {
    fn handle_link(&mut self, now: Time, link: LinkId, change: LinkChange, net: &mut impl Effects) {
        let others = self.handle_gateway_link(now, link, change, net);
        if let Some(gate) = &mut self.gate
            && (!others || change == LinkChange::Closed)
        {
            gate.handle_link(link, change);
        }
        if !others {
            let (broker, mut wired) = self.wired(net);
            broker.handle_link(now, link, change, &mut wired);
        }
        self.settle(now, net);
    }

    fn handle_transport(&mut self, link: LinkId, transport: Transport) {
        if let Some(gateway) = &mut self.gateway {
            gateway.carried_by(link, transport);
        }
    }

    fn handle_address(&mut self, link: LinkId, address: IpAddr) {
        if let Some(gate) = &mut self.gate {
            gate.locate(link, address);
        }
    }

    fn handle_identity(&mut self, _now: Time, link: LinkId, name: &str) {
        if let Some(gateway) = &mut self.gateway {
            gateway.identify(link, name);
        }
        if let Some(gate) = &mut self.gate {
            gate.identify(link, name);
        }
    }

    fn handle_dial_failed(&mut self, now: Time, peer: PeerIndex, refused: bool, net: &mut impl Effects) {
        let (broker, mut wired) = self.wired(net);
        broker.handle_dial_failed(now, peer, refused, &mut wired);
        self.settle(now, net);
    }

    fn handle_bytes(&mut self, now: Time, link: LinkId, bytes: &[u8], net: &mut impl Effects) -> usize {
        if self.gateway.as_ref().is_some_and(|gateway| gateway.owns(link)) {
            if let Some(gate) = &self.gate {
                self.reporter.caller(gate.address(link));
            }
            return self.handle_gateway_bytes(now, link, bytes, net);
        }
        if self.gate.is_some() {
            let used = self.handle_guarded_bytes(now, link, bytes, net);
            self.settle(now, net);
            return used;
        }
        let (broker, mut wired) = self.wired(net);
        let result = for_each_frame(bytes, |frame| broker.handle_frame(now, link, frame, &mut wired));
        let used = result.unwrap_or_else(|error| {
            broker.handle_garbage(link, &error, &mut wired);
            bytes.len()
        });
        self.settle(now, net);
        used
    }

    fn run(&mut self, now: Time, net: &mut impl Effects) -> bool {
        self.run_jobs(now, JOBS_PER_PORTION, net)
    }

    fn handle_timeout(&mut self, now: Time, net: &mut impl Effects) {
        self.tidy(now);
        if let Some(gateway) = self.gateway.as_deref_mut() {
            self.broker.share_with(gateway.clients());
            // A connection is said to have room again once less than this waits on it.
            gateway.limit_backlogs(now, self.broker.backlog_part().max(DRAINED_BYTES + 1), net);
        }
        let (broker, mut wired) = self.wired(net);
        broker.handle_timeout(now, &mut wired);
        self.handle_gateway_timeout(now, net);
        self.settle(now, net);
    }

    fn next_deadline(&self) -> Time {
        let gateway = self.gateway.as_ref().map_or(Time::NEVER, |gateway| gateway.next_deadline());
        self.broker.next_deadline().min(gateway)
    }
}

/// The network, the reporter, the operators and the gateway as one.
pub(crate) struct Wired<'a, N, R, O, G> {
    net: &'a mut N,
    reporter: &'a mut R,
    operators: &'a mut O,
    gateway: Option<&'a mut Gateway<G>>,
}

impl<N: Effects, R: Reporter, O: Operators, G: Rules> Outputs for Wired<'_, N, R, O, G> {
    fn report(&mut self, event: &Event<'_>) {
        self.reporter.report(event);
    }

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

    fn survey(&mut self, wanted: Range<u32>) -> Survey {
        self.operators.survey(wanted)
    }

    fn route(&mut self, topic: &str) -> Option<Route> {
        let (number, receivers) = self.gateway.as_mut()?.route(topic);
        Some(Route { number, receivers })
    }

    fn unroute(&mut self, route: u32) {
        if let Some(gateway) = &mut self.gateway {
            gateway.unroute(route);
        }
    }

    fn deliver(&mut self, now: Time, route: u32, message: &Routed<'_>) {
        let Some(gateway) = &mut self.gateway else { return };
        let Routed { origin, created, again, contract, truths, trailer, payload } = *message;
        let Origin { publisher, incarnation, seq } = origin;
        let loss = contract.loss;
        let message =
            Dispatched { publisher, incarnation, seq, created, again, loss, truths, trailer, payload };
        gateway.deliver(now, route, &message, self.net);
    }

    fn covered(&mut self, stream: u32, seq: u64) {
        if let Some(gateway) = &mut self.gateway {
            gateway.covered(stream, seq, self.net);
        }
    }

    fn given_up(&mut self, stream: u32, seq: u64) {
        if let Some(gateway) = &mut self.gateway {
            gateway.given_up(stream, seq, self.net);
        }
    }

    fn learn(&mut self, _now: Time, records: &[u8]) {
        if let Some(gateway) = &mut self.gateway {
            gateway.learn(records);
        }
    }

    fn forget(&mut self, now: Time) {
        if let Some(gateway) = &mut self.gateway {
            gateway.forget(now, self.net);
        }
    }

    fn tell_rest(&mut self, link: LinkId) {
        let Some(gateway) = self.gateway.as_mut().filter(|gateway| gateway.has_records()) else { return };
        let records = gateway.take_records();
        send_records(self.net, link, &records);
        self.reporter.keep(&records);
        gateway.give_back(records);
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
}

impl<N: Effects, R, O, G> Effects for Wired<'_, N, R, O, G> {
    crate::node::effects_through!(net);
}
