//! What goes wrong, and when; and how far a run has come.

use crate::checkers::{Left, Strike};
use crate::device::Device;
use crate::happening::Happening;
use crate::node::{Host, Program};
use crate::scenario::{Act, Fault, LastWrites, Target, When};
use crate::world::{START, World};
use contract::{Span, Time};
use engine::Node;
use simulation::network::{self, Hosts};
use wire::{Frame, PeerIndex};

/// How far a run has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Phase {
    /// Faults happen.
    #[default]
    Safety,
    /// Everything has been mended; the pair must become whole.
    Healing {
        since: Time,
    },
    /// It is whole; every live stream must flow. Should it not be whole after all, it goes on healing, as long as that has
    /// lasted already.
    Flowing {
        since: Time,
        healing: Time,
    },
    /// Nobody publishes any more; every buffer must drain.
    Draining {
        since: Time,
        /// The least that has waited, and when that was.
        least: Left,
        shrank: Time,
    },
    /// Every topic is published once more, one after the other, and must arrive.
    Proving {
        until: Time,
    },
    Done,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) phase: Phase,
    /// Faults that have happened.
    pub(crate) faults: usize,
    /// A fault's time has been put on the agenda.
    pub(crate) scheduled: bool,
    /// Since when everything has been whole.
    pub(crate) whole_since: Option<Time>,
    /// What a partition held back has arrived by then.
    pub(crate) quiet_at: Time,
    /// When the last fault happened.
    pub(crate) disturbed_at: Time,
    /// A handover is due; the next that publishes asks for it in the same breath, so that messages are under way.
    pub(crate) waits_for_publisher: bool,
    /// Who publishes just now.
    pub(crate) publisher: Option<usize>,
}

impl Progress {
    pub(crate) fn stops_publishing(&self) -> bool {
        matches!(self.phase, Phase::Draining { .. } | Phase::Proving { .. } | Phase::Done)
    }
}

/// The simulator looks around this often.
const LOOK: Span = Span::millis(10);
/// A process that was to die in its next writing dies anyway after this.
const PERISH_AFTER: Span = Span::millis(20);
/// Everything must be whole again so soon after the last fault is over.
pub(crate) const RECOVERY_MAX: Span = Span::secs(20);
/// For how long every live stream must flow in the end.
const FLOW: Span = Span::millis(1_500);
/// How soon every buffer must be empty when nobody publishes any more.
pub(crate) const DRAIN_MAX: Span = Span::secs(8);
/// Between two messages that prove that all is well.
const PROOF_STEP: Span = Span::millis(5);
/// How long a run goes on at least after that, for gaps to be judged.
const REST: Span = Span::millis(500);

impl World {
    /// Whether the pair is protected and everybody is connected to both brokers: what the fault model assumes before a
    /// fault.
    pub(crate) fn is_whole(&self) -> bool {
        let both = || self.hosts.iter().take(2);
        let primary = PeerIndex(self.primary() as u8);
        let follows = |client: &endpoint::Endpoint| {
            client.has_primary() && client.connected().any(|broker| broker == primary)
        };
        let primaries = both().filter_map(Host::broker).filter(|broker| broker.is_primary()).count();
        primaries == 1
            && both().all(|host| host.broker().is_some_and(broker::Broker::is_protected))
            && self.network.is_joined(0, 1)
            && (0..2).all(|host| self.agrees_on_clients(host))
            && self.hosts.iter().all(|host| {
                host.is_alive()
                    && !host.machine.is_paused()
                    && host.machine.slow() == 1
                    && host.dying.is_none()
            })
            && self.network.partitions.is_empty()
            && self.now >= self.progress.quiet_at
            && self.hosts.iter().all(|host| !host.port.sockets.is_closing())
            && self.hosts.iter().filter_map(Host::client).all(follows)
            && self.hosts.iter().all(Host::is_connected_to_both)
            && self.watch.ledger.everybody_is_answered()
            && self.devices_are_whole(usize::from(primary.0))
    }

