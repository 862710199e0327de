//! A broker's heartbeats: the shipped core, on a clock of its own that nobody sets, and datagrams that may be lost. Its thread is in time
//! whatever the process has to do, and stands still with it.

use crate::happening::Happening;
use crate::port::Port;
use crate::world::World;
use broker::Liveness;
use contract::{Span, Time};
use simulation::network::Hosts;
use wire::{Companion, HEARTBEAT_BYTES};

type Beat = [u8; HEARTBEAT_BYTES];

/// One broker's heartbeats.
#[derive(Clone)]
pub(crate) struct Heart {
    liveness: Liveness,
    /// What has come while the process stood still.
    waiting: Vec<Beat>,
    /// When the turn began that is under way.
    pub(crate) turn_since: Option<Time>,
}

/// A heartbeat on its way.
#[derive(Clone, Copy)]
pub(crate) struct Datagram {
    to: usize,
    beat: Beat,
}

/// What the kernel keeps of what comes while nobody reads.
const WAITING_MAX: usize = 256;

impl Heart {
    pub(crate) fn new(liveness: Liveness) -> Heart {
        Heart { liveness, waiting: Vec::new(), turn_since: None }
    }

    fn take(&mut self, now: Time, words: Vec<Option<Companion>>) {
        words.into_iter().for_each(|companion| self.liveness.listen_for(now, companion));
        for beat in std::mem::take(&mut self.waiting) {
            self.liveness.handle_datagram(now, &beat);
        }
    }
}

impl World {
    /// A broker's heartbeat is due.
    pub(crate) fn beat(&mut self, host: usize) {
        let (now, life, paused) =
            (self.now, self.hosts[host].machine.life(), self.hosts[host].machine.is_paused());
        let Some(mut heart) = self.hosts[host].heart.take() else { return };
        let mut sent = None;
        if !paused {
            heart.take(now, std::mem::take(&mut self.hosts[host].port.words));
            let still = heart.turn_since.map_or(Span::ZERO, |since| now.since(since));
            heart.liveness.handle_timeout(now, still, |beat| sent = Some(*beat));
        }
        let every = self.scenario.detection.hearing().every;
        self.agenda
            .push(heart.liveness.next_deadline().max(now + every), Happening::Beat { node: host, life });
        self.show(host, heart);
        if let Some(beat) = sent {
            self.send_datagram(host, beat);
        }
    }

    /// What heartbeats say is there for the process to see.
    fn show(&mut self, host: usize, heart: Heart) {
        let Port { evidence, .. } = &mut self.hosts[host].port;
        *evidence = heart.liveness.evidence();
        self.hosts[host].heart = Some(heart);
    }

    fn send_datagram(&mut self, from: usize, beat: Beat) {
        let to = 1 - from;
        let delay = self.latency(from, to);
        let lost = self.is_lost(from);
        if lost || self.network.partitions.is_blocked(from, to) {
            return;
        }
        let datagram = Datagram { to, beat };
        let number = match self.free_datagrams.pop() {
            Some(number) => {
                self.datagrams[number as usize] = datagram;
                number
            }
            None => {
                self.datagrams.push(datagram);
                self.datagrams.len() as u32 - 1
            }
        };
        self.agenda.push(self.now + delay, Happening::Datagram { number });
    }

    /// Whether a piece of what one broker sends the other is lost.
    pub(crate) fn is_lost(&mut self, from: usize) -> bool {
        let ppm = self.scenario.pair_loss_ppm;
        ppm > 0 && self.hosts[from].machine.random.u32(0..1_000_000) < ppm
    }

    /// A heartbeat reaches a host.
    pub(crate) fn datagram(&mut self, number: u32) {
        self.free_datagrams.push(number);
        let Datagram { to, beat } = self.datagrams[number as usize];
        if self.network.partitions.is_blocked(1 - to, to) || !self.hosts[to].machine.is_up() {
            return;
        }
        let (now, paused) = (self.now, self.hosts[to].machine.is_paused());
        let Some(mut heart) = self.hosts[to].heart.take() else { return };
        if !paused {
            heart.take(now, std::mem::take(&mut self.hosts[to].port.words));
            heart.liveness.handle_datagram(now, &beat);
        } else if heart.waiting.len() < WAITING_MAX {
            heart.waiting.push(beat);
        }
        self.show(to, heart);
    }
}
