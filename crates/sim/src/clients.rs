//! What clients do: publishers publish, subscribers subscribe, and both take note of what they hear.

use crate::happening::Happening;
use crate::node::{Heard, Host, Program};
use crate::scenario::{Pace, PublisherSpec, SubscriberSpec};
use crate::scene;
use crate::world::World;
use contract::{Needs, Span, Time, TopicFilter};
use simulation::Clock;

/// What a client is there for.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    Broker,
    Publisher { index: usize, publications: Vec<Publication>, groups: Vec<Group> },
    Subscriber { index: usize, filters: Vec<TopicFilter> },
    Device { index: usize },
}

/// A topic of a publisher, in the publisher's present life.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Publication {
    /// The client's number for it.
    pub(crate) number: u32,
    /// The simulator's.
    pub(crate) stream: u32,
}

/// Topics that are published together.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    topics: Vec<usize>,
    period: Span,
    pace: Pace,
}

impl World {
    pub(crate) fn add_clients(&mut self) {
        let seed = self.seed;
        self.roles = vec![Role::Broker, Role::Broker];
        for (index, spec) in self.scenario.publishers.clone().iter().enumerate() {
            let clock = Clock::new(crate::world::START, spec.clock.offset, spec.clock.drift_ppb);
            self.hosts.push(Host::new(&spec.name, clock, spec.latency, seed));
            let groups = groups(spec);
            self.roles.push(Role::Publisher { index, publications: Vec::new(), groups });
        }
        for (index, spec) in self.scenario.subscribers.clone().iter().enumerate() {
            let clock = Clock::new(crate::world::START, spec.clock.offset, spec.clock.drift_ppb);
            self.hosts.push(Host::new(&spec.name, clock, spec.latency, seed));
            let filters = spec.filters.iter().filter_map(|filter| filter.parse().ok()).collect();
            self.roles.push(Role::Subscriber { index, filters });
        }
        for (index, spec) in self.scenario.devices.clone().iter().enumerate() {
            let clock = Clock::new(crate::world::START, spec.clock.offset, spec.clock.drift_ppb);
            self.hosts.push(Host::new(&spec.name, clock, spec.latency, seed));
            self.roles.push(Role::Device { index });
        }
    }

    fn publisher(&self, host: usize) -> Option<&PublisherSpec> {
        match self.roles[host] {
            Role::Publisher { index, .. } => self.scenario.publishers.get(index),
            _ => None,
        }
    }

    fn subscriber(&self, host: usize) -> Option<&SubscriberSpec> {
        match self.roles[host] {
            Role::Subscriber { index, .. } => self.scenario.subscribers.get(index),
            _ => None,
        }
    }

    /// When a host's process starts.
    pub(crate) fn start_of(&self, host: usize) -> Span {
        let publisher = self.publisher(host).map(|spec| spec.starts);
        let subscriber = self.subscriber(host).map(|spec| spec.starts);
        publisher.or(subscriber).or(self.device_spec(host).map(|spec| spec.starts)).unwrap_or(Span::ZERO)
    }

    pub(crate) fn client_settings(&self, host: usize, now: Time) -> endpoint::Settings {
        let mut settings = endpoint::Settings::new(&self.hosts[host].machine.name, now.0, 2);
        settings.failover = self.scenario.delays.failover;
        settings
    }

    /// A client's process has started: it does what it is there for.
    pub(crate) fn take_up_role(&mut self, host: usize) {
        match self.roles[host].clone() {
            Role::Broker => {}
            Role::Publisher { .. } => self.advertise_all(host),
            Role::Device { .. } => self.begin_to_publish(host),
            Role::Subscriber { index, filters } => {
                let needs = if self.scenario.subscribers[index].best_effort {
                    Needs::BEST_EFFORT
                } else {
                    Needs::NONE
                };
                for filter in &filters {
                    let Host { program: Program::Client(node), port, .. } = &mut self.hosts[host] else {
                        return;
                    };
                    node.with(port, |endpoint, out| endpoint.subscribe_with(filter, needs, out));
                }
            }
        }
    }

    fn advertise_all(&mut self, host: usize) {
        let Some(spec) = self.publisher(host).cloned() else { return };
        let mut publications = Vec::new();
        for topic in &spec.topics {
            let Host { program: Program::Client(node), port, .. } = &mut self.hosts[host] else { return };
            let asked = topic.stated.then_some(topic.contract);
            let number = node.with(port, |endpoint, out| endpoint.advertise(&topic.name, asked, out));
            let Ok(number) = number else { continue };
            let stream = self.watch.stream_begins(host, number, topic);
            publications.push(Publication { number, stream });
        }
        let Role::Publisher { publications: known, groups, .. } = &mut self.roles[host] else { return };
        *known = publications;
        let (life, groups) = (self.hosts[host].machine.life(), groups.clone());
        for (index, group) in groups.iter().enumerate() {
            let phase = Span(self.hosts[host].machine.random.i64(0..group.period.0.clamp(1, FIRST_WITHIN.0)));
            let what = Happening::Publish { node: host, life, group: index as u32 };
            self.agenda.push(self.now + phase, what);
        }
    }