    /// Whether a broker has all those as clients that take themselves for connected to it, on connections that stand.
    fn agrees_on_clients(&self, broker: usize) -> bool {
        let peer = PeerIndex(broker as u8);
        let believes = |host: &usize| {
            self.hosts[*host].client().is_some_and(|client| client.connected().any(|other| other == peer))
        };
        let believers: Vec<usize> = (2..self.hosts.len()).filter(believes).collect();
        let clients = self.hosts[broker].broker().map(|state| state.occupancy().clients);
        clients == Some(believers.len()) && believers.iter().all(|host| self.network.is_joined(*host, broker))
    }

    /// In words, what keeps everything from being whole.
    fn what_is_not_whole(&self) -> String {
        let mut words = String::new();
        for host in &self.hosts {
            let name = &host.machine.name;
            if let Some(broker) = host.broker() {
                let (reigns, protected) = (broker.is_primary(), broker.is_protected());
                words += &format!(
                    "; {name} {} and is {}protected",
                    ["stands by or seeks", "reigns"][usize::from(reigns)],
                    ["un", ""][usize::from(protected)]
                );
            } else if let Some(client) = host.client() {
                if client.connected().count() < 2 || !client.has_primary() {
                    words += &format!("; {name} is connected to {} brokers", client.connected().count());
                }
            } else if let Some(device) = host.device() {
                words += &format!("; {name} is served by {:?}", device.settled_at());
            } else {
                words += &format!("; {name} is dead");
            }
        }
        words
    }

    /// The simulator looks around: is everything whole, is it time for the next fault, or the next phase?
    pub(crate) fn look(&mut self) {
        let whole = self.is_whole();
        let (now, progress) = (self.now, &mut self.progress);
        match progress.whole_since {
            None if whole => {
                progress.whole_since = Some(now);
                self.watch.whole(now);
            }
            Some(_) if !whole => {
                self.progress.whole_since = None;
                self.watch.disturbed(now);
            }
            _ => {}
        }
        self.look_at_brokers();
        self.advance();
        if self.progress.phase != Phase::Done {
            self.agenda.push(now + LOOK, Happening::Look);
        }
    }

    fn look_at_brokers(&mut self) {
        for host in 0..2 {
            if let Program::Broker(node) = &self.hosts[host].program {
                self.watch.looks_at(self.now, host, node.broker(), &self.hosts[host].port);
            }
        }
    }

    /// The next fault or phase, if it is time.
    fn advance(&mut self) {
        let (now, phase) = (self.now, self.progress.phase);
        let whole_since = self.progress.whole_since;
        match phase {
            Phase::Safety => self.advance_to_fault(),
            Phase::Healing { since } => {
                if whole_since.is_some_and(|whole| now >= whole.max(since) + SETTLED) {
                    self.watch.begins_to_flow(now);
                    self.progress.phase = Phase::Flowing { since: now, healing: since };
                } else if now > since + RECOVERY_MAX {
                    let state = self.what_is_not_whole();
                    self.watch.never_recovered(now, &format!("after everything was mended{state}"));
                    self.progress.phase = Phase::Flowing { since: now, healing: Time::NEVER };
                }
            }
            Phase::Flowing { healing, .. } if whole_since.is_none() && healing != Time::NEVER => {
                self.progress.phase = Phase::Healing { since: healing };
            }
            Phase::Flowing { since, .. }
                if now >= since + FLOW.max(self.watch.ledger.longest_period() * 2) =>
            {
                self.watch.stops_publishing(now);
                self.progress.phase = Phase::Draining { since: now, least: self.left(), shrank: now };
            }
            Phase::Draining { since, mut least, mut shrank } => {
                let left = self.left();
                // What waits for somebody who is far away leaves slowly.
                if least.shrinks(&left) {
                    shrank = now;
                }
                self.progress.phase = Phase::Draining { since, least, shrank };
                let settled = self.watch.ledger.settle_time();
                if left == Left::default() && now >= since + REST.max(settled) {
                    self.ask_for_proof();
                } else if now > shrank + DRAIN_MAX.max(settled * 2) {
                    let most = self.hosts.iter().max_by_key(|host| host.port.sockets.unsent_bytes());
                    let name =
                        most.map_or("", |host| &host.machine.name).to_owned() + &self.waiting_for_devices();
                    self.watch.never_drained(now, &left, &name);
                    self.progress.phase = Phase::Done;
                }
            }
            Phase::Proving { until } if now >= until && self.left() == Left::default() => {
                self.progress.phase = Phase::Done;
            }
            Phase::Proving { until } if now >= until + DRAIN_MAX => {
                let left = self.left();
                let devices = self.waiting_for_devices();
                self.watch.never_drained(now, &left, &devices);
                self.progress.phase = Phase::Done;
            }
            Phase::Flowing { .. } | Phase::Proving { .. } | Phase::Done => {}
        }
    }

