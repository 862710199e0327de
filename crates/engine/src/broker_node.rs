//! A broker as a node.

use crate::commands::{Commands, is_command};
use crate::driving::{DRAINED_BYTES, JOBS_PER_PORTION};
use crate::gate::{Gate, is_of_gate};
use crate::node::{Node, for_each_frame};
use crate::processing::{NoOperators, Operators, Processor};
use crate::relay::{Relay, Ways};
use crate::reporter::Reporter;
use crate::service::Service;
use crate::serving::{Mqtt, Refilling};
use crate::wired::{Wired, survey_of};
use broker::{Broker, Changed, Others, Settings, Snapshot, TopicRule};
use contract::{Span, Time};
use mqtt::{Buffers, Gateway, Rules};
use processing::{Change, Crew, GraphError, GraphSpec};
use std::net::IpAddr;
use wire::{Effects, Frame, LinkChange, LinkId, PeerIndex, Protocol, Transport};

/// A broker, wired to bytes, to operators and to clients of other protocols.
#[derive(Clone)]
pub struct BrokerNode<R, O = NoOperators, G = mqtt::Open> {
    pub(crate) broker: Broker,
    pub(crate) reporter: R,
    pub(crate) operators: O,
    pub(crate) gateway: Option<Box<Gateway<G>>>,
    /// What a message of its clients borrows from, beside its packet.
    pub(crate) buffers: Buffers,
    /// Who looks at clients and at the partner before the broker does, if anybody does.
    pub(crate) gate: Option<Box<Gate>>,
    /// Clients that cannot reach the primary.
    pub(crate) relay: Relay,
    /// How far a store that has come back has been told of everything.
    pub(crate) refilling: Option<Refilling>,
    pub(crate) commands: Commands,
    tidied: Tidied,
    pub(crate) kept: KeptFor,
}

/// For whom what operators remember is kept.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct KeptFor {
    /// Whether this broker reigns.
    reigns: bool,
    backup: Option<LinkId>,
    /// Whether the backup knows the streams of which it is told what is remembered.
    understands: bool,
    /// Whether the backup waits for what operators remember.
    waits: bool,
}

impl KeptFor {
    /// The backup that is given what operators remember.
    pub(crate) fn backup(&self) -> Option<LinkId> {
        self.backup.filter(|_| self.understands)
    }
}

/// When memory was last looked at, and how much messages had.
#[derive(Clone, Copy, Default)]
struct Tidied {
    at: Time,
    bytes: usize,
}

/// Between two such looks.
const TIDY_INTERVAL: Span = Span::secs(10);

/// Results that are taken before new bytes are looked at.
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
        BrokerNode {
            broker,
            reporter,
            operators,
            gateway: None,
            buffers: Buffers::default(),
            gate: None,
            relay: Relay::default(),
            refilling: None,
            commands: Commands::new(),
            tidied: Tidied::default(),
            kept: KeptFor::default(),
        }
    }
}

impl<R: Reporter, O: Operators, G: Rules> BrokerNode<R, O, G> {
    /// Takes over other contracts for families of topics; see [`Broker::change_topics`].
    pub fn change_topics(
        &mut self,
        now: Time,
        topics: Vec<TopicRule>,
        net: &mut impl Effects,
    ) -> Result<Vec<Changed>, String> {
        let (broker, mut wired) = self.wired(net);
        broker.change_topics(now, topics, &mut wired)
    }

    /// What that would do; see [`Broker::would_change`].
    pub fn would_change_topics(&self, topics: &[TopicRule]) -> Result<Vec<Changed>, String> {
        self.broker.would_change(topics)
    }

    /// The same broker, serving clients of MQTT as well. It must have just started.
    pub fn with_gateway<H: Rules>(self, mut gateway: Gateway<H>) -> BrokerNode<R, O, H> {
        gateway.record(self.reporter.keeps());
        self.serving(Some(Box::new(gateway)))
    }

    /// The same broker, serving only clients of its own protocol, where the type says that it might serve others.
    pub fn without_gateway<H: Rules>(self) -> BrokerNode<R, O, H> {
        self.serving(None)
    }

