//! What devices do, in the world: they publish, and what they hear is told to the checkers.

use crate::clients::Role;
use crate::device::Word;
use crate::happening::Happening;
use crate::node::{Host, Program};
use crate::scenario::DeviceSpec;
use crate::world::World;
use contract::Span;

impl World {
    pub(crate) fn device_spec(&self, host: usize) -> Option<&DeviceSpec> {
        match self.roles[host] {
            Role::Device { index } => self.scenario.devices.get(index),
            _ => None,
        }
    }

    pub(crate) fn begin_to_publish(&mut self, host: usize) {
        let Some(spec) = self.device_spec(host) else { return };
        let periods: Vec<Span> = spec.topics.iter().map(|topic| topic.period).collect();
        let life = self.hosts[host].machine.life();
        for (topic, period) in (0..).zip(periods) {
            let phase = Span(self.hosts[host].machine.random.i64(0..period.0.max(1)));
            self.agenda.push(self.now + phase, Happening::Publish { node: host, life, group: topic });
        }
    }

    /// A topic of a device is due.
    pub(crate) fn device_publishes(&mut self, host: usize, topic: usize) {
        let Some(period) = self.device_spec(host).map(|spec| spec.topics[topic].period) else { return };
        if self.progress.stops_publishing() {
            return;
        }
        let life = self.hosts[host].machine.life();
        let what = Happening::Publish { node: host, life, group: topic as u32 };
        self.agenda.push(self.now + period, what);
        if !self.hosts[host].machine.is_paused() {
            self.device_publishes_once(host, topic);
            self.digest(host, Span::ZERO);
            self.end_turn(host);
        }
    }

    pub(crate) fn device_publishes_once(&mut self, host: usize, topic: usize) {
        let Role::Device { index } = self.roles[host] else { return };
        let stream = self.watch.devices.streams_of(index).0[topic];
        let seq = self.watch.devices.next(stream);
        let local = self.hosts[host].machine.local(self.now);
        let Host { program: Program::Device(device), port, .. } = &mut self.hosts[host] else { return };
        if device.publish(local, topic, seq, port) {
            self.watch.devices.accepted(self.now, stream);
        }
    }

    /// Devices ask once more for what they have subscribed.
    pub(crate) fn devices_ask_for_retained(&mut self) {
        self.watch.devices.asks_for_retained(self.now);
        for host in 2..self.hosts.len() {
            let local = self.hosts[host].machine.local(self.now);
            let Host { program: Program::Device(device), port, .. } = &mut self.hosts[host] else { continue };
            device.subscribe_all(local, port);
            self.end_turn(host);
        }
    }

    /// What an application on a device was told.
    pub(crate) fn device_heard(&mut self, host: usize, greetings: u64, words: &[Word]) {
        let Role::Device { index } = self.roles[host] else { return };
        self.watch.devices.greets(self.now, index, greetings);
        for word in words {
            if self.story.is_some() {
                let matters = !matches!(word, Word::Message(_) | Word::Answered { .. });
                self.tell_line(host, matters, || format!("{word:?}"));
            }
            self.watch.device_heard(self.now, index, word);
        }
    }

    /// Whether every device is connected to the primary, and has what it asked for.
    pub(crate) fn devices_are_whole(&self, primary: usize) -> bool {
        let settled = |(host, state): (usize, &Host)| {
            state.device().is_none_or(|device| {
                device.settled_at() == Some(primary) && self.network.is_joined(host, primary)
            })
        };
        self.hosts.iter().enumerate().all(settled)
    }

    /// The connection that a device has at the moment, by what its will says. None where the other end is gone as well: then
    /// whoever takes over cannot tell a client that has died from one that is on its way back.
    pub(crate) fn greetings_of(&self, host: usize) -> Option<u64> {
        let device = self.hosts[host].device()?;
        // The same where the other end has closed it, since it does not reign any more.
        let reigns = |broker: usize| self.hosts[broker].broker().is_some_and(broker::Broker::is_primary);
        let serves = |broker: &usize| reigns(*broker) && self.network.is_joined(host, *broker);
        device.settled_at().filter(serves).map(|_| device.greetings())
    }
}