    /// The next fault, if it is time; after the last, everything is mended.
    fn advance_to_fault(&mut self) {
        let now = self.now;
        let Some(Fault { when, .. }) = self.scenario.faults.get(self.progress.faults) else {
            if now >= (START + self.scenario.span).max(self.progress.disturbed_at + AFTERMATH) {
                self.heal_everything();
                self.progress.phase = Phase::Healing { since: now };
            }
            return;
        };
        let at = match (*when, self.progress.whole_since) {
            _ if self.progress.scheduled => return,
            (When::At(at), _) => START + at,
            (When::After(span), _) => self.progress.disturbed_at.max(START) + span,
            (When::Settled(span), Some(since)) => since + span,
            (When::Settled(_), None) => {
                if now > self.progress.disturbed_at.max(START) + RECOVERY_MAX {
                    let state = self.what_is_not_whole();
                    self.watch.never_recovered(now, &format!("between two faults{state}"));
                    // Where that is not promised, the remaining faults are left out.
                    self.progress.faults = self.scenario.faults.len();
                }
                return;
            }
        };
        self.progress.scheduled = true;
        let number = self.progress.faults as u32;
        self.agenda.push(at.max(now), Happening::Fault { number });
    }

    /// What still waits in brokers and in output buffers.
    fn left(&mut self) -> Left {
        let waiting = |host: &mut Host| match &mut host.program {
            Program::Broker(node) if node.broker().is_primary() => {
                node.gateway().map_or(0, |gateway| gateway.stats().waiting)
            }
            _ => 0,
        };
        let waiting = self.hosts.iter_mut().map(waiting).sum();
        let occupancies = || self.hosts.iter().filter_map(Host::broker).map(broker::Broker::occupancy);
        Left {
            jobs: occupancies().map(|occupancy| occupancy.jobs).sum(),
            bytes: self.hosts.iter().map(|host| host.port.sockets.unsent_bytes()).sum(),
            waiting,
            unanswered: self.hosts.iter().filter_map(Host::device).map(Device::open_messages).sum(),
            deferred: occupancies().map(|occupancy| occupancy.owed).sum(),
        }
    }

    /// What waits in sessions of MQTT, by the primary's own account.
    fn waiting_for_devices(&mut self) -> String {
        let account = |host: &mut Host| match &mut host.program {
            Program::Broker(node) if node.broker().is_primary() => Some(node.gateway()?.explain()),
            _ => None,
        };
        self.hosts.iter_mut().find_map(account).map_or_else(String::new, |account| format!("; {account}"))
    }

    /// Everything is quiet: every publisher sends each of its topics once more.
    fn ask_for_proof(&mut self) {
        let now = self.now;
        self.watch.asks_for_proof(now);
        self.devices_ask_for_retained();
        let mut at = now;
        for host in 2..self.hosts.len() {
            for topic in 0..self.publications(host) {
                let life = self.hosts[host].machine.life();
                self.agenda.push(at, Happening::Prove { node: host, life, topic });
                at = at + PROOF_STEP;
            }
        }
        let until = at + REST.max(self.watch.ledger.settle_time());
        self.progress.phase = Phase::Proving { until };
    }