    fn serving<H: Rules>(self, gateway: Option<Box<Gateway<H>>>) -> BrokerNode<R, O, H> {
        let BrokerNode { broker, reporter, operators, gate, relay, commands, tidied, kept, .. } = self;
        let (refilling, buffers) = (None, Buffers::default());
        BrokerNode {
            broker,
            reporter,
            operators,
            gateway,
            buffers,
            gate,
            relay,
            refilling,
            commands,
            tidied,
            kept,
        }
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

    /// Who a client is that wanted to be known; see [`crate::Introduces::login`].
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
        if let Some(gateway) = &mut self.gateway {
            gateway.expel(now, gone, net);
        }
        self.settle(now, net);
    }

    /// Its operators.
    pub fn operators(&mut self) -> &mut O {
        &mut self.operators
    }

    /// After anything has happened: what serves beside the broker is asked in turn. Returns whether that has made work.
    pub(crate) fn settle(&mut self, now: Time, net: &mut impl Effects) -> bool {
        let relayed = Ways::poll_work(self, now, net);
        let posted = Mqtt::poll_work(self, now, net);
        if self.relay.has_waiting() {
            self.relay.pump(net);
        }
        relayed | posted
    }

    /// The broker, and everything else as it sees it.
    pub(crate) fn wired<'a, N: Effects>(
        &'a mut self,
        net: &'a mut N,
    ) -> (&'a mut Broker, Wired<'a, N, R, O, G>) {
        let BrokerNode { broker, reporter, operators, gateway, relay, kept, .. } = self;
        let kept_for = kept.backup();
        (broker, Wired { net, relay, reporter, operators, kept_for, gateway: gateway.as_deref_mut() })
    }

    /// Whether what a client says has to wait for its turn.
    #[inline]
    pub(crate) fn has_to_wait(&self, link: LinkId, frame: &Frame<'_>) -> bool {
        has_to_wait(&self.broker, &self.commands, link, frame)
    }

    /// A connection's next command, and what follows it, waits for its turn.
    pub(crate) fn delay(&mut self, link: LinkId, net: &mut impl Effects) {
        self.commands.delay(link);
        let (_, mut wired) = self.wired(net);
        wired.hold(link);
    }

    /// A turn begins for commands: those that go on do, and then those that waited.
    fn take_turn_of_commands(&mut self, net: &mut impl Effects) {
        self.commands.begin_turn();
        self.commands.spend(self.broker.take_spent());
        if self.commands.have_room() && !self.broker.has_tasks() {
            let next = self.commands.next();
            let (_, mut wired) = self.wired(net);
            next.into_iter().for_each(|link| wired.present_again(link));
        }
    }

    /// Gives the backup what operators remember. What was made of it in the turns before has left by now.
    fn keep_memories(&mut self, now: Time, net: &mut impl Effects) {
        let (reigns, backup) = (self.broker.is_primary(), self.broker.backup_link());
        if self.kept.reigns && !reigns {
            self.operators.step_down(now);
        }
        if self.kept.backup != backup {
            self.operators.keep_for(backup.is_some());
            self.kept.understands = false;
        }
        let has_come =
            backup.is_some() && !self.kept.understands && self.broker.backup_with_streams() == backup;
        if has_come {
            self.operators.keep_all();
            self.kept.understands = true;
        }
        self.kept = KeptFor { reigns, backup, ..self.kept };
        while let Some(kept) = self.operators.next_kept() {
            if let Some(link) = backup {
                net.send(link, &Frame::Memory { instance: &kept.instance, picture: &kept.picture });
                self.broker.count_memory(link, kept.picture.len(), &kept.streams);
            }
        }
        let (broker, wired) = self.wired(net);
        while let Some(unkept) = wired.operators.next_unkept(now, wired.reporter) {
            broker.endanger_results(now, &unkept.outputs);
        }
        let waits = backup.is_some() && !self.operators.is_kept();
        if (std::mem::replace(&mut self.kept.waits, waits) || has_come) && !waits {
            self.broker.told_memories();
        }
    }

    /// What its store holds may be old: it does not hurry to reign before its partner has been asked.
    pub fn doubt(&mut self) {
        self.broker.doubt();
    }

    /// The broker itself.
    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// Whether a connection is one of a client that passes through this broker to the primary.
    pub fn lets_through(&self, link: LinkId) -> bool {
        self.relay.carries(link)
    }

    /// Fills a snapshot of the broker and its operators.
    pub fn fill(&self, now: Time, into: &mut Snapshot) {
        // Levels come with the first of the operators' rows.
        let survey = survey_of(&self.operators, &self.relay, self.gateway.as_deref(), 0..1);
        self.broker.fill(now, &survey, into);
        into.figures.clear();
        if let Some(gateway) = &self.gateway {
            gateway.stats().each(&mut |name, value| into.figures.push((name, value)));
            into.node.known = gateway.knowledge().total();
        }
        let (store, reason) = self.reporter.store();
        into.node.store = store;
        into.store_reason.clear();
        into.store_reason.push_str(reason);
    }

    /// Who hears of events.
    pub fn reporter(&mut self) -> &mut R {
        &mut self.reporter
    }

    /// Bytes of the native protocol, for the broker. Returns how many were used.
    pub(crate) fn handle_frames(
        &mut self,
        now: Time,
        link: LinkId,
        bytes: &[u8],
        net: &mut impl Effects,
    ) -> usize {
        if self.gate.is_some() {
            return self.handle_guarded_bytes(now, link, bytes, net);
        }
        let BrokerNode { broker, reporter, operators, gateway, relay, commands, kept, .. } = self;
        let kept_for = kept.backup();
        let mut wired = Wired { net, relay, reporter, operators, kept_for, gateway: gateway.as_deref_mut() };
        let mut waits = false;
        let result = for_each_frame(bytes, |frame| {
            waits = has_to_wait(broker, commands, link, &frame);
            if !waits {
                let command = is_command(&frame);
                broker.handle_frame(now, link, frame, &mut wired);
                if command {
                    commands.spend(broker.take_spent() + 1);
                }
            }
            !waits
        });
        let used = result.unwrap_or_else(|error| {
            broker.handle_garbage(link, &error, &mut wired);
            bytes.len()
        });
        if waits {
            self.delay(link, net);
        }
        used
    }

    /// Runs at most so many jobs; [`Node::run`] with a portion of another size.
    pub fn run_jobs(&mut self, now: Time, budget: usize, net: &mut impl Effects) -> bool {
        let more = Operating::poll_work(self, now, net);
        let (broker, mut wired) = self.wired(net);
        let left = broker.run(now, budget, &mut wired);
        if let Some(gateway) = self.gateway.as_deref_mut().filter(|_| !left) {
            gateway.all_dispatched();
        }
        self.settle(now, net) | left | more
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
        self.end_ways(net);
    }
}

