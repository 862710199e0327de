//! A broker as a node.

use crate::commands::{Commands, is_command};
use crate::driving::{DRAINED_BYTES, JOBS_PER_PORTION};
use crate::gate::{Gate, is_of_gate};
use crate::node::{Node, for_each_frame};
use crate::processing::{NoOperators, Operators, Processor};
use crate::relay::{Relay, Ways};
use crate::service::Service;
use crate::serving::{Mqtt, Refilling, send_records};
use broker::{
    Broker, Changed, Event, Processed, Processes, Processing, Relays, Remembers, Reports, Route, Routes,
    Settings, Snapshot, Survey, TopicRule,
};
use contract::{Span, StreamId, Time};
use mqtt::{Buffers, Gateway, Rules};
use processing::{Change, Crew, GraphError, GraphSpec};
use std::net::IpAddr;
use std::ops::Range;
use wire::{
    ClientRow, Companion, Effects, Evidence, Farewell, Frame, Knowledge, LinkChange, LinkId, Mark, MarkKind,
    Message, MessageKind, Order, PeerIndex, Protocol, Routed, StoreState, Transport,
};

/// The process around a node: it hears what a broker has to tell its operator, keeps what must outlive the process, and finds
/// out who clients are.
pub trait Reporter: Keeps + Introduces {
    /// An event.
    fn report(&mut self, event: &Event<'_>);

    /// The next thing that whoever watches should know, as a JSON object appended to `out`. `false`: there is none.
    fn next_alarm(&mut self, out: &mut String) -> bool;

    /// Told about every ten seconds: memory of messages that was given back since the last time, which the process may give back in turn.
    fn tidy(&mut self, freed: usize);
}

/// Where what must outlive the process is kept.
pub trait Keeps {
    /// Whether there is a store, to which [`Keeps::keep`] leads.
    fn keeps(&self) -> bool;

    /// What has changed of what must outlive the process; see `mqtt::records`. With it, everything is there up to the change `known`;
    /// see [`Knowledge::total`].
    fn keep(&mut self, records: &[u8], known: u64);

    /// What the store does, and why it was given up if it was.
    fn store(&self) -> (StoreState, &str);

    /// What the store holds is to be kept aside, and written anew from now on. Returns where.
    fn set_aside(&mut self) -> Option<String>;

    /// A store that was given up can be written again. `true`, once: everything is to be given to it, by [`Keeps::keep`] from this
    /// moment on, and then [`Keeps::kept_all`] is to be called.
    fn wants_everything(&mut self) -> bool;

    /// Whether the store can take more of that now; `None`: it was given up again, and wants no more.
    fn takes_more(&mut self) -> Option<bool>;

    /// It has been given everything.
    fn kept_all(&mut self);
}

/// Who says which clients are known.
pub trait Introduces {
    /// Where the next client comes from that wants to be known, if that is known.
    fn caller(&mut self, address: Option<IpAddr>);

    /// A client wants to be known. The answer is given with [`BrokerNode::judged`].
    fn login(&mut self, login: mqtt::Login);
}

/// Says that there is no store.
pub trait KeepsNothing {}

impl<T: KeepsNothing> Keeps for T {
    fn keeps(&self) -> bool {
        false
    }
    fn keep(&mut self, _records: &[u8], _known: u64) {}
    fn store(&self) -> (StoreState, &str) {
        (StoreState::None, "")
    }
    fn set_aside(&mut self) -> Option<String> {
        None
    }
    fn wants_everything(&mut self) -> bool {
        false
    }
    fn takes_more(&mut self) -> Option<bool> {
        None
    }
    fn kept_all(&mut self) {}
}

/// Says that no client need be known.
pub trait KnowsEverybody {}

impl<T: KnowsEverybody> Introduces for T {
    fn caller(&mut self, _address: Option<IpAddr>) {}
    fn login(&mut self, _login: mqtt::Login) {}
}

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

/// What the broker does not know of itself.
fn survey_of<O: Operators, G: Rules>(
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
        let (number, receivers) = self.gateway.as_mut()?.route(topic);
        Some(Route { number, receivers })
    }

    fn unroute(&mut self, route: u32) {
        if let Some(gateway) = &mut self.gateway {
            gateway.unroute(route);
        }
    }

    fn deliver(&mut self, now: Time, route: u32, message: &Routed<'_>) {
        if let Some(gateway) = &mut self.gateway {
            gateway.deliver(now, route, message, self.net);
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