    /// The next fault of the scenario happens.
    pub(crate) fn next_fault(&mut self) {
        let Some(fault) = self.scenario.faults.get(self.progress.faults).cloned() else { return };
        let settled = matches!(fault.when, When::Settled(_));
        let waited = std::mem::take(&mut self.progress.waits_for_publisher);
        self.progress.scheduled = false;
        if settled && !self.is_whole() {
            // Something else has happened meanwhile; it waits again.
            return;
        }
        if settled && fault.act == Act::Handover && !waited && self.random.bool() {
            (self.progress.scheduled, self.progress.waits_for_publisher) = (true, true);
            let number = self.progress.faults as u32;
            self.agenda.push(self.now + PUBLISHER_WITHIN, Happening::Fault { number });
            return;
        }
        self.progress.faults += 1;
        self.progress.disturbed_at = self.now;
        let whole = self.progress.whole_since.take().is_some() && self.is_whole();
        let strike = self.strike(&fault.act);
        let primary = self.primary();
        let backup = &self.hosts[1 - primary];
        let local = backup.machine.local(self.now);
        let late = backup.broker().is_some_and(|broker| broker.notices_late(local));
        self.watch.fault_begins(self.now, &fault.act, whole, primary, &strike);
        if late {
            self.watch.nothing_is_promised_of_detection(self.now);
        }
        self.carry_out(&fault.act);
        // Faults at fixed times may follow at once.
        let at = match self.scenario.faults.get(self.progress.faults).map(|next| next.when) {
            Some(When::At(at)) => START + at,
            Some(When::After(span)) => self.now + span,
            _ => return,
        };
        self.progress.scheduled = true;
        let number = self.progress.faults as u32;
        self.agenda.push(at.max(self.now), Happening::Fault { number });
    }

    /// Whom an act takes away, and which clients it cuts off from the primary.
    fn strike(&self, act: &Act) -> Strike {
        let mut strike = Strike::default();
        match act {
            Act::Crash { target, .. } | Act::HostCrash { target, .. } | Act::Pause { target, .. } => {
                strike.victim = self.find(*target);
            }
            Act::Break { from, to, .. } => {
                let ends = [self.find(*from), self.find(*to)];
                if ends.contains(&Some(self.primary())) {
                    strike.cut_off.extend(ends.into_iter().flatten().filter(|host| *host >= 2));
                }
            }
            Act::Partition { from, to, .. } => {
                let hosts: Vec<usize> = from.iter().chain(to).filter_map(|it| self.find(*it)).collect();
                if hosts.contains(&self.primary()) {
                    strike.cut_off.extend(hosts.into_iter().filter(|host| *host >= 2));
                }
            }
            _ => {}
        }
        strike
    }

    /// The broker that reigns, or did last.
    fn primary(&self) -> usize {
        let reigns = |host: &usize| self.hosts[*host].broker().is_some_and(broker::Broker::is_primary);
        let reign = |host: &usize| self.hosts[*host].broker().map(broker::Broker::reign);
        (0..2).filter(reigns).max_by_key(reign).unwrap_or(0)
    }

    /// The host that is meant, if there is one.
    fn find(&self, target: Target) -> Option<usize> {
        let publishers = self.scenario.publishers.len();
        match target {
            Target::Primary => Some(self.primary()),
            Target::Backup => Some(1 - self.primary()),
            Target::Broker(index) => (index < 2).then_some(index),
            Target::Publisher(index) => (index < publishers).then_some(2 + index),
            Target::Subscriber(index) => {
                (index < self.scenario.subscribers.len()).then_some(2 + publishers + index)
            }
            Target::Device(index) => {
                let before = 2 + publishers + self.scenario.subscribers.len();
                (index < self.scenario.devices.len()).then_some(before + index)
            }
        }
    }