/// The operators.
struct Operating;

impl Service for Operating {
    fn handle_link<R: Reporter, O: Operators, G: Rules>(
        _node: &mut BrokerNode<R, O, G>,
        _now: Time,
        _link: LinkId,
        _change: LinkChange,
        _net: &mut impl Effects,
    ) -> bool {
        false
    }

    fn handle_bytes<R: Reporter, O: Operators, G: Rules>(
        _node: &mut BrokerNode<R, O, G>,
        _now: Time,
        _link: LinkId,
        _bytes: &[u8],
        _net: &mut impl Effects,
    ) -> Option<usize> {
        None
    }

    /// What is due is made where their results are taken.
    fn handle_timeout<R: Reporter, O: Operators, G: Rules>(
        _node: &mut BrokerNode<R, O, G>,
        _now: Time,
        _net: &mut impl Effects,
    ) {
    }

    /// Publishes some of what they have made, and settles the messages with which they are done.
    fn poll_work<R: Reporter, O: Operators, G: Rules>(
        node: &mut BrokerNode<R, O, G>,
        now: Time,
        net: &mut impl Effects,
    ) -> bool {
        node.keep_memories(now, net);
        let (broker, mut wired) = node.wired(net);
        while let Some((filter, wanted)) = wired.operators.next_stirred() {
            broker.others_want(&filter, Others::Operators, wanted, &mut wired);
        }
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

    fn next_deadline<R: Reporter, O: Operators, G: Rules>(node: &BrokerNode<R, O, G>) -> Time {
        node.operators.next_deadline()
    }
}

impl<R: Reporter, O: Operators, G: Rules> Node for BrokerNode<R, O, G> {
    fn is_open(&self, protocol: Protocol) -> bool {
        protocol != Protocol::Mqtt || self.gateway.as_ref().is_none_or(|gateway| gateway.is_open())
    }

