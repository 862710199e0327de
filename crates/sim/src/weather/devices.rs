//! Clients that speak MQTT, and what happens to them.

use super::Maker;
use crate::scenario::{Act, DeviceSpec, DeviceTopic, Fault, LastWrites, Scenario, Target, When};
use contract::Span;
use engine::driving::DRAINED_BYTES;
use mqtt::packet::Version;
use simulation::Latency;

impl Maker {
    /// Some devices among everybody else, with faults of their own among the others.
    pub(super) fn add_devices(&mut self, scenario: &mut Scenario) {
        // Far enough for several messages to be on their way at once.
        let most = self.pick(&[800, 8_000]);
        let near = self.latency(most);
        let count = self.random.usize(1..=4);
        for index in 0..count {
            let device = self.device(index, near, scenario);
            scenario.devices.push(device);
        }
        scenario.mqtt = self.mqtt_limits(near);
        for _ in 0..self.random.usize(0..=3) {
            let fault = self.device_fault(scenario);
            let at = self.random.usize(0..=scenario.faults.len());
            scenario.faults.insert(at, fault);
        }
        if !self.one_in(4) {
            let Fault { act, .. } = self.device_fault(scenario);
            // Brokers fail one at a time.
            let when = When::Settled(self.micros(0, 20_000));
            scenario.faults.push(Fault { when, act });
            scenario.faults.push(self.death_soon());
        }
    }

    fn device(&mut self, index: usize, latency: Latency, scenario: &Scenario) -> DeviceSpec {
        let topics = (0..self.random.usize(0..=3))
            .map(|topic| DeviceTopic {
                name: format!("device/{index}/{topic}"),
                qos: self.pick(&[0, 1, 1, 2, 2]),
                retain: self.one_in(3),
                payload_bytes: if self.one_in(12) {
                    self.random.usize(1_000..20_000)
                } else {
                    self.random.usize(12..120)
                },
                period: if self.one_in(4) { self.millis(500, 5_000) } else { self.millis(5, 150) },
            })
            .collect();
        let mut filters = Vec::new();
        for _ in 0..self.random.usize(0..=2) {
            let filter = match self.random.u32(0..6) {
                0 => "#".to_owned(),
                1 => "site/+/topic/+".to_owned(),
                2 => format!("device/{}/#", self.random.usize(0..4)),
                _ => "device/#".to_owned(),
            };
            filters.push((filter, self.pick(&[0, 1, 1, 2, 2])));
        }
        filters.dedup_by(|one, other| one.0 == other.0);
        let bound = scenario.delays.publisher_to_broker;
        // Where a message is refused for want of room, a client of 3.1.1 loses its connection: there is no other way to say no.
        let (limits, usual) = (&scenario.limits, broker::Limits::default());
        let has_room = limits.jobs >= usual.jobs
            && limits.store_bytes >= usual.store_bytes
            && limits.streams >= usual.streams;
        DeviceSpec {
            name: format!("device-{index}"),
            version: if has_room { self.pick(&[Version::V311, Version::V5]) } else { Version::V5 },
            lasts: !self.one_in(4),
            topics,
            filters,
            will: self.one_in(2).then(|| format!("device/{index}/will")),
            latency,
            clock: self.clock(bound),
            starts: if self.one_in(4) { self.millis(0, 1_500) } else { Span::ZERO },
        }
    }

    /// The primary dies while devices are away, or on their way back.
    fn death_soon(&mut self) -> Fault {
        let most = self.pick(&[5_000, 100_000]);
        let when = When::After(self.micros(0, most));
        let writes = if self.random.bool() {
            LastWrites::All
        } else {
            LastWrites::Some(self.random.u32(0..6), self.random.u32(0..=100))
        };
        let restart = Some(self.duration());
        Fault { when, act: Act::Crash { target: Target::Primary, writes, restart } }
    }

    fn mqtt_limits(&mut self, away: Latency) -> mqtt::Limits {
        let mut limits = mqtt::Limits {
            sys_interval: if self.one_in(3) { Span::millis(500) } else { Span::ZERO },
            grace: Span::millis(300),
            // Whoever is away for seconds is given everything that came meanwhile.
            queue_messages: 100_000,
            ..Default::default()
        };
        // Far away, a narrow window would be narrower than what is published.
        if self.one_in(3) && away.most < Span::millis(1) {
            limits.inflight = self.random.u16(4..20);
            limits.receive_maximum = self.random.u16(10..20);
            limits.topic_aliases = self.random.u16(0..3);
        }
        if self.is_beyond() {
            if self.one_in(3) {
                limits.queue_messages = self.random.usize(1..50);
            }
            if self.one_in(4) {
                // No less can be configured: a connection is said to have room again once less than that waits on it.
                limits.backlog_bytes = DRAINED_BYTES + self.random.usize(100..5_000);
            }
            if self.one_in(4) {
                limits.queue_bytes = self.random.usize(1_000..100_000);
            }
            if self.one_in(6) {
                limits.retained_messages = 1;
            }
        }
        limits
    }

    fn device_fault(&mut self, scenario: &Scenario) -> Fault {
        let index = self.random.usize(0..scenario.devices.len());
        let spec = &scenario.devices[index];
        let device = Target::Device(index);
        // Whoever starts anew with a session of 3.1.1 that is still there has forgotten which numbers are in use.
        let may_die = spec.version == Version::V5 || !spec.lasts;
        let span = self.duration();
        let act = match self.random.u32(0..if self.is_beyond() { 8 } else { 6 }) {
            0 | 1 if may_die => Act::Crash { target: device, writes: LastWrites::All, restart: Some(span) },
            2 => Act::Pause { target: device, span },
            6 => {
                let (to, one_way) = (vec![Target::Primary, Target::Backup], self.random.bool());
                Act::Partition { from: vec![device], to, one_way, span }
            }
            7 => Act::ClockStep { target: device, by: self.clock_step() },
            _ => {
                let (delivers, half_open) = (self.random.bool(), self.random.bool());
                let (from, to) = self.pick(&[(device, Target::Primary), (Target::Primary, device)]);
                Act::Break { from, to, delivers, half_open }
            }
        };
        let most = self.pick(&[1_000, 20_000, 300_000]);
        let settled = self.random.bool();
        let span = self.micros(0, most);
        Fault { when: if settled { When::Settled(span) } else { When::After(span) }, act }
    }
}