    /// The topics of one period are due.
    pub(crate) fn publish(&mut self, host: usize, group: u32) {
        if matches!(self.roles[host], Role::Device { .. }) {
            return self.device_publishes(host, group as usize);
        }
        let Role::Publisher { groups, .. } = &self.roles[host] else { return };
        let Group { period, pace, .. } = groups[group as usize];
        if self.progress.stops_publishing() {
            return;
        }
        let (step, times) = match pace {
            Pace::Periodic => (period, 1),
            Pace::Sporadic(percent) => {
                let mean = (period.0 / 100 * i64::from(percent)).max(1);
                (period + Span(self.hosts[host].machine.random.i64(0..=2 * mean)), 1)
            }
            Pace::Bursts(most) => (
                period,
                if self.hosts[host].machine.random.u32(0..4) == 0 {
                    self.hosts[host].machine.random.u32(1..=most)
                } else {
                    1
                },
            ),
        };
        let life = self.hosts[host].machine.life();
        self.agenda.push(self.now + step, Happening::Publish { node: host, life, group });
        if !self.hosts[host].machine.is_paused() {
            (0..times).for_each(|_| self.publish_group(host, group));
            if self.progress.waits_for_publisher {
                self.progress.publisher = Some(host);
                self.next_fault();
                self.progress.publisher = None;
            }
            self.digest(host, Span::ZERO);
            self.end_turn(host);
        }
    }

    /// How many topics a host publishes.
    pub(crate) fn publications(&self, host: usize) -> u32 {
        match self.roles[host] {
            Role::Publisher { ref publications, .. } => publications.len() as u32,
            Role::Device { index } => self.scenario.devices[index].topics.len() as u32,
            _ => 0,
        }
    }

    /// One topic is published out of turn, to prove that it arrives.
    pub(crate) fn prove(&mut self, host: usize, topic: u32) {
        if matches!(self.roles[host], Role::Device { .. }) {
            self.device_publishes_once(host, topic as usize);
        } else {
            self.publish_topics(host, &[topic as usize]);
        }
        self.digest(host, Span::ZERO);
        self.end_turn(host);
    }

    fn publish_group(&mut self, host: usize, group: u32) {
        let Role::Publisher { groups, .. } = &mut self.roles[host] else { return };
        let topics = std::mem::take(&mut groups[group as usize].topics);
        self.publish_topics(host, &topics);
        if let Role::Publisher { groups, .. } = &mut self.roles[host] {
            groups[group as usize].topics = topics;
        }
    }

    fn publish_topics(&mut self, host: usize, topics: &[usize]) {
        let World { hosts, roles, watch, scenario, now, payload, .. } = self;
        let Role::Publisher { index, publications, .. } = &roles[host] else { return };
        let Host { program: Program::Client(node), port, machine, .. } = &mut hosts[host] else { return };
        let local = machine.local(*now);
        for topic in topics {
            let Some(Publication { number, stream }) = publications.get(*topic).copied() else { continue };
            let seq = node.endpoint().published(number);
            let length = scenario.publishers[*index].topics[*topic].payload_bytes;
            scene::write_payload(payload, stream, seq, length);
            let result = node.with(port, |endpoint, out| endpoint.publish(local, number, payload, out));
            if let Ok(seq) = result {
                watch.accepted(*now, stream, seq, local);
            }
        }
    }

    /// What an application was told.
    pub(crate) fn application_heard(&mut self, host: usize, heard: &Heard) {
        match *heard {
            Heard::Judged { publication, admitted } => {
                let Role::Publisher { publications, .. } = &self.roles[host] else { return };
                let stream =
                    publications.iter().find(|known| known.number == publication).map(|known| known.stream);
                if let Some(stream) = stream {
                    self.watch.judged(self.now, stream, admitted);
                }
            }
            Heard::Subscribed { subscription, admitted, instead } => {
                self.watch.subscribed(self.now, host, subscription, admitted, instead);
            }
            Heard::Reigning { reign, relayed } => {
                let next: Vec<(u32, u64)> = match (&self.roles[host], &self.hosts[host].program) {
                    (Role::Publisher { publications, .. }, Program::Client(node)) => publications
                        .iter()
                        .map(|known| (known.stream, node.endpoint().published(known.number)))
                        .collect(),
                    _ => Vec::new(),
                };
                self.watch.follows(self.now, host, reign, relayed, &next);
            }
            Heard::Stranger(broker) => self.watch.calls_stranger(self.now, host, broker),
            Heard::Dismissed(_) | Heard::HandedOver { .. } => {}
        }
    }
}

/// Topics by period and pace.
fn groups(spec: &PublisherSpec) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (index, topic) in spec.topics.iter().enumerate() {
        let (period, pace) = (topic.contract.period, topic.pace);
        let period = if period.is_forever() { RARE } else { period };
        match groups.iter_mut().find(|group| group.period == period && group.pace == pace) {
            Some(group) => group.topics.push(index),
            None => groups.push(Group { topics: vec![index], period, pace }),
        }
    }
    groups
}

/// A topic without a period is published this often.
const RARE: Span = Span::millis(700);
/// Every topic is published for the first time within this.
const FIRST_WITHIN: Span = Span::secs(1);