    fn handle_link(&mut self, now: Time, link: LinkId, change: LinkChange, net: &mut impl Effects) {
        if Ways::handle_link(self, now, link, change, net) {
            self.settle(now, net);
            return;
        }
        let others = Mqtt::handle_link(self, now, link, change, net);
        if let Some(gate) = &mut self.gate
            && (!others || change == LinkChange::Closed)
        {
            gate.handle_link(link, change);
        }
        if !others {
            let (broker, mut wired) = self.wired(net);
            broker.handle_link(now, link, change, &mut wired);
        }
        if change == LinkChange::Closed {
            self.commands.forget(link);
            self.broker.forget_count(link);
        }
        self.settle(now, net);
    }

    fn handle_transport(&mut self, link: LinkId, transport: Transport) {
        self.broker.carried_by(link, transport);
        if let Some(gateway) = &mut self.gateway {
            gateway.carried_by(link, transport);
        }
    }

    fn handle_own_address(&mut self, link: LinkId, address: IpAddr) {
        if let Some(gateway) = &mut self.gateway {
            gateway.reached_at(link, address);
        }
    }

    fn handle_crowded(&mut self, link: LinkId) {
        self.broker.handle_crowded(link);
    }

    fn handle_address(&mut self, link: LinkId, address: IpAddr) {
        if let Some(gate) = &mut self.gate {
            gate.locate(link, address);
        }
        self.broker.come_from(link, address);
        if let Some(gateway) = &mut self.gateway {
            gateway.come_from(link, address);
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
        let used = Mqtt::handle_bytes(self, now, link, bytes, net)
            .or_else(|| Ways::handle_bytes(self, now, link, bytes, net))
            .unwrap_or_else(|| self.handle_frames(now, link, bytes, net));
        self.settle(now, net);
        used
    }

    fn run(&mut self, now: Time, net: &mut impl Effects) -> bool {
        self.run_jobs(now, JOBS_PER_PORTION, net)
    }

    fn awaits_leaving(&self) -> bool {
        self.broker.awaits_leaving()
    }

    fn handle_left(&mut self, now: Time, net: &mut impl Effects) {
        let (broker, mut wired) = self.wired(net);
        broker.handle_left(now, &mut wired);
    }

    fn handle_clock_step(&mut self, now: Time, by: Span) {
        // The broker itself counts anew from where a clock has jumped to.
        if let Some(gateway) = self.gateway.as_deref_mut() {
            gateway.clock_set(now, by);
        }
    }

    fn handle_timeout(&mut self, now: Time, net: &mut impl Effects) {
        self.tidy(now);
        if let Some(gateway) = self.gateway.as_deref_mut() {
            self.broker.share_with(gateway.carried());
            // A connection is said to have room again once less than this waits on it.
            gateway.limit_backlogs(now, self.broker.backlog_part().max(DRAINED_BYTES + 1), net);
        }
        let (broker, mut wired) = self.wired(net);
        broker.handle_timeout(now, &mut wired);
        self.take_turn_of_commands(net);
        Operating::handle_timeout(self, now, net);
        Mqtt::handle_timeout(self, now, net);
        Ways::handle_timeout(self, now, net);
        self.settle(now, net);
    }

    fn next_deadline(&self) -> Time {
        if self.commands.wait() {
            return Time::ZERO;
        }
        let beside = [Operating::next_deadline(self), Mqtt::next_deadline(self), Ways::next_deadline(self)];
        beside.into_iter().fold(self.broker.next_deadline(), Time::min)
    }
}

/// Whether what a client says has to wait: a command where this turn has no room for it, and anything where the command before it has
/// not been answered.
#[inline]
fn has_to_wait(broker: &Broker, commands: &Commands, link: LinkId, frame: &Frame<'_>) -> bool {
    if !is_command(frame) {
        return broker.answers_later(link);
    }
    (broker.has_tasks() || !commands.have_room()) && !broker.is_partners(link)
}