    /// An act that means somebody who is not there does nothing.
    fn carry_out(&mut self, act: &Act) {
        match act {
            Act::Crash { target, .. }
            | Act::HostCrash { target, .. }
            | Act::Pause { target, .. }
            | Act::ClockStep { target, .. }
            | Act::Slow { target, .. } => {
                if let Some(host) = self.find(*target) {
                    self.carry_out_at(host, act);
                }
            }
            Act::Partition { from, to, one_way, span } => self.part(from, to, *one_way, *span),
            Act::Break { from, to, delivers, half_open } => {
                let (Some(one), Some(other)) = (self.find(*from), self.find(*to)) else { return };
                let name = self.hosts[other].machine.name.clone();
                self.tell(one, || format!("loses its connections to {name}"));
                network::break_between(self, one, other, *delivers, *half_open);
            }
            Act::Handover => self.ask_for_handover(),
            Act::Priorities { target, priority } => {
                if let Some(host) = self.find(*target).filter(|host| *host < 2) {
                    self.prioritise(host, *priority);
                }
            }
            Act::Graphs { target, later } => {
                let there = *later < self.scenario.later.len();
                if let Some(host) = self.find(*target).filter(|host| *host < 2 && there) {
                    self.configure(host, later + 1);
                }
            }
        }
    }

    /// The same with other priorities.
    fn prioritise(&mut self, host: usize, priority: u8) {
        self.tell(host, || {
            format!("is told to read its configuration again: topics have priority {priority}")
        });
        self.priorities[host] = Some(priority);
        self.rereads[host] = self.hosts[host].is_alive();
        self.rouse(host);
    }

    /// A broker's configuration is another one from now on.
    fn configure(&mut self, host: usize, plan: usize) {
        if std::mem::replace(&mut self.configured[host], plan) == plan {
            return;
        }
        self.tell(host, || format!("is told to read its configuration again: graphs {plan}"));
        self.rereads[host] = self.hosts[host].is_alive();
        self.newest_plan = plan;
        self.rouse(host);
    }

    fn carry_out_at(&mut self, host: usize, act: &Act) {
        match act {
            Act::Crash { writes, restart, .. } if self.hosts[host].is_alive() => {
                self.hosts[host].restart = *restart;
                match writes {
                    LastWrites::All => self.kill(host),
                    LastWrites::Some(whole, share) => {
                        self.tell(host, || "will die in its next writing".to_owned());
                        let state = &mut self.hosts[host];
                        state.dying = Some((*whole, *share));
                        let life = state.machine.life();
                        self.agenda.push(self.now + PERISH_AFTER, Happening::Perish { node: host, life });
                    }
                }
            }
            Act::HostCrash { restart, .. } if self.hosts[host].machine.is_up() => {
                self.hosts[host].restart = *restart;
                self.crash_host(host);
            }
            Act::Pause { span, .. } => self.pause(host, *span),
            Act::ClockStep { by, .. } => {
                self.tell(host, || format!("has its clock set by {by}"));
                self.hosts[host].machine.clock.step(self.now, *by);
                self.watch.sets_clock(self.now, host);
                let local = self.hosts[host].machine.local(self.now);
                self.hosts[host].program.handle_clock_step(local, *by);
                // The driver's alarm rings when the clock is set.
                self.rouse(host);
            }
            Act::Slow { times, span, .. } => {
                self.tell(host, || format!("is {times} times as slow for {span}"));
                self.hosts[host].machine.slow_down(*times);
                let life = self.hosts[host].machine.life();
                self.agenda.push(self.now + *span, Happening::Recover { node: host, life });
            }
            _ => {}
        }
    }

    fn reigns(&self, host: usize) -> bool {
        self.hosts[host].broker().is_some_and(broker::Broker::is_primary)
    }

    /// `reigned`: as a broker. `greetings`: the connection that it had as a device.
    fn dies(&mut self, host: usize, reigned: bool, greetings: Option<u64>) {
        if let Some(after) = self.hosts[host].restart.take() {
            let life = self.hosts[host].machine.life();
            self.agenda.push(self.now + after, Happening::Restart { node: host, life });
        }
        self.watch.dies(self.now, host, reigned, greetings);
    }

