//! A host without its programs: its clock, its processor, and which life of its process it is.

use crate::Clock;
use crate::hash;
use contract::{Span, Time};

/// A host with one process, whatever that is. The world around it puts down when a turn ends and when it wakes; what was put down for an
/// earlier life of the process is void.
#[derive(Clone, Debug)]
pub struct Machine {
    /// What people call it.
    pub name: String,
    /// What its process takes for the time.
    pub clock: Clock,
    /// Chance, of its own: what others do does not change what happens to it.
    pub random: fastrand::Rng,
    up: bool,
    life: u32,
    /// Its process stands still.
    paused: bool,
    /// A turn is under way; its end is on the agenda.
    busy: bool,
    /// A turn has ended while the process stood still.
    end_due: bool,
    /// Its processor takes so many times as long.
    slow: u32,
    /// The earliest wake-up on the agenda.
    wake_at: Time,
}

impl Machine {
    /// A host that runs, without a process so far. `seed` is that of the run.
    pub fn new(name: &str, clock: Clock, seed: u64) -> Machine {
        Machine {
            name: name.to_owned(),
            clock,
            random: fastrand::Rng::with_seed(hash::bytes(seed, name.as_bytes())),
            up: true,
            life: 0,
            paused: false,
            busy: false,
            end_due: false,
            slow: 1,
            wake_at: Time::NEVER,
        }
    }

    /// What its clock shows.
    pub fn local(&self, now: Time) -> Time {
        self.clock.local(now)
    }

    /// Whether the host itself runs.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// The host goes down with all that runs there.
    pub fn go_down(&mut self) {
        self.up = false;
    }

    /// A process starts, and before it the host if that was down. Returns whether it was.
    pub fn start(&mut self) -> bool {
        self.life += 1;
        (self.paused, self.busy, self.end_due) = (false, false, false);
        (self.slow, self.wake_at) = (1, Time::NEVER);
        !std::mem::replace(&mut self.up, true)
    }

    /// Which life of its process it is, or was.
    pub fn life(&self) -> u32 {
        self.life
    }

    /// Its process stands still.
    pub fn pause(&mut self) {
        self.paused = true;
    }

    /// Whether its process stands still.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Its process goes on. Returns whether a turn has ended meanwhile, or `None` if it did not stand still.
    pub fn resume(&mut self) -> Option<bool> {
        std::mem::take(&mut self.paused).then(|| std::mem::take(&mut self.end_due))
    }

    /// Its processor takes so many times as long from now on; at its own pace with 1.
    pub fn slow_down(&mut self, times: u32) {
        self.slow = times.max(1);
    }

    /// How many times as long as usual its processor takes.
    pub fn slow(&self) -> u32 {
        self.slow
    }

    /// How long its processor takes for this.
    pub fn takes(&self, cost: Span) -> Span {
        cost * u64::from(self.slow)
    }

    /// Whether its process can take a turn now: it does not stand still, and takes none.
    pub fn can_turn(&self) -> bool {
        !self.paused && !self.busy
    }

    /// A turn is under way until [`Machine::end_turn`].
    pub fn begin_turn(&mut self) {
        self.busy = true;
    }

    /// The time of a turn is over. `false`: its process stands still, and the turn ends when that goes on.
    pub fn may_end_turn(&mut self) -> bool {
        self.end_due |= self.paused;
        !self.paused
    }

    /// The turn is over.
    pub fn end_turn(&mut self) {
        self.busy = false;
    }

    /// Its process wants to be woken then. `false`: it is, by then.
    pub fn wake_by(&mut self, at: Time) -> bool {
        let sooner = at < self.wake_at;
        if sooner {
            self.wake_at = at;
        }
        sooner
    }

    /// A wake-up has come. `false`: an earlier one has been put down since.
    pub fn wakes(&mut self, now: Time) -> bool {
        let due = self.wake_at == now;
        if due {
            self.wake_at = Time::NEVER;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine::new("a", Clock::new(Time(0), Span::ZERO, 0), 1)
    }

    #[test]
    fn a_turn_that_ends_while_the_process_stands_still_ends_when_it_goes_on() {
        let mut machine = machine();
        machine.start();
        machine.begin_turn();
        machine.pause();
        assert!(!machine.can_turn() && !machine.may_end_turn());
        assert_eq!(machine.resume(), Some(true));
        assert_eq!(machine.resume(), None);
        machine.end_turn();
        assert!(machine.can_turn() && machine.may_end_turn());
    }

    #[test]
    fn only_the_earliest_wake_up_counts() {
        let mut machine = machine();
        machine.start();
        assert!(machine.wake_by(Time(9)) && machine.wake_by(Time(5)) && !machine.wake_by(Time(7)));
        assert!(machine.wakes(Time(5)) && !machine.wakes(Time(9)));
    }

    #[test]
    fn another_life_knows_nothing_of_the_one_before() {
        let mut machine = machine();
        assert!(!machine.start());
        let life = machine.life();
        machine.slow_down(3);
        machine.pause();
        machine.wake_by(Time(9));
        machine.go_down();
        assert!(!machine.is_up() && machine.start() && machine.is_up());
        assert!(machine.life() != life && machine.can_turn() && !machine.wakes(Time(9)));
        assert_eq!(machine.takes(Span(5)), Span(5));
    }
}