    /// A process dies. What it had given to its kernel still leaves.
    pub(crate) fn kill(&mut self, host: usize) {
        if !self.hosts[host].is_alive() {
            return;
        }
        self.tell(host, || "dies".to_owned());
        let (reigned, greetings) = (self.reigns(host), self.greetings_of(host));
        self.replace_program(host, Program::Dead);
        network::abandon_all(self, host);
        self.dies(host, reigned, greetings);
    }

    fn crash_host(&mut self, host: usize) {
        self.tell(host, || "goes down with its host".to_owned());
        self.hosts[host].machine.go_down();
        self.watch.devices.host_goes_down(host);
        let reigned = self.reigns(host);
        network::vanish(self, host);
        self.replace_program(host, Program::Dead);
        self.dies(host, reigned, None);
    }

    fn pause(&mut self, host: usize, span: Span) {
        if !self.hosts[host].is_alive() {
            return;
        }
        self.tell(host, || format!("stands still for {span}"));
        self.hosts[host].machine.pause();
        if span >= PATIENCE {
            self.network.doubt_all(host);
        }
        let life = self.hosts[host].machine.life();
        self.agenda.push(self.now + span, Happening::Resume { node: host, life });
    }

    pub(crate) fn resume(&mut self, host: usize) {
        let Some(end_due) = self.hosts[host].machine.resume() else { return };
        self.tell(host, || "goes on".to_owned());
        if end_due {
            self.end_turn(host);
        }
        self.rouse(host);
    }

    fn part(&mut self, from: &[Target], to: &[Target], one_way: bool, span: Span) {
        let mut ways = Vec::new();
        for one in from {
            for other in to {
                let (Some(one), Some(other)) = (self.find(*one), self.find(*other)) else { continue };
                ways.push((one, other));
                if !one_way {
                    ways.push((other, one));
                }
            }
        }
        for (one, other) in &ways {
            // What waited is sent again up to as much later as it has waited, see `release_held`.
            if (*one >= 2 || *other >= 2) && span * 2 >= PATIENCE {
                self.network.doubt_between(*one, *other);
            }
            let name = self.hosts[*other].machine.name.clone();
            self.tell(*one, || format!("cannot reach {name} for {span}"));
        }
        let partition = self.network.partitions.cut(ways);
        self.agenda.push(self.now + span, Happening::Heal { partition });
    }

    fn ask_for_handover(&mut self) {
        let primary = self.primary();
        let peer = PeerIndex(primary as u8);
        let asks =
            |host: &Host| host.client().is_some_and(|client| client.connected().any(|broker| broker == peer));
        let first = self.progress.publisher.unwrap_or(2);
        let Some(client) = (first..self.hosts.len()).find(|host| asks(&self.hosts[*host])) else { return };
        self.tell(client, || "asks for a handover".to_owned());
        if let Host { program: Program::Client(node), port, .. } = &mut self.hosts[client] {
            node.with(port, |endpoint, out| endpoint.request(peer, &Frame::Handover, out));
        }
        self.end_turn(client);
    }

    /// The faults are over: what was cut is joined, what was dead starts again.
    fn heal_everything(&mut self) {
        for partition in self.network.partitions.numbers() {
            network::heal(self, partition);
        }
        // Whoever changes one broker changes the other as well.
        (0..2).for_each(|host| self.configure(host, self.newest_plan));
        for host in 0..self.hosts.len() {
            self.hosts[host].machine.slow_down(1);
            self.resume(host);
            self.start(host);
        }
    }
}

/// A handover that waits for somebody to publish waits no longer than this.
const PUBLISHER_WITHIN: Span = Span::secs(1);
/// Clients give up a broker that does not answer for one second; its answers may have been late before.
const PATIENCE: Span = Span::millis(800);
/// Everything must have been whole for so long before it is expected to flow.
const SETTLED: Span = Span::millis(200);
/// The last fault has so long to do its work before everything is mended.
const AFTERMATH: Span = Span::millis(1_000);
